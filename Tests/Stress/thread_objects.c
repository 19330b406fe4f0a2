/* SPDX-License-Identifier: MIT */
/* Thread objects under several hands: in each round four threads at once start, set up, ask, cancel,
   end and join one thread, whose last reference anybody may drop. It starts once, everybody who may
   wait for its end gets it, all that was queued is released once, and nothing stays: no descriptor,
   no memory, no context: S-THREAD-1, S-THREAD-2, S-THREAD-4, S-THREAD-5, S-THREAD-6, S-LOOP-10,
   S-LOOP-19, S-PERF-4. */
#include "count_malloc.h"
#include "stress.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { hands = 4, steps = 6 };

/* What the thread of one round does. */
enum kind { NO_BODY, RUNS_ITS_LOOP, RETURNS, ENDS_ITSELF, kinds };

static struct round {
    RLThreadRef thread;
    enum kind kind;
    atomic_int starts, bodies, releases, contexts, queued, performed, released;
} round_now;

static pthread_barrier_t begin, end;
static bool is_over;

static const void *context_retain(const void *info) {
    atomic_fetch_add(&round_now.contexts, 1);
    return info;
}
static void context_release(const void *info) {
    (void)info;
    MUST_BE(atomic_fetch_sub(&round_now.contexts, 1), >, 0);
}
static void perform(void *info) {
    (void)info;
    MUST(RLThreadGetCurrent() == round_now.thread);
    atomic_fetch_add(&round_now.performed, 1);
}
static void release(void *info) {
    (void)info;
    atomic_fetch_add(&round_now.released, 1);
}
static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
}

static void stop_if_cancelled(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    (void)info;
    if (RLThreadIsCancelled(RLThreadGetCurrent())) RLStop(RLGetCurrent());
}

static void add_source(RLRunLoopRef loop, RLIndex order) {
    RLSourceContext context = {.info = &round_now, .retain = context_retain, .release = context_release, .perform = perform};
    RLSourceRef source = RLSourceCreate(order, &context);
    RLAddSource(loop, source, kRLDefaultMode);
    RLSourceSignal(source);
    RLWakeUp(loop);
    /* A source that came too late would keep the loop, and the loop it (S-SRC-15). */
    if (RLThreadIsFinished(round_now.thread)) RLSourceInvalidate(source);
    RLRelease(source);
}

static void body(RLThreadRef thread, void *info) {
    MUST(info == &round_now && thread == RLThreadGetCurrent());
    MUST(RLThreadGetRunLoop(thread) == RLGetCurrent());
    atomic_fetch_add(&round_now.bodies, 1);
    if (round_now.kind == ENDS_ITSELF) pthread_exit(NULL);
    if (round_now.kind == RETURNS) return;
    add_source(RLGetCurrent(), 1000);
    RLObserverRef observer = RLObserverCreate(kRLBeforeTimers, true, 0, stop_if_cancelled, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRelease(observer);
    while (!RLThreadIsCancelled(thread)) MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
}
static void body_release(void *info) {
    MUST(info == &round_now);
    atomic_fetch_add(&round_now.releases, 1);
}

static void start(void) {
    if (RLThreadStart(round_now.thread)) {
        MUST_BE(atomic_fetch_add(&round_now.starts, 1), ==, 0);
        MUST(RLThreadGetRunLoop(round_now.thread) != NULL);
    }
}

static void ask(RLRunLoopRef loop, bool waits) {
    atomic_fetch_add(&round_now.queued, 1);
    int before = atomic_load(&round_now.performed);
    if (RLPerformOnLoop(loop, kRLCommonModes, perform, NULL, release, waits) && waits)
        MUST_BE(atomic_load(&round_now.performed), >, before);
}

static void step(uint64_t *random, RLIndex order) {
    RLThreadRef thread = round_now.thread;
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    switch (stress_random(random) % 16) {
    case 0: case 1: case 2: start(); break;
    case 3: case 4:
        if (loop) ask(loop, false);
        break;
    case 5: case 6:
        if (loop) ask(loop, true);
        break;
    case 7: case 8:
        if (loop) {
            atomic_fetch_add(&round_now.queued, 1);
            RLPerformFunction(loop, kRLDefaultMode, perform, NULL, release);
            RLWakeUp(loop);
        }
        break;
    case 9: case 10:
        if (loop && RLThreadIsExecuting(thread)) add_source(loop, order);
        break;
    case 11:
        if (loop && RLThreadIsExecuting(thread)) {
            RLTimerContext context = {.info = &round_now, .retain = context_retain, .release = context_release};
            RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 1e-4, 0, 0, fire, &context);
            RLAddTimer(loop, timer, kRLDefaultMode);
            RLRelease(timer);
        }
        break;
    case 12:
        RLThreadSetName(thread, "renamed");
        RLThreadSetStackSize(thread, 100000);
        break;
    case 13: RLThreadCancel(thread); break;
    case 14:
        RLThreadCancel(thread);
        if (RLThreadJoin(thread)) MUST(RLThreadIsFinished(thread) && !RLThreadIsExecuting(thread));
        break;
    case 15:
        if (RLThreadEnd(thread)) MUST(RLThreadIsFinished(thread) && RLThreadIsCancelled(thread));
        break;
    }
}

static void *hand(void *info) {
    uint64_t random = (uint64_t)(uintptr_t)info;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (is_over) return NULL;
        for (int i = 0; i < steps; i++) step(&random, 10 * (RLIndex)(uintptr_t)info + i);
        RLRelease(round_now.thread);
        pthread_barrier_wait(&end);
    }
}

static void one_round(unsigned number) {
    bool has_body = number % kinds != NO_BODY;
    memset(&round_now, 0, sizeof round_now);
    round_now.kind = (enum kind)(number % kinds);
    round_now.thread = RLThreadCreate(has_body ? body : NULL, &round_now, body_release);
    RLThreadRef thread = round_now.thread;
    for (int i = 0; i < hands; i++) RLRetain(thread);
    if (number % 3 == 0) start();
    /* Every other time the thread alone holds its object while it ends. */
    bool is_abandoned = number % 2 == 0;
    pthread_barrier_wait(&begin);
    if (!is_abandoned) for (int i = 0; i < steps; i++) RLThreadIsExecuting(thread);
    pthread_barrier_wait(&end);
    bool is_started = atomic_load(&round_now.starts) == 1;
    RLRunLoopRef loop = (RLRunLoopRef)RLRetain(RLThreadGetRunLoop(thread));
    ck_assert(is_started == (loop != NULL));
    if (is_started && !is_abandoned) {
        ck_assert(RLThreadEnd(thread));
        ck_assert(RLThreadIsFinished(thread));
        ck_assert(RLThreadJoin(thread));
    } else {
        ck_assert(is_started || !RLThreadEnd(thread));
        RLThreadCancel(thread);
    }
    RLRelease(thread);
    if (is_abandoned) {
        /* Nobody can join: it is gone when its context is, and its loop takes nothing more. */
        while (atomic_load(&round_now.releases) == 0) sched_yield();
        while (loop != NULL && RLGetRetainCount(loop) > 1) sched_yield();
    }
    RLRelease(loop);
    ck_assert_int_eq(atomic_load(&round_now.releases), 1);
    ck_assert_int_eq(atomic_load(&round_now.bodies), is_started && has_body);
    ck_assert_int_eq(atomic_load(&round_now.contexts), 0);
    ck_assert_int_eq(atomic_load(&round_now.released), atomic_load(&round_now.queued));
    stress_progress();
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

START_TEST(thread_objects_under_several_hands) {
    unsigned rounds = (unsigned)stress_count_at_least(8000, 400), warm = rounds / 4;
    pthread_t threads[hands];
    stress_watchdog_start(NULL);
    pthread_barrier_init(&begin, NULL, hands + 1);
    pthread_barrier_init(&end, NULL, hands + 1);
    for (uintptr_t i = 0; i < hands; i++) stress_thread_start(&threads[i], hand, (void *)(i + 1));
    for (unsigned i = 0; i < warm; i++) one_round(i);
    unsigned descriptors = open_descriptors();
    long blocks = atomic_load(&malloc_live_blocks), bytes = atomic_load(&malloc_live_bytes);
    for (unsigned i = warm; i < rounds; i++) one_round(i);
    blocks = atomic_load(&malloc_live_blocks) - blocks;
    bytes = atomic_load(&malloc_live_bytes) - bytes;
    ck_assert_uint_eq(open_descriptors(), descriptors);
    is_over = true;
    pthread_barrier_wait(&begin);
    for (int i = 0; i < hands; i++) stress_thread_join(threads[i]);
    stress_watchdog_stop();
#ifdef COUNT_MALLOC
    /* Far less than one block in a hundred rounds: the rest of some table's doubling, not a leak. */
    ck_assert_int_lt(blocks, 64);
    ck_assert_int_lt(bytes, 64 * 1024);
#endif
}
END_TEST

int main(void) {
    Suite *suite = suite_create("thread_objects");
    TCase *tests = tcase_create("under_several_hands");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 800);
    tcase_add_test(tests, thread_objects_under_several_hands);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
