import CRunLoop
import Synchronization

// The functions of <runloop/thread.h>.

@_cdecl("RLThreadGetTypeID") @implementation
public func RLThreadGetTypeID() -> UInt { UInt(ObjectType.thread.rawValue) }

@_cdecl("RLThreadCreate") @implementation
public func RLThreadCreate(
    _ body: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) -> OpaquePointer {
    ThreadPointer.make(body, info, release).handle
}

@_cdecl("RLThreadSetName") @implementation
public func RLThreadSetName(_ thread: OpaquePointer?, _ name: UnsafePointer<CChar>?) {
    object(thread, as: Thread.self, "RLThreadSetName")?.setName(name)
}

@_cdecl("RLThreadSetStackSize") @implementation
public func RLThreadSetStackSize(_ thread: OpaquePointer?, _ stackSize: Int) {
    // A size_t: what is negative here is more than there is.
    object(thread, as: Thread.self, "RLThreadSetStackSize")?.setUp { $0.pointee.stackSize = stackSize < 0 ? .max : stackSize }
}

@_cdecl("RLThreadSetPriority") @implementation
public func RLThreadSetPriority(_ thread: OpaquePointer?, _ priority: Int32) {
    object(thread, as: Thread.self, "RLThreadSetPriority")?.setUp { $0.pointee.priority = max(-20, min(priority, 19)) }
}

@_cdecl("RLThreadGetName") @implementation
public func RLThreadGetName(_ thread: OpaquePointer?) -> UnsafePointer<CChar>? {
    UnsafePointer(object(thread, as: Thread.self, "RLThreadGetName")?.name)
}

@_cdecl("RLThreadStart") @implementation
public func RLThreadStart(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadStart")?.start() ?? false
}

@_cdecl("RLThreadGetRunLoop") @implementation
public func RLThreadGetRunLoop(_ thread: OpaquePointer?) -> OpaquePointer? {
    object(thread, as: Thread.self, "RLThreadGetRunLoop")?.pointee.loop.load(ordering: .acquiring)?.handle
}

@_cdecl("RLThreadGetCurrent") @implementation
public func RLThreadGetCurrent() -> OpaquePointer? { ThreadPointer.current?.handle }

@_cdecl("RLThreadIsMain") @implementation
public func RLThreadIsMain() -> Bool { RunLoop.isMainThread }

@_cdecl("RLThreadCancel") @implementation
public func RLThreadCancel(_ thread: OpaquePointer?) {
    object(thread, as: Thread.self, "RLThreadCancel")?.cancel()
}

@_cdecl("RLThreadIsCancelled") @implementation
public func RLThreadIsCancelled(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsCancelled")?.isCancelled ?? false
}

@_cdecl("RLThreadIsExecuting") @implementation
public func RLThreadIsExecuting(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsExecuting")?.isExecuting ?? false
}

@_cdecl("RLThreadIsFinished") @implementation
public func RLThreadIsFinished(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsFinished")?.isFinished ?? false
}

@_cdecl("RLThreadJoin") @implementation
public func RLThreadJoin(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadJoin")?.join() ?? false
}

@_cdecl("RLThreadEnd") @implementation
public func RLThreadEnd(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadEnd")?.end() ?? false
}
