// SPDX-License-Identifier: MIT
import RunLoopKitFoundation
import Testing

private final class Receiver: PortDelegate, @unchecked Sendable {
    var received: [PortMessage] = []

    func handle(_ message: PortMessage) { received.append(message) }
}

/// A port that announces its end by Foundation's notification alone.
private final class CustomPort: Port, @unchecked Sendable {
    private(set) var removed = 0

    override func invalidate() {
        Foundation.NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }
    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) { removed += 1 }
}

/// The processor's time of the calling thread.
private func threadTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// Ports with Foundation's dates, data and notifications.
@Suite struct FoundationPortTests {
    @Test("Data and ports travel; the rest is refused: S-NSP-6, S-NSP-7, S-NSP-19")
    func dataAndPorts() {
        let mode = RunLoop.Mode("ports")
        let (port, answer) = (Port(), Port())
        let receiver = Receiver()
        port.setDelegate(receiver)
        let loop = RunLoop.current
        loop.add(port, forMode: mode)
        #expect(port.send(
            before: Date(), msgid: 3, components: [Data([1, 2]), answer], from: answer, reserved: 0))
        #expect(!port.send(before: Date(), components: ["text"], from: nil, reserved: 0))
        #expect(PortMessage(send: port, receive: answer, components: [Data([9])]).send(before: .distantPast))
        loop.run(mode: mode, before: Date())
        loop.run(mode: mode, before: Date())
        #expect(receiver.received.count == 2)
        let first = receiver.received[0]
        #expect(first.msgid == 3)
        #expect(first.sendPort === answer && first.receivePort === port)
        #expect(first.components?[0] as? Data == Data([1, 2]))
        #expect(first.components?[1] as? Port === answer)
        #expect(receiver.received[1].components?[0] as? Data == Data([9]))
        port.invalidate()
    }

    @Test("An array of bytes costs little more than data, where Foundation is loaded as well: S-NSP-6")
    func bytes() {
        func time(_ component: Any) -> Double {
            // Nobody receives, so each has a queue of its own.
            let port = Port()
            let start = threadTime()
            // An `NSMutableArray`, which the form with a date takes, makes objects of the bytes before it is sent.
            let isSent = port.send(before: ContinuousClock.now, components: [component], from: nil, reserved: 0)
            let end = threadTime()
            #expect(isSent)
            return end - start
        }
        let bytes = [UInt8](repeating: 1, count: 1 << 18)
        let data = Data(bytes)
        var least = (bytes: Double.infinity, data: Double.infinity)
        for _ in 0..<3 { least = (min(least.bytes, time(bytes)), min(least.data, time(data))) }
        // Of sanitized code only the loops over the bytes cost more, and not the copying of data.
        let isSanitized = dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil
        let isLittle = least.bytes < 20 * least.data || isSanitized
        #expect(isLittle, "\(least)")
    }

    @Test("An invalidation is posted to Foundation's centre: S-NSP-10, S-NQ-16")
    func notification() {
        let port = NSMachPort()
        nonisolated(unsafe) var posts = 0
        let token = NotificationCenter.default.addObserver(
            forName: Port.didBecomeInvalidNotification, object: port, queue: nil
        ) { _ in posts += 1 }
        port.invalidate()
        port.invalidate()
        NotificationCenter.default.removeObserver(token)
        #expect(posts == 1)
    }

    @Test("A loop learns of an invalidation from Foundation's notification alone: S-NSP-18")
    func customPort() {
        let port = CustomPort()
        let mode = RunLoop.Mode("custom ports")
        RunLoop.current.add(port, forMode: mode)
        port.invalidate()
        RunLoop.current.remove(port, forMode: mode)
        #expect(port.removed == 0)
    }
}

/// A port that has its own way of sending, under the form that both of Foundation's lead to.
private final class SendingPort: Port, @unchecked Sendable {
    private(set) var sent: [Int] = []

    override func send(
        before limitDate: ContinuousClock.Instant, components: [Any]?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append(-1)
        return true
    }

    override func send(
        before limitDate: ContinuousClock.Instant, msgid msgID: Int, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append(msgID)
        return true
    }
}

/// A port that has its own way of sending, under Foundation's forms.
private final class DatedSendingPort: FoundationPort, @unchecked Sendable {
    private(set) var sent: [String] = []

    override func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append("\(components?.count ?? -1)")
        return true
    }

    override func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append("\(msgID): \(components?.count ?? -1)")
        return true
    }
}

/// One that overrides one of them only.
private final class NumberSendingPort: FoundationPort, @unchecked Sendable {
    private(set) var sent: [Int] = []

    override func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append(msgID)
        return super.send(
            before: limitDate, msgid: msgID, components: components, from: receivePort, reserved: headerSpaceReserved)
    }
}

/// One that overrides the other.
private final class PlainSendingPort: FoundationPort, @unchecked Sendable {
    private(set) var sent: [Int] = []

    override func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        sent.append(components?.count ?? -1)
        return super.send(before: limitDate, components: components, from: receivePort, reserved: headerSpaceReserved)
    }
}

/// Ports that deliver at once to a receiver.
private protocol Loopback: FoundationPort {
    var received: Int { get set }
    var left: Int { get set }
    var receive: () -> Void { get set }
}

private final class LoopbackPort: FoundationPort, Loopback, @unchecked Sendable {
    var (received, left) = (0, 0)
    var receive = {}

    override func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        received += 1
        receive()
        return true
    }
}

private final class NumberedLoopbackPort: FoundationPort, Loopback, @unchecked Sendable {
    var (received, left) = (0, 0)
    var receive = {}

    override func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        received += 1
        receive()
        return true
    }
}

/// One that sends through another one as well.
private final class RelayPort: FoundationPort, @unchecked Sendable {
    var next: Port?

    override func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        next?.send(before: limitDate, msgid: 1, components: components, from: receivePort, reserved: headerSpaceReserved)
        return super.send(before: limitDate, components: components, from: receivePort, reserved: headerSpaceReserved)
    }
}

/// The numbers of the messages that such ports have received.
private func numbers(of ports: [FoundationPort], after body: () -> Void) -> [[UInt32]] {
    let mode = RunLoop.Mode("numbers")
    let receivers = ports.map { port in
        let receiver = Receiver()
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: mode)
        return receiver
    }
    body()
    // A poll serves one message.
    for _ in 0..<20 { RunLoop.current.run(mode: mode, before: Date()) }
    for port in ports { port.invalidate() }
    return receivers.map { $0.received.map(\.msgid) }
}

@Suite struct PortSubclassTests {
    @Test("A subclass of FoundationPort that overrides only the form without a number is sent to by it, once, in whatever form: S-NSP-18")
    func overridingThePlainForm() {
        let port = PlainSendingPort()
        let numbers = numbers(of: [port]) {
            let (known, now) = (port as Port, ContinuousClock.now)
            #expect(port.send(before: Date(), components: [Data()], from: nil, reserved: 0))
            #expect(port.send(before: Date(), msgid: 7, components: [Data(), Data()], from: nil, reserved: 0))
            #expect(known.send(before: Date(), msgid: 8, components: nil, from: nil, reserved: 0))
            #expect(known.send(before: now, msgid: 9, components: [[1] as [UInt8]], from: nil, reserved: 0))
            #expect(known.send(before: now, components: nil, from: nil, reserved: 0))
        }
        #expect(port.sent == [1, 2, -1, 1, -1])
        #expect(numbers == [[0, 7, 8, 9, 0]])
        let second = PlainSendingPort()
        let message = PortMessage(sendPort: second, receivePort: nil, components: [Data()])
        message.msgid = 10
        #expect(message.send(before: Date()))
        #expect(second.sent == [1])
    }

    @Test("A further message that an override of a FoundationPort sends to its port is sent to the override: S-NSP-18",
        arguments: [false, true], [false, true])
    func furtherMessages(isFirstNumbered: Bool, isFurtherNumbered: Bool) {
        func send(_ port: Port, _ isNumbered: Bool) -> Bool {
            let now = Date.distantFuture
            if isNumbered { return port.send(before: now, msgid: 7, components: nil, from: nil, reserved: 0) }
            return port.send(before: now, components: nil, from: nil, reserved: 0)
        }
        let (plain, numbered) = (LoopbackPort(), NumberedLoopbackPort())
        for port in [plain, numbered] as [any Loopback] {
            port.left = 3
            port.receive = { [unowned port] in if port.left > 0 { port.left -= 1; #expect(send(port, isFurtherNumbered)) } }
            #expect(send(port, isFirstNumbered))
            #expect(port.received == 4)
            port.receive = {}
        }
    }

    @Test("Overrides of a FoundationPort that send to other ports queue at their own, and so do the forms of one without overrides: S-NSP-18")
    func relays() {
        let (one, other, plain) = (RelayPort(), RelayPort(), FoundationPort())
        one.next = other
        other.next = plain
        let numbers = numbers(of: [one, other, plain]) {
            #expect(one.send(before: Date(), msgid: 3, components: nil, from: nil, reserved: 0))
            #expect(plain.send(before: Date(), components: nil, from: nil, reserved: 0))
            #expect(plain.send(before: Date(), msgid: 4, components: nil, from: nil, reserved: 0))
        }
        #expect(numbers == [[3], [1], [1, 0, 4]])
    }

    @Test("A subclass of FoundationPort is sent to by its own functions, in whatever form: S-NSP-18")
    func overridingWithDates() {
        let port = DatedSendingPort()
        let known: Port = port
        #expect(port.send(before: Date(), components: [Data()], from: nil, reserved: 0))
        #expect(known.send(before: Date(), components: [Data(), Data()], from: nil, reserved: 0))
        #expect(known.send(before: Date(), msgid: 7, components: nil, from: nil, reserved: 0))
        #expect(known.send(before: ContinuousClock.now, msgid: 8, components: [[1] as [UInt8]], from: nil, reserved: 0))
        let message = PortMessage(sendPort: port, receivePort: nil, components: nil)
        message.msgid = 9
        #expect(message.send(before: Date()))
        #expect(port.sent == ["1", "2", "7: -1", "8: 1", "9: -1"])
        let number = NumberSendingPort()
        let receiver = Receiver()
        number.setDelegate(receiver)
        let mode = RunLoop.Mode("sending")
        RunLoop.current.add(number, forMode: mode)
        #expect((number as Port).send(before: Date(), components: [Data([5])], from: nil, reserved: 0))
        RunLoop.current.run(mode: mode, before: Date())
        #expect(number.sent == [0])
        #expect(receiver.received.first?.components?.first as? Data == Data([5]))
        number.invalidate()
    }


    @Test("Both of Foundation's forms of sending reach a subclass that overrides those with instants: S-NSP-18")
    func overriding() {
        let port = SendingPort()
        #expect(port.send(before: Date(), components: NSMutableArray(), from: nil, reserved: 0))
        #expect(port.send(before: Date(), msgid: 7, components: nil, from: nil, reserved: 0))
        #expect(port.sent == [-1, 7])
    }

    @Test("The end of a port is heard in both default centres, whichever it is posted to: S-NSP-10, S-NSP-18")
    func bothCentres() {
        let raw = "NSPortDidBecomeInvalidNotification"
        for isOwn in [false, true] {
            let port = Port()
            nonisolated(unsafe) var heard: [String] = []
            let one = Foundation.NotificationCenter.default.addObserver(forName: .init(raw), object: port, queue: nil) { _ in
                heard.append("Foundation's")
            }
            let two = RunLoopKit.NotificationCenter.default.addObserver(forName: .init(raw), object: port, queue: nil) { _ in
                heard.append("RunLoopKit's")
            }
            if isOwn {
                RunLoopKit.NotificationCenter.default.post(name: .init(raw), object: port)
            } else {
                Foundation.NotificationCenter.default.post(name: .init(raw), object: port)
            }
            #expect(heard.sorted() == ["Foundation's", "RunLoopKit's"])
            Foundation.NotificationCenter.default.removeObserver(one)
            RunLoopKit.NotificationCenter.default.removeObserver(two)
        }
    }
}
