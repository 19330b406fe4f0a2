/* SPDX-License-Identifier: MIT */
/* A timer is invalidated and released by another thread while its callback runs, and a new timer gets its address while the loop is about to
   finish with the old one. What the old callback was left with is not settled by the new timer: nothing releases that one's info
   during its callback, which a third thread invalidates: S-THR-8, S-TMR-42. With and without functions of the old timer's context. */
#define _GNU_SOURCE
#include "stress.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

static RLTimerRef former, later;
static sem_t begin, is_called, may_return, invalidate, is_invalid, is_over;
static atomic_bool finished, is_in_callback;
static unsigned long same;

static void call_former(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    sem_post(&is_called);
    sem_wait(&may_return);
}

static void call_later(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    atomic_store(&is_in_callback, true);
    sem_post(&invalidate);
    sem_wait(&is_invalid);
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_store(&is_in_callback, false);
}
static void release_later(const void *info) {
    (void)info;
    MUST(!atomic_load(&is_in_callback));
}
static void release_former(const void *info) { (void)info; }

/* Runs when no other thread does, so that it is late. */
static void *run_former(void *info) {
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
    while (sem_wait(&begin), !atomic_load(&finished)) {
        RLAddTimer(RLGetCurrent(), former, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        sem_post(&is_over);
    }
    return info;
}
static void *invalidate_later(void *info) {
    while (sem_wait(&invalidate), !atomic_load(&finished)) {
        RLTimerInvalidate(later);
        sem_post(&is_invalid);
    }
    return info;
}

START_TEST(nothing_is_settled_by_an_address) {
    RLTimerContext released = {.release = release_former}, context = {.release = release_later};
    sem_t *all[] = {&begin, &is_called, &may_return, &invalidate, &is_invalid, &is_over};
    for (int i = 0; i < 6; i++) sem_init(all[i], 0, 0);
    stress_pin_to_one_core();
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* The naps that let the runner go on are short. */
    pthread_t runner, invalidator;
    stress_thread_start(&runner, run_former, NULL);
    stress_thread_start(&invalidator, invalidate_later, NULL);
    uint64_t state = 1;
    for (unsigned long i = stress_count(4000); i > 0; i--) {
        former = RLTimerCreate(0, 100, 0, 0, call_former, i % 2 ? NULL : &released);
        sem_post(&begin);
        sem_wait(&is_called);
        RLTimerInvalidate(former);
        sem_post(&may_return);
        nanosleep(&(struct timespec){.tv_nsec = stress_random(&state) % 12000}, NULL);
        RLTimerRef address = former;
        RLRelease(former);
        later = RLTimerCreate(0, 100, 0, 0, call_later, &context);
        same += later == address;
        RLAddTimer(RLGetCurrent(), later, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        RLRelease(later);
        sem_wait(&is_over);
        stress_progress();
    }
    atomic_store(&finished, true);
    sem_post(&begin);
    sem_post(&invalidate);
    stress_thread_join(runner);
    stress_thread_join(invalidator);
    printf("%lu timers had the address of the one before\n", same);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("timer_addresses");
    TCase *test = tcase_create("timer_addresses");
    tcase_set_timeout(test, 0);
    tcase_add_test(test, nothing_is_settled_by_an_address);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    stress_watchdog_start(NULL);
    srunner_run_all(runner, CK_NORMAL);
    stress_watchdog_stop();
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
