/* SPDX-License-Identifier: MIT */
/* A signal handler calls RLSourceSignal, RLWakeUp and RLStop at a high rate, on a thread that is
   all the time inside the library's other functions on the same loop, and on one that changes that
   loop from outside. Nothing deadlocks and nothing is lost, also where the handler comes between
   the last look and the sleep; the handler allocates nothing, keeps errno and needs at most 4 KiB
   of stack: S-WAKE-12, S-WAKE-8, S-STOP-8, S-RUN-26, S-SRC-25. */
#define _GNU_SOURCE
#include "count_malloc.h"
#include "signal_stack.h"
#include "stress.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { extra_count = 8, handlers_stack = 512, promised_stack = 4096 };

/* A thread that takes signals on a stack of its own. */
struct victim {
    pthread_t thread;
    int id;
    struct answer answer;
    struct signal_stack stack;
    size_t stack_used;
    unsigned long posted;
    unsigned long performed; /* the loop's thread only */
    unsigned long released;  /* the loop's thread only */
    sem_t ready;
};

static struct victim on_loop, outside;
static _Thread_local unsigned char *handler_frame;
static size_t stack_room;
static RLRunLoopRef loop;
static struct stress_loop other;
static RLSourceRef source, keep, invalid, idle_port, extras[extra_count];
static int idle_fd;
static atomic_ulong published, seen, handler_calls, stops, spoiled_errnos;
static atomic_ulong extra_published[extra_count], extra_seen[extra_count];
static atomic_ulong last_value; /* 0 until it is known which value is the last */
static atomic_bool finishing, all_sent;
static bool done; /* the loop's thread only */

static void report(void) {
    fprintf(stderr, "handler calls %lu, published %lu, seen %lu, waiting %d, signalled %d, contained %d\n",
            atomic_load(&handler_calls), atomic_load(&published), atomic_load(&seen), RLIsWaiting(loop),
            RLSourceIsSignalled(source), RLContainsSource(loop, source, kRLDefaultMode));
}

/* The handler. */

__attribute__((noinline)) static void call_the_library(unsigned long value) {
    unsigned extra = value / 4 % extra_count;
    RLSourceSignal(source);
    switch (value % 4) {
    case 0:
        atomic_fetch_add(&extra_published[extra], 1);
        RLSourceSignal(extras[extra]);
        RLWakeUp(other.loop);
        break;
    case 1:
        RLSourceSignal(invalid);
        if (value % 16 != 1) break;
        RLStop(loop);
        atomic_fetch_add(&stops, 1);
        break;
    default: break;
    }
    RLWakeUp(loop);
}

static void handle(int number) {
    int saved = errno;
    (void)number;
    malloc_forbidden++;
    handler_frame = __builtin_frame_address(0);
    errno = 4242;
    call_the_library(atomic_fetch_add(&published, 1) + 1);
    if (errno != 4242) atomic_fetch_add(&spoiled_errnos, 1);
    malloc_forbidden--;
    atomic_fetch_add(&handler_calls, 1);
    errno = saved;
}

static void take_signals(struct victim *victim) {
    signal_stack_begin(&victim->stack, stack_room);
    victim->id = stress_thread_id();
    sem_post(&victim->ready);
}

static void take_no_more_signals(struct victim *victim) {
    MUST(handler_frame != NULL);
    victim->stack_used = signal_stack_end(&victim->stack, handler_frame);
}

/* What the victims do. */

static void perform(void *info) {
    (void)info;
    unsigned long value = atomic_load(&published);
    atomic_store(&seen, value);
    answer_give(&on_loop.answer, value);
    answer_give(&outside.answer, value);
    if (atomic_load(&last_value) != 0 && value >= atomic_load(&last_value)) {
        done = true;
        RLStop(loop);
    }
}

static void perform_extra(void *info) {
    atomic_ulong *most = &extra_seen[(uintptr_t)info];
    unsigned long now = atomic_load(&extra_published[(uintptr_t)info]), before = atomic_load(most);
    /* Both loops may be here at once. */
    while (before < now && !atomic_compare_exchange_weak(most, &before, now)) continue;
}

static void perform_function(void *info) { ((struct victim *)info)->performed++; }
static void release_function(void *info) {
    struct victim *victim = info;
    MUST_BE(++victim->released, ==, victim->performed);
}

static void fire(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
}

static void post(struct victim *victim) {
    victim->posted++;
    RLPerformFunction(loop, kRLDefaultMode, perform_function, victim, release_function);
}

static void change_something(struct victim *victim, uint64_t *state) {
    RLSourceRef extra = extras[stress_random(state) % extra_count];
    RLRunLoopRef where = stress_random(state) % 2 ? loop : other.loop;
    switch (stress_random(state) % 8) {
    case 0:
        RLRemoveSource(loop, source, kRLDefaultMode);
        RLAddSource(loop, source, kRLDefaultMode);
        break;
    case 1: {
        RLSourceRef added = stress_source(2, NULL, NULL);
        RLAddSource(where, added, kRLCommonModes);
        RLSourceSignal(added);
        RLSourceInvalidate(added);
        RLRelease(added);
        break;
    }
    case 2: {
        RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0.001, 0, 0, fire, NULL);
        RLAddTimer(loop, timer, kRLDefaultMode);
        RLTimerSetNextFireDate(timer, RLAbsoluteTimeGetCurrent() + 1);
        RLTimerInvalidate(timer);
        RLRelease(timer);
        break;
    }
    case 3: RLRemoveSource(where, extra, kRLDefaultMode); break;
    case 4: RLAddSource(where, extra, kRLDefaultMode); break;
    case 5:
        /* The loop sleeps now on a futex, now in epoll. */
        (stress_random(state) % 2 ? RLAddSource : RLRemoveSource)(loop, idle_port, kRLDefaultMode);
        break;
    default: post(victim);
    }
}

static void *drive_the_loop(void *info) {
    uint64_t state = 11;
    loop = RLGetCurrent();
    RLRetain(loop);
    RLAddSource(loop, keep, kRLDefaultMode);
    RLAddSource(loop, source, kRLDefaultMode);
    take_signals(info);
#ifdef STRESS_THREAD_SANITIZER
    /* The sanitizer puts a signal off to the next call it knows, so a wait must not depend on
       one. */
    RLTimeInterval longest = 0.0005;
#else
    RLTimeInterval longest = STRESS_FOREVER;
#endif
    while (!done) {
        switch (stress_random(&state) % 8) {
        case 0: RLRunInMode(kRLDefaultMode, longest, true); break;
        case 1: RLRunInMode(kRLDefaultMode, longest, false); break;
        case 2: RLRunInMode(kRLDefaultMode, 1e-4, false); break;
        case 3: RLRunInMode(kRLDefaultMode, 0, false); break;
        default: change_something(info, &state);
        }
    }
    while (!atomic_load(&all_sent)) sched_yield();
    /* A signal that is still pending arrives in this call. */
    sched_yield();
    take_no_more_signals(info);
    /* Whatever was signalled and not yet served was kept. */
    for (unsigned i = 0; i < extra_count; i++) {
        RLRemoveSource(other.loop, extras[i], kRLDefaultMode);
        RLAddSource(loop, extras[i], kRLDefaultMode);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    return NULL;
}

static void *change_from_outside(void *info) {
    uint64_t state = 12;
    take_signals(info);
    while (!atomic_load(&finishing)) {
        change_something(info, &state);
        /* On one core the loop's thread needs a turn. */
        if (stress_random(&state) % 64 == 0) sched_yield();
    }
    take_no_more_signals(info);
    return NULL;
}

/* The senders: each signal is followed until the loop has performed what its handler signalled. */

static void send(struct victim *victim) {
    answer_ask(&victim->answer, atomic_load(&published) + 1);
    MUST_BE(pthread_kill(victim->thread, SIGUSR1), ==, 0);
    answer_wait(&victim->answer);
}

static void *send_to_outside(void *info) {
    unsigned long count = *(unsigned long *)info / 4;
    for (unsigned long i = 0; i < count; i++) send(&outside);
    return NULL;
}

static void prepare(struct victim *victim) {
    memset((void *)victim, 0, sizeof *victim);
    answer_init(&victim->answer);
    sem_init(&victim->ready, 0, 0);
}

static void run(size_t room) {
    unsigned long count = stress_count(200000);
    pthread_t sender;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    struct itimerspec period = {{0, 100000}, {0, 100000}}, off = {{0, 0}, {0, 0}};
    timer_t timer;
#ifdef STRESS_SANITIZED
    room = 256 * 1024;
#endif
    stack_room = room;
    sigfillset(&action.sa_mask);
    sigaction(SIGRTMIN, &action, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    prepare(&on_loop);
    prepare(&outside);
    keep = stress_source(5, NULL, NULL);
    invalid = stress_source(6, NULL, NULL);
    RLSourceInvalidate(invalid);
    source = stress_source(0, perform, NULL);
    idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    idle_port = stress_idle_port(&idle_fd);
    for (uintptr_t i = 0; i < extra_count; i++) extras[i] = stress_source(1, perform_extra, (void *)i);
    stress_loop_start(&other, SLEEP_IN_EPOLL);
    stress_watchdog_start(report);
    stress_thread_start(&on_loop.thread, drive_the_loop, &on_loop);
    while (sem_wait(&on_loop.ready) != 0) MUST_BE(errno, ==, EINTR);
    stress_thread_start(&outside.thread, change_from_outside, &outside);
    while (sem_wait(&outside.ready) != 0) MUST_BE(errno, ==, EINTR);
    event.sigev_notify_thread_id = on_loop.id;
    MUST_BE(timer_create(CLOCK_MONOTONIC, &event, &timer), ==, 0);
    MUST_BE(timer_settime(timer, 0, &period, NULL), ==, 0);
    stress_thread_start(&sender, send_to_outside, &count);
    for (unsigned long i = 0; i < count / 2 || atomic_load(&handler_calls) < count; i++) send(&on_loop);
    stress_thread_join(sender);
    MUST_BE(timer_settime(timer, 0, &off, NULL), ==, 0);
    MUST_BE(timer_delete(timer), ==, 0);
    atomic_store(&finishing, true);
    stress_thread_join(outside.thread);
    atomic_store(&last_value, atomic_load(&published) + 1);
    send(&on_loop);
    atomic_store(&all_sent, true);
    stress_thread_join(on_loop.thread);
    RLStop(other.loop);
    stress_loop_join(&other);
    stress_watchdog_stop();

    ck_assert_uint_ge(atomic_load(&handler_calls), count);
    ck_assert_uint_gt(atomic_load(&stops), 0);
    ck_assert_uint_eq(atomic_load(&seen), atomic_load(&published));
    ck_assert_uint_eq(atomic_load(&handler_calls), atomic_load(&published));
    for (unsigned i = 0; i < extra_count; i++)
        ck_assert_uint_eq(atomic_load(&extra_seen[i]), atomic_load(&extra_published[i]));
    ck_assert_uint_eq(on_loop.released, on_loop.posted);
    ck_assert_uint_eq(outside.released, outside.posted);
    ck_assert_uint_eq(atomic_load(&spoiled_errnos), 0);
    ck_assert_uint_eq(atomic_load(&malloc_forbidden_calls), 0);
#ifndef STRESS_SANITIZED
    printf("%lu handler calls; bytes of stack used: on the loop's thread %zu, outside %zu\n",
           atomic_load(&handler_calls), on_loop.stack_used, outside.stack_used);
    ck_assert_uint_le(on_loop.stack_used, promised_stack);
    ck_assert_uint_le(outside.stack_used, promised_stack);
#endif
    for (unsigned i = 0; i < extra_count; i++) RLSourceInvalidate(extras[i]), RLRelease(extras[i]);
    RLSourceInvalidate(idle_port), RLRelease(idle_port), close(idle_fd);
    RLRelease(source), RLRelease(keep), RLRelease(invalid), RLRelease(loop);
    answer_destroy(&on_loop.answer), answer_destroy(&outside.answer);
}

/* Room enough to measure what is used. */
START_TEST(handlers_at_a_high_rate) { run(64 * 1024); }
END_TEST

/* No more room than the kernel's frame, the handler's own and the promise (S-WAKE-12). */
START_TEST(handlers_on_a_small_stack) { run(promised_stack + handlers_stack); }
END_TEST

/* Nothing was ever woken or signalled in this process but by the handler: what a runtime prepares
   at the first use must not be prepared there. */

static atomic_bool ended;

static void *wait_for_handlers(void *in_epoll) {
    loop = RLGetCurrent();
    RLRetain(loop);
    RLAddSource(loop, source, kRLDefaultMode);
    if (in_epoll != NULL) RLAddSource(loop, idle_port, kRLDefaultMode);
    sem_post(&on_loop.ready);
    while (!atomic_load(&finishing)) RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false);
    atomic_store(&ended, true);
    return NULL;
}

static void run_first_calls(bool in_epoll) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    prepare(&on_loop);
    prepare(&outside);
    source = stress_source(0, perform, NULL);
    idle_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    idle_port = stress_idle_port(&idle_fd);
    stress_watchdog_start(report);
    stress_thread_start(&on_loop.thread, wait_for_handlers, in_epoll ? &idle_fd : NULL);
    while (sem_wait(&on_loop.ready) != 0) MUST_BE(errno, ==, EINTR);
    for (int i = 0; i < 200; i++) {
        while (!RLIsWaiting(loop)) sched_yield();
        answer_ask(&on_loop.answer, atomic_load(&published) + 1);
        raise(SIGUSR1);
        answer_wait(&on_loop.answer);
    }
    atomic_store(&finishing, true);
    for (; !atomic_load(&ended); sched_yield()) raise(SIGUSR1);
    stress_thread_join(on_loop.thread);
    stress_watchdog_stop();
    ck_assert_uint_eq(atomic_load(&malloc_forbidden_calls), 0);
    ck_assert_uint_eq(atomic_load(&spoiled_errnos), 0);
    RLSourceInvalidate(idle_port), RLRelease(idle_port), close(idle_fd);
    RLRelease(source), RLRelease(loop);
    answer_destroy(&on_loop.answer), answer_destroy(&outside.answer);
}

START_TEST(the_first_wake_up_of_a_futex_is_a_handlers) { run_first_calls(false); }
END_TEST

START_TEST(the_first_wake_up_of_epoll_is_a_handlers) { run_first_calls(true); }
END_TEST

int main(void) {
    Suite *suite = suite_create("async_signals");
    TCase *tests = tcase_create("signal_wake_and_stop_in_handlers");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 900);
    tcase_add_test(tests, handlers_at_a_high_rate);
    tcase_add_test(tests, handlers_on_a_small_stack);
    tcase_add_test(tests, the_first_wake_up_of_a_futex_is_a_handlers);
    tcase_add_test(tests, the_first_wake_up_of_epoll_is_a_handlers);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
