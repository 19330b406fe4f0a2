/* SPDX-License-Identifier: MIT */
/*
 * Threads that end in a function that a call of the library calls, inside a run or not, and at the end of a thread: what the call
 * has begun is done all the same.
 */
#define _GNU_SOURCE
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *on_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    void *result = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, argument), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

/* ---- `cancel` of a source */

static int cancels;
static RLSourceRef source;
static RLRunLoopRef loop;
static void cancel_and_end(void *info, RLRunLoopRef from, RLMode mode) {
    (void)info, (void)from, (void)mode;
    if (++cancels == 1) pthread_exit(NULL);
}
static void make_source(void) {
    RLSourceContext context = {.cancel = cancel_and_end};
    cancels = 0;
    loop = RLGetCurrent();
    source = RLSourceCreate(0, &context);
}
static void *invalidate(void *has_loop) {
    if (has_loop) RLGetCurrent();
    RLSourceInvalidate(source);
    return NULL;
}
static void *remove_from_default(void *unused) {
    RLRemoveSource(loop, source, kRLDefaultMode);
    return unused;
}
static void *remove_from_common(void *unused) {
    RLRemoveSource(loop, source, kRLCommonModes);
    return unused;
}

RL_TEST(cancel_ends_the_thread_that_invalidates, "S-LOOP-19 S-SRC-9 S-SRC-10",
        "A source whose cancel ends the thread that invalidates it is in no mode all the same, with a cancel for each") {
    for (long has_loop = 0; has_loop < 2; has_loop++) {
        make_source();
        const RLMode modes[] = {kRLDefaultMode, "second", "third"};
        for (int i = 0; i < 3; i++) RLAddSource(loop, source, modes[i]);
        on_thread(invalidate, (void *)has_loop);
        ck_assert_int_eq(cancels, 3);
        for (int i = 0; i < 3; i++) expect_run(modes[i], 0, false, Finished);
        ck_assert_int_eq(RLGetRetainCount(source), 1);
        RLRelease(source);
    }
}

RL_TEST(cancel_ends_the_thread_that_removes, "S-LOOP-19 S-SRC-19 S-MODE-16",
        "A cancel that ends the thread which removes the source leaves no reference; from the pseudo-mode it is removed whole") {
    make_source();
    RLAddSource(loop, source, kRLDefaultMode);
    on_thread(remove_from_default, NULL);
    ck_assert_int_eq(cancels, 1);
    ck_assert_int_eq(RLGetRetainCount(source), 1);
    cancels = 0;
    RLAddCommonMode(loop, "second");
    RLAddSource(loop, source, kRLCommonModes);
    on_thread(remove_from_common, NULL);
    ck_assert_int_eq(cancels, 2);
    ck_assert(!RLContainsSource(loop, source, kRLCommonModes));
    expect_run(kRLDefaultMode, 0, false, Finished);
    expect_run("second", 0, false, Finished);
    ck_assert_int_eq(RLGetRetainCount(source), 1);
    RLRelease(source);
}

static void cancel_and_come_back(void *info, RLRunLoopRef from, RLMode mode) {
    (void)info;
    /* Into the mode that it has left before, by name. */
    if (++cancels != 2) return;
    RLAddSource(from, source, strcmp(mode, "second") == 0 ? kRLDefaultMode : "second");
    pthread_exit(NULL);
}

RL_TEST(what_a_cancel_puts_back_stays, "S-LOOP-19 S-MODE-16",
        "What the last cancel of a removal from the common modes, which ends the thread, adds to another mode by name stays there") {
    RLSourceContext context = {.cancel = cancel_and_come_back};
    cancels = 0;
    loop = RLGetCurrent();
    source = RLSourceCreate(0, &context);
    RLAddCommonMode(loop, "second");
    RLAddSource(loop, source, kRLCommonModes);
    on_thread(remove_from_common, NULL);
    ck_assert_int_eq(cancels, 2);
    ck_assert(RLContainsSource(loop, source, kRLDefaultMode) != RLContainsSource(loop, source, "second"));
    ck_assert(!RLContainsSource(loop, source, kRLCommonModes));
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* ---- the end of a thread */

static RLSourceRef sources[3];
static void cancel_while_cancelled(void *info, RLRunLoopRef from, RLMode mode) {
    (void)info, (void)from, (void)mode;
    if (++cancels > 1) return;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}
static void *leave_sources(void *unused) {
    loop = (RLRunLoopRef)(uintptr_t)RLRetain(RLGetCurrent());
    for (int i = 0; i < 3; i++) {
        RLSourceContext context = {.info = &sources[i], .cancel = cancel_while_cancelled};
        sources[i] = RLSourceCreate(0, &context);
        RLAddSource(RLGetCurrent(), sources[i], kRLDefaultMode);
    }
    return unused;
}

RL_TEST(cancelled_at_the_end, "S-LOOP-20 S-LOOP-7", "A thread that is cancelled in a callback of its loop's end has its loop taken down whole") {
    on_thread(leave_sources, NULL);
    ck_assert_int_eq(cancels, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(RLGetRetainCount(sources[i]), 1);
        RLRelease(sources[i]);
    }
    ck_assert_int_eq(RLGetRetainCount(loop), 1);
    RLRelease(loop);
}

static void return_at_once(RLThreadRef thread, void *info) { (void)thread, (void)info; }

#if !defined(WITH_THREAD_SANITIZER) /* It takes a thread that has ended once for gone. */
static int exits;
static void exit_from_body(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    pthread_exit(NULL);
}
static void exit_from_exit(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    exits++;
    pthread_exit(NULL);
}
static void be_cancelled_in_exit(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    exits++;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

RL_TEST(all_exit_callbacks_end, "S-THREAD-16 S-LOOP-19",
        "Each of three exit callbacks ends the thread, whose body has returned or has ended it too: all are called, and it has finished") {
    for (int kind = 0; kind < 4; kind++) {
        RLThreadRef thread = RLThreadCreate(kind & 1 ? exit_from_body : return_at_once, NULL, NULL);
        for (int i = 0; i < 3; i++) ck_assert(RLThreadAddExitCallBack(thread, kind & 2 ? be_cancelled_in_exit : exit_from_exit, NULL));
        exits = 0;
        ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
        ck_assert_int_eq(exits, 3);
        ck_assert(RLThreadIsFinished(thread));
        ck_assert_int_eq(RLGetRetainCount(thread), 1);
        RLRelease(thread);
    }
}
#endif

/* ---- the start of the first thread */

static void end_now(void *unused) {
    (void)unused;
    pthread_exit(NULL);
}
static void *start(void *thread) {
    RLThreadStart(thread);
    return NULL;
}

RL_TEST(the_function_before_the_first_start_ends_its_thread, "S-THREAD-17 S-LOOP-19",
        "Then the thread that was to be started is not started, and can be") {
    RLThreadSetMultiThreadedCallBack(end_now, NULL);
    RLThreadRef thread = RLThreadCreate(return_at_once, NULL, NULL);
    on_thread(start, thread);
    ck_assert(!RLThreadJoin(thread));
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    RLRelease(thread);
}

/* ---- requests */

static int performed, released;
static void perform(void *unused) {
    (void)unused;
    performed++;
}
static void perform_and_end(void *unused) {
    perform(unused);
    pthread_exit(NULL);
}
static void count_release(void *unused) {
    (void)unused;
    __atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
}
static void release_and_end(void *unused) {
    count_release(unused);
    pthread_exit(NULL);
}
static void run_for_long(LoopThread *self) {
    keep_alive(self->loop, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1e6, false);
}
static void *perform_inline(void *unused) {
    RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, perform_and_end, NULL, count_release, true);
    return unused;
}

RL_TEST(the_release_of_a_request_ends_its_thread, "S-PERF-6 S-PERF-11 S-LOOP-19", "A sender that waits for the request goes on") {
    LoopThread thread;
    loop_thread_start(&thread, run_for_long, NULL);
    wait_until_waiting(thread.loop);
    ck_assert(RLPerformOnLoop(thread.loop, kRLDefaultMode, perform, NULL, release_and_end, true));
    thread_join(thread.thread);
    ck_assert_int_eq(performed, 1);
    ck_assert_int_eq(released, 1);
}

RL_TEST(a_request_that_is_not_queued_ends_its_thread, "S-PERF-4 S-PERF-15 S-LOOP-19",
        "What is performed inline or on a new thread is released also if it ends the thread") {
    on_thread(perform_inline, NULL);
    ck_assert_int_eq(performed, 1);
    ck_assert_int_eq(released, 1);
    ck_assert(RLPerformInBackground(perform_and_end, NULL, count_release));
    wait_until_count(&released, 2);
}
