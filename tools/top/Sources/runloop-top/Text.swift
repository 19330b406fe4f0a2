// SPDX-License-Identifier: MIT
import CTerminal

/// Text of another process. It is compared, hashed and searched as bytes, which takes time in proportion to its length: a `String` does all that
/// by characters, and puts the combining marks of each in order for it, in a time that grows with the square of their number.
struct ForeignText: Hashable, Comparable {
    let bytes: [UInt8]

    static func < (one: ForeignText, other: ForeignText) -> Bool { one.bytes.lexicographicallyPrecedes(other.bytes) }

    /// To be written, not to be compared.
    var string: String { String(decoding: bytes, as: UTF8.self) }
}

extension Collection<UInt8> {
    /// Where these bytes are for the first time.
    func firstPlace(of bytes: some Collection<UInt8>) -> Index? { indices.first { self[$0...].starts(with: bytes) } }

    /// Text that a terminal shows and does not obey: whatever is no printable character is shown as `\u{…}`, with all else that changes the
    /// order or place of what follows; ends of lines too, if they are not kept.
    func printable(keepsLines: Bool = false) -> ForeignText {
        var result: [UInt8] = []
        result.reserveCapacity(count)
        for character in String(decoding: self, as: UTF8.self).unicodeScalars {
            if (0x20..<0x7f).contains(character.value) || keepsLines && character == "\n" {
                result.append(UInt8(character.value))
                continue
            }
            switch character.properties.generalCategory {
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator:
                result.append(contentsOf: "\\u{".utf8)
                result.append(contentsOf: String(character.value, radix: 16).utf8)
                result.append(UInt8(ascii: "}"))
            default: result.append(contentsOf: character.utf8)
            }
        }
        return ForeignText(bytes: result)
    }
}

extension ArraySlice<UInt8> {
    /// Takes off the first line, without its end.
    mutating func popLine() -> ArraySlice<UInt8>? {
        if isEmpty { return nil }
        let end = firstIndex(of: UInt8(ascii: "\n")) ?? endIndex
        defer { self = self[Swift.min(end + 1, endIndex)...] }
        return self[..<end]
    }

    var lineCount: Int { isEmpty ? 0 : dropLast().count { $0 == UInt8(ascii: "\n") } + 1 }
}

/// The text in so many columns, cut or filled up.
func fit(_ text: String, _ columns: Int, right: Bool = false) -> String {
    var used = 0
    var result = String.UnicodeScalarView()
    // Characters that take no column have an end too.
    for character in text.unicodeScalars.prefix(4 * columns) {
        // What the locale does not have would be shown as something else, of another width.
        let shown = terminal_width(character.value) < 0 ? "?" : character
        let width = Int(terminal_width(shown.value))
        if used + width > columns { break }
        used += width
        result.append(shown)
    }
    let space = String(repeating: " ", count: columns - used)
    return right ? space + String(result) : String(result) + space
}

/// A number with so many digits behind the point; a dash for one that is too large.
func decimal(_ value: Double, _ digits: Int) -> String {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = (abs(value) * scale).rounded()
    guard abs(value) < 1e15, scaled < 9e18 else { return "-" }
    let whole = Int(scaled)
    let sign = value < 0 && whole > 0 ? "-" : ""
    guard digits > 0 else { return sign + String(whole) }
    let tail = String(whole % Int(scale))
    return sign + String(whole / Int(scale)) + "." + String(repeating: "0", count: digits - tail.count) + tail
}

/// Seconds with a unit: 12.3us, 4.56ms, 7.8s.
func time(_ seconds: Double?) -> String {
    guard let seconds, seconds < 1e15 else { return "-" }
    switch seconds {
    case ..<0.0000005: return "0"
    case ..<0.001: return decimal(seconds * 1e6, 1) + "us"
    case ..<1: return decimal(seconds * 1e3, 2) + "ms"
    case ..<1000: return decimal(seconds, 2) + "s"
    default: return decimal(seconds, 0) + "s"
    }
}

/// How often in a second.
func rate(_ value: Double?) -> String {
    guard let value else { return "-" }
    return value < 100 ? decimal(value, 1) : value < 1e5 ? decimal(value, 0) : decimal(value / 1000, 0) + "k"
}

/// A part of one, in hundredths.
func percent(_ part: Double?) -> String { part.map { decimal($0 * 100, 1) } ?? "-" }

/// Parts of one as bars, if the locale has them.
func sparkline(_ values: [Double]) -> String {
    guard terminal_width(0x2581) == 1 else { return "" }
    let bars: [Unicode.Scalar] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    var result = String.UnicodeScalarView()
    for value in values { result.append(bars[min(max(Int(value * 8), 0), 7)]) }
    return String(result)
}
