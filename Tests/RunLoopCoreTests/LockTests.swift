// SPDX-License-Identifier: MIT
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

    @Test("One thread at a time is inside, also when the bias is taken from an owner who is: S-THR-1, S-THR-4",
          arguments: [1, 2, 3])
    func exclusion(foreigners: Int) {
        withLock { lock in
            let rounds = 200
            let shared = Shared(lock)
            let room = Room()
            let threads = (0..<foreigners).map { _ in
                CoreThread {
                    for _ in 0..<rounds {
                        // Comes when the owner has the bias, which is what makes it hard.
                        while process.pointee.canBias.load(ordering: .relaxed)
                            && shared.lock.pointee.bias.load(ordering: .relaxed) == 0
                        {
                            yieldProcessor()
                        }
                        shared.lock.pointee.lock(owner: false)
                        room.visit()
                        shared.lock.pointee.unlock(owner: false)
                        room.rounds.add(1, ordering: .relaxed)
                    }
                }
            }
            var visits = 0
            while room.rounds.load(ordering: .relaxed) < foreigners * rounds {
                lock.pointee.lock(owner: true)
                room.visit()
                lock.pointee.unlock(owner: true)
                visits += 1
            }
            for thread in threads { thread.join() }
            #expect(room.collisions.load(ordering: .relaxed) == 0)
            #expect(room.visits == visits + foreigners * rounds)
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

    /// Where only one may be at a time.
    private final class Room: @unchecked Sendable {
        // Sendable: the lock under test is to guard `visits`; that is what the test finds out.
        private(set) var visits = 0
        let collisions = Atomic(0)
        let rounds = Atomic(0)
        private let occupants = Atomic(0)

        /// Stays for a moment, long enough to be met.
        func visit() {
            if occupants.add(1, ordering: .relaxed).newValue != 1 { collisions.add(1, ordering: .relaxed) }
            for _ in 0..<50 where occupants.load(ordering: .relaxed) != 1 { collisions.add(1, ordering: .relaxed) }
            visits += 1
            occupants.subtract(1, ordering: .relaxed)
        }
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
