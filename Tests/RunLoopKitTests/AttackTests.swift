// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

private func openDescriptors() -> Int {
    (0..<4096).count { fcntl(CInt($0), F_GETFD) >= 0 }
}

/// What the process has in memory, by pages.
private func usedMemory() -> Int {
    let file = open("/proc/self/statm", O_RDONLY)
    defer { close(file) }
    var text = [UInt8](repeating: 0, count: 100)
    let count = read(file, &text, text.count)
    let fields = String(decoding: text.prefix(max(count, 0)), as: UTF8.self).split(separator: " ")
    return Int(fields[1])! * sysconf(CInt(_SC_PAGESIZE))
}

private func startedThread() throws -> RunLoopThread {
    let thread = RunLoopThread()
    try thread.start()
    return thread
}

/// How much memory a thousand of rounds takes that a first thousand did not, and how many descriptors. The least of two trials: what each
/// round leaves is there in both, and a block that an allocator happens to take (the thread sanitizer's has a megabyte) in one.
private func leaks(_ round: () async throws -> Void) async rethrows -> (bytes: Int, descriptors: Int) {
    for _ in 0..<1000 { try await round() }
    var least = (bytes: Int.max, descriptors: Int.max)
    for _ in 0..<2 {
        let (bytes, descriptors) = (usedMemory(), openDescriptors())
        for _ in 0..<1000 { try await round() }
        least = (min(least.bytes, isSanitized ? 0 : usedMemory() - bytes), min(least.descriptors, openDescriptors() - descriptors))
    }
    return least
}

private final class Countdown: Sendable {
    private let left: Atomic<Int>

    init(_ count: Int) { left = Atomic(count) }

    /// Whether this is the last of the calls.
    func isLast() -> Bool { left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}

/// An error whose end starts a task on a loop, or runs that.
private final class CallingError: Error {
    private let runs: Bool
    private let executor: RunLoopExecutor
    private let isDone: Promise<Void>

    init(_ executor: RunLoopExecutor, runs: Bool, _ isDone: Promise<Void>) {
        (self.executor, self.runs, self.isDone) = (executor, runs, isDone)
    }

    deinit {
        if runs { RunLoop.current.run(mode: .default, for: .zero) }
        // By the mail of the loop, which the thread looks at for what it appends itself.
        TestThread { [executor] in _ = Task(executorPreference: executor) {} }.join()
        Task(executorPreference: executor) { [isDone] in isDone.fulfil(()) }
    }
}

@Suite struct AttackTests {
    @Test("What an awaited closure threw may use the loop when it ends on the loop's thread: S-THR-3", arguments: [false, true])
    func errorsThatCall(runs: Bool) async throws {
        actor Caller {
            private let executor: RunLoopExecutor
            nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

            init(_ loop: RunLoop) { executor = loop.executor }

            func call(_ loop: RunLoop, runs: Bool) async -> Promise<Void> {
                let isDone = Promise<Void>()
                let own = executor
                try? await loop.call { throw CallingError(own, runs: runs, isDone) }
                return isDone
            }
        }
        let (home, other) = (try startedThread(), try startedThread())
        let caller = Caller(home.loop)
        for _ in 0..<20 {
            let isDone = await caller.call(other.loop, runs: runs)
            await Task.detached { isDone.value }.value
        }
        for thread in [home, other] { await thread.finish() }
    }

    @Test("Waiting for the ends of threads holds up no task, whatever their loops do at the end: S-LOOP-7")
    func finishBlocksNobody() async throws {
        // More than the global executor makes threads.
        let threads = (0..<600).map { _ in RunLoopThread() }
        for thread in threads {
            try thread.start()
            let source = RunLoop.Source(cancel: { _, _ in
                // Waits for a task, which needs a thread of that executor.
                let promise = Promise<Int>()
                Task.detached { promise.fulfil(1) }
                _ = promise.value
            }, perform: { _ in })
            thread.loop.add(source, forMode: .default)
        }
        await withDiscardingTaskGroup { group in
            for thread in threads { group.addTask { await thread.finish() } }
        }
        #expect(!threads.contains { !$0.isFinished })
    }

    @Test("An observer's sender that is not Sendable is compared on its thread, and elsewhere stops the program: S-NQ-10")
    func senderComparedElsewhere() async {
        await #expect(processExitsWith: .failure) {
            final class Count { var value = 0 }
            struct Sender: Hashable {
                let count: Count
                static func == (one: Sender, other: Sender) -> Bool {
                    one.count.value += 1
                    return true
                }
                func hash(into hasher: inout Hasher) {}
            }
            let centre = NotificationCenter()
            let told = Trace()
            let observation = centre.addObserver(forName: nil, object: Sender(count: Count()), queue: nil) { _ in told.add("") }
            centre.post(name: .init("n"), object: Sender(count: Count()))
            if told.count != 1 { return }
            onNewThread { centre.post(name: .init("n"), object: Sender(count: Count())) }
            centre.removeObserver(observation)
        }
        await #expect(processExitsWith: .success) {
            let centre = NotificationCenter()
            let told = Trace()
            let observation = centre.addObserver(forName: nil, object: "a value that may go anywhere", queue: nil) { _ in told.add("") }
            onNewThread { centre.post(name: .init("n"), object: "a value that may go anywhere") }
            centre.removeObserver(observation)
            precondition(told.count == 1)
        }
    }

    @Test("Sequences and calls that are dropped, cancelled or over at once leave nothing behind")
    func nothingIsLeft() async {
        await #expect(processExitsWith: .success) {
            let thread = try startedThread()
            let loop = thread.loop
            let pipe = Pipe()
            let address = RunLoop.Socket.Address.abstract("nothing-is-left.\(getpid())")!
            let (bytes, descriptors) = try await leaks {
                _ = loop.readiness(of: pipe.readEnd)
                _ = loop.ticks(every: .milliseconds(1))
                _ = loop.signals(SIGUSR2)
                _ = try loop.connections(at: address)
                let waiting = Task { for await _ in loop.readiness(of: pipe.readEnd) {} }
                let ticking = Task { for await _ in loop.ticks(every: .microseconds(100)) { break } }
                let calling = Task { try? await loop.call { 1 } }
                let accepting = Task { for await _ in try loop.connections(at: address) {} }
                await Task.yield()
                waiting.cancel()
                calling.cancel()
                accepting.cancel()
                await waiting.value
                await ticking.value
                _ = await calling.value
                _ = await accepting.result
            }
            // What is freed a little later is not counted.
            precondition(bytes < 1_000_000, "\(bytes) bytes")
            precondition(descriptors < 10, "\(descriptors) descriptors")
            await thread.finish()
        }
    }

    @Test("Sleeps by a clock that no loop has leave nothing behind when they are cancelled: S-CLK-1")
    func cancelledSleeps() async {
        await #expect(processExitsWith: .success) {
            let clock = TestClock()
            let thread = try startedThread()
            let bytes = try await leaks {
                let sleepers = (0..<20).map { _ in
                    Task(executorPreference: thread.loop.executor) { try await clock.sleep(for: .seconds(1000)) }
                }
                // By now they sleep.
                try await thread.loop.call {}
                for sleeper in sleepers { sleeper.cancel() }
                for sleeper in sleepers { _ = await sleeper.result }
            }.bytes
            precondition(bytes < 1_000_000, "\(bytes) bytes")
            await thread.finish()
        }
    }

    @Test("Threads with an executor, actors and calls leave nothing behind when they end")
    func threadsLeaveNothing() async {
        await #expect(processExitsWith: .success) {
            actor Resident {
                private let executor: RunLoopExecutor
                nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
                init(_ loop: RunLoop) { executor = loop.executor }
                func work() -> Int { 1 }
            }
            let (bytes, descriptors) = try await leaks {
                let thread = try startedThread()
                let loop = thread.loop
                let resident = Resident(loop)
                async let one = resident.work()
                loop.perform { loop.wakeUp() }
                loop.add(MachPort(), forMode: .default)
                let timer = Timer(timeInterval: .milliseconds(1), repeats: true) { _ in }
                loop.add(timer, forMode: .default)
                _ = await one
                await thread.finish()
                _ = await resident.work()
                timer.invalidate()
            }
            precondition(bytes < 1_000_000, "\(bytes) bytes")
            precondition(descriptors < 10, "\(descriptors) descriptors")
        }
    }

    @Test("Odd and huge values are taken for what they can mean")
    func oddValues() async throws {
        let thread = try startedThread()
        let loop = thread.loop
        for number in [CInt.min, -1, 0, SIGKILL, 65, CInt.max] {
            for await _ in loop.signals(number) { Issue.record("signal \(number)") }
        }
        for descriptor in [CInt.min, -1, 1 << 20, CInt.max] {
            let waiting = Task { for await _ in loop.readiness(of: descriptor) { Issue.record("\(descriptor) is ready") } }
            await Task.yield()
            waiting.cancel()
            await waiting.value
        }
        for backlog in [Int.min, -1, 0, Int.max] {
            _ = try loop.connections(at: .ipv4("127.0.0.1", port: 0)!, backlog: backlog)
        }
        #expect(throws: RunLoop.SystemError.self) { try loop.connections(at: RunLoop.Socket.Address(bytes: [255, 255])!) }
        #expect(throws: RunLoop.SystemError.self) {
            try loop.connections(at: RunLoop.Socket.Address(bytes: [UInt8](repeating: 2, count: 128))!)
        }
        for interval in [Duration.zero, .seconds(-1), Duration(secondsComponent: .min, attosecondsComponent: 0)] {
            for await _ in loop.ticks(every: interval) { break }
        }
        let never = Task { for await _ in loop.ticks(every: Duration(secondsComponent: .max, attosecondsComponent: 0)) {} }
        await Task.yield()
        never.cancel()
        await never.value
        loop.setSpinLimit(Duration(secondsComponent: .max, attosecondsComponent: 0))
        loop.setSpinLimit(.zero)
        // The sanitized library has no room on the least stack of the system.
        for size in [Int.min, -1, isAddressSanitized ? 1 << 17 : 1, Int.max] {
            let other = RunLoopThread(name: String(repeating: "x", count: 100_000), stackSize: size)
            if (try? other.start()) != nil { await other.finish() }
        }
        await thread.finish()
    }

    @Test("Waiting requests, calls and sequences cost the same beside many: S-MSG-49", .timeLimit(.minutes(10)))
    func growth() async throws {
        let server = MessagePort()
        let name = "growth.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(server, name: name))
        server.setRequestHandler { _, request in request.bytes }
        // The sequences wait until all of them are there. By a clock that runs their timers would be due in each pass until the tasks,
        // which a busy machine holds up, let go of them.
        let clock = TestClock()
        let (answering, asking, calling) = (try startedThread(), try await startedThread(with: clock), try startedThread())
        answering.loop.add(server, forMode: .default)
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        /// All that is done is done on these threads, and counted in their time, which other programs do not add to.
        func spent() async throws -> Double {
            var sum = 0.0
            for thread in [answering, asking, calling] { sum += try await thread.loop.call { threadTime() } }
            return sum
        }
        func time(_ count: Int) async throws -> Double {
            let start = try await spent()
            let waiting = Countdown(count)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<count {
                    group.addTask(executorPreference: calling.loop.executor) {
                        _ = try await remote.request([UInt8(truncatingIfNeeded: number)], on: asking.loop)
                    }
                    group.addTask(executorPreference: calling.loop.executor) { _ = try await asking.loop.call { number } }
                    group.addTask(executorPreference: calling.loop.executor) {
                        let ticks = asking.loop.ticks(every: .seconds(1), clock: clock)
                        if waiting.isLast() { clock.advance(by: .seconds(1)) }
                        for await _ in ticks { break }
                    }
                }
                try await group.waitForAll()
            }
            return try await spent() - start
        }
        var best = Double.infinity
        let few = max(scaled(500), 100)
        for _ in 0..<3 { best = min(best, try await time(8 * few) / time(few)) }
        #expect(best < 24)
        server.invalidate()
        for thread in [answering, asking, calling] { await thread.finish() }
    }

    @Test("Ports that wait in each other's queues do not keep themselves, whichever way they are sent: S-PORT-17")
    func rings() {
        final class OwnPort: Port, @unchecked Sendable {}
        for count in 1...4 {
            for (asComponent, isOwn) in [(false, false), (true, false), (false, true), (true, true)] {
                var ports = (0..<count).map { _ in isOwn ? OwnPort() : Port() }
                let watched = ports.map(WeakPort.init)
                for (index, port) in ports.enumerated() {
                    let next = ports[(index + 1) % count]
                    let isSent = port.send(
                        before: .now, msgid: 1, components: asComponent ? [next] : nil, from: asComponent ? nil : next, reserved: 0)
                    #expect(isSent)
                }
                ports = []
                #expect(!watched.contains { $0.port != nil })
            }
        }
    }

    @Test("A reply port that has such messages itself arrives if it is alive, and is left out if not: S-PORT-17")
    func mentionedPort() {
        let trace = onNewThread { () -> [String] in
            let receiver = MachPort()
            let delegate = ReplyNoter()
            receiver.setDelegate(delegate)
            RunLoop.current.add(receiver, forMode: .default)
            let (other, asker) = (MachPort(), MachPort())
            // The asker has a message that keeps a port.
            asker.send(before: .now, msgid: 1, components: nil, from: other, reserved: 0)
            delegate.expected.withLock { $0 = asker }
            receiver.send(before: .now, msgid: 2, components: [[1] as [UInt8]], from: asker, reserved: 0)
            RunLoop.current.run(mode: .default, for: .zero)
            do {
                let short = MachPort()
                short.send(before: .now, msgid: 1, components: nil, from: other, reserved: 0)
                receiver.send(before: .now, msgid: 3, components: [[1] as [UInt8], short], from: short, reserved: 0)
            }
            RunLoop.current.run(mode: .default, for: .zero)
            receiver.invalidate()
            return delegate.trace.all
        }
        #expect(trace == ["2 of 1 from the asker", "3 of 1 from nobody"])
    }
}

private final class WeakPort {
    private(set) weak var port: Port?
    init(_ port: Port) { self.port = port }
}

private final class ReplyNoter: PortDelegate {
    let trace = Trace()
    let expected = Mutex<Port?>(nil)

    func handle(_ message: PortMessage) {
        let expected = expected.withLock { $0 }
        let sender = message.sendPort.map { $0 === expected ? "the asker" : "another" } ?? "nobody"
        trace.add("\(message.msgid) of \(message.components?.count ?? 0) from \(sender)")
    }
}
