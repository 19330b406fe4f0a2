// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Descriptors of the process that several modes watch, each under a token of its own: the main dispatch queue's eventfd, and the
/// notifier of files. Part of a `PortSet`.
struct SharedPorts {
    /// `unused`, `waiting` or `registered`.
    var mainQueue: PortSlot.State
    /// The queue's eventfd while the mode serves that queue.
    var mainQueueDescriptor: Int32
    /// As `PortSlot.served`.
    var mainQueueServed: UInt32
    var notifierServed: UInt32
    /// How many inboxes of the mode are marked by the thread that reads the notifier.
    var notified: Int
    /// The serial of the notifier that is registered for them. 0: none is yet, and `waiting` counts it.
    var notifierSerial: UInt32
    /// It could not be read, and is not in the set until the deferred descriptors are looked at.
    var isNotifierPutOff: Bool
}

/// The descriptor of the notifier of files (`Notifier`), as the modes that watch it see it.
struct NotifierPort: ~Copyable {
    /// Guards all fields here and those of the notifier. Taken after a loop's lock and the registry's.
    let lock: Lock
    /// Valid while `users` is not 0; if it is -1 then, the descriptor was lost.
    var descriptor: Int32
    /// Another number of the same instance, by which it is found if the client closed the first (S-FD-18). Sets that have the instance
    /// registered under the first number continue to report it. -1: there is none.
    var spare: Int32
    /// Both are members of `OwnFiles`.
    var areMembers: Bool
    /// How many sources of files are valid.
    var users: Int
    /// Distinguishes this instance from earlier ones, whose number it may have; never 0 while there is one.
    var serial: UInt32
    /// When a watch for which the kernel had no room is to be tried again, by a read; 0: there is none. Written under the lock. Sequentially
    /// consistent: a loop that did not see it when it looked is made to look again, and sees it.
    let nextTry: Atomic<Int64>
    /// Reads the events and passes them to the sources; false if the kernel refuses to read, so that the descriptor stays readable. Called by
    /// the loop that finds it readable, without a lock. Written when the library is loaded.
    var read: (@convention(c) () -> Bool)?

    static var shared: UnsafeMutablePointer<NotifierPort> { rl_notifier_port().assumingMemoryBound(to: NotifierPort.self) }
}

extension UnsafeMutablePointer where Pointee == NotifierPort {
    /// Whether the instance is open under one of its two numbers. Any other file under its numbers is the client's. If the instance is
    /// lost, its sources have to become invalid; a loop that finds `lostDescriptor` does that (S-KEV-11). Caller holds the lock.
    @inline(never)
    func isOpenLocked() -> Bool {
        ownsLocked(pointee.descriptor) || loseLocked()
    }

    /// The first number is lost; the second one takes its place. False: that is lost as well.
    @inline(never)
    func loseLocked() -> Bool {
        Losses.note()
        rl_number_ends(pointee.descriptor)
        pointee.descriptor = -1
        if ownsLocked(pointee.spare) { swap(&pointee.descriptor, &pointee.spare) }
        makeSpareLocked()
        return pointee.descriptor >= 0
    }

    /// Whether a number of the instance still names it.
    @inline(never)
    func ownsLocked(_ number: Int32) -> Bool {
        let other = number == pointee.spare ? pointee.descriptor : pointee.spare
        return OwnFiles.has(number, RL_INOTIFY, isMember: pointee.areMembers, beside: other)
    }

    /// Another number in the place of one that was lost.
    @inline(never)
    func makeSpareLocked() {
        rl_number_ends(pointee.spare)
        pointee.spare = rl_dup_high(pointee.descriptor)
        rl_number_begins(pointee.spare)
        pointee.areMembers = pointee.areMembers && (pointee.spare < 0 || OwnFiles.enter(pointee.spare))
    }

    func closeSpareLocked() {
        closeOwn(pointee.spare, RL_INOTIFY, isMember: pointee.areMembers)
        pointee.spare = -1
    }

    /// Makes the second number of a new instance. Not members, with errno: the kernel has no room; with 0: there is no set.
    @inline(always)
    func enterNumbersLocked() {
        rl_number_begins(pointee.descriptor)
        pointee.areMembers = OwnFiles.enter(pointee.descriptor)
        makeSpareLocked()
    }
}

extension PortSet {
    mutating func registerShared() {
        registerMainQueue()
        if shared.notifierSerial == 0 { registerNotifier() }
    }

    mutating func forgetSharedSet() {
        if shared.mainQueue == .registered {
            shared.mainQueue = .waiting
            waiting += 1
        }
        if shared.notifierSerial != 0 {
            shared.notifierSerial = 0
            waiting += 1
        }
    }

    // MARK: The main dispatch queue

    /// Begins or stops watching the main dispatch queue.
    @inline(always)
    mutating func watchMainQueue(_ watches: Bool, _ descriptor: @autoclosure () -> Int32) {
        if watches != (shared.mainQueue != .unused) { changeMainQueue(watches, descriptor()) }
    }

    @inline(never)
    private mutating func changeMainQueue(_ watches: Bool, _ descriptor: Int32) {
        if watches {
            shared.mainQueueDescriptor = descriptor
            shared.mainQueue = .waiting
            waiting += 1
            registerMainQueue()
        } else {
            if shared.mainQueue == .registered { epoll.unregister(shared.mainQueueDescriptor) } else { waiting -= 1 }
            shared.mainQueue = .unused
        }
    }

    private mutating func registerMainQueue() {
        guard shared.mainQueue == .waiting, epoll.open() else { return }
        let result = epoll.register(shared.mainQueueDescriptor, events: Readiness.read.events, token: EpollSet.mainQueueToken)
        if case .later = result { return }
        shared.mainQueue = .registered
        waiting -= 1
    }

    // MARK: The notifier of files

    /// One more source of a file is in the mode.
    @inline(never)
    mutating func joinNotifier(in mode: ModePointer) {
        shared.notified += 1
        if shared.notified == 1 {
            count += 1
            waiting += 1
        }
        if mode.hasLiveThread { registerNotifier() }
    }

    @inline(never)
    mutating func leaveNotifier() {
        shared.notified -= 1
        guard shared.notified == 0 else { return }
        count -= 1
        if shared.notifierSerial == 0 { waiting -= 1 }
        unregisterNotifier()
        shared.notifierSerial = 0
    }

    private func unregisterNotifier() {
        let notifier = NotifierPort.shared
        notifier.pointee.lock.lockWord()
        // If the notifier was closed, the kernel has removed the entry, and the number may belong to any file.
        if notifier.pointee.users > 0 && notifier.pointee.serial == shared.notifierSerial { epoll.unregister(notifier.pointee.descriptor) }
        notifier.pointee.lock.unlockWord()
    }

    /// Tries again to watch files for which the kernel had no room, if it is time. Returns when to do that next, or `until` if that is earlier. For
    /// a mode with sources of files. Caller holds the loop's lock.
    @inline(never)
    static func tryFiles(_ until: Int64) -> Int64 {
        let notifier = NotifierPort.shared
        var time = notifier.pointee.nextTry.load(ordering: .sequentiallyConsistent)
        if time != 0 && Clock.now() >= time {
            _ = notifier.pointee.read?()
            time = notifier.pointee.nextTry.load(ordering: .sequentiallyConsistent)
        }
        return time == 0 ? until : Swift.min(until, time)
    }

    /// The notifier could not be read: it is not watched until the given instant.
    @inline(never)
    mutating func putOffNotifier(until: Int64) {
        unregisterNotifier()
        shared.isNotifierPutOff = true
        if deferredUntil == 0 { deferredUntil = until }
    }

    /// The deferred descriptors are looked at. It may be registered anew meanwhile, or wait for that.
    mutating func resumeNotifier() {
        if shared.isNotifierPutOff && shared.notified > 0 && shared.notifierSerial != 0 {
            shared.notifierSerial = 0
            waiting += 1
        }
        shared.isNotifierPutOff = false
    }

    @inline(never)
    private mutating func registerNotifier() {
        guard shared.notified > 0, epoll.open() else { return }
        let notifier = NotifierPort.shared
        notifier.pointee.lock.lockWord()
        defer { notifier.pointee.lock.unlockWord() }
        guard notifier.pointee.serial != shared.notifierSerial else { return }
        // If there is none, the sources are just about to leave, or need none. One that was lost cannot be registered, and the file that has its
        // number must not be (S-FD-18).
        if notifier.pointee.users > 0 && notifier.isOpenLocked() {
            let result = epoll.register(
                notifier.pointee.descriptor, events: Readiness.read.events, token: EpollSet.notifierToken)
            if case .later = result { return }
        }
        if shared.notifierSerial == 0 { waiting -= 1 }
        shared.notifierSerial = notifier.pointee.serial
    }
}
