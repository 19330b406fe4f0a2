import CLinux
import Synchronization

/// The observers of one activity in one mode, sorted by order, then by addition (S-OBS-2). Each has a reference.
///
/// While a notification goes through a list (`readers` > 0) it does not change: a change makes a new list and retires this
/// one, which its last reader frees. So a notification needs neither a copy nor a reference per observer.
struct ObserverList {
    var count: Int
    var capacity: Int
    /// Notifications that are going through it. Guarded by the loop's lock.
    var readers: Int
    /// No longer the list of its mode. Guarded by the loop's lock.
    var isRetired: Bool
}

typealias ObserverListPointer = UnsafeMutablePointer<ObserverList>

extension UnsafeMutablePointer where Pointee == ObserverList {
    static func make(capacity: Int) -> ObserverListPointer {
        let list = makeRecord(ObserverList.self, tail: capacity * MemoryLayout<ObserverPointer>.stride)
        list.pointee.capacity = capacity
        return list
    }

    var members: UnsafeMutablePointer<ObserverPointer> {
        (UnsafeMutableRawPointer(self) + MemoryLayout<ObserverList>.stride).assumingMemoryBound(to: ObserverPointer.self)
    }

    /// Drops the members' references and the list. No lock is held.
    func free() {
        for index in 0..<pointee.count { members[index].release() }
        CLinux.free(self)
    }
}

/// The lists of a mode, one per activity. The loop's lock guards it. The zero value is empty.
struct ObserverLists {
    private var lists: UnsafeMutablePointer<ObserverListPointer?>?

    subscript(activity: Activity) -> ObserverListPointer? {
        get { lists?[activity.rawValue] ?? nil }
        set {
            if lists == nil { lists = makeArray(ObserverListPointer?.self, count: Activity.count) }
            lists![activity.rawValue] = newValue
        }
    }

    /// Puts an observer, with a new reference, behind those of its order and before those of higher ones.
    mutating func insert(_ observer: ObserverPointer, _ activity: Activity) {
        let old = self[activity]
        let count = old?.pointee.count ?? 0
        var list = old
        if let old, old.pointee.readers == 0, count < old.pointee.capacity {
        } else {
            let new = ObserverListPointer.make(capacity: Swift.max(4, 2 * count))
            if let old { copy(old, to: new) }
            self[activity] = new
            list = new
        }
        let members = list!.members
        var place = count
        while place > 0 && members[place - 1].pointee.order > observer.pointee.order {
            members[place] = members[place - 1]
            place -= 1
        }
        observer.retain()
        members[place] = observer
        list!.pointee.count = count + 1
    }

    /// Takes an observer out. True if the list's reference to it is now the caller's to drop.
    mutating func remove(_ observer: ObserverPointer, _ activity: Activity) -> Bool {
        guard let old = self[activity], let place = (0..<old.pointee.count).first(where: { old.members[$0] == observer }) else {
            return false
        }
        var list = old
        if old.pointee.readers > 0 {
            list = ObserverListPointer.make(capacity: old.pointee.capacity)
            copy(old, to: list)
            self[activity] = list
        }
        for later in place..<(list.pointee.count - 1) { list.members[later] = list.members[later + 1] }
        list.pointee.count -= 1
        return true
    }

    /// Copies the members, each with a new reference, and retires the old list; or moves them if nobody reads it.
    private func copy(_ old: ObserverListPointer, to new: ObserverListPointer) {
        new.pointee.count = old.pointee.count
        memcpy(new.members, old.members, old.pointee.count * MemoryLayout<ObserverPointer>.stride)
        if old.pointee.readers > 0 {
            for index in 0..<old.pointee.count { old.members[index].retain() }
            old.pointee.isRetired = true
        } else {
            CLinux.free(old)
        }
    }

    func free() { CLinux.free(lists) }
}
