/* SPDX-License-Identifier: MIT */
/* Three threads stop a loop's runs from outside. A stop given while a run is under way ends that
   run, wherever in its pass it comes; none is kept for a later run: S-STOP-1, S-STOP-2, S-STOP-8,
   S-STOP-10, S-STOP-11, S-RUN-8. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { stopper_count = 3 };

static RLRunLoopRef loop;
static RLSourceRef busy;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long entered, ended; /* guarded by lock: runs begun and runs over */
static bool finished;                /* guarded by lock */
static unsigned long stops_per_stopper;
static atomic_ulong stops_given;
static atomic_bool quiet;

static void report(void) {
    fprintf(stderr, "entered %lu, ended %lu, stops %lu, waiting %d\n", entered, ended, atomic_load(&stops_given),
            RLIsWaiting(loop));
}

static void count(unsigned long *counter) {
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void enter(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)info;
    MUST_BE(activity, ==, kRLEntry);
    count(&entered);
}

static bool is_finished(void) {
    pthread_mutex_lock(&lock);
    bool result = finished;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Half of the runs are RLRun's, which a stop must end as well (S-STOP-11). */
static void *run_again_and_again(void *info) {
    int idle_fd = info == NULL ? -1 : *(int *)info;
    RLSourceRef port = info == NULL ? NULL : stress_idle_port(&idle_fd);
    RLObserverRef observer = RLObserverCreate(kRLEntry, true, 0, enter, NULL);
    RLAddSource(loop = RLGetCurrent(), busy, kRLDefaultMode);
    RLRetain(loop);
    RLAddSource(loop, port, kRLDefaultMode);
    RLAddObserver(loop, observer, kRLDefaultMode);
    for (unsigned long i = 0; !is_finished(); i++) {
        if (i % 2) RLRun();
        else MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
        stress_progress();
        count(&ended);
    }
    RLObserverInvalidate(observer);
    RLRelease(observer);
    RLSourceInvalidate(port);
    RLRelease(port);
    return NULL;
}

/* The run that is under way, once there is one. */
static unsigned long current_run(void) {
    pthread_mutex_lock(&lock);
    while (entered == ended) pthread_cond_wait(&changed, &lock);
    unsigned long run = entered;
    pthread_mutex_unlock(&lock);
    return run;
}

static void *stop(void *unused) {
    for (unsigned long i = 0; i < stops_per_stopper; i++) {
        unsigned long run = current_run();
        RLStop(loop);
        atomic_fetch_add(&stops_given, 1);
        pthread_mutex_lock(&lock);
        while (ended < run) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

/* Keeps the loop between sleeping, waking and performing. */
static void *keep_busy(void *unused) {
    while (!atomic_load(&quiet)) {
        RLSourceSignal(busy);
        RLWakeUp(loop);
        sched_yield();
    }
    return unused;
}

static void run(unsigned stoppers, int *idle_fd, bool noise) {
    pthread_t runner, threads[stopper_count], noisy;
    stops_per_stopper = stress_count(20000);
    busy = stress_source(0, NULL, NULL);
    stress_watchdog_start(report);
    stress_thread_start(&runner, run_again_and_again, idle_fd);
    current_run();
    if (noise) stress_thread_start(&noisy, keep_busy, NULL);
    for (unsigned i = 0; i < stoppers; i++) stress_thread_start(&threads[i], stop, NULL);
    for (unsigned i = 0; i < stoppers; i++) stress_thread_join(threads[i]);
    atomic_store(&quiet, true);
    if (noise) stress_thread_join(noisy);
    /* Said while a run is under way, so that exactly one more stop is needed. */
    pthread_mutex_lock(&lock);
    while (entered == ended) pthread_cond_wait(&changed, &lock);
    finished = true;
    pthread_mutex_unlock(&lock);
    RLStop(loop);
    stress_thread_join(runner);
    stress_watchdog_stop();
    /* Every run that ended was ended by a stop given to it. */
    ck_assert_uint_le(ended, atomic_load(&stops_given) + 1);
    ck_assert_uint_ge(ended, stops_per_stopper);
    if (stoppers == 1) ck_assert_uint_eq(ended, stops_per_stopper + 1);
    RLRelease(busy);
    RLRelease(loop);
}

START_TEST(each_stop_of_one_thread_ends_a_run) { run(1, NULL, false); }
END_TEST

START_TEST(stops_of_three_threads_on_a_busy_loop) { run(stopper_count, NULL, true); }
END_TEST

START_TEST(stops_of_three_threads_in_epoll) {
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    run(stopper_count, &fds[0], true);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stops");
    TCase *tests = tcase_create("every_stop_ends_a_run");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, each_stop_of_one_thread_ends_a_run);
    tcase_add_test(tests, stops_of_three_threads_on_a_busy_loop);
    tcase_add_test(tests, stops_of_three_threads_in_epoll);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
