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
/// becomes invalid.
///
/// - Threads: all members may be used from any thread; the closure is called on the loop's.
/// - Foundation: `Timer` (`NSTimer`). A file that imports Foundation as well chooses this class with
///   `import class RunLoopKit.Timer`.
/// - CF: `CFRunLoopTimerRef`, which ``getRLTimer()`` gives in its `RL` form.
// Sendable: the stored properties are a constant reference to an object of the C library, whose
// functions may be called from any thread (S-THR-1), and two constant references to Sendable objects.
public final class Timer: @unchecked Sendable {
    /// The timer of the C library. This object owns one reference to it.
    let reference: RLTimerRef
    /// What outlasts the validity of the timer; shared by all objects that stand for it.
    private let record: TimerRecord
    /// Owned by the C library's timer until that becomes invalid.
    private weak let closure: TimerClosure?

    /// Makes a timer that is in no loop yet and fires first one interval from now (S-NSTM-2).
    ///
    /// - Parameters:
    ///   - interval: how long until the first call and, if it repeats, between calls. A repeating timer
    ///     takes at least a tenth of a millisecond in place of zero or less (S-NSTM-4).
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: is given the timer.
    /// - Threads: any.
    /// - Foundation: `init(timeInterval:repeats:block:)`.
    public convenience init(
        timeInterval interval: Duration, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) {
        let interval = Timer.usable(interval, repeats: repeats)
        self.init(fire: .now + interval, interval: interval, repeats: repeats, block: block)
    }

    /// Makes a timer that is in no loop yet and fires first at a date (S-NSTM-3).
    ///
    /// - Parameters:
    ///   - date: when to fire first. A past date is due at once, and the grid of a repeating timer
    ///     then starts now (S-TMR-31).
    ///   - interval: how long between calls, if it repeats; otherwise it is ignored.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: is given the timer.
    /// - Threads: any.
    /// - Foundation: `init(fire:interval:repeats:block:)`. CF: `CFRunLoopTimerCreateWithHandler`.
    public init(
        fire date: AbsoluteTime, interval: Duration, repeats: Bool,
        block: @escaping @Sendable (Timer) -> Void
    ) {
        let interval = repeats ? Timer.usable(interval, repeats: true) : .zero
        let record = TimerRecord(interval: interval, fireDate: date)
        let closure = TimerClosure(record: record, block: block)
        var context = RLTimerContext(
            version: 0, info: Unmanaged.passUnretained(closure).toOpaque(),
            retain: retainInfo, release: releaseInfo, copyDescription: nil)
        let made = RLTimerCreate(date.seconds, interval.inSeconds, 0, 0, fireTimer, &context)
        guard let made else { fatalError("RunLoopKit: no memory for a timer") }
        reference = made
        self.record = record
        self.closure = closure
    }

    /// Makes a timer as ``init(timeInterval:repeats:block:)`` does, and adds it to the calling
    /// thread's loop in the default mode (S-NSTM-1).
    ///
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

    /// Stands for the timer during a call of its closure.
    fileprivate init(wrapping reference: RLTimerRef, closure: TimerClosure) {
        self.reference = reference
        record = closure.record
        self.closure = closure
        _ = RLRetain(RLTypeRef(reference))
    }

    deinit { RLRelease(RLTypeRef(reference)) }

    /// The timer as the C functions take it, an `RLTimerRef`; valid as long as this object is.
    public func getRLTimer() -> OpaquePointer { reference }

    private static func usable(_ interval: Duration, repeats: Bool) -> Duration {
        repeats && interval <= .zero ? .microseconds(100) : interval
    }
}

// MARK: - Dates

extension Timer {
    /// The date at which the timer fires next; inside its closure, the date being served.
    ///
    /// Setting it moves the timer and starts a new grid from that date. A waiting loop obeys at once
    /// (S-TMR-41). Setting it on an invalid timer does nothing, and reading it there gives the last
    /// date (S-NSTM-10).
    ///
    /// - Threads: any.
    /// - Foundation: `fireDate`. CF: `CFRunLoopTimerGetNextFireDate` and `…SetNextFireDate`.
    public var fireDate: AbsoluteTime {
        get {
            let seconds = RLTimerGetNextFireDate(reference)
            // The C library says 0 for an invalid timer, which is also a date.
            if seconds == 0, !RLTimerIsValid(reference) { return record.fireDate }
            record.fireDate = AbsoluteTime(seconds: seconds)
            return AbsoluteTime(seconds: seconds)
        }
        set {
            RLTimerSetNextFireDate(reference, newValue.seconds)
            _ = fireDate
        }
    }

    /// The interval of a repeating timer, zero for one that fires once (S-NSTM-8).
    ///
    /// Foundation: `timeInterval`. CF: `CFRunLoopTimerGetInterval`.
    public var timeInterval: Duration { record.interval }

    /// How much later than its date the timer may fire, zero at first, so that the loop can serve
    /// several timers with one wake-up (S-TMR-53). The grid does not shift.
    ///
    /// A negative value counts as zero, and a repeating timer takes at most half its interval.
    ///
    /// - Threads: any.
    /// - Foundation: `tolerance`. CF: `CFRunLoopTimerGetTolerance` and `…SetTolerance`.
    public var tolerance: Duration {
        get { .seconds(RLTimerGetTolerance(reference)) }
        set { RLTimerSetTolerance(reference, newValue.inSeconds) }
    }
}

// MARK: - Life

extension Timer {
    /// False after ``invalidate()``, and after the only call of a timer that does not repeat.
    ///
    /// Foundation: `isValid`. CF: `CFRunLoopTimerIsValid`.
    public var isValid: Bool { RLTimerIsValid(reference) }

    /// Takes the timer out of its loop for good and releases its closure; again: nothing.
    ///
    /// It may be called inside the closure. From another thread a call of the closure that is under
    /// way goes on, and the timer does not fire again (S-TMR-46). The loop is not woken.
    ///
    /// - Threads: any (S-NSTM-11).
    /// - Foundation: `invalidate()`. CF: `CFRunLoopTimerInvalidate`.
    public func invalidate() {
        _ = fireDate
        RLTimerInvalidate(reference)
    }

    /// Calls the closure now, on this thread, whatever the date and the mode.
    ///
    /// A repeating timer keeps its schedule (S-NSTM-5); one that does not repeat becomes invalid after
    /// the call (S-NSTM-6); an invalid one does nothing (S-NSTM-7).
    ///
    /// - Threads: any.
    /// - Foundation: `fire()`. CF: no counterpart.
    public func fire() {
        guard isValid, let closure else { return }
        closure.block(self)
        if !RLTimerDoesRepeat(reference) { invalidate() }
    }
}

extension Timer: Hashable, CustomStringConvertible {
    /// Two objects are equal when they stand for the same timer.
    public static func == (one: Timer, other: Timer) -> Bool { one.reference == other.reference }

    /// Feeds the identity of the timer to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// What the C library says of the timer, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// The C library's call-out. The timer's context has a `retain` function, so the library brackets the
/// call with it (S-TMR-44) and the closure may invalidate the timer.
private func fireTimer(_ reference: RLTimerRef?, _ info: UnsafeMutableRawPointer?) {
    let closure = TimerClosure.unretained(info!)
    let timer = Timer(wrapping: reference!, closure: closure)
    // A timer that does not repeat is invalid after this; now its date can still be asked for.
    _ = timer.fireDate
    closure.block(timer)
}
