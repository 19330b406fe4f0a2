// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension ContinuousClock.Instant {
    /// An instant before every one that the clock shows: a timer set to it is due at once.
    ///
    /// Foundation: `Date.distantPast`.
    public static let distantPast = ContinuousClock.now - .seconds(Dates.distance)

    /// An instant after every one that the clock shows, some two thousand years ahead.
    ///
    /// A timer with this date waits until it gets another one: the library stores the latest date that
    /// it can hold in its place (S-TMR-6).
    ///
    /// Foundation: `Date.distantFuture`.
    public static let distantFuture = ContinuousClock.now + .seconds(Dates.distance)
}

/// Turns the C library's dates into instants and back.
///
/// The library counts a date in seconds of the wall clock since the beginning of 2001 and fixes it on the
/// monotonic clock when it is set (S-TMR-9). An instant is turned into a date in the same moment, so that
/// a wall clock that is set later moves neither. Both directions err on the late side, by the time
/// between two readings of the clocks and the precision of the date, together a few microseconds: a timer
/// is never early (S-TMR-20).
enum Dates {
    /// In seconds; what the distant instants are away, and more than any date is.
    static let distance: Int64 = 64_000_000_000

    /// The date of an instant.
    static func seconds(of instant: ContinuousClock.Instant) -> Double {
        var before = ContinuousClock.now
        var wall = RLAbsoluteTimeGetCurrent()
        for _ in 0..<attempts {
            let after = ContinuousClock.now
            if after - before <= longestPause { break }
            before = after
            wall = RLAbsoluteTimeGetCurrent()
        }
        // The sum and the reading of the clock may each have been rounded down by half a unit.
        return (wall + instant.away(from: before).inSeconds).nextUp.nextUp
    }

    /// The instant so far from now, at most a distant one.
    static func instant(after duration: Duration) -> ContinuousClock.Instant { .now + duration.clamped }

    /// The instant of a date.
    static func instant(of seconds: Double) -> ContinuousClock.Instant {
        var wall = RLAbsoluteTimeGetCurrent()
        var after = ContinuousClock.now
        for _ in 0..<attempts {
            let before = after
            wall = RLAbsoluteTimeGetCurrent()
            after = ContinuousClock.now
            if after - before <= longestPause { break }
        }
        return instant(after, plus: seconds - wall)
    }

    /// The instant so many seconds after another, at most a distant one; a date that is no number is never.
    static func instant(_ instant: ContinuousClock.Instant, plus seconds: Double) -> ContinuousClock.Instant {
        if seconds.isNaN || seconds >= Double(distance) { return .distantFuture }
        if seconds <= -Double(distance) { return .distantPast }
        return instant + .seconds(seconds)
    }

    /// A thread that was interrupted between two readings reads again, but not for ever.
    private static let attempts = 8
    private static var longestPause: Duration { .microseconds(20) }
}

// The standard library stops the program when a sum or a difference does not fit. Every duration and every instant that a program
// gives goes through one of these first.

extension ContinuousClock.Instant {
    /// How long after another, which is a reading of the clock, this one is; at most as long as a distant one.
    func away(from reading: ContinuousClock.Instant) -> Duration {
        // The distant ones are that far from readings at the program's beginning, and clocks run for less than such a distance.
        if self >= .distantFuture { return .seconds(Dates.distance) }
        if self <= .distantPast { return .seconds(-Dates.distance) }
        return self - reading
    }

    /// How long it is until this one, in seconds.
    var secondsFromNow: RLTimeInterval { away(from: .now).inSeconds }
}

extension Duration {
    /// The duration, or the longest one that a date can be away.
    var clamped: Duration { Swift.min(Swift.max(self, .seconds(-Dates.distance)), .seconds(Dates.distance)) }

    /// The duration as the C library takes it, rounded to the nearest double; one that is too long for a date is infinite for the
    /// library too.
    var inSeconds: RLTimeInterval { self / .seconds(1) }

    /// So many seconds, or the longest duration that a date can be away.
    init(seconds: RLTimeInterval) {
        let limit = Double(Dates.distance)
        self = seconds.isNaN ? .zero : .seconds(min(max(seconds, -limit), limit))
    }
}
