/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "model.h"
#include "outcome.h"
#include "system_calls.h"

static struct file *named[NUMBERS];
static bool is_given_up[NUMBERS];
static bool is_starving;

struct file *file_of(int number) { return named[number]; }

bool file_is_connection(const struct file *file) { return file->kind == STREAM || file->kind == TCP || file->kind == RECORDS; }

bool file_is_stream(const struct file *file) {
    return file_is_connection(file) || file->kind == UNCONNECTED || file->kind == LOCAL_UNCONNECTED;
}

bool file_is_socket(const struct file *file) { return file->listener || file->kind == DATAGRAM || file_is_stream(file); }

static void must(bool holds) {
    if (!holds) abort();
}

static bool has_peer(int fd) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
}

static int move(int fd, int number) {
    must(fd >= 0 && dup3(fd, number, O_CLOEXEC) == number);
    close(fd);
    return number;
}

int file_away(int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_NUMBER + NUMBERS);
    must(moved >= 0);
    close(fd);
    return moved;
}

static void make(struct file *file, int ends[2], enum file_kind kind) {
    int small = 4096, type = kind == STREAM ? SOCK_STREAM : kind == RECORDS ? SOCK_SEQPACKET : SOCK_DGRAM;
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
    case RECORDS:
    case DATAGRAM:
        must(socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        break;
    case COUNTER:
        ends[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        break;
    case TCP:
        connection_make(ends);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        break;
    case LISTENER:
    case LOCAL_LISTENER:
        file->listener = listener_open(&ends[0], kind == LOCAL_LISTENER);
        break;
    case UNCONNECTED:
    case LOCAL_UNCONNECTED:
        ends[0] = connection_none(kind == LOCAL_UNCONNECTED);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        break;
    default:
        ends[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
}

static void drop(struct file *file) {
    if (!file || --file->names > 0) return;
    if (file->peer >= 0) {
        /* Nothing of a connection is left behind. */
        struct linger linger = {.l_onoff = 1};
        setsockopt(file->peer, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        close(file->peer);
    }
    if (file->listener) listener_free(file->listener);
    free(file);
}

void file_open(int number, enum file_kind kind) {
    int ends[2];
    struct file *file = calloc(1, sizeof *file), *old = named[number];
    file->connect = -1;
    make(file, ends, kind);
    file->kind = kind;
    file->peer = ends[1] >= 0 ? file_away(ends[1]) : -1;
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

void file_forget(int number) {
    drop(named[number]);
    named[number] = NULL;
    is_given_up[number] = true;
}

bool files_are_closed(void) {
    for (int i = 0; i < NUMBERS; i++) {
        if (is_given_up[i] && fcntl(FIRST_NUMBER + i, F_GETFD) >= 0) return false;
        is_given_up[i] = false;
    }
    return true;
}

void file_dup(int number, int from) {
    if (named[number] || !named[from]) return;
    /* A socket that is being closed may have closed it. */
    if (dup3(FIRST_NUMBER + from, FIRST_NUMBER + number, O_CLOEXEC) < 0) return;
    named[number] = named[from];
    named[number]->names++;
}

void files_open_all(const struct program *program) {
    memset(is_given_up, 0, sizeof is_given_up);
    for (int i = 0; i < NUMBERS; i++) file_open(i, program->file[i]);
}

void files_close_all(void) {
    files_starve(false);
    for (int i = 0; i < NUMBERS; i++) file_close(i);
}

void file_put(int number, int count) {
    struct file *file = named[number];
    if (!file) return;
    if (file->kind == COUNTER) {
        uint64_t more = (uint64_t)count;
        if (write(FIRST_NUMBER + number, &more, sizeof more) == sizeof more) file->count += more;
    } else if (file->kind != PIPE_WRITE && file->peer >= 0) {
        static char bytes[PUT_SIZE];
        if (count == PUTS) count = file_is_connection(file) ? PUT_SIZE : PUTS;
        flow_make(&file->in, PROGRAM_SENDER, bytes, count);
        flow_sent(&file->in, PROGRAM_SENDER,
                  file->kind == PIPE_READ ? write(file->peer, bytes, (size_t)count) : send(file->peer, bytes, (size_t)count, MSG_NOSIGNAL));
    }
}

/* Reads all that has arrived. True: it ends there. */
static bool read_all(int fd, struct flow *flow, int number) {
    /* Of these some are empty, and no end. */
    bool has_messages = flow == &named[number]->in && (named[number]->kind == DATAGRAM || named[number]->kind == RECORDS);
    /* As long as the longest record. */
    static char bytes[PUT_SIZE];
    ssize_t count = -1;
    /* Of records a reset comes before what was sent until then. */
    for (int i = 0; i < 1000; i++) {
        count = read(fd, bytes, sizeof bytes);
        if (count == 0 ? !has_messages : count < 0 && !(i == 0 && errno == ECONNRESET)) break;
        if (!flow_received(flow, bytes, count) && !model_sleeps) disagree("number %d: bytes come in a wrong order, or from nowhere", number);
    }
    return count == 0;
}

void file_drain(int number) {
    struct file *file = named[number];
    if (!file || file->kind == PIPE_WRITE || file->kind == NULL_DEVICE) return;
    if (file->listener && !listener_take_all(file->listener, FIRST_NUMBER + number) && !is_starving && !model_sleeps)
        disagree("number %d: connections are lost, or come twice", number);
    if (file->listener) return;
    if (file->kind == COUNTER) {
        uint64_t unused;
        while (read(FIRST_NUMBER + number, &unused, sizeof unused) > 0) continue;
        file->count = 0;
    } else {
        read_all(FIRST_NUMBER + number, &file->in, number);
    }
}

void file_fill(int number) {
    struct file *file = named[number];
    char bytes[2048];
    if (!file || file->peer < 0) return;
    if (file->kind == COUNTER || file->kind == PIPE_READ) return;
    ssize_t count;
    do {
        flow_make(&file->out, PROGRAM_SENDER, bytes, sizeof bytes);
        count = file->kind == PIPE_WRITE ? write(FIRST_NUMBER + number, bytes, sizeof bytes)
                                         : send(FIRST_NUMBER + number, bytes, sizeof bytes, MSG_NOSIGNAL);
        flow_sent(&file->out, PROGRAM_SENDER, count);
    } while (count > 0);
}

void file_peer_drain(int number) {
    struct file *file = named[number];
    if (file && file->peer >= 0 && file->kind != PIPE_READ && read_all(file->peer, &file->out, number)) file->out_ended = true;
}

bool file_peer_take(int number) {
    struct file *file = named[number];
    struct pollfd arrives = {.fd = file->peer, .events = POLLIN};
    do file_peer_drain(number);
    while (flow_left(&file->out) > 0 && !file->out_ended && poll(&arrives, 1, file->kind == TCP ? 1000 : 0) > 0);
    return flow_left(&file->out) == 0;
}

void file_await_room(int number) {
    struct pollfd room = {.fd = FIRST_NUMBER + number, .events = POLLOUT};
    if (named[number]->kind == TCP) poll(&room, 1, 1000);
}

void file_peer_shut(int number) {
    struct file *file = named[number];
    if (!file || file->peer < 0) return;
    if (file_is_connection(file)) shutdown(file->peer, SHUT_WR), file->in_ends = true;
}

void file_shut(int number) {
    struct file *file = named[number];
    if (!file || !file_is_connection(file)) return;
    shutdown(FIRST_NUMBER + number, SHUT_RDWR);
    file->connect = MANY;
    file->in_ends = true;
    flow_is_lossy(&file->in);
    flow_is_lossy(&file->out);
}

void file_peer_close(int number) {
    struct file *file = named[number];
    if (!file || file->peer < 0) return;
    close(file->peer);
    file->peer = -1;
    file->connect = MANY;
    file->in_ends = true;
    /* A TCP end that is closed with something unread resets the connection; a send of datagrams to nobody drops what has arrived. */
    if (file->kind == TCP || file->kind == DATAGRAM) flow_is_lossy(&file->in);
}

void file_knock(int number, int count) {
    if (named[number] && named[number]->listener) listener_knock(named[number]->listener, count);
}

void file_leave(int number) {
    if (named[number] && named[number]->listener) listener_leave(named[number]->listener);
}

bool file_can_connect(int number) {
    return named[number] && (named[number]->kind == UNCONNECTED || named[number]->kind == LOCAL_UNCONNECTED);
}

void file_connect(int number, enum target target) {
    if (!file_can_connect(number)) return;
    const struct address *to = connection_target(named[number]->kind == LOCAL_UNCONNECTED, target);
    int unused = connect(FIRST_NUMBER + number, (const struct sockaddr *)&to->bytes, to->length);
    (void)unused;
    file_connect_begun(number, target);
}

void file_connect_begun(int number, enum target target) {
    struct file *file = named[number];
    file->connect = file->connect == -1 ? (int)target : MANY;
    if (!has_peer(FIRST_NUMBER + number)) return;
    file->peer = connection_peer(file->kind == LOCAL_UNCONNECTED);
    file->kind = file->kind == LOCAL_UNCONNECTED ? STREAM : TCP;
}

/* The library calls accept4 by syscall(2). */
static bool refuse_to_accept(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_accept4) return false;
    *result = -1;
    errno = EMFILE;
    return true;
}

void files_starve(bool is_so) {
    is_starving = is_so;
    hook_system_calls(is_so ? refuse_to_accept : NULL);
}

bool files_are_starving(void) { return is_starving; }

bool file_is_at_end(int number) {
    struct pollfd asked = {.fd = FIRST_NUMBER + number, .events = POLLRDHUP};
    int left = 0;
    if (!named[number] || named[number]->kind == DATAGRAM) return false;
    if (named[number]->kind != RECORDS) return true;
    return poll(&asked, 1, 0) != 0 && (ioctl(FIRST_NUMBER + number, FIONREAD, &left) != 0 || left == 0);
}

int file_ready(int number) {
    if (!named[number]) return 0;
    struct pollfd asked = {.fd = FIRST_NUMBER + number, .events = POLLIN | POLLOUT};
    if (poll(&asked, 1, 0) < 0) return 0;
    int ready = (asked.revents & (POLLIN | POLLHUP | POLLERR) ? READ : 0) | (asked.revents & (POLLOUT | POLLERR) ? WRITE : 0);
    /* S-SOCK-30. */
    if (ready & WRITE && ((asked.revents & (POLLHUP | POLLERR)) != POLLHUP || has_peer(FIRST_NUMBER + number))) ready |= CONNECT;
    return ready;
}
