import CLinux
import Synchronization

/// The version 1 sources and watches of a mode and their registrations in the mode's epoll set. The loop's lock guards it.
///
/// Slots are found by descriptor number. Each has a generation, which stands in the kernel's event beside the number: an event
/// of a registration that was replaced is dropped. All members of a slot share one registration for the union of what
/// interests them. Of version 1 sources on one number the last one gets the events (S-SRC-44); each watch gets its own, one
/// member per pass, in turn; those that signal are all signalled. A mode without ports has no descriptor and sleeps on the futex.
///
/// Registrations are taken back lazily: less interest changes nothing until an event arrives that interests nobody.
struct PortSet {
    var epoll: EpollSet
    /// Sources in the set, those with unwatchable ports included, and one more if there are sources of files.
    private(set) var count: Int
    /// Counts the events of watches that signal: with every sixteenth the number is looked at.
    private var looks: UInt8
    /// Counts the batches of events, so that each of those that are ready has its turn.
    private var turn: UInt32
    /// Slots that wait for room in the kernel, or for the epoll set itself.
    private var unregistered: Int
    /// For each number that ever was in the set.
    private var slots: NumberTable<PortSlot>
    /// Slots that are always ready and were of interest when they were put here, in the order of their turns.
    private var steady: IndexQueue
    /// Whether the last event was one of those: the next is the kernel's, if it has one.
    private var servedSteady: Bool
    /// When slots that were put off are looked at again; 0: there are none.
    private var deferredUntil: Int64
    /// The main dispatch queue's eventfd, while the mode serves that queue.
    private var mainQueue: PortSlot.State
    /// Inboxes that are marked by whoever reads the notifier of files.
    private var notified: Int
    /// The notifier that is registered for them. 0: none is yet, and `unregistered` counts that.
    private var notifierSerial: UInt32

    /// Zeroed memory is right but for the descriptor.
    mutating func initialize() { epoll = EpollSet() }

    /// Whether a wait has to look at the kernel's set.
    var needsKernel: Bool { count > 0 || mainQueue != .unused }
    var needsRetry: Bool { unregistered > 0 }
    /// Whether there may be an event without the kernel.
    var hasSteady: Bool { steady.count > 0 }
    var prefersSteady: Bool { steady.count > 0 && !servedSteady }

    // MARK: Members

    mutating func insert(_ source: SourcePointer, in mode: ModePointer) {
        count += 1
        if source.isSignallingWatch { mode.countSocket(1) }
        let port = source.pointee.port.load(ordering: .relaxed)
        guard port >= 0 else { return }
        let index = Int(port)
        if slots.find(index) == nil {
            // Few processes have more descriptors; no memory is taken for a number that is none.
            if index >= 1 << 20 && !rl_is_open(port) { return }
            slots.make(index)
        }
        let slot = slots[index]
        if source.isWatch {
            source.watch.pointee.flags.bitwiseAnd(~WatchFlags.stale, ordering: .relaxed)
        } else {
            slot.pointee.isCounter = isCounter(port)
        }
        slot.pointee.members.insert(source)
        slot.pointee.generation &+= 1
        let old = slot.pointee.state
        if old != .registered && wanted(slot).isEmpty {
            if old != .waiting && old != .steady { slot.pointee.state = .idle }
            return
        }
        if old != .waiting { unregistered += 1 }
        slot.pointee.state = .waiting
        // A loop whose thread is gone never waits: it needs no descriptor.
        guard mode.pointee.loop.pointee.threadAlive.load(ordering: .relaxed), let result = register(index) else { return }
        // What was registered under this number and is not any more was closed: the number names another file now.
        if (old == .registered && result == .added) || (old == .steady && result != .steady) {
            markStale(index, except: source)
        }
    }

    mutating func remove(_ source: SourcePointer, in mode: ModePointer) {
        count -= 1
        if source.isSignallingWatch { mode.countSocket(-1) }
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.members.contains(source) else { return }
        slot.pointee.members.remove(source)
        guard slot.pointee.members.isEmpty else { return }
        switch slot.pointee.state {
        case .registered: epoll.unregister(Int32(index))
        case .waiting: unregistered -= 1
        case .unused, .refused, .idle, .steady, .gone: break
        }
        slot.pointee.state = .unused
    }

    /// What interests any member now.
    private func wanted(_ slot: PortSlotPointer) -> Readiness {
        var all: Readiness = []
        for place in 0..<slot.pointee.members.count { all.formUnion(interest(of: slot.pointee.members[place], slot)) }
        return all
    }

    @inline(__always)
    private func interest(of member: SourcePointer, _ slot: PortSlotPointer) -> Readiness {
        guard member.isWatch else { return slot.pointee.state == .steady ? [] : .read }
        if slot.pointee.marks.contains(.deferred) { return [] }
        return member.watch.pointee.flags.load(ordering: .relaxed) & WatchFlags.stale == 0 ? member.interest : []
    }

    private func markStale(_ index: Int, except newest: SourcePointer?) {
        let slot = slots[index]
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            if member.isWatch && member != newest {
                member.watch.pointee.flags.bitwiseOr(WatchFlags.stale, ordering: .relaxed)
            }
        }
    }

    /// A watch of this set has become interested in more. True if the loop cannot learn of it from the kernel.
    @inline(never)
    mutating func interestGrew(of source: SourcePointer, in mode: ModePointer) -> Bool {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.members.contains(source) else { return false }
        switch slot.pointee.state {
        case .idle:
            slot.pointee.state = .waiting
            unregistered += 1
            guard mode.pointee.loop.pointee.threadAlive.load(ordering: .relaxed) else { return false }
            // Until now the loop may have slept on the futex, for want of a set.
            let wasOpen = epoll.isOpen
            _ = register(index)
            return !wasOpen || slot.pointee.state != .registered
        case .registered:
            let wanted = wanted(slot)
            let isArmed = Readiness(rawValue: UInt32(slot.pointee.armed)).isSuperset(of: wanted)
            if !isArmed || slot.pointee.marks.contains(.edge) { arm(index, wanted) }
            return false
        case .steady:
            return enqueueSteady(index)
        case .unused, .waiting, .refused, .gone:
            return false
        }
    }

    // MARK: Registrations

    private func token(_ index: Int) -> UInt64 { UInt64(slots[index].pointee.generation) << 32 | UInt64(index) }

    /// Registers a slot that waits for it. nil if there is no room.
    @inline(never)
    private mutating func register(_ index: Int) -> EpollSet.Registration? {
        let slot = slots[index]
        guard slot.pointee.state == .waiting, epoll.open() else { return nil }
        let wanted = wanted(slot)
        let result = epoll.register(Int32(index), events: wanted.events, token: token(index))
        switch result {
        case .later: return nil
        case .added, .replaced:
            slot.pointee.state = .registered
            slot.pointee.armed = UInt8(wanted.rawValue)
            slot.pointee.marks.remove(.edge)
        case .refused: slot.pointee.state = .refused
        case .steady:
            slot.pointee.state = .steady
            _ = enqueueSteady(index)
        }
        unregistered -= 1
        return result
    }

    /// Tells the kernel of the ports it had no room for. True if all are told.
    mutating func retry() -> Bool {
        guard unregistered > 0 else { return true }
        guard epoll.open() else { return false }
        var index = -1
        while slots.advance(&index) {
            let slot = slots[index]
            if slot.pointee.state == .waiting { _ = register(index) }
        }
        registerMainQueue()
        if notifierSerial == 0 { registerNotifier() }
        return unregistered == 0
    }

    /// Asks the kernel for exactly this.
    private mutating func arm(_ index: Int, _ wanted: Readiness, edge: Bool = false) {
        let slot = slots[index]
        guard epoll.modify(Int32(index), events: wanted.events, edge: edge, token: token(index)) else { return lose(index) }
        slot.pointee.armed = UInt8(wanted.rawValue)
        if edge { slot.pointee.marks.insert(.edge) } else { slot.pointee.marks.remove(.edge) }
    }

    /// The kernel does not know the number: it was closed, and perhaps names another file now.
    private mutating func lose(_ index: Int) {
        let slot = slots[index]
        slot.pointee.state = .gone
        markStale(index, except: nil)
    }

    // MARK: The main dispatch queue

    /// Begins or ends to watch the main dispatch queue.
    @inline(__always)
    mutating func watchMainQueue(_ watches: Bool) {
        if watches != (mainQueue != .unused) { changeMainQueue(watches) }
    }

    @inline(never)
    private mutating func changeMainQueue(_ watches: Bool) {
        if watches {
            mainQueue = .waiting
            unregistered += 1
            registerMainQueue()
        } else {
            if mainQueue == .registered { epoll.unregister(MainQueue.shared.pointee.handle) } else { unregistered -= 1 }
            mainQueue = .unused
        }
    }

    /// The kernel reported the queue or the notifier: those that are always ready have the next turn.
    mutating func acceptExtra() { servedSteady = false }

    private mutating func registerMainQueue() {
        guard mainQueue == .waiting, epoll.open() else { return }
        let result = epoll.register(
            MainQueue.shared.pointee.handle, events: Readiness.read.events, token: EpollSet.mainQueueToken)
        if case .later = result { return }
        mainQueue = .registered
        unregistered -= 1
    }

    // MARK: The notifier of files

    /// One more source of a file is in the mode.
    @inline(never)
    mutating func joinNotifier(in mode: ModePointer) {
        notified += 1
        if notified == 1 {
            count += 1
            unregistered += 1
        }
        guard mode.pointee.loop.pointee.threadAlive.load(ordering: .relaxed) else { return }
        registerNotifier()
    }

    @inline(never)
    mutating func leaveNotifier() {
        notified -= 1
        guard notified == 0 else { return }
        count -= 1
        if notifierSerial == 0 { unregistered -= 1 }
        let notifier = Notifier.shared
        notifier.pointee.lock.lockWord()
        // Of one that was closed the kernel has forgotten the number, which may be anybody's.
        if notifier.pointee.users > 0 && notifier.pointee.serial == notifierSerial { epoll.unregister(notifier.pointee.descriptor) }
        notifier.pointee.lock.unlockWord()
        notifierSerial = 0
    }

    @inline(never)
    private mutating func registerNotifier() {
        guard notified > 0, epoll.open() else { return }
        let notifier = Notifier.shared
        notifier.pointee.lock.lockWord()
        defer { notifier.pointee.lock.unlockWord() }
        // Without one the sources are just about to leave.
        guard notifier.pointee.users > 0, notifier.pointee.serial != notifierSerial else { return }
        // One that was lost is not there to be registered, and what has its number is not to be (S-FD-18).
        if notifier.isOpenLocked() {
            let result = epoll.register(
                notifier.pointee.descriptor, events: Readiness.read.events, token: EpollSet.notifierToken)
            if case .later = result { return }
        }
        if notifierSerial == 0 { unregistered -= 1 }
        notifierSerial = notifier.pointee.serial
    }

    /// Gives the descriptor back; everything registered is registered anew when a set is made again.
    mutating func closeKernelSet() {
        epoll.close()
        var index = -1
        while slots.advance(&index) {
            let slot = slots[index]
            guard slot.pointee.state == .registered || slot.pointee.state == .refused else { continue }
            slot.pointee.state = .waiting
            unregistered += 1
        }
        if mainQueue == .registered {
            mainQueue = .waiting
            unregistered += 1
        }
        if notifierSerial != 0 {
            notifierSerial = 0
            unregistered += 1
        }
    }

    /// Makes the set anew, because the kernel watches a file in it that is gone from here but open elsewhere under another
    /// number, and cannot be told to stop. Other such slots are found by the same look.
    private mutating func rebuild() {
        var index = -1
        while slots.advance(&index) {
            let slot = slots[index]
            if slot.pointee.state == .registered { arm(index, Readiness(rawValue: UInt32(slot.pointee.armed))) }
        }
        closeKernelSet()
        _ = retry()
    }

    // MARK: Events

    /// What of an event of the kernel interests somebody. nil: nothing, or its registration is gone, and the wait goes on. Watches
    /// that signal are signalled by it.
    mutating func accept(token: UInt64, events: UInt32, in mode: ModePointer, signalled: inout Bool) -> Readiness? {
        if token == EpollSet.lostToken {
            process.pointee.lostDescriptor.store(true, ordering: .relaxed)
            epoll.forget()
            closeKernelSet()
            _ = retry()
            return nil
        }
        let index = Int(token & 0xffff_ffff)
        guard let slot = slots.find(index), slot.pointee.state == .registered, slot.pointee.generation == UInt32(token >> 32) else {
            rebuild()
            return nil
        }
        servedSteady = false
        if isPlain(slot) { return .read }
        let wanted = wanted(slot)
        var useful = seen(events, slot, index)
        if useful.isEmpty {
            setAside(index, wanted, events)
            return nil
        }
        if mustLook(index) {
            useful = seen(eventsNow(of: Int32(index), wanted) ?? events, slot, index)
            if useful.isEmpty {
                // Taken by another thread, or an event of the file that the number named before. Edge triggered it cannot come
                // for ever, and the next event that is of use changes that.
                if slot.pointee.marks.contains(.edge) { return nil }
                arm(index, wanted, edge: true)
                if slot.pointee.state == .gone { rebuild() }
                return nil
            }
        }
        if slot.pointee.marks.contains(.edge) { arm(index, wanted) }
        return mode.hasSockets ? signalMembers(index, useful, in: mode, &signalled) : useful
    }

    /// Signals those members of a slot that signal. What the others are waiting for, nil if that is nothing.
    private func signalMembers(_ index: Int, _ ready: Readiness, in mode: ModePointer, _ signalled: inout Bool) -> Readiness? {
        let slot = slots[index]
        var others: Readiness = []
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            let found = interest(of: member, slot).intersection(ready)
            if found.isEmpty { continue }
            if member.isSignallingWatch {
                member.noteFound(found, round: mode.pointee.loop.round)
                mode.pointee.loop.signalLocked(member)
                signalled = true
            } else {
                others.formUnion(found)
            }
        }
        return others.isEmpty ? nil : others
    }

    /// Which of so many that are ready together has its turn.
    mutating func takeTurn(of count: Int) -> Int {
        turn &+= 1
        return Int(turn) % count
    }

    /// What of the kernel's bits somebody is waiting for.
    private func seen(_ events: UInt32, _ slot: PortSlotPointer, _ index: Int) -> Readiness {
        var all: Readiness = []
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            let flags = member.isWatch ? member.watch.pointee.flags.load(ordering: .relaxed) : 0
            all.formUnion(SourcePointer.seen(events, interest(of: member, slot), flags, Int32(index)))
        }
        return all
    }

    // MARK: Putting off

    /// Looks no more at the number of a watch until then. For a handler that cannot do its work now.
    mutating func putOff(_ source: SourcePointer, until: Int64) {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.members.contains(source) else { return }
        slot.pointee.marks.insert(.deferred)
        if deferredUntil == 0 { deferredUntil = until }
    }

    /// When to look at what was put off; that is done now if it is time.
    @inline(__always)
    mutating func nextDeferred(_ now: () -> Int64) -> Int64 {
        deferredUntil == 0 ? Clock.never : lookAtDeferred(now())
    }

    @inline(never)
    private mutating func lookAtDeferred(_ now: Int64) -> Int64 {
        if now < deferredUntil { return deferredUntil }
        deferredUntil = 0
        var index = -1
        while slots.advance(&index) {
            let slot = slots[index]
            guard slot.pointee.marks.contains(.deferred) else { continue }
            slot.pointee.marks.remove(.deferred)
            if slot.pointee.state == .registered { arm(index, wanted(slot)) }
        }
        return Clock.never
    }

    /// Forgets what the kernel was told of a number and tells it again.
    @inline(never)
    mutating func registerAnew(_ source: SourcePointer, in mode: ModePointer) -> Bool {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.members.contains(source) else { return false }
        source.watch.pointee.flags.bitwiseAnd(~WatchFlags.stale, ordering: .relaxed)
        if slot.pointee.state == .waiting || slot.pointee.state == .idle { return false }
        slot.pointee.generation &+= 1
        slot.pointee.state = .waiting
        unregistered += 1
        guard mode.pointee.loop.pointee.threadAlive.load(ordering: .relaxed) else { return false }
        let wasOpen = epoll.isOpen
        _ = register(index)
        return !wasOpen || slot.pointee.state != .registered
    }

    /// Nobody is interested in what the kernel reports. What it reports whatever it is asked for, hang-up and error, would come
    /// for ever: then the registration becomes edge triggered until an event or an interest makes it useful again.
    private mutating func setAside(_ index: Int, _ wanted: Readiness, _ events: UInt32) {
        let slot = slots[index]
        let isEdge = slot.pointee.marks.contains(.edge)
        let edge = isEdge || events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
        // Telling the kernel the same again would make it report the same again.
        if edge == isEdge && UInt32(slot.pointee.armed) == wanted.rawValue { return }
        arm(index, wanted, edge: edge)
        if slot.pointee.state == .gone { rebuild() }
    }

    /// Nothing but one version 1 source.
    @inline(__always)
    private func isPlain(_ slot: PortSlotPointer) -> Bool {
        slot.pointee.members.count == 1 && !slot.pointee.members[0].isWatch
    }

    /// Whether to look if the client closed the number of a watch, which the kernel does not tell if the file is open elsewhere.
    /// A report of a watch that signals may be old anyway (S-SOCK-55), so that is looked at now and then, lest it spin.
    private mutating func mustLook(_ index: Int) -> Bool {
        let slot = slots[index]
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            guard member.isWatch else { continue }
            let flags = member.watch.pointee.flags.load(ordering: .relaxed)
            if flags & WatchFlags.signals != 0 {
                looks &+= 1
                if looks & 15 == 0 { return true }
            } else if flags & WatchFlags.owned == 0 {
                return true
            }
        }
        return false
    }

    /// The next turn of those that are always ready. Watches that signal are signalled on the way.
    mutating func takeSteady(in mode: ModePointer, signalled: inout Bool) -> (token: UInt64, ready: Readiness)? {
        // Those that signal stay in the queue: each is met once.
        for _ in 0..<steady.count {
            guard let index = steady.first else { return nil }
            steady.removeFirst()
            let slot = slots[index]
            slot.pointee.marks.remove(.queued)
            guard slot.pointee.state == .steady else { continue }
            let wanted = wanted(slot)
            if wanted.isEmpty { continue }
            let ready = mustLook(index) ? readiness(of: Int32(index), wanted) : wanted
            if ready.isEmpty {
                lose(index)
                continue
            }
            _ = enqueueSteady(index)
            guard let ready = mode.hasSockets ? signalMembers(index, ready, in: mode, &signalled) : ready else { continue }
            servedSteady = true
            return (token(index), ready)
        }
        return nil
    }

    /// Gives an always ready slot a turn if that is of interest. True if it had none.
    private mutating func enqueueSteady(_ index: Int) -> Bool {
        let slot = slots[index]
        if slot.pointee.marks.contains(.queued) || wanted(slot).isEmpty { return false }
        slot.pointee.marks.insert(.queued)
        steady.append(index)
        return true
    }

    /// The source that gets an event, and for what; nil if the registration is not the one the event is for, or the event is
    /// over. `mayBeDrained`: client code ran since.
    mutating func take(token: UInt64, ready: Readiness, mayBeDrained: Bool) -> (source: SourcePointer, ready: Readiness)? {
        let index = Int(token & 0xffff_ffff)
        guard let slot = slots.find(index), slot.pointee.generation == UInt32(token >> 32),
            slot.pointee.state == .registered || slot.pointee.state == .steady
        else { return nil }
        var ready = ready
        if mayBeDrained { ready = readiness(of: Int32(index), wanted(slot)) }
        let members = slot.pointee.members
        let count = members.count
        for place in 0..<count {
            let member = members[place]
            let reported = interest(of: member, slot).intersection(ready)
            if reported.isEmpty || member.isSignallingWatch { continue }
            if !member.isWatch {
                if isFollowedByPort(members, place) { continue }
                if slot.pointee.isCounter && !takeCount(Int32(index)) {
                    arm(index, wanted(slot))
                    if slot.pointee.state == .gone { rebuild() }
                    return nil
                }
            }
            slot.pointee.members.moveToEnd(place)
            return (member, reported)
        }
        return nil
    }

    /// Whether a later version 1 source gets the events of the one at `place`.
    private func isFollowedByPort(_ members: SmallSet<Source>, _ place: Int) -> Bool {
        for later in (place + 1)..<members.count where !members[later].isWatch { return true }
        return false
    }

    mutating func free() {
        epoll.close()
        var index = -1
        while slots.advance(&index) { slots[index].pointee.members.removeAll() }
        slots.free()
        steady.free()
    }
}
