// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

// The waits of loops with a clock of the program: for what they last, and how an automatic clock goes on when all wait (S-CLK-9).

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The next instant at which a loop that waits has something to do. Not as its look found it: other threads may since have removed a timer, which
    /// wakes no loop. nil if the loop runs and does not sleep: what it has taken out of its mode is not found there. `orCurrent`: unless it is the
    /// caller's, which takes out nothing meanwhile. Any thread; the clock is the one that the caller takes to be the loop's.
    @inline(never)
    func nextInstantOfWait(by clock: ManualClockPointer, orCurrent: Bool = false) -> Int64? {
        guard isRunning && mayRun else { return Clock.never }
        lock()
        defer { unlock() }
        // Modes are freed after the end of the thread, which gives up the clock.
        guard manualClock == clock, let mode = pointee.waitMode else { return Clock.never }
        let next = Swift.min(pointee.waitEnd, nextInstantLocked(in: mode))
        // It is awake before it takes something out under the lock, and asleep again only after a look under it.
        return isSettled || (orCurrent && isCurrent) ? next : nil
    }

    /// Whether the kernel is about to end its sleep: one of its ports is ready. Any thread; a set that the loop closes meanwhile is one that it does not
    /// sleep in.
    fileprivate var isRoused: Bool {
        pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.asleepInEpoll
            && !readiness(of: pointee.sleepingEpoll.load(ordering: .acquiring), .read).isEmpty
    }

    /// The next instant at which a mode has something to do. The lock is held.
    func nextInstantLocked(in mode: ModePointer) -> Int64 {
        nextInstantLocked(in: mode, orOfHeld: heldEndLocked(in: mode))
    }

    /// The same with the end of the periods for which sources of the mode wait.
    @inline(never)
    func nextInstantLocked(in mode: ModePointer, orOfHeld held: Int64) -> Int64 {
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
        while true {
            let waits = pointee.waits.load(ordering: .sequentiallyConsistent)
            let turns = pointee.turns.load(ordering: .sequentiallyConsistent)
            // Each loop first says that it sleeps and then looks at the others: the last one finds all asleep.
            var allSleep = !findAwake(), isMoved = false
            if allSleep {
                var next = Clock.never
                forEachLoop { loop in
                    if loop.isRoused {
                        // The kernel would let it sleep on if another thread takes what is there.
                        allSleep = false
                        loop.lookAgain()
                    } else if let instant = loop.nextInstantOfWait(by: self) {
                        next = Swift.min(next, instant)
                    } else {
                        allSleep = false
                    }
                }
                // A loop that changes it looks itself.
                if pointee.turns.load(ordering: .sequentiallyConsistent) != turns { allSleep = false }
                if allSleep && next <= ManualClock.latest {
                    move(to: next)
                    pointee.lastSettled.raise(to: waits)
                    isMoved = true
                }
            }
            // Another thread may have moved the clock, and looked at this loop, before this loop said that it sleeps.
            let time = time
            func isDue(_ loop: RunLoopPointer) -> Bool { loop.nextInstantOfWait(by: self, orCurrent: true).map { $0 <= time } ?? false }
            if !allSleep { return own.map(isDue) ?? false }
            var isOwnDue = false
            forEachLoop { loop in
                guard isDue(loop) else { return }
                isMoved = false
                if loop == own { isOwnDue = true } else { loop.lookAgain() }
            }
            // If it is none, another thread has removed what was to happen at that instant, or put it off, which wakes no loop: the next one is later.
            // Each round more needs such a change. What is gone only now is missed by a loop that looks, and settles again.
            if !isMoved { return isOwnDue }
        }
    }

    /// Whether a loop is awake, or is blind: then one of its ports may be ready.
    private func findAwake() -> Bool {
        func isAwake(_ loop: RunLoopPointer) -> Bool {
            !loop.isSettled || (loop.isRunning && loop.pointee.isBlind.load(ordering: .acquiring))
        }
        let last = pointee.awake.load(ordering: .relaxed)
        // Sequentially consistent: a loop that has left the clock has then found this thread's awake, or this finds that it has.
        if let last, last.pointee.clock.load(ordering: .sequentiallyConsistent) == self, isAwake(last) { return true }
        var loop = last
        // Behind it, and then from the first one on.
        for _ in 0..<2 {
            while let next = nextLoop(after: loop) {
                if isAwake(next) {
                    pointee.awake.store(next, ordering: .relaxed)
                    return true
                }
                loop = next
            }
            if last == nil { break }
            loop = nil
        }
        return false
    }
}
