/* SPDX-License-Identifier: MIT */
/* The paths of the guard and what they share; see guard.c. */
#ifndef RUNLOOP_BENCH_GUARD_H
#define RUNLOOP_BENCH_GUARD_H

#include <runloop/runloop.h>
#include <stdbool.h>

struct path {
    const char *name;
    void (*run)(void);
};

/* Those of timers, ended by one without a name. */
extern const struct path timer_paths[];

/* How many operations there are to be, and how many there were. */
extern long times, done;
extern RLRunLoopRef own;
/* When the program began. */
extern RLAbsoluteTime base;

void require(bool holds, const char *what);
/* Runs a function as the perform of a source; most paths are taken in a callout. */
void run_in_callout(void (*perform)(void *));

#endif
