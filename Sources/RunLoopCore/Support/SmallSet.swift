// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A set of words in eight bytes, in order of insertion: empty, one word, or a block of them. Words are addresses of records,
/// never 0 or odd. The word itself is the key, or, with `isKeyed`, the first word of the record that it is the address of.
///
/// Most items are in one mode; the block exists only for those in several. A block of more than a few words has a hash table of
/// their places behind them (open addressing, linear probing, no marks of removed ones), so that nothing costs more with many.
/// A removed word leaves a hole in a block that has a table; the last word is never a hole. The owner's lock guards it.
struct WordSet {
    /// 0: empty. Bit 0 clear: the word itself. Bit 0 set: a block.
    private var bits: UInt = 0

    private struct Block {
        /// Words in the set.
        var count: UInt32
        /// Places in use, holes among them.
        var end: UInt32
        var capacity: UInt32
        /// Slots of the table, a power of two; 0: there is none.
        var slots: UInt32
    }

    private typealias BlockPointer = UnsafeMutablePointer<Block>

    /// So many words are looked through one by one.
    private static var few: Int { 8 }

    private var block: BlockPointer? {
        @inline(always) get { bits & 1 == 1 ? BlockPointer(bitPattern: bits & ~1) : nil }
    }

    private static func words(_ block: BlockPointer) -> UnsafeMutablePointer<UInt> {
        UnsafeMutableRawPointer(block + 1).assumingMemoryBound(to: UInt.self)
    }

    /// For each slot the place of its word, plus one; 0: none.
    private static func table(_ block: BlockPointer) -> UnsafeMutablePointer<UInt32> {
        UnsafeMutableRawPointer(words(block) + Int(block.pointee.capacity)).assumingMemoryBound(to: UInt32.self)
    }

    @inline(always)
    private static func key(_ word: UInt, _ isKeyed: Bool) -> UInt {
        isKeyed ? UnsafePointer<UInt>(bitPattern: word).unsafelyUnwrapped.pointee : word
    }

    private static func slot(_ key: UInt, _ block: BlockPointer) -> Int {
        Int(truncatingIfNeeded: (key &* 0x9e37_79b9_7f4a_7c15) >> 20) & (Int(block.pointee.slots) - 1)
    }

    var isEmpty: Bool { bits == 0 }

    var count: Int {
        if let block { return Int(block.pointee.count) }
        return bits == 0 ? 0 : 1
    }

    /// The newest word, 0 if there is none.
    var last: UInt {
        @inline(never) get {
            guard let block else { return bits }
            return WordSet.words(block)[Int(block.pointee.end) - 1]
        }
    }

    /// The word at a place in the order of insertion, in a set that is not keyed.
    subscript(index: Int) -> UInt {
        @inline(always) get { bits & 1 == 1 ? wordInBlock(index) : bits }
    }

    @inline(never)
    private func wordInBlock(_ index: Int) -> UInt {
        let block = block.unsafelyUnwrapped
        if block.pointee.end != block.pointee.count { WordSet.pack(block) }
        return WordSet.words(block)[index]
    }

    /// Calls the body with each word. The body may not change the set.
    @inline(always)
    func forEach(_ body: (UInt) -> Void) {
        var index = 0
        while true {
            let word = word(from: &index)
            if word == 0 { return }
            body(word)
        }
    }

    /// The word at a place, holes counted, or the next one behind it; 0 at the end. The place moves on behind it.
    @inline(never)
    func word(from index: inout Int) -> UInt {
        guard let block else {
            index += 1
            return index == 1 ? bits : 0
        }
        while index < Int(block.pointee.end) {
            index += 1
            let word = WordSet.words(block)[index - 1]
            if word != 0 { return word }
        }
        return 0
    }

    /// The word with that key, 0 if there is none.
    @inline(always)
    func find(_ key: UInt, isKeyed: Bool) -> UInt {
        if bits & 1 == 1 { return findInBlock(key, isKeyed) }
        return bits != 0 && WordSet.key(bits, isKeyed) == key ? bits : 0
    }

    @inline(never)
    private func findInBlock(_ key: UInt, _ isKeyed: Bool) -> UInt {
        let block = block.unsafelyUnwrapped
        let place = WordSet.place(of: key, isKeyed, block).place
        return place < 0 ? 0 : WordSet.words(block)[place]
    }

    /// Place and slot of a key; the place is -1 if there is none, the slot where there is no table.
    @inline(never)
    private static func place(of key: UInt, _ isKeyed: Bool, _ block: BlockPointer) -> (place: Int, slot: Int) {
        let words = words(block)
        if block.pointee.slots == 0 {
            for place in 0..<Int(block.pointee.end) where WordSet.key(words[place], isKeyed) == key { return (place, -1) }
            return (-1, -1)
        }
        var slot = slot(key, block)
        while table(block)[slot] != 0 {
            let place = Int(table(block)[slot]) - 1
            if WordSet.key(words[place], isKeyed) == key { return (place, slot) }
            slot = (slot + 1) & (Int(block.pointee.slots) - 1)
        }
        return (-1, slot)
    }

    /// No word with its key may be in the set.
    @inline(always)
    mutating func insert(_ word: UInt, isKeyed: Bool) {
        if bits == 0 { bits = word } else { insertInBlock(word, isKeyed) }
    }

    @inline(never)
    private mutating func insertInBlock(_ word: UInt, _ isKeyed: Bool) {
        if block == nil || block!.pointee.end == block!.pointee.capacity { makeRoom(isKeyed) }
        let block = block!
        let place = Int(block.pointee.end)
        WordSet.words(block)[place] = word
        block.pointee.end += 1
        block.pointee.count += 1
        if block.pointee.slots > 0 { WordSet.enter(place, isKeyed, block) }
    }

    @inline(never)
    private static func enter(_ place: Int, _ isKeyed: Bool, _ block: BlockPointer) {
        let slot = WordSet.place(of: key(words(block)[place], isKeyed), isKeyed, block).slot
        table(block)[slot] = UInt32(place + 1)
    }

    /// A new block with twice as much room as there are words, which stand in it without holes.
    private mutating func makeRoom(_ isKeyed: Bool) {
        let capacity = Swift.max(4, 2 * count)
        let slots = capacity > WordSet.few ? nextPowerOfTwo(2 * capacity) : 0
        let new = makeRecord(Block.self, tail: capacity * MemoryLayout<UInt>.stride + slots * MemoryLayout<UInt32>.stride)
        new.pointee.capacity = UInt32(capacity)
        new.pointee.slots = UInt32(slots)
        forEach { word in
            let place = Int(new.pointee.count)
            WordSet.words(new)[place] = word
            new.pointee.count += 1
            if slots > 0 { WordSet.enter(place, isKeyed, new) }
        }
        new.pointee.end = new.pointee.count
        CRunLoopLinux.free(block)
        bits = UInt(bitPattern: new) | 1
    }

    /// Moves the words of a block together whose words are their keys.
    @inline(never)
    private static func pack(_ block: BlockPointer) {
        let words = words(block)
        memset(table(block), 0, Int(block.pointee.slots) * MemoryLayout<UInt32>.stride)
        var end = 0
        for place in 0..<Int(block.pointee.end) where words[place] != 0 {
            words[end] = words[place]
            enter(end, false, block)
            end += 1
        }
        block.pointee.end = UInt32(end)
    }

    /// Takes the word with that key out and returns it; 0 if there is none.
    @inline(always)
    mutating func remove(_ key: UInt, isKeyed: Bool) -> UInt {
        if bits & 1 == 1 { return removeFromBlock(key, isKeyed) }
        guard bits != 0, WordSet.key(bits, isKeyed) == key else { return 0 }
        defer { bits = 0 }
        return bits
    }

    @inline(never)
    private mutating func removeFromBlock(_ key: UInt, _ isKeyed: Bool) -> UInt {
        let block = block.unsafelyUnwrapped
        let words = WordSet.words(block)
        let (place, slot) = WordSet.place(of: key, isKeyed, block)
        if place < 0 { return 0 }
        let word = words[place]
        block.pointee.count -= 1
        if block.pointee.slots == 0 {
            for later in place..<Int(block.pointee.count) { words[later] = words[later + 1] }
            block.pointee.end -= 1
        } else {
            WordSet.clear(slot, isKeyed, block)
            words[place] = 0
            while words[Int(block.pointee.end) - 1] == 0 { block.pointee.end -= 1 }
        }
        if block.pointee.count == 1 {
            bits = last
            CRunLoopLinux.free(block)
        }
        return word
    }

    /// Empties a slot; those behind it that were put there because it was taken move up.
    private static func clear(_ slot: Int, _ isKeyed: Bool, _ block: BlockPointer) {
        let table = table(block)
        let mask = Int(block.pointee.slots) - 1
        var hole = slot
        var next = (slot + 1) & mask
        while table[next] != 0 {
            let home = WordSet.slot(key(words(block)[Int(table[next]) - 1], isKeyed), block)
            if (next - home) & mask >= (next - hole) & mask {
                table[hole] = table[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        table[hole] = 0
    }

    mutating func removeAll() {
        if let block { CRunLoopLinux.free(block) }
        bits = 0
    }
}

/// A set of pointers in eight bytes, in order of insertion. See `WordSet`.
struct SmallSet<Element: ~Copyable> {
    typealias Pointer = UnsafeMutablePointer<Element>

    private var words = WordSet()

    var isEmpty: Bool { words.isEmpty }
    var count: Int { words.count }
    subscript(index: Int) -> Pointer { Pointer(bitPattern: words[index])! }
    var last: Pointer? { Pointer(bitPattern: words.last) }

    @inline(always)
    func contains(_ element: Pointer) -> Bool { words.find(UInt(bitPattern: element), isKeyed: false) != 0 }

    /// The element must not be in the set.
    @inline(always)
    mutating func insert(_ element: Pointer) { words.insert(UInt(bitPattern: element), isKeyed: false) }

    /// False if it was not in the set.
    @inline(always) @discardableResult
    mutating func remove(_ element: Pointer) -> Bool { words.remove(UInt(bitPattern: element), isKeyed: false) != 0 }

    func forEach(_ body: (Pointer) -> Void) { words.forEach { body(Pointer(bitPattern: $0)!) } }

    /// Makes the element at `index` the last one.
    @inline(always)
    mutating func moveToEnd(_ index: Int) {
        if index == count - 1 { return }
        let element = self[index]
        remove(element)
        insert(element)
    }

    mutating func removeAll() { words.removeAll() }
}

func nextPowerOfTwo(_ value: Int) -> Int {
    value <= 1 ? 1 : 1 << (Int.bitWidth - (value - 1).leadingZeroBitCount)
}
