// SPDX-License-Identifier: MIT
// An actor that lives on a worker's run loop and is fed by a socket: the loop calls the source on the actor's own thread, so
// what it reads goes into the actor's state without a lock and without a hop.
import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

actor Receiver {
    private nonisolated let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private var buffer: [UInt8] = []
    private var lines: [String] = []
    private var end: CheckedContinuation<[String], Never>?
    private var isOver = false

    init(on loop: RunLoop) { executor = loop.executor }

    /// Watches the socket on the loop.
    nonisolated func watch(_ socket: CInt, on loop: RunLoop) {
        let source = RunLoop.Source(descriptor: socket) { source in
            self.assumeIsolated { $0.receive(from: socket, source) }
        }
        loop.add(source, forMode: .common)
    }

    private func receive(from socket: CInt, _ source: RunLoop.Source) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = read(socket, &bytes, bytes.count)
        guard count > 0 else {
            source.invalidate()
            close(socket)
            isOver = true
            end?.resume(returning: lines)
            return
        }
        buffer += bytes.prefix(count)
        while let newline = buffer.firstIndex(of: 10) {
            lines.append(String(decoding: buffer[..<newline], as: UTF8.self))
            buffer.removeSubrange(...newline)
        }
    }

    /// All lines, once the other side has closed its end.
    func allLines() async -> [String] {
        if isOver { return lines }
        return await withCheckedContinuation { end = $0 }
    }
}

@main
struct Program {
    static func main() async throws {
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0 else { fatalError("no sockets") }
        let (ours, theirs) = (ends[0], ends[1])

        let worker = RunLoopThread(name: "receiver")
        try worker.start()
        let receiver = Receiver(on: worker.loop)
        receiver.watch(ours, on: worker.loop)

        for number in 1...3 {
            let line = "line \(number)\n"
            _ = line.utf8.withContiguousStorageIfAvailable { write(theirs, $0.baseAddress, $0.count) }
        }
        close(theirs)

        for line in await receiver.allLines() { print(line) }
        await worker.finish()
        print("the worker has ended")
    }
}
