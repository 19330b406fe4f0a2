/* SPDX-License-Identifier: MIT */
/* Sockets for tests: each records its name and what it was called for. */
#ifndef RUNLOOP_TESTS_SUPPORT_SOCKET_H
#define RUNLOOP_TESTS_SUPPORT_SOCKET_H

#include "support.h"

#include <netinet/in.h>
#include <sys/un.h>

typedef struct Socket Socket;
struct Socket {
    const char *name; /* records "name:read", ":accept", ":data=5", ":connect", ":connect=111",
                         ":write" or ":write=32" */
    void (*action)(Socket *self, RLSocketCallBackType type); /* called last; may be NULL */
    void *data;                                              /* for the action */
    bool brackets; /* retain and release record "+name" and "-name"; else they only count */
    RLSocketRef socket;
    RLSourceRef source;    /* not owned, good while it is in a loop */
    int accepted;          /* the last new descriptor */
    char received[70000];  /* the bytes of the last Data callback, and their number */
    size_t length;
    unsigned char address[128]; /* the address of the last callback; -1 for NULL */
    long address_length;
    int calls, retains, releases; /* read with count_of from other threads */
    pthread_t thread;
};

void report_socket(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data,
                   void *info);
RLSocketContext socket_context(Socket *socket);
/* Each makes the object, of a descriptor or of a new one; the caller owns it. */
RLSocketRef socket_make(Socket *socket, int fd, RLOptionFlags types);
RLSocketRef socket_create(Socket *socket, int family, int type, RLOptionFlags types);
/* Puts its source into the current loop's default mode. */
void socket_add(Socket *socket);

struct sockaddr_in loopback(int port);
int port_of(int fd);
/* A TCP socket that listens on the loopback interface; made without the library. */
int make_listener(void);
/* A port on which nobody listens. */
int refused_port(void);
/* A blocking TCP connection to a port, made without the library. */
int connect_to(int port);
/* Both ends of a TCP connection. */
void make_connection(int ends[2]);
/* A connected pair of Unix sockets. */
void make_sockets(int type, int ends[2]);
struct sockaddr_un unix_address(void);

#endif
