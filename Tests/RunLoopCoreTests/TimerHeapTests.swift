// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The heap of timers that are due soon.
@Suite struct TimerHeapTests {
    @Test("The heap gives timers by instant and, for equal instants, by insertion: S-TMR-21", arguments: 0..<100 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var heap = TimerHeap()
        var model: [ModelTimer] = []
        var sequence = 0
        for _ in 0..<400 {
            switch generator.below(5) {
            case 0, 1, 2:
                let instant = Int64(generator.below(30))
                let timer = makeTimer(instant: instant)
                timer.firstNode.pointee.sequence = sequence
                heap.insert(timer.firstNode, instant: instant)
                model.append(ModelTimer(timer: timer, instant: instant, sequence: sequence))
                // Any number of insertions lie between two that meet here.
                sequence += seed % 2 == 0 ? 1 : 1_100_000_000
            case 3:
                guard !model.isEmpty else { continue }
                let entry = model.remove(at: generator.below(model.count))
                heap.remove(entry.node)
                #expect(entry.node.pointee.place == .nowhere)
                entry.timer.release()
            default:
                guard let least = model.inOrder.first else { continue }
                #expect(heap.first.instant == least.instant)
                let node = heap.removeFirst()
                #expect(node == least.node)
                model.removeAll { $0.node == node }
                least.timer.release()
            }
            #expect(heap.checkInvariants())
            #expect(heap.count == model.count)
            #expect(heap.isEmpty == model.isEmpty)
        }
        for entry in model.inOrder { #expect(heap.removeFirst() == entry.node) }
        model.release()
        heap.free()
    }

    @Test("A wait may go on until the first timer that would be late by more than its tolerance: S-TMR-53",
          arguments: 0..<100 as Range<UInt64>)
    func latestWake(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var heap = TimerHeap()
        var model: [ModelTimer] = []
        for index in 0..<generator.below(40) + 1 {
            let instant = Int64(generator.below(1_000_000))
            let tolerance = Double(generator.below(3)) * Double(generator.below(300_000)) * 1e-9
            let timer = makeTimer(instant: instant, tolerance: tolerance)
            timer.firstNode.pointee.sequence = index
            heap.insert(timer.firstNode, instant: instant)
            model.append(ModelTimer(timer: timer, instant: instant, sequence: index))
        }
        let limit = Int64(generator.below(1_500_000))
        // All timers that come before the wake fire at it, so none of them may be beyond its tolerance there.
        let expected = model.map(\.timer.latestInstant).min().map { min($0, limit) }
        #expect(heap.latestWake(limit) == expected)
        model.release()
        heap.free()
    }
}

extension TimerHeap {
    fileprivate mutating func removeFirst() -> TimerNodePointer {
        let node = first.node
        remove(node)
        return node
    }
}
