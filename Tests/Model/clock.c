/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#include "program.h"

enum { MAX_IDLE_CALLS = 200000 };

/* The monotonic clock has a number of its own, so that a mix-up of the clocks shows. It never goes
   back, also not from one sequence to the next; the wall clock is set back for each. */
static int64_t monotonic_start = INT64_C(100000) * 1000000000;
static const int64_t wall_start = (INT64_C(978307200) + (int64_t)CLOCK_WALL_START) * 1000000000;

static __thread bool joined;
static int64_t now;
static long idle_calls;

bool (*clock_block)(int64_t *now, int64_t deadline);
void (*clock_stuck)(void);

void clock_join(void) { joined = true; }

void clock_reset(void) {
    monotonic_start += now + INT64_C(1000000000);
    now = 0;
    idle_calls = 0;
}

int64_t clock_now(void) { return now; }

void clock_advance(int64_t nanoseconds) { now += nanoseconds; }

void clock_progress(void) { idle_calls = 0; }

static void *next_symbol(const char *name) { return dlsym(RTLD_NEXT, name); }

static void count_call(void) {
    if (++idle_calls > MAX_IDLE_CALLS) clock_stuck();
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int64_t reading;
    switch (joined ? clock : -1) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        reading = monotonic_start + now;
        break;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        reading = wall_start + now;
        break;
    default: {
        static int (*real)(clockid_t, struct timespec *);
        if (!real) real = (__typeof__(real))next_symbol("clock_gettime");
        return real(clock, time);
    }
    }
    count_call();
    time->tv_sec = reading / 1000000000;
    time->tv_nsec = reading % 1000000000;
    return 0;
}

/* Calls the function of that name that comes after this program's. */
static long real_syscall(long number, const long argument[6]) {
    static long (*real)(long, ...);
    if (!real) real = (__typeof__(real))next_symbol("syscall");
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

/* A wait of that length, TIME_NEVER for one without an end. */
static long wait_in_epoll(const long argument[6], int64_t length) {
    /* Emulators have this one, too. */
    const long look[6] = {argument[0], argument[1], argument[2], 0, argument[4], argument[5]};
    count_call();
    long ready = real_syscall(SYS_epoll_pwait, look);
    if (ready != 0 || length == 0) return ready;
    if (clock_block(&now, length == TIME_NEVER ? TIME_NEVER : now + length)) return 0;
    /* What happened was done by a signal handler, as far as the library can tell. */
    errno = EINTR;
    return -1;
}

static int64_t length_of(const struct timespec *time) {
    return time ? time->tv_sec * INT64_C(1000000000) + time->tv_nsec : TIME_NEVER;
}

static long wait_on_futex(const uint32_t *word, uint32_t value, const struct timespec *timeout) {
    count_call();
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        errno = EAGAIN;
        return -1;
    }
    int64_t deadline =
        timeout ? timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec - monotonic_start : TIME_NEVER;
    if ((deadline != TIME_NEVER && deadline <= now) || clock_block(&now, deadline)) {
        errno = ETIMEDOUT;
        return -1;
    }
    errno = EINTR;
    return -1;
}

/* The library makes its calls by syscall(2), which is this, with all six arguments that a call may have. */
long answer_call(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");
long answer_call(long number, long a, long b, long c, long d, long e, long f) {
    long argument[6] = {a, b, c, d, e, f};
    if (joined && number == SYS_futex && ((int)argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        return wait_on_futex((const uint32_t *)argument[0], (uint32_t)argument[2],
                             (const struct timespec *)argument[3]);
    if (joined && number == SYS_epoll_pwait2)
        return wait_in_epoll(argument, length_of((const struct timespec *)argument[3]));
    /* What the library calls for a wait without an end, and for none. */
    if (joined && number == SYS_epoll_pwait) {
        const int milliseconds = (int)argument[3];
        return wait_in_epoll(argument, milliseconds < 0 ? TIME_NEVER : milliseconds * INT64_C(1000000));
    }
    return real_syscall(number, argument);
}
