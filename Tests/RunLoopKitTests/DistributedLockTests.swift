// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// A path in a folder of its own, which goes at the end with what is in it.
private final class LockFile: Sendable {
    private let folder: String
    let path: String

    init() {
        var template = Array("/tmp/RunLoopKit.locks.XXXXXX".utf8CString)
        folder = template.withUnsafeMutableBufferPointer { String(cString: mkdtemp($0.baseAddress!)) }
        path = folder + "/lock"
    }

    var exists: Bool { access(path, F_OK) == 0 }

    func make() throws -> DistributedLock { try DistributedLock(path: path) }

    deinit {
        unlink(path)
        rmdir(folder)
    }
}

/// Locks that are files.
@Suite(.timeLimit(.minutes(10))) struct DistributedLockTests {
    @Test("One object holds the lock of a path; the file is there meanwhile: S-DLOCK-1 S-DLOCK-2 S-DLOCK-6 S-DLOCK-7")
    func exclusive() throws {
        let file = LockFile()
        let (one, other) = (try file.make(), try file.make())
        #expect(!file.exists && one.path == file.path)
        #expect(try one.lockDate == nil)
        #expect(try one.tryLock())
        #expect(file.exists)
        #expect(try !other.tryLock() && !one.tryLock())
        let date = try #require(try other.lockDate)
        #expect(date <= .now + .seconds(1) && date > .now - .seconds(3600))
        try one.unlock()
        #expect(!file.exists)
        #expect(try other.tryLock())
        try other.unlock()
    }

    @Test("What is wrong is thrown: S-DLOCK-1 S-DLOCK-3 S-DLOCK-6 S-DLOCK-8")
    func errors() throws {
        #expect(throws: RunLoop.SystemError(code: EINVAL)) { try DistributedLock(path: "") }
        #expect(throws: RunLoop.SystemError(code: EINVAL)) { try DistributedLock(path: "/tmp/a\0b") }
        #expect(NSDistributedLock(path: "/tmp/") == nil)
        let missing = try DistributedLock(path: "/tmp/RunLoopKit.no.such.folder/lock")
        #expect(throws: RunLoop.SystemError(code: ENOENT)) { try missing.tryLock() }
        let file = LockFile()
        let (one, other) = (try file.make(), try file.make())
        #expect(throws: RunLoop.SystemError(code: EPERM)) { try one.unlock() }
        #expect(try one.tryLock() && !other.tryLock())
        try other.breakLock()
        #expect(throws: RunLoop.SystemError(code: ESTALE)) { try one.unlock() }
    }

    @Test("Foundation's names: S-DLOCK-2 S-DLOCK-6 S-DLOCK-7 S-DLOCK-8")
    func foundationsNames() throws {
        let file = LockFile()
        let one = try #require(NSDistributedLock(path: file.path))
        let other = try #require(NSDistributedLock(path: file.path))
        #expect(!one.unlock() && one.lockDate == nil)
        #expect(one.try() && !other.try() && other.lockDate != nil)
        other.break()
        #expect(!one.unlock() && other.try() && other.unlock())
    }

    @Test("A source tells a loop that the lock is free: S-DLOCK-12")
    func source() throws {
        let file = LockFile()
        let holder = try file.make()
        #expect(try holder.tryLock())
        let taken = onNewThread {
            do {
                let lock = try file.make()
                let trace = Trace()
                let source = try RunLoop.Source(whenFree: lock) { _ in
                    if (try? lock.tryLock()) == true { RunLoop.current.stop() } else { trace.add("in vain") }
                }
                RunLoop.current.add(source, forMode: .default)
                Timer.scheduledTimer(withTimeInterval: .milliseconds(2), repeats: false) { _ in try? holder.unlock() }
                let result = RunLoop.current.run(mode: .default, for: .seconds(60))
                source.invalidate()
                try lock.unlock()
                return result == .stopped
            } catch {
                return false
            }
        }
        #expect(taken)
    }
}

/// Locks that are awaited.
@Suite(.timeLimit(.minutes(10))) struct AwaitedDistributedLockTests {
    @Test("Tasks with one object and with several have the lock one at a time, and each gets it: S-NSLK-8 S-DLOCK-2")
    func exclusive() async throws {
        let file = LockFile()
        let shared = try file.make()
        final class Counts: Sendable {
            let inside = Atomic(0)
            let sum = Atomic(0)
        }
        let counts = Counts()
        try await withThrowingTaskGroup(of: Int.self) { group in
            for task in 0..<12 {
                let lock = task % 2 == 0 ? shared : try file.make()
                group.addTask {
                    try await lock.locked {
                        let others = counts.inside.add(1, ordering: .sequentiallyConsistent).oldValue
                        await Task.yield()
                        counts.inside.subtract(1, ordering: .sequentiallyConsistent)
                        counts.sum.add(1, ordering: .relaxed)
                        return others
                    }
                }
            }
            for try await others in group { #expect(others == 0) }
        }
        #expect(counts.sum.load(ordering: .relaxed) == 12)
        #expect(!file.exists)
    }

    @Test("A wait does not hold up the executor's thread, on which the holder goes on: S-NSLK-8")
    func executor() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let file = LockFile()
        let (one, other) = (try file.make(), try file.make())
        let trace = Trace()
        let executor = thread.loop.executor
        let (stream, mayEnd) = AsyncStream.makeStream(of: Void.self)
        // All on one thread: the holder, who waits for it, and who lets the holder go on.
        let holder = Task(executorPreference: executor) {
            try await one.locked {
                trace.add("held")
                for await _ in stream {}
                trace.add("given back")
            }
        }
        while trace.count == 0 { try await Task.sleep(for: .milliseconds(1)) }
        let waiter = Task(executorPreference: executor) { try await other.locked { trace.add("taken") } }
        try await Task.sleep(for: .milliseconds(5))
        let opener = Task(executorPreference: executor) { mayEnd.finish() }
        await opener.value
        try await holder.value
        try await waiter.value
        #expect(trace.all == ["held", "given back", "taken"])
        await thread.finish()
    }

    @Test("The closure keeps the isolation of its caller: S-NSLK-8")
    func isolation() async throws {
        actor Table {
            var rows = 0
            func fill(_ lock: DistributedLock) async throws -> Int {
                try await lock.locked {
                    rows += 1
                    return rows
                }
            }
        }
        let file = LockFile()
        #expect(try await Table().fill(file.make()) == 1)
    }

    @Test("The closure is called on the caller's actor also if it names nothing of that: S-NSLK-8")
    func isolationOfAnyClosure() async throws {
        actor Table {
            nonisolated let executor: RunLoopExecutor
            nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
            init(on loop: RunLoop) { executor = loop.executor }
            func fill(_ lock: DistributedLock) async throws -> Bool? {
                let executor = executor
                return try await lock.locked { executor.isIsolatingCurrentContext() }
            }
        }
        let file = LockFile()
        let thread = RunLoopThread()
        try thread.start()
        #expect(try await Table(on: thread.loop).fill(file.make()) == true)
        await thread.finish()
    }

    @Test("An error of the closure comes out, and the lock is free; one that was broken meanwhile is told: S-NSLK-8 S-DLOCK-6")
    func errors() async throws {
        struct Failure: Error {}
        let file = LockFile()
        let (lock, other) = (try file.make(), try file.make())
        await #expect(throws: Failure.self) { try await lock.locked { throw Failure() } }
        #expect(!file.exists)
        await #expect(throws: RunLoop.SystemError(code: ESTALE)) {
            try await lock.locked {
                _ = try other.tryLock()
                try other.breakLock()
            }
        }
        let missing = try DistributedLock(path: "/tmp/RunLoopKit.no.such.folder/lock")
        await #expect(throws: RunLoop.SystemError(code: ENOENT)) { try await missing.locked {} }
    }

    @Test("A wait that is cancelled takes nothing; a closure that has begun is not disturbed: S-NSLK-8")
    func cancellation() async throws {
        let file = LockFile()
        let holder = try file.make()
        for round in 0..<100 {
            #expect(try holder.tryLock())
            let lock = try file.make()
            let waiter = Task { try await lock.locked { true } }
            if round % 2 == 0 { try await Task.sleep(for: .microseconds(200 * (round % 5))) }
            // At the same time.
            async let free: Void = Task.detached { try holder.unlock() }.value
            waiter.cancel()
            try await free
            let result = await waiter.result
            if case .failure(let error) = result { #expect(error is CancellationError) }
            // Free again in any case.
            #expect(try holder.tryLock())
            try holder.unlock()
        }
        let lock = try file.make()
        let task = Task {
            try await lock.locked {
                while !Task.isCancelled { await Task.yield() }
                return true
            }
        }
        while !file.exists { try await Task.sleep(for: .milliseconds(1)) }
        task.cancel()
        #expect(try await task.value)
        #expect(!file.exists)
    }

    @Test("A task that waits with the object of a holder whose lock was broken gets it when that one is done: S-NSLK-8 S-DLOCK-6 S-DLOCK-8")
    func brokenBeforeWaiter() async throws {
        let file = LockFile()
        let (shared, breaker) = (try file.make(), try file.make())
        let (held, isHeld) = AsyncStream.makeStream(of: Void.self)
        let (stream, mayEnd) = AsyncStream.makeStream(of: Void.self)
        let holder = Task {
            try await shared.locked {
                isHeld.finish()
                for await _ in stream {}
            }
        }
        for await _ in held {}
        let waiter = Task { try await shared.locked { true } }
        // So that it waits, and hears of the break in vain.
        try await Task.sleep(for: .milliseconds(20))
        _ = try breaker.tryLock()
        try breaker.breakLock()
        try await Task.sleep(for: .milliseconds(20))
        mayEnd.finish()
        await #expect(throws: RunLoop.SystemError(code: ESTALE)) { try await holder.value }
        #expect(try await waiter.value)
        #expect(!file.exists)
    }

    @Test("A wait that was cancelled keeps nothing of its lock, whose last reference unlocks: S-NSLK-8 S-DLOCK-6")
    func cancelledAndDropped() async throws {
        let file = LockFile()
        do {
            let lock = try file.make()
            #expect(try lock.tryLock())
            let waiter = Task { [lock] in try await lock.locked(checkingEvery: .milliseconds(1)) {} }
            while lock.waiting.withLock({ $0.tasks.isEmpty }) { await Task.yield() }
            waiter.cancel()
            await #expect(throws: CancellationError.self) { try await waiter.value }
        }
        while file.exists { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("A wait may look as seldom as it likes: S-NSLK-8 S-DLOCK-13")
    func longInterval() async throws {
        let file = LockFile()
        let holder = try file.make()
        #expect(try holder.tryLock())
        let lock = try file.make()
        let waiter = Task { try await lock.locked(checkingEvery: .seconds(Int64.max)) { true } }
        while lock.waiting.withLock({ $0.tasks.isEmpty }) { await Task.yield() }
        try holder.unlock()
        #expect(try await waiter.value)
    }

    @Test("A directory whose file server does not answer holds up no lock of another one, neither its wait nor its end: S-NSLK-9")
    func slowServer() async throws {
        let (slow, fast) = (LockFile(), LockFile())
        let (held, isHeld) = AsyncStream.makeStream(of: Void.self)
        let (stream, mayEnd) = AsyncStream.makeStream(of: Void.self)
        let (one, other) = (try fast.make(), try fast.make())
        let holder = Task {
            try await one.locked {
                isHeld.finish()
                for await _ in stream {}
            }
        }
        for await _ in held {}
        let waiter = Task { try await other.locked { true } }
        while other.waiting.withLock({ $0.tasks.isEmpty }) { await Task.yield() }
        // The thread of the slow directory is in a call that does not return.
        let answers = Promise<Void>()
        var use: FileLockThread.Use? = try FileLockThread.use(for: slow.path)
        use?.loop.perform { answers.value }
        use?.loop.wakeUp()
        let hangs = Task { try await slow.make().locked { true } }
        mayEnd.finish()
        try await holder.value
        #expect(try await waiter.value)
        #expect(try await fast.make().locked { true })
        // Any number of directories has no more threads than there may be.
        var uses = (0..<100).compactMap { try? FileLockThread.use(for: "/tmp/RunLoopKit.\($0)/lock") }
        #expect(uses.count == 100 && FileLockThread.count <= FileLockThread.most + 1)
        uses = []
        answers.fulfil(())
        use = nil
        #expect(try await hangs.value)
        // Other tests have locks too.
        while FileLockThread.count > 1 { try await Task.sleep(for: .milliseconds(1)) }
    }
}
