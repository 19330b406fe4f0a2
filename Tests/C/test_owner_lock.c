/*
 * The lock of a loop when the kernel takes no membarrier(2) any more, as with a filter of system
 * calls that was installed after the library was loaded. The kernel calls of the library are
 * replaced here.
 */
#define _GNU_SOURCE
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int refuses_barrier, barriers, waits;

long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_membarrier) {
        __atomic_add_fetch(&barriers, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&refuses_barrier, __ATOMIC_SEQ_CST)) {
            errno = EPERM;
            return -1;
        }
    }
    long argument[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
    va_end(list);
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}

int nanosleep(const struct timespec *time, struct timespec *left) {
    if (__atomic_load_n(&refuses_barrier, __ATOMIC_SEQ_CST))
        __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left) == 0 ? 0 : -1;
}

static RLRunLoopRef loop;
static RLTimerRef timer;

static void add_from_elsewhere(void *unused) {
    (void)unused;
    RLAddTimer(loop, timer, kRLDefaultMode);
    RLRemoveTimer(loop, timer, kRLDefaultMode);
}

static void use_own_lock(void) {
    for (int i = 0; i < 2000; i++) RLContainsTimer(loop, timer, kRLDefaultMode);
}

RL_TEST(without_barrier_there_is_no_bias, "S-THR-1 S-ARG-10",
        "A thread that cannot make the owner's processor see that the lock is its own now waits a "
        "while instead, and the owner gets no bias after that") {
    loop = RLGetCurrent();
    timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, NULL, NULL);
    use_own_lock();
    barriers = 0;
    thread_join(thread_start(add_from_elsewhere, NULL));
    int used = barriers;
    use_own_lock();
    refuses_barrier = 1;
    thread_join(thread_start(add_from_elsewhere, NULL));
    /* A kernel that never had it gives no bias in the first place. */
    ck_assert_int_eq(waits > 0, used > 0);
    barriers = waits = 0;
    for (int i = 0; i < 3; i++) {
        use_own_lock();
        thread_join(thread_start(add_from_elsewhere, NULL));
        ck_assert(!RLContainsTimer(loop, timer, kRLDefaultMode));
    }
    ck_assert_int_eq(barriers, 0);
    ck_assert_int_eq(waits, 0);
    refuses_barrier = 0;
    RLRelease(timer);
}
