/* SPDX-License-Identifier: MIT */
/*
 * A clock the test moves, for programs that link virtual_clock.c: the library's clock_gettime and
 * its two ways to sleep are replaced. Before virtual_clock_start everything is the system's.
 *
 * After it, both clocks stand still until the test moves them or the library sleeps: a sleep until
 * a time moves the clocks to that time and returns at once. So a run of an hour takes no time, and
 * a test sees exactly until when the loop wanted to sleep. For one thread only.
 */
#ifndef RUNLOOP_TESTS_VIRTUAL_CLOCK_H
#define RUNLOOP_TESTS_VIRTUAL_CLOCK_H

#include <stdint.h>

void virtual_clock_start(void);
/* Gives the system its clocks back; Check takes the time of a case when it ends. */
void virtual_clock_stop(void);
/* Moves both clocks, as time passing does. */
void virtual_clock_advance(double seconds);
/* Moves the wall clock alone, as the administrator does. */
void virtual_clock_set_wall(double seconds);
/* Nanoseconds of the monotonic clock since virtual_clock_start. */
int64_t virtual_clock_elapsed(void);
/* How often the library slept until a time since virtual_clock_start. */
int virtual_clock_sleeps(void);
/* How often the library asked for the time since virtual_clock_start. */
long virtual_clock_reads(void);

#endif
