#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A date on the wall clock, in seconds since 2001-01-01 00:00 UTC.
///
/// Timers are told their dates so. A timer turns its date into an instant of the monotonic clock when
/// the date is set; later changes of the wall clock do not move it (S-TMR-10).
///
/// - Foundation: `Date`; `Date(timeIntervalSinceReferenceDate: time.seconds)` is the same date.
/// - CF: `CFAbsoluteTime`.
public struct AbsoluteTime: Hashable, Comparable, Sendable {
    /// The seconds since the beginning of 2001, negative for earlier dates.
    public var seconds: Double

    /// The date so many seconds after the beginning of 2001.
    public init(seconds: Double) { self.seconds = seconds }

    /// What the wall clock shows.
    ///
    /// CF: `CFAbsoluteTimeGetCurrent`.
    public static var now: AbsoluteTime { AbsoluteTime(seconds: RLAbsoluteTimeGetCurrent()) }

    /// A date before all others: a timer set to it is due at once.
    ///
    /// Foundation: `Date.distantPast`, which is a finite date.
    public static let distantPast = AbsoluteTime(seconds: -.infinity)

    /// A date after all others. A timer stores the latest date it can hold instead (S-TMR-6).
    ///
    /// Foundation: `Date.distantFuture`, which is a finite date.
    public static let distantFuture = AbsoluteTime(seconds: .infinity)

    /// The seconds between the beginning of 1970 and that of 2001.
    public static let secondsFrom1970To2001: Double = kRLAbsoluteTimeIntervalSince1970

    /// Whether `one` is earlier than `other`.
    public static func < (one: AbsoluteTime, other: AbsoluteTime) -> Bool { one.seconds < other.seconds }

    /// The date that much later.
    public static func + (time: AbsoluteTime, duration: Duration) -> AbsoluteTime {
        AbsoluteTime(seconds: time.seconds + duration.inSeconds)
    }

    /// The date that much earlier.
    public static func - (time: AbsoluteTime, duration: Duration) -> AbsoluteTime {
        AbsoluteTime(seconds: time.seconds - duration.inSeconds)
    }
}
