/* SPDX-License-Identifier: MIT */
/*
 * What cleanup handlers of a thread may do with its loop when a callback has ended the thread. They are called while the stack is
 * taken down, the innermost first: those of the callback, then those further out than the runs.
 */
#define _GNU_SOURCE
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static void end_thread(Probe *self) {
    (void)self;
    pthread_exit(NULL);
}

static Probe ending = {.name = "s", .action = end_thread}, other = {.name = "t"};
static RLRunResult in_cleanup, in_destructor;
static pthread_key_t key;

/* The loop as such goes on: only its runs are over. */
static void run_again(void *unused) {
    (void)unused;
    trace("cleanup");
    RLAddTimer(RLGetCurrent(), probe_timer(&other, date_in(-1), 0), kRLDefaultMode);
    RLSourceSignal(ending.source);
    ck_assert(RLContainsTimer(RLGetCurrent(), other.timer, kRLDefaultMode));
    in_cleanup = RLRunInMode(kRLDefaultMode, 60, false);
    RLRun();
    RLRunLoopRef loop = RLGetCurrent();
    char *text = RLCopyDescription(loop);
    ck_assert_ptr_nonnull(text);
    free(text);
}

/* The frames are gone, and the loop runs. */
static void run_at_the_end(void *unused) {
    (void)unused;
    trace("destructor");
    ending.action = NULL;
    in_destructor = RLRunInMode(kRLDefaultMode, 0, false);
}

static void fill_loop(void) {
    pthread_setspecific(key, &key);
    probe_source(&ending, 0);
    RLAddSource(RLGetCurrent(), ending.source, kRLDefaultMode);
    RLSourceSignal(ending.source);
}

static void empty_probes(void) {
    ck_assert_int_eq(RLGetRetainCount(ending.source), 1);
    ck_assert_int_eq(RLGetRetainCount(other.timer), 1);
    RLRelease(ending.source);
    RLRelease(other.timer);
    ck_assert_str_eq(result_name(in_cleanup), "Finished");
    ck_assert_str_eq(result_name(in_destructor), "TimedOut");
}

static void *end_in_a_run(void *unused) {
    fill_loop();
    pthread_cleanup_push(run_again, NULL);
    RLRunInMode(kRLDefaultMode, 60, false);
    pthread_cleanup_pop(0);
    return unused;
}

RL_TEST(a_cleanup_handler_outside_runs_the_loop, "S-LOOP-22 S-LOOP-19 S-LOOP-11",
        "A run in a cleanup handler further out than the run whose callback ended the thread is finished at once; a later one in a "
        "destructor is like any other") {
    ck_assert_int_eq(pthread_key_create(&key, run_at_the_end), 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_in_a_run, NULL), 0);
    pthread_join(thread, NULL);
    expect_trace("s cleanup destructor s t");
    empty_probes();
}

/* The run nested in this callback is gone, and the run of the callback is not. */
static void nest(Probe *self) {
    (void)self;
    pthread_cleanup_push(run_again, NULL);
    RLRunInMode(kRLDefaultMode, 60, false);
    pthread_cleanup_pop(0);
}

static Probe nesting = {.name = "n", .action = nest};

static void *end_in_a_nested_run(void *unused) {
    fill_loop();
    probe_source(&nesting, -1);
    RLAddSource(RLGetCurrent(), nesting.source, kRLDefaultMode);
    RLSourceSignal(nesting.source);
    RLRunInMode(kRLDefaultMode, 60, false);
    return unused;
}

RL_TEST(a_cleanup_handler_between_two_runs_runs_the_loop, "S-LOOP-22 S-LOOP-19 S-NEST-1",
        "A run in a cleanup handler of the outer callback is finished at once when a callback of the nested run ended the thread") {
    ck_assert_int_eq(pthread_key_create(&key, run_at_the_end), 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_in_a_nested_run, NULL), 0);
    pthread_join(thread, NULL);
    expect_trace("n s cleanup destructor s t");
    ck_assert_int_eq(RLGetRetainCount(nesting.source), 1);
    RLRelease(nesting.source);
    empty_probes();
}

static void run_in_the_callback(void *unused) {
    (void)unused;
    trace("inside");
    RLSourceSignal(other.source);
    in_cleanup = RLRunInMode("m", 60, true);
}

static void end_with_a_cleanup(Probe *self) {
    (void)self;
    pthread_cleanup_push(run_in_the_callback, NULL);
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
}

static void *end_with_a_cleanup_inside(void *unused) {
    ending.action = end_with_a_cleanup;
    fill_loop();
    RLAddSource(RLGetCurrent(), probe_source(&other, 0), "m");
    RLRunInMode(kRLDefaultMode, 60, false);
    return unused;
}

RL_TEST(a_cleanup_handler_of_the_callback_runs_the_loop, "S-LOOP-22 S-NEST-1",
        "In a cleanup handler of the callback that ends the thread the loop runs as in the callback") {
    ck_assert_int_eq(pthread_key_create(&key, NULL), 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_with_a_cleanup_inside, NULL), 0);
    pthread_join(thread, NULL);
    expect_trace("s inside t");
    ck_assert_str_eq(result_name(in_cleanup), "HandledSource");
    ck_assert_int_eq(RLGetRetainCount(ending.source), 1);
    ck_assert_int_eq(RLGetRetainCount(other.source), 1);
    RLRelease(ending.source);
    RLRelease(other.source);
}

/* Waits that would run the loop. */

static RLCondition condition;
static RLClockRef clock_of_loop;
static bool in_time;

static void wait_in_mode(void *seconds) {
    trace("cleanup");
    RLLockLock(&condition.lock);
    in_time = RLConditionWaitInMode(&condition, kRLDefaultMode, *(double *)seconds);
    RLLockUnlock(&condition.lock);
}

static void *end_and_wait(void *seconds) {
    if (clock_of_loop) RLSetClock(RLGetCurrent(), clock_of_loop);
    fill_loop();
    pthread_cleanup_push(wait_in_mode, seconds);
    RLRunInMode(kRLDefaultMode, 1e9, false);
    pthread_cleanup_pop(0);
    return seconds;
}

RL_TEST(a_cleanup_handler_waits_for_a_condition, "S-LOOP-22 S-SYNC-22", "Such a wait ends by a signal, and by its limit, also of a clock that is moved") {
    ck_assert_int_eq(pthread_key_create(&key, NULL), 0);
    static double limits[] = {1e9, 0.01, 100};
    for (int i = 0; i < 3; i++) {
        if (i == 2) clock_of_loop = RLClockCreateManual();
        pthread_t thread;
        in_time = i != 0;
        ck_assert_int_eq(pthread_create(&thread, NULL, end_and_wait, &limits[i]), 0);
        while (trace_count("cleanup") == 0) sched_yield();
        if (i == 0) {
            /* It may not wait yet. */
            for (bool is_told = false; !is_told;) {
                RLLockLock(&condition.lock);
                is_told = in_time;
                RLConditionSignal(&condition);
                RLLockUnlock(&condition.lock);
            }
        }
        /* Nor may it know its limit yet. */
        while (pthread_tryjoin_np(thread, NULL) != 0) {
            if (i == 2) RLClockAdvance(clock_of_loop, 1000);
            sched_yield();
        }
        ck_assert_int_eq(in_time, i == 0);
        expect_trace("s cleanup");
        RLRelease(ending.source);
    }
    RLRelease(clock_of_loop);
}
