/* SPDX-License-Identifier: MIT */
/* The paths of timers: each public call on one. See guard.c. */
#include "guard.h"

#include <pthread.h>

enum { LIVE = 1000 };

static RLTimerRef timers[LIVE];

static unsigned draw(unsigned limit) {
    static unsigned long long state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 40) % limit;
}

static RLAbsoluteTime far(void) { return base + 1000 + draw(3600000) / 1000.0; }

static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    if (++done == times) RLStop(own);
}

static RLTimerRef add_timer(RLAbsoluteTime date, RLTimeInterval interval) {
    RLTimerRef timer = RLTimerCreate(date, interval, 0, 0, fire, NULL);
    RLAddTimer(own, timer, kRLDefaultMode);
    return timer;
}

static void fill(void) {
    for (int i = 0; i < LIVE; i++) timers[i] = add_timer(far(), 0);
}

/* Calls on one of many timers that wait, from a callout of their loop. */
static void run_beside_others(void (*perform)(void *)) {
    fill();
    run_in_callout(perform);
}

static void remove_and_add(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLTimerRef timer = timers[draw(LIVE)];
        RLRemoveTimer(own, timer, kRLDefaultMode);
        RLAddTimer(own, timer, kRLDefaultMode);
    }
    RLStop(own);
}

static void timer_remove_add(void) { run_beside_others(remove_and_add); }

static void remove_set_and_add(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLTimerRef timer = timers[draw(LIVE)];
        RLRemoveTimer(own, timer, kRLDefaultMode);
        RLTimerSetNextFireDate(timer, far());
        RLAddTimer(own, timer, kRLDefaultMode);
    }
    RLStop(own);
}

static void timer_remove_set_add(void) { run_beside_others(remove_set_and_add); }

static void move(void *info) {
    (void)info;
    for (; done < times; done++) RLTimerSetNextFireDate(timers[draw(LIVE)], far());
    RLStop(own);
}

static void timer_move(void) { run_beside_others(move); }

static void delay(void *info) {
    (void)info;
    for (; done < times; done++) RLTimerSetNextFireDelay(timers[draw(LIVE)], 1000 + draw(3600000) / 1000.0);
    RLStop(own);
}

static void timer_delay(void) { run_beside_others(delay); }

static void reuse(void *info) {
    (void)info;
    for (; done < times; done++) RLTimerSetReusable(timers[draw(LIVE)], draw(2));
    RLStop(own);
}

static void timer_reusable(void) { run_beside_others(reuse); }

/* Calls of the owner that change no date. */
static void ask(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLTimerRef timer = timers[draw(LIVE)];
        RLTimerContext context;
        RLTimerGetContext(timer, &context);
        require(RLTimerIsValid(timer) && !RLTimerDoesRepeat(timer) && RLTimerGetInterval(timer) == 0 &&
                    RLTimerGetOrder(timer) == 0 && RLTimerGetTolerance(timer) == 0 && RLTimerGetNextFireDate(timer) > base,
                "a timer is not as it was made");
    }
    RLStop(own);
}

static void timer_ask(void) { run_beside_others(ask); }

static void ask_loop(void *info) {
    (void)info;
    for (; done < times; done++) require(RLContainsTimer(own, timers[draw(LIVE)], kRLDefaultMode), "a timer is missing");
    RLStop(own);
}

static void timer_contains(void) { run_beside_others(ask_loop); }

static void ask_next(void *info) {
    (void)info;
    for (; done < times; done++) require(RLGetNextTimerFireDate(own, kRLDefaultMode) > base, "no timer is next");
    RLStop(own);
}

static void timer_next(void) { run_beside_others(ask_next); }

static void tolerate(void *info) {
    (void)info;
    for (; done < times; done++) RLTimerSetTolerance(timers[draw(LIVE)], draw(100) / 1000.0);
    RLStop(own);
}

static void timer_tolerance(void) {
    fill();
    for (int i = 0; i < LIVE; i++) RLTimerSetTolerance(timers[i], 1);
    run_in_callout(tolerate);
}

static void replace(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLTimerRef *timer = &timers[draw(LIVE)];
        RLTimerInvalidate(*timer);
        RLRelease(*timer);
        *timer = add_timer(far(), 0);
    }
    RLStop(own);
}

static void timer_life(void) { run_beside_others(replace); }

/* The same with each of the clocks in turn. */
static void replace_with_clock(void *info) {
    (void)info;
    for (; done < times; done++) {
        RLTimerRef *timer = &timers[draw(LIVE)];
        RLTimerClock clock = (RLTimerClock)(done % 3);
        RLTimerInvalidate(*timer);
        RLRelease(*timer);
        *timer = RLTimerCreateWithClock(clock, far(), 0, fire, NULL);
        require(RLTimerGetClock(*timer) == clock && RLTimerGetTypeID() != 0, "a timer is not as it was made");
        RLAddTimer(own, *timer, kRLDefaultMode);
    }
    RLStop(own);
}

static void timer_clock_life(void) { run_beside_others(replace_with_clock); }

/* A one-shot from its making to after its fire. */
static void timer_fire(void) {
    for (long i = 0; i < times; i++) RLRelease(add_timer(base - draw(1000) / 1000.0, 0));
    RLRun();
}

/* A timer that is due again as soon as it has fired. */
static void timer_tick(void) {
    add_timer(base, 1e-9);
    RLRun();
}

static pthread_barrier_t barrier;

/* The loop's thread stays in a callout: when a waiting one runs differs from run to run. */
static void stay(void *info) {
    (void)info;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    RLStop(own);
}

static void *own_the_timers(void *info) {
    own = RLGetCurrent();
    fill();
    run_in_callout(stay);
    return info;
}

static void timer_move_outside(void) {
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, own_the_timers, NULL);
    pthread_barrier_wait(&barrier);
    for (; done < times; done++) RLTimerSetNextFireDate(timers[draw(LIVE)], far());
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

const struct path timer_paths[] = {
    {"timer_remove_add", timer_remove_add},
    {"timer_remove_set_add", timer_remove_set_add},
    {"timer_move", timer_move},
    {"timer_move_outside", timer_move_outside},
    {"timer_delay", timer_delay},
    {"timer_reusable", timer_reusable},
    {"timer_ask", timer_ask},
    {"timer_contains", timer_contains},
    {"timer_next", timer_next},
    {"timer_tolerance", timer_tolerance},
    {"timer_life", timer_life},
    {"timer_clock_life", timer_clock_life},
    {"timer_fire", timer_fire},
    {"timer_tick", timer_tick},
    {NULL, NULL},
};
