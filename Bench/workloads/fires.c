/* SPDX-License-Identifier: MIT */
/*
 * Timers that fire.
 *
 * fire_at_once: many one-shots become due while a callback keeps the loop busy; nanoseconds from
 *     the end of that callback to the last fire, for each. arguments: timers; repetitions
 * fire_spread: one-shots spread over 50 ms; nanoseconds of processor time for each, from the moment
 *     that they are all there. arguments: timers; tolerance in microseconds
 * lateness: a timer that repeats every millisecond; prints the 50th and 99th percentile of how much
 *     later than its grid it was called, in microseconds, and the ticks of the grid for each call,
 *     which is 1 if none is lost. arguments: ticks
 */
#include "workloads.h"

#include <stdlib.h>

static loop *own;
static source *worker;
static timer **timers;
static long size, fired, repetitions;
static double begun, total;

static void fire_one(void *info) {
    (void)info;
    if (++fired < size) return;
    total += bench_now() - begun;
    if (--repetitions > 0)
        source_signal(worker);
    else
        loop_stop(own);
}

static void make_due(void *info) {
    (void)info;
    fired = 0;
    loop_rebase(own);
    double base = bench_now();
    for (long i = 0; i < size; i++)
        timers[i] = timer_add(own, 0.001 + bench_random(4000) / 1e6, 0, 0, fire_one, NULL);
    double now = bench_now();
    bench_spin_until((now > base + 5e6 ? now : base + 5e6) + 9e6);
    begun = bench_now();
}

void fire_at_once(void) {
    size = bench_argument(0, 1000);
    repetitions = bench_argument(1, 1);
    double all = (double)size * (double)repetitions;
    timers = bench_allocate((size_t)size * sizeof *timers);
    bench_pin(0);
    own = loop_open(false);
    worker = source_add(own, make_due, NULL);
    source_signal(worker);
    loop_run(own);
    bench_print(total / all);
    bench_require(fired == size, "a timer did not fire, or fired twice");
}

static void fire_in_turn(void *info) {
    (void)info;
    if (++fired < size) return;
    bench_print((bench_thread_time() - begun) / (double)size);
    loop_stop(own);
}

static void spread(void *tolerance) {
    /* Long enough for all of them to be made. */
    double lead = timers_are_slow ? 0.1 + (double)size * 40e-6 : 0.02 + (double)size * 4e-6;
    loop_rebase(own);
    double base = bench_now();
    for (long i = 0; i < size; i++)
        timers[i] = timer_add(own, lead + bench_random(50000000) / 1e9, 0, *(double *)tolerance,
                              fire_in_turn, NULL);
    bench_require(bench_now() < base + lead * 1e9, "a timer was due before all were made");
    begun = bench_thread_time();
}

void fire_spread(void) {
    size = bench_argument(0, 1000);
    double tolerance = (double)bench_argument(1, 0) / 1e6;
    timers = bench_allocate((size_t)size * sizeof *timers);
    bench_pin(0);
    own = loop_open(false);
    worker = source_add(own, spread, &tolerance);
    source_signal(worker);
    loop_run(own);
    bench_require(fired == size, "a timer did not fire, or fired twice");
}

static double *late;
static double grid_begin;

static void tick(void *info) {
    (void)info;
    double since = (bench_now() - grid_begin) / 1e6;
    double slots = (double)(long)since;
    /* The base was taken just before, so there are never more fires than slots. */
    bench_require((double)fired < since, "a timer fired early");
    late[fired] = (since - slots) * 1000;
    if (++fired < size) return;
    loop_stop(own);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void begin_grid(void *info) {
    (void)info;
    grid_begin = bench_now();
    loop_rebase(own);
    timer_add(own, 0.001, 0.001, 0, tick, NULL);
}

void lateness(void) {
    size = bench_argument(0, 1000);
    late = bench_allocate((size_t)size * sizeof *late);
    bench_pin(0);
    own = loop_open(false);
    worker = source_add(own, begin_grid, NULL);
    source_signal(worker);
    loop_run(own);
    double ticks = (bench_now() - grid_begin) / 1e6;
    qsort(late, (size_t)size, sizeof *late, compare);
    bench_print(late[size / 2]);
    bench_print(late[size * 99 / 100]);
    bench_print(ticks / (double)size);
}
