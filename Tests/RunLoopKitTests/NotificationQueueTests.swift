// SPDX-License-Identifier: MIT
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif
import RunLoopKit
import Testing

private extension Notification.Name {
    static let first = Notification.Name("first")
    static let second = Notification.Name("second")
    static let third = Notification.Name("third")
}

private final class Sender: Sendable {}

private final class WeakLoop: Sendable {
    weak let object: RunLoop?
    init(_ object: RunLoop) { self.object = object }
}

/// A centre of the test's own, whose notifications are written down by name.
private func tracedCenter(_ trace: Trace) -> NotificationCenter {
    let center = NotificationCenter()
    _ = center.addObserver(forName: nil, object: nil, queue: nil) { trace.add($0.name.rawValue) }
    return center
}

/// Runs a scenario on a thread of its own, with a queue whose posts are traced.
private func withQueue(_ body: @escaping @Sendable (NotificationQueue, Trace) -> Void) -> [String] {
    onNewThread {
        let trace = Trace()
        body(NotificationQueue(notificationCenter: tracedCenter(trace)), trace)
        return trace.all
    }
}

/// Posting later, by the loop.
@Suite struct NotificationQueueTests {
    @Test("Each thread has a default queue, the same each time, on the default centre; more can be made: S-NQ-1, S-NSRL-15")
    func defaultQueue() {
        let ids = onNewThread { () -> (Bool, Bool) in
            let queue = NotificationQueue.default
            return (queue === NotificationQueue.default, queue != NotificationQueue(notificationCenter: .default))
        }
        #expect(ids == (true, true))
        let name = Notification.Name("of the default centre")
        let trace = Trace()
        let observation = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
            trace.add("posted")
        }
        onNewThread { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .now) }
        NotificationCenter.default.removeObserver(observation)
        #expect(trace.all == ["posted"])
    }

    @Test("Posting is in the order of enqueueing within a style: S-NQ-2", arguments: [
        NotificationQueue.PostingStyle.asap, .whenIdle,
    ])
    func order(style: NotificationQueue.PostingStyle) {
        let trace = withQueue { queue, _ in
            for name in [Notification.Name.first, .second, .third] {
                queue.enqueue(Notification(name: name), postingStyle: style)
            }
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .milliseconds(1))
        }
        #expect(trace == ["first", "second", "third"])
    }

    @Test("now posts inside the call if the loop is not running or runs a mode that was given, literally: S-NQ-3")
    func now() {
        let trace = withQueue { queue, trace in
            let enqueue = { (name: Notification.Name, modes: [RunLoop.Mode]?) in
                queue.enqueue(
                    Notification(name: name), postingStyle: .now, coalesceMask: .none, forModes: modes)
                trace.add("after")
            }
            enqueue(.first, [.init("other")])
            nonisolated(unsafe) let inside = enqueue
            RunLoop.current.perform {
                inside(.second, [.init("other")])
                inside(.second, [.common])
                inside(.third, nil)
            }
            RunLoop.current.run(mode: .default, for: .zero)
        }
        #expect(trace == ["first", "after", "after", "after", "third", "after"])
    }

    @Test("now takes back waiting ones that match: S-NQ-3, S-NQ-9")
    func nowCoalesces() {
        let trace = withQueue { queue, trace in
            queue.enqueue(Notification(name: .first), postingStyle: .asap)
            queue.enqueue(Notification(name: .first), postingStyle: .now)
            trace.add("after")
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .milliseconds(1))
        }
        #expect(trace == ["first", "after"])
    }

    @Test("asap comes after the callback in progress and before the loop waits: S-NQ-4")
    func asap() {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let queue = queue
            let waits = RunLoop.Observer(activities: .afterWaiting) { _, _ in
                trace.add("waited")
                RunLoop.current.stop()
            }
            RunLoop.current.add(waits, forMode: .default)
            let source = RunLoop.Source { _ in
                queue.enqueue(Notification(name: .first), postingStyle: .asap)
                trace.add("callback over")
            }
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            // Ends the wait, whenever it comes.
            Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: true) { _ in }
            RunLoop.current.run(mode: .default, for: .seconds(60))
        }
        #expect(trace == ["callback over", "first", "waited"])
    }

    @Test("An observer of a notification that waits in a run for others gets them, nested twice: S-NQ-4, S-NQ-5",
        arguments: [NotificationQueue.PostingStyle.asap, .whenIdle])
    func waitsInAnObserver(style: NotificationQueue.PostingStyle) {
        let trace = onNewThread { () -> [String] in
            let (trace, center) = (Trace(), NotificationCenter())
            nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
            _ = center.addObserver(forName: nil, object: nil, queue: nil) { notification in
                trace.add(notification.name.rawValue)
                if notification.name == .third { return }
                let count = trace.count
                queue.enqueue(Notification(name: notification.name == .first ? .second : .third), postingStyle: style)
                for _ in 0..<10 where trace.count == count { RunLoop.current.run(mode: .default, for: .milliseconds(100)) }
                // Posted after this, by the run around it, it would be in the trace too.
                trace.add("end of \(notification.name.rawValue)")
            }
            RunLoop.current.keepAlive(forMode: .default)
            queue.enqueue(Notification(name: .first), postingStyle: style)
            RunLoop.current.run(mode: .default, for: .milliseconds(10))
            trace.add("over")
            return trace.all
        }
        #expect(trace == ["first", "second", "third", "end of second", "end of first", "over"])
    }

    @Test("What an observer enqueues asap after its nested run, when the queue has had its turn in the pass, is posted before the loop waits: S-NQ-4")
    func afterANestedRun() {
        let result = onNewThread { () -> RunLoop.RunResult in
            let center = NotificationCenter()
            nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
            _ = center.addObserver(forName: .second, object: nil, queue: nil) { _ in RunLoop.current.stop() }
            RunLoop.current.keepAlive(forMode: .default)
            // The queue's observer comes first.
            queue.enqueue(Notification(name: .first), postingStyle: .asap)
            let late = RunLoop.Observer(activities: .beforeWaiting, repeats: false, order: .max) { _, _ in
                RunLoop.current.run(mode: .default, for: .zero)
                queue.enqueue(Notification(name: .second), postingStyle: .asap)
            }
            RunLoop.current.add(late, forMode: .default)
            return RunLoop.current.run(mode: .default, for: .seconds(20))
        }
        #expect(result == .stopped)
    }

    @Test("What the last callback of a run enqueues asap is posted when the run ends: S-NQ-4, S-NQ-6")
    func asapAtExit() {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let queue = queue
            let source = RunLoop.Source { _ in
                queue.enqueue(Notification(name: .second), postingStyle: .whenIdle)
                queue.enqueue(Notification(name: .first), postingStyle: .asap)
            }
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
            trace.add("returned")
        }
        #expect(trace == ["first", "returned"])
    }

    @Test("whenIdle comes when the loop is about to wait, after everything asap: S-NQ-5, S-NQ-6")
    func whenIdle() {
        let trace = withQueue { queue, trace in
            let enqueue = {
                queue.enqueue(Notification(name: .second), postingStyle: .whenIdle)
                queue.enqueue(Notification(name: .first), postingStyle: .asap)
            }
            enqueue()
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .zero)
            trace.add("polled")
            let waits = RunLoop.Observer(activities: .afterWaiting) { _, _ in trace.add("waited") }
            RunLoop.current.add(waits, forMode: .default)
            RunLoop.current.run(mode: .default, for: .milliseconds(1))
        }
        #expect(trace == ["first", "polled", "second", "waited"])
    }

    @Test("What a host's callback enqueues for an idle loop, while a foreign run waits, is posted before the host waits again: S-NQ-5, S-NQ-15")
    func idleWhileAForeignRunWaits() {
        let trace = onNewThread { () -> [String] in
            let (trace, center) = (Trace(), NotificationCenter())
            nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
            let enqueue: @Sendable (Notification.Name) -> Void = { queue.enqueue(Notification(name: $0), postingStyle: .whenIdle) }
            _ = center.addObserver(forName: nil, object: nil, queue: nil) { notification in
                trace.add(notification.name.rawValue)
                // An idle loop is not woken for what it enqueues itself.
                if notification.name == .first { enqueue(.second) }
            }
            RunLoop.current.keepAlive()
            let run = try! RunLoop.ForeignRun()
            #expect(run.prepare() == nil)
            // The queue's observers, too, come only now.
            for _ in 0..<2 {
                enqueue(.first)
                #expect(run.prepare() == .zero)
                #expect(run.dispatch() == nil)
                trace.add("served")
                #expect(run.prepare() == nil)
                trace.add("prepared")
            }
            run.invalidate()
            return trace.all
        }
        #expect(trace == ["served", "first", "prepared", "served", "second", "first", "prepared"])
    }

    @Test("Without modes the default mode is meant; a notification waits for its mode: S-NQ-7")
    func modes() {
        let other = RunLoop.Mode("other")
        let trace = withQueue { queue, trace in
            let loop = RunLoop.current
            loop.keepAlive()
            loop.keepAlive(forMode: other)
            queue.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: .none, forModes: nil)
            queue.enqueue(Notification(name: .second), postingStyle: .asap, coalesceMask: .none, forModes: [other])
            queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: .none, forModes: [.common])
            loop.run(mode: other, for: .zero)
            trace.add("other ran")
            loop.run(mode: .default, for: .zero)
            trace.add("default ran")
            loop.addCommonMode(other)
            queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: .none, forModes: [.common])
            loop.run(mode: other, for: .zero)
        }
        #expect(trace == ["second", "other ran", "first", "third", "default ran", "third"])
    }

    @Test("The short enqueue replaces what has the same name and sender: S-NQ-8, S-NQ-9, S-NQ-10")
    func shortEnqueue() {
        let trace = withQueue { queue, _ in
            let (one, two) = (Sender(), Sender())
            queue.enqueue(Notification(name: .first, object: one), postingStyle: .asap)
            queue.enqueue(Notification(name: .second, object: one), postingStyle: .asap)
            queue.enqueue(Notification(name: .first, object: two), postingStyle: .asap)
            queue.enqueue(Notification(name: .first, object: one), postingStyle: .asap)
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .zero)
        }
        // The newest stays, at the end.
        #expect(trace == ["second", "first", "first"])
    }

    @Test("A mask names what has to match, and with none nothing is replaced: S-NQ-9, S-NQ-11")
    func masks() {
        let trace = withQueue { queue, trace in
            let loop = RunLoop.current
            loop.keepAlive()
            let (one, two) = (Sender(), Sender())
            func enqueue(_ name: Notification.Name, _ sender: Sender, _ mask: NotificationQueue.NotificationCoalescing) {
                queue.enqueue(
                    Notification(name: name, object: sender), postingStyle: .asap, coalesceMask: mask, forModes: nil)
            }
            enqueue(.first, one, .none)
            enqueue(.second, one, .none)
            enqueue(.first, two, .onName)
            loop.run(mode: .default, for: .zero)
            trace.add("by name")
            enqueue(.first, one, .none)
            enqueue(.second, one, .none)
            enqueue(.third, two, .none)
            enqueue(.third, one, .onSender)
            loop.run(mode: .default, for: .zero)
            trace.add("by sender")
            enqueue(.first, one, .none)
            enqueue(.first, one, .none)
            loop.run(mode: .default, for: .zero)
        }
        #expect(trace == ["second", "first", "by name", "third", "third", "by sender", "first", "first"])
    }

    @Test("Senders that are values match when they are equal: S-NQ-10")
    func valueSenders() {
        let trace = withQueue { queue, _ in
            for sender in [1, 2, 1] {
                queue.enqueue(Notification(name: .first, object: sender), postingStyle: .asap)
            }
            queue.enqueue(Notification(name: .first, object: Sender()), postingStyle: .asap)
            queue.enqueue(Notification(name: .first, object: nil), postingStyle: .asap)
            queue.enqueue(Notification(name: .first, object: nil), postingStyle: .asap)
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .zero)
        }
        #expect(trace.count == 4)
    }

    @Test("Taking back removes matching ones of all styles, and with no mask none: S-NQ-12")
    func dequeue() {
        let trace = withQueue { queue, _ in
            queue.enqueue(Notification(name: .first), postingStyle: .asap)
            queue.enqueue(Notification(name: .second), postingStyle: .asap)
            queue.enqueue(Notification(name: .third), postingStyle: .whenIdle)
            queue.dequeueNotifications(matching: Notification(name: .second), coalesceMask: .none)
            queue.dequeueNotifications(matching: Notification(name: .first), coalesceMask: .onName)
            queue.dequeueNotifications(matching: Notification(name: .third), coalesceMask: .onName)
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .milliseconds(1))
        }
        #expect(trace == ["second"])
    }

    @Test("What is enqueued while posting is posted in a later round, before the loop waits if it is asap: S-NQ-13, S-NQ-4, S-NQ-5")
    func enqueuedWhilePosting() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let center = NotificationCenter()
            nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
            let loop = RunLoop.current
            _ = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
                queue.enqueue(Notification(name: .third), postingStyle: .asap)
                trace.add("first")
            }
            _ = center.addObserver(forName: .second, object: nil, queue: nil) { _ in trace.add("second") }
            _ = center.addObserver(forName: .third, object: nil, queue: nil) { _ in trace.add("third") }
            // It is enqueued at the last moment, so that its round is the one before the wait.
            let late = RunLoop.Observer(activities: .beforeWaiting, repeats: false) { _, _ in
                queue.enqueue(Notification(name: .second), postingStyle: .whenIdle)
                queue.enqueue(Notification(name: .first), postingStyle: .asap)
            }
            loop.add(late, forMode: .default)
            loop.keepAlive()
            Timer.scheduledTimer(withTimeInterval: .milliseconds(20), repeats: false) { _ in trace.add("timer") }
            loop.run(mode: .default, for: .milliseconds(40))
            return trace.all
        }
        #expect(trace == ["first", "third", "second", "timer"])
    }

    @Test("What the last observer before a wait enqueues asap is posted before the wait all the same: S-NQ-4")
    func enqueuedAtTheLastMoment() {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let queue = queue
            let loop = RunLoop.current
            queue.enqueue(Notification(name: .first), postingStyle: .asap)
            // Of two observers of one order the one added last is called last.
            let last = RunLoop.Observer(activities: .beforeWaiting, repeats: false, order: .max) { _, _ in
                queue.enqueue(Notification(name: .second), postingStyle: .asap)
                trace.add("enqueued")
            }
            loop.add(last, forMode: .default)
            loop.keepAlive()
            Timer.scheduledTimer(withTimeInterval: .milliseconds(20), repeats: false) { _ in
                trace.add("timer")
                loop.stop()
            }
            loop.run(mode: .default)
        }
        #expect(trace == ["first", "enqueued", "second", "timer"])
    }

    @Test("Notifications are posted on the thread that enqueued them: S-NQ-14")
    func ownThread() {
        let name = Notification.Name("of two threads")
        let trace = Trace()
        let observation = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { notification in
            trace.add(RunLoop.current === notification.object as AnyObject? ? "own" : "other")
        }
        for _ in 0..<2 {
            onNewThread {
                NotificationQueue.default.enqueue(
                    Notification(name: name, object: RunLoop.current), postingStyle: .asap)
                RunLoop.current.keepAlive()
                RunLoop.current.run(mode: .default, for: .zero)
            }
        }
        NotificationCenter.default.removeObserver(observation)
        #expect(trace.all == ["own", "own"])
    }

    @Test("Waiting notifications do not keep a run going: S-NQ-15")
    func doNotKeepARunGoing() {
        let trace = withQueue { queue, trace in
            queue.enqueue(Notification(name: .first), postingStyle: .asap)
            trace.add("\(RunLoop.current.run(mode: .default))")
        }
        #expect(trace == ["finished"])
    }

    @Test("A queue that is let go posts nothing any more and leaves the loop: S-NQ-15")
    func releasedQueue() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let canary = Canary()
            func enqueue() {
                let captured = canary.capture()
                let queue = NotificationQueue(notificationCenter: tracedCenter(trace))
                queue.enqueue(Notification(name: .first, object: captured), postingStyle: .asap)
            }
            enqueue()
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .milliseconds(1))
            trace.add("\(canary.deaths)")
            return trace.all
        }
        #expect(trace == ["1"])
    }
}

/// The centre for programs without Foundation.
@Suite struct NotificationCenterTests {
    @Test("Observers choose by name, by sender, or both, and are called in order: S-NQ-16")
    func choice() {
        let center = NotificationCenter()
        let trace = Trace()
        let sender = Sender()
        _ = center.addObserver(forName: .first, object: nil, queue: nil) { _ in trace.add("name") }
        _ = center.addObserver(forName: nil, object: sender, queue: nil) { _ in trace.add("sender") }
        let both = center.addObserver(forName: .first, object: sender, queue: nil) { note in
            trace.add("both \(note.userInfo?["key"] as? Int ?? 0)")
        }
        center.post(name: .second, object: nil)
        center.post(name: .second, object: sender)
        center.post(name: .first, object: Sender())
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

    @Test("What waits is posted before a host waits in a callback of the loop, and what that enqueues before its next wait: S-NQ-5, S-NQ-13")
    func hostInCallback() {
        let trace = withQueue { _, trace in
            let center = tracedCenter(trace)
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            let observation = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
                own.enqueue(Notification(name: .second), postingStyle: .whenIdle)
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.perform {
                guard let run = try? RunLoop.ForeignRun() else { return trace.add("no run") }
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle)
                for wait in 1...3 {
                    // Whether its wait ends by something of the loop's is the same.
                    run.prepare()
                    trace.add("wait \(wait)")
                    if wait > 1 { run.dispatch() }
                }
                run.invalidate()
            }
            RunLoop.current.run(mode: .default, for: .zero)
            source.invalidate()
            center.removeObserver(observation)
        }
        #expect(trace == ["first", "wait 1", "second", "wait 2", "wait 3"])
    }

    @Test("A foreign run is not idle between two passes of a busy loop: S-NQ-5, S-NQ-6")
    func busyForeignRun() {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            nonisolated(unsafe) var left = 4
            let source = RunLoop.Source { source in
                trace.add("\(left)")
                if left == 3 { own.enqueue(Notification(name: .first), postingStyle: .whenIdle) }
                left -= 1
                if left > 0 { source.signal() }
            }
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            guard let run = try? RunLoop.ForeignRun() else { return trace.add("no run") }
            for _ in 0..<8 {
                run.prepare()
                run.dispatch()
            }
            source.invalidate()
            run.invalidate()
        }
        #expect(trace == ["4", "3", "2", "1", "first"])
    }

    @Test("A host that waits outside of callbacks has nothing posted for a mode in which no run begins: S-NQ-7, S-FRN-6")
    func hostOfEmptyMode() {
        let trace = withQueue { queue, trace in
            let mode = RunLoop.Mode("empty")
            guard let run = try? RunLoop.ForeignRun(mode: mode) else { return trace.add("no run") }
            queue.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: [], forModes: [mode])
            queue.enqueue(Notification(name: .second), postingStyle: .whenIdle, coalesceMask: [], forModes: [mode])
            run.prepare()
            run.dispatch()
            trace.add("a source")
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: mode)
            run.dispatch()
            run.prepare()
            source.invalidate()
            run.invalidate()
        }
        #expect(trace == ["a source", "first", "second"])
    }

    @Test("What a run inside of a host's wait leaves is posted by another pass of the host's run, whether or not the queue was used in its mode before: S-NQ-4, S-NQ-5, S-NQ-15", arguments: [
        NotificationQueue.PostingStyle.asap, .whenIdle,
    ], [false, true])
    func leftInHostsWait(style: NotificationQueue.PostingStyle, isKnown: Bool) {
        let trace = withQueue { queue, trace in
            let other = RunLoop.Mode("other")
            nonisolated(unsafe) let own = queue
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            guard let run = try? RunLoop.ForeignRun() else { return trace.add("no run") }
            queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: isKnown ? [.default, other] : [.default])
            run.prepare()
            run.dispatch()
            run.prepare()
            RunLoop.current.perform(inModes: [other]) { own.enqueue(Notification(name: .first), postingStyle: style) }
            RunLoop.current.run(mode: other, for: .zero)
            trace.add("nested run over")
            run.dispatch()
            run.prepare()
            run.dispatch()
            trace.add("the host goes on")
            source.invalidate()
            run.invalidate()
        }
        #expect(trace == ["third", "nested run over", "first", "the host goes on"])
    }

    @Test("What waits for another mode than that of a host's first wait in a callback is posted before its wait in that mode: S-NQ-5, S-NQ-7")
    func hostInTwoModes() {
        let trace = withQueue { queue, trace in
            let other = RunLoop.Mode("other")
            nonisolated(unsafe) let own = queue
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.add(source, forMode: other)
            RunLoop.current.perform {
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle, coalesceMask: [], forModes: [other])
                for mode in [.default, other] {
                    guard let run = try? RunLoop.ForeignRun(mode: mode) else { return trace.add("no run") }
                    run.prepare()
                    trace.add("wait in \(mode == other ? "the other" : "the default mode")")
                    run.invalidate()
                }
            }
            RunLoop.current.run(mode: .default, for: .zero)
            source.invalidate()
        }
        #expect(trace == ["wait in the default mode", "first", "wait in the other"])
    }

    @Test("Idle work that enqueues more of itself goes on with each run of a host in a callback, by one piece: S-NQ-5, S-NQ-13")
    func idleWorkInHostsRuns() {
        let trace = withQueue { _, trace in
            let center = NotificationCenter()
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            nonisolated(unsafe) var count = 0
            let observation = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
                count += 1
                trace.add("work \(count)")
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle)
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.perform {
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle)
                for number in 1...2 {
                    guard let run = try? RunLoop.ForeignRun() else { return trace.add("no run") }
                    run.prepare()
                    trace.add("run \(number)")
                    run.invalidate()
                }
            }
            RunLoop.current.run(mode: .default, for: .zero)
            source.invalidate()
            center.removeObserver(observation)
        }
        #expect(trace == ["work 1", "run 1", "work 2", "run 2"])
    }

    @Test("Idle work that enqueues more of itself does not keep a host in a callback from waiting: S-NQ-5, S-NQ-13, S-NQ-15")
    func idleWorkDoesNotWake() {
        nonisolated(unsafe) var turns = 0
        _ = withQueue { _, trace in
            let center = NotificationCenter()
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            let observation = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle)
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.perform {
                guard let run = try? RunLoop.ForeignRun() else { return }
                own.enqueue(Notification(name: .first), postingStyle: .whenIdle)
                run.prepare()
                source.signal()
                RunLoop.current.wakeUp()
                while turns < 1000 {
                    run.prepare()
                    var place = pollfd(fd: run.descriptor, events: Int16(POLLIN), revents: 0)
                    if poll(&place, 1, 0) == 0 { break }
                    turns += 1
                    run.dispatch()
                }
                run.invalidate()
            }
            RunLoop.current.run(mode: .default, for: .zero)
            source.invalidate()
            center.removeObserver(observation)
        }
        #expect(turns > 0 && turns < 1000)
    }

    @Test("What a run that another queue's idle work makes leaves is posted before the loop waits: S-NQ-4, S-NQ-15")
    func leftBehindTheTurn() {
        nonisolated(unsafe) var result: RunLoop.RunResult?
        _ = withQueue { _, trace in
            let modal = RunLoop.Mode("modal")
            let (one, other) = (NotificationCenter(), NotificationCenter())
            nonisolated(unsafe) let first = NotificationQueue(notificationCenter: one)
            nonisolated(unsafe) let second = NotificationQueue(notificationCenter: other)
            let observations = [
                one.addObserver(forName: .first, object: nil, queue: nil) { _ in RunLoop.current.stop() },
                other.addObserver(forName: .second, object: nil, queue: nil) { _ in
                    RunLoop.current.perform(inModes: [modal]) { first.enqueue(Notification(name: .first), postingStyle: .asap) }
                    RunLoop.current.run(mode: modal, for: .zero)
                },
            ]
            // In this order: the first one's turn in a pass comes before the second one's.
            for queue in [first, second] {
                queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: [.default, modal])
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.add(source, forMode: modal)
            second.enqueue(Notification(name: .second), postingStyle: .whenIdle)
            result = RunLoop.current.run(mode: .default, for: .seconds(10))
            source.invalidate()
            one.removeObserver(observations[0])
            other.removeObserver(observations[1])
        }
        #expect(result == .stopped)
    }

    @Test("What an observer enqueues at the beginning of a run is no reason for one pass more: S-NQ-4, S-NQ-15", arguments: [
        RunLoop.Activities.entry, .beforeTimers, .afterWaiting, .exit,
    ])
    func enqueuedAtTheBeginning(activity: RunLoop.Activities) {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            // The observers of the queue are in the mode, and a run has ended since.
            queue.enqueue(Notification(name: .third), postingStyle: .asap)
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.run(mode: .default, for: .zero)
            nonisolated(unsafe) var waits = 0
            let enqueuing = RunLoop.Observer(activities: activity) { _, _ in
                if waits < 100 { own.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: .onName, forModes: nil) }
            }
            let waiting = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waits += 1 }
            for observer in [enqueuing, waiting] { RunLoop.current.add(observer, forMode: .default) }
            RunLoop.current.perform {}
            RunLoop.current.run(mode: .default, for: .milliseconds(20))
            for observer in [enqueuing, waiting] { observer.invalidate() }
            source.invalidate()
            trace.add(waits < 10 ? "few waits" : "\(waits)")
        }
        #expect(trace.first == "third" && trace.contains("first") && trace.last == "few waits")
    }

    @Test("What waits for a mode that does not run makes no pass, whenever it is enqueued: S-NQ-7, S-NQ-15", arguments: [
        RunLoop.Activities.beforeTimers, .beforeWaiting,
    ])
    func enqueuedForAnotherMode(activity: RunLoop.Activities) {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            nonisolated(unsafe) var passes = 0
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            // After the queue's own.
            queue.enqueue(Notification(name: .third), postingStyle: .asap)
            let enqueuing = RunLoop.Observer(activities: activity, order: .max) { _, _ in
                passes += 1
                if passes < 100 { own.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: .onName, forModes: [RunLoop.Mode("other")]) }
            }
            RunLoop.current.add(enqueuing, forMode: .default)
            RunLoop.current.run(mode: .default, for: .milliseconds(20))
            enqueuing.invalidate()
            source.invalidate()
            trace.add(passes < 10 ? "few passes" : "\(passes)")
        }
        #expect(trace == ["third", "few passes"])
    }

    @Test("What a queue is first used for in a nested run is posted before the loop waits: S-NQ-4, S-NQ-15")
    func firstUseInANestedRun() {
        nonisolated(unsafe) var result: RunLoop.RunResult?
        _ = withQueue { _, trace in
            let modal = RunLoop.Mode("modal")
            let center = NotificationCenter()
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            let observation = center.addObserver(forName: .first, object: nil, queue: nil) { _ in RunLoop.current.stop() }
            let source = RunLoop.Source { _ in }
            for mode in [.default, modal] { RunLoop.current.add(source, forMode: mode) }
            nonisolated(unsafe) var isFirst = true
            let idle = RunLoop.Observer(activities: .beforeWaiting, order: .max) { _, _ in
                if !isFirst { return }
                isFirst = false
                RunLoop.current.perform(inModes: [modal]) { own.enqueue(Notification(name: .first), postingStyle: .asap) }
                RunLoop.current.run(mode: modal, for: .zero)
            }
            RunLoop.current.add(idle, forMode: .default)
            result = RunLoop.current.run(mode: .default, for: .seconds(10))
            idle.invalidate()
            source.invalidate()
            center.removeObserver(observation)
        }
        #expect(result == .stopped)
    }

    @Test("What an observer enqueues asap while a host is about to wait in a callback is posted before the host has waited: S-NQ-4, S-NQ-13")
    func urgentBeforeAHostsWait() {
        let trace = withQueue { _, trace in
            let center = tracedCenter(trace)
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            let observation = center.addObserver(forName: .first, object: nil, queue: nil) { _ in
                own.enqueue(Notification(name: .second), postingStyle: .asap)
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            own.enqueue(Notification(name: .third), postingStyle: .asap)
            RunLoop.current.run(mode: .default, for: .zero)
            RunLoop.current.perform {
                guard let run = try? RunLoop.ForeignRun() else { return trace.add("no run") }
                own.enqueue(Notification(name: .first), postingStyle: .asap)
                if run.prepare() == nil { trace.add("the host waits") }
                run.dispatch()
                run.invalidate()
                trace.add("over")
            }
            RunLoop.current.run(mode: .default, for: .zero)
            source.invalidate()
            center.removeObserver(observation)
        }
        #expect(trace == ["third", "first", "second", "over"])
    }

    @Test("What an observer of the loop enqueues in each pass does not keep a host in a callback from waiting: S-NQ-5, S-NQ-15", arguments: [
        RunLoop.Activities.entry, .beforeTimers, .exit,
    ], [false, true])
    func eachPassOfAHost(activity: RunLoop.Activities, isForAnother: Bool) {
        nonisolated(unsafe) var turns = 0
        _ = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            let enqueuing = RunLoop.Observer(activities: activity) { _, _ in
                let mode = isForAnother ? RunLoop.Mode("other") : .default
                own.enqueue(
                    Notification(name: .first), postingStyle: isForAnother ? .asap : .whenIdle, coalesceMask: .onName, forModes: [mode])
            }
            RunLoop.current.perform {
                guard let run = try? RunLoop.ForeignRun() else { return }
                RunLoop.current.add(enqueuing, forMode: .default)
                run.prepare()
                source.signal()
                RunLoop.current.wakeUp()
                while turns < 1000 {
                    run.prepare()
                    var place = pollfd(fd: run.descriptor, events: Int16(POLLIN), revents: 0)
                    if poll(&place, 1, 0) == 0 { break }
                    turns += 1
                    run.dispatch()
                }
                run.invalidate()
            }
            RunLoop.current.run(mode: .default, for: .zero)
            enqueuing.invalidate()
            source.invalidate()
        }
        #expect(turns > 0 && turns < 1000)
    }

    @Test("What a nested run has posted itself makes no pass of the run around it: S-NQ-4, S-NQ-15")
    func postedByANestedRun() {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            nonisolated(unsafe) var passes = 0
            let modal = RunLoop.Mode("modal")
            let source = RunLoop.Source { _ in }
            for mode in [.default, modal] { RunLoop.current.add(source, forMode: mode) }
            queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: [.default, modal])
            // After the poster's turn, so that the pass of the default mode cannot post any more.
            let polling = RunLoop.Observer(activities: .beforeWaiting, order: .max) { _, _ in
                passes += 1
                if passes < 100 { RunLoop.current.run(mode: modal, for: .zero) }
            }
            RunLoop.current.add(polling, forMode: .default)
            let enqueuing = RunLoop.Observer(activities: .beforeSources) { _, _ in
                own.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: [], forModes: [.default, modal])
            }
            RunLoop.current.add(enqueuing, forMode: modal)
            RunLoop.current.run(mode: .default, for: .milliseconds(20))
            for observer in [polling, enqueuing] { observer.invalidate() }
            source.invalidate()
            trace.add(passes < 10 ? "few passes" : "\(passes)")
        }
        #expect(trace.first == "third" && trace.contains("first") && trace.last == "few passes")
    }

    @Test("The queues of a thread post in one order, and a queue that is gone posts nothing: S-NQ-2, S-NQ-5, S-NQ-15")
    func queuesOfOneThread() {
        let trace = withQueue { queue, trace in
            let other = NotificationQueue(notificationCenter: tracedCenter(trace))
            var gone: NotificationQueue? = NotificationQueue(notificationCenter: tracedCenter(trace))
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            queue.enqueue(Notification(name: .first), postingStyle: .whenIdle)
            other.enqueue(Notification(name: .second), postingStyle: .asap, coalesceMask: [], forModes: nil)
            for _ in 0..<200 { gone?.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: nil) }
            queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: nil)
            other.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: [], forModes: nil)
            gone = nil
            RunLoop.current.run(mode: .default, for: .milliseconds(5))
            source.invalidate()
        }
        #expect(trace == ["second", "third", "first", "first"])
    }

    @Test("A wake-up that a nested run takes ends the wait of the run around it also where notifications are posted before that: S-NQ-15, S-WAKE-9")
    func wakenedByANestedRun() {
        let trace = withQueue { queue, trace in
            let loop = RunLoop.current
            let modal = RunLoop.Mode("modal")
            let keeping = RunLoop.Source { _ in }
            for mode in [.default, modal] { loop.add(keeping, forMode: mode) }
            queue.enqueue(Notification(name: .first), postingStyle: .whenIdle)
            loop.run(mode: .default, for: .milliseconds(1))
            let served = RunLoop.Source { _ in
                trace.add("served")
                RunLoop.current.stop()
            }
            loop.add(served, forMode: .default)
            // Before the run's poster has its turn before the wait.
            loop.perform {
                served.signal()
                RunLoop.current.wakeUp()
                RunLoop.current.run(mode: modal, for: .milliseconds(1))
                trace.add("woken")
            }
            let result = loop.run(mode: .default, for: .seconds(60))
            trace.add(result == .stopped ? "stopped" : "late")
            for source in [keeping, served] { source.invalidate() }
        }
        #expect(trace == ["first", "woken", "served", "stopped"])
    }

    @Test("Idle work is posted though the observer of an urgent notification has let go of another queue with one: S-NQ-5, S-NQ-13")
    func queueThatGoesInARound() {
        let trace = withQueue { queue, trace in
            let center = NotificationCenter()
            nonisolated(unsafe) let own = NotificationQueue(notificationCenter: center)
            nonisolated(unsafe) var other: NotificationQueue? = NotificationQueue(notificationCenter: center)
            let observers = [Notification.Name.first, .second, .third].map { name in
                center.addObserver(forName: name, object: nil, queue: nil) { notification in
                    trace.add(notification.name.rawValue)
                    if notification.name == .first { other = nil }
                    if notification.name == .third { RunLoop.current.stop() }
                }
            }
            let source = RunLoop.Source { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.perform {
                own.enqueue(Notification(name: .first), postingStyle: .asap)
                other?.enqueue(Notification(name: .second), postingStyle: .asap)
                own.enqueue(Notification(name: .third), postingStyle: .whenIdle)
            }
            trace.add(RunLoop.current.run(mode: .default, for: .seconds(60)) == .stopped ? "stopped" : "late")
            source.invalidate()
            for observer in observers { center.removeObserver(observer) }
        }
        #expect(trace == ["first", "third", "stopped"])
    }

    @Test("What an observer enqueues for the common modes is posted before the wait of the mode that it has just made one: S-NQ-4, S-NQ-5, S-NQ-15", arguments: [true, false])
    func modeThatBecomesCommon(isUrgent: Bool) {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            let loop = RunLoop.current
            let mode = RunLoop.Mode("becomes common")
            // The observers are in the common modes already.
            queue.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: [], forModes: [.common])
            let source = RunLoop.Source { _ in }
            for mode in [.default, mode] { loop.add(source, forMode: mode) }
            loop.run(mode: .default, for: .zero)
            nonisolated(unsafe) var passes = 0
            let observer = RunLoop.Observer(activities: .beforeWaiting) { _, _ in
                passes += 1
                if passes == 1 {
                    RunLoop.current.addCommonMode(mode)
                    own.enqueue(Notification(name: .second), postingStyle: isUrgent ? .asap : .whenIdle, coalesceMask: [], forModes: [.common])
                }
            }
            loop.add(observer, forMode: mode)
            let sleeping = RunLoop.Observer(activities: .afterWaiting) { _, _ in trace.add("waited") }
            loop.add(sleeping, forMode: mode)
            loop.run(mode: mode, for: .milliseconds(20))
            for observer in [observer, sleeping] { observer.invalidate() }
            source.invalidate()
        }
        // The wait that was to come ends at once.
        #expect(trace == (isUrgent ? ["first", "waited", "second", "waited"] : ["first", "waited"]))
    }
}
