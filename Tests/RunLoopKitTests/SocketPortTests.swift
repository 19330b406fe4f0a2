// SPDX-License-Identifier: MIT
import RunLoopKit
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

/// The number at which a local port listens.
private func number(of port: SocketPort) -> UInt16 { UInt16(port.address[2]) << 8 | UInt16(port.address[3]) }

/// Reports what a loop asks of it.
private final class Told: SocketPort, @unchecked Sendable {
    // Sendable: set before a loop has it.
    var report: (String) -> Void = { _ in }
    var saysInvalid = false

    override var isValid: Bool { !saysInvalid && super.isValid }

    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) { report("added \(mode.rawValue)") }

    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) { report("removed \(mode.rawValue)") }
}

/// Ports that are reached through sockets.
@Suite struct SocketPortTests {
    @Test("Messages and answers go between two threads through sockets, in order: S-NSP-1, S-NSP-5, S-NSP-9")
    func messages() {
        let ready = Promise<UInt16>()
        let server = TestThread { () -> [String] in
            nonisolated(unsafe) var received: [String] = []
            let port = SocketPort()
            let receiver = Receiver { message in
                received.append("\(message.msgid) \(message.components!) \(message.receivePort === port)")
                let answer = PortMessage(send: message.sendPort, receive: nil, components: [[9] as [UInt8]])
                answer.msgid = message.msgid + 1
                #expect(answer.send(before: .distantFuture))
                if message.msgid == 12 { port.invalidate() }
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            ready.fulfil(number(of: port))
            RunLoop.current.run()
            return withExtendedLifetime(receiver) { received }
        }
        let answers = onNewThread { () -> [String] in
            nonisolated(unsafe) var answers: [String] = []
            guard let remote = SocketPort(remoteWithTCPPort: ready.value, host: nil) else { return ["unknown host"] }
            let own = SocketPort()
            let receiver = Receiver { answers.append("\($0.msgid) \($0.components!)") }
            own.setDelegate(receiver)
            RunLoop.current.add(own, forMode: .default)
            for number in [10, 11, 12] {
                #expect(remote.send(
                    before: .distantFuture, msgid: number, components: [[UInt8(number)], [] as [UInt8]], from: own,
                    reserved: 0))
            }
            while answers.count < 3, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            own.invalidate()
            return withExtendedLifetime(receiver) { answers }
        }
        #expect(server.join() == ["10 [[10], []] true", "11 [[11], []] true", "12 [[12], []] true"])
        #expect(answers == ["11 [[9]]", "12 [[9]]", "13 [[9]]"])
    }

    @Test("Remote ports of one address are equal; only a local port's end is announced: S-NSP-17, S-NSP-10, S-NSP-8")
    func identity() {
        let trace = Trace()
        let local = SocketPort()
        #expect(local.isValid && local.socket >= 0)
        let (one, two) = (
            SocketPort(remoteWithTCPPort: number(of: local), host: "127.0.0.1")!,
            SocketPort(remoteWithTCPPort: number(of: local), host: nil)!
        )
        let other = SocketPort(remoteWithTCPPort: 1, host: nil)!
        let observations = [local, one, two].map { port in
            NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: port, queue: nil
            ) { note in trace.add((note.object as! SocketPort).socket == -1 ? "closed" : "open") }
        }
        #expect(one !== two && one == two && one.hashValue == two.hashValue)
        #expect(one != other)
        #expect(one != local)
        #expect(Set<Port>([one, two, other, local]).count == 3)
        #expect(one.address == two.address && one.protocolFamily == AF_INET)
        one.invalidate()
        #expect(!two.isValid)
        #expect(!two.send(before: .now + .seconds(1), components: nil, from: nil, reserved: 0))
        #expect(trace.all.isEmpty)
        local.invalidate()
        local.invalidate()
        #expect(!local.isValid)
        #expect(trace.all == ["closed"])
        observations.forEach { NotificationCenter.default.removeObserver($0) }
    }

    @Test("A loop forgets the ports of a remote address when one of them is invalidated, though that is not announced: S-NSRL-11, S-NSP-17")
    func remoteIsForgotten() {
        let local = SocketPort()
        let number = number(of: local)
        let isKept = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            weak var known: SocketPort?
            let other = SocketPort(remoteWithTCPPort: number, host: nil)!
            do {
                let one = SocketPort(remoteWithTCPPort: number, host: nil)!
                known = one
                loop.add(one, forMode: .default)
            }
            let before = known != nil
            other.invalidate()
            return [before, known != nil]
        }
        #expect(isKept == [true, false])
        local.invalidate()
    }

    @Test("A loop has the ports of a remote address once, and lets go of the one when any of them is removed: S-NSRL-11, S-NSP-17")
    func equalIsRemoved() {
        let local = SocketPort()
        let number = number(of: local)
        let isKept = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            weak var known: SocketPort?
            let other = SocketPort(remoteWithTCPPort: number, host: nil)!
            do {
                let one = SocketPort(remoteWithTCPPort: number, host: nil)!
                known = one
                loop.add(one, forMode: .default)
                loop.add(other, forMode: .default)
            }
            let before = known != nil
            loop.remove(other, forMode: .default)
            return [before, known != nil]
        }
        #expect(isKept == [true, false])
        local.invalidate()
    }

    @Test("Of equal ports the one that was added is told where it is, also when another one is added or removed: S-NSP-17, S-NSP-18")
    func equalIsTold() {
        let trace = onNewThread { () -> [String] in
            let loop = RunLoop.current
            let trace = Trace()
            let (one, two) = (Told(remoteWithTCPPort: 9, host: "127.0.0.1")!, Told(remoteWithTCPPort: 9, host: "127.0.0.1")!)
            (one.report, two.report) = ({ trace.add("one \($0)") }, { trace.add("two \($0)") })
            let other = RunLoop.Mode("equalIsTold")
            loop.add(one, forMode: .default)
            loop.add(two, forMode: .default)
            loop.add(two, forMode: other)
            loop.remove(two, forMode: .default)
            loop.remove(two, forMode: other)
            loop.add(two, forMode: other)
            loop.remove(one, forMode: other)
            return trace.all
        }
        let other = "equalIsTold"
        let mode = RunLoop.Mode.default.rawValue
        #expect(trace == [
            "one added \(mode)", "one added \(other)", "one removed \(mode)", "one removed \(other)", "two added \(other)",
            "two removed \(other)",
        ])
    }

    @Test("Adding a port that is invalid leaves the equal one that a loop has where it is: S-NSP-17, S-NSRL-11")
    func equalIsInvalid() {
        let trace = onNewThread { () -> [String] in
            let loop = RunLoop.current
            let trace = Trace()
            let (one, two) = (Told(remoteWithTCPPort: 9, host: "127.0.0.1")!, Told(remoteWithTCPPort: 9, host: "127.0.0.1")!)
            (one.report, two.report) = ({ trace.add("one \($0)") }, { trace.add("two \($0)") })
            two.saysInvalid = true
            loop.add(one, forMode: .default)
            loop.add(two, forMode: .default)
            loop.remove(one, forMode: .default)
            // There is none now.
            loop.add(two, forMode: .default)
            loop.remove(two, forMode: .default)
            return trace.all
        }
        let mode = RunLoop.Mode.default.rawValue
        #expect(trace == ["one added \(mode)", "one removed \(mode)", "two added \(mode)"])
    }

    @Test("Equal ports that several threads add and remove are where the last calls want them: S-NSRL-11, S-NSP-17")
    func equalOfSeveralThreads() {
        final class Placed: SocketPort, @unchecked Sendable {
            let modes = Mutex<Set<String>>([])
            override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
                modes.withLock { _ = $0.insert(mode.rawValue) }
                sched_yield()
            }
            override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
                modes.withLock { _ = $0.remove(mode.rawValue) }
                sched_yield()
            }
        }
        let left = onNewThread { () -> [Set<String>] in
            let loop = RunLoop.current
            let modes = [RunLoop.Mode.default, RunLoop.Mode("equalOfSeveralThreads")]
            return (0..<scaled(400)).flatMap { round -> [Set<String>] in
                let ports = (0..<2).map { _ in Placed(remoteWithTCPPort: 9, host: "127.0.0.1")! }
                let threads = (0..<3).map { thread in
                    TestThread {
                        var random = UInt32(truncatingIfNeeded: 3 * round + thread + 1)
                        for _ in 0..<60 {
                            random = random &* 1_664_525 &+ 1_013_904_223
                            let (port, mode) = (ports[Int(random >> 31)], modes[Int(random >> 30 & 1)])
                            if random >> 29 & 1 == 0 { loop.add(port, forMode: mode) } else { loop.remove(port, forMode: mode) }
                        }
                    }
                }
                for thread in threads { thread.join() }
                for mode in modes { loop.remove(ports[0], forMode: mode) }
                return ports.map { $0.modes.withLock { $0 } }.filter { !$0.isEmpty }
            }
        }
        #expect(left.isEmpty)
    }

    /// A thread that writes a message to the port, which nobody reads, once it is at it.
    private func blockedWriter(to local: SocketPort, through remote: SocketPort) -> TestThread<Bool> {
        // Its connections have it too.
        var room: CInt = 4096
        setsockopt(local.socket, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<CInt>.size))
        let writer = TestThread {
            // More than the system stores for the sender.
            remote.send(before: .distantFuture, components: [[UInt8](repeating: 1, count: 1 << 23)], from: nil, reserved: 0)
        }
        var connection = pollfd(fd: local.socket, events: Int16(POLLIN), revents: 0)
        while poll(&connection, 1, -1) < 1 {}
        return writer
    }

    @Test("Invalidating a remote port does not wait for a message that another thread writes: S-NSP-17")
    func invalidatedInAMessage() {
        let local = SocketPort()
        let remote = SocketPort(remoteWithTCPPort: number(of: local), host: nil)!
        let writer = blockedWriter(to: local, through: remote)
        remote.invalidate()
        #expect(!remote.isValid)
        // The connection that nobody has taken goes with it.
        local.invalidate()
        #expect(!writer.join())
    }

    @Test("A message waits for another thread that writes to the same address no longer than until its own date: S-NSP-7")
    func turns() {
        let local = SocketPort()
        let first = SocketPort(remoteWithTCPPort: number(of: local), host: nil)!
        let second = SocketPort(remoteWithTCPPort: number(of: local), host: nil)!
        let writer = blockedWriter(to: local, through: first)
        #expect(!second.send(before: .now, components: nil, from: nil, reserved: 0))
        #expect(!second.send(before: .now + .milliseconds(1), components: nil, from: nil, reserved: 0))
        first.invalidate()
        local.invalidate()
        #expect(!writer.join())
    }

    @Test("A message waits until a local listener whose queue is full takes connections, or until its date: S-NSP-7")
    func fullQueue() {
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        let address = RunLoop.Socket.Address.unix(path)!.bytes
        func at(_ call: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
            address.withUnsafeBytes { call($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) }
        }
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let listener = socket(AF_UNIX, kind, 0)
        #expect(at { bind(listener, $0, $1) } == 0 && listen(listener, 0) == 0)
        var others: [CInt] = []
        repeat { others.append(socket(AF_UNIX, kind | Int32(SOCK_NONBLOCK.rawValue), 0)) } while at { connect(others.last!, $0, $1) } == 0
        let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: Int32(SOCK_STREAM.rawValue), protocol: 0, address: address)
        #expect(!remote.send(before: .now, components: nil, from: nil, reserved: 0))
        #expect(!remote.send(before: .now + .milliseconds(5), components: nil, from: nil, reserved: 0))
        let count = others.count
        let server = TestThread { () -> [CInt] in
            // Time for the sender to meet the full queue; it passes also if it comes later.
            usleep(20_000)
            return (0..<count).map { _ in accept(listener, nil, nil) }
        }
        #expect(remote.send(before: .distantFuture, components: nil, from: nil, reserved: 0))
        remote.invalidate()
        for descriptor in server.join() + others + [listener] { close(descriptor) }
        unlink(path)
    }

    @Test("A number is taken once; nobody listening, and other kinds of ports, refuse: S-NSP-7, S-NSP-8, S-NSP-19")
    func refused() {
        let local = SocketPort()
        #expect(SocketPort(tcpPort: number(of: local)) == nil)
        #expect(SocketPort(remoteWithTCPPort: number(of: local), host: "127.0.0.1\0.example") == nil)
        let remote = SocketPort(remoteWithTCPPort: number(of: local), host: nil)!
        #expect(!remote.send(before: .distantFuture, components: [MachPort()], from: nil, reserved: 0))
        #expect(!remote.send(before: .distantFuture, components: ["text"], from: nil, reserved: 0))
        #expect(!remote.send(before: .distantFuture, components: nil, from: MachPort(), reserved: 0))
        local.invalidate()
        #expect(!remote.send(before: .distantFuture, components: nil, from: nil, reserved: 0))
    }

    @Test("A long message arrives whole and does not hold up the loop; socket ports travel: S-NSP-4, S-NSP-6")
    func longMessage() {
        let long = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let ready = Promise<SocketPort>()
        let receiver = TestThread { () -> Bool in
            nonisolated(unsafe) var same = false
            let port = SocketPort()
            let receiver = Receiver { message in
                same = message.components![0] as! [UInt8] == long && message.components![1] as? Port == message.sendPort
                port.invalidate()
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            ready.fulfil(port)
            RunLoop.current.run()
            return withExtendedLifetime(receiver) { same }
        }
        let own = SocketPort()
        #expect(ready.value.send(before: .distantFuture, components: [long, own], from: own, reserved: 0))
        #expect(receiver.join())
        own.invalidate()
        ready.forget()
    }

    @Test("Who writes something else is not listened to, and others still are: S-NSP-4")
    func garbage() {
        let count = onNewThread { () -> Int in
            let trace = Trace()
            let port = SocketPort()
            let receiver = Receiver { _ in trace.add("message") }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            let remote = SocketPort(remoteWithTCPPort: number(of: port), host: nil)!
            let connected = remote.address.withUnsafeBytes { bytes in
                connect(descriptor, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
            }
            #expect(connected == 0)
            let garbage: [UInt8] = [4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]
            #expect(write(descriptor, garbage, garbage.count) == garbage.count)
            // The end of the connection tells when it was refused.
            let closed = RunLoop.Source(descriptor: descriptor) { source in
                source.invalidate()
                trace.add("closed")
            }
            RunLoop.current.add(closed, forMode: .default)
            while trace.count < 1, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            close(descriptor)
            #expect(remote.send(before: .distantFuture, components: nil, from: nil, reserved: 0))
            while trace.count < 2, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            port.invalidate()
            return withExtendedLifetime(receiver) { trace.all == ["closed", "message"] ? trace.count : -1 }
        }
        #expect(count == 2)
    }

    @Test("Ports for datagrams: messages and answers, local ones by a path too; what is too long or garbage is not: S-NSP-4, S-NSP-5, S-NSP-17")
    func datagrams() {
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        let local = RunLoop.Socket.Address.unix(path)!.bytes
        let any = RunLoop.Socket.Address.ipv4(nil, port: 0)!.bytes
        for (family, address) in [(AF_INET, any), (AF_UNIX, local)] {
            let trace = onNewThread { () -> [String] in
                let trace = Trace()
                let datagram = Int32(SOCK_DGRAM.rawValue)
                let port = SocketPort(protocolFamily: family, socketType: datagram, protocol: 0, address: address)!
                let own = SocketPort(
                    protocolFamily: AF_INET, socketType: datagram, protocol: 0,
                    address: RunLoop.Socket.Address.ipv4("127.0.0.1", port: 0)!.bytes)!
                #expect(port.isValid && port.socketType == datagram && port != own)
                let receiver = Receiver { message in
                    trace.add("\(message.msgid) \(message.components!)")
                    let answer = PortMessage(send: message.sendPort, receive: nil, components: nil)
                    answer.msgid = message.msgid + 1
                    #expect(answer.send(before: .distantFuture))
                }
                port.setDelegate(receiver)
                let answers = Receiver { trace.add("answer \($0.msgid)") }
                own.setDelegate(answers)
                RunLoop.current.add(port, forMode: .default)
                RunLoop.current.add(own, forMode: .default)
                var place = port.address
                // All addresses of the machine are reached by one of them.
                if family == AF_INET { place.replaceSubrange(4..<8, with: [127, 0, 0, 1]) }
                let remote = SocketPort(
                    remoteWithProtocolFamily: family, socketType: datagram, protocol: 0, address: place)
                let tooLong = [UInt8](repeating: 1, count: 1 << 20)
                #expect(!remote.send(before: .now, components: [tooLong], from: nil, reserved: 0))
                // Bytes that are no message are dropped, and what follows is not.
                let sender = try! RunLoop.Socket(
                    family: family, kind: .datagram, callBackTypes: [], perform: { _, _ in })
                try! sender.send([1, 2, 3], to: RunLoop.Socket.Address(bytes: place))
                try! sender.send([9, 0, 0, 0, 1, 0, 0, 0, 5], to: RunLoop.Socket.Address(bytes: place))
                for number in [10, 20] {
                    #expect(remote.send(
                        before: .distantFuture, msgid: number, components: [[UInt8(number)]], from: own, reserved: 0))
                    while trace.count < number / 5, RunLoop.current.run(mode: .default, before: .distantFuture) {}
                }
                sender.invalidate()
                port.invalidate()
                own.invalidate()
                return withExtendedLifetime((receiver, answers)) { trace.all }
            }
            #expect(trace == ["10 [[10]]", "answer 11", "20 [[20]]", "answer 21"])
        }
        unlink(path)
        let packets = Int32(SOCK_SEQPACKET.rawValue)
        #expect(SocketPort(protocolFamily: AF_UNIX, socketType: packets, protocol: 0, address: local) == nil)
        let other = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: packets, protocol: 0, address: local)
        #expect(!other.send(before: .now, components: nil, from: nil, reserved: 0))
    }

    @Test("Of datagrams to a port in two loops each is received once, and whole: S-NSP-1")
    func datagramsInTwoLoops() throws {
        let count = scaled(20_000)
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        let address = RunLoop.Socket.Address.unix(path)!.bytes
        let received = Atomic(0)
        let receiver = Receiver { message in
            if (message.components?.first as? [UInt8])?.count == Int(message.msgid) { received.add(1, ordering: .relaxed) }
        }
        let port = try #require(SocketPort(protocolFamily: AF_UNIX, socketType: Int32(SOCK_DGRAM.rawValue), protocol: 0, address: address))
        port.setDelegate(receiver)
        let threads = [RunLoopThread(), RunLoopThread()]
        for thread in threads {
            try thread.start()
            thread.loop.add(port, forMode: .default)
        }
        let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: Int32(SOCK_DGRAM.rawValue), protocol: 0, address: address)
        for index in 0..<count {
            let size = index % 2 == 0 ? 10 : 3000
            #expect(remote.send(before: .distantFuture, msgid: size, components: [[UInt8](repeating: 1, count: size)], from: nil, reserved: 0))
        }
        // One that is lost never comes.
        var left = 1000
        while received.load(ordering: .relaxed) < count, left > 0 {
            usleep(10_000)
            left -= 1
        }
        #expect(received.load(ordering: .relaxed) == count)
        port.invalidate()
        unlink(path)
        for thread in threads {
            thread.stop()
            thread.join()
        }
        withExtendedLifetime(receiver) {}
    }
}
