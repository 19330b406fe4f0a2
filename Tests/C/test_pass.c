/* SPDX-License-Identifier: MIT */
/* The pass (section 4): what is called when, what is served when. See also test_traces.c. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static void run_nested_poll(Probe *self) { expect_run(self->mode, 0, false, TimedOut); }

RL_TEST(entry_and_exit_once, "S-PASS-1 S-OBS-2",
        "Entry is called once per run before everything else and Exit once after everything else, "
        "for each level of runs, and not for a refused run") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe source = {.name = "s", .action = run_nested_poll, .mode = "inner"}, last = {.name = "f"};
    observe(loop, kRLDefaultMode);
    observe_as(loop, "inner", "n.");
    observe_as(loop, "empty", "e.");
    keep_alive(loop, "inner");
    add_source(&source, kRLDefaultMode);
    probe_perform(&last, loop, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run("empty", 0, false, Finished);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS f s n.E n.BT n.BS n.X BT BS BW AW X");
}

static void perform_later(Probe *self) {
    Probe *function = self->data;
    probe_perform(function, self->loop, kRLDefaultMode);
}

RL_TEST(exit_comes_after_the_last_function, "S-PASS-1 S-BLK-7",
        "Exit comes after the round of functions that ends the last pass") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe function = {.name = "f"}, timer = {.name = "t", .action = perform_later};
    timer.data = &function;
    observe(loop, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("E BT BS BW AW t f X");
}

RL_TEST(timers_and_sources_stages_in_every_pass, "S-PASS-2",
        "BeforeTimers, then BeforeSources, are called in every pass, also without any timer or "
        "version 0 source") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe port = {.name = "p"}, function = {.name = "f"}, timer = {.name = "t"};
    observe(loop, "port");
    add_port(&port, make_eventfd(), "port");
    expect_run("port", 0, false, TimedOut);
    expect_trace("E BT BS X");
    eventfd_signal(port.fd);
    expect_run("port", 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW p BT BS BW AW X");
    observe(loop, "function");
    probe_perform(&function, loop, "function");
    expect_run("function", 0, false, TimedOut);
    expect_trace("E BT BS f X");
    observe(loop, "timer");
    add_timer(&timer, FAR_FUTURE, 0, "timer");
    expect_run("timer", 0, false, TimedOut);
    expect_trace("E BT BS X");
}

static void signal_twice_more(Probe *self) {
    if (self->calls < 3) RLSourceSignal(self->source);
}

RL_TEST(waiting_stages_exactly_when_not_polling, "S-PASS-3 S-PASS-5 S-PASS-7",
        "BeforeWaiting and AfterWaiting are called, in pair, in exactly the passes that are no "
        "polls, and no pass sleeps after a handled source") {
    Probe source = {.name = "s", .action = signal_twice_more}, timer = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(0.5), 0, kRLDefaultMode);
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 1.2, false, TimedOut);
    expect_trace("E BT BS s BT BS s BT BS s BT BS BW AW t BT BS BW AW X");
}

RL_TEST(no_waiting_stages_in_a_poll, "S-PASS-4",
        "With no time BeforeWaiting and AfterWaiting are not called, whatever there is to serve") {
    Probe port = {.name = "p"}, timer = {.name = "t"}, stages = {0};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    add_observer(&stages, kRLBeforeWaiting | kRLAfterWaiting, kRLDefaultMode);
    eventfd_signal(port.fd);
    for (int i = 0; i < 4; i++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(port.calls, 1);
    ck_assert_int_eq(timer.calls, 1);
    ck_assert_int_eq(stages.calls, 0);
}

RL_TEST(ready_events_do_not_skip_the_waiting_stages, "S-PASS-6",
        "BeforeWaiting and AfterWaiting are called although a port or a timer is ready, and the "
        "wait returns at once") {
    Probe port = {.name = "p"}, timer = {.name = "t"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS BW AW p X");
    RLSourceInvalidate(port.source);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("E BT BS BW AW t X");
}

RL_TEST(one_port_event_per_pass, "S-PASS-8",
        "Two ready ports take two passes, each with its own notifications") {
    Probe first = {.name = "p"}, second = {.name = "p"};
    observe(RLGetCurrent(), kRLDefaultMode);
    add_port(&first, make_eventfd(), kRLDefaultMode);
    add_port(&second, make_eventfd(), kRLDefaultMode);
    eventfd_signal(first.fd);
    eventfd_signal(second.fd);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW p BT BS BW AW p BT BS BW AW X");
    ck_assert_int_eq(first.calls, 1);
}

RL_TEST(all_due_timers_in_one_pass, "S-PASS-9 S-TMR-22",
        "All timers that are due when the timers are served fire in that one pass") {
    Probe timers[4] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    observe(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 4; i++) add_timer(&timers[i], date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, false, Finished);
    expect_trace("E BT BS BW AW a b c d X");
}

static void signal_port_again(Probe *self) { eventfd_signal(self->fd); }

static void make_due_again(Probe *self) { RLTimerSetNextFireDate(self->timer, date_in(-1)); }

RL_TEST(timer_and_port_take_turns, "S-PASS-10 S-PASS-13 S-TMR-38",
        "A due timer and a ready port are served in separate passes, and neither is served twice "
        "before the other was served once") {
    Probe port = {.name = "p", .action = signal_port_again};
    Probe timer = {.name = "t", .action = make_due_again};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    add_timer(&timer, date_in(-1), 1000, kRLDefaultMode);
    eventfd_signal(port.fd);
    for (int i = 0; i < 20; i++) {
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_eq(port.calls + timer.calls, i + 1);
        ck_assert_int_le(abs(port.calls - timer.calls), 1);
    }
    const char *order = trace_take();
    ck_assert_ptr_null(strstr(order, "p p"));
    ck_assert_ptr_null(strstr(order, "t t"));
}

static void signal_source_in_data(Probe *self) { RLSourceSignal(((Probe *)self->data)->source); }

RL_TEST(source_signalled_by_a_timer_or_port, "S-PASS-11",
        "A version 0 source signalled by a timer or a port callback performs in the next pass") {
    Probe source = {.name = "s"}, timer = {.name = "t", .action = signal_source_in_data};
    Probe port = {.name = "p", .action = signal_source_in_data};
    timer.data = port.data = &source;
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&source, kRLDefaultMode);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("E BT BS BW AW t BT BS s X");
    add_port(&port, make_eventfd(), kRLDefaultMode);
    eventfd_signal(port.fd);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS BW AW p BT BS s BT BS BW AW X");
}

RL_TEST(sources_come_first_in_a_pass, "S-PASS-12",
        "In one pass a version 0 source performs before any timer or port source") {
    Probe source = {.name = "s"}, timer = {.name = "t"}, port = {.name = "p"};
    add_port(&port, make_eventfd(), "port");
    add_timer(&timer, date_in(-1), 0, "timer");
    RLAddSource(RLGetCurrent(), probe_source(&source, 0), "port");
    RLAddSource(RLGetCurrent(), source.source, "timer");
    eventfd_signal(port.fd);
    RLSourceSignal(source.source);
    expect_run("port", 0, false, TimedOut);
    expect_trace("s p");
    RLSourceSignal(source.source);
    expect_run("timer", 0, false, TimedOut);
    expect_trace("s t");
}

static void signal_again(Probe *self) { RLSourceSignal(self->source); }

static void stop_when_all_were_served(Probe *self) {
    Probe **all = self->data;
    bool served = true;
    for (int i = 0; all[i]; i++) served = served && all[i]->calls >= 3;
    if (served) RLStop(self->loop);
}

RL_TEST(nothing_starves, "S-PASS-13",
        "A version 0 source that signals itself for ever and a port that is always ready keep "
        "neither timers nor other ports from being served") {
    Probe source = {.action = signal_again}, always = {.action = signal_port_again};
    Probe other = {.action = signal_port_again}, timer = {.action = stop_when_all_were_served};
    Probe *all[] = {&source, &always, &other, &timer, NULL};
    timer.data = all;
    add_source(&source, kRLDefaultMode);
    add_port(&always, make_eventfd(), kRLDefaultMode);
    add_port(&other, make_eventfd(), kRLDefaultMode);
    add_timer(&timer, date_in(0.001), 0.001, kRLDefaultMode);
    RLSourceSignal(source.source);
    eventfd_signal(always.fd);
    eventfd_signal(other.fd);
    /* With starvation the run would not end, and the case would reach its limit. */
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
}

RL_TEST(ready_ports_take_turns, "S-PASS-14",
        "Of several ports that are always ready each is served once before any is served again") {
    enum { ports = 4, rounds = 5 };
    Probe probes[ports];
    memset(probes, 0, sizeof probes);
    for (int i = 0; i < ports; i++) {
        probes[i].action = signal_port_again;
        add_port(&probes[i], make_eventfd(), kRLDefaultMode);
        eventfd_signal(probes[i].fd);
    }
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < ports; i++) expect_run(kRLDefaultMode, 1, true, HandledSource);
        for (int i = 0; i < ports; i++) ck_assert_int_eq(probes[i].calls, round);
    }
}

RL_TEST(ports_are_served_in_order_of_readiness, "S-PASS-14",
        "Ports that became ready one after the other are served in that order, not in the order "
        "they were added") {
    Probe ports[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    static const int order[] = {2, 0, 1};
    for (int i = 0; i < 3; i++) add_port(&ports[i], make_eventfd(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (int i = 0; i < 3; i++) eventfd_signal(ports[order[i]].fd);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 1, true, HandledSource);
    expect_trace("c a b");
}

static void invalidate_the_other(Probe *self) {
    Probe **rest = self->data;
    RLSourceInvalidate(rest[0]->source);
    probe_perform(rest[1], self->loop, kRLDefaultMode);
}

RL_TEST(batch_whose_last_member_was_skipped, "S-PASS-15 S-SRC-34 S-BLK-7",
        "A batch counts as handled if any member performed, even if the last was skipped: round B "
        "follows, and the loop does not sleep") {
    Probe first = {.name = "a", .action = invalidate_the_other}, second = {.name = "b"};
    Probe function = {.name = "f"}, *rest[] = {&second, &function};
    first.data = rest;
    observe(RLGetCurrent(), kRLDefaultMode);
    add_source(&first, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), probe_source(&second, 1), kRLDefaultMode);
    RLSourceSignal(first.source);
    RLSourceSignal(second.source);
    expect_run(kRLDefaultMode, 0.6, false, TimedOut);
    expect_trace("E BT BS a f BT BS BW AW X");
}

static void drop_timers(void *argument) {
    Probe *timers = argument;
    RLRemoveTimer(timers[0].loop, timers[0].timer, kRLDefaultMode);
    RLTimerInvalidate(timers[1].timer);
    trace("dropped");
}

RL_TEST(no_pass_at_the_date_of_a_dropped_timer, "S-PASS-16 S-TMR-47",
        "Timers removed or invalidated by another thread during the wait cause no pass, then or at "
        "their former dates") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timers[2] = {{.name = "t"}, {.name = "t"}};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int i = 0; i < 2; i++)
        RLAddTimer(loop, probe_timer(&timers[i], date_in(1 + 0.05 * i), 0), kRLDefaultMode);
    Thread *thread = when_waiting(loop, drop_timers, timers);
    expect_run(kRLDefaultMode, 1.3, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW dropped AW X");
}

static void drop_timers_at_once(Probe *self) {
    Probe *timers = self->data;
    RLRemoveTimer(self->loop, timers[0].timer, kRLDefaultMode);
    RLTimerInvalidate(timers[1].timer);
    RLTimerSetNextFireDate(timers[2].timer, FAR_FUTURE);
}

RL_TEST(no_pass_for_timers_dropped_before_the_wait, "S-PASS-16",
        "Timers removed, invalidated or postponed on the loop's thread cause no pass at their "
        "former dates, also when nothing but a source is left") {
    RLRunLoopRef loop = RLGetCurrent();
    static const RLActivity moments[] = {kRLEntry, kRLBeforeSources, kRLBeforeWaiting};
    observe(loop, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    for (int i = 0; i < 3; i++) {
        Probe timers[3] = {{.name = "t"}, {.name = "t"}, {.name = "t"}};
        Probe observer = {.action = drop_timers_at_once, .data = timers};
        for (int k = 0; k < 3; k++)
            RLAddTimer(loop, probe_timer(&timers[k], date_in(0.3), 0), kRLDefaultMode);
        add_observer(&observer, moments[i], kRLDefaultMode);
        expect_run(kRLDefaultMode, 0.5, false, TimedOut);
        expect_trace("E BT BS BW AW X");
        RLTimerInvalidate(timers[2].timer);
        RLObserverInvalidate(observer.observer);
        expect_run(kRLDefaultMode, 0.01, false, TimedOut);
        expect_trace("E BT BS BW AW X");
    }
}

static void postpone(void *argument) {
    Probe *timer = argument;
    RLTimerSetNextFireDate(timer->timer, FAR_FUTURE);
}

RL_TEST(no_pass_at_the_former_date_of_a_postponed_timer, "S-PASS-16 S-WAKE-14 S-TMR-41",
        "A timer postponed by another thread costs the one pass of the change, and none at its "
        "former date") {
    RLRunLoopRef loop = RLGetCurrent();
    Probe timer = {.name = "t"};
    observe(loop, kRLDefaultMode);
    add_timer(&timer, date_in(1), 0, kRLDefaultMode);
    Thread *thread = when_waiting(loop, postpone, &timer);
    expect_run(kRLDefaultMode, 1.3, false, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW BT BS BW AW X");
}

typedef struct Bystanders {
    Probe member, observer, function, timer, port;
} Bystanders;

static void do_what_wakes_nobody(void *argument) {
    Bystanders *b = argument;
    RLRunLoopRef loop = b->member.loop;
    RLSourceSignal(b->member.source);
    RLAddObserver(loop, b->observer.observer, kRLDefaultMode);
    RLRemoveObserver(loop, b->observer.observer, kRLDefaultMode);
    probe_perform(&b->function, loop, "other");
    RLAddTimer(loop, b->timer.timer, kRLDefaultMode);
    RLTimerSetTolerance(b->timer.timer, 1);
    RLRemoveTimer(loop, b->timer.timer, kRLDefaultMode);
    RLAddSource(loop, b->port.source, kRLDefaultMode);
    RLRemoveSource(loop, b->port.source, kRLDefaultMode);
    RLRemoveSource(loop, b->member.source, kRLDefaultMode);
    RLAddCommonMode(loop, "no common items");
    RLSetSpinLimit(loop, 0);
    free(RLCopyAllModes(loop, NULL));
    free(RLCopyCurrentMode(loop));
    ck_assert(stays_waiting(loop, 0.05));
    trace("stop");
    RLStop(loop);
}

RL_TEST(what_ends_no_wait, "S-PASS-16 S-SRC-26 S-BLK-2 S-WAKE-13",
        "Another thread's signal, function, observer, idle port, distant timer, removals and "
        "questions end no wait") {
    Bystanders b;
    memset(&b, 0, sizeof b);
    observe(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    add_source(&b.member, kRLDefaultMode);
    RLRetain(b.member.source);
    probe_observer(&b.observer, kRLAllActivities, true, 0);
    probe_timer(&b.timer, FAR_FUTURE, 0);
    probe_port(&b.port, make_eventfd());
    Thread *thread = when_waiting(b.member.loop, do_what_wakes_nobody, &b);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("E BT BS BW stop AW X");
}
