// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Budgets: so much a source may perform in a time, and so much a mode in a pass (S-LIM).

extension RunLoop.Source {
    /// Limits how often the source performs; what comes meanwhile waits for the end of the period, and nothing is lost (S-LIM-1, S-LIM-2).
    ///
    /// A line is logged when the limit is first reached.
    ///
    /// - Parameters:
    ///   - count: how often in a period; zero and less: no limit.
    ///   - period: by the clock of the loop that performs it. It begins with the first perform after the end of the one before.
    /// - Threads: any.
    /// - CF: no counterpart.
    public func setLimit(_ count: Int, per period: Duration) { RLSourceSetLimit(reference, count, period.inSeconds) }

    /// What ``setLimit(_:per:)`` set; nil: there is no limit.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var limit: (count: Int, period: Duration)? {
        var seconds = 0.0
        let count = RLSourceGetLimit(reference, &seconds)
        return count > 0 ? (count, Duration(seconds: seconds)) : nil
    }
}

extension RunLoop {
    /// Limits how many signalled sources and requests a pass of a mode performs, and how many closures at each of its three points, so
    /// that timers and ports have their turns between them (S-LIM-6).
    ///
    /// - Parameters:
    ///   - count: zero and less: any number, which is the initial state.
    ///   - mode: ``Mode/common`` stands for the modes that are common now.
    /// - Threads: any.
    /// - CF: no counterpart.
    public func setPassLimit(_ count: Int, forMode mode: Mode) { mode.rawValue.withCString { RLSetPassLimit(reference, $0, count) } }

    /// The limit of a mode; nil: there is none.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public func passLimit(forMode mode: Mode) -> Int? {
        let limit = mode.rawValue.withCString { RLGetPassLimit(reference, $0) }
        return limit > 0 ? limit : nil
    }
}
