// SPDX-License-Identifier: MIT

/// A value of JSON, as far as the answers of processes need it. What comes from a process is trusted in nothing: text has a length, and a line a
/// number of values, beyond which no process of good will goes, so that what is done with them has an end.
enum JSON {
    case null
    case bool(Bool)
    case number(Double)
    case string(ForeignText)
    case array([JSON])
    case object([ForeignText: JSON])

    /// nil for what is no JSON, or has too many values.
    init?(_ line: ArraySlice<UInt8>) {
        var reader = JSONReader(line)
        guard let value = reader.value(depth: 0) else { return nil }
        reader.skipSpace()
        guard reader.isAtEnd else { return nil }
        self = value
    }

    subscript(key: String) -> JSON? {
        if case .object(let members) = self { members[ForeignText(bytes: Array(key.utf8))] } else { nil }
    }

    var number: Double? { if case .number(let value) = self { value } else { nil } }
    var string: ForeignText? { if case .string(let value) = self { value } else { nil } }
    var isTrue: Bool { if case .bool(true) = self { true } else { false } }
    var array: [JSON] { if case .array(let values) = self { values } else { [] } }
    /// A whole number that can be counted with.
    var int: Int? { number.flatMap { abs($0) < 1e15 ? Int($0) : nil } }

    /// A string in its quotes, in ASCII.
    static func quoted(_ text: String) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var result = [UInt8(ascii: "\"")]
        for unit in text.utf16 {
            if unit >= 0x20 && unit < 0x7f && unit != 0x22 && unit != 0x5c {
                result.append(UInt8(unit))
            } else {
                result += "\\u".utf8
                for shift in [12, 8, 4, 0] { result.append(digits[Int(unit >> shift) & 15]) }
            }
        }
        return String(decoding: result, as: UTF8.self) + "\""
    }
}

private struct JSONReader {
    private let bytes: ArraySlice<UInt8>
    private var place: Int
    /// The library writes 120 at most for a loop.
    private var valuesLeft = 400
    /// Bytes of a string; what is longer is cut.
    private static var longestText: Int { 1024 }
    /// Of digits.
    private static var longestNumber: Int { 64 }

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        place = bytes.startIndex
    }

    var isAtEnd: Bool { place == bytes.endIndex }
    private var next: UInt8? { place < bytes.endIndex ? bytes[place] : nil }

    mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { place += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard next == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    private mutating func word(_ word: String, _ value: JSON) -> JSON? {
        guard bytes[place...].starts(with: word.utf8) else { return nil }
        place += word.utf8.count
        return value
    }

    mutating func value(depth: Int) -> JSON? {
        skipSpace()
        guard depth < 16, valuesLeft > 0, let byte = next else { return nil }
        valuesLeft -= 1
        switch Unicode.Scalar(byte) {
        case "{": return object(depth)
        case "[": return array(depth)
        case "\"": return string().map { .string($0) }
        case "t": return word("true", .bool(true))
        case "f": return word("false", .bool(false))
        case "n": return word("null", .null)
        default: return number()
        }
    }

    private mutating func object(_ depth: Int) -> JSON? {
        var members: [ForeignText: JSON] = [:]
        place += 1
        if take("}") { return .object(members) }
        repeat {
            skipSpace()
            guard let key = string(), take(":"), let value = value(depth: depth + 1) else { return nil }
            members[key] = value
        } while take(",")
        return take("}") ? .object(members) : nil
    }

    private mutating func array(_ depth: Int) -> JSON? {
        var values: [JSON] = []
        place += 1
        if take("]") { return .array(values) }
        repeat {
            guard let value = value(depth: depth + 1) else { return nil }
            values.append(value)
        } while take(",")
        return take("]") ? .array(values) : nil
    }

    private mutating func number() -> JSON? {
        let start = place
        while let byte = next, (0x30...0x39).contains(byte) || [0x2b, 0x2d, 0x2e, 0x45, 0x65].contains(byte) { place += 1 }
        guard place - start <= JSONReader.longestNumber else { return nil }
        // Within limits, so that no sum of a few and no difference is infinite or no number.
        return Double(String(decoding: bytes[start..<place], as: UTF8.self)).map { .number(min(max($0, -1e15), 1e15)) }
    }

    private mutating func string() -> ForeignText? {
        guard next == 0x22 else { return nil }
        place += 1
        var result: [UInt8] = []
        var isCut = false
        while let byte = next {
            place += 1
            if byte == 0x22 { return ForeignText(bytes: isCut ? JSONReader.cut(result) : result) }
            isCut = isCut || result.count >= JSONReader.longestText
            if byte == 0x5c {
                guard let character = escaped() else { return nil }
                if !isCut { result.append(contentsOf: character.utf8) }
            } else if !isCut {
                result.append(byte)
            }
        }
        return nil
    }

    /// Without the last character, which may be a part of one, and with what shows that.
    private static func cut(_ text: [UInt8]) -> [UInt8] {
        var text = text
        while let last = text.popLast(), last & 0xc0 == 0x80 { continue }
        return text + Array("…".utf8)
    }

    private mutating func escaped() -> Unicode.Scalar? {
        guard let byte = next else { return nil }
        place += 1
        switch Unicode.Scalar(byte) {
        case "n": return "\n"
        case "t": return "\t"
        case "r": return "\r"
        case "b": return "\u{8}"
        case "f": return "\u{c}"
        case "u":
            guard place + 4 <= bytes.endIndex, let unit = UInt32(String(decoding: bytes[place..<place + 4], as: UTF8.self), radix: 16)
            else { return nil }
            place += 4
            // The library writes no pairs.
            return Unicode.Scalar(unit) ?? "\u{fffd}"
        default: return Unicode.Scalar(byte)
        }
    }
}
