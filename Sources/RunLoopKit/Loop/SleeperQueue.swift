// SPDX-License-Identifier: MIT
/// The tasks that sleep by a clock, by numbers in the order in which they began, and the order in which they are due. Whoever moves
/// the clock meets those that are due, however many others sleep.
struct SleeperQueue {
    private(set) var all: [UInt64: Sleeper] = [:]
    private var last: UInt64 = 0
    /// A heap, the earliest first. The entry of a task that sleeps no more stays until it is the first, or until half of them are such.
    private var heap: [Entry] = []

    private struct Entry {
        let deadline: TestClock.Instant
        let number: UInt64

        static func < (one: Entry, other: Entry) -> Bool { (one.deadline, one.number) < (other.deadline, other.number) }
    }

    /// Adds a sleep and gives its number.
    mutating func insert(_ sleeper: Sleeper) -> UInt64 {
        last += 1
        all[last] = sleeper
        if heap.count > 2 * all.count + 16 {
            let current = all
            heap.removeAll { current[$0.number] == nil }
            for index in stride(from: heap.count / 2 - 1, through: 0, by: -1) { sink(index) }
        }
        heap.append(Entry(deadline: sleeper.deadline, number: last))
        rise(heap.count - 1)
        return last
    }

    mutating func remove(_ number: UInt64) -> Sleeper? { all.removeValue(forKey: number) }

    /// Those whose deadlines have come, the earliest first; each is given once.
    mutating func takeDue(at now: TestClock.Instant) -> [Sleeper] {
        var due: [Sleeper] = []
        while let first = heap.first, first.deadline <= now {
            heap.swapAt(0, heap.count - 1)
            heap.removeLast()
            sink(0)
            if let sleeper = all.removeValue(forKey: first.number) { due.append(sleeper) }
        }
        return due
    }

    private mutating func rise(_ start: Int) {
        var index = start
        while index > 0, heap[index] < heap[(index - 1) / 2] {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while 2 * index + 1 < heap.count {
            var child = 2 * index + 1
            if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
            guard heap[child] < heap[index] else { return }
            heap.swapAt(index, child)
            index = child
        }
    }
}
