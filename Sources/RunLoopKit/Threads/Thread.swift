// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

internal import Synchronization

/// A thread with the shape that Foundation gives it: a closure, or a subclass with its own ``main()``.
///
///     let thread = Thread { work() }
///     thread.name = "worker"
///     thread.start()
///
/// Each thread has such an object, whoever made it: ``current``. The thread has its run loop when ``start()`` returns, and runs it
/// only if its closure does. ``RunLoopThread`` is a thread that lives in its loop, and can be waited for.
///
/// - Threads: all members may be used from any thread.
/// - Fork: in the child other threads count as finished, and the thread that forked is the main one.
/// - Foundation: `Thread`, which files that import RunLoopKitFoundation use instead. C: `RLThreadRef`.
// Sendable: what changes is behind a lock or atomic.
open class Thread: @unchecked Sendable {
    enum Phase { case new, executing, finished }

    struct State {
        var phase = Phase.new
        /// The thread of the C library, from the start on. This object owns one reference.
        var reference: RLThreadRef?
        /// While the thread executes. The main thread's is known once that thread has asked for its object.
        var handle: pthread_t?
        /// The kernel's number, of a thread that the class has not started; known and gone with the handle.
        var number: pid_t?
        var name: String?
        /// 0: the system's own.
        var stackSize = 0
        var quality = QualityOfService.default
        /// Once it was set; see ``niceValue``.
        var priority: Double?
        var niceValue: CInt?
        var dictionary = ThreadDictionary()
        /// What the C library was given for the start; it may be changed before the thread is there.
        var given: (name: String?, niceValue: CInt) = (nil, 0)
        var hasToldEnd = false
        /// Until the end of the thread.
        var work: ThreadWork?

        var wantedNiceValue: CInt { niceValue ?? quality.niceValue }
    }

    let state = Locked(State())
    private let cancelled = Atomic(false)
    /// Of the process in which the object was made.
    private let generation = ForkedChild.generation

    /// Makes a thread whose work is the subclass's ``main()``.
    public init() {}

    /// Makes a thread that calls a closure.
    ///
    /// - Parameter block: called once, on the thread. It is kept until the thread has ended.
    public init(block: @escaping @Sendable () -> Void) {
        let work = ThreadWork(block)
        state.withLock { $0.work = work }
    }

    /// Makes a thread that performs a selector. It keeps the target and the argument until it has ended.
    ///
    /// - Parameters:
    ///   - target: the object that performs it.
    ///   - selector: the action.
    ///   - argument: the argument of the selector's action.
    public convenience init<Target: Performer>(target: Target, selector: Selector<Target>, object argument: (any Sendable)?) {
        self.init { selector.action(target, argument) }
    }

    /// The object of a thread that was there before it: the calling one, or one that has not asked for it yet.
    init(ofCallingThread isOwn: Bool) {
        let (handle, number) = isOwn ? (pthread_self(), Thread.ownNumber) : (nil, nil)
        let name = isOwn ? RLThreadGetName(RLThreadGetCurrent()).map { String(cString: $0) } : nil
        state.withLock { state in
            state.phase = .executing
            state.handle = handle
            state.number = number
            state.name = name
        }
    }

    deinit {
        if let reference = state.withLock({ $0.reference }) { RLRelease(RLTypeRef(reference)) }
    }

    /// The thread's work: calls the closure. A subclass overrides it, and need not call this.
    open func main() {
        let caller = pthread_self()
        guard state.withLock({ $0.handle == caller }) else { return state.withLock({ $0.work })?.perform() ?? () }
        // Held by no variable: it may end the thread, which releases none. The thread's end, which takes it, is this thread's too.
        unmanagedWork?._withUnsafeGuaranteedRef { $0.perform() }
    }

    @inline(never)
    private var unmanagedWork: Unmanaged<ThreadWork>? { state.withLock { $0.work.map { Unmanaged.passUnretained($0) } } }

    /// Makes the thread, once, and does not wait for it (S-NSTH-1).
    ///
    /// A thread that was cancelled before is finished by the call, without being made. Starting it again ends the program, and so
    /// does a system without room for another thread.
    open func start() {
        let isCancelled = isCancelled
        let isFirst = state.withLock { state in
            if state.phase != .new { return false }
            state.phase = isCancelled ? .finished : .executing
            return true
        }
        precondition(isFirst, "Thread.start: the thread was started already")
        if isCancelled { return dropWork() }
        Thread.becomeMultiThreaded()
        // Released by the C library when the thread has ended.
        let info = Unmanaged.passRetained(self).toOpaque()
        let reference = RLThreadCreate(
            { _, info in
                // Not held by a variable: the closure may end the thread, which releases none.
                Unmanaged<Thread>.fromOpaque(info!)._withUnsafeGuaranteedRef { $0.begin(); $0.main() }
            }, info,
            { info in
                let thread = Unmanaged<Thread>.fromOpaque(info!).takeRetainedValue()
                thread.end()
            })
        let (given, stackSize) = state.withLock { state in
            state.given = (state.name, state.wantedNiceValue)
            return (state.given, state.stackSize)
        }
        RLThreadSetName(reference, given.name)
        RLThreadSetStackSize(reference, stackSize)
        RLThreadSetPriority(reference, given.niceValue)
        // From now on others ask it for the size of the stack, and change what it was given.
        state.withLock { $0.reference = reference }
        // Who cancels it looks at the reference later.
        if cancelled.load(ordering: .sequentiallyConsistent) { RLThreadCancel(reference) }
        // Nobody joins it: its stack goes with the thread, not with this object.
        _ = RLThreadDetach(reference)
        precondition(RLThreadStart(reference), "Thread.start: the system has no room for another thread")
    }

    /// On the thread, before its closure.
    private func begin() {
        Thread.become(self)
        let handle = pthread_self()
        // Who changes these later finds the thread.
        let (niceValue, isRenamed): (CInt?, Bool) = state.withLock { state in
            state.handle = handle
            let wanted = state.wantedNiceValue
            return (wanted == state.given.niceValue ? nil : wanted, state.name != state.given.name)
        }
        if isRenamed { showName() }
        if let niceValue { _ = RLThreadChangePriority(nil, niceValue) }
    }

    func noteHandle() {
        let handle = pthread_self()
        state.withLock { $0.handle = handle }
    }

    /// On the thread, after its closure, also if that ended the thread.
    private func end() {
        tellEnd()
        finish()
        dropWork()
    }

    /// The closure may lead to this object, and its end may be the client's code: it goes after the lock.
    private func dropWork() {
        let work = state.withLock { $0.work.take() }
        withExtendedLifetime(work) {}
    }

    func finish() {
        state.withLock { state in
            state.phase = .finished
            state.handle = nil
            state.number = nil
        }
    }

    /// Posts that the thread ends, once.
    func tellEnd() {
        let isFirst = state.withLock { state in
            defer { state.hasToldEnd = true }
            return !state.hasToldEnd
        }
        if !isFirst { return }
        // A thread that ended by pthread_exit may have let go of its object already.
        Thread.become(self)
        NotificationCenter.default.post(name: .NSThreadWillExit, object: self)
    }

    /// Sets ``isCancelled``, permanently, and wakes the thread's loop. It does not end the thread: the thread has to check.
    open func cancel() {
        cancelled.store(true, ordering: .sequentiallyConsistent)
        if let reference = state.withLock({ $0.reference }) { RLThreadCancel(reference) }
    }

    /// Whether ``cancel()`` was called.
    open var isCancelled: Bool { cancelled.load(ordering: .sequentiallyConsistent) }

    /// True from ``start()`` to the end of the thread's work.
    open var isExecuting: Bool {
        let (phase, reference) = state.withLock { ($0.phase, $0.reference) }
        return phase == .executing && !isGone(reference)
    }

    /// True after the end of the thread's work, however it ended.
    open var isFinished: Bool {
        let (phase, reference) = state.withLock { ($0.phase, $0.reference) }
        return phase == .finished || (phase == .executing && isGone(reference))
    }

    /// Whether the thread that was there is no more: it was one of the parent's, or an observer of its end ended it.
    private func isGone(_ reference: RLThreadRef?) -> Bool {
        if let reference { return RLThreadIsFinished(reference) }
        return generation != ForkedChild.generation && Thread.main !== self
    }
}

/// What a thread calls. Its closure is constant, so that the call, on which the thread may end, need not hold a copy.
final class ThreadWork: Sendable {
    private let block: @Sendable () -> Void

    init(_ block: @escaping @Sendable () -> Void) { self.block = block }

    func perform() { block() }
}

extension Thread: Hashable, CustomStringConvertible {
    /// Whether both are the same object.
    public static func == (one: Thread, other: Thread) -> Bool { one === other }

    /// Feeds the identity to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }

    /// The class, the address and the name.
    public var description: String {
        let address = String(UInt(bitPattern: Unmanaged.passUnretained(self).toOpaque()), radix: 16)
        return "<\(type(of: self)): 0x\(address)>{name = \(name ?? "(none)")}"
    }
}
