// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A timer whose callback runs. Its state says so too, which keeps it.
struct TimerCall: CallRecord {
    let timer: TimerPointer

    static var kind: CallKind { .timer }
}

/// Firing.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Fires what is due in the mode: the timer event of P13. Every timer of the batch is checked again just before its turn.
    func fireTimers(in mode: ModePointer, now: Int64) {
        lock(owner: true)
        pointee.timerBatch &+= 1
        let batch = pointee.timerBatch
        mode.pointee.timers.collectDue(now, batch: batch)
        while let node = mode.pointee.timers.nextDue(inBatch: batch) {
            let timer = node.timer
            if let next = node.pointee.links.next { next.prefetch() }
            var isOut = false
            if node.pointee.isTombstone {
                node.pointee.isTombstone = false
                timer.addTombstones(-1)
                mode.pointee.timers.remove(node)
                timer.freeNode(node)
                if timer.pointee.modeCount == 0 || !timer.isValid || timer.isFiring || timer.pointee.instant > dueLimit(time) {
                    guard timer.isAbandoned else { continue }
                    unlock(owner: true)
                    release(timer)
                    lock(owner: true)
                    continue
                }
            } else {
                mode.pointee.timers.removeMember(node)
                isOut = timer.pointee.isInOneMode
            }
            fireLocked(timer, isOut: isOut)
        }
        pointee.timerBatch &-= 1
        unlock(owner: true)
    }

    /// Calls one timer and sets its next date; `isOut`: it is in no store. The lock is held at the call and at the return, not in
    /// between.
    @inline(always)
    private func fireLocked(_ timer: TimerPointer, isOut: Bool) {
        // A tombstone stays in its batch until its own turn: a timer that has left a mode is not in that mode's store.
        if !isOut { timer.forEachNode { node in if !node.pointee.isTombstone { node.pointee.mode!.pointee.timers.remove(node) } } }
        let old = timer.pointee.state.load(ordering: .relaxed)
        if old & (TimerState.invalid | TimerState.followsClock) != 0 && passesOverLocked(timer) { return }
        timer.pointee.state.store(old | TimerState.firing | TimerState.usingInfo, ordering: .releasing)
        let instant = timer.pointee.instant
        _ = callLocked(TimerCall(timer: timer)) {
            pointee.counters.timers.count()
            timed(timer.header, due: instant) { timer.callOut(on: self) }
        }
        finishFiringLocked(timer)
    }

    /// In its turn, and in no store: it is invalid, or its own clock does not show its time yet (S-TMR-59).
    @inline(never)
    private func passesOverLocked(_ timer: TimerPointer) -> Bool {
        if !timer.isValid {
            finishFiringLocked(timer)
            return true
        }
        if timer.follow(self) { return false }
        timer.putBack(from: timer.pointee.instant)
        return true
    }

    /// After the callback: the next date, and back into the stores of its modes; a one-shot without a context's functions leaves
    /// them, one with them has left already. The lock is held at the call and at the return.
    func finishFiringLocked(_ timer: TimerPointer) {
        // It may have moved to another loop during its callback.
        var owner: RunLoopPointer? = self
        if !timer.isGuardedNow(by: self) {
            unlock(owner: true)
            timer.forgetLoopIfVanished(isFiring: true)
            owner = timer.lockTimer()
        }
        let old = timer.pointee.state.load(ordering: .relaxed)
        if old & TimerState.releasePending != 0 {
            timer.unlockTimer(owner)
            endUseOfInfo(of: timer)
            lock(owner: true)
            return finishFiringLocked(timer)
        }
        var desired = old & ~TimerState.callback
        if old & (TimerState.repeats | TimerState.reusable) == 0 { desired |= TimerState.invalid }
        timer.pointee.state.store(desired, ordering: .releasing)
        var wasInserted = false
        if desired & TimerState.invalid == 0 {
            if old & (TimerState.dateSet | TimerState.followsClock) == 0 {
                if old & TimerState.repeats != 0 {
                    pointee.counters.countSkippedDates(timer.advance(past: time))
                } else {
                    timer.disarm()
                }
            } else if old & TimerState.followsClock != 0 {
                pointee.counters.countSkippedDates(timer.goOnByOwnClock(owner, old))
            }
            // Its date may be by another clock: it came from another loop, or was set while the timer was in none.
            if let owner, owner != self || old & TimerState.dateSet != 0, timer.isInLoop { timer.giveClock(of: owner) }
            timer.forEachNode { node in
                if !node.pointee.isIn(.nowhere) { return }
                node.pointee.mode!.pointee.timers.insert(node)
                wasInserted = true
            }
        } else {
            timer.leaveLocked(owner)
        }
        // A one-shot with functions is valid here only if its callback ended the thread.
        let releasesInfo =
            (old & TimerState.invalid == 0 && desired & TimerState.invalid != 0 && timer.details.pointee.callbacks != nil)
        let isLast = timer.isAbandoned
        if owner == self && !isLast && !releasesInfo { return }
        let context = releasesInfo ? timer.context : ClientContext()
        timer.unlockTimer(owner)
        // That loop found nothing to wait for when the Add made it look.
        if wasInserted, let owner { owner.lookAgainIfForeign() }
        if isLast && timer.details.pointee.callbacks == nil {
            Timer.destroy(timer)
        } else {
            release(timer, context, isLast: isLast)
        }
        lock(owner: true)
    }

    /// Its callback ended the thread, and another thread's Invalidate had left the release to it. As long as the timer counts as firing its memory
    /// is no other timer's, by whose address the release would be taken.
    @inline(never)
    private func endUseOfInfo(of timer: TimerPointer) {
        let waiter = beginLasting()
        timer.endUseOfInfo()
        waiter?.endCallback()
    }

    /// What is left to be released after the callback. The client's `release` may take long. `isLast`: nobody uses the timer any more.
    @inline(never)
    private func release(_ timer: TimerPointer, _ context: ClientContext = ClientContext(), isLast: Bool = true) {
        let waiter = beginLasting()
        timer.finish(releasing: context, isLast: isLast)
        waiter?.endCallback()
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// The callback within its bracket of `retain` and `release` (S-TMR-44). `usingInfo` is set.
    @inline(always)
    fileprivate func callOut(on loop: RunLoopPointer) {
        guard details.pointee.callbacks != nil else {
            if let callout = details.pointee.callout { callOutTimer(callout, handle, details.pointee.info) }
            return
        }
        callOutInBracket(on: loop)
    }

    @inline(never)
    private func callOutInBracket(on loop: RunLoopPointer) {
        // `endUse: endUseOfInfo` would make a closure in memory from malloc.
        loop.callInBracket(context) {
            endUseOfInfo()
        } _: { info in
            if let callout = details.pointee.callout { callOutTimer(callout, handle, info) }
            // S-TMR-28, S-TMR-44: the one-shot's context is released before the bracket's reference.
            if !firesAgain { invalidate() }
        }
    }

    /// The loop's thread is done with the context's info; an Invalidate that came meanwhile left the release to this thread.
    func endUseOfInfo() {
        let owner = lockTimer()
        let old = pointee.state.load(ordering: .relaxed)
        pointee.state.store(old & ~(TimerState.usingInfo | TimerState.releasePending), ordering: .releasing)
        unlockTimer(owner)
        if old & TimerState.releasePending != 0 { ContextUses.settle(.releaseAfterCallback, header) }
    }
}
