// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Room for an address of any family, as the kernel fills it in.
struct SocketAddress {
    var bytes = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)

    /// Data with the address. That of a Unix socket ends with its path (S-SOCK-40).
    func copy() -> DataPointer {
        withUnsafeBytes(of: bytes) { bytes in
            let length = min(Int(length), bytes.count)
            return DataPointer.make(bytes.baseAddress!, SocketAddress.trimmed(bytes.baseAddress!, length))!
        }
    }

    /// Whether an address can have this length. The client's is a size_t, and socklen_t would cut a longer one to one that can be.
    static func isPossible(_ length: Int) -> Bool {
        if length > 0 && length <= MemoryLayout<sockaddr_storage>.size { return true }
        rl_set_errno(EINVAL)
        return false
    }

    /// The length of an address without what follows the path of a Unix one. Names in the abstract space have no such end.
    static func trimmed(_ address: UnsafeRawPointer, _ length: Int) -> Int {
        let start = MemoryLayout<sa_family_t>.size
        guard length > start, address.loadUnaligned(as: sa_family_t.self) == sa_family_t(AF_UNIX) else { return length }
        let path = (address + start).assumingMemoryBound(to: CChar.self)
        let used = strnlen(path, length - start)
        return used == 0 ? length : min(length, start + used + 1)
    }
}

/// Values of `RLSocketError`.
enum SocketResult: Int {
    case success = 0
    case error = -1
    case timeout = -2
}

/// Bits of `RLSocketOption`.
enum SocketOption {
    static var reuseAddress: UInt { 1 }
    /// Options that have to be set before there is an address.
    static var ofAddress: UInt { 1 | 2 | 16 }
}

/// Addresses, connecting and sending.
extension UnsafeMutablePointer where Pointee == Socket {
    /// `RLSocketSetAddress` (S-SOCK-38) and `RLSocketListen` (S-SOCK-68): bind, and listen if its kind can. `on` and `off` are
    /// options.
    func setAddress(_ address: UnsafeRawPointer?, _ length: Int, on: UInt, off: UInt, backlog: Int32) -> SocketResult {
        guard let address, SocketAddress.isPossible(length), isStillOpen() else { return .error }
        let descriptor = beginUse()
        defer { endUse(of: descriptor) }
        // Those that are off already, or that its kind does not have.
        _ = rl_set_socket_options(descriptor, off, false)
        if setOptions(on, true) != .success { return .error }
        guard rl_bind(descriptor, address, SocketAddress.trimmed(address, length)) == 0 else { return .error }
        if pointee.isStream && listen(descriptor, backlog > 0 ? backlog : 256) != 0 { return .error }
        tellSource()
        return .success
    }

    /// As CoreFoundation does it, so that the address can be used again at once.
    func setAddress(_ address: UnsafeRawPointer?, _ length: Int) -> SocketResult {
        setAddress(address, length, on: pointee.isStream ? SocketOption.reuseAddress : 0, off: 0, backlog: 256)
    }

    /// `RLSocketSetOptions`.
    func setOptions(_ options: UInt, _ on: Bool) -> SocketResult {
        guard isValid else { return .error }
        let descriptor = beginUse()
        let error = rl_set_socket_options(descriptor, options, on)
        endUse(of: descriptor)
        rl_set_errno(error)
        return error == 0 ? .success : .error
    }

    /// `RLSocketConnectToAddress` (S-SOCK-41 to 44).
    func connect(_ address: UnsafeRawPointer?, _ length: Int, timeout: Double) -> SocketResult {
        guard let address, SocketAddress.isPossible(length), isStillOpen() else { return .error }
        let descriptor = beginUse(NumberUse.waiting)
        let length = SocketAddress.trimmed(address, length)
        // A wait of the kernel would go on after an Invalidate that came right before it, or at all for room in the queue of a Unix socket.
        let end = timeout < 0 ? 0 : end(after: timeout == 0 ? rl_send_limit(descriptor) : timeout)
        var (error, waits) = beginConnect(descriptor, address, length)
        if timeout != 0 { waits = !(timeout < 0) }
        while error == EAGAIN && waits && pointee.isLocal && Clock.now() < end && isValid {
            pause()
            error = beginConnect(descriptor, address, length).error
        }
        var result = SocketResult.success
        if error == EINPROGRESS || error == EALREADY {
            if waits { result = finishConnect(descriptor, until: end, &error) }
        } else if error != 0 {
            result = error == EAGAIN && waits && pointee.isLocal && isValid ? .timeout : .error
        }
        // A limit of the descriptor's own.
        if result == .timeout && timeout == 0 { result = .error }
        endUse(of: descriptor, NumberUse.waiting)
        if result == .success && !isValid {
            error = ECANCELED
            result = .error
        }
        if result == .error && pointee.state.load(ordering: .relaxed) & SocketState.ends != 0 {
            // No peer takes what is queued, and the loop does not see an error that was taken here (S-SOCK-63).
            _ = close(SocketClose.orderly)
        }
        // Before there was a connect to wait for, the registration may have been set aside.
        tellSource()
        // What was called since may have changed it.
        if result == .error { rl_set_errno(error) }
        return result
    }

    /// When a wait of so many seconds ends. NaN counts as a long time.
    private func end(after seconds: Double) -> Int64 {
        Clock.now() + Clock.nanoseconds(seconds < Clock.longestInterval ? seconds : Clock.longestInterval)
    }

    /// One connect(2) that does not wait: 0, or its errno; and whether the descriptor is in blocking mode. It is in that mode again
    /// before another caller of the socket looks.
    private func beginConnect(_ descriptor: Int32, _ address: UnsafeRawPointer, _ length: Int) -> (error: Int32, isBlocking: Bool) {
        pointee.writer.lockWord()
        defer { pointee.writer.unlockWord() }
        // A connect of a datagram socket does not wait, and its sends use the mode without the lock.
        let mode = pointee.isStream ? rl_set_nonblocking(descriptor) : -1
        let error = rl_connect(descriptor, address, length)
        if mode >= 0 { rl_restore_mode(descriptor, mode) }
        return (error == EINTR ? EINPROGRESS : error, mode >= 0)
    }

    /// Waits for a connect in progress; `error` is why it failed.
    private func finishConnect(_ descriptor: Int32, until end: Int64, _ error: inout Int32) -> SocketResult {
        while true {
            // Its number may be the client's now, which closes it. Otherwise the connect was begun before an Invalidate, which ends it.
            if !isValid { return .success }
            let ready = rl_wait_writable(descriptor, Swift.max(0, (end - Clock.now() + 999_999) / 1_000_000))
            let isRefused = ready < 0 && rl_errno() != EINTR
            if ready > 0 || isRefused {
                error = rl_socket_error(descriptor)
                let hasPeer = rl_socket_has_peer(descriptor)
                // The Connect callback, in a loop of another thread, may have taken the error.
                if error == 0 && !hasPeer && !isRefused { error = ECONNABORTED }
                if error != 0 || hasPeer { return error == 0 ? .success : .error }
                // A filter does not let the library wait: it looks again.
                pause()
            }
            // Interrupted, or too long a time for one call: each iteration waits for the rest.
            if Clock.now() >= end { return .timeout }
        }
    }

    private func pause() {
        var moment = timespec(nanoseconds: 1_000_000)
        _ = rl_sys_nanosleep(&moment)
    }

    /// `RLSocketSendData` (S-SOCK-45 to 47).
    func send(
        to address: UnsafeRawPointer?, _ addressLength: Int, _ bytes: UnsafeRawPointer?, _ length: Int, timeout: Double
    ) -> SocketResult {
        guard address == nil || SocketAddress.isPossible(addressLength), isStillOpen() else { return .error }
        let descriptor = beginUse(NumberUse.waiting)
        let length = bytes == nil ? 0 : length
        let addressLength = address.map { SocketAddress.trimmed($0, addressLength) } ?? 0
        let sent: Int
        // The kernel waits for the room of a datagram. The bytes of a stream would come between those that another thread writes meanwhile.
        if timeout > 0 || pointee.isStream {
            sent = send(descriptor, bytes, length, address, addressLength, timeout)
        } else {
            sent = rl_send(descriptor, bytes, length, address, addressLength)
        }
        endUse(of: descriptor, NumberUse.waiting)
        return sent > 0 || (sent == 0 && length == 0 && !pointee.isByteStream) ? .success : .error
    }

    /// Sends as the kernel does with a time limit, but with one of this call's own: SO_SNDTIMEO belongs to the descriptor, which
    /// other threads and processes use too. It ends when bytes are queued, which nothing overtakes (S-SOCK-56), and when bytes of another call
    /// came between its own (S-SOCK-61). Returns how many bytes were sent; -1 for none, with errno.
    private func send(
        _ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ address: UnsafeRawPointer?, _ addressLength: Int,
        _ timeout: Double
    ) -> Int {
        // Of the wait; a send that finds room asks neither the clock nor for the descriptor's limit.
        var end = Clock.never
        var done = 0
        var hadRoom = false
        var turn: UInt32 = 0
        while true {
            let (sent, mustEnd, isBlocking) = sendPart(descriptor, bytes, done, length, address, addressLength, &turn)
            if sent > 0 { done += sent }
            let isOver = mustEnd || (sent < 0 ? sent != -Int(EAGAIN) : done == length || !pointee.isStream)
            if isOver {
                if sent < 0 { rl_set_errno(Int32(-sent)) }
                return done > 0 ? done : Swift.max(sent, -1)
            }
            if end == Clock.never { end = self.end(after: timeout > 0 ? timeout : rl_send_limit(descriptor)) }
            let left = end - Clock.now()
            if left <= 0 || !isValid || !isBlocking {
                rl_set_errno(EAGAIN)
                return done > 0 ? done : -1
            }
            // A receiver's queue may be full although there is room in this socket's own, the message longer than the room, or the wait
            // refused.
            var moment = timespec(nanoseconds: min(left, 1_000_000))
            if hadRoom && sent < 0 { _ = rl_sys_nanosleep(&moment) }
            let ready = rl_wait_writable(descriptor, (left + 999_999) / 1_000_000)
            hadRoom = ready > 0 || (ready < 0 && rl_errno() != EINTR)
        }
    }

    /// The socket's own address, retained; the kernel is asked once (S-SOCK-48).
    func copyAddress() -> DataPointer? {
        guard isStillOpen() else { return nil }
        return cached({ $0.pointee.address }, { $0.pointee.address = $1 }) { getsockname($0, $1, $2) }
    }

    func copyPeerAddress() -> DataPointer? {
        guard isValid else { return nil }
        return cached({ $0.pointee.peerAddress }, { $0.pointee.peerAddress = $1 }) { getpeername($0, $1, $2) }
    }

    private func cached(
        _ get: (SocketPointer) -> DataPointer?, _ set: (SocketPointer, DataPointer) -> Void,
        _ ask: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> DataPointer? {
        process.pointee.registryLock.lockWord()
        let known = get(self)
        known?.retain()
        process.pointee.registryLock.unlockWord()
        if let known { return known }
        var storage = SocketAddress()
        let number = beginUse()
        let result = withUnsafeMutablePointer(to: &storage.bytes) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self, capacity: 1) { ask(number, $0, &storage.length) }
        }
        endUse(of: number)
        guard result == 0 else { return nil }
        let made = storage.copy()
        process.pointee.registryLock.lockWord()
        if let other = get(self) {
            other.retain()
            process.pointee.registryLock.unlockWord()
            made.release()
            return other
        }
        set(self, made)
        made.retain()
        process.pointee.registryLock.unlockWord()
        return made
    }
}
