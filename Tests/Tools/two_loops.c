/* SPDX-License-Identifier: MIT */
/* A program with two loops for the tests of the tools: one whose timer blocks it most of the time, under a name with control characters. */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void take_time(RLTimerRef timer, void *info) {
    (void)timer;
    usleep(*(useconds_t *)info);
}

static void run(const char *name, const char *timer_name, double interval, useconds_t time) {
    RLTimerContext context = {0, &time, NULL, NULL, NULL};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), interval, 0, 0, take_time, &context);
    RLSetName(timer, timer_name);
    RLSetName(RLGetCurrent(), name);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRun();
}

static void *work(void *unused) {
    run("worker", "evil \x1b[31m\a timer", 0.5, 450000);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    run("quick one", "heartbeat", 0.01, 100);
    return 0;
}
