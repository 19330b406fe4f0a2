/* SPDX-License-Identifier: MIT */
/*
 * Timers that fire: a heap under a mutex, which is free during the calls, and a futex to sleep
 * on.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int word;
static struct timed *timers;
static long size, fired;

static void fire_one(void *info) {
    (void)info;
    fired++;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void add(struct timed *t, uint64_t due) {
    t->due = due;
    t->fire = fire_one;
    pthread_mutex_lock(&lock);
    heap_add(t);
    pthread_mutex_unlock(&lock);
}

/* Fires what is due; returns when the next one is, or 0. */
static uint64_t fire_due(uint64_t time) {
    for (;;) {
        pthread_mutex_lock(&lock);
        struct timed *t = heap_first();
        uint64_t due = t ? t->due : 0;
        bool is_due = t && due <= time;
        if (is_due) heap_remove(t);
        pthread_mutex_unlock(&lock);
        if (!is_due) return due;
        t->fire(t->info);
    }
}

void raw_fire_at_once(void) {
    size = bench_argument(0, 1000);
    long repetitions = bench_argument(1, 1);
    double total = 0;
    timers = bench_allocate((size_t)size * sizeof *timers);
    bench_pin(0);
    for (long r = 0; r < repetitions; r++) {
        fired = 0;
        uint64_t base = now();
        for (long i = 0; i < size; i++) add(&timers[i], base + 1000000 + bench_random(4000) * 1000);
        double made = bench_now();
        bench_spin_until((made > (double)base + 5e6 ? made : (double)base + 5e6) + 9e6);
        double begun = bench_now();
        fire_due(now());
        total += bench_now() - begun;
        bench_require(fired == size, "a timer did not fire");
    }
    bench_print(total / (double)size / (double)repetitions);
}

void raw_fire_spread(void) {
    size = bench_argument(0, 1000);
    uint64_t tolerance = (uint64_t)bench_argument(1, 0) * 1000;
    timers = bench_allocate((size_t)size * sizeof *timers);
    bench_pin(0);
    uint64_t base = now() + 20000000 + (uint64_t)size * 4000;
    for (long i = 0; i < size; i++) add(&timers[i], base + bench_random(50000000));
    double begun = bench_thread_time();
    uint64_t next;
    while ((next = fire_due(now())) != 0) futex_wait(&word, 0, next + tolerance);
    bench_print((bench_thread_time() - begun) / (double)size);
    bench_require(fired == size, "a timer did not fire");
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A program of its own may ask the kernel for exact wake-ups. */
void raw_lateness(void) {
    size = bench_argument(0, 1000);
    double *late = bench_allocate((size_t)size * sizeof *late);
    bench_pin(0);
    prctl(PR_SET_TIMERSLACK, 1);
    uint64_t base = now(), slot = 1;
    for (long i = 0; i < size; i++) {
        uint64_t due = base + slot * 1000000, time;
        do {
            futex_wait(&word, 0, due);
            time = now();
        } while (time < due);
        late[i] = (double)((time - base) % 1000000) / 1000;
        slot = (time - base) / 1000000 + 1;
    }
    double ticks = (double)(now() - base) / 1e6;
    qsort(late, (size_t)size, sizeof *late, compare);
    bench_print(late[size / 2]);
    bench_print(late[size * 99 / 100]);
    bench_print(ticks / (double)size);
}
