/* SPDX-License-Identifier: MIT */
/* Section 41: clocks that a program moves. Nothing here waits for time. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static RLClockRef clock_of_loop;
static RLAbsoluteTime start;

/* Gives the current loop a clock. */
static void use_clock(void) {
    clock_of_loop = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    start = RLClockGetTime(clock_of_loop);
}
/* Seconds since then, by the calling thread. */
static double passed(void) { return RLAbsoluteTimeGetCurrent() - start; }
static bool is(double time, double expected) { return fabs(time - expected) < 1e-6; }

static double seen[16];
static int count;
static void note_time(Probe *self) {
    (void)self;
    if (count < 16) seen[count++] = passed();
}

RL_TEST(a_clock_stands_still, "S-CLK-1 S-CLK-3 S-CLK-11", "A clock shows the time of its creation until it is moved, and the loop's thread reads it") {
    RLAbsoluteTime before = RLAbsoluteTimeGetCurrent();
    use_clock();
    ck_assert(start > before - 1e-3 && start <= RLClockGetTime(NULL));
    ck_assert(RLAbsoluteTimeGetCurrent() == start);
    take_time(0.001);
    ck_assert(RLAbsoluteTimeGetCurrent() == start);
    RLClockAdvance(clock_of_loop, 0.25);
    ck_assert(is(passed(), 0.25));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 0.25));
    RLClockAdvance(clock_of_loop, -1);
    RLClockAdvance(clock_of_loop, 0);
    RLClockAdvance(clock_of_loop, NAN);
    RLClockAdvance(NULL, 1);
    ck_assert(is(passed(), 0.25));
    ck_assert(!RLClockAdvanceToNext(NULL));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    ck_assert(RLClockGetTime(NULL) >= before);
    RLClockSetAutomatic(NULL, true);
    RLClockSetWallTime(NULL, 0);
    RLClockSetWallTime(clock_of_loop, NAN);
    RLClockSuspend(NULL, 1);
    RLClockSuspend(clock_of_loop, NAN);
    ck_assert(is(passed(), 0.25));
    RLClockAdvance(clock_of_loop, INFINITY);
    ck_assert(is(passed(), 0.25 + 504911232.0));
    ck_assert_uint_eq(RLGetTypeIDOf(clock_of_loop), RLClockGetTypeID());
    RLRelease(clock_of_loop);
}

RL_TEST(an_hour_in_no_time, "S-CLK-4 S-CLK-5 S-CLK-6", "Timers fire at their own dates, in order, as often as those lie on the way") {
    use_clock();
    static Probe hourly = {.name = "hour", .action = note_time}, late = {.name = "late", .action = note_time};
    add_timer(&late, date_in(9000), 0, kRLDefaultMode);
    add_timer(&hourly, date_in(3600), 3600, kRLDefaultMode);
    double begin = monotonic_now();
    RLClockAdvance(clock_of_loop, 3599.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("hour");
    RLClockAdvance(clock_of_loop, 3 * 3600);
    expect_trace("hour late hour hour");
    ck_assert(monotonic_now() - begin < 60);
    double expected[] = {3600, 7200, 9000, 10800, 14400};
    ck_assert_int_eq(count, 5);
    for (int i = 0; i < 5; i++) ck_assert(is(seen[i], expected[i]));
    ck_assert(is(passed(), 14400));
    RLRelease(clock_of_loop);
}

RL_TEST(the_passes_are_the_loops_own, "S-CLK-5 S-CLK-6", "A move makes the passes of a run, with its observers, and ends as its deadline does") {
    use_clock();
    static Probe timer = {.name = "t"};
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    observe(RLGetCurrent(), kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 2);
    expect_trace("E BT BS BW AW t BT BS BW AW X");
    RLRelease(clock_of_loop);
}

static void add_another(Probe *self) {
    note_time(self);
    static Probe next = {.name = "next", .action = note_time};
    add_timer(&next, date_in(0.1), 0, kRLDefaultMode);
}

RL_TEST(what_callbacks_arrange_has_its_turn, "S-CLK-5", "A timer that a callback adds for an instant on the way fires there, before later ones") {
    use_clock();
    static Probe first = {.name = "first", .action = add_another}, last = {.name = "last", .action = note_time};
    add_timer(&first, date_in(0.1), 0, kRLDefaultMode);
    add_timer(&last, date_in(0.3), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("first next last");
    ck_assert(is(seen[0], 0.1) && is(seen[1], 0.2) && is(seen[2], 0.3));
    RLRelease(clock_of_loop);
}

static void signal_source(Probe *self) {
    RLSourceSignal(self->data);
    note_time(self);
}

RL_TEST(the_present_comes_first, "S-CLK-5 S-CLK-6", "Time does not go on before what was signalled and queued at an instant is done; so at the last one") {
    use_clock();
    static Probe source = {.name = "source", .action = note_time}, posted = {.name = "posted"};
    static Probe early = {.name = "early", .action = signal_source}, later = {.name = "later", .action = signal_source};
    early.data = later.data = add_source(&source, kRLDefaultMode);
    add_timer(&early, date_in(1), 0, kRLDefaultMode);
    add_timer(&later, date_in(1.000001), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 1.000001);
    expect_trace("early source later source");
    ck_assert(is(seen[1], 1));
    probe_perform(&posted, RLGetCurrent(), kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 0);
    expect_trace("posted");
    RLRelease(clock_of_loop);
}

static RLMachPortRef port;
static void receive(RLMachPortRef p, const RLMachMessage *message, void *info) {
    (void)p, (void)message, (void)info;
    trace("message");
    note_time(NULL);
}
static void send_message(Probe *self) {
    note_time(self);
    ck_assert_int_eq(RLMachPortSend(port, 1, NULL, 0, NULL, 0), kRLMessagePortSuccess);
}

RL_TEST(messages_come_first, "S-CLK-5", "Time does not go on before a message that was sent at an instant is received, and what it leads to is done") {
    use_clock();
    static Probe first = {.name = "first", .action = send_message}, second = {.name = "second", .action = note_time};
    port = RLMachPortCreate(receive, NULL, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    add_timer(&first, date_in(1), 0, kRLDefaultMode);
    add_timer(&second, date_in(2), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 5);
    expect_trace("first message second");
    ck_assert(is(seen[0], 1) && is(seen[1], 1) && is(seen[2], 2));
    RLMachPortInvalidate(port);
    RLRelease(source), RLRelease(port), RLRelease(clock_of_loop);
}

static void stop_and_count(Probe *self) { RLStop(self->loop); }

RL_TEST(a_stop_is_no_end, "S-CLK-6", "A callback that stops its run does not end a move; one that stops each before it begins does after 1000") {
    use_clock();
    static Probe tick = {.name = "t", .action = stop_and_count};
    add_timer(&tick, date_in(1), 1, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 4);
    expect_trace("t t t t");
    static Probe entry = {.action = stop_and_count};
    add_observer(&entry, kRLEntry, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 4);
    expect_trace("");
    ck_assert_int_eq(entry.calls, 1000);
    ck_assert(is(passed(), 8));
    RLRelease(clock_of_loop);
}

static void run_inside(Probe *self) {
    if (self->value++ > 0) return;
    RLRunInMode(kRLDefaultMode, 0, false);
    self->value = 0;
}

RL_TEST(a_move_ends_at_its_time, "S-CLK-6", "A move to a time ends there also if an Entry observer of its run has run the loop and so come nearer") {
    use_clock();
    static Probe tick = {.name = "t", .action = note_time}, entry = {.action = run_inside};
    add_timer(&tick, date_in(1), 1, kRLDefaultMode);
    add_observer(&entry, kRLEntry, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 4);
    expect_trace("t t t t");
    for (int i = 0; i < 4; i++) ck_assert(is(seen[i], i + 1));
    ck_assert(is(passed(), 4));
    RLRelease(clock_of_loop);
}

static void start_ticks(Probe *self) {
    if (self->calls > 1) return;
    add_timer(self->data, RLAbsoluteTimeGetCurrent() + 1, 1, kRLDefaultMode);
}

RL_TEST(what_an_exit_observer_adds, "S-CLK-5 S-CLK-6", "A move goes on when its run has finished and an Exit observer has put a timer into the mode, however often that is due") {
    use_clock();
    static Probe last = {.name = NULL}, tick = {.action = note_time}, exit = {.action = start_ticks, .data = &tick};
    add_timer(&last, date_in(1), 0, kRLDefaultMode);
    add_observer(&exit, kRLExit, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 3001);
    ck_assert_int_eq(tick.calls, 3000);
    ck_assert(is(seen[0], 2));
    RLRelease(clock_of_loop);
}

RL_TEST(a_timer_that_comes_back, "S-CLK-4 S-CLK-10 S-TMR-35",
        "A timer that was removed and is added again, to its loop or to another with the same clock, keeps its instants; by another clock it has new ones for its date") {
    use_clock();
    RLRunLoopRef loop = RLGetCurrent();
    static Probe tick = {.action = note_time}, once = {.name = "o"};
    RLRetain(add_timer(&tick, date_in(10), 10, kRLDefaultMode));
    RLRetain(add_timer(&once, date_in(50), 0, kRLDefaultMode));
    RLClockAdvance(clock_of_loop, 11);
    RLRemoveTimer(loop, tick.timer, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 14);
    RLAddTimer(loop, tick.timer, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 16);
    double expected[] = {10, 25, 30, 40};
    ck_assert_int_eq(count, 4);
    for (int i = 0; i < count; i++) ck_assert(is(seen[i], expected[i]));
    RLClockSetWallTime(clock_of_loop, start);
    RLRemoveTimer(loop, once.timer, kRLDefaultMode);
    RLAddTimer(loop, once.timer, "other");
    RLRemoveTimer(loop, once.timer, "other");
    RLAddTimer(loop, once.timer, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 9);
    expect_trace("o");
    RLTimerInvalidate(tick.timer);
    RLRelease(tick.timer), RLRelease(once.timer);
    /* The date means another instant by another clock. */
    static Probe moved = {.name = "m"};
    RLTimerRef timer = add_timer(&moved, RLAbsoluteTimeGetCurrent() + 10, 0, kRLDefaultMode);
    RLRetain(timer);
    RLRemoveTimer(loop, timer, kRLDefaultMode);
    RLClockRef other = RLClockCreateManual();
    RLClockSetWallTime(other, RLAbsoluteTimeGetCurrent() + 7);
    ck_assert(RLSetClock(loop, other));
    RLAddTimer(loop, timer, kRLDefaultMode);
    RLClockAdvance(other, 2.9);
    expect_trace("");
    RLClockAdvance(other, 0.2);
    expect_trace("m");
    RLRelease(timer), RLRelease(other), RLRelease(clock_of_loop);
}

RL_TEST(a_date_set_away_from_the_clock, "S-CLK-4",
        "A timer that was removed gets a date or a delay while its last loop goes by the system's clocks: back in a loop with its clock it is due at "
        "that date by the clock") {
    use_clock();
    RLClockSetWallTime(clock_of_loop, start + 1000);
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probe = {.name = "t"};
    RLTimerRef timer = add_timer(&probe, date_in(10), 1e6, kRLDefaultMode);
    RLRetain(timer);
    for (int is_delay = 0; is_delay < 2; is_delay++) {
        RLRemoveTimer(loop, timer, kRLDefaultMode);
        ck_assert(RLSetClock(loop, NULL));
        if (is_delay) RLTimerSetNextFireDelay(timer, 5000);
        else RLTimerSetNextFireDate(timer, start + 1020);
        ck_assert(RLSetClock(loop, clock_of_loop));
        RLAddTimer(loop, timer, kRLDefaultMode);
        RLClockAdvance(clock_of_loop, RLTimerGetNextFireDate(timer) - RLClockGetTime(clock_of_loop) - 1);
        expect_trace("");
        RLClockAdvance(clock_of_loop, 1.5);
        expect_trace("t");
    }
    RLTimerInvalidate(timer);
    RLRelease(timer), RLRelease(clock_of_loop);
}

RL_TEST(a_timer_after_many_clocks, "S-CLK-4",
        "However many clocks were made meanwhile: a timer by one clock has a new instant for its date by another, and one that comes back keeps it") {
    static const int made[] = {0, 2046, 2047, 2048, 4093, 4094, 4095, 4096, 65535};
    RLRunLoopRef loop = RLGetCurrent();
    for (int i = 0; i < 9; i++) {
        static Probe probes[9];
        use_clock();
        RLTimerRef timer = add_timer(&probes[i], date_in(10), 0, kRLDefaultMode);
        RLRetain(timer);
        /* It keeps its instant, though the date means another one by now. */
        RLRemoveTimer(loop, timer, kRLDefaultMode);
        RLClockSetWallTime(clock_of_loop, start + 100);
        RLAddTimer(loop, timer, kRLDefaultMode);
        RLClockAdvance(clock_of_loop, 9);
        ck_assert_int_eq(probes[i].calls, 0);
        RLRemoveTimer(loop, timer, kRLDefaultMode);
        for (int clock = 0; clock < made[i]; clock++) RLRelease(RLClockCreateManual());
        RLClockRef other = RLClockCreateManual();
        RLClockSetWallTime(other, RLTimerGetNextFireDate(timer) - 50);
        ck_assert(RLSetClock(loop, other));
        RLAddTimer(loop, timer, kRLDefaultMode);
        RLClockAdvance(other, 49);
        ck_assert_int_eq(probes[i].calls, 0);
        RLClockAdvance(other, 2);
        ck_assert_int_eq(probes[i].calls, 1);
        RLRelease(timer), RLRelease(other), RLRelease(clock_of_loop);
    }
}

static void delay_again(Probe *self) { RLTimerSetNextFireDelay(self->timer, 0.067098); }

RL_TEST(delays_do_not_fall_behind, "S-CLK-4 S-TMR-56", "A timer that is set again and again by a delay is due each time the clock has moved by that") {
    use_clock();
    static Probe tick = {.action = delay_again};
    add_timer(&tick, NAN, 1, kRLDefaultMode);
    RLTimerSetNextFireDelay(tick.timer, 0.067098);
    for (int i = 1; i <= 3000; i++) {
        RLClockAdvance(clock_of_loop, 0.067098);
        ck_assert_int_eq(tick.calls, i);
    }
    RLRelease(clock_of_loop);
}

static void begin_again(Probe *self) {
    RLTimerSetNextFireDelay(self->timer, 0);
}

RL_TEST(an_instant_without_end, "S-CLK-6", "A timer that is due again and again at one instant is left after a thousand passes") {
    use_clock();
    static Probe tick = {.action = begin_again};
    add_timer(&tick, date_in(1), 1, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 1);
    ck_assert_int_ge(tick.calls, 1000);
    ck_assert_int_le(tick.calls, 1010);
    RLRelease(clock_of_loop);
}

static void advance_in_callback(Probe *self) {
    (void)self;
    ck_assert(!RLSetClock(RLGetCurrent(), NULL));
    RLClockAdvance(clock_of_loop, 10);
    note_time(self);
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 11));
}

RL_TEST(a_move_in_a_callback, "S-CLK-2 S-CLK-6", "In a callback the clock is moved and the loop follows later; its clock cannot be changed meanwhile") {
    use_clock();
    static Probe mover = {.name = "mover", .action = advance_in_callback}, timer = {.name = "t", .action = note_time};
    add_timer(&mover, date_in(1), 0, kRLDefaultMode);
    add_timer(&timer, date_in(5), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("mover t");
    ck_assert(is(seen[0], 1) && is(seen[1], 5));
    ck_assert(is(passed(), 11));
    RLRelease(clock_of_loop);
}

static void try_from_elsewhere(void *loop) { ck_assert(!RLSetClock(loop, clock_of_loop)); }

RL_TEST(who_gets_a_clock, "S-CLK-2", "A clock is given to the thread's own loop, while it has no timers, and kept by it") {
    use_clock();
    RLRunLoopRef loop = RLGetCurrent();
    ck_assert_ptr_eq(RLGetClock(loop), clock_of_loop);
    ck_assert_int_eq(RLGetRetainCount(clock_of_loop), 2);
    thread_join(thread_start(try_from_elsewhere, loop));
    ck_assert(!RLSetClock(NULL, clock_of_loop));
    static Probe timer = {.name = "t"};
    add_timer(&timer, date_in(1), 0, "other");
    ck_assert(!RLSetClock(loop, NULL));
    RLTimerInvalidate(timer.timer);
    RLPerformAfterDelay(kRLDefaultMode, 1, NULL, call_stop, loop, NULL);
    ck_assert(!RLSetClock(loop, NULL));
    RLClockAdvance(clock_of_loop, 1);
    ck_assert(RLSetClock(loop, NULL));
    ck_assert_ptr_null(RLGetClock(loop));
    ck_assert_ptr_null(RLGetClock(NULL));
    ck_assert_int_eq(RLGetRetainCount(clock_of_loop), 1);
    ck_assert(RLAbsoluteTimeGetCurrent() < start + 1 || RLClockGetTime(NULL) >= start + 1);
    ck_assert(RLSetClock(loop, clock_of_loop));
    RLRelease(clock_of_loop);
}

RL_MAIN_TEST(the_main_loop_gets_a_clock, "S-CLK-2 S-LOOP-3", "The main thread gives its loop a clock though it has asked for the main loop only") {
    RLClockRef clock = RLClockCreateManual();
    RLRunLoopRef loop = RLGetMain();
    ck_assert(RLSetClock(loop, clock));
    static Probe timer = {.name = "t"};
    RLTimerRef made = probe_timer(&timer, RLClockGetTime(clock) + 1000, 0);
    RLAddTimer(loop, made, kRLDefaultMode);
    RLClockAdvance(clock, 1000);
    ck_assert_int_eq(timer.calls, 1);
    RLRelease(made);
    RLRelease(clock);
}

RL_TEST(a_common_timer_in_no_mode, "S-CLK-2 S-CLK-3 S-MODE-26", "A timer that is a common item and in no mode keeps its loop's clock, by which it fires in a mode that becomes common") {
    RLRunLoopRef loop = RLGetCurrent();
    RLClockRef other = RLClockCreateManual();
    static Probe timer;
    RLRetain(add_timer(&timer, RLAbsoluteTimeGetCurrent() + 1000, 0, kRLCommonModes));
    RLRemoveTimer(loop, timer.timer, kRLDefaultMode);
    ck_assert(!RLSetClock(loop, other));
    RLRemoveTimer(loop, timer.timer, kRLCommonModes);
    ck_assert(RLSetClock(loop, other));
    RLClockSetWallTime(other, RLClockGetTime(other) + 2000);
    RLAddTimer(loop, timer.timer, kRLCommonModes);
    RLRemoveTimer(loop, timer.timer, kRLDefaultMode);
    RLAddCommonMode(loop, "later");
    RLRunInMode("later", 0, false);
    ck_assert_int_eq(timer.calls, 1);
    RLRelease(timer.timer);
    RLRelease(other);
}

static void make_and_keep(void *clock) { ck_assert(RLSetClock(RLGetCurrent(), clock)); }

RL_TEST(the_end_of_a_thread_gives_the_clock_back, "S-CLK-2", "A loop whose thread has ended has no clock any more") {
    RLClockRef clock = RLClockCreateManual();
    thread_join(thread_start(make_and_keep, clock));
    ck_assert_int_eq(RLGetRetainCount(clock), 1);
    RLClockAdvance(clock, 1);
    RLRelease(clock);
}

RL_TEST(dates_of_other_clocks, "S-CLK-4", "A timer made by the system's clock gets its instant anew in the loop; a past date means now, in the order of the adds") {
    use_clock();
    RLClockAdvance(clock_of_loop, 100);
    static Probe before = {.name = "before"}, again = {.name = "again"}, after = {.name = "after"};
    RLTimerRef past = probe_timer(&before, start + 50, 0), past_too = probe_timer(&again, start + 20, 0);
    RLTimerRef future = probe_timer(&after, start + 101, 0);
    RLAddTimer(RLGetCurrent(), past, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), past_too, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), future, kRLDefaultMode);
    ck_assert(RLTimerGetNextFireDate(past) == start + 50);
    RLClockAdvance(clock_of_loop, 0);
    expect_trace("before again");
    RLClockAdvance(clock_of_loop, 0.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("after");
    RLRelease(past), RLRelease(past_too), RLRelease(future), RLRelease(clock_of_loop);
}

RL_TEST(common_timers_of_other_clocks, "S-CLK-4", "A timer that comes in as a common item gets its instant anew as well")  {
    use_clock();
    /* What the loop's clock has before it the system's has behind it. */
    RLClockSetWallTime(clock_of_loop, start - 1000);
    static Probe timer = {.name = "t"};
    RLTimerRef t = probe_timer(&timer, date_in(10), 0);
    take_time(0.001);
    RLAddTimer(RLGetCurrent(), t, kRLCommonModes);
    RLClockAdvance(clock_of_loop, 9.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("t");
    RLRelease(t), RLRelease(clock_of_loop);
}

RL_TEST(back_to_the_systems_clock, "S-CLK-4 S-CLK-2", "A timer that leaves for a loop with the system's clock has its date there") {
    use_clock();
    static Probe timer = {.name = "t"};
    RLTimerRef t = probe_timer(&timer, date_in(3600), 0);
    RLAddTimer(RLGetCurrent(), t, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 3000);
    RLRemoveTimer(RLGetCurrent(), t, kRLDefaultMode);
    ck_assert(RLSetClock(RLGetCurrent(), NULL));
    RLTimerSetNextFireDate(t, start - 1);
    RLAddTimer(RLGetCurrent(), t, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("t");
    RLRelease(t), RLRelease(clock_of_loop);
}

RL_TEST(repeating_by_parts_of_a_second, "S-CLK-4 S-CLK-5", "A thousand moves by a third of a second meet a thousand fires") {
    use_clock();
    static Probe tick;
    add_timer(&tick, date_in(1.0 / 3), 1.0 / 3, kRLDefaultMode);
    for (int i = 1; i <= 1000; i++) {
        RLClockAdvance(clock_of_loop, 1.0 / 3);
        ck_assert_int_eq(tick.calls, i);
    }
    RLRelease(clock_of_loop);
}

static void note_function(void *word) { trace("%s", (const char *)word), note_time(NULL); }

RL_TEST(the_grid_meets_its_dates, "S-TMR-33 S-CLK-5", "The instants of a repeating timer are those of one-shots with its dates, whatever its interval is") {
    use_clock();
    static Probe once = {.name = "once"}, often = {.name = "often"};
    static const double intervals[] = {4, 4.1, 0.3, 0.1, 1.1, 16.4};
    for (int i = 0; i < 6; i++) {
        start = RLClockGetTime(clock_of_loop);
        add_timer(&once, start + intervals[i], 0, kRLDefaultMode);
        RLTimerRef timer = add_timer(&often, start, intervals[i], kRLDefaultMode);
        RLClockAdvance(clock_of_loop, 0);
        expect_trace("often");
        RLClockAdvance(clock_of_loop, intervals[i]);
        expect_trace("once often");
        RLTimerInvalidate(timer);
    }
    RLRelease(clock_of_loop);
}

RL_TEST(delayed_requests_and_deadlines, "S-CLK-3", "Delayed requests, the deadline of a run, and the limit of a wait that runs the loop go by the clock") {
    use_clock();
    RLPerformAfterDelay(kRLDefaultMode, 60, NULL, note_function, "delayed", NULL);
    RLPerformAfterDelay(kRLDefaultMode, 0, NULL, note_function, "at once", NULL);
    RLClockAdvance(clock_of_loop, 30);
    expect_trace("at once");
    RLClockAdvance(clock_of_loop, 30);
    expect_trace("delayed");
    ck_assert(is(seen[1], 60));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 1000, false, TimedOut);
    ck_assert(is(passed(), 1060));
    static RLCondition condition = RL_CONDITION_INIT;
    RLLockLock(&condition.lock);
    ck_assert(!RLConditionWaitInMode(&condition, kRLDefaultMode, 500));
    RLLockUnlock(&condition.lock);
    ck_assert(is(passed(), 1560));
    RLRelease(clock_of_loop);
}

static RLLock lock_of_another = RL_LOCK_INIT;
static Gate lock_is_taken = GATE_INITIALIZER, lock_is_wanted_no_more = GATE_INITIALIZER, lock_is_free = GATE_INITIALIZER;
static void own_the_lock(void *unused) {
    (void)unused;
    RLLockLock(&lock_of_another);
    gate_open(&lock_is_taken);
    gate_wait(&lock_is_wanted_no_more);
    RLLockUnlock(&lock_of_another);
    gate_open(&lock_is_free);
}
static void move_and_stop(RLTimerRef timer, void *unused) {
    (void)timer, (void)unused;
    RLClockAdvance(clock_of_loop, 10);
    RLStop(RLGetCurrent());
}
static void have_it_unlocked(RLTimerRef timer, void *unused) {
    (void)timer, (void)unused;
    gate_open(&lock_is_wanted_no_more);
    gate_wait(&lock_is_free);
}
static void move_and_stop_at_once(void *unused) { move_and_stop(NULL, unused); }
static void add_timer_in(double seconds, RLTimerCallBack function) {
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + seconds, 0, 0, 0, function, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
}

RL_TEST(a_stopped_wait_for_a_lock, "S-SYNC-24 S-CLK-14", "The limit of a wait for a lock goes by the loop's own time also if a run of the wait is stopped while the loop is behind its clock") {
    use_clock();
    add_timer_in(1, move_and_stop);
    add_timer_in(2, have_it_unlocked);
    Thread *owner = thread_start(own_the_lock, NULL);
    gate_wait(&lock_is_taken);
    RLClockSetAutomatic(clock_of_loop, true);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, move_and_stop_at_once, NULL, NULL);
    ck_assert(RLLockInMode(&lock_of_another, kRLDefaultMode, 5));
    ck_assert(is(passed(), 2));
    RLLockUnlock(&lock_of_another);
    thread_join(owner);
    RLRelease(clock_of_loop);
}

RL_TEST(tolerance_by_the_clock, "S-CLK-3", "A timer with a tolerance fires between its date and the end of that, at the latest with the next timer") {
    use_clock();
    static Probe patient = {.name = "patient", .action = note_time}, exact = {.name = "exact", .action = note_time};
    RLTimerSetTolerance(add_timer(&patient, date_in(1), 0, kRLDefaultMode), 5);
    add_timer(&exact, date_in(3), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("patient exact");
    ck_assert(seen[0] >= 1 && seen[0] <= 3 && is(seen[1], 3));
    RLRelease(clock_of_loop);
}

RL_TEST(to_the_next_instant, "S-CLK-8", "AdvanceToNext goes from date to date of the default mode, and says when there is none") {
    use_clock();
    static Probe a = {.name = "a"}, b = {.name = "b"}, other = {.name = "other"};
    add_timer(&b, date_in(7), 0, kRLDefaultMode);
    add_timer(&a, date_in(3), 0, kRLDefaultMode);
    add_timer(&other, date_in(1), 0, "other");
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    expect_trace("a");
    ck_assert(is(passed(), 3));
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    expect_trace("b");
    ck_assert(is(passed(), 7));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    RLRelease(clock_of_loop);
}

static Probe sooner = {.name = "sooner"}, far_off = {.name = "far off"};
static void add_sooner(void *unused) {
    (void)unused;
    add_timer(&sooner, date_in(1), 0, kRLDefaultMode);
}

RL_TEST(to_the_next_instant_after_what_is_queued, "S-CLK-8",
        "What is queued for the thread's loop is done on the way of AdvanceToNext; a move by nothing before it does it first, and the instant that comes of it is the next one") {
    for (int comes_first = 0; comes_first < 2; comes_first++) {
        use_clock();
        add_timer(&far_off, date_in(5), 0, kRLDefaultMode);
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, add_sooner, NULL, NULL);
        if (comes_first) RLClockAdvance(clock_of_loop, 0);
        ck_assert(RLClockAdvanceToNext(clock_of_loop));
        expect_trace(comes_first ? "sooner" : "sooner far off");
        ck_assert(is(passed(), comes_first ? 1 : 5));
        ck_assert(RLClockAdvanceToNext(clock_of_loop) == comes_first);
        expect_trace(comes_first ? "far off" : "");
        RLSetClock(RLGetCurrent(), NULL);
        RLRelease(clock_of_loop);
    }
}

RL_TEST(to_the_next_instant_of_a_hosts_wait, "S-CLK-8", "In a foreign run's wait AdvanceToNext goes to the timers' instants as they are now") {
    use_clock();
    static Probe moved = {.name = "moved"}, gone = {.name = "gone"};
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLTimerRef timer = add_timer(&moved, date_in(10), 0, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLTimerSetNextFireDate(timer, start + 100);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 100));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    /* The new date counts as a wake-up. */
    for (int pass = 0; pass < 2; pass++) {
        RLForeignRunPrepare(run);
        RLForeignRunDispatch(run);
    }
    expect_trace("moved");
    timer = add_timer(&gone, date_in(10), 0, kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLTimerInvalidate(timer);
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 100));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

static void advance_a_day(void *clock) { RLClockAdvance(clock, 86400); }

RL_TEST(the_clock_is_moved_by_another_thread, "S-CLK-5 S-CLK-7", "A loop that waits follows without a pass that has no cause, and has done so when the call returns") {
    use_clock();
    RLRunLoopRef loop = RLGetCurrent();
    static Probe tick = {.name = "t", .action = note_time}, last = {.name = "last", .action = action_stop};
    add_timer(&tick, date_in(20000), 20000, kRLDefaultMode);
    add_timer(&last, date_in(86400), 0, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    Thread *thread = when_waiting(loop, advance_a_day, clock_of_loop);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW AW t BT BS BW AW t BT BS BW AW t BT BS BW AW t BT BS BW AW last X");
    ck_assert(is(seen[3], 80000));
    RLRelease(clock_of_loop);
}

static void two_loops_body(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    Probe *probe = self->data;
    add_timer(probe, date_in(10), 10, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}

RL_TEST(two_loops_share_a_clock, "S-CLK-1 S-CLK-7 S-CLK-8", "When a move returns the loops of all threads have done what was due; the next instant is the earliest of all") {
    use_clock();
    static Probe mine = {.name = "mine"}, others;
    add_timer(&mine, date_in(15), 0, kRLDefaultMode);
    LoopThread other;
    loop_thread_start(&other, two_loops_body, &others);
    wait_until_waiting(other.loop);
    for (int i = 1; i <= 200; i++) {
        RLClockAdvance(clock_of_loop, 10);
        ck_assert_int_eq(count_of(&others.calls), i);
    }
    expect_trace("mine");
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert_int_eq(count_of(&others.calls), 201);
    ck_assert(is(passed(), 2010));
    RLStop(other.loop);
    thread_join(other.thread);
    RLRelease(clock_of_loop);
}

static void hold_until_open(Probe *self) {
    gate_open(self->data);
    take_time(0.002);
    trace("done");
}

static void run_held(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    Probe *probe = self->data;
    add_source(probe, kRLDefaultMode);
    static Probe timer = {.name = "t", .action = action_stop};
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    RLSourceSignal(probe->source);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}

RL_TEST(a_busy_loop_is_waited_for, "S-CLK-7", "A move returns after the callback of another loop, and after what was due then") {
    use_clock();
    Gate entered = GATE_INITIALIZER;
    static Probe source = {.action = hold_until_open};
    source.data = &entered;
    LoopThread other;
    loop_thread_start(&other, run_held, &source);
    gate_wait(&entered);
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("done t");
    thread_join(other.thread);
    RLRelease(clock_of_loop);
}

static void add_and_end(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    Probe *probe = self->data;
    add_timer(probe, date_in(1), 0, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1e10, false);
}
static void end_thread(Probe *self) {
    (void)self;
    pthread_exit(NULL);
}

RL_TEST(a_thread_that_ends_on_the_way, "S-CLK-7", "A move does not wait for a loop whose callback ended its thread") {
    use_clock();
    static Probe timer = {.name = "t", .action = end_thread};
    LoopThread other;
    loop_thread_start(&other, add_and_end, &timer);
    wait_until_waiting(other.loop);
    RLClockAdvance(clock_of_loop, 1);
    thread_join(other.thread);
    expect_trace("t");
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    RLRelease(clock_of_loop);
}

RL_TEST(time_goes_on_by_itself, "S-CLK-9", "With an automatic clock a run takes no time, and its callbacks have their dates") {
    use_clock();
    RLClockSetAutomatic(clock_of_loop, true);
    static Probe tick = {.name = "t", .action = note_time}, last = {.name = "last", .action = action_stop};
    add_timer(&tick, date_in(3600), 3600, kRLDefaultMode);
    add_timer(&last, date_in(3 * 3600), 0, kRLDefaultMode);
    double begin = monotonic_now();
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
    ck_assert(monotonic_now() - begin < 60);
    expect_trace("t t last t");
    ck_assert(is(seen[0], 3600) && is(seen[1], 7200) && is(seen[2], 10800));
    RLRelease(clock_of_loop);
}

static void read_and_note(Probe *self) {
    read_byte(self->fd);
    note_time(self);
}
static void write_two(Probe *self) {
    write_byte(self->value);
    write_byte(self->value);
}

RL_TEST(time_waits_for_descriptors, "S-CLK-9 S-CLK-3", "An automatic clock stands still while a port is ready") {
    use_clock();
    RLClockSetAutomatic(clock_of_loop, true);
    int ends[2];
    make_pipe(ends);
    static Probe port = {.name = "port", .action = read_and_note}, writer = {.name = "w", .action = write_two};
    static Probe last = {.name = "last", .action = action_stop};
    writer.value = ends[1];
    add_port(&port, ends[0], kRLDefaultMode);
    add_timer(&writer, date_in(10), 0, kRLDefaultMode);
    add_timer(&last, date_in(20), 0, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
    expect_trace("port w port port last");
    ck_assert(is(seen[0], 0) && is(seen[1], 10) && is(seen[2], 10));
    RLRelease(clock_of_loop);
}

static void automatic_loop(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    Probe *probe = self->data;
    add_timer(probe, start + (double)probe->value, 200, kRLDefaultMode);
    expect_run(kRLDefaultMode, 100000.0 - passed(), false, TimedOut);
}

RL_TEST(two_automatic_loops, "S-CLK-9", "A shared clock goes on when both loops sleep: both come to the end, each with all its fires") {
    use_clock();
    static Probe a = {.value = 100}, b = {.value = 200};
    LoopThread first, second;
    loop_thread_start(&first, automatic_loop, &a);
    loop_thread_start(&second, automatic_loop, &b);
    wait_until_waiting(first.loop);
    wait_until_waiting(second.loop);
    RLClockSetAutomatic(clock_of_loop, true);
    thread_join(first.thread);
    thread_join(second.thread);
    ck_assert_int_eq(a.calls, 500);
    ck_assert_int_ge(b.calls, 499);
    RLRelease(clock_of_loop);
}

static LoopThread sleeper;
static Gate sleeper_is_there;
static bool is_invalidated;

static void sleep_for_a_timer(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_timer(self->data, start + 10, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
}

static void end_the_timer(Probe *self) {
    gate_open(self->data);
    gate_wait(&sleeper_is_there);
    wait_until_waiting(sleeper.loop);
    take_time(0.05);
    Probe *probe = sleeper.data;
    if (is_invalidated) RLTimerInvalidate(probe->timer);
    else RLRemoveTimer(sleeper.loop, probe->timer, kRLDefaultMode);
}

static void run_ender(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    RLSourceSignal(add_source(self->data, kRLDefaultMode));
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
}

static void expect_no_move(void) {
    use_clock();
    RLClockSetAutomatic(clock_of_loop, true);
    Gate entered = GATE_INITIALIZER;
    sleeper_is_there = (Gate)GATE_INITIALIZER;
    Probe ender = {.action = end_the_timer, .data = &entered}, timer = {.name = "t"};
    LoopThread other;
    loop_thread_start(&other, run_ender, &ender);
    gate_wait(&entered);
    loop_thread_start(&sleeper, sleep_for_a_timer, &timer);
    gate_open(&sleeper_is_there);
    wait_until_waiting(other.loop);
    take_time(0.05);
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 0));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    RLStop(sleeper.loop);
    RLStop(other.loop);
    thread_join(sleeper.thread);
    thread_join(other.thread);
    RLSetClock(RLGetCurrent(), NULL);
    RLRelease(clock_of_loop);
}

RL_TEST(an_instant_that_is_gone, "S-CLK-8 S-CLK-9", "An automatic clock does not go to the date of a timer that another thread has removed or invalidated") {
    expect_no_move();
    is_invalidated = true;
    expect_no_move();
}

RL_TEST(steps_and_suspension, "S-CLK-10", "A step of the date and a suspension leave instants alone; dates given later mean the new time") {
    use_clock();
    static Probe set = {.name = "set"}, later = {.name = "later"}, asleep = {.name = "asleep"};
    add_timer(&set, date_in(10), 0, kRLDefaultMode);
    RLClockSetWallTime(clock_of_loop, start + 5000);
    ck_assert(is(passed(), 5000));
    RLClockAdvance(clock_of_loop, 9.5);
    expect_trace("");
    add_timer(&later, start + 5011, 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 0.5);
    expect_trace("set");
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("later");
    add_timer(&asleep, date_in(10), 0, kRLDefaultMode);
    RLClockSuspend(clock_of_loop, 3600);
    ck_assert(is(passed(), 5011 + 3600));
    RLClockAdvance(clock_of_loop, 9);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("asleep");
    RLRelease(clock_of_loop);
}

static void in_child(void *unused) {
    (void)unused;
    RLClockAdvance(clock_of_loop, 1);
    ck_assert_int_eq(trace_count("t"), 1);
    ck_assert(is(passed(), 1));
}

RL_TEST(the_child_has_its_own, "S-CLK-12", "The child of fork moves its clock, and the parent's stands") {
    use_clock();
    static Probe timer = {.name = "t"};
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    ChildResult child = run_child(in_child, NULL);
    ck_assert_msg(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0, "%s", child.output);
    ck_assert(is(passed(), 0));
    expect_trace("");
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("t");
    RLRelease(clock_of_loop);
}

static void move_and_end_the_run(void *unused) {
    (void)unused;
    RLClockAdvance(clock_of_loop, 5);
    RLStop(RLGetCurrent());
}
static void expect_time_to_stand(void *unused) {
    (void)unused;
    ck_assert(is(passed(), 0));
}

RL_TEST(the_child_stands_where_the_parent_does, "S-CLK-12 S-CLK-14",
        "A loop whose run has ended before it came to the clock's time stays where it is in the child of fork, too") {
    use_clock();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, move_and_end_the_run, NULL, NULL);
    expect_run(kRLDefaultMode, 1, false, Stopped);
    ChildResult child = run_child(expect_time_to_stand, NULL);
    ck_assert_msg(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0, "%s", child.output);
    expect_time_to_stand(NULL);
    RLRelease(clock_of_loop);
}

RL_TEST(a_delay, "S-TMR-56", "A delay sets date and instant by the clock of the loop; 0 is due at once, NaN never, and a grid begins anew") {
    use_clock();
    static Probe timer = {.name = "t"}, tick = {.name = "tick"};
    RLTimerRef t = add_timer(&timer, NAN, 0, kRLDefaultMode);
    RLTimerSetReusable(t, true);
    RLTimerSetNextFireDelay(t, 5);
    ck_assert(is(RLTimerGetNextFireDate(t) - start, 5));
    RLClockAdvance(clock_of_loop, 4.999999);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.000001);
    expect_trace("t");
    RLTimerSetNextFireDelay(t, -1);
    RLClockAdvance(clock_of_loop, 0);
    expect_trace("t");
    RLTimerSetNextFireDelay(t, NAN);
    RLClockAdvance(clock_of_loop, 1e9);
    expect_trace("");
    RLTimerSetNextFireDelay(NULL, 1);
    add_timer(&tick, date_in(100), 10, kRLDefaultMode);
    RLTimerSetNextFireDelay(tick.timer, 1);
    RLClockAdvance(clock_of_loop, 21);
    expect_trace("tick tick tick");
    RLRetain(t);
    RLTimerInvalidate(t);
    RLTimerSetNextFireDelay(t, 1);
    ck_assert(RLTimerGetNextFireDate(t) == 0);
    RLRelease(t);
    RLRelease(clock_of_loop);
}

RL_TEST(a_delay_by_the_systems_clock, "S-TMR-56", "Without a clock of the program's the delay is one of the monotonic clock") {
    static Probe timer = {.name = "t", .action = action_stop};
    RLTimerRef t = add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    double begin = monotonic_now();
    RLTimerSetNextFireDelay(t, 0.01);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    ck_assert(monotonic_now() - begin >= 0.01);
    expect_trace("t");
}

static void run_with_the_systems_clock(void *timer) {
    /* By the clock of the other thread's loop the delay would end in a day. */
    ck_assert(RLTimerGetNextFireDate(timer) < date_in(3600));
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 30, false, Finished);
}

RL_TEST(a_delay_in_no_loop, "S-TMR-56 S-CLK-4",
        "A timer that was removed from a loop with a clock of the program's, and one that never was in a loop, get their delay by the system's clock") {
    use_clock();
    for (int was_in_loop = 0; was_in_loop < 2; was_in_loop++) {
        Probe probe = {.name = "t"};
        RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
        if (was_in_loop) {
            RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
            RLRemoveTimer(RLGetCurrent(), timer, kRLDefaultMode);
        }
        RLClockAdvance(clock_of_loop, 86400);
        RLTimerSetNextFireDelay(timer, 0.005);
        thread_join(thread_start(run_with_the_systems_clock, timer));
        expect_trace("t");
        RLRelease(timer);
    }
    RLRelease(clock_of_loop);
}

static void leave_and_delay(Probe *self) {
    RLRemoveTimer(RLGetCurrent(), self->timer, kRLDefaultMode);
    RLTimerSetNextFireDelay(self->timer, 10);
    ck_assert(RLTimerGetNextFireDate(self->timer) < RLClockGetTime(NULL) + 11);
    if (self->value && self->calls == 1) RLAddTimer(RLGetCurrent(), self->timer, kRLDefaultMode);
}

RL_TEST(a_delay_after_the_removal_in_the_callback, "S-TMR-56 S-CLK-4",
        "A timer that its callback has removed gets its delay by the system's clock; added back, it means that date by the loop's clock") {
    use_clock();
    RLClockAdvance(clock_of_loop, 1e6);
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        static Probe probe = {.name = "t", .action = leave_and_delay};
        probe.value = comes_back;
        probe.calls = 0;
        RLTimerRef timer = probe_timer(&probe, -1, 100);
        RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
        RLClockAdvance(clock_of_loop, 0);
        expect_trace(comes_back ? "t t" : "t");
        RLTimerInvalidate(timer);
        RLRelease(timer);
    }
    RLRelease(clock_of_loop);
}

static double time_left(RLTimerRef timer) {
    char *text = RLCopyDescription((RLTypeRef)timer), *from = strstr(text, "(in ");
    double left = from ? strtod(from + 4, NULL) : NAN;
    free(text);
    return left;
}

RL_TEST(the_time_left_in_a_description, "S-SEE-6 S-TMR-56", "A timer's description says how long it is to its date by the clock that gave its instant") {
    use_clock();
    RLClockAdvance(clock_of_loop, 1e6);
    Probe probe = {.name = "t"};
    RLTimerRef timer = probe_timer(&probe, date_in(10), 0);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    ck_assert(is(time_left(timer), 10));
    RLRemoveTimer(RLGetCurrent(), timer, kRLDefaultMode);
    ck_assert(is(time_left(timer), 10));
    RLTimerSetNextFireDelay(timer, 10);
    ck_assert(time_left(timer) > -50 && time_left(timer) <= 10);
    RLRelease(timer);
    RLRelease(clock_of_loop);
}

static void arm_again(Probe *self) {
    note_time(self);
    if (self->calls == 2) RLTimerSetNextFireDelay(self->timer, 3);
}

RL_TEST(a_one_shot_that_stays, "S-TMR-57", "A reusable one-shot stays valid and in its mode, without a date until it gets one, in its callback or later") {
    use_clock();
    static Probe timer = {.name = "t", .action = arm_again, .counted = true};
    RLTimerRef t = add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    RLTimerSetReusable(t, true);
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("t");
    ck_assert(RLTimerIsValid(t));
    ck_assert(!RLTimerDoesRepeat(t));
    ck_assert(isnan(RLTimerGetNextFireDate(t)));
    ck_assert(RLContainsTimer(RLGetCurrent(), t, kRLDefaultMode));
    ck_assert(!RLIsModeEmpty(kRLDefaultMode));
    RLTimerSetNextFireDate(t, date_in(1));
    RLClockAdvance(clock_of_loop, 10);
    expect_trace("t t");
    ck_assert(is(seen[1], 11) && is(seen[2], 14));
    RLRetain(t);
    RLTimerSetReusable(t, false);
    RLTimerSetNextFireDelay(t, 0);
    RLClockAdvance(clock_of_loop, 0);
    expect_trace("t");
    ck_assert(!RLTimerIsValid(t));
    ck_assert(!RLContainsTimer(RLGetCurrent(), t, kRLDefaultMode));
    RLTimerSetReusable(NULL, true);
    RLTimerSetReusable(t, true);
    ck_assert(!RLTimerIsValid(t));
    RLRelease(t);
    ck_assert_int_eq(timer.retains, timer.releases);
    RLRelease(clock_of_loop);
}
