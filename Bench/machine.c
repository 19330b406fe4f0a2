/* SPDX-License-Identifier: MIT */
/*
 * What the machine charges for the few things of which every row consists, in nanoseconds for each: a clock, a coarse one, the processor's
 * counter, an exchange and a lock that nobody else wants, the cheapest system call, a switch from one thread to another and a read
 * of memory that is in no cache. Each is the least of several measurements.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 7 };

static void read_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
}

static void read_coarse_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
}

static void read_counter(void) {
#if defined(__x86_64__)
    __asm__ volatile("rdtsc" ::: "rax", "rdx");
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
#endif
}

static atomic_int word;
static void exchange(void) { atomic_exchange(&word, 1); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void lock(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void call_system(void) { syscall(SYS_getppid); }

/* Two threads of one processor: each turn is two switches, two waits and two wake-ups. */
static atomic_int turn;

static void wait_for(int mine) {
    int seen;
    while ((seen = atomic_load(&turn)) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void give(int other) {
    atomic_store(&turn, other);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *answer(void *unused) {
    for (;;) {
        wait_for(1);
        give(0);
    }
    return unused;
}

static void switch_twice(void) {
    give(1);
    wait_for(0);
}

/* Lines of 64 MiB in an order that no processor foresees; each read has to wait for the one before. */
enum { LINES = 1 << 20 };
static struct line {
    struct line *next;
    char rest[56];
} *lines, *place;

static void mix_lines(void) {
    lines = bench_allocate(LINES * sizeof *lines);
    for (uint32_t i = 0; i < LINES; i++) lines[i].next = &lines[i];
    for (uint32_t i = LINES - 1; i > 0; i--) {
        uint32_t j = bench_random(i);
        struct line *other = lines[i].next;
        lines[i].next = lines[j].next;
        lines[j].next = other;
    }
    place = lines;
}

static void miss(void) { place = place->next; }

static void charge(void (*operation)(void), long times, double each) {
    double least = 1e18;
    for (int try = 0; try < TRIES; try++) {
        double start = bench_now();
        for (long i = 0; i < times; i++) {
            operation();
            __asm__ volatile("" ::: "memory");
        }
        double spent = (bench_now() - start) / (double)times / each;
        if (spent < least) least = spent;
    }
    bench_print(least);
}

static void measure(void) {
    bench_pin(0);
    charge(read_clock, 100000, 1);
    charge(read_coarse_clock, 100000, 1);
    charge(read_counter, 100000, 1);
    charge(exchange, 100000, 1);
    charge(lock, 100000, 1);
    charge(call_system, 100000, 1);
    pthread_t other;
    bench_require(pthread_create(&other, NULL, answer, NULL) == 0, "no thread");
    charge(switch_twice, 20000, 2);
    mix_lines();
    charge(miss, 200000, 1);
    bench_require(place != NULL, "no memory");
}

const struct workload bench_workloads[] = {{"machine", measure}, {NULL, NULL}};
