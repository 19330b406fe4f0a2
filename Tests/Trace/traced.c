/* SPDX-License-Identifier: MIT */
/* A program to be traced: a server with a painter's loop, a worker that gives it things to do, and another process that sends it messages. Each process records in FILE or FILE-client.
 * usage: traced FILE */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static RLRunLoopRef painter_loop;
static RLSourceRef commands;
static int frames, messages;

static void take(double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = (double)now.tv_sec + (double)now.tv_nsec / 1e9 + seconds;
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < end);
}

static void paint_frame(RLTimerRef timer, void *info) {
    (void)info;
    take(0.0005);
    if (++frames == 10) RLTimerInvalidate(timer);
}

static void obey_commands(void *info) {
    (void)info;
    take(0.0002);
}

static void show_result(void *info) {
    (void)info;
    take(0.0003);
}

static void stop_painting(void *info) {
    (void)info;
    RLStop(RLGetCurrent());
}

static RLDataRef answer_message(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)info, (void)msgid;
    take(0.0002);
    if (++messages == 3) RLPerformFunction(painter_loop, kRLDefaultMode, stop_painting, NULL, NULL);
    return RLRetain(data);
}

/* Not static, and never in place: the trace is to name it. */
__attribute__((noinline)) void give_work(void) {
    RLSourceSignal(commands);
    RLWakeUp(painter_loop);
    RLPerformFunction(painter_loop, kRLDefaultMode, show_result, NULL, NULL);
    RLWakeUp(painter_loop);
}

static void *work(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    for (int i = 0; i < 5; i++) {
        struct timespec pause = {0, 1500000};
        nanosleep(&pause, NULL);
        give_work();
    }
    return NULL;
}

static int be_client(const char *file, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s-client", file);
    if (!RLTraceStart(path, 1)) return 1;
    RLMessagePortRef port = NULL;
    for (int i = 0; i < 1000 && !port; i++) {
        port = RLMessagePortCreateRemote(name);
        if (!port) usleep(1000);
    }
    if (!port) return 1;
    for (int i = 0; i < 3; i++) {
        RLDataRef reply = NULL;
        if (RLMessagePortSendRequest(port, 100 + i, "hello", 5, 10, 10, kRLDefaultMode, &reply) != kRLMessagePortSuccess) return 1;
        RLRelease(reply);
        usleep(2000);
    }
    RLTraceStop();
    return 0;
}

int main(int count, char **arguments) {
    char name[64];
    if (count != 2) return 2;
    snprintf(name, sizeof name, "rl-traced-%d", (int)getpid());
    pid_t client = fork();
    if (client == 0) _exit(be_client(arguments[1], name));
    if (!RLTraceStart(arguments[1], 2)) return 1;

    painter_loop = RLGetCurrent();
    RLSetName(painter_loop, "painter");
    RLMessagePortContext context = {0};
    RLMessagePortRef port = RLMessagePortCreateLocal(name, answer_message, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(painter_loop, source, kRLDefaultMode);
    RLSourceContext functions = {.version = 0, .perform = obey_commands};
    commands = RLSourceCreate(0, &functions);
    RLSetName(commands, "commands");
    RLAddSource(painter_loop, commands, kRLDefaultMode);
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.001, 0.001, 0, 0, paint_frame, NULL);
    RLAddTimer(painter_loop, timer, kRLDefaultMode);
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    RLRunInMode(kRLDefaultMode, 30, false);
    pthread_join(worker, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);

    int status;
    waitpid(client, &status, 0);
    RLTraceStop();
    RLMessagePortInvalidate(port);
    RLRelease(port);
    RLRelease(source);
    RLRelease(commands);
    RLRelease(timer);
    return status == 0 && messages == 3 && frames > 0 ? 0 : 1;
}
