/* SPDX-License-Identifier: MIT */
/* See bench.h. */
#define _GNU_SOURCE
#include "bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double bench_now(void) { return read_clock(CLOCK_MONOTONIC); }
double bench_thread_time(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

void bench_pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    bench_require(sched_setaffinity(0, sizeof set, &set) == 0, "there is no such processor");
}

void bench_require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

void bench_absent(void) {
    /* Both threads of a workload may find this out. */
    bench_require(write(STDOUT_FILENO, "absent\n", 7) == 7, "no output");
    _exit(0);
}

static double begun;

void bench_begin(void) { begun = bench_now(); }
void bench_end(double operations) { bench_print((bench_now() - begun) / operations); }

void bench_print(double value) { printf("%.6g ", value); }

void bench_spin_until(double instant) {
    while (bench_now() < instant) {}
}

uint32_t bench_random(uint32_t limit) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((state >> 32) * limit) >> 32);
}

int bench_idle_descriptor(void) {
    int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bench_require(descriptor >= 0, "no descriptor");
    return descriptor;
}

void bench_allow_descriptors(long count) {
    struct rlimit limit;
    bench_require(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
    if (limit.rlim_cur >= (rlim_t)count + 64) return;
    limit.rlim_cur = (rlim_t)count + 64;
    bench_require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of descriptors is too low");
}

void *bench_allocate(size_t size) {
    void *block = calloc(1, size);
    bench_require(block != NULL, "no memory");
    return block;
}

double bench_resident(void) {
    long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    bench_require(file && fscanf(file, "%ld %ld", &size, &pages) == 2, "/proc is not there");
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double bench_switches(int thread) {
    char path[64], line[256];
    unsigned long number, sum = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    bench_require(file != NULL, "/proc is not there");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &number) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %lu", &number) == 1)
            sum += number;
    fclose(file);
    return (double)sum;
}

void bench_sleep(long milliseconds) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int count;
static char **arguments;

long bench_argument(int index, long otherwise) {
    return index + 2 < count ? atol(arguments[index + 2]) : otherwise;
}

int main(int argc, char **argv) {
    count = argc;
    arguments = argv;
    for (const struct workload *w = bench_workloads; argc > 1 && w->name; w++) {
        if (strcmp(w->name, argv[1]) != 0) continue;
        w->run();
        putchar('\n');
        fflush(stdout);
        /* Taking a million timers out one by one is not what was asked for. */
        _Exit(0);
    }
    fprintf(stderr, "usage: %s WORKLOAD [NUMBER...]\n", argv[0]);
    return 2;
}
