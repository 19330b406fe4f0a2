// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Durations and instants that no clock shows.
@Suite(.timeLimit(.minutes(10))) struct DateRangeTests {
    /// Beyond what a number of seconds can say, and at its edges.
    static let durations: [Duration] = [
        Duration(attoseconds: .max), Duration(attoseconds: .min), .seconds(Int64.max), .seconds(Int64.min),
        .seconds(Int64.max) + .seconds(1), .seconds(64_000_000_001), .zero - .seconds(64_000_000_001),
    ]

    @Test("A timer takes any interval and any tolerance: S-TMR-6", arguments: durations)
    func timers(_ duration: Duration) {
        for repeats in [false, true] {
            let timer = Timer(timeInterval: duration, repeats: repeats) { _ in }
            #expect(timer.isValid)
            timer.tolerance = duration
            _ = (timer.tolerance, timer.timeInterval, timer.fireDate)
            #expect(duration < .zero || timer.fireDate > .now + .seconds(1_000_000))
        }
    }

    /// The instants nearest to the ends of what an instant can be.
    static var instants: [ContinuousClock.Instant] {
        let now = ContinuousClock.now
        let sinceStart = Duration(attoseconds: (now - now).attoseconds)
        let distance = Duration(attoseconds: .max)
        return [
            now - distance + sinceStart, .distantPast, .distantFuture, .distantFuture + .seconds(Int64.max),
            .distantPast - .seconds(Int64.max),
        ]
    }

    @Test("A timer takes any date: S-TMR-6", arguments: instants)
    func dates(_ date: ContinuousClock.Instant) {
        let timer = Timer(fire: date, interval: .seconds(1), repeats: true) { _ in }
        timer.fireDate = date
        #expect(timer.isValid)
        _ = timer.fireDate
        #expect(timer.fireDate > .now || date < .now)
    }

    @Test("An instant of a test clock is at most the last one and at least the first, and any two have a distance: S-CLK-11", arguments: durations)
    func testClock(_ duration: Duration) {
        let clock = TestClock()
        let start = clock.now
        var instant = start
        for _ in 0..<200 { instant = instant.advanced(by: duration) }
        #expect(duration < .zero ? instant < start : instant > start)
        #expect(instant.advanced(by: duration) == instant)
        var opposite = start
        for _ in 0..<200 { opposite = opposite.advanced(by: duration < .zero ? .seconds(Int64.max) : .seconds(Int64.min)) }
        let distance = instant.duration(to: opposite)
        #expect(distance == .zero - opposite.duration(to: instant))
        #expect(duration < .zero ? distance > .zero : distance < .zero)
        // What has to come to such an instant does not stop the program either.
        clock.setDate(instant)
        RunLoop.with(clock: clock) {
            let timer = Timer(fire: opposite, interval: duration, repeats: true) { $0.invalidate() }
            RunLoop.current.add(timer, forMode: .default)
            clock.advance(by: duration)
        }
    }

    @Test("The last instant of a test clock is no later by any duration, and the first one no earlier: S-CLK-11")
    func endsOfTestClock() {
        func end(_ duration: Duration) -> TestClock.Instant {
            var instant = TestClock().now
            for _ in 0..<400 { instant = instant.advanced(by: duration) }
            return instant
        }
        let first = end(.seconds(Int64.min))
        let last = end(.seconds(Int64.max))
        for step in [Duration.microseconds(1), .milliseconds(1), .milliseconds(999), .seconds(1), .seconds(1.5)] {
            #expect(first.advanced(by: .zero - step) == first)
            #expect(last.advanced(by: step) == last)
            #expect(first.advanced(by: step).duration(to: first) == .zero - step)
            #expect(last.advanced(by: .zero - step).duration(to: last) == step)
        }
        #expect(first.advanced(by: .zero) == first && last.advanced(by: .zero) == last)
    }

    @Test("Runs, requests and sequences take any date and any time: S-RUN-17", arguments: durations)
    func runs(_ duration: Duration) {
        let instants = DateRangeTests.instants
        onNewThread {
            let loop = RunLoop.current
            loop.perform { loop.stop() }
            loop.keepAlive()
            loop.run(mode: .default, for: duration)
            for instant in instants {
                loop.perform { loop.stop() }
                loop.run(mode: .default, before: instant, stoppedBy: loop)
            }
            let request = RunLoop.perform(afterDelay: duration) {}
            request.cancel()
            _ = loop.ticks(every: duration, tolerance: duration)
            loop.setSpinLimit(duration)
            loop.setSpinLimit(.zero)
            let port = Port()
            for instant in instants where instant < .now {
                #expect(port.send(before: instant, components: nil, from: nil, reserved: 0))
            }
            port.invalidate()
            _ = try? RunLoop.Source(every: duration) { _, _ in }
            _ = try? RunLoop.Source(whenWallClockShows: duration) { _ in }
        }
    }
}

extension RunLoop {
    /// A run that a source ends at once, whatever its date.
    fileprivate func run(mode: Mode, before instant: ContinuousClock.Instant, stoppedBy loop: RunLoop) {
        let source = Source { _ in }
        add(source, forMode: mode)
        source.signal()
        run(mode: mode, before: instant)
        source.invalidate()
    }
}
