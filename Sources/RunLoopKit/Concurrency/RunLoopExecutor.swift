// SPDX-License-Identifier: MIT
internal import Synchronization

#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// Runs actors and tasks on the thread of a run loop.
///
/// An actor whose `unownedExecutor` is that of a ``RunLoop/executor`` lives on the loop's thread: its methods run
/// there, and `assumeIsolated` holds in whatever the loop calls, such as the closures of its timers and sources.
/// `Task(executorPreference:)` and `withTaskExecutorPreference` run a task's own code there.
///
///     actor Connection {
///         let executor: RunLoopExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
///         init(on loop: RunLoop) { executor = loop.executor }
///     }
///
/// Jobs run in the order in which they were enqueued, whatever their priority, in the loop's common modes, as queued
/// closures do; they wake the loop. They do not keep a run going, nor do they end one. While one is on the stack, a
/// nested run of the loop leaves the others waiting, because their actor is busy; a run in a closure of
/// ``RunLoop/call(isolation:_:)`` serves them. Between two actors on one loop nothing is enqueued: the one calls the other.
///
/// A loop that does not run does not run jobs either. When its thread ends, the jobs that were left and those that come
/// later run one at a time on the global executor: no task is lost, and an actor stays exclusive, though it has no thread.
///
/// - Threads: all members may be used from any thread.
/// - Foundation, CF: no counterpart.
// There is one for each loop that was asked for one, kept by its drainers until the loop's thread ends, and by the loop's object. It has two lists of entries: those that the loop's own thread appends, which takes no lock,
// and the mail of all others. One function posted to the common modes drains both, and is on its way, or drains, whenever
// there are entries (`isScheduled`); so what is appended meanwhile is neither posted nor wakes anybody.
// Sendable: what is not atomic, constant or behind the lock belongs to the loop's thread.
public final class RunLoopExecutor: SerialExecutor, TaskExecutor, @unchecked Sendable {
    /// This object owns one reference to the loop.
    let reference: RLRunLoopRef
    let mail = Locked(Mail())
    /// Whether there is mail; changed under the lock.
    private let hasMail = Atomic(false)
    /// A function that drains is on its way to the loop, or drains now. Becomes false under the lock, on the loop's thread.
    private let isScheduled = Atomic(false)
    /// Appended and taken by the loop's thread.
    var own = LoopEntries()
    /// How many requests were cancelled, and up to which of these cancellations `own` has none that is over. The latter is the loop's
    /// thread's.
    private let cancellations = Atomic<UInt>(0)
    private var seenCancellations: UInt = 0
    /// Loop's thread only. What is on its stack: awaited closures, and whether a job is among it.
    var running: [LoopRequest] = []
    private var jobs = 0
    /// Loop's thread only. Empty but for what has just left ``Mail/taken``.
    var forgotten: [LoopRequest] = []
    /// Loop's thread only: how many entries were taken and are done or on the stack.
    var begun = 0
    /// Loop's thread only. The innermost drain goes on with the entries when its present one is done.
    var isDraining = false
    /// Loop's thread only. Those of functions that have yet to be called, besides the one in the mail.
    var otherDrainers: [Drainer] = []
    /// Tells of the end. Set before the loop has it; cleared with the end, because it keeps this object.
    let endSource = Locked<RunLoop.Source?>(nil)

    /// What other threads appended, and the state in which everybody's entries go elsewhere.
    struct Mail {
        var entries = LoopEntries()
        /// What functions that drain are posted with.
        var drainer = Drainer()
        /// The requests that the loop's thread has taken out of `entries` and has not done yet, and some that it has: in the child of
        /// `fork`, which cannot look at what belongs to a thread, somebody waits for them.
        var taken: [LoopRequest] = []
        /// How many requests were cancelled since those in `entries` were last removed.
        var cancelled = 0
        /// The loop's thread has ended; ``RunLoopExecutor/drainElsewhere()`` does what is in `entries` from then on.
        var isEnded = false
        var isDrainedElsewhere = false
        /// Those who want to know of the end, by their numbers.
        var endHandlers: [UInt: @Sendable () -> Void] = [:]
        var lastHandler: UInt = 0
    }

    /// The executors by the addresses of their loops. One keeps its loop, so an address never names another, newer loop.
    static let table = WeakTable<UInt, RunLoopExecutor>()

    /// What the C library has of the executor. It keeps the executor until the loop's thread ends: a posted function that never runs is
    /// kept by the loop for longer, and must not keep what keeps the loop.
    // Sendable: the property is the loop's thread's, from the first post on.
    final class Drainer: @unchecked Sendable {
        /// Nil: a function posted with it does nothing.
        var executor: RunLoopExecutor?

        var unmanagedExecutor: Unmanaged<RunLoopExecutor>? { executor.map { Unmanaged.passUnretained($0) } }
    }

    /// Kept by the thread as its own: set when an executor first drains there.
    static let currentKey = ThreadKey<RunLoopExecutor>()
    /// The one whose thread has ended and of which the calling thread does an actor's job. The runtime knows by itself that this is isolated to an
    /// actor with this executor, and asks where the actor has an executor of the program's that sends its jobs on.
    static let elsewhereKey = ThreadKey<RunLoopExecutor>()

    static func prepare() { _ = (table, currentKey, elsewhereKey, endingKey) }

    init(_ reference: RLRunLoopRef) {
        self.reference = reference
        _ = RLRetain(RLTypeRef(reference))
        mail.withLock { $0.drainer }.executor = self
    }

    deinit {
        RunLoopExecutor.table.forget(UInt(bitPattern: reference), of: self)
        RLRelease(RLTypeRef(reference))
    }

    /// The loop on whose thread the jobs run.
    public var loop: RunLoop { LoopRegistry.wrapper(of: reference) }

    // MARK: - For the concurrency runtime

    /// Called by the concurrency runtime with jobs of actors.
    public func enqueue(_ job: consuming ExecutorJob) { append(.actorJob(UnownedJob(job))) }

    /// Called by the concurrency runtime with jobs of tasks that prefer this executor. They are not isolated to an actor;
    /// running them as actors' jobs would send each to the executor a second time.
    // Disfavoured, because it has the name `enqueue` too: a program that sends a job on means the one for actors.
    @_disfavoredOverload
    @_implements(TaskExecutor, enqueue(_:))
    public func enqueueTask(_ job: consuming ExecutorJob) { append(.taskJob(UnownedJob(job))) }

    /// The executor as an actor's `unownedExecutor` returns it; the actor keeps this object.
    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    /// Called by the concurrency runtime: ends the program if this is not the loop's thread, nor in an actor's job after the end of that.
    public func checkIsolated() {
        precondition(isOnThread, "RunLoopExecutor: not on the thread of the loop")
    }

    /// Whether the calling code is on the loop's thread, while that lives, or in an actor's job that runs elsewhere after its end.
    public func isIsolatingCurrentContext() -> Bool? { isOnThread }

    /// A thread that has no loop is given none by the question.
    private var isOnThread: Bool {
        if isOfCaller || RunLoopExecutor.elsewhereKey.get() === self { return true }
        return !hasEnded && RLGetCurrentIfMade() == reference
    }

    /// The one on whose thread the calling task goes on when it has waited: that of its actor, or without an actor the one that it
    /// prefers. Nil if that is none of these, or another thread's.
    static func ofTask(isolatedTo actor: (any Actor)?) -> RunLoopExecutor? {
        guard let executor = currentKey.get() else { return nil }
        let isOwn =
            if let actor {
                identity(of: actor.unownedExecutor) == identity(of: executor.asUnownedSerialExecutor())
            } else {
                withUnsafeCurrentTask { $0?.unownedTaskExecutor == executor.asUnownedTaskExecutor() }
            }
        return isOwn ? executor : nil
    }

    /// The first of the two words that the runtime has for an executor is the address of its object. There is no comparison of them.
    private static func identity(of executor: UnownedSerialExecutor) -> UInt { unsafeBitCast(executor, to: (UInt, UInt).self).0 }

    /// Whether it has drained on the calling thread, and that lives.
    var isOfCaller: Bool { RunLoopExecutor.currentKey.get() === self }

    // MARK: - Appending

    /// Puts something in and wakes the loop. After the loop's end a job goes elsewhere and a request is abandoned.
    func append(_ entry: LoopEntry) {
        guard isOfCaller else { return send(entry) }
        // By the mail, so that it is noted there.
        if case .request = entry { return send(entry) }
        // What others sent before goes first.
        takeMail()
        own.append(entry)
        // Once it is true only this thread makes it false.
        if !isScheduled.load(ordering: .relaxed) && !isScheduled.exchange(true, ordering: .acquiringAndReleasing) { post() }
    }

    private func send(_ entry: LoopEntry) {
        enum Then { case nothing, post, drainElsewhere, abandon }
        // The concurrency runtime holds no reference to an executor that it calls. Once the entry is in the list the loop's end may let it
        // run elsewhere, and with its task the actor may go that keeps this object.
        let kept = Unmanaged.passRetained(self)
        defer { kept.release() }
        let then: Then = mail.withLock { mail in
            if mail.isEnded, case .request = entry { return .abandon }
            mail.entries.append(entry)
            if mail.isEnded {
                defer { mail.isDrainedElsewhere = true }
                return mail.isDrainedElsewhere ? .nothing : .drainElsewhere
            }
            hasMail.store(true, ordering: .relaxed)
            return isScheduled.exchange(true, ordering: .acquiringAndReleasing) ? .nothing : .post
        }
        switch then {
        case .nothing: break
        case .post: post()
        case .drainElsewhere: ForkedChild.runElsewhere { self.drainElsewhere() }
        case .abandon: if case .request(let request) = entry { request.abandon() }
        }
    }

    /// A request was cancelled, and is over. A loop that is not run, or whose thread is busy, does not collect them: they are removed when
    /// they may be half of the entries, so that a cancellation costs the same however many entries there are.
    func noteCancellation() {
        cancellations.add(1, ordering: .releasing)
        let over = mail.withLock { mail -> [LoopRequest] in
            mail.cancelled += 1
            guard RunLoopExecutor.isWorthwhile(mail.cancelled, among: mail.entries.count) else { return [] }
            mail.cancelled = 0
            return mail.entries.removeOver()
        }
        withExtendedLifetime(over) {}
    }

    private static func isWorthwhile(_ cancelled: Int, among count: Int) -> Bool { cancelled >= 64 && 2 * cancelled >= count }

    /// The same for what the thread has taken out of the mail. Loop's thread.
    private func removeOver() {
        let now = cancellations.load(ordering: .acquiring)
        guard RunLoopExecutor.isWorthwhile(Int(clamping: now &- seenCancellations), among: own.count) else { return }
        seenCancellations = now
        let over = own.removeOver()
        // They count as done.
        begun += over.count
    }

    /// Loop's thread.
    func takeMail() {
        guard hasMail.load(ordering: .relaxed) else { return }
        removeOver()
        mail.withLock { mail in
            // Now and then, so that what is done does not pile up while there is always something left.
            if mail.taken.count >= LoopEntries.keptCapacity + 2 * own.count { noteTaken(in: &mail) }
            mail.entries.appendRequests(to: &mail.taken)
            own.takeAll(of: &mail.entries)
            hasMail.store(false, ordering: .relaxed)
        }
        forgetDone()
    }

    /// Notes the requests that the thread has not done yet, and no others. Loop's thread, with the lock; ``forgetDone()`` comes after it.
    private func noteTaken(in mail: inout Mail) {
        swap(&mail.taken, &forgotten)
        mail.taken.append(contentsOf: running)
        own.appendRequests(to: &mail.taken)
    }

    /// They go when nothing is looking at the list: what a program's object does at its end may come here again.
    private func forgetDone() {
        if forgotten.isEmpty { return }
        var done: [LoopRequest] = []
        swap(&done, &forgotten)
        done.removeAll(keepingCapacity: done.capacity <= LoopEntries.keptCapacity)
        if forgotten.isEmpty { swap(&done, &forgotten) }
    }

    // MARK: - On the loop

    /// Whether such a function is on its way, or will be in a moment. Loop's thread.
    var isWaitingForDrain: Bool { !isDraining && isScheduled.load(ordering: .relaxed) }

    /// Refused after the end of the loop's thread, which has taken or will take the entries.
    func post() {
        let drainer = mail.withLock { $0.drainer }
        RLPerformFunction(reference, kRLCommonModes, performDrain, Unmanaged.passRetained(drainer).toOpaque(), releaseDrainer)
        RLWakeUp(reference)
    }

    /// Nobody runs it. It is not empty as long as a run would see a function that was posted again (S-BLK-10, S-BLK-15).
    private static var drainMode: RunLoop.Mode { RunLoop.Mode("RunLoopKit.drain") }

    /// The modes of the library's own, in which nothing is ever run and which the program is not shown.
    static var ownModes: [RunLoop.Mode] { [endMode, drainMode] }

    /// The function on its way may be in the round of a run around the one that is to serve the entries, which does not see it
    /// (S-BLK-15). So there is another one, which that run sees, and whichever is called first drains. Loop's thread.
    func postAgain() {
        guard isWaitingForDrain, !hasEnded else { return }
        // A run that sees one of these, also if that does nothing any more, sees whatever was posted later.
        if !GuestLoop.isModeEmpty(RunLoopExecutor.drainMode) { return }
        let drainer = Drainer()
        drainer.executor = self
        otherDrainers.append(drainer)
        withNames(of: [.common, RunLoopExecutor.drainMode]) { names in
            RLPerformFunctionInModes(
                reference, names.baseAddress, names.count, performDrain, Unmanaged.passRetained(drainer).toOpaque(), releaseDrainer)
        }
    }

    /// The function that was posted with one drainer is the one that drains, and goes on with that.
    private func settle(on drainer: Drainer) {
        if otherDrainers.isEmpty { return }
        let former = mail.withLock { mail in
            let former = mail.drainer
            mail.drainer = drainer
            return former
        }
        for other in otherDrainers + [former] where other !== drainer { other.executor = nil }
        otherDrainers = []
    }

    /// How many entries one drain runs. More than that are for a later round, however long they have been waiting: what else the
    /// loop has to do is late by no more than so many.
    private static let turn = 64

    /// Runs what is in the lists, and what it appends itself, for the length of a turn.
    fileprivate func drain(_ drainer: Unmanaged<Drainer>) {
        // In a run under an entry, which goes on with the others itself.
        if isDraining { return }
        drainer._withUnsafeGuaranteedRef { settle(on: $0) }
        if RunLoopExecutor.currentKey.get() !== self { RunLoopExecutor.currentKey.set(self) }
        isDraining = true
        takeMail()
        for _ in 0..<RunLoopExecutor.turn {
            if own.isEmpty { takeMail() }
            guard let next = takeNext() else { break }
            run(next)
            // A run in it has left the entries to another drain.
            if !isDraining { return }
        }
        rest()
    }

    /// Ends a drain: what is left is posted.
    func rest() {
        isDraining = false
        let isLeft = mail.withLock { mail in
            if mail.isEnded { return false }
            if !own.isEmpty || !mail.entries.isEmpty { return true }
            if !mail.taken.isEmpty { noteTaken(in: &mail) }
            isScheduled.store(false, ordering: .releasing)
            return false
        }
        forgetDone()
        if isLeft { post() }
    }

    /// Calls the body, which runs the calling thread's loop. Unless a job is on the stack, the run serves the entries as any other does.
    /// The drain whose awaited closure calls this goes on afterwards, or leaves the rest to one that is on its way.
    static func runningNested<Result>(_ body: () -> Result) -> Result {
        // No variable holds the executor meanwhile.
        let interruptsDrain = beginNested()
        let result = body()
        if interruptsDrain { endNested() }
        return result
    }

    /// The same for a run that returns to others between its calls: the drain whose awaited closure makes such a call leaves the rest to others.
    @inline(never)
    static func leaveDrain() { _ = beginNested() }

    /// - Returns: whether the drain that is on the stack has ended, and would go on.
    @inline(never)
    private static func beginNested() -> Bool {
        guard let executor = currentKey.get() ?? known(of: RLGetCurrentIfMade()) else { return false }
        if !executor.isDraining {
            executor.postAgain()
            return false
        }
        if executor.jobs > 0 { return false }
        executor.rest()
        return true
    }

    @inline(never)
    private static func endNested() {
        guard let executor = currentKey.get() else { return }
        executor.isDraining = !executor.isScheduled.exchange(true, ordering: .acquiringAndReleasing)
    }

    /// The entry whose turn it is. A request is held by ``running`` alone and by no variable of the functions that run it: it may end the
    /// thread, which releases none.
    enum Next {
        case job(LoopEntry)
        case request(Unmanaged<LoopRequest>)
    }

    /// Loop's thread.
    @inline(never)
    func takeNext() -> Next? {
        guard let entry = own.takeFirst() else { return nil }
        begun += 1
        guard case .request(let request) = entry else { return .job(entry) }
        running.append(request)
        return .request(Unmanaged.passUnretained(request))
    }

    /// Loop's thread.
    func run(_ next: Next) {
        switch next {
        case .job(let entry):
            jobs += 1
            runJob(entry)
            jobs -= 1
        case .request(let request):
            request._withUnsafeGuaranteedRef { $0.run() }
            running.removeLast()
        }
    }

    /// Any thread.
    func runJob(_ entry: LoopEntry) {
        switch entry {
        case .actorJob(let job): job.runSynchronously(on: asUnownedSerialExecutor())
        case .taskJob(let job): job.runSynchronously(on: asUnownedTaskExecutor())
        case .request: preconditionFailure("a request is no job")
        }
    }
}

private func performDrain(_ info: UnsafeMutableRawPointer?) {
    // Not held by variables, nor by closures that code without optimisation lets hold what they use: an entry may end the thread, which
    // releases none. Until that the drainer keeps the executor.
    let drainer = Unmanaged<RunLoopExecutor.Drainer>.fromOpaque(info!)
    drainer._withUnsafeGuaranteedRef { $0.unmanagedExecutor }?._withUnsafeGuaranteedRef { $0.drain(drainer) }
}

private func releaseDrainer(_ info: UnsafeMutableRawPointer?) { Unmanaged<RunLoopExecutor.Drainer>.fromOpaque(info!).release() }

extension RunLoop {
    /// The executor that runs actors and tasks on this loop's thread: one object per loop.
    ///
    /// - Threads: any.
    /// - Foundation, CF: no counterpart; `MainActor` is that of the main thread.
    public var executor: RunLoopExecutor {
        knownExecutor.load() ?? knownExecutor.storeIfNil(RunLoopExecutor.of(self))
    }
}
