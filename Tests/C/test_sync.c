/* SPDX-License-Identifier: MIT */
/* Section 31: conditions, condition locks, once, semaphores, barriers, RLSynchronized. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5000 };

static int calls, sleeps;

static bool watch_calls(long number, const long argument[6], long *result) {
    (void)result;
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) __atomic_fetch_add(&sleeps, 1, __ATOMIC_SEQ_CST);
    return false;
}

static RLCondition condition = RL_CONDITION_INIT;
static RLConditionLock numbered = RL_CONDITION_LOCK_INIT(7);
static RLOnce once = RL_ONCE_INIT;
static RLSemaphore semaphore = RL_SEMAPHORE_INIT(2);
static RLBarrier barrier = RL_BARRIER_INIT(THREADS);
static int ready, taken, called;

static void count_up(void *counter) { ++*(int *)counter; }

RL_TEST(sizes_and_zeroes, "S-SYNC-1 S-SYNC-2", "The structures are small; zeroed memory is one of them; what need not wait asks the kernel for nothing") {
    ck_assert_uint_eq(sizeof(RLCondition), 16);
    ck_assert_uint_eq(sizeof(RLConditionLock), 16 + sizeof(RLIndex));
    ck_assert_uint_eq(sizeof(RLOnce), 4);
    ck_assert_uint_eq(sizeof(RLSemaphore), 8);
    ck_assert_uint_eq(sizeof(RLBarrier), 12);
    ck_assert_int_eq(RLConditionLockGetCondition(&numbered), 7);
    ck_assert(!RLOnceIsDone(&once));
    RLOnceCall(&once, count_up, &called);
    hook_system_calls(watch_calls);
    ck_assert(RLOnceIsDone(&once));
    RLOnceCall(&once, count_up, &called);
    RLConditionSignal(&condition);
    RLConditionBroadcast(&condition);
    RLConditionLockLockWhenCondition(&numbered, 7);
    RLConditionLockUnlockWithCondition(&numbered, 8);
    ck_assert(RLConditionLockTryLockWhenCondition(&numbered, 8));
    RLConditionLockUnlock(&numbered);
    RLSemaphoreWait(&semaphore);
    ck_assert(RLSemaphoreTryWait(&semaphore) && !RLSemaphoreTryWait(&semaphore));
    RLSemaphoreSignal(&semaphore);
    RLSynchronized(&calls, count_up, &called);
    hook_system_calls(NULL);
    ck_assert_int_eq(calls, 0);
    ck_assert_int_eq(called, 2);
}

/* ---- conditions */

static void take_when_ready(void *word) {
    errno = 77;
    RLLockLock(&condition.lock);
    while (!ready) RLConditionWait(&condition);
    ready--;
    trace("%s", (const char *)word);
    RLLockUnlock(&condition.lock);
    ck_assert_int_eq(errno, 77);
}

RL_TEST(signal_and_broadcast, "S-SYNC-13 S-SYNC-14", "Signal lets one waiter go on, broadcast all, with or without the lock") {
    hook_system_calls(watch_calls);
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_start(take_when_ready, "taken");
        wait_until_count(&sleeps, i + 1);
    }
    RLLockLock(&condition.lock);
    ready = 1;
    RLConditionSignal(&condition);
    while (ready) {
        RLLockUnlock(&condition.lock);
        RLLockLock(&condition.lock);
    }
    RLLockUnlock(&condition.lock);
    ck_assert_str_eq(trace_take(), "taken");
    RLLockLock(&condition.lock);
    ready = THREADS - 1;
    RLLockUnlock(&condition.lock);
    RLConditionBroadcast(&condition);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(trace_count("taken"), THREADS - 1);
    ck_assert_uint_eq(condition.waiters, 0);
    hook_system_calls(NULL);
}

static void produce(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        RLLockLock(&condition.lock);
        while (ready == 3) RLConditionWait(&condition);
        ready++;
        RLConditionBroadcast(&condition);
        RLLockUnlock(&condition.lock);
    }
}
static void consume(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        RLLockLock(&condition.lock);
        while (ready == 0) RLConditionWaitForSeconds(&condition, i % 2 ? 1000 : NAN);
        ready--;
        taken++;
        RLLockUnlock(&condition.lock);
        RLConditionBroadcast(&condition);
    }
}

RL_TEST(producers_and_consumers, "S-SYNC-13", "No signal is lost between producers and consumers") {
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(i % 2 ? produce : consume, NULL);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(taken, ROUNDS * THREADS / 2);
    ck_assert_int_eq(ready, 0);
}

RL_TEST(condition_limits, "S-SYNC-4 S-SYNC-14", "A wait whose limit is over returns false, not before, with the lock held") {
    RLLockLock(&condition.lock);
    const double limits[] = {0, -1, -INFINITY, 0.005};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        double begin = monotonic_now();
        /* It may return for no reason. */
        while (RLConditionWaitForSeconds(&condition, limits[i])) begin = monotonic_now();
        if (limits[i] > 0) ck_assert(monotonic_now() - begin >= limits[i]);
        while (RLConditionWaitUntilDate(&condition, date_in(limits[i]))) continue;
        ck_assert_uint_eq(condition.lock.word & 1, 1);
    }
    RLLockUnlock(&condition.lock);
}

/* A signal that comes between two calls by which the thread sanitizer is told of a lock leaves its count of them wrong; the other one
 * finds lost what the framework has allocated in a thread that is cancelled. */
#if !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)
static void *wait_cancelled(void *unused) {
    take_when_ready("taken");
    pthread_testcancel();
    trace("not-cancelled");
    return unused;
}
static void ignore(int number) { (void)number; }

static void *wait_once(void *limit) {
    RLLockLock(&condition.lock);
    if (limit) RLConditionWaitForSeconds(&condition, *(double *)limit);
    else RLConditionWait(&condition);
    trace("woken");
    RLLockUnlock(&condition.lock);
    return NULL;
}

RL_TEST(handlers_end_no_wait_for_a_condition, "S-SYNC-3", "A thread that waits for a condition, with a limit and without, goes on waiting after a signal handler") {
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
    hook_system_calls(watch_calls);
    double limits[] = {0, 1000};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        int before = count_of(&sleeps);
        pthread_create(&thread, NULL, wait_once, i ? &limits[i] : NULL);
        wait_until_count(&sleeps, before + 1);
        /* Each makes it sleep once more. */
        for (int signals = 1; signals <= 3; signals++) {
            while (count_of(&sleeps) <= before + signals) {
                pthread_kill(thread, SIGUSR1);
                sched_yield();
            }
        }
        expect_trace("");
        RLLockLock(&condition.lock);
        RLConditionSignal(&condition);
        RLLockUnlock(&condition.lock);
        pthread_join(thread, NULL);
        expect_trace("woken");
    }
    hook_system_calls(NULL);
}

RL_TEST(condition_signals_and_cancellation, "S-SYNC-3", "A wait for a condition is no cancellation point, and a signal handler takes nothing from it") {
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
    hook_system_calls(watch_calls);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_cancelled, NULL);
    wait_until_count(&sleeps, 1);
    pthread_cancel(thread);
    pthread_kill(thread, SIGUSR1);
    wait_until_count(&sleeps, 2);
    RLLockLock(&condition.lock);
    ready = 1;
    RLConditionSignal(&condition);
    RLLockUnlock(&condition.lock);
    pthread_join(thread, NULL);
    expect_trace("taken");
    hook_system_calls(NULL);
}
#endif

/* ---- condition locks */

static void pass_on(void *number) {
    long mine = *(long *)number;
    for (int i = 0; i < ROUNDS; i++) {
        RLConditionLockLockWhenCondition(&numbered, mine);
        ck_assert_int_eq(RLConditionLockGetCondition(&numbered), mine);
        taken++;
        RLConditionLockUnlockWithCondition(&numbered, (mine + 1) % THREADS);
    }
}

RL_TEST(numbers_go_round, "S-SYNC-15 S-SYNC-16", "Threads that wait for their numbers take turns, however often") {
    static long numbers[THREADS] = {0, 1, 2, 3};
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(pass_on, &numbers[i]);
    RLConditionLockLock(&numbered);
    RLConditionLockUnlockWithCondition(&numbered, 0);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(taken, THREADS * ROUNDS);
}

static void wait_for_number(void *number) {
    RLConditionLockLockWhenCondition(&numbered, *(long *)number);
    trace("%ld", *(long *)number);
    RLConditionLockUnlock(&numbered);
}

RL_TEST(all_who_wait_for_a_number, "S-SYNC-16",
        "All threads that wait for a number come to their turn, and those that wait for another do not wake up") {
    static long numbers[] = {5, 5, 5, 6, 31, 32, 32, -1};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    Thread *threads[COUNT];
    hook_system_calls(watch_calls);
    for (int i = 0; i < COUNT; i++) {
        threads[i] = thread_start(wait_for_number, &numbers[i]);
        wait_until_count(&sleeps, i + 1);
    }
    const long order[] = {5, 32, -1, 31, 6};
    const int members[] = {3, 2, 1, 1, 1};
    for (int i = 0; i < 5; i++) {
        RLConditionLockLock(&numbered);
        RLConditionLockUnlockWithCondition(&numbered, order[i]);
        for (int n = 0; n < COUNT; n++)
            if (numbers[n] == order[i]) thread_join(threads[n]);
        char word[16];
        snprintf(word, sizeof word, "%ld", order[i]);
        ck_assert_int_eq(trace_count(word), members[i]);
        trace_take();
        /* Of those that wait for numbers above 30 and below 0 more than the ones meant may have woken. */
        if (i == 0) ck_assert_uint_eq(__atomic_load_n(&numbered.condition.waiters, __ATOMIC_SEQ_CST), 5);
    }
    hook_system_calls(NULL);
}

static void wait_briefly_for_number(void *unused) {
    (void)unused;
    ck_assert(!RLConditionLockLockWhenConditionForSeconds(&numbered, 5, 2));
}

RL_TEST(a_wake_up_that_comes_too_late_is_passed_on, "S-SYNC-16 S-SYNC-4",
        "Of two that wait for a number, one gives up after it was woken, because another thread has the lock to look for another number: the other one gets it") {
    static long five = 5;
    Thread *brief = thread_start(wait_briefly_for_number, NULL);
    wait_until_count((int *)&numbered.condition.waiters, 1);
    Thread *patient = thread_start(wait_for_number, &five);
    wait_until_count((int *)&numbered.condition.waiters, 2);
    RLConditionLockLock(&numbered);
    /* As if the lock had been given back with the number, and taken again before the woken thread came. */
    __atomic_store_n(&numbered.value, 5, __ATOMIC_RELAXED);
    RLConditionSignal(&numbered.condition);
    thread_join(brief);
    /* As a thread gives it back that does not find the number that it wants. */
    RLLockUnlock(&numbered.condition.lock);
    thread_join(patient);
}

static void fail_to_lock(void *unused) {
    (void)unused;
    ck_assert(!RLConditionLockTryLock(&numbered));
    ck_assert(!RLConditionLockLockForSeconds(&numbered, 0.001));
    ck_assert(!RLConditionLockLockBeforeDate(&numbered, date_in(0.001)));
    ck_assert(!RLConditionLockTryLockWhenCondition(&numbered, 7));
    ck_assert(!RLConditionLockLockWhenConditionForSeconds(&numbered, 7, 0.001));
}

RL_TEST(condition_lock_limits, "S-SYNC-4 S-SYNC-15", "What is not to be had within the limit is not locked: neither the lock nor the number") {
    ck_assert(!RLConditionLockTryLockWhenCondition(&numbered, 1));
    double begin = monotonic_now();
    ck_assert(!RLConditionLockLockWhenConditionForSeconds(&numbered, 1, 0.005));
    ck_assert(monotonic_now() - begin >= 0.005);
    ck_assert(!RLConditionLockLockWhenConditionBeforeDate(&numbered, 1, date_in(0.005)));
    ck_assert(!RLConditionLockLockWhenConditionBeforeDate(&numbered, 1, date_in(-5)));
    ck_assert(RLConditionLockTryLock(&numbered));
    thread_join(thread_start(fail_to_lock, NULL));
    RLConditionLockUnlock(&numbered);
    ck_assert(RLConditionLockLockWhenConditionBeforeDate(&numbered, 7, date_in(-5)));
    RLConditionLockUnlock(&numbered);
}

/* ---- once */

static void set_up(void *gate) {
    gate_open(&((Gate *)gate)[0]);
    gate_wait(&((Gate *)gate)[1]);
    called++;
}
static void call_once(void *gate) {
    RLOnceCall(&once, set_up, gate);
    ck_assert_int_eq(called, 1);
}

RL_TEST(called_once, "S-SYNC-17 S-SYNC-5", "One thread calls the function; all others return when it has returned") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    Thread *threads[THREADS];
    hook_system_calls(watch_calls);
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(call_once, gates);
    wait_until_count(&sleeps, THREADS - 1);
    gate_open(&gates[1]);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    RLOnceCall(&once, set_up, NULL);
    ck_assert_int_eq(called, 1);
    hook_system_calls(NULL);
}

/* All cases run in children of a fork. This is a program of its own, which has not come out of one; it cannot use assertions. */
static int is_in_once, may_leave_once;
static void wait_in_once(void *unused) {
    (void)unused;
    __atomic_store_n(&is_in_once, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_leave_once, __ATOMIC_SEQ_CST)) sched_yield();
}
static void *wait_in_once_thread(void *unused) {
    RLOnceCall(&once, wait_in_once, NULL);
    return unused;
}
__attribute__((constructor)) static void call_once_before_any_fork(void) {
    if (!getenv("SYNC_TEST_PROGRAM")) return;
    pthread_t threads[2];
    hook_system_calls(watch_calls);
    pthread_create(&threads[0], NULL, wait_in_once_thread, NULL);
    while (!__atomic_load_n(&is_in_once, __ATOMIC_SEQ_CST)) sched_yield();
    pthread_create(&threads[1], NULL, wait_in_once_thread, NULL);
    while (__atomic_load_n(&sleeps, __ATOMIC_SEQ_CST) < 1) sched_yield();
    const bool is_done = RLOnceIsDone(&once);
    __atomic_store_n(&may_leave_once, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    _exit(is_done ? 3 : 0);
}

RL_TEST(called_once_before_any_fork, "S-SYNC-17", "A once is not done while a thread waits for it, also in a process that has not come out of a fork") {
    pid_t process = fork();
    if (process == 0) {
        setenv("SYNC_TEST_PROGRAM", "1", 1);
        alarm(60);
        become_program(NULL);
        _exit(2);
    }
    int status;
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    ck_assert_int_eq(status, 0);
}

static void end_thread(void *gate) {
    if (gate) set_up(gate);
    pthread_exit(NULL);
}
static void call_once_and_end(void *gate) { RLOnceCall(&once, end_thread, gate); }
static void *call_once_and_end_thread(void *gate) {
    call_once_and_end(gate);
    return NULL;
}

RL_TEST(once_ends_its_thread, "S-SYNC-17", "If the function ends its thread, a thread that waits calls it anew") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    pthread_t thread;
    hook_system_calls(watch_calls);
    pthread_create(&thread, NULL, call_once_and_end_thread, gates);
    gate_wait(&gates[0]);
    Thread *next = thread_start((void (*)(void *))call_once, gates);
    wait_until_count(&sleeps, 1);
    called = -1;
    gate_open(&gates[1]);
    pthread_join(thread, NULL);
    thread_join(next);
    ck_assert_int_eq(called, 1);
    hook_system_calls(NULL);
}

RL_TEST(once_in_a_child, "S-SYNC-17 S-SYNC-6", "What another thread was in when the process forked is called anew in the child") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    Thread *thread = thread_start(call_once, gates);
    gate_wait(&gates[0]);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        RLOnceCall(&once, count_up, &taken);
        RLOnceCall(&once, count_up, &taken);
        _exit(taken == 1 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    gate_open(&gates[1]);
    thread_join(thread);
}

/* ---- semaphores and barriers */

static void wait_and_count(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2) ck_assert(RLSemaphoreWaitForSeconds(&semaphore, 1000));
        else RLSemaphoreWait(&semaphore);
        __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    }
}

RL_TEST(semaphore_counts, "S-SYNC-18", "As many waits return as there were signals and an initial count, and a limit that is over takes nothing") {
    ck_assert(RLSemaphoreTryWait(&semaphore) && RLSemaphoreTryWait(&semaphore));
    double begin = monotonic_now();
    ck_assert(!RLSemaphoreWaitForSeconds(&semaphore, 0.005));
    ck_assert(monotonic_now() - begin >= 0.005);
    ck_assert(!RLSemaphoreWaitForSeconds(&semaphore, -1));
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(wait_and_count, NULL);
    for (int i = 0; i < THREADS * ROUNDS; i++) RLSemaphoreSignal(&semaphore);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(taken, THREADS * ROUNDS);
    ck_assert_uint_eq(semaphore.state, 0);
}

static void signal_semaphore(int number) {
    (void)number;
    int interrupted = errno;
    errno = 5;
    RLSemaphoreSignal(&semaphore);
    ck_assert_int_eq(errno, 5);
    errno = interrupted;
}

static void *wait_for_signal(void *unused) {
    RLSemaphoreWait(&semaphore);
    return unused;
}

RL_TEST(semaphore_in_a_handler, "S-SYNC-18 S-SYNC-3", "A signal handler lets the thread go on that waits") {
    struct sigaction action = {.sa_handler = signal_semaphore};
    sigaction(SIGUSR1, &action, NULL);
    semaphore.state = 0;
    hook_system_calls(watch_calls);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_signal, NULL);
    wait_until_count(&sleeps, 1);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    hook_system_calls(NULL);
}

static void meet(void *unused) {
    (void)unused;
    for (int i = 1; i <= 500; i++) {
        __atomic_fetch_add(&ready, 1, __ATOMIC_RELAXED);
        if (RLBarrierWait(&barrier)) __atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
        ck_assert_int_ge(__atomic_load_n(&ready, __ATOMIC_RELAXED), i * THREADS);
        RLBarrierWait(&barrier);
    }
}

RL_TEST(barrier_holds, "S-SYNC-19", "No thread passes before all have arrived; one is told so; the barrier serves again at once") {
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(meet, NULL);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(called, 500);
}

static RLBarrier pairs = RL_BARRIER_INIT(2);
static int begun, left;

static void meet_in_pairs(void *unused) {
    (void)unused;
    for (int i = 1; i <= ROUNDS; i++) {
        while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < i) sched_yield();
        if (RLBarrierWait(&pairs)) __atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&left, 1, __ATOMIC_SEQ_CST);
    }
}

RL_TEST(barrier_of_fewer, "S-SYNC-19", "Of three threads that arrive at a barrier for two at once, one waits for a fourth") {
    Thread *threads[3];
    for (int i = 0; i < 3; i++) threads[i] = thread_start(meet_in_pairs, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        __atomic_store_n(&begun, i, __ATOMIC_SEQ_CST);
        wait_until_count(&left, i * 3 - 1);
        ck_assert_int_eq(__atomic_load_n(&left, __ATOMIC_SEQ_CST), i * 3 - 1);
        if (RLBarrierWait(&pairs)) __atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
        wait_until_count(&left, i * 3);
    }
    for (int i = 0; i < 3; i++) thread_join(threads[i]);
    ck_assert_int_eq(called, ROUNDS * 2);
}

/* ---- RLSynchronized */

static char objects[64];

static void count_inner(void *unused) {
    (void)unused;
    taken++;
}
static void count_outer(void *object) { RLSynchronized(object, count_inner, NULL); }
static void count_synchronized(void *object) {
    for (int i = 0; i < ROUNDS; i++) RLSynchronized(object, i % 2 ? count_outer : count_inner, object);
}

RL_TEST(synchronized_by_pointer, "S-SYNC-20 S-SYNC-5", "With one pointer one thread at a time executes a function, which may call another with that pointer") {
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(count_synchronized, &objects[0]);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(taken, THREADS * ROUNDS);
    RLSynchronized(NULL, count_inner, NULL);
    ck_assert_int_eq(taken, THREADS * ROUNDS + 1);
}

static void hold(void *gate) {
    gate_open(&((Gate *)gate)[0]);
    gate_wait(&((Gate *)gate)[1]);
}
static void hold_first(void *gate) { RLSynchronized(&objects[0], hold, gate); }
static void take_rest(void *next) {
    char *object = next;
    if (object == objects + sizeof objects) {
        called++;
        return;
    }
    RLSynchronized(object, take_rest, object + 1);
}

RL_TEST(synchronized_by_other_pointers, "S-SYNC-20", "A thread that holds one pointer keeps no other from being taken, any number of them") {
    Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
    Thread *thread = thread_start(hold_first, gates);
    gate_wait(&gates[0]);
    take_rest(&objects[1]);
    ck_assert_int_eq(called, 1);
    gate_open(&gates[1]);
    thread_join(thread);
}

static void *end_inside(void *gate) {
    RLSynchronized(&objects[0], end_thread, gate);
    return NULL;
}
static void end_inside_loop(RLThreadRef thread, void *gate) {
    (void)thread;
    end_inside(gate);
}

RL_TEST(synchronized_ends_its_thread, "S-SYNC-21", "A function that ends its thread gives back what it had, to a thread that waits too") {
    for (int has_loop = 0; has_loop < 2; has_loop++) {
        Gate gates[2] = {GATE_INITIALIZER, GATE_INITIALIZER};
        pthread_t thread;
        RLThreadRef loop_thread = RLThreadCreate(end_inside_loop, gates, NULL);
        if (has_loop) ck_assert(RLThreadStart(loop_thread));
        else pthread_create(&thread, NULL, end_inside, gates);
        gate_wait(&gates[0]);
        int before = count_of(&sleeps);
        hook_system_calls(watch_calls);
        Thread *next = thread_start(count_synchronized, &objects[0]);
        wait_until_count(&sleeps, before + 1);
        gate_open(&gates[1]);
        if (has_loop) ck_assert(RLThreadJoin(loop_thread));
        else pthread_join(thread, NULL);
        thread_join(next);
        hook_system_calls(NULL);
        RLRelease(loop_thread);
    }
}

static void fork_inside(void *unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        RLSynchronized(&objects[1], count_inner, NULL);
        RLSynchronized(&objects[2], count_inner, NULL);
        _exit(taken == 2 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static int stop_counting;
static void keep_counting(void *object) {
    static int count;
    while (!count_of(&stop_counting)) RLSynchronized(object, count_up, &count);
}

RL_TEST(synchronized_and_fork, "S-SYNC-21 S-SYNC-6", "In the child the forking thread goes on with what it has; other threads' calls are never half made there") {
    Thread *thread = thread_start(keep_counting, &objects[0]);
    for (int i = 0; i < 100; i++) RLSynchronized(&objects[1], fork_inside, NULL);
    __atomic_store_n(&stop_counting, 1, __ATOMIC_RELEASE);
    thread_join(thread);
}
