// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The sources of a mode, or the common sources of a loop: a hash table by `hashCode`, because membership goes by the client's
/// equality (S-SRC-7, S-SRC-8). Open addressing, linear probing. The loop's lock guards it. The zero value is empty.
///
/// The client's `equal` runs without the lock; `changes` tells whether the table changed meanwhile.
struct SourceSet {
    private var table: UnsafeMutablePointer<UInt>?
    private(set) var capacity = 0
    private(set) var count = 0
    /// Slots that hold a source or the mark of a removed one.
    private var used = 0
    /// Counts insertions and removals.
    private(set) var changes: UInt32 = 0

    private static var removed: UInt { 1 }
    private static var smallest: Int { 8 }

    /// Most hashes are addresses at equal distances. One multiplication leaves them at equal distances, which for some are such that long runs
    /// of slots fill; with the upper half folded in, a second one leaves no order. Its factor differs with the capacity: what comes in the order of a
    /// larger table would fill the first part of a smaller one first.
    private func start(_ hash: UInt) -> Int {
        let factor: UInt = 0x9e37_79b9_7f4a_7c15
        let once = hash &* factor
        return Int(truncatingIfNeeded: ((once ^ once >> 32) &* (factor &+ UInt(bitPattern: capacity) &* 2)) >> 40) & (capacity - 1)
    }

    private static func hash(of value: UInt) -> UInt {
        UInt(SourcePointer(bitPattern: value)!.pointee.hashCode.load(ordering: .relaxed))
    }

    func contains(_ source: SourcePointer) -> Bool { slot(of: source) != nil }

    @inline(always)
    private func slot(of source: SourcePointer) -> Int? {
        guard let table else { return nil }
        var index = start(SourceSet.hash(of: UInt(bitPattern: source)))
        while table[index] != 0 {
            if table[index] == UInt(bitPattern: source) { return index }
            index = (index + 1) & (capacity - 1)
        }
        return nil
    }

    /// The `skip`th other member that has the source's hash and could be equal to it.
    func candidate(for source: SourcePointer, skip: Int) -> SourcePointer? {
        guard let table else { return nil }
        let hash = source.pointee.hashCode.load(ordering: .relaxed)
        var index = start(UInt(hash))
        var left = skip
        while table[index] != 0 {
            if table[index] != SourceSet.removed, let member = SourcePointer(bitPattern: table[index]),
                member != source, member.pointee.hashCode.load(ordering: .relaxed) == hash, member.mayEqual(source)
            {
                if left == 0 { return member }
                left -= 1
            }
            index = (index + 1) & (capacity - 1)
        }
        return nil
    }

    /// The source must not be a member.
    mutating func insert(_ source: SourcePointer) {
        // Up to thirteen sixteenths full: probes stay short, and a hundred thousand sources fit into 2^17 slots.
        if used * 16 >= capacity * 13 { rehash() }
        if place(UInt(bitPattern: source)) { used += 1 }
        count += 1
        changes &+= 1
    }

    /// True if the slot was empty, not one of a removed member.
    private func place(_ value: UInt) -> Bool {
        var index = start(SourceSet.hash(of: value))
        while table![index] > SourceSet.removed { index = (index + 1) & (capacity - 1) }
        let wasEmpty = table![index] == 0
        table![index] = value
        return wasEmpty
    }

    mutating func remove(_ source: SourcePointer) {
        guard let index = slot(of: source) else { return }
        // Where the next slot is empty no probe goes on, and no mark is needed.
        if table![(index + 1) & (capacity - 1)] == 0 {
            table![index] = 0
            used -= 1
        } else {
            table![index] = SourceSet.removed
        }
        count -= 1
        changes &+= 1
        // The smallest table stays: the only source of a mode may come and go.
        if count == 0 && capacity > SourceSet.smallest { free() }
    }

    private mutating func rehash() {
        let old = table
        let oldCapacity = capacity
        capacity = max(SourceSet.smallest, nextPowerOfTwo(count * 2 + 1))
        table = makeArray(UInt.self, count: capacity)
        used = count
        guard let old else { return }
        for index in 0..<oldCapacity where old[index] > SourceSet.removed { _ = place(old[index]) }
        CRunLoopLinux.free(old)
    }

    /// Any member, nil if there is none. Constant time over a whole emptying of the set: `hint` remembers where it looked.
    func any(from hint: inout Int) -> SourcePointer? {
        if hint >= capacity { hint = 0 }
        for offset in 0..<capacity {
            let index = (hint + offset) & (capacity - 1)
            if table![index] > SourceSet.removed {
                hint = index
                return SourcePointer(bitPattern: table![index])
            }
        }
        return nil
    }

    /// A source that is invalid, or has yet to become so.
    var firstInvalid: SourcePointer? {
        for index in 0..<capacity where table![index] > SourceSet.removed {
            let source = SourcePointer(bitPattern: table![index])!
            if !source.isValid || source.isLeftOver { return source }
        }
        return nil
    }

    func forEach(_ body: (SourcePointer) -> Void) {
        for index in 0..<capacity where table![index] > SourceSet.removed { body(SourcePointer(bitPattern: table![index])!) }
    }

    /// The member at a slot, or the next one behind it, and the slot moves on behind that; nil at the end.
    func next(from index: inout Int) -> SourcePointer? {
        while index < capacity {
            index += 1
            if table![index - 1] > SourceSet.removed { return SourcePointer(bitPattern: table![index - 1]) }
        }
        return nil
    }

    mutating func free() {
        CRunLoopLinux.free(table)
        table = nil
        capacity = 0
        count = 0
        used = 0
    }
}
