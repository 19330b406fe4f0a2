/* SPDX-License-Identifier: MIT */
/*
 * Timers firing: order, batches, re-arming and SetNextFireDate. The probes are static, because what
 * is left in a loop outlives the case that put it there.
 */
#include "support.h"

#include <math.h>
#include <stdio.h>

static RLTimerRef add_due(Probe *probe) { return add_timer(probe, 0, 0, kRLDefaultMode); }

/* A start that is still to come when its timer is made, however slow the processor (an emulated one translates each piece of code
 * at its first use): the grid of a past date begins elsewhere (S-TMR-31). */
#define LEAD 0.2

/* The smallest number of whole intervals from one date to another, checked to be whole. */
static double whole_intervals(RLAbsoluteTime from, RLAbsoluteTime to, RLTimeInterval interval) {
    double intervals = (to - from) / interval, whole = (double)(long long)(intervals + 0.5);
    ck_assert_double_lt(fabs(to - (from + whole * interval)), 5e-6);
    return whole;
}

static void check_not_early(Probe *self) {
    double due = *(double *)self->data;
    ck_assert_double_ge(monotonic_now(), due - 1e-6);
}

RL_TEST(never_early, "S-TMR-20", "No timer fires before its instant on the monotonic clock") {
    enum { many = 40 };
    static Probe probes[many];
    static double due[many];
    for (int i = 0; i < many; i++) {
        double ahead = 0.002 * ((i * 7) % many) + 0.00013 * i;
        probes[i].name = "t";
        probes[i].action = check_not_early;
        probes[i].data = &due[i];
        due[i] = monotonic_now() + ahead;
        add_timer(&probes[i], date_in(ahead), 0, kRLDefaultMode);
    }
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(trace_count("t"), many);
}

RL_TEST(due_timers_fire_by_instant, "S-TMR-21 S-PASS-9",
        "Timers that are due together fire in one pass in ascending order of their instants") {
    static Probe probes[] = {{.name = "c"}, {.name = "a"}, {.name = "b"}};
    RLAbsoluteTime base = date_in(LEAD);
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&probes[0], base + 0.03, 0, kRLDefaultMode);
    add_timer(&probes[1], base + 0.01, 0, kRLDefaultMode);
    add_timer(&probes[2], base + 0.02, 0, kRLDefaultMode);
    keep_alive(RLGetCurrent(), "other");
    expect_run("other", LEAD + 0.05, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS a b c X");
}

RL_TEST(past_dates_fire_in_order_of_creation, "S-TMR-22",
        "Timers with past dates fire in the order of their creation or last SetNextFireDate") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    const RLAbsoluteTime dates[] = {-1, -3, 0, -2};
    const int added[] = {3, 1, 0, 2};
    for (int i = 0; i < 4; i++) probe_timer(&probes[i], dates[i], 0);
    for (int i = 0; i < 4; i++) RLAddTimer(RLGetCurrent(), probes[added[i]].timer, kRLDefaultMode);
    RLTimerSetNextFireDate(probes[1].timer, -100);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a c d b");
    for (int i = 0; i < 4; i++) RLRelease(probes[i].timer);
}

RL_TEST(many_past_dates_keep_their_order, "S-TMR-22",
        "Five hundred timers created back to back with past dates fire in that order") {
    enum { many = 500 };
    static Probe probes[many];
    static char names[many][8], expected[many * 8];
    int length = 0;
    for (int i = 0; i < many; i++) {
        probes[i].name = names[i];
        snprintf(names[i], sizeof names[i], "%d", i);
        length += snprintf(expected + length, sizeof expected - (size_t)length, "%s%d",
                           i > 0 ? " " : "", i);
        add_timer(&probes[i], -i, 0, kRLDefaultMode);
    }
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace(expected);
}

/* The batch */

static Probe *other_probe;
static void invalidate_other(Probe *self) {
    (void)self;
    RLTimerInvalidate(other_probe->timer);
}
static void postpone_other(Probe *self) {
    (void)self;
    RLTimerSetNextFireDate(other_probe->timer, FAR_FUTURE);
}
static void remove_other(Probe *self) {
    RLRemoveTimer(self->loop, other_probe->timer, kRLDefaultMode);
}

RL_TEST(a_timer_invalidated_in_the_batch_does_not_fire, "S-TMR-24 S-TMR-23",
        "A due timer that an earlier callback of the batch invalidated does not fire") {
    static Probe first = {.name = "a", .action = invalidate_other}, second = {.name = "b"};
    other_probe = &second;
    add_due(&first);
    add_due(&second);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("a");
}

RL_TEST(a_timer_postponed_in_the_batch_does_not_fire, "S-TMR-24 S-TMR-23",
        "A due timer that an earlier callback of the batch postponed does not fire") {
    static Probe first = {.name = "a", .action = postpone_other}, second = {.name = "b"};
    other_probe = &second;
    add_due(&first);
    add_due(&second);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("a");
    ck_assert(RLTimerIsValid(second.timer));
}

RL_TEST(a_timer_removed_from_its_last_mode_does_not_fire, "S-TMR-25",
        "A due timer that an earlier callback of the batch removed from its last mode is not "
        "fired") {
    static Probe first = {.name = "a", .action = remove_other}, second = {.name = "b"};
    other_probe = &second;
    add_due(&first);
    RLRetain(add_due(&second));
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("a");
    ck_assert(RLTimerIsValid(second.timer));
    RLRelease(second.timer);
}

RL_TEST(a_timer_removed_from_the_running_mode_alone_fires, "S-TMR-25",
        "A due timer removed from the running mode in the batch fires if another mode has it") {
    static Probe first = {.name = "a", .action = remove_other}, second = {.name = "b"};
    other_probe = &second;
    add_due(&first);
    add_due(&second);
    RLAddTimer(second.loop, second.timer, "other");
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("a b");
}

static void remove_other_and_run_its_other_mode(Probe *self) {
    remove_other(self);
    if (self->calls == 1) expect_run("other", 0, false, TimedOut);
}

static void two_modes_and_a_nested_run(LoopThread *self) {
    static Probe first = {.name = "a", .action = remove_other_and_run_its_other_mode}, second = {.name = "b"};
    (void)self;
    other_probe = &second;
    add_due(&first);
    add_timer(&second, 0, 1000, kRLDefaultMode);
    RLAddTimer(second.loop, second.timer, "other");
    keep_alive(second.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b");
    ck_assert(!RLContainsTimer(second.loop, second.timer, kRLDefaultMode));
    ck_assert(RLContainsTimer(second.loop, second.timer, "other"));
}

RL_TEST(a_removed_timer_that_fires_in_a_nested_run_is_left_nowhere, "S-TMR-25 S-LOOP-16",
        "A timer removed from the running mode in the batch, which then fires in a nested run of another mode, has had its turn, and the "
        "end of the thread takes it out of all modes") {
    LoopThread thread;
    loop_thread_start(&thread, two_modes_and_a_nested_run, NULL);
    thread_join(thread.thread);
}

static void postpone_and_add_back(Probe *self) {
    remove_other(self);
    postpone_other(self);
    RLAddTimer(self->loop, other_probe->timer, kRLDefaultMode);
}

RL_TEST(a_timer_that_was_postponed_and_added_back_does_not_fire, "S-TMR-20 S-TMR-26",
        "A due timer removed, postponed and added back inside the batch fires at its new date only") {
    static Probe first = {.name = "a", .action = postpone_and_add_back}, second = {.name = "b"};
    other_probe = &second;
    add_due(&first);
    add_due(&second);
    RLAddTimer(second.loop, second.timer, "other");
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("a");
    RLTimerSetNextFireDate(second.timer, -1);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("b");
}

static void add_other(Probe *self) {
    (void)self;
    add_due(other_probe);
}

RL_TEST(a_timer_added_in_the_batch_fires_in_the_next_pass, "S-TMR-26",
        "A due timer that a callback of the batch adds fires in the next pass") {
    static Probe first = {.name = "a", .action = add_other}, second = {.name = "b"};
    static Probe third = {.name = "c"};
    other_probe = &third;
    observe(RLGetCurrent(), kRLDefaultMode);
    add_due(&first);
    add_due(&second);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("E BT BS BW AW a b BT BS BW AW c X");
}

static void remove_and_add_other(Probe *self) {
    RLRetain(other_probe->timer);
    RLRemoveTimer(self->loop, other_probe->timer, kRLDefaultMode);
    RLAddTimer(self->loop, other_probe->timer, kRLDefaultMode);
    RLRelease(other_probe->timer);
}

RL_TEST(a_timer_removed_and_added_back_keeps_its_turn, "S-TMR-26",
        "A due timer that is removed and added back inside the batch fires at its turn, once") {
    static Probe first = {.name = "a", .action = remove_and_add_other}, second = {.name = "b"};
    static Probe third = {.name = "c"};
    other_probe = &second;
    observe(RLGetCurrent(), kRLDefaultMode);
    add_due(&first);
    add_due(&second);
    add_due(&third);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("E BT BS BW AW a b c X");
}

static void run_nested(Probe *self) {
    RLTimerSetNextFireDate(self->timer, -1);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_run("other", 0.02, false, TimedOut);
    trace("end");
}

static Probe batch[5];

static void make_batch(int count, void (*first)(Probe *)) {
    static const char *names[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < count; i++) {
        batch[i].name = names[i];
        add_due(&batch[i]);
    }
    batch[0].action = first;
}

static void make_due_anew(Probe *self) { RLTimerSetNextFireDate(batch[self->value].timer, 5); }

RL_TEST(a_timer_that_is_made_due_anew_keeps_its_turn, "S-TMR-23 S-PASS-9",
        "A member of a batch whose date an earlier callback sets to another past date fires in that pass, in its turn") {
    make_batch(3, make_due_anew);
    batch[0].value = 1;
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b c");
}

static void postpone_a_removed_one(Probe *self) {
    static Probe added = {.name = "z"};
    if (self->data) RLAddTimer(RLGetCurrent(), batch[2].timer, self->data);
    RLRemoveTimer(RLGetCurrent(), batch[2].timer, kRLDefaultMode);
    if (self->value) {
        RLTimerSetNextFireDate(batch[2].timer, -1);
        RLAddTimer(RLGetCurrent(), batch[2].timer, kRLDefaultMode);
    } else {
        RLTimerSetNextFireDate(batch[2].timer, FAR_FUTURE);
    }
    add_due(&added);
    RLRunInMode(kRLDefaultMode, 0, false);
    trace("back");
}

RL_TEST(a_postponed_timer_is_no_bound_for_a_nested_batch, "S-TMR-21 S-TMR-25",
        "What a nested run collects fires behind earlier timers of the outer batch, also if one of that was removed and postponed") {
    make_batch(4, postpone_a_removed_one);
    batch[0].data = "other";
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b d z back");
    RLTimerInvalidate(batch[2].timer);
}

RL_TEST(a_timer_that_came_back_later_is_no_bound_for_a_nested_batch, "S-TMR-21 S-TMR-26",
        "In a nested run a timer that was removed, made due anew and added back fires by its new instant") {
    make_batch(4, postpone_a_removed_one);
    batch[0].value = 1;
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b d c z back");
}

static void ask_for_the_next(Probe *self) {
    /* One that is being called counts. */
    RLRemoveTimer(RLGetCurrent(), self->timer, kRLDefaultMode);
    for (int i = 1; i < 3; i++) RLTimerSetNextFireDate(batch[i].timer, -100 - i);
    /* 3 is the earliest now, and then 1. */
    RLTimerRef earliest = batch[3].timer;
    ck_assert(RLGetNextTimerFireDate(RLGetCurrent(), kRLDefaultMode) == RLTimerGetNextFireDate(earliest));
    RLTimerInvalidate(earliest);
    ck_assert(RLGetNextTimerFireDate(RLGetCurrent(), kRLDefaultMode) == RLTimerGetNextFireDate(batch[1].timer));
}

RL_TEST(the_earliest_of_a_batch_with_new_dates, "S-TMR-55 S-TMR-23",
        "The next date of a mode is that of the earliest instant, whatever the turns in a batch are") {
    for (int i = 0; i < 4; i++) {
        static const char *names[] = {"a", "b", "c", "d"};
        batch[i].name = names[i];
        add_timer(&batch[i], -1 - i, 0, kRLDefaultMode);
    }
    batch[0].action = ask_for_the_next;
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b c");
}

RL_TEST(a_firing_timer_does_not_fire_again, "S-TMR-27 S-TMR-23 S-NEST-3",
        "A timer whose callback is on the stack does not fire in a nested run of any mode, even if "
        "it is due; another one does") {
    static Probe outer = {.name = "outer", .action = run_nested}, inner = {.name = "inner"};
    add_timer(&outer, 0, 1000, kRLDefaultMode);
    RLAddTimer(outer.loop, outer.timer, "other");
    add_due(&inner);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("outer inner end");
}

static void check_member_and_valid(Probe *self) {
    ck_assert(RLTimerIsValid(self->timer));
    ck_assert(RLContainsTimer(self->loop, self->timer, kRLDefaultMode));
}

RL_TEST(a_one_shot_is_invalid_after_its_callback, "S-TMR-28",
        "A one-shot is valid and a member during its callback and invalid right after") {
    static Probe probe = {.name = "t", .action = check_member_and_valid, .counted = true};
    RLTimerRef timer = add_due(&probe);
    RLRetain(timer);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t");
    ck_assert(!RLTimerIsValid(timer));
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    RLRelease(timer);
}

/* Re-arming */

static void sleep_past_intervals(Probe *self) {
    double until = monotonic_now() + 5.5 * RLTimerGetInterval(self->timer);
    if (self->calls > 1) return;
    keep_alive(self->loop, "other");
    while (monotonic_now() < until) RLRunInMode("other", until - monotonic_now(), false);
}

RL_TEST(missed_instants_are_dropped, "S-TMR-29 S-TMR-30",
        "After a callback that took several intervals the next instant is the first of the grid "
        "that is later than now") {
    static Probe probe = {.name = "t", .action = sleep_past_intervals};
    const RLTimeInterval interval = 0.02;
    RLAbsoluteTime start = date_in(LEAD), next;
    RLTimerRef timer = add_timer(&probe, start, interval, kRLDefaultMode);
    do {
        expect_run(kRLDefaultMode, 0.001, false, TimedOut);
    } while (count_of(&probe.calls) == 0);
    next = RLTimerGetNextFireDate(timer);
    ck_assert_double_ge(whole_intervals(start, next, interval), 6);
    ck_assert_int_eq(probe.calls, 1);
}

RL_TEST(a_late_timer_fires_once_and_returns_to_its_grid, "S-TMR-30 S-MODE-23",
        "A timer that is late by several intervals because its mode did not run fires once") {
    static Probe probe = {.name = "t"};
    const RLTimeInterval interval = 0.01;
    RLAbsoluteTime start = date_in(LEAD);
    RLTimerRef timer = add_timer(&probe, start, interval, kRLDefaultMode);
    keep_alive(probe.loop, "other");
    expect_run("other", LEAD + 0.065, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("t");
    ck_assert_double_ge(whole_intervals(start, RLTimerGetNextFireDate(timer), interval), 6);
}

RL_TEST(the_grid_of_a_past_date_starts_at_creation, "S-TMR-31",
        "The grid of a timer created with a past date starts at the instant of its creation") {
    static Probe probe = {.name = "t"};
    const RLTimeInterval interval = 1000;
    RLAbsoluteTime before = RLAbsoluteTimeGetCurrent();
    RLTimerRef timer = add_timer(&probe, before - 12345.678, interval, kRLDefaultMode);
    RLAbsoluteTime after = RLAbsoluteTimeGetCurrent();
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLAbsoluteTime next = RLTimerGetNextFireDate(timer);
    ck_assert_double_ge(next, before + interval - 5e-6);
    ck_assert_double_le(next, after + interval + 5e-6);
}

RL_TEST(no_drift, "S-TMR-33 S-TMR-29",
        "Every date of a repeating timer is a whole number of intervals after its start") {
    static Probe probe = {.name = "t"};
    const RLTimeInterval interval = 0.003;
    RLAbsoluteTime start = date_in(LEAD);
    RLTimerRef timer = add_timer(&probe, start, interval, kRLDefaultMode);
    double served = 0;
    while (probe.calls < 30) {
        expect_run(kRLDefaultMode, 0.002, false, TimedOut);
        double next = whole_intervals(start, RLTimerGetNextFireDate(timer), interval);
        ck_assert_double_ge(next, served);
        served = next;
    }
    ck_assert_double_ge(served, 30);
}

static void check_date_being_served(Probe *self) {
    RLAbsoluteTime served = *(RLAbsoluteTime *)self->data;
    ck_assert_double_eq(RLTimerGetNextFireDate(self->timer), served);
    if (self->value) {
        RLAbsoluteTime next = date_in(5000);
        RLTimerSetNextFireDate(self->timer, next);
        ck_assert_double_eq(RLTimerGetNextFireDate(self->timer), next);
    }
}

RL_TEST(the_date_during_the_callback, "S-TMR-34",
        "While the callback runs the date is the one being served, unless it was set meanwhile") {
    static Probe plain = {.name = "plain", .action = check_date_being_served};
    static Probe set = {.name = "set", .action = check_date_being_served, .value = 1};
    static RLAbsoluteTime soon, past = -5;
    soon = date_in(LEAD);
    plain.data = &soon;
    set.data = &past;
    add_timer(&set, past, 10, kRLDefaultMode);
    add_timer(&plain, soon, 1000, kRLDefaultMode);
    expect_run(kRLDefaultMode, LEAD + 0.05, false, TimedOut);
    expect_trace("set plain");
}

static void remove_self(Probe *self) {
    RLRetain(self->timer);
    RLRemoveTimer(self->loop, self->timer, kRLDefaultMode);
}

RL_TEST(a_timer_that_removes_itself_is_re_armed, "S-TMR-35",
        "A repeating timer that leaves its loop in its callback stays valid and on its grid, and "
        "fires at once when it is added again overdue") {
    static Probe probe = {.name = "t", .action = remove_self};
    RLAbsoluteTime start = date_in(LEAD);
    RLTimerRef timer = add_timer(&probe, start, 0.03, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("t");
    ck_assert(RLTimerIsValid(timer));
    ck_assert(!RLContainsTimer(probe.loop, timer, kRLDefaultMode));
    ck_assert_double_ge(whole_intervals(start, RLTimerGetNextFireDate(timer), 0.03), 1);
    double due = RLTimerGetNextFireDate(timer);
    keep_alive(probe.loop, "other");
    while (RLAbsoluteTimeGetCurrent() <= due) expect_run("other", 0.03, false, TimedOut);
    RLAddTimer(probe.loop, timer, kRLDefaultMode);
    RLRelease(timer);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("t");
    RLRelease(timer);
}
