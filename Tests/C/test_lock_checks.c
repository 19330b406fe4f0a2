/* SPDX-License-Identifier: MIT */
/* Section 31: what traps in a file that is compiled with RL_CHECKS. */
#define RL_CHECKS 1
#include "support.h"

#include <signal.h>
#include <sys/wait.h>

static RLLock lock;
static RLRecursiveLock recursive;
static RLReadWriteLock read_write;
static RLCondition condition;
static RLConditionLock numbered;

static void lock_twice(void) {
    RLLockLock(&lock);
    RLLockLock(&lock);
}
static void unlock_unlocked(void) { RLLockUnlock(&lock); }
static void lock_elsewhere(void *unused) {
    (void)unused;
    ck_assert(RLLockTryLock(&lock));
    RLRecursiveLockLock(&recursive);
}
static void unlock_of_another(void) {
    thread_join(thread_start(lock_elsewhere, NULL));
    RLLockUnlock(&lock);
}
static void recursive_unlock_of_another(void) {
    thread_join(thread_start(lock_elsewhere, NULL));
    RLRecursiveLockUnlock(&recursive);
}
static void unlock_read_write(void) { RLReadWriteLockUnlock(&read_write); }
static void wait_without_lock(void) { RLConditionWait(&condition); }
static void number_twice(void) {
    RLConditionLockLock(&numbered);
    RLConditionLockLockWhenCondition(&numbered, 1);
}

static void call(void *function) { (*(void (**)(void))function)(); }

static void expect_trap(void (*function)(void), const char *text) {
    ChildResult result = run_child(call, &function);
    ck_assert(WIFSIGNALED(result.status));
    ck_assert_int_eq(WTERMSIG(result.status), SIGABRT);
    /* An emulator writes that it ends, too. */
    result.output[strnlen(text, sizeof result.output - 1)] = 0;
    ck_assert_str_eq(result.output, text);
}

RL_TEST(misuse_traps, "S-SYNC-7", "Locking what the thread holds, unlocking what it does not hold, and waiting without the lock trap with a line") {
    expect_trap(lock_twice, "RLLockLock: the calling thread holds the lock\n");
    expect_trap(unlock_unlocked, "RLLockUnlock: the lock is not locked\n");
    expect_trap(unlock_of_another, "RLLockUnlock: another thread holds the lock\n");
    expect_trap(recursive_unlock_of_another, "RLRecursiveLockUnlock: the calling thread does not hold the lock\n");
    expect_trap(unlock_read_write, "RLReadWriteLockUnlock: the lock is not locked\n");
    expect_trap(wait_without_lock, "RLLockUnlock: the lock is not locked\n");
    expect_trap(number_twice, "RLLockLock: the calling thread holds the lock\n");
}

static long counter, numbers;
static void count(void *unused) {
    (void)unused;
    for (int i = 0; i < 5000; i++) {
        RLLockLock(&lock);
        counter++;
        RLLockUnlock(&lock);
        RLConditionLockLock(&numbered);
        numbers++;
        RLConditionLockUnlockWithCondition(&numbered, i);
        RLLockLock(&condition.lock);
        RLConditionWaitForSeconds(&condition, 0);
        RLLockUnlock(&condition.lock);
    }
}
__attribute__((unused)) static void unlock(void *unused) {
    (void)unused;
    RLLockUnlock(&lock);
}
/* As a file without the checks. */
static void count_unchecked(void *unused) {
    (void)unused;
    for (int i = 0; i < 5000; i++) {
        if (!RLWordTryLock_(&lock.word)) RLWordLock_(&lock.word);
        counter++;
        RLWordUnlock_(&lock.word);
    }
}

RL_TEST(correct_use_does_not_trap, "S-SYNC-7", "Threads that contend do not trap, also where some are not checked") {
    Thread *threads[3];
    for (int i = 0; i < 3; i++) threads[i] = thread_start(i == 2 ? count_unchecked : count, NULL);
    for (int i = 0; i < 3; i++) thread_join(threads[i]);
#if !defined(WITH_THREAD_SANITIZER) /* which is not told of a lock that was taken without the checks */
    /* What one thread locked without the checks another may unlock with them. */
    ck_assert(RLWordTryLock_(&lock.word));
    thread_join(thread_start(unlock, NULL));
    ck_assert(RLLockTryLock(&lock));
#endif
}
