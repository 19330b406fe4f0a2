// SPDX-License-Identifier: MIT
public import RunLoopKit
public import ServiceLifecycle

/// A thread with a run loop, as a service of a `ServiceGroup`.
///
/// Its thread begins with ``run()``. A graceful shutdown ends it in order: what was queued until then is performed. A cancelled task
/// ends it after the current pass. In both cases, and when a callback ends the thread, ``run()`` returns when the thread
/// has ended, with
/// its loop and everything in it.
///
///     let service = RunLoopService(name: "sockets") { loop in loop.add(listener, forMode: .default) }
///     try await ServiceGroup(services: [service], gracefulShutdownSignals: [.sigterm], logger: logger).run()
///
/// - Threads: any.
public final class RunLoopService: Service {
    /// The thread. Its loop exists from the beginning of ``run()``; a service runs once.
    public let thread: RunLoopThread
    /// Finished at the end of the thread.
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
            RunLoopService.tellEnd(to: end)
            prepare(RunLoop.current)
            // The thread has a source of its own in the loop, so that this waits when nothing else is there.
            while !thread.isEnding { RunLoop.current.run(mode: .default) }
        }
    }

    /// Has the stream finished when the calling thread ends, also where a callback ends it: its loop cancels its sources then. The source is no
    /// variable of the thread's body, because such an end releases none.
    @inline(never)
    private static func tellEnd(to stream: AsyncStream<Never>.Continuation) {
        RunLoop.current.add(RunLoop.Source(cancel: { _, _ in stream.finish() }, perform: { _ in }), forMode: .default)
    }

    /// Starts the thread and returns when it has ended: after a graceful shutdown, when the task is cancelled, or when a
    /// callback ended it.
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
