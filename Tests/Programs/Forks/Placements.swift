// SPDX-License-Identifier: MIT
// The ways in which a task is on the main loop. What holds for one holds for the other.
import RunLoopKit

enum Placement: CaseIterable {
    /// It prefers the loop's executor, and has no actor.
    case preference
    /// It is an actor's that has the loop's executor, and prefers none.
    case actor

    /// Begins a task of the main loop. The body runs on the actor that it is given.
    @discardableResult
    func start(_ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) -> Task<Void, Never> {
        switch self {
        case .preference: return Task(executorPreference: RunLoop.main.executor) { await body(nil) }
        case .actor:
            let actor = MainLoopActor()
            // A job of the actor's from the beginning: in a child no other executor has threads.
            return actor.begin(body)
        }
    }

    /// What a scenario says for each of them.
    static func each(_ scenario: (Placement) -> String) -> String { allCases.map(scenario).joined(separator: ", ") }
}

private actor MainLoopActor {
    private let executor = RunLoop.main.executor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private func run(_ body: @Sendable (isolated (any Actor)?) async -> Void) async { await body(self) }

    /// Outside of tasks, on the loop's thread.
    nonisolated func begin(_ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) -> Task<Void, Never> {
        assumeIsolated { actor in Task { await actor.run(body) } }
    }
}

/// Has libdispatch make threads: in a child it counts on them, although they do not exist there.
func useGlobalExecutor() {
    let isOver = Flag()
    Task.detached { isOver.set() }
    while !isOver.isSet { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
}
