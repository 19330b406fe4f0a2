import CLinux
import CRunLoop
import Synchronization

// The functions of <runloop/sync.h>, and what the inline ones call.

@_cdecl("RLConditionWait_") @implementation
public func RLConditionWait_(_ condition: UnsafeMutablePointer<RLCondition>, _ seconds: Double) -> Bool {
    let condition = UnsafeMutableRawPointer(condition).cast(to: Condition.self)
    let isInTime = condition.sleep(until: Clock.deadline(in: seconds))
    _ = condition.mutex.lockWord()
    return isInTime
}

@_cdecl("RLConditionWaitUntilDate_") @implementation
public func RLConditionWaitUntilDate_(_ condition: UnsafeMutablePointer<RLCondition>, _ date: Double) -> Bool {
    RLConditionWait_(condition, date - RLAbsoluteTimeGetCurrent())
}

@_cdecl("RLConditionWake_") @implementation
public func RLConditionWake_(_ condition: UnsafeMutablePointer<RLCondition>, _ all: Bool) {
    UnsafeMutableRawPointer(condition).cast(to: Condition.self).wake(all ? .max : 1)
}

@_cdecl("RLConditionLockWait_") @implementation
public func RLConditionLockWait_(_ lock: UnsafeMutablePointer<RLConditionLock>, _ value: Int, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(lock).cast(to: ConditionLock.self).lockWhen(value, until: Clock.deadline(in: seconds))
}

@_cdecl("RLConditionLockWake_") @implementation
public func RLConditionLockWake_(_ lock: UnsafeMutablePointer<RLConditionLock>) {
    UnsafeMutableRawPointer(lock).cast(to: ConditionLock.self).unlockAndWake()
}

@_cdecl("RLOnceCall_") @implementation
public func RLOnceCall_(_ once: UnsafeMutablePointer<RLOnce>, _ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    UnsafeMutableRawPointer(once).cast(to: Once.self).call(function, info)
}

@_cdecl("RLSemaphoreWait_") @implementation
public func RLSemaphoreWait_(_ semaphore: UnsafeMutablePointer<RLSemaphore>, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(semaphore).cast(to: Semaphore.self).wait(until: Clock.deadline(in: seconds))
}

@_cdecl("RLBarrierWait") @implementation
public func RLBarrierWait(_ barrier: UnsafeMutablePointer<RLBarrier>) -> Bool {
    UnsafeMutableRawPointer(barrier).cast(to: Barrier.self).wait()
}

@_cdecl("RLSynchronized") @implementation
public func RLSynchronized(_ object: UnsafeRawPointer?, _ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    guard let object else { return callOutPerformed(function, info) }
    synchronize(object, function, info)
}
