/* SPDX-License-Identifier: MIT */
/* Socket callbacks: what is reported, in which order, and when again. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static Socket s, t;
static int ends[2];

static void pair_of(RLOptionFlags types) {
    s.name = "s";
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], types);
}
static void handled(void) { expect_run(kRLDefaultMode, 60, true, HandledSource); }
static void quiet(void) {
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
}

RL_TEST(nothing_before_it_is_in_a_mode, "S-SOCK-18 S-SOCK-35",
        "Without its source in a mode nothing is read; what came before, and what comes "
        "while another mode runs, is reported when its mode runs; enabling before that has "
        "no effect") {
    pair_of(kRLSocketDataCallBack);
    write_byte(ends[1]);
    RLSocketEnableCallBacks(s.socket, kRLSocketDataCallBack);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    quiet();
    RLAddSource(RLGetCurrent(), source, "mode");
    quiet();
    expect_run("mode", 60, true, HandledSource);
    expect_trace("s:data=1");
    RLRelease(source);
}

static void check_thread(Socket *self, RLSocketCallBackType type) {
    (void)type;
    ck_assert(pthread_equal(self->thread, *(pthread_t *)self->data));
}

RL_TEST(read_is_called_while_there_is_something, "S-SOCK-23 S-SOCK-21 S-SOCK-17",
        "Read reads nothing and has neither address nor data; it comes in each pass while "
        "data are left; it counts as a handled source, and runs on the loop's thread") {
    pthread_t self = pthread_self();
    pair_of(kRLSocketReadCallBack);
    s.action = check_thread;
    s.data = &self;
    socket_add(&s);
    write_byte(ends[1]);
    for (int i = 0; i < 3; i++) handled();
    expect_trace("s:read s:read s:read");
    ck_assert_int_eq(s.address_length, -1);
    read_byte(ends[0]);
    quiet();
}

RL_TEST(read_at_the_end, "S-SOCK-24",
        "The end of a stream is readable, and the socket stays valid") {
    pair_of(kRLSocketReadCallBack);
    socket_add(&s);
    close(ends[1]);
    handled();
    expect_trace("s:read");
    char byte;
    ck_assert_int_eq(recv(ends[0], &byte, 1, MSG_DONTWAIT), 0);
    ck_assert(RLSocketIsValid(s.socket));
    RLSocketDisableCallBacks(s.socket, kRLSocketReadCallBack);
    quiet();
}

static char sent[100000];

RL_TEST(data_come_in_chunks, "S-SOCK-25",
        "Data are read by the library, at most 32768 bytes at a time, and none is lost; the "
        "address is the peer's") {
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(i * 7);
    s.name = NULL;
    int listener = make_listener(), client = connect_to(port_of(listener));
    int size = 200000;
    setsockopt(client, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    s.name = "s";
    socket_make(&s, accept(listener, NULL, NULL), kRLSocketDataCallBack);
    socket_add(&s);
    fcntl(client, F_SETFL, O_NONBLOCK);
    size_t put = 0, got = 0;
    while (got < sizeof sent) {
        if (put < sizeof sent) {
            ssize_t count = write(client, sent + put, sizeof sent - put);
            if (count > 0) put += (size_t)count;
        }
        handled();
        ck_assert_uint_gt(s.length, 0);
        ck_assert_uint_le(s.length, 32768);
        ck_assert(memcmp(s.received, sent + got, s.length) == 0);
        got += s.length;
        struct sockaddr_in *peer = (struct sockaddr_in *)s.address;
        ck_assert_int_eq(s.address_length, sizeof *peer);
        ck_assert_int_eq(ntohs(peer->sin_port), port_of(client));
    }
}

RL_TEST(data_at_the_end, "S-SOCK-26",
        "At the end of a stream there is one callback of length 0, after which the socket is "
        "invalid") {
    pair_of(kRLSocketDataCallBack);
    socket_add(&s);
    ck_assert_int_eq(write(ends[1], "last", 4), 4);
    close(ends[1]);
    handled();
    expect_trace("s:data=4");
    handled();
    expect_trace("s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
    expect_run(kRLDefaultMode, 1, true, Finished);
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
}

RL_TEST(data_after_a_reset, "S-SOCK-26 S-SOCK-51",
        "An error on a stream is reported as its end") {
    int listener = make_listener(), client = connect_to(port_of(listener));
    s.name = "s";
    socket_make(&s, accept(listener, NULL, NULL), kRLSocketDataCallBack);
    socket_add(&s);
    struct linger hard = {1, 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(client);
    handled();
    expect_trace("s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
}

RL_TEST(datagrams, "S-SOCK-25 S-SOCK-27",
        "Each datagram comes whole, up to 65507 bytes, with its sender's address; an empty "
        "one has length 0 and invalidates nothing") {
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_DGRAM, kRLSocketDataCallBack);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    address = loopback(port_of(RLSocketGetNative(s.socket)));
    ck_assert_int_eq(connect(sender, (struct sockaddr *)&address, sizeof address), 0);
    socket_add(&s);
    ck_assert_int_eq(send(sender, sent, 65507, 0), 65507);
    ck_assert_int_eq(send(sender, "", 0, 0), 0);
    ck_assert_int_eq(send(sender, "abc", 3, 0), 3);
    for (int i = 0; i < 3; i++) {
        handled();
        ck_assert_int_eq(s.address_length, sizeof address);
        ck_assert_int_eq(ntohs(((struct sockaddr_in *)s.address)->sin_port), port_of(sender));
    }
    expect_trace("s:data=65507 s:data=0 s:data=3");
    ck_assert(RLSocketIsValid(s.socket));
    quiet();
}

static void records_of(bool isReset) {
    s.name = "s";
    make_sockets(SOCK_SEQPACKET, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    if (isReset) ck_assert_int_eq(send(ends[0], "unread", 6, 0), 6);
    ck_assert_int_eq(send(ends[1], "", 0, 0), 0);
    ck_assert_int_eq(send(ends[1], "abc", 3, 0), 3);
}

RL_TEST(empty_records, "S-SOCK-26 S-SOCK-27",
        "An empty record has length 0 and does not end the socket, whether the peer has ended by then or not; the end does") {
    records_of(false);
    for (int i = 0; i < 2; i++) handled();
    expect_trace("s:data=0 s:data=3");
    ck_assert_int_eq(send(ends[1], "", 0, 0), 0);
    handled();
    ck_assert(RLSocketIsValid(s.socket));
    ck_assert_int_eq(send(ends[1], "", 0, 0), 0);
    ck_assert_int_eq(send(ends[1], "defg", 4, 0), 4);
    close(ends[1]);
    for (int i = 0; i < 2; i++) handled();
    expect_trace("s:data=0 s:data=0 s:data=4");
    ck_assert(RLSocketIsValid(s.socket));
    handled();
    expect_trace("s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
}

RL_TEST(long_records, "S-SOCK-25 S-SOCK-27 S-SOCK-46",
        "A record of 65535 bytes is reported whole; an empty one that SendData has sent is a success") {
    static char sent[65535];
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(i * 2654435761u >> 13);
    records_of(false);
    for (int i = 0; i < 2; i++) handled();
    trace_take();
    ck_assert_int_eq(send(ends[1], sent, sizeof sent, 0), sizeof sent);
    handled();
    expect_trace("s:data=65535");
    ck_assert(memcmp(s.received, sent, sizeof sent) == 0);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "", 0, 0), kRLSocketSuccess);
    ck_assert_int_eq(recv(ends[1], sent, sizeof sent, MSG_DONTWAIT), 0);
}

RL_TEST(records_before_a_reset, "S-SOCK-26", "What the peer sent before it closed with a record unread is reported before the end") {
    records_of(true);
    close(ends[1]);
    for (int i = 0; i < 3; i++) handled();
    expect_trace("s:data=0 s:data=3 s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
}

RL_TEST(accept_takes_connections, "S-SOCK-28 S-LOOP-18 S-SOCK-38 S-SOCK-71",
        "One callback for each connection, with a descriptor that is the client's, "
        "close-on-exec and blocking, and with the peer's address; IPv4, IPv6 and Unix; the "
        "descriptor that listens does not block any more") {
    static Socket six = {.name = "six"}, local = {.name = "local"};
    s.name = "four";
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&s);
    int first = connect_to(port_of(RLSocketGetNative(s.socket)));
    connect_to(port_of(RLSocketGetNative(s.socket)));
    handled();
    ck_assert_int_eq(fcntl(s.accepted, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(s.accepted, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(ntohs(((struct sockaddr_in *)s.address)->sin_port), port_of(first));
    write_byte(first);
    read_byte(s.accepted);
    handled();
    expect_trace("four:accept four:accept");
    ck_assert(fcntl(RLSocketGetNative(s.socket), F_GETFL) & O_NONBLOCK);

    struct sockaddr_in6 address6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socket_create(&six, PF_INET6, SOCK_STREAM, kRLSocketAcceptCallBack);
    if (RLSocketSetAddress(six.socket, &address6, sizeof address6) == kRLSocketSuccess) {
        socket_add(&six);
        socklen_t size = sizeof address6;
        getsockname(RLSocketGetNative(six.socket), (struct sockaddr *)&address6, &size);
        int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(client, (struct sockaddr *)&address6, size), 0);
        handled();
        expect_trace("six:accept");
        ck_assert_int_eq(six.address_length, sizeof address6);
    }

    struct sockaddr_un path = unix_address();
    socket_create(&local, PF_UNIX, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(local.socket, &path, sizeof path), kRLSocketSuccess);
    socket_add(&local);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&path, sizeof path), 0);
    handled();
    expect_trace("local:accept");
    unlink(path.sun_path);
}

RL_TEST(accepting_before_listening, "S-SOCK-28 S-SOCK-51",
        "An Accept socket that is in a loop before it has an address is quiet, and takes "
        "connections once it listens") {
    s.name = "s";
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    socket_add(&s);
    quiet();
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    quiet();
    connect_to(port_of(RLSocketGetNative(s.socket)));
    handled();
    expect_trace("s:accept");
}

static int passes;
static void count_pass(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    (void)activity;
    (void)info;
    passes++;
}

RL_TEST(no_descriptor_for_a_connection, "S-SOCK-28 S-ARG-10",
        "A connection for which there is no descriptor waits, with one log line and few "
        "passes, and is taken when there is one") {
    s.name = "s";
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    connect_to(port_of(RLSocketGetNative(s.socket)));
    RLObserverRef observer = RLObserverCreate(kRLBeforeWaiting, true, 0, count_pass, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    log_capture();
    struct rlimit old, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){1, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_run(kRLDefaultMode, 0.35, true, TimedOut);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    expect_trace("");
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_le(passes, 6);
    handled();
    expect_trace("s:accept");
}

static void count_read(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file, (void)types;
    ++*(int *)info;
}

RL_TEST(a_number_that_was_deferred, "S-SOCK-28 S-FD-9",
        "A descriptor object whose number a socket had that could not take a connection, and that gave it up right after, reports") {
    s.name = "s";
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&s);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    int number = RLSocketGetNative(s.socket), ends[2], calls = 0;
    make_pipe(ends);
    connect_to(port_of(number));
    log_capture();
    struct rlimit old, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){1, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(dup3(ends[0], number, O_CLOEXEC), number);
    RLFileDescriptorContext context = {.info = &calls};
    RLFileDescriptorRef file = RLFileDescriptorCreate(number, true, count_read, &context);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 2, true, HandledSource);
    ck_assert_int_eq(calls, 1);
    RLFileDescriptorInvalidate(file);
    RLRelease(file);
}

RL_TEST(deferring_is_the_sockets_own, "S-SOCK-28 S-FD-3",
        "While a socket waits because there is no descriptor for a connection, a descriptor object on its number is reported") {
    s.name = "s";
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    socket_add(&s);
    int number = RLSocketGetNative(s.socket), calls = 0;
    RLFileDescriptorContext context = {.info = &calls};
    RLFileDescriptorRef file = RLFileDescriptorCreate(number, false, count_read, &context);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    connect_to(port_of(number));
    log_capture();
    struct rlimit old, none;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){1, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(log_count(), 1);
    RLFileDescriptorEnablePersistentCallBacks(file, kRLFileDescriptorReadCallBack);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_int_eq(calls, 1);
    expect_trace("");
    RLFileDescriptorInvalidate(file);
    RLRelease(file);
    handled();
    expect_trace("s:accept");
}

RL_TEST(write_comes_once, "S-SOCK-19 S-SOCK-29",
        "A Write type is enabled when the source is added, comes once, and again for each "
        "Enable; with its flag in every pass") {
    pair_of(kRLSocketWriteCallBack);
    socket_add(&s);
    handled();
    expect_trace("s:write");
    quiet();
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    handled();
    expect_trace("s:write");
    quiet();
    RLSocketSetSocketFlags(s.socket, kRLSocketAutomaticallyReenableWriteCallBack);
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    for (int i = 0; i < 3; i++) handled();
    expect_trace("s:write s:write s:write");
}

RL_TEST(adding_again_enables_again, "S-SOCK-19",
        "A socket that left its last mode has everything enabled when it is added anew") {
    pair_of(kRLSocketReadCallBack | kRLSocketWriteCallBack);
    RLSocketSetSocketFlags(s.socket, 0);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    write_byte(ends[1]);
    for (int i = 0; i < 2; i++) {
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        handled();
        expect_trace("s:read s:write");
        quiet();
        RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    }
    RLRelease(source);
}

RL_TEST(order_in_one_perform, "S-SOCK-22 S-SOCK-30 S-SOCK-31",
        "A socket that was connected before has one Connect callback, and it comes before "
        "Read, and that before Write, in one perform") {
    pair_of(kRLSocketConnectCallBack | kRLSocketReadCallBack | kRLSocketWriteCallBack);
    RLSocketSetSocketFlags(s.socket, 0);
    write_byte(ends[1]);
    socket_add(&s);
    handled();
    expect_trace("s:connect s:read s:write");
    RLSocketEnableCallBacks(s.socket, kRLSocketConnectCallBack | kRLSocketWriteCallBack);
    handled();
    expect_trace("s:write");
}

static void invalidate_in(Socket *self, RLSocketCallBackType type) {
    if ((long)type == *(long *)self->data) RLSocketInvalidate(self->socket);
}

RL_TEST(no_callback_after_invalidation, "S-SOCK-22",
        "A callback that invalidates the socket is the last one of the perform") {
    static long type = kRLSocketReadCallBack;
    pair_of(kRLSocketConnectCallBack | kRLSocketReadCallBack | kRLSocketWriteCallBack);
    s.action = invalidate_in;
    s.data = &type;
    write_byte(ends[1]);
    socket_add(&s);
    handled();
    expect_trace("s:connect s:read");
}

RL_TEST(without_automatic_reenabling, "S-SOCK-33 S-SOCK-36",
        "With the flag off each type comes once; nothing is lost while it is off; Enable "
        "reports what is there") {
    pair_of(kRLSocketDataCallBack);
    RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
    socket_add(&s);
    ck_assert_int_eq(write(ends[1], "one", 3), 3);
    handled();
    expect_trace("s:data=3");
    ck_assert_int_eq(write(ends[1], "three", 5), 5);
    quiet();
    RLSocketEnableCallBacks(s.socket, kRLSocketDataCallBack);
    handled();
    expect_trace("s:data=5");
    ck_assert(memcmp(s.received, "three", 5) == 0);
    quiet();
}

RL_TEST(a_connection_that_cannot_be_taken_is_no_callback, "S-SOCK-28 S-SOCK-33",
        "A listening socket without the flag, when there was no descriptor for the connection, "
        "takes it once there is one") {
    struct rlimit limit, none;
    s.name = "s";
    socket_make(&s, make_listener(), kRLSocketAcceptCallBack);
    RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    int peer = connect_to(port_of(RLSocketGetNative(s.socket)));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)peer + 1;
    /* Every number below is in use. */
    for (int number; (number = dup(peer)) >= 0 && number < peer;) continue;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(s.calls, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    handled();
    expect_trace("s:accept");
    close(s.accepted);
    close(peer);
}

RL_TEST(a_listening_socket_that_receives_no_more, "S-SOCK-28 S-SOCK-51",
        "A Unix socket that listens and whose receiving half is shut down, which is readable for ever and has no "
        "connection, is not looked at in every pass, whether its flag is set or not") {
    for (int automatic = 0; automatic < 2; automatic++) {
        struct sockaddr_un address = unix_address();
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
        ck_assert_int_eq(listen(listener, 8), 0);
        s.name = "s";
        socket_make(&s, listener, kRLSocketAcceptCallBack);
        if (!automatic) RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
        socket_add(&s);
        ck_assert_int_eq(shutdown(listener, SHUT_RD), 0);
        passes = 0;
        RLObserverRef counter = RLObserverCreate(kRLBeforeWaiting, true, 0, count_pass, NULL);
        RLAddObserver(RLGetCurrent(), counter, kRLDefaultMode);
        expect_run(kRLDefaultMode, 0.02, false, TimedOut);
        ck_assert_int_le(passes, 6);
        RLObserverInvalidate(counter);
        RLRelease(counter);
        RLSocketInvalidate(s.socket);
        unlink(address.sun_path);
    }
}

static void disable_it(Socket *self, RLSocketCallBackType type) {
    RLSocketDisableCallBacks(self->socket, type);
}

RL_TEST(disabling_in_the_callback, "S-SOCK-34",
        "A callback that disables its own type is not enabled again by the flag") {
    pair_of(kRLSocketReadCallBack);
    s.action = disable_it;
    socket_add(&s);
    write_byte(ends[1]);
    handled();
    expect_trace("s:read");
    quiet();
    RLSocketEnableCallBacks(s.socket, kRLSocketReadCallBack);
    handled();
    expect_trace("s:read");
}

static void run_nested(Socket *self, RLSocketCallBackType type) {
    (void)type;
    self->action = NULL;
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    trace("out");
}

RL_TEST(off_during_its_callback, "S-SOCK-34",
        "A type whose callback is on the stack is off: a nested run does not report it") {
    pair_of(kRLSocketReadCallBack);
    s.action = run_nested;
    socket_add(&s);
    write_byte(ends[1]);
    handled();
    handled();
    expect_trace("s:read out s:read");
}

RL_TEST(only_types_it_has, "S-SOCK-35",
        "Enabling a type the socket does not have does nothing") {
    pair_of(kRLSocketReadCallBack);
    socket_add(&s);
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack | kRLSocketConnectCallBack);
    quiet();
}

static void enable_read(void *socket) {
    RLSocketEnableCallBacks(socket, kRLSocketReadCallBack);
}

RL_TEST(disabling_loses_nothing, "S-SOCK-36",
        "What arrives while a type is off is reported when it is on again, also from another "
        "thread while the loop sleeps") {
    pair_of(kRLSocketReadCallBack);
    socket_add(&s);
    RLSocketDisableCallBacks(s.socket, kRLSocketReadCallBack);
    write_byte(ends[1]);
    quiet();
    Thread *thread = when_waiting(RLGetCurrent(), enable_read, s.socket);
    handled();
    thread_join(thread);
    expect_trace("s:read");
}

static void serve(LoopThread *self) {
    RLSocketRef socket = self->data;
    RLSourceRef source = RLSocketCreateRunLoopSource(socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRun();
}
static void take_one(Socket *self, RLSocketCallBackType type) {
    (void)self;
    (void)type;
}

RL_TEST(in_two_loops, "S-SOCK-20",
        "Each chunk is reported in one of two loops, and none is lost or doubled") {
    static LoopThread other;
    pair_of(kRLSocketDataCallBack);
    s.action = take_one;
    socket_add(&s);
    loop_thread_start(&other, serve, s.socket);
    RLRetain(other.loop);
    wait_until_waiting(other.loop);
    for (int i = 1; i <= 50; i++) {
        write_byte(ends[1]);
        while (count_of(&s.calls) < i) expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    ck_assert_int_eq(trace_count("s:data=1"), 50);
    ck_assert_int_eq(count_of(&s.calls), 50);
    RLSocketInvalidate(s.socket);
    RLStop(other.loop);
    thread_join(other.thread);
    RLRelease(other.loop);
}

RL_TEST(any_descriptor_will_do, "S-SOCK-50 S-FD-17",
        "Pipes and regular files serve Read and Write; calls that only sockets know are "
        "errors and invalidate nothing") {
    static Socket file = {.name = "file"};
    int pipe_ends[2];
    make_pipe(pipe_ends);
    s.name = "in";
    t.name = "out";
    socket_make(&s, pipe_ends[0], kRLSocketReadCallBack);
    socket_make(&t, pipe_ends[1], kRLSocketWriteCallBack | kRLSocketConnectCallBack);
    socket_add(&t);
    handled();
    expect_trace("out:write");
    socket_add(&s);
    write_byte(pipe_ends[1]);
    handled();
    expect_trace("in:read");
    read_byte(pipe_ends[0]);
    ck_assert_int_eq(RLSocketSendData(t.socket, NULL, 0, "x", 1, 0), kRLSocketError);
    ck_assert_ptr_null(RLSocketCopyAddress(t.socket));
    ck_assert_ptr_null(RLSocketCopyPeerAddress(t.socket));
    ck_assert(RLSocketIsValid(t.socket));
    RLSocketInvalidate(s.socket);
    char path[] = "/tmp/runloop-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    unlink(path);
    socket_make(&file, fd, kRLSocketReadCallBack | kRLSocketWriteCallBack);
    socket_add(&file);
    handled();
    handled();
    expect_trace("file:read file:write file:read");
}

RL_TEST(data_on_a_pipe, "S-SOCK-50",
        "A Data type on what is no socket gets a callback of length 0 and stays valid") {
    int pipe_ends[2];
    make_pipe(pipe_ends);
    s.name = "s";
    socket_make(&s, pipe_ends[0], kRLSocketDataCallBack);
    RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
    socket_add(&s);
    write_byte(pipe_ends[1]);
    handled();
    expect_trace("s:data=0");
    ck_assert(RLSocketIsValid(s.socket));
    quiet();
}

/* The parent goes on with its socket, and the child has its own. */
static void child_reads(void *argument) {
    (void)argument;
    handled();
    ck_assert_int_eq(s.calls, 1);
    RLSocketInvalidate(s.socket);
}

RL_TEST(sockets_after_fork, "S-FORK-1 S-FORK-2",
        "The child of fork has the socket, and invalidating it there is nothing to the parent") {
    pair_of(kRLSocketReadCallBack);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    write_byte(ends[1]);
    ChildResult child = run_child(child_reads, NULL);
    ck_assert_msg(child.status == 0, "%s", child.output);
    handled();
    expect_trace("s:read");
    ck_assert(RLSocketIsValid(s.socket));
}

/* Peers that misbehave */

static void discard(Socket *self, RLSocketCallBackType type) {
    (void)type;
    self->data = (void *)((size_t)self->data + self->length);
}

RL_TEST(a_peer_that_sends_and_sends, "S-PASS-13 S-SOCK-25",
        "A peer that floods the socket starves neither a timer nor another socket") {
    static Probe timer = {.name = "t"};
    pair_of(kRLSocketDataCallBack);
    s.name = "flood";
    s.action = discard;
    socket_add(&s);
    int others[2];
    make_sockets(SOCK_STREAM, others);
    t.name = "calm";
    socket_make(&t, others[0], kRLSocketDataCallBack);
    socket_add(&t);
    add_timer(&timer, date_in(0.01), 0, kRLDefaultMode);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    write_byte(others[1]);
    do {
        while (write(ends[1], sent, sizeof sent) > 0) continue;
        handled();
    } while (count_of(&timer.calls) == 0 || count_of(&t.calls) == 0 || s.calls == 0);
}

RL_TEST(a_peer_that_stops_reading, "S-SOCK-29 S-SOCK-45",
        "With no room left Write is not called and a send with a limit is an error; as soon "
        "as the peer reads again Write comes") {
    pair_of(kRLSocketWriteCallBack);
    socket_add(&s);
    handled();
    expect_trace("s:write");
    while (send(ends[0], sent, sizeof sent, MSG_DONTWAIT) > 0) continue;
    double start = monotonic_now();
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, 0.05), kRLSocketError);
    ck_assert_double_ge(monotonic_now() - start, 0.04);
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    quiet();
    while (recv(ends[1], sent, sizeof sent, MSG_DONTWAIT) > 0) continue;
    handled();
    expect_trace("s:write");
}

static int shared_ends[2];
static Gate is_reporting = GATE_INITIALIZER, may_return = GATE_INITIALIZER;

static void read_it(Socket *self, RLSocketCallBackType type) {
    (void)self, (void)type;
    read_byte(shared_ends[0]);
}

static void report_for_long(Socket *self, RLSocketCallBackType type) {
    gate_open(&is_reporting);
    gate_wait(&may_return);
    read_it(self, type);
}

static void report_once(void *socket) {
    RLSourceRef source = RLSocketCreateRunLoopSource(((Socket *)socket)->socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
}

static void report_in_thread(LoopThread *self) { report_once(self->data); }

static void report_in_child(void *argument) {
    Socket *socket = argument;
    socket->action = read_it;
    int calls = count_of(&socket->calls);
    report_once(socket);
    ck_assert_int_eq(count_of(&socket->calls), calls + 1);
    /* That was the only loop it was in: nothing is enabled any more. */
    RLSocketEnableCallBacks(socket->socket, kRLSocketReadCallBack);
    write_byte(shared_ends[1]);
    report_once(socket);
    ck_assert_int_eq(count_of(&socket->calls), calls + 2);
    int releases = count_of(&socket->releases);
    RLSocketInvalidate(socket->socket);
    ck_assert_int_eq(count_of(&socket->releases), releases + 1);
}

RL_TEST(a_socket_of_a_vanished_loop, "S-FORK-3 S-SOCK-19",
        "In the child of fork a socket whose callback ran in another thread reports in any loop that it is put in") {
    static Socket socket = {.name = "s", .action = report_for_long};
    make_sockets(SOCK_STREAM, shared_ends);
    RLSocketRef made = socket_make(&socket, shared_ends[0], kRLSocketReadCallBack);
    write_byte(shared_ends[1]);
    LoopThread other = {0};
    loop_thread_start(&other, report_in_thread, &socket);
    gate_wait(&is_reporting);
    RLGetCurrent();
    ChildResult result = run_child(report_in_child, &socket);
    ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
    /* The bytes are both processes'. */
    write_byte(shared_ends[1]);
    gate_open(&may_return);
    thread_join(other.thread);
    RLSocketInvalidate(made);
    RLRelease(made);
}

/* Its callbacks on the stack, all of one socket or one descriptor object, and how deep they go. */
static struct {
    RLSocketRef socket;
    RLFileDescriptorRef file;
    int depth, deepest, limit;
} deep;

static void go_deeper(void) {
    if (++deep.depth > deep.deepest) deep.deepest = deep.depth;
    if (deep.depth < deep.limit) {
        if (deep.socket) RLSocketEnableCallBacks(deep.socket, kRLSocketReadCallBack);
        else RLFileDescriptorEnableCallBacks(deep.file, kRLFileDescriptorReadCallBack);
        RLRunInMode(kRLDefaultMode, 60, true);
    }
    deep.depth--;
}
static void deeper_in_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
    go_deeper();
}
static void deeper_in_file(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file, (void)types, (void)info;
    go_deeper();
}

/* On a thread with room for as many. */
static void run_deep(RLThreadRef thread, void *info) {
    (void)thread;
    const int *limit = info;
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    deep.limit = abs(*limit);
    RLSourceRef source;
    if (*limit > 0) {
        deep.socket = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack, deeper_in_socket, NULL);
        RLSocketSetSocketFlags(deep.socket, 0);
        source = RLSocketCreateRunLoopSource(deep.socket, 0);
    } else {
        deep.file = RLFileDescriptorCreate(ends[0], false, deeper_in_file, NULL);
        RLFileDescriptorEnableCallBacks(deep.file, kRLFileDescriptorReadCallBack);
        source = RLFileDescriptorCreateRunLoopSource(deep.file, 0);
    }
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, true);
    ck_assert_int_eq(deep.deepest, deep.limit);
}
static void run_deep_on_thread(void *limit) {
    RLThreadRef thread = RLThreadCreate(run_deep, limit, NULL);
    RLThreadSetStackSize(thread, 256u << 20);
    RLThreadStart(thread);
    RLThreadJoin(thread);
}

RL_TEST(as_deep_as_can_be_counted, "S-NEST-1",
        "8,191 callbacks of one socket and 65,535 of one descriptor object may be in each other; one more ends the process with a line") {
    if (is_left_out_by_thread_sanitizer("it has no room for as many calls")) return;
    static const struct {
        int limit;
        const char *line;
    } cases[] = {{8191, NULL}, {8192, "RLSocket: "}, {-65535, NULL}, {-65536, "RLFileDescriptor: "}};
    for (int i = 0; i < 4; i++) {
        int limit = cases[i].limit;
        ChildResult result = run_child(run_deep_on_thread, &limit);
        ck_assert(cases[i].line ? WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGABRT : result.status == 0);
        if (cases[i].line) ck_assert_ptr_nonnull(strstr(result.output, cases[i].line));
    }
}
