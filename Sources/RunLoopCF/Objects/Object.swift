// SPDX-License-Identifier: MIT
import CRunLoopCF

/// Stops the program with the name of the call that was misused.
func trap(_ function: StaticString, _ message: StaticString) -> Never {
    rlcf_trap(function.text, message.text)
}

extension StaticString {
    /// The bytes, which end with a NUL.
    var text: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }
}

typealias HeaderPointer = UnsafeMutablePointer<RLCFHeader>

/// The types of this library's objects; those of librunloop are below.
enum Kind {
    static var string: UInt32 { UInt32(RLCF_STRING) }
    static var data: UInt32 { UInt32(RLCF_DATA) }
    static var array: UInt32 { UInt32(RLCF_ARRAY) }
    static var set: UInt32 { UInt32(RLCF_SET) }
    static var dictionary: UInt32 { UInt32(RLCF_DICTIONARY) }
    static var number: UInt32 { UInt32(RLCF_NUMBER) }
    static var boolean: UInt32 { UInt32(RLCF_BOOLEAN) }
    static var null: UInt32 { UInt32(RLCF_NULL) }
    static var allocator: UInt32 { UInt32(RLCF_ALLOCATOR) }
    static var date: UInt32 { UInt32(RLCF_DATE) }
    static var constant: UInt32 { 0xb546_43c5 }

    static func isOurs(_ kind: UInt32) -> Bool { kind >= string && kind <= date }
    static func isRunLoops(_ kind: UInt32) -> Bool { kind > 0 && kind < string }
}

/// A record that begins with an `RLCFHeader`.
protocol Record {
    static var kind: UInt32 { get }
    /// What a call says that got something else: "not an array".
    static var mismatch: StaticString { get }
    /// Gives back what the record holds, but not its own memory. May call client code.
    static func tearDown(_ record: UnsafeMutablePointer<Self>)
}

extension UnsafeMutablePointer where Pointee: Record {
    var header: HeaderPointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: RLCFHeader.self) }
    var handle: OpaquePointer { OpaquePointer(self) }
    var isMutable: Bool { header.pointee.flags & UInt32(RLCF_MUTABLE) != 0 }
    var allocator: AllocatorPointer { header.pointee.allocator }
}

/// A zeroed record with one reference. nil if the allocator has no memory.
func makeRecord<R: Record>(_ type: R.Type, _ allocator: AllocatorPointer, isMutable: Bool = false) -> UnsafeMutablePointer<R>? {
    guard let memory = takeMemory(allocator, MemoryLayout<R>.stride) else { return nil }
    memset(memory, 0, MemoryLayout<R>.stride)
    let record = memory.assumingMemoryBound(to: R.self)
    retain(allocator)
    record.header.pointee = RLCFHeader(type: R.kind, flags: isMutable ? UInt32(RLCF_MUTABLE) : 0, references: 1, allocator: allocator)
    return record
}

/// The record behind a reference; NULL and other types trap (S-CF-3).
@inline(__always)
func record<R: Record>(_ handle: OpaquePointer?, _ type: R.Type, _ function: StaticString) -> UnsafeMutablePointer<R> {
    guard let handle else { trap(function, "NULL is no object") }
    if rlcf_kind(UnsafeRawPointer(handle)) != R.kind { trap(function, R.mismatch) }
    return UnsafeMutablePointer<R>(handle)
}

/// The same of an object that is to be changed.
func mutableRecord<R: Record>(_ handle: OpaquePointer?, _ type: R.Type, _ function: StaticString) -> UnsafeMutablePointer<R> {
    let found = record(handle, type, function)
    if !found.isMutable { trap(function, "the object is immutable") }
    return found
}

private func destroy<R: Record>(_ record: UnsafeMutablePointer<R>) {
    rlcf_end(record.header)
    R.tearDown(record)
    let allocator = record.allocator
    record.header.pointee.type = 0
    giveBack(allocator, record)
    release(allocator)
}

/// Drops a reference to an object of this library.
func releaseOurs(_ header: HeaderPointer) {
    if header.pointee.flags & UInt32(RLCF_IMMORTAL) != 0 || !rlcf_release(header) { return }
    let memory = UnsafeMutableRawPointer(header)
    switch header.pointee.type {
    case Kind.string: destroy(memory.assumingMemoryBound(to: StringRecord.self))
    case Kind.data: destroy(memory.assumingMemoryBound(to: DataRecord.self))
    case Kind.array: destroy(memory.assumingMemoryBound(to: ArrayRecord.self))
    case Kind.set, Kind.dictionary: destroy(memory.assumingMemoryBound(to: TableRecord.self))
    case Kind.number: destroy(memory.assumingMemoryBound(to: RLCFNumber.self))
    case Kind.date: destroy(memory.assumingMemoryBound(to: DateRecord.self))
    case Kind.allocator: destroyAllocator(memory.assumingMemoryBound(to: RLCFAllocator.self))
    default: break
    }
}

/// Whether a range lies in `count` elements; else the call traps.
func check(_ range: CFRange, in count: Int, _ function: StaticString) {
    if range.location < 0 || range.length < 0 || range.location > count || range.length > count - range.location {
        trap(function, "the range is outside the object")
    }
}

func check(index: Int, in count: Int, _ function: StaticString) {
    if index < 0 || index >= count { trap(function, "the index is outside the object") }
}
