/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "connections.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "files.h"

enum { ROOM = 8 };

struct listener {
    bool is_local;
    struct address address;
    int count;
    struct client {
        int fd;
        struct address address;
    } waiting[ROOM];
    struct listener *next;
};

static struct listener *listeners;
/* Of listeners that nobody has any more: the library may have accepted them before. */
static struct address former[64];
static int former_count;
static unsigned names; /* of Unix sockets, in the abstract space */

/* Each target for each family, and what keeps it. */
static struct {
    bool is_made;
    struct address address[TARGETS];
    int fd[TARGETS], waiting;
} targets[2];

static void must(bool holds) {
    if (!holds) abort();
}

/* The library's own descriptors have the low numbers. */
static int make(bool is_local) { return file_away(socket(is_local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

static void name(int fd, bool is_local, struct address *address) {
    if (is_local) {
        struct sockaddr_un own = {.sun_family = AF_UNIX};
        int length = snprintf(own.sun_path + 1, sizeof own.sun_path - 1, "descriptors-test %d %u", (int)getpid(), ++names);
        must(bind(fd, (struct sockaddr *)&own, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
    } else {
        struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        must(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    }
    address->length = sizeof address->bytes;
    must(getsockname(fd, (struct sockaddr *)&address->bytes, &address->length) == 0);
}

static int connect_to(int fd, const struct address *to) { return connect(fd, (const struct sockaddr *)&to->bytes, to->length); }

/* A client with a name, by which it is known again; -1: it was not connected at once. */
static int client_make(bool is_local, const struct address *to, struct address *own) {
    int fd = make(is_local);
    name(fd, is_local, own);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (connect_to(fd, to) != 0 && (is_local || poll(&ready, 1, 1000) != 1)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- listeners */

struct listener *listener_open(int *fd, bool is_local) {
    struct listener *listener = calloc(1, sizeof *listener);
    listener->is_local = is_local;
    *fd = make(is_local);
    name(*fd, is_local, &listener->address);
    must(listen(*fd, 2 * ROOM) == 0);
    listener->next = listeners;
    listeners = listener;
    return listener;
}

static void reset(int fd) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

static void forget(struct listener *listener, int index) {
    if (listener->waiting[index].fd >= 0) reset(listener->waiting[index].fd);
    memmove(&listener->waiting[index], &listener->waiting[index + 1], (size_t)(--listener->count - index) * sizeof listener->waiting[0]);
}

void listener_free(struct listener *listener) {
    struct listener **place = &listeners;
    while (*place != listener) place = &(*place)->next;
    *place = listener->next;
    while (listener->count > 0) {
        former[former_count++ % 64] = listener->waiting[0].address;
        forget(listener, 0);
    }
    free(listener);
}

void listener_knock(struct listener *listener, int count) {
    for (; count > 0 && listener->count < ROOM; count--) {
        struct client *client = &listener->waiting[listener->count];
        client->fd = client_make(listener->is_local, &listener->address, &client->address);
        must(client->fd >= 0);
        listener->count++;
    }
}

void listener_leave(struct listener *listener) {
    for (int i = 0; i < listener->count; i++)
        if (listener->waiting[i].fd >= 0) {
            reset(listener->waiting[i].fd);
            listener->waiting[i].fd = -1;
            return;
        }
}

static bool is_address(const struct address *own, const void *bytes, long length) {
    return own->length == length && memcmp(&own->bytes, bytes, (size_t)length) == 0;
}

static bool forget_client(const void *address, long length) {
    for (struct listener *listener = listeners; listener; listener = listener->next)
        for (int i = 0; i < listener->count; i++)
            if (is_address(&listener->waiting[i].address, address, length)) {
                forget(listener, i);
                return true;
            }
    for (int i = 0; i < former_count && i < 64; i++)
        if (is_address(&former[i], address, length)) {
            former[i].length = 0;
            return true;
        }
    return false;
}

bool connection_told(int fd, const void *address, long length) {
    int mode = fcntl(fd, F_GETFL), flags = fcntl(fd, F_GETFD);
    close(fd);
    /* S-SOCK-71. */
    return forget_client(address, length) && !(mode & O_NONBLOCK) && flags & FD_CLOEXEC;
}

bool listener_take_all(struct listener *listener, int fd) {
    struct address from = {.length = sizeof from.bytes};
    bool is_known = true;
    for (int taken; (taken = accept4(fd, (struct sockaddr *)&from.bytes, &from.length, SOCK_CLOEXEC)) >= 0;
         from.length = sizeof from.bytes) {
        is_known = forget_client(&from.bytes, from.length) && is_known;
        close(taken);
    }
    return is_known && listener->count == 0;
}

/* ---- connecting */

static void make_targets(bool is_local) {
    if (targets[is_local].is_made) return;
    targets[is_local].is_made = true;
    for (int i = 0; i < TARGETS; i++) {
        int fd = targets[is_local].fd[i] = make(is_local);
        name(fd, is_local, &targets[is_local].address[i]);
        if (i != TARGET_REFUSES) must(listen(fd, i == TARGET_OPEN ? 16 : 0) == 0);
    }
    struct address unused;
    targets[is_local].waiting = client_make(is_local, &targets[is_local].address[TARGET_FULL], &unused);
}

const struct address *connection_target(bool is_local, enum target target) {
    make_targets(is_local);
    return &targets[is_local].address[target];
}

int connection_peer(bool is_local) {
    make_targets(is_local);
    struct pollfd ready = {.fd = targets[is_local].fd[TARGET_OPEN], .events = POLLIN};
    must(poll(&ready, 1, 1000) == 1);
    int on = 1, peer = file_away(accept4(ready.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    /* What it sends is there when it is sent. */
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return peer;
}

int connection_none(bool is_local) { return make(is_local); }

void connection_make(int ends[2]) {
    struct address unused;
    ends[0] = client_make(false, connection_target(false, TARGET_OPEN), &unused);
    must(ends[0] >= 0);
    ends[1] = connection_peer(false);
}

void connections_close(void) {
    former_count = 0;
    for (int family = 0; family < 2; family++) {
        if (!targets[family].is_made) continue;
        for (int i = 0; i < TARGETS; i++) close(targets[family].fd[i]);
        if (targets[family].waiting >= 0) close(targets[family].waiting);
        targets[family].is_made = false;
    }
}
