// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A port that threads and processes of one user find by its name.
///
/// A port made here receives: it goes into a loop, and ``MessagePortNameServer`` registers its name. What
/// ``MessagePortNameServer/port(forName:)`` finds sends to it, in this process or another. Such a port becomes invalid
/// when the port that it sends to is gone. An answer goes to the `sendPort` of a received message, which is another
/// message port too: a port that is sent as the one to answer to gets a name of its own if it has none.
///
/// ``request(_:msgid:descriptors:sendTimeout:replyTimeout:mode:)`` sends bytes and descriptors to a port with a
/// ``setRequestHandler(_:)``, or to C code, and waits for the answer.
///
/// - Threads: all members may be used from any thread; the delegate is called on the loop's.
/// - Foundation: `NSMessagePort`. CF: `CFMessagePortRef`, which ``getRLMessagePort()`` gives in its `RL` form.
public final class MessagePort: Port, @unchecked Sendable {
    // Sendable: the reference is constant, its functions may be called from any thread, and the rest is locked.
    let reference: RLMessagePortRef
    /// Set by who posts the notification, so that it is posted once.
    let isAnnounced = Locked(false)
    /// Who answers in place of the delegate.
    struct RequestHandler: Sendable {
        let answer: @Sendable (MessagePort, Request) -> [UInt8]?
    }
    let requestHandler = Locked<RequestHandler?>(nil)

    /// The objects that stand for remote ports, by address.
    private static let remotes = WeakTable<UInt, MessagePort>()

    static func prepare() { _ = (remotes, relayKey, Request.served) }

    /// Makes a port that receives, without a name.
    public override convenience init() {
        let info = MessagePortInfo()
        var context = RLMessagePortContext(
            version: 0, info: Unmanaged.passUnretained(info).toOpaque(),
            retain: retainInfo, release: releaseInfo, copyDescription: nil)
        guard let made = RLMessagePortCreateLocal(nil, receiveMessage, &context, nil) else {
            fatalError("RunLoopKit: no memory for a port")
        }
        self.init(taking: made)
        info.port = self
        RLMessagePortSetInvalidationCallBack(made) { _, info in
            if let info, let port = MessagePortInfo.unretained(info).port { port.announce() }
        }
    }

    private init(taking reference: RLMessagePortRef) {
        self.reference = reference
        super.init()
    }

    deinit {
        MessagePort.remotes.forget(UInt(bitPattern: reference), of: self)
        RLRelease(RLTypeRef(reference))
    }

    /// The port that sends to the local port of a name; the same object as long as it is valid and held.
    static func remote(named name: [UInt8]) -> MessagePort? {
        // A peer may send any.
        guard !name.isEmpty, !name.isCutInC else { return nil }
        let made = name.withCString { RLMessagePortCreateRemote($0) }
        guard let made else { return nil }
        // An object takes over the reference, also one that another thread's comes before.
        let (port, isNew) = remotes.object(of: UInt(bitPattern: made)) { MessagePort(taking: RLRetain(RLTypeRef(made)).map { RLMessagePortRef($0) }!) }
        RLRelease(RLTypeRef(made))
        if isNew {
            RLMessagePortSetInvalidationCallBack(made) { reference, _ in
                MessagePort.remotes.find(UInt(bitPattern: reference))?.announce()
            }
        }
        return port
    }

    /// The port as the C functions take it, an `RLMessagePortRef`; valid as long as this object lives.
    public func getRLMessagePort() -> OpaquePointer { reference }

    /// Whether the port can be used. A port that was found by name checks whether the other end exists.
    public override var isValid: Bool { RLMessagePortIsValid(reference) }

    /// Makes the port invalid permanently: it leaves its loops, its name is free, and
    /// ``Port/didBecomeInvalidNotification`` is posted; a second call does nothing (S-NSP-10, S-NSP-16).
    public override func invalidate() {
        let isFirst = takeAnnouncement()
        RLMessagePortInvalidate(reference)
        if isFirst { end() }
    }

    /// Called when the port became invalid by other means.
    fileprivate func announce() {
        if takeAnnouncement() { end() }
    }

    private func end() {
        setRequestHandler(nil)
        postInvalidation()
    }

    private func takeAnnouncement() -> Bool {
        isAnnounced.withLock { isAnnounced in
            defer { isAnnounced = true }
            return !isAnnounced
        }
    }

    /// Called by a loop that the port is added to; a port that was found by name receives nothing.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that is to receive.
    ///   - mode: the mode in which it does.
    public override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in
            // The setter of the name may not have found this source yet, and no other names it.
            setName(of: RLTypeRef(source), objectName(RLTypeRef(reference)))
            mode.rawValue.withCString { RLAddSource(runLoop.reference, source, $0) }
        }
    }

    /// Called by a loop that the port is removed from.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that no longer receives.
    ///   - mode: the mode in which it did.
    public override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in mode.rawValue.withCString { RLRemoveSource(runLoop.reference, source, $0) } }
    }

    func withSource(_ body: (RLSourceRef) -> Void) {
        guard !RLMessagePortIsRemote(reference), let source = RLMessagePortCreateRunLoopSource(reference, 0) else {
            return
        }
        body(source)
        RLRelease(RLTypeRef(source))
    }

    /// Sends a message to the port, through its name.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full; a date that is not in the future makes one try.
    ///   - msgID: the number that the receiver gets, of which 32 bits are carried.
    ///   - components: sequences of bytes and at most 1024 message ports, together at most 65,536; anything else is refused
    ///     (S-NSP-19).
    ///   - receivePort: where answers are to go; a message port or nil.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued; false also for an invalid port (S-NSP-8).
    @_disfavoredOverload
    public override func send(
        before limitDate: ContinuousClock.Instant, msgid msgID: Int, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        guard let components = PortComponent.list(components), let bytes = encoded(components, receivePort) else {
            return false
        }
        // One sends to a port of one's own by its name, as everybody does.
        guard let target else { return false }
        let seconds = max(limitDate.secondsFromNow, 0)
        let result = bytes.withUnsafeBytes { buffer in
            RLMessagePortSendRequest(
                target.reference, Int32(truncatingIfNeeded: msgID), buffer.baseAddress, buffer.count, seconds, 0, nil, nil)
        }
        return result == CInt(kRLMessagePortSuccess)
    }

    /// The port that sends to this one; nil for one that cannot have a name.
    var target: MessagePort? {
        RLMessagePortIsRemote(reference) ? self : name.flatMap { MessagePort.remote(named: $0) }
    }

    private func encoded(_ components: [PortComponent], _ receivePort: Port?) -> [UInt8]? {
        var replyName: [UInt8] = []
        if let receivePort {
            guard let name = (receivePort as? MessagePort)?.name else { return nil }
            replyName = name
        }
        var parts: [MessageCoding.Part] = []
        for component in components {
            switch component {
            case .bytes(let bytes): parts.append(.data(bytes))
            case .port(let port):
                guard let name = (port as? MessagePort)?.name else { return nil }
                parts.append(.port(name: name))
            }
        }
        return MessageCoding.encode(parts, replyName: replyName)
    }

    /// The name by which others send to the port; one that receives gets one if it has none. Nil if it cannot have one.
    private var name: [UInt8]? {
        if let known = RLMessagePortGetName(reference) { return Array(String(cString: known).utf8) }
        let unique = "RunLoopKit.\(String(UInt64.random(in: .min ... .max), radix: 36))"
            + String(UInt64.random(in: .min ... .max), radix: 36)
        // Another thread may have named it meanwhile.
        _ = unique.withCString { RLMessagePortSetName(reference, $0) }
        return RLMessagePortGetName(reference).map { Array(String(cString: $0).utf8) }
    }

    /// Registers a name; false if it is taken, or if this port cannot receive.
    fileprivate func register(_ name: String) -> Bool {
        !name.isCutInC && name.withCString { RLMessagePortSetName(reference, $0) }
    }

    /// The message that the bytes are.
    fileprivate static func decoded(msgid: Int32, _ bytes: UnsafeRawBufferPointer) -> CarriedMessage {
        guard let message = MessageCoding.decode(bytes) else {
            return CarriedMessage(
                msgid: UInt32(bitPattern: msgid), components: bytes.isEmpty ? [] : [.bytes(Array(bytes))], replyPort: nil)
        }
        // A port that is gone meanwhile is left out.
        let components = message.parts.compactMap { part -> PortComponent? in
            switch part {
            case .data(let data): .bytes(data)
            case .port(let name): MessagePort.remote(named: name).map { .port($0) }
            }
        }
        return CarriedMessage(
            msgid: UInt32(bitPattern: msgid), components: components,
            replyPort: MessagePort.remote(named: message.replyName))
    }
}

/// Registers and finds message ports by name, for one user of one machine.
///
/// Foundation: `NSMessagePortNameServer`.
public final class MessagePortNameServer: Sendable {
    private static let shared = MessagePortNameServer()

    private init() {}

    /// The one name server.
    public static func sharedInstance() -> MessagePortNameServer { shared }

    /// Registers a port under a name; it is found until it becomes invalid (S-NSP-15, S-NSP-16).
    ///
    /// - Parameters:
    ///   - port: a message port that was made here, not found by name.
    ///   - name: at most 128 bytes of UTF-8; a longer name is cut. A port that has a name loses it.
    /// - Returns: false if the name is taken or has a zero byte, or the port cannot receive.
    public func registerPort(_ port: Port, name: String) -> Bool {
        guard let port = port as? MessagePort, !name.isEmpty else { return false }
        return port.register(name)
    }

    /// Finds the port of a name (S-NSP-14).
    ///
    /// - Parameter name: what it was registered under.
    /// - Returns: a port that sends to it; nil if no port has the name.
    public func port(forName name: String) -> Port? { port(forName: name, host: nil) }

    /// Finds the port of a name on this machine.
    ///
    /// - Parameters:
    ///   - name: what it was registered under.
    ///   - host: nil or empty; there is no other machine (S-NSP-15).
    /// - Returns: a port that sends to it; nil if no port has the name, and for any other host.
    public func port(forName name: String, host: String?) -> Port? {
        guard host?.isEmpty ?? true else { return nil }
        return MessagePort.remote(named: Array(name.utf8))
    }

    /// Does nothing: a message port's name is free when the port is invalidated (S-NSP-16).
    ///
    /// - Parameter name: a name.
    /// - Returns: false.
    public func removePort(forName name: String) -> Bool { false }
}

/// What the C library's port holds on to; it does not keep the object alive.
private final class MessagePortInfo: ContextInfo {
    weak var port: MessagePort?
}

private func receiveMessage(
    _ reference: RLMessagePortRef, _ msgid: Int32, _ data: RLDataRef, _ info: UnsafeMutableRawPointer?
) -> RLDataRef? {
    guard let info, let port = MessagePortInfo.unretained(info).port else { return nil }
    return MessagePort.onQueue(for: reference) { descriptors in
        if let answer = port.answer(reference, msgid, data, descriptors) { return answer }
        let bytes = UnsafeRawBufferPointer(start: RLDataGetBytePtr(data), count: RLDataGetLength(data))
        port.deliver(MessagePort.decoded(msgid: msgid, bytes))
        return nil
    }
}

extension [UInt8] {
    /// Calls `body` with the bytes up to the first zero as a C string.
    fileprivate func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        var text = map { CChar(bitPattern: $0) }
        text.append(0)
        return text.withUnsafeBufferPointer { body($0.baseAddress!) }
    }
}
