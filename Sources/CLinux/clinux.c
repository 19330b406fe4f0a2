/* SPDX-License-Identifier: MIT */
/* The memory that Swift cannot define, thread-local and zeroed, and single calls of libc and the kernel that it cannot make. */
#define _GNU_SOURCE
#include <dlfcn.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "CLinux.h"
#include "CLinuxGuard.h"

__thread void *rl_thread_loop;
__thread bool rl_thread_had_loop;
__thread void *rl_thread_object;
__thread void *rl_thread_onces;
__thread struct rl_clock_memory rl_clock_memory;

bool rl_clock_has_number;

#define RL_DEFINE_STATE(part, size) char rl_##part##_state[size] __attribute__((aligned(64)));
RL_STATES(RL_DEFINE_STATE)

/* In librunloop.a there is none (cmake/RunLoopStatic.cmake). */
#pragma weak dlopen

bool rl_is_single_threaded(void) {
#if __has_include(<sys/single_threaded.h>)
    return __libc_single_threaded;
#else
    return false;
#endif
}

void *rl_dispatch_function(const char *name, bool searches) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function || !dlopen || !searches) return function;
    /* A library that was loaded with RTLD_LOCAL may have loaded it: it is in the process, and not in the global scope. The handle
     * is kept, so that it stays loaded. */
    void *library = dlopen("libdispatch.so", RTLD_NOLOAD | RTLD_LAZY);
    return library ? dlsym(library, name) : NULL;
}

bool rl_load_dispatch(struct rl_dispatch *functions, bool searches) {
    static const char names[] =
        "_dispatch_source_type_read\0dispatch_source_create\0dispatch_set_context\0"
        "dispatch_source_set_event_handler_f\0dispatch_source_set_cancel_handler_f\0dispatch_resume\0"
        "dispatch_retain\0dispatch_release\0dispatch_source_cancel\0dispatch_time\0"
        "dispatch_get_global_queue\0dispatch_after_f";
    void **slot = (void **)functions;
    for (const char *name = names; name < names + sizeof names; name += strlen(name) + 1) {
        *slot = rl_dispatch_function(name, searches);
        if (!*slot++) return false;
    }
    return true;
}

struct guarded_call {
    void (*function)(void *info);
    void *info;
};

static void call_out(void *call) {
    const struct guarded_call *guarded = call;
    RLCallOutFunction(guarded->function, guarded->info);
}

void rl_call_guarded(void (*function)(void *info), void *info, void (*cleanup)(void *argument), void *argument) {
    struct guarded_call call = {function, info};
    rl_guard(call_out, &call, cleanup, argument);
}

int rl_sys_poll(struct pollfd *entries, nfds_t count, int milliseconds) {
    int result;
    do {
        struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
        result = (int)syscall(SYS_ppoll, entries, count, milliseconds < 0 ? NULL : &time, NULL, (size_t)0);
    } while (result < 0 && errno == EINTR && milliseconds == 0);
    return result;
}

int rl_sys_nanosleep(const struct timespec *time) {
    const int result = (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, time, NULL);
    if (result == 0 || errno == EINTR) return result;
    const uint32_t word = 0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += time->tv_sec + (until.tv_nsec + time->tv_nsec) / 1000000000;
    until.tv_nsec = (until.tv_nsec + time->tv_nsec) % 1000000000;
    return rl_futex_wait(&word, 0, &until) == ETIMEDOUT ? 0 : -1;
}

int rl_epoll_ctl(int epoll, int operation, int descriptor, uint32_t events, uint64_t token) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = token;
    return epoll_ctl(epoll, operation, descriptor, &event);
}

int rl_epoll_put(int epoll, int descriptor, uint32_t events, uint64_t token) {
    if (rl_epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, events, token) == 0) return 0;
    return errno == EEXIST && rl_epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, events, token) == 0 ? 1 : -1;
}

/* Whether the number of a set was closed or names something else. A descriptor that is in no set is not found in one. */
static bool is_lost_set(int epoll) {
    int other = eventfd(0, EFD_CLOEXEC);
    /* Without a number no other set can be made either. */
    if (other < 0) return false;
    rl_epoll_ctl(epoll, EPOLL_CTL_DEL, other, 0, 0);
    int error = errno;
    rl_sys_close(other);
    /* A filter may refuse this call too: then nothing is known, and nothing is made anew again and again. */
    return error == EBADF || error == EINVAL;
}

int rl_wait_otherwise(int epoll, struct epoll_event *events, int room, int milliseconds) {
    int count = -1;
#ifdef SYS_epoll_wait
    /* Not all machines have it. A list of permitted calls may have only this one: it is what libc's function calls. */
    count = (int)syscall(SYS_epoll_wait, epoll, events, room, milliseconds);
#endif
    if (!rl_is_wait_refused(count)) return count;
    /* A filter may give the answer of a lost set, and refuse the call that would show it. */
    bool is_lost = is_lost_set(epoll);
    if (!is_lost) rl_sys_poll(NULL, 0, milliseconds < 0 || milliseconds > 100 ? 100 : milliseconds);
    errno = is_lost ? EBADF : EPERM;
    return -1;
}

int rl_epoll_wait_all(int epoll, const struct timespec *timeout, struct rl_event *events, int room) {
    struct epoll_event fetched[RL_EVENTS];
    /* The plain call is cheaper if there is no time to pass. */
    const bool polls = timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
    int count = timeout && !polls ? rl_sys_epoll_pwait2(epoll, fetched, room, timeout)
                                  : rl_sys_epoll_wait(epoll, fetched, room, polls ? 0 : -1);
    for (int i = 0; i < count; i++) events[i] = (struct rl_event){fetched[i].data.u64, fetched[i].events};
    return count;
}

ssize_t rl_read_nowait(int descriptor, void *bytes, size_t length) {
    struct iovec part = {bytes, length};
    return rl_sys_preadv2(descriptor, &part, 1, RWF_NOWAIT);
}

const char *rl_environment(const char *name) { return secure_getenv(name); }

int rl_child_status(int pidfd, int reap, int *status) {
    siginfo_t info;
    info.si_pid = 0;
    int options = WEXITED | WNOHANG | (reap ? 0 : WNOWAIT);
    /* waitid(2) is a cancellation point in libc, and this call never waits. */
    if (syscall(SYS_waitid, 3 /* P_PIDFD */, pidfd, &info, options, NULL) != 0) return -1;
    if (info.si_pid == 0) return 0;
    *status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8
                                         : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    return 1;
}

bool rl_is_child(int process) {
    return syscall(SYS_waitid, 1 /* P_PID */, process, NULL, WEXITED | WNOHANG | WNOWAIT, NULL) == 0;
}

int rl_former_status(int pidfd, int *status) {
    /* A thread that waits for the process tells first that it has, and the status a moment later. */
    for (int i = 0, last = 100; i < last; i++) {
        /* PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15); the headers of libc may be older. */
        struct { uint64_t mask, group; uint32_t ids[11]; int32_t status; } info = {.mask = 8};
        if (ioctl(pidfd, _IOWR(0xff, 11, info), &info) != 0) {
            /* The kernel may have looked for the status before that was there, and for the process when it was gone. */
            if (errno != ESRCH || last != 100) return -1;
            last = i + 2;
            continue;
        }
        *status = info.status;
        if (info.mask & 8) return 1;
        sched_yield();
    }
    return 0;
}

uint64_t rl_counts_of_moment(void) {
#if !RL_EXPLORE && (defined(__x86_64__) || defined(__i386__))
    /* "Invariant TSC": the same rate in all states of the processor. No such counter is slower than 0.53 or faster than 5.2 GHz. */
    unsigned a, b, c, d;
    bool is_steady = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
    return is_steady ? 1u << 19 : 1;
#elif !RL_EXPLORE && defined(__aarch64__)
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate >= 1000000 ? rate / 2048 : 1;
#elif RL_EXPLORE
    return 1u << 19;
#else
    return 1;
#endif
}
