/// The connection to a remote socket port: one for all objects of that address.
// Sendable: the signature is constant and the rest is locked.
final class SocketSender: @unchecked Sendable {
    private struct State {
        var descriptor: CInt = -1
        var isValid = true
    }

    private let signature: SocketSignature
    /// Held while a message is written, so that messages do not mix.
    private let state = Locked(State())

    private struct Weak {
        weak var sender: SocketSender?
    }
    private static let all = Locked<[SocketSignature: Weak]>([:])

    /// The one sender of an address.
    static func of(_ signature: SocketSignature) -> SocketSender {
        all.withLock { all in
            if let known = all[signature]?.sender { return known }
            let made = SocketSender(signature)
            all[signature] = Weak(sender: made)
            return made
        }
    }

    private init(_ signature: SocketSignature) { self.signature = signature }

    deinit {
        let signature = signature
        SocketSender.all.withLock { all in
            if let entry = all[signature], entry.sender == nil { all[signature] = nil }
        }
        state.withLock { if $0.descriptor >= 0 { SocketCalls.end($0.descriptor) } }
    }

    var isValid: Bool { state.withLock { $0.isValid } }

    /// Whether it is for a kind of socket that messages go through.
    var canSend: Bool { signature.socketType == SocketCalls.stream || signature.socketType == SocketCalls.datagram }

    func invalidate() {
        state.withLock { state in
            if state.descriptor >= 0 { SocketCalls.end(state.descriptor) }
            state = State(descriptor: -1, isValid: false)
        }
        // Who asks for the address from now on gets a new one.
        let signature = signature
        SocketSender.all.withLock { all in
            if let known = all[signature]?.sender, known === self { all[signature] = nil }
        }
    }

    /// Writes what `frame` gives for the address that the connection has on this side.
    func send(until limit: ContinuousClock.Instant, _ frame: ([UInt8]) -> [UInt8]?) -> Bool {
        state.withLock { state in
            guard state.isValid else { return false }
            // The other end may have closed the connection since it was used: then a new one is made.
            if state.descriptor >= 0, isOver(state.descriptor) {
                SocketCalls.end(state.descriptor)
                state.descriptor = -1
            }
            if state.descriptor < 0 {
                let descriptor = SocketCalls.make(signature)
                guard descriptor >= 0 else { return false }
                guard SocketCalls.startConnection(descriptor, to: signature.address, until: limit) else {
                    SocketCalls.end(descriptor)
                    return false
                }
                state.descriptor = descriptor
            }
            guard let bytes = frame(SocketCalls.localAddress(state.descriptor)) else { return false }
            if SocketCalls.write(bytes, to: state.descriptor, until: limit) { return true }
            // A datagram that is too long takes nothing from the next one.
            if signature.socketType == SocketCalls.datagram { return false }
            SocketCalls.end(state.descriptor)
            state.descriptor = -1
            return false
        }
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
    private struct Place: Hashable {
        let loop: RunLoop
        let mode: RunLoop.Mode
    }

    private final class Connection {
        let descriptor: CInt
        var source: RunLoop.Source?
        /// Of the message that is being read: first the header, then the payload too.
        var bytes: [UInt8] = []

        init(_ descriptor: CInt) { self.descriptor = descriptor }
    }

    private struct State {
        var descriptor: CInt
        var source: RunLoop.Source?
        var places: Set<Place> = []
        var connections: [CInt: Connection] = [:]
    }

    private let state: Locked<State>
    /// Where it really listens; nil if it does not.
    let address: [UInt8]?
    /// Set once, before anybody else has the port.
    weak var port: SocketPort?

    init(_ signature: SocketSignature) {
        var descriptor = SocketCalls.make(signature)
        if descriptor >= 0, !SocketCalls.startListening(descriptor, at: signature) {
            SocketCalls.end(descriptor)
            descriptor = -1
        }
        address = descriptor >= 0 ? SocketCalls.localAddress(descriptor) : nil
        state = Locked(State(descriptor: descriptor))
        guard descriptor >= 0 else { return }
        let isDatagram = signature.socketType == SocketCalls.datagram
        let source = RunLoop.Source(descriptor: descriptor) { [weak self] _ in
            if isDatagram { self?.receiveDatagram() } else { self?.accept() }
        }
        state.withLock { $0.source = source }
    }

    var isOpen: Bool { descriptor >= 0 }

    var descriptor: CInt { state.withLock { $0.descriptor } }

    /// Closes everything; false if it was closed before.
    @discardableResult
    func close() -> Bool {
        let old = state.withLock { state in
            let old = state
            state = State(descriptor: -1)
            return old
        }
        guard old.descriptor >= 0 else { return false }
        // A source is out of its loops before its descriptor is closed.
        old.source?.invalidate()
        SocketCalls.end(old.descriptor)
        for connection in old.connections.values {
            connection.source?.invalidate()
            SocketCalls.end(connection.descriptor)
        }
        return true
    }

    func schedule(in loop: RunLoop, forMode mode: RunLoop.Mode) {
        for source in sources(changing: { $0.places.insert(Place(loop: loop, mode: mode)) }) {
            loop.add(source, forMode: mode)
        }
    }

    func remove(from loop: RunLoop, forMode mode: RunLoop.Mode) {
        for source in sources(changing: { $0.places.remove(Place(loop: loop, mode: mode)) }) {
            loop.remove(source, forMode: mode)
        }
    }

    private func sources(changing change: (inout State) -> Void) -> [RunLoop.Source] {
        state.withLock { state in
            change(&state)
            return ([state.source] + state.connections.values.map(\.source)).compactMap { $0 }
        }
    }

    private func accept() {
        let added: (RunLoop.Source, Set<Place>)? = state.withLock { state in
            guard state.descriptor >= 0 else { return nil }
            let descriptor = SocketCalls.takeConnection(state.descriptor)
            guard descriptor >= 0 else { return nil }
            let connection = Connection(descriptor)
            let source = RunLoop.Source(descriptor: descriptor) { [weak self] _ in self?.receive(descriptor) }
            connection.source = source
            state.connections[descriptor] = connection
            return (source, state.places)
        }
        guard let (source, places) = added else { return }
        for place in places { place.loop.add(source, forMode: place.mode) }
    }

    /// A datagram is a whole message; one that is none is dropped, since anybody can send one.
    private func receiveDatagram() {
        let frame = state.withLock { state in
            state.descriptor >= 0 ? SocketCalls.readDatagram(state.descriptor) : nil
        }
        guard let frame, frame.count >= SocketFrame.headerLength,
            Int(number(frame, 0)) == frame.count - SocketFrame.headerLength,
            let message = SocketFrame.decode(msgid: number(frame, 4), Array(frame[SocketFrame.headerLength...]))
        else { return }
        port?.deliver(message)
    }

    private enum Outcome {
        case nothing
        case message(CarriedMessage)
        case over(Connection)
    }

    private func receive(_ descriptor: CInt) {
        let outcome = state.withLock { state -> Outcome in
            guard let connection = state.connections[descriptor] else { return .nothing }
            let outcome = read(connection)
            if case .over = outcome { state.connections[descriptor] = nil }
            return outcome
        }
        switch outcome {
        case .nothing: break
        case .message(let message): port?.deliver(message)
        case .over(let connection):
            connection.source?.invalidate()
            SocketCalls.end(descriptor)
        }
    }

    /// Reads on, at most to the end of the message.
    private func read(_ connection: Connection) -> Outcome {
        while true {
            let have = connection.bytes.count
            var total = SocketFrame.headerLength
            if have >= total {
                total += Int(number(connection.bytes, 0))
                if total - SocketFrame.headerLength > SocketFrame.longest { return .over(connection) }
            }
            if have >= SocketFrame.headerLength, have == total {
                let payload = Array(connection.bytes[SocketFrame.headerLength...])
                let msgid = number(connection.bytes, 4)
                connection.bytes = []
                // Who writes something else is not listened to any longer.
                guard let message = SocketFrame.decode(msgid: msgid, payload) else { return .over(connection) }
                return .message(message)
            }
            // Room is made for what has come, not for what the header says.
            let room = min(total - have, 65536)
            var result = SocketCalls.ReadResult.nothing
            let portion = [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
                result = SocketCalls.read(connection.descriptor, into: UnsafeMutableRawBufferPointer(buffer))
                if case .bytes(let read) = result { count = read }
            }
            switch result {
            case .bytes: connection.bytes += portion
            case .nothing: return .nothing
            case .over: return .over(connection)
            }
        }
    }

    private func number(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
        bytes.withUnsafeBytes { UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
    }
}
