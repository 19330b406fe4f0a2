import RunLoopKitFoundation
import Testing

private final class Receiver: PortDelegate {
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
