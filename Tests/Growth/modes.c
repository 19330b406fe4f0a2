/* SPDX-License-Identifier: MIT */
/* Modes, the common set, loops and threads. */
#include "growth.h"

#include <pthread.h>

EACH_OF(mode_make) {
    RLSourceRef source = make_source(count_call, NULL);
    counted();
    for (long i = 0; i < n; i++) RLPerformFunction(own, mode_name(i), count_call, NULL, NULL);
    for (long i = 0; i < n; i++) RLContainsSource(own, source, mode_name(i));
    counted_end();
    RLRelease(source);
}

EACH_OF(mode_make_common) {
    counted();
    for (long i = 0; i < n; i++) RLAddCommonMode(own, mode_name(i));
    counted_end();
}

EACH_OF(mode_make_common_with_items) {
    RLSourceRef source = make_source(count_call, NULL);
    RLTimerRef timer = make_timer(RLAbsoluteTimeGetCurrent() + 10000, 1, NULL);
    RLObserverRef observer = make_observer(kRLAllActivities, true, 0, NULL);
    RLAddSource(own, source, kRLCommonModes);
    RLAddTimer(own, timer, kRLCommonModes);
    RLAddObserver(own, observer, kRLCommonModes);
    counted();
    for (long i = 0; i < n; i++) RLAddCommonMode(own, mode_name(i));
    RLRemoveSource(own, source, kRLCommonModes);
    RLRemoveTimer(own, timer, kRLCommonModes);
    RLRemoveObserver(own, observer, kRLCommonModes);
    counted_end();
    RLRelease(source);
    RLRelease(timer);
    RLRelease(observer);
}

EACH_OF(mode_common_items_over_modes) {
    for (long i = 0; i < n; i++) RLAddCommonMode(own, mode_name(i));
    RLSourceRef source = make_source(count_call, NULL);
    RLTimerRef timer = make_timer(RLAbsoluteTimeGetCurrent() + 10000, 1, NULL);
    RLObserverRef observer = make_observer(kRLAllActivities, true, 0, NULL);
    counted();
    RLAddSource(own, source, kRLCommonModes);
    RLAddTimer(own, timer, kRLCommonModes);
    RLAddObserver(own, observer, kRLCommonModes);
    RLTimerSetNextFireDate(timer, RLAbsoluteTimeGetCurrent() + 20000);
    RLSourceInvalidate(source);
    RLTimerInvalidate(timer);
    RLObserverInvalidate(observer);
    counted_end();
    RLRelease(source);
    RLRelease(timer);
    RLRelease(observer);
}

EACH_OF(mode_run_each) {
    for (long i = 0; i < n; i++) RLPerformFunction(own, mode_name(i), count_call, NULL, NULL);
    counted();
    for (long i = 0; i < n; i++) RLRunInMode(mode_name(i), 0, false);
    counted_end();
    require(calls == n, "calls");
}

EACH_OF(mode_copy_and_describe) {
    for (long i = 0; i < n; i++) RLPerformFunction(own, mode_name(i), count_call, NULL, NULL);
    counted();
    free(RLCopyAllModes(own, NULL));
    free(RLCopyDescription(own));
    counted_end();
}

EACH_OF(mode_list_of_post) {
    RLMode *names = calloc((size_t)n, sizeof *names);
    for (long i = 0; i < n; i++) names[i] = i % 2 == 0 ? "x" : kRLDefaultMode;
    counted();
    RLPerformFunctionInModes(own, names, n, count_call, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    counted_end();
    require(calls == 1, "calls");
    free(names);
}

/* Common items come and go beside modes that are not common. */
BESIDE_IDLE(mode_idle) {
    for (long i = 0; i < n; i++) RLPerformFunction(own, mode_name(i), count_call, NULL, NULL);
    passes(kRLDefaultMode, 2, NULL);
    counted();
    for (int i = 0; i < 100; i++) {
        RLSourceRef source = make_source(count_call, NULL);
        RLTimerRef timer = make_timer(RLAbsoluteTimeGetCurrent() + 10000, 1, NULL);
        RLObserverRef observer = make_observer(kRLAllActivities, true, 0, NULL);
        RLAddSource(own, source, kRLCommonModes);
        RLAddTimer(own, timer, kRLCommonModes);
        RLAddObserver(own, observer, kRLCommonModes);
        RLRemoveSource(own, source, kRLCommonModes);
        RLRemoveTimer(own, timer, kRLCommonModes);
        RLRemoveObserver(own, observer, kRLCommonModes);
        RLRelease(source);
        RLRelease(timer);
        RLRelease(observer);
    }
    passes(kRLDefaultMode, 100, NULL);
    counted_end();
}

/* A thread ends whose loop has n items of each kind. */
static void *fill_and_end(void *number) {
    long n = (long)number;
    RLRunLoopRef loop = RLGetCurrent();
    for (long i = 0; i < n; i++) {
        RLSourceRef source = make_source(count_call, (void *)(i + 1));
        RLTimerRef timer = make_timer(RLAbsoluteTimeGetCurrent() + 10000 + (double)i, 0, NULL);
        RLObserverRef observer = make_observer(kRLAllActivities, true, i * 7919 % n, NULL);
        RLMode mode = i % 3 == 0 ? kRLDefaultMode : i % 3 == 1 ? kRLCommonModes : "other";
        RLAddSource(loop, source, mode);
        RLAddTimer(loop, timer, mode);
        RLAddObserver(loop, observer, mode);
        RLRelease(source);
        RLRelease(timer);
        RLRelease(observer);
        RLPerformFunction(loop, mode, count_call, NULL, NULL);
        RLPerformAfterDelay(mode, 1000, NULL, count_call, NULL, NULL);
        RLPerformOnLoop(loop, mode, count_call, NULL, NULL, false);
    }
    counted();
    return NULL;
}

EACH_OF(loop_end) {
    pthread_t thread;
    pthread_create(&thread, NULL, fill_and_end, (void *)n);
    pthread_join(thread, NULL);
    counted_end();
}

static void body(RLThreadRef thread, void *info) {
    (void)thread;
    (void)info;
    RLGetCurrent();
}

EACH_OF_FEW(thread_life, 40) {
    counted();
    for (long i = 0; i < n; i++) {
        kept[i] = RLThreadCreate(body, NULL, NULL);
        RLThreadStart((RLThreadRef)kept[i]);
        RLThreadJoin((RLThreadRef)kept[i]);
    }
    counted_end();
    release_kept(n);
}

static void set_value(long i, void *value) { RLThreadSetValue((void *)(i + 1), value, NULL); }

EACH_OF(thread_values) {
    counted();
    for (long i = 0; i < n; i++) set_value(i, own);
    for (long i = 0; i < n; i++) require(RLThreadGetValue((void *)(i * 7919 % n + 1)) == own, "a value");
    for (long i = 0; i < n; i++) set_value(i * 7919 % n, NULL);
    counted_end();
}
