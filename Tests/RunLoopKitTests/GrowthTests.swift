// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// How much more the work costs when there is eight times as much of it. Work that is proportional gives about eight, and work that goes
/// through all for each sixty-four; one of a few trials has to give less than the limit.
private func growth(to count: Int, _ work: @escaping @Sendable (Int) -> Double) -> Double {
    onNewThread {
        var best = Double.infinity
        for _ in 0..<3 where best >= limit { best = min(best, work(count) / work(count / 8)) }
        return best
    }
}

private let limit = 24.0

private final class Target: Performer {}

/// As a sender it is the same as no other.
private struct Incomparable: Sendable {}
extension Selector<Target> { fileprivate static let work = Selector("work") { _, _ in } }

/// What costs more the more there is of it, and no more than that.
@Suite(.timeLimit(.minutes(10)), .serialized) struct GrowthTests {
    @Test("Ports become invalid in a time that does not depend on how many there are: S-NSP-10")
    func ports() {
        let growth = growth(to: 8000) { count in
            let ports = (0..<count).map { _ in Port() }
            for port in ports { RunLoop.current.add(port, forMode: .default) }
            let start = threadTime()
            for port in ports { port.invalidate() }
            return threadTime() - start
        }
        #expect(growth < limit)
    }

    @Test("Timers leave modes in a time that does not depend on how many modes there are: S-NSTM-13")
    func timersInModes() {
        for isOneTimer in [false, true] {
            let growth = growth(to: 3200) { count in
                let canary = Canary()
                let loop = RunLoop.current
                var timers = (0..<(isOneTimer ? 1 : count)).map { _ in
                    let captured = canary.capture()
                    return Timer(timeInterval: .seconds(1000), repeats: true) { _ in _ = captured }
                }
                let modes = (0..<count).map { RunLoop.Mode("mode \($0)") }
                let start = threadTime()
                for index in 0..<count { loop.add(timers[isOneTimer ? 0 : index], forMode: modes[index]) }
                for index in 0..<count { loop.remove(timers[isOneTimer ? 0 : index], forMode: modes[index]) }
                let time = threadTime() - start
                let number = timers.count
                timers = []
                #expect(canary.deaths == number)
                return time
            }
            #expect(growth < limit)
        }
    }

    @Test("Requests are cancelled in a time that does not depend on how many there are: S-PERF-20, S-PERF-26")
    func requests() {
        let ordered = growth(to: 64_000) { count in
            let requests = (0..<count).map { RunLoop.current.perform(order: $0) {} }
            let start = threadTime()
            for request in requests.reversed() { request.cancel() }
            return threadTime() - start
        }
        #expect(ordered < limit)
        let delayed = growth(to: 16_000) { count in
            let requests = (0..<count).map { _ in RunLoop.perform(afterDelay: .seconds(1000)) {} }
            let start = threadTime()
            for request in requests { request.cancel() }
            return threadTime() - start
        }
        #expect(delayed < limit)
        let selectors = growth(to: 16_000) { count in
            let target = Target()
            let loop = RunLoop.current
            for index in 0..<count { loop.perform(.work, target: target, argument: index, order: 0, modes: [.default]) }
            let start = threadTime()
            for index in 0..<count { loop.cancelPerform(.work, target: target, argument: index) }
            return threadTime() - start
        }
        #expect(selectors < limit)
        let delayedSelectors = growth(to: 16_000) { count in
            let target = Target()
            for index in 0..<count { target.perform(.work, with: index, afterDelay: .seconds(1000)) }
            let start = threadTime()
            for index in 0..<count {
                Target.cancelPreviousPerformRequests(withTarget: target, selector: .work, object: index)
            }
            return threadTime() - start
        }
        #expect(delayedSelectors < limit)
    }

    @Test("Notifications are enqueued, coalesced and posted in a time that does not depend on how many wait: S-NQ-8, S-NQ-13")
    func notificationQueue() {
        let enqueue = growth(to: 16_000) { count in
            let centre = NotificationCenter()
            let queue = NotificationQueue(notificationCenter: centre)
            let senders = (0..<count).map { _ in Target() }
            let start = threadTime()
            for sender in senders { queue.enqueue(Notification(name: .init("n"), object: sender), postingStyle: .asap) }
            for sender in senders { queue.enqueue(Notification(name: .init("n"), object: sender), postingStyle: .asap) }
            RunLoop.current.perform {}
            RunLoop.current.run(mode: .default, for: .zero)
            return threadTime() - start
        }
        #expect(enqueue < limit)
        let incomparable = growth(to: 8000) { count in
            let queue = NotificationQueue(notificationCenter: NotificationCenter())
            let start = threadTime()
            for _ in 0..<count { queue.enqueue(Notification(name: .init("n"), object: Incomparable()), postingStyle: .asap) }
            return threadTime() - start
        }
        #expect(incomparable < limit)
    }

    @Test("Notifications for other modes cost a pass nothing, however many lists of modes there are: S-THR-9")
    func notificationsOfOtherModes() {
        let growth = growth(to: 4000) { count in
            let queue = NotificationQueue(notificationCenter: NotificationCenter())
            RunLoop.current.perform {}
            queue.enqueue(Notification(name: .init("n")), postingStyle: .asap)
            for index in 0..<count {
                let modes = (0..<12).map { RunLoop.Mode("\($0) \(index >> $0 & 1)") }
                for style in [NotificationQueue.PostingStyle.asap, .whenIdle] {
                    queue.enqueue(Notification(name: .init("n")), postingStyle: style, coalesceMask: .none, forModes: modes)
                }
            }
            let start = threadTime()
            for _ in 0..<count / 20 {
                RunLoop.current.perform {}
                RunLoop.current.run(mode: .default, for: .zero)
            }
            return threadTime() - start
        }
        #expect(growth < limit)
    }

    @Test("A thread's dictionary is changed in a time that does not depend on how much is in it: S-THR-9")
    func threadDictionary() {
        let growth = growth(to: 16_000) { count in
            let start = threadTime()
            for index in 0..<count { Thread.current.threadDictionary[index] = index }
            for index in 0..<count { Thread.current.threadDictionary[index] = nil }
            return threadTime() - start
        }
        #expect(growth < limit)
        let ofRunLoopThread = GrowthTests.growthOfRunLoopThread()
        #expect(ofRunLoopThread < limit)
    }

    private static func growthOfRunLoopThread() -> Double {
        let result = Promise<Double>()
        let thread = RunLoopThread { thread in
            func spent(_ count: Int) -> Double {
                let start = threadTime()
                for index in 0..<count { thread.threadDictionary[index] = index }
                thread.threadDictionary.removeAll()
                return threadTime() - start
            }
            var best = Double.infinity
            for _ in 0..<3 where best >= limit { best = min(best, spent(16_000) / spent(2000)) }
            result.fulfil(best)
        }
        do { try thread.start() } catch { return .infinity }
        thread.join()
        return result.value
    }

    @Test("Observers are removed, and others' notifications posted, in a time that does not depend on how many there are")
    func notificationCenter() {
        let removal = growth(to: 16_000) { count in
            let centre = NotificationCenter()
            let observers = (0..<count).map { _ in centre.addObserver(forName: .init("n"), object: nil, queue: nil) { _ in } }
            let start = threadTime()
            for observer in observers.reversed() { centre.removeObserver(observer) }
            return threadTime() - start
        }
        #expect(removal < limit)
        let posting = growth(to: 16_000) { count in
            let centre = NotificationCenter()
            let observers = (0..<count).map { centre.addObserver(forName: .init("\($0)"), object: nil, queue: nil) { _ in } }
            let start = threadTime()
            for index in 0..<count { centre.post(name: .init("\(index)"), object: nil) }
            let end = threadTime()
            withExtendedLifetime(observers) {}
            return end - start
        }
        #expect(posting < limit)
        let incomparable = growth(to: 8000) { count in
            let centre = NotificationCenter()
            let observers = (0..<count).map { _ in
                centre.addObserver(forName: .init("n"), object: Incomparable(), queue: nil) { _ in }
            }
            let start = threadTime()
            for _ in 0..<count { centre.post(name: .init("n"), object: Incomparable()) }
            let end = threadTime()
            withExtendedLifetime(observers) {}
            return end - start
        }
        #expect(incomparable < limit)
    }
}

extension GrowthTests {
    @Test("A clock is moved in a time that does not depend on how many tasks sleep by it: S-CLK-13")
    func sleepers() async {
        func spent(_ count: Int) async -> Double {
            let clock = TestClock()
            let start = clock.now
            let begun = Trace()
            let sleepers = Task {
                await withDiscardingTaskGroup { group in
                    for index in 1...count {
                        group.addTask {
                            begun.add("")
                            try? await clock.sleep(until: start.advanced(by: .seconds(index)))
                        }
                    }
                }
            }
            while begun.count < count { await Task.yield() }
            let time = onNewThread {
                let start = threadTime()
                for _ in 0..<count { clock.advance(by: .milliseconds(500)) }
                return threadTime() - start
            }
            sleepers.cancel()
            await sleepers.value
            return time
        }
        var best = Double.infinity
        for _ in 0..<3 where best >= limit { best = await min(best, spent(2400) / spent(300)) }
        #expect(best < limit)
    }
}

/// Where a library that makes objects for C's could keep what nobody wants any more.
@Suite(.timeLimit(.minutes(10))) struct PortLeakTests {
    private final class RawDelegate: MachPortDelegate {
        func handleMachMessage(_ message: MachMessage) {}
    }

    private final class Carried: Port, @unchecked Sendable {
        let captured: Canary.Captured
        init(_ canary: Canary) {
            captured = canary.capture()
            super.init()
        }
    }

    @Test("A message whose delegate takes it raw is let go of with what it carries: S-NSP-2")
    func rawMessages() {
        let canary = Canary()
        onNewThread {
            let port = MachPort()
            let delegate = RawDelegate()
            port.setDelegate(delegate)
            RunLoop.current.add(port, forMode: .default)
            let count = scaled(20_000)
            var sent = 0
            for _ in 0..<count {
                if port.send(before: .now, components: [[UInt8](repeating: 1, count: 8000), Carried(canary)], from: nil, reserved: 0) { sent += 1 }
                RunLoop.current.run(mode: .default, for: .zero)
            }
            #expect(sent == count)
            #expect(canary.deaths == sent)
            port.invalidate()
            withExtendedLifetime(delegate) {}
        }
    }

    @Test("A port that waits in its own queue, as the port to answer to or as a component, is let go of: S-NSP-11")
    func ownReply() {
        weak var first: Port?
        weak var second: Port?
        do {
            let port = Port()
            #expect(port.send(before: .now, components: [[UInt8(1)]], from: port, reserved: 0))
            #expect(port.send(before: .now, components: [[UInt8(1)], [UInt8(2)]], from: port, reserved: 0))
            first = port
            let other = Port()
            #expect(other.send(before: .now, components: [other, [UInt8(2)]], from: nil, reserved: 0))
            second = other
        }
        #expect(first == nil)
        #expect(second == nil)
    }

    private final class Echo: PortDelegate, Sendable {
        let trace = Trace()
        func handle(_ message: PortMessage) {
            trace.add("\(message.sendPort === message.receivePort) \(message.components!.count)")
            if message.components!.count == 2 { trace.add("\((message.components![0] as? Port) === message.receivePort)") }
        }
    }

    @Test("A port that is sent through its own queue arrives: S-NSP-5, S-NSP-6")
    func ownReplyArrives() {
        let echo = Echo()
        onNewThread {
            let port = Port()
            port.setDelegate(echo)
            RunLoop.current.add(port, forMode: .default)
            #expect(port.send(before: .now, components: [[UInt8(1)]], from: port, reserved: 0))
            #expect(port.send(before: .now, components: [port, [UInt8(2)]], from: port, reserved: 0))
            for _ in 0..<2 { RunLoop.current.run(mode: .default, for: .zero) }
            port.invalidate()
        }
        #expect(echo.trace.all == ["true 1", "true 2", "true"])
    }

    @Test("A loop lets go of its ports and its object at the end of its thread, though nobody there ever asked for the loop: S-LOOP-6")
    func loopEnds() {
        let canary = Canary()
        for isLate in [false, true] {
            let ready = Promise<RunLoop>()
            let mayEnd = Promise<Void>()
            let thread = RunLoopThread()
            #expect((try? thread.start()) != nil)
            weak var loop: RunLoop?
            do {
                let held = thread.loop
                loop = held
                if !isLate { held.add(Carried(canary), forMode: .default) }
                ready.fulfil(held)
            }
            thread.stop()
            thread.join()
            // One that comes when the thread is gone.
            if isLate { thread.loop.add(Carried(canary), forMode: .default) }
            ready.forget()
            mayEnd.fulfil(())
            _ = loop
        }
        #expect(canary.deaths == 2)
    }

    @Test("A port that is or becomes invalid while it is added is not kept: S-NSP-10, S-NSP-11")
    func invalid() {
        let canary = Canary()
        let rounds = scaled(20_000)
        onNewThread {
            let loop = RunLoop.current
            for round in 0..<rounds {
                let port = Carried(canary)
                if round % 2 == 0 {
                    port.invalidate()
                    loop.add(port, forMode: .default)
                } else {
                    let other = TestThread { port.invalidate() }
                    loop.add(port, forMode: .default)
                    other.join()
                }
            }
            #expect(canary.deaths == rounds)
        }
    }

    @Test("The library's own mode is neither listed nor described: S-MODE-6")
    func ownMode() {
        onNewThread {
            let loop = RunLoop.current
            _ = loop.executor
            #expect(loop.allModes == [.default])
            #expect(!loop.description.contains("RunLoopKit"))
            #expect(loop.description.contains(RunLoop.Mode.default.rawValue))
        }
    }
}
