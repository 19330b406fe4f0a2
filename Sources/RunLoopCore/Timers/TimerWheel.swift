import CLinux

/// A hierarchical wheel over the timers that are not due soon: adding and removing cost the same for ten and for a million.
///
/// Time is cut into ticks of 2^20 ns (about a millisecond). Ten levels of 64 buckets; a timer whose tick differs from the
/// wheel's in the highest group of six bits number l belongs on level l, in the bucket that this group of its own tick names.
/// So all timers on a level come before all on the next, and on a level the buckets are in order of their number.
/// When the wheel moves on, the buckets whose time has come are emptied: what is due in this tick goes out, the rest goes
/// down to lower levels. A timer moves at most once per level.
///
/// Work that may turn out needless waits until its bucket is looked at: a timer that is put off may stay in its bucket, which is
/// then too early for it, and one that is removed stays in the list as a leftover, for the case that it comes back.
///
/// The loop's lock guards it. (Hashed and hierarchical timing wheels: Varghese and Lauck, 1987.)
struct TimerWheel {
    static var levels: Int { 8 }
    private static var slotBits: Int { 6 }
    static var tickBits: Int { 20 }

    /// The ends of circular lists: the first and the last timer of each bucket, or the bucket itself.
    private var buckets: UnsafeMutablePointer<TimerLinks>?
    /// One word per level, one bit per bucket. A bucket whose bit is clear is empty; one whose bit is set was found so not yet.
    private var occupied: UnsafeMutablePointer<UInt64>?
    /// The present tick. Timers of this tick and earlier ones are not in the wheel.
    private(set) var tick: Int64 = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    static func tick(of instant: Int64) -> Int64 { instant >> Int64(tickBits) }

    /// Whether it knows what time it is, and has its buckets.
    var isSet: Bool { buckets != nil }

    @inline(never)
    mutating func set(tick now: Int64) {
        tick = max(tick, now)
        let made = makeArray(TimerLinks.self, count: TimerWheel.levels << TimerWheel.slotBits)
        for index in 0..<(TimerWheel.levels << TimerWheel.slotBits) { TimerWheel.empty(made + index) }
        buckets = made
        occupied = makeArray(UInt64.self, count: TimerWheel.levels)
    }

    private static func empty(_ bucket: UnsafeMutablePointer<TimerLinks>) {
        bucket.pointee.next = TimerNodePointer(end: bucket)
        bucket.pointee.previous = TimerNodePointer(end: bucket)
    }

    @inline(__always)
    private func level(of timerTick: Int64) -> Int {
        let difference = UInt64(bitPattern: timerTick ^ tick) | 63
        return (63 - difference.leadingZeroBitCount) / TimerWheel.slotBits
    }

    /// The bucket of a timer. Its tick must be later than the wheel's.
    @inline(__always)
    private func bucket(of instant: Int64) -> Int {
        let timerTick = TimerWheel.tick(of: instant)
        let level = min(level(of: timerTick), TimerWheel.levels - 1)
        return level << TimerWheel.slotBits | Int(timerTick >> Int64(level * TimerWheel.slotBits)) & 63
    }

    /// The timer's tick must be later than the wheel's.
    @inline(__always)
    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        let index = bucket(of: instant)
        let end = TimerNodePointer(end: buckets! + index)
        let first = end.pointee.links.next!
        node.pointee.setPlace(.wheel, index: index)
        node.pointee.links = TimerLinks(next: first, previous: end)
        first.pointee.links.previous = node
        end.pointee.links.next = node
        occupied![index >> TimerWheel.slotBits] |= 1 << UInt64(index & 63)
        count &+= 1
    }

    @inline(__always)
    mutating func remove(_ node: TimerNodePointer) {
        let links = node.pointee.links
        links.next.unsafelyUnwrapped.pointee.links.previous = links.previous
        links.previous.unsafelyUnwrapped.pointee.links.next = links.next
        node.pointee.place = .nowhere
        count &-= 1
    }

    /// The first node of a timer leaves its mode, but not its bucket's list.
    @inline(__always)
    mutating func leave(_ node: TimerNodePointer) {
        node.pointee.becomeLeftover()
        count &-= 1
    }

    /// A leftover of this wheel is in the mode again.
    @inline(__always)
    mutating func takeBack(_ node: TimerNodePointer) { count &+= 1 }

    /// Whether a node that is in the wheel may stay in its bucket with a new instant, whose tick is later than the wheel's: buckets
    /// are numbered in the order of their times, and one that stands too early is put right when its bucket is looked at.
    @inline(__always)
    func mayStay(_ node: TimerNodePointer, until instant: Int64) -> Bool { node.pointee.index <= bucket(of: instant) }

    /// The number of the first bucket whose list is not empty, and the tick at which its time comes.
    private mutating func firstBucket() -> (index: Int, tick: Int64)? {
        for level in 0..<TimerWheel.levels {
            while occupied![level] != 0 {
                let slot = occupied![level].trailingZeroBitCount
                let index = level << TimerWheel.slotBits | slot
                let end = TimerNodePointer(end: buckets! + index)
                if end.pointee.links.next != end {
                    let shift = Int64(level * TimerWheel.slotBits)
                    let above = (tick >> (shift + Int64(TimerWheel.slotBits))) << (shift + Int64(TimerWheel.slotBits))
                    return (index, above | Int64(slot) << shift)
                }
                occupied![level] &= ~(1 << UInt64(slot))
            }
        }
        return nil
    }

    /// Looks through the first bucket with a timer that stands where it belongs, until it has seen more than `limit` of those, for
    /// the earliest of them. Leftovers on the way go, and timers that stand too early go to their buckets: each costs here what
    /// it was spared when it left or was moved. The wheel is not empty.
    private mutating func search(limit: Int) -> (earliest: TimerNodePointer, tick: Int64, isWhole: Bool) {
        while true {
            let bucket = firstBucket().unsafelyUnwrapped
            let end = TimerNodePointer(end: buckets! + bucket.index)
            var earliest: TimerNodePointer?
            var seen = 0
            var current = end.pointee.links.next.unsafelyUnwrapped
            while current != end && seen <= limit {
                let node = current
                current = node.pointee.links.next.unsafelyUnwrapped
                if node.pointee.isLeftover {
                    node.unlinkLeftover()
                } else if self.bucket(of: node.instant) != bucket.index {
                    remove(node)
                    insert(node, instant: node.instant)
                } else {
                    if earliest.map({ node.precedes($0) }) ?? true { earliest = node }
                    seen += 1
                }
            }
            if let earliest { return (earliest, bucket.tick, seen <= limit) }
        }
    }

    /// The earliest instant in the wheel if few timers have to be looked at for it, else the instant at which the first bucket
    /// begins: by then the loop wakes, the bucket is emptied, and the few that come first are known. And the first timer that
    /// was seen. The wheel is not empty.
    mutating func nextInstant() -> (instant: Int64, timer: TimerPointer) {
        let found = search(limit: 16)
        return (found.isWhole ? found.earliest.instant : found.tick << Int64(TimerWheel.tickBits), found.earliest.timer)
    }

    /// The timer with the earliest instant. It may look at all timers of the first bucket. The wheel is not empty.
    mutating func first() -> TimerNodePointer { search(limit: .max).earliest }

    /// Any timer. The wheel is not empty.
    mutating func anyNode() -> TimerNodePointer { search(limit: 0).earliest }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes, and at no more than 64.
    func latestWake(_ limit: Int64) -> Int64 {
        guard count > 0 else { return limit }
        var limit = limit
        var looks = 64
        var slots = occupied![0]
        let base = (tick >> Int64(TimerWheel.slotBits)) << Int64(TimerWheel.slotBits)
        while slots != 0 {
            let slot = slots.trailingZeroBitCount
            slots &= slots - 1
            let begin = (base | Int64(slot)) << Int64(TimerWheel.tickBits)
            if begin >= limit { return limit }
            let end = TimerNodePointer(end: buckets! + slot)
            var node = end.pointee.links.next.unsafelyUnwrapped
            while node != end {
                if looks == 0 { return min(limit, begin) }
                looks -= 1
                if !node.pointee.isLeftover { limit = min(limit, node.timer.latestInstant) }
                node = node.pointee.links.next.unsafelyUnwrapped
            }
        }
        for level in 1..<TimerWheel.levels where occupied![level] != 0 {
            let slot = occupied![level].trailingZeroBitCount
            let shift = Int64(level * TimerWheel.slotBits)
            let above = (tick >> (shift + Int64(TimerWheel.slotBits))) << (shift + Int64(TimerWheel.slotBits))
            return min(limit, (above | Int64(slot) << shift) << Int64(TimerWheel.tickBits))
        }
        return limit
    }

    /// Moves the wheel to a later tick. Timers of that tick and before are given to `due`, in no order.
    mutating func advance(to newTick: Int64, due: (TimerNodePointer) -> Void) {
        guard isSet else { return }
        while let bucket = firstBucket(), bucket.tick <= newTick {
            // The wheel stands at the bucket's beginning while the bucket is emptied: its timers fall to lower levels.
            tick = bucket.tick
            let end = TimerNodePointer(end: buckets! + bucket.index)
            var current = end.pointee.links.next.unsafelyUnwrapped
            occupied![bucket.index >> TimerWheel.slotBits] &= ~(1 << UInt64(bucket.index & 63))
            TimerWheel.empty(buckets! + bucket.index)
            while current != end {
                let node = current
                current = node.pointee.links.next.unsafelyUnwrapped
                if node.pointee.isLeftover {
                    node.forgetList()
                    continue
                }
                count -= 1
                if TimerWheel.tick(of: node.instant) <= newTick {
                    node.pointee.place = .nowhere
                    due(node)
                } else {
                    insert(node, instant: node.instant)
                }
            }
        }
        // No bucket begins between the present tick and the new one, so every timer keeps its level and bucket.
        if newTick > tick { tick = newTick }
    }

    private func forEachNode(_ body: (TimerNodePointer) -> Void) {
        guard isSet else { return }
        for index in 0..<(TimerWheel.levels << TimerWheel.slotBits) {
            let end = TimerNodePointer(end: buckets! + index)
            var current = end.pointee.links.next.unsafelyUnwrapped
            while current != end {
                let node = current
                current = node.pointee.links.next.unsafelyUnwrapped
                body(node)
            }
        }
    }

    /// Nobody is in it any more but leftovers.
    mutating func free() {
        forEachNode { $0.forgetList() }
        CLinux.free(buckets)
        CLinux.free(occupied)
        buckets = nil
        occupied = nil
        count = 0
    }

    /// Whether every timer stands in the bucket that its tick and the wheel's say, or in an earlier one whose time is still to come.
    /// For tests.
    func checkInvariants() -> Bool {
        var seen = 0
        var isRight = true
        forEachNode { node in
            let level = node.pointee.index >> TimerWheel.slotBits
            let present = Int(tick >> Int64(level * TimerWheel.slotBits)) & 63
            if node.pointee.index & 63 <= present || node.pointee.place != .wheel { isRight = false }
            if occupied![level] & 1 << UInt64(node.pointee.index & 63) == 0 { isRight = false }
            if node.pointee.isLeftover { return }
            seen += 1
            if TimerWheel.tick(of: node.instant) <= tick || !mayStay(node, until: node.instant) { isRight = false }
        }
        return isRight && seen == count
    }
}
