// SPDX-License-Identifier: MIT
internal import Synchronization

/// The connection to a remote socket port: one for all objects of that address.
// Sendable: the signature is constant and the rest is locked.
final class SocketSender: @unchecked Sendable {
    private let signature: SocketSignature
    /// Held while a message is written, so that messages do not mix; guards the descriptor.
    private let writing = LongLock()
    private var descriptor: CInt = -1
    private struct State {
        var isInvalidated = false
        /// A message is being written; who writes it closes the connection of a sender that has become invalid meanwhile.
        var isWriting = false
    }
    private let state = Locked(State())

    private static let all = WeakTable<SocketSignature, SocketSender>()

    /// Tells the loops that have ports of an address, and nobody else, when these become invalid (S-NSP-17).
    static let ends = NotificationCenter()

    static func prepare() { _ = (all, ends) }

    /// The one sender of an address.
    static func of(_ signature: SocketSignature) -> SocketSender {
        all.object(of: signature) { SocketSender(signature) }.object
    }

    private init(_ signature: SocketSignature) { self.signature = signature }

    deinit {
        SocketSender.all.forget(signature, of: self)
        if descriptor >= 0 { SocketCalls.end(descriptor) }
    }

    var isValid: Bool { !state.withLock { $0.isInvalidated } }

    /// Whether it is for a kind of socket that messages go through.
    var canSend: Bool { signature.socketType == SocketCalls.stream || signature.socketType == SocketCalls.datagram }

    /// A message that is being written goes on, and is not waited for: its writer may have all the time there is.
    func invalidate() {
        // Who asks for the address from now on gets a new one.
        SocketSender.all.forget(signature, of: self)
        let isWriting = state.withLock { state in
            state.isInvalidated = true
            return state.isWriting
        }
        if !isWriting { writing.withLock { _ in end() } }
        SocketSender.ends.post(name: Port.didBecomeInvalidNotification, object: self)
    }

    /// Writes what `frame` gives for the address that the connection has on this side.
    func send(until limit: ContinuousClock.Instant, _ frame: ([UInt8]) -> [UInt8]?) -> Bool {
        writing.withLock { isForked in
            guard beginWriting() else { return false }
            defer { endWriting() }
            // The other end may have closed the connection since it was used, and in a child of `fork` it is the parent's: then a
            // new one is made.
            if descriptor >= 0, isForked || isOver(descriptor) { end() }
            if descriptor < 0 {
                let made = SocketCalls.make(signature)
                guard made >= 0 else { return false }
                guard SocketCalls.startConnection(made, to: signature.address, until: limit) else {
                    SocketCalls.end(made)
                    return false
                }
                descriptor = made
            }
            guard let bytes = frame(SocketCalls.localAddress(descriptor)) else { return false }
            if SocketCalls.write(bytes, to: descriptor, until: limit) { return true }
            // A datagram that is too long takes nothing from the next one.
            if signature.socketType == SocketCalls.stream { end() }
            return false
        }
    }

    private func beginWriting() -> Bool {
        state.withLock { state in
            state.isWriting = !state.isInvalidated
            return state.isWriting
        }
    }

    private func endWriting() {
        let isInvalidated = state.withLock { state in
            state.isWriting = false
            return state.isInvalidated
        }
        if isInvalidated { end() }
    }

    private func end() {
        if descriptor >= 0 { SocketCalls.end(descriptor) }
        descriptor = -1
    }

    /// The receiver never writes, so there is something to read only at the end.
    private func isOver(_ descriptor: CInt) -> Bool {
        var byte: UInt8 = 0
        return withUnsafeMutableBytes(of: &byte) { buffer in
            if case .nothing = SocketCalls.read(descriptor, into: buffer) { return false }
            return true
        }
    }
}

/// The socket of a local port and the connections that others made to it.
///
/// Each descriptor has a source, which is in all modes that the port is in. A source serves one message in a pass, and
/// reads no further than its end, so that the next one makes the descriptor readable again.
// Sendable: the descriptor's number and everything else that changes is locked.
final class SocketListener: @unchecked Sendable {
    /// A descriptor, closed with the last who uses it.
    private final class Handle: Sendable {
        let descriptor: CInt

        init(_ descriptor: CInt) { self.descriptor = descriptor }

        deinit { SocketCalls.end(descriptor) }
    }

    private final class Connection {
        let handle: Handle
        let source: RunLoop.Source
        /// Somebody reads, and owns what follows; changed under the listener's lock.
        var isBeingRead = false
        /// Of the message that is being read: first the header, then the payload too.
        var bytes: [UInt8] = []

        init(_ handle: Handle, _ source: RunLoop.Source) {
            self.handle = handle
            self.source = source
        }
    }

    private struct State {
        /// Nil if the port is closed.
        var handle: Handle?
        var source: RunLoop.Source?
        /// Where the sources are, but for those of ``pauses``.
        var places: [RunLoop: ModeSet] = [:]
        /// How many changes of these there were.
        var changes = 0
        /// Loops that do not look for connections for a while, because none could be taken; the timer ends that.
        var pauses: [RunLoop: Timer] = [:]
        var connections: [CInt: Connection] = [:]

        var sources: [RunLoop.Source] { (source.map { [$0] } ?? []) + connections.values.map(\.source) }
    }

    private let state = Locked(State())
    /// Where it really listens; nil if it does not.
    let address: [UInt8]?
    /// Set once, before anybody else has the port.
    weak var port: SocketPort?

    init(_ signature: SocketSignature) {
        let descriptor = SocketCalls.make(signature)
        let handle = descriptor >= 0 ? Handle(descriptor) : nil
        guard let handle, SocketCalls.startListening(descriptor, at: signature) else {
            address = nil
            return
        }
        address = SocketCalls.localAddress(descriptor)
        receive(with: handle, signature)
    }

    /// Listens with a socket that is bound; nil, and the socket is the caller's, if it cannot.
    init?(adopting descriptor: CInt, _ signature: SocketSignature) {
        guard SocketCalls.startListening(with: descriptor, signature) else { return nil }
        address = signature.address
        receive(with: Handle(descriptor), signature)
    }

    private func receive(with handle: Handle, _ signature: SocketSignature) {
        let isDatagram = signature.socketType == SocketCalls.datagram
        let source = RunLoop.Source(descriptor: handle.descriptor) { [weak self] _ in
            if isDatagram { self?.receiveDatagram() } else { self?.accept() }
        }
        state.withLock { $0 = State(handle: handle, source: source) }
    }

    var isOpen: Bool { state.withLock { $0.handle != nil } }

    var descriptor: CInt { state.withLock { $0.handle?.descriptor ?? -1 } }

    /// That of its source, which those of its connections have as well.
    var name: String? {
        get { state.withLock { $0.source }?.name }
        set { for source in state.withLock({ $0.sources }) { source.name = newValue } }
    }

    /// Closes everything; false if it was closed before.
    @discardableResult
    func close() -> Bool {
        let old = state.withLock { state in
            let old = state
            state = State(changes: old.changes + 1)
            return old
        }
        // A source is out of its loops before its descriptor is closed.
        old.source?.invalidate()
        for connection in old.connections.values { connection.source.invalidate() }
        for timer in old.pauses.values { timer.invalidate() }
        return old.handle != nil
    }

    func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode) {
        let common = commonModes(of: loop, mode)
        let sources = state.withLock { state in
            if state.handle != nil {
                _ = state.places[loop, default: ModeSet()].insert(mode, common: common)
                state.changes += 1
            }
            return state.sources
        }
        for source in sources { loop.add(source, forMode: mode) }
    }

    func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        let common = commonModes(of: loop, mode)
        let (sources, timer) = state.withLock { state in
            _ = state.places[loop]?.remove(mode, common: common)
            state.changes += 1
            guard state.places[loop]?.isEmpty != false else { return (state.sources, state.pauses[loop]) }
            // The caller has the loop's object.
            state.places[loop] = nil
            return (state.sources, state.pauses.removeValue(forKey: loop))
        }
        for source in sources { loop.remove(source, forMode: mode) }
        if let timer { loop.remove(timer, forMode: mode) }
    }

    /// The common modes, if a change of the port's modes in the loop depends on them.
    private func commonModes(of loop: RunLoop, _ mode: RunLoop.Mode) -> Set<RunLoop.Mode> {
        state.withLock { $0.places[loop]?.dependsOnCommonModes(mode) ?? false } ? loop.commonModes : []
    }

    /// Puts an item into all modes of the port, of one loop or of all, and takes it out again where the port is removed meanwhile.
    private func place(
        in only: RunLoop? = nil, add: (RunLoop, RunLoop.Mode) -> Void, remove: (RunLoop, RunLoop.Mode) -> Void
    ) {
        var seen: Int?
        var known: [RunLoop: Set<RunLoop.Mode>] = [:]
        while true {
            let (places, changes) = state.withLock { ($0.places, $0.changes) }
            if changes == seen { return }
            seen = changes
            for loop in places.keys where known[loop] == nil && (only == nil || loop == only) { known[loop] = [] }
            for (loop, names) in known {
                let modes = places[loop] ?? ModeSet()
                modes.place(also: names, common: loop.commonModes, add: { add(loop, $0) }, remove: { remove(loop, $0) })
                known[loop]!.formUnion(modes.names)
            }
        }
    }

    private func accept() {
        guard let listener = state.withLock({ $0.handle }) else { return }
        let descriptor = SocketCalls.takeConnection(listener.descriptor)
        guard descriptor >= 0 else {
            if SocketCalls.cannotTakeConnections { pause() }
            return
        }
        let source = RunLoop.Source(descriptor: descriptor) { [weak self] _ in self?.receive(descriptor) }
        let connection = Connection(Handle(descriptor), source)
        let isOpen = state.withLock { state in
            if state.handle != nil { state.connections[descriptor] = connection }
            return state.handle != nil
        }
        guard isOpen else { return }
        if let name { source.name = name }
        place(add: { $0.add(source, forMode: $1) }, remove: { $0.remove(source, forMode: $1) })
    }

    /// No connection can be taken, for lack of descriptors: those that wait stay queued, and the calling thread's loop tries again later.
    /// With the source in it, it would try again and again (S-ARG-10).
    private func pause() {
        let loop = RunLoop.current
        let timer = Timer(timeInterval: .milliseconds(100), repeats: false) { [weak self] _ in self?.goOn() }
        let (source, former) = state.withLock { state in
            let former = state.handle == nil ? timer : state.pauses.updateValue(timer, forKey: loop)
            return (state.source, former)
        }
        former?.invalidate()
        guard let source else { return }
        place(in: loop) { loop, mode in
            // First the timer, so that no mode is empty in between.
            loop.add(timer, forMode: mode)
            loop.remove(source, forMode: mode)
        } remove: { loop, mode in
            loop.remove(timer, forMode: mode)
        }
    }

    /// The calling thread's loop looks for connections again.
    private func goOn() {
        let loop = RunLoop.current
        let (source, timer) = state.withLock { ($0.source, $0.pauses.removeValue(forKey: loop)) }
        if let source { place(in: loop, add: { $0.add(source, forMode: $1) }, remove: { $0.remove(source, forMode: $1) }) }
        withExtendedLifetime(timer) {}
    }

    /// A datagram is a whole message; one that is none is dropped, since anybody can send one.
    private func receiveDatagram() {
        guard let listener = state.withLock({ $0.handle }),
            let frame = SocketCalls.readDatagram(listener.descriptor), frame.count >= SocketFrame.headerLength,
            Int(number(frame, 0)) == frame.count - SocketFrame.headerLength,
            let message = SocketFrame.decode(msgid: number(frame, 4), Array(frame[SocketFrame.headerLength...]))
        else { return }
        port?.deliver(message)
    }

    private enum Outcome {
        case nothing
        case message(CarriedMessage)
        case over
    }

    private func receive(_ descriptor: CInt) {
        // Of several loops one reads; the others look again while there is something left.
        let claimed = state.withLock { state -> Connection? in
            guard let connection = state.connections[descriptor], !connection.isBeingRead else { return nil }
            connection.isBeingRead = true
            return connection
        }
        guard let connection = claimed else { return }
        let outcome = read(connection)
        let isOver = if case .over = outcome { true } else { false }
        state.withLock { state in
            connection.isBeingRead = false
            if isOver, state.connections[descriptor] === connection { state.connections[descriptor] = nil }
        }
        if case .message(let message) = outcome { port?.deliver(message) }
        if isOver { connection.source.invalidate() }
    }

    /// Reads on, at most to the end of the message.
    private func read(_ connection: Connection) -> Outcome {
        while true {
            let have = connection.bytes.count
            var total = SocketFrame.headerLength
            if have >= total {
                total += Int(number(connection.bytes, 0))
                if total - SocketFrame.headerLength > SocketFrame.longest { return .over }
            }
            if have >= SocketFrame.headerLength, have == total {
                let payload = Array(connection.bytes[SocketFrame.headerLength...])
                let msgid = number(connection.bytes, 4)
                connection.bytes = []
                // Who writes something else is not listened to any longer.
                guard let message = SocketFrame.decode(msgid: msgid, payload) else { return .over }
                return .message(message)
            }
            // Room is made for what has come, not for what the header says.
            let room = min(total - have, 65536)
            var result = SocketCalls.ReadResult.nothing
            let portion = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                result = SocketCalls.read(connection.handle.descriptor, into: UnsafeMutableRawBufferPointer(buffer))
                if case .bytes(let read) = result { count = read }
            }
            switch result {
            case .bytes: connection.bytes += portion
            case .nothing: return .nothing
            case .over: return .over
            }
        }
    }

    private func number(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
        bytes.withUnsafeBytes { UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
    }
}
