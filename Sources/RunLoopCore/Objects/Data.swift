// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Immutable bytes with a reference count. The bytes follow the record in memory, or are a mapped file.
struct Data: ~Copyable {
    let header: ObjectHeader
    /// Fixed once other code has the object.
    var length: Int
    /// Pages of a file, or of their own, unmapped with the object; nil: the bytes follow the record.
    fileprivate(set) var mapping: UnsafeMutableRawPointer?
}

typealias DataPointer = UnsafeMutablePointer<Data>

extension Data: Object {
    static var type: ObjectType { .data }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLData"
        kind.pointee.destroy = { Data.destroy($0.cast(to: Data.self)) }
        kind.pointee.describe = .init { $0.cast(to: Data.self).describe(&$1) }
        kind.pointee.isEqual = { $0.cast(to: Data.self).hasSameBytes(as: $1.cast(to: Data.self)) }
        kind.pointee.hash = { $0.cast(to: Data.self).hashOfBytes() }
    }

    @inline(never)
    static func destroy(_ data: DataPointer) {
        data.header.markFreed()
        if let mapping = data.pointee.mapping { munmap(mapping, data.pointee.length) }
        CRunLoopLinux.free(data)
    }
}

extension UnsafeMutablePointer where Pointee == Data {
    /// A copy of the bytes. NULL bytes give an empty copy, whatever the length.
    static func make(_ bytes: UnsafeRawPointer?, _ length: Int) -> DataPointer? {
        let length = bytes == nil ? 0 : length
        let (size, overflows) = MemoryLayout<Data>.stride.addingReportingOverflow(length)
        guard length >= 0, !overflows, let memory = malloc(size) else { return nil }
        let data = memory.assumingMemoryBound(to: Data.self)
        data.initialize(to: Data(header: ObjectHeader(type: Atomic(0), references: Atomic(0)), length: length, mapping: nil))
        data.initializeHeader()
        if let bytes { memcpy(data.bytes, bytes, length) }
        return data
    }

    /// The first `length` bytes, at least one, of a file that can no longer be changed. nil if there is no room for them.
    static func map(_ file: Int32, _ length: Int) -> DataPointer? {
        rl_map_file(file, length).map { make(mapping: $0, length) }
    }

    private static func make(mapping pages: UnsafeMutableRawPointer, _ length: Int) -> DataPointer {
        let data = makeRecord(Data.self)
        data.initialize(to: Data(header: ObjectHeader(type: Atomic(0), references: Atomic(0)), length: length, mapping: pages))
        data.initializeHeader()
        return data
    }

    /// Room for bytes that arrive later; the memory is not initialised.
    static func makeRoom(_ length: Int) -> DataPointer? {
        guard let memory = malloc(MemoryLayout<Data>.stride + length) else { return nil }
        let data = memory.assumingMemoryBound(to: Data.self)
        data.initialize(to: Data(header: ObjectHeader(type: Atomic(0), references: Atomic(0)), length: length, mapping: nil))
        data.initializeHeader()
        return data
    }

    // MARK: Bytes that arrive piece by piece

    /// Data for `length` bytes of which the first `count` arrive now, with room for no more than four times these.
    static func growing(_ length: Int, for count: Int) -> (data: DataPointer, room: Int)? {
        let room = Swift.min(length, count * 4)
        guard room >= largePage else { return makeRoom(room).map { ($0, room) } }
        let whole = wholePages(room, of: length)
        return rl_grow_mapping(nil, 0, whole).map { (make(mapping: $0, whole), whole) }
    }

    private static func wholePages(_ room: Int, of length: Int) -> Int { Swift.min(length, (room + largePage - 1) & -largePage) }

    /// The same data with room for the first `count` bytes. nil if there is none; the data are unchanged then.
    func grown(_ length: Int, for count: Int) -> (data: DataPointer, room: Int)? {
        var room = Swift.min(length, count * 4)
        if let mapping = pointee.mapping {
            room = DataPointer.wholePages(room, of: length)
            // The addresses grow with what has arrived, for they may be limited too (RLIMIT_AS). Pages that move are not copied.
            guard let moved = rl_grow_mapping(mapping, pointee.length, room) else { return nil }
            pointee.mapping = moved
            pointee.length = room
            return (self, room)
        }
        guard let memory = realloc(UnsafeMutableRawPointer(self), MemoryLayout<Data>.stride + room) else { return nil }
        let data = memory.assumingMemoryBound(to: Data.self)
        data.pointee.length = room
        return (data, room)
    }

    /// The same data, which no other code has seen yet, with fewer bytes.
    func shrunk(to length: Int) -> DataPointer {
        pointee.length = length
        guard let memory = realloc(UnsafeMutableRawPointer(self), MemoryLayout<Data>.stride + length) else { return self }
        return memory.assumingMemoryBound(to: Data.self)
    }

    var bytes: UnsafeMutableRawPointer { pointee.mapping ?? UnsafeMutableRawPointer(self) + MemoryLayout<Data>.stride }

    func hasSameBytes(as other: DataPointer) -> Bool {
        pointee.length == other.pointee.length && memcmp(bytes, other.bytes, pointee.length) == 0
    }

    func hashOfBytes() -> UInt { digest(bytes.assumingMemoryBound(to: UInt8.self), count: pointee.length) }
}

private var largePage: Int { 2 << 20 }

extension UnsafeMutablePointer where Pointee == Data {
    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("length = ", pointee.length)
    }
}
