import CLinux
import Synchronization

typealias TimerFunction = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void

/// A timer. The record is followed in memory by its first `TimerNode`; in further modes it has nodes of their own.
///
/// Fields marked "owner" are guarded by the lock of the loop the timer is in, or, while it is in none, by the claim that
/// `lockTimer` puts into `loop`.
struct Timer: ~Copyable {
    let header: ObjectHeader
    /// Bits of `TimerState`.
    let state: Atomic<UInt32>
    /// Modes it is in. Owner.
    var modeCount: UInt16
    /// Nodes that are ghosts: it left their modes, but its turn in a batch is still to come. Owner.
    var ghostCount: UInt8
    /// Whether it is a common item of its loop. Owner.
    var isCommon: Bool
    /// The loop it belongs to (S-TMR-13), nil, or `claimed` for a moment.
    let loop: Atomic<RunLoopPointer?>
    let callout: TimerFunction?
    let context: ClientContext
    let interval: Double
    /// The date as it was given, or as the grid says after a fire. Owner.
    var fireDate: Double
    /// The monotonic instant it is due. Owner.
    var instant: Int64
    /// Wall clock minus monotonic clock, in nanoseconds, when the date was set: what gives later instants their dates. Owner.
    var wallOffset: Int64
    /// What the instant lacks of the exact grid, below one nanosecond: intervals need not be whole ones (S-TMR-33). Owner.
    var fraction: Double
    /// What few timers have; nil: none of it. Owner.
    var rare: UnsafeMutablePointer<TimerRarities>?
}

typealias TimerPointer = UnsafeMutablePointer<Timer>

/// Fields that are seldom used, in a block of their own: a timer is as small as it can be. Guarded like the owner's fields.
struct TimerRarities {
    var order: Int
    var tolerance: Double
    /// The nodes of the further modes, linked by `nextOfTimer`.
    var moreNodes: TimerNodePointer?
}

/// The bits of `Timer.state`. Changed by read-modify-write, read by anybody.
enum TimerState {
    static var invalid: UInt32 { 1 << 0 }
    /// Its callback is on the stack, or about to be.
    static var firing: UInt32 { 1 << 1 }
    /// The loop's thread uses the info without a reference of its own: an Invalidate elsewhere leaves the release to it.
    static var usingInfo: UInt32 { 1 << 2 }
    /// The context is to be released by the loop's thread when it has done with the info.
    static var releasePending: UInt32 { 1 << 3 }
    /// A date was set while the callback ran (S-TMR-38).
    static var dateSet: UInt32 { 1 << 4 }
}

extension Timer: Object {
    static var type: ObjectType { .timer }

    /// The last reference is gone: the timer is in no loop. It becomes invalid by it (S-TMR-48).
    static func destroy(_ timer: TimerPointer) {
        let old = timer.pointee.state.bitwiseOr(TimerState.invalid, ordering: .acquiringAndReleasing).oldValue
        timer.header.pointee.type.store(ObjectType.freed.rawValue, ordering: .relaxed)
        if old & TimerState.invalid == 0 { timer.pointee.context.releaseInfo() }
        CLinux.free(timer.pointee.rare)
        CLinux.free(timer)
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    static func make(date: Double, interval: Double, order: Int, callout: TimerFunction?, context: ClientContext) -> TimerPointer {
        var context = context
        context.adopt()
        let timer = makeRecord(Timer.self, tail: MemoryLayout<TimerNode>.stride)
        timer.initialize(to: Timer(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(0), modeCount: 0, ghostCount: 0,
            isCommon: false, loop: Atomic(nil), callout: callout, context: context, interval: interval, fireDate: 0,
            instant: 0, wallOffset: 0, fraction: 0, rare: nil))
        timer.setDate(date)
        if order != 0 { timer.makeRarities().pointee.order = order }
        timer.initializeHeader()
        timer.firstNode.initialize(to: TimerNode(timer: timer))
        return timer
    }

    var firstNode: TimerNodePointer {
        (UnsafeMutableRawPointer(self) + MemoryLayout<Timer>.stride).assumingMemoryBound(to: TimerNode.self)
    }

    /// The block of rare fields, made if need be. The owner's lock is held.
    func makeRarities() -> UnsafeMutablePointer<TimerRarities> {
        if let rare = pointee.rare { return rare }
        let rare = makeRecord(TimerRarities.self)
        pointee.rare = rare
        return rare
    }

    var order: Int { pointee.rare?.pointee.order ?? 0 }
    var tolerance: Double { pointee.rare?.pointee.tolerance ?? 0 }
    var moreNodes: TimerNodePointer? { pointee.rare?.pointee.moreNodes }

    var isValid: Bool { pointee.state.load(ordering: .acquiring) & TimerState.invalid == 0 }
    var isFiring: Bool { pointee.state.load(ordering: .acquiring) & TimerState.firing != 0 }
    var repeats: Bool { pointee.interval > 0 }

    /// The last instant at which it may fire when the loop is idle (S-TMR-53).
    @inline(__always)
    var latestInstant: Int64 {
        if tolerance == 0 || pointee.instant == Clock.never { return pointee.instant }
        return pointee.instant &+ Clock.nanoseconds(Swift.min(tolerance, Clock.longestInterval))
    }

    /// Stands in `loop` while a thread has the fields of a timer that is in no loop. It tells the process too: in the child of
    /// `fork` a claim from before is one whose thread does not exist. No loop has such an address: they are multiples of 64.
    private static var claimed: RunLoopPointer {
        RunLoopPointer(bitPattern: UInt(process.pointee.forkGeneration.load(ordering: .relaxed)) << 6 | 8)!
    }

    func isClaim(_ loop: RunLoopPointer) -> Bool { UInt(bitPattern: loop) & 63 == 8 }

    /// Gives the caller the timer's fields: takes the lock of its loop, which is returned, or claims it if it has none.
    func lockTimer() -> RunLoopPointer? {
        while true {
            guard let loop = pointee.loop.load(ordering: .acquiring) else {
                let claim = pointee.loop.compareExchange(
                    expected: nil, desired: UnsafeMutablePointer.claimed, ordering: .acquiring)
                if claim.exchanged { return nil }
                continue
            }
            if isClaim(loop) {
                let claimed = UnsafeMutablePointer.claimed
                if loop != claimed, pointee.loop.compareExchange(expected: loop, desired: claimed, ordering: .acquiring).exchanged {
                    return nil
                }
                // Another thread has the fields for a few instructions, with no client code in between.
                sched_yield()
                continue
            }
            loop.lock()
            if pointee.loop.load(ordering: .relaxed) == loop { return loop }
            loop.unlock()  // It left, or the loop is gone; each turn needs such a change by another thread.
        }
    }

    func unlockTimer(_ loop: RunLoopPointer?) {
        if let loop { loop.unlock() } else { pointee.loop.store(nil, ordering: .releasing) }
    }

    /// Makes the timer belong to a loop whose lock the caller holds. False if it belongs to another one.
    func enter(_ loop: RunLoopPointer) -> Bool {
        var expected: RunLoopPointer?
        while true {
            let (exchanged, original) = pointee.loop.compareExchange(
                expected: expected, desired: loop, ordering: .acquiringAndReleasing)
            if exchanged || original == loop { return true }
            guard let original else {
                expected = nil
                continue
            }
            if !isClaim(original) { return false }
            if original == UnsafeMutablePointer.claimed { sched_yield() } else { expected = original }  // As in `lockTimer`.
        }
    }

    /// The node for a mode, nil if the timer is not in it. The owner's lock is held.
    func node(in mode: ModePointer) -> TimerNodePointer? {
        if firstNode.pointee.mode == mode { return firstNode }
        var node = moreNodes
        while let current = node {
            if current.pointee.mode == mode { return current }
            node = current.nextOfTimer
        }
        return nil
    }

    /// A free node, made if need be. The owner's lock is held.
    func makeNode(for mode: ModePointer) -> TimerNodePointer {
        if firstNode.pointee.mode == nil {
            firstNode.pointee.mode = mode
            return firstNode
        }
        let rare = makeRarities()
        let node = makeRecord(FurtherNode.self)
        node.initialize(to: FurtherNode(node: TimerNode(timer: nil), timer: self, next: rare.pointee.moreNodes))
        let made = UnsafeMutableRawPointer(node).assumingMemoryBound(to: TimerNode.self)
        made.pointee.mode = mode
        made.pointee.isFurther = true
        rare.pointee.moreNodes = made
        return made
    }

    /// Gives a node back that is in no store. The owner's lock is held.
    func freeNode(_ node: TimerNodePointer) {
        node.pointee.mode = nil
        guard node != firstNode else { return }
        var place = moreNodes
        var previous: TimerNodePointer?
        while let current = place, current != node {
            previous = current
            place = current.nextOfTimer
        }
        if let previous { previous.nextOfTimer = node.nextOfTimer } else { pointee.rare!.pointee.moreNodes = node.nextOfTimer }
        CLinux.free(node)
    }

    /// Calls the body with each node that is in a mode. The body may not add or free nodes.
    @inline(__always)
    func forEachNode(_ body: (TimerNodePointer) -> Void) {
        if firstNode.pointee.mode != nil { body(firstNode) }
        var node = moreNodes
        while let current = node {
            node = current.nextOfTimer
            body(current)
        }
    }

    /// Sets the date and the instant it stands for (S-TMR-6 to 9). The owner's lock is held.
    func setDate(_ date: Double) {
        let reading = Clock.instant(ofDate: date)
        pointee.fireDate = date > Clock.latestDate ? Clock.latestDate : date
        pointee.instant = reading.instant
        pointee.wallOffset = reading.wallOffset
        pointee.fraction = 0
    }

    /// Moves to the first instant of the grid that is later than `now`, in one step however late it is (S-TMR-29, S-TMR-32).
    /// The owner's lock is held.
    func advance(past now: Int64) {
        if pointee.instant == Clock.never { return }
        let step = Swift.min(Swift.max(pointee.interval * 1e9, 1), Clock.longestInterval * 1e9)
        let lateness = Double(now - pointee.instant) - pointee.fraction
        var count = lateness < 0 ? 1 : (lateness / step).wholePart + 1
        var distance = count * step + pointee.fraction
        // The division may be off by an ulp or two of the lateness: the next instant is later than now.
        let correction = Swift.max((lateness.ulp / step).wholePart, 0) + 1
        while pointee.instant + Int64(distance) <= now {
            count += correction
            distance = count * step + pointee.fraction
        }
        let whole = distance.wholePart
        pointee.instant += Int64(whole)
        pointee.fraction = distance - whole
        pointee.fireDate = (Double(pointee.instant + pointee.wallOffset) + pointee.fraction) / 1e9
    }
}

extension Double {
    /// The value without its fraction, for values below 2^63; no call into libm.
    fileprivate var wholePart: Double { self < 9e18 ? Double(Int64(self)) : self }
}
