/* SPDX-License-Identifier: MIT */
/*
 * Many connections to a Redis server by hiredis's adapter for CoreFoundation, as it comes with hiredis: pipelines, a subscriber, a
 * timer beside them, connections that are closed with commands on their way. Nothing may be lost or told twice.
 * usage: hiredis_stress PORT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/adapters/macosx.h>

enum { CLIENTS = 24, COMMANDS = 2000, MESSAGES = 300 };

typedef struct Client {
    redisAsyncContext *context;
    long sent, answered;
    int closes; /* in the middle of its commands */
} Client;

static Client clients[CLIENTS];
static int open_connections, published, heard, ticks;
static int port;
static int failures;

static void fail(const char *what, long value) {
    printf("%s: %ld\n", what, value);
    failures++;
    CFRunLoopStop(CFRunLoopGetCurrent());
}

static void disconnected(const redisAsyncContext *context, int status) {
    Client *client = context->data;
    if (status != REDIS_OK) fail(context->errstr, status);
    if (client && client->answered != COMMANDS && !client->closes) fail("a client ended early", client->answered);
    if (--open_connections == 0) CFRunLoopStop(CFRunLoopGetCurrent());
}

static redisAsyncContext *connect_to_server(void) {
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", port);
    if (!context || context->err || redisMacOSAttach(context, CFRunLoopGetCurrent()) != REDIS_OK) {
        puts("no connection");
        exit(1);
    }
    redisAsyncSetDisconnectCallback(context, disconnected);
    open_connections++;
    return context;
}

static void answered(redisAsyncContext *context, void *answer, void *number) {
    Client *client = context->data;
    redisReply *reply = answer;
    if (!reply) return;
    if ((long)number != client->answered) fail("out of order", (long)number);
    client->answered++;
    if (client->closes) {
        if (client->answered == 10) redisAsyncDisconnect(context);
        return;
    }
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != client->answered) fail("wrong count", (long)reply->integer);
    if (client->sent < COMMANDS) {
        redisAsyncCommand(context, answered, (void *)client->sent, "INCR counter:%d", (int)(client - clients));
        client->sent++;
    }
    if (client->answered == COMMANDS) redisAsyncDisconnect(context);
}

static void told(redisAsyncContext *context, void *answer, void *data) {
    (void)data;
    redisReply *reply = answer;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || strcmp(reply->element[0]->str, "message") != 0) return;
    if (atoi(reply->element[2]->str) != heard++) fail("a message is missing", heard);
    if (heard == MESSAGES) redisAsyncDisconnect(context);
}

static redisAsyncContext *publisher;

static void was_published(redisAsyncContext *context, void *answer, void *data) {
    (void)data;
    if (answer && ++published == MESSAGES) redisAsyncDisconnect(context);
}

static void tick(CFRunLoopTimerRef timer, void *info) {
    ticks++;
    int *next = info;
    for (int count = 0; count < 10 && *next < MESSAGES; count++)
        redisAsyncCommand(publisher, was_published, NULL, "PUBLISH channel %d", (*next)++);
    if (*next == MESSAGES) CFRunLoopTimerInvalidate(timer);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    signal(SIGPIPE, SIG_IGN);
    port = atoi(arguments[1]);
    for (int index = 0; index < CLIENTS; index++) {
        Client *client = &clients[index];
        client->context = connect_to_server();
        client->context->data = client;
        client->closes = index % 8 == 7;
        for (; client->sent < 20 * (index + 1); client->sent++)
            redisAsyncCommand(client->context, answered, (void *)client->sent, client->closes ? "PING" : "INCR counter:%d", index);
    }
    redisAsyncContext *subscriber = connect_to_server();
    redisAsyncCommand(subscriber, told, NULL, "SUBSCRIBE channel");
    publisher = connect_to_server();
    int next = 0;
    CFRunLoopTimerContext context = {0, &next, NULL, NULL, NULL};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() + 0.05, 0.002, 0, 0, tick, &context);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, kCFRunLoopDefaultMode);
    CFRelease(timer);
    if (CFRunLoopRunInMode(kCFRunLoopDefaultMode, 60, false) != kCFRunLoopRunStopped) fail("not stopped", open_connections);
    long total = 0;
    for (int index = 0; index < CLIENTS; index++) total += clients[index].answered;
    printf("%ld answers, %d of %d messages, %d ticks, %d connections left\n", total, heard, MESSAGES, ticks, open_connections);
    return failures > 0 || heard != MESSAGES || open_connections != 0;
}
