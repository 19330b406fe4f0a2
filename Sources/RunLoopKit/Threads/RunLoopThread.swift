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
// An `RLThreadRef` with a body of its own. What is added to that is the end of the executor's entries, which the C library does not know,
// the end in order of a thread whose body has returned, and the wait that blocks nobody.
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

    struct State {
        var isCancelled = false
        /// The body is over, and what was to be performed after it.
        var isOver = false
        var finishers: [LoopContinuation<Void, Never>] = []
        /// Who waits for what comes after that.
        var joiners: [LoopContinuation<Void, Never>] = []
        /// In which process a thread joins for all of them, by the generation; one of the parent's does not exist in a child.
        var joins: UInt?
    }

    let state = Locked(State())
    /// Thread's own.
    private var values = ThreadDictionary()

    /// Describes a thread; ``start()`` makes it.
    ///
    /// - Parameters:
    ///   - name: shown by debuggers and by ps.
    ///   - stackSize: in bytes, rounded up to whole pages and to 64 KiB, which a thread of Swift needs (S-NSTH-7); nil and 0 for the
    ///     system's own size.
    ///   - qualityOfService: see ``QualityOfService``.
    ///   - body: runs on the thread and gets this object, and is kept until the thread has ended; nil runs the loop until the thread is
    ///     stopped or cancelled.
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
        RLThreadSetStackSize(thread, Thread.sufficientStackSize(stackSize ?? 0))
        RLThreadSetPriority(thread, qualityOfService.niceValue)
    }

    deinit { RLRelease(RLTypeRef(thread)) }
}

/// What the C library calls on the thread. It, and not the thread's object, is what the C library keeps from the beginning.
// Sendable: who starts the thread sets `thread` before, and the thread alone has it then.
private final class ThreadBody: @unchecked Sendable {
    /// A constant closure: its call, on which the thread may end, need not hold a copy.
    final class Work: Sendable {
        private let body: @Sendable (RunLoopThread) -> Void

        init(_ body: @escaping @Sendable (RunLoopThread) -> Void) { self.body = body }

        func perform(on thread: RunLoopThread) { body(thread) }
    }

    /// Until the thread has ended; the thread's object may be kept for longer.
    private var work: Work?
    /// Keeps the object while the thread executes.
    var thread: RunLoopThread?

    init(_ body: (@Sendable (RunLoopThread) -> Void)?) { work = body.map { Work($0) } }

    var unmanagedThread: Unmanaged<RunLoopThread>? { thread.map { Unmanaged.passUnretained($0) } }

    @inline(never)
    var unmanagedWork: Unmanaged<Work>? { work.map { Unmanaged.passUnretained($0) } }

    /// On the thread, after all its work, also if a callback ended it; or when a thread that was never started is let go of.
    func end() {
        // The closure's end may be the client's code.
        let work = work.take()
        withExtendedLifetime(work) {}
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
        keepLoop()
        if let work = body.unmanagedWork {
            // Held by no variable, as above.
            work._withUnsafeGuaranteedRef { $0.perform(on: self) }
            if isCancelled { return }
            // What it has left is performed as after a stop.
            endCallingThread()
            RunLoop.runCallingThreads(mode: .default, for: .zero)
        } else {
            // The program too may stop the run.
            while !isEnding { RunLoop.runCallingThreads(mode: .default) }
            if isCancelled { return }
            endCallingThread()
        }
        RunLoopExecutor.performLast()
        // The C library performs what else is left, also by these.
    }

    /// From now on each run ends after a pass, and the C library performs what is queued when the body has returned.
    private func endCallingThread() { RLThreadStop(thread, true) }

    /// The thread's runs go on though nothing is in their modes. The source is the loop's alone, and in no variable of `main`: the body may end
    /// the thread, which releases none.
    @inline(never)
    private func keepLoop() { RunLoop.current.add(RunLoop.Source { _ in }, forMode: .common) }

    fileprivate func over() {
        state.withLock { $0.isOver = true }
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
                defer { (state.joiners, state.joins) = ([], nil) }
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
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Whether ``stop()`` or ``cancel()`` was called, or the body has returned. A body that runs the loop itself has to check this after
    /// each run.
    public var isEnding: Bool { RLThreadIsCancelled(thread) }

    /// Whether the calling thread is one of these whose runs are to end.
    static var isEndingCaller: Bool { own.known?.isEnding ?? false }

    /// Whether the calling thread is one of these that drops what is queued.
    static var isCancelledCaller: Bool { own.known?.isCancelled ?? false }

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
    /// Runs of the loop are stopped, including nested ones, in whatever mode, and a ``RunLoop/run()`` and its like end with that. Those that
    /// begin later make one pass and do not sleep. What the runs leave is performed after them and after the body. A thread
    /// that was not started is not affected.
    public func stop() {
        guard isStarted else { return }
        RLThreadStop(thread, true)
    }

    /// Ends the thread after the current pass, without performing what is queued. Returns at once.
    ///
    /// A thread that was not started ends as soon as it is started. A body is called then too; it has to check ``isCancelled``.
    ///
    /// Foundation: `cancel()`, which only sets ``isCancelled``.
    public func cancel() {
        state.withLock { $0.isCancelled = true }
        RLThreadStop(thread, false)
    }

    /// In the child of `fork`: the thread that was cancelling the calling one may have come to half of that.
    static func cancelInChild() {
        if let own = own.known, own.isCancelled { RLThreadStop(own.thread, false) }
    }

    private var isStarted: Bool { RLThreadGetRunLoop(thread) != nil }

    /// Waits until the thread and its loop have ended.
    ///
    /// It does not end the thread; call ``stop()`` first. On the thread itself, and if it was not started, it returns at once.
    @available(*, noasync, message: "waiting blocks the thread; use finish()")
    public func join() { RLThreadJoin(thread) }

    /// Stops the thread and waits until it has ended, without blocking the caller's thread.
    ///
    /// A job on the thread itself must not wait for its own end. A task that prefers the executor of the thread's loop, and no actor,
    /// calls this on the thread: there it returns when the stop has been requested. Code of an actor that has this executor leaves the
    /// thread with the call, which waits for the end; the actor goes on with no thread of its own (``RunLoopExecutor``).
    nonisolated(nonsending) public func finish() async { await finish(isolation: #isolation) }

    private func finish(isolation: isolated (any Actor)?) async {
        // Once: a start that comes meanwhile is later than this.
        guard isStarted else { return }
        stop()
        if isolation == nil && RLThreadGetCurrent() == thread { return }
        // Of the threads that would say so a child of `fork` has none.
        let number = ForkedChild.atBeginning { [self] in
            if !RLThreadIsFinished(thread) { return }
            over()
            resumeJoiners()
        }
        defer { ForkedChild.forget(number) }
        await RunLoopExecutor.staying(isolation: isolation) {
            await withCheckedContinuation(isolation: isolation) { (continuation: CheckedContinuation<Void, Never>) in
                // Made without the lock: the executor of an actor is the program's code, which may ask for the state.
                let finisher = LoopContinuation(continuation, isolation: isolation)
                let waits = state.withLock { state in
                    if state.isOver || RLThreadIsFinished(thread) { return false }
                    state.finishers.append(finisher)
                    return true
                }
                if !waits { continuation.resume() }
            }
        }
        // What is left are the destructors of the thread, among them all that its loop calls at the end, which may wait for tasks: no thread
        // that tasks need is held up for that.
        await RunLoopExecutor.staying(isolation: isolation) {
            await withCheckedContinuation(isolation: isolation) { (continuation: CheckedContinuation<Void, Never>) in
                let joiner = LoopContinuation(continuation, isolation: isolation)
                let generation = ForkedChild.generation
                let isFirst = state.withLock { state in
                    state.joiners.append(joiner)
                    defer { state.joins = generation }
                    return state.joins != generation
                }
                if !isFirst { return }
                let wait: @Sendable () -> Void = {
                    self.join()
                    self.resumeJoiners()
                }
                if !RunLoop.performInBackground(wait) { ForkedChild.runElsewhere { wait() } }
            }
        }
    }
}
