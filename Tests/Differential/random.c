/* SPDX-License-Identifier: MIT */
/* Random scenarios, by seed: the two programs draw the same numbers and must say the same words. They
 * stay away from what the rules let CoreFoundation do otherwise: stale wake-ups and idle passes (only
 * polls, no stop, no ports), batches whose last source is skipped (no invalidation and no nested run in
 * a perform), dates set in a timer's callback, common timers and observers taken out of single modes. */
#define _GNU_SOURCE
#include "scenario.h"

#include <stdio.h>

static uint64_t state;

static unsigned draw(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % below);
}

static void seed(unsigned number) {
    state = 0x9E3779B97F4A7C15u * (number + 1);
    for (int i = 0; i < 20; i++) draw(2);
}

static const char *numbered(const char *kind, unsigned number) {
    char *name;
    return asprintf(&name, "%s%u", kind, number) < 0 ? abort(), NULL : name;
}

/* Membership: nothing runs. Items are added to and removed from modes, the common modes grow, sources
 * are invalidated; after each step the memberships are said. */

enum { ITEMS = 4, MODES = 4 };
static RLMode modes[MODES + 1];
static RLSourceRef sources[ITEMS];
static RLTimerRef timers[ITEMS];
static RLObserverRef observers[ITEMS];
static int schedules[ITEMS], cancels[ITEMS];

static void count_schedule(void *info, RLRunLoopRef rl, RLMode mode) {
    (void)rl;
    (void)mode;
    ++*(int *)info;
}
static void count_cancel(void *info, RLRunLoopRef rl, RLMode mode) {
    (void)rl;
    (void)mode;
    ++cancels[(int *)info - schedules];
}

static RLSourceRef counting_source(unsigned i) {
    RLSourceContext c = {0, &schedules[i], NULL, NULL, NULL, NULL, NULL, count_schedule, count_cancel, NULL};
    return RLSourceCreate(0, &c);
}

static void say_memberships(unsigned i) {
    char s[MODES + 2] = "", t[MODES + 2] = "", o[MODES + 2] = "";
    for (int m = 0; m <= MODES; m++) {
        s[m] = RLContainsSource(loop, sources[i], modes[m]) ? '1' : '0';
        t[m] = RLContainsTimer(loop, timers[i], modes[m]) ? '1' : '0';
        o[m] = RLContainsObserver(loop, observers[i], modes[m]) ? '1' : '0';
    }
    say("s%s+%d-%d t%s o%s", s, schedules[i], cancels[i], t, o);
}

static void membership(unsigned number) {
    seed(number);
    const char *names[] = {D, "a", "b", "c", COMMON};
    memcpy(modes, names, sizeof modes);
    for (unsigned i = 0; i < ITEMS; i++) {
        sources[i] = counting_source(i);
        timers[i] = timer("t", FAR, 0, NULL);
        observers[i] = observer("o", kRLEntry, 0, NULL);
    }
    for (int step = 0; step < 120; step++) {
        unsigned i = draw(ITEMS), kind = draw(20);
        RLMode mode = modes[draw(MODES + 1)];
        bool commonTimer = RLContainsTimer(loop, timers[i], COMMON),
             commonObserver = RLContainsObserver(loop, observers[i], COMMON);
        if (kind < 4) RLAddSource(loop, sources[i], mode);
        else if (kind < 8) RLRemoveSource(loop, sources[i], mode);
        else if (kind < 10) RLAddTimer(loop, timers[i], mode);
        else if (kind < 12 && (mode == COMMON || !commonTimer)) RLRemoveTimer(loop, timers[i], mode);
        else if (kind < 14) RLAddObserver(loop, observers[i], mode);
        else if (kind < 16 && (mode == COMMON || !commonObserver)) RLRemoveObserver(loop, observers[i], mode);
        else if (kind == 17 && mode != COMMON && step > 30) RLAddCommonMode(loop, mode);
        else if (kind == 18) RLSourceInvalidate(sources[i]), sources[i] = counting_source(i);
        else if (kind == 19) RLTimerInvalidate(timers[i]), timers[i] = timer("t", FAR, 0, NULL);
        say_memberships(i);
    }
    say_modes();
}

/* Polls: callbacks do random things, also run the loop again. */

static int budget, depth, timersFiring, sourcesPerforming;

static void random_step(bool outside);

static Act random_act(void) {
    return (Act)_Block_copy((const void *)^{
        depth++;
        for (unsigned n = draw(3); n > 0; n--) random_step(false);
        depth--;
    });
}

static void renew_timer(unsigned i) {
    Act act = random_act();
    timers[i] = timer(numbered("t", i), -1, draw(2) ? 1000 : 0, ^{
        timersFiring++;
        act();
        timersFiring--;
    });
}
static void renew_observer(unsigned i) {
    const RLOptionFlags masks[] = {kRLEntry | kRLExit, kRLBeforeTimers, kRLBeforeSources | kRLEntry,
                                   kRLAllActivities};
    observers[i] = observer_with(numbered("o", i), PLAIN, masks[draw(4)], draw(3) > 0,
                                 (RLIndex)draw(3) - 1, random_act());
}
static void renew_source(unsigned i) {
    Act act = random_act();
    sources[i] = source_with(numbered("s", i), PLAIN, (RLIndex)draw(3) - 1, ^{
        sourcesPerforming++;
        act();
        sourcesPerforming--;
    });
}

static void poll_once(void) {
    if (depth > 3 || sourcesPerforming) return;
    RLMode mode = modes[draw(3)];
    bool h = draw(2);
    take(0.001); /* CoreFoundation's timer descriptor is not ready at once. */
    say("(%s%s", mode_word(mode), h ? " h" : "");
    run(mode, 0, h);
    say(")");
}

static void random_step(bool outside) {
    if (--budget < 0) return;
    unsigned i = draw(ITEMS);
    RLMode mode = modes[draw(3)];
    switch (draw(18)) {
    case 0: case 1: case 2: RLSourceSignal(sources[i]); break;
    case 3: case 4: RLAddSource(loop, sources[i], mode); break;
    case 5: RLRemoveSource(loop, sources[i], mode); break;
    case 6: case 7: RLAddTimer(loop, timers[i], mode); break;
    case 8: RLRemoveTimer(loop, timers[i], mode); break;
    case 9:
        if (!timersFiring) RLTimerSetNextFireDate(timers[i], in(draw(3) ? -1 : FAR));
        break;
    case 10: RLAddObserver(loop, observers[i], mode); break;
    case 11: RLRemoveObserver(loop, observers[i], mode); break;
    case 12: case 13: perform(numbered("b", i), draw(3) ? mode : COMMON, random_act()); break;
    case 14: case 15: poll_once(); break;
    case 16:
        if (draw(2)) RLTimerInvalidate(timers[i]);
        if (!RLTimerIsValid(timers[i])) renew_timer(i);
        break;
    case 17:
        if (draw(2)) RLObserverInvalidate(observers[i]);
        if (!RLObserverIsValid(observers[i])) renew_observer(i);
        if (outside && draw(3) == 0) RLSourceInvalidate(sources[i]), renew_source(i);
        break;
    }
}

static void polls(unsigned number) {
    seed(number);
    const char *names[] = {D, "a", "b", "c", COMMON};
    memcpy(modes, names, sizeof modes);
    if (draw(2)) RLAddCommonMode(loop, "a");
    for (unsigned i = 0; i < ITEMS; i++) {
        renew_source(i);
        renew_timer(i);
        renew_observer(i);
        RLAddSource(loop, sources[i], modes[draw(3)]);
        RLAddTimer(loop, timers[i], modes[draw(3)]);
        RLAddObserver(loop, observers[i], modes[draw(3)]);
    }
    for (int round = 0; round < 40; round++) {
        budget = 40;
        for (unsigned n = draw(5); n > 0; n--) random_step(true);
        poll_once();
    }
}

#define MEMBERSHIP(n)                                                                              \
    SCENARIO(random_membership_##n, "S-MODE-12 S-MODE-14 S-MODE-15 S-MODE-16 S-MODE-17 S-MODE-18", \
             "Random additions and removals: equal memberships after each.") { membership(n); }
#define POLLS(n)                                                                                  \
    SCENARIO(random_polls_##n, "S-RUN-13 S-RUN-14 S-BLK-15 S-SRC-31 S-TMR-23 S-OBS-3 S-NEST-3",   \
             "Random items, callbacks and nested polls: equal traces.") { polls(n); }
#define TEN(M, d) M(d##0) M(d##1) M(d##2) M(d##3) M(d##4) M(d##5) M(d##6) M(d##7) M(d##8) M(d##9)

TEN(MEMBERSHIP, 1)
TEN(MEMBERSHIP, 2)
TEN(POLLS, 1)
TEN(POLLS, 2)
TEN(POLLS, 3)
