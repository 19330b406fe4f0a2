/* SPDX-License-Identifier: MIT */
/*
 * Locks, one after the other: a lock that a working loop only tries, functions of which one at a time executes, a function that
 * locks again what it holds, a producer and a consumer with a condition lock, and a condition.
 */
#include <runloop/runloop.h>

#include <stdio.h>

static RLLock lock = RL_LOCK_INIT;
static int shared;

/* Does other work while somebody else has the lock. */
static void work_without_waiting(void) {
    int moved_on = 0;
    while (!RLLockTryLock(&lock)) moved_on++;
    shared++;
    RLLockUnlock(&lock);
    printf("tried: %s\n", moved_on ? "after other work" : "at once");
}

static void add_one(void *count) { ++*(int *)count; }

static RLRecursiveLock recursive = RL_RECURSIVE_LOCK_INIT;

static void descend(int depth) {
    RLRecursiveLockLock(&recursive);
    if (depth > 0) descend(depth - 1);
    else printf("recursive: 5 deep\n");
    RLRecursiveLockUnlock(&recursive);
}

enum { NO_DATA, HAS_DATA };
static RLConditionLock data = RL_CONDITION_LOCK_INIT(NO_DATA);
static int number;

static void produce(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    for (int i = 1; i <= 3; i++) {
        RLConditionLockLockWhenCondition(&data, NO_DATA);
        number = i;
        RLConditionLockUnlockWithCondition(&data, HAS_DATA);
    }
}

static void consume(void) {
    for (int i = 0; i < 3; i++) {
        RLConditionLockLockWhenCondition(&data, HAS_DATA);
        printf("consumed %d\n", number);
        RLConditionLockUnlockWithCondition(&data, NO_DATA);
    }
}

static RLCondition condition = RL_CONDITION_INIT;
static bool is_ready;

static void make_ready(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    RLLockLock(&condition.lock);
    is_ready = true;
    RLConditionSignal(&condition);
    RLLockUnlock(&condition.lock);
}

int main(void) {
    work_without_waiting();

    int count = 0;
    RLSynchronized(&shared, add_one, &count);
    printf("synchronized: %d\n", count);

    descend(4);

    RLThreadDetachNew(produce, NULL, NULL);
    consume();

    /* The loop of this thread goes on while it waits. */
    RLThreadDetachNew(make_ready, NULL, NULL);
    RLLockLock(&condition.lock);
    while (!is_ready) RLConditionWaitInMode(&condition, kRLDefaultMode, 60);
    RLLockUnlock(&condition.lock);
    printf("ready\n");
    return 0;
}
