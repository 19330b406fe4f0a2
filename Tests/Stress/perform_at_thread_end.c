/* SPDX-License-Identifier: MIT */
/* Functions are queued for a loop while its thread ends, and after. Each is released exactly once,
   whether it ran, waited in the queue, or came too late; those that ran are the first that their
   thread queued: S-BLK-18, S-BLK-3, S-LOOP-6, S-LOOP-10, S-LOOP-12. */
#include "stress.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { producer_count = 3, most_posts = 1000, late_posts = 16, never_every = 8 };

struct post {
    atomic_int performed, released;
};

struct producer {
    struct post posts[most_posts + late_posts];
    unsigned long posted; /* read after the join */
    pthread_t thread;
};

static struct producer *producers;
static RLRunLoopRef loop;
static atomic_bool loop_gone;
static unsigned long performs_before_the_end; /* the loop's thread only */
static unsigned long performs;                /* the loop's thread only */
static RLSourceRef keep;
static sem_t loop_ready, start;
static pthread_t loop_thread;

static void perform(void *info) {
    struct post *post = info;
    MUST(pthread_equal(pthread_self(), loop_thread));
    MUST_BE(atomic_load(&post->released), ==, 0);
    MUST_BE(atomic_fetch_add(&post->performed, 1), ==, 0);
    if (++performs == performs_before_the_end) RLStop(loop);
}

static void release(void *info) { MUST_BE(atomic_fetch_add(&((struct post *)info)->released, 1), ==, 0); }

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) MUST_BE(errno, ==, EINTR);
}

static void *run_and_end(void *unused) {
    loop = RLGetCurrent();
    loop_thread = pthread_self();
    RLRetain(loop);
    keep = stress_source(0, NULL, NULL);
    RLAddSource(loop, keep, kRLDefaultMode);
    sem_post(&loop_ready);
    wait_for(&start);
    RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false);
    return unused;
}

static void *produce(void *info) {
    struct producer *producer = info;
    unsigned long late = 0;
    while (late < late_posts) {
        /* Before the loop has ended there is room for most_posts, and late_posts more after. */
        bool gone = atomic_load(&loop_gone);
        if (!gone && producer->posted == most_posts) {
            sched_yield();
            continue;
        }
        struct post *post = &producer->posts[producer->posted++];
        /* Some are for a mode that never runs: those wait to the end in any case. */
        RLMode mode = producer->posted % never_every == 0 ? "a mode that never runs" : kRLDefaultMode;
        RLPerformFunction(loop, mode, perform, post, release);
        RLWakeUp(loop);
        if (gone) late++;
    }
    return NULL;
}

static void check(const struct producer *producer, bool after_free) {
    bool prefix = true;
    for (unsigned long i = 0; i < producer->posted; i++) {
        const struct post *post = &producer->posts[i];
        int performed = atomic_load(&post->performed), released = atomic_load(&post->released);
        ck_assert_int_le(performed, 1);
        ck_assert_int_le(released, 1);
        if (after_free) ck_assert_int_eq(released, 1);
        /* A loop whose thread is gone releases before the call returns (S-BLK-18). */
        if (i >= producer->posted - late_posts) ck_assert_int_eq(released, 1);
        if (i >= producer->posted - late_posts) ck_assert_int_eq(performed, 0);
        if ((i + 1) % never_every == 0) {
            ck_assert_int_eq(performed, 0);
            continue;
        }
        /* Nothing that ran was queued after something that did not. */
        ck_assert(prefix || !performed);
        prefix = performed;
    }
}

START_TEST(every_post_is_released_exactly_once) {
    unsigned long rounds = stress_count_at_least(200, 20), ran = 0, posted = 0;
    uint64_t state = 3;
    producers = calloc(producer_count, sizeof *producers);
    sem_init(&loop_ready, 0, 0);
    sem_init(&start, 0, 0);
    stress_watchdog_start(NULL);
    for (unsigned long round = 0; round < rounds; round++) {
        memset((void *)producers, 0, producer_count * sizeof *producers);
        atomic_store(&loop_gone, false);
        performs = 0;
        performs_before_the_end = 1 + stress_random(&state) % 500;
        pthread_t thread;
        stress_thread_start(&thread, run_and_end, NULL);
        wait_for(&loop_ready);
        for (unsigned i = 0; i < producer_count; i++)
            stress_thread_start(&producers[i].thread, produce, &producers[i]);
        sem_post(&start);
        stress_thread_join(thread);
        atomic_store(&loop_gone, true);
        for (unsigned i = 0; i < producer_count; i++) stress_thread_join(producers[i].thread);
        for (unsigned i = 0; i < producer_count; i++) check(&producers[i], false);
        RLRelease(keep);
        /* Nobody else retains the loop: what was still queued goes with it (S-LOOP-10). */
        RLRelease(loop);
        for (unsigned i = 0; i < producer_count; i++) {
            check(&producers[i], true);
            posted += producers[i].posted;
        }
        ran += performs;
        stress_progress();
    }
    stress_watchdog_stop();
    /* Some ran and some came before the end and did not, or the test shows nothing. */
    ck_assert_uint_gt(ran, 0);
    ck_assert_uint_gt(posted, ran + rounds * producer_count * late_posts);
    free(producers);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("perform_at_thread_end");
    TCase *tests = tcase_create("posts_while_the_thread_ends");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, every_post_is_released_exactly_once);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
