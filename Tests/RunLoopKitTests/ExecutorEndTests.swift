// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// An actor on a loop's thread.
private actor Log {
    nonisolated let executor: RunLoopExecutor
    private(set) var entries: [String] = []
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(on loop: RunLoop) { executor = loop.executor }

    func add(_ entry: String) { entries.append(entry) }
}

private final class Tally: Sendable {
    private let value = Atomic(0)
    var count: Int { value.load(ordering: .relaxed) }
    func add() { value.add(1, ordering: .relaxed) }
}

/// An executor of a program's own, which has a loop do the work.
private class Sender: SerialExecutor, @unchecked Sendable {
    fileprivate let base: RunLoopExecutor
    init(_ base: RunLoopExecutor) { self.base = base }
    func enqueue(_ job: consuming ExecutorJob) { base.enqueue(job) }
    func checkIsolated() { base.checkIsolated() }
    func isIsolatingCurrentContext() -> Bool? { nil }
}

/// One that the runtime can ask, too.
private final class AskingSender: Sender, @unchecked Sendable {
    override func isIsolatingCurrentContext() -> Bool? { base.isIsolatingCurrentContext() }
}

private actor SentOn {
    private let executor: Sender
    private let gone: Tally
    private var count = 0
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ executor: Sender, gone: Tally) {
        self.executor = executor
        self.gone = gone
    }

    isolated deinit { gone.add() }

    func call(on loop: RunLoop) async throws -> [Int] {
        assertIsolated()
        count += 1
        let number = count
        let value = try await loop.call { number }
        assertIsolated()
        return [count, value]
    }
}

/// What the executor does when closures end threads, cancel sources at the end, or run the loop themselves.
@Suite(.timeLimit(.minutes(10))) struct ExecutorEndTests {
    @Test("assumeIsolated holds in the cancel closures of all sources at the end of the thread, whatever their modes: S-LOOP-7")
    func cancelAtEnd() async {
        let thread = RunLoopThread()
        #expect((try? thread.start()) != nil)
        let loop = thread.loop
        let log = Log(on: loop)
        let add: @Sendable (String) -> RunLoop.Source = { name in
            RunLoop.Source(
                cancel: { loop, mode in
                    log.assumeIsolated { $0.add("\(name) in \(mode.rawValue)") }
                    // What a cancel closure adds is cancelled too.
                    if name == "default" {
                        loop.add(
                            RunLoop.Source(cancel: { _, _ in log.assumeIsolated { $0.add("late") } }, perform: { _ in }),
                            forMode: .init("ExecutorEndTests.late"))
                    }
                }, perform: { _ in })
        }
        loop.add(add("default"), forMode: .default)
        loop.add(add("common"), forMode: .common)
        loop.add(add("own"), forMode: .init("ExecutorEndTests"))
        await thread.finish()
        let mode = RunLoop.Mode.default.rawValue
        let expected = ["common in \(mode)", "default in \(mode)", "late", "own in ExecutorEndTests"]
        #expect(await log.entries.sorted() == expected)
    }

    @Test("Jobs that a program's executor sends on are isolated to their actor after the end of the thread, and nothing else is", arguments: [false, true])
    func sentOnAfterEnd(asks: Bool) async throws {
        let (thread, other) = (RunLoopThread(), RunLoopThread())
        try thread.start()
        try other.start()
        let loop = other.loop
        let gone = Tally()
        let sender = asks ? AskingSender(thread.loop.executor) : Sender(thread.loop.executor)
        var actor: SentOn? = SentOn(sender, gone: gone)
        #expect(try await actor?.call(on: loop) == [1, 1])
        await thread.finish()
        #expect(thread.loop.executor.isIsolatingCurrentContext() == false)
        // Each is a job, and in the call the caller's isolation is checked.
        for round in 2...50 { #expect(try await actor?.call(on: loop) == [round, round]) }
        actor = nil
        // No thread waits that jobs may need.
        while gone.count == 0 { try await Task.sleep(for: .milliseconds(1)) }
        // The thread that does them is not isolated for ever.
        for _ in 0..<50 { await Task.detached { #expect(thread.loop.executor.isIsolatingCurrentContext() == false) }.value }
        await other.finish()
    }

    @Test("An awaited closure that ends its thread fails with ThreadEndedError: S-LOOP-19, S-BLK-18")
    func closureEndsThread() async throws {
        for _ in 0..<20 {
            let thread = RunLoopThread()
            try thread.start()
            let loop = thread.loop
            await #expect(throws: RunLoop.ThreadEndedError.self) { try await loop.call { pthread_exit(nil) } }
            await thread.finish()
            #expect(thread.isFinished)
        }
    }

    @Test("Many jobs that were queued before leave the loop its turns: a timer that is due fires among them")
    func budget() async {
        let thread = LoopThread()
        let loop = thread.loop
        let executor = loop.executor
        let isBusy = Promise<Void>()
        let mayGoOn = Promise<Void>()
        let run = Tally()
        let runAtFire = Promise<Int>()
        let jobs = scaled(1_000_000)
        let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in
            runAtFire.fulfil(run.count)
        }
        loop.add(timer, forMode: .default)
        let done = Promise<Void>()
        loop.perform(inModes: [.common]) {
            isBusy.fulfil(())
            mayGoOn.value
            timer.fireDate = .now
        }
        loop.wakeUp()
        await Task.detached {
            isBusy.value
            for _ in 0..<jobs { Task(executorPreference: executor) { run.add() } }
            Task(executorPreference: executor) { done.fulfil(()) }
            mayGoOn.fulfil(())
            done.value
        }.value
        #expect(run.count == jobs)
        // A few turns at most, and not the whole crowd.
        #expect(runAtFire.value < jobs / 4)
        thread.end()
    }

    @Test("A run of the loop in an awaited closure serves the executor: actors, tasks and other awaited closures")
    func nestedRun() async throws {
        let thread = LoopThread()
        let loop = thread.loop
        let log = Log(on: loop)
        let trace = Trace()
        let began = Promise<Void>()
        let mayEnd = Promise<Void>()
        let outer = Task {
            try await loop.call {
                began.fulfil(())
                // Ends when what is awaited below was done inside this run.
                RunLoop.current.run(mode: .default)
                trace.add("outer")
                mayEnd.fulfil(())
            }
        }
        await Task.detached { began.value }.value
        await log.add("nested")
        let value = try await loop.call { 7 }
        #expect(value == 7)
        await Task(executorPreference: loop.executor) { trace.add("task") }.value
        #expect(trace.all == ["task"])
        _ = try await loop.call { RunLoop.current.stop() }
        try await outer.value
        #expect(trace.all == ["task", "outer"])
        // The outer drain goes on.
        #expect(try await loop.call { 8 } == 8)
        #expect(await log.entries == ["nested"])
        mayEnd.value
        thread.end()
    }

    @Test("Entries that were queued behind an awaited closure are served by the run in it, in order")
    func nestedRunServesWhatWaits() async throws {
        let thread = LoopThread()
        let loop = thread.loop
        let executor = loop.executor
        let trace = Trace()
        let began = Promise<Void>()
        let mayRun = Promise<Void>()
        let outer = Task {
            try await loop.call {
                began.fulfil(())
                mayRun.value
                for _ in 0..<3 { RunLoop.current.run(mode: .default, for: .zero) }
                trace.add("end of outer")
            }
        }
        await Task.detached { began.value }.value
        for number in 0..<5 { Task(executorPreference: executor) { trace.add("\(number)") } }
        let last = Task { try await loop.call { trace.add("last") } }
        mayRun.fulfil(())
        try await outer.value
        try await last.value
        try await loop.call {}
        #expect(trace.all.prefix(5) == ["0", "1", "2", "3", "4"])
        #expect(trace.all.contains("end of outer"))
        thread.end()
    }

    @Test("A run by one of Foundation's functions in a closure serves the executor, though nothing else is in the mode: S-NEST-7", arguments: 0..<3, [false, true])
    func nestedRunOfFoundation(form: Int, inAwaitedClosure: Bool) {
        let trace = onNewThread {
            let loop = RunLoop.current
            let trace = Trace()
            let entry: @Sendable () -> Void = { trace.add("entry") }
            let closure: @Sendable () -> Void = {
                if inAwaitedClosure { Task.detached(executorPreference: loop.executor, operation: entry) }
                switch form {
                case 0: trace.add("\(loop.run(mode: .default, before: .now))")
                case 1: loop.run(until: .now)
                default: loop.acceptInput(forMode: .default, before: .now)
                }
                trace.add("end")
            }
            if inAwaitedClosure {
                Task.detached(executorPreference: loop.executor) { try await loop.call(closure) }
            } else {
                // What drains is in the round of the closure, which the run in that does not see.
                loop.perform(closure)
                Task.detached(executorPreference: loop.executor, operation: entry)
            }
            while !trace.all.contains("end") { loop.run(mode: .default, for: .zero) }
            return trace
        }
        #expect(trace.all == ["entry"] + (form == 0 ? ["true"] : []) + ["end"])
    }

    @Test("The modes that an executor uses for itself are not shown: S-MODE-6")
    func ownModes() {
        let (modes, description) = onNewThread {
            let loop = RunLoop.current
            Task.detached(executorPreference: loop.executor) {}
            // Posts the function that drains once more.
            loop.run(mode: RunLoop.Mode("of nobody"), for: .zero)
            return (loop.allModes, loop.description)
        }
        #expect(modes == [.default])
        #expect(!description.contains("RunLoopKit."))
    }

    @Test("A thread that an awaited closure ends, or a run in one, leaves neither its executor nor its loop behind: S-LOOP-19", arguments: [false, true])
    func closureThatEndsItsThreadLeavesNothing(inRun: Bool) async throws {
        weak var executor: RunLoopExecutor?
        weak var loop: RunLoop?
        func end() async throws {
            let thread = RunLoopThread()
            try thread.start()
            (executor, loop) = (thread.loop.executor, thread.loop)
            await #expect(throws: RunLoop.ThreadEndedError.self) {
                try await thread.loop.call {
                    if !inRun { pthread_exit(nil) }
                    endInARun()
                }
            }
            await thread.finish()
        }
        try await end()
        // Whoever waited for the end may not have let go of them yet.
        while executor != nil || loop != nil { await Task.yield() }
        #expect(executor == nil && loop == nil)
    }

    @Test("A request that a loop left at its end keeps its task's loop no longer than until it has failed, whatever waits behind it: S-LOOP-13, S-LOOP-19")
    func failedRequestKeepsNothing() async {
        // One of the jobs holds up a thread of the global executor, which may have one other, until the scenario goes on: not on that.
        let isKept = await withCheckedContinuation { continuation in
            let thread = RunLoopThread { _ in continuation.resume(returning: ExecutorEndTests.keepsHomeOfFailedRequest()) }
            do { try thread.start() } catch { continuation.resume(returning: true) }
        }
        #expect(!isKept)
    }

    private static func keepsHomeOfFailedRequest() -> Bool {
        let ready = Promise<RunLoop>()
        let (mayEnd, began, isHomeGone, isLastRun) = (Promise<Void>(), Promise<Void>(), Promise<Void>(), Promise<Void>())
        let leaver = TestThread {
            ready.fulfil(.current)
            mayEnd.value
        }
        let loop = ready.value
        weak var home: RunLoopExecutor?
        do {
            let thread = RunLoopThread()
            do { try thread.start() } catch { return true }
            let executor = thread.loop.executor
            home = executor
            let (isQueued, hasFailed) = (Promise<Void>(), Promise<Void>())
            Task.detached(executorPreference: executor) {
                // It runs when the call has suspended: both are on the one thread.
                Task(executorPreference: executor) { isQueued.fulfil(()) }
                do { try await loop.call {} } catch { hasFailed.fulfil(()) }
            }
            isQueued.value
            Task.detached(executorPreference: loop.executor) {
                began.fulfil(())
                isHomeGone.value
            }
            Task.detached(executorPreference: loop.executor) { isLastRun.fulfil(()) }
            mayEnd.fulfil(())
            leaver.join()
            hasFailed.value
            began.value
            thread.stop()
            thread.join()
        }
        // Whoever waited for the end may not have let go of it yet.
        let limit = ContinuousClock.now + .seconds(10)
        while home != nil && ContinuousClock.now < limit { sched_yield() }
        let isKept = home != nil
        isHomeGone.fulfil(())
        isLastRun.value
        return isKept
    }
}

/// The run is in a wait, since a variable of the caller of `RunLoop.current.run` holds the loop, which the end of the thread leaves behind.
private func endInARun() {
    RunLoop.current.perform { pthread_exit(nil) }
    waitInTheLoop(NSCondition())
}

private func waitInTheLoop(_ condition: NSCondition) {
    condition.lock()
    _ = condition.wait(inMode: .default, until: .distantFuture)
    condition.unlock()
}
