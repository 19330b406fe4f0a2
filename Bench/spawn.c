/* SPDX-License-Identifier: MIT */
/*
 * Starts a program so many times, one after the other, and prints the median of its whole life in
 * milliseconds.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    int times = argc > 2 ? atoi(argv[1]) : 0, status;
    if (times < 1) return 2;
    double *lives = calloc((size_t)times, sizeof *lives);
    for (int i = 0; i < times; i++) {
        pid_t child;
        double begun = now();
        if (posix_spawn(&child, argv[2], NULL, NULL, argv + 2, environ) != 0) return 1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "spawn: %s failed\n", argv[2]);
            return 1;
        }
        lives[i] = now() - begun;
    }
    qsort(lives, (size_t)times, sizeof *lives, compare);
    printf("%.6g\n", lives[times / 2]);
    return 0;
}
