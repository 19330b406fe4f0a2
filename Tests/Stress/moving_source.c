/* SPDX-License-Identifier: MIT */
/* A source moves between two running loops without rest while another thread signals it. A signal
   whose wake-up goes to the loop that holds the source is performed at once, exactly once,
   whichever loop that turns out to be; a signal that meets the source between two loops is kept,
   and adding it wakes the loop it comes to: S-WAKE-8, S-WAKE-15, S-SRC-25, S-SRC-27, S-SRC-30. */
#include "stress.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum move { REMOVE_THEN_ADD, ADD_THEN_REMOVE };

static struct stress_loop loops[2];
static RLSourceRef source;
static atomic_ulong moves; /* its lowest bit names the loop that holds the source, or is about to */
static atomic_bool finished;
static enum move move;
static struct answer answer;
static atomic_ulong value, performed_by[2];

static void report(void) {
    fprintf(stderr, "value %lu, waits for %lu, moves %lu, signalled %d\n", atomic_load(&value),
            atomic_load(&answer.wanted), atomic_load(&moves), RLSourceIsSignalled(source));
    for (unsigned i = 0; i < 2; i++)
        fprintf(stderr, "loop %u: performed %lu, waiting %d, holds the source %d\n", i,
                atomic_load(&performed_by[i]), RLIsWaiting(loops[i].loop),
                RLContainsSource(loops[i].loop, source, kRLDefaultMode));
}

static void perform(void *info) {
    (void)info;
    atomic_fetch_add(&performed_by[RLGetCurrent() == loops[0].loop ? 0 : 1], 1);
    answer_give(&answer, atomic_load(&value));
}

static void *move_on(void *unused) {
    while (!atomic_load(&finished)) {
        unsigned to = (atomic_load(&moves) + 1) % 2;
        /* Announced first: who reads this before the signal wakes the right loop, or the addition,
           which then comes later than the signal, does. */
        atomic_fetch_add(&moves, 1);
        if (move == REMOVE_THEN_ADD) RLRemoveSource(loops[1 - to].loop, source, kRLDefaultMode);
        RLAddSource(loops[to].loop, source, kRLDefaultMode);
        if (move == ADD_THEN_REMOVE) RLRemoveSource(loops[1 - to].loop, source, kRLDefaultMode);
        /* On one core the loops need a turn, and an odd number gives either of them one. */
        if (atomic_load(&moves) % 7 == 0) sched_yield();
    }
    return unused;
}

static void signal_and_wake(void) {
    unsigned long before = atomic_load(&moves), now;
    RLSourceSignal(source);
    RLWakeUp(loops[before % 2].loop);
    /* The holder may have changed before the signal: then the new one has to be woken. */
    while ((now = atomic_load(&moves)) != before) {
        before = now;
        RLWakeUp(loops[before % 2].loop);
        if (atomic_load(&answer.wanted) == 0) break;
    }
}

static void run(enum move how, enum stress_sleep first, enum stress_sleep second) {
    unsigned long signals = stress_count(60000);
    pthread_t mover;
    move = how;
    source = stress_source(0, perform, NULL);
    answer_init(&answer);
    stress_loop_start(&loops[0], first);
    stress_loop_start(&loops[1], second);
    RLAddSource(loops[0].loop, source, kRLDefaultMode);
    stress_watchdog_start(report);
    stress_thread_start(&mover, move_on, NULL);
    /* Until both had a share: else nothing moved. */
    unsigned long made = 0;
    while (made < signals || atomic_load(&performed_by[0]) == 0 || atomic_load(&performed_by[1]) == 0) {
        made++;
        answer_ask(&answer, made);
        atomic_store(&value, made);
        signal_and_wake();
        answer_wait(&answer);
    }
    atomic_store(&finished, true);
    stress_thread_join(mover);
    for (unsigned i = 0; i < 2; i++) RLStop(loops[i].loop);
    for (unsigned i = 0; i < 2; i++) stress_loop_join(&loops[i]);
    stress_watchdog_stop();
    RLRelease(source);
    answer_destroy(&answer);
    ck_assert_uint_eq(atomic_load(&performed_by[0]) + atomic_load(&performed_by[1]), made);
}

START_TEST(removed_from_one_loop_then_added_to_the_other) { run(REMOVE_THEN_ADD, SLEEP_ON_FUTEX, SLEEP_ON_FUTEX); }
END_TEST

START_TEST(added_to_the_other_loop_then_removed_from_the_first) {
    run(ADD_THEN_REMOVE, SLEEP_ON_FUTEX, SLEEP_ON_FUTEX);
}
END_TEST

START_TEST(moved_between_a_futex_and_epoll) { run(REMOVE_THEN_ADD, SLEEP_ON_FUTEX, SLEEP_IN_EPOLL); }
END_TEST

START_TEST(overlapping_between_a_futex_and_epoll) { run(ADD_THEN_REMOVE, SLEEP_ON_FUTEX, SLEEP_IN_EPOLL); }
END_TEST

int main(void) {
    Suite *suite = suite_create("moving_source");
    TCase *tests = tcase_create("no_signal_is_lost_on_the_way");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, removed_from_one_loop_then_added_to_the_other);
    tcase_add_test(tests, added_to_the_other_loop_then_removed_from_the_first);
    tcase_add_test(tests, moved_between_a_futex_and_epoll);
    tcase_add_test(tests, overlapping_between_a_futex_and_epoll);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
