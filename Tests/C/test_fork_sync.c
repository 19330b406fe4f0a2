/* SPDX-License-Identifier: MIT */
/* Forks while threads hold, wait, join and end: what the child finds of that. */
#define _GNU_SOURCE
#include "support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_success(pid_t child) {
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
static pid_t forked;
static void fork_now(void *unused) {
    (void)unused;
    forked = fork();
    if (forked == 0) alarm(60);
}

static int objects[2], called;
static void count_call(void *unused) {
    (void)unused;
    __atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}

/* ---- Locks that a fork takes */

static RLLock kept_lock = RL_LOCK_INIT;
static RLRecursiveLock kept_recursive_lock = RL_RECURSIVE_LOCK_INIT;
static RLReadWriteLock kept_read_write_lock = RL_READ_WRITE_LOCK_INIT;
RL_LOCK_AT_FORK(keep_lock, &kept_lock)
RL_RECURSIVE_LOCK_AT_FORK(keep_recursive_lock, &kept_recursive_lock)
RL_READ_WRITE_LOCK_AT_FORK(keep_read_write_lock, &kept_read_write_lock)
static int guarded[2], is_over;

static void change_guarded(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        RLReadWriteLockLockForWriting(&kept_read_write_lock);
        RLRecursiveLockLock(&kept_recursive_lock);
        RLLockLock(&kept_lock);
        guarded[0]++;
        sched_yield();
        guarded[1]++;
        RLLockUnlock(&kept_lock);
        RLRecursiveLockUnlock(&kept_recursive_lock);
        RLReadWriteLockUnlock(&kept_read_write_lock);
    }
}

RL_TEST(locks_that_a_fork_takes, "S-SYNC-6",
        "Locks that are kept usable at forks are free in the child, and what they guard is whole, whatever another thread does with them") {
    ck_assert(keep_lock() == 0 && keep_recursive_lock() == 0 && keep_read_write_lock() == 0);
    Thread *changer = thread_start(change_guarded, NULL);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            RLReadWriteLockLockForWriting(&kept_read_write_lock);
            RLRecursiveLockLock(&kept_recursive_lock);
            RLLockLock(&kept_lock);
            _exit(guarded[0] == guarded[1] ? 0 : 1);
        }
        expect_success(child);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    thread_join(changer);
}

/* ---- RLSynchronized */

static void hold_until_told(void *gates) {
    gate_open(&((Gate *)gates)[0]);
    gate_wait(&((Gate *)gates)[1]);
}
static void hold_object(void *gates) { RLSynchronized(&objects[0], hold_until_told, gates); }
static Gate is_filled = GATE_INITIALIZER, is_never = GATE_INITIALIZER;
/* On the stack that a thread had which is not here. */
static void *fill_stack(void *unused) {
    volatile char much[1 << 16];
    for (size_t i = 0; i < sizeof much; i++) much[i] = 0x5a;
    gate_open(&is_filled);
    gate_wait(&is_never);
    return unused;
}
static void *take_held_object(void *unused) {
    RLSynchronized(&objects[0], count_call, NULL);
    return unused;
}

RL_TEST(held_by_a_thread_that_is_not_here, "S-SYNC-21",
        "What another thread had stays held in the child, where libc gives its stack, and its number, to a new thread") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    Thread *thread = thread_start(hold_object, gates);
    gate_wait(&gates[0]);
    fork_now(NULL);
    if (forked == 0) {
        pthread_t ids[3];
        for (int i = 0; i < 2; i++) pthread_create(&ids[i], NULL, i == 0 ? fill_stack : take_held_object, NULL);
        gate_wait(&is_filled);
        /* Pointers of all stripes. */
        for (size_t i = 16; i < 16384; i += 16) RLSynchronized((char *)objects + i, count_call, NULL);
        _exit(called == 1023 ? 0 : 1);
    }
    expect_success(forked);
    gate_open(&gates[1]);
    thread_join(thread);
}

/*
 * A prepare handler that is registered before the library's runs after it, with the library's locks taken; such a handler of the child runs
 * before the library's, which are not to hang.
 */
static void (*during_fork)(void);
static void call_during_fork(void) {
    if (during_fork) during_fork();
}
static void limit_child(void) { alarm(30); }
static void register_early(void) { pthread_atfork(call_during_fork, NULL, limit_child); }
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = register_early;

static RLCondition condition = RL_CONDITION_INIT;
static void wait_in_mode(LoopThread *self) {
    (void)self;
    RLLockLock(&condition.lock);
    RLConditionWaitInMode(&condition, NULL, 1e6);
    RLLockUnlock(&condition.lock);
}
static Gate is_forking = GATE_INITIALIZER;
static void synchronize_during_fork(void *unused) {
    gate_wait(&is_forking);
    RLSynchronized(&objects[0], count_call, unused);
}
static void let_it_wait(void) {
    gate_open(&is_forking);
    take_time(0.1); /* So that the thread waits for the fork; the case holds if it does not. */
}

RL_TEST(fork_that_a_pointer_waits_for, "S-SYNC-6 S-SYNC-20 S-SYNC-25",
        "A fork that another thread's RLSynchronized waits for returns in parent and child, also while a third thread runs its loop in a wait") {
    LoopThread waiting;
    loop_thread_start(&waiting, wait_in_mode, NULL);
    wait_until_waiting(waiting.loop);
    Thread *thread = thread_start(synchronize_during_fork, NULL);
    during_fork = let_it_wait;
    fork_now(NULL);
    if (forked == 0) {
        RLSynchronized(&objects[0], count_call, NULL);
        _exit(called == 1 ? 0 : 1);
    }
    during_fork = NULL;
    expect_success(forked);
    thread_join(thread);
    RLConditionSignal(&condition);
    thread_join(waiting.thread);
}

/* ---- RLOnce */

static RLOnce once = RL_ONCE_INIT;
static int others;
static void call_in_child(void *unused) {
    RLOnceCall(&once, count_call, unused);
    __atomic_add_fetch(&others, 1, __ATOMIC_SEQ_CST);
}
static void fork_in_once(void *unused) {
    count_call(unused);
    fork_now(unused);
    if (forked != 0) return;
    Thread *thread = thread_start(call_in_child, NULL);
    (void)thread;
    /* It shows as far as can be shown that the other call waits. */
    take_time(0.05);
    if (count_of(&called) != 1 || count_of(&others) != 0) _exit(2);
}

RL_TEST(a_once_forks, "S-SYNC-17 S-SYNC-6", "A function of a once that forks goes on in the child as the one call; calls of other threads wait for it") {
    RLOnceCall(&once, fork_in_once, NULL);
    if (forked == 0) {
        wait_until_count(&others, 1);
        _exit(called == 1 ? 0 : 3);
    }
    expect_success(forked);
    ck_assert_int_eq(called, 1);
}

/* ---- RLReadWriteLock */

static RLReadWriteLock shared = RL_READ_WRITE_LOCK_INIT;
static void write_it(void *unused) {
    (void)unused;
    RLReadWriteLockLockForWriting(&shared);
    RLReadWriteLockUnlock(&shared);
}
static void read_it(void *unused) {
    (void)unused;
    if (!RLReadWriteLockTryLockForReading(&shared)) _exit(2);
    RLReadWriteLockUnlock(&shared);
}

RL_TEST(writers_that_are_not_here_keep_no_attempt_out, "S-SYNC-12 S-SYNC-6",
        "In the child of a fork during which a writer waited, attempts to read beside a reader, and to write, get the lock") {
    RLReadWriteLockLockForReading(&shared);
    Thread *writer = thread_start(write_it, NULL);
    while (!(__atomic_load_n(&shared.word, __ATOMIC_SEQ_CST) & RL_WRITERS_WAIT_)) take_time(0.001);
    fork_now(NULL);
    if (forked == 0) {
        uint32_t found = shared.word;
        thread_join(thread_start(read_it, NULL));
        RLReadWriteLockUnlock(&shared);
        /* As a fork leaves it that came between the unlock and the look of the writer that it woke. */
        shared.word = found & RL_WAITERS_;
        if (!RLReadWriteLockTryLockForWriting(&shared)) _exit(3);
        RLReadWriteLockUnlock(&shared);
        _exit(shared.word == 0 ? 0 : 4);
    }
    expect_success(forked);
    ck_assert_msg(!RLReadWriteLockTryLockForReading(&shared), "here the writer waits");
    RLReadWriteLockUnlock(&shared);
    thread_join(writer);
}

/* ---- threads */

static RLThreadRef thread;
static void return_at_once(RLThreadRef self, void *info) { (void)self, (void)info; }

RL_TEST(the_function_before_the_first_start_forks, "S-THREAD-17 S-THREAD-8", "The start goes on in parent and child, with a whole thread in each") {
    RLThreadSetMultiThreadedCallBack(fork_now, NULL);
    thread = RLThreadCreate(NULL, NULL, NULL);
    bool is_right = RLThreadStart(thread) && RLThreadIsExecuting(thread) && !RLThreadIsFinished(thread) && RLThreadEnd(thread)
        && RLThreadIsFinished(thread);
    RLRelease(thread);
    if (forked == 0) _exit(is_right ? 0 : 1);
    ck_assert(is_right);
    expect_success(forked);
}

#if !defined(WITH_THREAD_SANITIZER) /* It checks joins against a list of its own, in which the child's thread is joined already. */
static int joins;
static void join_it(void *unused) {
    (void)unused;
    __atomic_add_fetch(&joins, 1, __ATOMIC_SEQ_CST);
    RLThreadJoin(thread);
}
static void join_in_child(void *unused) {
    join_it(unused);
    _exit(RLThreadIsFinished(thread) ? 0 : 1);
}
static void fork_and_end(RLThreadRef self, void *info) {
    (void)self, (void)info;
    wait_until_count(&joins, 1);
    take_time(0.02); /* So that the other thread is in the join; the case holds if it is not. */
    fork_now(NULL);
    if (forked == 0) {
        thread_start(join_in_child, NULL);
        wait_until_count(&joins, 2);
        pthread_exit(NULL);
    }
    expect_success(forked);
}

RL_TEST(joined_by_a_thread_that_is_not_here, "S-THREAD-8", "A thread that was being joined forks, and is joined in the child by another thread") {
    thread = RLThreadCreate(fork_and_end, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    Thread *joiner = thread_start(join_it, NULL);
    thread_join(joiner);
    RLRelease(thread);
}
#endif

static void list_threads(RLThreadRef self, void *info) {
    (void)info;
    RLIndex count = 0;
    RLThreadRef *all = RLThreadCopyAll(&count);
    _exit(count == 1 && all[0] == self ? 0 : 1);
}
static void fork_in_release(void *info) {
    fork_now(info);
    if (forked != 0) return expect_success(forked);
    if (!RLThreadDetachNew(list_threads, NULL, NULL)) _exit(2);
}

RL_TEST(a_thread_forks_in_its_release, "S-THREAD-15 S-THREAD-8", "In the child it is no executing thread any more") {
    thread = RLThreadCreate(return_at_once, NULL, fork_in_release);
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    RLRelease(thread);
}
