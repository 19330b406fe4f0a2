// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A heap of four children per node over the timers that are due soon, the earliest first. The loop's lock guards it. The zero
/// value is empty. Each entry has a copy of the instant, so that sifting reads the array and not the timers. `TimerStore` also keeps nodes
/// in such heaps by their turns in place of instants.
struct TimerHeap {
    struct Entry {
        var instant: Int64
        var node: TimerNodePointer

        @inline(always)
        func precedes(_ other: Entry) -> Bool {
            if instant != other.instant { return instant < other.instant }
            return node.pointee.sequence < other.node.pointee.sequence
        }
    }

    private var entries: UnsafeMutablePointer<Entry>?
    private var capacity = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// The earliest. The heap must not be empty.
    var first: Entry { entries![0] }
    var any: TimerNodePointer? { isEmpty ? nil : first.node }

    /// With what a node of the heap was inserted.
    func key(of node: TimerNodePointer) -> Int64 { entries![node.pointee.index].instant }

    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        if count == capacity {
            capacity = max(16, capacity * 2)
            entries = growArray(entries, count: capacity)
        }
        node.pointee.place = .heap
        count += 1
        siftUp(Entry(instant: instant, node: node), from: count - 1)
    }

    mutating func remove(_ node: TimerNodePointer) {
        let index = node.pointee.index
        node.pointee.place = .nowhere
        count -= 1
        guard index < count else { return }
        let moved = entries![count]
        if index > 0 && moved.precedes(entries![(index - 1) >> 2]) {
            siftUp(moved, from: index)
        } else {
            siftDown(moved, from: index)
        }
    }

    @inline(always)
    private func put(_ entry: Entry, at index: Int) {
        entries![index] = entry
        entry.node.pointee.index = index
    }

    private func siftUp(_ entry: Entry, from start: Int) {
        var index = start
        while index > 0 {
            let parent = (index - 1) >> 2
            guard entry.precedes(entries![parent]) else { break }
            put(entries![parent], at: index)
            index = parent
        }
        put(entry, at: index)
    }

    private func siftDown(_ entry: Entry, from start: Int) {
        var index = start
        while true {
            let firstChild = 4 * index + 1
            guard firstChild < count else { break }
            var least = firstChild
            for child in (firstChild + 1)..<max(min(firstChild + 4, count), firstChild + 1)
            where entries![child].precedes(entries![least]) {
                least = child
            }
            guard entries![least].precedes(entry) else { break }
            put(entries![least], at: index)
            index = least
        }
        put(entry, at: index)
    }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes, and at their children.
    func latestWake(_ limit: Int64, after time: Int64 = .min, from index: Int = 0) -> Int64 {
        guard index < count, entries![index].instant < limit else { return limit }
        var limit = limit
        if entries![index].instant > time { limit = min(limit, entries![index].node.timer.latestInstant) }
        for child in (4 * index + 1)...(4 * index + 4) { limit = latestWake(limit, after: time, from: child) }
        return limit
    }

    /// Calls the body with each node until it returns false; true if it never did.
    func forEach(_ body: (TimerNodePointer) -> Bool) -> Bool {
        for index in 0..<count where !body(entries![index].node) { return false }
        return true
    }

    mutating func free() {
        CRunLoopLinux.free(entries)
        entries = nil
        capacity = 0
        count = 0
    }

    /// Whether every entry precedes its children and knows its index. For tests.
    func checkInvariants() -> Bool {
        for index in 0..<count {
            if entries![index].node.pointee.index != index || entries![index].node.pointee.place != .heap { return false }
            if index > 0 && entries![index].precedes(entries![(index - 1) >> 2]) { return false }
        }
        return true
    }
}
