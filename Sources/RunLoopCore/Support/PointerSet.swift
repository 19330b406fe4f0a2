import CLinux

/// An unordered set of pointers, for the common items: few operations, any size. Open addressing, linear probing.
/// The loop's lock guards it. The zero value is the empty set.
struct PointerSet<Element: ~Copyable> {
    typealias Pointer = UnsafeMutablePointer<Element>

    private var table: UnsafeMutablePointer<UInt>?
    private var capacity = 0
    private(set) var count = 0
    /// Slots that hold an element or the mark of a removed one.
    private var used = 0

    private static var removed: UInt { 1 }

    private func slot(of value: UInt) -> Int? {
        guard let table else { return nil }
        var index = start(value)
        while table[index] != 0 {
            if table[index] == value { return index }
            index = (index + 1) & (capacity - 1)
        }
        return nil
    }

    private func start(_ value: UInt) -> Int {
        Int(truncatingIfNeeded: (value &* 0x9e37_79b9_7f4a_7c15) >> 20) & (capacity - 1)
    }

    func contains(_ element: Pointer) -> Bool { slot(of: UInt(bitPattern: element)) != nil }

    /// The element must not be in the set.
    mutating func insert(_ element: Pointer) {
        if used * 4 >= capacity * 3 { rehash() }
        if place(UInt(bitPattern: element)) { used += 1 }
        count += 1
    }

    /// True if the slot was empty, not one of a removed element.
    private func place(_ value: UInt) -> Bool {
        var index = start(value)
        while table![index] > PointerSet.removed { index = (index + 1) & (capacity - 1) }
        let wasEmpty = table![index] == 0
        table![index] = value
        return wasEmpty
    }

    /// The element must be in the set.
    mutating func remove(_ element: Pointer) {
        guard let index = slot(of: UInt(bitPattern: element)) else { return }
        table![index] = PointerSet.removed
        count -= 1
        if count == 0 { removeAll() }
    }

    private mutating func rehash() {
        let old = table
        let oldCapacity = capacity
        capacity = max(8, nextPowerOfTwo(count * 2))
        table = makeArray(UInt.self, count: capacity)
        used = count
        guard let old else { return }
        for index in 0..<oldCapacity where old[index] > PointerSet.removed { _ = place(old[index]) }
        CLinux.free(old)
    }

    /// Any element, nil if there is none.
    var first: Pointer? {
        for index in 0..<capacity where table![index] > PointerSet.removed { return Pointer(bitPattern: table![index]) }
        return nil
    }

    func forEach(_ body: (Pointer) -> Void) {
        for index in 0..<capacity where table![index] > PointerSet.removed { body(Pointer(bitPattern: table![index])!) }
    }

    mutating func removeAll() {
        CLinux.free(table)
        table = nil
        capacity = 0
        count = 0
        used = 0
    }
}

func nextPowerOfTwo(_ value: Int) -> Int {
    value <= 1 ? 1 : 1 << (Int.bitWidth - (value - 1).leadingZeroBitCount)
}
