// error: none
// SPDX-License-Identifier: MIT
// A value that is not Sendable may be guarded, and its guard used by many threads.
import RunLoopKit

final class Counter { var count = 0 }

final class Shared: Sendable {
    let guarded = Guarded(Counter())
    let table = ReadWrite<[String: Int]>([:])
    let lock = NSLock()
}

func use(_ shared: Shared) async -> Int {
    Thread.detachNewThread { shared.guarded.withLock { $0.count += 1 } }
    async let other = Task.detached { shared.table.withReadLock { $0.count } }.value
    shared.table.withWriteLock { $0["one"] = 1 }
    shared.lock.withLock {}
    return await other + shared.guarded.withLock { $0.count }
}
