/* SPDX-License-Identifier: MIT */
/*
 * The frame of the measurements: the clock, pinning, counting, and the output.
 *
 * A program runs one workload and prints its result: one number, or several, in one line. Every
 * time comes from one clock, CLOCK_MONOTONIC, except where the name says that it is processor time.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC, and of the calling thread's processor time. */
double bench_now(void);
double bench_thread_time(void);
/* Confines the calling thread to a processor, 0 or 1. */
void bench_pin(int processor);
/* Ends the program with an error if the condition does not hold. */
void bench_require(bool holds, const char *what);
/* Ends the program, saying that the library has no such thing. */
void bench_absent(void) __attribute__((noreturn));
/* Begins and ends what is measured: nanoseconds for each of so many operations are printed. */
void bench_begin(void);
void bench_end(double operations);
/* Prints one more number. */
void bench_print(double value);
/* Does nothing until so many nanoseconds of the clock. */
void bench_spin_until(double instant);
/* A pseudo-random number below a limit, the same sequence in every program. */
uint32_t bench_random(uint32_t limit);
/* A descriptor that never becomes ready. */
int bench_idle_descriptor(void);
/* Bytes of resident memory; how often a thread has been switched to; a sleep. */
double bench_resident(void);
double bench_switches(int thread);
void bench_sleep(long milliseconds);
/* Lets the process have so many descriptors. */
void bench_allow_descriptors(long count);
/* A block, or the end of the program. */
void *bench_allocate(size_t size);

/* The arguments of a workload, by position; a missing one is the default. */
long bench_argument(int index, long otherwise);

struct workload {
    const char *name;
    void (*run)(void);
};
/* The workloads of this program, ending with a NULL name. */
extern const struct workload bench_workloads[];

#endif
