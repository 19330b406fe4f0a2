// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// A run of the calling thread's loop whose waits are made by another loop, such as GLib's or libuv's (S-FRN-1).
    ///
    /// The other loop, the host, waits until ``descriptor`` is readable, and then calls ``dispatch()``. A host that knows
    /// when it is about to wait first calls ``prepare()``.
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
    /// foreign run at a time. Releasing the object invalidates it.
    ///
    /// In the other direction, a run loop that drives another loop watches that loop's descriptor with a
    /// ``Source/init(descriptor:name:perform:)``.
    ///
    /// - Threads: the one that made it, whose loop it runs (S-FRN-11).
    /// - Foundation, CF: none.
    public final class ForeignRun {
        private let reference: RLForeignRunRef
        private let mode: Mode
        /// It serves this loop inside a wait of the other kind of loop, and is no run that the other one has to be told of.
        package var isGuest = false

        /// Makes a foreign run of a mode of the calling thread's loop; no observer is called yet.
        ///
        /// - Parameter mode: need not exist; ``Mode/common`` cannot be run.
        /// - Throws: the system's error if no descriptors are available; `EBUSY` if the loop has a foreign run
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
            self.mode = mode
        }

        deinit {
            RLForeignRunInvalidate(reference)
            RLRelease(RLTypeRef(reference))
        }

        /// The run as the C functions take it, an `RLForeignRunRef`; valid as long as this object lives.
        public func getRLForeignRun() -> OpaquePointer { reference }

        /// What the host waits for: it is readable when ``dispatch()`` has something to do (S-FRN-3).
        ///
        /// It is the same until the run is invalidated, then -1. It works with poll, select, epoll and io_uring. Do not read
        /// or close it, and let the host stop waiting for it before ``invalidate()``.
        public var descriptor: CInt { RLForeignRunGetDescriptor(reference) }

        /// Makes the steps of a pass before its wait; if they were already made, only computes the time again (S-FRN-2).
        ///
        /// - Returns: how long until a dispatch has something to do because time has passed: zero for now, nil for never
        ///   (S-FRN-4). The descriptor is readable by then too, so a host may ignore the time, or round it up.
        @discardableResult
        public func prepare() -> Duration? {
            beforeCall()
            let seconds = RLForeignRunPrepare(reference)
            return seconds.isFinite ? Duration(seconds: seconds) : nil
        }

        /// Makes the rest of the pass if its wait is over, and first the steps before the wait if needed (S-FRN-2).
        ///
        /// - Returns: ``RunResult/stopped`` or ``RunResult/finished`` after the run has ended with it; nil while it goes on,
        ///   and if there was nothing to do.
        @discardableResult
        public func dispatch() -> RunResult? {
            beforeCall()
            let result = RLForeignRunDispatch(reference)
            return result == .goesOn ? nil : RunResult(result)
        }

        private func beforeCall() {
            if !isGuest { GuestLoop.beforeRun(in: mode) }
            RunLoopExecutor.leaveDrain()
        }

        /// False after ``invalidate()``, and when the thread has ended.
        public var isValid: Bool { RLForeignRunIsValid(reference) }

        /// Ends the run permanently: observers of its exit are called if it is under way, and its descriptor is
        /// closed (S-FRN-10); a second call does nothing.
        public func invalidate() { RLForeignRunInvalidate(reference) }
    }
}

@available(*, unavailable)
extension RunLoop.ForeignRun: Sendable {}
