/* SPDX-License-Identifier: MIT */
/*
 * An echo server for many clients in one thread and one run loop. Nothing in it blocks: what a client does not take yet is
 * queued, and the server reads no more from that client until it has taken it; the others notice nothing. SIGTERM ends it
 * in order: every client gets what the server has read of it, and ten seconds to end.
 * The argument is the port (0: any, which it prints).
 */
#include <runloop/runloop.h>

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* A client that does not read costs so much memory, and what one callback reads. */
#define HIGH_WATER 65536

typedef struct Client {
    RLSocketRef socket;
    struct Client *next, **link;
} Client;

static Client *clients;
static RLSocketRef listener;
static bool is_ending;
static int served;

static void report(RLSocketRef socket, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)peer;
    (void)info;
    if (type == kRLSocketWriteCallBack) {
        /* The queue is empty, or, if data is not NULL, lost; then reading finds the end. */
        RLSocketEnableCallBacks(socket, kRLSocketDataCallBack);
    } else if (RLSocketWrite(socket, RLDataGetBytePtr(data), RLDataGetLength(data), HIGH_WATER) > 0) {
        RLSocketDisableCallBacks(socket, kRLSocketDataCallBack);
    }
    /* At the end of the stream the socket sends what is queued and closes itself. */
}

/* The connection is over, in whatever way. */
static void release(const void *info) {
    Client *client = (Client *)info;
    *client->link = client->next;
    if (client->next) client->next->link = client->link;
    RLRelease(client->socket);
    free(client);
    if (is_ending && !clients) RLStop(RLGetMain());
}

static void take(RLSocketRef socket, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)socket, (void)type, (void)peer, (void)info;
    Client *client = calloc(1, sizeof *client);
    client->next = clients;
    client->link = &clients;
    if (clients) clients->link = &client->next;
    clients = client;
    RLSocketContext context = {0, client, NULL, release, NULL};
    client->socket = RLSocketCreateWithNative(*(const int *)data, kRLSocketDataCallBack | kRLSocketWriteCallBack, report, &context);
    RLSourceRef source = RLSocketCreateRunLoopSource(client->socket, 0);
    RLAddSource(RLGetMain(), source, kRLDefaultMode);
    RLRelease(source);
    served++;
}

static void give_up(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
    while (clients) RLSocketClose(clients->socket, kRLSocketCloseAbort);
}

static void end(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    is_ending = true;
    RLSocketInvalidate(listener);
    for (Client *client = clients, *next; client; client = next) {
        next = client->next;
        RLSocketClose(client->socket, kRLSocketCloseOrderly);
    }
    if (!clients) RLStop(RLGetMain());
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 10, 0, 0, 0, give_up, NULL);
    RLAddTimer(RLGetMain(), timer, kRLDefaultMode);
    RLRelease(timer);
}

int main(int count, char **arguments) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    RLKernelEvent terminated = {.filter = kRLKernelFilterSignal, .ident = SIGTERM};
    RLSourceRef source = RLKernelEventSourceCreate(&terminated, end, NULL);
    RLAddSource(RLGetMain(), source, kRLDefaultMode);
    RLRelease(source);

    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_port = htons((uint16_t)(count > 1 ? atoi(arguments[1]) : 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketAcceptCallBack, take, NULL);
    if (RLSocketListen(listener, &address, sizeof address, kRLSocketReuseAddress | kRLSocketNoDelay, 4096) != kRLSocketSuccess) {
        perror("echo_server");
        return 1;
    }
    source = RLSocketCreateRunLoopSource(listener, 0);
    RLAddSource(RLGetMain(), source, kRLDefaultMode);
    RLRelease(source);
    RLDataRef own = RLSocketCopyAddress(listener);
    printf("listening on %d\n", ntohs(((const struct sockaddr_in *)RLDataGetBytePtr(own))->sin_port));
    fflush(stdout);
    RLRelease(own);
    RLRun();
    RLRelease(listener);
    printf("served %d connections\n", served);
    return 0;
}
