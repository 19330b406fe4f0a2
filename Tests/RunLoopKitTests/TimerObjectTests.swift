// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Work that two threads do at the same time, round by round, each with the timer of the round.
private final class Work: Sendable {
    private let round = Atomic(0)
    private let done = Atomic(0)
    private let timer = Mutex<Timer?>(nil)

    /// The work of one thread and of the other.
    func share(_ timer: Timer, _ body: (Timer) -> Void) {
        self.timer.withLock { $0 = timer }
        let next = round.add(1, ordering: .acquiringAndReleasing).newValue
        body(timer)
        while done.load(ordering: .acquiring) < next { sched_yield() }
    }

    func serve(rounds: Int, _ body: (Timer) -> Void) {
        for next in 1...rounds {
            while round.load(ordering: .acquiring) < next { sched_yield() }
            let shared = timer.withLock { timer -> Timer? in
                defer { timer = nil }
                return timer
            }
            if let shared { body(shared) }
            // Not before the other thread can be the only one that has the object.
            withExtendedLifetime(shared) {}
            done.store(next, ordering: .releasing)
        }
    }
}

private final class Named: Timer, @unchecked Sendable { let name = "named" }

// Sendable: one thread writes it, and the other reads it when that has ended.
private final class Weak: @unchecked Sendable { weak var timer: Timer? }

/// Who keeps the object of a timer.
@Suite struct TimerObjectTests {
    @Test("A loop keeps the objects of its timers, and no longer than it has them: S-NSTM-13")
    func keptObjects() {
        let results = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            final class Named: Timer, @unchecked Sendable { let name = "named" }
            weak var fired: Timer?
            weak var removed: Timer?
            weak var invalid: Timer?
            weak var free: Timer?
            weak var left: Timer?
            func make() {
                fired = Timer.scheduledTimer(withTimeInterval: .zero, repeats: false) { _ in }
                let one = Named(timeInterval: .seconds(100), repeats: false) { _ in }
                removed = one
                loop.add(one, forMode: .default)
                loop.add(one, forMode: .common)
                loop.add(one, forMode: .init("other"))
                let two = Timer(timeInterval: .seconds(100), repeats: true) { _ in }
                invalid = two
                loop.add(two, forMode: .common)
                free = Timer(timeInterval: .seconds(100), repeats: true) { _ in }
                let three = Timer(timeInterval: .seconds(100), repeats: true) { _ in }
                left = three
                onNewThread { RunLoop.current.add(three, forMode: .default) }
            }
            make()
            var results = [
                fired != nil, (removed as? Named)?.name == "named", invalid != nil, free == nil, left == nil,
            ]
            while fired != nil { loop.run(mode: .default, before: .now + .seconds(1)) }
            func change() {
                loop.remove(removed!, forMode: .default)
                results.append(removed != nil)
                loop.remove(removed!, forMode: .common)
                results.append(removed != nil)
                loop.remove(removed!, forMode: .init("other"))
                invalid!.invalidate()
            }
            change()
            results += [removed == nil, invalid == nil]
            return results
        }
        #expect(results == Array(repeating: true, count: 9))
    }

    @Test("A loop keeps the object of a timer that one thread takes out of a mode while another adds it to one: S-NSTM-13")
    func keptByAnotherThread() throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let work = Work()
        let rounds = scaled(4000)
        let other = TestThread {
            work.serve(rounds: rounds) { timer in
                loop.add(timer, forMode: .init("one"))
                loop.remove(timer, forMode: .init("one"))
            }
        }
        var lost = 0
        for _ in 0..<rounds {
            weak var known: Timer?
            func race() {
                let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in }
                known = timer
                work.share(timer) { loop.add($0, forMode: .init("two")) }
            }
            race()
            if known == nil { lost += 1 }
            known?.invalidate()
        }
        other.join()
        thread.stop()
        thread.join()
        #expect(lost == 0)
    }

    @Test("A timer that one thread adds to a mode while another takes it out of that is kept if it is there: S-NSTM-13")
    func keptIfItIsThere() throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let work = Work()
        let rounds = scaled(20000)
        let mode = RunLoop.Mode("other")
        let other = TestThread { work.serve(rounds: rounds) { loop.remove($0, forMode: mode) } }
        var (lost, left) = (0, 0)
        for round in 0..<rounds {
            weak var known: Timer?
            func race() -> Bool {
                let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in }
                known = timer
                if round % 2 == 0 { loop.add(timer, forMode: mode) }
                work.share(timer) { loop.add($0, forMode: mode) }
                return loop.contains(timer, forMode: mode)
            }
            let isThere = race()
            if isThere && known == nil { lost += 1 }
            if !isThere && known != nil { left += 1 }
            known?.invalidate()
        }
        other.join()
        thread.stop()
        thread.join()
        #expect(lost == 0 && left == 0)
    }

    @Test("A loop that refuses a timer, which another one has, does not keep its object: S-NSTM-13, S-TMR-13")
    func refused() {
        let isThere = onNewThread { () -> [Bool] in
            let first = RunLoop.current
            let kept = Weak()
            func make() {
                let timer = Timer(timeInterval: .seconds(1000), repeats: true) { _ in }
                kept.timer = timer
                first.add(timer, forMode: .default)
            }
            make()
            return onNewThread { () -> [Bool] in
                let second = RunLoop.current
                func change(_ body: (Timer) -> Void) -> Bool {
                    kept.timer.map(body)
                    return kept.timer != nil
                }
                var results = [
                    change { second.add($0, forMode: .default) },
                    change { second.remove($0, forMode: .default) },
                    change { second.add($0, forMode: .common) },
                    change { timer in
                        first.remove(timer, forMode: .default)
                        second.add(timer, forMode: .default)
                        first.add(timer, forMode: .default)
                    },
                ]
                results.append(change { $0.invalidate() })
                return results
            }
        }
        #expect(isThere == [true, true, true, true, false])
    }

    @Test("A loop keeps the objects of its timers though nobody holds its own: S-NSTM-13")
    func loopOfC() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let reference = RLGetCurrent()
            weak var known: Timer?
            func make() {
                let timer = Named(timeInterval: .zero, repeats: false) { trace.add(($0 as? Named)?.name ?? "another") }
                known = timer
                RunLoop.wrapping(reference).add(timer, forMode: .default)
            }
            make()
            trace.add(known == nil ? "gone" : "kept")
            // It returns when the mode is empty.
            _ = RLRunInMode(RunLoop.Mode.default.rawValue, 1000, false)
            trace.add(known == nil ? "gone" : "kept")
            return trace.all
        }
        #expect(trace == ["kept", "named", "gone"])
    }

    @Test("With its thread's end a loop lets go of the objects of its timers, which stay in it: S-NSTM-13, S-LOOP-9")
    func threadHasEnded() {
        let (own, foreign, late) = (Weak(), Weak(), Weak())
        let isReady = Promise<RunLoop>()
        let goesOn = Promise<Void>()
        let thread = TestThread {
            let timer = Timer(timeInterval: .seconds(1000), repeats: true) { _ in }
            own.timer = timer
            RunLoop.current.add(timer, forMode: .default)
            isReady.fulfil(RunLoop.current)
            goesOn.value
        }
        let loop = isReady.value
        func add(_ known: Weak) -> Bool {
            let timer = Timer(timeInterval: .seconds(1000), repeats: true) { _ in }
            known.timer = timer
            loop.add(timer, forMode: .default)
            return loop.contains(timer, forMode: .default)
        }
        #expect(add(foreign))
        #expect(own.timer != nil && foreign.timer != nil)
        goesOn.fulfil(())
        thread.join()
        #expect(own.timer == nil && foreign.timer == nil)
        // Two timers are left.
        #expect(loop.nextTimerFireDate(forMode: .default) != nil)
        #expect(add(late))
        #expect(late.timer == nil)
        isReady.forget()
    }

    @Test("A loop whose thread had ended before it got its first timer keeps no object: S-NSTM-13")
    func threadHadEnded() {
        let late = Weak()
        let loop = onNewThread { RunLoop.current }
        func add() {
            let timer = Timer(timeInterval: .seconds(1000), repeats: true) { _ in }
            late.timer = timer
            loop.add(timer, forMode: .default)
        }
        add()
        #expect(late.timer == nil)
    }

    @Test("The first timer that another thread adds to a loop makes no pass of its own: S-WAKE-13")
    func firstTimerWakesNobody() {
        let isReady = Promise<RunLoop>()
        let thread = TestThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            loop.keepAlive()
            let observer = RunLoop.Observer(activities: [.beforeWaiting, .afterWaiting]) { _, activity in
                trace.add(activity.letter)
                if activity == .beforeWaiting { isReady.fulfil(loop) }
            }
            loop.add(observer, forMode: .default)
            loop.run(mode: .default, for: nil)
            return trace.all
        }
        let loop = isReady.value
        while !loop.isWaiting { sched_yield() }
        let timer = Timer(timeInterval: .milliseconds(20), repeats: false) { _ in RunLoop.current.stop() }
        loop.add(timer, forMode: .default)
        #expect(thread.join() == ["BW", "AW"])
        isReady.forget()
    }
}
