// SPDX-License-Identifier: MIT
import Synchronization

/// The clock that a loop uses: the system's, or one that the program moves (S-CLK).
///
/// A loop with a clock of the program has a time of its own, `clockTime`, which follows the clock. When the loop has nothing to do at that
/// time, its look moves it to the next instant at which it has, if the clock has reached that, else to the clock's time; so everything
/// happens at its own instant, in the loop's own passes, however far one call moved the clock. The timeouts that the loop passes to the
/// kernel do not depend on that time: a thread that moves the clock makes the loop look again.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The program's clock. Loop's thread, or under the lock.
    @inline(always) var manualClock: ManualClockPointer? { pointee.clock.load(ordering: .relaxed) }

    /// The monotonic time of the loop's clock. Loop's thread, or under the lock.
    @inline(always) var time: Int64 { manualClock == nil ? Clock.now() : pointee.clockTime }

    /// The time against which timers are due: see `Clock.dueLimit`.
    @inline(always)
    func dueLimit(_ now: Int64) -> Int64 { manualClock == nil ? Clock.dueLimit(now) : now }

    /// `Clock.deadline` by the loop's clock.
    func deadline(in seconds: Double) -> Int64 {
        let deadline = Clock.deadline(in: seconds)
        return manualClock == nil || deadline == 0 || deadline == Clock.never ? deadline : pointee.clockTime + Clock.nanoseconds(seconds)
    }

    var isRunning: Bool { pointee.stop.load(ordering: .sequentiallyConsistent) != StopState.notRunning }

    /// The loop sleeps, and no other thread has asked it to look again; or it does not run.
    var isSettled: Bool { !isRunning || pointee.wake.load(ordering: .sequentiallyConsistent) >= WakeState.asleepInFutex }

    /// The next instant at which a loop that waits has something to do. Not as its look found it: other threads may since have removed a timer, which
    /// wakes no loop. Any thread; the clock is the one that the caller takes to be the loop's.
    @inline(never)
    func nextInstantOfWait(by clock: ManualClockPointer) -> Int64 {
        guard isRunning else { return Clock.never }
        lock()
        defer { unlock() }
        // Modes are freed after the end of the thread, which gives up the clock.
        guard manualClock == clock, let mode = pointee.waitMode else { return Clock.never }
        return Swift.min(pointee.waitEnd, nextInstantLocked(in: mode, heldUntil: pointee.waitHeldEnd))
    }

    /// The next instant at which a mode has something to do. The lock is held. `heldUntil`: until when the wait takes what is held to wait. It does not
    /// notice before that another loop, where the same source performs, has changed the end of the period.
    @inline(never)
    func nextInstantLocked(in mode: ModePointer, heldUntil: Int64 = .min) -> Int64 {
        let held = Swift.max(heldEndLocked(in: mode), heldUntil)
        if mode.pointee.timers.isEmpty { return held }
        return mode.pointee.timers.hasDue(pointee.clockTime) ? pointee.clockTime : Swift.min(mode.pointee.timers.exactWake(), held)
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
            forEachLoop { next = Swift.min(next, $0.nextInstantOfWait(by: self)) }
            if next <= ManualClock.latest { move(to: next) }
        }
        // Another thread may have moved the clock, and looked at this loop, before this loop said that it sleeps.
        let time = time
        var isOwn = false
        forEachLoop { loop in
            guard allSleep || loop == own, loop.nextInstantOfWait(by: self) <= time else { return }
            if loop == own { isOwn = true } else { loop.lookAgain() }
        }
        return isOwn
    }

    /// Calls the body with every loop that uses the clock. Records are never unmapped, and the list of them only grows.
    func forEachLoop(_ body: (RunLoopPointer) -> Void) {
        process.pointee.registryLock.lockWord()
        var next = registry.pointee.loopRecords
        process.pointee.registryLock.unlockWord()
        while let loop = next {
            next = loop.pointee.olderRecord
            if loop.pointee.clock.load(ordering: .sequentiallyConsistent) == self { body(loop) }
        }
    }
}
