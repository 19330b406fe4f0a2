/* SPDX-License-Identifier: MIT */
/* Four threads queue a million functions for one loop: those of each thread run in the order
   queued, each runs once and is released once, right after it ran, and the wake-up after a post is
   never spent for nothing: S-BLK-3, S-BLK-5, S-BLK-17, S-BLK-18, S-WAKE-8. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { producer_count = 4 };

struct producer {
    unsigned long performed; /* loop's thread only */
    unsigned long released;  /* loop's thread only: nothing is dropped here */
    struct answer answer;
    pthread_t thread;
    unsigned index;
};

static struct producer producers[producer_count];
static struct stress_loop target;
static unsigned long last_value;
static unsigned finished; /* loop's thread only */
static bool wake_each;

static void report(void) {
    for (unsigned i = 0; i < producer_count; i++)
        fprintf(stderr, "producer %u: performed %lu, released %lu, waits for %lu, of %lu\n", i,
                producers[i].performed, producers[i].released, atomic_load(&producers[i].answer.wanted), last_value);
    fprintf(stderr, "waiting %d\n", RLIsWaiting(target.loop));
}

/* What is queued is a number: the producer in the low bits, its count above. */
static void *post_of(const struct producer *producer, unsigned long value) {
    return (void *)(uintptr_t)(value * producer_count + producer->index);
}

static void perform(void *info) {
    struct producer *producer = &producers[(uintptr_t)info % producer_count];
    unsigned long value = (uintptr_t)info / producer_count;
    MUST_BE(value, ==, producer->performed + 1);
    MUST_BE(producer->released, ==, producer->performed);
    producer->performed = value;
}

static void release(void *info) {
    struct producer *producer = &producers[(uintptr_t)info % producer_count];
    unsigned long value = (uintptr_t)info / producer_count;
    MUST_BE(value, ==, producer->performed);
    MUST_BE(value, ==, producer->released + 1);
    producer->released = value;
    answer_give(&producer->answer, value);
    if (value == last_value && ++finished == producer_count) RLStop(target.loop);
}

static void *produce(void *info) {
    static const RLMode other_and_default[2] = {"other", "kCFRunLoopDefaultMode"};
    struct producer *producer = info;
    uint64_t state = 5 + producer->index;
    unsigned long until_wait = 1;
    for (unsigned long value = 1; value <= last_value; value++) {
        bool wait = --until_wait == 0 && value < last_value;
        void *post = post_of(producer, value);
        if (wait) answer_ask(&producer->answer, value);
        /* All three ways are eligible in the default mode, so they share one order (S-BLK-4). */
        switch (stress_random(&state) % 8) {
        case 0: RLPerformFunction(target.loop, kRLCommonModes, perform, post, release); break;
        case 1: RLPerformFunctionInModes(target.loop, other_and_default, 2, perform, post, release); break;
        default: RLPerformFunction(target.loop, kRLDefaultMode, perform, post, release);
        }
        if (wake_each || until_wait == 0 || value == last_value) RLWakeUp(target.loop);
        if (until_wait == 0) until_wait = 1 + stress_random(&state) % 256;
        if (wait) answer_wait(&producer->answer);
    }
    return NULL;
}

static void run(enum stress_sleep sleep, bool wake, unsigned long values) {
    last_value = values;
    wake_each = wake;
    stress_loop_start(&target, sleep);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < producer_count; i++) {
        producers[i].index = i;
        answer_init(&producers[i].answer);
    }
    for (unsigned i = 0; i < producer_count; i++) stress_thread_start(&producers[i].thread, produce, &producers[i]);
    stress_loop_join(&target);
    stress_watchdog_stop();
    for (unsigned i = 0; i < producer_count; i++) {
        stress_thread_join(producers[i].thread);
        ck_assert_uint_eq(producers[i].performed, last_value);
        ck_assert_uint_eq(producers[i].released, last_value);
        answer_destroy(&producers[i].answer);
    }
}

START_TEST(a_million_posts_each_with_a_wake_up) { run(SLEEP_ON_FUTEX, true, stress_count(250000)); }
END_TEST

START_TEST(posts_with_a_wake_up_after_the_last_of_a_burst) { run(SLEEP_ON_FUTEX, false, stress_count(100000)); }
END_TEST

START_TEST(posts_to_a_loop_in_epoll) { run(SLEEP_IN_EPOLL, true, stress_count(100000)); }
END_TEST

int main(void) {
    Suite *suite = suite_create("perform_functions");
    TCase *tests = tcase_create("none_lost_none_twice_in_order");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_million_posts_each_with_a_wake_up);
    tcase_add_test(tests, posts_with_a_wake_up_after_the_last_of_a_burst);
    tcase_add_test(tests, posts_to_a_loop_in_epoll);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
