// SPDX-License-Identifier: MIT
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif
import RunLoopKit
import Testing

/// The centre for programs without Foundation.
@Suite struct NotificationCenterTests {
    @Test("Observers choose by name, by sender, or both, and are called in order: S-NQ-16")
    func choice() {
        let center = NotificationCenter()
        let trace = Trace()
        let sender = Posting()
        _ = center.addObserver(forName: .first, object: nil, queue: nil) { _ in trace.add("name") }
        _ = center.addObserver(forName: nil, object: sender, queue: nil) { _ in trace.add("sender") }
        let both = center.addObserver(forName: .first, object: sender, queue: nil) { note in
            trace.add("both \(note.userInfo?["key"] as? Int ?? 0)")
        }
        center.post(name: .second, object: nil)
        center.post(name: .second, object: sender)
        center.post(name: .first, object: Posting())
        center.post(name: .first, object: sender, userInfo: ["key": 7])
        center.removeObserver(both)
        center.removeObserver("no observer")
        center.post(name: .first, object: sender)
        #expect(trace.all == ["sender", "name", "name", "sender", "both 7", "name", "sender"])
    }

    @Test("An observer that is removed by an earlier one is not called: S-NQ-16")
    func removedMeanwhile() {
        let center = NotificationCenter()
        let trace = Trace()
        let second = Promise<NotificationCenter.Observation>()
        let first = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
            center.removeObserver(second.value)
            _ = center.addObserver(forName: .first, object: nil, queue: nil) { _ in trace.add("new") }
            trace.add("first")
        }
        second.fulfil(center.addObserver(forName: .first, object: nil, queue: nil) { _ in trace.add("second") })
        center.post(name: .first, object: nil)
        #expect(trace.all == ["first"])
        // Its closure has the centre, which has it.
        center.removeObserver(first)
    }

    @Test("A notification that a loop was told of too late is released with the loop: S-NQ-16, S-THREAD-6")
    func observerOfALoopThatEnds() {
        let canary = Canary()
        onNewThread {
            let captured = canary.capture()
            let observer = NotificationCenter.default.addObserver(forName: .first, object: nil, queue: .current) { _ in captured.touch() }
            // From another thread, for which the loop is told.
            onNewThread { NotificationCenter.default.post(name: .first, object: nil) }
            NotificationCenter.default.removeObserver(observer)
        }
        #expect(canary.deaths == 1)
    }

    @Test("On the thread of its loop an observer is called within the posting, in its turn and in any mode: S-NQ-17")
    func onTheOwnLoop() {
        final class Box { var isRead = false }
        let trace = onNewThread { () -> [String] in
            let center = NotificationCenter()
            let trace = Trace()
            let loop = RunLoop.current
            _ = center.addObserver(forName: .first, object: nil, queue: loop) { note in
                (note.object as! Box).isRead = true
                trace.add("in \(RunLoop.current.currentMode?.rawValue ?? "none")")
            }
            _ = center.addObserver(forName: .first, object: nil, queue: nil) { _ in trace.add("next") }
            let post = Timer(timeInterval: .zero, repeats: false) { _ in
                let box = Box()
                center.post(name: .first, object: box)
                trace.add("posted, \(box.isRead)")
            }
            loop.add(post, forMode: RunLoop.Mode("private"))
            loop.run(mode: RunLoop.Mode("private"), before: .now + .seconds(60))
            return trace.all
        }
        #expect(trace == ["in private", "next", "posted, true"])
    }

    @Test("A sender that is a value goes when its observer is removed, on any thread: S-NQ-10")
    func valueOfARemovedObserver() {
        struct Sender: Hashable {
            let captured: Canary.Captured
            static func == (one: Sender, other: Sender) -> Bool { one.captured === other.captured }
            func hash(into hasher: inout Hasher) { hasher.combine(0) }
        }
        let center = NotificationCenter()
        let canary = Canary()
        let observer = center.addObserver(forName: .first, object: Sender(captured: canary.capture()), queue: nil) { _ in }
        #expect(canary.deaths == 0)
        onNewThread { center.removeObserver(observer) }
        #expect(canary.deaths == 1)
        center.post(name: .first, object: nil)
        withExtendedLifetime(observer) {}
    }

    @Test("What an observer was given goes when it is removed, though its token is kept and a loop is still to call it: S-NQ-18")
    func closureOfARemovedObserver() {
        let center = NotificationCenter()
        let canary = Canary()
        @Sendable func add(_ queue: RunLoop?) -> NotificationCenter.Observation {
            center.addObserver(forName: .first, object: nil, queue: queue) { [captured = canary.capture()] _ in captured.touch() }
        }
        let observer = add(nil)
        center.removeObserver(observer)
        #expect(canary.deaths == 1)
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let observer = add(.current)
            let called = center.addObserver(forName: .first, object: nil, queue: .current) { _ in trace.add("called") }
            onNewThread { center.post(name: .first, object: nil) }
            center.removeObserver(observer)
            trace.add("\(canary.deaths)")
            RunLoop.current.run(mode: .default, for: .zero)
            center.removeObserver(called)
            withExtendedLifetime(observer) {}
            return trace.all
        }
        #expect(trace == ["2", "called"])
        withExtendedLifetime(observer) {}
    }

    @Test("A token does not keep the loop of its observer, once that is removed: S-NQ-18")
    func loopOfARemovedObserver() {
        let center = NotificationCenter()
        let (observer, loop) = onNewThread {
            let loop = RunLoop.current
            return (center.addObserver(forName: .first, object: nil, queue: loop) { _ in }, WeakLoop(loop))
        }
        #expect(loop.object != nil)
        center.removeObserver(observer)
        #expect(loop.object == nil)
        withExtendedLifetime(observer) {}
    }

    @Test("A centre does nothing with the token of another: S-NQ-18")
    func tokenOfAnotherCentre() {
        let trace = Trace()
        let (one, other) = (tracedCenter(trace), NotificationCenter())
        let observer = other.addObserver(forName: nil, object: nil, queue: nil) { _ in trace.add("other") }
        one.removeObserver(observer)
        one.post(name: .first, object: nil)
        other.post(name: .first, object: nil)
        #expect(trace.all == ["first", "other"])
        other.removeObserver(observer)
    }

    @Test("A sender that is not Sendable is not compared with values of other types, on any thread: S-NQ-10")
    func valueOfAnotherType() {
        final class NotSendable {}
        struct Sender: Hashable {
            let kept = NotSendable()
            let number: Int
            static func == (one: Sender, other: Sender) -> Bool { one.number == other.number }
            func hash(into hasher: inout Hasher) { hasher.combine(number) }
        }
        let center = NotificationCenter()
        let trace = Trace()
        let observer = center.addObserver(forName: .first, object: Sender(number: 7), queue: nil) { _ in trace.add("called") }
        // It has the hash of the sender.
        onNewThread { center.post(name: .first, object: 7) }
        center.post(name: .first, object: 7)
        #expect(trace.all.isEmpty)
        center.post(name: .first, object: Sender(number: 7))
        #expect(trace.all == ["called"])
        center.removeObserver(observer)
    }

    @Test("An observer with a loop is called by that loop: S-NQ-16")
    func onALoop() {
        let center = NotificationCenter()
        let trace = Trace()
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let loop = RunLoop.current
            loop.keepAlive()
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(RunLoop.current) }
            loop.add(ready, forMode: .default)
            return loop.run(mode: .default)
        }
        let loop = waiting.value
        _ = center.addObserver(forName: .first, object: nil, queue: loop) { _ in
            trace.add(RunLoop.current === loop ? "its own" : "another")
            loop.stop()
        }
        center.post(name: .first, object: nil)
        #expect(thread.join() == .stopped)
        #expect(trace.all == ["its own"])
    }
}
