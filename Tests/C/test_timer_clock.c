/* SPDX-License-Identifier: MIT */
/*
 * Timers under a clock the test moves: instants, grids, lateness of centuries and tolerance.
 * Nothing here waits, and the numbers are exact. The probes are static, because what is left in a
 * loop outlives the case that put it there.
 */
#include "support.h"
#include "virtual_clock.h"

#include <math.h>

#define LIMIT_INTERVAL 504911232.0
#define LIMIT_DATE 4039289856.0

#define RL_CLOCK_TEST(name, rules, sentence)                                                  \
    static void name##_under_clock(void);                                                     \
    RL_MAIN_TEST(name, rules, sentence) {                                                     \
        virtual_clock_start();                                                                \
        name##_under_clock();                                                                 \
        virtual_clock_stop();                                                                 \
    }                                                                                         \
    static void name##_under_clock(void)

static void poll_once(void) { expect_run(kRLDefaultMode, 0, false, TimedOut); }

RL_CLOCK_TEST(the_instant_is_monotonic, "S-TMR-9 S-TMR-10 S-TMR-20",
              "The instant of a timer is fixed when it is made: setting the wall clock moves it "
              "not") {
    static Probe probe = {.name = "t"};
    add_timer(&probe, date_in(10), 0, kRLDefaultMode);
    virtual_clock_set_wall(1000);
    poll_once();
    virtual_clock_advance(9.999);
    poll_once();
    expect_trace("");
    virtual_clock_set_wall(-5000);
    virtual_clock_advance(0.0011);
    poll_once();
    expect_trace("t");
}

RL_CLOCK_TEST(a_repeating_timer_ignores_the_wall_clock, "S-TMR-10",
              "A change of the wall clock does not move the later fires of a repeating timer") {
    static Probe probe = {.name = "t"};
    add_timer(&probe, date_in(10), 10, kRLDefaultMode);
    virtual_clock_advance(10);
    virtual_clock_advance(1e-6);
    poll_once();
    expect_trace("t");
    virtual_clock_set_wall(86400);
    virtual_clock_advance(9.9);
    poll_once();
    expect_trace("");
    virtual_clock_set_wall(-2 * 86400);
    virtual_clock_advance(0.1);
    poll_once();
    expect_trace("t");
}

RL_CLOCK_TEST(a_date_set_after_a_wall_change_uses_the_new_wall, "S-TMR-9 S-TMR-36",
              "A date is turned into an instant with the wall clock of that moment") {
    static Probe set = {.name = "set"}, made = {.name = "made"};
    add_timer(&set, FAR_FUTURE, 0, kRLDefaultMode);
    poll_once();
    virtual_clock_set_wall(1000);
    RLTimerSetNextFireDate(set.timer, date_in(10));
    add_timer(&made, date_in(10), 0, kRLDefaultMode);
    virtual_clock_advance(9.999);
    poll_once();
    expect_trace("");
    virtual_clock_advance(0.0011);
    poll_once();
    expect_trace("set made");
}

/* Of machines without a clock of their own, until they are told the time. */
RL_CLOCK_TEST(a_wall_clock_before_2001, "S-TMR-9 S-TMR-7 S-TMR-20",
              "While the wall clock shows the year 1970, when all dates are negative, a timer is due at its date, and only "
              "a past date is due at once") {
    static Probe once = {.name = "once"}, repeating = {.name = "repeating"}, past = {.name = "past"};
    virtual_clock_set_wall(-978307200.0 - RLAbsoluteTimeGetCurrent() + 60);
    ck_assert_double_lt(RLAbsoluteTimeGetCurrent(), -978307100.0);
    add_timer(&once, date_in(10), 0, kRLDefaultMode);
    add_timer(&repeating, date_in(5), 7, kRLDefaultMode);
    add_timer(&past, date_in(-0.001), 0, kRLDefaultMode);
    virtual_clock_advance(1e-6);
    poll_once();
    expect_trace("past");
    virtual_clock_advance(5);
    poll_once();
    expect_trace("repeating");
    RLTimerSetNextFireDate(repeating.timer, date_in(6));
    virtual_clock_advance(5);
    poll_once();
    expect_trace("once");
    virtual_clock_advance(1.001);
    poll_once();
    expect_trace("repeating");
}

RL_CLOCK_TEST(an_instant_is_limited, "S-TMR-9 S-TMR-6",
              "A date further away than the limit of intervals fires after that limit") {
    static Probe far = {.name = "far"}, infinite = {.name = "infinite"};
    add_timer(&far, LIMIT_DATE, 0, kRLDefaultMode);
    add_timer(&infinite, INFINITY, 0, kRLDefaultMode);
    virtual_clock_advance(LIMIT_INTERVAL - 1);
    poll_once();
    expect_trace("");
    virtual_clock_advance(2);
    poll_once();
    expect_trace("far infinite");
}

RL_CLOCK_TEST(a_long_interval_is_limited, "S-TMR-5",
              "A timer with an interval above the limit is re-armed by the limit") {
    static Probe probe = {.name = "t"}, infinite = {.name = "i"};
    RLAbsoluteTime start = RLAbsoluteTimeGetCurrent();
    add_timer(&probe, 0, 1e18, kRLDefaultMode);
    add_timer(&infinite, 0, INFINITY, kRLDefaultMode);
    /* The second may have been given the next nanosecond (S-TMR-22). */
    virtual_clock_advance(1e-6);
    poll_once();
    expect_trace("t i");
    ck_assert_double_lt(fabs(RLTimerGetNextFireDate(probe.timer) - (start + LIMIT_INTERVAL)), 1e-5);
    virtual_clock_advance(LIMIT_INTERVAL - 1);
    poll_once();
    expect_trace("");
    virtual_clock_advance(2);
    poll_once();
    expect_trace("t i");
}

static void check_nanosecond(RLTimeInterval interval) {
    static Probe probe = {.name = "t"};
    RLTimerRef timer = add_timer(&probe, 0, interval, kRLDefaultMode);
    ck_assert(RLTimerDoesRepeat(timer));
    for (int i = 0; i < 5; i++) {
        poll_once();
        expect_trace("t");
        ck_assert(RLTimerIsValid(timer));
        /* Nothing is due until the clock has moved by the nanosecond. */
        virtual_clock_advance(1.5e-9);
        ck_assert_double_ge(RLTimerGetNextFireDate(timer), date_in(-1e-6));
    }
    RLTimerInvalidate(timer);
}

RL_CLOCK_TEST(an_interval_below_a_nanosecond_is_one, "S-TMR-4 S-TMR-29",
              "Intervals between 0 and a nanosecond count as a nanosecond") {
    check_nanosecond(1e-9);
    check_nanosecond(0.9e-9);
    check_nanosecond(1e-12);
    check_nanosecond(5e-324);
}

RL_CLOCK_TEST(equal_instants_fire_in_order_of_addition, "S-TMR-21",
              "Timers of one instant fire in the order in which they were put into the mode") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    const int added[] = {2, 0, 1};
    RLAbsoluteTime date = date_in(10);
    for (int i = 0; i < 3; i++) probe_timer(&probes[i], date, 0);
    for (int i = 0; i < 3; i++) {
        RLAddTimer(RLGetCurrent(), probes[added[i]].timer, kRLDefaultMode);
        RLRelease(probes[added[i]].timer);
    }
    virtual_clock_advance(11);
    poll_once();
    expect_trace("c a b");
}

RL_CLOCK_TEST(past_dates_of_one_reading_keep_their_order, "S-TMR-22",
              "While the clock stands still timers with past dates fire in the order of creation") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    const int added[] = {2, 3, 0, 1};
    for (int i = 0; i < 4; i++) probe_timer(&probes[i], -i, 0);
    RLTimerSetNextFireDate(probes[0].timer, -1000);
    for (int i = 0; i < 4; i++) {
        RLAddTimer(RLGetCurrent(), probes[added[i]].timer, kRLDefaultMode);
        RLRelease(probes[added[i]].timer);
    }
    virtual_clock_advance(1e-6);
    poll_once();
    expect_trace("b c d a");
}

RL_CLOCK_TEST(missed_instants_are_dropped_exactly, "S-TMR-29 S-TMR-30 S-TMR-33",
              "The next instant is the first of the grid that is later than now") {
    static Probe probe = {.name = "t"};
    RLAbsoluteTime start = date_in(10);
    add_timer(&probe, start, 10, kRLDefaultMode);
    const double late[] = {0.5, 9.5, 10.5, 35, 1000.25, 123456.75};
    double elapsed = 10, expected = 0;
    virtual_clock_advance(10);
    for (int i = 0; i < 6; i++) {
        virtual_clock_advance(late[i]);
        elapsed += late[i];
        poll_once();
        expect_trace("t");
        expected = start - 10 + (floor(elapsed / 10) + 1) * 10;
        ck_assert_double_lt(fabs(RLTimerGetNextFireDate(probe.timer) - expected), 5e-6);
        poll_once();
        expect_trace("");
        virtual_clock_advance(10 - fmod(elapsed, 10));
        elapsed += 10 - fmod(elapsed, 10);
    }
}

RL_CLOCK_TEST(an_instant_of_the_grid_that_is_now_is_not_later, "S-TMR-29",
              "A timer served exactly one interval late is re-armed for the instant after that") {
    static Probe probe = {.name = "t"};
    RLAbsoluteTime before = RLAbsoluteTimeGetCurrent();
    add_timer(&probe, 0, 8, kRLDefaultMode);
    virtual_clock_advance(8);
    virtual_clock_advance(1e-6);
    poll_once();
    expect_trace("t");
    ck_assert_double_lt(fabs(RLTimerGetNextFireDate(probe.timer) - (before + 16)), 5e-6);
    poll_once();
    expect_trace("");
}

RL_CLOCK_TEST(re_arming_takes_constant_time, "S-TMR-32 S-TMR-29",
              "A timer of one nanosecond that is fifteen years late is re-armed in one step") {
    static Probe probe = {.name = "t"}, other = {.name = "u"};
    RLTimerRef tiny = add_timer(&probe, date_in(1), 1e-9, kRLDefaultMode);
    RLTimerRef odd = add_timer(&other, date_in(1), 0.37, kRLDefaultMode);
    RLAbsoluteTime start = RLTimerGetNextFireDate(odd);
    virtual_clock_advance(480000000);
    poll_once();
    ck_assert_int_eq(probe.calls, 1);
    ck_assert_int_eq(other.calls, 1);
    RLAbsoluteTime now = RLAbsoluteTimeGetCurrent(), next = RLTimerGetNextFireDate(odd);
    ck_assert_double_ge(RLTimerGetNextFireDate(tiny), now - 1e-5);
    ck_assert_double_lt(RLTimerGetNextFireDate(tiny), now + 1e-5);
    ck_assert_double_gt(next, now - 1e-5);
    ck_assert_double_lt(next, now + 0.37 + 1e-5);
    double intervals = (next - start) / 0.37;
    ck_assert_double_lt(fabs(intervals - floor(intervals + 0.5)) * 0.37, 1e-3);
}

RL_CLOCK_TEST(no_drift_in_ten_thousand_fires, "S-TMR-33",
              "After n fires the date is the start and n intervals within a few microseconds") {
    static Probe probe = {.name = NULL};
    RLAbsoluteTime start = date_in(0.1);
    add_timer(&probe, start, 0.1, kRLDefaultMode);
    while (probe.calls < 10000) {
        expect_run(kRLDefaultMode, 100.05, false, TimedOut);
        RLAbsoluteTime expected = start + probe.calls * 0.1;
        ck_assert_double_lt(fabs(RLTimerGetNextFireDate(probe.timer) - expected), 5e-6);
    }
}

/* Tolerance */

static void note_elapsed(Probe *self) {
    *(int64_t *)self->data = virtual_clock_elapsed();
}

RL_CLOCK_TEST(a_tolerant_timer_fires_in_its_window, "S-TMR-53 S-TMR-20",
              "An idle loop fires a timer with tolerance d between its date and d later") {
    static int64_t fired;
    static Probe probe = {.name = "t", .action = note_elapsed, .data = &fired};
    add_timer(&probe, date_in(10), 0, kRLDefaultMode);
    RLTimerSetTolerance(probe.timer, 5);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t");
    ck_assert_int_ge(fired, 9999999000);
    ck_assert_int_le(fired, 15000001000);
}

RL_CLOCK_TEST(without_tolerance_the_loop_sleeps_to_the_date, "S-TMR-53 S-TMR-20",
              "A timer without tolerance fires at its date when the loop is idle") {
    static int64_t fired;
    static Probe probe = {.name = "t", .action = note_elapsed, .data = &fired};
    add_timer(&probe, date_in(10), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_ge(fired, 9999999000);
    ck_assert_int_le(fired, 10000001000);
}

RL_CLOCK_TEST(a_wake_for_one_timer_fires_all_that_are_due, "S-TMR-53 S-TMR-21",
              "When the loop wakes for a timer it also fires a tolerant one whose date has "
              "passed") {
    static int64_t tolerant_fired, strict_fired;
    static Probe tolerant = {.name = "tolerant", .action = note_elapsed, .data = &tolerant_fired};
    static Probe strict = {.name = "strict", .action = note_elapsed, .data = &strict_fired};
    add_timer(&tolerant, date_in(10), 0, kRLDefaultMode);
    add_timer(&strict, date_in(12), 0, kRLDefaultMode);
    RLTimerSetTolerance(tolerant.timer, 5);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("tolerant strict");
    ck_assert_int_ge(tolerant_fired, 9999999000);
    ck_assert_int_ge(strict_fired, 11999999000);
    ck_assert_int_le(strict_fired, 12000001000);
}

RL_CLOCK_TEST(the_tightest_window_ends_the_sleep, "S-TMR-53",
              "A later timer with a small tolerance is not held up by an earlier one with a "
              "large one") {
    static int64_t loose_fired, tight_fired;
    static Probe loose = {.name = "loose", .action = note_elapsed, .data = &loose_fired};
    static Probe tight = {.name = "tight", .action = note_elapsed, .data = &tight_fired};
    add_timer(&loose, date_in(10), 0, kRLDefaultMode);
    add_timer(&tight, date_in(11), 0, kRLDefaultMode);
    RLTimerSetTolerance(loose.timer, 1000);
    RLTimerSetTolerance(tight.timer, 1);
    expect_run(kRLDefaultMode, 2000, false, Finished);
    expect_trace("loose tight");
    ck_assert_int_ge(loose_fired, 9999999000);
    ck_assert_int_ge(tight_fired, 10999999000);
    ck_assert_int_le(tight_fired, 12000001000);
}

RL_CLOCK_TEST(tolerance_does_not_shift_the_grid, "S-TMR-54 S-TMR-53",
              "The dates of a repeating timer with tolerance stay whole intervals after its "
              "start") {
    static int64_t fired;
    static Probe probe = {.name = "t", .action = note_elapsed, .data = &fired};
    RLAbsoluteTime start = date_in(10);
    add_timer(&probe, start, 10, kRLDefaultMode);
    RLTimerSetTolerance(probe.timer, 4);
    for (int i = 0; i < 20; i++) {
        int64_t due = (i + 1) * 10000000000;
        while (probe.calls == i) expect_run(kRLDefaultMode, 1, false, TimedOut);
        ck_assert_int_ge(fired, due - 1000);
        ck_assert_int_le(fired, due + 4000001000);
        RLAbsoluteTime next = RLTimerGetNextFireDate(probe.timer);
        ck_assert_double_lt(fabs(next - (start + (i + 1) * 10.0)), 5e-6);
    }
}
