// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The word of a lock that lies in the program's memory: `RLLock`, `RLRecursiveLock`, the lock of a condition.
///
/// The inline functions of `lock.h` take it when it is free and give it back; waiting is here.
struct SyncWord: ~Copyable {
    /// Bits: `held`, `sleepers`: the unlocking thread wakes one, `known`: the owner is written beside it. 0: free. Acquire to take,
    /// release to give back.
    let word: Atomic<UInt32>

    static var held: UInt32 { 1 }
    static var sleepers: UInt32 { 2 }
    static var known: UInt32 { 4 }
}

typealias SyncWordPointer = UnsafeMutablePointer<SyncWord>

extension UnsafeMutablePointer where Pointee == SyncWord {
    /// False if the monotonic instant came first.
    @inline(never)
    func lockWord(until deadline: Int64 = .max) -> Bool {
        if tryLock() { return true }
        // Spins for about as long as a thread needs to fall asleep and to be woken; not if others sleep, which have waited longer.
        for _ in 0..<(deadline > 0 ? 40 : 0) {
            rl_pause()
            let word = pointee.word.load(ordering: .relaxed)
            if word == 0 && tryLock() { return true }
            if word & SyncWord.sleepers != 0 { break }
        }
        let errno = rl_errno()
        defer { rl_set_errno(errno) }
        while true {
            // Taken this way, the lock says that there are sleepers, because there may be another one; at worst that is a wake-up for nothing.
            let old = pointee.word.bitwiseOr(SyncWord.held | SyncWord.sleepers, ordering: .acquiring).oldValue
            if old & SyncWord.held == 0 { return true }
            if deadline != .max && Clock.now() >= deadline { return false }
            pointee.word.futexWait(while: old | SyncWord.sleepers, until: deadline)
        }
    }

    /// One attempt of a thread that waits in its loop; the releasing part is for the list that it is in.
    func takeAsSleeper() -> Bool {
        let old = pointee.word.bitwiseOr(SyncWord.held | SyncWord.sleepers, ordering: .acquiringAndReleasing).oldValue
        return old & SyncWord.held == 0
    }

    func tryLock() -> Bool {
        pointee.word.compareExchange(expected: 0, desired: SyncWord.held, ordering: .acquiring).exchanged
    }

    func unlockWord() {
        if pointee.word.exchange(0, ordering: .releasing) & SyncWord.sleepers != 0 { wakeOne(at: self) }
    }
}

/// The memory may be gone already: the kernel uses its address alone, and at worst wakes a thread that waits for another word
/// there, which looks again. If none sleeps, a thread that waits in its loop is notified.
func wakeOne(at word: UnsafeRawPointer) {
    if !wakeSleeper(at: word) { LoopWaiters.tell(word, .firstThatLooks) }
}

/// The same for words that no thread waits for in a loop. False if none slept. Async-signal-safe.
@discardableResult
func wakeSleeper(at word: UnsafeRawPointer) -> Bool {
    let errno = rl_errno()
    defer { rl_set_errno(errno) }
    return rl_futex_wake(word, 1) > 0
}

extension Clock {
    /// The monotonic instant so many seconds from now (S-SYNC-4); 0: one that is long past.
    static func deadline(in seconds: Double) -> Int64 {
        if seconds <= 0 { return 0 }
        // Also NaN.
        guard seconds <= longestInterval else { return never }
        return now() + nanoseconds(seconds)
    }
}
