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
    /// foreign run at a time. Releasing the object invalidates it: at once on its thread; after a release elsewhere that thread does it,
    /// when its loop next runs in a common mode or is given another foreign run (S-FRN-11).
    ///
    /// In the other direction, a run loop that drives another loop watches that loop's descriptor with a
    /// ``Source/init(descriptor:name:perform:)``.
    ///
    /// - Threads: the one that made it, whose loop it runs (S-FRN-11).
    /// - Foundation, CF: none.
    public final class ForeignRun {
        private let reference: RLForeignRunRef
        private let mode: Mode
        /// The loop of the thread that made it, which the run keeps.
        private let loop: RLRunLoopRef
        /// It serves this loop inside a wait of the other kind of loop, and is no run that the other one has to be told of.
        package var isGuest = false
        /// The last prepare, in a callback of the loop, has posted notifications.
        package private(set) var hasPosted = false

        /// Makes a foreign run of a mode of the calling thread's loop; no observer is called yet.
        ///
        /// - Parameter mode: need not exist; ``Mode/common`` cannot be run.
        /// - Throws: the system's error if no descriptors are available; `EBUSY` if the loop has a foreign run
        ///   already (S-FRN-12); `EINVAL` for such a mode.
        @available(*, noasync, message: "a foreign run belongs to its thread; an asynchronous function does not")
        public init(mode: Mode = .default) throws(SystemError) {
            guard mode != .common else { throw SystemError(code: SystemError.invalidArgument) }
            var error = SystemError(code: 0)
            loop = RLGetCurrent()
            ReleasedRuns.end(of: loop)
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
            if RLGetCurrentIfMade() != loop { return ReleasedRuns.add(reference, of: loop) }
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
        public func prepare() -> Duration? { prepare(isSameWait: false) }

        /// The same. `isSameWait`: the host has prepared for this wait already, and was only kept from it because that posted notifications.
        package func prepare(isSameWait: Bool) -> Duration? {
            beforeCall()
            // In a callback of the loop the steps before the wait are left out (S-FRN-9).
            hasPosted = isValid && NotificationPoster.postBeforeWait(of: loop, in: mode, isSame: isSameWait)
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

/// Foreign runs whose objects were released on other threads than theirs, which alone can end them.
///
/// A function on its way to a loop ends those of the loop; a thread that makes another run does not wait for it. Each loop has one such
/// function at most, so that a loop that does not run collects none.
enum ReleasedRuns {
    /// By the address of the loop; there is an entry, perhaps an empty one, while a function is on its way. The runs in it keep the loop.
    private static let all = Locked<[UInt: [RLForeignRunRef]]>([:])

    static func prepare() { _ = all }

    /// What the function is posted with. A loop that is not run any more has the function as long as it lives, so this must not keep it.
    private final class Post {
        let loop: RLRunLoopRef
        /// What tells of the end of the loop's thread.
        let endHandler: UInt
        /// Set on the loop's thread.
        var isPerformed = false

        init(_ loop: RLRunLoopRef, _ endHandler: UInt) {
            self.loop = loop
            self.endHandler = endHandler
        }

        deinit {
            // The thread has ended, and its foreign run with it.
            if !isPerformed { ReleasedRuns.release(ReleasedRuns.take(loop, isLast: true)) }
        }
    }

    /// Takes over the reference.
    static func add(_ run: RLForeignRunRef, of loop: RLRunLoopRef) {
        // From when the table has the run its thread may take and release it, and end.
        _ = RLRetain(RLTypeRef(loop))
        defer { RLRelease(RLTypeRef(loop)) }
        let isFirst = all.withLock { all in
            let isFirst = all[UInt(bitPattern: loop)] == nil
            all[UInt(bitPattern: loop), default: []].append(run)
            return isFirst
        }
        if !isFirst { return }
        // A run keeps the loop, which keeps the function: without this a thread that ends and has not called that would leave all three.
        let address = UInt(bitPattern: loop)
        let endHandler = LoopRegistry.wrapper(of: loop).executor.atEnd {
            ReleasedRuns.release(ReleasedRuns.take(RLRunLoopRef(bitPattern: address)!, isLast: true))
        }
        // Where the thread of the loop is gone, it is released at once.
        RLPerformFunction(
            loop, kRLCommonModes,
            { info in
                let post = Unmanaged<Post>.fromOpaque(info!).takeUnretainedValue()
                post.isPerformed = true
                RunLoopExecutor.known(of: post.loop)?.forget(handler: post.endHandler)
                ReleasedRuns.end(ReleasedRuns.take(post.loop, isLast: true))
            }, Unmanaged.passRetained(Post(loop, endHandler)).toOpaque(), { Unmanaged<Post>.fromOpaque($0!).release() })
        RLWakeUp(loop)
    }

    /// On the thread of the loop.
    static func end(of loop: RLRunLoopRef) { end(take(loop, isLast: false)) }

    private static func end(_ runs: [RLForeignRunRef]) {
        for run in runs { RLForeignRunInvalidate(run) }
        release(runs)
    }

    private static func take(_ loop: RLRunLoopRef, isLast: Bool) -> [RLForeignRunRef] {
        all.withLock { all in
            guard let runs = all[UInt(bitPattern: loop)] else { return [] }
            all[UInt(bitPattern: loop)] = isLast ? nil : []
            return runs
        }
    }

    private static func release(_ runs: [RLForeignRunRef]) {
        for run in runs { RLRelease(RLTypeRef(run)) }
    }
}
