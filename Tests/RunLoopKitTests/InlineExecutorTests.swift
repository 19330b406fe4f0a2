// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// An executor of the program's that runs each job where it comes from, before `enqueue` returns.
private final class InlineExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}

/// One that has something done on a loop before each job, and waits for it.
private final class WaitingExecutor: TaskExecutor {
    private let loop: RunLoop
    private let missed = Atomic(0)
    /// How often the loop did not come to it.
    var misses: Int { missed.load(ordering: .relaxed) }

    init(for loop: RunLoop) { self.loop = loop }

    func enqueue(_ job: consuming ExecutorJob) {
        if !runsJobs(loop) { missed.add(1, ordering: .relaxed) }
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}

private final class Flag: Sendable {
    private let value = Atomic(false)
    private let condition = NSCondition()

    func set() {
        condition.lock()
        value.store(true, ordering: .relaxed)
        condition.broadcast()
        condition.unlock()
    }

    func wait(until limit: ContinuousClock.Instant) -> Bool {
        condition.lock()
        defer { condition.unlock() }
        while !value.load(ordering: .relaxed) {
            if !condition.wait(until: limit) { return value.load(ordering: .relaxed) }
        }
        return true
    }
}

/// Whether a job that is sent to a loop now is run while the caller waits. The limit is for a loop that does not come to it at all.
private func runsJobs(_ loop: RunLoop) -> Bool {
    let isRun = Flag()
    Task(executorPreference: loop.executor) { isRun.set() }
    return isRun.wait(until: .now + .seconds(10))
}

/// What a task of the program's own executor does while a thread of the library's resumes it.
@Suite(.timeLimit(.minutes(10))) struct InlineExecutorTests {
    @Test("A job that runs where its task is resumed may wait for another loop's jobs: S-THR-10")
    func jobWaitsForOtherLoop() {
        let (caller, other) = (LoopThread(), LoopThread())
        let result = Promise<Bool>()
        resumeOnLoop(caller.loop, besides: other.loop, InlineExecutor()) { result.fulfil(runsJobs(other.loop)) }
        #expect(result.value)
        caller.end()
        other.end()
    }

    @Test("An executor that waits for a loop where a task is resumed holds up no loop but that of the thread: S-THR-10")
    func executorWaitsForOtherLoop() {
        let (caller, other) = (LoopThread(), LoopThread())
        let executor = WaitingExecutor(for: other.loop)
        let isDone = Promise<Void>()
        resumeOnLoop(caller.loop, besides: other.loop, executor) { isDone.fulfil(()) }
        isDone.value
        #expect(executor.misses == 0)
        caller.end()
        other.end()
    }

    /// Has the loop's thread resume a task on an executor that runs jobs where they come from.
    private func resumeOnLoop(
        _ loop: RunLoop, besides other: RunLoop, _ executor: some TaskExecutor, _ body: @escaping @Sendable () -> Void
    ) {
        let hasSuspended = Promise<Void>()
        loop.perform(inModes: [.common]) { hasSuspended.value }
        loop.wakeUp()
        // Returns when the task waits for the call.
        Task.detached(executorPreference: executor) {
            _ = try? await loop.call {}
            body()
        }
        // The other loop has ended what it did for the executor before, so that it has to be woken.
        let isIdle = Promise<Void>()
        other.perform(inModes: [.common]) { isIdle.fulfil(()) }
        other.wakeUp()
        isIdle.value
        hasSuspended.fulfil(())
    }
}
