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

/// The close of such a socket takes so many seconds.
private let linger: CInt = 100

/// A TCP socket whose peer reads nothing, with much to send, and the peer.
private func makeLingeringSocket() -> (socket: CInt, peer: CInt) {
    let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
    precondition(listen(listener, 1) == 0)
    connect(descriptor, to: RunLoop.Socket.Address.ipv4("127.0.0.1", port: 0)!.with(port: listener))
    let peer = accept(listener, nil, nil)
    close(listener)
    let bytes = [UInt8](repeating: 1, count: 65536)
    while send(descriptor, bytes, bytes.count, CInt(MSG_DONTWAIT)) > 0 {}
    var option = Glibc.linger(l_onoff: 1, l_linger: linger)
    precondition(setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout.size(ofValue: option))) == 0)
    return (descriptor, peer)
}

private func connect(_ descriptor: CInt, to address: [UInt8]) {
    let status = address.withUnsafeBytes {
        connect(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
    }
    precondition(status == 0)
}

extension RunLoop.Socket.Address {
    /// At the number of a listening socket.
    fileprivate func with(port listener: CInt) -> [UInt8] {
        var bytes = bytes
        bytes.replaceSubrange(2..<4, with: SocketCalls.localAddress(listener)[2..<4])
        return bytes
    }
}

/// Local sockets whose peer sends descriptors that make their last close wait.
@Suite(.timeLimit(.minutes(5))) struct PeerDescriptorTests {
    /// The peers, which end each wait when they are closed.
    private final class Peers {
        var all: [CInt] = []

        /// Sends bytes with a lingering socket, whose last close is the receiver's, behind others.
        func send(_ bytes: [UInt8], through descriptor: CInt, behind count: Int = 0) {
            let (socket, peer) = makeLingeringSocket()
            all.append(peer)
            let others = (0..<count).map { _ in dup(peer) }
            let descriptors = others + [socket]
            let length = MemoryLayout<cmsghdr>.size + 4 * descriptors.count
            var control = [UInt64](repeating: 0, count: (length + 7) / 8)
            control.withUnsafeMutableBytes { control in
                control.storeBytes(of: length, as: Int.self)
                control.storeBytes(of: SOL_SOCKET, toByteOffset: 8, as: CInt.self)
                // SCM_RIGHTS
                control.storeBytes(of: 1, toByteOffset: 12, as: CInt.self)
                for (index, descriptor) in descriptors.enumerated() {
                    control.storeBytes(of: descriptor, toByteOffset: 16 + 4 * index, as: CInt.self)
                }
            }
            var bytes = bytes
            let sent = bytes.withUnsafeMutableBytes { bytes in
                control.withUnsafeMutableBytes { control in
                    var portion = iovec(iov_base: bytes.baseAddress, iov_len: bytes.count)
                    return withUnsafeMutablePointer(to: &portion) { portion in
                        var header = msghdr()
                        header.msg_iov = portion
                        header.msg_iovlen = 1
                        header.msg_control = control.baseAddress
                        header.msg_controllen = numericCast(control.count)
                        return sendmsg(descriptor, &header, CInt(MSG_NOSIGNAL))
                    }
                }
            }
            precondition(sent == bytes.count)
            for descriptor in descriptors { close(descriptor) }
        }

        deinit { for peer in all { close(peer) } }
    }

    /// Whether none of it waited for the close of a socket. Each of these waits takes ``linger``.
    private static func isQuick(_ body: () -> Void) -> Bool {
        let begin = ContinuousClock.now
        body()
        return ContinuousClock.now - begin < .seconds(Int64(linger) / 2)
    }

    private static func freeAddress() -> (path: String, bytes: [UInt8]) {
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        return (path, RunLoop.Socket.Address.unix(path)!.bytes)
    }

    private static func openSocket(_ type: CInt) -> CInt { socket(AF_UNIX, type | CInt(SOCK_CLOEXEC.rawValue), 0) }

    @Test(
        "Sockets that a peer sends to a local port hold nobody up, neither when they come nor in the queue of a connection that is closed: S-NSP-23",
        arguments: [SocketCalls.stream, SocketCalls.datagram])
    func ports(type: CInt) {
        let (isQuick, isClosedQuickly, received) = onNewThread { () -> (Bool, Bool, Int) in
            let peers = Peers()
            nonisolated(unsafe) var received = 0
            let receiver = Receiver { _ in received += 1 }
            let (path, address) = PeerDescriptorTests.freeAddress()
            let port = SocketPort(protocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address)!
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            let peer = PeerDescriptorTests.openSocket(type)
            connect(peer, to: address)
            let message = SocketFrame.encode(msgid: 7, [.data([1])], reply: [])!
            // As many as may be sent together.
            peers.send(message, through: peer, behind: 252)
            let isQuick = PeerDescriptorTests.isQuick { while received == 0 { RunLoop.current.run(mode: .default, before: .distantFuture) } }
            // The last of these are never read, nor is the other connection ever accepted.
            for _ in 0..<2 { peers.send(message, through: peer) }
            let other = PeerDescriptorTests.openSocket(type)
            connect(other, to: address)
            peers.send(message, through: other)
            let isClosedQuickly = PeerDescriptorTests.isQuick {
                port.invalidate()
                RunLoop.current.run(mode: .default, for: .zero)
            }
            for descriptor in [peer, other] { close(descriptor) }
            unlink(path)
            return withExtendedLifetime((receiver, peers)) { (isQuick, isClosedQuickly, received) }
        }
        #expect(isQuick)
        #expect(isClosedQuickly)
        #expect(received == 1)
    }

    @Test("Nor do those that the receiver of a port's messages sends back to a sender: S-NSP-23")
    func senders() {
        let (isQuick, sent) = onNewThread { () -> (Bool, [Bool]) in
            let peers = Peers()
            let (path, address) = PeerDescriptorTests.freeAddress()
            let listener = PeerDescriptorTests.openSocket(SocketCalls.stream)
            let status = address.withUnsafeBytes {
                bind(listener, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
            }
            precondition(status == 0 && listen(listener, 5) == 0)
            let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: SocketCalls.stream, protocol: 0, address: address)
            var sent: [Bool] = []
            var connections: [CInt] = []
            let isQuick = PeerDescriptorTests.isQuick {
                for _ in 0..<2 {
                    sent.append(remote.send(before: .distantFuture, components: nil, from: nil, reserved: 0))
                    // Something to read means the end of a connection, so each message has one.
                    let connection = accept(listener, nil, nil)
                    connections.append(connection)
                    for _ in 0..<2 { peers.send([1], through: connection) }
                }
                remote.invalidate()
            }
            for descriptor in connections + [listener] { close(descriptor) }
            unlink(path)
            return withExtendedLifetime(peers) { (isQuick, sent) }
        }
        #expect(isQuick)
        #expect(sent == [true, true])
    }

    @Test("Nor do those that come to a stream of bytes, read or not: S-NSP-23")
    func streams() async throws {
        let peers = Peers()
        let thread = RunLoopThread()
        try thread.start()
        var ends: [CInt] = [0, 0]
        precondition(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        let stream = RunLoop.ByteStream(takingOver: ends[0], on: thread.loop)
        peers.send([1, 2, 3], through: ends[1])
        let begin = ContinuousClock.now
        let bytes = try await stream.read()
        #expect(ContinuousClock.now - begin < .seconds(Int64(linger) / 2))
        #expect(bytes == [1, 2, 3])
        peers.send([4], through: ends[1])
        #expect(PeerDescriptorTests.isQuick { stream.close() })
        // The end comes to the peer.
        var byte: UInt8 = 0
        #expect(recv(ends[1], &byte, 1, 0) <= 0)
        close(ends[1])
        await thread.finish()
        withExtendedLifetime(peers) {}
    }
}
