// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// What links a timer into a list of its store.
struct TimerLinks {
    var next: TimerNodePointer?
    var previous: TimerNodePointer?
}

/// A timer's place in the store of one mode. The loop's lock guards it.
struct TimerNode {
    /// The address of the mode; 0 when the node is free. The first word: further nodes are found by it.
    var modeAddress: UInt
    /// The number of the batch of which it is a member.
    var batch: UInt32
    /// Bits 0 to 2: a `Place`. Bit 3: tombstone. Bit 4: further node. Bit 5: away. From bit 6: index in the heap, bucket of the
    /// wheel, or rank in a batch.
    private var bits: UInt32
    var links: TimerLinks

    enum Place: UInt32 {
        case nowhere = 0
        case heap = 1
        case wheel = 2
        case run = 3
        // Those of a batch come last.
        case due = 4
        /// A tombstone of a batch that was passed over: see `TimerStore`.
        case passed = 5
        /// A member of a batch that was added back, or got another date: see there.
        case returned = 6
    }

    /// A node in no mode. For the first one of a timer, the timer is implied by where the node lies.
    init() {
        modeAddress = 0
        batch = 0
        bits = 0
        links = TimerLinks()
    }

    /// Order of insertion among equal instants (S-TMR-21). Where it counts, among the near ones and in the wheel, the node has no links.
    var sequence: Int {
        @inline(always) get { Int(bitPattern: links.previous) }
        @inline(always) set { links.previous = TimerNodePointer(bitPattern: newValue) }
    }

    /// Where in the bucket of the wheel it is. It has no links there.
    var position: UInt32 {
        @inline(always) get { UInt32(truncatingIfNeeded: UInt(bitPattern: links.next)) }
        set { links.next = TimerNodePointer(bitPattern: UInt(newValue)) }
    }

    var place: Place {
        get { Place(rawValue: bits & 7).unsafelyUnwrapped }
        set { bits = (bits & ~7) | newValue.rawValue }
    }

    /// Whether that is its place.
    @inline(always)
    func isIn(_ place: Place) -> Bool { bits & 7 == place.rawValue }

    /// Whether it waits for its turn in a batch.
    var isInBatch: Bool { bits & 7 >= Place.due.rawValue }

    @inline(always)
    mutating func setPlace(_ place: Place, index: Int) {
        bits = (bits & 0b111000) | place.rawValue | UInt32(truncatingIfNeeded: index) << 6
    }

    /// The timer was removed from the mode while its turn in a batch was still to come (S-TMR-25, S-TMR-26).
    var isTombstone: Bool {
        get { bits & 0b1000 != 0 }
        set { bits = newValue ? bits | 0b1000 : bits & ~0b1000 }
    }

    /// Whether it is a block of its own, not the one behind the timer.
    var isFurther: Bool {
        get { bits & 0b1_0000 != 0 }
        set { bits = newValue ? bits | 0b1_0000 : bits & ~0b1_0000 }
    }

    /// Whether it is in no store because the timer's callback is on the stack, here or in another loop, but in the store's list of such nodes.
    var isAway: Bool {
        get { bits & 0b10_0000 != 0 }
        set { bits = newValue ? bits | 0b10_0000 : bits & ~0b10_0000 }
    }

    /// Index in the heap, bucket of the wheel, or rank in a batch.
    var index: Int {
        get { Int(bits >> 6) }
        set { bits = (bits & 63) | UInt32(truncatingIfNeeded: newValue) << 6 }
    }
}

typealias TimerNodePointer = UnsafeMutablePointer<TimerNode>

/// The block of a further node.
struct FurtherNode {
    var node: TimerNode
    var timer: TimerPointer
}

extension UnsafeMutablePointer where Pointee == TimerNode {
    /// Prefetches the timer's memory, which is in two cache lines.
    @inline(always)
    func prefetch() {
        rl_prefetch(self)
        rl_prefetch(UnsafeMutableRawPointer(self) + 64)
    }

    @inline(always)
    var timer: TimerPointer {
        if pointee.isFurther { return further.pointee.timer }
        return (UnsafeMutableRawPointer(self) - MemoryLayout<Timer>.stride).assumingMemoryBound(to: Timer.self)
    }

    private var further: UnsafeMutablePointer<FurtherNode> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: FurtherNode.self)
    }
}

extension TimerNodePointer {
    @inline(always)
    var instant: Int64 { timer.pointee.instant }

    /// Whether this node's timer fires before the other's: by instant, then by insertion.
    @inline(always)
    func precedes(_ other: TimerNodePointer) -> Bool {
        let mine = instant
        let theirs = other.instant
        if mine != theirs { return mine < theirs }
        return pointee.sequence < other.pointee.sequence
    }
}

/// A list of nodes by their links. The zero value is empty.
struct NodeList {
    private(set) var first: TimerNodePointer?
    private(set) var last: TimerNodePointer?

    var isEmpty: Bool { first == nil }

    /// Inserts a node behind another one, or first.
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
