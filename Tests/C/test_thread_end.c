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

static void limit_passes(void *loop) {
    RLSetPassLimit(loop, kRLDefaultMode, 1);
    ck_assert_int_eq(RLGetPassLimit(loop, kRLDefaultMode), 0);
}
static void have_passes_limited(void *loop) { thread_join(thread_start(limit_passes, loop)); }
static void wait_at_the_gate(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    gate_wait(&may_go_on);
}

RL_TEST(a_limit_of_the_last_pass_keeps_nothing_from_the_end, "S-THREAD-5 S-LIM-6",
        "End performs all that was queued before it though another thread sets a limit while the last pass is under way") {
    RLThreadRef thread = RLThreadCreate(wait_at_the_gate, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLPerformFunction(loop, kRLDefaultMode, have_passes_limited, loop, NULL);
    queue_work(loop, 10, 10, 10);
    Thread *ender = begin_end(thread);
    gate_open(&may_go_on);
    thread_join(ender);
    expect_work(10, 10, 10);
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

static void post_a_run(void *unused) {
    (void)unused;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, run_own_mode, NULL, NULL);
}

RL_TEST(a_run_behind_what_is_performed_last, "S-THREAD-5",
        "A request that a body has left posts a function, which runs a mode of its own: End stops that run too, and performs the function in the same pass") {
    RLThreadRef thread = RLThreadCreate(body_in_a_mode, private, NULL);
    ck_assert(RLThreadStart(thread));
    gate_wait(&holds);
    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, post_a_run, NULL, NULL, false);
    ck_assert(RLThreadEnd(thread));
    ck_assert_int_eq(runs, 1);
    RLRelease(thread);
}

RL_TEST(runs_where_no_pass_begins, "S-THREAD-5 S-STOP-4",
        "Two functions, two requests and two ordered requests each run a mode of their own, though an Entry observer stops each run of the default mode") {
    RLThreadRef thread = RLThreadCreate(body_without_runs, NULL, NULL);
    const RLMode modes[] = {kRLDefaultMode};
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    gate_wait(&holds);
    for (int i = 0; i < 2; i++) {
        RLPerformFunction(loop, kRLDefaultMode, run_own_mode, NULL, NULL);
        RLPerformOnLoop(loop, kRLDefaultMode, run_own_mode, NULL, NULL, false);
        RLPerformInOrder(loop, modes, 1, 0, NULL, run_own_mode, NULL, NULL);
    }
    ck_assert(RLThreadEnd(thread));
    ck_assert_int_eq(runs, 6);
    RLRelease(thread);
}

static void run_at_exit(RLObserverRef observer, RLActivity activity, void *unused) {
    (void)observer, (void)activity;
    run_own_mode(unused);
}
static void add_runner(void *unused) {
    (void)unused;
    RLObserverRef observer = RLObserverCreate(kRLExit, true, 0, run_at_exit, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRelease(observer);
}

RL_TEST(a_run_at_the_exit_of_the_last, "S-THREAD-4 S-THREAD-5", "An Exit observer of the run that Cancel or End has stopped runs a mode of its own, and that run ends") {
    for (int ends = 0; ends < 2; ends++) {
        RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        RLPerformOnLoop(loop, kRLDefaultMode, add_runner, NULL, NULL, true);
        if (ends) {
            ck_assert(RLThreadEnd(thread));
        } else {
            RLThreadCancel(thread);
            ck_assert(RLThreadJoin(thread));
        }
        ck_assert_int_eq(runs, ends + 1);
        RLRelease(thread);
    }
}

static void run_as_the_thread_exits(RLThreadRef thread, void *unused) {
    (void)thread;
    run_own_mode(unused);
}
RL_TEST(a_run_in_an_exit_callback, "S-THREAD-4 S-THREAD-5 S-THREAD-16", "A run in an exit callback of a thread that was cancelled or ended ends after a pass") {
    for (int i = 0; i < 3; i++) {
        holds = (Gate)GATE_INITIALIZER;
        bool has_body = i == 2;
        RLThreadRef thread = RLThreadCreate(has_body ? body_without_runs : NULL, NULL, NULL);
        ck_assert(RLThreadAddExitCallBack(thread, run_as_the_thread_exits, NULL));
        ck_assert(RLThreadStart(thread));
        if (has_body) gate_wait(&holds);
        if (i == 0) RLThreadCancel(thread);
        else RLThreadStop(thread, true);
        ck_assert(RLThreadJoin(thread));
        ck_assert_int_eq(runs, i + 1);
        RLRelease(thread);
    }
}

static int performed_in_exit;
static void count_in_exit(void *unused) {
    (void)unused;
    performed_in_exit++;
}
static void run_with_a_limit(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    RLRunLoopRef loop = RLGetCurrent();
    RLSetPassLimit(loop, kRLDefaultMode, 1);
    ck_assert_int_eq(RLGetPassLimit(loop, kRLDefaultMode), 1);
    performed_in_exit = 0;
    for (int i = 0; i < 9; i++) RLPerformFunction(loop, kRLDefaultMode, count_in_exit, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_lt(performed_in_exit, 9);
}
static void leave_something(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count_in_exit, NULL, NULL);
    gate_open(&holds);
    while (!RLThreadIsCancelled(thread)) sched_yield();
}
RL_TEST(a_limit_in_an_exit_callback, "S-LIM-6 S-THREAD-5 S-THREAD-16", "After the last pass of a thread that was ended its exit callbacks can set a pass limit for their own runs") {
    RLThreadRef thread = RLThreadCreate(leave_something, NULL, NULL);
    ck_assert(RLThreadAddExitCallBack(thread, run_with_a_limit, NULL));
    ck_assert(RLThreadStart(thread));
    gate_wait(&holds);
    RLThreadEnd(thread);
    ck_assert_int_gt(performed_in_exit, 0);
    RLRelease(thread);
}

static void return_at_once(RLThreadRef thread, void *unused) { (void)thread, (void)unused; }
static void queue_too_late(RLThreadRef thread, void *unused) {
    (void)unused;
    queue_work(RLGetCurrent(), 1, 1, 1);
    RLThreadStop(thread, true);
}
RL_TEST(a_stop_in_an_exit_callback, "S-THREAD-5 S-LOOP-10 S-PERF-11",
        "What is queued before a stop that an exit callback makes is dropped: requests at the end of the thread, functions with the thread's object") {
    RLThreadRef thread = RLThreadCreate(return_at_once, NULL, NULL);
    ck_assert(RLThreadAddExitCallBack(thread, queue_too_late, NULL));
    ck_assert(RLThreadStart(thread));
    ck_assert(RLThreadJoin(thread));
    ck_assert_int_eq(functions + requests + ordered, 0);
    ck_assert_int_eq(released, 2);
    RLRelease(thread);
    ck_assert_int_eq(functions + requests + ordered, 0);
    ck_assert_int_eq(released, 3);
}

/* ---- runs and waits that begin when the thread is to end */

static uint64_t count_runs(RLRunLoopRef loop) {
    RLStatistics statistics = {.version = 0};
    RLGetStatistics(loop, &statistics);
    return statistics.runs;
}
static int is_over;
static void body_that_does_not_ask(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    keep_alive(RLGetCurrent(), private);
    gate_open(&holds);
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) ck_assert_int_eq(RLRunInMode(private, 1e6, false), kRLRunStopped);
}

RL_TEST(a_body_that_does_not_ask, "S-THREAD-5",
        "A body that begins run after run and does not ask whether the thread is to end performs what comes, and leaves the processor to others in between") {
    RLThreadRef thread = RLThreadCreate(body_that_does_not_ask, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    gate_wait(&holds);
    wait_until_waiting(loop);
    uint64_t before = count_runs(loop);
    RLThreadStop(thread, true);
    while (count_runs(loop) < before + 1010) take_time(0.001);
    /* Each of these runs begins a millisecond after the one before has ended. */
    uint64_t first = count_runs(loop);
    double begin = RLAbsoluteTimeGetCurrent();
    take_time(0.05);
    uint64_t count = count_runs(loop) - first;
    double end = RLAbsoluteTimeGetCurrent();
    ck_assert_double_le((double)count - 2, (end - begin) * 1000);
    RLPerformFunction(loop, private, count_up, &functions, NULL);
    while (!__atomic_load_n(&functions, __ATOMIC_SEQ_CST)) take_time(0.001);
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    ck_assert(RLThreadJoin(thread));
    RLRelease(thread);
}

static RLCondition conditions[2] = {RL_CONDITION_INIT, RL_CONDITION_INIT};
static int ready;
static void wait_for_two(void *unused) {
    hold(unused);
    RLRunInMode("nothing", 0, false);
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 1e6, false), kRLRunStopped);
    for (int i = 0; !__atomic_load_n(&ready, __ATOMIC_SEQ_CST); i ^= 1) {
        RLLockLock(&conditions[i].lock);
        if (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST)) RLConditionWaitInMode(&conditions[i], NULL, 1e6);
        RLLockUnlock(&conditions[i].lock);
    }
    run_own_mode(NULL);
}

RL_TEST(waits_after_the_stop, "S-THREAD-4 S-SYNC-22",
        "Waits for two conditions in turn that begin when the thread is to end sleep; they are stopped once by each further End, and a run after them ends") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLPerformOnLoop(loop, kRLDefaultMode, wait_for_two, NULL, NULL, false);
    gate_wait(&holds);
    RLThreadStop(thread, true);
    gate_open(&may_go_on);
    /* The thread's, the one in the callback, and the first wait's. */
    while (count_runs(loop) < 3) take_time(0.001);
    for (uint64_t count = 3; count < 6; count++) {
        wait_until_waiting(loop);
        ck_assert(stays_waiting(loop, 0.02));
        ck_assert_uint_eq(count_runs(loop), count);
        if (count == 5) break;
        RLThreadStop(thread, true);
        while (count_runs(loop) == count) take_time(0.001);
    }
    __atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) {
        RLLockLock(&conditions[i].lock);
        RLConditionBroadcast(&conditions[i]);
        RLLockUnlock(&conditions[i].lock);
    }
    ck_assert(RLThreadJoin(thread));
    ck_assert_int_eq(runs, 1);
    RLRelease(thread);
}

/* ---- Stop */

static void body_of_one_run(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    gate_open(&holds);
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 1e6, false), kRLRunStopped);
    gate_wait(&may_go_on);
}

RL_TEST(stop_performs_or_drops, "S-THREAD-18",
        "Stop returns while the thread goes on, and stops the run of a body; what is queued then is performed after the body, or dropped, also if End was called before") {
    for (int i = 0; i < 3; i++) {
        holds = may_go_on = (Gate)GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(body_of_one_run, NULL, NULL);
        ck_assert(RLThreadStart(thread));
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        gate_wait(&holds);
        wait_until_waiting(loop);
        RLThreadStop(thread, i != 1);
        ck_assert(RLThreadIsCancelled(thread) && RLThreadIsExecuting(thread));
        while (RLIsWaiting(loop)) take_time(0.001);
        RLMode mode;
        while ((mode = RLCopyCurrentMode(loop))) free((void *)mode);
        queue_work(loop, 2, 2, 2);
        if (i == 2) RLThreadStop(thread, false);
        gate_open(&may_go_on);
        ck_assert(RLThreadJoin(thread));
        if (i == 0) {
            expect_work(2, 2, 2);
        } else {
            ck_assert_int_eq(functions + requests + ordered, 0);
            /* The loop of a thread is freed with the last reference to it. */
            RLRelease(thread);
            ck_assert_int_eq(released, 6);
            released = 0;
            continue;
        }
        RLRelease(thread);
    }
}

static void body_with_a_run(RLThreadRef thread, void *unused) {
    (void)unused;
    ck_assert(RLThreadIsCancelled(thread));
    run_own_mode(NULL);
}

RL_TEST(stop_before_the_start, "S-THREAD-18", "A thread that Stop was called for before its start ends at once, and runs of its body end") {
    RLThreadStop(NULL, true);
    for (int i = 0; i < 4; i++) {
        RLThreadRef thread = RLThreadCreate(i >= 2 ? body_with_a_run : NULL, NULL, NULL);
        RLThreadStop(thread, i % 2 == 0);
        ck_assert(RLThreadIsCancelled(thread) && !RLThreadIsExecuting(thread));
        ck_assert(RLThreadStart(thread));
        ck_assert(RLThreadJoin(thread));
        RLRelease(thread);
    }
    ck_assert_int_eq(runs, 2);
}

static void stop_self(void *unused) {
    RLThreadStop(RLThreadGetCurrent(), true);
    run_own_mode(unused);
}
RL_TEST(stop_on_the_thread_itself, "S-THREAD-18", "A thread stops itself in a callback, which then runs the loop: that run ends after a pass") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, stop_self, NULL, NULL, false);
    ck_assert(RLThreadJoin(thread));
    ck_assert_int_eq(runs, 1);
    RLRelease(thread);
}
