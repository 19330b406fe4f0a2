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

/// For servers: sending without waiting, closing without loss, options, and descriptors over local sockets.
extension RunLoop.Socket {
    /// Options of a socket's descriptor: S-SOCK-67.
    public struct Options: OptionSet, Hashable, Sendable {
        /// The bits of `RLSocketOption`.
        public let rawValue: UInt

        /// A set of those bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The address may be used while connections of an earlier socket linger there, so that a server can start again.
        public static var reusesAddress: Options { Options(rawValue: 1) }
        /// Several sockets of one user listen at the address and share what comes.
        public static var reusesPort: Options { Options(rawValue: 2) }
        /// TCP sends small segments at once.
        public static var noDelay: Options { Options(rawValue: 4) }
        /// The system detects that a silent peer is gone.
        public static var keepsAlive: Options { Options(rawValue: 8) }
        /// An IPv6 socket accepts no IPv4 connections.
        public static var onlyIPv6: Options { Options(rawValue: 16) }
        /// ``RunLoop/Socket/receive(atMost:descriptors:)`` returns the credentials of each sender on a local socket.
        public static var passesCredentials: Options { Options(rawValue: 32) }
    }

    /// How ``close(_:)`` closes.
    public enum Ending: Hashable, Sendable {
        /// What is queued is sent, and the peer's end is waited for; then the socket is invalid (S-SOCK-63).
        case orderly
        /// What is queued is sent, then the end of the stream; reading goes on (S-SOCK-62).
        case writing
        /// The connection is reset at once, and the socket is invalid (S-SOCK-64).
        case abort

        fileprivate var type: RLSocketCloseType {
            switch self {
            case .orderly: RLSocketCloseType(rawValue: 0)!
            case .writing: RLSocketCloseType(rawValue: 1)!
            case .abort: RLSocketCloseType(rawValue: 2)!
            }
        }
    }

    /// What ``receive(atMost:descriptors:)`` read.
    public struct Received: Hashable, Sendable {
        /// The sender of a message, as the system saw it when it was sent.
        public struct Credentials: Hashable, Sendable {
            /// The process.
            public let process: CInt
            /// Its user.
            public let user: UInt32
            /// Its group.
            public let group: UInt32
        }

        /// The bytes; none at the end of a stream.
        public let bytes: [UInt8]
        /// Descriptors that came with them, the caller's to close; they are close-on-exec.
        public let descriptors: [CInt]
        /// There were more than allowed, or more than the process may have; then all of them are closed.
        public let lostDescriptors: Bool
        /// The sender, with ``Options/passesCredentials``.
        public let credentials: Credentials?
    }

    /// Binds to an address and, if sockets of this kind listen, listens there (S-SOCK-68).
    ///
    /// - Parameters:
    ///   - address: the address.
    ///   - options: of ``Options/reusesAddress``, ``Options/reusesPort`` and ``Options/onlyIPv6`` those that are not given are off.
    ///   - backlog: how many connections may wait to be accepted.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none; ``setAddress(_:)`` is close to it.
    public func listen(
        at address: Address, options: Options = .reusesAddress, backlog: Int = 256
    ) throws(RunLoop.SystemError) {
        errno = EBADF
        let result = address.bytes.withUnsafeBytes {
            RLSocketListen(reference, $0.baseAddress, $0.count, options.rawValue, Int32(clamping: backlog))
        }
        if result != .success { throw .last }
    }

    /// Switches options on or off.
    ///
    /// - Parameters:
    ///   - options: those about the address have to be set before there is one.
    ///   - on: on or off.
    /// - Throws: the system's error of the first that it refuses; the others are still set.
    /// - Threads: any.
    public func setOptions(_ options: Options, _ on: Bool = true) throws(RunLoop.SystemError) {
        errno = EBADF
        if RLSocketSetOptions(reference, options.rawValue, on) != .success { throw .last }
    }

    /// Sends what the system takes at once, and returns how much that was; never waits (S-SOCK-56).
    ///
    /// - Parameters:
    ///   - bytes: what to send.
    ///   - address: the destination, for datagrams of a socket that is not connected.
    ///   - descriptors: up to 253 that go with the bytes over a local socket (S-SOCK-69). They stay the caller's.
    /// - Returns: the number of bytes that were taken; nil if none was, because there is no room, or bytes are queued.
    /// - Throws: the system's error; `EPIPE` after ``close(_:)``.
    /// - Threads: any.
    public func sendNow(
        _ bytes: [UInt8], to address: Address? = nil, descriptors: [CInt] = []
    ) throws(RunLoop.SystemError) -> Int? {
        let destination = address?.bytes ?? []
        let count = bytes.withUnsafeBytes { bytes in
            descriptors.isEmpty
                ? destination.withUnsafeBytes {
                    RLSocketSend(reference, $0.isEmpty ? nil : $0.baseAddress, $0.count, bytes.baseAddress, bytes.count)
                } : RLSocketSendDescriptors(reference, bytes.baseAddress, bytes.count, descriptors, descriptors.count)
        }
        return try answer(count)
    }

    /// Sends all bytes of a stream: what the system takes at once, the rest from a queue, by the loop (S-SOCK-57, S-SOCK-58).
    ///
    /// While bytes are queued the closure is not called for ``Event/writable``; it is when they are sent, if the socket has
    /// ``CallBackTypes/write``, and for ``Event/writeFailed(_:)`` if they are lost (S-SOCK-59, S-SOCK-60). So a server that
    /// disables reading while something is queued, and enables it afterwards, stores little for a peer that does not read.
    ///
    /// - Parameters:
    ///   - bytes: what to send; none only asks how many are queued.
    ///   - highWater: if more bytes than this are already queued none is taken.
    /// - Returns: the number of bytes that are queued after the call; nil if none was taken.
    /// - Throws: the system's error; `EPIPE` after ``close(_:)``; once a queue was lost, always the error of that loss.
    /// - Threads: any.
    @discardableResult
    public func write(_ bytes: [UInt8], highWater: Int = 65536) throws(RunLoop.SystemError) -> Int? {
        try answer(bytes.withUnsafeBytes { RLSocketWrite(reference, $0.baseAddress, $0.count, max(highWater, 0)) })
    }

    /// Reads what is there, with the descriptors and the credentials that came with it; for ``CallBackTypes/read`` (S-SOCK-69).
    ///
    /// - Parameters:
    ///   - count: how many bytes at most. Beyond 256 KiB there is only room made for those that are there.
    ///   - descriptors: how many descriptors at most.
    /// - Returns: nil if nothing is there.
    /// - Throws: the system's error.
    /// - Threads: any.
    public func receive(atMost count: Int = 65536, descriptors: Int = 0) throws(RunLoop.SystemError) -> Received? {
        var numbers = [CInt](repeating: -1, count: min(max(descriptors, 0), 253))
        var ancillary = RLSocketAncillary()
        var result = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: room(for: count)) { bytes, length in
            numbers.withUnsafeMutableBufferPointer { numbers in
                ancillary.descriptors = numbers.baseAddress
                ancillary.room = numbers.count
                result = RLSocketReceive(reference, bytes.baseAddress, bytes.count, &ancillary)
            }
            length = max(result, 0)
        }
        guard try answer(result) != nil else { return nil }
        return Received(
            bytes: bytes.withoutRoom(), descriptors: Array(numbers.prefix(ancillary.count)), lostDescriptors: ancillary.lostDescriptors,
            credentials: ancillary.hasCredentials
                ? Received.Credentials(process: ancillary.process, user: ancillary.user, group: ancillary.group) : nil)
    }

    /// What a wish for so many bytes needs at most: a datagram is read whole or cut off.
    private func room(for count: Int) -> Int {
        let portion = 1 << 18
        if count <= portion { return max(count, 0) }
        var there: CInt = 0
        // Only a hint, should the number be another file's by now.
        if ioctl(RLSocketGetNative(reference), UInt(FIONREAD), &there) != 0 { return portion }
        return min(count, max(Int(there), portion))
    }

    /// Closes the connection, or its sending half, when everything written has been sent; or resets it. On an invalid
    /// socket it does nothing.
    ///
    /// ``Ending/orderly`` waits for a peer that never ends: abort it after some time. A socket without a peer, or in no
    /// loop, is invalidated at once.
    ///
    /// - Threads: any.
    public func close(_ ending: Ending = .orderly) { _ = RLSocketClose(reference, ending.type) }

    /// A count as Swift has it: nil for "not now".
    private func answer(_ count: Int) throws(RunLoop.SystemError) -> Int? {
        if count >= 0 { return count }
        let error = RunLoop.SystemError.last
        if error.code == EAGAIN { return nil }
        throw error
    }
}
