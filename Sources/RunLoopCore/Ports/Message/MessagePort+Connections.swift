// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The connections of a local port. The port's lock is held in all of this.
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// The result of taking a connection from the listener's queue.
    enum Acceptance {
        case accepted
        case nothing
        /// Of another user, to whom nothing is sent.
        case refused(user: uid_t, process: pid_t)
        /// There is no descriptor, or no room in the kernel, or the call is refused; the listener is paused.
        case paused
        /// There are as many connections as the port takes; this one is closed.
        case crowded
    }

    func acceptLocked() -> Acceptance {
        let descriptor = rl_message_accept(pointee.local.claim.listener)
        guard descriptor >= 0 else {
            if rl_accepted_nothing() { return .nothing }
            closeStalledLocked(holdingReplies: true)
            // The connection stays in the queue, and the set must not report it all the time.
            pauseListenerLocked()
            return .paused
        }
        let connection = rl_high_number(descriptor)
        var user: uid_t = 0
        var owner: pid_t = 0
        guard rl_is_own_peer(connection, &user, &owner) else {
            closeDescriptorLocked(connection)
            return .refused(user: user, process: owner)
        }
        // The process keeps descriptors for its other work, however many peers there are.
        guard hasNumberLocked() else {
            closeDescriptorLocked(connection)
            return .crowded
        }
        let place = freePlaceLocked()
        pointee.local.generation &+= 1
        pointee.local.connectionCount += 1
        pointee.local.connections![place] = MessageConnection(
            descriptor: connection, cookie: rl_socket_cookie(connection), generation: pointee.local.generation, process: owner)
        if registerLocked(place) { return .accepted }
        // The kernel has no room for one more. What came on the connection must not be lost: the connection takes the listener's place.
        pauseListenerLocked()
        _ = rl_epoll_ctl(pointee.local.epoll, EPOLL_CTL_DEL, pointee.local.claim.listener, 0, 0)
        pointee.local.hasListenerLeft = true
        // If the place is gone already, the connection waits for another one.
        pointee.local.connections![place].isPaused = !registerLocked(place)
        return .paused
    }

    private func registerLocked(_ place: Int) -> Bool {
        let connection = pointee.local.connections![place].descriptor
        return rl_epoll_ctl(pointee.local.epoll, EPOLL_CTL_ADD, connection, EPOLLIN.rawValue, tokenLocked(place)) == 0
    }

    /// The listener stays in the set for no events: the set is recognised by it (S-MSG-52).
    private func pauseListenerLocked() {
        _ = MessagePortPointer.register(pointee.local.claim.listener, in: pointee.local.epoll, isThere: true, isPaused: true)
        pointee.local.isListenerPaused = true
    }

    /// Whether something is to be resumed.
    var hasPausedLocked: Bool {
        for place in 0..<pointee.local.connectionCapacity where pointee.local.connections![place].isPaused { return true }
        return pointee.local.isListenerPaused
    }

    /// Has the set report paused connections and a paused listener again. False if there is no room for that.
    func resumePaused() -> Bool {
        lock()
        defer { unlock() }
        guard isValid else { return true }
        for place in 0..<pointee.local.connectionCapacity where pointee.local.connections![place].isPaused {
            guard watchAgainLocked(place) else { return false }
            pointee.local.connections![place].isPaused = false
        }
        guard pointee.local.isListenerPaused, pointee.local.claim.listener >= 0 else { return true }
        guard MessagePortPointer.register(pointee.local.claim.listener, in: pointee.local.epoll, isThere: !pointee.local.hasListenerLeft)
        else { return false }
        pointee.local.isListenerPaused = false
        pointee.local.hasListenerLeft = false
        return true
    }

    /// Has the set report a paused connection, which may not even be in it. False if there is no room.
    private func watchAgainLocked(_ place: Int) -> Bool {
        let connection = pointee.local.connections![place]
        if connection.replies != nil || watchLocked(place, EPOLLIN.rawValue) || rl_errno() != ENOENT { return true }
        // A number that the program has closed may name a file of its own by now.
        return !rl_is_socket(connection.descriptor, connection.cookie) || registerLocked(place)
    }

    private func freePlaceLocked() -> Int {
        if pointee.local.firstFree < 0 {
            let capacity = pointee.local.connectionCapacity
            pointee.local.connectionCapacity = Swift.max(4, capacity * 2)
            pointee.local.connections = growArray(pointee.local.connections, count: pointee.local.connectionCapacity)
            for place in (capacity..<pointee.local.connectionCapacity).reversed() { freeLocked(place) }
        }
        let place = pointee.local.firstFree
        pointee.local.firstFree = pointee.local.connections![place].nextFree
        return place
    }

    private func freeLocked(_ place: Int) {
        pointee.local.connections![place] = MessageConnection(nextFree: pointee.local.firstFree)
        pointee.local.firstFree = place
    }

    private func tokenLocked(_ place: Int) -> UInt64 {
        UInt64(pointee.local.connections![place].generation) << 32 | UInt64(place)
    }

    /// The place of the connection with this token, if it is still there.
    func placeLocked(token: UInt64) -> Int? {
        let place = Int(token & 0xffff_ffff)
        guard place < pointee.local.connectionCapacity, pointee.local.connections![place].descriptor >= 0,
            tokenLocked(place) == token
        else { return nil }
        return place
    }

    /// With descriptors in its queue it costs this process more than the peer, and counts for several steps of a pass.
    private func closeDescriptorLocked(_ connection: Int32) {
        if rl_close_connection(connection) { pointee.local.closingCost += 15 }
    }

    @inline(never)
    func closeLocked(_ place: Int) {
        let connection = pointee.local.connections![place]
        guard connection.descriptor >= 0 else { return }
        // First out of the set: another process may have the file too, and then closing would leave it there.
        if rl_is_socket(connection.descriptor, connection.cookie) {
            _ = rl_epoll_ctl(pointee.local.epoll, EPOLL_CTL_DEL, connection.descriptor, 0, 0)
            closeDescriptorLocked(connection.descriptor)
        }
        pointee.local.connectionCount -= 1
        forgetRepliesLocked(place)
        dropTransfersLocked(of: place)
        freeLocked(place)
    }

    /// Drops what was being sent or received in parts on a connection that is closed.
    @inline(never)
    func dropTransfersLocked(of place: Int) {
        pointee.local.connections![place].partial.discard(&pointee.held)
        guard let kept = pointee.local.connections![place].kept else { return }
        // In the child of `fork` the thread that was sending does not exist.
        let isInUse = kept.pointee.isBusy && pointee.state.load(ordering: .relaxed) & MessagePortState.lostInFork == 0
        if isInUse { kept.pointee.isOrphan = true } else { kept.free() }
        pointee.local.connections![place].kept = nil
        pointee.local.keptCount -= 1
    }

    /// Whether peers may have one more of the process's descriptors: connections and the files of replies that wait have half of them.
    @inline(never)
    private func hasNumberLocked() -> Bool {
        let most = rl_most_connections()
        if pointee.local.connectionCount + pointee.local.waitingFiles >= most { closeStalledLocked(holdingReplies: true) }
        return pointee.local.connectionCount + pointee.local.waitingFiles < most
    }

    /// Begun messages, or replies that wait, hold much: peers that for two seconds have sent nothing, though nothing waits to be taken, or have
    /// taken no reply, are dropped with their connections, so that they do not keep the room from others. So is one that has ended and has put its
    /// end of the connection into the connection, whose end the kernel does not report. A look is at the next few connections in turn, and asks
    /// the kernel about one of them once in two seconds, so it costs the same however many there are.
    @inline(never)
    func closeStalledLocked(holdingReplies: Bool) {
        let now = Clock.now()
        let past = now - MessageConnection.patience
        for _ in 0..<Swift.min(MessageConnection.looks, pointee.local.connectionCapacity) {
            // What it closes counts as steps of the pass: a few at a time, or one that costs more.
            if pointee.local.closingCost >= 4 { return }
            let place = pointee.local.nextLook
            pointee.local.nextLook = place + 1 < pointee.local.connectionCapacity ? place + 1 : 0
            let connection = pointee.local.connections! + place
            guard holdingReplies ? connection.pointee.replies != nil : connection.pointee.partial.isStill(since: past) else { continue }
            if connection.pointee.replies != nil {
                // While one waits no message is taken, so what comes says nothing: the peer has stopped if it takes none. What it has taken
                // shows in the room, also where the port has been too busy to use that.
                if connection.pointee.waitTime < past { noteWaitLocked(place) }
                if connection.pointee.waitTime >= past { continue }
            } else if rl_is_readable(connection.pointee.descriptor) {
                connection.pointee.partial.time = now
                continue
            }
            closeLocked(place)
            pointee.local.closingCost += 1
        }
    }

    /// Notes what the replies on a connection hold while one waits, and whether the peer has taken any since the last note.
    @inline(never)
    private func noteWaitLocked(_ place: Int) {
        let connection = pointee.local.connections! + place
        var memory = connection.pointee.replies == nil ? 0 : connection.pointee.unread.bytes
        var files = 0
        var reply = connection.pointee.replies
        while let current = reply {
            if current.pointee.message.isSealed {
                memory &+= current.pointee.message.sealedLength
                files &+= 1
            }
            reply = current.pointee.next
        }
        pointee.local.waitingMemory &+= memory &- connection.pointee.waitingMemory
        pointee.local.waitingFiles &+= files &- connection.pointee.waitingFiles
        connection.pointee.waitingMemory = memory
        connection.pointee.waitingFiles = files
        if connection.pointee.replies == nil {
            connection.pointee.waitTime = 0
            return
        }
        let room = rl_queued_room(connection.pointee.descriptor)
        if connection.pointee.waitTime != 0 && room == connection.pointee.waitRoom { return }
        connection.pointee.waitTime = Clock.now()
        connection.pointee.waitRoom = room
    }

    // MARK: Replies

    /// Sends a reply, or the rest of one, or where there is no room for it in the kernel, or by the limit, that there is none: the sender of
    /// the request does not wait for it, and goes on. A connection has no more unread bytes in sealed memory than the longest message has:
    /// a peer that asks and does not take the replies would otherwise hold ever more of this process's memory.
    @inline(never)
    private func sendLocked(_ place: Int, _ message: inout OutgoingMessage) -> Int32 {
        let error = sendNotedLocked(place, &message)
        if error == 0 || error == EAGAIN || error == EPIPE || error == ECONNRESET { return error }
        message.finish()
        message = OutgoingMessage(WireHeader.failed(message.request), bytes: nil)
        return sendNotedLocked(place, &message)
    }

    /// Sends a datagram within the limit, and notes what of it is to be known later.
    @inline(never)
    private func sendNotedLocked(_ place: Int, _ message: inout OutgoingMessage) -> Int32 {
        let descriptor = pointee.local.connections![place].descriptor
        let isNoted = message.sealedLength > 0 || !pointee.local.connections![place].unread.isEmpty
        guard isNoted else { return message.send(to: descriptor) }
        let before = Int(rl_queued_room(descriptor))
        guard pointee.local.connections![place].unread.hasRoom(for: message.sealedLength, queued: before) else { return ENOBUFS }
        let error = message.send(to: descriptor)
        if error == 0 {
            pointee.local.connections![place].unread.add(message.sealedLength, room: Int(rl_queued_room(descriptor)) - before)
        }
        return error
    }

    /// Sends a prepared reply, or keeps it until there is room. The data stay the caller's.
    func replyLocked(_ place: Int, _ message: OutgoingMessage, _ data: DataPointer?) {
        guard pointee.local.connections![place].replies == nil else { return keepLocked(place, message, data) }
        var message = message
        let error = sendLocked(place, &message)
        if error == EAGAIN { return keepLocked(place, message, data) }
        message.finish()
        _ = sendFailedLocked(place, error)
    }

    /// Ends the connection, unless the other end is gone: what that sent before is still there to be served, and then its end.
    /// Returns whether it has ended it.
    private func sendFailedLocked(_ place: Int, _ error: Int32) -> Bool {
        if error == 0 || error == EPIPE || error == ECONNRESET { return false }
        closeLocked(place)
        return true
    }

    /// Sends a long reply in parts. False if it has to go another way; then nothing of it was sent.
    func replyInParts(_ header: WireHeader, _ token: UInt64, _ data: DataPointer) -> Bool {
        var header = header
        header.flags |= WireHeader.inParts
        var first = OutgoingMessage(header, bytes: nil)
        lock()
        guard isValid, let place = placeLocked(token: token), pointee.local.connections![place].replies == nil else {
            unlock()
            return false
        }
        if pointee.local.connections![place].kept == nil && pointee.local.keptCount < LocalEnd.keptLimit {
            pointee.local.connections![place].kept = KeptMemoryPointer.make()
            if pointee.local.connections![place].kept != nil { pointee.local.keptCount += 1 }
        }
        guard let kept = pointee.local.connections![place].kept, !kept.pointee.isBusy, kept.isEmpty,
            sendNotedLocked(place, &first) == 0
        else {
            unlock()
            return false
        }
        kept.pointee.isBusy = true
        unlock()
        sendParts(header, token, kept, data)
        lock()
        kept.pointee.isBusy = false
        if kept.pointee.isOrphan { kept.free() }
        unlock()
        return true
    }

    private func sendParts(_ header: WireHeader, _ token: UInt64, _ kept: KeptMemoryPointer, _ data: DataPointer) {
        let bytes = UnsafeRawPointer(data.bytes)
        let length = data.pointee.length
        var done = 0
        var number = 0
        var patience = PartsPatience(length)
        while done < length {
            guard var part = kept.fill(number, bytes + done, length - done, &patience) else { break }
            lock()
            var error = ECONNRESET
            if isValid, let place = placeLocked(token: token) { error = sendNotedLocked(place, &part) }
            unlock()
            if error != 0 {
                kept.takeBack(part)
                // The other end is gone, or the kernel passes no descriptor for now.
                if error != EAGAIN { return giveUp(header, token) }
                break
            }
            done += Int(part.header.length)
            number += 1
        }
        guard done < length else { return }
        guard var rest = OutgoingMessage.rest(bytes + done, length - done) else { return giveUp(header, token) }
        rest.request = header.id
        lock()
        if isValid, let place = placeLocked(token: token) {
            replyLocked(place, rest, data)
        } else {
            rest.finish()
        }
        unlock()
    }

    /// The rest of a reply cannot be sent: the other end must not wait for it.
    @inline(never)
    private func giveUp(_ header: WireHeader, _ token: UInt64) {
        lock()
        if isValid, let place = placeLocked(token: token) { replyLocked(place, OutgoingMessage(WireHeader.failed(header.id), bytes: nil), nil) }
        unlock()
    }

    private func keepLocked(_ place: Int, _ message: OutgoingMessage, _ data: DataPointer?) {
        var message = message
        // A connection whose time begins anew is not ended by the look for a number.
        pointee.local.connections![place].waitTime = 0
        if message.isSealed && !hasNumberLocked() {
            message.finish()
            message.header = WireHeader.failed(message.request)
        }
        // What is in a file needs the data no more.
        let data = message.bytes == nil ? nil : data
        data?.retain()
        let reply = makeArray(WaitingReply.self, count: 1)
        reply.initialize(to: WaitingReply(message: message, data: data))
        if let first = pointee.local.connections![place].replies {
            var last = first
            while let next = last.pointee.next { last = next }
            last.pointee.next = reply
        } else {
            pointee.local.connections![place].replies = reply
            watchLocked(place, EPOLLOUT.rawValue)
        }
        noteWaitLocked(place)
    }

    @discardableResult
    func watchLocked(_ place: Int, _ events: UInt32) -> Bool {
        rl_epoll_ctl(pointee.local.epoll, EPOLL_CTL_MOD, pointee.local.connections![place].descriptor, events, tokenLocked(place)) == 0
    }

    /// Sends replies that are kept, as far as there is room.
    func flushLocked(_ place: Int) {
        while let reply = pointee.local.connections![place].replies {
            let error = sendLocked(place, &reply.pointee.message)
            if error == EAGAIN { return noteWaitLocked(place) }
            dropReplyLocked(place)
            if sendFailedLocked(place, error) { return }
            // As many bytes may be queued as before.
            pointee.local.connections![place].waitTime = 0
        }
        noteWaitLocked(place)
        watchLocked(place, EPOLLIN.rawValue)
    }

    @inline(never)
    private func dropReplyLocked(_ place: Int) {
        guard let reply = pointee.local.connections![place].replies else { return }
        pointee.local.connections![place].replies = reply.pointee.next
        reply.pointee.message.finish()
        reply.pointee.data?.release()
        CRunLoopLinux.free(reply)
    }

    func forgetRepliesLocked(_ place: Int) {
        pointee.local.connections![place].unread.removeAll()
        while pointee.local.connections![place].replies != nil { dropReplyLocked(place) }
        if pointee.local.connections![place].waitingMemory != 0 { noteWaitLocked(place) }
    }
}

extension WireHeader {
    /// The header of an answer to a request that says that there is no reply.
    static func failed(_ id: UInt32) -> WireHeader {
        WireHeader(kind: .reply, flags: 0, id: id, number: WireHeader.failed, length: 0, descriptors: 0)
    }
}
