/* SPDX-License-Identifier: MIT */
/* One source in two running loops: each signal is performed by exactly one of them, whichever is
   woken, and none is lost: S-SRC-30, S-SRC-25, S-WAKE-8. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { producer_count = 4 };

struct producer {
    atomic_ulong value;
    struct answer answer;
    pthread_t thread;
    unsigned index;
};

static struct producer producers[producer_count];
static unsigned active_producers;
static struct stress_loop loops[2];
static RLSourceRef source;
static unsigned long last_value;
static atomic_ulong performed_by[2];

static void report(void) {
    for (unsigned i = 0; i < active_producers; i++)
        fprintf(stderr, "producer %u: published %lu, waits for %lu\n", i, atomic_load(&producers[i].value),
                atomic_load(&producers[i].answer.wanted));
    for (unsigned i = 0; i < 2; i++)
        fprintf(stderr, "loop %u: performed %lu, waiting %d\n", i, atomic_load(&performed_by[i]),
                RLIsWaiting(loops[i].loop));
    fprintf(stderr, "signalled %d\n", RLSourceIsSignalled(source));
}

static void look(void *info) {
    unsigned here = RLGetCurrent() == loops[0].loop ? 0 : 1;
    (void)info;
    MUST(RLGetCurrent() == loops[here].loop);
    atomic_fetch_add(&performed_by[here], 1);
    for (unsigned i = 0; i < active_producers; i++)
        answer_give(&producers[i].answer, atomic_load(&producers[i].value));
}

static void *produce(void *info) {
    struct producer *producer = info;
    uint64_t state = 91 + producer->index;
    unsigned long until_wait = 1;
    for (unsigned long value = 1; value <= last_value; value++) {
        /* A single producer waits for every value, so that performs can be counted exactly. */
        bool wait = active_producers == 1 || --until_wait == 0 || value == last_value;
        if (wait) answer_ask(&producer->answer, value);
        atomic_store(&producer->value, value);
        RLSourceSignal(source);
        uint32_t choice = stress_random(&state) % 3;
        if (choice != 1) RLWakeUp(loops[0].loop);
        if (choice != 0) RLWakeUp(loops[1].loop);
        if (wait) {
            answer_wait(&producer->answer);
            until_wait = 1 + stress_random(&state) % 64;
        }
    }
    return NULL;
}

static void run(unsigned count, unsigned long values, enum stress_sleep first, enum stress_sleep second) {
    last_value = values;
    active_producers = count;
    source = stress_source(0, look, NULL);
    stress_loop_start(&loops[0], first);
    stress_loop_start(&loops[1], second);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < count; i++) {
        producers[i].index = i;
        answer_init(&producers[i].answer);
    }
    RLAddSource(loops[0].loop, source, kRLDefaultMode);
    RLAddSource(loops[1].loop, source, kRLDefaultMode);
    for (unsigned i = 0; i < count; i++) stress_thread_start(&producers[i].thread, produce, &producers[i]);
    for (unsigned i = 0; i < count; i++) stress_thread_join(producers[i].thread);
    for (unsigned i = 0; i < 2; i++) RLStop(loops[i].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&loops[i]);
    for (unsigned i = 0; i < count; i++) answer_destroy(&producers[i].answer);
    RLRelease(source);
    stress_watchdog_stop();
    unsigned long all = atomic_load(&performed_by[0]) + atomic_load(&performed_by[1]);
    if (count == 1) {
        ck_assert_uint_eq(all, last_value);
        /* Both loops had a share, or the test shows nothing about two. */
        ck_assert_uint_gt(atomic_load(&performed_by[0]), 0);
        ck_assert_uint_gt(atomic_load(&performed_by[1]), 0);
    }
    ck_assert_uint_le(all, count * last_value);
}

START_TEST(each_signal_is_performed_once_on_futexes) {
    run(1, stress_count(100000), SLEEP_ON_FUTEX, SLEEP_ON_FUTEX);
}
END_TEST

START_TEST(each_signal_is_performed_once_with_one_loop_in_epoll) {
    run(1, stress_count(50000), SLEEP_IN_EPOLL, SLEEP_ON_FUTEX);
}
END_TEST

START_TEST(four_producers_lose_no_signal) { run(producer_count, stress_count(100000), SLEEP_ON_FUTEX, SLEEP_IN_EPOLL); }
END_TEST

int main(void) {
    Suite *suite = suite_create("signal_two_loops");
    TCase *tests = tcase_create("a_source_in_two_loops");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, each_signal_is_performed_once_on_futexes);
    tcase_add_test(tests, each_signal_is_performed_once_with_one_loop_in_epoll);
    tcase_add_test(tests, four_producers_lose_no_signal);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
