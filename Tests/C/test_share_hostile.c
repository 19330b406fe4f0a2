/* SPDX-License-Identifier: MIT */
/* Peers of the same user that mean harm, limits of descriptors, forks, and several callers (section 46). */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "support_share.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_answered(int connection) {
    char *answer = share_ask(connection, "statistics");
    ck_assert_msg(answer && strstr(answer, "{\"left\":"), "answered: %s", answer ? answer : "(nothing)");
    free(answer);
}

static LoopThread other;
static int ticks;
static void count_tick(Probe *self) {
    (void)self;
    __atomic_add_fetch(&ticks, 1, __ATOMIC_SEQ_CST);
}
static void tick_until_stopped(LoopThread *self) {
    (void)self;
    static Probe probe = {.action = count_tick};
    add_timer(&probe, date_in(0), 0.001, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1000, false);
}
/* A shared process with a loop at work. */
static void begin(void) {
    share_alone();
    ck_assert(RLSetShared(true));
    loop_thread_start(&other, tick_until_stopped, NULL);
}
static void expect_loop_goes_on(void) { wait_until_count(&ticks, count_of(&ticks) + 3); }
static void finish(void) {
    expect_loop_goes_on();
    RLStop(other.loop);
    thread_join(other.thread);
}

/* Requests that are none */

RL_TEST(what_is_no_request_ends_the_connection, "S-OUT-3 S-OUT-5", "Garbage of any length ends its connection and no other, and no descriptor stays") {
    begin();
    const int good = share_connect(0);
    expect_answered(good);
    const int before = count_descriptors();
    static char bytes[100000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7919 >> 3);
    const char *texts[] = {"", "s", "statistic", "statisticsx", "dump ", "dump x", "dump 1x", "dumpx", "measure ", "\n", "%s%n", "dump 99999999999999999999999999",
                           "dump  1", "dump \t1", "dump +1", "dump -1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const int connection = share_connect(0);
        send(connection, texts[i], strlen(texts[i]), MSG_NOSIGNAL);
        char *answer = i == 11 ? NULL : share_receive(connection);
        ck_assert_msg(answer == NULL, "\"%s\" was answered", texts[i]);
        close(connection);
    }
    /* A NUL is no end. */
    for (int i = 0; i < 2; i++) {
        const int connection = share_connect(0);
        send(connection, "statistics\0x", i == 0 ? 11 : 12, MSG_NOSIGNAL);
        ck_assert(share_ends(connection));
        close(connection);
    }
    for (size_t length = 1; length <= sizeof bytes; length = length * 3 + 1) {
        const int connection = share_connect(0);
        send(connection, bytes, length, MSG_NOSIGNAL);
        ck_assert(share_ends(connection));
        close(connection);
    }
    expect_answered(good);
    while (count_descriptors() > before) take_time(0.001);
    finish();
}

RL_TEST(descriptors_that_come_are_closed, "S-OUT-3 S-OUT-5", "Descriptors that a peer sends are closed, with a request or without, taken or not") {
    begin();
    int ends[2];
    make_pipe(ends);
    for (int i = 0; i < 3; i++) {
        const int connection = share_connect(0);
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
        memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
        struct iovec part = {"statistics", i == 1 ? 1 : 10};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        for (int times = 0; times < 5; times++) sendmsg(connection, &message, MSG_NOSIGNAL);
        ck_assert(share_ends(connection));
        close(connection);
    }
    close(ends[1]);
    char byte;
    ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* Nobody else can write. */
    finish();
}

/* Peers without end */

RL_TEST(a_thousand_connections, "S-OUT-5", "Of many connections the quietest give way; one that asks is answered, and few descriptors are used") {
    begin();
    const int before = count_descriptors();
    enum { COUNT = 1000 };
    static int connections[COUNT];
    const int asks = share_connect(0);
    for (int i = 0; i < COUNT; i++) {
        connections[i] = share_connect(0);
        ck_assert_int_ge(connections[i], 0);
        if (i % 4 == 0) expect_answered(asks);
    }
    expect_answered(asks);
    expect_answered(connections[COUNT - 1]);
    ck_assert(share_ends(connections[0]));
    for (int i = 0; i < COUNT; i++) close(connections[i]);
    close(asks);
    const int last = share_connect(0);
    expect_answered(last);
    close(last);
    while (count_descriptors() > before) take_time(0.001);
    finish();
}

static void ignore(void *info) { (void)info; }
static void fill_loop(void) {
    char name[256];
    memset(name, 'x', 200);
    for (int i = 0; i < 32; i++) {
        snprintf(name + 190, sizeof name - 190, "%d", i);
        static Probe probe;
        for (int n = 0; n < 32; n++) RLSetName(add_timer(&probe, FAR_FUTURE, 0, name), name);
        RLPerformFunction(RLGetCurrent(), name, ignore, NULL, NULL);
    }
}

RL_TEST(a_reader_that_never_reads, "S-OUT-5", "An answer that nobody takes holds up no other peer and no loop, and its connection ends after 5 seconds") {
    begin();
    fill_loop();
    const int sleepers[] = {share_connect(0), share_connect(0), share_connect(0)}, good = share_connect(0);
    const double began = monotonic_now();
    for (int i = 0; i < 3; i++) ck_assert(share_send(sleepers[i], "dump"));
    expect_answered(good);
    expect_loop_goes_on();
    /* What was sent before the end can still be read; the last part never comes. */
    take_time(5.2);
    expect_answered(good);
    ck_assert_ptr_null(share_receive(sleepers[0]));
    ck_assert_double_ge(monotonic_now() - began, 5);
    finish();
}

static int flood_over;
static void flood(void *request) {
    while (!__atomic_load_n(&flood_over, __ATOMIC_SEQ_CST)) {
        const int connection = share_connect(0);
        for (int i = 0; i < 4; i++) share_send(connection, request);
        close(connection);
    }
}
RL_TEST(requests_without_end, "S-OUT-4 S-OUT-5", "Peers that ask all the time, and leave before the answer, cost the process a tenth of a processor, and its loop goes on") {
    begin();
    Thread *threads[] = {thread_start(flood, "dump"), thread_start(flood, "measure")};
    const double began = monotonic_now();
    expect_loop_goes_on();
    take_time(0.5);
    expect_loop_goes_on();
    __atomic_store_n(&flood_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) thread_join(threads[i]);
    ck_assert_double_ge(monotonic_now() - began, 0.5);
    const int connection = share_connect_soon(0);
    expect_answered(connection);
    finish();
}

static void connect_and_leave(void *unused) {
    (void)unused;
    int before = -1;
    while (!__atomic_load_n(&flood_over, __ATOMIC_SEQ_CST)) {
        const int connection = share_connect(0);
        if (before >= 0) close(before);
        before = connection;
    }
    if (before >= 0) close(before);
}
RL_TEST(connections_without_end, "S-OUT-5", "Peers that connect and say nothing push none out that has asked, before it was looked at") {
    begin();
    const int held[] = {share_connect(0), share_connect(0), share_connect(0), share_connect(0), share_connect(0), share_connect(0), share_connect(0)};
    for (int i = 0; i < 7; i++) expect_answered(held[i]);
    Thread *threads[] = {thread_start(connect_and_leave, NULL), thread_start(connect_and_leave, NULL)};
    int asked = 0, answered = 0;
    while (asked < 8) {
        const int connection = share_connect_soon(0);
        /* It may be pushed out before it has asked, too. */
        if (share_send(connection, "statistics")) {
            char *answer = share_receive(connection);
            asked++;
            answered += answer != NULL;
            free(answer);
        }
        close(connection);
    }
    __atomic_store_n(&flood_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) thread_join(threads[i]);
    ck_assert_msg(answered >= 7, "%d of 8 were answered", answered);
    for (int i = 0; i < 7; i++) close(held[i]);
    finish();
}

static void connect_as_another_user(void *unused) {
    (void)unused;
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    const int connection = share_connect(0);
    if (connection < 0) _exit(3);
    share_send(connection, "statistics");
    _exit(share_receive(connection) == NULL ? 0 : 1);
}
RL_TEST(another_user_is_refused, "S-OUT-2", "A peer of another user that has come to the socket in spite of the directory gets no answer") {
    begin();
    if (geteuid() == 0) {
        char command[256];
        snprintf(command, sizeof command, "chmod -R a+rwX '%s'", getenv("XDG_RUNTIME_DIR"));
        ck_assert_int_eq(system(command), 0);
        const ChildResult result = run_child(connect_as_another_user, NULL);
        ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "status %x: %s", result.status, result.output);
    }
    const int connection = share_connect(0);
    expect_answered(connection);
    finish();
}

/* Descriptors */

RL_TEST(a_connection_waits_for_a_descriptor, "S-OUT-8", "Without a free number a connection waits, and is answered when there is one") {
    begin();
    const int second = share_connect(0);
    expect_answered(second);
    const struct sockaddr_un address = share_address(0);
    /* It has its number of this process, and none is left for the other end. */
    const int waits = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 256;
    int fillers[256], count = 0;
    setrlimit(RLIMIT_NOFILE, &few);
    while (count < 256 && (fillers[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    ck_assert_int_eq(connect(waits, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert(share_send(waits, "statistics"));
    expect_answered(second);
    expect_loop_goes_on();
    while (count > 0) close(fillers[--count]);
    char *answer = share_receive(waits);
    ck_assert_ptr_nonnull(answer);
    free(answer);
    setrlimit(RLIMIT_NOFILE, &before);
    finish();
}

static void send_with_request(int connection, const int fds[2]) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.header = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), fds, 2 * sizeof(int));
    struct iovec part = {"statistics", 10};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ck_assert_int_eq(sendmsg(connection, &message, MSG_NOSIGNAL), 10);
}
RL_TEST(no_socket_without_a_number_holds_the_thread, "S-OUT-5 S-OUT-8",
        "A request with a socket that lingers keeps the other peers from no answer, though the process has no number for it") {
    begin();
    const int good = share_connect(0), bad = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    expect_answered(good);
    const struct sockaddr_un address = share_address(0);
    int may_send[2], is_closed[2];
    char byte;
    make_pipe(may_send);
    make_pipe(is_closed);
    /* The pipe tells when both are closed. */
    const int fds[2] = {lingering_socket(600), is_closed[1]};
    const pid_t peer = fork();
    if (peer == 0) {
        read_byte(may_send[0]);
        ck_assert_int_eq(connect(bad, (const struct sockaddr *)&address, sizeof address), 0);
        send_with_request(bad, fds);
        /* Which waits for nothing. */
        _exit(0);
    }
    close(bad), close(fds[0]), close(fds[1]);
    const struct rlimit limit = no_more_descriptors();
    struct rlimit one_more;
    write_byte(may_send[1]);
    ck_assert_int_eq(waitpid(peer, NULL, 0), peer);
    /* The connection finds a number, and what comes with its request none. */
    getrlimit(RLIMIT_NOFILE, &one_more);
    one_more.rlim_cur++;
    setrlimit(RLIMIT_NOFILE, &one_more);
    ck_assert_int_eq(read(is_closed[0], &byte, 1), 0);
    expect_answered(good);
    setrlimit(RLIMIT_NOFILE, &limit);
    finish();
}

RL_TEST(answers_under_any_limit, "S-OUT-8", "As many connections as there may be get answers under any limit of descriptors but 0") {
    begin();
    int connections[8];
    for (int i = 0; i < 8; i++) expect_answered(connections[i] = share_connect(0));
    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    for (int limit = 10; limit > 0; limit -= limit > 7 ? 1 : 3) {
        few.rlim_cur = (rlim_t)limit;
        setrlimit(RLIMIT_NOFILE, &few);
        for (int i = 0; i < 8; i += 7) {
            /* Not asked by poll here either. */
            ck_assert(share_send(connections[i], "statistics"));
            char byte[65536];
            bool isOver = false;
            while (!isOver) {
                const ssize_t count = recv(connections[i], byte, sizeof byte, 0);
                ck_assert_int_gt(count, 0);
                isOver = byte[0] == '.';
            }
        }
    }
    setrlimit(RLIMIT_NOFILE, &before);
    finish();
}

RL_TEST(closed_by_the_program, "S-OUT-8 S-FD-18", "A program that closes all its numbers and uses them itself loses none of its files, and is shared again by a further call") {
    share_alone();
    RLRunInMode(kRLDefaultMode, 0, false);
    const DescriptorSet before = descriptors_now();
    ck_assert(RLSetShared(true));
    const int connection = share_connect(0);
    expect_answered(connection);
    DescriptorSet used = descriptors_now();
    int ends[2], count = 0;
    make_pipe(ends);
    for (int number = 0; number < 1024; number++) {
        used.open[number] = used.open[number] && !before.open[number] && number != connection;
        if (used.open[number]) ck_assert_int_eq(dup2(ends[1], number), number);
        count += used.open[number];
    }
    ck_assert_int_eq(count, 3); /* listener, lock, connection */
    close(connection);
    char *answer = NULL;
    while (!answer) {
        ck_assert(RLSetShared(true));
        const int again = share_connect(0);
        answer = share_ask(again, "statistics");
        close(again);
    }
    free(answer);
    for (int number = 0; number < 1024; number++) {
        struct stat mine, there;
        if (!used.open[number]) continue;
        ck_assert_int_eq(fstat(ends[1], &mine), 0);
        ck_assert_msg(fstat(number, &there) == 0 && there.st_ino == mine.st_ino, "%d was closed", number);
    }
}

RL_TEST(closed_and_not_used, "S-OUT-8 S-FD-18", "Where the program has merely closed the socket, a loop that waits makes another") {
    share_alone();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    const DescriptorSet before = descriptors_now();
    ck_assert(RLSetShared(true));
    DescriptorSet used = descriptors_now();
    for (int number = 0; number < 1024; number++)
        if (used.open[number] && !before.open[number]) close(number);
    /* Ends the wait at what was closed. */
    close(share_connect(0));
    char *answer = NULL;
    while (!answer) {
        RLRunInMode(kRLDefaultMode, 0.001, false);
        const int again = share_connect(0);
        if (again < 0) continue;
        answer = share_ask(again, "statistics");
        close(again);
    }
    free(answer);
}

/* Forks and callers */

static void look_in_child(void *number) {
    if (RLIsShared()) _exit(1);
    if (share_connect(1) >= 0) _exit(2);
    if (share_threads() != 0) _exit(3);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0.001, false);
    if (!RLIsShared()) _exit(4);
    const int connection = share_connect(1);
    char *answer = share_ask(connection, "statistics"), expected[64];
    snprintf(expected, sizeof expected, "\"process\":%d,", (int)getpid());
    if (!answer || !strstr(answer, expected)) _exit(5);
    if (RLIsAccounting(RLGetCurrent())) _exit(6);
    if (!RLSetShared(false) || RLIsShared()) _exit(7);
    *(int *)number = 0;
}
RL_TEST(the_child_has_its_own, "S-OUT-7 S-FORK-1", "The child of fork has nothing of the parent's and is shared by itself once its loop waits") {
    begin();
    const int connection = share_connect(0);
    free(share_ask(connection, "measure"));
    int number = 1;
    const ChildResult result = run_child(look_in_child, &number);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "status %x: %s", result.status, result.output);
    expect_answered(connection);
    finish();
}

static void wait_without_a_descriptor(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    struct rlimit before, none;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    log_capture();
    RLRunInMode(kRLDefaultMode, 0.3, false);
    if (RLIsShared()) _exit(1);
    setrlimit(RLIMIT_NOFILE, &before);
    if (log_count() != 1) _exit(2);
    /* No loop waits any more. */
    while (!RLIsShared()) take_time(0.001);
    const int connection = share_connect(1);
    char *answer = share_ask(connection, "statistics");
    if (!answer) _exit(3);
    _exit(0);
}
RL_TEST(the_child_tries_again, "S-OUT-7", "The child of fork that had no descriptor when its loop waited is shared once there is one, and logs one line") {
    begin();
    const ChildResult result = run_child(wait_without_a_descriptor, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "status %x: %s", result.status, result.output);
    finish();
}

static int makes_over;
static void make_items(LoopThread *self) {
    (void)self;
    static Probe probe;
    while (!__atomic_load_n(&makes_over, __ATOMIC_SEQ_CST)) {
        add_timer(&probe, date_in(-1), 0, kRLDefaultMode);
        RLTimerRef kept = probe_timer(&probe, date_in(-1), 1000);
        RLAddTimer(RLGetCurrent(), kept, kRLDefaultMode);
        RLSourceRef source = probe_source(&probe, 0);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLSourceSignal(source);
        add_observer(&probe, kRLBeforeTimers, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        RLRemoveTimer(RLGetCurrent(), kept, kRLDefaultMode);
        RLRelease(kept);
        RLSourceInvalidate(source);
        RLRelease(source);
        RLObserverInvalidate(probe.observer);
    }
}
RL_TEST(items_end_while_they_are_told, "S-OUT-4 S-OUT-6 S-STAT-4", "Timers, sources and observers that end meanwhile are left out, or kept until they were described") {
    share_alone();
    ck_assert(RLSetShared(true));
    LoopThread maker;
    loop_thread_start(&maker, make_items, NULL);
    const int connection = share_connect(0);
    for (int i = 0; i < 300; i++) {
        char *answer = share_ask(connection, i % 8 ? "measure" : "dump");
        ck_assert_ptr_nonnull(answer);
        free(answer);
    }
    __atomic_store_n(&makes_over, 1, __ATOMIC_SEQ_CST);
    thread_join(maker.thread);
}

static int toggles_over;
static void toggle(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&toggles_over, __ATOMIC_SEQ_CST)) {
        RLSetShared(true);
        RLIsShared();
        RLSetShared(false);
    }
}
static void run_in_child(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0.001, false);
    if (!RLSetShared(true) || !RLIsShared() || !RLSetShared(false)) _exit(1);
}
/* A child may have ended before its service, and left a file on which nobody listens. */
static int connect_to_any(void) {
    int connection = -1;
    for (int number = 0; connection < 0 && share_address(number).sun_path[0]; number++) connection = share_connect(number);
    return connection;
}
RL_TEST(begins_ends_forks_and_peers_meet, "S-OUT-1 S-OUT-7", "Threads that begin and end it, forks and connections leave one state, and no descriptor or thread") {
    begin();
    Thread *threads[] = {thread_start(toggle, NULL), thread_start(toggle, NULL), thread_start(flood, "statistics")};
    for (int i = 0; i < 20; i++) {
        const ChildResult result = run_child(run_in_child, NULL);
        ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "status %x: %s", result.status, result.output);
    }
    __atomic_store_n(&toggles_over, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&flood_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 3; i++) thread_join(threads[i]);
    ck_assert(RLSetShared(false));
    while (share_threads() > 0) take_time(0.001);
    /* A thread that has not begun has no name yet, and its service still has a listener. */
    for (int left; (left = connect_to_any()) >= 0; take_time(0.001)) close(left);
    ck_assert(!RLIsShared());
    ck_assert(RLSetShared(true));
    const int connection = connect_to_any();
    expect_answered(connection);
    finish();
}
