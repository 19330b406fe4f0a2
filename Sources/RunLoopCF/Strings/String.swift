// SPDX-License-Identifier: MIT
import CRunLoopCF

/// A string: bytes that are ASCII, with a NUL behind them, or, once there was another character in it, UTF-16 units.
struct StringRecord: Record {
    var header: RLCFHeader
    /// Units.
    var length: Int
    /// Units that there is room for.
    var capacity: Int
    var storage: UnsafeMutableRawPointer?
    var isWide: Bool

    static var kind: UInt32 { Kind.string }
    static var mismatch: StaticString { "not a string, or a constant where one that can be changed is needed" }
    static func tearDown(_ record: StringPointer) { giveBack(record.allocator, record.pointee.storage) }
}

typealias StringPointer = UnsafeMutablePointer<StringRecord>

extension StringPointer {
    var bytes: UnsafePointer<UInt8>? { pointee.storage.map { UnsafePointer($0.assumingMemoryBound(to: UInt8.self)) } }
    var units: UnsafePointer<UInt16>? { pointee.storage.map { UnsafePointer($0.assumingMemoryBound(to: UInt16.self)) } }

    private func size(_ capacity: Int, _ isWide: Bool) -> Int { isWide ? capacity * 2 : capacity + 1 }

    /// Makes room for `length` units, which may need to be wide.
    private func reserve(_ length: Int, isWide: Bool, _ function: StaticString) {
        if length < 0 || length > Int.max / 8 { trap(function, "out of memory") }
        let becomesWide = isWide && !pointee.isWide
        if length <= pointee.capacity && !becomesWide && pointee.storage != nil { return }
        let capacity = length <= pointee.capacity ? pointee.capacity : Swift.max(length, pointee.capacity * 2)
        if !becomesWide {
            pointee.storage = needMemory(
                allocator, pointee.storage, kept: size(pointee.length, pointee.isWide), size: size(capacity, pointee.isWide) + 1)
            if !pointee.isWide { pointee.storage!.storeBytes(of: 0, toByteOffset: pointee.length, as: UInt8.self) }
        } else {
            let memory = needMemory(allocator, size(capacity, true) + 1)
            let units = memory.assumingMemoryBound(to: UInt16.self)
            for index in 0..<pointee.length { units[index] = UInt16(bytes![index]) }
            giveBack(allocator, pointee.storage)
            pointee.storage = memory
            pointee.isWide = true
        }
        pointee.capacity = capacity
    }

    /// Puts text in the place of a range, which lies in the string. The text may be the string's own.
    func replace(_ range: CFRange, with text: Text, _ function: StaticString) {
        var text = text
        var own: StringPointer?
        if let storage = pointee.storage {
            let start = text.narrow.map { UnsafeRawPointer($0) } ?? text.wide.map { UnsafeRawPointer($0) }
            if let start, start >= UnsafeRawPointer(storage), start <= UnsafeRawPointer(storage) + size(pointee.capacity, pointee.isWide) {
                own = makeString(systemAllocator, text)
                text = Text(own!)
            }
        }
        let isWide = pointee.isWide || !text.isASCII
        reserve(pointee.length - range.length + text.count, isWide: isWide, function)
        let tail = pointee.length - range.location - range.length
        let width = isWide ? 2 : 1
        let place = pointee.storage! + range.location * width
        memmove(place + text.count * width, place + range.length * width, tail * width)
        if isWide {
            let units = place.assumingMemoryBound(to: UInt16.self)
            for index in 0..<text.count { units[index] = text[index] }
        } else {
            let bytes = place.assumingMemoryBound(to: UInt8.self)
            for index in 0..<text.count { bytes[index] = UInt8(truncatingIfNeeded: text[index]) }
        }
        pointee.length += text.count - range.length
        if !isWide { pointee.storage!.storeBytes(of: 0, toByteOffset: pointee.length, as: UInt8.self) }
        if let own { releaseOurs(own.header) }
    }

    func append(_ text: Text) { replace(CFRange(location: pointee.length, length: 0), with: text, "CFStringAppend") }

    /// Adds a character.
    func append(character: UInt32) {
        withUnsafeTemporaryAllocation(of: UInt16.self, capacity: 2) { units in
            var count = 1
            if character >= 0x10000 {
                units[0] = UInt16(truncatingIfNeeded: 0xd800 + (character - 0x10000) >> 10)
                units[1] = UInt16(truncatingIfNeeded: 0xdc00 + (character - 0x10000) & 0x3ff)
                count = 2
            } else {
                units[0] = UInt16(truncatingIfNeeded: character)
            }
            append(Text(units: units.baseAddress, count: count))
        }
    }

    func freeze() { header.pointee.flags &= ~UInt32(RLCF_MUTABLE) }
}

/// An empty string that can be changed, until it is frozen. nil if the allocator has no memory.
func makeMutableString(_ allocator: AllocatorPointer) -> StringPointer? {
    makeRecord(StringRecord.self, allocator, isMutable: true)
}

/// An immutable string of a text.
func makeString(_ allocator: AllocatorPointer, _ text: Text) -> StringPointer? {
    guard let string = makeMutableString(allocator) else { return nil }
    string.append(text)
    string.freeze()
    return string
}

/// An immutable string of bytes in an encoding. nil if they are not valid in it.
func makeString(
    _ allocator: AllocatorPointer, bytes: UnsafePointer<UInt8>?, _ count: Int, _ encoding: UInt32, isExternal: Bool
) -> StringPointer? {
    guard let string = makeMutableString(allocator) else { return nil }
    if let bytes, count > 0, !decode(bytes, count, encoding, isExternal: isExternal, into: string) {
        releaseOurs(string.header)
        return nil
    }
    string.freeze()
    return string
}

/// A string of text of the C library or of librunloop, in UTF-8 as far as it is that.
func makeString(_ text: UnsafePointer<CChar>) -> OpaquePointer {
    let bytes = UnsafeRawPointer(text).assumingMemoryBound(to: UInt8.self)
    let count = strlen(text)
    let string = makeString(systemAllocator, bytes: bytes, count, Encoding.utf8, isExternal: false)
        ?? makeString(systemAllocator, bytes: bytes, count, Encoding.latin1, isExternal: false)
    return string!.handle
}

@c @implementation
public func rlcf_freeze(_ string: UnsafeMutableRawPointer?) { StringPointer(OpaquePointer(string!)).freeze() }
