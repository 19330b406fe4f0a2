// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Locks that are values.
@Suite(.timeLimit(.minutes(10))) struct GuardedTests {
    /// Values that lie in an object.
    private final class Shared: Sendable {
        let counter = Guarded(0)
        let table = ReadWrite<[Int]>([])
        let setUp = Once()
    }

    @Test("A guarded value is one thread's at a time: S-NSLK-5 S-SYNC-8")
    func guarded() {
        let shared = Shared()
        let threads = (0..<2).map { _ in TestThread { for _ in 0..<5000 { shared.counter.withLock { $0 += 1 } } } }
        for thread in threads { thread.join() }
        #expect(shared.counter.withLock { $0 } == 10_000)
    }

    @Test("A guarded value that another thread has is not given out by an attempt, nor after a limit: S-NSLK-5 S-SYNC-4")
    func attempts() {
        let shared = Shared()
        let (isHeld, mayEnd) = (Promise<Void>(), Promise<Void>())
        let holder = TestThread {
            shared.counter.withLock { _ in
                isHeld.fulfil(())
                mayEnd.value
            }
        }
        isHeld.value
        #expect(shared.counter.withLockIfAvailable { $0 } == nil)
        #expect(onNewThread { shared.counter.withLock(before: .now + .milliseconds(2)) { $0 } } == nil)
        mayEnd.fulfil(())
        #expect(onNewThread { shared.counter.withLock(before: .distantFuture) { $0 } } == 0)
        holder.join()
        #expect(shared.counter.withLockIfAvailable { $0 } == 0)
    }

    @Test("A value that cannot be copied may be guarded, is used in place, and dies with its guard: S-NSLK-5")
    func noncopyable() {
        struct Handle: ~Copyable {
            var uses = 0
            let captured: Canary.Captured
            init(_ captured: Canary.Captured) { self.captured = captured }
        }
        let canary = Canary()
        func use() -> Int {
            let guarded = Guarded(Handle(canary.capture()))
            guarded.withLock { $0.uses += 1 }
            #expect(canary.deaths == 0)
            return guarded.withLock { $0.uses }
        }
        #expect(use() == 1)
        #expect(canary.deaths == 1)
    }

    @Test("Lock and value take the place that they need, and no memory besides: S-NSLK-5 S-SYNC-1")
    func sizes() {
        #expect(MemoryLayout<Guarded<Int>>.size == 16 && MemoryLayout<ReadWrite<Int>>.size == 16 && MemoryLayout<Once>.size == 4)
    }

    @Test("Readers come in beside each other, a writer alone: S-NSLK-6 S-SYNC-11")
    func readersAndWriters() {
        let shared = Shared()
        let (first, second) = (Promise<Void>(), Promise<Void>())
        // Each reader ends when the other has come in.
        let readers = [(first, second), (second, first)].map { mine, other in
            TestThread {
                shared.table.withReadLock { table in
                    mine.fulfil(())
                    other.value
                    return table.count
                }
            }
        }
        #expect(readers.map { $0.join() } == [0, 0])
        let threads = (0..<3).map { thread in
            TestThread {
                for number in 0..<500 {
                    if thread == 0 {
                        shared.table.withWriteLock { table in
                            table.append(number)
                            table.append(number)
                        }
                    } else if shared.table.withReadLock({ $0.count }) % 2 != 0 {
                        return false
                    }
                }
                return true
            }
        }
        #expect(threads.allSatisfy { $0.join() })
        #expect(shared.table.withReadLock { $0.count } == 1000)
    }

    @Test("A writer waits for a reader until its limit: S-NSLK-6 S-SYNC-4")
    func limits() {
        let shared = Shared()
        shared.table.withReadLock { _ in
            #expect(onNewThread { shared.table.withWriteLock(before: .now + .milliseconds(2)) { $0.count } } == nil)
            #expect(onNewThread { shared.table.withReadLock(before: .distantPast) { $0.count } } == 0)
        }
        shared.table.withWriteLock { _ in
            #expect(onNewThread { shared.table.withReadLock(before: .distantPast) { $0.count } } == nil)
        }
        #expect(onNewThread { shared.table.withWriteLock(before: .distantPast) { $0.count } } == 0)
    }

    @Test("Of many that call at once one does it, and the others return when it is done: S-NSLK-7 S-SYNC-17")
    func once() {
        for _ in 0..<100 {
            let shared = Shared()
            let threads = (0..<3).map { _ in
                TestThread {
                    shared.setUp.call { shared.counter.withLock { $0 += 1 } }
                    return shared.counter.withLock { $0 }
                }
            }
            #expect(threads.map { $0.join() } == [1, 1, 1])
        }
    }

    @Test("A closure that ends its thread was not called: S-NSLK-7 S-SYNC-17")
    func onceThatEndsItsThread() {
        let shared = Shared()
        let ended = NSCondition()
        let isEnding = Unguarded()
        Thread.detachNewThread {
            shared.setUp.call {
                ended.withLock {
                    isEnding.number = 1
                    ended.signal()
                }
                Thread.exit()
            }
        }
        ended.lock()
        while isEnding.number == 0 { ended.wait() }
        ended.unlock()
        // Waits until the thread has ended, and does it anew.
        shared.setUp.call { shared.counter.withLock { $0 = 7 } }
        #expect(shared.counter.withLock { $0 } == 7)
        shared.setUp.call { shared.counter.withLock { $0 = 8 } }
        #expect(shared.counter.withLock { $0 } == 7)
    }
}
