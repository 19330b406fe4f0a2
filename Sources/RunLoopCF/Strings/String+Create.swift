// SPDX-License-Identifier: MIT
import CRunLoopCF

// Making strings: <CoreFoundation/CFString.h>.

/// Whether a mark at the beginning of text in an encoding is never text.
func hasMark(_ encoding: UInt32) -> Bool { encoding == Encoding.utf8 }

@c @implementation
public func RLCFStringGetTypeID() -> UInt { UInt(Kind.string) }

// Calls that share their work: what is wrong is said in the name of the one that the program made (S-CF-3).

private func create(
    _ handle: OpaquePointer?, _ text: UnsafePointer<CChar>?, _ encoding: UInt32, _ function: StaticString
) -> OpaquePointer? {
    guard let text else { trap(function, "the text is NULL") }
    let bytes = UnsafeRawPointer(text).assumingMemoryBound(to: UInt8.self)
    return makeString(allocator(handle, function), bytes: bytes, strlen(text), encoding, isExternal: hasMark(encoding))?.handle
}

private func create(
    _ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ count: Int, _ encoding: UInt32, _ isExternal: UInt8,
    _ function: StaticString
) -> OpaquePointer? {
    if count < 0 || (bytes == nil && count > 0) { trap(function, "the bytes are NULL or their number is negative") }
    return makeString(
        allocator(handle, function), bytes: bytes, count, encoding, isExternal: isExternal != 0 || hasMark(encoding))?.handle
}

private func create(
    _ handle: OpaquePointer?, _ units: UnsafePointer<UInt16>?, _ count: Int, _ function: StaticString
) -> OpaquePointer? {
    if count < 0 || (units == nil && count > 0) { trap(function, "the characters are NULL or their number is negative") }
    return makeString(allocator(handle, function), Text(units: units, count: count))?.handle
}

@c @implementation
public func RLCFStringCreateWithCString(_ handle: OpaquePointer?, _ text: UnsafePointer<CChar>?, _ encoding: UInt32) -> OpaquePointer? {
    create(handle, text, encoding, "CFStringCreateWithCString")
}

@c @implementation
public func RLCFStringCreateWithCStringNoCopy(
    _ handle: OpaquePointer?, _ text: UnsafePointer<CChar>?, _ encoding: UInt32, _ deallocator: OpaquePointer?
) -> OpaquePointer? {
    // A copy, which lets the text go at once: the contract allows it, and no string has foreign memory to care for.
    let freeing = allocator(deallocator, "CFStringCreateWithCStringNoCopy")
    let string = create(handle, text, encoding, "CFStringCreateWithCStringNoCopy")
    if string != nil { giveBack(freeing, UnsafeMutableRawPointer(mutating: text)) }
    return string
}

@c @implementation
public func RLCFStringCreateWithBytes(
    _ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ count: Int, _ encoding: UInt32, _ isExternal: UInt8
) -> OpaquePointer? {
    create(handle, bytes, count, encoding, isExternal, "CFStringCreateWithBytes")
}

@c @implementation
public func RLCFStringCreateWithBytesNoCopy(
    _ handle: OpaquePointer?, _ bytes: UnsafePointer<UInt8>?, _ count: Int, _ encoding: UInt32, _ isExternal: UInt8,
    _ deallocator: OpaquePointer?
) -> OpaquePointer? {
    let freeing = allocator(deallocator, "CFStringCreateWithBytesNoCopy")
    let string = create(handle, bytes, count, encoding, isExternal, "CFStringCreateWithBytesNoCopy")
    if string != nil { giveBack(freeing, UnsafeMutableRawPointer(mutating: bytes)) }
    return string
}

@c @implementation
public func RLCFStringCreateWithCharacters(_ handle: OpaquePointer?, _ units: UnsafePointer<UInt16>?, _ count: Int) -> OpaquePointer? {
    create(handle, units, count, "CFStringCreateWithCharacters")
}

@c @implementation
public func RLCFStringCreateWithCharactersNoCopy(
    _ handle: OpaquePointer?, _ units: UnsafePointer<UInt16>?, _ count: Int, _ deallocator: OpaquePointer?
) -> OpaquePointer? {
    let freeing = allocator(deallocator, "CFStringCreateWithCharactersNoCopy")
    let string = create(handle, units, count, "CFStringCreateWithCharactersNoCopy")
    if string != nil { giveBack(freeing, UnsafeMutableRawPointer(mutating: units)) }
    return string
}

@c @implementation
public func RLCFStringCreateWithSubstring(_ handle: OpaquePointer?, _ string: OpaquePointer?, _ range: CFRange) -> OpaquePointer? {
    let text = Text(string, "CFStringCreateWithSubstring")
    check(range, in: text.count, "CFStringCreateWithSubstring")
    return makeString(allocator(handle, "CFStringCreateWithSubstring"), text.part(range))?.handle
}

@c @implementation
public func RLCFStringCreateCopy(_ handle: OpaquePointer?, _ string: OpaquePointer?) -> OpaquePointer? {
    let text = Text(string, "CFStringCreateCopy")
    let allocator = allocator(handle, "CFStringCreateCopy")
    if rlcf_kind(UnsafeRawPointer(string!)) == Kind.constant { return string }
    let record = StringPointer(string!)
    if !record.isMutable && record.allocator == allocator {
        rlcf_retain(record.header)
        return string
    }
    return makeString(allocator, text)?.handle
}

@c @implementation
public func RLCFStringCreateFromExternalRepresentation(
    _ handle: OpaquePointer?, _ data: OpaquePointer?, _ encoding: UInt32
) -> OpaquePointer? {
    let bytes = Bytes(data, "CFStringCreateFromExternalRepresentation")
    return makeString(
        allocator(handle, "CFStringCreateFromExternalRepresentation"), bytes: bytes.start, bytes.count, encoding, isExternal: true)?.handle
}

@c @implementation
public func RLCFStringCreateMutable(_ handle: OpaquePointer?, _ maxLength: Int) -> OpaquePointer? {
    if maxLength < 0 { trap("CFStringCreateMutable", "the length is negative") }
    return makeMutableString(allocator(handle, "CFStringCreateMutable"))?.handle
}

@c @implementation
public func RLCFStringCreateMutableCopy(_ handle: OpaquePointer?, _ maxLength: Int, _ string: OpaquePointer?) -> OpaquePointer? {
    let text = Text(string, "CFStringCreateMutableCopy")
    let copy = makeMutableString(allocator(handle, "CFStringCreateMutableCopy"))
    copy?.append(text)
    return copy?.handle
}

@c @implementation
public func RLCFStringCreateByCombiningStrings(
    _ handle: OpaquePointer?, _ array: OpaquePointer?, _ separator: OpaquePointer?
) -> OpaquePointer? {
    let strings = record(array, ArrayRecord.self, "CFStringCreateByCombiningStrings")
    let between = Text(separator, "CFStringCreateByCombiningStrings")
    guard let joined = makeMutableString(allocator(handle, "CFStringCreateByCombiningStrings")) else { return nil }
    for index in 0..<strings.pointee.count {
        if index > 0 { joined.append(between) }
        joined.append(Text(strings.pointee.values![index].map { OpaquePointer($0) }, "CFStringCreateByCombiningStrings"))
    }
    joined.freeze()
    return joined.handle
}

@c @implementation
public func RLCFStringCreateArrayBySeparatingStrings(
    _ handle: OpaquePointer?, _ string: OpaquePointer?, _ separator: OpaquePointer?
) -> OpaquePointer? {
    let function: StaticString = "CFStringCreateArrayBySeparatingStrings"
    let (text, between) = (Text(string, function), Text(separator, function))
    let allocator = allocator(handle, function)
    guard let array = makeArray(allocator, .objects, isMutable: true) else { return nil }
    func add(_ range: CFRange) {
        guard let part = makeString(allocator, text.part(range)) else { return }
        array.insert(UnsafeRawPointer(part), at: array.pointee.count)
        releaseOurs(part.header)
    }
    var begin = 0
    while true {
        let rest = CFRange(location: begin, length: text.count - begin)
        let found = place(of: between.count, in: rest, backwards: false, anchored: false) { text.hasUnits(of: between, at: $0) }
        if found < 0 {
            add(rest)
            break
        }
        add(CFRange(location: begin, length: found - begin))
        begin = found + between.count
    }
    array.freeze()
    return array.handle
}

@c @implementation
public func RLCFStringCreateWithFileSystemRepresentation(_ handle: OpaquePointer?, _ path: UnsafePointer<CChar>?) -> OpaquePointer? {
    create(handle, path, Encoding.utf8, "CFStringCreateWithFileSystemRepresentation")
}
