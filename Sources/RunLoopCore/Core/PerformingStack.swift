import CLinux

/// Sources that perform, innermost last. A source that leaves the loop meanwhile loses the loop's reference; then it gets another
/// one here. The loop's lock guards it. The zero value is empty.
struct PerformingStack {
    /// Addresses of sources; the lowest bit says that the entry has a reference.
    private var entries: UnsafeMutablePointer<UInt>?
    private var capacity = 0
    private(set) var count = 0

    private static var referenceBit: UInt { 1 }

    @inline(__always)
    mutating func push(_ source: SourcePointer) {
        if count == capacity { grow() }
        entries.unsafelyUnwrapped[count] = UInt(bitPattern: source)
        count &+= 1
    }

    @inline(never)
    private mutating func grow() {
        capacity = max(4, capacity * 2)
        entries = growArray(entries, count: capacity)
    }

    /// Ends the innermost one. Returns it if its reference is to be dropped, without the lock.
    @inline(__always)
    mutating func pop() -> SourcePointer? {
        count &-= 1
        let entry = entries.unsafelyUnwrapped[count]
        return entry & PerformingStack.referenceBit == 0 ? nil : SourcePointer(bitPattern: entry & ~PerformingStack.referenceBit)
    }

    /// The innermost one, which the loop keeps or, if it has left that, its entry.
    var last: SourcePointer { SourcePointer(bitPattern: entries![count - 1] & ~PerformingStack.referenceBit)! }

    /// The loop's reference to the source is about to go.
    func keep(_ source: SourcePointer) {
        guard count > 0, let index = (0..<count).first(where: { entries![$0] == UInt(bitPattern: source) }) else { return }
        source.retain()
        entries![index] |= PerformingStack.referenceBit
    }

    mutating func free() {
        CLinux.free(entries)
        entries = nil
        capacity = 0
        count = 0
    }
}
