// SPDX-License-Identifier: MIT
public import NIOCore
public import RunLoopKit
private import Synchronization

// A run loop has its own thread and an event loop of NIO has another: neither runs inside the other. What crosses is a closure one
// way and a result the other. An asynchronous function needs none of this: it awaits `RunLoop.call` and `EventLoopFuture.get`.

extension EventLoop {
    /// Calls a closure on a run loop's thread and returns a future of its value on this event loop.
    ///
    ///     context.eventLoop.call(on: .main) { model.title }.assumeIsolated().whenSuccess { context.writeAndFlush(line($0), promise: nil) }
    ///
    /// The closure is queued for the run loop's common modes, behind what is queued already, and the loop is woken. Closures of one
    /// thread are called in the order in which it queued them, and their futures complete in that order. The closure is never called
    /// inside this function and does not count as a handled source. It cannot be cancelled.
    ///
    /// - Parameters:
    ///   - loop: the run loop; its thread has to run it.
    ///   - body: called once on the run loop's thread, or not at all.
    /// - Returns: a future on this event loop: the value that the closure returned; or the error that it threw; or
    ///   `RunLoop.ThreadEndedError` if the run loop's thread has ended, or ends before the closure has returned.
    /// - Threads: any. This event loop's group must not be shut down before the future is complete.
    public func call<Value: Sendable>(
        on loop: RunLoop, _ body: @escaping @Sendable () throws -> Value
    ) -> EventLoopFuture<Value> {
        let promise = makePromise(of: Value.self)
        let call = PromisedCall(body, promise)
        loop.perform(inModes: [.common]) { call.run() }
        loop.wakeUp()
        // A closure that is still queued when the thread ends is released with the loop, which others may keep. This one, queued
        // behind it, is told of the thread's end.
        Task.detached {
            do {
                try await loop.call {}
            } catch {
                call.abandon(error)
            }
        }
        return promise.futureResult
    }
}

extension EventLoopFuture where Value: Sendable {
    /// Has a callback called on a run loop's thread when the future is complete.
    ///
    /// It is queued for the run loop's common modes, and the loop is woken. The callbacks of futures of one event loop are called in
    /// the order in which the futures completed. A callback is never called inside this function.
    ///
    /// - Parameters:
    ///   - loop: the run loop; its thread has to run it.
    ///   - callback: called once with the result; released uncalled if the run loop's thread ends before that.
    /// - Threads: any.
    public func whenComplete(on loop: RunLoop, _ callback: @escaping @Sendable (Result<Value, any Error>) -> Void) {
        whenComplete { result in
            loop.perform(inModes: [.common]) { callback(result) }
            loop.wakeUp()
        }
    }

    /// Runs the calling thread's run loop in a mode until the future is complete, and returns its value.
    ///
    /// `wait()` blocks the thread; this function serves its timers, sources and queued closures of the mode meanwhile. A
    /// request to stop the run
    /// loop ends a run inside this function and not the function.
    ///
    /// - Parameter mode: the mode that is served meanwhile; not `common`, which cannot be run.
    /// - Returns: the future's value.
    /// - Throws: the error with which the future failed.
    /// - Threads: any but an event loop's of the future's group, which would wait for itself.
    /// - Reentrancy: allowed in everything that the run loop calls. Of two such waits the inner one returns first.
    @available(*, noasync, message: "a run blocks its thread; await get()")
    public func wait(running mode: RunLoop.Mode) throws -> Value {
        precondition(mode != .common, "the common modes are none to run in")
        eventLoop.preconditionNotInEventLoop()
        let arrival = Arrival<Value>()
        whenComplete { arrival.tell($0) }
        return try arrival.wait(running: mode).get()
    }
}

/// A result on its way from an event loop to a thread that waits.
// Sendable: the condition guards `result`.
private final class Arrival<Value: Sendable>: @unchecked Sendable {
    private let condition = NSCondition()
    private var result: Result<Value, any Error>?

    func tell(_ result: Result<Value, any Error>) {
        condition.withLock {
            self.result = result
            condition.broadcast()
        }
    }

    /// The condition's wait is the run: a thread that is told to end sleeps in it all the same (S-THREAD-4), and one that is woken
    /// during a run inside its own ends when that has returned (S-SYNC-24).
    @available(*, noasync)
    func wait(running mode: RunLoop.Mode) -> Result<Value, any Error> {
        condition.lock()
        defer { condition.unlock() }
        while true {
            if let result { return result }
            _ = condition.wait(inMode: mode)
        }
    }
}

/// A closure on its way to a run loop.
// Sendable: `body` belongs to whoever has claimed the call.
private final class PromisedCall<Value: Sendable>: @unchecked Sendable {
    private let isClaimed = Atomic(false)
    /// Whether the promise has been kept.
    private let isOver = Atomic(false)
    private var body: (@Sendable () throws -> Value)?
    private let promise: EventLoopPromise<Value>

    init(_ body: @escaping @Sendable () throws -> Value, _ promise: EventLoopPromise<Value>) {
        self.body = body
        self.promise = promise
    }

    private func claim() -> Bool { !isClaimed.exchange(true, ordering: .acquiringAndReleasing) }

    private func complete(_ result: Result<Value, any Error>) {
        if !isOver.exchange(true, ordering: .acquiringAndReleasing) { promise.completeWith(result) }
    }

    /// On the run loop's thread. What the closure holds is gone when the future is complete, unless the closure ends the thread.
    func run() {
        guard claim() else { return }
        let result = Result { try body!() }
        body = nil
        complete(result)
    }

    /// The thread has ended, in the closure perhaps.
    func abandon(_ error: any Error) {
        if claim() { body = nil }
        complete(.failure(error))
    }
}
