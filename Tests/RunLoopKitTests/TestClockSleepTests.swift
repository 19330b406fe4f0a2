// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Tasks that sleep by a clock which loops get, give back and take along when their threads end.
@Suite("Sleeps by a test clock", .timeLimit(.minutes(10)))
struct TestClockSleepTests {
    @Test("A task that slept before any loop had the clock wakes at its instant: S-CLK-9, S-CLK-13")
    func loopComesLater() async throws {
        let clock = TestClock()
        clock.setAutomatic(true)
        let start = clock.now
        let other = RunLoopThread()
        try other.start()
        let sleeper = Task(executorPreference: other.loop.executor) {
            try await clock.sleep(until: start.advanced(by: .seconds(3600)))
            return clock.now
        }
        // Comes after the task's first job, so the task sleeps.
        try await other.loop.call {}
        let thread = try await startedThread(with: clock)
        #expect(try await start.duration(to: sleeper.value) == .seconds(3600))
        await thread.finish()
        await other.finish()
    }

    @Test("Of several loops with the clock any that lives serves the sleeps of others: S-CLK-1, S-CLK-9, S-CLK-13")
    func lastLoopEnds() async throws {
        let clock = TestClock()
        let first = try await startedThread(with: clock)
        let second = try await startedThread(with: clock)
        await second.finish()
        clock.setAutomatic(true)
        let start = clock.now
        try await clock.sleep(until: start.advanced(by: .seconds(3600)))
        #expect(start.duration(to: clock.now) == .seconds(3600))
        await first.finish()
    }

    @Test("A loop that C code runs, and whose object nobody holds, serves sleeps too: S-CLK-9, S-CLK-13")
    func loopOfC() async throws {
        let clock = TestClock()
        let (given, giving) = AsyncStream.makeStream(of: UInt.self)
        let thread = TestThread {
            let reference = RLGetCurrent()
            #expect(RunLoop.wrapping(reference).setClock(clock))
            RunLoop.wrapping(reference).keepAlive()
            giving.yield(UInt(bitPattern: reference))
            _ = RLRunInMode(RunLoop.Mode.default.rawValue, 1e20, false)
        }
        var iterator = given.makeAsyncIterator()
        let reference = await iterator.next()
        clock.setAutomatic(true)
        let start = clock.now
        try await clock.sleep(until: start.advanced(by: .seconds(3600)))
        #expect(start.duration(to: clock.now) == .seconds(3600))
        // The thread lives as long as its run.
        reference.flatMap { OpaquePointer(bitPattern: $0) }.map { RunLoop.wrapping($0).stop() }
        thread.join()
    }

    @Test("A loop that does not run holds up no sleep that another one with the clock comes to: S-CLK-9, S-CLK-13")
    func oneDoesNotRun() async throws {
        let clock = TestClock()
        let first = try await startedThread(with: clock)
        let pipe = Pipe()
        let (isGiven, giving) = AsyncStream.makeStream(of: Bool.self)
        let second = RunLoopThread { _ in
            giving.yield(RunLoop.current.setClock(clock))
            _ = pipe.read(1)
        }
        try second.start()
        for await isGiven in isGiven {
            #expect(isGiven)
            break
        }
        clock.setAutomatic(true)
        let start = clock.now
        try await clock.sleep(until: start.advanced(by: .seconds(3600)))
        #expect(start.duration(to: clock.now) == .seconds(3600))
        pipe.write(1)
        await second.finish()
        await first.finish()
    }

    @Test("A sleep that was not a loop's own goes on when the loops with the clock have ended: S-CLK-3, S-CLK-13")
    func loopsEnd() async throws {
        let clock = TestClock()
        let start = clock.now
        let other = RunLoopThread()
        try other.start()
        let threads = [try await startedThread(with: clock), try await startedThread(with: clock)]
        let sleeper = Task(executorPreference: other.loop.executor) {
            try await clock.sleep(until: start.advanced(by: .seconds(10)))
            return clock.now
        }
        try await other.loop.call {}
        for thread in threads { await thread.finish() }
        clock.advance(by: .seconds(9))
        clock.advance(by: .seconds(1))
        #expect(try await start.duration(to: sleeper.value) == .seconds(10))
        await other.finish()
    }

    @Test("A sleep that is longer than a timer can be set for does not end early: S-CLK-5, S-CLK-11, S-CLK-13")
    func longSleep() async throws {
        let clock = TestClock()
        let start = clock.now
        let thread = try await startedThread(with: clock)
        let sleeper = Task(executorPreference: thread.loop.executor) {
            try await clock.sleep(until: start.advanced(by: .seconds(600_000_000)))
            return clock.now
        }
        let endless = Task(executorPreference: thread.loop.executor) { try await clock.sleep(for: .seconds(Int64.max)) }
        try await thread.loop.call {}
        for _ in 0..<7 { clock.advance(by: .seconds(100_000_000)) }
        #expect(try await start.duration(to: sleeper.value) == .seconds(600_000_000))
        endless.cancel()
        await #expect(throws: CancellationError.self) { try await endless.value }
        await thread.finish()
    }

    @Test("A sleep to an instant that no date shows does not end early: S-CLK-11, S-CLK-13")
    func sleepBeyondDates() async throws {
        let clock = TestClock()
        let start = clock.now
        let thread = try await startedThread(with: clock)
        let sleeper = Task(executorPreference: thread.loop.executor) {
            try await clock.sleep(until: start.advanced(by: .seconds(3_900_000_000)))
            return clock.now
        }
        try await thread.loop.call {}
        for _ in 0..<39 { clock.advance(by: .seconds(100_000_000)) }
        #expect(try await start.duration(to: sleeper.value) == .seconds(3_900_000_000))
        await thread.finish()
    }

    @Test("Setting the clock and suspending it end the sleeps whose dates have come, on a loop and elsewhere, and no timer: S-CLK-10, S-CLK-13")
    func datesAreSet() async throws {
        let clock = TestClock()
        let start = clock.now
        let thread = try await startedThread(with: clock)
        let other = RunLoopThread()
        try other.start()
        let fired = Trace()
        let timer = Timer(fire: start.advanced(by: .seconds(3000)), interval: .zero, repeats: false) { _ in fired.add("fired") }
        thread.loop.add(timer, forMode: .default)
        for loop in [thread.loop, other.loop] {
            let sleepers = [1000, 2000].map { seconds in
                Task(executorPreference: loop.executor) {
                    try await clock.sleep(until: start.advanced(by: .seconds(seconds)))
                    return clock.now
                }
            }
            try await loop.call {}
            clock.setDate(start.advanced(by: .seconds(1500)))
            #expect(try await start.duration(to: sleepers[0].value) == .seconds(1500))
            clock.suspend(for: .seconds(499))
            clock.suspend(for: .seconds(1))
            #expect(try await start.duration(to: sleepers[1].value) == .seconds(2000))
            clock.setDate(start)
        }
        clock.advance(by: .seconds(2999))
        #expect(fired.all.isEmpty)
        clock.advance(by: .seconds(1))
        #expect(fired.all == ["fired"])
        await thread.finish()
        await other.finish()
    }

    @Test("A clock that is set back has its tasks sleep until the date comes again: S-CLK-10, S-CLK-13")
    func dateIsSetBack() async throws {
        let clock = TestClock()
        let start = clock.now
        let thread = try await startedThread(with: clock)
        let other = RunLoopThread()
        try other.start()
        let sleepers = [thread.loop, other.loop].map { loop in
            Task(executorPreference: loop.executor) {
                try await clock.sleep(until: start.advanced(by: .seconds(60)))
                return clock.now
            }
        }
        for loop in [thread.loop, other.loop] { try await loop.call {} }
        clock.advance(by: .seconds(59))
        clock.setDate(start)
        clock.advance(by: .seconds(59))
        clock.advance(by: .seconds(1))
        for sleeper in sleepers { #expect(try await start.duration(to: sleeper.value) == .seconds(60)) }
        await thread.finish()
        await other.finish()
    }

    @Test("A loop that takes the clock and gives it back again and again holds up no sleep: S-CLK-2, S-CLK-13")
    func loopGivesItBack() async throws {
        let clock = TestClock()
        // What meant this date by the system's clock would be years ahead.
        clock.advance(by: .seconds(400_000_000))
        let thread = RunLoopThread { thread in
            let loop = RunLoop.current
            while !thread.isEnding {
                loop.setClock(clock)
                loop.run(mode: .default, for: .zero)
                loop.setClock(nil)
            }
        }
        try thread.start()
        let mover = Task.detached {
            while !Task.isCancelled {
                clock.advance(by: .milliseconds(1))
                await Task.yield()
            }
        }
        for _ in 0..<scaled(2000) { try await clock.sleep(for: .microseconds(1)) }
        mover.cancel()
        await mover.value
        await thread.finish()
    }

    @Test("Cancellations, the clock and the end of the loop's thread meet a sleep at any instruction; it ends once: S-CLK-3, S-CLK-13")
    func everythingAtOnce() async throws {
        for round in 0..<scaled(100) {
            let clock = TestClock()
            let thread = try await startedThread(with: clock)
            let sleepers = (0..<6).map { number in
                Task(executorPreference: number % 2 == 0 ? thread.loop.executor : nil) {
                    try await clock.sleep(for: .milliseconds(number))
                }
            }
            let mover = Task.detached {
                while !Task.isCancelled {
                    clock.advance(by: .milliseconds(1))
                    await Task.yield()
                }
            }
            async let ended: Void = Task.detached { if round % 3 != 0 { await thread.finish() } }.value
            for sleeper in sleepers.prefix(round % 4) { sleeper.cancel() }
            for sleeper in sleepers { _ = await sleeper.result }
            await ended
            mover.cancel()
            await mover.value
            await thread.finish()
        }
    }

    private func threadOfWith(_ clock: TestClock) -> RunLoopThread? {
        RunLoop.with(clock: clock) { RunLoopThread.current }
    }

    @Test("The thread of with(clock:) may be known for longer than its closure: S-CLK-2")
    func threadIsKept() async {
        await #expect(processExitsWith: .success) {
            let thread = TestClockSleepTests().threadOfWith(TestClock())
            precondition(thread?.isFinished == true)
        }
    }

    @MainActor private static func assumeInWith() {
        RunLoop.with(clock: TestClock()) { MainActor.assumeIsolated {} }
    }

    @Test("The closure of with(clock:) is on no actor: S-CLK-2")
    func withIsOnNoActor() async {
        await #expect(processExitsWith: .failure) { await TestClockSleepTests.assumeInWith() }
    }
}
