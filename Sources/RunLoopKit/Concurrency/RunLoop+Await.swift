// SPDX-License-Identifier: MIT
internal import Synchronization

extension RunLoop {
    /// The loop's thread has ended, so what was queued there will never be done.
    public struct ThreadEndedError: Error, Hashable, Sendable {}

    /// Calls a closure on the loop's thread and waits for its value, without blocking the caller's thread.
    ///
    ///     let sum = try await loop.call { table.sum() }
    ///
    /// The closure is queued for the common modes, behind the awaited closures, actors' and tasks' jobs that are queued already, and the loop
    /// is woken. Of closures of ``perform(_:)`` that are queued it may overtake those that were queued after the first of these (S-NEST-7). It
    /// does not count as a handled source, and is never called before this call suspends. ``perform(_:)`` queues a closure and returns.
    ///
    /// - Parameters:
    ///   - isolation: the caller's actor, on which the caller continues; leave it out.
    ///   - body: called once on the loop's thread, or not at all.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; `CancellationError` if the task is cancelled before the closure began, which then
    ///   is not called; ``ThreadEndedError`` if the loop's thread ends before that. A cancellation does not affect
    ///   a closure that has begun, which cannot use `Task.isCancelled`: it runs outside of the task.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: no counterpart.
    public func call<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let request = AwaitedClosure(body)
        return try await withTaskCancellationHandler {
            // The unsafe kind spares an allocation, but is resumed by code in this module, of which the thread sanitizer sees no
            // order with what the task does next.
            try await RunLoopExecutor.staying(isolation: isolation) {
                try await withCheckedThrowingContinuation(isolation: isolation) { continuation in
                    if request.begin(LoopContinuation(continuation, isolation: isolation)) { executor.append(.request(request)) }
                }
            }
        } onCancel: {
            if request.cancel() { executor.noteCancellation() }
        }
    }
}

extension RunLoop {
    /// The same for what has to be done even if the task is cancelled.
    func callDespiteCancellation<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let request = AwaitedClosure(body)
        return try await RunLoopExecutor.staying(isolation: isolation) {
            try await withCheckedThrowingContinuation(isolation: isolation) { continuation in
                if request.begin(LoopContinuation(continuation, isolation: isolation)) { executor.append(.request(request)) }
            }
        }
    }
}

extension RunLoop {
    /// The former name of ``call(isolation:_:)``, which competed with ``perform(_:)`` in asynchronous functions.
    ///
    /// - Parameters:
    ///   - isolation: the caller's actor; leave it out.
    ///   - body: called once on the loop's thread, or not at all.
    /// - Returns: what the closure returned.
    /// - Throws: as ``call(isolation:_:)`` does.
    @_disfavoredOverload
    @available(*, unavailable, renamed: "call(isolation:_:)", message: "where its value is not used, perform means another function")
    public func perform<Value: Sendable>(
        isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await call(isolation: isolation, body)
    }
}

/// A closure on its way to a loop, and who awaits it.
// Sendable: the body is taken under the claim `running`; whoever moves the state on to `over` owns the continuation.
private final class AwaitedClosure<Value: Sendable>: LoopRequest, @unchecked Sendable {
    private enum State {
        /// The task has not suspended yet. It alone has the object, but for the cancellation.
        static var new: UInt8 { 0 }
        static var waiting: UInt8 { 1 }
        /// The loop's thread calls the closure and owns it.
        static var running: UInt8 { 2 }
        /// The continuation is resumed; or, before it began to wait, the task was cancelled.
        static var over: UInt8 { 3 }
        /// The closure has returned, and what it returned is on its way to the task's own loop.
        static var returning: UInt8 { 4 }
        /// The task was cancelled, and what the closure holds goes.
        static var cancelled: UInt8 { 5 }
    }

    private let state = Atomic(State.new)
    private var body: (@Sendable () throws -> Value)?
    /// Set before `waiting`.
    private var continuation: LoopContinuation<Value, any Error>?
    /// Where the task runs, if that is a loop. Its thread resumes the task, and this object is the request for that.
    private var home: RunLoopExecutor? { continuation!.home }
    /// What the closure returned or threw. Set before `returning`.
    private var value: Value?
    private var error: (any Error)?

    init(_ body: @escaping @Sendable () throws -> Value) { self.body = body }

    private func move(from old: UInt8, to new: UInt8) -> Bool {
        state.compareExchange(expected: old, desired: new, ordering: .acquiringAndReleasing).exchanged
    }

    /// False if the task was cancelled before.
    func begin(_ continuation: LoopContinuation<Value, any Error>) -> Bool {
        self.continuation = continuation
        let begins = move(from: State.new, to: State.waiting)
        if !begins {
            body = nil
            continuation.resume(throwing: CancellationError())
        }
        return begins
    }

    /// On the loop's thread; and then, if the closure has returned, on the task's.
    override func run() {
        guard move(from: State.waiting, to: State.running) else { return arrive() }
        // Two cases rather than a `Result`, whose metadata the runtime would look up each time.
        do {
            let value = try body!()
            body = nil
            if home != nil {
                self.value = value
                return goHome()
            }
            ForkGuard.whole { if move(from: State.running, to: State.over) { continuation!.resume(returning: value) } }
        } catch {
            body = nil
            if home != nil {
                self.error = error
                return goHome()
            }
            ForkGuard.whole { if move(from: State.running, to: State.over) { continuation!.resume(throwing: error) } }
        }
    }

    private func goHome() { if move(from: State.running, to: State.returning) { home!.append(.request(self)) } }

    private func arrive() {
        if move(from: State.returning, to: State.over) {
            if let error { continuation!.resume(throwing: error) } else { continuation!.resume(returning: value!) }
            value = nil
            error = nil
        } else {
            finishCancellation()
        }
    }

    private func finishCancellation() {
        ForkGuard.whole {
            if move(from: State.cancelled, to: State.over) { continuation!.resume(throwing: CancellationError()) }
        }
    }

    override var isOver: Bool { state.load(ordering: .acquiring) == State.over }

    /// What the closure holds is let go of now, not when the loop comes to it. True if this is in a list, or will be, for nothing.
    func cancel() -> Bool {
        // Either is the caller's: a task that has not begun to wait sees it when it does.
        if move(from: State.new, to: State.over) { return false }
        guard move(from: State.waiting, to: State.cancelled) else { return false }
        body = nil
        finishCancellation()
        return true
    }

    override func abandon() {
        var isMine = false
        ForkGuard.whole {
            isMine = move(from: State.waiting, to: State.over)
            // The closure that ended the thread is the frame's that nobody comes back to.
            if isMine || move(from: State.running, to: State.over) { continuation!.resume(throwing: RunLoop.ThreadEndedError()) }
        }
        if isMine { body = nil }
        arrive()
    }
}
