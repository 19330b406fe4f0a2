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
func serve(_ connection: CInt, on loop: RunLoop, _ counter: Counter) async {
    defer { close(connection) }
    var received: [UInt8] = []
    var portion = [UInt8](repeating: 0, count: 4096)
    for await _ in loop.readiness(of: connection) {
        let count = read(connection, &portion, portion.count)
        if count < 0 && (errno == EAGAIN || errno == EINTR) { continue }
        if count <= 0 { return }
        received += portion[..<count]
        while let end = received.firstIndex(of: UInt8(ascii: "\n")) {
            let answer = await Array("\(counter.next()): ".utf8) + received[...end]
            received.removeSubrange(...end)
            guard await reply(answer, through: connection, on: loop) else { return }
        }
        // No line is so long.
        if received.count > 65536 { return }
    }
}

/// Writes all of it; waits while the other end is slow. False if the connection is over.
func reply(_ bytes: [UInt8], through connection: CInt, on loop: RunLoop) async -> Bool {
    var rest = bytes[...]
    var room = loop.readiness(of: connection, for: .write).makeAsyncIterator()
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { send(connection, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
        if count >= 0 {
            rest = rest.dropFirst(count)
        } else if errno == EAGAIN {
            if await room.next() == nil { return false }
        } else if errno != EINTR {
            return false
        }
    }
    return true
}

@main
struct LineServer {
    static func main() async throws {
        let worker = RunLoopThread(name: "server")
        try worker.start()
        let loop = worker.loop
        let port = CommandLine.arguments.count > 1 ? UInt16(CommandLine.arguments[1]) ?? 0 : 0
        guard let address = RunLoop.Socket.Address.ipv4("127.0.0.1", port: port) else { return }
        let connections = try loop.connections(at: address, reusesAddress: true)
        let counter = Counter(on: loop)
        let signals = loop.signals(SIGINT, SIGTERM)
        say("listening on port \(connections.address?.port ?? 0)")

        let server = Task(executorPreference: loop.executor) {
            await withDiscardingTaskGroup { group in
                for await connection in connections {
                    group.addTask { await serve(connection.descriptor, on: loop, counter) }
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
