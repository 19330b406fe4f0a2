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

/* The most threads at a time, of all processes and for one of them. One that keeps some waiting each time it is asked comes to an end with this, and
 * takes none from the others. */
enum { MOST_THREADS = 1000, MOST_OF_PROCESS = 64, PART = 65536, STACK = 256 << 10 };
static pthread_mutex_t thread_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by `thread_lock`: the process of each thread, in any order. */
static int threads[MOST_THREADS];
static int thread_count;
/* Guarded by `thread_lock`: to be closed by the next thread of the process that has nothing else to do. */
static peer_connection *left_open;

struct peer_connection {
    int descriptor, process;
    /* The owner, and a thread that receives. */
    atomic_int references;
    peer_connection *next;
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

static bool take_place(int process) {
    int count = 0;
    pthread_mutex_lock(&thread_lock);
    for (int place = 0; place < thread_count; place++) count += threads[place] == process;
    const bool has_place = thread_count < MOST_THREADS && count < MOST_OF_PROCESS;
    if (has_place) threads[thread_count++] = process;
    pthread_mutex_unlock(&thread_lock);
    return has_place;
}

int peer_connections_kept(int process) {
    int count = 0;
    pthread_mutex_lock(&thread_lock);
    for (int place = 0; place < thread_count; place++) count += threads[place] == process;
    for (const peer_connection *each = left_open; each; each = each->next) count += each->process == process;
    pthread_mutex_unlock(&thread_lock);
    return count;
}

/* With `thread_lock` held. */
static void give_up_place(int process) {
    int place = 0;
    while (threads[place] != process) place++;
    threads[place] = threads[--thread_count];
}

/* Leaves it, but not while a connection of the process is to be closed. */
static peer_connection *leave_place(int process) {
    pthread_mutex_lock(&thread_lock);
    peer_connection **link = &left_open, *next;
    while (*link && (*link)->process != process) link = &(*link)->next;
    next = *link;
    if (next) {
        *link = next->next;
    } else {
        give_up_place(process);
    }
    pthread_mutex_unlock(&thread_lock);
    return next;
}

/* The program's signals are for its first thread, which reads keys. The thread leaves its place itself. */
static bool start(int process, void *(*body)(void *), void *argument) {
    if (!take_place(process)) return false;
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
    if (!starts) {
        pthread_mutex_lock(&thread_lock);
        give_up_place(process);
        pthread_mutex_unlock(&thread_lock);
    }
    return starts;
}

peer_connection *peer_connection_make(int descriptor, int process) {
    peer_connection *self = malloc(sizeof *self);
    if (self) *self = (peer_connection){descriptor, process, 1, NULL};
    return self;
}

int peer_connection_descriptor(const peer_connection *self) { return self->descriptor; }

static bool is_last_release(peer_connection *self) { return atomic_fetch_sub(&self->references, 1) == 1; }

/* And those of the process that wait for that. */
static void *close_connection(void *argument) {
    peer_connection *self = argument;
    const int process = self->process;
    do {
        close(self->descriptor);
        free(self);
    } while ((self = leave_place(process)));
    return NULL;
}

/* Of an end that no longer receives nothing can come into the queue. */
static bool is_empty(const peer_connection *self) {
    char byte;
    shutdown(self->descriptor, SHUT_RDWR);
    return recv(self->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* With something in its queue and without a thread the connection stays open until another one of the process ends, or the program. */
void peer_connection_release(peer_connection *self) {
    if (!is_last_release(self)) return;
    if (is_empty(self)) {
        close(self->descriptor);
        free(self);
        return;
    }
    if (start(self->process, close_connection, self)) return;
    pthread_mutex_lock(&thread_lock);
    self->next = left_open;
    left_open = self;
    pthread_mutex_unlock(&thread_lock);
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
    const int process = connection->process;
    if (!is_last_release(connection)) connection = leave_place(process);
    return connection ? close_connection(connection) : NULL;
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
    if (start(connection->process, receive, self)) return self;
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
