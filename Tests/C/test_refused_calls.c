/* SPDX-License-Identifier: MIT */
/*
 * Kernel calls that are refused, as by a filter of system calls: what the library does instead. Its calls are answered here.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <sys/syscall.h>

static int refused_call, refusal, refused, waits;

static bool refuse(long number, const long argument[6], long *result) {
    (void)argument;
    if (number == SYS_clock_nanosleep) __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    if (number != refused_call) return false;
    __atomic_add_fetch(&refused, 1, __ATOMIC_SEQ_CST);
    errno = refusal;
    *result = -1;
    return true;
}

/* Posts of another thread, faster than the loop makes passes. */

enum { POSTS = 300000 };
static int performed;

static void count_post(void *unused) {
    (void)unused;
    if (__atomic_add_fetch(&performed, 1, __ATOMIC_SEQ_CST) == POSTS) RLStop(RLGetCurrent());
}

static void post_and_wake(void *loop) {
    for (int i = 0; i < POSTS; i++) {
        RLPerformFunction(loop, kRLDefaultMode, count_post, NULL, NULL);
        RLWakeUp(loop);
    }
}

static void ignore(void *unused) { (void)unused; }

RL_TEST(busy_polling_without_barrier, "S-WAKE-8 S-BLK-3",
        "A loop that polls busily when membarrier is refused waits a while instead, does so no more, and "
        "performs every post") {
    static Probe probe = {.name = "s"};
    add_source(&probe, kRLDefaultMode);
    Thread *thread = thread_start(ignore, NULL);
    thread_join(thread);
    refused_call = SYS_membarrier;
    refusal = EPERM;
    hook_system_calls(refuse);
    refused = waits = 0;
    thread = when_waiting(probe.loop, post_and_wake, probe.loop);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    thread_join(thread);
    ck_assert_int_eq(performed, POSTS);
    /* A kernel that never had it lets no loop poll busily. */
    ck_assert_int_eq(refused > 0, waits > 0);
    hook_system_calls(NULL);
}
