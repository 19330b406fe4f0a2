/* SPDX-License-Identifier: MIT */
/* A loop with nothing to do does not run at all, whatever it sleeps on and whatever waits far away
   in it; and a loop that is awake makes no system call, nor does who sends to it: S-PASS-16, S-PASS-7,
   S-SRC-29, S-PORT-13. */
#define _GNU_SOURCE
#include "stress.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Idle: context switches of the loop's thread. */

struct switches {
    char state;
    unsigned long voluntary, other;
};

static struct switches switches_of(int thread) {
    struct switches result = {0, 0, 0};
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    MUST(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "State: %c", &result.state);
        sscanf(line, "voluntary_ctxt_switches: %lu", &result.voluntary);
        sscanf(line, "nonvoluntary_ctxt_switches: %lu", &result.other);
    }
    fclose(file);
    return result;
}

static int sleeper_id;
static sem_t sleeper_known;

static void tell_id(void *info) {
    (void)info;
    sleeper_id = stress_thread_id();
    sem_post(&sleeper_known);
}

static void fire_late(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
    stress_fail(__FILE__, __LINE__, "a timer that is hours away does not fire");
}

static void check_idle(enum stress_sleep sleep, unsigned timers) {
    struct stress_loop idle;
    sem_init(&sleeper_known, 0, 0);
    stress_loop_start(&idle, sleep);
    for (unsigned i = 0; i < timers; i++) {
        RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 10000 + i, 1, 0, 0, fire_late, NULL);
        RLAddTimer(idle.loop, timer, kRLDefaultMode);
        RLRelease(timer);
    }
    RLPerformFunction(idle.loop, kRLDefaultMode, tell_id, NULL, NULL);
    RLWakeUp(idle.loop);
    while (sem_wait(&sleeper_known) != 0) MUST_BE(errno, ==, EINTR);

    /* This thread's own loop waits, half a second at a time, until the other has not run for two
       seconds: at the first rounds it may still be on its way to sleep. */
    RLSourceRef keep = stress_source(0, NULL, NULL);
    RLAddSource(RLGetCurrent(), keep, kRLDefaultMode);
    struct switches before = {0, 0, 0}, now;
    unsigned quiet = 0, rounds = 0;
    do {
        now = switches_of(sleeper_id);
        bool still = RLIsWaiting(idle.loop) && now.state == 'S' && now.voluntary == before.voluntary &&
                     now.other == before.other;
        quiet = still ? quiet + 1 : 0;
        before = now;
        MUST_BE(++rounds, <, 20);
        if (quiet < 5) MUST_BE(RLRunInMode(kRLDefaultMode, 0.5, false), ==, kRLRunTimedOut);
    } while (quiet < 5);
    RLSourceInvalidate(keep);
    RLRelease(keep);
    RLStop(idle.loop);
    stress_loop_join(&idle);
}

START_TEST(an_idle_loop_does_not_run_on_a_futex) { check_idle(SLEEP_ON_FUTEX, 0); }
END_TEST

START_TEST(an_idle_loop_does_not_run_in_epoll) { check_idle(SLEEP_IN_EPOLL, 0); }
END_TEST

START_TEST(a_thousand_far_timers_cost_nothing_on_a_futex) { check_idle(SLEEP_ON_FUTEX, 1000); }
END_TEST

START_TEST(a_thousand_far_timers_cost_nothing_in_epoll) { check_idle(SLEEP_IN_EPOLL, 1000); }
END_TEST

#ifndef STRESS_SANITIZED /* A sanitizer's runtime makes system calls of its own. */

/* Awake: the kernel refuses every system call and says which it was. */

struct outcome {
    atomic_ulong passes;
    atomic_int call; /* the first system call made, or -1 */
};

static struct outcome *outcome; /* shared with the parent */
static RLSourceRef awake_source;
static unsigned long warm_up, last_pass;
static bool post_functions, wake_up;

static void refused(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    atomic_store(&outcome->call, info->si_syscall);
    _exit(1);
}

/* Lets this thread do nothing but end the process. A clock that the kernel does not map into the
   process is read by a system call, which is not the library's choice. */
static void allow_no_system_call(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    struct sigaction action = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO};
    MUST_BE(sigaction(SIGSYS, &action, NULL), ==, 0);
    MUST_BE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
    MUST_BE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
}

static void nothing(void *info) { (void)info; }

static void perform_again(void *info) {
    unsigned long pass = atomic_fetch_add(&outcome->passes, 1) + 1;
    (void)info;
    if (pass == warm_up) allow_no_system_call();
    if (pass == last_pass) _exit(0);
    RLSourceSignal(awake_source);
    if (wake_up) RLWakeUp(RLGetCurrent());
    if (post_functions) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, nothing);
}

static void fire_again(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
}

static void run_in_the_child(bool due_timer) {
    RLRunLoopRef loop = RLGetCurrent();
    awake_source = stress_source(0, perform_again, NULL);
    RLAddSource(loop, awake_source, kRLDefaultMode);
    for (unsigned i = 0; i < 100; i++)
        RLAddTimer(loop, RLTimerCreate(RLAbsoluteTimeGetCurrent() + 10000, 0, 0, 0, fire_late, NULL), kRLDefaultMode);
    if (due_timer)
        RLAddTimer(loop, RLTimerCreate(RLAbsoluteTimeGetCurrent(), 1e-5, 0, 0, fire_again, NULL), kRLDefaultMode);
    RLSourceSignal(awake_source);
    RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false);
    _exit(2);
}

/* A port whose callback sends it the next message. */
static void send_again(RLMachPortRef port, const RLMachMessage *message, void *info) {
    unsigned long pass = atomic_fetch_add(&outcome->passes, 1) + 1;
    (void)info;
    if (pass == warm_up) allow_no_system_call();
    if (pass == last_pass) _exit(0);
    MUST_BE(RLMachPortSend(port, message->msgid, message->bytes, message->length, port, 0), ==, kRLMessagePortSuccess);
}

static void send_in_the_child(void) {
    RLMachPortRef port = RLMachPortCreate(send_again, NULL, NULL);
    RLAddSource(RLGetCurrent(), RLMachPortCreateRunLoopSource(port, 0), kRLDefaultMode);
    for (int i = 0; i < 3; i++) MUST_BE(RLMachPortSend(port, i, "a message", 9, NULL, 0), ==, kRLMessagePortSuccess);
    RLRunInMode(kRLDefaultMode, STRESS_FOREVER, false);
    _exit(2);
}

static bool send_messages;

static void check_awake(bool wake, bool post, bool due_timer) {
    int status = 0;
    wake_up = wake;
    post_functions = post;
    warm_up = 2000;
    last_pass = warm_up + stress_count(100000);
    outcome = mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(outcome, MAP_FAILED);
    atomic_store(&outcome->call, -1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0 && send_messages) send_in_the_child();
    if (child == 0) run_in_the_child(due_timer);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(atomic_load(&outcome->call), -1);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(atomic_load(&outcome->passes), last_pass);
    munmap(outcome, sizeof *outcome);
}

START_TEST(passes_awake_make_no_system_call) { check_awake(false, false, false); }
END_TEST

START_TEST(waking_a_loop_that_is_awake_makes_no_system_call) { check_awake(true, false, false); }
END_TEST

START_TEST(functions_make_no_system_call) { check_awake(true, true, false); }
END_TEST

START_TEST(timers_make_no_system_call) { check_awake(false, false, true); }
END_TEST

START_TEST(messages_make_no_system_call) {
    send_messages = true;
    check_awake(false, false, false);
}
END_TEST

#endif

int main(void) {
    Suite *suite = suite_create("sleep_costs");
    TCase *idle = tcase_create("idle"), *awake = tcase_create("awake");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(idle, 120);
    tcase_set_timeout(awake, 120);
    tcase_add_test(idle, an_idle_loop_does_not_run_on_a_futex);
    tcase_add_test(idle, an_idle_loop_does_not_run_in_epoll);
    tcase_add_test(idle, a_thousand_far_timers_cost_nothing_on_a_futex);
    tcase_add_test(idle, a_thousand_far_timers_cost_nothing_in_epoll);
    suite_add_tcase(suite, idle);
#ifndef STRESS_SANITIZED
    tcase_add_test(awake, passes_awake_make_no_system_call);
    tcase_add_test(awake, waking_a_loop_that_is_awake_makes_no_system_call);
    tcase_add_test(awake, functions_make_no_system_call);
    tcase_add_test(awake, timers_make_no_system_call);
    tcase_add_test(awake, messages_make_no_system_call);
#endif
    suite_add_tcase(suite, awake);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
