// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A client's descriptor with callbacks for reading, accepting or receiving, for writing, and for the end of a connect.
///
/// It lives until it is invalidated: the table of sockets, by number, has a reference to it, and so has its source. What is
/// enabled and what its source, a watch, is interested in are one word, so that a report claims what it reports with one
/// exchange; while a callback is on the stack its type is disabled. No lock is held while anything is read or sent.
struct Socket: ~Copyable {
    let header: ObjectHeader
    /// Bits of `SocketState`. Changed by read-modify-write, each time with `interest` updated to match: sequentially consistent,
    /// because its low bits are the watch's word, behind the header. Relaxed where the bits that are read order nothing.
    let state: Atomic<UInt32>
    /// -1 once it is invalid. Relaxed: a number orders nothing. Code that does more than look at the file gets it from `beginUse`, or
    /// holds `writer`, under which it is taken away.
    let descriptor: Atomic<Int32>
    /// Bits of `NumberUse`: which threads are in a call of the kernel with the number.
    let numberUses: Atomic<UInt32>
    /// How many calls have sent or queued bytes, those that wait apart. Guarded by `writer`.
    var turns: UInt32
    /// `RLSocketSetSocketFlags`. Relaxed: bits that order nothing.
    let flags: Atomic<UInt>
    /// Modes of loops that its source is in. Changed under the registry's lock, together with what that enables or disables;
    /// read without it, sequentially consistent with `state`.
    let scheduled: Atomic<Int32>
    // From here to `file`: fixed at creation.
    /// The callback types: one for reading, Connect, Write.
    let types: UInt
    let callout: SocketFunction?
    let info: UnsafeMutableRawPointer?
    /// `retain`, `release` and `copyDescription`, shared by all objects that have the same.
    let callbacks: CallbacksPointer
    /// Stream sockets and their like, which are connected and end; not datagrams, and not files that are not sockets.
    let isStream: Bool
    /// Of those the ones that keep no boundaries: not sockets for records.
    let isByteStream: Bool
    /// Unix sockets, whose bytes may come with descriptors.
    let isLocal: Bool
    /// The file that the number named when the object was made.
    let file: FileIdentity

    /// The innermost of all locks: no other is taken under it.
    let writer: Lock
    /// The errno with which a queue was lost. Set under `writer`, before the bit `flushes` goes; relaxed.
    let error: Atomic<Int32>
    /// What is to be sent. Guarded by `writer`.
    var queue: SocketQueuePointer?

    /// The source, with a reference. Guarded by the registry's lock.
    var source: SourcePointer?
    /// Addresses, once they have been asked for. Guarded by the registry's lock.
    var address: DataPointer?
    var peerAddress: DataPointer?
}

typealias SocketPointer = UnsafeMutablePointer<Socket>

enum SocketType {
    static var read: UInt { 1 }
    static var accept: UInt { 2 }
    static var data: UInt { 3 }
    static var readKinds: UInt { 3 }
    static var connect: UInt { 4 }
    static var write: UInt { 8 }
}

enum SocketFlags {
    static var leaveErrors: UInt { 64 }
    static var closeOnInvalidate: UInt { 128 }
}

enum SocketState {
    /// `Readiness` of interest: follows from the bits below.
    static var interest: UInt32 { 3 }
    /// Enabled types.
    static var read: UInt32 { 1 << 6 }
    static var write: UInt32 { 1 << 7 }
    static var connect: UInt32 { 1 << 8 }
    /// The Connect callback was made, or there is nothing to connect.
    static var connected: UInt32 { 1 << 9 }
    /// The same bits, further up: types whose callback is on the stack and that are enabled after it if the flags say so.
    static var readAgain: UInt32 { 1 << 10 }
    static var writeAgain: UInt32 { 1 << 11 }
    static var invalid: UInt32 { Watch.ownerIsInvalid }
    /// An Invalidate left the release of the context to the last report that uses it (S-THR-8).
    static var releasePending: UInt32 { 1 << 12 }
    // These four change under the lock `writer`.
    /// There is a queue, or the end of the stream waits for the end of a connect.
    static var flushes: UInt32 { 1 << 13 }
    /// Nothing more is written; after the queue the peer gets the end of the stream.
    static var writingEnds: UInt32 { 1 << 14 }
    /// It is being closed: nothing is reported any more.
    static var ends: UInt32 { 1 << 15 }
    /// It is being closed: what comes is dropped, until the peer's end.
    static var lingers: UInt32 { 1 << 16 }
    /// A count: reports on the stack that use the context's own reference to the info.
    static var use: UInt32 { 1 << 19 }
    static var uses: UInt32 { 0x1fff << 19 }
    /// Types that were disabled by the client, or with the last mode, and not enabled since: `read` and `write`, further up. That a bit of
    /// `readAgain` is gone says less: the report of another loop may have ended.
    static var denied: UInt32 { 3 << 17 }
    static func denied(_ bits: UInt32) -> UInt32 { (bits & (read | write)) << 11 }

    /// The state with the interest that follows from it.
    static func aligned(_ state: UInt32) -> UInt32 {
        var interest: UInt32 = 0
        if state & (ends | flushes) == 0 {
            if state & read != 0 { interest |= 1 }
            if state & write != 0 || state & (connect | connected) == connect { interest |= 2 }
        } else {
            if state & (state & ends == 0 ? read : lingers) != 0 { interest |= 1 }
            if state & flushes != 0 { interest |= 2 }
        }
        return state & ~self.interest | interest
    }
}

extension Socket: Object {
    static var type: ObjectType { .socket }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLSocket"
        kind.pointee.destroy = { Socket.destroy($0.cast(to: Socket.self)) }
        kind.pointee.describe = .init { $0.cast(to: Socket.self).describe(&$1) }
        kind.pointee.forkChild = { SocketTable.forEach { $0.renewInChild(RunLoop.ofThread) } }
        kind.pointee.usesContextInChild = { $0.cast(to: Socket.self).forgetVanishedUses() > 0 }
    }

    /// The last reference is gone, so it is invalid already: the table and the source have none.
    static func destroy(_ socket: SocketPointer) {
        socket.header.markFreed()
        socket.pointee.address?.release()
        socket.pointee.peerAddress?.release()
        Callbacks.release(socket.pointee.callbacks)
        CRunLoopLinux.free(socket)
    }
}

extension UnsafeMutablePointer where Pointee == Socket {
    /// The object of a descriptor: a new one, or the one it has (S-SOCK-2), retained.
    static func make(
        native: Int32, types: UInt, callout: SocketFunction?, info: UnsafeMutableRawPointer?, functions: SourceFunctions
    ) -> SocketPointer {
        let file = FileIdentity(native)
        // Few processes have more descriptors; no memory is taken for a larger number that is not open.
        let isNone = native < 0 || (native >= 1 << 20 && !file.isOpen)
        // Retried when the number's object turns out to be for another file: that one leaves the table.
        while let old = SocketTable.object(of: native) {
            if old.isValid && old.pointee.file.isSame(as: file) {
                if let source = old.source() {
                    source.registerAnew()
                    source.release()
                }
                return old
            }
            old.invalidate()
            old.release()
        }
        let socket = makeRecord(Socket.self)
        let retained = functions.retain.map { UnsafeMutableRawPointer(mutating: callOutRetain($0, info)) } ?? info
        var types = types & (SocketType.readKinds | SocketType.connect | SocketType.write)
        let type = rl_socket_type(native)
        let isByteStream = type == Int32(SOCK_STREAM.rawValue)
        let isStream = isByteStream || type == Int32(SOCK_SEQPACKET.rawValue)
        let isLocal = rl_socket_is_local(native)
        if isLocal && isByteStream { rl_socket_keep_urgent(native) }
        let hasConnect = types & SocketType.connect != 0 && isStream && types & SocketType.readKinds != SocketType.accept
        if !hasConnect { types &= ~SocketType.connect }
        socket.initialize(to: Socket(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)),
            state: Atomic(isNone ? SocketState.invalid : hasConnect ? 0 : SocketState.connected), descriptor: Atomic(native),
            numberUses: Atomic(0), turns: 0, flags: Atomic(types & SocketType.readKinds | SocketFlags.closeOnInvalidate),
            scheduled: Atomic(0), types: types, callout: callout, info: retained, callbacks: Callbacks.shared(functions),
            isStream: isStream, isByteStream: isByteStream, isLocal: isLocal, file: file, writer: Lock.free(), error: Atomic(0), queue: nil, source: nil, address: nil, peerAddress: nil))
        socket.initializeHeader()
        if isNone {
            socket.context.releaseInfo()
            return socket
        }
        guard let other = SocketTable.insert(socket, at: native) else { return socket }
        // Another thread was faster: the object is the one it made, and this one never was.
        socket.pointee.state.store(SocketState.invalid, ordering: .relaxed)
        socket.context.releaseInfo()
        socket.release()
        return other
    }

    /// Whether it is valid; it becomes invalid now if its descriptor was closed without its knowledge (S-SOCK-13).
    func isStillOpen() -> Bool {
        guard isValid else { return false }
        if pointee.file.has(native) { return true }
        invalidate()
        return false
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & SocketState.invalid == 0 }
    /// Whether the callback of a claimed type, `read` or `write`, may begin: that of another type may have disabled it, or closed the socket. If it
    /// has enabled it, this is the callback for that.
    @inline(always)
    func mayReport(_ type: UInt32) -> Bool {
        let state = pointee.state.load(ordering: .sequentiallyConsistent)
        if state & (SocketState.invalid | SocketState.ends | SocketState.denied(type)) != 0 { return false }
        return state & type == 0 || reportsAgain(type)
    }

    /// The type was enabled since it was claimed.
    @inline(never)
    private func reportsAgain(_ type: UInt32) -> Bool {
        var may = false
        // One step: a Disable by another thread comes before it or after it.
        _ = replaceState { state in
            may = state & (SocketState.ends | SocketState.denied(type)) == 0
            return may && state & type != 0 ? state & ~type | type << 4 : state
        }
        return may && isValid
    }

    var readKind: UInt { pointee.types & SocketType.readKinds }
    var native: Int32 { pointee.descriptor.load(ordering: .relaxed) }

    var context: ClientContext { ClientContext(info: pointee.info, sharedFunctions: pointee.callbacks) }

    // MARK: The source

    /// The source, retained, if there is one.
    func source() -> SourcePointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        pointee.source?.retain()
        return pointee.source
    }

    /// The source, retained; nil for an invalid socket (S-SOCK-15).
    func copySource(order: Int) -> SourcePointer? {
        guard isStillOpen() else { return nil }
        if let source = source() {
            if source.isValid { return source }
            source.release()
        }
        let made = makeSource(order: order)
        process.pointee.registryLock.lockWord()
        let old = pointee.source
        if !isValid {
            // It became invalid since the check above: it takes no source any more.
            process.pointee.registryLock.unlockWord()
            made.release()
            return nil
        }
        if let old, old.isValid {
            // Another thread was faster.
            old.retain()
            process.pointee.registryLock.unlockWord()
            made.release()
            return old
        }
        if old != nil { made.noteOtherSource() }
        pointee.source = made
        made.retain()
        process.pointee.registryLock.unlockWord()
        old?.release()
        return made
    }

    private func makeSource(order: Int) -> SourcePointer {
        let functions = SourceFunctions(
            retain: {
                SocketPointer(info: $0).retain()
                return $0
            },
            release: { SocketPointer(info: $0).release() },
            schedule: { info, _, _ in SocketPointer(info: info).wasScheduled() },
            cancel: { info, _, _ in SocketPointer(info: info).wasCancelled() })
        var options = WatchFlags.signals
        if readKind == SocketType.accept { options |= WatchFlags.onlyInput }
        if pointee.state.load(ordering: .relaxed) & SocketState.connected == 0 { options |= WatchFlags.connects }
        return SourcePointer.makeWatch(
            descriptor: native, order: order, info: UnsafeMutableRawPointer(self), functions: functions, interest: nil,
            options: options
        ) { info, ready in SocketPointer(info: info).report(Readiness(rawValue: ready)) }
    }

    // MARK: The end

    /// `RLSocketInvalidate`. A number that names another file by now is not the socket's to close.
    func invalidate() {
        var state = pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        // Reports of this thread end after the call, so that the context is released inside it; those of other threads still use it.
        let own = reports(on: RunLoop.ofThread).uses
        // Socket, table and source in one step for the child of a fork and for a new socket of the number.
        process.pointee.registryLock.lockWord()
        repeat {
            if state & SocketState.invalid != 0 { return process.pointee.registryLock.unlockWord() }
            desired = state & SocketState.uses | SocketState.invalid
            if (state & SocketState.uses) / SocketState.use > own { desired |= SocketState.releasePending }
        } while !pointee.state.replace(&state, by: desired)
        let isLeft = desired & SocketState.releasePending != 0
        if isLeft { ContextUses.insertLocked(.releaseAfterCallback, header, context) }
        retain()
        let number = native
        let mayClose = pointee.flags.load(ordering: .relaxed) & SocketFlags.closeOnInvalidate != 0
        let closing = mayClose ? ClosingNumber.beginLocked(number, pointee.file) : nil
        let wasInTable = SocketTable.removeLocked(self, at: number)
        let source = pointee.source
        pointee.source = nil
        _ = source?.becomeInvalid()
        process.pointee.registryLock.unlockWord()
        // Its loops get a wake-up (S-SOCK-9).
        source?.leaveAllLoops(wakingLoops: true)
        source?.release()
        let losesBytes = endWriter()
        let closes = mayClose && pointee.file.has(number)
        if closes && losesBytes { rl_reset_at_close(number, true) }
        ClosingNumber.willClose(closing)
        giveAway(number, closes: closes)
        ClosingNumber.end(closing)
        if !isLeft { context.releaseInfo(of: header) }
        if wasInTable { release() }
        release()
    }
}

extension UnsafeMutablePointer where Pointee == Socket {
    fileprivate func describe(_ text: inout TextBuffer) {
        let context = context
        text.beginUse(of: header, context.copyDescription)
        let isValid = isValid
        text.append("descriptor = ", Int(native))
        text.append(", callback types = 0x", pointee.types, radix: 16)
        text.append(", flags = 0x", pointee.flags.load(ordering: .relaxed), radix: 16)
        text.append(", valid = ", isValid)
        text.appendCallback(pointee.callout)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
