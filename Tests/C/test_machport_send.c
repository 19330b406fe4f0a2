/* SPDX-License-Identifier: MIT */
/* Section 17: full queues, senders that wait, ports that die meanwhile, threads, and fork. */
#include "support.h"

#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    __atomic_add_fetch((int *)info, 1, __ATOMIC_SEQ_CST);
    trace("%d", message->msgid);
}

static RLMachPortRef make_port(int *count) {
    RLMachPortContext context = {0, count, NULL, NULL, NULL};
    return RLMachPortCreate(receive, &context, NULL);
}

static RLMachPortRef add_port_to(int *count, RLMode mode) {
    RLMachPortRef port = make_port(count);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, mode);
    RLRelease(source);
    return port;
}

static int32_t send_number(RLMachPortRef port, int32_t number, double timeout) {
    return RLMachPortSend(port, number, NULL, 0, NULL, timeout);
}

/* A thread that sends one message. */
typedef struct Sender {
    RLMachPortRef port;
    double timeout;
    int32_t msgid, code;
    RLMachPortRef reply;
    Gate started;
    int finished;
    Thread *thread;
} Sender;

static void sender_body(void *info) {
    Sender *sender = info;
    gate_open(&sender->started);
    sender->code = RLMachPortSend(sender->port, sender->msgid, NULL, 0, sender->reply, sender->timeout);
    __atomic_add_fetch(&sender->finished, 1, __ATOMIC_SEQ_CST);
}

static void sender_start_with(Sender *sender, RLMachPortRef port, int32_t msgid, RLMachPortRef reply, double timeout) {
    *sender = (Sender){.port = port, .timeout = timeout, .msgid = msgid, .code = 1, .reply = reply, .started = GATE_INITIALIZER};
    sender->thread = thread_start(sender_body, sender);
    gate_wait(&sender->started);
}
static void sender_start(Sender *sender, RLMachPortRef port, int32_t msgid, double timeout) {
    sender_start_with(sender, port, msgid, NULL, timeout);
}

RL_TEST(the_queue_holds_five, "S-PORT-13 S-MSG-23",
        "Five messages are queued, the sixth ends with SendTimeout; a timeout below a millisecond, negative ones and NaN try once, a "
        "longer one lasts at least so long") {
    int count = 0;
    RLMachPortRef port = add_port_to(&count, kRLDefaultMode);
    for (int i = 1; i <= 5; i++) ck_assert_int_eq(send_number(port, i, 0), kRLMessagePortSuccess);
    static const double once[] = {0, 0.0009, -1, -1e300, (double)NAN};
    for (int i = 0; i < 5; i++) ck_assert_int_eq(send_number(port, 6, once[i]), kRLMessagePortSendTimeout);
    double start = monotonic_now();
    ck_assert_int_eq(send_number(port, 6, 0.0509), kRLMessagePortSendTimeout);
    ck_assert_double_ge(monotonic_now() - start, 0.05);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(send_number(port, 7, -1), kRLMessagePortSuccess);
    ck_assert_int_eq(send_number(port, 8, 0), kRLMessagePortSendTimeout);
    for (int i = 0; i < 5; i++) expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("1 2 3 4 5 7");
    RLMachPortInvalidate(port);
    RLRelease(port);
}

RL_TEST(the_limit_can_be_set, "S-PORT-13",
        "RLMachPortSetQueueLimit sets how many are queued, at least one; what is queued beyond a lower limit stays") {
    int count = 0;
    RLMachPortRef port = add_port_to(&count, kRLDefaultMode);
    RLMachPortSetQueueLimit(port, 1000);
    for (int i = 1; i <= 1000; i++) ck_assert_int_eq(send_number(port, i, 0), kRLMessagePortSuccess);
    ck_assert_int_eq(send_number(port, 0, 0), kRLMessagePortSendTimeout);
    RLMachPortSetQueueLimit(port, -7);
    ck_assert_int_eq(send_number(port, 0, 0), kRLMessagePortSendTimeout);
    for (int i = 1; i <= 1000; i++) {
        ck_assert_int_eq(send_number(port, 0, 0), kRLMessagePortSendTimeout);
        expect_run(kRLDefaultMode, 0, true, HandledSource);
    }
    ck_assert_int_eq(send_number(port, 1, 0), kRLMessagePortSuccess);
    ck_assert_int_eq(send_number(port, 2, 0), kRLMessagePortSendTimeout);
    ck_assert_int_eq(count, 1000);
    RLMachPortInvalidate(port);
    RLRelease(port);
}

RL_TEST(a_sender_waits_for_room, "S-PORT-13 S-PORT-5",
        "A sender that finds the queue full waits until a message is taken, and then is queued behind the others") {
    int count = 0;
    RLMachPortRef port = add_port_to(&count, kRLDefaultMode);
    for (int i = 1; i <= 5; i++) send_number(port, i, 0);
    Sender waiting[2];
    sender_start(&waiting[0], port, 6, 1e9);
    sender_start(&waiting[1], port, 6, 3600);
    take_time(0.02);
    ck_assert_int_eq(count_of(&waiting[0].finished) + count_of(&waiting[1].finished), 0);
    for (int i = 0; i < 7; i++) expect_run(kRLDefaultMode, 1000, true, HandledSource);
    for (int i = 0; i < 2; i++) {
        thread_join(waiting[i].thread);
        ck_assert_int_eq(waiting[i].code, kRLMessagePortSuccess);
    }
    expect_trace("1 2 3 4 5 6 6");
    RLMachPortInvalidate(port);
    RLRelease(port);
}

RL_TEST(a_raised_limit_lets_senders_go, "S-PORT-13", "Senders that wait notice a higher limit") {
    int count = 0;
    RLMachPortRef port = make_port(&count);
    RLMachPortSetQueueLimit(port, 1);
    send_number(port, 1, 0);
    Sender waiting[3];
    for (int i = 0; i < 3; i++) sender_start(&waiting[i], port, 2, 1e9);
    RLMachPortSetQueueLimit(port, 4);
    for (int i = 0; i < 3; i++) {
        thread_join(waiting[i].thread);
        ck_assert_int_eq(waiting[i].code, kRLMessagePortSuccess);
    }
    ck_assert_int_eq(send_number(port, 0, 0), kRLMessagePortSendTimeout);
    RLRelease(port);
}

static void wait_for_threads(RLMachPortRef port, void *info) {
    (void)port;
    Sender *waiting = info;
    for (int i = 0; i < 3; i++) thread_join(waiting[i].thread);
    trace("returned");
}

RL_TEST(death_releases_senders, "S-PORT-11 S-PORT-13 S-PORT-14 S-THR-3",
        "Senders that wait return with IsInvalid when the port is invalidated, and when its last reference goes; no lock is held in the "
        "invalidation callback, which may wait for them") {
    for (int by_release = 0; by_release < 2; by_release++) {
        static Sender waiting[3];
        RLMachPortContext context = {0, waiting, NULL, NULL, NULL};
        RLMachPortRef port = RLMachPortCreate(NULL, &context, NULL);
        RLMachPortSetInvalidationCallBack(port, wait_for_threads);
        for (int i = 0; i < 5; i++) send_number(port, i, 0);
        for (int i = 0; i < 3; i++) sender_start(&waiting[i], port, 6, 1e9);
        /* Nobody but a sender itself knows that it waits, so one that is late may find the port dead. */
        take_time(0.05);
        if (!by_release) RLMachPortInvalidate(port);
        RLRelease(port);
        expect_trace("returned");
        for (int i = 0; i < 3; i++) ck_assert_int_eq(waiting[i].code, kRLMessagePortIsInvalid);
    }
}

static Gate callback_entered = GATE_INITIALIZER, callback_may_return = GATE_INITIALIZER;
static int context_releases;

static void receive_slowly(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    (void)message;
    gate_open(&callback_entered);
    gate_wait(&callback_may_return);
    ck_assert_int_eq(count_of(info), 0);
    trace("used");
}

static void count_release(const void *info) {
    __atomic_add_fetch((int *)info, 1, __ATOMIC_SEQ_CST);
    trace("released");
}

static void serve_once(LoopThread *self) {
    RLSourceRef source = RLMachPortCreateRunLoopSource(self->data, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    expect_run(kRLDefaultMode, 1000, true, HandledSource);
}

RL_TEST(no_callback_with_a_released_info, "S-PORT-8 S-THR-8",
        "Invalidate on another thread does not wait for a message callback, and leaves the release of the info to its end") {
    RLMachPortContext context = {0, &context_releases, NULL, count_release, NULL};
    RLMachPortRef port = RLMachPortCreate(receive_slowly, &context, NULL);
    LoopThread server;
    send_number(port, 1, 0);
    loop_thread_start(&server, serve_once, port);
    gate_wait(&callback_entered);
    RLMachPortInvalidate(port);
    trace("invalidated");
    gate_open(&callback_may_return);
    thread_join(server.thread);
    expect_trace("invalidated used released");
    RLRelease(port);
    ck_assert_int_eq(context_releases, 1);
}

static void serve_until_stopped(LoopThread *self) {
    (void)self;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
}

RL_TEST(one_source_in_two_loops, "S-PORT-5 S-MODE-25 S-SRC-42",
        "The source may be in several loops: each message is received once, in one of them") {
    int count = 0;
    RLMachPortRef port = make_port(&count);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    LoopThread servers[2];
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&servers[i], serve_until_stopped, NULL);
        RLAddSource(servers[i].loop, source, kRLDefaultMode);
        wait_until_waiting(servers[i].loop);
    }
    for (int i = 0; i < 500; i++) {
        ck_assert_int_eq(send_number(port, 1, 1e9), kRLMessagePortSuccess);
        if (i % 10 == 0) wait_until_count(&count, i + 1);
    }
    wait_until_count(&count, 500);
    for (int i = 0; i < 2; i++) {
        RLStop(servers[i].loop);
        thread_join(servers[i].thread);
    }
    ck_assert_int_eq(count, 500);
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}

RL_TEST(no_descriptor_left, "S-ARG-10",
        "Without a descriptor to be had GetPort is -1, and everything else works; once there is one it is given") {
    int count = 0;
    RLMachPortRef port = add_port_to(&count, kRLDefaultMode);
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    RLPort number = RLMachPortGetPort(port);
    int32_t code = send_number(port, 1, 0);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 1000, true);
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(number, -1);
    ck_assert_int_eq(code, kRLMessagePortSuccess);
    ck_assert_str_eq(result_name(result), "HandledSource");
    expect_trace("1");
    ck_assert_int_ge(RLMachPortGetPort(port), 0);
    RLMachPortInvalidate(port);
    RLRelease(port);
}

/* What the child of a fork does with its copy. */
static RLMachPortRef forked_port;
static int forked_count;

static bool is_readable(int fd) {
    struct pollfd request = {.fd = fd, .events = POLLIN};
    return poll(&request, 1, 0) == 1;
}

static int child_of_fork(void) {
    if (send_number(forked_port, 3, 0) != kRLMessagePortSuccess) return 1;
    for (int i = 0; i < 3; i++)
        if (RLRunInMode(kRLDefaultMode, 1000, true) != kRLRunHandledSource) return 2;
    if (RLRunInMode(kRLDefaultMode, 0, true) != kRLRunTimedOut || forked_count != 3) return 3;
    if (is_readable(RLMachPortGetPort(forked_port))) return 4;
    if (send_number(forked_port, 4, 0) != kRLMessagePortSuccess || !is_readable(RLMachPortGetPort(forked_port))) return 5;
    return strcmp(trace_take(), "1 2 3") == 0 ? 0 : 6;
}

RL_TEST(the_child_of_fork_has_copies, "S-FORK-1 S-FORK-2 S-PORT-15",
        "In the child of fork a port has the messages that were queued, and what the child sends or receives reaches neither the "
        "parent's queue nor its descriptor") {
    forked_port = add_port_to(&forked_count, kRLDefaultMode);
    RLPort number = RLMachPortGetPort(forked_port);
    send_number(forked_port, 1, 0);
    send_number(forked_port, 2, 0);
    pid_t child = fork();
    if (child == 0) _exit(child_of_fork());
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert(is_readable(number));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert(!is_readable(number));
    expect_trace("1 2");
    RLMachPortInvalidate(forked_port);
    RLRelease(forked_port);
}

RL_TEST(fork_while_a_sender_waits, "S-FORK-1 S-PORT-15",
        "A child that is forked while another thread waits in a send takes what is queued and sends itself; that thread is not there") {
    forked_port = add_port_to(&forked_count, kRLDefaultMode);
    RLMachPortSetQueueLimit(forked_port, 2);
    send_number(forked_port, 1, 0);
    send_number(forked_port, 2, 0);
    Sender waiting;
    sender_start(&waiting, forked_port, 9, 1e9);
    take_time(0.02);
    pid_t child = fork();
    if (child == 0) {
        if (RLRunInMode(kRLDefaultMode, 1000, true) != kRLRunHandledSource) _exit(1);
        if (send_number(forked_port, 3, 0) != kRLMessagePortSuccess) _exit(2);
        if (send_number(forked_port, 4, 0.01) != kRLMessagePortSendTimeout) _exit(3);
        for (int i = 0; i < 2; i++)
            if (RLRunInMode(kRLDefaultMode, 1000, true) != kRLRunHandledSource) _exit(4);
        _exit(strcmp(trace_take(), "1 2 3") == 0 ? 0 : 5);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 1000, true, HandledSource);
    thread_join(waiting.thread);
    expect_trace("1 2 9");
    RLMachPortInvalidate(forked_port);
    RLRelease(forked_port);
}

static void receive_reply(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)info;
    trace("%s", message->replyPort ? "alive" : "none");
}

RL_TEST(a_sender_that_waited_holds_nothing_in_the_child, "S-PORT-15 S-PORT-17",
        "In the child of fork a message with a reply port that was not queued yet does not exist: the port it was for is kept by messages "
        "that name it, while those that were queued still count") {
    for (int queued = 0; queued < 2; queued++) {
        forked_port = make_port(&forked_count);
        RLMachPortRef other = RLMachPortCreate(NULL, NULL, NULL);
        RLMachPortSetQueueLimit(forked_port, 1);
        ck_assert_int_eq(RLMachPortSend(forked_port, 1, NULL, 0, queued ? other : NULL, 0), kRLMessagePortSuccess);
        Sender waiting;
        sender_start_with(&waiting, forked_port, 9, other, 1e9);
        take_time(0.02);
        pid_t child = fork();
        if (child == 0) {
            RLMachPortRef asked = RLMachPortCreate(receive_reply, NULL, NULL);
            RLMachPortSend(asked, 1, NULL, 0, forked_port, 0);
            RLRelease(forked_port);
            RLSourceRef source = RLMachPortCreateRunLoopSource(asked, 0);
            RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
            if (RLRunInMode(kRLDefaultMode, 1000, true) != kRLRunHandledSource) _exit(1);
            _exit(strcmp(trace_take(), queued ? "none" : "alive") == 0 ? 0 : 2);
        }
        int status = -1;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        RLMachPortInvalidate(forked_port);
        thread_join(waiting.thread);
        RLRelease(forked_port);
        RLRelease(other);
    }
}

enum { CHAIN = 200000 };
static int dead_of_chain;
static void receive_nothing(RLMachPortRef unused, const RLMachMessage *message, void *info) { (void)unused, (void)message, (void)info; }
static void count_dead(RLMachPortRef unused, void *info) {
    (void)unused, (void)info;
    dead_of_chain++;
}

RL_TEST(a_chain_of_reply_ports, "S-PORT-11 S-PORT-17 S-THR-9",
        "The last reference to the first of many ports, each of which has a message with the next one as its reply port, frees all, in their order, and takes no stack for "
        "each") {
    static RLMachPortRef ports[CHAIN];
    for (int i = 0; i < CHAIN; i++) {
        ports[i] = RLMachPortCreate(receive_nothing, NULL, NULL);
        RLMachPortSetInvalidationCallBack(ports[i], count_dead);
    }
    for (int i = 0; i < CHAIN - 1; i++) ck_assert_int_eq(RLMachPortSend(ports[i], i, "x", 1, ports[i + 1], 0), kRLMessagePortSuccess);
    for (int i = CHAIN - 1; i > 0; i--) RLRelease(ports[i]);
    ck_assert_int_eq(dead_of_chain, 0);
    RLRelease(ports[0]);
    ck_assert_int_eq(dead_of_chain, CHAIN);
}

static RLMachPortRef reply_of_message;
static int received;
static void note_reply(RLMachPortRef unused, const RLMachMessage *message, void *info) {
    (void)unused, (void)info;
    received++;
    reply_of_message = message->replyPort;
}

RL_TEST(a_port_that_dropped_a_chain_is_kept_as_before, "S-PORT-17",
        "A message keeps its reply port, also one whose invalidation has dropped messages of ports that it had the last references to") {
    RLMachPortRef ports[4];
    for (int i = 0; i < 4; i++) ports[i] = RLMachPortCreate(receive_nothing, NULL, NULL);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(RLMachPortSend(ports[i], i, "x", 1, ports[i + 1], 0), kRLMessagePortSuccess);
    for (int i = 1; i < 4; i++) RLRelease(ports[i]);
    RLMachPortInvalidate(ports[0]);
    RLMachPortRef receiver = RLMachPortCreate(note_reply, NULL, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(receiver, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    ck_assert_int_eq(RLMachPortSend(receiver, 4, "x", 1, ports[0], 0), kRLMessagePortSuccess);
    RLRelease(ports[0]);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(received, 1);
    ck_assert_ptr_eq(reply_of_message, ports[0]);
    RLMachPortInvalidate(receiver);
    RLRelease(source);
    RLRelease(receiver);
}

static RLPort full_number;
static void use_port_without_room(void *unused) {
    (void)unused;
    RLPort number = RLMachPortGetPort(forked_port);
    ck_assert_int_eq(number, full_number);
    /* The parent's message is no message of this process. */
    ck_assert(!is_readable(number));
    ck_assert_int_eq(send_number(forked_port, 1, 0), kRLMessagePortSuccess);
    ck_assert(is_readable(number));
}

RL_TEST(the_child_has_a_descriptor_though_no_number_is_free, "S-PORT-15 S-PORT-16",
        "In a child forked while no number is free the port's descriptor is the child's own") {
    forked_port = add_port_to(&forked_count, kRLDefaultMode);
    full_number = RLMachPortGetPort(forked_port);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit lower = {200, limit.rlim_max};
    int taken[200], count = 0;
    int ends[2];
    make_pipe(ends);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &lower), 0);
    while (count < 200 && (taken[count] = dup(0)) >= 0) count++;
    pid_t child = fork();
    if (child == 0) {
        read_byte(ends[0]);
        use_port_without_room(NULL);
        _exit(0);
    }
    send_number(forked_port, 2, 0);
    write_byte(ends[1]);
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    for (int i = 0; i < count; i++) close(taken[i]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(status, 0);
    ck_assert(is_readable(full_number));
    RLMachPortInvalidate(forked_port);
    RLRelease(forked_port);
}
