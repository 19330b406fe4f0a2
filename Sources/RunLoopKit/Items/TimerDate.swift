// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// The dates that timers can be made with.

/// A date that a timer can be made with: an instant, and in RunLoopKitFoundation a `Date`.
public protocol TimerDate {
    /// How long between two calls of a timer.
    associatedtype TimerInterval

    /// What a timer is made of.
    ///
    /// - Parameters:
    ///   - date: when to fire first.
    ///   - interval: how long between calls, if it repeats.
    ///   - repeats: false for a timer that fires once.
    static func plan(fire date: Self, interval: TimerInterval, repeats: Bool) -> Timer.Plan
}

extension ContinuousClock.Instant: TimerDate {
    /// What a timer is made of; a repeating one takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
    public static func plan(fire date: Self, interval: Duration, repeats: Bool) -> Timer.Plan {
        let interval = !repeats ? .zero : interval <= .zero ? Timer.shortestInterval : interval
        return Timer.Plan(
            seconds: Dates.seconds(of: date), instant: date, interval: interval, intervalSeconds: interval.inSeconds)
    }
}

/// In place of the date of a timer that fires so far from now by the clock of the calling thread's loop, which may stand still: an instant would be
/// turned into a date by another reading of a clock that does not.
struct Delay: TimerDate {
    let duration: Duration

    /// Whether the calling thread's loop has a clock that the program moves.
    static var isExact: Bool { RLGetClock(RLGetCurrentIfMade()) != nil }

    static func plan(fire date: Delay, interval: Duration, repeats: Bool) -> Timer.Plan {
        Timer.Plan(
            seconds: RLAbsoluteTimeGetCurrent() + date.duration.clamped.inSeconds, instant: nil, interval: repeats ? interval : .zero,
            intervalSeconds: repeats ? interval.inSeconds : 0)
    }
}

/// In place of the date of a timer that gets one later.
struct NoDate: TimerDate {
    static func plan(fire date: NoDate, interval: Duration, repeats: Bool) -> Timer.Plan {
        let interval = repeats ? interval : .zero
        return Timer.Plan(seconds: .nan, instant: nil, interval: interval, intervalSeconds: interval.inSeconds)
    }
}

extension Timer {
    /// What a timer is made of, in the C library's dates.
    public struct Plan {
        let seconds: Double
        let instant: ContinuousClock.Instant?
        let interval: Duration
        let intervalSeconds: Double

        init(seconds: Double, instant: ContinuousClock.Instant?, interval: Duration, intervalSeconds: Double) {
            self.seconds = seconds
            self.instant = instant
            self.interval = interval
            self.intervalSeconds = intervalSeconds
        }

        /// For the dates of other modules, in seconds of the wall clock since the beginning of 2001.
        package init(seconds: Double, intervalSeconds: Double, repeats: Bool) {
            let interval = !repeats ? 0 : intervalSeconds > 0 ? intervalSeconds : Timer.shortestInterval.inSeconds
            self.init(
                seconds: seconds, instant: nil, interval: Duration(seconds: interval), intervalSeconds: interval)
        }
    }
}
