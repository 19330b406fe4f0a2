// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// What a loop has of its sources that wait for the ends of their periods.
@Suite struct SourceWaitsTests {
    private struct Model {
        let link: SourceLinkPointer
        var end: Int64
        var turn: Int

        func precedes(_ other: Model) -> Bool { end != other.end ? end < other.end : turn < other.turn }
    }

    @Test("Waits come by their ends, equal ones in their order, and change and go at any time: S-LIM-2", arguments: 0..<100 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        // Of links nothing is looked at but the modes, here one that is only named.
        let mode = ModePointer(bitPattern: 64)!
        let links = (0..<40).map { _ in makeRecord(SourceLink.self) }
        defer { links.forEach(freeRecord) }
        for link in links where generator.below(3) == 0 { link.pointee.modes.insert(mode) }
        var waits = SourceWaits()
        var model: [Model] = []
        // Among what was expired at once there is no order.
        var hasOrder = true
        for turn in 0..<400 {
            let link = links[generator.below(links.count)]
            switch generator.below(8) {
            case 0...3:
                let end = Int64(generator.below(30))
                waits.set(link, end: end)
                model.removeAll { $0.link == link }
                model.append(Model(link: link, end: end, turn: turn))
            case 4:
                waits.remove(link)
                model.removeAll { $0.link == link }
            case 5:
                guard let first = waits.first?.pointee.link else { continue }
                waits.remove(first)
                model.removeAll { $0.link == first }
            case 6:
                let most = Int64(generator.below(40))
                let ends = model.filter { $0.link.pointee.modes.contains(mode) }.map(\.end)
                #expect(waits.firstEnd(in: mode, before: most) == min(ends.min() ?? most, most))
            default:
                guard generator.below(20) == 0 else { continue }
                waits.expireAll()
                hasOrder = false
                for index in model.indices { model[index].end = .min }
            }
            let least = model.min { $0.precedes($1) }
            if hasOrder { #expect(waits.first?.pointee.link == least?.link) }
            #expect(waits.first?.pointee.end == least?.end)
            #expect(waits.count == model.count)
            #expect(waits.isEmpty == model.isEmpty)
            #expect(waits.checkInvariants())
        }
        waits.free()
        #expect(waits.isIdle)
    }

    @Test("Links to be reported come in their order, once each, but for those that were forgotten: S-LIM-5", arguments: 0..<50 as Range<UInt64>)
    func reports(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let links = (1...20).map { SourceLinkPointer(bitPattern: 64 * $0)! }
        var waits = SourceWaits()
        var model: [SourceLinkPointer] = []
        for _ in 0..<400 {
            let link = links[generator.below(links.count)]
            switch generator.below(5) {
            case 0, 1:
                waits.expectTelling(link)
                if !model.contains(link) { model.append(link) }
            case 2, 3: #expect(waits.takeUntold() == (model.isEmpty ? nil : model.removeFirst()))
            default:
                waits.forget(link)
                model.removeAll { $0 == link }
            }
            #expect(waits.hasUntold == !model.isEmpty)
        }
        waits.free()
    }
}
