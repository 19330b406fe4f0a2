/* SPDX-License-Identifier: MIT */
/* What a process shows of its loops, and how it begins and ends. */
#define _GNU_SOURCE
#include "support_share.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_part(const char *text, const char *part) {
    ck_assert_msg(text && strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text ? text : "(nothing)");
}

static void wait_for_end(void) {
    while (share_threads() > 0) take_time(0.001);
}

/* Begin and end */

RL_TEST(nothing_is_there_before_and_after, "S-OUT-1", "A process has a thread and descriptors for others only while it is shared") {
    share_alone();
    RLRunInMode(kRLDefaultMode, 0, false);
    const int before = count_descriptors();
    ck_assert(!RLIsShared());
    ck_assert_int_eq(share_connect(0), -1);
    ck_assert_int_eq(share_threads(), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert(RLSetShared(true));
        ck_assert(RLSetShared(true));
        ck_assert(RLIsShared());
        const int connection = share_connect(0);
        ck_assert_int_ge(connection, 0);
        char *answer = share_ask(connection, "dump");
        expect_part(answer, "<RLRunLoop");
        free(answer);
        ck_assert(RLSetShared(false));
        ck_assert(RLSetShared(false));
        ck_assert(!RLIsShared());
        ck_assert_int_eq(share_connect(0), -1);
        ck_assert(share_ends(connection));
        close(connection);
        wait_for_end();
        ck_assert_int_eq(count_descriptors(), before);
    }
}

RL_TEST(without_a_safe_directory_nothing_is_shared, "S-OUT-1 S-OUT-2 S-MSG-47",
        "A directory that others can enter is not used: one line is logged, and a later call may succeed") {
    share_alone();
    char folder[128];
    snprintf(folder, sizeof folder, "%s/runloop", getenv("XDG_RUNTIME_DIR"));
    mkdir(folder, 0700);
    chmod(folder, 0755);
    log_capture();
    ck_assert(!RLSetShared(true));
    ck_assert(!RLIsShared());
    ck_assert_int_eq(log_count(), 1);
    ck_assert_ptr_nonnull(strstr(log_text(), "RLSetShared"));
    chmod(folder, 0700);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(!RLIsShared());
    ck_assert(RLSetShared(true));
    ck_assert_int_eq(log_count(), 1);
}

static int tried;
static bool refuse_room(long number, const long argument[6], long *result) {
    (void)argument;
    /* Of each lock file that is opened. */
    if (number == SYS_fchmod) tried++;
    if (number != SYS_pwrite64 && number != SYS_ftruncate && number != SYS_socket && number != SYS_bind) return false;
    errno = ENOSPC;
    *result = -1;
    return true;
}
RL_TEST(what_fails_for_all_numbers_is_not_tried_for_each, "S-OUT-1 S-OUT-2",
        "Where there is no room for files and sockets, a few numbers are tried, not all, and the call returns false") {
    share_alone();
    hook_system_calls(refuse_room);
    ck_assert(!RLSetShared(true));
    hook_system_calls(NULL);
    ck_assert_int_gt(tried, 0);
    ck_assert_int_lt(tried, 100);
    ck_assert(RLSetShared(true));
}

/* A program of its own, of which the environment is read when it begins. */
static void forget(RLTimerRef timer, void *info) { (void)timer, (void)info; }
static void do_nothing(void *unused) { (void)unused; }
static void wait_once(void) {
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, do_nothing, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0.001, false);
}
__attribute__((constructor)) static void run_as_program(void) {
    const char *what = getenv("SHARE_TEST_PROGRAM");
    if (!what) return;
    if (strncmp(what, "set", 3) == 0) {
        RLSetShared(strcmp(what, "set0") != 0);
        wait_once();
        _exit(0);
    }
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, forget, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    _exit(0);
}
static pid_t start_program(const char *value) {
    setenv("RUNLOOP_SHARE", value, 1);
    setenv("SHARE_TEST_PROGRAM", "1", 1);
    const pid_t process = fork();
    if (process == 0) {
        become_program(NULL);
        _exit(1);
    }
    unsetenv("SHARE_TEST_PROGRAM");
    return process;
}
static void end_program(pid_t process) {
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

RL_TEST(the_environment_begins_it, "S-OUT-1", "A program with RUNLOOP_SHARE=1 is shared once its loop waits, without a call") {
    share_alone();
    const pid_t process = start_program("1");
    const int connection = share_connect_soon(0);
    char *answer = share_ask(connection, "statistics"), expected[64];
    snprintf(expected, sizeof expected, "{\"version\":1,\"process\":%d,", (int)process);
    expect_part(answer, expected);
    free(answer);
    end_program(process);
    ck_assert(share_ends(connection));
}

static void run_misread(void *unused) {
    (void)unused;
    setenv("SHARE_TEST_PROGRAM", "1", 1);
    setenv("RUNLOOP_SHARE", "yes", 1);
    alarm(1);
    become_program(NULL);
}
RL_TEST(an_odd_value_is_logged, "S-OUT-1", "A value of RUNLOOP_SHARE that is neither 0 nor 1 is logged once and shares nothing") {
    share_alone();
    ChildResult result = run_child(run_misread, NULL);
    ck_assert_str_eq(result.output, "RLSetShared: RUNLOOP_SHARE is neither 0 nor 1\n");
    ck_assert_int_eq(share_connect(0), -1);
}

/* S-FD-18: a line of its own says that a descriptor was lost. */
static void become_shared_program(void *what) {
    setenv("SHARE_TEST_PROGRAM", what, 1);
    setenv("RUNLOOP_SHARE", "1", 1);
    become_program(NULL);
}
RL_TEST(a_call_before_the_first_wait, "S-OUT-1 S-FD-18", "A program with RUNLOOP_SHARE=1 that calls RLSetShared before a loop waits has lost nothing, and logs nothing") {
    share_alone();
    /* Check keeps a pointer to the text, so the result has to have a name. */
    ChildResult set = run_child(become_shared_program, "set1"), unset = run_child(become_shared_program, "set0");
    ck_assert_str_eq(set.output, "");
    ck_assert_str_eq(unset.output, "");
}

static void share_again(void *unused) {
    (void)unused;
    RLSetShared(true);
    wait_once();
    RLSetShared(false);
    wait_once();
}
RL_TEST(a_call_in_the_child_before_its_first_wait, "S-OUT-1 S-FD-18", "The child of a shared process that calls RLSetShared before its loop waits logs nothing") {
    share_alone();
    ck_assert(RLSetShared(true));
    ChildResult again = run_child(share_again, NULL);
    ck_assert_str_eq(again.output, "");
    RLSetShared(false);
}

RL_TEST(numbers_of_dead_processes_are_used_again, "S-OUT-2", "Each shared process has the least number that no living one has") {
    share_alone();
    pid_t first = start_program("1");
    close(share_connect_soon(0));
    const pid_t second = start_program("1");
    close(share_connect_soon(1));
    end_program(first);
    ck_assert_int_eq(share_connect(0), -1);
    first = start_program("1");
    const int connection = share_connect_soon(0);
    char *answer = share_ask(connection, "statistics"), expected[64];
    snprintf(expected, sizeof expected, "\"process\":%d,", (int)first);
    expect_part(answer, expected);
    free(answer);
    ck_assert_int_eq(share_connect(2), -1);
    end_program(first);
    end_program(second);
}

/* Answers */

static Gate is_inside, may_go_on;
static void wait_inside(Probe *self) {
    (void)self;
    gate_open(&is_inside);
    gate_wait(&may_go_on);
}
static void block_in_a_timer(LoopThread *self) {
    (void)self;
    static Probe probe = {.action = wait_inside};
    RLTimerRef timer = probe_timer(&probe, date_in(-1), 0);
    RLSetName(timer, "stuck");
    RLSetName(RLGetCurrent(), "blocked \"\x1b[31m\xC3\xA4\xFF\xED\xA0\x80\xF4\x90\x80\x80");
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(a_stuck_loop_is_told_of, "S-OUT-4 S-OUT-3 S-OUT-9",
        "While a loop is in a callback others see which, and names of any bytes come as UTF-8 in JSON") {
    share_alone();
    ck_assert(RLSetShared(true));
    LoopThread other;
    loop_thread_start(&other, block_in_a_timer, NULL);
    gate_wait(&is_inside);
    const int connection = share_connect(0);
    char *answer = share_ask(connection, "statistics");
    expect_part(share_value(answer, other.loop, "inCall"), "name = \\u0022stuck\\u0022");
    ck_assert_str_eq(share_value(answer, other.loop, "name"),
                     "\"blocked \\u0022\\u001b[31m\xC3\xA4\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    ck_assert_str_eq(share_value(answer, other.loop, "mode"), "\"kCFRunLoopDefaultMode\"");
    char request[64];
    snprintf(request, sizeof request, "dump %s", share_value(answer, other.loop, "thread"));
    free(answer);
    answer = share_ask(connection, request);
    expect_part(answer, "calls <RLTimer");
    ck_assert_ptr_null(strstr(answer + 1, "<RLRunLoop"));
    free(answer);
    answer = share_ask(connection, "dump 1");
    ck_assert_str_eq(answer, "");
    free(answer);
    gate_open(&may_go_on);
    thread_join(other.thread);
}

static void wait_for_stop(LoopThread *self) {
    (void)self;
    static Probe probe;
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLSetName(source, "work");
    RLSourceSignal(source);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(numbers_are_those_of_the_loop, "S-OUT-3 S-STAT-1", "Each number of RLStatistics has its own name in the answer") {
    share_alone();
    ck_assert(RLSetShared(true));
    LoopThread other;
    loop_thread_start(&other, wait_for_stop, NULL);
    wait_until_waiting(other.loop);
    const int connection = share_connect(0);
    char *answer = share_ask(connection, "statistics");
    RLStatistics numbers = {.version = 0};
    ck_assert(RLGetStatistics(other.loop, &numbers));
    const struct {
        const char *name;
        uint64_t value;
    } expected[] = {{"runs", numbers.runs}, {"passes", numbers.passes}, {"waits", numbers.waits}, {"sleeps", numbers.sleeps},
                    {"wakeUps", numbers.wakeUps}, {"rouses", numbers.rouses}, {"sources", numbers.sources}, {"ports", numbers.ports},
                    {"timers", numbers.timers}, {"skippedDates", numbers.skippedDates}, {"functions", numbers.functions},
                    {"requests", numbers.requests},
                    {"observers", numbers.observers}, {"mainQueue", numbers.mainQueue}, {"callOuts", numbers.callOuts}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_msg(strtoull(share_value(answer, other.loop, expected[i].name), NULL, 10) == expected[i].value, "%s", expected[i].name);
    ck_assert_str_eq(share_value(answer, other.loop, "waiting"), "true");
    ck_assert_str_eq(share_value(answer, other.loop, "asleepTime"), "0e-9");
    expect_part(answer, "\n{\"left\":0}\n");
    free(answer);
    RLStop(other.loop);
    thread_join(other.thread);
}

static void count_nothing(void *info) { (void)info; }
RL_TEST(queues_are_counted, "S-OUT-3", "What was posted and asked for and not yet looked at is counted, over several chunks of the queue") {
    share_alone();
    ck_assert(RLSetShared(true));
    const int connection = share_connect(0);
    for (int i = 0; i < 100; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count_nothing, NULL, NULL);
    char *answer = share_ask(connection, "statistics");
    ck_assert_int_ge(atoi(share_value(answer, RLGetCurrent(), "queuedPosts")), 60);
    free(answer);
    RLRunInMode(kRLDefaultMode, 0, false);
    answer = share_ask(connection, "statistics");
    ck_assert_str_eq(share_value(answer, RLGetCurrent(), "queuedPosts"), "0");
    free(answer);
}

/* Measuring */

static void use_some_time(Probe *self) {
    (void)self;
    take_time(0.002);
}
RL_TEST(measuring_lasts_as_long_as_who_asked, "S-OUT-6 S-STAT-3", "Call-outs are measured from the first request on until the last such connection ends") {
    share_alone();
    ck_assert(RLSetShared(true));
    RLRunLoopRef loop = RLGetCurrent();
    static Probe probe = {.action = use_some_time};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLSetName(source, "costly");
    int connections[] = {share_connect(0), share_connect(0), share_connect(0)};
    free(share_ask(connections[2], "statistics"));
    ck_assert(!RLIsAccounting(loop));
    free(share_ask(connections[0], "measure"));
    free(share_ask(connections[1], "measure"));
    ck_assert(RLIsAccounting(loop));
    RLSourceSignal(source);
    RLRunInMode(kRLDefaultMode, 0, false);
    /* The loop alone keeps a timer, and without a count; of a one-shot that is over nothing is left. */
    static Probe quick;
    RLSetName(add_timer(&quick, date_in(-1), 1000, kRLDefaultMode), "repeating");
    RLSetName(add_timer(&quick, date_in(-1), 0, kRLDefaultMode), "over");
    RLRunInMode(kRLDefaultMode, 0, false);
    char *answer = share_ask(connections[2], "statistics");
    ck_assert_str_eq(share_value(answer, loop, "callOuts"), "3");
    expect_part(strstr(answer, "\"items\":["), "\"name\":\"repeating\",\"calls\":1,\"total\":");
    ck_assert_ptr_null(strstr(answer, "\"over\""));
    ck_assert_int_ge(atoi(share_value(answer, loop, "callOutTime")), 2000000);
    expect_part(strstr(answer, "\"items\":["), "\"name\":\"costly\",\"calls\":1,\"total\":");
    free(answer);
    close(connections[0]);
    /* Answered after the end of the other was seen. */
    free(share_ask(connections[2], "statistics"));
    ck_assert(RLIsAccounting(loop));
    close(connections[1]);
    while (RLIsAccounting(loop)) take_time(0.001);

    RLSetAccounting(loop, true);
    connections[0] = share_connect(0);
    free(share_ask(connections[0], "measure"));
    RLSetAccounting(loop, false);
    ck_assert(RLIsAccounting(loop));
    RLSetAccounting(loop, true);
    close(connections[0]);
    for (int i = 0; i < 3; i++) free(share_ask(connections[2], "statistics"));
    ck_assert(RLIsAccounting(loop));
    RLSetAccounting(loop, false);
    ck_assert(!RLIsAccounting(loop));
}

RL_TEST(a_loop_that_ends_leaves_nothing_measured, "S-OUT-6", "A loop in the memory of a measured one is not measured when nobody asks") {
    share_alone();
    ck_assert(RLSetShared(true));
    const int connection = share_connect(0);
    for (int i = 0; i < 20; i++) {
        LoopThread other;
        loop_thread_start(&other, wait_for_stop, NULL);
        wait_until_waiting(other.loop);
        ck_assert(!RLIsAccounting(other.loop));
        const int asks = share_connect(0);
        free(share_ask(asks, i % 2 ? "measure" : "statistics"));
        ck_assert_int_eq(RLIsAccounting(other.loop), i % 2);
        RLStop(other.loop);
        thread_join(other.thread);
        close(asks);
        while (RLIsAccounting(RLGetCurrent())) take_time(0.001);
    }
    close(connection);
}

#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER) /* The child ends by its last thread, with what the parent had. */
/* ---- a release that the thread that answers calls, and that forks */

enum { FORKS = 3 };
static pthread_t user_of_items;
static int forks_in_release, dumps_are_over;
static pid_t forked_in_release[FORKS];
static void fork_in_release(const void *info) {
    (void)info;
    if (pthread_equal(pthread_self(), user_of_items) || forks_in_release == FORKS) return;
    pid_t child = fork();
    if (child == 0) {
        /* The thread goes on in the child, without the service, and ends with it. */
        alarm(30);
        forks_in_release = FORKS;
        return;
    }
    forked_in_release[forks_in_release] = child;
    __atomic_add_fetch(&forks_in_release, 1, __ATOMIC_SEQ_CST);
}
static void ask_for_dumps(void *unused) {
    (void)unused;
    int connection = share_connect_soon(0);
    while (!__atomic_load_n(&dumps_are_over, __ATOMIC_SEQ_CST)) free(share_ask(connection, "dump"));
    close(connection);
}

RL_TEST(a_release_of_the_answering_thread_forks, "S-OUT-4 S-OUT-5 S-FORK-4",
        "The child of a release that the thread that answers others calls goes on, and ends with that thread") {
    share_alone();
    user_of_items = pthread_self();
    ck_assert(RLSetShared(true));
    Thread *asker = thread_start(ask_for_dumps, NULL);
    RLSourceContext context = {.release = fork_in_release};
    /* Until the thread happens to have the last references. */
    while (__atomic_load_n(&forks_in_release, __ATOMIC_SEQ_CST) < FORKS) {
        RLSourceRef sources[8];
        for (int i = 0; i < 8; i++) RLAddSource(RLGetCurrent(), sources[i] = RLSourceCreate(0, &context), kRLDefaultMode);
        for (int i = 0; i < 8; i++) {
            RLRemoveSource(RLGetCurrent(), sources[i], kRLDefaultMode);
            RLRelease(sources[i]);
        }
    }
    __atomic_store_n(&dumps_are_over, 1, __ATOMIC_SEQ_CST);
    thread_join(asker);
    for (int i = 0; i < FORKS; i++) {
        int status = -1;
        ck_assert_int_eq(waitpid(forked_in_release[i], &status, 0), forked_in_release[i]);
        ck_assert_int_eq(status, 0);
    }
    RLSetShared(false);
}
#endif
