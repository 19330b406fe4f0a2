/* SPDX-License-Identifier: MIT */
/* Threads with a descriptor table of their own. What is in such a table is closed by the end of its thread, which waits for nothing: socket(7). */
#define _GNU_SOURCE
#include <sched.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* Of linux/close_range.h, which older headers lack. */
enum { RL_CLOSE_RANGE_UNSHARE = 1 << 1 };

bool rl_own_table(void) {
    if (syscall(SYS_unshare, CLONE_FILES) == 0) return true;
    /* Filters of containers refuse that call, which makes namespaces too, and permit this one. It closes no number: there is none so high. */
    return syscall(SYS_close_range, ~0U, ~0U, RL_CLOSE_RANGE_UNSHARE) == 0;
}

struct elsewhere {
    rl_elsewhere_body *body;
    int descriptor;
    bool has_more;
};

/* How many numbers are free for it, if the process may have so many, and some for what is done with them. */
enum { ROOM = 4 * RL_MAX_DESCRIPTORS, MORE = 8 };

static void close_numbers(int first, int end) {
    if (first >= end || syscall(SYS_close_range, first, end - 1, 0) == 0) return;
    while (first < end) rl_sys_close(first++);
}

static void *with_own_numbers(void *argument) {
    struct elsewhere *work = argument;
    const bool is_own = rl_own_table();
    /* From here on the thread closes no number but its own. */
    if (is_own) {
        close_numbers(0, work->descriptor);
        close_numbers(work->descriptor + 1, ROOM + MORE);
    }
    const long end = sysconf(_SC_OPEN_MAX);
    work->has_more = work->body(work->descriptor, is_own ? (int)(end < ROOM ? end : ROOM) : 0);
    return NULL;
}

bool rl_do_elsewhere(rl_elsewhere_body *body, int descriptor) {
    struct elsewhere work = {body, descriptor, false};
    pthread_t thread;
    if (!rl_begin_thread(&thread, NULL, with_own_numbers, &work)) return body(descriptor, 0);
    rl_join_thread(thread);
    return work.has_more;
}
