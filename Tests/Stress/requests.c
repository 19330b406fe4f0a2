/* SPDX-License-Identifier: MIT */
/* Four threads ask loops to perform, some waiting for it, while the loops' threads end: every request
   is performed once or refused, its release runs once, who waits always returns, and each thread's
   requests are performed in the order made: S-PERF-1, S-PERF-2, S-PERF-6, S-PERF-11, S-WAKE-8. */
#include "stress.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { sender_count = 4 };

struct sender {
    pthread_t thread;
    unsigned index;
    unsigned long last; /* loop's thread only, and the sender after a wait */
    atomic_ulong performed, released;
    unsigned long asked, done, refused;
};

static struct sender senders[sender_count];
static struct stress_loop target;
static unsigned long requests;

static void report(void) {
    for (unsigned i = 0; i < sender_count; i++)
        fprintf(stderr, "sender %u: performed %lu, released %lu of %lu\n", i, atomic_load(&senders[i].performed),
                atomic_load(&senders[i].released), requests);
}

static void perform(void *info) {
    struct sender *sender = &senders[(uintptr_t)info % sender_count];
    unsigned long value = (uintptr_t)info / sender_count;
    MUST_BE(value, >, sender->last);
    sender->last = value;
    atomic_fetch_add(&sender->performed, 1);
    stress_progress();
}

static void release(void *info) { atomic_fetch_add(&senders[(uintptr_t)info % sender_count].released, 1); }

static void nothing(void *info) { (void)info; }

static void *ask(void *info) {
    struct sender *sender = info;
    uint64_t state = 21 + sender->index;
    for (unsigned long value = 1; value <= requests; value++) {
        void *request = (void *)(uintptr_t)(value * sender_count + sender->index);
        bool waits = stress_random(&state) % 8 == 0;
        bool common = stress_random(&state) % 4 == 0;
        sender->asked++;
        if (!RLPerformOnLoop(target.loop, common ? kRLCommonModes : kRLDefaultMode, perform, request, release, waits)) {
            sender->refused++;
        } else if (waits) {
            MUST_BE(sender->last, ==, value);
        }
    }
    return NULL;
}

static void start(unsigned long count) {
    requests = count;
    stress_watchdog_start(report);
    for (unsigned i = 0; i < sender_count; i++) {
        senders[i] = (struct sender){.index = i};
        stress_thread_start(&senders[i].thread, ask, &senders[i]);
    }
}

static void performs_all(enum stress_sleep sleep) {
    stress_loop_start(&target, sleep);
    start(stress_count(40000));
    for (unsigned i = 0; i < sender_count; i++) stress_thread_join(senders[i].thread);
    /* Requests are performed in the order queued: when one that is waited for now is done, all are. */
    MUST(RLPerformOnLoop(target.loop, kRLDefaultMode, nothing, NULL, NULL, true));
    RLStop(target.loop);
    stress_loop_join(&target);
    stress_watchdog_stop();
    for (unsigned i = 0; i < sender_count; i++) {
        ck_assert_uint_eq(senders[i].refused, 0);
        ck_assert_uint_eq(atomic_load(&senders[i].performed), requests);
    }
}

START_TEST(a_loop_in_the_futex) { performs_all(SLEEP_ON_FUTEX); }
END_TEST

START_TEST(a_loop_in_epoll) { performs_all(SLEEP_IN_EPOLL); }
END_TEST

/* The thread ends while requests come in. */
START_TEST(threads_that_end) {
    uint64_t state = 5;
    for (unsigned long round = stress_count_at_least(400, 20); round > 0; round--) {
        stress_loop_start(&target, SLEEP_ON_FUTEX);
        RLRunLoopRef loop = (RLRunLoopRef)RLRetain(target.loop);
        start(64);
        for (unsigned i = stress_random(&state) % 64; i > 0; i--) sched_yield();
        RLStop(loop);
        stress_loop_join(&target);
        for (unsigned i = 0; i < sender_count; i++) stress_thread_join(senders[i].thread);
        stress_watchdog_stop();
        for (unsigned i = 0; i < sender_count; i++) {
            ck_assert_uint_eq(atomic_load(&senders[i].released), senders[i].asked);
            ck_assert_uint_le(atomic_load(&senders[i].performed), senders[i].asked - senders[i].refused);
        }
        RLRelease(loop);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("requests");
    TCase *tests = tcase_create("once_in_order_and_nobody_left_waiting");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_loop_in_the_futex);
    tcase_add_test(tests, a_loop_in_epoll);
    tcase_add_test(tests, threads_that_end);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
