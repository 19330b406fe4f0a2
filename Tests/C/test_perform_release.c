/* SPDX-License-Identifier: MIT */
/* What queued functions leave behind (section 7): ignored requests, and the release callback. */
#include "support.h"

static void record(void *info) { trace("%s", (const char *)info); }

static void record_release(void *info) { trace("-%s", (const char *)info); }

RL_TEST(empty_list_of_modes, "S-BLK-13 S-BLK-18",
        "With no modes the function is never run, and is released before the call returns") {
    RLRunLoopRef loop = RLGetCurrent();
    static const RLMode modes[] = {"x"};
    keep_alive(loop, kRLDefaultMode);
    keep_alive(loop, "x");
    RLPerformFunctionInModes(loop, modes, 0, record, "a", record_release);
    expect_trace("-a");
    RLPerformFunctionInModes(loop, modes, -1, record, "b", record_release);
    expect_trace("-b");
    RLPerformFunctionInModes(loop, NULL, 1, record, "c", record_release);
    expect_trace("-c");
    RLPerformFunctionInModes(loop, NULL, 0, record, "d", record_release);
    expect_trace("-d");
    expect_run("x", 0, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
}

RL_TEST(null_entries_of_a_list, "S-BLK-13 S-BLK-18",
        "NULL entries of a list of modes are skipped; a list of nothing else is an empty one") {
    RLRunLoopRef loop = RLGetCurrent();
    static const RLMode some[] = {NULL, "x", NULL}, none[] = {NULL, NULL};
    RLPerformFunctionInModes(loop, some, 3, record, "a", record_release);
    expect_trace("");
    expect_run("x", 0, false, TimedOut);
    expect_trace("a -a");
    RLPerformFunctionInModes(loop, none, 2, record, "b", record_release);
    expect_trace("-b");
    expect_run("x", 0, false, Finished);
}

RL_TEST(null_loop_mode_or_function, "S-BLK-14 S-BLK-18 S-ARG-1 S-ARG-2",
        "A NULL loop, mode or function: the request is ignored, and released before the call "
        "returns") {
    RLRunLoopRef loop = RLGetCurrent();
    static const RLMode modes[] = {"x"};
    RLPerformFunction(NULL, kRLDefaultMode, record, "a", record_release);
    RLPerformFunctionInModes(NULL, modes, 1, record, "b", record_release);
    RLPerformFunction(loop, NULL, record, "c", record_release);
    RLPerformFunction(loop, kRLDefaultMode, NULL, "d", record_release);
    RLPerformFunctionInModes(loop, modes, 1, NULL, "e", record_release);
    expect_trace("-a -b -c -d -e");
    RLPerformFunction(NULL, NULL, NULL, NULL, NULL);
    RLPerformFunction(loop, NULL, record, "f", NULL);
    expect_run(kRLDefaultMode, 0, false, Finished);
    expect_run("x", 0, false, Finished);
    expect_trace("");
}

RL_TEST(release_may_be_null, "S-BLK-18",
        "A function queued without a release callback runs once like any other") {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, record, "a", NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, Finished);
    expect_trace("a");
}

RL_TEST(release_follows_each_function, "S-BLK-17 S-BLK-18",
        "Each function is released right after it ran, before the next one runs") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformFunction(loop, kRLDefaultMode, record, "a", record_release);
    RLPerformFunction(loop, kRLDefaultMode, record, "b", record_release);
    RLPerformFunction(loop, "other", record, "c", record_release);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a -a b -b");
    expect_run("other", 0, false, TimedOut);
    expect_trace("c -c");
}

/* Uses the loop it is given in ways that take its lock. */
static void use_loop(void *loop) {
    keep_alive(loop, "used");
    ck_assert(!RLContainsSource(loop, NULL, "used"));
    RLPerformFunction(loop, "used", record, "u", NULL);
}

/* A release callback that waits for a thread that uses the loop: a lock held would block it. */
static void wait_for_a_user(void *loop) {
    thread_join(thread_start(use_loop, loop));
    trace("released");
}

RL_TEST(no_lock_is_held_in_function_or_release, "S-BLK-17 S-BLK-18 S-THR-3",
        "The function and its release are called with no lock held, also when the request is "
        "ignored") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformFunction(loop, kRLDefaultMode, wait_for_a_user, loop, wait_for_a_user);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("released released");
    RLPerformFunction(loop, kRLDefaultMode, NULL, loop, wait_for_a_user);
    RLPerformFunctionInModes(loop, NULL, 0, record, loop, wait_for_a_user);
    expect_trace("released released");
    expect_run("used", 0, false, TimedOut);
    expect_trace("u u u u");
}

static void leave_a_retained_loop(void *result) {
    *(RLRunLoopRef *)result = (RLRunLoopRef)RLRetain(RLGetCurrent());
}

RL_TEST(loop_whose_thread_is_gone, "S-BLK-18 S-LOOP-12",
        "A function queued on a retained loop whose thread is gone is released before the call "
        "returns, and not run") {
    RLRunLoopRef gone = NULL;
    thread_join(thread_start(leave_a_retained_loop, &gone));
    RLPerformFunction(gone, kRLDefaultMode, record, "a", record_release);
    expect_trace("-a");
    const RLMode modes[] = {"x", kRLDefaultMode};
    RLPerformFunctionInModes(gone, modes, 2, record, "b", record_release);
    expect_trace("-b");
    RLRelease(gone);
    expect_trace("");
}

static void queue_for_modes_that_never_run(void *unused) {
    (void)unused;
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformFunction(loop, "never run", record, "a", record_release);
    RLPerformFunction(loop, kRLCommonModes, record, "b", record_release);
    keep_alive(loop, "run");
    expect_run("run", 0, false, TimedOut);
}

RL_TEST(functions_that_never_ran, "S-BLK-18 S-LOOP-10",
        "Functions that were never run are released once when their thread ends") {
    thread_join(thread_start(queue_for_modes_that_never_run, NULL));
    ck_assert_int_eq(trace_count("-a"), 1);
    ck_assert_int_eq(trace_count("-b"), 1);
    ck_assert_int_eq(trace_count("a") + trace_count("b"), 0);
}

RL_TEST(many_functions, "S-BLK-5 S-BLK-18",
        "Each of ten thousand functions for three modes runs once and is released once") {
    enum { number = 10000 };
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probes[3] = {{.name = NULL}};
    static const char *const modes[] = {"x", "y", "z"};
    for (int i = 0; i < number; i++) probe_perform(&probes[i % 3], loop, modes[i % 3]);
    for (int i = 0; i < 3; i++) {
        expect_run(modes[i], 0, false, TimedOut);
        ck_assert_int_eq(probes[i].calls, (number + 2 - i) / 3);
        ck_assert_int_eq(probes[i].releases, probes[i].calls);
        expect_run(modes[i], 0, false, Finished);
    }
}
