// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A mode's record of one descriptor number: its members, and their one registration in the mode's epoll set. The loop's lock
/// guards it. Zeroed memory is an unused slot.
///
/// All members share the registration, which is for the union of what interests them. The kernel's event carries its generation
/// beside the number, so an event of a registration that was replaced can be distinguished from one of this registration.
struct PortSlot {
    /// In the order of their turns.
    private(set) var members: SmallSet<Source>
    /// What few numbers need.
    private var more: UnsafeMutablePointer<More>?
    private var generation: UInt32
    private(set) var state: State
    /// The `Readiness` that the registration requests from the kernel.
    private var armedBits: UInt8
    /// An eventfd or timerfd, whose count is taken before a version 1 source performs (S-SRC-46).
    var isCounter: Bool
    var marks: Marks
    /// The turn in which an event of this number was chosen last, or the number came into the set: `PortSet.age`.
    var served: UInt32
    /// Counts the events of watches that signal: at every sixteenth the number is checked.
    var looks: UInt8
    /// The low half of the latest generation of which an event came after its registration had ended.
    private var stranger: UInt16

    /// Made when a member has used up its limit, or a second version 1 source comes; freed with the last member.
    private struct More {
        /// Members that have used up their limits: of no interest until the end of their period.
        var resting: SmallSet<Source>
        /// The version 1 sources among these and the other members, in the order of their addition: the last one gets the events, also while it
        /// rests (S-SRC-44).
        var ports: SmallSet<Source>
    }

    /// The state of a number with respect to the kernel's set.
    ///
    ///     unused       → waiting, idle           a first member comes, of interest or not
    ///     idle         → waiting                 something is of interest
    ///     waiting      → registered, refused, alwaysReady      a registration was tried; without room it stays
    ///     any          → waiting                 a member comes, or the number is to be registered anew
    ///     registered, refused → waiting          the set is closed; the next one gets all
    ///     registered, alwaysReady → unused       the kernel, or a check, says that the number is closed or names another file: all members leave
    ///     any          → unused                  the last member leaves; or the registration is kept, until another member comes
    enum State: UInt8 {
        case unused = 0
        /// Not registered with the kernel yet: no descriptor or no room.
        case waiting
        case registered
        /// The kernel cannot watch the number.
        case refused
        /// Not registered with the kernel, because nothing was of interest so far.
        case idle
        /// The kernel cannot watch the file, which is always ready: a regular file, /dev/null.
        case alwaysReady
    }

    struct Marks: OptionSet {
        let rawValue: UInt8
        /// The registration is edge triggered, because what the kernel reports is of interest to no member (S-SOCK-51).
        static var edge: Marks { Marks(rawValue: 1) }
        /// The slot is in the queue of the slots that are always ready.
        static var queued: Marks { Marks(rawValue: 2) }
        /// Nothing is of interest until `PortSet.deferredUntil` to its watches that signal, or to the others.
        static var deferred: Marks { Marks(rawValue: 4 | 8) }
        static func deferred(_ flags: UInt32) -> Marks { Marks(rawValue: flags & WatchFlags.signals != 0 ? 4 : 8) }
    }

    // MARK: Members

    @inline(always)
    mutating func admit(_ source: SourcePointer) {
        if !source.isWatch && !(members.isEmpty && more == nil) { admitAmongOthers(source) }
        members.insert(source)
    }

    @inline(never)
    private mutating func admitAmongOthers(_ port: SourcePointer) {
        if more == nil && lastPort == nil { return }
        needMore().pointee.ports.insert(port)
    }

    private mutating func needMore() -> UnsafeMutablePointer<More> {
        if let more { return more }
        let made = makeRecord(More.self)
        if let port = lastPort { made.pointee.ports.insert(port) }
        more = made
        return made
    }

    /// False if it was no member.
    mutating func expel(_ source: SourcePointer) -> Bool {
        guard let more else { return members.remove(source) }
        guard members.remove(source) || more.pointee.resting.remove(source) else { return false }
        if !source.isWatch { more.pointee.ports.remove(source) }
        freeMoreIfEmpty()
        return true
    }

    @inline(never)
    mutating func rest(_ source: SourcePointer) {
        // Before it leaves the members, among which the ports are found.
        let more = needMore()
        if members.remove(source) { more.pointee.resting.insert(source) } else { freeMoreIfEmpty() }
    }

    func isResting(_ source: SourcePointer) -> Bool { more?.pointee.resting.contains(source) ?? false }

    /// False if it does not rest.
    mutating func resume(_ source: SourcePointer) -> Bool {
        guard let more, more.pointee.resting.remove(source) else { return false }
        members.insert(source)
        return true
    }

    /// The member at `place` has had its turn.
    mutating func moveToEnd(_ place: Int) { members.moveToEnd(place) }

    /// The version 1 source that gets the events.
    var lastPort: SourcePointer? {
        if let more { return more.pointee.ports.last }
        for place in 0..<members.count where !members[place].isWatch { return members[place] }
        return nil
    }

    mutating func removeAll() { dismiss(except: nil) }

    private mutating func freeMoreIfEmpty() {
        guard let more, isEmpty else { return }
        more.pointee.resting.removeAll()
        more.pointee.ports.removeAll()
        CRunLoopLinux.free(more)
        self.more = nil
    }

    // MARK: What is of interest

    @inline(always)
    func interest(of member: SourcePointer) -> Readiness {
        guard member.isWatch else { return state == .alwaysReady || !isLastPort(member) ? [] : .read }
        if marks.isDisjoint(with: .deferred) { return member.interest }
        return marks.contains(.deferred(member.watchFlags.pointee.load(ordering: .relaxed))) ? [] : member.interest
    }

    @inline(always)
    private func isLastPort(_ member: SourcePointer) -> Bool { more == nil || more!.pointee.ports.last == member }

    /// What is of interest to any member now.
    var wanted: Readiness {
        @inline(never) get {
            var all: Readiness = []
            for place in 0..<members.count { all.formUnion(interest(of: members[place])) }
            return all
        }
    }

    /// What is of interest now, for a registration that is made or may be narrowed by it: more is announced (`interestGrew`).
    @inline(never)
    func takeWanted() -> Readiness {
        for place in 0..<members.count where members[place].isWatch { members[place].expectAnnouncements() }
        return wanted
    }

    /// The same for one member that comes.
    func takeWanted(of member: SourcePointer) -> Readiness {
        if member.isWatch { member.expectAnnouncements() }
        return interest(of: member)
    }

    var armed: Readiness { Readiness(rawValue: UInt32(armedBits)) }

    /// The part of that which is of interest to watches that signal, or to all others.
    @inline(never)
    func wanted(bySignalling signalling: Bool) -> Readiness {
        var all: Readiness = []
        for place in 0..<members.count where members[place].isSignallingWatch == signalling {
            all.formUnion(interest(of: members[place]))
        }
        return all
    }

    /// The part of the kernel's bits that is of interest to a member.
    func seen(_ events: UInt32, _ number: Int) -> Readiness {
        var all: Readiness = []
        for place in 0..<members.count {
            let member = members[place]
            let flags = member.isWatch ? member.watchFlags.pointee.load(ordering: .relaxed) : 0
            all.formUnion(SourcePointer.seen(events, interest(of: member), flags, Int32(number)))
        }
        return all
    }

    @inline(always)
    var isEmpty: Bool { members.isEmpty && (more == nil || more!.pointee.resting.isEmpty) }

    /// Whether the only member is a version 1 source, and none rests.
    @inline(always)
    var isPlain: Bool { members.count == 1 && (more == nil || more!.pointee.resting.isEmpty) && !members[0].isWatch }

    /// The only member, and its flags, if that is a watch about which nothing is special: most numbers have one.
    @inline(always)
    var soleWatch: (member: SourcePointer, flags: UInt32)? {
        guard members.count == 1, marks.isEmpty, members[0].isWatch else { return nil }
        let flags = members[0].watchFlags.pointee.load(ordering: .relaxed)
        return flags & WatchFlags.special == 0 ? (members[0], flags) : nil
    }

    /// Whether to look at the number before a report of a watch with these flags (`PortSet.mustLook`).
    @inline(always)
    mutating func mustLook(_ flags: UInt32) -> Bool {
        if flags & WatchFlags.signals == 0 { return flags & WatchFlags.owned == 0 }
        looks &+= 1
        return looks & 15 == 0
    }

    /// The number names another file than it did for these, or none. They leave the slot, and are in their mode like sources whose number cannot be
    /// watched: nothing is read for them from the other file.
    @inline(never)
    mutating func dismiss(except newest: SourcePointer?) {
        PortSlot.dismiss(&members, except: newest)
        guard let more else { return }
        PortSlot.dismiss(&more.pointee.resting, except: newest)
        PortSlot.dismiss(&more.pointee.ports, except: newest)
        freeMoreIfEmpty()
    }

    @inline(never)
    private static func dismiss(_ members: inout SmallSet<Source>, except newest: SourcePointer?) {
        let stays = newest != nil && members.contains(newest!)
        members.removeAll()
        if stays { members.insert(newest!) }
    }

    /// Whether a member that does not rest has a limit.
    @inline(always)
    var hasLimited: Bool {
        for place in 0..<members.count where members[place].isLimited { return true }
        return false
    }

    // MARK: Steps. `waiting` counts the slots and shared ports that wait for room in the kernel.

    func token(_ number: Int) -> UInt64 { UInt64(generation) << 32 | UInt64(number) }

    /// Whether an event with that generation belongs to this registration.
    @inline(always)
    func isCurrent(_ token: UInt64) -> Bool {
        generation == UInt32(token >> 32) && (state == .registered || state == .alwaysReady)
    }

    /// Whether the kernel reports a registration that has ended not for the first time. One that left the set is reported once at most, by a call
    /// that began before, and generations end in their order. So an event of the latest generation that was met, or of an earlier one, shows
    /// that the set still has it; or that the number was registered 2^15 times in between, which costs a new set.
    mutating func comesAgain(_ token: UInt64) -> Bool {
        let generation = UInt16(truncatingIfNeeded: token >> 32)
        defer { stranger = generation }
        return Int16(bitPattern: generation &- stranger) <= 0
    }

    /// The slot is to be registered, even if it is already: earlier events belong to another registration.
    mutating func startWaiting(_ waiting: inout Int) {
        generation &+= 1
        if state != .waiting { waiting += 1 }
        state = .waiting
    }

    /// A member came that has no interest, to a slot that needs no registration for the others.
    mutating func stayIdle() {
        generation &+= 1
        if state != .waiting { state = .idle }
    }

    /// Registers a waiting slot with the kernel, for what is of interest now if that is not known.
    @inline(never)
    mutating func register(_ number: Int, _ known: Readiness?, in epoll: EpollSet, _ waiting: inout Int) -> EpollSet.Registration {
        let wanted = known ?? takeWanted()
        var result = epoll.register(Int32(number), events: wanted.events, token: token(number))
        // The handler of a watch of the library's own descriptor finds out that it is closed, or that the set has its number (S-FD-18).
        if result == .refused && isOwned { result = .alwaysReady }
        switch result {
        case .later: return result
        case .added, .replaced:
            state = .registered
            armedBits = UInt8(wanted.rawValue)
            marks.remove(.edge)
        // A number that is closed is no member's: what is opened under it later is another file.
        case .refused:
            if rl_is_open(Int32(number)) { state = .refused } else { lose() }
        case .alwaysReady: state = .alwaysReady
        }
        waiting -= 1
        return result
    }

    private var isOwned: Bool {
        members.count > 0 && members[0].isWatch && members[0].watchFlags.pointee.load(ordering: .relaxed) & WatchFlags.owned != 0
    }

    /// Requests from the kernel exactly what is of interest now.
    @inline(never)
    mutating func arm(_ number: Int, edge: Bool = false, in epoll: EpollSet) {
        request(takeWanted(), number, edge: edge, in: epoll)
    }

    /// Requests what interests a member, whose interest has grown, beside what is requested: the others announce theirs.
    mutating func arm(_ number: Int, for member: SourcePointer, in epoll: EpollSet) {
        if marks.contains(.edge) { return arm(number, in: epoll) }
        let wanted = armed.union(interest(of: member))
        if wanted != armed { request(wanted, number, edge: false, in: epoll) }
    }

    /// Requests the same from the kernel once more, level-triggered.
    @inline(never)
    mutating func armAgain(_ number: Int, in epoll: EpollSet) {
        request(armed, number, edge: false, in: epoll)
    }

    /// The slot is lost if the kernel does not know the number: it was closed, and perhaps names another file now.
    @inline(never)
    private mutating func request(_ wanted: Readiness, _ number: Int, edge: Bool, in epoll: EpollSet) {
        guard epoll.modify(Int32(number), events: wanted.events, edge: edge, token: token(number)) else { return lose(in: epoll) }
        armedBits = UInt8(wanted.rawValue)
        if edge { marks.insert(.edge) } else { marks.remove(.edge) }
    }

    /// Unless the set is another, which the next wait notices.
    @inline(never)
    private mutating func lose(in epoll: EpollSet) {
        // Nor if the set lacks the wake-up descriptor that it is recognised by.
        if epoll.isOurs || process.pointee.wakeWasReplaced.load(ordering: .relaxed) { lose() }
    }

    /// The number names another file than it did, or none.
    mutating func lose() {
        state = .unused
        marks.subtract(.deferred)
        dismiss(except: nil)
    }

    /// Whether the registration is the one that a member gets whose interest is input.
    @inline(always)
    var isRegisteredForInput: Bool { state == .registered && armed == .read && marks.isEmpty }

    /// The set was closed. In the child of `fork` a slot without a registration may have interest that a thread which is gone was about to announce.
    mutating func forgetSet(_ waiting: inout Int) {
        switch state {
        case .registered, .refused: break
        case .idle, .alwaysReady: if wanted.isEmpty { return }
        case .unused, .waiting: return
        }
        if isEmpty {
            state = .unused
            return
        }
        state = .waiting
        waiting += 1
    }

    /// The last member left.
    @inline(never)
    mutating func leave(_ number: Int, _ epoll: EpollSet, _ waiting: inout Int) {
        switch state {
        case .registered: epoll.unregister(Int32(number))
        case .waiting: waiting -= 1
        case .unused, .refused, .idle, .alwaysReady: break
        }
        state = .unused
        // It was the file's that had the number.
        marks.subtract(.deferred)
    }
}

typealias PortSlotPointer = UnsafeMutablePointer<PortSlot>
