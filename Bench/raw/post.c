/* SPDX-License-Identifier: MIT */
/*
 * A ring that producers claim places of by adding to one counter; each place tells by a number of
 * its own whether it is filled, and for which lap. The consumer sleeps on a futex when there is
 * nothing; a membarrier just before it does spares the producers a fence for each post. A full ring
 * makes the producers wait, which a library's queue must not do: this is the limit.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>

enum { PLACES = 8192 };

static struct place {
    atomic_ulong turn;
    function call;
    void *info;
} ring[PLACES];
static _Alignas(128) atomic_ulong claimed;
static _Alignas(128) atomic_int word;

static long share, expected, called;
static int site;
static uintptr_t sum;
static pthread_barrier_t start;
/* When each producer began; on one core that is long before this thread is told that it may. */
static double begun[2];

static void put(function call, void *info) {
    unsigned long ticket = atomic_fetch_add(&claimed, 1);
    struct place *place = &ring[ticket % PLACES];
    while (atomic_load_explicit(&place->turn, memory_order_acquire) != ticket / PLACES * 2)
        sched_yield();
    place->call = call;
    place->info = info;
    atomic_store_explicit(&place->turn, ticket / PLACES * 2 + 1, memory_order_release);
    /* The compiler keeps the order; the consumer's membarrier makes the processor keep it. */
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&word, memory_order_relaxed) == WORD_ASLEEP) word_signal(&word);
}

static void be_called(void *info) {
    sum += (uintptr_t)info;
    called++;
}

static void consume(unsigned long *next) {
    while (called < expected) {
        struct place *place = &ring[*next % PLACES];
        unsigned long filled = *next / PLACES * 2 + 1;
        if (atomic_load_explicit(&place->turn, memory_order_acquire) == filled) {
            function call = place->call;
            void *info = place->info;
            atomic_store_explicit(&place->turn, filled + 1, memory_order_release);
            ++*next;
            call(info);
            continue;
        }
        atomic_store(&word, WORD_ASLEEP);
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        if (atomic_load(&place->turn) != filled) futex_wait(&word, WORD_ASLEEP, 0);
        atomic_store(&word, WORD_IDLE);
    }
}

static void *produce(void *index) {
    long number = (long)(intptr_t)index;
    bench_pin(site == 3 ? (int)number : site - 1);
    for (int phase = 0; phase < 2; phase++) {
        pthread_barrier_wait(&start);
        begun[number] = bench_now();
        long posts = phase ? share : share / 10 + 1;
        for (long i = 1; i <= posts; i++) put(be_called, (void *)(uintptr_t)i);
    }
    return NULL;
}

void raw_post(void) {
    pthread_t threads[2];
    unsigned long next = 0;
    long producers = bench_argument(1, 1);
    share = bench_argument(0, 1000) / producers;
    site = (int)bench_argument(2, 2);
    bench_pin(0);
    bench_require(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0,
                  "no membarrier");
    pthread_barrier_init(&start, NULL, (unsigned)producers + 1);
    for (long i = 0; i < producers; i++)
        pthread_create(&threads[i], NULL, produce, (void *)(intptr_t)i);
    for (int phase = 0; phase < 2; phase++) {
        long each = phase ? share : share / 10 + 1;
        expected = each * producers;
        called = 0;
        sum = 0;
        pthread_barrier_wait(&start);
        consume(&next);
        double first = producers == 1 || begun[0] < begun[1] ? begun[0] : begun[1];
        if (phase) bench_print((bench_now() - first) / (double)expected);
        bench_require(sum == (uintptr_t)producers * (uintptr_t)each * (uintptr_t)(each + 1) / 2,
                      "a function was lost");
    }
    for (long i = 0; i < producers; i++) pthread_join(threads[i], NULL);
}
