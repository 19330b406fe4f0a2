// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The timers of one bucket of the wheel, in an array in which a removal leaves a hole for the next one to come. A node knows its
/// place, so adding and removing touch no other timer: with many of them, which are in no cache, that is nearly the whole cost.
/// The loop's lock guards it. The zero value is empty.
struct TimerBucket {
    /// The address of a node, or, odd, a hole: twice what `hole` was when it was made, and one.
    private var entries: UnsafeMutablePointer<UInt>?
    private(set) var end: UInt32 = 0
    private var capacity: UInt32 = 0
    /// The place of the newest hole, plus one; 0: there is none.
    private var hole: UInt32 = 0
    private(set) var count: UInt32 = 0

    @inline(always)
    mutating func insert(_ node: TimerNodePointer) {
        var place = end
        if hole != 0 {
            place = hole &- 1
            hole = UInt32(truncatingIfNeeded: entries.unsafelyUnwrapped[Int(place)] >> 1)
        } else {
            if end == capacity { grow() }
            end &+= 1
        }
        entries.unsafelyUnwrapped[Int(place)] = UInt(bitPattern: node)
        node.pointee.position = place
        count &+= 1
    }

    @inline(always)
    mutating func remove(_ node: TimerNodePointer) {
        let place = node.pointee.position
        entries.unsafelyUnwrapped[Int(place)] = UInt(hole) << 1 | 1
        hole = place &+ 1
        count &-= 1
    }

    @inline(never)
    private mutating func grow() {
        capacity = max(4, capacity * 2)
        entries = growArray(entries, count: Int(capacity))
    }

    /// Compacts the nodes if more than half of the places are holes, so that the cost of going through them stays proportional to
    /// their number. The cost is amortised over the removals.
    @inline(always)
    mutating func closeHoles() {
        if end > 2 * count + 8 { compact() }
    }

    @inline(never)
    private mutating func compact() {
        var place: UInt32 = 0
        forEach { node in
            node.pointee.position = place
            entries![Int(place)] = UInt(bitPattern: node)
            place += 1
        }
        end = place
        hole = 0
    }

    /// Calls the body with each node, and prefetches the memory of the next ones.
    @inline(always)
    func forEach(_ body: (TimerNodePointer) -> Void) {
        guard let entries else { return }
        let end = Int(end)
        for place in 0..<end {
            if place + 8 < end { rl_prefetch(UnsafeRawPointer(bitPattern: entries[place + 8])) }
            if entries[place] & 1 == 0 { body(TimerNodePointer(bitPattern: entries[place]).unsafelyUnwrapped) }
        }
    }

    /// The node at a place, nil if that is a hole.
    @inline(always)
    func node(at place: UInt32) -> TimerNodePointer? {
        let entry = entries.unsafelyUnwrapped[Int(place)]
        return entry & 1 == 0 ? TimerNodePointer(bitPattern: entry) : nil
    }

    /// The node with the last place; taking all out, one after the other, costs the same for each. The bucket is not empty.
    mutating func last() -> TimerNodePointer {
        while true {
            if let node = node(at: end - 1) { return node }
            if hole == end {
                end -= 1
                hole = UInt32(truncatingIfNeeded: entries![Int(end)] >> 1)
            } else {
                compact()
            }
        }
    }

    /// Forgets all nodes. A small array is kept, so that timers that move from bucket to bucket allocate nothing.
    mutating func empty() {
        if capacity > 64 { return free() }
        end = 0
        hole = 0
        count = 0
    }

    mutating func free() {
        CRunLoopLinux.free(entries)
        self = TimerBucket()
    }

    /// Whether every node knows its place, and all holes are listed. For tests.
    func checkInvariants() -> Bool {
        var nodes: UInt32 = 0
        var isRight = end <= capacity
        for place in 0..<end {
            guard let node = node(at: place) else { continue }
            nodes += 1
            if node.pointee.position != place { isRight = false }
        }
        var holes: UInt32 = 0
        var next = hole
        while next != 0 && holes <= end {
            holes += 1
            if next > end || node(at: next - 1) != nil { return false }
            next = UInt32(truncatingIfNeeded: entries![Int(next - 1)] >> 1)
        }
        return isRight && nodes == count && nodes + holes == end
    }
}
