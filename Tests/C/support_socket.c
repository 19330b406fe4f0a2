/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "support_socket.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const void *retain(const void *info) {
    Socket *socket = (Socket *)(size_t)info;
    __atomic_add_fetch(&socket->retains, 1, __ATOMIC_SEQ_CST);
    if (socket->brackets) trace("+%s", socket->name);
    return info;
}

static void release(const void *info) {
    Socket *socket = (Socket *)(size_t)info;
    __atomic_add_fetch(&socket->releases, 1, __ATOMIC_SEQ_CST);
    if (socket->brackets) trace("-%s", socket->name);
}

void report_socket(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data,
                   void *info) {
    Socket *socket = info;
    ck_assert_ptr_eq(s, socket->socket);
    socket->thread = pthread_self();
    socket->address_length = address ? (long)RLDataGetLength(address) : -1;
    if (address) {
        ck_assert_int_le(socket->address_length, (long)sizeof socket->address);
        memcpy(socket->address, RLDataGetBytePtr(address), (size_t)socket->address_length);
    }
    switch (type) {
    case kRLSocketReadCallBack:
        ck_assert_ptr_null(data);
        trace("%s:read", socket->name);
        break;
    case kRLSocketAcceptCallBack:
        socket->accepted = *(const int *)data;
        trace("%s:accept", socket->name);
        break;
    case kRLSocketDataCallBack:
        socket->length = RLDataGetLength((RLDataRef)data);
        ck_assert_uint_le(socket->length, sizeof socket->received);
        memcpy(socket->received, RLDataGetBytePtr((RLDataRef)data), socket->length);
        trace("%s:data=%zu", socket->name, socket->length);
        break;
    case kRLSocketConnectCallBack:
        if (data) {
            trace("%s:connect=%d", socket->name, *(const int32_t *)data);
        } else {
            trace("%s:connect", socket->name);
        }
        break;
    case kRLSocketWriteCallBack:
        if (data) {
            trace("%s:write=%d", socket->name, *(const int32_t *)data);
        } else {
            trace("%s:write", socket->name);
        }
        break;
    default: ck_abort_msg("type %lu", (unsigned long)type);
    }
    __atomic_add_fetch(&socket->calls, 1, __ATOMIC_SEQ_CST);
    if (socket->action) socket->action(socket, type);
}

RLSocketContext socket_context(Socket *socket) {
    return (RLSocketContext){0, socket, retain, release, NULL};
}

/* What a case does not release is kept here until the process ends, so that the leak sanitizer finds what the library loses. */
static RLSocketRef keep(RLSocketRef made) {
    __attribute__((unused)) static volatile RLSocketRef kept[256];
    static unsigned count;
    ck_assert_ptr_nonnull(made);
    kept[__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % 256] = made;
    return made;
}

RLSocketRef socket_make(Socket *socket, int fd, RLOptionFlags types) {
    RLSocketContext context = socket_context(socket);
    socket->socket = keep(RLSocketCreateWithNative(fd, types, report_socket, &context));
    return socket->socket;
}

RLSocketRef socket_create(Socket *socket, int family, int type, RLOptionFlags types) {
    RLSocketContext context = socket_context(socket);
    socket->socket = keep(RLSocketCreate(family, type, 0, types, report_socket, &context));
    return socket->socket;
}

void socket_add(Socket *socket) {
    socket->source = RLSocketCreateRunLoopSource(socket->socket, 0);
    ck_assert_ptr_nonnull(socket->source);
    RLAddSource(RLGetCurrent(), socket->source, kRLDefaultMode);
    RLRelease(socket->source);
}

struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int port_of(int fd) {
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static int make_bound(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

int make_listener(void) {
    int fd = make_bound();
    ck_assert_int_eq(listen(fd, 16), 0);
    return fd;
}

/* Bound and kept, so that nobody else listens there meanwhile. */
int refused_port(void) { return port_of(make_bound()); }

int connect_to(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(port);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void make_connection(int ends[2]) {
    int listener = make_listener();
    ends[1] = connect_to(port_of(listener));
    ends[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(ends[0], 0);
    close(listener);
}

void make_sockets(int type, int ends[2]) {
    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
}

struct sockaddr_un unix_address(void) {
    static int number;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/runloop-test-%d-%d", (int)getpid(),
             number++);
    unlink(address.sun_path);
    return address;
}
