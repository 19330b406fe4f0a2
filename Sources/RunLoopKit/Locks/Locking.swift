// SPDX-License-Identifier: MIT
/// What can be locked and unlocked: ``NSLock``, ``NSRecursiveLock``, ``NSCondition``, ``NSConditionLock``.
///
/// - Foundation: `NSLocking`, which is another name of it here.
public protocol Locking {
    /// Waits until the lock is free, and takes it.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    func lock()

    /// Gives the lock back.
    @available(*, noasync, message: "use withLock: what is locked must be unlocked by the same thread")
    func unlock()
}

/// The name that Foundation has for it.
public typealias NSLocking = Locking

extension Locking {
    /// Calls a closure with the lock held.
    ///
    /// The lock is unlocked when the closure returns or throws. A closure that ends its thread leaves the lock locked.
    ///
    /// - Parameter body: what to do. It cannot await anything.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw.
    /// - Foundation: `withLock(_:)`.
    @inlinable
    public func withLock<Result: ~Copyable, Failure>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock()
        defer { unlock() }
        return try body()
    }
}
