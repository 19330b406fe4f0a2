// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

// The waits of loops with a clock of the program: for what they last, and how an automatic clock goes on when all wait (S-CLK-9).

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The next instant at which a loop that waits has something to do. Not as its look found it: other threads may since have removed a timer, which
    /// wakes no loop. nil if the loop runs and does not sleep: what it has taken out of its mode is not found there. Any thread; the clock is the one
    /// that the caller takes to be the loop's.
    @inline(never)
    func nextInstantOfWait(by clock: ManualClockPointer) -> Int64? {
        guard isRunning else { return Clock.never }
        lock()
        defer { unlock() }
        // Modes are freed after the end of the thread, which gives up the clock.
        guard manualClock == clock, let mode = pointee.waitMode else { return Clock.never }
        let next = Swift.min(pointee.waitEnd, nextInstantLocked(in: mode))
        // It is awake before it takes something out under the lock, and asleep again only after a look under it. The own thread takes out nothing
        // meanwhile.
        return isSettled || isCurrent ? next : nil
    }

    /// The next instant at which a mode has something to do. The lock is held.
    @inline(never)
    func nextInstantLocked(in mode: ModePointer) -> Int64 {
        let held = heldEndLocked(in: mode)
        if mode.pointee.timers.isEmpty { return held }
        return mode.pointee.timers.hasDue(clockTime) ? clockTime : Swift.min(mode.pointee.timers.exactWake(), held)
    }
}

extension UnsafeMutablePointer where Pointee == ManualClock {
    /// A loop has just said that it sleeps, or does not run any more, or has given up the clock. True if that advanced the time and the
    /// calling loop must look again.
    @inline(never)
    func settle(_ own: RunLoopPointer?) -> Bool {
        defer { tellSettled() }
        guard pointee.isAutomatic.load(ordering: .sequentiallyConsistent) else { return false }
        // Each loop first says that it sleeps and then looks at the others: the last one finds all asleep.
        var allSleep = true
        forEachLoop { loop in
            // One of the ports of a blind one may be ready.
            if !loop.isSettled || (loop.isRunning && loop.pointee.isBlind.load(ordering: .acquiring)) { allSleep = false }
        }
        if allSleep {
            var next = Clock.never
            forEachLoop { loop in
                if let instant = loop.nextInstantOfWait(by: self) { next = Swift.min(next, instant) } else { allSleep = false }
            }
            if allSleep && next <= ManualClock.latest { move(to: next, sparesOwn: false) }
        }
        // Another thread may have moved the clock, and looked at this loop, before this loop said that it sleeps.
        let time = time
        var isOwn = false
        forEachLoop { loop in
            guard allSleep || loop == own, let next = loop.nextInstantOfWait(by: self), next <= time else { return }
            if loop == own { isOwn = true } else { loop.lookAgain() }
        }
        return isOwn
    }
}
