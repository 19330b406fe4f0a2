/* SPDX-License-Identifier: MIT */
/*
 * What threads wait for besides locks: conditions, locks with a number, functions that are called
 * once, semaphores, barriers, and functions that are executed by one thread at a time.
 *
 * All are structures of the program's own, as locks are: what lock.h says of locks applies to them
 * too. No pointer to one is NULL.
 * A thread that has a run loop should not wait here for long: its loop serves nothing meanwhile.
 * Thread sanitizer: knows them as well. Helgrind does too, but for RLSynchronized (lock.h).
 * CF: none; NSCondition and NSConditionLock in Foundation. Rules: Docs/semantics.md, section 31.
 */
#ifndef RUNLOOP_SYNC_H
#define RUNLOOP_SYNC_H

#include "lock.h"

RL_HEADER_BEGIN

/** A lock and what its holder can wait for: 16 bytes. RLLockLock(&condition.lock) locks it. */
typedef struct RLCondition {
    RLLock lock; /* the program's to lock and unlock; the rest is the library's */
    uint32_t sequence; /* grows with each signal */
    uint32_t waiters;
} RLCondition;

/** A lock with a number that threads wait for: 24 bytes. */
typedef struct RLConditionLock {
    RLCondition condition;
    RLIndex value; /* the holder's */
} RLConditionLock;

/** Whether a function was called: 4 bytes. */
typedef struct RLOnce {
    uint32_t state;
} RLOnce;

/** A count that threads wait for: 8 bytes. */
typedef struct RLSemaphore {
    uint64_t state; /* the count below, the number of waiters above */
} RLSemaphore;

/** A place where threads wait for each other: 12 bytes. */
typedef struct RLBarrier {
    uint32_t count, arrived, round; /* the last is not used any more */
} RLBarrier;

/** Initializers for static memory. */
#define RL_CONDITION_INIT {RL_LOCK_INIT, 0, 0}
#define RL_CONDITION_LOCK_INIT(value) {RL_CONDITION_INIT, RL_CAST_(RLIndex, value)}
#define RL_ONCE_INIT {0}
#define RL_SEMAPHORE_INIT(count) {RL_CAST_(uint32_t, count)}
#define RL_BARRIER_INIT(count) {RL_CAST_(uint32_t, count), 0, 0}

/* What the inline functions below call of the library. */
RL_EXPORT bool RLConditionWait_(RLCondition *RL_NONNULL condition, RLTimeInterval seconds);
RL_EXPORT bool RLConditionWaitUntilDate_(RLCondition *RL_NONNULL condition, RLAbsoluteTime date);
RL_EXPORT void RLConditionWake_(RLCondition *RL_NONNULL condition, bool all);
RL_EXPORT bool RLConditionLockWait_(RLConditionLock *RL_NONNULL lock, RLIndex value, RLTimeInterval seconds);
RL_EXPORT void RLConditionLockWake_(RLConditionLock *RL_NONNULL lock);
RL_EXPORT void RLOnceCall_(RLOnce *RL_NONNULL once, void (*RL_NONNULL function)(void *RL_NULLABLE info), void *RL_NULLABLE info);
RL_EXPORT bool RLConditionWaitInMode_(RLCondition *RL_NONNULL condition, RLMode RL_NULLABLE mode, RLTimeInterval seconds);
RL_EXPORT bool RLLockInMode_(RLLock *RL_NONNULL lock, RLMode RL_NULLABLE mode, RLTimeInterval seconds);
RL_EXPORT void RLSemaphoreWake_(const void *RL_NONNULL semaphore);
RL_EXPORT bool RLSemaphoreWait_(RLSemaphore *RL_NONNULL semaphore, RLTimeInterval seconds);

/* A function that a thread sanitizer's program has called, with what it publishes. */
#if defined(RL_TELL_SANITIZER_) || RL_HELGRIND
struct RLToldCall_ {
    void (*RL_NONNULL function)(void *RL_NULLABLE info);
    void *RL_NULLABLE info;
    void *RL_NULLABLE word;
};
static inline void RLToldCallOnce_(void *RL_NULLABLE info) {
    struct RLToldCall_ *call = (struct RLToldCall_ *)info;
    call->function(call->info);
    RL_PUBLISHES_(call->word);
}
#endif

static inline bool RLConditionWillWait_(RLCondition *RL_NONNULL condition) {
    RL_HIDES_(condition);
    if (RL_CHECKS) RLLockCheckUnlock_(&condition->lock);
    RL_WILL_UNLOCK_(&condition->lock, 0u);
    RL_DID_UNLOCK_(&condition->lock, 0u);
    RL_WILL_LOCK_(&condition->lock, 0u);
    return true;
}
static inline bool RLConditionDidWait_(RLCondition *RL_NONNULL condition, bool in_time) {
    RL_DID_LOCK_(&condition->lock, 0u);
    if (RL_CHECKS) RLLockCheck_(&condition->lock, true);
    return in_time;
}

/**
 * Wait for a signal: unlock the condition's lock, wait, and lock it again; without a time limit,
 * for some seconds, until a date.
 *
 *     RLLockLock(&condition.lock);
 *     while (!ready) RLConditionWait(&condition);
 *     RLLockUnlock(&condition.lock);
 *
 * The call may return without a signal, so the caller has to test again what it waits for.
 * Returns: false if the time limit was reached. The lock is held in any case.
 * Errors: the caller has to hold the lock; RL_CHECKS traps where it does not.
 * Threads: the holder. Reentrancy: call-outs too; calls no call-out, and serves no loop.
 * CF: none; NSCondition's wait and waitUntilDate: in Foundation. Since 0.2.
 */
static inline void RLConditionWait(RLCondition *RL_NONNULL condition) {
    (void)(RLConditionWillWait_(condition) && RLConditionDidWait_(condition, RLConditionWait_(condition, 1e300)));
}
static inline bool RLConditionWaitForSeconds(RLCondition *RL_NONNULL condition, RLTimeInterval seconds) {
    return RLConditionWillWait_(condition) && RLConditionDidWait_(condition, RLConditionWait_(condition, seconds));
}
static inline bool RLConditionWaitUntilDate(RLCondition *RL_NONNULL condition, RLAbsoluteTime date) {
    return RLConditionWillWait_(condition) && RLConditionDidWait_(condition, RLConditionWaitUntilDate_(condition, date));
}

/**
 * Wake one thread that waits for a condition; wake all.
 *
 * Nothing happens if none waits. Change what the waiters test with the lock held; the call itself
 * may come before the unlock or after it.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSCondition's signal and broadcast in Foundation. Since 0.2.
 */
static inline void RLConditionSignal(RLCondition *RL_NONNULL condition) {
    RL_HIDES_(condition);
    if (__atomic_load_n(&condition->waiters, __ATOMIC_RELAXED) != 0) RLConditionWake_(condition, false);
}
static inline void RLConditionBroadcast(RLCondition *RL_NONNULL condition) {
    RL_HIDES_(condition);
    if (__atomic_load_n(&condition->waiters, __ATOMIC_RELAXED) != 0) RLConditionWake_(condition, true);
}

/**
 * Lock a condition lock, whatever its number is: as soon as it is free, if it is, within some
 * seconds.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Errors, threads, ownership, reentrancy: as RLLockLock.
 * CF: none; NSConditionLock's lock, try and lockBeforeDate: in Foundation. Since 0.2.
 */
static inline void RLConditionLockLock(RLConditionLock *RL_NONNULL lock) { RLLockLock(&lock->condition.lock); }
static inline bool RLConditionLockTryLock(RLConditionLock *RL_NONNULL lock) { return RLLockTryLock(&lock->condition.lock); }
static inline bool RLConditionLockLockForSeconds(RLConditionLock *RL_NONNULL lock, RLTimeInterval seconds) {
    return RLLockLockForSeconds(&lock->condition.lock, seconds);
}
static inline bool RLConditionLockLockBeforeDate(RLConditionLock *RL_NONNULL lock, RLAbsoluteTime date) {
    return RLLockLockBeforeDate(&lock->condition.lock, date);
}

/**
 * Unlock a condition lock: with the number that it has, or with a new one.
 *
 * The threads that wait for the number get the lock, one after the other.
 * Errors, threads, reentrancy: as RLLockUnlock.
 * CF: none; NSConditionLock's unlock and unlockWithCondition: in Foundation. Since 0.2.
 */
static inline void RLConditionLockUnlock(RLConditionLock *RL_NONNULL lock) {
    RL_HIDES_(lock);
    if (__builtin_expect(__atomic_load_n(&lock->condition.waiters, __ATOMIC_RELAXED) == 0, 1)) {
        RLLockUnlock(&lock->condition.lock);
        return;
    }
    if (RL_CHECKS) RLLockCheckUnlock_(&lock->condition.lock);
    RL_WILL_UNLOCK_(&lock->condition.lock, 0u);
    RLConditionLockWake_(lock);
    RL_DID_UNLOCK_(&lock->condition.lock, 0u);
}
static inline void RLConditionLockUnlockWithCondition(RLConditionLock *RL_NONNULL lock, RLIndex value) {
    RL_HIDES_(lock);
    __atomic_store_n(&lock->value, value, __ATOMIC_RELAXED);
    RLConditionLockUnlock(lock);
}

/**
 * Lock a condition lock when it is free and has a number: waiting for that, if that is so now,
 * within some seconds, before a date.
 *
 * Returns: true: the caller holds the lock; false: it does not.
 * Errors, threads, ownership, reentrancy: as RLLockLock.
 * CF: none; NSConditionLock's lockWhenCondition:, tryLockWhenCondition: and
 * lockWhenCondition:beforeDate: in Foundation. Since 0.2.
 */
static inline bool RLConditionLockLockWhenConditionForSeconds(RLConditionLock *RL_NONNULL lock, RLIndex value,
                                                              RLTimeInterval seconds) {
    RL_HIDES_(lock);
    RL_WILL_WAIT_(&lock->condition.lock, seconds);
    RL_WILL_LOCK_(&lock->condition.lock, 16u);
    if (RL_CHECKS) RLLockCheck_(&lock->condition.lock, false);
    return RLLockTried_(&lock->condition.lock, RLConditionLockWait_(lock, value, seconds));
}
static inline void RLConditionLockLockWhenCondition(RLConditionLock *RL_NONNULL lock, RLIndex value) {
    (void)RLConditionLockLockWhenConditionForSeconds(lock, value, 1e300);
}
static inline bool RLConditionLockTryLockWhenCondition(RLConditionLock *RL_NONNULL lock, RLIndex value) {
    return RLConditionLockLockWhenConditionForSeconds(lock, value, 0);
}
static inline bool RLConditionLockLockWhenConditionBeforeDate(RLConditionLock *RL_NONNULL lock, RLIndex value,
                                                              RLAbsoluteTime date) {
    return RLConditionLockLockWhenConditionForSeconds(lock, value, date - RLAbsoluteTimeGetCurrent());
}

/**
 * Returns the number of a condition lock.
 *
 * Returns: the number; it may be out of date when it arrives, unless the caller holds the lock.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSConditionLock's condition in Foundation. Since 0.2.
 */
static inline RLIndex RLConditionLockGetCondition(const RLConditionLock *RL_NONNULL lock) {
    return __atomic_load_n(&lock->value, __ATOMIC_RELAXED);
}

/**
 * Calls a function unless one was called for this once before; returns when that call has returned.
 *
 * info: for the function; may be NULL.
 * Errors: a function that calls RLOnceCall for its own once waits for ever. It must not be left by
 * longjmp or by a C++ exception.
 * Threads: any; of several that call at once, one calls the function. A function that ends its
 * thread counts as not called.
 * Reentrancy: call-outs too; calls the function.
 * CF: none; dispatch_once_f in libdispatch. Since 0.2.
 */
static inline void RLOnceCall(RLOnce *RL_NONNULL once, void (*RL_NONNULL function)(void *RL_NULLABLE info), void *RL_NULLABLE info) {
    RL_HIDES_(once);
#if defined(RL_TELL_SANITIZER_) || RL_HELGRIND
    struct RLToldCall_ call = {function, info, once};
    if (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) != 3) RLOnceCall_(once, RLToldCallOnce_, &call);
    RL_SEES_(once);
#else
    if (__builtin_expect(__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) != 3, 0)) RLOnceCall_(once, function, info);
#endif
}

/**
 * Tells whether the function of a once was called and has returned.
 *
 * Returns: true: RLOnceCall will not call a function for it, and the caller sees all that the function did.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
static inline bool RLOnceIsDone(const RLOnce *RL_NONNULL once) {
    return __atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == 3;
}

/**
 * Adds 1 to the count of a semaphore and wakes a thread that waits for it.
 *
 * Errors: the count must not pass 4,294,967,295.
 * Threads: any; async-signal-safe. Reentrancy: call-outs too; calls no call-out.
 * CF: none; dispatch_semaphore_signal in libdispatch. Since 0.2.
 */
static inline void RLSemaphoreSignal(RLSemaphore *RL_NONNULL semaphore) {
    RL_HIDES_(semaphore);
    RL_PUBLISHES_(semaphore);
    /* The memory may be gone after this; its address is all that the wake-up needs. */
    if (__atomic_fetch_add(&semaphore->state, (uint64_t)1, __ATOMIC_RELEASE) >> 32 != 0) RLSemaphoreWake_(semaphore);
}

/**
 * Subtract 1 from the count of a semaphore: if it is not 0, as soon as it is not 0, if that is
 * within some seconds.
 *
 * Returns: true; false: the count was 0 until the end.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; dispatch_semaphore_wait in libdispatch. Since 0.2.
 */
static inline bool RLSemaphoreTryWait(RLSemaphore *RL_NONNULL semaphore) {
    RL_HIDES_(semaphore);
    uint64_t state = __atomic_load_n(&semaphore->state, __ATOMIC_RELAXED);
    while ((uint32_t)state != 0) {
        if (__atomic_compare_exchange_n(&semaphore->state, &state, state - 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            RL_SEES_(semaphore);
            return true;
        }
    }
    return false;
}
static inline bool RLSemaphoreWaitForSeconds(RLSemaphore *RL_NONNULL semaphore, RLTimeInterval seconds) {
    if (RLSemaphoreTryWait(semaphore)) return true;
    if (!RLSemaphoreWait_(semaphore, seconds)) return false;
    RL_SEES_(semaphore);
    return true;
}
static inline void RLSemaphoreWait(RLSemaphore *RL_NONNULL semaphore) {
    (void)RLSemaphoreWaitForSeconds(semaphore, 1e300);
}

/**
 * Waits at a barrier until as many threads have arrived as the barrier was initialized for.
 *
 * If more threads use the barrier, each goes on with the group that it has completed or that has
 * been completed after its arrival. In the child of fork those that had arrived still count.
 * Returns: true to one of the threads of a group, false to the others.
 * Errors: a barrier that was initialized for 0 threads never lets one pass.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_barrier_wait in POSIX. Since 0.2.
 */
RL_EXPORT bool RLBarrierWait(RLBarrier *RL_NONNULL barrier);
#if defined(RL_TELL_SANITIZER_) || RL_HELGRIND
static inline bool RLBarrierWaitTold_(RLBarrier *RL_NONNULL barrier) {
    RL_HIDES_(barrier);
    RL_PUBLISHES_(barrier);
    bool is_last = RLBarrierWait(barrier);
    RL_SEES_(barrier);
    return is_last;
}
#define RLBarrierWait(barrier) RLBarrierWaitTold_(barrier)
#endif

/**
 * Waits for a signal as RLConditionWaitForSeconds does, and runs the calling thread's loop meanwhile.
 *
 * A wait that would block the main thread serves its loop this way: one run of the mode, nested in
 * the current one, ends when the condition is signalled. The lock is not held while it runs.
 * mode: NULL and kRLCommonModes stand for the default mode. seconds: 0 and less make one pass.
 * Returns: false if the time limit was reached. The lock is held in any case. If that run is stopped,
 * the call returns true.
 * Errors: the caller has to hold the lock, and once only; RL_CHECKS traps where it does not.
 * Threads: the holder. Reentrancy: call-outs too; calls whatever the loop calls.
 * CF: none. Since 0.2.
 */
static inline bool RLConditionWaitInMode(RLCondition *RL_NONNULL condition, RLMode RL_NULLABLE mode, RLTimeInterval seconds) {
    (void)RLConditionWillWait_(condition);
    /* The thread sanitizer ignores what a thread does between these two notes; callbacks are not to be ignored. */
    RL_DID_LOCK_(&condition->lock, 48u);
    bool in_time = RLConditionWaitInMode_(condition, mode, seconds);
    RL_WILL_LOCK_(&condition->lock, 16u);
    return RLConditionDidWait_(condition, in_time);
}

/**
 * Locks a lock as RLLockLockForSeconds does, and runs the calling thread's loop while it waits.
 *
 * A free lock is taken without a run. A stop of the run does not end the wait: another run
 * follows.
 * mode: NULL and kRLCommonModes stand for the default mode. seconds: 0 and less make one pass.
 * Returns: true: the caller holds the lock; false: it does not.
 * Threads: any; not the holder, and not in a callback during which the thread holds the lock.
 * Ownership: after true the caller unlocks. Reentrancy: call-outs too; calls whatever the loop calls.
 * CF: none. Since 0.2.
 */
static inline bool RLLockInMode(RLLock *RL_NONNULL lock, RLMode RL_NULLABLE mode, RLTimeInterval seconds) {
    RL_WILL_WAIT_(lock, seconds);
    if (RL_CHECKS) RLLockCheck_(lock, false);
    bool locked = RLLockInMode_(lock, mode, seconds);
    RL_WILL_LOCK_(lock, 16u);
    return RLLockTried_(lock, locked);
}

/**
 * Calls a function such that no two functions called with the same pointer execute at a time.
 *
 * object: any pointer; only its value counts. NULL: the function is called without a lock.
 * function: may call RLSynchronized again, with the same pointer too. info: for it; may be NULL.
 * Threads: any. A function that ends its thread lets the next one execute; it must not be left by
 * longjmp or by a C++ exception.
 * Reentrancy: call-outs too; calls the function.
 * CF: none; @synchronized in Objective-C. Since 0.2.
 */
RL_EXPORT void RLSynchronized(const void *RL_NULLABLE object, void (*RL_NONNULL function)(void *RL_NULLABLE info),
                              void *RL_NULLABLE info);
#if defined(RL_TELL_SANITIZER_)
static inline void RLToldSynchronized_(void *RL_NULLABLE info) {
    struct RLToldCall_ *call = (struct RLToldCall_ *)info;
    if (call->word) RL_SEES_(call->word);
    call->function(call->info);
    if (call->word) RL_PUBLISHES_(call->word);
}
static inline void RLSynchronizedTold_(const void *RL_NULLABLE object, void (*RL_NONNULL function)(void *RL_NULLABLE info),
                                       void *RL_NULLABLE info) {
    struct RLToldCall_ call = {function, info, (void *)(uintptr_t)object};
    RLSynchronized(object, RLToldSynchronized_, &call);
}
#define RLSynchronized(object, function, info) RLSynchronizedTold_(object, function, info)
#endif

RL_HEADER_END

#endif
