/* SPDX-License-Identifier: MIT */
/* A thread's loop when the thread ends and after it (section 1). */
#include <fcntl.h>

#include "support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The loop that a thread left behind, and what the test put in it. */
typedef struct Leaver {
    RLRunLoopRef loop;
    pthread_t id;
    bool keep; /* whether the thread retains its loop for the test */
    Probe source, timer, observer, lone_timer, lone_observer, function;
} Leaver;

static void leave(void *argument) {
    Leaver *self = argument;
    self->id = pthread_self();
    self->loop = RLGetCurrent();
    if (self->keep) RLRetain(self->loop);
    RLAddSource(self->loop, probe_source(&self->source, 0), kRLDefaultMode);
    RLAddSource(self->loop, self->source.source, "other");
    RLAddTimer(self->loop, probe_timer(&self->timer, date_in(0.005), 0.005), kRLDefaultMode);
    RLAddObserver(self->loop, probe_observer(&self->observer, kRLAllActivities, true, 0),
                  kRLDefaultMode);
    add_timer(&self->lone_timer, FAR_FUTURE, 0, kRLDefaultMode);
    add_observer(&self->lone_observer, kRLAllActivities, kRLDefaultMode);
    probe_perform(&self->function, self->loop, kRLDefaultMode);
    RLSourceSignal(self->source.source);
}

static Leaver new_leaver(bool keep) {
    Leaver leaver;
    memset(&leaver, 0, sizeof leaver);
    leaver.keep = keep;
    return leaver;
}

/* Runs the caller's loop for a while, in which other threads' items have time to do wrong. */
static void run_own_loop(double seconds) {
    keep_alive(RLGetCurrent(), "for a while");
    expect_run("for a while", seconds, false, TimedOut);
}

RL_TEST(nothing_runs_after_the_thread, "S-LOOP-6",
        "A retained loop whose thread ended runs nothing any more") {
    Leaver leaver = new_leaver(true);
    thread_join(thread_start(leave, &leaver));
    RLWakeUp(leaver.loop);
    run_own_loop(0.05);
    ck_assert_int_eq(leaver.source.calls, 0);
    ck_assert_int_eq(leaver.timer.calls, 0);
    ck_assert_int_eq(leaver.observer.calls, 0);
    ck_assert_int_eq(leaver.function.calls, 0);
    RLRelease(leaver.loop);
    ck_assert_int_eq(leaver.timer.calls, 0);
    ck_assert_int_eq(leaver.function.calls, 0);
}

RL_TEST(thread_exit_cancels_sources, "S-LOOP-7",
        "At thread exit a version 0 source is removed from every mode, with one cancel for each, "
        "on the exiting thread") {
    Leaver leaver = new_leaver(true);
    thread_join(thread_start(leave, &leaver));
    ck_assert_int_eq(leaver.source.schedules, 2);
    ck_assert_int_eq(leaver.source.cancels, 2);
    ck_assert(pthread_equal(leaver.source.thread, leaver.id));
    ck_assert(!RLContainsSource(leaver.loop, leaver.source.source, kRLDefaultMode));
    ck_assert(!RLContainsSource(leaver.loop, leaver.source.source, "other"));
    RLRelease(leaver.loop);
    ck_assert_int_eq(leaver.source.cancels, 2);
}

RL_TEST(thread_exit_leaves_sources_usable, "S-LOOP-8",
        "A source removed by thread exit is valid, still signalled, and performs in another loop") {
    Leaver leaver = new_leaver(false);
    thread_join(thread_start(leave, &leaver));
    ck_assert(RLSourceIsValid(leaver.source.source));
    ck_assert(RLSourceIsSignalled(leaver.source.source));
    RLAddSource(RLGetCurrent(), leaver.source.source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(leaver.source.calls, 1);
}

RL_TEST(freed_loop_frees_timers_and_observers, "S-LOOP-9",
        "Timers and observers of a freed loop are detached without a callback, stay valid, and "
        "work in another loop") {
    Leaver leaver = new_leaver(false);
    leaver.timer.counted = leaver.observer.counted = true;
    leaver.lone_timer.counted = leaver.lone_observer.counted = true;
    thread_join(thread_start(leave, &leaver));
    ck_assert_int_eq(leaver.timer.calls + leaver.observer.calls, 0);
    ck_assert_int_eq(leaver.timer.releases + leaver.observer.releases, 0);
    /* These two had no reference but the loop's, so they died with it. */
    ck_assert_int_eq(leaver.lone_timer.releases, 1);
    ck_assert_int_eq(leaver.lone_observer.releases, 1);
    ck_assert(RLTimerIsValid(leaver.timer.timer));
    ck_assert(RLObserverIsValid(leaver.observer.observer));
    RLRunLoopRef loop = RLGetCurrent();
    RLAddTimer(loop, leaver.timer.timer, kRLDefaultMode);
    RLAddObserver(loop, leaver.observer.observer, kRLDefaultMode);
    ck_assert(RLContainsTimer(loop, leaver.timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(loop, leaver.observer.observer, kRLDefaultMode));
    leaver.timer.action = action_stop;
    leaver.timer.loop = loop;
    expect_run(kRLDefaultMode, 100, false, Stopped);
    ck_assert_int_eq(leaver.timer.calls, 1);
    ck_assert_int_gt(leaver.observer.calls, 0);
}

RL_TEST(retained_loop_keeps_timers_and_observers, "S-LOOP-9",
        "While somebody retains the loop of an ended thread its timers and observers stay "
        "attached, until the last release") {
    Leaver leaver = new_leaver(true);
    thread_join(thread_start(leave, &leaver));
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert(RLContainsTimer(leaver.loop, leaver.timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(leaver.loop, leaver.observer.observer, kRLDefaultMode));
    RLAddTimer(loop, leaver.timer.timer, kRLDefaultMode);
    RLAddObserver(loop, leaver.observer.observer, kRLDefaultMode);
    ck_assert(!RLContainsTimer(loop, leaver.timer.timer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(loop, leaver.observer.observer, kRLDefaultMode));
    RLRelease(leaver.loop);
    RLAddTimer(loop, leaver.timer.timer, kRLDefaultMode);
    RLAddObserver(loop, leaver.observer.observer, kRLDefaultMode);
    ck_assert(RLContainsTimer(loop, leaver.timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(loop, leaver.observer.observer, kRLDefaultMode));
}

RL_TEST(queued_functions_are_released_at_exit, "S-LOOP-10",
        "A function still queued when its thread ends is released without being run, before a "
        "join returns") {
    Leaver leaver = new_leaver(false);
    thread_join(thread_start(leave, &leaver));
    ck_assert_int_eq(leaver.function.calls, 0);
    ck_assert_int_eq(leaver.function.releases, 1);
}

RL_TEST(queued_functions_are_released_with_a_retained_loop, "S-LOOP-10",
        "A function queued in a retained loop is released once and not run, at the latest when "
        "the loop is freed") {
    Leaver leaver = new_leaver(true);
    thread_join(thread_start(leave, &leaver));
    RLRelease(leaver.loop);
    ck_assert_int_eq(leaver.function.calls, 0);
    ck_assert_int_eq(leaver.function.releases, 1);
}

/* Thread-specific data destructors of another library: they use the loop in several rounds. */

enum { late_rounds = 2 };

typedef struct LateUser {
    pthread_key_t key;
    Probe sources[PTHREAD_DESTRUCTOR_ITERATIONS];
    Probe timer;
    int rounds, wanted;
} LateUser;

static void use_loop_late(void *argument) {
    LateUser *self = argument;
    RLRunLoopRef loop = RLGetCurrent();
    Probe *source = &self->sources[self->rounds];
    add_source(source, kRLDefaultMode);
    add_timer(&self->timer, FAR_FUTURE, 0, kRLDefaultMode);
    if (self->rounds < late_rounds) {
        ck_assert(RLContainsSource(loop, source->source, kRLDefaultMode));
        ck_assert_int_eq(source->schedules, 1);
    }
    if (++self->rounds < self->wanted) pthread_setspecific(self->key, self);
}

static LateUser early_key, late_key;

static void end_with_late_users(void *unused) {
    (void)unused;
    pthread_setspecific(early_key.key, &early_key);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    ck_assert_int_eq(pthread_key_create(&late_key.key, use_loop_late), 0);
    pthread_setspecific(late_key.key, &late_key);
}

RL_TEST(loop_works_in_late_destructors, "S-LOOP-11",
        "Destructors of thread-specific data can add to the loop, and what they add is torn "
        "down too") {
    early_key.wanted = late_key.wanted = late_rounds;
    ck_assert_int_eq(pthread_key_create(&early_key.key, use_loop_late), 0);
    thread_join(thread_start(end_with_late_users, NULL));
    ck_assert_int_eq(early_key.rounds, late_rounds);
    ck_assert_int_eq(late_key.rounds, late_rounds);
    for (int i = 0; i < late_rounds; i++) {
        ck_assert_int_eq(early_key.sources[i].cancels, 1);
        ck_assert_int_eq(late_key.sources[i].cancels, 1);
    }
}

/* The thread sanitizer itself does not survive calls that late. */
#if !defined(WITH_THREAD_SANITIZER)

RL_TEST(loop_survives_the_last_destructors, "S-LOOP-11",
        "Touching the loop in every round of destructors, also after its own, does not crash") {
    early_key.wanted = late_key.wanted = PTHREAD_DESTRUCTOR_ITERATIONS;
    ck_assert_int_eq(pthread_key_create(&early_key.key, use_loop_late), 0);
    thread_join(thread_start(end_with_late_users, NULL));
    ck_assert_int_ge(early_key.rounds, late_rounds);
    ck_assert_int_ge(late_key.rounds, late_rounds);
}

#endif

RL_TEST(calls_on_a_dead_threads_loop, "S-LOOP-12",
        "Every call on a retained loop whose thread is gone is harmless and calls back nothing "
        "but schedule and cancel") {
    Leaver leaver = new_leaver(true);
    thread_join(thread_start(leave, &leaver));
    RLRunLoopRef gone = leaver.loop;
    Probe source = {0}, timer = {0}, observer = {0}, function = {0};
    RLStop(gone);
    RLWakeUp(gone);
    ck_assert(!RLIsWaiting(gone));
    RLAddSource(gone, probe_source(&source, 0), kRLDefaultMode);
    RLAddTimer(gone, probe_timer(&timer, date_in(-1), 0), kRLDefaultMode);
    RLAddObserver(gone, probe_observer(&observer, kRLAllActivities, true, 0), kRLDefaultMode);
    ck_assert_int_eq(source.schedules, 1);
    ck_assert(RLContainsSource(gone, source.source, kRLDefaultMode));
    ck_assert(RLContainsTimer(gone, timer.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(gone, observer.observer, kRLDefaultMode));
    RLSourceSignal(source.source);
    probe_perform(&function, gone, kRLDefaultMode);
    RLStop(gone);
    RLWakeUp(gone);
    ck_assert(!RLIsWaiting(gone));
    RLRemoveSource(gone, source.source, kRLDefaultMode);
    RLRemoveTimer(gone, timer.timer, kRLDefaultMode);
    RLRemoveObserver(gone, observer.observer, kRLDefaultMode);
    ck_assert_int_eq(source.cancels, 1);
    ck_assert(!RLContainsSource(gone, source.source, kRLDefaultMode));
    ck_assert(!RLContainsTimer(gone, timer.timer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(gone, observer.observer, kRLDefaultMode));
    ck_assert_int_eq(source.calls + timer.calls + observer.calls + function.calls, 0);
    RLRelease(gone);
}

/* The main thread leaves; its process goes on. */

static Probe main_source = {.name = "m"};
static void count_up(void *counter) { ++*(int *)counter; }

/* Whether the initial thread has ended; the sanitizers do not know how to join it. */
static bool main_thread_is_gone(void) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "re");
    if (!file) return true;
    if (!fgets(line, sizeof line, file)) line[0] = '\0';
    fclose(file);
    const char *state = strrchr(line, ')');
    return !state || state[2] == 'Z' || state[2] == 'X';
}

static void after_the_main_thread(void *unused) {
    (void)unused;
    while (!main_thread_is_gone()) take_time(0.001);
    ck_assert_int_eq(main_source.cancels, 1);
    log_capture();
    RLRunLoopRef main_loop = RLGetMain();
    Probe source = {0}, timer = {0}, observer = {0}, function = {0};
    probe_source(&source, 0);
    probe_timer(&timer, date_in(-1), 0);
    probe_observer(&observer, kRLAllActivities, true, 0);
    for (int i = 0; i < 2; i++) {
        RLAddSource(main_loop, source.source, kRLDefaultMode);
        RLAddTimer(main_loop, timer.timer, kRLDefaultMode);
        RLAddObserver(main_loop, observer.observer, kRLDefaultMode);
        probe_perform(&function, main_loop, kRLDefaultMode);
        RLWakeUp(main_loop);
        RLWakeUp(main_loop);
        ck_assert_int_eq(function.releases, i + 1);
        /* One line for each function, none for RLWakeUp. */
        ck_assert_msg(log_count() == 4, "the log is: %s", log_text());
    }
    ck_assert_int_eq(source.schedules, 0);
    ck_assert(!RLContainsSource(main_loop, source.source, kRLDefaultMode));
    ck_assert(!RLContainsTimer(main_loop, timer.timer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(main_loop, observer.observer, kRLDefaultMode));
    ck_assert_int_eq(source.calls + timer.calls + observer.calls + function.calls, 0);
    _Exit(42);
}

static void leave_the_main_thread(void *unused) {
    add_source(&main_source, kRLDefaultMode);
    thread_start(after_the_main_thread, unused);
    pthread_exit(NULL);
}

RL_MAIN_TEST(main_thread_leaves_by_pthread_exit, "S-LOOP-13 S-BLK-18",
             "When the main thread ends by pthread_exit its sources are cancelled, and later calls "
             "on the main loop are ignored, Add and PerformFunction with one log line each") {
    ChildResult result = run_child(leave_the_main_thread, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 42,
                  "status %#x, and it said: %s", result.status, result.output);
}

/* A main thread that never used its loop, which another one asks for later. */

static void use_the_main_loop(void *unused) {
    static Probe function = {0}, source = {0};
    int counter = 0;
    (void)unused;
    while (!main_thread_is_gone()) take_time(0.001);
    log_capture();
    probe_source(&source, 0);
    probe_perform(&function, RLGetMain(), kRLDefaultMode);
    ck_assert_int_eq(function.releases, 1);
    ck_assert(!RLPerformOnLoop(RLGetMain(), kRLCommonModes, count_up, &counter, NULL, true));
    RLAddSource(RLGetMain(), source.source, kRLDefaultMode);
    ck_assert(!RLContainsSource(RLGetMain(), source.source, kRLDefaultMode));
    ck_assert_int_eq(counter, 0);
    _Exit(42);
}
static void leave_without_a_loop(void *unused) {
    thread_start(use_the_main_loop, unused);
    pthread_exit(NULL);
}
static void leave_with_a_loop_of_others(void *unused) {
    ck_assert_ptr_nonnull(RLGetMain());
    leave_without_a_loop(unused);
}

RL_MAIN_TEST(main_thread_leaves_without_a_loop, "S-LOOP-13 S-PERF-11",
             "A main loop that is asked for after its thread has ended, or that only others used, takes nothing in, and nobody waits for it") {
    ChildResult result = run_child(leave_without_a_loop, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 42, "status %#x, and it said: %s", result.status,
                  result.output);
    result = run_child(leave_with_a_loop_of_others, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 42, "status %#x, and it said: %s", result.status,
                  result.output);
}

/* While a loop is being freed */

static void do_nothing_at_the_end(void *unused) { (void)unused; }

static RLRunLoopRef freed_loop, kept_while_freed;
static Probe left_while_freed = {.name = "left"};
static void keep_the_current_loop(void *unused) {
    (void)unused;
    kept_while_freed = RLGetCurrent();
    RLRetain(kept_while_freed);
    RLAddSource(kept_while_freed, left_while_freed.source, kRLDefaultMode);
}
static void leave_with_a_function_that_keeps(void *unused) {
    (void)unused;
    freed_loop = RLGetCurrent();
    RLPerformFunction(freed_loop, kRLDefaultMode, do_nothing_at_the_end, NULL, keep_the_current_loop);
}

RL_TEST(what_is_dropped_with_a_loop_finds_another, "S-LOOP-10 S-LOOP-11 S-LOOP-14",
        "A release function that is called when the loop is freed at the end of its thread finds another loop, which it may keep, and which is torn down, too") {
    probe_source(&left_while_freed, 0);
    thread_join(thread_start(leave_with_a_function_that_keeps, NULL));
    ck_assert_ptr_nonnull(kept_while_freed);
    ck_assert(kept_while_freed != freed_loop);
    ck_assert_int_eq(left_while_freed.schedules, 1);
    ck_assert_int_eq(left_while_freed.cancels, 1);
    ck_assert(!RLIsWaiting(kept_while_freed));
    ck_assert_int_eq(RLGetRetainCount(kept_while_freed), 1);
    RLRelease(kept_while_freed);
}

static Probe added_while_freed = {.name = "s"};
static Probe timer_while_freed = {.name = "t"};
static RLRunResult result_while_freed;
static int uses_while_freed;

static void do_nothing(void *info) { (void)info; }

static void use_while_freed(void *loop) {
    uses_while_freed++;
    RLAddSource(loop, added_while_freed.source, kRLDefaultMode);
    RLAddTimer(loop, timer_while_freed.timer, kRLDefaultMode);
    RLAddCommonMode(loop, "common while freed");
    result_while_freed = RLRunInMode(kRLDefaultMode, 0, false);
}

static void leave_with_a_function(void *unused) {
    (void)unused;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, do_nothing, RLGetCurrent(), use_while_freed);
}

RL_TEST(loop_being_freed_takes_nothing, "S-LOOP-14",
        "While a loop is being freed Add calls are ignored and a run returns Finished") {
    probe_source(&added_while_freed, 0);
    probe_timer(&timer_while_freed, date_in(-1), 0);
    thread_join(thread_start(leave_with_a_function, NULL));
    ck_assert_int_eq(uses_while_freed, 1);
    ck_assert_int_eq(added_while_freed.schedules, 0);
    ck_assert_int_eq(added_while_freed.calls + timer_while_freed.calls, 0);
    ck_assert_str_eq(result_name(result_while_freed), "Finished");
    /* The timer was not caught by the dying loop. */
    RLAddTimer(RLGetCurrent(), timer_while_freed.timer, kRLDefaultMode);
    ck_assert(RLContainsTimer(RLGetCurrent(), timer_while_freed.timer, kRLDefaultMode));
}

static RLRunLoopRef loop_described;
static int descriptions;
static void describe_while_freed(const void *unused) {
    (void)unused;
    int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char *text = RLCopyDescription(loop_described);
    ck_assert_ptr_nonnull(strstr(text, "mode "));
    ck_assert(RLDump(loop_described, sink));
    free(text);
    close(sink);
    descriptions++;
}
static void no_fire(RLTimerRef unused, void *info) { (void)unused, (void)info; }
static void no_activity(RLObserverRef unused, RLActivity activity, void *info) { (void)unused, (void)activity, (void)info; }
static void leave_with_items(void *keeps) {
    loop_described = RLGetCurrent();
    if (keeps) RLRetain(loop_described);
    RLTimerContext timer_context = {.release = describe_while_freed};
    RLObserverContext observer_context = {.release = describe_while_freed};
    for (int i = 0; i < 2; i++) {
        RLTimerRef timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, no_fire, &timer_context);
        RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, no_activity, &observer_context);
        RLAddTimer(loop_described, timer, i ? "other" : kRLCommonModes);
        RLAddObserver(loop_described, observer, i ? "other" : kRLDefaultMode);
        RLRelease(timer);
        RLRelease(observer);
    }
}

RL_TEST(a_loop_being_freed_is_described, "S-LOOP-14 S-SEE-1",
        "The release functions that a loop calls while it is freed may describe it, at the end of its thread or at the last RLRelease") {
    thread_join(thread_start(leave_with_items, NULL));
    ck_assert_int_eq(descriptions, 4);
    thread_join(thread_start(leave_with_items, &descriptions));
    RLRelease(loop_described);
    ck_assert_int_eq(descriptions, 8);
}
