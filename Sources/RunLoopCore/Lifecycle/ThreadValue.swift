// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// A value that a thread has for itself (`RLThreadSetValue`). From malloc.
struct ThreadValue {
    var key: UnsafeRawPointer
    var value: UnsafeMutableRawPointer
    var destructor: PerformFunction?
    /// The next value in the same place of the table.
    var nextInTable: ThreadValuePointer?
    /// The next older value and the next newer one.
    var next: ThreadValuePointer?
    var previous: ThreadValuePointer?

    static func get(_ key: UnsafeRawPointer) -> UnsafeMutableRawPointer? {
        ThreadValuesPointer.current?.link(to: key).pointee?.pointee.value
    }

    static func set(_ key: UnsafeRawPointer, _ value: UnsafeMutableRawPointer?, _ destructor: PerformFunction?) {
        let record = ThreadValuesPointer.current?.link(to: key).pointee
        let old = record?.pointee
        if let value {
            if let record {
                record.pointee.value = value
                record.pointee.destructor = destructor
            } else {
                let values = ThreadValuesPointer.current ?? .makeCurrent()
                values.add(ThreadValue(key: key, value: value, destructor: destructor))
            }
        } else if let record {
            ThreadValuesPointer.current!.remove(record)
        }
        // The table is consistent here: the destructor may use it.
        if let old, let destructor = old.destructor { callOutPerformedRelease(destructor, old.value) }
    }

    /// The key's destructor. The exit callbacks of a thread that has not finished come first: with the end of its loop, in one of the next rounds.
    static func threadEnds(_ memory: UnsafeMutableRawPointer) {
        let values = memory.cast(to: ThreadValues.self)
        ThreadValuesPointer.current = values
        if ThreadPointer.current != nil && values.pointee.waits < 2 {
            values.pointee.waits += 1
            return
        }
        values.destroy()
    }
}

typealias ThreadValuePointer = UnsafeMutablePointer<ThreadValue>

/// The values of a thread, by their keys: a hash table with lists. From malloc; the thread's key points to it.
struct ThreadValues {
    /// The newest value.
    var first: ThreadValuePointer?
    /// While the thread ends, the newest of those that were there before the first destructor.
    var ending: ThreadValuePointer?
    var count = 0
    /// How many rounds of destructors there were.
    var rounds: Int32 = 0
    /// How many rounds of the C library's the values have waited for the exit callbacks.
    var waits: Int32 = 0
    /// The number of places, a power of two.
    var capacity = 8
    var table = makeArray(ThreadValuePointer?.self, count: 8)
}

typealias ThreadValuesPointer = UnsafeMutablePointer<ThreadValues>

extension UnsafeMutablePointer where Pointee == ThreadValues {
    /// The values of the calling thread.
    static var current: ThreadValuesPointer? {
        get { pthread_getspecific(threads.pointee.valuesKey)?.cast(to: ThreadValues.self) }
        set { pthread_setspecific(threads.pointee.valuesKey, newValue) }
    }

    static func makeCurrent() -> ThreadValuesPointer {
        let values = makeArray(ThreadValues.self, count: 1)
        values.initialize(to: ThreadValues())
        current = values
        return values
    }

    /// Destroys the values that there are; the thread ends. If destructors set values these come first, but not more often than
    /// there were values; what is left then comes in another round, up to four in all; what is set in the last one is forgotten.
    /// The rounds are not the C library's, which may be in its last one: a value that another key's destructor is the first to set.
    func destroy() {
        while pointee.count > 0 && pointee.rounds < PTHREAD_DESTRUCTOR_ITERATIONS {
            pointee.ending = pointee.first
            var turns = pointee.count
            while let record = turns > 0 ? pointee.first : pointee.ending {
                turns -= 1
                let (destructor, value) = (record.pointee.destructor, record.pointee.value)
                remove(record)
                if let destructor { callOutPerformedRelease(destructor, value) }
            }
            // Not for a round in which a destructor ended the thread: then this is called again.
            pointee.rounds += 1
        }
        while let record = pointee.first { remove(record) }
        Self.current = nil
        CRunLoopLinux.free(pointee.table)
        CRunLoopLinux.free(self)
    }

    /// The pointer to the record of a key; the end of a list if there is none.
    @inline(never)
    func link(to key: UnsafeRawPointer) -> UnsafeMutablePointer<ThreadValuePointer?> {
        let hash = UInt(bitPattern: key) &* 0x9e37_79b9_7f4a_7c15
        var link = pointee.table + tablePlace(hash, below: pointee.capacity)
        while let record = link.pointee, record.pointee.key != key {
            link = withUnsafeMutablePointer(to: &record.pointee.nextInTable) { $0 }
        }
        return link
    }

    fileprivate func add(_ value: ThreadValue) {
        if pointee.count == pointee.capacity { grow() }
        let record = makeArray(ThreadValue.self, count: 1)
        record.initialize(to: value)
        link(to: value.key).pointee = record
        record.pointee.next = pointee.first
        pointee.first?.pointee.previous = record
        pointee.first = record
        pointee.count += 1
    }

    private func grow() {
        CRunLoopLinux.free(pointee.table)
        pointee.capacity *= 2
        pointee.table = makeArray(ThreadValuePointer?.self, count: pointee.capacity)
        var next = pointee.first
        while let record = next {
            record.pointee.nextInTable = nil
            link(to: record.pointee.key).pointee = record
            next = record.pointee.next
        }
    }

    fileprivate func remove(_ record: ThreadValuePointer) {
        link(to: record.pointee.key).pointee = record.pointee.nextInTable
        if pointee.ending == record { pointee.ending = record.pointee.next }
        record.pointee.next?.pointee.previous = record.pointee.previous
        if let previous = record.pointee.previous { previous.pointee.next = record.pointee.next } else { pointee.first = record.pointee.next }
        pointee.count -= 1
        CRunLoopLinux.free(record)
    }
}
