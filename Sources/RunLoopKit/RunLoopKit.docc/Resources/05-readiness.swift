import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

actor Counter {
    private let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private var count = 0

    init(on loop: RunLoop) { executor = loop.executor }

    func next() -> Int {
        count += 1
        return count
    }
}

@main
struct Tutorial {
    static func main() async throws {
        let worker = RunLoopThread(name: "worker")
        try worker.start()

        worker.loop.perform { print("performed on the worker") }
        worker.loop.wakeUp()
        let sum = try await worker.loop.call { (1...10).reduce(0, +) }
        print("the worker says \(sum)")

        let counter = Counter(on: worker.loop)
        print("counted \(await counter.next())")

        for await _ in worker.loop.ticks(every: .milliseconds(10)) {
            let count = await counter.next()
            print("tick, counted \(count)")
            if count == 3 { break }
        }

        var ends: [CInt] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        let (input, output) = (ends[0], ends[1])
        worker.loop.perform { _ = write(output, "hello", 5) }
        worker.loop.wakeUp()
        for await _ in worker.loop.readiness(of: input) {
            var bytes = [UInt8](repeating: 0, count: 100)
            let length = read(input, &bytes, bytes.count)
            print("read \(String(decoding: bytes.prefix(length), as: UTF8.self))")
            break
        }

        await worker.finish()
        print("the worker has ended")
    }
}
