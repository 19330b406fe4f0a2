/* SPDX-License-Identifier: MIT */
/*
 * Operations on one of many timers that wait for hours, drawn at random: nanoseconds for each.
 * All happen inside one callback, where a library may use the time that it read before, except for
 * timer_move_outside, where another thread makes them while the loop waits.
 *
 * arguments: operations; live timers
 */
#include "workloads.h"

#include <pthread.h>
#include <stdlib.h>

static loop *own;
static timer **timers;
static long live, operations;
static pthread_barrier_t ready;

static void never(void *info) {
    (void)info;
    bench_require(false, "a timer of the far future fired");
}

/* Seconds, to the millisecond, because that is all that some libraries can tell. */
static double far(void) { return 1000 + bench_random(3600000) / 1000.0; }

static void fill(void) {
    timers = bench_allocate((size_t)live * sizeof *timers);
    loop_rebase(own);
    for (long i = 0; i < live; i++) {
        double delay = far();
        if (timers_are_slow && live > 10000) delay = 1000 + (double)i * 3600 / (double)live;
        timers[i] = timer_add(own, delay, 0, 0, never, NULL);
    }
}

static timer *any(void) { return timers[bench_random((uint32_t)live)]; }

static void remove_set_add(long count) {
    while (count-- > 0) timer_remove_set_add(any(), far());
}

static void move(long count) {
    while (count-- > 0) timer_move(any(), far());
}

static void move_from_outside(long count) {
    while (count-- > 0) timer_move_from_outside(any(), far());
}

/* A new timer takes the place of another. */
static void make_and_end(long count) {
    while (count-- > 0) {
        timer **t = &timers[bench_random((uint32_t)live)];
        timer_end(*t);
        *t = timer_add(own, far(), 0, 0, never, NULL);
    }
}

/* A tenth of the operations first, to have touched what they touch. */
static void measure(void (*work)(long)) {
    work(operations / 10 + 1);
    bench_begin();
    work(operations);
    bench_end((double)operations);
}

static void work_inside(void *work) {
    measure((void (*)(long))(uintptr_t)work);
    loop_stop(own);
}

static void inside(void (*work)(long)) {
    operations = bench_argument(0, 1000);
    live = bench_argument(1, 1000);
    bench_pin(0);
    own = loop_open(false);
    source *worker = source_add(own, work_inside, (void *)(uintptr_t)work);
    fill();
    source_signal(worker);
    loop_run(own);
}

void timer_remove_set_add_inside(void) { inside(remove_set_add); }
void timer_move_inside(void) { inside(move); }
void timer_life(void) { inside(make_and_end); }

static void tell_ready(void *info) {
    (void)info;
    pthread_barrier_wait(&ready);
}

static void *run_the_loop(void *info) {
    (void)info;
    bench_pin(1);
    own = loop_open(true);
    source *worker = source_add(own, tell_ready, NULL);
    fill();
    source_signal(worker);
    loop_run(own);
    return NULL;
}

void timer_move_outside(void) {
    pthread_t thread;
    operations = bench_argument(0, 1000);
    live = bench_argument(1, 1000);
    bench_pin(0);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, run_the_loop, NULL);
    pthread_barrier_wait(&ready);
    /* The loop falls asleep. */
    bench_spin_until(bench_now() + 2e6);
    measure(move_from_outside);
}
