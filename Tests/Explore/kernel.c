/* SPDX-License-Identifier: MIT */
/* Calls of the kernel, most of which the core makes by syscall(2), and of libc, put in place of the real ones by the linker (--wrap). A call that would sleep is a state of
 * the scheduler; the clock stands still but for a nanosecond per reading, and jumps to the next deadline when all sleep. */
#define _GNU_SOURCE
#include "explore.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KERNEL = 16 }; /* the location that stands for the kernel's own state */

long __real_syscall(long number, ...);
int __real_epoll_ctl(int, int, int, struct epoll_event *);
int __real_poll(struct pollfd *, nfds_t, int);
int __real_close(int);
ssize_t __real_write(int, const void *, size_t);
ssize_t __real_read(int, void *, size_t);
int __real_eventfd(unsigned, int);
int __real_fcntl(int, int, ...);
int __real_fstatat(int, const char *, struct stat *, int);
int __real_unlinkat(int, const char *, int);
int __real_clock_gettime(clockid_t, struct timespec *);
pid_t __real_fork(void);

static bool is_explored(void) { return self && run.scheduled; }

int64_t real_nanoseconds(void) {
    struct timespec time;
    __real_clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t nanoseconds(const struct timespec *time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

bool sleeper_is_ready(struct thread *thread) {
    if (thread->state == THREAD_POLL) return __real_poll(thread->polled, thread->polled_count, 0) != 0;
    struct pollfd request = {thread->descriptor, POLLIN, 0};
    return __real_poll(&request, 1, 0) != 0;
}

/* ---- futex, membarrier */

static int wait_in_futex(uintptr_t address, uint32_t value, const struct timespec *until, uint32_t bits) {
    point(ACCESS_FUTEX_WAIT, address + 1, false, "futex wait", 0);
    fence_clocks();
    note_step(ACCESS_FUTEX_WAIT, 0, address, 0, value, 0, "futex wait", 0);
    if (__atomic_load_n((const uint32_t *)address, __ATOMIC_SEQ_CST) != value) return EAGAIN;
    if (until && nanoseconds(until) <= run.now) return ETIMEDOUT;
    self->address = address;
    self->bits = bits;
    sleep_in(THREAD_FUTEX, until ? nanoseconds(until) : INT64_MAX);
    fence_clocks();
    if (self->interrupted) return EINTR;
    return self->timed_out ? ETIMEDOUT : 0;
}

static long call_futex(uintptr_t address, int operation, uint32_t value, const struct timespec *until, uint32_t bits) {
    if (operation == FUTEX_WAIT_BITSET) {
        int error = wait_in_futex(address, value, until, bits);
        if (error) errno = error;
        return error ? -1 : 0;
    }
    if (operation == FUTEX_WAKE) bits = FUTEX_BITSET_MATCH_ANY;
    else if (operation != FUTEX_WAKE_BITSET) fail("an unknown futex operation: %d", operation);
    point(ACCESS_FUTEX_WAKE, address + 1, true, "futex wake", 0);
    fence_clocks();
    int woken = futex_wake(address, (int)value, bits);
    note_step(ACCESS_FUTEX_WAKE, 0, address, 0, (uint64_t)woken, 0, "futex wake", 0);
    return woken;
}

static void everybody_knows(void) {
    for (int turn = 0; turn < 2; turn++) {
        struct thread *me = self;
        for (int i = 0; i < MAX_THREADS; i++) {
            self = &threads[i];
            fence_clocks();
        }
        self = me;
    }
}

/* ---- clocks */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    if (!is_explored()) return __real_clock_gettime(clock, time);
    bool coarse = clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_REALTIME_COARSE;
    if (!coarse) run.now++;
    int64_t now = run.now;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now += 1700000000000000000 + run.wall;
    *time = (struct timespec){now / 1000000000, now % 1000000000};
    return 0;
}

int __wrap_sched_yield(void) {
    rlx_pause();
    return 0;
}

/* ---- descriptors */

static void before_call(bool writes, const char *name) {
    point(writes ? ACCESS_KERNEL_WRITE : ACCESS_KERNEL_READ, KERNEL, writes, name, 0);
    fence_clocks();
    note_step(writes ? ACCESS_KERNEL_WRITE : ACCESS_KERNEL_READ, 0, 0, 0, 0, 0, name, 0);
}

/* Files that sleepers keep have numbers from here. */
enum { KEPT = 900 };

/* Whoever sleeps in a file of the library's goes on to sleep in it when its number is closed, as the kernel holds the file. */
void lose_number(int number, int replacement) {
    before_call(true, "close");
    for (int i = 0; i < MAX_THREADS; i++) {
        struct thread *thread = &threads[i];
        thread->lost = number;
        if (thread->state == THREAD_EPOLL && thread->descriptor == number) thread->descriptor = __real_fcntl(number, F_DUPFD_CLOEXEC, KEPT);
        if (thread->state != THREAD_POLL) continue;
        for (nfds_t j = 0; j < thread->polled_count; j++)
            if (thread->polled[j].fd == number) thread->polled[j].fd = __real_fcntl(number, F_DUPFD_CLOEXEC, KEPT);
    }
    if (replacement < 0) __real_close(number);
    else __real_syscall(SYS_dup3, replacement, number, O_CLOEXEC, 0, 0, 0);
}

static int wait_in_epoll(int epoll, struct epoll_event *events, int capacity, int64_t timeout) {
    before_call(false, "epoll_wait");
    int64_t deadline = timeout < 0 ? INT64_MAX : run.now + timeout;
    int count;
    self->set = self->descriptor = epoll;
    for (;;) {
        count = epoll_wait(self->descriptor, events, capacity, 0);
        if (count != 0 || timeout == 0) break;
        sleep_in(THREAD_EPOLL, deadline);
        fence_clocks();
        if (self->interrupted) {
            errno = EINTR;
            count = -1;
            break;
        }
        if (self->timed_out) break;
    }
    const int error = errno;
    if (self->descriptor != epoll) __real_close(self->descriptor);
    errno = error;
    return count;
}

static int wait_in_poll_of(struct pollfd *list, nfds_t count, int64_t timeout) {
    int64_t deadline = timeout < 0 ? INT64_MAX : run.now + timeout;
    for (;;) {
        int ready = __real_poll(list, count, 0);
        if (ready != 0 || timeout == 0) return ready;
        self->polled = list;
        self->polled_count = count;
        sleep_in(THREAD_POLL, deadline);
        fence_clocks();
        if (self->interrupted) {
            errno = EINTR;
            return -1;
        }
        if (self->timed_out) return 0;
    }
}

static int wait_in_poll(struct pollfd *list, nfds_t count, int64_t timeout) {
    before_call(false, "poll");
    const int ready = wait_in_poll_of(list, count, timeout);
    const int error = errno;
    for (nfds_t i = 0; i < count; i++) {
        if (list[i].fd < KEPT) continue;
        __real_close(list[i].fd);
        list[i].fd = self->lost;
    }
    errno = error;
    return ready;
}

int __wrap_poll(struct pollfd *list, nfds_t count, int milliseconds) {
    if (!is_explored()) return __real_poll(list, count, milliseconds);
    return wait_in_poll(list, count, milliseconds < 0 ? -1 : (int64_t)milliseconds * 1000000);
}

static int wait_for_time(const struct timespec *time) {
    static uint32_t nobody;
    before_call(true, "nanosleep");
    self->address = (uintptr_t)&nobody;
    sleep_in(THREAD_FUTEX, run.now + nanoseconds(time));
    if (self->interrupted) errno = EINTR;
    return self->interrupted ? -1 : 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest) {
    return is_explored() ? wait_for_time(time) : (int)__real_syscall(SYS_nanosleep, time, rest);
}

static const char *name_of_call(long number) {
    switch (number) {
    case SYS_close: return "close";
    case SYS_read: return "read";
    case SYS_write: return "write";
    case SYS_preadv2: return "preadv2";
    case SYS_sendmsg: return "sendmsg";
    case SYS_recvmsg: return "recvmsg";
    case SYS_connect: return "connect";
    case SYS_accept4: return "accept4";
    case SYS_dup3: return "dup3";
    case SYS_flock: return "flock";
    case SYS_openat: return "openat";
    case SYS_pread64: return "pread";
    case SYS_pwrite64: return "pwrite";
    default: return "system call";
    }
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    if (!is_explored()) return __real_syscall(number, a, b, c, d, e, f);
    switch (number) {
    case SYS_futex: return call_futex((uintptr_t)a, (int)b & FUTEX_CMD_MASK, (uint32_t)c, (const struct timespec *)d, (uint32_t)f);
    case SYS_membarrier:
        if (a != MEMBARRIER_CMD_PRIVATE_EXPEDITED) break;
        point(ACCESS_BARRIER, KERNEL, true, "membarrier", 0);
        everybody_knows();
        note_step(ACCESS_BARRIER, 0, 0, 0, 0, 0, "membarrier", 0);
        return 0;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
        return wait_in_epoll((int)a, (struct epoll_event *)b, (int)c, (int)d < 0 ? -1 : (int64_t)(int)d * 1000000);
    case SYS_epoll_pwait2:
        return wait_in_epoll((int)a, (struct epoll_event *)b, (int)c, d ? nanoseconds((const struct timespec *)d) : -1);
    case SYS_ppoll:
        return wait_in_poll((struct pollfd *)a, (nfds_t)b, c ? nanoseconds((const struct timespec *)c) : -1);
    case SYS_clock_nanosleep: return wait_for_time((const struct timespec *)c);
    case SYS_gettid: break;
    case SYS_tgkill:
        /* To ask a thread for its backtrace: it would answer without the baton. */
        errno = EPERM;
        return -1;
    default: before_call(true, name_of_call(number));
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

int __wrap_epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event) {
    if (is_explored()) before_call(true, "epoll_ctl");
    return __real_epoll_ctl(epoll, operation, descriptor, event);
}

int __wrap_close(int descriptor) {
    if (is_explored()) before_call(true, "close");
    return __real_close(descriptor);
}

ssize_t __wrap_write(int descriptor, const void *bytes, size_t length) {
    if (is_explored()) before_call(true, "write");
    return __real_write(descriptor, bytes, length);
}

ssize_t __wrap_read(int descriptor, void *bytes, size_t length) {
    if (is_explored()) before_call(true, "read");
    return __real_read(descriptor, bytes, length);
}

int __wrap_eventfd(unsigned value, int flags) {
    if (is_explored()) before_call(true, "eventfd");
    return __real_eventfd(value, flags);
}

/* What of lock files is no system call of the core's own. */
int __wrap_fcntl(int descriptor, int command, long argument) {
    const bool locks = command == F_OFD_SETLK || command == F_OFD_GETLK;
    if (locks && is_explored()) before_call(command == F_OFD_SETLK, "fcntl");
    return __real_fcntl(descriptor, command, argument);
}

int __wrap_fstatat(int folder, const char *path, struct stat *status, int flags) {
    if (is_explored()) before_call(false, "fstatat");
    return __real_fstatat(folder, path, status, flags);
}

int __wrap_unlinkat(int folder, const char *path, int flags) {
    if (is_explored()) before_call(true, "unlinkat");
    return __real_unlinkat(folder, path, flags);
}

/* ---- fork */

pid_t __wrap_fork(void) {
    if (!is_explored()) return __real_fork();
    before_call(true, "fork");
    pid_t child = __real_fork();
    return child;
}

/* The first that runs in the child: this thread is alone from now on. */
static void be_the_child(void) {
    if (!self || !run.scheduled) return;
    run.child = true;
    run.handlers_left = 0;
    run.steps = 0;
    for (int i = 0; i < MAX_THREADS; i++)
        if (&threads[i] != self) threads[i].state = THREAD_NONE;
}

/* Before the library's own handlers are registered, by its constructor: handlers of the child run in this order. */
__attribute__((constructor(101))) static void register_child(void) { pthread_atfork(NULL, NULL, be_the_child); }
