// SPDX-License-Identifier: MIT
// The programs of the chapter on synchronisation in Apple's Threading Programming Guide, without Foundation: a lock that a working loop only
// tries, a function that locks again what it holds, a producer and a consumer with a condition lock, a condition, and the forms that
// are values. Atomic values are in Examples/Atomics, locks of POSIX in Examples/C/posix_locks.c.
import RunLoopKit

/// Does other work while another thread has the lock.
func workWithoutWaiting() {
    let lock = NSLock()
    let total = Guarded(0)
    var movedOn = 0
    for _ in 0..<100 {
        while !lock.try() { movedOn += 1 }
        total.withLock { $0 += 1 }
        lock.unlock()
    }
    print("tried: \(movedOn == 0 ? "at once" : "after other work"), \(total.withLock { $0 })")
}

let recursive = NSRecursiveLock()

func descend(_ depth: Int) {
    recursive.lock()
    defer { recursive.unlock() }
    if depth > 0 { descend(depth - 1) } else { print("recursive: 5 deep") }
}

/// A producer and a consumer take turns by the number of the lock.
func takeTurns() {
    let (noData, hasData) = (0, 1)
    let data = NSConditionLock(condition: noData)
    let number = Guarded(0)
    Thread.detachNewThread {
        for produced in 1...3 {
            data.lock(whenCondition: noData)
            number.withLock { $0 = produced }
            data.unlock(withCondition: hasData)
        }
    }
    for _ in 1...3 {
        data.lock(whenCondition: hasData)
        print("consumed \(number.withLock { $0 })")
        data.unlock(withCondition: noData)
    }
}

/// What the condition's lock guards.
// Sendable: whoever touches it holds the lock.
final class Work: @unchecked Sendable {
    let condition = NSCondition()
    var left = 0
}

/// The wait is in a loop: it may return without a signal, and another thread may have been faster.
func waitForWork() {
    let work = Work()
    Thread.detachNewThread {
        work.condition.lock()
        work.left += 1
        work.condition.signal()
        work.condition.unlock()
    }
    work.condition.lock()
    while work.left == 0 { work.condition.wait() }
    work.left -= 1
    work.condition.unlock()
    print("signalled")
}

/// The same on a thread whose loop has to go on: its timer fires during the wait.
func waitInMode() {
    let work = Work()
    Timer.scheduledTimer(withTimeInterval: .milliseconds(1), repeats: false) { _ in
        print("a timer fires")
        Thread.detachNewThread {
            work.condition.withLock { work.left = 1 }
            work.condition.signal()
        }
    }
    work.condition.lock()
    while work.left == 0 { _ = work.condition.wait(inMode: .default, until: .now + .seconds(60)) }
    work.condition.unlock()
    print("signalled in a mode")
}

// Values with their locks, in place of `@synchronized` and of locks beside what they guard.
let names = Guarded<[String]>([])
let routes = ReadWrite(["home": 1])
let setUp = Once()

workWithoutWaiting()
descend(4)
takeTurns()
waitForWork()
waitInMode()
for _ in 0..<2 { setUp.call { names.withLock { $0.append("once") } } }
routes.withWriteLock { $0["work"] = 2 }
print(names.withLock { $0 }, routes.withReadLock { $0.count }, names.withLockIfAvailable { $0.count } ?? 0)
