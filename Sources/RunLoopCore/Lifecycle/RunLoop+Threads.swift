// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A `cancel` at the end of the thread, and whether the source has left the loop before it. There is a reference to the source.
private struct LeavingCall: CallRecord {
    let source: SourcePointer
    let hasLeft: Bool

    static var kind: CallKind { .leaving }
}

/// What happens to a loop when its thread ends.
extension RunLoop {
    /// The destructor of the thread's key. Its first run only requests another one, so that the loop outlives the destructors
    /// of other libraries, which may still use it (S-LOOP-11); the second tears it down. A loop that such a destructor makes
    /// after that is torn down at its own first run: there may be no other. So is the main loop: `dispatch_main` ends the main thread
    /// by a destructor that never returns, and the callers that wait for the loop would never return.
    static func threadEnds(_ value: UnsafeMutableRawPointer) {
        // A thread that returned from its function can be cancelled even now, which would leave the rest undone. A thread that calls
        // pthread_exit in a callback enters here again.
        let state = rl_disable_cancellation()
        pthread_setspecific(process.pointee.threadKey, value)
        let forks = process.pointee.forkGeneration.load(ordering: .relaxed)
        var isOver = loopEnds()
        // A client's function may have forked: then this may be the end of the child's main thread, without a loop.
        if isOver && forks != process.pointee.forkGeneration.load(ordering: .relaxed) { isOver = loopEnds() }
        // What was dropped with the loop may have made another one, which is torn down in the next round.
        if isOver && ofThread == nil { pthread_setspecific(process.pointee.threadKey, nil) }
        rl_restore_cancellation(state)
    }

    /// False if the destructor is to be called again.
    private static func loopEnds() -> Bool {
        guard let loop = ThreadPointer.loopToEnd else {
            // The main thread's key is set at load, so that this is called even if only other threads used its loop.
            guard isMainThread else { return true }
            process.pointee.registryLock.lockWord()
            registry.pointee.mainThreadHasEnded = true
            let main = registry.pointee.mainLoop.load(ordering: .relaxed)
            process.pointee.registryLock.unlockWord()
            if let main, main.pointee.threadAlive.load(ordering: .acquiring) {
                rl_thread_loop_set(main)
                main.threadEnded()
            }
            return true
        }
        loop.pointee.destructorRuns += 1
        let isMain = loop == registry.pointee.mainLoop.load(ordering: .relaxed)
        if loop.pointee.destructorRuns == 1 && !loop.pointee.isSuccessor && !isMain {
            // Those destructors may run the loop, and the frames that a callback left with `pthread_exit` no longer exist.
            loop.abandonCallbacks(atEnd: false)
            return false
        }
        loop.threadEnded()
        return true
    }
}

extension RunLoop {
    /// Called while the end of a thread unwinds its stack, when a callback's frame is gone and the library's frames follow. What these
    /// left undone is done at the end; until then cleanup handlers of the thread may call the library (S-LOOP-22).
    static func leaveCallback() {
        guard let loop = ofThread else { return }
        loop.pointee.refusesRuns.store(true, ordering: .relaxed)
        loop.abandonWatch()
        loop.abandonRuns(atEnd: false)
        // What the thread waits for may lie in frames that it leaves next, or be freed by their cleanup handlers.
        loop.pointee.calls.contains(ModeWait.self) {
            $0.pointee.waiter.giveUp()
            return false
        }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The thread has ended: sources leave with `cancel` (S-LOOP-7), nothing more can be posted, and the thread's reference
    /// is released. Timers, observers and posts stay until the loop is freed (S-LOOP-9, S-LOOP-10).
    fileprivate func threadEnded() {
        abandonCallbacks(atEnd: true)
        ThreadPointer.current?.finish()
        ThreadValuesPointer.current?.destroy()
        endForeignRuns()
        closeQueues()
        // A `cancel` may add a source to a mode that was already emptied, or to a new one. If one always does so, there is an end (S-LOOP-7).
        while pointee.sweeps < 2000, removeSources(calls: pointee.sweeps < 1000) {}
        // Those that a `cancel` has made.
        endForeignRuns()
        pointee.lock.lockByLeavingOwner()
        // While the thread still counts as alive: the child of a fork during this loop closes the remaining sets.
        forEachModeRecord { $0.pointee.ports.closeKernelSet() }
        pointee.threadAlive.store(false, ordering: .releasing)
        pointee.thread.store(0, ordering: .relaxed)
        unlock()
        leaveClock()
        leaveRing()
        // What is dropped with the loop is client code, which finds none: this one is no loop to keep any more.
        rl_thread_loop_set(nil)
        release()
    }

    /// Completes what callbacks that ended the thread left undone, the innermost first. Loop's thread, which no longer runs the loop.
    fileprivate func abandonCallbacks(atEnd: Bool) {
        abandonWatch()
        pointee.refusesRuns.store(false, ordering: .relaxed)
        abandonRuns(atEnd: atEnd)
        pointee.postFloor = PostFloor()
        // The last pass of a thread that is ended may have been it (`ThreadPointer.drain`).
        if pointee.defaultMode.pointee.passLimit.load(ordering: .relaxed) < 0 { pointee.defaultMode.pointee.passLimit.store(0, ordering: .relaxed) }
        while let kind = pointee.calls.innermost { abandonCall(kind) }
        ThreadPointer.current?.endLife()
        // Until now the rounds needed their chunks.
        pointee.posts.roundEnd = nil
        followOthers()
    }

    /// Removes the innermost record, then does what it still owes: client code that is called for that may call the loop.
    private func abandonCall(_ kind: CallKind) {
        switch kind {
        case .timer:
            lock()
            finishFiringLocked(popShared(TimerCall.self).timer)
            unlock()
        case .source:
            lock()
            let source = pointee.calls.last(SourceCall.self).source
            unlock()
            if let abandoned = source.functions.abandoned { abandoned(source.pointee.info) }
            lock()
            let record = popShared(SourceCall.self)
            unlock()
            if record.hasReference { source.release() }
        case .sourceBatch:
            guard let member = pointee.calls.popMember() else { return }
            if member.isCalled, let abandoned = member.source.functions.abandoned { abandoned(member.source.pointee.info) }
            member.source.release()
        case .watch:
            let source = pointee.calls.popLast(WatchCall.self).source
            if let abandoned = source.functions.abandoned { abandoned(source.pointee.info) }
            source.release()
        case .notification: abandon(pointee.calls.popLast(Notification.self))
        case .postRound: abandon(pointee.calls.popLast(PostRound.self))
        case .request: RequestWait.tell(pointee.calls.popLast(RequestCall.self).wait, RequestWait.performed)
        case .mainQueue: _ = pointee.calls.popLast(MainQueueCall.self)
        case .socketReport: pointee.calls.popLast(SocketReport.self).finish()
        case .machDelivery: pointee.calls.popLast(MachDelivery.self).finish(on: self)
        case .message: pointee.calls.popLast(MessageCall.self).frame.finish(nil, isFailure: true)
        case .replyWait:
            let waiter = pointee.calls.popLast(ReplyWait.self).waiter
            waiter.pointee.port.abandon(waiter)
        case .modeWait: pointee.calls.popLast(ModeWait.self).waiter.abandon()
        case .leaving:
            let call = pointee.calls.popLast(LeavingCall.self)
            if let abandoned = call.source.functions.abandoned { abandoned(call.source.pointee.info) }
            finish(call)
        case .bracket: pointee.calls.popLast(Bracket.self).close()
        }
    }

    /// The lock is held.
    private func popShared<Record: CallRecord>(_ type: Record.Type) -> Record {
        let record = pointee.calls.popLast(type)
        pointee.calls.findShared()
        return record
    }

    /// Removes all sources that it finds, and calls their `cancel`. False if there were none. If a `cancel` ends the thread, the next call goes on
    /// behind its source: each has its turn before one that always comes back has a further one.
    private func removeSources(calls: Bool) -> Bool {
        if pointee.sweep.mode == nil { pointee.sweep = Sweep(mode: pointee.modes.load(ordering: .acquiring)) }
        while let mode = pointee.sweep.mode {
            lock()
            // Once over the table that there is now: a `cancel` may put its source back, or make another.
            if pointee.sweep.slot == 0 { pointee.sweep.end = mode.pointee.sources.capacity }
            guard pointee.sweep.slot < pointee.sweep.end, let source = mode.pointee.sources.next(from: &pointee.sweep.slot),
                let link = source.link(in: self)
            else {
                unlock()
                pointee.sweep.slot = 0
                pointee.sweep.mode = mode.pointee.next
                continue
            }
            pointee.sweep.hasFound = true
            source.retain()
            let hasLeft = removeLocked(link, from: mode)
            unlock()
            let place = beginCall(LeavingCall(source: source, hasLeft: hasLeft))
            if calls, let cancel = source.functions.cancel { callOutCancel(cancel, source.pointee.info, handle, mode.pointee.name) }
            finish(endCall(place))
        }
        pointee.sweeps += 1
        let hasFound = pointee.sweep.hasFound
        return removeCommonSources() || hasFound
    }

    private func finish(_ call: LeavingCall) {
        if call.hasLeft { finishLeaving(call.source) }
        call.source.release()
    }

    /// Removes the sources that are common items and no longer in a mode.
    private func removeCommonSources() -> Bool {
        var found = false
        var hint = 0
        var left = Int.max
        while true {
            lock()
            // As many as it has now: the release of one may add another.
            left = Swift.min(left, pointee.commonSources.count)
            guard left > 0, let source = pointee.commonSources.any(from: &hint), let link = source.link(in: self) else {
                unlock()
                return found
            }
            left -= 1
            found = true
            pointee.commonSources.remove(source)
            link.pointee.isCommon = false
            let left = leaveLocked(link)
            unlock()
            if left { finishLeaving(source) }
        }
    }

    /// The last reference was released: the thread has ended, and no source is in the loop.
    func destroy() {
        pointee.closing.store(true, ordering: .sequentiallyConsistent)
        pointee.freeingThread = RLThisThread_()
        pointee.refusesRuns.store(true, ordering: .relaxed)
        pointee.posts.close()
        discardPosts()
        forEachModeRecord { mode in
            for index in 0..<Activity.count {
                while true {
                    lock()
                    guard let list = mode.pointee.observers[Activity.at(index)], list.pointee.count > 0 else {
                        unlock()
                        break
                    }
                    list.pointee.readers = 0  // Not 0 if a callback ended the thread.
                    let observer = list.members[list.pointee.count - 1]!
                    observer.retain()
                    let references = removeLocked(observer, from: mode)
                    unlock()
                    for _ in 0...references { observer.release() }
                }
            }
            while true {
                lock()
                guard let timer = mode.pointee.timers.anyNode()?.timer else {
                    unlock()
                    break
                }
                // A callback's pthread_exit cut the batch short: none of its timers fires any more.
                if let node = timer.node(in: mode), node.pointee.isInBatch {
                    mode.pointee.timers.remove(node)
                    if node.pointee.isTombstone {
                        node.pointee.isTombstone = false
                        timer.addTombstones(-1)
                        timer.pointee.modeCount += 1
                        mode.pointee.timerCount += 1
                    }
                }
                let isLast = removeLocked(timer, from: mode)
                unlock()
                if isLast { Timer.destroy(timer) }
            }
            // Release functions of later modes may describe the loop.
            lock()
            let lists = mode.pointee.observers
            mode.pointee.observers = ObserverLists()
            unlock()
            lists.free()
        }
        destroyCommonItems()
        recycle()
    }

    private func destroyCommonItems() {
        while true {
            lock()
            guard let timer = pointee.commonTimers.last else {
                unlock()
                break
            }
            pointee.commonTimers.remove(timer)
            timer.pointee.isCommon = false
            let isLast = timer.isAbandoned
            unlock()
            if isLast { Timer.destroy(timer) }
        }
        while true {
            lock()
            guard let observer = pointee.commonObservers.last else {
                unlock()
                break
            }
            pointee.commonObservers.remove(observer)
            observer.pointee.isCommon = false
            if observer.pointee.memberships.isEmpty { observer.pointee.loop.store(nil, ordering: .releasing) }
            unlock()
            observer.release()
        }
    }
}
