/* SPDX-License-Identifier: MIT */
/* What a block of its own costs for each timer and source, and a futex that nobody wakes. */
#define _GNU_SOURCE
#include "raw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

static void add_timer(long i) {
    struct timed *t = bench_allocate(sizeof *t);
    t->due = (uint64_t)i;
    heap_add(t);
}

/* A source: a flag, its place in the list of signalled ones, a function and its argument. */
static void add_source(long i) {
    void **s = bench_allocate(4 * sizeof *s);
    s[3] = (void *)i;
}

/* A descriptor: its number, a function and its argument, in the block that the kernel's event leads to. */
static void add_descriptor(long i) {
    static int epoll = -1;
    if (epoll < 0) epoll = epoll_create1(EPOLL_CLOEXEC);
    void **receiver = bench_allocate(3 * sizeof *receiver);
    receiver[2] = (void *)i;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = receiver};
    bench_require(epoll_ctl(epoll, EPOLL_CTL_ADD, bench_idle_descriptor(), &event) == 0, "epoll_ctl");
}

static void measure(void (*add)(long)) {
    long count = bench_argument(0, 100000), first = 1000;
    for (long i = 0; i < first; i++) add(i);
    double before = bench_resident();
    for (long i = first; i < first + count; i++) add(i);
    bench_print((bench_resident() - before) / (double)count);
}

void raw_memory_timer(void) { measure(add_timer); }
void raw_memory_source(void) { measure(add_source); }
void raw_memory_descriptor(void) {
    bench_allow_descriptors(bench_argument(0, 100000) + 2000);
    measure(add_descriptor);
}

static atomic_int word;
static int idle_thread;
static atomic_bool is_ready;

static void *be_idle(void *info) {
    (void)info;
    idle_thread = gettid();
    atomic_store(&is_ready, true);
    word_wait(&word);
    _exit(0);
}

void raw_idle(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, be_idle, NULL);
    bench_sleep(300);
    bench_require(atomic_load(&is_ready), "the thread is not running after 0.3 s");
    double before = bench_switches(idle_thread);
    bench_sleep(bench_argument(0, 1000));
    bench_print(bench_switches(idle_thread) - before);
    fflush(stdout);
    word_signal(&word);
    bench_spin_until(bench_now() + 10e9);
}
