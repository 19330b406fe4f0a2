import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A connection to an address, made by the test's own hands.
private func connected(to address: RunLoop.Socket.Address) -> CInt {
    let descriptor = socket(address.family, CInt(SOCK_STREAM.rawValue), 0)
    let status = address.bytes.withUnsafeBytes { bytes in
        connect(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
    }
    if status == 0 { return descriptor }
    close(descriptor)
    return -1
}

private let here = RunLoop.Socket.Address.ipv4("127.0.0.1", port: 0)!

@Suite struct ConnectionTests {
    @Test("Connections come as a sequence, each with its descriptor and its peer, and none that is not asked for is taken")
    func connections() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let sequence = try thread.loop.connections(at: here)
        let address = try #require(sequence.address)
        #expect(address.port != 0)
        let peers = (0..<10).map { _ in connected(to: address) }
        #expect(peers.allSatisfy { $0 >= 0 })
        var iterator = sequence.makeAsyncIterator()
        for _ in peers {
            let connection = try #require(await iterator.next())
            #expect(connection.peer.host == "127.0.0.1")
            #expect(fcntl(connection.descriptor, F_GETFD) & FD_CLOEXEC != 0)
            #expect(fcntl(connection.descriptor, F_GETFL) & O_NONBLOCK != 0)
            close(connection.descriptor)
        }
        for peer in peers { close(peer) }
        sequence.finish()
        #expect(await iterator.next() == nil)
        #expect(sequence.address == nil)
        #expect(connected(to: address) < 0)
        await thread.finish()
    }

    @Test("The sequence ends by a cancellation, with the loop's thread, by finish in another task, and gives its address back")
    func ends() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let name = RunLoop.Socket.Address.abstract("connections.\(getpid())")!
        for round in 0..<30 {
            let sequence = try thread.loop.connections(at: name)
            let task = Task { () -> Int in
                var count = 0
                for await connection in sequence {
                    close(connection.descriptor)
                    count += 1
                }
                return count
            }
            for _ in 0..<round % 5 { await Task.yield() }
            if round % 2 == 0 { task.cancel() } else { sequence.finish() }
            #expect(await task.value == 0)
        }
        let last = try thread.loop.connections(at: name)
        #expect(throws: RunLoop.SystemError(code: EADDRINUSE)) { try thread.loop.connections(at: name) }
        let task = Task { for await _ in last {} }
        await Task.yield()
        await thread.finish()
        await task.value
        #expect(last.address == nil)
    }

    @Test("A sequence that is let go of listens no more, and one of a descriptor that does not listen is over")
    func letGo() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let name = RunLoop.Socket.Address.abstract("let-go.\(getpid())")!
        for _ in 0..<10 { _ = try thread.loop.connections(at: name) }
        var iterator = thread.loop.connections(takingOver: Pipe().detachedReadEnd).makeAsyncIterator()
        #expect(await iterator.next() == nil)
        var nothing = thread.loop.connections(takingOver: -1).makeAsyncIterator()
        #expect(await nothing.next() == nil)
        await thread.finish()
        // The loop has ended, so there is nobody to watch.
        var late = try thread.loop.connections(at: name).makeAsyncIterator()
        #expect(await late.next() == nil)
    }
}

extension Pipe {
    /// A descriptor that is the caller's to close.
    fileprivate var detachedReadEnd: CInt { dup(readEnd) }
}
