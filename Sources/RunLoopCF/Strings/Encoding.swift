// SPDX-License-Identifier: MIT
import CRunLoopCF

/// The encodings that there are.
enum Encoding {
    static var macRoman: UInt32 { 0 }
    static var latin1: UInt32 { 0x0201 }
    static var ascii: UInt32 { 0x0600 }
    static var utf8: UInt32 { 0x0800_0100 }
    static var utf16: UInt32 { 0x0100 }
    static var utf16Big: UInt32 { 0x1000_0100 }
    static var utf16Little: UInt32 { 0x1400_0100 }
    static var utf32: UInt32 { 0x0c00_0100 }
    static var utf32Big: UInt32 { 0x1800_0100 }
    static var utf32Little: UInt32 { 0x1c00_0100 }

    /// The bytes of a unit, if the encoding is one of UTF-16 or UTF-32.
    static func width(_ encoding: UInt32) -> Int {
        switch encoding {
        case utf16, utf16Big, utf16Little: return 2
        case utf32, utf32Big, utf32Little: return 4
        default: return 1
        }
    }

    static func isKnown(_ encoding: UInt32) -> Bool {
        encoding == macRoman || encoding == latin1 || encoding == ascii || encoding == utf8 || width(encoding) > 1
    }

    /// Whether the encoding names the big order; nil: the text or the processor tells.
    static func isBig(_ encoding: UInt32) -> Bool? {
        switch encoding {
        case utf16Big, utf32Big: return true
        case utf16Little, utf32Little: return false
        default: return nil
        }
    }
}

private let hostIsBig = UInt16(1).bigEndian == 1

// MARK: Bytes to units

/// Adds text in an encoding to a string. false, with a part of it added, if it is not valid.
func decode(_ bytes: UnsafePointer<UInt8>, _ count: Int, _ encoding: UInt32, isExternal: Bool, into string: StringPointer) -> Bool {
    switch encoding {
    case Encoding.ascii, Encoding.utf8, Encoding.latin1, Encoding.macRoman:
        if areASCII(bytes, count) {
            string.append(Text(narrow: bytes, wide: nil, count: count))
            return true
        }
        if encoding == Encoding.utf8 { return decodeUTF8(bytes, count, isExternal: isExternal, into: string) }
        // Bytes that ASCII has not are those of ISO Latin 1.
        for index in 0..<count {
            let byte = bytes[index]
            let isMac = encoding == Encoding.macRoman && byte >= 0x80
            string.append(character: UInt32(isMac ? rlcf_mac_roman_unit(byte) : UInt16(byte)))
        }
        return true
    default: return decodeWide(bytes, count, encoding, isExternal: isExternal, into: string)
    }
}

/// UTF-8 as RFC 3629 has it: neither too long forms nor halves of surrogate pairs.
private func decodeUTF8(_ bytes: UnsafePointer<UInt8>, _ count: Int, isExternal: Bool, into string: StringPointer) -> Bool {
    var index = isExternal && count >= 3 && bytes[0] == 0xef && bytes[1] == 0xbb && bytes[2] == 0xbf ? 3 : 0
    while index < count {
        let first = bytes[index]
        let (following, least): (Int, UInt32) = first < 0x80 ? (0, 0) : first < 0xc2 ? (-1, 0) : first < 0xe0 ? (1, 0x80)
            : first < 0xf0 ? (2, 0x800) : first < 0xf5 ? (3, 0x10000) : (-1, 0)
        if following < 0 || index + following >= count { return false }
        var value = following == 0 ? UInt32(first) : UInt32(first) & (0x3f >> UInt32(following))
        for next in 0..<following {
            let byte = bytes[index + 1 + next]
            if byte & 0xc0 != 0x80 { return false }
            value = value << 6 | UInt32(byte & 0x3f)
        }
        if value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) { return false }
        string.append(character: value)
        index += following + 1
    }
    return true
}

private func decodeWide(
    _ bytes: UnsafePointer<UInt8>, _ count: Int, _ encoding: UInt32, isExternal: Bool, into string: StringPointer
) -> Bool {
    let width = Encoding.width(encoding)
    if width == 1 || count < width { return false }
    // An external representation has a mark of its order, or else the big one; what is none is in the processor's.
    let hasMark = Encoding.isBig(encoding) == nil && isExternal
    var isBig = Encoding.isBig(encoding) ?? (hasMark || hostIsBig)
    func unit(_ index: Int) -> UInt32 {
        let start = bytes + index * width
        var value: UInt32 = 0
        for byte in 0..<width { value |= UInt32(start[byte]) << UInt32(8 * (isBig ? width - 1 - byte : byte)) }
        return value
    }
    var index = 0
    if hasMark {
        if unit(0) == 0xfeff {
            index = 1
        } else if unit(0) == (width == 2 ? 0xfffe : 0xfffe_0000) {
            isBig.toggle()
            index = 1
        }
    }
    // Bytes of a part of a unit at the end are no text.
    while index < count / width {
        let value = unit(index)
        if width == 4 && (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) { return false }
        string.append(character: value)
        index += 1
    }
    return true
}

// MARK: Units to bytes

/// Writes a character, of which half a pair may be one, and returns how many bytes that took.
func putUTF8(_ value: UInt32, _ bytes: UnsafeMutablePointer<UInt8>) -> Int {
    func byte(_ bits: UInt32, _ shift: UInt32) -> UInt8 { UInt8(truncatingIfNeeded: bits | (value >> shift & 0x3f)) }
    if value < 0x80 {
        bytes[0] = UInt8(value)
        return 1
    }
    if value < 0x800 {
        bytes[0] = UInt8(0xc0 | value >> 6)
        bytes[1] = byte(0x80, 0)
        return 2
    }
    if value < 0x10000 {
        bytes[0] = UInt8(0xe0 | value >> 12)
        bytes[1] = byte(0x80, 6)
        bytes[2] = byte(0x80, 0)
        return 3
    }
    bytes[0] = UInt8(0xf0 | value >> 18)
    bytes[1] = byte(0x80, 12)
    bytes[2] = byte(0x80, 6)
    bytes[3] = byte(0x80, 0)
    return 4
}

/// A character in an encoding, in at most four bytes. 0: the encoding has none.
private func put(_ value: UInt32, _ encoding: UInt32, isBig: Bool, _ bytes: UnsafeMutablePointer<UInt8>) -> Int {
    let isHalf = value >= 0xd800 && value < 0xe000
    func unit(_ value: UInt32, _ width: Int, _ place: UnsafeMutablePointer<UInt8>) {
        for byte in 0..<width { place[byte] = UInt8(truncatingIfNeeded: value >> UInt32(8 * (isBig ? width - 1 - byte : byte))) }
    }
    switch encoding {
    case Encoding.utf8: return isHalf ? 0 : putUTF8(value, bytes)
    case Encoding.ascii, Encoding.latin1, Encoding.macRoman:
        if value < (encoding == Encoding.latin1 ? 0x100 : 0x80) {
            bytes[0] = UInt8(value)
            return 1
        }
        if encoding == Encoding.macRoman {
            for upper in 0x80...0xff as ClosedRange<UInt8> where UInt32(rlcf_mac_roman_unit(upper)) == value {
                bytes[0] = upper
                return 1
            }
        }
        return 0
    default:
        if Encoding.width(encoding) == 4 {
            if isHalf { return 0 }
            unit(value, 4, bytes)
            return 4
        }
        if value < 0x10000 {
            unit(value, 2, bytes)
            return 2
        }
        unit(0xd800 + (value - 0x10000) >> 10, 2, bytes)
        unit(0xdc00 + (value - 0x10000) & 0x3ff, 2, bytes + 2)
        return 4
    }
}

/// Converts as many units as fit into `room` bytes. `buffer` nil only counts. A `lossByte` of 0 ends the conversion at what the
/// encoding has not.
func encode(
    _ text: Text, _ encoding: UInt32, lossByte: UInt8, isExternal: Bool, _ buffer: UnsafeMutablePointer<UInt8>?, room: Int
) -> (units: Int, bytes: Int) {
    if !Encoding.isKnown(encoding) { return (0, 0) }
    let isBig = Encoding.isBig(encoding) ?? hostIsBig
    return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4) { character in
        let one = character.baseAddress!
        var (units, used) = (0, 0)
        func add(_ count: Int) -> Bool {
            if let buffer {
                if count > room - used { return false }
                memcpy(buffer + used, one, count)
            }
            used += count
            return true
        }
        if isExternal && Encoding.isBig(encoding) == nil && Encoding.width(encoding) > 1 {
            if !add(put(0xfeff, encoding, isBig: isBig, one)) { return (0, 0) }
        }
        while units < text.count {
            var (value, width) = text.character(at: units)
            var count = put(value, encoding, isBig: isBig, one)
            if count == 0 {
                if lossByte == 0 { break }
                // The byte itself where text is of bytes, whichever character it is there; else the character of that number.
                one[0] = lossByte
                let isByte = encoding != Encoding.utf8 && Encoding.width(encoding) == 1
                count = isByte ? 1 : put(UInt32(lossByte), encoding, isBig: isBig, one)
                // Each half of a pair is lost by itself.
                if encoding == Encoding.ascii || encoding == Encoding.latin1 { width = 1 }
            }
            if !add(count) { break }
            units += width
        }
        return (units, used)
    }
}
