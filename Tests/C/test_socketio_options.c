/* SPDX-License-Identifier: MIT */
/* Section 15.5: options, listening, descriptors and credentials. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static Socket s = {.name = "s"};
static Socket other = {.name = "o"};

static int option(int descriptor, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    ck_assert_int_eq(getsockopt(descriptor, level, name, &value, &size), 0);
    return value;
}

RL_TEST(options, "S-SOCK-67",
        "Each option is switched on and off; one that the kernel refuses is an error and the others are set all the same") {
    const struct {
        RLOptionFlags bit;
        int family, level, name;
    } all[] = {
        {kRLSocketReuseAddress, PF_INET, SOL_SOCKET, SO_REUSEADDR}, {kRLSocketReusePort, PF_INET, SOL_SOCKET, SO_REUSEPORT},
        {kRLSocketNoDelay, PF_INET, IPPROTO_TCP, TCP_NODELAY},      {kRLSocketKeepAlive, PF_INET, SOL_SOCKET, SO_KEEPALIVE},
        {kRLSocketOnlyIPv6, PF_INET6, IPPROTO_IPV6, IPV6_V6ONLY},   {kRLSocketPassCredentials, PF_UNIX, SOL_SOCKET, SO_PASSCRED},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        RLSocketRef socket = RLSocketCreate(all[i].family, SOCK_STREAM, 0, 0, NULL, NULL);
        if (!socket) continue; /* a machine without IPv6 */
        for (int on = 1; on >= 0; on--) {
            ck_assert_int_eq(RLSocketSetOptions(socket, all[i].bit, on != 0), kRLSocketSuccess);
            ck_assert_int_eq(option(RLSocketGetNative(socket), all[i].level, all[i].name) != 0, on);
        }
        ck_assert_int_eq(RLSocketSetOptions(socket, 0, true), kRLSocketSuccess);
        ck_assert_int_eq(RLSocketSetOptions(socket, ~(RLOptionFlags)63, true), kRLSocketSuccess);
        RLSocketInvalidate(socket);
        ck_assert_int_eq(RLSocketSetOptions(socket, all[i].bit, true), kRLSocketError);
        RLRelease(socket);
    }
    RLSocketRef local = RLSocketCreate(PF_UNIX, SOCK_STREAM, 0, 0, NULL, NULL);
    ck_assert_int_eq(RLSocketSetOptions(local, kRLSocketNoDelay | kRLSocketKeepAlive, true), kRLSocketError);
    ck_assert_int_eq(errno, EOPNOTSUPP);
    ck_assert_int_eq(option(RLSocketGetNative(local), SOL_SOCKET, SO_KEEPALIVE), 1);
    ck_assert_int_eq(RLSocketSetOptions(NULL, 1, true), kRLSocketError);
}

RL_TEST(a_server_starts_again, "S-SOCK-38 S-SOCK-68",
        "An address where connections linger can be taken again, by both calls; two that listen there at once cannot") {
    struct sockaddr_in address = loopback(0);
    for (int with_options = 0; with_options < 2; with_options++) {
        socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
        RLSocketError result = with_options
            ? RLSocketListen(s.socket, &address, sizeof address, kRLSocketReuseAddress, 10)
            : RLSocketSetAddress(s.socket, &address, sizeof address);
        ck_assert_int_eq(result, kRLSocketSuccess);
        address = loopback(port_of(RLSocketGetNative(s.socket)));
        socket_create(&other, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
        ck_assert_int_eq(RLSocketSetAddress(other.socket, &address, sizeof address), kRLSocketError);
        ck_assert_int_eq(errno, EADDRINUSE);
        RLSocketInvalidate(other.socket);
        /* The side that closes first lingers. */
        int client = connect_to(ntohs(address.sin_port));
        int accepted = accept(RLSocketGetNative(s.socket), NULL, NULL);
        close(accepted);
        char byte;
        ck_assert_int_eq(recv(client, &byte, 1, 0), 0);
        close(client);
        RLSocketInvalidate(s.socket);
    }
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketListen(s.socket, &address, sizeof address, 0, 0), kRLSocketError);
    ck_assert_int_eq(errno, EADDRINUSE);
}

RL_TEST(two_that_are_bound, "S-SOCK-38",
        "Reusable addresses let two sockets have one; only the first of them listens, and for the second that is an error") {
    struct sockaddr_in address = loopback(0);
    int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(bound, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ck_assert_int_eq(bind(bound, (struct sockaddr *)&address, sizeof address), 0);
    address = loopback(port_of(bound));
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketSetAddress(s.socket, &address, sizeof address), kRLSocketSuccess);
    ck_assert_int_eq(listen(bound, 1), -1);
}

RL_TEST(listening_with_options, "S-SOCK-68 S-SOCK-67",
        "Several sockets share a port; the backlog counts; connections inherit NoDelay and KeepAlive") {
    struct sockaddr_in address = loopback(0);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketListen(s.socket, &address, sizeof address,
                                    kRLSocketReusePort | kRLSocketNoDelay | kRLSocketKeepAlive, 0), kRLSocketSuccess);
    address = loopback(port_of(RLSocketGetNative(s.socket)));
    int client = connect_to(ntohs(address.sin_port));
    int accepted = accept(RLSocketGetNative(s.socket), NULL, NULL);
    ck_assert_int_eq(option(accepted, IPPROTO_TCP, TCP_NODELAY) != 0, 1);
    ck_assert_int_eq(option(accepted, SOL_SOCKET, SO_KEEPALIVE), 1);
    close(client);
    close(accepted);
    socket_create(&other, PF_INET, SOCK_STREAM, kRLSocketAcceptCallBack);
    ck_assert_int_eq(RLSocketListen(other.socket, &address, sizeof address, kRLSocketReusePort, 1), kRLSocketSuccess);
    RLSocketInvalidate(s.socket);
    /* A queue of one takes two; the third is not answered. */
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int result = connect(clients[i], (struct sockaddr *)&address, sizeof address);
        ck_assert(result == 0 || errno == EINPROGRESS);
    }
    int accepted_now = 0;
    while (accept4(RLSocketGetNative(other.socket), NULL, NULL, 0) >= 0 && ++accepted_now < 2);
    ck_assert_int_eq(accepted_now, 2);
    fcntl(RLSocketGetNative(other.socket), F_SETFL, O_NONBLOCK);
    ck_assert_int_eq(accept(RLSocketGetNative(other.socket), NULL, NULL), -1);
    ck_assert_int_eq(RLSocketListen(NULL, &address, sizeof address, 0, 0), kRLSocketError);
    ck_assert_int_eq(RLSocketListen(other.socket, NULL, 16, 0, 0), kRLSocketError);
    ck_assert_int_eq(RLSocketListen(other.socket, &address, SIZE_MAX, 0, 0), kRLSocketError);
    ck_assert_int_eq(RLSocketListen(other.socket, &address, sizeof address, 0, 0), kRLSocketError);

    static Socket datagrams = {.name = "d"};
    struct sockaddr_in any = loopback(0);
    socket_create(&datagrams, PF_INET, SOCK_DGRAM, kRLSocketReadCallBack);
    ck_assert_int_eq(RLSocketListen(datagrams.socket, &any, sizeof any, 0, 0), kRLSocketSuccess);
}

RL_TEST(both_families, "S-SOCK-68", "An IPv6 socket takes IPv4 connections, unless OnlyIPv6 is given") {
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&address, sizeof address) != 0) return; /* a machine without IPv6 */
    close(probe);
    for (int only = 0; only < 2; only++) {
        socket_create(&s, PF_INET6, SOCK_STREAM, kRLSocketAcceptCallBack);
        RLOptionFlags options = only ? kRLSocketOnlyIPv6 : 0;
        ck_assert_int_eq(RLSocketListen(s.socket, &address, sizeof address, options, 0), kRLSocketSuccess);
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in four = loopback(port_of(RLSocketGetNative(s.socket)));
        ck_assert_int_eq(connect(client, (struct sockaddr *)&four, sizeof four), only ? -1 : 0);
        close(client);
        RLSocketInvalidate(s.socket);
    }
}

/* Descriptors and credentials */

static int ends[2];
static void begin(int type) {
    make_sockets(type, ends);
    socket_make(&s, ends[0], 0);
    socket_make(&other, ends[1], kRLSocketReadCallBack);
}

RL_TEST(descriptors_travel, "S-SOCK-69",
        "Descriptors arrive with their bytes, as new numbers that are close-on-exec, over streams and datagrams") {
    const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        begin(types[i]);
        int before = count_descriptors(), pipe_ends[2], received[4];
        ck_assert_int_eq(pipe(pipe_ends), 0);
        ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "ab", 2, pipe_ends, 2), 2);
        close(pipe_ends[1]);
        char text[8];
        RLSocketAncillary with = {.descriptors = received, .room = 2, .count = 77, .lostDescriptors = true};
        ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &with), 2);
        ck_assert_uint_eq(with.count, 2);
        ck_assert(!with.lostDescriptors);
        ck_assert(!with.hasCredentials);
        for (int j = 0; j < 2; j++) ck_assert_int_eq(fcntl(received[j], F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(write(received[1], "x", 1), 1);
        ck_assert_int_eq(read(pipe_ends[0], text, 8), 1);
        close(received[0]);
        close(received[1]);
        close(pipe_ends[0]);
        ck_assert_int_eq(count_descriptors(), before);
        ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &with), -1);
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_uint_eq(with.count, 0);
        RLSocketInvalidate(s.socket);
        RLSocketInvalidate(other.socket);
    }
}

RL_TEST(descriptors_need_a_byte_of_a_stream, "S-SOCK-69",
        "Over a stream none is sent without a byte, which is an error; an empty datagram or record brings them") {
    const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        begin(types[i]);
        const int one[1] = {0}, expected = i == 0 ? -1 : 0;
        for (int j = 0; j < 2; j++) {
            errno = 0;
            ck_assert_int_eq(RLSocketSendDescriptors(s.socket, j == 0 ? "" : NULL, (size_t)j, one, 1), expected);
            ck_assert_int_eq(errno, i == 0 ? EINVAL : 0);
            int received[1];
            char byte;
            RLSocketAncillary with = {.descriptors = received, .room = 1};
            ck_assert_int_eq(RLSocketReceive(other.socket, &byte, 1, &with), expected);
            ck_assert_uint_eq(with.count, i == 0 ? 0 : 1);
            if (with.count > 0) close(received[0]);
        }
        RLSocketInvalidate(s.socket);
        RLSocketInvalidate(other.socket);
    }
}

RL_TEST(no_descriptor_leaks, "S-SOCK-69",
        "Without room for all of them, without a record, and with the last numbers of the process, none stays open") {
    begin(SOCK_STREAM);
    int many[253], received[253];
    char text[8];
    for (int i = 0; i < 253; i++) many[i] = 0;
    int before = count_descriptors();
    const size_t rooms[] = {0, 1, 2, 252};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, many, 253), 1);
        RLSocketAncillary with = {.descriptors = received, .room = rooms[i]};
        ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &with), 1);
        ck_assert(with.lostDescriptors);
        ck_assert_uint_eq(with.count, 0);
        ck_assert_int_eq(count_descriptors(), before);
    }
    RLSocketAncillary nowhere = {.descriptors = NULL, .room = 253};
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, many, 3), 1);
    ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &nowhere), 1);
    ck_assert(nowhere.lostDescriptors);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, many, 3), 1);
    ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, NULL), 1);
    ck_assert_int_eq(count_descriptors(), before);
    /* The kernel finds numbers for some of them. */
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, many, 253), 1);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    struct rlimit less = {128, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &less);
    RLSocketAncillary with = {.descriptors = received, .room = SIZE_MAX};
    ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &with), 1);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert(with.lostDescriptors);
    ck_assert_uint_eq(with.count, 0);
    ck_assert_int_eq(count_descriptors(), before);
}

RL_TEST(what_cannot_be_sent_or_received, "S-SOCK-69",
        "No descriptors, too many, closed ones, NULL and invalid sockets, lengths that no memory has: errors") {
    begin(SOCK_STREAM);
    int one[1] = {0}, closed[1] = {987654};
    static int many[254];
    char text[8];
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, one, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, NULL, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, many, 254), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, one, SIZE_MAX), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", SIZE_MAX, one, 1), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, closed, 1), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(RLSocketSendDescriptors(NULL, "a", 1, one, 1), -1);
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(RLSocketReceive(NULL, text, 1, NULL), -1);
    ck_assert_int_eq(errno, EBADF);
    RLSocketAncillary with = {.count = 5};
    ck_assert_int_eq(RLSocketReceive(NULL, text, 1, &with), -1);
    ck_assert_uint_eq(with.count, 0);
    ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "abc", 3), 3);
    ck_assert_int_eq(RLSocketReceive(other.socket, NULL, 8, &with), 0);
    ck_assert_int_eq(RLSocketReceive(other.socket, text, 8, &with), 3);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(RLSocketReceive(other.socket, text, 8, &with), 0);
    ck_assert_int_eq(RLSocketReceive(s.socket, text, 8, &with), -1);
    ck_assert_int_eq(errno, EBADF);
}

RL_TEST(credentials, "S-SOCK-69 S-SOCK-67", "With PassCredentials each message tells who sent it, with descriptors and without") {
    begin(SOCK_STREAM);
    ck_assert_int_eq(RLSocketSetOptions(other.socket, kRLSocketPassCredentials, true), kRLSocketSuccess);
    int one[1] = {0}, received[1];
    char text[8];
    for (int i = 0; i < 2; i++) {
        RLSocketAncillary with = {.descriptors = received, .room = 1};
        if (i == 0) ck_assert_int_eq(RLSocketSend(s.socket, NULL, 0, "a", 1), 1);
        if (i == 1) ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "a", 1, one, 1), 1);
        ck_assert_int_eq(RLSocketReceive(other.socket, text, sizeof text, &with), 1);
        ck_assert(with.hasCredentials);
        ck_assert_int_eq(with.process, getpid());
        ck_assert_uint_eq(with.user, getuid());
        ck_assert_uint_eq(with.group, getgid());
        ck_assert_uint_eq(with.count, (size_t)i);
    }
}

/* A TCP socket whose close waits a minute for a peer that takes nothing. */
static int make_lingering(void) {
    static char much[1 << 16];
    int ends[2];
    make_connection(ends);
    struct linger minute = {1, 60};
    ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &minute, sizeof minute), 0);
    while (send(ends[0], much, sizeof much, MSG_DONTWAIT) > 0);
    return ends[0];
}

static void send_lingering(int to) {
    int descriptor = make_lingering();
    char space[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(item), &descriptor, sizeof descriptor);
    ck_assert_int_eq(sendmsg(to, &message, 0), 1);
    close(descriptor);
}

RL_TEST(unwanted_descriptors_hold_nobody_up, "S-SOCK-69 S-SOCK-25",
        "A peer sends descriptors whose close would wait for a minute to one that takes no descriptors: neither Receive nor the Data "
        "callback waits") {
    static Socket read, data;
    char byte;
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&read, ends[0], kRLSocketReadCallBack);
    send_lingering(ends[1]);
    ck_assert_int_eq(RLSocketReceive(read.socket, &byte, 1, NULL), 1);
    make_sockets(SOCK_STREAM, ends);
    data.name = "data";
    socket_make(&data, ends[0], kRLSocketDataCallBack);
    socket_add(&data);
    send_lingering(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("data:data=1");
}

RL_TEST(pidfds_of_senders_are_closed, "S-SOCK-69 S-SOCK-25",
        "To one that has asked for a pidfd of each sender, by an option that the library does not know, none stays open: neither by Receive, "
        "with a record and without, nor by the Data callback") {
    static Socket read, data;
    char byte;
    int ends[2], on = 1;
    make_sockets(SOCK_STREAM, ends);
    /* SO_PASSPIDFD, from Linux 6.5 on. */
    if (setsockopt(ends[0], SOL_SOCKET, 76, &on, sizeof on) != 0) return;
    socket_make(&read, ends[0], kRLSocketReadCallBack);
    ck_assert_int_eq(write(ends[1], "abc", 3), 3);
    int before = count_descriptors();
    RLSocketAncillary record = {.room = 0};
    ck_assert_int_eq(RLSocketReceive(read.socket, &byte, 1, &record), 1);
    ck_assert_int_eq(RLSocketReceive(read.socket, &byte, 1, NULL), 1);
    ck_assert_int_eq(count_descriptors(), before);
    RLSocketInvalidate(read.socket);
    make_sockets(SOCK_STREAM, ends);
    ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, 76, &on, sizeof on), 0);
    data.name = "data";
    socket_make(&data, ends[0], kRLSocketDataCallBack);
    socket_add(&data);
    ck_assert_int_eq(write(ends[1], "abc", 3), 3);
    /* The first run makes the loop's set. */
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("data:data=3");
    before = count_descriptors();
    ck_assert_int_eq(write(ends[1], "abc", 3), 3);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("data:data=3");
    ck_assert_int_eq(count_descriptors(), before);
}

RL_TEST(records_with_descriptors_before_a_reset, "S-SOCK-26 S-SOCK-69",
        "What the peer sent before it closed with a record unread is received before the end, also with its descriptors") {
    static Socket from, to;
    char byte = 'x';
    int ends[2], sent = STDIN_FILENO, got;
    make_sockets(SOCK_SEQPACKET, ends);
    socket_make(&to, ends[0], kRLSocketReadCallBack);
    socket_make(&from, ends[1], kRLSocketReadCallBack);
    ck_assert_int_eq(send(ends[0], "unread", 6, 0), 6);
    ck_assert_int_eq(RLSocketSendDescriptors(from.socket, &byte, 1, &sent, 1), 1);
    RLSocketInvalidate(from.socket);
    RLSocketAncillary record = {.descriptors = &got, .room = 1};
    ck_assert_int_eq(RLSocketReceive(to.socket, &byte, 1, &record), 1);
    ck_assert_uint_eq(record.count, 1);
    close(got);
    ck_assert_int_eq(RLSocketReceive(to.socket, &byte, 1, &record), 0);
}

RL_TEST(pidfds_take_no_room, "S-SOCK-69", "As many descriptors as go, credentials, and a pidfd of the sender that the client has asked for, come together") {
    static Socket from, to;
    char byte = 'x';
    int ends[2], on = 1, sent[253], got[253];
    make_sockets(SOCK_STREAM, ends);
    if (setsockopt(ends[0], SOL_SOCKET, 76, &on, sizeof on) != 0) return;
    socket_make(&to, ends[0], kRLSocketReadCallBack);
    socket_make(&from, ends[1], kRLSocketReadCallBack);
    ck_assert_int_eq(RLSocketSetOptions(to.socket, kRLSocketPassCredentials, true), kRLSocketSuccess);
    for (int i = 0; i < 253; i++) sent[i] = ends[1];
    int before = count_descriptors();
    ck_assert_int_eq(RLSocketSendDescriptors(from.socket, &byte, 1, sent, 253), 1);
    RLSocketAncillary record = {.descriptors = got, .room = 253};
    ck_assert_int_eq(RLSocketReceive(to.socket, &byte, 1, &record), 1);
    ck_assert_uint_eq(record.count, 253);
    ck_assert(!record.lostDescriptors && record.hasCredentials);
    ck_assert_int_eq(count_descriptors(), before + 253);
}

RL_TEST(descriptors_go_over_unix_sockets, "S-SOCK-69", "Over a socket of another kind no descriptor is sent, and no byte") {
    static Socket s;
    int ends[2], descriptor = 0;
    char byte;
    make_connection(ends);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    errno = 0;
    ck_assert_int_eq(RLSocketSendDescriptors(s.socket, "x", 1, &descriptor, 1), -1);
    ck_assert_int_eq(errno, EOPNOTSUPP);
    ck_assert_int_eq(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
}
