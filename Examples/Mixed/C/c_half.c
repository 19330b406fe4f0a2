/* SPDX-License-Identifier: MIT */
#include "c_half.h"

#include <stdio.h>

/* All of this is touched by the loop's own thread only. */
static struct {
    RLSourceRef source, partner;
    RLTimerRef timer;
    RLObserverRef observer;
    int performed, fired, observed;
} half;

static void perform(void *info) {
    (void)info;
    printf("C      source, time %d\n", ++half.performed);
    /* The partner performs in the next pass: a signal needs no wake-up on the loop's own thread. */
    RLSourceSignal(half.partner);
}

static void fire(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    ++half.fired;
    printf("C      timer, stops the run\n");
    RLStop(RLGetCurrent());
}

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)info;
    ++half.observed;
    printf("C      run %s\n", activity == kRLEntry ? "begins" : "ends");
}

void c_half_add(RLRunLoopRef loop, RLSourceRef partner) {
    RLSourceContext context = {.perform = perform};
    half.partner = partner;
    half.source = RLSourceCreate(0, &context);
    RLAddSource(loop, half.source, kRLDefaultMode);
    /* Far in the future: c_half_set_timer_due decides when. */
    half.timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, fire, NULL);
    RLAddTimer(loop, half.timer, kRLDefaultMode);
    half.observer = RLObserverCreate(kRLEntry | kRLExit, true, 0, observe, NULL);
    RLAddObserver(loop, half.observer, kRLDefaultMode);
}

RLSourceRef c_half_source(void) { return half.source; }

void c_half_set_timer_due(void) { RLTimerSetNextFireDate(half.timer, RLAbsoluteTimeGetCurrent()); }

int c_half_performed(void) { return half.performed; }
int c_half_fired(void) { return half.fired; }
int c_half_observed(void) { return half.observed; }

void c_half_remove(void) {
    RLSourceInvalidate(half.source);
    RLRelease(half.source);
    RLTimerInvalidate(half.timer);
    RLRelease(half.timer);
    RLObserverInvalidate(half.observer);
    RLRelease(half.observer);
}
