// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What ties a timer to its loop, and how it gets out.
extension UnsafeMutablePointer where Pointee == Timer {
    /// The lock of `loop` is held.
    func isCommon(in loop: RunLoopPointer) -> Bool { isGuardedNow(by: loop) && pointee.isCommon }

    /// Whether anything ties it to its loop, which then keeps it. The owner's lock is held.
    var isInLoop: Bool { pointee.memberships != 0 }

    /// Before an Add to another loop than the last: makes a timer that is in no loop any more, or only waiting for its turn in a
    /// batch there, free for it. False if it belongs to its loop (S-TMR-13).
    @inline(always)
    func leaveFormerLoop(for loop: RunLoopPointer) -> Bool {
        let owner = pointee.owner.load(ordering: .acquiring)
        return owner == TimerOwner(loop) || owner == .none || leaveOtherLoop(for: loop)
    }

    @inline(never)
    private func leaveOtherLoop(for loop: RunLoopPointer) -> Bool {
        guard let owner = lockTimer() else {
            unlockTimer(nil)
            return true
        }
        if owner == loop {
            unlockTimer(owner)
            return true
        }
        if pointee.hasTombstones && pointee.modeCount == 0 && !pointee.isCommon { removeAllNodes() }
        let isFree = !isInLoop
        if isFree { pointee.owner.store(.none, ordering: .releasing) }
        owner.unlock()
        return isFree
    }

    /// Takes the timer out of all modes. The lock of its loop is held.
    @inline(never)
    private func removeAllNodes() {
        forEachNode { node in
            let mode = node.pointee.mode!
            mode.pointee.timers.remove(node)
            if !node.pointee.isTombstone { mode.pointee.timerCount -= 1 }
            node.pointee.isTombstone = false
        }
        freeAllNodes()
    }

    /// Takes the timer out of the loop it is in. The owner's lock is held.
    func leaveLocked(_ owner: RunLoopPointer?) {
        guard let owner, isInLoop else { return }
        if pointee.isCommon {
            owner.pointee.commonTimers.remove(self)
            pointee.isCommon = false
        }
        removeAllNodes()
    }

    /// Takes the timer out of its loop altogether. True if nobody needs it any more: the caller destroys it.
    func leaveLoop() -> Bool {
        let owner = lockTimer()
        leaveLocked(owner)
        let isLast = isAbandoned
        unlockTimer(owner)
        return isLast
    }

    /// `RLTimerInvalidate` (S-TMR-42). The context is released here, or, where the loop's thread is using it, by that thread.
    func invalidate() {
        forgetVanishedLoop()
        // All under the lock, which a fork takes: the child finds no timer that is invalid and a member (S-FORK-1).
        let owner = lockTimer()
        let state = pointee.state.load(ordering: .relaxed)
        if state & TimerState.invalid != 0 { return unlockTimer(owner) }
        var desired = state | TimerState.invalid
        if state & TimerState.usingInfo != 0 && !isFiringOnThisThread { desired |= TimerState.releasePending }
        pointee.state.store(desired, ordering: .releasing)
        // The caller has a reference, or is the timer's callback; a release function may drop that reference.
        let context = desired & TimerState.releasePending == 0 ? context : ClientContext()
        leaveLocked(owner)
        let isLast = isAbandoned
        unlockTimer(owner)
        if isLast { Timer.destroy(self) }
        context.releaseInfo()
    }

    /// Whether the caller is inside this timer's callback.
    private var isFiringOnThisThread: Bool {
        RunLoop.ofThread?.pointee.calls.contains(TimerCall.self) { $0.pointee.timer == self } ?? false
    }

    /// `RLTimerSetNextFireDate` (S-TMR-36 to 41); `isDelay`: `RLTimerSetNextFireDelay`.
    func setNextFireDate(_ date: Double, isDelay: Bool = false) {
        forgetVanishedLoop()
        let owner = lockTimer()
        guard isValid else { return unlockTimer(owner) }
        let former = pointee.instant
        if isDelay || owner?.manualClock != nil { setDate(date, isDelay: isDelay, by: owner) } else { setDate(date) }
        if isFiring {
            pointee.state.store(pointee.state.load(ordering: .relaxed) | TimerState.dateSet, ordering: .releasing)
        } else {
            forEachNode { node in
                // A tombstone, whose turn in a batch is still to come, is looked at again before its turn (S-TMR-24).
                if node.pointee.isTombstone { return }
                let mode = node.pointee.mode!
                mode.pointee.timers.remove(node, dueAt: former)
                mode.pointee.timers.insert(node)
            }
        }
        guard let owner, isInLoop, owner.mayBeAsleep else { return unlockTimer(owner) }
        let wakes = owner.isWokenBy(pointee.instant)
        unlockTimer(owner)
        if wakes { owner.wakeUpUnlessPending() }
    }
}

/// In the child of `fork`: a loop that vanished is forgotten.
extension UnsafeMutablePointer where Pointee == Timer {
    @inline(always)
    func forgetVanishedLoop() {
        if RunLoopPointer.anyVanished { forgetLoopIfVanished(isFiring: isFiringOnForkedThread) }
    }

    /// Whether its callback is on the stack of the thread that forked, which may have put it into a loop that vanished.
    private var isFiringOnForkedThread: Bool {
        guard isFiring, let loop = registry.pointee.mainLoop.load(ordering: .relaxed) else { return false }
        loop.lock()
        defer { loop.unlock() }
        return loop.isCalling(TimerCall.self) { $0.pointee.timer == self }
    }

    @inline(never)
    func forgetLoopIfVanished(isFiring: Bool) {
        guard let loop = pointee.owner.load(ordering: .relaxed).loop, loop.isVanished else { return }
        // Several threads of the child may come to this.
        loop.lock()
        defer { loop.unlock() }
        guard isGuardedNow(by: loop) else { return }
        firstNode.initialize(to: TimerNode())
        // The memory of the further ones may be half moved.
        details.pointee.rare?.pointee.moreNodes = WordSet()
        details.pointee.rare?.pointee.tombstoneCount = 0
        pointee.leaveAll()
        if !isFiring {
            let kept = TimerState.invalid | TimerState.repeats | TimerState.reusable | TimerState.manualClock
            pointee.state.bitwiseAnd(kept, ordering: .relaxed)
        }
        pointee.owner.store(.none, ordering: .relaxed)
    }
}
