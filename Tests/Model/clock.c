#define _GNU_SOURCE
#include "clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { MAX_IDLE_CALLS = 200000 };

/* The monotonic clock has a number of its own, so that a mix-up of the clocks shows. It never goes
   back, also not from one sequence to the next; the wall clock is set back for each. */
static int64_t monotonic_start = INT64_C(100000) * 1000000000;
static const int64_t wall_start = (INT64_C(978307200) + (int64_t)CLOCK_WALL_START) * 1000000000;

static __thread bool joined;
static int64_t now;
static long idle_calls;

bool (*clock_block)(int64_t *now, int64_t deadline);
void (*clock_stuck)(void);

void clock_join(void) { joined = true; }

void clock_reset(void) {
    monotonic_start += now + INT64_C(1000000000);
    now = 0;
    idle_calls = 0;
}

int64_t clock_now(void) { return now; }

void clock_advance(int64_t nanoseconds) { now += nanoseconds; }

void clock_progress(void) { idle_calls = 0; }

static void *next_symbol(const char *name) { return dlsym(RTLD_NEXT, name); }

static void count_call(void) {
    if (++idle_calls > MAX_IDLE_CALLS) clock_stuck();
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int64_t reading;
    switch (joined ? clock : -1) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        reading = monotonic_start + now;
        break;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        reading = wall_start + now;
        break;
    default: {
        static int (*real)(clockid_t, struct timespec *);
        if (!real) real = (__typeof__(real))next_symbol("clock_gettime");
        return real(clock, time);
    }
    }
    count_call();
    time->tv_sec = reading / 1000000000;
    time->tv_nsec = reading % 1000000000;
    return 0;
}

int epoll_pwait2(int epfd, struct epoll_event *events, int capacity, const struct timespec *timeout,
                 const sigset_t *mask) {
    static int (*real)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    static const struct timespec zero;
    if (!real) real = (__typeof__(real))next_symbol("epoll_pwait2");
    if (!joined) return real(epfd, events, capacity, timeout, mask);
    count_call();
    int ready = real(epfd, events, capacity, &zero, mask);
    if (ready != 0 || (timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0)) return ready;
    int64_t deadline = timeout ? now + timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec : TIME_NEVER;
    if (clock_block(&now, deadline)) return 0;
    /* What happened was done by a signal handler, as far as the library can tell. */
    errno = EINTR;
    return -1;
}

/* What the library calls for a wait without an end, and for none. */
int epoll_wait(int epfd, struct epoll_event *events, int capacity, int milliseconds) {
    struct timespec timeout = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    return epoll_pwait2(epfd, events, capacity, milliseconds < 0 ? NULL : &timeout, NULL);
}

static long wait_on_futex(const uint32_t *word, uint32_t value, const struct timespec *timeout) {
    count_call();
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        errno = EAGAIN;
        return -1;
    }
    int64_t deadline =
        timeout ? timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec - monotonic_start : TIME_NEVER;
    if ((deadline != TIME_NEVER && deadline <= now) || clock_block(&now, deadline)) {
        errno = ETIMEDOUT;
        return -1;
    }
    errno = EINTR;
    return -1;
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
    va_end(list);
    if (joined && number == SYS_futex && ((int)argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
        return wait_on_futex((const uint32_t *)argument[0], (uint32_t)argument[2],
                             (const struct timespec *)argument[3]);
    if (!real) real = (__typeof__(real))next_symbol("syscall");
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
