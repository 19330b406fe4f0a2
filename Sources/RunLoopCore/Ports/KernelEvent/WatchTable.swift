// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// What the table finds: the first field of a `FileWatch`, by its number, or of a `Vnode`, by its folder's number and its name.
struct WatchNode {
    var key: UInt64
    var following: WatchNodePointer?
    /// What points to it; nil: it is not in the table.
    var place: UnsafeMutablePointer<WatchNodePointer?>?
}

typealias WatchNodePointer = UnsafeMutablePointer<WatchNode>

extension UnsafeMutablePointer where Pointee == WatchNode {
    /// The next one with the same key.
    @inline(never)
    func next(_ key: UInt64) -> WatchNodePointer? {
        var node = pointee.following
        while let current = node, current.pointee.key != key { node = current.pointee.following }
        return node
    }
}

/// A hash table of lists. Adding and removing cost the same for any number of nodes, even of one key.
struct WatchTable {
    private var buckets: UnsafeMutablePointer<WatchNodePointer?>?
    private var capacity: Int
    private var count: Int

    static func key(_ number: Int32) -> UInt64 { UInt64(UInt32(bitPattern: number)) << 32 }

    static func key(_ number: Int32, _ name: UnsafePointer<CChar>) -> UInt64 {
        let hash = digest(UnsafeRawPointer(name).assumingMemoryBound(to: UInt8.self), count: strlen(name))
        return key(number) | UInt64(hash & 0xffff_ffff) | 1
    }

    private func bucket(_ key: UInt64) -> UnsafeMutablePointer<WatchNodePointer?> {
        buckets! + Int((key &* 0x9e37_79b9_7f4a_7c15) >> 32) & (capacity - 1)
    }

    /// The first of the nodes with the key.
    @inline(never)
    func first(_ key: UInt64) -> WatchNodePointer? {
        guard capacity > 0, let first = bucket(key).pointee else { return nil }
        return first.pointee.key == key ? first : first.next(key)
    }

    @inline(never)
    mutating func insert(_ node: WatchNodePointer, _ key: UInt64) {
        if count == capacity { grow() }
        count += 1
        node.pointee.key = key
        link(node)
    }

    private func link(_ node: WatchNodePointer) {
        let place = bucket(node.pointee.key)
        node.pointee.following = place.pointee
        if let following = place.pointee { following.pointee.place = node.followingField }
        node.pointee.place = place
        place.pointee = node
    }

    @inline(never)
    mutating func remove(_ node: WatchNodePointer) {
        guard let place = node.pointee.place else { return }
        place.pointee = node.pointee.following
        node.pointee.following?.pointee.place = place
        node.pointee.place = nil
        count -= 1
    }

    private mutating func grow() {
        let old = buckets
        let oldCapacity = capacity
        capacity = Swift.max(16, capacity * 2)
        buckets = makeArray(WatchNodePointer?.self, count: capacity)
        memset(buckets!, 0, capacity * MemoryLayout<WatchNodePointer?>.stride)
        for index in 0..<oldCapacity {
            var node = old![index]
            while let current = node {
                node = current.pointee.following
                link(current)
            }
        }
        CRunLoopLinux.free(old)
    }

    /// Forgets all nodes.
    mutating func clear() {
        for index in 0..<capacity {
            while let node = buckets![index] { remove(node) }
        }
    }

    mutating func free() {
        CRunLoopLinux.free(buckets)
        buckets = nil
        capacity = 0
        count = 0
    }
}

extension UnsafeMutablePointer where Pointee == WatchNode {
    /// Where the pointer to the next one is.
    fileprivate var followingField: UnsafeMutablePointer<WatchNodePointer?> {
        withUnsafeMutablePointer(to: &pointee.following) { $0 }
    }
}
