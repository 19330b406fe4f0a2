// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// How far the wall clock is ahead of the monotonic one: the offset that converts dates to instants (S-TMR-9).
///
/// It changes only when the wall clock is set: where the kernel slews that clock it slews both. So each thread keeps its reading
/// for less than a millisecond, and for the dates that callbacks set in quick succession between two waits (`rl_clock_memory`). The time is measured by the
/// processor's counter, which on some machines costs a fraction of what a clock costs. A reading is valid on all processors, in one process: `fork` starts anew, because the child may have other clocks.
///
/// A program that computes a date with `RLAbsoluteTimeGetCurrent` after a step of the clock gets it converted by the new clock, on any
/// thread: `noticeStep` compares each reading with the thread's last one, and increments `Process.wallSteps` if it cannot tell that the
/// clock ran evenly. A thread reads that word, then the clocks; while the word is the same there was no such reading after its own.
extension Clock {
    /// How far the wall clock is ahead, and an instant that has not come yet.
    @inline(always)
    static func wallOffset() -> (offset: Int64, latest: Int64) {
        let own = rl_clock_memory_get()!
        if own.pointee.uses > 0 && own.pointee.steps == process.pointee.wallSteps.load(ordering: .relaxed) {
            own.pointee.uses &-= 1
            return (own.pointee.offset, own.pointee.latest)
        }
        return offsetByCounter(own)
    }

    /// The same, if the thread's reading is young enough; otherwise the clocks are read.
    ///
    /// The counter itself takes as long as most of what a change of a date does, and until it is read a processor begins nothing of what follows:
    /// with many timers each call would wait alone for its memory. So a run whose callbacks set many dates looks at it for every sixteenth: also where each callback sets one, of its own timer.
    @inline(never)
    private static func offsetByCounter(_ own: UnsafeMutablePointer<rl_clock_memory>) -> (offset: Int64, latest: Int64) {
        let count = rl_order_of_time()
        let counts = process.pointee.counts.load(ordering: .relaxed)
        // If a counter was set back, the difference wraps to a number larger than any limit.
        guard count &- own.pointee.count < counts, own.pointee.steps == process.pointee.wallSteps.load(ordering: .relaxed) else {
            return readOffset(own, count)
        }
        if own.pointee.in_run {
            own.pointee.quick = count &- own.pointee.looked < counts ? min(own.pointee.quick &+ 1, manyDates) : 0
            own.pointee.looked = count
            if own.pointee.quick == manyDates { own.pointee.uses = manyDates - 1 }
        }
        return (own.pointee.offset, own.pointee.latest)
    }

    /// After so many dates in quick succession the next ones are converted by one look at the counter.
    private static var manyDates: UInt16 { 16 }

    /// The loop that the thread runs is before or behind a wait, which may take any time.
    @inline(always)
    static func beginCallbacks() {
        let own = rl_clock_memory_get()!
        own.pointee.uses = 0
        own.pointee.quick = 0
    }

    /// The thread enters a run, or goes on with the run around it, or with none or with a host's.
    static func enterRun(_ isOwn: Bool) {
        beginCallbacks()
        rl_clock_memory_get()!.pointee.in_run = isOwn
    }

    @inline(never)
    private static func readOffset(_ own: UnsafeMutablePointer<rl_clock_memory>, _ count: UInt64) -> (offset: Int64, latest: Int64) {
        if process.pointee.counts.load(ordering: .relaxed) == 0 {
            process.pointee.counts.store(rl_counts_of_moment(), ordering: .sequentiallyConsistent)
        }
        own.pointee.uses = 0
        let steps = process.pointee.wallSteps.load(ordering: .acquiring)
        guard process.pointee.counts.load(ordering: .relaxed) > 1 else {
            let (offset, tick) = exactOffset()
            return (offset, tick + longestTick)
        }
        own.pointee.latest = now() + moment
        own.pointee.offset = exactOffset().offset
        own.pointee.steps = steps
        own.pointee.count = count
        return (own.pointee.offset, own.pointee.latest)
    }

    /// How far the wall clock is ahead of the monotonic one now, regardless of earlier readings.
    static func wallOffsetNow() -> Int64 { exactOffset().offset }

    /// How far the boot clock is ahead of the monotonic one, or a few nanoseconds less: an instant is late by these, never early. If the
    /// thread was interrupted between the two clocks of a reading, that reading is smaller than the others. While the readings differ by
    /// no more than the time of one, all threads get the first: timers with one date have one instant (S-TMR-21).
    static func bootOffset() -> Int64 {
        let offset = max(bootDistance(), max(bootDistance(), bootDistance()))
        // Relaxed: each reading stands for itself, and of two threads that find a new offset the first one's is kept.
        let known = process.pointee.bootOffset.load(ordering: .relaxed)
        if (offset &- known).magnitude <= 10_000 { return known }
        let (exchanged, original) = process.pointee.bootOffset.compareExchange(expected: known, desired: offset, ordering: .relaxed)
        return exchanged ? offset : original
    }

    @inline(never)
    private static func bootDistance() -> Int64 {
        let boot = read(CLOCK_BOOTTIME)
        return boot - now()
    }

    private static var moment: Int64 { 1_000_000 }

    /// More than the coarse clock can be behind the precise one.
    static var longestTick: Int64 { 100_000_000 }

    /// How far the wall clock is ahead of the monotonic one, and the coarse monotonic time.
    ///
    /// The kernel moves both coarse clocks at once, so between two equal readings of one of them the difference is exact, and an
    /// interruption of the thread is noticed. If the clocks are not coarse, no two readings are equal: after a few attempts the wall clock's
    /// reading before a monotonic one is used, which makes an instant late, never early.
    private static func exactOffset() -> (offset: Int64, tick: Int64) {
        var tick = read(CLOCK_MONOTONIC_COARSE)
        for _ in 0..<8 {
            let wall = read(CLOCK_REALTIME_COARSE)
            let after = read(CLOCK_MONOTONIC_COARSE)
            if after == tick { return (wall - epoch - after, after) }
            tick = after
        }
        let wall = read(CLOCK_REALTIME) - epoch
        let monotonic = now()
        return (wall - monotonic, monotonic)
    }

    /// Compares a reading of the wall clock with one that the thread made a few milliseconds before. If there is none, or the clock
    /// did not advance as the counter did, all threads read their offsets anew. The counter was read just before the clock: a system
    /// call, if the reading is one, is mostly interrupted at its end.
    @inline(never)
    static func noticeStep(_ wall: Int64, _ count: UInt64) {
        let counts = process.pointee.counts.load(ordering: .sequentiallyConsistent)
        // No thread keeps an offset. A thread that begins to says so before it reads the clocks.
        if counts <= 1 { return }
        let own = rl_clock_memory_get()!
        let age = count &- own.pointee.wall_count
        let elapsed = wall &- own.pointee.wall
        let rate = Double(bitPattern: process.pointee.rate.load(ordering: .relaxed))
        if age < counts * 16 {
            if rate != 0 && abs(elapsed - Int64(Double(age) * rate)) <= unevenness { return }
        } else if age < counts * 1024 && elapsed > 0 && elapsed < longestTick * 16 {
            measureRate(Double(elapsed) / Double(age))
        }
        process.pointee.wallSteps.wrappingAdd(1, ordering: .acquiringAndReleasing)
        // Until the rate is known the older reading stays, so that it gets old enough to measure the rate.
        if rate == 0 && age < counts * 16 { return }
        own.pointee.wall_count = count
        own.pointee.wall = wall
    }

    /// The rate is accepted after two successive measurements that agree: a pause of the thread or a step may have disturbed either.
    private static func measureRate(_ rate: Double) {
        let last = Double(bitPattern: process.pointee.measuredRate.exchange(rate.bitPattern, ordering: .relaxed))
        if abs(rate - last) * 256 < rate { process.pointee.rate.store(rate.bitPattern, ordering: .relaxed) }
    }

    /// How far clock and counter may differ between two readings, in nanoseconds: the time of a call, and the kernel's slewing.
    private static var unevenness: Int64 { 4000 }

    /// In the child of `fork`: its clocks may be others, see time_namespaces(7).
    static func forgetWall() { rl_clock_memory_get()!.pointee = rl_clock_memory() }
}
