// SPDX-License-Identifier: MIT
/// What is known of a timer also when it is invalid, and the C library has forgotten its date.
final class TimerRecord: Sendable {
    /// The interval as it was given, exactly (S-NSTM-12); zero for a timer that fires once.
    let interval: Duration
    /// The same in seconds, which may be finer than a duration.
    let intervalSeconds: Double

    /// The timer follows the wall clock, which instants do not.
    let goesByWall: Bool

    private struct State {
        /// The date last seen.
        var seconds: Double
        /// An instant and the date that it became, so that the instant that was set is the one that is
        /// read and the grid that starts there stays even. Nil until somebody asks for an instant.
        var anchor: (instant: ContinuousClock.Instant, seconds: Double)?
        /// The object that stands for the timer, as long as anybody has it.
        weak var object: Timer?
        /// It stays valid after its fire.
        var isReusable = false
    }
    private let state: Locked<State>

    init(
        seconds: Double, instant: ContinuousClock.Instant?, interval: Duration, intervalSeconds: Double, goesByWall: Bool = false
    ) {
        self.goesByWall = goesByWall
        self.interval = interval
        self.intervalSeconds = intervalSeconds
        state = Locked(State(seconds: seconds, anchor: instant.map { ($0, seconds) }))
    }

    /// The date last seen.
    var seconds: Double {
        get { state.withLock { $0.seconds } }
        set { state.withLock { $0.seconds = newValue } }
    }

    var isReusable: Bool {
        get { state.withLock { $0.isReusable } }
        set { state.withLock { $0.isReusable = newValue } }
    }

    /// Notes that a date was set, and which instant it stands for; nil if the date is not the one asked for.
    func set(seconds: Double, instant: ContinuousClock.Instant?) {
        state.withLock {
            $0.seconds = seconds
            $0.anchor = instant.map { ($0, seconds) }
        }
    }

    /// A new grid begins.
    func forgetAnchor() { state.withLock { $0.anchor = nil } }

    /// The instant of a date of this timer.
    func instant(of seconds: Double) -> ContinuousClock.Instant {
        if goesByWall {
            // What was set is read as it was set; a later date is an instant by what the wall clock shows now.
            if let anchor = state.withLock({ $0.anchor }), anchor.seconds == seconds { return anchor.instant }
            return Dates.instant(of: seconds)
        }
        if let anchor = state.withLock({ $0.anchor }) { return TimerRecord.instant(of: seconds, from: anchor) }
        let instant = Dates.instant(of: seconds)
        guard seconds.isFinite else { return instant }
        let anchor = state.withLock { state in
            if state.anchor == nil { state.anchor = (instant, seconds) }
            return state.anchor!
        }
        return TimerRecord.instant(of: seconds, from: anchor)
    }

    private static func instant(
        of seconds: Double, from anchor: (instant: ContinuousClock.Instant, seconds: Double)
    ) -> ContinuousClock.Instant {
        if seconds == anchor.seconds { return anchor.instant }
        // A distant instant became a date that is less far away.
        if anchor.instant <= .distantPast || anchor.instant >= .distantFuture { return Dates.instant(of: seconds) }
        return Dates.instant(anchor.instant, plus: seconds - anchor.seconds)
    }

    /// The object that stands for the timer; `make` makes one if nobody has it any more.
    func object(or make: () -> Timer) -> Timer {
        if let object = state.withLock({ $0.object }) { return object }
        let made = make()
        return state.withLock { state in
            if let object = state.object { return object }
            state.object = made
            return made
        }
    }
}

/// What the C library's timer holds on to until it becomes invalid (S-NSTM-9).
///
/// It does not keep a `Timer` object, which would then never die; the record knows the one there is, and the loop keeps it.
// Sendable: all properties are constant and Sendable; the base class has none.
final class TimerClosure: ContextInfo, @unchecked Sendable {
    let record: TimerRecord
    let block: @Sendable (Timer) -> Void

    /// Where the object may be kept: the tables of loops that the timer was added to, also of those that refused it.
    private let keepers = Locked<[KeptTimers]>([])

    /// To be called before the table keeps the object.
    func note(_ timers: KeptTimers) {
        let known = keepers.withLock { $0 }
        if known.contains(where: { $0 === timers }) { return }
        let ended = Set(known.filter(\.isEnded).map { ObjectIdentifier($0) })
        let old = keepers.withLock { keepers in
            let old = keepers
            keepers.removeAll { ended.contains(ObjectIdentifier($0)) }
            keepers.append(timers)
            return old
        }
        withExtendedLifetime((known, old)) {}
    }

    init(record: TimerRecord, block: @escaping @Sendable (Timer) -> Void) {
        self.record = record
        self.block = block
    }

    /// The timer is invalid, or gone.
    deinit { for timers in keepers.withLock({ $0 }) { timers.drop(record) } }
}
