// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a local port has beyond `MessagePort`. The port's lock guards it.
struct LocalEnd {
    var callout: MessageFunction?
    var context = ClientContext()
    /// Whether the port needs the context: until its invalidation callback has returned (S-MSG-34).
    var holdsContext = true
    /// Message callbacks that use the info without a hold of their own on it (S-THR-8).
    var contextUsers = 0
    var claim = MessagePortClaim()
    /// The epoll set with the listener and the connections.
    var epoll: Int32 = -1
    /// The connections of remotes; a place is free if its descriptor is negative.
    var connections: UnsafeMutablePointer<MessageConnection>?
    var connectionCapacity = 0
    /// The place at which the next look for peers that have stopped begins.
    var nextLook = 0
    var connectionCount = 0
    /// The memory of the replies on connections on which one waits, and the files of those that wait.
    var waitingMemory = 0
    var waitingFiles = 0
    /// What closing connections has cost beyond the closing, in steps of a pass.
    var closingCost = 0
    /// The first free place, which leads to the next; -1: there is none.
    var firstFree = -1
    /// Counts connections, to distinguish a late reply from one for a later connection at the same place.
    var generation: UInt32 = 0
    /// Connections that have memory for long replies. They keep it, also those of peers that only asked once.
    var keptCount = 0
    static var keptLimit: Int { 64 }
    /// What serves the port on a dispatch queue in place of a source; a reference.
    var dispatch: DispatchServingPointer?
    /// The set does not report the listener, because a connection found no descriptor or no room. Only what `resumeLater` begins changes that: one
    /// thread at a time, however many messages are served meanwhile.
    var isListenerPaused = false
    /// It is not even in the set, which had no room. Only while it is paused.
    var hasListenerLeft = false
}

/// A connection of a local port. The port's lock guards it.
struct MessageConnection {
    var descriptor: Int32 = -1
    /// The socket's, by which it is known where the program has closed the number.
    var cookie: UInt64 = 0
    var generation: UInt32 = 0
    /// Whether it has said which name it is for.
    var isServing = false
    /// The set does not report its messages for a while, or had no room for it.
    var isPaused = false
    var process: pid_t = 0
    /// Replies that found no room, oldest first. While there are some no message is taken from the connection: a peer that does
    /// not read gets no service, and costs at most a reply for each callback that runs.
    var replies: UnsafeMutablePointer<WaitingReply>?
    /// What the port counts of it in `waitingMemory` and `waitingFiles`.
    var waitingMemory = 0
    var waitingFiles = 0
    /// When it was found that the peer takes replies, and the room then of what it had not taken; 0: no reply waits.
    var waitTime: Int64 = 0
    var waitRoom: Int32 = 0
    /// A request that is arriving in parts.
    var partial = PartialMessage()
    /// Memory for long replies, made by the first.
    var kept: KeptMemoryPointer?
    var unread = UnreadReplies()
    /// While the place is free: the next free one, or -1.
    var nextFree = -1

    /// A peer that does nothing for so many nanoseconds has stopped.
    static var patience: Int64 { 2_000_000_000 }
    /// So many connections are looked at for each datagram while those of peers that have stopped hold much.
    static var looks: Int { 64 }
}

struct WaitingReply {
    var message: OutgoingMessage
    /// What holds the message's bytes.
    var data: DataPointer?
    var next: UnsafeMutablePointer<WaitingReply>?
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// The token of the listener in the set; connections have their place and generation.
    static var listenerToken: UInt64 { .max }

    // MARK: Creation

    /// `RLMessagePortCreateLocal`, and whether a new port took the context.
    ///
    /// The client's `retain` runs without a lock, and before the port can be found, so that nobody gets a port without its info. Another
    /// thread, or `retain` itself, may make a port of the name meanwhile: then that one is returned.
    static func makeLocal(
        name: UnsafePointer<CChar>?, callout: MessageFunction?, context: ClientContext
    ) -> (port: MessagePortPointer?, isNew: Bool) {
        let name = name.map { MessagePortName($0) }
        if let name, context.retain != nil {
            MessagePortTable.lock()
            let existing = findToReturnLocked(name)
            MessagePortTable.unlock()
            if let existing {
                name.free()
                return (existing, false)
            }
        }
        var adopted = context
        adopted.adopt()
        MessagePortTable.lock()
        var problem: StaticString?
        let existing = name.flatMap { findToReturnLocked($0) }
        let port = existing == nil ? makeLocalLocked(name: name, callout: callout, context: adopted, &problem) : nil
        MessagePortTable.unlock()
        if let port { return (port, true) }
        // What was retained for a port that there is not.
        if context.retain != nil { adopted.releaseInfo() }
        if let problem { logProblem("RLMessagePortCreateLocal", problem, name) }
        name?.free()
        return (existing, false)
    }

    /// This process's port of a name, with a reference for the caller. The table's lock is held.
    private static func findToReturnLocked(_ name: MessagePortName) -> MessagePortPointer? {
        guard let existing = MessagePortTable.findLocked(name, isRemote: false) else { return nil }
        if existing.tryRetain() { return existing }
        // Its last reference is gone, and a thread is about to give the name back.
        existing.giveNameBack()
        return nil
    }

    /// A new port, whose name has no port in this process; nil, with what went wrong, or without that if another process has the name.
    /// The table's lock is held.
    private static func makeLocalLocked(
        name: MessagePortName?, callout: MessageFunction?, context: ClientContext, _ problem: inout StaticString?
    ) -> MessagePortPointer? {
        let epoll = rl_make_set()
        guard epoll >= 0 else {
            problem = "no descriptor"
            return nil
        }
        var claim = MessagePortClaim()
        var isTaken = false
        if let name {
            switch claim.take(name) {
            case .claimed:
                guard !register(claim.listener, in: epoll) else { break }
                problem = "the kernel has no room"
                claim.release()
            case .taken: isTaken = true
            case .failed(let words): problem = words
            }
        }
        if problem != nil || isTaken {
            EpollSet.closeNumber(epoll)
            return nil
        }
        let port = make(isRemote: false, name: name)
        port.pointee.local.callout = callout
        port.pointee.local.context = context
        port.pointee.local.claim = claim
        port.pointee.local.epoll = epoll
        MessagePortTable.insertLocked(port)
        return port
    }

    static func register(_ listener: Int32, in epoll: Int32, isThere: Bool = false, isPaused: Bool = false) -> Bool {
        rl_epoll_ctl(epoll, isThere ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, listener, isPaused ? 0 : EPOLLIN.rawValue, listenerToken) == 0
    }

    static func logProblem(_ function: StaticString, _ problem: StaticString, _ name: MessagePortName?) {
        var text = TextBuffer()
        text.append(function)
        text.append(": ", problem)
        if let name {
            text.append(", name ")
            text.appendPrintable(name.bytes)
        }
        Log.line(text)
    }

    // MARK: Name

    /// `RLMessagePortSetName` (S-MSG-8, S-MSG-9).
    func setName(_ newName: UnsafePointer<CChar>) -> Bool {
        guard !pointee.isRemote else { return false }
        let name = MessagePortName(newName)
        MessagePortTable.lock()
        guard isValid, MessagePortTable.findLocked(name, isRemote: false) == nil else {
            MessagePortTable.unlock()
            name.free()
            return false
        }
        var claim = MessagePortClaim()
        var problem: StaticString?
        switch claim.take(name) {
        case .claimed: break
        case .taken: problem = ""
        case .failed(let words): problem = words
        }
        if problem == nil {
            lock()
            // Invalidation, which takes this lock, closes what it finds.
            let isOpen = isValid && pointee.local.epoll >= 0
            let wasPaused = pointee.local.isListenerPaused
            let isThere = isOpen && MessagePortPointer.register(claim.listener, in: pointee.local.epoll, isPaused: wasPaused)
            if isOpen && !isThere && !wasPaused {
                problem = "the kernel has no room"
            } else if isOpen {
                closeNameLocked()
                pointee.local.claim = claim
                pointee.local.hasListenerLeft = !isThere
                MessagePortTable.leaveNameLocked(self)
                pointee.name = name.succeeding(pointee.name)
                MessagePortTable.enterNameLocked(self)
            } else {
                problem = ""
            }
            unlock()
            if problem != nil { claim.release() }
        }
        guard let problem else {
            MessagePortTable.unlock()
            return true
        }
        MessagePortTable.unlock()
        if problem.utf8CodeUnitCount > 0 { MessagePortPointer.logProblem("RLMessagePortSetName", problem, name) }
        name.free()
        return false
    }

    /// Frees the name and closes all connections, from which their remotes learn of it.
    func closeNameLocked() {
        if pointee.local.claim.listener >= 0 {
            _ = rl_epoll_ctl(pointee.local.epoll, EPOLL_CTL_DEL, pointee.local.claim.listener, 0, 0)
        }
        pointee.local.claim.release()
        for place in 0..<pointee.local.connectionCapacity { closeLocked(place) }
    }

    /// Forgets numbers that no longer name the set: they are the program's (S-MSG-52).
    func forgetLostSetLocked() {
        if pointee.local.epoll >= 0, isLostLocked(pointee.local.epoll) {
            rl_number_ends(pointee.local.epoll)
            pointee.local.epoll = -1
        }
        forgetLostQueueLocked()
    }

    /// Whether a number is not that of the port's set, as far as the set can be recognised: by the listener in it, and if that has left, by being
    /// a set. Nothing is changed, since in the child of `fork` the set is the parent's too.
    @inline(never)
    func isLostLocked(_ number: Int32) -> Bool {
        let listener = pointee.local.claim.listener
        if listener < 0 { return false }
        if pointee.local.hasListenerLeft {
            return !MessagePortPointer.register(listener, in: number, isThere: true) && rl_errno() != ENOENT
        }
        if !MessagePortPointer.register(listener, in: number, isPaused: true) {
            // That there is no memory or no room says nothing.
            return rl_errno() != EEXIST && rl_errno() != ENOMEM && rl_errno() != ENOSPC
        }
        _ = rl_epoll_ctl(number, EPOLL_CTL_DEL, listener, 0, 0)
        return true
    }

    func closeSetLocked() {
        EpollSet.closeNumber(pointee.local.epoll)
        pointee.local.epoll = -1
    }

    // MARK: Source

    /// `RLMessagePortCreateRunLoopSource` (S-MSG-11).
    func makeSource(order: Int) -> SourcePointer? {
        guard !pointee.isRemote else { return nil }
        lock()
        if isValid, let source = pointee.source, source.isValid {
            source.retain()
            unlock()
            return source
        }
        // A port that a dispatch queue serves has no source.
        let epoll = isValid && pointee.local.dispatch == nil ? pointee.local.epoll : -1
        unlock()
        guard epoll >= 0 else { return nil }
        let made = makeWatch(descriptor: epoll, order: order) { info, _ in MessagePortPointer(info: info).serve() }
        lock()
        // Another thread may have been here, and an invalidation that came meanwhile does not know of this source.
        if isValid, pointee.local.dispatch == nil, pointee.source.map({ !$0.isValid }) ?? true {
            let old = pointee.source
            pointee.source = made
            made.retain()
            unlock()
            old?.release()
            return made
        }
        unlock()
        made.release()
        return makeSource(order: order)
    }

    // MARK: Context

    /// The valid port's context, with one user more.
    func beginUseOfContext() -> ClientContext? {
        lock()
        defer { unlock() }
        // Invalidation takes the lock before it ends the port's hold.
        guard isValid else { return nil }
        pointee.local.contextUsers += 1
        return pointee.local.context
    }

    /// One user less. The last makes a release that was left to it.
    @inline(never)
    func endUseOfContext() {
        lock()
        pointee.local.contextUsers -= 1
        let isLeft = pointee.local.contextUsers == 0 && !pointee.local.holdsContext
        unlock()
        if isLeft { ContextUses.settle(.releaseAfterCallback, header) }
    }

    /// The port needs the context no more: it is released, or that is left to the last user.
    @inline(never)
    func endHoldOfContext() {
        lock()
        pointee.local.holdsContext = false
        let isLeft = pointee.local.contextUsers > 0
        let context = pointee.local.context
        // In one step for the child of a fork, which takes the port's lock too.
        if isLeft { ContextUses.insert(.releaseAfterCallback, header, context) }
        unlock()
        if !isLeft { context.releaseInfo(of: header) }
    }
}
