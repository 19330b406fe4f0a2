// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// A lock, and what its holder can wait for.
///
///     condition.lock()
///     while !isReady { condition.wait() }
///     isReady = false
///     condition.unlock()
///
/// What the loop asks for is changed with the lock held, and signalled. The question is in a loop because a wait may return
/// without a signal, and because another thread may have been faster.
///
/// - Threads: all members may be used from any thread, in callbacks of a loop too.
/// - Fork: the child has the lock as it was, and nobody waits there.
/// - Foundation: `NSCondition`, which files that import RunLoopKitFoundation use instead. C: `RLCondition`.
// Sendable: as `NSLock`.
open class NSCondition: Locking, @unchecked Sendable {
    private let memory = _Cell<(UInt64, UInt64)>((0, 0))
    private let label = LockName()
    private var lockMemory: UnsafeMutablePointer<RLLock> { UnsafeMutableRawPointer(memory._address).assumingMemoryBound(to: RLLock.self) }

    /// Makes a condition without waiters, with a lock that is free.
    public init() {}

    /// The name of the condition in a debugger or a log; initially nil.
    open var name: String? {
        get { label.value }
        set { label.value = newValue }
    }

    /// Waits until the lock is free, and takes it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock() { lockMemory.lockChecked() }

    /// Gives the lock back.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func unlock() { lockMemory.unlockChecked() }

    /// Unlocks the lock, waits for a signal, and locks the lock again; no signal is lost between the first two steps (S-SYNC-13).
    ///
    /// - Threads: the holder of the lock; in a debug build the program ends if another thread waits.
    @available(*, noasync, message: "a wait blocks its thread; an asynchronous function may not")
    open func wait() {
        lockMemory.expectMine()
        RLConditionWait(memory.condition)
        lockMemory.becomeMine()
    }

    /// Waits as ``wait()`` does, at most until a date.
    ///
    /// - Parameter limit: when to give up; one that is past waits for nothing.
    /// - Returns: false if the limit was reached. The lock is held in either case (S-SYNC-14).
    /// - Threads: the holder of the lock.
    @available(*, noasync, message: "a wait blocks its thread; an asynchronous function may not")
    open func wait(until limit: ContinuousClock.Instant) -> Bool {
        lockMemory.expectMine()
        let isSignalled = RLConditionWaitForSeconds(memory.condition, limit.secondsFromNow)
        lockMemory.becomeMine()
        return isSignalled
    }

    /// Waits as ``wait(until:)`` does, and runs the calling thread's loop meanwhile, so that a wait that would block the main thread
    /// serves its loop (S-SYNC-22).
    ///
    /// It is one run, which a signal ends. The lock is not held while it runs.
    ///
    /// - Parameters:
    ///   - mode: the mode to run; `.common` stands for the default one.
    ///   - limit: when to give up; one that is past makes one pass.
    /// - Returns: false if the limit was reached; true if the run was stopped. The lock is held in either case.
    /// - Threads: the holder of the lock.
    /// - Foundation: no counterpart.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public final func wait(inMode mode: RunLoop.Mode, until limit: ContinuousClock.Instant = .distantFuture) -> Bool {
        let (condition, seconds) = (memory.condition, limit.secondsFromNow)
        lockMemory.expectMine()
        let isSignalled = mode.rawValue.withCString { name in
            GuestLoop.beforeRun(in: mode)
            return RunLoopExecutor.runningNested { RLConditionWaitInMode(condition, name, seconds) }
        }
        lockMemory.becomeMine()
        return isSignalled
    }

    /// Wakes one thread that waits; nothing happens if none waits.
    open func signal() { RLConditionSignal(memory.condition) }

    /// Wakes all threads that wait; they go on one after the other.
    open func broadcast() { RLConditionBroadcast(memory.condition) }
}
