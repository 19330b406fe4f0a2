// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// A thread with a run loop, which is ready before ``start()`` returns, and with an orderly end.
///
/// Without a body of its own the thread runs its loop in the default mode until it is told to end; the loop is kept from being
/// empty meanwhile. A body replaces that and runs ``loop`` itself.
///
/// ``stop()`` ends it in order: what was queued until then is performed, the run ends, and so does the thread. ``cancel()`` leaves
/// out what was queued. ``join()`` and ``finish()`` wait for the end, after which the thread's
/// sources were cancelled and what was queued later was dropped.
///
/// - Threads: all members may be used from any thread but where they say otherwise.
/// - Foundation: `Thread`, which has neither a ready loop nor a join.
// An `RLThreadRef` with a body of its own. What is added to that is the end without waiting for it, the runs of a body among it,
// and the wait that blocks nobody.
// Sendable: the reference is to an object of the C library whose functions may be called from any thread, the other constants are
// Sendable, the dictionary is the thread's own, everything else is behind a lock.
public final class RunLoopThread: @unchecked Sendable {
    /// How the thread shares the processor with others.
    public typealias QualityOfService = RunLoopKit.QualityOfService

    /// The name, of which the system shows the first 15 bytes; nil if it has none.
    public let name: String?
    /// The quality given to ``init(name:stackSize:qualityOfService:body:)``.
    public let qualityOfService: QualityOfService
    /// This object owns one reference to it; the thread owns another while it executes.
    private let thread: RLThreadRef
    var reference: RLThreadRef { thread }
    private let body: ThreadBody
    /// Held during the start.
    private let starting = LongLock()
    /// The loop, once somebody has asked for it.
    private let knownLoop = AtomicLazyReference<RunLoop>()

    private struct State {
        var isStopping = false
        /// The body is over, and what was to be performed after it.
        var isOver = false
        /// Stops the thread's runs. Nil before the thread has it in its loop, and at the end.
        var end: RunLoop.Source?
        var finishers: [CheckedContinuation<Void, Never>] = []
        /// Who waits for what comes after that.
        var joiners: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())
    /// Thread's own: which entry of the executor was the last when the thread was told to stop.
    private var lastEntry: Int?
    /// Thread's own: how many runs were told to end; and whether the next one has performed what was queued before the thread was told to stop.
    private var toldRuns = 0
    private var hasPerformedWhatWasQueued = false
    /// Thread's own: the innermost run was told to end; and the run that ended last was, rather than stopped by the program.
    private var isTold = false
    private var hasEndedTold = false
    /// Thread's own: the body has returned, and the thread ends as if it had been told to stop.
    private var isBodyOver = false
    /// Thread's own: the source that tells has had its turn in the present run; and how deep the run was that was told last.
    private var isServed = false
    private var toldDepth = 0
    /// Thread's own, since it was told: how deep in runs it is, how deep it was at least, and how many runs have begun.
    private var depth = 0
    private var leastDepth = 0
    private var newRuns = 0
    private var runCounter: RunLoop.Observer?
    /// Thread's own: the run will be told later, or one that begins then; and that the time for it has come.
    private var isToldLater = false
    private var isPauseOver = false
    /// Thread's own.
    private var values = ThreadDictionary()

    /// Describes a thread; ``start()`` makes it.
    ///
    /// - Parameters:
    ///   - name: shown by debuggers and by ps.
    ///   - stackSize: in bytes, rounded up to what the system needs; nil for the system's own size.
    ///   - qualityOfService: see ``QualityOfService``.
    ///   - body: runs on the thread and gets this object; nil runs the loop until the thread is stopped or cancelled.
    public init(
        name: String? = nil, stackSize: Int? = nil, qualityOfService: QualityOfService = .default,
        body: (@Sendable (RunLoopThread) -> Void)? = nil
    ) {
        self.name = name
        self.qualityOfService = qualityOfService
        self.body = ThreadBody(body)
        let info = Unmanaged.passRetained(self.body).toOpaque()
        thread = RLThreadCreate(
            { _, info in
                // Not held by a variable, nor is the thread's object: a callback may end the thread, which releases none.
                Unmanaged<ThreadBody>.fromOpaque(info!)._withUnsafeGuaranteedRef { $0.unmanagedThread?._withUnsafeGuaranteedRef { $0.main() } }
            }, info,
            { Unmanaged<ThreadBody>.fromOpaque($0!).takeRetainedValue().end() })
        RLThreadSetName(thread, name)
        RLThreadSetStackSize(thread, max(stackSize ?? 0, 0))
        RLThreadSetPriority(thread, qualityOfService.niceValue)
    }

    deinit { RLRelease(RLTypeRef(thread)) }
}

/// What the C library calls on the thread. It, and not the thread's object, is what the C library keeps from the beginning.
// Sendable: who starts the thread sets `thread` before, and the thread alone has it then.
private final class ThreadBody: @unchecked Sendable {
    let body: (@Sendable (RunLoopThread) -> Void)?
    /// Keeps the object while the thread executes.
    var thread: RunLoopThread?

    init(_ body: (@Sendable (RunLoopThread) -> Void)?) { self.body = body }

    var unmanagedThread: Unmanaged<RunLoopThread>? { thread.map { Unmanaged.passUnretained($0) } }

    /// On the thread, after all its work, also if a callback ended it; or when a thread that was never started is let go of.
    func end() {
        thread?.over()
        thread = nil
    }
}

// MARK: - Beginning

extension RunLoopThread {
    /// No thread could be made: the process or the system has too many.
    public struct StartError: Error, Hashable, Sendable {}

    /// Makes the thread, whose ``loop`` can be used at once; a second call does nothing.
    ///
    /// - Throws: ``StartError``, after which the call may be repeated.
    public func start() throws {
        Thread.becomeMultiThreaded()
        let isStarted = starting.withLock { _ in
            if self.isStarted { return true }
            body.thread = self
            if RLThreadStart(thread) { return true }
            body.thread = nil
            return false
        }
        if !isStarted { throw StartError() }
    }

    /// The thread's loop. The thread must have been started.
    public var loop: RunLoop {
        if let known = knownLoop.load() { return known }
        guard let reference = RLThreadGetRunLoop(thread) else { preconditionFailure("RunLoopThread: not started") }
        return knownLoop.storeIfNil(LoopRegistry.wrapper(of: reference))
    }

    fileprivate func main() {
        _ = RunLoopThread.own.value { self }
        addEnd()
        if let body = body.body {
            body(self)
            endAfterBody()
        }
        // What is queued, or what the body left. The program too may stop the run.
        while !hasEndedTold && !isCancelled {
            let ends = endsItsRuns
            if ends { signalEnd() }
            isServed = false
            RunLoop.runCallingThreads(mode: .default)
            // An Entry observer stops the run (S-STOP-4), and would stop the next one.
            if ends && !isServed { break }
        }
        removeEnd()
    }

    /// From here on the thread is about to end, with or without a stop. A run of the body's may have been told, but in another mode.
    @inline(never)
    private func endAfterBody() {
        isBodyOver = true
        hasEndedTold = false
        // However many the body began: this one is not to wait.
        newRuns = 0
        // What the body left is waited for anew.
        toldRuns += 1
        hasPerformedWhatWasQueued = false
        lastEntry = nil
    }

    @inline(never)
    private func signalEnd() { endLater()?.signal() }

    @inline(never)
    private func removeEnd() { endLater()?.invalidate() }

    private func endLater() -> RunLoop.Source? { state.withLock { $0.end } }

    /// Whether its runs are to end. Thread's own.
    private var endsItsRuns: Bool { isBodyOver || isEnding }

    /// Puts what stops the thread's runs into its loop. Not a variable of `main`: the body may end the thread, which releases
    /// none.
    @inline(never)
    private func addEnd() {
        let end = RunLoop.Source { [weak self] source in
            guard let self, self.endsItsRuns else { return }
            self.isServed = true
            if !self.isCancelled && !(self.hasPerformedWhatWasQueued && self.haveEntriesBegun) {
                self.awaitWhatIsQueued()
                source.signal()
                // A run by C code may have it in the round of a run around it.
                RunLoop.current.knownExecutor.load()?.postAgain()
                return RunLoop.current.wakeUp()
            }
            if self.runsAgain && !self.isPauseOver && self.tellsLater(source) { return }
            self.isPauseOver = false
            // A stop ends the innermost run; the runs around it are told in their next passes.
            source.signal()
            if self.runCounter == nil { self.countRuns() }
            self.isTold = true
            self.toldDepth = self.depth
            // Those around it may be in another mode.
            self.toldRuns += 1
            self.hasPerformedWhatWasQueued = false
            RunLoop.current.stop()
        }
        RunLoop.current.add(end, forMode: .common)
        state.withLock { $0.end = end }
        // Whoever came before that found nothing to signal.
        if isEnding { end.signal() }
    }

    /// Whether the run began after a stop, and many did. A wait that runs the loop does so again after each stop (S-SYNC-24), and the
    /// thread is to sleep in it, but for a moment from time to time.
    private var runsAgain: Bool { depth > leastDepth && newRuns > 16 }

    /// From the first stop on.
    private func countRuns() {
        let observer = RunLoop.Observer(activities: [.entry, .exit], repeats: true) { [weak self] _, activity in
            guard let self else { return }
            if activity == .entry {
                self.depth += 1
                self.newRuns += 1
            } else {
                // A run in the told one, begun after that, ends before it.
                self.hasEndedTold = self.isTold && self.depth == self.toldDepth
                if self.depth <= self.toldDepth { self.isTold = false }
                self.depth -= 1
                self.leastDepth = min(self.leastDepth, self.depth)
            }
        }
        RunLoop.current.add(observer, forMode: .common)
        runCounter = observer
    }

    /// Tells the run around the present one when that has ended, and after a pause the present one, which nothing else may end. A body that
    /// begins run after run and does not ask whether it is to end is told some times a second in the end.
    ///
    /// Returns false if the present run is to be told now.
    private func tellsLater(_ source: RunLoop.Source) -> Bool {
        if isToldLater { return true }
        let mayComputeOn = newRuns < 1000
        let tell = { @Sendable [weak self] (isPauseOver: Bool) in
            self?.isToldLater = false
            self?.isPauseOver = isPauseOver
            source.signal()
        }
        // Not a timer: the program may move the loop's clock.
        let made = try? RunLoop.Source(every: .milliseconds(100)) { pause, _ in
            pause.invalidate()
            tell(true)
        }
        guard let pause = made else {
            // The process has no descriptor for it, so the thread itself sleeps, and not for long because it has other work as well.
            Thread.sleep(forTimeInterval: .milliseconds(10))
            return false
        }
        isToldLater = true
        RunLoop.current.add(pause, forMode: .common)
        let observer = RunLoop.Observer(activities: .exit, repeats: false) { _, _ in
            if !mayComputeOn { return }
            pause.invalidate()
            tell(false)
        }
        RunLoop.current.add(observer, forMode: .common)
        return true
    }

    /// Each kind of what is queued is performed in its order, but for ordered requests, so it is gone through when the last of the kind
    /// is performed, in this pass or, where passes have a limit (S-LIM-6), a later one. That is queued by each pass anew: the one
    /// before may be in the batch of a run around this one, which does not see it.
    private func awaitWhatIsQueued() {
        if hasPerformedWhatWasQueued { return }
        let (left, toldRuns) = (Locked(3), toldRuns)
        let last: @Sendable () -> Void = { [weak self] in
            let isLast = left.withLock {
                $0 -= 1
                return $0 == 0
            }
            // What an earlier run did not come to tells nothing of this one.
            if let self, isLast, toldRuns == self.toldRuns { self.hasPerformedWhatWasQueued = true }
        }
        let loop = RunLoop.current
        loop.perform(inModes: [.common], block: last)
        loop.perform(waitUntilDone: false, inModes: [.common], block: last)
        loop.perform(order: .max, inModes: [.common], block: last)
    }

    /// Whether the executor, which takes a few entries at a time, has begun with what was queued. Thread's own.
    private var haveEntriesBegun: Bool {
        guard let executor = RunLoop.current.knownExecutor.load(), let progress = executor.progress else { return true }
        if lastEntry == nil { lastEntry = progress.last }
        return progress.begun >= lastEntry!
    }

    fileprivate func over() {
        runCounter?.invalidate()
        runCounter = nil
        let end = state.withLock { state in
            state.isOver = true
            defer { state.end = nil }
            return state.end
        }
        withExtendedLifetime(end) {}
        resumeFinishers()
    }

    private func resumeFinishers() {
        ForkGuard.whole {
            let finishers = state.withLock { state in
                defer { state.finishers = [] }
                return state.finishers
            }
            for finisher in finishers { finisher.resume() }
        }
    }

    private func resumeJoiners() {
        ForkGuard.whole {
            let joiners = state.withLock { state in
                defer { state.joiners = [] }
                return state.joiners
            }
            for joiner in joiners { joiner.resume() }
        }
    }
}

// MARK: - State

extension RunLoopThread {
    /// True from ``start()`` to the end of the thread's work.
    public var isExecuting: Bool { RLThreadIsExecuting(thread) && !state.withLock { $0.isOver } }

    /// True after the body has returned, and what it left has been performed.
    public var isFinished: Bool { RLThreadIsFinished(thread) || state.withLock { $0.isOver } }

    /// Whether ``cancel()`` was called. A body has to check this from time to time.
    public var isCancelled: Bool { RLThreadIsCancelled(thread) }

    /// Whether ``stop()`` or ``cancel()`` was called. A body that runs the loop itself has to check this after each run.
    public var isEnding: Bool { isCancelled || state.withLock { $0.isStopping } }

    /// Whether the calling thread is one of these whose runs are to end.
    static var isEndingCaller: Bool { own.known?.endsItsRuns ?? false }

    /// The object of the calling thread, nil if it was not made by this class.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public static var current: RunLoopThread? { own.known }

    /// Keeps the object until the thread's values are destroyed: what its loop calls at the end, after the body, may ask for it.
    static let own = ThreadLocal<RunLoopThread>(outlivesLoop: true)

    /// Values that belong to the thread and are released with this object. For use on this thread only. They are `Sendable`,
    /// because values from the dictionary may go anywhere.
    ///
    /// Foundation: `threadDictionary`.
    public var threadDictionary: ThreadDictionary {
        get {
            precondition(RunLoopThread.own.known === self, "RunLoopThread: another thread's dictionary")
            return values
        }
        set {
            precondition(RunLoopThread.own.known === self, "RunLoopThread: another thread's dictionary")
            // What is replaced goes when the variable is free again: its end may ask for the dictionary.
            var other = newValue
            swap(&values, &other)
            withExtendedLifetime(other) {}
        }
    }
}

// MARK: - End

extension RunLoopThread {
    /// Ends the thread in order: what is already queued is performed first. Returns at once.
    ///
    /// Runs of the loop in common modes are stopped, including nested ones, and a ``RunLoop/run()`` and its like end with that. A thread
    /// that was not started is not affected.
    public func stop() {
        guard isStarted else { return }
        state.withLock { $0.isStopping = true }
        stopRuns()
    }

    /// Ends the thread after the current pass, without performing what is queued. Returns at once.
    ///
    /// A thread that was not started ends as soon as it is started. A body is called then too; it has to check ``isCancelled``.
    ///
    /// Foundation: `cancel()`, which only sets ``isCancelled``.
    public func cancel() {
        RLThreadCancel(thread)
        stopRuns()
    }

    private var isStarted: Bool { RLThreadGetRunLoop(thread) != nil }

    private func stopRuns() {
        guard let end = state.withLock({ $0.end }) else { return }
        end.signal()
        loop.wakeUp()
    }

    /// Waits until the thread and its loop have ended.
    ///
    /// It does not end the thread; call ``stop()`` first. On the thread itself, and if it was not started, it returns at once.
    @available(*, noasync, message: "waiting blocks the thread; use finish()")
    public func join() { RLThreadJoin(thread) }

    /// Stops the thread and waits until it has ended, without blocking the caller's thread.
    ///
    /// A job on the thread itself must not wait for its own end: there it returns when the stop has been requested.
    public func finish() async {
        // Once: a start that comes meanwhile is later than this.
        guard isStarted else { return }
        stop()
        if RLThreadGetCurrent() == thread { return }
        // Of the threads that would say so a child of `fork` has none.
        let number = ForkedChild.atBeginning { [self] in
            if !RLThreadIsFinished(thread) { return }
            over()
            resumeJoiners()
        }
        defer { ForkedChild.forget(number) }
        await withCheckedContinuation { continuation in
            let waits = state.withLock { state in
                if state.isOver || RLThreadIsFinished(thread) { return false }
                state.finishers.append(continuation)
                return true
            }
            if !waits { continuation.resume() }
        }
        // What is left are the destructors of the thread, among them all that its loop calls at the end, which may wait for tasks: no thread
        // that tasks need is held up for that.
        await withCheckedContinuation { continuation in
            state.withLock { $0.joiners.append(continuation) }
            let wait: @Sendable () -> Void = {
                self.join()
                self.resumeJoiners()
            }
            if !RunLoop.performInBackground(wait) { wait() }
        }
    }
}
