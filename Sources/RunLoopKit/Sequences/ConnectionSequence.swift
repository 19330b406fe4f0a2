// SPDX-License-Identifier: MIT
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop {
    /// The connections that peers make to an address, as a sequence.
    ///
    ///     for await connection in try loop.connections(at: .ipv4("127.0.0.1", port: 7000)!) {
    ///         Task {
    ///             let stream = connection.stream(on: loop)
    ///             for try await chunk in stream { try await stream.write(chunk) }
    ///             await stream.finish()
    ///         }
    ///     }
    ///
    /// A connection is accepted when the consumer asks for one. The others wait in the system, which refuses further ones when its
    /// queue is full; so a busy server accepts no more than it can serve. The sequence ends with
    /// ``ConnectionSequence/finish()``, when the task that iterates is cancelled and when the loop's thread ends. If no
    /// descriptor is available the sequence waits for one.
    ///
    /// - Parameters:
    ///   - address: where to listen, from this call on. With port 0 the system chooses a port, which
    ///     ``ConnectionSequence/address`` contains.
    ///   - options: by default the address may be used while connections of an earlier server linger there.
    ///   - backlog: how many connections may wait to be accepted.
    ///   - mode: the mode in which the loop watches.
    /// - Returns: a sequence for one consumer, which listens until it is over, or until it and its iterator are released.
    /// - Throws: the system's error if the address cannot be used.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: `CFSocket`, with a callback for each connection.
    public func connections(
        at address: Socket.Address, options: Socket.Options = .reusesAddress, backlog: Int = 256, forMode mode: Mode = .common
    ) throws(SystemError) -> ConnectionSequence {
        let socket = try Socket(family: address.family, callBackTypes: []) { _, _ in }
        defer { socket.invalidate() }
        try socket.listen(at: address, options: options, backlog: backlog)
        guard let descriptor = socket.nativeDescriptor else { throw SystemError(code: EBADF) }
        // From here on it is the sequence's.
        socket.flags = []
        socket.invalidate()
        return connections(takingOver: descriptor, forMode: mode)
    }

    /// The connections to a socket that listens already, for instance one from a parent process.
    ///
    /// - Parameters:
    ///   - descriptor: that of a socket that listens. It belongs to the sequence, which makes it non-blocking and closes
    ///     it at its end.
    ///   - mode: the mode in which the loop watches.
    /// - Returns: a sequence for one consumer; for a descriptor that does not listen, one that ends when its first
    ///   element is requested.
    /// - Threads: any; the loop has to be run by its thread.
    public func connections(takingOver descriptor: CInt, forMode mode: Mode = .common) -> ConnectionSequence {
        let flags = fcntl(descriptor, F_GETFL)
        if flags >= 0 { _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) }
        return ConnectionSequence(listener: ConnectionListener(self, descriptor, mode))
    }
}

/// What ``RunLoop/connections(at:options:backlog:forMode:)`` returns.
public struct ConnectionSequence: AsyncSequence, Sendable {
    /// An accepted connection.
    public struct Connection: Hashable, Sendable {
        /// Its descriptor, the consumer's to close; it never blocks and is close-on-exec.
        public let descriptor: CInt
        /// The address of the peer.
        public let peer: RunLoop.Socket.Address

        /// The connection as a stream of bytes, which closes the descriptor.
        ///
        /// - Parameters:
        ///   - loop: the loop that waits for it.
        ///   - mode: the mode in which the loop watches.
        public func stream(on loop: RunLoop, forMode mode: RunLoop.Mode = .common) -> RunLoop.ByteStream {
            RunLoop.ByteStream(takingOver: descriptor, on: loop, forMode: mode)
        }
    }

    fileprivate let listener: ConnectionListener

    /// Where the socket listens; nil when the sequence is over.
    public var address: RunLoop.Socket.Address? { listener.address }

    /// Ends the sequence: the socket is closed, and the system refuses further connections; with connections that nobody has accepted, a local
    /// one a moment later (S-NSP-23). A second call does nothing.
    ///
    /// - Threads: any.
    public func finish() { listener.end() }

    /// Returns the only iterator.
    public func makeAsyncIterator() -> Iterator { Iterator(listener: listener) }

    /// Accepts the connections.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let listener: ConnectionListener

        /// The next connection; nil when the sequence is over.
        public mutating func next() async -> Connection? { await next(isolation: #isolation) }

        /// The next connection; nil when the sequence is over.
        public mutating func next(isolation: isolated (any Actor)?) async -> Connection? {
            await listener.next(isolation: isolation)
        }
    }
}

/// The socket of a sequence, which goes with the last of the sequence and its iterator.
private final class ConnectionListener: Sendable {
    private let watch: DescriptorWatch
    /// -1 when the sequence is over. Connections are taken under the lock, so that nobody takes one from a number that is closed.
    private let descriptor: Locked<CInt>
    /// How many were asked for.
    private let asked = Atomic(0)
    /// How many are taken before others on the task's executor go on: where enough connect, the task never waits.
    private static var turn: Int { 16 }

    private enum Outcome {
        case connection(ConnectionSequence.Connection)
        /// None is there, or it went away again.
        case nothing
        /// The process or the system has no descriptor or no memory for it, or the kernel refuses it.
        case noRoom
        case over
    }

    init(_ loop: RunLoop, _ descriptor: CInt, _ mode: RunLoop.Mode) {
        self.descriptor = Locked(descriptor)
        watch = DescriptorWatch(loop, descriptor, .read, mode)
    }

    deinit { end() }

    func end() {
        // Out of the loop before the number can be somebody else's.
        watch.end()
        let descriptor = self.descriptor.withLock { descriptor in
            defer { descriptor = -1 }
            return descriptor
        }
        if descriptor >= 0 { SocketCalls.end(descriptor, isLocal: PeerDescriptors.canCome(through: descriptor)) }
    }

    var address: RunLoop.Socket.Address? {
        var storage = SocketStorage()
        let status = descriptor.withLock { descriptor in storage.fill { getsockname(descriptor, $0, $1) } }
        return status == 0 ? storage.address : nil
    }

    func next(isolation: isolated (any Actor)?) async -> ConnectionSequence.Connection? {
        if asked.add(1, ordering: .relaxed).newValue % Self.turn == 0 { await RunLoopExecutor.yielding(isolation: isolation) }
        while !Task.isCancelled && !watch.isOver {
            switch take() {
            case .connection(let connection): return connection
            case .nothing: if await watch.next(isolation: isolation) == nil { break }
            case .noRoom: await watch.pause(isolation: isolation)
            case .over: end()
            }
        }
        end()
        return nil
    }

    private func take() -> Outcome {
        var storage = SocketStorage()
        let (taken, error) = descriptor.withLock { descriptor -> (CInt, CInt) in
            let flags = CInt(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
            let taken = storage.fill { acceptWithFlags(descriptor, $0, $1, flags) }
            return (taken, errno)
        }
        if taken >= 0 {
            return .connection(ConnectionSequence.Connection(descriptor: taken, peer: storage.address ?? .unknown))
        }
        switch error {
        case EAGAIN, EINTR, ECONNABORTED: return .nothing
        case EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP: return .over
        // No room, or refused by a filter: the connection stays. Some errors are those of a connection, which is over already.
        default: return .noRoom
        }
    }
}

/// Memory for an address as the system calls take it.
private struct SocketStorage {
    private var storage = sockaddr_storage()
    private var length = socklen_t(MemoryLayout<sockaddr_storage>.size)

    mutating func fill(_ body: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> CInt) -> CInt {
        withUnsafeMutableBytes(of: &storage) { bytes in
            body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length)
        }
    }

    /// What was filled in; nil if it has no family.
    var address: RunLoop.Socket.Address? {
        let count = min(Int(length), MemoryLayout<sockaddr_storage>.size)
        return RunLoop.Socket.Address(bytes: withUnsafeBytes(of: storage) { Array($0.prefix(count)) })
    }
}
