// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

// What a ready socket reports to the client.

extension UnsafeMutablePointer where Pointee == Socket {
    /// Calls the client for what is ready and enabled: Connect, then the read kind, then Write (S-SOCK-22). Loop's thread.
    func report(_ ready: Readiness) -> Bool {
        let state = pointee.state.load(ordering: .relaxed)
        if state & (SocketState.flushes | SocketState.ends) != 0 && !serveWriter(ready, state) { return false }
        guard let claim = claim(ready), let loop = RunLoop.ofThread else {
            return false
        }
        let source = loop.servedWatch.unsafelyUnwrapped
        let place = loop.beginCall(SocketReport(socket: self, source: source, claim: claim))
        // The bracket of S-SOCK-14. Without it the context's own reference serves, and an Invalidate elsewhere waits for it.
        let isHandled = loop.callInBracket(context) {
            loop.pointee.calls[place].pointee.usesInfo = false
            endUse()
        } _: { info in
            report(claim, source, info, place, on: loop)
        }
        loop.endCall(place).finish()
        return isHandled
    }

    private func report(
        _ claim: SocketReport.Claim, _ source: SourcePointer, _ info: UnsafeMutableRawPointer?, _ place: CallPlace<SocketReport>,
        on loop: RunLoopPointer
    ) -> Bool {
        var isHandled = false
        var writes = claim.writes
        if claim.connects {
            // From now on writable means just that.
            source.watchFlags.pointee.bitwiseAnd(~WatchFlags.connects, ordering: .relaxed)
            let failed = reportConnect(info)
            // S-SOCK-32: the failure was reported, no Write follows.
            if failed { writes = false }
            isHandled = true
        }
        let reads = claim.reads && (!claim.connects || loop.pointee.calls[place].pointee.claim.reads)
        if reads && mayReport(SocketState.read) {
            takeFromOuterReports(reads: true, place, on: loop)
            if reportRead(info, place, on: loop) {
                isHandled = true
            } else {
                loop.pointee.calls[place].pointee.claim.tookNothing = true
            }
        }
        // Not of a queue that a callback of this report has made (S-SOCK-59).
        if writes && isHandled { writes = loop.pointee.calls[place].pointee.claim.writes }
        if writes && pointee.state.load(ordering: .relaxed) & SocketState.flushes == 0 && mayReport(SocketState.write) {
            takeFromOuterReports(reads: false, place, on: loop)
            call(SocketType.write, error: pointee.error.load(ordering: .relaxed), info)
            isHandled = true
        }
        return isHandled
    }

    /// A callback that a nested run makes is also the one that the reports around it were to make, since one of theirs has enabled the type (S-SOCK-22).
    private func takeFromOuterReports(reads: Bool, _ place: CallPlace<SocketReport>, on loop: RunLoopPointer) {
        guard loop.pointee.frame?.pointee.outer != nil else { return }
        let own = loop.pointee.calls[place]
        _ = loop.pointee.calls.contains(SocketReport.self) { report in
            if report != own && report.pointee.socket == self {
                if reads { report.pointee.claim.reads = false } else { report.pointee.claim.writes = false }
            }
            return false
        }
    }

    /// Disables what is to be reported, so that no nested run and no other loop reports it too. nil: nothing.
    private func claim(_ ready: Readiness) -> SocketReport.Claim? {
        var state = pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        var claim: SocketReport.Claim
        let isDecided = ready.contains(.write) && state & SocketState.connected == 0 ? isConnectDecided() : true
        repeat {
            if state & (SocketState.invalid | SocketState.ends) != 0 { return nil }
            claim = SocketReport.Claim()
            desired = state
            if ready.contains(.write) && isDecided {
                if state & (SocketState.connect | SocketState.connected) == SocketState.connect {
                    claim.connects = true
                    desired = desired & ~SocketState.connect | SocketState.connected
                }
                if state & (SocketState.write | SocketState.flushes) == SocketState.write {
                    claim.writes = true
                    desired = desired & ~SocketState.write | SocketState.writeAgain
                }
            }
            if ready.contains(.read) && state & SocketState.read != 0 {
                claim.reads = true
                desired = desired & ~SocketState.read | SocketState.readAgain
            }
            if desired == state { return nil }
            if state & SocketState.uses == SocketState.uses { Watch.trapForCalls("RLSocket") }
            desired = SocketState.aligned(desired) &+ SocketState.use
        } while !pointee.state.replace(&state, by: desired)
        return claim
    }

    /// Enables what the flags say, and the reading kind if its callback was not made, unless a callback disabled it (S-SOCK-33, 34).
    fileprivate func finish(_ claim: SocketReport.Claim, _ source: SourcePointer) {
        change(tellingSource: source) { finished($0, claim) }
    }

    func finished(_ state: UInt32, _ claim: SocketReport.Claim) -> UInt32 {
        let flags = pointee.flags.load(ordering: .relaxed)
        var state = state
        if claim.reads {
            let isAutomatic = flags & pointee.types & SocketType.readKinds != 0
            // The report of another loop, which the same enabling has nothing to do with, may have ended meanwhile.
            let isDue = isAutomatic && state & SocketState.readAgain != 0
            if isDue || claim.tookNothing && state & SocketState.denied(SocketState.read) == 0 { state |= SocketState.read }
            state &= ~SocketState.readAgain
        }
        if claim.writes {
            if state & SocketState.writeAgain != 0 && flags & SocketType.write != 0 { state |= SocketState.write }
            state &= ~SocketState.writeAgain
        }
        return state
    }

    fileprivate func endUse() {
        let state = pointee.state.wrappingSubtract(SocketState.use, ordering: .sequentiallyConsistent).newValue
        if state & (SocketState.uses | SocketState.releasePending) == SocketState.releasePending {
            ContextUses.settle(.releaseAfterCallback, header)
        }
    }

    /// As Connect and Write are called: for an error with a pointer to it.
    private func call(_ type: UInt, error: Int32, _ info: UnsafeMutableRawPointer?) {
        withUnsafePointer(to: error) { call(type, nil, error == 0 ? nil : UnsafeRawPointer($0), info) }
    }

    private func call(_ type: UInt, _ address: DataPointer?, _ data: UnsafeRawPointer?, _ info: UnsafeMutableRawPointer?) {
        if let callout = pointee.callout { callOutSocket(callout, handle, type, address?.handle, data, info) }
    }

    /// A socket whose connect has not begun is writable and hung up, which says nothing about a connect (S-SOCK-30).
    private func isConnectDecided() -> Bool {
        // Where poll is refused, the event decides: that of a socket without a connect was passed over.
        pointee.error.load(ordering: .relaxed) != 0 || !rl_socket_is_unconnected(native, false)
    }

    /// True if it failed and that was reported to the client.
    private func reportConnect(_ info: UnsafeMutableRawPointer?) -> Bool {
        var error: Int32 = 0
        // S-SOCK-37: a client that leaves errors reads them itself.
        if pointee.flags.load(ordering: .relaxed) & SocketFlags.leaveErrors == 0 {
            let number = beginUse()
            if number >= 0 { error = rl_socket_error(number) }
            // While the type was disabled a send may have got the error.
            if error == 0 { error = pointee.error.load(ordering: .relaxed) }
            // The thread that connects may have taken it.
            if error == 0 && number >= 0 && rl_socket_is_unconnected(number, true) { error = ECONNABORTED }
            endUse(of: number)
        }
        if error != 0 { loseQueue(error) }
        call(SocketType.connect, error: error, info)
        return error != 0
    }

    private func reportRead(_ info: UnsafeMutableRawPointer?, _ place: CallPlace<SocketReport>, on loop: RunLoopPointer) -> Bool {
        switch readKind {
        case SocketType.accept: return reportAccept(info, place, on: loop)
        case SocketType.data: return reportData(info, place, on: loop)
        default:
            call(SocketType.read, nil, nil, info)
            return true
        }
    }

    private func reportAccept(_ info: UnsafeMutableRawPointer?, _ place: CallPlace<SocketReport>, on loop: RunLoopPointer) -> Bool {
        var storage = SocketAddress()
        let number = beginUse()
        guard number >= 0 else { return false }
        var accepted = rl_accept(number, &storage.bytes, &storage.length)
        let isNothing = accepted < 0 && rl_accepted_nothing()
        if accepted < 0 && rl_errno() == EAGAIN { foundNothing(number) }
        endUse(of: number)
        guard accepted >= 0 else {
            // The connection stays in the queue, and would be reported all the time.
            if isNothing { return false }
            // Before the log, whose handler may end the thread.
            let took = leaveForLater()
            Log.once(.cannotAccept, "RLSocket", ": cannot take a connection for now; trying again")
            return took
        }
        guard pointee.callout != nil else {
            rl_sys_close(accepted)
            return true
        }
        let address = storage.copy()
        loop.pointee.calls[place].pointee.address = address
        call(SocketType.accept, address, &accepted, info)
        loop.pointee.calls[place].pointee.address = nil
        address.release()
        return true
    }

    /// An error that stays, because messages lie in the error queue, makes the socket that is served ready no more: nothing comes of it. The
    /// end of a connection, also by an error, has other signs.
    func ignoreErrors() {
        _ = RunLoop.ofThread?.servedWatch?.watchFlags.pointee.bitwiseOr(WatchFlags.onlyInput, ordering: .relaxed)
    }

    /// There was nothing on a number that was readable, and that may stay so: by its error queue, and, unless it is a connection, by its
    /// receiving half that is shut down. Where poll refuses to say, it is looked at again later.
    private func foundNothing(_ number: Int32) {
        let events = rl_poll_now(number, Int32(RL_EPOLLRDHUP))
        if events < 0 { return RunLoop.deferServedWatch() }
        if events & POLLERR != 0 { ignoreErrors() }
        let isConnection = pointee.isStream && readKind == SocketType.data
        if !isConnection && events & Int32(RL_EPOLLRDHUP) != 0 { disable(SocketType.readKinds) }
    }

    /// What waits cannot be taken for now: it stays queued, and would be met all the time (S-ARG-13). False: nothing was taken.
    func leaveForLater() -> Bool {
        RunLoop.deferServedWatch()
        return false
    }

    /// Receives one chunk or one datagram (S-SOCK-25 to 27).
    private func reportData(_ info: UnsafeMutableRawPointer?, _ place: CallPlace<SocketReport>, on loop: RunLoopPointer) -> Bool {
        let size = pointee.isByteStream ? 32768 : 65535
        var storage = SocketAddress()
        guard var data = DataPointer.makeRoom(size) else { return leaveForLater() }
        let number = beginUse()
        var count = 0
        var error: Int32 = 0
        // A datagram socket tells an error of its peers once: one that is met again lasts.
        var tries = pointee.isStream ? 1 : 2
        repeat {
            if number >= 0 { count = rl_receive(number, pointee.isLocal, data.bytes, size, &storage.bytes, &storage.length) }
            error = rl_errno()
            tries -= 1
        } while count < 0 && error != EAGAIN && error != ENOTSOCK && tries > 0
        if count < 0 && error == EAGAIN { foundNothing(number) }
        var isOver = pointee.isStream && count == 0 && rl_is_at_end(number)
        endUse(of: number)
        if number < 0 {
            data.release()
            return false
        }
        if count < 0 {
            let isNothing = rl_is_for_now(-Int(error)) || (!pointee.isStream && error != ENOTSOCK)
            if isNothing {
                data.release()
                return error != EAGAIN && leaveForLater()
            }
            isOver = error != ENOTSOCK
            count = 0
        }
        data = data.shrunk(to: count)
        let address = (pointee.isStream ? copyPeerAddress() : storage.copy()) ?? DataPointer.make(nil, 0)!
        let report = loop.pointee.calls[place]
        report.pointee.address = address
        report.pointee.data = data
        report.pointee.endsSocket = isOver
        call(SocketType.data, address, UnsafeRawPointer(data), info)
        loop.pointee.calls[place].pointee.takeData().finish()
        return true
    }
}

/// A report in progress, and what has to be done after it.
struct SocketReport: CallRecord {
    let socket: SocketPointer
    /// The source that is served, which keeps the socket.
    let source: SourcePointer
    var claim: Claim
    /// The callbacks get the context's info itself, whose use is counted.
    var usesInfo = true
    /// The end of the stream is reported, which makes the socket invalid (S-SOCK-26).
    var endsSocket = false
    /// Of the callback on the stack.
    var address: DataPointer?
    var data: DataPointer?

    static var kind: CallKind { .socketReport }

    /// The types that one perform reports.
    struct Claim {
        var connects = false
        var reads = false
        var writes = false
        /// Of the reading kind there was nothing to take, or it could not be taken: its callback was not made.
        var tookNothing = false
    }

    /// What has to be done after a callback for reading.
    struct Reading {
        let address: DataPointer?
        let data: DataPointer?
        let ended: SocketPointer?

        func finish() {
            address?.release()
            data?.release()
            ended?.endOfStream()
        }
    }

    /// Takes the data out of the record, which may move while it is finished.
    mutating func takeData() -> Reading {
        let reading = Reading(address: address, data: data, ended: endsSocket ? socket : nil)
        address = nil
        data = nil
        endsSocket = false
        return reading
    }

    /// After the last callback, or one that ended its thread.
    func finish() {
        var report = self
        report.takeData().finish()
        socket.finish(claim, source)
        if usesInfo { socket.endUse() }
    }
}
