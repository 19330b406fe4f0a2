/* SPDX-License-Identifier: MIT */
/* What the echo servers share: where they listen, and their buffer. Each is a program of one thread that sends back what it reads.
 * The first argument is the port. */
#ifndef RUNLOOP_BENCH_SERVER_H
#define RUNLOOP_BENCH_SERVER_H

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVER_BACKLOG = 4096, SERVER_PORTION = 32768 };

static inline struct sockaddr_in server_address(int count, char **arguments) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(count > 1 ? atoi(arguments[1]) : 0))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A socket that listens and does not block. */
static inline int server_listen(int count, char **arguments) {
    struct sockaddr_in address = server_address(count, arguments);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, SERVER_BACKLOG) != 0) {
        perror("server");
        exit(1);
    }
    return listener;
}

static inline int server_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

/* One read and one write. False if the connection is over. The requests of the load are small and wait for their answers, so the
 * kernel always has room; a server for others would queue, as those do whose loop has a way for it. */
static inline bool server_echo(int connection) {
    static char bytes[SERVER_PORTION];
    ssize_t length = recv(connection, bytes, sizeof bytes, 0);
    if (length < 0 && errno == EAGAIN) return true;
    if (length <= 0) return false;
    if (send(connection, bytes, (size_t)length, MSG_NOSIGNAL) == length) return true;
    fputs("server: the kernel has no room\n", stderr);
    return false;
}

#endif
