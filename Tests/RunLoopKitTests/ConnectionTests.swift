// SPDX-License-Identifier: MIT
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

/// A sequence at an address that another one may have had. A process that another test is starting has this one's sockets until it executes
/// its program, and the address is free when that has closed them.
private func listening(at address: RunLoop.Socket.Address, on loop: RunLoop) async throws -> ConnectionSequence {
    while true {
        do throws(RunLoop.SystemError) { return try loop.connections(at: address) } catch {
            guard error.code == EADDRINUSE else { throw error }
            try await Task.sleep(for: .milliseconds(1))
        }
    }
}

/// Returns when nobody listens at the address, so that a connection is refused.
private func untilRefused(at address: RunLoop.Socket.Address) async throws {
    while true {
        let descriptor = connected(to: address)
        if descriptor < 0 { return }
        close(descriptor)
        try await Task.sleep(for: .milliseconds(1))
    }
}

/// From now on, for ever, the kernel refuses the calling thread to accept a connection.
private func refuseToAccept() -> Bool {
    #if arch(x86_64)
    let accept4: UInt32 = 288
    #else
    let accept4: UInt32 = 242
    #endif
    struct Instruction {
        var code: UInt16
        var ifTrue: UInt8 = 0, ifFalse: UInt8 = 0
        var operand: UInt32
    }
    struct Program {
        var count: UInt16
        var instructions: UnsafeMutablePointer<Instruction>?
    }
    // Load the number of the call; if it is accept4 answer with EPERM, else allow it.
    var instructions = [
        Instruction(code: 0x20, operand: 0), Instruction(code: 0x15, ifFalse: 1, operand: accept4),
        Instruction(code: 0x06, operand: 0x50000 | UInt32(EPERM)), Instruction(code: 0x06, operand: 0x7fff_0000),
    ]
    return instructions.withUnsafeMutableBufferPointer { instructions in
        var program = Program(count: UInt16(instructions.count), instructions: instructions.baseAddress)
        // PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
        return withUnsafePointer(to: &program) { control(38, 1, 0, 0, 0) == 0 && control(22, 2, UInt(bitPattern: $0), 0, 0) == 0 }
    }
}

@_silgen_name("prctl") private func control(_ option: CInt, _ a: UInt, _ b: UInt, _ c: UInt, _ d: UInt) -> CInt

/// A loopback address that no other test listens at, so that nobody takes a port that has become free.
private let here = RunLoop.Socket.Address.ipv4("127.86.0.1", port: 0)!

/// A stream over one end of a pair of sockets, and the other end, which the caller closes.
private func streamAndPeer(on loop: RunLoop) -> (stream: RunLoop.ByteStream, peer: CInt) {
    var ends: [CInt] = [0, 0]
    #expect(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
    return (RunLoop.ByteStream(takingOver: ends[0], on: loop), ends[1])
}

@Suite(.timeLimit(.minutes(10))) struct ConnectionTests {
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
        try await untilRefused(at: address)
        await thread.finish()
    }

    @Test("The sequence ends by a cancellation, with the loop's thread, by finish in another task, and gives its address back")
    func ends() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let name = RunLoop.Socket.Address.abstract("connections.\(getpid())")!
        for round in 0..<30 {
            let sequence = try await listening(at: name, on: thread.loop)
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
        let last = try await listening(at: name, on: thread.loop)
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
        for _ in 0..<10 { _ = try await listening(at: name, on: thread.loop) }
        var iterator = thread.loop.connections(takingOver: Pipe().detachedReadEnd).makeAsyncIterator()
        #expect(await iterator.next() == nil)
        var nothing = thread.loop.connections(takingOver: -1).makeAsyncIterator()
        #expect(await nothing.next() == nil)
        await thread.finish()
        // The loop has ended, so there is nobody to watch.
        var late = try await listening(at: name, on: thread.loop).makeAsyncIterator()
        #expect(await late.next() == nil)
    }

    @Test("Where the kernel refuses to accept, the sequence tries again ten times a second at most, until it is cancelled")
    func refused() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let sequence = try thread.loop.connections(at: here)
        let peer = connected(to: try #require(sequence.address))
        #expect(peer >= 0)
        let clock = ContinuousClock()
        let start = clock.now
        let task = Task(executorPreference: thread.loop.executor) { () -> Int in
            #expect(refuseToAccept())
            var count = 0
            for await _ in sequence { count += 1 }
            return count
        }
        // A try takes a few passes.
        while thread.loop.statistics.passes < 60 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(clock.now - start > .milliseconds(250))
        task.cancel()
        #expect(await task.value == 0)
        close(peer)
        await thread.finish()
    }
}

extension Pipe {
    /// A descriptor that is the caller's to close.
    fileprivate var detachedReadEnd: CInt { dup(readEnd) }

    @Test("Streams echo what many clients send, also when all of it comes before any of it is read")
    func streams() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let sequence = try loop.connections(at: here)
        let address = try #require(sequence.address)
        let server = Task {
            await withDiscardingTaskGroup { group in
                for await connection in sequence {
                    group.addTask {
                        let stream = connection.stream(on: loop)
                        do { for try await chunk in stream { try await stream.write(chunk) } } catch {}
                        await stream.finish()
                    }
                }
            }
        }
        let much = (0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 2_654_435_761 >> 13) }
        await withDiscardingTaskGroup { group in
            for _ in 0..<3 {
                group.addTask {
                    let client = RunLoop.ByteStream(takingOver: connected(to: address), on: loop)
                    async let sent: Void? = try? await client.write(much)
                    var received: [UInt8] = []
                    do {
                        while received.count < much.count {
                            let chunk = try await client.read()
                            if chunk.isEmpty { break }
                            received += chunk
                        }
                    } catch {
                        Issue.record("reading: \(error)")
                    }
                    _ = await sent
                    // Not the difference of two long arrays.
                    let isSame = received == much
                    #expect(isSame && received.count == much.count)
                    client.finishWriting()
                    #expect(try! await client.read() == [])
                    client.close()
                }
            }
        }
        sequence.finish()
        await server.value
        await thread.finish()
    }

    @Test("A cancellation ends reading, not writing; a close ends both, and so does a limit of time for the peer's end")
    func streamEnds() async throws {
        let thread = RunLoopThread()
        try thread.start()
        var ends: [CInt] = [0, 0]
        socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
        let one = RunLoop.ByteStream(takingOver: ends[0], on: thread.loop)
        let other = RunLoop.ByteStream(takingOver: ends[1], on: thread.loop)
        let reader = Task { () -> RunLoop.SystemError? in
            do throws(RunLoop.SystemError) { _ = try await one.read() } catch {
                // Also in a task that was cancelled.
                try? await one.write([1, 2, 3])
                return error
            }
            return nil
        }
        reader.cancel()
        #expect(await reader.value == RunLoop.SystemError(code: ECANCELED))
        let bytes = try await other.read()
        // A program may keep what it has read.
        #expect(bytes == [1, 2, 3] && bytes.capacity < 1000)
        let finished = Task { await one.finish(within: .milliseconds(1)) }
        #expect(try await other.read() == [])
        await finished.value
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await one.write([1]) }
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await one.write([]) }
        // Nothing is sent, and the peer's end is not noticed.
        try await other.write([])
        let writer = Task { () -> RunLoop.SystemError? in
            do throws(RunLoop.SystemError) { while true { try await other.write([UInt8](repeating: 0, count: 1 << 20)) } } catch {
                return error
            }
        }
        #expect(await writer.value?.code == EPIPE)
        other.close()
        other.close()
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await other.read() }
        await other.finish()
        await thread.finish()
    }

    @Test("A cancelled task reads nothing, though bytes are there: they stay in the socket, and no read waits any more")
    func cancelledRead() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let (stream, peer) = streamAndPeer(on: thread.loop)
        let count = [UInt8](1...3).withUnsafeBytes { send(peer, $0.baseAddress, $0.count, 0) }
        #expect(count == 3)
        let readers: [@Sendable () async throws -> Void] = [
            { _ = try await stream.read() }, { for try await _ in stream {} }, { while try await !stream.read(atMost: 1).isEmpty {} },
        ]
        for read in readers {
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                try await read()
            }
            await #expect(throws: RunLoop.SystemError(code: ECANCELED)) { try await task.value }
        }
        // What a task does that goes on.
        #expect(try await stream.read(atMost: 2) == [1, 2])
        #expect(try await stream.read() == [3])
        await #expect(throws: RunLoop.SystemError(code: ECANCELED)) { try await stream.read() }
        stream.close()
        let closed = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            _ = try await stream.read()
        }
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await closed.value }
        close(peer)
        await thread.finish()
    }

    @Test("A read of no bytes reads none and does not wait; what is there stays")
    func emptyRead() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let (stream, peer) = streamAndPeer(on: thread.loop)
        let count = [UInt8](1...3).withUnsafeBytes { send(peer, $0.baseAddress, $0.count, 0) }
        #expect(count == 3)
        for count in [0, -1, .min] { #expect(try await stream.read(atMost: count) == []) }
        #expect(try await stream.read() == [1, 2, 3])
        // Where nothing is there, either.
        #expect(try await stream.read(atMost: 0) == [])
        stream.close()
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await stream.read(atMost: 0) }
        close(peer)
        await thread.finish()
    }

    @Test("Several tasks may finish a stream, and all of them wait for the peer's end")
    func finishers() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let executor = thread.loop.executor
        let (stream, peer) = streamAndPeer(on: thread.loop)
        let finishers = (0..<3).map { _ in Task(executorPreference: executor) { await stream.finish() } }
        // It begins after these, which wait by then.
        await Task(executorPreference: executor) {}.value
        close(peer)
        for finisher in finishers { await finisher.value }
        await #expect(throws: RunLoop.SystemError(code: EBADF)) { try await stream.read() }
        await thread.finish()
    }

    /// What tasks on a loop do as long as the loop has not come to a closure that was queued before.
    private func untilLoopGoesOn(_ body: @escaping @Sendable () async throws -> Void) async throws -> Bool {
        let thread = RunLoopThread()
        try thread.start()
        let hasGoneOn = Atomic(false)
        let task = Task(executorPreference: thread.loop.executor) {
            // In the loop's next pass.
            thread.loop.perform { hasGoneOn.store(true, ordering: .releasing) }
            var rounds = 0
            while !hasGoneOn.load(ordering: .acquiring) && rounds < 100_000 {
                try await body()
                rounds += 1
            }
        }
        try await task.value
        let result = hasGoneOn.load(ordering: .acquiring)
        await thread.finish()
        return result
    }

    @Test("A peer that is never waited for does not keep the loop from its other work: reading, writing, taking connections")
    func turns() async throws {
        let thread = RunLoopThread()
        try thread.start()
        var ends: (CInt, CInt) = (0, 0)
        let status = withUnsafeMutableBytes(of: &ends) {
            socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, $0.assumingMemoryBound(to: CInt.self).baseAddress!)
        }
        try #require(status == 0)
        let (stream, peer) = (RunLoop.ByteStream(takingOver: ends.0, on: thread.loop), ends.1)
        #expect(try await untilLoopGoesOn {
            // There is always something to read,
            let bytes = [UInt8](repeating: 1, count: 64)
            _ = bytes.withUnsafeBytes { send(peer, $0.baseAddress, $0.count, 0) }
            _ = try await stream.read()
        })
        #expect(try await untilLoopGoesOn {
            // room for what is written,
            try await stream.write([1])
            var bytes = [UInt8](repeating: 0, count: 64)
            _ = recv(peer, &bytes, bytes.count, 0)
        })
        stream.close()
        close(peer)
        // and a connection to take.
        let sequence = try thread.loop.connections(at: here)
        let address = try #require(sequence.address)
        #expect(try await untilLoopGoesOn {
            var iterator = sequence.makeAsyncIterator()
            let peer = connected(to: address)
            if let connection = await iterator.next() { close(connection.descriptor) }
            close(peer)
        })
        sequence.finish()
        await thread.finish()
    }
}
