// SPDX-License-Identifier: MIT
/// How a message of a ``MessagePort`` is written down: the bytes of a C message port's message.
///
///     8 bytes   "RLKport1"
///     2 bytes   length of the name of the reply port, 0 for none, then the name
///     4 bytes   number of components
///     each      1 byte kind (0 data, 1 port), 4 bytes length, then the data or the port's name
///
/// Numbers are little endian. A message that does not begin so, or does not end where it says, is C code's, and is
/// one component of data. What comes from a peer is not trusted: nothing is reserved on the word of a number in it. There are
/// at most `partLimit` components, since each costs a receiver more than the five bytes that it costs the peer, and among them at
/// most `portLimit` ports, since an object is made for each. This file calls nothing, so that the fuzzer in Tests/Fuzz runs it alone.
enum MessageCoding {
    private static var mark: String.UTF8View { "RLKport1".utf8 }
    /// The most ports that a message carries.
    static let portLimit = 1024
    /// The most components that a message has, the ports among them.
    static let partLimit = 65536

    enum Part: Equatable {
        case data([UInt8])
        case port(name: [UInt8])
    }

    static func encode(_ parts: [Part], replyName: [UInt8]) -> [UInt8]? {
        guard replyName.count <= UInt16.max, parts.count <= partLimit, let count = UInt32(exactly: parts.count) else { return nil }
        var bytes = Array(mark)
        append(UInt16(replyName.count), to: &bytes)
        bytes += replyName
        append(count, to: &bytes)
        var ports = 0
        for part in parts {
            if case .port = part { ports += 1 }
            let (kind, content): (UInt8, [UInt8]) =
                switch part {
                case .data(let data): (0, data)
                case .port(let name): (1, name)
                }
            guard let length = UInt32(exactly: content.count) else { return nil }
            bytes.append(kind)
            append(length, to: &bytes)
            bytes += content
        }
        return ports <= portLimit ? bytes : nil
    }

    /// Nil if the bytes are no such message.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> (parts: [Part], replyName: [UInt8])? {
        var rest = bytes[...]
        guard take(mark.count, from: &rest).map({ $0.elementsEqual(mark) }) == true,
            let nameLength = number(UInt16.self, from: &rest),
            let replyName = take(Int(nameLength), from: &rest),
            let count = number(UInt32.self, from: &rest), count <= partLimit
        else { return nil }
        var parts: [Part] = []
        var ports = 0
        // Each part takes some bytes, so that a wrong count ends the loop with them.
        for _ in 0..<count {
            guard let kind = number(UInt8.self, from: &rest), kind <= 1,
                let length = number(UInt32.self, from: &rest),
                let content = take(Int(length), from: &rest)
            else { return nil }
            ports += Int(kind)
            if ports > portLimit { return nil }
            parts.append(kind == 0 ? .data(Array(content)) : .port(name: Array(content)))
        }
        return rest.isEmpty ? (parts, Array(replyName)) : nil
    }

    private static func append<Number: FixedWidthInteger>(_ number: Number, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
    }

    private static func take(
        _ count: Int, from rest: inout Slice<UnsafeRawBufferPointer>
    ) -> Slice<UnsafeRawBufferPointer>? {
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    private static func number<Number: FixedWidthInteger>(
        _: Number.Type, from rest: inout Slice<UnsafeRawBufferPointer>
    ) -> Number? {
        guard let bytes = take(MemoryLayout<Number>.size, from: &rest) else { return nil }
        return Number(littleEndian: UnsafeRawBufferPointer(rebasing: bytes).loadUnaligned(as: Number.self))
    }
}
