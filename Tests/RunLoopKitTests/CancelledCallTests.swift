// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Testing

/// What an executor keeps of closures whose tasks were cancelled.
@Suite(.timeLimit(.minutes(10))) struct CancelledCallTests {
    /// Waits for a closure that a task of its own sends to the loop.
    private static func call(_ loop: RunLoop) -> Task<Void, any Error> { Task { try await loop.call {} } }

    private static func mail(of loop: RunLoop) -> Int { loop.executor.mail.withLock { $0.entries.count } }

    @Test("A loop that does not run keeps few closures of cancelled tasks, and all others: S-NSRL-16")
    func notRun() async throws {
        let held = Promise<RunLoop>()
        let mayRun = Promise<Void>()
        let thread = TestThread { () -> Void in
            held.fulfil(RunLoop.current)
            mayRun.value
            RunLoop.current.run(mode: .default, for: .zero)
        }
        let loop = held.value
        let trace = Trace()
        var others: [Task<Void, any Error>] = []
        var most = 0
        for round in 0..<2000 {
            let before = CancelledCallTests.mail(of: loop)
            let task: Task<Void, any Error>
            if round % 200 == 0 {
                task = Task { try await loop.call { trace.add("\(round)") } }
                others.append(task)
            } else {
                task = CancelledCallTests.call(loop)
            }
            while CancelledCallTests.mail(of: loop) == before { await Task.yield() }
            if round % 200 == 0 { continue }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            most = max(most, CancelledCallTests.mail(of: loop))
        }
        #expect(most < 150)
        mayRun.fulfil(())
        for other in others { try await other.value }
        thread.join()
        #expect(trace.all == (0..<10).map { "\(200 * $0)" })
    }

    @Test("Nor does one whose thread is busy, of those that it has taken already: S-NSRL-16")
    func busy() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let counts = await Task(executorPreference: loop.executor) { () -> [Int] in
            // Nothing is suspended here: what is sent to the loop has to wait.
            CancelledCallTests.fill(loop)
        }.value
        #expect(counts.max()! < 300)
        await thread.finish()
    }

    /// On the loop's thread, in a job of it.
    private static func fill(_ loop: RunLoop) -> [Int] {
        (0..<40).map { _ in
            let sent = Promise<[Task<Void, any Error>]>()
            Task.detached {
                let before = mail(of: loop)
                let tasks = (0..<50).map { _ in call(loop) }
                while mail(of: loop) < before + tasks.count { await Task.yield() }
                sent.fulfil(tasks)
            }
            let tasks = sent.value
            // What the thread itself sends goes behind them.
            Task(executorPreference: loop.executor) {}
            let over = Promise<Void>()
            Task.detached {
                for task in tasks { task.cancel() }
                for task in tasks { _ = try? await task.value }
                over.fulfil(())
            }
            over.value
            return loop.executor.own.count
        }
    }
}
