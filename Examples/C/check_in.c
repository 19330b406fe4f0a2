/* SPDX-License-Identifier: MIT */
/*
 * Two threads that talk by Mach-like ports, as in Apple's guide.
 *
 * The main thread makes a port, puts its source into its loop and hands the port to a worker. The
 * worker makes a port of its own and checks in: it sends message 100 with that port as the one to
 * answer to. The main thread keeps it, sends work to it, and gets the results by its own port.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { check_in_message = 100, work_message, result_message, end_message };

static RLMachPortRef make_port(RLMachPortCallBack callout, void *info) {
    RLMachPortContext context = {.info = info};
    RLMachPortRef port = RLMachPortCreate(callout, &context, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return port;
}

/* The worker: counts the letters of what it is sent. */
static void worker_receives(RLMachPortRef port, const RLMachMessage *message, void *info) {
    RLMachPortRef main_port = info;
    if (message->msgid == end_message) {
        RLStop(RLGetCurrent());
        return;
    }
    long letters = (long)message->length;
    RLMachPortSend(main_port, result_message, &letters, sizeof letters, port, 1);
}

static void *worker_main(void *argument) {
    RLMachPortRef main_port = argument;
    RLMachPortRef own = make_port(worker_receives, main_port);
    /* A timeout of 0 means now: the queue of a port that nobody used yet has room. */
    if (RLMachPortSend(main_port, check_in_message, NULL, 0, own, 0) != kRLMessagePortSuccess) return NULL;
    RLRun();
    RLMachPortInvalidate(own);
    RLRelease(own);
    printf("worker: ended\n");
    return NULL;
}

/* The main thread. */
struct boss {
    RLMachPortRef worker;
    int results;
};

static void boss_receives(RLMachPortRef port, const RLMachMessage *message, void *info) {
    static const char *const work[] = {"run", "loops", "and ports"};
    struct boss *boss = info;
    (void)port;
    if (message->msgid == check_in_message) {
        printf("main: message %d, the worker checks in\n", check_in_message);
        /* The reply port is borrowed: kept for later, it is retained. */
        boss->worker = (RLMachPortRef)RLRetain(message->replyPort);
        for (int i = 0; i < 3; i++) RLMachPortSend(boss->worker, work_message, work[i], strlen(work[i]), NULL, 1);
    } else if (message->msgid == result_message) {
        printf("main: %ld letters\n", *(const long *)message->bytes);
        if (++boss->results == 3) {
            RLMachPortSend(boss->worker, end_message, NULL, 0, NULL, 1);
            RLStop(RLGetCurrent());
        }
    }
}

int main(void) {
    struct boss boss = {NULL, 0};
    RLMachPortRef port = make_port(boss_receives, &boss);
    pthread_t worker;
    if (pthread_create(&worker, NULL, worker_main, port) != 0) return 1;
    RLRun();
    pthread_join(worker, NULL);
    RLRelease(boss.worker);
    RLMachPortInvalidate(port);
    RLRelease(port);
    return boss.results == 3 ? 0 : 1;
}
