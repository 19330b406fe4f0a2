// SPDX-License-Identifier: MIT
// What it costs to go from one place of execution to another and back, in nanoseconds for one way.
// usage: RunLoopBenchHops [ROUNDS [ONLY]]     the best of seven measurements is printed; ONLY is a part of the names of what is measured
import Dispatch
import RunLoopKit

actor OnLoop {
    private let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private var count = 0
    init(_ loop: RunLoop) { executor = loop.executor }
    func visit() { count += 1 }
    func visit(_ other: OnLoop, _ rounds: Int) async {
        for _ in 0..<rounds {
            await other.visit()
            // Without something to do here the compiler leaves out the way back.
            count += 1
        }
    }
}

extension OnLoop {
    func call(_ loop: RunLoop, _ rounds: Int) async throws {
        for _ in 0..<rounds {
            try await loop.call {}
            count += 1
        }
    }
}

actor OnDefault {
    private var count = 0
    func visit() { count += 1 }
    func visit(_ other: OnDefault, _ rounds: Int) async {
        for _ in 0..<rounds {
            await other.visit()
            // Without something to do here the compiler leaves out the way back.
            count += 1
        }
    }
}

/// Two serial queues that send each other on.
func bounce(_ rounds: Int) async {
    let (one, two) = (DispatchQueue(label: "one"), DispatchQueue(label: "two"))
    @Sendable func step(_ left: Int, _ done: CheckedContinuation<Void, Never>) {
        if left == 0 { return done.resume() }
        (left.isMultiple(of: 2) ? one : two).async { step(left - 1, done) }
    }
    await withCheckedContinuation { step(2 * rounds, $0) }
}

func measure(
    _ name: String, _ rounds: Int, ways: Int = 2, _ body: @escaping @Sendable () async throws -> Void
) async throws {
    let only = CommandLine.arguments.dropFirst(2).first
    if let only, name.firstRange(of: only) == nil { return }
    var best = Duration.seconds(1000)
    for _ in 0..<7 {
        let clock = ContinuousClock()
        let start = clock.now
        try await body()
        best = min(best, clock.now - start)
    }
    print("| \(name) | \(Int((best / .nanoseconds(ways * rounds)).rounded())) |")
}

@main
struct Hops {
    static func main() async throws {
        let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 20_000
        let threads = [RunLoopThread(name: "one"), RunLoopThread(name: "two")]
        for thread in threads { try thread.start() }
        let (one, two) = (threads[0].loop, threads[1].loop)
        print("| one way | ns |\n| --- | ---: |")

        let (here, near, there) = (OnLoop(one), OnLoop(one), OnLoop(two))
        try await measure("actor to actor, on one loop", rounds) { await here.visit(near, rounds) }
        let (first, second) = (OnDefault(), OnDefault())
        try await measure("actor to actor, on the default executor", rounds) { await first.visit(second, rounds) }
        try await measure("a task that prefers a loop, to an actor on it", rounds) {
            await Task(executorPreference: one.executor) { for _ in 0..<rounds { await near.visit() } }.value
        }
        try await measure("`await loop.call` on the loop's own thread", rounds) {
            try await Task(executorPreference: one.executor) { for _ in 0..<rounds { try await one.call {} } }.value
        }
        try await measure("`await loop.call` from an actor on that loop", rounds) { try await here.call(one, rounds) }
        try await measure("`await loop.call` from an actor on another loop", rounds) { try await here.call(two, rounds) }
        try await measure("`Task.yield` on a loop", rounds, ways: 1) {
            await Task(executorPreference: one.executor) { for _ in 0..<rounds { await Task.yield() } }.value
        }
        try await measure("`Task.yield` on the default executor", rounds, ways: 1) {
            await Task { for _ in 0..<rounds { await Task.yield() } }.value
        }
        try await measure("actor to actor, on two loops", rounds) { await here.visit(there, rounds) }
        @Sendable func performThere() async throws {
            try await Task(executorPreference: one.executor) { for _ in 0..<rounds { try await two.call {} } }.value
        }
        try await measure("`await loop.call`, between two loops", rounds, performThere)
        for loop in [one, two] { loop.setSpinLimit(.microseconds(50)) }
        try await measure("the same, the loops watching for 50 µs before they sleep", rounds, performThere)
        for loop in [one, two] { loop.setSpinLimit(.zero) }
        try await measure("`DispatchQueue.async`, between two serial queues", rounds) { await bounce(rounds) }
        for thread in threads { await thread.finish() }
    }
}
