// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a remote port has beyond `MessagePort`. The port's lock guards it.
struct RemoteEnd {
    /// The connection, or -1.
    var connection: Int32 = -1
    /// The socket's, by which it is known where the program has closed the number.
    var cookie: UInt64 = 0
    /// A reply that is arriving in parts.
    var partial = PartialMessage()
    /// Why the connection is ended, if the peer sent what is no reply: to be logged once.
    var refusal: WireError?
    /// Memory for long requests, made by the first.
    var kept: KeptMemoryPointer?
    /// Threads that use the connection without the lock; it is closed after the last.
    var users = 0
    /// The monitor's set that watches the connection, by its serial number; 0: none. Guarded by the table's lock.
    var watchedBy: UInt32 = 0
    /// The id of the last request that wanted a reply.
    var lastID: UInt32 = 0
    /// Requests that wait for their replies, newest first.
    var waiters: ReplyWaiterPointer?
    /// An unused waiter, kept for the next request.
    var idleWaiter: ReplyWaiterPointer?
    /// Requests whose outcome a function gets, and what reads their replies.
    var begun = BegunRequests()
    var services: ReplyServicePointer?
}

/// A request that waits for its reply. The waiting thread owns it, and is the only one to use fields that are not marked as guarded.
struct ReplyWaiter {
    /// Written before the waiter is in the port's list, whose lock orders it, as are `arrival`, `loop` and `port`.
    var id: UInt32
    /// Guarded by the port's lock, as are `data` and `next`.
    var state: State
    var data: DataPointer?
    var next: ReplyWaiterPointer?
    /// Ends the run of the waiting thread when another thread, or a nested run, took the reply from the connection.
    var arrival: SourcePointer
    var loop: RunLoopPointer
    /// The port, which has a reference for it while the thread waits.
    var port: MessagePortPointer
    /// The waiter of a request around this one on the same thread, or nil. The run in which the request was made; the runs that
    /// wait for the reply are directly inside it.
    var outerFrame: RunFramePointer?
    /// Where `arrival` is, and with it the port's source of replies, if this waiter has added that. The waiting thread's.
    var mode: ModePointer?
    var addsReplies = false

    enum State {
        case waiting
        case replied
        /// The receiver could not reply.
        case failed
        case invalid
    }
}

typealias ReplyWaiterPointer = UnsafeMutablePointer<ReplyWaiter>

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// `RLMessagePortCreateRemote` (S-MSG-20).
    static func makeRemote(name: UnsafePointer<CChar>) -> MessagePortPointer? {
        let name = MessagePortName(name)
        if let existing = findRemote(name) {
            name.free()
            return existing
        }
        let connection = name.connect()
        guard connection >= 0, greet(connection, name) else {
            if connection >= 0 { rl_close_connection(connection) }
            name.free()
            return nil
        }
        MessagePortTable.lock()
        if let existing = MessagePortTable.findLocked(name, isRemote: true), existing.tryRetain() {
            // Another thread was faster.
            MessagePortTable.unlock()
            rl_close_connection(connection)
            name.free()
            return existing
        }
        let port = make(isRemote: true, name: name)
        port.pointee.remote.connection = connection
        port.pointee.remote.cookie = rl_socket_cookie(connection)
        MessagePortTable.insertLocked(port)
        MessagePortTable.unlock()
        return port
    }

    /// The valid remote port of the name that the process has, with one more reference.
    private static func findRemote(_ name: MessagePortName) -> MessagePortPointer? {
        MessagePortTable.lock()
        let found = MessagePortTable.findLocked(name, isRemote: true)
        let isAlive = found.map { $0.tryRetain() } ?? false
        MessagePortTable.unlock()
        guard let found, isAlive else { return nil }
        if found.isReachable() { return found }
        found.release()
        return nil
    }

    /// Says which name the connection is for.
    private static func greet(_ connection: Int32, _ name: MessagePortName) -> Bool {
        let header = WireHeader(
            kind: .hello, flags: 0, id: 0, number: 0, length: UInt64(strlen(name.bytes)), descriptors: 0)
        var message = OutgoingMessage(header, bytes: name.bytes)
        defer { message.finish() }
        return message.send(to: connection) == 0
    }

    /// `RLMessagePortIsValid`: a remote port looks at its connection (S-MSG-36).
    func isReachable() -> Bool {
        guard isValid else { return false }
        guard pointee.isRemote else { return true }
        lock()
        let hasEnded = isValid && pointee.remote.connection >= 0 && hasEndedLocked
        unlock()
        guard hasEnded else { return isValid }
        // The client's function may have freed the port.
        connectionEnded()
        return false
    }

    // MARK: The connection

    /// The connection, for use without the lock; nil if the port is invalid.
    func beginUse() -> Int32? {
        lock()
        defer { unlock() }
        guard isValid, pointee.remote.connection >= 0 else { return nil }
        pointee.remote.users += 1
        return pointee.remote.connection
    }

    func endUse() {
        lock()
        pointee.remote.users -= 1
        if !isValid { closeConnectionLocked() }
        unlock()
    }

    /// First part of the end of a remote port: waiting threads are notified, and threads that use the connection find it ended.
    func disconnectLocked() {
        if hasConnectionLocked { shutdown(pointee.remote.connection, Int32(SHUT_RDWR)) }
        var waiter = pointee.remote.waiters
        while let current = waiter {
            waiter = current.pointee.next
            if current.pointee.state == .waiting { complete(current, .invalid, inRunOf: nil) }
        }
        pointee.remote.begun.forEach { if $0.pointee.state == .waiting { completeLocked($0, .invalid) } }
    }

    /// Whether the number is the connection's (S-MSG-52).
    var hasConnectionLocked: Bool {
        pointee.remote.connection >= 0 && rl_is_socket(pointee.remote.connection, pointee.remote.cookie)
    }

    /// Second part, when no loop has the connection any more.
    func closeConnectionLocked() {
        let isInUse = pointee.remote.users > 0 || pointee.source.map { $0.isValid } ?? false || hasServiceLocked
        guard !isInUse, pointee.remote.connection >= 0 else { return }
        if hasConnectionLocked { rl_close_connection(pointee.remote.connection) }
        pointee.remote.connection = -1
        dropTransfersLocked()
    }

    /// Drops what was being sent or received on a connection that is closed.
    func dropTransfersLocked() {
        pointee.remote.partial.discard(&pointee.held)
        // No thread is sending: one that does counts as a user of the connection.
        pointee.remote.kept?.free()
        pointee.remote.kept = nil
    }

    /// The other end is gone, or broken: replies that came before are still delivered, all of them, to which none is added any more. Calls the
    /// client's functions, the log handler first: if that ends the thread, the next look at the connection finds that it has ended.
    func connectionEnded() {
        lock()
        stopReadingLocked()
        unlock()
        _ = takeReplies(inRunOf: nil, atMost: .max)
        lock()
        let refusal = pointee.remote.refusal
        pointee.remote.refusal = nil
        unlock()
        if let refusal { logRefusal("dropped a reply ", refusal.words, process: nil, user: nil) }
        invalidate()
    }

    private func stopReadingLocked() {
        if hasConnectionLocked { shutdown(pointee.remote.connection, Int32(SHUT_RD)) }
    }

    /// Whether there is nothing more to come through the connection of a valid port.
    var hasEndedLocked: Bool { rl_has_ended(pointee.remote.connection) || !hasConnectionLocked }

    // MARK: Replies

    /// Takes the replies that have come and hands them to the requests that wait. False if the connection ended, or is broken; then the caller
    /// calls `connectionEnded`. Itself it calls no function of the client. In a run it ends when no request waits any more, which saves a useless receive: an unexpected message makes
    /// the connection ready again.
    func takeReplies(inRunOf frame: RunFramePointer?, atMost limit: Int = 64) -> Bool {
        // A limit, so that a peer that sends without end cannot keep the thread here.
        var left = limit
        while left > 0 {
            left -= 1
            lock()
            guard isValid, pointee.remote.connection >= 0 else {
                unlock()
                return true
            }
            // In a run the kernel has reported the connection.
            guard frame != nil || hasConnectionLocked else {
                unlock()
                return false
            }
            let scratch = scratchLocked()
            let incoming = IncomingMessage.receive(
                from: pointee.remote.connection, by: .requester, scratch: scratch, partial: &pointee.remote.partial,
                held: &pointee.held)
            var unwanted: DataPointer?
            if case .refused(let error) = incoming {
                pointee.remote.refusal = error
                stopReadingLocked()
            }
            if case .message(let message) = incoming {
                unwanted = handOverLocked(message, inRunOf: frame)
                if frame != nil && !isAwaitedLocked { left = 0 }
            }
            unlock()
            unwanted?.release()
            switch incoming {
            case .nothing: return true
            case .later:
                // A watch that a loop serves has it come back. Others ask again at once, and so wait here, and not for long.
                if frame != nil {
                    RunLoop.deferServedWatch()
                    return true
                }
                left = Swift.min(left, 10)
                var pause = timespec(nanoseconds: Clock.retryDelay / 10)
                _ = rl_sys_nanosleep(&pause)
            case .ended, .refused: return false
            case .part(let count): left -= count / WireHeader.placeSize
            case .message: break
            }
        }
        return true
    }

    /// Whether a request has no reply yet.
    private var isAwaitedLocked: Bool {
        var waiter = pointee.remote.waiters
        while let current = waiter {
            if current.pointee.state == .waiting { return true }
            waiter = current.pointee.next
        }
        return !pointee.remote.begun.isEmpty
    }

    /// Whether there are replies to come that no request waits for. They are read nevertheless, by the next request and by the thread that watches
    /// ports: a peer that has no room for them serves nothing that was sent after their requests (S-MSG-28).
    var hasLateReplies: Bool { pointee.lateReplies.load(ordering: .relaxed) > 0 }

    func addLateLocked(_ count: Int32) { pointee.lateReplies.wrappingAdd(count, ordering: .relaxed) }

    /// Hands a reply to the request that waits for it. Returns data that no request waits for (S-MSG-28).
    private func handOverLocked(_ message: IncomingMessage, inRunOf frame: RunFramePointer?) -> DataPointer? {
        var waiter = pointee.remote.waiters
        while let current = waiter, current.pointee.id != message.header.id || current.pointee.state != .waiting {
            waiter = current.pointee.next
        }
        guard let waiter else { return handOverBegunLocked(message) }
        if message.header.number == WireHeader.succeeded, let data = message.data {
            waiter.pointee.data = data
            complete(waiter, .replied, inRunOf: frame)
            return nil
        }
        complete(waiter, .failed, inRunOf: frame)
        return message.data
    }

    private func handOverBegunLocked(_ message: IncomingMessage) -> DataPointer? {
        guard let begun = pointee.remote.begun.find(message.header.id), begun.pointee.state == .waiting else {
            // A peer may send more replies than there were requests.
            if hasLateReplies { addLateLocked(-1) }
            return message.data
        }
        guard message.header.number == WireHeader.succeeded, let data = message.data else {
            completeLocked(begun, .failed)
            return message.data
        }
        begun.pointee.data = data
        completeLocked(begun, .replied)
        return nil
    }

    /// Notes how the wait ended and ends the run that waits, unless that run is the one that calls this, which returns by itself.
    @inline(never)
    private func complete(_ waiter: ReplyWaiterPointer, _ state: ReplyWaiter.State, inRunOf frame: RunFramePointer?) {
        waiter.pointee.state = state
        if let frame, waiter.pointee.loop.isCurrent, frame.pointee.outer == waiter.pointee.outerFrame { return }
        waiter.pointee.arrival.signal(on: waiter.pointee.loop)
    }

    /// The source that reads replies; the port keeps it, and the caller the port (S-MSG-25).
    func replySource() -> SourcePointer {
        lock()
        if let source = pointee.source {
            unlock()
            return source
        }
        let connection = pointee.remote.connection
        let serial = UInt32(truncatingIfNeeded: pointee.remote.cookie)
        unlock()
        let made = makeWatch(descriptor: connection, order: 0, fileSerial: serial) { info, _ in MessagePortPointer(info: info).performReplies() }
        made.becomeOwn()
        lock()
        let existing = pointee.source
        if existing == nil {
            // An invalidation that came meanwhile does not know of it, and closes the connection while no valid source has it.
            if !isValid { made.invalidate() }
            pointee.source = made
        }
        unlock()
        if existing != nil { made.release() }
        return existing ?? made
    }

    func performReplies() -> Bool {
        guard tryRetain() else { return false }
        if !takeReplies(inRunOf: RunLoop.current().pointee.frame) { connectionEnded() }
        // The thread that invalidates the port may still be in the client's function: a loop would find the end of the connection
        // pass after pass.
        if !isValid { endSources() }
        release()
        return true
    }
}
