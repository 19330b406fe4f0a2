/* SPDX-License-Identifier: MIT */
/* Section 41: clocks that several callers move, in callbacks too, and to the end of time. Nothing here waits for time. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <math.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static RLClockRef clock_of_loop;
static RLAbsoluteTime start;

static void use_clock(void) {
    clock_of_loop = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    start = RLClockGetTime(clock_of_loop);
}
static double passed(void) { return RLAbsoluteTimeGetCurrent() - start; }
static bool is(double time, double expected) { return fabs(time - expected) < 1e-6; }

RL_TEST(the_end_of_time, "S-CLK-11", "A clock that is moved for ever comes to its latest instant and stays there, and so do its date and what is due") {
    use_clock();
    for (int i = 0; i < 40; i++) RLClockAdvance(clock_of_loop, INFINITY);
    const double end = RLClockGetTime(clock_of_loop) - start;
    ck_assert(end > 1e9);
    ck_assert(is(passed(), end));
    static Probe tick = {.name = "t"};
    add_timer(&tick, NAN, INFINITY, kRLDefaultMode);
    RLTimerSetNextFireDelay(tick.timer, 1);
    RLClockAdvance(clock_of_loop, INFINITY);
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    RLTimerSetNextFireDelay(tick.timer, INFINITY);
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    expect_trace("");
    ck_assert(RLClockGetTime(clock_of_loop) - start == end);
    RLRelease(clock_of_loop);
}

RL_TEST(a_move_makes_no_passes_without_work, "S-CLK-6", "A source that is signalled, but only in another mode, is nothing to do for a move, which makes no passes for it") {
    use_clock();
    static Probe far, passes, other;
    add_timer(&far, date_in(1e6), 0, kRLDefaultMode);
    add_observer(&passes, kRLBeforeTimers, kRLDefaultMode);
    RLSourceRef source = add_source(&other, "other");
    RLSourceSignal(source);
    RLClockAdvance(clock_of_loop, 1);
    const int first = passes.calls;
    RLClockAdvance(clock_of_loop, 1);
    ck_assert_int_le(first, 3);
    ck_assert_int_le(passes.calls - first, 3);
    ck_assert_int_eq(other.calls, 0);
    /* And it is none of those that the other mode forgets. */
    RLRunInMode("other", 0, false);
    ck_assert_int_eq(other.calls, 1);
    RLRelease(clock_of_loop);
}

static RLSourceRef of_two_loops;
static Gate second_is_ready = GATE_INITIALIZER, is_signalled = GATE_INITIALIZER;
static void perform_in_second_loop(void *unused) {
    (void)unused;
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    RLAddSource(RLGetCurrent(), of_two_loops, kRLDefaultMode);
    gate_open(&second_is_ready);
    gate_wait(&is_signalled);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
}

RL_TEST(what_another_loop_has_performed_is_no_work, "S-CLK-6 S-SRC-31", "A source that another loop of its has performed is nothing to do for a move of the clock") {
    use_clock();
    static Probe passes, shared = {.name = "s"}, idle;
    add_source(&idle, kRLDefaultMode);
    add_observer(&passes, kRLBeforeSources, kRLDefaultMode);
    of_two_loops = probe_source(&shared, 0);
    Thread *second = thread_start(perform_in_second_loop, NULL);
    gate_wait(&second_is_ready);
    RLAddSource(RLGetCurrent(), of_two_loops, kRLDefaultMode);
    RLSourceSignal(of_two_loops);
    gate_open(&is_signalled);
    thread_join(second);
    expect_trace("s");
    RLClockAdvance(clock_of_loop, 0);
    RLClockAdvance(clock_of_loop, 1);
    RLClockAdvanceToNext(clock_of_loop);
    ck_assert_int_le(passes.calls, 4);
    RLSourceInvalidate(of_two_loops);
    RLRelease(of_two_loops);
    RLRelease(clock_of_loop);
}

static void run_third_mode(Probe *self) { RLRunInMode("third", 0, self->value); }

RL_TEST(what_a_nested_run_passes_over_is_no_work, "S-CLK-6", "Nor is one that is signalled in a second mode, if an observer runs a third one in each pass") {
    use_clock();
    static Probe passes, idle, also_idle, parked, nest = {.action = run_third_mode};
    add_source(&idle, kRLDefaultMode);
    add_source(&also_idle, "third");
    RLSourceSignal(add_source(&parked, "second"));
    add_observer(&passes, kRLBeforeSources, kRLDefaultMode);
    add_observer(&nest, kRLExit, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 0);
    RLClockAdvance(clock_of_loop, 1);
    RLClockAdvanceToNext(clock_of_loop);
    ck_assert_int_le(passes.calls, 6);
    ck_assert_int_eq(parked.calls, 0);
    RLRelease(clock_of_loop);
}

RL_TEST(all_ages, "S-CLK-8 S-CLK-11", "A timer of the longest interval fires at each of its dates, until the clock has come to its latest instant") {
    use_clock();
    static Probe tick;
    add_timer(&tick, date_in(INFINITY), INFINITY, kRLDefaultMode);
    int moves = 0;
    while (moves < 100 && RLClockAdvanceToNext(clock_of_loop)) moves++;
    ck_assert_int_ge(moves, 6);
    ck_assert_int_le(moves, 10);
    ck_assert_int_eq(tick.calls, moves);
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, moves * 504911232.0));
    RLRelease(clock_of_loop);
}

RL_TEST(dates_of_all_ages, "S-CLK-10 S-CLK-11", "A clock shows no date before 1970, and suspensions end where dates do; timers are due all the same") {
    use_clock();
    static Probe tick = {.name = "t"};
    add_timer(&tick, date_in(1), 0, kRLDefaultMode);
    for (int i = 0; i < 40; i++) RLClockSuspend(clock_of_loop, INFINITY);
    ck_assert(RLClockGetTime(clock_of_loop) > start + 2e9);
    RLClockSetWallTime(clock_of_loop, -INFINITY);
    ck_assert(RLClockGetTime(clock_of_loop) == -978307200.0);
    for (int i = 0; i < 9; i++) RLClockAdvance(clock_of_loop, INFINITY);
    expect_trace("t");
    RLClockSetWallTime(clock_of_loop, -INFINITY);
    static Probe last = {.name = "last"};
    add_timer(&last, INFINITY, 0, kRLDefaultMode);
    RLClockSetWallTime(clock_of_loop, INFINITY);
    for (int i = 0; i < 40; i++) RLClockSuspend(clock_of_loop, INFINITY);
    static Probe past = {.name = "past"};
    add_timer(&past, -INFINITY, 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 0);
    expect_trace("past");
    RLRelease(clock_of_loop);
}

RL_TEST(the_date_that_it_shows_has_come, "S-CLK-4 S-CLK-11 S-TMR-7", "In any year a timer whose date is the one that the clock shows is due at once") {
    use_clock();
    static Probe tick;
    for (int i = 0; i < 3000; i++) {
        RLClockSetWallTime(clock_of_loop, -978307200.0 + i * 1672532.654321);
        add_timer(&tick, RLClockGetTime(clock_of_loop), 0, kRLDefaultMode);
        RLClockAdvance(clock_of_loop, 0);
        ck_assert_msg(tick.calls == i + 1, "the timer of %.9f is not due then", RLClockGetTime(clock_of_loop));
    }
    RLRelease(clock_of_loop);
}

static void advance_to_the_limit(void *clock) {
    RLClockAdvance(clock, INFINITY);
    RLClockAdvance(clock, INFINITY);
}

RL_TEST(far_behind, "S-CLK-6", "A loop that another thread left behind by more than the longest interval comes to the clock's time") {
    use_clock();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    thread_join(thread_start(advance_to_the_limit, clock_of_loop));
    RLClockAdvance(clock_of_loop, 1);
    ck_assert(is(passed(), 2 * 504911232.0 + 1));
    RLRelease(clock_of_loop);
}

static int moves;
static void go_to_the_next(Probe *self) {
    (void)self;
    while (moves < 10 && RLClockAdvanceToNext(clock_of_loop)) moves++;
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 9));
}

RL_TEST(to_the_next_instant_in_a_callback, "S-CLK-6 S-CLK-8", "In a callback the clock goes to each later instant of the run, and says when there is none") {
    use_clock();
    static Probe mover = {.name = "mover", .action = go_to_the_next}, next = {.name = "next"}, last = {.name = "last"};
    static Probe same = {.name = "same"};
    add_timer(&mover, date_in(1), 0, kRLDefaultMode);
    add_timer(&same, date_in(1), 0, kRLDefaultMode);
    add_timer(&next, date_in(5), 0, kRLDefaultMode);
    add_timer(&last, date_in(9), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 1);
    ck_assert_int_eq(moves, 2);
    expect_trace("mover same next last");
    ck_assert(is(passed(), 9));
    RLRelease(clock_of_loop);
}

static Probe gone = {.name = "gone"};
static void sleep_with_a_timer(LoopThread *self) {
    (void)self;
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRetain(add_timer(&gone, date_in(5), 0, kRLDefaultMode));
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}

RL_TEST(an_instant_that_is_no_more, "S-CLK-8", "What another thread took from a loop that sleeps is no instant of it any more") {
    clock_of_loop = RLClockCreateManual();
    start = RLClockGetTime(clock_of_loop);
    LoopThread other;
    loop_thread_start(&other, sleep_with_a_timer, NULL);
    wait_until_waiting(other.loop);
    RLTimerSetNextFireDate(gone.timer, start + 7);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 7));
    expect_trace("gone");
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    RLStop(other.loop);
    thread_join(other.thread);
    RLRelease(gone.timer), RLRelease(clock_of_loop);
}

static int in_callbacks;
static void meet_and_advance(Probe *self) {
    __atomic_add_fetch(&in_callbacks, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&in_callbacks, 2);
    RLClockAdvance(clock_of_loop, 1);
    RLStop(self->loop);
}
static void run_mover(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    add_timer(self->data, start + 1, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}

RL_TEST(two_callbacks_move_the_clock, "S-CLK-7", "Callbacks of two loops that move the clock at once do not wait for each other") {
    clock_of_loop = RLClockCreateManual();
    start = RLClockGetTime(clock_of_loop);
    static Probe first = {.name = "t", .action = meet_and_advance}, second = {.name = "t", .action = meet_and_advance};
    LoopThread one, other;
    loop_thread_start(&one, run_mover, &first);
    loop_thread_start(&other, run_mover, &second);
    wait_until_waiting(one.loop);
    wait_until_waiting(other.loop);
    RLClockAdvance(clock_of_loop, 1);
    thread_join(one.thread);
    thread_join(other.thread);
    expect_trace("t t");
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 3));
    RLRelease(clock_of_loop);
}

/* Two callbacks: that of the thread `is_late` moves the clock, and the library comes to look at the other's loop only when the other's call has returned. */
static __thread bool is_late, is_early;
static long futex_of_wait;
static int late_calls, early_waits, late_waits, early_returned, late_returned;
static bool begins_late;
static bool delay_look(long number, const long argument[6], long *result) {
    const long operation = number == SYS_futex ? argument[1] & FUTEX_CMD_MASK : -1;
    if (is_early && operation == FUTEX_WAIT_BITSET && !early_returned) {
        __atomic_store_n(&futex_of_wait, argument[0], __ATOMIC_SEQ_CST);
        __atomic_store_n(&early_waits, 1, __ATOMIC_SEQ_CST);
    }
    const bool wakes = operation == FUTEX_WAKE && argument[0] == __atomic_load_n(&futex_of_wait, __ATOMIC_SEQ_CST);
    if (!is_late || !(begins_late ? wakes : operation == FUTEX_WAIT_BITSET)) return false;
    __atomic_store_n(&late_waits, 1, __ATOMIC_SEQ_CST);
    *result = system_call(number, argument);
    const int error = errno;
    wait_until_count(&early_returned, 1);
    errno = error;
    return true;
}
static void move_and_look_late(Probe *self) {
    __atomic_add_fetch(&late_calls, 1, __ATOMIC_SEQ_CST);
    if (begins_late) wait_until_count(&early_waits, 1);
    is_late = true;
    RLClockAdvance(clock_of_loop, 1);
    is_late = false;
    __atomic_store_n(&late_returned, 1, __ATOMIC_SEQ_CST);
    RLStop(self->loop);
}
static void move_and_wait_for_the_other(Probe *self) {
    wait_until_count(begins_late ? &late_calls : &late_waits, 1);
    is_early = true;
    RLClockAdvance(clock_of_loop, 1);
    is_early = false;
    __atomic_store_n(&early_returned, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&late_returned, 1);
    RLStop(self->loop);
}

RL_TEST(callbacks_that_move_the_clock_at_once, "S-CLK-7", "Of two callbacks that move the clock at once the second does not wait for the first, whose call has returned and which "
        "waits for it, whichever of the calls began first") {
    hook_system_calls(delay_look);
    for (int round = 0; round < 2; round++) {
        begins_late = round == 0;
        futex_of_wait = late_calls = early_waits = late_waits = early_returned = late_returned = 0;
        clock_of_loop = RLClockCreateManual();
        start = RLClockGetTime(clock_of_loop);
        Probe early = {.name = "t", .action = move_and_wait_for_the_other}, late = {.name = "t", .action = move_and_look_late};
        LoopThread one, other;
        loop_thread_start(&one, run_mover, &early);
        loop_thread_start(&other, run_mover, &late);
        wait_until_waiting(one.loop);
        wait_until_waiting(other.loop);
        RLClockAdvance(clock_of_loop, 1);
        thread_join(one.thread);
        thread_join(other.thread);
        expect_trace("t t");
        ck_assert(is(RLClockGetTime(clock_of_loop) - start, 3));
        RLRelease(clock_of_loop);
    }
    hook_system_calls(NULL);
}

static void arm_elsewhere(Probe *self) {
    RLTimerRef timer = self->timer;
    if (self->calls > 1) return;
    RLRemoveTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLAddTimer(self->data, timer, kRLDefaultMode);
}
static void give_away(LoopThread *self) {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    RLClockAdvance(clock, 1e6);
    /* The date is that of the other clock again. */
    RLClockSetWallTime(clock, RLClockGetTime(clock_of_loop));
    Probe *probe = self->data;
    add_timer(probe, date_in(1), 1, kRLDefaultMode);
    RLClockAdvance(clock, 1);
    RLRelease(clock);
}

RL_TEST(a_callback_moves_its_timer, "S-CLK-4 S-TMR-13", "A timer that its callback moves to a loop with another clock is due at its date there") {
    use_clock();
    static Probe tick = {.name = "t", .action = arm_elsewhere};
    tick.data = RLGetCurrent();
    LoopThread other;
    loop_thread_start(&other, give_away, &tick);
    thread_join(other.thread);
    expect_trace("t");
    ck_assert(is(RLTimerGetNextFireDate(tick.timer) - start, 2));
    RLClockAdvance(clock_of_loop, 1.5);
    expect_trace("");
    RLClockAdvance(clock_of_loop, 0.5);
    expect_trace("t");
    RLClockAdvance(clock_of_loop, 1);
    expect_trace("t");
    RLTimerInvalidate(tick.timer);
    RLRelease(clock_of_loop);
}

static void end_here(Probe *self) {
    if (self->calls == 1) pthread_exit(NULL);
}
static void end_in_callback(LoopThread *self) {
    Probe *probe = self->data;
    RLRetain(add_timer(probe, date_in(-1), 0, kRLDefaultMode));
    RLTimerSetReusable(probe->timer, true);
    RLRunInMode(kRLDefaultMode, 1e10, false);
}

RL_TEST(a_reusable_timer_outlives_its_thread, "S-TMR-57 S-LOOP-9", "A reusable one-shot whose callback ended the thread is valid without a date, and goes on in another loop") {
    use_clock();
    static Probe timer = {.name = "t", .action = end_here, .counted = true};
    LoopThread other;
    loop_thread_start(&other, end_in_callback, &timer);
    thread_join(other.thread);
    expect_trace("t");
    ck_assert(RLTimerIsValid(timer.timer));
    ck_assert(isnan(RLTimerGetNextFireDate(timer.timer)));
    RLAddTimer(RLGetCurrent(), timer.timer, kRLDefaultMode);
    RLTimerSetNextFireDelay(timer.timer, 3);
    RLClockAdvance(clock_of_loop, 3);
    expect_trace("t");
    RLTimerInvalidate(timer.timer);
    RLRelease(timer.timer), RLRelease(clock_of_loop);
    ck_assert_int_eq(timer.retains, timer.releases);
}

RL_TEST(parts_of_a_second_on_any_day, "S-CLK-4 S-CLK-5", "What is set for a third of a second from now and moved by a third meets, whatever the date is") {
    use_clock();
    static Probe tick;
    add_timer(&tick, FAR_FUTURE, 0, kRLDefaultMode);
    RLTimerSetReusable(tick.timer, true);
    for (int i = 1; i <= 2000; i++) {
        RLClockSetWallTime(clock_of_loop, start + i * 543210.987651);
        RLTimerSetNextFireDate(tick.timer, date_in(1.0 / 3));
        RLClockAdvance(clock_of_loop, 1.0 / 3);
        ck_assert_int_eq(tick.calls, i);
    }
    RLRelease(clock_of_loop);
}

enum { crowd = 100 };
static Probe crowd_of[crowd];
static int crowd_calls(void) {
    int calls = 0;
    for (int i = 0; i < crowd; i++) calls += count_of(&crowd_of[i].calls);
    return calls;
}

static void run_with_clock(LoopThread *self) {
    static Probe keep;
    (void)self;
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    add_source(&keep, kRLDefaultMode);
    expect_run(kRLDefaultMode, FAR_FUTURE, false, Stopped);
}

RL_TEST(a_crowd_at_one_instant, "S-CLK-5 S-CLK-7 S-CLK-8",
        "However many timers are due at an instant, a move reaches it, and a move to the next instant goes there and nowhere before; "
        "also in another thread's loop, and with tolerances") {
    for (int variant = 0; variant < 4; variant++) {
        const double tolerance = variant & 1 ? 0.25 : 0;
        LoopThread other;
        memset(crowd_of, 0, sizeof crowd_of);
        if (variant & 2) {
            clock_of_loop = RLClockCreateManual();
            start = RLClockGetTime(clock_of_loop);
            loop_thread_start(&other, run_with_clock, NULL);
            wait_until_waiting(other.loop);
        } else {
            use_clock();
            other.loop = RLGetCurrent();
        }
        for (int i = 0; i < crowd; i++) {
            probe_timer(&crowd_of[i], start + 10, i % 2 ? 100 : 0);
            RLTimerSetTolerance(crowd_of[i].timer, tolerance);
            RLAddTimer(other.loop, crowd_of[i].timer, kRLDefaultMode);
        }
        RLClockAdvance(clock_of_loop, 10 + tolerance);
        ck_assert_int_eq(crowd_calls(), crowd);
        ck_assert(RLClockAdvanceToNext(clock_of_loop));
        ck_assert_int_eq(crowd_calls(), crowd + crowd / 2);
        ck_assert(is(RLClockGetTime(clock_of_loop) - start, 110 + tolerance));
        for (int i = 0; i < crowd; i++) RLTimerInvalidate(crowd_of[i].timer);
        if (variant & 2) {
            RLStop(other.loop);
            thread_join(other.thread);
        } else {
            ck_assert(RLSetClock(RLGetCurrent(), NULL));
        }
        RLRelease(clock_of_loop);
    }
}

/* Two loops with one clock. The second waits without an instant of its own, from 0 on. */

static double seen_by_other, fired_by_other;
static RLCondition condition = RL_CONDITION_INIT;

static void other_waits(LoopThread *self) {
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    Probe *timer = self->data;
    if (timer) add_timer(timer, NAN, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
}
static void fire_in_other(void *info) {
    (void)info;
    fired_by_other = passed();
    RLStop(RLGetCurrent());
}
static void delay_in_other(void *info) {
    (void)info;
    seen_by_other = passed();
    RLPerformAfterDelay(kRLDefaultMode, 1, NULL, fire_in_other, NULL, NULL);
}
static void ask_other(Probe *self) {
    LoopThread *other = self->data;
    RLPerformOnLoop(other->loop, kRLDefaultMode, delay_in_other, NULL, NULL, false);
}

RL_TEST(a_woken_loop_has_the_clocks_time, "S-CLK-3 S-CLK-14", "A loop that a callback of another one wakes sees the time to which the clock has gone for that, and counts from it") {
    use_clock();
    LoopThread other;
    loop_thread_start(&other, other_waits, NULL);
    wait_until_waiting(other.loop);
    static Probe timer = {.action = ask_other};
    timer.data = &other;
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 5, false, TimedOut);
    thread_join(other.thread);
    ck_assert(is(seen_by_other, 1));
    ck_assert(is(fired_by_other, 2));
    RLRelease(clock_of_loop);
}

static void note_and_stop(Probe *self) {
    (void)self;
    fired_by_other = passed();
    RLStop(RLGetCurrent());
}
static void delay_of_other(Probe *self) {
    Probe *others = self->data;
    RLTimerSetNextFireDelay(others->timer, 0.5);
    ck_assert(is(RLTimerGetNextFireDate(others->timer) - start, 1.5));
}

RL_TEST(a_delay_for_a_loop_that_waits, "S-TMR-56 S-CLK-14", "A delay that another thread sets for a timer of a loop that waits counts from the clock's time") {
    use_clock();
    static Probe others = {.action = note_and_stop}, timer = {.action = delay_of_other, .data = &others};
    LoopThread other;
    loop_thread_start(&other, other_waits, &others);
    wait_until_waiting(other.loop);
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 5, false, TimedOut);
    thread_join(other.thread);
    ck_assert(is(fired_by_other, 1.5));
    RLRelease(clock_of_loop);
}

static void other_waits_for_condition(LoopThread *self) {
    (void)self;
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLLockLock(&condition.lock);
    ck_assert(RLConditionWaitInMode(&condition, kRLDefaultMode, INFINITY));
    RLLockUnlock(&condition.lock);
    seen_by_other = passed();
    expect_run(kRLDefaultMode, 0.5, false, TimedOut);
    fired_by_other = passed();
}
static void signal_condition(Probe *self) {
    (void)self;
    RLLockLock(&condition.lock);
    RLConditionSignal(&condition);
    RLLockUnlock(&condition.lock);
    /* The rest of the time is the other loop's. */
    RLStop(RLGetCurrent());
}

RL_TEST(a_run_after_a_condition, "S-RUN-18 S-CLK-14", "A thread whose condition was signalled at an instant runs its loop for as long as it says, from that instant on") {
    use_clock();
    LoopThread other;
    loop_thread_start(&other, other_waits_for_condition, NULL);
    wait_until_waiting(other.loop);
    static Probe timer = {.action = signal_condition};
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 5, false, Stopped);
    thread_join(other.thread);
    ck_assert(is(seen_by_other, 1));
    ck_assert(is(fired_by_other, 1.5));
    RLRelease(clock_of_loop);
}

static double asked;
static int answers;
static void answer(void *info) {
    (void)info;
    ck_assert(passed() > asked - 1e-6);
    answers++;
}
static void ask_for_time(Probe *self) {
    LoopThread *other = self->data;
    asked = passed();
    RLPerformOnLoop(other->loop, kRLDefaultMode, answer, NULL, NULL, false);
}

RL_TEST(a_move_that_wakes_another_loop, "S-CLK-7 S-CLK-14", "However a move and the wake-up that it leads to meet in a loop that waits, that sees no time before the wake-up's") {
    use_clock();
    LoopThread other;
    loop_thread_start(&other, other_waits, NULL);
    wait_until_waiting(other.loop);
    static Probe timer = {.action = ask_for_time};
    timer.data = &other;
    add_timer(&timer, date_in(1), 1, kRLDefaultMode);
    for (int round = 1; round <= 2000; round++) {
        RLClockAdvance(clock_of_loop, 1);
        ck_assert_int_eq(count_of(&answers), round);
    }
    RLStop(other.loop);
    thread_join(other.thread);
    RLRelease(clock_of_loop);
}

static void advance_by_ten(void *clock) { RLClockAdvance(clock, 10); }
static void note_delayed(void *info) { *(double *)info = passed(); }

RL_TEST(moved_while_no_run_is_under_way, "S-RUN-18 S-CLK-14", "A loop that did not run when another thread moved its clock has the clock's time, from which its delays and runs count") {
    use_clock();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    thread_join(thread_start(advance_by_ten, clock_of_loop));
    ck_assert(is(passed(), 10));
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 5, false, TimedOut);
    ck_assert(is(passed(), 15));
    thread_join(thread_start(advance_by_ten, clock_of_loop));
    double performed = 0;
    RLPerformAfterDelay(kRLDefaultMode, 1, NULL, note_delayed, &performed, NULL);
    expect_run(kRLDefaultMode, 20, false, TimedOut);
    ck_assert(is(performed, 26));
    RLRelease(clock_of_loop);
}

static void ask_for_a_delay(void *info) { RLPerformAfterDelay(kRLDefaultMode, 1, NULL, note_delayed, info, NULL); }

RL_TEST(what_is_due_where_there_is_no_instant, "S-CLK-8", "RLClockAdvanceToNext does what is due in the thread's loop also where no instant follows, and goes to one that this leads to") {
    use_clock();
    static Probe source = {.name = "source"};
    double performed = 0;
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    expect_trace("source");
    ck_assert(is(passed(), 0));
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, ask_for_a_delay, &performed, NULL);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(performed, 1));
    ck_assert(!RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(passed(), 1));
    RLRelease(clock_of_loop);
}

static RLTimerRef timer_of_first;
static void move_the_other_clock(void *info) {
    RLClockAdvance(info, 10);
    RLTimerSetNextFireDelay(timer_of_first, 1);
    RLStop(RLGetCurrent());
}
static void run_by_second_clock(LoopThread *self) {
    RLSetClock(self->loop, self->data);
    keep_alive(self->loop, kRLDefaultMode);
    gate_open(&self->ready);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
}

RL_TEST(a_thread_that_moves_another_clock, "S-CLK-14",
        "A loop that does not run goes with its clock also while its own thread moves another one") {
    static Probe far;
    use_clock();
    add_timer(&far, FAR_FUTURE, 0, kRLDefaultMode);
    timer_of_first = far.timer;
    RLClockRef second = RLClockCreateManual();
    LoopThread other;
    loop_thread_start(&other, run_by_second_clock, second);
    wait_until_waiting(other.loop);
    RLPerformOnLoop(other.loop, kRLDefaultMode, move_the_other_clock, clock_of_loop, NULL, false);
    /* It returns when the other loop's callback, in which this one's clock is moved, has. */
    RLClockAdvance(second, 1);
    thread_join(other.thread);
    ck_assert(is(passed(), 10));
    ck_assert(is(RLTimerGetNextFireDate(far.timer) - start, 11));
    RLRelease(second);
    RLRelease(clock_of_loop);
}

static double seen[4];
static void note(Probe *self) { seen[self->value++ & 3] = passed(); }

RL_TEST(moved_past_timers_while_no_run_is_under_way, "S-CLK-5 S-CLK-14", "It waits at the first date of a timer in any of its modes, which fires there in the next run of that mode") {
    use_clock();
    static Probe here = {.action = note}, there = {.action = note};
    add_timer(&here, date_in(3), 0, kRLDefaultMode);
    add_timer(&there, date_in(2), 2, "other");
    thread_join(thread_start(advance_by_ten, clock_of_loop));
    ck_assert(is(passed(), 2));
    RLRunInMode("other", 2.5, false);
    ck_assert_int_eq((int)there.value, 2);
    ck_assert(is(seen[0], 2) && is(seen[1], 4));
    ck_assert(is(passed(), 4.5));
    RLRelease(clock_of_loop);
}

static void advance_and_stop(Probe *self) {
    (void)self;
    RLClockAdvance(clock_of_loop, 10);
    RLStop(RLGetCurrent());
}

RL_TEST(no_time_goes_back, "S-CLK-3 S-CLK-14", "Between runs a loop that has not reached its clock's time shows the time from which its delays count, and never goes back") {
    use_clock();
    static Probe first = {.action = advance_and_stop}, second = {.action = note_and_stop};
    add_timer(&first, date_in(1), 0, kRLDefaultMode);
    RLTimerRef timer = add_timer(&second, date_in(1000), 0, kRLDefaultMode);
    RLClockSetAutomatic(clock_of_loop, true);
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
    const double between = passed();
    ck_assert(is(between, 1));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 11));
    RLTimerSetNextFireDelay(timer, 1);
    ck_assert(is(RLTimerGetNextFireDate(timer) - start, between + 1));
    expect_run(kRLDefaultMode, 1e10, false, Stopped);
    ck_assert(is(fired_by_other, between + 1));
    RLRelease(clock_of_loop);
}

/* What is signalled at an instant has its turn there: in runs of 0 seconds and in those of hosts, too. */

static Probe *signalled_next;
static void signal_next(Probe *self) {
    (void)self;
    RLSourceSignal(signalled_next->source);
}
static void advance_signal_and_poll(Probe *self) {
    Probe *first = self->data;
    RLClockAdvance(clock_of_loop, 10);
    RLSourceSignal(first->source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(a_run_of_no_time_leaves_work, "S-CLK-5", "A run of 0 seconds that has performed a source lets no time go on before what that signalled") {
    use_clock();
    static Probe a = {.action = signal_next}, b = {.action = note}, t = {.action = advance_signal_and_poll, .data = &a}, u;
    signalled_next = &b;
    add_source(&a, kRLDefaultMode);
    add_source(&b, kRLDefaultMode);
    add_timer(&t, date_in(1), 0, kRLDefaultMode);
    add_timer(&u, date_in(5), 0, kRLDefaultMode);
    RLClockAdvance(clock_of_loop, 1);
    ck_assert_int_eq((int)b.value, 1);
    ck_assert(is(seen[0], 1));
    RLRelease(clock_of_loop);
}

static void serve_host(RLForeignRunRef run) {
    for (int pass = 0; pass < 20; pass++) {
        RLForeignRunPrepare(run);
        RLForeignRunDispatch(run);
    }
}
static void signal_and_wake(Probe *self) {
    Probe *first = self->data;
    RLSourceSignal(first->source);
    RLWakeUp(RLGetCurrent());
}

RL_TEST(a_hosts_pass_leaves_work, "S-CLK-5 S-PASS-7", "In a foreign run, too, no time goes on between a source that has performed and what it signalled") {
    use_clock();
    static Probe a = {.action = signal_next}, b = {.name = "b", .action = note}, t = {.action = signal_and_wake, .data = &a}, u = {.name = "u"};
    signalled_next = &b;
    add_source(&a, kRLDefaultMode);
    add_source(&b, kRLDefaultMode);
    add_timer(&t, date_in(1), 0, kRLDefaultMode);
    add_timer(&u, date_in(5), 0, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLClockAdvance(clock_of_loop, 10);
    serve_host(run);
    expect_trace("b u");
    ck_assert(is(seen[0], 1));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

static bool is_armed;
static void arm(Probe *self) {
    (void)self;
    is_armed = true;
}
static void wake_and_nest(Probe *self) {
    if (!is_armed) return;
    is_armed = false;
    signal_and_wake(self);
    RLRunInMode("other", 0, false);
}

RL_TEST(a_wake_up_that_a_nested_run_takes_from_a_host, "S-CLK-5 S-WAKE-9", "A wake-up before a host's wait that a nested run has taken lets no time go on in that wait") {
    use_clock();
    static Probe b = {.name = "b", .action = note}, before = {.action = wake_and_nest, .data = &b}, t = {.action = arm}, u = {.name = "u"};
    add_source(&b, kRLDefaultMode);
    keep_alive(RLGetCurrent(), "other");
    RLAddObserver(RLGetCurrent(), probe_observer(&before, kRLBeforeWaiting, true, 0), kRLDefaultMode);
    RLRelease(before.observer);
    add_timer(&t, date_in(1), 0, kRLDefaultMode);
    add_timer(&u, date_in(5), 0, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLClockAdvance(clock_of_loop, 10);
    serve_host(run);
    expect_trace("b u");
    ck_assert(is(seen[0], 1));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

RL_TEST(a_tolerance_in_a_hosts_wait, "S-CLK-5 S-CLK-8", "A timer whose date a move passes by less than its tolerance fires at the clock's time, in a foreign run, too") {
    use_clock();
    static Probe t = {.name = "t", .action = note};
    RLTimerSetTolerance(add_timer(&t, date_in(1), 0, kRLDefaultMode), 2);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLClockAdvance(clock_of_loop, 1.5);
    ck_assert(RLForeignRunPrepare(run) == 0);
    RLForeignRunDispatch(run);
    expect_trace("t");
    ck_assert(is(seen[0], 1.5));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

RL_TEST(a_prepared_host_that_does_not_run, "S-CLK-5 S-CLK-6", "What was queued before a move of the loop's own thread is done at the time from before, also beside a foreign run prepared in an empty mode") {
    use_clock();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    double request = -1, function = -1;
    RLForeignRunRef run = RLForeignRunCreate("empty");
    RLForeignRunPrepare(run);
    RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, note_delayed, &request, NULL, false);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, note_delayed, &function, NULL);
    RLClockAdvance(clock_of_loop, 5);
    ck_assert(is(request, 0));
    ck_assert(is(function, 0));
    ck_assert(is(passed(), 5));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

static Gate forks_are_over;
static void move_until_forks_are_over(void *clock) {
    while (!gate_is_open(&forks_are_over)) RLClockAdvance(clock, 1000);
}
static void move_by_one(void *unused) {
    (void)unused;
    const RLAbsoluteTime before = RLClockGetTime(clock_of_loop);
    ck_assert(RLAbsoluteTimeGetCurrent() < before + 1e-6);
    RLClockAdvance(clock_of_loop, 1);
    ck_assert(is(RLClockGetTime(clock_of_loop) - before, 1));
}

/* Children that do something while another thread of the parent moves the clock. */
static void fork_beside_moves(void (*in_child)(void *)) {
    Thread *mover = thread_start(move_until_forks_are_over, clock_of_loop);
    for (int i = 0; i < 60; i++) {
        ChildResult child = run_child(in_child, NULL);
        ck_assert_msg(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0, "%s", child.output);
    }
    gate_open(&forks_are_over);
    thread_join(mover);
    RLRelease(clock_of_loop);
}

RL_TEST(a_move_under_way_at_the_fork, "S-CLK-12", "However far another thread's move has come at the fork, the child's clock moves by what the child says") {
    use_clock();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    fork_beside_moves(move_by_one);
}

static void use_the_clock(void *unused) {
    (void)unused;
    const RLAbsoluteTime before = RLClockGetTime(clock_of_loop);
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    ck_assert(is(RLAbsoluteTimeGetCurrent(), before));
    ck_assert(is(RLClockGetTime(clock_of_loop), before));
}

RL_TEST(a_move_of_a_clock_alone_at_the_fork, "S-CLK-12", "Nor is a clock that no loop has at the fork at another time than the loop that gets it in the child") {
    clock_of_loop = RLClockCreateManual();
    fork_beside_moves(use_the_clock);
}

/* An automatic clock of two loops with timers of two seconds, a second apart. */
static Gate call_is_over;
static int calls_that_wait, fires_since;
static bool note_wait_for_settling(long number, const long argument[6], long *result) {
    (void)result;
    /* The main thread waits for nothing else then. */
    if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && getpid() == (pid_t)syscall(SYS_gettid))
        __atomic_store_n(&calls_that_wait, 1, __ATOMIC_SEQ_CST);
    return false;
}
static void go_on_until_the_call_waits(Probe *self) {
    (void)self;
    /* So that a look from outside finds one of the loops awake. */
    for (int i = 0; i < 100; i++) sched_yield();
    if (count_of(&calls_that_wait) == 0) return;
    /* By the second time the loops have slept at one moment since the call began to wait. */
    if (__atomic_add_fetch(&fires_since, 1, __ATOMIC_SEQ_CST) > 1) gate_wait(&call_is_over);
}
static void tick_every_two_seconds(LoopThread *self) {
    static Probe ticks[2] = {{.action = go_on_until_the_call_waits}, {.action = go_on_until_the_call_waits}};
    Probe *tick = self->data ? &ticks[0] : &ticks[1];
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
    add_timer(tick, start + (self->data ? 1 : 2), 2, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, INFINITY, false);
}

static void move_an_automatic_clock(bool toNext) {
    clock_of_loop = RLClockCreateManual();
    start = RLClockGetTime(clock_of_loop);
    LoopThread loops[2];
    for (int i = 0; i < 2; i++) loop_thread_start(&loops[i], tick_every_two_seconds, i == 0 ? clock_of_loop : NULL);
    for (int i = 0; i < 2; i++) wait_until_waiting(loops[i].loop);
    RLClockSetAutomatic(clock_of_loop, true);
    hook_system_calls(note_wait_for_settling);
    if (toNext) ck_assert(RLClockAdvanceToNext(clock_of_loop));
    else RLClockAdvance(clock_of_loop, 1);
    hook_system_calls(NULL);
    gate_open(&call_is_over);
    for (int i = 0; i < 2; i++) {
        RLStop(loops[i].loop);
        thread_join(loops[i].thread);
    }
    RLRelease(clock_of_loop);
}

RL_TEST(a_move_of_an_automatic_clock, "S-CLK-7", "A call that moves a clock which goes on by itself returns, though no other moment comes at which its loops sleep") {
    move_an_automatic_clock(false);
}
RL_TEST(the_next_instant_of_an_automatic_clock, "S-CLK-7 S-CLK-8", "So does one that moves it to the next instant, and there was one") {
    move_an_automatic_clock(true);
}

static Gate other_may_move;
static void move_by_ten(void *unused) {
    (void)unused;
    gate_wait(&other_may_move);
    RLClockAdvance(clock_of_loop, 10);
}
static void wait_for_the_others_move(Probe *self) {
    if (self->calls > 1) return;
    gate_open(&other_may_move);
    /* The other thread's call goes on until this loop does not run. */
    while (!is(RLClockGetTime(clock_of_loop) - start, 20)) sched_yield();
}

RL_TEST(moves_of_others_do_not_draw_a_call_out, "S-CLK-6", "A call that runs its own loop returns when that has come where the call moved the clock, wherever others have moved it since") {
    use_clock();
    static Probe tick = {.action = wait_for_the_others_move};
    add_timer(&tick, date_in(10), 10, kRLDefaultMode);
    Thread *mover = thread_start(move_by_ten, NULL);
    RLClockAdvance(clock_of_loop, 10);
    ck_assert_int_eq(tick.calls, 1);
    thread_join(mover);
    RLClockAdvance(clock_of_loop, 0);
    ck_assert_int_eq(tick.calls, 2);
    RLRelease(clock_of_loop);
}

static RLClockRef crossed[2];
static pthread_barrier_t both_in_callbacks;
static void move_the_other(void *clock) {
    pthread_barrier_wait(&both_in_callbacks);
    RLClockAdvance(clock, 1);
}
static void run_with_one(void *clock) {
    RLSetClock(RLGetCurrent(), clock);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, move_the_other, crossed[clock == crossed[0]], NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
}

RL_TEST(callbacks_move_each_others_clocks, "S-CLK-7", "Callbacks of two loops with a clock each that move the clock of the other loop do not wait for each other") {
    Thread *threads[2];
    pthread_barrier_init(&both_in_callbacks, NULL, 2);
    for (int i = 0; i < 2; i++) crossed[i] = RLClockCreateManual();
    for (int i = 0; i < 2; i++) threads[i] = thread_start(run_with_one, (void *)crossed[i]);
    for (int i = 0; i < 2; i++) thread_join(threads[i]);
    for (int i = 0; i < 2; i++) RLRelease(crossed[i]);
}

static int polls_are_over, changes_in_a_callback;
static void read_time_twice(void *unused) {
    (void)unused;
    double first = RLAbsoluteTimeGetCurrent();
    for (volatile int i = 0; i < 500; i++) {}
    if (RLAbsoluteTimeGetCurrent() != first) changes_in_a_callback++;
}
static void poll_with_clock(void *clock) {
    RLSetClock(RLGetCurrent(), clock);
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "mode %d", i);
        keep_alive(RLGetCurrent(), name);
    }
    for (int i = 0; i < 40000; i++) {
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, read_time_twice, NULL, NULL);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    __atomic_store_n(&polls_are_over, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(time_stands_in_a_callback_of_a_poll, "S-CLK-5 S-CLK-14", "The time does not go on inside a callback of a run of 0 seconds while another thread moves the clock") {
    RLClockRef clock = RLClockCreateManual();
    Thread *poller = thread_start(poll_with_clock, (void *)clock);
    while (!__atomic_load_n(&polls_are_over, __ATOMIC_SEQ_CST)) RLClockAdvance(clock, 0.001);
    thread_join(poller);
    ck_assert_int_eq(changes_in_a_callback, 0);
    RLRelease(clock);
}

/* The instants to which AdvanceToNext in a callback has moved the clock. */
static double reached;
static RLTimeInterval ahead;
static void move_ahead_and_on(Probe *self) {
    (void)self;
    RLClockAdvance(clock_of_loop, ahead);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    reached = RLClockGetTime(clock_of_loop) - start;
}

RL_TEST(the_end_of_a_period_that_comes, "S-CLK-8 S-LIM-3", "In a callback AdvanceToNext goes to the end of a source's period, though the clock has reached that of another source") {
    use_clock();
    static Probe limited[2], mover = {.action = move_ahead_and_on};
    for (int i = 0; i < 2; i++) RLSourceSetLimit(add_source(&limited[i], kRLDefaultMode), 1, i ? 0.030 : 0.008);
    add_timer(&mover, date_in(0.006), 0, kRLDefaultMode);
    add_timer(&(Probe){0}, date_in(100), 0, kRLDefaultMode);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) RLSourceSignal(limited[i].source);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    ahead = 0.004;
    RLClockAdvance(clock_of_loop, 0.006);
    ck_assert(is(reached, 0.030));
    ck_assert_int_eq(limited[0].calls, 2);
    ck_assert_int_eq(limited[1].calls, 2);
    RLRelease(clock_of_loop);
}

RL_TEST(the_next_date_of_a_host, "S-CLK-8 S-FRN-1", "While a foreign loop waits AdvanceToNext by its thread goes to the next date, though the clock has reached an earlier one") {
    use_clock();
    static Probe timers[3];
    for (int i = 0; i < 3; i++) add_timer(&timers[i], start + (double[]){0.002, 0.008, 100}[i], 0, kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLForeignRunPrepare(run);
    RLClockAdvance(clock_of_loop, 0.005);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    ck_assert(is(RLClockGetTime(clock_of_loop) - start, 0.008));
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(clock_of_loop);
}

static void prepare_and_move(Probe *self) {
    RLForeignRunRef run = self->data;
    RLForeignRunPrepare(run);
    const RLAbsoluteTime before = RLClockGetTime(clock_of_loop);
    ck_assert(RLClockAdvanceToNext(clock_of_loop));
    reached = RLClockGetTime(clock_of_loop) - before;
}

RL_TEST(the_next_date_beside_a_host_in_a_callback, "S-CLK-8 S-FRN-9", "Where a callback prepares a foreign run, AdvanceToNext goes to the next date of that or of the run that called it, whichever is earlier") {
    for (int nearer = 0; nearer < 2; nearer++) {
        use_clock();
        Probe caller = {.action = prepare_and_move}, timers[2] = {{0}};
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        caller.data = run;
        add_timer(&caller, start + 1, 0, "x");
        add_timer(&timers[0], start + (nearer ? 6 : 51), 0, kRLDefaultMode);
        add_timer(&timers[1], start + (nearer ? 51 : 6), 0, "x");
        while (caller.calls == 0) {
            RLClockAdvance(clock_of_loop, 1);
            RLRunInMode("x", 0, false);
        }
        ck_assert(is(reached, 5));
        RLForeignRunInvalidate(run);
        RLRelease(run);
        for (int i = 0; i < 2; i++) RLTimerInvalidate(timers[i].timer);
        RLSetClock(RLGetCurrent(), NULL);
        RLRelease(clock_of_loop);
    }
}
