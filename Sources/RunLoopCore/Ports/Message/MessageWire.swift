// SPDX-License-Identifier: MIT
/// The format of what travels between message ports: Docs/wire-format.md, version 2.
///
/// A connection carries datagrams, each a header of 32 bytes and perhaps a payload. This file writes and reads them and knows in
/// which order they may come; it calls nothing, allocates nothing and reads no byte beyond the count it is given, so that it is
/// also built alone, for the fuzzer.
struct WireHeader {
    var kind: WireKind
    var flags: UInt8
    /// Connects a reply with its request; 0 for a message that wants none.
    var id: UInt32
    /// The msgid of a request, the status of a reply.
    var number: Int32
    /// Bytes of the payload, in the datagram or in memory.
    var length: UInt64
    /// The client's descriptors, which come after the one of the memory if there is one.
    var descriptors: UInt32

    static var size: Int { 32 }
    /// The version, and the first four bytes of every datagram, "RLMP".
    static var version: UInt16 { 2 }
    static var magic: UInt32 { 0x504d_4c52 }
    /// The payload is not in the datagram but in sealed memory, whose descriptor is the first that comes with it.
    static var inMemory: UInt8 { 1 << 0 }
    /// The sender waits for a reply.
    static var wantsReply: UInt8 { 1 << 1 }

    /// The payload comes in parts, which are the datagrams of kind `part` that follow on the connection.
    static var inParts: UInt8 { 1 << 2 }
    /// The part is in the sender's kept memory, whose descriptor comes with it, in the place that `number` gives.
    static var inKeptMemory: UInt8 { 1 << 3 }

    /// Kept memory is a page with a word for each place, not 0 while a part is in it, and then the places.
    static var places: Int { 8 }
    static var placeSize: Int { 512 << 10 }
    static var placesOffset: Int { 4096 }
    static func offsetOfWord(_ place: Int) -> Int { place * 64 }
    static func offset(ofPlace place: Int) -> Int { placesOffset + place * placeSize }
    static var keptSize: Int { offset(ofPlace: places) }

    /// The longest payload within a datagram; the longest at all (S-MSG-22); the longest name; the most client's descriptors.
    static var inlineLimit: Int { 32768 }
    static var lengthLimit: Int { 0x6000_0000 }
    static var nameLimit: Int { 128 }
    static var descriptorLimit: Int { 128 }
    /// Statuses of a reply.
    static var succeeded: Int32 { 0 }
    static var failed: Int32 { 1 }
}

/// What a datagram is.
enum WireKind: UInt8 {
    /// The first of a connection, from the side that connected: the name of the port that is meant.
    case hello = 1
    /// From the side that connected: a message.
    case request = 2
    /// From the side that accepted: the answer to a request that wants one.
    case reply = 3
    /// From both: the next part of the message that was begun last.
    case part = 4
}

/// Why a datagram is refused.
enum WireError {
    case tooShort
    case tooLong
    case notOurs
    case version
    case kind
    case flags
    case reserved
    case length
    case descriptors
    case identity
    case status
    case order
    case name
    case memory

    /// The reason for a log line.
    @inline(never)
    var words: StaticString {
        switch self {
        case .tooShort: "shorter than a header"
        case .tooLong: "longer than a datagram may be"
        case .notOurs: "not of this protocol"
        case .version: "of another version"
        case .kind: "of an unknown kind"
        case .flags: "with flags that it cannot have"
        case .reserved: "with reserved bytes in use"
        case .length: "with a length that is not its own"
        case .descriptors: "with descriptors that do not fit"
        case .identity: "with an id that does not fit"
        case .status: "with an unknown status"
        case .order: "out of order"
        case .name: "for another name"
        case .memory: "in memory that does not hold it"
        }
    }
}

/// The end of a connection that receives.
enum WireReceiver {
    /// Accepted the connection and does not know yet which name it is for.
    case awaitingHello
    /// Accepted it, and the name was right.
    case serving
    /// Made the connection: gets replies only.
    case requester
}

enum WireResult {
    case accepted(WireHeader)
    case refused(WireError)
}

extension WireHeader {
    /// Reads one datagram of `count` bytes that came with so many descriptors; nil if some were lost on the way.
    static func decode(_ bytes: UnsafePointer<UInt8>, count: Int, descriptors: Int?, by receiver: WireReceiver) -> WireResult {
        guard count >= size else { return .refused(.tooShort) }
        guard count <= size + inlineLimit else { return .refused(.tooLong) }
        guard load32(bytes, 0) == magic else { return .refused(.notOurs) }
        guard load16(bytes, 4) == version else { return .refused(.version) }
        guard let kind = WireKind(rawValue: bytes[6]) else { return .refused(.kind) }
        let header = WireHeader(
            kind: kind, flags: bytes[7], id: load32(bytes, 8), number: Int32(bitPattern: load32(bytes, 12)),
            length: UInt64(load32(bytes, 16)) | UInt64(load32(bytes, 20)) << 32, descriptors: load32(bytes, 24))
        guard load32(bytes, 28) == 0 else { return .refused(.reserved) }
        if let error = header.checkOrder(receiver) ?? header.checkPayload(count: count, descriptors: descriptors)
            ?? header.checkFields()
        {
            return .refused(error)
        }
        return .accepted(header)
    }

    private func checkOrder(_ receiver: WireReceiver) -> WireError? {
        switch (receiver, kind) {
        case (.awaitingHello, .hello), (.serving, .request), (.serving, .part), (.requester, .reply), (.requester, .part): nil
        default: .order
        }
    }

    private func checkPayload(count: Int, descriptors received: Int?) -> WireError? {
        guard length <= UInt64(WireHeader.lengthLimit) else { return .length }
        guard descriptors <= UInt32(WireHeader.descriptorLimit) else { return .descriptors }
        if flags & WireHeader.inParts != 0 {
            guard length > 0, count == WireHeader.size else { return .length }
            return received == nil || received == Int(descriptors) ? nil : .descriptors
        }
        if flags & (WireHeader.inMemory | WireHeader.inKeptMemory) != 0 {
            guard length > 0, count == WireHeader.size else { return .length }
            return received == nil || received == Int(descriptors) + 1 ? nil : .descriptors
        }
        guard count == WireHeader.size + Int(length) else { return .length }
        return received == nil || received == Int(descriptors) ? nil : .descriptors
    }

    private func checkFields() -> WireError? {
        switch kind {
        case .hello:
            guard flags == 0 else { return .flags }
            guard id == 0, number == 0 else { return .identity }
            guard length <= UInt64(WireHeader.nameLimit) else { return .length }
            return descriptors == 0 ? nil : .descriptors
        case .request:
            guard hasOnePayload, flags & ~(WireHeader.inMemory | WireHeader.wantsReply | WireHeader.inParts) == 0
            else { return .flags }
            return (flags & WireHeader.wantsReply != 0) == (id != 0) ? nil : .identity
        case .reply:
            guard hasOnePayload, flags & ~(WireHeader.inMemory | WireHeader.inParts) == 0 else { return .flags }
            guard id != 0 else { return .identity }
            guard descriptors == 0 else { return .descriptors }
            guard number == WireHeader.succeeded || number == WireHeader.failed else { return .status }
            return number == WireHeader.succeeded || length == 0 ? nil : .length
        case .part:
            guard flags == WireHeader.inMemory || flags == WireHeader.inKeptMemory else { return .flags }
            guard id == 0 else { return .identity }
            guard descriptors == 0 else { return .descriptors }
            if flags == WireHeader.inMemory { return number == 0 ? nil : .identity }
            guard number >= 0, number < Int32(WireHeader.places) else { return .identity }
            return length <= UInt64(WireHeader.placeSize) ? nil : .length
        }
    }

    private var hasOnePayload: Bool { flags & (WireHeader.inMemory | WireHeader.inParts) != WireHeader.inMemory | WireHeader.inParts }

    /// Writes the header's 32 bytes.
    func encode(_ bytes: UnsafeMutablePointer<UInt8>) {
        store32(bytes, 0, WireHeader.magic)
        bytes[4] = UInt8(truncatingIfNeeded: WireHeader.version)
        bytes[5] = UInt8(truncatingIfNeeded: WireHeader.version >> 8)
        bytes[6] = kind.rawValue
        bytes[7] = flags
        store32(bytes, 8, id)
        store32(bytes, 12, UInt32(bitPattern: number))
        store32(bytes, 16, UInt32(truncatingIfNeeded: length))
        store32(bytes, 20, UInt32(truncatingIfNeeded: length >> 32))
        store32(bytes, 24, descriptors)
        store32(bytes, 28, 0)
    }
}

// Numbers are little-endian, at any address.

private func load16(_ bytes: UnsafePointer<UInt8>, _ offset: Int) -> UInt16 {
    UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
}

private func load32(_ bytes: UnsafePointer<UInt8>, _ offset: Int) -> UInt32 {
    UInt32(load16(bytes, offset)) | UInt32(load16(bytes, offset + 2)) << 16
}

private func store32(_ bytes: UnsafeMutablePointer<UInt8>, _ offset: Int, _ value: UInt32) {
    for index in 0..<4 { bytes[offset + index] = UInt8(truncatingIfNeeded: value >> UInt32(8 * index)) }
}
