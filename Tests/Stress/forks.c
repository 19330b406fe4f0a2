/* SPDX-License-Identifier: MIT */
/* A thread forks two hundred times from a timer of its loop, while two threads signal and wake that
   loop, two queue functions for it, and two more drive loops of their own. Each child goes on with
   the loop it inherited: what was signalled or queued is there, timed waits end, timers,
   descriptors and new threads work. The parent goes on meanwhile and never notices: S-FORK-1,
   S-FORK-2. */
#include "stress.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { poster_count = 2, most_children = 4 };

struct poster {
    struct answer signalled, performed;
    atomic_ulong value;     /* of the signals */
    unsigned long next;     /* the forking thread only: the function that is to run next */
    unsigned long releases; /* the forking thread only */
    unsigned long posted;   /* read after the join */
    unsigned index;
    pthread_t signaller, thread;
};

static struct poster posters[poster_count];
static struct stress_loop others[2];
static RLSourceRef other_sources[2];
static RLRunLoopRef loop;
static RLSourceRef source, keep, idle_port;
static int idle_fd;
static RLTimerRef forking_timer;
static unsigned long performs; /* the forking thread only */
static unsigned long forks, children, reaped;
static atomic_bool finished;
static atomic_ulong other_hits;

static void report(void) {
    fprintf(stderr, "forks %lu, reaped %lu, waiting %d, other loops' hits %lu\n", forks, reaped, RLIsWaiting(loop),
            atomic_load(&other_hits));
}

static void perform(void *info) {
    (void)info;
    performs++;
    for (unsigned i = 0; i < poster_count; i++)
        answer_give(&posters[i].signalled, atomic_load(&posters[i].value));
}

static void function_perform(void *info) {
    struct poster *poster = &posters[(uintptr_t)info % poster_count];
    MUST_BE((uintptr_t)info / poster_count, ==, poster->next);
    poster->next++;
    answer_give(&poster->performed, poster->next - 1);
}

static void function_release(void *info) {
    struct poster *poster = &posters[(uintptr_t)info % poster_count];
    MUST_BE(++poster->releases, ==, poster->next - 1);
}

static void *signal_on(void *info) {
    struct poster *poster = info;
    for (unsigned long value = 1; !atomic_load(&finished); value++) {
        bool wait = value % 16 == 0;
        if (wait) answer_ask(&poster->signalled, value);
        atomic_store(&poster->value, value);
        RLSourceSignal(source);
        RLWakeUp(loop);
        if (wait) answer_wait(&poster->signalled);
    }
    return NULL;
}

static void *post_on(void *info) {
    struct poster *poster = info;
    for (unsigned long value = 1; !atomic_load(&finished); value++) {
        bool wait = value % 64 == 0;
        if (wait) answer_ask(&poster->performed, value);
        RLPerformFunction(loop, kRLDefaultMode, function_perform,
                          (void *)(uintptr_t)(value * poster_count + poster->index), function_release);
        RLWakeUp(loop);
        poster->posted = value;
        if (wait) answer_wait(&poster->performed);
    }
    return NULL;
}

/* The other loops play to each other for ever. */
static void other_perform(void *info) {
    unsigned other = 1 - (unsigned)(uintptr_t)info;
    atomic_fetch_add(&other_hits, 1);
    if (atomic_load(&finished)) RLStop(RLGetCurrent());
    RLSourceSignal(other_sources[other]);
    RLWakeUp(others[other].loop);
}

/* In the child. */

static int child_fd;
static bool child_called;

static void child_call(void *info) {
    (void)info;
    child_called = true;
}

static void child_fire(RLTimerRef timer, void *info) {
    (void)timer;
    child_call(info);
    RLStop(loop);
}

static RLPort child_port_of(void *info) { return *(int *)info; }

static void *child_thread(void *signalled) {
    MUST(RLGetCurrent() != loop);
    RLSourceSignal(signalled);
    RLWakeUp(loop);
    return NULL;
}

static void be_the_child(void) {
    /* A hang must not outlive the test. */
    alarm(100);
    MUST(RLGetCurrent() == loop);
    MUST(RLGetMain() == loop);

    /* A flag that a vanished thread had set is a signal, even if that thread got no further. */
    unsigned long before = performs;
    bool signalled = RLSourceIsSignalled(source);
    MUST_BE(RLRunInMode(kRLDefaultMode, 0, true), ==, signalled ? kRLRunHandledSource : kRLRunTimedOut);
    MUST_BE(performs - before, ==, signalled);
    MUST(!RLSourceIsSignalled(source));

    /* Functions queued behind those inherited run after them; the order is checked as they run. */
    child_called = false;
    RLPerformFunction(loop, kRLDefaultMode, child_call, NULL, NULL);
    MUST_BE(RLRunInMode(kRLDefaultMode, 0, false), ==, kRLRunTimedOut);
    MUST(child_called);

    /* Waits with a deadline end, and end by the deadline. */
    before = performs;
    MUST_BE(RLRunInMode(kRLDefaultMode, 0.001, true), ==, kRLRunTimedOut);
    MUST_BE(performs, ==, before);
    RLSourceSignal(source);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, true), ==, kRLRunHandledSource);
    MUST_BE(performs, ==, before + 1);

    /* A timer ends a wait. */
    child_called = false;
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.001, 0, 0, 0, child_fire, NULL);
    RLAddTimer(loop, timer, kRLDefaultMode);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
    MUST(child_called);
    RLRelease(timer);

    /* So does a descriptor. */
    uint64_t one = 1;
    child_called = false;
    child_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    RLSourceContext1 context = {.version = 1, .info = &child_fd, .getPort = child_port_of, .perform = child_call};
    RLSourceRef port = RLSourceCreate(0, (RLSourceContext *)&context);
    RLAddSource(loop, port, kRLDefaultMode);
    MUST_BE(write(child_fd, &one, sizeof one), ==, (ssize_t)sizeof one);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, true), ==, kRLRunHandledSource);
    MUST(child_called);
    RLSourceInvalidate(port);
    RLRelease(port);
    close(child_fd);

    /* So does a new thread, which has a loop of its own. */
    pthread_t thread;
    before = performs;
    stress_thread_start(&thread, child_thread, source);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, true), ==, kRLRunHandledSource);
    MUST_BE(performs, ==, before + 1);
    stress_thread_join(thread);
    _exit(0);
}

/* In the parent. */

static void reap(bool wait) {
    int status = 0;
    pid_t child;
    while (children > 0 && (child = waitpid(-1, &status, wait ? 0 : WNOHANG)) != 0) {
        MUST(child > 0 || errno == EINTR);
        if (child < 0) continue;
        MUST_BE(status, ==, 0);
        children--;
        reaped++;
        wait = false;
    }
}

static void fork_once(RLTimerRef timer, void *info) {
    (void)timer;
    reap(children == most_children);
    if (forks == *(unsigned long *)info) {
        RLStop(loop);
        return;
    }
    forks++;
    pid_t child = fork();
    MUST_BE(child, >=, 0);
    if (child == 0) be_the_child();
    children++;
    stress_progress();
}

static void set_up(unsigned long *how_many) {
    RLTimerContext context = {.info = how_many};
    loop = RLGetCurrent();
    source = stress_source(0, perform, NULL);
    keep = stress_source(1, NULL, NULL);
    idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    idle_port = stress_idle_port(&idle_fd);
    forking_timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0.002, 0, 0, fork_once, &context);
    RLAddSource(loop, source, kRLDefaultMode);
    RLAddSource(loop, keep, kRLDefaultMode);
    RLAddTimer(loop, forking_timer, kRLDefaultMode);
    for (unsigned i = 0; i < poster_count; i++) {
        posters[i].index = i;
        posters[i].next = 1;
        answer_init(&posters[i].signalled);
        answer_init(&posters[i].performed);
    }
    for (unsigned i = 0; i < 2; i++) {
        stress_loop_start(&others[i], i == 0 ? SLEEP_ON_FUTEX : SLEEP_IN_EPOLL);
        other_sources[i] = stress_source(0, other_perform, (void *)(uintptr_t)i);
    }
    for (unsigned i = 0; i < 2; i++) RLAddSource(others[i].loop, other_sources[i], kRLDefaultMode);
}

/* The loops go on after the last fork: one runs still, until everything asked of it was
   answered. */
static void *wait_for_the_end(void *unused) {
    for (unsigned i = 0; i < poster_count; i++) {
        stress_thread_join(posters[i].signaller);
        stress_thread_join(posters[i].thread);
    }
    RLStop(loop);
    return unused;
}

/* Runs as a function of the loop, so that the stop at the end meets a run. */
static void start_the_end(void *thread) { stress_thread_start(thread, wait_for_the_end, NULL); }

static void run(bool in_epoll) {
    unsigned long how_many = stress_count_at_least(200, 40);
    pthread_t end;
    set_up(&how_many);
    if (in_epoll) RLAddSource(loop, idle_port, kRLDefaultMode);
    stress_watchdog_start(report);
    for (unsigned i = 0; i < poster_count; i++) {
        stress_thread_start(&posters[i].signaller, signal_on, &posters[i]);
        stress_thread_start(&posters[i].thread, post_on, &posters[i]);
    }
    RLSourceSignal(other_sources[0]);
    RLWakeUp(others[0].loop);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
    RLTimerInvalidate(forking_timer);
    while (children > 0) reap(true);

    unsigned long hits = atomic_load(&other_hits), performed = performs;
    while (atomic_load(&other_hits) < hits + 100) sched_yield();
    atomic_store(&finished, true);
    RLPerformFunction(loop, kRLDefaultMode, start_the_end, &end, NULL);
    MUST_BE(RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false), ==, kRLRunStopped);
    stress_thread_join(end);
    ck_assert_uint_ge(performs, performed);
    ck_assert_uint_eq(forks, how_many);
    ck_assert_uint_eq(reaped, how_many);
    for (unsigned i = 0; i < 2; i++) RLStop(others[i].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&others[i]);
    stress_watchdog_stop();
    /* What came at the last moment is served here. */
    RLRunInMode(kRLDefaultMode, 0, false);
    for (unsigned i = 0; i < poster_count; i++) {
        ck_assert_uint_eq(posters[i].next - 1, posters[i].posted);
        ck_assert_uint_eq(posters[i].releases, posters[i].posted);
        answer_destroy(&posters[i].signalled);
        answer_destroy(&posters[i].performed);
        RLRelease(other_sources[i]);
    }
    RLSourceInvalidate(source);
    RLSourceInvalidate(idle_port);
    RLSourceInvalidate(keep);
    RLRelease(source);
    RLRelease(idle_port);
    RLRelease(keep);
    RLRelease(forking_timer);
    close(idle_fd);
}

static void *run_here(void *in_epoll) {
    run(in_epoll != NULL);
    return NULL;
}

START_TEST(the_main_thread_forks_from_a_loop_on_a_futex) { run(false); }
END_TEST

START_TEST(the_main_thread_forks_from_a_loop_in_epoll) { run(true); }
END_TEST

/* The forking thread's loop is the child's main loop (S-FORK-1). */
START_TEST(another_thread_forks) {
    pthread_t thread;
    stress_thread_start(&thread, run_here, NULL);
    stress_thread_join(thread);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("forks");
    TCase *tests = tcase_create("fork_under_load");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, the_main_thread_forks_from_a_loop_on_a_futex);
    tcase_add_test(tests, the_main_thread_forks_from_a_loop_in_epoll);
    tcase_add_test(tests, another_thread_forks);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
