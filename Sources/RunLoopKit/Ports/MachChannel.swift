// SPDX-License-Identifier: MIT
internal import Synchronization

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

    /// Messages that are kept here, or are about to be, and keep ports that have queues. Sequentially consistent.
    private let keepers = Atomic(0)

    /// A message with empty places for ports that it must not keep: that which it is queued at, which keeps its queue, and those
    /// at which messages are queued that keep ports themselves. So ports that wait in each other's queues never keep themselves; the C
    /// library does the same with its reply ports, and says why that is enough (`keepReply`).
    private struct KeptMessage {
        private var message: CarriedMessage
        private var ownPlaces: [Int] = []
        private var mentions: [(place: Int, port: Mention)] = []
        /// It keeps a port that has a queue.
        private(set) var isKeeper = false

        /// A class of its own: the compiler copies a structure that has a weak reference wrongly out of some dictionaries.
        private final class Mention {
            weak var port: Port?
            init(_ port: Port) { self.port = port }
        }

        /// The place of the reply port.
        private static var replyPlace: Int { -1 }

        init(_ message: CarriedMessage, at channel: MachChannel) {
            self.message = message
            for (place, component) in message.components.enumerated() {
                if case .port(let port) = component, !keeps(port, place, channel) { self.message.components[place] = .bytes([]) }
            }
            if let reply = message.replyPort, !keeps(reply, KeptMessage.replyPlace, channel) { self.message.replyPort = nil }
        }

        private mutating func keeps(_ port: Port, _ place: Int, _ channel: MachChannel) -> Bool {
            guard type(of: port).isMachLike else { return true }
            let other = port.machChannelIfMade
            if other === channel {
                ownPlaces.append(place)
                return false
            }
            // Where no channel is nothing is queued.
            if let other, other.keepers.load(ordering: .sequentiallyConsistent) > 0 {
                mentions.append((place, Mention(port)))
                return false
            }
            isKeeper = true
            return true
        }

        /// What is received; of ports that are gone a reply port is left out, and a component with it.
        func received(by port: Port) -> CarriedMessage {
            var message = message
            var gone: [Int] = []
            for (place, other) in ownPlaces.map({ ($0, Optional(port)) }) + mentions.map({ ($0.place, $0.port.port) }) {
                if place == KeptMessage.replyPlace {
                    message.replyPort = other
                } else if let other {
                    message.components[place] = .port(other)
                } else {
                    gone.append(place)
                }
            }
            for place in gone.reversed() { message.components.remove(at: place) }
            return message
        }

        /// The bytes, if they are all that there is beside a reply port: a raw message has them.
        var bytes: [UInt8]? {
            guard message.components.count == 1, ownPlaces.isEmpty, mentions.allSatisfy({ $0.place < 0 }),
                case .bytes(let bytes) = message.components[0]
            else { return nil }
            return bytes
        }
    }

    /// What travels in place of a message that is kept here.
    struct Key: Hashable {
        /// Differs in every process, so that no bytes of a program look like a key by chance.
        var mark: UInt64
        var number: UInt64

        static let mark = UInt64.random(in: .min ... .max)
    }

    /// The channels by the addresses of their C ports.
    private static let channels = WeakTable<UInt, MachChannel>()

    static func prepare() { _ = (channels, Key.mark, Dropped.ofThread) }

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
        Dropped.drop(takeKept())
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
        let dropped = takeKept()
        for kept in dropped.values where kept.isKeeper { keepers.subtract(1, ordering: .sequentiallyConsistent) }
        Dropped.drop(consume dropped)
    }

    /// What goes may hold the last reference of other ports: it goes after the lock.
    private func takeKept() -> [Key: KeptMessage] {
        state.withLock { state in
            let kept = state.kept
            state.kept = [:]
            return kept
        }
    }

    /// The messages that a thread still has to let go of. Each may hold the last reference of a port at which the next one waits: a chain of them takes no
    /// more stack than one, since only the outermost call lets go, to which the others hand their references over.
    private final class Dropped {
        private var messages: [[Key: KeptMessage]] = []
        static let ofThread = ThreadKey<Dropped>()

        static func drop(_ messages: consuming [Key: KeptMessage]) {
            if messages.isEmpty { return }
            if let outer = ofThread.get() { return outer.messages.append(consume messages) }
            let outermost = Dropped()
            outermost.messages.append(consume messages)
            ofThread.set(outermost)
            while outermost.messages.popLast() != nil {}
            ofThread.set(nil)
        }
    }

    func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in
            // The setter of the name may not have found this source yet, and no other names it.
            setName(of: RLTypeRef(source), objectName(RLTypeRef(reference)))
            mode.rawValue.withCString { RLAddSource(loop.reference, source, $0) }
        }
    }

    func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        withSource { source in mode.rawValue.withCString { RLRemoveSource(loop.reference, source, $0) } }
    }

    /// The loops keep the source; while one has it this is always the same.
    func withSource(_ body: (RLSourceRef) -> Void) {
        guard let source = RLMachPortCreateRunLoopSource(reference, 0) else { return }
        body(source)
        RLRelease(RLTypeRef(source))
    }

    func send(_ message: CarriedMessage, timeout: Double) -> Bool {
        let seconds = max(timeout, 0)
        if isWrapped { return sendToC(message, seconds) }
        if message.replyPort == nil, message.components.count <= 1 {
            switch message.components.first {
            case nil: return send(message.msgid, [], nil, seconds)
            case .bytes(let bytes)? where !bytes.isEmpty && bytes.count != MemoryLayout<Key>.size:
                return send(message.msgid, bytes, nil, seconds)
            default: break
            }
        }
        // Counted before the looks at the other ports.
        keepers.add(1, ordering: .sequentiallyConsistent)
        let kept = KeptMessage(message, at: self)
        if !kept.isKeeper { keepers.subtract(1, ordering: .sequentiallyConsistent) }
        let key = state.withLock { state in
            let key = Key(mark: Key.mark, number: state.nextKey)
            state.nextKey += 1
            state.kept[key] = kept
            return key
        }
        let isQueued = withUnsafeBytes(of: key) { send(message.msgid, Array($0), nil, seconds) }
        if !isQueued || !isValid { _ = take(key) }
        return isQueued
    }

    /// C code's receiver reads a number, bytes and a Mach-like port to answer to; what is more is refused.
    private func sendToC(_ message: CarriedMessage, _ seconds: Double) -> Bool {
        let reply = message.replyPort.flatMap { type(of: $0).isMachLike ? $0.machChannel : nil }
        guard message.components.count <= 1, (reply == nil) == (message.replyPort == nil) else { return false }
        switch message.components.first {
        case nil: return send(message.msgid, [], reply, seconds)
        case .bytes(let bytes)?: return send(message.msgid, bytes, reply, seconds)
        case .port?: return false
        }
    }

    private func send(_ msgid: UInt32, _ bytes: [UInt8], _ reply: MachChannel?, _ seconds: Double) -> Bool {
        bytes.withUnsafeBytes { buffer in
            RLMachPortSend(
                reference, Int32(bitPattern: msgid), buffer.baseAddress, buffer.count, reply?.reference, seconds)
                == CInt(kRLMessagePortSuccess)
        }
    }

    private func take(_ key: Key) -> KeptMessage? {
        let kept = state.withLock { $0.kept.removeValue(forKey: key) }
        if kept?.isKeeper == true { keepers.subtract(1, ordering: .sequentiallyConsistent) }
        return kept
    }

    /// The message that came as this, and what a delegate that wants raw messages gets.
    fileprivate func received(
        _ raw: MachMessage, _ reply: RLMachPortRef?, by port: Port
    ) -> (message: CarriedMessage, raw: MachMessage) {
        if raw.bytes.count == MemoryLayout<Key>.size {
            let key = raw.bytes.withUnsafeBytes { $0.loadUnaligned(as: Key.self) }
            if let kept = take(key) {
                return (kept.received(by: port), MachMessage(msgid: raw.msgid, bytes: kept.bytes ?? raw.bytes))
            }
        }
        let message = CarriedMessage(
            msgid: raw.msgid, components: raw.bytes.isEmpty ? [] : [.bytes(raw.bytes)],
            replyPort: reply.map { MachChannel.object(of: $0) })
        return (message, raw)
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
    if let delegate = port.delegate() as? any MachPortDelegate { return delegate.handleMachMessage(received.raw) }
    port.deliver(received.message)
}
