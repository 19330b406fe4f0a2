/* SPDX-License-Identifier: MIT */
/*
 * The lock of a loop when the kernel takes no membarrier(2) any more, as with a filter of system
 * calls that was installed after the library was loaded. The kernel calls of the library are
 * replaced here.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <sys/syscall.h>

static int refuses_barrier, barriers, waits;

/* Counts the barriers, which it may refuse, and the waits instead of them. */
static bool watch_barriers(long number, const long argument[6], long *result) {
    (void)argument;
    if (number == SYS_clock_nanosleep && __atomic_load_n(&refuses_barrier, __ATOMIC_SEQ_CST))
        __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    if (number != SYS_membarrier) return false;
    __atomic_add_fetch(&barriers, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&refuses_barrier, __ATOMIC_SEQ_CST)) return false;
    errno = EPERM;
    *result = -1;
    return true;
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
    hook_system_calls(watch_barriers);
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
