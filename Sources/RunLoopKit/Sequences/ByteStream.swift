// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop {
    /// A connection that one task reads and one writes, without blocking a thread.
    ///
    ///     for try await chunk in stream { try await stream.write(chunk) }
    ///     await stream.finish()
    ///
    /// Nothing is queued: ``write(_:)`` returns when the system has taken everything, so a task that serves a slow peer
    /// reads no more from it meanwhile, and the tasks of other peers go on. Iterating is reading: the elements are what is there, in
    /// portions, until the peer's end.
    ///
    /// A cancellation ends the wait of a read, with `ECANCELED`, and reading with it: a cancelled task reads nothing, also where the peer goes
    /// on sending, and after that no read waits. What has come stays in the socket. It does not end ``write(_:)`` and
    /// ``finish(within:)``: bytes that were read can still be answered. ``close()`` ends everything.
    ///
    /// Descriptors that come through a local socket are closed, and hold nobody up (S-NSP-23). Urgent bytes of one are read in their order.
    ///
    /// - Threads: any; the loop has to be run by its thread. One task at a time may read, and one may write; any may finish and close.
    /// - Foundation, CF: `CFStream`, which is not part of this library.
    public final class ByteStream: AsyncSequence, Sendable {
        private struct State: Sendable {
            /// -1 once it is closed. It is used under the lock, so that nobody reads from a number that is another file's.
            var descriptor: CInt
            /// What waits for room; made when there is something to wait for.
            var output: DescriptorWatch?
            /// What waits for the peer's end: each call of `finish` has one, because several tasks may be at their end.
            var rests: [DescriptorWatch] = []
            /// What was received, and what was sent, since the task that does it let others go on.
            var received = 0, sent = 0
        }

        /// How much goes through without a wait before others on the task's executor go on. A peer that is fast enough never makes the
        /// task wait.
        private static var turn: Int { 1 << 18 }

        /// A lock is held for no longer than such a portion takes to be copied.
        private static var portion: Int { 1 << 18 }

        private let state: Locked<State>
        /// Whether the peer may send descriptors, which are closed.
        private let isLocal: Bool
        private let input: DescriptorWatch
        private let loop: RunLoop
        private let mode: Mode

        /// Makes a stream of a connected socket, which becomes non-blocking and is closed with the stream.
        ///
        /// - Parameters:
        ///   - descriptor: that of the socket.
        ///   - loop: the loop that waits for it.
        ///   - mode: the mode in which the loop watches.
        public init(takingOver descriptor: CInt, on loop: RunLoop, forMode mode: Mode = .common) {
            let flags = fcntl(descriptor, F_GETFL)
            if flags >= 0 && flags & O_NONBLOCK == 0 { _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) }
            state = Locked(State(descriptor: descriptor))
            isLocal = PeerDescriptors.canCome(through: descriptor)
            if isLocal { PeerDescriptors.prepare(descriptor) }
            self.loop = loop
            self.mode = mode
            input = DescriptorWatch(loop, descriptor, .read, mode)
        }

        deinit { close() }

        /// Reads what is there, or waits for it.
        ///
        /// - Parameter count: how many bytes at most; of zero or less it is only checked that the stream is open.
        /// - Returns: one byte at least; none at the peer's end, and where none were asked for.
        /// - Throws: the system's error; `ECANCELED` in a cancelled task, whether or not bytes are there, and instead of a wait after that or
        ///   after the end of the loop's thread; `EBADF` after ``close()``.
        nonisolated(nonsending) public func read(atMost count: Int = 65536) async throws(SystemError) -> [UInt8] {
            while true {
                // First, because a peer that never pauses would not let the task wait.
                if Task.isCancelled {
                    input.end()
                    throw over
                }
                if count <= 0 {
                    if isClosed { throw over }
                    return []
                }
                if let bytes = try receive(count) {
                    if isTurnOver(after: bytes.count, at: \.received) { await RunLoopExecutor.yielding(isolation: #isolation) }
                    return bytes
                }
                if await input.next(isolation: #isolation) == nil { throw over }
            }
        }

        /// Writes all bytes, and waits for as long as the peer is slow.
        ///
        /// - Parameter bytes: what to send; of none it is only checked that the stream is open.
        /// - Throws: the system's error, and some of the bytes may have been sent; `EBADF` after ``close()``.
        nonisolated(nonsending) public func write(_ bytes: [UInt8]) async throws(SystemError) {
            if bytes.isEmpty && isClosed { throw over }
            var sent = 0
            while sent < bytes.count {
                if let count = try send(bytes[sent...].prefix(Self.portion)) {
                    sent += count
                    if isTurnOver(after: count, at: \.sent) { await RunLoopExecutor.yielding(isolation: #isolation) }
                } else if await roomWatch()?.nextEvenIfCancelled(isolation: #isolation) == nil {
                    throw over
                }
            }
        }

        /// Ends the sending half; reading goes on.
        public func finishWriting() { state.withLock { _ = shutdown($0.descriptor, CInt(SHUT_WR)) } }

        /// Ends the connection in order: ends the sending half, drops what still comes, and closes when the peer ends.
        ///
        /// A descriptor that is closed with unread bytes resets the connection, and what was written may be lost.
        ///
        /// - Parameter limit: how long to wait for the peer; nil for no limit.
        nonisolated(nonsending) public func finish(within limit: Duration? = nil) async {
            finishWriting()
            let timer = limit.map { limit in Timer.add(to: loop, forMode: mode, after: limit, repeats: false) { [self] _ in close() } }
            var rest: DescriptorWatch?
            while true {
                do throws(SystemError) {
                    if let bytes = try receive(65536) {
                        if bytes.isEmpty { break }
                        if isTurnOver(after: bytes.count, at: \.received) { await RunLoopExecutor.yielding(isolation: #isolation) }
                    } else {
                        if rest == nil { rest = watch(.read) { $0.rests.append($1) } }
                        if await rest?.nextEvenIfCancelled(isolation: #isolation) == nil { break }
                    }
                } catch { break }
            }
            timer?.invalidate()
            close()
        }

        /// Closes the descriptor; a waiting call gets `EBADF`. A second call does nothing. The peer of a local socket may see the end a moment
        /// later (S-NSP-23).
        public func close() {
            // First, so that a call whose wait ends here sees that the stream is closed.
            let former = state.withLock { state in
                defer { state = State(descriptor: -1) }
                return state
            }
            // Out of the loop before the number can be somebody else's.
            input.end()
            former.output?.end()
            for rest in former.rests { rest.end() }
            if former.descriptor >= 0 { SocketCalls.end(former.descriptor, isLocal: isLocal) }
        }

        /// Whether the task should let others go on now that it has moved so many bytes without a wait; few bytes take time, too.
        private func isTurnOver(after count: Int, at place: WritableKeyPath<State, Int> & Sendable) -> Bool {
            state.withLock { state in
                state[keyPath: place] += Swift.max(count, Self.turn / 64)
                if state[keyPath: place] < Self.turn { return false }
                state[keyPath: place] = 0
                return true
            }
        }

        /// What waits for room; nil once the stream is closed.
        private func roomWatch() -> DescriptorWatch? {
            state.withLock { $0.output } ?? watch(.write) { $0.output = $1 }
        }

        /// A new watch, which is stored; nil once the stream is closed.
        private func watch(_ interest: Readiness, store: (inout State, DescriptorWatch) -> Void) -> DescriptorWatch? {
            let descriptor = state.withLock { $0.descriptor }
            if descriptor < 0 { return nil }
            let made = DescriptorWatch(loop, descriptor, interest, mode)
            let isOpen = state.withLock { state in
                if state.descriptor >= 0 { store(&state, made) }
                return state.descriptor >= 0
            }
            if !isOpen { made.end() }
            return isOpen ? made : nil
        }

        private var isClosed: Bool { state.withLock { $0.descriptor } < 0 }

        private var over: SystemError { SystemError(code: isClosed ? EBADF : ECANCELED) }

        /// Nil if nothing is there.
        private func receive(_ count: Int) throws(SystemError) -> [UInt8]? {
            var result = 0
            var error: CInt = 0
            var descriptors: [CInt] = []
            let bytes = [UInt8](unsafeUninitializedCapacity: Swift.max(Swift.min(count, Self.portion), 1)) { bytes, length in
                (result, error, descriptors) = state.withLock { state in
                    if isLocal { return PeerDescriptors.receive(state.descriptor, into: UnsafeMutableRawBufferPointer(bytes), CInt(MSG_DONTWAIT)) }
                    return (recv(state.descriptor, bytes.baseAddress, bytes.count, CInt(MSG_DONTWAIT)), errno, [])
                }
                length = Swift.max(result, 0)
            }
            PeerDescriptors.close(descriptors)
            return try check(result, error) == nil ? nil : bytes.withoutRoom()
        }

        /// Nil if there is no room.
        private func send(_ bytes: ArraySlice<UInt8>) throws(SystemError) -> Int? {
            let flags = CInt(MSG_DONTWAIT | MSG_NOSIGNAL)
            let (result, error) = bytes.withUnsafeBytes { bytes in
                state.withLock { (systemSend($0.descriptor, bytes.baseAddress, bytes.count, flags), errno) }
            }
            return try check(result, error)
        }

        private func check(_ result: Int, _ error: CInt) throws(SystemError) -> Int? {
            if result >= 0 { return result }
            if error == EAGAIN || error == EINTR { return nil }
            throw SystemError(code: error)
        }

        /// Returns an iterator, which reads.
        public func makeAsyncIterator() -> Iterator { Iterator(stream: self) }

        /// Reads.
        public struct Iterator: AsyncIteratorProtocol {
            fileprivate let stream: ByteStream

            /// The next bytes; nil at the peer's end.
            public mutating func next() async throws(SystemError) -> [UInt8]? { try await next(isolation: #isolation) }

            /// The next bytes; nil at the peer's end.
            public mutating func next(isolation: isolated (any Actor)?) async throws(SystemError) -> [UInt8]? {
                let bytes = try await stream.read()
                return bytes.isEmpty ? nil : bytes
            }
        }
    }
}

// Within the class this name is its own method's.
private func systemSend(_ descriptor: CInt, _ bytes: UnsafeRawPointer?, _ count: Int, _ flags: CInt) -> Int {
    send(descriptor, bytes, count, flags)
}
