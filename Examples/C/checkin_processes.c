/* SPDX-License-Identifier: MIT */
/*
 * The same across two processes: a parent starts workers as programs of their own (this one with a
 * name as its argument), and each checks in with message 100 and its port's name. The third worker
 * dies before it answers, and the parent is told.
 */
#include <runloop/runloop.h>

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { check_in = 100, task = 101 };
extern char **environ;

static RLMessagePortRef worker;

static RLMessagePortRef serve(const char *name, RLMessagePortCallBack callback) {
    RLMessagePortRef local = RLMessagePortCreateLocal(name, callback, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return local;
}

/* The worker process. */
static RLDataRef worker_message(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)local, (void)msgid, (void)info;
    if (RLDataGetLength(data) == 3) raise(SIGKILL); /* "die" */
    return RLDataCreate("done", 4);
}

static void parent_is_gone(RLMessagePortRef port, void *info) {
    (void)port, (void)info;
    RLStop(RLGetMain());
}

static int worker_main(const char *parent_name) {
    char name[64];
    snprintf(name, sizeof name, "example.worker.%d", (int)getpid());
    RLMessagePortRef local = serve(name, worker_message);
    RLMessagePortRef parent = RLMessagePortCreateRemote(parent_name);
    if (!local || !parent) return 1;
    RLMessagePortSetInvalidationCallBack(parent, parent_is_gone);
    RLMessagePortSendRequest(parent, check_in, name, strlen(name), 10, 0, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 60, false);
    return 0;
}

/* The parent. */
static RLDataRef parent_message(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)local, (void)info;
    char name[64] = {0};
    if (msgid != check_in || RLDataGetLength(data) >= sizeof name) return NULL;
    memcpy(name, RLDataGetBytePtr(data), RLDataGetLength(data));
    worker = RLMessagePortCreateRemote(name);
    RLStop(RLGetCurrent());
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) return worker_main(argv[1]);
    char name[64];
    snprintf(name, sizeof name, "example.parent.%d", (int)getpid());
    RLMessagePortRef local = serve(name, parent_message);
    for (int number = 1; number <= 3; ++number) {
        pid_t process;
        char *arguments[] = {argv[0], name, NULL};
        if (!local || posix_spawn(&process, "/proc/self/exe", NULL, NULL, arguments,
                                  environ) != 0) return 1;
        RLRunInMode(kRLDefaultMode, 60, false);
        if (!worker) return 1;
        printf("worker %d checked in\n", number);
        RLDataRef answer = NULL;
        const char *text = number < 3 ? "work" : "die";
        int32_t code = RLMessagePortSendRequest(worker, task, text, strlen(text), 10, 10, "answers",
                                                &answer);
        if (code == kRLMessagePortSuccess) printf("worker %d: %.*s\n", number,
                                                  (int)RLDataGetLength(answer),
                                                      (const char *)RLDataGetBytePtr(answer));
        if (code == kRLMessagePortBecameInvalidError) printf("worker %d is gone\n", number);
        RLRelease(answer);
        kill(process, SIGTERM);
        waitpid(process, NULL, 0);
        if (RLMessagePortIsValid(worker)) return 1;
        RLRelease(worker);
        worker = NULL;
    }
    RLRelease(local);
    return 0;
}
