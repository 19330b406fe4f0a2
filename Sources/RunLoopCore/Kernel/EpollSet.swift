// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// An epoll descriptor: the only place that calls epoll. Unexpected behaviours of the kernel, and the answer to each:
///
/// a. A set lives on in the child of `fork` and is then shared with the parent. The child closes its number and makes a set
///    of its own at first use (`RunLoop+Fork.swift`).
/// b. A descriptor that is closed leaves the set by itself, unless it was duplicated; then its events continue. Each event
///    carries the generation of its registration; `PortSet` drops one that does not match.
/// c. For a number that was closed and used again, MOD fails with ENOENT and ADD succeeds. So every registration tries ADD
///    first, and MOD if ADD fails with EEXIST.
/// d. The kernel refuses regular files, directories and /dev/null with EPERM: a watch of them is always ready (S-FD-17). It refuses bad
///    numbers with EBADF. Such a port of a version 1 source never reports (S-SRC-43).
/// e. A level-triggered event moves to the end of the ready list when it is reported, so service rotates (S-PASS-14).
/// f. MOD of an entry that is ready reports it again. That wakes a sleeper without a write: one eventfd for the whole
///    process, never read, is in every set. Its count contains a mark, by which the library recognises it if its number
///    may have been lost; a set is recognised by that entry. A waker that comes after the set was closed finds no entry; if set and
///    eventfd were both gone and both numbers, from 64 up, by then belonged to a set of the client and a member of it, MOD would
///    change that one entry. No set of the library's gets the number of another one that the program has closed: a table of numbers tells.
/// g. MOD of a number that was closed, or closed and used again, fails with EBADF or ENOENT: so it shows whether the number
///    still names the file that was registered.
/// h. Hang-up and error are reported whatever events are requested. `PortSet` makes such a registration edge triggered.
struct EpollSet {
    private(set) var descriptor: Int32 = -1
    /// Distinguishes this set from others that had the same number. 0: none.
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

    /// Makes the descriptor. False if none is available.
    mutating func open() -> Bool {
        if isOpen { return true }
        guard let (number, made) = EpollSet.retainWakeDescriptor() else { return false }
        var wake = number
        if made != wake, EpollSet.lookForMark(wake) == 0, let made = EpollSet.replaceWakeDescriptor(wake) { wake = made }
        let epoll = rl_make_set()
        // A late waker may have put it there.
        guard epoll >= 0, rl_epoll_put(epoll, wake, EpollSet.wakeEvents, EpollSet.wakeToken) >= 0 else {
            EpollSet.closeNumber(epoll)
            EpollSet.releaseWakeDescriptor(known: made)
            return false
        }
        descriptor = epoll
        serial = process.pointee.epollSerial.wrappingAdd(1, ordering: .relaxed).newValue
        forgetRousing()
        return true
    }

    /// Closes a new descriptor whose number has its bit; nothing if there is none.
    @inline(never)
    static func closeNumber(_ number: Int32) {
        if number < 0 { return }
        rl_number_ends(number)
        rl_sys_close(number)
    }

    /// Closes the descriptor, if it still names the set. With `isNew` it is not checked, because the set was just made.
    @inline(never)
    mutating func close(isNew: Bool = false) {
        guard isOpen else { return }
        // In this order: the child of a fork by another thread closes the number that it finds here, and by then the number may be another
        // file's.
        let closing = descriptor
        descriptor = -1
        rl_compiler_barrier()
        // A set that is the library's has the eventfd, which so needs no /proc to be recognised.
        let wake = process.pointee.wakeDescriptor.load(ordering: .acquiring)
        let isOurs = EpollSet.isOurs(set: closing, wake)
        // In this order: nobody else in the library gets the number while it has a bit, or is open.
        rl_number_ends(closing)
        if isNew || isOurs { rl_sys_close(closing) }
        EpollSet.releaseWakeDescriptor(known: isOurs ? wake : -1)
    }

    /// Whether the number names something else by now. `seen`: the losses at the last such look.
    @inline(never)
    func isLost(_ seen: inout UInt32) -> Bool {
        let losses = process.pointee.losses.load(ordering: .sequentiallyConsistent)
        if losses == seen { return false }
        seen = losses
        // A set may lack an eventfd that replaced another, and lacks a file that has the eventfd's number.
        return isOpen && !process.pointee.wakeWasReplaced.load(ordering: .relaxed) && !isOurs
            && EpollSet.lookForMark(process.pointee.wakeDescriptor.load(ordering: .acquiring)) != 0
    }

    var isOurs: Bool { EpollSet.isOurs(set: descriptor, process.pointee.wakeDescriptor.load(ordering: .acquiring)) }

    /// Whether a number still names a set of the library's, which contains the eventfd: then adding that fails and changes
    /// nothing, not even in a set that the parent of a fork sleeps in. To another set the eventfd is added for no events, and removed again.
    /// If the eventfd was lost too, nothing distinguishes the sets, and the answer is no: it is better to leak a descriptor than to close
    /// a client's. `errno` is kept: a set is also closed when a creation fails.
    @inline(never)
    private static func isOurs(set number: Int32, _ wake: Int32) -> Bool {
        let kept = rl_errno()
        defer { rl_set_errno(kept) }
        // A single failure is not trusted.
        for _ in 0..<2 {
            if rl_epoll_ctl(number, EPOLL_CTL_ADD, wake, 0, wakeToken) == 0 {
                _ = rl_epoll_ctl(number, EPOLL_CTL_DEL, wake, 0, 0)
                return false
            }
            if rl_errno() == EEXIST { return true }
        }
        return false
    }

    /// Forgets a number that no longer belongs to the set (S-FD-18).
    @inline(never)
    mutating func forget() {
        guard isOpen else { return }
        rl_number_ends(descriptor)
        descriptor = -1
        EpollSet.releaseWakeDescriptor()
    }

    /// In the child of `fork`: the owners of numbers name them again.
    static func forgetNumbersInChild() {
        rl_forget_numbers(true)
        let wake = process.pointee.wakeDescriptor.load(ordering: .relaxed)
        if wake >= 0 { rl_number_begins(wake) }
    }

    /// In the child of `fork`: makes a set of its own under the same number, which other code may have been given. If no second
    /// descriptor is available for that, the number may change.
    @inline(never)
    mutating func renewInChild() {
        guard isOpen else { return }
        var fresh = EpollSet()
        if isOurs, fresh.open(), rl_replace_in_child(descriptor, fresh.descriptor) >= 0 {
            fresh.close()
            rl_number_begins(descriptor)
        } else {
            fresh.close()
            close()
            _ = open()
        }
    }

    enum Registration {
        case added
        /// It was registered already, and has a new token and new events.
        case replaced
        /// The number is no open descriptor.
        case refused
        /// The kernel cannot watch this file, because it is always ready.
        case alwaysReady
        /// The kernel has no room now; the caller tries again later.
        case later

        /// The set did not have the number's file, whether or not it has it now.
        var isNew: Bool { self == .added || self == .alwaysReady || self == .later }
    }

    /// Watches a descriptor, level triggered.
    func register(_ port: Int32, events: UInt32, token: UInt64) -> Registration {
        // The eventfd is no port: the program has closed it. Wakers would take the port's entry for its own.
        let wake = process.pointee.wakeDescriptor.load(ordering: .relaxed)
        if port == wake { _ = EpollSet.replaceWakeDescriptor(wake) }
        let result = rl_epoll_put(descriptor, port, events, token)
        if result >= 0 { return result == 0 ? .added : .replaced }
        switch rl_errno() {
        case ENOMEM, ENOSPC: return .later
        case EPERM: return .alwaysReady
        default: return .refused
        }
    }

    /// Changes the requested events. False if the number no longer names the registered file.
    func modify(_ port: Int32, events: UInt32, edge: Bool, token: UInt64) -> Bool {
        if rl_epoll_ctl(descriptor, EPOLL_CTL_MOD, port, edge ? events | RL_EPOLLET : events, token) == 0 { return true }
        // If the set itself was lost, the error says nothing about the port; the next wait notices the loss.
        return rl_errno() == EINVAL || (rl_errno() == EBADF && rl_is_open(port))
    }

    /// Registers a descriptor for no events and without a token. False with errno if the kernel has no room; with 0 if the set was lost: no other
    /// set gets it.
    func add(_ port: Int32) -> Bool {
        rl_set_errno(0)
        return isOurs && rl_epoll_ctl(descriptor, EPOLL_CTL_ADD, port, 0, 0) == 0
    }

    /// Whether a number names the file that was added under it; nil if the set was lost. Keeps errno.
    @inline(always)
    func has(_ port: Int32) -> Bool? {
        let kept = rl_errno()
        defer { rl_set_errno(kept) }
        if rl_epoll_ctl(descriptor, EPOLL_CTL_MOD, port, 0, 0) == 0 { return true }
        return isOurs ? false : nil
    }

    func unregister(_ port: Int32) {
        _ = rl_epoll_ctl(descriptor, EPOLL_CTL_DEL, port, 0, 0)
    }

    enum Event {
        /// No event until the given time, or a signal handler ran.
        case none
        /// A thread roused the loop; the wake word says why.
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
            count = until == nil ? rl_epoll_plain_wait(descriptor, false, &token, &events) : rl_epoll_plain_wait(descriptor, true, &token, &events)
        }
        // The number was closed, or names something else (S-FD-18).
        if count < 0 && (rl_errno() == EBADF || rl_errno() == EINVAL) { return .ready(token: EpollSet.lostToken, events: 0) }
        if count <= 0 { return .none }
        return token == EpollSet.wakeToken ? .roused : .ready(token: token, events: events)
    }

    /// All events that one call returns, `room` at most; `until` as above. If the set was lost, the only event has `lostToken`.
    func waitForAll(until: Int64?, _ events: UnsafeMutablePointer<rl_event>, _ room: Int) -> Int {
        var count: Int32
        if until == Clock.never {
            count = rl_epoll_wait_all(descriptor, nil, events, Int32(room))
        } else {
            var timeout = until.map { timespec(nanoseconds: $0 - Clock.now()) } ?? timespec()
            count = rl_epoll_wait_all(descriptor, &timeout, events, Int32(room))
        }
        if count < 0 && (rl_errno() == EBADF || rl_errno() == EINVAL) {
            events.pointee = rl_event(token: EpollSet.lostToken, events: 0)
            count = 1
        }
        return Int(Swift.max(count, 0))
    }

    /// One event that is there now. The event of an old rousing is skipped: it is edge triggered, so it comes once, and
    /// no thread rouses a loop that is awake.
    func poll() -> Event {
        while true {
            let event = wait(until: nil)
            guard case .roused = event else { return event }
        }
    }

    /// Takes the event of an old rousing out of a set of at most three descriptors, so that the event no longer makes the set readable.
    /// Level-triggered events stay, whether or not this meets one of them. False: the set was lost.
    @discardableResult
    func forgetRousing() -> Bool {
        for _ in 0..<3 {
            guard case .ready(let token, _) = wait(until: nil) else { return true }
            if token == EpollSet.lostToken { return false }
        }
        return true
    }

    /// Wakes a loop that sleeps in the set. Async-signal-safe except for errno. Fails harmlessly if the set was closed.
    static func rouse(_ epoll: Int32) {
        let wake = process.pointee.wakeDescriptor.load(ordering: .acquiring)
        if rl_epoll_ctl(epoll, EPOLL_CTL_MOD, wake, wakeEvents, wakeToken) == 0 { return }
        rouse(epoll, withoutTrusting: wake, isSet: rl_errno() != EINVAL)
    }

    /// The eventfd or the set was closed or replaced by other code, or the library itself has closed the set, as may happen to a late
    /// waker. If it is the eventfd, a new one replaces it (S-FD-18). If it is the set, a loop may still sleep in it, and only the
    /// eventfd reaches that loop: a write to the eventfd, and to nothing that took its number, rouses the sleepers of all
    /// sets; those that are not meant sleep again.
    @inline(never)
    private static func rouse(_ epoll: Int32, withoutTrusting known: Int32, isSet: Bool) {
        var wake = known
        // A set that lacks the eventfd is mostly not the one that was meant, in which a loop may be about to sleep.
        if rl_errno() == ENOENT && !process.pointee.wakeWasReplaced.load(ordering: .relaxed) && lookForMark(known) == 1 { Losses.noteSuspicion() }
        let isRaised = rl_raise_marked(wake, process.pointee.wakeMark)
        // EINVAL: the set's number names something else. So does the number of a set that lacks the eventfd of all the library's sets.
        guard isSet, !isRaised || process.pointee.wakeWasReplaced.load(ordering: .relaxed) else { return }
        // Each turn after the first two happens only if another thread found it lost too. A new eventfd may have the old one's number.
        for turn in 0..<8 {
            guard wake >= 0, rl_is_open(epoll) else { return }
            // If the eventfd was replaced, and is not lost again, the likely reason is that the set does not have the new one yet.
            if turn > 0 || isRaised {
                if rl_epoll_ctl(epoll, EPOLL_CTL_MOD, wake, wakeEvents, wakeToken) == 0 { return }
                if rl_errno() == ENOENT && rl_epoll_ctl(epoll, EPOLL_CTL_ADD, wake, wakeEvents, wakeToken) == 0 { return }
            }
            // The set is just being made, or was closed.
            if lookForMark(wake) == 1 { return }
            guard let made = replaceWakeDescriptor(wake) else { return }
            wake = made
        }
    }

    /// Replaces an eventfd that was lost, and leaves that one's number alone; nil if no new one is available. Any thread,
    /// also in a signal handler.
    private static func replaceWakeDescriptor(_ lost: Int32) -> Int32? {
        let made = rl_marked_eventfd(process.pointee.wakeMark)
        guard made >= 0 else { return nil }
        // First: a waker that sees the new one has to know that sets may be without it.
        process.pointee.wakeWasReplaced.store(true, ordering: .relaxed)
        rl_number_begins(made)
        let (exchanged, current) = process.pointee.wakeDescriptor.compareExchange(
            expected: lost, desired: made, ordering: .acquiringAndReleasing)
        if exchanged { rl_number_ends(lost) } else { closeNumber(made) }
        Losses.note()
        return exchanged ? made : current
    }

    /// The process's always readable eventfd, which lives as long as there are sets, and the same again if it was made for this call, else -1. nil
    /// if none is available.
    private static func retainWakeDescriptor() -> (Int32, made: Int32)? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        var made: Int32 = -1
        if process.pointee.wakeDescriptorUsers == 0 {
            // No eventfd of the client, or of another program, has the same count.
            if process.pointee.wakeMark == 0 {
                let random = rl_order_of_time() &* 0x9e37_79b9_7f4a_7c15
                process.pointee.wakeMark = (random >> 2 | 1 << 61) & ~((1 << UInt64(RL_MARK_SHIFT)) - 1)
            }
            made = rl_marked_eventfd(process.pointee.wakeMark)
            guard made >= 0 else { return nil }
            process.pointee.wakeWasReplaced.store(false, ordering: .relaxed)
            rl_number_begins(made)
            process.pointee.wakeDescriptor.store(made, ordering: .releasing)
        }
        process.pointee.wakeDescriptorUsers += 1
        return (process.pointee.wakeDescriptor.load(ordering: .relaxed), made)
    }

    /// `known`: the eventfd's number, if the caller knows that it still names the eventfd.
    private static func releaseWakeDescriptor(known: Int32 = -1) {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        process.pointee.wakeDescriptorUsers -= 1
        guard process.pointee.wakeDescriptorUsers == 0 else { return }
        let wake = process.pointee.wakeDescriptor.exchange(-1, ordering: .relaxed)
        // A number that was lost may belong to other code by now. Where that cannot be determined, it is better to leak the eventfd.
        let isOurs = wake == known || lookForMark(wake) == 1
        rl_number_ends(wake)
        if isOurs { rl_sys_close(wake) }
    }

    private static func lookForMark(_ wake: Int32) -> Int32 { rl_look_for_mark(wake, process.pointee.wakeMark) }
}
