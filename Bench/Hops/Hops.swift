// What it costs to go from one place of execution to another and back, in nanoseconds for one way.
// usage: hops [ROUNDS]     the best of seven measurements is printed
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

func measure(_ name: String, _ rounds: Int, _ body: @Sendable () async throws -> Void) async rethrows {
    var best = Duration.seconds(1000)
    for _ in 0..<7 {
        let clock = ContinuousClock()
        let start = clock.now
        try await body()
        best = min(best, clock.now - start)
    }
    print("\(name): \(Int((best / .nanoseconds(2 * rounds)).rounded())) ns")
}

@main
struct Hops {
    static func main() async throws {
        let rounds = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 20_000
        let threads = [RunLoopThread(name: "one"), RunLoopThread(name: "two")]
        for thread in threads { try thread.start() }
        let (one, two) = (threads[0].loop, threads[1].loop)

        try await measure("await loop.perform, between two loops", rounds) {
            try await Task(executorPreference: one.executor) {
                for _ in 0..<rounds { try await two.perform {} }
            }.value
        }
        let (here, there) = (OnLoop(one), OnLoop(two))
        await measure("actor to actor, on two loops", rounds) { await here.visit(there, rounds) }
        let near = OnLoop(one)
        await measure("actor to actor, on one loop", rounds) { await here.visit(near, rounds) }
        let (first, second) = (OnDefault(), OnDefault())
        await measure("actor to actor, on the default executor", rounds) { await first.visit(second, rounds) }
        await measure("DispatchQueue.async, between two serial queues", rounds) { await bounce(rounds) }
        for loop in [one, two] { loop.setSpinLimit(.microseconds(50)) }
        try await measure("await loop.perform, between two loops that spin for 50 µs", rounds) {
            try await Task(executorPreference: one.executor) {
                for _ in 0..<rounds { try await two.perform {} }
            }.value
        }
        for thread in threads { await thread.finish() }
    }
}
