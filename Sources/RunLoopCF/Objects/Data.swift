// SPDX-License-Identifier: MIT
import CRunLoopCF

/// Data that change, that were taken over without a copy, or whose memory is not from malloc. All other data are librunloop's.
struct DataRecord: Record {
    var header: RLCFHeader
    var length: Int
    /// Of mutable data, the bytes that there is room for.
    var capacity: Int
    var bytes: UnsafeMutablePointer<UInt8>?
    /// Frees the bytes; retained.
    var deallocator: AllocatorPointer

    static var kind: UInt32 { Kind.data }
    static var mismatch: StaticString { "not data that can be changed" }
    static func tearDown(_ record: DataPointer) {
        giveBack(record.pointee.deallocator, record.pointee.bytes)
        release(record.pointee.deallocator)
    }
}

typealias DataPointer = UnsafeMutablePointer<DataRecord>

/// The bytes of data of either kind.
struct Bytes {
    let start: UnsafePointer<UInt8>?
    let count: Int

    init(_ handle: OpaquePointer?, _ function: StaticString) {
        guard let handle else { trap(function, "NULL is no object") }
        switch rlcf_kind(UnsafeRawPointer(handle)) {
        case UInt32(RLDataGetTypeID()):
            start = RLDataGetBytePtr(handle)?.assumingMemoryBound(to: UInt8.self)
            count = Int(RLDataGetLength(handle))
        case Kind.data:
            start = DataPointer(handle).pointee.bytes.map { UnsafePointer($0) }
            count = DataPointer(handle).pointee.length
        default: trap(function, "not data")
        }
    }

    static func == (one: Bytes, two: Bytes) -> Bool {
        one.count == two.count && (one.count == 0 || memcmp(one.start!, two.start!, one.count) == 0)
    }

    /// The same for equal bytes, of whichever kind they are.
    var hash: UInt {
        var hash: UInt = 0xcbf2_9ce4_8422_2325
        for index in 0..<min(count, 80) { hash = (hash ^ UInt(start![index])) &* 0x100_0000_01b3 }
        return hash ^ UInt(count)
    }
}

/// Immutable data of a copy of the bytes.
private func make(_ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int, _ function: StaticString) -> OpaquePointer? {
    if length < 0 { trap(function, "the length is negative") }
    let allocator = allocator(handle, function)
    if Int(allocator.pointee.kind) == Int(RLCF_FROM_MALLOC) { return RLDataCreate(bytes, length) }
    return makeRecord(allocator, bytes, length, isMutable: false)?.handle
}

private func makeRecord(_ allocator: AllocatorPointer, _ bytes: UnsafePointer<UInt8>?, _ length: Int, isMutable: Bool) -> DataPointer? {
    guard let data = makeRecord(DataRecord.self, allocator, isMutable: isMutable) else { return nil }
    retain(allocator)
    data.pointee.deallocator = allocator
    if length > 0 {
        let memory = needMemory(allocator, length)
        if let bytes { memcpy(memory, bytes, length) } else { memset(memory, 0, length) }
        data.pointee.bytes = memory.assumingMemoryBound(to: UInt8.self)
        data.pointee.capacity = length
        data.pointee.length = length
    }
    return data
}

/// librunloop's data of the same bytes, with a reference for the caller.
func runLoopData(_ handle: OpaquePointer, _ function: StaticString) -> OpaquePointer? {
    let bytes = Bytes(handle, function)
    if rlcf_kind(UnsafeRawPointer(handle)) == UInt32(RLDataGetTypeID()) {
        return RLRetain(UnsafeRawPointer(handle)).map { OpaquePointer($0) }
    }
    return RLDataCreate(bytes.start, bytes.count)
}

@c @implementation
public func RLCFDataGetTypeID() -> UInt { RLDataGetTypeID() }

@c @implementation
public func RLCFDataCreate(_ allocator: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int) -> OpaquePointer? {
    make(allocator, bytes, bytes == nil ? 0 : length, "CFDataCreate")
}

@c @implementation
public func RLCFDataCreateWithBytesNoCopy(
    _ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int, _ deallocator: OpaquePointer?
) -> OpaquePointer? {
    if length < 0 { trap("CFDataCreateWithBytesNoCopy", "the length is negative") }
    let freeing = allocator(deallocator, "CFDataCreateWithBytesNoCopy")
    guard let data = makeRecord(DataRecord.self, allocator(handle, "CFDataCreateWithBytesNoCopy")) else { return nil }
    retain(freeing)
    data.pointee.deallocator = freeing
    data.pointee.bytes = UnsafeMutablePointer(mutating: bytes)
    data.pointee.length = bytes == nil ? 0 : length
    return data.handle
}

@c @implementation
public func RLCFDataCreateCopy(_ allocator: OpaquePointer?, _ data: OpaquePointer?) -> OpaquePointer? {
    let bytes = Bytes(data, "CFDataCreateCopy")
    return make(allocator, bytes.start, bytes.count, "CFDataCreateCopy")
}

@c @implementation
public func RLCFDataCreateMutable(_ handle: OpaquePointer?, _ capacity: Int) -> OpaquePointer? {
    if capacity < 0 { trap("CFDataCreateMutable", "the capacity is negative") }
    return makeRecord(allocator(handle, "CFDataCreateMutable"), nil, 0, isMutable: true)?.handle
}

@c @implementation
public func RLCFDataCreateMutableCopy(_ handle: OpaquePointer?, _ capacity: Int, _ data: OpaquePointer?) -> OpaquePointer? {
    let bytes = Bytes(data, "CFDataCreateMutableCopy")
    return makeRecord(allocator(handle, "CFDataCreateMutableCopy"), bytes.start, bytes.count, isMutable: true)?.handle
}

@c @implementation
public func RLCFDataGetLength(_ data: OpaquePointer?) -> Int { Bytes(data, "CFDataGetLength").count }

@c @implementation
public func RLCFDataGetBytePtr(_ data: OpaquePointer?) -> UnsafePointer<UInt8>? { Bytes(data, "CFDataGetBytePtr").start }

@c @implementation
public func RLCFDataGetMutableBytePtr(_ data: OpaquePointer?) -> UnsafeMutablePointer<UInt8>? {
    mutableRecord(data, DataRecord.self, "CFDataGetMutableBytePtr").pointee.bytes
}

@c @implementation
public func RLCFDataGetBytes(_ data: OpaquePointer?, _ range: CFRange, _ buffer: UnsafeMutablePointer<UInt8>?) {
    let bytes = Bytes(data, "CFDataGetBytes")
    check(range, in: bytes.count, "CFDataGetBytes")
    if range.length > 0, let buffer { memmove(buffer, bytes.start! + range.location, range.length) }
}

extension DataPointer {
    /// Puts bytes, or zeros, in the place of a range.
    fileprivate func replace(_ range: CFRange, with bytes: UnsafePointer<UInt8>?, _ count: Int, _ function: StaticString) {
        if count < 0 { trap(function, "the length is negative") }
        check(range, in: pointee.length, function)
        let (length, overflows) = (pointee.length - range.length).addingReportingOverflow(count)
        if overflows { trap(function, "out of memory") }
        // The new bytes may be these data's own.
        var own: UnsafeMutableRawPointer?
        var bytes = bytes
        if let start = pointee.bytes, let given = bytes, given >= UnsafePointer(start), given < UnsafePointer(start + pointee.length) {
            own = needMemory(allocator, Swift.max(count, 1))
            memcpy(own!, given, count)
            bytes = UnsafePointer(own!.assumingMemoryBound(to: UInt8.self))
        }
        if length > pointee.capacity {
            let room = Swift.max(length, pointee.capacity * 2, 32)
            pointee.bytes = needMemory(allocator, pointee.bytes, kept: pointee.length, size: room).assumingMemoryBound(to: UInt8.self)
            pointee.capacity = room
        }
        if let start = pointee.bytes {
            let place = start + range.location
            memmove(place + count, place + range.length, pointee.length - range.location - range.length)
            if let bytes { memmove(place, bytes, count) } else { memset(place, 0, count) }
        }
        pointee.length = length
        giveBack(allocator, own)
    }
}

@c @implementation
public func RLCFDataSetLength(_ handle: OpaquePointer?, _ length: Int) {
    let data = mutableRecord(handle, DataRecord.self, "CFDataSetLength")
    if length < 0 { trap("CFDataSetLength", "the length is negative") }
    let old = data.pointee.length
    if length <= old {
        data.replace(CFRange(location: length, length: old - length), with: nil, 0, "CFDataSetLength")
    } else {
        data.replace(CFRange(location: old, length: 0), with: nil, length - old, "CFDataSetLength")
    }
}

@c @implementation
public func RLCFDataIncreaseLength(_ handle: OpaquePointer?, _ extra: Int) {
    let data = mutableRecord(handle, DataRecord.self, "CFDataIncreaseLength")
    data.replace(CFRange(location: data.pointee.length, length: 0), with: nil, extra, "CFDataIncreaseLength")
}

@c @implementation
public func RLCFDataAppendBytes(_ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ length: Int) {
    let data = mutableRecord(handle, DataRecord.self, "CFDataAppendBytes")
    if bytes == nil && length != 0 { trap("CFDataAppendBytes", "the bytes are NULL") }
    data.replace(CFRange(location: data.pointee.length, length: 0), with: bytes, length, "CFDataAppendBytes")
}

@c @implementation
public func RLCFDataReplaceBytes(_ handle: OpaquePointer?, _ range: CFRange, _ bytes: UnsafePointer<UInt8>?, _ length: Int) {
    if bytes == nil && length != 0 { trap("CFDataReplaceBytes", "the bytes are NULL") }
    mutableRecord(handle, DataRecord.self, "CFDataReplaceBytes").replace(range, with: bytes, length, "CFDataReplaceBytes")
}

@c @implementation
public func RLCFDataDeleteBytes(_ handle: OpaquePointer?, _ range: CFRange) {
    mutableRecord(handle, DataRecord.self, "CFDataDeleteBytes").replace(range, with: nil, 0, "CFDataDeleteBytes")
}

@c @implementation
public func RLCFDataFind(_ data: OpaquePointer?, _ wanted: OpaquePointer?, _ range: CFRange, _ options: UInt) -> CFRange {
    let (all, part) = (Bytes(data, "CFDataFind"), Bytes(wanted, "CFDataFind"))
    check(range, in: all.count, "CFDataFind")
    let place = place(of: part.count, in: range, backwards: options & 1 != 0, anchored: options & 2 != 0) {
        memcmp(all.start! + $0, part.start!, part.count) == 0
    }
    return CFRange(location: place, length: place < 0 ? 0 : part.count)
}

/// The first place in a range, or the last, where something of a length is; -1 if there is none, and for length 0.
func place(of count: Int, in range: CFRange, backwards: Bool, anchored: Bool, _ isAt: (Int) -> Bool) -> Int {
    if count == 0 || count > range.length { return -1 }
    let (first, last) = (range.location, range.location + range.length - count)
    if anchored {
        let place = backwards ? last : first
        return isAt(place) ? place : -1
    }
    var place = backwards ? last : first
    while place >= first && place <= last {
        if isAt(place) { return place }
        place += backwards ? -1 : 1
    }
    return -1
}
