/* SPDX-License-Identifier: MIT */
/*
 * Two threads and two futexes; with a descriptor, two eventfds that are never read; or two words
 * that are watched.
 */
#define _GNU_SOURCE
#include "raw.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static struct side {
    _Alignas(128) atomic_int word;
    int epoll, event;
    long count;
} sides[2];
static long rounds;
static bool with_descriptor, spins;
static pthread_barrier_t ready;

static void open_side(struct side *own) {
    if (!with_descriptor) return;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    own->epoll = epoll_create1(EPOLL_CLOEXEC);
    own->event = bench_idle_descriptor();
    epoll_ctl(own->epoll, EPOLL_CTL_ADD, own->event, &event);
    event.events = EPOLLIN;
    epoll_ctl(own->epoll, EPOLL_CTL_ADD, bench_idle_descriptor(), &event);
}

static void signal_side(struct side *other) {
    if (with_descriptor) {
        uint64_t one = 1;
        bench_require(write(other->event, &one, sizeof one) == sizeof one, "no wake-up");
    } else if (spins) {
        atomic_store_explicit(&other->word, WORD_SIGNALLED, memory_order_release);
    } else {
        word_signal(&other->word);
    }
}

static void wait_side(struct side *own) {
    if (with_descriptor) {
        struct epoll_event event;
        while (epoll_wait(own->epoll, &event, 1, -1) != 1) {}
    } else if (spins) {
        while (atomic_load_explicit(&own->word, memory_order_acquire) != WORD_SIGNALLED)
            SPIN_HINT();
        atomic_store_explicit(&own->word, WORD_IDLE, memory_order_relaxed);
    } else {
        word_wait(&own->word);
    }
}

static void *be_the_second_side(void *processor) {
    bench_pin((int)(intptr_t)processor);
    open_side(&sides[1]);
    pthread_barrier_wait(&ready);
    while (sides[1].count < rounds) {
        wait_side(&sides[1]);
        sides[1].count++;
        signal_side(&sides[0]);
    }
    return NULL;
}

void raw_ping_pong(void) {
    pthread_t thread;
    rounds = bench_argument(0, 1000);
    with_descriptor = bench_argument(2, 0) != 0;
    spins = bench_argument(3, 0) != 0;
    bench_pin(0);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, be_the_second_side, (void *)(intptr_t)(bench_argument(1, 1) - 1));
    open_side(&sides[0]);
    pthread_barrier_wait(&ready);
    bench_begin();
    while (sides[0].count < rounds) {
        signal_side(&sides[1]);
        wait_side(&sides[0]);
        sides[0].count++;
    }
    bench_end((double)rounds);
    pthread_join(thread, NULL);
    bench_require(sides[1].count == rounds, "a wake-up was lost");
}
