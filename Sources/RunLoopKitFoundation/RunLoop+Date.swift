// SPDX-License-Identifier: MIT
extension RunLoop {
    /// Runs the default mode again and again until it is empty or a date has passed (S-NSRL-6).
    ///
    /// It tries at least once. `stop()` ends the single run it meets and not this series.
    ///
    /// - Parameter limitDate: when to end; a past one makes a single pass that does not wait.
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public func run(until limitDate: Date) {
        runSeries { limitDate.timeIntervalSinceNow }
    }

    /// Runs one mode until a source was handled or a date has passed (S-NSRL-2).
    ///
    /// Timers, queued closures and observers do not make it return (S-NSRL-4).
    ///
    /// - Parameters:
    ///   - mode: the mode to serve.
    ///   - limitDate: when to return at the latest; a past one makes a single pass that does not wait
    ///     (S-NSRL-3).
    /// - Returns: false, with nothing done, if the mode is missing or empty or `.common`, or if this is not
    ///   the calling thread's loop (S-NSRL-5); otherwise true, whatever ended the run.
    /// - Threads: the loop's own.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    @discardableResult
    public func run(mode: Mode, before limitDate: Date) -> Bool {
        runOnce(mode: mode) { limitDate.timeIntervalSinceNow }
    }

    /// Runs one mode until a source was handled or a date has passed, and does not say whether there was
    /// anything to run (S-NSRL-8).
    ///
    /// - Parameters:
    ///   - mode: the mode to serve.
    ///   - limitDate: when to return at the latest.
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public func acceptInput(forMode mode: Mode, before limitDate: Date) {
        run(mode: mode, before: limitDate)
    }

    /// The same with the name of the mode, as Foundation on Linux has it.
    ///
    /// - Parameters:
    ///   - mode: the name of the mode to serve.
    ///   - limitDate: when to return at the latest.
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public func acceptInput(forMode mode: String, before limitDate: Date) {
        run(mode: Mode(mode), before: limitDate)
    }

    /// Makes one pass over a mode, which does not wait, and says until when nothing will be due in it.
    ///
    /// Timers that are due fire in that pass, queued closures are called, and at most one signalled source
    /// performs (S-NSRL-9).
    ///
    /// - Returns: the date of the mode's earliest timer, `distantFuture` if it has none, nil if the mode is
    ///   empty or this is not the calling thread's loop.
    /// - Threads: the loop's own.
    public func limitDate(forMode mode: Mode) -> Date? {
        guard let seconds = limitSeconds(forMode: mode) else { return nil }
        return seconds == .infinity ? .distantFuture : Date(timeIntervalSinceReferenceDate: seconds)
    }
}
