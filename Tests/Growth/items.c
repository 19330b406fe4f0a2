/* SPDX-License-Identifier: MIT */
/* Sources, timers and observers. */
#include "growth.h"

/* Sources */

static void make_sources(long n) {
    for (long i = 0; i < n; i++) kept[i] = make_source(count_call, (void *)(i + 1));
}

static void add_sources(long n, RLMode mode) {
    make_sources(n);
    for (long i = 0; i < n; i++) RLAddSource(own, (RLSourceRef)kept[i], mode);
}

EACH_OF(source_add) {
    make_sources(n);
    counted();
    for (long i = 0; i < n; i++) RLAddSource(own, (RLSourceRef)kept[i], kRLDefaultMode);
    for (long i = 0; i < n; i++) require(RLContainsSource(own, (RLSourceRef)kept[i], kRLDefaultMode), "a source");
    counted_end();
    release_kept(n);
}

EACH_OF(source_remove) {
    add_sources(n, kRLDefaultMode);
    counted();
    for (long i = 0; i < n; i++) RLRemoveSource(own, (RLSourceRef)kept[i], kRLDefaultMode);
    counted_end();
    release_kept(n);
}

EACH_OF(source_invalidate) {
    add_sources(n, kRLCommonModes);
    counted();
    for (long i = 0; i < n; i++) RLSourceInvalidate((RLSourceRef)kept[i]);
    counted_end();
    release_kept(n);
}

EACH_OF(source_signal_and_perform) {
    add_sources(n, kRLDefaultMode);
    counted();
    for (long i = 0; i < n; i++) RLSourceSignal((RLSourceRef)kept[i * 7919 % n]);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "performs");
    release_kept(n);
}

EACH_OF(source_modes_add_and_invalidate) {
    RLSourceRef source = make_source(count_call, NULL);
    counted();
    for (long i = 0; i < n; i++) RLAddSource(own, source, mode_name(i));
    RLSourceInvalidate(source);
    counted_end();
    RLRelease(source);
}

EACH_OF(source_modes_remove) {
    RLSourceRef source = make_source(count_call, NULL);
    for (long i = 0; i < n; i++) RLAddSource(own, source, mode_name(i));
    counted();
    for (long i = 0; i < n; i++) RLRemoveSource(own, source, mode_name(i));
    counted_end();
    RLRelease(source);
}

BESIDE_IDLE(source_idle) {
    add_sources(n, kRLDefaultMode);
    counted();
    passes(kRLDefaultMode, 300, NULL);
    counted_end();
    release_kept(n);
}

BESIDE_IDLE(source_signalled_in_other_mode) {
    add_sources(n, "other");
    for (long i = 0; i < n; i++) RLSourceSignal((RLSourceRef)kept[i]);
    passes(kRLDefaultMode, 2, NULL);
    counted();
    passes(kRLDefaultMode, 300, NULL);
    counted_end();
    release_kept(n);
}

static long depth;
static void nest(void *info) {
    calls++;
    if (depth == 0 && (long)info % 2 == 0) {
        depth++;
        RLRunInMode(kRLDefaultMode, 0, true);
        depth--;
    }
}

EACH_OF_FEW(source_batch_nested, KNOWN) {
    for (long i = 0; i < n; i++) {
        kept[i] = make_source(nest, (void *)(i + 1));
        RLAddSource(own, (RLSourceRef)kept[i], kRLDefaultMode);
        RLSourceSignal((RLSourceRef)kept[i]);
    }
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "performs");
    release_kept(n);
}

EACH_OF(source_batch_limited) {
    RLSetPassLimit(own, kRLDefaultMode, 1);
    for (long i = 0; i < n; i++) {
        kept[i] = make_source(count_call, (void *)(i + 1));
        RLAddSource(own, (RLSourceRef)kept[i], kRLDefaultMode);
        RLSourceSignal((RLSourceRef)kept[i]);
    }
    counted();
    for (long i = 0; i < n; i++) RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "performs");
    release_kept(n);
}

/* n functions that a run of the mode from a performed function does not see, and n that it does. */
static void run_nested(void *info) {
    long n = (long)info;
    for (long i = 0; i < n; i++) RLPerformFunction(own, "m", count_call, NULL, NULL);
    counted();
    for (long i = 0; i < n && calls < n; i++) RLRunInMode("m", 0, false);
    counted_end();
    require(calls == n, "performs");
}

EACH_OF(functions_nested_limited) {
    RLSetPassLimit(own, "m", 5);
    for (long i = 0; i < n; i++) RLPerformFunction(own, "m", count_call, NULL, NULL);
    RLPerformFunction(own, kRLDefaultMode, run_nested, (void *)n, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    for (long i = 0; i < n && calls < 2 * n; i++) RLRunInMode("m", 0, false);
    require(calls == 2 * n, "performs the others");
}

static void no_log(const char *line, void *info) { (void)line, (void)info; }
/* n sources that have used up their limits and are signalled. */
static void use_up(long n) {
    RLSetLogHandler(no_log, NULL);
    add_sources(n, kRLDefaultMode);
    for (long i = 0; i < n; i++) RLSourceSetLimit((RLSourceRef)kept[i], 1, 100000);
    for (int time = 0; time < 2; time++) {
        for (long i = 0; i < n; i++) RLSourceSignal((RLSourceRef)kept[i]);
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
}

EACH_OF(source_limit_used_up) {
    counted();
    use_up(n);
    counted_end();
    for (long i = 0; i < n; i++) require(RLSourceIsSignalled((RLSourceRef)kept[i]), "waits");
    RLSetLogHandler(NULL, NULL);
    release_kept(n);
}

EACH_OF(source_limit_removed) {
    use_up(n);
    counted();
    for (long i = 0; i < n; i++) RLSourceSetLimit((RLSourceRef)kept[i], 0, 0);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    for (long i = 0; i < n; i++) require(!RLSourceIsSignalled((RLSourceRef)kept[i]), "performs");
    RLSetLogHandler(NULL, NULL);
    release_kept(n);
}

/* Another source comes under limits, reaches them and waits. */
BESIDE_IDLE(source_limit_beside_waiting) {
    use_up(n);
    RLSourceRef other = make_source(count_call, NULL);
    RLAddSource(own, other, kRLDefaultMode);
    counted();
    for (int i = 0; i < 100; i++) {
        RLSourceSetLimit(other, 1, 10);
        for (int time = 0; time < 2; time++) {
            RLSourceSignal(other);
            RLRunInMode(kRLDefaultMode, 0, false);
        }
    }
    counted_end();
    RLSetLogHandler(NULL, NULL);
    RLSourceInvalidate(other);
    RLRelease(other);
    release_kept(n);
}

/* Timers */

static double later(void) { return RLAbsoluteTimeGetCurrent() + 100000; }

static void add_timers(long n, double date, double step, RLTimerCallBack fire, RLMode mode) {
    for (long i = 0; i < n; i++) {
        kept[i] = make_timer(date + (double)(i * 7919 % n) * step, 0, fire);
        RLAddTimer(own, (RLTimerRef)kept[i], mode);
    }
}

EACH_OF(timer_add) {
    counted();
    add_timers(n, later(), 0.0001, NULL, kRLDefaultMode);
    counted_end();
    release_kept(n);
}

EACH_OF(timer_remove) {
    add_timers(n, later(), 0.0001, NULL, kRLDefaultMode);
    counted();
    for (long i = 0; i < n; i++) RLRemoveTimer(own, (RLTimerRef)kept[i], kRLDefaultMode);
    counted_end();
    release_kept(n);
}

EACH_OF(timer_invalidate_common) {
    add_timers(n, later(), 0.0001, NULL, kRLCommonModes);
    counted();
    for (long i = 0; i < n; i++) RLTimerInvalidate((RLTimerRef)kept[i]);
    counted_end();
    release_kept(n);
}

EACH_OF(timer_set_date) {
    add_timers(n, later(), 0.0001, NULL, kRLDefaultMode);
    counted();
    for (long i = 0; i < n; i++) RLTimerSetNextFireDate((RLTimerRef)kept[i], later() - (double)i);
    for (long i = 0; i < n; i++) RLTimerSetNextFireDate((RLTimerRef)kept[i], (double)(n - i));
    counted_end();
    release_kept(n);
}

EACH_OF(timer_fire) {
    add_timers(n, 0, 0.0001, NULL, kRLDefaultMode);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "fires");
    release_kept(n);
}

EACH_OF(timer_modes_add_and_invalidate) {
    RLTimerRef timer = make_timer(later(), 0, NULL);
    counted();
    for (long i = 0; i < n; i++) RLAddTimer(own, timer, mode_name(i));
    RLTimerInvalidate(timer);
    counted_end();
    RLRelease(timer);
}

EACH_OF(timer_modes_remove) {
    RLTimerRef timer = make_timer(later(), 0, NULL);
    for (long i = 0; i < n; i++) RLAddTimer(own, timer, mode_name(i));
    counted();
    for (long i = 0; i < n; i++) RLRemoveTimer(own, timer, mode_name(i));
    counted_end();
    RLRelease(timer);
}

BESIDE_IDLE(timer_idle) {
    add_timers(n, later(), 0.0001, NULL, kRLDefaultMode);
    counted();
    passes(kRLDefaultMode, 300, NULL);
    counted_end();
    release_kept(n);
}

BESIDE_IDLE(timer_next_date) {
    add_timers(n, later(), 0, NULL, kRLDefaultMode);
    RLGetNextTimerFireDate(own, kRLDefaultMode);
    counted();
    for (long i = 0; i < 300; i++) RLGetNextTimerFireDate(own, kRLDefaultMode);
    counted_end();
    release_kept(n);
}

/* An overdue timer in a mode that does not run stays where it is; others come behind it and go. */
BESIDE_IDLE(timer_behind_overdue) {
    RLTimerRef first = make_timer(1, 0, NULL), second = make_timer(2, 0, NULL);
    RLTimerSetTolerance(first, 1e6);
    RLAddTimer(own, first, kRLDefaultMode);
    RLAddTimer(own, second, kRLDefaultMode);
    for (long i = 0; i < 10 * n; i++) RLTimerSetNextFireDate(second, 3);
    counted();
    for (long i = 0; i < 300; i++) RLTimerSetNextFireDate(second, 3);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    RLRelease(first);
    RLRelease(second);
}

static long left_out;

static void remove_others(RLTimerRef timer, void *info) {
    (void)info;
    calls++;
    if (left_out == 0) return;
    if (calls == 1) {
        for (long i = 0; i < left_out; i++)
            if (kept[i] != timer) RLRemoveTimer(own, (RLTimerRef)kept[i], kRLDefaultMode);
    }
}

static void nest_among_removed(RLTimerRef timer, void *info) {
    (void)info;
    calls++;
    if (depth > 0) return;
    depth++;
    RLTimerRef inner = make_timer(0, 0, NULL);
    RLAddTimer(own, inner, kRLDefaultMode);
    if (calls == 1) {
        for (long i = 0; i < left_out; i++)
            if (kept[i] != timer) RLRemoveTimer(own, (RLTimerRef)kept[i], kRLDefaultMode);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    RLRelease(inner);
    depth--;
}

EACH_OF(timer_batch_removed) {
    left_out = n;
    add_timers(n, 0, 0, remove_others, kRLDefaultMode);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == 1, "fires");
    release_kept(n);
}

/* The removed ones are still in another mode: each has its turn, in which the loop runs nested. */
EACH_OF(timer_batch_removed_nested) {
    left_out = n;
    add_timers(n, 0, 0, nest_among_removed, kRLDefaultMode);
    for (long i = 0; i < n; i++) RLAddTimer(own, (RLTimerRef)kept[i], "other");
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == 2 * n, "fires");
    release_kept(n);
}

static void add_and_nest(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    calls++;
    if (depth > 0) return;
    depth++;
    for (long i = 0; i < left_out; i++) {
        RLTimerRef inner = make_timer(-1, 0, NULL);
        RLAddTimer(own, inner, kRLDefaultMode);
        RLRelease(inner);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    depth--;
}

/* What a nested run collects is to fire before what is left of the outer batch. */
EACH_OF(timer_batch_before_batch) {
    left_out = n;
    add_timers(n, RLAbsoluteTimeGetCurrent() - 1, 0, add_and_nest, kRLDefaultMode);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls >= 2 * n, "fires");
    release_kept(n);
}

/* Observers */

static void make_observers(long n, RLOptionFlags activities, bool repeats, long order, RLObserverCallBack callback) {
    for (long i = 0; i < n; i++)
        kept[i] = make_observer(activities, repeats, order == 2 ? i * 7919 % n : order * i, callback);
}

static void add_observers(long n, RLMode mode) {
    for (long i = 0; i < n; i++) RLAddObserver(own, (RLObserverRef)kept[i], mode);
}

static void observer_life(long n, long order, bool backwards) {
    make_observers(n, kRLAllActivities, true, order, NULL);
    counted();
    add_observers(n, kRLDefaultMode);
    for (long i = 0; i < n; i++) RLObserverInvalidate((RLObserverRef)kept[backwards ? n - 1 - i : i]);
    counted_end();
    release_kept(n);
}

EACH_OF(observer_life_equal) { observer_life(n, 0, false); }
EACH_OF(observer_life_equal_backwards) { observer_life(n, 0, true); }
EACH_OF(observer_life_rising) { observer_life(n, 1, false); }
EACH_OF(observer_life_falling) { observer_life(n, -1, false); }
EACH_OF(observer_life_mixed) { observer_life(n, 2, false); }

EACH_OF(observer_remove) {
    make_observers(n, kRLExit, true, 2, NULL);
    add_observers(n, kRLCommonModes);
    counted();
    for (long i = 0; i < n; i++) RLRemoveObserver(own, (RLObserverRef)kept[i], kRLCommonModes);
    counted_end();
    release_kept(n);
}

EACH_OF(observer_notify_once) {
    make_observers(n, kRLEntry, false, 2, NULL);
    add_observers(n, kRLDefaultMode);
    counted();
    passes(kRLDefaultMode, 1, NULL);
    counted_end();
    require(calls == n, "calls");
    release_kept(n);
}

static void remove_itself(RLObserverRef observer, RLActivity activity, void *info) {
    (void)activity;
    (void)info;
    calls++;
    RLRemoveObserver(own, observer, kRLDefaultMode);
    RLAddObserver(own, observer, kRLDefaultMode);
    RLAddObserver(own, observer, "other");
}

EACH_OF(observer_notify_that_change) {
    make_observers(n, kRLEntry | kRLExit, true, 2, remove_itself);
    add_observers(n, kRLDefaultMode);
    counted();
    passes(kRLDefaultMode, 1, NULL);
    counted_end();
    require(calls == 2 * n, "calls");
    release_kept(n);
}

EACH_OF(observer_modes_add_and_remove) {
    RLObserverRef observer = make_observer(kRLAllActivities, true, 0, NULL);
    counted();
    for (long i = 0; i < n; i++) RLAddObserver(own, observer, mode_name(i));
    for (long i = 0; i < n; i++) require(RLContainsObserver(own, observer, mode_name(i)), "an observer");
    for (long i = 0; i < n; i++) RLRemoveObserver(own, observer, mode_name(i));
    counted_end();
    RLRelease(observer);
}

BESIDE_IDLE(observer_idle) {
    make_observers(n, kRLExit, true, 2, NULL);
    add_observers(n, kRLDefaultMode);
    RLObserverRef observer = make_observer(kRLBeforeTimers, true, 0, NULL);
    RLAddObserver(own, observer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted();
    for (long i = 0; i < 100; i++) {
        RLRemoveObserver(own, observer, kRLDefaultMode);
        RLAddObserver(own, observer, kRLDefaultMode);
    }
    counted_end();
    RLRelease(observer);
    release_kept(n);
}

static void add_back(RLTimerRef timer, void *info) {
    remove_others(timer, info);
    if (calls > 1) return;
    /* A nested run passes over all of them. */
    RLRunInMode(kRLDefaultMode, 0, false);
    for (long i = 0; i < left_out; i++) RLAddTimer(own, (RLTimerRef)kept[(i * 7919 + 1) % left_out], kRLDefaultMode);
}

EACH_OF(timer_batch_added_back) {
    left_out = n;
    add_timers(n, 0, 0, add_back, kRLDefaultMode);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "fires");
    release_kept(n);
}

static void make_due_anew(RLTimerRef timer, void *info) {
    (void)info;
    if (calls++ > 0) return;
    for (long i = left_out - 1; i >= 0; i--)
        if (kept[i] != timer) RLTimerSetNextFireDate((RLTimerRef)kept[i], -1);
}

EACH_OF(timer_batch_due_anew) {
    left_out = n;
    add_timers(n, 0, 0, make_due_anew, kRLDefaultMode);
    counted();
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == n, "fires");
    release_kept(n);
}
