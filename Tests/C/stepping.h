/* SPDX-License-Identifier: MIT */
/*
 * What happens between any two instructions of a call: the processor's trap flag stops a thread after so many instructions of
 * it, for each number from 1 to the end of the call. For what the explorer does not see because it happens in C, or in plain memory.
 * Included by one file of a program.
 */
#ifndef RUNLOOP_TESTS_STEPPING_H
#define RUNLOOP_TESTS_STEPPING_H

#include "support.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { TRAP_FLAG = 0x100 };
static __thread long steps_left;
static __thread void (*at_step)(void);
static __thread bool was_reached;

static void on_step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *where = context;
    if (--steps_left > 0) return;
    where->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    was_reached = true;
    int error = errno;
    at_step();
    errno = error;
    /* It may have asked for more. */
    if (steps_left > 0) where->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

/* From here on, until `then` was called after so many instructions. */
static __attribute__((noinline)) void begin_steps(long instructions, void (*then)(void)) {
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    ck_assert_int_eq(sigaction(SIGTRAP, &action, NULL), 0);
    steps_left = instructions;
    at_step = then;
    was_reached = false;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}
/* False: there were no more than that. */
static __attribute__((noinline)) bool end_steps(void) {
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    return was_reached;
}

/* Calls the function, and `then` in the middle of it, after so many instructions. */
static __attribute__((unused)) bool interrupt(void (*function)(void), long instructions, void (*then)(void)) {
    begin_steps(instructions, then);
    function();
    return end_steps();
}

/* Called after each system call that the library makes, on whatever thread. */
static void (*after_call)(long number);

/* The library blocks all signals while it is told of one. A thread that is stepped with that signal blocked would be killed. */
long syscall(long number, ...) {
    va_list list;
    long given[6], result;
    va_start(list, number);
    for (int i = 0; i < 6; i++) given[i] = va_arg(list, long);
    va_end(list);
    register long fourth __asm__("r10") = given[3];
    register long fifth __asm__("r8") = given[4];
    register long sixth __asm__("r9") = given[5];
    if (number == SYS_rt_sigprocmask) {
        errno = EPERM;
        return -1;
    }
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    if (after_call) after_call(number);
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}

/* Another thread that makes a call when it is told to. */
static void (*other_call)(void);
static sem_t question, answer;
static bool is_over, is_answered;
static __attribute__((unused)) void make_calls(void *unused) {
    (void)unused;
    while (sem_wait(&question) == 0 && !is_over) {
        other_call();
        sem_post(&answer);
    }
}
static __attribute__((unused)) void ask_other(void) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    /* It may have to wait for the thread that is held up, which then goes on. */
    limit.tv_nsec += 2000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    sem_post(&question);
    is_answered = sem_timedwait(&answer, &limit) == 0;
}

#endif
