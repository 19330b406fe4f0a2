/* SPDX-License-Identifier: MIT */
/*
 * Changes of the wall clock. This program defines clock_gettime itself, so that the wall clock,
 * as everybody in the process sees it, can be set; the monotonic clock stays the kernel's.
 */
#define _GNU_SOURCE
#include "support.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* In nanoseconds; atomic. */
static int64_t wall_clock_shift, monotonic_clock_shift;
static int wall_clock_reads, clock_reads;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int64_t time = now->tv_sec * INT64_C(1000000000) + now->tv_nsec +
                   __atomic_load_n(is_wall ? &wall_clock_shift : &monotonic_clock_shift, __ATOMIC_SEQ_CST);
    now->tv_sec = time / 1000000000;
    now->tv_nsec = time % 1000000000;
    if (is_wall) __atomic_add_fetch(&wall_clock_reads, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&clock_reads, 1, __ATOMIC_SEQ_CST);
    return result;
}

static void shift_wall_clock(double seconds) {
    __atomic_store_n(&wall_clock_shift, (int64_t)(seconds * 1e9), __ATOMIC_SEQ_CST);
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
            observer.value = direction * 100000;
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
        Probe observer = {.value = direction * 100000, .loop = loop};
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
        shift_wall_clock(direction * 100000);
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
        timer.value = (i % 2 ? -1 : 1) * 100000;
        int calls = timer.calls;
        while (timer.calls == calls) RLRunInMode(kRLDefaultMode, 0.02, false);
        ck_assert_double_ge(monotonic_now() - made, 0.0099 + 0.02 * i);
    }
}

/* Dates */

/* Whether the processor's counter goes on evenly; see cpuid(4). */
static bool has_even_counter(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
    return false;
#endif
}

RL_TEST(dates_are_set_without_a_clock, "S-TMR-9",
        "Where the processor has an even counter, a hundred thousand dates are set with few readings of any clock") {
    if (!has_even_counter()) return;
    RLTimerRef timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLAbsoluteTime date = FAR_FUTURE;
    int before = count_of(&clock_reads);
    for (int i = 0; i < 100000; i++) RLTimerSetNextFireDate(timer, date + i);
    ck_assert_int_lt(count_of(&clock_reads) - before, 50000);
    RLTimerInvalidate(timer);
    RLRelease(timer);
}

typedef struct {
    RLTimerRef timer;
    RLAbsoluteTime date;
    int phase; /* atomic: 1, dates are being set; 2, the date is there */
} Setter;

/* Sets dates all the time, so that it knows what the clocks were a moment ago; at last the one it is given. */
static void set_dates(void *argument) {
    Setter *setter = argument;
    RLTimerRef other = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    RLAbsoluteTime date = FAR_FUTURE;
    RLTimerSetNextFireDate(other, date);
    __atomic_store_n(&setter->phase, 1, __ATOMIC_SEQ_CST);
    while (count_of(&setter->phase) != 2) RLTimerSetNextFireDate(other, date);
    RLTimerSetNextFireDate(setter->timer, setter->date);
    RLRelease(other);
}

RL_TEST(a_date_after_a_step_is_of_the_new_clock, "S-TMR-9 S-TMR-36 S-TMR-20",
        "A date computed by RLAbsoluteTimeGetCurrent after the wall clock was set means the new clock, also on a thread that "
        "set dates all the time and did not look") {
    static const double steps[] = {100000, -100000, 0.5, -0.5, 0.002, -0.002, 0.00002, -0.00002};
    double shift = 0;
    for (int i = 0; i < 80; i++) {
        Probe timer = {.action = note_time_and_stop, .loop = RLGetCurrent()};
        add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
        Setter setter = {.timer = timer.timer};
        RLAbsoluteTimeGetCurrent();
        Thread *thread = thread_start(set_dates, &setter);
        while (count_of(&setter.phase) != 1) RLAbsoluteTimeGetCurrent();
        shift += steps[i % 8];
        shift_wall_clock(shift);
        double made = monotonic_now();
        setter.date = date_in(0.002);
        __atomic_store_n(&setter.phase, 2, __ATOMIC_SEQ_CST);
        expect_run(kRLDefaultMode, 1e9, false, Stopped);
        thread_join(thread);
        ck_assert_double_ge(fired_at - made, 0.001999);
    }
}

/* Many dates in a callback, for which it looks at no clock any more */

static Probe followed = {.name = "t", .action = note_time_and_stop}, setter = {.name = "1"}, later_setter = {.name = "2"};
static RLTimerRef other_timer;
static RLAbsoluteTime far_date;

static void set_other(int count) {
    for (int i = 0; i < count; i++) RLTimerSetNextFireDate(other_timer, far_date + i);
}

/* Then the clock is set, and no date for longer than a millisecond. */
static void set_many_and_shift(Probe *self) {
    (void)self;
    double begin = monotonic_now();
    do set_other(1000);
    while (monotonic_now() - begin < 0.002);
    set_other(1);
    shift_wall_clock(1000);
    begin = monotonic_now();
    while (monotonic_now() - begin < 0.0015) {}
}

/* From the program's own reading of the clock. */
static void set_followed(Probe *self) {
    (void)self;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    RLTimerSetNextFireDate(followed.timer, (double)now.tv_sec - 978307200.0 + (double)now.tv_nsec / 1e9 + 0.002);
}

static void prepare_dates(void) {
    followed.loop = RLGetCurrent();
    far_date = FAR_FUTURE;
    other_timer = RLTimerCreate(far_date, 0, 0, 0, NULL, NULL);
    RLAddTimer(RLGetCurrent(), other_timer, kRLDefaultMode);
    RLRelease(other_timer);
    add_timer(&followed, far_date, 0, kRLDefaultMode);
    add_source(&setter, kRLDefaultMode);
    add_source(&later_setter, kRLDefaultMode);
    RLSourceSignal(setter.source);
}

/* By the old clock it would be a thousand seconds away. */
#define expect_new_clock() expect_run(kRLDefaultMode, 100, false, Stopped)

static void set_many_and_sixteen(Probe *self) {
    set_many_and_shift(self);
    set_other(15);
    set_followed(self);
}

RL_TEST(the_sixteenth_date_after_a_step, "S-TMR-9", "A callback sets thousands of dates, then the clock is set: its sixteenth date after that means the new clock") {
    setter.action = set_many_and_sixteen;
    prepare_dates();
    expect_new_clock();
}

static void set_many_and_run(Probe *self) {
    set_many_and_shift(self);
    RLRunInMode(kRLDefaultMode, 0, false);
    set_followed(self);
}

RL_TEST(a_date_behind_a_nested_run, "S-TMR-9", "A callback sets thousands of dates, then the clock is set and the callback runs the loop: its next date means the new clock") {
    setter.action = set_many_and_run;
    prepare_dates();
    expect_new_clock();
}

static void set_many_and_one_by_the_library(Probe *self) {
    set_many_and_shift(self);
    RLTimerSetNextFireDate(followed.timer, date_in(0.002));
}

RL_TEST(a_date_of_the_library_among_many, "S-TMR-9", "A callback sets thousands of dates, then the clock is set: a date from RLAbsoluteTimeGetCurrent means the new clock") {
    setter.action = set_many_and_one_by_the_library;
    prepare_dates();
    expect_new_clock();
}

static void set_many_and_signal(Probe *self) {
    set_many_and_shift(self);
    RLSourceSignal(later_setter.source);
}

RL_TEST(a_date_of_a_later_pass, "S-TMR-9", "A callback sets thousands of dates, then the clock is set: the first date of the next pass means the new clock") {
    setter.action = set_many_and_signal;
    later_setter.action = set_followed;
    prepare_dates();
    expect_new_clock();
}

static void set_around_the_wait(Probe *self) {
    if (self->activity == kRLAfterWaiting) return set_followed(self);
    set_many_and_shift(self);
    RLWakeUp(self->loop);
}

RL_TEST(a_date_behind_the_wait, "S-TMR-9", "An observer of BeforeWaiting sets thousands of dates, then the clock is set: the first date behind the wait means the new clock") {
    static Probe observer = {.action = set_around_the_wait};
    prepare_dates();
    RLSourceInvalidate(setter.source);
    RLObserverRef added = add_observer(&observer, kRLBeforeWaiting | kRLAfterWaiting, kRLDefaultMode);
    RLWakeUp(RLGetCurrent());
    RLRunInMode(kRLDefaultMode, 0.001, false);
    RLObserverInvalidate(added);
    expect_new_clock();
}

RL_TEST(a_date_after_the_run, "S-TMR-9", "A callback sets thousands of dates, then the clock is set and the run ends: the first date after it means the new clock") {
    setter.action = set_many_and_shift;
    prepare_dates();
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    set_followed(&setter);
    expect_new_clock();
}

RL_TEST(a_child_has_clocks_of_its_own, "S-TMR-9 S-FORK-1",
        "What the parent knew of the clocks before a fork is of no use in the child, which may be in another time namespace") {
    for (int i = 0; i < 20; i++) {
        Probe timer = {.name = "t"};
        add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
        RLAbsoluteTime date = date_in(100);
        RLTimerSetNextFireDate(timer.timer, FAR_FUTURE);
        pid_t child = fork();
        if (child == 0) {
            __atomic_store_n(&monotonic_clock_shift, INT64_C(1000000000000), __ATOMIC_SEQ_CST);
            RLTimerSetNextFireDate(timer.timer, date);
            RLRunInMode(kRLDefaultMode, 0, false);
            _exit(timer.calls);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        RLTimerInvalidate(timer.timer);
    }
}
