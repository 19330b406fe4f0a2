// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// A lock that one thread at a time holds.
///
/// Who holds it must not lock it again, and must unlock it: in a debug build the program is stopped where that is not so, in a
/// release build the thread waits for ever, or the lock is free afterwards (S-NSLK-2). A lock costs 8 bytes of the object, and
/// no system call as long as nobody waits. What it guards is better put into a ``Guarded``, which lets nobody in without the lock.
///
/// - Threads: all members may be used from any thread, in callbacks of a loop too.
/// - Fork: the child has the lock as it was; what another thread held stays locked there.
/// - Foundation: `NSLock`, which files that import RunLoopKitFoundation use instead. C: `RLLock`.
// Sendable: the lock is used by the functions of the C library alone, which any thread may call; the name has a lock of its own.
open class NSLock: Locking, @unchecked Sendable {
    private let memory = _Cell<UInt64>(0)
    private let label = LockName()

    /// Makes a lock that is free.
    public init() {}

    /// The name of the lock in a debugger or a log; initially nil.
    open var name: String? {
        get { label.value }
        set { label.value = newValue }
    }

    /// Waits until the lock is free, and takes it (S-SYNC-8).
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock() { memory.lock.lockChecked() }

    /// Takes the lock if it is free.
    ///
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func `try`() -> Bool { memory.lock.tryLockChecked() }

    /// Takes the lock as soon as it is free, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameter limit: when to give up; one that is past makes one attempt.
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock(before limit: ContinuousClock.Instant) -> Bool { memory.lock.lockChecked(for: limit.secondsFromNow) }

    /// Takes the lock as soon as it is free, and runs the calling thread's loop meanwhile (S-SYNC-23).
    ///
    /// A free lock is taken without a run. A stop of the run does not end the wait.
    ///
    /// - Parameters:
    ///   - mode: the mode to run; `.common` stands for the default one.
    ///   - limit: when to give up; one that is past makes one pass.
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    /// - Threads: not for the holder, nor in a callback during which the thread holds the lock.
    /// - Foundation: no counterpart.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public final func lock(inMode mode: RunLoop.Mode, before limit: ContinuousClock.Instant = .distantFuture) -> Bool {
        let (lock, seconds) = (memory.lock, limit.secondsFromNow)
        lock.expectNotMine()
        let isLocked = mode.rawValue.withCString { name in
            GuestLoop.beforeRun(in: mode)
            return RunLoopExecutor.runningNested { RLLockInMode(lock, name, seconds) }
        }
        if isLocked { lock.becomeMine() }
        return isLocked
    }

    /// Unlocks the lock, and wakes a thread that waits for it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func unlock() { memory.lock.unlockChecked() }
}
