/* SPDX-License-Identifier: MIT */
/* Eight threads take three locks ten million times: one at a time is in (S-SYNC-8, S-SYNC-11), what it wrote is seen by the
   next one (S-SYNC-5), and nobody waits for ever. Then they pass a condition lock round in a ring, each waiting for its own number
   (S-SYNC-16). At last a priority is inverted: a thread of nice value 19 has the lock that others wait for, while further threads keep all processors busy. Locks do
   not lend priorities; the others get the lock late, and get it. */
#define _GNU_SOURCE
#include "stress.h"

#include <stdio.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8 };

static RLLock lock;
static RLRecursiveLock recursive;
static RLReadWriteLock read_write;
static RLConditionLock ring;
static RLBarrier together = RL_BARRIER_INIT(THREADS);
/* Each guarded by the lock of its number. */
static struct guarded {
    unsigned long count, handovers;
    const void *owner;
} guarded[3];
static unsigned long rounds, ring_rounds;
static atomic_bool inverted, done;

static void report(void) {
    for (int i = 0; i < 3; i++) fprintf(stderr, "lock %d: %lu times, %lu by another thread\n", i, guarded[i].count, guarded[i].handovers);
}

static void enter(struct guarded *mine, const void *self) {
    mine->count++;
    if (mine->owner != self) mine->handovers++;
    mine->owner = self;
}

static void *pass(void *info) {
    unsigned long index = (unsigned long)(uintptr_t)info;
    uint64_t random = index;
    int own;
    RLBarrierWait(&together);
    for (unsigned long i = 0; i < rounds; i++) {
        switch (stress_random(&random) % 4) {
        case 0:
        case 1:
            RLLockLock(&lock);
            enter(&guarded[0], &own);
            RLLockUnlock(&lock);
            break;
        case 2:
            RLRecursiveLockLock(&recursive);
            RLRecursiveLockLock(&recursive);
            enter(&guarded[1], &own);
            RLRecursiveLockUnlock(&recursive);
            RLRecursiveLockUnlock(&recursive);
            break;
        default:
            RLReadWriteLockLockForWriting(&read_write);
            enter(&guarded[2], &own);
            RLReadWriteLockUnlock(&read_write);
        }
        if (i % 64 == 0) sched_yield();
        if (i % 1024 == 0) stress_progress();
    }
    return NULL;
}

static void *pass_round(void *info) {
    RLIndex index = (RLIndex)(uintptr_t)info;
    for (unsigned long i = 0; i < ring_rounds; i++) {
        RLConditionLockLockWhenCondition(&ring, index);
        RLConditionLockUnlockWithCondition(&ring, (index + 1) % THREADS);
        stress_progress();
    }
    return NULL;
}

static void *keep_busy(void *unused) {
    while (!atomic_load(&done)) sched_yield();
    return unused;
}
static void *hold_unwillingly(void *unused) {
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    RLLockLock(&lock);
    atomic_store(&inverted, true);
    /* Work that it cannot do, while others are preferred. */
    for (volatile long i = 0; i < 20000000; i++) continue;
    guarded[0].count = 0;
    RLLockUnlock(&lock);
    return unused;
}
static void *wait_for_it(void *unused) {
    while (!atomic_load(&inverted)) sched_yield();
    RLLockLock(&lock);
    MUST_BE(guarded[0].count, ==, 0);
    RLLockUnlock(&lock);
    return unused;
}

static void run(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) stress_thread_start(&threads[i], body, (void *)i);
    for (int i = 0; i < THREADS; i++) stress_thread_join(threads[i]);
}

int main(void) {
    rounds = stress_count(10000000) / THREADS;
    ring_rounds = stress_count_at_least(400000, 1000) / THREADS;
    stress_watchdog_start(report);
    run(pass);
    MUST_BE(guarded[0].count + guarded[1].count + guarded[2].count, ==, rounds * THREADS);
    run(pass_round);
    MUST_BE(RLConditionLockGetCondition(&ring), ==, 0);
    report();

    pthread_t busy[4], holder, waiters[2];
    for (int i = 0; i < 4; i++) stress_thread_start(&busy[i], keep_busy, NULL);
    stress_thread_start(&holder, hold_unwillingly, NULL);
    for (int i = 0; i < 2; i++) stress_thread_start(&waiters[i], wait_for_it, NULL);
    for (int i = 0; i < 2; i++) stress_thread_join(waiters[i]);
    stress_thread_join(holder);
    atomic_store(&done, true);
    for (int i = 0; i < 4; i++) stress_thread_join(busy[i]);
    stress_watchdog_stop();
    printf("a high priority got the lock of a low one\n");
    return 0;
}
