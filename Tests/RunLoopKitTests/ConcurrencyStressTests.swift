// SPDX-License-Identifier: MIT
// Asynchronous code and loops that get in each other's way at random moments. What is checked is that everybody gets an
// answer, and one of those that the documentation names; a waiter that is forgotten makes its test run into its time limit.
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Lets a random short time pass: none, some turns of a loop, or those of other tasks.
private func dawdle() async {
    switch Int.random(in: 0..<4) {
    case 0: break
    case 1: await Task.yield()
    case 2: for _ in 0..<Int.random(in: 0..<2000) { sink.add(1, ordering: .relaxed) }
    default: for _ in 0..<Int.random(in: 0..<8) { await Task.yield() }
    }
}

private let sink = Atomic(0)

/// How often something was done.
private final class Tally: Sendable {
    private let count = Atomic(0)
    var value: Int { count.load(ordering: .relaxed) }
    @discardableResult
    func add() -> Int { count.add(1, ordering: .relaxed).newValue }
}

/// How calls ended.
private struct Answers {
    var values = 0
    var cancellations = 0
    var ends = 0
    var others = 0

    var all: Int { values + cancellations + ends + others }

    mutating func count(_ result: Result<Int, any Error>) {
        switch result {
        case .success: values += 1
        case .failure(is CancellationError): cancellations += 1
        case .failure(is RunLoop.ThreadEndedError): ends += 1
        case .failure: others += 1
        }
    }
}

/// An actor on a loop whose methods never overlap.
private actor Resident {
    private let executor: RunLoopExecutor
    private var isInside = false
    private(set) var visits = 0
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(on loop: RunLoop) { executor = loop.executor }

    func visit() {
        precondition(!isInside, "two visits at once")
        isInside = true
        visits += 1
        isInside = false
    }

    func visit(_ other: Resident) async {
        visit()
        await other.visit()
        visit()
    }
}

@Suite(.timeLimit(.minutes(10))) struct ConcurrencyStressTests {
    @Test("Awaited closures that are cancelled at random moments either ran and gave their value, or threw and never ran")
    func cancellations() async throws {
        let threads = (0..<3).map { _ in RunLoopThread() }
        for thread in threads { try thread.start() }
        let loops = threads.map(\.loop)
        let ran = Tally()
        let canary = Canary()
        var answers = Answers()
        let rounds = scaled(6000)
        for round in 0..<rounds {
            let loop = loops[round % 3]
            // Every third caller is on a loop itself, its own or another.
            let preference: RunLoopExecutor? = round.isMultiple(of: 3) ? loops.randomElement()!.executor : nil
            let task = Task(executorPreference: preference) { [captured = canary.capture()] in
                await dawdle()
                return try await loop.call {
                    captured.touch()
                    ran.add()
                    return round
                }
            }
            let canceller = Task {
                await dawdle()
                task.cancel()
            }
            answers.count(await task.result)
            await canceller.value
        }
        #expect(answers.values == ran.value)
        #expect(answers.values + answers.cancellations == rounds)
        for loop in loops { try await loop.call {} }
        // What a closure holds is let go of whether it ran or not.
        while canary.deaths < rounds { await Task.yield() }
        for thread in threads { await thread.finish() }
    }

    @Test("When loops end while calls wait, each waiter gets its value, its cancellation or the error for that; actors go on")
    func ends() async throws {
        let rounds = scaled(600)
        let callers = 8
        for round in 0..<rounds {
            let thread = RunLoopThread()
            try thread.start()
            let loop = thread.loop
            let ran = Tally()
            let (one, other) = (Resident(on: loop), Resident(on: loop))
            let answers = try await withThrowingTaskGroup(of: Result<Int, any Error>?.self) { group in
                for number in 0..<callers {
                    group.addTask {
                        let task = Task {
                            await dawdle()
                            return try await loop.call { ran.add() }
                        }
                        if number.isMultiple(of: 4) {
                            await dawdle()
                            task.cancel()
                        }
                        return await task.result
                    }
                    group.addTask {
                        await dawdle()
                        await one.visit(other)
                        return nil
                    }
                    group.addTask(executorPreference: loop.executor) {
                        await Task.yield()
                        await other.visit()
                        return nil
                    }
                }
                group.addTask {
                    await dawdle()
                    if round.isMultiple(of: 2) { thread.cancel() }
                    await thread.finish()
                    return nil
                }
                var answers = Answers()
                for try await case let result? in group { answers.count(result) }
                return answers
            }
            #expect(answers.all == callers)
            #expect(answers.others == 0)
            #expect(answers.values == ran.value)
            #expect(await one.visits == 2 * callers)
            #expect(await other.visits == 2 * callers)
        }
    }

    // SIGCONT does nothing to a process that runs, and no other test wants it.
    @Test("Sequences that are let go of or cancelled while their timer, descriptor or signal fires, or whose loop ends, are over")
    func sequences() async throws {
        let rounds = scaled(300)
        for round in 0..<rounds {
            let thread = RunLoopThread()
            try thread.start()
            let loop = thread.loop
            let pipe = Pipe()
            pipe.write(1)
            let tasks = (0..<6).map { number in
                Task {
                    var left = Int.random(in: 0..<6)
                    switch number % 3 {
                    case 0:
                        for await _ in loop.ticks(every: .microseconds(100)) {
                            left -= 1
                            if left < 0 { break }
                        }
                    case 1:
                        // Stays readable, so it is reported again and again.
                        for await _ in loop.readiness(of: pipe.readEnd) {
                            left -= 1
                            if left < 0 { break }
                        }
                    default:
                        for await _ in loop.signals(SIGCONT) {
                            left -= 1
                            if left < 0 { break }
                        }
                    }
                }
            }
            for task in tasks {
                kill(getpid(), SIGCONT)
                await dawdle()
                if Bool.random() { task.cancel() }
            }
            if round.isMultiple(of: 2) { thread.cancel() }
            // Ends the sequences that were neither cancelled nor had enough.
            await thread.finish()
            for task in tasks { await task.value }
            withExtendedLifetime(pipe) {}
        }
    }
}
