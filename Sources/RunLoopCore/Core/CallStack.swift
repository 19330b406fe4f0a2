// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The kinds of records in a `CallStack`, each described where it is used.
enum CallKind: UInt8 {
    case timer
    case source
    case sourceBatch
    case watch
    case notification
    case postRound
    case request
    case mainQueue
    case socketReport
    case machDelivery
    case message
    case replyWait
    case modeWait
    case leaving
    /// A callback's bracket of `retain` and `release`.
    case bracket

    /// Other threads search for it too.
    var isShared: Bool { self == .timer || self == .source }
}

/// What a record holds besides its kind: whole words that can be copied without further care.
protocol CallRecord {
    static var kind: CallKind { get }
}

extension CallRecord {
    @inline(always)
    static var words: Int { (MemoryLayout<Self>.size + MemoryLayout<UInt>.size - 1) / MemoryLayout<UInt>.size }
    /// Including the word that says the kind.
    @inline(always)
    static var size: Int { words + 1 }
}

/// The position of a record in its stack.
struct CallPlace<Record: CallRecord> {
    let start: Int
}

/// The unfinished work of a loop's thread: a record for each callback of the loop on its stack, and for what it has taken and must return,
/// innermost last. Each says what kind of callback it is, for which object, and what must be done right after it. These are not in
/// frames of the thread's stack: a callback may end its thread (S-LOOP-19), and `abandonCallbacks` then finds here what is left to do.
///
/// The records lie in one growing array of words, each followed by a word with its kind and its size, so that they can be walked from the
/// innermost outwards and nothing is allocated in a pass. Pointers to records are valid until the next call-out.
///
/// Only the loop's thread reads and changes the stack, with two exceptions, both under the loop's lock. Other threads also search for
/// records of timers and sources: these records are pushed and popped under the lock, `shared` leads to the innermost of
/// them, and everything below it stays unchanged meanwhile. The array is moved under the lock.
struct CallStack {
    private(set) var words: UnsafeMutablePointer<UInt>?
    private var capacity = 0
    /// Words in use.
    private(set) var count = 0
    /// The end of the innermost record that other threads search for. Guarded by the loop's lock.
    var shared = 0

    @inline(always)
    func hasRoom(for size: Int) -> Bool { count &+ size <= capacity }

    /// The caller holds the loop's lock.
    @inline(never)
    mutating func grow(by size: Int) {
        capacity = max(32, nextPowerOfTwo(count + size))
        words = growArray(words, count: capacity)
    }

    /// There is room.
    @inline(always)
    mutating func push<Record: CallRecord>(_ record: Record) -> CallPlace<Record> {
        let place = CallPlace<Record>(start: count)
        self[place].initialize(to: record)
        close(place.start &+ Record.words, Record.kind, size: Record.size)
        return place
    }

    /// Makes a record of the words up to `end`.
    @inline(always)
    mutating func close(_ end: Int, _ kind: CallKind, size: Int) {
        words.unsafelyUnwrapped[end] = UInt(bitPattern: size) << 8 | UInt(kind.rawValue)
        count = end &+ 1
    }

    @inline(always)
    subscript<Record: CallRecord>(place: CallPlace<Record>) -> UnsafeMutablePointer<Record> {
        UnsafeMutableRawPointer(words.unsafelyUnwrapped + place.start).assumingMemoryBound(to: Record.self)
    }

    /// Removes the innermost record.
    @inline(always)
    mutating func pop<Record: CallRecord>(_ place: CallPlace<Record>) -> Record {
        count = place.start
        return self[place].pointee
    }

    /// A word that belongs to no record yet. There is room.
    mutating func pushWord(_ word: UInt) {
        words.unsafelyUnwrapped[count] = word
        count &+= 1
    }

    mutating func truncate(to newCount: Int) { count = newCount }

    mutating func free() {
        CRunLoopLinux.free(words)
        self = CallStack()
    }

    // MARK: Searching for records

    /// The kind of the innermost record; nil if there is none.
    var innermost: CallKind? { count == 0 ? nil : kind(endingAt: count) }

    private func kind(endingAt end: Int) -> CallKind { CallKind(rawValue: UInt8(truncatingIfNeeded: words![end - 1])).unsafelyUnwrapped }

    /// The innermost record, which must be of that kind.
    func last<Record: CallRecord>(_: Record.Type) -> Record { self[CallPlace<Record>(start: count - Record.size)].pointee }

    mutating func popLast<Record: CallRecord>(_: Record.Type) -> Record { pop(CallPlace<Record>(start: count - Record.size)) }

    /// Calls `body` with the records of a kind, innermost first, until it returns true; returns whether it did.
    @discardableResult
    func contains<Record: CallRecord>(_: Record.Type, where body: (UnsafeMutablePointer<Record>) -> Bool) -> Bool {
        CallStack.contains(Record.self, in: words, below: count, where: body)
    }

    /// The same for the words below an end, for a thread that may read only that part of the stack.
    static func contains<Record: CallRecord>(
        _: Record.Type, in words: UnsafeMutablePointer<UInt>?, below end: Int, where body: (UnsafeMutablePointer<Record>) -> Bool
    ) -> Bool {
        var end = end
        while end > 0 {
            let last = words![end - 1]
            let start = end - Int(bitPattern: last >> 8)
            if UInt8(truncatingIfNeeded: last) == Record.kind.rawValue
                && body(UnsafeMutableRawPointer(words! + start).assumingMemoryBound(to: Record.self))
            {
                return true
            }
            end = start
        }
        return false
    }

    /// After the innermost record was removed out of turn: finds the next shared record below. Under the loop's lock.
    mutating func findShared() {
        shared = count
        while shared > 0 && !kind(endingAt: shared).isShared { shared -= Int(bitPattern: words![shared - 1] >> 8) }
    }
}
