/* SPDX-License-Identifier: MIT */
/*
 * Runs inside runs. The probes are static, because what is left in a loop outlives the case that
 * put it there.
 */
#include "support.h"


/* Runs mode "inner", which has an observer with the prefix "n.", and says how that ended. */
static void run_inner(Probe *self) {
    (void)self;
    RLRunResult result = RLRunInMode("inner", 0, false);
    trace("=%s", result_name(result));
}

static void prepare_inner(void) {
    keep_alive(RLGetCurrent(), "inner");
    observe_as(RLGetCurrent(), "inner", "n.");
}

RL_TEST(every_callback_may_run_the_loop, "S-NEST-1",
        "A v0 perform, a port perform, a timer, an observer and a queued function may run the "
        "loop") {
    static Probe source = {.name = "source", .action = run_inner};
    static Probe port = {.name = "port", .action = run_inner};
    static Probe timer = {.name = "timer", .action = run_inner};
    static Probe observer = {.name = "observer", .action = run_inner};
    static Probe function = {.name = "function", .action = run_inner};
    const char *nested[] = {
        "source n.E n.BT n.BS n.X =TimedOut", "port n.E n.BT n.BS n.X =TimedOut",
        "timer n.E n.BT n.BS n.X =TimedOut", "observer n.E n.BT n.BS n.X =TimedOut",
        "function n.E n.BT n.BS n.X =TimedOut"};
    prepare_inner();
    RLSourceSignal(add_source(&source, "1"));
    expect_run("1", 0, false, TimedOut);
    expect_trace(nested[0]);
    int fd = make_eventfd();
    eventfd_signal(fd);
    add_port(&port, fd, "2");
    expect_run("2", 0, false, TimedOut);
    expect_trace(nested[1]);
    add_timer(&timer, 0, 0, "3");
    expect_run("3", 0, false, TimedOut);
    expect_trace(nested[2]);
    add_observer(&observer, kRLBeforeSources, "4");
    keep_alive(observer.loop, "4");
    expect_run("4", 0, false, TimedOut);
    expect_trace(nested[3]);
    probe_perform(&function, function.loop = RLGetCurrent(), "5");
    expect_run("5", 0, false, TimedOut);
    expect_trace(nested[4]);
}

static void go_deeper(Probe *self) {
    if (self->calls >= 200) return;
    RLSourceSignal(self->source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    self->value++;
}

RL_TEST(runs_nest_deeply, "S-NEST-1 S-SRC-37", "Two hundred runs may be inside each other") {
    static Probe probe = {.action = go_deeper};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(probe.calls, 200);
    ck_assert_int_eq(probe.value, 199);
}

static void run_each_way(Probe *self) {
    static Probe handled = {.name = "inner-source"};
    if (self->calls > 1) return;
    RLSourceSignal(add_source(&handled, "inner"));
    expect_run("inner", 60, true, HandledSource);
    RLSourceSignal(handled.source);
    expect_run("inner", 0.01, false, TimedOut);
    RLSourceInvalidate(handled.source);
    expect_run("inner", 60, false, Finished);
}

RL_TEST(each_run_has_its_own_result, "S-NEST-2",
        "The results of nested runs go to their own callers; the outer run goes on by its own "
        "rules") {
    static Probe probe = {.name = "outer", .action = run_each_way};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    RLSourceSignal(probe.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("outer inner-source inner-source outer");
}

static void stop_current(Probe *self) { RLStop(self->loop); }
static void run_until_stopped(Probe *self) {
    if (self->calls == 1) expect_run("inner", 60, false, Stopped);
}

RL_TEST(a_stop_is_the_inner_run_s, "S-NEST-2 S-NEST-6 S-STOP-2",
        "A stop during a nested run ends that run alone") {
    static Probe probe = {.name = "outer", .action = run_until_stopped};
    static Probe stopper = {.name = "stop", .action = stop_current};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    RLSourceSignal(add_source(&stopper, "inner"));
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("outer stop");
}

static void stop_and_run_nested(Probe *self) {
    RLStop(self->loop);
    expect_run("inner", 0, false, TimedOut);
}

RL_TEST(a_stop_before_a_nested_run_is_the_outer_run_s, "S-NEST-2 S-NEST-6 S-STOP-3",
        "A stop requested before the nested run ends the outer run after its pass") {
    static Probe probe = {.name = "outer", .action = stop_and_run_nested};
    prepare_inner();
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, false, Stopped);
    expect_trace("outer n.E n.BT n.BS n.X");
}

static void run_own_mode(Probe *self) {
    if (self->calls > 1) return;
    RLRunResult result = RLRunInMode(kRLDefaultMode, 0.02, false);
    trace("=%s", result_name(result));
}

RL_TEST(a_mode_whose_only_item_is_firing_waits, "S-NEST-4 S-RUN-3 S-TMR-27",
        "A nested run in a mode whose only item is the firing timer waits out its time") {
    static Probe probe = {.name = "t", .action = run_own_mode};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_timer(&probe, 0, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("E BT BS BW AW t E BT BS BW AW X =TimedOut X");
}

RL_TEST(after_a_nested_run_in_a_perform_the_pass_polls, "S-NEST-5 S-PASS-5",
        "The pass in which a v0 perform ran the loop goes on as a poll, and makes no notification "
        "of waiting") {
    static Probe probe = {.name = "s", .action = run_inner};
    prepare_inner();
    observe(RLGetCurrent(), kRLDefaultMode);
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("E BT BS s n.E n.BT n.BS n.X =TimedOut X");
}

RL_TEST(after_a_poll_the_outer_run_makes_another_pass, "S-NEST-5 S-PASS-7",
        "After that poll the outer run makes a pass of its own before it sleeps") {
    static Probe probe = {.name = "s", .action = run_inner};
    prepare_inner();
    observe(RLGetCurrent(), kRLDefaultMode);
    static Probe stopper = {.action = stop_current};
    add_observer(&stopper, kRLBeforeWaiting, kRLDefaultMode);
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 60, false, Stopped);
    expect_trace("E BT BS s n.E n.BT n.BS n.X =TimedOut BT BS BW AW X");
}

/* S-NEST-3 for each kind of item */

static Probe nested_source, nested_port, nested_timer;
static void run_same_mode(Probe *self) {
    if (self->value++ > 0) return;
    RLSourceSignal(nested_source.source);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    trace("%s-end", self->name);
}

RL_TEST(a_firing_timer_stays_out, "S-NEST-3 S-TMR-27",
        "A nested run of the same mode leaves out the timer on the stack and serves the sources") {
    nested_timer = (Probe){.name = "t", .action = run_same_mode};
    nested_source = (Probe){.name = "s"};
    nested_port = (Probe){.name = "p"};
    add_timer(&nested_timer, 0, 0.001, kRLDefaultMode);
    add_source(&nested_source, kRLDefaultMode);
    int fd = make_eventfd();
    add_port(&nested_port, fd, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("t s t-end");
    eventfd_signal(fd);
    RLTimerInvalidate(nested_timer.timer);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("p");
}

/* S-NEST-6: times and wake-ups across levels */

static void run_inner_past_the_deadline(Probe *self) {
    if (self->calls == 1) expect_run("inner", 0.06, false, TimedOut);
}

static void check_outer_deadline(RLActivity activity) {
    static Probe probe = {.action = run_inner_past_the_deadline};
    keep_alive(RLGetCurrent(), "inner");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_observer(&probe, activity, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.03, false, TimedOut);
    ck_assert_int_eq(probe.calls, 1);
}

RL_TEST(deadline_passed_in_before_timers, "S-NEST-6 S-RUN-24",
        "An outer deadline that passes in a nested run from BeforeTimers is honoured") {
    check_outer_deadline(kRLBeforeTimers);
}
RL_TEST(deadline_passed_in_before_sources, "S-NEST-6 S-RUN-24",
        "An outer deadline that passes in a nested run from BeforeSources is honoured") {
    check_outer_deadline(kRLBeforeSources);
}
RL_TEST(deadline_passed_in_before_waiting, "S-NEST-6 S-RUN-24",
        "An outer deadline that passes in a nested run from BeforeWaiting is honoured") {
    check_outer_deadline(kRLBeforeWaiting);
}
RL_TEST(deadline_passed_in_after_waiting, "S-NEST-6 S-RUN-24",
        "An outer deadline that passes in a nested run from AfterWaiting is honoured") {
    check_outer_deadline(kRLAfterWaiting);
}

static void wake_and_poll(Probe *self) {
    RLWakeUp(self->loop);
    expect_run("inner", 0, false, TimedOut);
    RLSourceSignal(nested_source.source);
}

RL_TEST(a_wake_up_in_a_nested_run_counts_outside, "S-NEST-6 S-WAKE-9",
        "A wake-up that a nested run clears keeps the outer run, which has not waited, from "
        "sleeping") {
    static Probe probe = {.name = "o", .action = wake_and_poll};
    nested_source = (Probe){.name = "s"};
    keep_alive(RLGetCurrent(), "inner");
    add_source(&nested_source, kRLDefaultMode);
    add_observer(&probe, kRLBeforeWaiting, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("o s");
}

static void queue_two_and_run(Probe *self) {
    static Probe inside = {.name = "inside"};
    probe_perform(&inside, self->loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    trace("nested-end");
}

RL_TEST(functions_of_the_outer_round_wait, "S-NEST-6 S-BLK-15 S-BLK-16",
        "A nested run performs functions queued inside it before the rest of the outer round") {
    static Probe first = {.name = "first", .action = queue_two_and_run};
    static Probe second = {.name = "second"};
    first.loop = RLGetCurrent();
    keep_alive(first.loop, kRLDefaultMode);
    probe_perform(&first, first.loop, kRLDefaultMode);
    probe_perform(&second, first.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("first inside nested-end second");
}
