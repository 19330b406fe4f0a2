// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/thread.h>.

@c @implementation
public func RLThreadGetTypeID() -> UInt { UInt(ObjectType.thread.rawValue) }

@c @implementation
public func RLThreadCreate(
    _ body: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) -> OpaquePointer {
    ThreadPointer.make(body, info, release).handle
}

@c @implementation
public func RLThreadSetName(_ thread: OpaquePointer?, _ name: UnsafePointer<CChar>?) {
    object(thread, as: Thread.self, "RLThreadSetName")?.setName(name)
}

@c @implementation
public func RLThreadSetStackSize(_ thread: OpaquePointer?, _ stackSize: Int) {
    // A size_t: a negative value here is more than the address space has.
    object(thread, as: Thread.self, "RLThreadSetStackSize")?.setUp { $0.pointee.stackSize = stackSize < 0 ? .max : stackSize }
}

@c @implementation
public func RLThreadSetPriority(_ thread: OpaquePointer?, _ priority: Int32) {
    object(thread, as: Thread.self, "RLThreadSetPriority")?.setUp { $0.pointee.priority = max(-20, min(priority, 19)) }
}

@c @implementation
public func RLThreadGetName(_ thread: OpaquePointer?) -> UnsafePointer<CChar>? {
    UnsafePointer(object(thread, as: Thread.self, "RLThreadGetName")?.name)
}

@c @implementation
public func RLThreadStart(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadStart")?.start() ?? false
}

@c @implementation
public func RLThreadGetRunLoop(_ thread: OpaquePointer?) -> OpaquePointer? {
    guard let thread = object(thread, as: Thread.self, "RLThreadGetRunLoop") else { return nil }
    thread.waitForStart()
    return thread.pointee.loop.load(ordering: .acquiring)?.handle
}

@c @implementation
public func RLThreadGetCurrent() -> OpaquePointer? { ThreadPointer.current?.handle }

@c @implementation
public func RLThreadIsMain() -> Bool { RunLoop.isMainThread }

@c @implementation
public func RLThreadCancel(_ thread: OpaquePointer?) {
    object(thread, as: Thread.self, "RLThreadCancel")?.cancel()
}

@c @implementation
public func RLThreadIsCancelled(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsCancelled")?.isCancelled ?? false
}

@c @implementation
public func RLThreadIsExecuting(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsExecuting")?.isExecuting ?? false
}

@c @implementation
public func RLThreadIsFinished(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadIsFinished")?.isFinished ?? false
}

@c @implementation
public func RLThreadJoin(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadJoin")?.join() ?? false
}

@c @implementation
public func RLThreadStop(_ thread: OpaquePointer?, _ performsQueued: Bool) {
    object(thread, as: Thread.self, "RLThreadStop")?.stop(performsQueued: performsQueued)
}

@c @implementation
public func RLThreadEnd(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadEnd")?.end() ?? false
}

@c @implementation
public func RLThreadDetachNew(
    _ body: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) -> Bool {
    let thread = ThreadPointer.make(body, info, release)
    let isStarted = thread.start()
    thread.release()
    return isStarted
}

@c @implementation
public func RLThreadDetach(_ thread: OpaquePointer?) -> Bool {
    object(thread, as: Thread.self, "RLThreadDetach")?.detach() ?? false
}

@c @implementation
public func RLThreadSetResult(_ thread: OpaquePointer?, _ result: UnsafeMutableRawPointer?) {
    object(thread, as: Thread.self, "RLThreadSetResult")?.pointee.result = result
}

@c @implementation
public func RLThreadGetResult(_ thread: OpaquePointer?) -> UnsafeMutableRawPointer? {
    guard let thread = object(thread, as: Thread.self, "RLThreadGetResult"), thread.isFinished else { return nil }
    return thread.pointee.result
}

@c @implementation
public func RLThreadGetStackSize(_ thread: OpaquePointer?) -> Int {
    object(thread, as: Thread.self, "RLThreadGetStackSize")?.stackSize ?? 0
}

@c @implementation
public func RLThreadChangePriority(_ thread: OpaquePointer?, _ priority: Int32) -> Int32 {
    let value = max(-20, min(priority, 19))
    return object(thread, as: Thread.self, "RLThreadChangePriority")?.changePriority(value) ?? rl_change_priority(0, value)
}

@c @implementation
public func RLThreadGetPriority(_ thread: OpaquePointer?) -> Int32 {
    object(thread, as: Thread.self, "RLThreadGetPriority")?.priority ?? rl_priority(0)
}

@c @implementation
public func RLThreadSetValue(_ key: UnsafeRawPointer?, _ value: UnsafeMutableRawPointer?, _ destructor: PerformFunction?) {
    if let key { ThreadValue.set(key, value, destructor) }
}

@c @implementation
public func RLThreadGetValue(_ key: UnsafeRawPointer?) -> UnsafeMutableRawPointer? { key.flatMap { ThreadValue.get($0) } }

@c @implementation
public func RLThreadSleepForSeconds(_ seconds: Double) {
    let deadline = Clock.deadline(in: seconds)
    var time = timespec(nanoseconds: deadline)
    while deadline == Clock.never || Clock.now() < deadline { _ = rl_sleep_until(&time) }
}

@c @implementation
public func RLThreadSleepUntilDate(_ date: Double) { RLThreadSleepForSeconds(date - RLAbsoluteTimeGetCurrent()) }

@c @implementation
public func RLThreadCopyAll(_ count: UnsafeMutablePointer<Int>?) -> UnsafeMutablePointer<OpaquePointer?> {
    Threads.copyAll(count)
}

@c @implementation
public func RLThreadAddExitCallBack(_ thread: OpaquePointer?, _ callback: RLThreadCallBack?, _ info: UnsafeMutableRawPointer?) -> Bool {
    guard let thread = object(thread, as: Thread.self, "RLThreadAddExitCallBack"), let callback else { return false }
    return thread.addExitCallback(callback, info)
}

@c @implementation
public func RLThreadIsMultiThreaded() -> Bool { threads.pointee.areMany.load(ordering: .relaxed) != 0 }

@c @implementation
public func RLThreadSetMultiThreadedCallBack(_ callback: PerformFunction?, _ info: UnsafeMutableRawPointer?) {
    process.pointee.registryLock.lockWord()
    threads.pointee.becomesMany = callback
    threads.pointee.becomesManyInfo = info
    process.pointee.registryLock.unlockWord()
}
