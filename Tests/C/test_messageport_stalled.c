/* SPDX-License-Identifier: MIT */
/* Peers of message ports that stop: what a port keeps for them, and what it costs to find them. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Until the port has taken all that was sent to it. */
static void serve_all(void) {
    for (int idle = 0; idle < 32;) idle = RLRunInMode("m", 0, true) == kRLRunHandledSource ? 0 : idle + 1;
}

/* A header with one descriptor so many times. */
static ssize_t send_often(int fd, Header header, int descriptor, int count) {
    int all[128];
    for (int i = 0; i < count; i++) all[i] = descriptor;
    return send_descriptors(fd, header, all, count);
}

static int looks;
static bool count_looks(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_ppoll) looks++;
    return false;
}

RL_TEST(a_datagram_costs_the_same_however_many_are_begun, "S-MSG-42",
        "While begun messages hold much, connections whose datagrams wait are looked at once, and not once for each datagram of the others") {
    enum { PEERS = 150, HOLDERS = 2 };
    static Service service = {.reply = "yes"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "begun", "m");
    int fds[PEERS], holders[HOLDERS];
    Header begun = header_of(2, 0, 40000);
    begun.flags = 4;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("begun");
        send_raw(fds[i], begun, "");
        serve_all();
    }
    begun.descriptors = 100;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = greet_raw("begun");
        ck_assert_int_gt(send_often(holders[i], begun, STDIN_FILENO, 100), 0);
        serve_all();
    }
    /* Nothing is taken for longer than a sender may be still. */
    take_time(2.2);
    begun.descriptors = 0;
    for (int i = 0; i < PEERS; i++) send_raw(fds[i], begun, "");
    for (int i = 0; i < HOLDERS; i++) send_memory(holders[i], part_of(1, 0, 1), kept_memory(4096, 0, "x"));
    hook_system_calls(count_looks);
    serve_all();
    hook_system_calls(NULL);
    ck_assert_int_le(looks, 2 * (PEERS + HOLDERS) + 64);
    for (int i = 0; i < PEERS; i++) ck_assert(!is_closed(fds[i]));
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    for (int i = 0; i < HOLDERS; i++) close(holders[i]);
    serve_all();
    RLRelease(port);
    remove_own_directory();
}

/* Peers that take no replies. */

enum { INLINE = 32768, LONG = 40000, LAST = 20 };
static RLDataRef reply_zeros(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    static const uint8_t zeros[LONG];
    (void)port, (void)data, (void)info;
    return RLDataCreate(zeros, msgid);
}
static RLMessagePortRef add_replying_port(const char *name) {
    RLMessagePortRef port = RLMessagePortCreateLocal(name, reply_zeros, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRelease(source);
    RLRunInMode("m", 0, true);
    return port;
}
/* So many replies, the last one of another length. */
static void ask_much(int fd, int32_t count, int32_t last) {
    for (int32_t id = 1; id <= count; id++) {
        Header header = header_of(2, (uint32_t)id, 0);
        header.number = id < count ? INLINE : last;
        send_raw(fd, header, "");
    }
}

static struct rlimit limit_descriptors(rlim_t limit) {
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = limit;
    setrlimit(RLIMIT_NOFILE, &low);
    return old;
}

/* In a process that is forked: those that the port refuses get an error. */
static void ask_and_end(int count) {
    for (int i = 0; i < count; i++) {
        int fd = connect_raw("itself");
        Header headers[LAST + 2] = {header_of(1, 0, strlen("itself")), [LAST + 1] = header_of(2, 0, 0)};
        char hello[sizeof(Header) + 6];
        memcpy(hello, headers, sizeof(Header));
        memcpy(hello + sizeof(Header), "itself", 6);
        send(fd, hello, sizeof hello, MSG_NOSIGNAL);
        for (uint32_t id = 1; id <= LAST; id++) {
            headers[id] = header_of(2, id, 0);
            headers[id].number = INLINE;
            send(fd, &headers[id], sizeof(Header), MSG_NOSIGNAL);
        }
        headers[LAST + 1].descriptors = 1;
        send_often(fd, headers[LAST + 1], fd, 1);
        close(fd);
    }
    _exit(0);
}

RL_TEST(who_ended_within_its_own_queue_keeps_nothing_from_others, "S-MSG-42",
        "A peer that takes no replies, puts its end of each connection into the connection and ends keeps nobody else out") {
    enum { PEERS = 60, LIMIT = 100 };
    use_own_directory();
    RLMessagePortRef port = add_replying_port("itself");
    log_capture();
    int before = count_descriptors();
    pid_t peer = fork();
    if (peer == 0) ask_and_end(PEERS);
    struct rlimit old = limit_descriptors(LIMIT);
    for (bool has_ended = false; !has_ended; serve_all()) has_ended = waitpid(peer, NULL, WNOHANG) == peer;
    int32_t code = kRLMessagePortIsInvalid;
    for (int attempt = 0; attempt < 300 && code != kRLMessagePortSuccess; attempt++) {
        RLMessagePortRef remote = RLMessagePortCreateRemote("itself");
        code = RLMessagePortSendRequest(remote, 3, NULL, 0, 60, 60, "m", NULL);
        if (remote) RLRelease(remote);
        take_time(0.05);
    }
    ck_assert_int_eq(code, kRLMessagePortSuccess);
    /* What is freed goes by turns. */
    for (int attempt = 0; attempt < 300 && count_descriptors() > before; attempt++) {
        RLMessagePortRef remote = RLMessagePortCreateRemote("itself");
        serve_all();
        if (remote) RLRelease(remote);
    }
    setrlimit(RLIMIT_NOFILE, &old);
    RLRelease(port);
    remove_own_directory();
}

/* How many replies of that length a queue has room for. */
static int32_t room_in_queue(void) {
    static const char bytes[sizeof(Header) + INLINE];
    int pair[2];
    int32_t count = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    while (send(pair[0], bytes, sizeof bytes, 0) > 0) count++;
    close(pair[0]), close(pair[1]);
    return count;
}

/* False if the machine is too slow for it. */
static bool let_replies_wait(void) {
    enum { PEERS = 250, LIMIT = 800, KEPT = 64 };
    use_own_directory();
    RLMessagePortRef port = add_replying_port("files");
    struct rlimit old = limit_descriptors(LIMIT);
    int fds[PEERS], before = count_descriptors() + PEERS, room = room_in_queue();
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("files");
        serve_all();
    }
    ck_assert_int_eq(count_descriptors(), before + PEERS);
    const double asked = monotonic_now();
    for (int i = 0; i < PEERS; i++) {
        ask_much(fds[i], room + 1, LONG);
        serve_all();
    }
    ck_assert_int_le(count_descriptors(), before + LIMIT / 2 + KEPT);
    /* The last ones find no descriptor. */
    bool is_in_time = true;
    for (int i = 0; i < PEERS && is_in_time; i += PEERS - 1) {
        Header reply;
        for (int32_t id = 1; id <= room + 1 && is_in_time; id++) {
            int memory;
            serve_all();
            const bool is_whole = receive_raw(fds[i], &reply, &memory) >= (ssize_t)sizeof reply;
            /* The port gives up a peer that takes no replies for two seconds. */
            is_in_time = is_whole || monotonic_now() < asked + 2;
            if (!is_in_time) break;
            ck_assert(is_whole);
            ck_assert_uint_eq(reply.id, (uint32_t)id);
            if (memory >= 0) close(memory);
        }
        if (is_in_time) ck_assert_int_eq(reply.number, i == 0 ? 0 : 1);
    }
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    serve_all();
    ck_assert_int_eq(count_descriptors(), before - PEERS);
    setrlimit(RLIMIT_NOFILE, &old);
    RLRelease(port);
    remove_own_directory();
    return is_in_time;
}

RL_TEST(replies_that_wait_leave_descriptors_over, "S-MSG-42 S-ARG-10",
        "Connections and the memory files of the replies that wait on them together have half of the descriptors, beside the memory kept for 64") {
    int attempts = 0;
    while (!let_replies_wait()) ck_assert_int_lt(++attempts, 20);
}

RL_TEST(who_is_slow_gets_its_replies, "S-MSG-42",
        "A client that is stopped for longer than others may be still gets all its replies while nothing is short") {
    use_own_directory();
    RLMessagePortRef port = add_replying_port("slow");
    int raw = greet_raw("slow"), none;
    ask_much(raw, LAST, INLINE);
    serve_all();
    take_time(2.2);
    RLMessagePortRef remote = RLMessagePortCreateRemote("slow");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 3, NULL, 0, 60, 60, "m", NULL), kRLMessagePortSuccess);
    Header reply;
    for (uint32_t id = 1; id <= LAST; id++) {
        serve_all();
        ck_assert_int_eq(receive_raw(raw, &reply, &none), sizeof reply + INLINE);
        ck_assert_uint_eq(reply.id, id);
        ck_assert_int_eq(reply.number, 0);
    }
    close(raw);
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

/* A connection with a begun message and replies of which one waits. */
static int begin_and_ask(const char *name) {
    int fd = greet_raw(name);
    Header begun = header_of(2, 0, 40000);
    begun.flags = 4;
    send_raw(fd, begun, "");
    serve_all();
    ask_much(fd, LAST, INLINE);
    serve_all();
    return fd;
}

RL_TEST(who_has_taken_replies_is_not_still, "S-MSG-42",
        "While much is begun, a peer that takes its replies, one of which waits, is not taken for one that has stopped where the port was busy; one that takes none is") {
    enum { HOLDERS = 2 };
    use_own_directory();
    RLMessagePortRef port = add_replying_port("busy");
    int holders[HOLDERS], takes = begin_and_ask("busy"), rests = begin_and_ask("busy"), none;
    Header reply, begun = header_of(2, 0, 40000);
    begun.flags = 4;
    begun.descriptors = 100;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = greet_raw("busy");
        ck_assert_int_gt(send_often(holders[i], begun, STDIN_FILENO, 100), 0);
        serve_all();
    }
    /* Meanwhile the port does nothing. */
    take_time(2.2);
    uint32_t id = 0;
    while (recv(takes, &reply, sizeof reply, MSG_PEEK | MSG_DONTWAIT) > 0) {
        ck_assert_int_eq(receive_raw(takes, &reply, &none), sizeof reply + INLINE);
        ck_assert_uint_eq(reply.id, ++id);
    }
    ck_assert_int_lt(id, LAST);
    while (id < LAST) {
        serve_all();
        ck_assert_int_eq(receive_raw(takes, &reply, &none), sizeof reply + INLINE);
        ck_assert_uint_eq(reply.id, ++id);
    }
    for (id = 0; id < LAST && receive_raw(rests, &reply, &none) > 0; id++) serve_all();
    ck_assert_int_lt(id, LAST);
    close(takes), close(rests);
    for (int i = 0; i < HOLDERS; i++) close(holders[i]);
    serve_all();
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(a_pass_ends_few_who_have_stopped, "S-MSG-42",
        "Connections of peers that have stopped, with descriptors in their queues, are ended a few in a pass, as refused ones are") {
    enum { PEERS = 16, HOLDERS = 2 };
    use_own_directory();
    RLMessagePortRef port = add_replying_port("stopped");
    int fds[PEERS], holders[HOLDERS], closed = 0;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = begin_and_ask("stopped");
        for (int queued = 0; queued < 3; queued++) ck_assert_int_gt(send_often(fds[i], header_of(2, 0, 0), STDIN_FILENO, 1), 0);
    }
    Header begun = header_of(2, 0, 40000);
    begun.flags = 4;
    begun.descriptors = 100;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = greet_raw("stopped");
        ck_assert_int_gt(send_often(holders[i], begun, STDIN_FILENO, 100), 0);
        serve_all();
    }
    take_time(2.2);
    int other = greet_raw("stopped");
    RLRunInMode("m", 0, true);
    for (int i = 0; i < PEERS; i++) {
        struct pollfd look = {fds[i], 0, 0};
        closed += poll(&look, 1, 0) == 1;
    }
    ck_assert_int_gt(closed, 0);
    ck_assert_int_le(closed, 4);
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    for (int i = 0; i < HOLDERS; i++) close(holders[i]);
    close(other);
    serve_all();
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(who_was_sent_its_servers_end_learns_of_its_death, "S-MSG-36 S-MSG-18",
        "Where a server put its own end of the connection into the connection and died, a request that waits for a reply finds the remote invalid") {
    use_own_directory();
    int listener = listen_raw("server");
    log_capture();
    RLMessagePortRef remote = RLMessagePortCreateRemote("server");
    int fd = accept(listener, NULL, NULL);
    send_memory(fd, header_of(3, 1, 0), fd);
    close(fd);
    unlisten_raw(listener, "server");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL), kRLMessagePortBecameInvalidError);
    ck_assert(!RLMessagePortIsValid(remote));
    ck_assert_int_eq(log_count(), 1);
    RLRelease(remote);
    remove_own_directory();
}
