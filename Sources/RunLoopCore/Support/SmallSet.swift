import CLinux

/// A set of few pointers in eight bytes: empty, one pointer, or a counted block of them in order of insertion.
///
/// Most items are in one mode; the block exists only for those in several. The owner's lock guards it.
struct SmallSet<Element: ~Copyable> {
    typealias Pointer = UnsafeMutablePointer<Element>

    /// 0: empty. Bit 0 clear: the pointer itself. Bit 0 set: a block of `[count, capacity, elements…]`.
    private var bits: UInt = 0

    private var block: UnsafeMutablePointer<UInt>? {
        bits & 1 == 1 ? UnsafeMutablePointer(bitPattern: bits & ~1) : nil
    }

    var isEmpty: Bool { bits == 0 }

    var count: Int {
        if let block { return Int(block[0]) }
        return bits == 0 ? 0 : 1
    }

    subscript(index: Int) -> Pointer {
        if let block { return Pointer(bitPattern: block[2 + index])! }
        return Pointer(bitPattern: bits)!
    }

    var last: Pointer? { isEmpty ? nil : self[count - 1] }

    @inline(__always)
    func contains(_ element: Pointer) -> Bool {
        if bits == UInt(bitPattern: element) { return true }
        guard let block else { return false }
        for index in 0..<Int(block[0]) where block[2 + index] == UInt(bitPattern: element) { return true }
        return false
    }

    /// The element must not be in the set.
    mutating func insert(_ element: Pointer) {
        let value = UInt(bitPattern: element)
        if bits == 0 {
            bits = value
        } else if let block {
            let count = Int(block[0])
            var target = block
            if count == Int(block[1]) {
                target = growArray(block, count: 2 + 2 * count)
                target[1] = UInt(2 * count)
                bits = UInt(bitPattern: target) | 1
            }
            target[2 + count] = value
            target[0] = UInt(count + 1)
        } else {
            let new = makeArray(UInt.self, count: 6)
            new[0] = 2
            new[1] = 4
            new[2] = bits
            new[3] = value
            bits = UInt(bitPattern: new) | 1
        }
    }

    mutating func remove(_ element: Pointer) {
        let value = UInt(bitPattern: element)
        guard let block else {
            if bits == value { bits = 0 }
            return
        }
        let count = Int(block[0])
        guard let index = (0..<count).first(where: { block[2 + $0] == value }) else { return }
        for later in index..<(count - 1) { block[2 + later] = block[3 + later] }
        block[0] = UInt(count - 1)
        if count == 2 {
            bits = block[2]
            CLinux.free(block)
        }
    }

    /// Makes the element at `index` the last one.
    @inline(__always)
    func moveToEnd(_ index: Int) {
        guard let block else { return }
        let value = block[2 + index]
        for later in index..<(Int(block[0]) - 1) { block[2 + later] = block[3 + later] }
        block[1 + Int(block[0])] = value
    }

    mutating func removeAll() {
        if let block { CLinux.free(block) }
        bits = 0
    }
}
