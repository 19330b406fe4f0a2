/* SPDX-License-Identifier: MIT */
/* What a server's sockets need from the kernel: sends that never wait, options, and the end of a connection. Nothing here is a
 * cancellation point, blocks, or raises SIGPIPE. */
#ifndef CLINUX_SOCKETS_H
#define CLINUX_SOCKETS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>

#include "CLinuxCalls.h"

/* Whether a call that moves bytes of a stream and has this result, a negative errno, may succeed later: there is nothing or no room, or the kernel has no
 * memory. Any other error ends the stream. */
bool rl_is_for_now(ssize_t result) __attribute__((visibility("hidden")));

/* One send of what the kernel has room for: how many bytes, or a negative errno. address may be NULL. */
ssize_t rl_send_now(int descriptor, const void *bytes, size_t length, const void *address, size_t address_length)
    __attribute__((visibility("hidden")));

/* Switches the options of `RLSocketOption`. 0, or the errno of the first that the kernel refuses. */
int rl_set_socket_options(int descriptor, unsigned long options, bool on) __attribute__((visibility("hidden")));

/* In the next three, is_local says that it is a Unix socket. Descriptors that its bytes bring and that nobody wants are closed without
 * waiting: the kernel would close them inside the call, and wait there for what lingers in one. It does where the process can have no more
 * descriptors. */

/* Whether a read that got no bytes is the end of a stream, and not an empty record of a connected socket (SOCK_SEQPACKET). Empty records right
 * before the end cannot be distinguished from it. */
bool rl_is_at_end(int descriptor) __attribute__((visibility("hidden")));

/* Takes what has arrived, or a portion of it, and discards it: how many bytes; 0 at the end of the stream and after an error that ends it; or, if
 * nothing could be taken for now, a negative errno: -EAGAIN if there was nothing. */
ssize_t rl_discard_input(int descriptor, bool is_local) __attribute__((visibility("hidden")));

/* Makes the close of the descriptor reset the connection, or neither do that nor wait (SO_LINGER). */
void rl_reset_at_close(int descriptor, bool on) __attribute__((visibility("hidden")));

/* What came with the bytes of rl_receive_with_descriptors. */
typedef struct rl_received {
    size_t count;
    bool lost_descriptors;
    bool has_credentials;
    int32_t process;
    uint32_t user;
    uint32_t group;
} rl_received;

/* Reads what is there: how many bytes, or a negative errno. All descriptors that came are put into the array, or, if one could
 * not be received or the array is too small, all are closed. received may be NULL: then all are. */
ssize_t rl_receive_with_descriptors(int descriptor, bool is_local, void *bytes, size_t capacity, int *descriptors,
                                    size_t room, rl_received *received) __attribute__((visibility("hidden")));

/* Here and below, addresses are what a struct sockaddr pointer points to. */

static inline int rl_sock_stream(void) { return SOCK_STREAM; }
static inline int rl_sock_dgram(void) { return SOCK_DGRAM; }

/* SOCK_STREAM and so on; -1: not a socket. */
static inline int rl_socket_type(int descriptor) {
    int type;
    socklen_t size = sizeof type;
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? type : -1;
}

static inline bool rl_socket_is_local(int descriptor) {
    int domain;
    socklen_t size = sizeof domain;
    return getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/* An urgent byte is read in its place: the kernel would drop it in the middle of a read, and wait there for what a descriptor that came with it
 * leaves. */
static inline void rl_socket_keep_urgent(int descriptor) {
    const int on = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

static inline int rl_socket_open(int family, int type, int protocol) {
    return socket(family, type | SOCK_CLOEXEC, protocol);
}

/* The pending error of the socket, which this clears. */
static inline int rl_socket_error(int descriptor) {
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : 0;
}

static inline bool rl_socket_has_peer(int descriptor) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return getpeername(descriptor, (struct sockaddr *)&address, &size) == 0 || errno != ENOTCONN;
}

/* Whether there is neither a connection nor a connect: no peer, and hung up without an error, or not writable yet. A connect that the first
 * bytes are to begin (TCP_FASTOPEN_CONNECT) has no peer yet, but is writable and not hung up. `believed` where poll refuses to say, and there
 * is no peer. */
bool rl_socket_is_unconnected(int descriptor, bool believed) __attribute__((visibility("hidden")));

/* What poll(2) says about these events, and about error and hang-up; below zero if it is refused, for instance with a limit of no descriptors. */
int rl_poll_now(int descriptor, int events) __attribute__((visibility("hidden")));
/* The same about writing. POLLOUT where it is refused. */
int rl_poll_writable(int descriptor) __attribute__((visibility("hidden")));

/* How many seconds a send may wait by the descriptor's own option. */
static inline double rl_send_limit(int descriptor) {
    struct timeval limit;
    socklen_t size = sizeof limit;
    if (getsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, &size) != 0 || (limit.tv_sec == 0 && limit.tv_usec == 0)) return 1e9;
    return (double)limit.tv_sec + (double)limit.tv_usec / 1e6;
}

/* Whether a connect is in progress. */
static inline bool rl_socket_is_connecting(int descriptor) {
    return rl_poll_writable(descriptor) == 0 && !rl_socket_has_peer(descriptor);
}

static inline int rl_bind(int descriptor, const void *address, size_t length) {
    return bind(descriptor, (const struct sockaddr *)address, (socklen_t)length);
}

/* 0, or an errno. */
static inline int rl_connect(int descriptor, const void *address, size_t length) {
    return rl_sys_connect(descriptor, (const struct sockaddr *)address, (socklen_t)length) == 0 ? 0 : errno;
}

static inline bool rl_is_nonblocking(int descriptor) {
    int mode = fcntl(descriptor, F_GETFL);
    return mode >= 0 && (mode & O_NONBLOCK) != 0;
}

/* The mode to be restored, or -1 if nothing was changed. */
static inline int rl_set_nonblocking(int descriptor) {
    int mode = fcntl(descriptor, F_GETFL);
    if (mode < 0 || (mode & O_NONBLOCK) != 0 || fcntl(descriptor, F_SETFL, mode | O_NONBLOCK) != 0) return -1;
    return mode;
}

static inline void rl_restore_mode(int descriptor, int mode) { fcntl(descriptor, F_SETFL, mode); }

/* Takes a connection without ever waiting for one, though another process may be faster. For that it leaves the socket in
 * non-blocking mode: the mode is that of all descriptors of the open file, and a thread or process that restored it would make
 * another one wait. Returns the new descriptor, which is close-on-exec, or -1. */
int rl_accept(int descriptor, struct sockaddr_storage *address, socklen_t *length) __attribute__((visibility("hidden")));

/* Whether an accept failed because there was no connection, or it was gone again: the next one may come at once. All other failures last, see
 * accept(2): no descriptor, a security module or a filter that forbids the call, a number that is not a listening socket. */
static inline bool rl_accepted_nothing(void) { return errno == EAGAIN || errno == ECONNABORTED; }

/* Reads what is already there. */
ssize_t rl_receive(int descriptor, bool is_local, void *bytes, size_t size, struct sockaddr_storage *address, socklen_t *length)
    __attribute__((visibility("hidden")));

/* One send, without SIGPIPE; address may be NULL. */
static inline ssize_t rl_send(int descriptor, const void *bytes, size_t length, const void *address, size_t address_length) {
    return rl_sys_sendto(
        descriptor, bytes, length, MSG_NOSIGNAL, (const struct sockaddr *)address, (socklen_t)address_length);
}

/* As poll(2); milliseconds beyond its range are capped. */
static inline int rl_wait_writable(int descriptor, int64_t milliseconds) {
    struct pollfd request = {descriptor, POLLOUT, 0};
    return rl_sys_poll(&request, 1, milliseconds > 1000000000 ? 1000000000 : (int)milliseconds);
}

#endif
