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
        /// Messages that are queued, by the key that travels for them.
        var kept: [Key: CarriedMessage] = [:]
        var nextKey: UInt64 = 0
        /// Set by who posts the notification, so that it is posted once.
        var isAnnounced = false
    }
    private let state: Locked<State>

    /// What travels in place of a message that is kept here.
    struct Key: Hashable {
        /// Differs in every process, so that no bytes of a program look like a key by chance.
        var mark: UInt64
        var number: UInt64

        static let mark = UInt64.random(in: .min ... .max)
    }

    /// The objects that stand for ports of the C library.
    private static let objects = Locked<[UInt: WeakPort]>([:])

    private struct WeakPort {
        weak var port: Port?
    }

    /// Makes a C port whose messages go to the object.
    init(port: Port) {
        state = Locked(State())
        let info = MachPortInfo(port)
        var context = RLMachPortContext(
            version: 0, info: Unmanaged.passUnretained(info).toOpaque(),
            retain: retainInfo, release: releaseInfo, copyDescription: nil)
        guard let made = RLMachPortCreate(receiveMachMessage, &context, nil) else {
            fatalError("RunLoopKit: no memory for a port")
        }
        reference = made
        let address = UInt(bitPattern: made)
        MachChannel.objects.withLock { $0[address] = WeakPort(port: port) }
        RLMachPortSetInvalidationCallBack(made) { _, info in
            guard let info else { return }
            guard let port = MachPortInfo.unretained(info).port else { return }
            port.machChannelIfMade?.announce(port)
        }
    }

    /// Stands for a port of C code's, which has a receiver of its own.
    private init(wrapping reference: RLMachPortRef) {
        self.reference = reference
        state = Locked(State())
        _ = RLRetain(RLTypeRef(reference))
    }

    deinit {
        let address = UInt(bitPattern: reference)
        MachChannel.objects.withLock { objects in
            if let entry = objects[address], entry.port == nil { objects[address] = nil }
        }
        RLRelease(RLTypeRef(reference))
    }

    /// The one object of a port of the C library, made if there is none.
    static func object(of reference: RLMachPortRef) -> Port {
        let address = UInt(bitPattern: reference)
        return objects.withLock { objects in
            if let port = objects[address]?.port { return port }
            let port = MachPort(channel: MachChannel(wrapping: RLMachPortRef(bitPattern: address)!))
            objects[address] = WeakPort(port: port)
            return port
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
        let reply = message.replyPort.flatMap { type(of: $0).isMachLike ? $0.machChannel : nil }
        let seconds = max(timeout, 0)
        if message.replyPort == nil || reply != nil, message.components.count <= 1 {
            switch message.components.first {
            case nil: return send(message.msgid, [], reply, seconds)
            case .bytes(let bytes)? where !bytes.isEmpty && bytes.count != MemoryLayout<Key>.size:
                return send(message.msgid, bytes, reply, seconds)
            default: break
            }
        }
        let key = state.withLock { state in
            let key = Key(mark: Key.mark, number: state.nextKey)
            state.nextKey += 1
            state.kept[key] = message
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

    private func take(_ key: Key) -> CarriedMessage? { state.withLock { $0.kept.removeValue(forKey: key) } }

    /// The message that came as this.
    fileprivate func received(_ raw: MachMessage, _ reply: RLMachPortRef?) -> CarriedMessage {
        if raw.bytes.count == MemoryLayout<Key>.size {
            let key = raw.bytes.withUnsafeBytes { $0.loadUnaligned(as: Key.self) }
            if let kept = take(key) { return kept }
        }
        return CarriedMessage(
            msgid: raw.msgid, components: raw.bytes.isEmpty ? [] : [.bytes(raw.bytes)],
            replyPort: reply.map { MachChannel.object(of: $0) })
    }
}

/// What the C library's port holds on to; it does not keep the object alive.
private final class MachPortInfo: ContextInfo {
    weak let port: Port?

    init(_ port: Port) { self.port = port }
}

private func receiveMachMessage(
    _ reference: RLMachPortRef, _ message: UnsafePointer<RLMachMessage>, _ info: UnsafeMutableRawPointer?
) {
    guard let info, let port = MachPortInfo.unretained(info).port, let channel = port.machChannelIfMade else { return }
    let length = message.pointee.length
    let bytes = length == 0 ? [] : [UInt8](UnsafeRawBufferPointer(start: message.pointee.bytes, count: length))
    let raw = MachMessage(msgid: UInt32(bitPattern: message.pointee.msgid), bytes: bytes)
    if let delegate = port.delegate() as? any MachPortDelegate { return delegate.handleMachMessage(raw) }
    port.deliver(channel.received(raw, message.pointee.replyPort))
}
