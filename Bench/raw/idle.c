/* What a block of its own costs for each timer and source, and a futex that nobody wakes. */
#define _GNU_SOURCE
#include "raw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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

static void measure(void (*add)(long)) {
    long count = bench_argument(0, 100000), first = 1000;
    for (long i = 0; i < first; i++) add(i);
    double before = bench_resident();
    for (long i = first; i < first + count; i++) add(i);
    bench_print((bench_resident() - before) / (double)count);
}

void raw_memory_timer(void) { measure(add_timer); }
void raw_memory_source(void) { measure(add_source); }

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
