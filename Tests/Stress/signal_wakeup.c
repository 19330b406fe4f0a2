/* SPDX-License-Identifier: MIT */
/* Eight threads signal and wake one loop as fast as they can. Each of them stops now and then to
   wait until its last value was seen, so every one of those moments proves that the pair of calls
   before it was not lost, whatever the loop was doing: S-WAKE-8, S-SRC-25, S-SRC-26, S-WAKE-2. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { producer_count = 8 };

struct producer {
    atomic_ulong value;
    unsigned long seen; /* loop's thread only */
    struct answer answer;
    RLSourceRef source;
    pthread_t thread;
    unsigned index;
};

static struct producer producers[producer_count];
static struct stress_loop target;
static unsigned long last_value;
static unsigned finished; /* loop's thread only: producers whose last value was seen */
static atomic_ulong performs;

static void report(void) {
    for (unsigned i = 0; i < producer_count; i++)
        fprintf(stderr, "producer %u: published %lu, seen %lu, of %lu\n", i, atomic_load(&producers[i].value),
                producers[i].seen, last_value);
    fprintf(stderr, "performs %lu, waiting %d, signalled %d\n", atomic_load(&performs), RLIsWaiting(target.loop),
            RLSourceIsSignalled(producers[0].source));
}

static void look_at(struct producer *producer) {
    unsigned long value = atomic_load(&producer->value);
    MUST_BE(value, >=, producer->seen);
    if (value != producer->seen && value == last_value) finished++;
    producer->seen = value;
    answer_give(&producer->answer, value);
}

static void look_at_one(void *info) {
    atomic_fetch_add_explicit(&performs, 1, memory_order_relaxed);
    look_at(info);
    if (finished == producer_count) RLStop(target.loop);
}

static void look_at_all(void *info) {
    (void)info;
    atomic_fetch_add_explicit(&performs, 1, memory_order_relaxed);
    for (unsigned i = 0; i < producer_count; i++) look_at(&producers[i]);
    if (finished == producer_count) RLStop(target.loop);
}

static void *produce(void *info) {
    struct producer *producer = info;
    uint64_t state = 17 + producer->index;
    unsigned long until_wait = 1;
    for (unsigned long value = 1; value <= last_value; value++) {
        /* The last value is not waited for: the loop's end says that it was seen. */
        bool wait = --until_wait == 0 && value < last_value;
        if (wait) answer_ask(&producer->answer, value);
        atomic_store(&producer->value, value);
        RLSourceSignal(producer->source);
        RLWakeUp(target.loop);
        if (until_wait == 0) until_wait = 1 + stress_random(&state) % 128;
        if (wait) answer_wait(&producer->answer);
    }
    return NULL;
}

static void run(enum stress_sleep sleep, bool one_source) {
    RLSourceRef shared = one_source ? stress_source(0, look_at_all, NULL) : NULL;
    last_value = stress_count(200000);
    stress_loop_start(&target, sleep);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < producer_count; i++) {
        struct producer *producer = &producers[i];
        producer->index = i;
        answer_init(&producer->answer);
        producer->source = one_source ? shared : stress_source((RLIndex)i % 3, look_at_one, producer);
        RLAddSource(target.loop, producer->source, kRLDefaultMode);
    }
    for (unsigned i = 0; i < producer_count; i++) stress_thread_start(&producers[i].thread, produce, &producers[i]);
    stress_loop_join(&target);
    for (unsigned i = 0; i < producer_count; i++) {
        stress_thread_join(producers[i].thread);
        ck_assert_uint_eq(producers[i].seen, last_value);
        answer_destroy(&producers[i].answer);
        if (!one_source) RLRelease(producers[i].source);
    }
    if (one_source) RLRelease(shared);
    stress_watchdog_stop();
    /* No perform without a signal (S-SRC-25). */
    ck_assert_uint_le(atomic_load(&performs), producer_count * last_value);
    printf("%lu signals\n", producer_count * last_value);
    fflush(stdout);
}

START_TEST(one_source_for_all_producers_on_a_futex) { run(SLEEP_ON_FUTEX, true); }
END_TEST

START_TEST(a_source_each_on_a_futex) { run(SLEEP_ON_FUTEX, false); }
END_TEST

START_TEST(one_source_for_all_producers_in_epoll) { run(SLEEP_IN_EPOLL, true); }
END_TEST

START_TEST(a_source_each_in_epoll) { run(SLEEP_IN_EPOLL, false); }
END_TEST

START_TEST(one_source_for_all_producers_spinning) { run(SLEEP_SPINNING, true); }
END_TEST

static void add(Suite *suite, const char *sleep, const TTest *one, const TTest *other) {
    /* CK_RUN_CASE in the environment names one to be run alone. */
    TCase *tests = tcase_create(sleep);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, one);
    if (other) tcase_add_test(tests, other);
    suite_add_tcase(suite, tests);
}

int main(void) {
    Suite *suite = suite_create("signal_wakeup");
    SRunner *runner = srunner_create(suite);
    add(suite, "on_a_futex", one_source_for_all_producers_on_a_futex, a_source_each_on_a_futex);
    add(suite, "in_epoll", one_source_for_all_producers_in_epoll, a_source_each_in_epoll);
    add(suite, "spinning", one_source_for_all_producers_spinning, NULL);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
