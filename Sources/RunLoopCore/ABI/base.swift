import CLinux
import CRunLoop
import Synchronization

// The functions of <runloop/base.h>.

@_cdecl("RLGetVersion") @implementation
public func RLGetVersion() -> UnsafePointer<CChar> {
    rl_version()
}

@_cdecl("RLAbsoluteTimeGetCurrent") @implementation
public func RLAbsoluteTimeGetCurrent() -> Double {
    Double(Clock.wallNow()) / 1e9
}

@_cdecl("RLRetain") @implementation
public func RLRetain(_ obj: UnsafeRawPointer?) -> UnsafeRawPointer? {
    guard let object = anyObject(obj, "RLRetain") else { return nil }
    if object.type == .runLoop { object.cast(to: RunLoop.self).retainByClient() } else { object.pointee.references.wrappingAdd(1, ordering: .relaxed) }
    return obj
}

@_cdecl("RLRelease") @implementation
public func RLRelease(_ obj: UnsafeRawPointer?) {
    guard let object = anyObject(obj, "RLRelease") else { return }
    switch object.type {
    case .data: object.cast(to: Data.self).release()
    case .runLoop: object.cast(to: RunLoop.self).releaseByClient()
    case .source: object.cast(to: Source.self).release()
    case .observer: object.cast(to: Observer.self).release()
    case .timer: object.cast(to: Timer.self).release()
    case .fileDescriptor: object.cast(to: FileDescriptor.self).release()
    case .socket: object.cast(to: Socket.self).release()
    case .foreignRun: object.cast(to: ForeignRun.self).release()
    case .machPort: object.cast(to: MachPort.self).release()
    case .messagePort: object.cast(to: MessagePort.self).release()
    case .thread: object.cast(to: Thread.self).release()
    case .freed: break
    }
}

@_cdecl("RLGetRetainCount") @implementation
public func RLGetRetainCount(_ obj: UnsafeRawPointer?) -> Int {
    guard let object = anyObject(obj, "RLGetRetainCount") else { return 0 }
    if object.type == .timer { return object.cast(to: Timer.self).retainCount }
    return Int(object.pointee.references.load(ordering: .relaxed))
}

@_cdecl("RLEqual") @implementation
public func RLEqual(_ a: UnsafeRawPointer?, _ b: UnsafeRawPointer?) -> Bool {
    let first = anyObject(a, "RLEqual")
    let second = anyObject(b, "RLEqual")
    guard let first, let second, first.type == second.type else { return first == second }
    switch first.type {
    case .source: return first.cast(to: Source.self).isEqual(second.cast(to: Source.self))
    case .data: return first.cast(to: Data.self).hasSameBytes(as: second.cast(to: Data.self))
    default: return first == second
    }
}

@_cdecl("RLHash") @implementation
public func RLHash(_ obj: UnsafeRawPointer?) -> UInt {
    guard let object = anyObject(obj, "RLHash") else { return 0 }
    switch object.type {
    case .source: return object.cast(to: Source.self).hashOfInfo
    case .data: return object.cast(to: Data.self).hashOfBytes()
    default: return UInt(bitPattern: obj)
    }
}

@_cdecl("RLGetTypeIDOf") @implementation
public func RLGetTypeIDOf(_ obj: UnsafeRawPointer?) -> UInt {
    anyObject(obj, "RLGetTypeIDOf").map { UInt($0.type.rawValue) } ?? 0
}

@_cdecl("RLCopyDescription") @implementation
public func RLCopyDescription(_ obj: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
    anyObject(obj, "RLCopyDescription").flatMap { Description.of($0) }
}

@_cdecl("RLSetLogHandler") @implementation
public func RLSetLogHandler(
    _ handler: (@convention(c) (UnsafePointer<CChar>, UnsafeMutableRawPointer?) -> Void)?, _ info: UnsafeMutableRawPointer?
) {
    Log.setHandler(handler, info)
}

/// The object behind a reference of any type; a trap for what is none (S-ARG-3).
private func anyObject(_ reference: UnsafeRawPointer?, _ function: StaticString) -> ObjectPointer? {
    guard let reference else { return nil }
    let object = UnsafeMutableRawPointer(mutating: reference).assumingMemoryBound(to: ObjectHeader.self)
    if object.type == .freed { trap(function, "not an object of this library, or one that was released too often") }
    return object
}

extension ObjectPointer {
    fileprivate var type: ObjectType { ObjectType(rawValue: pointee.type.load(ordering: .relaxed)) ?? .freed }

    fileprivate func cast<Record: ~Copyable>(to type: Record.Type) -> UnsafeMutablePointer<Record> {
        UnsafeMutableRawPointer(self).assumingMemoryBound(to: type)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Clients' references are counted apart: the thread's own must not be released by them (S-LOOP-15).
    fileprivate func retainByClient() {
        pointee.clientReferences.wrappingAdd(1, ordering: .relaxed)
        retain()
    }

    fileprivate func releaseByClient() {
        if pointee.clientReferences.wrappingSubtract(1, ordering: .relaxed).newValue < 0 {
            trap("RLRelease", "a run loop was released more often than it was retained")
        }
        release()
    }
}
