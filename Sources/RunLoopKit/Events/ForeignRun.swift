// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// A run of the calling thread's loop whose waits another loop makes, such as GLib's or libuv's (S-FRN-1).
    ///
    /// The other loop, the host, waits until ``descriptor`` can be read, and then calls ``dispatch()``. One that can tell
    /// when it is about to wait calls ``prepare()`` before.
    ///
    /// ```swift
    /// let run = try RunLoop.ForeignRun(mode: .default)
    /// while !isDone {
    ///     let time = run.prepare()
    ///     hostWaits(for: run.descriptor, atMost: time)
    ///     run.dispatch()
    /// }
    /// run.invalidate()
    /// ```
    ///
    /// The passes, their order and the observers are those of ``RunLoop/run(mode:for:returnAfterSourceHandled:)`` without a
    /// time. When the run is over the next one begins as soon as there is something in the mode (S-FRN-6). A loop has one
    /// foreign run at a time. Letting go of the object invalidates it.
    ///
    /// The other way round, a run loop that drives another loop watches that loop's descriptor by a
    /// ``Source/init(descriptor:perform:)``.
    ///
    /// - Threads: the one that made it, whose loop it runs (S-FRN-11).
    /// - Foundation, CF: none.
    public final class ForeignRun {
        private let reference: RLForeignRunRef

        /// Makes a foreign run of a mode of the calling thread's loop; no observer is called yet.
        ///
        /// - Parameter mode: need not exist; ``Mode/common`` is none to run.
        /// - Throws: what the system says if there are no descriptors to be had; `EBUSY` if the loop has a foreign run
        ///   already (S-FRN-12); `EINVAL` for such a mode.
        @available(*, noasync, message: "a foreign run belongs to its thread; an asynchronous function does not")
        public init(mode: Mode = .default) throws(SystemError) {
            guard mode != .common else { throw SystemError(code: SystemError.invalidArgument) }
            var error = SystemError(code: 0)
            let made = mode.rawValue.withCString { name in
                let made = RLForeignRunCreate(name)
                error = .last
                return made
            }
            guard let made else { throw error }
            reference = made
        }

        deinit {
            RLForeignRunInvalidate(reference)
            RLRelease(RLTypeRef(reference))
        }

        /// The run as the C functions take it, an `RLForeignRunRef`; valid as long as this object is.
        public func getRLForeignRun() -> OpaquePointer { reference }

        /// What the host waits for: it can be read when ``dispatch()`` has something to do (S-FRN-3).
        ///
        /// It is the same until the run is invalidated, then -1. Any poll, select, epoll or io_uring takes it. It is neither
        /// to be read nor closed, and a host forgets it before ``invalidate()``.
        public var descriptor: CInt { RLForeignRunGetDescriptor(reference) }

        /// Makes the steps of a pass before its wait; if they are made, only looks at the time again (S-FRN-2).
        ///
        /// - Returns: after how long a dispatch has something to do by time alone: zero at once, nil never (S-FRN-4). The
        ///   descriptor can be read by then too, so a host may leave the time alone, or round it up.
        @discardableResult
        public func prepare() -> Duration? {
            let seconds = RLForeignRunPrepare(reference)
            return seconds.isFinite ? Duration(seconds: seconds) : nil
        }

        /// Makes the rest of the pass if its wait is over, and the steps before the wait first if need be (S-FRN-2).
        ///
        /// - Returns: ``RunResult/stopped`` or ``RunResult/finished`` after the run has ended so; nil while it goes on,
        ///   and if there was nothing to do.
        @discardableResult
        public func dispatch() -> RunResult? {
            let result = RLForeignRunDispatch(reference)
            return result == .goesOn ? nil : RunResult(result)
        }

        /// False after ``invalidate()``, and when the thread has ended.
        public var isValid: Bool { RLForeignRunIsValid(reference) }

        /// Ends the run for good: observers of its exit are called if it is under way, and its descriptor is closed
        /// (S-FRN-10); again: nothing.
        public func invalidate() { RLForeignRunInvalidate(reference) }
    }
}

@available(*, unavailable)
extension RunLoop.ForeignRun: Sendable {}
