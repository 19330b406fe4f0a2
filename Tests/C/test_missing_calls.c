/*
 * A kernel, an emulator or a filter that does not know a system call of the library, or forbids it (S-ARG-11). Filters answer
 * ENOSYS, older ones EPERM, some EACCES.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_socket.h"
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

RL_TEST(a_wait_sleeps_whatever_a_filter_answers, "S-ARG-11 S-RUN-18",
        "The same where the answer is EACCES") {
    check_waits(EACCES);
}

/* Filters that permit what the C library's epoll_wait calls, or nothing that waits in a set. */
static bool refuse_newer_waits(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_epoll_pwait && number != SYS_epoll_pwait2) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = EPERM;
    *result = -1;
    return true;
}

static bool refuse_all_waits(long number, const long argument[6], long *result) {
#ifdef SYS_epoll_wait
    if (number == SYS_epoll_wait) {
        errno = EPERM;
        *result = -1;
        return true;
    }
#endif
    return refuse_newer_waits(number, argument, result);
}

#ifdef SYS_epoll_wait
RL_TEST(a_wait_sleeps_with_the_oldest_call, "S-ARG-11",
        "Where a filter permits epoll_wait alone, runs with ports sleep, wake and end without spinning") {
    static Probe port = {.name = "port", .action = read_one};
    int ends[2];
    __atomic_store_n(&system_call_hook, refuse_newer_waits, __ATOMIC_SEQ_CST);
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.3, false, TimedOut);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("port");
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    ck_assert_int_le(refusals, 60);
}
#endif

RL_TEST(nothing_spins_where_no_wait_is_permitted, "S-ARG-11",
        "Where a filter forbids each wait in a set, runs with ports go on without them, end by time and by a stop, and do not spin") {
    static Probe port = {.name = "port", .action = read_one};
    int ends[2];
    __atomic_store_n(&system_call_hook, refuse_all_waits, __ATOMIC_SEQ_CST);
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0.3, false, TimedOut);
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
    expect_trace("");
    ck_assert_int_le(refusals, 60);
    __atomic_store_n(&system_call_hook, NULL, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("port");
}

/* A security module that forbids a process to take connections leaves them in the queue, see accept(2). */
static bool refuse_connections(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_accept4) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = answer;
    *result = -1;
    return true;
}

RL_TEST(a_connection_that_may_not_be_taken_waits, "S-SOCK-28",
        "A connection that the kernel refuses to give waits, with one log line and without spinning, and is taken when that is over") {
    static Socket listening = {.name = "s"};
    static Probe timer = {0};
    struct sockaddr_in address = loopback(0);
    socket_create(&listening, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(listening.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&listening);
    add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    log_capture();
    static const int errors[] = {EPERM, EACCES, ENOSYS};
    for (int i = 0; i < 3; i++) {
        answer = errors[i];
        __atomic_store_n(&system_call_hook, refuse_connections, __ATOMIC_SEQ_CST);
        int client = connect_to(port_of(RLSocketGetNative(listening.socket)));
        expect_run(kRLDefaultMode, 0.25, true, TimedOut);
        expect_trace("");
        __atomic_store_n(&system_call_hook, NULL, __ATOMIC_SEQ_CST);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:accept");
        close(client);
    }
    ck_assert_int_le(refusals, 30);
    ck_assert_int_eq(log_count(), 1);
}

RL_TEST(a_port_does_not_spin_where_it_may_not_accept, "S-ARG-10 S-SOCK-28",
        "A message port whose connections the kernel refuses to give looks for them now and then, and serves them when it may") {
    static Service service = {.reply = "late"};
    RLMessagePortRef port = add_service(&service, port_name("forbidden"), kRLDefaultMode);
    answer = EACCES;
    log_capture();
    __atomic_store_n(&system_call_hook, refuse_connections, __ATOMIC_SEQ_CST);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("forbidden"));
    ck_assert_ptr_nonnull(remote);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 2, 60, 0.25, kRLDefaultMode, NULL), kRLMessagePortReceiveTimeout);
    ck_assert_int_le(refusals, 10);
    ck_assert_int_eq(log_count(), 1);
    __atomic_store_n(&system_call_hook, NULL, __ATOMIC_SEQ_CST);
    ck_assert_str_eq(ask_text(remote, 1, "y", kRLDefaultMode), "late");
    RLRelease(remote);
    RLRelease(port);
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
