/*
 * A kernel, an emulator or a filter that does not know a system call of the library (S-ARG-11). Filters answer ENOSYS, older
 * ones EPERM.
 */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

static int answer, refusals, waits;

static bool refuse_fine_wait(long number, const long argument[6], long *result) {
    (void)argument;
    if (number == SYS_epoll_pwait) __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    if (number != SYS_epoll_pwait2) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = answer;
    *result = -1;
    return true;
}

static void read_one(Probe *self) { read_byte(self->fd); }

static void check_waits(int error) {
    static Probe port = {.name = "port", .action = read_one}, timer = {.name = "timer"};
    int ends[2];
    answer = error;
    __atomic_store_n(&system_call_hook, refuse_fine_wait, __ATOMIC_SEQ_CST);
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);

    double start = monotonic_now();
    expect_run(kRLDefaultMode, 0.3, false, TimedOut);
    ck_assert_double_ge(monotonic_now() - start, 0.3 - 1e-6);
    ck_assert_int_ge(refusals, 1);
    /* A run of one wait. A loop that spins makes a hundred thousand. */
    ck_assert_int_le(refusals, 10);
    ck_assert_int_le(waits, 20);

    /* Less than a millisecond ahead, and more; with an end of the run that is far. */
    RLAbsoluteTime soon = date_in(0.0105);
    add_timer(&timer, soon, 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    ck_assert(RLAbsoluteTimeGetCurrent() >= soon - 1e-6);
    expect_trace("timer");

    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("port");
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    ck_assert_int_le(refusals, 30);
}

RL_TEST(a_wait_sleeps_without_epoll_pwait2, "S-ARG-11 S-RUN-18",
        "Where epoll_pwait2 is answered by ENOSYS, runs with ports sleep, wake and end, never early and without spinning") {
    check_waits(ENOSYS);
}

RL_TEST(a_wait_sleeps_where_a_filter_forbids_epoll_pwait2, "S-ARG-11 S-RUN-18",
        "The same where the answer is EPERM") {
    check_waits(EPERM);
}

static bool refuse_look(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_preadv2) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = answer;
    *result = -1;
    return true;
}

RL_TEST(a_counter_is_served_without_preadv2, "S-ARG-11 S-SRC-46",
        "Where preadv2 is answered by ENOSYS or EPERM, an eventfd performs once for what was written and is read before") {
    static Probe port = {.name = "port"};
    static const int errors[] = {ENOSYS, EPERM};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    __atomic_store_n(&system_call_hook, refuse_look, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) {
        eventfd_t count;
        answer = errors[i];
        refusals = 0;
        eventfd_signal(port.fd);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("port");
        ck_assert_int_ge(refusals, 1);
        ck_assert_int_eq(eventfd_read(port.fd, &count), -1);
        ck_assert_int_eq(errno, EAGAIN);
    }
}
