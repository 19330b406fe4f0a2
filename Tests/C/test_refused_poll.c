/* SPDX-License-Identifier: MIT */
/*
 * poll(2) that is refused: where the process may have no descriptors at all, or the kernel has no memory for it. What it would say is
 * found otherwise, or looked at again later.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_descriptor.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int left, refusals, receives;

static bool refuse_poll(long number, const long argument[6], long *result) {
    if (number == SYS_recvfrom || number == SYS_recvmsg) __atomic_add_fetch(&receives, 1, __ATOMIC_SEQ_CST);
    /* One that only passes time names no descriptor. */
    if (number != SYS_ppoll || argument[1] == 0 || __atomic_fetch_sub(&left, 1, __ATOMIC_SEQ_CST) <= 0) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = EINVAL;
    *result = -1;
    return true;
}

static void refuse(int count) {
    __atomic_store_n(&left, count, __ATOMIC_SEQ_CST);
    hook_system_calls(refuse_poll);
}

/* Message ports */

static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)port, (void)info;
    __atomic_add_fetch(&invalidations, 1, __ATOMIC_SEQ_CST);
}

static void lose_peer(int count) {
    if (is_left_out_by_emulator("qemu looks for the bytes of a send before the kernel looks for the peer")) return;
    Server server = server_start(port_name("peer"), "x", NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("peer"));
    RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
    refuse(count);
    ck_assert(RLMessagePortIsValid(remote));
    __atomic_store_n(&left, count, __ATOMIC_SEQ_CST);
    server_kill(&server);
    for (int i = 0; i < 10000 && count_of(&invalidations) == 0; i++) take_time(0.001);
    hook_system_calls(NULL);
    ck_assert_int_gt(count_of(&refusals), 0);
    ck_assert_int_eq(count_of(&invalidations), 1);
    ck_assert(!RLMessagePortIsValid(remote));
    RLRelease(remote);
}

RL_TEST(the_end_of_a_peer_is_told_after_one_refusal, "S-MSG-36",
        "One refused look at the connection of a peer that has ended does not lose the invalidation callback") {
    lose_peer(1);
}

RL_TEST(the_end_of_a_peer_is_told_where_poll_is_refused, "S-MSG-36 S-ARG-11",
        "Without poll the end of a peer is told, and a port whose peer lives stays valid") {
    lose_peer(1 << 30);
}

/* Connects */

static void expect_refused_connect(RLOptionFlags types, const char *expected) {
    static Socket s;
    s = (Socket){.name = "s"};
    struct sockaddr_in address = loopback(refused_port());
    socket_create(&s, PF_INET, SOCK_STREAM, types);
    socket_add(&s);
    refuse(1 << 30);
    RLSocketConnectToAddress(s.socket, &address, sizeof address, -1);
    for (int i = 0; i < 100; i++) RLRunInMode(kRLDefaultMode, 0.001, true);
    hook_system_calls(NULL);
    expect_trace(expected);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

RL_TEST(a_refused_connect_is_told_where_poll_is_refused, "S-SOCK-30 S-SOCK-32 S-ARG-11",
        "Without poll a background connect that fails is reported once, and what follows it is the same") {
    expect_refused_connect(kRLSocketConnectCallBack, "s:connect=111");
    expect_refused_connect(kRLSocketConnectCallBack | kRLSocketWriteCallBack, "s:connect=111");
    expect_refused_connect(kRLSocketConnectCallBack | kRLSocketDataCallBack, "s:connect=111 s:data=0");
}

RL_TEST(no_connect_is_told_where_none_was_begun, "S-SOCK-30 S-ARG-11", "Without poll nothing is reported of a socket whose connect was not begun") {
    static Socket s = {.name = "s"};
    refuse(1 << 30);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    for (int i = 0; i < 10; i++) RLRunInMode(kRLDefaultMode, 0.001, true);
    hook_system_calls(NULL);
    expect_trace("");
}

/* Descriptors */

RL_TEST(a_regular_file_is_ready_where_poll_is_refused, "S-FD-17 S-ARG-11", "Without poll a regular file is reported as often as it is enabled") {
    static Descriptor file = {.name = "f", .again = kRLFileDescriptorReadCallBack};
    char path[] = "/tmp/runloop-poll-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    add_descriptor(&file, fd, kRLFileDescriptorReadCallBack);
    expect_run(kRLDefaultMode, 1, true, HandledSource);
    refuse(1 << 30);
    for (int i = 0; i < 40; i++) expect_run(kRLDefaultMode, 1, true, HandledSource);
    hook_system_calls(NULL);
    ck_assert_int_eq(file.calls, 41);
}

/* Sockets without end */

RL_TEST(a_socket_that_stays_readable_does_not_spin, "S-SOCK-51 S-ARG-11",
        "Without poll a datagram socket whose receiving half is shut down is looked at ten times a second, and disabled once poll answers") {
    static Socket s = {.name = "s"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    address = loopback(port_of(fd));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    socket_make(&s, fd, kRLSocketDataCallBack);
    socket_add(&s);
    shutdown(fd, SHUT_RD);
    refuse(1 << 30);
    double begin = monotonic_now();
    expect_run(kRLDefaultMode, 0.3, true, TimedOut);
    ck_assert_int_gt(receives, 0);
    ck_assert_double_le(receives, 10 * (monotonic_now() - begin) + 2);
    __atomic_store_n(&left, 0, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 0.2, true, TimedOut);
    receives = 0;
    expect_run(kRLDefaultMode, 0.2, true, TimedOut);
    hook_system_calls(NULL);
    ck_assert_int_eq(receives, 0);
    expect_trace("");
}

RL_TEST(an_empty_record_is_no_end_where_poll_is_refused, "S-SOCK-27 S-ARG-11", "Without poll an empty record is told from the end of the connection") {
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_SEQPACKET, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    refuse(1 << 30);
    ck_assert_int_eq(send(ends[1], "", 0, 0), 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:data=0");
    ck_assert(RLSocketIsValid(s.socket));
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    hook_system_calls(NULL);
    expect_trace("s:data=0");
    ck_assert(!RLSocketIsValid(s.socket));
}
