// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Records by what cancels them: by their target, and by target, function and info. A hash table of lists, the newest first, whose
/// links are in the records. Guarded as the records are. The zero value is empty.
struct CancelIndex {
    private var lists: UnsafeMutablePointer<CancelLinkPointer?>?
    private var capacity = 0
    private var count = 0

    /// The place of a list in `lists`.
    private func place(_ hash: UInt) -> Int { tablePlace(hash, below: capacity) }

    @inline(never)
    static func hash(_ key: CancelKey) -> UInt {
        let factor: UInt = 0x9e37_79b9_7f4a_7c15
        var hash = UInt(bitPattern: key.target) &* factor
        if let perform = key.perform {
            hash = (hash ^ unsafeBitCast(perform, to: UInt.self) ^ hash >> 29) &* factor
            hash = (hash ^ UInt(bitPattern: key.info) ^ hash >> 29) &* factor
        }
        return hash
    }

    /// Inserts a record, by the links in it.
    @inline(never)
    mutating func insert(_ links: CancelLinksPointer, _ key: CancelKey, record: UnsafeMutableRawPointer) {
        if count >= capacity { grow() }
        var target = key
        target.perform = nil
        insert(links.byTarget, CancelIndex.hash(target), record)
        insert(links.byAll, CancelIndex.hash(key), record)
    }

    private mutating func insert(_ link: CancelLinkPointer, _ hash: UInt, _ record: UnsafeMutableRawPointer) {
        link.pointee.hash = hash
        link.pointee.record = record
        put(link)
        count += 1
    }

    @inline(never)
    private func put(_ link: CancelLinkPointer) {
        let place = place(link.pointee.hash)
        let next = lists![place]
        link.pointee.next = next
        link.pointee.previous = nil
        next?.pointee.previous = link
        lists![place] = link
    }

    private mutating func grow() {
        let old = lists
        let oldCapacity = capacity
        capacity = max(16, 2 * capacity)
        lists = makeArray(CancelLinkPointer?.self, count: capacity)
        for index in 0..<oldCapacity {
            // Begins with the oldest, so that the newest is the first again.
            var link = old![index]
            while let next = link?.pointee.next { link = next }
            while let current = link {
                link = current.pointee.previous
                put(current)
            }
        }
        CRunLoopLinux.free(old)
    }

    /// Takes a record out; does nothing if it is not in the index.
    @inline(never)
    mutating func remove(_ links: CancelLinksPointer) {
        remove(links.byTarget)
        remove(links.byAll)
        if count == 0 { free() }
    }

    @inline(never)
    private mutating func remove(_ link: CancelLinkPointer) {
        // In the child of `fork` the index of a vanished loop is empty, whatever its records say.
        guard link.pointee.record != nil, let lists else { return }
        link.pointee.record = nil
        let next = link.pointee.next
        if let previous = link.pointee.previous {
            previous.pointee.next = next
        } else {
            lists[place(link.pointee.hash)] = next
        }
        next?.pointee.previous = link.pointee.previous
        count -= 1
    }

    /// Calls the body with each record that may have the key, the newest first; without a function the target alone is the key. The
    /// body may take the record out, but not free it.
    func forEach(_ key: CancelKey, _ body: (UnsafeMutableRawPointer) -> Void) {
        guard let lists else { return }
        let hash = CancelIndex.hash(key)
        var link = lists[place(hash)]
        while let current = link {
            link = current.pointee.next
            if current.pointee.hash == hash, let record = current.pointee.record { body(record) }
        }
    }

    /// Takes all records out.
    mutating func removeAll() {
        for place in 0..<capacity {
            var link = lists![place]
            while let current = link {
                link = current.pointee.next
                current.pointee.record = nil
            }
        }
        free()
    }

    mutating func free() {
        CRunLoopLinux.free(lists)
        self = CancelIndex()
    }
}

/// What a record is cancelled by.
struct CancelKey {
    var target: UnsafeRawPointer?
    var perform: PerformFunction?
    var info: UnsafeMutableRawPointer?

    func isEqual(target other: UnsafeRawPointer?, _ post: Post) -> Bool {
        guard target == other else { return false }
        guard let perform else { return true }
        return unsafeBitCast(perform, to: UInt.self) == unsafeBitCast(post.perform, to: UInt.self) && info == post.info
    }
}

struct CancelLink {
    var hash: UInt
    /// nil: in no index.
    var record: UnsafeMutableRawPointer?
    var next: CancelLinkPointer?
    var previous: CancelLinkPointer?
}

typealias CancelLinkPointer = UnsafeMutablePointer<CancelLink>

/// The links of a record.
struct CancelLinks {
    private var byTarget = CancelLink(hash: 0)
    private var byAll = CancelLink(hash: 0)
}

typealias CancelLinksPointer = UnsafeMutablePointer<CancelLinks>

extension UnsafeMutablePointer where Pointee == CancelLinks {
    fileprivate var byTarget: CancelLinkPointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: CancelLink.self) }
    fileprivate var byAll: CancelLinkPointer { byTarget + 1 }
    var isListed: Bool { byTarget.pointee.record != nil }
}
