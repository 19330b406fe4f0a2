/* SPDX-License-Identifier: MIT */
/* Mach-like ports and message ports. */
#define _GNU_SOURCE
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int received, ended;

static void take_mach_message(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)info;
    if (message->replyPort) RLMachPortSend(message->replyPort, 2, "reply", 5, NULL, 0);
    add_one(&received);
}

static void *send_to(void *port) {
    if (RLMachPortSend(port, 1, "hello", 5, NULL, PATIENCE) != kRLMessagePortSuccess) lost("room in a Mach-like port");
    if (RLMachPortSend(port, 1, NULL, 0, NULL, PATIENCE) != kRLMessagePortSuccess) lost("room in a Mach-like port");
    return NULL;
}

static void mach_ports(void) {
    received = 0;
    RLMachPortRef port = RLMachPortCreate(take_mach_message, NULL, NULL), reply = RLMachPortCreate(take_mach_message, NULL, NULL);
    RLSourceRef sources[2] = {RLMachPortCreateRunLoopSource(port, 0), RLMachPortCreateRunLoopSource(reply, 0)};
    for (int i = 0; i < 2; i++) RLAddSource(RLGetCurrent(), sources[i], kRLDefaultMode);
    RLMachPortSetQueueLimit(port, 1);
    pthread_t thread = start_thread(send_to, port);
    run_until(&received, 2, "messages of a Mach-like port");
    join_thread(thread);
    if (RLMachPortGetPort(port) < 0) refused("a Mach-like port's descriptor");
    if (RLMachPortSend(port, 1, "question", 8, reply, 0) == kRLMessagePortSuccess)
        run_until(&received, 4, "a message and its reply");
    else
        lost("an empty Mach-like port");
    for (int i = 0; i < 2; i++) RLRelease(sources[i]);
    RLMachPortInvalidate(port);
    RLMachPortInvalidate(reply);
    RLRelease(port);
    RLRelease(reply);
}

static void take_ending(RLMessagePortRef port, void *info) {
    (void)port, (void)info;
    add_one(&ended);
}

/* The reply is what was sent. With descriptors, their number is the last byte. */
static RLDataRef echo(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)msgid, (void)info;
    int descriptors[4];
    RLIndex count = RLMessagePortTakeDescriptors(port, descriptors, 4);
    for (RLIndex i = 0; i < count; i++) close(descriptors[i]);
    add_one(&received);
    return RLDataCreate(RLDataGetBytePtr(data), RLDataGetLength(data));
}

/* A thread that serves a port. */
static struct service {
    char name[64];
    int ready, over;
    bool has_port;
} service;

static void *serve(void *unused) {
    RLMessagePortRef port = RLMessagePortCreateLocal(service.name, echo, NULL, NULL);
    RLSourceRef source = port ? RLMessagePortCreateRunLoopSource(port, 0) : NULL;
    service.has_port = source != NULL;
    if (source) RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    add_one(&service.ready);
    while (source && !count_of(&service.over)) RLRunInMode(kRLDefaultMode, 0.005, true);
    if (source) RLRelease(source);
    if (port) {
        RLMessagePortInvalidate(port);
        RLRelease(port);
    }
    return unused;
}

static int32_t ask(RLMessagePortRef remote, size_t length, const int *descriptors, RLIndex count) {
    char *bytes = malloc(length + 1);
    memset(bytes, 'x', length + 1);
    RLDataRef reply = NULL;
    int32_t code = RLMessagePortSendRequestWithDescriptors(remote, 1, bytes, length, descriptors, count, PATIENCE, PATIENCE,
                                                           kRLDefaultMode, &reply);
    if (code != kRLMessagePortSuccess) {
        char what[64];
        snprintf(what, sizeof what, "a request of %zu bytes: %d", length, (int)code);
        /* Time has not run out for the peer, and it lives. */
        if (code == kRLMessagePortSendTimeout || code == kRLMessagePortReceiveTimeout)
            lost(what);
        else
            refused(what);
    } else if (RLDataGetLength(reply) != length || memcmp(RLDataGetBytePtr(reply), bytes, length) != 0) {
        lost("the bytes of a reply");
    }
    if (code == kRLMessagePortSuccess) RLRelease(reply);
    free(bytes);
    return code;
}

/* The service starts, a remote port is made, and given to the function. */
static void with_service(void (*work)(RLMessagePortRef remote)) {
    static int number;
    service = (struct service){0};
    received = ended = 0;
    snprintf(service.name, sizeof service.name, "faults.%d.%d", (int)getpid(), number++);
    pthread_t thread = start_thread(serve, NULL);
    wait_until(&service.ready, 1, "a service");
    RLMessagePortRef remote = service.has_port ? RLMessagePortCreateRemote(service.name) : NULL;
    if (!remote)
        refused("a message port");
    else
        work(remote);
    add_one(&service.over);
    join_thread(thread);
    if (remote && service.has_port) {
        /* Whoever asks learns of the end. */
        Patience patience = patience_begin();
        while (RLMessagePortIsValid(remote) && !patience_ended(patience)) sleep_briefly();
        if (RLMessagePortIsValid(remote)) lost("the end of a service");
        if (outcome.is_lost || RLMessagePortGetInvalidationCallBack(remote) == NULL)
            ;
        else
            wait_until(&ended, 1, "the invalidation callback");
    }
    RLRelease(remote);
}

static void ask_twice(RLMessagePortRef remote) {
    ask(remote, 10, NULL, 0);
    ask(remote, 0, NULL, 0);
    if (RLMessagePortSendRequest(remote, 2, "x", 1, PATIENCE, 0, NULL, NULL) != kRLMessagePortSuccess)
        refused("a message without a reply");
    else
        wait_until(&received, 3, "a message without a reply");
}

static void requests(void) { with_service(ask_twice); }

static void ask_at_length(RLMessagePortRef remote) {
    ask(remote, 40000, NULL, 0);
    ask(remote, 300000, NULL, 0);
    ask(remote, 9000000, NULL, 0);
}

static void long_requests(void) { with_service(ask_at_length); }

static void ask_with_descriptors(RLMessagePortRef remote) {
    int descriptors[2];
    if (pipe(descriptors) != 0) return;
    ask(remote, 5, descriptors, 2);
    close(descriptors[0]);
    close(descriptors[1]);
}

static void passed_descriptors(void) { with_service(ask_with_descriptors); }

static void watch_end(RLMessagePortRef remote) {
    RLMessagePortSetInvalidationCallBack(remote, take_ending);
    ask(remote, 1, NULL, 0);
}

static void endings(void) { with_service(watch_end); }

/* A name that is taken is refused, and free after its port. */
static void names(void) {
    char name[64], other[64];
    snprintf(name, sizeof name, "faults.name.%d", (int)getpid());
    snprintf(other, sizeof other, "faults.other.%d", (int)getpid());
    RLMessagePortRef port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
    if (!port) return refused("a name");
    if (!RLMessagePortSetName(port, other)) refused("another name");
    RLMessagePortInvalidate(port);
    RLRelease(port);
    port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
    if (!port) return refused("a name that is free again");
    RLRelease(port);
}

const Part port_parts[] = {
    {"mach-ports", mach_ports},           {"requests", requests}, {"long-requests", long_requests},
    {"passed-descriptors", passed_descriptors}, {"endings", endings},   {"names", names}, {0},
};
