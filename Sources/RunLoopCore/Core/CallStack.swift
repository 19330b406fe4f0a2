// SPDX-License-Identifier: MIT
import CLinux

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
    /// A callback's bracket of `retain` and `release`.
    case bracket

    /// Other threads look for it too.
    var isShared: Bool { self == .timer || self == .source }
}

/// What a record holds beside its kind: whole words, which need no more care than to be copied.
protocol CallRecord {
    static var kind: CallKind { get }
}

extension CallRecord {
    @inline(always)
    static var words: Int { (MemoryLayout<Self>.size + MemoryLayout<UInt>.size - 1) / MemoryLayout<UInt>.size }
    /// With the word that says the kind.
    @inline(always)
    static var size: Int { words + 1 }
}

/// Where a record lies in its stack.
struct CallPlace<Record: CallRecord> {
    let start: Int
}

/// What a loop's thread is in the middle of: a record for each callback of the loop on its stack, and for what it has taken and owes,
/// innermost last. Each says what kind of callback it is, for which object, and what is to be put right after it. Not in frames
/// of the thread's stack: a callback may end its thread (S-LOOP-19), and what it leaves is then found here (`abandonCallbacks`).
///
/// The records lie in one growing array of words, each followed by a word with its kind and its size, so that they are walked from the
/// innermost outwards and nothing is allocated in a pass. Pointers to records are good until the next call-out.
///
/// The loop's thread alone reads and changes the stack, with two exceptions, both under the loop's lock. Records of timers and
/// sources are looked for by other threads too: they are pushed and popped under the lock, `shared` leads to the innermost of
/// them, and all that lies below that stays as it is meanwhile. The array moves under the lock.
struct CallStack {
    private(set) var words: UnsafeMutablePointer<UInt>?
    private var capacity = 0
    /// Words in use.
    private(set) var count = 0
    /// The end of the innermost record that other threads look for. Guarded by the loop's lock.
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

    /// Takes off the innermost record.
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
        CLinux.free(words)
        self = CallStack()
    }

    // MARK: Looking for records

    /// The kind of the innermost record; nil if there is none.
    var innermost: CallKind? { count == 0 ? nil : kind(endingAt: count) }

    private func kind(endingAt end: Int) -> CallKind { CallKind(rawValue: UInt8(truncatingIfNeeded: words![end - 1])).unsafelyUnwrapped }

    /// The innermost record, which is of that kind.
    func last<Record: CallRecord>(_: Record.Type) -> Record { self[CallPlace<Record>(start: count - Record.size)].pointee }

    mutating func popLast<Record: CallRecord>(_: Record.Type) -> Record { pop(CallPlace<Record>(start: count - Record.size)) }

    /// Calls `body` with the records of a kind, innermost first, until it is true; whether it was.
    @discardableResult
    func contains<Record: CallRecord>(_: Record.Type, where body: (UnsafeMutablePointer<Record>) -> Bool) -> Bool {
        CallStack.contains(Record.self, in: words, below: count, where: body)
    }

    /// The same of the words below an end, for a thread that may read no more of the stack than that.
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

    /// After the innermost record was taken off out of turn: finds the shared one below. Under the loop's lock.
    mutating func findShared() {
        shared = count
        while shared > 0 && !kind(endingAt: shared).isShared { shared -= Int(bitPattern: words![shared - 1] >> 8) }
    }
}
