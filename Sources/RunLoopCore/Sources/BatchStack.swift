import CLinux

/// Room for the batches of sources that are being performed, innermost last: pointers in one growing array, so that a pass
/// allocates nothing. Loop's thread only. The zero value is empty.
struct BatchStack {
    private var members: UnsafeMutablePointer<SourcePointer>?
    private var capacity = 0
    private(set) var count = 0

    subscript(index: Int) -> SourcePointer {
        get { members![index] }
        nonmutating set { members![index] = newValue }
    }

    mutating func push(_ source: SourcePointer) {
        if count == capacity {
            capacity = max(16, capacity * 2)
            members = growArray(members, count: capacity)
        }
        members![count] = source
        count += 1
    }

    /// Marks a member whose reference is gone: a callback may end its thread, and then the references of the others are dropped.
    @inline(__always)
    func forget(_ index: Int) { UnsafeMutableRawPointer(members! + index).storeBytes(of: 0, as: UInt.self) }

    /// Takes the last member off; its reference, unless that is gone, is now the caller's.
    mutating func removeLast() -> SourcePointer? {
        count -= 1
        return SourcePointer(bitPattern: UnsafeRawPointer(members! + count).load(as: UInt.self))
    }

    mutating func truncate(to newCount: Int) { count = newCount }

    mutating func free() {
        CLinux.free(members)
        members = nil
        capacity = 0
        count = 0
    }

    /// Sorts the members from `start` on into the order in which they perform. Merge sort above an insertion sort; the
    /// second half of the work happens in room behind the members.
    mutating func sort(from start: Int) {
        let length = count - start
        var width = 16
        var low = 0
        while low < length {
            insertionSort(start + low, start + min(low + width, length))
            low += width
        }
        guard width < length else { return }
        if count + length > capacity {
            capacity = nextPowerOfTwo(count + length)
            members = growArray(members, count: capacity)
        }
        let scratch = members! + count
        let base = members! + start
        while width < length {
            var from = 0
            while from + width < length {
                merge(base + from, width, min(2 * width, length - from), scratch)
                from += 2 * width
            }
            width *= 2
        }
    }

    private func insertionSort(_ low: Int, _ high: Int) {
        guard low + 1 < high else { return }
        for index in (low + 1)..<high {
            let member = members![index]
            var place = index
            while place > low && member.performsBefore(members![place - 1]) {
                members![place] = members![place - 1]
                place -= 1
            }
            members![place] = member
        }
    }

    private func merge(_ base: UnsafeMutablePointer<SourcePointer>, _ middle: Int, _ end: Int, _ scratch: UnsafeMutablePointer<SourcePointer>) {
        if !base[middle].performsBefore(base[middle - 1]) { return }
        memcpy(scratch, base, middle * MemoryLayout<SourcePointer>.stride)
        var left = 0
        var right = middle
        var out = 0
        while left < middle {
            if right < end && base[right].performsBefore(scratch[left]) {
                base[out] = base[right]
                right += 1
            } else {
                base[out] = scratch[left]
                left += 1
            }
            out += 1
        }
    }
}
