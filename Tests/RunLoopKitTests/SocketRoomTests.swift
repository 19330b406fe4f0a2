// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

private final class Receiver: PortDelegate, @unchecked Sendable {
    private let body: (PortMessage) -> Void

    init(_ body: @escaping (PortMessage) -> Void) { self.body = body }

    func handle(_ message: PortMessage) { body(message) }
}

/// The number at which a local port listens.
private func number(of port: SocketPort) -> UInt16 { UInt16(port.address[2]) << 8 | UInt16(port.address[3]) }

/// A connection to a port that sends one message a part at a time.
private final class Peer {
    private var descriptor: CInt
    private let message: [UInt8]
    private(set) var sent = 0

    /// - Parameter length: of the data in the message.
    init(to port: SocketPort, length: Int) {
        message = SocketFrame.encode(msgid: 7, [.data([UInt8](repeating: 1, count: length))], reply: [])!
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var room: CInt = 65536
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<CInt>.size))
        let address = RunLoop.Socket.Address.ipv4("127.0.0.1", port: number(of: port))!.bytes
        let status = address.withUnsafeBytes {
            connect(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
        }
        precondition(status == 0)
    }

    /// Sends as much of the first bytes of the message as there is room for.
    func send(upTo end: Int = .max) {
        let end = min(end, message.count)
        if sent == end { return }
        let count = message.withUnsafeBytes {
            Glibc.send(descriptor, $0.baseAddress! + sent, end - sent, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
        if count > 0 { sent += count }
    }

    /// Whether the other side has closed the connection, after a wait of so many milliseconds at most; -1 for no limit.
    func isClosed(_ milliseconds: CInt = 0) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, milliseconds) == 1
    }

    /// As its process would end.
    func end() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    deinit { end() }
}

/// What a listening port keeps of messages that have begun.
@Suite(.timeLimit(.minutes(10))) struct SocketRoomTests {
    private static let mebibyte = 1 << 20

    /// A port with a small bound, whose connections keep little in the system.
    private static func listener(silence: Duration, _ receiver: Receiver) -> SocketPort {
        let port = SocketPort()
        var room: CInt = 65536
        setsockopt(port.socket, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<CInt>.size))
        port.listener!.limits.all = mebibyte
        port.listener!.limits.silence = silence
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        return port
    }

    @Test("All messages that have begun are bounded together; peers without room wait, and none is lost: S-NSP-21")
    func bound() {
        let (most, received) = onNewThread { () -> (Int, [Int]) in
            nonisolated(unsafe) var received: [Int] = []
            let receiver = Receiver { received.append(($0.components![0] as! [UInt8]).count) }
            let port = SocketRoomTests.listener(silence: .seconds(1_000_000), receiver)
            let length = 4 * SocketRoomTests.mebibyte
            let peers = (0..<8).map { _ in Peer(to: port, length: length) }
            var most = 0
            // All but the last bytes, as far as the port takes them; it takes those of one.
            var rounds = 0
            while rounds < 200 {
                for peer in peers { peer.send(upTo: length) }
                RunLoop.current.run(mode: .default, for: .zero, returnAfterSourceHandled: true)
                most = max(most, peers.reduce(0) { $0 + $1.sent })
                if peers.contains(where: { $0.sent == length }) { rounds += 1 }
            }
            while received.count < peers.count {
                for peer in peers { peer.send() }
                RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true)
            }
            #expect(!peers.contains { $0.isClosed() })
            port.invalidate()
            return withExtendedLifetime(receiver) { (most, received) }
        }
        #expect(received == [Int](repeating: 4 * SocketRoomTests.mebibyte, count: 8))
        // One message, the bound, and what the system and each connection may keep: without a bound it would be 32.
        #expect(most < 14 * SocketRoomTests.mebibyte)
    }

    @Test("A peer that pauses in a message keeps its connection while there is room; for one without room it is closed: S-NSP-21")
    func silence() {
        let (paused, isClosed, received) = onNewThread { () -> (Bool, Bool, [Int]) in
            nonisolated(unsafe) var received: [Int] = []
            let receiver = Receiver { received.append(($0.components![0] as! [UInt8]).count) }
            let port = SocketRoomTests.listener(silence: .zero, receiver)
            func run(until isEnough: () -> Bool) {
                while !isEnough() { RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true) }
            }
            let length = 3 * SocketRoomTests.mebibyte
            let silent = Peer(to: port, length: length)
            let half = SocketRoomTests.mebibyte / 2
            func kept() -> Int { port.listener!.keptBytes }
            run { silent.send(upTo: half); return kept() == half }
            // As much as there is room for beside it.
            let small = Peer(to: port, length: half / 2)
            run { small.send(); return received.count == 1 }
            let paused = !silent.isClosed()
            run { silent.send(upTo: 2 * SocketRoomTests.mebibyte); return kept() == 2 * SocketRoomTests.mebibyte }
            // Now there is none, but for messages that are short.
            let short = Peer(to: port, length: 1000)
            run { short.send(); return received.count == 2 }
            #expect(!silent.isClosed())
            let other = Peer(to: port, length: length)
            run { other.send(); return received.count == 3 }
            port.invalidate()
            return withExtendedLifetime(receiver) { (paused, silent.isClosed(), received) }
        }
        #expect(paused)
        #expect(isClosed)
        #expect(received == [SocketRoomTests.mebibyte / 4, 1000, 3 * SocketRoomTests.mebibyte])
    }

    @Test("A peer that is silent just when there was no room for what it has not sent is closed like any other: S-NSP-21")
    func silenceWithoutRoom() {
        let isClosed = onNewThread { () -> Bool in
            let receiver = Receiver { _ in }
            let port = SocketRoomTests.listener(silence: .seconds(1_000_000), receiver)
            let listener = port.listener!
            func run(until isEnough: () -> Bool) {
                while !isEnough() { RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true) }
            }
            let length = 3 * SocketRoomTests.mebibyte, part = SocketRoomTests.mebibyte / 4
            let (silent, favoured) = (Peer(to: port, length: length), Peer(to: port, length: length))
            run { silent.send(upTo: part); favoured.send(upTo: part); return listener.keptBytes == 2 * part }
            // The one message that finds room.
            listener.limits.all = 0
            run { favoured.send(upTo: part + 1); return listener.keptBytes == 2 * part + 1 }
            // Room for one more portion, and after the next byte for none.
            listener.limits.all = part - listener.limits.free + 65536
            run { silent.send(upTo: part + 1); return listener.keptBytes == 2 * part + 2 }
            listener.limits.all = 0
            listener.limits.silence = .zero
            // The first of these takes the place of the favoured one, so the second one has to get the silent one's.
            let others = [Peer(to: port, length: length), Peer(to: port, length: length)]
            for other in others {
                run { other.send(upTo: part); return favoured.isClosed() }
            }
            run {
                for other in others { other.send(upTo: part) }
                return silent.isClosed() || others.contains { $0.isClosed() }
            }
            let isClosed = silent.isClosed()
            port.invalidate()
            return withExtendedLifetime(receiver) { isClosed }
        }
        #expect(isClosed)
    }

    @Test("The end of a peer in the middle of its message makes room, also when there is none for what it has not sent: S-NSP-21")
    func deadWithoutRoom() {
        let kept = onNewThread { () -> (Int, [Int]) in
            nonisolated(unsafe) var received: [Int] = []
            let receiver = Receiver { received.append(($0.components![0] as! [UInt8]).count) }
            let port = SocketRoomTests.listener(silence: .seconds(1_000_000), receiver)
            let listener = port.listener!
            func run(until isEnough: () -> Bool) {
                while !isEnough() { RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true) }
            }
            let length = 3 * SocketRoomTests.mebibyte, part = SocketRoomTests.mebibyte / 4
            let (dead, whole, favoured) = (Peer(to: port, length: length), Peer(to: port, length: part + 8000), Peer(to: port, length: length))
            for (index, peer) in [dead, whole, favoured].enumerated() {
                run { peer.send(upTo: part); return listener.keptBytes == (index + 1) * part }
            }
            listener.limits.all = 0
            run { favoured.send(upTo: part + 1); return listener.keptBytes == 3 * part + 1 }
            // The rest of this one's message has come before its end.
            whole.send()
            whole.end()
            dead.end()
            run { listener.keptBytes == 2 * part + 1 }
            let early = received.count
            run { favoured.send(); return received.count == 2 }
            port.invalidate()
            return withExtendedLifetime(receiver) { (early, received) }
        }
        #expect(kept.0 == 0)
        #expect(kept.1 == [3 * SocketRoomTests.mebibyte, SocketRoomTests.mebibyte / 4 + 8000])
    }

    @Test("The message that always finds room takes none from the others: S-NSP-21")
    func besides() {
        let (kept, received) = onNewThread { () -> (Int, [Int]) in
            nonisolated(unsafe) var received: [Int] = []
            let receiver = Receiver { received.append(($0.components![0] as! [UInt8]).count) }
            let port = SocketRoomTests.listener(silence: .seconds(1_000_000), receiver)
            let listener = port.listener!
            func run(until isEnough: () -> Bool) {
                while !isEnough() { RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true) }
            }
            let length = 3 * SocketRoomTests.mebibyte, part = SocketRoomTests.mebibyte / 4
            let (favoured, other) = (Peer(to: port, length: length), Peer(to: port, length: 2 * part))
            listener.limits.all = 0
            run { favoured.send(upTo: length); return listener.keptBytes == length }
            listener.limits.all = SocketRoomTests.mebibyte
            run { other.send(); return received.count == 1 }
            let kept = listener.keptBytes
            port.invalidate()
            return withExtendedLifetime(receiver) { (kept, received) }
        }
        #expect(kept == 3 * SocketRoomTests.mebibyte)
        #expect(received == [SocketRoomTests.mebibyte / 2])
    }

    @Test("A message with too many parts closes its connection, and is not sent: S-NSP-19, S-NSP-21")
    func parts() {
        let (isSent, received) = onNewThread { () -> ([Bool], Int) in
            nonisolated(unsafe) var received = 0
            let receiver = Receiver { received += $0.components!.count }
            let port = SocketRoomTests.listener(silence: .seconds(10), receiver)
            let remote = SocketPort(remoteWithTCPPort: number(of: port), host: nil)!
            var isSent: [Bool] = []
            for count in [MessageCoding.partLimit + 1, MessageCoding.partLimit] {
                let parts = [[UInt8]](repeating: [], count: count)
                let sender = TestThread { remote.send(before: .distantFuture, components: parts, from: nil, reserved: 0) }
                while count == MessageCoding.partLimit, received == 0 { RunLoop.current.run(mode: .default, before: .distantFuture) }
                isSent.append(sender.join())
            }
            port.invalidate()
            return withExtendedLifetime(receiver) { (isSent, received) }
        }
        #expect(isSent == [false, true])
        #expect(received == MessageCoding.partLimit)
    }
}
