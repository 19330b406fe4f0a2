// SPDX-License-Identifier: MIT
// Jobs of an executor of the program's that a loop's thread runs where it resumes their task, while `fork` would wait for it (S-FORK-1, S-THR-10).
import Glibc
import RunLoopKit

private final class InlineExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) { UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor()) }
}

/// Does something on a new thread, as the job of a task that the thread resumes, and gives the thread.
private func inJob(_ body: @escaping @Sendable () -> Void) -> RunLoopThread {
    let idle = IdleThread()
    let loop = idle.thread.loop
    // Returns when the task waits for the call.
    Task.detached(executorPreference: InlineExecutor()) {
        _ = try? await loop.call {}
        body()
    }
    idle.end(joins: false)
    return idle.thread
}

/// A job forks, and so does its child.
func forkingJob() -> String {
    let end = Text()
    inJob {
        end.set(inChild {
            let loop = RunLoop.current
            loop.perform { loop.stop() }
            guard loop === RunLoop.main, loop.run(mode: .default) == .stopped else { return 1 }
            return inChild { 0 } == "exit 0" ? 0 : 2
        })
    }.join()
    return end.value + ", " + inChild { 0 }
}

/// A job waits for the thread that forks, and that does not wait for it for ever.
func jobWaitsForFork() -> String {
    let (isInJob, mayEnd) = (Flag(), Flag())
    let thread = inJob {
        isInJob.set()
        while !mayEnd.isSet { usleep(1000) }
    }
    while !isInJob.isSet { usleep(1000) }
    let end = inChild { 0 }
    mayEnd.set()
    thread.join()
    return end
}

/// A job ends its thread: no fork waits for that.
func jobEndsThread() -> String {
    inJob { endThread() }.join()
    let clock = ContinuousClock()
    let begin = clock.now
    let forks = 20
    for _ in 0..<forks where inChild({ 0 }) != "exit 0" { return "a child failed" }
    // Each that waits does so for a second.
    return clock.now - begin < .seconds(forks / 2) ? "not waited for" : "waited for"
}

private func endThread() { Thread.exit() }
