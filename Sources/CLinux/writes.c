/* SPDX-License-Identifier: MIT */
/* Writes that raise no signal: to files that grow, and of lines for a standard error of any kind. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxInsight.h"
#include "CLinuxMessages.h"

/* A call that would make a file longer than RLIMIT_FSIZE allows raises SIGXFSZ in the calling thread, which ends a process without
 * a handler for it; a memory file counts as a file here. A write to a pipe without a reader raises SIGPIPE in the same way. The
 * limit may change at any time, so checking it before the call does not help. The signals are therefore blocked during the call
 * and one that the call raised is taken back: all that is left is EFBIG or EPIPE. */
typedef struct size_limit {
    sigset_t before, pending;
} size_limit;

__attribute__((noinline)) static void size_limit_begin(size_limit *limit) {
    sigset_t signals;
    sigemptyset(&signals);
    sigemptyset(&limit->pending);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, &limit->before);
    /* A signal that the program itself blocks and waits for is not taken from it. */
    if (sigismember(&limit->before, SIGXFSZ) || sigismember(&limit->before, SIGPIPE)) sigpending(&limit->pending);
}

__attribute__((noinline)) static void size_limit_end(size_limit *limit, bool failed) {
    int error = errno;
    int raised = error == EFBIG ? SIGXFSZ : SIGPIPE;
    if (failed && (error == EFBIG || error == EPIPE) && !sigismember(&limit->pending, raised)) {
        static const struct timespec no_time;
        const uint64_t signal = (uint64_t)1 << (raised - 1);
        syscall(SYS_rt_sigtimedwait, &signal, NULL, &no_time, sizeof signal);
    }
    pthread_sigmask(SIG_SETMASK, &limit->before, NULL);
    errno = error;
}

struct line {
    const void *bytes;
    size_t length;
    ssize_t written;
    bool is_opened;
};

/* O_NONBLOCK belongs to a description, which other processes share: their writes would fail. So the line goes through a description of its own. It
 * is that of the same terminal or pipe; one of another user cannot be opened. */
static void write_opened(struct line *line) {
    int own = rl_sys_openat(AT_FDCWD, "/proc/thread-self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (own < 0) return;
    line->is_opened = true;
    line->written = rl_sys_write(own, line->bytes, line->length);
    int error = errno;
    rl_sys_close(own);
    errno = error;
}

/* Where the process has no number left, a thread with a table of its own has one: it does not need standard input. */
static void *write_elsewhere(void *line) {
    if (rl_own_table()) {
        rl_sys_close(STDIN_FILENO);
        write_opened(line);
    }
    return NULL;
}

/* That there is room, as poll(2) says, does not mean that a write would not wait: a terminal says so when it has room for one byte, and another
 * process may take the room of a pipe. Therefore each kind is written to by a call that cannot wait. */
static void write_line(struct line *line, bool may_wait) {
    struct stat status;
    pthread_t thread;
    unsigned int terminal;
    if (fstat(STDERR_FILENO, &status) != 0) return;
    if (may_wait || S_ISREG(status.st_mode)) {
        line->written = rl_sys_write(STDERR_FILENO, line->bytes, line->length);
    } else if (S_ISSOCK(status.st_mode)) {
        line->written = rl_sys_sendto(STDERR_FILENO, line->bytes, line->length, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
    } else {
        /* Newer kernels offer it for pipes, also for those that cannot be opened. */
        const struct iovec part = {(void *)line->bytes, line->length};
        line->written = syscall(SYS_pwritev2, STDERR_FILENO, &part, 1, -1L, -1L, RWF_NOWAIT);
        if (line->written >= 0 || errno == EAGAIN || errno == EPIPE) return;
        /* The master side of a terminal: to open it makes another terminal. */
        if (S_ISCHR(status.st_mode) && ioctl(STDERR_FILENO, TIOCGPTN, &terminal) == 0) return;
        write_opened(line);
        if (line->written < 0 && errno == EMFILE && rl_begin_thread(&thread, NULL, write_elsewhere, line)) rl_join_thread(thread);
        /* A device that is no terminal takes what comes, as a file does. */
        if (!line->is_opened && S_ISCHR(status.st_mode) && !isatty(STDERR_FILENO) && errno == ENOTTY)
            line->written = rl_sys_write(STDERR_FILENO, line->bytes, line->length);
    }
}

bool rl_write_line(const void *bytes, size_t length, bool may_wait) {
    struct line line = {bytes, length, -1, false};
    size_limit limit;
    size_limit_begin(&limit);
    write_line(&line, may_wait);
    size_limit_end(&limit, line.written < 0);
    return line.written == (ssize_t)length;
}

/* For a second, whatever signals come meanwhile. */
static bool wait_for_room(int file) {
    struct pollfd room = {file, POLLOUT, 0};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1000;
    int result, left = 1000;
    while ((result = rl_sys_poll(&room, 1, left)) < 0 && errno == EINTR && left > 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (int)(end - now.tv_sec * 1000 - now.tv_nsec / 1000000);
        if (left < 0) left = 0;
    }
    return result > 0;
}

bool rl_write_all(int file, const void *bytes, size_t length) {
    const char *rest = bytes;
    ssize_t count = 0;
    size_limit limit;
    size_limit_begin(&limit);
    while (length > 0) {
        count = rl_sys_write(file, rest, length);
        if (count < 0 && errno == EAGAIN && wait_for_room(file)) continue;
        if (count <= 0) break;
        rest += count;
        length -= (size_t)count;
    }
    size_limit_end(&limit, count < 0);
    return length == 0;
}

bool rl_set_length(int file, size_t length) {
    int result;
    size_limit limit;
    size_limit_begin(&limit);
    do {
        result = ftruncate(file, (off_t)length);
    } while (result != 0 && errno == EINTR);
    size_limit_end(&limit, result != 0);
    return result == 0;
}

bool rl_write_contents(int file, const char *bytes, size_t length) {
    ssize_t count = 1;
    size_limit limit;
    size_limit_begin(&limit);
    for (size_t done = 0; done < length && count > 0; done += (size_t)count)
        count = rl_sys_pwrite(file, bytes + done, length - done, (off_t)done);
    size_limit_end(&limit, count < 0);
    return count > 0;
}

bool rl_write_file(int file, const char *bytes, size_t length) { return rl_set_length(file, 0) && rl_write_contents(file, bytes, length); }

bool rl_take_file_room(int file, size_t length) {
    size_limit limit;
    size_limit_begin(&limit);
    bool taken = rl_take_room(file, 0, length);
    size_limit_end(&limit, !taken);
    return taken;
}

ssize_t rl_write_at(int file, const void *bytes, size_t length, off_t offset) {
    size_limit limit;
    size_limit_begin(&limit);
    ssize_t count = rl_sys_pwrite(file, bytes, length, offset);
    size_limit_end(&limit, count < 0);
    return count;
}

void rl_write_word(int file, uint32_t word, size_t offset) { rl_write_at(file, &word, sizeof word, (off_t)offset); }
