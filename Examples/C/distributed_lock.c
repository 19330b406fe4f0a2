/* SPDX-License-Identifier: MIT */
/*
 * Three processes that must not work at the same time: each asks for a lock that is a file, and has its loop tell it when the lock is
 * free. One of them is killed in the middle of its work, which frees its lock; another process does its part.
 */
#include <runloop/runloop.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static RLDistributedLockRef lock;
static int number, arrivals[2];

/* True when the work is done. */
static bool try_to_work(void) {
    if (!RLDistributedLockTryLock(lock)) return false;
    printf("worker %d does its part\n", number);
    fflush(stdout);
    usleep(20000);
    if (number == 2) raise(SIGKILL);
    return RLDistributedLockUnlock(lock);
}

static void lock_is_free(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)event, (void)info;
    /* Another one may have been faster; then there will be another report. */
    if (try_to_work()) RLSourceInvalidate(source);
}

static int work(const char *path) {
    lock = RLDistributedLockCreate(path);
    if (!lock) return 1;
    if (!try_to_work()) {
        printf("worker %d waits\n", number);
        fflush(stdout);
        if (write(arrivals[1], "", 1) != 1) return 1;
        RLKernelEvent event = {.ident = (uintptr_t)lock, .filter = kRLKernelFilterDistributedLock};
        RLSourceRef source = RLKernelEventSourceCreate(&event, lock_is_free, NULL);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRelease(source);
        /* Ends when the source is invalid, which leaves the mode empty. */
        RLRun();
    }
    RLRelease(lock);
    return 0;
}

int main(void) {
    char folder[] = "/tmp/runloop-example-XXXXXX", path[64];
    char arrived;
    if (!mkdtemp(folder) || pipe(arrivals) != 0) return 1;
    snprintf(path, sizeof path, "%s/lock", folder);

    /* The main process has the lock until all three are there. */
    lock = RLDistributedLockCreate(path);
    if (!RLDistributedLockTryLock(lock)) return 1;
    for (number = 1; number <= 3; number++) {
        if (fork() == 0) _exit(work(path));
    }
    for (int count = 0; count < 3; count++) {
        if (read(arrivals[0], &arrived, 1) != 1) return 1;
    }
    if (!RLDistributedLockUnlock(lock)) return 1;

    int done = 0, status;
    while (wait(&status) > 0) done += WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL;
    RLRelease(lock);
    printf("all parts are done: %d\n", done);
    unlink(path);
    return rmdir(folder) == 0 ? 0 : 1;
}
