/* SPDX-License-Identifier: MIT */
/*
 * The block forms of timers and observers (blocks.h). The block runtime's copy and release are
 * replaced by ones that count and call on, so that the tests see when a block is held.
 */
#define _GNU_SOURCE
#include "support.h"

#include <dlfcn.h>

static int copies, disposals;

void *_Block_copy(const void *block) {
    static void *(*copy)(const void *);
    if (!copy) copy = (void *(*)(const void *))dlsym(RTLD_NEXT, "_Block_copy");
    copies++;
    return copy(block);
}

void _Block_release(const void *block) {
    static void (*release)(const void *);
    if (!release) release = (void (*)(const void *))dlsym(RTLD_NEXT, "_Block_release");
    disposals++;
    release(block);
}

RL_TEST(a_timer_block_is_held_until_invalidation, "S-TMR-49 S-TMR-42",
        "The block of a timer is copied at creation, called by its fire and let go at "
        "invalidation") {
    int word = 42;
    __block int seen = 0;
    RLTimerRef timer = RLTimerCreateWithHandler(0, 1000, 0, 3, ^(RLTimerRef fired) {
        trace("fire-%d-%d", word, RLTimerIsValid(fired));
        seen++;
    });
    word = 0;
    ck_assert_int_eq(copies - disposals, 1);
    ck_assert_int_eq(RLTimerGetOrder(timer), 3);
    ck_assert_double_eq(RLTimerGetInterval(timer), 1000);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("fire-42-1");
    ck_assert_int_eq(seen, 1);
    ck_assert_int_eq(copies - disposals, 1);
    RLTimerInvalidate(timer);
    ck_assert_int_eq(copies, disposals);
    RLRelease(timer);
}

RL_TEST(a_timer_block_may_invalidate_its_timer, "S-TMR-49 S-TMR-45",
        "A block that invalidates its timer goes on undisturbed") {
    int word = 7;
    RLTimerRef timer = RLTimerCreateWithHandler(0, 1000, 0, 0, ^(RLTimerRef fired) {
        RLTimerInvalidate(fired);
        RLRelease(fired);
        trace("after-%d", word);
    });
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_trace("after-7");
    ck_assert_int_eq(copies, disposals);
}

RL_TEST(a_null_timer_block_is_a_null_callback, "S-TMR-49 S-TMR-12",
        "A timer with a NULL block fires silently") {
    RLTimerRef timer = RLTimerCreateWithHandler(0, 0, 0, 0, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert(!RLTimerIsValid(timer));
    ck_assert_int_eq(copies, 0);
    RLRelease(timer);
}

RL_TEST(an_observer_block_is_held_until_invalidation, "S-OBS-20 S-OBS-16",
        "The block of an observer is copied at creation, called, and let go at invalidation") {
    int word = 42;
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef observer = RLObserverCreateWithHandler(
        kRLBeforeTimers | kRLExit, true, 3, ^(RLObserverRef called, RLActivity activity) {
            trace("%s-%d-%d", activity_name(activity), word, RLObserverIsValid(called));
        });
    word = 0;
    ck_assert_int_eq(copies - disposals, 1);
    ck_assert_int_eq(RLObserverGetOrder(observer), 3);
    keep_alive(loop, kRLDefaultMode);
    RLAddObserver(loop, observer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("BT-42-1 X-42-1");
    ck_assert_int_eq(copies - disposals, 1);
    RLObserverInvalidate(observer);
    ck_assert_int_eq(copies, disposals);
    RLRelease(observer);
}

RL_TEST(an_observer_block_may_invalidate_its_observer, "S-OBS-20 S-OBS-19",
        "A block that invalidates its observer goes on undisturbed") {
    int word = 7;
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef observer = RLObserverCreateWithHandler(
        kRLAllActivities, true, 0, ^(RLObserverRef called, RLActivity activity) {
            RLObserverInvalidate(called);
            RLRelease(called);
            trace("%s-%d", activity_name(activity), word);
        });
    keep_alive(loop, kRLDefaultMode);
    RLAddObserver(loop, observer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E-7");
    ck_assert_int_eq(copies, disposals);
}

RL_TEST(a_null_observer_block_is_a_null_callback, "S-OBS-20 S-OBS-14",
        "A one-shot observer with a NULL block is invalidated when its activity occurs") {
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef observer = RLObserverCreateWithHandler(kRLEntry, false, 0, NULL);
    keep_alive(loop, kRLDefaultMode);
    RLAddObserver(loop, observer, kRLDefaultMode);
    ck_assert(RLObserverIsValid(observer));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert(!RLObserverIsValid(observer));
    ck_assert_int_eq(copies, 0);
    RLRelease(observer);
}
