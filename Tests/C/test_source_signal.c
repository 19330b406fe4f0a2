/* SPDX-License-Identifier: MIT */
/*
 * Signalling custom sources, and the batch that performs in one pass. The probes are static: what
 * is left in a loop is cancelled when the thread of the case ends, after the case returned.
 */
#include "support.h"

static void signal_other(Probe *self) { RLSourceSignal(self->data); }
static void signal_self_once(Probe *self) {
    if (self->calls == 1) RLSourceSignal(self->source);
}

static void signal_from_thread(void *source) { RLSourceSignal(source); }

RL_TEST(signals_before_the_perform_count_once, "S-SRC-25 S-SRC-38",
        "A source has one flag, which any number of signals sets and one perform clears") {
    static Probe probe = {.name = "s"};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLAddSource(probe.loop, source, "other");
    ck_assert(!RLSourceIsSignalled(source));
    for (int i = 0; i < 5; i++) RLSourceSignal(source);
    ck_assert(RLSourceIsSignalled(source));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert(!RLSourceIsSignalled(source));
    expect_run("other", 0, false, TimedOut);
    expect_trace("s");
}

static void note_flag(Probe *self) { self->value = RLSourceIsSignalled(self->source); }

RL_TEST(the_flag_is_cleared_before_the_perform, "S-SRC-29 S-SRC-38",
        "Inside its perform a source is no longer signalled") {
    static Probe probe = {.action = note_flag, .value = -1};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(probe.value, 0);
}

RL_TEST(a_signal_does_not_wake, "S-SRC-26",
        "A waiting loop serves a source signalled by another thread only when something else ends "
        "the wait") {
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probe = {.name = "s"}, timer = {.name = "t"};
    observe(loop, kRLDefaultMode);
    add_source(&probe, kRLDefaultMode);
    add_timer(&timer, date_in(0.3), 0, kRLDefaultMode);
    Thread *thread = when_waiting(loop, signal_from_thread, probe.source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(thread);
    expect_trace("E BT BS BW AW t BT BS s X");
}

RL_TEST(a_signal_before_the_addition_is_kept, "S-SRC-27",
        "A source signalled before it is in any loop performs once it is in one") {
    static Probe probe = {.name = "s"};
    probe_source(&probe, 0);
    RLSourceSignal(probe.source);
    RLAddSource(probe.loop, probe.source, kRLDefaultMode);
    ck_assert(RLSourceIsSignalled(probe.source));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s");
    RLRelease(probe.source);
}

RL_TEST(removal_keeps_the_signal, "S-SRC-27",
        "Removing a signalled source and adding it again, elsewhere or here, keeps its signal") {
    static Probe probe = {.name = "s"};
    probe_source(&probe, 0);
    RLAddSource(probe.loop, probe.source, kRLDefaultMode);
    RLSourceSignal(probe.source);
    RLRemoveSource(probe.loop, probe.source, kRLDefaultMode);
    ck_assert(RLSourceIsSignalled(probe.source));
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
    RLAddSource(probe.loop, probe.source, "other");
    expect_run("other", 60, true, HandledSource);
    expect_trace("s");
    RLRelease(probe.source);
}

RL_TEST(a_signal_in_the_perform_counts_for_the_next_pass, "S-SRC-29",
        "A source that signals itself in its perform performs again in the next pass without a "
        "sleep") {
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probe = {.name = "s", .action = signal_self_once};
    observe(loop, kRLDefaultMode);
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run_to_wait(kRLDefaultMode);
    expect_trace("E BT BS s BT BS s BT BS BW AW X");
}

/* A loop that adds the source of `data`, says so, and polls once the gate is open. */
static Gate source_added = GATE_INITIALIZER, may_poll = GATE_INITIALIZER;
static void add_and_poll(LoopThread *self) {
    RLAddSource(self->loop, self->data, kRLDefaultMode);
    gate_open(&source_added);
    gate_wait(&may_poll);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
}

RL_TEST(a_source_in_two_loops_performs_once_per_signal, "S-SRC-30 S-SRC-25",
        "Of two loops that have a signalled source, the one that runs first performs it, alone") {
    static Probe probe = {.name = "s"};
    LoopThread other = {0};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    loop_thread_start(&other, add_and_poll, source);
    gate_wait(&source_added);
    RLSourceSignal(source);
    ck_assert(RLSourceIsSignalled(source));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert(pthread_equal(probe.thread, pthread_self()));
    gate_open(&may_poll);
    thread_join(other.thread);
    expect_trace("s");
}

static void serve_once(LoopThread *self) {
    RLAddSource(self->loop, self->data, kRLDefaultMode);
    gate_open(&source_added);
    gate_wait(&may_poll);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
}

RL_TEST(the_other_of_two_loops_may_be_first, "S-SRC-30",
        "A source signalled while it is in two loops performs in the second if that one runs "
        "first") {
    static Probe probe = {.name = "s"};
    LoopThread other = {0};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    loop_thread_start(&other, serve_once, source);
    gate_wait(&source_added);
    RLSourceSignal(source);
    gate_open(&may_poll);
    thread_join(other.thread);
    expect_trace("s");
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("");
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("s");
}

RL_TEST(a_signal_survives_the_move_between_one_loop_and_two, "S-SRC-27 S-SRC-30",
        "A signal is kept while its source comes into a second loop and leaves the first") {
    static Probe probe = {.name = "s"};
    LoopThread other = {0};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLSourceSignal(source);
    loop_thread_start(&other, serve_once, source);
    gate_wait(&source_added);
    RLRemoveSource(probe.loop, source, kRLDefaultMode);
    gate_open(&may_poll);
    thread_join(other.thread);
    expect_trace("s");
}

/* The batch */

static void add_ordered(Probe *probe, RLIndex order) {
    RLAddSource(RLGetCurrent(), probe_source(probe, order), kRLDefaultMode);
    RLRelease(probe->source);
}

RL_TEST(the_batch_is_sorted, "S-SRC-31",
        "A batch goes by order, then by the time of the first signal, whatever order was added") {
    static Probe probes[] = {
        {.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}, {.name = "e"}};
    const RLIndex orders[] = {5, -3, 0, 5, 0};
    for (int i = 0; i < 5; i++) add_ordered(&probes[i], orders[i]);
    const int signals[] = {4, 3, 0, 2, 1, 4, 0, 3};
    for (int i = 0; i < 8; i++) RLSourceSignal(probes[signals[i]].source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("b e c d a");
}

RL_TEST(signals_of_the_first_pass_of_equal_order_keep_their_age, "S-SRC-31 S-RUN-13",
        "Sources left over by a run that serves one keep the time of their first signal") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    for (int i = 0; i < 3; i++) add_ordered(&probes[i], 0);
    RLSourceSignal(probes[1].source);
    RLSourceSignal(probes[2].source);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    RLSourceSignal(probes[0].source);
    RLSourceSignal(probes[1].source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("b c a b");
}

static void add_signalled(Probe *self) {
    Probe *late = self->data;
    if (late->source) return;
    RLSourceSignal(add_source(late, kRLDefaultMode));
}

RL_TEST(late_comers_wait_for_the_next_pass, "S-SRC-32",
        "A source signalled, or added, by a member of the batch performs in the next pass") {
    RLRunLoopRef loop = RLGetCurrent();
    static Probe third = {.name = "3"}, added = {.name = "4"};
    static Probe first = {.name = "1", .action = signal_other}, second = {.name = "2"};
    observe(loop, kRLDefaultMode);
    add_ordered(&first, 0);
    add_ordered(&second, 1);
    add_ordered(&third, 2);
    first.data = third.source;
    second.data = &added;
    second.action = add_signalled;
    RLSourceSignal(first.source);
    RLSourceSignal(second.source);
    expect_run_to_wait(kRLDefaultMode);
    expect_trace("E BT BS 1 2 BT BS 4 3 BT BS BW AW X");
}

static void remove_other(Probe *self) { RLRemoveSource(self->loop, self->data, kRLDefaultMode); }
static void invalidate_other(Probe *self) { RLSourceInvalidate(self->data); }

RL_TEST(a_removed_member_of_the_batch_performs, "S-SRC-33",
        "A member of the batch that an earlier callback removed from the mode still performs") {
    static Probe first = {.name = "1", .action = remove_other}, second = {.name = "2"};
    add_ordered(&first, 0);
    add_ordered(&second, 1);
    first.data = second.source;
    RLRetain(second.source);
    RLSourceSignal(first.source);
    RLSourceSignal(second.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1 2");
    ck_assert(!RLContainsSource(first.loop, second.source, kRLDefaultMode));
    RLSourceSignal(second.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
    RLRelease(second.source);
}

RL_TEST(an_invalidated_member_of_the_batch_does_not_perform, "S-SRC-34",
        "A member of the batch that an earlier callback invalidated does not perform") {
    static Probe first = {.name = "1", .action = invalidate_other}, second = {.name = "2"};
    add_ordered(&first, 0);
    add_ordered(&second, 1);
    first.data = second.source;
    RLSourceSignal(first.source);
    RLSourceSignal(second.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1");
}

static void run_nested_once(Probe *self) {
    if (self->calls > 1) return;
    RLRunResult result = RLRunInMode(kRLDefaultMode, 0, false);
    trace("nested-%s", result_name(result));
}

RL_TEST(a_member_performed_by_a_nested_run_does_not_repeat, "S-SRC-35",
        "A member whose signal a nested run of the batch served does not perform again") {
    static Probe first = {.name = "1", .action = run_nested_once}, second = {.name = "2"};
    add_ordered(&first, 0);
    add_ordered(&second, 1);
    RLSourceSignal(first.source);
    RLSourceSignal(second.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1 2 nested-TimedOut");
}

RL_TEST(a_source_without_perform_is_handled, "S-SRC-36",
        "A signalled source whose perform is NULL counts as handled and loses its signal") {
    RLSourceRef source = keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert(!RLSourceIsSignalled(source));
}

static void signal_and_run_nested(Probe *self) {
    if (self->calls > 3) return;
    RLSourceSignal(self->source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    trace("%s-end", self->name);
}

RL_TEST(a_source_may_be_entered_again, "S-SRC-37",
        "A nested run performs the source whose perform started it, if it is signalled again") {
    static Probe probe = {.name = "s", .action = signal_and_run_nested};
    RLSourceSignal(add_source(&probe, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("s s s s s-end s-end s-end");
}
