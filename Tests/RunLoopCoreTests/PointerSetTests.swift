@testable import RunLoopCore
import Testing

/// The sets of pointers: a hash set for any number, and one that is small for few.
@Suite struct PointerSetTests {
    /// Pointers that stand for elements; nothing lies behind them.
    private static func element(_ number: Int) -> UnsafeMutablePointer<Int> {
        UnsafeMutablePointer(bitPattern: (number + 1) * 16)!
    }

    @Test("A pointer set holds what was inserted and not removed: S-MODE-15", arguments: 0..<50 as Range<UInt64>)
    func pointerSet(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var set = PointerSet<Int>()
        var model: Set<UnsafeMutablePointer<Int>> = []
        let range = 1 << generator.below(8)
        for _ in 0..<500 {
            let element = PointerSetTests.element(generator.below(range))
            #expect(set.contains(element) == model.contains(element))
            if model.contains(element) {
                set.remove(element)
                model.remove(element)
            } else {
                set.insert(element)
                model.insert(element)
            }
            #expect(set.count == model.count)
            var seen: Set<UnsafeMutablePointer<Int>> = []
            set.forEach { #expect(seen.insert($0).inserted) }
            #expect(seen == model)
            #expect(set.first.map(model.contains) ?? model.isEmpty)
        }
        set.removeAll()
        #expect(set.count == 0 && set.first == nil)
    }

    @Test("A small set keeps the order of insertion: S-MODE-21, S-MODE-22", arguments: 0..<50 as Range<UInt64>)
    func smallSet(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var set = SmallSet<Int>()
        var model: [UnsafeMutablePointer<Int>] = []
        let range = 1 << generator.below(5)
        for _ in 0..<500 {
            let element = PointerSetTests.element(generator.below(range))
            #expect(set.contains(element) == model.contains(element))
            if let index = model.firstIndex(of: element) {
                set.remove(element)
                model.remove(at: index)
            } else {
                set.insert(element)
                model.append(element)
            }
            #expect((0..<set.count).map { set[$0] } == model)
            #expect(set.isEmpty == model.isEmpty)
            #expect(set.last == model.last)
        }
        set.removeAll()
        #expect(set.isEmpty)
    }

    @Test("Removing what is not in the set changes nothing: S-TMR-17")
    func removeStranger() {
        var set = SmallSet<Int>()
        set.remove(PointerSetTests.element(1))
        set.insert(PointerSetTests.element(2))
        set.remove(PointerSetTests.element(1))
        set.insert(PointerSetTests.element(3))
        set.remove(PointerSetTests.element(1))
        #expect((0..<set.count).map { set[$0] } == [PointerSetTests.element(2), PointerSetTests.element(3)])
        set.removeAll()
        var large = PointerSet<Int>()
        large.remove(PointerSetTests.element(1))
        #expect(large.count == 0)
    }
}
