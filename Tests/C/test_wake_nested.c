/* SPDX-License-Identifier: MIT */
/* Wake-ups and nested runs (S-WAKE-9), and changes by another thread during a wait (section 6). */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A nested run, started once from a callback of the outer run, and ended by a stop. */
static void run_nested_once(Probe *self) {
    if (self->value++ > 0) return;
    expect_run("inner", 1e9, false, Stopped);
    trace("inner-done");
}

static void signal_wake_and_stop(void *argument) {
    Probe *source = argument;
    RLSourceSignal(source->source);
    RLWakeUp(source->loop);
    /* The nested run may be anywhere in its pass now; the stop ends it wherever it is. */
    RLStop(source->loop);
}

/* Starts the nested run from an observer of the activity and wakes the loop while it waits. */
static void outer_run_does_not_sleep(RLActivity activity, const char *expected) {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = run_nested_once}, source = {.name = "s"};
    keep_alive(loop, "inner");
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_observer(&observer, activity, kRLDefaultMode);
    Thread *thread = when_waiting(loop, signal_wake_and_stop, &source);
    /* A lost wake-up would let this run wait for ever with a signalled source. */
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    thread_join(thread);
    expect_trace(expected);
}

RL_TEST(nested_run_in_before_waiting_keeps_the_wake_up, "S-WAKE-9 S-WAKE-8 S-NEST-6",
        "A wake-up during a nested run started in BeforeWaiting keeps the outer run from "
        "sleeping on a signalled source") {
    outer_run_does_not_sleep(kRLBeforeWaiting, "E BT BS BW inner-done AW BT BS s X");
}

RL_TEST(nested_run_in_before_timers_keeps_the_wake_up, "S-WAKE-9",
        "After a nested run in BeforeTimers the outer pass performs the source itself") {
    outer_run_does_not_sleep(kRLBeforeTimers, "E BT inner-done BS s X");
}

static Probe queued_meanwhile = {.name = "f"};

static void queue_wake_and_stop(void *loop) {
    probe_perform(&queued_meanwhile, loop, kRLDefaultMode);
    RLWakeUp(loop);
    RLStop(loop);
}

static void stop_second_time(Probe *self) {
    if (self->calls == 2) RLStop(self->loop);
}

static void run_nested_first_time(Probe *self) {
    if (self->calls == 1) run_nested_once(self);
    else stop_second_time(self);
}

RL_TEST(function_queued_during_a_nested_run, "S-WAKE-9",
        "A function queued with a wake-up during a nested run started in BeforeWaiting is run by "
        "the outer run without a sleep") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = run_nested_first_time};
    keep_alive(loop, "inner");
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    Thread *thread = when_waiting(loop, queue_wake_and_stop, loop);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    thread_join(thread);
    /* Round C of the same pass or round A of the next one: both are without a sleep. */
    const char *order = trace_take();
    ck_assert_msg(strcmp(order, "E BT BS BW inner-done AW f BT BS BW AW X") == 0 ||
                      strcmp(order, "E BT BS BW inner-done AW BT BS f BW AW X") == 0,
                  "the trace is: %s", order);
}

static void wake_then_run_nested(Probe *self) {
    if (self->calls > 1) {
        RLStop(self->loop);
        return;
    }
    RLWakeUp(self->loop);
    expect_run("inner", 0.01, false, TimedOut);
    trace("inner-done");
}

static void wake_up_before_a_nested_run_in(RLActivity activity, const char *expected) {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = wake_then_run_nested};
    keep_alive(loop, "inner");
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    add_observer(&observer, activity, kRLDefaultMode);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    expect_trace(expected);
}

RL_TEST(wake_up_before_a_nested_run, "S-WAKE-9",
        "A wake-up issued in BeforeWaiting before the same callback starts a nested run keeps "
        "the outer run from sleeping") {
    wake_up_before_a_nested_run_in(kRLBeforeWaiting, "E BT BS BW inner-done AW BT BS BW AW X");
}

RL_TEST(wake_up_before_a_nested_run_in_before_sources, "S-WAKE-9 S-WAKE-3",
        "The same in BeforeSources") {
    wake_up_before_a_nested_run_in(kRLBeforeSources, "E BT BS inner-done BW AW BT BS BW AW X");
}

/* Comes into the nested run's wait, not into the outer one's, which is a short one. */
static void wake_and_stop_in_the_nested_run(void *loop) {
    char *mode;
    for (;;) {
        wait_until_waiting(loop);
        mode = RLCopyCurrentMode(loop);
        if (mode && strcmp(mode, "inner") == 0) break;
        free(mode);
    }
    free(mode);
    wait_until_waiting(loop);
    RLWakeUp(loop);
    RLStop(loop);
}

/* A run woken while its timer runs a nested run has waited already; its next wait is a full one. */
RL_TEST(wake_up_after_the_outer_wait_is_dropped, "S-WAKE-9 S-WAKE-4",
        "A wake-up during a nested run started after the outer run's wait costs the outer run no "
        "pass of its own") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t", .action = run_nested_once};
    keep_alive(loop, "inner");
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    Thread *thread = thread_start(wake_and_stop_in_the_nested_run, loop);
    expect_run(kRLDefaultMode, 1, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW t inner-done BT BS BW AW X");
}

RL_TEST(stop_of_a_nested_run_is_no_wake_up, "S-WAKE-9 S-STOP-2",
        "A stop of a nested run started in BeforeWaiting does not wake the outer run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = run_nested_once};
    keep_alive(loop, "inner");
    keep_alive(loop, kRLDefaultMode);
    observe(loop, kRLDefaultMode);
    add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    Thread *thread = when_waiting(loop, call_stop, loop);
    expect_run(kRLDefaultMode, 1, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW inner-done AW X");
}

/* Changes by another thread while the loop waits */

/* Every one of these runs with the loop asleep on version 0 sources alone, then also on a port. */
static void make_waiting_mode(int with_port) {
    static Probe port;
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    if (with_port) add_port(&port, make_eventfd(), kRLDefaultMode);
}

static void add_the_source(void *argument) {
    Probe *probe = argument;
    RLAddSource(probe->loop, probe->source, kRLDefaultMode);
}

static void ready_port_is_served(int with_port) {
    Probe port = {.name = "p"};
    make_waiting_mode(with_port);
    probe_port(&port, make_eventfd());
    eventfd_signal(port.fd);
    Thread *thread = when_waiting(port.loop, add_the_source, &port);
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW AW p X");
}

RL_TEST(ready_port_added_to_a_waiting_loop, "S-WAKE-13 S-SRC-41",
        "A ready port source added by another thread is served with no wake-up and no pass of its "
        "own") {
    ready_port_is_served(0);
}

RL_TEST(ready_port_added_to_a_loop_waiting_on_ports, "S-WAKE-13",
        "The same while the loop waits on another port") {
    ready_port_is_served(1);
}

static void add_idle_port_then_signal(void *argument) {
    Probe *probe = argument;
    RLAddSource(probe->loop, probe->source, kRLDefaultMode);
    ck_assert(stays_waiting(probe->loop, 0.03));
    trace("signal");
    eventfd_signal(probe->fd);
}

RL_TEST(idle_port_added_to_a_waiting_loop, "S-WAKE-13 S-PASS-16",
        "A port source added by another thread before it is ready ends no wait until it is") {
    Probe port = {.name = "p"};
    make_waiting_mode(0);
    probe_port(&port, make_eventfd());
    Thread *thread = when_waiting(port.loop, add_idle_port_then_signal, &port);
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW signal AW p X");
}

static void add_the_timer(void *argument) {
    Probe *probe = argument;
    RLAddTimer(probe->loop, probe->timer, kRLDefaultMode);
}

static void added_timer_fires(int with_port, RLAbsoluteTime date, double other_timer) {
    Probe timer = {.name = "t", .action = action_stop}, other = {0};
    make_waiting_mode(with_port);
    if (other_timer > 0) add_timer(&other, date_in(other_timer), 0, kRLDefaultMode);
    probe_timer(&timer, date, 0);
    Thread *thread = when_waiting(timer.loop, add_the_timer, &timer);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW AW t X");
}

RL_TEST(timer_added_to_a_waiting_loop, "S-WAKE-13",
        "A timer added by another thread fires at its date with no wake-up and no pass of its "
        "own") {
    added_timer_fires(0, date_in(0.1), 0);
}

RL_TEST(timer_added_to_a_loop_waiting_on_ports, "S-WAKE-13",
        "The same while the loop waits on a port") {
    added_timer_fires(1, date_in(0.1), 0);
}

RL_TEST(due_timer_added_to_a_waiting_loop, "S-WAKE-13",
        "A due timer added by another thread fires at once in the pass that waited") {
    added_timer_fires(0, date_in(-1), 0);
}

RL_TEST(earlier_timer_added_to_a_waiting_loop, "S-WAKE-13",
        "A timer added by another thread that is earlier than the one waited for fires first") {
    added_timer_fires(1, date_in(0.1), 1000);
}

static void advance_the_timer(void *argument) {
    Probe *probe = argument;
    RLTimerSetNextFireDate(probe->timer, date_in(0.3));
}

RL_TEST(timer_advanced_by_another_thread, "S-WAKE-14 S-TMR-41",
        "A date set by another thread takes effect on the waiting loop at once, with one extra "
        "pass") {
    for (int with_port = 0; with_port < 2; with_port++) {
        Probe timer = {.name = "t", .action = action_stop};
        if (with_port) {
            static Probe port;
            add_port(&port, make_eventfd(), kRLDefaultMode);
        } else {
            observe(RLGetCurrent(), kRLDefaultMode);
        }
        add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
        Thread *thread = when_waiting(timer.loop, advance_the_timer, &timer);
        expect_run(kRLDefaultMode, INFINITY, false, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW AW BT BS BW AW t X");
    }
}

static void add_to_the_mode(void *argument) { add_the_source(argument); }

static void add_to_the_pseudo_mode(void *argument) {
    Probe *probe = argument;
    RLAddSource(probe->loop, probe->source, kRLCommonModes);
}

static void make_the_mode_common(void *argument) {
    Probe *probe = argument;
    RLAddCommonMode(probe->loop, "a mode");
}

RL_TEST(source_added_by_another_thread_wakes, "S-WAKE-15",
        "A signalled version 0 source added by another thread, to the mode or to the pseudo-mode, "
        "performs at once") {
    static void (*const adds[])(void *) = {add_to_the_mode, add_to_the_pseudo_mode};
    make_waiting_mode(0);
    for (int i = 0; i < 2; i++) {
        Probe source = {.name = "s"};
        probe_source(&source, 0);
        RLSourceSignal(source.source);
        Thread *thread = when_waiting(source.loop, adds[i], &source);
        expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
        thread_join(thread);
        expect_trace("E BT BS BW AW BT BS s X");
        RLSourceInvalidate(source.source);
    }
}

RL_TEST(mode_made_common_by_another_thread_wakes, "S-WAKE-15",
        "A mode made common by another thread while it waits performs a signalled common source "
        "at once") {
    Probe source = {.name = "s"};
    keep_alive(RLGetCurrent(), "a mode");
    observe(RLGetCurrent(), "a mode");
    add_source(&source, kRLCommonModes);
    RLSourceSignal(source.source);
    Thread *thread = when_waiting(source.loop, make_the_mode_common, &source);
    expect_run("a mode", INFINITY, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS s X");
}

static const char *mode_to_be;
static void make_it_common(void *loop) { RLAddCommonMode(loop, mode_to_be); }
static void stop_here(void *word) {
    trace("%s", (const char *)word);
    RLStop(RLGetCurrent());
}

RL_TEST(what_waited_for_a_common_mode_is_performed, "S-WAKE-15 S-WAKE-8 S-PERF-1 S-PERF-24",
        "A function, a request and an ordered request for the common modes are performed at once when another thread makes the mode that "
        "waits a common one") {
    static const char *const modes[] = {"of a function", "of a request", "of an ordered request"};
    const RLMode common = kRLCommonModes;
    RLRunLoopRef loop = RLGetCurrent();
    for (int kind = 0; kind < 3; kind++) {
        mode_to_be = modes[kind];
        keep_alive(loop, mode_to_be);
        if (kind == 0) RLPerformFunction(loop, common, stop_here, "performed", NULL);
        if (kind == 1) RLPerformOnLoop(loop, common, stop_here, "performed", NULL, false);
        if (kind == 2) RLPerformInOrder(loop, &common, 1, 0, NULL, stop_here, "performed", NULL);
        Thread *thread = when_waiting(loop, make_it_common, loop);
        expect_run(mode_to_be, 30, false, Stopped);
        thread_join(thread);
        expect_trace("performed");
    }
}

static void common_before_the_wait(Probe *self) { RLAddCommonMode(self->loop, mode_to_be); }

RL_TEST(mode_made_common_before_its_wait, "S-WAKE-15 S-PERF-6",
        "A mode that its own loop makes a common one just before it sleeps performs a request at once, and a function after the next wake-up") {
    RLRunLoopRef loop = RLGetCurrent();
    for (int is_request = 0; is_request < 2; is_request++) {
        Probe observer = {.action = common_before_the_wait};
        mode_to_be = is_request ? "of a request" : "of a function";
        keep_alive(loop, mode_to_be);
        RLAddObserver(loop, probe_observer(&observer, kRLBeforeWaiting, false, 0), mode_to_be);
        if (is_request) RLPerformOnLoop(loop, kRLCommonModes, stop_here, "performed", NULL, false);
        else RLPerformFunction(loop, kRLCommonModes, stop_here, "performed", NULL);
        RLWakeUp(loop);
        observe(loop, mode_to_be);
        if (is_request) expect_run(mode_to_be, 30, false, Stopped);
        else expect_run(mode_to_be, 0.05, false, TimedOut);
        expect_trace(is_request ? "E BT BS BW AW BT BS performed X" : "E BT BS BW AW performed X");
    }
}

/* In a function of the mode: a nested run, during which another thread makes the mode a common one. */
static void make_it_common_and_stop(void *loop) {
    RLAddCommonMode(loop, mode_to_be);
    RLStop(loop);
}
static void run_while_it_becomes_common(void *loop) {
    Thread *thread = when_waiting(loop, make_it_common_and_stop, loop);
    expect_run(mode_to_be, 30, false, Stopped);
    thread_join(thread);
    trace("nested-done");
}

RL_TEST(mode_made_common_during_a_nested_run, "S-WAKE-15 S-WAKE-9 S-BLK-15",
        "A mode becomes a common one while a nested run waits, to which the functions of the outer round are invisible: the outer run does not "
        "sleep before a function that has waited for that") {
    RLRunLoopRef loop = RLGetCurrent();
    mode_to_be = "a mode";
    keep_alive(loop, mode_to_be);
    RLPerformFunction(loop, kRLCommonModes, stop_here, "performed", NULL);
    expect_run(mode_to_be, 0, false, TimedOut);
    RLPerformFunction(loop, mode_to_be, run_while_it_becomes_common, loop, NULL);
    expect_run(mode_to_be, 30, false, Stopped);
    expect_trace("nested-done performed");
}

static void queue_in_the_mode(Probe *self) { RLPerformFunction(self->loop, mode_to_be, stop_here, "performed", NULL); }

RL_TEST(mode_made_common_long_before, "S-WAKE-15 S-BLK-2 S-PASS-16",
        "A mode that another thread made a common one before the run: a function queued just before the wait does not end it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = queue_in_the_mode};
    mode_to_be = "a mode";
    keep_alive(loop, mode_to_be);
    RLAddObserver(loop, probe_observer(&observer, kRLBeforeWaiting, false, 0), mode_to_be);
    thread_join(thread_start(make_it_common, loop));
    observe(loop, mode_to_be);
    expect_run(mode_to_be, 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW performed X");
}

RL_TEST(another_mode_made_common_before_the_wait, "S-WAKE-15 S-PASS-16",
        "A mode that the loop makes a common one before it waits in another, which is none: a request for the common modes makes no pass") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = common_before_the_wait};
    mode_to_be = "common";
    keep_alive(loop, "a mode");
    RLAddObserver(loop, probe_observer(&observer, kRLBeforeWaiting, false, 0), "a mode");
    RLPerformOnLoop(loop, kRLCommonModes, stop_here, "performed", NULL, false);
    observe(loop, "a mode");
    expect_run("a mode", 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

static void add_on_own_thread(Probe *self) { add_source(self->data, kRLDefaultMode); }

RL_TEST(source_added_by_the_loops_thread_does_not_wake, "S-WAKE-15",
        "A signalled version 0 source added on the loop's own thread is no wake-up") {
    Probe source = {.name = "s"}, observer = {.action = add_on_own_thread, .data = &source};
    make_waiting_mode(0);
    RLAddObserver(RLGetCurrent(), probe_observer(&observer, kRLBeforeWaiting, false, 0),
                  kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    ck_assert(RLContainsSource(RLGetCurrent(), source.source, kRLDefaultMode));
}

/* The spin limit; --spin runs the other programs with one. */

RL_TEST(spin_limits_of_any_value, "S-WAKE-16",
        "Whatever number the spin limit is set to, waits end by the same events, not before "
        "their time") {
    RLRunLoopRef loop = RLGetCurrent();
    static const double limits[] = {0, 1e-9, 0.0005, 0.001, 0.002, 1e300, INFINITY, -1, -INFINITY,
                                    NAN};
    Probe timer = {.name = "t"}, port = {.name = "p"};
    observe(loop, kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 10; i++) {
        RLSetSpinLimit(loop, limits[i]);
        double start = monotonic_now();
        expect_run(kRLDefaultMode, 0.005, false, TimedOut);
        ck_assert_double_ge(monotonic_now() - start, 0.005);
        expect_trace("E BT BS BW AW X");
        expect_run(kRLDefaultMode, 0.0002, false, TimedOut);
        expect_trace("E BT BS BW AW X");
        add_timer(&timer, date_in(0.003), 0, kRLDefaultMode);
        start = monotonic_now();
        expect_run(kRLDefaultMode, 0.3, false, TimedOut);
        ck_assert_double_ge(monotonic_now() - start, 0.3);
        const char *trace = trace_take();
        /* On a busy machine the run's time may be over when the timer fires. */
        if (strcmp(trace, "E BT BS BW AW t X") != 0) ck_assert_str_eq(trace, "E BT BS BW AW t BT BS BW AW X");
        eventfd_signal(port.fd);
        expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
        expect_trace("E BT BS BW AW p X");
        Thread *thread = when_waiting(loop, call_stop, loop);
        expect_run(kRLDefaultMode, INFINITY, false, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW AW X");
    }
}

static void signal_the_port(void *argument) { eventfd_signal(((Probe *)argument)->fd); }

RL_TEST(port_event_during_a_spin, "S-WAKE-16",
        "With a spin limit an event of a descriptor that comes during the wait is served") {
    Probe port = {.name = "p"};
    RLSetSpinLimit(RLGetCurrent(), 0.001);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 20; i++) {
        Thread *thread = when_waiting(port.loop, signal_the_port, &port);
        expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
        thread_join(thread);
    }
    ck_assert_int_eq(port.calls, 20);
}
