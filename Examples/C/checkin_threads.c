/* SPDX-License-Identifier: MIT */
/*
 * Two threads, two message ports: the main thread starts a worker and gives it the name of its own
 * port. The worker makes a port, checks in with message 100, which carries its name, and from then
 * on each can write to the other. No lock is shared.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { check_in = 100, task = 101, quit = 102 };

static char main_name[64], worker_name[64];
static RLMessagePortRef worker; /* the main thread's end of the worker's port */

static RLMessagePortRef serve(const char *name, RLMessagePortCallBack callback) {
    RLMessagePortRef local = RLMessagePortCreateLocal(name, callback, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return local;
}

/* The worker: does tasks until it is told to quit. */
static RLDataRef worker_message(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)info;
    if (msgid == quit) {
        printf("worker: quits\n");
        RLMessagePortInvalidate(local); /* its source leaves the loop, which is empty then */
        return NULL;
    }
    char answer[64];
    int length = snprintf(answer, sizeof answer, "%.*s done", (int)RLDataGetLength(data),
                          (const char *)RLDataGetBytePtr(data));
    return RLDataCreate(answer, (size_t)length);
}

static void *worker_main(void *name) {
    RLMessagePortRef local = serve(worker_name, worker_message);
    RLMessagePortRef main_port = RLMessagePortCreateRemote(name);
    RLMessagePortSendRequest(main_port, check_in, worker_name, strlen(worker_name), 10, 0, NULL,
                             NULL);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
    RLRelease(main_port);
    RLRelease(local);
    return (void *)(result == kRLRunFinished ? "Finished" : "ended otherwise");
}

/* The main thread: the worker has checked in and says where it can be reached. */
static RLDataRef main_message(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)local, (void)info;
    if (msgid != check_in) return NULL;
    char name[64] = {0};
    memcpy(name, RLDataGetBytePtr(data), RLDataGetLength(data) < sizeof name
           ? RLDataGetLength(data) : sizeof name - 1);
    worker = RLMessagePortCreateRemote(name);
    printf("main: a worker checked in\n");
    RLStop(RLGetCurrent());
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *said;
    snprintf(main_name, sizeof main_name, "example.main.%d", (int)getpid());
    snprintf(worker_name, sizeof worker_name, "example.worker.%d", (int)getpid());
    RLMessagePortRef local = serve(main_name, main_message);
    if (!local || pthread_create(&thread, NULL, worker_main, main_name) != 0) return 1;
    RLRunInMode(kRLDefaultMode, 60, false);
    if (!worker) return 1;

    RLDataRef answer = NULL;
    int32_t code = RLMessagePortSendRequest(worker, task, "task 1", 6, 10, 10, "answers", &answer);
    if (code == kRLMessagePortSuccess)
        printf("main: %.*s\n", (int)RLDataGetLength(answer),
               (const char *)RLDataGetBytePtr(answer));
    RLRelease(answer);
    RLMessagePortSendRequest(worker, quit, NULL, 0, 10, 0, NULL, NULL);
    pthread_join(thread, &said);
    printf("worker: %s\n", (const char *)said);
    RLRelease(worker);
    RLRelease(local);
    return code == kRLMessagePortSuccess ? 0 : 1;
}
