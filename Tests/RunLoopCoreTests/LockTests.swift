@testable import RunLoopCore
import Synchronization
import Testing

/// The lock that is biased to a loop's own thread.
@Suite struct LockTests {
    @Test("The zero value is a free lock, for the owner and for others: S-THR-1")
    func free() {
        withLock { lock in
            lock.pointee.lock(owner: true)
            lock.pointee.unlock(owner: true)
            lock.pointee.lock(owner: false)
            lock.pointee.unlock(owner: false)
            #expect(lock.pointee.word.load(ordering: .relaxed) == 0)
        }
    }

    @Test("The owner gets the bias when no other thread comes, and loses it when one does: S-THR-1")
    func bias() {
        withLock { lock in
            for _ in 0..<300 {
                lock.pointee.lock(owner: true)
                lock.pointee.unlock(owner: true)
            }
            #expect(lock.pointee.bias.load(ordering: .relaxed) == (process.pointee.canBias.load(ordering: .relaxed) ? 1 : 0))
            let shared = Shared(lock)
            CoreThread {
                shared.lock.pointee.lock(owner: false)
                shared.lock.pointee.unlock(owner: false)
            }.join()
            #expect(lock.pointee.bias.load(ordering: .relaxed) == 0)
            lock.pointee.lock(owner: true)
            lock.pointee.unlock(owner: true)
            #expect(lock.pointee.word.load(ordering: .relaxed) == 0)
        }
    }

    @Test("One thread at a time is inside, whoever comes: S-THR-1, S-THR-4", arguments: [1, 2, 3])
    func exclusion(foreigners: Int) {
        withLock { lock in
            let rounds = 2000
            let shared = Shared(lock)
            let counter = Counter()
            let threads = (0..<foreigners).map { _ in
                CoreThread {
                    for round in 0..<rounds {
                        shared.lock.pointee.lock(owner: false)
                        counter.increment()
                        shared.lock.pointee.unlock(owner: false)
                        // Gives the owner time to get its bias back now and then.
                        if round % 64 == 0 { for _ in 0..<200 { yieldProcessor() } }
                    }
                }
            }
            for _ in 0..<rounds * 20 {
                lock.pointee.lock(owner: true)
                counter.increment()
                lock.pointee.unlock(owner: true)
            }
            for thread in threads { thread.join() }
            #expect(counter.value == rounds * 20 + rounds * foreigners)
        }
    }

    @Test("A lock that was held across fork is free in the child: S-FORK-1")
    func reset() {
        withLock { lock in
            lock.pointee.lock(owner: false)
            lock.pointee.resetInChild()
            lock.pointee.lock(owner: true)
            lock.pointee.unlock(owner: true)
            #expect(lock.pointee.word.load(ordering: .relaxed) == 0)
        }
    }

    /// A number that is right only if increments exclude each other.
    private final class Counter: @unchecked Sendable {
        // Sendable: the lock under test is to guard it; that is what the test finds out.
        private(set) var value = 0
        func increment() { value += 1 }
    }

    private struct Shared: @unchecked Sendable {
        // Sendable: the lock is made for several threads, which the test joins before the lock goes.
        let lock: UnsafeMutablePointer<Lock>
        init(_ lock: UnsafeMutablePointer<Lock>) { self.lock = lock }
    }

    private func withLock(_ body: (UnsafeMutablePointer<Lock>) -> Void) {
        let lock = makeRecord(Lock.self)
        body(lock)
        freeRecord(lock)
    }
}
