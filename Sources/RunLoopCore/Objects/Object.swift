// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What kind of object a handle points to; its raw value is the public type id.
enum ObjectType: UInt16 {
    /// Memory of a freed object, so that a stale handle is distinguished from a live one as long as the memory is not reused.
    case freed = 0
    case data = 1
    case runLoop = 2
    case source = 3
    case observer = 4
    case timer = 5
    case fileDescriptor = 6
    case machPort = 7
    case messagePort = 8
    case socket = 9
    /// Not an object itself: a source has a record of this kind.
    case kernelEvent = 10
    case thread = 11
    case foreignRun = 12
    case distributedLock = 13
    case clock = 14

    /// One more than the largest.
    static var end: Int { 15 }
}

/// The first bytes of every object that clients hold. A handle is a pointer to it.
struct ObjectHeader: ~Copyable {
    /// An `ObjectType`. Written at creation and at the end. Relaxed: it detects mistakes of the client, which itself orders the passing of handles.
    let type: Atomic<UInt16>
    /// Bits of `ObjectMarks`. Changed under the lock of what they stand for; relaxed, like the type.
    let marks = Atomic<UInt16>(0)
    /// References, the library's and the clients' together. Dropping one releases, dropping the last one also acquires; taking one orders nothing.
    /// Of an object that ends: `ending` and those that the client's functions take and drop meanwhile.
    let references: Atomic<UInt32>

    /// More than there can be references.
    static var ending: UInt32 { 1 << 31 }
}

/// Bits of `ObjectHeader.marks`: what is stored about an object outside its record, and is freed with it.
enum ObjectMarks {
    /// It has a name.
    static var named: UInt16 { 1 << 0 }
    /// A loop has an account of it.
    static var accounted: UInt16 { 1 << 1 }
    /// A source with a limit.
    static var limited: UInt16 { 1 << 2 }
}

typealias ObjectPointer = UnsafeMutablePointer<ObjectHeader>

/// An object with an `ObjectHeader` as its first field. What can be done with every object is in its `Kind`.
protocol Object: ~Copyable {
    static var type: ObjectType { get }
}

extension UnsafeMutablePointer where Pointee: Object & ~Copyable {
    @inline(always)
    var header: ObjectPointer {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: ObjectHeader.self)
    }

    /// Sets the type and the first reference of a zeroed block.
    func initializeHeader() {
        header.pointee.references.store(1, ordering: .relaxed)
        header.pointee.type.store(Pointee.type.rawValue, ordering: .releasing)
    }

    @inline(always)
    func retain() {
        header.pointee.references.wrappingAdd(1, ordering: .relaxed)
    }

    @inline(always)
    func tryRetain() -> Bool { header.tryRetain() }

    var isAlive: Bool { Int32(bitPattern: header.pointee.references.load(ordering: .relaxed)) > 0 }

    /// Drops a reference; the last one destroys the object. May call client code: no lock is held.
    @inline(always)
    func release() { header.release() }

    /// The handle that clients see.
    var handle: OpaquePointer { OpaquePointer(self) }
}

extension ObjectPointer {
    var kind: UnsafeMutablePointer<Kind> { Kind.of(pointee.type.load(ordering: .relaxed)) }

    /// Drops a reference that the library or a client has; the last one destroys the object. May call client code: no lock is held.
    @inline(always)
    func release() {
        if pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 { destroy() }
    }

    /// Takes a reference unless the last one was dropped. For memory that is kept valid by other means.
    func tryRetain() -> Bool {
        var count = pointee.references.load(ordering: .relaxed)
        repeat {
            if Int32(bitPattern: count) <= 0 { return false }
        } while !pointee.references.replace(&count, by: count + 1)
        return true
    }

    /// The last reference was dropped. The client's functions that are called from here may use the object, and retain and release it: that must not lead
    /// here again (S-REF-6).
    @inline(never)
    func destroy() {
        pointee.references.store(ObjectHeader.ending, ordering: .relaxed)
        kind.pointee.destroy!(self)
    }

    /// Drops a client's reference.
    func releaseByClient() {
        if let release = kind.pointee.release { release(self) } else { release() }
    }

    /// Lets a stale handle be distinguished from a live one as long as the memory is not reused.
    func markFreed() {
        if pointee.marks.load(ordering: .relaxed) != 0 { forgetMarks() }
        pointee.type.store(ObjectType.freed.rawValue, ordering: .relaxed)
    }
}

/// The object behind a handle: nil for NULL, and a trap for an object of another type (S-ARG-3).
@inline(always)
func object<Record: Object & ~Copyable>(
    _ handle: OpaquePointer?, as type: Record.Type, _ function: StaticString
) -> UnsafeMutablePointer<Record>? {
    guard let handle else { return nil }
    let record = UnsafeMutablePointer<Record>(handle)
    if record.header.pointee.type.load(ordering: .relaxed) != Record.type.rawValue {
        trapForObject(function)
    }
    return record
}
