// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// What a thread that is told to stop performs before it ends, whatever is on its stack then.
@Suite(.timeLimit(.minutes(1))) struct ThreadStopTests {
    @Test("A stop ends a run in an awaited closure that was among the entries queued before it: S-NEST-8 S-NEST-7")
    func runInAnAwaitedClosure() throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let (begun, gate) = (Promise<Void>(), Promise<Void>())
        let trace = Trace()
        Task.detached(executorPreference: loop.executor) {
            begun.fulfil(())
            gate.value
            // Queued behind the others, and before the thread looks for what it has to do.
            try await loop.call { trace.add("\(RunLoop.current.run(mode: .default).rawValue)") }
        }
        begun.value
        // More than one pass takes.
        for _ in 0..<300 { Task.detached(executorPreference: loop.executor) { trace.add("entry") } }
        thread.stop()
        gate.fulfil(())
        thread.join()
        #expect(trace.all == Array(repeating: "entry", count: 300) + ["2"])
    }
}
