// SPDX-License-Identifier: MIT
public import RunLoopKit
public import ServiceLifecycle

/// A thread with a run loop, as a service of a `ServiceGroup`.
///
/// Its thread begins with ``run()``. A graceful shutdown ends it in order: what was queued until then is performed. A cancelled task
/// ends it after the pass under way. In both cases ``run()`` returns when the thread is gone, with its loop and all that was in it.
///
///     let service = RunLoopService(name: "sockets") { loop in loop.add(listener, forMode: .default) }
///     try await ServiceGroup(services: [service], gracefulShutdownSignals: [.sigterm], logger: logger).run()
///
/// - Threads: any.
public final class RunLoopService: Service {
    /// The thread. Its loop is there from the beginning of ``run()``; a service runs once.
    public let thread: RunLoopThread
    /// Finished when the thread's body is over.
    private let ended: AsyncStream<Never>

    /// Describes a service.
    ///
    /// - Parameters:
    ///   - name: the thread's.
    ///   - prepare: called on the thread, before its loop runs for the first time: adds the loop's sources, timers and observers.
    public init(name: String? = nil, prepare: @escaping @Sendable (RunLoop) -> Void = { _ in }) {
        let (ended, end) = AsyncStream<Never>.makeStream()
        self.ended = ended
        thread = RunLoopThread(name: name) { thread in
            prepare(RunLoop.current)
            // The thread has a source of its own in the loop, so that this waits when nothing else is there.
            while !thread.isEnding { RunLoop.current.run(mode: .default) }
            end.finish()
        }
    }

    /// Starts the thread and returns when it is gone: after a graceful shutdown, or when the task is cancelled.
    ///
    /// - Throws: `RunLoopThread.StartError` if the process or the system has too many threads.
    public func run() async throws {
        try thread.start()
        await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                for await _ in ended {}
            } onGracefulShutdown: {
                self.thread.stop()
            }
        } onCancel: {
            thread.cancel()
        }
        await thread.finish()
    }
}
