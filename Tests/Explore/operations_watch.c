/* SPDX-License-Identifier: MIT */
/* Two kinds of items: `handler`, what a watched loop tells of slow callbacks, and `lockfile`, a distributed lock; its number says which
 * file. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- slow callbacks */

static bool is_told;

static void tell(const RLSlowCallout *callout, void *info) {
    struct item *item = info;
    if (item->releases >= item->retains) fail("%s is told after its release", item->name);
    if (is_told) fail("%s is told while another call is under way", item->name);
    is_told = true;
    item->performed++;
    /* What it is told lives. */
    RLRetain(callout->loop);
    if (callout->item) RLRelease(RLRetain(callout->item));
    if (callout->count < 1 || !callout->mode) fail("%s is told nothing", item->name);
    if (item->performed == 1) perform_block(item->block);
    if (item->releases >= item->retains) fail("%s is released while it is told", item->name);
    is_told = false;
    RLRelease(callout->loop);
}

static void release_handler(void *info) {
    struct item *item = info;
    if (++item->releases > item->retains) fail("%s is released too often", item->name);
}

/* slow [LOOP] [HANDLER] SECONDS */
void set_slow(RLRunLoopRef loop, struct item *handler, double seconds) {
    if (handler) handler->retains++;
    RLSetSlowCalloutHandler(loop, seconds, handler ? tell : NULL, handler, handler ? release_handler : NULL);
}

void make_handler(struct item *item) {
    is_told = false;
    item->object = NULL;
}

/* The clock goes on; those who slept until then wake up. */
void do_pass_time(struct call *call) { time_passes((int64_t)(call->number * 1e9)); }

/* ---- lock files */

/* What is known of a file by the program. */
static struct file {
    struct item *holder;
    int breaking;
    uint64_t broken; /* when a break ended last */
} files[4];

static struct file *file_of(struct item *item) { return &files[(int)item->number]; }

static const char *path_of(struct item *item) {
    snprintf(item->path, sizeof item->path, "%s/lock.%d.%d", getenv("XDG_RUNTIME_DIR"), (int)getpid(), (int)item->number);
    return item->path;
}

void make_lock_file(struct item *item) {
    *file_of(item) = (struct file){0};
    unlink(path_of(item));
    item->object = RLDistributedLockCreate(item->path);
}

static bool try_lock(struct item *item) {
    struct file *file = file_of(item);
    uint64_t begun = ++sequence;
    if (!RLDistributedLockTryLock((RLDistributedLockRef)item->object)) {
        if (errno != EWOULDBLOCK) fail("%s cannot be locked: %s", item->name, strerror(errno));
        return false;
    }
    if (file->holder && file->breaking == 0 && file->broken < begun)
        fail("%s and %s hold the same lock", file->holder->name, item->name);
    file->holder = item;
    item->perform_begun = begun;
    item->posted = item->freed = 0;
    item->dropped = 1;
    return true;
}

void do_try_lock(struct call *call) { try_lock(call->item[0]); }

/* Nothing if the lock was not to be had. */
void do_unlock_file(struct call *call) {
    struct item *item = call->item[0];
    struct file *file = file_of(item);
    if (!item->dropped) return;
    item->dropped = 0;
    if (file->holder == item) file->holder = NULL;
    if (RLDistributedLockUnlock((RLDistributedLockRef)item->object)) return;
    /* Another may have broken it, and given it back in its place. */
    if ((errno == ESTALE || errno == EPERM) && (file->breaking > 0 || file->broken > item->perform_begun)) return;
    fail("%s cannot be unlocked: %s", item->name, strerror(errno));
}

void do_break_file(struct call *call) {
    struct item *item = call->item[0];
    struct file *file = file_of(item);
    file->breaking++;
    bool is_broken = RLDistributedLockBreakLock((RLDistributedLockRef)item->object);
    if (!is_broken && errno != EBUSY) fail("%s cannot be broken: %s", item->name, strerror(errno));
    file->breaking--;
    file->broken = ++sequence;
    file->holder = NULL;
}

void do_lock_date(struct call *call) {
    RLAbsoluteTime date;
    if (!RLDistributedLockGetLockDate((RLDistributedLockRef)call->item[0]->object, &date) && errno != ENOENT)
        fail("%s has no date: %s", call->item[0]->name, strerror(errno));
}

static void ignore_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source;
    (void)event;
    (void)info;
}

/* Runs the loop until the lock is to be had: if a report is lost, for ever. */
void wait_for_lock(RLRunLoopRef loop, struct item *item) {
    RLKernelEvent event = {.filter = kRLKernelFilterDistributedLock, .ident = (uintptr_t)item->object};
    RLSourceRef source = RLKernelEventSourceCreate(&event, ignore_report, NULL);
    if (!source) fail("no source for %s", item->name);
    RLAddSource(loop, source, kRLDefaultMode);
    while (!try_lock(item)) RLRunInMode(kRLDefaultMode, 1e10, true);
    RLSourceInvalidate(source);
    RLRelease(source);
}

void check_lock_file(struct item *item) {
    if (access(item->path, F_OK) == 0) fail("nobody holds %s, and its file is left", item->name);
}
