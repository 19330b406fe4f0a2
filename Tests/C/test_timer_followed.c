/* SPDX-License-Identifier: MIT */
/*
 * Timers that go by the wall clock or the boot clock, in loops with a clock that the program moves: nothing here waits for time, and
 * the instants are exact. The probes are static, because what is left in a loop outlives the case that put it there.
 */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static RLClockRef clock_of_loop;
static RLAbsoluteTime start;

static void use_clock(void) {
    clock_of_loop = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    start = RLClockGetTime(clock_of_loop);
}

static void call_probe(RLTimerRef timer, void *info) {
    Probe *probe = info;
    (void)timer;
    __atomic_add_fetch(&probe->calls, 1, __ATOMIC_SEQ_CST);
    if (probe->name) trace("%s", probe->name);
    if (probe->action) probe->action(probe);
}

static RLTimerRef make_by(RLTimerClock clock, Probe *probe, RLAbsoluteTime date, RLTimeInterval interval) {
    RLTimerContext context = {0, probe, NULL, NULL, NULL};
    probe->loop = RLGetCurrent();
    probe->timer = RLTimerCreateWithClock(clock, date, interval, call_probe, &context);
    return probe->timer;
}

/* The loop has the only reference. */
static RLTimerRef add_by(RLTimerClock clock, Probe *probe, RLAbsoluteTime date, RLTimeInterval interval) {
    RLTimerRef timer = make_by(clock, probe, date, interval);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    return timer;
}

static void pass(void) { RLClockAdvance(clock_of_loop, 0); }
static void set_clock_by(double seconds) { RLClockSetWallTime(clock_of_loop, RLClockGetTime(clock_of_loop) + seconds); }

RL_TEST(the_wall_clock_is_followed_forward, "S-TMR-59 S-TMR-63", "A timer by the wall clock is due at once when that is set past its date") {
    use_clock();
    static Probe wall = {.name = "wall"}, other = {.name = "other"};
    add_by(kRLTimerClockWall, &wall, start + 3600, 0);
    add_timer(&other, start + 3600, 0, kRLDefaultMode);
    set_clock_by(3599.999999);
    pass();
    expect_trace("");
    set_clock_by(0.000001);
    expect_trace("");
    pass();
    expect_trace("wall");
    RLClockAdvance(clock_of_loop, 3599.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("other");
    RLRelease(clock_of_loop);
}

RL_TEST(the_wall_clock_is_followed_back, "S-TMR-59 S-TMR-63", "Set back, the wall clock makes its timers wait for their dates again") {
    use_clock();
    static Probe wall = {.name = "wall"};
    RLTimerRef timer = add_by(kRLTimerClockWall, &wall, start + 10, 0);
    RLClockAdvance(clock_of_loop, 9);
    set_clock_by(-3600);
    ck_assert(RLTimerGetNextFireDate(timer) == start + 10);
    RLClockAdvance(clock_of_loop, 3600.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("wall");
    RLRelease(clock_of_loop);
}

RL_TEST(due_at_once_whatever_the_clock_shows, "S-TMR-59 S-TMR-7 S-TMR-56", "A timer whose date is before all others, or that is due now, fires in the next pass, also if the clock is set back before that") {
    use_clock();
    static Probe wall = {.name = "wall"};
    for (int i = 0; i < 3; i++) {
        RLTimerRef timer = add_by(kRLTimerClockWall, &wall, (RLAbsoluteTime[]){-INFINITY, -1e9, start + 10}[i], 0);
        if (i == 2) RLTimerSetNextFireDelay(timer, 0);
        set_clock_by(-3600);
        pass();
        expect_trace("wall");
    }
    RLRelease(clock_of_loop);
}

RL_TEST(the_earliest_dates_fire_first, "S-TMR-59", "Set forward, the wall clock makes timers fire by their dates, also those whose dates no clock shows") {
    use_clock();
    static Probe first = {.name = "first"}, past = {.name = "past"}, next = {.name = "next"};
    add_by(kRLTimerClockWall, &past, start - 5000, 0);
    add_by(kRLTimerClockWall, &first, -INFINITY, 0);
    add_by(kRLTimerClockWall, &next, start + 100, 0);
    set_clock_by(50000);
    pass();
    expect_trace("first past next");
    RLRelease(clock_of_loop);
}

static double moved_by;
static void set_own_date_and_clock(Probe *self) {
    if (self->calls > 1) return;
    RLAbsoluteTime date = RLClockGetTime(clock_of_loop) + 48;
    RLTimerSetNextFireDate(self->timer, date);
    set_clock_by(36);
    moved_by = RLClockAdvanceToNext(clock_of_loop) ? RLClockGetTime(clock_of_loop) - date : NAN;
}

RL_TEST(the_own_date_of_a_timer, "S-TMR-63 S-CLK-8 S-TMR-40",
        "Setting the clock gives a timer that is being called the new instant of the date that it has set; one that fires once has none") {
    for (int repeats = 0; repeats < 2; repeats++) {
        use_clock();
        Probe own = {.action = set_own_date_and_clock}, far = {0};
        RLTimerRef timer = add_by(kRLTimerClockWall, &own, start, repeats ? 1000 : 0);
        RLTimerRef other = add_by(kRLTimerClockMonotonic, &far, start + 500, 0);
        /* It has its turn after the other. */
        Probe behind = {0};
        if (repeats) add_by(kRLTimerClockWall, &behind, start, 0);
        pass();
        ck_assert(fabs(moved_by - (repeats ? 0 : 488)) < 1e-5);
        if (repeats) {
            RLTimerInvalidate(timer);
            RLTimerInvalidate(other);
        }
        RLSetClock(RLGetCurrent(), NULL);
        RLRelease(clock_of_loop);
    }
}

static void set_clock_back(Probe *self) {
    if (self->calls == 1) set_clock_by(-100);
}

RL_TEST(a_batch_looks_at_the_clock_again, "S-TMR-59 S-TMR-23", "A callback that sets the clock back keeps the later timers of its batch from firing early") {
    use_clock();
    static Probe first = {.name = "first", .action = set_clock_back}, second = {.name = "second"};
    add_timer(&first, start + 10, 0, kRLDefaultMode);
    add_by(kRLTimerClockWall, &second, start + 10, 0);
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("first");
    RLClockAdvance(clock_of_loop, 99.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("second");
    RLRelease(clock_of_loop);
}

RL_TEST(the_dates_of_a_repeating_timer, "S-TMR-59 S-TMR-29",
        "A timer by the wall clock fires at date + k * interval of that clock, once for all that a step left out, and for none twice") {
    use_clock();
    static Probe hourly = {.name = "hour"};
    /* Half past, so to speak, and the first date is past. */
    RLTimerRef timer = add_by(kRLTimerClockWall, &hourly, start - 1800, 3600);
    pass();
    expect_trace("hour");
    ck_assert_double_eq_tol(RLTimerGetNextFireDate(timer), start + 1800, 1e-6);
    RLClockAdvance(clock_of_loop, 1800);
    expect_trace("hour");
    set_clock_by(36000);
    pass();
    expect_trace("hour");
    ck_assert_double_eq_tol(RLTimerGetNextFireDate(timer), start + 1800 + 11 * 3600, 1e-6);
    /* The time from 1800 to 36000 comes a second time. */
    set_clock_by(-36000);
    RLClockAdvance(clock_of_loop, 36000 + 3599.999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.001);
    expect_trace("hour");
    RLTimerInvalidate(timer);
    RLRelease(clock_of_loop);
}

RL_TEST(many_steps_do_not_move_the_grid, "S-TMR-59 S-TMR-33", "After thousands of fires and steps the dates are those of the grid") {
    use_clock();
    static Probe probe;
    RLTimerRef timer = add_by(kRLTimerClockWall, &probe, start + 1.0 / 3, 1.0 / 3);
    for (int i = 1; i <= 3000; i++) {
        set_clock_by(i % 2 ? 0.123457 : -0.123457);
        RLClockAdvance(clock_of_loop, i % 2 ? 1.0 / 3 - 0.123457 : 1.0 / 3 + 0.123457);
    }
    ck_assert_int_ge(probe.calls, 2999);
    double steps = (RLTimerGetNextFireDate(timer) - start) * 3;
    ck_assert_double_eq_tol(steps, round(steps), 1e-5);
    RLTimerInvalidate(timer);
    RLRelease(clock_of_loop);
}

RL_TEST(timers_with_one_date_keep_their_order, "S-TMR-59 S-TMR-21",
        "Set, the wall clock changes neither the order of timers with one date nor that of timers with several") {
    use_clock();
    static Probe first = {.name = "0"}, a = {.name = "a"}, b = {.name = "b"}, other = {.name = "c"}, d = {.name = "d"};
    for (int due_at_once = 0; due_at_once < 2; due_at_once++) {
        start = RLClockGetTime(clock_of_loop);
        RLTimerRef hole = add_by(kRLTimerClockWall, &first, start + 1000, 0);
        add_by(kRLTimerClockWall, &d, start + 1000.5, 0);
        add_by(kRLTimerClockWall, &a, start + 1000, 0);
        RLTimerInvalidate(hole);
        add_by(kRLTimerClockWall, &b, start + 1000, 0);
        set_clock_by(1);
        set_clock_by(-1);
        add_timer(&other, start + 1000, 0, kRLDefaultMode);
        if (due_at_once) set_clock_by(2000);
        RLClockAdvance(clock_of_loop, 2000);
        expect_trace(due_at_once ? "a b d c" : "a b c d");
    }
    RLRelease(clock_of_loop);
}

RL_TEST(the_clock_is_set_twice_before_a_pass, "S-TMR-59", "Set forward in two steps before a pass, the wall clock makes timers fire by their dates") {
    use_clock();
    static Probe a = {.name = "a"}, b = {.name = "b"};
    add_by(kRLTimerClockWall, &a, start + 50, 0);
    add_by(kRLTimerClockWall, &b, start + 100, 0);
    set_clock_by(60);
    set_clock_by(1000);
    pass();
    expect_trace("a b");
    RLRelease(clock_of_loop);
}

RL_TEST(a_date_of_1970_in_a_far_year, "S-TMR-59 S-CLK-11", "From 1970 a timer goes on to the next date in the last year that a clock shows") {
    use_clock();
    static Probe probe = {.name = "t"};
    RLClockSetWallTime(clock_of_loop, 4039289855.0);
    RLClockSuspend(clock_of_loop, 504911232);
    for (int i = 0; i < 9; i++) RLClockAdvance(clock_of_loop, 504911232);
    RLAbsoluteTime now = RLClockGetTime(clock_of_loop);
    for (int i = 0; i < 2; i++) {
        static const RLTimeInterval intervals[] = {1000, 504911232};
        RLTimerRef timer = add_by(kRLTimerClockWall, &probe, -978307199.0, intervals[i]);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        expect_trace("t");
        double dates = (RLTimerGetNextFireDate(timer) + 978307199.0) / intervals[i];
        ck_assert(RLTimerGetNextFireDate(timer) > now && RLTimerGetNextFireDate(timer) <= now + intervals[i]);
        ck_assert_double_eq_tol(dates, round(dates), 1e-5);
        RLTimerInvalidate(timer);
    }
    RLRelease(clock_of_loop);
}

RL_TEST(the_boot_clock_counts_suspension, "S-TMR-60 S-TMR-63", "A suspension brings a timer by the boot clock nearer, setting the clock does not") {
    use_clock();
    static Probe boot = {.name = "boot"}, other = {.name = "other"}, wall = {.name = "wall"};
    RLTimerRef timer = add_by(kRLTimerClockBoot, &boot, start + 100, 0);
    add_by(kRLTimerClockMonotonic, &other, start + 100, 0);
    add_by(kRLTimerClockWall, &wall, start + 100, 0);
    RLClockSuspend(clock_of_loop, 60);
    set_clock_by(-30);
    ck_assert(RLTimerGetNextFireDate(timer) == start + 100);
    RLClockAdvance(clock_of_loop, 39.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("boot");
    RLClockAdvance(clock_of_loop, 30);
    expect_trace("wall");
    RLClockAdvance(clock_of_loop, 30);
    expect_trace("other");
    RLRelease(clock_of_loop);
}

RL_TEST(a_suspension_longer_than_the_time_left, "S-TMR-60 S-TMR-30", "After a suspension a repeating timer by the boot clock fires once, and goes on on its grid") {
    use_clock();
    static Probe boot = {.name = "boot"};
    RLTimerRef timer = add_by(kRLTimerClockBoot, &boot, start + 10, 10);
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("boot");
    RLClockSuspend(clock_of_loop, 1005);
    pass();
    expect_trace("boot");
    ck_assert_double_eq_tol(RLTimerGetNextFireDate(timer), start + 1020, 1e-6);
    RLClockAdvance(clock_of_loop, 4.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("boot");
    RLTimerInvalidate(timer);
    RLRelease(clock_of_loop);
}

RL_TEST(a_past_date_starts_the_grid_now, "S-TMR-60 S-TMR-31", "The grid of a timer by the boot clock that is made with a past date starts at its creation") {
    use_clock();
    static Probe boot = {.name = "boot"};
    RLTimerRef timer = add_by(kRLTimerClockBoot, &boot, start - 7, 10);
    pass();
    expect_trace("boot");
    ck_assert_double_eq_tol(RLTimerGetNextFireDate(timer), start + 10, 1e-5);
    RLTimerInvalidate(timer);
    RLRelease(clock_of_loop);
}

static void set_own_date(Probe *self) {
    if (self->calls == 1) RLTimerSetNextFireDate(self->timer, start + 50);
    if (self->calls == 2) RLTimerSetNextFireDelay(self->timer, 50);
}

RL_TEST(new_dates_are_on_the_same_clock, "S-TMR-61 S-TMR-38 S-TMR-56 S-TMR-57", "A date and a delay that are set, also in the callback, follow the timer's clock") {
    use_clock();
    static Probe wall = {.name = "wall", .action = set_own_date};
    RLTimerRef timer = add_by(kRLTimerClockWall, &wall, start + 1000, 0);
    RLTimerSetReusable(timer, true);
    RLTimerSetNextFireDate(timer, start + 10);
    set_clock_by(10);
    pass();
    expect_trace("wall");
    ck_assert(RLTimerGetNextFireDate(timer) == start + 50);
    set_clock_by(40);
    pass();
    expect_trace("wall");
    ck_assert_double_eq_tol(RLTimerGetNextFireDate(timer), start + 100, 1e-6);
    set_clock_by(-10);
    RLClockAdvance(clock_of_loop, 59.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("wall");
    ck_assert(isnan(RLTimerGetNextFireDate(timer)));
    set_clock_by(1000000);
    pass();
    RLTimerSetNextFireDelay(timer, NAN);
    RLClockAdvance(clock_of_loop, 1000);
    expect_trace("");
    RLTimerSetNextFireDelay(timer, -1);
    pass();
    expect_trace("wall");
    RLRetain(timer);
    RLTimerInvalidate(timer);
    RLTimerSetNextFireDate(timer, start);
    ck_assert(RLTimerGetNextFireDate(timer) == 0);
    RLRelease(timer);
    RLRelease(clock_of_loop);
}

RL_TEST(what_a_timer_can_be_made_with, "S-TMR-58 S-TMR-61", "Every date and interval gives a timer; an unknown clock and a NaN interval do not") {
    use_clock();
    static const RLTimerClock clocks[] = {kRLTimerClockMonotonic, kRLTimerClockBoot, kRLTimerClockWall};
    static const double dates[] = {-INFINITY, -2e9, 0, 1, 1e9, 4e9, 4039289856.0, 1e12, INFINITY, NAN};
    static Probe probes[3][10];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 10; j++) {
            RLTimerRef timer = make_by(clocks[i], &probes[i][j], dates[j], 0);
            ck_assert(timer != NULL && RLTimerIsValid(timer));
            ck_assert_int_eq(RLTimerGetClock(timer), clocks[i]);
            double date = RLTimerGetNextFireDate(timer), expected = dates[j] > 4039289856.0 ? 4039289856.0 : dates[j];
            ck_assert(isnan(dates[j]) ? isnan(date) : date == expected);
            RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
            date = RLTimerGetNextFireDate(timer);
            ck_assert(isnan(dates[j]) ? isnan(date) : date == expected);
            RLRelease(timer);
        }
    }
    pass();
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 10; j++) ck_assert_int_eq(probes[i][j].calls, dates[j] < start);
    ck_assert_ptr_null(RLTimerCreateWithClock((RLTimerClock)3, start, 0, NULL, NULL));
    ck_assert_ptr_null(RLTimerCreateWithClock((RLTimerClock)-1, start, 0, NULL, NULL));
    ck_assert_ptr_null(RLTimerCreateWithClock(kRLTimerClockWall, start, NAN, NULL, NULL));
    ck_assert_int_eq(RLTimerGetClock(NULL), kRLTimerClockMonotonic);
    RLTimerRef timer = RLTimerCreateWithClock(kRLTimerClockBoot, start, -1, NULL, NULL);
    ck_assert(!RLTimerDoesRepeat(timer));
    RLTimerInvalidate(timer);
    ck_assert_int_eq(RLTimerGetClock(timer), kRLTimerClockBoot);
    ck_assert(RLTimerGetNextFireDate(timer) == 0);
    RLRelease(timer);
    RLRelease(clock_of_loop);
}

RL_TEST(a_delay_longer_than_the_longest, "S-TMR-56 S-TMR-59 S-TMR-61", "A delay that counts as a shorter one gives the date of the shorter one, before which no timer fires") {
    use_clock();
    static Probe probes[3];
    for (int i = 0; i < 3; i++) {
        RLTimerRef timer = add_by((RLTimerClock)i, &probes[i], NAN, 0);
        RLTimerSetNextFireDelay(timer, 1e9);
        ck_assert(fabs(RLTimerGetNextFireDate(timer) - start - 504911232) < 1e-6);
    }
    RLClockAdvance(clock_of_loop, 504911231.999998);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(probes[i].calls, 0);
    RLClockAdvance(clock_of_loop, 0.000002);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(probes[i].calls, 1);
    RLRelease(clock_of_loop);
}

static void set_to_the_first_date(void) { RLClockSetWallTime(clock_of_loop, -INFINITY); }
static void suspend_for_a_century(void) {
    for (int i = 0; i < 40; i++) {
        set_to_the_first_date();
        RLClockSuspend(clock_of_loop, INFINITY);
    }
}

RL_TEST(dates_of_all_ages, "S-TMR-60 S-TMR-61 S-CLK-11", "At the ends of time, dates and suspensions timers by every clock can be made, and are called where their time has come") {
    use_clock();
    static Probe near[2][6], far[2][6], repeating[2][6];
    for (int age = 0; age < 6; age++) {
        if (age == 1) RLClockSetWallTime(clock_of_loop, INFINITY);
        if (age == 2) suspend_for_a_century();
        if (age == 3) for (int i = 0; i < 9; i++) RLClockAdvance(clock_of_loop, i == 8 ? INFINITY : 5e8);
        if (age == 4) set_to_the_first_date();
        if (age == 5) RLClockSetWallTime(clock_of_loop, INFINITY);
        for (int clock = 0; clock < 2; clock++) {
            const RLTimerClock kind = clock == 0 ? kRLTimerClockBoot : kRLTimerClockWall;
            const RLAbsoluteTime now = RLClockGetTime(clock_of_loop);
            RLTimerSetTolerance(add_by(kind, &repeating[clock][age], now, INFINITY), 1);
            add_by(kind, &near[clock][age], now, 0);
            RLTimerSetNextFireDelay(add_by(kind, &far[clock][age], INFINITY, 0), age & 1 ? INFINITY : 504911232);
            pass();
            ck_assert_int_eq(near[clock][age].calls, 1);
            ck_assert_int_gt(repeating[clock][age].calls, 0);
        }
        set_to_the_first_date();
        pass();
        free(RLCopyDescription(RLGetCurrent()));
        for (int i = 0; i < 5; i++) {
            RLClockSuspend(clock_of_loop, INFINITY);
            pass();
        }
    }
    RLClockSetWallTime(clock_of_loop, INFINITY);
    pass();
    for (int age = 0; age < 6; age++) ck_assert_int_eq(near[0][age].calls + near[1][age].calls, 2);
    RLRelease(clock_of_loop);
}

RL_TEST(a_description_tells_the_clock, "S-TMR-58", "The description of such a timer names its clock, that of others none") {
    static const char *const words[] = {NULL, "clock = boot", "clock = wall"};
    for (int i = 0; i < 3; i++) {
        RLTimerRef timer = RLTimerCreateWithClock((RLTimerClock)i, FAR_FUTURE, 0, NULL, NULL);
        char *text = RLCopyDescription(timer);
        if (words[i]) ck_assert_ptr_nonnull(strstr(text, words[i]));
        else ck_assert_ptr_null(strstr(text, "clock ="));
        free(text);
        RLRelease(timer);
    }
}

static void run_with_clock(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    Probe *probe = self->data;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_by(kRLTimerClockWall, probe, start + 3600, 3600);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}

RL_TEST(loops_that_run_are_told, "S-TMR-62 S-TMR-63", "A loop of another thread that waits finds the timers due that a set clock made due, each time") {
    use_clock();
    static Probe probe;
    LoopThread other;
    loop_thread_start(&other, run_with_clock, &probe);
    wait_until_waiting(other.loop);
    for (int i = 1; i <= 100; i++) {
        set_clock_by(3600);
        wait_until_count(&probe.calls, i);
        /* A date that comes before the callback has returned is left out (S-TMR-29). */
        wait_until_waiting(other.loop);
    }
    RLStop(other.loop);
    thread_join(other.thread);
    ck_assert_int_eq(probe.calls, 100);
    RLRelease(clock_of_loop);
}

static void run_nested(Probe *self) { expect_run(self->mode, 1e10, false, Stopped); }

static void nest_with_clock(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    static Probe outer = {.mode = "inner", .action = run_nested};
    Probe *probe = self->data;
    probe->action = action_stop;
    RLTimerRef timer = make_by(kRLTimerClockBoot, probe, start + 3600, 0);
    RLAddTimer(RLGetCurrent(), timer, "inner");
    RLRelease(timer);
    add_timer(&outer, start, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e10, false, Finished);
}

RL_TEST(nested_runs_are_told, "S-TMR-62 S-TMR-63", "A wait of a run nested in a callback, in another mode, hears of a suspension") {
    use_clock();
    static Probe probe;
    LoopThread other;
    loop_thread_start(&other, nest_with_clock, &probe);
    wait_until_waiting(other.loop);
    RLClockSuspend(clock_of_loop, 3600);
    thread_join(other.thread);
    ck_assert_int_eq(probe.calls, 1);
    RLRelease(clock_of_loop);
}

RL_TEST(a_timer_that_comes_into_a_loop, "S-TMR-62 S-TMR-63 S-CLK-4", "A timer that was in no loop, or in one with another clock, means its date by the clock of the loop it comes into") {
    use_clock();
    static Probe wall = {.name = "wall"}, boot = {.name = "boot"};
    RLTimerRef first = make_by(kRLTimerClockWall, &wall, start + 100, 0), second = make_by(kRLTimerClockBoot, &boot, start + 100, 0);
    set_clock_by(40);
    RLAddTimer(RLGetCurrent(), first, kRLDefaultMode), RLAddTimer(RLGetCurrent(), second, kRLDefaultMode);
    /* The boot clock has not been told of the setting: by the date that the clock shows now it is due in a minute. */
    RLRemoveTimer(RLGetCurrent(), first, kRLDefaultMode);
    set_clock_by(40);
    RLAddTimer(RLGetCurrent(), first, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 19.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("wall");
    RLClockAdvance(clock_of_loop, 39.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("boot");
    RLRelease(first), RLRelease(second), RLRelease(clock_of_loop);
}

RL_TEST(common_items_and_further_modes, "S-TMR-61 S-TMR-15 S-TMR-63", "In several modes such a timer is dated anew in all of them and fires once") {
    use_clock();
    static Probe wall = {.name = "wall"};
    RLTimerRef timer = make_by(kRLTimerClockWall, &wall, start + 100, 100);
    RLAddCommonMode(RLGetCurrent(), "other");
    RLAddTimer(RLGetCurrent(), timer, kRLCommonModes);
    RLAddTimer(RLGetCurrent(), timer, "third");
    for (int i = 1; i < 50; i++) {
        set_clock_by(100);
        const char *modes[] = {kRLDefaultMode, "other", "third"};
        RLRunInMode(modes[i % 3], 0, false);
        RLRunInMode(modes[(i + 1) % 3], 0, false);
        expect_trace("wall");
    }
    ck_assert_double_eq_tol(RLGetNextTimerFireDate(RLGetCurrent(), "third"), start + 5000, 1e-5);
    RLTimerInvalidate(timer);
    set_clock_by(1000);
    RLRelease(timer);
    RLRelease(clock_of_loop);
}

/* In its first call it leaves its mode and comes back, the clock moves, and the loop runs. */
static int depth;
static bool suspends;
static void move_itself_and_run(Probe *self) {
    ck_assert_int_eq(++depth, 1);
    if (self->calls == 1) {
        RLRemoveTimer(RLGetCurrent(), self->timer, kRLDefaultMode);
        RLAddTimer(RLGetCurrent(), self->timer, kRLDefaultMode);
        if (suspends) RLClockSuspend(clock_of_loop, 10);
        else set_clock_by(10);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    depth--;
}

RL_TEST(added_in_its_callback_when_the_clock_moves, "S-TMR-27 S-TMR-63",
        "A timer that was added in its own callback is not called again inside that, also if the clock moves while others are due with it") {
    use_clock();
    for (int i = 0; i < 2; i++) {
        suspends = i == 1;
        Probe *moving = calloc(1, sizeof *moving), *member = calloc(1, sizeof *member);
        moving->action = move_itself_and_run;
        start = RLClockGetTime(clock_of_loop);
        RLTimerRef timers[] = {add_by(kRLTimerClockWall, moving, start + 1, 1), add_by(kRLTimerClockWall, member, start + 1, 1)};
        RLClockAdvance(clock_of_loop, 1);
        const int before = moving->calls;
        for (int second = 0; second < 5; second++) RLClockAdvance(clock_of_loop, 1);
        ck_assert_int_eq(moving->calls, before + 5);
        ck_assert_int_ge(member->calls, 6);
        for (int j = 0; j < 2; j++) RLTimerInvalidate(timers[j]);
        free(moving), free(member);
    }
}
