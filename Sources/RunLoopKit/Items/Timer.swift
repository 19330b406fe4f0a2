// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// Calls a closure at a date, once or at regular intervals.
///
/// A timer belongs to one loop at a time and may be in several of its modes; it fires when the loop
/// runs one of them, never before its date. A late timer fires once and goes back to its original
/// grid: dates that were missed are dropped (S-TMR-29, S-TMR-30). It keeps its closure until it
/// becomes invalid, and the loop keeps its object while it is in one of the loop's modes (S-NSTM-13).
///
/// Dates are instants of the continuous clock. While the machine is suspended a timer's time stands still:
/// one whose date passed meanwhile may fire that much later (S-TMR-9). One that is made with another ``TimerClock``
/// is due then, or follows the date that the system shows.
///
/// - Threads: all members may be used from any thread; the closure is called on the loop's.
/// - Foundation: `Timer` (`NSTimer`). The product RunLoopKitFoundation adds the forms that take a `Date`
///   and a `TimeInterval`.
/// - CF: `CFRunLoopTimerRef`, which ``getRLTimer()`` gives in its `RL` form.
// Sendable: the stored properties are a constant reference to an object of the C library, whose
// functions may be called from any thread (S-THR-1), and two constant references to Sendable objects.
open class Timer: @unchecked Sendable {
    /// The timer of the C library. This object owns one reference to it.
    let reference: RLTimerRef
    /// What outlasts the validity of the timer; shared with the call-out.
    let record: TimerRecord
    /// Owned by the C library's timer until that becomes invalid.
    weak let closure: TimerClosure?

    /// Makes a timer that is in no loop yet and fires first one interval from now (S-NSTM-2).
    ///
    /// - Parameters:
    ///   - interval: how long until the first call and, if it repeats, between calls. A repeating timer
    ///     takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Threads: any.
    /// - Foundation: `init(timeInterval:repeats:block:)`.
    public convenience init(
        timeInterval interval: Duration, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) {
        let interval = repeats && interval <= .zero ? Timer.shortestInterval : interval
        if Delay.isExact {
            self.init(fire: Delay(duration: interval), interval: interval, repeats: repeats, block: block)
        } else {
            self.init(fire: Dates.instant(after: interval), interval: interval, repeats: repeats, block: block)
        }
    }

    /// Makes a timer that is in no loop yet and fires first at a date (S-NSTM-3).
    ///
    /// - Parameters:
    ///   - date: when to fire first. A past date is due at once, and the grid of a repeating timer
    ///     then starts now (S-TMR-31).
    ///   - interval: how long between calls, if it repeats; otherwise it is ignored.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Threads: any.
    /// - Foundation: `init(fire:interval:repeats:block:)`. CF: `CFRunLoopTimerCreateWithHandler`.
    public init(
        fire date: ContinuousClock.Instant, interval: Duration, repeats: Bool,
        block: @escaping @Sendable (Timer) -> Void
    ) {
        let plan = ContinuousClock.Instant.plan(fire: date, interval: interval, repeats: repeats)
        (reference, record, closure) = Timer.make(plan, block)
        _ = record.object { self }
    }

    /// Makes a timer that is in no loop yet and fires first at a date of any kind that a timer can be made with.
    ///
    /// It is what a subclass calls with Foundation's dates. Otherwise it does what the form with an instant does.
    ///
    /// - Parameters:
    ///   - date: when to fire first.
    ///   - interval: how long between calls, if it repeats.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Threads: any.
    public init<Time: TimerDate>(
        fire date: Time, interval: Time.TimerInterval, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) {
        (reference, record, closure) = Timer.make(Time.plan(fire: date, interval: interval, repeats: repeats), block)
        _ = record.object { self }
    }

    /// Makes a timer that is in no loop yet, fires first at a date, and uses a clock (S-TMR-58).
    ///
    /// - Parameters:
    ///   - date: when to fire first; by every clock a date of the wall clock.
    ///   - interval: how long between calls, if it repeats; otherwise it is ignored.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - clock: the clock that measures the time until the date.
    ///   - name: the initial ``debugName``.
    ///   - block: called with the timer.
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public init<Time: TimerDate>(
        fire date: Time, interval: Time.TimerInterval, repeats: Bool, clock: TimerClock, name: String? = nil,
        block: @escaping @Sendable (Timer) -> Void
    ) {
        (reference, record, closure) = Timer.make(Time.plan(fire: date, interval: interval, repeats: repeats), block, clock)
        setName(of: RLTypeRef(reference), name)
        _ = record.object { self }
    }

    /// Makes a timer that is in no loop yet, fires first one interval from now, and uses a clock (S-TMR-58).
    ///
    /// - Parameters:
    ///   - interval: how long until the first call and, if it repeats, between calls.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - clock: the clock that measures the time until the date.
    ///   - name: the initial ``debugName``.
    ///   - block: called with the timer.
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public convenience init(
        timeInterval interval: Duration, repeats: Bool, clock: TimerClock, name: String? = nil, block: @escaping @Sendable (Timer) -> Void
    ) {
        let interval = repeats && interval <= .zero ? Timer.shortestInterval : interval
        if Delay.isExact {
            self.init(fire: Delay(duration: interval), interval: interval, repeats: repeats, clock: clock, name: name, block: block)
        } else {
            self.init(fire: Dates.instant(after: interval), interval: interval, repeats: repeats, clock: clock, name: name, block: block)
        }
    }

    /// Makes a timer as ``init(timeInterval:repeats:block:)`` does, and adds it to the calling
    /// thread's loop in the default mode (S-NSTM-1).
    ///
    /// - Parameters:
    ///   - interval: how long until the first call and, if it repeats, between calls.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Returns: the timer, which the loop keeps alive until it becomes invalid.
    /// - Threads: any; the calling thread's loop gets the timer and must be run.
    /// - Foundation: `scheduledTimer(withTimeInterval:repeats:block:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    @discardableResult
    public static func scheduledTimer(
        withTimeInterval interval: Duration, repeats: Bool,
        block: @escaping @Sendable (Timer) -> Void
    ) -> Timer {
        let timer = Timer(timeInterval: interval, repeats: repeats, block: block)
        RunLoop.current.add(timer, forMode: .default)
        return timer
    }

    private static func make(
        _ plan: Plan, _ block: @escaping @Sendable (Timer) -> Void, _ clock: TimerClock = .monotonic
    ) -> (RLTimerRef, TimerRecord, TimerClosure) {
        let record = TimerRecord(
            seconds: plan.seconds, instant: plan.instant, interval: plan.interval, intervalSeconds: plan.intervalSeconds,
            goesByWall: clock == .wall)
        let closure = TimerClosure(record: record, block: block)
        var context = RLTimerContext(
            version: 0, info: Unmanaged.passUnretained(closure).toOpaque(),
            retain: retainInfo, release: releaseInfo, copyDescription: nil)
        let made = RLTimerCreateWithClock(clock.number, plan.seconds, plan.intervalSeconds, fireTimer, &context)
        guard let made else { fatalError("RunLoopKit: no memory for a timer") }
        // A date beyond the latest one has become that (S-TMR-6).
        let stored = RLTimerGetNextFireDate(made)
        if stored != plan.seconds { record.set(seconds: stored, instant: nil) }
        return (made, record, closure)
    }

    /// A timer whose object no longer exists, for the time of a call.
    public struct Remains {
        fileprivate let reference: RLTimerRef
        fileprivate let closure: TimerClosure
    }

    /// Stands for the timer during a call of its closure, when its object no longer exists. It is public so that subclasses inherit
    /// the other initializers; programs cannot call it.
    ///
    /// - Parameter remains: what is left of the timer.
    public init(standingFor remains: Remains) {
        reference = remains.reference
        record = remains.closure.record
        closure = remains.closure
        _ = RLRetain(RLTypeRef(remains.reference))
    }

    deinit { RLRelease(RLTypeRef(reference)) }

    /// The timer as the C functions take it, an `RLTimerRef`; valid as long as this object lives. A loop keeps this object until it is
    /// removed by ``RunLoop/remove(_:forMode:)-(Timer,_)``: `RLRemoveTimer` does not let go of it (S-NSTM-13).
    public func getRLTimer() -> OpaquePointer { reference }

    /// What a repeating timer takes in place of an interval of zero or less (S-NSTM-4).
    static var shortestInterval: Duration { .microseconds(100) }

    // MARK: Dates

    /// The date at which the timer fires next; inside its closure, the date being served.
    ///
    /// Setting it moves the timer and starts a new grid from that date. A waiting loop takes it into account at once
    /// (S-TMR-41). Setting it on an invalid timer does nothing, and reading it there gives the last
    /// date (S-NSTM-10). What was set is read back exactly until the timer fires (S-NSTM-12); a date
    /// later than the latest one that the library can hold, in the year 2129, reads as that one.
    ///
    /// - Threads: any.
    /// - Foundation: `fireDate`. CF: `CFRunLoopTimerGetNextFireDate` and `…SetNextFireDate`.
    @_disfavoredOverload
    open var fireDate: ContinuousClock.Instant {
        get { record.instant(of: fireSeconds) }
        set { set(fireSeconds: Dates.seconds(of: newValue), instant: newValue) }
    }

    /// ``fireDate`` as the C library has it, in seconds of the wall clock since the beginning of 2001.
    package var fireSeconds: Double {
        get {
            let seconds = RLTimerGetNextFireDate(reference)
            // The C library says 0 for an invalid timer, which is also a date.
            if seconds == 0, !RLTimerIsValid(reference) { return record.seconds }
            record.seconds = seconds
            return seconds
        }
        set { set(fireSeconds: newValue, instant: nil) }
    }

    private func set(fireSeconds seconds: Double, instant: ContinuousClock.Instant?) {
        guard RLTimerIsValid(reference) else { return }
        RLTimerSetNextFireDate(reference, seconds)
        let stored = RLTimerGetNextFireDate(reference)
        // Another thread may have invalidated it meanwhile; then what was known stays.
        guard RLTimerIsValid(reference) else { return }
        record.set(seconds: stored, instant: stored == seconds ? instant : nil)
    }

    /// Makes a timer whose time begins in a loop, which may have another clock than the calling thread's, and adds it there.
    static func add(
        to loop: RunLoop, forMode mode: RunLoop.Mode, after interval: Duration, repeats: Bool, tolerance: Duration = .zero,
        block: @escaping @Sendable (Timer) -> Void
    ) -> Timer {
        let interval = repeats && interval <= .zero ? Timer.shortestInterval : interval
        let hasOwnClock = RLGetClock(loop.reference) != RLGetClock(RLGetCurrentIfMade())
        // Without a date until it is in the loop, which an automatic clock would go to.
        let timer = hasOwnClock
            ? Timer(fire: NoDate(), interval: interval, repeats: repeats, block: block)
            : Timer(timeInterval: interval, repeats: repeats, block: block)
        timer.tolerance = tolerance
        loop.add(timer, forMode: mode)
        if hasOwnClock { timer.rearm(after: interval) }
        return timer
    }

    /// Moves the timer to a delay from now by the clock of its loop, and starts a new grid there (S-TMR-56).
    ///
    /// Use it for a timeout that is restarted often: setting a clock does not change its length.
    ///
    /// - Parameter delay: zero or less: due at once.
    /// - Threads: any. CF: no counterpart.
    public func rearm(after delay: Duration) {
        guard RLTimerIsValid(reference) else { return }
        // First: the loop may serve the new date before this goes on, and its dates have one anchor.
        record.forgetAnchor()
        RLTimerSetNextFireDelay(reference, delay.clamped.inSeconds)
        let stored = RLTimerGetNextFireDate(reference)
        if RLTimerIsValid(reference) { record.seconds = stored }
    }

    /// Whether a timer that does not repeat stays valid after its call, to be set again; initially false (S-TMR-57).
    ///
    /// After a call that set no date its date is in the distant future. Setting it on a repeating or an invalid timer has no effect.
    ///
    /// - Threads: any. CF: no counterpart.
    public var isReusable: Bool {
        get { record.isReusable }
        set {
            guard RLTimerIsValid(reference), !RLTimerDoesRepeat(reference) else { return }
            record.isReusable = newValue
            RLTimerSetReusable(reference, newValue)
        }
    }

    /// The interval of a repeating timer, zero for one that fires once (S-NSTM-8).
    ///
    /// Foundation: `timeInterval`. CF: `CFRunLoopTimerGetInterval`.
    @_disfavoredOverload
    open var timeInterval: Duration { record.interval }

    /// ``timeInterval`` as it was given to the C library, in seconds.
    package var intervalSeconds: Double { record.intervalSeconds }

    /// How much later than its date the timer may fire, initially zero, so that the loop can serve
    /// several timers with one wake-up (S-TMR-53). The grid does not shift.
    ///
    /// A negative value counts as zero, and a repeating timer takes at most half its interval.
    ///
    /// - Threads: any.
    /// - Foundation: `tolerance`. CF: `CFRunLoopTimerGetTolerance` and `…SetTolerance`.
    @_disfavoredOverload
    open var tolerance: Duration {
        get { Duration(seconds: toleranceSeconds) }
        set { toleranceSeconds = newValue.inSeconds }
    }

    /// ``tolerance`` in seconds.
    package var toleranceSeconds: Double {
        get { RLTimerGetTolerance(reference) }
        set { RLTimerSetTolerance(reference, newValue) }
    }

    // MARK: Life

    /// False after ``invalidate()``, and after the only call of a timer that does not repeat.
    ///
    /// Foundation: `isValid`. CF: `CFRunLoopTimerIsValid`.
    open var isValid: Bool { RLTimerIsValid(reference) }

    /// Removes the timer from its loop permanently and releases its closure; a second call does nothing.
    ///
    /// It may be called inside the closure. From another thread a call of the closure that is under
    /// way goes on, and the timer does not fire again (S-TMR-46). The loop is not woken.
    ///
    /// - Threads: any (S-NSTM-11).
    /// - Foundation: `invalidate()`. CF: `CFRunLoopTimerInvalidate`.
    open func invalidate() {
        _ = fireSeconds
        RLTimerInvalidate(reference)
    }

    /// Calls the closure now, on this thread, whatever the date and the mode.
    ///
    /// A repeating timer keeps its schedule (S-NSTM-5); one that does not repeat becomes invalid after
    /// the call (S-NSTM-6); an invalid one does nothing (S-NSTM-7).
    ///
    /// - Threads: any.
    /// - Foundation: `fire()`. CF: no counterpart.
    open func fire() {
        guard isValid, let closure else { return }
        closure.block(self)
        if !RLTimerDoesRepeat(reference) && !isReusable { invalidate() }
    }

    /// Nil, as for every timer of Foundation that calls a closure: the closure captures what it needs.
    ///
    /// Foundation: `userInfo`.
    open var userInfo: Any? { nil }
}

extension Timer: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same timer.
    public static func == (one: Timer, other: Timer) -> Bool { one.reference == other.reference }

    /// Feeds the identity of the timer to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the timer, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// The C library's call-out. The timer's context has a `retain` function, so the library brackets the
/// call with it (S-TMR-44) and the closure may invalidate the timer.
private func fireTimer(_ reference: RLTimerRef?, _ info: UnsafeMutableRawPointer?) {
    let closure = TimerClosure.unretained(info!)
    let remains = Timer.Remains(reference: reference!, closure: closure)
    let timer = closure.record.object { Timer(standingFor: remains) }
    // A timer that does not repeat is invalid after this; now its date can still be asked for.
    _ = timer.fireSeconds
    closure.block(timer)
}
