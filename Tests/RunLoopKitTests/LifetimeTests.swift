// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Who keeps what alive across threads and loops.
@Suite struct LifetimeTests {
    @Test("A loop whose thread is gone can still be asked and told, to no effect: S-LOOP-6, S-LOOP-12")
    func loopAfterItsThread() {
        let trace = Trace()
        let loop = onNewThread { () -> RunLoop in
            RunLoop.current.keepAlive()
            return RunLoop.current
        }
        let source = RunLoop.Source { _ in trace.add("performed") }
        loop.add(source, forMode: .default)
        source.signal()
        loop.wakeUp()
        loop.stop()
        #expect(loop.contains(source, forMode: .default))
        #expect(!loop.isWaiting)
        #expect(loop.currentMode == nil)
        #expect(loop.run(mode: .default, for: .zero) == .finished)
        loop.remove(source, forMode: .default)
        #expect(!loop.contains(source, forMode: .default))
        #expect(trace.all.isEmpty)
    }

    @Test("A timer of a dead loop stays valid and can join another: S-LOOP-9")
    func timerOfDeadLoop() {
        let trace = Trace()
        let timer = Timer(timeInterval: .zero, repeats: false) { _ in trace.add("fire") }
        onNewThread { RunLoop.current.add(timer, forMode: .default) }
        #expect(timer.isValid)
        let result = onNewThread { () -> RunLoop.RunResult in
            RunLoop.current.add(timer, forMode: .default)
            return RunLoop.current.run(mode: .default)
        }
        #expect(result == .finished)
        #expect(trace.all == ["fire"])
    }

    @Test("Threads that come and go leave no loop object behind: S-LOOP-1, S-LOOP-16")
    func manyThreads() {
        let canary = Canary()
        for _ in 0..<50 {
            onNewThread {
                let captured = canary.capture()
                let observer = RunLoop.Observer(activities: .entry) { _, _ in captured.touch() }
                RunLoop.current.add(observer, forMode: .default)
                RunLoop.current.keepAlive()
                RunLoop.current.run(mode: .default, for: .zero)
            }
        }
        // An observer dies with its loop, and a loop when neither its thread nor an object holds it.
        #expect(canary.deaths == 50)
    }

    @Test("Many threads may look for the object of one loop at once and find the same: S-NSRL-1, S-THR-1")
    func sameObjectForAll() {
        for _ in 0..<20 {
            let foreign = Promise<RunLoop>()
            let looked = Promise<Void>()
            let owner = TestThread { () -> Bool in
                let loop = RunLoop.current
                foreign.fulfil(loop)
                looked.value
                return RunLoop.current === loop
            }
            let reference = Reference(foreign.value.getRLRunLoop())
            let lookers = (0..<3).map { _ in
                TestThread { ObjectIdentifier(RunLoop.wrapping(reference.pointer)) }
            }
            let found = Set(lookers.map { $0.join() })
            looked.fulfil(())
            #expect(owner.join())
            #expect(found.count == 1)
        }
    }

    /// Carries a C reference to another thread; the test keeps its loop alive meanwhile.
    private struct Reference: @unchecked Sendable {
        let pointer: OpaquePointer
        init(_ pointer: OpaquePointer) { self.pointer = pointer }
    }
}
