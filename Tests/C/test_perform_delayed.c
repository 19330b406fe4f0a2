/* SPDX-License-Identifier: MIT */
/* Sections 21.2 and 21.3: functions after a delay and in order, and how they are cancelled. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void record(void *word) { trace("%s", (const char *)word); }
static void record_release(void *word) { trace("-%s", (const char *)word); }
static bool equal_words(const void *a, const void *b) { return strcmp(a, b) == 0; }

static void delay(double seconds, const void *target, const char *word) {
    RLPerformAfterDelay(kRLDefaultMode, seconds, target, record, (void *)word, record_release);
}

static const int one, two;

/* Delayed requests */

RL_TEST(after_a_delay, "S-PERF-16 S-PERF-19 S-PERF-14",
        "A one-shot timer performs the function once, not early, as no handled source; it keeps the mode from being empty until then") {
    double start = monotonic_now();
    observe(RLGetCurrent(), kRLDefaultMode);
    delay(0.03, NULL, "a");
    expect_run(kRLDefaultMode, 1000, true, Finished);
    ck_assert_double_ge(monotonic_now() - start, 0.03);
    expect_trace("E BT BS BW AW a -a X");
}

RL_TEST(never_inline, "S-PERF-17", "A delay of 0, below 0 or NaN is not inline: the next service of timers performs it") {
    delay(0, NULL, "a");
    delay(-5, NULL, "b");
    delay((double)NAN, NULL, "c");
    delay((double)-INFINITY, NULL, "d");
    expect_trace("");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a -a b -b c -c d -d");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(same_delay_same_order, "S-PERF-18", "Requests with the same delay are performed in the order made") {
    static char words[300][8];
    char expected[300 * 18] = "";
    for (int i = 0; i < 300; i++) {
        snprintf(words[i], sizeof words[i], "%d", i);
        delay(0.01, NULL, words[i]);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%d -%d", i ? " " : "", i, i);
    }
    expect_run(kRLDefaultMode, 1000, false, Finished);
    expect_trace(expected);
}

RL_TEST(modes_of_a_delay, "S-PERF-16 S-PERF-7 S-MODE-23",
        "A request for several modes is performed once, in the one that runs; without a mode it is released at once") {
    const RLMode modes[] = {"x", NULL, "y"};
    RLPerformAfterDelayInModes(modes, 3, 0, NULL, record, "a", record_release);
    RLPerformAfterDelay(kRLCommonModes, 0, NULL, record, "b", record_release);
    expect_run("y", 0, false, TimedOut);
    expect_run("x", 0, false, Finished);
    expect_trace("a -a");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("b -b");
    RLPerformAfterDelayInModes(NULL, 1, 0, NULL, record, "c", record_release);
    RLPerformAfterDelayInModes(modes, 0, 0, NULL, record, "d", record_release);
    RLPerformAfterDelay(NULL, 0, NULL, record, "e", record_release);
    RLPerformAfterDelay(kRLDefaultMode, 0, NULL, NULL, "f", record_release);
    expect_trace("-c -d -e -f");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void other_function(void *word) { trace("other-%s", (const char *)word); }

RL_TEST(cancel_by_target, "S-PERF-20 S-PERF-21 S-PERF-22",
        "Cancelling by target, function and info, by equality if asked for, or by target alone takes the matching requests of all modes "
        "and releases them; nothing matching: no effect") {
    char twin[] = "a";
    delay(0, &one, "a");
    delay(0, &two, "a");
    delay(0, &one, "b");
    RLPerformAfterDelay("other", 0, &one, record, "a", record_release);
    RLPerformAfterDelay(kRLDefaultMode, 0, &one, other_function, "a", record_release);
    RLCancelPerformAfterDelay(&one, record, twin, NULL);
    RLCancelPerformAfterDelay(NULL, NULL, NULL, NULL);
    RLCancelPerformAfterDelay(&delay, NULL, NULL, NULL);
    expect_trace("");
    RLCancelPerformAfterDelay(&one, record, twin, equal_words);
    expect_trace("-a -a");
    expect_run("other", 0, false, Finished);
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    ck_assert_int_eq(trace_count("-a"), 1);
    ck_assert_int_eq(trace_count("-b"), 1);
    trace_take();
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a -a");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void cancel_self(void *word) {
    trace("%s", (const char *)word);
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    trace("cancelled");
}

RL_TEST(cancel_inside, "S-PERF-22", "Cancelling inside the request itself is harmless: its release comes after it, that of the others at once") {
    RLPerformAfterDelay(kRLDefaultMode, 0, &one, cancel_self, "self", record_release);
    delay(0, &one, "later");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("self -later cancelled -self");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void make_in_release(void *word) {
    trace("-%s", (const char *)word);
    delay(0, &one, "again");
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
}

RL_TEST(cancel_in_release, "S-PERF-22 S-THR-3", "A release may make and cancel requests itself") {
    for (int i = 0; i < 3; i++) RLPerformAfterDelay(kRLDefaultMode, 0, &one, record, "a", make_in_release);
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    ck_assert_int_eq(trace_count("-a"), 3);
    ck_assert_int_ge(trace_count("-again"), 1);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void cancel_all_of_one(void *unused) {
    (void)unused;
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
}

static void leave_pending(void *unused) {
    (void)unused;
    delay(1000, &one, "left");
}

RL_TEST(other_threads, "S-PERF-23 S-LOOP-9 S-BLK-18",
        "Cancel does not touch other threads' loops; what is pending when a loop is freed is released without being performed") {
    delay(0, &one, "a");
    thread_join(thread_start(cancel_all_of_one, NULL));
    expect_trace("");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a -a");
    thread_join(thread_start(leave_pending, NULL));
    expect_trace("-left");
}

static RLTypeRef *listed;
static RLIndex listed_count;
static void leave_and_list(void *word) {
    for (int i = 0; i < 100; i++) delay(1000, &one, word);
    listed = RLCopyItems(RLGetCurrent(), kRLDefaultMode, kRLItemTimers, &listed_count);
    ck_assert_int_eq(listed_count, 100);
}

static Gate has_cancelled = GATE_INITIALIZER, listed_is_freed = GATE_INITIALIZER;
static void cancel_beside_listed(LoopThread *self) {
    (void)self;
    for (int i = 0; i < 100; i++) delay(1000, &one, "mine");
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    ck_assert_int_eq(trace_count("-mine"), 100);
    ck_assert_int_eq(trace_count("-left"), 0);
    expect_run(kRLDefaultMode, 0, false, Finished);
    for (int i = 0; i < 100; i++) delay(1000, &one, "mine");
    gate_open(&has_cancelled);
    gate_wait(&listed_is_freed);
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    ck_assert_int_eq(trace_count("-mine"), 200);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_request_outlives_its_loop, "S-PERF-23 S-LOOP-9",
        "A request whose timer is in a list outlives its loop; a later loop in that memory neither cancels it nor loses requests by its end, and "
        "another loop may perform it") {
    thread_join(thread_start(leave_and_list, "left"));
    LoopThread other;
    loop_thread_start(&other, cancel_beside_listed, NULL);
    gate_wait(&has_cancelled);
    RLTimerRef timer = (RLTimerRef)listed[0];
    for (RLIndex i = 1; i < listed_count; i++) RLRelease(listed[i]);
    gate_open(&listed_is_freed);
    thread_join(other.thread);
    ck_assert_int_eq(trace_count("-left"), 99);
    trace_take();
    ck_assert(RLTimerIsValid(timer));
    RLTimerSetNextFireDate(timer, 0);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLCancelPerformAfterDelay(&one, NULL, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("left -left");
    RLRelease(timer);
    free(listed);
}

static int performed, released;
static void count_performed(void *unused) {
    (void)unused;
    __atomic_add_fetch(&performed, 1, __ATOMIC_RELAXED);
}
static void count_released(void *unused) {
    (void)unused;
    __atomic_add_fetch(&released, 1, __ATOMIC_RELAXED);
}

static Gate no_more = GATE_INITIALIZER;
static void invalidate_listed(void *loop) {
    while (!gate_is_open(&no_more)) {
        RLIndex count;
        RLTypeRef *timers = RLCopyItems(loop, kRLDefaultMode, kRLItemTimers, &count);
        for (RLIndex i = 0; i < count; i++) RLTimerInvalidate((RLTimerRef)timers[i]);
        for (RLIndex i = 0; i < count; i++) RLRelease(timers[i]);
        free(timers);
    }
}

static bool equal_addresses(const void *a, const void *b) { return a == b; }

RL_TEST(timers_of_requests_end_on_other_threads, "S-PERF-23 S-THR-1",
        "Another thread invalidates the timers of requests while the loop's thread makes, cancels and performs them: each is released once") {
    Thread *thread = thread_start(invalidate_listed, RLGetCurrent());
    static char infos[7];
    int made = 0;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 20; i++, made++)
            RLPerformAfterDelay(kRLDefaultMode, i % 2 ? 1000 : 0, &infos[i % 7], count_performed, &infos[i % 7], count_released);
        for (int i = 0; i < 6; i++)
            RLCancelPerformAfterDelay(&infos[i], i % 3 ? count_performed : NULL, &infos[i], i % 3 == 1 ? equal_addresses : NULL);
        RLRunInMode(kRLDefaultMode, 0, false);
        RLCancelPerformAfterDelay(&infos[6], NULL, NULL, NULL);
    }
    gate_open(&no_more);
    thread_join(thread);
    expect_run(kRLDefaultMode, 0, false, Finished);
    ck_assert_int_eq(released, made);
}

/* Ordered requests */

static void in_order(RLIndex order, const void *target, const char *word) {
    static const RLMode modes[] = {"kCFRunLoopDefaultMode"};
    RLPerformInOrder(RLGetCurrent(), modes, 1, order, target, record, (void *)word, record_release);
}

RL_TEST(start_of_the_pass, "S-PERF-24 S-PERF-25",
        "Ordered requests are performed at the start of the next pass, lower order first, equal orders in the order made; the call returns "
        "before that") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    in_order(2, NULL, "c");
    in_order(1, NULL, "a");
    in_order(2, NULL, "d");
    in_order(1, NULL, "b");
    in_order(-7, NULL, "first");
    expect_trace("");
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("E first -first a -a b -b c -c d -d BT BS X");
    expect_run(kRLDefaultMode, 0, true, Finished);
}

static void one_more(void *word) {
    trace("%s", (const char *)word);
    in_order(0, NULL, "more");
}

RL_TEST(next_pass, "S-PERF-24", "A request made by one comes in the next pass; one made just before the wait ends that wait") {
    static const RLMode modes[] = {"kCFRunLoopDefaultMode"};
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    RLPerformInOrder(loop, modes, 1, 5, NULL, one_more, "a", NULL);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    const char *text = trace_take();
    ck_assert_msg(strncmp(text, "E a BT BS BW AW more -more BT", 29) == 0, "%s", text);
}

static void cancel_two(void *word) {
    trace("%s", (const char *)word);
    RLCancelPerformInOrder(RLGetCurrent(), &two, NULL, NULL);
}

RL_TEST(cancel_ordered, "S-PERF-26 S-PERF-22",
        "Cancelling removes pending ordered requests in all modes, by target or by target, function and info, also those of the pass that "
        "is under way") {
    static const RLMode other[] = {"other"};
    RLRunLoopRef loop = RLGetCurrent();
    in_order(0, &one, "a");
    in_order(0, &two, "b");
    in_order(0, &one, "c");
    RLPerformInOrder(loop, other, 1, 0, &one, record, "d", record_release);
    RLCancelPerformInOrder(loop, &one, record, "c");
    RLCancelPerformInOrder(loop, &one, other_function, "a");
    expect_trace("-c");
    RLCancelPerformInOrder(loop, &one, NULL, NULL);
    expect_trace("-a -d");
    expect_run("other", 0, false, Finished);
    static const RLMode modes[] = {"kCFRunLoopDefaultMode"};
    RLPerformInOrder(loop, modes, 1, -1, NULL, cancel_two, "cancels", record_release);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("cancels -b -cancels");
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void ask_in_order(void *loop) {
    static const RLMode modes[] = {"kCFRunLoopCommonModes"};
    RLPerformInOrder(loop, modes, 1, 0, NULL, record, "asked", NULL);
}

static void leave_ordered(void *unused) {
    (void)unused;
    in_order(0, NULL, "left");
}

RL_TEST(ordered_from_another_thread, "S-PERF-24 S-PERF-25 S-BLK-18",
        "Another thread's request ends the wait and is performed at the start of the pass that follows; what is pending when the thread "
        "ends is released") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    Thread *asker = when_waiting(loop, ask_in_order, loop);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    thread_join(asker);
    while (trace_count("asked") == 0) expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    const char *text = trace_take();
    ck_assert_msg(strstr(text, "AW asked BT") || strstr(text, "E asked BT"), "%s", text);
    thread_join(thread_start(leave_ordered, NULL));
    expect_trace("-left");
    RLPerformInOrder(NULL, NULL, 0, 0, NULL, record, "null", record_release);
    RLPerformInOrder(loop, NULL, 3, 0, NULL, record, "null", record_release);
    RLCancelPerformInOrder(NULL, NULL, NULL, NULL);
    expect_trace("-null -null");
}
