// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// An epoll descriptor: the only place that calls epoll. What the kernel does that one would not expect, and the answers:
///
/// a. A set lives on in the child of `fork` and is then shared with the parent. The child closes its number and makes a set
///    of its own at first use (`RunLoop+Fork.swift`).
/// b. A descriptor that is closed leaves the set by itself, unless it was duplicated; then its events go on. Each event
///    carries the generation of its registration; one that does not match is dropped by `PortSet`.
/// c. A number that was closed and used again is refused with ENOENT by MOD and not by ADD. So every registration tries ADD
///    first, and MOD if that says EEXIST.
/// d. Regular files, directories and /dev/null are refused with EPERM: a watch of them is always ready (S-FD-17). Bad numbers are
///    refused with EBADF. Such a port of a version 1 source never reports (S-SRC-43).
/// e. A level-triggered event moves to the end of the ready list when it was reported, so service rotates (S-PASS-14).
/// f. MOD of an entry that is ready reports it anew. That wakes a sleeper without a write: one eventfd for the whole
///    process, never read, stands in every set. Its count has a mark in it, by which the library knows it again where its number
///    may have been lost, and a set by that entry. A waker that comes so late that the set is gone finds no entry; were set and
///    eventfd both gone and both numbers, from 64 up, a set and a member of it of the client's by then, that one entry would
///    be asked for anew.
/// g. MOD of a number that was closed, or closed and used again, fails with EBADF or ENOENT: so it tells whether the number
///    still names the file that was registered.
/// h. Hang-up and error are reported whatever was asked for. `PortSet` makes such a registration edge triggered.
struct EpollSet {
    private(set) var descriptor: Int32 = -1
    /// Tells this set from others that had the same number. 0: none.
    private(set) var serial: UInt32 = 0

    var isOpen: Bool { descriptor >= 0 }

    /// The token of the eventfd that wakes.
    static var wakeToken: UInt64 { .max }

    /// The token of the main dispatch queue's eventfd.
    static var mainQueueToken: UInt64 { .max - 1 }

    /// The token of the notifier of files. No token of a port is as large.
    static var notifierToken: UInt64 { .max - 2 }

    /// The token of an event that says that the set was lost.
    static var lostToken: UInt64 { .max - 8 }

    private static var wakeEvents: UInt32 { EPOLLIN.rawValue | RL_EPOLLET }

    /// Makes the descriptor. False if none can be had.
    mutating func open() -> Bool {
        if isOpen { return true }
        guard var wake = EpollSet.retainWakeDescriptor() else { return false }
        if !EpollSet.isOurs(wake), let made = EpollSet.replaceWakeDescriptor(wake) { wake = made }
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0, rl_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, EpollSet.wakeEvents, EpollSet.wakeToken) == 0 else {
            if epoll >= 0 { rl_sys_close(epoll) }
            EpollSet.releaseWakeDescriptor()
            return false
        }
        descriptor = highNumber(epoll)
        serial = process.pointee.epollSerial.wrappingAdd(1, ordering: .relaxed).newValue
        forgetRousing()
        return true
    }

    /// Closes the descriptor, if it still names the set, as one that was just made does.
    mutating func close(isNew: Bool = false) {
        guard isOpen else { return }
        // In this order: the child of a fork by another thread closes what it finds here, and by then the number may be another
        // file's.
        let closing = descriptor
        descriptor = -1
        rl_compiler_barrier()
        if isNew || EpollSet.isOurs(set: closing) { rl_sys_close(closing) }
        EpollSet.releaseWakeDescriptor()
    }

    /// Whether a number still names a set of the library's, which has the eventfd in it: then adding that fails and changes
    /// nothing, not in a set that the parent of a fork sleeps in either. Another set is asked for no event of it meanwhile. Where
    /// the eventfd was lost as well nothing tells the sets apart, and the answer is no: better one descriptor too many than a
    /// client's closed. `errno` stays: a set is closed where a creation fails, too.
    private static func isOurs(set number: Int32) -> Bool {
        let wake = process.pointee.wakeDescriptor.load(ordering: .acquiring)
        let kept = rl_errno()
        defer { rl_set_errno(kept) }
        // One failure is not believed.
        for _ in 0..<2 {
            if rl_epoll_ctl(number, EPOLL_CTL_ADD, wake, 0, wakeToken) == 0 {
                _ = rl_epoll_ctl(number, EPOLL_CTL_DEL, wake, 0, 0)
                return false
            }
            if rl_errno() == EEXIST { return true }
        }
        return false
    }

    /// Forgets a number that is not the set's any more (S-FD-18).
    mutating func forget() {
        guard isOpen else { return }
        descriptor = -1
        EpollSet.releaseWakeDescriptor()
    }

    /// In the child of `fork`: a set of its own under the same number, which others may have been told. Where there is no room
    /// for a second descriptor beside it, the number may become another.
    mutating func renewInChild() {
        guard isOpen else { return }
        var fresh = EpollSet()
        if EpollSet.isOurs(set: descriptor), fresh.open(), rl_replace(descriptor, fresh.descriptor) >= 0 {
            fresh.close()
        } else {
            fresh.close()
            close()
            _ = open()
        }
    }

    enum Registration {
        case added
        /// It was there, and has a new token and new events.
        case replaced
        /// The number is no open descriptor.
        case refused
        /// The kernel cannot watch this file, because it is always ready.
        case alwaysReady
        /// The kernel has no room now; to be tried again.
        case later
    }

    /// Watches a descriptor, level triggered.
    func register(_ port: Int32, events: UInt32, token: UInt64) -> Registration {
        if rl_epoll_ctl(descriptor, EPOLL_CTL_ADD, port, events, token) == 0 { return .added }
        if rl_errno() == EEXIST, rl_epoll_ctl(descriptor, EPOLL_CTL_MOD, port, events, token) == 0 { return .replaced }
        switch rl_errno() {
        case ENOMEM, ENOSPC: return .later
        case EPERM: return .alwaysReady
        default: return .refused
        }
    }

    /// Changes what is asked for. False if the number does not name the registered file any more.
    func modify(_ port: Int32, events: UInt32, edge: Bool, token: UInt64) -> Bool {
        if rl_epoll_ctl(descriptor, EPOLL_CTL_MOD, port, edge ? events | RL_EPOLLET : events, token) == 0 { return true }
        // A set that was lost says nothing of the port; the next wait finds that out.
        return rl_errno() == EINVAL || (rl_errno() == EBADF && rl_is_open(port))
    }

    func unregister(_ port: Int32) {
        _ = rl_epoll_ctl(descriptor, EPOLL_CTL_DEL, port, 0, 0)
    }

    enum Event {
        /// Nothing until the time given, or a signal handler ran.
        case none
        /// Told to wake up; the wake word says why.
        case roused
        case ready(token: UInt64, events: UInt32)
    }

    /// One event. `until` is a monotonic instant, `Clock.never` for no end, nil for not waiting at all.
    func wait(until: Int64?) -> Event {
        var token: UInt64 = 0
        var events: UInt32 = 0
        var count: Int32
        if let until, until != Clock.never {
            var timeout = timespec(nanoseconds: until - Clock.now())
            count = rl_epoll_wait(descriptor, &timeout, &token, &events)
        } else {
            count = rl_epoll_plain_wait(descriptor, until != nil, &token, &events)
        }
        // The number was closed, or names something else (S-FD-18).
        if count < 0 && (rl_errno() == EBADF || rl_errno() == EINVAL) { return .ready(token: EpollSet.lostToken, events: 0) }
        if count <= 0 { return .none }
        return token == EpollSet.wakeToken ? .roused : .ready(token: token, events: events)
    }

    /// All events that one call brings; `until` as above. Nothing that was lost is told but by one event with `lostToken`.
    func waitForAll(until: Int64?, _ events: UnsafeMutablePointer<rl_event>) -> Int {
        var count: Int32
        if until == Clock.never {
            count = rl_epoll_wait_all(descriptor, nil, events)
        } else {
            var timeout = until.map { timespec(nanoseconds: $0 - Clock.now()) } ?? timespec()
            count = rl_epoll_wait_all(descriptor, &timeout, events)
        }
        if count < 0 && (rl_errno() == EBADF || rl_errno() == EINVAL) {
            events.pointee = rl_event(token: EpollSet.lostToken, events: 0)
            count = 1
        }
        return Int(Swift.max(count, 0))
    }

    /// One event that is there now. The event of an old rousing is passed over: it is edge triggered, so it comes once, and
    /// nobody rouses a loop that is awake.
    func poll() -> Event {
        while true {
            let event = wait(until: nil)
            guard case .roused = event else { return event }
        }
    }

    /// Takes the event of an old rousing out of a set of at most three descriptors, so that the set is readable no more for it.
    /// Level-triggered events stay, whether or not one of them is met on the way. False: the set was lost.
    @discardableResult
    func forgetRousing() -> Bool {
        for _ in 0..<3 {
            guard case .ready(let token, _) = wait(until: nil) else { return true }
            if token == EpollSet.lostToken { return false }
        }
        return true
    }

    /// Wakes a loop that sleeps in the set. Async-signal-safe but for errno. Fails harmlessly if the set is gone.
    static func rouse(_ epoll: Int32) {
        let wake = process.pointee.wakeDescriptor.load(ordering: .acquiring)
        if rl_epoll_ctl(epoll, EPOLL_CTL_MOD, wake, wakeEvents, wakeToken) == 0 { return }
        rouse(epoll, withoutTrusting: wake, isSet: rl_errno() != EINVAL)
    }

    /// The eventfd or the set was closed or replaced behind the library's back, or the set is gone, as it may be for who comes
    /// late. If it is the eventfd, a new one takes its place (S-FD-18). If it is the set, a loop may sleep in it all the same,
    /// and nothing but the eventfd leads there: a write to it, and to nothing that took its number, rouses the sleepers of all
    /// sets, of which the others sleep again.
    @inline(never)
    private static func rouse(_ epoll: Int32, withoutTrusting known: Int32, isSet: Bool) {
        var wake = known
        let isRaised = rl_raise_marked(wake, process.pointee.wakeMark)
        // EINVAL: the set's number names something else. So does that of a set without the eventfd that all have.
        guard isSet, !isRaised || process.pointee.wakeWasReplaced.load(ordering: .relaxed) else { return }
        // Each turn but the first two needs another thread that lost it as well. A new one may have the number of the old.
        for turn in 0..<8 {
            guard wake >= 0, rl_is_open(epoll) else { return }
            // Once it was replaced, sets that do not have the new one yet are the likely reason.
            if turn > 0 || process.pointee.wakeWasReplaced.load(ordering: .relaxed) {
                if rl_epoll_ctl(epoll, EPOLL_CTL_MOD, wake, wakeEvents, wakeToken) == 0 { return }
                if rl_errno() == ENOENT && rl_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, wakeEvents, wakeToken) == 0 { return }
            }
            guard let made = replaceWakeDescriptor(wake) else { return }
            wake = made
        }
    }

    /// A new eventfd in the place of one that was lost, whose number is left alone; nil if there is none to be had. Any thread,
    /// also in a signal handler.
    private static func replaceWakeDescriptor(_ lost: Int32) -> Int32? {
        let made = highNumber(rl_marked_eventfd(process.pointee.wakeMark))
        guard made >= 0 else { return nil }
        // First: a waker that sees the new one has to know that sets may be without it.
        process.pointee.wakeWasReplaced.store(true, ordering: .relaxed)
        let (exchanged, current) = process.pointee.wakeDescriptor.compareExchange(
            expected: lost, desired: made, ordering: .acquiringAndReleasing)
        if !exchanged { rl_sys_close(made) }
        process.pointee.lostDescriptor.store(true, ordering: .relaxed)
        return exchanged ? made : current
    }

    /// The process's always readable eventfd, which lives as long as there are sets. nil if none can be had.
    private static func retainWakeDescriptor() -> Int32? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        if process.pointee.wakeDescriptorUsers == 0 {
            // No eventfd of the client's, or of another program, counts alike.
            if process.pointee.wakeMark == 0 {
                let random = rl_order_of_time() &* 0x9e37_79b9_7f4a_7c15
                process.pointee.wakeMark = (random >> 2 | 1 << 61) & ~((1 << UInt64(RL_MARK_SHIFT)) - 1)
            }
            let made = highNumber(rl_marked_eventfd(process.pointee.wakeMark))
            guard made >= 0 else { return nil }
            process.pointee.wakeWasReplaced.store(false, ordering: .relaxed)
            process.pointee.wakeDescriptor.store(made, ordering: .releasing)
        }
        process.pointee.wakeDescriptorUsers += 1
        return process.pointee.wakeDescriptor.load(ordering: .relaxed)
    }

    private static func releaseWakeDescriptor() {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        process.pointee.wakeDescriptorUsers -= 1
        guard process.pointee.wakeDescriptorUsers == 0 else { return }
        let wake = process.pointee.wakeDescriptor.exchange(-1, ordering: .relaxed)
        // A number that was lost may be somebody else's by now.
        if isOurs(wake) { rl_sys_close(wake) }
    }

    private static func isOurs(_ wake: Int32) -> Bool { rl_has_mark(wake, process.pointee.wakeMark) }
}
