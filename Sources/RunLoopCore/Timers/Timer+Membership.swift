// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// How a timer belongs to its loop, and how it leaves.
extension UnsafeMutablePointer where Pointee == Timer {
    /// The lock of `loop` is held.
    func isCommon(in loop: RunLoopPointer) -> Bool { isGuardedNow(by: loop) && pointee.isCommon }

    /// Whether it is a member of its loop, which then keeps it. The owner's lock is held.
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
        guard let owner = lockTimerInACall() else {
            unlockTimerInACall(nil)
            return true
        }
        if owner == loop {
            unlockTimerInACall(owner)
            return true
        }
        if pointee.hasTombstones && pointee.modeCount == 0 && !pointee.isCommon { removeAllNodes() }
        let isFree = !isInLoop
        if isFree {
            let state = pointee.state.load(ordering: .relaxed)
            if state & TimerState.firing != 0 {
                let left = state & ~TimerState.generations | TimerState.leftInCallback | TimerState.generation
                pointee.state.store(left, ordering: .releasing)
            }
            if followsClock { owner.pointee.followers.remove(self) }
            pointee.owner.store(.none, ordering: .releasing)
        }
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

    /// Takes the timer out of its loop altogether. True if it is not needed any more: the caller destroys it.
    func leaveLoop() -> Bool {
        let owner = lockTimerInACall()
        leaveLocked(owner)
        let isLast = isAbandoned
        unlockTimerInACall(owner)
        return isLast
    }

    /// `RLTimerInvalidate` (S-TMR-42). The context is released here, or, where the loop's thread is using it, by that thread.
    func invalidate() {
        forgetVanishedLoop()
        // All of it under the lock, which a fork takes: the child finds no timer that is invalid and a member (S-FORK-1).
        let owner = lockTimer()
        let state = pointee.state.load(ordering: .relaxed)
        if state & TimerState.invalid != 0 { return unlockTimer(owner) }
        var desired = state | TimerState.invalid
        if state & TimerState.usingInfo != 0 && details.pointee.callbacks != nil && !isFiringOnThisThread {
            desired |= TimerState.releasePending
            // In one step for the child of a fork.
            process.pointee.registryLock.lockWord()
            pointee.state.store(desired, ordering: .releasing)
            ContextUses.insertLocked(.releaseAfterCallback, header, context)
            process.pointee.registryLock.unlockWord()
        } else {
            pointee.state.store(desired, ordering: .releasing)
        }
        // The caller has a reference, or is the timer's callback; a release function may drop that reference.
        let context = desired & TimerState.releasePending == 0 ? context : ClientContext()
        leaveLocked(owner)
        let isLast = isAbandoned
        unlockTimer(owner)
        finish(releasing: context, isLast: isLast)
    }

    /// Whether the caller is inside this timer's callback.
    var isFiringOnThisThread: Bool {
        RunLoop.ofThread?.pointee.calls.contains(TimerCall.self) { $0.pointee.timer == self } ?? false
    }

    /// The timer's instant is no longer the one with which it was put into the stores of its modes. The lock of its loop is held.
    @inline(always)
    func moveInStores(from former: Int64) {
        forEachNode { node in
            // A tombstone, whose turn in a batch is still to come, is looked at again before its turn (S-TMR-24).
            if node.pointee.isTombstone { return }
            if node.pointee.isInBatch && keepsTurn(node) { return }
            let mode = node.pointee.mode!
            mode.pointee.timers.remove(node, dueAt: former)
            mode.pointee.timers.insert(node)
        }
    }

    /// A member of a batch whose new instant has come has its turn there (S-TMR-23). The lock of its loop is held.
    @inline(never)
    func keepsTurn(_ node: TimerNodePointer) -> Bool {
        guard let loop = pointee.owner.load(ordering: .relaxed).loop, pointee.instant <= loop.dueLimit(loop.time) else { return false }
        node.pointee.mode!.pointee.timers.keepTurn(node)
        return true
    }

    /// `RLTimerSetNextFireDate` (S-TMR-36 to 41); `isDelay`: `RLTimerSetNextFireDelay`.
    func setNextFireDate(_ date: Double, isDelay: Bool = false) {
        forgetVanishedLoop()
        let owner = lockTimer()
        let state = pointee.state.load(ordering: .acquiring)
        let former = pointee.instant
        let isRare = state & (TimerState.invalid | TimerState.followsClock) != 0
        if isDelay || isRare || process.pointee.manualClocks.load(ordering: .relaxed) != 0 {
            if state & TimerState.invalid != 0 { return unlockTimer(owner) }
            setDate(date, isDelay: isDelay, by: isInLoop ? owner : nil)
        } else {
            setDate(date)
        }
        if isFiring {
            pointee.state.store(pointee.state.load(ordering: .relaxed) | TimerState.dateSet, ordering: .releasing)
        } else {
            moveInStores(from: former)
        }
        guard let owner, isInLoop, owner.mayBeAsleep else { return unlockTimer(owner) }
        let wakes = owner.isWokenBy(pointee.instant)
        unlockTimer(owner)
        if wakes { owner.wakeUpUnlessPending() }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: no thread calls the timers that came to this loop while other threads called them. They keep their dates.
    func adoptTimers() {
        lock()
        defer { unlock() }
        forEachModeRecord { mode in
            mode.pointee.timers.forEachAway { node in
                let timer = node.timer
                if isCalling(TimerCall.self, where: { $0.pointee.timer == timer }) { return true }
                timer.forgetCallback()
                timer.giveClock(of: self)
                timer.forEachNode { $0.pointee.mode!.pointee.timers.insertInACall($0) }
                return true
            }
        }
    }
}

/// In the child of `fork`: a loop that vanished is forgotten.
extension UnsafeMutablePointer where Pointee == Timer {
    /// The thread that calls it does not exist here.
    @inline(never)
    fileprivate func forgetCallback() {
        pointee.state.bitwiseAnd(~TimerState.callback, ordering: .relaxed)
    }

    /// The same for a timer that its callback was moving: it is in no loop, and none that vanished guards it.
    private func forgetMovingCallback() {
        func isLost() -> Bool {
            let state = pointee.state.load(ordering: .acquiring)
            let bits = TimerState.firing | TimerState.leftInCallback
            return state & bits == bits && state & TimerState.generations != TimerState.generation
        }
        if !isLost() { return }
        let owner = lockTimerInACall()
        if isLost() { forgetCallback() }
        unlockTimerInACall(owner)
    }

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
        if !isFiring { forgetMovingCallback() }
        guard let loop = pointee.owner.load(ordering: .relaxed).loop, loop.isVanished else { return }
        // Several threads of the child may be here at once.
        loop.lock()
        defer { loop.unlock() }
        guard isGuardedNow(by: loop) else { return }
        firstNode.initialize(to: TimerNode())
        // The memory of the further ones may be partly moved.
        details.pointee.rare?.pointee.moreNodes = WordSet()
        details.pointee.rare?.pointee.tombstoneCount = 0
        pointee.leaveAll()
        if !isFiring { forgetCallback() }
        pointee.owner.store(.none, ordering: .relaxed)
    }
}
