// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// The perform-selector family with closures.
@Suite struct RequestTests {
    @Test("Requests from another thread run in order and count as a source: S-PERF-1, S-PERF-2, S-PERF-3, S-PERF-8")
    func queued() {
        let trace = Trace()
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let loop = RunLoop.current
            loop.keepAlive()
            loop.add(RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(loop) }, forMode: .default)
            return loop.run(mode: .default, returnAfterSourceHandled: true)
        }
        let isTaken = waiting.value.perform(waitUntilDone: false) { trace.add("performed") }
        #expect(isTaken)
        #expect(thread.join() == .handledSource)
        #expect(trace.all == ["performed"])
    }

    @Test("Waiting: inline on the own thread, after the call on another, never without a mode: S-PERF-4, S-PERF-6, S-PERF-7")
    func waiting() throws {
        let thread = RunLoopThread()
        try thread.start()
        let trace = Trace()
        let isDone = thread.loop.perform(waitUntilDone: true) {
            trace.add("outer")
            RunLoop.current.perform(waitUntilDone: true) { trace.add("inner") }
            trace.add("outer again")
        }
        #expect(isDone)
        #expect(trace.all == ["outer", "inner", "outer again"])
        #expect(!thread.loop.perform(waitUntilDone: true, inModes: []) { trace.add("never") })
        #expect(trace.count == 3)
        thread.stop()
        thread.join()
        // S-PERF-11: nobody is left to perform it.
        #expect(!thread.loop.perform(waitUntilDone: true) { trace.add("never") })
    }

    @Test("Delayed requests come in order, never inside the call, and count as no source: S-PERF-16 to S-PERF-19")
    func delayed() {
        let (trace, result) = onNewThread {
            let trace = Trace()
            RunLoop.perform(afterDelay: .zero) { trace.add("one") }
            RunLoop.perform(afterDelay: .seconds(-5)) { trace.add("two") }
            RunLoop.perform(afterDelay: .milliseconds(5)) { trace.add("three") }
            trace.add("made")
            let result = RunLoop.current.run(mode: .default, for: .seconds(100), returnAfterSourceHandled: true)
            return (trace.all, result)
        }
        #expect(trace == ["made", "one", "two", "three"])
        #expect(result == .finished)
    }

    @Test("Delayed requests are cancelled and let go of what they hold: S-PERF-20 S-PERF-22 S-PERF-23")
    func cancelDelayed() {
        let canary = Canary()
        let trace = onNewThread {
            let trace = Trace()
            let kept = RunLoop.perform(afterDelay: .zero) { trace.add("kept") }
            let captured = canary.capture()
            let cancelled = RunLoop.perform(afterDelay: .zero) { [captured] in
                captured.touch()
                trace.add("cancelled")
            }
            // Another thread's cancel does nothing here.
            TestThread { kept.cancel() }.join()
            cancelled.cancel()
            cancelled.cancel()
            RunLoop.current.run(mode: .default, for: .seconds(100))
            kept.cancel()
            return trace.all
        }
        #expect(trace == ["kept"])
        #expect(canary.deaths == 1)
    }

    @Test("Ordered requests come at the start of the next pass, lower orders first, and can be cancelled: S-PERF-24 to S-PERF-26")
    func ordered() {
        let trace = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            loop.keepAlive()
            loop.perform(order: 2) { trace.add("two") }
            loop.perform(order: 1) { trace.add("one") }
            loop.perform(order: 1) { trace.add("one again") }
            let other = loop.perform(order: 0) { trace.add("cancelled") }
            trace.add("made")
            TestThread { other.cancel() }.join()
            loop.run(mode: .default, for: .zero)
            return trace.all
        }
        #expect(trace == ["made", "one", "one again", "two"])
    }

    @Test("What a request holds goes when it is cancelled or performed, though the request is kept: S-PERF-9 S-PERF-22")
    func keptRequests() {
        let canary = Canary()
        let deaths = onNewThread { () -> [Int] in
            let loop = RunLoop.current
            func delayed() -> CancellablePerform { RunLoop.perform(afterDelay: .zero) { [it = canary.capture()] in it.touch() } }
            func ordered() -> CancellablePerform { loop.perform(order: 0) { [it = canary.capture()] in it.touch() } }
            var deaths: [Int] = []
            let cancelled = [delayed(), ordered()]
            for request in cancelled {
                request.cancel()
                deaths.append(canary.deaths)
            }
            let performed = [delayed(), ordered()]
            loop.keepAlive()
            loop.run(mode: .default, for: .zero)
            deaths.append(canary.deaths)
            // They are over, and these mean no other.
            let later = [delayed(), ordered()]
            for request in cancelled + performed { request.cancel() }
            deaths.append(canary.deaths)
            for request in later { request.cancel() }
            return deaths
        }
        #expect(deaths == [1, 2, 4, 4])
        #expect(canary.deaths == 6)
    }

    @Test("A closure in the background runs on a thread of its own: S-PERF-15")
    func background() {
        let done = Promise<Bool>()
        #expect(RunLoop.performInBackground { done.fulfil(RunLoop.isMainThread) })
        #expect(!done.value)
    }
}
