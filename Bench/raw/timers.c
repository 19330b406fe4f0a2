/* SPDX-License-Identifier: MIT */
/*
 * The operations on live timers: a heap, or a wheel if the third argument is 1, under a mutex. No
 * clock is read: the dates are there.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timed **timers;
static long live, operations;
static bool on_wheel;

static void never(void *info) {
    (void)info;
    bench_require(false, "a timer of the far future fired");
}

static uint64_t far(void) { return (1000000 + (uint64_t)bench_random(3600000)) * 1000000; }

static void add(struct timed *t) {
    pthread_mutex_lock(&lock);
    if (on_wheel)
        wheel_add(t);
    else
        heap_add(t);
    pthread_mutex_unlock(&lock);
}

static void take_out(struct timed *t) {
    pthread_mutex_lock(&lock);
    if (on_wheel)
        wheel_remove(t);
    else
        heap_remove(t);
    pthread_mutex_unlock(&lock);
}

static struct timed *make(void) {
    struct timed *t = malloc(sizeof *t);
    t->due = far();
    t->fire = never;
    t->info = NULL;
    add(t);
    return t;
}

static struct timed *any(void) { return timers[bench_random((uint32_t)live)]; }

static void remove_set_add(long count) {
    while (count-- > 0) {
        struct timed *t = any();
        uint64_t due = far();
        take_out(t);
        t->due = due;
        add(t);
    }
}

static void move(long count) {
    while (count-- > 0) {
        struct timed *t = any();
        uint64_t due = far();
        pthread_mutex_lock(&lock);
        if (on_wheel) {
            wheel_remove(t);
            t->due = due;
            wheel_add(t);
        } else {
            heap_move(t, due);
        }
        pthread_mutex_unlock(&lock);
    }
}

static void make_and_end(long count) {
    while (count-- > 0) {
        struct timed **t = &timers[bench_random((uint32_t)live)];
        take_out(*t);
        free(*t);
        *t = make();
    }
}

static void fill(void) {
    operations = bench_argument(0, 1000);
    live = bench_argument(1, 1000);
    on_wheel = bench_argument(2, 0) != 0;
    timers = bench_allocate((size_t)live * sizeof *timers);
    for (long i = 0; i < live; i++) timers[i] = make();
}

static void measure(void (*work)(long)) {
    work(operations / 10 + 1);
    bench_begin();
    work(operations);
    bench_end((double)operations);
}

static void inside(void (*work)(long)) {
    bench_pin(0);
    fill();
    measure(work);
}

void raw_timer_remove_set_add(void) { inside(remove_set_add); }
void raw_timer_move(void) { inside(move); }
void raw_timer_life(void) { inside(make_and_end); }

/* Another thread made them, and sleeps. */
static pthread_barrier_t ready;

static void *make_them(void *info) {
    (void)info;
    bench_pin(1);
    fill();
    pthread_barrier_wait(&ready);
    pause();
    return NULL;
}

void raw_timer_move_outside(void) {
    pthread_t thread;
    bench_pin(0);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, make_them, NULL);
    pthread_barrier_wait(&ready);
    bench_spin_until(bench_now() + 2e6);
    measure(move);
}
