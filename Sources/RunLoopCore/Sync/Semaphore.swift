// SPDX-License-Identifier: MIT
import CRunLoopLinux
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

/// `RLBarrier`: how many threads it is for, and how many have arrived.
///
/// One word says who is in which group, so that more threads than `count` may arrive at once, and a thread belongs to its group from the
/// same step on in which it arrives. Threads of the next group may be woken for nothing.
struct Barrier: ~Copyable {
    let count: UInt32
    /// All that have ever arrived, modulo the greatest multiple of `count` that is no more than 2^32. Sequentially consistent: what each
    /// thread did before is seen by all threads after.
    let arrived: Atomic<UInt32>
}

extension UnsafeMutablePointer where Pointee == Barrier {
    /// True for the last one of a group to arrive.
    func wait() -> Bool {
        // There are not as many threads as a barrier for 0 waits for.
        let count = pointee.count == 0 ? .max : pointee.count
        let last = UInt32.max - (UInt32.max % count + 1) % count
        var place = pointee.arrived.load(ordering: .relaxed)
        var isPlaced = false
        while !isPlaced {
            (isPlaced, place) = pointee.arrived.weakCompareExchange(
                expected: place, desired: place == last ? 0 : place + 1, ordering: .sequentiallyConsistent)
        }
        let errno = rl_errno()
        defer { rl_set_errno(errno) }
        if place % count == count - 1 {
            pointee.arrived.futexWakeAll()
            return true
        }
        while true {
            let arrived = pointee.arrived.load(ordering: .acquiring)
            if arrived / count != place / count { return false }
            pointee.arrived.futexWait(while: arrived)
        }
    }
}
