@testable import RunLoopCore
import Testing

/// The timers of one mode: heap, wheel and the batch that is firing.
@Suite struct TimerStoreTests {
    @Test("Batches take the due timers in firing order, and no wake-up is too late: S-TMR-20, S-TMR-21, S-TMR-23, S-TMR-55",
          arguments: 0..<100 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = TimerStore()
        var model: [ModelTimer] = []
        // The store's first timer reads the clock, so the test's time starts there.
        var now = Clock.now()
        var sequence: UInt32 = 0
        var batch: UInt32 = 0
        for _ in 0..<300 {
            switch generator.below(6) {
            case 0, 1, 2:
                let distance = Int64(1000) << Int64(generator.below(30))
                // Half of them have one of a few instants, so that many are due at the same one.
                let instant =
                    generator.below(2) == 0
                    ? now + Int64(generator.below(3)) * 500
                    : now + Int64.random(in: -1000..<distance, using: &generator)
                let timer = makeTimer(instant: instant)
                store.insert(timer.firstNode)
                model.append(ModelTimer(timer: timer, instant: instant, sequence: sequence))
                sequence += 1
            case 3:
                guard !model.isEmpty else { continue }
                let entry = model.remove(at: generator.below(model.count))
                store.remove(entry.node)
                store.remove(entry.node)
                #expect(entry.node.pointee.place == .nowhere)
                entry.timer.release()
            default:
                now += Int64.random(in: 0..<(Int64(1000) << Int64(generator.below(25))), using: &generator)
                let due = model.filter { $0.instant <= now }.inOrder
                #expect(store.hasDue(now) == !due.isEmpty)
                if due.isEmpty, let least = model.inOrder.first {
                    // Without tolerance the loop may sleep to the earliest timer at the most.
                    #expect(store.nextWake() <= least.instant)
                    #expect(store.nextWake() > now - Int64(1 << TimerWheel.tickBits))
                }
                batch += 1
                store.collectDue(now, batch: batch)
                for entry in due {
                    #expect(store.firstMemberDue == entry.node)
                    #expect(store.earliest() == entry.node)
                    #expect(entry.node.pointee.place == .due)
                    #expect(entry.node.pointee.sequence == batch)
                    store.remove(entry.node)
                }
                #expect(store.firstMemberDue == nil)
                model.removeAll { $0.instant <= now }
                due.release()
            }
            #expect(store.checkInvariants())
            #expect(store.isEmpty == model.isEmpty)
            #expect(store.earliest() == model.inOrder.first?.node)
            #expect((store.anyNode == nil) == model.isEmpty)
        }
        model.release()
        store.free()
    }

    @Test("With tolerances the loop sleeps past no timer's last moment: S-TMR-53", arguments: 0..<200 as Range<UInt64>)
    func tolerances(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = TimerStore()
        let now = Clock.now()
        var model: [ModelTimer] = []
        for sequence in 0..<generator.below(60) + 1 {
            let distance = Int64(100_000) << Int64(generator.below(16))
            let instant = now + 1 + Int64.random(in: 0..<distance, using: &generator)
            let tolerance = generator.below(3) == 0 ? 0 : Double(distance) * 1e-9 * Double(generator.below(100)) / 50
            let timer = makeTimer(instant: instant, tolerance: tolerance)
            store.insert(timer.firstNode)
            model.append(ModelTimer(timer: timer, instant: instant, sequence: UInt32(sequence)))
        }
        if !store.hasDue(now) {
            #expect(store.nextWake() <= model.map(\.timer.latestInstant).min()!)
        }
        for entry in model { store.remove(entry.node) }
        #expect(store.isEmpty)
        model.release()
        store.free()
    }

    @Test("A nested batch joins the timers of the outer one in firing order: S-TMR-21, S-TMR-27")
    func nestedBatches() {
        var store = TimerStore()
        let now = Clock.now()
        let timers = [30, 10, 20, 40].map { makeTimer(instant: now + $0) }
        for timer in timers[0...1] { store.insert(timer.firstNode) }
        store.collectDue(now + 50, batch: 1)
        for timer in timers[2...3] { store.insert(timer.firstNode) }
        store.collectDue(now + 50, batch: 2)
        var order: [Int64] = []
        while let node = store.firstMemberDue {
            order.append(node.instant - now)
            store.remove(node)
        }
        #expect(order == [10, 20, 30, 40])
        for timer in timers { timer.release() }
        store.free()
    }
}
