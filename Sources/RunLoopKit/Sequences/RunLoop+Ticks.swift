// SPDX-License-Identifier: MIT
extension RunLoop {
    /// The dates of a repeating timer of this loop, as a sequence.
    ///
    /// The timer exists from this call until the sequence and its iterator are released, the task that iterates is cancelled,
    /// or the loop's thread ends; the sequence is over then. While it exists its modes are not empty. It fires when the
    /// loop runs, and the element says which date it was; if the consumer was too slow for several, it gets the last.
    ///
    /// - Parameters:
    ///   - interval: between two dates; the first is one interval from now.
    ///   - tolerance: see ``Timer/tolerance``.
    ///   - mode: where the timer is added.
    /// - Returns: a sequence for one consumer.
    /// - Threads: any.
    /// - Foundation: `Timer.publish`, which is part of Combine.
    public func ticks(
        every interval: Duration, tolerance: Duration = .zero, forMode mode: Mode = .common
    ) -> AsyncStream<ContinuousClock.Instant> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ContinuousClock.Instant.self, bufferingPolicy: .bufferingNewest(1))
        let timer = Timer(timeInterval: interval, repeats: true) { timer in
            let date: ContinuousClock.Instant = timer.fireDate
            ForkGuard.whole { continuation.yield(date) }
        }
        timer.tolerance = tolerance
        stop(continuation) { timer.invalidate() }
        add(timer, forMode: mode)
        return stream
    }

    /// Does something when a sequence is over, for which the end of the loop's thread is a reason. Nobody has the sequence yet.
    func stop<Element>(_ continuation: AsyncStream<Element>.Continuation, by stopping: @escaping @Sendable () -> Void) {
        let executor = executor
        let handler = Locked<UInt>(0)
        continuation.onTermination = { _ in
            executor.forget(handler: handler.withLock { $0 })
            stopping()
        }
        // Only the end of the thread can be earlier than the next line, and that forgets its handlers by itself.
        let number = executor.atEnd {
            // The stream has a lock of its own, which a consumer that does not exist in a child of `fork` may hold there for ever. So no
            // loop waits for it.
            if ForkedChild.isChild, RunLoop.performInBackground({ continuation.finish() }) { return }
            continuation.finish()
        }
        handler.withLock { $0 = number }
    }
}
