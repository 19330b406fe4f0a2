import CLinux
import Synchronization

/// The thread that notices the end of a peer while nobody uses the remote port (S-MSG-36). There is one while there are remote
/// ports with an invalidation callback, which is what makes the moment visible; a port without one finds out when it is asked.
/// The table's lock guards the record; the thread owns it and frees it at its end.
struct MessagePortMonitor {
    /// Holds the connections, with ports as tokens, and `wake`.
    var epoll: Int32
    /// Readable when the thread is to end.
    var wake: Int32
    var watched: Int

    static func watch(_ port: MessagePortPointer) {
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        guard let monitor = process.pointee.messagePortMonitor ?? start() else { return }
        // An invalid port has been taken off the table's list, or is about to be, and then off the set.
        port.lock()
        defer { port.unlock() }
        guard port.isValid, port.pointee.remote.connection >= 0 else { return endIfIdleLocked(monitor) }
        let token = UInt64(UInt(bitPattern: port))
        let events = RL_EPOLLRDHUP | RL_EPOLLONESHOT
        if rl_epoll_ctl(monitor.pointee.epoll, EPOLL_CTL_ADD, port.pointee.remote.connection, events, token) == 0 {
            port.pointee.remote.isWatched = true
            monitor.pointee.watched += 1
        }
        endIfIdleLocked(monitor)
    }

    /// The port became invalid.
    static func forget(_ port: MessagePortPointer) {
        guard port.pointee.isRemote else { return }
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        guard let monitor = process.pointee.messagePortMonitor else { return }
        port.lock()
        let isWatched = port.pointee.remote.isWatched
        port.pointee.remote.isWatched = false
        if isWatched { _ = rl_epoll_ctl(monitor.pointee.epoll, EPOLL_CTL_DEL, port.pointee.remote.connection, 0, 0) }
        port.unlock()
        guard isWatched else { return }
        monitor.pointee.watched -= 1
        endIfIdleLocked(monitor)
    }

    /// Lets go of the thread if it has nothing to watch; the next port gets another one.
    private static func endIfIdleLocked(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        guard monitor.pointee.watched == 0 else { return }
        process.pointee.messagePortMonitor = nil
        var one: UInt64 = 1
        _ = write(monitor.pointee.wake, &one, 8)
    }

    private static func start() -> UnsafeMutablePointer<MessagePortMonitor>? {
        let epoll = highNumber(epoll_create1(Int32(EPOLL_CLOEXEC)))
        let wake = highNumber(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)))
        if epoll >= 0 && wake >= 0 && rl_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, EPOLLIN.rawValue, 0) == 0 {
            let monitor = makeArray(MessagePortMonitor.self, count: 1)
            monitor.initialize(to: MessagePortMonitor(epoll: epoll, wake: wake, watched: 0))
            if rl_start_thread({ MessagePortMonitor.run($0!.assumingMemoryBound(to: MessagePortMonitor.self)) }, monitor) {
                process.pointee.messagePortMonitor = monitor
                return monitor
            }
            CLinux.free(monitor)
        }
        if epoll >= 0 { close(epoll) }
        if wake >= 0 { close(wake) }
        return nil
    }

    /// The thread. Signals are blocked in it.
    private static func run(_ monitor: UnsafeMutablePointer<MessagePortMonitor>) {
        let epoll = monitor.pointee.epoll
        while true {
            var token: UInt64 = 0
            var events: UInt32 = 0
            guard rl_epoll_wait(epoll, nil, &token, &events) > 0 else {
                if rl_errno() == EINTR { continue }
                // The program closed numbers that are not its own.
                return
            }
            if token == 0 { break }
            ended(token)
        }
        close(epoll)
        close(monitor.pointee.wake)
        CLinux.free(monitor)
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
        _ = port.isReachable()
        port.release()
    }

    /// In the child of `fork` there is no such thread.
    static func abandonInChild() {
        guard let monitor = process.pointee.messagePortMonitor else { return }
        process.pointee.messagePortMonitor = nil
        close(monitor.pointee.epoll)
        close(monitor.pointee.wake)
        CLinux.free(monitor)
    }
}
