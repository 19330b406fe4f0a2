/* SPDX-License-Identifier: MIT */
/* Section 31: the order of locks in files that are compiled with RL_CHECKS=2. No case ever blocks. */
#define RL_CHECKS 2
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static RLLock a, b, c;
static RLRecursiveLock recursive;
static RLReadWriteLock shared;
static RLConditionLock numbered;

/* Each is a frame that a stack must show. */
#define FRAME __attribute__((noinline, noclone))
FRAME static void a_then_b(void) {
    RLLockLock(&a);
    RLLockLock(&b);
    RLLockUnlock(&b);
    RLLockUnlock(&a);
}
FRAME static void b_then_a(void) {
    RLLockLock(&b);
    RLLockLock(&a);
    RLLockUnlock(&b); /* in any order */
    RLLockUnlock(&a);
}
FRAME static void b_then_c(void) {
    RLLockLock(&b);
    RLLockLock(&c);
    RLLockUnlock(&c);
    RLLockUnlock(&b);
}
FRAME static void c_then_a(void) {
    RLLockLock(&c);
    RLLockLock(&a);
    RLLockUnlock(&a);
    RLLockUnlock(&c);
}

FRAME static void shared_then_recursive(void) {
    RLReadWriteLockLockForReading(&shared);
    RLRecursiveLockLock(&recursive);
    RLRecursiveLockLock(&recursive);
    RLRecursiveLockUnlock(&recursive);
    RLRecursiveLockUnlock(&recursive);
    RLReadWriteLockUnlock(&shared);
}
FRAME static void numbered_then_shared(void) {
    RLConditionLockLockWhenCondition(&numbered, 0);
    RLReadWriteLockLockForWriting(&shared);
    RLReadWriteLockUnlock(&shared);
    RLConditionLockUnlock(&numbered);
}
FRAME static void recursive_then_numbered(void) {
    RLRecursiveLockLock(&recursive);
    RLConditionLockLockWhenCondition(&numbered, 0);
    RLConditionLockUnlock(&numbered);
    RLRecursiveLockUnlock(&recursive);
}

static int form;
FRAME static void b_then_a_in_time(void) {
    const double limits[] = {1e300, HUGE_VAL, NAN, 5.1e8};
    RLLockLock(&b);
    switch (form % 3) {
    case 0: RLLockInMode(&a, NULL, limits[form / 3]); break;
    case 1: RLLockLockForSeconds(&a, limits[form / 3]); break;
    default: RLLockLockBeforeDate(&a, 1e9 + limits[form / 3]); break;
    }
    RLLockUnlock(&a);
    RLLockUnlock(&b);
}

/* The function above that an address is in, or follows. */
static uintptr_t frame_of(uintptr_t address) {
    void (*const frames[])(void) = {a_then_b, b_then_a, b_then_c, c_then_a, shared_then_recursive, numbered_then_shared, recursive_then_numbered,
                                      b_then_a_in_time};
    uintptr_t found = 0;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        uintptr_t start = (uintptr_t)frames[i];
        if (start < address && start > found) found = start;
    }
    return found;
}
static bool shows(const char *text, const char *end, void (*function)(void)) {
    for (const char *at = text; (at = strstr(at, "[0x")) && at < end; at++) {
        if (frame_of(strtoul(at + 1, NULL, 16)) == (uintptr_t)function) return true;
    }
    return false;
}

static const char *report(void (*function)(void *)) {
    static ChildResult result;
    result = run_child(function, NULL);
    ck_assert(WIFEXITED(result.status));
    ck_assert_int_eq(WEXITSTATUS(result.status), 0);
    return result.output;
}
static void expect_report(const char *text, void (*earlier)(void), void (*later)(void)) {
    const char *end = text + strlen(text);
    ck_assert_msg(strncmp(text, "RunLoop: lock order: ", 21) == 0, "%s", text);
    const char *second = strstr(text, "\nRunLoop: ... and ");
    ck_assert_ptr_nonnull(second);
    ck_assert_msg(shows(text, second, earlier), "%s", text);
    ck_assert_msg(shows(second, end, later), "%s", text);
    ck_assert_ptr_null(strstr(second + 2, "RunLoop:")); /* once */
}

static void run(void *function) { (*(void (**)(void))function)(); }
static void on_thread(void (*function)(void)) { thread_join(thread_start(run, &function)); }

static void two_orders(void *unused) {
    (void)unused;
    for (int i = 0; i < 3; i++) {
        on_thread(a_then_b);
        on_thread(b_then_a);
    }
}
static void a_circle_of_three(void *unused) {
    (void)unused;
    on_thread(c_then_a);
    on_thread(a_then_b);
    on_thread(b_then_c);
}

RL_TEST(two_orders_are_told, "S-SYNC-27", "Two locks that were taken in two orders, one after the other, are reported once with both stacks") {
    const char *text = report(two_orders);
    expect_report(text, a_then_b, b_then_a);
    char line[128];
    snprintf(line, sizeof line, "RunLoop: lock order: %p was held before %p\n", (void *)&a, (void *)&b);
    ck_assert_int_eq(strncmp(text, line, strlen(line)), 0);
}

RL_TEST(circles_are_told, "S-SYNC-27", "A circle of three locks is reported, with the stacks of all three orders") {
    const char *text = report(a_circle_of_three);
    expect_report(text, c_then_a, b_then_c);
    expect_report(text, a_then_b, b_then_c);
}

static void all_kinds(void *unused) {
    (void)unused;
    shared_then_recursive();
    numbered_then_shared();
    recursive_then_numbered();
}

RL_TEST(locks_of_all_kinds_have_an_order, "S-SYNC-27", "Recursive, read-write and condition locks are in one order with plain ones") {
    expect_report(report(all_kinds), shared_then_recursive, recursive_then_numbered);
}

static void two_orders_without_output(void *unused) {
    (void)unused;
    a_then_b();
    close(STDERR_FILENO);
    errno = EDOM;
    b_then_a();
    _exit(errno == EDOM ? 0 : 1);
}

RL_TEST(a_report_leaves_errno, "S-SYNC-2 S-SYNC-27", "A report that cannot be written does not change errno") {
    ck_assert_str_eq(report(two_orders_without_output), "");
}

static void orders_in_time(void *unused) {
    (void)unused;
    a_then_b();
    b_then_a_in_time();
}

RL_TEST(a_limit_that_is_none_has_an_order, "S-SYNC-27 S-SYNC-4", "A lock that is waited for in a mode or for some time, but without a limit, is in the order") {
    for (form = 0; form < 12; form++) expect_report(report(orders_in_time), a_then_b, b_then_a_in_time);
}

static void good_orders(void *unused) {
    (void)unused;
    a_then_b();
    on_thread(a_then_b);
    /* Who only tries, or for some time, blocks nobody for ever. */
    RLLockLock(&b);
    ck_assert(RLLockTryLock(&a));
    RLLockUnlock(&a);
    ck_assert(RLLockLockForSeconds(&a, 1));
    RLLockUnlock(&a);
    ck_assert(RLLockInMode(&a, NULL, 1e6));
    RLLockUnlock(&a);
    RLLockUnlock(&b);
    /* One after the other is no order. */
    RLLockLock(&b);
    RLLockUnlock(&b);
    RLLockLock(&a);
    RLLockUnlock(&a);
    /* Other locks in the same memory. */
    RLLockOrderForget(&a, sizeof a);
    b_then_a();
}

RL_TEST(good_orders_are_not_told, "S-SYNC-27", "One order, attempts, and locks in memory that was forgotten are no reason to complain") {
    ck_assert_str_eq(report(good_orders), "");
}

static void *cancelled_b_then_a(void *unused) {
    pthread_cancel(pthread_self());
    b_then_a();
    trace("unlocked");
    pthread_testcancel();
    return unused;
}
static void cancelled(void *unused) {
    (void)unused;
    pthread_t thread;
    a_then_b();
    pthread_create(&thread, NULL, cancelled_b_then_a, NULL);
    pthread_join(thread, NULL);
    expect_trace("unlocked");
    b_then_c();
}

RL_TEST(a_report_is_no_cancellation_point, "S-SYNC-3 S-SYNC-27", "A thread that is to be cancelled writes its report, and goes on to its own cancellation point") {
    expect_report(report(cancelled), a_then_b, b_then_a);
}

enum { CHAIN = 4000 };
static RLLock chain[CHAIN];
static void *take_before_the_chain(void *unused) {
    RLLockLock(&a);
    RLLockLock(&chain[0]);
    RLLockUnlock(&chain[0]);
    RLLockUnlock(&a);
    return unused;
}
static void a_long_chain(void *unused) {
    (void)unused;
    pthread_attr_t attributes;
    pthread_t thread;
    RLLockLock(&chain[0]);
    for (int i = 1; i < CHAIN; i++) {
        RLLockLock(&chain[i]);
        RLLockUnlock(&chain[i - 1]);
    }
    RLLockUnlock(&chain[CHAIN - 1]);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 * 1024);
    ck_assert_int_eq(pthread_create(&thread, &attributes, take_before_the_chain, NULL), 0);
    pthread_join(thread, NULL);
}

RL_TEST(a_chain_needs_no_stack, "S-SYNC-27", "A thread with a small stack takes a lock that is the first of a long chain of orders") {
    ck_assert_str_eq(report(a_long_chain), "");
}

static Gate reports = GATE_INITIALIZER;
static void open_and_lock(void) {
    gate_open(&reports);
    b_then_a();
}
static void lock_while_another_reports(void *unused) {
    (void)unused;
    void (*function)(void) = open_and_lock;
    a_then_b();
    flockfile(stderr);
    Thread *thread = thread_start(run, &function);
    gate_wait(&reports);
    take_time(0.05); /* So that the thread waits to write; the case holds if it does not. */
    c_then_a();
    funlockfile(stderr);
    thread_join(thread);
}

RL_TEST(a_report_keeps_no_thread_from_locking, "S-SYNC-27", "A thread locks while another one waits to write its report, as for a thread that loads a library") {
    expect_report(report(lock_while_another_reports), a_then_b, b_then_a);
}

static void fork_in_between(void *unused) {
    (void)unused;
    a_then_b();
    pid_t child = fork();
    if (child == 0) {
        b_then_a();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

RL_TEST(a_child_knows_the_orders, "S-SYNC-27", "The child of fork reports what contradicts an order of its parent") {
    expect_report(report(fork_in_between), a_then_b, b_then_a);
}

enum { ORDERS = 4096 };
static RLLock many[ORDERS + 1];
static void too_many_orders(void *unused) {
    (void)unused;
    for (int i = 0; i <= ORDERS; i++) {
        RLLockLock(&a);
        RLLockLock(&many[i]);
        RLLockUnlock(&many[i]);
        RLLockUnlock(&a);
    }
    b_then_c();
    RLLockOrderForget(many, sizeof many);
    a_then_b();
    b_then_a();
}

RL_TEST(no_room_is_told, "S-SYNC-27", "When there is no room for another order one line says so, and there is room again when others were forgotten") {
    const char *text = report(too_many_orders);
    static const char line[] = "RunLoop: lock order: there is no room for more than 4096 orders\n";
    ck_assert_int_eq(strncmp(text, line, strlen(line)), 0);
    ck_assert_ptr_null(strstr(text + strlen(line), "no room"));
    expect_report(text, a_then_b, b_then_a);
}
