import CLinux

/// A hierarchical wheel over the timers that are not due soon: adding and removing cost the same for ten and for a million.
///
/// Time is cut into ticks of 2^20 ns (about a millisecond). Ten levels of 64 buckets; a timer whose tick differs from the
/// wheel's in the highest group of six bits number l stands on level l, in the bucket that this group of its own tick names.
/// So all timers on a level come before all on the next, and on a level the buckets are in order of their number.
/// When the wheel moves on, the buckets whose time has come are emptied: what is due in this tick goes out, the rest goes
/// down to lower levels. A timer moves at most once per level.
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

    /// The timer's tick must be later than the wheel's.
    @inline(__always)
    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        let timerTick = TimerWheel.tick(of: instant)
        let level = min(level(of: timerTick), TimerWheel.levels - 1)
        let slot = Int(timerTick >> Int64(level * TimerWheel.slotBits)) & 63
        let index = level << TimerWheel.slotBits | slot
        let end = TimerNodePointer(end: buckets! + index)
        let first = end.pointee.links.next!
        node.pointee.setPlace(.wheel, index: index)
        node.pointee.links = TimerLinks(next: first, previous: end)
        first.pointee.links.previous = node
        end.pointee.links.next = node
        occupied![level] |= 1 << UInt64(slot)
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

    /// The first bucket that is not empty, and the tick at which its time comes. The wheel must not be empty.
    func firstBucket() -> (first: TimerNodePointer, index: Int, tick: Int64) {
        var level = 0
        while true {
            guard occupied![level] != 0 else {
                level += 1
                continue
            }
            let slot = occupied![level].trailingZeroBitCount
            let index = level << TimerWheel.slotBits | slot
            guard let first = first(in: index) else {
                occupied![level] &= ~(1 << UInt64(slot))
                continue
            }
            let shift = Int64(level * TimerWheel.slotBits)
            let above = (tick >> (shift + Int64(TimerWheel.slotBits))) << (shift + Int64(TimerWheel.slotBits))
            return (first, index, above | Int64(slot) << shift)
        }
    }

    private func first(in index: Int) -> TimerNodePointer? {
        let end = TimerNodePointer(end: buckets! + index)
        let first = end.pointee.links.next
        return first == end ? nil : first
    }

    /// The next in the bucket, nil after the last.
    private func next(after node: TimerNodePointer, in index: Int) -> TimerNodePointer? {
        let next = node.pointee.links.next
        return next == TimerNodePointer(end: buckets! + index) ? nil : next
    }

    /// The earliest instant in the wheel if few timers have to be looked at for it, else the instant at which the first bucket
    /// begins: by then the loop wakes, the bucket is emptied, and the few that come first are known. The wheel is not empty.
    func nextInstant() -> Int64 {
        let bucket = firstBucket()
        var earliest = bucket.first.instant
        var node = next(after: bucket.first, in: bucket.index)
        for _ in 0..<16 {
            guard let current = node else { return earliest }
            earliest = min(earliest, current.instant)
            node = next(after: current, in: bucket.index)
        }
        return bucket.tick << Int64(TimerWheel.tickBits)
    }

    /// The timer with the earliest instant. It may look at all timers of the first bucket. The wheel is not empty.
    func first() -> TimerNodePointer {
        let bucket = firstBucket()
        var earliest = bucket.first
        var node: TimerNodePointer? = earliest
        while let current = node {
            if current.precedes(earliest) { earliest = current }
            node = next(after: current, in: bucket.index)
        }
        return earliest
    }

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
            var node = first(in: slot)
            while let current = node {
                if looks == 0 { return min(limit, begin) }
                looks -= 1
                limit = min(limit, current.timer.latestInstant)
                node = next(after: current, in: slot)
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
        while count > 0 {
            let bucket = firstBucket()
            guard bucket.tick <= newTick else { break }
            // The wheel stands at the bucket's beginning while the bucket is emptied: its timers fall to lower levels.
            tick = bucket.tick
            let end = TimerNodePointer(end: buckets! + bucket.index)
            var current = bucket.first
            occupied![bucket.index >> TimerWheel.slotBits] &= ~(1 << UInt64(bucket.index & 63))
            TimerWheel.empty(buckets! + bucket.index)
            while current != end {
                let node = current
                current = node.pointee.links.next.unsafelyUnwrapped
                count -= 1
                if TimerWheel.tick(of: node.instant) <= newTick {
                    node.pointee.place = .nowhere
                    due(node)
                } else {
                    insert(node, instant: node.instant)
                }
            }
        }
        moveEmptyRange(to: newTick)
    }

    /// No bucket begins between the present tick and the new one, so every timer keeps its level and bucket.
    private mutating func moveEmptyRange(to newTick: Int64) {
        if newTick > tick { tick = newTick }
    }

    func forEach(_ body: (TimerNodePointer) -> Void) {
        guard buckets != nil else { return }
        for index in 0..<(TimerWheel.levels << TimerWheel.slotBits) {
            var node = first(in: index)
            while let current = node {
                node = next(after: current, in: index)
                body(current)
            }
        }
    }

    mutating func free() {
        CLinux.free(buckets)
        CLinux.free(occupied)
        buckets = nil
        occupied = nil
        count = 0
    }

    /// Whether every timer stands in the bucket that its tick and the wheel's say. For tests.
    func checkInvariants() -> Bool {
        var seen = 0
        var isRight = true
        forEach { node in
            seen += 1
            let timerTick = TimerWheel.tick(of: node.instant)
            let level = level(of: timerTick)
            let slot = Int(timerTick >> Int64(level * TimerWheel.slotBits)) & 63
            if timerTick <= tick || node.pointee.index != level << TimerWheel.slotBits | slot || node.pointee.place != .wheel {
                isRight = false
            }
        }
        return isRight && seen == count
    }
}
