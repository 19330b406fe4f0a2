// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// An observer of a loop's activities.
struct Observer: ~Copyable {
    let header: ObjectHeader
    /// Bits of `ObserverState`.
    let state: Atomic<UInt32>
    /// 1 while its first loop calls it. Written by that loop's thread only, with plain stores; see `notify`.
    let inCallout: Atomic<UInt32>
    /// The loop it belongs to (S-OBS-10), or nil. Changed under that loop's lock.
    let loop: Atomic<RunLoopPointer?>
    let activities: UInt
    let order: Int
    let repeats: Bool
    /// How many forks the process had gone through when the marks that the observer is being called were last known to be those of an existing
    /// thread. Changed under the registry's lock, or while there is one thread; released, and acquired where it is compared without the lock.
    let forkGeneration: Atomic<UInt32>
    let callout: ObserverFunction?
    let context: ClientContext
    /// Whether it is a common item of its loop. Guarded by the loop's lock.
    var isCommon: Bool
    /// The modes it is in, by memberships. Guarded by the loop's lock.
    var memberships: WordSet
}

typealias ObserverPointer = UnsafeMutablePointer<Observer>

/// The bits of `Observer.state`. Changed by read-modify-write.
enum ObserverState {
    static var invalid: UInt32 { 1 << 0 }
    /// Its callback is on the stack, or about to be, of a thread that may not show it in `inCallout`.
    static var firing: UInt32 { 1 << 1 }
    /// An Invalidate on another thread left the release of the context to the thread that clears this bit (S-THR-8).
    static var releasePending: UInt32 { 1 << 2 }
    /// It has been in a loop.
    static var used: UInt32 { 1 << 3 }
    /// It has entered a loop more than once: threads of several loops may call it at once.
    static var shared: UInt32 { 1 << 4 }
}

/// The activities, in the order in which a run reports them; the raw value is the place in `ObserverLists`.
enum Activity: Int {
    case entry = 0
    case beforeTimers = 1
    case beforeSources = 2
    case beforeWaiting = 3
    case afterWaiting = 4
    case exit = 5
    /// Not an activity: the list of observers that watch none (S-OBS-13), so that their loop can find them.
    case none = 6

    static var count: Int { 7 }

    @inline(always)
    var bit: UInt {
        switch self {
        case .entry: 1 << 0
        case .beforeTimers: 1 << 1
        case .beforeSources: 1 << 2
        case .beforeWaiting: 1 << 5
        case .afterWaiting: 1 << 6
        case .exit: 1 << 7
        case .none: 0
        }
    }

    /// What RunLoopKit's observers that post notifications are known by (`WaitState.next`): their activities and a bit that stands for none.
    static var ofPoster: UInt { 1 << 63 | Activity.beforeTimers.bit | Activity.beforeWaiting.bit | Activity.exit.bit }

    static var allBits: UInt { 0b1110_0111 }

    /// The activities that a run reports in every pass.
    static var bitsOfPass: UInt { 0b0110_0110 }

    /// Whether an observer of these activities is on this activity's list.
    @inline(always)
    func isIn(_ activities: UInt) -> Bool {
        if self == .none { return activities & Activity.allBits == 0 }
        return activities & bit != 0
    }

    static func at(_ index: Int) -> Activity { Activity(rawValue: index).unsafelyUnwrapped }
}

extension UnsafeMutablePointer where Pointee == Observer {
    static func make(
        activities: UInt, repeats: Bool, order: Int, callout: ObserverFunction?, context: ClientContext
    ) -> ObserverPointer {
        var context = context
        context.adopt()
        let observer = makeRecord(Observer.self)
        observer.initialize(to: Observer(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(0), inCallout: Atomic(0), loop: Atomic(nil),
            activities: activities, order: order, repeats: repeats,
            forkGeneration: Atomic(process.pointee.forkGeneration.load(ordering: .relaxed)), callout: callout, context: context,
            isCommon: false, memberships: WordSet()))
        observer.initializeHeader()
        return observer
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & ObserverState.invalid == 0 }

    /// The membership in a mode, nil if it is not in it. The loop's lock is held, also for the next three functions.
    @inline(never)
    func membership(in mode: ModePointer) -> ObserverMembershipPointer? {
        ObserverMembershipPointer(bitPattern: pointee.memberships.find(UInt(bitPattern: mode), isKeyed: true))
    }

    var anyMembership: ObserverMembershipPointer? { ObserverMembershipPointer(bitPattern: pointee.memberships.last) }

    func addMembership(in mode: ModePointer) {
        let membership = makeRecord(ObserverMembership.self)
        membership.pointee.mode = mode
        pointee.memberships.insert(UInt(bitPattern: membership), isKeyed: true)
    }

    func removeMembership(in mode: ModePointer) {
        CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: pointee.memberships.remove(UInt(bitPattern: mode), isKeyed: true)))
    }
}
