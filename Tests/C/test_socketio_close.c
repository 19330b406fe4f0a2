/* SPDX-License-Identifier: MIT */
/* Section 15.5: the end of a connection. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MUCH = 4 << 20, ALL_OF_IT = 1 << 30 };

static Socket s = {.name = "s"};
static int ends[2];
static unsigned char much[MUCH];

static void begin_with(RLOptionFlags types) {
    for (size_t i = 0; i < MUCH; i++) much[i] = (unsigned char)(i * 2654435761u >> 13);
    socket_make(&s, ends[0], types);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    trace_take();
}

static void begin(RLOptionFlags types) {
    make_connection(ends);
    begin_with(types);
}

/* One portion of what the peer has, which is `much` from `place` on: the new place. `end` tells that no more comes. */
static size_t take_some(size_t place, bool *end) {
    static unsigned char bytes[65536];
    ssize_t count = recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
    *end = count == 0;
    if (count < 0) ck_assert_int_eq(errno, EAGAIN);
    if (count <= 0) return place;
    ck_assert_uint_le(place + (size_t)count, MUCH);
    ck_assert(memcmp(bytes, much + place, (size_t)count) == 0);
    return place + (size_t)count;
}

/* Runs the loop and reads in turn until the end of the stream, after all of `much`. */
static void take_all_and_end(void) {
    size_t place = 0;
    for (bool end = false; !end;) {
        RLRunInMode(kRLDefaultMode, 0, false);
        place = take_some(place, &end);
    }
    ck_assert_uint_eq(place, MUCH);
}

static void run_until_released(void) {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 6000 && count_of(&s.releases) < count_of(&s.retains); i++) RLRunInMode(kRLDefaultMode, 0.01, true);
    ck_assert_int_eq(s.releases, s.retains);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
}

static void expect_reset(void) {
    static char bytes[65536];
    ssize_t count;
    while ((count = recv(ends[1], bytes, sizeof bytes, 0)) > 0);
    ck_assert_int_eq(count, -1);
    ck_assert_int_eq(errno, ECONNRESET);
}

RL_TEST(orderly_loses_nothing, "S-SOCK-63",
        "The peer gets all that was queued and the end, though it has sent bytes that nobody reads; then the socket is invalid") {
    begin(kRLSocketDataCallBack | kRLSocketWriteCallBack);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    ck_assert_int_eq(send(ends[1], much, 100000, MSG_DONTWAIT), 100000);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, ALL_OF_IT), -1);
    ck_assert_int_eq(errno, EPIPE);
    take_all_and_end();
    /* Not yet: more may come. */
    ck_assert_int_eq(send(ends[1], much, 100000, MSG_DONTWAIT), 100000);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    ck_assert(RLSocketIsValid(s.socket));
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    close(ends[1]);
    run_until_released();
    expect_trace("");
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketError);
}

RL_TEST(orderly_without_a_queue, "S-SOCK-63 S-SOCK-64", "The peer gets the end at once; NULL and unknown ways are errors") {
    begin(kRLSocketReadCallBack);
    ck_assert_int_eq(RLSocketClose(NULL, kRLSocketCloseOrderly), kRLSocketError);
    ck_assert_int_eq(RLSocketClose(s.socket, (RLSocketCloseType)3), kRLSocketError);
    ck_assert_int_eq(RLSocketClose(s.socket, (RLSocketCloseType)-1), kRLSocketError);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    char byte;
    ck_assert_int_eq(recv(ends[1], &byte, 1, 0), 0);
    RLSocketEnableCallBacks(s.socket, kRLSocketReadCallBack);
    ck_assert_int_eq(send(ends[1], "x", 1, 0), 1);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    close(ends[1]);
    run_until_released();
    expect_trace("");
}

RL_TEST(orderly_over_a_unix_socket, "S-SOCK-63", "The same between two ends on one machine") {
    make_sockets(SOCK_STREAM, ends);
    begin_with(kRLSocketReadCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    ck_assert_int_eq(send(ends[1], much, 1000, 0), 1000);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    take_all_and_end();
    close(ends[1]);
    run_until_released();
}

RL_TEST(orderly_to_a_peer_that_sends_first, "S-SOCK-63",
        "A peer that reads nothing before it has sent all, which is more than the kernel keeps, sends all, and gets all that was queued") {
    for (int i = 0; i < 2; i++) {
        s.retains = s.releases = 0;
        if (i == 0) make_connection(ends);
        if (i == 1) make_sockets(SOCK_STREAM, ends);
        begin_with(kRLSocketDataCallBack);
        ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
        ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
        size_t sent = 0;
        const size_t all = (size_t)4 * MUCH;
        for (int turn = 0; turn < 100000 && sent < all; turn++) {
            size_t left = all - sent;
            ssize_t count = send(ends[1], much, left < MUCH ? left : MUCH, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (count < 0) ck_assert_int_eq(errno, EAGAIN);
            if (count > 0) sent += (size_t)count;
            RLRunInMode(kRLDefaultMode, 0, false);
        }
        ck_assert_uint_eq(sent, all);
        take_all_and_end();
        close(ends[1]);
        run_until_released();
        expect_trace("");
    }
}

RL_TEST(orderly_when_the_peer_resets, "S-SOCK-63", "A peer that resets the connection ends the waiting for it") {
    for (int round = 0; round < 2; round++) {
        begin(kRLSocketDataCallBack);
        if (round == 1) RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
        RLSocketClose(s.socket, kRLSocketCloseOrderly);
        struct linger none = {1, 0};
        setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &none, sizeof none);
        close(ends[1]);
        run_until_released();
        expect_trace("");
    }
}

/* Sends of `much` what the kernel takes, which is more than the peer has room for. */
static size_t fill_the_kernel(void) {
    int left = 0;
    RLIndex sent = RLSocketSend(s.socket, NULL, 0, much, MUCH);
    ck_assert_int_gt(sent, 0);
    ck_assert_int_eq(ioctl(ends[0], TIOCOUTQ, &left), 0);
    ck_assert_int_gt(left, 0);
    return (size_t)sent;
}

RL_TEST(orderly_with_so_linger, "S-SOCK-63",
        "A peer that ends its half and reads nothing does not make an orderly close wait, in a loop or in none, nor does it lose what was "
        "sent, whatever the program's SO_LINGER says") {
    const struct linger options[] = {{1, 3600}, {1, 0}};
    for (int i = 0; i < 4; i++) {
        begin(kRLSocketReadCallBack);
        ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &options[i / 2], sizeof options[0]), 0);
        size_t sent = fill_the_kernel(), place = 0;
        ck_assert_int_eq(shutdown(ends[1], SHUT_WR), 0);
        if (i % 2 == 0) RLRemoveSource(RLGetCurrent(), s.source, kRLDefaultMode);
        ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
        run_until_released();
        for (bool end = false; !end;) place = take_some(place, &end);
        ck_assert_uint_eq(place, sent);
        close(ends[1]);
    }
}

RL_TEST(orderly_in_no_loop, "S-SOCK-63",
        "A socket in no loop is invalidated at once, one without a peer too, and one that leaves its last mode") {
    make_connection(ends);
    socket_make(&s, ends[0], 0);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    ck_assert_int_eq(s.releases, 1);

    static Socket listening = {.name = "l"}, datagrams = {.name = "d"};
    struct sockaddr_in address = loopback(0);
    socket_create(&listening, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    RLSocketSetAddress(listening.socket, &address, sizeof address);
    socket_add(&listening);
    RLSocketClose(listening.socket, kRLSocketCloseOrderly);
    ck_assert_int_eq(listening.releases, 1);
    socket_create(&datagrams, PF_INET, SOCK_DGRAM, kRLSocketReadCallBack);
    socket_add(&datagrams);
    RLSocketClose(datagrams.socket, kRLSocketCloseOrderly);
    ck_assert_int_eq(datagrams.releases, 1);

    s.retains = s.releases = 0;
    begin(kRLSocketReadCallBack);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    RLAddSource(RLGetCurrent(), source, "other");
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    ck_assert_int_eq(s.releases, s.retains - 1);
    RLRemoveSource(RLGetCurrent(), source, "other");
    ck_assert_int_eq(s.releases, s.retains);
    ck_assert(!RLSocketIsValid(s.socket));
    RLRelease(source);
}

static void *run_and_end(void *unused) {
    (void)unused;
    socket_add(&s);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    RLRunInMode(kRLDefaultMode, 0, false);
    return NULL;
}

RL_TEST(orderly_without_a_peer_for_the_queue, "S-SOCK-63",
        "Bytes that were queued for a connect that never began, or that was refused, keep no socket: it is invalidated at once") {
    struct sockaddr_in nobody = loopback(refused_port());
    for (int connects = 0; connects < 2; connects++) {
        s = (Socket){.name = "s"};
        socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
        socket_add(&s);
        RLRunInMode(kRLDefaultMode, 0, false);
        ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, ALL_OF_IT), 1);
        if (connects) ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &nobody, sizeof nobody, 60), kRLSocketError);
        ck_assert(RLSocketIsValid(s.socket));
        ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
        ck_assert(!RLSocketIsValid(s.socket));
        ck_assert_int_eq(s.releases, s.retains);
        RLRelease(s.socket);
    }
}

RL_TEST(orderly_with_empty_records, "S-SOCK-63 S-SOCK-27", "An empty record is not the peer's end, which is waited for") {
    make_sockets(SOCK_SEQPACKET, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    socket_add(&s);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    ck_assert_int_eq(send(ends[1], "", 0, 0), 0);
    struct pollfd input = {ends[0], POLLIN, 0};
    while (poll(&input, 1, 0) == 1) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(RLSocketIsValid(s.socket));
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert(!RLSocketIsValid(s.socket));
}

RL_TEST(orderly_when_the_thread_ends, "S-SOCK-63", "The end of the loop's thread ends a socket that it was closing") {
    make_connection(ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    pthread_t thread;
    pthread_create(&thread, NULL, run_and_end, NULL);
    pthread_join(thread, NULL);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert_int_eq(s.releases, s.retains);
    expect_reset();
}

static void close_in_callback(Socket *self, RLSocketCallBackType type) {
    (void)type;
    RLSocketWrite(self->socket, much, MUCH, ALL_OF_IT);
    RLSocketClose(self->socket, (RLSocketCloseType)(long)self->data);
}

RL_TEST(closing_in_the_callback, "S-SOCK-63 S-SOCK-64",
        "A callback writes and closes: no callback follows, not even of the same report") {
    s.action = close_in_callback;
    begin(kRLSocketDataCallBack);
    s.brackets = true;
    send(ends[1], "x", 1, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("+s s:data=1 -s");
    take_all_and_end();
    close(ends[1]);
    run_until_released();
    expect_trace("-s");

    s = (Socket){.name = "s", .data = (void *)kRLSocketCloseAbort};
    begin(kRLSocketReadCallBack | kRLSocketWriteCallBack);
    s.action = close_in_callback;
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    send(ends[1], "x", 1, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:read");
    expect_reset();
}

RL_TEST(closing_the_writing_half, "S-SOCK-62",
        "After the queue the peer gets the end of the stream; what it sends is still reported, and its end as ever") {
    begin(kRLSocketDataCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseWriting), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseWriting), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "x", 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    take_all_and_end();
    send(ends[1], "abc", 3, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:data=3");
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
}

RL_TEST(orderly_after_the_writing_half, "S-SOCK-63 S-SOCK-62", "A socket whose writing half is closed can be closed orderly") {
    begin(kRLSocketDataCallBack);
    RLSocketClose(s.socket, kRLSocketCloseWriting);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    char byte;
    ck_assert_int_eq(recv(ends[1], &byte, 1, 0), 0);
    close(ends[1]);
    run_until_released();
}

RL_TEST(abort_resets, "S-SOCK-64", "The peer gets an error, the socket is invalid at once") {
    begin(kRLSocketDataCallBack);
    ck_assert_int_eq(RLSocketWrite(s.socket, "abc", 3, 0), 0);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseAbort), kRLSocketSuccess);
    ck_assert_int_eq(s.releases, s.retains);
    expect_reset();
}

RL_TEST(invalidate_with_a_queue_resets, "S-SOCK-64 S-SOCK-9",
        "A part is not taken for the whole: the peer of a socket that is invalidated with a queue gets an error") {
    begin(kRLSocketDataCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    RLSocketInvalidate(s.socket);
    expect_reset();
}

RL_TEST(an_end_with_a_queue, "S-SOCK-65",
        "A peer that ends its half first gets all that is queued, and the end; then the socket is invalid") {
    begin(kRLSocketDataCallBack | kRLSocketWriteCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    shutdown(ends[1], SHUT_WR);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:data=0");
    ck_assert(RLSocketIsValid(s.socket));
    take_all_and_end();
    run_until_released();
    expect_trace("");
}

RL_TEST(a_client_keeps_its_descriptor, "S-SOCK-63 S-SOCK-64",
        "Without CloseOnInvalidate the descriptor stays open: the peer gets the end, and a queue that is dropped resets nothing") {
    begin(kRLSocketReadCallBack);
    RLSocketSetSocketFlags(s.socket, 0);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    char byte;
    ck_assert_int_eq(recv(ends[1], &byte, 1, 0), 0);
    close(ends[1]);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    while (RLSocketIsValid(s.socket)) RLRunInMode(kRLDefaultMode, 0.01, true);
    ck_assert_int_ge(fcntl(ends[0], F_GETFD), 0);

    begin(kRLSocketReadCallBack);
    RLSocketSetSocketFlags(s.socket, 0);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    RLSocketInvalidate(s.socket);
    struct linger linger;
    socklen_t size = sizeof linger;
    ck_assert_int_eq(getsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, &size), 0);
    ck_assert_int_eq(linger.l_onoff, 0);
}

static void *close_elsewhere(void *how) {
    RLSocketClose(s.socket, (RLSocketCloseType)(long)how);
    return NULL;
}

RL_TEST(closing_meets_writing, "S-SOCK-61 S-SOCK-63",
        "A thread closes while the loop's thread writes: what Write took arrives, what it refused does not") {
    for (int round = 0; round < 50; round++) {
        s.retains = s.releases = 0;
        begin(kRLSocketReadCallBack);
        pthread_t thread;
        pthread_create(&thread, NULL, close_elsewhere, (void *)(long)(round % 2));
        size_t written = 0;
        while (written < MUCH && RLSocketWrite(s.socket, much + written, 4096, ALL_OF_IT) >= 0) written += 4096;
        pthread_join(thread, NULL);
        if (written == MUCH) RLSocketClose(s.socket, kRLSocketCloseWriting);
        size_t place = 0;
        for (bool end = false; !end;) {
            RLRunInMode(kRLDefaultMode, 0, false);
            place = take_some(place, &end);
        }
        ck_assert_uint_eq(place, written);
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
        close(ends[1]);
    }
}

RL_TEST(a_child_does_not_close, "S-SOCK-66 S-SOCK-63",
        "A fork while a socket is being closed: the child's part ends nothing, and the peer gets all from the parent") {
    begin(kRLSocketReadCallBack);
    RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT);
    RLSocketClose(s.socket, kRLSocketCloseOrderly);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 10; i++) RLRunInMode(kRLDefaultMode, 0, false);
        RLSocketInvalidate(s.socket);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    take_all_and_end();
    close(ends[1]);
    run_until_released();
}

RL_TEST(closing_the_writing_half_of_a_connect, "S-SOCK-62",
        "A socket that is still connecting is connected all the same; then the peer gets the end, and what it sends is reported") {
    /* With one connection that nobody accepts the listener takes no other, for a second at least. */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    int first = connect_to(port_of(listener));
    address = loopback(port_of(listener));
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketDataCallBack);
    socket_add(&s);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseWriting), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, 10), -1);
    ck_assert_int_eq(errno, EPIPE);
    close(accept(listener, NULL, NULL));
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:connect");
    int peer = accept(listener, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0.01, false);
    char byte;
    ck_assert_int_eq(recv(peer, &byte, 1, 0), 0);
    write_byte(peer);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:data=1");
    close(first);
    close(peer);
}

static void *connect_and_wait(void *address) {
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, address, sizeof(struct sockaddr_in), 60), kRLSocketError);
    return NULL;
}

RL_TEST(orderly_when_a_connect_fails, "S-SOCK-63 S-SOCK-41",
        "A connect that another thread waits for, and whose error it gets, ends the socket that is closed meanwhile with bytes for it") {
    /* As above. */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    int first = connect_to(port_of(listener));
    address = loopback(port_of(listener));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, ALL_OF_IT), 1);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, connect_and_wait, &address), 0);
    struct pollfd begun = {RLSocketGetNative(s.socket), POLLOUT, 0};
    while (poll(&begun, 1, 0) != 0) sched_yield();
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    ck_assert(RLSocketIsValid(s.socket));
    close(listener);
    pthread_join(thread, NULL);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert_int_eq(s.releases, s.retains);
    close(first);
}

RL_TEST(orderly_during_a_connect, "S-SOCK-63 S-SOCK-58",
        "What was queued for a connect that is under way goes when that is done, then the end") {
    /* As above: it takes the second connection in a second at the earliest. */
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    int first = connect_to(port_of(listener));
    address = loopback(port_of(listener));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, ALL_OF_IT), 1);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    close(accept(listener, NULL, NULL));
    int peer = accept(listener, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    char bytes[2];
    ck_assert_int_eq(recv(peer, bytes, 2, MSG_WAITALL), 1);
    close(first);
    close(peer);
    ends[0] = RLSocketGetNative(s.socket);
    run_until_released();
    expect_trace("");
}

/* A sanitizer needs more. */
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
static void hear_nothing(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)s, (void)type, (void)address, (void)data, (void)info;
}

/* Calls nothing of Check, which needs a larger stack. */
static void close_orderly(RLThreadRef thread, void *info) {
    (void)thread;
    RLSocketRef s = RLSocketCreateWithNative(*(int *)info, kRLSocketDataCallBack, hear_nothing, NULL);
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLSocketWrite(s, "bye", 3, 100);
    RLSocketClose(s, kRLSocketCloseOrderly);
    while (RLSocketIsValid(s)) RLRunInMode(kRLDefaultMode, 60, true);
    RLRelease(s);
}

RL_TEST(an_orderly_close_on_a_small_stack, "S-THREAD-11 S-SOCK-63",
        "On a thread with the smallest stack that the system has, what the peer has sent is dropped while the socket closes") {
    static char bytes[30000];
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(write(ends[1], bytes, sizeof bytes), sizeof bytes);
    ck_assert_int_eq(shutdown(ends[1], SHUT_WR), 0);
    RLThreadRef thread = RLThreadCreate(close_orderly, &ends[0], NULL);
    RLThreadSetStackSize(thread, 1);
    ck_assert(RLThreadStart(thread));
    RLThreadJoin(thread);
    RLRelease(thread);
    close(ends[1]);
}
#endif
