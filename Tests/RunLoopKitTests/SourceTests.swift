// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Custom sources and port sources made of closures.
@Suite struct SourceTests {
    @Test("schedule and cancel are called with the loop and the real mode: S-SRC-18, S-SRC-19, S-SRC-20")
    func scheduleAndCancel() {
        let (trace, same) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            let extra = RunLoop.Mode("extra")
            loop.addCommonMode(extra)
            loop.keepAlive(forMode: extra)
            let seen = Promise<RunLoop>()
            let source = RunLoop.Source(
                schedule: { loop, mode in
                    seen.fulfil(loop)
                    trace.add("schedule \(mode == .default ? "default" : mode.rawValue)")
                },
                cancel: { _, mode in trace.add("cancel \(mode == .default ? "default" : mode.rawValue)") },
                perform: { _ in })
            loop.add(source, forMode: .default)
            loop.add(source, forMode: .default)
            loop.add(source, forMode: extra)
            loop.remove(source, forMode: .default)
            loop.remove(source, forMode: .default)
            source.invalidate()
            source.invalidate()
            return (trace.all, seen.value === loop)
        }
        #expect(trace == ["schedule default", "schedule extra", "cancel default", "cancel extra"])
        #expect(same)
    }

    @Test("A signal and a wake-up from another thread make a source perform: S-SRC-26, S-WAKE-8, S-THR-2")
    func fromAnotherThread() {
        let waiting = Promise<RunLoop>()
        let trace = Trace()
        let source = RunLoop.Source { source in
            trace.add(source.isSignalled ? "signalled" : "cleared")
            RunLoop.current.stop()
        }
        let thread = TestThread { () -> RunLoop.RunResult in
            RunLoop.current.add(source, forMode: .default)
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(RunLoop.current) }
            RunLoop.current.add(ready, forMode: .default)
            return RunLoop.current.run(mode: .default)
        }
        let loop = waiting.value
        source.signal()
        source.signal()
        loop.wakeUp()
        #expect(thread.join() == .stopped)
        #expect(trace.all == ["cleared"])
    }

    @Test("The batch performs in the order of the sources, then of the signals: S-SRC-31, S-SRC-4")
    func order() {
        let (trace, orders) = onNewThread {
            let trace = Trace()
            let sources = [(5, "late"), (-1, "early"), (0, "first"), (0, "second")].map { order, name in
                RunLoop.Source(order: order) { _ in trace.add(name) }
            }
            for source in sources { RunLoop.current.add(source, forMode: .default) }
            for source in sources { source.signal() }
            RunLoop.current.run(mode: .default, for: .zero)
            return (trace.all, sources.map(\.order))
        }
        #expect(trace == ["early", "first", "second", "late"])
        #expect(orders == [5, -1, 0, 0])
    }

    @Test("A signal before the source is added is kept: S-SRC-27, S-SRC-38")
    func signalBeforeAdding() {
        let source = RunLoop.Source { _ in }
        source.signal()
        #expect(source.isSignalled)
        let result = onNewThread {
            RunLoop.current.add(source, forMode: .default)
            return RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
        }
        #expect(result == .handledSource)
        #expect(!source.isSignalled)
    }

    @Test("A source may invalidate itself, and the empty mode ends the run: S-SRC-16, S-SRC-13, S-RUN-9")
    func invalidatesItself() {
        let (result, trace, valid, contained) = onNewThread {
            let trace = Trace()
            let source = RunLoop.Source(cancel: { _, _ in trace.add("cancel") }) { source in
                source.invalidate()
                trace.add("performed")
            }
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            let result = RunLoop.current.run(mode: .default)
            RunLoop.current.add(source, forMode: .default)
            return (result, trace.all, source.isValid, RunLoop.current.contains(source, forMode: .default))
        }
        #expect(result == .finished)
        #expect(trace == ["cancel", "performed"])
        #expect(!valid)
        #expect(!contained)
    }

    @Test("At thread exit a source is cancelled once per mode and stays usable: S-LOOP-7, S-LOOP-8")
    func threadExit() {
        let trace = Trace()
        let source = RunLoop.Source(cancel: { _, mode in trace.add(mode.rawValue) }) { _ in }
        onNewThread {
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.add(source, forMode: RunLoop.Mode("other"))
        }
        #expect(Set(trace.all) == [RunLoop.Mode.default.rawValue, "other"])
        #expect(trace.count == 2)
        #expect(source.isValid)
        source.signal()
        let result = onNewThread {
            RunLoop.current.add(source, forMode: .default)
            return RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
        }
        #expect(result == .handledSource)
    }

    @Test("The closures live as long as the source, not its validity: S-SRC-11, S-SRC-14")
    func closureLife() {
        let canary = Canary()
        var source: RunLoop.Source? = makeSource(capturing: canary)
        source?.invalidate()
        #expect(canary.deaths == 0)
        source = nil
        #expect(canary.deaths == 1)
    }

    @Test("The source a closure is given equals the one that was made: S-NSRL-15")
    func identity() {
        let made = Promise<RunLoop.Source>()
        let same = onNewThread { () -> Bool in
            let result = Promise<Bool>()
            let source = RunLoop.Source { source in result.fulfil(source == made.value) }
            made.fulfil(source)
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            RunLoop.current.run(mode: .default, for: .zero)
            return result.value
        }
        #expect(same)
        #expect(RunLoop.Source(wrapping: made.value.getRLSource()) == made.value)
        // The source keeps its closure, which keeps the promise.
        made.forget()
    }

    @Test("A port source performs while its descriptor is readable, which it does not read: S-SRC-41, S-SRC-47")
    func portSource() {
        let (trace, result) = onNewThread {
            let trace = Trace()
            let pipe = Pipe()
            pipe.write(20)
            let source = RunLoop.Source(descriptor: pipe.readEnd) { source in
                trace.add("\(pipe.read(8))")
                if trace.count == 3 { source.invalidate() }
            }
            RunLoop.current.add(source, forMode: .default)
            let result = RunLoop.current.run(mode: .default)
            return (trace.all, result)
        }
        #expect(trace == ["8", "8", "4"])
        #expect(result == .finished)
    }

    @Test("A descriptor that becomes readable ends the wait and counts as a source: S-RUN-12, S-WAKE-13, TR-8")
    func portSourceFromAnotherThread() {
        let pipe = Pipe()
        let waiting = Promise<Void>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let source = RunLoop.Source(descriptor: pipe.readEnd) { _ in _ = pipe.read(1) }
            RunLoop.current.add(source, forMode: .default)
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(()) }
            RunLoop.current.add(ready, forMode: .default)
            let result = RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
            source.invalidate()
            return result
        }
        waiting.value
        pipe.write(1)
        #expect(thread.join() == .handledSource)
    }

    @Test("A descriptor that cannot be watched counts as content and never performs: S-SRC-43, S-RUN-3")
    func badDescriptor() {
        let (result, trace) = onNewThread {
            let trace = Trace()
            RunLoop.current.add(RunLoop.Source(descriptor: -1) { _ in trace.add("performed") }, forMode: .default)
            return (RunLoop.current.run(mode: .default, for: .milliseconds(5)), trace.all)
        }
        #expect(result == .timedOut)
        #expect(trace.isEmpty)
    }

    private func makeSource(capturing canary: Canary) -> RunLoop.Source {
        let captured = canary.capture()
        return RunLoop.Source { _ in captured.touch() }
    }
}
