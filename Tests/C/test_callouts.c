/* SPDX-License-Identifier: MIT */
/*
 * What the library guarantees while client code runs: no lock is held, and the info is alive. The
 * contexts are static, because what is left in a loop outlives the case that put it there.
 */
#include "support.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/*
 * S-THR-3: every callback waits for a thread that uses the loop, its items and the process-wide
 * calls. A callback that this very use brings about does nothing.
 */
static RLRunLoopRef used_loop;
static RLSourceRef used_source;
static int busy;

static void use_the_library(void *argument) {
    (void)argument;
    RLSourceRef source = keep_alive(used_loop, "used");
    RLRemoveSource(used_loop, source, "used");
    RLAddCommonMode(used_loop, "used too");
    free(RLCopyAllModes(used_loop, NULL));
    free(RLCopyCurrentMode(used_loop));
    (void)RLGetNextTimerFireDate(used_loop, kRLDefaultMode);
    if (used_source) {
        (void)RLContainsSource(used_loop, used_source, kRLDefaultMode);
        RLSourceSignal(used_source);
        RLAddSource(used_loop, used_source, "used");
        RLRemoveSource(used_loop, used_source, "used");
    }
    RLTimerRef timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    RLAddTimer(used_loop, timer, "used");
    RLTimerInvalidate(timer);
    RLRelease(timer);
    RLWakeUp(used_loop);
    (void)RLGetCurrent();
    (void)RLGetMain();
}

static void be_busy(const char *who) {
    if (__atomic_exchange_n(&busy, 1, __ATOMIC_SEQ_CST)) return;
    trace("%s", who);
    thread_join(thread_start(use_the_library, NULL));
    __atomic_store_n(&busy, 0, __ATOMIC_SEQ_CST);
}

#define expect_busy(who) ck_assert_msg(trace_count(who) > 0, "%s was not called", who)

static const void *busy_retain(const void *info) {
    be_busy("retain");
    return info;
}
static void busy_release(const void *info) {
    (void)info;
    be_busy("release");
}
static char *busy_description(const void *info) {
    (void)info;
    be_busy("description");
    return strdup("busy");
}
static bool busy_equal(const void *a, const void *b) {
    be_busy("equal");
    return a == b;
}
static RLHashCode busy_hash(const void *info) {
    be_busy("hash");
    return (RLHashCode)(uintptr_t)info;
}
static void busy_schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    (void)loop;
    (void)mode;
    be_busy("schedule");
}
static void busy_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    (void)loop;
    (void)mode;
    be_busy("cancel");
}
static void busy_perform(void *info) {
    (void)info;
    be_busy("perform");
}
static RLPort busy_port(void *info) {
    be_busy("getPort");
    return *(int *)info;
}
static void busy_fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    be_busy("fire");
}
static void busy_observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)info;
    be_busy(activity_name(activity));
}
static void busy_function_release(void *info) {
    (void)info;
    be_busy("function-release");
}
static void busy_log(const char *line, void *info) {
    (void)line;
    (void)info;
    be_busy("log");
}

RL_TEST(no_lock_in_the_callbacks_of_a_source, "S-THR-3 S-SRC-23",
        "Every callback of a custom source may wait for another user of the loop") {
    static int info;
    RLSourceContext context = {0,          &info,     busy_retain,   busy_release, busy_description,
                               busy_equal, busy_hash, busy_schedule, busy_cancel,  busy_perform};
    used_loop = RLGetCurrent();
    RLSourceRef source = RLSourceCreate(0, &context), twin = RLSourceCreate(0, &context);
    RLAddSource(used_loop, source, kRLDefaultMode);
    used_source = source;
    RLAddSource(used_loop, source, kRLCommonModes);
    RLAddSource(used_loop, twin, kRLDefaultMode);
    ck_assert(RLContainsSource(used_loop, twin, kRLDefaultMode));
    ck_assert(RLEqual(source, twin));
    (void)RLHash(source);
    free(RLCopyDescription(source));
    free(RLCopyDescription(used_loop));
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLRemoveSource(used_loop, twin, kRLCommonModes);
    used_source = NULL;
    RLSourceInvalidate(source);
    RLRelease(source);
    RLRelease(twin);
    const char *const all[] = {"retain",   "release", "description", "equal",
                               "schedule", "cancel",  "hash",        "perform"};
    for (int i = 0; i < 8; i++) expect_busy(all[i]);
}

RL_TEST(no_lock_in_the_callbacks_of_a_port_source, "S-THR-3",
        "Every callback of a port source may wait for another user of the loop") {
    static int fd;
    RLSourceContext1 context = {1,          &fd,       busy_retain, busy_release, busy_description,
                                busy_equal, busy_hash, busy_port,   busy_perform};
    used_loop = RLGetCurrent();
    fd = make_eventfd();
    eventfd_signal(fd);
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    RLAddSource(used_loop, source, kRLDefaultMode);
    free(RLCopyDescription(source));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLRemoveSource(used_loop, source, kRLDefaultMode);
    RLRelease(source);
    expect_busy("getPort");
    expect_busy("perform");
    expect_busy("release");
}

RL_TEST(no_lock_in_the_callbacks_of_a_timer, "S-THR-3 S-TMR-44",
        "Every callback of a timer may wait for another user of the loop") {
    static int info;
    RLTimerContext context = {0, &info, busy_retain, busy_release, busy_description};
    used_loop = RLGetCurrent();
    RLTimerRef timer = RLTimerCreate(0, 0, 0, 0, busy_fire, &context);
    RLAddTimer(used_loop, timer, kRLCommonModes);
    free(RLCopyDescription(timer));
    trace_take();
    RLRelease(timer);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_busy("retain");
    expect_busy("fire");
    expect_busy("release");
}

RL_TEST(no_lock_in_the_callbacks_of_an_observer, "S-THR-3 S-OBS-1",
        "An observer may wait for another user of the loop at every activity") {
    static int info;
    RLObserverContext context = {0, &info, busy_retain, busy_release, busy_description};
    used_loop = RLGetCurrent();
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, busy_observe, &context);
    RLAddObserver(used_loop, observer, kRLCommonModes);
    keep_alive(used_loop, kRLDefaultMode);
    free(RLCopyDescription(observer));
    expect_run(kRLDefaultMode, 0.5, false, TimedOut);
    RLObserverInvalidate(observer);
    RLRelease(observer);
    const char *const all[] = {"retain", "release", "description", "E", "BT",
                               "BS",     "BW",      "AW",          "X"};
    for (int i = 0; i < 9; i++) expect_busy(all[i]);
}

RL_TEST(no_lock_in_queued_functions, "S-THR-3 S-BLK-17 S-BLK-18",
        "A queued function and its release may wait for another user of the loop") {
    used_loop = RLGetCurrent();
    RLPerformFunction(used_loop, kRLDefaultMode, busy_perform, NULL, busy_function_release);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("perform function-release");
    RLPerformFunction(used_loop, NULL, busy_perform, NULL, busy_function_release);
    expect_trace("function-release");
}

RL_TEST(no_lock_in_the_log_handler, "S-THR-3 S-ARG-9",
        "The log handler may wait for another user of the loop") {
    used_loop = RLGetCurrent();
    RLSetLogHandler(busy_log, NULL);
    expect_run(kRLCommonModes, 0, false, Finished);
    expect_trace("log");
}

/* S-THR-8 */

static Gate in_callback = GATE_INITIALIZER, invalidated = GATE_INITIALIZER;
static pthread_t released_on;
static const void *plain_retain(const void *info) { return info; }
static void note_release(const void *info) {
    released_on = pthread_self();
    trace("released-%s", (const char *)info);
}
static void wait_in_callback(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    gate_open(&in_callback);
    gate_wait(&invalidated);
    trace("ends-%s", (const char *)info);
}
static void invalidate_observer_in_callback(void *observer) {
    gate_wait(&in_callback);
    RLObserverInvalidate(observer);
    ck_assert(!RLObserverIsValid(observer));
    gate_open(&invalidated);
}

RL_TEST(an_observer_s_info_outlives_its_callback, "S-THR-8 S-OBS-16",
        "An Invalidate from another thread during an observer's callback leaves the release of the "
        "context to the loop's thread, right after the callback") {
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverContext context = {0, "info", plain_retain, note_release, NULL};
    RLObserverRef observer =
        RLObserverCreate(kRLBeforeTimers, true, 0, wait_in_callback, &context);
    RLAddObserver(loop, observer, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = thread_start(invalidate_observer_in_callback, observer);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    thread_join(thread);
    expect_trace("ends-info released-info");
    ck_assert(pthread_equal(released_on, pthread_self()));
    RLRelease(observer);
}

static RLTimerRef bracketed_timer;
static int timer_retains;
static void invalidate_bracketed_timer(void *argument) {
    (void)argument;
    RLTimerInvalidate(bracketed_timer);
}
static const void *invalidating_retain(const void *info) {
    (void)info;
    if (timer_retains++ == 0) return "made";
    thread_join(thread_start(invalidate_bracketed_timer, NULL));
    trace("bracket");
    return "bracket";
}
static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    trace("fire-%s", (const char *)info);
}

RL_TEST(a_timer_s_info_outlives_the_bracket_s_retain, "S-THR-8 S-TMR-44",
        "An Invalidate from another thread during the bracket's retain leaves the release of the "
        "context to the loop's thread, after that retain") {
    RLTimerContext context = {0, "made", invalidating_retain, note_release, NULL};
    bracketed_timer = RLTimerCreate(0, 1000, 0, 0, fire, &context);
    RLAddTimer(RLGetCurrent(), bracketed_timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert(pthread_equal(released_on, pthread_self()));
    ck_assert_int_eq(trace_count("released-made"), 1);
    ck_assert_int_eq(trace_count("released-bracket"), 1);
    const char *words = trace_take();
    ck_assert_msg(strncmp(words, "bracket ", 8) == 0, "%s", words);
    RLRelease(bracketed_timer);
}

/* The same without a gate: whoever comes first, no callback may see a released info. */

typedef struct Living {
    int alive;
} Living;
static const void *living_retain(const void *info) {
    ck_assert_int_ge(__atomic_fetch_add(&((Living *)info)->alive, 1, __ATOMIC_SEQ_CST), 1);
    return info;
}
static void living_release(const void *info) {
    __atomic_sub_fetch(&((Living *)info)->alive, 1, __ATOMIC_SEQ_CST);
}
static void living_fire(RLTimerRef timer, void *info) {
    (void)timer;
    ck_assert_int_ge(count_of(&((Living *)info)->alive), 2);
}
static void living_observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    ck_assert_int_ge(count_of(&((Living *)info)->alive), 2);
}

enum { lives = 1000 };
static Living observed[lives], timed[lives];
static int lives_done;
static void make_and_break(void *loop) {
    for (int i = 0; i < lives; i++) {
        /* The test's own reference: it is given up after the library's. */
        observed[i].alive = timed[i].alive = 1;
        RLObserverContext o = {0, &observed[i], living_retain, living_release, NULL};
        RLTimerContext t = {0, &timed[i], living_retain, living_release, NULL};
        RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, living_observe, &o);
        RLTimerRef timer = RLTimerCreate(0, 1e-6, 0, 0, living_fire, &t);
        RLAddObserver(loop, observer, kRLDefaultMode);
        RLAddTimer(loop, timer, kRLDefaultMode);
        if (i % 3 == 0) sched_yield();
        RLObserverInvalidate(observer);
        RLTimerInvalidate(timer);
        RLRelease(observer);
        RLRelease(timer);
    }
    __atomic_store_n(&lives_done, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(no_callback_sees_a_released_info, "S-THR-8 S-THR-5",
        "A thousand observers and timers, invalidated by another thread while the loop calls them, "
        "see a retained info, and all are released in the end") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = thread_start(make_and_break, loop);
    while (!count_of(&lives_done)) RLRunInMode(kRLDefaultMode, 0, false);
    thread_join(thread);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (int i = 0; i < lives; i++) {
        ck_assert_int_eq(count_of(&observed[i].alive), 1);
        ck_assert_int_eq(count_of(&timed[i].alive), 1);
    }
}
