/* SPDX-License-Identifier: MIT */
/*
 * RLTimerSetNextFireDate. The probes are static, because what is left in a loop outlives the case
 * that put it there.
 */
#include "support.h"

#include <math.h>

RL_TEST(a_date_is_set_in_no_loop, "S-TMR-36",
        "A date set on a timer that is in no loop holds when the timer is added") {
    static Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
    RLTimerSetNextFireDate(timer, -3);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), -3);
    RLAddTimer(probe.loop, timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t");
    RLRelease(timer);
}

RL_TEST(a_date_may_be_set_back_and_forth, "S-TMR-36 S-PASS-16",
        "A due timer that was postponed does not fire, and one that was brought forward does") {
    static Probe forward = {.name = "forward"}, back = {.name = "back"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&back, date_in(0.02), 0, kRLDefaultMode);
    add_timer(&forward, FAR_FUTURE, 0, kRLDefaultMode);
    RLTimerSetNextFireDate(back.timer, FAR_FUTURE);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLTimerSetNextFireDate(forward.timer, date_in(0.01));
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    expect_trace("E BT BS BW AW forward BT BS BW AW X");
}

RL_TEST(an_invalid_timer_takes_no_date, "S-TMR-37",
        "Setting a date on an invalid timer does nothing") {
    static Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 10);
    RLTimerInvalidate(timer);
    RLTimerSetNextFireDate(timer, 0);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    RLTimerSetNextFireDate(timer, 777);
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    RLAddTimer(probe.loop, timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, Finished);
    RLRelease(timer);
}

static void set_own_date(Probe *self) {
    if (self->calls <= (int)self->value)
        RLTimerSetNextFireDate(self->timer, *(RLAbsoluteTime *)self->data);
}

RL_TEST(a_later_date_replaces_the_re_arm, "S-TMR-38",
        "A later date set inside the callback takes the place of the normal re-arm") {
    static RLAbsoluteTime later;
    static Probe probe = {.name = "t", .action = set_own_date, .data = &later, .value = 1};
    later = date_in(5000);
    RLTimerRef timer = add_timer(&probe, 0, 0.001, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("t");
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), later);
}

RL_TEST(a_past_date_fires_in_the_next_pass, "S-TMR-38",
        "A past date set inside the callback counts as now and fires again in the next pass") {
    static RLAbsoluteTime past = -9;
    static Probe probe = {.name = "t", .action = set_own_date, .data = &past, .value = 2};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&probe, 0, 1000, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    expect_trace("E BT BS BW AW t BT BS BW AW t BT BS BW AW t BT BS BW AW X");
}

RL_TEST(a_nan_date_in_the_callback_stops_the_timer, "S-TMR-38 S-TMR-8",
        "A NaN date set inside the callback ends the fires, but the timer stays valid") {
    static RLAbsoluteTime nan_date = NAN;
    static Probe probe = {.name = "t", .action = set_own_date, .data = &nan_date, .value = 1};
    RLTimerRef timer = add_timer(&probe, 0, 1000, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("t");
    ck_assert(RLTimerIsValid(timer));
}

RL_TEST(a_new_date_starts_a_new_grid, "S-TMR-39",
        "After a date was set the dates are whole intervals after that date") {
    static Probe probe = {.name = "t"};
    const RLTimeInterval interval = 0.01;
    RLTimerRef timer = add_timer(&probe, date_in(1000.0037), interval, kRLDefaultMode);
    /* Still to come when it is set, however slow the processor: the grid of a past date begins elsewhere (S-TMR-31). */
    RLAbsoluteTime start = date_in(0.2051);
    RLTimerSetNextFireDate(timer, start);
    while (probe.calls < 3) expect_run(kRLDefaultMode, 0.005, false, TimedOut);
    double intervals = (RLTimerGetNextFireDate(timer) - start) / interval;
    double whole = (double)(long long)(intervals + 0.5);
    ck_assert_double_ge(whole, 3);
    ck_assert_double_lt(fabs(RLTimerGetNextFireDate(timer) - (start + whole * interval)), 5e-6);
}

RL_TEST(a_one_shot_cannot_be_prolonged, "S-TMR-40",
        "A date set inside a one-shot's callback has no effect: the timer is invalidated") {
    static RLAbsoluteTime past = -9;
    static Probe probe = {.name = "t", .action = set_own_date, .data = &past, .value = 1};
    RLTimerRef timer = add_timer(&probe, 0, 0, kRLDefaultMode);
    RLRetain(timer);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t");
    ck_assert(!RLTimerIsValid(timer));
    ck_assert_double_eq(RLTimerGetNextFireDate(timer), 0);
    RLRelease(timer);
}

static void make_due(void *timer) { RLTimerSetNextFireDate(timer, -1); }
static void stop_loop(Probe *self) { RLStop(self->loop); }

RL_TEST(a_waiting_loop_obeys_a_new_date, "S-TMR-41 S-WAKE-14",
        "A date set from another thread takes effect on a waiting loop without WakeUp") {
    static Probe probe = {.name = "t", .action = stop_loop};
    add_timer(&probe, FAR_FUTURE, 10, kRLDefaultMode);
    Thread *thread = when_waiting(probe.loop, make_due, probe.timer);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    thread_join(thread);
    expect_trace("t");
}

static void make_far(void *timer) { RLTimerSetNextFireDate(timer, FAR_FUTURE); }

RL_TEST(a_waiting_loop_obeys_a_postponement, "S-TMR-41 S-TMR-36",
        "A timer that another thread postpones while the loop waits for it does not fire") {
    static Probe probe = {.name = "t"};
    add_timer(&probe, date_in(0.5), 10, kRLDefaultMode);
    Thread *thread = when_waiting(probe.loop, make_far, probe.timer);
    expect_run(kRLDefaultMode, 0.8, false, TimedOut);
    thread_join(thread);
    ck_assert_int_eq(probe.calls, 0);
}
