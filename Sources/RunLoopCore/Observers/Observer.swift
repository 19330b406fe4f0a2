// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Calling an observer, and its end.
extension UnsafeMutablePointer where Pointee == Observer {
    /// Calls the observer, unless it is invalid or on the stack already (S-OBS-6, S-OBS-8). Loop's thread.
    ///
    /// An Invalidate on another thread has to know whether the callback is running. As long as the observer has been in only one
    /// loop, that loop's thread shows it with a plain store and then reads the state again; the other thread changes the state
    /// and makes this thread's processor see the change with membarrier(2), as in `Lock`. After that `firing` shows it, by
    /// read-modify-write.
    @inline(always)
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

    @inline(always)
    private func call(_ activity: Activity) {
        if let callout = pointee.callout {
            callOutObserver(callout, handle, RLActivity(rawValue: activity.bit), pointee.context.info)
        }
        if !pointee.repeats { invalidate() }
    }

    /// The end of a callback that ended its thread. An observer that is being notified is referenced.
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

    /// Releases the context if that is pending and no thread is in the callback. Once: `ContextUses` has the release.
    private func releasePendingInfo() {
        if pointee.state.load(ordering: .acquiring) & ObserverState.releasePending == 0 { return }
        // A full fence: of two threads that leave the observer at once, at least one sees that the other has left.
        pointee.state.bitwiseOr(0, ordering: .sequentiallyConsistent)
        if !isInCallout { ContextUses.settle(.releaseAfterCallback, header) }
    }

    /// Makes the observer belong to a loop whose lock the caller holds. False if it belongs to another one.
    func enter(_ loop: RunLoopPointer) -> Bool {
        if let own = pointee.loop.load(ordering: .relaxed) { return own == loop }
        // First of all: the thread of the loop that it belongs to takes one that is not shared for its own alone (`invalidate`).
        if pointee.state.bitwiseOr(ObserverState.used, ordering: .acquiringAndReleasing).oldValue & ObserverState.used != 0 {
            pointee.state.bitwiseOr(ObserverState.shared, ordering: .sequentiallyConsistent)
            fenceOtherThreads()
        }
        let (exchanged, original) = pointee.loop.compareExchange(
            expected: nil, desired: loop, ordering: .sequentiallyConsistent)
        return exchanged || original == loop
    }

    /// `RLObserverInvalidate` (S-OBS-16). If it is called on another thread while the callback runs, the release of the
    /// context is left to the loop's thread (S-THR-8).
    func invalidate() {
        forgetVanishedLoop()
        let isInCallback = isFiringOnThisThread
        let isOnLoopThread = pointee.loop.load(ordering: .acquiring)?.isCurrent ?? false
        var state = pointee.state.load(ordering: .relaxed)
        var isLeft: Bool
        // In one step for the child of a fork.
        process.pointee.registryLock.lockWord()
        repeat {
            if state & ObserverState.invalid != 0 { return process.pointee.registryLock.unlockWord() }
            // Another thread may be in the callback, unless this is the thread of the only loop that it has ever been in.
            let isForThisThreadOnly = isInCallback || isOnLoopThread && state & ObserverState.shared == 0
            isLeft = state & ObserverState.used != 0 && !isForThisThreadOnly
        } while !pointee.state.replace(&state, by: state | ObserverState.invalid | (isLeft ? ObserverState.releasePending : 0))
        if isLeft { ContextUses.insertLocked(.releaseAfterCallback, header, pointee.context) }
        process.pointee.registryLock.unlockWord()
        retain()
        leaveLoop()
        if isLeft {
            // From here on a thread that is not in the callback sees that the observer is invalid and does not begin.
            fenceOtherThreads()
            releasePendingInfo()
        } else {
            pointee.context.releaseInfo(of: header)
        }
        release()
    }

    /// Whether the caller is inside this observer's callback, which may have taken it out of its loop.
    var isFiringOnThisThread: Bool {
        RunLoop.ofThread?.pointee.calls.contains(Notification.self) { $0.pointee.observer == self } ?? false
    }

    /// Removes the observer from its loop completely.
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

/// In the child of `fork`: a vanished loop is forgotten.
extension UnsafeMutablePointer where Pointee == Observer {
    @inline(always)
    func forgetVanishedLoop() {
        if RunLoopPointer.anyVanished { forgetLoopIfVanished() }
    }

    @inline(never)
    private func forgetLoopIfVanished() {
        let generation = process.pointee.forkGeneration.load(ordering: .relaxed)
        if pointee.forkGeneration.load(ordering: .acquiring) != generation {
            process.pointee.registryLock.lockWord()
            if pointee.forkGeneration.load(ordering: .relaxed) != generation { forgetCallback() }
            process.pointee.registryLock.unlockWord()
        }
        guard let loop = pointee.loop.load(ordering: .relaxed), loop.isVanished else { return }
        loop.lock()
        defer { loop.unlock() }
        guard pointee.loop.load(ordering: .relaxed) == loop else { return }
        // Its memory may be inconsistent.
        pointee.memberships = WordSet()
        pointee.isCommon = false
        pointee.loop.store(nil, ordering: .relaxed)
    }

    /// Clears the marks of a callback whose thread does not exist here.
    fileprivate func forgetCallback() {
        let isCalled = isFiringOnThisThread
        if !isCalled {
            pointee.state.bitwiseAnd(~ObserverState.firing, ordering: .relaxed)
            pointee.inCallout.store(0, ordering: .relaxed)
        }
        pointee.forkGeneration.store(process.pointee.forkGeneration.load(ordering: .relaxed), ordering: .releasing)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: this loop's observers, and those that the thread calls, are called by no other thread.
    func adoptObservers() {
        let generation = process.pointee.forkGeneration.load(ordering: .relaxed)
        pointee.calls.contains(Notification.self) { notification in
            notification.pointee.observer?.pointee.forkGeneration.store(generation, ordering: .relaxed)
            return false
        }
        forEachModeRecord { mode in
            for index in 0..<Activity.count { mode.pointee.observers[Activity.at(index)]?.forEach { $0.forgetCallback() } }
        }
    }
}

extension Observer: Object {
    static var type: ObjectType { .observer }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLObserver"
        kind.pointee.destroy = { Observer.destroy($0.cast(to: Observer.self)) }
        kind.pointee.describe = .init { $0.cast(to: Observer.self).describe(&$1) }
        kind.pointee.forkChild = { RunLoop.ofThread?.adoptObservers() }
        kind.pointee.usesContextInChild = { $0.cast(to: Observer.self).isFiringOnThisThread }
    }

    /// The last reference was dropped: the observer is in no loop. This makes it invalid (S-OBS-15).
    static func destroy(_ observer: ObserverPointer) {
        let old = observer.pointee.state.bitwiseOr(ObserverState.invalid, ordering: .acquiringAndReleasing).oldValue
        if old & ObserverState.invalid == 0 { observer.pointee.context.releaseInfo() }
        observer.header.markFreed()
        CRunLoopLinux.free(observer)
    }
}

extension UnsafeMutablePointer where Pointee == Observer {
    fileprivate func describe(_ text: inout TextBuffer) {
        let context = pointee.context
        text.beginUse(of: header, context.copyDescription)
        text.append("activities = 0x", pointee.activities, radix: 16)
        text.append(", repeats = ", pointee.repeats)
        text.append(", order = ", pointee.order)
        let isValid = isValid
        text.append(", valid = ", isValid)
        text.appendCallback(pointee.callout)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
