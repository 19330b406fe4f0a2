// SPDX-License-Identifier: MIT
import CRunLoop
@testable import RunLoopCore
import Synchronization
import Testing

/// The grid of a repeating timer.
@Suite struct TimerGridTests {
    @Test("The next instant is the first of the grid that is later than now: S-TMR-29, S-TMR-30, S-TMR-32",
          arguments: 0..<300 as Range<UInt64>)
    func nextInstant(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        // From a nanosecond to days; whole nanoseconds, so that the grid can be told exactly.
        let step = Int64(1) << Int64(generator.below(48))
        let start = Int64(generator.below(1 << 50))
        let timer = makeTimer(instant: start, interval: Double(step) * 1e-9)
        var now = start
        for _ in 0..<20 {
            now += Int64.random(in: 0..<(step * Int64(1 + generator.below(100))), using: &generator)
            let before = timer.pointee.instant
            timer.advance(past: now)
            let instant = timer.pointee.instant
            #expect(instant > now)
            #expect(instant > before)
            #expect(instant - max(now, before) <= step)
            // A double has 53 bits for the distance, and the interval itself is rounded to one.
            let distance = (instant - start) % step
            let error = min(distance, step - distance)
            #expect(error <= 1 + (instant - start) >> 50)
        }
        timer.release()
    }

    @Test("Ten thousand fires add no drift: S-TMR-33", arguments: [0.1, 1.0 / 3, 0.0166666666, 1e-6 / 3])
    func drift(interval: Double) {
        let start: Int64 = 1_000_000_007
        let timer = makeTimer(instant: start, interval: interval)
        for _ in 0..<10_000 { timer.advance(past: timer.pointee.instant) }
        let exact = Double(start) + 10_000 * interval * 1e9
        #expect(abs(Double(timer.pointee.instant) - exact) < 1000)
        timer.release()
    }

    @Test("Lateness of years is made up in one step: S-TMR-32")
    func years() {
        let timer = makeTimer(instant: 5, interval: 1e-9)
        let now: Int64 = 10 * 365 * 86400 * 1_000_000_000
        timer.advance(past: now)
        #expect(timer.pointee.instant > now)
        #expect(timer.pointee.instant <= now + 1000)
        timer.release()
    }

    @Test("A timer that never fires never fires again either: S-TMR-8")
    func never() {
        let timer = makeTimer(instant: Clock.never, interval: 1)
        timer.advance(past: 1000)
        #expect(timer.pointee.instant == Clock.never)
        timer.release()
    }

    @Test("Instants of past dates are distinct and in order: S-TMR-22")
    func dueInstants() {
        var previous: Int64 = 0
        for _ in 0..<1000 {
            let instant = dueInstant(ofDate: -1)
            #expect(instant > previous)
            previous = instant
        }
    }

    @Test("A date is turned into an instant within limits: S-TMR-6, S-TMR-8, S-TMR-9")
    func dates() {
        #expect(dueInstant(ofDate: .nan) == Clock.never)
        let before = Clock.now()
        let farthest = dueInstant(ofDate: .infinity)
        #expect(farthest >= before + Clock.nanoseconds(Clock.longestInterval))
        #expect(farthest <= Clock.now() + Clock.nanoseconds(Clock.longestInterval))
        #expect(dueInstant(ofDate: -.infinity) <= Clock.now() + 1_000_000)
    }

    @Test("Without a usable counter dates mean the same: S-TMR-9")
    func datesWithoutCounter() {
        let date = RLAbsoluteTimeGetCurrent() + 1000
        let instant = dueInstant(ofDate: date)
        let counts = process.pointee.counts.exchange(1, ordering: .relaxed)
        #expect(dueInstant(ofDate: date) == instant)
        #expect(dueInstant(ofDate: .infinity) > instant)
        process.pointee.counts.store(counts, ordering: .relaxed)
    }

    /// When a timer that is created with that date is due.
    private func dueInstant(ofDate date: Double) -> Int64 {
        let timer = RLTimerCreate(date, 0, 0, 0, nil, nil)!
        defer { RLRelease(RLTypeRef(timer)) }
        return UnsafeMutableRawPointer(timer).assumingMemoryBound(to: Timer.self).pointee.instant
    }
}
