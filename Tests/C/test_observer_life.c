/* SPDX-License-Identifier: MIT */
/*
 * Observers: callbacks, contexts and invalidation. The probes are static, because what is left in a
 * loop outlives the case that put it there.
 */
#include "support.h"

#include <limits.h>
#include <string.h>

RL_TEST(a_null_callback_is_allowed, "S-OBS-14",
        "An observer without callback does nothing, and a one-shot is invalidated all the same") {
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef once = RLObserverCreate(kRLBeforeSources, false, 0, NULL, NULL);
    RLObserverRef often = RLObserverCreate(kRLAllActivities, true, 0, NULL, NULL);
    RLAddObserver(loop, once, kRLDefaultMode);
    RLAddObserver(loop, often, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, Finished);
    ck_assert(RLObserverIsValid(once));
    keep_alive(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    ck_assert(!RLObserverIsValid(once));
    ck_assert(RLObserverIsValid(often));
    RLRelease(once);
    RLRelease(often);
}

static const char *const reference_names[] = {"made", "extra1", "extra2"};
static int references_made;
static const void *retain_by_name(const void *info) {
    (void)info;
    trace("retain");
    return reference_names[references_made++];
}
static void release_by_name(const void *info) { trace("release-%s", (const char *)info); }
static void call_by_name(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    trace("%s-%s", activity_name(activity), (const char *)info);
}

RL_TEST(calls_have_no_bracket, "S-OBS-15 S-OBS-7",
        "The context is retained at creation and released at invalidation, and not around calls") {
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverContext context = {0, NULL, retain_by_name, release_by_name, NULL};
    RLObserverRef observer =
        RLObserverCreate(kRLEntry | kRLExit, true, 0, call_by_name, &context);
    memset(&context, 0xEE, sizeof context);
    RLAddObserver(loop, observer, kRLDefaultMode);
    keep_alive(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("retain E-made X-made");
    RLObserverInvalidate(observer);
    expect_trace("release-made");
    RLRelease(observer);
    RLObserverContext again = {0, NULL, retain_by_name, release_by_name, NULL};
    observer = RLObserverCreate(kRLBeforeTimers, false, 0, call_by_name, &again);
    RLAddObserver(loop, observer, kRLDefaultMode);
    RLRelease(observer);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("retain BT-extra1 release-extra1");
}

static void *called_with = &references_made;
static void keep_info(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    called_with = info;
}

RL_TEST(null_context_means_null_info, "S-OBS-15", "Without a context the info is NULL") {
    RLObserverRef observer = RLObserverCreate(kRLEntry, true, 0, keep_info, NULL);
    RLObserverContext stored;
    memset(&stored, 0xEE, sizeof stored);
    stored.version = 0;
    RLObserverGetContext(observer, &stored);
    ck_assert_ptr_null(stored.info);
    ck_assert(!stored.retain && !stored.release && !stored.copyDescription);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_ptr_null(called_with);
    RLRelease(observer);
}

RL_TEST(the_last_release_invalidates, "S-OBS-15",
        "Dropping the last reference releases the context, also the loop's by Remove") {
    static Probe alone = {.counted = true}, removed = {.counted = true};
    RLObserverRef observer = probe_observer(&alone, kRLEntry, true, 0);
    RLRelease(observer);
    ck_assert_int_eq(alone.retains, 1);
    ck_assert_int_eq(alone.releases, 1);
    observer = add_observer(&removed, kRLEntry, kRLDefaultMode);
    ck_assert_int_eq(removed.releases, 0);
    RLRemoveObserver(removed.loop, observer, kRLDefaultMode);
    ck_assert_int_eq(removed.releases, 1);
}

RL_TEST(invalidation_leaves_all_modes_and_releases_the_context, "S-OBS-16",
        "Invalidation takes an observer out of all modes and common items, releases the context "
        "inside the call, once, and leaves a NULL info beside the functions") {
    static Probe probe = {.name = "o", .counted = true};
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverContext before, after;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    RLAddCommonMode(loop, "common");
    RLObserverRef observer = probe_observer(&probe, kRLEntry, true, 0);
    RLAddObserver(loop, observer, kRLCommonModes);
    RLAddObserver(loop, observer, "own");
    RLObserverGetContext(observer, &before);
    ck_assert_ptr_eq(before.info, &probe);
    RLObserverInvalidate(observer);
    ck_assert_int_eq(probe.releases, 1);
    ck_assert(!RLObserverIsValid(observer));
    ck_assert(!RLContainsObserver(loop, observer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(loop, observer, "common"));
    ck_assert(!RLContainsObserver(loop, observer, "own"));
    ck_assert(!RLContainsObserver(loop, observer, kRLCommonModes));
    RLObserverGetContext(observer, &after);
    ck_assert_ptr_null(after.info);
    ck_assert(after.retain == before.retain && after.retain != NULL);
    ck_assert(after.release == before.release && after.release != NULL);
    RLObserverInvalidate(observer);
    keep_alive(loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
    RLRelease(observer);
    ck_assert_int_eq(probe.releases, 1);
}

RL_TEST(an_invalid_observer_is_not_added, "S-OBS-17",
        "Adding an invalid observer, to a mode or to the common modes, does nothing") {
    static Probe probe = {.name = "o"};
    RLObserverRef observer = probe_observer(&probe, kRLEntry, true, 0);
    RLObserverInvalidate(observer);
    RLAddObserver(probe.loop, observer, kRLDefaultMode);
    RLAddObserver(probe.loop, observer, kRLCommonModes);
    ck_assert(!RLContainsObserver(probe.loop, observer, kRLDefaultMode));
    ck_assert(!RLContainsObserver(probe.loop, observer, kRLCommonModes));
    RLRelease(observer);
}

RL_TEST(an_invalid_observer_tells_how_it_was_made, "S-OBS-18",
        "Activities, repetition and order are those of the creation, also after invalidation") {
    const RLOptionFlags masks[] = {kRLAllActivities, 0, ~0UL, kRLExit | 1UL << 40};
    const RLIndex orders[] = {0, LONG_MAX, LONG_MIN, -7};
    for (int i = 0; i < 4; i++) {
        Probe probe = {0};
        RLObserverRef observer = probe_observer(&probe, masks[i], i % 2, orders[i]);
        for (int round = 0; round < 2; round++) {
            ck_assert_uint_eq(RLObserverGetActivities(observer), masks[i]);
            ck_assert_int_eq(RLObserverDoesRepeat(observer), i % 2);
            ck_assert_int_eq(RLObserverGetOrder(observer), orders[i]);
            RLObserverInvalidate(observer);
        }
        RLRelease(observer);
    }
}

/* S-OBS-19: one observer does everything an observer may do, at each of the six activities. */

static void do_everything(Probe *self) {
    static Probe source = {.name = NULL}, timer = {.name = NULL}, function = {.name = NULL};
    Probe late = {0};
    RLRunLoopRef loop = self->loop;
    add_source(&source, "inner");
    RLSourceSignal(source.source);
    add_timer(&timer, 0, 0, "inner");
    RLRetain(timer.timer);
    RLObserverRef observer = probe_observer(&late, kRLAllActivities, true, 0);
    RLAddObserver(loop, observer, kRLDefaultMode);
    RLRemoveObserver(loop, observer, kRLDefaultMode);
    RLObserverInvalidate(observer);
    RLRelease(observer);
    probe_perform(&function, loop, "inner");
    /* A wake-up of an earlier activity may take the one event of a poll. */
    do {
        expect_run("inner", 0, false, TimedOut);
    } while (timer.calls < self->calls);
    RLWakeUp(loop);
    RLSourceInvalidate(source.source);
    RLTimerInvalidate(timer.timer);
    RLRelease(timer.timer);
    ck_assert_int_eq(late.calls, 0);
    ck_assert_int_eq(source.calls, self->calls);
    ck_assert_int_eq(timer.calls, self->calls);
    ck_assert_int_eq(function.calls, self->calls);
    if (self->activity == kRLBeforeWaiting) RLStop(loop);
}

RL_TEST(an_observer_may_do_everything, "S-OBS-19 S-NEST-1",
        "At every activity an observer may add, remove and invalidate items, queue functions, "
        "wake, "
        "stop and run the loop") {
    static Probe probe = {.action = do_everything};
    add_observer(&probe, kRLAllActivities, kRLDefaultMode);
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    ck_assert_int_eq(probe.calls, 6);
}

static void invalidate_self(Probe *self) {
    RLObserverInvalidate(self->observer);
    trace("after");
}

RL_TEST(an_observer_may_invalidate_itself, "S-OBS-19 S-OBS-16",
        "An observer that invalidates itself is released by the call and called no more") {
    static Probe probe = {.name = "o", .action = invalidate_self, .counted = true};
    add_observer(&probe, kRLAllActivities, kRLDefaultMode);
    keep_alive(probe.loop, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("o after");
    ck_assert_int_eq(probe.releases, 1);
}
