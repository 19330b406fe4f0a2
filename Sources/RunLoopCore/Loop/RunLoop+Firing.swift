import CLinux
import Synchronization

/// A timer whose callback is on the stack, for queries and for Invalidate; a frame of the firing function. Linked, innermost
/// first, from `RunLoop.firing`; the loop's lock guards the list.
struct FiringTimer {
    var timer: TimerPointer
    var outer: FiringPointer?
}

typealias FiringPointer = UnsafeMutablePointer<FiringTimer>

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
