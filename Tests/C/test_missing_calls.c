/* SPDX-License-Identifier: MIT */
/*
 * A kernel, an emulator or a filter that does not know a system call of the library, or forbids it (S-ARG-11). Filters answer
 * ENOSYS, older ones EPERM, some EACCES.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The calls that are refused, ended by -1, and with which error. */
static const long *refused;
static int answer, refusals, waits;

static bool refuse_call(long number, const long argument[6], long *result) {
    (void)argument;
    if (number == SYS_epoll_pwait) __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
    const long *each = refused;
    while (*each >= 0 && *each != number) each++;
    if (*each < 0) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = answer;
    *result = -1;
    return true;
}

static void refuse(const long *calls, int error) {
    refused = calls;
    answer = error;
    hook_system_calls(refuse_call);
}

static const long fine_wait[] = {SYS_epoll_pwait2, -1};
/* Of filters that permit what the C library's epoll_wait calls, or nothing that waits in a set. */
static const long newer_waits[] = {SYS_epoll_pwait, SYS_epoll_pwait2, -1};
static const long all_waits[] = {
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    SYS_epoll_pwait, SYS_epoll_pwait2, -1};
/* A security module that forbids a process to take connections leaves them in the queue, see accept(2). */
static const long accepting[] = {SYS_accept4, -1};
static const long reading[] = {SYS_preadv2, -1};
/* It fails as well where the limit of descriptors is 0, see poll(2). */
static const long polling[] = {SYS_ppoll, -1};

static void read_one(Probe *self) { read_byte(self->fd); }

/* A port that reads what made it ready, in the default mode; returns where to write to. */
static int add_reader(void) {
    static Probe port = {.name = "port", .action = read_one};
    int ends[2];
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);
    return ends[1];
}

static void expect_a_stop_to_end_a_wait(void) {
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(thread);
}

static void expect_a_port_and_a_stop_to_end_a_wait(int end) {
    write_byte(end);
    expect_run(kRLDefaultMode, 1e9, true, HandledSource);
    expect_trace("port");
    expect_a_stop_to_end_a_wait();
}

static void check_waits(int error) {
    static Probe timer = {.name = "timer"};
    refuse(fine_wait, error);
    int end = add_reader();

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

    expect_a_port_and_a_stop_to_end_a_wait(end);
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

RL_TEST(a_wait_sleeps_where_a_filter_has_odd_answers, "S-ARG-11 S-RUN-18",
        "The same where the answer is one that a lost set would have") {
    check_waits(EINVAL);
}

RL_TEST(a_wait_sleeps_where_a_filter_tells_of_no_set, "S-ARG-11 S-RUN-18", "The same where the answer is EBADF") { check_waits(EBADF); }

#ifdef SYS_epoll_wait
RL_TEST(a_wait_sleeps_with_the_oldest_call, "S-ARG-11",
        "Where a filter permits epoll_wait alone, runs with ports sleep, wake and end without spinning") {
    refuse(newer_waits, EPERM);
    int end = add_reader();
    expect_run(kRLDefaultMode, 0.3, false, TimedOut);
    expect_a_port_and_a_stop_to_end_a_wait(end);
    ck_assert_int_le(refusals, 60);
}
#endif

RL_TEST(nothing_spins_where_no_wait_is_permitted, "S-ARG-11",
        "Where a filter forbids each wait in a set, runs with ports go on without them, end by time and by a stop, and do not spin") {
    int end = add_reader();
    write_byte(end);
    /* Two of the answers are those of a lost set. */
    static const int errors[] = {EPERM, EINVAL, EBADF};
    for (int i = 0; i < 3; i++) {
        refuse(all_waits, errors[i]);
        expect_run(kRLDefaultMode, 0.3, false, TimedOut);
        expect_a_stop_to_end_a_wait();
        expect_trace("");
    }
    ck_assert_int_le(refusals, 180);
    hook_system_calls(NULL);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("port");
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
        refuse(accepting, errors[i]);
        int client = connect_to(port_of(RLSocketGetNative(listening.socket)));
        expect_run(kRLDefaultMode, 0.25, true, TimedOut);
        expect_trace("");
        hook_system_calls(NULL);
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
    log_capture();
    refuse(accepting, EACCES);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("forbidden"));
    ck_assert_ptr_nonnull(remote);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 2, 60, 0.25, kRLDefaultMode, NULL), kRLMessagePortReceiveTimeout);
    ck_assert_int_le(refusals, 10);
    ck_assert_int_eq(log_count(), 1);
    hook_system_calls(NULL);
    ck_assert_str_eq(ask_text(remote, 1, "y", kRLDefaultMode), "late");
    RLRelease(remote);
    RLRelease(port);
}

/* A sender that waits for room. */
static struct {
    RLMessagePortRef remote;
    int32_t code;
} sending;

static int32_t send_long(RLTimeInterval seconds) {
    static const char bytes[20000];
    return RLMessagePortSendRequest(sending.remote, 1, bytes, sizeof bytes, seconds, 0, NULL, NULL);
}
static void send_and_stop(void *loop) {
    sending.code = send_long(600);
    RLStop(loop);
}

RL_TEST(a_sender_waits_without_ppoll, "S-ARG-11 S-MSG-23",
        "Where ppoll is refused, a message waits for its timeout without spinning, and is sent once there is room") {
    static Service service;
    RLMessagePortRef port = add_service(&service, port_name("full"), kRLDefaultMode);
    sending.remote = RLMessagePortCreateRemote(port_name("full"));
    int count = 0;
    while (send_long(0) == kRLMessagePortSuccess) count++;
    static const int errors[] = {EPERM, ENOSYS, EINVAL};
    for (int i = 0; i < 3; i++) {
        refuse(polling, errors[i]);
        refusals = 0;
        ck_assert_int_eq(send_long(0.2), kRLMessagePortSendTimeout);
        /* A hundred in a second. One that spins makes a hundred thousand. */
        ck_assert_int_ge(refusals, 1);
        ck_assert_int_le(refusals, 30);
    }
    refusals = 0;
    Thread *sender = thread_start(send_and_stop, RLGetCurrent());
    wait_until_count(&refusals, 2);
    expect_run(kRLDefaultMode, 1e9, false, Stopped);
    thread_join(sender);
    ck_assert_int_eq(sending.code, kRLMessagePortSuccess);
    hook_system_calls(NULL);
    while (service.calls < count + 1) RLRunInMode(kRLDefaultMode, 60, true);
    RLRelease(sending.remote);
    RLRelease(port);
}

static bool refuses_getsockopt;
int getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
    if (refuses_getsockopt) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
}

RL_TEST(a_connection_ends_without_getsockopt, "S-ARG-11 S-MSG-42",
        "Where getsockopt is refused after a client has connected, its end keeps no descriptor and does not make the loop spin") {
    static Service service = {.reply = "yes"};
    static Probe passes;
    int before = count_descriptors();
    RLMessagePortRef port = add_service(&service, port_name("ends"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("ends"));
    ck_assert_str_eq(ask_text(remote, 1, "x", kRLDefaultMode), "yes");
    refuses_getsockopt = true;
    RLMessagePortInvalidate(remote);
    RLRelease(remote);
    add_observer(&passes, kRLBeforeWaiting, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0.05, false);
    ck_assert_int_le(passes.calls, 20);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    refuses_getsockopt = false;
    ck_assert_int_le(count_descriptors(), before + 3); /* The set of the mode, and what the process keeps. */
}

RL_TEST(a_socket_s_sender_waits_without_ppoll, "S-ARG-11 S-SOCK-45",
        "Where ppoll is refused, a send with a timeout does not spin until there is room or the time is over") {
    static Socket socket = {.name = "s"};
    static const char byte[1];
    static char many[4096];
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    while (send(ends[0], many, sizeof many, MSG_DONTWAIT) > 0) {}
    while (send(ends[0], many, 1, MSG_DONTWAIT) > 0) {}
    socket_make(&socket, ends[0], kRLSocketNoCallBack);
    refuse(polling, EPERM);
    ck_assert_int_eq(RLSocketSendData(socket.socket, NULL, 0, byte, 1, 0.2), kRLSocketError);
    ck_assert_int_ge(refusals, 1);
    ck_assert_int_le(refusals, 300);
    hook_system_calls(NULL);
    RLSocketInvalidate(socket.socket);
    RLRelease(socket.socket);
}

RL_TEST(a_counter_is_served_without_preadv2, "S-ARG-11 S-SRC-46",
        "Where preadv2 is answered by ENOSYS or EPERM, an eventfd performs once for what was written and is read before") {
    static Probe port = {.name = "port"};
    static const int errors[] = {ENOSYS, EPERM};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 2; i++) {
        eventfd_t count;
        refuse(reading, errors[i]);
        refusals = 0;
        eventfd_signal(port.fd);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("port");
        ck_assert_int_ge(refusals, 1);
        ck_assert_int_eq(eventfd_read(port.fd, &count), -1);
        ck_assert_int_eq(errno, EAGAIN);
    }
}

/* The clock is set, as the next read of a timerfd that was to hear of it says, which is made without the first kind of call, too. */
static bool cancel_counts(long number, const long argument[6], long *result) {
    if (number == *refused) return refuse_call(number, argument, result);
    if ((number != SYS_preadv2 && (number != SYS_read || argument[2] != 8)) || system_call(number, argument) <= 0) return false;
    refusals++;
    errno = ECANCELED;
    *result = -1;
    return true;
}

RL_TEST(a_counter_says_that_the_clock_was_set, "S-SRC-46 S-SRC-47",
        "A counter whose read fails because the wall clock was set is performed once, for that as for a count") {
    static Probe port = {.name = "port"};
    static const long none[] = {-1};
    const long *first[] = {none, reading};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    for (int i = 0; i < 2; i++) {
        refuse(first[i], EINVAL);
        hook_system_calls(cancel_counts);
        refusals = 0;
        eventfd_signal(port.fd);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("port");
        ck_assert_int_ge(refusals, 1 + i);
        expect_run(kRLDefaultMode, 0, true, TimedOut);
        hook_system_calls(NULL);
    }
}

/* Two loops have one counter, and the first that is about to read it waits until the other one is, or waits for a lock. */
static struct {
    int descriptor, begun, comes, waits, reads;
    LoopThread loops[2];
    RLSourceRef source;
    Probe probe;
} counter;
static __thread bool shares_counter;

static bool refuse_and_meet(long number, const long argument[6], long *result) {
    if (refuse_call(number, argument, result)) return true;
    if (!shares_counter) return false;
    /* From the time on the loops wait in epoll, so a wait for a futex is one for the lock, before the other loop's read or during it. */
    if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) != FUTEX_WAKE && count_of(&counter.begun))
        __atomic_store_n(&counter.waits, 1, __ATOMIC_SEQ_CST);
    if (number != SYS_read || argument[0] != counter.descriptor) return false;
    if (__atomic_add_fetch(&counter.comes, 1, __ATOMIC_SEQ_CST) == 1)
        while (!count_of(&counter.waits) && count_of(&counter.comes) == 1) usleep(100);
    return false;
}

static void count_read(Probe *self) {
    (void)self;
    __atomic_add_fetch(&counter.reads, 1, __ATOMIC_SEQ_CST);
}

static void run_counter(LoopThread *self) {
    shares_counter = true;
    RLAddSource(self->loop, counter.source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1e9, false);
}

RL_TEST(two_loops_share_a_counter_without_preadv2, "S-ARG-11 S-SRC-46",
        "Of two loops that see one count of a blocking timerfd, one reads it and the other goes on") {
    counter.descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    counter.probe.action = count_read;
    counter.source = probe_port(&counter.probe, counter.descriptor);
    refuse(reading, EOPNOTSUPP);
    hook_system_calls(refuse_and_meet);
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&counter.loops[i], run_counter, NULL);
        wait_until_waiting(counter.loops[i].loop);
    }
    struct itimerspec once = {.it_value = {.tv_nsec = 1}};
    __atomic_store_n(&counter.begun, 1, __ATOMIC_SEQ_CST);
    ck_assert_int_eq(timerfd_settime(counter.descriptor, 0, &once, NULL), 0);
    wait_until_count(&counter.reads, 1);
    for (int i = 0; i < 2; i++) {
        RLPerformFunction(counter.loops[i].loop, kRLDefaultMode, call_stop, counter.loops[i].loop, NULL);
        RLWakeUp(counter.loops[i].loop);
        thread_join(counter.loops[i].thread);
    }
    hook_system_calls(NULL);
    ck_assert_int_eq(counter.reads, 1);
    RLRelease(counter.source);
}

/* The library calls it by libc. */
static bool refuses_gettime;
int timerfd_gettime(int descriptor, struct itimerspec *left) {
    if (!refuses_gettime) return (int)syscall(SYS_timerfd_gettime, descriptor, left);
    errno = ENOSYS;
    return -1;
}
static void do_nothing(RLTimerRef timer, void *info) { (void)timer, (void)info; }

RL_TEST(a_foreign_run_without_timerfd_gettime, "S-ARG-11 S-FRN-4 S-FD-18", "A foreign run goes on with its timer where the kernel does not tell that timer's setting") {
    refuses_gettime = true;
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 0.001, 0, 0, do_nothing, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    log_capture();
    int before = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 1) before = count_descriptors();
        RLForeignRunPrepare(run);
        struct pollfd host = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        ck_assert_int_eq(poll(&host, 1, 1000), 1);
        RLForeignRunDispatch(run);
    }
    ck_assert_int_eq(count_descriptors(), before);
    ck_assert_int_eq(log_count(), 0);
    RLTimerInvalidate(timer);
    RLRelease(timer);
    RLForeignRunInvalidate(run);
    RLRelease(run);
}
