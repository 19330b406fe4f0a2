// SPDX-License-Identifier: MIT
import Glibc
import NIOCore
import NIOPosix
import RunLoopKit
import RunLoopNIO
import Synchronization
import Testing

/// For asynchronous functions, which ask on a thread that may change before they use the answer.
private func isOnThread(of loop: RunLoop) -> Bool { RunLoop.current == loop }

/// Lives on a run loop's thread and asks an event loop.
private actor Asker {
    let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(on loop: RunLoop) { executor = loop.executor }

    /// Whether it is on its loop's thread before and after it awaited the event loop.
    func asks(_ eventLoop: any EventLoop) async throws -> [Bool] {
        let loop = executor.loop
        let before = isOnThread(of: loop)
        let there = try await eventLoop.submit { eventLoop.inEventLoop && !isOnThread(of: loop) }.get()
        return [before, there, isOnThread(of: loop)]
    }
}

/// What several threads add numbers to.
private final class Numbers: Sendable {
    private let list = Mutex<[Int]>([])
    func append(_ number: Int) { list.withLock { $0.append(number) } }
    var all: [Int] { list.withLock { $0 } }
}

@Suite(.timeLimit(.minutes(1))) struct NIOTests {
    private struct Refusal: Error, Equatable {}

    private let group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton

    /// An event loop goes on with what a closure on the run loop's thread returned, and hears of what it threw.
    @Test func anEventLoopAwaitsARunLoop() async throws {
        let thread = RunLoopThread(name: "awaited")
        try thread.start()
        let loop = thread.loop
        let eventLoop = group.next()
        let places = try await eventLoop.flatSubmit {
            eventLoop.call(on: loop) { [RunLoop.current == loop, !eventLoop.inEventLoop] }.map { $0 + [eventLoop.inEventLoop] }
        }.get()
        #expect(places == [true, true, true])
        await #expect(throws: Refusal.self) { try await eventLoop.call(on: loop) { throw Refusal() }.get() }
        await thread.finish()
    }

    /// Closures of one event loop are called in the order in which it queued them, and complete in that order (S-BLK-3).
    @Test func callsKeepTheirOrder() async throws {
        let thread = RunLoopThread(name: "order")
        try thread.start()
        let loop = thread.loop
        let eventLoop = group.next()
        let (called, completed) = (Numbers(), Numbers())
        try await eventLoop.flatSubmit {
            EventLoopFuture.andAllSucceed(
                (0 ..< 1000).map { number in
                    eventLoop.call(on: loop) { called.append(number) }.map { completed.append(number) }
                }, on: eventLoop)
        }.get()
        #expect(called.all == Array(0 ..< 1000))
        #expect(completed.all == Array(0 ..< 1000))
        await thread.finish()
    }

    /// What waits for a thread that ends fails, queued before or after (S-LOOP-10), and lets go of what it holds.
    @Test func theEndOfTheThreadFailsTheFuture() async throws {
        let (loops, loop) = AsyncStream<RunLoop>.makeStream()
        let mayEnd = Gate()
        // It has a loop and never runs it.
        Thread {
            loop.yield(RunLoop.current)
            mayEnd.wait()
        }.start()
        var iterator = loops.makeAsyncIterator()
        let its = try #require(await iterator.next())
        let eventLoop = group.next()
        weak var held: Numbers?
        let before: EventLoopFuture<Void>
        do {
            let numbers = Numbers()
            held = numbers
            before = eventLoop.call(on: its) { numbers.append(1) }
        }
        #expect(held != nil)
        mayEnd.open()
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await before.get() }
        #expect(held == nil)
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await eventLoop.call(on: its) {}.get() }
    }

    /// A closure that ends the thread fails its future.
    @Test func aClosureThatEndsTheThreadFailsTheFuture() async throws {
        let thread = RunLoopThread(name: "exits")
        try thread.start()
        let call: EventLoopFuture<Void> = group.next().call(on: thread.loop) { Thread.exit() }
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await call.get() }
        await thread.finish()
    }

    /// A run loop's thread hears of futures in the order in which they completed.
    @Test func aRunLoopHearsOfFutures() async throws {
        let thread = RunLoopThread(name: "hears")
        try thread.start()
        let loop = thread.loop
        let eventLoop = group.next()
        let heard = Numbers()
        let (ends, end) = AsyncStream<[Bool]>.makeStream()
        for number in 0 ..< 100 {
            eventLoop.submit { number }.whenComplete(on: loop) { heard.append((try? $0.get()) ?? -1) }
        }
        (eventLoop.makeFailedFuture(Refusal()) as EventLoopFuture<Void>).whenComplete(on: loop) { result in
            guard case .failure(let error) = result else { return }
            end.yield([error is Refusal, RunLoop.current == loop, !eventLoop.inEventLoop])
        }
        var iterator = ends.makeAsyncIterator()
        #expect(await iterator.next() == [true, true, true])
        await thread.finish()
        #expect(heard.all == Array(0 ..< 100))
    }

    /// While a thread waits for a future its loop serves the mode, and no other.
    @Test func aWaitServesItsMode() async throws {
        let mode = RunLoop.Mode("waiting")
        let eventLoop = group.next()
        let promise = eventLoop.makePromise(of: Int.self)
        let heard = Numbers()
        let (ends, end) = AsyncStream<Int?>.makeStream()
        let thread = RunLoopThread(name: "waits") { _ in
            let fires = Atomic(0)
            RunLoop.current.perform { heard.append(1) }
            let timer = Timer(timeInterval: .milliseconds(1), repeats: true) { timer in
                guard fires.add(1, ordering: .relaxed).newValue == 3 else { return }
                timer.invalidate()
                promise.succeed(3)
            }
            RunLoop.current.add(timer, forMode: mode)
            end.yield(try? promise.futureResult.wait(running: mode))
            end.yield(heard.all.count)
            // One that failed already, and then waits inside each other.
            do {
                _ = try (eventLoop.makeFailedFuture(Refusal()) as EventLoopFuture<Int>).wait(running: mode)
            } catch {
                end.yield(error is Refusal ? 4 : nil)
            }
            let outer = eventLoop.makePromise(of: Int.self)
            RunLoop.current.perform(inModes: [mode]) {
                end.yield(try? eventLoop.submit { 5 }.wait(running: mode))
                outer.succeed(6)
            }
            end.yield(try? outer.futureResult.wait(running: mode))
            let loop = RunLoop.current
            end.yield(try? eventLoop.flatSubmit { eventLoop.call(on: loop) { heard.all.count } }.wait(running: .default))
            end.finish()
        }
        try thread.start()
        var values: [Int?] = []
        for await value in ends { values.append(value) }
        // The closure of the default mode is performed by the last wait.
        #expect(values == [3, 0, 4, 5, 6, 1])
        await thread.finish()
    }

    /// A wait whose future completes while another one is under way in a callback of its run ends after that.
    @Test func theOuterWaitIsOverFirst() async throws {
        let (outer, inner) = (group.next().makePromise(of: Int.self), group.next().makePromise(of: Int.self))
        let (ends, end) = AsyncStream<Int?>.makeStream()
        let thread = RunLoopThread(name: "waits twice") { _ in
            let fires = Atomic(0)
            RunLoop.current.perform {
                outer.succeed(1)
                RunLoop.current.add(
                    Timer(timeInterval: .milliseconds(1), repeats: true) { timer in
                        guard fires.add(1, ordering: .relaxed).newValue == 20 else { return }
                        timer.invalidate()
                        inner.succeed(2)
                    }, forMode: .default)
                end.yield(try? inner.futureResult.wait(running: .default))
            }
            end.yield(try? outer.futureResult.wait(running: .default))
            end.finish()
        }
        try thread.start()
        var values: [Int?] = []
        for await value in ends { values.append(value) }
        #expect(values == [2, 1])
        await thread.finish()
    }

    /// A thread that is told to end while it waits for a future sleeps until that is complete (S-THREAD-4).
    @Test(arguments: [false, true]) func aThreadThatIsToEndSleepsInItsWait(isCancelled: Bool) async throws {
        let promise = group.next().makePromise(of: Int.self)
        let (ends, end) = AsyncStream<(Int?, UInt64)>.makeStream()
        let thread = RunLoopThread(name: "told to end") { thread in
            let fires = Atomic(0)
            RunLoop.current.add(
                Timer(timeInterval: .milliseconds(2), repeats: true) { timer in
                    let fire = fires.add(1, ordering: .relaxed).newValue
                    if fire == 1 { isCancelled ? thread.cancel() : thread.stop() }
                    if fire == 50 { promise.succeed(1) }
                }, forMode: .default)
            end.yield((try? promise.futureResult.wait(running: .default), RunLoop.current.statistics.passes))
            end.finish()
        }
        try thread.start()
        for await (value, passes) in ends {
            #expect(value == 1)
            #expect(passes < 400)
        }
        await thread.finish()
    }

    /// An actor on a run loop is back on its thread when it has awaited an event loop.
    @Test func anActorComesBackToItsLoop() async throws {
        let thread = RunLoopThread(name: "actor")
        try thread.start()
        #expect(try await Asker(on: thread.loop).asks(group.next()) == [true, true, true])
        await thread.finish()
    }

    /// Two event loops and two run loops call each other, all at once; no call is lost.
    @Test func loopsCallEachOther() async throws {
        let threads = (0 ..< 2).map { RunLoopThread(name: "peer \($0)") }
        for thread in threads { try thread.start() }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        let sums = try await withThrowingTaskGroup(of: Int.self) { tasks in
            for thread in threads {
                for eventLoop in group.makeIterator() {
                    let loop = thread.loop
                    tasks.addTask { try await bounce(500, 0, eventLoop, loop).get() }
                }
            }
            return try await tasks.reduce(into: []) { $0.append($1) }
        }
        #expect(sums == [500, 500, 500, 500])
        for thread in threads { await thread.finish() }
        try await group.shutdownGracefully()
    }
}

/// From the event loop to the run loop and back, so many times.
private func bounce(_ times: Int, _ sum: Int, _ eventLoop: any EventLoop, _ loop: RunLoop) -> EventLoopFuture<Int> {
    if times == 0 { return eventLoop.makeSucceededFuture(sum) }
    let promise = eventLoop.makePromise(of: Int.self)
    eventLoop.call(on: loop) { sum + 1 }.whenComplete(on: loop) { result in
        switch result {
        case .success(let value): bounce(times - 1, value, eventLoop, loop).cascade(to: promise)
        case .failure(let error): promise.fail(error)
        }
    }
    return promise.futureResult
}

/// Holds a thread up until it is opened.
private final class Gate: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    init() { sem_init(semaphore, 0, 0) }
    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }
    func wait() { while sem_wait(semaphore) != 0 {} }
    func open() { sem_post(semaphore) }
}
