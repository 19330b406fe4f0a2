/* SPDX-License-Identifier: MIT */
/* What the Swift core needs from the kernel, libc and libbsd, and Swift cannot import by itself: variadic functions, macros,
 * thread-local storage and statically initialised memory. Nothing here has logic of its own. */
#ifndef CLINUX_H
#define CLINUX_H

/* No _GNU_SOURCE here: Swift's own module of libc is made without it, and the two have to agree about their types. */
#define LIBBSD_OPENBSD_VIS 1
#include <bsd/string.h>
#include <bsd/vis.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <sys/un.h>
#include <unistd.h>

#include "CLinuxCallOuts.h"
#include "CLinuxCalls.h"
#include "CLinuxInsight.h"
#include "CLinuxLockFiles.h"
#include "CLinuxMessages.h"
#include "CLinuxSockets.h"
#include "CLinuxTrace.h"

/* The version of the library as text that is never freed. */
static inline const char *rl_version(void) { return "0.2.0"; }

/* The run loop of the calling thread. Initial-exec: one load, no call, usable in a signal handler. */
extern __thread void *rl_thread_loop __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline __attribute__((always_inline)) void *rl_thread_loop_get(void) { return rl_thread_loop; }
static inline void rl_thread_loop_set(void *loop) { rl_thread_loop = loop; }

/* Whether the thread has had a loop before. */
extern __thread bool rl_thread_had_loop __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline bool rl_thread_had_loop_get(void) { return rl_thread_had_loop; }
static inline void rl_thread_had_loop_set(void) { rl_thread_had_loop = true; }

/* The object of the calling thread, if the library made the thread; 1 more when it has finished (Lifecycle/Thread.swift). */
extern __thread void *rl_thread_object __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void *rl_thread_object_get(void) { return rl_thread_object; }
static inline void rl_thread_object_set(void *object) { rl_thread_object = object; }

/* The functions of onces that the calling thread is in (Sync/Once.swift). */
extern __thread void *rl_thread_onces __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void *rl_thread_onces_get(void) { return rl_thread_onces; }
static inline void rl_thread_onces_set(void *calls) { rl_thread_onces = calls; }

/* What the calling thread knows of the clocks (Kernel/Clock+Wall.swift); a new thread knows nothing. */
struct rl_clock_memory {
    uint64_t count;      /* the counter when the next three were read */
    int64_t offset;      /* by how much the wall clock is ahead of the monotonic one */
    int64_t latest;      /* an instant that does not come as long as they are used */
    uint32_t steps;      /* Process.wallSteps before that */
    uint16_t uses;       /* so many dates more are converted by them without a look at the counter */
    uint16_t quick;      /* how many dates were set one soon after the other before, by callbacks since a wait */
    bool in_run;         /* in a run of a loop, which begins anew with `uses` and `quick` before and after each wait */
    uint64_t looked;     /* the counter when it was looked at last for a date */
    uint64_t wall_count; /* the counter at a reading of the wall clock */
    int64_t wall;        /* that reading */
};
extern __thread struct rl_clock_memory rl_clock_memory __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline struct rl_clock_memory *rl_clock_memory_get(void) { return &rl_clock_memory; }

/* Sets the kernel's name of the calling thread; it takes the first 15 bytes. */
static inline void rl_set_thread_name(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

/* Sets the nice value of the calling thread; it stays as it was if the kernel refuses. */
static inline void rl_set_thread_priority(int value) { setpriority(PRIO_PROCESS, 0, value); }

/* The nice value of a thread of the process; 0 or an errno. */
static inline int rl_change_priority(pid_t thread, int value) {
    return setpriority(PRIO_PROCESS, (id_t)thread, value) == 0 ? 0 : errno;
}
static inline int rl_priority(pid_t thread) { return getpriority(PRIO_PROCESS, (id_t)thread); }

/* Until a monotonic instant. 0, or EINTR. */
static inline int rl_sleep_until(const struct timespec *until) {
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, until, NULL) == 0 ? 0 : errno;
}

static inline long rl_stack_minimum(void) { return sysconf(_SC_THREAD_STACK_MIN); }

/* The state of the process, a piece for each part of the core that has some: zeroed memory that needs no initialiser. Swift gives
 * each piece its type, and checks when the library is loaded whether it fits. */
#define RL_STATES(STATE)                                                                                                      \
    STATE(process, 256)                                                                                                       \
    STATE(kinds, 2304)                                                                                                        \
    STATE(callbacks, 64)                                                                                                      \
    STATE(registry, 64)                                                                                                       \
    STATE(context_uses, 64)                                                                                                   \
    STATE(names, 64)                                                                                                          \
    STATE(main_queue, 64)                                                                                                     \
    STATE(foreign_runs, 64)                                                                                                   \
    STATE(kernel_filters, 2048)                                                                                               \
    STATE(notifier_port, 64)                                                                                                  \
    STATE(kernel_events, 128)                                                                                                 \
    STATE(sockets, 64)                                                                                                        \
    STATE(mach_ports, 64)                                                                                                     \
    STATE(message_ports, 72)                                                                                                  \
    STATE(synchronized, 512)                                                                                                  \
    STATE(threads, 64)                                                                                                        \
    STATE(loop_waiters, 64)                                                                                                   \
    STATE(distributed_locks, 64)                                                                                              \
    STATE(clock_changes, 64)                                                                                                  \
    STATE(watcher, 128)                                                                                                       \
    STATE(sharing, 64)                                                                                                        \
    STATE(trace, 256)

#define RL_DECLARE_STATE(part, size)                                                                                          \
    extern char rl_##part##_state[size] __attribute__((visibility("hidden")));                                                \
    static inline void *rl_##part(void) { return rl_##part##_state; }                                                         \
    static inline long rl_##part##_size(void) { return size; }
RL_STATES(RL_DECLARE_STATE)

/* A variable of the environment that a set-user-id program may trust. */
const char *rl_environment(const char *name) __attribute__((visibility("hidden")));

/* Says that this copy of the core is in use. */
void rl_core_claim(void) __attribute__((visibility("hidden")));

/* Whether another copy of the core in this process said so. */
bool rl_core_claimed_elsewhere(void) __attribute__((visibility("hidden")));

/* Whether the process has certainly no other thread. */
bool rl_is_single_threaded(void) __attribute__((visibility("hidden")));

/* A function of libdispatch, NULL if the process has no libdispatch. `searches`: also where that was loaded with RTLD_LOCAL. */
void *rl_dispatch_function(const char *name, bool searches) __attribute__((visibility("hidden")));

/* The functions that serve a descriptor on a dispatch queue, in the order of the names in clinux.c. */
struct rl_dispatch {
    void *read_type;
    void *(*create)(void *type, uintptr_t handle, uintptr_t mask, void *queue);
    void (*set_context)(void *source, void *context);
    void (*set_event_handler)(void *source, void (*work)(void *context));
    void (*set_cancel_handler)(void *source, void (*work)(void *context));
    void (*resume)(void *source);
    void (*retain)(void *source);
    void (*release)(void *source);
    void (*cancel)(void *source);
    uint64_t (*time)(uint64_t when, int64_t nanoseconds);
    void *(*global_queue)(intptr_t priority, uintptr_t flags);
    void (*after)(uint64_t when, void *queue, void *context, void (*work)(void *context));
};
/* False if the process has no libdispatch. */
bool rl_load_dispatch(struct rl_dispatch *functions, bool searches) __attribute__((visibility("hidden")));

static inline int rl_errno(void) { return errno; }
static inline void rl_set_errno(int value) { errno = value; }

/* The whole part of a number that an int64_t can hold; Swift's conversion checks that it can. */
static inline __attribute__((always_inline)) int64_t rl_whole(double number) { return (int64_t)number; }

/* Keeps the compiler from moving memory accesses across; membarrier(2) orders them for the processor. */
static inline __attribute__((always_inline)) void rl_compiler_barrier(void) { __asm__ volatile("" ::: "memory"); }

/* A number that grows with time, alike on all processors; only its order counts. The processor's counter where there is one that
 * a program may read, because signals are too frequent for reading a clock. */
static inline uint64_t rl_order_of_time(void) {
#if !RL_EXPLORE && (defined(__x86_64__) || defined(__i386__))
    return __builtin_ia32_rdtsc();
#elif !RL_EXPLORE && defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
#endif
}

/* So many counts of rl_order_of_time take less than a millisecond, but more than a tenth of one. 1: its rate may change, or is
 * unknown. */
uint64_t rl_counts_of_moment(void) __attribute__((visibility("hidden")));

static inline void rl_prefetch(const void *address) { __builtin_prefetch(address); }

#if RL_EXPLORE
/* The explorer's (Tests/Explore): lets another thread go on. */
void rlx_pause(void);
#endif

static inline void rl_pause(void) {
#if RL_EXPLORE
    rlx_pause();
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits while *word == value, until an absolute CLOCK_MONOTONIC time if one is given. 0, or an errno. */
static inline int rl_futex_wait(const void *word, uint32_t value, const struct timespec *until) {
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, until, NULL, FUTEX_BITSET_MATCH_ANY) == 0)
        return 0;
    return errno;
}

/* Returns the number of those woken. */
static inline int rl_futex_wake(const void *word, int count) {
    return (int)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

/* The same for some of the sleepers: a wake-up reaches those that have a bit in common with it. Returns the number of those woken. */
static inline int rl_futex_wait_bits(const void *word, uint32_t value, const struct timespec *until, uint32_t bits) {
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value, until, NULL, bits) == 0) return 0;
    return errno;
}

static inline int rl_futex_wake_bits(const void *word, int count, uint32_t bits) {
    return (int)syscall(SYS_futex, word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, count, NULL, NULL, bits);
}

/* Starts a detached thread with all signals blocked. */
bool rl_start_thread(void (*body)(void *), void *argument) __attribute__((visibility("hidden")));
/* Starts one like that, which the caller waits for by the second function, which is no cancellation point. */
bool rl_begin_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) __attribute__((visibility("hidden")));
void rl_join_thread(pthread_t thread) __attribute__((visibility("hidden")));

/* Calls a function; if that ends its thread, cleanup is called with argument. */
void rl_call_guarded(void (*function)(void *info), void *info, void (*cleanup)(void *argument), void *argument)
    __attribute__((visibility("hidden")));

static inline int rl_membarrier_register(void) {
    return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

static inline int rl_membarrier(void) {
    return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static const uint32_t RL_EPOLLET = 0x80000000u;
static const uint32_t RL_EPOLLRDHUP = 0x2000u;
static const uint32_t RL_EPOLLONESHOT = 1u << 30;

static inline int rl_timer_slack(void) { return prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0); }

static inline int rl_dup_above(int descriptor, int lowest) { return fcntl(descriptor, F_DUPFD_CLOEXEC, lowest); }
/* The beginning of a file's text, as much as fits. False with an empty file, or without one. Async-signal-safe. */
bool rl_read_text(const char *path, char *text, size_t size) __attribute__((visibility("hidden")));

void rl_close_keeping_error(int descriptor) __attribute__((visibility("hidden")));

/* At 64 or above, at a number without an owner in the library; -1 with errno if that is not to be had. */
int rl_dup_high(int descriptor) __attribute__((visibility("hidden")));
/* Else at 3 or above. */
int rl_dup_own(int descriptor) __attribute__((visibility("hidden")));

/* Moves a descriptor of the library's own to a number of at least 64, if the limit allows it, so that a client that closes one of its own numbers twice
 * does not close it (S-FD-18). One of the first three gets a higher number in any case, if the process may have so many, since a program without some of
 * them writes there. A number that the program has closed stays its owner's until that gives it up: it is passed over, and -1 with errno if there is no other. */
int rl_high_number(int descriptor) __attribute__((visibility("hidden")));
/* The same for a moment's use, for which a number below 64 will do. */
int rl_unowned_number(int descriptor) __attribute__((visibility("hidden")));
/* A new epoll set with such a number, which has its bit; -1 with errno. */
int rl_make_set(void) __attribute__((visibility("hidden")));

/* Makes the number name what another descriptor names. Returns the number, or -1 if that fails. */
static inline int rl_replace(int number, int descriptor) {
    return (int)syscall(SYS_dup3, descriptor, number, O_CLOEXEC);
}

enum { RL_TFD_TIMER_ABSTIME = TFD_TIMER_ABSTIME, RL_TFD_TIMER_CANCEL_ON_SET = TFD_TIMER_CANCEL_ON_SET };

/* Zeroed pages from the kernel; NULL without room. */
static inline void *rl_map_memory(size_t length) {
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static inline pid_t rl_gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* The same without a system call, where that is known to work. The C library knows the number, and derives from it the id of a
 * thread's clock: the kernel's form of these ids is its complement above three bits. */
extern bool rl_clock_has_number __attribute__((visibility("hidden")));
static inline pid_t rl_number_in_clock(void) {
    clockid_t clock;
    return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? (pid_t)~(clock >> 3) : 0;
}
static inline pid_t rl_own_number(void) { return rl_clock_has_number ? rl_number_in_clock() : rl_gettid(); }
/* When the library is loaded. */
static inline void rl_look_for_number_in_clock(void) { rl_clock_has_number = rl_number_in_clock() == rl_gettid(); }

int rl_epoll_ctl(int epoll, int operation, int descriptor, uint32_t events, uint64_t token) __attribute__((visibility("hidden")));
/* Adds a descriptor, or changes it if it is there, and returns 1; -1 with errno. */
int rl_epoll_put(int epoll, int descriptor, uint32_t events, uint64_t token) __attribute__((visibility("hidden")));

/* A set, a kernel event source, the notifier of files or the wake-up descriptor gets a number, and gives it up when it is about to close it or has found it lost.
 * Numbers from 65,536 up are not known. */
void rl_number_begins(int number) __attribute__((visibility("hidden")));
void rl_number_ends(int number) __attribute__((visibility("hidden")));
bool rl_is_own_number(int number) __attribute__((visibility("hidden")));

/* In the child of fork: the parent's other threads may have made descriptors since the kernel copied its own. What is not known may be taken. That
 * begins, and is over when all owners have named theirs. */
void rl_forget_numbers(bool begins) __attribute__((visibility("hidden")));

/* One event, with its token and bits. Returns the count, or -1. */
static inline int rl_epoll_wait(int epoll, const struct timespec *timeout, uint64_t *token, uint32_t *events) {
    struct epoll_event event;
    int count = rl_sys_epoll_pwait2(epoll, &event, 1, timeout);
    if (count > 0) {
        *token = event.data.u64;
        *events = event.events;
    }
    return count;
}

/* One event, waiting for ever or not at all; cheaper than the above without a time. */
__attribute__((always_inline)) static inline int rl_epoll_plain_wait(int epoll, bool waits, uint64_t *token, uint32_t *events) {
    struct epoll_event event;
    int count = rl_sys_epoll_wait(epoll, &event, 1, waits ? -1 : 0);
    if (count > 0) {
        *token = event.data.u64;
        *events = event.events;
    }
    return count;
}

/* The events that one call returns, `room` at most, which is RL_EVENTS at most. Returns their number, or -1. A NULL time waits for ever. */
struct rl_event {
    uint64_t token;
    uint32_t events;
};
enum { RL_EVENTS = 128 };
int rl_epoll_wait_all(int epoll, const struct timespec *timeout, struct rl_event *events, int room)
    __attribute__((visibility("hidden")));

/* Reads what is already there; -1 with EAGAIN if that is nothing. */
ssize_t rl_read_nowait(int descriptor, void *bytes, size_t length) __attribute__((visibility("hidden")));

/* Called when a signal has come; async-signal-safe. */
typedef void (*rl_signal_function)(int signal);

/* Installs the library's handler, which calls the function and then what the program had installed. -1: refused. */
int rl_take_signal(int signal, rl_signal_function function) __attribute__((visibility("hidden")));
/* Puts back what the program had installed, unless something else was installed since. */
void rl_give_back_signal(int signal) __attribute__((visibility("hidden")));

/* Restores what an action of the library's has replaced though it was not to. What the program has installed over that meanwhile is restored in its place. */
struct sigaction;
void rl_put_back_action(int signal, const struct sigaction *ours, const struct sigaction *replaced) __attribute__((visibility("hidden")));

/* A descriptor that only names a file: path below the folder, or what another descriptor names. EOPNOTSUPP: that is no folder, and /proc is
 * missing. */
int rl_open_path_at(int folder, const char *path) __attribute__((visibility("hidden")));
int rl_open_path_of(int descriptor) __attribute__((visibility("hidden")));
/* Adds a watch of what a descriptor names to an inotify descriptor, or of a name in the folder it names; without /proc, of what is no folder
 * only by its name in one. */
int rl_watch_file(int inotify, int descriptor, const char *name, uint32_t mask) __attribute__((visibility("hidden")));

/* A thread's id is no process's; ENOENT for it, in older kernels EINVAL. */
static inline int rl_pidfd_open(pid_t process) {
    int descriptor = (int)syscall(SYS_pidfd_open, process, 0);
    if (descriptor < 0 && (errno == ENOENT || errno == EINVAL)) errno = ESRCH;
    return descriptor;
}

/* The status of an ended child, as wait(2) gives it: 1 and the status, 0 if it has not ended, -1 if there is none. */
int rl_child_status(int pidfd, int reap, int *status) __attribute__((visibility("hidden")));
/* Whether a process is a child, which may have ended and not been waited for. */
bool rl_is_child(int process) __attribute__((visibility("hidden")));
/* The status of a process that has been waited for: 1; 0 if it is still to come, -1 if the kernel does not tell. */
int rl_former_status(int pidfd, int *status) __attribute__((visibility("hidden")));

/* Whether a number names a kernel object of the kind that the library made under it: a program that closed it without the
 * library's knowledge may have reused it for another file (S-FD-18). It changes nothing, not even errno, and needs no /proc. What
 * a filter of system calls forbids to ask counts as the library's. */
enum rl_kind { RL_INOTIFY, RL_TIMER, RL_PROCESS };
bool rl_is_kind(int descriptor, enum rl_kind kind) __attribute__((visibility("hidden")));

/* In the child of fork, while it has one thread: rl_replace, also if the program has lowered the limit of descriptors below the number. */
int rl_replace_in_child(int number, int descriptor) __attribute__((visibility("hidden")));

/* Sets a timer, or with 0 none, and marks it. Whether a number names a timer with the mark, which two numbers in a thousand million share. */
int rl_arm_marked_timer(int descriptor, uint32_t mark, const struct timespec *until) __attribute__((visibility("hidden")));
bool rl_is_marked_timer(int descriptor, uint32_t mark) __attribute__((visibility("hidden")));

/* A timerfd that is ready when the wall clock was set or the machine has resumed; -1: none can be made. */
int rl_watch_clocks(void) __attribute__((visibility("hidden")));
/* Whether a number is that of such a timerfd. */
bool rl_is_clock_watch(int descriptor) __attribute__((visibility("hidden")));
/* Waits until it is ready and takes what it reports, or until its number names something that cannot be waited for. False if the
 * kernel refuses the wait. */
bool rl_await_clock_change(int descriptor) __attribute__((visibility("hidden")));
static inline bool rl_is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

/* Eventfds that differ from all others by their count, which is never read: its upper part is a mark, the rest has room for what
 * is added. The count is looked up in /proc. Async-signal-safe. */
enum { RL_MARK_SHIFT = 24 };
int rl_marked_eventfd(uint64_t mark) __attribute__((visibility("hidden")));
/* 1: the eventfd has the mark; 0: the number names something else; -1: that cannot be determined, without /proc or a descriptor to look with. */
int rl_look_for_mark(int descriptor, uint64_t mark) __attribute__((visibility("hidden")));
/* Adds 1 to the count, which makes its sets look. False if the number names something else: nothing is written then. */
bool rl_raise_marked(int descriptor, uint64_t mark) __attribute__((visibility("hidden")));

/* Which file a number names. 0, or -1. */
static inline int rl_identify(int descriptor, uint64_t *device, uint64_t *inode) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return -1;
    *device = (uint64_t)status.st_dev;
    *inode = (uint64_t)status.st_ino;
    return 0;
}

/* With a point, whatever decimal sign the program's locale has: readers of the text may be programs. */
static inline int rl_format_double(char *text, size_t size, double value) {
    int length = snprintf(text, size, "%.6f", value);
    char *sign = text + strspn(text, "-0123456789"), *rest = text + length - 6;
    if (sign >= rest) return length;
    *sign = '.';
    memmove(sign + 1, rest, 7);
    return (int)(sign + 7 - text);
}

#endif
