// SPDX-License-Identifier: MIT
import CRunLoopCF

// Reading, comparing and finding: <CoreFoundation/CFString.h>.

@c @implementation
public func RLCFStringGetLength(_ string: OpaquePointer?) -> Int { Text(string, "CFStringGetLength").count }

@c @implementation
public func RLCFStringGetCharacterAtIndex(_ string: OpaquePointer?, _ index: Int) -> UInt16 {
    let text = Text(string, "CFStringGetCharacterAtIndex")
    check(index: index, in: text.count, "CFStringGetCharacterAtIndex")
    return text[index]
}

@c @implementation
public func RLCFStringGetCharacters(_ string: OpaquePointer?, _ range: CFRange, _ buffer: UnsafeMutablePointer<UInt16>?) {
    let text = Text(string, "CFStringGetCharacters")
    check(range, in: text.count, "CFStringGetCharacters")
    guard let buffer else { return }
    for index in 0..<range.length { buffer[index] = text[range.location + index] }
}

/// Converts the whole of a text, with a NUL.
private func get(_ text: Text, _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int, _ encoding: UInt32) -> UInt8 {
    guard let buffer, size > 0 else { return 0 }
    let bytes = UnsafeMutableRawPointer(buffer).assumingMemoryBound(to: UInt8.self)
    let done = encode(text, encoding, lossByte: 0, isExternal: false, bytes, room: size - 1)
    if !Encoding.isKnown(encoding) || done.units < text.count {
        buffer[0] = 0
        return 0
    }
    buffer[done.bytes] = 0
    return 1
}

@c @implementation
public func RLCFStringGetCString(_ string: OpaquePointer?, _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int, _ encoding: UInt32) -> UInt8 {
    get(Text(string, "CFStringGetCString"), buffer, size, encoding)
}

@c @implementation
public func RLCFStringGetCStringPtr(_ string: OpaquePointer?, _ encoding: UInt32) -> UnsafePointer<CChar>? {
    let text = Text(string, "CFStringGetCStringPtr")
    if !Encoding.isKnown(encoding) || Encoding.width(encoding) > 1 { return nil }
    if text.wide == nil && text.narrow == nil { return ("" as StaticString).text }
    return text.narrow.map { UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self) }
}

@c @implementation
public func RLCFStringGetCharactersPtr(_ string: OpaquePointer?) -> UnsafePointer<UInt16>? {
    Text(string, "CFStringGetCharactersPtr").wide
}

@c @implementation
public func RLCFStringGetBytes(
    _ string: OpaquePointer?, _ range: CFRange, _ encoding: UInt32, _ lossByte: UInt8, _ isExternal: UInt8,
    _ buffer: UnsafeMutablePointer<UInt8>?, _ room: Int, _ used: UnsafeMutablePointer<Int>?
) -> Int {
    let text = Text(string, "CFStringGetBytes")
    check(range, in: text.count, "CFStringGetBytes")
    let done = encode(text.part(range), encoding, lossByte: lossByte, isExternal: isExternal != 0, buffer, room: room)
    used?.pointee = done.bytes
    return done.units
}

@c @implementation
public func RLCFStringCreateExternalRepresentation(
    _ handle: OpaquePointer?, _ string: OpaquePointer?, _ encoding: UInt32, _ lossByte: UInt8
) -> OpaquePointer? {
    let text = Text(string, "CFStringCreateExternalRepresentation")
    let size = encode(text, encoding, lossByte: lossByte, isExternal: true, nil, room: 0)
    if !Encoding.isKnown(encoding) || size.units < text.count { return nil }
    guard let data = RLCFDataCreateMutable(handle, 0) else { return nil }
    RLCFDataSetLength(data, size.bytes)
    if size.bytes > 0 {
        _ = encode(text, encoding, lossByte: lossByte, isExternal: true, RLCFDataGetMutableBytePtr(data), room: size.bytes)
    }
    let copy = RLCFDataCreateCopy(handle, data)
    RLCFRelease(UnsafeRawPointer(data))
    return copy
}

@c @implementation
public func RLCFStringGetMaximumSizeForEncoding(_ length: Int, _ encoding: UInt32) -> Int {
    let factor = encoding == Encoding.utf8 ? 3 : Encoding.width(encoding)
    // A mark of byte order comes in addition.
    let (size, overflows) = length.multipliedReportingOverflow(by: factor)
    return overflows || length < 0 || !Encoding.isKnown(encoding) ? -1 : size
}

@c @implementation
public func RLCFStringGetSystemEncoding() -> UInt32 { Encoding.utf8 }

@c @implementation
public func RLCFStringIsEncodingAvailable(_ encoding: UInt32) -> UInt8 { Encoding.isKnown(encoding) ? 1 : 0 }

/// What may stand before a number.
private func isBlank(_ unit: UInt16) -> Bool {
    unit == 0x20 || (unit >= 0x09 && unit <= 0x0d) || unit == 0x85 || unit == 0xa0 || (unit >= 0x2000 && unit <= 0x200b) || unit == 0x3000
}

/// Blanks of every width, tabs and ends of lines.
func isTrimmed(_ unit: UInt16) -> Bool {
    isBlank(unit) || unit == 0x1680 || unit == 0x2028 || unit == 0x2029 || unit == 0x202f || unit == 0x205f
}

@c @implementation
public func RLCFStringGetIntValue(_ string: OpaquePointer?) -> Int32 {
    let text = Text(string, "CFStringGetIntValue")
    var index = 0
    while index < text.count && isBlank(text[index]) { index += 1 }
    var isNegative = false
    if index < text.count && (text[index] == 0x2d || text[index] == 0x2b) {
        isNegative = text[index] == 0x2d
        index += 1
        while index < text.count && isBlank(text[index]) { index += 1 }
    }
    var value: Int64 = 0
    while index < text.count, text[index] >= 0x30, text[index] <= 0x39 {
        value = min(value * 10 + Int64(text[index] - 0x30), 0x8000_0000)
        index += 1
    }
    return Int32(clamping: isNegative ? -value : value)
}

@c @implementation
public func RLCFStringGetDoubleValue(_ string: OpaquePointer?) -> Double {
    let text = Text(string, "CFStringGetDoubleValue")
    var begin = 0
    while begin < text.count && isBlank(text[begin]) { begin += 1 }
    // Digits, signs, a point and an exponent: strtod would take more.
    var count = 0
    while begin + count < text.count {
        let unit = text[begin + count]
        let isNumber = (unit >= 0x30 && unit <= 0x39) || unit == 0x2b || unit == 0x2d || unit == 0x2e || unit | 0x20 == 0x65
        if !isNumber { break }
        count += 1
    }
    return withUnsafeTemporaryAllocation(of: CChar.self, capacity: count + 1) { buffer in
        for index in 0..<count { buffer[index] = CChar(truncatingIfNeeded: text[begin + index]) }
        buffer[count] = 0
        var value = 0.0
        return rlcf_parse_double(buffer.baseAddress!, &value) ? value : 0
    }
}

@c @implementation
public func RLCFStringGetFileSystemRepresentation(_ string: OpaquePointer?, _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int) -> UInt8 {
    get(Text(string, "CFStringGetFileSystemRepresentation"), buffer, size, Encoding.utf8)
}

@c @implementation
public func RLCFStringGetMaximumSizeOfFileSystemRepresentation(_ string: OpaquePointer?) -> Int {
    Text(string, "CFStringGetMaximumSizeOfFileSystemRepresentation").count * 3 + 1
}

// MARK: Comparing

private let caseInsensitive: UInt = 1, backwards: UInt = 4, anchored: UInt = 8

private func compare(_ one: Text, _ two: Text, _ options: UInt) -> Int {
    let folds = options & caseInsensitive != 0
    var index = 0
    while index < one.count && index < two.count {
        var (a, b) = (UInt32(one[index]), UInt32(two[index]))
        if a != b && folds { (a, b) = (rlcf_fold(a), rlcf_fold(b)) }
        if a != b { return a < b ? -1 : 1 }
        index += 1
    }
    return one.count < two.count ? -1 : one.count > two.count ? 1 : 0
}

@c @implementation
public func RLCFStringCompare(_ one: OpaquePointer?, _ two: OpaquePointer?, _ options: UInt) -> Int {
    compare(Text(one, "CFStringCompare"), Text(two, "CFStringCompare"), options)
}

@c @implementation
public func RLCFStringCompareWithOptions(_ one: OpaquePointer?, _ two: OpaquePointer?, _ range: CFRange, _ options: UInt) -> Int {
    let text = Text(one, "CFStringCompareWithOptions")
    check(range, in: text.count, "CFStringCompareWithOptions")
    return compare(text.part(range), Text(two, "CFStringCompareWithOptions"), options)
}

@c @implementation
public func RLCFStringHasPrefix(_ string: OpaquePointer?, _ prefix: OpaquePointer?) -> UInt8 {
    let (text, part) = (Text(string, "CFStringHasPrefix"), Text(prefix, "CFStringHasPrefix"))
    return part.count > 0 && part.count <= text.count && text.hasUnits(of: part, at: 0) ? 1 : 0
}

@c @implementation
public func RLCFStringHasSuffix(_ string: OpaquePointer?, _ suffix: OpaquePointer?) -> UInt8 {
    let (text, part) = (Text(string, "CFStringHasSuffix"), Text(suffix, "CFStringHasSuffix"))
    return part.count > 0 && part.count <= text.count && text.hasUnits(of: part, at: text.count - part.count) ? 1 : 0
}

// MARK: Finding

/// Where a text is in a range of another; -1 if nowhere.
func find(_ part: Text, in text: Text, _ range: CFRange, _ options: UInt) -> Int {
    let folds = options & caseInsensitive != 0
    return place(of: part.count, in: range, backwards: options & backwards != 0, anchored: options & anchored != 0) { place in
        if !folds { return text.hasUnits(of: part, at: place) }
        for index in 0..<part.count where rlcf_fold(UInt32(text[place + index])) != rlcf_fold(UInt32(part[index])) { return false }
        return true
    }
}

@c @implementation
public func RLCFStringFind(_ string: OpaquePointer?, _ wanted: OpaquePointer?, _ options: UInt) -> CFRange {
    let (text, part) = (Text(string, "CFStringFind"), Text(wanted, "CFStringFind"))
    let place = find(part, in: text, CFRange(location: 0, length: text.count), options)
    return CFRange(location: place, length: place < 0 ? 0 : part.count)
}

@c @implementation
public func RLCFStringFindWithOptions(
    _ string: OpaquePointer?, _ wanted: OpaquePointer?, _ range: CFRange, _ options: UInt, _ result: UnsafeMutablePointer<CFRange>?
) -> UInt8 {
    let (text, part) = (Text(string, "CFStringFindWithOptions"), Text(wanted, "CFStringFindWithOptions"))
    check(range, in: text.count, "CFStringFindWithOptions")
    let place = find(part, in: text, range, options)
    if place < 0 { return 0 }
    result?.pointee = CFRange(location: place, length: part.count)
    return 1
}
