/* SPDX-License-Identifier: MIT */
/* The clients of an echo server, in a process of their own: `load PORT CONNECTIONS SECONDS PID`. Each connection has one request of 64
 * bytes under way and sends the next when the answer is there. Prints requests, seconds, the server's processor seconds, and the
 * median and the 99th percentile of the time of a request in µs. The first fifth of the time is not counted. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Times in steps of a 32nd of a power of two. */
enum { LENGTH = 64, STEPS = 32, BUCKETS = 64 * STEPS };

struct client {
    int socket, received;
    int64_t begun;
};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

static double processor_seconds(int process) {
    char path[64];
    unsigned long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", process);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &ns) != 1) ns = 0;
    if (file) fclose(file);
    return (double)ns / 1e9;
}

static int bucket_of(int64_t time) {
    if (time < STEPS) return (int)time;
    int power = 63 - __builtin_clzll((unsigned long long)time);
    return (power - 4) * STEPS + (int)(time >> (power - 5)) - STEPS;
}

static double time_of(int bucket) {
    if (bucket < STEPS) return bucket;
    int power = bucket / STEPS + 4;
    return (double)(STEPS + bucket % STEPS) * (double)(1LL << (power - 5));
}

static void ask(struct client *client) {
    static const char request[LENGTH];
    client->begun = now();
    if (send(client->socket, request, LENGTH, MSG_NOSIGNAL) != LENGTH) {
        perror("load: send");
        exit(1);
    }
}

int main(int argument_count, char **arguments) {
    if (argument_count != 5) return 2;
    int port = atoi(arguments[1]), count = atoi(arguments[2]), process = atoi(arguments[4]);
    double seconds = atof(arguments[3]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    struct client *clients = calloc((size_t)count, sizeof *clients);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; i++) {
        int yes = 1;
        clients[i].socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(clients[i].socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        /* The server may not listen yet. */
        while (connect(clients[i].socket, (struct sockaddr *)&address, sizeof address) != 0) {
            if (errno != ECONNREFUSED) return perror("load: connect"), 1;
            usleep(1000);
        }
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].socket, &event);
    }
    static uint64_t counts[BUCKETS];
    uint64_t requests = 0;
    int64_t start = now(), begin = start + (int64_t)(seconds * 0.2e9), end = start + (int64_t)(seconds * 1e9), time = start;
    double processor = 0;
    int counting = 0;
    for (int i = 0; i < count; i++) ask(&clients[i]);
    while (time < end) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, 1000);
        for (int i = 0; i < ready; i++) {
            struct client *client = &clients[events[i].data.u32];
            char bytes[LENGTH];
            ssize_t length = recv(client->socket, bytes, (size_t)(LENGTH - client->received), 0);
            if (length <= 0) return perror("load: recv"), 1;
            if ((client->received += (int)length) < LENGTH) continue;
            client->received = 0;
            time = now();
            if (counting) {
                counts[bucket_of(time - client->begun)]++;
                requests++;
            }
            ask(client);
        }
        if (ready <= 0) time = now();
        if (!counting && time >= begin) {
            counting = 1;
            begin = time;
            processor = processor_seconds(process);
        }
    }
    processor = processor_seconds(process) - processor;
    double percentiles[2] = {0, 0};
    const double parts[2] = {0.5, 0.99};
    for (int p = 0; p < 2; p++) {
        uint64_t sum = 0;
        for (int i = 0; i < BUCKETS; i++) {
            sum += counts[i];
            if ((double)sum >= parts[p] * (double)requests) {
                percentiles[p] = time_of(i) / 1000;
                break;
            }
        }
    }
    printf("%llu %.3f %.3f %.1f %.1f\n", (unsigned long long)requests, (double)(time - begin) / 1e9, processor, percentiles[0], percentiles[1]);
    return 0;
}
