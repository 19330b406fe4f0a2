// SPDX-License-Identifier: MIT
import RunLoopKitFoundation
import Testing

/// A new thread, which has a loop of its own, runs a scenario; this waits for its result.
private func onNewThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
    nonisolated(unsafe) var result: Result?
    let done = DispatchSemaphore(value: 0)
    let thread = Thread {
        result = body()
        done.signal()
    }
    thread.start()
    done.wait()
    return result!
}

/// What happened, in order, on one thread.
private final class Notes: @unchecked Sendable {
    private let lock = NSLock()
    private var entries: [String] = []
    func add(_ entry: String) { lock.withLock { entries.append(entry) } }
    var all: [String] { lock.withLock { entries } }
}

extension Timer {
    /// What a program for Foundation's timer may have. It compiles if no name of RunLoopKit's timer means something else here.
    fileprivate static func pause<Kind: Clock>(until instant: Kind.Instant, by clock: Kind) async throws {
        try await clock.sleep(until: instant, tolerance: nil)
    }
}

/// A subclass of a program for Foundation's timer.
private final class PausingTimer: Timer, @unchecked Sendable {
    let clock: any Clock<Duration> = ContinuousClock()
}

/// The forms that take Foundation's dates.
@Suite struct DateTests {
    @Test("On a loop with a clock that the program moves an interval is one of that clock, and so is the end of a series of runs: S-CLK-3, S-NSTM-1, S-NSTM-2")
    func movedClock() {
        let clock = TestClock()
        RunLoop.with(clock: clock) {
            let notes = Notes()
            clock.advance(by: .seconds(3600))
            let timer = Timer(timeInterval: 60.0, repeats: false) { _ in notes.add("made") }
            RunLoop.current.add(timer, forMode: .default)
            Timer.scheduledTimer(withTimeInterval: 60.0, repeats: false) { _ in notes.add("scheduled") }
            clock.advance(by: .seconds(59))
            #expect(notes.all.isEmpty)
            clock.advance(by: .seconds(2))
            #expect(notes.all == ["made", "scheduled"])

            clock.setAutomatic(true)
            RunLoop.current.add(RunLoop.Source { _ in }, forMode: .default)
            let start = clock.now
            RunLoop.current.run(until: Date(timeIntervalSinceNow: 3600))
            #expect(start.duration(to: clock.now) >= .seconds(3599) && start.duration(to: clock.now) <= .seconds(3601))
        }
    }

    @Test("An extension and a subclass of Timer see Swift's clocks as with Foundation: S-NSRL-15")
    func clockNames() async throws {
        try await Timer.pause(until: .now, by: ContinuousClock())
        let timer = PausingTimer(timeInterval: 1000, repeats: false) { _ in }
        #expect(timer.clock is ContinuousClock && timer.timerClock == .monotonic)
    }

    @Test("The names mean RunLoopKit's classes, and the modes are spelt as Foundation's: S-NSRL-13, S-NSRL-15")
    func names() {
        #expect(RunLoop.self == RunLoopKit.RunLoop.self)
        #expect(Timer.self == RunLoopKit.Timer.self)
        #expect(RunLoop.Mode.default.rawValue == Foundation.RunLoop.Mode.default.rawValue)
        #expect(RunLoop.Mode.common.rawValue == Foundation.RunLoop.Mode.common.rawValue)
    }

    @Test("A timer by another clock takes dates and seconds too: S-TMR-58, S-TMR-61", arguments: [Timer.TimerClock.boot, .wall])
    func clocks(clock: Timer.TimerClock) {
        let date = Date(timeIntervalSinceNow: 3600.123456789)
        let timer = Timer(fire: date, interval: 0.1, repeats: true, clock: clock, name: "alarm") { _ in }
        #expect(timer.fireDate == date)
        #expect(timer.timerClock == clock)
        #expect(timer.debugName == "alarm")
        let fires = onNewThread {
            let notes = Notes()
            let begin = Date()
            let timer = Timer(timeInterval: 0.001, repeats: false, clock: clock) { _ in notes.add(Date() >= begin + 0.001 ? "on time" : "early") }
            RunLoop.current.add(timer, forMode: .default)
            RunLoop.current.run()
            return notes.all
        }
        #expect(fires == ["on time"])
    }

    @Test("Dates and intervals are given back bit for bit: S-NSTM-12, S-NSTM-3, S-NSTM-8")
    func exact() {
        let date = Date(timeIntervalSinceReferenceDate: 812_345_678.123456789)
        let timer = Timer(fire: date, interval: 0.1, repeats: true) { _ in }
        #expect(timer.fireDate == date)
        let interval: TimeInterval = timer.timeInterval
        #expect(interval == 0.1)
        let tiny = Timer(fire: date, interval: 1.23456789e-9, repeats: true) { _ in }
        #expect((tiny.timeInterval as TimeInterval) == 1.23456789e-9)
        let next = Date(timeIntervalSinceReferenceDate: 900_000_000.987654321)
        timer.fireDate = next
        let read = timer.fireDate
        #expect(read == next)
        #expect(Timer(fire: date, interval: 3, repeats: false) { _ in }.timeInterval == 0.0)
    }

    @Test("The date of an invalid timer is the last one: S-NSTM-10")
    func invalid() {
        let date = Date(timeIntervalSinceNow: 50)
        let timer = Timer(fire: date, interval: 0, repeats: false) { _ in }
        timer.invalidate()
        timer.fireDate = Date()
        #expect(timer.fireDate == date)
    }

    @Test("A reusable timer that has fired has a distant date until it is given another: S-TMR-57")
    func reusable() {
        let dates = onNewThread { () -> [Date] in
            let timer = Timer(timeInterval: 0, repeats: false) { _ in RunLoop.current.stop() }
            timer.isReusable = true
            RunLoop.current.add(timer, forMode: .default)
            _ = RunLoop.current.run(mode: .default, before: .distantFuture)
            return [timer.fireDate, timer.isValid ? .distantPast : Date()]
        }
        #expect(dates == [.distantFuture, .distantPast])
    }

    @Test("A repeating timer without an interval takes a tenth of a millisecond: S-NSTM-4",
          arguments: [0.0, -1.0, .nan])
    func zeroInterval(interval: TimeInterval) {
        let timer = Timer(timeInterval: interval, repeats: true) { _ in }
        #expect((timer.timeInterval as TimeInterval) == 0.0001)
    }

    @Test("A timer fires first one interval after its creation: S-NSTM-2")
    func firstDate() {
        let before = Date()
        let timer = Timer(timeInterval: 5, repeats: false) { _ in }
        #expect(timer.fireDate >= before.addingTimeInterval(5))
        #expect(timer.fireDate <= Date(timeIntervalSinceNow: 5))
    }

    @Test("Runs with dates do what those with instants do: S-NSRL-2, S-NSRL-3, S-NSRL-6, S-NSRL-8, S-NSRL-9")
    func runs() {
        let notes = onNewThread { () -> [String] in
            let notes = Notes()
            let loop = RunLoop.current
            notes.add("empty \(loop.run(mode: .default, before: .distantFuture))")
            notes.add("limit of empty \(loop.limitDate(forMode: .default) == nil)")
            let source = RunLoop.Source { _ in notes.add("source") }
            loop.add(source, forMode: .default)
            notes.add("past \(loop.run(mode: .default, before: .distantPast))")
            notes.add("limit \(loop.limitDate(forMode: .default) == Date.distantFuture)")
            source.signal()
            notes.add("source \(loop.run(mode: .default, before: .distantFuture))")
            source.signal()
            loop.acceptInput(forMode: .default, before: .distantFuture)
            source.signal()
            loop.acceptInput(forMode: "kCFRunLoopDefaultMode", before: .distantFuture)
            let timer = Timer.scheduledTimer(withTimeInterval: 1000, repeats: false) { _ in }
            notes.add("limit \(loop.limitDate(forMode: .default) == timer.fireDate)")
            let end = Date(timeIntervalSinceNow: 0.02)
            loop.run(until: end)
            notes.add("late \(Date() >= end)")
            timer.invalidate()
            source.invalidate()
            loop.run(until: .distantFuture)
            return notes.all
        }
        #expect(notes == [
            "empty false", "limit of empty true", "past true", "limit true", "source", "source true",
            "source", "source", "limit true", "late true",
        ])
    }

    @Test("Without a hint the date forms are meant, also where both modules have a member of that name")
    func withoutAHint() {
        let timer = Timer(timeInterval: 10, repeats: true) { _ in }
        let date = timer.fireDate
        let interval = timer.timeInterval
        timer.tolerance = 2
        #expect(type(of: date) == Date.self)
        #expect(type(of: interval) == TimeInterval.self)
        #expect(timer.tolerance == 2)
        onNewThread {
            RunLoop.current.run(until: .now)
            RunLoop.current.run(mode: .default, before: .now + 0.01)
            RunLoop.current.run(until: .now + .milliseconds(1))
        }
    }
}

/// Locks that are files, with Foundation's dates; and Foundation's own locks and threads beside RunLoopKit's loops.
@Suite struct LockDateTests {
    @Test("The date of a lock that is a file is a Date: S-DLOCK-7")
    func lockDate() throws {
        let path = NSTemporaryDirectory() + "RunLoopKitFoundation.\(UUID().uuidString)"
        let lock = try #require(NSDistributedLock(path: path))
        #expect(lock.lockDate == nil)
        #expect(lock.try())
        let date: Date = try #require(lock.lockDate)
        #expect(abs(date.timeIntervalSinceNow) < 3600)
        #expect(try lock.lock.lockDate == date)
        lock.unlock()
    }

    @Test("One import has Foundation's locks and threads under their names, and RunLoopKit's values: S-NSLK-5")
    func names() {
        let lock: Foundation.NSLock = NSLock()
        #expect(lock.try() && !lock.lock(before: Date()))
        lock.unlock()
        let condition: Foundation.NSCondition = NSCondition()
        condition.withLock {}
        let thread: Foundation.Thread = Thread {}
        thread.qualityOfService = QualityOfService.utility
        let loopThread = RunLoopThread(qualityOfService: .utility)
        #expect(loopThread.qualityOfService == .utility)
        #expect(Guarded(1).withLock { $0 } == 1)
    }
}
