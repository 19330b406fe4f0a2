// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// What a loop has done since it was made, and what its call-outs took while they were measured (S-STAT-1, S-STAT-3).
    ///
    /// Counting is always on. The last five refer to the time while ``RunLoop/measuresCallOuts`` was last true.
    public struct Statistics: Sendable {
        /// Runs of the loop.
        public let runs: UInt64
        /// Passes of all runs.
        public let passes: UInt64
        /// Passes that waited.
        public let waits: UInt64
        /// How often the thread slept in the kernel.
        public let sleeps: UInt64
        /// Wake-ups that the loop took; several at once count as one.
        public let wakeUps: UInt64
        /// System calls by which other threads ended a sleep.
        public let rouses: UInt64
        /// Performed sources that were signalled.
        public let sources: UInt64
        /// Reports of port sources, sockets and events.
        public let ports: UInt64
        /// Fired timers.
        public let timers: UInt64
        /// Dates of repeating timers that were left out because the loop was late.
        public let skippedDates: UInt64
        /// Performed closures and functions that were queued.
        public let functions: UInt64
        /// Performed requests of the perform family.
        public let requests: UInt64
        /// Observers that were called.
        public let observers: UInt64
        /// Drains of the main dispatch queue.
        public let mainQueue: UInt64
        /// How long call-outs were measured.
        public let accountedTime: Duration
        /// Measured call-outs.
        public let callOuts: UInt64
        /// Their total time. The time of one that ran the loop includes that run.
        public let callOutTime: Duration
        /// The time of the longest.
        public let longestCallOut: Duration
        /// How long the thread slept meanwhile.
        public let asleepTime: Duration
    }

    /// What the loop has counted and measured so far.
    ///
    /// - Threads: any; the numbers are not all of the same instant.
    /// - CF: no counterpart.
    public var statistics: Statistics {
        var found = RLStatistics()
        found.version = 0
        _ = RLGetStatistics(reference, &found)
        return Statistics(
            runs: found.runs, passes: found.passes, waits: found.waits, sleeps: found.sleeps, wakeUps: found.wakeUps,
            rouses: found.rouses, sources: found.sources, ports: found.ports, timers: found.timers,
            skippedDates: found.skippedDates, functions: found.functions, requests: found.requests, observers: found.observers,
            mainQueue: found.mainQueue, accountedTime: Duration(seconds: found.accountedTime), callOuts: found.callOuts,
            callOutTime: Duration(seconds: found.callOutTime), longestCallOut: Duration(seconds: found.longestCallOut),
            asleepTime: Duration(seconds: found.asleepTime))
    }

    /// Whether the loop measures its call-outs; initially false. It costs two readings of the clock for each (S-STAT-3).
    ///
    /// Setting it to true begins anew, to false keeps what was measured.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var measuresCallOuts: Bool {
        get { RLIsAccounting(reference) }
        set { RLSetAccounting(reference, newValue) }
    }

    /// What is counted by size while call-outs are measured.
    public enum Histogram: Hashable, Sendable {
        /// How long call-outs took.
        case callOuts
        /// How much later than their dates timers were called.
        case lateness
        /// How long signalled sources waited to perform.
        case signals

        fileprivate var number: RLHistogram {
            switch self {
            case .callOuts: RLHistogram(rawValue: 0)!
            case .lateness: RLHistogram(rawValue: 1)!
            case .signals: RLHistogram(rawValue: 2)!
            }
        }
    }

    /// The quantile of the measured times for a fraction: 0.5 gives the median (S-STAT-5).
    ///
    /// - Parameters:
    ///   - fraction: between 0 and 1.
    ///   - histogram: which times.
    /// - Returns: the time, at most a sixteenth too long; zero if nothing was measured.
    /// - Threads: any.
    /// - CF: no counterpart.
    public func quantile(_ fraction: Double, of histogram: Histogram) -> Duration {
        Duration(seconds: RLGetQuantile(reference, histogram.number, fraction))
    }
}

extension RunLoop.Item {
    /// What the call-outs of an item took in one loop.
    public struct Statistics: Sendable {
        /// How often it was called.
        public let calls: UInt64
        /// The total time of the calls.
        public let total: Duration
        /// The time of the longest.
        public let longest: Duration
        /// The time of the last.
        public let last: Duration
    }

    /// What the item's call-outs took in a loop; nil if the loop has not called it while it measured (S-STAT-3).
    ///
    /// - Parameter loop: the loop that called it.
    /// - Threads: any.
    /// - CF: no counterpart.
    public func statistics(in loop: RunLoop) -> Statistics? {
        var found = RLItemStatistics()
        found.version = 0
        guard RLGetItemStatistics(loop.reference, RLTypeRef(getRLObject()), &found) else { return nil }
        return Statistics(
            calls: found.calls, total: Duration(seconds: found.total), longest: Duration(seconds: found.longest),
            last: Duration(seconds: found.last))
    }
}
