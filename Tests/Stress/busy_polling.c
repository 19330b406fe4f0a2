/* SPDX-License-Identifier: MIT */
/* While posts come faster than the loop makes passes it polls busily, and wake-ups write nothing.
   Whatever else other threads tell the loop meanwhile must reach it all the same, and so must the
   last post of each burst, after which it sleeps: S-WAKE-8, S-WAKE-1, S-WAKE-14, S-STOP-8,
   S-BLK-3. */
#include "stress.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static struct stress_loop target;
static unsigned long bursts;

/* The one who posts in bursts. */
static struct answer burst_end;
static unsigned long posted, performed; /* the producer's, the loop's thread's */

/* The others, each of which tells the loop something, waits until it knows, and begins again. */
enum { signals, moves, plain_stores, requests, teller_count };
static struct answer told[teller_count];
static unsigned long rounds[teller_count];
static atomic_ulong seen_rounds[teller_count]; /* the loop's thread writes them */
static atomic_bool over;
static RLSourceRef source;
static RLTimerRef timer;
static atomic_ulong stored;

static void report(void) {
    fprintf(stderr, "performed %lu of %lu posts\n", performed, posted);
    for (int i = 0; i < teller_count; i++)
        fprintf(stderr, "teller %d: waits for %lu, seen %lu\n", i, atomic_load(&told[i].wanted),
                atomic_load(&seen_rounds[i]));
    fprintf(stderr, "waiting %d\n", RLIsWaiting(target.loop));
}

static void see(int teller) {
    unsigned long round = atomic_fetch_add(&seen_rounds[teller], 1) + 1;
    answer_give(&told[teller], round);
}

static void be_posted(void *info) {
    MUST_BE((uintptr_t)info, ==, performed + 1);
    performed++;
    stress_progress();
    answer_give(&burst_end, performed);
}

static void be_signalled(void *info) {
    (void)info;
    see(signals);
}

static void fire(RLTimerRef t, void *info) {
    (void)t;
    (void)info;
    see(moves);
}

static void be_requested(void *info) {
    (void)info;
    see(requests);
}

/* A store before RLWakeUp, ordered by nothing else, is seen by a pass that the wake-up causes. */
static void look(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    (void)info;
    answer_give(&told[plain_stores], atomic_load_explicit(&stored, memory_order_relaxed));
}

static void *post_in_bursts(void *info) {
    (void)info;
    uint64_t state = 11;
    for (unsigned long burst = 0; burst < bursts; burst++) {
        unsigned long length = 1 + stress_random(&state) % (burst % 4 == 0 ? 2000 : 200);
        answer_ask(&burst_end, posted + length);
        for (unsigned long i = 0; i < length; i++) {
            RLPerformFunction(target.loop, kRLDefaultMode, be_posted, (void *)(uintptr_t)++posted, NULL);
            RLWakeUp(target.loop);
        }
        answer_wait(&burst_end);
    }
    atomic_store(&over, true);
    return NULL;
}

static void *tell(void *info) {
    int teller = (int)(intptr_t)info;
    RLObserverRef observer = RLObserverCreate(kRLBeforeSources, true, 0, look, NULL);
    while (!atomic_load(&over)) {
        unsigned long round = ++rounds[teller];
        answer_ask(&told[teller], round);
        switch (teller) {
        case signals:
            RLSourceSignal(source);
            RLWakeUp(target.loop);
            break;
        case moves: RLTimerSetNextFireDate(timer, RLAbsoluteTimeGetCurrent()); break;
        case plain_stores:
            /* The loop may not poll busily while the mode is observed. */
            RLAddObserver(target.loop, observer, kRLDefaultMode);
            atomic_store_explicit(&stored, round, memory_order_relaxed);
            RLWakeUp(target.loop);
            break;
        default: RLPerformOnLoop(target.loop, kRLDefaultMode, be_requested, NULL, NULL, false);
        }
        answer_wait(&told[teller]);
        if (teller == plain_stores) RLRemoveObserver(target.loop, observer, kRLDefaultMode);
        for (unsigned pause = 0; pause < 100 && !atomic_load(&over); pause++) sched_yield();
    }
    RLRelease(observer);
    return NULL;
}

static void run(enum stress_sleep sleep) {
    pthread_t producer, tellers[teller_count];
    bursts = stress_count(30000);
    answer_init(&burst_end);
    for (int i = 0; i < teller_count; i++) answer_init(&told[i]);
    stress_loop_start(&target, sleep);
    source = stress_source(1, be_signalled, &source);
    RLAddSource(target.loop, source, kRLDefaultMode);
    timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + STRESS_FOREVER, STRESS_FOREVER, 0, 0, fire, NULL);
    RLAddTimer(target.loop, timer, kRLDefaultMode);
    stress_watchdog_start(report);
    stress_thread_start(&producer, post_in_bursts, NULL);
    for (int i = 0; i < teller_count; i++) stress_thread_start(&tellers[i], tell, (void *)(intptr_t)i);
    stress_thread_join(producer);
    for (int i = 0; i < teller_count; i++) stress_thread_join(tellers[i]);
    ck_assert_uint_eq(performed, posted);
    RLStop(target.loop);
    stress_loop_join(&target);
    stress_watchdog_stop();
    for (int i = 0; i < teller_count; i++) {
        ck_assert_uint_gt(rounds[i], 0);
        answer_destroy(&told[i]);
    }
    answer_destroy(&burst_end);
    RLRelease(source);
    RLRelease(timer);
}

START_TEST(nothing_is_lost_on_a_loop_in_a_futex) { run(SLEEP_ON_FUTEX); }
END_TEST

START_TEST(nothing_is_lost_on_a_loop_in_epoll) { run(SLEEP_IN_EPOLL); }
END_TEST

START_TEST(nothing_is_lost_on_one_core) {
    stress_pin_to_one_core();
    run(SLEEP_ON_FUTEX);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("busy_polling");
    TCase *tests = tcase_create("posts_and_all_else");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, nothing_is_lost_on_a_loop_in_a_futex);
    tcase_add_test(tests, nothing_is_lost_on_a_loop_in_epoll);
    tcase_add_test(tests, nothing_is_lost_on_one_core);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
