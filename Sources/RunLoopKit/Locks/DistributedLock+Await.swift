// SPDX-License-Identifier: MIT
extension DistributedLock {
    /// Waits until the lock is free, takes it, calls a closure and unlocks.
    ///
    /// Neither the wait nor a slow file server blocks the executor of the caller: a thread of the library does what may block, for each
    /// directory one of its own (S-NSLK-9).
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
        let use = try FileLockThread.use(for: path)
        defer { withExtendedLifetime(use) {} }
        let loop = use.loop
        try await take(by: use, checkingEvery: interval, isolation: isolation)
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

    private func take(by use: FileLockThread.Use, checkingEvery interval: Duration, isolation: isolated (any Actor)?) async throws {
        let loop = use.loop
        // A closure that has begun is awaited even if the task is cancelled, so that nobody takes the lock without knowing.
        if try await loop.call({ try self.tryLock() }) { return }
        // The first look of the source comes after this, so nothing is missed between the attempt and it.
        var reports = try await freeReports(by: use, checkingEvery: interval, isolation: isolation).makeAsyncIterator()
        while await reports.next(isolation: isolation) != nil {
            if try await loop.call({ try self.tryLock() }) { return }
        }
        try Task.checkCancellation()
        throw RunLoop.ThreadEndedError()
    }

    /// A report each time that the lock may be free. The source looks at the file when it is made, and holds up who ends it while it
    /// looks, so both are done on the loop's thread.
    private func freeReports(
        by use: FileLockThread.Use, checkingEvery interval: Duration, isolation: isolated (any Actor)?
    ) async throws -> LoopSequence<Void> {
        let loop = use.loop
        return try await loop.call {
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
                loop.perform {
                    source.invalidate()
                    withExtendedLifetime(use) {}
                }
                loop.wakeUp()
            }
            loop.add(source, forMode: .default)
            return sequence
        }
    }
}

/// The threads that take and give back file locks for asynchronous callers: one for each directory in which that is done, since a file
/// server that does not answer holds up the thread that asks it. One stays when nothing is left to do; the child of `fork` begins with none.
enum FileLockThread {
    /// More directories than this share threads.
    static var most: Int { 16 }

    /// What has to be done by a thread. The last reference gives the thread back.
    // Sendable: all is constant.
    final class Use: Sendable {
        let loop: RunLoop
        fileprivate let worker: Worker
        fileprivate let directory: String
        private let generation = ForkedChild.generation

        fileprivate init(_ worker: Worker, _ directory: String) {
            self.worker = worker
            self.directory = directory
            loop = worker.thread.loop
        }

        deinit {
            // The parent's threads are not the child's.
            if generation == ForkedChild.generation { FileLockThread.giveBack(self) }
        }
    }

    // Sendable: the thread is constant, the number is guarded by `workers`.
    fileprivate final class Worker: @unchecked Sendable {
        let thread: RunLoopThread
        var uses = 0

        init(_ thread: RunLoopThread) { self.thread = thread }
    }

    private struct Workers {
        var ofDirectories: [String: (worker: Worker, uses: Int)] = [:]
        var busy: [ObjectIdentifier: Worker] = [:]
        var idle: Worker?

        /// The thread that has the directory, or one that has nothing to do; nil if there is none. Counts the use.
        mutating func use(_ directory: String) -> Worker? {
            if let known = ofDirectories[directory] { return note(known.worker, directory) }
            guard let worker = idle else { return nil }
            idle = nil
            return note(worker, directory)
        }

        /// The thread that has least to do.
        mutating func share(_ directory: String) -> Worker? {
            busy.values.min { $0.uses < $1.uses }.map { note($0, directory) }
        }

        mutating func note(_ worker: Worker, _ directory: String) -> Worker {
            worker.uses += 1
            busy[ObjectIdentifier(worker)] = worker
            ofDirectories[directory] = (worker, (ofDirectories[directory]?.uses ?? 0) + 1)
            return worker
        }

        /// Returns the thread if it is one too many.
        mutating func giveBack(_ worker: Worker, _ directory: String) -> Worker? {
            let uses = (ofDirectories[directory]?.uses ?? 1) - 1
            ofDirectories[directory] = uses > 0 ? (worker, uses) : nil
            worker.uses -= 1
            if worker.uses > 0 { return nil }
            busy[ObjectIdentifier(worker)] = nil
            if idle != nil { return worker }
            idle = worker
            return nil
        }
    }

    /// Held while a thread is made.
    private static let starting = LongLock()
    private static let workers = Locked(Workers())

    static func prepare() { _ = (starting, workers) }

    static func use(for path: String) throws -> Use {
        let directory = String(path.utf8.prefix(upTo: path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.utf8.startIndex)) ?? ""
        let worker = try starting.withLock { isForked in
            if isForked {
                let former = workers.withLock { workers in
                    let former = workers
                    workers = Workers()
                    return former
                }
                _ = former
            }
            if let worker = workers.withLock({ $0.use(directory) }) { return worker }
            if let worker = workers.withLock({ $0.busy.count < most ? nil : $0.share(directory) }) { return worker }
            let thread = RunLoopThread(name: "file locks")
            do {
                try thread.start()
            } catch {
                if let worker = workers.withLock({ $0.share(directory) }) { return worker }
                throw error
            }
            let worker = Worker(thread)
            return workers.withLock { $0.note(worker, directory) }
        }
        return Use(worker, directory)
    }

    private static func giveBack(_ use: Use) {
        let surplus = workers.withLock { $0.giveBack(use.worker, use.directory) }
        surplus?.thread.stop()
    }

    /// How many threads there are, for tests.
    static var count: Int { workers.withLock { $0.busy.count + ($0.idle == nil ? 0 : 1) } }
}
