import CLinux
import Synchronization

typealias TimerFunction = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void

/// A timer. In memory the record is followed by its first `TimerNode`, so that all that adding, removing and rescheduling touch
/// is 64 bytes in a row, then by its `TimerDetails` and, if it repeats, its `TimerGrid`. In further modes it has nodes of their
/// own.
///
/// Fields marked "owner" are guarded by the lock of the loop that `loop` names, or, before the timer was in any, by the claim
/// that `lockTimer` puts there.
struct Timer: ~Copyable {
    /// Counts the references of clients. A loop keeps its timers without a count: see `release`.
    let header: ObjectHeader
    /// Bits of `TimerState`. Changed by read-modify-write that acquires and releases: the one that takes over the release of the
    /// context knows what the other did with it. `invalid` is set under the owner's lock, and read by anybody.
    let state: Atomic<UInt32>
    /// Bit 0: it is a common item of its loop. Bit 1: it has ghosts. From bit 2: how many modes it is in. Owner.
    fileprivate(set) var memberships: UInt32
    /// The loop it belongs to (S-TMR-13) if it is in one (`isInLoop`), else the last one it was in, whose memory and lock serve
    /// even when that loop is gone; nil before the first, or a claim for a moment. Released by the thread that gives the timer up,
    /// acquired by the one that takes it.
    let loop: Atomic<RunLoopPointer?>
    /// The monotonic instant it is due. Owner.
    var instant: Int64
}

typealias TimerPointer = UnsafeMutablePointer<Timer>

extension Timer {
    /// Whether it is a common item of its loop. Owner.
    var isCommon: Bool {
        get { memberships & 1 != 0 }
        set { memberships = newValue ? memberships | 1 : memberships & ~1 }
    }

    /// Whether nodes are ghosts: it left their modes, but its turn in a batch is still to come. Owner.
    var hasGhosts: Bool {
        get { memberships & 2 != 0 }
        set { memberships = newValue ? memberships | 2 : memberships & ~2 }
    }

    /// Modes it is in. Owner.
    var modeCount: Int {
        @inline(__always) get { Int(memberships >> 2) }
        @inline(__always) set { memberships = UInt32(truncatingIfNeeded: newValue) << 2 | memberships & 3 }
    }

    /// It is in no mode and no common item, and waits for no turn.
    mutating func leaveAll() { memberships = 0 }

    /// It is in one mode and waits for no turn in another.
    var isInOneMode: Bool { memberships & ~1 == 4 }
}

/// What a timer's calls and queries need.
struct TimerDetails {
    /// The date as it was given, or as the grid says after a fire. Owner.
    var fireDate: Double
    let callout: TimerFunction?
    /// What `retain` gave for the context's info.
    let info: UnsafeMutableRawPointer?
    /// The functions of the context, shared by all timers with the same; nil: none.
    let callbacks: CallbacksPointer?
    /// What few timers have; nil: none of it. Owner.
    var rare: UnsafeMutablePointer<TimerRarities>?
}

/// What a repeating timer needs to stay on its grid.
struct TimerGrid {
    let interval: Double
    /// Wall clock minus monotonic clock, in nanoseconds, when the date was set: what gives later instants their dates. Owner.
    var wallOffset: Int64
    /// What the instant lacks of the exact grid, below one nanosecond: intervals need not be whole ones (S-TMR-33). Owner.
    var fraction: Double
}

/// Fields that are seldom used, in a block of their own: a timer is as small as it can be. Guarded like the owner's fields.
struct TimerRarities {
    var order: Int
    var tolerance: Double
    /// How many nodes are ghosts.
    var ghostCount: Int
    /// The nodes of the further modes, found by their modes.
    var moreNodes: WordSet
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
    /// It has a `TimerGrid`. Set at creation.
    static var repeats: UInt32 { 1 << 5 }
}

extension Timer: Object {
    static var type: ObjectType { .timer }

    /// Nobody has a reference and no loop has the timer. It becomes invalid by it (S-TMR-48).
    static func destroy(_ timer: TimerPointer) {
        timer.header.pointee.type.store(ObjectType.freed.rawValue, ordering: .relaxed)
        if timer.isValid { timer.releaseInfo() }
        if let callbacks = timer.details.pointee.callbacks { Callbacks.release(callbacks) }
        CLinux.free(timer.details.pointee.rare)
        CLinux.free(timer)
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    static func make(date: Double, interval: Double, order: Int, callout: TimerFunction?, context: ClientContext) -> TimerPointer {
        var context = context
        context.adopt()
        let repeats = interval > 0
        let detailsSize = MemoryLayout<TimerDetails>.stride + (repeats ? MemoryLayout<TimerGrid>.stride : 0)
        guard let memory = malloc(detailsOffset + detailsSize) else { trap("RLTimerCreate", "out of memory") }
        let timer = memory.assumingMemoryBound(to: Timer.self)
        timer.initialize(to: Timer(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(repeats ? TimerState.repeats : 0),
            memberships: 0, loop: Atomic(nil), instant: 0))
        timer.firstNode.initialize(to: TimerNode())
        timer.details.initialize(to: TimerDetails(
            fireDate: 0, callout: callout, info: context.info, callbacks: context.sharedFunctions(), rare: nil))
        if repeats { timer.grid.initialize(to: TimerGrid(interval: interval, wallOffset: 0, fraction: 0)) }
        timer.setDate(date)
        if order != 0 { timer.makeRarities().pointee.order = order }
        timer.initializeHeader()
        return timer
    }

    var firstNode: TimerNodePointer {
        (UnsafeMutableRawPointer(self) + MemoryLayout<Timer>.stride).assumingMemoryBound(to: TimerNode.self)
    }

    private static var detailsOffset: Int { MemoryLayout<Timer>.stride + MemoryLayout<TimerNode>.stride }

    var details: UnsafeMutablePointer<TimerDetails> {
        (UnsafeMutableRawPointer(self) + UnsafeMutablePointer.detailsOffset).assumingMemoryBound(to: TimerDetails.self)
    }

    /// Only a timer that repeats has one.
    var grid: UnsafeMutablePointer<TimerGrid> {
        UnsafeMutableRawPointer(details + 1).assumingMemoryBound(to: TimerGrid.self)
    }

    /// Drops a client's reference. The loop the timer is in, and the thread that calls it, keep it without a count, which only
    /// their lock shows: so the last reference goes under that lock, and whoever then takes the timer out destroys it.
    func release() {
        var count = header.pointee.references.load(ordering: .relaxed)
        while count > 1 {
            if header.pointee.references.replace(&count, by: count - 1) { return }
        }
        forgetVanishedLoop()
        let owner = lockTimer()
        // Its callback may retain it meanwhile, or, if several references are dropped at once, another thread be here too.
        var isLast = !isKept && header.pointee.references.load(ordering: .acquiring) == 1
        if !isLast {
            let left = header.pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
            isLast = left == 0 && !isKept
        }
        unlockTimer(owner)
        if isLast { Timer.destroy(self) }
    }

    /// Whether nobody needs it any more. The owner's lock is held; if so, the caller destroys it without the lock.
    var isAbandoned: Bool { !isKept && header.pointee.references.load(ordering: .acquiring) == 0 }

    private var isKept: Bool { isInLoop || isFiring }

    /// What `RLGetRetainCount` says: the clients' references and the loop's.
    var retainCount: Int {
        forgetVanishedLoop()
        let owner = lockTimer()
        defer { unlockTimer(owner) }
        return Int(header.pointee.references.load(ordering: .relaxed)) + (isInLoop ? 1 : 0)
    }

    var context: ClientContext { ClientContext(info: details.pointee.info, sharedFunctions: details.pointee.callbacks) }

    func releaseInfo() {
        if details.pointee.callbacks != nil { context.releaseInfo() }
    }

    /// The block of rare fields, made if need be. The owner's lock is held.
    func makeRarities() -> UnsafeMutablePointer<TimerRarities> {
        if let rare = details.pointee.rare { return rare }
        let rare = makeRecord(TimerRarities.self)
        details.pointee.rare = rare
        return rare
    }

    var order: Int { details.pointee.rare?.pointee.order ?? 0 }
    var tolerance: Double { details.pointee.rare?.pointee.tolerance ?? 0 }
    /// The node of a further mode, nil if there is none.
    var anyFurtherNode: TimerNodePointer? {
        details.pointee.rare.flatMap { TimerNodePointer(bitPattern: $0.pointee.moreNodes.last) }
    }

    /// Counts the nodes that are ghosts. The owner's lock is held.
    func addGhosts(_ difference: Int) {
        let rare = makeRarities()
        rare.pointee.ghostCount += difference
        pointee.hasGhosts = rare.pointee.ghostCount > 0
    }

    var isValid: Bool { pointee.state.load(ordering: .acquiring) & TimerState.invalid == 0 }
    var isFiring: Bool { pointee.state.load(ordering: .acquiring) & TimerState.firing != 0 }
    var repeats: Bool { pointee.state.load(ordering: .relaxed) & TimerState.repeats != 0 }
    var interval: Double { repeats ? grid.pointee.interval : 0 }

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

    /// Gives the caller the timer's fields: takes the lock of the loop that guards them, which is returned, or claims a timer
    /// that was in none. The timer need not be in that loop.
    @inline(__always)
    func lockTimer() -> RunLoopPointer? {
        if let loop = pointee.loop.load(ordering: .acquiring), !isClaim(loop) {
            loop.lock(owner: loop.isCurrent)
            if pointee.loop.load(ordering: .relaxed) == loop { return loop }
            loop.unlock()
        }
        return lockTimerSlowly()
    }

    @inline(never)
    private func lockTimerSlowly() -> RunLoopPointer? {
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
            loop.unlock()  // Another loop's lock guards it by now; each turn needs such a change by another thread.
        }
    }

    @inline(__always)
    func unlockTimer(_ loop: RunLoopPointer?) {
        if let loop { loop.unlock(owner: loop.isCurrent) } else { pointee.loop.store(nil, ordering: .releasing) }
    }

    /// Whether the loop's lock, which the caller holds, guards the timer.
    @inline(__always)
    func isGuarded(by loop: RunLoopPointer) -> Bool {
        UInt(bitPattern: pointee.loop.load(ordering: .acquiring)) == UInt(bitPattern: loop)
    }

    /// Makes a loop's lock, which the caller holds, the one that guards the timer. False if another one does.
    @inline(__always)
    func enter(_ loop: RunLoopPointer) -> Bool {
        isGuarded(by: loop) || enterSlowly(loop)
    }

    @inline(never)
    private func enterSlowly(_ loop: RunLoopPointer) -> Bool {
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
    @inline(__always)
    func node(in mode: ModePointer) -> TimerNodePointer? {
        if UInt(bitPattern: firstNode.pointee.mode) == UInt(bitPattern: mode) { return firstNode }
        // A look at the memory behind, spared if it can be.
        return pointee.memberships & ~1 == 0 ? nil : furtherNode(in: mode)
    }

    @inline(never)
    private func furtherNode(in mode: ModePointer) -> TimerNodePointer? {
        guard let rare = details.pointee.rare else { return nil }
        return TimerNodePointer(bitPattern: rare.pointee.moreNodes.find(UInt(bitPattern: mode), isKeyed: true))
    }

    /// A free node, made if need be. The owner's lock is held.
    @inline(__always)
    func makeNode(for mode: ModePointer) -> TimerNodePointer {
        if firstNode.pointee.mode == nil {
            firstNode.pointee.mode = mode
            return firstNode
        }
        return makeFurtherNode(for: mode)
    }

    @inline(never)
    private func makeFurtherNode(for mode: ModePointer) -> TimerNodePointer {
        let rare = makeRarities()
        let node = makeRecord(FurtherNode.self)
        node.initialize(to: FurtherNode(node: TimerNode(), timer: self))
        let made = UnsafeMutableRawPointer(node).assumingMemoryBound(to: TimerNode.self)
        made.pointee.mode = mode
        made.pointee.isFurther = true
        rare.pointee.moreNodes.insert(UInt(bitPattern: made), isKeyed: true)
        return made
    }

    /// Gives a node back that is in no store. The owner's lock is held.
    @inline(__always)
    func freeNode(_ node: TimerNodePointer) {
        if node == firstNode { node.pointee.mode = nil } else { freeFurtherNode(node) }
    }

    @inline(never)
    private func freeFurtherNode(_ node: TimerNodePointer) {
        _ = details.pointee.rare!.pointee.moreNodes.remove(UInt(bitPattern: node.pointee.mode), isKeyed: true)
        CLinux.free(node)
    }

    /// Calls the body with each node that is in a mode. The body may not add or free nodes.
    @inline(__always)
    func forEachNode(_ body: (TimerNodePointer) -> Void) {
        let isFirstIn = firstNode.pointee.mode != nil
        if isFirstIn { body(firstNode) }
        if isFirstIn && pointee.isInOneMode { return }
        forEachFurtherNode(body)
    }

    @inline(__always)
    private func forEachFurtherNode(_ body: (TimerNodePointer) -> Void) {
        details.pointee.rare?.pointee.moreNodes.forEach { body(TimerNodePointer(bitPattern: $0)!) }
    }

    /// Gives all nodes back, which are in no store. The owner's lock is held.
    func freeAllNodes() {
        if firstNode.pointee.mode != nil { freeNode(firstNode) }
        while let node = anyFurtherNode { freeNode(node) }
        details.pointee.rare?.pointee.ghostCount = 0
        pointee.modeCount = 0
        pointee.hasGhosts = false
    }

    /// Sets the date and the instant it stands for (S-TMR-6 to 9). The owner's lock is held.
    @inline(__always)
    func setDate(_ date: Double) {
        let reading = Clock.instant(ofDate: date)
        details.pointee.fireDate = date > Clock.latestDate ? Clock.latestDate : date
        pointee.instant = reading.instant
        if repeats {
            grid.pointee.wallOffset = reading.wallOffset
            grid.pointee.fraction = 0
        }
    }

    /// Makes a timer due so many seconds from now, whatever is done to the wall clock meanwhile. It does not repeat and was never
    /// in a loop; the seconds are more than 0.
    @inline(never)
    func setDelay(_ seconds: Double) {
        details.pointee.fireDate = Swift.min(Double(Clock.wallNow()) / 1e9 + seconds, Clock.latestDate)
        pointee.instant = Clock.now() + Clock.nanoseconds(Swift.min(seconds, Clock.longestInterval))
    }

    /// Moves a repeating timer to the first instant of the grid that is later than `now`, in one step however late it is
    /// (S-TMR-29, S-TMR-32). The owner's lock is held.
    func advance(past now: Int64) {
        if pointee.instant == Clock.never { return }
        let step = Swift.min(Swift.max(grid.pointee.interval * 1e9, 1), Clock.longestInterval * 1e9)
        let fraction = grid.pointee.fraction
        let lateness = Double(now - pointee.instant) - fraction
        var count = lateness < 0 ? 1 : (lateness / step).wholePart + 1
        var distance = count * step + fraction
        // The division may be off by an ulp or two of the lateness: the next instant is later than now.
        let correction = Swift.max((lateness.ulp / step).wholePart, 0) + 1
        while pointee.instant + Int64(distance) <= now {
            count += correction
            distance = count * step + fraction
        }
        let whole = distance.wholePart
        pointee.instant += Int64(whole)
        grid.pointee.fraction = distance - whole
        details.pointee.fireDate = (Double(pointee.instant + grid.pointee.wallOffset) + grid.pointee.fraction) / 1e9
    }
}

extension Double {
    /// The value without its fraction, for values below 2^63; no call into libm.
    fileprivate var wholePart: Double { self < 9e18 ? Double(Int64(self)) : self }
}
