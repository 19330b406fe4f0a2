// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// A thread whose loop runs until it is stopped.
final class LoopThread: Sendable {
    let loop: RunLoop
    private let thread: TestThread<Void>

    init() {
        let ready = Promise<RunLoop>()
        thread = TestThread {
            let loop = RunLoop.current
            let source = loop.keepAlive()
            loop.perform { ready.fulfil(loop) }
            loop.run(mode: .default)
            source.invalidate()
        }
        loop = ready.value
    }

    /// Stops the loop and waits for the end of the thread.
    func end() {
        loop.perform { RunLoop.current.stop() }
        loop.wakeUp()
        thread.join()
    }
}

/// An executor of a program's own, which counts, say, and has a loop do the work.
private final class Forwarder: SerialExecutor {
    private let executor: RunLoopExecutor
    init(_ executor: RunLoopExecutor) { self.executor = executor }
    func enqueue(_ job: consuming ExecutorJob) { executor.enqueue(job) }
    func checkIsolated() { executor.checkIsolated() }
}

private actor ForwardingActor {
    private let executor: Forwarder
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    init(_ executor: Forwarder) { self.executor = executor }

    func isOnThread(of loop: RunLoop) -> Bool { currentLoop() == loop }
}

private func currentLoop() -> RunLoop { .current }

/// An actor that lives on a loop's thread.
private actor Counter {
    nonisolated let executor: RunLoopExecutor
    private(set) var count = 0
    private var isInside = false
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(on loop: RunLoop) { executor = loop.executor }

    func increment() -> pthread_t {
        precondition(!isInside)
        isInside = true
        count += 1
        isInside = false
        return pthread_self()
    }

    /// Runs the loop under the actor's own job.
    func runNested() -> Int {
        runCurrentLoop()
        return count
    }

    /// Does something under the actor's own job, and then goes to another actor.
    func visit(_ other: Counter, after body: @Sendable () -> Void, then end: @Sendable () -> Void) async {
        body()
        _ = await other.increment()
        count += 1
        end()
    }
}

/// An actor that names no executor.
private actor Free {
    func thread() -> pthread_t { pthread_self() }
}

/// A run is not for asynchronous code; this is a function that an actor calls without suspending.
private func runCurrentLoop() { RunLoop.current.run(mode: .default, for: .zero) }

private func threadOf(_ loop: RunLoop) async throws -> pthread_t { try await loop.call { pthread_self() } }

/// Actors and tasks on a loop's thread, and awaited closures.
@Suite struct ExecutorTests {
    @Test("An actor's methods run on the loop's thread")
    func actorOnLoop() async throws {
        let thread = LoopThread()
        let counter = Counter(on: thread.loop)
        let expected = try await threadOf(thread.loop)
        for _ in 0..<100 { #expect(pthread_equal(await counter.increment(), expected) != 0) }
        #expect(await counter.count == 100)
        thread.end()
    }

    @Test("In a timer's closure on the loop's thread assumeIsolated of its actor holds")
    func assumeIsolated() async throws {
        let thread = LoopThread()
        let counter = Counter(on: thread.loop)
        let counts: Int = await withCheckedContinuation { continuation in
            let timer = Timer(timeInterval: .milliseconds(1), repeats: false) { _ in
                counter.assumeIsolated { counter in
                    _ = counter.increment()
                    continuation.resume(returning: counter.count)
                }
            }
            thread.loop.add(timer, forMode: .default)
        }
        #expect(counts == 1)
        #expect(try await thread.loop.call { counter.executor.isIsolatingCurrentContext() } == true)
        #expect(counter.executor.isIsolatingCurrentContext() == false)
        thread.end()
    }

    @Test("Many tasks use an actor at once; none is lost and none overlaps another")
    func manyTasks() async throws {
        let thread = LoopThread()
        let counter = Counter(on: thread.loop)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 { group.addTask { for _ in 0..<50 { _ = await counter.increment() } } }
        }
        #expect(await counter.count == 1000)
        thread.end()
    }

    @Test("A loop has one executor, before and after its thread's end")
    func oneExecutor() {
        let thread = LoopThread()
        let loop = thread.loop
        let executor = loop.executor
        #expect(loop.executor === executor)
        #expect(executor.loop === loop)
        thread.end()
        #expect(loop.executor === executor)
        #expect(executor.loop === loop)
    }

    @Test("An executor goes when its loop's thread has ended and nobody holds it, also with jobs that were posted and never ran")
    func executorDies() async {
        weak var executor: RunLoopExecutor?
        do {
            let held = Promise<RunLoop>()
            let mayEnd = Promise<Void>()
            // This thread never runs its loop.
            let thread = TestThread {
                held.fulfil(RunLoop.current)
                mayEnd.value
            }
            executor = held.value.executor
            #expect(executor != nil)
            let task = Task(executorPreference: held.value.executor) {}
            mayEnd.fulfil(())
            thread.join()
            await task.value
            held.forget()
        }
        // Whoever did the job may not have let go of it yet.
        while executor != nil { await Task.yield() }
        weak var late: RunLoopExecutor?
        do { late = onNewThread { RunLoop.current }.executor }
        #expect(late == nil)
    }

    @Test("Between actors on one loop nothing is enqueued: what was posted before waits until the job is done")
    func sameLoop() async {
        let thread = LoopThread()
        let loop = thread.loop
        let (one, other) = (Counter(on: loop), Counter(on: loop))
        let trace = Trace()
        let posted = Promise<Void>()
        await one.visit(other) {
            loop.perform(inModes: [.common]) {
                trace.add("posted")
                posted.fulfil(())
            }
            loop.wakeUp()
        } then: {
            trace.add("visited")
        }
        await Task.detached { posted.value }.value
        #expect(trace.all == ["visited", "posted"])
        #expect(await other.count == 1)
        thread.end()
    }

    @Test("What the loop's thread enqueues itself comes behind what others enqueued before")
    func order() async throws {
        let thread = LoopThread()
        let loop = thread.loop
        let executor = loop.executor
        let trace = Trace()
        let isBusy = Promise<Void>()
        let mayGoOn = Promise<Void>()
        let done = Promise<Void>()
        Task(executorPreference: executor) {
            isBusy.fulfil(())
            mayGoOn.value
            // On the thread itself.
            for number in 0..<3 { Task(executorPreference: executor) { trace.add("own \(number)") } }
            Task(executorPreference: executor) { done.fulfil(()) }
        }
        await Task.detached {
            isBusy.value
            for number in 0..<3 { Task(executorPreference: executor) { trace.add("other \(number)") } }
            mayGoOn.fulfil(())
            done.value
        }.value
        #expect(trace.all == ["other 0", "other 1", "other 2", "own 0", "own 1", "own 2"])
        thread.end()
    }

    @Test("More jobs than one turn of the loop takes are all run, in order")
    func manyJobs() async {
        let thread = LoopThread()
        let executor = thread.loop.executor
        let trace = Trace()
        let done = Promise<Void>()
        let count = 5000
        await Task.detached {
            Task(executorPreference: executor) {
                for number in 0..<count { Task(executorPreference: executor) { trace.add("\(number)") } }
                Task(executorPreference: executor) { done.fulfil(()) }
            }
            done.value
        }.value
        #expect(trace.all == (0..<count).map { "\($0)" })
        thread.end()
    }

    @Test("An executor of the program's sends its jobs on to a loop's, by the name that the protocol has")
    func forwarding() async {
        let thread = LoopThread()
        let actor = ForwardingActor(Forwarder(thread.loop.executor))
        #expect(await actor.isOnThread(of: thread.loop))
        thread.end()
    }

    @Test("In a task that prefers the loop, actors without an executor of their own run there too, and child tasks; other actors do not")
    func preference() async throws {
        let thread = LoopThread()
        let expected = try await threadOf(thread.loop)
        let other = LoopThread()
        let elsewhere = Counter(on: other.loop)
        let expectedElsewhere = try await threadOf(other.loop)
        await Task(executorPreference: thread.loop.executor) {
            let free = Free()
            #expect(pthread_equal(await free.thread(), expected) != 0)
            async let child = Free().thread()
            #expect(pthread_equal(await child, expected) != 0)
            #expect(pthread_equal(await elsewhere.increment(), expectedElsewhere) != 0)
            #expect(pthread_equal(pthread_self(), expected) != 0)
        }.value
        thread.end()
        other.end()
    }

    @Test("assumeIsolated holds in a task that prefers the loop, and in closures of runs nested in its jobs and in actors' jobs")
    func assumeIsolatedElsewhere() async {
        let thread = LoopThread()
        let loop = thread.loop
        let counter = Counter(on: loop)
        let increment: @Sendable () -> Void = { counter.assumeIsolated { _ = $0.increment() } }
        await Task(executorPreference: loop.executor) {
            #expect(counter.executor.isIsolatingCurrentContext() == true)
            increment()
            loop.perform(inModes: [.default], block: increment)
            runCurrentLoop()
        }.value
        #expect(await counter.count == 2)
        loop.perform(inModes: [.default], block: increment)
        #expect(await counter.runNested() == 3)
        thread.end()
    }

    @Test("assumeIsolated holds in the actor's own job when its loop's thread has ended, and not on a thread that has no job of it")
    func assumeIsolatedAfterTheEnd() async {
        let loop = onNewThread { RunLoop.current }
        let counter = Counter(on: loop)
        await counter.visit(counter, after: { counter.assumeIsolated { _ = $0.increment() } }, then: {})
        #expect(await counter.count == 3)
        #expect(counter.executor.isIsolatingCurrentContext() == false)
    }

    @Test("A task with the executor as its preference runs its own code there, and comes back there")
    func taskExecutor() async throws {
        let thread = LoopThread()
        let expected = try await threadOf(thread.loop)
        let executor = thread.loop.executor
        let threads = await Task(executorPreference: executor) {
            let first = pthread_self()
            await Task.yield()
            try? await Task.sleep(for: .milliseconds(1))
            return [first, pthread_self()]
        }.value
        for thread in threads { #expect(pthread_equal(thread, expected) != 0) }
        thread.end()
    }

    @Test("Under a job of an actor a nested run of the loop leaves the actor's other jobs waiting")
    func nestedRun() async throws {
        let thread = LoopThread()
        let counter = Counter(on: thread.loop)
        let gate = Promise<Void>()
        // Both calls are in the queue before the first begins.
        thread.loop.perform(inModes: [.default]) { gate.value }
        thread.loop.wakeUp()
        async let nested = counter.runNested()
        async let incremented = counter.increment()
        try await Task.sleep(for: .milliseconds(20))
        gate.fulfil(())
        let count = await nested
        _ = await incremented
        // Whichever came first: a nested run never incremented while runNested was on the stack.
        #expect(count == 0 || count == 1)
        #expect(await counter.count == 1)
        thread.end()
    }

    @Test("A run in a queued closure serves the executor, though the drain was queued behind the closure: S-NEST-7", arguments: [1, 3])
    func runBeforeTheDrain(depth: Int) {
        let thread = LoopThread()
        let loop = thread.loop
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        let (over, allOver) = (Promise<RunLoop.RunResult>(), Promise<Void>())
        loop.perform(inModes: [.default]) {
            begun.fulfil(())
            gate.value
        }
        loop.wakeUp()
        begun.value
        // All of it is in one round, which the nested runs do not see.
        @Sendable func nest(_ left: Int) {
            // Under this run the one that was posted for it is in the round of another.
            if left > 1 { loop.perform(inModes: [.default]) { nest(left - 1) } }
            for _ in 0..<3 { RunLoop.current.run(mode: RunLoop.Mode("of nobody"), for: .zero) }
            let result = RunLoop.current.run(mode: .default, for: .seconds(20))
            if left == 1 { over.fulfil(result) }
            // What ends the thread is to stop its own run, not one of these.
            if left < depth { loop.stop() } else { allOver.fulfil(()) }
        }
        loop.perform(inModes: [.default]) { nest(depth) }
        Task.detached(executorPreference: loop.executor) {
            trace.add("job")
            Task.detached(executorPreference: loop.executor) {
                trace.add("job of the job")
                loop.stop()
            }
        }
        loop.perform(inModes: [.default]) { trace.add("closure") }
        gate.fulfil(())
        #expect(over.value == .stopped)
        #expect(trace.all.prefix(2) == ["job", "job of the job"])
        allOver.value
        thread.end()
        #expect(trace.all == ["job", "job of the job", "closure"])
    }

    @Test("A run in a queued closure serves the executor, though an earlier run, which ended, was the first that could have: S-NEST-7")
    func runAfterAnother() {
        let thread = LoopThread()
        let loop = thread.loop
        let trace = Trace()
        let over = Promise<RunLoop.RunResult>()
        // In a request, after which the functions have another turn: one round, which the closure's run does not see.
        loop.perform(waitUntilDone: false) {
            loop.perform { over.fulfil(RunLoop.current.run(mode: .default, for: .seconds(20))) }
            Task.detached(executorPreference: loop.executor) {
                trace.add("job")
                loop.stop()
            }
            RunLoop.current.run(mode: RunLoop.Mode("of nobody"), for: .zero)
        }
        #expect(over.value == .stopped)
        #expect(trace.all == ["job"])
        thread.end()
    }

    @Test("A callback that runs its loop again and again while an entry waits queues no function for each run: S-NEST-7")
    func postedOnce() {
        let thread = LoopThread()
        let loop = thread.loop
        let performed = Promise<UInt64>()
        loop.perform {
            Task.detached(executorPreference: loop.executor) {}
            let before = loop.statistics.functions
            for _ in 0..<100 { RunLoop.current.run(mode: RunLoop.Mode("of nobody"), for: .zero) }
            loop.perform { performed.fulfil(loop.statistics.functions - before) }
        }
        loop.wakeUp()
        #expect(performed.value < 10)
        thread.end()
    }

    @Test("A job that always enqueues another leaves the loop its turns")
    func fairness() async throws {
        let thread = LoopThread()
        let executor = thread.loop.executor
        let fired = Promise<Void>()
        let timer = Timer(timeInterval: .milliseconds(5), repeats: false) { _ in fired.fulfil(()) }
        let busy = Task(executorPreference: executor) {
            var yields = 0
            while !Task.isCancelled {
                yields += 1
                await Task.yield()
            }
            return yields
        }
        thread.loop.add(timer, forMode: .default)
        await Task.detached { fired.value }.value
        busy.cancel()
        #expect(await busy.value > 0)
        thread.end()
    }

    @Test("The executor neither keeps a mode from being empty nor counts as a source: S-RUN-4, S-BLK-11")
    func emptiness() {
        let results = onNewThread {
            let loop = RunLoop.current
            let executor = loop.executor
            let first = loop.run(mode: .default, for: .seconds(100))
            let done = Promise<Void>()
            Task(executorPreference: executor) { done.fulfil(()) }
            let second = loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true)
            done.value
            return [first, second]
        }
        #expect(results == [.finished, .timedOut])
    }
}

@Suite struct LoopEndTests {
    @Test("Jobs that wait when the thread ends, and those that come later, are done elsewhere, one at a time")
    func jobsOutliveTheLoop() async throws {
        let held = Promise<RunLoop>()
        let mayEnd = Promise<Void>()
        // This thread never runs its loop.
        let thread = TestThread {
            held.fulfil(RunLoop.current)
            mayEnd.value
        }
        let counter = Counter(on: held.value)
        let tasks = (0..<10).map { _ in Task { _ = await counter.increment() } }
        try await Task.sleep(for: .milliseconds(5))
        mayEnd.fulfil(())
        for task in tasks { await task.value }
        thread.join()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { for _ in 0..<10 { _ = await counter.increment() } } }
        }
        #expect(await counter.count == 110)
    }

    @Test("An executor that is first asked for after the thread's end does its jobs elsewhere, too")
    func executorOfADeadLoop() async {
        let loop = onNewThread { RunLoop.current }
        let counter = Counter(on: loop)
        for _ in 0..<3 { _ = await counter.increment() }
        #expect(await counter.count == 3)
    }

    @Test("An awaited closure fails when the loop's thread ends before it ran, and when it is gone already: S-BLK-18")
    func performOnEndedLoop() async throws {
        let held = Promise<RunLoop>()
        let mayEnd = Promise<Void>()
        let thread = TestThread {
            held.fulfil(RunLoop.current)
            mayEnd.value
        }
        let loop = held.value
        let canary = Canary()
        let waiting = Task { [captured = canary.capture()] in try await loop.call { captured.touch() } }
        try await Task.sleep(for: .milliseconds(5))
        mayEnd.fulfil(())
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await waiting.value }
        thread.join()
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await loop.call {} }
    }
}

@Suite struct AwaitTests {
    @Test("An awaited closure runs on the loop's thread and its value comes back; so does what it throws")
    func values() async throws {
        struct Failure: Error {}
        let thread = LoopThread()
        let isThere = try await thread.loop.call { RunLoop.current == thread.loop }
        #expect(isThere)
        await #expect(throws: Failure.self) { try await thread.loop.call { throw Failure() } }
        thread.end()
    }

    @Test("A task cancelled before its closure began throws at once; the closure never runs and is let go of")
    func cancelledBefore() async throws {
        let held = Promise<RunLoop>()
        let mayEnd = Promise<Void>()
        // A loop that does not run, so the closure cannot begin.
        let thread = TestThread { () -> RunLoop.RunResult in
            held.fulfil(RunLoop.current)
            mayEnd.value
            return RunLoop.current.run(mode: .default, for: .zero)
        }
        let loop = held.value
        let canary = Canary()
        let trace = Trace()
        let task = Task { [captured = canary.capture()] in
            try await loop.call {
                captured.touch()
                trace.add("ran")
            }
        }
        try await Task.sleep(for: .milliseconds(5))
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await loop.call { trace.add("early") }
        }
        await #expect(throws: CancellationError.self) { try await early.value }
        mayEnd.fulfil(())
        thread.join()
        #expect(trace.all == [])
    }

    @Test("A closure that has begun is not disturbed by a cancellation: its value comes back")
    func cancelledMeanwhile() async throws {
        let thread = LoopThread()
        let began = Promise<Void>()
        let gate = Promise<Void>()
        let task = Task {
            try await thread.loop.call {
                began.fulfil(())
                gate.value
                return 7
            }
        }
        await Task.detached { began.value }.value
        task.cancel()
        gate.fulfil(())
        #expect(try await task.value == 7)
        thread.end()
    }

    @Test("Cancellation races with the loop: each closure either ran and gave its value, or never began")
    func cancellationRace() async throws {
        let thread = LoopThread()
        let ran = Trace()
        var values = 0
        for _ in 0..<300 {
            let task = Task { try await thread.loop.call { ran.add("ran") } }
            if Bool.random() { await Task.yield() }
            task.cancel()
            if (try? await task.value) != nil { values += 1 }
        }
        try await thread.loop.call {}
        #expect(ran.count == values)
        thread.end()
    }

    @Test("The caller goes on with its own actor")
    @MainActor func isolation() async throws {
        let thread = LoopThread()
        let isMain = try await thread.loop.call { RunLoop.isMainThread }
        MainActor.assertIsolated()
        #expect(!isMain)
        thread.end()
    }

    @Test("An awaited closure gives its value in functions, closures and tasks, and one without a value is waited for")
    func everywhere() async throws {
        let thread = LoopThread()
        let loop = thread.loop
        func inFunction() async throws -> Int { try await loop.call { 1 } }
        let inClosure: () async throws -> Int = { try await loop.call { 2 } }
        let inTask = Task { try await loop.call { 3 } }
        var sum = try await inFunction() + inClosure()
        sum += try await inTask.value
        #expect(sum == 6)
        let trace = Trace()
        try await loop.call { trace.add("called") }
        #expect(trace.all == ["called"])
        thread.end()
    }
}
