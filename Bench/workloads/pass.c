/* SPDX-License-Identifier: MIT */
/*
 * Passes of a loop that is awake because a source signals itself: nanoseconds for a pass.
 *
 * pass: the cheapest thing that runs again in the next pass.
 *     arguments: passes; observers; 1 to add a descriptor that never becomes ready
 * pass_idle_sources: one of many sources, the others of which are never signalled.
 *     arguments: passes; the others
 */
#include "workloads.h"

static loop *own;
static source *self;
static long passes, performed, observed, observers;
static void (*signal_self)(source *);

/* The idle sources have an argument. */
static void perform(void *info) {
    bench_require(info == NULL, "an idle source performed");
    if (++performed < passes)
        signal_self(self);
    else
        loop_stop(own);
}

static void observe(void *info) {
    (void)info;
    observed++;
}

static void measure(void) {
    long asked = passes;
    for (int phase = 0; phase < 2; phase++) {
        passes = phase ? asked : asked / 10 + 1;
        performed = observed = 0;
        signal_self(self);
        bench_begin();
        loop_run(own);
        if (phase) bench_end((double)passes);
        bench_require(performed == passes, "a signal was lost");
        /* Around the first and the last pass an observer may be called once more or less. */
        bench_require(observed >= observers * (passes - 1) && observed <= observers * (passes + 1),
                      "an observer was left out");
    }
}

void pass(void) {
    passes = bench_argument(0, 1000);
    observers = bench_argument(1, 0);
    bench_pin(0);
    own = loop_open(false);
    for (long i = 0; i < observers; i++) loop_observe(own, observe, (void *)(intptr_t)(i + 1));
    if (bench_argument(2, 0)) loop_watch(own, bench_idle_descriptor(), false);
    self = again_add(own, perform, NULL);
    signal_self = again_signal;
    measure();
}

void pass_idle_sources(void) {
    passes = bench_argument(0, 1000);
    bench_pin(0);
    own = loop_open(false);
    long idle = bench_argument(1, 10);
    for (long i = 0; i < idle; i++) {
        if (i == idle / 2) self = source_add(own, perform, NULL);
        source_add(own, perform, (void *)(intptr_t)(i + 1));
    }
    signal_self = source_signal;
    measure();
}
