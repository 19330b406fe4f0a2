// SPDX-License-Identifier: MIT
internal import Synchronization

/// A task that waits for something of this module; resumed once.
///
/// The Swift runtime locks a task while it cancels it or changes its priority. In a child of `fork` the lock of a task that another thread
/// had locked is never free, and whoever resumes the task, or runs a job of it, waits for ever. So:
///
/// - A task that has waited since before the fork is resumed by a thread of its own in the child, and no loop waits for that.
/// - A task on a loop is resumed by that loop's thread alone: one that is cancelled is resumed under the lock, and a job of it would be in
///   the list of the loop before the lock is free. What is in the list in its place is a request, which the child can look at.
struct LoopContinuation<Value: Sendable, Failure: Error>: Sendable {
    private let continuation: CheckedContinuation<Value, Failure>
    /// Where the task runs, if that is a loop.
    let home: RunLoopExecutor?
    private let generation = ForkedChild.generation

    /// - Parameter isolation: the actor of the task that waits, which calls this.
    init(_ continuation: CheckedContinuation<Value, Failure>, isolation: (any Actor)?) {
        self.continuation = continuation
        home = RunLoopExecutor.ofTask(isolatedTo: isolation)
    }

    /// For what may be resumed by any thread: such a task may wait for ever in a child (S-FORK-6).
    init(anywhere continuation: CheckedContinuation<Value, Failure>) {
        self.continuation = continuation
        home = nil
    }

    func resume(returning value: Value) {
        if isHere { return continuation.resume(returning: value) }
        resumeThere { [continuation] in continuation.resume(returning: value) }
    }

    func resume(throwing error: Failure) {
        if isHere { return continuation.resume(throwing: error) }
        resumeThere { [continuation] in continuation.resume(throwing: error) }
    }

    /// Whether the calling thread may resume the task.
    private var isHere: Bool { home?.isOfCaller != false && generation == ForkedChild.generation }

    private func resumeThere(_ resume: @escaping @Sendable () -> Void) {
        let resumption = Resumption(generation, resume)
        if let home, !home.isOfCaller { home.append(.request(resumption)) } else { resumption.run() }
    }

    func resume(with result: Result<Value, Failure>) {
        switch result {
        case .success(let value): resume(returning: value)
        case .failure(let error): resume(throwing: error)
        }
    }
}

extension LoopContinuation where Value == Void {
    func resume() { resume(returning: ()) }
}

/// The resumption of a task on its way to the thread that makes it. A list may have it when it is made, so it is made once.
// Sendable: the properties are constant, Sendable or atomic; the base class has none.
private final class Resumption: LoopRequest, @unchecked Sendable {
    private let generation: UInt
    private let resume: @Sendable () -> Void
    private let isMade = Atomic(false)

    init(_ generation: UInt, _ resume: @escaping @Sendable () -> Void) {
        self.generation = generation
        self.resume = resume
    }

    override var isOver: Bool { isMade.load(ordering: .acquiring) }

    /// On the thread of the task's loop, or when that is gone.
    override func run() { if generation == ForkedChild.generation { make() } else { makeApart() } }

    override func abandon() { run() }

    private func make() { if !isMade.exchange(true, ordering: .acquiringAndReleasing) { resume() } }

    /// On a thread of its own. In a child that is forked before that thread has come to it, on another one.
    private func makeApart() {
        if isOver { return }
        let handler = Locked<UInt>(0)
        let number = ForkedChild.atBeginning { [self] in
            ForkedChild.forget(handler.withLock { $0 })
            makeApart()
        }
        handler.withLock { $0 = number }
        let body: @Sendable () -> Void = { [self] in
            ForkGuard.whole { make() }
            ForkedChild.forget(number)
        }
        // Without a thread the loop takes the risk: nobody else would resume the task.
        if !RunLoop.performInBackground(body) { body() }
    }
}
