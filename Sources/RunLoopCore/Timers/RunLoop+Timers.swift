// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Membership of timers.
extension UnsafeMutablePointer where Pointee == RunLoop {
    @inline(always)
    func addTimer(_ timer: TimerPointer, to name: ModeName) {
        guard timer.isValid, acceptsItems("RLAddTimer", .addTimerToEndedMain) else { return }
        timer.forgetVanishedLoop()
        // No mode is made for a timer that belongs to another loop (S-TMR-13).
        guard timer.leaveFormerLoop(for: self) else { return }
        let isOwner = isCurrent
        switch name {
        case .none: return
        case .named(let name):
            let mode = makeMode(name)
            lock(owner: isOwner)
            addLocked(timer, to: mode)
            unlock(owner: isOwner)
        case .common:
            addToCommonModes(timer)
        }
        lookAgainIfForeign()
        // Invalidated between the check and the membership: its Invalidate may have looked before.
        if !timer.isValid && timer.leaveLoop() { Timer.destroy(timer) }
    }

    @inline(never)
    private func addToCommonModes(_ timer: TimerPointer) {
        lock()
        if !timer.isCommon(in: self) && timer.isValid && timer.enter(self) {
            if manualClock != nil || timer.mayChangeClock { timer.changeClock(to: self) }
            timer.pointee.isCommon = true
            pointee.commonTimers.insert(timer)
        }
        forEachCommonMode { addCommonLocked(timer, to: $0) }
        unlock()
    }

    @inline(never)
    func addCommonLocked(_ timer: TimerPointer, to mode: ModePointer) { addLocked(timer, to: mode) }

    @inline(always)
    func removeTimer(_ timer: TimerPointer, from name: ModeName) {
        let isOwner = isCurrent
        var isLast = false
        switch name {
        case .none: return
        case .named(let name):
            guard let mode = mode(name) else { return }
            lock(owner: isOwner)
            if timer.isGuarded(by: self) { isLast = removeLocked(timer, from: mode) }
            unlock(owner: isOwner)
        case .common:
            isLast = removeFromCommonModes(timer)
        }
        if isLast { Timer.destroy(timer) }
    }

    @inline(never)
    private func removeFromCommonModes(_ timer: TimerPointer) -> Bool {
        timer.forgetVanishedLoop()
        lock()
        defer { unlock() }
        guard timer.isCommon(in: self) else { return false }
        pointee.commonTimers.remove(timer)
        forEachCommonMode { _ = removeLocked(timer, from: $0) }
        timer.pointee.isCommon = false
        return timer.isAbandoned
    }

    func containsTimer(_ timer: TimerPointer, in name: ModeName) -> Bool {
        timer.forgetVanishedLoop()
        lock()
        defer { unlock() }
        guard timer.isGuardedNow(by: self) else { return false }
        switch name {
        case .none: return false
        case .common: return timer.pointee.isCommon
        case .named(let name):
            guard let mode = mode(name), let node = timer.node(in: mode) else { return false }
            return !node.pointee.isTombstone
        }
    }

    /// Adds a valid timer of this loop, or of none, to one mode; nothing if it is there.
    @inline(always)
    func addLocked(_ timer: TimerPointer, to mode: ModePointer) {
        guard timer.isValid, !pointee.closing.load(ordering: .relaxed), timer.enter(self) else { return }
        if manualClock != nil || timer.mayChangeClock { timer.changeClock(to: self) }
        if !mode.pointee.exists.load(ordering: .relaxed) { mode.pointee.exists.store(true, ordering: .releasing) }
        if timer.pointee.memberships & ~1 != 0, let node = timer.node(in: mode) {
            return bringBackLocked(node, of: timer, to: mode)
        }
        timer.pointee.modeCount &+= 1
        mode.pointee.timerCount &+= 1
        let node = timer.makeNode(for: mode)
        // While its callback is on the stack it is in no store; it goes there when the callback returns.
        if timer.isFiring { mode.pointee.timers.insertAway(node) } else { mode.pointee.timers.insert(node) }
    }

    /// Added back before its turn in the batch came: it keeps its turn (S-TMR-26), unless it has a later one by now, or its callback
    /// is on the stack (S-TMR-20, S-TMR-27).
    @inline(never)
    private func bringBackLocked(_ node: TimerNodePointer, of timer: TimerPointer, to mode: ModePointer) {
        guard node.pointee.isTombstone else { return }
        node.pointee.isTombstone = false
        let isFiring = timer.isFiring
        if isFiring || timer.pointee.instant > dueLimit(time) {
            mode.pointee.timers.remove(node)
            if isFiring { mode.pointee.timers.insertAway(node) } else { mode.pointee.timers.insertInACall(node) }
        } else {
            mode.pointee.timers.keepTurn(node)
        }
        timer.addTombstones(-1)
        timer.pointee.modeCount += 1
        mode.pointee.timerCount += 1
    }

    /// Ends one membership. True if the timer is not needed any more: the caller then destroys it, without the lock.
    @inline(always)
    func removeLocked(_ timer: TimerPointer, from mode: ModePointer) -> Bool {
        guard let node = timer.node(in: mode), !node.pointee.isTombstone else { return false }
        timer.pointee.modeCount &-= 1
        mode.pointee.timerCount &-= 1
        if node.pointee.isInBatch {
            // Its turn in a batch is still to come, and comes if the timer is in another mode then (S-TMR-25).
            node.pointee.isTombstone = true
            timer.addTombstones(1)
            if node.pointee.isIn(.returned) { mode.pointee.timers.pass(node) }
            return false
        }
        mode.pointee.timers.remove(node)
        timer.freeNode(node)
        return timer.isAbandoned
    }

    /// Whether the loop has to be woken because another thread set one of its timers to this instant (S-WAKE-14): the wait has not begun,
    /// or may sleep beyond it, or an additional pass is noticed. The lock is held; a loop that determines the end of its wait after this
    /// finds the instant.
    @inline(never)
    func isWokenBy(_ instant: Int64) -> Bool {
        if instant < pointee.sleepsUntil.load(ordering: .relaxed) { return true }
        guard let mode = pointee.currentMode.load(ordering: .acquiring) else { return false }
        return !pointee.waiting.load(ordering: .relaxed) || mode.pointee.observedActivities.load(ordering: .relaxed) & Activity.bitsOfPass != 0
            || pointee.posts.word.load(ordering: .relaxed) != pointee.seenPosts
            || pointee.signalled.load(ordering: .relaxed) != nil || !pointee.pending.isEmpty || mode.hasNoItems
    }

    /// The date of the mode's timer with the earliest instant, also if it is being called (S-TMR-55).
    func nextTimerFireDate(_ name: ModeName) -> Double {
        guard case .named(let name) = name, let mode = mode(name) else { return 0 }
        lock()
        defer { unlock() }
        var earliest = mode.pointee.timers.earliest()?.timer
        func meet(_ timer: TimerPointer) {
            if timer.pointee.instant < earliest?.pointee.instant ?? Clock.never { earliest = timer }
        }
        isCalling(TimerCall.self) { call in
            let timer = call.pointee.timer
            // A timer that moved to another loop in its callback belongs to that loop.
            if timer.isGuarded(by: self), let node = timer.node(in: mode), !node.pointee.isTombstone { meet(timer) }
            return false
        }
        // A timer that came from another loop, whose thread is calling it.
        mode.pointee.timers.forEachAway {
            meet($0.timer)
            return true
        }
        return earliest?.details.pointee.fireDate ?? 0
    }
}
