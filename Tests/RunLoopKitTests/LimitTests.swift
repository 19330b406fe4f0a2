// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// Budgets of sources and modes.
@Suite struct LimitTests {
    @Test("A source that signals itself performs so often in a period (S-LIM-1, S-LIM-2)")
    func sources() {
        let clock = TestClock()
        RunLoop.with(clock: clock) {
            let counter = Counter()
            let source = RunLoop.Source { source in
                counter.add()
                source.signal()
            }
            #expect(source.limit == nil)
            source.setLimit(3, per: .seconds(10))
            #expect(source.limit?.count == 3 && source.limit?.period == .seconds(10))
            RunLoop.current.add(source, forMode: .default)
            source.signal()
            clock.advance(by: .seconds(9))
            #expect(counter.value == 3)
            clock.advance(by: .seconds(1))
            #expect(counter.value == 6)
            source.invalidate()
        }
    }

    @Test("Closures come in portions, and a timer between them (S-LIM-6)")
    func passes() {
        onNewThread {
            let loop = RunLoop.current
            #expect(loop.passLimit(forMode: .default) == nil)
            loop.setPassLimit(10, forMode: .default)
            #expect(loop.passLimit(forMode: .default) == 10)
            let counter = Counter()
            let seen = Counter()
            for _ in 0..<100 { loop.perform { counter.add() } }
            loop.add(Timer(timeInterval: .zero, repeats: false) { _ in seen.set(counter.value) }, forMode: .default)
            while counter.value < 100 { loop.run(mode: .default) }
            #expect(seen.value <= 20)
        }
    }
}

private final class Counter: Sendable {
    private let count = Atomic(0)
    func add() { count.wrappingAdd(1, ordering: .relaxed) }
    func set(_ value: Int) { count.store(value, ordering: .relaxed) }
    var value: Int { count.load(ordering: .relaxed) }
}
