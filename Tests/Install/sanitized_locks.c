/* SPDX-License-Identifier: MIT */
/* Every lock, by threads that contend, for the thread sanitizer and for helgrind: plain memory that the locks guard, or that
 * one of the threads makes before the others see it. With an argument two locks are taken in two orders. */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>

#ifndef ROUNDS
#define ROUNDS 2000
#endif
enum { THREADS = 3 };

static RLLock lock, first, second;
static RLRecursiveLock recursive;
static RLReadWriteLock read_write;
static RLCondition condition;
static RLConditionLock numbered;
static RLOnce once;
static RLSemaphore semaphore = RL_SEMAPHORE_INIT(1);
static RLBarrier barrier = RL_BARRIER_INIT(THREADS);
static int counts[7], made, met;

static void make_one(void *unused) {
    (void)unused;
    made++;
}
#if !RL_HELGRIND
static void add_one(void *number) { ++*(int *)number; }
#endif

static void *count(void *unused) {
    int seen = 0;
    for (int i = 0; i < ROUNDS; i++) {
        RLLockLock(&lock);
        counts[0]++;
        RLLockUnlock(&lock);
        if (RLLockLockForSeconds(&lock, 1000)) {
            counts[0]++;
            RLLockUnlock(&lock);
        }
        RLRecursiveLockLock(&recursive);
        RLRecursiveLockLock(&recursive);
        counts[1]++;
        RLRecursiveLockUnlock(&recursive);
        RLRecursiveLockUnlock(&recursive);
        if (i % 4 == 0) {
            RLReadWriteLockLockForWriting(&read_write);
            counts[2]++;
        } else {
            RLReadWriteLockLockForReading(&read_write);
            seen += counts[2];
        }
        RLReadWriteLockUnlock(&read_write);
        RLConditionLockLock(&numbered);
        counts[3]++;
        RLConditionLockUnlockWithCondition(&numbered, counts[3]);
        if (RLConditionLockLockWhenConditionForSeconds(&numbered, RLConditionLockGetCondition(&numbered), 0)) RLConditionLockUnlock(&numbered);
        RLLockLock(&condition.lock);
        counts[4]++;
        RLConditionWaitForSeconds(&condition, 0);
        RLConditionSignal(&condition);
        RLLockUnlock(&condition.lock);
        RLOnceCall(&once, make_one, NULL);
        seen += made;
        RLSemaphoreWait(&semaphore);
        counts[5]++;
        RLSemaphoreSignal(&semaphore);
        /* Only the one that is told so writes before the next barrier, and all read after it. */
        if (RLBarrierWait(&barrier)) met++;
        RLBarrierWait(&barrier);
        seen += met;
#if !RL_HELGRIND
        RLSynchronized(&counts[6], add_one, &counts[6]);
#endif
    }
    return seen < 0 ? &lock : unused;
}

static int *handed, *taken;

static void *hand_over(void *number) {
    *(int *)number = 1;
    RLLockLock(&lock);
    handed = number;
    RLLockUnlock(&lock);
    return NULL;
}

static void take(void *unused) {
    (void)unused;
    while (!taken) {
        RLLockLock(&lock);
        taken = handed;
        RLLockUnlock(&lock);
    }
}

/* A callback during the wait gets what another thread has made before it locked. */
static bool is_seen_after_wait(void) {
    int number = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, hand_over, &number);
    RLPerformFunction(RLGetMain(), kRLDefaultMode, take, NULL, NULL);
    RLLockLock(&condition.lock);
    RLConditionWaitInMode(&condition, kRLDefaultMode, 0);
    RLLockUnlock(&condition.lock);
    bool is_seen = taken && *taken == 1;
    pthread_join(thread, NULL);
    return is_seen;
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    RLLockLock(&first);
    RLLockLock(&second);
    RLLockUnlock(&second);
    RLLockUnlock(&first);
    if (argc > 1) {
        RLLockLock(&second);
        RLLockLock(&first);
        RLLockUnlock(&first);
        RLLockUnlock(&second);
    }
    if (!is_seen_after_wait()) return 1;
    const int all = THREADS * ROUNDS;
    printf("%d %d %d %d %d %d %d\n", counts[0], counts[1], counts[2], counts[3], counts[4], counts[5], counts[6]);
    if (made != 1 || met != ROUNDS || counts[5] != all || (!RL_HELGRIND && counts[6] != all)) return 1;
    return counts[0] == 2 * all && counts[1] == all && counts[2] == all / 4 && counts[3] == all && counts[4] == all ? 0 : 1;
}
