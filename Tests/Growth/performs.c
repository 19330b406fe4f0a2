/* SPDX-License-Identifier: MIT */
/* Functions, requests, delayed requests. */
#include "growth.h"

static void each(long n, void (*post)(long)) {
    for (long i = 0; i < n; i++) post(i);
}

static void post_default(long i) {
    (void)i;
    RLPerformFunction(own, kRLDefaultMode, count_call, NULL, NULL);
}

static const RLMode two_modes[] = {"x", "y"};

static void post_never(long i) {
    if (i % 3 == 0) RLPerformFunction(own, "never", count_call, NULL, NULL);
    if (i % 3 == 1) RLPerformFunctionInModes(own, two_modes, 2, count_call, NULL, NULL);
}

static void nothing(void) {}
static void post_in_pass(void) { RLPerformFunction(own, kRLDefaultMode, count_call, NULL, NULL); }

EACH_OF(post_perform) {
    counted();
    each(n, post_default);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

BESIDE_IDLE(post_for_mode_that_never_runs) {
    each(n, post_never);
    passes(kRLDefaultMode, 2, post_in_pass);
    counted();
    passes(kRLDefaultMode, 300, post_in_pass);
    counted_end();
}

static void post_common(long i) {
    (void)i;
    RLPerformFunction(own, kRLCommonModes, count_call, NULL, NULL);
}

static void switch_modes(void) {
    RLPerformFunction(own, "a", count_call, NULL, NULL);
    RLPerformFunction(own, "b", count_call, NULL, NULL);
    RLRunInMode("a", 0, false);
    RLRunInMode("b", 0, false);
}

BESIDE_IDLE(post_for_common_modes_and_others_run) {
    each(n, post_common);
    each(n, post_never);
    for (int i = 0; i < 2; i++) switch_modes();
    counted();
    for (int i = 0; i < 100; i++) switch_modes();
    counted_end();
}

EACH_OF(post_and_ask) {
    passes("empty", 1, NULL);
    counted();
    for (long i = 0; i < n; i++) {
        post_default(i);
        RLRunInMode("empty", 0, false);
        require(!RLIsModeEmpty(kRLDefaultMode), "not empty");
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

static void run_nested(void *info) {
    (void)info;
    calls++;
    RLPerformFunction(own, "never", count_call, NULL, NULL);
    RLPerformFunction(own, "nested", count_call, NULL, NULL);
    RLRunInMode("nested", 0, false);
}

/* The outer round keeps a post for another mode, then performs one that has a nested round keep another. */
EACH_OF(post_kept_by_two_rounds) {
    for (long i = 0; i < n; i++) {
        RLPerformFunction(own, kRLDefaultMode, run_nested, NULL, NULL);
        RLPerformFunction(own, "never", count_call, NULL, NULL);
        RLPerformFunction(own, "nested", count_call, NULL, NULL);
    }
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == 2 * n, "calls");
}

/* Requests */

static void request_never(long i) {
    if (i % 3 == 0) RLPerformOnLoop(own, "never", count_call, NULL, NULL, false);
    if (i % 3 == 1) RLPerformOnLoopInModes(own, two_modes, 2, count_call, NULL, NULL, false);
    if (i % 3 == 2) RLPerformInOrder(own, two_modes, 2, i % 5, NULL, count_call, (void *)i, NULL);
}

static void request_in_pass(void) {
    RLPerformOnLoop(own, kRLDefaultMode, count_call, NULL, NULL, false);
    const RLMode modes[] = {kRLDefaultMode};
    RLPerformInOrder(own, modes, 1, 1, NULL, count_call, NULL, NULL);
}

EACH_OF(request_perform) {
    counted();
    for (long i = 0; i < n; i++) RLPerformOnLoop(own, kRLCommonModes, count_call, NULL, NULL, false);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

BESIDE_IDLE(request_for_mode_that_never_runs) {
    RLPerformFunction(own, "never", count_call, NULL, NULL);
    RLPerformFunction(own, "x", count_call, NULL, NULL);
    each(n, request_never);
    passes(kRLDefaultMode, 2, request_in_pass);
    counted();
    passes(kRLDefaultMode, 300, request_in_pass);
    counted_end();
}

static void order(long i) {
    const RLMode modes[] = {kRLDefaultMode, "x"};
    RLPerformInOrder(own, modes, 2, i % 2 == 0 ? -i : i, (void *)(i % 10 + 1), count_call, (void *)i, NULL);
}

EACH_OF(request_in_order) {
    counted();
    each(n, order);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

EACH_OF(request_cancel) {
    each(n, order);
    counted();
    for (long i = 0; i < n; i++) RLCancelPerformInOrder(own, (void *)(i % 10 + 1), count_call, (void *)i);
    counted_end();
    RLRunInMode(kRLDefaultMode, 0, false);
    require(calls == 0, "calls");
}

EACH_OF(request_cancel_target) {
    const RLMode modes[] = {kRLDefaultMode};
    for (long i = 0; i < n; i++) RLPerformInOrder(own, modes, 1, i % 7, (void *)(i + 1), count_call, NULL, NULL);
    counted();
    for (long i = n; i > 0; i--) RLCancelPerformInOrder(own, (void *)i, NULL, NULL);
    counted_end();
    RLRunInMode(kRLDefaultMode, 0, false);
    require(calls == 0, "calls");
}

EACH_OF(request_cancel_in_batch) {
    const RLMode modes[] = {kRLDefaultMode};
    for (long i = 0; i < n; i++) RLPerformInOrder(own, modes, 1, 0, (void *)(i + 1), count_call, NULL, NULL);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

EACH_OF(delayed_perform) {
    counted();
    for (long i = 0; i < n; i++) RLPerformAfterDelay(kRLDefaultMode, 0, (void *)(i % 10 + 1), count_call, (void *)i, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "calls");
}

static void delayed_cancel(long n, bool backwards) {
    for (long i = 0; i < n; i++) RLPerformAfterDelay(kRLDefaultMode, 100, (void *)(i % 10 + 1), count_call, (void *)i, NULL);
    counted();
    for (long i = 0; i < n; i++) {
        long which = backwards ? n - 1 - i : i;
        RLCancelPerformAfterDelay((void *)(which % 10 + 1), count_call, (void *)which, NULL);
    }
    counted_end();
    require(RLIsModeEmpty(kRLDefaultMode), "empty");
}

/* Infos that are numbers, whose lower bits are all 0. */
EACH_OF(delayed_cancel_of_numbers) {
    for (long i = 0; i < n; i++) RLPerformAfterDelay(kRLDefaultMode, 100, NULL, count_call, (void *)((uintptr_t)i << 40), NULL);
    counted();
    for (long i = 0; i < n; i++) RLCancelPerformAfterDelay(NULL, count_call, (void *)((uintptr_t)i << 40), NULL);
    counted_end();
    require(RLIsModeEmpty(kRLDefaultMode), "empty");
}
EACH_OF(delayed_cancel_forwards) { delayed_cancel(n, false); }
EACH_OF(delayed_cancel_backwards) { delayed_cancel(n, true); }

EACH_OF(delayed_cancel_target) {
    for (long i = 0; i < n; i++) RLPerformAfterDelay(kRLDefaultMode, 100, (void *)(i + 1), count_call, NULL, NULL);
    counted();
    for (long i = 0; i < n; i++) RLCancelPerformAfterDelay((void *)(i + 1), NULL, NULL, NULL);
    counted_end();
    require(RLIsModeEmpty(kRLDefaultMode), "empty");
    nothing();
}
