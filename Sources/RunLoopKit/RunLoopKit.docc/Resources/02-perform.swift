import RunLoopKit

@main
struct Tutorial {
    static func main() async throws {
        let worker = RunLoopThread(name: "worker")
        try worker.start()

        worker.loop.perform { print("performed on the worker") }
        worker.loop.wakeUp()
        let sum = try await worker.loop.call { (1...10).reduce(0, +) }
        print("the worker says \(sum)")

        await worker.finish()
        print("the worker has ended")
    }
}
