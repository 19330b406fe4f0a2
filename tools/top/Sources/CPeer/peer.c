/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The most threads at a time. Processes that keep some waiting each time they are asked come to an end with this. */
enum { MOST_THREADS = 1000, PART = 65536, STACK = 256 << 10 };
static atomic_int threads;

struct peer_connection {
    int descriptor;
    /* The owner, and a thread that receives. */
    atomic_int references;
};

struct peer_answer {
    peer_connection *connection;
    double end;
    size_t limit;
    pthread_mutex_t lock;
    pthread_cond_t change;
    /* Of the receiving thread until `is_over`. */
    char *bytes;
    size_t count;
    bool is_whole;
    /* Guarded by `lock`. The thread and the one that asked: the later frees the answer. */
    bool is_over, is_left;
    char part[PART];
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The program's signals are for its first thread, which reads keys. */
static bool start(void *(*body)(void *), void *argument) {
    if (atomic_fetch_add(&threads, 1) >= MOST_THREADS) {
        atomic_fetch_sub(&threads, 1);
        return false;
    }
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const bool starts = pthread_create(&thread, &attributes, body, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!starts) atomic_fetch_sub(&threads, 1);
    return starts;
}

peer_connection *peer_connection_make(int descriptor) {
    peer_connection *self = malloc(sizeof *self);
    if (self) *self = (peer_connection){descriptor, 1};
    return self;
}

int peer_connection_descriptor(const peer_connection *self) { return self->descriptor; }

static bool is_last_release(peer_connection *self) { return atomic_fetch_sub(&self->references, 1) == 1; }

static void *close_connection(void *argument) {
    peer_connection *self = argument;
    close(self->descriptor);
    free(self);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

/* Without a thread the connection stays open until the end of the program. */
void peer_connection_release(peer_connection *self) {
    if (is_last_release(self) && !start(close_connection, self)) free(self);
}

static bool keep(peer_answer *self, const char *bytes, size_t count) {
    char *room = realloc(self->bytes, self->count + count + 1);
    if (!room) return false;
    memcpy(room + self->count, bytes, count);
    self->bytes = room;
    self->count += count;
    return true;
}

/* The time is looked at for each datagram: there may always be another. */
static void receive_until_end(peer_answer *self) {
    double rest;
    while (!self->is_whole && self->count < self->limit && (rest = self->end - now()) > 0) {
        struct pollfd entry = {self->connection->descriptor, POLLIN, 0};
        if (poll(&entry, 1, (int)(rest * 1000) + 1) <= 0) continue;
        const ssize_t count = recv(self->connection->descriptor, self->part, PART, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (count <= 0 || (*self->part != '+' && *self->part != '.') || !keep(self, self->part + 1, (size_t)count - 1)) return;
        self->is_whole = *self->part == '.';
    }
}

static void free_answer(peer_answer *self) {
    pthread_cond_destroy(&self->change);
    pthread_mutex_destroy(&self->lock);
    free(self->bytes);
    free(self);
}

static void *receive(void *argument) {
    peer_answer *self = argument;
    peer_connection *connection = self->connection;
    receive_until_end(self);
    pthread_mutex_lock(&self->lock);
    const bool is_left = self->is_left;
    self->is_over = true;
    pthread_cond_signal(&self->change);
    pthread_mutex_unlock(&self->lock);
    if (is_left) free_answer(self);
    if (is_last_release(connection)) return close_connection(connection);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

peer_answer *peer_answer_begin(peer_connection *connection, double end, size_t limit) {
    peer_answer *self = malloc(sizeof *self);
    if (!self) return NULL;
    self->connection = connection;
    self->end = end;
    self->limit = limit;
    self->bytes = NULL;
    self->count = 0;
    self->is_whole = self->is_over = self->is_left = false;
    pthread_mutex_init(&self->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->change, &attributes);
    pthread_condattr_destroy(&attributes);
    atomic_fetch_add(&connection->references, 1);
    if (start(receive, self)) return self;
    atomic_fetch_sub(&connection->references, 1);
    free_answer(self);
    return NULL;
}

void *peer_answer_finish(peer_answer *self, size_t *length) {
    const struct timespec end = {(time_t)self->end, (long)((self->end - (double)(time_t)self->end) * 1e9)};
    char *bytes = NULL;
    pthread_mutex_lock(&self->lock);
    while (!self->is_over && pthread_cond_timedwait(&self->change, &self->lock, &end) == 0) continue;
    const bool is_over = self->is_over;
    self->is_left = true;
    pthread_mutex_unlock(&self->lock);
    if (!is_over) return NULL;
    if (self->is_whole) {
        bytes = self->bytes;
        *length = self->count;
        self->bytes = NULL;
    }
    free_answer(self);
    return bytes;
}
