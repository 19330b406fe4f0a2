// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The version 1 sources and watches of a mode and their registrations in the mode's epoll set. The loop's lock guards it.
///
/// Slots are found by descriptor number: `PortSlot` holds the state of one and its transitions. Of the version 1 sources on one
/// number the last one gets the events (S-SRC-44); each watch gets its own, one member per pass, in turn; all watches that signal are
/// signalled. A mode without ports has no descriptor and sleeps on the futex.
///
/// Registrations are withdrawn lazily: less interest changes nothing until an event arrives that is of interest to no member.
struct PortSet {
    var epoll: EpollSet
    /// Sources in the set, those with unwatchable ports included, and one more if there are sources of files.
    var count: Int
    /// Counts the events that were chosen from batches.
    var turn: UInt32
    /// How many slots and shared ports of this set wait for room in the kernel, or for the epoll set itself.
    var waiting: Int
    /// One for each number that was ever in the set.
    var slots: NumberTable<PortSlot>
    /// Slots that are always ready and were of interest when they were queued, in the order of their turns.
    var alwaysReady: IndexQueue
    /// Whether there is or was one among those that signals.
    var signalsAlwaysReady: Bool
    /// Whether the last event came from one of those: the next comes from the kernel, if it has one.
    var servedAlwaysReady: Bool
    /// Whether the wait passes over its ports, of which a socket is ahead. Not twice in a row.
    var passesOver: Bool
    /// When the deferred slots are looked at again, and a haunted set; 0: there are none.
    var deferredUntil: Int64
    /// Whether the kernel watches a file in the set that cannot be removed, and there was no descriptor for another set: until `deferredUntil` no
    /// wait asks the set, which that file could make ready all the time.
    var isHaunted: Bool
    /// The number whose registration was kept when its last member left, and that member's `fileSerial`; 0: there is none. See `keep`.
    private var keptIndex: UInt32
    private var keptSerial: UInt32
    /// The main dispatch queue and the notifier of files: `PortSet+Shared.swift`.
    var shared: SharedPorts

    /// Zeroed memory is valid except for the descriptor.
    mutating func initialize() { epoll = EpollSet() }

    /// Whether a wait has to look at the kernel's set.
    var needsKernel: Bool { count > 0 || shared.mainQueue != .unused }
    /// Whether there may be an event that does not come from the kernel.
    var hasAlwaysReady: Bool { alwaysReady.count > 0 }
    var prefersAlwaysReady: Bool { alwaysReady.count > 0 && !servedAlwaysReady }

    /// The slot that a source is a member of, and its number.
    func slot(of source: SourcePointer) -> (slot: PortSlotPointer, index: Int)? {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.members.contains(source) else { return nil }
        return (slot, index)
    }

    func forEachSlot(_ body: (PortSlotPointer, Int) -> Void) {
        var index = -1
        while slots.advance(&index) { body(slots[index], index) }
    }

    // MARK: Members

    mutating func insert(_ source: SourcePointer, in mode: ModePointer) {
        count += 1
        if source.isSignallingWatch { mode.countSocket(1) }
        let port = source.pointee.port.load(ordering: .relaxed)
        guard port >= 0 else { return }
        let index = Int(port)
        if slots.find(index) == nil {
            // Few processes have more descriptors; no memory is allocated for a number that is not open.
            if index >= 1 << 20 && !rl_is_open(port) { return }
            slots.make(index)
        }
        let slot = slots[index]
        if source.isWatch { source.noteLoops() } else { slot.pointee.isCounter = isCounter(port) }
        join(slot, index, source, in: mode)
    }

    /// The source becomes a member of a slot.
    private mutating func join(_ slot: PortSlotPointer, _ index: Int, _ source: SourcePointer, in mode: ModePointer) {
        slot.pointee.admit(source)
        let old = slot.pointee.state
        if old == .unused { slot.pointee.served = turn }
        if keptSerial != 0 && keptIndex == UInt32(index) && takeKept(slot, for: source) { return }
        // No look at the other members, of which there may be any number: what interests them is requested already, or nothing does.
        let own = slot.pointee.takeWanted(of: source)
        if own.isEmpty && (old == .unused || old == .idle) { return slot.pointee.stayIdle() }
        let asked = old == .registered && slot.pointee.members.count > 1 ? slot.pointee.armed : []
        // A loop whose thread has ended never waits: it needs no descriptor.
        slot.pointee.startWaiting(&waiting)
        guard mode.hasLiveThread,
            let result = register(index, old == .waiting ? nil : asked.union(own), newest: old == .alwaysReady ? source : nil)
        else { return }
        // A file that was registered under this number and no longer is was closed: the number names another file now, also if the kernel has no room
        // for that one, which it says of none that it has.
        let isReused = (old == .registered && result.isNew) || (old == .alwaysReady && result != .alwaysReady)
        if isReused { slot.pointee.dismiss(except: source) }
        // Of the others nothing was requested, or too much.
        if (isReused || old == .refused) && slot.pointee.state == .registered { slot.pointee.arm(index, in: epoll) }
    }

    @inline(never)
    mutating func remove(_ source: SourcePointer, in mode: ModePointer) {
        count -= 1
        if source.isSignallingWatch { mode.countSocket(-1) }
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.expel(source) else { return }
        if slot.pointee.isEmpty {
            if !keep(slot, index, of: source) { slot.pointee.leave(index, epoll, &waiting) }
        } else if !source.isWatch {
            portLeft(slot, in: mode)
        }
    }

    // MARK: A kept registration

    /// Keeps the registration of the last member of a slot, for its return, which then costs no system call: the watch of a port's replies comes and
    /// goes with each request. False if there is nothing to keep.
    ///
    /// The slot counts as registered and has no member, so the mode has nothing of it: a run does not wait for it, and a mode without other
    /// ports sleeps on the futex. A wait that is told of an event, and a look for a foreign run, whose set the event would make readable all the
    /// time, end the registration. So does another one that is to be kept: a set has one at most. The registration is the watch's again only if the
    /// number still names the same file, which the serial says: meanwhile the library may have closed the number, which ended the
    /// registration, and it may name anything.
    private mutating func keep(_ slot: PortSlotPointer, _ index: Int, of source: SourcePointer) -> Bool {
        let serial = source.fileSerial
        guard serial != 0, source.isValid, slot.pointee.isRegisteredForInput else { return false }
        endKept()
        keptIndex = UInt32(index)
        keptSerial = serial
        return true
    }

    /// A source came to the slot whose registration is kept. True if that is its own.
    private mutating func takeKept(_ slot: PortSlotPointer, for source: SourcePointer) -> Bool {
        let isOwn = keptSerial == source.fileSerial && slot.pointee.isRegisteredForInput
        keptSerial = 0
        slot.pointee.served = turn
        return isOwn
    }

    /// Ends the registration that was kept, if there is one. If the library closed the number meanwhile, that ended it, and by now the number may
    /// be that of the notifier or of another descriptor that this set has without a slot.
    @inline(never)
    mutating func endKept() {
        if keptSerial == 0 { return }
        let index = Int(keptIndex)
        if !rl_is_socket(Int32(index), UInt64(keptSerial)) { slots[index].pointee.lose() }
        keptSerial = 0
        slots[index].pointee.leave(index, epoll, &waiting)
    }

    /// The interest of a watch of this set has grown. True if the kernel cannot report readiness for it to the loop. Takes from `armed` what the
    /// kernel is not asked for, level-triggered, after this.
    @inline(never)
    mutating func interestGrew(of source: SourcePointer, in mode: ModePointer, armed: inout Readiness) -> Bool {
        guard let (slot, index) = slot(of: source) else {
            armed = []
            return false
        }
        var isUnseen = false
        switch slot.pointee.state {
        case .idle: isUnseen = registerWaiting(index, in: mode)
        case .registered:
            slot.pointee.arm(index, for: source, in: epoll)
        case .alwaysReady: isUnseen = enqueueAlwaysReady(index, for: source)
        case .unused, .waiting, .refused: break
        }
        armed.formIntersection(slot.pointee.state == .registered ? slot.pointee.armed : [])
        return isUnseen
    }

    /// Discards the registration of a watch's number and makes it again. True as above.
    @inline(never)
    mutating func registerAnew(_ source: SourcePointer, in mode: ModePointer) -> Bool {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), !slot.pointee.isResting(source) else { return false }
        if !slot.pointee.members.contains(source) {
            // The number has named another file meanwhile. Until now the loop may have slept on the futex.
            join(slot, index, source, in: mode)
            return true
        }
        let old = slot.pointee.state
        if old == .waiting || old == .idle { return false }
        return registerWaiting(index, in: mode, replacing: old == .registered ? source : nil)
    }

    // MARK: Registrations

    /// Registers a slot, now or when there is room. True if the kernel cannot report its readiness to the loop.
    private mutating func registerWaiting(_ index: Int, in mode: ModePointer, replacing source: SourcePointer? = nil) -> Bool {
        let slot = slots[index]
        slot.pointee.startWaiting(&waiting)
        guard mode.hasLiveThread else { return false }
        // Until now the loop may have slept on the futex, because there was no set.
        let wasOpen = epoll.isOpen
        let result = register(index)
        if let source, let result, result.isNew {
            slot.pointee.dismiss(except: source)
            if slot.pointee.state == .registered { slot.pointee.arm(index, in: epoll) }
        }
        return !wasOpen || slot.pointee.state != .registered
    }

    /// Registers a slot in state `waiting`, for what is of interest to any member or for what is given. nil if there is no set. `newest` is the only
    /// member that an always ready slot does not know.
    @inline(never)
    private mutating func register(_ index: Int, _ known: Readiness? = nil, newest: SourcePointer? = nil) -> EpollSet.Registration? {
        let slot = slots[index]
        guard slot.pointee.state == .waiting, epoll.open() else { return nil }
        let result = slot.pointee.register(index, known, in: epoll, &waiting)
        if result == .alwaysReady { _ = enqueueAlwaysReady(index, for: newest) }
        return result
    }

    /// Registers the ports for which the kernel had no room. True if all are registered.
    mutating func retry() -> Bool {
        guard waiting > 0 else { return true }
        guard epoll.open() else { return false }
        var index = -1
        while slots.advance(&index) {
            if slots[index].pointee.state == .waiting { _ = register(index) }
        }
        registerShared()
        return waiting == 0
    }

    /// Closes the descriptor; everything that was registered is registered anew when a set is made again.
    mutating func closeKernelSet() {
        epoll.close()
        var index = -1
        keptSerial = 0
        while slots.advance(&index) { slots[index].pointee.forgetSet(&waiting) }
        forgetSharedSet()
    }

    /// Makes the set anew, because the kernel watches a file in it that this process closed but that is open elsewhere under another
    /// number, and that cannot be removed. The same check finds other such slots. The new set comes first: at the limit of descriptors another
    /// thread could take the number of the old one, and the mode would have none.
    @inline(never)
    private mutating func rebuild() {
        endKept()
        forEachSlot { slot, index in
            if slot.pointee.state == .registered { slot.pointee.armAgain(index, in: epoll) }
        }
        var fresh = EpollSet()
        guard fresh.open() else {
            isHaunted = true
            if deferredUntil == 0 { deferredUntil = Clock.now() + Clock.retryDelay }
            return
        }
        closeKernelSet()
        epoll = fresh
        isHaunted = false
        _ = retry()
    }

    /// Replaces the registration that reported an event by one for what is of interest now. If the number was closed by then, the old file is still
    /// in the set.
    @inline(never)
    private mutating func rearm(_ slot: PortSlotPointer, _ index: Int, edge: Bool) {
        slot.pointee.arm(index, edge: edge, in: epoll)
        if slot.pointee.state == .unused { rebuild() }
    }

    /// The same for what it reported before.
    @inline(never)
    private mutating func rearmAgain(_ slot: PortSlotPointer, _ index: Int) {
        slot.pointee.armAgain(index, in: epoll)
        if slot.pointee.state == .unused { rebuild() }
    }

    // MARK: Events

    /// An event of no registration. Mostly another thread has ended or replaced the registration since the kernel was asked, and the event does
    /// not come again. One that does is of a file that cannot be removed.
    @inline(never)
    private mutating func meetStranger(_ token: UInt64) {
        guard let slot = slots.find(Int(token & 0xffff_ffff)), !slot.pointee.comesAgain(token) else { return rebuild() }
    }

    /// The set was closed by the program: a new one is made.
    @inline(never)
    mutating func loseSet() {
        Losses.note()
        epoll.forget()
        closeKernelSet()
        _ = retry()
    }

    /// The part of a kernel event that is of interest to a member. nil: none is, or its registration is gone, and the wait goes on. Signals
    /// the watches that signal.
    mutating func accept(token: UInt64, events: UInt32, in mode: ModePointer, signalled: inout Bool) -> Readiness? {
        if token == EpollSet.lostToken {
            loseSet()
            return nil
        }
        let index = Int(token & 0xffff_ffff)
        guard let slot = slots.find(index), slot.pointee.state == .registered, slot.pointee.isCurrent(token) else {
            meetStranger(token)
            return nil
        }
        if slot.pointee.hasLimited { withdrawSpent(slot, in: mode) }
        // It may still be registered for what interested a watch that left.
        if slot.pointee.isPlain && slot.pointee.isRegisteredForInput { return .read }
        if let sole = slot.pointee.soleWatch {
            // The same as below.
            let wanted = sole.member.interest
            var useful = Readiness(events: events).intersection(wanted)
            if !useful.isEmpty {
                if slot.pointee.mustLook(sole.flags), let now = eventsNow(of: Int32(index), wanted), now != events {
                    useful = Readiness(events: now).intersection(wanted)
                    if useful.isEmpty {
                        rearm(slot, index, edge: true)
                        return nil
                    }
                }
                if sole.flags & WatchFlags.signals == 0 { return useful }
                signal(sole.member, useful, in: mode)
                signalled = true
                return nil
            }
        }
        if slot.pointee.isEmpty {
            endKept()
            return nil
        }
        let wanted = slot.pointee.wanted
        var useful = slot.pointee.seen(events, index)
        if useful.isEmpty {
            setAside(slot, index, wanted, events)
            return nil
        }
        if mustLook(slot), let now = eventsNow(of: Int32(index), wanted), now != events {
            useful = slot.pointee.seen(now, index)
            if useful.isEmpty {
                // Another thread took it, or it is an event of the file that the number named before. As edge triggered it cannot be reported
                // forever, and the next useful event makes it level triggered again.
                if !slot.pointee.marks.contains(.edge) { rearm(slot, index, edge: true) }
                return nil
            }
        }
        if slot.pointee.marks.contains(.edge) { slot.pointee.arm(index, in: epoll) }
        return mode.hasSockets ? signalMembers(slot, useful, in: mode, &signalled) : useful
    }

    /// Signals those members of a slot that signal. Returns what is of interest to the others, nil if nothing is.
    @inline(never)
    func signalMembers(_ slot: PortSlotPointer, _ ready: Readiness, in mode: ModePointer, _ signalled: inout Bool) -> Readiness? {
        var others: Readiness = []
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            let found = slot.pointee.interest(of: member).intersection(ready)
            if found.isEmpty { continue }
            if member.isSignallingWatch {
                signal(member, found, in: mode)
                signalled = true
            } else {
                others.formUnion(found)
            }
        }
        return others.isEmpty ? nil : others
    }

    @inline(always)
    private func signal(_ member: SourcePointer, _ found: Readiness, in mode: ModePointer) {
        let loop = mode.pointee.loop
        if member.pointee.moreLinks.load(ordering: .relaxed) != nil { member.link(in: loop)?.pointee.isFound = true }
        member.noteFound(found, round: loop.round)
        loop.signalLocked(member)
    }

    /// No member is interested in what the kernel reports. Hang-up and error, which it reports whatever is requested, would be reported
    /// forever: for these the registration becomes edge triggered until an event or an interest makes it useful again.
    @inline(never)
    private mutating func setAside(_ slot: PortSlotPointer, _ index: Int, _ wanted: Readiness, _ events: UInt32) {
        let isEdge = slot.pointee.marks.contains(.edge)
        let edge = isEdge || events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
        // The same request again would make the kernel report the same again.
        if edge == isEdge && slot.pointee.armed == wanted { return }
        rearm(slot, index, edge: edge)
    }

    /// Whether to check that the client has not closed the number of a watch: the kernel does not report this if the file is open elsewhere.
    /// A report of a watch that signals may be old anyway (S-SOCK-55), so that is checked only now and then, lest it spin.
    mutating func mustLook(_ slot: PortSlotPointer) -> Bool {
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            if member.isWatch && slot.pointee.mustLook(member.watchFlags.pointee.load(ordering: .relaxed)) { return true }
        }
        return false
    }

    /// The source that gets an event, and for what; nil if the event is for another registration, or the event is
    /// over. `mayBeDrained`: client code has run since.
    mutating func take(token: UInt64, ready: Readiness, mayBeDrained: Bool) -> (source: SourcePointer, ready: Readiness)? {
        let index = Int(token & 0xffff_ffff)
        guard let slot = slots.find(index), slot.pointee.isCurrent(token) else { return nil }
        if !mayBeDrained, let sole = slot.pointee.soleWatch, sole.flags & WatchFlags.signals == 0 {
            let reported = sole.member.interest.intersection(ready)
            return reported.isEmpty ? nil : (sole.member, reported)
        }
        var ready = ready
        if mayBeDrained {
            // Reading a counter is a check too, but must not read another file that the number names by now.
            if slot.pointee.isCounter {
                rearmAgain(slot, index)
                if slot.pointee.state == .unused { return nil }
            }
            if !slot.pointee.isCounter || !slot.pointee.isPlain {
                ready = readiness(of: Int32(index), slot.pointee.wanted, believed: ready)
            }
        }
        for place in 0..<slot.pointee.members.count {
            let member = slot.pointee.members[place]
            let reported = slot.pointee.interest(of: member).intersection(ready)
            if reported.isEmpty || member.isSignallingWatch { continue }
            if !member.isWatch {
                if slot.pointee.isCounter && !takeCount(Int32(index)) {
                    rearmAgain(slot, index)
                    return nil
                }
            }
            slot.pointee.moveToEnd(place)
            return (member, reported)
        }
        return nil
    }

    mutating func free() {
        epoll.close()
        forEachSlot { slot, _ in slot.pointee.removeAll() }
        slots.free()
        alwaysReady.free()
    }
}
