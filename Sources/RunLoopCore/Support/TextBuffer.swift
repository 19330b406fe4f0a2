// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Text under construction, in memory from malloc: descriptions and log lines. The core has no `String`.
struct TextBuffer {
    private(set) var bytes: UnsafeMutablePointer<CChar>
    private(set) var count = 0
    private var capacity = 128
    /// Whether the client's functions may be called for the text.
    var callsClient = true
    /// Of the object that is described, from `beginUse` until its info is appended.
    var use: UnsafeMutableRawPointer?

    @inline(never)
    init() {
        bytes = makeArray(CChar.self, count: 128)
    }

    @inline(never)
    private mutating func reserve(_ extra: Int) {
        guard count + extra + 1 > capacity else { return }
        capacity = max(capacity * 2, count + extra + 1)
        bytes = growArray(bytes, count: capacity)
    }

    @inline(never)
    mutating func append(_ text: StaticString) {
        append(bytes: UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self), count: text.utf8CodeUnitCount)
    }

    /// Text that is known to be printable, or that the client gave for this purpose.
    @inline(never)
    mutating func append(cString text: UnsafePointer<CChar>) {
        append(bytes: text, count: strlen(text))
    }

    @inline(never)
    mutating func append(bytes source: UnsafePointer<CChar>, count length: Int) {
        reserve(length)
        memcpy(bytes + count, source, length)
        count += length
    }

    /// A name that may hold anything: bytes that do not print are written in vis(3)'s C style.
    mutating func appendPrintable(_ name: UnsafePointer<CChar>) {
        let length = strlen(name)
        reserve(4 * length + 1)
        count += Int(strvisx(bytes + count, name, length, VIS_CSTYLE | VIS_NL | VIS_TAB))
    }

    /// The same for one that may be long: no more than 200 bytes of it.
    mutating func appendName(_ name: UnsafePointer<CChar>) {
        let length = Swift.min(strlen(name), 200)
        reserve(4 * length + 3)
        append("\"")
        count += Int(strvisx(bytes + count, name, length, VIS_CSTYLE | VIS_NL | VIS_TAB))
        append(name[length] == 0 ? "\"" : "…\"")
    }

    /// The code at an address: the name of a function, or the place in its file, where the file's debug information finds it.
    @inline(never)
    mutating func append(_ label: StaticString, function address: UnsafeRawPointer?) {
        append(label)
        var file: UnsafePointer<CChar>?
        var offset: UInt = 0
        if let name = rl_symbol(address, &file, &offset) {
            appendPrintable(name)
        } else if let file {
            appendPrintable(file)
            append("+0x", offset, radix: 16)
        } else {
            append(address: address)
        }
    }

    /// A number of things, with their plural where there is one.
    mutating func append(_ count: Int, _ thing: StaticString) {
        append(count)
        append(thing)
        if count != 1 { append("s") }
    }

    mutating func append(_ value: Int) {
        if value < 0 { append("-") }
        append(value.magnitude, radix: 10)
    }

    mutating func append(_ value: UInt, radix: UInt) {
        if value >= radix { append(value / radix, radix: radix) }
        let digit = UInt8(value % radix)
        reserve(1)
        bytes[count] = CChar(digit < 10 ? 48 + digit : 87 + digit)
        count += 1
    }

    mutating func append(address pointer: UnsafeRawPointer?) {
        append("0x")
        append(UInt(bitPattern: pointer), radix: 16)
    }

    mutating func append(_ value: Bool) {
        // Without its type a choice of two literals is a `String`, which brings in all of its machinery.
        let word: StaticString = value ? "Yes" : "No"
        append(word)
    }

    mutating func append(_ value: Double) {
        reserve(400)
        count += Int(rl_format_double(bytes + count, 400, value))
    }

    // A value with the text before it.

    mutating func append(_ label: StaticString, _ text: StaticString) {
        append(label)
        append(text)
    }

    mutating func append(_ label: StaticString, _ value: Int) {
        append(label)
        append(value)
    }

    mutating func append(_ label: StaticString, _ value: UInt, radix: UInt) {
        append(label)
        append(value, radix: radix)
    }

    mutating func append(_ label: StaticString, _ value: Bool) {
        append(label)
        append(value)
    }

    mutating func append(_ label: StaticString, _ value: Double) {
        append(label)
        append(value)
    }

    mutating func removeAll() { count = 0 }

    /// The text with a NUL at its end; it stays the buffer's.
    mutating func terminated() -> UnsafeMutablePointer<CChar> {
        reserve(1)
        bytes[count] = 0
        return bytes
    }

    func free() { CRunLoopLinux.free(bytes) }
}
