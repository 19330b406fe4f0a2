// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// The thread that notices the end of a peer while no thread uses the remote port (S-MSG-36). There is one while there are remote
/// ports with an invalidation callback, which makes the moment visible; a port without one finds out when it is asked. The
/// table's lock guards the record; the thread owns it and frees it at its end.
///
/// A port for which there is no descriptor or no room in the kernel is checked ten times a second.
struct MessagePortMonitor {
    /// Holds the connections, with ports as tokens. Roused when the thread is to look at this record again, or to end. Not open
    /// if there are no descriptors for it.
    var set: EpollSet
    /// Ports, and those of them that are not in `epoll`.
    var watched: Int
    var polled: Int
    /// 0 before it runs and when it has ended.
    var thread: pthread_t
    /// What the thread looks at, with a reference. Used by the thread alone.
    var port: MessagePortPointer?

    static func watch(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        let isWatched = watchLocked(port)
        MessagePortTable.unlock()
        if !isWatched {
            Log.once(.noMessagePortMonitor, "RLMessagePortSetInvalidationCallBack", ": no thread to watch for the end of peers")
        }
    }

    private static func watchLocked(_ port: MessagePortPointer) -> Bool {
        guard let monitor = MessagePortTable.shared.pointee.monitor ?? start() else { return false }
        // An invalid port takes the lock before it is forgotten.
        port.lock()
        defer { port.unlock() }
        let connection = port.pointee.remote.connection
        guard port.isValid, connection >= 0, !port.pointee.remote.isWatched else {
            endIfIdleLocked(monitor)
            return true
        }
        port.pointee.remote.isWatched = true
        monitor.pointee.watched += 1
        let token = UInt64(UInt(bitPattern: port))
        if rl_epoll_ctl(monitor.pointee.set.descriptor, EPOLL_CTL_ADD, connection, RL_EPOLLRDHUP | RL_EPOLLONESHOT, token) != 0 {
            port.pointee.remote.isPolled = true
            monitor.pointee.polled += 1
            monitor.rouse()
        }
        return true
    }

    /// The port became invalid.
    static func forget(_ port: MessagePortPointer) {
        guard port.pointee.isRemote else { return }
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        port.lock()
        let isWatched = port.pointee.remote.isWatched
        let isPolled = port.pointee.remote.isPolled
        port.pointee.remote.isWatched = false
        port.pointee.remote.isPolled = false
        port.unlock()
        guard isWatched, let monitor = MessagePortTable.shared.pointee.monitor else { return }
        if isPolled {
            monitor.pointee.polled -= 1
        } else {
            monitor.pointee.set.unregister(port.pointee.remote.connection)
        }
        monitor.pointee.watched -= 1
        endIfIdleLocked(monitor)
    }

    /// Lets the thread end if it has nothing to watch; the next port gets another one.
    private static func endIfIdleLocked(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        guard monitor.pointee.watched == 0 else { return }
        MessagePortTable.shared.pointee.monitor = nil
        monitor.rouse()
    }

    private static func start() -> UnsafeMutablePointer<MessagePortMonitor>? {
        let monitor = makeArray(MessagePortMonitor.self, count: 1)
        monitor.initialize(to: MessagePortMonitor(set: EpollSet(), watched: 0, polled: 0, thread: 0))
        // Without a set the thread has to poll.
        _ = monitor.pointee.set.open()
        if monitor.startThread() {
            MessagePortTable.shared.pointee.monitor = monitor
            return monitor
        }
        monitor.free()
        return nil
    }

    /// The thread. Signals are blocked in it.
    fileprivate static func run(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        // Written before the thread began.
        let set = monitor.pointee.set
        var isBlind = !set.isOpen
        while true {
            MessagePortTable.lock()
            monitor.pointee.thread = pthread_self()
            let isOver = MessagePortTable.shared.pointee.monitor != monitor
            let polls = isBlind || monitor.pointee.polled > 0
            MessagePortTable.unlock()
            if isOver { break }
            while polls, let port = findEnded() { monitor.look(port) }
            var pause = timespec(nanoseconds: Clock.retryDelay)
            if isBlind {
                rl_sys_nanosleep(&pause)
                continue
            }
            guard case .ready(let token, _) = set.wait(until: polls ? Clock.now() + 100_000_000 : Clock.never) else { continue }
            // The program may have closed numbers that are not its own.
            if token == EpollSet.lostToken { isBlind = true } else { monitor.ended(token) }
        }
        monitor.pointee.thread = 0
        monitor.free()
    }

    /// A watched port whose peer is gone, with one more reference.
    private static func findEnded() -> MessagePortPointer? {
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        return MessagePortTable.shared.pointee.ports.first { port in
            port.lock()
            // While it is watched its connection is open.
            let isEnded = port.pointee.remote.isWatched && port.isValid && rl_has_ended(port.pointee.remote.connection)
            port.unlock()
            return isEnded && port.tryRetain()
        }
    }

    /// A client's function ends the calling thread. If that is the one that watches, another one takes its place, and the caller gets the reference
    /// of what it looked at.
    static func threadEnds() -> MessagePortPointer? {
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        guard let monitor = MessagePortTable.shared.pointee.monitor, monitor.pointee.thread == pthread_self() else { return nil }
        // The client's function may have been called in another one.
        monitor.pointee.thread = 0
        _ = monitor.startThread()
        return monitor.pointee.port
    }

    /// In the child of `fork` there is no such thread, unless a function that it called has forked.
    static func abandonInChild() {
        guard let monitor = MessagePortTable.shared.pointee.monitor else { return }
        MessagePortTable.shared.pointee.monitor = nil
        monitor.free()
    }
}

extension UnsafeMutablePointer where Pointee == MessagePortMonitor {
    fileprivate func rouse() {
        if pointee.set.isOpen { EpollSet.rouse(pointee.set.descriptor) }
    }

    fileprivate func startThread() -> Bool {
        rl_start_thread({ MessagePortMonitor.run($0!.assumingMemoryBound(to: MessagePortMonitor.self)) }, self)
    }

    @inline(never)
    fileprivate func look(_ port: MessagePortPointer) {
        pointee.port = port
        _ = port.isReachable()
        port.release()
    }

    /// The token is a port's address; the table knows whether it still is one.
    fileprivate func ended(_ token: UInt64) {
        MessagePortTable.lock()
        let port = MessagePortTable.shared.pointee.ports.first { UInt64(UInt(bitPattern: $0)) == token }
        let isAlive = port.map { $0.tryRetain() } ?? false
        MessagePortTable.unlock()
        guard let port, isAlive else { return }
        // Its memory may be a new port's by now.
        look(port)
    }

    /// Not while the calling thread is the one that has the record in use: it finds the set closed and itself over.
    @inline(never)
    fileprivate func free() {
        pointee.set.close()
        if pointee.thread != pthread_self() { CLinux.free(self) }
    }
}
