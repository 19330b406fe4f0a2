// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Times as the kernel reports them: nanoseconds in an `Int64`, and seconds since 2001 in a `Double` for the C interface.
enum Clock {
    /// No instant: a deadline that never comes, a timer that never fires.
    static var never: Int64 { .max }

    /// The monotonic clock, in nanoseconds. Deadlines and fire instants are read against it. Not inlined: a call is little beside a reading.
    @inline(never)
    static func now() -> Int64 {
        read(CLOCK_MONOTONIC)
    }

    /// The wall clock, in nanoseconds since 2001-01-01 00:00 UTC.
    static func wallNow() -> Int64 {
        let count = rl_order_of_time()
        let wall = read(CLOCK_REALTIME) - epoch
        noticeStep(wall, count)
        return wall
    }

    /// 2001-01-01 00:00 UTC, in nanoseconds since 1970.
    static var epoch: Int64 { 978_307_200_000_000_000 }

    /// A longer interval is treated as this (S-RUN-19, S-TMR-5): about sixteen years.
    static var longestInterval: Double { 504_911_232.0 }

    /// How long to wait before a request for which the kernel had no room is repeated: a tenth of a second.
    static var retryDelay: Int64 { 100_000_000 }

    /// A later date is treated as this (S-TMR-6): the year 2129.
    static var latestDate: Double { 4_039_289_856.0 }

    /// An earlier date is certainly past: 1970. No wall clock shows an earlier date, see clock_settime(2).
    static var earliestDate: Double { -978_307_200.0 }

    /// Seconds in nanoseconds, rounded up, for `earliestDate` <= seconds <= `latestDate`.
    @inline(always)
    static func nanoseconds(_ seconds: Double) -> Int64 {
        let exact = seconds * 1e9
        let whole = Int64(exact)
        return Double(whole) < exact ? whole + 1 : whole
    }

    /// The same without a check of the limits.
    @inline(always)
    private static func nanoseconds(ofDate date: Double) -> Int64 {
        let exact = date * 1e9
        let whole = rl_whole(exact)
        return Double(whole) < exact ? whole &+ 1 : whole
    }

    /// The monotonic instant of a wall-clock date (S-TMR-9), due now for a past date, and how far the wall clock is ahead of the
    /// monotonic one. The precise clock is read only for a date that is not clearly in the future, or too far in it.
    @inline(always)
    static func instant(ofDate date: Double) -> (instant: Int64, wallOffset: Int64) {
        let (offset, latest) = wallOffset()
        if date > earliestDate {
            // Neither overflows: the dates are those of three centuries, and the clocks show times of such a length.
            let instant = nanoseconds(ofDate: min(date, latestDate)) &- offset
            if instant > latest && instant &- latest < nanoseconds(longestInterval) - longestTick { return (instant, offset) }
            return (nearInstant(instant), offset)
        }
        return (date.isNaN ? never : dueNow(), offset)
    }

    @inline(never)
    private static func nearInstant(_ instant: Int64) -> Int64 {
        let monotonic = now()
        return instant > monotonic ? min(instant, monotonic + nanoseconds(longestInterval)) : dueNow(monotonic)
    }

    @inline(always)
    static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// The time against which timers are due. If the clock is too coarse to distinguish the instants that `dueNow` returned, timers with
    /// those instants are due too.
    @inline(always)
    static func dueLimit(_ now: Int64) -> Int64 {
        max(now, process.pointee.lastDueInstant.load(ordering: .relaxed))
    }

    /// True: the instant is one that `dueNow` returned, or an earlier one. False says nothing.
    @inline(always)
    static func hasCome(_ instant: Int64) -> Bool { instant <= process.pointee.lastDueInstant.load(ordering: .relaxed) }

    /// An instant that has come, later than every one this returned before: timers made due fire in the order in which
    /// they were made due, however coarse the clock is (S-TMR-22).
    @inline(always)
    static func dueNow(_ monotonic: Int64 = now()) -> Int64 {
        var previous = process.pointee.lastDueInstant.load(ordering: .relaxed)
        while true {
            let instant = max(monotonic, previous + 1)
            let (exchanged, original) = process.pointee.lastDueInstant.weakCompareExchange(
                expected: previous, desired: instant, ordering: .relaxed)
            if exchanged { return instant }
            previous = original
        }
    }
}
