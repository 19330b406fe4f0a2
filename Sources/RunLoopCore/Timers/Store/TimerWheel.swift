// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A hierarchical wheel over the timers that are not due soon: adding and removing cost the same for ten and for a million.
///
/// Time is divided into ticks of 2^20 ns (about a millisecond). Eight levels of 64 buckets; a timer whose tick differs from the
/// wheel's in the highest group of six bits number l belongs on level l, in the bucket whose number is this group of its own
/// tick. So all timers on a level come before all on the next, and on a level the buckets are in order of their number. When the
/// wheel moves on, the buckets whose time has come are emptied: what is due in this tick leaves the wheel, the rest moves to
/// lower levels. A timer moves at most once per level.
///
/// The loop's lock guards it. (Hashed and hierarchical timing wheels: Varghese and Lauck, 1987.)
struct TimerWheel {
    static var levels: Int { 8 }
    private static var slotBits: Int { 6 }
    static var tickBits: Int { 20 }

    private var buckets: UnsafeMutablePointer<TimerBucket>?
    /// One word per level, one bit per bucket. A bucket whose bit is clear is empty; one whose bit is set has not yet been found empty.
    private var occupied: UnsafeMutablePointer<UInt64>?
    /// The present tick. Timers of this tick and earlier ones are not in the wheel.
    private(set) var tick: Int64 = 0
    private(set) var count = 0
    /// The timer with the earliest instant of all, if that is known.
    private var earliest: TimerNodePointer?

    var isEmpty: Bool { count == 0 }

    static func tick(of instant: Int64) -> Int64 { instant >> Int64(tickBits) }

    /// Whether its present tick was set, and it has its buckets.
    var isSet: Bool { buckets != nil }

    @inline(never)
    mutating func set(tick now: Int64) {
        tick = max(tick, now)
        buckets = makeArray(TimerBucket.self, count: TimerWheel.levels << TimerWheel.slotBits)
        occupied = makeArray(UInt64.self, count: TimerWheel.levels)
    }

    /// Ticks have 43 bits, so there is no level beyond the last.
    @inline(always)
    private func level(of timerTick: Int64) -> Int {
        let difference = UInt64(bitPattern: timerTick ^ tick) | 63
        // A sixth of a number below 64. The compiler, which prefers small code, would divide.
        return ((63 &- difference.leadingZeroBitCount) &* 43) >> 8
    }

    /// The bucket of a timer. Its tick must be later than the wheel's.
    @inline(always)
    private func bucket(of instant: Int64) -> Int {
        let timerTick = TimerWheel.tick(of: instant)
        let level = level(of: timerTick)
        return level << TimerWheel.slotBits | Int(timerTick >> Int64(level * TimerWheel.slotBits)) & 63
    }

    /// The timer's tick must be later than the wheel's.
    @inline(always)
    mutating func insert(_ node: TimerNodePointer, instant: Int64) {
        let index = bucket(of: instant)
        node.pointee.setPlace(.wheel, index: index)
        buckets.unsafelyUnwrapped[index].insert(node)
        occupied.unsafelyUnwrapped[index >> TimerWheel.slotBits] |= 1 << UInt64(index & 63)
        count &+= 1
        if let known = earliest, instant < known.instant { earliest = node }
    }

    @inline(always)
    mutating func remove(_ node: TimerNodePointer) {
        buckets.unsafelyUnwrapped[node.pointee.index].remove(node)
        node.pointee.place = .nowhere
        count &-= 1
        if node == earliest { earliest = nil }
    }

    /// The number of the first bucket that is not empty, and the tick at which its time comes. The wheel is not empty.
    private mutating func firstBucket() -> (index: Int, tick: Int64) {
        var level = 0
        while true {
            guard occupied![level] != 0 else {
                level += 1
                continue
            }
            let slot = occupied![level].trailingZeroBitCount
            let index = level << TimerWheel.slotBits | slot
            if buckets![index].count == 0 {
                buckets![index].empty()
                occupied![level] &= ~(1 << UInt64(slot))
                continue
            }
            return (index, begin(ofSlot: slot, level))
        }
    }

    /// The tick at which the time of a bucket comes.
    private func begin(ofSlot slot: Int, _ level: Int) -> Int64 {
        let shift = Int64(level * TimerWheel.slotBits)
        let above = (tick >> (shift + Int64(TimerWheel.slotBits))) << (shift + Int64(TimerWheel.slotBits))
        return above | Int64(slot) << shift
    }

    /// The earliest instant in the wheel, and its timer, if few timers have to be looked at for that; else the instant at which
    /// the first bucket begins: then the loop wakes, the bucket is emptied, and the few that come first are known. The wheel is
    /// not empty.
    mutating func nextInstant() -> (instant: Int64, timer: TimerPointer?) {
        let bucket = firstBucket()
        buckets![bucket.index].closeHoles()
        guard buckets![bucket.index].count <= 16 else { return (bucket.tick << Int64(TimerWheel.tickBits), nil) }
        let earliest = earliest(in: bucket.index)
        return (earliest.instant, earliest.timer)
    }

    /// The timer with the earliest instant. It may look at all timers of the first bucket, if that timer was taken out since they
    /// were looked at. The wheel is not empty.
    mutating func first() -> TimerNodePointer {
        if let earliest { return earliest }
        let first = earliest(in: firstBucket().index)
        earliest = first
        return first
    }

    /// The tick at which the time of the first bucket comes, if it would take a look at many timers to find the first of them.
    var crowdedTick: Int64? {
        mutating get {
            if earliest != nil || count == 0 { return nil }
            let bucket = firstBucket()
            buckets![bucket.index].closeHoles()
            return buckets![bucket.index].count > 16 ? bucket.tick : nil
        }
    }

    private func earliest(in index: Int) -> TimerNodePointer {
        var earliest: TimerNodePointer?
        buckets![index].forEach { node in
            if earliest.map({ node.precedes($0) }) ?? true { earliest = node }
        }
        return earliest.unsafelyUnwrapped
    }

    /// Any timer; taking all out, one after the other, costs the same for each. The wheel is not empty.
    mutating func anyNode() -> TimerNodePointer {
        buckets![firstBucket().index].last()
    }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes, and at no more than 64; or, to be exact,
    /// at all in the buckets that begin before the limit. Timers that are due at `time` or before do not count.
    mutating func latestWake(_ limit: Int64, after time: Int64 = .min, isExact: Bool = false) -> Int64 {
        guard count > 0 else { return limit }
        var limit = limit
        var looks = isExact ? Int.max : 64
        for level in 0..<TimerWheel.levels {
            var slots = occupied![level]
            if level > 0 && !isExact { looks = 0 }
            while slots != 0 {
                let slot = slots.trailingZeroBitCount
                slots &= slots - 1
                let first = self.begin(ofSlot: slot, level)
                let begin = first << Int64(TimerWheel.tickBits)
                if begin >= limit { return limit }
                if first + (1 << Int64(level * TimerWheel.slotBits)) <= TimerWheel.tick(of: time) { continue }
                let index = level << TimerWheel.slotBits | slot
                buckets![index].closeHoles()
                for place in 0..<buckets![index].end {
                    guard let node = buckets![index].node(at: place) else { continue }
                    if looks == 0 { return begin }
                    looks -= 1
                    if node.instant > time { limit = min(limit, node.timer.latestInstant) }
                }
            }
        }
        return limit
    }

    /// Moves the wheel to a later tick. Timers of that tick and before are passed to `due`, in no order.
    mutating func advance(to newTick: Int64, due: (TimerNodePointer) -> Void) {
        while count > 0 {
            let bucket = firstBucket()
            guard bucket.tick <= newTick else { break }
            // The wheel is at the bucket's beginning while the bucket is emptied: its timers move to lower levels.
            tick = bucket.tick
            earliest = nil
            occupied![bucket.index >> TimerWheel.slotBits] &= ~(1 << UInt64(bucket.index & 63))
            count -= Int(buckets![bucket.index].count)
            buckets![bucket.index].forEach { node in
                if TimerWheel.tick(of: node.instant) <= newTick {
                    node.pointee.place = .nowhere
                    due(node)
                } else {
                    insert(node, instant: node.instant)
                }
            }
            buckets![bucket.index].empty()
        }
        // No bucket begins between the present tick and the new one, so every timer keeps its level and bucket.
        if newTick > tick { tick = newTick }
    }

    /// Calls the body with each node, those that are due earlier in the wheel's buckets first, until it returns false; true if it never did.
    func forEach(_ body: (TimerNodePointer) -> Bool) -> Bool {
        if count == 0 { return true }
        for level in 0..<TimerWheel.levels {
            var slots = occupied![level]
            while slots != 0 {
                let bucket = buckets![level << TimerWheel.slotBits | slots.trailingZeroBitCount]
                slots &= slots - 1
                for place in 0..<bucket.end {
                    if let node = bucket.node(at: place), !body(node) { return false }
                }
            }
        }
        return true
    }

    mutating func free() {
        if let buckets { for index in 0..<(TimerWheel.levels << TimerWheel.slotBits) { buckets[index].free() } }
        CRunLoopLinux.free(buckets)
        CRunLoopLinux.free(occupied)
        buckets = nil
        occupied = nil
        count = 0
        earliest = nil
    }

    /// Whether every timer is in the bucket that follows from its tick and the wheel's. For tests.
    func checkInvariants() -> Bool {
        var seen = 0
        var isRight = true
        guard let buckets else { return count == 0 }
        for index in 0..<(TimerWheel.levels << TimerWheel.slotBits) {
            if !buckets[index].checkInvariants() { isRight = false }
            if buckets[index].count > 0 && occupied![index >> TimerWheel.slotBits] & 1 << UInt64(index & 63) == 0 { isRight = false }
            buckets[index].forEach { node in
                seen += 1
                if TimerWheel.tick(of: node.instant) <= tick || bucket(of: node.instant) != index { isRight = false }
                if node.pointee.index != index || node.pointee.place != .wheel { isRight = false }
            }
        }
        return isRight && seen == count
    }
}
