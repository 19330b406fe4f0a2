import CLinux
import Synchronization

/// What `retain` returned for a timer's callback, and what gives it back.
struct TimerBracket {
    let release: ReleaseFunction?
    let info: UnsafeMutableRawPointer?

    func close() {
        if let release { callOutRelease(release, info) }
    }
}

/// Firing.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Fires what is due in the mode: the timer event of P13. Every timer of the batch is looked at again just before its turn.
    func fireTimers(in mode: ModePointer, now: Int64) {
        lock(owner: true)
        pointee.timerBatch &+= 1
        let batch = pointee.timerBatch
        mode.pointee.timers.collectDue(now, batch: batch)
        while let node = mode.pointee.timers.nextDue(inBatch: batch) {
            let timer = node.timer
            if let next = node.pointee.links.next { next.prefetch() }
            var isOut = false
            if node.pointee.isGhost {
                node.pointee.isGhost = false
                timer.addGhosts(-1)
                mode.pointee.timers.remove(node)
                timer.freeNode(node)
                if timer.pointee.modeCount == 0 || !timer.isValid || timer.isFiring || timer.pointee.instant > now {
                    guard timer.isAbandoned else { continue }
                    unlock(owner: true)
                    Timer.destroy(timer)
                    lock(owner: true)
                    continue
                }
            } else {
                mode.pointee.timers.removeDue(node)
                isOut = timer.pointee.isInOneMode
            }
            fireLocked(timer, isOut: isOut)
        }
        unlock(owner: true)
    }

    /// Calls one timer and gives it its next date; `isOut` tells that it is in no store. The lock is held at the call and at the
    /// return, not in between.
    @inline(__always)
    private func fireLocked(_ timer: TimerPointer, isOut: Bool) {
        // A ghost stays in its batch until its own turn: whoever has left a mode is in none of its stores.
        if !isOut { timer.forEachNode { node in if !node.pointee.isGhost { node.pointee.mode!.pointee.timers.remove(node) } } }
        pointee.firing.push(timer)
        let old = timer.pointee.state.bitwiseOr(
            TimerState.firing | TimerState.usingInfo, ordering: .acquiringAndReleasing).oldValue
        unlock(owner: true)
        pointee.calledOut = true
        if old & TimerState.invalid == 0 { timer.callOut(on: self) }
        lock(owner: true)
        _ = pointee.firing.pop()
        finishFiringLocked(timer)
    }

    /// After the callback: the next date, and back into the stores of its modes; a one-shot without a context's functions leaves
    /// them, one with them has left already. The lock is held at the call and at the return.
    private func finishFiringLocked(_ timer: TimerPointer) {
        // It may have moved to another loop during its callback.
        var owner: RunLoopPointer? = self
        if timer.pointee.loop.load(ordering: .relaxed) != self {
            unlock(owner: true)
            timer.forgetLoopIfVanished(isFiring: true)
            owner = timer.lockTimer()
        }
        var old = timer.pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        repeat {
            desired = old & ~(TimerState.firing | TimerState.usingInfo | TimerState.releasePending | TimerState.dateSet)
            if old & TimerState.repeats == 0 { desired |= TimerState.invalid }
        } while !timer.pointee.state.replace(&old, by: desired)
        var wasInserted = false
        if desired & TimerState.invalid == 0 {
            if old & TimerState.dateSet == 0 { timer.advance(past: Clock.now()) }
            timer.forEachNode { node in
                if node.pointee.place != .nowhere { return }
                node.pointee.mode!.pointee.timers.insert(node)
                wasInserted = true
            }
        } else {
            timer.leaveLocked(owner)
        }
        // A one-shot with functions is valid here only if its callback ended the thread.
        let releasesInfo = old & TimerState.releasePending != 0
            || (old & TimerState.invalid == 0 && desired & TimerState.invalid != 0 && timer.details.pointee.callbacks != nil)
        let isLast = timer.isAbandoned
        if owner == self && !isLast && !releasesInfo { return }
        let context = releasesInfo ? timer.context : ClientContext()
        timer.unlockTimer(owner)
        // That loop found nothing to wait for when it was told of the Add.
        if wasInserted, let owner { owner.lookAgainIfForeign() }
        if isLast { Timer.destroy(timer) }
        context.releaseInfo()
        lock(owner: true)
    }

    /// What callbacks that ended the thread left: timers in mid-fire and in mid-batch, sources of batches. Loop's thread, which
    /// runs nothing any more.
    func abandonCallbacks() {
        pointee.frame = nil
        pointee.currentMode.store(nil, ordering: .releasing)
        abandonNotifications()
        abandonRounds()
        lock()
        while pointee.firing.count > 0 { finishFiringLocked(pointee.firing.pop()) }
        unlock()
        while pointee.brackets.count > 0 { pointee.brackets.pop().close() }
        // Those first whose sources the following let go.
        while pointee.deliveries.count > 0 { pointee.deliveries.pop().finish(on: self) }
        while pointee.socketReports.count > 0 {
            var report = pointee.socketReports.pop()
            report.finishData()
            report.finish()
        }
        while pointee.performing.count > 0 {
            lock()
            let source = pointee.performing.last
            unlock()
            if let abandoned = source.functions.abandoned { abandoned(source.pointee.info) }
            lock()
            let owed = pointee.performing.pop()
            unlock()
            owed?.release()
        }
        while pointee.batches.count > 0 { pointee.batches.removeLast()?.release() }
        while pointee.watching.count > 0 {
            let source = pointee.watching[pointee.watching.count - 1]
            if let abandoned = source.functions.abandoned { abandoned(source.pointee.info) }
            pointee.watching.truncate(to: pointee.watching.count - 1)
            source.release()
        }
        abandonMessages()
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// The callback within its bracket of `retain` and `release` (S-TMR-44). `usingInfo` is set.
    @inline(__always)
    fileprivate func callOut(on loop: RunLoopPointer) {
        guard details.pointee.callbacks != nil else {
            if let callout = details.pointee.callout { callOutTimer(callout, handle, details.pointee.info) }
            return
        }
        callOutInBracket(on: loop)
    }

    @inline(never)
    private func callOutInBracket(on loop: RunLoopPointer) {
        let context = context
        var info = context.info
        if let retain = context.retain {
            info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, info))
            loop.pointee.brackets.push(TimerBracket(release: context.release, info: info))
            endUseOfInfo()
        }
        if let callout = details.pointee.callout { callOutTimer(callout, handle, info) }
        // S-TMR-28, S-TMR-44: the one-shot's context goes before the bracket's reference.
        if !repeats { invalidate() }
        if context.retain != nil { loop.pointee.brackets.pop().close() }
    }

    /// The loop's thread is done with the context's info; an Invalidate that came meanwhile left its release to it.
    private func endUseOfInfo() {
        let old = pointee.state.bitwiseAnd(
            ~(TimerState.usingInfo | TimerState.releasePending), ordering: .acquiringAndReleasing).oldValue
        if old & TimerState.releasePending != 0 { context.releaseInfo() }
    }
}
