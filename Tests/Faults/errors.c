/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "errors.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#define E(name) {#name, name, false, false}
#define MADE(name) {#name, name, true, false}
#define FALSE(name) {#name, name, false, true}

static const struct {
    const char *call;
    Error errors[16];
} table[] = {
    {"accept4", {E(EAGAIN), E(ECONNABORTED), E(EINTR), E(EMFILE), E(ENFILE), E(ENOBUFS), E(ENOMEM), E(EPROTO), E(EPERM),
                 FALSE(EBADF), FALSE(EINVAL), FALSE(ENOTSOCK), FALSE(EOPNOTSUPP)}},
    {"bind", {E(EACCES), E(EADDRINUSE), E(EADDRNOTAVAIL), E(ELOOP), E(ENAMETOOLONG), E(ENOENT), E(ENOMEM), E(ENOTDIR), E(EROFS),
              FALSE(EBADF), FALSE(EINVAL), FALSE(ENOTSOCK)}},
    {"close", {MADE(EINTR), MADE(EIO), MADE(ENOSPC), MADE(EDQUOT)}},
    {"connect", {E(EACCES), E(EPERM), E(EADDRINUSE), E(EADDRNOTAVAIL), E(EAGAIN), E(ECONNREFUSED), MADE(EINPROGRESS), MADE(EINTR),
                 E(ENETUNREACH), E(ETIMEDOUT), E(ENOENT), FALSE(EALREADY), FALSE(EBADF), FALSE(EISCONN), FALSE(ENOTSOCK)}},
    {"dup3", {E(EBUSY), E(EINTR), E(EMFILE), FALSE(EBADF), FALSE(EINVAL)}},
    {"epoll_create1", {E(EMFILE), E(ENFILE), E(ENOMEM)}},
    /* The manual lists all for all operations; memory is taken, and things are counted, by an addition alone. */
    {"epoll_ctl.add", {E(ENOMEM), E(ENOSPC), FALSE(EBADF), FALSE(EEXIST), FALSE(EINVAL), FALSE(ELOOP), FALSE(EPERM)}},
    {"epoll_ctl.mod", {FALSE(ENOMEM), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOENT), FALSE(EPERM)}},
    {"epoll_ctl.del", {FALSE(EBADF), FALSE(EINVAL), FALSE(ENOENT), FALSE(EPERM)}},
    {"epoll_pwait", {E(EINTR), FALSE(EBADF), FALSE(EINVAL)}},
    {"epoll_pwait2", {E(EINTR), E(ENOSYS), E(EPERM), FALSE(EBADF), FALSE(EINVAL)}},
    {"eventfd", {E(EMFILE), E(ENFILE), E(ENODEV), E(ENOMEM)}},
    {"faccessat", {E(EACCES), E(ELOOP), E(ENOMEM), E(EROFS), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOENT), FALSE(ENOTDIR)}},
    {"fallocate", {E(EFBIG), E(EINTR), E(EIO), E(ENODEV), E(ENOSPC), E(EOPNOTSUPP), E(EPERM), FALSE(EBADF), FALSE(EINVAL)}},
    {"fcntl", {E(EMFILE), E(EACCES), E(EAGAIN), E(EBUSY), E(EINTR), E(ENOLCK), E(EPERM), FALSE(EBADF), FALSE(EINVAL)}},
    {"flock", {E(EINTR), E(ENOLCK), E(EWOULDBLOCK), FALSE(EBADF), FALSE(EINVAL)}},
    {"fstat", {E(ENOMEM), E(EOVERFLOW), FALSE(EBADF)}},
    {"fstatat", {E(EACCES), E(ELOOP), E(ENOMEM), E(EOVERFLOW), FALSE(EBADF), FALSE(ENOENT), FALSE(ENOTDIR)}},
    {"fstatfs", {E(EINTR), E(EIO), E(ENOMEM), E(ENOSYS), E(EOVERFLOW), FALSE(EBADF)}},
    {"ftruncate", {E(EFBIG), E(EINTR), E(EIO), E(EPERM), E(EROFS), E(ENOSPC), FALSE(EBADF), FALSE(EINVAL)}},
    {"futex", {E(EAGAIN), E(EINTR), FALSE(ETIMEDOUT), FALSE(EINVAL)}},
    {"getpeername", {E(ENOBUFS), FALSE(EBADF), FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"getsockname", {E(ENOBUFS), FALSE(EBADF), FALSE(ENOTSOCK)}},
    {"getsockopt", {FALSE(EBADF), FALSE(EINVAL), FALSE(ENOPROTOOPT), FALSE(ENOTSOCK)}},
    {"inotify_add_watch", {E(EACCES), E(ENOMEM), E(ENOSPC), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOENT), FALSE(ENOTDIR)}},
    {"inotify_init1", {E(EMFILE), E(ENFILE), E(ENOMEM)}},
    {"inotify_rm_watch", {FALSE(EBADF), FALSE(EINVAL)}},
    {"link", {E(EACCES), E(EDQUOT), E(EIO), E(ELOOP), E(EMLINK), E(ENOENT), E(ENOMEM), E(ENOSPC), E(ENOTDIR), E(EPERM), E(EROFS), E(EXDEV), FALSE(EEXIST)}},
    /* The answer of a file server may be lost, and the call be made again. */
    {"linkat", {MADE(EEXIST), E(EACCES), E(EDQUOT), MADE(EIO), E(ELOOP), E(EMLINK), E(ENOENT), E(ENOMEM), E(ENOSPC), E(ENOTDIR), E(EPERM), E(EROFS), E(EXDEV), FALSE(EBADF)}},
    {"listen", {E(EADDRINUSE), FALSE(EBADF), FALSE(ENOTSOCK), FALSE(EOPNOTSUPP)}},
    {"lstat", {E(EACCES), E(ELOOP), E(ENOENT), E(ENOMEM), E(ENOTDIR), E(EOVERFLOW)}},
    {"madvise", {E(EAGAIN), E(EIO), E(ENOMEM), E(EPERM), FALSE(EBADF), FALSE(EINVAL)}},
    {"membarrier", {E(ENOSYS), E(EPERM), FALSE(EINVAL)}},
    {"memfd_create", {E(EMFILE), E(ENFILE), E(ENOMEM), FALSE(EINVAL)}},
    {"mkdir", {E(EACCES), E(EDQUOT), E(EEXIST), E(ELOOP), E(EMLINK), E(ENOENT), E(ENOMEM), E(ENOSPC), E(ENOTDIR), E(EPERM), E(EROFS)}},
    {"mmap", {E(EACCES), E(EAGAIN), E(ENFILE), E(ENODEV), E(ENOMEM), E(EPERM), FALSE(EBADF), FALSE(EINVAL)}},
    {"mprotect", {E(EACCES), E(ENOMEM), FALSE(EINVAL)}},
    {"mremap", {E(EAGAIN), E(ENOMEM), FALSE(EFAULT), FALSE(EINVAL)}},
    {"munmap", {E(ENOMEM), FALSE(EINVAL)}},
    {"nanosleep", {E(EINTR)}},
    {"open", {E(EACCES), E(EDQUOT), E(EINTR), E(EISDIR), E(ELOOP), E(EMFILE), E(ENFILE), E(ENOENT), E(ENOMEM), E(ENOSPC), E(ENOTDIR),
              E(EPERM), E(EROFS), E(EWOULDBLOCK)}},
    {"openat", {E(EACCES), E(EDQUOT), E(EINTR), E(EISDIR), E(ELOOP), E(EMFILE), E(ENFILE), E(ENOENT), E(ENOMEM), E(ENOSPC),
                E(ENOTDIR), E(EPERM), E(EROFS), FALSE(EBADF)}},
    {"pidfd_open", {E(EMFILE), E(ENFILE), E(ENODEV), E(ENOMEM), E(ENOSYS), FALSE(EINVAL), FALSE(ESRCH)}},
    {"poll", {E(EINTR), E(ENOMEM), FALSE(EINVAL)}},
    {"posix_fallocate", {E(EFBIG), E(EINTR), E(ENODEV), E(ENOSPC), E(EOPNOTSUPP), FALSE(EBADF), FALSE(EINVAL)}},
    {"prctl", {E(EPERM), FALSE(EINVAL)}},
    {"pread", {E(EAGAIN), E(EINTR), E(EIO), FALSE(EBADF), FALSE(EINVAL), FALSE(ESPIPE)}},
    {"preadv2", {E(EAGAIN), E(EINTR), E(EIO), E(ENOSYS), E(EOPNOTSUPP), FALSE(EBADF), FALSE(EINVAL), FALSE(ESPIPE)}},
    {"pthread_attr_setstacksize", {FALSE(EINVAL)}},
    {"pthread_create", {E(EAGAIN), E(EPERM), FALSE(EINVAL)}},
    {"pthread_sigmask", {FALSE(EINVAL)}},
    {"pwrite", {E(EAGAIN), E(EDQUOT), E(EFBIG), E(EINTR), E(EIO), E(ENOSPC), E(EPERM), FALSE(EBADF), FALSE(EINVAL), FALSE(ESPIPE)}},
    {"read", {E(EAGAIN), E(EINTR), E(EIO), FALSE(EBADF), FALSE(EINVAL), FALSE(EISDIR)}},
    {"readlink", {E(EACCES), E(EIO), E(ELOOP), E(ENOENT), E(ENOMEM), E(ENOTDIR), FALSE(EINVAL)}},
    {"recvfrom", {E(EAGAIN), E(ECONNREFUSED), E(ECONNRESET), E(EINTR), E(ENOMEM), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"recvmsg", {E(EAGAIN), E(ECONNREFUSED), E(ECONNRESET), E(EINTR), E(ENOMEM), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"rename", {E(EACCES), E(EBUSY), E(EDQUOT), E(EISDIR), E(ELOOP), E(ENOENT), E(ENOMEM), E(ENOSPC), E(ENOTDIR), E(EPERM), E(EROFS), E(EXDEV)}},
    {"sendmsg", {E(EAGAIN), E(ECONNRESET), E(EINTR), E(EMSGSIZE), E(ENOBUFS), E(ENOMEM), E(EPIPE), E(ETOOMANYREFS), FALSE(EBADF),
                 FALSE(EINVAL), FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"sendto", {E(EAGAIN), E(ECONNRESET), E(EINTR), E(EMSGSIZE), E(ENOBUFS), E(ENOMEM), E(EPIPE), FALSE(EBADF), FALSE(EINVAL),
                FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"setpriority", {E(EACCES), E(EPERM), FALSE(EINVAL), FALSE(ESRCH)}},
    {"setsockopt", {E(ENOMEM), FALSE(EBADF), FALSE(EINVAL), FALSE(ENOPROTOOPT), FALSE(ENOTSOCK)}},
    {"shutdown", {FALSE(EBADF), FALSE(EINVAL), FALSE(ENOTCONN), FALSE(ENOTSOCK)}},
    {"sigaction", {FALSE(EINVAL)}},
    {"socket", {E(EACCES), E(EAFNOSUPPORT), E(EMFILE), E(ENFILE), E(ENOBUFS), E(ENOMEM), E(EPROTONOSUPPORT), FALSE(EINVAL)}},
    {"timerfd_create", {E(EMFILE), E(ENFILE), E(ENODEV), E(ENOMEM), E(EPERM), FALSE(EINVAL)}},
    {"timerfd_gettime", {FALSE(EBADF), FALSE(EINVAL)}},
    {"timerfd_settime", {FALSE(EBADF), FALSE(EINVAL)}},
    {"timerfd_settime.cancel", {E(ECANCELED), FALSE(EBADF), FALSE(EINVAL)}},
    {"unlink", {E(EACCES), E(EBUSY), E(EIO), E(ENOENT), E(ENOMEM), E(EPERM), E(EROFS)}},
    {"unlinkat", {E(EACCES), E(EBUSY), E(EIO), MADE(ENOENT), E(ENOMEM), E(EPERM), E(EROFS), FALSE(EBADF), FALSE(EINVAL)}},
    {"waitid", {E(EINTR), FALSE(ECHILD), FALSE(EINVAL)}},
    {"write", {E(EAGAIN), E(EDQUOT), E(EINTR), E(EIO), E(ENOSPC), E(EPERM), E(EPIPE), FALSE(EBADF), FALSE(EINVAL)}},
};

const Error *errors_of(const char *call) {
    static const Error none = {0};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].call, call) == 0) return table[i].errors;
    return &none;
}

static void spoil(long place, size_t size) {
    if (place) memset((void *)place, 0x74, size);
}

static void spoil_parts(const struct iovec *parts, size_t count) {
    for (size_t i = 0; i < count; i++) spoil((long)parts[i].iov_base, parts[i].iov_len);
}

static void spoil_message(const struct msghdr *message) {
    spoil_parts(message->msg_iov, message->msg_iovlen);
    spoil((long)message->msg_control, message->msg_controllen);
}

void spoil_results(const char *call, long a, long b, long c, long d, long e) {
    (void)a;
    if (strcmp(call, "sigaction") == 0) spoil(c, sizeof(struct sigaction));
    if (strcmp(call, "fstat") == 0 || strcmp(call, "lstat") == 0) spoil(b, sizeof(struct stat));
    if (strcmp(call, "fstatat") == 0) spoil(c, sizeof(struct stat));
    if (strcmp(call, "timerfd_gettime") == 0) spoil(b, sizeof(struct itimerspec));
    if (strcmp(call, "waitid") == 0) spoil(c, sizeof(siginfo_t));
    if (strcmp(call, "getsockname") == 0 || strcmp(call, "getpeername") == 0) spoil(b, *(socklen_t *)c);
    if (strcmp(call, "getsockopt") == 0) spoil(d, *(socklen_t *)e);
    if (strcmp(call, "read") == 0 || strcmp(call, "pread") == 0) spoil(b, (size_t)c);
    if (strcmp(call, "preadv2") == 0) spoil_parts((const struct iovec *)b, (size_t)c);
    if (strcmp(call, "recvfrom") == 0) spoil(b, (size_t)c);
    if (strcmp(call, "recvmsg") == 0) spoil_message((const struct msghdr *)b);
    if (strcmp(call, "readlink") == 0) spoil(b, (size_t)c);
}
