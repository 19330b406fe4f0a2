// SPDX-License-Identifier: MIT
extension Timer {
    /// Makes a timer that is in no loop yet and fires first one interval from now (S-NSTM-2).
    ///
    /// - Parameters:
    ///   - interval: how many seconds until the first call and, if it repeats, between calls. A repeating
    ///     timer takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Threads: any.
    public convenience init(
        timeInterval interval: TimeInterval, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) {
        let delay = repeats && !(interval > 0) ? 0.0001 : interval
        self.init(fire: Date.afterDelay(delay), interval: delay, repeats: repeats, block: block)
    }

    /// Makes a timer that is in no loop yet and fires first at a date (S-NSTM-3).
    ///
    /// - Parameters:
    ///   - date: when to fire first. A past date is due at once, and the grid of a repeating timer then
    ///     starts now (S-TMR-31).
    ///   - interval: how many seconds between calls, if it repeats; otherwise it is ignored.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Threads: any.
    @_disfavoredOverload
    public convenience init(
        fire date: Date, interval: TimeInterval, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) {
        self.init(time: date, interval, repeats, block)
    }

    /// Makes a timer that is in no loop yet, fires first one interval from now, and goes by a clock (S-TMR-58).
    ///
    /// - Parameters:
    ///   - interval: how many seconds until the first call and, if it repeats, between calls.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - clock: by which the time until the date goes; with `wall` the timer follows the date that the system shows.
    ///   - name: what `debugName` is at first.
    ///   - block: is given the timer.
    /// - Threads: any.
    public convenience init(
        timeInterval interval: TimeInterval, repeats: Bool, clock: TimerClock, name: String? = nil, block: @escaping @Sendable (Timer) -> Void
    ) {
        let delay = repeats && !(interval > 0) ? 0.0001 : interval
        self.init(fire: Date.afterDelay(delay), interval: delay, repeats: repeats, clock: clock, name: name, block: block)
    }

    /// Makes a timer as `init(timeInterval:repeats:block:)` does, and adds it to the calling thread's loop in
    /// the default mode (S-NSTM-1).
    ///
    /// - Parameters:
    ///   - interval: how many seconds until the first call and, if it repeats, between calls.
    ///   - repeats: false for a timer that becomes invalid after its first call.
    ///   - block: called with the timer.
    /// - Returns: the timer, which the loop keeps alive until it becomes invalid.
    /// - Threads: any; the calling thread's loop gets the timer and must be run.
    @discardableResult
    public static func scheduledTimer(
        withTimeInterval interval: TimeInterval, repeats: Bool, block: @escaping @Sendable (Timer) -> Void
    ) -> Timer {
        let timer = Timer(timeInterval: interval, repeats: repeats, block: block)
        RunLoop.current.add(timer, forMode: .default)
        return timer
    }

    /// The date at which the timer fires next; inside its closure, the date being served.
    ///
    /// Setting it moves the timer and starts a new grid from that date; setting it on an invalid timer does
    /// nothing, and reading it there gives the last date (S-NSTM-10). What was set is read back exactly until
    /// the timer fires (S-NSTM-12), except that a date later than the latest one the library can hold, in the
    /// year 2129, reads as that.
    ///
    /// - Threads: any.
    public var fireDate: Date {
        get {
            let seconds = fireSeconds
            // A reusable timer without a date (S-TMR-57). A timer that was made with a date that is no number says so.
            return seconds.isNaN && isReusable ? .distantFuture : Date(timeIntervalSinceReferenceDate: seconds)
        }
        set { fireSeconds = newValue.timeIntervalSinceReferenceDate }
    }

    /// The interval of a repeating timer in seconds, 0 for one that fires once (S-NSTM-8).
    public var timeInterval: TimeInterval { intervalSeconds }

    /// How many seconds later than its date the timer may fire, initially 0 (S-TMR-53).
    ///
    /// A negative value counts as 0, and a repeating timer takes at most half its interval.
    ///
    /// - Threads: any.
    public var tolerance: TimeInterval {
        get { toleranceSeconds }
        set { toleranceSeconds = newValue }
    }
}

extension Timer {
    /// Not by its name, which would be this one's as well.
    fileprivate convenience init<Time: TimerDate>(
        time: Time, _ interval: Time.TimerInterval, _ repeats: Bool, _ block: @escaping @Sendable (Timer) -> Void
    ) {
        self.init(fire: time, interval: interval, repeats: repeats, block: block)
    }
}

extension Date: TimerDate {
    /// What a timer is made of; a repeating one takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
    public static func plan(fire date: Date, interval: TimeInterval, repeats: Bool) -> Timer.Plan {
        Timer.Plan(seconds: date.timeIntervalSinceReferenceDate, intervalSeconds: interval, repeats: repeats)
    }
}

extension Date {
    /// So long from now by the clock of the calling thread's loop, which may be one that the program moves (S-CLK-3).
    fileprivate static func afterDelay(_ delay: TimeInterval) -> Date {
        Date(timeIntervalSinceReferenceDate: RunLoop.currentSeconds + delay)
    }
}
