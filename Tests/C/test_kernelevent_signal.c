/* SPDX-License-Identifier: MIT */
/*
 * Signal sources against what a program does with the same signal at the same time: sigaction(2) in
 * another thread, handlers that interrupt the library's and leave it by siglongjmp(3), fork.
 */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef WITH_THREAD_SANITIZER
/*
 * The thread sanitizer keeps the actions of signals itself and copies them word by word, so a call during another thread's call may
 * get the handler of one action with the flags of another. The kernel makes one call at a time, and so does this function, which
 * the library calls too. No handler interrupts it.
 */
int __interceptor_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    static int lock;
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
    int result = __interceptor_sigaction(number, action, old);
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return result;
}
#endif

static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source;
    __atomic_add_fetch((int *)info, (int)event->data, __ATOMIC_SEQ_CST);
}

static RLSourceRef make(int number, int *total) {
    RLKernelEvent event = {(uintptr_t)number, kRLKernelFilterSignal, 0, 0, 0, NULL};
    RLKernelEventContext context = {.info = total};
    return RLKernelEventSourceCreate(&event, note, &context);
}

static bool is_over;
static bool goes_on(void) { return !__atomic_load_n(&is_over, __ATOMIC_SEQ_CST); }

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The program's handlers */

static int called, called_once;
static void plain(int number) {
    (void)number;
    __atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
}
static void with_info(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_signo == number) __atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
}
static void once(int number) {
    (void)number;
    __atomic_add_fetch(&called_once, 1, __ATOMIC_SEQ_CST);
}

static void install(int number, int kind) {
    struct sigaction action = {.sa_flags = 0};
    switch (kind) {
    case 0: action.sa_handler = plain; break;
    case 1:
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        action.sa_sigaction = with_info;
        break;
    case 2: action.sa_handler = SIG_IGN; break;
    case 3:
        action.sa_flags = SA_SIGINFO; /* the kernel takes no notice of the flag here */
        action.sa_handler = SIG_DFL;
        break;
    default:
        action.sa_flags = (int)SA_RESETHAND;
        action.sa_handler = once;
    }
    ck_assert_int_eq(sigaction(number, &action, NULL), 0);
}

static void storm(void *unused) {
    (void)unused;
    while (goes_on()) {
        for (int i = 0; i < 64; i++) pthread_kill(pthread_self(), SIGWINCH);
        sched_yield();
    }
}

RL_TEST(actions_come_and_go_under_signals, "S-KEV-3",
        "The program installs actions of every kind for a signal, between sources of it that come "
        "and go, while the signal keeps coming to another thread: each delivery calls one of them, "
        "whole") {
    Thread *other = thread_start(storm, NULL);
    double end = seconds_now() + 2;
    for (unsigned i = 0; seconds_now() < end; i++) {
        int total = 0;
        RLSourceRef source = make(SIGWINCH, &total);
        ck_assert_ptr_nonnull(source);
        if (i % 8 == 7) sched_yield();
        RLSourceInvalidate(source);
        RLRelease(source);
        install(SIGWINCH, (int)(i % 4));
    }
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(other);
}

static void make_and_end(void *unused) {
    (void)unused;
    while (goes_on()) {
        int total = 0;
        RLSourceRef source = make(SIGWINCH, &total);
        ck_assert_ptr_nonnull(source);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
}

RL_TEST(an_action_installed_meanwhile_is_not_lost, "S-KEV-3",
        "What the program installs at the moment when another thread makes or ends the only source "
        "of the signal is there afterwards, and is called") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    /* A delivery that goes by the newest action finds an older one, which counts it too. */
    install(SIGWINCH, 0);
    Thread *other = thread_start(make_and_end, NULL);
    double end = seconds_now() + 1;
    while (seconds_now() < end) {
        for (int kind = 0; kind < 2; kind++) {
            install(SIGWINCH, kind);
            int before = __atomic_load_n(&called, __ATOMIC_RELAXED);
            for (int i = 0; i < 4; i++) {
                raise(SIGWINCH);
                ck_assert_int_eq(__atomic_load_n(&called, __ATOMIC_RELAXED), before + i + 1);
            }
        }
    }
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(other);
}

RL_TEST(a_handler_to_be_called_once_is, "S-KEV-3",
        "A handler of the program's with SA_RESETHAND is called for one delivery, and what is put "
        "back after that is the default action") {
    install(SIGWINCH, 4);
    int total = 0;
    RLSourceRef source = make(SIGWINCH, &total);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    for (int i = 0; i < 3; i++) raise(SIGWINCH);
    ck_assert_int_eq(called_once, 1);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(total, 3);
    RLSourceInvalidate(source);
    RLRelease(source);
    struct sigaction now;
    sigaction(SIGWINCH, NULL, &now);
    ck_assert(now.sa_handler == SIG_DFL);
    /* One that was not called meanwhile is put back as it was. */
    install(SIGWINCH, 4);
    source = make(SIGWINCH, &total);
    RLRelease(source);
    for (int i = 0; i < 3; i++) raise(SIGWINCH);
    ck_assert_int_eq(called_once, 2);
}

static void (*of_default)(int);
RL_TEST(a_default_action_with_siginfo_is_no_function, "S-KEV-3",
        "SA_SIGINFO beside SIG_DFL or SIG_IGN is not a handler to call") {
    for (int i = 0; i < 2; i++) {
        of_default = i ? SIG_IGN : SIG_DFL;
        struct sigaction action = {.sa_flags = SA_SIGINFO};
        action.sa_handler = of_default;
        ck_assert_int_eq(sigaction(SIGHUP, &action, NULL), 0);
        int total = 0;
        RLSourceRef source = make(SIGHUP, &total);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        raise(SIGHUP);
        expect_run(kRLDefaultMode, 0, true, HandledSource);
        ck_assert_int_eq(total, 1);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
}

/* Leaving the library's handler */

static sigjmp_buf back;
static volatile sig_atomic_t may_jump;
static pthread_t jumper;
/* Whether the last signal of the other thread came to its end: a jump that the next one interrupts keeps its place on the stack. */
static int has_landed;
static void land(void) { __atomic_store_n(&has_landed, 1, __ATOMIC_SEQ_CST); }
static void jump(int number) {
    (void)number;
    if (may_jump && pthread_equal(pthread_self(), jumper)) siglongjmp(back, 1);
    land();
}

static void interrupt_jumper(void *unused) {
    (void)unused;
    while (goes_on()) {
        __atomic_store_n(&has_landed, 0, __ATOMIC_SEQ_CST);
        pthread_kill(jumper, SIGUSR2);
        while (goes_on() && !count_of(&has_landed)) sched_yield();
    }
}

/* Signals itself; now and then a handler of another signal interrupts that and jumps out of it. */
static void jump_until_over(void *unused) {
    (void)unused;
    double end = seconds_now() + 1.5;
    volatile int jumps = 0;
    if (sigsetjmp(back, 1)) jumps++;
    may_jump = true;
    land();
    while (seconds_now() < end)
        for (int i = 0; i < 100; i++) pthread_kill(pthread_self(), SIGUSR1);
    may_jump = false;
    ck_assert_int_gt(jumps, 0);
}

RL_TEST(a_handler_that_jumps_holds_nothing_up, "S-KEV-3 S-KEV-15",
        "A handler of another signal that interrupts the library's and leaves by siglongjmp "
        "neither holds up the end of a source nor loses a report") {
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGUSR2, &action, NULL);
    int total = 0;
    RLSourceRef source = make(SIGUSR1, &total), other = make(SIGUSR1, &total);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    jumper = pthread_self();
    Thread *thread = thread_start(interrupt_jumper, NULL);
    jump_until_over(NULL);
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(thread);
    RLSourceInvalidate(other);
    RLRelease(other);
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) continue;
    total = 0;
    raise(SIGUSR1);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(total, 1);
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* The program's own handler, which the library's calls, may jump too. */
RL_TEST(the_programs_handler_may_jump, "S-KEV-3 S-KEV-15",
        "A handler of the program's that the library's calls may leave by siglongjmp: the signal is "
        "reported, and the source ends as ever") {
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGUSR1, &action, NULL);
    int total = 0;
    RLSourceRef source = make(SIGUSR1, &total);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    jumper = pthread_self();
    volatile int rounds = 0;
    sigsetjmp(back, 1);
    may_jump = true;
    while (rounds < 1000) {
        rounds++;
        raise(SIGUSR1);
        ck_abort_msg("the handler came back");
    }
    may_jump = false;
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(total, 1000);
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* Not while the interrupted thread is in a function of libc that fork(2) is not safe in. */
static volatile sig_atomic_t may_fork;
static void fork_in_handler(int number) {
    (void)number;
    if (!may_fork) return;
    int saved = errno;
    pid_t child = fork();
    if (child == 0) {
        /* Back out of the interrupted handler, and then to the end of the child below. */
        __atomic_store_n(&called, -1, __ATOMIC_SEQ_CST);
    } else if (child > 0) {
        int status;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        if (status != 0) __atomic_add_fetch(&called_once, 1, __ATOMIC_SEQ_CST);
    }
    errno = saved;
}

static void interrupt_slowly(void *unused) {
    (void)unused;
    while (goes_on()) {
        pthread_kill(jumper, SIGUSR2);
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
}

RL_TEST(a_handler_that_forks_holds_nothing_up, "S-KEV-11 S-KEV-15",
        "In the child of a fork by a handler that interrupts the library's, a source of the signal "
        "can be ended") {
    struct sigaction action = {.sa_handler = fork_in_handler};
    sigaction(SIGUSR2, &action, NULL);
    int total = 0;
    RLSourceRef source = make(SIGUSR1, &total);
    jumper = pthread_self();
    Thread *thread = thread_start(interrupt_slowly, NULL);
    double end = seconds_now() + 1.5;
    may_fork = true;
    while (seconds_now() < end && __atomic_load_n(&called, __ATOMIC_SEQ_CST) >= 0)
        for (int i = 0; i < 20; i++) pthread_kill(pthread_self(), SIGUSR1);
    may_fork = false;
    if (__atomic_load_n(&called, __ATOMIC_SEQ_CST) < 0) {
        alarm(20);
        RLSourceInvalidate(source);
        _exit(0);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(thread);
    ck_assert_int_eq(called_once, 0);
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* Children and SIGCHLD */

static pid_t start_child(void) {
    pid_t child = fork();
    if (child == 0) {
        for (;;) pause();
    }
    ck_assert_int_gt(child, 0);
    return child;
}
static void run_until(const int *total) {
    while (__atomic_load_n(total, __ATOMIC_SEQ_CST) == 0) RLRunInMode(kRLDefaultMode, 60, true);
}

RL_TEST(flags_for_children_hold, "S-KEV-3",
        "SA_NOCLDWAIT and SA_NOCLDSTOP hold while there is a source of SIGCHLD, with a handler of the program's, SIG_DFL and SIG_IGN, as before and after it") {
    void (*const handlers[])(int) = {SIG_DFL, plain, SIG_IGN};
    for (int i = 0; i < 3; i++) {
        for (int flags = 0; flags < 4; flags++) {
            struct sigaction action = {.sa_flags = SA_RESTART | (flags & 1 ? SA_NOCLDWAIT : 0) | (flags & 2 ? SA_NOCLDSTOP : 0)};
            action.sa_handler = handlers[i];
            ck_assert_int_eq(sigaction(SIGCHLD, &action, NULL), 0);
            int total = 0, status = 0;
            RLSourceRef source = make(SIGCHLD, &total);
            RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
            pid_t child = start_child();
            ck_assert_int_eq(kill(child, SIGSTOP), 0);
            ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
            ck_assert(WIFSTOPPED(status));
            if (flags & 2) RLRunInMode(kRLDefaultMode, 0, true);
            else run_until(&total);
            if (flags & 2) ck_assert_int_eq(total, 0);
            total = 0;
            ck_assert_int_eq(kill(child, SIGKILL), 0);
            if (i == 2 || flags & 1) {
                /* There is no zombie. */
                ck_assert_int_eq(waitpid(child, &status, 0), -1);
                ck_assert_int_eq(errno, ECHILD);
            } else {
                ck_assert_int_eq(waitpid(child, &status, 0), child);
            }
            run_until(&total);
            RLSourceInvalidate(source);
            RLRelease(source);
            struct sigaction now;
            sigaction(SIGCHLD, NULL, &now);
            ck_assert(now.sa_handler == handlers[i]);
            ck_assert_int_eq(now.sa_flags & (SA_NOCLDWAIT | SA_NOCLDSTOP), action.sa_flags & (SA_NOCLDWAIT | SA_NOCLDSTOP));
        }
    }
    signal(SIGCHLD, SIG_DFL);
}

static void end_a_source_while_it_is_covered(void *info) {
    int total = 0;
    bool is_taken_again = *(bool *)info;
    RLSourceRef source = make(SIGUSR1, &total);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    /* As system(3) does, and code that reads a line. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, saved;
    sigaction(SIGUSR1, &ignore, &saved);
    RLSourceInvalidate(source);
    sigaction(SIGUSR1, &saved, NULL);
    if (is_taken_again) {
        RLSourceRef next = make(SIGUSR1, &total);
        RLAddSource(RLGetCurrent(), next, kRLDefaultMode);
        raise(SIGUSR1);
        RLRunInMode(kRLDefaultMode, 60, true);
        if (total != 1) _exit(1);
        RLSourceInvalidate(next);
    }
    raise(SIGUSR1);
    _exit(2);
}

RL_TEST(a_handler_that_is_restored_lets_go, "S-KEV-3",
        "A handler of the library's that was covered when the last source ended, and restored since, leaves the signal its default action") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    for (int i = 0; i < 2; i++) {
        bool is_taken_again = i == 1;
        int status = run_child(end_a_source_while_it_is_covered, &is_taken_again).status;
        ck_assert(WIFSIGNALED(status));
        ck_assert_int_eq(WTERMSIG(status), SIGUSR1);
    }
}

RL_TEST(a_restored_handler_reports, "S-KEV-3",
        "A handler of the library's that was covered when its source ended, and is restored when another source has been made, reports to that; "
        "the program's handler is called, and put back at the end") {
    for (int kind = 0; kind < 2; kind++) {
        int total = 0, expected = 0;
        install(SIGUSR1, kind);
        RLSourceRef source = make(SIGUSR1, &total);
        /* A prompt's handler, and the action of system(3). */
        struct sigaction own = {.sa_handler = kind == 0 ? once : SIG_IGN}, saved;
        sigaction(SIGUSR1, &own, &saved);
        RLSourceInvalidate(source);
        RLRelease(source);
        source = make(SIGUSR1, &total);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        raise(SIGUSR1);
        expected++;
        sigaction(SIGUSR1, &saved, NULL);
        called = 0;
        for (int i = 0; i < 3; i++) raise(SIGUSR1);
        expected += 3;
        expect_run(kRLDefaultMode, 0, true, HandledSource);
        ck_assert_int_eq(total, expected);
        ck_assert_int_eq(called, 3);
        RLSourceInvalidate(source);
        RLRelease(source);
        raise(SIGUSR1);
        ck_assert_int_eq(called, 4);
        struct sigaction now;
        sigaction(SIGUSR1, NULL, &now);
        ck_assert(kind == 0 ? now.sa_handler == plain : now.sa_sigaction == with_info);
    }
}

RL_TEST(signal_restores_the_handler, "S-KEV-3",
        "The library's handler that signal(3) has returned and installed again reports, and is gone with the last source, however often that is done") {
    for (int i = 0; i < 20; i++) {
        int total = 0;
        RLSourceRef source = make(SIGUSR1, &total);
        ck_assert_ptr_nonnull(source);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        void (*saved)(int) = signal(SIGUSR1, SIG_IGN);
        if (i % 2 == 0) {
            signal(SIGUSR1, saved);
            raise(SIGUSR1);
            expect_run(kRLDefaultMode, 0, true, HandledSource);
            ck_assert_int_eq(total, 1);
        }
        RLSourceInvalidate(source);
        RLRelease(source);
        struct sigaction now;
        if (i % 2 == 1) {
            signal(SIGUSR1, saved);
            source = make(SIGUSR1, &total);
            RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
            raise(SIGUSR1);
            expect_run(kRLDefaultMode, 0, true, HandledSource);
            ck_assert_int_eq(total, 1);
            RLSourceInvalidate(source);
            RLRelease(source);
        }
        sigaction(SIGUSR1, NULL, &now);
        ck_assert(now.sa_handler == SIG_DFL);
    }
}

/* A handler that calls what it found, and installs itself again when something else has its place. */
static struct sigaction found_below;
static void chaining(int number, siginfo_t *info, void *context) {
    __atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
    if (called < 10 && found_below.sa_flags & SA_SIGINFO) found_below.sa_sigaction(number, info, context);
}
static void install_chaining(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = chaining;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &found_below), 0);
}

RL_TEST(a_handler_that_is_installed_again_is_called_once, "S-KEV-3",
        "A handler of the program's that is installed a second time, over the library's, and calls that is not called in turn") {
    for (int makes_anew = 0; makes_anew < 2; makes_anew++) {
        int total = 0;
        install_chaining();
        RLSourceRef source = make(SIGUSR1, &total);
        if (makes_anew) {
            install_chaining();
            RLSourceInvalidate(source);
            RLRelease(source);
            source = make(SIGUSR1, &total);
        }
        install_chaining();
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        called = 0;
        raise(SIGUSR1);
        ck_assert_int_eq(called, 1);
        expect_run(kRLDefaultMode, 0, true, HandledSource);
        ck_assert_int_eq(total, 1);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
}

/* Handlers that call what they found, each with its own. */
static struct sigaction found_by_first, found_by_second;
static void call_found(const struct sigaction *found, int number, siginfo_t *info, void *context) {
    if (found->sa_flags & SA_SIGINFO) found->sa_sigaction(number, info, context);
    else if (found->sa_handler != SIG_DFL && found->sa_handler != SIG_IGN) found->sa_handler(number);
}
static void first_chaining(int number, siginfo_t *info, void *context) {
    if (__atomic_add_fetch(&called, 1, __ATOMIC_RELAXED) < 10) call_found(&found_by_first, number, info, context);
}
static int called_second;
static void second_chaining(int number) {
    if (++called_second < 10) call_found(&found_by_second, number, NULL, NULL);
}
/* One that is installed already does not call another one of these, which may call it: only what has displaced both. */
static void install_chaining_one(const struct sigaction *action, struct sigaction *found) {
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    if (sigismember(&found->sa_mask, SIGUSR2) == 1 && (now.sa_sigaction == first_chaining || now.sa_handler == second_chaining)) return;
    ck_assert_int_eq(sigaction(SIGUSR1, action, found), 0);
    /* Marks it as installed. */
    sigaddset(&found->sa_mask, SIGUSR2);
}
static void install_first(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = first_chaining;
    install_chaining_one(&action, &found_by_first);
}
static void install_second(void) {
    struct sigaction action = {.sa_handler = second_chaining};
    install_chaining_one(&action, &found_by_second);
}

RL_TEST(handlers_that_call_the_librarys, "S-KEV-3",
        "In each delivery one report is made and no handler is called without end, however the program's handlers that call the library's come to lie over it and below it") {
    for (unsigned steps = 0; steps < 4 * 4 * 4 * 4; steps++) {
        int total = 0, seconds = 0;
        signal(SIGUSR1, SIG_DFL);
        found_by_first = found_by_second = (struct sigaction){.sa_flags = 0};
        RLSourceRef source = NULL;
        for (unsigned step = 0, left = steps; step < 4; step++, left /= 4) {
            switch (left % 4) {
            case 0: install_first(); break;
            case 1:
                install_second();
                seconds++;
                break;
            default:
                /* One is made before the other ends, or after it. */
                if (source && left % 4 == 2) {
                    RLSourceInvalidate(source);
                    RLRelease(source);
                    source = NULL;
                }
                RLSourceRef made = make(SIGUSR1, &total);
                ck_assert_ptr_nonnull(made);
                if (source) {
                    RLSourceInvalidate(source);
                    RLRelease(source);
                }
                source = made;
                RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
            }
        }
        if (!source) continue;
        for (int i = 1; i <= 2; i++) {
            called = called_second = 0;
            raise(SIGUSR1);
            RLRunInMode(kRLDefaultMode, 0, true);
            ck_assert_int_ge(total, i);
            /* The second has no context to pass on: what comes after it is not known to be the same delivery. */
            if (seconds > 0) continue;
            ck_assert_msg(called <= 2 && called_second <= 2, "steps %u: %d and %d calls", steps, called, called_second);
            ck_assert_msg(total == i, "steps %u: %d reports of %d", steps, total, i);
        }
        RLSourceInvalidate(source);
        RLRelease(source);
    }
}

/* The program's handler below the library's jumps; that above it calls the library's. */
static sigjmp_buf landing;
static void jump_to_landing(int number) {
    (void)number;
    siglongjmp(landing, 1);
}
static int raise_deeper(int depth) {
    /* Memory that nobody writes to. */
    volatile char room[4096];
    room[depth] = 0;
    if (depth > 0) return raise_deeper(depth - 1) + room[depth];
    return raise(SIGUSR1);
}

RL_TEST(a_jump_out_of_the_lowest_handler, "S-KEV-3 S-KEV-15",
        "Each delivery is reported, and comes to the handler that lies below the library's and jumps, also where another one calls the library's") {
    for (volatile int with_info = 0; with_info < 2; with_info++) {
        int total = 0;
        volatile int jumps = 0;
        struct sigaction action = {.sa_handler = jump_to_landing};
        sigaction(SIGUSR1, &action, NULL);
        RLSourceRef source = make(SIGUSR1, &total);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        if (with_info) install_first();
        else install_second();
        for (volatile int i = 0; i < 50; i++) {
            called = called_second = 0;
            if (sigsetjmp(landing, 1)) jumps++;
            else raise_deeper(with_info ? i % 10 : 0);
        }
        ck_assert_int_eq(jumps, 50);
        expect_run(kRLDefaultMode, 0, true, HandledSource);
        ck_assert_int_eq(total, 50);
        RLSourceInvalidate(source);
        RLRelease(source);
        signal(SIGUSR1, SIG_DFL);
    }
}

static void raise_until_over(void *unused) {
    (void)unused;
    while (goes_on()) {
        int before = __atomic_load_n(&called, __ATOMIC_RELAXED);
        raise(SIGWINCH);
        if (__atomic_load_n(&called, __ATOMIC_RELAXED) == before) called_once++;
    }
}

RL_TEST(a_handler_misses_nothing, "S-KEV-3", "The program's handler is called for each delivery while another thread makes and ends the only source of the signal") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    install(SIGWINCH, 1);
    Thread *other = thread_start(raise_until_over, NULL);
    double end = seconds_now() + 2;
    while (seconds_now() < end) {
        int total = 0;
        RLSourceRef source = make(SIGWINCH, &total);
        RLSourceInvalidate(source);
        RLRelease(source);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(other);
    ck_assert_int_eq(called_once, 0);
}

static void be_interrupted(int number) {
    for (int i = 0; i < 3; i++) {
        int ends[2];
        char byte;
        make_pipe(ends);
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            _exit(0);
        }
        ssize_t count;
        /* The child ends while this waits, or before: then it is interrupted by nothing. */
        alarm(1);
        count = read(ends[0], &byte, 1);
        alarm(0);
        ck_assert_int_eq(count, -1);
        ck_assert_int_eq(errno, EINTR);
        struct sigaction now;
        sigaction(number, NULL, &now);
        ck_assert(!(now.sa_flags & SA_RESTART));
        close(ends[0]);
        close(ends[1]);
        waitpid(child, NULL, 0);
    }
}

RL_TEST(flags_of_the_librarys_action_hold, "S-KEV-3", "What siginterrupt(3) says of a signal that has a source stays") {
    int total = 0;
    RLSourceRef source = make(SIGCHLD, &total);
    /* As siginterrupt(3) does. */
    struct sigaction action;
    sigaction(SIGCHLD, NULL, &action);
    action.sa_flags &= ~SA_RESTART;
    sigaction(SIGCHLD, &action, NULL);
    action = (struct sigaction){.sa_handler = plain};
    sigaction(SIGALRM, &action, NULL);
    be_interrupted(SIGCHLD);
    RLSourceInvalidate(source);
    RLRelease(source);
}

static int turn_of_maker;
static void make_and_end_in_turn(void *unused) {
    (void)unused;
    for (;;) {
        int turn = __atomic_load_n(&turn_of_maker, __ATOMIC_SEQ_CST);
        if (turn < 0) return;
        if (turn == 0) continue;
        int total = 0;
        RLSourceRef source = make(SIGUSR1, &total);
        __atomic_store_n(&turn_of_maker, 2, __ATOMIC_SEQ_CST);
        RLSourceInvalidate(source);
        RLRelease(source);
        __atomic_store_n(&turn_of_maker, 0, __ATOMIC_SEQ_CST);
    }
}

RL_TEST(a_handler_to_be_called_once_misses_nothing, "S-KEV-3",
        "A handler with SA_RESETHAND is called for the delivery that comes while another thread ends the only source, and the process lives") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    Thread *other = thread_start(make_and_end_in_turn, NULL);
    for (int i = 1; i <= 4000; i++) {
        install(SIGUSR1, 4);
        __atomic_store_n(&turn_of_maker, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&turn_of_maker, __ATOMIC_SEQ_CST) == 1) continue;
        for (volatile int pause = 0; pause < i % 200 * 4; pause++) continue;
        raise(SIGUSR1);
        ck_assert_int_eq(count_of(&called_once), i);
        while (__atomic_load_n(&turn_of_maker, __ATOMIC_SEQ_CST) != 0) continue;
    }
    __atomic_store_n(&turn_of_maker, -1, __ATOMIC_SEQ_CST);
    thread_join(other);
}

static const void *raise_in_retain(const void *info) {
    raise(SIGUSR1);
    return info;
}

RL_TEST(a_signal_while_its_source_is_made, "S-KEV-1 S-KEV-2",
        "A signal that comes when the library's handler has been installed for a source that is being made is reported by that") {
    int total = 0;
    RLKernelEvent event = {SIGUSR1, kRLKernelFilterSignal, 0, 0, 0, NULL};
    RLKernelEventContext context = {.info = &total, .retain = raise_in_retain};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(total, 1);
    RLSourceInvalidate(source);
    RLRelease(source);
}
