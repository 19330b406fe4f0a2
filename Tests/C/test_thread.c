/* SPDX-License-Identifier: MIT */
/* Section 28: threads that live in their loops. */
#define _GNU_SOURCE
#include "support.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void record(void *word) { trace("%s", (const char *)word); }
static void record_release(void *word) { trace("-%s", (const char *)word); }
static void count_up(void *counter) { ++*(int *)counter; }
static void return_at_once(RLThreadRef thread, void *info) { (void)thread, (void)info; }

static int port_of_a_source(void *info) {
    (void)info;
    return -1;
}
RL_TEST(the_library_s_source_equals_none, "S-THREAD-2 S-SRC-5 S-SEE-4",
        "The loop of a thread without a body has no source: none to be listed, and none that equals one of the program's") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLIndex count = -1;
    free(RLCopyItems(loop, kRLDefaultMode, kRLItemSources, &count));
    ck_assert_int_eq(count, 0);
    RLSourceContext1 context = {.version = 1, .getPort = port_of_a_source};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    ck_assert(!RLContainsSource(loop, source, kRLDefaultMode));
    RLAddSource(loop, source, kRLDefaultMode);
    ck_assert(RLContainsSource(loop, source, kRLDefaultMode));
    ck_assert_int_eq(RLGetRetainCount(source), 2);
    RLSourceInvalidate(source);
    RLRelease(source);
    ck_assert(RLThreadEnd(thread));
    RLRelease(thread);
}

RL_TEST(loop_is_ready, "S-THREAD-1 S-THREAD-2 S-LOOP-6",
        "Start returns when the loop is there: a request to it runs at once; a thread without a body lives though its loop is empty; "
        "start is for once") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    int counter = 0;
    ck_assert_ptr_null(RLThreadGetRunLoop(thread));
    ck_assert(!RLThreadIsExecuting(thread) && !RLThreadIsFinished(thread) && !RLThreadIsCancelled(thread));
    ck_assert(!RLThreadJoin(thread));
    ck_assert(RLThreadStart(thread));
    ck_assert(!RLThreadStart(thread));
    ck_assert(RLThreadIsExecuting(thread));
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    ck_assert_ptr_nonnull(loop);
    ck_assert_ptr_ne(loop, RLGetCurrent());
    wait_until_waiting(loop);
    ck_assert(stays_waiting(loop, 0.02));
    ck_assert(RLPerformOnLoop(loop, kRLCommonModes, count_up, &counter, NULL, true));
    ck_assert_int_eq(counter, 1);
    ck_assert(RLThreadEnd(thread));
    ck_assert(RLThreadIsFinished(thread) && RLThreadIsCancelled(thread) && !RLThreadIsExecuting(thread));
    ck_assert_ptr_eq(RLThreadGetRunLoop(thread), loop);
    ck_assert(!RLPerformOnLoop(loop, kRLCommonModes, count_up, &counter, NULL, true));
    ck_assert(RLThreadJoin(thread) && RLThreadEnd(thread));
    RLRelease(thread);
}

static void body_checks(RLThreadRef thread, void *word) {
    char name[32] = "";
    ck_assert_ptr_eq(RLThreadGetCurrent(), thread);
    ck_assert_ptr_eq(RLThreadGetRunLoop(thread), RLGetCurrent());
    ck_assert(!RLThreadIsMain());
    ck_assert(RLThreadIsExecuting(thread));
    prctl(PR_GET_NAME, name, 0, 0, 0);
    ck_assert_str_eq(name, "a thread with a"); /* The kernel keeps 15 bytes. */
    ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), 7);
    pthread_attr_t attributes;
    size_t size = 0;
    ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    ck_assert_uint_ge(size, 3000001);
    ck_assert(!RLThreadJoin(thread));
    RLThreadSetName(thread, "too late");
    trace("%s", (const char *)word);
}

RL_TEST(name_stack_priority, "S-THREAD-3",
        "Name, stack size and priority are what was set before the start; body gets its info, and release comes after it, once") {
    RLThreadRef thread = RLThreadCreate(body_checks, "body", record_release);
    RLThreadSetName(thread, "a thread with a long name");
    RLThreadSetStackSize(thread, 3000001);
    RLThreadSetPriority(thread, 7);
    ck_assert_str_eq(RLThreadGetName(thread), "a thread with a long name");
    ck_assert(RLThreadStart(thread));
    ck_assert(RLThreadJoin(thread));
    ck_assert_str_eq(RLThreadGetName(thread), "a thread with a long name");
    expect_trace("body -body");
    ck_assert_uint_eq(RLGetTypeIDOf(thread), RLThreadGetTypeID());
    RLRelease(thread);
    expect_trace("");
    ck_assert_ptr_null(RLThreadGetCurrent());

    RLThreadRef never = RLThreadCreate(body_checks, "never", record_release);
    RLThreadCancel(never);
    ck_assert(RLThreadIsCancelled(never) && !RLThreadIsFinished(never));
    RLRelease(never);
    expect_trace("-never");
}

static void take_a_while(void *counter) {
    take_time(0.001);
    count_up(counter);
}

RL_TEST(end_drains, "S-THREAD-5 S-PERF-2",
        "End performs the functions and requests that were queued before it, and returns when thread and loop are gone") {
    for (int round = 0; round < 20; round++) {
        RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
        int requests = 0, functions = 0;
        RLThreadStart(thread);
        RLRunLoopRef loop = RLThreadGetRunLoop(thread);
        for (int i = 0; i < 10; i++) {
            RLPerformOnLoop(loop, kRLDefaultMode, take_a_while, &requests, NULL, false);
            RLPerformFunction(loop, i % 2 ? kRLDefaultMode : kRLCommonModes, count_up, &functions, NULL);
        }
        RLPerformFunction(loop, "other", record, "other", record_release);
        ck_assert(RLThreadEnd(thread));
        ck_assert_int_eq(requests, 10);
        ck_assert_int_eq(functions, 10);
        RLRelease(thread);
        expect_trace("-other");
    }
}

static Gate in_pass = GATE_INITIALIZER, pass_may_go_on = GATE_INITIALIZER;

static void hold_pass(void *unused) {
    (void)unused;
    gate_open(&in_pass);
    gate_wait(&pass_may_go_on);
}

static void end_thread(void *thread) { ck_assert(RLThreadEnd(thread)); }

RL_TEST(end_in_the_middle_of_a_pass, "S-THREAD-5 S-PERF-24",
        "End in the middle of a pass performs the ordered requests that were queued before it, whose turn is at the beginning of a pass") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    const RLMode common[] = {kRLCommonModes};
    int requests = 0;
    RLThreadStart(thread);
    RLRunLoopRef loop = RLThreadGetRunLoop(thread);
    RLPerformFunction(loop, kRLDefaultMode, hold_pass, NULL, NULL);
    RLWakeUp(loop);
    gate_wait(&in_pass);
    for (int i = 0; i < 5; i++) RLPerformInOrder(loop, common, 1, i, NULL, count_up, &requests, NULL);
    Thread *ender = thread_start(end_thread, thread);
    while (!RLThreadIsCancelled(thread)) take_time(0.001);
    gate_open(&pass_may_go_on);
    thread_join(ender);
    ck_assert_int_eq(requests, 5);
    RLRelease(thread);
}

static Gate body_may_go_on = GATE_INITIALIZER;

static void body_without_runs(RLThreadRef thread, void *unused) {
    (void)unused;
    gate_wait(&body_may_go_on);
    while (!RLThreadIsCancelled(thread)) take_time(0.001);
    trace("body-done");
}

RL_TEST(end_drains_after_the_body, "S-THREAD-5 S-THREAD-4",
        "A body that does not run the loop sees that it is cancelled; what was queued is performed after it returned; several threads may "
        "end and join one") {
    RLThreadRef thread = RLThreadCreate(body_without_runs, NULL, NULL);
    int requests = 0;
    RLThreadStart(thread);
    for (int i = 0; i < 5; i++) RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, count_up, &requests, NULL, false);
    Thread *enders[3];
    for (int i = 0; i < 3; i++) enders[i] = thread_start(end_thread, thread);
    gate_open(&body_may_go_on);
    for (int i = 0; i < 3; i++) thread_join(enders[i]);
    ck_assert_int_eq(requests, 5);
    expect_trace("body-done");
    RLRelease(thread);
}

static void run_nested(void *gate) {
    gate_open(gate);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    trace("nested-stopped");
}

RL_TEST(cancel, "S-THREAD-4", "Cancel wakes and ends a thread without a body, also in a nested run; cancelled before its start it ends at once") {
    Gate nested = GATE_INITIALIZER;
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    RLThreadStart(thread);
    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, run_nested, &nested, NULL, false);
    gate_wait(&nested);
    RLThreadCancel(thread);
    RLThreadCancel(thread);
    ck_assert(RLThreadJoin(thread));
    expect_trace("nested-stopped");
    RLRelease(thread);
    for (int i = 0; i < 50; i++) {
        thread = RLThreadCreate(NULL, NULL, NULL);
        if (i % 2) RLThreadCancel(thread);
        ck_assert(RLThreadStart(thread));
        RLThreadCancel(thread);
        ck_assert(RLThreadJoin(thread));
        RLRelease(thread);
    }
}

static void end_self(void *unused) {
    (void)unused;
    ck_assert(!RLThreadEnd(RLThreadGetCurrent()));
    trace("asked");
}

RL_TEST(end_on_itself, "S-THREAD-5", "End on the thread itself stops and cancels it and does not wait") {
    RLThreadRef thread = RLThreadCreate(NULL, "info", record_release);
    RLThreadStart(thread);
    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, end_self, NULL, NULL, false);
    ck_assert(RLThreadJoin(thread));
    expect_trace("asked -info");
    RLRelease(thread);
}

static void open_gate(RLThreadRef thread, void *gate) {
    (void)thread;
    gate_open(gate);
}

RL_TEST(released_while_it_executes, "S-THREAD-6", "A thread that nobody holds or joins executes to its end and leaves nothing behind") {
    for (int i = 0; i < 20; i++) {
        Gate gate = GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(open_gate, &gate, NULL);
        ck_assert(RLThreadStart(thread));
        RLRelease(thread);
        gate_wait(&gate);
    }
}

RL_MAIN_TEST(main_thread, "S-THREAD-7 S-LOOP-4", "The initial thread is the main one, and no thread of the library") {
    ck_assert(RLThreadIsMain());
    ck_assert_ptr_null(RLThreadGetCurrent());
    ck_assert_ptr_eq(RLGetMain(), RLGetCurrent());
}

static void exit_in_body(RLThreadRef thread, void *counter) {
    (void)thread, (void)counter;
    pthread_exit(NULL);
}
static void exit_in_function(void *unused) {
    (void)unused;
    pthread_exit(NULL);
}

RL_TEST(ends_by_pthread_exit, "S-THREAD-3 S-THREAD-6", "A thread that ends by pthread_exit, in its body or in a callback, is finished, and its release has run once") {
    for (int has_body = 0; has_body < 2; has_body++) {
        int releases = 0;
        RLThreadRef thread = RLThreadCreate(has_body ? exit_in_body : NULL, &releases, count_up);
        ck_assert(RLThreadStart(thread));
        if (!has_body) RLPerformFunction(RLThreadGetRunLoop(thread), kRLDefaultMode, exit_in_function, NULL, NULL);
        if (!has_body) RLWakeUp(RLThreadGetRunLoop(thread));
        ck_assert(RLThreadJoin(thread));
        ck_assert(RLThreadIsFinished(thread) && !RLThreadIsExecuting(thread));
        ck_assert_int_eq(releases, 1);
        ck_assert_int_eq(RLGetRetainCount(thread), 1);
        RLRelease(thread);
    }
}

static void fork_and_check(RLThreadRef thread, void *other) {
    pid_t child = fork();
    if (child == 0) {
        if (!RLThreadIsExecuting(thread) || RLThreadGetCurrent() != thread || !RLThreadIsMain()) _exit(1);
        if (!RLThreadIsFinished(other) || RLThreadIsExecuting(other)) _exit(2);
        if (!RLThreadJoin(other) || !RLThreadEnd(other)) _exit(3);
        RLThreadRef made = RLThreadCreate(NULL, NULL, NULL);
        if (!RLThreadStart(made) || !RLThreadEnd(made)) _exit(4);
        _exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

RL_TEST(fork_child, "S-THREAD-8 S-FORK-1", "In the child of fork other threads count as finished; the one that forked goes on, and new ones can be made") {
    RLThreadRef other = RLThreadCreate(NULL, NULL, NULL);
    RLThreadStart(other);
    RLThreadRef forks = RLThreadCreate(fork_and_check, other, NULL);
    RLThreadStart(forks);
    ck_assert(RLThreadJoin(forks));
    ck_assert(RLThreadIsExecuting(other));
    ck_assert(RLThreadEnd(other));
    RLRelease(forks);
    RLRelease(other);
}

enum { STARTED = 4000, FORKS = 100 };
static RLThreadRef started[STARTED];
static int start_count, stop_starting;

static void start_and_join(void *unused) {
    (void)unused;
    for (int i = 0; i < STARTED && !count_of(&stop_starting); i++) {
        started[i] = RLThreadCreate(return_at_once, NULL, NULL);
        __atomic_store_n(&start_count, i + 1, __ATOMIC_RELEASE);
        RLThreadStart(started[i]);
        RLThreadJoin(started[i]);
    }
}

RL_TEST(fork_while_a_thread_starts, "S-THREAD-8", "In the child of fork joining a thread that was about to start returns at once") {
    RLThreadRef starter = RLThreadCreate(NULL, NULL, NULL);
    RLThreadStart(starter);
    RLPerformOnLoop(RLThreadGetRunLoop(starter), NULL, start_and_join, NULL, NULL, false);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            int count = count_of(&start_count);
            if (count > 0 && RLThreadIsFinished(started[count - 1]) && !RLThreadJoin(started[count - 1])) _exit(1);
            if (count > 0) RLThreadEnd(started[count - 1]);
            _exit(0);
        }
        int status = -1;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    __atomic_store_n(&stop_starting, 1, __ATOMIC_RELEASE);
    ck_assert(RLThreadEnd(starter));
    RLRelease(starter);
    for (int i = 0; i < start_count; i++) RLRelease(started[i]);
}

RL_TEST(a_stack_that_is_too_large, "S-THREAD-3", "A thread whose stack is larger than the system has does not start, however large it is") {
    const size_t sizes[] = {SIZE_MAX / 4, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        RLThreadRef thread = RLThreadCreate(return_at_once, NULL, NULL);
        RLThreadSetStackSize(thread, sizes[i]);
        ck_assert(!RLThreadStart(thread));
        RLThreadSetStackSize(thread, 0);
        ck_assert(RLThreadStart(thread));
        ck_assert(RLThreadJoin(thread));
        RLRelease(thread);
    }
}

RL_TEST(null_thread, "S-ARG-1", "Calls on NULL do nothing and give false or NULL") {
    ck_assert(!RLThreadStart(NULL) && !RLThreadJoin(NULL) && !RLThreadEnd(NULL));
    ck_assert(!RLThreadIsCancelled(NULL) && !RLThreadIsExecuting(NULL) && !RLThreadIsFinished(NULL));
    ck_assert_ptr_null(RLThreadGetRunLoop(NULL));
    ck_assert_ptr_null(RLThreadGetName(NULL));
    RLThreadCancel(NULL);
    RLThreadSetName(NULL, "x");
    RLThreadSetStackSize(NULL, 1);
    RLThreadSetPriority(NULL, 1);
}
