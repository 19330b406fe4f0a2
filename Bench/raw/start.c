/* SPDX-License-Identifier: MIT */
/* A whole program: one callback after no delay. */
#include <time.h>

static int fired;
static void fire(void) { fired++; }
static void (*volatile callback)(void) = fire;

int main(void) {
    struct timespec due, now;
    clock_gettime(CLOCK_MONOTONIC, &due);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < due.tv_sec || (now.tv_sec == due.tv_sec && now.tv_nsec < due.tv_nsec));
    callback();
    return fired == 1 ? 0 : 1;
}
