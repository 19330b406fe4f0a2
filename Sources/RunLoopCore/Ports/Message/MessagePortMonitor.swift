// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The thread that notices the end of a peer while no thread uses the remote port (S-MSG-36), and reads the replies that no request waits for
/// any more (S-MSG-28). There is one while there are remote ports with an invalidation callback, which makes the moment visible, or with a
/// request that ended before its reply came; any other port finds out when it is asked. The record is a part of the table, whose lock guards it.
///
/// If there is no descriptor or no room in the kernel for a port, the thread checks all ports ten times a second, and each time tries again.
///
/// The client's functions, which may take long, are called for one port at a time, by a thread that found its end. It hands the watch over to a new
/// thread before that; without one the other ports wait. Of those that end meanwhile the new thread takes note, and the one that calls goes on with
/// them: so however many end at once, each costs the same, and few threads are made.
///
/// Ports come while the thread is about to end, and the client's functions that it calls may end it or fork. So the thread decides under
/// the lock whether it goes on, and the set is closed under the lock as well: at any time there is one set at most, which a child of `fork`
/// finds here, and one thread that uses it.
struct MessagePortMonitor {
    /// Holds the connections, with ports as tokens. Roused when the thread is to look at this record again. Not open if there are no
    /// descriptors for it. It has a value while there is a port or a thread.
    private var set: EpollSet
    /// The ports, without references: an invalid one leaves before it dies.
    private var ports: WordSet
    /// Those of them that were found to have ended, and wait for their call: the set does not report them again.
    private var ended: WordSet
    /// How many of them are not in `set`.
    private var polled: UInt32
    /// Counts the threads. One that does not find its own number here watches nothing any more.
    private var thread: UInt32
    /// The number of the thread that calls the client's functions, or goes on with the next port; 0: none does.
    private var calling: UInt32
    /// Whether there is a thread, or one on its way.
    private var hasThread: Bool

    /// Any thread. Where the client's function ended the thread and no other one could be made, this tries again.
    static func watch(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        MessagePortTable.shared.pointee.monitor.add(port)
        unlockWatched()
    }

    /// Any thread. From now on late replies are read as they come.
    @inline(never)
    static func watchLateReplies(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        MessagePortTable.shared.pointee.monitor.add(port)
        MessagePortTable.shared.pointee.monitor.arm(port)
        MessagePortTable.shared.pointee.monitor.rouseForEnded()
        unlockWatched()
    }

    /// The port became invalid.
    static func forget(_ port: MessagePortPointer) {
        guard port.pointee.isRemote else { return }
        MessagePortTable.lock()
        MessagePortTable.shared.pointee.monitor.remove(port)
        MessagePortTable.unlock()
    }

    /// Gives the table's lock back, and sees to it that there is a thread if there is something to watch.
    @inline(never)
    private static func unlockWatched() {
        let isWatched = MessagePortTable.shared.pointee.monitor.startThread()
        MessagePortTable.unlock()
        if !isWatched {
            Log.once(.noMessagePortMonitor, "RLMessagePort", ": no thread to watch for the end of peers and late replies")
        }
    }

    private mutating func add(_ port: MessagePortPointer) {
        // An invalid port takes the lock before it is forgotten.
        port.lock()
        defer { port.unlock() }
        let connection = port.pointee.remote.connection
        guard port.isValid, connection >= 0, ports.find(UInt(bitPattern: port), isKeyed: false) == 0 else { return }
        if ports.isEmpty && !hasThread {
            set = EpollSet()
            // Without a set the thread has to poll.
            _ = set.open()
        }
        ports.insert(UInt(bitPattern: port), isKeyed: false)
        MessagePortMonitor.register(port, in: set)
        if isPolled(port) {
            polled += 1
            rouse()
        }
    }

    /// A set that was lost, or is not open, has the number of no port.
    private func isPolled(_ port: MessagePortPointer) -> Bool {
        let watcher = port.pointee.remote.watchedBy
        return watcher == 0 || watcher != set.serial
    }

    /// The port's lock is held, and it is valid.
    @inline(never)
    private static func register(_ port: MessagePortPointer, in set: EpollSet) {
        port.pointee.remote.watchedBy = tell(set, EPOLL_CTL_ADD, port) ? set.serial : 0
    }

    private static func tell(_ set: EpollSet, _ operation: Int32, _ port: MessagePortPointer) -> Bool {
        let events = RL_EPOLLRDHUP | RL_EPOLLONESHOT | (port.hasLateReplies ? EPOLLIN.rawValue : 0)
        return rl_epoll_ctl(set.descriptor, operation, port.pointee.remote.connection, events, UInt64(UInt(bitPattern: port))) == 0
    }

    /// Whether there still are ports, or all of them, that the set cannot watch.
    private mutating func mustPoll() -> Bool { !set.isOpen || polled > 0 ? !watchPolled() : false }

    /// Has the set watch all ports. False if there is no descriptor or no room for that. A port that has ended meanwhile is reported at once.
    @inline(never)
    private mutating func watchPolled() -> Bool {
        guard set.open() else { return false }
        polled = 0
        var index = 0
        while let port = MessagePortPointer(bitPattern: ports.word(from: &index)) {
            guard isPolled(port) else { continue }
            port.lock()
            // An invalid one is about to be forgotten.
            if port.isValid { MessagePortMonitor.register(port, in: set) }
            port.unlock()
            if isPolled(port) { polled += 1 }
        }
        return polled == 0
    }

    /// Has the set report the connection once more: its end, and what comes while replies are late. Nothing if the set does not have it, or there is
    /// no such port any more.
    private mutating func arm(_ port: MessagePortPointer) { _ = check(port, reads: false) }

    /// Whether a watched port has late replies to be read, if that is asked: then with a hold on its memory. If it has ended it is to be called;
    /// any other one the set reports once more. A port gets no reference: its last release is to be the client's.
    @inline(never)
    private mutating func check(_ port: MessagePortPointer, reads: Bool) -> Bool {
        guard ports.find(UInt(bitPattern: port), isKeyed: false) != 0 else { return false }
        port.lock()
        defer { port.unlock() }
        // An invalid one is about to be forgotten. While it is valid its connection is open.
        guard port.isValid else { return false }
        if port.hasEndedLocked {
            noteEnded(port)
        } else if reads && port.hasLateReplies && rl_is_readable(port.pointee.remote.connection) {
            port.holdMemory()
            return true
        } else if !isPolled(port) {
            _ = MessagePortMonitor.tell(set, EPOLL_CTL_MOD, port)
        }
        return false
    }

    private mutating func noteEnded(_ port: MessagePortPointer) {
        if ended.find(UInt(bitPattern: port), isKeyed: false) == 0 { ended.insert(UInt(bitPattern: port), isKeyed: false) }
    }

    /// Whether the thread of that number may call the client's functions, and there is a port to do it for.
    private func hasCall(_ number: UInt32) -> Bool { !ended.isEmpty && (calling == 0 || calling == number) }

    /// The next port to call the client's functions for, with a hold on its memory.
    private mutating func takeEnded(_ number: UInt32) -> MessagePortPointer? {
        guard hasCall(number), let port = MessagePortPointer(bitPattern: ended.last) else { return nil }
        _ = ended.remove(UInt(bitPattern: port), isKeyed: false)
        port.holdMemory()
        return port
    }

    private func rouseForEnded() {
        if !ended.isEmpty { rouse() }
    }

    private mutating func remove(_ port: MessagePortPointer) {
        guard ports.remove(UInt(bitPattern: port), isKeyed: false) != 0 else { return }
        _ = ended.remove(UInt(bitPattern: port), isKeyed: false)
        if isPolled(port) && polled > 0 { polled -= 1 }
        port.lock()
        set.unregister(port.pointee.remote.connection)
        port.unlock()
        if ports.isEmpty { closeIfUnused() }
    }

    /// There is nothing to watch. The thread, if there is one, uses the set until it has looked.
    @inline(never)
    private mutating func closeIfUnused() {
        if hasThread { rouse() } else { set.close() }
    }

    private func rouse() {
        if set.isOpen { EpollSet.rouse(set.descriptor) }
    }

    /// False if a thread is needed and none can be made.
    private mutating func startThread() -> Bool {
        if hasThread || ports.isEmpty { return true }
        thread &+= 1
        hasThread = rl_start_thread(
            { MessagePortMonitor.run(UInt32(UInt(bitPattern: $0))) }, UnsafeMutableRawPointer(bitPattern: UInt(thread)))
        return hasThread
    }

    /// The thread. Signals are blocked in it. Before it calls the client's functions it takes all that the set reports.
    private static func run(_ number: UInt32) {
        var token: UInt64 = 0
        var losses: UInt32 = 0
        while true {
            MessagePortTable.lock()
            guard MessagePortTable.shared.pointee.monitor.isNeeded(number) else { return unlockWatched() }
            // The program may have closed numbers that are not its own.
            if token == EpollSet.lostToken { MessagePortTable.shared.pointee.monitor.set.forget() }
            var port = MessagePortTable.shared.pointee.monitor.take(token, number)
            let polls = port == nil && MessagePortTable.shared.pointee.monitor.mustPoll()
            if polls { port = MessagePortTable.shared.pointee.monitor.checkAll() }
            let hasCall = MessagePortTable.shared.pointee.monitor.hasCall(number)
            let set = MessagePortTable.shared.pointee.monitor.set
            MessagePortTable.unlock()
            token = 0
            if let port {
                look(port, number)
            } else if polls {
                if hasCall { continue }
                var pause = timespec(nanoseconds: Clock.retryDelay)
                rl_sys_nanosleep(&pause)
            } else if set.isLost(&losses) {
                token = EpollSet.lostToken
            } else if case .ready(let ready, _) = set.wait(until: hasCall ? nil : Clock.never) {
                token = ready
            }
        }
    }

    /// Whether the thread of that number has anything to do: it watches, or it has returned from the client's functions and there is another
    /// port to call them for.
    private mutating func isNeeded(_ number: UInt32) -> Bool {
        if calling == number {
            if thread != number && !ended.isEmpty { return true }
            calling = 0
        }
        return goesOn(number)
    }

    /// The port with the token that the set has reported, if it has late replies; without a token one that has ended. A token is the address that
    /// a port had; by now its memory may be another's.
    private mutating func take(_ token: UInt64, _ number: UInt32) -> MessagePortPointer? {
        guard let reported = MessagePortPointer(bitPattern: UInt(token)) else { return takeEnded(number) }
        return check(reported, reads: true) ? reported : nil
    }

    /// Looks for the ends of all ports, up to one that has late replies.
    @inline(never)
    private mutating func checkAll() -> MessagePortPointer? {
        var index = 0
        while let port = MessagePortPointer(bitPattern: ports.word(from: &index)) {
            if check(port, reads: true) { return port }
        }
        return nil
    }

    /// Whether the thread of that number is to watch on. If it is the one that watches and there is nothing left, it gives that up.
    @inline(never)
    private mutating func goesOn(_ number: UInt32) -> Bool {
        guard thread == number else { return false }
        if !ports.isEmpty { return true }
        hasThread = false
        closeIfUnused()
        return false
    }

    /// Calls the client if the port ends.
    @inline(never)
    private static func look(_ port: MessagePortPointer, _ number: UInt32) {
        var look = PeerLook(port: port, thread: number)
        withUnsafeMutablePointer(to: &look) { look in
            callOutGuarded(
                { UnsafeMutableRawPointer($0!).cast(to: PeerLook.self).take() }, look,
                { UnsafeMutableRawPointer($0!).cast(to: PeerLook.self).threadEnds() }, look)
        }
    }

    fileprivate static func watchFurther(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        MessagePortTable.shared.pointee.monitor.arm(port)
        MessagePortTable.unlock()
    }

    /// The thread of that number is about to call the client's functions for a port, which is not watched any more. False if another thread does so
    /// for another port: then this one waits.
    fileprivate static func beginCall(_ port: MessagePortPointer, _ number: UInt32) -> Bool {
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        return MessagePortTable.shared.pointee.monitor.beginCall(port, number)
    }

    private mutating func beginCall(_ port: MessagePortPointer, _ number: UInt32) -> Bool {
        guard calling == 0 || calling == number else {
            if ports.find(UInt(bitPattern: port), isKeyed: false) != 0 { noteEnded(port) }
            return false
        }
        calling = number
        remove(port)
        guard goesOn(number) else { return true }
        hasThread = false
        if !startThread() {
            thread = number
            hasThread = true
        }
        return true
    }

    /// One of them ends the thread: then another one takes its place, and a port that is still valid is watched again.
    fileprivate static func threadEnds(_ look: PeerLook) {
        MessagePortTable.lock()
        MessagePortTable.shared.pointee.monitor.threadEnds(look.thread, look.port)
        unlockWatched()
    }

    private mutating func threadEnds(_ number: UInt32, _ port: MessagePortPointer?) {
        if goesOn(number) { hasThread = false }
        if let port { add(port) }
        // In a child of `fork` it was not begun.
        guard calling == number else { return }
        calling = 0
        rouseForEnded()
    }

    /// In the child of `fork` there is no such thread, or it is the forking one, which finds another number.
    mutating func abandonInChild() {
        calling = 0
        guard hasThread || !ports.isEmpty else { return }
        ports.removeAll()
        ended.removeAll()
        polled = 0
        thread &+= 1
        hasThread = false
        closeIfUnused()
    }
}

/// A look at a port, in the frame of the thread that watches.
private struct PeerLook {
    /// With a hold on its memory.
    var port: MessagePortPointer?
    /// And with a reference.
    var isRetained = false
    let thread: UInt32
}

extension UnsafeMutablePointer where Pointee == PeerLook {
    fileprivate func take() {
        let port = pointee.port!
        if port.takeReplies(inRunOf: nil) {
            MessagePortMonitor.watchFurther(port)
        } else if port.tryRetain() {
            pointee.isRetained = true
            if MessagePortMonitor.beginCall(port, pointee.thread) { port.connectionEnded() }
        }
        release()
    }

    /// Once, also if what the release of the port calls ends the thread: then the memory is kept for ever.
    fileprivate func release() {
        guard let port = pointee.port else { return }
        pointee.port = nil
        if pointee.isRetained { port.release() }
        port.releaseMemory()
    }

    fileprivate func threadEnds() {
        MessagePortMonitor.threadEnds(pointee)
        release()
    }
}
