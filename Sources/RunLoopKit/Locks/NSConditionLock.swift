// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// A lock with a number that threads can wait for: the states of what it guards, such as empty and full.
///
///     lock.lock(whenCondition: isFull)
///     take()
///     lock.unlock(withCondition: isEmpty)
///
/// - Threads: all members may be used from any thread, in callbacks of a loop too.
/// - Fork: the child has the lock as it was; what another thread held stays locked there.
/// - Foundation: `NSConditionLock`, which files that import RunLoopKitFoundation use instead. C: `RLConditionLock`.
// Sendable: as `NSLock`.
open class NSConditionLock: Locking, @unchecked Sendable {
    private let memory: _Cell<(UInt64, UInt64, UInt64)>
    private let label = LockName()
    private var lockMemory: UnsafeMutablePointer<RLLock> { UnsafeMutableRawPointer(memory._address).assumingMemoryBound(to: RLLock.self) }

    /// Makes a lock that is free, with the number 0.
    public convenience init() { self.init(condition: 0) }

    /// Makes a lock that is free.
    ///
    /// - Parameter condition: its number.
    public init(condition: Int) { memory = _Cell((0, 0, UInt64(bitPattern: Int64(condition)))) }

    /// The number. Another thread may have changed it by the time of the return, unless the caller holds the lock.
    open var condition: Int { RLConditionLockGetCondition(memory.conditionLock) }

    /// The name of the lock in a debugger or a log; initially nil.
    open var name: String? {
        get { label.value }
        set { label.value = newValue }
    }

    /// Waits until the lock is free, and takes it whatever its number is.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock() { lockMemory.lockChecked() }

    /// Takes the lock if it is free, whatever its number is.
    ///
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func `try`() -> Bool { lockMemory.tryLockChecked() }

    /// Takes the lock as soon as it is free, whatever its number is, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameter limit: when to give up; one that is past makes one attempt.
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func lock(before limit: ContinuousClock.Instant) -> Bool { lockMemory.lockChecked(for: limit.secondsFromNow) }

    /// Waits until the lock is free and has a number, and takes it (S-SYNC-15).
    ///
    /// - Parameter condition: the number.
    @available(*, noasync, message: "what is locked must be unlocked by the same thread")
    open func lock(whenCondition condition: Int) {
        lockMemory.expectNotMine()
        RLConditionLockLockWhenCondition(memory.conditionLock, condition)
        lockMemory.becomeMine()
    }

    /// Takes the lock if it is free and has a number.
    ///
    /// - Parameter condition: the number.
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "what is locked must be unlocked by the same thread")
    open func tryLock(whenCondition condition: Int) -> Bool { lock(whenCondition: condition, for: 0) }

    /// Takes the lock as soon as it is free and has a number, if that is before a time limit.
    ///
    /// - Parameters:
    ///   - condition: the number.
    ///   - limit: when to give up; one that is past makes one attempt.
    /// - Returns: whether the caller holds the lock now, and has to unlock it.
    @available(*, noasync, message: "what is locked must be unlocked by the same thread")
    open func lock(whenCondition condition: Int, before limit: ContinuousClock.Instant) -> Bool {
        lock(whenCondition: condition, for: limit.secondsFromNow)
    }

    private func lock(whenCondition condition: Int, for seconds: RLTimeInterval) -> Bool {
        let isLocked = RLConditionLockLockWhenConditionForSeconds(memory.conditionLock, condition, seconds)
        if isLocked { lockMemory.becomeMine() }
        return isLocked
    }

    /// Unlocks the lock with the number that it has.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    open func unlock() {
        lockMemory.expectMine()
        RLConditionLockUnlock(memory.conditionLock)
    }

    /// Unlocks the lock with a new number; the threads that wait for that number get the lock, one after the other (S-SYNC-16).
    ///
    /// - Parameter condition: the number.
    @available(*, noasync, message: "what is locked must be unlocked by the same thread")
    open func unlock(withCondition condition: Int) {
        lockMemory.expectMine()
        RLConditionLockUnlockWithCondition(memory.conditionLock, condition)
    }
}
