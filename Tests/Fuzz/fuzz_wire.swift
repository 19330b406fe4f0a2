// SPDX-License-Identifier: MIT
// The fuzzer's entry: Sources/RunLoopCore/Ports/Message/MessageWire.swift, alone, against bytes that a coverage-guided fuzzer makes.
//
// The input is a connection: byte 0 says who receives (0: accepted it, 1: made it), then come datagrams, each a length of two
// bytes, the number of descriptors that came with it (255: some were lost), and the bytes. Every datagram lies in memory of
// exactly its own length, so that the address sanitizer sees a read beyond it.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> CInt {
    guard size > 0 else { return 0 }
    var receiver: WireReceiver = data[0] & 1 == 0 ? .awaitingHello : .requester
    var offset = 1
    while offset + 3 <= size {
        let length = min(Int(data[offset]) | Int(data[offset + 1]) << 8, size - offset - 3)
        let descriptors: Int? = data[offset + 2] == 255 ? nil : Int(data[offset + 2])
        let datagram = UnsafeMutablePointer<UInt8>.allocate(capacity: max(length, 1))
        datagram.update(from: data + offset + 3, count: length)
        let result = WireHeader.decode(datagram, count: length, descriptors: descriptors, by: receiver)
        if case .accepted(let header) = result {
            check(header, datagram, length, descriptors, receiver)
            if header.kind == .hello { receiver = .serving }
        }
        datagram.deallocate()
        // A connection is closed after the first datagram that is refused.
        if case .refused(let error) = result {
            _ = error.words
            return 0
        }
        offset += 3 + length
    }
    return 0
}

/// What holds for every datagram that is accepted; and writing what was read gives the same bytes.
private func check(
    _ header: WireHeader, _ bytes: UnsafePointer<UInt8>, _ count: Int, _ descriptors: Int?, _ receiver: WireReceiver
) {
    precondition(header.length <= UInt64(WireHeader.lengthLimit))
    precondition(header.descriptors <= UInt32(WireHeader.descriptorLimit))
    let inMemory = header.flags & (WireHeader.inMemory | WireHeader.inKeptMemory) != 0
    let isElsewhere = inMemory || header.flags & WireHeader.inParts != 0
    precondition(count == WireHeader.size + (isElsewhere ? 0 : Int(header.length)))
    precondition(!isElsewhere || header.length > 0)
    precondition(descriptors.map { $0 == Int(header.descriptors) + (inMemory ? 1 : 0) } ?? true)
    switch receiver {
    case .awaitingHello: precondition(header.kind == .hello && header.length <= 128)
    case .serving: precondition(header.kind == .request || header.kind == .part)
    case .requester: precondition(header.kind == .reply && header.id != 0 || header.kind == .part)
    }
    // What is read out of kept memory lies within it.
    if header.flags & WireHeader.inKeptMemory != 0 {
        precondition(header.kind == .part && header.number >= 0)
        precondition(WireHeader.offset(ofPlace: Int(header.number)) + Int(header.length) <= WireHeader.keptSize)
        precondition(WireHeader.offsetOfWord(Int(header.number)) + 4 <= WireHeader.placesOffset)
    }
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: WireHeader.size) { written in
        header.encode(written.baseAddress!)
        for index in 0..<WireHeader.size { precondition(written[index] == bytes[index]) }
    }
}
