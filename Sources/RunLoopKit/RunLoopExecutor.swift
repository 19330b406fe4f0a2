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
/// nested run of the loop leaves the others waiting, because their actor is busy.
///
/// A loop that does not run does not run jobs either. When its thread ends, the jobs that were left and those that come
/// later run one at a time on the global executor: no task is lost, and an actor stays exclusive, though it has no thread.
///
/// - Threads: all members may be used from any thread.
/// - Foundation, CF: no counterpart.
public final class RunLoopExecutor: SerialExecutor, TaskExecutor {
    /// The loop on whose thread the jobs run.
    public let loop: RunLoop
    private let queue: LoopQueue

    init(_ loop: RunLoop, _ queue: LoopQueue) {
        self.loop = loop
        self.queue = queue
    }

    /// Called by the concurrency runtime.
    public func enqueue(_ job: consuming ExecutorJob) {
        queue.append(.job(UnownedJob(job), self))
    }

    /// The executor as an actor's `unownedExecutor` returns it; the actor keeps this object.
    public func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    /// Called by the concurrency runtime: stops the program if this is not the loop's thread.
    public func checkIsolated() {
        precondition(queue.isOnThread, "RunLoopExecutor: not on the thread of the loop")
    }

    /// Whether the calling code is on the loop's thread.
    public func isIsolatingCurrentContext() -> Bool? { queue.isOnThread }
}

extension RunLoop {
    /// The executor that runs actors and tasks on this loop's thread: one object as long as anybody holds it.
    ///
    /// - Threads: any.
    /// - Foundation, CF: no counterpart; `MainActor` is the main thread's own.
    public var executor: RunLoopExecutor { LoopQueue.of(self).executor(of: self) }
}
