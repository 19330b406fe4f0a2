// SPDX-License-Identifier: MIT
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif
import RunLoopKit
import Testing

/// The turns of what posts notifications, in runs and waits of every kind.
@Suite struct NotificationPosterTests {
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

    /// Runs the default mode with one more observer for 20 ms, and says how many passes that took. It keeps the body from going on for ever.
    private func passes(
        _ activity: RunLoop.Activities, order: Int = 0, _ body: @escaping @Sendable () -> Void
    ) -> String {
        nonisolated(unsafe) var passes = 0
        let loop = RunLoop.current
        let source = RunLoop.Source { _ in }
        loop.add(source, forMode: .default)
        let observer = RunLoop.Observer(activities: activity, order: order) { _, _ in
            passes += 1
            if passes < 100 { body() }
        }
        loop.add(observer, forMode: .default)
        loop.run(mode: .default, for: .milliseconds(20))
        observer.invalidate()
        source.invalidate()
        return passes < 10 ? "few passes" : "\(passes)"
    }

    @Test("A mode that is named a common one again, or a queue that takes the place of another, in each pass, makes no pass for what that posts: S-NQ-4, S-NQ-15", arguments: [
        RunLoop.Activities.beforeTimers, .beforeSources,
    ], [true, false])
    func againInEachPass(activity: RunLoop.Activities, isNewQueue: Bool) {
        let trace = withQueue { queue, trace in
            let center = tracedCenter(trace)
            nonisolated(unsafe) var own = isNewQueue ? NotificationQueue(notificationCenter: center) : queue
            let count = passes(activity) {
                if isNewQueue { own = NotificationQueue(notificationCenter: center) } else { RunLoop.current.addCommonMode(.default) }
                own.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: .onName, forModes: [.common])
            }
            trace.add(count)
        }
        #expect(trace.first == "first" && trace.last == "few passes")
    }

    @Test("Whatever an observer's order and time of addition, what it enqueues before the wait of each pass makes no other one, unless it comes after the turn: S-NQ-4, S-NQ-15", arguments: [
        Int.min, 0, .max - 1,
    ])
    func orderOfTheObserver(order: Int) {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) let own = queue
            // The queue is used for the first time in the first pass, when the observers before its wait are being called without it.
            let count = passes(.beforeWaiting, order: order) {
                own.enqueue(Notification(name: .first), postingStyle: .asap, coalesceMask: .onName, forModes: nil)
            }
            trace.add(count)
        }
        #expect(trace.first == "first" && trace.last == "few passes")
    }

    @Test("What comes to a queue that is new, or to a mode that is a common one, only while the observers before a wait are called, is posted before that: S-NQ-4, S-NQ-15", arguments: [
        "first queue", "another queue", "mode", "with all activities",
    ])
    func newBeforeTheWait(what: String) {
        let trace = withQueue { queue, trace in
            nonisolated(unsafe) var own = queue
            let (loop, center, mode) = (RunLoop.current, tracedCenter(trace), RunLoop.Mode("new before the wait"))
            let source = RunLoop.Source { _ in }
            for mode in [.default, mode] { loop.add(source, forMode: mode) }
            if what == "another queue" || what == "mode" {
                queue.enqueue(Notification(name: .third), postingStyle: .asap, coalesceMask: [], forModes: [.common])
                loop.run(mode: .default, for: .zero)
            }
            // It is no observer that posts, though it has all bits that one could have.
            let other = RunLoop.Observer(activities: RunLoop.Activities(rawValue: .max), order: .max - 1) { _, _ in }
            if what == "with all activities" { loop.add(other, forMode: mode) }
            nonisolated(unsafe) var isFirst = true
            let observer = RunLoop.Observer(activities: .beforeWaiting) { _, _ in
                if !isFirst { return }
                isFirst = false
                // The former one is let go of.
                if what == "another queue" { own = NotificationQueue(notificationCenter: center) }
                if what == "mode" { RunLoop.current.addCommonMode(mode) }
                own.enqueue(
                    Notification(name: .first), postingStyle: .asap, coalesceMask: [], forModes: [what == "mode" ? .common : mode])
            }
            let waiting = RunLoop.Observer(activities: .beforeWaiting, order: .max) { _, _ in trace.add("waits") }
            for observer in [observer, waiting] { loop.add(observer, forMode: mode) }
            loop.run(mode: mode, for: .milliseconds(20))
            for observer in [observer, waiting, other] { observer.invalidate() }
            source.invalidate()
        }
        #expect(trace.filter { $0 != "third" } == ["waits", "first", "waits"])
    }

    @Test("A queue that is gone leaves no observer on its loop after the next pass: S-NQ-1, S-THR-9")
    func aQueueThatIsGone() {
        let counts = onNewThread { () -> [Int] in
            let loop = RunLoop.current
            let source = RunLoop.Source { _ in }
            loop.add(source, forMode: .default)
            var counts = [loop.items(in: .default).count]
            for _ in 0..<3 {
                let queue = NotificationQueue(notificationCenter: NotificationCenter())
                queue.enqueue(Notification(name: .first), postingStyle: .asap)
                loop.run(mode: .default, for: .zero)
                counts.append(loop.items(in: .default).count)
            }
            loop.run(mode: .default, for: .zero)
            counts.append(loop.items(in: .default).count)
            source.invalidate()
            return counts
        }
        #expect(counts.last == counts.first)
        #expect(counts[3] == counts[1])
    }
}
