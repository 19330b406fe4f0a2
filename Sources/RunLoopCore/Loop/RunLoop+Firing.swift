import CLinux
import Synchronization

/// Timers whose callbacks are on the stack, innermost last, each with a reference. Not in frames of the stack: a callback may end
/// its thread. The loop's lock guards changes. The zero value is empty.
struct FiringStack {
    private var members: UnsafeMutablePointer<TimerPointer>?
    private var capacity = 0
    private(set) var count = 0

    subscript(index: Int) -> TimerPointer { members![index] }

    mutating func push(_ timer: TimerPointer) {
        if count == capacity {
            capacity = max(4, capacity * 2)
            members = growArray(members, count: capacity)
        }
        members![count] = timer
        count += 1
    }

    mutating func pop() -> TimerPointer {
        count -= 1
        return members![count]
    }

    mutating func free() {
        CLinux.free(members)
        members = nil
        capacity = 0
        count = 0
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
            node.pointee.mode!.pointee.timers.insertAway(node)
        }
        let served = timer.pointee.instant
        pointee.firing.push(timer)
        let old = timer.pointee.state.bitwiseOr(
            TimerState.firing | TimerState.usingInfo, ordering: .acquiringAndReleasing).oldValue
        unlock()
        pointee.calledOut = true
        if old & TimerState.invalid == 0 { timer.callOut() }
        // S-TMR-28, S-TMR-44: the one-shot's context goes before the bracket's reference.
        lock()
        _ = pointee.firing.pop()
        unlock()
        timer.finishFiring(served: served)
        lock()
    }

    /// What callbacks that ended the thread left: timers in mid-fire and in mid-batch, sources of batches. Loop's thread, which
    /// runs nothing any more.
    func abandonCallbacks() {
        pointee.frame = nil
        pointee.currentMode.store(nil, ordering: .releasing)
        pointee.notification = nil
        pointee.postFloor = 0
        while pointee.firing.count > 0 {
            lock()
            let timer = pointee.firing.pop()
            unlock()
            if !timer.repeats { timer.invalidate() }
            timer.finishFiring(served: timer.pointee.instant)
            timer.release()
        }
        for index in 0..<pointee.batches.count { pointee.batches[index].release() }
        pointee.batches.truncate(to: 0)
        for index in 0..<pointee.watching.count { pointee.watching[index].release() }
        pointee.watching.truncate(to: 0)
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
        var wasInserted = false
        let old = pointee.state.bitwiseAnd(
            ~(TimerState.firing | TimerState.dateSet), ordering: .acquiringAndReleasing).oldValue
        if old & TimerState.invalid == 0 {
            if old & TimerState.dateSet == 0 { advance(past: Clock.now()) }
            forEachNode { node in
                if node.pointee.place != .nowhere { return }
                node.pointee.mode!.pointee.timers.insert(node)
                wasInserted = true
            }
        }
        unlockTimer(owner)
        // It moved to another loop during its callback, and that loop found nothing to wait for when it was told of the Add.
        if wasInserted, let owner { owner.lookAgainIfForeign() }
    }
}
