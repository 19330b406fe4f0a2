// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

// The functions of <runloop/distributedlock.h>.

@c @implementation
public func RLDistributedLockGetTypeID() -> UInt { UInt(ObjectType.distributedLock.rawValue) }

@c @implementation
public func RLDistributedLockCreate(_ path: UnsafePointer<CChar>?) -> OpaquePointer? {
    guard let path else {
        rl_set_errno(EINVAL)
        return nil
    }
    return DistributedLockPointer.make(path)?.handle
}

@c @implementation
public func RLDistributedLockTryLock(_ lock: OpaquePointer?) -> Bool { distributedLock(lock, "RLDistributedLockTryLock")?.take() ?? false }

@c @implementation
public func RLDistributedLockUnlock(_ lock: OpaquePointer?) -> Bool { distributedLock(lock, "RLDistributedLockUnlock")?.giveBack() ?? false }

@c @implementation
public func RLDistributedLockGetLockDate(_ lock: OpaquePointer?, _ date: UnsafeMutablePointer<Double>?) -> Bool {
    var seconds = 0.0
    guard distributedLock(lock, "RLDistributedLockGetLockDate")?.getDate(&seconds) == true else { return false }
    date?.pointee = seconds
    return true
}

@c @implementation
public func RLDistributedLockBreakLock(_ lock: OpaquePointer?) -> Bool {
    distributedLock(lock, "RLDistributedLockBreakLock")?.breakLock() ?? false
}

@inline(never)
private func distributedLock(_ lock: OpaquePointer?, _ function: StaticString) -> DistributedLockPointer? {
    let lock = object(lock, as: DistributedLock.self, function)
    if lock == nil { rl_set_errno(EINVAL) }
    return lock
}
