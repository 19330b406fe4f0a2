// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Runs and their results, seen from Swift; the traces are those of the specification's table.
@Suite struct RunTests {
    @Test("A missing mode returns finished at once with no observer called: S-RUN-4, S-MODE-3, TR-19")
    func missingMode() {
        let (result, modes, trace) = onNewThread {
            let trace = Trace()
            RunLoop.current.traceActivities(to: trace)
            let missing = RunLoop.Mode("nobody made this")
            return (RunLoop.current.run(mode: missing, for: .seconds(60)), RunLoop.current.allModes, trace.all)
        }
        #expect(result == .finished)
        #expect(modes == [.default])
        #expect(trace.isEmpty)
    }

    @Test("Observers alone leave a mode empty: S-RUN-2, S-OBS-12")
    func observersDoNotCount() {
        let (result, trace) = onNewThread {
            let trace = Trace()
            RunLoop.current.traceActivities(to: trace)
            return (RunLoop.current.run(mode: .default, for: .seconds(60)), trace.all)
        }
        #expect(result == .finished)
        #expect(trace.isEmpty)
    }

    @Test("Running the pseudo-mode returns finished: S-MODE-19")
    func commonModesCannotRun() {
        let result = onNewThread {
            RunLoop.current.keepAlive(forMode: .common)
            return RunLoop.current.run(mode: .common, for: .seconds(60))
        }
        #expect(result == .finished)
    }

    @Test("A run of zero or less is one pass that does not wait: S-RUN-17, S-PASS-4, TR-1",
          arguments: [Duration.zero, .seconds(-3)])
    func poll(time: Duration) {
        let (result, trace) = onNewThread {
            let trace = Trace()
            RunLoop.current.traceActivities(to: trace)
            RunLoop.current.keepAlive()
            return (RunLoop.current.run(mode: .default, for: time), trace.all)
        }
        #expect(result == .timedOut)
        #expect(trace == ["E", "BT", "BS", "X"])
    }

    @Test("A timed run waits at least its time: S-RUN-18, S-RUN-21, TR-2")
    func timedRun() {
        let (result, trace, took) = onNewThread {
            let trace = Trace()
            RunLoop.current.traceActivities(to: trace)
            RunLoop.current.keepAlive()
            let clock = ContinuousClock()
            let start = clock.now
            let result = RunLoop.current.run(mode: .default, for: .milliseconds(50))
            return (result, trace.all, clock.now - start)
        }
        #expect(result == .timedOut)
        #expect(trace == ["E", "BT", "BS", "BW", "AW", "X"])
        #expect(took >= .milliseconds(50))
    }

    @Test("A handled source ends a run that asks for it: S-RUN-9, S-RUN-12, TR-4")
    func handledSource() {
        let (result, trace) = onNewThread {
            let trace = Trace()
            RunLoop.current.traceActivities(to: trace)
            let source = RunLoop.Source { _ in trace.add("perform") }
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            let result = RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
            return (result, trace.all)
        }
        #expect(result == .handledSource)
        #expect(trace == ["E", "BT", "BS", "perform", "X"])
    }

    @Test("A run without a time ends by a stop from another thread: S-RUN-19, S-STOP-8, TR-16")
    func stopFromAnotherThread() {
        let trace = Trace()
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let loop = RunLoop.current
            loop.traceActivities(to: trace)
            loop.keepAlive()
            // It comes after the tracing observer, so that the trace has the wait in it.
            let ready = RunLoop.Observer(activities: .beforeWaiting, order: 1) { _, _ in
                waiting.fulfil(RunLoop.current)
            }
            loop.add(ready, forMode: .default)
            return loop.run(mode: .default)
        }
        waiting.value.stop()
        #expect(thread.join() == .stopped)
        #expect(trace.all == ["E", "BT", "BS", "BW", "AW", "X"])
    }

    @Test("Another thread's loop cannot be run: finished, and nothing done: S-NSRL-5, S-RUN-1")
    func otherThreadsLoop() {
        let trace = Trace()
        let foreign = Promise<RunLoop>()
        let tried = Promise<Void>()
        let owner = TestThread {
            RunLoop.current.traceActivities(to: trace)
            RunLoop.current.keepAlive().signal()
            foreign.fulfil(RunLoop.current)
            tried.value
        }
        let result = onNewThread { foreign.value.run(mode: .default, for: .zero) }
        tried.fulfil(())
        owner.join()
        #expect(result == .finished)
        #expect(trace.all.isEmpty)
    }

    @Test("run() goes on after a stop and ends when the default mode is empty: S-NSRL-7")
    func runToTheEnd() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let timer = Timer(timeInterval: .milliseconds(1), repeats: true) { timer in
                trace.add("fire")
                if trace.count < 3 { RunLoop.current.stop() } else { timer.invalidate() }
            }
            loop.add(timer, forMode: .default)
            loop.run()
            trace.add("over")
            return trace.all
        }
        #expect(trace == ["fire", "fire", "fire", "over"])
    }

    @Test("A nested run has a result of its own: S-NEST-1, S-NEST-2, S-MODE-8")
    func nestedRun() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let inner = RunLoop.Mode("inner")
            let loop = RunLoop.current
            loop.keepAlive(forMode: inner)
            let source = RunLoop.Source { _ in
                let result = RunLoop.current.run(mode: inner, for: .zero)
                trace.add("inner \(result) in \(RunLoop.current.currentMode == .default)")
            }
            let witness = RunLoop.Observer(activities: .entry) { _, _ in
                trace.add(RunLoop.current.currentMode?.rawValue ?? "none")
            }
            loop.add(witness, forMode: inner)
            loop.add(source, forMode: .default)
            source.signal()
            let result = loop.run(mode: .default, returnAfterSourceHandled: true)
            trace.add("outer \(result)")
            trace.add(loop.currentMode == nil ? "idle" : "running")
            return trace.all
        }
        #expect(trace == ["inner", "inner timedOut in true", "outer handledSource", "idle"])
    }
}
