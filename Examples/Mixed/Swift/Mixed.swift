// SPDX-License-Identifier: MIT
// C code and Swift code on one loop: each half adds a source, a timer and an observer to the main
// thread's loop. The two sources signal each other three times; then the Swift timer makes the C timer
// due, and that one stops the run.
import RunLoopExampleMixedHalf
import RunLoopKit
import Synchronization

@main
enum Mixed {
    static let rounds = 3
    static let performed = Atomic(0)
    static let fired = Atomic(0)
    static let observed = Atomic(0)

    static func main() {
        let loop = RunLoop.main

        let timer = Timer(fire: .distantFuture, interval: .zero, repeats: false) { _ in
            fired.add(1, ordering: .relaxed)
            print("Swift  timer")
            c_half_set_timer_due()
        }
        loop.add(timer, forMode: .default)

        let source = RunLoop.Source { _ in
            let round = performed.add(1, ordering: .relaxed).newValue
            print("Swift  source, time \(round)")
            if round < rounds { RunLoop.Source(wrapping: c_half_source()!).signal() } else { timer.fireDate = .now }
        }
        loop.add(source, forMode: .default)

        // C's observer has order 0 and so comes first.
        let observer = RunLoop.Observer(activities: [.entry, .exit], order: 1) { _, activity in
            observed.add(1, ordering: .relaxed)
            print("Swift  run \(activity == .entry ? "begins" : "ends")")
        }
        loop.add(observer, forMode: .default)

        c_half_add(loop.getRLRunLoop(), source.getRLSource())
        RunLoop.Source(wrapping: c_half_source()!).signal()
        let result = loop.run(mode: .default, for: .seconds(60))

        let swift = [
            performed.load(ordering: .relaxed), fired.load(ordering: .relaxed), observed.load(ordering: .relaxed),
        ]
        let c = [c_half_performed(), c_half_fired(), c_half_observed()].map { Int($0) }
        guard result == .stopped, swift == [rounds, 1, 2], c == [rounds, 1, 2] else {
            fatalError("the run ended by \(result); Swift's items were called \(swift) times, C's \(c)")
        }
        c_half_remove()
        source.invalidate()
        observer.invalidate()
        precondition(!loop.contains(source, forMode: .default) && !timer.isValid, "an item was left on the loop")
        print("The halves shared one loop.")
    }
}
