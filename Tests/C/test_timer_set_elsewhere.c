/* SPDX-License-Identifier: MIT */
/*
 * Dates that another thread sets: when they wake the loop, and when nobody could tell (S-WAKE-14). The calls of the kernel that the
 * setting thread makes are counted.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static __thread bool is_setter;
static int calls_that_wake, sleeps;

static bool count_calls(long number, const long argument[6], long *result) {
    (void)result;
    long operation = number == SYS_futex ? argument[1] & FUTEX_CMD_MASK : -1;
    if (is_setter && (number == SYS_epoll_ctl || operation == FUTEX_WAKE))
        __atomic_add_fetch(&calls_that_wake, 1, __ATOMIC_SEQ_CST);
    const struct timespec *length = (const struct timespec *)argument[3];
    if (operation == FUTEX_WAIT_BITSET || (number == SYS_epoll_pwait2 && (!length || length->tv_sec || length->tv_nsec)))
        __atomic_add_fetch(&sleeps, 1, __ATOMIC_SEQ_CST);
    return false;
}

static Probe timer;

static void set_far_date(void) { RLTimerSetNextFireDate(timer.timer, FAR_FUTURE); }

static void set_far_dates(void *loop) {
    wait_until_count(&sleeps, 1);
    set_far_date();
    is_setter = true;
    for (int i = 0; i < 100; i++) set_far_date();
    is_setter = false;
    stays_waiting(loop, 0.02);
    RLStop(loop);
}

static void wait_while_dates_are_set(void) {
    RLRunLoopRef loop = RLGetCurrent();
    timer = (Probe){.name = "t"};
    add_timer(&timer, date_in(1000), 0, kRLDefaultMode);
    sleeps = 0;
    Thread *thread = when_waiting(loop, set_far_dates, loop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(count_of(&calls_that_wake), 0);
    ck_assert_int_eq(count_of(&sleeps), 1);
    expect_trace("");
}

RL_TEST(a_later_date_wakes_nobody, "S-WAKE-14",
        "Where no observer would tell, a date after the end of the wait costs its setter no call of the kernel, and the wait goes on") {
    hook_system_calls(count_calls);
    wait_while_dates_are_set();
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    Probe port = {.name = "p"};
    add_port(&port, ends[0], kRLDefaultMode);
    wait_while_dates_are_set();
    hook_system_calls(NULL);
}

static void stop_loop(void *loop) { RLStop(loop); }

static void post_and_set(void *loop) {
    RLPerformFunction(loop, kRLDefaultMode, stop_loop, loop, NULL);
    set_far_date();
}

RL_TEST(a_later_date_finds_what_was_posted, "S-WAKE-14 S-BLK-2 S-BLK-3",
        "A function that was posted without a wake-up is called in the pass that a date set by another thread makes") {
    RLRunLoopRef loop = RLGetCurrent();
    timer = (Probe){.name = "t"};
    add_timer(&timer, date_in(1000), 0, kRLDefaultMode);
    Thread *thread = when_waiting(loop, post_and_set, loop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
}

static void stop_own(Probe *self) { RLStop(self->loop); }

static void signal_and_set(void *argument) {
    Probe *probe = argument;
    RLSourceSignal(probe->source);
    set_far_date();
}

RL_TEST(a_later_date_finds_what_was_signalled, "S-WAKE-14 S-SRC-26",
        "A source that was signalled without a wake-up performs in the pass that a date set by another thread makes") {
    RLRunLoopRef loop = RLGetCurrent();
    timer = (Probe){.name = "t"};
    add_timer(&timer, date_in(1000), 0, kRLDefaultMode);
    Probe source = {.name = "s", .action = stop_own, .loop = loop};
    add_source(&source, kRLDefaultMode);
    Thread *thread = when_waiting(loop, signal_and_set, &source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("s");
}

static void remove_and_set(void *argument) {
    Probe *last = argument;
    RLRemoveTimer(last->loop, last->timer, "m");
    set_far_date();
}

RL_TEST(a_later_date_ends_the_run_of_an_empty_mode, "S-WAKE-14 S-RUN-7",
        "A run whose mode another thread made empty is over with the pass that a date of a timer in another mode makes") {
    RLRunLoopRef loop = RLGetCurrent();
    timer = (Probe){.name = "t"};
    add_timer(&timer, date_in(1000), 0, kRLDefaultMode);
    Probe last = {.name = "l", .loop = loop};
    add_timer(&last, date_in(1000), 0, "m");
    Thread *thread = when_waiting(loop, remove_and_set, &last);
    expect_run("m", 1e9, false, Finished);
    thread_join(thread);
}

static void set_date_of(void *unused) {
    (void)unused;
    set_far_date();
}

static void set_elsewhere_and_empty(Probe *self) {
    thread_join(thread_start(set_date_of, NULL));
    if (self->data) RLRunInMode(kRLDefaultMode, 0, false);
    RLTimerInvalidate(timer.timer);
}

RL_TEST(a_date_set_before_the_wait_counts_as_a_wake_up, "S-WAKE-14 S-WAKE-3 S-WAKE-9 S-RUN-7",
        "A date that another thread sets while a callback runs ends the coming wait: the run of a mode that becomes empty before that is "
        "over at once, also if a nested run comes between") {
    for (int nests = 0; nests < 2; nests++) {
        timer = (Probe){.name = "t"};
        add_timer(&timer, date_in(1000), 0, "m");
        Probe observer = {.action = set_elsewhere_and_empty, .data = nests ? &timer : NULL};
        add_observer(&observer, kRLEntry, "m");
        expect_run("m", 1e9, false, Finished);
        RLObserverInvalidate(observer.observer);
    }
}

static void set_and_stop(void *loop) {
    set_far_date();
    RLStop(loop);
}

static void run_nested(Probe *self) {
    if (self->calls > 1) return RLStop(self->loop);
    Thread *thread = when_waiting(self->loop, set_and_stop, self->loop);
    RLRunInMode("m", 1e9, false);
    thread_join(thread);
}

RL_TEST(a_later_date_in_a_nested_run_is_for_the_outer_one, "S-WAKE-14 S-WAKE-9",
        "A date set while a nested run waits, whose mode nobody observes, makes the outer run pass once more, whose mode is observed") {
    RLRunLoopRef loop = RLGetCurrent();
    timer = (Probe){.name = "t"};
    add_timer(&timer, date_in(1000), 0, "m");
    keep_alive(loop, kRLDefaultMode);
    Probe observer = {.action = run_nested, .loop = loop};
    add_observer(&observer, kRLBeforeTimers, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E BT BS BW AW BT BS BW AW X");
}
