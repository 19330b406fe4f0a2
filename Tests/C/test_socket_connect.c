/* SPDX-License-Identifier: MIT */
/* Socket operations: addresses, connecting, and sending. */
#define _GNU_SOURCE
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static Socket s;
static void handled(void) { expect_run(kRLDefaultMode, 60, true, HandledSource); }
static void quiet(void) {
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
}
static bool is_blocking(RLSocketRef socket) {
    return (fcntl(RLSocketGetNative(socket), F_GETFL) & O_NONBLOCK) == 0;
}

/* Signatures and addresses */

RL_TEST(signatures, "S-SOCK-7 S-SOCK-38 S-SOCK-48",
        "A signature makes a socket that listens, or one that is connected; a bad address "
        "gives NULL and leaves no descriptor and no context") {
    static Socket client = {.name = "client"};
    struct sockaddr_in address = loopback(0);
    RLDataRef bytes = RLDataCreate(&address, sizeof address);
    RLSocketSignature signature = {PF_INET, SOCK_STREAM, IPPROTO_TCP, bytes};
    RLSocketContext context = socket_context(&s);
    s.name = "server";
    s.socket = RLSocketCreateWithSocketSignature(&signature, kRLSocketAcceptCallBack, report_socket,
                                                 &context);
    ck_assert_ptr_nonnull(s.socket);
    RLDataRef own = RLSocketCopyAddress(s.socket);
    ck_assert_uint_eq(RLDataGetLength(own), sizeof address);
    const struct sockaddr_in *bound = RLDataGetBytePtr(own);
    ck_assert_int_eq(ntohs(bound->sin_port), port_of(RLSocketGetNative(s.socket)));
    RLSocketSignature to = {0, 0, 0, own};
    context = socket_context(&client);
    client.socket = RLSocketCreateConnectedToSocketSignature(&to, 0, report_socket, &context, 60);
    ck_assert_ptr_nonnull(client.socket);
    RLDataRef peer = RLSocketCopyPeerAddress(client.socket);
    ck_assert(RLEqual(peer, own));
    socket_add(&s);
    handled();
    expect_trace("server:accept");

    int before = count_descriptors();
    address = loopback(refused_port());
    before++;
    RLDataRef nobody = RLDataCreate(&address, sizeof address);
    RLSocketSignature wrong = {0, 0, 0, nobody}, empty = {0, 0, 0, NULL};
    client.retains = client.releases = 0;
    ck_assert_ptr_null(
        RLSocketCreateConnectedToSocketSignature(&wrong, 0, report_socket, &context, 60));
    ck_assert_ptr_null(RLSocketCreateWithSocketSignature(&wrong, 0, report_socket, &context));
    ck_assert_ptr_null(RLSocketCreateWithSocketSignature(&empty, 0, report_socket, &context));
    ck_assert_int_eq(client.retains, 3);
    ck_assert_int_eq(client.releases, 3);
    ck_assert_int_eq(count_descriptors(), before);
    RLRelease(bytes);
    RLRelease(own);
    RLRelease(peer);
    RLRelease(nobody);
}

RL_TEST(set_address, "S-SOCK-38 S-SOCK-39",
        "Success for a stream, which then listens, and for datagrams, which cannot; an error "
        "without an address, for a second one, and on an invalid socket") {
    struct sockaddr_in address = loopback(0);
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, NULL, 16), kRLSocketError);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, 0), kRLSocketError);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    int listens = 0;
    socklen_t size = sizeof listens;
    getsockopt(RLSocketGetNative(s.socket), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    ck_assert_int_eq(listens, 1);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketError);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketError);
    RLRelease(s.socket);
    socket_create(&s, PF_INET, SOCK_DGRAM, kRLSocketDataCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
}

RL_TEST(unix_addresses_end_with_their_path, "S-SOCK-40 S-SOCK-48",
        "A whole struct sockaddr_un will do; the address that is given back ends after the "
        "path; a name of the abstract space is left alone") {
    struct sockaddr_un path = unix_address(), abstract = {.sun_family = AF_UNIX};
    size_t length = offsetof(struct sockaddr_un, sun_path) + strlen(path.sun_path) + 1;
    socket_create(&s, PF_UNIX, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &path, sizeof path), kRLSocketSuccess);
    RLDataRef address = RLSocketCopyAddress(s.socket);
    ck_assert_uint_eq(RLDataGetLength(address), length);
    ck_assert(memcmp(RLDataGetBytePtr(address), &path, length) == 0);
    unlink(path.sun_path);
    RLRelease(address);
    Socket other = {.name = "other"};
    snprintf(abstract.sun_path + 1, 60, "runloop-test-%d", (int)getpid());
    length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract.sun_path + 1);
    socket_create(&other, PF_UNIX, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(other.socket, &abstract, length), kRLSocketSuccess);
    address = RLSocketCopyAddress(other.socket);
    ck_assert_uint_eq(RLDataGetLength(address), length);
    RLRelease(address);
    RLSocketInvalidate(other.socket);
    RLRelease(other.socket);
}

RL_TEST(addresses_are_asked_for_once, "S-SOCK-48",
        "An address is what it was at the first call; a peer that is not there yet is NULL "
        "and asked for again") {
    struct sockaddr_in any = loopback(0), address = loopback(port_of(make_listener()));
    socket_create(&s, PF_INET, SOCK_STREAM, 0);
    ck_assert_ptr_null(RLSocketCopyPeerAddress(s.socket));
    RLDataRef before = RLSocketCopyAddress(s.socket);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &any, sizeof any), kRLSocketSuccess);
    RLDataRef after = RLSocketCopyAddress(s.socket);
    ck_assert_ptr_eq(before, after);
    RLRelease(before);
    RLRelease(after);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
    socket_create(&s, PF_INET, SOCK_STREAM, 0);
    ck_assert_ptr_null(RLSocketCopyPeerAddress(s.socket));
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, 0),
                     kRLSocketSuccess);
    RLDataRef peer = RLSocketCopyPeerAddress(s.socket);
    ck_assert_ptr_nonnull(peer);
    RLRelease(peer);
}

/* Connecting */

static const RLOptionFlags all_types =
    kRLSocketConnectCallBack | kRLSocketReadCallBack | kRLSocketWriteCallBack;

static bool refuse_poll(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_ppoll
#ifdef SYS_poll
        && number != SYS_poll
#endif
    )
        return false;
    errno = EPERM;
    *result = -1;
    return true;
}

RL_TEST(connects_are_reported_where_poll_is_refused, "S-SOCK-30 S-ARG-11", "The end of a connect is reported where a filter of system calls refuses poll") {
    struct sockaddr_in address = loopback(port_of(make_listener()));
    s.name = "s";
    socket_make(&s, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), kRLSocketConnectCallBack);
    connect(RLSocketGetNative(s.socket), (struct sockaddr *)&address, sizeof address);
    hook_system_calls(refuse_poll);
    socket_add(&s);
    for (int i = 0; i < 100 && s.calls == 0; i++) RLRunInMode(kRLDefaultMode, 0.01, true);
    hook_system_calls(NULL);
    expect_trace("s:connect");
}

RL_TEST(connect_and_wait, "S-SOCK-41 S-SOCK-42 S-SOCK-44 S-SOCK-31",
        "With a time and without, a connect succeeds or is refused; the descriptor is "
        "blocking before and after; a socket connected so has one Connect callback") {
    static const double timeouts[] = {60, 0};
    for (int i = 0; i < 2; i++) {
        static Socket good, bad;
        good = (Socket){.name = "good"};
        bad = (Socket){.name = "bad"};
        struct sockaddr_in address = loopback(port_of(make_listener()));
        struct sockaddr_in refused = loopback(refused_port());
        socket_create(&bad, PF_INET, SOCK_STREAM, all_types);
        ck_assert_int_eq(
            RLSocketConnectToAddress(bad.socket, &refused, sizeof refused, timeouts[i]),
            kRLSocketError);
        ck_assert(is_blocking(bad.socket));
        ck_assert(RLSocketIsValid(bad.socket));
        socket_create(&good, PF_INET, SOCK_STREAM, all_types);
        ck_assert_int_eq(
            RLSocketConnectToAddress(good.socket, &address, sizeof address, timeouts[i]),
            kRLSocketSuccess);
        ck_assert(is_blocking(good.socket));
        socket_add(&good);
        handled();
        expect_trace("good:connect good:write");
        quiet();
        RLSocketInvalidate(good.socket);
        RLSocketInvalidate(bad.socket);
        RLRelease(good.socket);
        RLRelease(bad.socket);
    }
    ck_assert_int_eq(RLSocketConnectToAddress(NULL, NULL, 0, 1), kRLSocketError);
}

/* A connect that nobody answers, for as long as a test says so. */
static int hold_connects_of = -1;
static bool hold_connects(long number, const long argument[6], long *result) {
    if (number != SYS_connect || (int)argument[0] != hold_connects_of) return false;
    errno = EINPROGRESS;
    *result = -1;
    return true;
}

RL_TEST(connect_takes_too_long, "S-SOCK-41 S-SOCK-44",
        "A connect that is not answered is Timeout after the time, not before, and leaves "
        "the mode") {
    struct sockaddr_in address = loopback(9);
    socket_create(&s, PF_INET, SOCK_STREAM, 0);
    int fd = RLSocketGetNative(s.socket);
    /* A connect under way is neither writable nor at an end: a pipe's reading end is like it. */
    int ends[2];
    make_pipe(ends);
    Socket stuck = {.name = "stuck"};
    socket_make(&stuck, ends[0], kRLSocketReadCallBack);
    hold_connects_of = ends[0];
    hook_system_calls(hold_connects);
    double start = monotonic_now();
    ck_assert_int_eq(RLSocketConnectToAddress(stuck.socket, &address, sizeof address, 0.05),
                     kRLSocketTimeout);
    ck_assert_double_ge(monotonic_now() - start, 0.049);
    ck_assert(is_blocking(stuck.socket));
    hook_system_calls(NULL);
    ck_assert_int_ge(fd, 0);
    RLSocketInvalidate(stuck.socket);
    RLRelease(stuck.socket);
}

RL_TEST(connect_in_the_background, "S-SOCK-43 S-SOCK-30 S-SOCK-44",
        "Nothing is reported before the connect is begun; then Connect comes with NULL, "
        "once, and Write after it") {
    struct sockaddr_in address = loopback(port_of(make_listener()));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    socket_add(&s);
    quiet();
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1),
                     kRLSocketSuccess);
    ck_assert(is_blocking(s.socket));
    handled();
    expect_trace("s:connect s:write");
    RLSocketEnableCallBacks(s.socket, kRLSocketConnectCallBack);
    quiet();
}

RL_TEST(the_clients_own_connect, "S-SOCK-30",
        "A connect that the client begins itself on a scheduled socket is reported as well") {
    struct sockaddr_in address = loopback(port_of(make_listener()));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    quiet();
    int fd = RLSocketGetNative(s.socket);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    handled();
    expect_trace("s:connect");
    quiet();
}

RL_TEST(the_clients_own_connect_of_a_unix_socket, "S-SOCK-30 S-SOCK-51",
        "Of a connect that the client makes itself on a scheduled Unix socket the kernel tells nobody; after EnableCallBacks it is reported") {
    struct sockaddr_un address = unix_address();
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 2), 0);
    static const RLOptionFlags enabled[] = {kRLSocketConnectCallBack, kRLSocketWriteCallBack};
    for (int i = 0; i < 2; i++) {
        static Socket s;
        s = (Socket){.name = "s"};
        socket_create(&s, AF_UNIX, SOCK_STREAM, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
        socket_add(&s);
        quiet();
        ck_assert_int_eq(connect(RLSocketGetNative(s.socket), (struct sockaddr *)&address, sizeof address), 0);
        RLSocketEnableCallBacks(s.socket, enabled[i]);
        handled();
        expect_trace("s:connect s:write");
        quiet();
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
    }
    close(listener);
    unlink(address.sun_path);
}

RL_TEST(a_connect_that_data_begin, "S-SOCK-30 S-SOCK-58",
        "A connect that waits for the first bytes (TCP_FASTOPEN_CONNECT) has no peer yet and has not failed; what was queued is sent") {
    int listener = make_listener(), on = 1;
    struct sockaddr_in address = loopback(port_of(listener));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    int descriptor = RLSocketGetNative(s.socket);
    /* TCP_FASTOPEN_NO_COOKIE, from Linux 4.15 on. */
    if (setsockopt(descriptor, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on) != 0) return;
    if (setsockopt(descriptor, IPPROTO_TCP, 34, &on, sizeof on) != 0) return;
    socket_add(&s);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    ck_assert_int_ge(RLSocketWrite(s.socket, "hello", 5, 65536), 0);
    handled();
    expect_trace("s:connect");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    int peer = accept(listener, NULL, NULL);
    char bytes[5];
    ck_assert_int_eq(recv(peer, bytes, 5, MSG_WAITALL), 5);
    ck_assert(memcmp(bytes, "hello", 5) == 0);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
    close(peer);
    close(listener);
}

RL_TEST(a_send_leaves_the_error_to_the_callback, "S-SOCK-43 S-SOCK-45 S-SOCK-56",
        "SendData, with a timeout or without, to a connect that was refused is an error, and Connect reports why") {
    static const RLTimeInterval timeouts[] = {0, 60};
    for (int i = 0; i < 2; i++) {
        static Socket s;
        s = (Socket){.name = "s"};
        struct sockaddr_in address = loopback(refused_port());
        socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
        socket_add(&s);
        ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
        ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, timeouts[i]), kRLSocketError);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("s:connect=111");
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
    }
}

RL_TEST(a_connect_that_fails, "S-SOCK-32 S-SOCK-37 S-SOCK-43",
        "With the Connect type the errno comes with it and no Write follows; Data gets its end") {
    static const struct {
        RLOptionFlags types;
        const char *trace;
    } cases[] = {
        {kRLSocketConnectCallBack | kRLSocketWriteCallBack, "s:connect=111"},
        {all_types, "s:connect=111 s:read"},
        {kRLSocketConnectCallBack | kRLSocketWriteCallBack | kRLSocketDataCallBack,
         "s:connect=111 s:data=0"},
        {kRLSocketConnectCallBack | kRLSocketDataCallBack, "s:connect=111 s:data=0"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        s = (Socket){.name = "s"};
        struct sockaddr_in address = loopback(refused_port());
        socket_create(&s, PF_INET, SOCK_STREAM, cases[i].types);
        RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
        socket_add(&s);
        keep_alive(RLGetCurrent(), kRLDefaultMode);
        ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1),
                         kRLSocketSuccess);
        handled();
        expect_trace(cases[i].trace);
        ck_assert_int_eq(RLSocketIsValid(s.socket), !(cases[i].types & 2));
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
    }
}

RL_TEST(errors_that_are_left, "S-SOCK-37 S-SOCK-30 S-SOCK-32",
        "With LeaveErrors Connect has no errno and SO_ERROR keeps it; without the Connect "
        "type it is kept as well, and the failure is readable and writable") {
    for (int i = 0; i < 2; i++) {
        s = (Socket){.name = "s"};
        struct sockaddr_in address = loopback(refused_port());
        socket_create(&s, PF_INET, SOCK_STREAM,
                      i == 0 ? all_types : kRLSocketReadCallBack | kRLSocketWriteCallBack);
        RLOptionFlags leaves = i == 0 ? kRLSocketLeaveErrors : 0;
        RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate | leaves);
        ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1),
                         kRLSocketSuccess);
        socket_add(&s);
        handled();
        expect_trace(i == 0 ? "s:connect s:read s:write" : "s:read s:write");
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(RLSocketGetNative(s.socket), SOL_SOCKET, SO_ERROR, &error, &size);
        ck_assert_int_eq(error, ECONNREFUSED);
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
    }
}

RL_TEST(a_nonblocking_descriptor, "S-SOCK-42",
        "With time 0 on a descriptor that the client made non-blocking the connect is only "
        "begun, and the descriptor stays non-blocking") {
    struct sockaddr_in address = loopback(port_of(make_listener()));
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    fcntl(RLSocketGetNative(s.socket), F_SETFL, O_NONBLOCK);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, 0),
                     kRLSocketSuccess);
    ck_assert(!is_blocking(s.socket));
    socket_add(&s);
    handled();
    expect_trace("s:connect");
}

/* Sending */

static int interruptions;
static bool interrupt_sends(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_sendto || interruptions == 0) return false;
    interruptions--;
    errno = EINTR;
    *result = -1;
    return true;
}

RL_TEST(sending, "S-SOCK-45 S-SOCK-47",
        "Bytes arrive; an interrupted send is made again; a closed peer is an error and no "
        "SIGPIPE; no bytes on a stream are an error") {
    int ends[2];
    char text[8] = "";
    make_sockets(SOCK_STREAM, ends);
    s.name = "s";
    socket_make(&s, ends[0], 0);
    interruptions = 3;
    hook_system_calls(interrupt_sends);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "hello", 5, 1), kRLSocketSuccess);
    ck_assert_int_eq(interruptions, 0);
    ck_assert_int_eq(recv(ends[1], text, sizeof text, 0), 5);
    ck_assert_str_eq(text, "hello");
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, NULL, 7, 0), kRLSocketError);
    struct timeval limit = {1, 1};
    socklen_t size = sizeof limit;
    getsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, &size);
    ck_assert_int_eq(limit.tv_sec, 0);
    signal(SIGPIPE, SIG_DFL);
    close(ends[1]);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, 1), kRLSocketError);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, 1), kRLSocketError);
}

RL_TEST(sending_datagrams, "S-SOCK-46 S-SOCK-45",
        "A datagram goes to the address given; an empty one that was sent is a success") {
    int receiver = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(receiver, (struct sockaddr *)&address, sizeof address), 0);
    address = loopback(port_of(receiver));
    socket_create(&s, PF_INET, SOCK_DGRAM, 0);
    char text[8];
    ck_assert_int_eq(RLSocketSendData(s.socket, &address, sizeof address, "abc", 3, 1),
                     kRLSocketSuccess);
    ck_assert_int_eq(recv(receiver, text, sizeof text, 0), 3);
    ck_assert_int_eq(RLSocketSendData(s.socket, &address, sizeof address, "", 0, 1),
                     kRLSocketSuccess);
    ck_assert_int_eq(recv(receiver, text, sizeof text, 0), 0);
}

RL_TEST(a_short_send, "S-SOCK-45",
        "A send that ends at its limit with part of the bytes taken is a success") {
    static char much[4 << 20];
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], 0);
    RLSocketError first = RLSocketSendData(s.socket, NULL, 0, much, sizeof much, 0.05);
    RLSocketError second = RLSocketSendData(s.socket, NULL, 0, much, sizeof much, 0.05);
    ck_assert_int_eq(first, kRLSocketSuccess);
    ck_assert_int_eq(second, kRLSocketError);
}
