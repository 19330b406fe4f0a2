// SPDX-License-Identifier: MIT
/// A record that is in at most one list of its kind.
protocol Listed: ~Copyable {
    var next: UnsafeMutablePointer<Self>? { get set }
    var previous: UnsafeMutablePointer<Self>? { get set }
}

/// Records linked by fields of their own, the newest first. What guards the list guards those fields. The zero value is empty.
struct RecordList<Record: Listed & ~Copyable> {
    private(set) var first: UnsafeMutablePointer<Record>?

    mutating func insert(_ record: UnsafeMutablePointer<Record>) {
        record.pointee.next = first
        first?.pointee.previous = record
        first = record
    }

    /// Nothing if the record is not in the list.
    mutating func remove(_ record: UnsafeMutablePointer<Record>) {
        let next = record.pointee.next
        if let previous = record.pointee.previous {
            previous.pointee.next = next
        } else if first == record {
            first = next
        }
        next?.pointee.previous = record.pointee.previous
        record.pointee.next = nil
        record.pointee.previous = nil
    }

    /// The first record for which the body is true.
    @inline(always)
    func first(where matches: (UnsafeMutablePointer<Record>) -> Bool) -> UnsafeMutablePointer<Record>? {
        var record = first
        while let current = record, !matches(current) { record = current.pointee.next }
        return record
    }

    /// Calls the body with each record, which it may take out.
    @inline(always)
    func forEach(_ body: (UnsafeMutablePointer<Record>) -> Void) {
        var record = first
        while let current = record {
            record = current.pointee.next
            body(current)
        }
    }
}
