/* SPDX-License-Identifier: MIT */
/* Sockets that stay ready although nothing comes: with messages in their error queue, which the kernel reports as an error until
 * somebody takes them, or with a receiving half that is shut down. */
#define _GNU_SOURCE
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MUCH = 8 << 20, ALL_OF_IT = 1 << 30 };

static Socket s = {.name = "s"};
static int ends[2];
static char much[MUCH];

/* Looks at the loop's sets that found something. */
static int looks;
static bool count_looks(long number, const long argument[6], long *result) {
    if (number != SYS_epoll_pwait && number != SYS_epoll_pwait2) return false;
    *result = system_call(number, argument);
    if (*result > 0) looks++;
    return true;
}

/* The loop runs for a while and calls nothing. Without end it would look thousands of times. */
static void expect_rest(void) {
    looks = 0;
    hook_system_calls(count_looks);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    hook_system_calls(NULL);
    ck_assert_int_lt(looks, 20);
    expect_trace("");
}

static bool has_error_messages(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0;
}

/* Each send leaves the time at which it was made. */
static void begin(RLOptionFlags types) {
    const int wanted = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY;
    s = (Socket){.name = "s"};
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    make_connection(ends);
    ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_TIMESTAMPING, &wanted, sizeof wanted), 0);
    socket_make(&s, ends[0], types);
    socket_add(&s);
    RLRunInMode(kRLDefaultMode, 0, false);
    trace_take();
}

RL_TEST(errors_that_nobody_takes, "S-SOCK-51 S-SOCK-25",
        "Of datagrams that could not be delivered a Data callback tells nothing, and there is no spin; what comes later is reported at once") {
    const int yes = 1;
    struct sockaddr_in nobody = loopback(refused_port()), address = loopback(0);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    ends[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ends[1] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(ends[0], (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(setsockopt(ends[0], IPPROTO_IP, IP_RECVERR, &yes, sizeof yes), 0);
    address = loopback(port_of(ends[0]));
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(sendto(ends[0], "lost", 4, 0, (struct sockaddr *)&nobody, sizeof nobody), 4);
        expect_rest();
        ck_assert_int_eq(sendto(ends[1], "abc", 3, 0, (struct sockaddr *)&address, sizeof address), 3);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:data=3");
    }
    expect_rest();
    /* They are still the client's to read. */
    ck_assert(has_error_messages(ends[0]));
}

RL_TEST(an_end_beside_messages, "S-SOCK-51 S-SOCK-26", "The end of a stream is reported, also a reset, after messages that nobody takes") {
    for (int resets = 0; resets < 2; resets++) {
        begin(kRLSocketDataCallBack);
        ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abc", 3), 3);
        expect_rest();
        ck_assert_int_eq(send(ends[1], "abcd", 4, 0), 4);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:data=4");
        expect_rest();
        /* A close with something unread resets. */
        char text[8];
        if (!resets) ck_assert_int_eq(recv(ends[1], text, sizeof text, 0), 3);
        close(ends[1]);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:data=0");
        ck_assert(!RLSocketIsValid(s.socket));
        RLRelease(s.socket);
    }
}

RL_TEST(a_queue_beside_messages, "S-SOCK-51 S-SOCK-58", "Bytes are queued for a peer that takes nothing: no spin, and they are sent when it does") {
    const RLOptionFlags kinds[] = {kRLSocketNoCallBack, kRLSocketReadCallBack, kRLSocketDataCallBack};
    for (int i = 0; i < 3; i++) {
        begin(kinds[i]);
        RLSocketDisableCallBacks(s.socket, kinds[i]);
        ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abc", 3), 3);
        ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
        expect_rest();
        ck_assert(has_error_messages(ends[0]));
        for (size_t place = 0; place < 3 + MUCH;) {
            ssize_t count = recv(ends[1], much, MUCH, MSG_DONTWAIT);
            if (count > 0) place += (size_t)count;
            RLRunInMode(kRLDefaultMode, count > 0 ? 0 : 0.001, false);
        }
        expect_trace("");
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
        close(ends[1]);
    }
}

RL_TEST(a_close_beside_messages, "S-SOCK-51 S-SOCK-63", "An orderly close waits for a silent peer without a spin, and notices its end") {
    for (int resets = 0; resets < 2; resets++) {
        begin(kRLSocketReadCallBack);
        RLSocketDisableCallBacks(s.socket, kRLSocketReadCallBack);
        ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abc", 3), 3);
        ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
        expect_rest();
        ck_assert(RLSocketIsValid(s.socket));
        char text[8];
        if (!resets) ck_assert_int_eq(recv(ends[1], text, sizeof text, 0), 3);
        close(ends[1]);
        for (int i = 0; i < 6000 && RLSocketIsValid(s.socket); i++) RLRunInMode(kRLDefaultMode, 0.01, false);
        ck_assert(!RLSocketIsValid(s.socket));
        RLRelease(s.socket);
    }
}

RL_TEST(a_client_that_reads_its_errors, "S-SOCK-51 S-SOCK-23", "A Read callback is called for a message in the error queue, also while bytes are queued") {
    begin(kRLSocketReadCallBack);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abc", 3), 3);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, MUCH, ALL_OF_IT), 0);
    for (int i = 0; i < 3; i++) {
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:read");
    }
    while (has_error_messages(ends[0])) continue;
    expect_rest();
}

/* Two datagram sockets that are connected to each other. */
static void make_datagram_pair(bool local) {
    if (local) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in address = loopback(0);
        ends[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(ends[i], (struct sockaddr *)&address, sizeof address), 0);
    }
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in address = loopback(port_of(ends[!i]));
        ck_assert_int_eq(connect(ends[i], (struct sockaddr *)&address, sizeof address), 0);
    }
}

RL_TEST(datagrams_that_are_shut_down, "S-SOCK-51",
        "A datagram socket that receives no more reports what had come, and makes no loop spin; it can still send") {
    char text[8];
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int kind = 0; kind < 4; kind++) {
        const int how = kind & 2 ? SHUT_RDWR : SHUT_RD;
        s = (Socket){.name = "s"};
        make_datagram_pair(kind & 1);
        socket_make(&s, ends[0], kRLSocketDataCallBack);
        socket_add(&s);
        ck_assert_int_eq(send(ends[1], "abc", 3, 0), 3);
        ck_assert_int_eq(shutdown(ends[0], how), 0);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:data=3");
        expect_rest();
        RLSocketEnableCallBacks(s.socket, kRLSocketDataCallBack);
        expect_rest();
        ck_assert(RLSocketIsValid(s.socket));
        if (how == SHUT_RD) {
            ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abcd", 4), 4);
            ck_assert_int_eq(recv(ends[1], text, sizeof text, 0), 4);
        }
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
        close(ends[1]);
    }
}
