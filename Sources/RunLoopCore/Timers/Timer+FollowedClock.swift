// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The clock by which a timer goes; the raw values are those of `RLTimerClock`.
enum TimerClock: Int32 {
    case monotonic = 0
    case boot = 1
    case wall = 2
}

/// Timers that go by the boot clock or the wall clock (S-TMR-58 to 62).
///
/// Stores and waits use the monotonic clock alone. Such a timer also has its time on its own clock, `TimerRarities.target`, and its instant
/// is the equivalent on the monotonic clock. The instant is computed anew when the timer comes into a loop, when its date is set, after a
/// fire, and when a clock was changed (`ClockChanges`). It is also checked in the timer's turn, so that a timer does not fire early because
/// the loop was faster than the report of a clock that was set back.
///
/// All is done under the lock of the loop that is passed; nil is passed for a timer that is in none, which goes by the system's clocks.
extension UnsafeMutablePointer where Pointee == Timer {
    @inline(always) var followsClock: Bool { pointee.state.load(ordering: .relaxed) & TimerState.followsClock != 0 }

    /// It stays valid after a fire.
    var firesAgain: Bool { pointee.state.load(ordering: .relaxed) & (TimerState.repeats | TimerState.reusable) != 0 }

    /// Its callback has set its date, and has not moved it to another loop.
    fileprivate func hasSetDate(in loop: RunLoopPointer) -> Bool {
        pointee.state.load(ordering: .relaxed) & TimerState.dateSet != 0 && isGuarded(by: loop)
    }

    private var isByWall: Bool { pointee.state.load(ordering: .relaxed) & TimerState.wall != 0 }

    var clock: TimerClock { !followsClock ? .monotonic : isByWall ? .wall : .boot }

    /// `RLTimerCreateWithClock`.
    @inline(never)
    static func make(
        date: Double, interval: Double, clock: TimerClock, callout: TimerFunction?, context: ClientContext
    ) -> TimerPointer {
        if clock == .monotonic { return make(date: date, interval: interval, order: 0, callout: callout, context: context) }
        ClockChanges.listen()
        let timer = make(date: .nan, interval: interval, order: 0, callout: callout, context: context)
        _ = timer.makeRarities()
        timer.pointee.state.bitwiseOr(clock == .wall ? TimerState.wall : TimerState.boot, ordering: .relaxed)
        timer.setFollowedDate(date, isDelay: false, by: nil)
        return timer
    }

    /// By how much the timer's clock is ahead of the monotonic one.
    private func offset(_ loop: RunLoopPointer?) -> Int64 {
        if let manual = loop?.manualClock { return isByWall ? manual.wallOffset : manual.suspended }
        return isByWall ? Clock.wallOffsetNow() : Clock.bootOffset()
    }

    /// Later than any clock comes, and early enough for the longest interval to be added.
    private var latestTarget: Int64 { 8_700_000_000_000_000_000 }

    /// Sets the date; `isDelay`: to so many seconds from now.
    @inline(never)
    func setFollowedDate(_ date: Double, isDelay: Bool, by loop: RunLoopPointer?) {
        let manual = loop?.manualClock
        let now = loop?.time ?? Clock.now()
        let offset = offset(loop)
        // With one reading of the suspension for both clocks: another thread may begin one meanwhile.
        let wallOffset = isByWall ? offset : manual.map { $0.bootDistance + offset } ?? Clock.wallOffsetNow()
        var target = now + offset
        var fireDate = date > Clock.latestDate ? Clock.latestDate : date
        if date.isNaN {
            target = Clock.never
        } else if isDelay {
            let delay = Swift.min(date, Clock.longestInterval)
            target += delay > 0 ? Clock.nanoseconds(manual == nil ? delay : delay - ManualClock.rounding) : 0
            fireDate = delay > 0 ? Swift.min(Double(now + wallOffset) / 1e9 + delay, Clock.latestDate) : -.infinity
        } else if date > Clock.earliestDate {
            target = manual.map { $0.microseconds(fireDate) * 1000 } ?? Clock.nanoseconds(fireDate)
            // No clock of a program shows later times than the last.
            if !isByWall { target = Swift.min(Swift.max(target - wallOffset, now), latestTarget - offset) + offset }
        }
        details.pointee.fireDate = fireDate
        details.pointee.rare.unsafelyUnwrapped.pointee.target = target
        if repeats {
            grid.pointee.wallOffset = wallOffset - offset
            grid.pointee.fraction = 0
        }
        pointee.instant = Clock.never
        follow(loop)
    }

    /// Computes the instant of the timer's time; true if that time has come. If so the timer keeps an instant that has come as well, and
    /// with it its place in the order; but after a change of its clock all that are due are as late as their dates, so that the earlier dates
    /// come first. Then the caller puts its nodes back.
    @inline(never) @discardableResult
    func follow(_ loop: RunLoopPointer?, isChange: Bool = false) -> Bool {
        let target = details.pointee.rare.unsafelyUnwrapped.pointee.target
        if target == Clock.never {
            pointee.instant = Clock.never
            return false
        }
        // Far below zero where a clock was set back after it had run for a century.
        let (difference, isFar) = target.subtractingReportingOverflow(offset(loop))
        let now = loop?.time ?? Clock.now()
        var instant = isFar ? Clock.never : difference
        // No clock shows a time before that date.
        let longest = Clock.nanoseconds(Clock.longestInterval)
        if details.pointee.fireDate <= Clock.earliestDate { instant = isChange ? now - longest : Swift.min(instant, now) }
        let isManual = loop?.manualClock != nil
        if instant > now {
            pointee.instant = Swift.min(instant, now + longest)
        } else if pointee.instant == Clock.never {
            pointee.instant = isManual ? now : Clock.dueNow(now)
        } else if isChange || pointee.instant > (isManual ? now : Clock.dueLimit(now)) {
            pointee.instant = Swift.min(pointee.instant, Swift.max(instant, now - longest))
        }
        return instant <= now
    }

    /// After a fire: the next date of a repeating timer, or the one that the callback set. Returns how many dates were left out.
    @inline(never)
    func goOnByOwnClock(_ loop: RunLoopPointer?, _ state: UInt32) -> Double {
        var skipped = 0.0
        let rare = details.pointee.rare.unsafelyUnwrapped
        if state & (TimerState.dateSet | TimerState.repeats) == TimerState.repeats {
            // The same arithmetic, on the timer's own clock.
            pointee.instant = rare.pointee.target
            let now = (loop?.time ?? Clock.now()) + offset(loop)
            // Of a date far beyond all others it is not told how far.
            grid.pointee.wallOffset = Swift.min(grid.pointee.wallOffset, latestTarget - Swift.max(now, 0))
            skipped = advance(past: now)
            rare.pointee.target = pointee.instant
            pointee.instant = Clock.never
        } else if state & TimerState.dateSet == 0 {
            disarm()
            rare.pointee.target = Clock.never
        }
        follow(loop)
        return skipped
    }

    /// The same for a timer that is in stores, and in no callback.
    @inline(never)
    fileprivate func followInStores(_ loop: RunLoopPointer) {
        let former = pointee.instant
        follow(loop, isChange: true)
        if pointee.instant != former { putBack(from: former) }
    }

    /// It is about to be destroyed. No lock is held.
    @inline(never)
    func leaveFollowers() {
        let owner = lockTimerInACall()
        owner?.pointee.followers.remove(self)
        unlockTimerInACall(owner)
    }

    /// `moveInStores` for a timer whose date is as before.
    @inline(never)
    func putBack(from former: Int64) {
        forEachNode { node in
            if node.pointee.isTombstone || node.pointee.isInBatch && keepsTurn(node) { return }
            node.pointee.mode!.pointee.timers.move(node, from: former)
        }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    @inline(never)
    private func note(_ timer: TimerPointer, _ timers: inout GrowingArray<TimerPointer>) { timers.append(timer) }

    /// A clock was changed, the system's or the loop's own: computes the instants of the timers that go by it. Any thread, with no lock.
    func followClocks(_ clock: ManualClockPointer?) {
        guard pointee.followsClocks.load(ordering: .sequentiallyConsistent) else { return }
        let isOwner = isCurrent
        lock(owner: isOwner)
        // While the thread lives the modes stay allocated.
        guard pointee.threadAlive.load(ordering: .relaxed), manualClock == clock else { return unlock(owner: isOwner) }
        var timers = GrowingArray<TimerPointer>()
        var hasMembers = false
        pointee.followers.forEach { timer in
            // A timer in its callback is put back when that returns. The date that it has set counts for who moves the clock before that.
            if timer.isFiring {
                if timer.hasSetDate(in: self) { timer.follow(self, isChange: true) }
                return
            }
            note(timer, &timers)
            timer.forEachNode { if $0.pointee.isInBatch { hasMembers = true } }
        }
        // Members of a batch are put back in the order in which they stand there.
        if hasMembers {
            timers.free()
            forEachModeRecord { mode in
                mode.pointee.timers.forEachMember {
                    // Not those that were added in their callbacks.
                    if $0.timer.followsClock && !$0.timer.isFiring { note($0.timer, &timers) }
                    return true
                }
            }
        }
        for index in 0..<timers.count {
            let timer = timers[index]
            if timer.isInLoop { timer.followInStores(self) } else { pointee.followers.remove(timer) }
        }
        unlock(owner: isOwner)
        // The wait goes on with the new instants: a change that makes nothing due causes no pass.
        if timers.count > 0 { lookAgainIfForeign() }
        timers.free()
    }
}

extension UnsafeMutablePointer where Pointee == ManualClock {
    /// The clock was set, or the machine suspended (S-TMR-63).
    func followClocks() {
        forEachLoop { loop in
            loop.followClocks(self)
            // The instants that they sleep for have changed.
            if loop.isCurrent { loop.lookAgainIfForeign() } else { loop.lookAgain() }
        }
    }
}
