// SPDX-License-Identifier: MIT
import CLinux
import CRunLoop

/// A value that a thread has for itself (`RLThreadSetValue`). From malloc, in a list that the thread's key points to, the newest first.
struct ThreadValue {
    var key: UnsafeRawPointer
    var value: UnsafeMutableRawPointer
    var destructor: PerformFunction?
    var next: UnsafeMutablePointer<ThreadValue>?

    /// Of the calling thread.
    static var first: UnsafeMutablePointer<ThreadValue>? {
        get { pthread_getspecific(threads.pointee.valuesKey)?.cast(to: ThreadValue.self) }
        set { pthread_setspecific(threads.pointee.valuesKey, newValue) }
    }

    static func get(_ key: UnsafeRawPointer) -> UnsafeMutableRawPointer? {
        var record = first
        while let current = record {
            if current.pointee.key == key { return current.pointee.value }
            record = current.pointee.next
        }
        return nil
    }

    static func set(_ key: UnsafeRawPointer, _ value: UnsafeMutableRawPointer?, _ destructor: PerformFunction?) {
        var record = first
        var previous: UnsafeMutablePointer<ThreadValue>?
        while let current = record, current.pointee.key != key {
            previous = current
            record = current.pointee.next
        }
        let old = record?.pointee
        if let value {
            if let record {
                record.pointee.value = value
                record.pointee.destructor = destructor
            } else {
                let record = makeArray(ThreadValue.self, count: 1)
                record.initialize(to: ThreadValue(key: key, value: value, destructor: destructor, next: first))
                first = record
            }
        } else if let record {
            if let previous { previous.pointee.next = record.pointee.next } else { first = record.pointee.next }
            CLinux.free(record)
        }
        // The list is whole: the destructor may use it.
        if let old, let destructor = old.destructor { callOutPerformedRelease(destructor, old.value) }
    }

    /// The key's destructor: as many are destroyed as there were. If destructors set values it is called again, four times in all.
    static func threadEnds(_ list: UnsafeMutableRawPointer) {
        let last = list.cast(to: ThreadValue.self)
        first = last
        var count = 0
        var record: UnsafeMutablePointer<ThreadValue>? = last
        while let current = record {
            count += 1
            record = current.pointee.next
        }
        while count > 0, let record = first {
            count -= 1
            let (destructor, value) = (record.pointee.destructor, record.pointee.value)
            first = record.pointee.next
            CLinux.free(record)
            if let destructor { callOutPerformedRelease(destructor, value) }
        }
    }
}
