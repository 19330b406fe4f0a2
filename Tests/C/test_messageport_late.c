/* SPDX-License-Identifier: MIT */
/* Clients that wait no more: replies that come late, and room that comes little by little. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "thread_starts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* More replies than a queue holds, and messages that come after them. */
enum { ASKED = 40, TOLD = 20 };

static Gate is_idle = GATE_INITIALIZER;
static int told;
static RLDataRef serve_late(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    static char bytes[30000];
    (void)port, (void)data, (void)info;
    if (msgid == 2) {
        __atomic_add_fetch(&told, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    gate_wait(&is_idle);
    return RLDataCreate(bytes, sizeof bytes);
}

static Gate is_there = GATE_INITIALIZER, is_done = GATE_INITIALIZER;
static void serve_until_done(void *argument) {
    (void)argument;
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("late"), serve_late, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    gate_open(&is_there);
    while (!gate_is_open(&is_done)) RLRunInMode(kRLDefaultMode, 0.01, true);
    RLMessagePortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}
static Thread *start_late_server(RLMessagePortRef *remote) {
    Thread *server = thread_start(serve_until_done, NULL);
    gate_wait(&is_there);
    *remote = RLMessagePortCreateRemote(port_name("late"));
    return server;
}
static void end_late_server(Thread *server, RLMessagePortRef remote) {
    gate_open(&is_done);
    thread_join(server);
    RLRelease(remote);
}
static void tell(RLMessagePortRef remote, double timeout) {
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 2, "x", 1, timeout, 0, NULL, NULL), kRLMessagePortSuccess);
}
static void ask_without_patience(RLMessagePortRef remote) {
    for (int i = 0; i < ASKED; i++)
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, NULL, 0, 60, 0, "m", NULL), kRLMessagePortReceiveTimeout);
}

RL_TEST(late_replies_are_read_by_an_idle_client, "S-MSG-28 S-MSG-24",
        "More late replies than the queue holds keep no message from being served, though the client does nothing any more") {
    RLMessagePortRef remote;
    Thread *server = start_late_server(&remote);
    ask_without_patience(remote);
    for (int i = 0; i < TOLD; i++) tell(remote, 60);
    gate_open(&is_idle);
    wait_until_count(&told, TOLD);
    /* The port is as good as new. */
    for (int i = 0; i < ASKED; i++) {
        RLDataRef reply = NULL;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, NULL, 0, 60, 60, "m", &reply), kRLMessagePortSuccess);
        ck_assert_int_eq(RLDataGetLength(reply), 30000);
        RLRelease(reply);
    }
    end_late_server(server, remote);
}

static void no_outcome(RLMessagePortRef port, int32_t result, RLDataRef data, void *info) {
    (void)port, (void)result, (void)data, (void)info;
    ck_abort_msg("a cancelled request has an outcome");
}
RL_TEST(replies_to_cancelled_requests_are_read, "S-MSG-50 S-MSG-24",
        "So it is with replies to begun requests that were cancelled") {
    RLMessagePortRef remote;
    Thread *server = start_late_server(&remote);
    for (int i = 0; i < ASKED; i++) {
        uint32_t number;
        ck_assert_int_eq(
            RLMessagePortBeginRequest(remote, 1, NULL, 0, NULL, 0, 60, RLGetCurrent(), "m", no_outcome, NULL, &number),
            kRLMessagePortSuccess);
        ck_assert(RLMessagePortCancelRequest(remote, number));
    }
    for (int i = 0; i < TOLD; i++) tell(remote, 60);
    gate_open(&is_idle);
    wait_until_count(&told, TOLD);
    end_late_server(server, remote);
}

RL_TEST(without_a_thread_the_next_request_reads_late_replies, "S-MSG-28 S-MSG-46",
        "If no thread can be made to read late replies, that is logged once and each later request reads those that have come") {
    RLMessagePortRef remote;
    log_capture();
    Thread *server = start_late_server(&remote);
    hook_thread_starts(refuse_thread);
    ask_without_patience(remote);
    ck_assert_int_eq(log_count(), 1);
    gate_open(&is_idle);
    int sent = 0;
    while (__atomic_load_n(&told, __ATOMIC_SEQ_CST) == 0) {
        if (RLMessagePortSendRequest(remote, 2, "x", 1, 0, 0, NULL, NULL) == kRLMessagePortSuccess) sent++;
        take_time(0.001);
    }
    wait_until_count(&told, sent);
    hook_thread_starts(NULL);
    end_late_server(server, remote);
}

static int told_in_callback = -1;
static Gate is_called = GATE_INITIALIZER;
static void wait_for_the_told(RLMessagePortRef port, void *info) {
    (void)port, (void)info;
    gate_open(&is_called);
    wait_until_count(&told, TOLD);
    __atomic_store_n(&told_in_callback, TOLD, __ATOMIC_SEQ_CST);
}
RL_TEST(late_replies_are_read_during_an_invalidation_callback, "S-MSG-28 S-MSG-36",
        "So it is while the library's thread is in the invalidation callback of another port, which may wait for what is served then") {
    RLMessagePortRef remote, local = RLMessagePortCreateLocal(port_name("gone"), serve_late, NULL, NULL);
    RLMessagePortRef gone = RLMessagePortCreateRemote(port_name("gone"));
    RLMessagePortSetInvalidationCallBack(gone, wait_for_the_told);
    Thread *server = start_late_server(&remote);
    ask_without_patience(remote);
    for (int i = 0; i < TOLD; i++) tell(remote, 60);
    RLMessagePortInvalidate(local);
    gate_wait(&is_called);
    gate_open(&is_idle);
    wait_until_count(&told_in_callback, TOLD);
    end_late_server(server, remote);
    RLRelease(gone);
    RLRelease(local);
}

static int sent;
static void send_many(void *argument) {
    for (int i = 0; i < 20; i++) {
        tell(argument, 60);
        __atomic_add_fetch(&sent, 1, __ATOMIC_SEQ_CST);
    }
}
RL_TEST(little_room_is_used, "S-MSG-23",
        "A sender that waits for room goes on as soon as there is room for its message, long before the receiver has taken most of the queue") {
    use_own_directory();
    int listener = listen_raw("little"), memory;
    Header header;
    RLMessagePortRef remote = RLMessagePortCreateRemote("little");
    int connection = accept(listener, NULL, NULL);
    while (RLMessagePortSendRequest(remote, 2, "x", 1, 0, 0, NULL, NULL) == kRLMessagePortSuccess) continue;
    Thread *sender = thread_start(send_many, remote);
    for (int i = 1; i <= 20; i++) {
        ck_assert_int_gt(receive_raw(connection, &header, &memory), 0);
        wait_until_count(&sent, i);
    }
    thread_join(sender);
    close(connection);
    unlisten_raw(listener, "little");
    RLRelease(remote);
    remove_own_directory();
}

static RLDataRef reply_long_or_short(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)data, (void)info;
    static const char short_reply[1000];
    if (msgid == 2) return RLDataCreate(short_reply, sizeof short_reply);
    char *bytes = calloc(1, (size_t)65 << 20);
    RLDataRef reply = RLDataCreate(bytes, (size_t)65 << 20);
    free(bytes);
    return reply;
}
static void ask_raw(int fd, int32_t msgid) {
    Header header = header_of(2, 1, 0);
    header.flags = 2;
    header.number = msgid;
    send_raw(fd, header, "");
    expect_run("m", 60, true, HandledSource);
}
RL_TEST(what_a_peer_has_taken_is_not_unread, "S-MSG-42",
        "A peer that always leaves a few long replies in its queue, and short ones between them, gets each of them, whatever their sum") {
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("unread", reply_long_or_short, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    int fd = greet_raw("unread");
    ask_raw(fd, 1);
    for (int i = 0; i < 60; i++) {
        Header header;
        int memory;
        ask_raw(fd, i % 2 ? 1 : 2);
        ck_assert_int_gt(receive_raw(fd, &header, &memory), 0);
        ck_assert_int_eq(header.number, 0);
        if (memory >= 0) close(memory);
    }
    close(fd);
    RLRelease(source);
    RLRelease(port);
    remove_own_directory();
}
