// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

public import Synchronization

/// A value that can be reached with its lock held only.
///
///     let names = Guarded<[String: Int]>([:])
///     names.withLock { $0["one"] = 1 }
///
/// Lock and value lie where the `Guarded` lies, in a constant, in an object or in another noncopyable value; nothing is allocated.
///
/// Calling ``withLock(_:)`` in its own closure stops the program in a debug build, and waits for ever in a release build. A closure
/// that ends its thread leaves the lock locked.
///
/// - Threads: any, in callbacks of a loop too.
/// - Fork: the child has the lock as it was; what another thread held stays locked there.
/// - Foundation: none; `Mutex` of the standard library is the same without a limit of time, and the thread sanitizer does not know it.
///   C: `RLLock`.
// Sendable: the value is touched under the lock only, and comes and goes as `sending`.
public struct Guarded<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline
    let word: _Cell<UInt64>
    @usableFromInline
    let value: _Cell<Value>

    /// Puts a value under a lock that is free.
    ///
    /// - Parameter value: the value to guard; no other code may use it from now on.
    @inlinable
    public init(_ value: consuming sending Value) {
        word = _Cell(0)
        self.value = _Cell(value)
    }

    /// Waits until the lock is free, and calls a closure with the value while it is held.
    ///
    /// - Parameter body: what to do with the value. It cannot await anything.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; the lock is unlocked then too.
    @inlinable
    public borrowing func withLock<Result: ~Copyable, Failure>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        GuardedLock.lock(word)
        defer { GuardedLock.unlock(word) }
        return try body(&value._address.pointee)
    }

    /// Calls a closure with the value if the lock is free.
    ///
    /// - Parameter body: what to do with the value.
    /// - Returns: what the closure returned; nil if it was not called.
    /// - Throws: what the closure threw.
    @inlinable
    public borrowing func withLockIfAvailable<Result: ~Copyable, Failure>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result? {
        if !GuardedLock.tryLock(word) { return nil }
        defer { GuardedLock.unlock(word) }
        return try body(&value._address.pointee)
    }

    /// Calls a closure with the value as soon as the lock is free, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameters:
    ///   - limit: when to give up; one that is past makes one attempt.
    ///   - body: what to do with the value.
    /// - Returns: what the closure returned; nil if it was not called.
    /// - Throws: what the closure threw.
    @available(*, noasync, message: "a wait blocks its thread; an asynchronous function may not")
    @inlinable
    public borrowing func withLock<Result: ~Copyable, Failure>(
        before limit: ContinuousClock.Instant, _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result? {
        if !GuardedLock.lock(word, before: limit) { return nil }
        defer { GuardedLock.unlock(word) }
        return try body(&value._address.pointee)
    }
}

/// `RLLock`'s functions for code that is inlined into clients, which do not know the C library.
@usableFromInline
enum GuardedLock {
    @usableFromInline
    static func lock(_ word: borrowing _Cell<UInt64>) { word.lock.lockChecked() }

    @usableFromInline
    static func tryLock(_ word: borrowing _Cell<UInt64>) -> Bool { word.lock.tryLockChecked() }

    @usableFromInline
    static func lock(_ word: borrowing _Cell<UInt64>, before limit: ContinuousClock.Instant) -> Bool {
        word.lock.lockChecked(for: limit.secondsFromNow)
    }

    @usableFromInline
    static func unlock(_ word: borrowing _Cell<UInt64>) { word.lock.unlockChecked() }
}
