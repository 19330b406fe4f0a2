// SPDX-License-Identifier: MIT
// A server of lines: connections come as a sequence of the loop's, each is served by a task of its own on the loop's thread, and a
// signal ends the program in order. Talk to it with nc: it answers each line with the line and its number.
import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Shows a line at once, also if the output is a pipe.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

/// The lines of all connections, counted on the loop's thread.
actor Counter {
    private let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private(set) var lines = 0

    init(on loop: RunLoop) { executor = loop.executor }

    func next() -> Int {
        lines += 1
        return lines
    }
}

/// Answers the lines of one connection until the other end closes it. Nothing here blocks the thread.
func serve(_ stream: RunLoop.ByteStream, _ counter: Counter) async {
    var received: [UInt8] = []
    do {
        for try await portion in stream {
            received += portion
            while let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                let answer = await Array("\(counter.next()): ".utf8) + received[...end]
                received.removeSubrange(...end)
                try await stream.write(answer)
            }
            // No line is so long.
            if received.count > 65536 { return stream.close() }
        }
    } catch {
        // The peer is gone, or the server ends.
    }
    await stream.finish(within: .seconds(1))
}

@main
struct LineServer {
    static func main() async throws {
        let worker = RunLoopThread(name: "server")
        try worker.start()
        let loop = worker.loop
        let port = CommandLine.arguments.count > 1 ? UInt16(CommandLine.arguments[1]) ?? 0 : 0
        guard let address = RunLoop.Socket.Address.ipv4("127.0.0.1", port: port) else { return }
        let connections = try loop.connections(at: address)
        let counter = Counter(on: loop)
        let signals = loop.signals(SIGINT, SIGTERM)
        say("listening on port \(connections.address?.port ?? 0)")

        let server = Task(executorPreference: loop.executor) {
            await withDiscardingTaskGroup { group in
                for await connection in connections {
                    group.addTask { await serve(connection.stream(on: loop), counter) }
                }
                // Those that are still served are told to end.
                group.cancelAll()
            }
        }
        for await _ in signals { break }
        connections.finish()
        await server.value
        say("served \(await counter.lines) lines")
        await worker.finish()
    }
}
