/* SPDX-License-Identifier: MIT */
/*
 * Reads that the kernel goes on refusing, for lack of memory or by a security module: what waits stays ready all the time. It is looked at
 * again ten times a second, and is reported once it can be read.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long refused_call = -1;
static int refusal, refusals;

static bool refuse_call(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != __atomic_load_n(&refused_call, __ATOMIC_SEQ_CST)) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = __atomic_load_n(&refusal, __ATOMIC_SEQ_CST);
    *result = -1;
    return true;
}

static void refuse(long call, int error) {
    /* A thread of the library may still be in a call for the case before. */
    __atomic_store_n(&refusal, error, __ATOMIC_SEQ_CST);
    __atomic_store_n(&refusals, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&refused_call, call, __ATOMIC_SEQ_CST);
    hook_system_calls(refuse_call);
}

static void permit(void) {
    __atomic_store_n(&refused_call, -1, __ATOMIC_SEQ_CST);
    hook_system_calls(NULL);
}

/* While the reads are refused nothing is reported, and each look makes so many of them. */
static void expect_patience(int reads_of_a_look) {
    double begin = monotonic_now();
    while (monotonic_now() - begin < 0.3) RLRunInMode(kRLDefaultMode, 0.1, true);
    ck_assert_int_gt(count_of(&refusals), 0);
    ck_assert_double_le(count_of(&refusals), reads_of_a_look * (10 * (monotonic_now() - begin) + 3));
}

static void run_until_count(const int *counter, int value) {
    for (int i = 0; i < 1000 && count_of(counter) < value; i++) RLRunInMode(kRLDefaultMode, 0.01, true);
    ck_assert_int_ge(count_of(counter), value);
}

/* Sockets */

/* Data of a socket of that type that cannot be received with such an error. */
static void expect_data_to_stay_queued(int type, int error, int reads_of_a_look) {
    static Socket s;
    s = (Socket){.name = "s"};
    int ends[2];
    make_sockets(type, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    refuse(SYS_recvmsg, error);
    ck_assert_int_eq(send(ends[1], "hello", 5, 0), 5);
    expect_patience(reads_of_a_look);
    expect_trace("");
    ck_assert(RLSocketIsValid(s.socket));
    permit();
    run_until_count(&s.calls, 1);
    expect_trace("s:data=5");
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
    close(ends[1]);
}

RL_TEST(a_refused_datagram_stays_queued, "S-SOCK-51 S-ARG-13", "A datagram that cannot be received is reported once it can; until then there is no spin") {
    static const int errors[] = {EACCES, EPERM, ENOMEM, ENOBUFS};
    for (int i = 0; i < 4; i++) expect_data_to_stay_queued(SOCK_DGRAM, errors[i], 2);
}

RL_TEST(refused_bytes_of_a_stream_stay_queued, "S-SOCK-26 S-ARG-13",
        "Bytes of a stream for which the kernel has no memory are reported once it has, and do not end the socket; until then there is no spin") {
    static const int errors[] = {ENOMEM, ENOBUFS};
    for (int i = 0; i < 2; i++) expect_data_to_stay_queued(SOCK_STREAM, errors[i], 1);
}

RL_TEST(an_error_that_is_told_once_delays_nothing, "S-SOCK-51 S-ARG-13",
        "A datagram that comes with the error of an earlier send is reported in the same pass") {
    static Socket s = {.name = "s"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(bind(other, (struct sockaddr *)&address, sizeof address), 0);
    struct sockaddr_in own = loopback(port_of(fd)), peer = loopback(port_of(other));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&peer, sizeof peer), 0);
    ck_assert_int_eq(sendto(other, "hello", 5, 0, (struct sockaddr *)&own, sizeof own), 5);
    close(other);
    /* Refused, which the next receive reports. */
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    socket_make(&s, fd, kRLSocketDataCallBack);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("s:data=5");
}

static char large[1 << 20];

/* The bytes that a peer sends, all before it reads, to a socket that is being closed. */
static void expect_orderly_end(size_t queued, int error) {
    static Socket s;
    s = (Socket){.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    socket_add(&s);
    ck_assert_int_ge(RLSocketWrite(s.socket, large, queued, 0), 0);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    refuse(SYS_recvmsg, error);
    ck_assert_int_eq(send(ends[1], "hello", 5, 0), 5);
    expect_patience(1);
    ck_assert(RLSocketIsValid(s.socket));
    permit();
    size_t sent = 0, got = 0;
    const double end = monotonic_now() + 60;
    while (sent < sizeof large && monotonic_now() < end) {
        const ssize_t count = send(ends[1], large + sent, sizeof large - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) sent += (size_t)count;
        if (count < 0 && errno != EAGAIN) break;
        RLRunInMode(kRLDefaultMode, 0.001, true);
    }
    ck_assert_uint_eq(sent, sizeof large);
    shutdown(ends[1], SHUT_WR);
    static char taken[65536];
    ssize_t count = -1;
    while (count != 0 && monotonic_now() < end) {
        count = recv(ends[1], taken, sizeof taken, MSG_DONTWAIT);
        if (count > 0) got += (size_t)count;
        if (count < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            RLRunInMode(kRLDefaultMode, 0.001, true);
        }
    }
    ck_assert_uint_eq(got, queued);
    while (RLSocketIsValid(s.socket) && monotonic_now() < end) RLRunInMode(kRLDefaultMode, 0.001, true);
    ck_assert(!RLSocketIsValid(s.socket));
    RLRelease(s.socket);
    close(ends[1]);
}

RL_TEST(refused_bytes_end_no_orderly_close, "S-SOCK-63 S-ARG-13",
        "Where the kernel has no memory for what CloseOrderly drops, that is no end of the peer's stream: the peer gets all, and can send all first") {
    static const int errors[] = {ENOMEM, ENOBUFS};
    for (int i = 0; i < 2; i++) {
        expect_orderly_end(5, errors[i]);
        expect_orderly_end(sizeof large, errors[i]);
    }
}

/* Message ports */

RL_TEST(a_refused_message_stays_queued, "S-MSG-13 S-ARG-13",
        "A message that cannot be received is served once it can, also if its sender has ended; until then there is no spin") {
    static Service service = {.word = "m"};
    RLMessagePortRef local = add_service(&service, port_name("local"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("local"));
    ck_assert_int_eq(send_text(remote, 1, "a"), kRLMessagePortSuccess);
    run_until_count(&service.calls, 1);
    for (int ends = 0; ends < 2; ends++) {
        ck_assert_int_eq(send_text(remote, 2, "b"), kRLMessagePortSuccess);
        refuse(SYS_recvmsg, ENOMEM);
        if (ends) {
            RLMessagePortInvalidate(remote);
            RLRelease(remote);
            refusals = 0;
        }
        expect_patience(2);
        ck_assert_int_eq(service.calls, 1 + ends);
        permit();
        run_until_count(&service.calls, 2 + ends);
    }
    RLMessagePortInvalidate(local);
    RLRelease(local);
}

static int outcomes;
static void note_outcome(RLMessagePortRef remote, int32_t result, RLDataRef data, void *info) {
    (void)remote, (void)info;
    ck_assert_int_eq(result, kRLMessagePortSuccess);
    ck_assert_int_eq(RLDataGetLength(data), 5);
    outcomes++;
}

RL_TEST(a_refused_reply_stays_queued, "S-MSG-48 S-ARG-13", "A reply that cannot be received is handed over once it can; until then there is no spin") {
    Server server = server_start(port_name("server"), "reply", NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("server"));
    refuse(SYS_recvmsg, ENOMEM);
    ck_assert_int_eq(RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 60, RLGetCurrent(), kRLDefaultMode, note_outcome, NULL, NULL),
                     kRLMessagePortSuccess);
    while (count_of(&refusals) == 0) RLRunInMode(kRLDefaultMode, 0.1, true);
    refusals = 0;
    expect_patience(1);
    ck_assert_int_eq(outcomes, 0);
    permit();
    run_until_count(&outcomes, 1);
    server_kill(&server);
    RLRelease(remote);
}

/* Kernel events */

typedef struct Events {
    int calls;
    RLKernelEvent last;
} Events;

static void note_event(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source;
    Events *events = info;
    events->last = *event;
    events->calls++;
}

static RLSourceRef add_event(RLKernelEvent event, Events *events) {
    RLKernelEventContext context = {.version = 0, .info = events};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note_event, &context);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return source;
}

RL_TEST(a_refused_timer_is_told_later, "S-KEV-5 S-ARG-13", "A kernel timer that cannot be read is reported once it can; until then there is no spin") {
    static Events events;
    RLSourceRef source = add_event((RLKernelEvent){.ident = 1, .filter = kRLKernelFilterTimer, .data = 1}, &events);
    refuse(SYS_read, EIO);
    expect_patience(1);
    ck_assert_int_eq(events.calls, 0);
    permit();
    run_until_count(&events.calls, 1);
    RLSourceInvalidate(source);
}

static pid_t end_child(int status) {
    pid_t child = fork();
    if (child == 0) _exit(status);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    return child;
}

RL_TEST(a_refused_status_is_told_later, "S-KEV-4 S-ARG-13",
        "A child whose status the kernel refuses to tell is reported, with its status, and reaped once it tells; until then there is no spin") {
    static Events events;
    pid_t child = end_child(7);
    refuse(SYS_waitid, EPERM);
    add_event((RLKernelEvent){.ident = (uintptr_t)child, .filter = kRLKernelFilterProcess, .fflags = kRLNoteReap}, &events);
    expect_patience(1);
    ck_assert_int_eq(events.calls, 0);
    permit();
    run_until_count(&events.calls, 1);
    ck_assert(events.last.fflags & kRLNoteExitStatus);
    ck_assert_int_eq(WEXITSTATUS((int)events.last.data), 7);
    ck_assert_int_eq(waitpid(child, NULL, WNOHANG), -1);
}

static char path[64];
static int make_file(void) {
    strcpy(path, "/tmp/runloop-refused-XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    return file;
}

RL_TEST(refused_changes_of_a_file_are_told_later, "S-KEV-16 S-ARG-13",
        "Changes of files that cannot be read are reported once they can; until then there is no spin, and other sources are served") {
    static Events events, ticks;
    int file = make_file();
    RLSourceRef source = add_event((RLKernelEvent){.filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite, .path = path}, &events);
    RLSourceRef user = add_event((RLKernelEvent){.ident = 1, .filter = kRLKernelFilterUser}, &ticks);
    refuse(SYS_read, EIO);
    write_byte(file);
    expect_patience(1);
    RLKernelEventSourceTrigger(user, kRLNoteTrigger, 0);
    run_until_count(&ticks.calls, 1);
    ck_assert_int_eq(events.calls, 0);
    permit();
    run_until_count(&events.calls, 1);
    RLSourceInvalidate(source);
    RLSourceInvalidate(user);
    close(file);
    unlink(path);
}

static int reads, reads_elsewhere;
static bool look_at_reads(long number, const long argument[6], long *result) {
    (void)result;
    if (number != SYS_read) return false;
    pthread_attr_t attributes;
    void *stack;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &size);
    pthread_attr_destroy(&attributes);
    reads++;
    reads_elsewhere += (unsigned long)argument[1] - (unsigned long)stack >= size;
    return false;
}

RL_TEST(changes_of_a_file_are_read_without_memory, "S-KEV-16", "What happened to files is read to the stack: it needs no memory that could be missing") {
    static Events events;
    int file = make_file();
    RLSourceRef source = add_event((RLKernelEvent){.filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite, .path = path}, &events);
    hook_system_calls(look_at_reads);
    write_byte(file);
    run_until_count(&events.calls, 1);
    hook_system_calls(NULL);
    ck_assert_int_gt(reads, 0);
    ck_assert_int_eq(reads_elsewhere, 0);
    RLSourceInvalidate(source);
    close(file);
    unlink(path);
}
