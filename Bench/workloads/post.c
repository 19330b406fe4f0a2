/* SPDX-License-Identifier: MIT */
/*
 * Other threads post functions to a running loop: nanoseconds from the first post to the last call,
 * for each function.
 *
 * arguments: functions in all; producers, 1 or 2; where the producers run, the loop's thread being
 * on the first processor: 1 for there, 2 for the other one, 3 for the first producer on the loop's
 * and the second on the other
 */
#include "workloads.h"

#include <pthread.h>

static loop *target;
static long share, expected, called;
static uintptr_t sum;
static int place;
static pthread_barrier_t start;
/* When each producer began; on one core that is long before this thread is told that it may. */
static double begun[2];

static void be_called(void *info) {
    sum += (uintptr_t)info;
    if (++called == expected) loop_stop(target);
}

static void never(void *info) {
    (void)info;
    bench_require(false, "an idle source performed");
}

static void *produce(void *index) {
    long number = (long)(intptr_t)index;
    bench_pin(place == 3 ? (int)number : place - 1);
    for (int phase = 0; phase < 2; phase++) {
        pthread_barrier_wait(&start);
        begun[number] = bench_now();
        long posts = phase ? share : share / 10 + 1;
        for (long i = 1; i <= posts; i++) loop_post(target, be_called, (void *)(uintptr_t)i);
    }
    return NULL;
}

void post(void) {
    pthread_t threads[2];
    long producers = bench_argument(1, 1);
    share = bench_argument(0, 1000) / producers;
    place = (int)bench_argument(2, 2);
    bench_pin(0);
    target = loop_open(true);
    source_add(target, never, NULL);
    pthread_barrier_init(&start, NULL, (unsigned)producers + 1);
    for (long i = 0; i < producers; i++)
        pthread_create(&threads[i], NULL, produce, (void *)(intptr_t)i);
    for (int phase = 0; phase < 2; phase++) {
        long each = phase ? share : share / 10 + 1;
        expected = each * producers;
        called = 0;
        sum = 0;
        pthread_barrier_wait(&start);
        loop_run(target);
        double first = producers == 1 || begun[0] < begun[1] ? begun[0] : begun[1];
        if (phase) bench_print((bench_now() - first) / (double)expected);
        bench_require(called == expected, "a function was lost or called twice");
        bench_require(sum == (uintptr_t)producers * (uintptr_t)each * (uintptr_t)(each + 1) / 2,
                      "a function got another's info");
    }
    for (long i = 0; i < producers; i++) pthread_join(threads[i], NULL);
}
