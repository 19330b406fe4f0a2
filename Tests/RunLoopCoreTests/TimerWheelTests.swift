// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The wheel of timers that are due later.
@Suite struct TimerWheelTests {
    /// A tick in nanoseconds.
    private static var tickLength: Int64 { 1 << Int64(TimerWheel.tickBits) }

    @Test("The wheel gives out exactly the timers whose tick has come: S-TMR-20, S-TMR-23", arguments: 0..<100 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var wheel = TimerWheel()
        var model: [ModelTimer] = []
        var now = Int64(generator.below(1 << 50))
        wheel.set(tick: TimerWheel.tick(of: now))
        var sequence = 0
        for _ in 0..<300 {
            switch generator.below(6) {
            case 0, 1, 2:
                // From the next tick to centuries away, every magnitude as likely as any other.
                let distance = TimerWheelTests.tickLength << Int64(generator.below(38))
                let instant = now + TimerWheelTests.tickLength + Int64.random(in: 0..<distance, using: &generator)
                let timer = makeTimer(instant: instant)
                timer.firstNode.pointee.sequence = sequence
                wheel.insert(timer.firstNode, instant: instant)
                model.append(ModelTimer(timer: timer, instant: instant, sequence: sequence))
                sequence += 1
            case 3:
                guard !model.isEmpty else { continue }
                let entry = model.remove(at: generator.below(model.count))
                wheel.remove(entry.node)
                #expect(entry.node.pointee.place == .nowhere)
                entry.timer.release()
            default:
                let step = TimerWheelTests.tickLength << Int64(generator.below(30))
                now += Int64.random(in: 0..<step, using: &generator)
                let tick = TimerWheel.tick(of: now)
                var due: Set<TimerNodePointer> = []
                wheel.advance(to: tick) { node in
                    #expect(due.insert(node).inserted, "seed \(seed): a timer is given out once")
                }
                let expected = model.filter { TimerWheel.tick(of: $0.instant) <= tick }
                #expect(due == Set(expected.map(\.node)))
                model.removeAll { due.contains($0.node) }
                expected.release()
                #expect(wheel.tick == tick)
            }
            check(&wheel, model)
        }
        for entry in model { wheel.remove(entry.node) }
        model.release()
        wheel.free()
    }

    private func check(_ wheel: inout TimerWheel, _ model: [ModelTimer]) {
        #expect(wheel.checkInvariants())
        #expect(wheel.count == model.count)
        #expect(wheel.isEmpty == model.isEmpty)
        guard let least = model.inOrder.first else { return }
        let first = wheel.first()
        #expect(first == least.node)
        // The loop is never told to sleep past the earliest timer.
        let next = wheel.nextInstant().instant
        #expect(next <= least.instant)
        #expect(next > wheel.tick << Int64(TimerWheel.tickBits))
    }

    @Test("A crowded bucket never lets the loop sleep past its earliest timer: S-TMR-20, S-TMR-21", arguments: [2, 17, 18, 200])
    func crowdedBucket(count: Int) {
        var wheel = TimerWheel()
        wheel.set(tick: 1 << 20)
        // All of them in one bucket of a high level, the earliest inserted first and so last in the bucket's list.
        let begin = Int64((1 << 20) + (5 << 12)) << Int64(TimerWheel.tickBits)
        let timers = (0..<count).map { makeTimer(instant: begin + Int64($0) * 1000) }
        for timer in timers { wheel.insert(timer.firstNode, instant: timer.pointee.instant) }
        #expect(Set(timers.map(\.firstNode.pointee.index)).count == 1)
        let next = wheel.nextInstant().instant
        #expect(next <= begin)
        let first = wheel.first()
        #expect(first == timers[0].firstNode)
        for timer in timers {
            wheel.remove(timer.firstNode)
            timer.release()
        }
        #expect(wheel.isEmpty)
        wheel.free()
    }

    @Test("A timer that never fires stays in the wheel: S-TMR-8")
    func never() {
        var wheel = TimerWheel()
        wheel.set(tick: 1000)
        let timer = makeTimer(instant: Clock.never)
        wheel.insert(timer.firstNode, instant: Clock.never)
        #expect(wheel.checkInvariants())
        for shift in 10..<43 {
            wheel.advance(to: 1 << Int64(shift)) { _ in Issue.record("a timer that never fires was given out") }
            #expect(wheel.checkInvariants())
        }
        wheel.remove(timer.firstNode)
        #expect(wheel.isEmpty)
        timer.release()
        wheel.free()
    }
}
