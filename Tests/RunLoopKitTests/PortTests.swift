// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// A delegate that hands its messages to a closure.
private final class Receiver: PortDelegate, @unchecked Sendable {
    private let body: (PortMessage) -> Void

    init(_ body: @escaping (PortMessage) -> Void) { self.body = body }

    func handle(_ message: PortMessage) { body(message) }
}

/// A delegate that wants messages as they travelled.
private final class RawReceiver: MachPortDelegate, @unchecked Sendable {
    let trace: Trace

    init(_ trace: Trace) { self.trace = trace }

    func handle(_ message: PortMessage) { trace.add("handled") }

    func handleMachMessage(_ message: MachMessage) { trace.add("raw \(message.msgid) \(message.bytes)") }
}

/// A port that is no Mach-like one: it notes what a loop asks of it.
private final class CustomPort: Port, @unchecked Sendable {
    let trace: Trace
    private let valid = Atomic(true)

    init(_ trace: Trace) { self.trace = trace }

    override var isValid: Bool { valid.load(ordering: .relaxed) }

    // It posts the notification by itself and does not call super.
    override func invalidate() {
        valid.store(false, ordering: .relaxed)
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }

    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) { trace.add("schedule \(mode.rawValue)") }

    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) { trace.add("remove \(mode.rawValue)") }
}

/// A port with something that happens once before it is put into a loop, or taken out.
private final class MetPort: Port, @unchecked Sendable {
    private let before = Mutex<(schedule: (@Sendable () -> Void)?, remove: (@Sendable () -> Void)?)>((nil, nil))

    func beforeNextSchedule(_ body: @escaping @Sendable () -> Void) { before.withLock { $0.schedule = body } }

    func beforeNextRemove(_ body: @escaping @Sendable () -> Void) { before.withLock { $0.remove = body } }

    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        before.withLock { $0.schedule.take() }?()
        super.schedule(in: runLoop, forMode: mode)
    }

    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        before.withLock { $0.remove.take() }?()
        super.remove(from: runLoop, forMode: mode)
    }
}

/// Ports between threads.
@Suite struct PortTests {
    private static let modal = RunLoop.Mode("modal")

    @Test("A port receives in the modes it is in, one message a pass, in order; they count as sources: S-NSP-1, S-NSP-4, S-NSP-9")
    func receives() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let port = Port()
            let receiver = Receiver { trace.add("\($0.msgid) \($0.components!)") }
            port.setDelegate(receiver)
            loop.keepAlive()
            #expect(port.send(before: .now, msgid: 1, components: [[UInt8](1...3)], from: nil, reserved: 0))
            #expect(port.send(before: .now, msgid: 2, components: [[7] as [UInt8], [8] as [UInt8]], from: nil, reserved: 0))
            #expect(port.send(before: .now, components: nil, from: nil, reserved: 0))
            trace.add("\(loop.run(mode: .default, for: .zero))")
            loop.add(port, forMode: Self.modal)
            trace.add("\(loop.run(mode: .default, for: .zero))")
            for _ in 0..<3 { trace.add("\(loop.run(mode: Self.modal, returnAfterSourceHandled: true))") }
            port.invalidate()
            return trace.all
        }
        #expect(trace == [
            "timedOut", "timedOut", "1 [[1, 2, 3]]", "handledSource", "2 [[7], [8]]", "handledSource",
            "0 []", "handledSource",
        ])
    }

    @Test("An answer goes to the port the message came from: S-NSP-5, S-NSP-6, S-NSP-13")
    func answers() {
        let ready = Promise<MachPort>()
        let server = TestThread { () -> Bool in
            let port = MachPort()
            let receiver = Receiver { message in
                #expect(message.receivePort === port)
                let answer = PortMessage(send: message.sendPort, receive: port, components: message.components)
                answer.msgid = message.msgid + 100
                #expect(answer.send(before: .now))
                port.invalidate()
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            ready.fulfil(port)
            RunLoop.current.run()
            return withExtendedLifetime(receiver) { port.isValid }
        }
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let server = ready.value
            let own = MachPort()
            let receiver = Receiver { message in
                trace.add("\(message.msgid) \(message.components!)")
                trace.add(message.sendPort === server && message.receivePort === own ? "the same ports" : "others")
            }
            own.setDelegate(receiver)
            RunLoop.current.add(own, forMode: .default)
            let message = PortMessage(send: server, receive: own, components: [[5] as [UInt8]])
            message.msgid = 7
            trace.add("\(message.send(before: .distantFuture))")
            RunLoop.current.run(mode: .default, before: .distantFuture)
            own.invalidate()
            return withExtendedLifetime(receiver) { trace.all }
        }
        #expect(!server.join())
        ready.forget()
        #expect(trace == ["true", "107 [[5]]", "the same ports"])
    }

    @Test("Components are bytes and ports, and the rest is refused: S-NSP-6, S-NSP-19")
    func components() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let (port, other) = (Port(), Port())
            let receiver = Receiver { message in
                let components = message.components!
                trace.add("\(components.count) \(components[1] as? Port === other) \(components[0] as! [UInt8])")
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            trace.add("\(port.send(before: .now, components: ["text"], from: nil, reserved: 0))")
            trace.add("\(port.send(before: .now, components: [[] as [UInt8], other], from: nil, reserved: 0))")
            RunLoop.current.run(mode: .default, before: .now)
            port.invalidate()
            other.invalidate()
            return withExtendedLifetime(receiver) { trace.all }
        }
        #expect(trace == ["false", "true", "2 true []"])
    }

    @Test("A full queue makes a sender wait until its date, and one try is made for a past one: S-NSP-7")
    func fullQueue() {
        let port = MachPort()
        port.setQueueLimit(2)
        func send(_ limit: ContinuousClock.Instant) -> Bool {
            port.send(before: limit, components: nil, from: nil, reserved: 0)
        }
        #expect(send(.distantPast))
        #expect(send(.distantPast))
        #expect(!send(.distantPast))
        let limit = ContinuousClock.now + .milliseconds(20)
        #expect(!send(limit))
        // The wait is counted in whole milliseconds.
        #expect(ContinuousClock.now >= limit - .milliseconds(2))
        let waiting = TestThread { port.send(before: .distantFuture, components: nil, from: nil, reserved: 0) }
        onNewThread {
            RunLoop.current.add(port, forMode: .default)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            RunLoop.current.remove(port, forMode: .default)
        }
        #expect(waiting.join())
        port.invalidate()
    }

    @Test("Without a delegate messages are dropped; it is not kept alive: S-NSP-2, S-NSP-3")
    func delegates() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let port = Port()
            RunLoop.current.add(port, forMode: .default)
            func setDelegate() {
                let receiver = Receiver { _ in trace.add("handled") }
                port.setDelegate(receiver)
                trace.add("\(port.delegate() === receiver)")
            }
            setDelegate()
            trace.add("\(port.delegate() == nil)")
            port.send(before: .now, components: nil, from: nil, reserved: 0)
            trace.add("\(RunLoop.current.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
            port.send(before: .now, msgid: 9, components: [[1, 2] as [UInt8]], from: nil, reserved: 0)
            let raw = RawReceiver(trace)
            port.setDelegate(raw)
            RunLoop.current.run(mode: .default, for: .zero)
            port.invalidate()
            return withExtendedLifetime(raw) { trace.all }
        }
        #expect(trace == ["true", "true", "handledSource", "raw 9 [1, 2]"])
    }

    @Test("An invalid port is out of its loops, cannot be sent to, and was announced once: S-NSP-8, S-NSP-10, S-NSRL-11")
    func invalidation() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let port = MachPort()
            let observation = NotificationCenter.default.addObserver(
                forName: Port.didBecomeInvalidNotification, object: port, queue: nil
            ) { note in
                let same = note.object as AnyObject? === port
                trace.add("\(same) \(port.isValid) \(RunLoop.current.run(mode: .default, before: .now))")
            }
            RunLoop.current.add(port, forMode: .default)
            trace.add("\(port.isValid)")
            port.invalidate()
            port.invalidate()
            trace.add("\(port.send(before: .distantFuture, components: nil, from: nil, reserved: 0))")
            NotificationCenter.default.removeObserver(observation)
            return trace.all
        }
        #expect(trace == ["true", "true false false", "false"])
    }

    @Test("Releasing a port does not invalidate it: its loop keeps it: S-NSP-11")
    func released() {
        let (deaths, after) = onNewThread { () -> (Int, Int) in
            let canary = Canary()
            final class Watched: Port, @unchecked Sendable {
                let captured: Canary.Captured
                init(_ canary: Canary) { captured = canary.capture() }
            }
            func add() {
                let port = Watched(canary)
                RunLoop.current.add(port, forMode: .default)
            }
            add()
            let deaths = canary.deaths
            RunLoop.current.run(mode: .default, for: .zero)
            return (deaths, canary.deaths)
        }
        #expect(deaths == 0)
        #expect(after == 0)
    }

    @Test("A chain of ports, each of which waits in the queue of the one before it, ends without stack for each: S-NSP-11")
    func chain() {
        let canary = Canary()
        onNewThread {
            final class Watched: Port, @unchecked Sendable {
                let captured: Canary.Captured
                init(_ canary: Canary) { captured = canary.capture() }
            }
            let first = Port()
            var last = first
            for _ in 0..<60_000 {
                let next = Watched(canary)
                last.send(before: .now, components: [[1] as [UInt8]], from: next, reserved: 0)
                last = next
            }
            first.invalidate()
        }
        #expect(canary.deaths == 60_000)
    }

    @Test("A loop whose thread has ended lets go of its ports: S-NSP-11, S-LOOP-6")
    func endOfTheThread() {
        let canary = Canary()
        final class Watched: Port, @unchecked Sendable {
            let captured: Canary.Captured
            init(_ canary: Canary) { captured = canary.capture() }
        }
        onNewThread { RunLoop.current.add(Watched(canary), forMode: .default) }
        #expect(canary.deaths == 1)
    }

    @Test("Adding a port twice schedules it once, and removing it takes it out of the mode: S-NSRL-11, S-NSP-18")
    func idempotence() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let port = CustomPort(trace)
            let loop = RunLoop.current
            let one = RunLoop.Mode("one")
            loop.add(port, forMode: one)
            loop.add(port, forMode: one)
            loop.add(port, forMode: Self.modal)
            loop.remove(port, forMode: .default)
            loop.remove(port, forMode: one)
            loop.remove(port, forMode: one)
            trace.add("invalidate")
            port.invalidate()
            // The loop has forgotten it, by the notification alone.
            loop.remove(port, forMode: Self.modal)
            return trace.all
        }
        #expect(trace == ["schedule one", "schedule modal", "remove one", "invalidate"])
    }

    @Test("A port that is added and removed again waits for messages no more: S-NSP-1, S-NSRL-11")
    func removed() {
        let (first, second) = onNewThread {
            let port = Port()
            RunLoop.current.add(port, forMode: .default)
            let first = RunLoop.current.run(mode: .default, before: .now)
            RunLoop.current.remove(port, forMode: .default)
            return (first, RunLoop.current.run(mode: .default, before: .now))
        }
        #expect(first)
        #expect(!second)
    }

    @Test("A port that one thread adds while another takes it out is in the mode, and receives: S-NSRL-11, S-NSP-1")
    func addedDuringRemoval() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let port = MetPort()
            let receiver = Receiver { trace.add("received \($0.msgid)") }
            port.setDelegate(receiver)
            loop.keepAlive()
            loop.add(port, forMode: .default)
            port.beforeNextRemove { onNewThread { loop.add(port, forMode: .default) } }
            loop.remove(port, forMode: .default)
            #expect(port.send(before: .now, msgid: 1, components: nil, from: nil, reserved: 0))
            loop.run(mode: .default, before: .now)
            // As any other port, it can be taken out again.
            loop.remove(port, forMode: .default)
            #expect(port.send(before: .now, msgid: 2, components: nil, from: nil, reserved: 0))
            loop.run(mode: .default, before: .now)
            return withExtendedLifetime(receiver) { trace.all }
        }
        #expect(trace == ["received 1"])
    }

    @Test("A port that one thread takes out while another adds it is out of the mode, and can be added again: S-NSRL-11, S-NSP-1")
    func removedDuringAddition() {
        let (first, second) = onNewThread {
            let loop = RunLoop.current
            let port = MetPort()
            port.beforeNextSchedule { onNewThread { loop.remove(port, forMode: .default) } }
            loop.add(port, forMode: .default)
            let first = loop.run(mode: .default, before: .now)
            loop.add(port, forMode: .default)
            return (first, loop.run(mode: .default, before: .now))
        }
        #expect(!first)
        #expect(second)
    }

    @Test("What adds or takes out a port while another thread does so returns when that is done: S-NSRL-11, S-NSP-1")
    func sameChangeTwice() {
        let (afterAdd, afterRemove) = onNewThread {
            let loop = RunLoop.current
            let port = MetPort()
            // Has another thread begin the change, makes the same one, and says whether the mode has the port then.
            func isIn(_ meet: (@escaping @Sendable () -> Void) -> Void, _ change: @escaping @Sendable () -> Void) -> Bool {
                let (hasBegun, hasReturned) = (Promise<Void>(), Promise<Void>())
                meet {
                    hasBegun.fulfil(())
                    hasReturned.value
                }
                let other = TestThread(change)
                hasBegun.value
                change()
                let isIn = loop.run(mode: .default, before: .now)
                hasReturned.fulfil(())
                other.join()
                return isIn
            }
            let afterAdd = isIn(port.beforeNextSchedule) { loop.add(port, forMode: .default) }
            return (afterAdd, isIn(port.beforeNextRemove) { loop.remove(port, forMode: .default) })
        }
        #expect(afterAdd)
        #expect(!afterRemove)
    }

    @Test("Ports are equal and hashed by identity, and C's reference leads back to the object: S-NSRL-15, S-NSP-13")
    func identity() {
        let (one, other) = (MachPort(), MachPort())
        #expect(one == one)
        #expect(one != other)
        #expect(Set([one, other, one]).count == 2)
        #expect(MachPort.wrapping(one.getRLMachPort()) === one)
        #expect(one.machPort >= 0)
        #expect(one.machPort == one.machPort)
    }

    @Test("A plain port is Mach-like: threads send to it and a loop receives: S-NSP-12")
    func plainPort() {
        let ready = Promise<Port>()
        let thread = TestThread { () -> [UInt32] in
            nonisolated(unsafe) var received: [UInt32] = []
            let port = Port()
            let receiver = Receiver { message in
                received.append(message.msgid)
                if received.count == 20 { port.invalidate() }
            }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            ready.fulfil(port)
            RunLoop.current.run()
            return withExtendedLifetime(receiver) { received }
        }
        let port = ready.value
        for number in 0..<20 {
            #expect(port.send(before: .distantFuture, msgid: number, components: nil, from: nil, reserved: 0))
        }
        #expect(thread.join() == Array(0..<20))
        ready.forget()
    }

    @Test("A number finds the port that has it, as the same object; another number makes an invalid one: S-PORT-1, S-PORT-3")
    func byNumber() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let port = MachPort()
            let receiver = Receiver { trace.add("\($0.msgid) \($0.components!.count)") }
            port.setDelegate(receiver)
            RunLoop.current.add(port, forMode: .default)
            let found = MachPort(machPort: port.machPort)
            trace.add("\(found === port) \(MachPort(machPort: port.machPort, options: .deallocateSendRight) === port)")
            #expect(found.send(before: .now, msgid: 5, components: [[1] as [UInt8], [2] as [UInt8]], from: nil, reserved: 0))
            RunLoop.current.run(mode: .default, before: .distantFuture)
            let number = port.machPort
            port.invalidate()
            trace.add("\(MachPort(machPort: number).isValid) \(MachPort(machPort: -1).isValid)")
            return withExtendedLifetime(receiver) { trace.all }
        }
        #expect(trace == ["true true", "5 2", "false false"])
    }
}
