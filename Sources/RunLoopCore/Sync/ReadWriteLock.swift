// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The part of `RLReadWriteLock` that is not inline.
///
/// While `writersWait` is set no reader gets the lock, so the readers that have it unlock, and the last of them wakes a writer. It
/// leaves the bits as they are: only another writer overtakes that one. A writer that unlocks clears all bits and wakes one writer and
/// all readers, and whichever is first gets the lock; a thread that finds the lock taken sets its bit again. So readers and writers
/// take turns. `readersWait` is never set without a writer that has the lock or waits.
struct ReadWriteWord: ~Copyable {
    /// The number of readers and the bits. Acquire to take, release to give back.
    let word: Atomic<UInt32>
    /// How often the process had been forked when a writer began to wait. Relaxed, ordered by `writersWait`.
    let generation: Atomic<UInt32>

    static var readers: UInt32 { 0x1fff_ffff }
    static var writer: UInt32 { 1 << 29 }
    static var readersWait: UInt32 { 1 << 30 }
    static var writersWait: UInt32 { 1 << 31 }
    static var waiters: UInt32 { readersWait | writersWait }
    static var inside: UInt32 { readers | writer }

    /// The futex's bits of sleepers.
    static var readerSleeps: UInt32 { 1 }
    static var writerSleeps: UInt32 { 2 }
}

extension UnsafeMutablePointer where Pointee == ReadWriteWord {
    /// False if the monotonic instant came first.
    func lockWord(writes: Bool, until deadline: Int64) -> Bool {
        let isKeptOutBy = writes ? ReadWriteWord.inside : ReadWriteWord.writer | ReadWriteWord.writersWait
        let waits = writes ? ReadWriteWord.writersWait : ReadWriteWord.readersWait
        // A writer that has slept does not know whether others sleep.
        var taken = writes ? ReadWriteWord.writer : 1
        var spins = deadline > 0 ? 40 : 0
        let errno = rl_errno()
        defer { rl_set_errno(errno) }
        while true {
            // Each time: a signal handler may fork while the thread sleeps.
            let generation = process.pointee.forkGeneration.load(ordering: .relaxed)
            var word = pointee.word.load(ordering: .acquiring)
            if !writes, word & isKeptOutBy == ReadWriteWord.writersWait,
                pointee.generation.load(ordering: .relaxed) != generation
            {
                // In the child of `fork`: those that waited at the fork do not exist here.
                letOthersIn()
                continue
            }
            if word & isKeptOutBy == 0 {
                let desired = writes ? word | taken : word + taken
                if pointee.word.weakCompareExchange(expected: word, desired: desired, ordering: .acquiring).exchanged { return true }
                continue
            }
            if spins > 0 && word & ReadWriteWord.waiters == 0 {
                spins -= 1
                rl_pause()
                continue
            }
            if deadline != .max && Clock.now() >= deadline {
                if writes && deadline > 0 { letOthersIn(taken) }
                return false
            }
            if writes { pointee.generation.store(generation, ordering: .relaxed) }
            if word & waits == 0 {
                guard pointee.word.weakCompareExchange(expected: word, desired: word | waits, ordering: .releasing).exchanged else {
                    continue
                }
                word |= waits
            }
            sleep(while: word, until: deadline, as: writes ? ReadWriteWord.writerSleeps : ReadWriteWord.readerSleeps)
            if writes { taken = ReadWriteWord.writer | ReadWriteWord.writersWait }
        }
    }

    private func sleep(while word: UInt32, until deadline: Int64, as bits: UInt32) {
        if deadline == .max {
            _ = rl_futex_wait_bits(self, word, nil, bits)
        } else {
            var time = timespec(nanoseconds: deadline)
            _ = rl_futex_wait_bits(self, word, &time, bits)
        }
    }

    /// After an unlock that found waiters; `word` is what a writer's unlock found, 0 after the last reader's.
    func wake(_ word: UInt32) {
        let errno = rl_errno()
        if word & ReadWriteWord.writer != 0 {
            // The memory may be gone already, see `wakeOne`.
            wakeSleepers(word)
        } else if rl_futex_wake_bits(self, 1, ReadWriteWord.writerSleeps) == 0 {
            // No writer sleeps: each is about to look, or has given up.
            letOthersIn()
        }
        rl_set_errno(errno)
    }

    /// A thread that still waits sets its bit again. One that has slept may have been woken alone, and its bits cleared: `known` has the
    /// bit of the writers for it, which then wakes the next one.
    private func letOthersIn(_ known: UInt32 = 0) {
        wakeSleepers(pointee.word.bitwiseAnd(~ReadWriteWord.waiters, ordering: .relaxed).oldValue | known)
    }

    private func wakeSleepers(_ word: UInt32) {
        if word & ReadWriteWord.writersWait != 0 { _ = rl_futex_wake_bits(self, 1, ReadWriteWord.writerSleeps) }
        if word & ReadWriteWord.readersWait != 0 { _ = rl_futex_wake_bits(self, .max, ReadWriteWord.readerSleeps) }
    }
}
