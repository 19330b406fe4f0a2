// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

public import Synchronization

/// A value that many threads may read at a time, or one may change.
///
///     let routes = ReadWrite<[String: Int]>([:])
///     let hops = routes.withReadLock { $0["home"] }
///     routes.withWriteLock { $0["home"] = 3 }
///
/// It pays where many threads read, for longer than a lock takes; else a ``Guarded`` is faster. A thread that reads must not read
/// again in its closure: a writer that waits keeps out new readers, so that writers do not starve (S-SYNC-11).
///
/// Lock and value lie where the `ReadWrite` lies; nothing is allocated.
///
/// - Threads: any, in callbacks of a loop too.
/// - Fork: the child has the lock as it was; what another thread held stays locked there.
/// - Foundation: none. C: `RLReadWriteLock`.
// Sendable: the value is changed under the lock only, alone, and several threads may look at it.
public struct ReadWrite<State: ~Copyable & Sendable>: ~Copyable, @unchecked Sendable {
    @usableFromInline
    let word: _Cell<UInt64>
    @usableFromInline
    let state: _Cell<State>

    /// Puts a value under a lock that is free.
    ///
    /// - Parameter state: the value to guard.
    @inlinable
    public init(_ state: consuming State) {
        word = _Cell(0)
        self.state = _Cell(state)
    }

    /// Calls a closure with the value, beside other readers, when no thread changes it or waits to change it.
    ///
    /// - Parameter body: reads the value. It cannot await anything.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; the lock is unlocked then too.
    @inlinable
    public borrowing func withReadLock<Result: ~Copyable, Failure>(
        _ body: (borrowing State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        ReadWriteWord.lock(word, writes: false)
        defer { ReadWriteWord.unlock(word) }
        return try body(state._address.pointee)
    }

    /// Calls a closure with the value, alone.
    ///
    /// - Parameter body: may change the value. It cannot await anything.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw; the lock is unlocked then too.
    @inlinable
    public borrowing func withWriteLock<Result: ~Copyable, Failure>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        ReadWriteWord.lock(word, writes: true)
        defer { ReadWriteWord.unlock(word) }
        return try body(&state._address.pointee)
    }

    /// Calls a closure with the value as soon as no thread changes it or waits to, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameters:
    ///   - limit: when to give up; one that is past makes one attempt.
    ///   - body: reads the value.
    /// - Returns: what the closure returned; nil if it was not called.
    /// - Throws: what the closure threw.
    @available(*, noasync, message: "a wait blocks its thread; an asynchronous function may not")
    @inlinable
    public borrowing func withReadLock<Result: ~Copyable, Failure>(
        before limit: ContinuousClock.Instant, _ body: (borrowing State) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        if !ReadWriteWord.lock(word, writes: false, before: limit) { return nil }
        defer { ReadWriteWord.unlock(word) }
        return try body(state._address.pointee)
    }

    /// Calls a closure with the value, alone, as soon as the lock is free, if that is before a time limit (S-SYNC-4).
    ///
    /// - Parameters:
    ///   - limit: when to give up; one that is past makes one attempt.
    ///   - body: may change the value.
    /// - Returns: what the closure returned; nil if it was not called.
    /// - Throws: what the closure threw.
    @available(*, noasync, message: "a wait blocks its thread; an asynchronous function may not")
    @inlinable
    public borrowing func withWriteLock<Result: ~Copyable, Failure>(
        before limit: ContinuousClock.Instant, _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        if !ReadWriteWord.lock(word, writes: true, before: limit) { return nil }
        defer { ReadWriteWord.unlock(word) }
        return try body(&state._address.pointee)
    }
}

/// `RLReadWriteLock`'s functions for code that is inlined into clients, which do not know the C library.
@usableFromInline
enum ReadWriteWord {
    private static func lock(of word: borrowing _Cell<UInt64>) -> UnsafeMutablePointer<RLReadWriteLock> {
        UnsafeMutableRawPointer(word._address).assumingMemoryBound(to: RLReadWriteLock.self)
    }

    @usableFromInline
    static func lock(_ word: borrowing _Cell<UInt64>, writes: Bool) {
        let lock = lock(of: word)
        if writes { RLReadWriteLockLockForWriting(lock) } else { RLReadWriteLockLockForReading(lock) }
    }

    @usableFromInline
    static func lock(_ word: borrowing _Cell<UInt64>, writes: Bool, before limit: ContinuousClock.Instant) -> Bool {
        let (lock, seconds) = (lock(of: word), limit.secondsFromNow)
        return writes ? RLReadWriteLockLockForWritingForSeconds(lock, seconds) : RLReadWriteLockLockForReadingForSeconds(lock, seconds)
    }

    @usableFromInline
    static func unlock(_ word: borrowing _Cell<UInt64>) { RLReadWriteLockUnlock(lock(of: word)) }
}
