// SPDX-License-Identifier: MIT
// What OSAtomic's functions become in Swift: a value of `Atomic`, which nobody can touch in any other way. The order is said at each use:
// `.relaxed` where OSAtomic has its plain form, `.sequentiallyConsistent` where it has Barrier; Examples/C/atomics.c is the same in C.
import RunLoopKit
import Synchronization

extension Atomic<UInt32> {
    /// OSAtomicTestAndSetBarrier: bit n is 0x80 >> (n & 7) of byte n >> 3.
    func testAndSet(_ bit: UInt32) -> Bool {
        let mask = ((UInt32(0x80) >> (bit & 7)) << ((bit >> 3) * 8)).littleEndian
        return bitwiseOr(mask, ordering: .sequentiallyConsistent).oldValue & mask != 0
    }

    /// OSAtomicCompareAndSwap32Barrier.
    func compareAndSwap(_ expected: UInt32, _ desired: UInt32) -> Bool {
        compareExchange(expected: expected, desired: desired, ordering: .sequentiallyConsistent).exchanged
    }
}

let value = Atomic<UInt32>(0)
for bit: UInt32 in [0, 7, 15] {
    value.store(0, ordering: .relaxed)
    let wasSet = value.testAndSet(bit)
    print("bit \(bit): \(value.load(ordering: .relaxed)), was set: \(wasSet)")
}
print("256 to 512: \(value.compareAndSwap(256, 512)), \(value.load(ordering: .relaxed))")
print("256 to 1024: \(value.compareAndSwap(256, 1024)), \(value.load(ordering: .relaxed))")

// OSAtomicAdd32 and OSAtomicIncrement32 give the new value.
let sum = Atomic(40)
print("sum: \(sum.add(1, ordering: .relaxed).newValue), \(sum.wrappingAdd(1, ordering: .relaxed).newValue)")

/// A count of references: whoever comes to zero sees what the others did.
final class Users: Sendable {
    private let count = Atomic(0)
    func begin() { count.add(1, ordering: .relaxed) }
    /// Whether this was the last one.
    func end() -> Bool { count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}

let (users, lasts, condition) = (Users(), Counter(), NSCondition())
final class Counter: Sendable { let value = Atomic(0) }
for _ in 0..<4 { users.begin() }
for _ in 0..<4 {
    Thread.detachNewThread {
        if users.end() { condition.withLock { _ = lasts.value.add(1, ordering: .relaxed) } }
        condition.broadcast()
    }
}
condition.lock()
while lasts.value.load(ordering: .relaxed) == 0 { condition.wait() }
condition.unlock()
print("last users: \(lasts.value.load(ordering: .relaxed))")

// OSSpinLock: a lock that sleeps. OSMemoryBarrier: atomicMemoryFence, which is seldom needed, since each operation says its order.
let guarded = Guarded(0)
guarded.withLock { $0 += 1 }
atomicMemoryFence(ordering: .sequentiallyConsistent)
print("guarded: \(guarded.withLock { $0 })")
