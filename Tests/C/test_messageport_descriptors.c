/* SPDX-License-Identifier: MIT */
/* Descriptors that peers send where there is no number for them, or where the kernel refuses the calls by which they are closed without a wait. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

RL_TEST(descriptors_of_paths_are_no_free_numbers, "S-MSG-42 S-ARG-10",
        "Nor does a socket that lingers behind as many others as a datagram may bring, where descriptors of O_PATH have the numbers") {
    enum { PATHS = 300, SENT = 120 };
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "paths", "m");
    int raw = greet_raw("paths"), sent[SENT], paths[PATHS], other;
    /* The connection's number is above theirs. */
    for (int i = 0; i < PATHS; i++) ck_assert_int_ge(paths[i] = open("/", O_PATH | O_CLOEXEC), 0);
    RLRunInMode("m", 0, true);
    for (int i = 0; i < SENT - 1; i++) sent[i] = 0;
    sent[SENT - 1] = lingering_socket(600);
    Header reply, header = header_of(2, 7, 0);
    header.descriptors = SENT;
    ck_assert_int_eq(send_descriptors(raw, header, sent, SENT), sizeof header);
    close(sent[SENT - 1]);
    struct rlimit limit = no_more_descriptors();
    for (int i = 0; i < 3; i++) RLRunInMode("m", 0.01, true);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(receive_raw(raw, &reply, &other), sizeof reply);
    ck_assert_int_eq(reply.number, 1);
    for (int i = 0; i < PATHS; i++) ck_assert_int_eq(close(paths[i]), 0);
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

/* The last of the peer's descriptors of a socket that it has sent. */
static int kept = -1;
/* A file of the program's, and how often another table has let go of it. */
static int program_file, drops;
static bool linger_again(long number, const long argument[6], long *result) {
    (void)result;
    struct stat closed, own;
    if (number == SYS_close_range && argument[2] == 0 && argument[0] <= program_file && program_file <= argument[1])
        __atomic_add_fetch(&drops, 1, __ATOMIC_SEQ_CST);
    if (number == SYS_close && kept >= 0 && argument[0] != kept && fstat((int)argument[0], &closed) == 0 && fstat(kept, &own) == 0
        && closed.st_ino == own.st_ino) {
        const struct linger on = {1, 600};
        setsockopt(kept, SOL_SOCKET, SO_LINGER, &on, sizeof on);
        close(kept);
        kept = -1;
    }
    return false;
}
RL_TEST(no_peer_makes_a_closer_wait_in_the_last_moment, "S-MSG-42",
        "A peer that switches SO_LINGER on and closes its own descriptor just before a socket that no client took is closed does not hold the closer, nor "
        "the program's files") {
    use_own_directory();
    ck_assert_int_ge(program_file = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    RLMessagePortRef port = add_service(&service, "again", "m");
    int raw = greet_raw("again"), calls = service.calls;
    Header header = header_of(2, 0, 0);
    header.descriptors = 1;
    kept = lingering_socket(600);
    send_memory(raw, header, kept);
    hook_system_calls(linger_again);
    while (service.calls == calls) RLRunInMode("m", 0.01, true);
    while (__atomic_load_n(&drops, __ATOMIC_SEQ_CST) == 0) RLRunInMode("m", 0.01, true);
    hook_system_calls(NULL);
    ck_assert_int_eq(kept, -1);
    ck_assert_int_eq(close(program_file), 0);
    close(raw);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}

static Gate flushed = GATE_INITIALIZER;
static bool flush_without_end(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_close_range && argument[2] == 0 && argument[0] <= program_file && program_file <= argument[1]) gate_wait(&flushed);
    return false;
}
RL_TEST(a_flush_that_does_not_end_holds_few_closers, "S-MSG-42",
        "Where the flush of one of the program's files does not end, few closers wait for it, and sockets that come seconds later are closed as by close") {
    enum { SOCKETS = 12, HELD = 4 };
    use_own_directory();
    ck_assert_int_ge(program_file = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    RLMessagePortRef port = add_service(&service, "flush", "m");
    int raw = greet_raw("flush"), own[SOCKETS];
    Header header = header_of(2, 0, 0);
    header.descriptors = 1;
    hook_system_calls(flush_without_end);
    for (int i = 0; i < SOCKETS; i++) {
        int ends[2], calls = service.calls;
        double begin = monotonic_now();
        if (i == HELD) while (monotonic_now() < begin + 2.1) RLRunInMode("m", 0.1, true);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        own[i] = ends[0];
        send_memory(raw, header, ends[1]);
        close(ends[1]);
        while (service.calls == calls) RLRunInMode("m", 0.01, true);
    }
    for (int i = HELD; i < SOCKETS; i++) ck_assert(is_closed(own[i]));
    gate_open(&flushed);
    for (int i = 0; i < SOCKETS; i++) {
        struct pollfd entry = {.fd = own[i], .events = POLLIN};
        ck_assert_int_eq(poll(&entry, 1, -1), 1);
        close(own[i]);
    }
    hook_system_calls(NULL);
    close(program_file), close(raw);
    RLMessagePortInvalidate(port);
    RLRelease(port);
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

static int own_file, own_closes;
static bool note_close(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_close ? argument[0] == own_file
                            : number == SYS_close_range && (argument[2] & 2) == 0 && argument[0] <= own_file && own_file <= argument[1])
        __atomic_add_fetch(&own_closes, 1, __ATOMIC_SEQ_CST);
    return false;
}

RL_TEST(closing_a_connection_flushes_no_file, "S-MSG-42",
        "To close a connection with descriptors in its queue, no thread closes a file of the program, whose flush would take its time, whether its number "
        "is lower or higher than the connection's") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "flushes", "m");
    RLRunInMode("m", 0, true);
    for (int is_high = 0; is_high < 2; is_high++) {
        int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        own_file = is_high ? fcntl(file, F_DUPFD_CLOEXEC, 100) : file;
        int raw = greet_raw("flushes");
        send_raw(raw, header_of(99, 0, 0), "");
        for (int i = 0; i < 20; i++) send_memory(raw, header_of(2, 0, 5), STDIN_FILENO);
        hook_system_calls(note_close);
        while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
        hook_system_calls(NULL);
        ck_assert_int_eq(own_closes, 0);
        close(raw), close(file);
        if (is_high) close(own_file);
    }
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

/* A peer's end that is closed before a call of the library that takes what the peer sent, or looks at it. A thread that asks may have a table of its
 * own, where closing is not closing: another thread does it. */
typedef struct Ending {
    int raw;
    Gate asked, is_over;
} Ending;
static Ending *ending;
static int calls_left, receives;
static void *end_peer(void *argument) {
    Ending *self = argument;
    gate_wait(&self->asked);
    close(self->raw);
    gate_open(&self->is_over);
    return NULL;
}
static bool end_before_a_call(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number != SYS_recvmsg && number != SYS_recvfrom) return false;
    __atomic_add_fetch(&receives, 1, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&calls_left, 1, __ATOMIC_RELAXED) == 0) {
        gate_open(&ending->asked);
        gate_wait(&ending->is_over);
    }
    return false;
}

/* Whether there were so many calls. */
static bool serves_who_ends_before_call(int call, bool has_numbers) {
    Ending self = {.asked = GATE_INITIALIZER, .is_over = GATE_INITIALIZER};
    pthread_t thread;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), seen;
    ending = &self;
    self.raw = greet_raw("ends");
    send_raw(self.raw, header_of(2, 7, 0), "");
    for (service.calls = 0; service.calls == 0;) RLRunInMode("m", 0.01, true);
    if (!has_numbers) give(self.raw, header_of(2, 0, 0), lingering_socket(600));
    send_raw(self.raw, header_of(2, 0, 0), "");
    send_raw(self.raw, header_of(99, 0, 0), "");
    for (int i = 0; i < 5; i++) send_memory(self.raw, header_of(2, 0, 5), file);
    close(file);
    give(self.raw, header_of(2, 0, 0), lingering_socket(600));
    ck_assert_int_eq(pthread_create(&thread, NULL, end_peer, &self), 0);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (!has_numbers) no_more_descriptors();
    calls_left = call;
    hook_system_calls(end_before_a_call);
    do {
        seen = receives;
        RLRunInMode("m", 0, true);
    } while (receives != seen);
    hook_system_calls(NULL);
    setrlimit(RLIMIT_NOFILE, &limit);
    const bool had_call = gate_is_open(&self.is_over);
    gate_open(&self.asked);
    pthread_join(thread, NULL);
    ck_assert_int_eq(service.calls, 2);
    return had_call;
}
RL_TEST(a_peer_ends_before_any_call, "S-MSG-24 S-MSG-42 S-MSG-54",
        "A peer that leaves a reply unread and ends before any call that takes what it sent: each message is served once, and no socket behind it holds the loop") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "ends", "m");
    /* So few that the library looks at what it takes. */
    struct rlimit limit, few;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = 256;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    log_capture();
    for (int has_numbers = 0; has_numbers < 2; has_numbers++) {
        int call = 1;
        while (serves_who_ends_before_call(call, has_numbers)) call++;
        ck_assert_int_gt(call, 8);
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}

static bool refuse_recvfrom(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_recvfrom) return false;
    errno = EPERM;
    *result = -1;
    return true;
}
RL_TEST(what_is_looked_at_is_taken_by_the_same_call, "S-MSG-24", "A filter that refuses recvfrom(2) and permits recvmsg(2) leaves each message served once") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "taken", "m");
    int raw = greet_raw("taken");
    hook_system_calls(refuse_recvfrom);
    for (int i = 0; i < 3; i++) send_raw(raw, header_of(2, 0, 0), "");
    while (service.calls < 3) RLRunInMode("m", 0.01, true);
    for (int i = 0; i < 3; i++) RLRunInMode("m", 0, true);
    hook_system_calls(NULL);
    ck_assert_int_eq(service.calls, 3);
    close(raw);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}

static bool refuse_taking(long number, const long argument[6], long *result) {
    if (number != SYS_recvmsg || argument[2] & MSG_PEEK) return false;
    errno = EPERM;
    *result = -1;
    return true;
}
RL_TEST(what_cannot_be_taken_is_not_served, "S-MSG-54",
        "Where a message can be looked at but not taken the connection ends, and the message, which would be there again, is not served") {
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "refused", "m");
    log_capture();
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        int raw = greet_raw("refused");
        struct rlimit limit;
        RLRunInMode("m", 0, true);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
        if (is_lost)
            give(raw, header_of(2, 0, 0), lingering_socket(0));
        else
            send_raw(raw, header_of(2, 0, 0), "");
        if (is_lost) no_more_descriptors();
        hook_system_calls(refuse_taking);
        while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
        hook_system_calls(NULL);
        setrlimit(RLIMIT_NOFILE, &limit);
        close(raw);
    }
    ck_assert_int_eq(service.calls, 0);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    remove_own_directory();
}
