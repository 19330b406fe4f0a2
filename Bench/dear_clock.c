/* SPDX-License-Identifier: MIT */
/*
 * Makes every reading of a clock a system call, as it is on machines whose clock the kernel cannot read in the program itself. Loaded before a program
 * by LD_PRELOAD: it stands in for libc's functions.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) { return (int)syscall(SYS_clock_gettime, clock, now); }

int gettimeofday(struct timeval *restrict now, void *restrict zone) { return (int)syscall(SYS_gettimeofday, now, zone); }

time_t time(time_t *now) {
    struct timespec second;
    clock_gettime(CLOCK_REALTIME, &second);
    if (now) *now = second.tv_sec;
    return second.tv_sec;
}
