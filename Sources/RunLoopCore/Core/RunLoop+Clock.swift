// SPDX-License-Identifier: MIT
import Synchronization

/// The clock that a loop uses: the system's, or one that the program moves (S-CLK).
///
/// A loop with a clock of the program has a time of its own, `clockTime`, which follows the clock. When the loop has nothing to do at that
/// time, its look moves it to the next instant at which it has, if the clock has reached that, else to the clock's time; so everything
/// happens at its own instant, in the loop's own passes, however far one call moved the clock. A loop that rests, which is to wait after such
/// a look, or does not run is taken along by whoever moves the clock (`ManualClock+Follow`). The timeouts that the loop passes to the
/// kernel do not depend on that time: a thread that moves the clock makes the loop look again.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The program's clock. Loop's thread, or under the lock.
    @inline(always) var manualClock: ManualClockPointer? { pointee.clock.load(ordering: .relaxed) }

    /// The monotonic time of the loop's clock. Loop's thread, or under the lock.
    @inline(always) var time: Int64 { manualClock == nil ? Clock.now() : clockTime }

    /// The time that it has reached on its clock. Its own until the next move while it rests or does not run.
    var clockTime: Int64 {
        get { pointee.clockTime.load(ordering: .relaxed) }
        nonmutating set { pointee.clockTime.store(newValue, ordering: .relaxed) }
    }

    /// The time against which timers are due: see `Clock.dueLimit`.
    @inline(always)
    func dueLimit(_ now: Int64) -> Int64 { manualClock == nil ? Clock.dueLimit(now) : now }

    /// `Clock.deadline` by the loop's clock.
    func deadline(in seconds: Double) -> Int64 {
        let deadline = Clock.deadline(in: seconds)
        return manualClock == nil || deadline == 0 || deadline == Clock.never ? deadline : clockTime + Clock.nanoseconds(seconds)
    }

    /// False in cleanup handlers after a callback has ended the thread (S-LOOP-22), and while the loop is freed.
    var mayRun: Bool { !pointee.refusesRuns.load(ordering: .relaxed) }

    var isRunning: Bool { pointee.stop.load(ordering: .sequentiallyConsistent) != StopState.notRunning }

    /// The loop sleeps, and no other thread has asked it to look again; or it does not run, or may not.
    var isSettled: Bool { !isRunning || !mayRun || pointee.wake.load(ordering: .sequentiallyConsistent) >= WakeState.asleepInFutex }
}

extension UnsafeMutablePointer where Pointee == ManualClock {
    /// Calls the body, without the lock, with every loop that uses the clock; again with some if one gets another clock meanwhile.
    func forEachLoop(_ body: (RunLoopPointer) -> Void) {
        var last: RunLoopPointer?
        while let next = nextLoop(after: last) {
            body(next)
            last = next
        }
    }

    /// The one after another, or the first one if there is no other, or if that has another clock by now. Records are never unmapped.
    @inline(never)
    func nextLoop(after last: RunLoopPointer?) -> RunLoopPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return last?.manualClock == self ? last!.pointee.next : pointee.loops.first
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Gives the loop a clock, or none, and returns the former one. The lock is held.
    func exchangeClock(_ clock: ManualClockPointer?) -> ManualClockPointer? {
        process.pointee.registryLock.lockWord()
        let former = pointee.clock.exchange(clock, ordering: .sequentiallyConsistent)
        former?.pointee.loops.remove(self)
        clock?.pointee.loops.insert(self)
        process.pointee.registryLock.unlockWord()
        return former
    }
}
