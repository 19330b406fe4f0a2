// SPDX-License-Identifier: MIT
// The fuzzer's entry: Sources/RunLoopKit/Ports/MessageCoding.swift, alone, against bytes that a coverage-guided fuzzer makes.
//
// The input is a message. It lies in memory of exactly its own length, so that the address sanitizer sees a read beyond it.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> CInt {
    let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 1)
    defer { copy.deallocate() }
    copy.copyMemory(from: UnsafeRawBufferPointer(start: data, count: size))
    guard let message = MessageCoding.decode(UnsafeRawBufferPointer(copy)) else { return 0 }

    // What is decoded was there: no more than the input has, and written down it gives the same bytes.
    var length = message.replyName.count
    var ports = 0
    for part in message.parts {
        switch part {
        case .data(let bytes): length += 5 + bytes.count
        case .port(let name):
            length += 5 + name.count
            ports += 1
        }
    }
    precondition(length + 14 == size)
    precondition(ports <= MessageCoding.portLimit)
    let written = MessageCoding.encode(message.parts, replyName: message.replyName)
    precondition(written.map { $0.elementsEqual(copy) } == true)
    return 0
}
