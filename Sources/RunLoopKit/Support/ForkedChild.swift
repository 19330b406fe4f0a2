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
        let executors = RunLoopExecutor.all
        if executors.isEmpty { return }
        let main = RLGetMain()
        let calls = ForkedChild.calls(of: executors, except: main)
        if calls.isEmpty { return }
        RLPerformFunction(
            main, kRLCommonModes, { Unmanaged<Calls>.fromOpaque($0!).takeUnretainedValue().make() },
            Unmanaged.passRetained(Calls(calls)).toOpaque(), { Unmanaged<Calls>.fromOpaque($0!).release() })
    }

    /// In the thread that is about to fork. Without optimisation the runtime makes what it knows of a generic call at the first such
    /// call, under a lock that another thread may hold at the moment of the fork: so the first ones are here.
    static func prepare() { _ = hasPrepared }

    private static let hasPrepared: Bool = {
        LoopRegistry.prepare()
        _ = RunLoopExecutor.all
        let calls = ForkedChild.calls(of: [], except: nil) + [0].flatMap { _ in RunLoopExecutor.callsOfNothing() }
        return calls.isEmpty
    }()

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
    static func runElsewhere(_ body: @escaping @Sendable () async -> Void) {
        if isChild {
            Task.detached(executorPreference: RunLoop.main.executor, operation: body)
        } else {
            Task.detached(operation: body)
        }
    }
}
