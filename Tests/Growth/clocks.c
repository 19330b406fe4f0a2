/* SPDX-License-Identifier: MIT */
/* Clocks that the program moves, and the timers that follow their changes. */
#include "growth.h"

#include <pthread.h>
#include <runloop/clock.h>

static RLClockRef manual;
static double start;

static void use_clock(void) {
    manual = RLClockCreateManual();
    require(RLSetClock(own, manual), "the clock");
    start = RLClockGetTime(manual);
}

/* One second apart. The rest of the case needs no references. */
static void add_clock_timers(long n, double first, double tolerance, RLTimerCallBack fire) {
    for (long i = 0; i < n; i++) {
        RLTimerRef timer = make_timer(start + first + (double)(i * 7919 % n), 0, fire);
        RLTimerSetTolerance(timer, tolerance);
        RLAddTimer(own, timer, kRLDefaultMode);
        kept[i] = timer;
    }
}

static void release_timers(long n) {
    for (long i = 0; i < n; i++) RLTimerInvalidate((RLTimerRef)kept[i]);
    release_kept(n);
    RLRelease(manual);
}

EACH_OF(clock_tolerances) {
    use_clock();
    add_clock_timers(n, 1, 0.25, NULL);
    counted();
    RLClockAdvance(manual, (double)n + 2);
    counted_end();
    require(calls == n, "fires");
    release_timers(n);
}

static void advance_once(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    calls++;
    RLClockAdvanceToNext(manual);
}

EACH_OF(clock_next_in_callbacks) {
    use_clock();
    add_clock_timers(n, 1, 0, advance_once);
    counted();
    while (calls < n) RLClockAdvanceToNext(manual);
    counted_end();
    release_timers(n);
}

static pthread_barrier_t barrier;
static void *have_loop(void *unused) {
    RLGetCurrent();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

BESIDE_IDLE_FEW(clock_automatic_beside_loops, 100) {
    pthread_t threads[KEPT / 100 + 1];
    pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
    for (long i = 0; i < n; i++) require(pthread_create(&threads[i], NULL, have_loop, NULL) == 0, "a thread");
    pthread_barrier_wait(&barrier);
    use_clock();
    RLTimerRef timer = make_timer(start, 1, NULL);
    RLAddTimer(own, timer, kRLDefaultMode);
    RLClockSetAutomatic(manual, true);
    RLRunInMode(kRLDefaultMode, 10, false);
    counted();
    RLRunInMode(kRLDefaultMode, 300, false);
    counted_end();
    RLTimerInvalidate(timer);
    RLRelease(timer);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < n; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    RLRelease(manual);
}

BESIDE_IDLE(clock_suspended_beside_timers) {
    use_clock();
    add_clock_timers(n, 1e6, 0, NULL);
    RLTimerRef follower = RLTimerCreateWithClock(kRLTimerClockWall, start + 1e7, 0, advance_once, NULL);
    RLAddTimer(own, follower, kRLDefaultMode);
    counted();
    for (int i = 0; i < 300; i++) RLClockSuspend(manual, 0.001);
    counted_end();
    RLTimerInvalidate(follower);
    RLRelease(follower);
    release_timers(n);
}

/* Each wait finds the first of many timers, which is then put off. */
static void never_fires(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    require(false, "fires too early");
}

EACH_OF(clock_timeouts_put_off) {
    use_clock();
    for (long i = 0; i < n; i++) {
        kept[i] = make_timer(start + 1790 + 10.0 * (double)i / (double)n, 0, never_fires);
        RLAddTimer(own, (RLTimerRef)kept[i], kRLDefaultMode);
    }
    RLClockAdvance(manual, 0.0001);
    counted();
    for (long i = 0; i < n; i++) {
        RLTimerSetNextFireDelay((RLTimerRef)kept[i], 1800);
        RLClockAdvance(manual, 0.0001);
    }
    counted_end();
    release_timers(n);
}
