/* SPDX-License-Identifier: MIT */
/* Locks that are files, and traces. */
#define _GNU_SOURCE
#include "calls.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int reports;

static void report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    add_one(&reports);
}

/* Whether it is locked. Two objects that hold one lock have lost it. */
static bool is_taken(RLDistributedLockRef lock, const char *what) {
    if (RLDistributedLockTryLock(lock)) return true;
    refused(what);
    return false;
}

/* An unlock that fails with another error than ESTALE leaves the object the lock, and may be made again. */
static void unlock(RLDistributedLockRef lock, const char *what) {
    if (RLDistributedLockUnlock(lock)) return;
    refused(what);
    if (errno != ESTALE && !RLDistributedLockUnlock(lock) && errno != ESTALE) lost("a lock that cannot be unlocked");
}

static void exclude(RLDistributedLockRef one, RLDistributedLockRef other) {
    RLAbsoluteTime date;
    if (!is_taken(one, "a lock")) return;
    if (RLDistributedLockTryLock(other)) {
        lost("the exclusion of a lock");
        RLDistributedLockUnlock(other);
    }
    if (!RLDistributedLockGetLockDate(other, &date)) refused("the date of a lock");
    unlock(one, "an unlock");
    if (is_taken(other, "a lock that was unlocked")) unlock(other, "a second unlock");
}

static void break_one(RLDistributedLockRef one, RLDistributedLockRef other) {
    if (!is_taken(one, "a lock to be broken")) return;
    if (RLDistributedLockTryLock(other)) lost("the exclusion of a lock to be broken");
    if (!RLDistributedLockBreakLock(other)) {
        refused("to break a lock");
        unlock(one, "an unlock of what was not broken");
        return;
    }
    if (is_taken(other, "a lock that was broken")) {
        if (RLDistributedLockUnlock(one)) lost("a broken lock, which could be unlocked");
        unlock(other, "an unlock after a break");
    }
    /* Its own holding is over, or it can say that it is. */
    if (RLDistributedLockUnlock(one)) refused("the break of a lock");
}

static void wait_for(RLDistributedLockRef one, RLDistributedLockRef other) {
    if (!is_taken(one, "a lock to be waited for")) return;
    reports = 0;
    RLKernelEvent event = {.ident = (uintptr_t)other, .filter = kRLKernelFilterDistributedLock, .data = 10};
    RLSourceRef source = RLKernelEventSourceCreate(&event, report, NULL);
    if (source) {
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0.002, true);
        unlock(one, "an unlock that is waited for");
        run_until(&reports, 1, "a lock that is free");
        RLSourceInvalidate(source);
        RLRelease(source);
    } else {
        refused("a source of a lock");
        unlock(one, "an unlock");
    }
}

static void with_locks(void (*work)(RLDistributedLockRef, RLDistributedLockRef)) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/runloop-faults.%d.lock", (int)getpid());
    RLDistributedLockRef one = RLDistributedLockCreate(path), other = RLDistributedLockCreate(path);
    work(one, other);
    RLRelease(one);
    RLRelease(other);
    unlink(path);
}

static void locks(void) { with_locks(exclude); }
static void broken_locks(void) { with_locks(break_one); }
static void awaited_locks(void) { with_locks(wait_for); }

/* The same where the file system is one of several hosts. */
static void with_shared_locks(void (*work)(RLDistributedLockRef, RLDistributedLockRef)) {
    calls_share_files(true);
    with_locks(work);
    calls_share_files(false);
}

static void shared_locks(void) { with_shared_locks(exclude); }
static void broken_shared_locks(void) { with_shared_locks(break_one); }
static void awaited_shared_locks(void) { with_shared_locks(wait_for); }

/* A path without a folder. */
static void relative_locks(void) {
    RLDistributedLockRef lock = RLDistributedLockCreate("runloop-faults");
    if (!lock) return refused("a lock with a relative path");
    RLRelease(lock);
}

/* Traces */

static void count(void *counter) { add_one(counter); }

static bool trace(const char *path) {
    int performed = 0;
    struct stat status;
    if (!RLTraceStart(path, 1)) {
        refused("a trace");
        return false;
    }
    RLSourceContext context = {.info = &performed, .perform = count};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceSignal(source);
    run_until(&performed, 1, "a signal that is traced");
    pid_t child = fork();
    if (child == 0) {
        RLSourceSignal(source);
        run_until(&performed, 2, "a signal in the child of a process that is traced");
        _exit(outcome.is_lost);
    }
    int result = 1;
    waitpid(child, &result, 0);
    if (result != 0) lost("the child of a process that is traced");
    RLTraceStop();
    if (RLIsTracing()) lost("the end of a trace");
    if (stat(path, &status) != 0 || status.st_size < 1 << 20) lost("a trace's file");
    RLSourceInvalidate(source);
    RLRelease(source);
    return true;
}

/* The second one takes the place of the first. */
static void traces(void) {
    char path[64], work[96];
    snprintf(path, sizeof path, "/tmp/runloop-faults.%d.trace", (int)getpid());
    snprintf(work, sizeof work, "%s.%d.new", path, (int)getpid());
    trace(path);
    trace(path);
    if (access(work, F_OK) == 0) {
        refused("the end of a trace's first name");
        unlink(work);
    }
    unlink(path);
    /* What a name that could not be had is replaced by. */
    snprintf(work, sizeof work, "%s.%d", path, (int)getpid());
    unlink(work);
}

const Part file_parts[] = {
    {"locks", locks},
    {"locks-broken", broken_locks},
    {"locks-awaited", awaited_locks},
    {"shared-locks", shared_locks},
    {"shared-locks-broken", broken_shared_locks},
    {"shared-locks-awaited", awaited_shared_locks},
    {"relative-locks", relative_locks},
    {"traces", traces},
    {0},
};
