// SPDX-License-Identifier: MIT
import Synchronization

/// Dates by the clock of the timer's loop, and dates given by delays.
extension UnsafeMutablePointer where Pointee == Timer {
    /// Whether a loop that the timer is added to has to check its instant.
    @inline(always) var mayChangeClock: Bool {
        pointee.state.load(ordering: .relaxed) & (TimerState.clocks | TimerState.followsClock) != 0
    }

    /// Sets the date by the clock of the loop whose lock is held; nil: the system's.
    @inline(never)
    private func setDate(_ date: Double, by loop: RunLoopPointer?) {
        if let loop, let clock = loop.manualClock { setDate(date, by: clock, now: loop.clockTime) } else { setDate(date) }
    }

    private func setDate(_ date: Double, by clock: ManualClockPointer, now: Int64) {
        details.pointee.fireDate = date > Clock.latestDate ? Clock.latestDate : date
        setInstant(clock.instant(ofDate: date, now: now), by: clock)
    }

    private func setInstant(_ instant: Int64, by clock: ManualClockPointer) {
        pointee.instant = instant
        if repeats {
            grid.pointee.wallOffset = clock.wallOffset
            grid.pointee.fraction = 0
        }
    }

    /// A date by any clock, or a delay.
    @inline(never)
    func setDate(_ date: Double, isDelay: Bool, by loop: RunLoopPointer?) {
        setClock(loop?.manualClock)
        if followsClock { return setFollowedDate(date, isDelay: isDelay, by: loop) }
        if isDelay { setDelay(date, by: loop) } else { setDate(date, by: loop) }
    }

    /// Makes the timer due so many seconds from now by the clock of the loop whose lock is held, or of the calling thread's own; nil:
    /// the system's. Setting the wall clock does not change its date (S-TMR-56).
    private func setDelay(_ seconds: Double, by loop: RunLoopPointer?) {
        guard seconds > 0 else { return setDate(seconds.isNaN ? seconds : -.infinity, by: loop) }
        let seconds = Swift.min(seconds, Clock.longestInterval)
        let clock = loop?.manualClock
        let distance = Clock.nanoseconds(clock == nil ? seconds : seconds - ManualClock.rounding)
        if let loop, let clock {
            let now = loop.clockTime
            setInstant(now + distance, by: clock)
            details.pointee.fireDate = Swift.min(clock.date(ofInstant: now) + seconds, Clock.latestDate)
            return
        }
        let (wall, now) = (Clock.wallNow(), Clock.now())
        details.pointee.fireDate = Swift.min(Double(wall) / 1e9 + seconds, Clock.latestDate)
        pointee.instant = now + distance
        if repeats {
            grid.pointee.wallOffset = wall - now
            grid.pointee.fraction = 0
        }
    }

    /// A timer comes into a loop whose clock is not the one of its instant: its date means the loop's clock's time (S-CLK-4). The loop's
    /// lock is held.
    @inline(never)
    func changeClock(to loop: RunLoopPointer) {
        if followsClock {
            if !loop.pointee.followers.contains(self) { loop.pointee.followers.insert(self) }
            loop.pointee.followsClocks.store(true, ordering: .sequentiallyConsistent)
        }
        if !isInLoop && !isFiring { giveClock(of: loop) }
    }

    /// One that comes back, or from another loop with the same clock, keeps its instants.
    @inline(never)
    func giveClock(of loop: RunLoopPointer) {
        if clockNumber != loop.manualClock?.pointee.number ?? 0 {
            setDate(details.pointee.fireDate, isDelay: false, by: loop)
        } else if followsClock {
            follow(loop)
        }
    }

    /// The number of the clock by which the instant is, 0 for the system's. Of all clocks but the process's first few thousand it is in a block of
    /// its own.
    private var clockNumber: UInt32 {
        let clocks = pointee.state.load(ordering: .relaxed) & TimerState.clocks
        return clocks == TimerState.clocks ? details.pointee.rare.unsafelyUnwrapped.pointee.clock : clocks >> 20
    }

    /// The time of the clock by which the instant is: the system's, or that of the timer's last loop, whose lock is held; nil: not known.
    func time(by owner: RunLoopPointer?) -> Int64? {
        if clockNumber == 0 { return Clock.now() }
        return clockNumber == owner?.manualClock?.pointee.number ? owner?.time : nil
    }

    /// Notes by which clock the instant is.
    func setClock(_ clock: ManualClockPointer?) {
        var clocks = TimerState.clocks
        if clock == nil && pointee.state.load(ordering: .relaxed) & clocks == 0 { return }
        let number = clock?.pointee.number ?? 0
        if number < clocks >> 20 { clocks = number << 20 } else { makeRarities().pointee.clock = number }
        pointee.state.store(pointee.state.load(ordering: .relaxed) & ~TimerState.clocks | clocks, ordering: .releasing)
    }

    /// `RLTimerSetReusable`.
    func setReusable(_ isReusable: Bool) {
        let owner = lockTimer()
        let state = pointee.state.load(ordering: .relaxed)
        let isOneShot = state & TimerState.repeats == 0
        pointee.state.store(isReusable && isOneShot ? state | TimerState.reusable : state & ~TimerState.reusable, ordering: .releasing)
        unlockTimer(owner)
    }
}
