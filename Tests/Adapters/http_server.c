/* SPDX-License-Identifier: MIT */
/*
 * A small HTTP server on loopback, which prints its port. A thread for each connection, which it keeps open.
 *
 *   /bytes/N   an answer of N bytes
 *   /half/N    half of it, then silence
 *   /cut/N     half of it, then the connection is reset
 *   /silence   no answer
 *   /flood     an answer without end
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[65536];

static bool send_bytes(int connection, long count) {
    while (count > 0) {
        ssize_t sent = send(connection, bytes, count < (long)sizeof bytes ? (size_t)count : sizeof bytes, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        count -= sent;
    }
    return true;
}

/* Reads on, without an answer, until the client goes. */
static bool keep_silent(int connection) {
    while (recv(connection, bytes, 1, 0) > 0);
    return false;
}

static bool answer(int connection, const char *path) {
    char head[128];
    const char *number = strchr(path + 1, '/');
    long count = number ? atol(number + 1) : 0;
    bool is_flood = strncmp(path, "/flood", 6) == 0;
    if (strncmp(path, "/silence", 8) == 0) return keep_silent(connection);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", is_flood ? 1L << 50 : count);
    send(connection, head, strlen(head), MSG_NOSIGNAL);
    if (is_flood) return send_bytes(connection, 1L << 50);
    if (strncmp(path, "/bytes/", 7) == 0) return send_bytes(connection, count);
    if (!send_bytes(connection, count / 2)) return false;
    if (strncmp(path, "/half/", 6) == 0) return keep_silent(connection);
    struct linger reset = {1, 0};
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

static void *serve(void *info) {
    int connection = (int)(long)info;
    char request[4096], path[256];
    size_t length = 0;
    for (;;) {
        ssize_t count = recv(connection, request + length, sizeof request - 1 - length, 0);
        if (count <= 0) break;
        request[length += (size_t)count] = 0;
        char *end = strstr(request, "\r\n\r\n");
        if (!end) continue;
        if (sscanf(request, "%*s %255s", path) != 1 || !answer(connection, path)) break;
        length -= (size_t)(end + 4 - request);
        memmove(request, end + 4, length + 1);
    }
    close(connection);
    return NULL;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1024) != 0) return perror("http_server"), 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("listening on %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        pthread_t thread;
        int connection = accept(listener, NULL, NULL);
        if (connection >= 0 && pthread_create(&thread, NULL, serve, (void *)(long)connection) == 0) pthread_detach(thread);
    }
}
