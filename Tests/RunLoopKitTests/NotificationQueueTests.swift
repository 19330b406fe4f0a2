// SPDX-License-Identifier: MIT
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif
import RunLoopKit
import Testing

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
            let (one, two) = (Posting(), Posting())
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
            let (one, two) = (Posting(), Posting())
            func enqueue(_ name: Notification.Name, _ sender: Posting, _ mask: NotificationQueue.NotificationCoalescing) {
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
            queue.enqueue(Notification(name: .first, object: Posting()), postingStyle: .asap)
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
