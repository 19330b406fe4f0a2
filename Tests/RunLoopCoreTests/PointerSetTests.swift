// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The sets of pointers.
@Suite struct PointerSetTests {
    /// Pointers that stand for elements; nothing lies behind them.
    private static func element(_ number: Int) -> UnsafeMutablePointer<Int> {
        UnsafeMutablePointer(bitPattern: (number + 1) * 16)!
    }

    /// A record whose first word is its key.
    private struct Keyed {
        var key: UInt
    }

    @Test("A keyed set finds its records by their first words, in order of insertion: S-MODE-15, S-MODE-25", arguments: 0..<50 as Range<UInt64>)
    func keyedSet(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var set = WordSet()
        var model: [UInt] = []
        let range = 1 << generator.below(8)
        for _ in 0..<500 {
            let key = UInt(generator.below(range) + 1)
            let found = set.find(key, isKeyed: true)
            let index = model.firstIndex(of: found)
            if let index {
                #expect(UnsafePointer<Keyed>(bitPattern: found)!.pointee.key == key)
                let removed = set.remove(key, isKeyed: true)
                #expect(removed == found)
                model.remove(at: index)
                freeRecord(UnsafeMutablePointer<Keyed>(bitPattern: found)!)
            } else {
                #expect(found == 0)
                let removed = set.remove(key, isKeyed: true)
                #expect(removed == 0)
                let record = makeRecord(Keyed.self)
                record.pointee.key = key
                set.insert(UInt(bitPattern: record), isKeyed: true)
                model.append(UInt(bitPattern: record))
            }
            var seen: [UInt] = []
            set.forEach { seen.append($0) }
            #expect(seen == model)
            #expect(set.count == model.count && set.last == model.last ?? 0)
        }
        for word in model {
            _ = set.remove(UnsafePointer<Keyed>(bitPattern: word)!.pointee.key, isKeyed: true)
            freeRecord(UnsafeMutablePointer<Keyed>(bitPattern: word)!)
        }
        #expect(set.isEmpty)
    }

    @Test("A small set keeps the order of insertion: S-MODE-21, S-MODE-22", arguments: 0..<50 as Range<UInt64>)
    func smallSet(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var set = SmallSet<Int>()
        var model: [UnsafeMutablePointer<Int>] = []
        let range = 1 << generator.below(8)
        for _ in 0..<500 {
            if generator.below(8) == 0, set.count > 0 {
                let index = generator.below(set.count)
                set.moveToEnd(index)
                model.append(model.remove(at: index))
            }
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
    }
}
