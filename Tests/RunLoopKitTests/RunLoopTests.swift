// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// The loop object: identity, modes, and what can be asked of it.
@Suite struct RunLoopTests {
    @Test("A thread gets the same object each time, and each thread its own: S-NSRL-1, S-LOOP-1, S-LOOP-2")
    func oneObjectPerThread() {
        let mine = onNewThread { (RunLoop.current, RunLoop.current) }
        let other = TestThread { RunLoop.current }.join()
        #expect(mine.0 === mine.1)
        #expect(mine.0 !== other)
        #expect(mine.0 != other)
    }

    @Test("The main loop is the same object from every thread, and no other thread's: S-NSRL-1, S-LOOP-3")
    func mainLoop() {
        let (main, current) = onNewThread { (RunLoop.main, RunLoop.current) }
        #expect(main === RunLoop.main)
        #expect(main !== current)
    }

    @Test("The C reference leads back to the same object: S-NSRL-1")
    func reference() {
        let (loop, again) = onNewThread { (RunLoop.current, RunLoop.wrapping(RunLoop.current.getRLRunLoop())) }
        #expect(loop === again)
        #expect(RunLoop.wrapping(loop.getRLRunLoop()) === loop)
    }

    @Test("A new loop has the default mode and does nothing: S-LOOP-5, S-NSRL-10, S-WAKE-10")
    func newLoop() {
        let (modes, mode, waiting) = onNewThread {
            (RunLoop.current.allModes, RunLoop.current.currentMode, RunLoop.current.isWaiting)
        }
        #expect(modes == [.default])
        #expect(mode == nil)
        #expect(!waiting)
    }

    @Test("A mode comes into being with its first item and stays: S-MODE-2, S-MODE-5, S-MODE-6")
    func modesAppear() {
        let custom = RunLoop.Mode("custom")
        let (before, with, without) = onNewThread {
            let before = RunLoop.current.allModes
            let source = RunLoop.current.keepAlive(forMode: custom)
            let with = RunLoop.current.allModes
            RunLoop.current.remove(source, forMode: custom)
            return (before, with, RunLoop.current.allModes)
        }
        #expect(Set(before) == [.default])
        #expect(Set(with) == [.default, custom] && with.count == 2)
        #expect(Set(without) == [.default, custom])
    }

    @Test("The names are Foundation's strings: S-NSRL-13, S-NSRL-15")
    func modeNames() {
        #expect(RunLoop.Mode.default.rawValue == "kCFRunLoopDefaultMode")
        #expect(RunLoop.Mode.common.rawValue == "kCFRunLoopCommonModes")
    }

    @Test("Mode names compare by their bytes, here as in the library: S-MODE-1, S-MODE-10")
    func modeNamesAreBytes() {
        let composed = RunLoop.Mode("\u{E9}")
        let decomposed = RunLoop.Mode("e\u{301}")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed, RunLoop.Mode("\u{E9}")]).count == 2)
        let modes = onNewThread {
            RunLoop.current.keepAlive(forMode: composed)
            RunLoop.current.keepAlive(forMode: decomposed)
            RunLoop.current.keepAlive(forMode: RunLoop.Mode(""))
            return RunLoop.current.allModes
        }
        #expect(Set(modes) == [.default, composed, decomposed, RunLoop.Mode("")])
        #expect(modes.count == 4)
    }

    @Test("A name ends at its first zero byte, here as in the library: S-MODE-1")
    func modeNamesEnd() {
        let mode = RunLoop.Mode("a\0b")
        #expect(mode.rawValue == "a" && mode == RunLoop.Mode(rawValue: "a\0c") && mode == RunLoop.Mode("a"))
        #expect(Set([mode, RunLoop.Mode("a")]).count == 1)
        #expect(RunLoop.Mode("\0") == RunLoop.Mode("") && RunLoop.Mode("a ") != mode)
        let (running, modes) = onNewThread {
            let loop = RunLoop.current
            let running = Promise<RunLoop.Mode?>()
            loop.perform(inModes: [mode]) { running.fulfil(RunLoop.current.currentMode) }
            loop.keepAlive(forMode: mode)
            loop.run(mode: mode, for: .zero)
            return (running.value, loop.allModes)
        }
        #expect(running == mode)
        #expect(Set(modes) == [.default, mode])
    }

    @Test("A new common mode gets the common items at once: S-MODE-12, S-MODE-14, S-MODE-15")
    func commonModes() {
        let extra = RunLoop.Mode("extra")
        let (common, before, after, listed) = onNewThread {
            let loop = RunLoop.current
            let source = loop.keepAlive(forMode: .common)
            let common = loop.contains(source, forMode: .common) && loop.contains(source, forMode: .default)
            let before = loop.contains(source, forMode: extra)
            loop.addCommonMode(extra)
            return (common, before, loop.contains(source, forMode: extra), loop.allModes)
        }
        #expect(common)
        #expect(!before)
        #expect(after)
        #expect(!listed.contains(.common))
    }

    @Test("A wake-up ends the wait, and the loop makes another pass: S-WAKE-1, S-WAKE-7, TR-15")
    func wakeUp() {
        let trace = Trace()
        let waiting = Promise<RunLoop>()
        let thread = TestThread { () -> RunLoop.RunResult in
            let loop = RunLoop.current
            loop.traceActivities(to: trace)
            loop.keepAlive()
            let director = RunLoop.Observer(activities: [.beforeWaiting, .afterWaiting], order: 1) { _, activity in
                if activity == .beforeWaiting { waiting.fulfil(RunLoop.current) }
                // The second wait is the last: the stop makes it return at once (S-STOP-6).
                if activity == .beforeWaiting, trace.all.filter({ $0 == "BW" }).count == 2 { loop.stop() }
            }
            loop.add(director, forMode: .default)
            return loop.run(mode: .default)
        }
        waiting.value.wakeUp()
        #expect(thread.join() == .stopped)
        #expect(trace.all == ["E", "BT", "BS", "BW", "AW", "BT", "BS", "BW", "AW", "X"])
    }

    @Test("A spin limit changes no behaviour: S-WAKE-16")
    func spinLimit() {
        let (result, took) = onNewThread {
            RunLoop.current.keepAlive()
            RunLoop.current.setSpinLimit(.microseconds(200))
            let clock = ContinuousClock()
            let start = clock.now
            return (RunLoop.current.run(mode: .default, for: .milliseconds(20)), clock.now - start)
        }
        #expect(result == .timedOut)
        #expect(took >= .milliseconds(20))
    }

    @Test("The next timer date is that of the earliest timer, nil without one: S-TMR-55")
    func nextTimerFireDate() {
        let first = ContinuousClock.now + .seconds(1000)
        let (none, date) = onNewThread {
            let loop = RunLoop.current
            let none = loop.nextTimerFireDate(forMode: .default)
            loop.add(Timer(fire: first + .seconds(1), interval: .zero, repeats: false) { _ in }, forMode: .default)
            loop.add(Timer(fire: first, interval: .zero, repeats: false) { _ in }, forMode: .default)
            return (none, loop.nextTimerFireDate(forMode: .default))
        }
        #expect(none == nil)
        #expect(date! >= first)
        #expect(date! < first + .seconds(1))
    }
}
