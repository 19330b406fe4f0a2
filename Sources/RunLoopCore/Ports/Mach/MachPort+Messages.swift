// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Sending and receiving.
extension UnsafeMutablePointer where Pointee == MachPort {
    /// `RLMachPortSend` (S-PORT-13, S-PORT-14). The bytes are there if the length is not 0.
    func send(_ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ replyPort: MachPortPointer?, timeout: Double) -> Int32 {
        // A message that is not small is copied before the lock is taken.
        var message: MachMessagePointer?
        if length > MachMessage.smallCapacity {
            message = MachMessagePointer.make(capacity: length)
            guard let message else { return Int32(kRLMessagePortTransportError) }
            memcpy(message.bytes, bytes!, length)
        }
        let keepsReply = replyPort.map { keepReply($0) } ?? false
        pointee.lock.lockWord()
        var code = roomLocked
        if code == kRLMessagePortSendTimeout && timeout >= 0.001 { code = waitForRoomLocked(timeout) }
        var loop: RunLoopPointer?
        if code == kRLMessagePortSuccess {
            let isSmall = message == nil
            if let queued = message ?? takeSpareLocked() {
                message = nil
                if isSmall && length > 0 { memcpy(queued.bytes, bytes!, length) }
                queued.initialize(to: MachMessage(
                    next: nil, replyPort: replyPort, length: length, msgid: msgid, isSmall: isSmall, keepsReply: keepsReply))
                loop = appendLocked(queued)
            } else {
                code = kRLMessagePortTransportError
            }
        }
        let isRefused = code != kRLMessagePortSuccess
        // This port may be gone after it has given its lock back.
        if isRefused && keepsReply { pointee.keptReplies.wrappingSubtract(1, ordering: .sequentiallyConsistent) }
        unlockAndFreeIfUnused()
        // Every send does so, not only the one that made the source ready: the thread of that one may have been preempted before this.
        loop?.lookAgainIfAsleep()
        if isRefused {
            CRunLoopLinux.free(message)
            (keepsReply ? replyPort : takeReply(replyPort, isKept: false))?.release()
        }
        return Int32(code)
    }

    /// Gives the lock back, and frees the memory of a port that is dead and that nothing refers to any more.
    private func unlockAndFreeIfUnused() {
        let isLast = pointee.waiters == 0 && pointee.mentions == 0
            && pointee.state.load(ordering: .relaxed) & MachPortState.abandoned != 0
        pointee.lock.unlockWord()
        if isLast { freeMemory() }
    }

    /// Keeps a reply port for a message to this port. True if by a reference: while messages with references to their reply ports
    /// are queued at the reply port itself, its memory alone is kept (S-PORT-17).
    ///
    /// So ports that wait in each other's queues never keep themselves alive, however many they are. Each sender counts its message here
    /// before it looks at the count there. If all references of a ring existed, each look of a sender at the next port would have come
    /// before that port's count, and the count of the first before itself.
    @inline(never)
    private func keepReply(_ reply: MachPortPointer) -> Bool {
        pointee.keptReplies.wrappingAdd(1, ordering: .sequentiallyConsistent)
        // A port that ends cannot be kept.
        if reply.pointee.keptReplies.load(ordering: .sequentiallyConsistent) == 0 && reply.tryRetain() { return true }
        pointee.keptReplies.wrappingSubtract(1, ordering: .sequentiallyConsistent)
        reply.pointee.lock.lockWord()
        reply.pointee.mentions += 1
        reply.pointee.lock.unlockWord()
        return false
    }

    /// A reference to the reply port of a message that is not queued any more; nil if there is none, or it is dead.
    @inline(never)
    func takeReply(_ reply: MachPortPointer?, isKept: Bool) -> MachPortPointer? {
        guard let reply else { return nil }
        if isKept {
            pointee.keptReplies.wrappingSubtract(1, ordering: .sequentiallyConsistent)
            return reply
        }
        let isAlive = reply.tryRetain()
        reply.pointee.lock.lockWord()
        reply.pointee.mentions -= 1
        reply.unlockAndFreeIfUnused()
        return isAlive ? reply : nil
    }

    /// What a send would return now, if it did not wait.
    private var roomLocked: Int {
        if !isValid { return kRLMessagePortIsInvalid }
        return pointee.count < pointee.limit ? kRLMessagePortSuccess : kRLMessagePortSendTimeout
    }

    /// A small message to be filled; nil if there is no memory.
    private func takeSpareLocked() -> MachMessagePointer? {
        guard let spare = pointee.spares else { return MachMessagePointer.make(capacity: MachMessage.smallCapacity) }
        pointee.spares = spare.pointee.next
        pointee.spareCount -= 1
        return spare
    }

    private func recycleLocked(_ message: MachMessagePointer) {
        // As many as a queue of the usual length needs, and a few more.
        guard pointee.spareCount < 8 else { return CRunLoopLinux.free(message) }
        message.pointee.next = pointee.spares
        pointee.spares = message
        pointee.spareCount += 1
    }

    /// Queues a message. Returns the loop that has to look again if it sleeps; it may be another loop by then, to which that does no harm.
    private func appendLocked(_ message: MachMessagePointer) -> RunLoopPointer? {
        let wasEmpty = pointee.count == 0
        if let last = pointee.last { last.pointee.next = message } else { pointee.first = message }
        pointee.last = message
        pointee.count += 1
        if wasEmpty { setReadableLocked(true) }
        // The lock keeps the source's memory: its last release takes the lock before the memory goes.
        guard let source = pointee.source else { return nil }
        if wasEmpty { _ = source.setReady() }
        if source.pointee.moreLinks.load(ordering: .sequentiallyConsistent) != nil { source.wakeSleepingLoops() }
        return source.firstLink.pointee.loop.load(ordering: .sequentiallyConsistent)
    }

    /// Waits until there is room, the time is over or the port is dead. The lock is held at the call and at the return; nothing
    /// but `waiters` keeps the port in memory meanwhile.
    @inline(never)
    private func waitForRoomLocked(_ timeout: Double) -> Int {
        // S-MSG-23: whole milliseconds; ten days are for ever.
        let until = timeout >= 864_000 ? Clock.never : Clock.now() + Int64(timeout * 1000) * 1_000_000
        pointee.waiters += 1
        defer { pointee.waiters -= 1 }
        // A receiver that is awake makes room sooner than a sleep takes.
        let seen = pointee.room.load(ordering: .relaxed)
        pointee.lock.unlockWord()
        for _ in 0..<40 where pointee.room.load(ordering: .relaxed) == seen { rl_pause() }
        pointee.lock.lockWord()
        var isOver = false
        while true {
            let code = roomLocked
            if code != kRLMessagePortSendTimeout || isOver { return code }
            let turn = pointee.room.load(ordering: .relaxed)
            pointee.sleepers += 1
            pointee.lock.unlockWord()
            let wasWoken = pointee.room.futexWait(while: turn, until: until)
            isOver = until != Clock.never && Clock.now() >= until
            pointee.lock.lockWord()
            // A wake-up that changed the word took a sleeper off the count. The kernel may have given it to another thread than to one that slept
            // then: threads with a real-time priority come first, also before those that slept earlier. That one sleeps on, and has this thread's
            // place in the count.
            if pointee.room.load(ordering: .relaxed) == turn && !wasWoken { pointee.sleepers -= 1 }
        }
    }

    /// Lets one sender look again, or all. True if the caller has to wake them, after giving the lock back.
    func makeRoomLocked(forAll: Bool = false) -> Bool {
        pointee.room.wrappingAdd(1, ordering: .relaxed)
        guard pointee.sleepers > 0 else { return false }
        pointee.sleepers = forAll ? 0 : pointee.sleepers - 1
        return true
    }

    /// `RLMachPortSetQueueLimit`.
    func setLimit(_ limit: Int) {
        pointee.lock.lockWord()
        pointee.limit = Swift.max(limit, 1)
        let wakes = makeRoomLocked(forAll: true)
        pointee.lock.unlockWord()
        if wakes { pointee.room.futexWakeAll() }
    }

    /// The handler of the source: takes one message and calls the client with it. The source is retained meanwhile, and so the port. False if
    /// another loop has taken the message.
    func receive() -> Bool {
        pointee.lock.lockWord()
        guard isValid, let message = pointee.first else {
            pointee.lock.unlockWord()
            return false
        }
        pointee.first = message.pointee.next
        if pointee.first == nil { pointee.last = nil }
        pointee.count -= 1
        let wakes = pointee.count < pointee.limit && makeRoomLocked()
        if pointee.count == 0 {
            setReadableLocked(false)
        } else if let source = pointee.source {
            // This loop is awake; others, and one to which another thread has moved the port meanwhile, may sleep.
            if source.setReady() { source.wakeSleepingLoops() }
        }
        let loop = RunLoop.current()
        let guardsInfo = pointee.context.release != nil
        if guardsInfo { pointee.users.append(loop) }

        if message.pointee.isSmall {
            withUnsafeTemporaryAllocation(byteCount: MachMessage.smallCapacity, alignment: 16) { copy in
                let head = message.pointee
                memcpy(copy.baseAddress!, message.bytes, head.length)
                recycleLocked(message)
                pointee.lock.unlockWord()
                if wakes { pointee.room.futexWakeOne() }
                deliver(head, UnsafeRawPointer(copy.baseAddress!), on: loop, guardsInfo: guardsInfo, freeing: nil)
            }
        } else {
            pointee.lock.unlockWord()
            if wakes { pointee.room.futexWakeOne() }
            deliver(message.pointee, UnsafeRawPointer(message.bytes), on: loop, guardsInfo: guardsInfo, freeing: message)
        }
        return true
    }

    /// Calls the client with a message, within the bracket of `retain` and `release` (S-PORT-7).
    private func deliver(
        _ head: MachMessage, _ bytes: UnsafeRawPointer, on loop: RunLoopPointer, guardsInfo: Bool, freeing message: MachMessagePointer?
    ) {
        let replyPort = takeReply(head.replyPort, isKept: head.keepsReply)
        let place = loop.beginCall(MachDelivery(port: self, guardsInfo: guardsInfo, replyPort: replyPort, message: message))
        loop.callInBracket(pointee.context) {
            guard guardsInfo else { return }
            loop.pointee.calls[place].pointee.guardsInfo = false
            endUseOfInfo(by: loop)
        } _: { info in
            guard let callout = pointee.callout else { return }
            var message = RLMachMessage(
                msgid: head.msgid, bytes: head.length > 0 ? bytes : nil, length: head.length, replyPort: replyPort?.handle)
            callOutMachPort(callout, handle, &message, info)
        }
        loop.endCall(place).finish(on: loop)
    }

    /// The loop's thread is done with the context's info; an Invalidate that came meanwhile left the release to the last user.
    fileprivate func endUseOfInfo(by loop: RunLoopPointer) {
        pointee.lock.lockWord()
        if let place = pointee.users.place(where: { $0 == loop }) { pointee.users.remove(at: place) }
        let releases = pointee.users.isEmpty && pointee.state.load(ordering: .relaxed) & MachPortState.releasePending != 0
        if releases { pointee.state.bitwiseAnd(~MachPortState.releasePending, ordering: .relaxed) }
        pointee.lock.unlockWord()
        if releases { ContextUses.settle(.releaseAfterCallback, header) }
    }
}

/// A message whose callback runs, and what has to be done after it. The source that is served keeps the port.
struct MachDelivery: CallRecord {
    let port: MachPortPointer
    /// The port's `users` name the loop.
    var guardsInfo: Bool
    let replyPort: MachPortPointer?
    /// Its bytes, if they are in memory of their own.
    let message: MachMessagePointer?

    static var kind: CallKind { .machDelivery }

    /// Called after the callback, also after one that ended its thread.
    func finish(on loop: RunLoopPointer) {
        if guardsInfo { port.endUseOfInfo(by: loop) }
        replyPort?.release()
        CRunLoopLinux.free(message)
    }
}
