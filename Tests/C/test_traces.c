/* SPDX-License-Identifier: MIT */
/*
 * The reference traces TR-1 to TR-19 of section 4. Each case has an observer of all activities on a
 * secondary thread; the trace of the callbacks and the result are the whole truth about a run.
 */
#include "support.h"

#include <math.h>

RL_TEST(tr_1_idle_source_poll, "TR-1 S-RUN-17 S-PASS-4",
        "An idle version 0 source, no time: E BT BS X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"};
    add_source(&source, kRLDefaultMode);
    static const double times[] = {0, -0.0, -1, -1e300, -INFINITY};
    for (int i = 0; i < 5; i++) {
        expect_run(kRLDefaultMode, times[i], false, TimedOut);
        expect_trace("E BT BS X");
        expect_run(kRLDefaultMode, times[i], true, TimedOut);
        expect_trace("E BT BS X");
    }
}

RL_TEST(tr_2_idle_source_wait, "TR-2 S-RUN-18 S-RUN-21",
        "An idle version 0 source, 0.05 s: E BT BS BW AW X after 0.05 s, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"};
    add_source(&source, kRLDefaultMode);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.05);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(tr_3_signalled_source_poll, "TR-3 S-SRC-26",
        "A signalled version 0 source, no time: E BT BS perform X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS perform X");
}

RL_TEST(tr_4_signalled_source_handled, "TR-4 S-RUN-9 S-RUN-12",
        "A signalled version 0 source, h: E BT BS perform X, HandledSource, whatever the time") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"};
    add_source(&source, kRLDefaultMode);
    static const double times[] = {0, -1, 0.05, 1e9, INFINITY};
    for (int i = 0; i < 5; i++) {
        RLSourceSignal(source.source);
        expect_run(kRLDefaultMode, times[i], true, HandledSource);
        expect_trace("E BT BS perform X");
    }
}

RL_TEST(tr_5_signalled_source_wait, "TR-5 S-PASS-5 S-PASS-7",
        "A signalled version 0 source, 0.6 s: E BT BS perform BT BS BW AW X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS perform BT BS BW AW X");
}

RL_TEST(tr_6_ready_port_poll, "TR-6 S-PASS-4",
        "A ready port, no time: E BT BS perform X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe port = {.name = "perform"};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS perform X");
}

RL_TEST(tr_7_ready_port_wait, "TR-7 S-PASS-6",
        "A ready port, 0.6 s: E BT BS BW AW perform BT BS BW AW X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe port = {.name = "perform"};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.6);
    expect_trace("E BT BS BW AW perform BT BS BW AW X");
}

RL_TEST(tr_8_ready_port_handled, "TR-8 S-RUN-12",
        "A ready port, time and h: E BT BS BW AW perform X, HandledSource") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe port = {.name = "perform"};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS BW AW perform X");
}

RL_TEST(tr_9_source_and_port, "TR-9 S-RUN-14 S-PASS-12",
        "A signalled source and a ready port, h: E BT BS perform0 perform1 X, HandledSource") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform0"}, port = {.name = "perform1"};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    static const double times[] = {0, 1e9};
    for (int i = 0; i < 2; i++) {
        eventfd_signal(port.fd);
        RLSourceSignal(source.source);
        expect_run(kRLDefaultMode, times[i], true, HandledSource);
        expect_trace("E BT BS perform0 perform1 X");
    }
}

RL_TEST(tr_10_source_and_timer, "TR-10 S-RUN-14 S-PASS-12",
        "A signalled source and a due timer, h: E BT BS perform timer X, HandledSource") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe source = {.name = "perform"}, timer = {.name = "timer"};
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS perform timer X");
}

RL_TEST(tr_11_timer_poll, "TR-11 S-RUN-11 S-PASS-4",
        "A due one-shot timer alone, no time: E BT BS timer X, TimedOut") {
    observe(RLGetCurrent(), kRLDefaultMode);
    Probe timer = {.name = "timer"};
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS timer X");
}

RL_TEST(tr_12_timer_finishes, "TR-12 S-RUN-16 S-PASS-6 S-RUN-9",
        "A due one-shot timer alone, time, h or not: E BT BS BW AW timer X, Finished") {
    observe(RLGetCurrent(), kRLDefaultMode);
    for (int h = 0; h < 2; h++) {
        Probe timer = {.name = "timer"};
        add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
        expect_run(kRLDefaultMode, 1e9, h, Finished);
        expect_trace("E BT BS BW AW timer X");
    }
}

RL_TEST(tr_13_function_poll, "TR-13 S-RUN-11 S-BLK-10",
        "A queued function alone, no time: E BT BS block X, TimedOut") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    Probe function = {.name = "block"};
    probe_perform(&function, loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("E BT BS block X");
}

RL_TEST(tr_14_function_wait, "TR-14 S-BLK-8",
        "A queued function alone, 0.1 s: E BT BS block BW AW X after 0.1 s, TimedOut") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    Probe function = {.name = "block"};
    probe_perform(&function, loop, kRLDefaultMode);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.1);
    expect_trace("E BT BS block BW AW X");
}

static void wake_then_stop(void *observer) {
    Probe *passes = observer;
    RLWakeUp(passes->loop);
    wait_until_count(&passes->calls, 2);
    wait_until_waiting(passes->loop);
    RLStop(passes->loop);
}

RL_TEST(tr_15_wake_up, "TR-15 S-WAKE-1 S-WAKE-7",
        "A wake-up from another thread: E BT BS BW AW BT BS BW and on") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe passes = {0};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    add_observer(&passes, kRLBeforeWaiting, kRLDefaultMode);
    Thread *thread = when_waiting(loop, wake_then_stop, &passes);
    expect_run(kRLDefaultMode, 1e9, true, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS BW AW X");
}

RL_TEST(tr_16_stop, "TR-16 S-STOP-8",
        "A stop from another thread: E BT BS BW AW X, Stopped") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    Thread *thread = when_waiting(loop, call_stop, loop);
    expect_run(kRLDefaultMode, INFINITY, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
}

RL_TEST(tr_17_stop_in_entry, "TR-17 S-STOP-4",
        "A stop in an Entry observer: E X, Stopped") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    Probe observer = {.action = action_stop};
    add_observer(&observer, kRLEntry, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E X");
}

RL_TEST(tr_18_stop_in_perform, "TR-18 S-STOP-13",
        "A stop in a version 0 perform: E BT BS perform X, Stopped") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    Probe source = {.name = "perform", .action = action_stop};
    add_source(&source, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    expect_trace("E BT BS perform X");
}

RL_TEST(tr_19_empty_or_missing, "TR-19 S-RUN-4",
        "An empty or missing mode: nothing, Finished") {
    RLRunLoopRef loop = RLGetCurrent();
    observe(loop, kRLDefaultMode);
    static const double times[] = {-1, 0, 0.05, 1e9, INFINITY};
    for (int i = 0; i < 5; i++) {
        for (int h = 0; h < 2; h++) {
            expect_run(kRLDefaultMode, times[i], h, Finished);
            expect_run("missing", times[i], h, Finished);
        }
    }
    expect_trace("");
}
