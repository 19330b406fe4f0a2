// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// What files that are compiled with `RL_CHECKS` check (S-SYNC-7).
///
/// The owner of a lock is written by its holder before the bit `known`, so a thread that finds the bit finds no earlier owner than that one.
struct CheckedLock: ~Copyable {
    let word: Atomic<UInt32>
    /// Half of the thread's number. Relaxed, ordered by `known`.
    let owner: Atomic<UInt32>
}

extension UnsafeMutablePointer where Pointee == CheckedLock {
    private var thisThread: UInt32 { UInt32(truncatingIfNeeded: RLThisThread_() >> 6) }

    /// Whether the word says that the lock is this thread's.
    private func isMine(_ word: UInt32) -> Bool {
        word & SyncWord.known != 0 && pointee.owner.load(ordering: .relaxed) == thisThread
    }

    func checkLock() {
        if isMine(pointee.word.load(ordering: .acquiring)) { trap("RLLockLock", "the calling thread holds the lock") }
    }

    func becomeMine() {
        pointee.owner.store(thisThread, ordering: .relaxed)
        pointee.word.bitwiseOr(SyncWord.known, ordering: .releasing)
    }

    func checkUnlock() {
        let word = pointee.word.load(ordering: .acquiring)
        if word & SyncWord.held == 0 { trap("RLLockUnlock", "the lock is not locked") }
        if word & SyncWord.known != 0 && !isMine(word) { trap("RLLockUnlock", "another thread holds the lock") }
    }
}
