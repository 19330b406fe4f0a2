/* SPDX-License-Identifier: MIT */
/* Ten thousand threads come, fill their loops, and go. Nothing of them stays: no descriptor, no
   memory, no context; and what a thread leaves behind is gone before a join of it returns unless
   somebody retains the loop: S-LOOP-7, S-LOOP-9, S-LOOP-10, S-LOOP-16, S-LOOP-17, S-BLK-18. */
#include "count_malloc.h"
#include "stress.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What one thread made, and what became of it. Only that thread and, after its join, the main one
   touch it. */
struct tally {
    unsigned number;
    bool ended;
    int contexts, scheduled, pending, performed;
    RLRunLoopRef retained;
};

static int shared_fd;

static const void *context_retain(const void *info) {
    ((struct tally *)info)->contexts++;
    return info;
}

static void context_release(const void *info) {
    struct tally *tally = (struct tally *)info;
    MUST_BE(tally->contexts, >, 0);
    tally->contexts--;
}

static void schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    ((struct tally *)info)->scheduled++;
}

static void cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    ((struct tally *)info)->scheduled--;
}

static void perform(void *info) { ((struct tally *)info)->performed++; }
static void function_release(void *info) { ((struct tally *)info)->pending--; }
static RLPort shared_port(void *info) { return ((struct tally *)info)->contexts > 0 ? shared_fd : -1; }

static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    perform(info);
}

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    perform(info);
}

/* Sources with one context and one order would be equal, and only the first would be added
   (S-SRC-7). */
static void add_source(struct tally *tally, RLRunLoopRef loop, RLMode mode, RLIndex order, bool signalled) {
    RLSourceContext context = {.info = tally, .retain = context_retain, .release = context_release,
                               .schedule = schedule, .cancel = cancel, .perform = perform};
    RLSourceRef source = RLSourceCreate(order, &context);
    RLAddSource(loop, source, mode);
    if (signalled) RLSourceSignal(source);
    RLRelease(source);
}

static void add_port(struct tally *tally, RLRunLoopRef loop, RLMode mode) {
    RLSourceContext1 context = {.version = 1, .info = tally, .retain = context_retain, .release = context_release,
                                .getPort = shared_port, .perform = perform};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    RLAddSource(loop, source, mode);
    RLRelease(source);
}

static void add_timer(struct tally *tally, RLRunLoopRef loop, RLMode mode, RLTimeInterval ahead) {
    RLTimerContext context = {.info = tally, .retain = context_retain, .release = context_release};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + ahead, 1000, 0, 0, fire, &context);
    RLAddTimer(loop, timer, mode);
    RLRelease(timer);
}

static void add_observer(struct tally *tally, RLRunLoopRef loop, RLMode mode) {
    RLObserverContext context = {.info = tally, .retain = context_retain, .release = context_release};
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, observe, &context);
    RLAddObserver(loop, observer, mode);
    RLRelease(observer);
}

static void queue(struct tally *tally, RLRunLoopRef loop, RLMode mode) {
    tally->pending++;
    RLPerformFunction(loop, mode, perform, tally, function_release);
}

static void *live(void *info) {
    struct tally *tally = info;
    RLRunLoopRef loop = RLGetCurrent();
    unsigned number = tally->number;
    add_source(tally, loop, kRLDefaultMode, 0, true);
    add_source(tally, loop, kRLCommonModes, 1, number % 3 == 0);
    if (number % 5 == 0) RLAddCommonMode(loop, "another common mode");
    if (number % 4 == 0) add_port(tally, loop, kRLDefaultMode);
    if (number % 8 == 0) add_port(tally, loop, "a mode that never runs");
    add_timer(tally, loop, kRLDefaultMode, 0);
    add_timer(tally, loop, kRLCommonModes, 1000);
    add_timer(tally, loop, "a mode that never runs", 0.0001);
    add_observer(tally, loop, kRLDefaultMode);
    add_observer(tally, loop, kRLCommonModes);
    queue(tally, loop, kRLDefaultMode);
    queue(tally, loop, kRLCommonModes);
    queue(tally, loop, "a mode that never runs");
    if (number % 2 == 0) MUST_BE(RLRunInMode(kRLDefaultMode, 0, false), ==, kRLRunTimedOut);
    if (number % 16 == 0) MUST_BE(RLRunInMode(kRLDefaultMode, 1e-6, false), ==, kRLRunTimedOut);
    if (number % 2 == 0) MUST_BE(tally->performed, >, 0);
    if (number % 7 == 0) tally->retained = (RLRunLoopRef)RLRetain(loop);
    tally->ended = true;
    return NULL;
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

/* Pages of memory that are the process's own, of whatever allocator. */
static long data_pages(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*d %*d %*d %*d %*d %ld", &pages), 1);
    fclose(file);
    return pages;
}

static void one_batch(unsigned first) {
    enum { batch = 4 };
    struct tally tallies[batch];
    pthread_t threads[batch];
    memset(tallies, 0, sizeof tallies);
    for (unsigned i = 0; i < batch; i++) {
        tallies[i].number = first + i;
        stress_thread_start(&threads[i], live, &tallies[i]);
    }
    for (unsigned i = 0; i < batch; i++) {
        struct tally *tally = &tallies[i];
        stress_thread_join(threads[i]);
        ck_assert(tally->ended);
        /* Sources leave their loop with the thread in any case (S-LOOP-7). */
        ck_assert_int_eq(tally->scheduled, 0);
        RLRelease(tally->retained);
        ck_assert_int_eq(tally->contexts, 0);
        ck_assert_int_eq(tally->pending, 0);
    }
    stress_progress();
}

START_TEST(ten_thousand_threads_leave_nothing) {
    unsigned threads = (unsigned)stress_count_at_least(10000, 400), warm = threads / 4;
    shared_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    unsigned descriptors = open_descriptors();
    one_batch(0);
    /* The process keeps at most one descriptor, however many loops it had. */
    ck_assert_uint_le(open_descriptors(), descriptors + 1);
    descriptors = open_descriptors();
    for (unsigned i = 4; i < warm; i += 4) one_batch(i);
    long blocks = atomic_load(&malloc_live_blocks), bytes = atomic_load(&malloc_live_bytes), pages = data_pages();
    for (unsigned i = warm; i < threads; i += 4) one_batch(i);
    blocks = atomic_load(&malloc_live_blocks) - blocks;
    bytes = atomic_load(&malloc_live_bytes) - bytes;
    pages = data_pages() - pages;
    ck_assert_uint_eq(open_descriptors(), descriptors);
    close(shared_fd);
#ifdef COUNT_MALLOC
    /* Far less than one block in ten threads, however many there are: the rest of some table's doubling, not a leak. */
    ck_assert_int_lt(blocks, 64);
    ck_assert_int_lt(bytes, 64 * 1024);
#endif
#ifndef STRESS_SANITIZED
    /* A page a thread, kept outside malloc, would be 7,500. */
    ck_assert_int_lt(pages, (long)(threads - warm) / 2);
#endif
    printf("%u threads\n", threads);
    fflush(stdout);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("thread_lifecycle");
    TCase *tests = tcase_create("threads_come_and_go");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, ten_thousand_threads_leave_nothing);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
