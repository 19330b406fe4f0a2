// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Sending without waiting, the queue, and closing (S-SOCK-56 to 66).
///
/// Everything here that uses the number of the descriptor does so under the lock `writer`, and does not wait, but for the
/// exception of S-SOCK-69. An Invalidate takes
/// away the number under it before it closes the descriptor, so no bytes go to another file. The lock is the innermost: no other
/// lock of the library is taken under it, and no client code runs under it.
extension UnsafeMutablePointer where Pointee == Socket {
    // MARK: Any thread

    /// `RLSocketSend`: how many bytes were taken, or a negative errno.
    func sendNow(to address: UnsafeRawPointer?, _ addressLength: Int, _ bytes: UnsafeRawPointer?, _ length: Int) -> Int {
        guard address == nil || SocketAddress.isPossible(addressLength) else { return -Int(EINVAL) }
        let addressLength = address.map { SocketAddress.trimmed($0, addressLength) } ?? 0
        return withWriter(length) {
            mustWait($0) ? -Int(EAGAIN) : rl_send_now($0, bytes, bytes == nil ? 0 : length, address, addressLength)
        }
    }

    /// What a waiting send, which has sent the first `done` bytes, can send at the moment: how many bytes, or a negative errno. `mustEnd`: the
    /// call does not wait. `isBlocking`: the mode of the descriptor, which a connect changes under the lock. `turn`: `turns` when it last sent.
    @inline(never)
    func sendPart(
        _ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ done: Int, _ length: Int, _ address: UnsafeRawPointer?, _ addressLength: Int,
        _ turn: inout UInt32
    ) -> (sent: Int, mustEnd: Bool, isBlocking: Bool) {
        // After a fork, the lock of an invalid socket may be held by a thread that does not exist.
        guard isValid else { return (-Int(EBADF), true, true) }
        pointee.writer.lockWord()
        defer { pointee.writer.unlockWord() }
        if native < 0 || !isValid { return (-Int(EBADF), true, true) }
        // The rest would come behind the bytes of another call, also if these are sent by now.
        let isOvertaken = done > 0 && turn != pointee.turns
        if isOvertaken || pointee.state.load(ordering: .relaxed) & SocketState.flushes != 0 { return (-Int(EAGAIN), true, true) }
        turn = pointee.turns
        var sent = -Int(EAGAIN)
        // If a connect fails, a send would take the error from the Connect callback (S-SOCK-43).
        let events = mustWait(descriptor) ? rl_poll_writable(descriptor) : POLLOUT
        if events & POLLERR != 0 { return (-Int(ENOTCONN), true, true) }
        if events != 0 { sent = rl_send_now(descriptor, bytes.map { $0 + done }, length - done, address, addressLength) }
        return (sent, false, sent == length - done || !rl_is_nonblocking(descriptor))
    }

    /// `RLSocketSendDescriptors`.
    func sendDescriptors(_ bytes: UnsafeRawPointer?, _ length: Int, _ descriptors: UnsafePointer<Int32>?, _ count: Int) -> Int {
        guard let descriptors, count > 0, count <= Int(RL_MAX_DESCRIPTORS) else { return -Int(EINVAL) }
        // Other kinds send the bytes and drop the descriptors.
        guard pointee.isLocal else { return -Int(isValid ? EOPNOTSUPP : EBADF) }
        let length = bytes == nil ? 0 : length
        // They travel with bytes: the kernel would take none of them and say that it has sent all.
        if pointee.isByteStream && length == 0 { return -Int(EINVAL) }
        return withWriter(length) {
            mustWait($0) ? -Int(EAGAIN) : rl_send_with_descriptors($0, bytes, length, nil, 0, descriptors, Int32(count))
        }
    }

    /// `RLSocketReceive`. Its fields are filled in also where nothing is read.
    func receive(
        _ bytes: UnsafeMutableRawPointer?, _ capacity: Int, _ descriptors: UnsafeMutablePointer<Int32>?, _ room: Int,
        _ received: UnsafeMutablePointer<rl_received>?
    ) -> Int {
        guard isValid else { return -Int(EBADF) }
        pointee.writer.lockWord()
        defer { pointee.writer.unlockWord() }
        return rl_receive_with_descriptors(native, pointee.isLocal, bytes, bytes == nil ? 0 : capacity, descriptors, room, received)
    }

    /// `RLSocketWrite`: how many bytes are queued, or a negative errno.
    func write(_ bytes: UnsafeRawPointer?, _ length: Int, highWater: UInt) -> Int {
        var grew = false
        let result = withWriter(length) { descriptor in
            let waiting = pointee.queue?.pointee.count ?? 0
            guard let bytes, length > 0 else { return waiting }
            if UInt(waiting) > highWater { return -Int(EAGAIN) }
            var sent = 0
            if !mustWait(descriptor) {
                sent = rl_send_now(descriptor, bytes, length, nil, 0)
                if sent == length || (sent < 0 && sent != -Int(EAGAIN)) { return min(sent, 0) }
                sent = max(sent, 0)
            }
            if !pointee.isByteStream { return -Int(EAGAIN) }
            SocketQueue.append(bytes + sent, length - sent, to: &pointee.queue)
            let bits = stateBits(SocketType.write)
            grew = replaceState { $0 & ~SocketState.denied(bits) | SocketState.flushes | bits }
            return pointee.queue.unsafelyUnwrapped.pointee.count
        }
        if grew { tellSource() }
        return result
    }

    /// Whether nothing may be sent now: bytes are queued, or a send would take the error of a connect from the Connect callback. The
    /// lock is held.
    private func mustWait(_ descriptor: Int32) -> Bool {
        if pointee.queue != nil { return true }
        return pointee.state.load(ordering: .relaxed) & SocketState.connected == 0 && !rl_socket_has_peer(descriptor)
    }

    /// Calls the body with the number if bytes may be sent; else a negative errno.
    private func withWriter(_ length: Int, _ body: (Int32) -> Int) -> Int {
        // A size_t of 2^63 and more is negative.
        guard length >= 0, length <= SocketQueue.longest else { return -Int(EINVAL) }
        // After a fork, the lock of an invalid socket may be held by a thread that does not exist.
        guard isValid else { return -Int(EBADF) }
        pointee.writer.lockWord()
        defer { pointee.writer.unlockWord() }
        let refusal = refusalLocked
        if refusal != 0 { return refusal }
        let result = body(native)
        if result >= 0 && length > 0 { pointee.turns &+= 1 }
        return result
    }

    /// Why nothing is sent, a negative errno; else 0. The lock is held.
    private var refusalLocked: Int {
        @inline(never) get {
            // An Invalidate takes the number away later than the rest of the state, which would say that bytes have to wait.
            if native < 0 || !isValid { return -Int(EBADF) }
            let error = pointee.error.load(ordering: .relaxed)
            if error != 0 { return -Int(error) }
            return pointee.state.load(ordering: .relaxed) & SocketState.writingEnds != 0 ? -Int(EPIPE) : 0
        }
    }

    /// `RLSocketClose`.
    func close(_ how: Int) -> SocketResult {
        guard how >= 0, how <= SocketClose.abort, isValid else { return .error }
        var isOver = how == SocketClose.abort
        pointee.writer.lockWord()
        let descriptor = native
        // With an SO_LINGER of the program the close of an orderly end would wait for a peer that reads nothing, or reset the connection.
        if descriptor >= 0 && how != SocketClose.writing { rl_reset_at_close(descriptor, isOver) }
        if descriptor >= 0 && !isOver {
            var bits = SocketState.writingEnds
            // From now on: a peer that sends all before it reads would never read what is queued.
            if how == SocketClose.orderly { bits |= SocketState.ends | SocketState.lingers }
            _ = replaceState { $0 | bits }
            if pointee.queue == nil {
                // shutdown(2) would end a connect in progress: the loop sends the end when that is over.
                if how != SocketClose.orderly && pointee.isStream && rl_socket_is_connecting(descriptor) {
                    _ = replaceState { $0 | SocketState.flushes }
                } else {
                    endWriting(descriptor)
                }
            }
            isOver = how == SocketClose.orderly && !canEnd(descriptor)
        }
        pointee.writer.unlockWord()
        // After the state says that it is being closed: a thread that takes it out of its last mode looks in the other order.
        if how == SocketClose.orderly && pointee.scheduled.load(ordering: .sequentiallyConsistent) == 0 { isOver = true }
        if isOver { invalidate() } else { tellSource() }
        return .success
    }

    /// Whether a peer can take what is queued, and end: there is one, or, if bytes are queued, a connect is under way or has failed
    /// and the loop will see that. The lock is held.
    private func canEnd(_ descriptor: Int32) -> Bool {
        if pointee.isStream && rl_socket_has_peer(descriptor) { return true }
        return pointee.queue != nil && rl_poll_writable(descriptor) & (POLLHUP | POLLERR) != POLLHUP
    }

    /// The queue is empty and no more comes. The lock is held.
    private func endWriting(_ descriptor: Int32) {
        _ = shutdown(descriptor, Int32(SHUT_WR))
        _ = replaceState { $0 & SocketState.ends != 0 ? $0 | SocketState.lingers : $0 }
    }

    /// The end of the stream was reported (S-SOCK-26, 65).
    func endOfStream() {
        guard isValid else { return }
        pointee.writer.lockWord()
        let isOver = pointee.state.load(ordering: .relaxed) & SocketState.flushes == 0
        // What another thread writes from here on would be lost.
        if isOver { _ = replaceState { $0 | SocketState.writingEnds } }
        pointee.writer.unlockWord()
        if isOver { invalidate() } else { _ = close(SocketClose.orderly) }
    }

    // MARK: The loop's thread

    /// What is done before anything is reported: the queue, and the end of a socket that is being closed. False: nothing is to be reported.
    func serveWriter(_ ready: Readiness, _ state: UInt32) -> Bool {
        let isClosing = state & SocketState.ends != 0
        // Before a pending Connect callback it would take the error of the connect.
        let isDecided = isClosing || state & SocketState.connected != 0 || state & SocketState.connect == 0
        if ready.contains(.write) && state & SocketState.flushes != 0 && isDecided { flush() }
        if isClosing && ready.contains(.read) && state & SocketState.lingers != 0 && discard() { invalidate() }
        return !isClosing
    }

    private func flush() {
        var sent = 0
        pointee.writer.lockWord()
        let descriptor = native
        if pointee.queue == nil && descriptor >= 0 {
            dropQueue(0, descriptor)
        } else if let queue = pointee.queue, descriptor >= 0 {
            sent = rl_send_now(descriptor, queue.first, queue.pointee.count, nil, 0)
            if sent >= 0 {
                dropQueue(sent, descriptor)
            } else if sent == -Int(EAGAIN) {
                let events = rl_poll_now(descriptor, POLLOUT)
                if events < 0 {
                    // The error may lie in the error queue, and stay.
                    sent = -Int(ENOBUFS)
                } else if events & POLLERR != 0 {
                    if readKind != SocketType.read {
                        ignoreErrors()
                    } else if pointee.state.load(ordering: .relaxed) & SocketState.read == 0 {
                        // A client that reads errors itself is told of them when it enables Read.
                        sent = -Int(ENOBUFS)
                    }
                }
            } else if !rl_is_for_now(sent) {
                pointee.error.store(Int32(-sent), ordering: .relaxed)
                dropQueue(queue.pointee.count, descriptor)
                // The kernel has cleared the error, by which a connect that failed differs from one that was not begun.
                expectNoConnect()
            }
        }
        pointee.writer.unlockWord()
        // The kernel says that there is room, but has no memory: not again at once.
        if rl_is_for_now(sent) && sent != -Int(EAGAIN) { _ = leaveForLater() }
    }

    /// For the socket that is served writable means just that from now on.
    @inline(never)
    private func expectNoConnect() {
        _ = RunLoop.ofThread?.servedWatch?.watchFlags.pointee.bitwiseAnd(~WatchFlags.connects, ordering: .relaxed)
    }

    /// Removes what was sent or is lost. The lock is held.
    private func dropQueue(_ count: Int, _ descriptor: Int32) {
        SocketQueue.drop(count, from: &pointee.queue)
        guard pointee.queue == nil else { return }
        let state = pointee.state.load(ordering: .relaxed)
        _ = replaceState { $0 & ~SocketState.flushes }
        if state & SocketState.writingEnds != 0 { endWriting(descriptor) }
    }

    /// A Connect callback reported this failure: nothing is reported about the queue any more (S-SOCK-32, 60).
    func loseQueue(_ error: Int32) {
        // After a fork in the context's `retain`, the lock of a socket that became invalid may be held by a thread that does not exist.
        guard isValid else { return }
        pointee.writer.lockWord()
        if let queue = pointee.queue {
            pointee.error.store(error, ordering: .relaxed)
            SocketQueue.drop(queue.pointee.count, from: &pointee.queue)
            _ = replaceState { $0 & ~SocketState.write }
        }
        _ = replaceState { $0 & ~SocketState.flushes }
        pointee.writer.unlockWord()
    }

    /// Discards what has arrived. True if no more comes and nothing is left to send.
    private func discard() -> Bool {
        ignoreErrors()
        pointee.writer.lockWord()
        let descriptor = native
        let taken = descriptor < 0 ? 0 : rl_discard_input(descriptor, pointee.isLocal)
        let isOver = taken == 0 && pointee.state.load(ordering: .relaxed) & SocketState.flushes == 0
        if taken == 0 && !isOver {
            // The peer sends no more, but may read: `endWriting` goes on.
            // If the connection is gone, and the client has taken the error, the kernel says the same as of a connect that was not begun.
            expectNoConnect()
            _ = replaceState { $0 & ~SocketState.lingers }
        }
        pointee.writer.unlockWord()
        if taken < 0 && taken != -Int(EAGAIN) { _ = leaveForLater() }
        return isOver
    }

    // MARK: The end

    /// Takes away the number for an Invalidate, which may then close it. True if bytes were queued.
    func endWriter() -> Bool {
        pointee.writer.lockWord()
        defer { pointee.writer.unlockWord() }
        pointee.descriptor.store(-1, ordering: .relaxed)
        guard let queue = pointee.queue else { return false }
        SocketQueue.drop(queue.pointee.count, from: &pointee.queue)
        return true
    }

    /// In the child of `fork`: the queue is the parent's (S-SOCK-66). A queue that a vanished thread was changing stays as it is,
    /// in memory that is not used any more.
    func renewWriterInChild() {
        let isWhole = pointee.writer.word.load(ordering: .relaxed) == 0
        pointee.writer.resetInChild()
        if isWhole, let queue = pointee.queue { SocketQueue.drop(queue.pointee.count, from: &pointee.queue) }
        pointee.queue = nil
    }
}

/// Values of `RLSocketCloseType`.
enum SocketClose {
    static var orderly: Int { 0 }
    static var writing: Int { 1 }
    static var abort: Int { 2 }
}
