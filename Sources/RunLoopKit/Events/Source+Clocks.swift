// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Sources for what the clocks of the kernel tell.

extension RunLoop.Source {
    /// Makes a source that reports that time has passed, with a timer of the kernel (S-KEV-5).
    ///
    /// A ``Timer`` is cheaper; this one is a source, so it ends runs that return after one, and it can count while
    /// the system is suspended.
    ///
    /// - Parameters:
    ///   - interval: until the first report and between reports; positive.
    ///   - clock: the clock.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source and the number of intervals since the last report.
    /// - Throws: the system's error; `EINVAL` for an interval that is not positive.
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeTimerSource`.
    public convenience init(
        every interval: Duration, by clock: EventClock = .uptime, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, Int) -> Void
    ) throws(RunLoop.SystemError) {
        let notes = RLKernelNotes.nanoseconds.rawValue | (clock == .boot ? RLKernelNotes.boot.rawValue : 0)
        try self.init(
            kernelEvent(.timer, options: options, notes: notes, data: interval.inNanoseconds), name: name
        ) { source, event in perform(source, Int(event.data)) }
    }

    /// Makes a source that reports, once, that the wall clock shows a time; it moves with that clock (S-KEV-5).
    ///
    /// - Parameters:
    ///   - time: since the beginning of 1970, UTC. A past time is reported at once.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeTimerSource` with a wall deadline.
    public convenience init(
        whenWallClockShows time: Duration, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) {
        let notes = RLKernelNotes.nanoseconds.rawValue | RLKernelNotes.absolute.rawValue
        try self.init(
            kernelEvent(.timer, options: options, notes: notes, data: time.inNanoseconds), name: name
        ) { source, _ in perform(source) }
    }

    /// Makes a source that reports that the wall clock was set (S-KEV-6).
    ///
    /// - Parameters:
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source.
    /// - Returns: a source that is in no loop yet.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none.
    public static func whenClockIsSet(
        options: EventOptions = [], name: String? = nil, perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) -> RunLoop.Source {
        try RunLoop.Source(
            kernelEvent(.timer, options: options, notes: RLKernelNotes.clockSet.rawValue), name: name
        ) { source, _ in perform(source) }
    }
}

extension Duration {
    /// In nanoseconds, the nearest number that can be said.
    var inNanoseconds: Int64 {
        let (seconds, attoseconds) = clamped.components
        let (product, isTooMuch) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isTooMuchNow) = product.addingReportingOverflow(attoseconds / 1_000_000_000)
        return isTooMuch || isTooMuchNow ? (seconds < 0 ? .min : .max) : sum
    }
}
