// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The timers of one mode: the near ones, which are due in this tick of the wheel, later ones in the wheel, and during a batch
/// those that are about to fire in a list. The loop's lock guards it. The zero value is empty.
struct TimerStore {
    private var near = NearTimers()
    private var wheel = TimerWheel()
    /// Timers of the batches under way, in the order in which they fire: that of their instants, tombstones apart.
    private var due = NodeList()
    /// Members of these batches that were added back, or got another date that has come, by their turns.
    private var returned = TimerHeap()
    /// Tombstones that were found at the beginning of `due`, by their turns: nested runs, for which they do not count, do not meet them
    /// in every pass.
    private var passed = TimerHeap()
    private var nextSequence = 0
    /// Members that were added while their callbacks were on the stack, here or in another loop, so that a loop that is freed
    /// finds them too.
    private var firstAway: TimerNodePointer?

    var isEmpty: Bool { near.isEmpty && wheel.isEmpty && due.isEmpty && returned.isEmpty }

    /// Adds a node that is in no store, behind those with the same instant.
    @inline(always)
    mutating func insert(_ node: TimerNodePointer) {
        if node.pointee.isAway { removeAway(node) }
        node.pointee.sequence = nextSequence
        nextSequence &+= 1
        insertInOrder(node)
    }

    /// Adds a node by its sequence.
    @inline(always)
    private mutating func insertInOrder(_ node: TimerNodePointer) {
        let instant = node.instant
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

    /// Gives a node the place of its timer's new instant. It stays before those that were put in the mode after it (S-TMR-21), unless it was in a
    /// batch, where no sequence is kept, or in no store.
    mutating func move(_ node: TimerNodePointer, from former: Int64) {
        let sequence = node.pointee.sequence
        let isNew = node.pointee.isInBatch || node.pointee.isIn(.nowhere)
        remove(node, dueAt: former)
        if isNew { return insertInACall(node) }
        node.pointee.sequence = sequence
        insertInOrder(node)
    }

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
        case .passed: passed.remove(node)
        case .returned: returned.remove(node)
        }
    }

    /// Takes out a node that is a member of a batch.
    @inline(always)
    mutating func removeMember(_ node: TimerNodePointer) {
        if node.pointee.isIn(.due) { removeDue(node) } else { removeElsewhere(node, 0) }
    }

    @inline(always)
    private mutating func removeDue(_ node: TimerNodePointer) {
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
    private mutating func advance(to now: Int64) { advance(toTick: TimerWheel.tick(of: now)) }

    private mutating func advance(toTick tick: Int64) {
        guard tick > wheel.tick else { return }
        wheel.advance(to: tick) { near.pour($0, instant: $0.instant) }
        near.sortPoured()
    }

    /// Whether a timer is due.
    @inline(always)
    mutating func hasDue(_ now: Int64) -> Bool {
        if isEmpty { return false }
        // In a nested run: the rest of the outer runs' batches.
        if !(due.isEmpty && returned.isEmpty) && firstMemberDue != nil { return true }
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

    /// The same, and no instant before it: a clock that the program moves goes there, and nowhere else. Timers that are due at `time` or
    /// before do not count. With tolerances it looks at those that may come before the end of the first one's.
    @inline(never)
    mutating func exactWake(after time: Int64 = .min) -> Int64 {
        // The wheel may be ahead of the present, where nothing comes before: what is added for an earlier instant is a near timer then. So the many of one
        // bucket are sorted once, and not looked through at each wait.
        while near.isEmpty, let tick = wheel.crowdedTick { advance(toTick: tick) }
        guard let first = earliest() else { return Clock.never }
        if first.timer.tolerance == 0 && first.instant > time { return first.instant }
        return wheel.latestWake(near.latestWake(Clock.never, after: time), after: time, isExact: true)
    }

    /// Moves what is due into the list, in firing order, as members of a batch.
    mutating func collectDue(_ now: Int64, batch: UInt32) {
        // In a nested run: their instants give them their places.
        while let node = returned.any {
            returned.remove(node)
            insertInACall(node)
        }
        advance(to: now)
        var next = due.isEmpty ? nil : firstMemberDue
        let isNested = next != nil
        var rank = 0
        while let node = near.removeFirst(notAfter: now) {
            node.pointee.setPlace(.due, index: rank)
            rank += 1
            node.pointee.batch = batch
            // What outer batches left fires in this one, so walking through it costs no more than firing it.
            while let current = next, current.pointee.isTombstone || current.instant <= node.instant { next = current.pointee.links.next }
            due.insert(node, after: next == nil ? due.last : next!.pointee.links.previous)
        }
        if isNested { joinDue(batch) }
    }

    /// What outer batches left are members of this one now, by their places.
    @inline(never)
    private mutating func joinDue(_ batch: UInt32) {
        var rank = 0
        var next = due.first
        while let node = next {
            next = node.pointee.links.next
            if node.pointee.isTombstone { continue }
            node.pointee.setPlace(.due, index: rank)
            rank += 1
            node.pointee.batch = batch
        }
    }

    /// The node that has its turn in this batch, of which the rest of outer ones are members too. One that was removed from the mode since (a
    /// tombstone), or that was added back during a batch inside its own, has it in its own batch only.
    @inline(always)
    mutating func nextDue(inBatch batch: UInt32) -> TimerNodePointer? {
        if passed.isEmpty && returned.isEmpty {
            guard let first = due.first else { return nil }
            if !first.pointee.isTombstone { return first }
        }
        return nextDueAmongTombstones(batch)
    }

    @inline(never)
    private mutating func nextDueAmongTombstones(_ batch: UInt32) -> TimerNodePointer? {
        // Those of the innermost batch, which is this one, come first.
        let first = firstMemberDue
        let member = first?.pointee.batch == batch ? first : nil
        guard !passed.isEmpty, passed.first.node.pointee.batch == batch else { return member }
        if let member, turn(of: member) < passed.first.instant { return member }
        return passed.first.node
    }

    /// The first one that is in the mode. Tombstones before it are passed over permanently.
    var firstMemberDue: TimerNodePointer? {
        mutating get {
            while let first = due.first, first.pointee.isTombstone { pass(first) }
            guard !returned.isEmpty else { return due.first }
            let node = returned.first.node
            if let first = due.first, turn(of: first) < returned.first.instant { return first }
            return node
        }
    }

    /// By what the turns of a batch's members are compared. Those of a batch come before those of the outer ones.
    private func turn(of node: TimerNodePointer) -> Int64 {
        switch node.pointee.place {
        case .passed: passed.key(of: node)
        case .returned: returned.key(of: node)
        default: Int64(node.pointee.index) - Int64(node.pointee.batch) << 26
        }
    }

    /// Takes a tombstone out of the way of those that are in the mode.
    @inline(never)
    mutating func pass(_ tombstone: TimerNodePointer) {
        let turn = turn(of: tombstone)
        removeElsewhere(tombstone, 0)
        passed.insert(tombstone, instant: turn)
        tombstone.pointee.place = .passed
    }

    /// A member of a batch, which may have been a tombstone, keeps its turn there, although its instant may be another by now.
    @inline(never)
    mutating func keepTurn(_ node: TimerNodePointer) {
        let turn = turn(of: node)
        removeElsewhere(node, 0)
        returned.insert(node, instant: turn)
        node.pointee.place = .returned
    }

    /// The timer with the earliest instant, nil if there is none. Tombstones do not count.
    mutating func earliest() -> TimerNodePointer? {
        let later = near.first ?? (wheel.isEmpty ? nil : wheel.first())
        if due.isEmpty && returned.isEmpty { return later }
        guard var due = firstMemberDue else { return later }
        if due.pointee.isIn(.returned) {
            if let first = self.due.first { due = first }
            _ = returned.forEach {
                if $0.instant < due.instant { due = $0 }
                return true
            }
        }
        guard let later else { return due }
        return later.instant < due.instant ? later : due
    }

    /// Any node that is in the store, nil if there is none.
    mutating func anyNode() -> TimerNodePointer? {
        if let first = due.first ?? returned.any ?? passed.any ?? firstAway ?? near.first { return first }
        return wheel.isEmpty ? nil : wheel.anyNode()
    }

    /// Calls the body with each node of a timer that is in the mode, until it returns false; those of callbacks on the stack are not all included.
    func forEachMember(_ body: (TimerNodePointer) -> Bool) {
        var node = due.first
        while let current = node {
            node = current.pointee.links.next
            if !current.pointee.isTombstone && !body(current) { return }
        }
        guard returned.forEach(body), near.forEach(body), wheel.forEach(body) else { return }
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
        returned.free()
        passed.free()
        near.free()
        wheel.free()
    }

    /// For tests.
    func checkInvariants() -> Bool {
        near.checkInvariants() && wheel.checkInvariants()
    }
}
