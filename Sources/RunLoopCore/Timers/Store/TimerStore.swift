// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The timers of one mode: the near ones, which are due in this tick of the wheel, later ones in the wheel, and during a batch
/// those that are about to fire in a list. The loop's lock guards it. The zero value is empty.
struct TimerStore {
    private var near = NearTimers()
    private var wheel = TimerWheel()
    /// Timers of the batches under way, in the order in which they fire.
    private var due = NodeList()
    /// Tombstones that nested runs, for which they do not count, found at the beginning of `due`: once moved here, they are not met by
    /// every pass. A record for each batch under way that has any, the innermost first.
    private var passed: PassedTombstonesPointer?
    /// Numbers the members of batches in the order of their turns.
    private var nextRank: UInt32 = 0
    private var nextSequence: UInt32 = 0
    /// Members that were added while their callbacks were on the stack, here or in another loop, so that a loop that is freed
    /// finds them too.
    private var firstAway: TimerNodePointer?

    var isEmpty: Bool { near.isEmpty && wheel.isEmpty && due.isEmpty }

    /// Adds a node that is in no store, behind those with the same instant.
    @inline(always)
    mutating func insert(_ node: TimerNodePointer) {
        let instant = node.instant
        if node.pointee.isAway { removeAway(node) }
        node.pointee.sequence = nextSequence
        nextSequence &+= 1
        // The first timer tells the wheel what time it is.
        if !wheel.isSet { wheel.set(tick: TimerWheel.tick(of: Clock.now())) }
        if TimerWheel.tick(of: instant) > wheel.tick {
            if !Clock.hasCome(instant) { return wheel.insert(node, instant: instant) }
            advance(to: instant)
        }
        near.insert(node, instant: instant)
    }

    /// The same in less code.
    @inline(never)
    mutating func insertInACall(_ node: TimerNodePointer) { insert(node) }

    /// Takes a node out, wherever it is; does nothing if it is in no store.
    @inline(always)
    mutating func remove(_ node: TimerNodePointer) { remove(node, dueAt: node.instant) }

    /// The same for a node that was inserted with an instant that its timer no longer has.
    @inline(always)
    mutating func remove(_ node: TimerNodePointer, dueAt instant: Int64) {
        if node.pointee.isIn(.wheel) { wheel.remove(node) } else { removeElsewhere(node, instant) }
    }

    @inline(never)
    private mutating func removeElsewhere(_ node: TimerNodePointer, _ instant: Int64) {
        switch node.pointee.place {
        case .nowhere: if node.pointee.isAway { removeAway(node) }
        case .heap, .run: near.remove(node, instant: instant)
        case .wheel: wheel.remove(node)
        case .due: removeDue(node)
        case .passed: removePassed(node)
        }
    }

    /// Takes out a node that is in the due list.
    @inline(always)
    mutating func removeDue(_ node: TimerNodePointer) {
        due.remove(node)
        node.pointee.place = .nowhere
    }

    /// Records a node whose timer's callback is on the stack. Only `anyNode` and `forEachAway` take it into account.
    mutating func insertAway(_ node: TimerNodePointer) {
        node.pointee.isAway = true
        node.pointee.links.previous = nil
        node.pointee.links.next = firstAway
        firstAway?.pointee.links.previous = node
        firstAway = node
    }

    private mutating func removeAway(_ node: TimerNodePointer) {
        node.pointee.isAway = false
        if let previous = node.pointee.links.previous { previous.pointee.links.next = node.pointee.links.next } else { firstAway = node.pointee.links.next }
        node.pointee.links.next?.pointee.links.previous = node.pointee.links.previous
    }

    /// Advances the wheel to the present, or to an instant that has come.
    @inline(never)
    private mutating func advance(to now: Int64) {
        let tick = TimerWheel.tick(of: now)
        guard tick > wheel.tick else { return }
        wheel.advance(to: tick) { near.pour($0, instant: $0.instant) }
        near.sortPoured()
    }

    /// Whether a timer is due.
    @inline(always)
    mutating func hasDue(_ now: Int64) -> Bool {
        if isEmpty { return false }
        // In a nested run: the rest of the outer runs' batches.
        if !due.isEmpty && firstMemberDue != nil { return true }
        advance(to: now)
        guard let first = near.first else { return false }
        return first.instant <= now
    }

    /// The instant to which a loop may sleep for these timers: the earliest one, later by what tolerances allow, or an instant
    /// before it at which to look again. `hasDue` has advanced the wheel to the present.
    mutating func nextWake() -> Int64 {
        if let first = near.first {
            if first.timer.tolerance == 0 { return first.instant }
            return wheel.latestWake(near.latestWake(first.timer.latestInstant))
        }
        if wheel.isEmpty { return Clock.never }
        let (instant, timer) = wheel.nextInstant()
        // In the common case of no tolerance there is nothing more to find.
        if let timer, timer.tolerance == 0 { return instant }
        return max(instant, wheel.latestWake(Clock.never))
    }

    /// The same, and no instant before it: a clock that the program moves goes there, and nowhere else. With tolerances it looks at all timers.
    @inline(never)
    mutating func exactWake() -> Int64 {
        var wake = Clock.never
        guard let first = earliest() else { return wake }
        if first.timer.tolerance == 0 { return first.instant }
        func meet(_ node: TimerNodePointer) -> Bool {
            wake = min(wake, node.timer.latestInstant)
            return true
        }
        _ = near.forEach(meet) && wheel.forEach(meet)
        return wake
    }

    /// Moves what is due into the list, in firing order, as members of a batch.
    mutating func collectDue(_ now: Int64, batch: UInt32) {
        advance(to: now)
        var next = firstMemberDue
        while let node = near.removeFirst(notAfter: now) {
            node.pointee.setPlace(.due, index: Int(nextRank))
            nextRank &+= 1
            node.pointee.sequence = batch
            // What outer batches left fires in this one, so walking through it costs no more than firing it.
            while let current = next, current.instant <= node.instant { next = current.pointee.links.next }
            due.insert(node, after: next == nil ? due.last : next!.pointee.links.previous)
        }
    }

    /// The first of the list that has its turn in this batch or, in a nested run, had it in an outer one. A timer that was
    /// removed from the mode since (a tombstone) has it in the batch of which it was a member only.
    @inline(always)
    mutating func nextDue(inBatch batch: UInt32) -> TimerNodePointer? {
        if passed == nil {
            guard let first = due.first else { return nil }
            if !first.pointee.isTombstone { return first }
        }
        return nextDueAmongTombstones(batch)
    }

    @inline(never)
    private mutating func nextDueAmongTombstones(_ batch: UInt32) -> TimerNodePointer? {
        while let first = due.first, first.pointee.isTombstone, first.pointee.sequence != batch { pass(first) }
        guard let record = passed, record.pointee.batch == batch else { return due.first }
        guard let tombstone = record.pointee.tombstones.first else {
            passed = record.pointee.next
            CRunLoopLinux.free(record)
            return due.first
        }
        if let first = due.first, first.pointee.sequence == batch, first.pointee.hasTurn(before: tombstone.pointee) { return first }
        return tombstone
    }

    /// The first of the list that is in the mode. Tombstones before it are passed over permanently.
    var firstMemberDue: TimerNodePointer? {
        mutating get {
            while let first = due.first, first.pointee.isTombstone { pass(first) }
            return due.first
        }
    }

    /// Moves a tombstone at the beginning of the list to those of its batch, all of which had their turns before its own.
    @inline(never)
    private mutating func pass(_ tombstone: TimerNodePointer) {
        removeDue(tombstone)
        tombstone.pointee.place = .passed
        let record = passedTombstones(ofBatch: tombstone.pointee.sequence)
        record.pointee.tombstones.insert(tombstone, after: record.pointee.tombstones.last)
    }

    private mutating func removePassed(_ node: TimerNodePointer) {
        passedTombstones(ofBatch: node.pointee.sequence).pointee.tombstones.remove(node)
        node.pointee.place = .nowhere
    }

    /// The record of a batch, made if need be. There are no more of them than runs on the stack.
    @inline(never)
    private mutating func passedTombstones(ofBatch batch: UInt32) -> PassedTombstonesPointer {
        var before: PassedTombstonesPointer?
        var next = passed
        while let current = next, current.pointee.batch != batch, Int32(bitPattern: current.pointee.batch &- batch) > 0 {
            before = current
            next = current.pointee.next
        }
        if let next, next.pointee.batch == batch { return next }
        let record = makeRecord(PassedTombstones.self)
        record.pointee.batch = batch
        record.pointee.next = next
        if let before { before.pointee.next = record } else { passed = record }
        return record
    }

    /// A tombstone that is in the mode again: one that was passed over goes back to the beginning of the list, to where its turn is.
    mutating func bringBack(_ node: TimerNodePointer) {
        guard node.pointee.isIn(.passed) else { return }
        removePassed(node)
        node.pointee.place = .due
        var before: TimerNodePointer?
        var next = due.first
        while let current = next, current.pointee.sequence == node.pointee.sequence, current.pointee.hasTurn(before: node.pointee) {
            before = current
            next = current.pointee.links.next
        }
        due.insert(node, after: before)
    }

    /// The timer with the earliest instant, nil if there is none. Tombstones do not count.
    mutating func earliest() -> TimerNodePointer? {
        let later = near.first ?? (wheel.isEmpty ? nil : wheel.first())
        guard let due = firstMemberDue else { return later }
        guard let later else { return due }
        return later.instant < due.instant ? later : due
    }

    /// Any node that is in the store, nil if there is none.
    mutating func anyNode() -> TimerNodePointer? {
        if let first = due.first ?? passed?.pointee.tombstones.first ?? firstAway ?? near.first { return first }
        return wheel.isEmpty ? nil : wheel.anyNode()
    }

    /// Calls the body with each node of a timer that is in the mode, until it returns false; those of callbacks on the stack are not all included.
    func forEachMember(_ body: (TimerNodePointer) -> Bool) {
        var node = due.first
        while let current = node {
            node = current.pointee.links.next
            if !current.pointee.isTombstone && !body(current) { return }
        }
        guard near.forEach(body), wheel.forEach(body) else { return }
        forEachAway(body)
    }

    /// The same with those that were added while their callbacks were on the stack. The body may insert or remove them.
    func forEachAway(_ body: (TimerNodePointer) -> Bool) {
        var node = firstAway
        while let current = node {
            node = current.pointee.links.next
            if !body(current) { return }
        }
    }

    mutating func free() {
        while let record = passed {
            passed = record.pointee.next
            CRunLoopLinux.free(record)
        }
        near.free()
        wheel.free()
    }

    /// For tests.
    func checkInvariants() -> Bool {
        near.checkInvariants() && wheel.checkInvariants()
    }
}

/// Tombstones of a batch that were passed over, in the order of their turns.
struct PassedTombstones {
    var batch: UInt32
    var tombstones: NodeList
    var next: PassedTombstonesPointer?
}

typealias PassedTombstonesPointer = UnsafeMutablePointer<PassedTombstones>
