// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// `RLCondition`: its lock, and a futex that waiters sleep on.
///
/// A waiter reads `sequence` before it unlocks, and sleeps only while that has not changed; so a signal by a thread that locked after
/// it is not lost. What waiters look for is guarded by the lock, which orders all else.
struct Condition: ~Copyable {
    let lock: SyncWord
    let owner: UInt32
    /// Relaxed: the futex compares it.
    let sequence: Atomic<UInt32>
    /// How many threads may sleep. Raised under the lock; read by the signalling thread, which by the lock knows of the waiters that it has to wake.
    let waiters: Atomic<UInt32>
}

typealias ConditionPointer = UnsafeMutablePointer<Condition>

extension UnsafeMutablePointer where Pointee == Condition {
    var mutex: SyncWordPointer { UnsafeMutableRawPointer(self).cast(to: SyncWord.self) }

    /// Unlocks, sleeps and does not lock again. False if the monotonic instant came first.
    func sleep(until deadline: Int64, bits: UInt32 = .max) -> Bool {
        let sequence = pointee.sequence.load(ordering: .relaxed)
        pointee.waiters.wrappingAdd(1, ordering: .relaxed)
        mutex.unlockWord()
        let errno = rl_errno()
        var time = timespec(nanoseconds: deadline)
        var result = EINTR
        // A signal handler that ran does not end the wait; what it has signalled changed the word.
        while result == EINTR {
            result = withUnsafePointer(to: pointee.sequence) { word in
                withUnsafePointer(to: &time) { rl_futex_wait_bits(word, sequence, deadline == .max ? nil : $0, bits) }
            }
        }
        rl_set_errno(errno)
        // Before the lock: its holder then makes no system call for this thread any more.
        pointee.waiters.wrappingSubtract(1, ordering: .relaxed)
        return result != ETIMEDOUT
    }

    func wake(_ count: Int32, bits: UInt32 = .max) {
        pointee.sequence.wrappingAdd(1, ordering: .relaxed)
        wakeSleepers(count, bits)
    }

    private func wakeSleepers(_ count: Int32, _ bits: UInt32) {
        let errno = rl_errno()
        let isNobody = withUnsafePointer(to: pointee.sequence) { rl_futex_wake_bits($0, count, bits) } == 0
        if isNobody || count > 1 { LoopWaiters.tell(sequenceAddress, count > 1 ? .all : .one) }
        rl_set_errno(errno)
    }

    /// The word by which waiters are notified.
    var sequenceAddress: UnsafeRawPointer { withUnsafePointer(to: pointee.sequence) { UnsafeRawPointer($0) } }

    /// The same for the holder, which unlocks before any thread is woken, and does not touch the memory after that.
    func unlockAndWake(_ count: Int32, bits: UInt32) {
        pointee.sequence.wrappingAdd(1, ordering: .relaxed)
        mutex.unlockWord()
        wakeSleepers(count, bits)
    }
}

/// `RLConditionLock`: a condition and the number that the threads wait for.
struct ConditionLock: ~Copyable {
    let condition: Condition
    /// Written by the holder, read by any thread; relaxed.
    let value: Atomic<Int>

    /// Which sleepers to wake for a number: each of the numbers 0 to 30 has a bit of its own, the others share one.
    static func bits(_ value: Int) -> UInt32 { 1 << UInt32(isAlone(value) ? value : 31) }
    static func isAlone(_ value: Int) -> Bool { 0 <= value && value < 31 }
}

extension UnsafeMutablePointer where Pointee == ConditionLock {
    private var condition: ConditionPointer { UnsafeMutableRawPointer(self).cast(to: Condition.self) }

    /// Locks it with the number. False, without the lock, if the monotonic instant came first.
    func lockWhen(_ value: Int, until deadline: Int64) -> Bool {
        var isInTime = true
        var wasWoken = false
        while condition.mutex.lockWord(until: deadline) {
            if pointee.value.load(ordering: .relaxed) == value { return true }
            if !isInTime || deadline == 0 {
                condition.mutex.unlockWord()
                return false
            }
            // A thread that was woken and comes too late looks once more: that wake-up was meant for one thread.
            isInTime = condition.sleep(until: deadline, bits: ConditionLock.bits(value))
            wasWoken = isInTime
        }
        // It goes to another thread: the one that has the lock may only look for a number, and wakes nobody when it gives it back.
        if wasWoken { condition.wake(1, bits: ConditionLock.bits(value)) }
        return false
    }

    /// Unlocks it and wakes threads that wait for the number: one, which unlocks in turn, or all that may be meant.
    func unlockAndWake() {
        let value = pointee.value.load(ordering: .relaxed)
        condition.unlockAndWake(ConditionLock.isAlone(value) ? 1 : .max, bits: ConditionLock.bits(value))
    }
}
