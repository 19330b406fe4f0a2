// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A lock that costs its owner, the loop's own thread, two plain stores, and every other thread a futex mutex.
///
/// `word` is the mutex: 0 free, 1 held, 2 held with sleepers. While `bias` is 1 the owner does not take the mutex but
/// only sets `inside`. A foreign thread takes the mutex, clears `bias`, makes the owner's processor see that with
/// membarrier(2), and waits until `inside` is 0; from then on owner and foreigners share the mutex, until the owner has
/// taken it `calmLimit` times with no foreigner in between and takes the bias back.
///
/// Why the owner needs no fence: membarrier puts a full one into the owner's instruction stream. Either the owner's
/// store to `inside` comes before it, and the foreigner sees it and waits, or the owner's second look at `bias` comes
/// after it, and the owner goes to the mutex. The same holds at the end: the owner clears `inside`, then looks at `bias`,
/// and wakes the foreigner if the bias was cleared.
///
/// No client code runs under it. The zero value is a free lock.
struct Lock: ~Copyable {
    /// The mutex. Taken with acquire, released with release.
    let word: Atomic<UInt32>
    /// 1: the owner may enter by `inside` alone. Set by the owner under `word`, cleared by a foreigner under `word`.
    let bias: Atomic<UInt32>
    /// 1 while the owner is in by bias. Written by the owner only.
    let inside: Atomic<UInt32>
    /// How often the owner took the mutex since a foreigner last did. Guarded by `word`.
    let calm: Atomic<UInt32>

    /// A free lock, for a record that is not made of zeroes.
    static func free() -> Lock {
        Lock(word: Atomic(0), bias: Atomic(0), inside: Atomic(0), calm: Atomic(0))
    }

    private static var calmLimit: UInt32 { 256 }

    /// Takes the lock. `owner` tells whether the caller is the thread the lock is biased to.
    @inline(always)
    func lock(owner: Bool) {
        if owner {
            if bias.load(ordering: .relaxed) == 1 {
                inside.store(1, ordering: .relaxed)
                rl_compiler_barrier()
                if bias.load(ordering: .acquiring) == 1 { return }
                leave()
            }
            lockByOwner()
        } else {
            lockByForeigner()
        }
    }

    @inline(always)
    func unlock(owner: Bool) {
        if owner && inside.load(ordering: .relaxed) == 1 {
            leave()
        } else {
            unlockShared()
        }
    }

    @inline(never)
    private func unlockShared() { unlockWord() }

    @inline(always)
    private func leave() {
        inside.store(0, ordering: .releasing)
        rl_compiler_barrier()
        if bias.load(ordering: .relaxed) == 0 { wakeForeigner() }
    }

    @inline(never)
    private func wakeForeigner() { inside.futexWakeOne() }

    @inline(never)
    private func lockByOwner() {
        lockWord()
        let count = calm.load(ordering: .relaxed) &+ 1
        calm.store(count, ordering: .relaxed)
        if count >= Lock.calmLimit && process.pointee.canBias.load(ordering: .relaxed) {
            bias.store(1, ordering: .releasing)
        }
    }

    @inline(never)
    private func lockByForeigner() {
        lockWord()
        calm.store(0, ordering: .relaxed)
        guard bias.load(ordering: .relaxed) == 1 else { return }
        bias.store(0, ordering: .sequentiallyConsistent)
        fenceOtherThreads()
        while inside.load(ordering: .acquiring) == 1 {
            inside.futexWait(while: 1)
        }
    }

    /// Takes the lock for an owner that gives up its bias, because its thread ends. Foreign threads then need no fence under the next owner.
    func lockByLeavingOwner() {
        lockWord()
        // The next thread that takes the mutex sees what the owner did under its bias.
        bias.store(0, ordering: .relaxed)
        calm.store(0, ordering: .relaxed)
    }

    /// The plain mutex, for locks that have no owner.
    func lockWord() {
        if word.compareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged { return }
        waitForWord()
    }

    // Not inlined: each of the many places that take a lock would get a copy.
    @inline(never)
    private func waitForWord() {
        for _ in 0..<40 {
            rl_pause()
            if word.compareExchange(expected: 0, desired: 1, ordering: .acquiring).exchanged { return }
        }
        while word.exchange(2, ordering: .acquiring) != 0 {
            word.futexWait(while: 2)
        }
    }

    func unlockWord() {
        if word.exchange(0, ordering: .releasing) == 2 { word.futexWakeOne() }
    }

    /// Makes the lock free and unbiased, because the thread that held it does not exist in the child of `fork`.
    func resetInChild() {
        word.store(0, ordering: .relaxed)
        bias.store(0, ordering: .relaxed)
        inside.store(0, ordering: .relaxed)
        calm.store(0, ordering: .relaxed)
    }

    /// Lets the owner have the bias at its first use; for a lock that has just got a new owner.
    func expectOwner() {
        calm.store(Lock.calmLimit, ordering: .relaxed)
    }
}

/// Waits for another thread that is in the middle of a few instructions, if nothing signals that it has finished them. It sleeps and
/// does not yield: a thread with a real-time priority that yields lets no thread of lower priority run on its processor.
struct GivingWay {
    private var turns = 0

    @inline(never)
    mutating func giveWay() {
        turns += 1
        if turns <= 40 { return rl_pause() }
        var time = timespec(tv_sec: 0, tv_nsec: 50_000)
        _ = rl_sys_nanosleep(&time)
    }
}

/// Finds out whether membarrier(2) is available.
func registerBarrier() {
    let isThere = rl_membarrier_register() == 0
    if isThere { process.pointee.couldBias.store(true, ordering: .relaxed) }
    process.pointee.canBias.store(isThere, ordering: .relaxed)
}

/// Puts a full fence into the instruction streams of all other threads of the process.
func fenceOtherThreads() {
    if rl_membarrier() != 0 { fenceOtherThreadsByWaiting() }
}

/// The kernel refuses membarrier(2): it always did, or a filter of system calls that was installed after the load forbids it. In the
/// second case a thread may hold a lock by its bias: its stores leave its processor's buffer well within this sleep, and no
/// thread gets a bias any more.
@inline(never)
private func fenceOtherThreadsByWaiting() {
    guard process.pointee.couldBias.load(ordering: .relaxed) else { return }
    process.pointee.canBias.store(false, ordering: .sequentiallyConsistent)
    var time = timespec(tv_sec: 0, tv_nsec: 1_000_000)
    _ = rl_sys_nanosleep(&time)
}

/// A lock that many places take, most of them seldom: they call functions, so that the exchange is there once.
struct SharedLock: ~Copyable {
    private let lock: Lock

    @inline(never)
    func lockWord() { lock.lockWord() }

    @inline(never)
    func unlockWord() { lock.unlockWord() }

    /// Where each object is made and ends: without the calls.
    @inline(always)
    func lockWordHere() { lock.lockWord() }

    @inline(always)
    func unlockWordHere() { lock.unlockWord() }

    func resetInChild() { lock.resetInChild() }
}
