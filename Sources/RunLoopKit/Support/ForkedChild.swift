// SPDX-License-Identifier: MIT
internal import Synchronization

#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// What the child of `fork` has to put right in this module; the C library does its own part (S-FORK-1).
///
/// There the forking thread and its loop go on, and that loop is the main one. All other loops have vanished: their executors have
/// ended. Who waits for them is told when the child runs its loop, and not before, since most children only call `exec`. The jobs
/// that they had are the parent's and are not done twice.
enum ForkedChild {
    /// How many forks lie between this process and the one that began. Written in the child while it has one thread.
    private static let forks = Atomic<UInt>(0)

    static var generation: UInt { forks.load(ordering: .relaxed) }

    /// Whether this is a child, in which libdispatch has no threads.
    static var isChild: Bool { generation != 0 }

    /// In the child, before `fork` returns there. No lock is held.
    static func begin() {
        forks.add(1, ordering: .relaxed)
        LoopRegistry.forgetMain()
        Thread.forgetMain()
        RunLoopThread.cancelInChild()
        let executors = RunLoopExecutor.all
        let hasHandlers = hasHandlers
        GlobalJobs.beginInChild()
        if executors.isEmpty && !hasHandlers { return }
        let main = RLGetMain()
        RunLoopExecutor.known(of: main)?.goOnInChild()
        let calls = ForkedChild.calls(of: executors, except: main) + (hasHandlers ? [{ callHandlers() }] : [])
        if calls.isEmpty { return }
        RLPerformFunction(
            main, kRLCommonModes, { Unmanaged<Calls>.fromOpaque($0!).takeUnretainedValue().make() },
            Unmanaged.passRetained(Calls(calls)).toOpaque(), { Unmanaged<Calls>.fromOpaque($0!).release() })
    }

    // MARK: - Who waits for a thread, and not for a loop

    private struct Handlers {
        var all: [UInt: @Sendable () -> Void] = [:]
        var last: UInt = 0
    }
    private static let handlers = Locked(Handlers())

    private static var hasHandlers: Bool { handlers.withLock { !$0.all.isEmpty } }

    /// Has the handler called when a child of `fork` runs its loop for the first time, after those of executors that have vanished.
    static func atBeginning(_ handler: @escaping @Sendable () -> Void) -> UInt {
        handlers.withLock { handlers in
            handlers.last += 1
            handlers.all[handlers.last] = handler
            return handlers.last
        }
    }

    /// Takes a handler back; one that is being called goes on.
    static func forget(_ number: UInt) {
        let handler = handlers.withLock { $0.all.removeValue(forKey: number) }
        _ = handler
    }

    private static func callHandlers() {
        for handler in handlers.withLock({ Array($0.all.values) }) { handler() }
    }

    /// In the thread that is about to fork.
    static func prepare() { _ = hasPrepared }

    private static let hasPrepared: Bool = {
        makeStatics()
        warmUp()
        return true
    }()

    /// Makes every `static let` of this module that the compiler does not lay out itself. One is made at its first use, and whoever comes
    /// meanwhile waits: in the child of a fork that came then, for a thread that does not exist. Tests/Programs/FirstUses fails if
    /// one is missing here. What has no state, such as the members of an option set, is a computed property.
    private static func makeStatics() {
        _ = (generation, handlers)
        LockStripes.prepare()
        ForkGuard.prepare()
        LoopRegistry.prepare()
        GuestLoop.prepare()
        NotificationPoster.prepare()
        RunLoopExecutor.prepare()
        GlobalJobs.prepare()
        MachChannel.prepare()
        MessagePort.prepare()
        SocketSender.prepare()
        DescriptorCloser.prepare()
        NotificationQueue.prepare()
        Thread.prepare()
        FileLockThread.prepare()
        ReleasedRuns.prepare()
        _ = (NotificationCenter.default, ListedRequest.delayed, ListedRequest.ordered, RunLoopThread.own)
        _ = (MessagePortNameServer.sharedInstance(), PortBridge.begin)
        _ = (RunLoop.Mode.default, RunLoop.Mode.common)
        _ = (ContinuousClock.Instant.distantPast, ContinuousClock.Instant.distantFuture)
    }

    /// The runtime makes what it knows of a type at the first use, under locks of its own, and without optimisation every generic call
    /// is such a use. So the first ones of ``begin()`` are here, and that of a cast in which Foundation, where it is there, makes
    /// something of its own.
    private static func warmUp() {
        Thread.warmUp()
        _ = RunLoopThread.own.known?.isCancelled
        _ = RunLoopExecutor.all.isEmpty || hasHandlers
        RunLoopExecutor.known(of: nil)?.goOnInChild()
        _ = ForkedChild.calls(of: [], except: nil) + [0].flatMap { _ in RunLoopExecutor.callsOfNothing() }
        NotificationCenter().post(name: Port.didBecomeInvalidNotification, object: NotificationCenter.default)
    }

    private static func calls(of executors: [RunLoopExecutor], except main: RLRunLoopRef?) -> [@Sendable () -> Void] {
        executors.filter { $0.reference != main }.flatMap { $0.vanish() }
    }

    /// On its way to the one loop.
    private final class Calls {
        private let calls: [@Sendable () -> Void]

        init(_ calls: [@Sendable () -> Void]) { self.calls = calls }

        func make() { for call in calls { call() } }
    }

    /// Does something where tasks still run: on the global executor, or in a child on the one loop that there is.
    @discardableResult
    static func runElsewhere(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        isChild ? Task.detached(executorPreference: RunLoop.main.executor, operation: body) : Task.detached(operation: body)
    }

    /// Waits where tasks wait: with the global executor, or in a child on a loop.
    ///
    /// - Returns: false if the task was cancelled, or the loop's thread ended.
    static func sleep(until limit: ContinuousClock.Instant, on loop: RunLoop) async -> Bool {
        if !isChild { return await sleepInSteps(until: limit) }
        for await _ in loop.ticks(every: Duration(seconds: limit.secondsFromNow)) { return true }
        return false
    }

    /// The runtime keeps a sleep that was cancelled until its time has come. So a long one is made of steps, each as long as all before
    /// it: what is kept for longer than it was needed is kept for no more than as long again.
    private static func sleepInSteps(until limit: ContinuousClock.Instant) async -> Bool {
        var step = Duration.milliseconds(50)
        while true {
            let end = min(limit, .now + step)
            if (try? await Task.sleep(until: end, clock: .continuous)) == nil { return false }
            if end == limit { return true }
            step *= 2
        }
    }
}
