// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The library functions that the inline functions of <runloop/lock.h> call.

@c @implementation
public func RLWordLock_(_ word: UnsafeMutablePointer<UInt32>) {
    _ = UnsafeMutableRawPointer(word).cast(to: SyncWord.self).lockWord()
}

@c @implementation
public func RLWordLockForSeconds_(_ word: UnsafeMutablePointer<UInt32>, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(word).cast(to: SyncWord.self).lockWord(until: Clock.deadline(in: seconds))
}

@c @implementation
public func RLWordLockBeforeDate_(_ word: UnsafeMutablePointer<UInt32>, _ date: Double) -> Bool {
    RLWordLockForSeconds_(word, date - RLAbsoluteTimeGetCurrent())
}

@c @implementation
public func RLWordWake_(_ word: UnsafeRawPointer) { wakeOne(at: word) }

@c @implementation
public func RLLockCheck_(_ lock: UnsafeMutablePointer<RLLock>, _ locked: Bool) {
    let lock = UnsafeMutableRawPointer(lock).cast(to: CheckedLock.self)
    if locked { lock.becomeMine() } else { lock.checkLock() }
}

@c @implementation
public func RLLockCheckUnlock_(_ lock: UnsafeMutablePointer<RLLock>) {
    UnsafeMutableRawPointer(lock).cast(to: CheckedLock.self).checkUnlock()
}

@c @implementation
public func RLLockMisused_(_ what: UnsafePointer<CChar>) { trap(what) }

@c @implementation
public func RLReadWriteLockWait_(_ lock: UnsafeMutablePointer<RLReadWriteLock>, _ writes: Bool, _ seconds: Double) -> Bool {
    UnsafeMutableRawPointer(lock).cast(to: ReadWriteWord.self).lockWord(writes: writes, until: Clock.deadline(in: seconds))
}

@c @implementation
public func RLReadWriteLockWake_(_ lock: UnsafeMutablePointer<RLReadWriteLock>, _ word: UInt32) {
    UnsafeMutableRawPointer(lock).cast(to: ReadWriteWord.self).wake(word)
}
