/* SPDX-License-Identifier: MIT */
/* Deadlines of runs (section 3.3). */
#define _GNU_SOURCE
#include "support.h"

#include <float.h>
#include <math.h>
#include <signal.h>

enum { limit_interval = 504911232 };

RL_TEST(no_time_is_one_poll, "S-RUN-17 S-RUN-28",
        "With no time a run is exactly one pass that does not wait") {
    Probe again = {.name = "s"}, timer = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&again, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    static const double times[] = {0, -DBL_MIN, -1, -INFINITY};
    for (int i = 0; i < 4; i++) {
        RLSourceSignal(again.source);
        expect_run(kRLDefaultMode, times[i], false, TimedOut);
        expect_trace(i == 0 ? "E BT BS s t X" : "E BT BS s X");
    }
}

static double entry_returned;

static void enter_slowly(Probe *self) {
    action_take_time(self);
    entry_returned = monotonic_now();
}

RL_TEST(deadline_counts_from_entry, "S-RUN-18",
        "The deadline is t seconds after the Entry observers returned") {
    Probe observer = {.action = enter_slowly, .value = 60};
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - entry_returned, 0.05);
    expect_trace("E BT BS BW AW X");
}

static void stop_if_it_waits_on(void *loop) {
    ck_assert(stays_waiting(loop, 0.02));
    trace("stop");
    RLStop(loop);
}

RL_TEST(huge_times_are_no_deadline, "S-RUN-19 S-RUN-18",
        "More than LIMIT_INTERVAL, infinity and NaN mean no deadline; LIMIT_INTERVAL is a long "
        "one") {
    RLRunLoopRef loop = RLGetCurrent();
    static const double times[] = {limit_interval, limit_interval + 1.0, 1e300, DBL_MAX, INFINITY,
                                   NAN};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int i = 0; i < 6; i++) {
        Thread *thread = when_waiting(loop, stop_if_it_waits_on, loop);
        expect_run(kRLDefaultMode, times[i], false, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW stop AW X");
    }
}

RL_TEST(tiny_times_wait, "S-RUN-20",
        "With any time above 0 the first pass is a waiting pass") {
    static const double times[] = {1e-9, 1e-12, DBL_MIN, 5e-324};
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 4; i++) {
        expect_run(kRLDefaultMode, times[i], false, TimedOut);
        expect_trace("E BT BS BW AW X");
    }
}

RL_TEST(tiny_time_with_a_source, "S-RUN-20 S-PASS-5",
        "With a tiny time a first pass that handled a source does not wait before TimedOut") {
    Probe source = {.name = "s", .action = action_take_time, .value = 1};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e-9, false, TimedOut);
    expect_trace("E BT BS s X");
}

RL_TEST(deadline_ends_the_wait, "S-RUN-21",
        "The deadline ends a wait by itself, after t at the earliest, with a port and a timer in "
        "the mode too") {
    Probe port = {.name = "p"}, timer = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    add_timer(&timer, FAR_FUTURE, 1, kRLDefaultMode);
    static const double times[] = {0.0001, 0.001, 0.0123, 0.08};
    for (int i = 0; i < 4; i++) {
        double start = monotonic_now();
        expect_run(kRLDefaultMode, times[i], true, TimedOut);
        ck_assert_double_ge(monotonic_now() - start, times[i]);
        expect_trace("E BT BS BW AW X");
    }
}

static void take_time_and_say_so(Probe *self) {
    action_take_time(self);
    trace("done");
}

RL_TEST(deadline_during_a_callback, "S-RUN-22",
        "A deadline that passes during a callback does not interrupt it; the run ends after that "
        "pass") {
    Probe timer = {.name = "t", .action = take_time_and_say_so, .value = 300};
    Probe function = {.name = "f"};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0.001, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    expect_trace("E BT BS BW AW t done X");
    RLTimerInvalidate(timer.timer);
    function.action = take_time_and_say_so;
    function.value = 40;
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("E BT BS f done BW AW X");
}

static int run_is_over;

static void wake_until_over(void *loop) {
    while (!count_of(&run_is_over)) {
        RLWakeUp(loop);
        take_time(0.001);
    }
}

RL_TEST(events_do_not_extend_the_deadline, "S-RUN-23",
        "Wake-ups, timers and sources in quick succession do not extend the deadline") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {0};
    add_timer(&timer, date_in(0), 0.001, kRLDefaultMode);
    Thread *thread = thread_start(wake_until_over, loop);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    __atomic_store_n(&run_is_over, 1, __ATOMIC_SEQ_CST);
    thread_join(thread);
    ck_assert_int_gt(timer.calls, 0);
}

static void signal_again(Probe *self) { RLSourceSignal(self->source); }

RL_TEST(busy_sources_do_not_extend_the_deadline, "S-RUN-23 S-RUN-9",
        "A source that signals itself for ever does not keep a run from timing out") {
    Probe source = {.action = signal_again};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0.03, false, TimedOut);
    ck_assert_int_gt(source.calls, 1);
}

/* Nested runs that outlast the outer deadline */

static void outlast_once(Probe *self) {
    if (self->value++ > 0) return;
    expect_run("inner", 0.06, false, TimedOut);
    trace("inner-done");
}

static void outer_deadline_holds(Probe *probe, const char *expected) {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, "inner");
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    probe->action = outlast_once;
    /* Were the outer deadline lost, this run would wait for ever and the case reach its limit. */
    expect_run(kRLDefaultMode, 0.03, false, TimedOut);
    expect_trace(expected);
}

RL_TEST(outer_deadline_in_before_timers, "S-RUN-24 S-NEST-6",
        "An outer deadline that passed in a nested run started in BeforeTimers is honoured") {
    Probe observer = {0};
    add_observer(&observer, kRLBeforeTimers, kRLDefaultMode);
    outer_deadline_holds(&observer, "E inner-done BT BS BW AW X");
}

RL_TEST(outer_deadline_in_before_sources, "S-RUN-24",
        "An outer deadline that passed in a nested run started in BeforeSources is honoured") {
    Probe observer = {0};
    add_observer(&observer, kRLBeforeSources, kRLDefaultMode);
    outer_deadline_holds(&observer, "E BT inner-done BS BW AW X");
}

RL_TEST(outer_deadline_in_before_waiting, "S-RUN-24",
        "An outer deadline that passed in a nested run started in BeforeWaiting is honoured") {
    Probe observer = {0};
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    outer_deadline_holds(&observer, "E BT BS inner-done BW AW X");
}

RL_TEST(outer_deadline_in_a_function, "S-RUN-24",
        "An outer deadline that passed in a nested run started in a round-A function is honoured") {
    Probe function = {0};
    probe_perform(&function, RLGetCurrent(), kRLDefaultMode);
    outer_deadline_holds(&function, "E BT BS inner-done BW AW X");
}

RL_TEST(outer_deadline_in_a_source, "S-RUN-24 S-NEST-5",
        "An outer deadline that passed in a nested run started in a perform is honoured, and the "
        "outer pass does not wait") {
    Probe source = {0};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    outer_deadline_holds(&source, "E BT BS inner-done X");
}

RL_TEST(outer_deadline_after_the_wait, "S-RUN-24",
        "An outer deadline that passed in a nested run started in AfterWaiting or in a timer is "
        "honoured") {
    Probe timer = {0};
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    outer_deadline_holds(&timer, "E BT BS BW AW inner-done X");
}

/* Two levels of nested runs, each started in BeforeWaiting of the run outside it. */
static void nest_deeper(Probe *self) {
    static const char *const modes[] = {"level 1", "level 2"};
    if (self->value >= 2) return;
    const char *mode = modes[self->value++];
    expect_run(mode, self->value == 2 ? 0.06 : 0.03, false, TimedOut);
}

RL_TEST(deadlines_of_all_levels_hold, "S-RUN-24 S-NEST-2 S-NEST-6",
        "The deadlines of two outer runs that passed in a doubly nested run are honoured") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe outer = {.action = nest_deeper}, inner = {.action = nest_deeper, .value = 1};
    keep_alive(loop, kRLDefaultMode);
    keep_alive(loop, "level 1");
    keep_alive(loop, "level 2");
    add_observer(&outer, kRLBeforeWaiting, kRLDefaultMode);
    add_observer(&inner, kRLBeforeWaiting, "level 1");
    outer.value = 0;
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    ck_assert_int_eq(inner.value, 2);
}

/* POSIX signals */

static int signals_handled;

static void count_signal(int number) {
    (void)number;
    __atomic_add_fetch(&signals_handled, 1, __ATOMIC_SEQ_CST);
}

static pthread_t waiting_thread;

static void interrupt_then_stop(void *loop) {
    for (int i = 1; i <= 5; i++) {
        wait_until_waiting(loop);
        ck_assert_int_eq(pthread_kill(waiting_thread, SIGUSR1), 0);
        wait_until_count(&signals_handled, i);
        ck_assert(stays_waiting(loop, 0.01));
    }
    trace("stop");
    RLStop(loop);
}

static void install_handler(void) {
    struct sigaction action = {.sa_handler = count_signal};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    waiting_thread = pthread_self();
}

RL_TEST(signals_do_not_end_a_wait, "S-RUN-26 S-PASS-16",
        "A signal handled on the waiting thread neither ends the wait nor causes a notification, "
        "without and with ports") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe port = {0};
    install_handler();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int with_port = 0; with_port < 2; with_port++) {
        if (with_port) add_port(&port, make_eventfd(), kRLDefaultMode);
        signals_handled = 0;
        Thread *thread = when_waiting(loop, interrupt_then_stop, loop);
        expect_run(kRLDefaultMode, 1e9, true, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW stop AW X");
    }
}

static void interrupt_until_over(void *loop) {
    (void)loop;
    while (!count_of(&run_is_over)) {
        pthread_kill(waiting_thread, SIGUSR1);
        take_time(0.001);
    }
}

RL_TEST(signals_do_not_move_a_deadline, "S-RUN-26 S-RUN-23",
        "Signals in quick succession neither shorten nor extend a wait that has a deadline") {
    install_handler();
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    Thread *thread = thread_start(interrupt_until_over, NULL);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.1);
    __atomic_store_n(&run_is_over, 1, __ATOMIC_SEQ_CST);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(poll_serves_one_port_event, "S-RUN-27",
        "A run with no time serves at most one port event; a second ready port needs another "
        "call") {
    Probe first = {.name = "p"}, second = {.name = "p"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&first, make_eventfd(), kRLDefaultMode);
    add_port(&second, make_eventfd(), kRLDefaultMode);
    eventfd_signal(first.fd);
    eventfd_signal(second.fd);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS p X");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS p X");
    ck_assert_int_eq(first.calls, 1);
    ck_assert_int_eq(second.calls, 1);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
}
