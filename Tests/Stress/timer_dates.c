/* SPDX-License-Identifier: MIT */
/* Four threads each set the date of a timer of their own on one waiting loop and wait until it
   fires, while a fifth fills the loop with other timers. No setting is lost, also when it meets the
   timer's own callback: S-TMR-41, S-WAKE-14, S-TMR-38, S-TMR-20. A timer added from another thread
   fires with no wake-up: S-WAKE-13. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { setter_count = 4 };

/* So far ahead that only a date that is set makes a timer fire. */
static const RLTimeInterval far = 1.0e7;

struct setter {
    struct answer answer;
    atomic_ulong settings, fires;
    RLTimerRef timer;
    pthread_t thread;
    unsigned index;
};

static struct setter setters[setter_count];
static struct stress_loop target;
static unsigned long settings;
static atomic_bool finished;
static atomic_ulong bystander_fires;

static void report(void) {
    for (unsigned i = 0; i < setter_count; i++)
        fprintf(stderr, "setter %u: %lu settings, %lu fires, waits for %lu, date in %f s\n", i,
                atomic_load(&setters[i].settings), atomic_load(&setters[i].fires),
                atomic_load(&setters[i].answer.wanted),
                RLTimerGetNextFireDate(setters[i].timer) - RLAbsoluteTimeGetCurrent());
    fprintf(stderr, "waiting %d\n", RLIsWaiting(target.loop));
}

/* The answer is given inside the callback, so the next date is often set while it is on the
   stack. */
static void fire(RLTimerRef timer, void *info) {
    struct setter *setter = info;
    (void)timer;
    atomic_fetch_add(&setter->fires, 1);
    answer_give(&setter->answer, atomic_load(&setter->settings));
}

static void bystander_fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    atomic_fetch_add_explicit(&bystander_fires, 1, memory_order_relaxed);
}

static void *set_dates(void *info) {
    struct setter *setter = info;
    uint64_t state = 40 + setter->index;
    for (unsigned long i = 1; i <= settings; i++) {
        RLAbsoluteTime now = RLAbsoluteTimeGetCurrent();
        answer_ask(&setter->answer, i);
        atomic_store(&setter->settings, i);
        switch (stress_random(&state) % 4) {
        case 0: RLTimerSetNextFireDate(setter->timer, now - 1); break;
        case 1: RLTimerSetNextFireDate(setter->timer, now + stress_random(&state) % 300 * 1e-6); break;
        case 2:
            RLTimerSetNextFireDate(setter->timer, now + far / 2);
            RLTimerSetNextFireDate(setter->timer, now);
            break;
        default: RLTimerSetNextFireDate(setter->timer, now);
        }
        answer_wait(&setter->answer);
    }
    return NULL;
}

/* Every timer here is the next of the loop, or was, or is far away. */
static void *fill(void *unused) {
    enum { count = 64 };
    RLTimerRef timers[count] = {NULL};
    uint64_t state = 77;
    while (!atomic_load(&finished)) {
        unsigned i = stress_random(&state) % count;
        if (timers[i] != NULL) {
            if (stress_random(&state) % 2) RLTimerInvalidate(timers[i]);
            else RLRemoveTimer(target.loop, timers[i], kRLDefaultMode);
            RLRelease(timers[i]);
        }
        RLTimeInterval ahead = stress_random(&state) % 4 ? stress_random(&state) % 3000 * 1e-6 : far;
        timers[i] = RLTimerCreate(RLAbsoluteTimeGetCurrent() + ahead, stress_random(&state) % 2 ? 0.0007 : 0, 0, 0,
                                  bystander_fire, NULL);
        RLAddTimer(target.loop, timers[i], kRLDefaultMode);
        if (stress_random(&state) % 4 == 0) sched_yield();
    }
    for (unsigned i = 0; i < count; i++) RLTimerInvalidate(timers[i]);
    for (unsigned i = 0; i < count; i++) RLRelease(timers[i]);
    return unused;
}

static void run(enum stress_sleep sleep, bool with_bystanders) {
    pthread_t filler;
    settings = stress_count(20000);
    stress_loop_start(&target, sleep);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < setter_count; i++) {
        RLTimerContext context = {.info = &setters[i]};
        setters[i].index = i;
        answer_init(&setters[i].answer);
        setters[i].timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + far, far, 0, 0, fire, &context);
        RLAddTimer(target.loop, setters[i].timer, kRLDefaultMode);
    }
    if (with_bystanders) stress_thread_start(&filler, fill, NULL);
    for (unsigned i = 0; i < setter_count; i++) stress_thread_start(&setters[i].thread, set_dates, &setters[i]);
    for (unsigned i = 0; i < setter_count; i++) stress_thread_join(setters[i].thread);
    atomic_store(&finished, true);
    if (with_bystanders) stress_thread_join(filler);
    RLStop(target.loop);
    stress_loop_join(&target);
    stress_watchdog_stop();
    for (unsigned i = 0; i < setter_count; i++) {
        /* One fire a setting: the far grid adds none, and no two settings share a fire. */
        ck_assert_uint_eq(atomic_load(&setters[i].fires), settings);
        RLTimerInvalidate(setters[i].timer);
        RLRelease(setters[i].timer);
        answer_destroy(&setters[i].answer);
    }
    if (with_bystanders) ck_assert_uint_gt(atomic_load(&bystander_fires), 0);
}

START_TEST(every_date_set_is_obeyed_on_a_futex) { run(SLEEP_ON_FUTEX, false); }
END_TEST

START_TEST(every_date_set_is_obeyed_in_epoll) { run(SLEEP_IN_EPOLL, false); }
END_TEST

START_TEST(every_date_set_is_obeyed_among_other_timers) { run(SLEEP_ON_FUTEX, true); }
END_TEST

/* An empty-handed loop learns of each added one-shot timer by the addition alone. */
static void added_timer_fired(RLTimerRef timer, void *info) {
    (void)timer;
    answer_give(info, 1);
}

START_TEST(an_added_timer_fires_with_no_wake_up) {
    unsigned long additions = stress_count(20000);
    struct answer answer;
    RLTimerContext context = {.info = &answer};
    answer_init(&answer);
    stress_loop_start(&target, SLEEP_ON_FUTEX);
    stress_watchdog_start(NULL);
    for (unsigned long i = 0; i < additions; i++) {
        RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0, 0, 0, added_timer_fired, &context);
        answer_ask(&answer, 1);
        RLAddTimer(target.loop, timer, kRLDefaultMode);
        RLRelease(timer);
        answer_wait(&answer);
    }
    RLStop(target.loop);
    stress_loop_join(&target);
    stress_watchdog_stop();
    answer_destroy(&answer);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("timer_dates");
    TCase *tests = tcase_create("dates_set_from_other_threads");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, every_date_set_is_obeyed_on_a_futex);
    tcase_add_test(tests, every_date_set_is_obeyed_in_epoll);
    tcase_add_test(tests, every_date_set_is_obeyed_among_other_timers);
    tcase_add_test(tests, an_added_timer_fires_with_no_wake_up);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
