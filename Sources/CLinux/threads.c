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

bool rl_start_thread(void (*body)(void *), void *argument) {
    thread_start *start = malloc(sizeof *start);
    if (!start) return false;
    *start = (thread_start){body, argument};
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&thread, &attributes, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error) free(start);
    return error == 0;
}
