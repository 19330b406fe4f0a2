/* SPDX-License-Identifier: MIT */
/*
 * The locks of POSIX in a program with run loops: a mutex, and a condition with a thread that waits for work by it. Both go with the
 * library's threads and callbacks; lock.h and sync.h are smaller, and have limits of time that a set clock does not move.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int left, done;

static void do_with_mutex(void) {
    pthread_mutex_lock(&mutex);
    printf("the mutex is held\n");
    pthread_mutex_unlock(&mutex);
}

/* The question is in a loop: a wait may return without a signal, and another thread may have been faster. */
static void take_work(RLThreadRef thread, void *unused) {
    (void)thread, (void)unused;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (left == 0) pthread_cond_wait(&condition, &mutex);
        left--;
        int number = ++done;
        pthread_mutex_unlock(&mutex);
        printf("work %d\n", number);
        if (number == 3) return;
    }
}

/* A timer brings work. What is waited for is changed with the mutex held. */
static void bring_work(RLTimerRef timer, void *count) {
    pthread_mutex_lock(&mutex);
    left++;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    if (++*(int *)count == 3) RLTimerInvalidate(timer);
}

int main(void) {
    do_with_mutex();
    RLThreadRef worker = RLThreadCreate(take_work, NULL, NULL);
    RLThreadStart(worker);
    int count = 0;
    RLTimerContext context = {0, &count, NULL, NULL, NULL};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0.001, 0, 0, bring_work, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRun();
    RLThreadJoin(worker);
    RLRelease(worker);
    printf("all is done\n");
    return 0;
}
