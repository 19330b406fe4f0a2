/* SPDX-License-Identifier: MIT */
/* Processes take and give back one distributed lock as fast as they can, some by its source, while the main process kills one of them
   after the other with SIGKILL and starts another in its place. Never do two hold the lock (S-DLOCK-2), the death of a holder frees it
   for the others (S-DLOCK-4), and nobody who waits for a report misses it (S-DLOCK-12). */
#define _GNU_SOURCE
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, ALL = -1 };

static struct common {
    atomic_int holder;            /* the number of a worker, from 1; 0: nobody */
    atomic_int killed;            /* the worker that is being killed, or was killed last; ALL at the end */
    atomic_ulong takes, by_report;
} *common;

static char folder[64], path[96];
static RLDistributedLockRef lock;
static int self;
static unsigned long kills, total;

static void report(void) {
    fprintf(stderr, "%lu kills, %lu takes, %lu of them by a report, holder %d\n", kills, atomic_load(&common->takes),
            atomic_load(&common->by_report), atomic_load(&common->holder));
}

static void wait_a_moment(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

/* Whoever held it before has given it back, or is the one that is killed. */
static void hold(void) {
    int before = atomic_exchange(&common->holder, self);
    int killed = atomic_load(&common->killed);
    MUST(before == 0 || before == killed || killed == ALL);
    atomic_fetch_add(&common->takes, 1);
    wait_a_moment();
    MUST_BE(atomic_exchange(&common->holder, 0), ==, self);
    MUST(RLDistributedLockUnlock(lock));
}

static void lock_is_free(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    if (!RLDistributedLockTryLock(lock)) {
        MUST_BE(errno, ==, EWOULDBLOCK);
        return;
    }
    hold();
    atomic_fetch_add(&common->by_report, 1);
}

__attribute__((noreturn)) static void work(void) {
    lock = RLDistributedLockCreate(path);
    if (self % 2) {
        RLKernelEvent event = {(uintptr_t)lock, kRLKernelFilterDistributedLock, 0, 0, 100000, NULL};
        RLSourceRef source = RLKernelEventSourceCreate(&event, lock_is_free, NULL);
        MUST(source != NULL);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRun();
    }
    for (;;) {
        if (RLDistributedLockTryLock(lock)) hold();
        else MUST_BE(errno, ==, EWOULDBLOCK);
        wait_a_moment();
    }
}

static pid_t start(int number) {
    pid_t process = fork();
    MUST(process >= 0);
    self = number;
    if (process == 0) work();
    return process;
}

int main(void) {
    pid_t workers[WORKERS];
    uint64_t random = 1;
    strcpy(folder, "/tmp/runloop-dlocks-XXXXXX");
    MUST(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/lock", folder);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(common != MAP_FAILED);
    total = stress_count_at_least(400, 20);
    for (int i = 0; i < WORKERS; i++) workers[i] = start(i + 1);
    stress_watchdog_start(report);
    for (kills = 0; kills < total; kills++) {
        /* A death frees the lock: others take it, and one of them by a report. */
        unsigned long takes = atomic_load(&common->takes), by_report = atomic_load(&common->by_report);
        while (atomic_load(&common->takes) < takes + 3 || atomic_load(&common->by_report) == by_report) wait_a_moment();
        int victim = (int)(stress_random(&random) % WORKERS), status;
        nanosleep(&(struct timespec){0, stress_random(&random) % 400000}, NULL);
        /* One that ended by itself has failed. */
        MUST_BE(waitpid(workers[victim], &status, WNOHANG), ==, 0);
        atomic_store(&common->killed, victim + 1);
        kill(workers[victim], SIGKILL);
        MUST_BE(waitpid(workers[victim], &status, 0), ==, workers[victim]);
        MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        /* The next holder has seen whom it followed before another is killed under the same number. */
        while (atomic_load(&common->holder) == victim + 1) wait_a_moment();
        workers[victim] = start(victim + 1);
        stress_progress();
    }
    stress_watchdog_stop();
    atomic_store(&common->killed, ALL);
    for (int i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGKILL);
        waitpid(workers[i], NULL, 0);
    }
    report();
    unlink(path);
    MUST_BE(rmdir(folder), ==, 0);
    return 0;
}
