import CLinux
import Synchronization

/// A timer whose callback is on the stack, for queries and for Invalidate; a frame of the firing function. Linked, innermost
/// first, from `RunLoop.firing`; the loop's lock guards the list.
struct FiringTimer {
    var timer: TimerPointer
    var outer: FiringPointer?
}

typealias FiringPointer = UnsafeMutablePointer<FiringTimer>

/// Membership of timers.
extension UnsafeMutablePointer where Pointee == RunLoop {
    func addTimer(_ timer: TimerPointer, to name: ModeName) {
        guard timer.isValid, acceptsItems("RLAddTimer", .addTimerToEndedMain) else { return }
        timer.forgetVanishedLoop()
        timer.dropGhosts(unlessIn: self)
        switch name {
        case .none: return
        case .named(let name):
            // No mode is made for a timer that belongs to another loop (S-TMR-13).
            if timer.belongsElsewhere(than: self) { return }
            let mode = makeMode(name)
            lock()
            addLocked(timer, to: mode)
            unlock()
        case .common:
            lock()
            if !timer.pointee.isCommonIn(self) && timer.isValid && timer.enter(self) {
                if !timer.isInLoop { timer.retain() }
                timer.pointee.isCommon = true
                pointee.commonTimers.insert(timer)
            }
            forEachModeRecord { mode in
                if mode.pointee.isCommon.load(ordering: .relaxed) { addLocked(timer, to: mode) }
            }
            unlock()
        }
        lookAgainIfForeign()
        // Invalidated between the check and the membership: its Invalidate may have looked before.
        if !timer.isValid { timer.leaveLoop() }
    }

    func removeTimer(_ timer: TimerPointer, from name: ModeName) {
        lock()
        var left = false
        switch name {
        case .none: break
        case .named(let name):
            if timer.pointee.loop.load(ordering: .relaxed) == self, let mode = mode(name) {
                left = removeLocked(timer, from: mode)
            }
        case .common:
            if timer.pointee.isCommonIn(self) {
                pointee.commonTimers.remove(timer)
                forEachModeRecord { mode in
                    if mode.pointee.isCommon.load(ordering: .relaxed) { _ = removeLocked(timer, from: mode) }
                }
                timer.pointee.isCommon = false
                left = leaveLocked(timer)
            }
        }
        unlock()
        if left { timer.release() }
    }

    func containsTimer(_ timer: TimerPointer, in name: ModeName) -> Bool {
        lock()
        defer { unlock() }
        guard timer.pointee.loop.load(ordering: .relaxed) == self else { return false }
        switch name {
        case .none: return false
        case .common: return timer.pointee.isCommon
        case .named(let name):
            guard let mode = mode(name), let node = timer.node(in: mode) else { return false }
            return !node.pointee.isGhost
        }
    }

    /// Adds a valid timer of this loop, or of none, to one mode; nothing if it is there.
    func addLocked(_ timer: TimerPointer, to mode: ModePointer) {
        guard timer.isValid, !pointee.closing.load(ordering: .relaxed), timer.enter(self) else { return }
        mode.pointee.exists.store(true, ordering: .releasing)
        if let node = timer.node(in: mode) {
            guard node.pointee.isGhost else { return }
            // Added back before its turn in the batch came: it keeps its turn (S-TMR-26).
            node.pointee.isGhost = false
            timer.pointee.ghostCount -= 1
            timer.pointee.modeCount += 1
            mode.pointee.timerCount += 1
            return
        }
        if !timer.isInLoop { timer.retain() }
        timer.pointee.modeCount += 1
        mode.pointee.timerCount += 1
        let node = timer.makeNode(for: mode)
        // While its callback is on the stack it is in no store; it goes there when the callback returns.
        if !timer.isFiring { mode.pointee.timers.insert(node) }
    }

    /// Ends one membership. True if the timer left the loop: the caller then releases it, without the lock.
    func removeLocked(_ timer: TimerPointer, from mode: ModePointer) -> Bool {
        guard let node = timer.node(in: mode), !node.pointee.isGhost else { return false }
        timer.pointee.modeCount -= 1
        mode.pointee.timerCount -= 1
        if node.pointee.place == .due {
            // Its turn in a batch is still to come, and comes if it is in another mode then (S-TMR-25).
            node.pointee.isGhost = true
            timer.pointee.ghostCount += 1
        } else {
            mode.pointee.timers.remove(node)
            timer.freeNode(node)
        }
        return leaveLocked(timer)
    }

    /// Takes the timer out of the loop if nothing ties it to it any more. True if it did: the caller releases it.
    func leaveLocked(_ timer: TimerPointer) -> Bool {
        guard !timer.isInLoop, timer.pointee.loop.load(ordering: .relaxed) == self else { return false }
        timer.pointee.loop.store(nil, ordering: .releasing)
        return true
    }
}

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
        } while !exchangeState(&state, desired)
        retain()
        leaveLoop()
        if desired & TimerState.releasePending == 0 { pointee.context.releaseInfo() }
        release()
    }

    @inline(__always)
    private func exchangeState(_ expected: inout UInt32, _ desired: UInt32) -> Bool {
        let (exchanged, original) = pointee.state.compareExchange(
            expected: expected, desired: desired, ordering: .acquiringAndReleasing)
        if !exchanged { expected = original }
        return exchanged
    }

    /// Whether the caller is inside this timer's callback.
    private var isFiringOnThisThread: Bool {
        guard let loop = rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self) else { return false }
        var firing = loop.pointee.firing
        while let current = firing {
            if current.pointee.timer == self { return true }
            firing = current.pointee.outer
        }
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
        if let owner, !owner.isCurrent { owner.wakeUp() }
    }
}

/// Firing.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Fires what is due in the mode: the timer event of P13. Every timer of the batch is looked at again just before its turn.
    func fireTimers(in mode: ModePointer, now: Int64) {
        lock()
        pointee.timerBatch &+= 1
        let batch = pointee.timerBatch
        mode.pointee.timers.collectDue(now, batch: batch)
        while let node = mode.pointee.timers.nextDue(inBatch: batch) {
            let timer = node.timer
            if node.pointee.isGhost {
                node.pointee.isGhost = false
                timer.pointee.ghostCount -= 1
                mode.pointee.timers.remove(node)
                timer.freeNode(node)
                if timer.pointee.modeCount == 0 || !timer.isValid || timer.isFiring || timer.pointee.instant > now {
                    let left = leaveLocked(timer)
                    unlock()
                    if left { timer.release() }
                    lock()
                    continue
                }
            }
            timer.retain()
            fireLocked(timer)
            unlock()
            timer.release()
            lock()
        }
        unlock()
    }

    /// Calls one timer and gives it its next date. The lock is held at the call and at the return, not in between.
    private func fireLocked(_ timer: TimerPointer) {
        timer.forEachNode { node in
            node.pointee.mode!.pointee.timers.remove(node)
        }
        let served = timer.pointee.instant
        var frame = FiringTimer(timer: timer, outer: pointee.firing)
        withUnsafeMutablePointer(to: &frame) { frame in
            pointee.firing = frame
            let old = timer.pointee.state.bitwiseOr(
                TimerState.firing | TimerState.usingInfo, ordering: .acquiringAndReleasing).oldValue
            unlock()
            pointee.calledOut = true
            if old & TimerState.invalid == 0 { timer.callOut() }
            // S-TMR-28, S-TMR-44: the one-shot's context goes before the bracket's reference.
            lock()
            pointee.firing = frame.pointee.outer
        }
        unlock()
        timer.finishFiring(served: served)
        lock()
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// The callback within its bracket of `retain` and `release` (S-TMR-44). `usingInfo` is set.
    fileprivate func callOut() {
        let context = pointee.context
        var info = context.info
        if let retain = context.retain {
            info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, info))
            endUseOfInfo()
        }
        if let callout = pointee.callout { callOutTimer(callout, handle, info) }
        if !repeats { invalidate() }
        if context.retain != nil, let release = context.release { callOutRelease(release, info) }
    }

    /// The loop's thread is done with the context's info; an Invalidate that came meanwhile left its release to it.
    private func endUseOfInfo() {
        let old = pointee.state.bitwiseAnd(
            ~(TimerState.usingInfo | TimerState.releasePending), ordering: .acquiringAndReleasing).oldValue
        if old & TimerState.releasePending != 0 { pointee.context.releaseInfo() }
    }

    /// After the callback: the next date, and back into the stores of its modes.
    fileprivate func finishFiring(served: Int64) {
        endUseOfInfo()
        let owner = lockTimer()
        let old = pointee.state.bitwiseAnd(
            ~(TimerState.firing | TimerState.dateSet), ordering: .acquiringAndReleasing).oldValue
        if old & TimerState.invalid == 0 {
            if old & TimerState.dateSet == 0 { advance(past: Clock.now()) }
            forEachNode { node in
                if node.pointee.place == .nowhere { node.pointee.mode!.pointee.timers.insert(node) }
            }
        }
        unlockTimer(owner)
    }
}
