// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Running the loop the way Foundation does: a series of runs that end when a source was handled. The forms
// that take a `Date` are in RunLoopKitFoundation; both are over the same steps, at the end of this file.

extension RunLoop {
    /// Runs the default mode again and again until it is empty (S-NSRL-7).
    ///
    /// ``stop()`` ends the single run it meets and not this series. For a loop that is to be stopped,
    /// call ``run(mode:for:returnAfterSourceHandled:)`` without a time. Removing every source and timer
    /// one knows of is not a reliable way to end it, because others may have added theirs (S-NSRL-14).
    /// On a ``RunLoopThread`` the series ends when the thread is told to end.
    ///
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    /// - Foundation: `run()`. CF: `CFRunLoopRun` differs: a stop ends that one.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public func run() {
        while runOfSeries(remaining: { .infinity }) {}
    }

    /// Runs the default mode again and again until it is empty or a date has passed (S-NSRL-6).
    ///
    /// It tries at least once. ``stop()`` ends the single run it meets and not this series, which ends early only on a ``RunLoopThread``
    /// that is told to end.
    ///
    /// - Parameter limitDate: when to end; a past one makes a single pass that does not wait.
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    /// - Foundation: `run(until:)`.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    @_disfavoredOverload
    public func run(until limitDate: ContinuousClock.Instant) {
        runSeries { limitDate.secondsFromNow }
    }

    /// Runs one mode until a source was handled or a date has passed (S-NSRL-2).
    ///
    /// Timers, queued closures and observers do not make it return (S-NSRL-4).
    ///
    /// - Parameters:
    ///   - mode: the mode to serve.
    ///   - limitDate: when to return at the latest; a past one makes a single pass that does not wait
    ///     (S-NSRL-3).
    /// - Returns: false, with nothing done, if the mode is missing or empty or ``Mode/common``, or if this
    ///   is not the calling thread's loop (S-NSRL-5); otherwise true, whatever ended the run.
    /// - Threads: the loop's own.
    /// - Foundation: `run(mode:before:)`. CF: ``run(mode:for:returnAfterSourceHandled:)`` is the nearest.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    @_disfavoredOverload
    @discardableResult
    public func run(mode: Mode, before limitDate: ContinuousClock.Instant) -> Bool {
        runOnce(mode: mode) { limitDate.secondsFromNow }
    }

    /// Runs one mode until a source was handled or a date has passed, like ``run(mode:before:)``, and
    /// does not say whether there was anything to run (S-NSRL-8).
    ///
    /// - Parameters:
    ///   - mode: the mode to serve.
    ///   - limitDate: when to return at the latest.
    /// - Threads: the loop's own; for another thread's loop it returns at once.
    /// - Foundation: `acceptInput(forMode:before:)`.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    @_disfavoredOverload
    public func acceptInput(forMode mode: Mode, before limitDate: ContinuousClock.Instant) {
        run(mode: mode, before: limitDate)
    }

    /// Makes one pass over a mode, which does not wait, and says until when nothing will be due in it.
    ///
    /// Timers that are due fire in that pass, queued closures are called, and at most one signalled source
    /// performs (S-NSRL-9).
    ///
    /// - Returns: the date of the mode's earliest timer, `distantFuture`
    ///   if it has none, nil if the mode is empty or this is not the calling thread's loop.
    /// - Threads: the loop's own.
    /// - Foundation: `limitDate(forMode:)`.
    @_disfavoredOverload
    public func limitDate(forMode mode: Mode) -> ContinuousClock.Instant? {
        guard let seconds = limitSeconds(forMode: mode) else { return nil }
        return seconds == .infinity ? .distantFuture : Dates.instant(of: seconds)
    }
}

// MARK: - The steps, in the C library's dates

extension RunLoop {
    /// One run of a mode that ends when a source was handled; false, with nothing done, if there is nothing
    /// to run. `remaining` says how many seconds the run may take.
    package func runOnce(mode: Mode, remaining: () -> Double) -> Bool {
        guard isOfCallingThread else { return false }
        GuestLoop.beforeRun(in: mode)
        return mode.rawValue.withCString { name in
            RunLoopExecutor.runningNested {
                // Only now: what waits in the executor may have a function posted that this run sees.
                if RLIsModeEmpty(name) { return false }
                _ = RLRunInMode(name, remaining(), true)
                return true
            }
        }
    }

    /// One run of a series in the default mode; false if it is the last one.
    private func runOfSeries(remaining: () -> Double) -> Bool {
        runOnce(mode: .default, remaining: remaining) && !RunLoopThread.isEndingCaller
    }

    /// Runs the default mode until it is empty or no time remains, once at least. A loop with a clock that the program moves goes by
    /// that: the time that remained at the beginning passes there (S-CLK-3).
    package func runSeries(remaining: () -> Double) {
        if RLGetClock(reference) == nil {
            while runOfSeries(remaining: remaining), remaining() > 0 {}
        } else {
            let end = RunLoop.currentSeconds + remaining()
            while runOfSeries(remaining: { end - RunLoop.currentSeconds }), end > RunLoop.currentSeconds {}
        }
    }

    /// The date by the clock of the calling thread's loop, in seconds since the beginning of 2001.
    package static var currentSeconds: Double { RLAbsoluteTimeGetCurrent() }

    /// ``limitDate(forMode:)`` in seconds of the wall clock since the beginning of 2001; infinity if the
    /// mode has no timer.
    package func limitSeconds(forMode mode: Mode) -> Double? {
        guard isOfCallingThread else { return nil }
        GuestLoop.beforeRun(in: mode)
        return mode.rawValue.withCString { name -> Double? in
            RunLoopExecutor.runningNested { _ = RLRunInMode(name, 0, true) }
            if RLIsModeEmpty(name) { return nil }
            let seconds = RLGetNextTimerFireDate(reference, name)
            return seconds == 0 ? .infinity : seconds
        }
    }
}
