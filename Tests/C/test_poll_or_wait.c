/* SPDX-License-Identifier: MIT */
/*
 * After a source was handled the pass polls once (P7), and the next pass follows with no sleep
 * between. Where nobody could tell, the loop may make one wait of that poll and the next pass's
 * wait: these cases have no observer, and would tell.
 */
#include "support.h"

#include <string.h>

static Probe s = {.name = "s"}, p = {.name = "p"};

static void make_ready(Probe *self) {
    (void)self;
    eventfd_signal(p.fd);
}

static void open_mode(void (*action)(Probe *self)) {
    s.action = action;
    add_source(&s, kRLDefaultMode);
    add_port(&p, make_eventfd(), kRLDefaultMode);
    RLSourceSignal(s.source);
}

RL_TEST(port_made_ready_by_the_source, "S-PASS-5 S-PASS-7",
        "A port that a source's callback makes ready performs after it") {
    open_mode(make_ready);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("s p");
}

static Probe second = {.name = "second"};

static void make_ready_and_signal(Probe *self) {
    RLSourceSignal(second.source);
    make_ready(self);
}

RL_TEST(port_before_a_source_signalled_in_the_callback, "S-SRC-32 S-PASS-11",
        "A source signalled in the callback performs in the next pass, after the port that is "
        "served in this one") {
    add_source(&second, kRLDefaultMode);
    open_mode(make_ready_and_signal);
    second.action = action_stop;
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s p second");
}

RL_TEST(source_signalled_in_the_callback_without_a_wake_up, "S-PASS-7 S-SRC-29",
        "A source signalled in the callback performs with no sleep between, though no wake-up "
        "came") {
    add_source(&second, kRLDefaultMode);
    open_mode(make_ready_and_signal);
    p.name = NULL;
    second.action = action_stop;
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s second");
}

RL_TEST(source_of_another_mode_is_signalled, "S-PASS-5 S-MODE-23",
        "A signalled source of another mode does not keep the port from being served, and keeps "
        "its signal") {
    add_source(&second, "other");
    open_mode(make_ready_and_signal);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("s p");
    expect_run("other", 0, true, HandledSource);
    expect_trace("second");
}

static void signal_itself(Probe *self) {
    if (self->calls < 3) RLSourceSignal(self->source);
    make_ready(self);
}

static void stop_at_the_third(Probe *self) {
    if (self->calls == 3) RLStop(self->loop);
}

RL_TEST(source_that_signals_itself, "S-PASS-13 S-SRC-29",
        "Each pass of a source that signals itself polls the port") {
    open_mode(signal_itself);
    p.action = stop_at_the_third;
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s p s p s p");
}

static Probe post = {.name = "b"}, post_in_post = {.name = "c"};

static void post_again(Probe *self) { probe_perform(&post_in_post, self->loop, kRLDefaultMode); }

static void make_ready_and_post(Probe *self) {
    post.action = post_again;
    probe_perform(&post, self->loop, kRLDefaultMode);
    make_ready(self);
}

RL_TEST(functions_before_and_after_the_poll, "S-BLK-6 S-BLK-7",
        "A function posted by the callback runs in round B, and one that this one posts in round C, "
        "after the port; neither waits for a wake-up") {
    open_mode(make_ready_and_post);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("s b p c");
}

static void post_stop_in_round_c(Probe *self) {
    post_in_post.action = action_stop;
    post_again(self);
}

static void only_post(Probe *self) {
    post.action = post_stop_in_round_c;
    probe_perform(&post, self->loop, kRLDefaultMode);
}

RL_TEST(function_of_round_c_without_a_wake_up, "S-BLK-7",
        "A function posted in round B runs in round C of the same pass, which does not sleep") {
    open_mode(only_post);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s b c");
}

static void make_ready_and_stop(Probe *self) {
    make_ready(self);
    action_stop(self);
}

RL_TEST(stop_in_the_callback, "S-STOP-13 S-STOP-9",
        "A stop in the callback makes the wait return at once; the port is served before the run "
        "ends") {
    open_mode(make_ready_and_stop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s p");
}

/* The run is stopped in the wait that they see. */
static Probe waits = {.action = action_stop};

static void observe_only(Probe *self) {
    observe(self->loop, kRLDefaultMode);
    add_observer(&waits, kRLBeforeWaiting, kRLDefaultMode);
}

static void observe_now(Probe *self) {
    make_ready(self);
    observe_only(self);
}

RL_TEST(observer_added_in_the_callback, "S-PASS-5 S-PASS-3",
        "An observer added in the callback sees no wait in that pass, and each stage of the next") {
    open_mode(observe_now);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s p BT BS BW AW X");
}

RL_TEST(observer_added_in_the_callback_with_nothing_ready, "S-PASS-5 S-PASS-7",
        "An observer added in the callback sees the next pass from its start") {
    open_mode(observe_only);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s BT BS BW AW X");
}

static void observe_and_stop(void *loop) {
    observe(loop, kRLDefaultMode);
    RLStop(loop);
}

RL_TEST(observer_added_while_the_loop_sleeps, "S-PASS-3 S-WAKE-10",
        "An observer that another thread adds while the loop sleeps after a handled source is told "
        "of the end of that wait") {
    open_mode(NULL);
    Thread *thread = when_waiting(RLGetCurrent(), observe_and_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("s AW X");
}

static void wake_itself(Probe *self) {
    action_wake_up(self);
    make_ready(self);
}

RL_TEST(wake_up_in_the_callback, "S-WAKE-3",
        "A wake-up in the callback does not keep the port from being served, and the run goes on") {
    open_mode(wake_itself);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("s p");
}

static Probe timer = {.name = "t"};

static void make_both_ready(Probe *self) {
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    make_ready(self);
}

static void stop_at_the_later(Probe *self) {
    if (timer.calls + p.calls == 2) RLStop(self->loop);
}

RL_TEST(timer_and_port_made_ready_by_the_source, "S-PASS-10 S-PASS-12",
        "A due timer and a port are both served after the source, whichever comes first") {
    open_mode(make_both_ready);
    timer.action = p.action = stop_at_the_later;
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    ck_assert_int_eq(timer.calls, 1);
    ck_assert_int_eq(p.calls, 1);
    const char *order = trace_take();
    ck_assert(strcmp(order, "s t p") == 0 || strcmp(order, "s p t") == 0);
}

static Probe request = {.name = "r"};

static void perform_request(void *info) {
    (void)info;
    trace("r");
    RLStop(RLGetCurrent());
}

static void make_ready_and_request(Probe *self) {
    RLPerformOnLoop(self->loop, kRLDefaultMode, perform_request, &request, NULL, false);
    make_ready(self);
}

RL_TEST(request_made_in_the_callback, "S-PERF-2",
        "A function asked for in the callback is performed in the next pass, after the port") {
    open_mode(make_ready_and_request);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("s p r");
}

static void remove_port(Probe *self) {
    RLRemoveSource(self->loop, p.source, kRLDefaultMode);
    RLRemoveSource(self->loop, self->source, kRLDefaultMode);
}

RL_TEST(mode_emptied_in_the_callback, "S-RUN-5 S-RUN-9",
        "A mode that the callback empties ends the run, without a sleep") {
    open_mode(remove_port);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("s");
}

static void run_nested(Probe *self) {
    self->action = make_ready;
    RLSourceSignal(self->source);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    trace("nested");
}

RL_TEST(nested_run_in_the_callback, "S-PASS-7",
        "A run nested in the callback has its own wait, and the outer run goes on after it") {
    open_mode(run_nested);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    expect_trace("s s p nested");
}

RL_TEST(return_after_the_source, "S-RUN-14",
        "A run that returns after a source polls once, serves the port, and does not sleep") {
    open_mode(make_ready);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("s p");
    RLSourceSignal(s.source);
    s.action = NULL;
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("s");
}
