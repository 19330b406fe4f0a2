/* SPDX-License-Identifier: MIT */
/*
 * What cleanup handlers of a thread may do with its loop when a callback has ended the thread. They are called while the stack is
 * taken down, the innermost first: those of the callback, then those further out than the runs.
 */
#define _GNU_SOURCE
#include "support.h"

#include <runloop/foreign.h>

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

/* What destructors of thread-specific data find. */

static RLMode mode_of_end;
static void end_in_function(void *unused) {
    (void)unused;
    pthread_exit(NULL);
}
static void note_release(void *unused) {
    (void)unused;
    trace("released");
}
static void drain(void *unused) {
    (void)unused;
    in_destructor = RLRunInMode(mode_of_end, 60, false);
    trace("drained");
}
static void *end_in_a_round(void *from_list) {
    pthread_setspecific(key, &key);
    RLPerformFunction(RLGetCurrent(), mode_of_end, end_in_function, &mode_of_end, note_release);
    /* A round of another mode puts it on the list of its own. */
    if (from_list) RLPerformFunction(RLGetCurrent(), "another", note_release, NULL, NULL);
    if (from_list) RLRunInMode("another", 0, false);
    RLRunInMode(mode_of_end, 60, false);
    return NULL;
}

RL_TEST(a_function_that_ended_its_thread_keeps_no_mode, "S-LOOP-11 S-LOOP-19 S-RUN-4",
        "A function that has ended its thread is released, and does not keep its mode from being empty in a destructor") {
    ck_assert_int_eq(pthread_key_create(&key, drain), 0);
    for (int from_list = 0; from_list < 2; from_list++) {
        mode_of_end = from_list ? "m" : kRLDefaultMode;
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, end_in_a_round, from_list ? &key : NULL), 0);
        pthread_join(thread, NULL);
        ck_assert_str_eq(result_name(in_destructor), "Finished");
        if (from_list) expect_trace("released released drained");
        else expect_trace("released drained");
    }
}

static double moved_by;
static bool has_next, may_change;
static void use_clock(void *unused) {
    (void)unused;
    static Probe first = {.name = "t"}, second = {.name = "u"};
    RLAddTimer(RLGetCurrent(), probe_timer(&first, date_in(1), 0), kRLDefaultMode);
    const RLAbsoluteTime before = RLAbsoluteTimeGetCurrent();
    RLClockAdvance(clock_of_loop, 2);
    moved_by = RLAbsoluteTimeGetCurrent() - before;
    RLAddTimer(RLGetCurrent(), probe_timer(&second, date_in(1), 0), kRLDefaultMode);
    has_next = RLClockAdvanceToNext(clock_of_loop);
    RLTimerInvalidate(first.timer);
    RLTimerInvalidate(second.timer);
    RLRelease(first.timer);
    RLRelease(second.timer);
    may_change = RLSetClock(RLGetCurrent(), NULL);
}
static void *end_with_clock(void *unused) {
    pthread_setspecific(key, &key);
    RLSetClock(RLGetCurrent(), clock_of_loop);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, end_in_function, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 60, false);
    return unused;
}

RL_TEST(a_clock_in_a_destructor, "S-LOOP-11 S-LOOP-22 S-CLK-6 S-CLK-8 S-CLK-2", "In a destructor the loop, whose function has ended the thread, does not run: the thread moves its clock, and changes it") {
    ck_assert_int_eq(pthread_key_create(&key, use_clock), 0);
    clock_of_loop = RLClockCreateManual();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_with_clock, NULL), 0);
    pthread_join(thread, NULL);
    expect_trace("t u");
    ck_assert_double_eq_tol(moved_by, 2, 1e-6);
    ck_assert(has_next);
    ck_assert(may_change);
    RLRelease(clock_of_loop);
}

static Gate may_move = GATE_INITIALIZER, has_moved = GATE_INITIALIZER;
static void move_clock(void *unused) {
    (void)unused;
    gate_wait(&may_move);
    RLClockAdvance(clock_of_loop, 1);
    gate_open(&has_moved);
}
static void let_another_thread_move(void *unused) {
    (void)unused;
    gate_open(&may_move);
    gate_wait(&has_moved);
    may_change = RLSetClock(RLGetCurrent(), NULL);
    RLMode mode = RLCopyCurrentMode(RLGetCurrent());
    trace(mode ? "running" : "moved");
}
static void *end_below_a_cleanup_handler(void *unused) {
    RLSetClock(RLGetCurrent(), clock_of_loop);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, end_in_function, NULL, NULL);
    pthread_cleanup_push(let_another_thread_move, NULL);
    RLRunInMode(kRLDefaultMode, 60, false);
    pthread_cleanup_pop(0);
    return unused;
}

RL_TEST(a_clock_moved_beside_a_cleanup_handler, "S-LOOP-22 S-CLK-7 S-CLK-2 S-MODE-8", "A cleanup handler further out may wait for a thread that moves the clock of the loop, which does not run any more") {
    clock_of_loop = RLClockCreateManual();
    Thread *mover = thread_start(move_clock, NULL);
    pthread_t thread;
    may_change = true;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_below_a_cleanup_handler, NULL), 0);
    pthread_join(thread, NULL);
    thread_join(mover);
    expect_trace("moved");
    ck_assert(!may_change);
    RLRelease(clock_of_loop);
}

static Probe ticks = {.name = "tick", .action = end_thread};
static void advance_in_cleanup(void *by_itself) {
    ticks.action = NULL;
    if (by_itself) {
        has_next = RLClockAdvanceToNext(clock_of_loop);
        RLClockAdvance(clock_of_loop, 3);
    } else {
        gate_open(&may_move);
        gate_wait(&has_moved);
    }
    trace("moved");
}
static void advance_in_destructor(void *unused) {
    (void)unused;
    RLClockAdvance(clock_of_loop, 1);
    RLTimerInvalidate(ticks.timer);
}
static void *end_in_a_tick(void *by_itself) {
    pthread_setspecific(key, &key);
    RLSetClock(RLGetCurrent(), clock_of_loop);
    RLAddTimer(RLGetCurrent(), probe_timer(&ticks, date_in(1), 1), kRLDefaultMode);
    pthread_cleanup_push(advance_in_cleanup, by_itself);
    RLClockAdvance(clock_of_loop, 1);
    pthread_cleanup_pop(0);
    return by_itself;
}
static void move_three(void *unused) {
    (void)unused;
    gate_wait(&may_move);
    RLClockAdvance(clock_of_loop, 3);
    gate_open(&has_moved);
}

RL_TEST(dates_that_pass_in_a_cleanup_handler, "S-LOOP-22 S-CLK-5 S-CLK-8",
        "What a repeating timer that has ended its thread has to do while the clock is moved beside or by a cleanup handler it does in destructors, at each of its dates; no instant is next meanwhile") {
    ck_assert_int_eq(pthread_key_create(&key, advance_in_destructor), 0);
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        clock_of_loop = RLClockCreateManual();
        may_move = has_moved = (Gate)GATE_INITIALIZER;
        ticks.action = end_thread;
        Thread *mover = by_itself ? NULL : thread_start(move_three, NULL);
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, end_in_a_tick, by_itself ? &key : NULL), 0);
        pthread_join(thread, NULL);
        if (mover) thread_join(mover);
        expect_trace("tick moved tick tick tick tick");
        ck_assert(!has_next);
        RLRelease(ticks.timer);
        RLRelease(clock_of_loop);
    }
}

static RLForeignRunRef foreign;
static void note_activity(Probe *self) { trace(self->activity == kRLExit ? "exit" : "wait"); }
static void go_on_with_foreign_run(void *unused) {
    (void)unused;
    static Probe posted = {.name = "posted"};
    probe_perform(&posted, RLGetCurrent(), kRLDefaultMode);
    RLWakeUp(RLGetCurrent());
    for (int i = 0; i < 2; i++) {
        RLForeignRunDispatch(foreign);
        RLForeignRunPrepare(foreign);
    }
    RLForeignRunInvalidate(foreign);
}
static void *end_with_foreign_run(void *unused) {
    static Probe stages = {.action = note_activity}, idle;
    pthread_setspecific(key, &key);
    add_source(&idle, kRLDefaultMode);
    add_observer(&stages, kRLBeforeWaiting | kRLExit, kRLDefaultMode);
    foreign = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(foreign);
    trace("end");
    return unused;
}

RL_TEST(a_foreign_run_goes_on_in_a_destructor, "S-LOOP-11 S-FRN-4 S-FRN-10", "A foreign run that is under way when its thread returns goes on in a destructor, in no callback, and ends there with Exit") {
    ck_assert_int_eq(pthread_key_create(&key, go_on_with_foreign_run), 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_with_foreign_run, NULL), 0);
    pthread_join(thread, NULL);
    expect_trace("wait end posted wait exit");
    RLRelease(foreign);
}
