/* SPDX-License-Identifier: MIT */
/*
 * A client of Redis by hiredis: a subscriber hears what a timer publishes. The argument is the server's socket (a path) or port.
 */
#include <runloop/adapters/hiredis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisAsyncContext *publisher, *subscriber;

static void heard(redisAsyncContext *context, void *reply, void *info) {
    redisReply *message = reply;
    (void)info;
    if (!message || strcmp(message->element[0]->str, "message") != 0) return;
    printf("heard %s\n", message->element[2]->str);
    if (strcmp(message->element[2]->str, "3") == 0) redisAsyncDisconnect(context);
}

static void tick(RLTimerRef timer, void *info) {
    int *ticks = info;
    redisAsyncCommand(publisher, NULL, NULL, "PUBLISH ticks %d", ++*ticks);
    if (*ticks < 3) return;
    RLTimerInvalidate(timer);
    redisAsyncDisconnect(publisher); /* after the answer */
}

static void disconnected(const redisAsyncContext *context, int status) {
    printf("%s: %s\n", context == publisher ? "publisher" : "subscriber", status == REDIS_OK ? "disconnected" : context->errstr);
}

static redisAsyncContext *connect_to(const char *server) {
    int port = atoi(server);
    redisAsyncContext *context = port > 0 ? redisAsyncConnect("127.0.0.1", port) : redisAsyncConnectUnix(server);
    if (RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode) != REDIS_OK) {
        fprintf(stderr, "redis: %s\n", context ? context->errstr : "no memory");
        exit(1);
    }
    redisAsyncSetDisconnectCallback(context, disconnected);
    return context;
}

int main(int count, char **arguments) {
    int ticks = 0;
    const char *server = count > 1 ? arguments[1] : "6379";
    RLTimerContext context = {.info = &ticks};
    publisher = connect_to(server);
    subscriber = connect_to(server);
    redisAsyncCommand(subscriber, heard, NULL, "SUBSCRIBE ticks");
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.1, 0.1, 0, 0, tick, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRun(); /* until no connection is left */
    return 0;
}
