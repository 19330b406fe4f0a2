/* SPDX-License-Identifier: MIT */
/*
 * RLDistributedLockRef: a lock that is a file, for processes, and for hosts that share its file
 * system.
 *
 *     RLDistributedLockRef lock = RLDistributedLockCreate("/var/lib/program/index.lock");
 *     if (RLDistributedLockTryLock(lock)) {
 *         rebuild_index();
 *         RLDistributedLockUnlock(lock);
 *     }
 *
 * The object that holds the lock excludes all others with the same path, including those of its own
 * process. No call waits for a holder: a program tries again later, or uses a source of
 * kRLKernelFilterDistributedLock (kernelevent.h), which reports when the lock is free.
 * File systems: on those of one machine (ext4, xfs, btrfs, f2fs, zfs, tmpfs, overlay and the like)
 * the end of the holder's process, in whatever way, frees the lock; what remains of the file is not
 * a held lock. On all others (NFS, SMB, FUSE and the like) the lock is held for as long as the file
 * exists: after a crash a program has to break it. RLDistributedLockGetLockDate returns when it was
 * locked, and the file says which process of which host made it.
 * Only lock files and empty files are ever changed or removed; use the path for nothing else. The
 * directory must exist, and a process that locks must have permission to write in it. Files are made
 * with the mode 0666 less the umask; a user who may not write another user's file can take the lock
 * after an unlock, but has to break it first if that user's process ended without one. In a directory
 * with the sticky bit, such as /tmp, only that user, the directory's owner and root can remove the file
 * then; for others RLDistributedLockTryLock returns false with EACCES until one of them has.
 * Errors: functions that return false set errno; those of open(2), such as EACCES, EROFS, ENOSPC
 * and EMFILE, mean that nothing has changed.
 * Threads: any thread may call any function, and may unlock what another thread locked. A call waits
 * for another thread's call with the same object, and for the file server.
 * fork: the child does not hold the locks of the parent, which keeps them. Do not call _Fork or
 * clone(2) without exec while a lock is held: such a child would hold it too.
 * CF: none; NSDistributedLock in Foundation. Rules: Docs/semantics.md, section 33.
 */
#ifndef RUNLOOP_DISTRIBUTEDLOCK_H
#define RUNLOOP_DISTRIBUTEDLOCK_H

#include "base.h"

RL_HEADER_BEGIN

/** A lock that is a file. */
typedef struct RLDistributedLock *RLDistributedLockRef;

/**
 * Returns the type id of distributed locks, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTypeID RLDistributedLockGetTypeID(void);

/**
 * Makes an object for the lock at a path; it neither makes nor looks at a file.
 *
 * path: of a file; copied. A relative path is resolved against the current directory now.
 * Returns: the object; NULL with EINVAL for NULL and for a path that cannot be a file's (empty, or
 *     ending in /, /. or /..), or with the error of getcwd(3).
 * Threads: any. Ownership: the caller's to release; the last release unlocks.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSDistributedLock's initWithPath: in Foundation. Since 0.2.
 */
RL_EXPORT RLDistributedLockRef RL_NULLABLE RLDistributedLockCreate(const char *RL_NULLABLE path)
    RL_WARN_UNUSED_RESULT;

/**
 * Locks if the lock is free.
 *
 * Returns: true: the object holds the lock; false: it does not.
 * Errors: EWOULDBLOCK: it is held, by this object or elsewhere, or another process has a lease of
 *     the file (fcntl(2)). EEXIST, ELOOP: the path leads to something that is not a lock file.
 *     Others: it cannot be locked. EINVAL for NULL.
 * Threads: any; never waits for a holder. Ownership: after true the caller unlocks.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSDistributedLock's try in Foundation. Since 0.2.
 */
RL_EXPORT bool RLDistributedLockTryLock(RLDistributedLockRef RL_NULLABLE lock);

/**
 * Unlocks, and removes the file.
 *
 * Returns: true: the object held the lock up to now; false: something is wrong.
 * Errors: EPERM: the object does not hold the lock. ESTALE: it no longer does, because the lock was
 *     broken, or the file was removed or replaced; nothing is removed. Others, not on the file
 *     systems of one machine: the file cannot be removed, and the object still holds the lock.
 *     EINVAL for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSDistributedLock's unlock in Foundation. Since 0.2.
 */
RL_EXPORT bool RLDistributedLockUnlock(RLDistributedLockRef RL_NULLABLE lock);

/**
 * Tells when the lock was locked, whichever object holds it.
 *
 * date: receives the time of the file, by the clock of its file system. May be NULL; unchanged if
 *     the result is false.
 * Returns: true: it is held; false: it is not, or that cannot be determined.
 * Errors: ENOENT: it is not held. EEXIST, ELOOP: as with RLDistributedLockTryLock. Others: it
 *     cannot be determined, as with EBUSY while another process has a lease of the file (fcntl(2)).
 *     EINVAL for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSDistributedLock's lockDate in Foundation. Since 0.2.
 */
RL_EXPORT bool RLDistributedLockGetLockDate(RLDistributedLockRef RL_NULLABLE lock,
                                            RLAbsoluteTime *RL_NULLABLE date);

/**
 * Breaks the lock that the object last saw: takes it from its holder.
 *
 * That is the lock for which RLDistributedLockTryLock returned EWOULDBLOCK, or
 * RLDistributedLockGetLockDate true, if that was the object's last look. A lock that was taken since
 * is left alone. An object that never looked breaks the present one. The holder gets no notice: it
 * goes on with its work, and its unlock returns false. So break a lock only where the holder is
 * known to be gone. Other processes may lock before the caller does.
 * Returns: true: what was seen is over; false: it goes on, or may.
 * Errors: EBUSY: another process locks, unlocks or breaks it at this moment, or did when the object
 *     looked, which then has to look again; or has a lease of the file. EEXIST, ELOOP: as with
 *     RLDistributedLockTryLock. Others: the file cannot be removed. EINVAL for NULL.
 * Threads: any. If two threads break a lock at once, on the file systems of one machine neither
 *     breaks a lock that was taken since; on others that is possible, if it is taken between a look
 *     and the removal that follows it.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSDistributedLock's breakLock in Foundation. Since 0.2.
 */
RL_EXPORT bool RLDistributedLockBreakLock(RLDistributedLockRef RL_NULLABLE lock);

RL_HEADER_END

#endif
