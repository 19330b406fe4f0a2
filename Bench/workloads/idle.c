/* SPDX-License-Identifier: MIT */
/*
 * What waits costs memory, and must cost nothing else.
 *
 * memory_timer, memory_source, memory_descriptor: bytes of resident memory for each of many that wait.
 *     arguments: how many; of descriptors also 1 for the library's other kind of source
 * idle: a loop with a source, a timer and nothing to do; prints how often its thread ran.
 *     arguments: milliseconds; 1 to add a descriptor that never becomes ready
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static void never(void *info) {
    (void)info;
    bench_require(false, "something idle was called");
}

static void add_timer(loop *l, long i) {
    timer_add(l, 10000 + (double)i / 1000, 0, 0, never, NULL);
}
static void add_source(loop *l, long i) { source_add(l, never, (void *)(intptr_t)(i + 1)); }

static void add_descriptor(loop *l, long i) {
    (void)i;
    loop_watch(l, bench_idle_descriptor(), bench_argument(1, 0) == 0);
}

static void measure_memory(void (*add)(loop *, long)) {
    long count = bench_argument(0, 100000);
    loop *own = loop_open(false);
    loop_rebase(own);
    long first = 1000;
    for (long i = 0; i < first; i++) add(own, i);
    double before = bench_resident();
    for (long i = first; i < first + count; i++) add(own, i);
    bench_print((bench_resident() - before) / (double)count);
}

void memory_timer(void) { measure_memory(add_timer); }
void memory_source(void) { measure_memory(add_source); }
void memory_descriptor(void) {
    bench_allow_descriptors(bench_argument(0, 100000) + 2000);
    measure_memory(add_descriptor);
}

static loop *idle_loop;
static source *ending;
static int idle_thread;
static atomic_bool is_ready;

/* The program ends here, so that it makes the same system calls at every length. */
static void end(void *info) {
    (void)info;
    _exit(0);
}

static void *be_idle(void *with_descriptor) {
    idle_thread = gettid();
    idle_loop = loop_open(true);
    ending = source_add(idle_loop, end, NULL);
    loop_rebase(idle_loop);
    timer_add(idle_loop, 10000, 0, 0, never, NULL);
    if (with_descriptor) loop_watch(idle_loop, bench_idle_descriptor(), false);
    atomic_store(&is_ready, true);
    loop_run(idle_loop);
    return NULL;
}

void idle(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, be_idle, (void *)bench_argument(1, 0));
    bench_sleep(300);
    bench_require(atomic_load(&is_ready), "the loop is not running after 0.3 s");
    double before = bench_switches(idle_thread);
    bench_sleep(bench_argument(0, 1000));
    bench_print(bench_switches(idle_thread) - before);
    fflush(stdout);
    source_wake(idle_loop, ending);
    /* One call, not a reading of the clock again and again, each of which may be one. */
    alarm(10);
    pause();
}
