// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A timer. In memory the record is followed by its first `TimerNode`, so that adding, removing and rescheduling touch only 64
/// contiguous bytes, then by its `TimerDetails` and, if it repeats, its `TimerGrid`. In further modes it has separate nodes.
///
/// Fields marked "owner" are guarded by the lock of the loop that `owner` names, or, before the timer was in any, by the claim
/// that `lockTimer` puts there.
struct Timer: ~Copyable {
    /// Counts the references of clients. A loop keeps its timers without a count: see `release`.
    let header: ObjectHeader
    /// Bits of `TimerState`. Changed under the owner's lock, so that plain stores do; released there and acquired by a thread that reads
    /// it without the lock.
    let state: Atomic<UInt32>
    /// Bit 0: it is a common item of its loop. Bit 1: it has tombstones. From bit 2: how many modes it is in. Owner.
    fileprivate(set) var memberships: UInt32
    /// The owner of the fields marked "owner": the loop that it belongs to (S-TMR-13) if it is in one (`isInLoop`), else the last
    /// one it was in, whose memory and lock serve even when that loop is gone. Acquired and released with the fields.
    let owner: Atomic<TimerOwner>
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

    /// Whether nodes are tombstones: it left their modes, but its turn in a batch is still to come. Owner.
    var hasTombstones: Bool {
        get { memberships & 2 != 0 }
        set { memberships = newValue ? memberships | 2 : memberships & ~2 }
    }

    /// Modes it is in. Owner.
    var modeCount: Int {
        @inline(always) get { Int(memberships >> 2) }
        @inline(always) set { memberships = UInt32(truncatingIfNeeded: newValue) << 2 | memberships & 3 }
    }

    /// It is in no mode and no common item, and waits for no turn.
    mutating func leaveAll() { memberships = 0 }

    /// It is in one mode and waits for no turn in another.
    var isInOneMode: Bool { memberships & ~1 == 4 }
}

/// What a timer's calls and queries need.
struct TimerDetails {
    /// The date as it was set, or as it follows from the grid after a fire. Owner.
    var fireDate: Double
    let callout: TimerFunction?
    /// What `retain` returned for the context's info.
    let info: UnsafeMutableRawPointer?
    /// The functions of the context, shared by all timers with the same; nil: none.
    let callbacks: CallbacksPointer?
    /// What few timers have; nil: none of it. Owner.
    var rare: UnsafeMutablePointer<TimerRarities>?
}

/// What a repeating timer needs to stay on its grid.
struct TimerGrid {
    let interval: Double
    /// Wall clock minus monotonic clock, in nanoseconds, when the date was set: later instants get their dates by it. Owner.
    var wallOffset: Int64
    /// By how much the instant is before the exact grid, half a nanosecond at most: intervals need not be whole ones (S-TMR-33). Owner.
    var fraction: Double
}

/// Fields that are rarely used, in a block of their own: a timer is as small as it can be. Guarded like the owner's fields.
struct TimerRarities {
    var order: Int
    var tolerance: Double
    /// When it is due on its own clock, if that is the boot or the wall clock (`FollowedClock`).
    var target: Int64
    /// How many nodes are tombstones.
    var tombstoneCount: Int32
    /// `ManualClock.number` of the clock by which its instant is, if the number is too large for `TimerState.clocks`.
    var clock: UInt32
    /// The nodes of the further modes, found by their modes.
    var moreNodes: WordSet
}

/// The bits of `Timer.state`.
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
    /// A one-shot that stays valid after its fire (S-TMR-57).
    static var reusable: UInt32 { 1 << 6 }
    /// It goes by the boot clock, or the wall clock, and has a `TimerRarities.target`. Set at creation.
    static var boot: UInt32 { 1 << 8 }
    static var wall: UInt32 { 1 << 9 }
    static var followsClock: UInt32 { boot | wall }
    /// It left its loop while it was called there. The bits `generations` identify the process whose thread calls it, for a child of `fork`:
    /// no loop has the timer by then, or another one has it.
    static var leftInCallback: UInt32 { 1 << 10 }
    /// Its callback performs a request, whose function is the first word of the info.
    static var request: UInt32 { 1 << 11 }
    static var generations: UInt32 { 0xff << 12 }
    static var generation: UInt32 { process.pointee.forkGeneration.load(ordering: .relaxed) << 12 & generations }
    /// `ManualClock.number` of the clock by which its instant is; 0: the system's; all bits: `TimerRarities.clock` has the number.
    static var clocks: UInt32 { 0xfff << 20 }

    /// What a finished callback leaves.
    static var callback: UInt32 { firing | usingInfo | releasePending | dateSet | leftInCallback | generations }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// Memory for a timer, whose records are still to be initialised.
    @inline(always)
    static func allocate(repeats: Bool) -> TimerPointer {
        let detailsSize = MemoryLayout<TimerDetails>.stride + (repeats ? MemoryLayout<TimerGrid>.stride : 0)
        guard let memory = malloc(detailsOffset + detailsSize) else { trap("RLTimerCreate", "out of memory") }
        return memory.assumingMemoryBound(to: Timer.self)
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

    /// The block of rare fields, made if need be. The owner's lock is held.
    func makeRarities() -> UnsafeMutablePointer<TimerRarities> { details.pointee.rare ?? makeFirstRarities() }

    @inline(never)
    private func makeFirstRarities() -> UnsafeMutablePointer<TimerRarities> {
        let rare = makeRecord(TimerRarities.self)
        details.pointee.rare = rare
        return rare
    }

    /// The client's function that the timer calls: its callback, or what a request performs. The timer is locked, or the loop's thread is about
    /// to call it.
    @inline(always)
    var clientFunction: UnsafeRawPointer? {
        if pointee.state.load(ordering: .relaxed) & (TimerState.request | TimerState.invalid) == TimerState.request {
            return details.pointee.info!.load(as: UnsafeRawPointer?.self)
        }
        return unsafeBitCast(details.pointee.callout, to: UnsafeRawPointer?.self)
    }

    var order: Int { details.pointee.rare?.pointee.order ?? 0 }
    var tolerance: Double { details.pointee.rare?.pointee.tolerance ?? 0 }
    /// The node of a further mode, nil if there is none.
    var anyFurtherNode: TimerNodePointer? {
        details.pointee.rare.flatMap { TimerNodePointer(bitPattern: $0.pointee.moreNodes.last) }
    }

    /// Counts the nodes that are tombstones. The owner's lock is held.
    func addTombstones(_ difference: Int32) {
        let rare = makeRarities()
        rare.pointee.tombstoneCount += difference
        pointee.hasTombstones = rare.pointee.tombstoneCount > 0
    }

    var repeats: Bool { pointee.state.load(ordering: .relaxed) & TimerState.repeats != 0 }
    var interval: Double { repeats ? grid.pointee.interval : 0 }

    /// The last instant at which it may fire when the loop is idle (S-TMR-53).
    @inline(always)
    var latestInstant: Int64 {
        if tolerance == 0 || pointee.instant == Clock.never { return pointee.instant }
        return pointee.instant &+ Clock.nanoseconds(Swift.min(tolerance, Clock.longestInterval))
    }
}
