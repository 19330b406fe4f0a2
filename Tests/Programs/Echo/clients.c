/* SPDX-License-Identifier: MIT */
/*
 * The clients of an echo server: `clients PORT COUNT PID`. One sends and never reads, one sends without end, and COUNT others
 * talk to the server meanwhile, all connected at the same time; none may wait for the first two. Then all bytes that were sent
 * must come back, and after a SIGTERM for the process PID each connection must end in order, and the process too, though one more
 * client never reads.
 * It ends with 1 and a line if anything is wrong. Nothing here depends on a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 3, LINE = 64, PORTION = 65536 };

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("clients: ", stdout);
    vprintf(format, arguments);
    printf(" (%s)\n", strerror(errno));
    exit(1);
}

static int connect_to(int port, int room) {
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* Little room, so that the server has to queue. */
    if (room > 0) setsockopt(client, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (connect(client, (struct sockaddr *)&address, sizeof address) != 0) fail("cannot connect");
    fcntl(client, F_SETFL, O_NONBLOCK);
    return client;
}

/* A stream whose bytes tell their places. */
struct stream {
    int socket;
    size_t sent, received;
    bool ended;
};

static unsigned char byte_at(size_t place) { return (unsigned char)(place * 2654435761u >> 13); }

/* Sends what goes. False if nothing went. */
static bool send_some(struct stream *stream) {
    static unsigned char bytes[PORTION];
    for (size_t i = 0; i < PORTION; i++) bytes[i] = byte_at(stream->sent + i);
    ssize_t count = send(stream->socket, bytes, PORTION, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) fail("cannot send after %zu bytes", stream->sent);
    if (count > 0) stream->sent += (size_t)count;
    return count > 0;
}

/* Reads what is there and compares it. False if nothing was. */
static bool receive_some(struct stream *stream) {
    static unsigned char bytes[PORTION];
    ssize_t count = recv(stream->socket, bytes, PORTION, 0);
    if (count < 0 && errno != EAGAIN) fail("cannot receive after %zu of %zu bytes", stream->received, stream->sent);
    stream->ended = count == 0;
    for (ssize_t i = 0; i < count; i++)
        if (bytes[i] != byte_at(stream->received + (size_t)i)) fail("byte %zu is another", stream->received + (size_t)i);
    if (count > 0) stream->received += (size_t)count;
    return count > 0;
}

static void wait_for(int socket, short events) {
    struct pollfd request = {socket, events, 0};
    poll(&request, 1, -1);
}

/* Sends until the server has read no more for a while: it is waiting for this client. */
static void fill(struct stream *stream) {
    struct pollfd request = {stream->socket, POLLOUT, 0};
    while (send_some(stream) || poll(&request, 1, 100) > 0) {}
}

/* All that was sent comes back, then the end. */
static void take_all(struct stream *stream, const char *name, bool all) {
    while (!stream->ended)
        if (!receive_some(stream)) wait_for(stream->socket, POLLIN);
    if (all ? stream->received != stream->sent : stream->received > stream->sent)
        fail("%s: %zu of %zu bytes came back", name, stream->received, stream->sent);
    printf("%s: %zu of %zu bytes came back\n", name, stream->received, stream->sent);
    close(stream->socket);
}

struct client {
    int socket, round, received;
};

static void write_line(char line[LINE + 1], int client, int round) {
    memset(line, '.', LINE);
    line[snprintf(line, LINE, "client %d, round %d", client, round)] = ' ';
    line[LINE - 1] = '\n';
}

static void send_line(struct client *clients, int client) {
    char line[LINE + 1];
    write_line(line, client, clients[client].round);
    if (send(clients[client].socket, line, LINE, MSG_NOSIGNAL) != LINE) fail("client %d cannot send", client);
}

/* Every client has sent a line. Answers until all have had ROUNDS answers, while the flooder goes on. */
static void talk(struct client *clients, int count, int epoll, struct stream *flooder) {
    for (int left = count; left > 0;) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, 0);
        for (int i = 0; i < ready; i++) {
            int number = (int)events[i].data.u32;
            struct client *client = &clients[number];
            char line[LINE + 1], answer[LINE];
            ssize_t length = recv(client->socket, answer, (size_t)(LINE - client->received), 0);
            if (length <= 0) fail("client %d gets no answer", number);
            write_line(line, number, client->round);
            if (memcmp(line + client->received, answer, (size_t)length) != 0) fail("client %d gets another answer", number);
            client->received += (int)length;
            if (client->received < LINE) continue;
            client->received = 0;
            if (++client->round < ROUNDS) send_line(clients, number);
            else left--;
        }
        send_some(flooder);
        receive_some(flooder);
    }
}

int main(int argument_count, char **arguments) {
    if (argument_count != 4) return 2;
    int port = atoi(arguments[1]), count = atoi(arguments[2]);
    pid_t server = atoi(arguments[3]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if ((rlim_t)count + 64 > limit.rlim_max) count = (int)limit.rlim_max - 64;

    struct stream silent = {.socket = connect_to(port, 4096)}, late = {.socket = connect_to(port, 4096)};
    struct stream deaf = {.socket = connect_to(port, 4096)}, flooder = {.socket = connect_to(port, 0)};
    fill(&silent);
    struct client *clients = calloc((size_t)count, sizeof *clients);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < count; i++) {
        clients[i].socket = connect_to(port, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].socket, &event);
        send_line(clients, i);
        send_some(&flooder);
        receive_some(&flooder);
    }
    talk(clients, count, epoll, &flooder);
    printf("%d clients had %d answers each, while one did not read and one flooded\n", count, ROUNDS);

    shutdown(flooder.socket, SHUT_WR);
    take_all(&flooder, "flooder", true);
    shutdown(silent.socket, SHUT_WR);
    take_all(&silent, "silent client", true);

    /* The server ends while it has queued bytes for one client, which it has sent more than the server has read. */
    fill(&late);
    fill(&deaf);
    int end = (int)syscall(SYS_pidfd_open, server, 0);
    kill(server, SIGTERM);
    for (int i = 0; i < count; i++) {
        char byte;
        wait_for(clients[i].socket, POLLIN);
        if (recv(clients[i].socket, &byte, 1, 0) != 0) fail("client %d gets no end", i);
        close(clients[i].socket);
    }
    take_all(&late, "late client", false);
    if (end >= 0) wait_for(end, POLLIN);
    close(deaf.socket);
    puts("all ends in order");
    free(clients);
    return 0;
}
