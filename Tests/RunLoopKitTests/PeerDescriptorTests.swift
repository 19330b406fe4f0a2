// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Synchronization
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
@Suite(.timeLimit(.minutes(10))) struct PeerDescriptorTests {
    /// The peers, which end each wait when they are closed.
    private final class Peers {
        var all: [CInt] = []

        /// Sends bytes with a lingering socket, whose last close is the receiver's, behind others.
        func send(_ bytes: [UInt8], through descriptor: CInt, behind count: Int = 0, flags: CInt = 0) {
            let (socket, peer) = makeLingeringSocket()
            all.append(peer)
            PeerDescriptorTests.send(bytes, (0..<count).map { _ in dup(peer) } + [socket], through: descriptor, flags)
        }

        /// Sends a byte with a local socket that has a lingering one in its queue.
        func sendQueued(through descriptor: CInt) {
            var ends: [CInt] = [0, 0]
            precondition(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
            send([1], through: ends[1])
            close(ends[1])
            PeerDescriptorTests.send([1], [ends[0]], through: descriptor)
        }

        deinit { for peer in all { close(peer) } }
    }

    /// Sends bytes with descriptors, which are closed here.
    private static func send(_ bytes: [UInt8], _ descriptors: [CInt], through socket: CInt, _ flags: CInt = 0) {
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
                    return sendmsg(socket, &header, CInt(MSG_NOSIGNAL) | flags)
                }
            }
        }
        precondition(sent == bytes.count)
        for descriptor in descriptors { close(descriptor) }
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

    @Test("A pass takes two of the portions that a peer sends with descriptors, whatever else is there, so other work is done in between: S-NSP-21")
    func portions() {
        let (most, received) = onNewThread { () -> (Int, Int) in
            nonisolated(unsafe) var received = 0
            let receiver = Receiver { _ in received += 1 }
            let (path, address) = PeerDescriptorTests.freeAddress()
            let port = SocketPort(protocolFamily: AF_UNIX, socketType: SocketCalls.stream, protocol: 0, address: address)!
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            let peer = PeerDescriptorTests.openSocket(SocketCalls.stream)
            connect(peer, to: address)
            let message = SocketFrame.encode(msgid: 7, [.data([UInt8](repeating: 1, count: 80))], reply: [])!
            for byte in message { PeerDescriptorTests.send([byte], [dup(peer)], through: peer) }
            var most = 0
            while received == 0 {
                let kept = port.listener!.keptBytes
                RunLoop.current.run(mode: .default, for: .zero)
                most = received == 0 ? max(most, port.listener!.keptBytes - kept) : most
            }
            port.invalidate()
            close(peer)
            unlink(path)
            return withExtendedLifetime(receiver) { (most, received) }
        }
        #expect(most == 2)
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

    private static func makeStreamPair() -> (CInt, CInt) {
        var ends: [CInt] = [0, 0]
        precondition(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        return (ends[0], ends[1])
    }

    /// A local port, on the calling thread's loop, and a connection to it.
    private static func makePort(_ receiver: Receiver) -> (port: SocketPort, peer: CInt) {
        let (path, address) = freeAddress()
        let port = SocketPort(protocolFamily: AF_UNIX, socketType: SocketCalls.stream, protocol: 0, address: address)!
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let peer = openSocket(SocketCalls.stream)
        connect(peer, to: address)
        unlink(path)
        return (port, peer)
    }

    /// Sends until the port closes the connection, for what is sent is no message.
    private static func run(untilClosed peer: CInt) {
        // A length that no message has.
        let bytes = [UInt8](repeating: 255, count: 64)
        while Glibc.send(peer, bytes, bytes.count, CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)) > 0 {
            RunLoop.current.run(mode: .default, for: .milliseconds(10), returnAfterSourceHandled: true)
        }
    }

    private static func threadCount() -> Int {
        guard let directory = opendir("/proc/self/task") else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while readdir(directory) != nil { count += 1 }
        return count
    }

    /// Files of which the close waits for the kernel, as many as there may be.
    private static func makeSlowFiles() -> [CInt] {
        (0..<40).compactMap { _ in
            let descriptor = inotify_init1(CInt(IN_CLOEXEC))
            if descriptor < 0 { return nil }
            inotify_add_watch(descriptor, "/", UInt32(IN_DELETE))
            return descriptor
        }
    }

    @Test("Nor do those that come with an urgent byte, to a port and to a stream, read or not: S-NSP-23")
    func urgentBytes() async throws {
        let isPortQuick = onNewThread { () -> Bool in
            let peers = Peers()
            let receiver = Receiver { _ in }
            let (port, peer) = PeerDescriptorTests.makePort(receiver)
            RunLoop.current.run(mode: .default, for: .zero)
            peers.send([255], through: peer, flags: CInt(MSG_OOB))
            let isQuick = PeerDescriptorTests.isQuick { PeerDescriptorTests.run(untilClosed: peer) }
            port.invalidate()
            close(peer)
            return withExtendedLifetime((receiver, peers)) { isQuick }
        }
        #expect(isPortQuick)
        let peers = Peers()
        let thread = RunLoopThread()
        try thread.start()
        let (end, peer) = PeerDescriptorTests.makeStreamPair()
        let stream = RunLoop.ByteStream(takingOver: end, on: thread.loop)
        peers.send([1], through: peer, flags: CInt(MSG_OOB))
        close(peer)
        let begin = ContinuousClock.now
        while try await !stream.read().isEmpty {}
        #expect(ContinuousClock.now - begin < .seconds(Int64(linger) / 2))
        stream.close()
        let (unread, other) = PeerDescriptorTests.makeStreamPair()
        let closed = RunLoop.ByteStream(takingOver: unread, on: thread.loop)
        peers.send([1], through: other, flags: CInt(MSG_OOB))
        close(other)
        #expect(PeerDescriptorTests.isQuick { closed.close() })
        await thread.finish()
        withExtendedLifetime(peers) {}
    }

    @Test("A socket with a lingering one in its queue costs no thread for as long as that lingers: S-NSP-23")
    func threads() {
        let grew = onNewThread { () -> Int in
            let peers = Peers()
            let receiver = Receiver { _ in }
            let (port, peer) = PeerDescriptorTests.makePort(receiver)
            let before = PeerDescriptorTests.threadCount()
            for _ in 0..<60 {
                peers.sendQueued(through: peer)
                RunLoop.current.run(mode: .default, for: .zero)
            }
            PeerDescriptorTests.run(untilClosed: peer)
            // Threads of other tests end and begin meanwhile.
            var grew = PeerDescriptorTests.threadCount() - before
            for _ in 0..<400 where grew > 30 {
                usleep(10_000)
                grew = PeerDescriptorTests.threadCount() - before
            }
            port.invalidate()
            close(peer)
            return withExtendedLifetime((receiver, peers)) { grew }
        }
        #expect(grew <= 30)
    }

    @Test("The program's signals are not handled by the threads that close, which have other descriptors: S-NSP-23")
    func signals() {
        let mask = Promise<Bool>()
        func own() -> Int32 {
            var blocked = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &blocked)
            return sigismember(&blocked, SIGUSR1)
        }
        let before = own()
        let isMade = DescriptorCloser.makeThread {
            var blocked = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &blocked)
            mask.fulfil(sigismember(&blocked, SIGUSR1) == 1 && sigismember(&blocked, SIGCHLD) == 1)
        }
        #expect(isMade && mask.value)
        #expect(own() == before)
    }

    @Test("What is no socket is closed apart as well, though its close takes time: S-NSP-23")
    func slowFiles() {
        let isQuick = onNewThread { () -> Bool in
            let receiver = Receiver { _ in }
            let (port, peer) = PeerDescriptorTests.makePort(receiver)
            RunLoop.current.run(mode: .default, for: .zero)
            // The machine is busy with others; on the loop's thread none would be quick.
            var isQuick = false
            for _ in 0..<6 where !isQuick {
                let own = PeerDescriptorTests.makeSlowFiles(), sent = PeerDescriptorTests.makeSlowFiles()
                let begin = ContinuousClock.now
                for descriptor in own { close(descriptor) }
                let time = ContinuousClock.now - begin
                PeerDescriptorTests.send([0], sent, through: peer)
                let second = ContinuousClock.now
                RunLoop.current.run(mode: .default, for: .zero)
                isQuick = ContinuousClock.now - second < time / 3 || own.count < 40 || sent.count < 40
            }
            port.invalidate()
            close(peer)
            return withExtendedLifetime(receiver) { isQuick }
        }
        #expect(isQuick)
    }

    /// A thread that closes what peers of other tests sent has all files of the process for a moment, so some rounds may find the address taken.
    @Test(
        "The address of a local port is free, and refuses messages, as soon as the port is invalid: S-NSP-8, S-NSP-23",
        .timeLimit(.minutes(10)), arguments: [SocketCalls.stream, SocketCalls.datagram])
    func freedAddress(type: CInt) {
        let rounds = 200
        let late = onNewThread { () -> Int in
            // Without a file; the first byte of the name is zero.
            let name = [UInt8]("rl\(getpid())\(UInt32.random(in: .min ... .max))".utf8)
            let address = [UInt8(AF_UNIX), 0, 0] + name
            var late = 0
            for _ in 0..<rounds {
                var made = SocketPort(protocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address)
                if made == nil { late += 1 }
                while made == nil {
                    sched_yield()
                    made = SocketPort(protocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address)
                }
                let port = made!
                RunLoop.current.add(port, forMode: .default)
                RunLoop.current.run(mode: .default, for: .zero)
                port.invalidate()
                RunLoop.current.run(mode: .default, for: .zero)
                let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address)
                if remote.send(before: .now, components: nil, from: nil, reserved: 0) { late += 1 }
                remote.invalidate()
            }
            return late
        }
        #expect(late <= rounds / 10)
    }

    @Test("The end of a sequence of connections does not wait for what the peers of those left have sent: S-NSP-23")
    func sequences() throws {
        let peers = Peers()
        let (path, _) = PeerDescriptorTests.freeAddress()
        let address = RunLoop.Socket.Address.unix(path)!
        let sequence = try RunLoop.main.connections(at: address)
        let peer = PeerDescriptorTests.openSocket(SocketCalls.stream)
        connect(peer, to: address.bytes)
        unlink(path)
        peers.send([1], through: peer)
        #expect(PeerDescriptorTests.isQuick { sequence.finish() })
        close(peer)
        withExtendedLifetime(peers) {}
    }
}
