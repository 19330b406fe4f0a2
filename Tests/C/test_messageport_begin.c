/* SPDX-License-Identifier: MIT */
/* Requests whose outcome a function gets. */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "system_calls.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The info of a request: what its function was told. */
typedef struct Outcome {
    int calls;
    int32_t result;
    char text[64];
    pthread_t thread;
    uint32_t request;
    bool stops;
    void (*action)(struct Outcome *self, RLMessagePortRef remote);
    struct Outcome *next;
} Outcome;

static void note_outcome(RLMessagePortRef remote, int32_t result, RLDataRef data, void *info) {
    Outcome *outcome = info;
    outcome->result = result;
    outcome->thread = pthread_self();
    ck_assert((data != NULL) == (result == kRLMessagePortSuccess));
    size_t length = RLDataGetLength(data);
    if (length > sizeof outcome->text - 1) length = sizeof outcome->text - 1;
    if (length > 0) memcpy(outcome->text, RLDataGetBytePtr(data), length);
    __atomic_add_fetch(&outcome->calls, 1, __ATOMIC_SEQ_CST);
    if (outcome->action) outcome->action(outcome, remote);
    if (outcome->stops) RLStop(RLGetCurrent());
}

static int32_t begin_on(RLMessagePortRef remote, const char *text, RLRunLoopRef loop, RLMode mode, Outcome *outcome) {
    return RLMessagePortBeginRequest(remote, 1, text, text ? strlen(text) : 0, NULL, 0, 60, loop, mode, note_outcome, outcome,
                                     &outcome->request);
}

static int32_t begin(RLMessagePortRef remote, const char *text, RLMode mode, Outcome *outcome) {
    return begin_on(remote, text, RLGetCurrent(), mode, outcome);
}

RL_TEST(a_begun_request_gets_its_reply, "S-MSG-48",
        "The call returns before the reply, which comes when the loop runs the mode, on its thread; the mode is not empty until "
        "then and is empty again afterwards") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("begin"));
    static Outcome outcome;
    ck_assert_int_eq(begin(remote, "echo", "m", &outcome), kRLMessagePortSuccess);
    ck_assert_uint_ne(outcome.request, 0);
    ck_assert_int_eq(outcome.calls, 0);
    ck_assert(!RLIsModeEmpty("m"));
    /* Without the caller's reference the port lives on until the outcome. */
    RLRelease(remote);
    expect_run("m", 60, false, Finished);
    ck_assert_int_eq(outcome.calls, 1);
    ck_assert_int_eq(outcome.result, kRLMessagePortSuccess);
    ck_assert_str_eq(outcome.text, "echo");
    ck_assert(pthread_equal(outcome.thread, pthread_self()));
    ck_assert(RLIsModeEmpty("m"));
    worker_stop(&worker);
}

RL_TEST(common_modes_receive_too, "S-MSG-48", "Named for the common modes a request is told of in any of them, once") {
    static Worker worker = {.service = {.reply = "yes"}};
    RLMessagePortRef remote = worker_start(&worker, port_name("common"));
    static Outcome outcome;
    RLAddCommonMode(RLGetCurrent(), "also");
    ck_assert_int_eq(begin(remote, NULL, kRLCommonModes, &outcome), kRLMessagePortSuccess);
    expect_run("also", 60, false, Finished);
    ck_assert_str_eq(outcome.text, "yes");
    ck_assert_int_eq(outcome.calls, 1);
    ck_assert(RLIsModeEmpty(kRLDefaultMode));
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(one_mode_named_twice, "S-MSG-48 S-MSG-49",
        "Of a request for a mode and one for the common modes, of which it is one, each is told, also when the end of the first has ended what "
        "reads its replies") {
    static Service service = {.echoes = true};
    RLMessagePortRef port = add_service(&service, port_name("twice"), "service");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("twice"));
    RLMode modes[] = {kRLDefaultMode, kRLCommonModes, kRLDefaultMode};
    for (int first = 0; first < 2; first++) {
        Outcome outcomes[2] = {{.stops = true}, {.stops = true}};
        for (int i = 0; i < 2; i++) ck_assert_int_eq(begin(remote, "echo", modes[first + i], &outcomes[i]), kRLMessagePortSuccess);
        for (int i = 0; i < 2; i++) {
            expect_run("service", 60, true, HandledSource);
            expect_run(kRLDefaultMode, 60, false, Stopped);
            ck_assert_str_eq(outcomes[i].text, "echo");
        }
        ck_assert(RLIsModeEmpty(kRLDefaultMode));
    }
    RLRelease(remote);
    RLRelease(port);
}

enum { MANY = 1000 };
static Outcome many[MANY];
static int many_left;

static void one_less(Outcome *outcome, RLMessagePortRef remote) {
    (void)remote;
    char expected[16];
    snprintf(expected, sizeof expected, "%d", (int)(outcome - many));
    ck_assert_str_eq(outcome->text, expected);
    if (--many_left == 0) RLStop(RLGetCurrent());
}

RL_TEST(each_of_many_gets_its_own, "S-MSG-49 S-MSG-32",
        "A thousand requests that wait at once get their own replies, beside requests that run a mode") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("many"));
    many_left = MANY;
    for (int i = 0; i < MANY; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        many[i].action = one_less;
        ck_assert_int_eq(begin(remote, text, i % 2 ? "odd" : kRLDefaultMode, &many[i]), kRLMessagePortSuccess);
        if (i % 100 == 0) ck_assert_str_eq(ask_text(remote, 2, "between", "ask"), "between");
    }
    RLAddCommonMode(RLGetCurrent(), "odd");
    for (int turn = 0; many_left > 0; turn++) RLRunInMode(turn % 2 ? "odd" : kRLDefaultMode, 60, true);
    for (int i = 0; i < MANY; i++) ck_assert_int_eq(many[i].calls, 1);
    ck_assert(RLIsModeEmpty(kRLDefaultMode));
    ck_assert(RLIsModeEmpty("odd"));
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(a_cancelled_request_is_not_told, "S-MSG-50",
        "Cancelled it is told nothing, its late reply is dropped, and cancelling it again, or one that was told, is refused") {
    static Service service = {.echoes = true};
    RLMessagePortRef port = add_service(&service, port_name("cancel"), "service");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("cancel"));
    static Outcome first, second;
    ck_assert_int_eq(begin(remote, "first", "m", &first), kRLMessagePortSuccess);
    ck_assert_int_eq(begin(remote, "second", "m", &second), kRLMessagePortSuccess);
    ck_assert(RLMessagePortCancelRequest(remote, first.request));
    ck_assert(!RLMessagePortCancelRequest(remote, first.request));
    ck_assert(!RLMessagePortCancelRequest(remote, 0));
    ck_assert(!RLMessagePortCancelRequest(NULL, second.request));
    ck_assert(!RLMessagePortCancelRequest(port, second.request));
    expect_run("service", 60, true, HandledSource);
    expect_run("service", 60, true, HandledSource);
    ck_assert_int_eq(service.calls, 2);
    expect_run("m", 60, false, Finished);
    ck_assert_int_eq(first.calls, 0);
    ck_assert_str_eq(second.text, "second");
    ck_assert(!RLMessagePortCancelRequest(remote, second.request));
    RLRelease(remote);
    RLRelease(port);
}

static void never_return(Service *service, RLMessagePortRef port) {
    (void)service;
    (void)port;
    for (;;) pause();
}

RL_TEST(the_end_of_the_port_is_told, "S-MSG-48 S-MSG-29",
        "Requests that wait are told that the port became invalid, by the end of the peer and by Invalidate, and later ones are "
        "refused") {
    Server server = server_start(port_name("ends"), "never", never_return);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("ends"));
    static Outcome outcomes[3];
    for (int i = 0; i < 3; i++) ck_assert_int_eq(begin(remote, "x", "m", &outcomes[i]), kRLMessagePortSuccess);
    server_kill(&server);
    expect_run("m", 60, false, Finished);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(outcomes[i].calls, 1);
        ck_assert_int_eq(outcomes[i].result, kRLMessagePortBecameInvalidError);
    }
    static Outcome late;
    ck_assert_int_eq(begin(remote, "x", "m", &late), kRLMessagePortIsInvalid);
    RLRelease(remote);

    static Service service;
    RLMessagePortRef port = service_port(&service, port_name("invalidated"));
    remote = RLMessagePortCreateRemote(port_name("invalidated"));
    static Outcome outcome;
    ck_assert_int_eq(begin(remote, "x", "m", &outcome), kRLMessagePortSuccess);
    RLMessagePortInvalidate(remote);
    ck_assert_int_eq(outcome.calls, 0);
    expect_run("m", 60, false, Finished);
    ck_assert_int_eq(outcome.result, kRLMessagePortBecameInvalidError);
    ck_assert_int_eq(late.calls, 0);
    RLRelease(remote);
    RLRelease(port);
}

typedef struct Ending {
    RLMessagePortRef remote;
    RLRunLoopRef loop;
    Outcome outcome, second;
} Ending;

static void begin_and_end(void *info) {
    Ending *ending = info;
    ck_assert_int_eq(begin(ending->remote, "x", "m", &ending->outcome), kRLMessagePortSuccess);
}

static void keep_loop(void *info) { *(RLRunLoopRef *)info = (RLRunLoopRef)RLRetain(RLGetCurrent()); }

static int answered;
static void count_answer(RLMessagePortRef remote, int32_t result, RLDataRef data, void *info) {
    (void)remote, (void)data, (void)info;
    if (result == kRLMessagePortSuccess) answered++;
}

RL_TEST(all_replies_come_before_the_end, "S-MSG-36 S-MSG-48",
        "However many replies a receiver gave before its end, they are delivered, whichever call finds that it is gone") {
    enum { ASKED = 100 };
    static Worker worker = {.service = {.reply = "yes"}};
    RLMessagePortRef remote = worker_start(&worker, port_name("last words"));
    for (int i = 0; i < ASKED; i++) {
        ck_assert_int_eq(RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 60, RLGetCurrent(), "m", count_answer, NULL, NULL),
                         kRLMessagePortSuccess);
    }
    wait_until_count(&worker.service.calls, ASKED);
    worker_stop(&worker);
    ck_assert(!RLMessagePortIsValid(remote));
    expect_run("m", 60, false, Finished);
    ck_assert_int_eq(answered, ASKED);
    RLRelease(remote);
}

RL_TEST(the_end_of_the_loop_is_told, "S-MSG-48 S-LOOP-7",
        "When the loop's thread ends a request that waits there is told so on it; a loop that has ended refuses requests") {
    static Service service;
    RLMessagePortRef port = service_port(&service, port_name("loop"));
    static Ending ending;
    ending.remote = RLMessagePortCreateRemote(port_name("loop"));
    thread_join(thread_start(begin_and_end, &ending));
    ck_assert_int_eq(ending.outcome.calls, 1);
    ck_assert_int_eq(ending.outcome.result, kRLMessagePortReceiveTimeout);
    RLRunLoopRef gone;
    thread_join(thread_start(keep_loop, &gone));
    static Outcome outcome;
    ck_assert_int_eq(begin_on(ending.remote, "x", gone, "m", &outcome), kRLMessagePortReceiveTimeout);
    ck_assert_int_eq(outcome.calls, 0);
    ck_assert(!RLMessagePortCancelRequest(ending.remote, outcome.request));
    RLRelease(gone);
    RLRelease(ending.remote);
    RLRelease(port);
}

static int replies_at_end;
static void end_at_reply(RLMessagePortRef port, int32_t code, RLDataRef data, void *info) {
    (void)port, (void)data, (void)info;
    replies_at_end++;
    ck_assert_int_eq(code, kRLMessagePortReceiveTimeout);
    pthread_exit(NULL);
}
static void begin_three(void *remote) {
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 60, RLGetCurrent(), "m", end_at_reply, NULL, NULL), kRLMessagePortSuccess);
}

RL_TEST(a_reply_at_the_end_of_the_thread_ends_it_again, "S-MSG-48 S-LOOP-19",
        "Reply functions that end the thread once more, when they are told that its loop ends, leave nothing of their requests") {
    if (is_left_out_by_thread_sanitizer("it takes a thread that has ended more than once for gone")) return;
    static Service service;
    RLMessagePortRef port = service_port(&service, port_name("again"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("again"));
    RLIndex before = RLGetRetainCount(remote);
    thread_join(thread_start(begin_three, (void *)remote));
    ck_assert_int_eq(replies_at_end, 3);
    ck_assert_int_eq(RLGetRetainCount(remote), before);
    RLRelease(remote);
    RLRelease(port);
}

static void do_nothing(void *info) { (void)info; }

static void post_until(void *info) {
    Ending *ending = info;
    while (!count_of(&ending->outcome.calls)) RLPerformFunction(ending->loop, kRLDefaultMode, do_nothing, NULL, NULL);
}

RL_TEST(an_ended_loop_refuses_while_it_is_posted_to, "S-MSG-48",
        "A loop that has ended refuses requests also while another thread posts to it, and keeps nothing of them") {
    static Worker worker = {.service = {.reply = "yes"}};
    static Ending ending;
    static Outcome outcome;
    ending.remote = worker_start(&worker, port_name("posted"));
    thread_join(thread_start(keep_loop, &ending.loop));
    RLIndex before = RLGetRetainCount(ending.remote);
    Thread *poster = thread_start(post_until, &ending);
    for (int i = 0; i < 5000; i++) {
        ck_assert_int_eq(begin_on(ending.remote, "x", ending.loop, "m", &outcome), kRLMessagePortReceiveTimeout);
        /* The queue of the port is emptied. */
        if (i % 50 == 0) ck_assert_str_eq(ask_text(ending.remote, 1, "x", "ask"), "yes");
    }
    __atomic_store_n(&ending.outcome.calls, 1, __ATOMIC_SEQ_CST);
    thread_join(poster);
    ck_assert_int_eq(outcome.calls, 0);
    ck_assert_int_eq(RLGetRetainCount(ending.remote), before);
    RLRelease(ending.loop);
    RLRelease(ending.remote);
    worker_stop(&worker);
}

/* Stops two threads where they meet: one that has taken the reply of a request, and looks for the next under the port's lock; and the
 * loop's, which comes with the outcome and waits for that lock, until the request was cancelled and the port has died. */
static struct {
    int received, locked, waits, is_gone, looks;
} meeting;
static __thread enum { OTHER, TAKER, LOOP } role;

static bool meet_at_the_lock(long number, const long argument[6], long *result) {
    if (role == TAKER && number == SYS_recvmsg) {
        if (meeting.received && !meeting.locked) {
            __atomic_store_n(&meeting.locked, 1, __ATOMIC_SEQ_CST);
            wait_until_count(&meeting.waits, 1);
        }
        *result = system_call(number, argument);
        if (*result > 0) meeting.received++;
        return true;
    }
    if (role == LOOP && number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) != FUTEX_WAKE) {
        __atomic_add_fetch(&meeting.looks, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&meeting.waits, 1, __ATOMIC_SEQ_CST);
        wait_until_count(&meeting.is_gone, 1);
        /* As if the word had changed: the thread looks at it again. */
        errno = EAGAIN;
        *result = -1;
        return true;
    }
    return false;
}

static void serve_when_locked(LoopThread *self) {
    (void)self;
    wait_until_count(&meeting.locked, 1);
    role = LOOP;
    RLRunInMode("m", 60, false);
}

RL_TEST(an_outcome_meets_the_last_release, "S-MSG-50 S-THR-1",
        "A loop that comes with an outcome for a request which another thread cancels finds out by the port, also when that thread "
        "has dropped the last reference to it") {
    static Worker worker = {.service = {.reply = "yes"}};
    static Outcome outcome;
    static LoopThread other;
    RLMessagePortRef remote = worker_start(&worker, port_name("last"));
    loop_thread_start(&other, serve_when_locked, NULL);
    ck_assert_int_eq(begin_on(remote, "x", other.loop, "m", &outcome), kRLMessagePortSuccess);
    role = TAKER;
    hook_system_calls(meet_at_the_lock);
    ck_assert_str_eq(ask_text(remote, 1, "x", "ask"), "yes");
    ck_assert(RLMessagePortCancelRequest(remote, outcome.request));
    RLRelease(remote);
    /* Whatever was freed is used again. */
    void *blocks[128];
    for (int i = 0; i < 128; i++) ck_assert_ptr_nonnull(memset(blocks[i] = malloc(16 * (size_t)i + 8), 0x5a, 16 * (size_t)i + 8));
    __atomic_store_n(&meeting.is_gone, 1, __ATOMIC_SEQ_CST);
    thread_join(other.thread);
    hook_system_calls(NULL);
    for (int i = 0; i < 128; i++) free(blocks[i]);
    ck_assert_int_eq(count_of(&meeting.looks), 1);
    ck_assert_int_eq(outcome.calls, 0);
    worker_stop(&worker);
}

static void end_thread(Outcome *outcome, RLMessagePortRef remote) {
    (void)outcome;
    (void)remote;
    pthread_exit(NULL);
}

static void run_and_end_within(void *info) {
    Ending *ending = info;
    ending->outcome.action = end_thread;
    begin_and_end(ending);
    RLRunInMode("m", 60, false);
    ck_abort_msg("the thread went on");
}

RL_TEST(its_function_may_end_the_thread, "S-LOOP-19", "A function that ends its thread leaves nothing behind: the port can die") {
    static Worker worker = {.service = {.echoes = true}};
    static Ending ending;
    ending.remote = worker_start(&worker, port_name("exit"));
    RLIndex before = RLGetRetainCount(ending.remote);
    thread_join(thread_start(run_and_end_within, &ending));
    ck_assert_int_eq(ending.outcome.calls, 1);
    ck_assert_int_eq(RLGetRetainCount(ending.remote), before);
    RLRelease(ending.remote);
    worker_stop(&worker);
}

static void run_two_and_end_within(void *info) {
    Ending *ending = info;
    ending->outcome.action = end_thread;
    begin_and_end(ending);
    ck_assert_int_eq(begin(ending->remote, "x", "m", &ending->second), kRLMessagePortSuccess);
    /* The replies come in order: with this one the others are there, and are told of in one pass. */
    ck_assert_str_eq(ask_text(ending->remote, 1, "x", "ask"), "x");
    RLRunInMode("m", 60, false);
    ck_abort_msg("the thread went on");
}

RL_TEST(its_function_may_end_the_thread_among_others, "S-LOOP-19",
        "A function that ends its thread leaves nothing behind also when other outcomes are told in the same pass; those are told once") {
    static Worker worker = {.service = {.echoes = true}};
    static Ending ending;
    ending.remote = worker_start(&worker, port_name("exits"));
    RLIndex before = RLGetRetainCount(ending.remote);
    thread_join(thread_start(run_two_and_end_within, &ending));
    ck_assert_int_eq(ending.outcome.calls, 1);
    ck_assert_int_eq(ending.second.calls, 1);
    ck_assert_int_eq(RLGetRetainCount(ending.remote), before);
    RLRelease(ending.remote);
    worker_stop(&worker);
}

static void begin_next(Outcome *outcome, RLMessagePortRef remote) {
    if (outcome->next) ck_assert_int_eq(begin(remote, "next", "m", outcome->next), kRLMessagePortSuccess);
    else RLMessagePortInvalidate(remote);
}

RL_TEST(its_function_may_do_everything, "S-MSG-48", "It may begin another request, which runs on, and invalidate the port") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("all"));
    static Outcome last = {.action = begin_next}, middle = {.action = begin_next, .next = &last};
    static Outcome first = {.action = begin_next, .next = &middle};
    ck_assert_int_eq(begin(remote, "first", "m", &first), kRLMessagePortSuccess);
    expect_run("m", 60, false, Finished);
    ck_assert_str_eq(last.text, "next");
    ck_assert(!RLMessagePortIsValid(remote));
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(what_cannot_be_begun_is_refused, "S-MSG-48 S-MSG-21 S-MSG-22",
        "NULL, a local port, no mode, no loop, no function, and what cannot travel are refused, and nothing is called") {
    static Service service;
    RLMessagePortRef port = service_port(&service, port_name("refuse"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("refuse"));
    static Outcome outcome;
    ck_assert_int_eq(begin(NULL, "x", "m", &outcome), kRLMessagePortIsInvalid);
    ck_assert_int_eq(begin(port, "x", "m", &outcome), kRLMessagePortIsInvalid);
    ck_assert_int_eq(begin(remote, "x", NULL, &outcome), kRLMessagePortTransportError);
    ck_assert_int_eq(begin_on(remote, "x", NULL, "m", &outcome), kRLMessagePortTransportError);
    ck_assert_int_eq(
        RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 1, RLGetCurrent(), "m", NULL, NULL, NULL), kRLMessagePortTransportError);
    ck_assert_int_eq(
        RLMessagePortBeginRequest(remote, 1, "x", (size_t)1 << 40, NULL, 0, 1, RLGetCurrent(), "m", note_outcome, &outcome, NULL),
        kRLMessagePortTransportError);
    ck_assert_int_eq(
        RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 1, 1, RLGetCurrent(), "m", note_outcome, &outcome, NULL),
        kRLMessagePortTransportError);
    ck_assert_int_eq(outcome.calls, 0);
    ck_assert(RLIsModeEmpty("m"));
    /* A queue that stays full. */
    while (RLMessagePortSendRequest(remote, 1, "x", 1, 0, 0, NULL, NULL) == kRLMessagePortSuccess) {}
    ck_assert_int_eq(
        RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 0, RLGetCurrent(), "m", note_outcome, &outcome, NULL),
        kRLMessagePortSendTimeout);
    ck_assert(RLIsModeEmpty("m"));
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(the_child_of_fork_is_told, "S-MSG-51 S-FORK-1",
        "In the child a request of the forking thread's loop is told that the port is invalid; the parent's goes on") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("fork"));
    static Outcome outcome;
    ck_assert_int_eq(begin(remote, "echo", "m", &outcome), kRLMessagePortSuccess);
    pid_t child = fork();
    if (child == 0) {
        RLRunInMode("m", 60, false);
        _exit(outcome.calls == 1 && outcome.result == kRLMessagePortBecameInvalidError && RLIsModeEmpty("m") ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    expect_run("m", 60, false, Finished);
    ck_assert_str_eq(outcome.text, "echo");
    RLRelease(remote);
    worker_stop(&worker);
}
