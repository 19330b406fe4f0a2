/* SPDX-License-Identifier: MIT */
/* Queued functions (section 7), in their form without blocks; test_clang_blocks.c has the other. */
#include "support.h"

static void queue_its_data(Probe *self) { probe_perform(self->data, self->loop, kRLDefaultMode); }

RL_TEST(never_inline, "S-BLK-1 S-BLK-5 S-BLK-18",
        "A queued function is not run inline, also on the loop's own thread and inside a run; it "
        "is run once and then released once") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe inner = {.name = "g"}, outer = {.name = "f", .action = queue_its_data, .data = &inner};
    Probe after = {.name = "after"};
    probe_perform(&outer, loop, kRLDefaultMode);
    probe_perform(&after, loop, kRLDefaultMode);
    expect_trace("");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("f after g");
    expect_run(kRLDefaultMode, 0, false, Finished);
    ck_assert_int_eq(outer.calls, 1);
    ck_assert_int_eq(outer.releases, 1);
    ck_assert_int_eq(inner.releases, 1);
}

static Probe queued_by_a_thread = {.name = "f"};

static void queue_without_waking(void *loop) {
    probe_perform(&queued_by_a_thread, loop, kRLDefaultMode);
    ck_assert(stays_waiting(loop, 0.05));
    trace("stop");
    RLStop(loop);
}

RL_TEST(queueing_does_not_wake, "S-BLK-2",
        "A function queued by another thread does not end the loop's wait; it runs when "
        "something else does") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = when_waiting(loop, queue_without_waking, loop);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW stop AW f X");
}

static void queue_from_a_thread(void *functions) {
    Probe *probes = functions;
    static const char *const modes[] = {"a mode", "other", "a mode", "other", "a mode"};
    for (int i = 0; i < 5; i++) probe_perform(&probes[i], probes[i].loop, modes[i]);
}

RL_TEST(order_and_thread, "S-BLK-3 S-THR-2",
        "Functions run on the loop's thread in queue order among the eligible ones; the others "
        "keep their order for later") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe probes[5] = {{.name = "1"}, {.name = "2"}, {.name = "3"}, {.name = "4"}, {.name = "5"}};
    for (int i = 0; i < 5; i++) probes[i].loop = loop;
    thread_join(thread_start(queue_from_a_thread, probes));
    expect_run("a mode", 0, false, TimedOut);
    expect_trace("1 3 5");
    ck_assert_int_eq(probes[1].calls + probes[3].calls, 0);
    expect_run("other", 0, false, TimedOut);
    expect_trace("2 4");
    for (int i = 0; i < 5; i++) ck_assert(pthread_equal(probes[i].thread, pthread_self()));
}

RL_TEST(eligible_modes, "S-BLK-4 S-BLK-10",
        "A function is eligible in each mode it names, and with the pseudo-mode in the modes that "
        "are common at that moment") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe named = {.name = "named"}, common = {.name = "common"};
    static const RLMode modes[] = {"x", "y"};
    keep_alive(loop, "later common");
    keep_alive(loop, "x");
    keep_alive(loop, "y");
    for (int i = 0; i < 2; i++) {
        probe_perform_in_modes(&named, loop, modes, 2);
        expect_run("later common", 0, false, TimedOut);
        expect_trace("");
        expect_run(modes[i], 0, false, TimedOut);
        expect_trace("named");
    }
    probe_perform(&common, loop, kRLCommonModes);
    expect_run("later common", 0, false, TimedOut);
    expect_trace("");
    RLAddCommonMode(loop, "later common");
    expect_run("later common", 0, false, TimedOut);
    expect_trace("common");
    probe_perform(&common, loop, kRLCommonModes);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("common");
}

RL_TEST(pseudo_mode_among_modes, "S-BLK-4 S-BLK-5",
        "A list of modes may hold the pseudo-mode; the function runs once in all, whichever of "
        "its modes runs first") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"};
    static const char pseudo_mode[] = "kCFRunLoopCommonModes";
    const RLMode modes[] = {"x", pseudo_mode, kRLCommonModes, "x", kRLDefaultMode};
    keep_alive(loop, "x");
    keep_alive(loop, kRLDefaultMode);
    for (int i = 0; i < 2; i++) {
        probe_perform_in_modes(&function, loop, modes, 5);
        expect_run(i ? "x" : kRLDefaultMode, 0, false, TimedOut);
        expect_trace("f");
        expect_run("x", 0, false, TimedOut);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        expect_trace("");
        ck_assert_int_eq(function.releases, i + 1);
    }
}

static void become_common(Probe *self) { RLAddCommonMode(self->loop, "other"); }

RL_TEST(common_set_of_the_moment, "S-BLK-4",
        "Eligibility is decided when the round runs: a mode made common by an earlier stage of "
        "the pass counts") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"}, observer = {.action = become_common};
    keep_alive(loop, "other");
    add_observer(&observer, kRLBeforeSources, "other");
    probe_perform(&function, loop, kRLCommonModes);
    expect_run("other", 0, false, TimedOut);
    expect_trace("f");
}

static void make_its_data_common(Probe *self) { RLAddCommonMode(self->loop, self->data); }

RL_TEST(common_from_the_middle_of_a_round, "S-BLK-3 S-BLK-4",
        "When a function makes the mode common, the later ones for common modes have their turn in the same round and in queue order, "
        "and an earlier one in the next round, whether or not a run in another mode has looked at all of them before") {
    RLRunLoopRef loop = RLGetCurrent();
    char *const modes[] = {"red", "blue"};
    keep_alive(loop, "third");
    for (int looks = 0; looks < 2; looks++) {
        const RLMode mode = modes[looks];
        Probe earlier = {.name = "0"}, maker = {.name = "1", .action = make_its_data_common, .data = modes[looks]};
        Probe second = {.name = "2"}, third = {.name = "3"}, fourth = {.name = "4"};
        probe_perform(&earlier, loop, kRLCommonModes);
        probe_perform(&maker, loop, mode);
        probe_perform(&second, loop, mode);
        probe_perform(&third, loop, kRLCommonModes);
        probe_perform(&fourth, loop, mode);
        if (looks) expect_run("third", 0, false, TimedOut);
        keep_alive(loop, mode);
        expect_run(mode, 0, false, TimedOut);
        expect_trace("1 2 3 4 0");
    }
}

/* Rounds */

RL_TEST(rounds_of_a_pass, "S-BLK-7 S-BLK-9",
        "Round A comes before the sources in every pass, round B right after them if one was "
        "handled, round C at the end; what a round-A function queues runs after the wait") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe from_a = {.name = "c"}, a = {.name = "a", .action = queue_its_data, .data = &from_a};
    Probe b = {.name = "b"}, source = {.name = "s", .action = queue_its_data, .data = &b};
    observe(loop, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    probe_perform(&a, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("E BT BS a BW AW c X");
    probe_perform(&a, loop, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    /* Round B takes what round A left behind too. */
    expect_trace("E BT BS a s c b X");
}

RL_TEST(round_b_comes_before_the_served_event, "S-BLK-7",
        "A function queued by a perform runs in round B, before the timer or the port event that "
        "the same pass serves") {
    Probe b = {.name = "b"}, source = {.name = "s", .action = queue_its_data, .data = &b};
    Probe timer = {.name = "t"}, port = {.name = "p"};
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("s b t");
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("s b p");
}

static void queue_itself(Probe *self) {
    if (self->calls < 4) probe_perform(self, self->loop, kRLDefaultMode);
}

RL_TEST(a_round_takes_the_queue_as_it_is, "S-BLK-6 S-BLK-7 S-BLK-9",
        "A function that queues itself runs once per round: in round A and C of each poll") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f", .action = queue_itself};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS f f X");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS f f X");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS X");
}

RL_TEST(round_c_after_a_timer, "S-BLK-7",
        "A function queued by a timer runs in round C of that pass, so the mode's end comes after "
        "it") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"}, timer = {.name = "t", .action = queue_its_data};
    timer.data = &function;
    observe(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("E BT BS BW AW t f X");
}

RL_TEST(round_a_does_not_keep_awake, "S-BLK-8",
        "A function run in round A does not stop the loop from sleeping in that pass, although it "
        "emptied the mode") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"};
    observe(loop, kRLDefaultMode);
    probe_perform(&function, loop, kRLDefaultMode);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.05);
    expect_trace("E BT BS f BW AW X");
}

RL_TEST(functions_are_content, "S-BLK-10 S-RUN-2 S-RUN-4",
        "A pending eligible function makes a mode non-empty, at the start and at the end of a "
        "pass") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"}, timer = {.name = "t"};
    observe(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, Finished);
    probe_perform(&function, loop, "elsewhere");
    expect_run(kRLDefaultMode, 0.01, false, Finished);
    expect_trace("");
    /* A function that a round-C function queued is there when emptiness is tested. */
    Probe last = {.name = "l"}, next = {.name = "n", .action = queue_its_data, .data = &last};
    timer.action = queue_its_data;
    timer.data = &next;
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW t n BT BS l BW AW X");
}

RL_TEST(functions_are_no_source, "S-BLK-11",
        "Functions of all three rounds never make a run return HandledSource") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe second = {.name = "c"}, first = {.name = "a", .action = queue_its_data, .data = &second};
    keep_alive(loop, kRLDefaultMode);
    probe_perform(&first, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("a c");
    probe_perform(&first, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    expect_trace("a c");
}

/* Nested runs */

static void run_nested(Probe *self) {
    trace("(");
    RLRunResult result = RLRunInMode(self->mode, 0, false);
    trace("%s", result_name(result));
    trace(")");
}

RL_TEST(rest_of_a_round_is_invisible_to_nested_runs, "S-BLK-15 S-NEST-6",
        "Functions not yet reached in the current round are not run by a nested run, and do not "
        "keep its mode non-empty") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe first = {.name = "1", .action = run_nested, .mode = kRLDefaultMode}, rest = {.name = "2"};
    probe_perform(&first, loop, kRLDefaultMode);
    probe_perform(&rest, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1 ( Finished ) 2");
    keep_alive(loop, kRLDefaultMode);
    probe_perform(&first, loop, kRLDefaultMode);
    probe_perform(&rest, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1 ( TimedOut ) 2");
}

static void queue_and_run_nested(Probe *self) {
    queue_its_data(self);
    run_nested(self);
}

RL_TEST(functions_queued_in_a_nested_run, "S-BLK-16",
        "Functions queued inside a nested run in the same mode run inside it, before the rest of "
        "the outer round") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe inner = {.name = "i"}, rest = {.name = "2"};
    Probe first = {.name = "1", .action = queue_and_run_nested, .data = &inner};
    first.mode = kRLDefaultMode;
    probe_perform(&first, loop, kRLDefaultMode);
    probe_perform(&rest, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("1 ( i TimedOut ) 2");
}
