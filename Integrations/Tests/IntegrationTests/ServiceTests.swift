// SPDX-License-Identifier: MIT
import Logging
import RunLoopKit
import RunLoopService
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1))) struct ServiceTests {
    private let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    /// What was queued before the shutdown is performed, by the thread, before run() returns.
    @Test func gracefulShutdownPerformsWhatWasQueued() async throws {
        let performed = Atomic(0)
        let (started, start) = AsyncStream<RunLoop>.makeStream()
        let service = RunLoopService(name: "graceful") { start.yield($0) }
        try await testGracefulShutdown { trigger in
            async let run: Void = service.run()
            var loops = started.makeAsyncIterator()
            let loop = try #require(await loops.next())
            for _ in 0 ..< 100 { loop.perform { performed.add(1, ordering: .relaxed) } }
            trigger.triggerGracefulShutdown()
            try await run
        }
        #expect(performed.load(ordering: .relaxed) == 100)
        #expect(service.thread.isFinished)
    }

    /// The thread waits in its loop until something comes, though nothing was put into the loop.
    @Test func anEmptyLoopKeepsTheServiceRunning() async throws {
        let (events, event) = AsyncStream<Int>.makeStream()
        let (started, start) = AsyncStream<RunLoop>.makeStream()
        let service = RunLoopService { start.yield($0) }
        try await testGracefulShutdown { trigger in
            async let run: Void = service.run()
            var loops = started.makeAsyncIterator()
            let loop = try #require(await loops.next())
            var numbers = events.makeAsyncIterator()
            for number in 1 ... 3 {
                loop.perform { event.yield(number) }
                loop.wakeUp()
                #expect(await numbers.next() == number)
                #expect(service.thread.isExecuting)
            }
            trigger.triggerGracefulShutdown()
            try await run
        }
    }

    /// A cancelled task ends the service; its timer fires no more.
    @Test func cancellationEndsTheThread() async throws {
        let (started, start) = AsyncStream<Void>.makeStream()
        let service = RunLoopService { loop in
            loop.add(Timer(timeInterval: .milliseconds(1), repeats: true) { _ in start.yield() }, forMode: .default)
        }
        let task = Task { try await service.run() }
        var fires = started.makeAsyncIterator()
        _ = await fires.next()
        task.cancel()
        try await task.value
        #expect(service.thread.isFinished)
        #expect(service.thread.isCancelled)
    }

    /// A callback that ends the thread, and not the loop's run, ends the service too.
    @Test func aCallbackMayEndTheThread() async throws {
        let service = RunLoopService { loop in loop.perform { Thread.exit() } }
        try await service.run()
        #expect(service.thread.isFinished)
    }

    /// In a group: when another service ends, the group shuts down, and with it the loop.
    @Test func aGroupShutsItDown() async throws {
        struct Brief: Service {
            func run() async throws {}
        }
        let service = RunLoopService(name: "member")
        let group = ServiceGroup(
            configuration: .init(
                services: [
                    .init(service: service),
                    .init(service: Brief(), successTerminationBehavior: .gracefullyShutdownGroup),
                ], logger: logger))
        try await group.run()
        #expect(service.thread.isFinished)
    }
}
