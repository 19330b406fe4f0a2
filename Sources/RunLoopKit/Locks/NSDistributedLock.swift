// SPDX-License-Identifier: MIT
/// A lock that is a file, with Foundation's names; ``DistributedLock`` is the same with errors that are thrown, and can be awaited.
///
/// - Threads: all members may be used from any thread; it is the object that holds the lock, and not a thread.
/// - Foundation: `NSDistributedLock`, which Foundation on Linux has not. C: `RLDistributedLockRef`.
// Sendable: the only property is a constant and Sendable.
open class NSDistributedLock: @unchecked Sendable {
    /// The same lock, with errors that are thrown.
    public let lock: DistributedLock

    /// Makes an object for the lock at a path; no file is made or looked at (S-DLOCK-1).
    ///
    /// - Parameter path: of the file, whose folder has to exist when the lock is taken. One that cannot be a file's gives nil.
    public init?(path: String) {
        guard let lock = try? DistributedLock(path: path) else { return nil }
        self.lock = lock
    }

    /// Locks if the lock is free; never waits for a holder (S-DLOCK-3).
    ///
    /// - Returns: whether this object holds the lock now, by this call.
    open func `try`() -> Bool { (try? lock.tryLock()) ?? false }

    /// Unlocks, and removes the file (S-DLOCK-6).
    ///
    /// - Returns: false if this object does not hold the lock, or does no more because it was broken. Foundation raises an exception.
    @discardableResult
    open func unlock() -> Bool { (try? lock.unlock()) != nil }

    /// Breaks the lock that this object saw last; what was locked since is left alone (S-DLOCK-8).
    open func `break`() { try? lock.breakLock() }

    /// When the lock was locked, by whomever; nil if nobody holds it, or that cannot be found out (S-DLOCK-7).
    @_disfavoredOverload
    public var lockDate: ContinuousClock.Instant? { try? lock.lockDate }
}
