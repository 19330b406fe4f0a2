// SPDX-License-Identifier: MIT
// An echo server for many clients on one thread: connections come as a sequence of the loop's, and each is a stream of bytes that a
// task of its own reads and writes. A client that does not read keeps only its own task waiting. SIGTERM ends the server in order:
// every client gets what was read of it, and ten seconds to end. The argument is the port (0: any, which it prints).
import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Sends back what comes until the peer's end, or until the server ends.
func echo(_ stream: RunLoop.ByteStream, on loop: RunLoop) async {
    await withTaskCancellationHandler {
        do {
            for try await chunk in stream { try await stream.write(chunk) }
        } catch {
            // The peer is gone, or the task was cancelled: what it has read is written by now.
        }
        await stream.finish(within: .seconds(10))
    } onCancel: {
        // A cancellation leaves a write alone, which would wait for ever for a peer that does not read.
        loop.add(Timer(timeInterval: .seconds(10), repeats: false) { _ in stream.close() }, forMode: .common)
    }
}

@main
struct EchoServer {
    static func main() async throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)

        let worker = RunLoopThread(name: "server")
        try worker.start()
        let loop = worker.loop
        let port = CommandLine.arguments.count > 1 ? UInt16(CommandLine.arguments[1]) ?? 0 : 0
        guard let address = RunLoop.Socket.Address.ipv4("127.0.0.1", port: port) else { return }
        let connections = try loop.connections(at: address, options: [.reusesAddress, .noDelay], backlog: 4096)
        let signals = loop.signals(SIGINT, SIGTERM)
        print("listening on port \(connections.address?.port ?? 0)")
        fflush(nil)

        let server = Task(executorPreference: loop.executor) {
            var served = 0
            await withDiscardingTaskGroup { group in
                for await connection in connections {
                    served += 1
                    group.addTask { await echo(connection.stream(on: loop), on: loop) }
                }
                group.cancelAll()
            }
            return served
        }
        for await _ in signals { break }
        connections.finish()
        print("served \(await server.value) connections")
        await worker.finish()
    }
}
