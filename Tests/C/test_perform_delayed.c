/* SPDX-License-Identifier: MIT */
/* Sections 21.2 and 21.3: functions after a delay and in order, and how they are cancelled. */
#include "support.h"

#include <math.h>
#include <stdio.h>
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
