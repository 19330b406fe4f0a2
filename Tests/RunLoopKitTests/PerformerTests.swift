// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// An object that writes down what it is asked to do.
private final class Recorder: Performer {
    let trace = Trace()
    private let captured: Canary.Captured?

    init(_ canary: Canary? = nil) { captured = canary?.capture() }
}

extension Selector<Recorder> {
    fileprivate static let note = Selector("note") { recorder, argument in
        recorder.trace.add(argument.map { "\($0)" } ?? "nothing")
    }
    fileprivate static let other = Selector("other") { recorder, argument in
        recorder.trace.add("other \(argument.map { "\($0)" } ?? "nothing")")
    }
    fileprivate static let mode = Selector("mode") { recorder, _ in
        recorder.trace.add(RunLoop.current.currentMode?.rawValue ?? "none")
    }
}

/// Requests by selector: on a thread, after a delay, in order.
@Suite struct PerformerTests {
    private static let modal = RunLoop.Mode("modal")

    @Test("Requests of another thread run in one pass, in order, wake the loop and count as a source: S-PERF-1, S-PERF-2, S-PERF-3, S-PERF-8")
    func onAnotherLoop() {
        let recorder = Recorder()
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            RunLoop.current.keepAlive()
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(RunLoop.current) }
            RunLoop.current.add(ready, forMode: .default)
            return RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
        }
        #expect(recorder.perform(.note, on: waiting.value, with: "one", waitUntilDone: true))
        #expect(thread.join() == .handledSource)
        #expect(recorder.trace.all == ["one"])
        let all = onNewThread { () -> [String] in
            let loop = RunLoop.current
            for number in 1...3 { recorder.perform(.note, on: loop, with: number, waitUntilDone: false) }
            loop.run(mode: .default, for: .zero)
            return recorder.trace.all
        }
        #expect(all == ["one", "1", "2", "3"])
    }

    @Test("Waiting on one's own loop performs inside the call, otherwise it is queued: S-PERF-4, S-PERF-5, S-PERF-14")
    func onOnesOwnLoop() {
        let recorder = Recorder()
        let (before, result) = onNewThread {
            recorder.perform(.note, on: .current, with: "queued", waitUntilDone: false)
            recorder.perform(.note, on: .current, with: "inline", waitUntilDone: true)
            let before = recorder.trace.all
            RunLoop.current.run(mode: .default, for: .zero)
            return (before, RunLoop.current.run(mode: .default, for: .zero))
        }
        #expect(before == ["inline"])
        #expect(recorder.trace.all == ["inline", "queued"])
        #expect(result == .finished)
    }

    @Test("Without modes nothing is performed; the object and the argument are let go: S-PERF-7, S-PERF-9, S-PERF-13")
    func noModes() {
        let canary = Canary()
        onNewThread {
            let recorder = Recorder(canary)
            #expect(!recorder.perform(.note, on: .current, with: nil, waitUntilDone: true, modes: []))
            recorder.perform(.note, on: .current, with: canary.capture(), waitUntilDone: false, modes: [Self.modal])
            RunLoop.current.run(mode: .default, for: .zero)
            #expect(recorder.trace.all.isEmpty)
        }
        // The thread has ended, and with it the request that waited for its mode.
        #expect(canary.deaths == 2)
    }

    @Test("A thread that ends releases who waits for it, with an error: S-PERF-11")
    func endOfTheThread() {
        let recorder = Recorder()
        let ended = onNewThread { RunLoop.current }
        #expect(!recorder.perform(.note, on: ended, with: nil, waitUntilDone: true))
        #expect(recorder.trace.all.isEmpty)
    }

    @Test("In the background there is another thread: S-PERF-15")
    func inBackground() {
        final class Thread: Performer {
            let loop = Promise<RunLoop>()
        }
        let thread = Thread()
        #expect(thread.performSelector(
            inBackground: Selector("tell") { thread, _ in thread.loop.fulfil(RunLoop.current) }, with: nil))
        let other = thread.loop.value
        thread.loop.forget()
        #expect(other != onNewThread { RunLoop.current })
    }

    @Test("After a delay a timer performs it, never inline, in the order made; it is no source: S-PERF-16, S-PERF-17, S-PERF-18, S-PERF-19")
    func afterDelay() {
        let recorder = Recorder()
        let (inline, result, late) = onNewThread {
            let start = ContinuousClock.now
            recorder.perform(.note, with: "later", afterDelay: .milliseconds(10))
            recorder.perform(.note, with: "first", afterDelay: .zero)
            recorder.perform(.note, with: "second", afterDelay: .zero)
            let inline = recorder.trace.count
            let result = RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
            return (inline, result, ContinuousClock.now - start >= .milliseconds(10))
        }
        #expect(inline == 0)
        #expect(recorder.trace.all == ["first", "second", "later"])
        #expect(result == .finished)
        #expect(late)
    }

    @Test("A delayed request waits for its modes: S-PERF-16")
    func delayedInModes() {
        let recorder = Recorder()
        onNewThread {
            recorder.perform(.mode, with: nil, afterDelay: .zero, inModes: [Self.modal])
            recorder.perform(.mode, with: nil, afterDelay: .zero)
            RunLoop.current.run(mode: .default)
            RunLoop.current.run(mode: Self.modal)
        }
        #expect(recorder.trace.all == ["kCFRunLoopDefaultMode", "modal"])
    }

    @Test("Delayed requests are cancelled by object, selector and equal argument, or by object: S-PERF-20, S-PERF-21, S-PERF-22")
    func cancelled() {
        let canary = Canary()
        let (one, two) = (Recorder(), Recorder())
        onNewThread {
            let kept = canary.capture()
            one.perform(.note, with: "equal", afterDelay: .zero)
            one.perform(.note, with: "different", afterDelay: .zero, inModes: [.default, Self.modal])
            one.perform(.other, with: "equal", afterDelay: .zero)
            one.perform(.note, with: kept, afterDelay: .zero)
            two.perform(.note, with: "equal", afterDelay: .zero)
            two.perform(.other, with: nil, afterDelay: .zero)
            Recorder.cancelPreviousPerformRequests(withTarget: one, selector: .note, object: "equ" + "al")
            Recorder.cancelPreviousPerformRequests(withTarget: one, selector: .note, object: kept)
            Recorder.cancelPreviousPerformRequests(withTarget: one, selector: .note, object: nil)
            Recorder.cancelPreviousPerformRequests(withTarget: two)
            RunLoop.current.run(mode: .default)
        }
        #expect(one.trace.all == ["different", "other equal"])
        #expect(two.trace.all.isEmpty)
        #expect(canary.deaths == 1)
    }

    @Test("Cancelling touches no other thread's requests: S-PERF-23")
    func otherThreads() {
        let recorder = Recorder()
        onNewThread {
            recorder.perform(.note, with: "kept", afterDelay: .zero)
            TestThread { Recorder.cancelPreviousPerformRequests(withTarget: recorder) }.join()
            RunLoop.current.run(mode: .default)
        }
        #expect(recorder.trace.all == ["kept"])
    }

    @Test("Ordered requests come at the start of the next pass, by order and then as made: S-PERF-24, S-PERF-25")
    func ordered() {
        let recorder = Recorder()
        let (before, result) = onNewThread {
            let loop = RunLoop.current
            loop.keepAlive()
            for (text, order) in [("c", 2), ("a", -1), ("d", 2), ("b", 0)] {
                loop.perform(Selector.note, target: recorder, argument: text, order: order, modes: [.default])
            }
            loop.perform(Selector.note, target: recorder, argument: "modal", order: -9, modes: [Self.modal])
            let before = recorder.trace.count
            let result = loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true)
            return (before, result)
        }
        #expect(before == 0)
        #expect(recorder.trace.all == ["a", "b", "c", "d"])
        #expect(result == .timedOut)
    }

    @Test("Ordered requests are cancelled in all modes, by object, selector and argument, or by object: S-PERF-26")
    func orderedCancelled() {
        let canary = Canary()
        let recorder = Recorder()
        onNewThread {
            let loop = RunLoop.current
            let other = Recorder(canary)
            for text in ["a", "b"] {
                loop.perform(Selector.note, target: recorder, argument: text, order: 0, modes: [.default, Self.modal])
                loop.perform(Selector.note, target: other, argument: text, order: 0, modes: [.default])
            }
            loop.perform(Selector.other, target: recorder, argument: "a", order: 0, modes: [.default])
            loop.cancelPerform(Selector.note, target: recorder, argument: "a")
            loop.cancelPerform(Selector.note, target: recorder, argument: "unknown")
            loop.cancelPerformSelectors(withTarget: other)
            loop.run(mode: .default, for: .zero)
            #expect(other.trace.all.isEmpty)
        }
        #expect(recorder.trace.all == ["b", "other a"])
        #expect(canary.deaths == 1)
    }

    @Test("The equality of an argument may make and cancel ordered requests itself: S-PERF-26")
    func equalityMakesRequests() {
        let recorder = Recorder()
        onNewThread {
            let loop = RunLoop.current
            loop.perform(Selector.note, target: recorder, argument: Meddler(recorder), order: 0, modes: [.default])
            loop.perform(Selector.other, target: recorder, argument: "a", order: 1, modes: [.default])
            loop.cancelPerform(Selector.note, target: recorder, argument: Meddler(recorder))
            loop.run(mode: .default, for: .zero)
        }
        #expect(recorder.trace.all == ["made"])
    }
}

/// An argument whose comparison uses the calling thread's loop.
private struct Meddler: Hashable, Sendable {
    private let recorder: Recorder

    init(_ recorder: Recorder) { self.recorder = recorder }

    static func == (one: Meddler, other: Meddler) -> Bool {
        RunLoop.current.cancelPerform(Selector.other, target: one.recorder, argument: "a")
        RunLoop.current.perform(Selector.note, target: one.recorder, argument: "made", order: 2, modes: [.default])
        return true
    }

    func hash(into hasher: inout Hasher) {}
}
