import RunLoopKit
import Testing

private final class Receiver: PortDelegate {
    private let body: (PortMessage) -> Void

    init(_ body: @escaping (PortMessage) -> Void) { self.body = body }

    func handle(_ message: PortMessage) { body(message) }
}

/// A name that no other test and no other process uses.
private func uniqueName() -> String { "RunLoopKitTests.\(UInt64.random(in: .min ... .max))" }

/// Ports that are found by name.
@Suite struct MessagePortTests {
    @Test("Two threads meet by a name, and an answer comes back: S-NSP-14, S-NSP-15, S-NSP-5, S-NSP-9")
    func meetByName() {
        let name = uniqueName()
        let ready = Promise<Bool>()
        let server = TestThread { () -> [String] in
            nonisolated(unsafe) var received: [String] = []
            let port = MessagePort()
            let receiver = Receiver { message in
                received.append("\(message.msgid) \(message.components!) \(message.receivePort === port)")
                let answer = PortMessage(send: message.sendPort, receive: nil, components: [[9, 9] as [UInt8]])
                answer.msgid = message.msgid + 1
                #expect(answer.send(before: .distantFuture))
                if message.msgid == 12 { port.invalidate() }
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            ready.fulfil(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
            RunLoop.current.run()
            return withExtendedLifetime(receiver) { received }
        }
        #expect(ready.value)
        let answers = onNewThread { () -> [String] in
            nonisolated(unsafe) var answers: [String] = []
            guard let remote = MessagePortNameServer.sharedInstance().port(forName: name) else { return ["not found"] }
            let own = MessagePort()
            let receiver = Receiver { answers.append("\($0.msgid) \($0.components!)") }
            own.setDelegate(receiver)
            RunLoop.current.add(own, forMode: .default)
            for number in [10, 12] {
                let components: [Any] = [[UInt8(number)], [] as [UInt8]]
                let sent = remote.send(
                    before: .distantFuture, msgid: number, components: components, from: own, reserved: 0)
                #expect(sent)
            }
            while answers.count < 2, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            own.invalidate()
            return withExtendedLifetime(receiver) { answers }
        }
        #expect(server.join() == ["10 [[10], []] true", "12 [[12], []] true"])
        #expect(answers == ["11 [[9, 9]]", "13 [[9, 9]]"])
    }

    @Test("A name is taken once; an unknown one, or another host, finds nothing: S-NSP-15")
    func names() {
        let server = MessagePortNameServer.sharedInstance()
        let name = uniqueName()
        let (one, other) = (MessagePort(), MessagePort())
        #expect(server.port(forName: name) == nil)
        #expect(server.registerPort(one, name: name))
        #expect(!server.registerPort(other, name: name))
        #expect(!server.registerPort(MachPort(), name: uniqueName()))
        let found = server.port(forName: name)
        #expect(found != nil)
        #expect(found === server.port(forName: name, host: ""))
        #expect(server.port(forName: name, host: "elsewhere") == nil)
        #expect(!server.registerPort(found!, name: uniqueName()))
        one.invalidate()
        other.invalidate()
    }

    @Test("A name goes with its port, and who found it learns of that: S-NSP-16, S-NSP-10, S-NSP-8")
    func unregistered() {
        let server = MessagePortNameServer.sharedInstance()
        let name = uniqueName()
        let port = MessagePort()
        #expect(server.registerPort(port, name: name))
        let remote = server.port(forName: name)!
        let trace = Trace()
        let observations = [port, remote].map { port in
            NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: port, queue: nil
            ) { note in trace.add(note.object as AnyObject? === remote ? "remote" : "local") }
        }
        #expect(remote.isValid)
        #expect(!server.removePort(forName: name))
        #expect(server.port(forName: name) === remote)
        port.invalidate()
        port.invalidate()
        #expect(!port.isValid)
        #expect(!remote.isValid)
        #expect(server.port(forName: name) == nil)
        #expect(!remote.send(before: .distantFuture, components: nil, from: nil, reserved: 0))
        remote.invalidate()
        observations.forEach { NotificationCenter.default.removeObserver($0) }
        #expect(trace.all.sorted() == ["local", "remote"])
    }

    @Test("Message ports and bytes travel, other ports and values do not: S-NSP-6, S-NSP-19")
    func components() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let (port, carried) = (MessagePort(), MessagePort())
            let last = Receiver { _ in trace.add("through the carried port") }
            carried.setDelegate(last)
            let receiver = Receiver { message in
                let components = message.components!
                trace.add("\(components.count) \(components[1] as! [UInt8])")
                (components[0] as! Port).send(before: .now, components: nil, from: nil, reserved: 0)
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            RunLoop.current.add(carried, forMode: .default)
            trace.add("\(port.send(before: .now, components: [MachPort()], from: nil, reserved: 0))")
            trace.add("\(port.send(before: .now, components: [1.5], from: nil, reserved: 0))")
            trace.add("\(port.send(before: .now, components: nil, from: MachPort(), reserved: 0))")
            trace.add("\(port.send(before: .now, components: [carried, [4] as [UInt8]], from: nil, reserved: 0))")
            RunLoop.current.run(mode: .default, before: .distantFuture)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            port.invalidate()
            carried.invalidate()
            return withExtendedLifetime((receiver, last)) { trace.all }
        }
        #expect(trace == ["false", "false", "false", "true", "2 [4]", "through the carried port"])
    }

    @Test("A long message arrives whole: S-NSP-6, S-NSP-7")
    func longMessage() {
        let long = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let same = onNewThread { () -> Bool in
            nonisolated(unsafe) var same = false
            let port = MessagePort()
            let receiver = Receiver { same = $0.components![0] as! [UInt8] == long }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            #expect(port.send(before: .distantFuture, components: [long], from: nil, reserved: 0))
            RunLoop.current.run(mode: .default, before: .distantFuture)
            port.invalidate()
            return withExtendedLifetime(receiver) { same }
        }
        #expect(same)
    }
}
