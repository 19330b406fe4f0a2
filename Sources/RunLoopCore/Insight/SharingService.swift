// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A socket at which a process answers requests about its loops, and the thread that does it. The thread owns the record and frees it
/// when it ends; no other thread waits for that.
///
/// Descriptor numbers are written under the lock of `Sharing`, so that the child of `fork` knows which to close. Only the thread uses
/// the other fields. The socket's cookie shows whether the program has closed a number, which it may use itself by now.
struct SharingService: ~Copyable, Listed {
    /// The name and the listener. Written before the thread begins and at its end.
    var claim: MessagePortClaim
    /// The listener's.
    var cookie: UInt64
    /// `SharingService.room` of them.
    var peers: UnsafeMutablePointer<SharingPeer>
    /// When connections are accepted again, after no descriptor was available for one.
    var acceptsAt: Int64
    /// Which thread it is; 0 before that begins. A `release` that it calls may fork (S-OUT-4).
    var thread: UInt
    var next: SharingServicePointer?
    var previous: SharingServicePointer?

    /// S-OUT-5
    static var room: Int { 8 }
    /// Connections that wait to be accepted.
    static var backlog: Int32 { 16 }
    static var patience: Int64 { 5_000_000_000 }
    fileprivate static var partSize: Int { 32768 }
    static var longestWait: Int64 { 30_000_000_000 }
    fileprivate static var longestRest: Int64 { 1_000_000_000 }
}

typealias SharingServicePointer = UnsafeMutablePointer<SharingService>

/// A connection. The zero value is none.
struct SharingPeer {
    /// The number, plus one.
    private var number: Int32 = 0
    fileprivate var cookie: UInt64 = 0
    /// When it last sent a request, or took part of an answer.
    fileprivate var activeAt: Int64 = 0
    /// Whether call-outs are measured for it.
    fileprivate var measures = false
    /// The connection's part in the trace in memory.
    fileprivate var trace = SharingTrace.none
    /// The answer that is being sent, from malloc or, if `trace` says so, mapped; nil if there is none; and how much of it was sent.
    fileprivate var answer: UnsafeMutablePointer<CChar>?
    fileprivate var count = 0
    fileprivate var sent = 0

    fileprivate var descriptor: Int32 {
        get { number - 1 }
        set { number = newValue + 1 }
    }

    fileprivate mutating func freeAnswer() {
        if trace == .sent {
            rl_trace_free(answer, count)
            trace = .none
        } else {
            CRunLoopLinux.free(answer)
        }
        answer = nil
    }
}

/// A connection's part in the trace for other processes (S-OUT-11).
enum SharingTrace: UInt8 {
    case none
    /// It is on.
    case recorded
    /// It is the answer that is being sent.
    case sent
}

typealias SharingPeerPointer = UnsafeMutablePointer<SharingPeer>

extension UnsafeMutablePointer where Pointee == SharingService {
    static func make() -> SharingServicePointer {
        let service = makeRecord(SharingService.self)
        service.pointee.claim = MessagePortClaim()
        service.pointee.peers = makeArray(SharingPeer.self, count: SharingService.room)
        return service
    }

    func free() {
        CRunLoopLinux.free(pointee.peers)
        CRunLoopLinux.free(self)
    }

    func start() -> Bool { rl_start_thread({ $0!.assumingMemoryBound(to: SharingService.self).run() }, self) }

    /// Whether the listener's number still belongs to the listener.
    var hasListener: Bool { rl_is_socket(pointee.claim.listener, pointee.cookie) }

    /// Whether the service is wanted and has its listener. If the program closed that, the next wait of a loop makes another
    /// service (S-OUT-8).
    @inline(never)
    private func goesOn() -> Bool {
        let isLost = !hasListener
        Sharing.shared.pointee.lock.lockWord()
        let isCurrent = Sharing.shared.pointee.current == self
        if isCurrent && isLost { Sharing.shared.pointee.current = nil }
        Sharing.shared.pointee.lock.unlockWord()
        if isCurrent && isLost { Losses.note() }
        return isCurrent && !isLost
    }

    /// The thread's function. Signals are blocked in it.
    private func run() {
        rl_set_thread_name("RunLoop.shared")
        pointee.thread = RLThisThread_()
        while goesOn() {
            let worked = turn()
            // S-OUT-4
            var rest = timespec(nanoseconds: Swift.min(9 * worked, SharingService.longestRest))
            if worked > 0 { rl_sys_nanosleep(&rest) }
        }
        for index in 0..<SharingService.room { drop(pointee.peers + index) }
        Sharing.shared.pointee.lock.lockWord()
        Sharing.shared.pointee.services.remove(self)
        forgetStrangers()
        pointee.claim.release()
        Sharing.shared.pointee.lock.unlockWord()
        free()
    }

    /// Waits, and does what there is to do. Returns how long that took.
    private func turn() -> Int64 {
        withUnsafeTemporaryAllocation(of: pollfd.self, capacity: SharingService.room + 1) { entries in
            // A poll does not notice that a number now belongs to another file.
            var until = Clock.now() + SharingService.longestWait
            let waitsForRoom = pointee.acceptsAt != 0
            if waitsForRoom { until = Swift.min(until, pointee.acceptsAt) }
            entries[0] = pollfd(fd: pointee.claim.listener, events: waitsForRoom ? 0 : Int16(POLLIN), revents: 0)
            // No more than there are: poll takes at most as many as the process may have descriptors.
            var used = 1
            for index in 0..<SharingService.room where pointee.peers[index].descriptor >= 0 {
                let peer = pointee.peers + index
                let isSending = peer.pointee.answer != nil
                if isSending { until = Swift.min(until, peer.pointee.activeAt + SharingService.patience) }
                entries[used] = pollfd(fd: peer.pointee.descriptor, events: Int16(isSending ? POLLOUT : POLLIN), revents: 0)
                used += 1
            }
            let pause = Swift.max((until - Clock.now()) / 1_000_000 + 1, 0)
            var count = rl_sys_poll(entries.baseAddress!, nfds_t(used), Int32(pause))
            let isRefused = count < 0
            if isRefused {
                // For instance if the process may have fewer descriptors than these entries: each by itself, ten times a second.
                count = 0
                for index in 0..<used where rl_sys_poll(entries.baseAddress! + index, 1, 0) > 0 { count += 1 }
            }
            let begin = Clock.now()
            // Otherwise the poll was of the file that had the number before.
            guard goesOn() else { return 0 }
            if waitsForRoom && begin >= pointee.acceptsAt { pointee.acceptsAt = 0 }
            used = 1
            for index in 0..<SharingService.room where pointee.peers[index].descriptor >= 0 {
                let peer = pointee.peers + index
                used += 1
                if entries[used - 1].revents != 0 {
                    serve(peer, begin)
                } else if peer.pointee.answer != nil && begin - peer.pointee.activeAt > SharingService.patience {
                    drop(peer)
                }
            }
            // Last, so that no connection is closed for a new one before its request was looked at.
            if entries[0].revents != 0 { accept(begin) }
            return Swift.max(Clock.now() - begin, isRefused && count == 0 ? Clock.retryDelay / 9 : 1)
        }
    }

    /// The listener has a connection.
    @inline(never)
    private func accept(_ now: Int64) {
        var quietest = pointee.peers
        for index in 1..<SharingService.room where pointee.peers[index].activeAt < quietest.pointee.activeAt {
            quietest = pointee.peers + index
        }
        var new = SharingPeer()
        Sharing.shared.pointee.lock.lockWord()
        new.descriptor = rl_high_number(rl_message_accept(pointee.claim.listener))
        let error = rl_errno()
        new.cookie = rl_socket_cookie(new.descriptor)
        // A connection that has sent no request counts as idle.
        new.activeAt = Swift.max(now - 2 * SharingService.patience, 1)
        var user: uid_t = 0
        var other: pid_t = 0
        let isWelcome = new.descriptor >= 0 && rl_is_own_peer(new.descriptor, &user, &other)
        if isWelcome { swap(&quietest.pointee, &new) }
        Sharing.shared.pointee.lock.unlockWord()
        if new.descriptor >= 0 {
            end(new)
        } else if !isWelcome && error != EAGAIN {
            pointee.acceptsAt = now + Clock.retryDelay
        }
    }

    /// Does not close numbers that may belong to the program by now.
    @inline(never)
    private func forgetStrangers() {
        if hasListener { return }
        pointee.claim.listener = -1
        pointee.claim.lock = -1
    }

    /// The peer sends a request, takes part of its answer, or has closed the connection.
    @inline(never)
    private func serve(_ peer: SharingPeerPointer, _ now: Int64) {
        guard rl_is_socket(peer.pointee.descriptor, peer.pointee.cookie) else { return drop(peer) }
        peer.pointee.activeAt = now
        if peer.pointee.answer == nil {
            guard let request = receive(peer) else { return }
            var mayTrace = true
            for index in 0..<SharingService.room where pointee.peers[index].trace != .none { mayTrace = false }
            switch SharingAnswer.make(request, measures: &peer.pointee.measures, trace: &peer.pointee.trace, mayTrace: mayTrace) {
            case .known(let answer): (peer.pointee.answer, peer.pointee.count) = (answer.bytes, answer.count)
            case .trace(let bytes, let count): (peer.pointee.answer, peer.pointee.count) = (bytes.assumingMemoryBound(to: CChar.self), count)
            case .none: return drop(peer)
            }
            peer.pointee.sent = 0
        }
        send(peer)
    }

    /// Reads a request; nil: there is none, or the connection is over.
    @inline(never)
    private func receive(_ peer: SharingPeerPointer) -> SharingRequest? {
        var request = SharingRequest()
        let length = withUnsafeTemporaryAllocation(of: Int32.self, capacity: Int(RL_MAX_DESCRIPTORS)) { descriptors in
            let datagram = rl_message_take(
                peer.pointee.descriptor, &request.bytes, MemoryLayout.size(ofValue: request.bytes) - 1, descriptors.baseAddress!)
            rl_drop_all(descriptors.baseAddress, datagram.descriptors)
            return datagram.is_cut || datagram.descriptors > 0 ? 0 : datagram.length
        }
        if length < 0 && rl_errno() == EAGAIN { return nil }
        // What has a NUL in it is longer than the request that it looks like.
        let isText = withUnsafeBytes(of: &request.bytes) { strlen($0.baseAddress!.assumingMemoryBound(to: CChar.self)) == length }
        if length <= 0 || !isText {
            drop(peer)
            return nil
        }
        return request
    }

    /// Sends as much of the answer as the peer takes now.
    @inline(never)
    private func send(_ peer: SharingPeerPointer) {
        guard let answer = peer.pointee.answer else { return }
        while true {
            let rest = peer.pointee.count - peer.pointee.sent
            let count = Swift.min(rest, SharingService.partSize)
            var mark: UInt8 = count == rest ? 0x2e : 0x2b
            switch rl_message_send(peer.pointee.descriptor, &mark, 1, answer + peer.pointee.sent, count, nil, 0) {
            case 0:
                peer.pointee.sent += count
                if count < rest { continue }
                peer.pointee.freeAnswer()
                return
            case EAGAIN: return
            default: return drop(peer)
            }
        }
    }

    @inline(never)
    private func drop(_ peer: SharingPeerPointer) {
        if peer.pointee.descriptor < 0 { return }
        var old = SharingPeer()
        Sharing.shared.pointee.lock.lockWord()
        swap(&peer.pointee, &old)
        Sharing.shared.pointee.lock.unlockWord()
        end(old)
    }

    /// Ends a connection that is no longer in the table.
    @inline(never)
    private func end(_ peer: SharingPeer) {
        if rl_is_socket(peer.descriptor, peer.cookie) { rl_close_connection(peer.descriptor) }
        var peer = peer
        peer.freeAnswer()
        if peer.trace == .recorded { Trace.stop(isLent: true) }
        guard peer.measures else { return }
        for index in 0..<SharingService.room where pointee.peers[index].measures { return }
        RunLoop.forEachAlive {
            $0.setAccounting(false, for: AccountingAsker.peer)
            return true
        }
    }

    /// In the child of `fork`: closes the descriptors; the rest may be inconsistent. False if the thread is the one that forked, which frees the
    /// record itself.
    func loseInChild() -> Bool {
        for index in 0..<SharingService.room {
            let peer = pointee.peers + index
            if peer.pointee.descriptor >= 0 && rl_is_socket(peer.pointee.descriptor, peer.pointee.cookie) {
                rl_sys_close(peer.pointee.descriptor)
            }
            peer.pointee.descriptor = -1
        }
        forgetStrangers()
        pointee.claim.forget()
        if pointee.thread == RLThisThread_() { return false }
        free()
        return true
    }
}
