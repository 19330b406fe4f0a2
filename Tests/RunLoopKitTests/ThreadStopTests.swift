// SPDX-License-Identifier: MIT
import Glibc
import RunLoopKit
import Synchronization
import Testing

/// What a thread that is told to stop performs before it ends, whatever is on its stack then.
@Suite(.timeLimit(.minutes(10))) struct ThreadStopTests {
    /// A thread in a closure of its loop, in the middle of a pass, which goes on when the gate opens.
    private func threadInAPass() throws -> (RunLoopThread, gate: Promise<Void>) {
        let thread = RunLoopThread()
        try thread.start()
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        thread.loop.perform {
            begun.fulfil(())
            gate.value
        }
        thread.loop.wakeUp()
        begun.value
        return (thread, gate)
    }

    /// One of each kind.
    private func queue(_ number: Int, on loop: RunLoop, _ trace: Trace) {
        loop.perform { trace.add("function \(number)") }
        loop.perform(waitUntilDone: false, inModes: [.default]) { trace.add("request \(number)") }
        loop.perform(order: 0) { trace.add("ordered \(number)") }
        Task.detached(executorPreference: loop.executor) { trace.add("entry \(number)") }
    }

    private func expected(_ count: Int) -> Set<String> {
        Set((0..<count).flatMap { number in ["function", "request", "ordered", "entry"].map { "\($0) \(number)" } })
    }

    @Test("A stop ends a run in an awaited closure that was among the entries queued before it: S-NEST-8 S-NEST-7")
    func runInAnAwaitedClosure() throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        Task.detached(executorPreference: loop.executor) {
            begun.fulfil(())
            gate.value
            // Queued behind the others, and before the thread looks for what it has to do.
            try await loop.call { trace.add("\(RunLoop.current.run(mode: .default).rawValue)") }
        }
        begun.value
        // More than one pass takes.
        for _ in 0..<300 { Task.detached(executorPreference: loop.executor) { trace.add("entry") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "entry", count: 300) + ["2"])
    }

    @Test("A stop performs all that was queued before it in a mode whose passes have a limit: S-NEST-8 S-LIM-6", arguments: [1, 3])
    func limitedPasses(limit: Int) throws {
        let (thread, gate) = try threadInAPass()
        thread.loop.setPassLimit(limit, forMode: .default)
        let trace = Trace()
        for number in 0..<20 { queue(number, on: thread.loop, trace) }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(Set(trace.all) == expected(20))
        #expect(trace.count == 80)
    }

    @Test(
        "What was queued before a stop is performed, though the program stops the thread's own run when the stop has ended a nested one: S-NEST-8",
        arguments: [false, true])
    func programStopsTheOuterRun(isLimited: Bool) throws {
        let other = RunLoop.Mode("another common mode")
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        loop.addCommonMode(other)
        if isLimited { loop.setPassLimit(1, forMode: .default) }
        let nested = Promise<Void>()
        let trace = Trace()
        let source = RunLoop.Source { _ in
            RunLoop.current.perform(inModes: [other]) { nested.fulfil(()) }
            RunLoop.current.run(mode: other)
            RunLoop.current.stop()
        }
        loop.add(source, forMode: .default)
        source.signal()
        loop.wakeUp()
        nested.value
        for number in 0..<3 { queue(number, on: loop, trace) }
        thread.stop()
        thread.join()
        #expect(Set(trace.all) == expected(3))
    }

    @Test("What a body leaves is performed in a mode whose passes have a limit too: S-NEST-8 S-LIM-6", arguments: [false, true])
    func limitedPassesAfterABody(isStopped: Bool) throws {
        let mayEnd = Promise<Void>()
        let thread = RunLoopThread { _ in mayEnd.value }
        try thread.start()
        thread.loop.setPassLimit(1, forMode: .default)
        let trace = Trace()
        for number in 0..<20 { queue(number, on: thread.loop, trace) }
        if isStopped { thread.stop() }
        mayEnd.fulfil(())
        thread.join()
        #expect(Set(trace.all) == expected(20))
    }

    @Test("A stop ends the runs in closures that a body left, which nothing else would end: S-NEST-8", arguments: [false, true])
    func runsAfterABody(isInSeries: Bool) throws {
        let mayEnd = Promise<Void>()
        let thread = RunLoopThread { _ in mayEnd.value }
        try thread.start()
        thread.loop.keepAlive(forMode: .common)
        let trace = Trace()
        for number in 0..<3 {
            thread.loop.perform {
                if isInSeries { RunLoop.current.run() } else { RunLoop.current.run(mode: .default) }
                trace.add("run \(number)")
            }
        }
        thread.stop()
        mayEnd.fulfil(())
        thread.join()
        #expect(Set(trace.all) == ["run 0", "run 1", "run 2"])
    }

    @Test("A stop ends a thread whose observer runs the loop in each pass, or at the end of the told run: S-NEST-8",
        arguments: [RunLoop.Activities.exit, .afterWaiting])
    func runsInTheToldRun(activity: RunLoop.Activities) throws {
        let thread = RunLoopThread()
        try thread.start()
        let begun = Promise<Void>()
        thread.loop.perform {
            let observer = RunLoop.Observer(activities: activity, repeats: true) { _, _ in RunLoop.current.run(mode: .default, for: .zero) }
            RunLoop.current.add(observer, forMode: .default)
            begun.fulfil(())
        }
        thread.loop.wakeUp()
        begun.value
        thread.stop()
        thread.join()
    }

    @Test("A thread ends though an observer that its body has left stops each run at its entry: S-STOP-4 S-NEST-8", arguments: [false, true])
    func stopsAtEntry(isStopped: Bool) throws {
        let thread = RunLoopThread { _ in
            RunLoop.current.add(RunLoop.Observer(activities: .entry, repeats: true) { _, _ in RunLoop.current.stop() }, forMode: .default)
        }
        try thread.start()
        if isStopped { thread.stop() }
        thread.join()
    }

    /// Whether the calling thread is the loop's.
    private func isRunning(_ loop: RunLoop) -> Bool { RunLoop.current === loop }

    @Test("Entries that come after a stop has ended a run of the body, and before the body returns, are waited for: S-NEST-8")
    func entriesBeforeTheBodyReturns() throws {
        let (hasRun, mayEnd) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        let thread = RunLoopThread { _ in
            RunLoop.current.run(mode: .default)
            hasRun.fulfil(())
            mayEnd.value
        }
        try thread.start()
        thread.loop.keepAlive(forMode: .default)
        thread.stop()
        hasRun.value
        let loop = thread.loop
        for _ in 0..<300 { Task.detached(executorPreference: loop.executor) { trace.add("\(isRunning(loop))") } }
        mayEnd.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "true", count: 300))
    }

    @Test("A stop ends runs in modes that are not common, of a body and in closures, and what was queued is performed: S-NEST-8 S-THREAD-4",
        arguments: [false, true])
    func privateModes(hasBody: Bool) throws {
        let own = RunLoop.Mode("ThreadStopTests")
        let begun = Promise<Void>()
        let run: @Sendable () -> Void = {
            RunLoop.current.keepAlive(forMode: own)
            RunLoop.current.perform(inModes: [own]) { begun.fulfil(()) }
            while !RunLoopThread.current!.isEnding { RunLoop.current.run(mode: own) }
        }
        let thread = hasBody ? RunLoopThread { _ in run() } : RunLoopThread()
        try thread.start()
        if !hasBody {
            thread.loop.perform(inModes: [.default], block: run)
            thread.loop.wakeUp()
        }
        begun.value
        let trace = Trace()
        for number in 0..<3 { queue(number, on: thread.loop, trace) }
        thread.stop()
        thread.join()
        #expect(Set(trace.all) == expected(3))
    }

    @Test("An Exit observer of the stopped run runs the loop, and an Entry observer stops each run: the thread ends: S-NEST-8 S-THREAD-4")
    func runsOfObservers() throws {
        let own = RunLoop.Mode("ThreadStopTests")
        let thread = RunLoopThread()
        try thread.start()
        let ready = Promise<Void>()
        let trace = Trace()
        thread.loop.perform {
            RunLoop.current.keepAlive(forMode: own)
            let exit = RunLoop.Observer(activities: .exit, repeats: true) { _, _ in trace.add("\(RunLoop.current.run(mode: own).rawValue)") }
            let entry = RunLoop.Observer(activities: .entry, repeats: true) { _, _ in RunLoop.current.stop() }
            RunLoop.current.add(exit, forMode: .default)
            RunLoop.current.add(entry, forMode: .default)
            ready.fulfil(())
        }
        thread.loop.wakeUp()
        ready.value
        thread.stop()
        thread.join()
        #expect(trace.count > 0 && Set(trace.all) == ["2"])
    }

    @Test("Entries that a body has left run the loop by functions of both languages, and queue more: these runs end, and all is performed: S-NEST-8")
    func entriesThatRunTheLoop() throws {
        let own = RunLoop.Mode("ThreadStopTests")
        let mayEnd = Promise<Void>()
        let thread = RunLoopThread { _ in mayEnd.value }
        try thread.start()
        let loop = thread.loop
        loop.keepAlive(forMode: own)
        let trace = Trace()
        let entry: @Sendable () -> Void = {
            let loop = RunLoop.current
            #expect(loop.run(mode: own) == .stopped && RLRunInMode(own.rawValue, 1e6, false) == 2)
            loop.perform { trace.add("\(RunLoop.current.run(mode: own) == .stopped)") }
        }
        for _ in 0..<100 { Task.detached(executorPreference: loop.executor) { callPlainly(entry) } }
        mayEnd.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "true", count: 100))
    }

    @Test("A task that goes back to the executor each time does not keep a stopped thread from its end: S-NEST-8")
    func endlessTask() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let hasEnded = Atomic(false)
        let begun = Promise<Void>()
        let task = Task.detached(executorPreference: thread.loop.executor) {
            begun.fulfil(())
            while !hasEnded.load(ordering: .relaxed) { await Task.yield() }
        }
        await Task.detached { begun.value }.value
        await thread.finish()
        hasEnded.store(true, ordering: .relaxed)
        await task.value
    }

    @Test("A cancelled thread performs nothing of what is queued, though it was stopped before, and runs of its body end: S-NEST-8 S-THREAD-18",
        arguments: [false, true])
    func cancelDrops(isStopped: Bool) throws {
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        let thread = RunLoopThread { _ in
            begun.fulfil(())
            gate.value
            trace.add("\(RunLoop.current.run(mode: RunLoop.Mode("ThreadStopTests")).rawValue)")
        }
        try thread.start()
        thread.loop.keepAlive(forMode: RunLoop.Mode("ThreadStopTests"))
        begun.value
        thread.loop.perform { trace.add("function") }
        thread.loop.perform(order: 0) { trace.add("ordered") }
        if isStopped { thread.stop() }
        #expect(!thread.isCancelled && thread.isEnding == isStopped)
        thread.cancel()
        #expect(thread.isCancelled && thread.isEnding)
        gate.fulfil(())
        thread.join()
        #expect(trace.all == ["2"])
    }

    @Test("A thread that is cancelled while it performs what its body has left leaves the rest: S-NEST-8 S-THREAD-18")
    func cancelAtTheLast() async throws {
        let gate = Promise<Void>()
        let thread = RunLoopThread { _ in gate.value }
        try thread.start()
        let (loop, trace, all) = (thread.loop, Trace(), 1000)
        for _ in 0..<all {
            Task.detached(executorPreference: loop.executor) {
                trace.add("\(isRunning(loop))")
                thread.cancel()
            }
        }
        thread.stop()
        gate.fulfil(())
        callPlainly { thread.join() }
        // They need threads of the pool, of which this test keeps none.
        while trace.count < all { await Task.yield() }
        #expect(trace.all.first == "true" && trace.all.last == "false")
    }

    @Test("A run of the body of a thread that was cancelled before its start ends: S-THREAD-18")
    func cancelledBeforeTheStart() throws {
        let thread = RunLoopThread { _ in #expect(RunLoop.current.run(mode: .default) == .stopped) }
        thread.cancel()
        try thread.start()
        thread.join()
        #expect(thread.isCancelled)
    }
}

/// Runs of the loop, and waits that keep a thread, are for functions that are not asynchronous.
private func callPlainly(_ function: () -> Void) { function() }

/// An actor whose executor asks its thread for its state, as one does that starts the thread with the first job.
private actor Worker {
    let thread = RunLoopThread()

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        if !thread.isExecuting && !thread.isFinished && !thread.isCancelled { try! thread.start() }
        return thread.loop.executor.asUnownedSerialExecutor()
    }

    func work() -> Int { 1 }

    func end() async { await thread.finish() }
}

extension ThreadStopTests {
    @Test("An actor whose executor asks the thread for its state can wait for the thread's end: S-THR-3")
    func lazyExecutor() async {
        let worker = Worker()
        #expect(await worker.work() == 1)
        await worker.end()
        #expect(worker.thread.isFinished)
    }
}
