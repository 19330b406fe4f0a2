// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Membership of observers, and notifications.
extension UnsafeMutablePointer where Pointee == RunLoop {
    func addObserver(_ observer: ObserverPointer, to name: ModeName) {
        guard observer.isValid, acceptsItems("RLAddObserver", .addObserverToEndedMain) else { return }
        observer.forgetVanishedLoop()
        switch name {
        case .none: return
        case .named(let name):
            if let loop = observer.pointee.loop.load(ordering: .acquiring), loop != self { return }
            let mode = makeMode(name)
            lock()
            addLocked(observer, to: mode)
        case .common:
            lock()
            if observer.enter(self) && !observer.pointee.isCommon {
                observer.retain()
                observer.pointee.isCommon = true
                pointee.commonObservers.insert(observer)
            }
            forEachCommonMode { addLocked(observer, to: $0) }
        }
        unlock()
        // Invalidated between the check and the membership: its Invalidate may have looked before.
        if !observer.isValid { observer.leaveLoop() }
    }

    func removeObserver(_ observer: ObserverPointer, from name: ModeName) {
        observer.forgetVanishedLoop()
        var references = 0
        lock()
        if observer.pointee.loop.load(ordering: .relaxed) == self {
            switch name {
            case .none: break
            case .named(let name):
                if let mode = mode(name), observer.membership(in: mode) != nil { references += removeLocked(observer, from: mode) }
            case .common:
                guard observer.pointee.isCommon else { break }
                forEachCommonMode { mode in
                    if observer.membership(in: mode) != nil { references += removeLocked(observer, from: mode) }
                }
                pointee.commonObservers.remove(observer)
                observer.pointee.isCommon = false
                references += 1
                if observer.pointee.memberships.isEmpty { observer.pointee.loop.store(nil, ordering: .releasing) }
            }
        }
        unlock()
        for _ in 0..<references { observer.release() }
    }

    func containsObserver(_ observer: ObserverPointer, in name: ModeName) -> Bool {
        observer.forgetVanishedLoop()
        lock()
        defer { unlock() }
        guard observer.pointee.loop.load(ordering: .relaxed) == self else { return false }
        switch name {
        case .none: return false
        case .common: return observer.pointee.isCommon
        case .named(let name):
            guard let mode = mode(name) else { return false }
            return observer.membership(in: mode) != nil
        }
    }

    /// Adds a valid observer of this loop, or of none, to one mode; does nothing if it is already there. Each list that it is put on holds a
    /// reference to it.
    func addLocked(_ observer: ObserverPointer, to mode: ModePointer) {
        guard observer.isValid, !pointee.closing.load(ordering: .relaxed), observer.enter(self),
            observer.membership(in: mode) == nil
        else { return }
        mode.pointee.exists.store(true, ordering: .releasing)
        observer.addMembership(in: mode)
        mode.pointee.observerCount += 1
        observer.retain()
        for index in 0..<Activity.count where Activity.at(index).isIn(observer.pointee.activities) {
            mode.pointee.observers.insert(observer, Activity.at(index), in: mode)
        }
        let observed = mode.pointee.observedActivities.load(ordering: .relaxed)
        mode.pointee.observedActivities.store(observed | observer.pointee.activities & Activity.allBits, ordering: .releasing)
    }

    /// Ends one membership. The caller drops as many references as this returns, without the lock.
    func removeLocked(_ observer: ObserverPointer, from mode: ModePointer) -> Int {
        var references = 1
        for index in 0..<Activity.count where Activity.at(index).isIn(observer.pointee.activities) {
            mode.pointee.observers.remove(observer, Activity.at(index), in: mode)
            references += 1
            if mode.pointee.observers[Activity.at(index)]!.isEmpty {
                let observed = mode.pointee.observedActivities.load(ordering: .relaxed)
                mode.pointee.observedActivities.store(observed & ~Activity.at(index).bit, ordering: .releasing)
            }
        }
        observer.removeMembership(in: mode)
        mode.pointee.observerCount -= 1
        if observer.pointee.memberships.isEmpty && !observer.pointee.isCommon {
            observer.pointee.loop.store(nil, ordering: .releasing)
        }
        return references
    }

    /// Calls the observers of an activity (S-OBS-3). Calls those that are present now, whatever is added meanwhile.
    @inline(always)
    func notify(_ activity: Activity, in mode: ModePointer) {
        if isObserved(activity, in: mode) { notifyObservers(activity, in: mode) }
    }

    @inline(always)
    func isObserved(_ activity: Activity, in mode: ModePointer) -> Bool {
        mode.pointee.observedActivities.load(ordering: .acquiring) & activity.bit != 0
    }

    @inline(never)
    private func notifyObservers(_ activity: Activity, in mode: ModePointer) {
        lock()
        guard let list = mode.pointee.observers.tidied(activity, in: mode) else { return unlock() }
        list.pointee.readers += 1
        let count = list.pointee.count
        unlock()
        if activity.rawValue >= Activity.beforeWaiting.rawValue, !list.hasPoster(count) {
            pointee.frame.unsafelyUnwrapped.pointee.wait.begin(activity)
        }
        pointee.counters.observers.count(UInt64(count))
        if isAttended { return attendObservers(activity, list, count) }
        let canUsePlainStores = process.pointee.canBias.load(ordering: .relaxed)
        let place = beginCall(Notification(list: list))
        for index in 0..<count {
            let observer = list.members[index].unsafelyUnwrapped
            pointee.calls[place].pointee.observer = observer
            observer.notify(activity, canUsePlainStores: canUsePlainStores, place, on: self)
        }
        endCall(place)
        endReading(list)
    }

    @inline(never)
    private func attendObservers(_ activity: Activity, _ list: ObserverListPointer, _ count: Int) {
        let canUsePlainStores = process.pointee.canBias.load(ordering: .relaxed)
        let place = beginCall(Notification(list: list))
        for index in 0..<count {
            let observer = list.members[index].unsafelyUnwrapped
            pointee.calls[place].pointee.observer = observer
            timed(observer.header) { observer.notify(activity, canUsePlainStores: canUsePlainStores, place, on: self) }
        }
        endCall(place)
        endReading(list)
    }

    @inline(always)
    private func endReading(_ list: ObserverListPointer) {
        lock()
        list.pointee.readers -= 1
        let isLast = list.pointee.readers == 0 && list.pointee.isRetired
        unlock()
        if isLast { free(list) }
    }

    /// What left the list while it was read. The client's `release` may take long.
    @inline(never)
    private func free(_ list: ObserverListPointer) {
        let waiter = beginLasting()
        list.free()
        waiter?.endCallback()
    }

    /// The thread ended in an observer's callback: no further observers of this notification are called (S-LOOP-19).
    func abandon(_ notification: Notification) {
        notification.observer?.abandonCallout(notification.call)
        endReading(notification.list)
    }
}

/// A notification in progress: which observer is being called.
struct Notification: CallRecord {
    let list: ObserverListPointer
    var observer: ObserverPointer?
    var call = Call.inCallout

    static var kind: CallKind { .notification }

    /// Whether the callback is on the stack, and which field of the observer shows it.
    enum Call: UInt8 {
        /// It is if the observer's `inCallout` says so.
        case inCallout
        case firing
        case none
    }
}
