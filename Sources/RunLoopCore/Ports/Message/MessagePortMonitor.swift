import CLinux
import Synchronization

/// The thread that notices the end of a peer while nobody uses the remote port (S-MSG-36). There is one while there are remote
/// ports with an invalidation callback, which is what makes the moment visible; a port without one finds out when it is asked.
/// The table's lock guards the record; the thread owns it and frees it at its end.
///
/// A port for which there is no descriptor or no room in the kernel is looked at again and again, ten times a second.
struct MessagePortMonitor {
    /// Holds the connections, with ports as tokens, and `wake`. Both are -1 if there are no descriptors for them.
    var epoll: Int32
    /// Readable when the thread is to look at this record again, or to end.
    var wake: Int32
    /// Ports, and those of them that are not in `epoll`.
    var watched: Int
    var polled: Int

    static func watch(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        let isWatched = watchLocked(port)
        MessagePortTable.unlock()
        if !isWatched {
            Log.once(.noMessagePortMonitor, "RLMessagePortSetInvalidationCallBack", ": no thread to watch for the end of peers")
        }
    }

    private static func watchLocked(_ port: MessagePortPointer) -> Bool {
        guard let monitor = process.pointee.messagePortMonitor ?? start() else { return false }
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
        if rl_epoll_ctl(monitor.pointee.epoll, EPOLL_CTL_ADD, connection, RL_EPOLLRDHUP | RL_EPOLLONESHOT, token) != 0 {
            port.pointee.remote.isPolled = true
            monitor.pointee.polled += 1
            wakeLocked(monitor)
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
        guard isWatched, let monitor = process.pointee.messagePortMonitor else { return }
        if isPolled {
            monitor.pointee.polled -= 1
        } else {
            _ = rl_epoll_ctl(monitor.pointee.epoll, EPOLL_CTL_DEL, port.pointee.remote.connection, 0, 0)
        }
        monitor.pointee.watched -= 1
        endIfIdleLocked(monitor)
    }

    /// Lets go of the thread if it has nothing to watch; the next port gets another one.
    private static func endIfIdleLocked(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        guard monitor.pointee.watched == 0 else { return }
        process.pointee.messagePortMonitor = nil
        wakeLocked(monitor)
    }

    private static func wakeLocked(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        var one: UInt64 = 1
        if monitor.pointee.wake >= 0 { _ = rl_sys_write(monitor.pointee.wake, &one, 8) }
    }

    private static func start() -> UnsafeMutablePointer<MessagePortMonitor>? {
        let monitor = makeArray(MessagePortMonitor.self, count: 1)
        let epoll = highNumber(epoll_create1(Int32(EPOLL_CLOEXEC)))
        let wake = highNumber(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)))
        monitor.initialize(to: MessagePortMonitor(epoll: epoll, wake: wake, watched: 0, polled: 0))
        // Without both the thread has to look by itself.
        if epoll < 0 || wake < 0 || rl_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, EPOLLIN.rawValue, 0) != 0 { monitor.closeAll() }
        if rl_start_thread({ MessagePortMonitor.run($0!.assumingMemoryBound(to: MessagePortMonitor.self)) }, monitor) {
            process.pointee.messagePortMonitor = monitor
            return monitor
        }
        monitor.closeAll()
        CLinux.free(monitor)
        return nil
    }

    /// The thread. Signals are blocked in it.
    private static func run(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        // Written before the thread began.
        let epoll = monitor.pointee.epoll
        var isBlind = epoll < 0
        while true {
            MessagePortTable.lock()
            let isOver = process.pointee.messagePortMonitor != monitor
            let polls = isBlind || monitor.pointee.polled > 0
            MessagePortTable.unlock()
            if isOver { break }
            while polls, let port = findEnded() { look(port) }
            var pause = timespec(tv_sec: 0, tv_nsec: 100_000_000)
            if isBlind {
                rl_sys_nanosleep(&pause)
                continue
            }
            var token: UInt64 = 0
            var events: UInt32 = 0
            let count = withUnsafePointer(to: &pause) { rl_epoll_wait(epoll, polls ? $0 : nil, &token, &events) }
            if count > 0 && token != 0 {
                ended(token)
            } else if count > 0 {
                var value: UInt64 = 0
                _ = rl_sys_read(monitor.pointee.wake, &value, 8)
            } else if count < 0 && rl_errno() != EINTR {
                // The program closed numbers that are not its own.
                isBlind = true
            }
        }
        monitor.closeAll()
        CLinux.free(monitor)
    }

    /// A watched port whose peer is gone, with one more reference.
    private static func findEnded() -> MessagePortPointer? {
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        var port = process.pointee.messagePorts
        while let current = port {
            port = current.pointee.next
            current.lock()
            // While it is watched its connection is open.
            let isEnded = current.pointee.remote.isWatched && current.isValid && rl_has_ended(current.pointee.remote.connection)
            current.unlock()
            if isEnded && current.tryRetain() { return current }
        }
        return nil
    }

    @inline(never)
    private static func look(_ port: MessagePortPointer) {
        _ = port.isReachable()
        port.release()
    }

    /// The token is a port's address; the table knows whether it still is one.
    private static func ended(_ token: UInt64) {
        MessagePortTable.lock()
        var port = process.pointee.messagePorts
        while let current = port, UInt64(UInt(bitPattern: current)) != token { port = current.pointee.next }
        let isAlive = port.map { $0.tryRetain() } ?? false
        MessagePortTable.unlock()
        guard let port, isAlive else { return }
        // Its memory may be a new port's by now.
        look(port)
    }

    /// In the child of `fork` there is no such thread.
    static func abandonInChild() {
        guard let monitor = process.pointee.messagePortMonitor else { return }
        process.pointee.messagePortMonitor = nil
        monitor.closeAll()
        CLinux.free(monitor)
    }
}

extension UnsafeMutablePointer where Pointee == MessagePortMonitor {
    @inline(never)
    fileprivate func closeAll() {
        if pointee.epoll >= 0 { rl_sys_close(pointee.epoll) }
        if pointee.wake >= 0 { rl_sys_close(pointee.wake) }
        pointee.epoll = -1
        pointee.wake = -1
    }
}
