// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A clock that the program moves (S-CLK), which loops use in place of the system's.
///
/// Its monotonic time begins at the time of its creation, and its wall clock is ahead of that by as much as the system's was then; both
/// are whole microseconds. `target` is where the program has moved it. Each loop goes there by itself, from one instant at which it has
/// something to do to the next (`RunLoop+Clock`). A move first announces `goal`, then takes the loops along that rest, and then stores `target`: a
/// loop that goes there and wakes another one finds that it has come along.
struct ManualClock: ~Copyable {
    let header: ObjectHeader
    /// The monotonic time. Only grows. Sequentially consistent with the wake words of the loops: a thread that moves it then makes
    /// them look again, and a loop has read it before its wake word says that it sleeps.
    let target: Atomic<Int64>
    /// Where moves that are under way go; never less than `target`. Only grows. Sequentially consistent: a thread that moves the clock then takes the
    /// locks of the loops, and a loop that begins to rest reads it under its own.
    let goal: Atomic<Int64>
    /// In which process, by its fork generation, `goal` was raised last. Stored before that, and read after it; relaxed beside it.
    let announcer: Atomic<UInt32>
    /// By how much the moves in seconds exceeded the nanoseconds added to `goal`, as the bits of a `Double`. Relaxed: of two
    /// concurrent moves one may be rounded.
    let remainder: Atomic<UInt64>
    /// By how much its wall clock is ahead of its boot clock, in nanoseconds. Sequentially consistent with `RunLoop.clock`, like the next two; see
    /// also `wallOffset`.
    let bootDistance: Atomic<Int64>
    /// For how long the machine was suspended, in nanoseconds: by so much the boot clock is ahead. A suspension changes this word alone, so
    /// that no thread finds the wall clock moved and the boot clock not.
    let suspended: Atomic<Int64>
    /// Whether time goes on by itself when all loops sleep. Each loop looks when it falls asleep.
    let isAutomatic: Atomic<Bool>
    /// Counts how often a loop with the clock fell asleep or stopped running. Sequentially consistent with the wake words and `waiters`.
    let settled: Atomic<UInt32>
    /// Counts how often a loop with the clock was about to fall asleep or to stop running. If it has not changed while each loop was found asleep twice, one
    /// round of looks after the other, all slept when the second began: one that was woken since its first look would have counted before it was
    /// found asleep again. Sequentially consistent with the wake words.
    let turns: Atomic<UInt32>
    /// A loop that was awake at the last look at all: the next look begins there, so that those of N loops that fall asleep one after the other take N
    /// steps. Relaxed.
    let awake: Atomic<RunLoopPointer?>
    /// Threads that wait for `settled` to change.
    let waiters: Atomic<UInt32>
    /// Counts the waits of calls that move it. Sequentially consistent, like the next one.
    let waits: Atomic<Int64>
    /// The greatest number in `waits` after which all loops slept, so that an automatic clock went on. The waits of calls with no greater number are
    /// over: nobody else may see them sleep. Sequentially consistent with `settled`.
    let lastSettled: Atomic<Int64>
    /// By which timers know it, see `TimerState.clocks`; not 0. The clock that was made 2^32 clocks earlier has the same.
    var number: UInt32
    /// Those that have it, see `RunLoop.clock`. Guarded by the registry's lock.
    var loops: RecordList<RunLoop>
}

typealias ManualClockPointer = UnsafeMutablePointer<ManualClock>

extension ManualClock: Object {
    static var type: ObjectType { .clock }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLClock"
        kind.pointee.destroy = { $0.cast(to: ManualClock.self).header.markFreed(); CRunLoopLinux.free($0) }
        kind.pointee.describe = .init { $1.append("time = ", $0.cast(to: ManualClock.self).date(of: nil)) }
    }

    /// Rounded once: the number of nanoseconds as a `Double` would be off by so much that the date may not mean the same microsecond.
    @inline(never)
    fileprivate static func date(ofWallInstant instant: Int64) -> Double {
        let (seconds, rest) = instant.quotientAndRemainder(dividingBy: 1_000_000_000)
        return Double(seconds) + Double(rest) / 1e9
    }

    static func make() -> ManualClockPointer {
        let clock = makeRecord(ManualClock.self)
        let now = Clock.now() / 1000 * 1000
        clock.pointee.target.store(now, ordering: .relaxed)
        clock.pointee.goal.store(now, ordering: .relaxed)
        clock.noteAnnouncer()
        // Not from two readings: the thread may be interrupted between them.
        clock.pointee.bootDistance.store((Clock.wallOffsetNow() + 999) / 1000 * 1000, ordering: .relaxed)
        let count = process.pointee.manualClocks.wrappingAdd(1, ordering: .relaxed).newValue
        clock.pointee.number = UInt32(truncatingIfNeeded: count)
        clock.initializeHeader()
        return clock
    }

    /// Where time ends, 126 years after the machine's start: with any date that a clock can show the sums stay below 2^63. All suspensions
    /// together last as long at most.
    static var latest: Int64 { 4_000_000_000_000_000_000 }
    /// A clock shows no earlier date, that of 1970.
    static var earliestDate: Double { -978_307_200 }

    /// Half a nanosecond: a delay is rounded to the nearest whole one, and not up, so that a timer which is set again and again by a delay does
    /// not fall behind the moves.
    static var rounding: Double { 5e-10 }

    /// An instant that is later than the clock's time by no more than this counts as reached: below a microsecond, to allow for
    /// half of one in rounding to whole ones, and for the errors of sums of `Double`.
    static var slack: Int64 { 900 }
}

extension UnsafeMutablePointer where Pointee == ManualClock {
    var time: Int64 { pointee.target.load(ordering: .sequentiallyConsistent) }
    var goal: Int64 { pointee.goal.load(ordering: .sequentiallyConsistent) }
    var suspended: Int64 { pointee.suspended.load(ordering: .sequentiallyConsistent) }
    var bootDistance: Int64 { pointee.bootDistance.load(ordering: .sequentiallyConsistent) }
    /// By how much the wall clock is ahead of the monotonic one. Never the sum of a word from before another thread's calls and one from
    /// after them.
    @inline(never)
    var wallOffset: Int64 {
        var distance = bootDistance
        while true {
            let offset = distance + suspended
            let again = bootDistance
            if again == distance { return offset }
            distance = again
        }
    }
    /// The date of a loop's own time, or of what the clock shows, after `endMoves` if none may be ahead of that. Never that of a time from before another
    /// thread's calls and an offset from after them.
    @inline(never)
    func date(of loop: RunLoopPointer?) -> Double {
        var offset = wallOffset
        while true {
            let instant = loop?.clockTime ?? time
            let again = wallOffset
            if again == offset { return ManualClock.date(ofWallInstant: instant + offset) }
            offset = again
        }
    }

    func date(ofInstant instant: Int64) -> Double { ManualClock.date(ofWallInstant: instant + wallOffset) }

    @inline(never)
    func microseconds(_ date: Double) -> Int64 {
        (Swift.min(Swift.max(date, -Clock.latestDate), Clock.latestDate) * 1e6).nearest
    }

    /// The instant of a date (S-CLK-4), `now` for a past one.
    func instant(ofDate date: Double, now: Int64) -> Int64 {
        if date.isNaN { return Clock.never }
        let instant = microseconds(date) * 1000 - wallOffset
        return Swift.max(now, Swift.min(instant, now + Clock.nanoseconds(Clock.longestInterval)))
    }

    /// The loops that rest have come to an announced instant.
    func arrive(at instant: Int64) { pointee.target.raise(to: instant) }

    /// In the child of `fork`: whoever announced a move does not come to its end here, so it has been made.
    func finishMove() { arrive(at: goal) }

    /// The same for a clock that was no loop's at the fork, which the child finds when it is used.
    @inline(never)
    func finishLostMove() {
        if goal != time && pointee.announcer.load(ordering: .relaxed) != process.pointee.forkGeneration.load(ordering: .relaxed) {
            finishMove()
        }
    }

    /// Announces a move to an instant, if that is later.
    func announce(_ instant: Int64) {
        noteAnnouncer()
        pointee.goal.raise(to: instant)
    }

    @inline(__always)
    fileprivate func noteAnnouncer() {
        pointee.announcer.store(process.pointee.forkGeneration.load(ordering: .relaxed), ordering: .relaxed)
    }

    /// Announces a move by so many seconds and returns where it goes. Several threads may do so at once.
    func announce(by seconds: Double) -> Int64 {
        guard seconds > 0 else { return goal }
        let exact = Swift.min(seconds, Clock.longestInterval) * 1e9 + Double(bitPattern: pointee.remainder.load(ordering: .relaxed))
        let distance = exact.nearest
        pointee.remainder.store((exact - Double(distance)).bitPattern, ordering: .relaxed)
        noteAnnouncer()
        var time = goal
        while true {
            let instant = Swift.min(time + distance, ManualClock.latest)
            let (exchanged, original) = pointee.goal.compareExchange(expected: time, desired: instant, ordering: .sequentiallyConsistent)
            if exchanged { return instant }
            time = original
        }
    }

    /// Dates from now on mean this time; instants that were set before stay (S-CLK-10).
    func setWallTime(_ date: Double) {
        pointee.bootDistance.store(
            microseconds(Swift.max(date, ManualClock.earliestDate)) * 1000 - time - suspended, ordering: .sequentiallyConsistent)
    }

    /// The wall clock goes on, the monotonic one does not.
    func suspend(for seconds: Double) {
        guard seconds > 0 else { return }
        let distance = microseconds(Swift.min(seconds, Clock.longestInterval)) * 1000
        var before = suspended
        while before + distance <= ManualClock.latest && Double(time + bootDistance + before) / 1e9 < Clock.latestDate {
            let (exchanged, original) = pointee.suspended.compareExchange(
                expected: before, desired: before + distance, ordering: .sequentiallyConsistent)
            if exchanged { return }
            before = original
        }
    }

    /// A loop with the clock is about to fall asleep, or to stop running.
    func expectSettled() { pointee.turns.wrappingAdd(1, ordering: .sequentiallyConsistent) }

    /// It has done so.
    func tellSettled() {
        pointee.settled.wrappingAdd(1, ordering: .sequentiallyConsistent)
        if pointee.waiters.load(ordering: .sequentiallyConsistent) != 0 { pointee.settled.futexWakeAll() }
    }
}

extension Atomic where Value == Int64 {
    @inline(never)
    func raise(to value: Int64) {
        var current = load(ordering: .sequentiallyConsistent)
        while current < value {
            let (exchanged, original) = compareExchange(expected: current, desired: value, ordering: .sequentiallyConsistent)
            if exchanged { return }
            current = original
        }
    }
}

extension Double {
    /// The nearest whole number, for values below 2^62; no call into libm.
    fileprivate var nearest: Int64 { Int64(self < 0 ? self - 0.5 : self + 0.5) }
}
