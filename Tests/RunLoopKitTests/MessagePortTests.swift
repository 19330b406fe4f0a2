// SPDX-License-Identifier: MIT
import RunLoopKit
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
        let told = Promise<Bool>()
        let observations = [port, remote].map { port in
            NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: port, queue: nil
            ) { note in
                trace.add(note.object as AnyObject? === remote ? "remote" : "local")
                if trace.count == 2 { told.fulfil(true) }
            }
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
        // The thread that watches the remote port may have noticed its end first, and be about to say so.
        #expect(told.value)
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

    @Test("A handler goes when its port becomes invalid, though that is kept, or is invalid already: S-MSG-34")
    func handlerOfAnInvalidPort() {
        let canary = Canary()
        let port = MessagePort()
        func answer() {
            port.setRequestHandler { [captured = canary.capture()] _, request in
                captured.touch()
                return request.bytes
            }
        }
        answer()
        port.invalidate()
        #expect(canary.deaths == 1)
        answer()
        #expect(canary.deaths == 2)
        withExtendedLifetime(port) {}
    }

    @Test("A request from another thread gets its answer, also none and a long one: S-MSG-13, S-MSG-14, S-MSG-16, S-MSG-17, S-MSG-30")
    func requests() {
        let name = uniqueName()
        let long = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let ready = Promise<RunLoop>()
        let server = TestThread { () -> [String] in
            let trace = Trace()
            let port = MessagePort()
            port.setRequestHandler { port, request in
                trace.add("\(request.msgid) \(request.bytes.count)")
                switch request.msgid {
                case 1: return request.bytes.map { $0 + 1 }
                case 2: return nil
                case 3: return long
                default:
                    port.invalidate()
                    return []
                }
            }
            RunLoop.current.add(port, forMode: .default)
            #expect(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
            ready.fulfil(RunLoop.current)
            RunLoop.current.run()
            return trace.all
        }
        _ = ready.value
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        let answers = onNewThread { () -> [String] in
            let isWhole = (try? remote.request(long, msgid: 3)) == long
            return ["\(try! remote.request([1, 2], msgid: 1))", "\(try! remote.request(msgid: 2))", "\(isWhole)"]
        }
        #expect(answers == ["[2, 3]", "[]", "true"])
        try? remote.post([1], msgid: 4)
        #expect(server.join() == ["3 300000", "1 2", "2 0", "4 1"])
        ready.forget()
    }

    @Test("Each request is answered as the first one is, with no more of the stack: S-MSG-13, S-THR-9")
    func manyRequests() {
        let places = onNewThread { () -> [UInt] in
            let places = Guarded<[UInt]>([])
            let mode = RunLoop.Mode("requests")
            let port = MessagePort()
            port.setRequestHandler { _, _ in
                var local: UInt8 = 0
                let place = withUnsafePointer(to: &local) { UInt(bitPattern: $0) }
                places.withLock { $0.append(place) }
                return [local]
            }
            RunLoop.current.add(port, forMode: mode)
            for _ in 0..<500 { _ = try! port.request(mode: mode) }
            port.invalidate()
            return places.withLock { $0 }
        }
        #expect(places.count == 500)
        // The address sanitizer has such variables elsewhere.
        #expect(isAddressSanitized || Set(places).count == 1)
    }

    @Test("Sender and receiver may be one thread; descriptors travel with the message: S-MSG-27, S-MSG-25, S-MSG-24")
    func descriptors() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let mode = RunLoop.Mode("requests")
            let pipe = Pipe()
            let port = MessagePort()
            let kept = Promise<MessagePort.Request.Box>()
            port.setRequestHandler { _, request in
                let taken = request.takeDescriptors()
                trace.add("\(request.msgid) \(taken.count) \(request.takeDescriptors().count)")
                kept.fulfil(MessagePort.Request.Box(request))
                for descriptor in taken {
                    #expect(fcntl(descriptor, F_GETFD) == FD_CLOEXEC)
                    #expect(write(descriptor, "x", 1) == 1)
                    close(descriptor)
                }
                return [UInt8(taken.count)]
            }
            RunLoop.current.add(port, forMode: mode)
            trace.add("\(try! port.request(descriptors: [pipe.writeEnd, pipe.writeEnd], mode: mode))")
            trace.add("read \(pipe.read(10))")
            try! port.post(msgid: 9, descriptors: [pipe.writeEnd])
            RunLoop.current.run(mode: mode, before: .distantFuture)
            // After the handler there is nothing to take.
            trace.add("\(kept.value.request.takeDescriptors().count)")
            port.setRequestHandler(nil)
            port.invalidate()
            return trace.all
        }
        #expect(trace == ["0 2 0", "[2]", "read 2", "9 1 0", "0"])
    }

    @Test("A request takes the descriptors of its own message only, not those of later ones that the port serves: S-MSG-12, S-MSG-15")
    func descriptorsOfLaterMessages() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let mode = RunLoop.Mode("requests")
            let pipe = Pipe()
            let port = MessagePort()
            nonisolated(unsafe) var kept: MessagePort.Request?
            @Sendable func count(_ request: MessagePort.Request?) -> Int {
                let taken = request?.takeDescriptors() ?? []
                for descriptor in taken { close(descriptor) }
                return taken.count
            }
            port.setRequestHandler { port, request in
                switch request.msgid {
                case 1: kept = request
                case 2: trace.add("kept \(count(kept)), own \(count(request))")
                case 3:
                    kept = request
                    _ = try? port.request(msgid: 4, descriptors: [pipe.writeEnd, pipe.writeEnd], mode: mode)
                    trace.add("outer again \(count(request))")
                default: trace.add("outer \(count(kept)), inner \(count(request))")
                }
                return []
            }
            RunLoop.current.add(port, forMode: mode)
            _ = try? port.request(msgid: 1, descriptors: [pipe.writeEnd], mode: mode)
            _ = try? port.request(msgid: 2, descriptors: [pipe.writeEnd, pipe.writeEnd], mode: mode)
            _ = try? port.request(msgid: 3, descriptors: [pipe.writeEnd], mode: mode)
            kept = nil
            port.setRequestHandler(nil)
            port.invalidate()
            return trace.all
        }
        #expect(trace == ["kept 0, own 2", "outer 0, inner 2", "outer again 1"])
    }

    @Test("Who gets no answer is told why: S-MSG-21, S-MSG-22, S-MSG-28, S-MSG-29")
    func unanswered() {
        let codes = onNewThread { () -> [MessagePort.RequestError?] in
            func error(_ body: () throws(MessagePort.RequestError) -> Void) -> MessagePort.RequestError? {
                do throws(MessagePort.RequestError) { try body() } catch { return error }
                return nil
            }
            var codes: [MessagePort.RequestError?] = []
            let mode = RunLoop.Mode("requests")
            let port = MessagePort()
            // Nobody serves it: the mode that runs does not have the port.
            codes.append(error { () throws(MessagePort.RequestError) in
                _ = try port.request(replyTimeout: .milliseconds(5), mode: mode)
            })
            codes.append(error { () throws(MessagePort.RequestError) in try port.post(descriptors: [-1]) })
            port.setRequestHandler { port, _ in
                port.invalidate()
                return []
            }
            RunLoop.current.add(port, forMode: mode)
            codes.append(error { () throws(MessagePort.RequestError) in _ = try port.request(mode: mode) })
            codes.append(error { () throws(MessagePort.RequestError) in _ = try port.request(mode: mode) })
            return codes
        }
        #expect(codes == [.receiveTimeout, .transportError, .becameInvalid, .isInvalid])
    }
}

extension MessagePort.Request {
    /// Carries a request to where it must not be used any more.
    // Sendable: it does not leave the thread.
    fileprivate final class Box: @unchecked Sendable {
        let request: MessagePort.Request
        init(_ request: MessagePort.Request) { self.request = request }
    }
}
