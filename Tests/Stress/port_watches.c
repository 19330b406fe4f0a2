/* SPDX-License-Identifier: MIT */
/*
 * Threads make remote ports with an invalidation callback, end the peer and release them at once, while the library's thread finds the same
 * ends; there the callback ends the thread. Each port calls its callback once, whatever thread has the last reference, and when all is over
 * the library has neither a thread nor a descriptor more than before. Rules S-MSG-36 and S-LOOP-19.
 */
#include "stress.h"

#include <runloop/runloop.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 3, LIVING = 4 };
static __thread bool is_own;
static int watched, told, ended_threads;

static void end_library_thread(RLMessagePortRef port, void *info) {
    (void)info;
    MUST(!RLMessagePortIsValid(port));
    __atomic_add_fetch(&told, 1, __ATOMIC_SEQ_CST);
    if (is_own) return;
    __atomic_add_fetch(&ended_threads, 1, __ATOMIC_SEQ_CST);
    pthread_exit(NULL);
}

static RLMessagePortRef watch(const char *name) {
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    MUST(remote != NULL);
    /* A new one, and not one that the library holds. */
    MUST(RLMessagePortGetInvalidationCallBack(remote) == NULL);
    __atomic_add_fetch(&watched, 1, __ATOMIC_SEQ_CST);
    RLMessagePortSetInvalidationCallBack(remote, end_library_thread);
    return remote;
}

static void *make_and_release(void *number) {
    is_own = true;
    char ends[64], lives[64];
    snprintf(ends, sizeof ends, "stress.ends.%d.%ld", (int)getpid(), (long)number);
    snprintf(lives, sizeof lives, "stress.lives.%d.%ld", (int)getpid(), (long)number);
    for (int round = (int)stress_count(3000); round > 0; round--) {
        RLMessagePortRef peer = RLMessagePortCreateLocal(ends, NULL, NULL, NULL), other = RLMessagePortCreateLocal(lives, NULL, NULL, NULL);
        MUST(peer != NULL && other != NULL);
        RLMessagePortRef remote = watch(ends);
        RLMessagePortInvalidate(peer);
        RLRelease(peer);
        RLRelease(remote);
        /* Their memory may be that of the one before. */
        for (int i = 0; i < LIVING; i++) RLRelease(watch(lives));
        RLMessagePortInvalidate(other);
        RLRelease(other);
    }
    return NULL;
}

static int entries(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void *do_nothing(void *unused) { return unused; }

int main(void) {
    is_own = true;
    /* The thread sanitizer starts a thread of its own with the first one. */
    pthread_t first;
    MUST(pthread_create(&first, NULL, do_nothing, NULL) == 0);
    pthread_join(first, NULL);
    const int descriptors = entries("/proc/self/fd"), own = entries("/proc/self/task");
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, make_and_release, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    while (entries("/proc/self/task") > own) usleep(1000);
    MUST(told == watched);
    MUST(entries("/proc/self/fd") == descriptors);
    printf("%d ports were watched, and their callbacks ended %d threads\n", watched, ended_threads);
    return 0;
}
