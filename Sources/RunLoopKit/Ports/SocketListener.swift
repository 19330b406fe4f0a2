// SPDX-License-Identifier: MIT
/// The socket of a local port and the connections that others made to it.
///
/// Each descriptor has a source, which is in all modes that the port is in. A source serves one message in a pass, and
/// reads no further than its end, so that the next one makes the descriptor readable again.
///
/// What has come of messages that are not whole is bounded for all connections together (S-NSP-21). A connection that finds no room is
/// not read from, so that its peer waits, and tries again after a while. There is always one that finds room, the one that is
/// favoured: so messages get whole and make room. One whose peer is silent, while others wait, is closed.
// Sendable: the descriptor's number and everything else that changes is locked.
final class SocketListener: @unchecked Sendable {
    /// A descriptor, closed with the last who uses it.
    final class Handle: Sendable {
        let descriptor: CInt
        let isLocal: Bool

        init(_ descriptor: CInt) {
            self.descriptor = descriptor
            isLocal = PeerDescriptors.canCome(through: descriptor)
            if isLocal { PeerDescriptors.prepare(descriptor) }
        }

        deinit { SocketCalls.end(descriptor, isLocal: isLocal) }
    }

    final class Connection {
        let handle: Handle
        let source: RunLoop.Source
        /// Somebody reads, and owns what follows: the generation of its process, since a child of `fork` does not have that thread, and what it left
        /// may be half of a change. Changed under the listener's lock.
        var reader: UInt?
        /// Of the message that is being read: first the header, then the payload too.
        var bytes: [UInt8] = []
        /// Guarded by the listener's lock: how many of these count, when there were last more, and whether there is no room for what has come.
        var counted = 0
        var lastBytes = SuspendingClock.now
        var waitsForRoom = false

        init(_ handle: Handle, _ source: RunLoop.Source) {
            self.handle = handle
            self.source = source
        }
    }

    /// Sources that a loop leaves alone for a while, because nothing could be done for them; the timer ends that, for some of them at a time.
    struct Pause {
        let timer: Timer
        /// In the order in which they are looked at again.
        var sources: [RunLoop.Source] = []

        /// So many connections without room cost a loop little, however many more there are.
        mutating func takeNext() -> [RunLoop.Source] {
            let next = sources.prefix(64)
            sources.removeFirst(next.count)
            return Array(next)
        }
    }

    /// What the listener keeps of messages that are not whole (S-NSP-21).
    struct Limits {
        /// As much of each message counts for nothing: a connection costs the system as much.
        var free = 65536
        /// The most that counts of all together, besides the favoured message.
        var all = 1 << 28
        /// For how long a peer may pause in a message while others wait for room. A suspended machine hears nobody, so that time is not counted.
        var silence = Duration.seconds(10)
    }

    struct State {
        /// Nil if the port is closed.
        var handle: Handle?
        var source: RunLoop.Source?
        /// One of several loops receives a datagram: the generation of its process, since a child of `fork` may not have that thread.
        var datagramReader: UInt?
        /// Where the sources are, but for those of ``pauses``.
        var places: [RunLoop: ModeSet] = [:]
        /// How many changes of these there were.
        var changes = 0
        var pauses: [RunLoop: Pause] = [:]
        var connections: [CInt: Connection] = [:]
        /// The sum of what counts of all connections.
        var counted = 0
        /// Of all but the favoured one.
        var countedOfOthers: Int { counted - (favoured?.counted ?? 0) }
        /// The connection whose message may go beyond the bound.
        var favoured: Connection?
        /// When a silent connection may be looked for again.
        var nextLook = SuspendingClock.now

        /// The connection keeps nothing more of a message that is not whole, or this much.
        mutating func settle(_ connection: Connection, at count: Int) {
            counted += count - connection.counted
            connection.counted = count
            if count == 0, favoured === connection { favoured = nil }
        }

        var sources: [RunLoop.Source] { (source.map { [$0] } ?? []) + connections.values.map(\.source) }
    }

    let state = Locked(State())
    /// Where it really listens; nil if it does not.
    let address: [UInt8]?
    /// Set once, before anybody else has the port.
    weak var port: SocketPort?
    /// Tests set other ones, before there are connections.
    var limits = Limits()

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

    /// What it keeps of messages that are not whole, where nobody reads meanwhile.
    var keptBytes: Int { state.withLock { $0.connections.values.reduce(0) { $0 + $1.bytes.count } } }

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
        for pause in old.pauses.values { pause.timer.invalidate() }
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
        let (sources, timer, hasLeft) = state.withLock { state in
            _ = state.places[loop]?.remove(mode, common: common)
            state.changes += 1
            guard state.places[loop]?.isEmpty != false else { return (state.sources, state.pauses[loop]?.timer, false) }
            // The caller has the loop's object.
            state.places[loop] = nil
            return (state.sources, state.pauses.removeValue(forKey: loop)?.timer, true)
        }
        for source in sources { loop.remove(source, forMode: mode) }
        if let timer { loop.remove(timer, forMode: mode) }
        if hasLeft { timer?.invalidate() }
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
            // For lack of descriptors: those that wait stay queued.
            if SocketCalls.cannotTakeConnections, let source = state.withLock({ $0.source }) { pause(source) }
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

    /// Nothing can be done for the source now: the calling thread's loop tries again later. With the source in it, it would try again and
    /// again (S-ARG-10).
    private func pause(_ source: RunLoop.Source) {
        let loop = RunLoop.current
        // Only the loop's thread makes pauses; others may end one with the port's stay in the loop.
        let isFirst = state.withLock { $0.pauses[loop] == nil }
        let made = isFirst ? Timer(timeInterval: .milliseconds(100), repeats: true) { [weak self] in self?.goOn($0) ?? $0.invalidate() } : nil
        let begun = state.withLock { state -> Timer? in
            guard state.handle != nil, var pause = state.pauses.removeValue(forKey: loop) ?? made.map({ Pause(timer: $0) }) else { return nil }
            // New connections do not wait for those that are there.
            pause.sources.insert(source, at: source === state.source ? 0 : pause.sources.count)
            state.pauses[loop] = pause
            return pause.timer
        }
        guard let timer = begun else { return made?.invalidate() ?? () }
        place(in: loop) { loop, mode in
            // First the timer, so that no mode is empty in between.
            loop.add(timer, forMode: mode)
            loop.remove(source, forMode: mode)
        } remove: { loop, mode in
            loop.remove(timer, forMode: mode)
        }
        // The port was removed meanwhile: if it was also added, the source was there.
        if state.withLock({ $0.pauses[loop]?.timer }) !== timer { resume([source], in: loop, ending: timer) }
    }

    /// The calling thread's loop looks at some of the sources again.
    private func goOn(_ timer: Timer) {
        let loop = RunLoop.current
        let (sources, ended) = state.withLock { state -> ([RunLoop.Source], Timer?) in
            guard state.pauses[loop]?.timer === timer, var pause = state.pauses.removeValue(forKey: loop) else { return ([], timer) }
            let sources = pause.takeNext()
            if pause.sources.isEmpty { return (sources, timer) }
            state.pauses[loop] = pause
            return (sources, nil)
        }
        resume(sources, in: loop, ending: ended)
    }

    private func resume(_ sources: [RunLoop.Source], in loop: RunLoop, ending timer: Timer?) {
        for source in sources {
            place(in: loop, add: { $0.add(source, forMode: $1) }, remove: { $0.remove(source, forMode: $1) })
        }
        // Last, so that no mode is empty in between.
        timer?.invalidate()
    }

    /// A datagram is a whole message; one that is none is dropped, since anybody can send one.
    private func receiveDatagram() {
        // Of several loops one receives: the length of a datagram is asked for before, and the next one may be longer. The others look again
        // while there is something left.
        let claimed = state.withLock { state -> Handle? in
            guard let handle = state.handle, state.datagramReader != ForkedChild.generation else { return nil }
            state.datagramReader = ForkedChild.generation
            return handle
        }
        guard let listener = claimed else { return }
        var frame: [UInt8] = []
        let result = SocketCalls.readDatagram(listener.descriptor, isLocal: listener.isLocal, into: &frame)
        state.withLock { $0.datagramReader = nil }
        if case .later = result, let source = state.withLock({ $0.source }) { pause(source) }
        guard frame.count >= SocketFrame.headerLength,
            Int(number(frame, 0)) == frame.count - SocketFrame.headerLength,
            let message = SocketFrame.decode(msgid: number(frame, 4), frame, from: SocketFrame.headerLength)
        else { return }
        port?.deliver(message)
    }

    private enum Outcome {
        case nothing
        /// There is no room for more of the message.
        case full
        /// The kernel has no memory.
        case later
        case message(CarriedMessage)
        case over
    }

    private func receive(_ descriptor: CInt) {
        // Of several loops one reads; the others look again while there is something left.
        let (claimed, isLost) = state.withLock { state -> (Connection?, Bool) in
            guard let connection = state.connections[descriptor] else { return (nil, false) }
            let reader = connection.reader
            if reader == ForkedChild.generation { return (nil, false) }
            connection.reader = ForkedChild.generation
            return (connection, reader != nil)
        }
        guard let connection = claimed else { return }
        // What that thread had in hand is not freed either.
        if isLost { _ = Unmanaged.passRetained(connection) }
        let outcome = isLost ? .over : read(connection)
        let isOver = if case .over = outcome { true } else { false }
        state.withLock { state in
            connection.reader = nil
            guard state.connections[descriptor] === connection else { return }
            state.settle(connection, at: isOver ? 0 : max(connection.bytes.count - limits.free, 0))
            if isOver { state.connections[descriptor] = nil }
        }
        switch outcome {
        case .nothing: break
        case .full, .later: pause(connection.source)
        case .message(let message): port?.deliver(message)
        case .over: connection.source.invalidate()
        }
    }

    /// So many portions are read in a pass: a peer that is faster than the reader does not keep the loop from the rest (S-NSP-21). With each of a local
    /// socket's 253 descriptors may come, whose closes take longer than its bytes.
    private static func mostPortions(_ handle: Handle) -> Int { handle.isLocal ? 2 : 16 }

    /// Reads on, at most to the end of the message.
    private func read(_ connection: Connection) -> Outcome {
        var portions = 0
        while true {
            let have = connection.bytes.count
            var total = SocketFrame.headerLength
            if have >= total {
                total += Int(number(connection.bytes, 0))
                if total - SocketFrame.headerLength > SocketFrame.longest { return .over }
            }
            if have >= SocketFrame.headerLength, have == total {
                defer { connection.bytes = [] }
                let msgid = number(connection.bytes, 4)
                // Who writes something else is not listened to any longer.
                let message = SocketFrame.decode(msgid: msgid, connection.bytes, from: SocketFrame.headerLength)
                return message.map { .message($0) } ?? .over
            }
            // The descriptor is readable in the next pass too.
            if portions == SocketListener.mostPortions(connection.handle) { return .nothing }
            portions += 1
            // Room is made for what has come, not for what the header says; and only where something has: who waits for room is not
            // taken for silent, and who asks may end another one.
            let room = min(total - have, 65536)
            if have + room > limits.free, !SocketCalls.isReadable(connection.handle.descriptor) { return .nothing }
            switch takeRoom(have + room, for: connection) {
            case true?: break
            // The end comes after everything else, so nobody has to read on for it.
            case false?: return SocketCalls.isEnding(connection.handle.descriptor, before: total - have) ? .over : .full
            case nil: return .over
            }
            var result = SocketCalls.ReadResult.nothing
            let portion = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                let handle = connection.handle
                result = SocketCalls.read(handle.descriptor, isLocal: handle.isLocal, into: UnsafeMutableRawBufferPointer(buffer))
                if case .bytes(let read) = result { count = read }
            }
            switch result {
            case .bytes: connection.bytes += portion
            case .nothing: return .nothing
            case .later: return .later
            case .over: return .over
            }
        }
    }

    private func number(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
        bytes.withUnsafeBytes { UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
    }
}
