/* SPDX-License-Identifier: MIT */
/* Closing descriptors that a peer sent, without the waits that the peer may have prepared. */
#define _GNU_SOURCE
#include <sys/socket.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* Steps of two threads, each of which waits for the other's. Acquire and release by the word. */
struct turns {
    uint32_t has_files, are_closed;
};

static void take_turn(uint32_t *word) {
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    rl_futex_wake(word, 1);
}

static void await_turn(const uint32_t *word) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) rl_futex_wait(word, 0, NULL);
}

/* A thread with references of its own to all files, which it drops at its end. An ending thread does not wait for what
 * lingers: socket(7). */
static void *outlive(void *argument) {
    struct turns *turns = argument;
    rl_own_table();
    take_turn(&turns->has_files);
    await_turn(&turns->are_closed);
    return NULL;
}

/* Closes them while the thread has them, so that its end is the last close of each and of what is queued in it. Without a thread of that kind,
 * or where it gets no table of its own, they are closed here as by close(2). */
static void close_outlived(const int *descriptors, int count) {
    struct turns turns = {0, 0};
    pthread_t thread;
    const bool has_thread = rl_begin_thread(&thread, NULL, outlive, &turns);
    if (has_thread) await_turn(&turns.has_files);
    for (int index = 0; index < count; index++) rl_sys_close(descriptors[index]);
    if (!has_thread) return;
    take_turn(&turns.are_closed);
    rl_join_thread(thread);
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
