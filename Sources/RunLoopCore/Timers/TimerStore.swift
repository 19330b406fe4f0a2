/// The timers of one mode: the near ones, which are due in this tick of the wheel, later ones in the wheel, and during a batch
/// those that are about to fire in a list. The loop's lock guards it. The zero value is empty.
struct TimerStore {
    private var near = NearTimers()
    private var wheel = TimerWheel()
    /// Timers of the batches under way, in the order in which they fire.
    private var due = NodeList()
    private var nextSequence: UInt32 = 0
    /// Members that were added while their callbacks were on the stack, here or in another loop, so that a loop that is freed
    /// finds them too.
    private var firstAway: TimerNodePointer?

    /// The first timer of the batches under way.
    var firstDue: TimerNodePointer? { due.first }

    var isEmpty: Bool { near.isEmpty && wheel.isEmpty && due.isEmpty }

    /// Adds a node that is in no store, behind those with the same instant.
    @inline(__always)
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

    /// Takes a node out, wherever it is; nothing if it is in no store.
    @inline(__always)
    mutating func remove(_ node: TimerNodePointer) { remove(node, dueAt: node.instant) }

    /// The same for a node that was inserted with an instant that its timer has no more.
    @inline(__always)
    mutating func remove(_ node: TimerNodePointer, dueAt instant: Int64) {
        if node.pointee.place == .wheel { wheel.remove(node) } else { removeElsewhere(node, instant) }
    }

    @inline(never)
    private mutating func removeElsewhere(_ node: TimerNodePointer, _ instant: Int64) {
        switch node.pointee.place {
        case .nowhere: if node.pointee.isAway { removeAway(node) }
        case .heap, .run: near.remove(node, instant: instant)
        case .wheel: wheel.remove(node)
        case .due: removeDue(node)
        }
    }

    /// Takes a node out that is in the due list.
    @inline(__always)
    mutating func removeDue(_ node: TimerNodePointer) {
        due.remove(node)
        node.pointee.place = .nowhere
    }

    /// Keeps a node in mind whose timer's callback is on the stack. It counts for nothing but `anyNode`.
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

    /// Brings the wheel to the present, or to an instant that has come.
    @inline(never)
    private mutating func advance(to now: Int64) {
        let tick = TimerWheel.tick(of: now)
        guard tick > wheel.tick else { return }
        wheel.advance(to: tick) { near.pour($0, instant: $0.instant) }
        near.sortPoured()
    }

    /// Whether a timer is due.
    @inline(__always)
    mutating func hasDue(_ now: Int64) -> Bool {
        if isEmpty { return false }
        // In a nested run: what is left of the outer runs' batches.
        if !due.isEmpty && firstMemberDue != nil { return true }
        advance(to: now)
        guard let first = near.first else { return false }
        return first.instant <= now
    }

    /// The instant to which a loop may sleep for these timers: the earliest one, later by what tolerances allow, or an instant
    /// before it at which to look again. The wheel was brought to the present by `hasDue`.
    mutating func nextWake() -> Int64 {
        if let first = near.first {
            if first.timer.tolerance == 0 { return first.instant }
            return wheel.latestWake(near.latestWake(first.timer.latestInstant))
        }
        if wheel.isEmpty { return Clock.never }
        let (instant, timer) = wheel.nextInstant()
        // In the common case of no tolerance nothing more is to be found.
        if let timer, timer.tolerance == 0 { return instant }
        return max(instant, wheel.latestWake(Clock.never))
    }

    /// Moves what is due into the list, in firing order, as members of a batch.
    mutating func collectDue(_ now: Int64, batch: UInt32) {
        advance(to: now)
        while let node = near.removeFirst(notAfter: now) {
            node.pointee.place = .due
            node.pointee.sequence = batch
            // Batches of nested runs come later and so, nearly always, do their timers: the walk is short.
            var before = due.last
            while let current = before, node.instant < current.instant { before = current.pointee.links.previous }
            due.insert(node, after: before)
        }
    }

    /// The first of the list that has its turn in this batch or, in a nested run, had it in an outer one. A timer that was
    /// removed from the mode since (a ghost) has it in the batch of which it was a member only.
    func nextDue(inBatch batch: UInt32) -> TimerNodePointer? {
        var node = due.first
        while let current = node {
            let age = Int32(bitPattern: batch &- current.pointee.sequence)
            if age == 0 || (age > 0 && !current.pointee.isGhost) { return current }
            node = current.pointee.links.next
        }
        return nil
    }

    /// The first of the list that is in the mode.
    var firstMemberDue: TimerNodePointer? {
        var node = due.first
        while let current = node, current.pointee.isGhost { node = current.pointee.links.next }
        return node
    }

    /// The timer with the earliest instant, nil if there is none. Ghosts are none.
    mutating func earliest() -> TimerNodePointer? {
        let later = near.first ?? (wheel.isEmpty ? nil : wheel.first())
        guard let due = firstMemberDue else { return later }
        guard let later else { return due }
        return later.instant < due.instant ? later : due
    }

    /// Any node that is in the store, nil if there is none.
    mutating func anyNode() -> TimerNodePointer? {
        if let first = due.first ?? firstAway ?? near.first { return first }
        return wheel.isEmpty ? nil : wheel.anyNode()
    }

    mutating func free() {
        near.free()
        wheel.free()
    }

    /// For tests.
    func checkInvariants() -> Bool {
        near.checkInvariants() && wheel.checkInvariants()
    }
}
