// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A queue of small numbers in a ring buffer from malloc. The loop's lock guards it. The zero value is empty.
struct IndexQueue {
    private var ring: UnsafeMutablePointer<UInt32>?
    private var capacity = 0
    private var head = 0
    private(set) var count = 0

    var first: Int? { count == 0 ? nil : self[0] }

    subscript(place: Int) -> Int { Int(ring![(head + place) & (capacity - 1)]) }

    mutating func append(_ index: Int) {
        if count == capacity { grow() }
        ring![(head + count) & (capacity - 1)] = UInt32(index)
        count += 1
    }

    mutating func removeFirst() {
        head = (head + 1) & (capacity - 1)
        count -= 1
    }

    private mutating func grow() {
        let larger = makeArray(UInt32.self, count: max(8, capacity * 2))
        for place in 0..<count { larger[place] = ring![(head + place) & (capacity - 1)] }
        CRunLoopLinux.free(ring)
        ring = larger
        capacity = max(8, capacity * 2)
        head = 0
    }

    mutating func free() {
        CRunLoopLinux.free(ring)
        self = IndexQueue()
    }
}
