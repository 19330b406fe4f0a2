/// The timers that are due in the present tick of the wheel: in a queue where they come in the order of their instants, as those with
/// past dates do, else in a heap. The loop's lock guards it. The zero value is empty.
struct NearTimers {
    private var queue = NodeList()
    private var heap = TimerHeap()

    var isEmpty: Bool { queue.isEmpty && heap.isEmpty }

    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        if let last = queue.last, node.precedes(last) {
            heap.insert(node, instant: instant)
        } else {
            node.pointee.place = .queue
            queue.insert(node, after: queue.last)
        }
    }

    mutating func remove(_ node: TimerNodePointer) {
        if node.pointee.place == .queue {
            queue.remove(node)
            node.pointee.place = .nowhere
        } else {
            heap.remove(node)
        }
    }

    /// The one that fires first, nil if there is none.
    var first: TimerNodePointer? {
        guard !heap.isEmpty else { return queue.first }
        let top = heap.first.node
        guard let queued = queue.first else { return top }
        return queued.precedes(top) ? queued : top
    }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes.
    func latestWake(_ limit: Int64) -> Int64 {
        var limit = heap.latestWake(limit)
        var node = queue.first
        while let current = node, current.instant < limit {
            limit = min(limit, current.timer.latestInstant)
            node = current.pointee.links.next
        }
        return limit
    }

    mutating func free() { heap.free() }

    /// Whether the heap is one and the queue in order. For tests.
    func checkInvariants() -> Bool {
        var node = queue.first
        while let current = node {
            node = current.pointee.links.next
            if current.pointee.place != .queue || (node.map { !current.precedes($0) } ?? false) { return false }
        }
        return heap.checkInvariants()
    }
}

/// A list of nodes by their links. The zero value is empty.
struct NodeList {
    private(set) var first: TimerNodePointer?
    private(set) var last: TimerNodePointer?

    var isEmpty: Bool { first == nil }

    /// Puts a node behind another one, or first.
    mutating func insert(_ node: TimerNodePointer, after before: TimerNodePointer?) {
        let next = before == nil ? first : before!.pointee.links.next
        node.pointee.links = TimerLinks(next: next, previous: before)
        if let before { before.pointee.links.next = node } else { first = node }
        if let next { next.pointee.links.previous = node } else { last = node }
    }

    mutating func remove(_ node: TimerNodePointer) {
        let links = node.pointee.links
        if let previous = links.previous { previous.pointee.links.next = links.next } else { first = links.next }
        if let next = links.next { next.pointee.links.previous = links.previous } else { last = links.previous }
    }
}
