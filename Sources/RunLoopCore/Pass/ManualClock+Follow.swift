// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

// How a loop's own time follows its clock (S-CLK-5, S-CLK-14). It goes on where nothing is left to do and nowhere else: in a look of a wait that
// nothing ends, while the loop rests after such a look, and while it does not run. The last two are the work of the thread that moves the
// clock: a loop that is woken after a move sees its time, and one that was woken before does what it was woken for at the time from before.

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// What a look of a wait finds by the clock, which lets the loop's time go on if there is nothing to do before `next`; nil: it may not. The lock is
    /// held.
    @inline(never)
    func goOnLocked(in mode: ModePointer, to next: Int64?, isOfHost: Bool) -> Look.Facts {
        let clock = manualClock!
        var facts: Look.Facts = []
        pointee.rests = false
        if clock.pointee.isAutomatic.load(ordering: .sequentiallyConsistent) { facts.insert(.pollsFirst) }
        guard let next else { return facts }
        // Read before what ends the wait: who wakes the loop and then moves the clock has woken it by the time that the move is seen.
        let time = clock.time
        let goal = clock.goal
        if isWaitEndedLocked(in: mode) { return facts }
        pointee.waitMode = mode
        pointee.waitEnd = isOfHost ? Clock.never : pointee.frame!.pointee.deadline
        let isReached = reachLocked(next, of: time)
        pointee.isClockStale = true
        // Also within the tolerance of one, for which nothing would make the loop look again.
        if !mode.pointee.timers.isEmpty && mode.pointee.timers.hasDue(clockTime) { facts.insert(.timersDue) }
        if isReached && heldEndLocked(in: mode) <= clockTime {
            if releaseHeldLocked(in: mode, now: clockTime) && isOfHost { wakeUp() }
            lookAgain()
            // What is released has its turn before the next look, at this time.
            pointee.waitMode = nil
        }
        pointee.rests = !isReached && !facts.contains(.timersDue)
        // The move that is under way may have found it awake.
        if pointee.rests { _ = reachLocked(next, of: goal) }
        return facts
    }

    /// Whether something has ended the wait, which the loop's next look finds: that does it at the loop's time. The lock is held.
    @inline(never)
    private func isWaitEndedLocked(in mode: ModePointer) -> Bool {
        if pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.wakeUp
            || pointee.stop.load(ordering: .sequentiallyConsistent) == StopState.stopRequested
        {
            return true
        }
        guard mode.pointee.inboxCount > 0 && hasReadyInboxLocked(in: mode) else { return false }
        // The stack is empty now, which tells a loop that falls asleep that nothing came since its look.
        lookAgain()
        return true
    }

    /// Lets the loop's time go on to the clock's, or to `next` if the clock has reached that: then true. The lock is held.
    private func reachLocked(_ next: Int64, of time: Int64) -> Bool {
        let isReached = next != Clock.never && next <= time + ManualClock.slack
        clockTime = Swift.max(clockTime, isReached ? next : time)
        return isReached
    }

    /// The wait is over. Another thread may be taking the loop along: its time stands once this has had the lock.
    @inline(never)
    func endRest() {
        lock()
        pointee.rests = false
        pointee.isClockStale = true
        unlock()
        // What it calls now finds that the others have come along.
        manualClock!.endMoves()
    }

    /// Lets the time of a loop that rests go on as a look of it would, and that of one that does not run to the next instant at which one of its
    /// modes has something to do. One that runs and does not rest, or whose wait something has ended, goes on by its own looks. The lock is held.
    @inline(never)
    func followLocked(_ clock: ManualClockPointer) {
        // Before what ends the wait, as in `goOnLocked`.
        let goal = clock.goal
        var next = Clock.never
        if !isRunning {
            // A timer whose callback has ended the thread has no next date yet.
            if pointee.goesByRuns.load(ordering: .relaxed) || isCalling(TimerCall.self, where: { _ in true }) { return }
            next = pointee.waits.first?.pointee.end ?? Clock.never
            forEachModeRecord { next = nextInstantLocked(in: $0, orOfHeld: next) }
        } else {
            guard pointee.rests, let mode = pointee.waitMode, !isWaitEndedLocked(in: mode) else { return }
            next = Swift.min(pointee.waitEnd, nextInstantLocked(in: mode))
        }
        _ = reachLocked(next, of: goal)
    }
}

extension UnsafeMutablePointer where Pointee == ManualClock {
    /// Moves the clock to an instant, if that is later.
    func move(to instant: Int64) {
        announce(instant)
        takeAlong(to: instant)
    }

    /// Before the clock shows its time: ends the moves that are under way, by taking their loops along. So no loop is ahead of what it shows, and all that
    /// rest have come to that.
    func endMoves() {
        let instant = goal
        if instant != time { takeAlong(to: instant) }
    }

    /// Takes the loops along to an instant that was announced.
    @inline(never)
    private func takeAlong(to instant: Int64) {
        forEachLoop { loop in
            loop.lock()
            if loop.manualClock == self { loop.followLocked(self) }
            loop.unlock()
        }
        arrive(at: instant)
    }
}
