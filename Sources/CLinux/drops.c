/* SPDX-License-Identifier: MIT */
/* Closing descriptors that a peer sent, without the waits that the peer may have prepared. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* Steps of two threads, each of which waits for the other's. Acquire and release by the words. */
struct turns {
    const int *descriptors;
    int count;
    uint32_t has_looked, are_closed, is_over;
    bool has_table;
};

/* Threads that close what their tables have of the program's files, and the second in which the first began or one was done last. Each close calls the
 * file's flush, which may not end (FUSE, NFS): when none is done for a second no more than a few threads, and what they were to close, wait for that.
 * Relaxed: a bound. */
enum { FEW_CLOSING = 4, MOST_CLOSING = 256 };
static int closing, last_done;

static int seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int)time.tv_sec;
}

void rl_forget_droppers(void) { __atomic_store_n(&closing, 0, __ATOMIC_RELAXED); }

static void take_turn(uint32_t *word) {
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    rl_futex_wake(word, 1);
}

static void await_turn(const uint32_t *word) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) rl_futex_wait(word, 0, NULL);
}

/* Closes all that the thread's own table has beside these. */
static void keep_only(const int *descriptors, int count) {
    for (unsigned first = 0, next; first != ~0U; first = next + 1) {
        next = ~0U - 1;
        for (int index = 0; index < count; index++) {
            const unsigned number = (unsigned)descriptors[index];
            if (number >= first && number < next) next = number;
        }
        if (next > first) syscall(SYS_close_range, first, next - 1, 0);
    }
}

/* A thread with references of its own, which it drops at its end. An ending thread does not wait for what lingers: socket(7). Nor does anyone
 * wait for it. What else its table has it closes before, or the program's closes would be the last ones only after its end. */
static void outlive(void *argument) {
    struct turns *turns = argument;
    int kept[RL_MAX_DESCRIPTORS];
    const int count = turns->count;
    memcpy(kept, turns->descriptors, (size_t)count * sizeof *kept);
    const bool has_table = rl_own_table();
    turns->has_table = has_table;
    take_turn(&turns->has_looked);
    await_turn(&turns->are_closed);
    /* They may be gone when the wake-up comes, which then wakes nobody. */
    take_turn(&turns->is_over);
    if (has_table) keep_only(kept, count);
    __atomic_store_n(&last_done, seconds(), __ATOMIC_RELAXED);
    __atomic_sub_fetch(&closing, 1, __ATOMIC_RELAXED);
}

static void switch_linger_off(int descriptor) {
    struct linger linger;
    socklen_t size = sizeof linger;
    if (getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && linger.l_onoff && linger.l_linger > 0) {
        linger.l_onoff = 0;
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
}

static bool start_outliving(struct turns *turns) {
    const int count = __atomic_add_fetch(&closing, 1, __ATOMIC_RELAXED), now = seconds();
    if (count == 1) __atomic_store_n(&last_done, now, __ATOMIC_RELAXED);
    const int most = now - __atomic_load_n(&last_done, __ATOMIC_RELAXED) < 2 ? MOST_CLOSING : FEW_CLOSING;
    if (count <= most && rl_start_thread(outlive, turns)) return true;
    __atomic_sub_fetch(&closing, 1, __ATOMIC_RELAXED);
    return false;
}

/* Closes them while the thread has them, so that its end is the last close of each and of what is queued in it. Without a thread of that kind,
 * or where it gets no table of its own, they are closed here as by close(2), but for the option. */
static void close_outlived(const int *descriptors, int count) {
    struct turns turns = {descriptors, count, 0, 0, 0, false};
    const bool has_thread = start_outliving(&turns);
    if (has_thread) await_turn(&turns.has_looked);
    for (int index = 0; index < count; index++) {
        if (!turns.has_table) switch_linger_off(descriptors[index]);
        rl_sys_close(descriptors[index]);
    }
    if (!has_thread) return;
    take_turn(&turns.are_closed);
    await_turn(&turns.is_over);
}

/* Whether its last close may wait. Its peer may change the options of a socket, hold its lock and put more into its queue until then, so it is not
 * looked at. Some kinds of sockets, and files without a kind, as those of inotify, wait in any case. A file system, which may be the peer's, is not
 * asked. */
static bool may_wait(int descriptor) {
    struct statx status;
    if (statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) return errno != EBADF;
    return S_ISSOCK(status.stx_mode) || (status.stx_mode & S_IFMT) == 0;
}

void rl_drop_all(const int *descriptors, int count) {
    int waiting[RL_MAX_DESCRIPTORS], held = 0;
    for (int index = 0; index < count; index++) {
        const int descriptor = descriptors[index];
        if (descriptor < 0) continue;
        if (held < RL_MAX_DESCRIPTORS && may_wait(descriptor))
            waiting[held++] = descriptor;
        else
            rl_sys_close(descriptor);
    }
    if (held > 0) close_outlived(waiting, held);
}

void rl_drop(int descriptor) { rl_drop_all(&descriptor, 1); }

void rl_close_without_wait(int descriptor) {
    struct linger linger;
    socklen_t size = sizeof linger;
    if (getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && linger.l_onoff)
        rl_drop(descriptor);
    else
        rl_sys_close(descriptor);
}
