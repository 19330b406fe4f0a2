/* SPDX-License-Identifier: MIT */
/* A program that is linked statically with librunloop.a: timers, functions queued by another thread, a message port that a child of
 * fork sends to, and the end of threads. The library's constructor, its handlers of fork and its thread keys have to work there as well. */
#include <pthread.h>
#include <runloop/runloop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("line %d: not so: %s\n", __LINE__, #condition);             \
            return 1;                                                          \
        }                                                                      \
    } while (0)

static int fires, posts, served, ends;

static void fire(RLTimerRef timer, void *info) {
    (void)info;
    if (++fires == 3) RLTimerInvalidate(timer);
}

static void post(void *info) {
    ++posts;
    RLStop(info);
}

static void countEnd(const void *info) {
    (void)info;
    __atomic_add_fetch(&ends, 1, __ATOMIC_SEQ_CST);
}

static RLDataRef serve(RLMessagePortRef local, int32_t number, RLDataRef data, void *info) {
    (void)local;
    (void)info;
    ++served;
    RLStop(RLGetCurrent());
    return number == 7 && RLDataGetLength(data) == 4 ? RLDataCreate("pong", 4) : NULL;
}

/* A thread with a loop of its own, which keeps a timer until the thread ends. */
static void *work(void *main_loop) {
    RLTimerContext context = {0, NULL, NULL, countEnd, NULL};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, fire, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLPerformFunction(main_loop, kRLDefaultMode, post, main_loop, NULL);
    RLWakeUp(main_loop);
    return NULL;
}

static int runTimer(void) {
    fires = 0;
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0.001, 0, 0, fire, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    while (RLTimerIsValid(timer)) CHECK(RLRunInMode(kRLDefaultMode, 10, true) != kRLRunTimedOut);
    /* There is no dynamic linker to name the callback; its place in the program is told. */
    char *words = RLCopyDescription(timer);
    RLRelease(timer);
    CHECK(strstr(words, "+0x") || strstr(words, "callback = fire"));
    free(words);
    CHECK(fires == 3);
    return 0;
}

static int child(const char *name) {
    if (runTimer() != 0) return 1;
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    CHECK(remote);
    RLDataRef reply = NULL;
    CHECK(RLMessagePortSendRequest(remote, 7, "ping", 4, 10, 10, kRLDefaultMode, &reply) == kRLMessagePortSuccess);
    CHECK(RLDataGetLength(reply) == 4 && memcmp(RLDataGetBytePtr(reply), "pong", 4) == 0);
    RLRelease(reply);
    RLRelease(remote);
    return 0;
}

int main(void) {
    if (runTimer() != 0) return 1;

    char name[64];
    snprintf(name, sizeof name, "org.example.static.%d", (int)getpid());
    RLMessagePortRef local = RLMessagePortCreateLocal(name, serve, NULL, NULL);
    CHECK(local);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, RLGetCurrent()) == 0);
    CHECK(RLRunInMode(kRLDefaultMode, 10, false) == kRLRunStopped);
    pthread_join(thread, NULL);
    CHECK(posts == 1);
    CHECK(__atomic_load_n(&ends, __ATOMIC_SEQ_CST) == 1);

    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) _exit(child(name));
    CHECK(RLRunInMode(kRLDefaultMode, 10, false) == kRLRunStopped);
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(served == 1);
    RLMessagePortInvalidate(local);
    RLRelease(local);
    printf("static: version %s, timers, posts, a message port, fork\n", RLGetVersion());
    return 0;
}
