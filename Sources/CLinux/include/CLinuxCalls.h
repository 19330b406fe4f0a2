/* SPDX-License-Identifier: MIT */
/* System calls that are not cancellation points (S-LOOP-20). Those of libc are, see pthreads(7): a thread that was cancelled in one would end with
 * locks of the library taken and records half written. syscall(2) makes the plain call, which also costs least: nothing is recorded before it or
 * checked after it. The core makes none of these calls through libc's functions; a test checks that.
 *
 * Each takes and returns the same as the function of its name in section 2 of the manual. EINTR is absorbed here where a call
 * that was interrupted has done nothing: a signal does not concern the caller. Waits return it, because what they wait for may
 * have changed. */
#ifndef CLINUX_CALLS_H
#define CLINUX_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Repeats a call for as long as signals interrupt it. */
#define RL_UNINTERRUPTED(type, ...)                          \
    type result;                                             \
    do {                                                     \
        result = (type)syscall(__VA_ARGS__);                 \
    } while (result < 0 && errno == EINTR);                  \
    return result

/* The number is free after it, whatever it returns; so it is never repeated. */
static inline int rl_sys_close(int descriptor) { return (int)syscall(SYS_close, descriptor); }

static inline ssize_t rl_sys_read(int descriptor, void *bytes, size_t length) {
    RL_UNINTERRUPTED(ssize_t, SYS_read, descriptor, bytes, length);
}

static inline ssize_t rl_sys_write(int descriptor, const void *bytes, size_t length) {
    RL_UNINTERRUPTED(ssize_t, SYS_write, descriptor, bytes, length);
}

static inline ssize_t rl_sys_pread(int descriptor, void *bytes, size_t length, off_t offset) {
    RL_UNINTERRUPTED(ssize_t, SYS_pread64, descriptor, bytes, length, offset);
}

static inline ssize_t rl_sys_pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    RL_UNINTERRUPTED(ssize_t, SYS_pwrite64, descriptor, bytes, length, offset);
}

/* At the file's own position. Where the call is not available, as with epoll_pwait2 below, the error is EOPNOTSUPP, as from libc. */
static inline ssize_t rl_sys_preadv2(int descriptor, const struct iovec *parts, int count, int flags) {
    ssize_t result;
    do {
        result = (ssize_t)syscall(SYS_preadv2, descriptor, parts, count, -1L, -1L, flags);
    } while (result < 0 && errno == EINTR);
    if (result < 0 && (errno == ENOSYS || errno == EPERM)) errno = EOPNOTSUPP;
    return result;
}

static inline int rl_sys_openat(int folder, const char *path, int flags, mode_t mode) {
    RL_UNINTERRUPTED(int, SYS_openat, folder, path, flags, mode);
}

static inline ssize_t rl_sys_sendmsg(int socket, const struct msghdr *message, int flags) {
    RL_UNINTERRUPTED(ssize_t, SYS_sendmsg, socket, message, flags);
}

static inline ssize_t rl_sys_recvmsg(int socket, struct msghdr *message, int flags) {
    RL_UNINTERRUPTED(ssize_t, SYS_recvmsg, socket, message, flags);
}

static inline ssize_t rl_sys_sendto(int socket, const void *bytes, size_t length, int flags,
                                    const struct sockaddr *address, socklen_t size) {
    RL_UNINTERRUPTED(ssize_t, SYS_sendto, socket, bytes, length, flags, address, size);
}

static inline ssize_t rl_sys_recvfrom(int socket, void *bytes, size_t length, int flags,
                                      struct sockaddr *address, socklen_t *size) {
    RL_UNINTERRUPTED(ssize_t, SYS_recvfrom, socket, bytes, length, flags, address, size);
}

static inline int rl_sys_accept4(int socket, struct sockaddr *address, socklen_t *size, int flags) {
    RL_UNINTERRUPTED(int, SYS_accept4, socket, address, size, flags);
}

/* EINTR: the connect goes on, or, for a local socket, was not begun. */
static inline int rl_sys_connect(int socket, const struct sockaddr *address, socklen_t size) {
    return (int)syscall(SYS_connect, socket, address, size);
}

/* Milliseconds as for poll(2), negative for no end. A call with 0, which only looks, is repeated: the kernel would report a signal
 * even for that. */
int rl_sys_poll(struct pollfd *entries, nfds_t count, int milliseconds) __attribute__((visibility("hidden")));

/* Whether a wait in a set failed, perhaps because the call was refused: a kernel, an emulator or a filter that does not know the call
 * returns ENOSYS, and filters return EPERM, EACCES or any other error, also those of a lost set. */
static inline bool rl_is_wait_refused(int count) { return count < 0 && errno != EINTR; }

/* The same wait by a call that is older than the one that was refused. Where there is none, nothing is fetched, after a wait of at
 * most a tenth of a second, and errno is EPERM; for a set that was lost it is EBADF. */
int rl_wait_otherwise(int epoll, struct epoll_event *events, int room, int milliseconds) __attribute__((visibility("hidden")));

__attribute__((always_inline)) static inline int rl_sys_epoll_wait(int epoll, struct epoll_event *events, int room, int milliseconds) {
    int count = (int)syscall(SYS_epoll_pwait, epoll, events, room, milliseconds, NULL, (size_t)0);
    return rl_is_wait_refused(count) ? rl_wait_otherwise(epoll, events, room, milliseconds) : count;
}

/* NULL for no end. Where the call is not available: an older one, with the time rounded up to milliseconds, late and never early. */
static inline int rl_sys_epoll_pwait2(int epoll, struct epoll_event *events, int room, const struct timespec *timeout) {
    int count = (int)syscall(SYS_epoll_pwait2, epoll, events, room, timeout, NULL, (size_t)0);
    if (!rl_is_wait_refused(count)) return count;
    int milliseconds = -1;
    /* A longer time is capped; the caller looks at the clock and waits again. */
    if (timeout && timeout->tv_sec > 1000000)
        milliseconds = 1000000000;
    else if (timeout)
        milliseconds = (int)(timeout->tv_sec * 1000 + (timeout->tv_nsec + 999999) / 1000000);
    return rl_sys_epoll_wait(epoll, events, room, milliseconds);
}

/* By the call that libc makes for this. Where it is refused another wait takes its place: no caller spins. */
int rl_sys_nanosleep(const struct timespec *time) __attribute__((visibility("hidden")));

/* For functions of other libraries that have cancellation points in them: between these two calls the calling thread has none. */
static inline int rl_disable_cancellation(void) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void rl_restore_cancellation(int state) { pthread_setcancelstate(state, NULL); }

#endif
