// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Closures queued for a loop.
@Suite struct PerformTests {
    @Test("A closure is queued, not called, and runs in queue order: S-BLK-1, S-BLK-3, S-NSRL-12, TR-13")
    func order() {
        let (trace, result) = onNewThread {
            let trace = Trace()
            RunLoop.current.perform { trace.add("one") }
            RunLoop.current.perform { trace.add("two") }
            trace.add("queued")
            let result = RunLoop.current.run(mode: .default, for: .zero)
            return (trace.all, result)
        }
        #expect(trace == ["queued", "one", "two"])
        #expect(result == .timedOut)
    }

    @Test("Queueing does not wake a waiting loop; a wake-up after it is never lost: S-BLK-2, S-WAKE-8")
    func fromAnotherThread() {
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            RunLoop.current.keepAlive()
            let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(RunLoop.current) }
            RunLoop.current.add(ready, forMode: .default)
            return RunLoop.current.run(mode: .default)
        }
        let loop = waiting.value
        loop.perform { RunLoop.current.stop() }
        loop.wakeUp()
        #expect(thread.join() == .stopped)
    }

    @Test("A closure for several modes runs once, in whichever runs first: S-BLK-4, S-BLK-5, S-BLK-12")
    func severalModes() {
        let (trace, modes) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            let one = RunLoop.Mode("one")
            let two = RunLoop.Mode("a mode with quite a long name, which no small string can hold")
            loop.perform(inModes: [one, two]) { trace.add(loop.currentMode!.rawValue) }
            loop.run(mode: .default, for: .zero)
            trace.add("default ran")
            loop.run(mode: two, for: .zero)
            loop.run(mode: one, for: .zero)
            return (trace.all, loop.allModes)
        }
        #expect(trace == ["default ran", "a mode with quite a long name, which no small string can hold"])
        #expect(modes.count == 3)
    }

    @Test("A closure for the common modes runs in any of them: S-BLK-4, S-MODE-7")
    func commonModes() {
        let (trace, modes) = onNewThread {
            let trace = Trace()
            let loop = RunLoop.current
            let extra = RunLoop.Mode("extra")
            loop.keepAlive(forMode: extra)
            loop.perform(inModes: [.common]) { trace.add("performed") }
            loop.run(mode: extra, for: .zero)
            trace.add("became common")
            loop.addCommonMode(extra)
            loop.run(mode: extra, for: .zero)
            return (trace.all, loop.allModes)
        }
        #expect(trace == ["became common", "performed"])
        #expect(!modes.contains(.common))
    }

    @Test("With no mode the closure is released and never runs: S-BLK-13, S-BLK-18")
    func noMode() {
        let canary = Canary()
        let trace = Trace()
        onNewThread {
            let captured = canary.capture()
            RunLoop.current.perform(inModes: []) { captured.touch(); trace.add("performed") }
            RunLoop.current.run(mode: .default, for: .zero)
        }
        #expect(trace.all.isEmpty)
        #expect(canary.deaths == 1)
    }

    @Test("A closure is released right after it ran: S-BLK-17, S-BLK-18")
    func releasedAfterwards() {
        let canary = Canary()
        let deaths = onNewThread { () -> [Int] in
            queueCapturing(canary)
            let before = canary.deaths
            RunLoop.current.run(mode: .default, for: .zero)
            return [before, canary.deaths]
        }
        #expect(deaths == [0, 1])
    }

    @Test("A closure still queued when its thread ends is released, not called: S-LOOP-10")
    func releasedWithTheLoop() {
        let canary = Canary()
        let trace = Trace()
        onNewThread {
            let captured = canary.capture()
            RunLoop.current.perform { captured.touch(); trace.add("performed") }
        }
        #expect(canary.deaths == 1)
        #expect(trace.all.isEmpty)
    }

    private func queueCapturing(_ canary: Canary) {
        let captured = canary.capture()
        RunLoop.current.perform { captured.touch() }
    }
}
