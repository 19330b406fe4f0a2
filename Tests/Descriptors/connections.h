/* SPDX-License-Identifier: MIT */
/* Connections that wait at the files that listen, each with its client, and places to connect to. */
#ifndef DESCRIPTORS_CONNECTIONS_H
#define DESCRIPTORS_CONNECTIONS_H

#include <stdbool.h>
#include <sys/socket.h>

struct listener;

/* Where a connect goes: to one that listens, to nobody, and to one that has no room, so that the connect does not end. */
enum target { TARGET_OPEN, TARGET_REFUSES, TARGET_FULL, TARGETS };

struct address {
    struct sockaddr_storage bytes;
    socklen_t length;
};

/* Makes a descriptor that listens. */
struct listener *listener_open(int *fd, bool is_local);
/* No number names it any more. */
void listener_free(struct listener *listener);
/* So many clients connect, as long as there is room. */
void listener_knock(struct listener *listener, int count);
/* The client of the oldest connection resets it. */
void listener_leave(struct listener *listener);
/* The program itself accepts all. False: there was one that is not known, or too few. */
bool listener_take_all(struct listener *listener, int fd);

/* The library has accepted a connection, which is closed here. False: no client made it, or it was told before. */
bool connection_told(int fd, const void *address, long length);

/* Two ends of a TCP connection. */
void connection_make(int ends[2]);
/* A descriptor of the kind that the targets are for. */
int connection_none(bool is_local);
const struct address *connection_target(bool is_local, enum target target);
/* After a connect to TARGET_OPEN: the peer's descriptor. */
int connection_peer(bool is_local);
void connections_close(void);

#endif
