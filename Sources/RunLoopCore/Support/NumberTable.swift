// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Records for descriptor numbers, found by the number. The zero value is empty.
///
/// They lie in blocks for 32 consecutive numbers, and only blocks that were used exist: the memory depends on the numbers in use
/// and not on the highest (S-THR-9). A record is zeroed memory at first, and never moves.
struct NumberTable<Record> {
    private var blocks: UnsafeMutablePointer<UnsafeMutablePointer<Record>?>?
    /// Blocks that there is room for; those that were not used are nil.
    private var count = 0

    /// The record of a number, nil if it has none.
    @inline(never)
    func find(_ number: Int) -> UnsafeMutablePointer<Record>? {
        guard number >= 0, number >> 5 < count, let block = blocks.unsafelyUnwrapped[number >> 5] else { return nil }
        return block + (number & 31)
    }

    /// The record of a number that has one.
    subscript(_ number: Int) -> UnsafeMutablePointer<Record> { @inline(always) get { find(number).unsafelyUnwrapped } }

    /// Gives a number a record, if it has none; its neighbours get theirs.
    @inline(never)
    mutating func make(_ number: Int) {
        let block = number >> 5
        if block >= count {
            let room = nextPowerOfTwo(block + 1)
            let grown = makeArray(UnsafeMutablePointer<Record>?.self, count: room)
            if let blocks { grown.update(from: blocks, count: count) }
            CRunLoopLinux.free(blocks)
            blocks = grown
            count = room
        }
        if blocks.unsafelyUnwrapped[block] == nil { blocks.unsafelyUnwrapped[block] = makeArray(Record.self, count: 32) }
    }

    /// Moves a number on to the next that has a record; -1 is before the first. False behind the last.
    @inline(never)
    func advance(_ number: inout Int) -> Bool {
        number += 1
        while number >> 5 < count {
            if blocks.unsafelyUnwrapped[number >> 5] != nil { return true }
            number = (number | 31) + 1
        }
        return false
    }

    /// The records hold nothing any more.
    mutating func free() {
        for block in 0..<count { CRunLoopLinux.free(blocks.unsafelyUnwrapped[block]) }
        CRunLoopLinux.free(blocks)
        self = NumberTable()
    }
}
