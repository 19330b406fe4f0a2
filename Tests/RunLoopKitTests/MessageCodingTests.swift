// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The same numbers from the same seed.
private struct Seeded: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state &* 0x2545_F491_4F6C_DD1D
    }
}

/// Memory that ends where nothing may be read: a byte too far is a fault.
private final class GuardedMemory {
    private static let size = 1 << 16
    private let start: UnsafeMutableRawPointer

    init() {
        let page = Int(getpagesize())
        start = mmap(nil, GuardedMemory.size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)!
        precondition(mprotect(start + GuardedMemory.size, page, PROT_NONE) == 0)
    }

    /// Calls `body` with the bytes at the end of the memory.
    func with<Result>(_ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        let place = start + GuardedMemory.size - bytes.count
        bytes.withUnsafeBytes { if let address = $0.baseAddress { place.copyMemory(from: address, byteCount: bytes.count) } }
        return body(UnsafeRawBufferPointer(start: place, count: bytes.count))
    }

    deinit { munmap(start, GuardedMemory.size + Int(getpagesize())) }
}

extension Seeded {
    fileprivate mutating func bytes(upTo limit: Int) -> [UInt8] {
        (0..<Int.random(in: 0...limit, using: &self)).map { _ in UInt8.random(in: .min ... .max, using: &self) }
    }

    fileprivate mutating func parts() -> [MessageCoding.Part] {
        (0..<Int.random(in: 0...6, using: &self)).map { _ in
            let content = bytes(upTo: Bool.random(using: &self) ? 12 : 80)
            return Bool.random(using: &self) ? .data(content) : .port(name: content)
        }
    }

    /// The message with a few of the things that a peer can do to it.
    fileprivate mutating func mutated(_ message: [UInt8]) -> [UInt8] {
        var message = message
        for _ in 0..<Int.random(in: 1...4, using: &self) {
            guard !message.isEmpty else { break }
            let place = Int.random(in: 0..<message.count, using: &self)
            switch Int.random(in: 0..<6, using: &self) {
            case 0: message[place] = UInt8.random(in: .min ... .max, using: &self)
            case 1: message.removeLast(message.count - place)
            case 2: message += bytes(upTo: 20)
            case 3: message.insert(contentsOf: bytes(upTo: 6), at: place)
            case 4: message.remove(at: place)
            default:
                // A number of extreme size, most often where numbers are.
                let number: [UInt8] = [[0xFF, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0x80], [0xFF, 0xFF, 0xFF, 0x7F], [0, 0, 0, 0]]
                    .randomElement(using: &self)!
                let start = Bool.random(using: &self) ? min(place, 18) : place
                for (index, byte) in number.enumerated() where start + index < message.count { message[start + index] = byte }
            }
        }
        return message
    }
}

/// What message ports and socket ports read from a peer that nobody knows.
@Suite struct MessageCodingTests {
    @Test("What is written is read again: S-NSP-6", arguments: [1, 2] as [UInt64])
    func roundTrip(seed: UInt64) {
        var random = Seeded(seed)
        let memory = GuardedMemory()
        for _ in 0..<1000 {
            let (parts, name) = (random.parts(), random.bytes(upTo: 40))
            let read = memory.with(MessageCoding.encode(parts, replyName: name)!) { MessageCoding.decode($0) }
            if read?.parts != parts || read?.replyName != name { Issue.record("seed \(seed): \(parts)") }
        }
    }

    @Test("Cut and changed messages are read to their ends and no further, and give nothing that is not in them: S-NSP-6",
        arguments: [11, 12, 13, 14] as [UInt64])
    func mutations(seed: UInt64) {
        var random = Seeded(seed)
        let memory = GuardedMemory()
        var accepted = 0
        for _ in 0..<10_000 {
            let bytes = random.mutated(MessageCoding.encode(random.parts(), replyName: random.bytes(upTo: 40))!)
            guard let read = memory.with(bytes, { MessageCoding.decode($0) }) else { continue }
            accepted += 1
            // The same bytes come of it: nothing was made up, and nothing is longer than what came.
            if MessageCoding.encode(read.parts, replyName: read.replyName) != bytes { Issue.record("seed \(seed): \(bytes)") }
        }
        // The mutations reach both answers.
        #expect(accepted > 100 && accepted < 9_900)
    }

    @Test("Every beginning of a message is refused, and so is a message with more ports than one may have: S-NSP-6")
    func limits() {
        let memory = GuardedMemory()
        let whole = MessageCoding.encode([.data([1, 2, 3]), .port(name: [4]), .data([])], replyName: [5, 6])!
        for length in 0..<whole.count {
            #expect(memory.with(Array(whole.prefix(length))) { MessageCoding.decode($0) } == nil)
        }
        #expect(memory.with(whole) { MessageCoding.decode($0) } != nil)
        let ports = [MessageCoding.Part](repeating: .port(name: []), count: MessageCoding.portLimit)
        let most = MessageCoding.encode(ports, replyName: [])!
        #expect(memory.with(most) { MessageCoding.decode($0) }?.parts.count == MessageCoding.portLimit)
        #expect(MessageCoding.encode(ports + [.port(name: [])], replyName: []) == nil)
        var more = most + [1, 0, 0, 0, 0]
        more[10] = 1
        #expect(memory.with(more) { MessageCoding.decode($0) } == nil)
    }

    @Test("A message of too many parts is not written, and is read as bytes, which cost the receiver no more: S-NSP-19, S-MSG-42")
    func manyParts() {
        let parts = [MessageCoding.Part](repeating: .data([]), count: MessageCoding.partLimit)
        let most = MessageCoding.encode(parts, replyName: [])!
        #expect(most.withUnsafeBytes { MessageCoding.decode($0) }?.parts.count == MessageCoding.partLimit)
        #expect(MessageCoding.encode(parts + [.data([])], replyName: []) == nil)
        var more = most + [0, 0, 0, 0, 0]
        // 65,536 and one.
        more[10] = 1
        #expect(more.withUnsafeBytes { MessageCoding.decode($0) } == nil)
        let message = more
        let received = onNewThread { () -> [[UInt8]]? in
            nonisolated(unsafe) var last: [Any]?
            let port = MessagePort()
            let receiver = Receiver { last = $0.components }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            let many = [[UInt8]](repeating: [], count: MessageCoding.partLimit + 1)
            #expect(!port.send(before: .now, components: many, from: nil, reserved: 0))
            try! port.post(message)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            port.invalidate()
            return withExtendedLifetime(receiver) { last as? [[UInt8]] }
        }
        #expect(received == [message])
    }

    @Test("Frames of sockets with anything in them make ports that can be sent to, or none: S-NSP-17", arguments: [21, 22] as [UInt64])
    func frames(seed: UInt64) {
        var random = Seeded(seed)
        var decoded = 0
        for _ in 0..<2000 {
            let place = SocketSignature(
                protocolFamily: 2, socketType: 1, protocol: 0, address: SocketSignature.ipv4(0x7F00_0001, port: 1)).bytes
            let parts: [MessageCoding.Part] = [.data(random.bytes(upTo: 9)), .port(name: random.mutated(place))]
            let payload = MessageCoding.encode(parts, replyName: random.mutated(place))!
            guard let message = SocketFrame.decode(msgid: 1, payload) else { continue }
            decoded += 1
            for case .port(let port as SocketPort) in message.components where port.address.isEmpty { Issue.record("no address") }
            _ = SocketFrame.decode(msgid: 1, random.mutated(payload))
        }
        #expect(decoded > 100)
    }

    @Test("A message port gives on what it cannot read as one component of bytes, whatever that is: S-NSP-6, S-MSG-13")
    func deliveredAsBytes() {
        let different = onNewThread { () -> Int in
            var random = Seeded(31)
            nonisolated(unsafe) var last: [Any]?
            var different = 0
            let port = MessagePort()
            let receiver = Receiver { last = $0.components }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            for _ in 0..<300 {
                let bytes = random.mutated(MessageCoding.encode([.data(random.bytes(upTo: 30))], replyName: [])!)
                let read = bytes.withUnsafeBytes { MessageCoding.decode($0) }
                try! port.post(bytes)
                RunLoop.current.run(mode: .default, before: .distantFuture)
                if read == nil, (last as? [[UInt8]]) != (bytes.isEmpty ? [] : [bytes]) { different += 1 }
            }
            port.invalidate()
            return withExtendedLifetime(receiver) { different }
        }
        #expect(different == 0)
    }
}

private final class Receiver: PortDelegate, @unchecked Sendable {
    private let body: (PortMessage) -> Void

    init(_ body: @escaping (PortMessage) -> Void) { self.body = body }

    func handle(_ message: PortMessage) { body(message) }
}
