/* SPDX-License-Identifier: MIT */
/*
 * Watches a loop at work: an observer on all activities and a timer that repeats every 0.1 s, in a loop
 * that is run ten times for a second. The activities of the first runs' first turns are printed.
 *
 * usage: observer [SCALE]    0.1 makes everything ten times shorter
 */
#include <runloop/runloop.h>

#include <stdio.h>
#include <stdlib.h>

struct watch {
    int entries, exits, waits, fires;
    int lines; /* how many turns were printed */
};

static const char *name_of(RLActivity activity) {
    switch (activity) {
    case kRLEntry: return "Entry";
    case kRLBeforeTimers: return "BeforeTimers";
    case kRLBeforeSources: return "BeforeSources";
    case kRLBeforeWaiting: return "BeforeWaiting";
    case kRLAfterWaiting: return "AfterWaiting";
    case kRLExit: return "Exit";
    default: return "?"; /* a later version may have more */
    }
}

/* An observer gets one activity per call, on the loop's thread. */
static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    struct watch *watch = info;
    watch->entries += activity == kRLEntry;
    watch->exits += activity == kRLExit;
    watch->waits += activity == kRLBeforeWaiting;
    if (watch->lines < 3) {
        printf("%s%s", name_of(activity), activity == kRLExit ? "\n" : " ");
        watch->lines += activity == kRLExit;
    }
}

static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    struct watch *watch = info;
    ++watch->fires;
    if (watch->lines < 3) {
        printf("timer\n");
        ++watch->lines;
    }
}

int main(int argc, char **argv) {
    double scale = argc > 1 ? atof(argv[1]) : 1;
    struct watch watch = {0};
    RLRunLoopRef loop = RLGetCurrent();

    RLObserverContext observer_context = {.info = &watch};
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, observe, &observer_context);
    RLAddObserver(loop, observer, kRLDefaultMode);

    /* An observer does not keep a loop running; the timer does. */
    RLTimerContext timer_context = {.info = &watch};
    RLTimerRef timer =
        RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.1 * scale, 0.1 * scale, 0, 0, fire, &timer_context);
    RLAddTimer(loop, timer, kRLDefaultMode);

    int runs = 0;
    while (runs < 10 && RLRunInMode(kRLDefaultMode, 1.0 * scale, false) == kRLRunTimedOut) ++runs;

    printf("%d runs: %d entries, %d exits, %s timer fires, %s waits\n", runs, watch.entries, watch.exits,
           watch.fires >= runs ? "enough" : "few", watch.waits >= watch.fires ? "enough" : "few");

    RLTimerInvalidate(timer);
    RLRelease(timer);
    RLObserverInvalidate(observer);
    RLRelease(observer);
    return runs == 10 && watch.fires > 0 ? 0 : 1;
}
