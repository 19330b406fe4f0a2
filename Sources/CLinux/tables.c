/* SPDX-License-Identifier: MIT */
/* Threads with a descriptor table of their own. What is in such a table is closed by the end of its thread, which waits for nothing: socket(7). */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

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

/* Counts numbers below the limit that are free, and that sockets and descriptors of O_PATH have, which are closed: that is not the last close, and
 * nothing waits for it. The close of any other file calls its flush, which may take its time (FUSE, NFS): others are closed only for the room of one
 * datagram. */
static int make_room(int descriptor, int limit) {
    int room = 0;
    for (int pass = 0; pass < 2; pass++) {
        const int wanted = (pass == 0 ? ROOM : RL_MAX_DESCRIPTORS) + MORE;
        for (int number = limit; number-- > 0 && room < wanted;) {
            int type;
            socklen_t size = sizeof type;
            const bool is_socket = getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
            /* EBADF comes for O_PATH, too. What is free in the second pass was counted in the first. */
            if (number == descriptor || (!is_socket && (errno == EBADF) == (pass == 1))) continue;
            rl_sys_close(number);
            room++;
        }
    }
    return room < MORE ? 0 : room - MORE;
}

static void *with_own_numbers(void *argument) {
    struct elsewhere *work = argument;
    /* The kernel copies tables by 64 numbers: those from there on are not in the new one, and need not be closed, if the call is known. */
    const int copied = (work->descriptor | 63) + 1;
    const bool is_own = syscall(SYS_close_range, copied, ~0U, RL_CLOSE_RANGE_UNSHARE) == 0 || rl_own_table();
    const long limit = sysconf(_SC_OPEN_MAX);
    const int end = copied + ROOM + MORE;
    /* From here on the thread closes no number but its own. */
    work->has_more = work->body(work->descriptor, is_own ? make_room(work->descriptor, limit < end ? (int)limit : end) : 0);
    return NULL;
}

bool rl_do_elsewhere(rl_elsewhere_body *body, int descriptor) {
    struct elsewhere work = {body, descriptor, false};
    pthread_t thread;
    if (!rl_begin_thread(&thread, NULL, with_own_numbers, &work)) return body(descriptor, 0);
    rl_join_thread(thread);
    return work.has_more;
}
