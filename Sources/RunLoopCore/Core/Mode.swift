// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A named set of items in one loop.
///
/// A mode lives as long as its loop and never moves, so pointers to it serve as its identity. A record is also made for a
/// name that was only put into the common set; it becomes a mode when something is added (`exists`).
/// All fields that are not atomic are guarded by the loop's lock.
struct Mode: ~Copyable {
    /// The next older mode of the loop. Written before the mode is published.
    var next: ModePointer?
    /// The modes below it in the tree in which modes are found by name: bit n of a name's hash says which branch the search takes at
    /// its n-th mode. Set once, under the loop's lock, releasing; read acquiring, by any thread.
    let left: Atomic<ModePointer?>
    let right: Atomic<ModePointer?>
    /// The next older mode of the common set. Written before this one is put into it.
    var nextCommon: ModePointer?
    /// A copy of the name, NUL terminated.
    var name: UnsafeMutablePointer<CChar>
    var nameHash: UInt
    var loop: RunLoopPointer

    /// Whether the mode exists for clients (S-MODE-2). Becomes true once. Released and acquired: a thread that sees it set also sees
    /// what was written before it; a thread that holds the lock reads it relaxed.
    let exists: Atomic<Bool>
    /// Whether it is in the common set. Becomes true once, under the loop's lock, released before `commonModes` has the mode. Another thread that makes
    /// it true stores it sequentially consistent with `wake`, and then makes the loop look again (S-WAKE-15).
    let isCommon: Atomic<Bool>
    /// Union of the activities of its observers; read without the lock by the loop's thread, relaxed: the lists themselves are read
    /// under the lock, and an observer that another thread adds now may be treated as one that is added a little later.
    let observedActivities: Atomic<UInt>

    var sources: SourceSet
    /// Version 1 sources and their registrations with the kernel.
    var ports: PortSet
    /// How many of them are sockets: watches that signal (S-SOCK-52). Changed under the lock; read without it by the loop's thread, relaxed:
    /// one that another thread adds now may be found by the next wait instead.
    let sockets: Atomic<Int>
    /// How many of the sources are inboxes.
    var inboxCount: Int
    var timers: TimerStore
    /// The last event served in the mode was the timers: if timers and a port are both ready, the port is next, in this run or
    /// in a later one (S-PASS-10). Loop's thread only.
    var servedTimers: Bool
    /// The last port served in the mode was an inbox: if a descriptor is ready too, it is next. Loop's thread only.
    var servedInbox: Bool
    /// Memberships of timers, also of those whose callbacks are on the stack and that are in no store.
    var timerCount: Int
    var observerCount: Int
    /// One list for each activity.
    var observers: ObserverLists
    /// How many signalled sources, requests and functions each step of a pass calls at most (S-LIM-6); 0: no limit; negative: none any more, in
    /// the last pass of a thread. Relaxed: a number that orders nothing.
    let passLimit: Atomic<Int>
    /// Functions and requests that wait for this mode. See `WaitingKind`.
    var waiting: WaitingLists
}

typealias ModePointer = UnsafeMutablePointer<Mode>

extension UnsafeMutablePointer where Pointee == Mode {
    /// `passLimit` as a number to count down from.
    @inline(always)
    var stepLimit: Int {
        let limit = pointee.passLimit.load(ordering: .relaxed)
        return limit > 0 ? limit : .max
    }
}

/// A mode as callers name it.
enum ModeName {
    /// NULL: the call does nothing.
    case none
    /// The pseudo-mode: every mode of the common set.
    case common
    case named(UnsafePointer<CChar>)

    @inline(always)
    init(_ name: UnsafePointer<CChar>?) {
        guard let name else {
            self = .none
            return
        }
        // The default mode's own string is recognised by its address.
        if name == kRLDefaultMode {
            self = .named(name)
        } else {
            self = ModeName.isCommon(name) ? .common : .named(name)
        }
    }

    private static func isCommon(_ name: UnsafePointer<CChar>) -> Bool {
        name == kRLCommonModes || (name.pointee == kRLCommonModes.pointee && strcmp(name, kRLCommonModes) == 0)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The record of a name, whether or not it is a mode yet. Any thread, with or without the lock.
    @inline(always)
    func modeRecord(_ name: UnsafePointer<CChar>) -> ModePointer? {
        name == kRLDefaultMode ? pointee.defaultMode : findModeRecord(name)
    }

    @inline(never)
    private func findModeRecord(_ name: UnsafePointer<CChar>) -> ModePointer? {
        search(name, hashOfName(name)).mode
    }

    /// The record of a name in the tree; if there is none, the place below which it belongs. A search takes about as many steps as the
    /// hashes of names have low bits in common.
    private func search(_ name: UnsafePointer<CChar>, _ hash: UInt) -> (mode: ModePointer?, above: ModePointer, isRight: Bool) {
        var mode = pointee.defaultMode
        var bits = hash
        while true {
            if mode.pointee.nameHash == hash && strcmp(mode.pointee.name, name) == 0 { return (mode, mode, false) }
            let isRight = bits & 1 != 0
            guard let next = (isRight ? mode.pointee.right.load(ordering: .acquiring) : mode.pointee.left.load(ordering: .acquiring))
            else { return (nil, mode, isRight) }
            mode = next
            bits = bits >> 1 | bits << UInt(UInt.bitWidth - 1)
        }
    }

    /// The mode of a name, nil if it does not exist.
    @inline(always)
    func mode(_ name: UnsafePointer<CChar>) -> ModePointer? {
        guard let mode = modeRecord(name), mode.pointee.exists.load(ordering: .acquiring) else { return nil }
        return mode
    }

    /// The record of a name, made if needed. Takes the lock for that.
    @inline(always)
    func makeModeRecord(_ name: UnsafePointer<CChar>) -> ModePointer {
        modeRecord(name) ?? addModeRecord(name)
    }

    /// The same, always with the lock.
    @inline(never)
    func addModeRecord(_ name: UnsafePointer<CChar>) -> ModePointer {
        lock()
        defer { unlock() }
        return makeModeRecordLocked(name)
    }

    func makeModeRecordLocked(_ name: UnsafePointer<CChar>) -> ModePointer {
        modeRecord(name) ?? newModeRecordLocked(name)
    }

    /// A record for a name that has none yet.
    private func newModeRecordLocked(_ name: UnsafePointer<CChar>) -> ModePointer {
        let mode = makeModeRecord(named: name)
        let place = search(name, mode.pointee.nameHash)
        if place.isRight {
            place.above.pointee.right.store(mode, ordering: .releasing)
        } else {
            place.above.pointee.left.store(mode, ordering: .releasing)
        }
        return mode
    }

    /// The default mode of a loop that has no mode: the one that its memory kept from an earlier life, or a new one. The lock is held.
    func makeDefaultModeLocked() {
        if let kept = pointee.keptMode {
            pointee.keptMode = nil
            enterModeRecord(kept)
            setDefaultModeLocked(kept)
        } else {
            setDefaultModeLocked(makeModeRecord(named: kRLDefaultMode))
        }
    }

    /// The same with the mode of all vanished loops, which is made if needed.
    func shareDefaultModeLocked(_ made: ModePointer?) -> ModePointer {
        let mode = made ?? makeModeRecord(named: kRLDefaultMode)
        setDefaultModeLocked(mode)
        return mode
    }

    private func setDefaultModeLocked(_ mode: ModePointer) {
        mode.pointee.exists.store(true, ordering: .relaxed)
        pointee.modes.store(mode, ordering: .releasing)
        pointee.defaultMode = mode
        makeCommonLocked(mode)
    }

    /// Puts a mode into the common set.
    func makeCommonLocked(_ mode: ModePointer) {
        mode.pointee.nextCommon = pointee.commonModes.load(ordering: .relaxed)
        mode.pointee.isCommon.store(true, ordering: .releasing)
        pointee.commonModes.store(mode, ordering: .releasing)
    }

    private func makeModeRecord(named name: UnsafePointer<CChar>) -> ModePointer {
        let mode = makeRecord(Mode.self)
        guard let copy = strdup(name) else { trap("RunLoop", "out of memory") }
        mode.pointee.name = copy
        mode.pointee.nameHash = hashOfName(name)
        enterModeRecord(mode)
        return mode
    }

    /// Adds a record in which only the name is set.
    private func enterModeRecord(_ mode: ModePointer) {
        mode.pointee.loop = self
        mode.pointee.ports.initialize()
        mode.pointee.next = pointee.modes.load(ordering: .relaxed)
        pointee.modes.store(mode, ordering: .releasing)
        if Trace.isWanted { Trace.name(.mode, UInt(bitPattern: mode), mode.pointee.name, 0, 0) }
    }

    /// The mode of a name, made if needed (S-MODE-2).
    @inline(always)
    func makeMode(_ name: UnsafePointer<CChar>) -> ModePointer {
        let mode = makeModeRecord(name)
        if !mode.pointee.exists.load(ordering: .relaxed) { mode.pointee.exists.store(true, ordering: .releasing) }
        return mode
    }

    /// Calls the body with each record, newest first.
    @inline(always)
    func forEachModeRecord(_ body: (ModePointer) -> Void) {
        var mode = pointee.modes.load(ordering: .acquiring)
        while let current = mode {
            mode = current.pointee.next
            body(current)
        }
    }

    /// Calls the body with each mode of the common set.
    @inline(always)
    func forEachCommonMode(_ body: (ModePointer) -> Void) {
        var mode = pointee.commonModes.load(ordering: .acquiring)
        while let current = mode {
            mode = current.pointee.nextCommon
            body(current)
        }
    }

    /// With `keepsDefault` the default mode's record stays for the next loop in this memory.
    func freeModes(keepsDefault: Bool) {
        forEachModeRecord { mode in
            mode.pointee.sources.free()
            mode.pointee.ports.free()
            mode.pointee.timers.free()
            let name = mode.pointee.name
            if keepsDefault && mode == pointee.defaultMode {
                let hash = mode.pointee.nameHash
                memset(mode, 0, MemoryLayout<Mode>.size)
                mode.pointee.name = name
                mode.pointee.nameHash = hash
                pointee.keptMode = mode
            } else {
                CRunLoopLinux.free(name)
                CRunLoopLinux.free(mode)
            }
        }
        pointee.modes.store(nil, ordering: .relaxed)
        pointee.commonModes.store(nil, ordering: .relaxed)
    }
}

extension UnsafeMutablePointer where Pointee == Mode {
    @inline(always)
    var hasSockets: Bool { pointee.sockets.load(ordering: .relaxed) > 0 }

    /// A loop whose thread has ended never waits. Caller holds the lock.
    var hasLiveThread: Bool { pointee.loop.pointee.threadAlive.load(ordering: .relaxed) }

    /// Caller holds the lock.
    func countSocket(_ difference: Int) {
        pointee.sockets.store(pointee.sockets.load(ordering: .relaxed) + difference, ordering: .relaxed)
    }

    /// Whether the mode has nothing that would make a run useful, apart from functions to perform (S-RUN-2).
    /// Caller holds the lock.
    @inline(always)
    var hasNoItems: Bool { pointee.sources.count == 0 && pointee.timerCount == 0 }
}

private func hashOfName(_ name: UnsafePointer<CChar>) -> UInt {
    digest(UnsafeRawPointer(name).assumingMemoryBound(to: UInt8.self), count: strlen(name))
}
