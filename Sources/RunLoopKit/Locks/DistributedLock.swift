// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A lock that is a file, for processes, and for hosts that share its file system.
///
///     let lock = try DistributedLock(path: "/var/lib/program/index.lock")
///     try await lock.locked { try await rebuildIndex() }
///
/// The object that holds the lock excludes all others with the same path, those of its own process too (S-DLOCK-2). On file systems of
/// one machine the end of the holder's process frees it, however it comes (S-DLOCK-4); on all others, such as NFS, the lock is held
/// for as long as the file exists, and after a crash somebody has to break it (S-DLOCK-5). Only lock files and empty files are ever
/// changed or removed (S-DLOCK-9).
///
/// No function but ``locked(checkingEvery:isolation:_:)`` waits for a holder. All wait for the file server, if there is one.
///
/// - Threads: all members may be used from any thread; it is the object that holds the lock, and not a thread.
/// - Fork: the child holds nothing that the parent held (S-DLOCK-10).
/// - Foundation: ``NSDistributedLock``, which Foundation on Linux does not have. C: `RLDistributedLockRef`.
// Sendable: the reference is a constant to an object of the C library, whose functions may be called from any thread.
public final class DistributedLock: @unchecked Sendable {
    let reference: RLDistributedLockRef
    /// The file, as it was given.
    public let path: String
    /// Tasks that wait with this object, by numbers.
    let waiting = Locked(Waiting())

    struct Waiting {
        var tasks: [UInt: LoopElements<Void>] = [:]
        var last: UInt = 0
    }

    /// Makes an object for the lock at a path; no file is made or read (S-DLOCK-1).
    ///
    /// - Parameter path: that of the file; its directory has to exist when the lock is taken. A relative path is resolved against the
    ///   current directory now.
    /// - Throws: `EINVAL` for a path that cannot be a file's.
    public init(path: String) throws(RunLoop.SystemError) {
        if path.isCutInC { throw RunLoop.SystemError(code: RunLoop.SystemError.invalidArgument) }
        guard let made = RLDistributedLockCreate(path) else { throw .last }
        reference = made
        self.path = path
    }

    /// The last reference unlocks.
    deinit { RLRelease(RLTypeRef(reference)) }

    /// Locks if the lock is free (S-DLOCK-3).
    ///
    /// - Returns: whether this object holds the lock now, by this call.
    /// - Throws: the system's error where the lock cannot be taken; `EEXIST` and `ELOOP` if the path leads to something that is
    ///   not a lock file.
    public func tryLock() throws(RunLoop.SystemError) -> Bool {
        if RLDistributedLockTryLock(reference) { return true }
        let error = RunLoop.SystemError.last
        if error.code == EWOULDBLOCK { return false }
        throw error
    }

    /// Unlocks, and removes the file (S-DLOCK-6).
    ///
    /// - Throws: `EPERM` if this object does not hold the lock; `ESTALE` if it no longer does, because the lock was broken or the
    ///   file is another one: others may have changed what the lock was to protect.
    public func unlock() throws(RunLoop.SystemError) {
        if RLDistributedLockUnlock(reference) { return }
        let error = RunLoop.SystemError.last
        // The lock may have been free for long, but not for this object; and no file has changed now, which others would hear of.
        for task in waiting.withLock({ Array($0.tasks.values) }) { task.give(()) }
        throw error
    }

    /// Breaks the lock that this object last saw, by ``tryLock()`` or ``lockDate``; a lock that was taken since is left
    /// alone (S-DLOCK-8).
    ///
    /// The holder gets no notice: it goes on with its work. So break a lock only where the holder is known to be gone.
    ///
    /// - Throws: `EBUSY` if another process locks, unlocks or breaks it at this moment, and the system's error if the file cannot be
    ///   removed.
    public func breakLock() throws(RunLoop.SystemError) {
        if !RLDistributedLockBreakLock(reference) { throw .last }
    }

    /// When the lock was locked, whatever its holder, by the clock of its file system; nil if it is not held (S-DLOCK-7).
    ///
    /// Reading it throws the system's error if that cannot be determined.
    @_disfavoredOverload
    public var lockDate: ContinuousClock.Instant? {
        get throws(RunLoop.SystemError) {
            guard let seconds = try lockSeconds else { return nil }
            return Dates.instant(of: seconds)
        }
    }

    /// ``lockDate`` as the C library has it, in seconds of the wall clock since the beginning of 2001.
    package var lockSeconds: Double? {
        get throws(RunLoop.SystemError) {
            var seconds = 0.0
            if RLDistributedLockGetLockDate(reference, &seconds) { return seconds }
            let error = RunLoop.SystemError.last
            if error.code == ENOENT { return nil }
            throw error
        }
    }
}
