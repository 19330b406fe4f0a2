// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// What a thread that is told to stop performs before it ends, whatever is on its stack then.
@Suite(.timeLimit(.minutes(1))) struct ThreadStopTests {
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
}
