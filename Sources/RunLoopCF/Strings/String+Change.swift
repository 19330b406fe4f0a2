// SPDX-License-Identifier: MIT
import CRunLoopCF

// Changing strings: <CoreFoundation/CFString.h>.

private func mutable(_ string: OpaquePointer?, _ function: StaticString) -> StringPointer {
    mutableRecord(string, StringRecord.self, function)
}

@c @implementation
public func RLCFStringAppend(_ string: OpaquePointer?, _ other: OpaquePointer?) {
    mutable(string, "CFStringAppend").append(Text(other, "CFStringAppend"))
}

@c @implementation
public func RLCFStringAppendCharacters(_ string: OpaquePointer?, _ units: UnsafePointer<UInt16>?, _ count: Int) {
    if count < 0 || (units == nil && count > 0) {
        trap("CFStringAppendCharacters", "the characters are NULL or their number is negative")
    }
    mutable(string, "CFStringAppendCharacters").append(Text(units: units, count: count))
}

@c @implementation
public func RLCFStringAppendCString(_ string: OpaquePointer?, _ text: UnsafePointer<CChar>?, _ encoding: UInt32) {
    let string = mutable(string, "CFStringAppendCString")
    guard let text else { trap("CFStringAppendCString", "the text is NULL") }
    let bytes = UnsafeRawPointer(text).assumingMemoryBound(to: UInt8.self)
    guard let part = makeString(systemAllocator, bytes: bytes, strlen(text), encoding, isExternal: hasMark(encoding)) else { return }
    string.append(Text(part))
    releaseOurs(part.header)
}

@c @implementation
public func RLCFStringInsert(_ string: OpaquePointer?, _ index: Int, _ other: OpaquePointer?) {
    let string = mutable(string, "CFStringInsert")
    check(CFRange(location: index, length: 0), in: string.pointee.length, "CFStringInsert")
    string.replace(CFRange(location: index, length: 0), with: Text(other, "CFStringInsert"), "CFStringInsert")
}

@c @implementation
public func RLCFStringDelete(_ string: OpaquePointer?, _ range: CFRange) {
    let string = mutable(string, "CFStringDelete")
    check(range, in: string.pointee.length, "CFStringDelete")
    string.replace(range, with: Text(ascii: ""), "CFStringDelete")
}

@c @implementation
public func RLCFStringReplace(_ string: OpaquePointer?, _ range: CFRange, _ other: OpaquePointer?) {
    let string = mutable(string, "CFStringReplace")
    check(range, in: string.pointee.length, "CFStringReplace")
    string.replace(range, with: Text(other, "CFStringReplace"), "CFStringReplace")
}

@c @implementation
public func RLCFStringReplaceAll(_ string: OpaquePointer?, _ other: OpaquePointer?) {
    let string = mutable(string, "CFStringReplaceAll")
    string.replace(CFRange(location: 0, length: string.pointee.length), with: Text(other, "CFStringReplaceAll"), "CFStringReplaceAll")
}

@c @implementation
public func RLCFStringFindAndReplace(
    _ string: OpaquePointer?, _ wanted: OpaquePointer?, _ replacement: OpaquePointer?, _ range: CFRange, _ options: UInt
) -> Int {
    let function: StaticString = "CFStringFindAndReplace"
    let string = mutable(string, function)
    check(range, in: string.pointee.length, function)
    // Copies, because either may be the string itself.
    guard let old = makeString(systemAllocator, Text(wanted, function)),
        let new = makeString(systemAllocator, Text(replacement, function)),
        let made = makeMutableString(systemAllocator)
    else { return 0 }
    let isBackwards = options & 4 != 0
    // The new text is made beside the string, so that nothing is moved for each place; backwards the places are known from the end on.
    var places: UnsafeMutablePointer<Int>?
    var (rest, count, room) = (range, 0, 0)
    while true {
        let place = find(Text(old), in: Text(string), rest, options)
        if place < 0 { break }
        if count == room {
            let stride = MemoryLayout<Int>.stride
            room = max(16, room * 2)
            places = needMemory(systemAllocator, places, kept: count * stride, size: room * stride).assumingMemoryBound(to: Int.self)
        }
        places![count] = place
        count += 1
        let end = isBackwards ? place : rest.location + rest.length
        if !isBackwards { rest.location = place + old.pointee.length }
        rest.length = end - rest.location
    }
    if count > 0 {
        let first = places![isBackwards ? count - 1 : 0]
        var end = first
        for index in 0..<count {
            let place = places![isBackwards ? count - 1 - index : index]
            made.append(Text(string).part(CFRange(location: end, length: place - end)))
            made.append(Text(new))
            end = place + old.pointee.length
        }
        string.replace(CFRange(location: first, length: end - first), with: Text(made), function)
        free(places)
    }
    releaseOurs(old.header)
    releaseOurs(new.header)
    releaseOurs(made.header)
    return count
}

@c @implementation
public func RLCFStringTrim(_ string: OpaquePointer?, _ part: OpaquePointer?) {
    let string = mutable(string, "CFStringTrim")
    let part = Text(part, "CFStringTrim")
    if part.count == 0 { return }
    var (begin, end) = (0, string.pointee.length)
    while end - begin >= part.count && Text(string).hasUnits(of: part, at: begin) { begin += part.count }
    while end - begin >= part.count && Text(string).hasUnits(of: part, at: end - part.count) { end -= part.count }
    string.keep(begin, end)
}

@c @implementation
public func RLCFStringTrimWhitespace(_ string: OpaquePointer?) {
    let string = mutable(string, "CFStringTrimWhitespace")
    var (begin, end) = (0, string.pointee.length)
    while begin < end && isTrimmed(Text(string)[begin]) { begin += 1 }
    while begin < end && isTrimmed(Text(string)[end - 1]) { end -= 1 }
    string.keep(begin, end)
}

extension StringPointer {
    /// Removes all but a part.
    fileprivate func keep(_ begin: Int, _ end: Int) {
        replace(CFRange(location: end, length: pointee.length - end), with: Text(ascii: ""), "CFStringTrim")
        replace(CFRange(location: 0, length: begin), with: Text(ascii: ""), "CFStringTrim")
    }
}
