/* SPDX-License-Identifier: MIT */
/*
 * Observers. The probes are static, because what is left in a loop outlives the case that put it
 * there.
 */
#include "support.h"

#include <limits.h>
#include <string.h>

static RLObserverRef add_once(Probe *probe, RLOptionFlags activities, RLMode mode) {
    RLAddObserver(RLGetCurrent(), probe_observer(probe, activities, false, 0), mode);
    RLRelease(probe->observer);
    return probe->observer;
}

static RLOptionFlags seen;
static void check_one_bit(Probe *self) {
    RLOptionFlags bit = self->activity;
    ck_assert(bit != 0 && (bit & (bit - 1)) == 0);
    ck_assert(pthread_equal(self->thread, pthread_self()));
    seen |= bit;
}

RL_TEST(each_call_has_one_activity, "S-OBS-1",
        "An observer is called with exactly one activity per call, on the loop's thread") {
    static Probe probe = {.name = "o", .action = check_one_bit};
    add_observer(&probe, kRLAllActivities, kRLDefaultMode);
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    ck_assert_int_eq(probe.calls, 6);
    ck_assert_uint_eq(seen, kRLEntry | kRLBeforeTimers | kRLBeforeSources | kRLBeforeWaiting |
                                kRLAfterWaiting | kRLExit);
}

RL_TEST(the_mask_selects, "S-OBS-1 S-OBS-13",
        "An observer is called for the activities of its mask alone, unknown bits are ignored") {
    static Probe some = {.name = "some"}, odd = {.name = "odd"};
    add_observer(&some, kRLBeforeSources | kRLExit, kRLDefaultMode);
    add_observer(&odd, kRLEntry | 1UL << 3 | 1UL << 30 | 1UL << 63, kRLDefaultMode);
    keep_alive(some.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("odd some some");
}

RL_TEST(an_empty_mask_is_never_called, "S-OBS-13",
        "An observer with mask 0, or with bits that name no activity, is never called") {
    static Probe none = {.name = "none"}, unknown = {.name = "unknown"};
    add_observer(&none, 0, kRLDefaultMode);
    add_observer(&unknown, 1UL << 3 | 1UL << 4 | 1UL << 8 | ~(RLOptionFlags)kRLAllActivities,
                 kRLDefaultMode);
    keep_alive(none.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("");
    ck_assert(RLObserverIsValid(none.observer) && RLObserverIsValid(unknown.observer));
}

RL_TEST(observers_are_called_in_order, "S-OBS-2",
        "Observers are called by ascending order, equal orders in the order of their addition") {
    static Probe probes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"},
                             {.name = "d"}, {.name = "e"}, {.name = "f"}};
    const RLIndex orders[] = {5, 0, LONG_MAX, 0, LONG_MIN, 5};
    const int added[] = {5, 3, 2, 1, 0, 4};
    for (int i = 0; i < 6; i++) probe_observer(&probes[i], kRLEntry, true, orders[i]);
    for (int i = 0; i < 6; i++) {
        RLAddObserver(RLGetCurrent(), probes[added[i]].observer, kRLDefaultMode);
        RLRelease(probes[added[i]].observer);
    }
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("e d b f a c");
}

/* One notification */

static Probe *other_probe;
static void add_other(Probe *self) {
    if (!other_probe->observer) add_observer(other_probe, self->activity, kRLDefaultMode);
}
static void remove_other(Probe *self) {
    RLRetain(other_probe->observer);
    RLRemoveObserver(self->loop, other_probe->observer, kRLDefaultMode);
}
static void invalidate_other(Probe *self) {
    (void)self;
    RLObserverInvalidate(other_probe->observer);
}

RL_TEST(an_observer_added_meanwhile_waits, "S-OBS-3 S-OBS-4",
        "An observer added during a notification is called from the next one on") {
    static Probe first = {.name = "a", .action = add_other}, second = {.name = "b"};
    other_probe = &second;
    add_observer(&first, kRLBeforeTimers, kRLDefaultMode);
    keep_alive(first.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b");
}

RL_TEST(an_observer_removed_meanwhile_is_called, "S-OBS-3 S-OBS-5",
        "An observer removed by an earlier callback of the notification is still called for it") {
    static Probe first = {.name = "a", .action = remove_other}, second = {.name = "b"};
    other_probe = &second;
    add_observer(&first, kRLEntry, kRLDefaultMode);
    add_observer(&second, kRLEntry | kRLExit, kRLDefaultMode);
    keep_alive(first.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a b");
    ck_assert(RLObserverIsValid(second.observer));
    RLRelease(second.observer);
}

RL_TEST(an_observer_invalidated_meanwhile_is_not_called, "S-OBS-3 S-OBS-6",
        "An observer invalidated by an earlier callback of the notification is not called") {
    static Probe first = {.name = "a", .action = invalidate_other}, second = {.name = "b"};
    other_probe = &second;
    add_observer(&first, kRLEntry, kRLDefaultMode);
    RLRetain(add_observer(&second, kRLEntry, kRLDefaultMode));
    keep_alive(first.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("a");
    RLRelease(second.observer);
}

/* One-shots, and observers on the stack */

static void check_member_and_valid(Probe *self) {
    ck_assert(RLObserverIsValid(self->observer));
    ck_assert(RLContainsObserver(self->loop, self->observer, kRLDefaultMode));
}

RL_TEST(a_one_shot_is_called_once, "S-OBS-7",
        "A one-shot is called for the first matching activity, valid and a member, and then "
        "invalid") {
    static Probe probe = {.name = "o", .action = check_member_and_valid, .counted = true};
    RLRetain(add_once(&probe, kRLBeforeSources | kRLExit, kRLDefaultMode));
    RLAddObserver(probe.loop, probe.observer, "other");
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("o");
    ck_assert_uint_eq(probe.activity, kRLBeforeSources);
    ck_assert(!RLObserverIsValid(probe.observer));
    ck_assert(!RLContainsObserver(probe.loop, probe.observer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(probe.loop, probe.observer, "other"));
    ck_assert_int_eq(probe.releases, 1);
    RLRelease(probe.observer);
}

static void run_nested(Probe *self) {
    if (self->value++ > 0) return;
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_run("other", 0, false, TimedOut);
    trace("end");
}

RL_TEST(an_observer_on_the_stack_is_not_called, "S-OBS-8 S-OBS-9 S-NEST-3",
        "An observer whose callback runs the loop is not called in the nested runs of any mode, "
        "another one is") {
    static Probe busy = {.name = "busy", .action = run_nested}, free_one = {.name = "free"};
    add_observer(&busy, kRLBeforeTimers | kRLExit, kRLDefaultMode);
    RLAddObserver(busy.loop, busy.observer, "other");
    add_observer(&free_one, kRLBeforeSources, kRLDefaultMode);
    RLAddObserver(busy.loop, free_one.observer, "other");
    keep_alive(busy.loop, kRLDefaultMode);
    keep_alive(busy.loop, "other");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("busy free free end free busy");
}

RL_TEST(a_one_shot_on_the_stack_is_not_called, "S-OBS-7 S-OBS-8",
        "A one-shot that runs the loop in its callback is not called by that run") {
    static Probe probe = {.name = "o", .action = run_nested};
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    keep_alive(RLGetCurrent(), "other");
    add_once(&probe, kRLAllActivities, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("o end");
}

/* Membership */

static Gate leave = GATE_INITIALIZER;
static void wait_to_leave(LoopThread *self) {
    (void)self;
    gate_wait(&leave);
}

RL_TEST(an_observer_belongs_to_one_loop, "S-OBS-10",
        "Adding to a second loop is ignored until the observer left the last mode of the first") {
    static Probe probe = {0};
    LoopThread other = {0};
    loop_thread_start(&other, wait_to_leave, NULL);
    RLObserverRef observer = probe_observer(&probe, kRLEntry, true, 0);
    RLAddObserver(probe.loop, observer, "one");
    RLAddObserver(probe.loop, observer, "two");
    RLAddObserver(other.loop, observer, kRLDefaultMode);
    ck_assert(!RLContainsObserver(other.loop, observer, kRLDefaultMode));
    RLRemoveObserver(probe.loop, observer, "one");
    RLAddObserver(other.loop, observer, kRLCommonModes);
    ck_assert(!RLContainsObserver(other.loop, observer, kRLCommonModes));
    ck_assert(!RLContainsObserver(other.loop, observer, kRLDefaultMode));
    RLRemoveObserver(probe.loop, observer, "two");
    RLAddObserver(other.loop, observer, kRLDefaultMode);
    ck_assert(RLContainsObserver(other.loop, observer, kRLDefaultMode));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(observer);
}

RL_TEST(a_common_observer_is_not_free, "S-OBS-10 S-MODE-26",
        "An observer that is in no mode but still a common item cannot join another loop") {
    static Probe probe = {0};
    LoopThread other = {0};
    loop_thread_start(&other, wait_to_leave, NULL);
    RLObserverRef observer = probe_observer(&probe, kRLEntry, true, 0);
    RLAddObserver(probe.loop, observer, kRLCommonModes);
    RLRemoveObserver(probe.loop, observer, kRLDefaultMode);
    ck_assert(RLContainsObserver(probe.loop, observer, kRLCommonModes));
    RLAddObserver(other.loop, observer, kRLDefaultMode);
    ck_assert(!RLContainsObserver(other.loop, observer, kRLDefaultMode));
    RLRemoveObserver(probe.loop, observer, kRLCommonModes);
    RLAddObserver(other.loop, observer, kRLDefaultMode);
    ck_assert(RLContainsObserver(other.loop, observer, kRLDefaultMode));
    gate_open(&leave);
    thread_join(other.thread);
    RLRelease(observer);
}

RL_TEST(adding_twice_is_one_membership, "S-OBS-11",
        "Adding to a mode twice, or under the pseudo-mode too, is ended by one Remove") {
    static Probe probe = {.name = "o"};
    add_observer(&probe, kRLEntry, kRLDefaultMode);
    RLAddObserver(probe.loop, probe.observer, kRLDefaultMode);
    RLAddObserver(probe.loop, probe.observer, kRLCommonModes);
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("o");
    RLRemoveObserver(probe.loop, probe.observer, kRLDefaultMode);
    ck_assert(!RLContainsObserver(probe.loop, probe.observer, kRLDefaultMode));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
}

RL_TEST(an_observer_alone_keeps_no_run_going, "S-OBS-12 S-RUN-2",
        "A mode that has only observers is empty: its run returns Finished and calls none") {
    static Probe probe = {.name = "o"};
    add_observer(&probe, kRLAllActivities, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("");
}
