/* SPDX-License-Identifier: MIT */
/* Another thread that changes a socket at each instruction of a run that reports it (stepping.h). */
#define _GNU_SOURCE
#include "stepping.h"
#include "support_socket.h"

#if defined(__x86_64__) && !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)

static RLSocketRef both;
static RLSourceRef both_source;
static long steps;
static bool has_enabled, was_met;
static int writes;

static void disable_write(void) { RLSocketDisableCallBacks(both, kRLSocketWriteCallBack); }

/* Read comes first in a report. It enables Write, which the report has claimed, once. */
static void enable_write(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)address, (void)data, (void)info;
    if (type == kRLSocketWriteCallBack) {
        writes++;
    } else if (!has_enabled) {
        has_enabled = true;
        RLSocketEnableCallBacks(socket, kRLSocketWriteCallBack);
        begin_steps(steps, ask_other);
    }
}

/* The report is over. */
static const void *keep(const void *info) { return info; }
static void end_report(const void *info) {
    (void)info;
    if (has_enabled && !was_met) was_met = end_steps();
}

static void make_both(int ends[2]) {
    RLSocketContext context = {.info = ends, .retain = keep, .release = end_report};
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    both = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack | kRLSocketWriteCallBack, enable_write, &context);
    RLSocketSetSocketFlags(both, kRLSocketCloseOnInvalidate | kRLSocketAutomaticallyReenableWriteCallBack);
    both_source = RLSocketCreateRunLoopSource(both, 0);
    RLAddSource(RLGetCurrent(), both_source, kRLDefaultMode);
    has_enabled = was_met = false;
    writes = 0;
}
static void end_both(int peer) {
    RLSocketInvalidate(both);
    RLRelease(both_source);
    RLRelease(both);
    close(peer);
}

RL_TEST(write_is_disabled_at_any_instruction_of_a_report, "S-SOCK-34 S-SOCK-36",
        "A thread disables Write at any instruction between the callbacks of a report, of which the first has enabled it: it is not enabled "
        "again at the end of the report") {
    int ends[2], withheld = 0;
    sem_init(&question, 0, 0);
    sem_init(&answer, 0, 0);
    other_call = disable_write;
    Thread *other = thread_start(make_calls, NULL);
    bool reached = true;
    for (steps = 1; reached; steps++) {
        make_both(ends);
        RLRunInMode(kRLDefaultMode, 0, true);
        reached = was_met;
        ck_assert(has_enabled);
        if (reached) {
            if (!is_answered) sem_wait(&answer);
            const int before = writes;
            withheld += before == 0;
            RLRunInMode(kRLDefaultMode, 0, true);
            ck_assert_int_eq(writes, before);
        }
        end_both(ends[1]);
    }
    is_over = true;
    sem_post(&question);
    thread_join(other);
    ck_assert_int_gt(withheld, 0);
}

#endif
