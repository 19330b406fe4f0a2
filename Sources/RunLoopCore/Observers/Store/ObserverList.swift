// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The observers of one activity in one mode, sorted by order, then by addition (S-OBS-2), once `tidy` has sorted them. The list holds a
/// reference to each.
///
/// Adding puts an observer at the end, removing leaves a hole in its place, whose index its membership stores: neither looks at the
/// other observers. A notification, which calls them all anyway, first closes the holes and sorts. While it goes through a list (`readers` >
/// 0) the list does not change: a change makes a new list and retires this one, which its last reader frees. So a notification needs
/// neither a copy nor a reference per observer.
struct ObserverList {
    /// Places in use, including holes; the last place is not a hole.
    var count: Int
    var capacity: Int
    var holes: Int
    /// It has holes or is not sorted.
    var isUntidy: Bool
    /// No longer the list of its mode. Guarded by the loop's lock.
    var isRetired: Bool
    /// How many notifications are going through it. Guarded by the loop's lock.
    var readers: Int
}

typealias ObserverListPointer = UnsafeMutablePointer<ObserverList>

/// The membership of an observer in a mode. A record from malloc, guarded by the loop's lock.
struct ObserverMembership {
    /// The first word: it is the key of the membership.
    var mode: ModePointer
    /// The observer's place in the mode's list of each activity.
    private var places: (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32) = (0, 0, 0, 0, 0, 0, 0)

    init(mode: ModePointer) { self.mode = mode }
}

typealias ObserverMembershipPointer = UnsafeMutablePointer<ObserverMembership>

extension UnsafeMutablePointer where Pointee == ObserverMembership {
    subscript(activity: Activity) -> Int {
        get { Int(places[activity.rawValue]) }
        nonmutating set { places[activity.rawValue] = UInt32(truncatingIfNeeded: newValue) }
    }

    private var places: UnsafeMutablePointer<UInt32> {
        (UnsafeMutableRawPointer(self) + MemoryLayout<ModePointer>.stride).assumingMemoryBound(to: UInt32.self)
    }
}

extension UnsafeMutablePointer where Pointee == ObserverList {
    static func make(capacity: Int) -> ObserverListPointer {
        let list = makeRecord(ObserverList.self, tail: capacity * MemoryLayout<ObserverPointer>.stride)
        list.pointee.capacity = capacity
        return list
    }

    var firstInvalid: ObserverPointer? {
        for index in 0..<pointee.count {
            if let observer = members[index], !observer.isValid { return observer }
        }
        return nil
    }

    func forEach(_ body: (ObserverPointer) -> Void) {
        for index in 0..<pointee.count { members[index].map(body) }
    }

    /// nil in a hole.
    var members: UnsafeMutablePointer<ObserverPointer?> {
        (UnsafeMutableRawPointer(self) + MemoryLayout<ObserverList>.stride).assumingMemoryBound(to: ObserverPointer?.self)
    }

    var isEmpty: Bool { pointee.count == 0 }

    /// Whether one that posts notifications, whose order is the last but one, is among those of a list that is sorted.
    @inline(always)
    func hasPoster(_ count: Int) -> Bool {
        var index = count - 1
        while index >= 0, let observer = members[index], observer.pointee.order >= .max - 1 {
            if observer.pointee.activities == Activity.ofPoster { return true }
            index -= 1
        }
        return false
    }

    /// Drops the members' references and the list. No lock is held.
    func free() {
        for index in 0..<pointee.count { members[index]?.release() }
        CRunLoopLinux.free(self)
    }
}

/// The lists of a mode, one per activity. The loop's lock guards them. The zero value is empty.
struct ObserverLists {
    private var lists: UnsafeMutablePointer<ObserverListPointer?>?

    subscript(activity: Activity) -> ObserverListPointer? {
        get { lists?[activity.rawValue] ?? nil }
        set {
            if lists == nil { lists = makeArray(ObserverListPointer?.self, count: Activity.count) }
            lists![activity.rawValue] = newValue
        }
    }

    /// Puts an observer, with a new reference, at the end; `tidy` moves it to its place. The memberships in lists that are made
    /// anew are those of the mode `mode`.
    mutating func insert(_ observer: ObserverPointer, _ activity: Activity, in mode: ModePointer) {
        var list = self[activity]
        if list == nil || list!.pointee.readers > 0 || list!.pointee.count == list!.pointee.capacity { list = renew(activity, mode) }
        let place = list!.pointee.count
        if place > 0 && list!.members[place - 1]!.pointee.order > observer.pointee.order { list!.pointee.isUntidy = true }
        observer.retain()
        list!.members[place] = observer
        observer.membership(in: mode)![activity] = place
        list!.pointee.count = place + 1
    }

    /// Removes an observer of the mode. The caller then drops the list's reference to it.
    mutating func remove(_ observer: ObserverPointer, _ activity: Activity, in mode: ModePointer) {
        var list = self[activity]!
        if list.pointee.readers > 0 { list = renew(activity, mode) }
        list.members[observer.membership(in: mode)![activity]] = nil
        list.pointee.holes += 1
        while list.pointee.count > 0 && list.members[list.pointee.count - 1] == nil {
            list.pointee.count -= 1
            list.pointee.holes -= 1
        }
        if list.pointee.holes > 0 { list.pointee.isUntidy = true }
    }

    /// The list for a notification: without holes and sorted.
    @inline(always)
    mutating func tidied(_ activity: Activity, in mode: ModePointer) -> ObserverListPointer? {
        guard let list = self[activity] else { return nil }
        // A list with readers is tidy: it was when they began, and has not changed.
        if list.pointee.isUntidy { tidy(list, activity, mode) }
        return list
    }

    @inline(never)
    private func tidy(_ list: ObserverListPointer, _ activity: Activity, _ mode: ModePointer) {
        close(list, into: list)
        sortStably(UnsafeMutableRawPointer(list.members).assumingMemoryBound(to: UInt.self), list.pointee.count) {
            ObserverPointer(bitPattern: $0)!.pointee.order < ObserverPointer(bitPattern: $1)!.pointee.order
        }
        list.pointee.isUntidy = false
        note(list, activity, mode)
    }

    /// Replaces a list that is full or has readers by one with room for one more.
    @inline(never)
    private mutating func renew(_ activity: Activity, _ mode: ModePointer) -> ObserverListPointer {
        guard let old = self[activity] else {
            let new = ObserverListPointer.make(capacity: 4)
            self[activity] = new
            return new
        }
        let isRead = old.pointee.readers > 0
        let count = old.pointee.count - old.pointee.holes
        if !isRead && old.pointee.holes > count {
            close(old, into: old)
            note(old, activity, mode)
            return old
        }
        let new = ObserverListPointer.make(capacity: Swift.max(4, 2 * count))
        close(old, into: new)
        new.pointee.isUntidy = old.pointee.isUntidy
        note(new, activity, mode)
        if isRead {
            for index in 0..<count { new.members[index]!.retain() }
            old.pointee.isRetired = true
        } else {
            CRunLoopLinux.free(old)
        }
        self[activity] = new
        return new
    }

    /// Moves or copies the members without holes.
    @inline(never)
    private func close(_ old: ObserverListPointer, into new: ObserverListPointer) {
        var place = 0
        for index in 0..<old.pointee.count {
            guard let member = old.members[index] else { continue }
            new.members[place] = member
            place += 1
        }
        new.pointee.count = place
        new.pointee.holes = 0
    }

    /// Stores the observers' places in their memberships.
    @inline(never)
    private func note(_ list: ObserverListPointer, _ activity: Activity, _ mode: ModePointer) {
        for index in 0..<list.pointee.count { list.members[index]!.membership(in: mode)![activity] = index }
    }

    /// Frees the lists, which have no members.
    func free() {
        for index in 0..<Activity.count { CRunLoopLinux.free(self[Activity.at(index)]) }
        CRunLoopLinux.free(lists)
    }
}
