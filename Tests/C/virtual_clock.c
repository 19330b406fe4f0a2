/* SPDX-License-Identifier: MIT */
/* The replaced functions of virtual_clock.h. */
#define _GNU_SOURCE
#include "virtual_clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND 1000000000LL

static bool running;
static int64_t start, monotonic, wall;
static int sleeps;
static long reads;

typedef long (*SystemCall)(long, ...);
static SystemCall system_call(void) {
    static SystemCall found;
    if (!found) found = (SystemCall)dlsym(RTLD_NEXT, "syscall");
    return found;
}

static int system_clock(clockid_t clock, struct timespec *time) {
    return (int)system_call()(SYS_clock_gettime, clock, time);
}

static int64_t system_nanoseconds(clockid_t clock) {
    struct timespec time;
    if (system_clock(clock, &time) != 0) abort();
    return time.tv_sec * SECOND + time.tv_nsec;
}

void virtual_clock_start(void) {
    start = monotonic = system_nanoseconds(CLOCK_MONOTONIC);
    wall = system_nanoseconds(CLOCK_REALTIME);
    running = true;
}

void virtual_clock_stop(void) { running = false; }

void virtual_clock_advance(double seconds) {
    monotonic += (int64_t)(seconds * 1e9);
    wall += (int64_t)(seconds * 1e9);
}

void virtual_clock_set_wall(double seconds) { wall += (int64_t)(seconds * 1e9); }

int64_t virtual_clock_elapsed(void) { return monotonic - start; }

int virtual_clock_sleeps(void) { return sleeps; }

long virtual_clock_reads(void) { return reads; }

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!running) return system_clock(clock, time);
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!is_wall && clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
        return system_clock(clock, time);
    int64_t now = is_wall ? wall : monotonic;
    reads++;
    time->tv_sec = now / SECOND;
    time->tv_nsec = now % SECOND;
    return 0;
}

static void sleep_until(int64_t end) {
    sleeps++;
    if (end <= monotonic) return;
    wall += end - monotonic;
    monotonic = end;
}

/* A sleep on a word: until an absolute time of the monotonic clock. */
static long futex_wait(uint32_t *word, uint32_t expected, const struct timespec *end) {
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected) {
        errno = EAGAIN;
        return -1;
    }
    /* With one thread nobody could end a sleep that has no end. */
    if (!end) abort();
    sleep_until(end->tv_sec * SECOND + end->tv_nsec);
    errno = ETIMEDOUT;
    return -1;
}

/* A sleep on descriptors: for so long. */
static long epoll_sleep(const long *a) {
    const struct timespec *length = (const struct timespec *)a[3];
    bool is_look = length && length->tv_sec == 0 && length->tv_nsec == 0;
    /* A look needs no fine time: the call that emulators have, too. */
    long ready = system_call()(SYS_epoll_pwait, a[0], a[1], a[2], 0, a[4], a[5]);
    if (is_look || ready != 0) return ready;
    if (!length) abort();
    sleep_until(monotonic + length->tv_sec * SECOND + length->tv_nsec);
    return 0;
}

/* The library makes its calls by syscall(2), which is this, with all six arguments that a call may have. */
long answer_call(long number, long first, long second, long third, long fourth, long fifth, long sixth) __asm__("syscall");
long answer_call(long number, long first, long second, long third, long fourth, long fifth, long sixth) {
    long a[6] = {first, second, third, fourth, fifth, sixth};
    if (running && number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        return futex_wait((uint32_t *)a[0], (uint32_t)a[2], (const struct timespec *)a[3]);
    if (running && number == SYS_epoll_pwait2) return epoll_sleep(a);
    return system_call()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
