// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A request as `RLMessagePortSendRequest` takes it.
struct MessageRequest {
    var msgid: Int32
    var bytes: UnsafeRawPointer?
    /// The client's size_t: negative from the half of all memory on.
    var length: Int
    var descriptors: UnsafePointer<Int32>?
    var descriptorCount: Int
    var sendTimeout: Double
    var receiveTimeout: Double
    /// NULL: no reply is wanted.
    var replyMode: UnsafePointer<CChar>?
}

/// The results of a request, as Int32s.
enum MessagePortCode {
    static var success: Int32 { Int32(kRLMessagePortSuccess) }
    static var sendTimeout: Int32 { Int32(kRLMessagePortSendTimeout) }
    static var receiveTimeout: Int32 { Int32(kRLMessagePortReceiveTimeout) }
    static var isInvalid: Int32 { Int32(kRLMessagePortIsInvalid) }
    static var transportError: Int32 { Int32(kRLMessagePortTransportError) }
    static var becameInvalid: Int32 { Int32(kRLMessagePortBecameInvalidError) }
}

/// Sending requests, and waiting for their replies on the loop of the thread that sends.
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// The result, and with `succeeded` and a reply mode the reply's data, one reference.
    func send(_ request: MessageRequest) -> (code: Int32, data: DataPointer?) {
        if let refusal = refusal(of: request) { return (refusal, nil) }
        retain()
        guard let mode = request.replyMode else {
            let code = transmit(request, id: 0)
            release()
            return (code, nil)
        }
        let loop = RunLoop.current()
        guard let waiter = enqueueWaiter(loop) else {
            release()
            return (MessagePortCode.isInvalid, nil)
        }
        let code = loop.call(ReplyWait(waiter: waiter)) { _ in
            let code = transmit(request, id: waiter.pointee.id)
            return code == MessagePortCode.success ? awaitReply(waiter, loop, ModeName(mode), request.receiveTimeout) : code
        }
        let data = dequeueWaiter(waiter, mayReuse: true)
        if hasLateReplies { MessagePortMonitor.watchLateReplies(self) }
        release()
        if code == MessagePortCode.success { return (code, data) }
        data?.release()
        return (code, nil)
    }

    /// Why a request cannot be sent, as far as that shows before it is tried.
    func refusal(of request: MessageRequest) -> Int32? {
        guard pointee.isRemote, isValid else { return MessagePortCode.isInvalid }
        let count = request.descriptorCount
        guard UInt(bitPattern: request.length) <= UInt(WireHeader.lengthLimit), count >= 0, count <= WireHeader.descriptorLimit,
            count == 0 || request.descriptors != nil
        else { return MessagePortCode.transportError }
        return nil
    }

    // MARK: Sending

    /// Sends a request with the id of one that waits, or 0.
    func transmit(_ request: MessageRequest, id: UInt32) -> Int32 {
        if hasLateReplies && !takeReplies(inRunOf: nil) { connectionEnded() }
        let code = transmitOnce(request, id)
        if code != MessagePortCode.success && id != 0 {
            // There is no reply to it, and it is still going to be counted.
            lock()
            addLateLocked(-1)
            unlock()
        }
        return code
    }

    private func transmitOnce(_ request: MessageRequest, _ id: UInt32) -> Int32 {
        let header = WireHeader(
            kind: .request, flags: id != 0 ? WireHeader.wantsReply : 0, id: id, number: request.msgid,
            length: UInt64(request.bytes == nil ? 0 : request.length), descriptors: UInt32(request.descriptorCount))
        if Trace.isWanted { tellTrace(.messageSend, header, token: nil) }
        if KeptMemoryPointer.isWorthwhile(header.length), let code = transmitInParts(request, header) { return code }
        var message = OutgoingMessage(header, bytes: request.bytes, descriptors: request.descriptors)
        guard message.prepare() else { return MessagePortCode.transportError }
        defer { message.finish() }
        guard let connection = beginUse() else { return MessagePortCode.isInvalid }
        var error = message.send(to: connection)
        let isFirst = error != EAGAIN
        if error == EAGAIN { error = sendWhenThereIsRoom(&message, connection, SendDeadline(request.sendTimeout)) }
        endUse()
        return code(of: error, isFirst: isFirst)
    }

    private func code(of error: Int32, isFirst: Bool) -> Int32 {
        switch error {
        case 0: return MessagePortCode.success
        case EAGAIN: return MessagePortCode.sendTimeout
        case EPIPE, ECONNRESET, ENOTCONN:
            connectionEnded()
            return isFirst ? MessagePortCode.isInvalid : MessagePortCode.transportError
        default: return MessagePortCode.transportError
        }
    }

    /// Sends a long request in parts. nil if it has to go another way; then nothing of it was sent.
    private func transmitInParts(_ request: MessageRequest, _ header: WireHeader) -> Int32? {
        lock()
        if pointee.remote.kept == nil, isValid, pointee.remote.connection >= 0 { pointee.remote.kept = KeptMemoryPointer.make() }
        guard isValid, pointee.remote.connection >= 0, let kept = pointee.remote.kept, !kept.pointee.isBusy, kept.isEmpty else {
            unlock()
            return nil
        }
        kept.pointee.isBusy = true
        // As `beginUse` does: the memory lives as long as the connection is in use.
        pointee.remote.users += 1
        let connection = pointee.remote.connection
        unlock()
        var header = header
        header.flags |= WireHeader.inParts
        var first = OutgoingMessage(header, bytes: nil, descriptors: request.descriptors)
        let deadline = SendDeadline(request.sendTimeout)
        var error = first.send(to: connection)
        let isFirst = error != EAGAIN
        if error == EAGAIN { error = sendWhenThereIsRoom(&first, connection, deadline) }
        if error == 0 { error = sendParts(request, connection, kept, deadline) }
        lock()
        kept.pointee.isBusy = false
        unlock()
        endUse()
        return code(of: error, isFirst: isFirst)
    }

    private func sendParts(
        _ request: MessageRequest, _ connection: Int32, _ kept: KeptMemoryPointer, _ deadline: SendDeadline
    ) -> Int32 {
        var done = 0
        var number = 0
        var patience = PartsPatience(request.length, limit: deadline.nanosecondsLeft)
        while done < request.length {
            let left = request.length - done
            let bytes = request.bytes! + done
            guard var part = kept.fill(number, bytes, left, &patience) ?? OutgoingMessage.rest(bytes, left)
            else { return ENOMEM }
            defer { part.finish() }
            var error = part.send(to: connection)
            if error == EAGAIN { error = sendWhenThereIsRoom(&part, connection, deadline) }
            if error != 0 {
                if part.header.flags & WireHeader.inKeptMemory != 0 { kept.takeBack(part) }
                return error
            }
            done += Int(part.header.length)
            number += 1
        }
        return 0
    }

    /// The queue was full: waits for room, and takes replies meanwhile, whatever the time, because a peer that cannot send them takes no messages.
    @inline(never)
    private func sendWhenThereIsRoom(_ message: inout OutgoingMessage, _ connection: Int32, _ deadline: SendDeadline) -> Int32 {
        // poll(2) reports a local socket once three quarters of its queue are free, and there is room before. So there is an attempt after each
        // slice of the time, and one at its end.
        var slice: Int32 = 1
        while true {
            guard takeReplies(inRunOf: nil) else { return EPIPE }
            let left = deadline.left
            if let left {
                _ = rl_wait_ready(connection, Int16(POLLOUT | POLLIN), left < 0 ? slice : Swift.min(slice, left))
                slice = Swift.min(2 * slice, 64)
            }
            let error = message.send(to: connection)
            if error != EAGAIN || left == nil { return error }
        }
    }

    // MARK: Waiting

    private func enqueueWaiter(_ loop: RunLoopPointer) -> ReplyWaiterPointer? {
        lock()
        let idle = pointee.remote.idleWaiter
        pointee.remote.idleWaiter = nil
        unlock()
        let waiter = idle ?? makeWaiter(loop)
        lock()
        guard isValid else {
            unlock()
            freeWaiter(waiter)
            return nil
        }
        waiter.pointee.id = nextIDLocked()
        waiter.pointee.state = .waiting
        waiter.pointee.data = nil
        waiter.pointee.loop = loop
        waiter.pointee.outerFrame = loop.pointee.frame
        waiter.pointee.next = pointee.remote.waiters
        pointee.remote.waiters = waiter
        unlock()
        return waiter
    }

    /// An id that no waiting request has.
    func nextIDLocked() -> UInt32 {
        while true {
            pointee.remote.lastID &+= 1
            if pointee.remote.lastID == 0 || pointee.remote.begun.find(pointee.remote.lastID) != nil { continue }
            var waiter = pointee.remote.waiters
            while let current = waiter, current.pointee.id != pointee.remote.lastID { waiter = current.pointee.next }
            if waiter == nil { return pointee.remote.lastID }
        }
    }

    private func makeWaiter(_ loop: RunLoopPointer) -> ReplyWaiterPointer {
        let waiter = makeArray(ReplyWaiter.self, count: 1)
        // The info makes each such source equal to itself alone.
        let functions = SourceFunctions(perform: { $0!.assumingMemoryBound(to: ReplyWaiter.self).endRun() })
        let arrival = SourcePointer.make(order: 0, info: waiter, functions: functions, isVersionOne: false)
        arrival.becomeOwn()
        waiter.initialize(to: ReplyWaiter(id: 0, state: .waiting, arrival: arrival, loop: loop, port: self))
        return waiter
    }

    private func freeWaiter(_ waiter: ReplyWaiterPointer) {
        waiter.pointee.arrival.release()
        CRunLoopLinux.free(waiter)
    }

    /// The thread that waited has ended.
    func abandon(_ waiter: ReplyWaiterPointer) {
        leaveMode(waiter)
        dequeueWaiter(waiter, mayReuse: false)?.release()
        if hasLateReplies { MessagePortMonitor.watchLateReplies(self) }
        release()
    }

    /// Takes the waiter off the list. Returns the data of its reply.
    private func dequeueWaiter(_ waiter: ReplyWaiterPointer, mayReuse: Bool) -> DataPointer? {
        lock()
        if pointee.remote.waiters == waiter {
            pointee.remote.waiters = waiter.pointee.next
        } else {
            var other = pointee.remote.waiters
            while let current = other, current.pointee.next != waiter { other = current.pointee.next }
            other?.pointee.next = waiter.pointee.next
        }
        if waiter.pointee.state == .waiting { addLateLocked(1) }
        let data = waiter.pointee.data
        // One whose source was signalled would end the next request's first run for nothing.
        let isReusable = mayReuse && isValid && pointee.remote.idleWaiter == nil && !waiter.pointee.arrival.isSignalled
        if isReusable { pointee.remote.idleWaiter = waiter }
        unlock()
        if !isReusable { freeWaiter(waiter) }
        return data
    }

    func freeIdleWaiter() {
        if let waiter = pointee.remote.idleWaiter { freeWaiter(waiter) }
        pointee.remote.idleWaiter = nil
    }

    private func awaitReply(_ waiter: ReplyWaiterPointer, _ loop: RunLoopPointer, _ mode: ModeName, _ timeout: Double) -> Int32 {
        let arrival = waiter.pointee.arrival
        let replies = replySource()
        replies.prepareHashCode()
        arrival.prepareHashCode()
        // Found once for all uses. A pseudo-mode cannot run.
        guard case .named(let name) = mode, loop.acceptsItems("RLAddSource", .addSourceToEndedMain) else {
            return awaitReply(waiter, loop, nil, timeout)
        }
        let place = loop.makeMode(name)
        waiter.pointee.mode = place
        // A request around this one may wait in the same mode (S-MSG-31).
        waiter.pointee.addsReplies = loop.add(replies, to: place)
        loop.addToMode(arrival, place)
        let code = awaitReply(waiter, loop, place, timeout)
        leaveMode(waiter)
        return code
    }

    @inline(never)
    private func leaveMode(_ waiter: ReplyWaiterPointer) {
        guard let mode = waiter.pointee.mode else { return }
        waiter.pointee.mode = nil
        waiter.pointee.loop.remove(waiter.pointee.arrival, from: mode)
        if waiter.pointee.addsReplies { waiter.pointee.loop.remove(replySource(), from: mode) }
    }

    /// Nil: there is no mode to run.
    @inline(never)
    private func awaitReply(_ waiter: ReplyWaiterPointer, _ loop: RunLoopPointer, _ mode: ModePointer?, _ timeout: Double) -> Int32 {
        let seconds = timeout > 0 ? timeout : 0
        let deadline = seconds <= Clock.longestInterval ? loop.time + Clock.nanoseconds(seconds) : Clock.never
        var left = seconds
        while true {
            // A run of a mode that cannot run, or of a thread that is ending, returns at once.
            var hasRun = false
            if let mode, loop.mayRun { hasRun = loop.run(in: mode, seconds: left, until: deadline, returnsAfterSource: true) != .finished }
            if !hasRun { waitWithoutLoop(left) }
            switch stateOf(waiter) {
            case .replied: return MessagePortCode.success
            case .failed: return MessagePortCode.transportError
            case .invalid: return MessagePortCode.becameInvalid
            case .waiting: break
            }
            guard isValid else { return MessagePortCode.becameInvalid }
            if deadline == Clock.never { continue }
            // Without runs a loop does not come to the time of its program's clock.
            let rest = deadline - (hasRun ? loop.time : loop.manualClock?.time ?? loop.time)
            if rest <= 0 { return MessagePortCode.receiveTimeout }
            left = Double(rest) / 1e9
        }
    }

    private func stateOf(_ waiter: ReplyWaiterPointer) -> ReplyWaiter.State {
        lock()
        defer { unlock() }
        return waiter.pointee.state
    }

    /// Waits for something on the connection. Another thread may take the reply from it, hence the short time.
    private func waitWithoutLoop(_ seconds: Double) {
        guard let connection = beginUse() else { return }
        let ready = rl_wait_ready(connection, Int16(POLLIN), seconds > 0 ? Int32(Swift.min(seconds * 1000, 9)) + 1 : 0)
        endUse()
        if ready != 0 && !takeReplies(inRunOf: nil) { connectionEnded() }
    }
}

extension UnsafeMutablePointer where Pointee == ReplyWaiter {
    /// The reply is there: ends the run that waits for it, which may be around the one that finds it; that one may have been started by any code. The
    /// waiter lives as long as its source can perform, because the waiting call is further out on this stack.
    fileprivate func endRun() {
        let loop = pointee.loop
        var frame = loop.pointee.frame
        while let current = frame, current.pointee.outer != pointee.outerFrame { frame = current.pointee.outer }
        frame?.pointee.hasReply = true
        if frame != loop.pointee.frame { loop.wakeUp() }
    }
}

/// Until when a full queue is waited for (S-MSG-23).
private struct SendDeadline {
    private let end: Int64

    init(_ seconds: Double) {
        let milliseconds = seconds * 1000
        if !(milliseconds >= 1) {
            end = 0
        } else if seconds >= 864_000 {
            end = Clock.never
        } else {
            end = Clock.now() + Int64(milliseconds) * 1_000_000
        }
    }

    /// How long other waits of the same call may take, all together.
    var nanosecondsLeft: Int64 {
        if end == Clock.never { return .max }
        return end == 0 ? 0 : Swift.max(0, end - Clock.now())
    }

    /// Milliseconds for poll(2), at least one, -1 for no end; nil if the time is over.
    var left: Int32? {
        if end == Clock.never { return -1 }
        if end == 0 { return nil }
        let rest = end - Clock.now()
        return rest > 0 ? Int32((rest + 999_999) / 1_000_000) : nil
    }
}

/// A thread waits for a reply, running its loop. Not a callback, but callbacks may end the thread during it.
struct ReplyWait: CallRecord {
    let waiter: ReplyWaiterPointer

    static var kind: CallKind { .replyWait }
}
