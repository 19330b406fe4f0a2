/* SPDX-License-Identifier: MIT */
/* A virtual clock for the library. This program defines clock_gettime, epoll_pwait2 and syscall
   itself, so on threads that have joined it the library reads the virtual time, and a timed wait
   moves that time to its deadline at once and returns. Other threads, and everything before the
   join, get the real calls. */
#ifndef MODEL_CLOCK_H
#define MODEL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The wall clock at the start of a sequence, in seconds since the reference date: small, so that
   dates are exact. */
#define CLOCK_WALL_START 1024.0

/* Puts the calling thread on the virtual clock. */
void clock_join(void);

/* Starts a sequence: the clock is at 0 and no wait was counted. */
void clock_reset(void);

/* Nanoseconds since the sequence began. */
int64_t clock_now(void);

void clock_advance(int64_t nanoseconds);

/* Called for a wait that nothing in the process ends by itself. It moves *now to the deadline
   (TIME_NEVER: there is none) and returns true, or lets something happen earlier and returns false.
   */
extern bool (*clock_block)(int64_t *now, int64_t deadline);

/* Called when the library waits again and again and no callback ever runs. Does not return. */
extern void (*clock_stuck)(void);

/* A callback ran: the library is not stuck. */
void clock_progress(void);

#endif
