// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// Clocks that a program moves, in Swift: section 41.
@Suite("Test clocks")
struct TestClockTests {
    @Test("Timers made one after the other with the same interval fire at the same instant of a clock that stands still, in that order: S-NSTM-2, S-CLK-4")
    func equalIntervals() {
        let clock = TestClock()
        let (late, order) = RunLoop.with(clock: clock) { () -> ([Duration], [Int]) in
            let begin = clock.now
            nonisolated(unsafe) var late: [Duration] = [], order: [Int] = []
            for number in 0..<200 {
                let timer = Timer(timeInterval: .seconds(7), repeats: false) { _ in
                    late.append(begin.duration(to: clock.now) - .seconds(7))
                    order.append(number)
                }
                RunLoop.current.add(timer, forMode: .default)
            }
            clock.advance(by: .seconds(8))
            return (late, order)
        }
        #expect(late.allSatisfy { $0 == .zero } && order == Array(0..<200))
    }

    @Test("An hourly timer fires at its instants while the clock is moved, and the test takes no time: S-CLK-5, S-CLK-6")
    func hourly() {
        let clock = TestClock()
        let start = clock.now
        let begin = ContinuousClock.now
        let seen = Trace()
        RunLoop.with(clock: clock) {
            let timer = Timer(fire: start.advanced(by: .seconds(3600)), interval: .seconds(3600), repeats: true) { _ in
                seen.add("\(start.duration(to: clock.now))")
            }
            RunLoop.current.add(timer, forMode: .default)
            clock.advance(by: .seconds(3 * 3600))
        }
        #expect(seen.all == ["3600.0 seconds", "7200.0 seconds", "10800.0 seconds"])
        #expect(ContinuousClock.now - begin < .seconds(60))
        #expect(start.duration(to: clock.now) == .seconds(3 * 3600))
    }

    @Test("A timer made with an interval on the loop's thread has it by the loop's clock: S-CLK-4")
    func intervals() {
        let clock = TestClock()
        RunLoop.with(clock: clock) {
            let counter = Counter()
            Timer.scheduledTimer(withTimeInterval: .seconds(60), repeats: true) { _ in counter.add() }
            clock.advance(by: .seconds(59))
            #expect(counter.value == 0)
            clock.advance(by: .seconds(1) + .microseconds(5))
            #expect(counter.value == 1)
            clock.advance(by: .seconds(600))
            #expect(counter.value == 11)
        }
    }

    @Test("A series of runs ends by the loop's clock, whether that moves by itself or another thread moves it: S-CLK-3, S-NSRL-6")
    func series() async throws {
        for isAutomatic in [true, false] {
            let clock = TestClock()
            clock.setAutomatic(isAutomatic)
            let start = clock.now
            let thread = RunLoopThread { _ in
                #expect(RunLoop.current.setClock(clock))
                RunLoop.current.add(RunLoop.Source { _ in }, forMode: .default)
                // Long enough not to pass by the system's clock.
                RunLoop.current.run(until: .now + .seconds(3600))
            }
            try thread.start()
            while !isAutomatic && !thread.loop.isWaiting { await Task.yield() }
            if !isAutomatic { clock.advance(by: .seconds(3601)) }
            while !thread.isFinished { await Task.yield() }
            #expect(start.duration(to: clock.now) >= .seconds(3599) && start.duration(to: clock.now) <= .seconds(3601))
        }
    }

    @Test("Errors leave with(clock:), what was left in the loop goes, and the clock serves the next: S-CLK-2")
    func withClock() throws {
        struct Failure: Error {}
        let clock = TestClock()
        let counter = Counter()
        #expect(throws: Failure.self) {
            try RunLoop.with(clock: clock) { () throws(Failure) in
                Timer.scheduledTimer(withTimeInterval: .seconds(1), repeats: true) { _ in counter.add() }
                throw Failure()
            }
        }
        let value = RunLoop.with(clock: clock) { () -> Int in
            clock.advance(by: .seconds(5))
            return 7
        }
        #expect(value == 7)
        #expect(counter.value == 0)
    }

    @Test("A loop takes a clock on its thread only, while it has no timer: S-CLK-2")
    func settingClocks() {
        let clock = TestClock()
        let results = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            var results = [loop.setClock(clock)]
            let timer = Timer.scheduledTimer(withTimeInterval: .seconds(1), repeats: false) { _ in }
            results.append(loop.setClock(nil))
            timer.invalidate()
            results.append(loop.setClock(nil))
            return results
        }
        #expect(results == [true, false, true])
        #expect(onNewThread { let other = onNewThread { RunLoop.current }; return other.setClock(clock) } == false)
    }

    @Test("Instants add and subtract exactly to the microsecond, as far as an instant goes: S-CLK-4, S-CLK-11")
    func instants() {
        let now = TestClock().now
        #expect(now.duration(to: now.advanced(by: .milliseconds(100))) == .milliseconds(100))
        #expect(now.duration(to: now.advanced(by: .nanoseconds(1_600))) == .microseconds(2))
        #expect(now.duration(to: now.advanced(by: .nanoseconds(-1_600))) == .microseconds(-2))
        #expect(now.advanced(by: .seconds(-5)) < now)
        #expect(now.duration(to: now.advanced(by: .seconds(5_000_000_000_000))) == .seconds(5_000_000_000_000))
        let (first, last) = (now.advanced(by: .seconds(Int64.min)), now.advanced(by: .seconds(Int64.max)))
        #expect(first < now && last > now && last.advanced(by: .seconds(1)) == last)
        #expect(first.advanced(by: first.duration(to: last)) == last && last.advanced(by: last.duration(to: now)) == now)
    }

    @Test(
        """
        Tasks on a loop's executor sleep by its clock, and have gone on when the clock was moved; where they prefer the executor, also by \
        Task.sleep: S-CLK-5, S-CLK-7, S-CLK-13
        """, arguments: [false, true])
    func sleepingTasks(byTask: Bool) async throws {
        let clock = TestClock()
        let thread = try await startedThread(with: clock)
        let actor = LoopActor(on: thread.loop)
        let start = clock.now
        let task = Task { byTask ? await actor.sleepTwiceByTask(clock) : await actor.sleepTwice(clock) }
        // The first sleep is a timer as soon as the clock has somewhere to go.
        while !clock.advanceToNext() { await Task.yield() }
        await Task.yield()
        clock.advance(by: .seconds(3600))
        let times = await task.value
        #expect(times.map { start.duration(to: $0) } == [.seconds(10), .seconds(1810)])
        await thread.finish()
    }

    @Test("A sleep ends by a cancellation, and by the end of the loop's thread: S-CLK-3")
    func sleepsThatEnd() async throws {
        let clock = TestClock()
        let thread = try await startedThread(with: clock)
        let cancelled = Task { try await clock.sleep(until: clock.now.advanced(by: .seconds(1))) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let asleep = Task { try await Task { try await clock.sleep(for: .seconds(1)) }.value }
        await thread.finish()
        // Where the thread had ended before the sleep began no loop has the clock, and moving it ends the sleep.
        let mover = Task { while !Task.isCancelled { clock.advance(by: .seconds(1)); await Task.yield() } }
        _ = try? await asleep.value
        mover.cancel()
    }

    @Test("Without a loop a sleep ends when the clock has come to its instant: S-CLK-1")
    func sleepsWithoutLoop() async throws {
        let clock = TestClock()
        let start = clock.now
        let order = Trace()
        let late = Task { try await clock.sleep(until: start.advanced(by: .seconds(20))); order.add("late") }
        let early = Task { try await clock.sleep(until: start.advanced(by: .seconds(10))); order.add("early") }
        clock.advance(by: .seconds(10))
        try await early.value
        clock.advance(by: .seconds(10))
        try await late.value
        #expect(order.all == ["early", "late"])
    }

    @Test("Ticks by a clock have its instants: S-CLK-5")
    func ticks() async throws {
        let clock = TestClock()
        let thread = try await startedThread(with: clock)
        let start = clock.now
        var ticks = thread.loop.ticks(every: .seconds(60), clock: clock).makeAsyncIterator()
        for minute in 1...5 {
            clock.advance(by: .seconds(60))
            let tick = await ticks.next()
            #expect(tick.map { start.duration(to: $0) } == .seconds(60 * minute))
        }
        await thread.finish()
    }

    @Test("An automatic clock takes a run to its end at once: S-CLK-9")
    func automatic() {
        let clock = TestClock()
        clock.setAutomatic(true)
        let begin = ContinuousClock.now
        let count = RunLoop.with(clock: clock) { () -> Int in
            let counter = Counter()
            Timer.scheduledTimer(withTimeInterval: .seconds(3600), repeats: true) { _ in counter.add() }
            RunLoop.current.run(mode: .default, for: .seconds(10 * 3600 + 1))
            return counter.value
        }
        #expect(count == 10)
        #expect(ContinuousClock.now - begin < .seconds(60))
    }

    @Test("A reusable timer stays valid and fires again after a delay: S-TMR-56, S-TMR-57")
    func reusable() {
        let clock = TestClock()
        RunLoop.with(clock: clock) {
            let counter = Counter()
            let timer = Timer(timeInterval: .seconds(1), repeats: false) { _ in counter.add() }
            timer.isReusable = true
            RunLoop.current.add(timer, forMode: .default)
            clock.advance(by: .seconds(2))
            #expect(counter.value == 1)
            #expect(timer.isValid && timer.isReusable)
            #expect(timer.fireDate >= ContinuousClock.now + .seconds(1_000_000))
            timer.fire()
            #expect(timer.isValid && counter.value == 2)
            timer.rearm(after: .seconds(5))
            clock.advance(by: .seconds(5))
            #expect(counter.value == 3)
            timer.isReusable = false
            timer.rearm(after: .zero)
            clock.advance(by: .zero)
            #expect(counter.value == 4 && !timer.isValid)
        }
    }
}

private final class Counter: Sendable {
    private let count = Atomic(0)
    func add() { count.wrappingAdd(1, ordering: .relaxed) }
    var value: Int { count.load(ordering: .relaxed) }
}

private actor LoopActor {
    private nonisolated let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    init(on loop: RunLoop) { executor = loop.executor }

    func sleepTwice(_ clock: TestClock) async -> [TestClock.Instant] {
        var times: [TestClock.Instant] = []
        try? await clock.sleep(for: .seconds(10))
        times.append(clock.now)
        try? await clock.sleep(for: .seconds(1800))
        times.append(clock.now)
        return times
    }

    func sleepTwiceByTask(_ clock: TestClock) async -> [TestClock.Instant] {
        var times: [TestClock.Instant] = []
        for seconds in [10, 1800] {
            try? await withTaskExecutorPreference(executor) { try await Task.sleep(for: .seconds(seconds), clock: clock) }
            times.append(clock.now)
        }
        return times
    }
}
