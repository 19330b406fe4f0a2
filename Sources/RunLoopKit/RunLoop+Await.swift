extension RunLoop {
    /// The loop's thread has ended, so what was to be done there never will be.
    public struct ThreadEndedError: Error, Hashable, Sendable {}

    /// Calls a closure on the loop's thread and waits for its value, without holding up the caller's thread.
    ///
    /// The closure is queued for the common modes, behind what is queued already, and the loop is woken. It does not
    /// count as a handled source, and is never called before this call suspends. In asynchronous code a plain `perform` means
    /// this one; ``perform(inModes:block:)`` queues a closure there and goes on.
    ///
    /// - Parameters:
    ///   - isolation: the caller's actor, which goes on where it was; leave it out.
    ///   - body: called once on the loop's thread, or not at all.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; `CancellationError` if the task is cancelled before the closure began, which then
    ///   is not called; ``ThreadEndedError`` if the loop's thread ends before that. A closure that has begun is not
    ///   disturbed by a cancellation, and may look at `Task.isCancelled` of nobody: it runs outside of the task.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: no counterpart.
    public func perform<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let request = AwaitedClosure(body)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation(isolation: isolation) { continuation in
                if request.begin(continuation) { LoopQueue.of(self).append(.request(request)) }
            }
        } onCancel: {
            request.cancel()
        }
    }
}

/// A closure on its way to a loop, and who awaits it.
private final class AwaitedClosure<Value: Sendable>: LoopRequest {
    private enum State {
        case new
        case waiting(CheckedContinuation<Value, any Error>)
        /// The closure runs, or the continuation was resumed; or, before it began to wait, the task was cancelled.
        case over
    }

    private let body: Locked<(@Sendable () throws -> Value)?>
    private let state = Locked(State.new)

    init(_ body: @escaping @Sendable () throws -> Value) { self.body = Locked(body) }

    /// False if the task was cancelled before.
    func begin(_ continuation: CheckedContinuation<Value, any Error>) -> Bool {
        let isCancelled = state.withLock { state in
            if case .over = state { return true }
            state = .waiting(continuation)
            return false
        }
        if isCancelled { continuation.resume(throwing: CancellationError()) }
        return !isCancelled
    }

    /// The continuation, for the first who asks.
    private func take() -> CheckedContinuation<Value, any Error>? {
        state.withLock { state in
            defer { state = .over }
            if case .waiting(let continuation) = state { return continuation }
            return nil
        }
    }

    private func takeBody() -> (@Sendable () throws -> Value)? {
        body.withLock { body in
            defer { body = nil }
            return body
        }
    }

    func run() {
        guard let continuation = take(), let body = takeBody() else { return }
        continuation.resume(with: Result(catching: body))
    }

    func cancel() { fail(CancellationError()) }

    func abandon() { fail(RunLoop.ThreadEndedError()) }

    /// What the closure holds is let go of now, not when the loop comes to it.
    private func fail(_ error: any Error) {
        guard let continuation = take() else { return }
        _ = takeBody()
        continuation.resume(throwing: error)
    }
}
