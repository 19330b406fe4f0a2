// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// What a loop has counted and measured. Any thread; the numbers are not of one instant.
extension UnsafeMutablePointer where Pointee == RunLoop {
    func readCounters(_ statistics: UnsafeMutablePointer<RLStatistics>) {
        @inline(never)
        func read(_ counter: borrowing Atomic<UInt64>) -> UInt64 { counter.load(ordering: .relaxed) }
        statistics.pointee.runs = read(pointee.counters.runs)
        statistics.pointee.passes = read(pointee.counters.passes)
        statistics.pointee.waits = read(pointee.counters.waits)
        statistics.pointee.sleeps = read(pointee.counters.sleeps)
        statistics.pointee.wakeUps = read(pointee.counters.wakeUps)
        statistics.pointee.rouses = read(pointee.counters.rouses)
        statistics.pointee.sources = read(pointee.counters.sources)
        statistics.pointee.ports = read(pointee.counters.ports)
        statistics.pointee.timers = read(pointee.counters.timers)
        statistics.pointee.skippedDates = pointee.counters.skippedDates
        statistics.pointee.functions = read(pointee.counters.functions)
        statistics.pointee.requests = read(pointee.counters.requests)
        statistics.pointee.observers = read(pointee.counters.observers)
        statistics.pointee.mainQueue = read(pointee.counters.mainQueue)
    }

    func readAccounting(_ statistics: UnsafeMutablePointer<RLStatistics>) {
        withAccounts { accounts in
            statistics.pointee.callOuts = accounts?.pointee.callOuts.load(ordering: .relaxed) ?? 0
            func seconds(_ time: UInt64?) -> Double { Double(Int64(truncatingIfNeeded: time ?? 0)) / 1e9 }
            statistics.pointee.callOutTime = seconds(accounts?.pointee.callOutTime.load(ordering: .relaxed))
            statistics.pointee.longestCallOut = seconds(accounts?.pointee.longest.load(ordering: .relaxed))
            statistics.pointee.accountedTime = 0
            statistics.pointee.asleepTime = 0
            if let accounts {
                let ended = accounts.pointee.ended.load(ordering: .relaxed)
                let end = ended == 0 ? Clock.now() : ended
                statistics.pointee.accountedTime = Double(end - accounts.pointee.began.load(ordering: .relaxed)) / 1e9
                statistics.pointee.asleepTime = seconds(accounts.asleep(now: end))
            }
        }
    }

    /// Copies the buckets that are not empty, as many as there is room for. Returns how many there are.
    func readHistogram(_ kind: HistogramKind, _ buckets: UnsafeMutablePointer<RLHistogramBucket>?, _ capacity: Int) -> Int {
        var found = 0
        forEachBucket(kind) { limit, count in
            if let buckets, found < capacity { buckets[found] = RLHistogramBucket(limit: limit, count: count) }
            found += 1
            return true
        }
        return found
    }

    func quantile(_ kind: HistogramKind, _ fraction: Double) -> Double {
        var total = 0
        forEachBucket(kind) { _, count in
            total &+= Int(truncatingIfNeeded: count)
            return true
        }
        let rank = Double(total) * Swift.min(Swift.max(fraction, 0), 1)
        var value = 0.0
        var passed = 0
        forEachBucket(kind) { limit, count in
            value = limit
            passed &+= Int(truncatingIfNeeded: count)
            return Double(passed) < rank
        }
        return value
    }

    /// Calls the body with the end, in seconds, and the count of each bucket that is not empty, until it returns false.
    @inline(never)
    private func forEachBucket(_ kind: HistogramKind, _ body: (Double, UInt64) -> Bool) {
        withAccounts { accounts in
            guard let histogram = accounts?.histogram(kind) else { return }
            for bucket in 0..<Histogram.bucketCount {
                let count = histogram[bucket]
                if count != 0 && !body(Double(Histogram.end(of: bucket)) / 1e9, count) { return }
            }
        }
    }

    /// Copies the accounts of the items that took the most time, largest first, and the items with a reference each; as many as the list has
    /// room for. Looks at no more than `limit` accounts.
    func copyLargestAccounts(_ largest: UnsafeMutablePointer<ItemAccount>, _ limit: Int, _ list: inout ItemList) {
        var place = 0
        // The accounts found so far; `list` counts those whose items were then retained.
        var count = 0
        lock()
        defer { unlock() }
        guard let accounts = pointee.accounts.load(ordering: .relaxed) else { return }
        while place < limit, let account = ItemAccountPointer(bitPattern: accounts.pointee.items.word(from: &place)) {
            var index = count
            while index > 0 && largest[index - 1].total < account.pointee.total {
                if index < list.room { largest[index] = largest[index - 1] }
                index -= 1
            }
            if index < list.room { largest[index] = account.pointee }
            if count < list.room { count += 1 }
        }
        for index in 0..<count {
            // An item's memory is valid as long as there is an account of it.
            largest[list.count] = largest[index]
            list.appendIfAlive(ObjectPointer(bitPattern: largest[index].item)!, in: self)
        }
    }

    /// The memory lives as long as the loop, to which the caller has a reference; the loop's lock keeps other threads from clearing it.
    private func withAccounts(_ body: (AccountingPointer?) -> Void) {
        lock()
        body(pointee.accounts.load(ordering: .relaxed))
        unlock()
    }
}
