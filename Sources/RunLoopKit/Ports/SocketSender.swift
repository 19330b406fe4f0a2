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
        if descriptor >= 0 { SocketCalls.end(descriptor, isLocal: isLocal) }
    }

    var isValid: Bool { !state.withLock { $0.isInvalidated } }

    /// Whether it is for a kind of socket that messages go through.
    var canSend: Bool { signature.socketType == SocketCalls.stream || signature.socketType == SocketCalls.datagram }

    private var isLocal: Bool { signature.isLocal }

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

    /// Writes what `frame` gives for the address that the connection has on this side. The limit is also that of the wait for others who write.
    func send(until limit: ContinuousClock.Instant, _ frame: ([UInt8]) -> [UInt8]?) -> Bool {
        let isSent = writing.withLock(until: limit) { isForked in
            guard beginWriting() else { return false }
            defer { endWriting() }
            // The other end may have closed the connection since it was used, and in a child of `fork` it is the parent's: then a
            // new one is made.
            if descriptor >= 0, isForked || isOver(descriptor) { end() }
            if descriptor < 0 {
                let made = SocketCalls.make(signature)
                guard made >= 0 else { return false }
                if isLocal { PeerDescriptors.prepare(made) }
                guard SocketCalls.startConnection(made, to: signature.address, until: limit) else {
                    SocketCalls.end(made, isLocal: isLocal)
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
        return isSent ?? false
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
        if descriptor >= 0 { SocketCalls.end(descriptor, isLocal: isLocal) }
        descriptor = -1
    }

    /// The receiver never writes, so there is something to read only at the end.
    private func isOver(_ descriptor: CInt) -> Bool {
        var byte: UInt8 = 0
        return withUnsafeMutableBytes(of: &byte) { buffer in
            switch SocketCalls.read(descriptor, isLocal: isLocal, into: buffer) {
            case .nothing, .later: return false
            case .bytes, .over: return true
            }
        }
    }
}
