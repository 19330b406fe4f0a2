// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Timers with Foundation's shape.
@Suite struct TimerTests {
    @Test("A scheduled timer is in the default mode of the current loop: S-NSTM-1")
    func scheduled() {
        let (contained, fired, result) = onNewThread {
            let trace = Trace()
            let before = ContinuousClock.now
            let timer = Timer.scheduledTimer(withTimeInterval: .milliseconds(10), repeats: false) { timer in
                trace.add("valid \(timer.isValid)")
                if timer.fireDate >= before + .milliseconds(10) { trace.add("on time") }
            }
            let contained = RunLoop.current.contains(timer, forMode: .default)
            let result = RunLoop.current.run(mode: .default)
            trace.add("valid \(timer.isValid)")
            return (contained, trace.all, result)
        }
        #expect(contained)
        #expect(fired == ["valid true", "on time", "valid false"])
        #expect(result == .finished)
    }

    @Test("A timer fires first one interval after its creation: S-NSTM-2")
    func firstDate() {
        let before = ContinuousClock.now
        let timer = Timer(timeInterval: .seconds(5), repeats: false) { _ in }
        let after = ContinuousClock.now
        #expect(timer.fireDate >= before + .seconds(5))
        #expect(timer.fireDate <= after + .seconds(5))
        #expect(onNewThread { !RunLoop.current.contains(timer, forMode: .default) })
    }

    @Test("A timer goes by the clock that it is made with, and keeps its date exactly: S-TMR-58, S-TMR-61, S-NSTM-12",
          arguments: [Timer.TimerClock.monotonic, .boot, .wall])
    func clocks(clock: Timer.TimerClock) {
        let date = ContinuousClock.now + .milliseconds(5)
        let (name, before, fires) = onNewThread { () -> (String?, Bool, Int) in
            let trace = Trace()
            let timer = Timer(fire: date, interval: .milliseconds(5), repeats: true, clock: clock, name: "tick") { timer in
                trace.add("fire")
                if trace.count == 3 { timer.invalidate() }
            }
            let isExact = timer.fireDate == date && timer.timerClock == clock
            RunLoop.current.add(timer, forMode: .default)
            RunLoop.current.run(mode: .default)
            return (timer.debugName, isExact, trace.count)
        }
        #expect(name == "tick")
        #expect(before)
        #expect(fires == 3)
        #expect(Timer(timeInterval: .seconds(1), repeats: false) { _ in }.timerClock == .monotonic)
        #expect(Timer(timeInterval: .zero, repeats: true, clock: clock) { _ in }.timeInterval == .microseconds(100))
    }

    @Test("A timer given a date keeps it exactly: S-NSTM-3, S-NSTM-12")
    func exactDate() {
        let date = ContinuousClock.now + .nanoseconds(1_234_567_890_123)
        let timer = Timer(fire: date, interval: .milliseconds(100), repeats: true) { _ in }
        #expect(timer.fireDate == date)
        #expect(timer.timeInterval == .milliseconds(100))
        timer.fireDate = date + .nanoseconds(100_000_001)
        #expect(timer.fireDate == date + .nanoseconds(100_000_001))
    }

    @Test("A repeating timer with no interval takes a tenth of a millisecond: S-NSTM-4",
          arguments: [Duration.zero, .seconds(-1)])
    func zeroInterval(interval: Duration) {
        let timer = Timer(timeInterval: interval, repeats: true) { _ in }
        #expect(timer.timeInterval == .microseconds(100))
        let fires = onNewThread { () -> Int in
            let trace = Trace()
            let timer = Timer.scheduledTimer(withTimeInterval: interval, repeats: true) { timer in
                trace.add("fire")
                if trace.count == 3 { timer.invalidate() }
            }
            RunLoop.current.run(mode: .default)
            _ = timer
            return trace.count
        }
        #expect(fires == 3)
    }

    @Test("fire() on a repeating timer calls back now and leaves the schedule: S-NSTM-5")
    func fireRepeating() {
        let trace = Trace()
        let timer = Timer(timeInterval: .seconds(100), repeats: true) { _ in trace.add("fire") }
        let date = timer.fireDate
        timer.fire()
        timer.fire()
        #expect(trace.all == ["fire", "fire"])
        #expect(timer.isValid)
        #expect(timer.fireDate == date)
    }

    @Test("fire() on a timer that does not repeat calls back and invalidates: S-NSTM-6, S-NSTM-7")
    func fireOnce() {
        let trace = Trace()
        let timer = Timer(timeInterval: .seconds(100), repeats: false) { timer in
            trace.add("valid \(timer.isValid)")
        }
        timer.fire()
        timer.fire()
        #expect(trace.all == ["valid true"])
        #expect(!timer.isValid)
    }

    @Test("The interval of a timer that does not repeat is zero: S-NSTM-8")
    func intervalOfOneShot() {
        let timer = Timer(fire: .now, interval: .seconds(3), repeats: false) { _ in }
        #expect(timer.timeInterval == .zero)
    }

    @Test("The closure is kept until the timer is invalidated: S-NSTM-9, S-TMR-42")
    func closureLife() {
        let canary = Canary()
        let timer = makeTimer(capturing: canary)
        #expect(canary.deaths == 0)
        timer.invalidate()
        #expect(canary.deaths == 1)
        #expect(!timer.isValid)
    }

    @Test("A timer that nobody holds takes its closure with it: S-TMR-48")
    func droppedTimer() {
        let canary = Canary()
        _ = makeTimer(capturing: canary)
        #expect(canary.deaths == 1)
    }

    @Test("The loop keeps a timer whose creator let it go: S-REF-2, S-TMR-28")
    func loopKeepsTimer() {
        let canary = Canary()
        let deaths = onNewThread { () -> [Int] in
            let trace = Trace()
            let captured = canary.capture()
            Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: false) { _ in
                captured.touch()
                trace.add("\(canary.deaths)")
            }
            RunLoop.current.run(mode: .default)
            return [trace.count]
        }
        #expect(deaths == [1])
        #expect(canary.deaths == 1)
    }

    @Test("An invalid timer gives the last date: S-NSTM-10")
    func dateOfInvalidTimer() {
        let date = ContinuousClock.now + .seconds(77)
        let timer = Timer(fire: date, interval: .zero, repeats: false) { _ in }
        timer.invalidate()
        #expect(timer.fireDate == date)
        timer.fireDate = date + .seconds(1)
        #expect(timer.fireDate == date)
    }

    @Test("A timer set to a past date of a later moment gives that date after it fired: S-NSTM-10, S-TMR-34")
    func dateAfterFiring() {
        let (set, read) = onNewThread {
            let timer = Timer.scheduledTimer(withTimeInterval: .seconds(1000), repeats: false) { _ in }
            let set = ContinuousClock.now - .seconds(2)
            timer.fireDate = set
            RunLoop.current.run(mode: .default)
            return (set, timer.fireDate)
        }
        #expect(set == read)
    }

    @Test("A date set from another thread is obeyed by a waiting loop: S-TMR-41, S-WAKE-14")
    func dateFromAnotherThread() {
        let waiting = Promise<Timer>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let timer = Timer.scheduledTimer(withTimeInterval: .seconds(100_000), repeats: false) { _ in }
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(timer) }
            RunLoop.current.add(ready, forMode: .default)
            return RunLoop.current.run(mode: .default)
        }
        waiting.value.fireDate = .now
        #expect(thread.join() == .finished)
    }

    @Test("Tolerance is zero at first and at most half the interval: S-TMR-50, S-TMR-51, S-TMR-52")
    func tolerance() {
        let repeating = Timer(timeInterval: .seconds(2), repeats: true) { _ in }
        #expect(repeating.tolerance == .zero)
        repeating.tolerance = .milliseconds(250)
        #expect(repeating.tolerance == .milliseconds(250))
        repeating.tolerance = .seconds(5)
        #expect(repeating.tolerance == .seconds(1))
        repeating.tolerance = .seconds(-1)
        #expect(repeating.tolerance == .zero)
    }

    @Test("A timer belongs to one loop: S-TMR-13, S-TMR-14, S-TMR-16")
    func oneLoop() {
        let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in }
        let first = Promise<RunLoop>()
        let removed = Promise<Void>()
        let owner = TestThread {
            RunLoop.current.add(timer, forMode: .default)
            first.fulfil(RunLoop.current)
            removed.value
        }
        let (refused, taken) = onNewThread {
            let owning = first.value
            RunLoop.current.add(timer, forMode: .default)
            let refused = !RunLoop.current.contains(timer, forMode: .default)
            owning.remove(timer, forMode: .default)
            RunLoop.current.add(timer, forMode: .default)
            return (refused, RunLoop.current.contains(timer, forMode: .default))
        }
        removed.fulfil(())
        owner.join()
        #expect(refused)
        #expect(taken)
    }

    @Test("A closure is given the very object that was made, as long as somebody has it: S-NSRL-15")
    func sameObject() {
        let made = Promise<Timer>()
        let same = onNewThread { () -> [Bool] in
            let results = Trace()
            made.fulfil(Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: true) { timer in
                results.add(timer === made.value ? "same" : "other")
                if results.count == 2 { timer.invalidate() }
            })
            RunLoop.current.run()
            return results.all.map { $0 == "same" }
        }
        made.forget()
        #expect(same == [true, true])
    }

    @Test("A timer made with an instant is not early by the continuous clock: S-TMR-20, S-NSTM-3")
    func neverEarly() {
        let early = onNewThread { () -> Int in
            let trace = Trace()
            for step in 0..<20 {
                let date = ContinuousClock.now + .microseconds(300 * step)
                let timer = Timer(fire: date, interval: .zero, repeats: false) { timer in
                    if ContinuousClock.now < date || timer.fireDate != date { trace.add("early") }
                }
                RunLoop.current.add(timer, forMode: .default)
            }
            RunLoop.current.run()
            return trace.count
        }
        #expect(early == 0)
    }

    @Test("A repeating timer's dates lie on the grid that its first date begins: S-TMR-29, S-NSTM-3")
    func grid() {
        let dates = onNewThread { () -> [Duration] in
            let (timer, start, seen) = futureTimer()
            RunLoop.current.add(timer, forMode: .default)
            RunLoop.current.run()
            return seen.all.map { $0 - start }
        }
        #expect(dates.count == 5)
        #expect(dates.first == .zero)
        for date in dates {
            // Dates have the precision of a double that counts from 2001, about a tenth of a microsecond.
            let steps = (date / .milliseconds(2)).rounded()
            let error = date - .milliseconds(2) * steps
            #expect(error < .microseconds(1) && error > .microseconds(-1))
        }
    }

    /// A timer whose first date was still to come when it was made, that date, and the dates it then notes: five of a grid of
    /// two milliseconds. A date that passed before would not begin the grid (S-TMR-31), and a thread may be interrupted
    /// for any time.
    private func futureTimer() -> (Timer, ContinuousClock.Instant, Grid) {
        var delay = Duration.milliseconds(5)
        while true {
            let seen = Grid()
            let start = ContinuousClock.now + delay
            let timer = Timer(fire: start, interval: .milliseconds(2), repeats: true) { timer in
                seen.add(timer.fireDate)
                if seen.all.count == 5 { timer.invalidate() }
            }
            if ContinuousClock.now < start { return (timer, start, seen) }
            timer.invalidate()
            delay *= 2
        }
    }

    @Test("The distant future reads as the latest date there is, and an invalid timer keeps it: S-NSTM-12, S-NSTM-10")
    func distantDates() {
        let timer = Timer(fire: .distantFuture, interval: .zero, repeats: false) { _ in }
        let latest = timer.fireDate
        #expect(latest < .distantFuture)
        #expect(latest > .now + .seconds(100 * 365 * 86400))
        timer.fireDate = .distantPast
        #expect(timer.fireDate == .distantPast)
        timer.invalidate()
        timer.fireDate = .now
        #expect(timer.fireDate == .distantPast)
    }

    @Test("A date may be read and set on any thread while the timer is used: S-NSTM-11")
    func anyThread() {
        let fired = onNewThread { () -> Int in
            let trace = Trace()
            let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in trace.add("fire") }
            RunLoop.current.add(timer, forMode: .default)
            TestThread { timer.fireDate = .now; timer.tolerance = .milliseconds(1) }.join()
            RunLoop.current.run(mode: .default)
            let other = Timer(timeInterval: .zero, repeats: true) { _ in trace.add("fire") }
            RunLoop.current.add(other, forMode: .default)
            TestThread { other.invalidate() }.join()
            RunLoop.current.run(mode: .default)
            return trace.count
        }
        #expect(fired == 1)
    }

    @Test("The timer a closure is given equals the one that was made: S-NSRL-15")
    func identity() {
        let made = Promise<Timer>()
        let same = onNewThread { () -> Bool in
            let result = Promise<Bool>()
            let timer = Timer.scheduledTimer(withTimeInterval: .zero, repeats: false) { timer in
                result.fulfil(timer == made.value && timer.hashValue == made.value.hashValue)
            }
            made.fulfil(timer)
            RunLoop.current.run(mode: .default)
            return result.value
        }
        #expect(same)
        #expect(made.value != Timer(timeInterval: .zero, repeats: false) { _ in })
    }

    private func makeTimer(capturing canary: Canary) -> Timer {
        let captured = canary.capture()
        return Timer(timeInterval: .seconds(100), repeats: true) { _ in captured.touch() }
    }
}

/// Instants in order; any thread may add one.
private final class Grid: Sendable {
    private let entries = Mutex<[ContinuousClock.Instant]>([])

    func add(_ entry: ContinuousClock.Instant) { entries.withLock { $0.append(entry) } }

    var all: [ContinuousClock.Instant] { entries.withLock { $0 } }
}
