/* SPDX-License-Identifier: MIT */
/* One thread removes a source from one loop while a second adds it to another loop: S-THR-1. However the two calls meet, the
   source is in the second loop after them, a signal from before them is performed there without another wake-up, and later
   signals reach it: S-SRC-25, S-SRC-27, S-WAKE-15. The first loop has taken the link off its stack, for a mode that it does not
   run, or the link still lies on the stack. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS = 2 };

/* Both calls of a trial begin together, in an order that differs by a few instructions from trial to trial. */
static void (*calls[CALLERS])(void);

static const char *const idle_mode = "idle"; /* the first loop never runs it */
static struct stress_loop loops[2];
static RLSourceRef source;
static atomic_ulong trial;            /* tells the callers to begin */
static atomic_ulong done;             /* calls that are done, in all trials */
static atomic_bool finished;
static struct answer answer;
static atomic_ulong value;
static RLSourceRef companion;         /* in the first loop's default mode: its perform says that the loop looked */
static struct answer looked;

enum place { ON_THE_STACK, IN_A_LIST };

static void report(void) {
    fprintf(stderr, "trial %lu, calls done %lu, signalled %d, in the loops: %d %d\n", atomic_load(&trial), atomic_load(&done),
            RLSourceIsSignalled(source), loops[0].loop && RLContainsSource(loops[0].loop, source, idle_mode),
            RLContainsSource(loops[1].loop, source, kRLDefaultMode));
}

static void perform(void *info) {
    (void)info;
    answer_give(&answer, atomic_load(&value));
}

static void look(void *info) {
    (void)info;
    answer_give(&looked, atomic_load(&value));
}

static void remove_from_first(void) { RLRemoveSource(loops[0].loop, source, idle_mode); }
static void add(void) { RLAddSource(loops[1].loop, source, kRLDefaultMode); }

static void *call(void *info) {
    uintptr_t number = (uintptr_t)info;
    uint64_t state = number;
    for (unsigned long next = 1;; next++) {
        /* Two threads that wait in the kernel would never meet within a few instructions. */
        for (unsigned turn = 1; atomic_load(&trial) < next && !atomic_load(&finished); turn++)
            if (turn % 4096 == 0) sched_yield();
        if (atomic_load(&trial) < next) return NULL;
        for (unsigned idle = stress_random(&state) % 64; idle > 0; idle--) atomic_load(&finished);
        calls[number]();
        atomic_fetch_add(&done, 1);
    }
}

static pthread_t callers[CALLERS];

static void crossing_start(void) {
    answer_init(&answer);
    stress_watchdog_start(report);
    for (uintptr_t number = 0; number < CALLERS; number++) stress_thread_start(&callers[number], call, (void *)number);
}

static void crossing_call(unsigned long number) {
    atomic_store(&trial, number);
    while (atomic_load(&done) < number * CALLERS) sched_yield();
}

static void crossing_end(void) {
    atomic_store(&finished, true);
    for (unsigned number = 0; number < CALLERS; number++) stress_thread_join(callers[number]);
    stress_watchdog_stop();
    answer_destroy(&answer);
}

/* A signal whose link lies where the trial wants it. */
static void signal_in_first_loop(enum place place) {
    RLSourceSignal(source);
    if (place == ON_THE_STACK) return;
    answer_ask(&looked, atomic_load(&value));
    RLSourceSignal(companion);
    RLWakeUp(loops[0].loop);
    answer_wait(&looked);
}

static void run_remove_beside_add(enum place place, enum stress_sleep first, enum stress_sleep second) {
    unsigned long trials = stress_count(60000);
    calls[0] = remove_from_first;
    calls[1] = add;
    answer_init(&looked);
    stress_loop_start(&loops[0], first);
    stress_loop_start(&loops[1], second);
    companion = stress_source(0, look, NULL);
    RLAddSource(loops[0].loop, companion, kRLDefaultMode);
    crossing_start();
    for (unsigned long number = 1; number <= trials; number++) {
        source = stress_source(0, perform, NULL);
        RLAddSource(loops[0].loop, source, idle_mode);
        atomic_store(&value, 2 * number - 1);
        signal_in_first_loop(place);
        answer_ask(&answer, 2 * number - 1);
        crossing_call(number);
        answer_wait(&answer);
        answer_ask(&answer, 2 * number);
        atomic_store(&value, 2 * number);
        RLSourceSignal(source);
        RLWakeUp(loops[1].loop);
        answer_wait(&answer);
        stress_progress();
        RLSourceInvalidate(source);
        RLRelease(source);
    }
    crossing_end();
    for (unsigned i = 0; i < 2; i++) RLStop(loops[i].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&loops[i]);
    RLRelease(companion);
    answer_destroy(&looked);
}

START_TEST(a_link_in_a_list_of_the_first_loop_arrives_in_the_second) { run_remove_beside_add(IN_A_LIST, SLEEP_ON_FUTEX, SLEEP_ON_FUTEX); }
END_TEST

START_TEST(a_link_on_the_stack_of_the_first_loop_arrives_in_the_second) { run_remove_beside_add(ON_THE_STACK, SLEEP_ON_FUTEX, SLEEP_IN_EPOLL); }
END_TEST

/* An event of the program's own that was triggered while it was in no loop is triggered again while it is added to one: S-KEV-7. */

static void report_event(RLSourceRef unused, const RLKernelEvent *event, void *info) {
    (void)unused;
    (void)event;
    perform(info);
}

static void trigger(void) { RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0); }

static void run_trigger_beside_add(enum stress_sleep sleep) {
    unsigned long trials = stress_count(60000);
    RLKernelEvent event = {.filter = kRLKernelFilterUser};
    calls[0] = trigger;
    calls[1] = add;
    stress_loop_start(&loops[1], sleep);
    crossing_start();
    for (unsigned long number = 1; number <= trials; number++) {
        source = RLKernelEventSourceCreate(&event, report_event, NULL);
        MUST(source != NULL);
        trigger();
        answer_ask(&answer, number);
        atomic_store(&value, number);
        crossing_call(number);
        answer_wait(&answer);
        stress_progress();
        RLSourceInvalidate(source);
        RLRelease(source);
    }
    crossing_end();
    RLStop(loops[1].loop);
    stress_loop_join(&loops[1]);
}

START_TEST(an_inbox_that_is_made_ready_while_it_is_added_is_served) { run_trigger_beside_add(SLEEP_ON_FUTEX); }
END_TEST

/* An Invalidate beside an Add: S-SRC-18, S-SRC-19. */

static atomic_ulong scheduled, cancelled;

static void be_scheduled(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    (void)loop;
    (void)mode;
    atomic_fetch_add(&scheduled, 1);
}

static void be_cancelled(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)info;
    (void)loop;
    (void)mode;
    atomic_fetch_add(&cancelled, 1);
}

static void invalidate(void) { RLSourceInvalidate(source); }

START_TEST(an_invalidation_beside_an_addition_balances_schedule_and_cancel) {
    unsigned long trials = stress_count(60000);
    RLSourceContext context = {.perform = perform, .schedule = be_scheduled, .cancel = be_cancelled};
    calls[0] = invalidate;
    calls[1] = add;
    stress_loop_start(&loops[1], SLEEP_ON_FUTEX);
    crossing_start();
    for (unsigned long number = 1; number <= trials; number++) {
        source = RLSourceCreate(0, &context);
        crossing_call(number);
        MUST_BE(atomic_load(&scheduled), ==, atomic_load(&cancelled));
        MUST(!RLContainsSource(loops[1].loop, source, kRLDefaultMode));
        stress_progress();
        RLRelease(source);
    }
    crossing_end();
    RLStop(loops[1].loop);
    stress_loop_join(&loops[1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("crossing_source");
    TCase *tests = tcase_create("calls_on_one_source_from_two_threads");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_link_in_a_list_of_the_first_loop_arrives_in_the_second);
    tcase_add_test(tests, a_link_on_the_stack_of_the_first_loop_arrives_in_the_second);
    tcase_add_test(tests, an_inbox_that_is_made_ready_while_it_is_added_is_served);
    tcase_add_test(tests, an_invalidation_beside_an_addition_balances_schedule_and_cancel);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
