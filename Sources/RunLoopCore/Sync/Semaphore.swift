// SPDX-License-Identifier: MIT
import CLinux
import CRunLoop
import Synchronization

/// `RLSemaphore`: the count in the lower half of a word and the number of waiters in the upper one, so that the signal which lets a
/// waiter go on learns in the same step whether to wake one, and does not need the memory after it.
struct Semaphore: ~Copyable {
    /// Acquire to take, release to signal.
    let state: Atomic<UInt64>

    static var waiter: UInt64 { 1 << 32 }
}

extension UnsafePointer where Pointee == Semaphore {
    /// The count is what a futex can wait for.
    var count: UnsafeRawPointer { UnsafeRawPointer(self) + (1.littleEndian == 1 ? 0 : 4) }
}

extension UnsafeMutablePointer where Pointee == Semaphore {
    private var count: UnsafeRawPointer { UnsafePointer(self).count }

    /// False if the monotonic instant came first.
    func wait(until deadline: Int64) -> Bool {
        let errno = rl_errno()
        defer { rl_set_errno(errno) }
        var state = pointee.state.wrappingAdd(Semaphore.waiter, ordering: .relaxed).newValue
        while true {
            let isOver = deadline != .max && Clock.now() >= deadline
            while UInt32(truncatingIfNeeded: state) != 0 || isOver {
                let isTaken = UInt32(truncatingIfNeeded: state) != 0
                let (exchanged, original) = pointee.state.weakCompareExchange(
                    expected: state, desired: state - Semaphore.waiter - (isTaken ? 1 : 0), ordering: .acquiring)
                if exchanged { return isTaken }
                state = original
            }
            if deadline == .max {
                _ = rl_futex_wait(count, 0, nil)
            } else {
                var time = timespec(nanoseconds: deadline)
                _ = rl_futex_wait(count, 0, &time)
            }
            state = pointee.state.load(ordering: .relaxed)
        }
    }
}

/// `RLBarrier`: how many threads it is for, how many have arrived, and a number that changes when they go on.
struct Barrier: ~Copyable {
    let count: UInt32
    /// Sequentially consistent: what each thread did before is seen by all threads after.
    let arrived: Atomic<UInt32>
    let round: Atomic<UInt32>
}

extension UnsafeMutablePointer where Pointee == Barrier {
    /// True for the last one to arrive.
    func wait() -> Bool {
        let round = pointee.round.load(ordering: .sequentiallyConsistent)
        if pointee.arrived.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue == pointee.count {
            pointee.arrived.store(0, ordering: .relaxed)
            pointee.round.wrappingAdd(1, ordering: .sequentiallyConsistent)
            let errno = rl_errno()
            pointee.round.futexWakeAll()
            rl_set_errno(errno)
            return true
        }
        let errno = rl_errno()
        while pointee.round.load(ordering: .acquiring) == round { pointee.round.futexWait(while: round) }
        rl_set_errno(errno)
        return false
    }
}
