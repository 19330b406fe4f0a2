/* SPDX-License-Identifier: MIT */
/* What is posted where the trace does not keep everything: a loop that ends with a post, and more records than a ring has.
 * usage: rewritten POSTS; posts that many at once, after 200 that are called one by one. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <runloop/runloop.h>
#include <semaphore.h>
#include <stdlib.h>

static sem_t posted, made;
static RLRunLoopRef worker;

__attribute__((noinline)) static void never_called(void *info) { (void)info; }
__attribute__((noinline)) static void first(void *info) { (void)info; }
__attribute__((noinline)) static void at_once(void *info) { (void)info; }
__attribute__((noinline)) static void in_a_queue(void *info) { (void)info; }

static void never(RLTimerRef timer, void *info) {
    (void)timer;
    (void)info;
}

static void *work(void *info) {
    (void)info;
    worker = RLGetCurrent();
    RLPerformFunction(worker, "another mode", first, NULL, NULL);
    RLRunInMode("another mode", 0, true);
    sem_post(&made);
    while (sem_wait(&posted)) continue;
    RLRunInMode("another mode", 0, true);
    return NULL;
}

int main(int count, char **words) {
    const int posts = count > 1 ? atoi(words[1]) : 0;
    RLRunLoopRef loop = RLGetCurrent();
    sem_init(&posted, 0, 0);
    sem_init(&made, 0, 0);
    RLRunLoopRef former = NULL;
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        while (sem_wait(&made)) continue;
        /* The loop that is made in the same memory is another one. */
        RLPerformFunction(worker, worker == former ? "another mode" : kRLDefaultMode, never_called, NULL, NULL);
        former = worker;
        sem_post(&posted);
        pthread_join(thread, NULL);
    }
    RLTimerRef much_later = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, never, NULL);
    RLAddTimer(loop, much_later, kRLDefaultMode);
    RLRelease(much_later);
    for (int i = 0; i < 200; i++) {
        RLPerformFunction(loop, kRLDefaultMode, at_once, NULL, NULL);
        for (int pass = 0; pass < (posts ? 100 : 1); pass++) RLRunInMode(kRLDefaultMode, 0, false);
    }
    for (int i = 0; i < posts; i++) RLPerformFunction(loop, kRLDefaultMode, in_a_queue, (void *)(size_t)1, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    return 0;
}
