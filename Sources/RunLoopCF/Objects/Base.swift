// SPDX-License-Identifier: MIT
import CRunLoopCF

// References of any type: <CoreFoundation/CFBase.h>.

/// What a reference is, for the calls that take any type: NULL and what is no object trap (S-CF-2).
func objectKind(_ reference: UnsafeRawPointer?, _ function: StaticString) -> UInt32 {
    guard let reference else { trap(function, "NULL is no object") }
    let kind = rlcf_kind(reference)
    if !Kind.isOurs(kind) && !Kind.isRunLoops(kind) && kind != Kind.constant {
        trap(function, "not an object, or one that was released too often")
    }
    return kind
}

private func header(_ reference: UnsafeRawPointer?) -> HeaderPointer {
    UnsafeMutableRawPointer(mutating: reference!).assumingMemoryBound(to: RLCFHeader.self)
}

@c @implementation
public func RLCFGetTypeID(_ reference: UnsafeRawPointer?) -> UInt {
    let kind = objectKind(reference, "CFGetTypeID")
    return kind == Kind.constant ? UInt(Kind.string) : kind == Kind.data ? RLDataGetTypeID() : UInt(kind)
}

@c @implementation
public func RLCFRetain(_ reference: UnsafeRawPointer?) -> UnsafeRawPointer? {
    let kind = objectKind(reference, "CFRetain")
    if Kind.isRunLoops(kind) { return RLRetain(reference) }
    if kind != Kind.constant && header(reference).pointee.flags & UInt32(RLCF_IMMORTAL) == 0 { rlcf_retain(header(reference)) }
    return reference
}

@c @implementation
public func RLCFRelease(_ reference: UnsafeRawPointer?) {
    let kind = objectKind(reference, "CFRelease")
    if Kind.isRunLoops(kind) {
        RLRelease(reference)
    } else if kind != Kind.constant {
        releaseOurs(header(reference))
    }
}

@c @implementation
public func RLCFGetRetainCount(_ reference: UnsafeRawPointer?) -> Int {
    let kind = objectKind(reference, "CFGetRetainCount")
    if Kind.isRunLoops(kind) { return RLGetRetainCount(reference) }
    if kind == Kind.constant || header(reference).pointee.flags & UInt32(RLCF_IMMORTAL) != 0 { return Int.max }
    return rlcf_references(header(reference))
}

@c @implementation
public func RLCFEqual(_ first: UnsafeRawPointer?, _ second: UnsafeRawPointer?) -> UInt8 {
    _ = objectKind(first, "CFEqual")
    _ = objectKind(second, "CFEqual")
    return areEqual(first!, second!) ? 1 : 0
}

func areEqual(_ first: UnsafeRawPointer, _ second: UnsafeRawPointer) -> Bool {
    if first == second { return true }
    let type = RLCFGetTypeID(first)
    if type != RLCFGetTypeID(second) { return false }
    let (one, two) = (OpaquePointer(first), OpaquePointer(second))
    if type == RLDataGetTypeID() { return Bytes(one, "CFEqual") == Bytes(two, "CFEqual") }
    switch UInt32(type) {
    case Kind.string: return Text(one, "CFEqual") == Text(two, "CFEqual")
    case Kind.array: return areEqual(ArrayPointer(one), ArrayPointer(two))
    case Kind.set, Kind.dictionary: return areEqual(TablePointer(one), TablePointer(two))
    case Kind.number: return compare(NumberPointer(one), NumberPointer(two)) == 0
    case Kind.date: return DatePointer(one).pointee.time == DatePointer(two).pointee.time
    case Kind.allocator, Kind.boolean, Kind.null: return false
    default: return RLEqual(first, second)
    }
}

@c @implementation
public func RLCFHash(_ reference: UnsafeRawPointer?) -> UInt {
    let kind = objectKind(reference, "CFHash")
    let handle = OpaquePointer(reference!)
    switch kind {
    case Kind.string, Kind.constant: return Text(handle, "CFHash").hash
    case Kind.data, UInt32(RLDataGetTypeID()): return Bytes(handle, "CFHash").hash
    case Kind.array: return UInt(ArrayPointer(handle).pointee.count)
    case Kind.set, Kind.dictionary: return UInt(TablePointer(handle).pointee.count)
    case Kind.number: return hash(NumberPointer(handle))
    case Kind.date: return hash(of: DatePointer(handle).pointee.time)
    case Kind.allocator, Kind.boolean, Kind.null: return UInt(bitPattern: reference)
    default: return RLHash(reference)
    }
}

@c @implementation
public func RLCFGetAllocator(_ reference: UnsafeRawPointer?) -> OpaquePointer? {
    let kind = objectKind(reference, "CFGetAllocator")
    return OpaquePointer(Kind.isOurs(kind) ? header(reference).pointee.allocator : systemAllocator)
}

@c @implementation
public func RLCFNullGetTypeID() -> UInt { UInt(Kind.null) }

@c @implementation
public func RLCFBooleanGetTypeID() -> UInt { UInt(Kind.boolean) }

@c @implementation
public func RLCFBooleanGetValue(_ boolean: OpaquePointer?) -> UInt8 {
    guard let boolean, rlcf_kind(UnsafeRawPointer(boolean)) == Kind.boolean else { trap("CFBooleanGetValue", "not a boolean") }
    return boolean == rlcf_true_address() ? 1 : 0
}
