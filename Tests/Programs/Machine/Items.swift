// SPDX-License-Identifier: MIT
// The steps about objects of loops: timers, sources, sequences, ports, notifications, locks.
import Glibc
import RunLoopKit
import Synchronization

/// Numbers for names of ports and of notifications.
private let lastName = Atomic(0)
private func newName() -> String { "machine.\(getpid()).\(lastName.add(1, ordering: .relaxed).newValue)" }

/// A pipe whose ends are closed with the object.
private final class Pipe: Sendable {
    let ends: [CInt]

    init() {
        var ends: [CInt] = [-1, -1]
        precondition(pipe(&ends) == 0, "no pipe to be had")
        self.ends = ends
    }

    func write() { precondition(Glibc.write(ends[1], [7], 1) == 1) }

    func read() {
        var byte: UInt8 = 0
        precondition(Glibc.read(ends[0], &byte, 1) == 1 && byte == 7)
    }

    deinit { for end in ends { close(end) } }
}

/// Gets the messages of a port.
private final class Receiver: PortDelegate {
    private let body: @Sendable (Int) -> Void

    init(_ body: @escaping @Sendable (Int) -> Void) { self.body = body }

    func handle(_ message: PortMessage) { body(Int(message.msgid)) }
}

extension World {
    /// An end that only a cancellation or the end of the thread brings.
    private func checkOver(_ place: Place, _ name: String) {
        check(
            Task.isCancelled || place.endIsRequested.load(ordering: .acquiring),
            "\(name): over, with a loop that goes on and a task that is not cancelled")
    }

    // MARK: - Sequences

    func ticks(_ count: Int, on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let ticks = place.loop.ticks(every: .microseconds(100))
        var iterator = ticks.makeAsyncIterator()
        var last: ContinuousClock.Instant?
        for _ in 0..<count {
            guard let date = await iterator.next(isolation: isolation) else { return checkOver(place, name) }
            check(last.map { $0 < date } ?? true, "\(name): \(date) after \(last!)")
            last = date
        }
    }

    func ticksByClock(_ count: Int, on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        guard place.number < program.threads.count, program.threads[place.number] == .clock else { return }
        let start = clock.now
        let ticks = place.loop.ticks(every: .microseconds(100), clock: clock)
        var iterator = ticks.makeAsyncIterator()
        var last = start
        for _ in 0..<count {
            guard let date = await iterator.next(isolation: isolation) else { return checkOver(place, name) }
            check(last < date, "\(name): \(date) after \(last)")
            // On the thread of a loop the clock shows that loop's time.
            if !places.contains(where: { $0.isOn }) { check(date <= clock.now, "\(name): \(date) before the clock's \(clock.now)") }
            last = date
        }
    }

    func readiness(_ count: Int, on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let pipe = Pipe()
        let writer = count % 2 == 0 ? nil : places.randomElement()
        if writer == nil { pipe.write() }
        let sequence = place.loop.readiness(of: pipe.ends[0])
        var iterator = sequence.makeAsyncIterator()
        for number in 0..<count {
            if let writer {
                // Perhaps the loop's own thread; one that is over leaves it to this task.
                let token = Token()
                do { try await writer.loop.call { token.touch(); pipe.write() } } catch { pipe.write() }
            } else if number > 0 {
                pipe.write()
            }
            guard let readiness = await iterator.next(isolation: isolation) else { return checkOver(place, name) }
            check(readiness == .read, "\(name): \(readiness)")
            pipe.read()
        }
    }

    func signals(_ count: Int, on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let signals = place.loop.signals(SIGUSR1)
        var iterator = signals.makeAsyncIterator()
        for _ in 0..<count {
            kill(getpid(), SIGUSR1)
            guard let number = await iterator.next(isolation: isolation) else { return checkOver(place, name) }
            check(number == SIGUSR1, "\(name): signal \(number)")
        }
    }

    // MARK: - Ports

    func ask(
        _ place: Place, answerOn other: Place, bytes: Int, _ name: String, isolation: isolated (any Actor)? = #isolation
    ) async {
        let port = MessagePort()
        let token = Token()
        let entry = entry(name)
        port.setRequestHandler { _, request in
            token.touch()
            entry.note()
            place.checkClosure(name)
            return request.bytes.reversed()
        }
        watch("\(name): the port", port)
        place.loop.add(port, forMode: .common)
        let portName = newName()
        guard MessagePortNameServer.sharedInstance().registerPort(port, name: portName),
            let client = MessagePortNameServer.sharedInstance().port(forName: portName) as? MessagePort
        else { return check(false, "\(name): no name") }
        let question = (0..<bytes).map { UInt8(truncatingIfNeeded: $0) }
        let hasLimit = mayEnd[place.number]
        do {
            let answer = try await client.request(question, msgid: 1, timeout: hasLimit ? .milliseconds(20) : nil, on: other.loop)
            check(answer == question.reversed(), "\(name): another answer")
            entry.expect(1...1)
        } catch let error as MessagePort.RequestError {
            check(hasLimit && (error == .receiveTimeout || error == .sendTimeout), "\(name): \(error)")
        } catch {
            checkError(error, [other], name)
        }
        port.invalidate()
    }

    func machMessages(_ count: Int, to place: Place, _ name: String) {
        let port = Port()
        let token = Token()
        let entry = entry(name, 0...count)
        let order = Order()
        let receiver = Receiver { number in
            token.touch()
            entry.note()
            place.checkClosure(name)
            if !place.mayNest { order.arrive(number, name) }
        }
        port.setDelegate(receiver)
        place.loop.add(port, forMode: .common)
        var sent = 0
        for number in 1...count {
            if port.send(before: .now, msgid: number, components: [[UInt8(7)]], from: nil, reserved: 0) { sent += 1 }
        }
        let accepted = sent
        expect(name, on: place) { entry.count == accepted }
        watch("\(name): the port", port)
        watch("\(name): the delegate", receiver)
        atEnd {
            withExtendedLifetime(receiver) { port.invalidate() }
            entry.expect(0...accepted)
        }
    }

    // MARK: - Notifications

    func notify(_ count: Int, on place: Place, _ name: String) {
        let token = Token()
        let (entry, direct) = (entry(name, 0...count), entry(name + ", directly", count...count))
        let order = Order()
        let kind = Notification.Name("step")
        let first = centre.addObserver(forName: kind, object: token, queue: place.loop) { notification in
            entry.note()
            place.checkClosure(name)
            if !place.mayNest { order.arrive(notification.userInfo!["number"] as! Int, name) }
        }
        let second = centre.addObserver(forName: kind, object: token, queue: nil) { _ in direct.note() }
        for number in 1...count { centre.post(name: kind, object: token, userInfo: ["number": number]) }
        centre.removeObserver(second)
        expect(name, on: place) { entry.count == count }
        let centre = centre
        atEnd { centre.removeObserver(first) }
    }

    func enqueueNotifications(
        _ count: Int, on place: Place, whenIdle: Bool, _ name: String, isolation: isolated (any Actor)? = #isolation
    ) async {
        let token = Token()
        let entry = entry(name, 0...count)
        let order = Order()
        let kind = Notification.Name(newName())
        let observation = NotificationCenter.default.addObserver(forName: kind, object: nil, queue: nil) { notification in
            token.touch()
            entry.note()
            place.checkClosure(name)
            order.arrive(notification.userInfo!["number"] as! Int, name)
        }
        let coalesces = count == 2
        do {
            try await place.loop.call {
                for number in 1...count {
                    NotificationQueue.default.enqueue(
                        Notification(name: kind, object: nil, userInfo: ["number": number]), postingStyle: whenIdle ? .whenIdle : .asap,
                        coalesceMask: coalesces ? [.onName, .onSender] : .none, forModes: nil)
                }
            }
            expect(name, on: place) { entry.count == (coalesces ? 1 : count) }
        } catch {
            checkError(error, [place], name)
        }
        atEnd {
            NotificationCenter.default.removeObserver(observation)
            if coalesces { entry.expect(0...1) }
        }
    }

    // MARK: - Locks

    /// A closure of the loop waits for the lock in a run, and a thread without a loop beside it.
    func useLock(on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let token = Token()
        place.loop.perform { [lock, locked] in
            token.touch()
            guard lock.lock(inMode: .default, before: .now + .milliseconds(1)) else { return }
            locked.value += 1
            lock.unlock()
        }
        place.loop.wakeUp()
        await withCheckedContinuation { continuation in
            let isMade = RunLoop.performInBackground { [lock, locked] in
                lock.withLock { locked.value += 1 }
                continuation.resume()
            }
            if !isMade { continuation.resume() }
        }
    }

    private final class Signaller: Sendable {
        let condition = NSCondition()
        let isDone = Atomic(false)

        func signal() {
            condition.withLock {
                isDone.store(true, ordering: .relaxed)
                condition.broadcast()
            }
        }
    }

    /// A thread waits for what the loop performs; the loop waits for that thread in a run, not for long.
    func awaitCondition(on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let signaller = Signaller()
        watch("\(name): the condition", signaller)
        place.loop.perform(inModes: [.common]) {
            place.checkClosure(name)
            signaller.condition.withLock { _ = signaller.condition.wait(inMode: .default, until: .now + .microseconds(200)) }
            signaller.signal()
        }
        place.loop.wakeUp()
        await withCheckedContinuation { continuation in
            let isMade = RunLoop.performInBackground {
                signaller.condition.withLock {
                    while !signaller.isDone.load(ordering: .relaxed) {
                        // Nobody says so when the closure is not called.
                        if !signaller.condition.wait(until: .now + .milliseconds(5)), place.endIsRequested.load(ordering: .acquiring) { break }
                    }
                }
                continuation.resume()
            }
            if !isMade { continuation.resume() }
        }
    }

    // MARK: - Timers and sources

    func addTimer(_ count: Int, on place: Place, _ name: String) {
        let token = Token()
        let entry = entry(name, 0...count)
        let timer = Timer(timeInterval: .microseconds(150), repeats: count > 1) { timer in
            token.touch()
            entry.note()
            place.checkClosure(name)
            if entry.count == count { timer.invalidate() }
        }
        place.loop.add(timer, forMode: .common)
        watch(name, timer)
        expect(name, on: place) { entry.count == count }
    }

    func addSource(on place: Place, isKept: Bool, _ name: String) {
        let token = Token()
        let entry = entry(name, 0...1)
        let source = RunLoop.Source(
            cancel: { _, _ in
                token.touch()
                if place.isOn { for actor in place.actors { actor.assumeIsolated { $0.count() } } }
            },
            perform: { source in
                token.touch()
                entry.note()
                place.checkClosure(name)
                source.invalidate()
            })
        watch(name, source)
        place.loop.add(source, forMode: .common)
        source.signal()
        place.loop.wakeUp()
        expect(name, on: place) { entry.count == 1 }
        if isKept { keep(source) }
        // It and a loop whose thread had ended keep each other (S-LOOP-12). Another object, so that this one goes.
        let same = RunLoop.Source(wrapping: source.getRLSource())
        atEnd { same.invalidate() }
    }
}
