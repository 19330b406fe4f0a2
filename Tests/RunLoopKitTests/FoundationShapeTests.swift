// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Runs with Foundation's names: what they return and when they end.
@Suite struct FoundationShapeTests {
    @Test("An empty mode is not run, whatever is empty about it: S-NSRL-2, S-RUN-4")
    func emptyModes() {
        let (missing, observed, common, trace) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            loop.traceActivities(to: trace)
            loop.keepAlive(forMode: .common)
            let other = RunLoop.Mode("observed")
            loop.traceActivities(to: trace, forMode: other)
            return (
                loop.run(mode: .init("missing"), before: .distantFuture),
                loop.run(mode: other, before: .distantFuture),
                loop.run(mode: .common, before: .distantFuture),
                trace.all
            )
        }
        #expect(!missing)
        #expect(!observed)
        #expect(!common)
        #expect(trace.isEmpty)
    }

    @Test("A mode that becomes empty in the run was run all the same: S-NSRL-2, S-NSRL-4")
    func becomesEmpty() {
        let (first, second, fires) = onNewThread {
            let trace = Trace()
            Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: false) { _ in trace.add("fire") }
            let first = RunLoop.current.run(mode: .default, before: .distantFuture)
            return (first, RunLoop.current.run(mode: .default, before: .distantFuture), trace.count)
        }
        #expect(first)
        #expect(!second)
        #expect(fires == 1)
    }

    @Test("A handled source ends the run, timers do not: S-NSRL-2, S-NSRL-4")
    func handledSource() {
        let (ran, trace) = onNewThread {
            let trace = Trace()
            let source = RunLoop.Source { _ in trace.add("source") }
            RunLoop.current.add(source, forMode: .default)
            Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: true) { timer in
                // The pass that handles the source serves a timer that is due by then as well (S-RUN-14).
                if trace.count >= 3 { return }
                trace.add("timer")
                if trace.count == 3 { source.signal(); RunLoop.current.wakeUp() }
            }
            return (RunLoop.current.run(mode: .default, before: .distantFuture), trace.all)
        }
        #expect(ran)
        #expect(trace == ["timer", "timer", "timer", "source"])
    }

    @Test("A past date is one pass that does not wait: S-NSRL-3", arguments: [Duration.zero, .seconds(-100)])
    func pastDate(offset: Duration) {
        let (ran, distant, trace) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            loop.keepAlive()
            loop.traceActivities(to: trace)
            let ran = loop.run(mode: .default, before: .now + offset)
            return (ran, loop.run(mode: .default, before: .distantPast), trace.all)
        }
        #expect(ran)
        #expect(distant)
        #expect(trace == ["E", "BT", "BS", "X", "E", "BT", "BS", "X"])
    }

    @Test("A run lasts until its date: S-NSRL-2, S-NSRL-8")
    func untilItsDate() {
        let (late, later) = onNewThread {
            let loop = RunLoop.current
            loop.keepAlive()
            let first = ContinuousClock.now + .milliseconds(20)
            loop.run(mode: .default, before: first)
            let late = ContinuousClock.now >= first
            let second = ContinuousClock.now + .milliseconds(20)
            loop.acceptInput(forMode: .default, before: second)
            return (late, ContinuousClock.now >= second)
        }
        #expect(late)
        #expect(later)
    }

    @Test("acceptInput returns after a source: S-NSRL-8")
    func acceptInput() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let source = RunLoop.Source { _ in trace.add("source") }
            loop.add(source, forMode: .default)
            source.signal()
            loop.acceptInput(forMode: .default, before: .distantFuture)
            trace.add("returned")
            return trace.all
        }
        #expect(trace == ["source", "returned"])
    }

    @Test("Another thread's loop is not run: S-NSRL-5, S-NSRL-9")
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
        let (ran, limit) = onNewThread {
            let loop = foreign.value
            loop.run(until: .distantFuture)
            loop.acceptInput(forMode: .default, before: .distantFuture)
            return (loop.run(mode: .default, before: .distantFuture), loop.limitDate(forMode: .default))
        }
        tried.fulfil(())
        owner.join()
        #expect(!ran)
        #expect(limit == nil)
        #expect(trace.all.isEmpty)
    }

    @Test("run(until:) goes on after sources and stops, and ends at its date: S-NSRL-6")
    func runUntil() {
        let (trace, late) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            let source = RunLoop.Source { source in
                trace.add("source")
                loop.stop()
                if trace.count < 3 { source.signal() }
            }
            loop.add(source, forMode: .default)
            source.signal()
            let end = ContinuousClock.now + .milliseconds(50)
            loop.run(until: end)
            return (trace.all, ContinuousClock.now >= end)
        }
        #expect(trace == ["source", "source", "source"])
        #expect(late)
    }

    @Test("run(until:) tries once for a past date and returns at once when the mode is empty: S-NSRL-6")
    func runUntilPast() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            loop.traceActivities(to: trace)
            loop.run(until: .distantFuture)
            trace.add("empty")
            loop.keepAlive()
            loop.run(until: .distantPast)
            return trace.all
        }
        #expect(trace == ["empty", "E", "BT", "BS", "X"])
    }

    @Test("limitDate polls, then gives the next date, the distant future or nil: S-NSRL-9")
    func limitDate() {
        let first = ContinuousClock.now + .seconds(1000)
        let (limits, trace) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            var limits = [loop.limitDate(forMode: .default)]
            loop.add(Timer(fire: .distantPast, interval: .zero, repeats: false) { _ in trace.add("due") }, forMode: .default)
            limits.append(loop.limitDate(forMode: .default))
            let one = RunLoop.Source { _ in trace.add("one") }
            let two = RunLoop.Source { _ in trace.add("two") }
            for source in [one, two] {
                loop.add(source, forMode: .default)
                source.signal()
            }
            limits.append(loop.limitDate(forMode: .default))
            loop.add(Timer(fire: first + .seconds(1), interval: .zero, repeats: false) { _ in }, forMode: .default)
            loop.add(Timer(fire: first, interval: .zero, repeats: false) { _ in }, forMode: .default)
            limits.append(loop.limitDate(forMode: .default))
            return (limits, trace.all)
        }
        #expect(limits[0] == nil)
        #expect(limits[1] == nil)
        #expect(limits[2] == .distantFuture)
        #expect(limits[3]! >= first && limits[3]! < first + .seconds(1))
        #expect(trace == ["due", "one", "two"])
    }

    @Test("A run ends only when everybody's items are gone, not one's own: S-NSRL-14")
    func othersItems() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let mine = loop.keepAlive()
            let others = RunLoop.Source { source in trace.add("others"); source.invalidate() }
            loop.add(others, forMode: .default)
            Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: false) { _ in
                trace.add("mine removed")
                mine.invalidate()
                others.signal()
            }
            loop.run()
            trace.add("over")
            return trace.all
        }
        #expect(trace == ["mine removed", "others", "over"])
    }

    @Test("An added timer is there once, and one removal takes it out: S-NSRL-11")
    func addedTwice() {
        let (contained, fires) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            let timer = Timer(timeInterval: .milliseconds(1), repeats: false) { _ in trace.add("fire") }
            loop.add(timer, forMode: .default)
            loop.add(timer, forMode: .default)
            loop.remove(timer, forMode: .default)
            let contained = loop.contains(timer, forMode: .default)
            loop.add(timer, forMode: .default)
            loop.add(timer, forMode: .default)
            loop.run(until: .distantFuture)
            return (contained, trace.count)
        }
        #expect(!contained)
        #expect(fires == 1)
    }
}
