/* SPDX-License-Identifier: MIT */
/*
 * Forks in a function that a call of the library calls: the child goes on with the call, on its own loop as the parent does, and on a loop that does
 * not exist there without effect.
 */
#include "support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum place { IN_SCHEDULE = 1, IN_EQUAL, IN_HASH };

static enum place forks_in;
static bool in_child;
static int schedules, releases;
static RLRunLoopRef loop;
static RLSourceRef source;

/* Once. The parent waits for the child, whose checks are those of the case. */
static void fork_in(enum place place) {
    if (forks_in != place) return;
    forks_in = 0;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    in_child = child == 0;
    if (in_child) return;
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
static void end_child(void) {
    if (in_child) _exit(0);
}

static void scheduled(void *info, RLRunLoopRef to, RLMode mode) {
    (void)info, (void)to, (void)mode;
    schedules++;
    fork_in(IN_SCHEDULE);
}
static bool differ(const void *one, const void *other) {
    fork_in(IN_EQUAL);
    return one == other;
}
static RLHashCode hash_alike(const void *info) {
    (void)info;
    fork_in(IN_HASH);
    return 7;
}
static void count_release(const void *info) {
    (void)info;
    releases++;
}
static RLSourceRef make_source(void *info) {
    RLSourceContext context = {.info = info, .release = count_release, .equal = differ, .hash = hash_alike, .schedule = scheduled};
    return RLSourceCreate(0, &context);
}

RL_TEST(a_common_mode_is_added_in_the_child, "S-FORK-1 S-MODE-12", "All common items join the mode on both sides of a fork in a schedule") {
    loop = RLGetCurrent();
    RLSourceRef sources[2];
    for (int i = 0; i < 2; i++) {
        sources[i] = make_source(&sources[i]);
        RLAddSource(loop, sources[i], kRLCommonModes);
    }
    forks_in = IN_SCHEDULE;
    RLAddCommonMode(loop, "mode");
    ck_assert_int_eq(schedules, 4);
    for (int i = 0; i < 2; i++) {
        ck_assert(RLContainsSource(loop, sources[i], "mode"));
        RLSourceInvalidate(sources[i]);
        ck_assert_int_eq(RLGetRetainCount(sources[i]), 1);
        RLRelease(sources[i]);
    }
    end_child();
}

/* On a thread whose calls concern the main thread's loop, which is not there in the child. */
static enum place place;
static RLMode mode;
static void add_to_other_loop(void *has_loop) {
    if (has_loop) RLGetCurrent();
    RLSourceRef added = make_source(&added);
    forks_in = place;
    RLAddSource(loop, added, mode);
    ck_assert_int_eq(RLContainsSource(loop, added, mode), !in_child);
    if (in_child) {
        RLIndex count;
        free(RLCopyAllModes(loop, &count));
        ck_assert_int_eq(count, 1);
        ck_assert_int_eq(RLGetRetainCount(added), 1);
    }
    RLSourceInvalidate(added);
    RLRelease(added);
    ck_assert_int_eq(releases, 1);
    releases = 0;
    end_child();
}

RL_TEST(an_add_to_a_loop_that_vanishes, "S-FORK-3 S-SRC-6",
        "An Add whose hash or equal forks on another thread than the loop's has no effect in the child, also for the common modes") {
    loop = RLGetCurrent();
    source = make_source(&source);
    RLAddSource(loop, source, kRLCommonModes);
    RLAddSource(loop, source, "mode");
    for (place = IN_EQUAL; place <= IN_HASH; place++) {
        for (long has_loop = 0; has_loop < 2; has_loop++) {
            mode = kRLCommonModes;
            thread_join(thread_start(add_to_other_loop, (void *)has_loop));
            mode = "mode";
            thread_join(thread_start(add_to_other_loop, (void *)has_loop));
        }
    }
    mode = "another";
    place = IN_HASH;
    thread_join(thread_start(add_to_other_loop, NULL));
}

/* Each side asserts while the other forks: of the harness it proves that no child waits for Check's lock. */
static int forks_done;
static void fork_again_and_again(void *unused) {
    (void)unused;
    for (int i = 0; i < 200; i++) {
        forks_in = IN_HASH;
        RLSourceRef added = make_source(&added);
        RLAddSource(loop, added, kRLDefaultMode);
        ck_assert_int_eq(RLContainsSource(loop, added, kRLDefaultMode), !in_child);
        end_child();
        RLSourceInvalidate(added);
        RLRelease(added);
    }
    __atomic_store_n(&forks_done, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(forks_beside_a_thread_that_asks, "S-FORK-3 S-FORK-4", "A thread that adds to a loop forks at each Add, while the loop's own thread looks into it") {
    loop = RLGetCurrent();
    source = make_source(&source);
    RLAddSource(loop, source, kRLDefaultMode);
    Thread *thread = thread_start(fork_again_and_again, NULL);
    while (!count_of(&forks_done)) ck_assert(RLContainsSource(loop, source, kRLDefaultMode));
    thread_join(thread);
}

#if !defined(WITH_THREAD_SANITIZER) /* It takes a thread in the last round of its destructors for gone. */
static void do_nothing(void *unused) { (void)unused; }
static pid_t freed_in_child;
static void wait_for_the_main_loop(void *unused) {
    (void)unused;
    /* The thread that forked, which is the main one here, ends: its loop is not any more, and nobody will run another one. */
    if (RLPerformOnLoop(RLGetMain(), kRLDefaultMode, do_nothing, NULL, NULL, true)) _exit(1);
    _exit(0);
}
static void fork_at_the_end(void *unused) {
    (void)unused;
    freed_in_child = fork();
    if (freed_in_child != 0) return;
    alarm(30);
    thread_start(wait_for_the_main_loop, NULL);
}
static void leave_a_function(void *unused) {
    (void)unused;
    RLPerformFunction(RLGetCurrent(), "not run", do_nothing, NULL, fork_at_the_end);
}

RL_TEST(forks_while_its_loop_is_freed, "S-LOOP-13 S-FORK-1 S-FORK-4",
        "In a child that a release function at the end of a thread forks, callers that wait for the main loop hear of the end of the main thread") {
    thread_join(thread_start(leave_a_function, NULL));
    int status = -1;
    ck_assert_int_eq(waitpid(freed_in_child, &status, 0), freed_in_child);
    ck_assert_int_eq(status, 0);
}
#endif
