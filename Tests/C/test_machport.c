/* SPDX-License-Identifier: MIT */
/* Section 17: Mach-like ports, their messages, sources and death. */
#include "support.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A port that records "name:msgid:bytes" for each message, and what its context is asked for. */
typedef struct Box {
    const char *name;
    void (*action)(struct Box *self, const RLMachMessage *message);
    void *data;
    RLMachPortRef port;
    RLSourceRef source;
    pthread_t thread;
    bool counted;
    int calls, retains, releases;
} Box;

static const void *box_retain(const void *info) {
    __atomic_add_fetch(&((Box *)info)->retains, 1, __ATOMIC_SEQ_CST);
    return info;
}

static void box_release(const void *info) {
    Box *box = (Box *)info;
    __atomic_add_fetch(&box->releases, 1, __ATOMIC_SEQ_CST);
    if (box->name) trace("-%s", box->name);
}

static void box_receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    Box *box = info;
    ck_assert_ptr_eq(port, box->port);
    box->thread = pthread_self();
    if (box->name) trace("%s:%d:%.*s", box->name, message->msgid, (int)message->length, message->length ? (const char *)message->bytes : "");
    __atomic_add_fetch(&box->calls, 1, __ATOMIC_SEQ_CST);
    if (box->action) box->action(box, message);
}

static void box_died(RLMachPortRef port, void *info) {
    Box *box = info;
    ck_assert(!RLMachPortIsValid(port));
    trace("died:%s", box ? box->name : "NULL");
}

static RLMachPortRef box_port(Box *box) {
    RLMachPortContext context = {0, box, NULL, NULL, NULL};
    if (box->counted) {
        context.retain = box_retain;
        context.release = box_release;
    }
    bool should_free = true;
    box->port = RLMachPortCreate(box_receive, &context, &should_free);
    ck_assert_ptr_nonnull(box->port);
    ck_assert(!should_free);
    return box->port;
}

/* Makes the port and puts its source into a mode of the current loop. */
static RLMachPortRef box_add(Box *box, RLMode mode) {
    box_port(box);
    box->source = RLMachPortCreateRunLoopSource(box->port, 0);
    RLAddSource(RLGetCurrent(), box->source, mode);
    RLRelease(box->source);
    return box->port;
}

static void box_end(Box *box) {
    RLMachPortInvalidate(box->port);
    RLRelease(box->port);
}

static int32_t send_text(RLMachPortRef port, int32_t msgid, const char *text) {
    return RLMachPortSend(port, msgid, text, text ? strlen(text) : 0, NULL, 0);
}

static bool is_readable(int fd) {
    struct pollfd request = {.fd = fd, .events = POLLIN};
    return poll(&request, 1, 0) == 1;
}

RL_TEST(one_message_per_pass, "S-PORT-1 S-PORT-5 S-RUN-12 S-PASS-6",
        "A port that was created sends and receives: one message per perform, in the order of sending, on the loop's thread, "
        "as a handled source") {
    Box box = {.name = "p"};
    box_add(&box, kRLDefaultMode);
    observe(RLGetCurrent(), kRLDefaultMode);
    ck_assert_int_eq(send_text(box.port, 1, "a"), kRLMessagePortSuccess);
    ck_assert_int_eq(send_text(box.port, -2, NULL), kRLMessagePortSuccess);
    ck_assert_int_eq(RLMachPortSend(box.port, 3, NULL, 17, NULL, 0), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 1000, true, HandledSource);
    expect_trace("E BT BS BW AW p:1:a X");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("E BT BS p:-2: X");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("E BT BS p:3: X");
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("E BT BS X");
    ck_assert(pthread_equal(box.thread, pthread_self()));
    box_end(&box);
}

static void send_from_thread(void *port) { ck_assert_int_eq(send_text(port, 7, "x"), kRLMessagePortSuccess); }

RL_TEST(a_message_ends_a_wait, "S-PORT-5 S-PASS-16",
        "A message from another thread ends the wait of a loop that sleeps, in the futex as in epoll, in one pass") {
    for (int in_epoll = 0; in_epoll < 2; in_epoll++) {
        Box box = {.name = "p"};
        Probe idle = {.name = "idle"};
        RLMode mode = in_epoll ? "epoll" : "futex";
        box_add(&box, mode);
        if (in_epoll) add_port(&idle, make_eventfd(), mode);
        observe(RLGetCurrent(), mode);
        Thread *sender = when_waiting(RLGetCurrent(), send_from_thread, box.port);
        expect_run(mode, 1000, true, HandledSource);
        thread_join(sender);
        expect_trace("E BT BS BW AW p:7:x X");
        box_end(&box);
    }
}

RL_TEST(messages_wait_for_their_mode, "S-PORT-13 S-MODE-23 S-RUN-2",
        "Messages are queued while no loop serves the port: without a source, in no loop, and in another mode; the source keeps "
        "its mode from being empty") {
    Box box = {.name = "p"};
    box_port(&box);
    send_text(box.port, 1, "before");
    box.source = RLMachPortCreateRunLoopSource(box.port, 0);
    send_text(box.port, 2, "source");
    RLAddSource(RLGetCurrent(), box.source, "mine");
    keep_alive(RLGetCurrent(), "other");
    expect_run("other", 0.001, true, TimedOut);
    expect_run("mine", 1000, true, HandledSource);
    send_text(box.port, 3, "mode");
    expect_run("other", 0, true, TimedOut);
    expect_run("mine", 1000, true, HandledSource);
    RLRemoveSource(RLGetCurrent(), box.source, "mine");
    expect_run("mine", 0, true, Finished);
    RLAddSource(RLGetCurrent(), box.source, "other");
    expect_run("other", 1000, true, HandledSource);
    expect_trace("p:1:before p:2:source p:3:mode");
    expect_run("other", 0, true, TimedOut);
    RLRelease(box.source);
    box_end(&box);
}

static void keep_bytes(Box *self, const RLMachMessage *message) {
    char *copy = self->data;
    ck_assert_uint_eq((uintptr_t)message->bytes % 16, 0);
    memcpy(copy, message->bytes, message->length);
    copy[message->length] = '\0';
}

RL_TEST(bytes_are_copied, "S-PORT-6",
        "The bytes are copied when they are sent, small and large ones, and lie aligned during the callback") {
    static char got[200001], text[200001];
    static const size_t lengths[] = {1, 95, 96, 97, 4096, 200000};
    Box box = {.action = keep_bytes, .data = got};
    box_add(&box, kRLDefaultMode);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(text, 'a' + (int)i, lengths[i]);
        text[lengths[i]] = '\0';
        ck_assert_int_eq(RLMachPortSend(box.port, 0, text, lengths[i], NULL, 0), kRLMessagePortSuccess);
        memset(text, '?', lengths[i]);
        expect_run(kRLDefaultMode, 0, true, HandledSource);
        ck_assert_uint_eq(strlen(got), lengths[i]);
        ck_assert_int_eq(got[0], 'a' + (int)i);
        ck_assert_int_eq(got[lengths[i] - 1], 'a' + (int)i);
    }
    ck_assert_int_eq(RLMachPortSend(box.port, 0, text, (size_t)-1, NULL, 0), kRLMessagePortTransportError);
    ck_assert_int_eq(RLMachPortSend(box.port, 0, text, SIZE_MAX / 2, NULL, 0), kRLMessagePortTransportError);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    box_end(&box);
}

static void answer(Box *self, const RLMachMessage *message) {
    (void)self;
    ck_assert_ptr_nonnull(message->replyPort);
    ck_assert_int_eq(send_text(message->replyPort, message->msgid + 1, "answer"), kRLMessagePortSuccess);
}

RL_TEST(reply_port, "S-PORT-1 S-PORT-5 S-PORT-11",
        "The reply port of a message is alive while queued, though its sender dropped it, and an answer can be sent to it; it dies "
        "after the callback if nobody keeps it") {
    Box asked = {.name = "asked", .action = answer}, asker = {.name = "asker", .counted = true};
    box_add(&asked, kRLDefaultMode);
    box_port(&asker);
    RLSourceRef source = RLMachPortCreateRunLoopSource(asker.port, 0);
    RLAddSource(RLGetCurrent(), source, "answers");
    ck_assert_int_eq(RLMachPortSend(asked.port, 100, "hi", 2, asker.port, 0), kRLMessagePortSuccess);
    RLRelease(asker.port); /* The source holds it now, and the message. */
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_run("answers", 0, true, HandledSource);
    expect_trace("asked:100:hi asker:101:answer -asker");
    ck_assert_int_eq(asker.releases, 1);

    asked.action = NULL;
    RLMachPortSetInvalidationCallBack(asker.port, box_died);
    ck_assert_int_eq(RLMachPortSend(asked.port, 102, NULL, 0, asker.port, 0), kRLMessagePortSuccess);
    RLRemoveSource(RLGetCurrent(), source, "answers");
    RLRelease(source);
    expect_trace("");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("asked:102: died:asker -asker");
    ck_assert_int_eq(asker.releases, 2);
    ck_assert_int_eq(asker.retains, 2);
    box_end(&asked);
}

RL_TEST(should_free_info, "S-PORT-2 S-PORT-3",
        "shouldFreeInfo is false exactly when a new port took the context; it may be NULL") {
    Box box = {.name = "p", .counted = true};
    box_port(&box);
    ck_assert_int_eq(box.retains, 1);
    RLPort number = RLMachPortGetPort(box.port);
    RLMachPortContext context = {0, &box, box_retain, box_release, NULL};
    bool should_free = false;
    ck_assert_ptr_eq(RLMachPortCreateWithPort(number, NULL, &context, &should_free), box.port);
    ck_assert(should_free);
    ck_assert_int_eq(box.retains, 1);
    should_free = false;
    ck_assert_ptr_null(RLMachPortCreateWithPort(-1, box_receive, &context, &should_free));
    ck_assert(should_free);
    ck_assert_ptr_null(RLMachPortCreateWithPort(STDERR_FILENO, box_receive, &context, NULL));
    ck_assert_ptr_null(RLMachPortCreateWithPort(1 << 20, box_receive, &context, NULL));
    RLRelease(box.port);
    RLMachPortInvalidate(box.port);
    should_free = false;
    ck_assert_ptr_null(RLMachPortCreateWithPort(number, box_receive, &context, &should_free));
    ck_assert(should_free);
    RLRelease(box.port);
    ck_assert_ptr_null(RLMachPortCreateWithPort(number, box_receive, &context, NULL));
    RLMachPortRef plain = RLMachPortCreate(NULL, NULL, NULL);
    ck_assert_ptr_nonnull(plain);
    RLRelease(plain);
}

RL_TEST(identity, "S-PORT-4 S-ARG-7", "Two port objects are equal when they are the same port, and have a type of their own") {
    Box one = {.name = "one"}, two = {.name = "two"};
    box_port(&one);
    box_port(&two);
    RLMachPortRef same = RLMachPortCreateWithPort(RLMachPortGetPort(one.port), NULL, NULL, NULL);
    ck_assert(RLEqual(one.port, same));
    ck_assert_uint_eq(RLHash(one.port), RLHash(same));
    ck_assert(!RLEqual(one.port, two.port));
    ck_assert_uint_eq(RLGetTypeIDOf(one.port), RLMachPortGetTypeID());
    ck_assert_uint_ne(RLMachPortGetTypeID(), RLSourceGetTypeID());
    char *description = RLCopyDescription(one.port);
    ck_assert_ptr_nonnull(strstr(description, "queued = 0 of 5"));
    free(description);
    RLRelease(same);
    box_end(&one);
    box_end(&two);
}

static void check_bracket(Box *self, const RLMachMessage *message) {
    (void)message;
    ck_assert_int_eq(self->retains - self->releases, 2);
}

RL_TEST(bracket, "S-PORT-7 S-ARG-8", "With retain each callback is bracketed by retain and release; a NULL context and a NULL callback do") {
    Box box = {.counted = true, .action = check_bracket};
    box_add(&box, kRLDefaultMode);
    send_text(box.port, 1, "a");
    send_text(box.port, 2, "b");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(box.calls, 2);
    ck_assert_int_eq(box.retains, 3);
    ck_assert_int_eq(box.releases, 2);
    box_end(&box);
    ck_assert_int_eq(box.releases, 3);

    RLMachPortRef silent = RLMachPortCreate(NULL, NULL, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(silent, 0);
    RLAddSource(RLGetCurrent(), source, "silent");
    send_text(silent, 1, "dropped");
    expect_run("silent", 0, true, HandledSource);
    expect_run("silent", 0, true, TimedOut);
    RLMachPortInvalidate(silent);
    RLRelease(source);
    RLRelease(silent);
}

static void source_lost(RLMachPortRef port, void *info) {
    Box *box = info;
    ck_assert(!RLMachPortIsValid(port));
    trace(RLSourceIsValid(box->source) ? "source-valid" : "source-invalid");
    RLMachPortInvalidate(port);
}

RL_TEST(invalidation_order, "S-PORT-8 S-PORT-14 S-RUN-4",
        "Invalidate: invalid, invalidation callback with the info, source invalidated, context released; again: nothing; sending fails "
        "at once, and what was queued is not delivered") {
    Box box = {.name = "p", .counted = true};
    box_add(&box, kRLDefaultMode);
    RLRetain(box.source);
    RLMachPortSetInvalidationCallBack(box.port, source_lost);
    ck_assert_ptr_eq(RLMachPortGetInvalidationCallBack(box.port), source_lost);
    send_text(box.port, 1, "lost");
    RLMachPortInvalidate(box.port);
    expect_trace("source-valid -p");
    ck_assert(!RLSourceIsValid(box.source));
    ck_assert(!RLMachPortIsValid(box.port));
    RLMachPortInvalidate(box.port);
    ck_assert_int_eq(send_text(box.port, 2, "late"), kRLMessagePortIsInvalid);
    ck_assert_int_eq(RLMachPortSend(box.port, 2, NULL, 0, NULL, 1000), kRLMessagePortIsInvalid);
    expect_run(kRLDefaultMode, 0, true, Finished);
    expect_trace("");
    RLMachPortContext context = {0};
    RLMachPortGetContext(box.port, &context);
    ck_assert_ptr_null(context.info);
    ck_assert_ptr_eq(context.release, box_release);
    RLRelease(box.source);
    RLRelease(box.port);
    ck_assert_int_eq(box.releases, 1);
}

RL_TEST(the_name_stays, "S-PORT-9 S-FD-18",
        "GetPort gives the same descriptor again, also after invalidation; it is closed when the port is freed, and not made before "
        "somebody asks") {
    int before = count_descriptors();
    Box box = {.name = "p"};
    box_port(&box);
    ck_assert_int_eq(count_descriptors(), before);
    RLPort number = RLMachPortGetPort(box.port);
    ck_assert_int_ge(number, 0);
    ck_assert_int_eq(RLMachPortGetPort(box.port), number);
    ck_assert_int_eq(count_descriptors(), before + 1);
    RLMachPortInvalidate(box.port);
    ck_assert_int_eq(RLMachPortGetPort(box.port), number);
    ck_assert_int_eq(count_descriptors(), before + 1);
    RLRelease(box.port);
    ck_assert_int_eq(count_descriptors(), before);
}

RL_TEST(descriptor_tells_of_messages, "S-PORT-16",
        "The descriptor can be read exactly while messages are queued, those that were queued before it was made included") {
    Box box = {.name = "p"};
    box_add(&box, kRLDefaultMode);
    send_text(box.port, 1, "a");
    RLPort number = RLMachPortGetPort(box.port);
    ck_assert(is_readable(number));
    send_text(box.port, 2, "b");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert(is_readable(number));
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert(!is_readable(number));
    send_text(box.port, 3, "c");
    ck_assert(is_readable(number));
    RLMachPortInvalidate(box.port);
    ck_assert(!is_readable(number));
    expect_trace("p:1:a p:2:b");
    RLRelease(box.port);
}

RL_TEST(invalidation_callback, "S-PORT-10",
        "On a valid port the callback is replaced or cleared; on an invalid one without any it is called at once, otherwise ignored "
        "with a log line") {
    Box cleared = {.name = "cleared"}, late = {.name = "late"};
    box_port(&cleared);
    RLMachPortSetInvalidationCallBack(cleared.port, source_lost);
    RLMachPortSetInvalidationCallBack(cleared.port, box_died);
    RLMachPortSetInvalidationCallBack(cleared.port, NULL);
    ck_assert_ptr_null(RLMachPortGetInvalidationCallBack(cleared.port));
    RLMachPortInvalidate(cleared.port);
    expect_trace("");
    RLMachPortSetInvalidationCallBack(cleared.port, box_died);
    expect_trace("died:NULL");
    log_capture();
    RLMachPortSetInvalidationCallBack(cleared.port, source_lost);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_ptr_eq(RLMachPortGetInvalidationCallBack(cleared.port), box_died);
    RLMachPortSetInvalidationCallBack(cleared.port, NULL);
    ck_assert_ptr_eq(RLMachPortGetInvalidationCallBack(cleared.port), box_died);
    expect_trace("");
    RLRelease(cleared.port);

    box_port(&late);
    RLMachPortSetInvalidationCallBack(late.port, box_died);
    RLRelease(late.port);
    expect_trace("died:late");
}

RL_TEST(sources, "S-PORT-12 S-MODE-22",
        "CreateRunLoopSource gives the same source while it is valid, then a new one, and NULL on an invalid port; the loop keeps port "
        "and source alive") {
    Box box = {.name = "p", .counted = true};
    box_port(&box);
    RLSourceRef source = RLMachPortCreateRunLoopSource(box.port, 3);
    RLSourceRef again = RLMachPortCreateRunLoopSource(box.port, 4);
    ck_assert_ptr_eq(source, again);
    ck_assert_int_eq(RLSourceGetOrder(source), 3);
    RLRelease(again);
    RLSourceInvalidate(source);
    ck_assert(RLMachPortIsValid(box.port));
    send_text(box.port, 1, "kept");
    again = RLMachPortCreateRunLoopSource(box.port, 4);
    ck_assert_ptr_ne(source, again);
    ck_assert(RLSourceIsValid(again));
    RLRelease(source);
    RLAddSource(RLGetCurrent(), again, kRLDefaultMode);
    RLRelease(again);
    RLRelease(box.port);
    expect_trace("");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("p:1:kept -p");
    RLRemoveSource(RLGetCurrent(), again, kRLDefaultMode);
    expect_trace("-p");

    box_port(&box);
    source = RLMachPortCreateRunLoopSource(box.port, 0);
    RLRelease(source);
    source = RLMachPortCreateRunLoopSource(box.port, 0);
    ck_assert_ptr_nonnull(source);
    RLRelease(source);
    RLMachPortInvalidate(box.port);
    ck_assert_ptr_null(RLMachPortCreateRunLoopSource(box.port, 0));
    RLRelease(box.port);
    expect_trace("-p");
}

static void end_port(Box *self, const RLMachMessage *message) {
    (void)message;
    RLMachPortInvalidate(self->port);
    trace("invalidated");
    RLRelease(self->port);
    trace("released");
}

RL_TEST(ended_in_its_callback, "S-PORT-8 S-PORT-11 S-THR-5",
        "A port that is invalidated and released in its own callback releases its context there and stays in memory until the callback "
        "returned") {
    Box box = {.name = "p", .counted = true, .action = end_port};
    box_add(&box, kRLDefaultMode);
    send_text(box.port, 1, "a");
    send_text(box.port, 2, "b");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("p:1:a -p invalidated released -p");
    ck_assert_int_eq(box.retains, 2);
    expect_run(kRLDefaultMode, 0, true, Finished);
}

static void nested_receive(Box *self, const RLMachMessage *message) {
    (void)self;
    if (message->msgid == 1) expect_run(kRLDefaultMode, 0, true, HandledSource);
}

RL_TEST(nested_run, "S-SRC-49 S-PORT-5", "A nested run in a message callback serves the next message of the same port") {
    Box box = {.name = "p", .action = nested_receive};
    box_add(&box, kRLDefaultMode);
    send_text(box.port, 1, "a");
    send_text(box.port, 2, "b");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("p:1:a p:2:b");
    box_end(&box);
}

RL_TEST(ports_take_turns, "S-PASS-8 S-PASS-13 S-PASS-14",
        "Ports with several messages take turns, one message each, in the order of becoming ready") {
    Box boxes[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    for (int i = 0; i < 3; i++) box_add(&boxes[i], kRLDefaultMode);
    for (int i = 0; i < 3; i++)
        for (int j = 1; j <= 2; j++) send_text(boxes[(i + 1) % 3].port, j, NULL);
    for (int i = 0; i < 6; i++) expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("b:1: c:1: a:1: b:2: c:2: a:2:");
    for (int i = 0; i < 3; i++) box_end(&boxes[i]);
}

RL_TEST(null_arguments, "S-ARG-1 S-ARG-2 S-PORT-13", "Calls on NULL do nothing and give NULL, false, -1 or the code of an invalid port") {
    ck_assert_int_eq(RLMachPortSend(NULL, 1, "a", 1, NULL, 0), kRLMessagePortIsInvalid);
    ck_assert_int_eq(RLMachPortGetPort(NULL), -1);
    ck_assert(!RLMachPortIsValid(NULL));
    ck_assert_ptr_null(RLMachPortCreateRunLoopSource(NULL, 0));
    ck_assert_ptr_null(RLMachPortGetInvalidationCallBack(NULL));
    RLMachPortSetInvalidationCallBack(NULL, box_died);
    RLMachPortSetQueueLimit(NULL, 1);
    RLMachPortInvalidate(NULL);
    RLMachPortContext context = {0, &context, NULL, NULL, NULL};
    RLMachPortGetContext(NULL, &context);
    ck_assert_ptr_eq(context.info, &context);
    RLMachPortRef port = RLMachPortCreate(NULL, NULL, NULL);
    RLMachPortGetContext(port, NULL);
    RLRelease(port);
    expect_trace("");
}

RL_TEST(rings_of_queues, "S-PORT-17",
        "Ports that are reply ports in each other's queues, one that is so in its own among them, die with their last other reference") {
    for (int count = 1; count <= 4; count++) {
        Box boxes[4] = {{.counted = true}, {.counted = true}, {.counted = true}, {.counted = true}};
        for (int i = 0; i < count; i++) box_port(&boxes[i]);
        for (int i = 0; i < count; i++)
            for (int times = 0; times < 2; times++)
                ck_assert_int_eq(RLMachPortSend(boxes[i].port, 1, NULL, 0, boxes[(i + 1) % count].port, 0), kRLMessagePortSuccess);
        for (int i = 0; i < count; i++) RLRelease(boxes[i].port);
        for (int i = 0; i < count; i++) ck_assert_int_eq(boxes[i].releases, 1);
    }
}

static void note_reply(Box *self, const RLMachMessage *message) {
    trace("%s", message->replyPort ? RLMachPortIsValid(message->replyPort) ? "alive" : "invalid" : "none");
    (void)self;
}

RL_TEST(a_mentioned_reply_port, "S-PORT-17",
        "A reply port that has messages with reply ports itself is received if it is alive, and otherwise NULL is; the message itself "
        "always is") {
    Box asked = {.action = note_reply}, asker = {.counted = true}, other = {.counted = false};
    box_add(&asked, kRLDefaultMode);
    box_port(&asker);
    box_port(&other);
    ck_assert_int_eq(RLMachPortSend(asker.port, 1, NULL, 0, other.port, 0), kRLMessagePortSuccess);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(RLMachPortSend(asked.port, 2, NULL, 0, asker.port, 0), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("alive");
    RLRelease(asker.port);
    ck_assert_int_eq(asker.releases, 1);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("none");
    RLRelease(other.port);
    box_end(&asked);
}

typedef struct Ring {
    RLMachPortRef ports[3];
    int failures;
} Ring;

static void send_around(void *info) {
    Ring *ring = info;
    for (int i = 0; i < 20000; i++) {
        RLMachPortRef from = ring->ports[i % 3], to = ring->ports[(i / 3 + i) % 3];
        if (RLMachPortSend(to, 1, NULL, 0, from, 0) == kRLMessagePortIsInvalid) ring->failures++;
    }
}

static RLMachPortRef ending_port, told_port;
static bool tells_when_invalid;
static int farewells;
static void say_farewell(bool is_invalidation) {
    if (is_invalidation == tells_when_invalid)
        ck_assert_int_eq(RLMachPortSend(told_port, 1, "bye", 3, ending_port, 0), kRLMessagePortSuccess);
}
static void say_farewell_when_invalid(RLMachPortRef port, void *info) { (void)port, (void)info, say_farewell(true); }
static void say_farewell_in_release(const void *info) { (void)info, say_farewell(false); }
static void hear_farewell(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)info;
    ck_assert_ptr_null(message->replyPort);
    farewells++;
}

RL_TEST(a_reply_port_that_ends, "S-PORT-17 S-REF-6", "A port that a function called by its last release names as the reply port is not alive for the receiver") {
    RLMachPortContext context = {.release = say_farewell_in_release};
    told_port = RLMachPortCreate(hear_farewell, NULL, NULL);
    RLSourceRef source = RLMachPortCreateRunLoopSource(told_port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    for (int i = 0; i < 2; i++) {
        tells_when_invalid = i;
        ending_port = RLMachPortCreate(NULL, &context, NULL);
        RLMachPortSetInvalidationCallBack(ending_port, say_farewell_when_invalid);
        RLRelease(ending_port);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
    }
    ck_assert_int_eq(farewells, 2);
    RLRelease(source);
    RLMachPortInvalidate(told_port);
    RLRelease(told_port);
}

RL_TEST(rings_made_by_many_threads, "S-PORT-17 S-THR-8",
        "Threads that send ports to each other in every direction at once make no ring that keeps itself") {
    Box boxes[3] = {{.counted = true}, {.counted = true}, {.counted = true}};
    Ring ring = {.failures = 0};
    for (int i = 0; i < 3; i++) {
        box_port(&boxes[i]);
        ring.ports[i] = boxes[i].port;
        RLMachPortSetQueueLimit(boxes[i].port, 50);
    }
    Thread *threads[3];
    for (int i = 0; i < 3; i++) threads[i] = thread_start(send_around, &ring);
    for (int i = 0; i < 3; i++) thread_join(threads[i]);
    ck_assert_int_eq(ring.failures, 0);
    for (int i = 0; i < 3; i++) RLRelease(boxes[i].port);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(boxes[i].releases, 1);
}
