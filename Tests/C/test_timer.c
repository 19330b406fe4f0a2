/* SPDX-License-Identifier: MIT */
/*
 * Timers by themselves: creation, membership, invalidation, context, tolerance and queries. The
 * probes are static, because what is left in a loop outlives the case that put it there.
 */
#include "support.h"

#include <math.h>
#include <string.h>

static char original, substitute;
static int retains, releases;

static const void *retain_as_substitute(const void *info) {
    retains++;
    ck_assert_ptr_eq(info, &original);
    return &substitute;
}
static void release_substitute(const void *info) {
    releases++;
    ck_assert_ptr_eq(info, &substitute);
}
static char *describe_nothing(const void *info) {
    (void)info;
    return NULL;
}
static void do_nothing(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
}

RL_TEST(context_is_copied_and_its_info_retained_once, "S-TMR-1",
        "The context is copied, and what its retain returns at creation is the info from then on") {
    RLTimerContext context = {0, &original, retain_as_substitute, release_substitute,
                              describe_nothing};
    RLTimerRef timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, do_nothing, &context);
    memset(&context, 0xEE, sizeof context);
    ck_assert_int_eq(retains, 1);
    RLTimerContext stored;
    memset(&stored, 0, sizeof stored);
    RLTimerGetContext(timer, &stored);
    ck_assert_ptr_eq(stored.info, &substitute);
    ck_assert(stored.retain == retain_as_substitute && stored.release == release_substitute);
    ck_assert(stored.copyDescription == describe_nothing);
    RLRelease(timer);
    ck_assert_int_eq(retains, 1);
    ck_assert_int_eq(releases, 1);
}

static void *called_with = &original;
static void keep_info(RLTimerRef timer, void *info) {
    (void)timer;
    called_with = info;
}

RL_TEST(null_context_means_null_info, "S-TMR-1", "Without a context the info is NULL") {
    RLTimerRef timer = RLTimerCreate(0, 0, 0, 0, keep_info, NULL);
    RLTimerContext stored;
    memset(&stored, 0xEE, sizeof stored);
    stored.version = 0;
    RLTimerGetContext(timer, &stored);
    ck_assert_ptr_null(stored.info);
    ck_assert(!stored.retain && !stored.release && !stored.copyDescription);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_ptr_null(called_with);
    RLRelease(timer);
}

static void check_interval(RLTimeInterval given, RLTimeInterval reported, bool repeats) {
    RLTimerRef timer = RLTimerCreate(FAR_FUTURE, given, 0, 0, do_nothing, NULL);
    ck_assert_ptr_nonnull(timer);
    ck_assert_double_eq(RLTimerGetInterval(timer), reported);
    ck_assert_int_eq(RLTimerDoesRepeat(timer), repeats);
    RLTimerInvalidate(timer);
    ck_assert_double_eq(RLTimerGetInterval(timer), reported);
    ck_assert_int_eq(RLTimerDoesRepeat(timer), repeats);
    RLRelease(timer);
}

RL_TEST(interval_zero_and_below_is_a_one_shot, "S-TMR-2 S-TMR-43",
        "A negative interval becomes 0, and a timer repeats exactly when its interval is "
        "positive") {
    check_interval(0, 0, false);
    check_interval(-0.0, 0, false);
    check_interval(-1, 0, false);
    check_interval(-1e300, 0, false);
    check_interval(-INFINITY, 0, false);
    check_interval(0.5, 0.5, true);
    check_interval(1, 1, true);
}

RL_TEST(interval_nan_makes_no_timer, "S-TMR-3", "With a NaN interval RLTimerCreate returns NULL") {
    RLTimerContext context = {0, &original, retain_as_substitute, release_substitute, NULL};
    ck_assert_ptr_null(RLTimerCreate(0, NAN, 0, 0, do_nothing, &context));
    ck_assert_ptr_null(RLTimerCreate(0, -NAN, 0, 0, do_nothing, NULL));
    ck_assert_int_eq(retains, releases);
}

RL_TEST(long_intervals_are_reported_unchanged, "S-TMR-5",
        "An interval above the limit, also an infinite one, is reported as it was given") {
    check_interval(504911233, 504911233, true);
    check_interval(1e300, 1e300, true);
    check_interval(INFINITY, INFINITY, true);
}

static void check_date(RLAbsoluteTime given, RLAbsoluteTime reported) {
    RLTimerRef timer = RLTimerCreate(given, 0, 0, 0, do_nothing, NULL);
    ck_assert_ptr_nonnull(timer);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), reported);
    RLTimerSetNextFireDate(timer, 12345);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 12345);
    RLTimerSetNextFireDate(timer, given);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), reported);
    RLRelease(timer);
}

RL_TEST(dates_are_limited_above, "S-TMR-6 S-TMR-36",
        "A date above the limit is stored as the limit, at creation and when it is set") {
    check_date(4039289856.0, 4039289856.0);
    check_date(4039289857.0, 4039289856.0);
    check_date(1e300, 4039289856.0);
    check_date(INFINITY, 4039289856.0);
    RLAbsoluteTime soon = date_in(50);
    check_date(soon, soon);
}

RL_TEST(past_dates_are_reported_as_given, "S-TMR-7 S-TMR-36",
        "A past date, also minus infinity, is reported as given") {
    check_date(0, 0);
    check_date(-1, -1);
    check_date(-1e300, -1e300);
    check_date(-INFINITY, -INFINITY);
}

RL_TEST(past_dates_are_due_at_once, "S-TMR-7", "A timer with a past date fires in the next pass") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    add_timer(&probes[0], -INFINITY, 0, kRLDefaultMode);
    add_timer(&probes[1], -1e300, 0, kRLDefaultMode);
    add_timer(&probes[2], date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b c");
}

RL_TEST(nan_date_never_fires, "S-TMR-8",
        "A timer with a NaN date does not fire, is reported as NaN, and keeps its mode non-empty") {
    static Probe one_shot = {.name = "one-shot"}, repeating = {.name = "repeating"};
    add_timer(&one_shot, NAN, 0, kRLDefaultMode);
    add_timer(&repeating, NAN, 0.001, kRLDefaultMode);
    ck_assert(isnan(RLTimerGetNextFireDate(one_shot.timer)));
    ck_assert(isnan(RLTimerGetNextFireDate(repeating.timer)));
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("");
    ck_assert(isnan(RLTimerGetNextFireDate(one_shot.timer)));
    RLTimerSetNextFireDate(one_shot.timer, 0);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("one-shot");
}

RL_TEST(a_date_set_to_nan_stops_a_timer, "S-TMR-8 S-TMR-36",
        "Setting a NaN date on a due timer keeps it from firing") {
    static Probe probe = {.name = "t"};
    add_timer(&probe, 0, 0, kRLDefaultMode);
    RLTimerSetNextFireDate(probe.timer, NAN);
    ck_assert(isnan(RLTimerGetNextFireDate(probe.timer)));
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("");
}

RL_TEST(order_and_flags_have_no_effect, "S-TMR-11",
        "Timers fire by date whatever their order and flags are, and the order is returned") {
    static Probe probe = {.name = "plain"};
    RLTimerRef plain = probe_timer(&probe, 0, 0);
    RLTimerRef odd = RLTimerCreate(0, 0, ~0UL, -1000000, keep_info, NULL);
    ck_assert_int_eq(RLTimerGetOrder(plain), 0);
    ck_assert_int_eq(RLTimerGetOrder(odd), -1000000);
    RLAddTimer(RLGetCurrent(), plain, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), odd, kRLDefaultMode);
    called_with = &original;
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("plain");
    ck_assert_ptr_null(called_with);
    RLTimerInvalidate(odd);
    ck_assert_int_eq(RLTimerGetOrder(odd), -1000000);
    RLRelease(plain);
    RLRelease(odd);
}

static int order_of_calls[2], calls;
static void record_first(RLTimerRef timer, void *info) {
    (void)timer;
    order_of_calls[calls++] = (int)(intptr_t)info;
}
RL_TEST(order_does_not_sort_due_timers, "S-TMR-11 S-TMR-21",
        "A timer with a lower order does not fire before one that is due earlier") {
    RLTimerContext one = {.info = (void *)1}, two = {.info = (void *)2};
    RLTimerRef early = RLTimerCreate(0, 0, 0, 100, record_first, &one);
    RLTimerRef late = RLTimerCreate(0, 0, 0, -100, record_first, &two);
    RLAddTimer(RLGetCurrent(), late, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), early, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(calls, 2);
    ck_assert_int_eq(order_of_calls[0], 1);
    RLRelease(early);
    RLRelease(late);
}

RL_TEST(a_timer_without_callback_fires_silently, "S-TMR-12 S-RUN-16",
        "A NULL callback is allowed: a one-shot becomes invalid, a repeating timer is re-armed") {
    RLTimerRef once = RLTimerCreate(0, 0, 0, 0, NULL, NULL);
    RLTimerRef often = RLTimerCreate(0, 1000, 0, 0, NULL, NULL);
    RLAddTimer(RLGetCurrent(), once, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), often, "other");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert(!RLTimerIsValid(once));
    expect_run("other", 0, false, TimedOut);
    ck_assert(RLTimerIsValid(often));
    ck_assert_double_gt(RLTimerGetNextFireDate(often), RLAbsoluteTimeGetCurrent());
    RLRelease(once);
    RLRelease(often);
}

/* Tolerance and queries */

RL_TEST(tolerance_is_stored_and_limited, "S-TMR-50 S-TMR-51 S-TMR-52",
        "Tolerance starts at 0; a repeating timer keeps at most half its interval, a one-shot any "
        "value, and negatives count as 0") {
    RLTimerRef once = RLTimerCreate(FAR_FUTURE, 0, 0, 0, do_nothing, NULL);
    RLTimerRef often = RLTimerCreate(FAR_FUTURE, 10, 0, 0, do_nothing, NULL);
    ck_assert_double_eq(RLTimerGetTolerance(once), 0);
    ck_assert_double_eq(RLTimerGetTolerance(often), 0);
    RLTimerSetTolerance(once, 1e6);
    RLTimerSetTolerance(often, 4);
    ck_assert_double_eq(RLTimerGetTolerance(once), 1e6);
    ck_assert_double_eq(RLTimerGetTolerance(often), 4);
    RLTimerSetTolerance(often, 5);
    ck_assert_double_eq(RLTimerGetTolerance(often), 5);
    RLTimerSetTolerance(often, 7);
    ck_assert_double_eq(RLTimerGetTolerance(often), 5);
    RLTimerSetTolerance(often, INFINITY);
    ck_assert_double_eq(RLTimerGetTolerance(often), 5);
    RLTimerSetTolerance(once, -1);
    RLTimerSetTolerance(often, -INFINITY);
    ck_assert_double_eq(RLTimerGetTolerance(once), 0);
    ck_assert_double_eq(RLTimerGetTolerance(often), 0);
    RLRelease(once);
    RLRelease(often);
}

static void query_while_firing(Probe *self) {
    ck_assert_double_eq(RLGetNextTimerFireDate(self->loop, kRLDefaultMode), -7);
}

RL_TEST(the_next_fire_date_of_a_mode, "S-TMR-55",
        "The next date of a mode is that of its earliest timer, past or firing, or 0 without one") {
    static Probe probe = {.action = query_while_firing}, late = {0}, elsewhere = {0};
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLDefaultMode), 0);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, "missing"), 0);
    keep_alive(loop, kRLDefaultMode);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLDefaultMode), 0);
    RLAbsoluteTime far = FAR_FUTURE, other = date_in(500);
    add_timer(&late, far, 0, kRLDefaultMode);
    RLAddTimer(loop, late.timer, kRLCommonModes);
    add_timer(&elsewhere, other, 0, "other");
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLDefaultMode), far);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, "other"), other);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLCommonModes), 0);
    add_timer(&probe, -7, 0, kRLDefaultMode);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLDefaultMode), -7);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(probe.calls, 1);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, kRLDefaultMode), far);
    ck_assert_double_eq(RLGetNextTimerFireDate(loop, "missing"), 0);
}

RL_TEST(the_next_fire_date_goes_by_the_instant, "S-TMR-55 S-TMR-22",
        "Of two timers with past dates the one created first has the earlier instant and is told") {
    static Probe first = {0}, second = {0};
    add_timer(&first, -10, 0, kRLDefaultMode);
    add_timer(&second, -20, 0, kRLDefaultMode);
    ck_assert_double_eq(RLGetNextTimerFireDate(first.loop, kRLDefaultMode), -10);
}
