// SPDX-License-Identifier: MIT
import CRunLoopCF

/// A date as an object.
struct DateRecord: Record {
    var header: RLCFHeader
    /// Seconds since 2001-01-01 00:00 UTC.
    var time: Double

    static var kind: UInt32 { Kind.date }
    static var mismatch: StaticString { "not a date" }
    static func tearDown(_ record: UnsafeMutablePointer<DateRecord>) {}
}

typealias DatePointer = UnsafeMutablePointer<DateRecord>

@c @implementation
public func RLCFDateGetTypeID() -> UInt { UInt(Kind.date) }

@c @implementation
public func RLCFDateCreate(_ handle: OpaquePointer?, _ time: Double) -> OpaquePointer? {
    let date = makeRecord(DateRecord.self, allocator(handle, "CFDateCreate"))
    date?.pointee.time = time
    return date?.handle
}

@c @implementation
public func RLCFDateGetAbsoluteTime(_ date: OpaquePointer?) -> Double {
    record(date, DateRecord.self, "CFDateGetAbsoluteTime").pointee.time
}

@c @implementation
public func RLCFDateGetTimeIntervalSinceDate(_ date: OpaquePointer?, _ other: OpaquePointer?) -> Double {
    record(date, DateRecord.self, "CFDateGetTimeIntervalSinceDate").pointee.time
        - record(other, DateRecord.self, "CFDateGetTimeIntervalSinceDate").pointee.time
}

@c @implementation
public func RLCFDateCompare(_ date: OpaquePointer?, _ other: OpaquePointer?, _ context: UnsafeMutableRawPointer?) -> Int {
    let (one, two) = (record(date, DateRecord.self, "CFDateCompare").pointee.time,
                      record(other, DateRecord.self, "CFDateCompare").pointee.time)
    return one < two ? -1 : one > two ? 1 : 0
}
