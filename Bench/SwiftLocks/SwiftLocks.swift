// SPDX-License-Identifier: MIT
// What RunLoopKit's locks and threads cost beside Foundation's and the standard library's, in nanoseconds, where nobody waits.
// usage: RunLoopBenchSwiftLocks     each row is the best of five measurements; the ratio is to the row's peer, below 1: faster
import RunLoopKit
import Synchronization

import class Foundation.NSCondition
import class Foundation.NSConditionLock
import class Foundation.NSLock
import class Foundation.NSRecursiveLock
import class Foundation.Thread

/// The best time of one round.
func cost(_ rounds: Int = 2_000_000, _ body: (Int) -> Void) -> Double {
    var best = Double.infinity
    for _ in 0..<5 {
        let begin = ContinuousClock.now
        body(rounds)
        best = min(best, (ContinuousClock.now - begin) / .nanoseconds(1) / Double(rounds))
    }
    return best
}

func row(_ name: String, _ own: Double, _ peer: Double? = nil) {
    func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }
    print("\(name): \(rounded(own)) ns", peer.map { "beside \(rounded($0)) ns, ratio \(rounded(own / $0))" } ?? "")
}

final class Values: Sendable {
    let guarded = Guarded(0)
    let mutex = Mutex(0)
    let table = ReadWrite(0)
    let once = Once()
}

nonisolated(unsafe) var sum = 0

@inline(never)
func locks() {
    let values = Values()
    row(
        "Guarded, beside Mutex", cost { for _ in 0..<$0 { values.guarded.withLock { $0 &+= 1 } } },
        cost { for _ in 0..<$0 { values.mutex.withLock { $0 &+= 1 } } })
    row("ReadWrite, reading", cost { for _ in 0..<$0 { sum &+= values.table.withReadLock { $0 } } })
    row("ReadWrite, writing", cost { for _ in 0..<$0 { values.table.withWriteLock { $0 &+= 1 } } })
    row("Once, later", cost { for _ in 0..<$0 { values.once.call { sum &+= 1 } } })
    let (lock, foundationLock) = (RunLoopKit.NSLock(), Foundation.NSLock())
    row(
        "NSLock", cost { for _ in 0..<$0 { lock.withLock { sum &+= 1 } } },
        cost { for _ in 0..<$0 { foundationLock.withLock { sum &+= 1 } } })
    let (recursive, foundationRecursive) = (RunLoopKit.NSRecursiveLock(), Foundation.NSRecursiveLock())
    row(
        "NSRecursiveLock", cost { for _ in 0..<$0 { recursive.withLock { sum &+= 1 } } },
        cost { for _ in 0..<$0 { foundationRecursive.withLock { sum &+= 1 } } })
    let (numbered, foundationNumbered) = (RunLoopKit.NSConditionLock(), Foundation.NSConditionLock())
    row(
        "NSConditionLock", cost { for _ in 0..<$0 { numbered.withLock { sum &+= 1 } } },
        cost { for _ in 0..<$0 { foundationNumbered.withLock { sum &+= 1 } } })
}

/// From the start of a thread to the end of its closure, of which another one is told.
@inline(never)
func threads() {
    let (condition, foundationCondition) = (RunLoopKit.NSCondition(), Foundation.NSCondition())
    let isDone = Atomic(false)
    row("Thread.current", cost { for _ in 0..<$0 where RunLoopKit.Thread.current.isCancelled { sum += 1 } },
        cost { for _ in 0..<$0 where Foundation.Thread.current.isCancelled { sum += 1 } })
    let own = cost(1000) {
        for _ in 0..<$0 {
            isDone.store(false, ordering: .relaxed)
            RunLoopKit.Thread.detachNewThread {
                condition.withLock { isDone.store(true, ordering: .relaxed) }
                condition.signal()
            }
            condition.lock()
            while !isDone.load(ordering: .relaxed) { condition.wait() }
            condition.unlock()
        }
    }
    let peer = cost(1000) {
        for _ in 0..<$0 {
            isDone.store(false, ordering: .relaxed)
            Foundation.Thread.detachNewThread {
                foundationCondition.withLock { isDone.store(true, ordering: .relaxed) }
                foundationCondition.signal()
            }
            foundationCondition.lock()
            while !isDone.load(ordering: .relaxed) { foundationCondition.wait() }
            foundationCondition.unlock()
        }
    }
    row("Thread, from start to work done, with a loop", own, peer)
}

locks()
threads()
