/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "CLinux.h"

typedef struct thread_start {
    void (*body)(void *);
    void *argument;
} thread_start;

static void *thread_main(void *argument) {
    thread_start start = *(thread_start *)argument;
    free(argument);
    start.body(start.argument);
    return NULL;
}

bool rl_begin_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(thread, attributes, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

bool rl_start_thread(void (*body)(void *), void *argument) {
    thread_start *start = malloc(sizeof *start);
    if (!start) return false;
    *start = (thread_start){body, argument};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool begins = rl_begin_thread(&thread, &attributes, thread_main, start);
    pthread_attr_destroy(&attributes);
    if (!begins) free(start);
    return begins;
}

void rl_join_thread(pthread_t thread) {
    int state = rl_disable_cancellation();
    pthread_join(thread, NULL);
    rl_restore_cancellation(state);
}
