/* SPDX-License-Identifier: MIT */
/*
 * RLLock, RLRecursiveLock, RLReadWriteLock: locks that are structures of the program's own.
 *
 *     static RLLock lock = RL_LOCK_INIT;
 *     RLLockLock(&lock);
 *     counter++;
 *     RLLockUnlock(&lock);
 *
 * Zeroed memory is an unlocked lock. Nothing is allocated and nothing has to be destroyed, so a
 * lock may lie in static memory, in another structure or on the stack of a thread that outlives its
 * use. It must not be copied or moved while it is used; its memory may be freed when no call on it
 * is under way. The pointers are not NULL.
 * A free lock costs one atomic instruction to lock and one to unlock, both inline. A thread that
 * finds a lock taken tries again for about a microsecond, unless others sleep already, and then
 * sleeps in the kernel until the lock is unlocked. Spinning any longer wastes the processor that
 * the holder may need. A lock that only spins is not offered: while its holder is preempted, the
 * waiting threads would use their whole processors.
 * Time limits are seconds from the call, or a date that is converted to such a number at the call:
 * 0 and less make one attempt. No function is a cancellation point. Locks do not pass priorities
 * on: other threads may keep a holder of low priority from running.
 * fork: the child finds each lock as it was, so a lock that another thread held stays locked there.
 * RL_LOCK_AT_FORK keeps a lock, and what it guards, usable.
 * Without that, a new thread of the child to which libc gives the memory of a thread that held a
 * recursive lock may lock that lock again.
 * RL_CHECKS: a file that is compiled with -DRL_CHECKS=1 traps where a lock is misused; with
 * -DRL_CHECKS=2 it also reports locks that are taken in two orders (lockorder.h).
 * Thread sanitizer: knows these locks, and reports lock orders that can block for ever. Helgrind
 * does so in files compiled with -DRL_HELGRIND=1, which need valgrind/helgrind.h.
 * Functions whose names end in an underscore are internal.
 * CF: none; NSLock and NSRecursiveLock in Foundation. Rules: Docs/semantics.md, section 31.
 */
#ifndef RUNLOOP_LOCK_H
#define RUNLOOP_LOCK_H

#include "base.h"

#ifndef RL_CHECKS
#define RL_CHECKS 0
#endif
#ifndef RL_HELGRIND
#define RL_HELGRIND 0
#endif
#if RL_CHECKS >= 2
#include "lockorder.h"
/* More seconds than these, and NaN, are no limit. */
#define RL_WILL_WAIT_(lock, seconds) RLLockOrderWillLock_(lock, (seconds) <= 504911232.0 ? 16u : 0u)
#else
#define RL_WILL_WAIT_(lock, seconds) ((void)(lock))
#endif

RL_HEADER_BEGIN

/** A lock: 8 bytes. The fields are the library's. */
typedef struct RLLock {
    uint32_t word; /* 1 held, 2 with sleepers, 4 the owner is known */
    uint32_t owner;
} RLLock;

/** A lock that its holder may lock again: 16 bytes. */
typedef struct RLRecursiveLock {
    uint32_t word;
    uint32_t count; /* how often beyond the first time; the holder's */
    uintptr_t owner;
} RLRecursiveLock;

/** A lock for many readers or one writer: 8 bytes. */
typedef struct RLReadWriteLock {
    uint32_t word; /* the number of readers and the bits below */
    uint32_t owner;
} RLReadWriteLock;

/** Initializers for static memory; all are zeroes. */
#define RL_LOCK_INIT {0, 0}
#define RL_RECURSIVE_LOCK_INIT {0, 0, 0}
#define RL_READ_WRITE_LOCK_INIT {0, 0}

/* What the inline functions below call of the library. */
RL_EXPORT void RLWordLock_(uint32_t *RL_NONNULL word);
RL_EXPORT bool RLWordLockForSeconds_(uint32_t *RL_NONNULL word, RLTimeInterval seconds);
RL_EXPORT bool RLWordLockBeforeDate_(uint32_t *RL_NONNULL word, RLAbsoluteTime date);
RL_EXPORT void RLWordWake_(const void *RL_NONNULL word);
RL_EXPORT void RLLockCheck_(RLLock *RL_NONNULL lock, bool locked);
RL_EXPORT void RLLockCheckUnlock_(RLLock *RL_NONNULL lock);
RL_EXPORT bool RLReadWriteLockWait_(RLReadWriteLock *RL_NONNULL lock, bool writes, RLTimeInterval seconds);
RL_EXPORT void RLReadWriteLockWake_(RLReadWriteLock *RL_NONNULL lock, uint32_t word);
RL_EXPORT void RLLockMisused_(const char *RL_NONNULL what);

/* The word of a read-write lock. */
#define RL_READERS_ 0x1FFFFFFFu
#define RL_WRITER_ 0x20000000u
#define RL_READERS_WAIT_ 0x40000000u
#define RL_WRITERS_WAIT_ 0x80000000u
#define RL_WAITERS_ (RL_READERS_WAIT_ | RL_WRITERS_WAIT_)

/* The thread sanitizer is told of locks by these; elsewhere they are nothing. */
#if defined(__SANITIZE_THREAD__)
#define RL_TELL_SANITIZER_ 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RL_TELL_SANITIZER_ 1
#endif
#endif
#if defined(RL_TELL_SANITIZER_)
extern void __tsan_mutex_pre_lock(void *RL_NULLABLE address, unsigned flags);
extern void __tsan_mutex_post_lock(void *RL_NULLABLE address, unsigned flags, int recursion);
extern int __tsan_mutex_pre_unlock(void *RL_NULLABLE address, unsigned flags);
extern void __tsan_mutex_post_unlock(void *RL_NULLABLE address, unsigned flags);
extern void __tsan_acquire(void *RL_NULLABLE address);
extern void __tsan_release(void *RL_NULLABLE address);
/* Bits: 1 zeroed memory is a lock; 8 for reading; 16 an attempt, 32 that failed. */
#define RL_WILL_LOCK_(lock, flags) __tsan_mutex_pre_lock(lock, 1u | (flags))
#define RL_DID_LOCK_(lock, flags) __tsan_mutex_post_lock(lock, 1u | (flags), 0)
#define RL_WILL_UNLOCK_(lock, flags) ((void)__tsan_mutex_pre_unlock(lock, 1u | (flags)))
#define RL_DID_UNLOCK_(lock, flags) __tsan_mutex_post_unlock(lock, 1u | (flags))
/* What the thread did before the one is seen by threads that have passed the other. */
#define RL_PUBLISHES_(word) __tsan_release(word)
#define RL_SEES_(word) __tsan_acquire(word)
#define RL_HIDES_(word) ((void)(word))
#elif RL_HELGRIND
#include <valgrind/helgrind.h>
/* The words of the lock itself are read without a lock, which is no race: they are atomic. */
#define RL_WILL_LOCK_(lock, flags) ((void)(lock))
#define RL_DID_LOCK_(lock, flags)                                 \
    do {                                                          \
        if ((flags) & 32u) break;                                 \
        VALGRIND_HG_DISABLE_CHECKING(lock, sizeof *(lock));       \
        ANNOTATE_RWLOCK_ACQUIRED(lock, ((flags) & 8u) ? 0 : 1);   \
    } while (0)
#define RL_WILL_UNLOCK_(lock, flags) ANNOTATE_RWLOCK_RELEASED(lock, ((flags) & 8u) ? 0 : 1)
#define RL_DID_UNLOCK_(lock, flags) ((void)(lock))
#define RL_PUBLISHES_(word) ANNOTATE_HAPPENS_BEFORE(word)
#define RL_SEES_(word) ANNOTATE_HAPPENS_AFTER(word)
#define RL_HIDES_(word) VALGRIND_HG_DISABLE_CHECKING(word, sizeof *(word))
#elif RL_CHECKS >= 2
#define RL_WILL_LOCK_(lock, flags) RLLockOrderWillLock_(lock, flags)
#define RL_DID_LOCK_(lock, flags) RLLockOrderDidLock_(lock, flags)
#define RL_WILL_UNLOCK_(lock, flags) RLLockOrderWillUnlock_(lock)
#define RL_DID_UNLOCK_(lock, flags) ((void)(lock))
#else
#define RL_WILL_LOCK_(lock, flags) ((void)(lock))
#define RL_DID_LOCK_(lock, flags) ((void)(lock))
#define RL_WILL_UNLOCK_(lock, flags) ((void)(lock))
#define RL_DID_UNLOCK_(lock, flags) ((void)(lock))
#endif

#if !defined(RL_PUBLISHES_)
#define RL_PUBLISHES_(word) ((void)(word))
#define RL_SEES_(word) ((void)(word))
#define RL_HIDES_(word) ((void)(word))
#endif

/* A number of the calling thread that is never 0, the same in the child of fork: where its thread pointer leads. */
static inline uintptr_t RLThisThread_(void) {
    uintptr_t thread;
#if defined(__x86_64__) && defined(__LP64__)
    __asm__ volatile("mov %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(thread));
#else
    thread = (uintptr_t)__builtin_thread_pointer();
#endif
    return thread;
}

static inline bool RLWordTryLock_(uint32_t *RL_NONNULL word) {
    uint32_t unlocked = 0;
    return __atomic_compare_exchange_n(word, &unlocked, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void RLWordUnlock_(uint32_t *RL_NONNULL word) {
    if (__builtin_expect(__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & 2, 0)) RLWordWake_(word);
}

/**
 * Locks a lock; waits until it is free.
 *
 * Errors: a thread that already holds the lock waits for ever, or traps with RL_CHECKS.
 * Threads: any. Ownership: the caller unlocks. Reentrancy: call-outs too, and not in signal
 * handlers; calls no call-out.
 * CF: none; NSLock's lock in Foundation. Since 0.2.
 */
static inline void RLLockLock(RLLock *RL_NONNULL lock) {
    RL_WILL_LOCK_(lock, 0u);
    if (RL_CHECKS) RLLockCheck_(lock, false);
    if (__builtin_expect(!RLWordTryLock_(&lock->word), 0)) RLWordLock_(&lock->word);
    if (RL_CHECKS) RLLockCheck_(lock, true);
    RL_DID_LOCK_(lock, 0u);
}

/* Says how an attempt ended. */
static inline bool RLLockTried_(RLLock *RL_NONNULL lock, bool locked) {
    if (RL_CHECKS && locked) RLLockCheck_(lock, true);
    RL_DID_LOCK_(lock, locked ? 16u : 48u);
    return locked;
}

/**
 * Lock a lock if it is free, if it becomes free within some seconds, if it does before a date.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Threads: any. Ownership: after true the caller unlocks. Reentrancy: call-outs too; calls no
 * call-out.
 * CF: none; NSLock's try and lockBeforeDate: in Foundation. Since 0.2.
 */
static inline bool RLLockTryLock(RLLock *RL_NONNULL lock) {
    RL_WILL_LOCK_(lock, 16u);
    return RLLockTried_(lock, RLWordTryLock_(&lock->word));
}
static inline bool RLLockLockForSeconds(RLLock *RL_NONNULL lock, RLTimeInterval seconds) {
    RL_WILL_WAIT_(lock, seconds);
    RL_WILL_LOCK_(lock, 16u);
    return RLLockTried_(lock, RLWordTryLock_(&lock->word) || RLWordLockForSeconds_(&lock->word, seconds));
}
static inline bool RLLockLockBeforeDate(RLLock *RL_NONNULL lock, RLAbsoluteTime date) {
    RL_WILL_WAIT_(lock, date - RLAbsoluteTimeGetCurrent());
    RL_WILL_LOCK_(lock, 16u);
    return RLLockTried_(lock, RLWordTryLock_(&lock->word) || RLWordLockBeforeDate_(&lock->word, date));
}

/**
 * Unlocks a lock and wakes a thread that waits for it.
 *
 * Errors: with RL_CHECKS, unlocking a lock that is not locked, or one that another thread locked,
 * traps. Without, the lock is free afterwards.
 * Threads: any; the holder. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSLock's unlock in Foundation. Since 0.2.
 */
static inline void RLLockUnlock(RLLock *RL_NONNULL lock) {
    if (RL_CHECKS) RLLockCheckUnlock_(lock);
    RL_WILL_UNLOCK_(lock, 0u);
    RLWordUnlock_(&lock->word);
    RL_DID_UNLOCK_(lock, 0u);
}

/**
 * RL_LOCK_AT_FORK(function, lock) defines `static int function(void)`, after whose call a fork of the process waits for the lock, and
 * parent and child unlock it: so the child finds what it guards whole. RL_RECURSIVE_LOCK_AT_FORK and RL_READ_WRITE_LOCK_AT_FORK do the
 * same for those locks, the latter for writing.
 *
 *     static RLLock lock = RL_LOCK_INIT;
 *     RL_LOCK_AT_FORK(keep_lock_usable, &lock)
 *
 * function: a name; to be called once, before threads use the lock. Of locks that are held together call it first for the one
 *     that is locked last: fork takes them in the reverse order of these calls.
 * lock: a pointer to static memory. Returns: 0, or ENOMEM. A thread that forks must not hold the lock, unless it is recursive.
 * Needs <pthread.h>. CF: none; what pthread_atfork(3) is for. Since 0.2.
 */
#define RL_LOCK_AT_FORK(function, lock) RL_AT_FORK_(function, RLLockLock, RLLockUnlock, lock)
#define RL_RECURSIVE_LOCK_AT_FORK(function, lock) RL_AT_FORK_(function, RLRecursiveLockLock, RLRecursiveLockUnlock, lock)
#define RL_READ_WRITE_LOCK_AT_FORK(function, lock) \
    RL_AT_FORK_(function, RLReadWriteLockLockForWriting, RLReadWriteLockUnlock, lock)
#define RL_AT_FORK_(function, take, leave, lock) \
    static void function##_take(void) { take(lock); } \
    static void function##_leave(void) { leave(lock); } \
    static int function(void) { return pthread_atfork(function##_take, function##_leave, function##_leave); }

/* Whether the calling thread holds the lock; then it holds it once more. */
static inline bool RLRecursiveLockAgain_(RLRecursiveLock *RL_NONNULL lock) {
    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != RLThisThread_()) return false;
    if (__builtin_expect(++lock->count == 0, 0)) RLLockMisused_("RLRecursiveLockLock: locked too often");
    return true;
}

static inline bool RLRecursiveLockTaken_(RLRecursiveLock *RL_NONNULL lock, bool locked) {
    if (locked) __atomic_store_n(&lock->owner, RLThisThread_(), __ATOMIC_RELAXED);
    RL_DID_LOCK_(lock, locked ? 16u : 48u);
    return locked;
}

/**
 * Lock a recursive lock, waiting until it is free; if it is free; within some seconds; before a
 * date. The thread that holds it locks it once more, without waiting.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Threads: any. Ownership: each lock needs its unlock. Reentrancy: call-outs too; calls no
 * call-out.
 * CF: none; NSRecursiveLock in Foundation. Since 0.2.
 */
static inline void RLRecursiveLockLock(RLRecursiveLock *RL_NONNULL lock) {
    if (RLRecursiveLockAgain_(lock)) return;
    RL_WILL_LOCK_(lock, 0u);
    if (__builtin_expect(!RLWordTryLock_(&lock->word), 0)) RLWordLock_(&lock->word);
    __atomic_store_n(&lock->owner, RLThisThread_(), __ATOMIC_RELAXED);
    RL_DID_LOCK_(lock, 0u);
}
static inline bool RLRecursiveLockTryLock(RLRecursiveLock *RL_NONNULL lock) {
    if (RLRecursiveLockAgain_(lock)) return true;
    RL_WILL_LOCK_(lock, 16u);
    return RLRecursiveLockTaken_(lock, RLWordTryLock_(&lock->word));
}
static inline bool RLRecursiveLockLockForSeconds(RLRecursiveLock *RL_NONNULL lock, RLTimeInterval seconds) {
    if (RLRecursiveLockAgain_(lock)) return true;
    RL_WILL_WAIT_(lock, seconds);
    RL_WILL_LOCK_(lock, 16u);
    return RLRecursiveLockTaken_(lock, RLWordTryLock_(&lock->word) || RLWordLockForSeconds_(&lock->word, seconds));
}
static inline bool RLRecursiveLockLockBeforeDate(RLRecursiveLock *RL_NONNULL lock, RLAbsoluteTime date) {
    if (RLRecursiveLockAgain_(lock)) return true;
    RL_WILL_WAIT_(lock, date - RLAbsoluteTimeGetCurrent());
    RL_WILL_LOCK_(lock, 16u);
    return RLRecursiveLockTaken_(lock, RLWordTryLock_(&lock->word) || RLWordLockBeforeDate_(&lock->word, date));
}

/**
 * Unlocks a recursive lock once; the last unlock wakes a thread that waits for it.
 *
 * Errors: nothing happens if the calling thread does not hold the lock; with RL_CHECKS that traps.
 * Threads: the holder. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSRecursiveLock's unlock in Foundation. Since 0.2.
 */
static inline void RLRecursiveLockUnlock(RLRecursiveLock *RL_NONNULL lock) {
    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) != RLThisThread_()) {
        if (RL_CHECKS) RLLockMisused_("RLRecursiveLockUnlock: the calling thread does not hold the lock");
        return;
    }
    if (lock->count > 0) {
        lock->count--;
        return;
    }
    __atomic_store_n(&lock->owner, (uintptr_t)0, __ATOMIC_RELAXED);
    RL_WILL_UNLOCK_(lock, 0u);
    RLWordUnlock_(&lock->word);
    RL_DID_UNLOCK_(lock, 0u);
}

/**
 * Lock a read-write lock for reading, beside other readers: if no writer holds it or waits for it;
 * as soon as none does; if none does within some seconds.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Errors: a thread that already holds the lock must not lock it again, not even for reading: a
 * writer that waits would block it for ever.
 * Threads: any. Ownership: the caller unlocks. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_rwlock_rdlock in POSIX. Since 0.2.
 */
static inline bool RLReadWriteLockTryLockForReading(RLReadWriteLock *RL_NONNULL lock) {
    RL_WILL_LOCK_(lock, 24u);
    uint32_t word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
    while (word < RL_READERS_) {
        if (__atomic_compare_exchange_n(&lock->word, &word, word + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            RL_DID_LOCK_(lock, 24u);
            return true;
        }
    }
    /* Who waits may have waited at a fork and not exist here. */
    bool locked = (word & (RL_WRITERS_WAIT_ | RL_WRITER_)) == RL_WRITERS_WAIT_ && RLReadWriteLockWait_(lock, false, 0);
    RL_DID_LOCK_(lock, locked ? 24u : 56u);
    return locked;
}
static inline bool RLReadWriteLockLockForReadingForSeconds(RLReadWriteLock *RL_NONNULL lock, RLTimeInterval seconds) {
    RL_WILL_WAIT_(lock, seconds);
    if (__builtin_expect(RLReadWriteLockTryLockForReading(lock), 1)) return true;
    RL_WILL_LOCK_(lock, 24u);
    bool locked = RLReadWriteLockWait_(lock, false, seconds);
    RL_DID_LOCK_(lock, locked ? 24u : 56u);
    return locked;
}
static inline void RLReadWriteLockLockForReading(RLReadWriteLock *RL_NONNULL lock) {
    (void)RLReadWriteLockLockForReadingForSeconds(lock, 1e300);
}

/**
 * Lock a read-write lock for writing, alone: if it is free; as soon as it is; if it becomes free
 * within some seconds.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Threads: any. Ownership: the caller unlocks. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_rwlock_wrlock in POSIX. Since 0.2.
 */
static inline bool RLReadWriteLockTryLockForWriting(RLReadWriteLock *RL_NONNULL lock) {
    uint32_t unlocked = 0;
    RL_WILL_LOCK_(lock, 16u);
    bool locked = __atomic_compare_exchange_n(&lock->word, &unlocked, RL_WRITER_, false,
                                              __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    if (!locked && (unlocked & ~RL_WAITERS_) == 0) locked = RLReadWriteLockWait_(lock, true, 0);
    RL_DID_LOCK_(lock, locked ? 16u : 48u);
    return locked;
}
static inline bool RLReadWriteLockLockForWritingForSeconds(RLReadWriteLock *RL_NONNULL lock, RLTimeInterval seconds) {
    RL_WILL_WAIT_(lock, seconds);
    if (__builtin_expect(RLReadWriteLockTryLockForWriting(lock), 1)) return true;
    RL_WILL_LOCK_(lock, 16u);
    bool locked = RLReadWriteLockWait_(lock, true, seconds);
    RL_DID_LOCK_(lock, locked ? 16u : 48u);
    return locked;
}
static inline void RLReadWriteLockLockForWriting(RLReadWriteLock *RL_NONNULL lock) {
    (void)RLReadWriteLockLockForWritingForSeconds(lock, 1e300);
}

/**
 * Unlocks a read-write lock that the calling thread locked for reading or for writing.
 *
 * Errors: unlocking a lock that is not held traps with RL_CHECKS, and is undefined without.
 * Threads: the holder. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_rwlock_unlock in POSIX. Since 0.2.
 */
static inline void RLReadWriteLockUnlock(RLReadWriteLock *RL_NONNULL lock) {
    uint32_t word = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
    if (RL_CHECKS && (word & ~RL_WAITERS_) == 0) RLLockMisused_("RLReadWriteLockUnlock: the lock is not locked");
    if (word & RL_WRITER_) {
        RL_WILL_UNLOCK_(lock, 0u);
        word = __atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);
        if (__builtin_expect((word & RL_WAITERS_) != 0, 0)) RLReadWriteLockWake_(lock, word);
        RL_DID_UNLOCK_(lock, 0u);
    } else {
        RL_WILL_UNLOCK_(lock, 8u);
        word = __atomic_fetch_sub(&lock->word, 1, __ATOMIC_RELEASE);
        if (__builtin_expect((word & RL_WAITERS_) != 0 && (word & RL_READERS_) == 1, 0)) RLReadWriteLockWake_(lock, 0);
        RL_DID_UNLOCK_(lock, 8u);
    }
}

RL_HEADER_END

#endif
