/* SPDX-License-Identifier: MIT */
/* Deadlines of runs (section 3.3) under a clock the test moves, where the numbers are exact. */
#include "support.h"
#include "virtual_clock.h"

#include <math.h>

#define LIMIT_INTERVAL 504911232.0

#define RL_CLOCK_TEST(name, rules, sentence)                                                  \
    static void name##_under_clock(void);                                                     \
    RL_MAIN_TEST(name, rules, sentence) {                                                     \
        virtual_clock_start();                                                                \
        name##_under_clock();                                                                 \
        virtual_clock_stop();                                                                 \
    }                                                                                         \
    static void name##_under_clock(void)

static double elapsed(void) { return (double)virtual_clock_elapsed() * 1e-9; }

/* Equal but for the rounding of so many seconds to a double. */
#define expect_elapsed(seconds) ck_assert_double_eq_tol(elapsed(), seconds, 2e-7)

static void advance(Probe *self) { virtual_clock_advance((double)self->value); }

static void advance_once(Probe *self) {
    if (self->calls == 1) virtual_clock_advance((double)self->value);
}

RL_CLOCK_TEST(deadline_is_exact, "S-RUN-18 S-RUN-21",
              "A run ends exactly t after its Entry observers returned, however long these took") {
    static Probe observer = {.action = advance_once, .value = 10}, port = {0};
    static const double times[] = {0.000001, 0.25, 3600, 1e6, 1e8};
    double expected = 10;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    for (int i = 0; i < 10; i++) {
        if (i == 5) add_port(&port, make_eventfd(), kRLDefaultMode);
        expect_run(kRLDefaultMode, times[i % 5], false, TimedOut);
        expected += times[i % 5];
        expect_elapsed(expected);
    }
}

RL_CLOCK_TEST(longest_deadline, "S-RUN-18",
              "A time of LIMIT_INTERVAL is a deadline: the run ends after sixteen years") {
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, LIMIT_INTERVAL, false, TimedOut);
    expect_elapsed(LIMIT_INTERVAL);
    expect_trace("E BT BS BW AW X");
}

static void stop_the_third_time(Probe *self) {
    if (self->calls == 3) RLStop(self->loop);
}

RL_CLOCK_TEST(no_deadline_beyond_the_limit, "S-RUN-19",
              "A time just above LIMIT_INTERVAL is no deadline: the run lasts longer than it") {
    static Probe timer = {.name = "t", .action = stop_the_third_time};
    double interval = LIMIT_INTERVAL * 0.75;
    add_timer(&timer, date_in(interval), interval, kRLDefaultMode);
    expect_run(kRLDefaultMode, nextafter(LIMIT_INTERVAL, INFINITY), false, Stopped);
    expect_trace("t t t");
    ck_assert_double_gt(elapsed(), 2 * LIMIT_INTERVAL);
}

RL_CLOCK_TEST(events_leave_the_deadline_where_it_is, "S-RUN-23",
              "A timer that fires every second of an hour leaves the end of the run where it was") {
    static Probe timer = {0};
    add_timer(&timer, date_in(0.5), 1, kRLDefaultMode);
    expect_run(kRLDefaultMode, 3600, false, TimedOut);
    expect_elapsed(3600);
    ck_assert_int_eq(timer.calls, 3600);
}

RL_CLOCK_TEST(deadline_passes_in_a_callback, "S-RUN-22 S-RUN-9",
              "A run whose deadline passes in a timer ends with that pass, and no sooner") {
    static Probe timer = {.name = "t", .action = advance, .value = 60};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&timer, date_in(1), 1000, kRLDefaultMode);
    expect_run(kRLDefaultMode, 30, false, TimedOut);
    expect_elapsed(61);
    expect_trace("E BT BS BW AW t X");
}

static void run_inner_once(Probe *self) {
    if (self->calls == 1) expect_run("inner", 60, false, TimedOut);
}

RL_CLOCK_TEST(outer_run_sleeps_no_moment_past_its_deadline, "S-RUN-24",
              "An outer run whose deadline passed in a nested run does not sleep at all") {
    static const RLActivity moments[] = {kRLBeforeTimers, kRLBeforeSources, kRLBeforeWaiting};
    keep_alive(RLGetCurrent(), "inner");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 3; i++) {
        static Probe observers[3];
        observers[i].action = run_inner_once;
        add_observer(&observers[i], moments[i], kRLDefaultMode);
        expect_run(kRLDefaultMode, 10, false, TimedOut);
        expect_elapsed(60.0 * (i + 1));
        RLObserverInvalidate(observers[i].observer);
    }
}

RL_CLOCK_TEST(outer_run_sleeps_until_its_own_deadline, "S-RUN-24 S-NEST-2",
              "An outer run whose deadline did not pass in a nested run sleeps exactly until it") {
    static Probe observer = {.action = run_inner_once};
    keep_alive(RLGetCurrent(), "inner");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    expect_run(kRLDefaultMode, 100, false, TimedOut);
    expect_elapsed(100);
}

static void set_wall_clock(Probe *self) { virtual_clock_set_wall((double)self->value); }

RL_CLOCK_TEST(wall_clock_and_deadline, "S-RUN-25",
              "Setting the wall clock forward or back by a day moves the end of the run not at "
              "all") {
    static Probe observer = {.action = set_wall_clock};
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&observer, kRLBeforeTimers, kRLDefaultMode);
    for (int i = 1; i <= 4; i++) {
        observer.value = (i % 2 ? 1 : -1) * 86400L;
        expect_run(kRLDefaultMode, 10, false, TimedOut);
        expect_elapsed(10.0 * i);
    }
}

RL_CLOCK_TEST(dropped_timer_and_sleep, "S-PASS-16",
              "A timer that was removed, invalidated or postponed before the wait does not split "
              "the sleep until the deadline") {
    static Probe timers[3];
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int i = 0; i < 3; i++)
        RLAddTimer(loop, probe_timer(&timers[i], date_in(10 + i), 0), kRLDefaultMode);
    RLRemoveTimer(loop, timers[0].timer, kRLDefaultMode);
    RLTimerInvalidate(timers[1].timer);
    RLTimerSetNextFireDate(timers[2].timer, date_in(1000));
    expect_run(kRLDefaultMode, 100, false, TimedOut);
    expect_elapsed(100);
    expect_trace("E BT BS BW AW X");
}
