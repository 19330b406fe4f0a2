/* SPDX-License-Identifier: MIT */
/* RLWakeUp and waiting (section 6). More levels of runs are in test_wake_nested.c. */
#include "support.h"

#include <math.h>

/* Wakes the loop, and stops it in its next wait. */
static void wake_then_stop(void *observer) {
    Probe *waits = observer;
    int before = count_of(&waits->calls);
    RLWakeUp(waits->loop);
    wait_until_count(&waits->calls, before + 1);
    wait_until_waiting(waits->loop);
    RLStop(waits->loop);
}

static void wake_ten_times(void *loop) {
    for (int i = 0; i < 10; i++) RLWakeUp(loop);
}

RL_TEST(wake_up_makes_another_pass, "S-WAKE-1 S-WAKE-7",
        "A wake-up ends the wait, AfterWaiting is called, another pass follows, and the run goes "
        "on, with and without ports") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe port = {0}, waits = {0};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_observer(&waits, kRLBeforeWaiting, kRLDefaultMode);
    for (int with_port = 0; with_port < 2; with_port++) {
        if (with_port) add_port(&port, make_eventfd(), kRLDefaultMode);
        Thread *thread = when_waiting(loop, wake_then_stop, &waits);
        expect_run(kRLDefaultMode, INFINITY, true, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW AW BT BS BW AW X");
    }
}

static void let_a_thread_wake(Probe *self) {
    thread_join(thread_start(wake_ten_times, self->loop));
}

RL_TEST(wake_ups_coalesce, "S-WAKE-2",
        "Ten wake-ups from another thread before the wait ends cause one extra pass") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = let_a_thread_wake};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    RLAddObserver(loop, probe_observer(&observer, kRLBeforeWaiting, false, 0), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW BT BS BW AW X");
}

/* Wakes in one observer of the activity and expects the trace of a run of 0.6 s. */
static void wake_in(RLActivity activity, const char *expected) {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = action_wake_up};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    RLAddObserver(loop, probe_observer(&observer, activity, false, 0), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace(expected);
}

RL_TEST(wake_up_in_entry, "S-WAKE-3", "A wake-up in Entry makes the coming wait return at once") {
    wake_in(kRLEntry, "E BT BS BW AW BT BS BW AW X");
}

RL_TEST(wake_up_in_before_timers, "S-WAKE-3",
        "A wake-up in BeforeTimers makes the coming wait return at once") {
    wake_in(kRLBeforeTimers, "E BT BS BW AW BT BS BW AW X");
}

RL_TEST(wake_up_in_before_sources, "S-WAKE-3",
        "A wake-up in BeforeSources makes the coming wait return at once") {
    wake_in(kRLBeforeSources, "E BT BS BW AW BT BS BW AW X");
}

RL_TEST(wake_up_in_before_waiting, "S-WAKE-3",
        "A wake-up in BeforeWaiting makes the coming wait return at once") {
    wake_in(kRLBeforeWaiting, "E BT BS BW AW BT BS BW AW X");
}

static void queue_its_data(Probe *self) { probe_perform(self->data, self->loop, kRLDefaultMode); }

RL_TEST(wake_up_in_functions_and_sources, "S-WAKE-3",
        "A wake-up in a round-A function makes the coming wait return at once; in a perform or a "
        "round-B function the coming wait is a poll, which takes it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f", .action = action_wake_up};
    Probe source = {.name = "s", .action = action_wake_up};
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS f BW AW BT BS BW AW X");
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS s BT BS BW AW X");
    source.action = queue_its_data;
    source.data = &function;
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS s f BT BS BW AW X");
}

RL_TEST(wake_up_in_after_waiting, "S-WAKE-4",
        "A wake-up in AfterWaiting is dropped") {
    Probe timer = {.name = "t"};
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    wake_in(kRLAfterWaiting, "E BT BS BW AW t BT BS BW AW X");
}

RL_TEST(wake_up_in_served_events, "S-WAKE-4",
        "A wake-up in a timer, a port perform or a round-C function is dropped") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t", .action = action_wake_up};
    Probe port = {.name = "p", .action = action_wake_up};
    Probe function = {.name = "f", .action = action_wake_up};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW t BT BS BW AW X");
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW p BT BS BW AW X");
    timer.action = queue_its_data;
    timer.data = &function;
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW t f BT BS BW AW X");
}

RL_TEST(wake_up_of_an_idle_loop, "S-WAKE-5",
        "A wake-up while the loop does not run is not remembered") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    RLWakeUp(loop);
    thread_join(thread_start(wake_ten_times, loop));
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(no_wake_up_is_left_over, "S-WAKE-6",
        "Wake-ups at any point of one run, whatever it returned, cause no extra pass in the next") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe everywhere = {.action = action_wake_up};
    Probe source = {.action = action_wake_up}, timer = {.action = action_wake_up};
    Probe port = {.action = action_wake_up}, function = {.action = action_wake_up};
    static const double times[] = {0, 0.001, 1e9};
    int served = 0;
    keep_alive(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 3; i++) {
        for (int event = 0; event < 4; event++) {
            add_observer(&everywhere, kRLAllActivities, kRLDefaultMode);
            if (event == 0) RLSourceSignal(source.source);
            if (event == 1) eventfd_signal(port.fd);
            if (event == 2) add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
            if (event == 3) probe_perform(&function, loop, kRLDefaultMode);
            /* Without a source to end it, a run of 1e9 s is not for this test. */
            RLRunInMode(kRLDefaultMode, event > 1 && i == 2 ? 0.01 : times[i], true);
            RLObserverInvalidate(everywhere.observer);
            /* A poll may have served a wake-up and not the event (S-PASS-10). */
            served++;
            while (source.calls + timer.calls + port.calls + function.calls < served)
                RLRunInMode(kRLDefaultMode, 0, true);
            RLObserverRef observer = observe(loop, kRLDefaultMode);
            trace_take();
            expect_run(kRLDefaultMode, 0.01, false, TimedOut);
            expect_trace("E BT BS BW AW X");
            RLObserverInvalidate(observer);
        }
    }
}

static void signal_in_rounds(void *argument) {
    Probe *source = argument;
    for (int round = 1; round <= source->value; round++) {
        RLSourceSignal(source->source);
        RLWakeUp(source->loop);
        wait_until_count(&source->calls, round);
    }
}

static void stop_after_all_rounds(Probe *self) {
    if (self->calls == self->value) RLStop(self->loop);
}

RL_TEST(signal_and_wake_up_are_not_lost, "S-WAKE-8 S-SRC-26",
        "Each of many signals with a wake-up from another thread is performed by a loop that "
        "would wait for ever, with and without ports") {
    Probe port = {0};
    for (int with_port = 0; with_port < 2; with_port++) {
        Probe source = {.action = stop_after_all_rounds, .value = 200};
        add_source(&source, kRLDefaultMode);
        if (with_port) add_port(&port, make_eventfd(), kRLDefaultMode);
        Thread *thread = thread_start(signal_in_rounds, &source);
        expect_run(kRLDefaultMode, INFINITY, false, Stopped);
        thread_join(thread);
        ck_assert_int_eq(source.calls, 200);
        RLSourceInvalidate(source.source);
    }
}

static void perform_in_rounds(void *argument) {
    Probe *function = argument;
    RLRunLoopRef loop = function->loop;
    for (int round = 1; round <= function->value; round++) {
        probe_perform(function, loop, kRLDefaultMode);
        RLWakeUp(loop);
        wait_until_count(&function->releases, round);
    }
}

RL_TEST(functions_with_a_wake_up_are_not_lost, "S-WAKE-8 S-BLK-2",
        "Each of many functions queued by another thread with a wake-up is run by a loop that "
        "would wait for ever") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.action = stop_after_all_rounds, .value = 200, .loop = loop};
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = thread_start(perform_in_rounds, &function);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(function.calls, 200);
}

static void signal_wake_then_stop(void *probes) {
    Probe *source = probes;
    RLSourceSignal(source[0].source);
    wake_then_stop(&source[1]);
}

RL_TEST(signal_for_another_mode_is_kept, "S-WAKE-8 S-MODE-23",
        "A source signalled with a wake-up while another mode waits performs, without waiting, as "
        "soon as its mode runs") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source_and_waits[2] = {{.name = "s"}};
    add_source(&source_and_waits[0], kRLDefaultMode);
    keep_alive(loop, "other");
    observe(loop, "other");
    add_observer(&source_and_waits[1], kRLBeforeWaiting, "other");
    Thread *thread = when_waiting(loop, signal_wake_then_stop, source_and_waits);
    expect_run("other", INFINITY, true, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS BW AW X");
    expect_run(kRLDefaultMode, INFINITY, true, HandledSource);
    expect_trace("s");
}

static void assert_not_waiting(Probe *self) { ck_assert(!RLIsWaiting(self->loop)); }

static void see_it_wait(void *loop) {
    ck_assert(stays_waiting(loop, 0.02));
    RLStop(loop);
}

RL_TEST(is_waiting_only_in_the_wait, "S-WAKE-10",
        "RLIsWaiting is false outside runs and in every callback, and true for another thread "
        "while the loop waits") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = assert_not_waiting}, source = {.action = assert_not_waiting};
    Probe timer = {.action = assert_not_waiting}, port = {.action = assert_not_waiting};
    Probe function = {.action = assert_not_waiting};
    ck_assert(!RLIsWaiting(loop));
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    RLSourceSignal(source.source);
    eventfd_signal(port.fd);
    for (int i = 0; i < 4; i++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(source.calls + timer.calls + port.calls + function.calls, 4);
    Thread *thread = when_waiting(loop, see_it_wait, loop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    ck_assert(!RLIsWaiting(loop));
}
