/* SPDX-License-Identifier: MIT */
/* Runs: how they start and what they return (sections 3.1 and 3.2). */
#include "support.h"

#include <math.h>

/* Start */

static Probe other_threads_source = {.name = "other"};

static void run_own_mode(LoopThread *self) {
    (void)self;
    Probe mine = {.name = "mine"};
    add_source(&mine, kRLDefaultMode);
    RLSourceSignal(mine.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(other_threads_source.calls, 0);
    Probe timer = {.name = "stop", .action = action_stop};
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLSourceSignal(mine.source);
    RLRun();
    ck_assert_int_eq(mine.calls, 2);
    RLSourceInvalidate(mine.source);
}

RL_TEST(run_acts_on_the_callers_loop, "S-RUN-1 S-THR-1",
        "RLRunInMode and RLRun run the calling thread's loop and no other") {
    LoopThread thread = {0};
    add_source(&other_threads_source, kRLDefaultMode);
    RLSourceSignal(other_threads_source.source);
    loop_thread_start(&thread, run_own_mode, NULL);
    thread_join(thread.thread);
    ck_assert_int_eq(other_threads_source.calls, 0);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(other_threads_source.calls, 1);
}

RL_TEST(what_makes_a_mode_non_empty, "S-RUN-2 S-BLK-10 S-OBS-12",
        "A version 0 source, a port source, a timer or an eligible function makes a mode "
        "non-empty; an observer, or a function for another mode, does not") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {0}, port = {0}, timer = {0}, observer = {0}, function = {0}, elsewhere = {0};
    add_source(&source, "source");
    add_port(&port, make_eventfd(), "port");
    add_timer(&timer, FAR_FUTURE, 0, "timer");
    add_observer(&observer, kRLAllActivities, "observer");
    probe_perform(&function, loop, "function");
    add_observer(&observer, kRLAllActivities, "empty");
    probe_perform(&elsewhere, loop, "elsewhere");
    expect_run("source", 0, false, TimedOut);
    expect_run("port", 0, false, TimedOut);
    expect_run("timer", 0, false, TimedOut);
    expect_run("function", 0, false, TimedOut);
    expect_run("function", 0, false, Finished);
    expect_run("observer", 0, false, Finished);
    expect_run("empty", 0, false, Finished);
    ck_assert_int_eq(observer.calls, 0);
}

RL_TEST(emptiness_can_be_asked_for, "S-RUN-2 S-RUN-4 S-MODE-19",
        "RLIsModeEmpty is true exactly where a run would return Finished at once, and runs nothing") {
    Probe timer = {0}, observer = {0}, function = {0};
    add_observer(&observer, kRLAllActivities, "observer");
    add_timer(&timer, FAR_FUTURE, 0, "timer");
    RLAddTimer(RLGetCurrent(), timer.timer, kRLCommonModes);
    probe_perform(&function, RLGetCurrent(), "function");
    ck_assert(RLIsModeEmpty("missing"));
    ck_assert(RLIsModeEmpty("observer"));
    ck_assert(RLIsModeEmpty(kRLCommonModes));
    ck_assert(RLIsModeEmpty(NULL));
    ck_assert(!RLIsModeEmpty("timer"));
    ck_assert(!RLIsModeEmpty(kRLDefaultMode));
    ck_assert(!RLIsModeEmpty("function"));
    expect_run("function", 0, false, TimedOut);
    ck_assert(RLIsModeEmpty("function"));
    RLTimerInvalidate(timer.timer);
    ck_assert(RLIsModeEmpty("timer"));
    ck_assert(RLIsModeEmpty(kRLDefaultMode));
    ck_assert_int_eq(observer.calls, 0);
}

static void run_in_own_mode(Probe *self) {
    expect_run(self->mode, 0.01, false, TimedOut);
    trace("inner-done");
}

RL_TEST(present_items_that_cannot_act, "S-RUN-3 S-SRC-43 S-NEST-4",
        "A port source with a bad port, and a timer whose callback is on the stack, count as "
        "present") {
    Probe bad = {0}, timer = {.name = "t", .action = run_in_own_mode, .mode = "timer"};
    add_port(&bad, -1, "bad port");
    expect_run("bad port", 0, false, TimedOut);
    expect_run("bad port", 0.01, false, TimedOut);
    add_timer(&timer, date_in(-1), 0, "timer");
    expect_run("timer", 1e9, false, Finished);
    expect_trace("t inner-done");
}

RL_TEST(unmade_common_mode_is_missing, "S-RUN-4 S-MODE-4",
        "A common mode that was never made is missing although a function waits for the common "
        "modes") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"};
    RLAddCommonMode(loop, "never made");
    probe_perform(&function, loop, kRLCommonModes);
    expect_run("never made", 1e9, false, Finished);
    expect_trace("");
    keep_alive(loop, "never made");
    expect_run("never made", 0, false, TimedOut);
    expect_trace("f");
}

static Probe coming_and_going = {.name = "s"};

static void remove_and_add_in_turn(Probe *self) {
    RLRunLoopRef loop = self->loop;
    if (self->activity == kRLBeforeTimers || self->activity == kRLBeforeWaiting)
        RLRemoveSource(loop, coming_and_going.source, kRLDefaultMode);
    else if (self->activity == kRLBeforeSources || self->activity == kRLAfterWaiting)
        RLAddSource(loop, coming_and_going.source, kRLDefaultMode);
}

RL_TEST(emptiness_within_a_pass_is_not_seen, "S-RUN-5",
        "A mode that is empty only inside a pass does not end the run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = remove_and_add_in_turn};
    observe(loop, kRLDefaultMode);
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    RLAddSource(loop, probe_source(&coming_and_going, 0), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

static void remove_the_source(Probe *self) {
    if (coming_and_going.source)
        RLRemoveSource(self->loop, coming_and_going.source, kRLDefaultMode);
    coming_and_going.source = NULL;
}

RL_TEST(emptiness_is_seen_at_the_end_of_a_pass, "S-RUN-5 S-RUN-9",
        "A mode emptied during a pass ends the run after that pass") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t", .action = remove_the_source};
    observe(loop, kRLDefaultMode);
    add_source(&coming_and_going, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("E BT BS BW AW t X");
}

RL_TEST(item_removed_in_entry, "S-RUN-6",
        "If an Entry observer removes the last item the run still makes a pass and waits out its "
        "time") {
    Probe observer = {.action = remove_the_source};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&coming_and_going, kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.05);
    expect_trace("E BT BS BW AW X");
}

static void remove_then_wake(void *loop) {
    RLRemoveSource(loop, coming_and_going.source, kRLDefaultMode);
    ck_assert(stays_waiting(loop, 0.05));
    trace("wake");
    RLWakeUp(loop);
}

RL_TEST(item_removed_by_another_thread, "S-RUN-7",
        "If another thread removes the last item the wait goes on, and the next wake-up makes the "
        "run return Finished") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    add_source(&coming_and_going, kRLDefaultMode);
    Thread *thread = when_waiting(loop, remove_then_wake, loop);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    thread_join(thread);
    expect_trace("E BT BS BW wake AW X");
}

RL_TEST(run_ends_when_finished, "S-RUN-8 S-RUN-16",
        "RLRun goes on without a deadline, does not end for a handled source, and returns when "
        "the default mode is empty") {
    Probe source = {.name = "s", .value = 0}, timer = {.name = "t", .action = remove_the_source};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    coming_and_going.source = source.source;
    RLSourceSignal(source.source);
    add_timer(&timer, date_in(0.3), 0, kRLDefaultMode);
    RLRun();
    expect_trace("E BT BS s BT BS BW AW t X");
    RLRun();
    expect_trace("");
}

/* Result */

static void stop_and_take_time(Probe *self) {
    RLStop(self->loop);
    action_take_time(self);
}

static void empty_stop_and_take_time(Probe *self) {
    RLSourceInvalidate(self->source);
    stop_and_take_time(self);
}

RL_TEST(order_of_results, "S-RUN-9 S-RUN-22",
        "First match wins: handled source, deadline, stop, empty") {
    /* Everything at once: handled, deadline passed, stopped, empty. */
    for (int h = 1; h >= 0; h--) {
        Probe source = {.action = empty_stop_and_take_time, .value = 30};
        add_source(&source, kRLDefaultMode);
        RLSourceSignal(source.source);
        if (h) expect_run(kRLDefaultMode, 0.02, true, HandledSource);
        else expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    }
    Probe source = {.action = empty_stop_and_take_time};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    Probe timer = {0};
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
}

RL_TEST(stop_that_lost_is_forgotten, "S-RUN-10",
        "A stop that lost to HandledSource or TimedOut does not touch later runs") {
    Probe source = {.action = stop_and_take_time, .value = 0};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    trace_take();
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    source.value = 30;
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    trace_take();
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(poll_of_a_mode_that_became_empty, "S-RUN-11",
        "With no time TimedOut wins over an emptied mode") {
    RLRunLoopRef loop = RLGetCurrent();
    for (int h = 0; h < 2; h++) {
        Probe timer = {.name = "t"}, function = {.name = "f"};
        add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
        expect_run(kRLDefaultMode, 0, h, TimedOut);
        expect_run(kRLDefaultMode, 0, h, Finished);
        probe_perform(&function, loop, kRLDefaultMode);
        expect_run(kRLDefaultMode, -1, h, TimedOut);
        expect_run(kRLDefaultMode, -1, h, Finished);
        expect_trace("t f");
    }
}

static void wake_three_times(void *passes) {
    Probe *observer = passes;
    for (int pass = 1; pass <= 3; pass++) {
        wait_until_count(&observer->calls, pass);
        wait_until_waiting(observer->loop);
        RLWakeUp(observer->loop);
    }
    wait_until_count(&observer->calls, 4);
    RLStop(observer->loop);
}

RL_TEST(what_does_not_count_as_a_source, "S-RUN-12 S-RUN-15 S-BLK-11 S-WAKE-7",
        "Timers, functions, observers and wake-ups never make a run return HandledSource") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t"}, function = {.name = "f"}, observer = {0};
    keep_alive(loop, kRLDefaultMode);
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("f t");
    ck_assert_int_eq(observer.calls, 4);
    Probe passes = {0};
    add_observer(&passes, kRLBeforeWaiting, kRLDefaultMode);
    Thread *thread = when_waiting(loop, wake_three_times, &passes);
    expect_run(kRLDefaultMode, 1e9, true, Stopped);
    thread_join(thread);
}

RL_TEST(port_in_a_poll_counts, "S-RUN-12 S-RUN-28",
        "A port source performed in a poll makes it return HandledSource with h, else TimedOut") {
    Probe port = {.name = "p"};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int h = 0; h < 2; h++) {
        eventfd_signal(port.fd);
        if (h) expect_run(kRLDefaultMode, 0, true, HandledSource);
        else expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    expect_trace("p p");
}

RL_TEST(one_source_of_a_batch_with_h, "S-RUN-13 S-SRC-31",
        "With h only the first source of the sorted batch performs; the others keep their signal") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe probes[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    static const RLIndex orders[] = {0, 10, -10};
    for (int i = 0; i < 3; i++) {
        RLAddSource(loop, probe_source(&probes[i], orders[i]), kRLDefaultMode);
        RLSourceSignal(probes[i].source);
    }
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("c");
    ck_assert(RLSourceIsSignalled(probes[0].source));
    ck_assert(RLSourceIsSignalled(probes[1].source));
    ck_assert(!RLSourceIsSignalled(probes[2].source));
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("a");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("b");
}

RL_TEST(poll_after_a_handled_source, "S-RUN-14",
        "With h the pass of a source polls once and serves one port event only") {
    Probe source = {.name = "s"}, first = {.name = "p"}, second = {.name = "p"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_port(&first, make_eventfd(), kRLDefaultMode);
    add_port(&second, make_eventfd(), kRLDefaultMode);
    eventfd_signal(first.fd);
    eventfd_signal(second.fd);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS s p X");
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS BW AW p X");
}

static void stop_at_five(Probe *self) {
    if (self->calls == 5) RLStop(self->loop);
}

RL_TEST(timers_end_no_run, "S-RUN-15",
        "With h a run fires any number of timers") {
    Probe timer = {.action = stop_at_five};
    add_timer(&timer, date_in(0), 0.001, kRLDefaultMode);
    expect_run(kRLDefaultMode, INFINITY, true, Stopped);
    ck_assert_int_eq(timer.calls, 5);
}

RL_TEST(results_of_a_poll, "S-RUN-28",
        "A run with no time returns HandledSource or TimedOut, and Stopped only for a stop in an "
        "Entry observer") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = action_stop}, source = {.action = action_stop};
    Probe timer = {.action = action_stop}, function = {.action = action_stop};
    Probe entry = {.action = action_stop};
    add_observer(&observer, kRLBeforeTimers | kRLBeforeSources | kRLExit, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(source.calls + timer.calls + function.calls, 3);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    add_observer(&entry, kRLEntry, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, true, Stopped);
    ck_assert_int_eq(source.calls, 2);
}
