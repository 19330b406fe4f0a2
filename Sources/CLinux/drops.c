/* SPDX-License-Identifier: MIT */
/* Closing descriptors that a peer sent, without the waits that the peer may have prepared. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/socket.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* A thread with references of its own to all files, which it drops at its end. An ending thread waits for nothing: socket(7). */
static void *outlive(void *argument) {
    pthread_barrier_t *turn = argument;
    syscall(SYS_unshare, CLONE_FILES);
    pthread_barrier_wait(turn);
    pthread_barrier_wait(turn);
    return NULL;
}

/* Closes them while the thread has them, so that its end is the last close of each and of what is queued in it. Without a thread of that kind they
 * are closed here. */
static void close_outlived(const int *descriptors, int count) {
    pthread_barrier_t turn;
    pthread_t thread;
    pthread_barrier_init(&turn, NULL, 2);
    const bool has_thread = rl_begin_thread(&thread, outlive, &turn);
    if (has_thread) pthread_barrier_wait(&turn);
    for (int index = 0; index < count; index++) rl_sys_close(descriptors[index]);
    if (has_thread) {
        pthread_barrier_wait(&turn);
        rl_join_thread(thread);
    }
    pthread_barrier_destroy(&turn);
}

static void switch_linger_off(int descriptor) {
    struct linger linger;
    socklen_t size = sizeof linger;
    if (getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && linger.l_onoff && linger.l_linger > 0) {
        linger.l_onoff = 0;
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
}

/* Whether files may be queued in it, which its last close closes too. They cannot be taken out: another process may use the socket. */
static bool may_hold_files(int descriptor) {
    int domain;
    socklen_t size = sizeof domain;
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX && rl_is_readable(descriptor);
}

void rl_drop_all(const int *descriptors, int count) {
    int holding[RL_MAX_DESCRIPTORS], held = 0;
    for (int index = 0; index < count; index++) {
        const int descriptor = descriptors[index];
        if (descriptor < 0) continue;
        switch_linger_off(descriptor);
        if (held < RL_MAX_DESCRIPTORS && may_hold_files(descriptor))
            holding[held++] = descriptor;
        else
            rl_sys_close(descriptor);
    }
    if (held > 0) close_outlived(holding, held);
}

void rl_drop(int descriptor) { rl_drop_all(&descriptor, 1); }
