// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// A lock that its holder may lock again, for functions that call each other with the lock held.
///
/// It is free after as many unlocks (S-SYNC-10). Better is a function that expects the lock held: who holds a recursive lock
/// does not know whether what it guards is whole. Unlocking it on another thread does nothing; a debug build stops there.
///
/// - Threads: all members may be used from any thread, in callbacks of a loop too.
/// - Fork: the child has the lock as it was; what another thread held stays locked there.
/// - Foundation: `NSRecursiveLock`, which files that import RunLoopKitFoundation use instead. C: `RLRecursiveLock`.
// Sendable: as `NSLock`.
open class NSRecursiveLock: Locking, @unchecked Sendable {
    private let memory = _Cell<(UInt64, UInt64)>((0, 0))
    private let label = LockName()

    /// Makes a lock that is free.
    public init() {}

    /// The name of the lock in a debugger or a log; initially nil.
    open var name: String? {
        get { label.value }
        set { label.value = newValue }
    }

    /// Takes the lock once more if the calling thread holds it; else waits until it is free, and takes it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock() { RLRecursiveLockLock(memory.recursiveLock) }

    /// Takes the lock if it is free, or the calling thread's.
    ///
    /// - Returns: whether the caller holds the lock now, possibly once more, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func `try`() -> Bool { RLRecursiveLockTryLock(memory.recursiveLock) }

    /// Takes the lock as soon as it is free or if it is the calling thread's, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameter limit: when to give up; one that is past makes one attempt.
    /// - Returns: whether the caller holds the lock now, possibly once more, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock(before limit: ContinuousClock.Instant) -> Bool {
        RLRecursiveLockLockForSeconds(memory.recursiveLock, limit.secondsFromNow)
    }

    /// Unlocks the lock once; the last unlock wakes a thread that waits for it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func unlock() {
        #if DEBUG
        if memory.recursiveLock.pointee.owner != RLThisThread_() {
            RLLockMisused_("NSRecursiveLock.unlock: the calling thread does not hold the lock")
        }
        #endif
        RLRecursiveLockUnlock(memory.recursiveLock)
    }
}
