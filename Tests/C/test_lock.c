/* SPDX-License-Identifier: MIT */
/* Section 31: locks. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000 };

/* How many calls the library made, and how many threads went to sleep on a word. */
static int calls, sleeps;

static bool watch_calls(long number, const long argument[6], long *result) {
    (void)result;
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) __atomic_fetch_add(&sleeps, 1, __ATOMIC_SEQ_CST);
    return false;
}

static RLLock lock = RL_LOCK_INIT;
static RLRecursiveLock recursive = RL_RECURSIVE_LOCK_INIT;
static RLReadWriteLock read_write = RL_READ_WRITE_LOCK_INIT;

RL_TEST(zero_is_unlocked, "S-SYNC-1", "A lock is a few bytes, and zeroed memory is an unlocked one") {
    ck_assert_uint_eq(sizeof(RLLock), 8);
    ck_assert_uint_eq(sizeof(RLRecursiveLock), 8 + sizeof(void *));
    ck_assert_uint_eq(sizeof(RLReadWriteLock), 8);
    char memory[64];
    memset(memory, 0, sizeof memory);
    ck_assert_int_eq(memcmp(memory, &lock, sizeof lock), 0);
    ck_assert_int_eq(memcmp(memory, &recursive, sizeof recursive), 0);
    ck_assert_int_eq(memcmp(memory, &read_write, sizeof read_write), 0);
    RLLock *made = calloc(1, sizeof *made);
    RLLockLock(made);
    RLLockUnlock(made);
    free(made);
}

RL_TEST(no_system_call, "S-SYNC-2", "Locking and unlocking a free lock asks the kernel for nothing and leaves the lock as it was") {
    hook_system_calls(watch_calls);
    RLLockLock(&lock);
    RLLockUnlock(&lock);
    ck_assert(RLLockTryLock(&lock));
    RLLockUnlock(&lock);
    ck_assert(RLLockLockForSeconds(&lock, 1));
    RLLockUnlock(&lock);
    RLRecursiveLockLock(&recursive);
    RLRecursiveLockLock(&recursive);
    RLRecursiveLockUnlock(&recursive);
    RLRecursiveLockUnlock(&recursive);
    RLReadWriteLockLockForReading(&read_write);
    ck_assert(RLReadWriteLockTryLockForReading(&read_write));
    RLReadWriteLockUnlock(&read_write);
    RLReadWriteLockUnlock(&read_write);
    RLReadWriteLockLockForWriting(&read_write);
    RLReadWriteLockUnlock(&read_write);
    hook_system_calls(NULL);
    ck_assert_int_eq(calls, 0);
    ck_assert_int_eq(lock.word, 0);
    ck_assert_int_eq(recursive.word, 0);
    ck_assert_int_eq(read_write.word, 0);
}

/* ---- one at a time */

static long counter, readers_seen;

static void count_with_lock(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0)
            while (!RLLockTryLock(&lock)) sched_yield();
        else if (i % 4 == 1)
            ck_assert(RLLockLockForSeconds(&lock, 1000));
        else if (i % 4 == 2)
            ck_assert(RLLockLockBeforeDate(&lock, FAR_FUTURE));
        else
            RLLockLock(&lock);
        counter++;
        RLLockUnlock(&lock);
    }
}

static void count_with_recursive_lock(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        RLRecursiveLockLock(&recursive);
        RLRecursiveLockLock(&recursive);
        counter++;
        RLRecursiveLockUnlock(&recursive);
        RLRecursiveLockUnlock(&recursive);
    }
}

static void count_with_read_write_lock(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2) {
            RLReadWriteLockLockForWriting(&read_write);
            counter++;
        } else {
            RLReadWriteLockLockForReading(&read_write);
            __atomic_fetch_add(&readers_seen, counter >= 0, __ATOMIC_RELAXED);
        }
        RLReadWriteLockUnlock(&read_write);
    }
}

static void all_at_once(void (*function)(void *)) {
    Thread *threads[THREADS];
    counter = 0;
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(function, NULL);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
}

RL_TEST(one_at_a_time, "S-SYNC-5 S-SYNC-8 S-SYNC-10 S-SYNC-11",
        "Of threads that lock, by every call there is, one at a time holds the lock and sees what the others did") {
    all_at_once(count_with_lock);
    ck_assert_int_eq(counter, THREADS * ROUNDS);
    ck_assert_int_eq(lock.word & 1, 0);
    all_at_once(count_with_recursive_lock);
    ck_assert_int_eq(counter, THREADS * ROUNDS);
    all_at_once(count_with_read_write_lock);
    ck_assert_int_eq(counter, THREADS * ROUNDS / 2);
    ck_assert_int_eq(readers_seen, THREADS * ROUNDS / 2);
}

/* ---- waits and their ends */

static void lock_and_trace(void *word) {
    errno = 77;
    RLLockLock(&lock);
    ck_assert_int_eq(errno, 77);
    trace("%s", (const char *)word);
    RLLockUnlock(&lock);
    ck_assert_int_eq(errno, 77);
}

RL_TEST(waits_until_unlocked, "S-SYNC-2 S-SYNC-8 S-SYNC-9",
        "A thread waits until the lock is given back, also by another thread than the one that took it; errno stays") {
    hook_system_calls(watch_calls);
    RLLockLock(&lock);
    Thread *thread = thread_start(lock_and_trace, "locked");
    wait_until_count(&sleeps, 1);
    trace("unlocks");
    thread_join(thread_start((void (*)(void *))RLWordWake_, &lock)); /* A wake-up for nothing changes nothing. */
    wait_until_count(&sleeps, 2);
    RLLockUnlock(&lock);
    thread_join(thread);
    expect_trace("unlocks locked");
    hook_system_calls(NULL);
}

static void try_all(void *unused) {
    (void)unused;
    const double limits[] = {0, -1, -INFINITY, 0.005};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        double begin = monotonic_now();
        ck_assert(!RLLockLockForSeconds(&lock, limits[i]));
        ck_assert(!RLLockLockBeforeDate(&lock, date_in(limits[i])));
        ck_assert(!RLRecursiveLockLockForSeconds(&recursive, limits[i]));
        ck_assert(!RLRecursiveLockLockBeforeDate(&recursive, date_in(limits[i])));
        ck_assert(!RLReadWriteLockLockForReadingForSeconds(&read_write, limits[i]));
        ck_assert(!RLReadWriteLockLockForWritingForSeconds(&read_write, limits[i]));
        if (limits[i] > 0) ck_assert(monotonic_now() - begin >= 0.0249);
    }
    ck_assert(!RLLockTryLock(&lock));
    ck_assert(!RLRecursiveLockTryLock(&recursive));
    ck_assert(!RLReadWriteLockTryLockForReading(&read_write));
    ck_assert(!RLReadWriteLockTryLockForWriting(&read_write));
}

static void lock_without_limit(void *limit) {
    ck_assert(RLLockLockForSeconds(&lock, *(double *)limit));
    RLLockUnlock(&lock);
    ck_assert(RLReadWriteLockLockForWritingForSeconds(&read_write, *(double *)limit));
    RLReadWriteLockUnlock(&read_write);
}

RL_TEST(limits, "S-SYNC-4", "An attempt and a limit that is over leave the lock to its holder; infinity and NaN are no limits") {
    RLLockLock(&lock);
    RLRecursiveLockLock(&recursive);
    RLReadWriteLockLockForWriting(&read_write);
    thread_join(thread_start(try_all, NULL));
    RLRecursiveLockUnlock(&recursive);
    hook_system_calls(watch_calls);
    double none[] = {INFINITY, NAN, 1e300};
    for (int i = 0; i < 3; i++) {
        int before = count_of(&sleeps);
        Thread *thread = thread_start(lock_without_limit, &none[i]);
        wait_until_count(&sleeps, before + 1);
        RLLockUnlock(&lock);
        wait_until_count(&sleeps, before + 2);
        RLReadWriteLockUnlock(&read_write);
        thread_join(thread);
        RLLockLock(&lock);
        RLReadWriteLockLockForWriting(&read_write);
    }
    hook_system_calls(NULL);
}

static int handled;
static void handle(int number) {
    (void)number;
    handled++;
}

static void *lock_for_ever(void *unused) {
    (void)unused;
    RLLockLock(&lock);
    trace("locked");
    RLReadWriteLockLockForWriting(&read_write);
    trace("writes");
    RLReadWriteLockUnlock(&read_write);
    RLLockUnlock(&lock);
    trace("unlocked");
    pthread_testcancel();
    trace("not-cancelled");
    return NULL;
}

RL_TEST(signals_and_cancellation, "S-SYNC-3", "Neither a signal handler nor a cancellation ends a wait; the thread ends at its own cancellation point") {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    RLLockLock(&lock);
    RLReadWriteLockLockForReading(&read_write);
    hook_system_calls(watch_calls);
    pthread_t thread;
    pthread_create(&thread, NULL, lock_for_ever, NULL);
    wait_until_count(&sleeps, 1);
    for (int i = 1; i <= 3; i++) {
        pthread_kill(thread, SIGUSR1);
        wait_until_count(&sleeps, i + 1);
    }
    pthread_cancel(thread);
    RLLockUnlock(&lock);
    wait_until_count(&sleeps, 5);
    pthread_kill(thread, SIGUSR1);
    wait_until_count(&sleeps, 6);
    RLReadWriteLockUnlock(&read_write);
    pthread_join(thread, NULL);
    hook_system_calls(NULL);
    expect_trace("locked writes unlocked");
    ck_assert_int_ge(handled, 3);
    ck_assert(RLLockTryLock(&lock));
}

/* ---- recursive */

static void try_recursive(void *expected) {
    ck_assert_int_eq(RLRecursiveLockTryLock(&recursive), *(bool *)expected);
    RLRecursiveLockUnlock(&recursive);
}

RL_TEST(recursive_lock, "S-SYNC-10", "The holder locks again by every call; the lock is free after as many unlocks; an unlock by another thread does nothing") {
    bool no = false, yes = true;
    RLRecursiveLockLock(&recursive);
    ck_assert(RLRecursiveLockTryLock(&recursive));
    ck_assert(RLRecursiveLockLockForSeconds(&recursive, 0));
    ck_assert(RLRecursiveLockLockBeforeDate(&recursive, date_in(-1)));
    RLRecursiveLockLock(&recursive);
    for (int i = 0; i < 5; i++) {
        thread_join(thread_start(try_recursive, &no));
        RLRecursiveLockUnlock(&recursive);
    }
    thread_join(thread_start(try_recursive, &yes));
    RLRecursiveLockUnlock(&recursive);
    ck_assert(RLRecursiveLockTryLock(&recursive));
    RLRecursiveLockUnlock(&recursive);
}

/* ---- readers and writers */

static void write_and_trace(void *word) {
    RLReadWriteLockLockForWriting(&read_write);
    trace("%s", (const char *)word);
    RLReadWriteLockUnlock(&read_write);
}
static void read_and_trace(void *word) {
    RLReadWriteLockLockForReading(&read_write);
    trace("%s", (const char *)word);
    RLReadWriteLockUnlock(&read_write);
}

RL_TEST(writers_do_not_starve, "S-SYNC-11 S-SYNC-12", "A reader that comes while a writer waits is let in after it") {
    hook_system_calls(watch_calls);
    RLReadWriteLockLockForReading(&read_write);
    Thread *writer = thread_start(write_and_trace, "writer");
    wait_until_count(&sleeps, 1);
    ck_assert(!RLReadWriteLockTryLockForReading(&read_write));
    Thread *reader = thread_start(read_and_trace, "reader");
    wait_until_count(&sleeps, 2);
    RLReadWriteLockUnlock(&read_write);
    thread_join(writer);
    thread_join(reader);
    expect_trace("writer reader");
    hook_system_calls(NULL);
}

static void give_up_writing(void *unused) {
    (void)unused;
    ck_assert(!RLReadWriteLockLockForWritingForSeconds(&read_write, 0.005));
}

RL_TEST(a_writer_gives_up, "S-SYNC-12", "A writer whose time is over keeps no reader out, neither those that wait for it nor later ones") {
    RLReadWriteLockLockForReading(&read_write);
    hook_system_calls(watch_calls);
    Thread *writer = thread_start(give_up_writing, NULL);
    wait_until_count(&sleeps, 1);
    Thread *reader = thread_start(read_and_trace, "reader");
    thread_join(writer);
    thread_join(reader);
    expect_trace("reader");
    ck_assert(RLReadWriteLockTryLockForReading(&read_write));
    hook_system_calls(NULL);
}

/* A wait with a limit that a wake-up alone ends; it goes on when its limit is over and the lock was taken again. */
static __thread bool is_late;
static Gate taken_again = GATE_INITIALIZER;
static bool wake_late(long number, const long argument[6], long *result) {
    watch_calls(number, argument, result);
    if (!is_late || number != SYS_futex || (argument[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET) return false;
    const long endless[6] = {argument[0], argument[1], argument[2], 0, argument[4], argument[5]};
    *result = system_call(number, endless);
    gate_wait(&taken_again);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, (const struct timespec *)argument[3], NULL);
    return true;
}
static void give_up_late(void *unused) {
    is_late = true;
    give_up_writing(unused);
}

RL_TEST(a_woken_writer_gives_up, "S-SYNC-12", "A writer that was woken when its time was over lets another one have the lock") {
    hook_system_calls(wake_late);
    RLReadWriteLockLockForWriting(&read_write);
    Thread *late = thread_start(give_up_late, NULL);
    wait_until_count(&sleeps, 1);
    Thread *writer = thread_start(write_and_trace, "writer");
    wait_until_count(&sleeps, 2);
    RLReadWriteLockUnlock(&read_write);
    RLReadWriteLockLockForWriting(&read_write);
    gate_open(&taken_again);
    thread_join(late);
    RLReadWriteLockUnlock(&read_write);
    thread_join(writer);
    expect_trace("writer");
    hook_system_calls(NULL);
}

RL_TEST(all_readers_after_a_writer, "S-SYNC-12", "A writer that unlocks lets in every reader that waits") {
    hook_system_calls(watch_calls);
    RLReadWriteLockLockForWriting(&read_write);
    Thread *readers[THREADS];
    for (int i = 0; i < THREADS; i++) readers[i] = thread_start(read_and_trace, "reader");
    wait_until_count(&sleeps, THREADS);
    RLReadWriteLockUnlock(&read_write);
    for (int i = 0; i < THREADS; i++) thread_join(readers[i]);
    ck_assert_int_eq(trace_count("reader"), THREADS);
    hook_system_calls(NULL);
}

/* ---- fork */

static void hold_until(void *gate) {
    RLRecursiveLockLock(&recursive);
    gate_open(&((Gate *)gate)[0]);
    gate_wait(&((Gate *)gate)[1]);
    RLRecursiveLockUnlock(&recursive);
}

static void lock_before_fork(void) { RLLockLock(&lock); }
static void unlock_after_fork(void) { RLLockUnlock(&lock); }

RL_TEST(fork_child, "S-SYNC-6", "In the child the forking thread's locks are its own to unlock, and another thread's stay locked; pthread_atfork keeps a lock usable") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    Thread *other = thread_start(hold_until, gates);
    gate_wait(&gates[0]);
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
    RLRecursiveLock own = RL_RECURSIVE_LOCK_INIT;
    RLRecursiveLockLock(&own);
    RLReadWriteLockLockForWriting(&read_write);
    pid_t child = fork();
    if (child == 0) {
        RLRecursiveLockLock(&own);
        RLRecursiveLockUnlock(&own);
        RLRecursiveLockUnlock(&own);
        RLReadWriteLockUnlock(&read_write);
        if (own.word != 0 || read_write.word != 0 || !RLLockTryLock(&lock)) _exit(1);
        _exit(RLRecursiveLockLockForSeconds(&recursive, 0.001) ? 2 : 0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    gate_open(&gates[1]);
    thread_join(other);
    ck_assert(RLRecursiveLockTryLock(&recursive));
}
