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

    /// Sorts the members from `start` on into the order in which they perform, with the help of room behind them.
    mutating func sort(from start: Int) {
        let length = count - start
        if length < 2 { return }
        if length > 16 && count + length > capacity {
            capacity = nextPowerOfTwo(count + length)
            members = growArray(members, count: capacity)
        }
        let words = UnsafeMutableRawPointer(members!).assumingMemoryBound(to: UInt.self)
        sortStably(words + start, length, room: words + count) {
            SourcePointer(bitPattern: $0).unsafelyUnwrapped.performsBefore(SourcePointer(bitPattern: $1).unsafelyUnwrapped)
        }
    }
}
