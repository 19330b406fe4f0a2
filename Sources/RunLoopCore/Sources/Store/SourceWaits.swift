// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A source of a loop that waits for the end of its period.
struct SourceWait {
    /// The first word: waits are found by it.
    let link: SourceLinkPointer
    /// By the loop's clock. As the loop knows it: another loop, where the same source performs, may have begun another period.
    fileprivate(set) var end: Int64
    /// Its turn among those with the same end.
    fileprivate var turn: UInt
    /// Its place in the heap.
    fileprivate var index: Int

    fileprivate func precedes(_ other: SourceWait) -> Bool { end != other.end ? end < other.end : turn < other.turn }
}

typealias SourceWaitPointer = UnsafeMutablePointer<SourceWait>

/// The sources of a loop that wait, by the ends of their periods, and those that the log has not reported yet. The loop's lock guards it. The zero
/// value is empty.
///
/// A heap of records, one for each link that waits; only sources that wait need the memory.
struct SourceWaits {
    private var heap: UnsafeMutablePointer<SourceWaitPointer>?
    private var capacity = 0
    private(set) var count = 0
    private var records = WordSet()
    private var turns: UInt = 0
    /// Links to be reported, in order; and those that were taken from there for it, in reverse order, so that both lose their last words only.
    private var untold = WordSet()
    private var telling = WordSet()

    var isEmpty: Bool { count == 0 }
    var hasUntold: Bool { !untold.isEmpty || !telling.isEmpty }
    /// Whether a wait has nothing to do here.
    @inline(always)
    var isIdle: Bool { count == 0 && untold.isEmpty && telling.isEmpty }

    /// The one that ends first.
    var first: SourceWaitPointer? { count == 0 ? nil : heap![0] }

    /// The link waits until then; if it waits already, its end changes.
    @inline(never)
    mutating func set(_ link: SourceLinkPointer, end: Int64) {
        remove(link)
        if count == capacity {
            capacity = Swift.max(8, capacity * 2)
            heap = growArray(heap, count: capacity)
        }
        turns &+= 1
        let wait = makeRecord(SourceWait.self)
        wait.initialize(to: SourceWait(link: link, end: end, turn: turns, index: count))
        records.insert(UInt(bitPattern: wait), isKeyed: true)
        count += 1
        siftUp(wait, from: count - 1)
    }

    /// Nothing if the link does not wait.
    @inline(never)
    mutating func remove(_ link: SourceLinkPointer) {
        guard let wait = SourceWaitPointer(bitPattern: records.remove(UInt(bitPattern: link), isKeyed: true)) else { return }
        let index = wait.pointee.index
        CRunLoopLinux.free(wait)
        count -= 1
        guard index < count else { return }
        let moved = heap![count]
        if index > 0 && moved.pointee.precedes(heap![(index - 1) / 2].pointee) { siftUp(moved, from: index) } else { siftDown(moved, from: index) }
    }

    /// All ends are to be looked at anew: they are of another clock.
    mutating func expireAll() {
        for index in 0..<count {
            heap![index].pointee.end = .min
            // A heap again, which has those in any order.
            heap![index].pointee.turn = UInt(index)
        }
    }

    /// The first end of a source of the mode that is not before `time`, `end` if there is none before that. It looks at those that end before, and at their children
    /// in the heap.
    func firstEnd(in mode: ModePointer, before end: Int64, notBefore time: Int64 = .min, from index: Int = 0) -> Int64 {
        guard index < count, heap![index].pointee.end < end else { return end }
        let own = heap![index].pointee.end
        if own >= time && heap![index].pointee.link.pointee.modes.contains(mode) { return own }
        let left = firstEnd(in: mode, before: end, notBefore: time, from: 2 * index + 1)
        return firstEnd(in: mode, before: left, notBefore: time, from: 2 * index + 2)
    }

    private func put(_ wait: SourceWaitPointer, at index: Int) {
        heap![index] = wait
        wait.pointee.index = index
    }

    private func siftUp(_ wait: SourceWaitPointer, from start: Int) {
        var index = start
        while index > 0, wait.pointee.precedes(heap![(index - 1) / 2].pointee) {
            put(heap![(index - 1) / 2], at: index)
            index = (index - 1) / 2
        }
        put(wait, at: index)
    }

    private func siftDown(_ wait: SourceWaitPointer, from start: Int) {
        var index = start
        while 2 * index + 1 < count {
            var least = 2 * index + 1
            if least + 1 < count, heap![least + 1].pointee.precedes(heap![least].pointee) { least += 1 }
            guard heap![least].pointee.precedes(wait.pointee) else { break }
            put(heap![least], at: index)
            index = least
        }
        put(wait, at: index)
    }

    // MARK: What the log has not reported

    /// A link of the loop.
    mutating func expectTelling(_ link: SourceLinkPointer) {
        let word = UInt(bitPattern: link)
        if untold.find(word, isKeyed: false) == 0 && telling.find(word, isKeyed: false) == 0 { untold.insert(word, isKeyed: false) }
    }

    /// Takes the next one, nil if there is none.
    mutating func takeUntold() -> SourceLinkPointer? {
        if telling.isEmpty {
            while !untold.isEmpty { telling.insert(untold.remove(untold.last, isKeyed: false), isKeyed: false) }
        }
        return telling.isEmpty ? nil : SourceLinkPointer(bitPattern: telling.remove(telling.last, isKeyed: false))
    }

    /// The link leaves the loop.
    @inline(never)
    mutating func forget(_ link: SourceLinkPointer) {
        remove(link)
        _ = untold.remove(UInt(bitPattern: link), isKeyed: false)
        _ = telling.remove(UInt(bitPattern: link), isKeyed: false)
    }

    mutating func free() {
        for index in 0..<count { CRunLoopLinux.free(heap![index]) }
        CRunLoopLinux.free(heap)
        records.removeAll()
        untold.removeAll()
        telling.removeAll()
        self = SourceWaits()
    }

    /// Whether every wait precedes its children, knows its place and is found. For tests.
    func checkInvariants() -> Bool {
        for index in 0..<count {
            let wait = heap![index]
            if wait.pointee.index != index || records.find(UInt(bitPattern: wait.pointee.link), isKeyed: true) != UInt(bitPattern: wait) { return false }
            if index > 0 && wait.pointee.precedes(heap![(index - 1) / 2].pointee) { return false }
        }
        return records.count == count
    }
}
