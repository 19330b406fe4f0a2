// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Threads with a loop.
@Suite struct ThreadTests {
    @Test("The loop can be used when start returns, and serves the thread that made it: S-THREAD-1")
    func ready() async throws {
        let thread = RunLoopThread(name: "worker")
        #expect(!thread.isExecuting)
        try thread.start()
        try thread.start()
        #expect(thread.isExecuting)
        let loop = thread.loop
        #expect(try await loop.call { RunLoop.current === loop && RunLoopThread.current === thread })
        #expect(try await loop.call { RunLoop.isMainThread } == false)
        await thread.finish()
        #expect(thread.isFinished && !thread.isExecuting && !thread.isCancelled)
    }

    @Test("A thread has the name, the stack and the nice value it was given")
    func attributes() async throws {
        let thread = RunLoopThread(name: "a rather long name", stackSize: 3 << 20, qualityOfService: .background)
        try thread.start()
        let (name, nice, depth) = try await thread.loop.call {
            var name = [UInt8](repeating: 0, count: 64)
            let file = open("/proc/thread-self/comm", O_RDONLY)
            let count = read(file, &name, name.count)
            close(file)
            // Two thirds of the stack are used, which the system's smallest size would not allow.
            let depth = withUnsafeTemporaryAllocation(byteCount: 2 << 20, alignment: 16) { buffer in
                buffer.initializeMemory(as: UInt8.self, repeating: 1)
                return buffer.count
            }
            return (String(decoding: name.prefix(max(count - 1, 0)), as: UTF8.self), getpriority(.init(0), 0), depth)
        }
        #expect(name == "a rather long n")
        #expect(nice >= 10)
        #expect(depth == 2 << 20)
        await thread.finish()
    }

    @Test("A stop performs what was queued before it and ends nested runs; then the thread is gone")
    func stop() throws {
        let trace = Trace()
        let thread = RunLoopThread()
        try thread.start()
        let nested = Promise<Void>()
        let mayStop = Promise<Void>()
        thread.loop.perform {
            // Two runs inside each other, which nothing else would end.
            RunLoop.current.perform {
                nested.fulfil(())
                mayStop.value
                RunLoop.current.run(mode: .default)
                trace.add("inner")
            }
            RunLoop.current.run(mode: .default)
            trace.add("outer")
        }
        thread.loop.wakeUp()
        nested.value
        for number in 0..<3 { thread.loop.perform { trace.add("queued \(number)") } }
        thread.stop()
        mayStop.fulfil(())
        thread.join()
        #expect(trace.all.filter { $0.hasPrefix("queued") } == ["queued 0", "queued 1", "queued 2"])
        #expect(trace.all.suffix(5).contains("inner") && trace.all.contains("outer"))
        thread.join()
    }

    @Test("A stop ends a run in a queued closure, and loses none of the executor's entries behind the closure: S-NEST-8", arguments: [false, true])
    func stopWithEntriesBehindARun(byC: Bool) throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        loop.perform {
            begun.fulfil(())
            gate.value
        }
        loop.wakeUp()
        begun.value
        loop.perform {
            let result = byC ? runInMode("kCFRunLoopDefaultMode", 20, false) : RunLoop.current.run(mode: .default, for: .seconds(20)).rawValue
            trace.add("\(result)")
        }
        for _ in 0..<200 { Task.detached(executorPreference: loop.executor) { trace.add(RunLoop.isCurrent(loop) ? "entry" : "elsewhere") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all.filter { $0 != "2" } == Array(repeating: "entry", count: 200))
        #expect(trace.count == 201)
    }

    /// A thread in a closure of its loop, in the middle of a pass, which goes on when the gate opens.
    private func threadInAPass(_ queue: (RunLoop, @escaping @Sendable () -> Void) -> Void) throws -> (RunLoopThread, gate: Promise<Void>) {
        let thread = RunLoopThread()
        try thread.start()
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        queue(thread.loop) {
            begun.fulfil(())
            gate.value
        }
        thread.loop.wakeUp()
        begun.value
        return (thread, gate)
    }

    @Test("A stop in the middle of a pass performs what was ordered before it, whose turn is at the beginning of a pass: S-NEST-8 S-PERF-24")
    func stopAfterWhatWasOrdered() throws {
        let (thread, gate) = try threadInAPass { $0.perform($1) }
        let trace = Trace()
        for number in 0..<3 { thread.loop.perform(order: number) { trace.add("ordered \(number)") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == ["ordered 0", "ordered 1", "ordered 2"])
    }

    @Test("A stop during a request performs the requests that were queued before it: S-NEST-8 S-PERF-12")
    func stopAfterWhatWasRequested() throws {
        let (thread, gate) = try threadInAPass { $0.perform(waitUntilDone: false, block: $1) }
        let trace = Trace()
        for number in 0..<3 { thread.loop.perform(waitUntilDone: false) { trace.add("request \(number)") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == ["request 0", "request 1", "request 2"])
    }

    @Test("A stop ends the runs in ordered closures too that were queued before it: S-NEST-8", .timeLimit(.minutes(10)))
    func stopOfOrderedRuns() throws {
        let (thread, gate) = try threadInAPass { $0.perform($1) }
        let trace = Trace()
        for number in 0..<3 {
            thread.loop.perform(order: number) { trace.add("\(number): \(RunLoop.current.run(mode: .default).rawValue)") }
        }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == ["0: 2", "1: 2", "2: 2"])
    }

    @Test("A stop ends the runs in closures that were queued before it, however many they are: S-NEST-8", .timeLimit(.minutes(10)))
    func stopOfManyRuns() throws {
        let (thread, gate) = try threadInAPass { $0.perform($1) }
        let trace = Trace()
        for _ in 0..<20 { thread.loop.perform { trace.add("\(RunLoop.current.run(mode: .default).rawValue)") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "2", count: 20))
    }

    @Test("A stop performs what was queued for the mode of the run around the one that it ends: S-NEST-8")
    func stopInAnotherMode() throws {
        let other = RunLoop.Mode("another common mode")
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        loop.addCommonMode(other)
        let nested = Promise<Void>()
        let trace = Trace()
        let source = RunLoop.Source { _ in
            RunLoop.current.perform(inModes: [other]) { nested.fulfil(()) }
            RunLoop.current.run(mode: other)
        }
        loop.add(source, forMode: .default)
        source.signal()
        loop.wakeUp()
        nested.value
        loop.perform(order: 0) { trace.add("ordered") }
        loop.perform(waitUntilDone: false, inModes: [.default]) { trace.add("request") }
        loop.perform { trace.add("function") }
        thread.stop()
        thread.join()
        #expect(Set(trace.all) == ["ordered", "request", "function"])
    }

    @Test("What was queued before a stop is performed, though the program stops the thread's own run when the stop has ended a nested one: S-NEST-8")
    func stopOfTheOuterRun() throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        @Sendable func nest() {
            begun.fulfil(())
            gate.value
            RunLoop.current.run(mode: .default)
            RunLoop.current.stop()
        }
        Task.detached(executorPreference: loop.executor) { nest() }
        begun.value
        for _ in 0..<300 { Task.detached(executorPreference: loop.executor) { trace.add(RunLoop.isCurrent(loop) ? "entry" : "elsewhere") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "entry", count: 300))
    }

    /// A thread that waits in its loop for a lock, which the caller has.
    private func threadThatWaits() throws -> (RunLoopThread, NSLock) {
        let lock = NSLock()
        let thread = RunLoopThread()
        try thread.start()
        lock.lock()
        let waits = Promise<Void>()
        thread.loop.perform {
            waits.fulfil(())
            lock.lock(inMode: .default)
            lock.unlock()
        }
        thread.loop.wakeUp()
        waits.value
        while !thread.loop.isWaiting { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        return (thread, lock)
    }

    @Test("A thread that is stopped while it waits for a lock in its loop sleeps until the wait is over, and then ends: S-SYNC-24 S-NSLK-4")
    func stoppedInAWait() throws {
        let (thread, lock) = try threadThatWaits()
        let before = thread.loop.statistics.runs
        thread.stop()
        while thread.loop.statistics.runs < before + 1 { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        Thread.sleep(forTimeInterval: .milliseconds(100))
        #expect(thread.loop.statistics.runs < before + 30)
        lock.unlock()
        thread.join()
    }

    @Test("A thread that is stopped while it waits for a lock, and then runs its loop inside that wait, ends after it", .timeLimit(.minutes(10)))
    func stoppedAroundARun() throws {
        let (thread, lock) = try threadThatWaits()
        let before = thread.loop.statistics.runs
        thread.stop()
        while thread.loop.statistics.runs < before + 1 || !thread.loop.isWaiting { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        let hasRun = Promise<Void>()
        thread.loop.perform {
            RunLoop.current.run()
            hasRun.fulfil(())
        }
        thread.loop.wakeUp()
        hasRun.value
        while !thread.loop.isWaiting { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        lock.unlock()
        thread.join()
    }

    @Test("run() and run(until:) in a body end when the thread is told to end, though sources are left: S-NSRL-7", .timeLimit(.minutes(10)))
    func stoppedInASeries() throws {
        for byDate in [false, true] {
            let thread = RunLoopThread { _ in
                RunLoop.current.add(RunLoop.Source { _ in }, forMode: .default)
                if byDate { RunLoop.current.run(until: .distantFuture) } else { RunLoop.current.run() }
            }
            try thread.start()
            while !thread.loop.isWaiting { Thread.sleep(forTimeInterval: .milliseconds(1)) }
            thread.stop()
            thread.join()
        }
    }

    @Test(
        "A body that begins run after run and does not ask whether the thread is to end sleeps between them, by the system's time: S-THREAD-4 S-CLK-3",
        .timeLimit(.minutes(10)), arguments: [false, true])
    func stoppedUnheard(byTestClock: Bool) throws {
        let clock = TestClock()
        let isOver = Atomic(false)
        let thread = RunLoopThread { _ in
            if byTestClock { #expect(RunLoop.current.setClock(clock)) }
            while !isOver.load(ordering: .relaxed) { RunLoop.current.run(mode: .default, before: .distantFuture) }
        }
        try thread.start()
        while !thread.loop.isWaiting { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        let before = thread.loop.statistics.runs
        thread.stop()
        while thread.loop.statistics.runs < before + 1010 { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        // Each of these begins a millisecond after the one before has ended.
        let (first, begin) = (thread.loop.statistics.runs, ContinuousClock.now)
        Thread.sleep(forTimeInterval: .milliseconds(50))
        let count = thread.loop.statistics.runs - first
        #expect(.milliseconds(Int(count) - 2) <= ContinuousClock.now - begin)
        // However often it is told to end.
        for _ in 0..<100 { thread.stop() }
        #expect(thread.loop.items(in: .default).count < 5)
        #expect(!clock.advanceToNext())
        isOver.store(true, ordering: .relaxed)
        clock.advance(by: .seconds(1))
        thread.join()
    }

    @Test("Cancel ends the thread without the last pass; its sources are cancelled before join returns: S-LOOP-7")
    func cancel() throws {
        let trace = Trace()
        let thread = RunLoopThread()
        try thread.start()
        let source = RunLoop.Source(cancel: { _, _ in trace.add("cancelled") }, perform: { _ in })
        thread.loop.add(source, forMode: .default)
        let busy = Promise<Void>()
        let mayEnd = Promise<Void>()
        thread.loop.perform {
            busy.fulfil(())
            mayEnd.value
        }
        thread.loop.wakeUp()
        busy.value
        thread.cancel()
        mayEnd.fulfil(())
        thread.join()
        #expect(thread.isCancelled && thread.isFinished)
        #expect(trace.all == ["cancelled"])
    }

    @Test("A thread that is cancelled before its start ends as soon as it is started: S-THREAD-4; what waits for one not started returns")
    func cancelledBefore() async throws {
        let thread = RunLoopThread()
        await thread.finish()
        #expect(!thread.isEnding && !thread.isFinished)
        thread.cancel()
        try thread.start()
        await thread.finish()
        #expect(thread.isFinished && thread.isCancelled && !thread.isExecuting)
    }

    @Test("A stop that comes before the thread has come to its body is not lost")
    func stopAtOnce() throws {
        for _ in 0..<200 {
            let thread = RunLoopThread()
            try thread.start()
            thread.stop()
            thread.join()
            #expect(thread.isFinished && !thread.isCancelled)
        }
    }

    @Test("A body takes the place of the runs, sees the cancellation, and has a dictionary of its own")
    func body() throws {
        let seen = Promise<Bool>()
        let value = Mutex("")
        let thread = RunLoopThread { thread in
            thread.threadDictionary["key"] = "value"
            while !thread.isEnding { RunLoop.current.run(mode: .default) }
            value.withLock { $0 = thread.threadDictionary["key"] as! String }
            seen.fulfil(thread.isCancelled)
        }
        try thread.start()
        thread.cancel()
        thread.join()
        #expect(seen.value)
        #expect(value.withLock { $0 } == "value")
    }

    @Test("Several may wait for one thread; one that nobody waits for ends by itself, and so does its object")
    func joiners() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let joiners = (0..<3).map { _ in TestThread { thread.join() } }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<3 { group.addTask { await thread.finish() } }
        }
        for joiner in joiners { joiner.join() }
        let canary = Canary()
        try abandoned(canary)
        while canary.deaths == 0 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(canary.deaths == 1)
    }

    @Test("However many tasks wait for the end of a thread, one thread joins it for them: S-THREAD-8 S-THR-9")
    func oneThreadJoins() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let mayEnd = Promise<Void>()
        thread.loop.add(RunLoop.Source(cancel: { _, _ in mayEnd.value }, perform: { _ in }), forMode: .default)
        func count() -> Int {
            guard let directory = opendir("/proc/self/task") else { return 0 }
            defer { closedir(directory) }
            var count = 0
            while readdir(directory) != nil { count += 1 }
            return count
        }
        let tasks = (0..<400).map { _ in Task { await thread.finish() } }
        while thread.state.withLock({ $0.joiners.count }) < tasks.count { await Task.yield() }
        // Other tests have threads too, which end.
        let limit = ContinuousClock.now + .seconds(60)
        while count() >= tasks.count, .now < limit { try await Task.sleep(for: .milliseconds(1)) }
        #expect(count() < tasks.count)
        mayEnd.fulfil(())
        for task in tasks { await task.value }
        #expect(thread.isFinished)
        await thread.finish()
    }

    private func abandoned(_ canary: Canary) throws {
        let thread = RunLoopThread { [captured = canary.capture()] _ in captured.touch() }
        try thread.start()
    }

    @Test("The body of a thread goes when it has ended, though its object is kept: S-THREAD-3")
    func bodyOfAnEndedThread() throws {
        let canary = Canary()
        let thread = RunLoopThread { [captured = canary.capture()] _ in captured.touch() }
        try thread.start()
        thread.join()
        #expect(canary.deaths == 1)
        withExtendedLifetime(thread) {}
    }

    // What the frames of the thread's Swift functions held is lost with them; nobody runs their ends.
    @Test("A thread that a callback ends is finished for all who wait: S-LOOP-19")
    func exit() async throws {
        let thread = RunLoopThread { _ in RunLoop.current.run(mode: .default) }
        try thread.start()
        let timer = Timer(timeInterval: .milliseconds(1), repeats: false) { _ in pthread_exit(nil) }
        thread.loop.add(timer, forMode: .default)
        await thread.finish()
        #expect(thread.isFinished && !thread.isExecuting)
    }

    @Test("A value that goes from the thread's dictionary may use the dictionary: S-NSTH-8")
    func dictionaryInDeinit() throws {
        final class Value: Sendable {
            let trace: Trace
            init(_ trace: Trace) { self.trace = trace }
            deinit {
                guard let thread = RunLoopThread.current else { return }
                thread.threadDictionary["cache"] = nil
                trace.add("\(thread.threadDictionary.count)")
            }
        }
        let trace = Trace()
        let thread = RunLoopThread { thread in
            for ends: (inout ThreadDictionary) -> Void in [{ $0["value"] = nil }, { $0["value"] = 1 }, { $0.removeAll() }] {
                thread.threadDictionary["cache"] = 1
                thread.threadDictionary["value"] = Value(trace)
                ends(&thread.threadDictionary)
            }
        }
        try thread.start()
        thread.join()
        #expect(trace.all == ["0", "1", "0"])
    }

    @Test("A thread without a body that a callback ends leaves nothing behind: S-LOOP-9, S-LOOP-10, S-LOOP-19")
    func exitWithoutBody() async throws {
        let canary = Canary()
        func begin() throws -> RunLoopThread {
            let thread = RunLoopThread()
            try thread.start()
            let (inTimer, inObserver, inBlock) = (canary.capture(), canary.capture(), canary.capture())
            let loop = thread.loop
            loop.add(Timer(timeInterval: .seconds(1000), repeats: true) { _ in inTimer.touch() }, forMode: .common)
            loop.add(RunLoop.Observer(activities: .entry) { _, _ in inObserver.touch() }, forMode: .common)
            loop.perform(inModes: [RunLoop.Mode("never run")]) { inBlock.touch() }
            loop.perform {
                RunLoopThread.current!.threadDictionary["held"] = canary.capture()
                pthread_exit(nil)
            }
            loop.wakeUp()
            return thread
        }
        try await begin().finish()
        while canary.deaths < 4 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(canary.deaths == 4)
    }

    @Test("Jobs that an actor on the thread still has when it stops are done all the same")
    func jobsAtTheEnd() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let executor = thread.loop.executor
        let tasks = (0..<50).map { number in
            Task(executorPreference: executor) {
                await Task.yield()
                return number
            }
        }
        await thread.finish()
        var sum = 0
        for task in tasks { sum += await task.value }
        #expect(sum == 1225)
    }
}

@Suite(.timeLimit(.minutes(10))) struct ThreadRaceTests {
    @Test("Finish and stop that race with start come back: before it they do nothing, after it they end the thread: S-THREAD-4")
    func finishRacesStart() async throws {
        for round in 0..<300 {
            let thread = RunLoopThread()
            async let started: Void = Task.detached { try thread.start() }.value
            async let finished: Void = Task.detached {
                if round % 2 == 0 { await Task.yield() }
                await thread.finish()
            }.value
            try await started
            await finished
            await thread.finish()
            #expect(thread.isFinished)
        }
    }

    @Test("An observer of exit is called once when a thread finishes")
    func exitOnce() async throws {
        for _ in 0..<20 {
            let thread = RunLoopThread()
            try thread.start()
            let trace = Trace()
            let loop = thread.loop
            loop.keepAlive()
            loop.add(RunLoop.Observer(activities: .exit) { _, _ in trace.add("exit") }, forMode: .common)
            try await loop.call {}
            await thread.finish()
            #expect(trace.all == ["exit"])
        }
    }
}

/// As C code runs a loop, which the module does not see.
@_silgen_name("RLRunInMode")
private func runInMode(_ mode: UnsafePointer<CChar>, _ seconds: Double, _ returnsAfterSource: Bool) -> Int32

extension RunLoop {
    fileprivate static func isCurrent(_ loop: RunLoop) -> Bool { loop.executor.isIsolatingCurrentContext() == true }
}
