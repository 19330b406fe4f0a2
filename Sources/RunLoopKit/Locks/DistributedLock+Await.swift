// SPDX-License-Identifier: MIT
extension DistributedLock {
    /// Waits until the lock is free, takes it, calls a closure and unlocks.
    ///
    /// Neither the wait nor a slow file server blocks the executor of the caller: a thread of the library does what may block.
    /// Tasks, objects and processes that wait for one lock get it in no particular order.
    ///
    /// - Parameters:
    ///   - interval: on file systems that several machines share, how long to wait between two attempts; on others the kernel
    ///     reports the end of a holder (S-DLOCK-12, S-DLOCK-13).
    ///   - isolation: the caller's actor, which calls the closure; leave it out.
    ///   - body: called with the lock held, on the caller's actor.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; what ``tryLock()`` throws where the lock cannot be taken; `CancellationError` if the task is
    ///   cancelled before the lock was taken; what ``unlock()`` throws, including `ESTALE`, after the closure has returned.
    public func locked<Result>(
        checkingEvery interval: Duration = .seconds(1), isolation: isolated (any Actor)? = #isolation,
        _ body: nonisolated(nonsending) () async throws -> Result
    ) async throws -> Result {
        let loop = try FileLockThread.loop()
        try await take(on: loop, checkingEvery: interval, isolation: isolation)
        let result: Result
        do {
            result = try await body()
        } catch {
            try? await loop.callDespiteCancellation { try self.unlock() }
            throw error
        }
        try await loop.callDespiteCancellation { try self.unlock() }
        return result
    }

    private func take(on loop: RunLoop, checkingEvery interval: Duration, isolation: isolated (any Actor)?) async throws {
        // A closure that has begun is awaited even if the task is cancelled, so that nobody takes the lock without knowing.
        if try await loop.call({ try self.tryLock() }) { return }
        // The first look of the source comes after this, so nothing is missed between the attempt and it.
        var reports = try await freeReports(on: loop, checkingEvery: interval, isolation: isolation).makeAsyncIterator()
        while await reports.next(isolation: isolation) != nil {
            if try await loop.call({ try self.tryLock() }) { return }
        }
        try Task.checkCancellation()
        throw RunLoop.ThreadEndedError()
    }

    /// A report each time that the lock may be free. The source looks at the file when it is made, and holds up who ends it while it
    /// looks, so both are done on the loop's thread.
    private func freeReports(
        on loop: RunLoop, checkingEvery interval: Duration, isolation: isolated (any Actor)?
    ) async throws -> LoopSequence<Void> {
        try await loop.call {
            let elements = LoopElements<Void>(keepsLastOnly: true)
            let source = try RunLoop.Source(whenFree: self, checkingEvery: interval) { _ in elements.give(()) }
            let number = self.waiting.withLock { waiting in
                waiting.last += 1
                waiting.tasks[waiting.last] = elements
                return waiting.last
            }
            let sequence = elements.sequence(of: loop) {
                let task = self.waiting.withLock { $0.tasks.removeValue(forKey: number) }
                _ = task
                // Now: the source has a reference to the lock, whose last one unlocks.
                loop.perform { source.invalidate() }
                loop.wakeUp()
            }
            loop.add(source, forMode: .default)
            return sequence
        }
    }
}

/// The one thread that takes and gives back file locks for asynchronous callers. It begins with the first of them and stays; the child
/// of `fork` begins one of its own.
enum FileLockThread {
    private static let starting = LongLock()
    private static let known = Locked<RunLoopThread?>(nil)

    static func prepare() { _ = (starting, known) }

    static func loop() throws -> RunLoop {
        try starting.withLock { isForked in
            if !isForked, let thread = known.withLock({ $0 }) { return thread.loop }
            let thread = RunLoopThread(name: "file locks")
            try thread.start()
            let former = known.withLock { known in
                let former = known
                known = thread
                return former
            }
            _ = former
            return thread.loop
        }
    }
}
