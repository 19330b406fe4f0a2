import CLinux
import Synchronization

/// What ties a timer to its loop, and how it gets out.
extension Timer {
    /// The lock of `loop` is held.
    func isCommonIn(_ loop: RunLoopPointer) -> Bool {
        self.loop.load(ordering: .relaxed) == loop && isCommon
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// Whether anything ties it to its loop, which then has a reference to it. The owner's lock is held.
    var isInLoop: Bool { pointee.modeCount > 0 || pointee.ghostCount > 0 || pointee.isCommon }

    func belongsElsewhere(than loop: RunLoopPointer) -> Bool {
        guard let owner = pointee.loop.load(ordering: .acquiring) else { return false }
        return owner != loop && !isClaim(owner)
    }

    /// Takes a timer that is only waiting for its turn in a batch out of its loop, so that another one can have it.
    func dropGhosts(unlessIn loop: RunLoopPointer) {
        guard let current = pointee.loop.load(ordering: .relaxed), current != loop else { return }
        let owner = lockTimer()
        var left = false
        if let owner, owner != loop, pointee.ghostCount > 0, pointee.modeCount == 0, !pointee.isCommon {
            removeAllNodes()
            left = owner.leaveLocked(self)
        }
        unlockTimer(owner)
        if left { release() }
    }

    /// Takes the timer out of all modes. The lock of its loop is held.
    private func removeAllNodes() {
        forEachNode { node in
            let mode = node.pointee.mode!
            mode.pointee.timers.remove(node)
            if !node.pointee.isGhost { mode.pointee.timerCount -= 1 }
            node.pointee.isGhost = false
        }
        if firstNode.pointee.mode != nil { freeNode(firstNode) }
        while let node = moreNodes { freeNode(node) }
        pointee.modeCount = 0
        pointee.ghostCount = 0
    }

    /// Takes the timer out of its loop altogether.
    func leaveLoop() {
        let owner = lockTimer()
        var left = false
        if let owner {
            if pointee.isCommon {
                owner.pointee.commonTimers.remove(self)
                pointee.isCommon = false
            }
            removeAllNodes()
            left = owner.leaveLocked(self)
        }
        unlockTimer(owner)
        if left { release() }
    }

    /// `RLTimerInvalidate` (S-TMR-42). The context is released here, or, where the loop's thread is using it, by that thread.
    func invalidate() {
        forgetVanishedLoop()
        var state = pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        let isOnLoopThread = isFiringOnThisThread
        repeat {
            if state & TimerState.invalid != 0 { return }
            desired = state | TimerState.invalid
            if state & TimerState.usingInfo != 0 && !isOnLoopThread { desired |= TimerState.releasePending }
        } while !pointee.state.replace(&state, by: desired)
        retain()
        leaveLoop()
        if desired & TimerState.releasePending == 0 { pointee.context.releaseInfo() }
        release()
    }

    /// Whether the caller is inside this timer's callback.
    private var isFiringOnThisThread: Bool {
        guard let loop = rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self) else { return false }
        for index in 0..<loop.pointee.firing.count where loop.pointee.firing[index] == self { return true }
        return false
    }

    /// `RLTimerSetNextFireDate` (S-TMR-36 to 41).
    func setNextFireDate(_ date: Double) {
        forgetVanishedLoop()
        let owner = lockTimer()
        guard isValid else { return unlockTimer(owner) }
        setDate(date)
        if isFiring {
            pointee.state.bitwiseOr(TimerState.dateSet, ordering: .acquiringAndReleasing)
        } else {
            forEachNode { node in
                // A ghost, or a member whose turn in a batch is still to come, is looked at again before its turn (S-TMR-24).
                if node.pointee.isGhost { return }
                let mode = node.pointee.mode!
                mode.pointee.timers.remove(node)
                mode.pointee.timers.insert(node)
            }
        }
        unlockTimer(owner)
        // Takes effect at once and wakes the loop (S-WAKE-14).
        if let owner, owner.mustBeTold { owner.wakeUp() }
    }
}
