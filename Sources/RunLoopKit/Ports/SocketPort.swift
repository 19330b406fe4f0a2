// SPDX-License-Identifier: MIT
/// A port that is reached through a socket, from other machines too.
///
/// A local one listens and receives; a remote one connects when it first sends. All remote ports of one address are
/// equal and share the connection (S-NSP-17). Every process that can connect to a local port can send to it: a program
/// that listens decides what it accepts from which peer. What has come of messages that are not whole is bounded for all peers together:
/// one without room waits, and one that is silent for ten seconds in a message, while another waits, loses its connection; those that send
/// a byte now and then may keep all the room (S-NSP-21).
///
/// A port for datagrams, by ``init(protocolFamily:socketType:protocol:address:)``, needs no connection: each message is one
/// datagram, which must not be too long for one, may be lost, and may come from any peer.
///
/// Descriptors that come through a local socket are closed, and hold nobody up (S-NSP-23).
///
/// - Threads: all members may be used from any thread; the delegate is called on the loop's.
/// - Foundation: `SocketPort` (`NSSocketPort`).
open class SocketPort: Port, @unchecked Sendable {
    // Sendable: both are constant, and have locks of their own.
    private let signature: SocketSignature
    private let end: End

    private enum End {
        case local(SocketListener)
        case remote(SocketSender)
    }

    /// Makes a local TCP port at a number that the system chooses, on all addresses of the machine.
    ///
    /// The port is invalid from the start if no descriptor is available.
    public override convenience init() { self.init(listeningAt: 0) }

    /// Makes a local TCP port, on all addresses of the machine.
    ///
    /// - Parameter port: its number, 0 for one that the system chooses.
    /// - Returns: nil if the number is taken or may not be used.
    public convenience init?(tcpPort port: UInt16) {
        self.init(listeningAt: port)
        if !isValid { return nil }
    }

    /// Makes a local port at an address.
    ///
    /// - Parameters:
    ///   - family: such as `AF_INET` or `AF_UNIX`.
    ///   - type: `SOCK_STREAM` or `SOCK_DGRAM`.
    ///   - protocol: 0 for the usual one.
    ///   - address: a `sockaddr` of the family.
    /// - Returns: nil if the address is taken or cannot be used, or the type is another.
    public init?(
        protocolFamily family: Int32, socketType type: Int32, protocol: Int32, address: some Sequence<UInt8>
    ) {
        guard type == SocketCalls.stream || type == SocketCalls.datagram else { return nil }
        let asked = SocketSignature(
            protocolFamily: family, socketType: type, protocol: `protocol`, address: Array(address))
        let listener = SocketListener(asked)
        guard listener.isOpen else { return nil }
        signature = asked.bound(to: listener.address)
        end = .local(listener)
        super.init()
        listener.port = self
    }

    /// Makes a local port of a socket that the program has made and bound.
    ///
    /// - Parameters:
    ///   - family: such as `AF_INET` or `AF_UNIX`.
    ///   - type: `SOCK_STREAM` or `SOCK_DGRAM`.
    ///   - protocol: 0 for the usual one.
    ///   - sock: belongs to the port from now on, which makes it listen and closes it. If nil is returned it is the caller's.
    /// - Returns: nil if it is not a socket of that type, or cannot listen.
    public init?(protocolFamily family: Int32, socketType type: Int32, protocol: Int32, socket sock: CInt) {
        let asked = SocketSignature(
            protocolFamily: family, socketType: type, protocol: `protocol`, address: SocketCalls.localAddress(sock))
        guard let listener = SocketListener(adopting: sock, asked) else { return nil }
        signature = asked
        end = .local(listener)
        super.init()
        listener.port = self
    }

    /// Makes a port that sends to a TCP port of a host.
    ///
    /// - Parameters:
    ///   - port: the number.
    ///   - hostName: a name or an address; nil is this machine. A name is looked up, which may block.
    /// - Returns: nil if the host is not known.
    public convenience init?(remoteWithTCPPort port: UInt16, host hostName: String?) {
        let host = hostName.flatMap { $0.isEmpty ? nil : $0 } ?? "127.0.0.1"
        guard let address = SocketCalls.resolve(host, port: port) else { return nil }
        self.init(remote: .tcp(address))
    }

    /// Makes a port that sends to an address.
    ///
    /// - Parameters:
    ///   - family: such as `AF_INET` or `AF_UNIX`.
    ///   - type: `SOCK_STREAM` or `SOCK_DGRAM`; another one makes a port that nothing can be sent to.
    ///   - protocol: 0 for the usual one.
    ///   - address: a `sockaddr` of the family.
    public init(
        remoteWithProtocolFamily family: Int32, socketType type: Int32, protocol: Int32,
        address: some Sequence<UInt8>
    ) {
        signature = SocketSignature(
            protocolFamily: family, socketType: type, protocol: `protocol`, address: Array(address))
        end = .remote(SocketSender.of(signature))
        super.init()
    }

    private convenience init(listeningAt port: UInt16) {
        self.init(attempt: Attempt(.tcp(SocketSignature.ipv4(0, port: port))))
    }

    /// The result of listening, for the initializers of this module.
    public struct Attempt {
        fileprivate let signature: SocketSignature
        fileprivate let listener: SocketListener

        fileprivate init(_ signature: SocketSignature) {
            self.signature = signature
            listener = SocketListener(signature)
        }
    }

    /// Makes a local port that may be invalid from the start. It is public so that subclasses inherit the initializers that use it;
    /// programs cannot call it.
    ///
    /// - Parameter attempt: the result of listening.
    public init(attempt: Attempt) {
        signature = attempt.signature.bound(to: attempt.listener.address)
        end = .local(attempt.listener)
        super.init()
        attempt.listener.port = self
    }

    convenience init(remote signature: SocketSignature) {
        self.init(
            remoteWithProtocolFamily: signature.protocolFamily, socketType: signature.socketType, protocol: signature.protocol,
            address: signature.address)
    }

    deinit {
        // Nobody receives for it any more.
        if case .local(let listener) = end { listener.close() }
    }

    /// The family of the address, such as `AF_INET`.
    open var protocolFamily: Int32 { signature.protocolFamily }
    /// The type of the socket, `SOCK_STREAM` or `SOCK_DGRAM`.
    open var socketType: Int32 { signature.socketType }
    /// The protocol of the socket as it was given, `IPPROTO_TCP` for a port that was made with a TCP number (S-NSP-17).
    open var `protocol`: Int32 { signature.protocol }
    /// The `sockaddr` of the port: for a local one that at which it listens.
    @_disfavoredOverload
    open var address: [UInt8] { signature.address }
    /// ``address``, for the form of this class that gives Foundation's data.
    package var addressBytes: [UInt8] { signature.address }

    /// The descriptor that listens, -1 for a remote port and an invalid one; it belongs to the port.
    open var socket: CInt {
        if case .local(let listener) = end { return listener.descriptor }
        return -1
    }

    /// What receives for a local port.
    var listener: SocketListener? {
        if case .local(let listener) = end { listener } else { nil }
    }

    override var observedEnds: [(centre: NotificationCenter, sender: any AnyObject & Sendable)] {
        switch end {
        case .local: super.observedEnds
        case .remote(let sender): super.observedEnds + [(SocketSender.ends, sender)]
        }
    }

    override var identity: ObjectIdentifier {
        switch end {
        case .local: ObjectIdentifier(self)
        case .remote(let sender): ObjectIdentifier(sender)
        }
    }

    /// Whether the port listens, or can be sent to.
    open override var isValid: Bool {
        switch end {
        case .local(let listener): listener.isOpen
        case .remote(let sender): sender.isValid
        }
    }

    /// Makes the port invalid permanently: its sockets are closed. ``Port/didBecomeInvalidNotification`` is posted for a
    /// local port only; a second call does nothing (S-NSP-17).
    open override func invalidate() {
        switch end {
        case .local(let listener): if listener.close() { postInvalidation() }
        case .remote(let sender): sender.invalidate()
        }
    }

    /// Called by a loop that the port is added to; a remote port receives nothing.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that is to receive.
    ///   - mode: the mode in which it does.
    open override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        if case .local(let listener) = end { listener.schedule(in: runLoop, forMode: mode) }
    }

    /// Called by a loop that the port is removed from.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that no longer receives.
    ///   - mode: the mode in which it did.
    open override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        if case .local(let listener) = end { listener.remove(from: runLoop, forMode: mode) }
    }

    /// Sends a message through the port's connection, which is made if there is none.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait for the connection and for room in it; a date that is not in the future makes
    ///     one try. If only part of a message was written, the connection is closed.
    ///   - msgID: the number that the receiver gets, of which 32 bits are carried.
    ///   - components: sequences of bytes and at most 1024 socket ports, together at most 65,536; anything else is refused
    ///     (S-NSP-19).
    ///   - receivePort: where answers are to go; a socket port or nil.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was passed to the system; false also for an invalid port (S-NSP-8).
    @_disfavoredOverload
    open override func send(
        before limitDate: ContinuousClock.Instant, msgid msgID: Int, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        guard let components = PortComponent.list(components), isValid else { return false }
        if receivePort != nil, !(receivePort is SocketPort) { return false }
        for case .port(let port) in components where !(port is SocketPort) { return false }
        let target: SocketSender
        switch end {
        case .remote(let sender): target = sender
        case .local:
            // One sends to a port of one's own through a connection, as everybody does.
            target = SocketSender.of(signature.reached(from: SocketSignature.ipv4(0x7F00_0001, port: 0)))
        }
        guard target.canSend else { return false }
        return target.send(until: limitDate) { local in
            func bytes(_ port: Port) -> [UInt8] { (port as! SocketPort).signature.reached(from: local).bytes }
            let parts = components.map { component -> MessageCoding.Part in
                switch component {
                case .bytes(let bytes): .data(bytes)
                case .port(let port): .port(name: bytes(port))
                }
            }
            return SocketFrame.encode(
                msgid: UInt32(truncatingIfNeeded: msgID), parts, reply: receivePort.map(bytes) ?? [])
        }
    }
}

extension SocketSignature {
    /// With the address that the system has given.
    fileprivate func bound(to address: [UInt8]?) -> SocketSignature {
        SocketSignature(
            protocolFamily: protocolFamily, socketType: socketType, protocol: `protocol`, address: address ?? self.address)
    }

    fileprivate static func tcp(_ address: [UInt8]) -> SocketSignature {
        // The address begins with its family.
        let family = address.withUnsafeBytes { Int32($0.loadUnaligned(as: UInt16.self)) }
        return SocketSignature(
            protocolFamily: family, socketType: SocketCalls.stream, protocol: SocketCalls.tcp, address: address)
    }
}

/// A message as it travels through a connection: length and number, four bytes each, little endian, then what
/// ``MessageCoding`` writes.
enum SocketFrame {
    static let headerLength = 8
    /// A longer message is refused by both sides.
    static let longest = 1 << 28

    static func encode(msgid: UInt32, _ parts: [MessageCoding.Part], reply: [UInt8]) -> [UInt8]? {
        guard let payload = MessageCoding.encode(parts, replyName: reply), payload.count <= longest else { return nil }
        var bytes: [UInt8] = []
        for number in [UInt32(payload.count), msgid] { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }
        return bytes + payload
    }

    /// - Parameter start: where the payload begins in the bytes.
    static func decode(msgid: UInt32, _ bytes: [UInt8], from start: Int = 0) -> CarriedMessage? {
        let read = bytes.withUnsafeBytes { MessageCoding.decode(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        guard let message = read else { return nil }
        var components: [PortComponent] = []
        for part in message.parts {
            switch part {
            case .data(let data): components.append(.bytes(data))
            case .port(let name):
                guard let signature = SocketSignature(bytes: name) else { return nil }
                components.append(.port(SocketPort(remote: signature)))
            }
        }
        let reply = SocketSignature(bytes: message.replyName).map { SocketPort(remote: $0) }
        return CarriedMessage(msgid: msgid, components: components, replyPort: reply)
    }
}
