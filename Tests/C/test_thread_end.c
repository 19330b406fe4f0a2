/* SPDX-License-Identifier: MIT */
/* Section 28: what meets a thread that Cancel or End ends: limits, observers that stop runs, runs and waits in other modes. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void count_up(void *counter) { __atomic_add_fetch((int *)counter, 1, __ATOMIC_SEQ_CST); }
static int released;
static void count_release(void *unused) {
    (void)unused;
    count_up(&released);
}

static Gate holds = GATE_INITIALIZER, may_go_on = GATE_INITIALIZER;
static void hold(void *unused) {
    (void)unused;
    gate_open(&holds);
    gate_wait(&may_go_on);
}

static int functions, requests, ordered;
/* So many of each kind, for the default mode. */
static void queue_work(RLRunLoopRef loop, int function_count, int request_count, int ordered_count) {
    const RLMode modes[] = {kRLDefaultMode};
    for (int i = 0; i < function_count; i++) RLPerformFunction(loop, kRLDefaultMode, count_up, &functions, count_release);
    for (int i = 0; i < request_count; i++) RLPerformOnLoop(loop, kRLDefaultMode, count_up, &requests, count_release, false);
    for (int i = 0; i < ordered_count; i++) RLPerformInOrder(loop, modes, 1, i, NULL, count_up, &ordered, count_release);
}
static void expect_work(int function_count, int request_count, int ordered_count) {
    ck_assert_int_eq(functions, function_count);
    ck_assert_int_eq(requests, request_count);
    ck_assert_int_eq(ordered, ordered_count);
    ck_assert_int_eq(released, function_count + request_count + ordered_count);
    functions = requests = ordered = released = 0;
}

static void end_thread(void *thread) { ck_assert(RLThreadEnd(thread)); }
/* Returns when End was called in another thread, to be joined. */
static Thread *begin_end(RLThreadRef thread) {
    Thread *ender = thread_start(end_thread, thread);
    while (!RLThreadIsCancelled(thread)) take_time(0.001);
    return ender;
}

RL_TEST(a_limit_keeps_nothing_from_the_end, "S-THREAD-5 S-LIM-6", "End performs all that was queued before it though a pass of the mode performs one function") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLSetPassLimit(loop, kRLDefaultMode, 1);
    RLPerformFunction(loop, kRLDefaultMode, hold, NULL, NULL);
    RLWakeUp(loop);
    gate_wait(&holds);
    queue_work(loop, 10, 1, 0);
    Thread *ender = begin_end(thread);
    gate_open(&may_go_on);
    thread_join(ender);
    expect_work(10, 1, 0);
    RLRelease(thread);
}

/* ---- an Entry observer that lets no run begin once its thread is to end */

static int entries;
static void stop_at_entry(RLObserverRef observer, RLActivity activity, void *unused) {
    (void)observer, (void)activity, (void)unused;
    count_up(&entries);
    if (RLThreadIsCancelled(RLThreadGetCurrent())) RLStop(RLGetCurrent());
}
static void add_stopper(void *unused) {
    (void)unused;
    RLObserverRef observer = RLObserverCreate(kRLEntry, true, 0, stop_at_entry, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRelease(observer);
}
static void body_without_runs(RLThreadRef thread, void *unused) {
    (void)unused;
    add_stopper(NULL);
    gate_open(&holds);
    while (!RLThreadIsCancelled(thread)) take_time(0.001);
}

RL_TEST(an_observer_that_stops_each_run, "S-THREAD-5 S-STOP-4",
        "End performs what was queued and returns though an Entry observer stops each run of the thread that is to end, with a body and without") {
    for (int has_body = 0; has_body < 2; has_body++) {
        RLThreadRef thread = RLThreadCreate(has_body ? body_without_runs : NULL, NULL, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        if (has_body) gate_wait(&holds);
        else RLPerformOnLoop(loop, kRLDefaultMode, add_stopper, NULL, NULL, true);
        queue_work(loop, 3, 3, 3);
        ck_assert(RLThreadEnd(thread));
        expect_work(3, 3, 3);
        ck_assert_int_le(entries, 5);
        RLRelease(thread);
    }
}

/* ---- other modes */

static void body_in_a_mode(RLThreadRef thread, void *mode) {
    if (strcmp(mode, "common") == 0) RLAddCommonMode(RLGetCurrent(), mode);
    keep_alive(RLGetCurrent(), mode);
    gate_open(&holds);
    while (!RLThreadIsCancelled(thread)) ck_assert_int_eq(RLRunInMode(mode, 1e6, false), kRLRunStopped);
}

static void end_in_mode(char *mode, int function_count, int request_count, int ordered_count) {
    RLThreadRef thread = RLThreadCreate(body_in_a_mode, mode, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    gate_wait(&holds);
    wait_until_waiting(loop);
    queue_work(loop, function_count, request_count, ordered_count);
    ck_assert(RLThreadEnd(thread));
    expect_work(function_count, request_count, ordered_count);
    RLRelease(thread);
}
static char common[] = "common", private[] = "private";
RL_TEST(a_body_in_another_common_mode, "S-THREAD-5", "What was queued for the default mode is performed, though the body runs another common mode alone") {
    end_in_mode(common, 3, 0, 0);
    holds = (Gate)GATE_INITIALIZER;
    end_in_mode(common, 0, 3, 0);
    holds = (Gate)GATE_INITIALIZER;
    end_in_mode(common, 2, 2, 2);
}
RL_TEST(a_body_in_a_private_mode, "S-THREAD-5", "End stops the run of a body in a mode that is not common") { end_in_mode(private, 2, 2, 2); }

static RLCondition condition = RL_CONDITION_INIT;
static void wait_in_a_mode(void *mode) {
    RLLockLock(&condition.lock);
    ck_assert(RLConditionWaitInMode(&condition, mode, 1e6));
    RLLockUnlock(&condition.lock);
}
static void run_in_a_mode(void *mode) { ck_assert_int_eq(RLRunInMode(mode, 1e6, false), kRLRunStopped); }
static void run_within(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), private);
    RLPerformFunction(RLGetCurrent(), private, run_in_a_mode, "inner", NULL);
    keep_alive(RLGetCurrent(), "inner");
    run_in_a_mode(private);
}
/* A mode that no one knew at the call of Cancel or End. */
static void run_later(void *unused) {
    hold(unused);
    keep_alive(RLGetCurrent(), "later");
    run_in_a_mode("later");
}

RL_TEST(calls_in_private_modes, "S-THREAD-4 S-THREAD-5 S-SYNC-22",
        "Cancel and End end a thread without a body whose callback runs one private mode in another, or a mode that it has just made, or waits in one; "
        "End performs what was queued for the default mode before it") {
    static void (*const calls[])(void *) = {run_within, run_later, wait_in_a_mode};
    for (int i = 0; i < 6; i++) {
        holds = may_go_on = (Gate)GATE_INITIALIZER;
        bool is_later = i % 3 == 1, ends = i >= 3;
        RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        RLPerformOnLoop(loop, kRLDefaultMode, calls[i % 3], private, NULL, false);
        if (is_later) {
            gate_wait(&holds);
        } else {
            RLMode mode = NULL;
            const char *expected = i % 3 == 0 ? "inner" : private;
            do {
                free((void *)mode);
                wait_until_waiting(loop);
                mode = RLCopyCurrentMode(loop);
            } while (!mode || strcmp(mode, expected) != 0);
            free((void *)mode);
        }
        if (ends) queue_work(loop, 2, 2, 2);
        Thread *ender = NULL;
        if (ends) ender = begin_end(thread);
        else RLThreadCancel(thread);
        if (is_later) gate_open(&may_go_on);
        if (ender) thread_join(ender);
        else ck_assert(RLThreadJoin(thread));
        if (ends) expect_work(2, 2, 2);
        RLRelease(thread);
    }
}

/* ---- runs that begin when the thread is to end already */

static int runs;
static void run_own_mode(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), "own");
    run_in_a_mode("own");
    count_up(&runs);
}

RL_TEST(a_run_behind_the_call, "S-THREAD-4 S-THREAD-5",
        "A run that a request makes in a mode of its own is stopped, though Cancel or End came before the request was performed") {
    for (int ends = 0; ends < 2; ends++) {
        holds = may_go_on = (Gate)GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        RLPerformOnLoop(loop, kRLDefaultMode, hold, NULL, NULL, false);
        gate_wait(&holds);
        RLPerformOnLoop(loop, kRLDefaultMode, run_own_mode, NULL, NULL, false);
        Thread *ender = ends ? begin_end(thread) : NULL;
        RLThreadCancel(thread);
        gate_open(&may_go_on);
        if (ender) thread_join(ender);
        else ck_assert(RLThreadJoin(thread));
        RLRelease(thread);
    }
    ck_assert_int_ge(runs, 1);
}

RL_TEST(a_run_in_what_is_performed_last, "S-THREAD-5", "A function, a request and an ordered request that a body has left run a mode of their own: End stops these runs too") {
    const RLMode modes[] = {kRLDefaultMode};
    for (int kind = 0; kind < 3; kind++) {
        holds = (Gate)GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(body_in_a_mode, private, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        gate_wait(&holds);
        if (kind == 0) RLPerformFunction(loop, kRLDefaultMode, run_own_mode, NULL, NULL);
        if (kind == 1) RLPerformOnLoop(loop, kRLDefaultMode, run_own_mode, NULL, NULL, false);
        if (kind == 2) RLPerformInOrder(loop, modes, 1, 0, NULL, run_own_mode, NULL, NULL);
        ck_assert(RLThreadEnd(thread));
        ck_assert_int_eq(runs, kind + 1);
        RLRelease(thread);
    }
}
