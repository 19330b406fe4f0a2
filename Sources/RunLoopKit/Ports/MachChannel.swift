#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif
/// The Mach-like port of the C library behind a ``Port``.
///
/// The C library carries a number, bytes and a reply port. A message that is one array of bytes travels so, and C code
/// can send and receive it. Anything else stays here, on the sender's side of the port, and the bytes that travel
/// are the key under which the receiving side takes it.
// Sendable: the reference is constant, its functions may be called from any thread, and the rest is locked.
final class MachChannel: @unchecked Sendable {
    let reference: RLMachPortRef

    private struct State {
        /// Whose delegate gets the messages.
        weak var port: Port?
        /// Messages that are queued, by the key that travels for them.
        var kept: [Key: KeptMessage] = [:]
        var nextKey: UInt64 = 0
        /// Set by who posts the notification, so that it is posted once.
        var isAnnounced = false
    }
    private let state: Locked<State>
    /// The port is C code's, with a receiver of its own.
    private let isWrapped: Bool

    /// A message whose places for the port that it is queued at are empty: it would keep that port, which keeps its queue.
    private struct KeptMessage {
        var message: CarriedMessage
        var ownComponents: [Int] = []
        var isOwnReply = false

        init(_ message: CarriedMessage, isOwn: (Port) -> Bool) {
            self.message = message
            for (index, component) in message.components.enumerated() {
                if case .port(let port) = component, isOwn(port) {
                    ownComponents.append(index)
                    self.message.components[index] = .bytes([])
                }
            }
            if let reply = message.replyPort, isOwn(reply) {
                isOwnReply = true
                self.message.replyPort = nil
            }
        }

        func received(by port: Port) -> CarriedMessage {
            var message = message
            for index in ownComponents { message.components[index] = .port(port) }
            if isOwnReply { message.replyPort = port }
            return message
        }
    }

    private func isOwn(_ port: Port) -> Bool { type(of: port).isMachLike && port.machChannelIfMade === self }

    /// What travels in place of a message that is kept here.
    struct Key: Hashable {
        /// Differs in every process, so that no bytes of a program look like a key by chance.
        var mark: UInt64
        var number: UInt64

        static let mark = UInt64.random(in: .min ... .max)
    }

    /// The channels by the addresses of their C ports.
    private static let channels = WeakTable<UInt, MachChannel>()

    private var address: UInt { UInt(bitPattern: reference) }

    /// Makes a C port, whose messages go to an object once ``serve(_:)`` was called.
    init() {
        state = Locked(State())
        isWrapped = false
        let info = MachPortInfo()
        var context = RLMachPortContext(
            version: 0, info: Unmanaged.passUnretained(info).toOpaque(),
            retain: retainInfo, release: releaseInfo, copyDescription: nil)
        let made = RLMachPortCreate(receiveMachMessage, &context, nil)
        reference = made
        info.channel = self
    }

    /// This is the channel of the port from now on.
    func serve(_ port: Port) {
        state.withLock { $0.port = port }
        MachChannel.channels.note(self, for: address)
        RLMachPortSetInvalidationCallBack(reference) { _, info in
            guard let info, let channel = MachPortInfo.unretained(info).channel, let port = channel.port else { return }
            channel.announce(port)
        }
    }

    /// Stands for a port of C code's, which has a receiver of its own.
    private init(wrapping reference: RLMachPortRef) {
        self.reference = reference
        state = Locked(State())
        isWrapped = true
        _ = RLRetain(RLTypeRef(reference))
    }

    deinit {
        MachChannel.channels.forget(address, of: self)
        RLRelease(RLTypeRef(reference))
    }

    /// Whose delegate gets the messages, as long as it lives.
    fileprivate var port: Port? { state.withLock { $0.port } }

    /// The one object of a port of the C library, made if there is none.
    static func object(of reference: RLMachPortRef) -> Port {
        let channel = channels.object(of: UInt(bitPattern: reference)) { MachChannel(wrapping: reference) }.object
        if let known = channel.port { return known }
        let made = MachPort(channel: channel)
        return channel.state.withLock { state in
            if let known = state.port { return known }
            state.port = made
            return made
        }
    }

    /// The object of the port that has the number; an invalid one if no port has it.
    static func port(ofNumber number: CInt) -> MachPort {
        guard let found = RLMachPortCreateWithPort(number, nil, nil, nil) else {
            let port = MachPort()
            port.invalidate()
            return port
        }
        defer { RLRelease(RLTypeRef(found)) }
        let port = object(of: found)
        // A plain port is Mach-like and of another class: this one shares its channel.
        return port as? MachPort ?? MachPort(channel: port.machChannel)
    }

    var isValid: Bool { RLMachPortIsValid(reference) }

    func invalidate(_ port: Port) {
        let isFirst = state.withLock { state in
            defer { state.isAnnounced = true }
            return !state.isAnnounced
        }
        RLMachPortInvalidate(reference)
        dropKept()
        if isFirst { port.postInvalidation() }
    }

    /// Called when C code has invalidated the port.
    fileprivate func announce(_ port: Port) {
        let isFirst = state.withLock { state in
            defer { state.isAnnounced = true }
            return !state.isAnnounced
        }
        guard isFirst else { return }
        dropKept()
        port.postInvalidation()
    }

    private func dropKept() {
        // What goes may hold the last reference of other ports: it goes after the lock.
        let dropped = state.withLock { state in
            let kept = state.kept
            state.kept = [:]
            return kept
        }
        _ = dropped
    }

    func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in mode.rawValue.withCString { RLAddSource(loop.reference, source, $0) } }
    }

    func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in mode.rawValue.withCString { RLRemoveSource(loop.reference, source, $0) } }
    }

    /// The loops keep the source; while one has it this is always the same.
    private func withSource(_ body: (RLSourceRef) -> Void) {
        guard let source = RLMachPortCreateRunLoopSource(reference, 0) else { return }
        body(source)
        RLRelease(RLTypeRef(source))
    }

    func send(_ message: CarriedMessage, timeout: Double) -> Bool {
        // A reply port of another kind is carried beside the message, not by the C library.
        var reply = message.replyPort.flatMap { type(of: $0).isMachLike ? $0.machChannel : nil }
        // The C library's queue would keep its port.
        if reply === self && !isWrapped { reply = nil }
        let seconds = max(timeout, 0)
        if message.replyPort == nil || reply != nil, message.components.count <= 1 {
            switch message.components.first {
            case nil: return send(message.msgid, [], reply, seconds)
            case .bytes(let bytes)? where !bytes.isEmpty && bytes.count != MemoryLayout<Key>.size:
                return send(message.msgid, bytes, reply, seconds)
            default: break
            }
        }
        let kept = KeptMessage(message, isOwn: isOwn)
        let key = state.withLock { state in
            let key = Key(mark: Key.mark, number: state.nextKey)
            state.nextKey += 1
            state.kept[key] = kept
            return key
        }
        let isQueued = withUnsafeBytes(of: key) { send(message.msgid, Array($0), reply, seconds) }
        if !isQueued || !isValid { _ = take(key) }
        return isQueued
    }

    private func send(_ msgid: UInt32, _ bytes: [UInt8], _ reply: MachChannel?, _ seconds: Double) -> Bool {
        bytes.withUnsafeBytes { buffer in
            RLMachPortSend(
                reference, Int32(bitPattern: msgid), buffer.baseAddress, buffer.count, reply?.reference, seconds)
                == CInt(kRLMessagePortSuccess)
        }
    }

    private func take(_ key: Key) -> KeptMessage? { state.withLock { $0.kept.removeValue(forKey: key) } }

    /// The message that came as this.
    fileprivate func received(_ raw: MachMessage, _ reply: RLMachPortRef?, by port: Port) -> CarriedMessage {
        if raw.bytes.count == MemoryLayout<Key>.size {
            let key = raw.bytes.withUnsafeBytes { $0.loadUnaligned(as: Key.self) }
            if let kept = take(key) { return kept.received(by: port) }
        }
        return CarriedMessage(
            msgid: raw.msgid, components: raw.bytes.isEmpty ? [] : [.bytes(raw.bytes)],
            replyPort: reply.map { MachChannel.object(of: $0) })
    }
}

/// What the C library's port holds on to; it does not keep the object alive.
private final class MachPortInfo: ContextInfo {
    /// Written once, before anybody else has the port.
    weak var channel: MachChannel?
}

private func receiveMachMessage(
    _ reference: RLMachPortRef, _ message: UnsafePointer<RLMachMessage>, _ info: UnsafeMutableRawPointer?
) {
    guard let info, let channel = MachPortInfo.unretained(info).channel, let port = channel.port else { return }
    let length = message.pointee.length
    let bytes = length == 0 ? [] : [UInt8](UnsafeRawBufferPointer(start: message.pointee.bytes, count: length))
    let raw = MachMessage(msgid: UInt32(bitPattern: message.pointee.msgid), bytes: bytes)
    // Taken in either case: what is kept here goes with the message that stands for it.
    let received = channel.received(raw, message.pointee.replyPort, by: port)
    if let delegate = port.delegate() as? any MachPortDelegate { return delegate.handleMachMessage(raw) }
    port.deliver(received)
}
