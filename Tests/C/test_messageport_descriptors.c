/* SPDX-License-Identifier: MIT */
/* Descriptors that peers send where there is no number for them, or where the kernel refuses the calls by which they are closed without a wait. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static Service service = {.reply = "yes"};

RL_TEST(no_socket_in_a_queue_holds_a_closer_without_descriptors, "S-MSG-42",
        "Nor does such a socket where the process has no descriptor left, in a connection that is ended, taken or not; other files stay open") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "queued", "m");
    int raw = greet_raw("queued"), fd = lingering_socket(600), ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    RLRunInMode("m", 0, true);
    send_raw(raw, header_of(99, 0, 0), "");
    for (int i = 0; i < 3; i++) send_memory(raw, header_of(2, 0, 5), fd);
    close(fd);
    struct rlimit limit = no_more_descriptors();
    while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
    setrlimit(RLIMIT_NOFILE, &limit);
    close(raw);
    RLMessagePortRef remote = RLMessagePortCreateRemote("queued");
    ck_assert_str_eq(ask_text(remote, 2, "y", "m"), "yes");
    RLRelease(remote);
    /* In two connections that nobody accepts any more. */
    int other = connect_raw("queued");
    raw = connect_raw("queued"), fd = lingering_socket(600);
    send_memory(raw, header_of(2, 0, 5), fd);
    send_memory(other, header_of(2, 0, 5), fd);
    close(fd);
    limit = no_more_descriptors();
    RLMessagePortInvalidate(port);
    setrlimit(RLIMIT_NOFILE, &limit);
    RLRelease(port);
    ck_assert(is_closed(raw) && is_closed(other));
    close(raw);
    close(other);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    close(ends[0]);
    close(ends[1]);
    remove_own_directory();
}

/* Sends a descriptor with the message, and only that has it from then on. */
static void give(int raw, Header header, int fd) {
    header.descriptors = 1;
    send_memory(raw, header, fd);
    close(fd);
}

/* A local socket in whose queue a socket lies that lingers. */
static int nested_lingering_socket(void) {
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    send_memory(pair[0], header_of(2, 0, 0), lingering_socket(600));
    close(pair[0]);
    return pair[1];
}

RL_TEST(no_socket_without_a_number_holds_its_taker, "S-MSG-42 S-ARG-10",
        "A message with a socket that lingers, or has one in its queue, does not hold the loop of a process that has no number for it, and fails") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "full", "m");
    int raw = greet_raw("full"), other;
    RLRunInMode("m", 0, true);
    for (int is_nested = 0; is_nested < 2; is_nested++) {
        Header reply;
        give(raw, header_of(2, 7, 0), is_nested ? nested_lingering_socket() : lingering_socket(600));
        struct rlimit limit = no_more_descriptors();
        /* Where the loop waits, the time of the case is over. */
        for (int i = 0; i < 3; i++) RLRunInMode("m", 0.01, true);
        setrlimit(RLIMIT_NOFILE, &limit);
        ck_assert_int_eq(receive_raw(raw, &reply, &other), sizeof reply);
        ck_assert_int_eq(reply.number, 1);
    }
    ck_assert_int_eq(service.calls, 0);
    send_raw(raw, header_of(2, 8, 0), "");
    while (service.calls == 0) RLRunInMode("m", 0.01, true);
    close(raw);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}

static void reply_with_a_socket(int listener, int is_sent) {
    Header header, reply = header_of(3, 0, 0);
    int none, fd = accept(listener, NULL, NULL);
    ck_assert_int_gt(receive_raw(fd, &header, &none), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_gt(receive_raw(fd, &header, &none), 0);
        reply.id = header.id;
        if (i == 0) send_raw(fd, reply, "");
    }
    give(fd, reply, lingering_socket(600));
    write_byte(is_sent);
    for (;;) pause();
}
static int outcome = 1;
static void note_outcome(RLMessagePortRef port, int32_t result, RLDataRef data, void *info) {
    (void)port, (void)data, (void)info;
    outcome = result;
}
RL_TEST(no_reply_without_a_number_holds_its_taker, "S-MSG-42 S-ARG-10", "Nor does such a socket that comes with a reply hold the client's loop") {
    use_own_directory();
    int listener = listen_raw("server"), is_sent[2];
    make_pipe(is_sent);
    pid_t server = fork();
    if (server == 0) reply_with_a_socket(listener, is_sent[1]);
    RLMessagePortRef remote = RLMessagePortCreateRemote("server");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL), kRLMessagePortSuccess);
    uint32_t number;
    ck_assert_int_eq(
        RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 60, RLGetCurrent(), "m", note_outcome, NULL, &number), kRLMessagePortSuccess);
    read_byte(is_sent[0]);
    struct rlimit limit = no_more_descriptors();
    while (outcome > 0) RLRunInMode("m", 0.01, true);
    setrlimit(RLIMIT_NOFILE, &limit);
    RLMessagePortInvalidate(remote);
    RLRelease(remote);
    kill(server, SIGKILL);
    ck_assert_int_eq(waitpid(server, NULL, 0), server);
    close(is_sent[0]), close(is_sent[1]);
    unlisten_raw(listener, "server");
    remove_own_directory();
}

static bool refuse_unshare(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_unshare) return false;
    errno = EPERM;
    *result = -1;
    return true;
}
RL_TEST(no_socket_holds_its_closer_where_unshare_is_refused, "S-MSG-42",
        "Nor does such a socket where a filter refuses unshare(2), in a message, in a queue, and without a number; other files stay open") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "filtered", "m");
    int raw = greet_raw("filtered"), ends[2], other;
    make_pipe(ends);
    hook_system_calls(refuse_unshare);
    give(raw, header_of(2, 0, 0), nested_lingering_socket());
    while (service.calls == 0) RLRunInMode("m", 0.01, true);
    give(raw, header_of(2, 7, 0), lingering_socket(600));
    struct rlimit limit = no_more_descriptors();
    for (int i = 0; i < 3; i++) RLRunInMode("m", 0.01, true);
    setrlimit(RLIMIT_NOFILE, &limit);
    Header reply;
    ck_assert_int_eq(receive_raw(raw, &reply, &other), sizeof reply);
    ck_assert_int_eq(reply.number, 1);
    send_raw(raw, header_of(99, 0, 0), "");
    for (int i = 0; i < 6; i++) give(raw, header_of(2, 0, 0), nested_lingering_socket());
    while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
    hook_system_calls(NULL);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    close(raw), close(ends[0]), close(ends[1]);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(a_pass_closes_few_such_connections, "S-MSG-42",
        "Refused connections with descriptors in their queues cost the loop more than their peers: a pass closes few of them, and the next ones the rest") {
    enum { PEERS = 64 };
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "many", "m");
    int fds[PEERS], file = open("/dev/null", O_RDONLY | O_CLOEXEC), closed = 0;
    log_capture();
    for (int i = 0; i < PEERS; i++) {
        fds[i] = connect_raw("many");
        for (int pass = 0; pass < 2; pass++) RLRunInMode("m", 0, true);
    }
    for (int i = 0; i < PEERS; i++) {
        send_raw(fds[i], header_of(99, 0, 0), "");
        for (int queued = 0; queued < 3; queued++) send_memory(fds[i], header_of(2, 0, 0), file);
    }
    RLRunInMode("m", 0, true);
    for (int i = 0; i < PEERS; i++) closed += is_closed(fds[i]);
    ck_assert_int_gt(closed, 0);
    ck_assert_int_le(closed, 4);
    for (int i = 0; i < PEERS; i++) {
        while (!is_closed(fds[i])) RLRunInMode("m", 0.01, true);
        close(fds[i]);
    }
    close(file);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}
