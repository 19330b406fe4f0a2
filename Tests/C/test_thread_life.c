/* SPDX-License-Identifier: MIT */
/* Section 28: detached threads, results, priorities, values, exit callbacks. */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void record(void *word) { trace("%s", (const char *)word); }
static void record_exit(RLThreadRef thread, void *word) {
    ck_assert_ptr_eq(thread, RLThreadGetCurrent());
    trace("%s", (const char *)word);
}

static void run_and_record(RLThreadRef thread, void *word) {
    (void)thread;
    trace("%s", (const char *)word);
}

static void wait_for_gate(RLThreadRef thread, void *gate) {
    (void)thread;
    gate_wait(gate);
}

/* ---- detached */

static void open_and_trace(RLThreadRef thread, void *gate) {
    ck_assert_ptr_eq(thread, RLThreadGetCurrent());
    ck_assert_ptr_nonnull(RLThreadGetRunLoop(thread));
    trace("body");
    gate_open(gate);
}

RL_TEST(detached_from_birth, "S-THREAD-9", "A thread that nobody holds executes its body") {
    Gate gate = GATE_INITIALIZER;
    ck_assert(RLThreadDetachNew(open_and_trace, &gate, NULL));
    gate_wait(&gate);
    expect_trace("body");
}

RL_TEST(detached_later, "S-THREAD-9", "A thread that is detached, before its start, while it executes or after its end, cannot be joined; the first of detach and join counts") {
    for (int when = 0; when < 3; when++) {
        Gate gate = GATE_INITIALIZER;
        RLThreadRef thread = RLThreadCreate(wait_for_gate, &gate, NULL);
        if (when == 0) ck_assert(RLThreadDetach(thread));
        ck_assert(RLThreadStart(thread));
        if (when == 1) ck_assert(RLThreadDetach(thread));
        gate_open(&gate);
        if (when == 2) {
            while (!RLThreadIsFinished(thread)) sched_yield();
            ck_assert(RLThreadDetach(thread));
        }
        ck_assert(!RLThreadDetach(thread));
        ck_assert(!RLThreadJoin(thread));
        while (!RLThreadIsFinished(thread)) sched_yield();
        RLRelease(thread);
    }
    Gate open = GATE_INITIALIZER;
    gate_open(&open);
    RLThreadRef thread = RLThreadCreate(wait_for_gate, &open, NULL);
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    ck_assert(!RLThreadDetach(thread));
    ck_assert(RLThreadJoin(thread));
    RLRelease(thread);
    thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread) && RLThreadDetach(thread));
    ck_assert(!RLThreadEnd(thread));
    while (!RLThreadIsFinished(thread)) sched_yield();
    RLRelease(thread);
}

/* ---- results */

static void leave_result(RLThreadRef thread, void *how) {
    if (!how) return;
    if (*(const char *)how == 's') RLThreadSetResult(thread, how);
    if (*(const char *)how == 'e') RLThreadExit(how);
}
static void exit_in_function(void *result) { RLThreadExit(result); }
static void *exit_with(void *result) { RLThreadExit(result); }

RL_TEST(results, "S-THREAD-10 S-LOOP-19", "The result is what the thread set or exited with, from a callback too, and NULL while it executes") {
    static char set[] = "set", exited[] = "exited";
    char *ways[] = {set, exited, NULL};
    for (int i = 0; i < 3; i++) {
        RLThreadRef thread = RLThreadCreate(leave_result, ways[i], NULL);
        ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
        ck_assert_ptr_eq(RLThreadGetResult(thread), ways[i]);
        RLRelease(thread);
    }
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    ck_assert_ptr_null(RLThreadGetResult(thread));
    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, exit_in_function, exited, NULL, false);
    ck_assert(RLThreadJoin(thread));
    ck_assert_ptr_eq(RLThreadGetResult(thread), exited);
    RLRelease(thread);
    pthread_t other;
    void *result = NULL;
    pthread_create(&other, NULL, exit_with, set);
    pthread_join(other, &result);
    ck_assert_ptr_eq(result, set);
}

static void *exit_under_cleanup(void *word) {
    pthread_cleanup_push(record, word);
    RLThreadExit(NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

RL_TEST(exit_runs_cleanups, "S-THREAD-10", "RLThreadExit runs the cleanup handlers of the frames that it leaves") {
    pthread_t thread;
    pthread_create(&thread, NULL, exit_under_cleanup, "cleanup");
    pthread_join(thread, NULL);
    expect_trace("cleanup");
}

/* ---- stack and priority */

RL_TEST(stack_sizes, "S-THREAD-11", "A stack size is rounded up to pages and to the least; 0 is the default") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    pthread_attr_t attributes;
    size_t size = 0;
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    ck_assert_uint_eq(RLThreadGetStackSize(thread), size);
    RLThreadSetStackSize(thread, 1);
    ck_assert_uint_eq(RLThreadGetStackSize(thread), (size_t)sysconf(_SC_THREAD_STACK_MIN));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    RLThreadSetStackSize(thread, (64 << 10) * 8 + 1);
    ck_assert_uint_eq(RLThreadGetStackSize(thread), (64 << 10) * 8 + page);
    ck_assert_uint_eq(RLThreadGetStackSize(NULL), 0);
    RLRelease(thread);
}

static void set_stack_sizes(void *thread) {
    for (size_t i = 0; i < 10000; i++) RLThreadSetStackSize(thread, (size_t)(i % 2 + 1) << 20);
}

/* The thread sanitizer sees whether the two meet. */
RL_TEST(stack_size_asked_while_set, "S-THREAD-11", "A stack size may be asked for while another thread sets it") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    RLThreadSetStackSize(thread, 1 << 20);
    Thread *setter = thread_start(set_stack_sizes, thread);
    for (int i = 0; i < 10000; i++) {
        size_t size = RLThreadGetStackSize(thread);
        ck_assert(size == 1 << 20 || size == 2 << 20);
    }
    thread_join(setter);
    RLRelease(thread);
}

RL_TEST(priorities, "S-THREAD-12", "The nice value of an executing thread can be changed; an ended one has none; a value before the start holds at the start") {
    Gate gate = GATE_INITIALIZER;
    RLThreadRef thread = RLThreadCreate(wait_for_gate, &gate, NULL);
    ck_assert_int_eq(RLThreadChangePriority(thread, 3), 0);
    ck_assert_int_eq(RLThreadGetPriority(thread), 3);
    ck_assert(RLThreadStart(thread));
    ck_assert_int_eq(RLThreadGetPriority(thread), 3);
    ck_assert_int_eq(RLThreadChangePriority(thread, 8), 0);
    ck_assert_int_eq(RLThreadGetPriority(thread), 8);
    ck_assert_int_eq(RLThreadChangePriority(thread, 100), 0);
    ck_assert_int_eq(RLThreadGetPriority(thread), 19);
    if (geteuid() != 0) {
        int error = RLThreadChangePriority(thread, -20);
        ck_assert(error == EACCES || error == EPERM);
    }
    gate_open(&gate);
    ck_assert(RLThreadJoin(thread));
    ck_assert_int_eq(RLThreadChangePriority(thread, 8), ESRCH);
    RLRelease(thread);
    ck_assert_int_eq(RLThreadChangePriority(NULL, 4), 0);
    ck_assert_int_eq(RLThreadGetPriority(NULL), 4);
    ck_assert_int_eq(getpriority(PRIO_PROCESS, 0), 4);
    ck_assert_int_eq(RLQualityOfServicePriority(kRLQualityOfServiceUserInteractive), -5);
    ck_assert_int_eq(RLQualityOfServicePriority(kRLQualityOfServiceUserInitiated), -2);
    ck_assert_int_eq(RLQualityOfServicePriority(kRLQualityOfServiceDefault), 0);
    ck_assert_int_eq(RLQualityOfServicePriority(kRLQualityOfServiceUtility), 5);
    ck_assert_int_eq(RLQualityOfServicePriority(kRLQualityOfServiceBackground), 10);
}

/* ---- values */

static char first_key, second_key, third_key;

static void set_another(void *word) {
    trace("%s", (const char *)word);
    ck_assert_str_eq(RLThreadGetValue(&first_key), "first");
    RLThreadSetValue(&third_key, "late", record);
}

static void use_values(void *unused) {
    (void)unused;
    ck_assert_ptr_null(RLThreadGetValue(&first_key));
    RLThreadSetValue(&first_key, "zeroth", record);
    RLThreadSetValue(&second_key, "second", set_another);
    RLThreadSetValue(&first_key, "first", record);
    RLThreadSetValue(&third_key, "third", record);
    ck_assert_str_eq(RLThreadGetValue(&first_key), "first");
    RLThreadSetValue(&third_key, NULL, NULL);
    ck_assert_ptr_null(RLThreadGetValue(&third_key));
    RLThreadSetValue(&third_key, NULL, NULL);
    RLThreadSetValue(NULL, "x", record);
    ck_assert_ptr_null(RLThreadGetValue(NULL));
    trace("ends");
}

static void loop_is_there(void *loop) {
    trace(RLGetCurrentIfMade() == loop ? "loop" : "no-loop");
}
static void leave_value_with_loop(RLThreadRef thread, void *unused) {
    (void)unused;
    RLThreadSetValue(&first_key, RLThreadGetRunLoop(thread), loop_is_there);
    RLThreadAddExitCallBack(thread, record_exit, "exit");
}

RL_TEST(values, "S-THREAD-13", "A destructor is called when its value goes, at the end of the thread for the newest key first, and for what a destructor sets") {
    ck_assert_ptr_null(RLThreadGetValue(&first_key));
    thread_join(thread_start(use_values, NULL));
    expect_trace("zeroth third ends second late first");
    ck_assert_ptr_null(RLThreadGetValue(&first_key));
    RLThreadRef thread = RLThreadCreate(leave_value_with_loop, NULL, NULL);
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    expect_trace("exit loop");
    RLRelease(thread);
}

enum { MANY_KEYS = 3000 };
static char keys[MANY_KEYS];
static int last_gone;

static void note_gone(void *value) {
    last_gone = (int)((char *)value - keys);
    ck_assert_ptr_null(RLThreadGetValue(value));
}

/* The newest that is left comes first; every third one has gone before. */
static void go_in_order(void *value) {
    int before = last_gone;
    note_gone(value);
    ck_assert_int_eq(last_gone, (before - 1) % 3 == 1 ? before - 2 : before - 1);
    if (last_gone > 0 && last_gone % 3 != 2) ck_assert_ptr_eq(RLThreadGetValue(&keys[last_gone - 1]), &keys[last_gone - 1]);
}

static void use_many_values(void *unused) {
    (void)unused;
    for (int i = 0; i < MANY_KEYS; i++) RLThreadSetValue(&keys[i], &keys[i], i % 3 == 1 ? note_gone : go_in_order);
    for (int i = 0; i < MANY_KEYS; i++) ck_assert_ptr_eq(RLThreadGetValue(&keys[i]), &keys[i]);
    for (int i = 1; i < MANY_KEYS; i += 3) {
        RLThreadSetValue(&keys[i], NULL, NULL);
        ck_assert_int_eq(last_gone, i);
    }
    for (int i = 0; i < MANY_KEYS; i++) ck_assert_ptr_eq(RLThreadGetValue(&keys[i]), i % 3 == 1 ? NULL : &keys[i]);
    last_gone = MANY_KEYS;
}

RL_TEST(values_of_many_keys, "S-THREAD-13", "However many values a thread has, each is found by its key, and they are destroyed the newest key first") {
    thread_join(thread_start(use_many_values, NULL));
    ck_assert_int_eq(last_gone, 0);
}

/* The thread sanitizer itself does not survive calls in the last round of destructors. */
#if !defined(WITH_THREAD_SANITIZER)
static void count_up(void *counter) { __atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST); }
static void set_for_ever(void *value) {
    count_up(value);
    RLThreadSetValue(&first_key, value, set_for_ever);
}
static void use_values_for_ever(void *value) {
    RLThreadSetValue(&second_key, "second", record);
    set_for_ever(value);
}

static pthread_key_t other_key;
static int late_values;
static void set_late(void *round) {
    if ((uintptr_t)round < 2) pthread_setspecific(other_key, (void *)((uintptr_t)round + 1));
    else RLThreadSetValue(&first_key, &late_values, set_for_ever);
}
static void end_with_late_value(void *unused) {
    (void)unused;
    pthread_setspecific(other_key, (void *)(uintptr_t)1);
}
static long memory_in_use(void) { return (long)mallinfo2().uordblks; }

RL_TEST(values_of_a_late_destructor, "S-THREAD-13",
        "A value that another key's destructor is the first to set, in a later round, is destroyed, and nothing of it is left") {
    pthread_key_create(&other_key, set_late);
    long before = 0;
    for (int i = 0; i < 300; i++) {
        if (i == 100) before = memory_in_use();
        thread_join(thread_start(end_with_late_value, NULL));
    }
    ck_assert_int_ge(late_values, 300);
#if !defined(WITH_ADDRESS_SANITIZER)
    ck_assert_int_lt(memory_in_use() - before, 200 * 32);
#endif
    pthread_key_delete(other_key);
}

static void join_itself(void *thread) { trace("%d%d", RLThreadJoin(*(RLThreadRef *)thread), RLThreadEnd(*(RLThreadRef *)thread)); }
static void set_value_that_joins(RLThreadRef thread, void *info) {
    (void)thread;
    RLThreadSetValue(&first_key, info, join_itself);
}

RL_TEST(joined_by_its_own_destructor, "S-THREAD-5 S-THREAD-13", "Join and End of a thread by one of its own destructors return false, and leave it to others to join it") {
    RLThreadRef thread = RLThreadCreate(set_value_that_joins, &thread, NULL);
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    expect_trace("00");
    RLRelease(thread);
}

RL_TEST(values_for_ever, "S-THREAD-13", "A destructor that always sets a value again keeps neither the thread nor the other values from ending") {
    int count = 0;
    thread_join(thread_start(use_values_for_ever, &count));
    ck_assert_int_ge(count, 2);
    expect_trace("second");
}
#endif

/* ---- sleep */

static void ignore(int number) { (void)number; }
static pthread_t sleeper;
static void interrupt(void *unused) {
    (void)unused;
    for (int i = 0; i < 20; i++) {
        pthread_kill(sleeper, SIGUSR1);
        sched_yield();
    }
}

RL_TEST(sleeps, "S-THREAD-14", "A sleep is not shorter than asked for, with signals too; of 0 and less it is none") {
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
    sleeper = pthread_self();
    Thread *thread = thread_start(interrupt, NULL);
    double begin = monotonic_now();
    RLThreadSleepForSeconds(0.02);
    ck_assert(monotonic_now() - begin >= 0.02);
    thread_join(thread);
    RLAbsoluteTime date = date_in(0.02);
    RLThreadSleepUntilDate(date);
    ck_assert(RLAbsoluteTimeGetCurrent() >= date);
    RLThreadSleepForSeconds(0);
    RLThreadSleepForSeconds(-1e300);
    RLThreadSleepUntilDate(date_in(-1000));
}

/* ---- the list */

static bool is_listed(RLThreadRef thread) {
    RLIndex count = -1, found = 0, number = 0;
    RLThreadRef *list = RLThreadCopyAll(&count);
    for (; list[number]; number++) {
        found += list[number] == thread;
        RLRelease(list[number]);
    }
    ck_assert_int_eq(number, count);
    ck_assert_int_le(found, 1);
    free(list);
    return found == 1;
}

RL_TEST(list_of_threads, "S-THREAD-15 S-THREAD-8", "Every executing thread is listed once; in the child of fork the forking one alone") {
    enum { COUNT = 5 };
    RLThreadRef threads[COUNT];
    for (int i = 0; i < COUNT; i++) {
        threads[i] = RLThreadCreate(NULL, NULL, NULL);
        ck_assert(!is_listed(threads[i]));
        ck_assert(RLThreadStart(threads[i]));
        ck_assert(is_listed(threads[i]));
    }
    ck_assert(RLThreadEnd(threads[2]) && RLThreadEnd(threads[4]));
    for (int i = 0; i < COUNT; i++) ck_assert_int_eq(is_listed(threads[i]), i != 2 && i != 4);
    pid_t child = fork();
    if (child == 0) {
        RLIndex count = -1;
        free(RLThreadCopyAll(&count));
        RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
        if (count != 0 || !RLThreadStart(thread) || !is_listed(thread) || !RLThreadEnd(thread) || is_listed(thread)) _exit(1);
        if (RLThreadChangePriority(threads[0], 5) != ESRCH || RLThreadAddExitCallBack(threads[0], record_exit, "x")) _exit(2);
        _exit(0);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (int i = 0; i < COUNT; i++) {
        RLThreadEnd(threads[i]);
        RLRelease(threads[i]);
    }
    free(RLThreadCopyAll(NULL));
}

/* ---- exit callbacks */

static void exit_by_itself(RLThreadRef thread, void *word) {
    record_exit(thread, word);
    pthread_exit(NULL);
}
static void add_another(RLThreadRef thread, void *word) {
    record_exit(thread, word);
    ck_assert(RLThreadAddExitCallBack(thread, record_exit, "added"));
}

RL_TEST(exit_callbacks, "S-THREAD-16", "Exit callbacks are called on the thread, the last added first, between body and release, also where one ends the thread or adds another") {
    RLThreadRef thread = RLThreadCreate(run_and_record, "body", record);
    ck_assert(RLThreadAddExitCallBack(thread, record_exit, "first"));
    ck_assert(RLThreadAddExitCallBack(thread, exit_by_itself, "second"));
    ck_assert(RLThreadAddExitCallBack(thread, add_another, "third"));
    ck_assert(!RLThreadAddExitCallBack(thread, NULL, NULL));
    ck_assert(!RLThreadAddExitCallBack(NULL, record_exit, NULL));
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    expect_trace("body third added second first body");
    ck_assert(!RLThreadAddExitCallBack(thread, record_exit, "late"));
    RLRelease(thread);
    thread = RLThreadCreate(run_and_record, "never", NULL);
    ck_assert(RLThreadAddExitCallBack(thread, record_exit, "never"));
    RLRelease(thread);
    expect_trace("");
}

/* ---- the end as a source */

static void report_end(RLSourceRef source, const RLKernelEvent *event, void *info) {
    ck_assert(!strcmp(info, "source") && event->filter == kRLKernelFilterThread);
    ck_assert_uint_eq(event->fflags, kRLNoteExit);
    trace("ended:%s", event->data ? (const char *)(intptr_t)event->data : "-");
    ck_assert(RLSourceIsValid(source));
    RLStop(RLGetCurrent());
}

static RLSourceRef watch_end(RLThreadRef thread) {
    RLKernelEventContext context = {.info = "source"};
    RLKernelEvent event = {.filter = kRLKernelFilterThread, .ident = (uintptr_t)thread, .fflags = kRLNoteExit};
    RLSourceRef source = RLKernelEventSourceCreate(&event, report_end, &context);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}

static void end_thread(void *thread) { RLThreadEnd(thread); }

RL_TEST(end_as_a_source, "S-KEV-18", "The end of a thread is reported to a loop that waits for it, with its result, before or after the source was made") {
    static char word[] = "set";
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL), quick = RLThreadCreate(leave_result, word, NULL);
    RLSourceRef source = watch_end(thread);
    RLSourceRef second = watch_end(thread);
    ck_assert(RLThreadStart(thread));
    RLSourceInvalidate(second);
    RLRelease(second);
    Thread *ender = when_waiting(RLGetCurrent(), end_thread, thread);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    thread_join(ender);
    ck_assert(!RLSourceIsValid(source));
    expect_trace("ended:-");
    RLRelease(source);
    ck_assert(RLThreadStart(quick) && RLThreadJoin(quick));
    source = watch_end(quick);
    ck_assert_int_eq(RLGetRetainCount(quick), 2);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    RLRelease(source);
    ck_assert_int_eq(RLGetRetainCount(quick), 1);
    expect_trace("ended:set");
    errno = 0;
    RLKernelEvent wrong = {.filter = kRLKernelFilterThread, .ident = 0, .fflags = kRLNoteExit};
    ck_assert_ptr_null(RLKernelEventSourceCreate(&wrong, report_end, NULL));
    ck_assert_int_eq(errno, EINVAL);
    wrong = (RLKernelEvent){.filter = kRLKernelFilterThread, .ident = (uintptr_t)quick, .fflags = kRLNoteReap};
    ck_assert_ptr_null(RLKernelEventSourceCreate(&wrong, report_end, NULL));
    ck_assert_int_eq(RLGetRetainCount(quick), 1);
    RLRelease(thread);
    RLRelease(quick);
}

RL_TEST(an_end_to_come_is_nothing_to_report, "S-KEV-18 S-KEV-8",
        "Enabling the source of a thread that executes ends no wait; what is disabled while the thread ends reports when it is enabled") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLSourceRef source = watch_end(thread);
    RLObserverRef observer = observe(RLGetCurrent(), kRLDefaultMode);
    RLKernelEventSourceSetEnabled(source, true);
    RLKernelEventSourceSetEnabled(source, false);
    RLKernelEventSourceSetEnabled(source, true);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    expect_trace("E BT BS BW AW X");
    RLObserverInvalidate(observer);
    RLKernelEventSourceSetEnabled(source, false);
    ck_assert(RLThreadEnd(thread));
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("");
    RLKernelEventSourceSetEnabled(source, true);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("ended:-");
    RLRelease(source);
    RLRelease(thread);
}

RL_TEST(end_of_a_vanished_thread, "S-KEV-18 S-THREAD-8", "In the child of fork the source of another thread reports its end") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLSourceRef source = watch_end(thread);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(RLRunInMode(kRLDefaultMode, 1e6, false) == kRLRunStopped && trace_count("ended:-") == 1 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSourceInvalidate(source);
    RLRelease(source);
    ck_assert(RLThreadEnd(thread));
    RLRelease(thread);
}

static Gate releasing = GATE_INITIALIZER, may_release = GATE_INITIALIZER;
static void release_late(void *unused) {
    (void)unused;
    gate_open(&releasing);
    gate_wait(&may_release);
}
static void return_from_body(RLThreadRef thread, void *info) { (void)thread, (void)info; }

RL_TEST(end_of_a_thread_that_vanishes_while_it_ends, "S-KEV-18 S-THREAD-8",
        "In the child of fork the source of a thread that was in its release reports the end, as in the parent later") {
    RLThreadRef thread = RLThreadCreate(return_from_body, NULL, release_late);
    RLSourceRef source = watch_end(thread);
    ck_assert(RLThreadStart(thread));
    gate_wait(&releasing);
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(RLRunInMode(kRLDefaultMode, 1e6, false) == kRLRunStopped && trace_count("ended:-") == 1 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    gate_open(&may_release);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    expect_trace("ended:-");
    ck_assert(RLThreadJoin(thread));
    RLRelease(source);
    RLRelease(thread);
}

/* The thread sanitizer does not survive the end of the child's only thread. */
#if !defined(WITH_THREAD_SANITIZER)
/* Asked by the leak sanitizer: the end of its only thread is an exit of the child, where the memory of the other threads is found. */
static int is_leaving;
int __lsan_is_turned_off(void) { return is_leaving; }

static void fork_in_late_release(void *unused) {
    (void)unused;
    pid_t child = fork();
    if (child == 0) {
        is_leaving = 1;
        alarm(30);
        return;
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

RL_TEST(a_thread_that_ends_forks, "S-KEV-18 S-THREAD-8", "A thread that forks in its release ends in the child as in the parent") {
    RLThreadRef thread = RLThreadCreate(return_from_body, NULL, fork_in_late_release);
    RLSourceRef source = watch_end(thread);
    ck_assert(RLThreadStart(thread));
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    expect_trace("ended:-");
    ck_assert(RLThreadJoin(thread));
    RLRelease(source);
    RLRelease(thread);
}
#endif

/* ---- many */

static void note_many(void *unused) {
    (void)unused;
    trace(RLThreadGetCurrent() ? "wrong-thread" : "many");
}

RL_TEST(becomes_multi_threaded, "S-THREAD-17", "From the first start on the process counts as multi-threaded, and the function is told just before, once") {
    ck_assert(!RLThreadIsMultiThreaded());
    RLThreadSetMultiThreadedCallBack(note_many, NULL);
    RLThreadRef thread = RLThreadCreate(run_and_record, "body", NULL);
    ck_assert(!RLThreadIsMultiThreaded());
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    RLRelease(thread);
    ck_assert(RLThreadIsMultiThreaded());
    ck_assert(RLThreadDetachNew(NULL, NULL, NULL));
    expect_trace("many body");
}

/* ---- values and exit callbacks */

static const char value_key;
static char value_key_owner;
static void look_at_value(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    trace(RLThreadGetValue(&value_key) ? "value" : "none");
}
static void destroy_value(void *unused) {
    (void)unused;
    trace("destroyed");
}
static void end_with_value(RLThreadRef thread, void *way) {
    RLThreadAddExitCallBack(thread, look_at_value, NULL);
    RLThreadSetValue(&value_key, &value_key_owner, destroy_value);
    switch (*(int *)way) {
    case 1: RLThreadExit(NULL);
    case 2: pthread_exit(NULL);
    case 3:
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, exit_in_function, NULL, NULL);
        RLRunInMode(kRLDefaultMode, 60, false);
    }
}

RL_TEST(exit_callbacks_see_the_threads_values, "S-THREAD-13 S-THREAD-16", "However a thread ends, its exit callbacks find its values, which are destroyed after them") {
    for (int way = 0; way < 4; way++) {
        RLThreadRef thread = RLThreadCreate(end_with_value, &way, NULL);
        ck_assert(RLThreadStart(thread));
        ck_assert(RLThreadJoin(thread));
        expect_trace("value destroyed");
        RLRelease(thread);
    }
}
