// SPDX-License-Identifier: MIT
/// Batches of sources that are being performed: records of as many words as there are members, pointers to sources with a reference
/// each, 0 where that is given back.
extension CallStack {
    /// Adds to the batch that is being collected at the end of the stack. The caller holds the loop's lock.
    mutating func pushMember(_ source: SourcePointer) {
        if !hasRoom(for: 2) { grow(by: 2) }
        pushWord(UInt(bitPattern: source))
    }

    /// Makes room for `closeBatch`. The caller holds the loop's lock.
    mutating func makeRoomForSorting(from start: Int) {
        let room = Swift.max(count - start, 1)
        if !hasRoom(for: room) { grow(by: room) }
    }

    /// Sorts the members into the order in which they perform, with the help of the room behind them, and makes a record of
    /// them.
    mutating func closeBatch(from start: Int) {
        let length = count - start
        if length > 1 {
            sortStably(words! + start, length, room: words! + count) {
                SourcePointer(bitPattern: $0).unsafelyUnwrapped.performsBefore(SourcePointer(bitPattern: $1).unsafelyUnwrapped)
            }
        }
        close(count, .sourceBatch, size: length + 1)
    }

    @inline(always)
    func member(_ index: Int) -> SourcePointer { SourcePointer(bitPattern: words.unsafelyUnwrapped[index]).unsafelyUnwrapped }

    /// The member's function is called from now on, until it is forgotten. Sources have even addresses: the lowest bit says so.
    @inline(always)
    func markMember(_ index: Int) { words.unsafelyUnwrapped[index] |= 1 }

    /// The member's reference is gone.
    @inline(always)
    func forgetMember(_ index: Int) { words.unsafelyUnwrapped[index] = 0 }

    /// Takes the last member out of the innermost record, a batch, or that record off if it has none. The reference, unless it is
    /// gone, is the caller's. `isCalled`: its function has ended the thread.
    mutating func popMember() -> (source: SourcePointer, isCalled: Bool)? {
        let end = count - 1
        let start = end + 1 - Int(bitPattern: words![end] >> 8)
        truncate(to: end)
        guard start < end else { return nil }
        let member = words![end - 1]
        close(end - 1, .sourceBatch, size: end - start)
        return SourcePointer(bitPattern: member & ~1).map { ($0, member & 1 != 0) }
    }
}
