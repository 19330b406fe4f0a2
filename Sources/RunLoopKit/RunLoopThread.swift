#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A thread with a run loop, which is ready before ``start()`` returns, and with an orderly end.
///
/// Without a body of its own the thread runs its loop in the default mode until it is told to end; the loop is kept from being
/// empty meanwhile. A body replaces that and runs ``loop`` itself.
///
/// ``stop()`` ends it in order: the pass under way is completed, one more pass performs what was queued until then, and
/// the thread ends. ``cancel()`` leaves that pass out. ``join()`` and ``finish()`` wait for the end, after which the thread's
/// sources were cancelled and what was queued later was dropped.
///
/// - Threads: all members may be used from any thread but where they say otherwise.
/// - Foundation: `Thread`, which has neither a ready loop nor a join.
// Sendable: the constants are Sendable, the dictionary is the thread's own, everything else is behind the lock.
public final class RunLoopThread: @unchecked Sendable {
    /// How a thread shares the processor with others; a wish to the scheduler, which a system may not grant.
    ///
    /// Foundation: `QualityOfService`. The values become nice values of the thread.
    public enum QualityOfService: Int, Sendable, CaseIterable {
        /// For work that nobody waits for.
        case background
        /// For long work whose progress somebody follows.
        case utility
        /// Like threads that are not told otherwise.
        case `default`
        /// For work that somebody asked for and waits for.
        case userInitiated
        /// For what somebody sees at once.
        case userInteractive

        fileprivate var niceValue: CInt {
            switch self {
            case .background: 10
            case .utility: 5
            case .default: 0
            case .userInitiated: -2
            case .userInteractive: -5
            }
        }
    }

    /// The name, of which the system shows the first 15 bytes; nil if it has none.
    public let name: String?
    /// The wish given to ``init(name:stackSize:qualityOfService:body:)``.
    public let qualityOfService: QualityOfService
    private let stackSize: Int?
    private let body: (@Sendable (RunLoopThread) -> Void)?

    private enum Phase: Int, Comparable {
        case new, executing, finished, joined
        static func < (one: Phase, other: Phase) -> Bool { one.rawValue < other.rawValue }
    }

    private struct State {
        var phase = Phase.new
        var thread = pthread_t()
        var loop: RunLoop?
        var end: RunLoop.Source?
        var isCancelled = false
        var isStopping = false
        var isJoining = false
        var finishers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = LockedCondition(State())
    /// Thread's own.
    private var values: [AnyHashable: Any] = [:]

    /// Describes a thread; ``start()`` makes it.
    ///
    /// - Parameters:
    ///   - name: shown by debuggers and by ps.
    ///   - stackSize: in bytes, rounded up to what the system needs; nil for the system's own size.
    ///   - qualityOfService: see ``QualityOfService``.
    ///   - body: runs on the thread and is given this object; nil runs the loop until the thread is stopped or cancelled.
    public init(
        name: String? = nil, stackSize: Int? = nil, qualityOfService: QualityOfService = .default,
        body: (@Sendable (RunLoopThread) -> Void)? = nil
    ) {
        self.name = name
        self.stackSize = stackSize
        self.qualityOfService = qualityOfService
        self.body = body
    }

    deinit {
        state.withLock { state in
            if state.phase == .executing || state.phase == .finished { pthread_detach(state.thread) }
        }
    }
}

// MARK: - Beginning

extension RunLoopThread {
    /// No thread could be made: the process or the system has too many.
    public struct StartError: Error, Hashable, Sendable {
        /// What `pthread_create` said.
        public let errno: CInt
    }

    /// Makes the thread and returns when its loop is ready, before the body runs; again: nothing.
    ///
    /// - Throws: ``StartError``, after which it may be tried again.
    public func start() throws {
        let status: CInt = state.withLock { state in
            guard state.phase == .new else { return 0 }
            var attributes = pthread_attr_t()
            pthread_attr_init(&attributes)
            defer { pthread_attr_destroy(&attributes) }
            if let stackSize {
                let page = Int(sysconf(CInt(_SC_PAGESIZE)))
                let size = max(stackSize, 65536)
                pthread_attr_setstacksize(&attributes, (size + page - 1) / page * page)
            }
            let info = Unmanaged.passRetained(self)
            let status = pthread_create(&state.thread, &attributes, runRunLoopThread, info.toOpaque())
            if status != 0 { info.release() } else { state.phase = .executing }
            return status
        }
        if status != 0 { throw StartError(errno: status) }
        state.wait(until: { $0.loop != nil })
    }

    /// The thread's loop. The thread must have been started.
    public var loop: RunLoop {
        guard let loop = state.withLock({ $0.loop }) else { preconditionFailure("RunLoopThread: not started") }
        return loop
    }

    fileprivate func main() {
        RunLoopThread.currentKey.set(self)
        if let name { setThreadName(name) }
        // Refused without the right to do so, which is no reason not to run.
        let ofThread = 0  // PRIO_PROCESS, whose type differs between C libraries; the second 0 is the calling thread.
        if qualityOfService != .default { setpriority(.init(ofThread), 0, qualityOfService.niceValue) }

        let loop = RunLoop.current
        let end = RunLoop.Source { [weak self] source in
            guard let self, self.isEnding else { return }
            RunLoop.current.stop()
            // A stop ends the innermost run; the runs around it are told in their next passes.
            source.signal()
        }
        loop.add(end, forMode: .common)
        state.withLock { state in
            state.end = end
            state.loop = loop
        }

        if let body {
            body(self)
        } else {
            while !isEnding { loop.run(mode: .default) }
        }
        end.invalidate()
        if !isCancelled { loop.run(mode: .default, for: .zero) }

        let finishers = state.withLock { state in
            state.phase = .finished
            defer { state.finishers = [] }
            return state.finishers
        }
        for finisher in finishers { finisher.resume() }
    }
}

// MARK: - State

extension RunLoopThread {
    /// True from ``start()`` to the end of the body.
    public var isExecuting: Bool { state.withLock { $0.phase == .executing } }

    /// True after the body has returned.
    public var isFinished: Bool { state.withLock { $0.phase >= .finished } }

    /// Whether ``cancel()`` was called. A body looks at this from time to time.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Whether ``stop()`` or ``cancel()`` was called. A body that runs the loop itself looks at this after each run.
    public var isEnding: Bool { state.withLock { $0.isStopping || $0.isCancelled } }

    /// The object of the calling thread, nil if it was not made by this class.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public static var current: RunLoopThread? { currentKey.get() }

    fileprivate static let currentKey = ThreadKey<RunLoopThread>()

    /// Values that belong to the thread and are let go of with this object. Of this thread only.
    ///
    /// Foundation: `threadDictionary`.
    public var threadDictionary: [AnyHashable: Any] {
        get {
            precondition(RunLoopThread.currentKey.get() === self, "RunLoopThread: another thread's dictionary")
            return values
        }
        set {
            precondition(RunLoopThread.currentKey.get() === self, "RunLoopThread: another thread's dictionary")
            values = newValue
        }
    }
}

// MARK: - End

extension RunLoopThread {
    /// Ends the thread in order: what was queued by now is performed first. Returns at once.
    ///
    /// Runs of the loop in common modes are stopped, nested ones too. A thread that was not started is not affected.
    public func stop() { end { $0.isStopping = true } }

    /// Ends the thread after the pass under way, without performing what is queued. Returns at once.
    ///
    /// Foundation: `cancel()`, which does no more than set ``isCancelled``.
    public func cancel() { end { $0.isCancelled = true } }

    private func end(_ change: (inout State) -> Void) {
        let (end, loop) = state.withLock { state in
            if state.phase != .new { change(&state) }
            return (state.end, state.loop)
        }
        end?.signal()
        loop?.wakeUp()
    }

    /// Waits until the thread is gone, with all that the end of a thread does to its loop.
    ///
    /// It does not end the thread; call ``stop()`` before. On the thread itself, and if it was not started, it returns at once.
    @available(*, noasync, message: "waiting blocks the thread; use finish()")
    public func join() { joinThread() }

    /// Stops the thread and waits until it is gone, without holding up the caller's thread for its work.
    ///
    /// A job on the thread itself must not wait for its own end: there it returns when the thread was told to stop.
    public func finish() async {
        stop()
        if state.withLock({ $0.phase == .executing && pthread_equal($0.thread, pthread_self()) != 0 }) { return }
        await withCheckedContinuation { continuation in
            let waits = state.withLock { state in
                guard state.phase == .executing else { return false }
                state.finishers.append(continuation)
                return true
            }
            if !waits { continuation.resume() }
        }
        // What is left is the destructors of the thread.
        joinThread()
    }

    private func joinThread() {
        let thread: pthread_t? = state.withLock { state in
            guard state.phase == .executing || state.phase == .finished, !state.isJoining,
                pthread_equal(state.thread, pthread_self()) == 0
            else { return nil }
            state.isJoining = true
            return state.thread
        }
        if let thread {
            pthread_join(thread, nil)
            state.withLock { $0.phase = .joined }
        } else {
            state.wait(until: { $0.phase == .joined || $0.phase == .new || pthread_equal($0.thread, pthread_self()) != 0 })
        }
    }
}

private func runRunLoopThread(_ info: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    Unmanaged<RunLoopThread>.fromOpaque(info!).takeRetainedValue().main()
    return nil
}

/// Sets the calling thread's name, of which the system keeps 15 bytes.
private func setThreadName(_ name: String) {
    // The declaration is not in the part of the C library that Swift sees.
    typealias Function = @convention(c) (pthread_t, UnsafePointer<CChar>) -> CInt
    guard let found = dlsym(nil, "pthread_setname_np") else { return }
    var short = name
    while short.utf8.count > 15 { short.removeLast() }
    _ = short.withCString { unsafeBitCast(found, to: Function.self)(pthread_self(), $0) }
}
