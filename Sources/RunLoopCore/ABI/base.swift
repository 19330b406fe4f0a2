// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/base.h>.

@c @implementation
public func RLGetVersion() -> UnsafePointer<CChar> {
    rl_version()
}

@c @implementation
public func RLAbsoluteTimeGetCurrent() -> Double {
    if process.pointee.manualClocks.load(ordering: .relaxed) != 0, let loop = RunLoop.ofThread, let clock = loop.manualClock {
        let date = clock.date(of: loop)
        // What the thread does next comes after what it has seen, for other loops as well.
        if !loop.isRunning { clock.endMoves() }
        return date
    }
    return Double(Clock.wallNow()) / 1e9
}

@c @implementation
public func RLRetain(_ obj: UnsafeRawPointer?) -> UnsafeRawPointer? {
    guard let object = anyObject(obj, "RLRetain") else { return nil }
    if let retain = object.kind.pointee.retain { retain(object) } else { object.pointee.references.wrappingAdd(1, ordering: .relaxed) }
    return obj
}

@c @implementation
public func RLRelease(_ obj: UnsafeRawPointer?) {
    anyObject(obj, "RLRelease")?.releaseByClient()
}

@c @implementation
public func RLGetRetainCount(_ obj: UnsafeRawPointer?) -> Int {
    guard let object = anyObject(obj, "RLGetRetainCount") else { return 0 }
    let count = object.kind.pointee.retainCount.map { $0(object) } ?? Int(object.pointee.references.load(ordering: .relaxed))
    return count & Int(ObjectHeader.ending - 1)
}

@c @implementation
public func RLEqual(_ a: UnsafeRawPointer?, _ b: UnsafeRawPointer?) -> Bool {
    let first = anyObject(a, "RLEqual")
    let second = anyObject(b, "RLEqual")
    guard let first, let second, first.kind == second.kind, let isEqual = first.kind.pointee.isEqual else { return first == second }
    return isEqual(first, second)
}

@c @implementation
public func RLHash(_ obj: UnsafeRawPointer?) -> UInt {
    guard let object = anyObject(obj, "RLHash") else { return 0 }
    if let hash = object.kind.pointee.hash { return hash(object) }
    return UInt(bitPattern: obj)
}

@c @implementation
public func RLGetTypeIDOf(_ obj: UnsafeRawPointer?) -> UInt {
    anyObject(obj, "RLGetTypeIDOf").map { UInt($0.pointee.type.load(ordering: .relaxed)) } ?? 0
}

@c @implementation
public func RLCopyDescription(_ obj: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
    anyObject(obj, "RLCopyDescription").flatMap { $0.copyDescription() }
}

@c @implementation
public func RLSetLogHandler(
    _ handler: (@convention(c) (UnsafePointer<CChar>, UnsafeMutableRawPointer?) -> Void)?, _ info: UnsafeMutableRawPointer?
) {
    Log.setHandler(handler, info)
}

/// The object behind a reference of any type; traps for anything else (S-ARG-3).
func anyObject(_ reference: UnsafeRawPointer?, _ function: StaticString) -> ObjectPointer? {
    guard let reference else { return nil }
    let object = UnsafeMutableRawPointer(mutating: reference).assumingMemoryBound(to: ObjectHeader.self)
    let type = object.pointee.type.load(ordering: .relaxed)
    // A number that no kind has is other memory of the client's.
    if type == ObjectType.freed.rawValue || type >= UInt16(ObjectType.end) || object.kind.pointee.destroy == nil { trap(function, "not an object of this library, or one that was released too often") }
    return object
}
