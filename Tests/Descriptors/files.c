/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "files.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static struct file *named[NUMBERS];

struct file *file_of(int number) { return named[number]; }

static void must(bool holds) {
    if (!holds) abort();
}

static int move(int fd, int number) {
    must(fd >= 0 && dup3(fd, number, O_CLOEXEC) == number);
    close(fd);
    return number;
}

/* Peers are kept away from low numbers, which the library's own descriptors may take. */
static int away(int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_NUMBER + NUMBERS);
    must(moved >= 0);
    close(fd);
    return moved;
}

static void make(int ends[2], enum file_kind kind) {
    int small = 4096;
    ends[0] = ends[1] = -1;
    switch (kind) {
    case PIPE_READ:
    case PIPE_WRITE:
        must(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
        fcntl(ends[1], F_SETPIPE_SZ, small);
        if (kind == PIPE_WRITE) {
            int reader = ends[0];
            ends[0] = ends[1];
            ends[1] = reader;
        }
        break;
    case STREAM:
    case DATAGRAM:
        must(socketpair(AF_UNIX, (kind == STREAM ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        break;
    case COUNTER:
        ends[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        break;
    default:
        ends[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
}

static void drop(struct file *file) {
    if (!file || --file->names > 0) return;
    if (file->peer >= 0) close(file->peer);
    free(file);
}

void file_open(int number, enum file_kind kind) {
    int ends[2];
    struct file *file = calloc(1, sizeof *file), *old = named[number];
    make(ends, kind);
    file->kind = kind;
    file->peer = ends[1] >= 0 ? away(ends[1]) : -1;
    file->names = 1;
    move(ends[0], FIRST_NUMBER + number);
    named[number] = file;
    drop(old);
}

void file_close(int number) {
    if (!named[number]) return;
    close(FIRST_NUMBER + number);
    drop(named[number]);
    named[number] = NULL;
}

void file_dup(int number, int from) {
    if (named[number] || !named[from]) return;
    must(dup3(FIRST_NUMBER + from, FIRST_NUMBER + number, O_CLOEXEC) >= 0);
    named[number] = named[from];
    named[number]->names++;
}

void files_open_all(const struct program *program) {
    for (int i = 0; i < NUMBERS; i++) file_open(i, program->file[i]);
}

void files_close_all(void) {
    for (int i = 0; i < NUMBERS; i++) file_close(i);
}

void file_put(int number, int count) {
    struct file *file = named[number];
    if (!file) return;
    if (file->kind == COUNTER) {
        uint64_t more = (uint64_t)count;
        if (write(FIRST_NUMBER + number, &more, sizeof more) == sizeof more) file->count += more;
    } else if (file->kind != PIPE_WRITE && file->peer >= 0) {
        static const char bytes[3];
        ssize_t unused = file->kind == PIPE_READ ? write(file->peer, bytes, (size_t)count)
                                                 : send(file->peer, bytes, (size_t)count, MSG_NOSIGNAL);
        (void)unused;
    }
}

static void read_all(int fd) {
    char bytes[4096];
    for (int i = 0; i < 1000 && read(fd, bytes, sizeof bytes) > 0; i++) continue;
}

void file_drain(int number) {
    struct file *file = named[number];
    if (!file || file->kind == PIPE_WRITE || file->kind == NULL_DEVICE) return;
    read_all(FIRST_NUMBER + number);
    file->count = 0;
}

void file_fill(int number) {
    struct file *file = named[number];
    static const char bytes[2048];
    if (!file || file->peer < 0) return;
    if (file->kind == PIPE_WRITE)
        while (write(FIRST_NUMBER + number, bytes, sizeof bytes) > 0) continue;
    if (file->kind == STREAM || file->kind == DATAGRAM)
        while (send(FIRST_NUMBER + number, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) continue;
}

void file_peer_drain(int number) {
    struct file *file = named[number];
    if (file && file->peer >= 0 && file->kind != PIPE_READ) read_all(file->peer);
}

void file_peer_shut(int number) {
    struct file *file = named[number];
    if (!file || file->peer < 0) return;
    if (file->kind == STREAM) shutdown(file->peer, SHUT_WR);
}

void file_shut(int number) {
    struct file *file = named[number];
    if (file && file->kind == STREAM) shutdown(FIRST_NUMBER + number, SHUT_RDWR);
}

void file_peer_close(int number) {
    struct file *file = named[number];
    if (!file || file->peer < 0) return;
    close(file->peer);
    file->peer = -1;
}

int file_ready(int number) {
    if (!named[number]) return 0;
    struct pollfd asked = {.fd = FIRST_NUMBER + number, .events = POLLIN | POLLOUT};
    if (poll(&asked, 1, 0) < 0) return 0;
    return (asked.revents & (POLLIN | POLLHUP | POLLERR) ? READ : 0) | (asked.revents & (POLLOUT | POLLERR) ? WRITE : 0);
}
