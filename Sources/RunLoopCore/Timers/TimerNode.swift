import CLinux

/// What ties a timer into a list: the circular one of a bucket of the wheel, or one of the store's.
struct TimerLinks {
    var next: TimerNodePointer?
    var previous: TimerNodePointer?
}

/// A timer's place in the store of one mode. The loop's lock guards it.
struct TimerNode {
    /// The address of the mode; 0 when the node is free; odd when the node left that mode but not yet the list of its bucket.
    private var membership: UInt
    /// Order of insertion among equal instants, modulo 2^32 (S-TMR-21); in the due list the number of the batch.
    var sequence: UInt32
    /// Bits 0 to 2: a `Place`. Bit 3: ghost. Bit 4: further node. Bit 5: away. From bit 6: index in the heap, or bucket of the wheel.
    private var bits: UInt32
    /// Last, so that the end of a bucket's list can pass for a node, and so that what is read before them is close to the timer.
    var links: TimerLinks

    enum Place: UInt32 {
        case nowhere = 0
        case heap = 1
        case wheel = 2
        case due = 3
        case run = 4
    }

    /// A node in no mode. For the first one of a timer, the timer is implied by where the node lies.
    init() {
        membership = 0
        sequence = 0
        bits = 0
        links = TimerLinks()
    }

    /// The mode it is in; nil if it is in none.
    var mode: ModePointer? {
        @inline(__always) get { membership & 1 != 0 ? nil : ModePointer(bitPattern: membership) }
        set { membership = UInt(bitPattern: newValue) }
    }

    @inline(__always)
    func isIn(_ mode: ModePointer) -> Bool { membership == UInt(bitPattern: mode) }

    /// In no mode and in no list.
    var isFree: Bool { membership == 0 }

    /// It left its mode, but stays in the list of its bucket of the wheel until the bucket is looked at, it comes back, or it
    /// is needed elsewhere: coming back to the same bucket then touches nothing but the timer.
    var isLeftover: Bool { membership & 1 != 0 }

    @inline(__always)
    func isLeftover(of mode: ModePointer) -> Bool { membership == UInt(bitPattern: mode) | 1 }

    @inline(__always)
    mutating func becomeLeftover() { membership |= 1 }

    var place: Place {
        get { Place(rawValue: bits & 7).unsafelyUnwrapped }
        set { bits = (bits & ~7) | newValue.rawValue }
    }

    @inline(__always)
    mutating func setPlace(_ place: Place, index: Int) {
        bits = (bits & 0b111000) | place.rawValue | UInt32(truncatingIfNeeded: index) << 6
    }

    /// The timer was removed from the mode while its turn in a batch was still to come (S-TMR-25, S-TMR-26).
    var isGhost: Bool {
        get { bits & 0b1000 != 0 }
        set { bits = newValue ? bits | 0b1000 : bits & ~0b1000 }
    }

    /// A block of its own, not the one behind the timer.
    var isFurther: Bool {
        get { bits & 0b1_0000 != 0 }
        set { bits = newValue ? bits | 0b1_0000 : bits & ~0b1_0000 }
    }

    /// In no store because the timer's callback is on the stack, here or in another loop, but in the store's list of those.
    var isAway: Bool {
        get { bits & 0b10_0000 != 0 }
        set { bits = newValue ? bits | 0b10_0000 : bits & ~0b10_0000 }
    }

    /// Index in the heap, or bucket of the wheel.
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
    var next: TimerNodePointer?
}

extension UnsafeMutablePointer where Pointee == TimerNode {
    /// The end of a bucket's list as a node of which only the links are there.
    @inline(__always)
    init(end: UnsafeMutablePointer<TimerLinks>) {
        let offset = MemoryLayout<TimerNode>.size - MemoryLayout<TimerLinks>.size
        self = (UnsafeMutableRawPointer(end) - offset).assumingMemoryBound(to: TimerNode.self)
    }

    /// Takes a leftover out of the list of its bucket. The lock of the loop whose wheel it is must be held.
    func unlinkLeftover() {
        let links = pointee.links
        links.next.unsafelyUnwrapped.pointee.links.previous = links.previous
        links.previous.unsafelyUnwrapped.pointee.links.next = links.next
        forgetList()
    }

    /// Asks for the timer's memory, which is in two cache lines.
    @inline(__always)
    func prefetch() {
        rl_prefetch(self)
        rl_prefetch(UnsafeMutableRawPointer(self) + 64)
    }

    /// For a leftover whose list is gone, or forgets it.
    func forgetList() {
        pointee.mode = nil
        pointee.place = .nowhere
    }

    @inline(__always)
    var timer: TimerPointer {
        if pointee.isFurther { return further.pointee.timer }
        return (UnsafeMutableRawPointer(self) - MemoryLayout<Timer>.stride).assumingMemoryBound(to: Timer.self)
    }

    /// The next of the timer's further nodes; only further nodes have one.
    var nextOfTimer: TimerNodePointer? {
        get { further.pointee.next }
        nonmutating set { further.pointee.next = newValue }
    }

    private var further: UnsafeMutablePointer<FurtherNode> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: FurtherNode.self)
    }
}

extension TimerNodePointer {
    @inline(__always)
    var instant: Int64 { timer.pointee.instant }

    /// Whether this node's timer fires before the other's: by instant, then by insertion.
    @inline(__always)
    func precedes(_ other: TimerNodePointer) -> Bool {
        let mine = instant
        let theirs = other.instant
        if mine != theirs { return mine < theirs }
        return Int32(bitPattern: pointee.sequence &- other.pointee.sequence) < 0
    }
}
