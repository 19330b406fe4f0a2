// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// Why a run returned.
    ///
    /// CF: `CFRunLoopRunResult`, with the same raw values.
    public enum RunResult: Int32, Sendable {
        /// The mode has no source, no timer and nothing queued to perform; or it was not run at all.
        case finished = 1
        /// Somebody called ``RunLoop/stop()``.
        case stopped = 2
        /// The time given to the run is over.
        case timedOut = 3
        /// A source was handled, and the caller had asked to return after that.
        case handledSource = 4
    }

    /// Runs one mode of the calling thread's loop until one of the results is reached.
    ///
    /// The run makes passes: it calls observers, performs what is queued and the signalled custom
    /// sources, waits for a descriptor, a timer or a wake-up, and serves what came. The result is
    /// decided at the end of each pass (S-RUN-9).
    ///
    /// - Parameters:
    ///   - mode: the mode to serve. A mode that is missing or empty, and ``Mode/common``, return
    ///     ``RunResult/finished`` at once with no observer called (S-RUN-4); observers alone do not
    ///     make a mode non-empty.
    ///   - time: how long to run at most; nil for no limit. Zero or less makes exactly one pass,
    ///     which does not wait (S-RUN-17).
    ///   - returnAfterSourceHandled: whether the pass that handles a source is the last one. Timers,
    ///     queued closures, observers and wake-ups do not count as sources (S-RUN-12).
    /// - Returns: the reason; ``RunResult/finished``, with nothing done, if this is not the calling
    ///   thread's loop.
    /// - Threads: the loop's own.
    /// - Reentrancy: any closure the loop calls may run it again. A timer or an observer whose
    ///   closure is on the stack is left out of the inner run (S-NEST-3).
    /// - Foundation: ``run(mode:before:)`` is the form it has. CF: `CFRunLoopRunInMode`.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    @discardableResult
    public func run(
        mode: Mode, for time: Duration? = nil, returnAfterSourceHandled: Bool = false
    ) -> RunResult {
        guard isOfCallingThread else { return .finished }
        return RunLoop.runCallingThreads(mode: mode, for: time, returnAfterSourceHandled: returnAfterSourceHandled)
    }

    /// The same without the loop's object: a function that calls this holds none when a callback ends the thread, which releases none.
    @discardableResult
    static func runCallingThreads(mode: Mode, for time: Duration? = nil, returnAfterSourceHandled: Bool = false) -> RunResult {
        let seconds = time?.inSeconds ?? .infinity
        let result = mode.rawValue.withCString { name in
            GuestLoop.beforeRun(in: mode)
            return RunLoopExecutor.runningNested { RLRunInMode(name, seconds, returnAfterSourceHandled) }
        }
        return RunResult(result)
    }
}

extension RunLoop.RunResult {
    /// The result of the C call. A later library may have reasons of its own to return, which
    /// callers of this version can only treat as the end of the run.
    init(_ result: RLRunResult) {
        self = RunLoop.RunResult(rawValue: result.rawValue) ?? .finished
    }
}
