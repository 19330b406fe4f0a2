/*
 * Changes of the wall clock. This program defines clock_gettime itself, so that the wall clock,
 * as everybody in the process sees it, can be set; the monotonic clock stays the kernel's.
 */
#define _GNU_SOURCE
#include "support.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long wall_clock_shift; /* seconds, atomic */
static int wall_clock_reads;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += __atomic_load_n(&wall_clock_shift, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&wall_clock_reads, 1, __ATOMIC_SEQ_CST);
    }
    return result;
}

static void shift_wall_clock(long seconds) {
    __atomic_store_n(&wall_clock_shift, seconds, __ATOMIC_SEQ_CST);
}

RL_TEST(the_library_sees_the_clock_of_this_program, "S-RUN-25",
        "A shift of this program's wall clock shows in RLAbsoluteTimeGetCurrent, so the other "
        "cases of this file can fail") {
    RLAbsoluteTime before = RLAbsoluteTimeGetCurrent();
    shift_wall_clock(-100000);
    ck_assert_double_lt(RLAbsoluteTimeGetCurrent(), before - 50000);
    shift_wall_clock(100000);
    ck_assert_double_gt(RLAbsoluteTimeGetCurrent(), before + 50000);
    ck_assert_int_gt(count_of(&wall_clock_reads), 0);
}

static void shift_by(Probe *self) { shift_wall_clock(self->value); }

RL_TEST(wall_clock_changed_in_a_run, "S-RUN-25",
        "Setting the wall clock forward or back in a callback moves no deadline") {
    Probe observer = {.action = shift_by};
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    static const RLActivity moments[] = {kRLEntry, kRLBeforeTimers, kRLBeforeWaiting};
    for (int i = 0; i < 3; i++) {
        add_observer(&observer, moments[i], kRLDefaultMode);
        for (int direction = -1; direction <= 1; direction += 2) {
            shift_wall_clock(0);
            observer.value = direction * 100000L;
            double start = monotonic_now();
            expect_run(kRLDefaultMode, 0.03, false, TimedOut);
            ck_assert_double_ge(monotonic_now() - start, 0.03);
            expect_trace("E BT BS BW AW X");
        }
        RLObserverInvalidate(observer.observer);
    }
}

static void shift_and_wake(void *argument) {
    Probe *observer = argument;
    shift_wall_clock(observer->value);
    RLWakeUp(observer->loop);
}

RL_TEST(wall_clock_changed_in_a_wait, "S-RUN-25 S-RUN-23",
        "Setting the wall clock forward or back while the loop waits moves no deadline") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    /* Long enough for the other thread to see the loop wait. */
    for (int direction = -1; direction <= 1; direction += 2) {
        Probe observer = {.value = direction * 100000L, .loop = loop};
        shift_wall_clock(0);
        Thread *thread = when_waiting(loop, shift_and_wake, &observer);
        double start = monotonic_now();
        expect_run(kRLDefaultMode, 1, false, TimedOut);
        ck_assert_double_ge(monotonic_now() - start, 1);
        thread_join(thread);
    }
}

static double fired_at;

static void note_time_and_stop(Probe *self) {
    fired_at = monotonic_now();
    RLStop(self->loop);
}

RL_TEST(wall_clock_moves_no_timer, "S-TMR-10 S-TMR-20",
        "Setting the wall clock after a timer was made neither hastens nor delays its fire") {
    for (int direction = -1; direction <= 1; direction += 2) {
        Probe timer = {.action = note_time_and_stop};
        shift_wall_clock(0);
        double made = monotonic_now();
        add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
        shift_wall_clock(direction * 100000L);
        expect_run(kRLDefaultMode, 1e9, false, Stopped);
        ck_assert_double_ge(fired_at - made, 0.0499);
    }
}

RL_TEST(repeating_timer_keeps_its_grid, "S-TMR-10 S-TMR-29",
        "Setting the wall clock between the fires of a repeating timer leaves its grid alone") {
    Probe timer = {.action = shift_by};
    double made = monotonic_now();
    add_timer(&timer, date_in(0.01), 0.02, kRLDefaultMode);
    for (int i = 0; i < 4; i++) {
        timer.value = (i % 2 ? -1 : 1) * 100000L;
        int calls = timer.calls;
        while (timer.calls == calls) RLRunInMode(kRLDefaultMode, 0.02, false);
        ck_assert_double_ge(monotonic_now() - made, 0.0099 + 0.02 * i);
    }
}
