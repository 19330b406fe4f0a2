/* SPDX-License-Identifier: MIT */
/* Section 15.5: sending without waiting, and the queue. */
#define _GNU_SOURCE
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUCH = 4 << 20, ALL_OF_IT = 1 << 30 };

static Socket s = {.name = "s"};
static int ends[2];
static unsigned char much[MUCH];

/* Bytes that tell their places. */
static void fill_much(void) {
    for (size_t i = 0; i < MUCH; i++) much[i] = (unsigned char)(i * 2654435761u >> 13);
}

/* The object for ends[0], in the loop, with its first Write callback behind it. */
static void begin(int type, RLOptionFlags types) {
    make_sockets(type, ends);
    socket_make(&s, ends[0], types);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    trace_take();
}

/* Reads what ends[1] has and compares it with `much` from `place` on. The new place. */
static size_t take_some(size_t place) {
    static unsigned char bytes[65536];
    ssize_t count = recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
    if (count <= 0) return place;
    ck_assert_uint_le(place + (size_t)count, MUCH);
    ck_assert(memcmp(bytes, much + place, (size_t)count) == 0);
    return place + (size_t)count;
}

/* Runs the loop and reads in turn until `length` bytes have come. */
static void take_all(size_t place, size_t length) {
    while (place < length) {
        RLRunInMode(kRLDefaultMode, 0, false);
        place = take_some(place);
    }
    ck_assert_uint_eq(place, length);
}

RL_TEST(send_tells_how_many_bytes_went, "S-SOCK-56",
        "A send on a blocking descriptor takes a part, then none with EAGAIN, and never waits") {
    begin(SOCK_STREAM, 0);
    RLIndex first = RLSocketSend(s.socket, NULL, 0, much, MUCH);
    ck_assert_int_gt(first, 0);
    ck_assert_int_lt(first, MUCH);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, much, MUCH), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, NULL, 5), 0);
    ck_assert_int_eq(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
}

RL_TEST(send_refuses, "S-SOCK-56 S-SOCK-57",
        "NULL and invalid sockets are EBADF, lengths that no memory has EINVAL, a peer that is gone EPIPE without a signal") {
    signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(RLSocketSend(NULL, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(RLSocketWrite(NULL, "x", 1, 1), -1);
    ck_assert_int_eq(errno, EBADF);
    begin(SOCK_STREAM, 0);
    const size_t lengths[] = {SIZE_MAX, (size_t)1 << 63, SIZE_MAX / 2, (size_t)1 << 60};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, much, lengths[i]), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_int_eq(RLSocketWrite(s.socket, much, lengths[i], 1), -1);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_int_eq(RLSocketSend(s.socket, much, lengths[i], "x", 1), -1);
        ck_assert_int_eq(errno, EINVAL);
    }
    close(ends[1]);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, EBADF);
}

RL_TEST(send_to_an_address, "S-SOCK-56", "A datagram goes to the address that is given, whole") {
    int receiver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(receiver, (struct sockaddr *)&address, sizeof address), 0);
    address = loopback(port_of(receiver));
    socket_create(&s, PF_INET, SOCK_DGRAM, 0);
    char text[8];
    ck_assert_int_eq(RLSocketSend(s.socket, &address, sizeof address, "abc", 3), 3);
    ck_assert_int_eq(recv(receiver, text, sizeof text, 0), 3);
    ck_assert_int_eq(RLSocketSend(s.socket, &address, sizeof address, "", 0), 0);
    ck_assert_int_eq(recv(receiver, text, sizeof text, 0), 0);
}

RL_TEST(what_is_written_arrives, "S-SOCK-57 S-SOCK-58 S-SOCK-59",
        "Far more than the kernel takes arrives in order, from one write and from many; one Write callback tells the end") {
    fill_much();
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    RLIndex waiting = RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    ck_assert_int_gt(waiting, 0);
    ck_assert_int_eq(RLSocketWrite(s.socket, NULL, 0, 0), waiting);
    take_all(0, MUCH);
    expect_trace("s:write");
    ck_assert_int_eq(RLSocketWrite(s.socket, NULL, 0, 0), 0);
    /* Portions of all lengths, with reading in between that keeps the queue about full. */
    size_t written = 0, taken = 0;
    for (size_t length = 1; written < MUCH; length = length * 5 % 30011 + 1) {
        if (length > MUCH - written) length = MUCH - written;
        ck_assert_int_ge(RLSocketWrite(s.socket, much + written, length, ALL_OF_IT), 0);
        written += length;
        if (length % 3 == 0) RLRunInMode(kRLDefaultMode, 0, false);
        if (length % 2 == 0) taken = take_some(taken);
    }
    take_all(taken, MUCH);
    ck_assert_int_eq(RLSocketWrite(s.socket, NULL, 0, 0), 0);
    ck_assert_int_eq(recv(ends[1], much, 1, MSG_DONTWAIT), -1);
}

RL_TEST(what_the_kernel_takes_is_not_queued, "S-SOCK-57 S-SOCK-59",
        "A write that the kernel takes whole returns 0, allocates nothing and brings no Write callback") {
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
    size_t before = mallinfo2().uordblks;
#endif
    /* An assertion keeps the name of its file, so there is none in between. */
    bool all_taken = true;
    char text[4];
    for (int i = 0; i < 100; i++) {
        all_taken &= RLSocketWrite(s.socket, "abcd", 4, 0) == 0;
        all_taken &= recv(ends[1], text, 4, 0) == 4;
    }
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
    size_t after = mallinfo2().uordblks;
    ck_assert_uint_eq(after, before);
#endif
    ck_assert(all_taken);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
}

RL_TEST(the_queue_has_a_bound, "S-SOCK-57",
        "A write is refused whole while more than highWater bytes are queued, and goes on when they are sent") {
    fill_much();
    begin(SOCK_STREAM, 0);
    size_t length = 0;
    RLIndex waiting;
    while ((waiting = RLSocketWrite(s.socket, much + length, 10000, 50000)) >= 0) {
        ck_assert_int_le(waiting, 60000);
        length += 10000;
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_gt(RLSocketWrite(s.socket, NULL, 0, 0), 50000);
    ck_assert_int_eq(RLSocketWrite(s.socket, much, 1, SIZE_MAX), RLSocketWrite(s.socket, NULL, 0, 0));
    much[length] = much[0];
    take_all(0, length + 1);
}

RL_TEST(nothing_overtakes_the_queue, "S-SOCK-56", "Send and SendData are refused while bytes are queued") {
    begin(SOCK_STREAM, 0);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    char byte;
    for (int i = 0; i < 300000; i++) recv(ends[1], &byte, 1, MSG_DONTWAIT);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, 0), kRLSocketError);
    ck_assert_int_eq(errno, EAGAIN);
}

RL_TEST(the_queue_needs_no_callback_type, "S-SOCK-58",
        "Queued bytes are sent while every type is disabled; that handles no source, and none is told") {
    fill_much();
    begin(SOCK_STREAM, kRLSocketDataCallBack | kRLSocketWriteCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    RLSocketDisableCallBacks(s.socket, kRLSocketDataCallBack | kRLSocketWriteCallBack);
    size_t place = 0;
    while (place < MUCH) {
        expect_run(kRLDefaultMode, 0, true, TimedOut);
        place = take_some(place);
    }
    expect_trace("");
}

RL_TEST(the_queue_waits_for_a_loop, "S-SOCK-58", "Bytes that are queued before the source is in a loop are sent when it is") {
    fill_much();
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], 0);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    socket_add(&s);
    size_t place = take_some(0);
    RLRunInMode(kRLDefaultMode, 0, false);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    for (int i = 0; i < 1000; i++) place = take_some(place);
    ck_assert_uint_lt(place, MUCH);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    take_all(place, MUCH);
}

static RLRunLoopRef the_loop;
static void *write_much_elsewhere(void *);

RL_TEST(a_sleeping_loop_sends, "S-SOCK-58 S-SOCK-61",
        "A thread writes to a socket whose loop sleeps: the loop sends the queue without a wake-up") {
    fill_much();
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    the_loop = RLGetCurrent();
    pthread_t thread;
    pthread_create(&thread, NULL, write_much_elsewhere, NULL);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    pthread_join(thread, NULL);
}

static void *read_much(void *unused) {
    (void)unused;
    static unsigned char bytes[65536];
    size_t place = 0;
    while (place < MUCH) {
        ssize_t count = recv(ends[1], bytes, sizeof bytes, 0);
        ck_assert_int_gt(count, 0);
        ck_assert(memcmp(bytes, much + place, (size_t)count) == 0);
        place += (size_t)count;
    }
    RLStop(the_loop);
    return NULL;
}

static void *write_much_elsewhere(void *unused) {
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    return read_much(unused);
}

/* Each record is a thread's letter, 1000 times. */
enum { THREADS = 4, RECORDS = 500, RECORD = 1000 };
static void *write_records(void *letter) {
    char record[RECORD];
    memset(record, *(char *)letter, sizeof record);
    for (int i = 0; i < RECORDS; i++)
        while (RLSocketWrite(s.socket, record, sizeof record, 100000) < 0) {
            ck_assert_int_eq(errno, EAGAIN);
            sched_yield();
        }
    return NULL;
}

static int counts[THREADS];
static void *read_records(void *unused) {
    (void)unused;
    char record[RECORD];
    for (int i = 0; i < THREADS * RECORDS; i++) {
        ck_assert_int_eq(recv(ends[1], record, sizeof record, MSG_WAITALL), RECORD);
        /* Once for all its bytes: Check notes each assertion in a file, and two million take longer than the run may. */
        ck_assert_int_eq(memcmp(record, record + 1, RECORD - 1), 0);
        counts[record[0] - 'a']++;
    }
    RLStop(the_loop);
    return NULL;
}

RL_TEST(bytes_of_one_call_stay_together, "S-SOCK-61", "Four threads write records to one socket, whose loop sends what is queued") {
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    the_loop = RLGetCurrent();
    static char letters[] = "abcd";
    pthread_t threads[THREADS], reader;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, write_records, &letters[i]);
    pthread_create(&reader, NULL, read_records, NULL);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    pthread_join(reader, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(counts[i], RECORDS);
    }
}

RL_TEST(records_are_not_queued, "S-SOCK-57",
        "Datagrams and records are taken whole or refused with EAGAIN, and their boundaries stay") {
    const int types[] = {SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        begin(types[i], 0);
        int sent = 0;
        while (RLSocketWrite(s.socket, much, 5000, ALL_OF_IT) == 0) sent++;
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_eq(RLSocketWrite(s.socket, NULL, 0, 0), 0);
        ck_assert_int_gt(sent, 0);
        for (; sent > 0; sent--) ck_assert_int_eq(recv(ends[1], much, MUCH, MSG_DONTWAIT), 5000);
        RLSocketInvalidate(s.socket);
    }
}

RL_TEST(a_lost_queue_is_told, "S-SOCK-60",
        "A peer that is gone while bytes are queued: one Write callback with the errno, and the same from later calls") {
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:write=32");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("");
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, ALL_OF_IT), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert(RLSocketIsValid(s.socket));
}

RL_TEST(a_reset_is_told, "S-SOCK-60",
        "A peer that resets a TCP connection while bytes are queued: the Write callback tells ECONNRESET, or EPIPE after it") {
    make_connection(ends);
    socket_make(&s, ends[0], kRLSocketWriteCallBack);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    trace_take();
    while (RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT) == 0);
    struct linger none = {1, 0};
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:write=104");
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, ECONNRESET);
}

RL_TEST(writing_while_a_connect_goes_on, "S-SOCK-57 S-SOCK-60",
        "Bytes that are written before a connect has ended go when it has; a Connect callback tells a failure, and no Write follows") {
    int listener = make_listener();
    struct sockaddr_in address = loopback(port_of(listener));
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    ck_assert_int_ge(RLSocketWrite(s.socket, "hello", 5, 100), 0);
    socket_add(&s);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert(strncmp(trace_take(), "s:connect", 9) == 0);
    int peer = accept(listener, NULL, NULL);
    char text[8];
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(recv(peer, text, sizeof text, 0), 5);

    static Socket t = {.name = "t"};
    address = loopback(refused_port());
    socket_create(&t, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    ck_assert_int_eq(RLSocketConnectToAddress(t.socket, &address, sizeof address, -1), kRLSocketSuccess);
    /* The loopback interface has refused by now; the callback gets the error and the writer does not. */
    ck_assert_int_eq(RLSocketSend(t.socket, NULL, 0, "hello", 5), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(RLSocketWrite(t.socket, "hello", 5, 100), 5);
    trace_take();
    socket_add(&t);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("t:connect=111");
    ck_assert_int_eq(RLSocketWrite(t.socket, "x", 1, 100), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    for (int i = 0; i < 3; i++) RLRunInMode(kRLDefaultMode, 0, true);
    expect_trace("");
}

static int refusals, refusal;
static bool refuse_sends(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_sendto || refusals == 0) return false;
    refusals--;
    errno = refusal;
    *result = -1;
    return true;
}

RL_TEST(a_signal_and_a_want_of_memory_lose_nothing, "S-SOCK-57 S-SOCK-58",
        "EINTR makes a send again; ENOBUFS and ENOMEM for queued bytes try again after a time, without a spin") {
    fill_much();
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    hook_system_calls(refuse_sends);
    refusal = EINTR;
    refusals = 3;
    ck_assert_int_eq(RLSocketWrite(s.socket, much, 5, 0), 0);
    ck_assert_int_eq(refusals, 0);
    ck_assert_int_gt(RLSocketWrite(s.socket, much + 5, MUCH - 5, 0), 0);
    const int errors[] = {ENOBUFS, ENOMEM};
    size_t place = 0;
    for (int i = 0; i < 2; i++) {
        refusal = errors[i];
        refusals = 2;
        while (refusals > 0) {
            place = take_some(place);
            expect_run(kRLDefaultMode, 0.01, false, TimedOut);
        }
    }
    while (place < MUCH) {
        RLRunInMode(kRLDefaultMode, 0.01, false);
        place = take_some(place);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    expect_trace("s:write");
}

RL_TEST(a_child_has_no_queue, "S-SOCK-66", "After fork the parent alone sends what was queued: the peer gets it once") {
    fill_much();
    begin(SOCK_STREAM, kRLSocketWriteCallBack);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    pid_t child = fork();
    if (child == 0) {
        RLIndex waiting = RLSocketWrite(s.socket, NULL, 0, 0);
        for (int i = 0; i < 10; i++) RLRunInMode(kRLDefaultMode, 0, false);
        /* An Invalidate of the child resets nothing. */
        RLSocketInvalidate(s.socket);
        _exit(waiting == 0 ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    take_all(0, MUCH);
    expect_trace("s:write");
}

static int replacement;
static void *invalidate_and_reuse(void *unused) {
    (void)unused;
    int other[2];
    make_sockets(SOCK_STREAM, other);
    RLSocketInvalidate(s.socket);
    replacement = fcntl(other[0], F_DUPFD_CLOEXEC, ends[0]);
    char byte;
    /* Nothing may come that was written to the socket. */
    struct timeval wait = {0, 2000};
    setsockopt(other[1], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    ck_assert_int_eq(recv(other[1], &byte, 1, 0), -1);
    close(other[0]);
    close(other[1]);
    return NULL;
}

RL_TEST(writing_meets_invalidate, "S-SOCK-61",
        "A thread writes while another one invalidates the socket and takes its number: no byte goes to the other file") {
    for (int i = 0; i < 100; i++) {
        s.retains = s.releases = 0;
        make_sockets(SOCK_STREAM, ends);
        socket_make(&s, ends[0], 0);
        pthread_t thread;
        pthread_create(&thread, NULL, invalidate_and_reuse, NULL);
        while (RLSocketWrite(s.socket, much, 64, 1000) >= 0 || errno == EAGAIN);
        ck_assert_int_eq(errno, EBADF);
        pthread_join(thread, NULL);
        ck_assert_int_eq(s.releases, 1);
        RLRelease(s.socket);
        close(replacement);
        close(ends[1]);
    }
}

static void pause_reading(Socket *self, RLSocketCallBackType type) {
    if (type == kRLSocketWriteCallBack) {
        RLSocketEnableCallBacks(self->socket, kRLSocketDataCallBack);
    } else if (RLSocketWrite(self->socket, self->received, self->length, 65536) > 0) {
        RLSocketDisableCallBacks(self->socket, kRLSocketDataCallBack);
    }
}

RL_TEST(an_echo_with_back_pressure, "S-SOCK-59 S-SOCK-36",
        "Reading is off while bytes are queued and on again when they are sent: all comes back, and little is queued") {
    fill_much();
    make_connection(ends);
    s.action = pause_reading;
    socket_make(&s, ends[0], kRLSocketDataCallBack | kRLSocketWriteCallBack);
    socket_add(&s);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    size_t sent = 0, place = 0;
    while (place < MUCH) {
        ssize_t count = sent < MUCH ? send(ends[1], much + sent, MUCH - sent, 0) : -1;
        if (count > 0) {
            sent += (size_t)count;
            continue;
        }
        ck_assert_int_le(RLSocketWrite(s.socket, NULL, 0, 0), 65536 + 32768);
        RLRunInMode(kRLDefaultMode, 0, false);
        /* The peer only reads when it can send no more. */
        if (RLSocketWrite(s.socket, NULL, 0, 0) > 0 || sent == MUCH) place = take_some(place);
    }
}

/* ---- beside other callbacks */

static void write_much(Socket *self, RLSocketCallBackType type) {
    if (type == kRLSocketWriteCallBack) trace("%ld", (long)RLSocketWrite(self->socket, NULL, 0, 0));
    else if (RLSocketWrite(self->socket, much, MUCH, ALL_OF_IT) > 0) trace("queued");
}

RL_TEST(a_callback_queues_before_the_write_callback, "S-SOCK-59",
        "Bytes that a Data or Connect callback leaves queued keep back the Write callback of the same report, until they are sent") {
    s.action = write_much;
    for (int connects = 0; connects < 2; connects++) {
        make_sockets(SOCK_STREAM, ends);
        socket_make(&s, ends[0], kRLSocketWriteCallBack | (connects ? kRLSocketConnectCallBack : kRLSocketDataCallBack));
        socket_add(&s);
        if (!connects) write_byte(ends[1]);
        RLRunInMode(kRLDefaultMode, 0, false);
        expect_trace(connects ? "s:connect queued" : "s:data=1 queued");
        take_all(0, MUCH);
        expect_trace("s:write 0");
        RLSocketInvalidate(s.socket);
        close(ends[1]);
    }
}

RL_TEST(a_queue_while_connect_is_disabled, "S-SOCK-58 S-PASS-16",
        "What was queued before a connect is sent after it though the Connect callback is disabled, and the loop sleeps") {
    int listener = make_listener();
    struct sockaddr_in address = loopback(port_of(listener));
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    socket_add(&s);
    ck_assert_int_eq(RLSocketWrite(s.socket, "abc", 3, 100), 3);
    RLSocketDisableCallBacks(s.socket, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    int peer = accept(listener, NULL, NULL);
    while (RLSocketWrite(s.socket, NULL, 0, 0) > 0) RLRunInMode(kRLDefaultMode, 0.01, false);
    char text[4];
    ck_assert_int_eq(recv(peer, text, sizeof text, 0), 3);
    observe(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.02, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    /* It was connected, which is still to be told. */
    RLSocketEnableCallBacks(s.socket, kRLSocketConnectCallBack);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(trace_count("s:connect"), 1);
}

RL_TEST(a_refused_connect_while_connect_is_disabled, "S-SOCK-60 S-SOCK-32",
        "A queue that a refused connect has cost is told of as such, and so is the connect once its callback is enabled") {
    struct sockaddr_in address = loopback(refused_port());
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    socket_add(&s);
    ck_assert_int_eq(RLSocketWrite(s.socket, "abc", 3, 100), 3);
    RLSocketDisableCallBacks(s.socket, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    RLSocketConnectToAddress(s.socket, &address, sizeof address, -1);
    while (RLSocketWrite(s.socket, NULL, 0, 0) > 0) RLRunInMode(kRLDefaultMode, 0.01, false);
    ck_assert_int_eq(errno, ECONNREFUSED);
    expect_trace("");
    RLSocketEnableCallBacks(s.socket, kRLSocketConnectCallBack);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:connect=111");
}
