/* SPDX-License-Identifier: MIT */
/* Two loops hand a ball to each other by signal and wake-up. The ball is a plain variable: what one
   side wrote before RLSourceSignal, the other's perform must see (S-WAKE-8), which the thread
   sanitizer checks too. On one core every hand-over is a sleep and a wake-up. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct stress_loop sides[2];
static RLSourceRef sources[2];
static unsigned long ball; /* the side that was signalled last owns it */
static unsigned long last_hit;
static atomic_ulong hits; /* what the watchdog may look at */

static void report(void) {
    fprintf(stderr, "hits %lu of %lu\n", atomic_load(&hits), last_hit);
    for (unsigned i = 0; i < 2; i++)
        fprintf(stderr, "side %u: waiting %d, signalled %d\n", i, RLIsWaiting(sides[i].loop),
                RLSourceIsSignalled(sources[i]));
}

static void hit(void *info) {
    unsigned other = 1 - (unsigned)(uintptr_t)info;
    /* One perform for one signal: the sides take turns. */
    MUST_BE(ball % 2, ==, (unsigned)(uintptr_t)info);
    ball++;
    atomic_store_explicit(&hits, ball, memory_order_relaxed);
    stress_progress();
    if (ball == last_hit) {
        RLStop(sides[0].loop);
        RLStop(sides[1].loop);
        return;
    }
    RLSourceSignal(sources[other]);
    RLWakeUp(sides[other].loop);
}

static void play(unsigned long round_trips, enum stress_sleep sleep) {
    last_hit = 2 * round_trips;
    for (unsigned i = 0; i < 2; i++) stress_loop_start(&sides[i], sleep);
    for (unsigned i = 0; i < 2; i++) sources[i] = stress_source(0, hit, (void *)(uintptr_t)i);
    for (unsigned i = 0; i < 2; i++) RLAddSource(sides[i].loop, sources[i], kRLDefaultMode);
    stress_watchdog_start(report);
    RLSourceSignal(sources[0]);
    RLWakeUp(sides[0].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&sides[i]);
    stress_watchdog_stop();
    ck_assert_uint_eq(ball, last_hit);
    for (unsigned i = 0; i < 2; i++) RLRelease(sources[i]);
}

START_TEST(a_million_round_trips_on_one_core) {
    unsigned long round_trips = stress_count(1000000);
    /* Unpinned a round trip costs several times as much. */
    if (!stress_pin_to_one_core()) round_trips /= 10;
    play(round_trips, SLEEP_ON_FUTEX);
}
END_TEST

START_TEST(round_trips_between_cores) { play(stress_count(100000), SLEEP_ON_FUTEX); }
END_TEST

START_TEST(round_trips_in_epoll) {
    stress_pin_to_one_core();
    play(stress_count(200000), SLEEP_IN_EPOLL);
}
END_TEST

START_TEST(round_trips_in_epoll_between_cores) { play(stress_count(100000), SLEEP_IN_EPOLL); }
END_TEST

int main(void) {
    Suite *suite = suite_create("ping_pong");
    TCase *tests = tcase_create("two_loops");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_million_round_trips_on_one_core);
    tcase_add_test(tests, round_trips_between_cores);
    tcase_add_test(tests, round_trips_in_epoll);
    tcase_add_test(tests, round_trips_in_epoll_between_cores);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
