import CLinux
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

@_cdecl("RLThreadDetachNew") @implementation
public func RLThreadDetachNew(
    _ body: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) -> Bool {
    let thread = ThreadPointer.make(body, info, release)
    let isStarted = thread.start()
    thread.release()
    return isStarted
}

@_cdecl("RLThreadDetach") @implementation
public func RLThreadDetach(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadDetach")?.detach() ?? false
}

@_cdecl("RLThreadSetResult") @implementation
public func RLThreadSetResult(_ thread: OpaquePointer?, _ result: UnsafeMutableRawPointer?) {
    object(thread, as: Thread.self, "RLThreadSetResult")?.pointee.result = result
}

@_cdecl("RLThreadGetResult") @implementation
public func RLThreadGetResult(_ thread: OpaquePointer?) -> UnsafeMutableRawPointer? {
    guard let thread = object(thread, as: Thread.self, "RLThreadGetResult"), thread.isFinished else { return nil }
    return thread.pointee.result
}

@_cdecl("RLThreadGetStackSize") @implementation
public func RLThreadGetStackSize(_ thread: OpaquePointer?) -> Int {
    object(thread, as: Thread.self, "RLThreadGetStackSize")?.stackSize ?? 0
}

@_cdecl("RLThreadChangePriority") @implementation
public func RLThreadChangePriority(_ thread: OpaquePointer?, _ priority: Int32) -> Int32 {
    let value = max(-20, min(priority, 19))
    return object(thread, as: Thread.self, "RLThreadChangePriority")?.changePriority(value) ?? rl_change_priority(0, value)
}

@_cdecl("RLThreadGetPriority") @implementation
public func RLThreadGetPriority(_ thread: OpaquePointer?) -> Int32 {
    object(thread, as: Thread.self, "RLThreadGetPriority")?.priority ?? rl_priority(0)
}

@_cdecl("RLThreadSetValue") @implementation
public func RLThreadSetValue(_ key: UnsafeRawPointer?, _ value: UnsafeMutableRawPointer?, _ destructor: PerformFunction?) {
    if let key { ThreadValue.set(key, value, destructor) }
}

@_cdecl("RLThreadGetValue") @implementation
public func RLThreadGetValue(_ key: UnsafeRawPointer?) -> UnsafeMutableRawPointer? { key.flatMap { ThreadValue.get($0) } }

@_cdecl("RLThreadSleepForSeconds") @implementation
public func RLThreadSleepForSeconds(_ seconds: Double) {
    let deadline = Clock.deadline(in: seconds)
    var time = timespec(nanoseconds: deadline)
    while deadline == Clock.never || Clock.now() < deadline { _ = rl_sleep_until(&time) }
}

@_cdecl("RLThreadSleepUntilDate") @implementation
public func RLThreadSleepUntilDate(_ date: Double) { RLThreadSleepForSeconds(date - RLAbsoluteTimeGetCurrent()) }

@_cdecl("RLThreadCopyAll") @implementation
public func RLThreadCopyAll(_ count: UnsafeMutablePointer<Int>?) -> UnsafeMutablePointer<OpaquePointer?> {
    Threads.copyAll(count)
}

@_cdecl("RLThreadAddExitCallBack") @implementation
public func RLThreadAddExitCallBack(_ thread: OpaquePointer?, _ callback: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?) -> Bool {
    guard let thread = object(thread, as: Thread.self, "RLThreadAddExitCallBack"), let callback else { return false }
    return thread.addExitCallback(callback, info)
}

@_cdecl("RLThreadIsMultiThreaded") @implementation
public func RLThreadIsMultiThreaded() -> Bool { threads.pointee.areMany.load(ordering: .relaxed) != 0 }

@_cdecl("RLThreadSetMultiThreadedCallBack") @implementation
public func RLThreadSetMultiThreadedCallBack(_ callback: PerformFunction?, _ info: UnsafeMutableRawPointer?) {
    process.pointee.registryLock.lockWord()
    threads.pointee.becomesMany = callback
    threads.pointee.becomesManyInfo = info
    process.pointee.registryLock.unlockWord()
}
