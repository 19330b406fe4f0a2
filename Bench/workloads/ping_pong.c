/* SPDX-License-Identifier: MIT */
/*
 * Two threads signal and wake each other in turns: nanoseconds for a round trip.
 *
 * arguments: round trips; 1 for both threads on one processor, 2 for one each; 1 to add a
 * descriptor that never becomes ready to each loop; microseconds to watch for wake-ups before
 * sleeping
 */
#include "workloads.h"

#include <pthread.h>

static struct side {
    loop *loop;
    source *source;
    long count;
} sides[2];
static long rounds;
static bool with_descriptor;
static double spin;
static pthread_barrier_t ready;

static void be_called(void *info) {
    struct side *own = info;
    bool first = own == &sides[0];
    bool last = ++own->count == rounds;
    if (!(first && last)) source_wake(sides[first].loop, sides[first].source);
    if (last) loop_stop(own->loop);
}

static void open_side(struct side *own) {
    own->loop = loop_open(true);
    own->source = source_add(own->loop, be_called, own);
    if (with_descriptor) loop_watch(own->loop, bench_idle_descriptor(), false);
    if (spin > 0) loop_spin(own->loop, spin);
}

static void *be_the_second_side(void *processor) {
    bench_pin((int)(intptr_t)processor);
    open_side(&sides[1]);
    pthread_barrier_wait(&ready);
    loop_run(sides[1].loop);
    return NULL;
}

void ping_pong(void) {
    pthread_t thread;
    rounds = bench_argument(0, 1000);
    with_descriptor = bench_argument(2, 0) != 0;
    spin = (double)bench_argument(3, 0) / 1e6;
    bench_pin(0);
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, be_the_second_side, (void *)(intptr_t)(bench_argument(1, 1) - 1));
    open_side(&sides[0]);
    pthread_barrier_wait(&ready);
    bench_begin();
    source_wake(sides[1].loop, sides[1].source);
    loop_run(sides[0].loop);
    bench_end((double)rounds);
    pthread_join(thread, NULL);
    bench_require(sides[0].count == rounds && sides[1].count == rounds, "a wake-up was lost");
}
