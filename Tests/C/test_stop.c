/* SPDX-License-Identifier: MIT */
/* RLStop (section 5). */
#include "support.h"

#include <string.h>

RL_TEST(stop_of_an_idle_loop_is_forgotten, "S-STOP-1",
        "RLStop on a loop that does not run is not remembered") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    RLStop(loop);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLStop(loop);
    RLStop(loop);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
}

static void stop_inside_nested(Probe *self) {
    if (self->mode) expect_run(self->mode, 1e9, false, Stopped);
    else RLStop(self->loop);
}

RL_TEST(stop_ends_the_innermost_run, "S-STOP-2 S-NEST-2 S-NEST-6",
        "A stop ends the run that is innermost at the call; the outer run goes on") {
    Probe outer = {.name = "s", .action = stop_inside_nested, .mode = "inner"};
    Probe inner = {.name = "i", .action = stop_inside_nested};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    observe_as(loop, "inner", "n.");
    add_source(&outer, kRLDefaultMode);
    add_source(&inner, "inner");
    RLSourceSignal(outer.source);
    RLSourceSignal(inner.source);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS s n.E n.BT n.BS i n.X BT BS BW AW X");
}

static void run_inner_for_ever(Probe *self) { expect_run(self->mode, 1e9, false, Stopped); }

static void stop_both_runs(void *observer) {
    Probe *outer_waits = observer;
    RLStop(outer_waits->loop);
    wait_until_count(&outer_waits->calls, 1);
    wait_until_waiting(outer_waits->loop);
    RLStop(outer_waits->loop);
}

RL_TEST(stop_from_a_thread_ends_the_innermost_run, "S-STOP-2 S-STOP-8",
        "A stop from another thread ends the nested run only; the outer one needs its own") {
    Probe outer = {.name = "s", .action = run_inner_for_ever, .mode = "inner"}, waits = {0};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    observe_as(loop, "inner", "n.");
    keep_alive(loop, "inner");
    add_source(&outer, kRLDefaultMode);
    add_observer(&waits, kRLBeforeWaiting, kRLDefaultMode);
    RLSourceSignal(outer.source);
    Thread *thread = when_waiting(loop, stop_both_runs, &waits);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS s n.E n.BT n.BS n.BW n.AW n.X BT BS BW AW X");
}

static void stop_then_run_nested(Probe *self) {
    RLStop(self->loop);
    expect_run(self->mode, 0.01, false, TimedOut);
    trace("inner-done");
}

RL_TEST(stop_before_a_nested_run, "S-STOP-3 S-NEST-6",
        "A stop requested before a nested run starts in the same callback leaves the nested run "
        "alone and ends the outer run after its pass") {
    Probe source = {.name = "s", .action = stop_then_run_nested, .mode = "inner"};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, "inner");
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E BT BS s inner-done X");
}

static void stop_survives_nested_run_in(RLActivity activity, const char *expected) {
    Probe observer = {.action = stop_then_run_nested, .mode = "inner"};
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    keep_alive(loop, "inner");
    add_observer(&observer, activity, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace(expected);
}

RL_TEST(stop_before_a_nested_run_in_before_timers, "S-STOP-3 S-STOP-13",
        "The same in a BeforeTimers observer: the outer run does not sleep") {
    stop_survives_nested_run_in(kRLBeforeTimers, "E BT inner-done BS BW AW X");
}

RL_TEST(stop_before_a_nested_run_in_before_waiting, "S-STOP-3 S-STOP-13",
        "The same in a BeforeWaiting observer: the outer run does not sleep") {
    stop_survives_nested_run_in(kRLBeforeWaiting, "E BT BS BW inner-done AW X");
}

RL_TEST(stop_before_a_nested_run_in_after_waiting, "S-STOP-3",
        "The same in an AfterWaiting observer") {
    Probe timer = {.name = "t"};
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    stop_survives_nested_run_in(kRLAfterWaiting, "E BT BS BW AW inner-done t X");
}

RL_TEST(stop_in_entry, "S-STOP-4",
        "A stop in Entry: no pass, signalled sources stay signalled, functions stay queued, Exit "
        "is called") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = action_stop}, source = {.name = "s"}, function = {.name = "f"};
    observe(loop, kRLDefaultMode);
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, true, Stopped);
    expect_trace("E X");
    ck_assert(RLSourceIsSignalled(source.source));
    RLObserverInvalidate(observer.observer);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS f s X");
}

static void stop_in(RLActivity activity, bool with_source, const char *expected) {
    Probe observer = {.action = action_stop}, source = {.name = "s"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_observer(&observer, activity, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    if (with_source) RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace(expected);
}

RL_TEST(stop_in_before_timers, "S-STOP-5 S-STOP-13",
        "A stop in BeforeTimers: the pass goes on, does not sleep, then Stopped") {
    stop_in(kRLBeforeTimers, false, "E BT BS BW AW X");
}

RL_TEST(stop_in_before_timers_with_source, "S-STOP-5 S-STOP-9",
        "A stop in BeforeTimers: signalled sources of the pass still perform") {
    stop_in(kRLBeforeTimers, true, "E BT BS s X");
}

RL_TEST(stop_in_before_sources, "S-STOP-5 S-STOP-13",
        "A stop in BeforeSources: the pass goes on, does not sleep, then Stopped") {
    stop_in(kRLBeforeSources, false, "E BT BS BW AW X");
}

RL_TEST(stop_in_before_sources_with_source, "S-STOP-5 S-STOP-9",
        "A stop in BeforeSources: signalled sources of the pass still perform") {
    stop_in(kRLBeforeSources, true, "E BT BS s X");
}

RL_TEST(stop_in_before_waiting, "S-STOP-6",
        "A stop in BeforeWaiting: the wait returns at once, AfterWaiting is called, then Stopped") {
    stop_in(kRLBeforeWaiting, false, "E BT BS BW AW X");
}

RL_TEST(stop_in_after_waiting, "S-STOP-9 S-RUN-9",
        "A stop in AfterWaiting: the due timers of the pass still fire, then Stopped") {
    Probe timer = {.name = "t"};
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    stop_in(kRLAfterWaiting, false, "E BT BS BW AW t X");
}

RL_TEST(stop_in_exit, "S-STOP-7",
        "A stop in Exit touches neither this run's result nor the next run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = action_stop};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_observer(&observer, kRLExit, kRLDefaultMode);
    for (int i = 0; i < 2; i++) {
        expect_run(kRLDefaultMode, 0.01, false, TimedOut);
        expect_trace("E BT BS BW AW X");
    }
}

RL_TEST(stop_from_a_thread_wakes, "S-STOP-8",
        "A stop from another thread wakes a loop that waits without end, with and without ports") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe port = {0};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int with_port = 0; with_port < 2; with_port++) {
        if (with_port) add_port(&port, make_eventfd(), kRLDefaultMode);
        Thread *thread = when_waiting(loop, call_stop, loop);
        expect_run(kRLDefaultMode, 1e300, true, Stopped);
        thread_join(thread);
        expect_trace("E BT BS BW AW X");
    }
}

RL_TEST(stop_lets_the_pass_complete, "S-STOP-9",
        "After a stop the rest of the batch performs, the rest of the due timers fire, and the "
        "queued functions run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe sources[3] = {{.name = "a", .action = action_stop}, {.name = "b"}, {.name = "c"}};
    Probe timers[3] = {{.name = "x", .action = action_stop}, {.name = "y"}, {.name = "z"}};
    Probe functions[2] = {{.name = "f", .action = action_stop}, {.name = "g"}};
    observe(loop, "sources");
    observe(loop, "timers");
    observe(loop, "functions");
    keep_alive(loop, "functions");
    for (int i = 0; i < 3; i++) {
        add_source(&sources[i], "sources");
        RLSourceSignal(sources[i].source);
        add_timer(&timers[i], date_in(-1), 0, "timers");
    }
    for (int i = 0; i < 2; i++) probe_perform(&functions[i], loop, "functions");
    expect_run("sources", 1e9, false, Stopped);
    expect_trace("E BT BS a b c X");
    expect_run("timers", 1e9, false, Stopped);
    expect_trace("E BT BS BW AW x y z X");
    expect_run("functions", 1e9, false, Stopped);
    expect_trace("E BT BS f g BW AW X");
}

static void stop_many_times(Probe *self) {
    for (int i = 0; i < 10; i++) RLStop(self->loop);
}

static void stop_many_times_from_outside(void *loop) {
    for (int i = 0; i < 10; i++) RLStop(loop);
    trace("stopped");
}

RL_TEST(many_stops_are_one, "S-STOP-10",
        "Several stops before the run ends count as one") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.action = stop_many_times};
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    trace_take();
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

static Gate all_stops_given = GATE_INITIALIZER;

static void stop_and_open(void *loop) {
    stop_many_times_from_outside(loop);
    gate_open(&all_stops_given);
}

static void wait_for_the_stops(Probe *self) {
    (void)self;
    gate_wait(&all_stops_given);
}

RL_TEST(many_stops_from_a_thread_are_one, "S-STOP-10",
        "Several stops from another thread, all given before the run ends, count as one") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe observer = {.action = wait_for_the_stops};
    keep_alive(loop, kRLDefaultMode);
    add_observer(&observer, kRLAfterWaiting, kRLDefaultMode);
    Thread *thread = when_waiting(loop, stop_and_open, loop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    trace_take();
    observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(stop_ends_run, "S-STOP-11 S-RUN-8",
        "A stop from a callback and a stop from another thread each end RLRun") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t", .action = action_stop};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLRun();
    expect_trace("E BT BS BW AW t X");
    Thread *thread = when_waiting(loop, call_stop, loop);
    RLRun();
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(exit_is_called_after_a_stop, "S-STOP-12",
        "Exit observers are called before a stopped run returns, also for RLRun") {
    Probe observer = {.name = "exit"}, timer = {.action = action_stop};
    add_observer(&observer, kRLExit, kRLDefaultMode);
    for (int i = 1; i <= 2; i++) {
        add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
        if (i == 1) expect_run(kRLDefaultMode, 1e9, false, Stopped);
        else RLRun();
        ck_assert_int_eq(observer.calls, i);
    }
}

static void queue_a_stop(Probe *self) { probe_perform(self->data, self->loop, kRLDefaultMode); }

RL_TEST(stop_in_a_function, "S-STOP-13 S-BLK-7",
        "A stop in a function of round A or B makes the wait of that pass return at once") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f", .action = action_stop};
    Probe source = {.name = "s", .action = queue_a_stop, .data = &function};
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E BT BS f BW AW X");
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E BT BS s f X");
}
