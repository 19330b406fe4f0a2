// SPDX-License-Identifier: MIT
import CRunLoopCF

/// The units of a string, borrowed: bytes that are ASCII, or UTF-16 units.
struct Text {
    let narrow: UnsafePointer<UInt8>?
    let wide: UnsafePointer<UInt16>?
    let count: Int

    init(narrow: UnsafePointer<UInt8>?, wide: UnsafePointer<UInt16>?, count: Int) {
        (self.narrow, self.wide, self.count) = (narrow, wide, count)
    }

    init(units: UnsafePointer<UInt16>?, count: Int) { self.init(narrow: nil, wide: units, count: count) }

    init(ascii: StaticString) { self.init(narrow: ascii.utf8Start, wide: nil, count: ascii.utf8CodeUnitCount) }

    /// The text of a string or a constant; NULL and other types trap.
    init(_ handle: OpaquePointer?, _ function: StaticString) {
        guard let handle else { trap(function, "NULL is no object") }
        switch rlcf_kind(UnsafeRawPointer(handle)) {
        case Kind.string: self.init(StringPointer(handle))
        case Kind.constant:
            let bytes = constantBytes(UnsafeRawPointer(handle))
            let count = strlen(bytes)
            let ascii = UnsafeRawPointer(bytes).assumingMemoryBound(to: UInt8.self)
            if areASCII(ascii, count) {
                self.init(narrow: ascii, wide: nil, count: count)
            } else {
                let made = rlcf_constant(UnsafeRawPointer(handle)) { makeConstant($0) }
                self.init(StringPointer(OpaquePointer(made!)))
            }
        default: trap(function, "not a string")
        }
    }

    init(_ string: StringPointer) {
        if string.pointee.isWide {
            self.init(narrow: nil, wide: string.units, count: string.pointee.length)
        } else {
            self.init(narrow: string.bytes, wide: nil, count: string.pointee.length)
        }
    }

    @inline(__always)
    subscript(index: Int) -> UInt16 {
        if let narrow { return UInt16(narrow[index]) }
        return wide![index]
    }

    func part(_ range: CFRange) -> Text {
        Text(narrow: narrow.map { $0 + range.location }, wide: wide.map { $0 + range.location }, count: range.length)
    }

    /// Whether every unit is ASCII.
    var isASCII: Bool {
        if narrow != nil { return true }
        for index in 0..<count where wide![index] >= 0x80 { return false }
        return true
    }

    static func == (one: Text, two: Text) -> Bool {
        if one.count != two.count { return false }
        if one.count == 0 { return true }
        if let a = one.narrow, let b = two.narrow { return memcmp(a, b, one.count) == 0 }
        return one.hasUnits(of: two, at: 0)
    }

    /// Whether another text is at a place, which has room for it.
    func hasUnits(of other: Text, at place: Int) -> Bool {
        for index in 0..<other.count where self[place + index] != other[index] { return false }
        return true
    }

    var hash: UInt {
        var hash: UInt = 0xcbf2_9ce4_8422_2325
        for index in 0..<count { hash = (hash ^ UInt(self[index])) &* 0x100_0000_01b3 }
        return hash
    }

    /// The character that begins at an index, and how many units it has; half a pair is a character of its own.
    func character(at index: Int) -> (value: UInt32, units: Int) {
        let first = UInt32(self[index])
        guard first >= 0xd800, first < 0xdc00, index + 1 < count else { return (first, 1) }
        let second = UInt32(self[index + 1])
        guard second >= 0xdc00, second < 0xe000 else { return (first, 1) }
        return ((first - 0xd800) << 10 + (second - 0xdc00) + 0x10000, 2)
    }
}

/// The text of a constant, which ends with a NUL, behind the bytes that tell what it is.
private func constantBytes(_ constant: UnsafeRawPointer) -> UnsafePointer<CChar> {
    (constant + 4).assumingMemoryBound(to: CChar.self)
}

func areASCII(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> Bool {
    for index in 0..<count where bytes[index] >= 0x80 { return false }
    return true
}

/// A constant's text as a string that stays for good: UTF-8, or ISO Latin 1 if it is not (S-CF-7).
private func makeConstant(_ constant: UnsafeRawPointer?) -> UnsafeMutableRawPointer? {
    let bytes = constantBytes(constant!)
    let start = UnsafeRawPointer(bytes).assumingMemoryBound(to: UInt8.self)
    for encoding in [Encoding.utf8, Encoding.latin1] {
        if let string = makeString(systemAllocator, bytes: start, strlen(bytes), encoding, isExternal: false) {
            return UnsafeMutableRawPointer(string)
        }
    }
    return nil
}

/// A mode's or port's name as librunloop takes it: UTF-8 that ends with a NUL. Half a surrogate pair makes a name of its own, too.
struct Name {
    let bytes: UnsafePointer<CChar>?
    /// To be freed; nil: borrowed from the string.
    private let memory: UnsafeMutableRawPointer?

    init(_ handle: OpaquePointer?, _ function: StaticString) {
        guard let handle else {
            (bytes, memory) = (nil, nil)
            return
        }
        if rlcf_kind(UnsafeRawPointer(handle)) == Kind.constant {
            (bytes, memory) = (constantBytes(UnsafeRawPointer(handle)), nil)
            return
        }
        let string = record(handle, StringRecord.self, function)
        // What the client can change is copied.
        if !string.pointee.isWide && string.pointee.length > 0 && !string.isMutable {
            (bytes, memory) = (UnsafeRawPointer(string.bytes!).assumingMemoryBound(to: CChar.self), nil)
            return
        }
        let text = Text(string)
        let room = text.count * 3 + 1
        let copy = needMemory(systemAllocator, room)
        let start = copy.assumingMemoryBound(to: UInt8.self)
        var used = 0
        var index = 0
        while index < text.count {
            let (value, units) = text.character(at: index)
            used += putUTF8(value, start + used)
            index += units
        }
        start[used] = 0
        (bytes, memory) = (UnsafeRawPointer(copy).assumingMemoryBound(to: CChar.self), copy)
    }

    /// The bytes if they are a copy, which `free` would give back.
    var copy: UnsafeMutablePointer<CChar>? { memory?.assumingMemoryBound(to: CChar.self) }

    func free() { CRunLoopCF.free(memory) }
}
