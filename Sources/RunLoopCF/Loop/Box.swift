// SPDX-License-Identifier: MIT
import CRunLoopCF

typealias RetainFunction = @convention(c) (UnsafeRawPointer?) -> UnsafeRawPointer?
typealias ReleaseFunction = @convention(c) (UnsafeRawPointer?) -> Void
typealias DescribeFunction = @convention(c) (UnsafeRawPointer?) -> OpaquePointer?

/// A client's context of an item that librunloop cannot call by itself, because a function has CF's types or the callback another
/// shape. It is the info of the item in librunloop. Each hold of librunloop is a box of its own, since what a client's `retain`
/// returns may differ each time; without such a function there is one box, and one release.
struct Box {
    /// What the client gave, or what its `retain` returned. The first field: librunloop reads it (`RLSetReleaseOfBoxes_`).
    var info: UnsafeMutableRawPointer?
    var retain: RetainFunction?
    var release: ReleaseFunction?
    var describe: DescribeFunction?
    /// The callback, of the type of its item.
    var callout: UnsafeRawPointer?
    /// Of sources.
    var equal: (@convention(c) (UnsafeRawPointer?, UnsafeRawPointer?) -> UInt8)?
    var hash: (@convention(c) (UnsafeRawPointer?) -> UInt)?
    var schedule: (@convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, OpaquePointer?) -> Void)?
    var cancel: (@convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, OpaquePointer?) -> Void)?
    var perform: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
    var getPort: (@convention(c) (UnsafeMutableRawPointer?) -> Int32)?
    /// librunloop's hold, and that of the Create call which made the box. Atomic.
    var holds = 0
    /// Whether librunloop's hold has ended. Written before that is counted.
    var wasReleased = false
}

typealias BoxPointer = UnsafeMutablePointer<Box>

extension BoxPointer {
    /// A box for a Create call of librunloop, after which it is settled.
    static func make(_ box: Box) -> BoxPointer {
        let made = needMemory(systemAllocator, MemoryLayout<Box>.stride).assumingMemoryBound(to: Box.self)
        made.initialize(to: box)
        made.pointee.holds = box.retain == nil ? 2 : 1
        return made
    }

    /// The box that is an item's info.
    @inline(__always)
    init(info: UnsafeRawPointer?) { self = UnsafeMutableRawPointer(mutating: info!).assumingMemoryBound(to: Box.self) }

    /// What librunloop gets as `retain`.
    var retainFunction: RetainFunction? { pointee.retain == nil ? nil : boxRetain }

    func drop() {
        if !rlcf_box_release(&pointee.holds) { return }
        // A GetContext that has found the object valid reads the box with the lock; a later one finds it invalid.
        rlcf_lock_boxes()
        rlcf_unlock_boxes()
        free(UnsafeMutableRawPointer(self))
    }

    /// Ends the hold of the Create call. `current` is the info that the object has now; nil: it is invalid. No object: it could not
    /// be made. An object that there was before has not taken the box over.
    func settle(_ object: OpaquePointer?, current: UnsafeMutableRawPointer?) {
        let isOthers = object == nil || (current != nil && current != UnsafeMutableRawPointer(self))
        if pointee.retain == nil && isOthers && !pointee.wasReleased { _ = rlcf_box_release(&pointee.holds) }
        drop()
    }
}

/// Reads the context of an object that another thread may invalidate.
func readBox<Result>(_ read: () -> Result) -> Result {
    rlcf_lock_boxes()
    defer { rlcf_unlock_boxes() }
    return read()
}

/// librunloop's retain: a box with what the client's gives.
let boxRetain: RetainFunction = { info in
    let old = BoxPointer(info: info)
    let new = BoxPointer.make(old.pointee)
    new.pointee.holds = 1
    new.pointee.info = UnsafeMutableRawPointer(mutating: old.pointee.retain!(old.pointee.info))
    return UnsafeRawPointer(new)
}

let boxRelease: ReleaseFunction = { info in
    let box = BoxPointer(info: info)
    box.pointee.release?(box.pointee.info)
    box.pointee.wasReleased = true
    box.drop()
}

/// librunloop takes a string from malloc; the client's is released.
let boxDescribe: @convention(c) (UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? = { info in
    let box = BoxPointer(info: info)
    guard let describe = box.pointee.describe, let text = describe(box.pointee.info) else { return nil }
    let copy = withName(text, "copyDescription") { strdup($0!) }
    RLCFRelease(UnsafeRawPointer(text))
    return copy
}

/// Whether two functions of C are one; NULL is one with NULL.
func areSame<Function>(_ one: Function?, _ two: Function?) -> Bool { address(one) == address(two) }

func address<Function>(_ function: Function?) -> UInt {
    function.map { unsafeBitCast($0, to: UInt.self) } ?? 0
}
