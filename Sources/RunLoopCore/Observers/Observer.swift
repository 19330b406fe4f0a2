import CLinux
import CRunLoop
import Synchronization

typealias ObserverFunction = @convention(c) (OpaquePointer?, RLActivity, UnsafeMutableRawPointer?) -> Void

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
    /// Its callback is on the stack, or about to be, of a thread that may not say so in `inCallout`.
    static var firing: UInt32 { 1 << 1 }
    /// An Invalidate on another thread left the release of the context to whoever clears this bit (S-THR-8).
    static var releasePending: UInt32 { 1 << 2 }
    /// It has been in a loop.
    static var used: UInt32 { 1 << 3 }
    /// It has entered a loop more than once: threads of several loops may come to it at once.
    static var shared: UInt32 { 1 << 4 }
}

extension Observer: Object {
    static var type: ObjectType { .observer }

    /// The last reference is gone: the observer is in no loop. It becomes invalid by it (S-OBS-15).
    @inline(never)
    static func destroy(_ observer: ObserverPointer) {
        let old = observer.pointee.state.bitwiseOr(ObserverState.invalid, ordering: .acquiringAndReleasing).oldValue
        observer.header.pointee.type.store(ObjectType.freed.rawValue, ordering: .relaxed)
        if old & ObserverState.invalid == 0 { observer.pointee.context.releaseInfo() }
        CLinux.free(observer)
    }
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

    @inline(__always)
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

    /// Whether an observer of these activities stands on this one's list.
    @inline(__always)
    func isIn(_ activities: UInt) -> Bool {
        if self == .none { return activities & 0b1110_0111 == 0 }
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
            activities: activities, order: order, repeats: repeats, callout: callout, context: context,
            isCommon: false, memberships: WordSet()))
        observer.initializeHeader()
        return observer
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & ObserverState.invalid == 0 }

    /// Calls the observer, unless it is invalid or on the stack already (S-OBS-6, S-OBS-8). Loop's thread.
    ///
    /// An Invalidate on another thread has to know whether the callback is under way. As long as the observer has been in one
    /// loop only, that loop's thread says so with a plain store and looks at the state again; the other thread changes the state
    /// and makes this one's processor see it with membarrier(2), as in `Lock`. After that `firing` says it, by
    /// read-modify-write.
    @inline(__always)
    func notify(_ activity: Activity, canUsePlainStores: Bool, _ place: CallPlace<Notification>, on loop: RunLoopPointer) {
        if pointee.state.load(ordering: .acquiring) == ObserverState.used && canUsePlainStores {
            if pointee.inCallout.load(ordering: .relaxed) != 0 { return }
            pointee.inCallout.store(1, ordering: .relaxed)
            rl_compiler_barrier()
            if pointee.state.load(ordering: .acquiring) == ObserverState.used {
                call(activity)
                pointee.inCallout.store(0, ordering: .releasing)
                rl_compiler_barrier()
                if pointee.state.load(ordering: .acquiring) & ObserverState.releasePending != 0 { releasePendingInfo() }
                return
            }
            pointee.inCallout.store(0, ordering: .releasing)
        }
        notifyShared(activity, place, on: loop)
    }

    @inline(never)
    private func notifyShared(_ activity: Activity, _ place: CallPlace<Notification>, on loop: RunLoopPointer) {
        loop.pointee.calls[place].pointee.call = .none
        defer { loop.pointee.calls[place].pointee.call = .inCallout }
        var state = pointee.state.load(ordering: .relaxed)
        repeat {
            if state & (ObserverState.invalid | ObserverState.firing) != 0 { return releasePendingInfo() }
        } while !pointee.state.replace(&state, by: state | ObserverState.firing)
        // The thread of the first loop may have begun before this one made the observer shared.
        if pointee.inCallout.load(ordering: .acquiring) == 0 {
            loop.pointee.calls[place].pointee.call = .firing
            call(activity)
            loop.pointee.calls[place].pointee.call = .none
        }
        pointee.state.bitwiseAnd(~ObserverState.firing, ordering: .acquiringAndReleasing)
        releasePendingInfo()
    }

    @inline(__always)
    private func call(_ activity: Activity) {
        if let callout = pointee.callout {
            callOutObserver(callout, handle, RLActivity(rawValue: activity.bit), pointee.context.info)
        }
        if !pointee.repeats { invalidate() }
    }

    /// The end of a callback that ended its thread. Whoever is notified has a reference.
    func abandonCallout(_ call: Notification.Call) {
        switch call {
        case .none: return
        case .inCallout:
            if pointee.inCallout.exchange(0, ordering: .releasing) == 0 { return }
        case .firing: pointee.state.bitwiseAnd(~ObserverState.firing, ordering: .acquiringAndReleasing)
        }
        if !pointee.repeats { invalidate() }
        releasePendingInfo()
    }

    private var isInCallout: Bool {
        pointee.inCallout.load(ordering: .acquiring) != 0
            || pointee.state.load(ordering: .acquiring) & ObserverState.firing != 0
    }

    /// Releases the context if that was left to somebody and nobody is in the callback. Once: whoever clears the bit does it.
    private func releasePendingInfo() {
        if pointee.state.load(ordering: .acquiring) & ObserverState.releasePending == 0 { return }
        // A full fence: of two threads that leave the observer at once, at least one sees that the other has left.
        pointee.state.bitwiseOr(0, ordering: .sequentiallyConsistent)
        if isInCallout { return }
        let old = pointee.state.bitwiseAnd(~ObserverState.releasePending, ordering: .acquiringAndReleasing).oldValue
        if old & ObserverState.releasePending != 0 { pointee.context.releaseInfo() }
    }

    /// Makes the observer belong to a loop whose lock the caller holds. False if it belongs to another one.
    func enter(_ loop: RunLoopPointer) -> Bool {
        let (exchanged, original) = pointee.loop.compareExchange(
            expected: nil, desired: loop, ordering: .sequentiallyConsistent)
        guard exchanged else { return original == loop }
        if pointee.state.bitwiseOr(ObserverState.used, ordering: .acquiringAndReleasing).oldValue & ObserverState.used != 0 {
            pointee.state.bitwiseOr(ObserverState.shared, ordering: .sequentiallyConsistent)
            fenceOtherThreads()
        }
        return true
    }

    /// `RLObserverInvalidate` (S-OBS-16). On another thread than the loop's, while the callback runs, the release of the
    /// context is left to the loop's thread (S-THR-8).
    func invalidate() {
        forgetVanishedLoop()
        let isInCallback = isFiringOnThisThread
        let isOnLoopThread = pointee.loop.load(ordering: .relaxed)?.isCurrent ?? false
        var state = pointee.state.load(ordering: .relaxed)
        repeat {
            if state & ObserverState.invalid != 0 { return }
        } while !pointee.state.replace(
            &state, by: state | ObserverState.invalid | (isInCallback ? 0 : ObserverState.releasePending))
        retain()
        leaveLoop()
        if isInCallback {
            pointee.context.releaseInfo()
        } else {
            // From here on a thread that is not in the callback sees that the observer is invalid and does not begin.
            let isForThisThreadOnly = isOnLoopThread && state & ObserverState.shared == 0
            if state & ObserverState.used != 0 && !isForThisThreadOnly { fenceOtherThreads() }
            releasePendingInfo()
        }
        release()
    }

    /// Whether the caller is inside this observer's callback, which may have taken it out of its loop.
    var isFiringOnThisThread: Bool {
        guard let loop = rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self) else { return false }
        return loop.pointee.calls.contains(Notification.self) { $0.pointee.observer == self }
    }

    /// The membership in a mode, nil if it is not in it. The loop's lock is held, as for the next three.
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
        CLinux.free(UnsafeMutableRawPointer(bitPattern: pointee.memberships.remove(UInt(bitPattern: mode), isKeyed: true)))
    }

    /// Takes the observer out of its loop altogether.
    func leaveLoop() {
        while let loop = pointee.loop.load(ordering: .sequentiallyConsistent) {
            loop.lock()
            guard pointee.loop.load(ordering: .relaxed) == loop else {
                loop.unlock()
                continue
            }
            var references = 0
            if pointee.isCommon {
                loop.pointee.commonObservers.remove(self)
                pointee.isCommon = false
                references += 1
            }
            while let membership = anyMembership { references += loop.removeLocked(self, from: membership.pointee.mode) }
            loop.unlock()
            for _ in 0..<references { release() }
            return
        }
    }
}
