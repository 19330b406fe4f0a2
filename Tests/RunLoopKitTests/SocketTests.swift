// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

private typealias Socket = RunLoop.Socket

/// A name for a local socket that no other test and no other process uses.
private func uniqueName() -> String { "runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))" }

/// An address to listen at, by what it is called.
private func address(_ kind: String) -> Socket.Address {
    switch kind {
    case "ipv4": .ipv4("127.0.0.1", port: 0)!
    case "ipv6": .ipv6("::1", port: 0)!
    case "path": .unix("/tmp/\(uniqueName())")!
    default: .abstract(uniqueName())!
    }
}

/// Sockets with closures.
@Suite struct SocketTests {
    @Test(
        "One loop listens, connects, sends and receives to the end: S-SOCK-21, S-SOCK-25, S-SOCK-26, S-SOCK-28, S-SOCK-30, S-SOCK-43",
        arguments: ["ipv4", "ipv6", "path", "abstract"])
    func streams(kind: String) {
        let trace = onNewThread { () -> [String]? in
            let trace = Trace()
            let loop = RunLoop.current
            let listener: Socket
            do throws(RunLoop.SystemError) {
                listener = try Socket(listeningAt: address(kind)) { listener, event in
                    guard case .accepted(let descriptor, let peer) = event else { return trace.add("\(event)") }
                    trace.add("accepted \(peer.family == listener.address!.family)")
                    let server = Socket(descriptor: descriptor, callBackTypes: .data) { server, event in
                        guard case .data(let bytes, _) = event else { return trace.add("\(event)") }
                        trace.add("server \(bytes)")
                        if !bytes.isEmpty { try! server.send(bytes.map { $0 + 1 }) }
                    }
                    loop.add(server, forMode: .default)
                }
            } catch {
                // A machine without the newer protocol says so.
                return kind == "ipv6" && (error.code == EADDRNOTAVAIL || error.code == EAFNOSUPPORT) ? nil : ["\(error)"]
            }
            loop.add(listener, forMode: .default)
            let client = try! Socket(connectingTo: listener.address!) { client, event in
                switch event {
                case .connected(let error):
                    trace.add("connected \(error == nil) \(client.peerAddress == listener.address)")
                    try! client.send([1, 2, 3])
                case .data(let bytes, _):
                    trace.add("client \(bytes)")
                    client.invalidate()
                default: trace.add("\(event)")
                }
            }
            loop.add(client, forMode: .default)
            while trace.count < 5, loop.run(mode: .default, before: .distantFuture) {}
            if let path = listener.address?.path { unlink(path) }
            listener.invalidate()
            return trace.all
        }
        guard let trace else { return }
        // Which side hears of the connection first is the kernel's choice.
        #expect(trace.prefix(2).sorted() == ["accepted true", "connected true true"])
        #expect(trace.dropFirst(2) == ["server [1, 2, 3]", "client [2, 3, 4]", "server []"])
    }

    @Test("Datagrams come with their senders, empty ones too: S-SOCK-25, S-SOCK-27, S-SOCK-46, S-SOCK-38")
    func datagrams() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let own = Promise<Socket.Address>()
            let receiver = try! Socket(listeningAt: .ipv4("127.0.0.1", port: 0)!, kind: .datagram) { _, event in
                guard case .data(let bytes, let sender) = event else { return trace.add("\(event)") }
                trace.add("\(bytes) \(sender == own.value)")
            }
            let sender = try! Socket(listeningAt: .ipv4("127.0.0.1", port: 0)!, kind: .datagram) { _, _ in }
            own.fulfil(sender.address!)
            RunLoop.current.add(receiver, forMode: .default)
            try! sender.send([1, 2], to: receiver.address)
            try! sender.send([], to: receiver.address)
            try! sender.send([3], to: receiver.address)
            while trace.count < 3, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            trace.add("\(receiver.isValid)")
            receiver.invalidate()
            sender.invalidate()
            return trace.all
        }
        #expect(trace == ["[1, 2] true", "[] true", "[3] true", "true"])
    }

    @Test("A refused connection says why, at once or in the background: S-SOCK-30, S-SOCK-32, S-SOCK-41, S-SOCK-7, S-SOCK-39")
    func refused() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let listener = try! Socket(listeningAt: .ipv4("127.0.0.1", port: 0)!) { _, _ in }
            let address = listener.address!
            do throws(RunLoop.SystemError) {
                try listener.setAddress(.ipv4("127.0.0.1", port: 0)!)
            } catch {
                trace.add("again \(error.code == EINVAL)")
            }
            do throws(RunLoop.SystemError) {
                _ = try Socket(listeningAt: address) { _, _ in }
            } catch {
                trace.add("taken \(error.code == EADDRINUSE)")
            }
            listener.invalidate()
            do throws(RunLoop.SystemError) {
                // A process that another test is starting has the listener until it executes its program.
                while true {
                    try Socket(connectingTo: address, timeout: .seconds(60)) { _, _ in }.invalidate()
                    usleep(1000)
                }
            } catch {
                trace.add("at once \(error.code == ECONNREFUSED) \("\(error)".isEmpty)")
            }
            let client = try! Socket(connectingTo: address, callBackTypes: [.read, .connect, .write]) { client, event in
                guard case .connected(let error) = event else { return trace.add("\(event)") }
                trace.add("later \(error?.code == ECONNREFUSED)")
                client.invalidate()
            }
            RunLoop.current.add(client, forMode: .default)
            while client.isValid, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            do throws(RunLoop.SystemError) { try client.send([1]) } catch { trace.add("invalid \(error.code == EBADF)") }
            return trace.all
        }
        #expect(trace == ["again true", "taken true", "at once true false", "later true", "invalid true"])
    }

    @Test("Writing is told once for each enabling, reading as the flags say: S-SOCK-4, S-SOCK-5, S-SOCK-19, S-SOCK-29, S-SOCK-33")
    func writingAndFlags() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            var ends: [CInt] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            let socket = Socket(descriptor: ends[0], callBackTypes: [.read, .write]) { _, event in trace.add("\(event)") }
            trace.add("\(socket.flags == [.automaticallyReenablesRead, .closesOnInvalidate])")
            loop.add(socket, forMode: .default)
            loop.run(mode: .default, before: .distantFuture)
            trace.add("\(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
            socket.enableCallBacks(.write)
            loop.run(mode: .default, before: .distantFuture)
            socket.flags.remove(.automaticallyReenablesRead)
            #expect(write(ends[1], "x", 1) == 1)
            loop.run(mode: .default, before: .distantFuture)
            trace.add("\(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
            socket.enableCallBacks(.read)
            loop.run(mode: .default, before: .distantFuture)
            socket.disableCallBacks([.read, .write])
            socket.invalidate()
            close(ends[1])
            return trace.all
        }
        #expect(trace == ["true", "writable", "timedOut", "writable", "readable", "timedOut", "readable"])
    }

    @Test("A descriptor has one socket, which lives until it is invalidated, and its closure with it: S-SOCK-2, S-SOCK-8 to S-SOCK-11")
    func life() {
        let canary = Canary()
        let pipe = Pipe()
        let number = dup(pipe.readEnd)
        let make = {
            let captured = canary.capture()
            let socket = Socket(descriptor: number, callBackTypes: .read) { [captured] _, _ in captured.touch() }
            #expect(socket.nativeDescriptor == number)
        }
        make()
        #expect(canary.deaths == 0)
        let same = Socket(descriptor: number, callBackTypes: .read) { _, _ in }
        let again = Socket(descriptor: number, callBackTypes: .read) { _, _ in }
        #expect(same == again && same.hashValue == again.hashValue && same !== again)
        same.invalidate()
        #expect(canary.deaths == 1)
        #expect(!again.isValid && again.nativeDescriptor == nil && again.makeRunLoopSource() == nil)
        #expect(!pipe.has(number))
        again.invalidate()
    }

    @Test("Addresses are made of their parts and give them back: S-SOCK-48, S-SOCK-40")
    func addresses() {
        let four = Socket.Address.ipv4("192.0.2.7", port: 80)!
        #expect(four.host == "192.0.2.7" && four.port == 80 && four.path == nil && four.family == AF_INET)
        #expect("\(four)" == "192.0.2.7:80")
        let six = Socket.Address.ipv6("2001:db8::1", port: 443)!
        #expect(six.host == "2001:db8::1" && six.port == 443 && "\(six)" == "[2001:db8::1]:443")
        #expect(Socket.Address.ipv4(nil, port: 1)!.host == "0.0.0.0" && Socket.Address.ipv6(nil, port: 1)!.host == "::")
        #expect(Socket.Address.ipv4("localhost", port: 1) == nil && Socket.Address.ipv6("127.0.0.1", port: 1) == nil)
        #expect(Socket.Address.ipv4("127.0.0.1\0.example", port: 1) == nil && Socket.Address.ipv6("::1\0", port: 1) == nil)
        let path = Socket.Address.unix("/tmp/x")!
        #expect(path.path == "/tmp/x" && path.port == nil && path.host == nil && "\(path)" == "/tmp/x")
        #expect(Socket.Address.unix("") == nil && Socket.Address.unix(String(repeating: "x", count: 108)) == nil)
        #expect(Socket.Address.unix(String(repeating: "x", count: 107))?.path?.count == 107)
        #expect(Socket.Address.abstract("x")!.path == nil)
        #expect(Socket.Address(bytes: four.bytes) == four && Socket.Address(bytes: [1]) == nil)
        #expect(Socket.Address(bytes: [UInt8](repeating: 1, count: 300)) == nil)
        // A family with too few bytes behind it has no parts.
        #expect(Socket.Address(bytes: four.bytes.prefix(4))!.host == nil)
    }

    @Test("What the system does not take is queued and sent by the loop, told at the end, and a close loses nothing: S-SOCK-57, S-SOCK-59, S-SOCK-63")
    func writing() {
        let (trace, received) = onNewThread { () -> ([String], Int) in
            let trace = Trace()
            let loop = RunLoop.current
            var ends: [CInt] = [0, 0]
            socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
            let socket = Socket(descriptor: ends[0], callBackTypes: [.data, .write]) { _, event in trace.add("\(event)") }
            loop.add(socket, forMode: .default)
            loop.run(mode: .default, before: .now)
            let much = [UInt8](repeating: 7, count: 1 << 20)
            let waiting = try! socket.write(much, highWater: 0)!
            trace.add("\(waiting > 0) \(try! socket.write(much, highWater: 0) == nil) \(try! socket.sendNow([1]) == nil)")
            socket.close()
            do throws(RunLoop.SystemError) { try socket.write([1]) } catch { trace.add("\(error.code == EPIPE)") }
            var received = 0
            var portion = [UInt8](repeating: 0, count: 65536)
            while true {
                loop.run(mode: .default, before: .now)
                let count = recv(ends[1], &portion, portion.count, CInt(MSG_DONTWAIT))
                if count == 0 { break }
                received += max(count, 0)
            }
            close(ends[1])
            while socket.isValid { loop.run(mode: .default, before: .now) }
            return (trace.all, received)
        }
        #expect(trace == ["writable", "true true true", "true"])
        #expect(received == 1 << 20)
    }

    @Test("A queue that is lost is told with its error: S-SOCK-60")
    func lostQueue() {
        let words = onNewThread { () -> [String] in
            let trace = Trace()
            var ends: [CInt] = [0, 0]
            socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
            let socket = Socket(descriptor: ends[0], callBackTypes: [.write]) { _, event in
                if case .writeFailed(let error) = event { trace.add("\(error.code == EPIPE)") }
            }
            RunLoop.current.add(socket, forMode: .default)
            RunLoop.current.run(mode: .default, before: .now)
            try! socket.write([UInt8](repeating: 7, count: 1 << 20))
            close(ends[1])
            RunLoop.current.run(mode: .default, before: .now)
            socket.close(.abort)
            trace.add("\(socket.isValid)")
            return trace.all
        }
        #expect(words == ["true", "false"])
    }

    @Test("A wish for any number of bytes is met by what is there, and what is little keeps little memory: S-SOCK-69")
    func wishes() throws {
        for kind in [SOCK_STREAM, SOCK_DGRAM] {
            var ends: [CInt] = [0, 0]
            socketpair(AF_UNIX, CInt(kind.rawValue), 0, &ends)
            let socket = Socket(descriptor: ends[0], callBackTypes: []) { _, _ in }
            for wish in [10, 65536, 1 << 18, 1 << 40, .max] {
                #expect(write(ends[1], "0123456789", 10) == 10)
                let bytes = try #require(try socket.receive(atMost: wish)).bytes
                #expect(bytes == Array("0123456789".utf8) && bytes.capacity < 1000)
            }
            #expect(try socket.receive(atMost: .max) == nil)
            // A datagram larger than the room that is always made, where the system has room for it: it is not cut off.
            var room: CInt = 1 << 22
            setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, socklen_t(MemoryLayout<CInt>.size))
            let large = [UInt8](repeating: 7, count: 300_000)
            if kind == SOCK_DGRAM, send(ends[1], large, large.count, CInt(MSG_DONTWAIT)) == large.count {
                #expect(try socket.receive(atMost: .max)?.bytes.count == large.count)
            }
            socket.invalidate()
            close(ends[1])
        }
    }

    @Test("Descriptors and credentials travel over a local socket: S-SOCK-67, S-SOCK-69")
    func descriptors() throws {
        var ends: [CInt] = [0, 0]
        var pipes: [CInt] = [0, 0]
        socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
        pipe(&pipes)
        let one = Socket(descriptor: ends[0], callBackTypes: []) { _, _ in }
        let other = Socket(descriptor: ends[1], callBackTypes: .read) { _, _ in }
        try other.setOptions(.passesCredentials)
        #expect(throws: RunLoop.SystemError.self) { try other.setOptions(.noDelay) }
        #expect(try other.receive() == nil)
        #expect(try one.sendNow([1, 2], descriptors: pipes) == 2)
        let received = try #require(try other.receive(atMost: 10, descriptors: 2))
        #expect(received.bytes == [1, 2])
        #expect(received.credentials?.process == getpid())
        #expect(received.descriptors.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
        #expect(received.descriptors.count == 2 && !received.lostDescriptors)
        #expect(try one.sendNow([3], descriptors: pipes) == 1)
        let without = try #require(try other.receive())
        #expect(without.bytes == [3] && without.lostDescriptors && without.descriptors.isEmpty)
        for descriptor in received.descriptors + pipes { close(descriptor) }
        one.invalidate()
        other.invalidate()
        #expect(throws: RunLoop.SystemError(code: EBADF)) { try one.sendNow([1]) }
        #expect(throws: RunLoop.SystemError(code: EBADF)) { try one.setOptions(.keepsAlive) }
        #expect(throws: RunLoop.SystemError(code: EBADF)) { try one.listen(at: .ipv4("127.0.0.1", port: 0)!) }
    }
}
