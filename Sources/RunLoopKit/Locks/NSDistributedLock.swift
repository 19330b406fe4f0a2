// SPDX-License-Identifier: MIT
/// A lock that is a file, with Foundation's names; ``DistributedLock`` is the same with errors that are thrown, and can be awaited.
///
/// - Threads: all members may be used from any thread; it is the object that holds the lock, and not a thread.
/// - Foundation: `NSDistributedLock`, which Foundation on Linux does not have. C: `RLDistributedLockRef`.
// Sendable: the only property is a constant and Sendable.
open class NSDistributedLock: @unchecked Sendable {
    /// The same lock, with errors that are thrown.
    public let lock: DistributedLock

    /// Makes an object for the lock at a path; no file is made or read (S-DLOCK-1).
    ///
    /// - Parameter path: that of the file, whose directory has to exist when the lock is taken. A path that cannot be a
    ///   file's gives nil.
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
    /// - Returns: false if this object does not hold the lock, or no longer does because it was broken. Foundation
    ///   raises an exception.
    @discardableResult
    open func unlock() -> Bool { (try? lock.unlock()) != nil }

    /// Breaks the lock that this object last saw; a lock that was taken since is left alone (S-DLOCK-8).
    open func `break`() { try? lock.breakLock() }

    /// When the lock was locked, whatever its holder; nil if it is not held, or that cannot be determined (S-DLOCK-7).
    @_disfavoredOverload
    public var lockDate: ContinuousClock.Instant? { try? lock.lockDate }
}
