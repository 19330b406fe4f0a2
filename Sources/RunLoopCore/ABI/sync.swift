// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/sync.h>, and those that its inline functions call.

@c @implementation
public func RLConditionWait_(_ condition: UnsafeMutablePointer<RLCondition>, _ seconds: Double) -> Bool {
    let condition = UnsafeMutableRawPointer(condition).cast(to: Condition.self)
    let isInTime = condition.sleep(until: Clock.deadline(in: seconds))
    _ = condition.mutex.lockWord()
    return isInTime
}

@c @implementation
public func RLConditionWaitUntilDate_(_ condition: UnsafeMutablePointer<RLCondition>, _ date: Double) -> Bool {
    RLConditionWait_(condition, date - RLAbsoluteTimeGetCurrent())
}

@c @implementation
public func RLConditionWake_(_ condition: UnsafeMutablePointer<RLCondition>, _ all: Bool) {
    UnsafeMutableRawPointer(condition).cast(to: Condition.self).wake(all ? .max : 1)
}

@c @implementation
public func RLConditionWaitInMode_(
    _ condition: UnsafeMutablePointer<RLCondition>, _ mode: UnsafePointer<CChar>?, _ seconds: Double
) -> Bool {
    let condition = UnsafeMutableRawPointer(condition).cast(to: Condition.self)
    let loop = RunLoop.current()
    return loop.wait(for: condition, in: ModeName(mode), until: loop.deadline(in: seconds))
}

@c @implementation
public func RLLockInMode_(_ lock: UnsafeMutablePointer<RLLock>, _ mode: UnsafePointer<CChar>?, _ seconds: Double) -> Bool {
    let word = UnsafeMutableRawPointer(lock).cast(to: SyncWord.self)
    let loop = RunLoop.current()
    return loop.takeLock(word, in: ModeName(mode), until: loop.deadline(in: seconds))
}

@c @implementation
public func RLConditionLockWait_(_ lock: UnsafeMutablePointer<RLConditionLock>, _ value: Int, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(lock).cast(to: ConditionLock.self).lockWhen(value, until: Clock.deadline(in: seconds))
}

@c @implementation
public func RLConditionLockWake_(_ lock: UnsafeMutablePointer<RLConditionLock>) {
    UnsafeMutableRawPointer(lock).cast(to: ConditionLock.self).unlockAndWake()
}

@c @implementation
public func RLOnceCall_(_ once: UnsafeMutablePointer<RLOnce>, _ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    UnsafeMutableRawPointer(once).cast(to: Once.self).call(function, info)
}

@c @implementation
public func RLSemaphoreWake_(_ semaphore: UnsafeRawPointer) {
    wakeSleeper(at: UnsafeRawPointer(semaphore.assumingMemoryBound(to: Semaphore.self).count))
}

@c @implementation
public func RLSemaphoreWait_(_ semaphore: UnsafeMutablePointer<RLSemaphore>, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(semaphore).cast(to: Semaphore.self).wait(until: Clock.deadline(in: seconds))
}

@c @implementation
public func RLBarrierWait(_ barrier: UnsafeMutablePointer<RLBarrier>) -> Bool {
    UnsafeMutableRawPointer(barrier).cast(to: Barrier.self).wait()
}

@c @implementation
public func RLSynchronized(_ object: UnsafeRawPointer?, _ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    guard let object else { return callOutPerformed(function, info) }
    synchronize(object, function, info)
}
