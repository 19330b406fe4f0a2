/* SPDX-License-Identifier: MIT */
/* Section 28: what meets a thread in its start, and forks by signal handlers of those that wait for a thread. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"
#include "thread_starts.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static Gate is_starting = GATE_INITIALIZER, is_joining = GATE_INITIALIZER;
static bool refuse_next_start(void) {
    hook_thread_starts(NULL);
    gate_open(&is_starting);
    take_time(0.05); /* So that another thread waits for the start; the case holds if it does not. */
    return true;
}
/* The library calls it. */
int pthread_join(pthread_t thread, void **result) {
    static int (*next)(pthread_t, void **);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_join");
    gate_open(&is_joining);
    return next(thread, result);
}

static RLThreadRef thread;

/* ---- a start that fails */

static void end_it(void *unused) {
    (void)unused;
    gate_wait(&is_starting);
    ck_assert(!RLThreadEnd(thread));
}
static void leave_timer(RLThreadRef self, void *info) {
    (void)self, (void)info;
    static Probe timer = {.name = NULL};
    add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
}

RL_TEST(end_meets_a_start_that_fails, "S-THREAD-5 S-THREAD-3", "End during a start that fails counts as one before it: a second start makes a thread that comes to its end, whatever its loop has") {
    thread = RLThreadCreate(leave_timer, NULL, NULL);
    Thread *ender = thread_start(end_it, NULL);
    hook_thread_starts(refuse_next_start);
    ck_assert(!RLThreadStart(thread));
    thread_join(ender);
    ck_assert(RLThreadIsCancelled(thread) && !RLThreadIsExecuting(thread));
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    RLRelease(thread);
}

/* ---- the log, before the thread has its loop */

static int asked;
static void ask_for_itself(const char *line, void *info) {
    (void)line, (void)info;
    RLThreadRef self = RLThreadGetCurrent();
    if (!self) return;
    ck_assert(RLThreadIsExecuting(self));
    ck_assert_ptr_null(RLThreadGetRunLoop(self));
    ck_assert_int_eq(RLThreadGetPriority(self), 3);
    ck_assert_int_eq(RLThreadChangePriority(self, 5), 0);
    ck_assert(!RLThreadEnd(self));
    __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
}

RL_MAIN_TEST(a_thread_logs_before_it_has_its_loop, "S-THREAD-12 S-THREAD-5 S-ARG-9", "A log handler asks for the thread's nice value, changes it, and ends the thread") {
    setenv("RUNLOOP_SLOW", "logged by the first loop", 1);
    RLSetLogHandler(ask_for_itself, NULL);
    thread = RLThreadCreate(leave_timer, NULL, NULL);
    RLThreadSetPriority(thread, 3);
    ck_assert(RLThreadStart(thread) && RLThreadJoin(thread));
    ck_assert_int_eq(asked, 1);
    RLRelease(thread);
}

static void end_by_exit(const char *line, void *result) {
    (void)line;
    if (RLThreadGetCurrent()) RLThreadExit(result);
}
static void record_release(void *word) { trace("%s", (const char *)word); }
static void record_end(RLThreadRef self, void *word) {
    ck_assert_ptr_eq(RLThreadGetRunLoop(self), RLGetCurrent());
    trace("%s", (const char *)word);
}

RL_MAIN_TEST(a_log_handler_ends_a_thread_before_it_has_its_loop, "S-THREAD-1 S-THREAD-10 S-THREAD-16 S-LOOP-19",
             "The thread ends in order: it has a loop and can be joined, without having come to its body") {
    int result;
    setenv("RUNLOOP_SLOW", "logged by the first loop", 1);
    RLSetLogHandler(end_by_exit, &result);
    thread = RLThreadCreate(leave_timer, "release", record_release);
    ck_assert(RLThreadAddExitCallBack(thread, record_end, "exit"));
    ck_assert(RLThreadStart(thread));
    ck_assert_ptr_nonnull(RLThreadGetRunLoop(thread));
    ck_assert(RLThreadJoin(thread));
    ck_assert_ptr_eq(RLThreadGetResult(thread), &result);
    expect_trace("exit release");
    RLRelease(thread);
}

/* ---- forks by signal handlers */

static pthread_t waiter;
static pid_t child = -1;
static void fork_in_handler(int number) {
    (void)number;
    child = fork();
    if (child == 0) alarm(20);
}
/* The waiter's first sleep ends by a signal. */
static bool interrupt_sleep(long number, const long argument[6], long *result) {
    int operation = (int)argument[1] & FUTEX_CMD_MASK;
    if (number != SYS_futex || operation == FUTEX_WAKE || child >= 0 || !pthread_equal(waiter, pthread_self())) return false;
    raise(SIGUSR1);
    errno = EINTR;
    *result = -1;
    return true;
}

static void join_it(void *unused) {
    (void)unused;
    RLThreadJoin(thread);
}
static void wait_for_gate(RLThreadRef self, void *gate) {
    (void)self;
    gate_wait(gate);
}
static void open_gate(void *gate) {
    wait_until_count(&child, 1);
    gate_open(gate);
}

RL_TEST(a_handler_forks_in_a_join, "S-THREAD-8", "A signal handler forks while another thread joins, too: in the child the join returns") {
    static Gate gate = GATE_INITIALIZER;
    waiter = pthread_self();
    signal(SIGUSR1, fork_in_handler);
    thread = RLThreadCreate(wait_for_gate, &gate, NULL);
    ck_assert(RLThreadStart(thread));
    Thread *joiner = thread_start(join_it, NULL);
    gate_wait(&is_joining);
    Thread *opener = thread_start(open_gate, &gate);
    hook_system_calls(interrupt_sleep);
    bool is_joined = RLThreadJoin(thread);
    hook_system_calls(NULL);
    if (child == 0) _exit(is_joined && RLThreadIsFinished(thread) ? 0 : 1);
    ck_assert(is_joined);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    thread_join(opener);
    thread_join(joiner);
    RLRelease(thread);
}
