// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop.Socket {
    /// Binds to an address, which a stream may reuse at once, and, if sockets of this kind listen, listens there with a backlog of 256
    /// (S-SOCK-38). ``listen(at:options:backlog:)`` has more options.
    ///
    /// - Parameter address: the address.
    /// - Throws: the system's error; an invalid socket and one that has an address are refused (S-SOCK-39).
    /// - Threads: any.
    /// - CF: `CFSocketSetAddress`.
    public func setAddress(_ address: Address) throws(RunLoop.SystemError) {
        guard isValid else { throw RunLoop.SystemError(code: EBADF) }
        errno = 0
        let result = address.bytes.withUnsafeBytes { RLSocketSetAddress(reference, $0.baseAddress, $0.count) }
        try check(result)
    }

    /// Connects, at once or in the background.
    ///
    /// - Parameters:
    ///   - address: that of the peer.
    ///   - timeout: how long to wait for the connection; nil only begins it, and ``CallBackTypes/connect`` reports the
    ///     outcome (S-SOCK-43).
    /// - Throws: the system's error; `ETIMEDOUT` after the time (S-SOCK-41).
    /// - Threads: any; the call may block if it is given a time.
    /// - CF: `CFSocketConnectToAddress`.
    public func connect(to address: Address, timeout: Duration? = nil) throws(RunLoop.SystemError) {
        guard isValid else { throw RunLoop.SystemError(code: EBADF) }
        // Zero would mean no limit to the C function.
        let seconds = timeout.map { max($0.inSeconds, .leastNormalMagnitude) } ?? -1
        errno = 0
        let result = address.bytes.withUnsafeBytes { RLSocketConnectToAddress(reference, $0.baseAddress, $0.count, seconds) }
        try check(result)
    }

    /// Sends bytes with one system call; never raises `SIGPIPE` (S-SOCK-47).
    ///
    /// As long as the descriptor blocks, as it does initially, all bytes are taken or the call fails. If it was made
    /// non-blocking, or within a time limit, a stream may take only part of them, and how many is not reported (S-SOCK-45):
    /// ``write(_:highWater:)`` and ``sendNow(_:to:descriptors:)`` never wait and lose nothing.
    ///
    /// - Parameters:
    ///   - bytes: what to send. An empty datagram is allowed (S-SOCK-46).
    ///   - address: the destination, for datagrams of a socket that is not connected.
    ///   - timeout: how long to wait for room; nil for no limit.
    /// - Throws: the system's error; `EAGAIN` after the time.
    /// - Threads: any; the call may block.
    /// - CF: `CFSocketSendData`.
    public func send(
        _ bytes: [UInt8], to address: Address? = nil, timeout: Duration? = nil
    ) throws(RunLoop.SystemError) {
        guard isValid else { throw RunLoop.SystemError(code: EBADF) }
        let seconds = timeout.map { max($0.inSeconds, .leastNormalMagnitude) } ?? 0
        let destination = address?.bytes ?? []
        errno = 0
        let result = bytes.withUnsafeBytes { bytes in
            destination.withUnsafeBytes { destination in
                RLSocketSendData(
                    reference, destination.isEmpty ? nil : destination.baseAddress, destination.count, bytes.baseAddress,
                    bytes.count, seconds)
            }
        }
        try check(result)
    }

    private func check(_ result: RLSocketError) throws(RunLoop.SystemError) {
        let error = RunLoop.SystemError.last
        if result == .success { return }
        if result == .timeout { throw RunLoop.SystemError(code: ETIMEDOUT) }
        throw error.code == 0 ? RunLoop.SystemError(code: EINVAL) : error
    }

    /// Enables callbacks; what is already ready is reported in the next pass (S-SOCK-36).
    ///
    /// Nothing happens before a loop has the socket, which enables all of them (S-SOCK-35).
    ///
    /// - Parameter types: those that the socket does not have are ignored.
    /// - Threads: any; a waiting loop takes it into account.
    /// - CF: `CFSocketEnableCallBacks`.
    public func enableCallBacks(_ types: CallBackTypes) { RLSocketEnableCallBacks(reference, types.rawValue) }

    /// Disables callbacks; nothing that arrives meanwhile is lost (S-SOCK-36).
    ///
    /// - Parameter types: those that the socket does not have are ignored.
    /// - Threads: any; the call does not wait for a closure that runs on another thread.
    /// - CF: `CFSocketDisableCallBacks`.
    public func disableCallBacks(_ types: CallBackTypes) { RLSocketDisableCallBacks(reference, types.rawValue) }

    /// What the socket does after its closure and at its end; a change takes effect at the end of the next call (S-SOCK-5).
    ///
    /// CF: `CFSocketGetSocketFlags`, `CFSocketSetSocketFlags`.
    public var flags: Flags {
        get { Flags(rawValue: RLSocketGetSocketFlags(reference)) }
        set { RLSocketSetSocketFlags(reference, newValue.rawValue) }
    }

    /// Whether the socket is valid; this checks the descriptor (S-SOCK-13). CF: `CFSocketIsValid`.
    public var isValid: Bool { RLSocketIsValid(reference) }

    /// Ends the socket permanently: no further call begins, and the descriptor is closed if ``flags`` say so
    /// (S-SOCK-9, S-SOCK-10); a second call does nothing.
    ///
    /// - Threads: any; the call does not wait for a closure that runs on another thread.
    /// - CF: `CFSocketInvalidate`.
    public func invalidate() { RLSocketInvalidate(reference) }

    /// The number of the descriptor; nil for an invalid socket (S-SOCK-11). CF: `CFSocketGetNative`.
    public var nativeDescriptor: CInt? {
        let number = RLSocketGetNative(reference)
        return number < 0 ? nil : number
    }

    /// The local address, as it was when first requested (S-SOCK-48). CF: `CFSocketCopyAddress`.
    public var address: Address? { Address(taking: RLSocketCopyAddress(reference)) }

    /// The address of the peer, nil if there is none. CF: `CFSocketCopyPeerAddress`.
    public var peerAddress: Address? { Address(taking: RLSocketCopyPeerAddress(reference)) }

    /// The source by which loops watch the socket, the same each time unless it was invalidated (S-SOCK-15).
    ///
    /// ``RunLoop/add(_:forMode:)-(RunLoop.Socket,_)`` adds it.
    ///
    /// - Parameter order: the order of the source, if it is made by this call.
    /// - Returns: nil for an invalid socket.
    /// - Threads: any.
    /// - CF: `CFSocketCreateRunLoopSource`.
    public func makeRunLoopSource(order: Int = 0) -> RunLoop.Source? {
        RLSocketCreateRunLoopSource(reference, order).map { RunLoop.Source(taking: $0) }
    }
}

extension RunLoop {
    /// Adds a socket to a mode; one that is already there is not added again.
    ///
    /// - Parameters:
    ///   - socket: the socket. An invalid one is not added.
    ///   - mode: the mode; ``Mode/common`` stands for the common modes.
    /// - Threads: any.
    /// - CF: `CFRunLoopAddSource` with the socket's source.
    public func add(_ socket: Socket, forMode mode: Mode) {
        if let source = socket.makeRunLoopSource() { add(source, forMode: mode) }
    }

    /// Removes a socket from a mode; what arrives waits.
    ///
    /// - Parameters:
    ///   - socket: the socket.
    ///   - mode: the mode.
    /// - Threads: any.
    /// - CF: `CFRunLoopRemoveSource` with the socket's source.
    public func remove(_ socket: Socket, forMode mode: Mode) {
        if let source = socket.makeRunLoopSource() { remove(source, forMode: mode) }
    }
}
