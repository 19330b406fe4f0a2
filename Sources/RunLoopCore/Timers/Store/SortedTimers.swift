// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// A sorted array of timers that is consumed from its front. Where many timers are due at once, their memory is in no cache, so
/// putting them in order looks at the entries of this array alone. The loop's lock guards it. The zero value is empty.
struct SortedTimers {
    struct Entry {
        var instant: Int64
        /// nil after it was removed.
        var node: TimerNodePointer?
        var sequence: Int

        /// Whether it fires before the other one: by instant, then by insertion.
        @inline(always)
        func precedes(_ other: Entry) -> Bool {
            if instant != other.instant { return instant < other.instant }
            return sequence < other.sequence
        }
    }

    private var entries: UnsafeMutablePointer<Entry>?
    private var capacity = 0
    /// For sorting: as many entries, then the counts. nil until many are sorted.
    private var spare: UnsafeMutablePointer<Entry>?
    /// The first entry that counts, one that was not removed.
    private var head = 0
    private var end = 0
    /// Where the entries to be sorted begin; the end if there are none.
    private var sortedEnd = 0
    /// Removed entries behind the head.
    private var holes = 0

    var isEmpty: Bool { head == end }

    var first: Entry? {
        @inline(always) get { head == end ? nil : entries![head] }
    }

    /// Appends a timer. False, and nothing is appended, if it is to fire before the last one.
    mutating func append(_ node: TimerNodePointer, instant: Int64) -> Bool {
        let entry = Entry(instant: instant, node: node, sequence: node.pointee.sequence)
        // A timer may come back with the instant and the sequence that it had: no hole before it has them.
        while head != end && entries![end - 1].node == nil {
            end -= 1
            holes -= 1
            sortedEnd = end
        }
        if head != end && entry.precedes(entries![end - 1]) { return false }
        append(entry)
        sortedEnd = end
        return true
    }

    /// Appends a timer that is later than those already sorted; a `sort` has to follow.
    @inline(always)
    mutating func appendUnsorted(_ node: TimerNodePointer, instant: Int64) {
        append(Entry(instant: instant, node: node, sequence: node.pointee.sequence))
    }

    @inline(always)
    private mutating func append(_ entry: Entry) {
        if end == capacity { makeRoom() }
        entry.node.unsafelyUnwrapped.pointee.place = .run
        entries![end] = entry
        end += 1
    }

    @inline(never)
    private mutating func makeRoom() {
        if head > capacity / 2 {
            entries!.update(from: entries! + head, count: end - head)
            end -= head
            sortedEnd -= head
            head = 0
        } else {
            capacity = max(16, capacity * 2)
            entries = growArray(entries, count: capacity)
            CRunLoopLinux.free(spare)
            spare = nil
        }
    }

    /// Takes out the first one if its instant has come.
    @inline(always)
    mutating func removeFirst(notAfter now: Int64) -> TimerNodePointer? {
        guard head != end, entries![head].instant <= now else { return nil }
        let node = entries![head].node.unsafelyUnwrapped
        // If there are many, each has to be fetched from memory; so it is prefetched.
        if head + 8 < end, let later = entries![head + 8].node { later.prefetch() }
        head += 1
        if head == end || entries![head].node == nil { skipRemoved() }
        node.pointee.place = .nowhere
        return node
    }

    /// The instant must be the one with which it was inserted.
    mutating func remove(_ node: TimerNodePointer, instant: Int64) {
        let entry = Entry(instant: instant, node: node, sequence: node.pointee.sequence)
        var low = head
        var high = end
        while low < high {
            let middle = low + (high - low) / 2
            if entries![middle].precedes(entry) { low = middle + 1 } else { high = middle }
        }
        entries![low].node = nil
        node.pointee.place = .nowhere
        holes += 1
        if low == head { skipRemoved() } else if holes > (end - head) / 2 + 8 { closeHoles() }
    }

    /// Compacts the entries if more than half of them are holes. The cost is amortised over the removals.
    private mutating func closeHoles() {
        var place = head
        for index in head..<end where entries![index].node != nil {
            entries![place] = entries![index]
            place += 1
        }
        end = place
        sortedEnd = place
        holes = 0
    }

    private mutating func skipRemoved() {
        while head < end && entries![head].node == nil {
            head += 1
            holes -= 1
        }
        guard head == end else { return }
        head = 0
        end = 0
        sortedEnd = 0
        if capacity > SortedTimers.keptCapacity { free() }
    }

    /// How much capacity an empty array may keep, so that no pass allocates.
    private static var keptCapacity: Int { 1024 }

    /// The latest instant, not after `limit`, to which a wait may go on without making a timer later than its tolerance
    /// allows. It looks at timers that come before the limit, which will all fire when it comes.
    func latestWake(_ limit: Int64, after time: Int64 = .min) -> Int64 {
        var limit = limit
        var index = head
        while index < end, entries![index].instant < limit {
            if let node = entries![index].node, entries![index].instant > time { limit = min(limit, node.timer.latestInstant) }
            index += 1
        }
        return limit
    }

    /// Calls the body with each node until it returns false; true if it never did.
    func forEach(_ body: (TimerNodePointer) -> Bool) -> Bool {
        for index in head..<end {
            if let node = entries![index].node, !body(node) { return false }
        }
        return true
    }

    mutating func free() {
        CRunLoopLinux.free(entries)
        CRunLoopLinux.free(spare)
        entries = nil
        spare = nil
        capacity = 0
    }

    /// Whether all is in order. For tests.
    func checkInvariants() -> Bool {
        if sortedEnd != end || (head < end && entries![head].node == nil) { return false }
        if holes != (head..<end).filter({ entries![$0].node == nil }).count || holes > (end - head) / 2 + 8 { return false }
        for index in head..<end {
            let entry = entries![index]
            if index > head && !entries![index - 1].precedes(entry) { return false }
            guard let node = entry.node else { continue }
            if node.pointee.place != .run || node.instant != entry.instant || node.pointee.sequence != entry.sequence { return false }
        }
        return true
    }
}

/// Sorting.
extension SortedTimers {
    /// Sorts what was appended unsorted.
    mutating func sort() {
        let count = end - sortedEnd
        if count > 32 {
            sortMany(entries! + sortedEnd, count)
        } else if count > 1 {
            SortedTimers.sortFew(entries! + sortedEnd, count)
        }
        sortedEnd = end
    }

    private mutating func sortMany(_ entries: UnsafeMutablePointer<Entry>, _ count: Int) {
        let size = capacity * MemoryLayout<Entry>.stride
        if spare == nil {
            let bytes = growArray(nil as UnsafeMutablePointer<UInt8>?, count: size + 8 * 256 * MemoryLayout<UInt32>.stride)
            spare = UnsafeMutableRawPointer(bytes).assumingMemoryBound(to: Entry.self)
        }
        let spare = spare!
        let places = (UnsafeMutableRawPointer(spare) + size).assumingMemoryBound(to: UInt32.self)
        var isTied = false
        // Equal instants are rare; they are found when they are neighbours.
        SortedTimers.sortByBytes(entries, count, spare: spare, places: places) { UInt64(bitPattern: $0.instant) }
        for index in 1..<count where entries[index].instant == entries[index - 1].instant { isTied = true }
        if isTied {
            SortedTimers.sortByBytes(entries, count, spare: spare, places: places) { UInt64(bitPattern: Int64($0.sequence)) }
            SortedTimers.sortByBytes(entries, count, spare: spare, places: places) { UInt64(bitPattern: $0.instant) }
        }
    }

    /// By insertion.
    private static func sortFew(_ entries: UnsafeMutablePointer<Entry>, _ count: Int) {
        for index in 1..<count {
            let entry = entries[index]
            var place = index
            while place > 0 && entry.precedes(entries[place - 1]) {
                entries[place] = entries[place - 1]
                place -= 1
            }
            entries[place] = entry
        }
    }

    /// By the bytes of a key, the lowest first, as far as the keys differ; equal ones keep their order. (LSD radix sort: Knuth,
    /// The Art of Computer Programming, volume 3, section 5.2.5.) `places` has room for eight times 256 counts.
    @inline(always)
    private static func sortByBytes(
        _ entries: UnsafeMutablePointer<Entry>, _ count: Int, spare: UnsafeMutablePointer<Entry>,
        places: UnsafeMutablePointer<UInt32>, key: (Entry) -> UInt64
    ) {
        let first = key(entries[0])
        var differences: UInt64 = 0
        for index in 1..<count { differences |= key(entries[index]) ^ first }
        let bytes = (64 - differences.leadingZeroBitCount + 7) / 8
        places.update(repeating: 0, count: bytes * 256)
        for index in 0..<count {
            var rest = key(entries[index])
            for byte in 0..<bytes {
                places[byte << 8 | Int(truncatingIfNeeded: rest & 255)] &+= 1
                rest >>= 8
            }
        }
        var from = entries
        var to = spare
        for byte in 0..<bytes where (differences >> UInt64(byte * 8)) & 255 != 0 {
            let places = places + byte * 256
            var place: UInt32 = 0
            for value in 0..<256 {
                let size = places[value]
                places[value] = place
                place &+= size
            }
            for index in 0..<count {
                let value = Int(truncatingIfNeeded: (key(from[index]) >> UInt64(byte * 8)) & 255)
                to[Int(places[value])] = from[index]
                places[value] &+= 1
            }
            swap(&from, &to)
        }
        if from != entries { entries.update(from: from, count: count) }
    }
}
