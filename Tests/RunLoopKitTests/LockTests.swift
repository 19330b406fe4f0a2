// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// A number that only its lock protects, which the thread sanitizer looks at.
// Sendable: whoever touches the number holds the lock.
final class Unguarded: @unchecked Sendable {
    var number = 0
}

/// The locks with Foundation's names.
@Suite(.timeLimit(.minutes(10))) struct LockTests {
    /// Two threads count with the lock.
    private func count(with lock: some Locking & Sendable) -> Int {
        let counter = Unguarded()
        let threads = (0..<2).map { _ in
            TestThread { for _ in 0..<5000 { lock.withLock { counter.number += 1 } } }
        }
        for thread in threads { thread.join() }
        return counter.number
    }

    @Test("Each of the locks lets one thread in at a time, and shows it what the ones before did: S-NSLK-1 S-SYNC-5 S-SYNC-8")
    func exclusive() {
        #expect(count(with: NSLock()) == 10_000)
        #expect(count(with: NSRecursiveLock()) == 10_000)
        #expect(count(with: NSCondition()) == 10_000)
        #expect(count(with: NSConditionLock(condition: 3)) == 10_000)
    }

    @Test("What another thread holds is not taken by try, nor before a date, and is as soon as it is free: S-NSLK-1 S-SYNC-4")
    func attempts() {
        let lock = NSLock()
        #expect(lock.try())
        let isTaken = onNewThread {
            lock.try() || lock.lock(before: .distantPast) || lock.lock(before: .now + .milliseconds(5))
        }
        #expect(!isTaken)
        let waiter = TestThread {
            defer { lock.unlock() }
            return lock.lock(before: .distantFuture)
        }
        lock.unlock()
        #expect(waiter.join())
        // Free again, for a single attempt too.
        #expect(lock.lock(before: .distantPast))
        lock.unlock()
    }

    @Test("The holder of a lock may try it, in vain: S-NSLK-1")
    func heldByCaller() {
        let lock = NSLock()
        lock.lock()
        #expect(!lock.try() && !lock.lock(before: .now + .milliseconds(1)))
        lock.unlock()
        let condition = NSConditionLock(condition: 1)
        condition.lock()
        #expect(!condition.try() && !condition.tryLock(whenCondition: 1) && !condition.lock(whenCondition: 1, before: .distantPast))
        condition.unlock()
    }

    @Test("A lock has no name until it is given one: S-NSLK-1")
    func names() {
        let locks = (NSLock(), NSRecursiveLock(), NSCondition(), NSConditionLock())
        #expect(locks.0.name == nil && locks.1.name == nil && locks.2.name == nil && locks.3.name == nil)
        locks.0.name = nil
        #expect(locks.0.name == nil)
        locks.0.name = "first"
        locks.0.name = "second"
        locks.3.name = "third"
        #expect(locks.0.name == "second" && locks.3.name == "third" && locks.1.name == nil)
        locks.0.name = nil
        #expect(locks.0.name == nil)
    }

    @Test("A recursive lock is its holder's until as many unlocks, by try and with a limit too: S-NSLK-1 S-SYNC-10")
    func recursive() {
        let lock = NSRecursiveLock()
        lock.lock()
        #expect(lock.try() && lock.lock(before: .distantPast))
        for _ in 0..<3 {
            #expect(!onNewThread { lock.try() })
            lock.unlock()
        }
        #expect(
            onNewThread {
                defer { lock.unlock() }
                return lock.try()
            })
    }

    @Test("A lock is given back when the closure throws: S-NSLK-3")
    func throwing() {
        struct Failure: Error {}
        let lock = NSLock()
        #expect(throws: Failure.self) { try lock.withLock { throw Failure() } }
        #expect(lock.withLock { 5 } == 5)
        let guarded = Guarded(1)
        #expect(throws: Failure.self) { try guarded.withLock { _ throws(Failure) in throw Failure() } }
        let readWrite = ReadWrite(1)
        #expect(throws: Failure.self) { try readWrite.withReadLock { _ throws(Failure) in throw Failure() } }
        #expect(throws: Failure.self) { try readWrite.withWriteLock { _ throws(Failure) in throw Failure() } }
        #expect(guarded.withLock { $0 } == 1)
        #expect(readWrite.withWriteLock { $0 } == 1)
    }

    @Test("A wait ends by a signal, by a broadcast, or at its date, with the lock held: S-NSLK-1 S-SYNC-13 S-SYNC-14")
    func condition() {
        let condition = NSCondition()
        let state = Unguarded()
        condition.lock()
        #expect(!condition.wait(until: .distantPast) && !condition.wait(until: .now + .milliseconds(5)))
        let consumers = (0..<3).map { _ in
            TestThread {
                condition.lock()
                defer { condition.unlock() }
                while state.number == 0 { condition.wait() }
                state.number -= 1
            }
        }
        for _ in 0..<2 {
            state.number += 1
            condition.signal()
        }
        condition.unlock()
        condition.withLock {
            state.number += 1
            condition.broadcast()
        }
        for consumer in consumers { consumer.join() }
        #expect(condition.withLock { state.number } == 0)
    }

    @Test("A producer and a consumer take turns by the number of a condition lock: S-NSLK-1 S-SYNC-15 S-SYNC-16")
    func conditionLock() {
        let lock = NSConditionLock(condition: 0)
        #expect(NSConditionLock().condition == 0)
        let shelf = Unguarded()
        let producer = TestThread {
            for number in 1...1000 {
                lock.lock(whenCondition: 0)
                shelf.number = number
                lock.unlock(withCondition: 1)
            }
        }
        var sum = 0
        for _ in 1...1000 {
            while !lock.lock(whenCondition: 1, before: .now + .seconds(30)) {}
            sum += shelf.number
            lock.unlock(withCondition: 0)
        }
        producer.join()
        #expect(sum == 500_500)
        #expect(!lock.tryLock(whenCondition: 7) && !lock.lock(whenCondition: 7, before: .now + .milliseconds(2)))
        #expect(lock.tryLock(whenCondition: 0) && !lock.try())
        lock.unlock(withCondition: 7)
        #expect(lock.condition == 7)
        #expect(lock.lock(before: .distantPast))
        lock.unlock()
        #expect(lock.condition == 7)
    }

    @Test("A lock in an object may be a subclass's, which is asked in its place: S-NSLK-1")
    func subclass() {
        final class Counting: NSLock, @unchecked Sendable {
            var locks = 0
            override func lock() {
                super.lock()
                locks += 1
            }
        }
        let lock = Counting()
        for _ in 0..<3 { lock.withLock {} }
        #expect(lock.withLock { lock.locks } == 4)
    }
}

/// What would block a thread with a loop.
@Suite(.timeLimit(.minutes(10))) struct LoopingLockTests {
    @Test("A wait in a mode serves timers and awaited closures until it is signalled: S-NSLK-4 S-SYNC-22")
    func waitInMode() {
        let seen = onNewThread {
            let condition = NSCondition()
            let state = Unguarded()
            let trace = Trace()
            let loop = RunLoop.current
            // A timer of this thread's loop is what lets the other thread signal.
            let fired = Promise<Void>()
            loop.add(
                Timer(timeInterval: .milliseconds(1), repeats: false) { _ in
                    trace.add("timer")
                    // The lock is not held during the run, and may be signalled in it.
                    condition.withLock { condition.signal() }
                    fired.fulfil(())
                }, forMode: .default)
            let other = TestThread {
                fired.value
                // It comes here although the thread that would have to answer waits.
                condition.withLock {
                    state.number = 1
                    condition.signal()
                }
            }
            condition.lock()
            while state.number == 0 { _ = condition.wait(inMode: .default, until: .now + .seconds(60)) }
            condition.unlock()
            other.join()
            condition.lock()
            let isSignalled = condition.wait(inMode: .common, until: .distantPast)
            condition.unlock()
            return trace.all + ["\(isSignalled)"]
        }
        #expect(seen == ["timer", "false"])
    }

    @Test("Closures that are awaited go on being called in such a wait, also in one that began in such a closure: S-NSLK-4")
    func awaitedClosures() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let condition = NSCondition()
        let state = Unguarded()
        let loop = thread.loop
        async let waited: Bool = loop.call {
            condition.lock()
            defer { condition.unlock() }
            while state.number == 0 { _ = condition.wait(inMode: .default) }
            return true
        }
        async let set: Void = loop.call { condition.withLock { state.number = 1 }; condition.signal() }
        #expect(try await waited)
        try await set
        await thread.finish()
    }

    @Test("A lock is taken at once where it is free, and by running the loop where it is not: S-NSLK-4 S-SYNC-23")
    func lockInMode() {
        let lock = NSLock()
        let fires = onNewThread {
            let trace = Trace()
            guard lock.lock(inMode: .default, before: .distantPast) else { return -1 }
            lock.unlock()
            let isHeld = Promise<Void>()
            let mayUnlock = Promise<Void>()
            let holder = TestThread {
                lock.withLock {
                    isHeld.fulfil(())
                    mayUnlock.value
                }
            }
            isHeld.value
            RunLoop.current.add(
                Timer(timeInterval: .milliseconds(1), repeats: false) { _ in
                    trace.add("timer")
                    mayUnlock.fulfil(())
                }, forMode: .default)
            if lock.lock(inMode: .default, before: .distantPast) { return -2 }
            guard lock.lock(inMode: .default) else { return -3 }
            lock.unlock()
            holder.join()
            return trace.count
        }
        #expect(fires == 1)
    }
}

#if DEBUG
/// Hangs end well, which the tests below do not expect.
private func endSoon() {
    signal(SIGALRM) { _ in _exit(0) }
    alarm(20)
}

/// What would hang or go wrong is stopped in a debug build.
@Suite(.timeLimit(.minutes(10))) struct LockMisuseTests {
    @Test("Locking what the thread holds, without a limit, stops the program: S-NSLK-2 S-SYNC-7")
    func relock() async {
        await #expect(processExitsWith: .failure) {
            endSoon()
            onNewThread {
                let lock = NSLock()
                lock.lock()
                lock.lock()
            }
        }
        await #expect(processExitsWith: .failure) {
            endSoon()
            onNewThread {
                let guarded = Guarded(0)
                guarded.withLock { _ in guarded.withLock { _ in } }
            }
        }
        await #expect(processExitsWith: .failure) {
            endSoon()
            onNewThread {
                let lock = NSConditionLock(condition: 0)
                lock.lock()
                lock.lock(whenCondition: 0)
            }
        }
        await #expect(processExitsWith: .failure) {
            endSoon()
            onNewThread {
                let lock = NSLock()
                lock.lock()
                _ = lock.lock(inMode: .default)
            }
        }
    }

    @Test("Unlocking what is free, or another thread's, stops the program: S-NSLK-2 S-SYNC-7")
    func unlock() async {
        await #expect(processExitsWith: .failure) { onNewThread { NSLock().unlock() } }
        await #expect(processExitsWith: .failure) {
            onNewThread {
                let lock = NSLock()
                lock.lock()
                onNewThread { lock.unlock() }
            }
        }
        await #expect(processExitsWith: .failure) {
            onNewThread {
                let lock = NSRecursiveLock()
                lock.lock()
                onNewThread { lock.unlock() }
            }
        }
        await #expect(processExitsWith: .failure) {
            onNewThread {
                let lock = NSConditionLock(condition: 0)
                lock.lock()
                onNewThread { lock.unlock(withCondition: 1) }
            }
        }
        // After a wait, and after it was taken in a run, the lock is the thread's as before.
        await #expect(processExitsWith: .success) {
            onNewThread {
                let condition = NSCondition()
                condition.lock()
                _ = condition.wait(until: .distantPast)
                _ = condition.wait(inMode: .default, until: .distantPast)
                condition.unlock()
            }
        }
    }

    @Test("Waiting for a condition without its lock stops the program: S-NSLK-2 S-SYNC-7")
    func wait() async {
        await #expect(processExitsWith: .failure) { onNewThread { _ = NSCondition().wait(until: .distantPast) } }
        await #expect(processExitsWith: .failure) {
            onNewThread {
                let condition = NSCondition()
                condition.lock()
                onNewThread { _ = condition.wait(until: .distantPast) }
            }
        }
    }
}
#endif
