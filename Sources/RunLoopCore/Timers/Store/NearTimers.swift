// SPDX-License-Identifier: MIT
/// The timers that are due in the present tick of the wheel or before: in a sorted array if they come in order, as those from the
/// wheel and those with past dates do, else in a heap. The loop's lock guards it. The zero value is empty.
struct NearTimers {
    private var run = SortedTimers()
    private var heap = TimerHeap()

    var isEmpty: Bool { run.isEmpty && heap.isEmpty }

    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        if !run.append(node, instant: instant) { heap.insert(node, instant: instant) }
    }

    /// Adds one of those that leave the wheel when it moves on: all are later than those that are here. `sortPoured` ends it.
    @inline(always)
    mutating func pour(_ node: TimerNodePointer, instant: Int64) { run.appendUnsorted(node, instant: instant) }

    mutating func sortPoured() { run.sort() }

    /// The instant must be the one with which it was inserted.
    mutating func remove(_ node: TimerNodePointer, instant: Int64) {
        if node.pointee.isIn(.run) { run.remove(node, instant: instant) } else { heap.remove(node) }
    }

    /// The one that fires first, nil if there is none.
    @inline(always)
    var first: TimerNodePointer? {
        if heap.isEmpty { return run.first?.node }
        let top = heap.first
        guard let first = run.first?.node, first.precedes(top.node) else { return top.node }
        return first
    }

    /// Takes out the one that fires first if its instant has come.
    @inline(always)
    mutating func removeFirst(notAfter now: Int64) -> TimerNodePointer? {
        if heap.isEmpty { return run.removeFirst(notAfter: now) }
        guard let node = first, node.instant <= now else { return nil }
        remove(node, instant: node.instant)
        return node
    }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes. Those that are due at `time` or before do
    /// not count.
    func latestWake(_ limit: Int64, after time: Int64 = .min) -> Int64 { run.latestWake(heap.latestWake(limit, after: time), after: time) }

    /// Calls the body with each node until it returns false; true if it never did.
    func forEach(_ body: (TimerNodePointer) -> Bool) -> Bool { run.forEach(body) && heap.forEach(body) }

    mutating func free() {
        run.free()
        heap.free()
    }

    /// Whether the heap is a valid heap and the array in order. For tests.
    func checkInvariants() -> Bool { run.checkInvariants() && heap.checkInvariants() }
}
