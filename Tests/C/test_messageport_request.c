/* SPDX-License-Identifier: MIT */
/*
 * Requests: what SendRequest does while it waits, its results, large messages, descriptors. Both
 * ends are in one process.
 */
#define _GNU_SOURCE
#include "messageport_support.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

RL_TEST(a_request_waits_for_its_reply, "S-MSG-25 S-MSG-30 S-MSG-33 S-MSG-31",
        "A request with a mode that holds nothing else gets the reply, and leaves nothing in that "
        "mode") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("reply"));
    ck_assert_str_eq(ask_text(remote, 5, "echo", "private"), "echo");
    expect_run("private", 1, false, Finished);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 6, "x", 1, 1, 60, "private", NULL),
                     kRLMessagePortSuccess);
    RLRelease(remote);
    worker_stop(&worker);
    ck_assert_int_eq(worker.service.msgid, 6);
    ck_assert_int_eq(worker.service.calls, 2);
    ck_assert(!pthread_equal(worker.service.thread, pthread_self()));
}

RL_TEST(one_thread_can_ask_itself, "S-MSG-27",
        "Sender and receiver may be one thread, if the port's source is in the reply mode") {
    static Service service = {.reply = "self", .word = "m"};
    RLMessagePortRef port = add_service(&service, port_name("self"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("self"));
    for (int i = 0; i < 100; i++) ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "self");
    ck_assert_int_eq(service.calls, 100);
    trace_take();
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(other_items_are_served_meanwhile, "S-MSG-25 S-MSG-26 S-MSG-28",
        "While a reply is waited for the mode's other items are served, and neither they nor a "
        "stop end the wait") {
    static Service service;
    static Probe timer = {.name = "t", .action = action_stop}, source = {.name = "s"};
    RLMessagePortRef port = add_service(&service, port_name("busy"), "elsewhere");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("busy"));
    add_timer(&timer, date_in(0.02), 0, "m");
    RLSourceSignal(add_source(&source, "m"));
    double start = monotonic_now();
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 0.1, "m", NULL),
                     kRLMessagePortReceiveTimeout);
    ck_assert(monotonic_now() - start >= 0.1);
    expect_trace("s t");
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(a_late_reply_is_discarded, "S-MSG-28 S-MSG-32",
        "A reply that comes after its request gave up is not given to the next one") {
    static Service service = {.echoes = true};
    RLMessagePortRef port = add_service(&service, port_name("late"), "service");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("late"));
    RLDataRef data = NULL;
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "first", 5, 1, 0, "empty", &data),
                     kRLMessagePortReceiveTimeout);
    ck_assert_ptr_null(data);
    expect_run("service", 60, true, HandledSource);
    ck_assert_str_eq(ask_text(remote, 2, "second", "service"), "second");
    RLRelease(remote);
    RLRelease(port);
}

static int32_t send_timeout(RLMessagePortRef remote, double seconds) {
    return RLMessagePortSendRequest(remote, 1, "x", 1, seconds, 0, NULL, NULL);
}

RL_TEST(a_full_queue_is_waited_for, "S-MSG-23",
        "A full queue ends a request after sendTimeout, at once below a millisecond") {
    static Service service = {.word = NULL};
    RLMessagePortRef port = add_service(&service, port_name("full"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("full"));
    int sent = 0;
    while (send_timeout(remote, -1) == kRLMessagePortSuccess) sent++;
    ck_assert_int_ge(sent, 50);
    ck_assert_int_eq(send_timeout(remote, 0), kRLMessagePortSendTimeout);
    double start = monotonic_now();
    ck_assert_int_eq(send_timeout(remote, 0.05), kRLMessagePortSendTimeout);
    ck_assert(monotonic_now() - start >= 0.05);
    /* Every queued message arrives, and then there is room. */
    for (int i = 0; i < sent; i++) expect_run("m", 60, true, HandledSource);
    ck_assert_int_eq(service.calls, sent);
    expect_run("m", 0, true, TimedOut);
    ck_assert_int_eq(send_timeout(remote, 0), kRLMessagePortSuccess);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(room_ends_the_wait_for_it, "S-MSG-23",
        "A sender that waits for room, ten days and more, goes on as soon as there is some") {
    static Worker worker = {.service = {.word = NULL}};
    RLMessagePortRef remote = worker_start(&worker, port_name("room"));
    for (int i = 0; i < 2000; i++) {
        ck_assert_int_eq(send_timeout(remote, 1e6), kRLMessagePortSuccess);
    }
    wait_until_count(&worker.service.calls, 2000);
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(what_cannot_be_sent, "S-MSG-22 S-MSG-21",
        "More than 0x60000000 bytes are a transport error, an invalid port is invalid") {
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("errors"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("errors"));
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 0x60000001, 1, 1, NULL, NULL),
                     kRLMessagePortTransportError);
    RLMessagePortInvalidate(remote);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 1, NULL, NULL),
                     kRLMessagePortIsInvalid);
    RLRelease(remote);
    RLRelease(port);
}

static void invalidate_port(Service *self, RLMessagePortRef port) {
    (void)self;
    RLMessagePortInvalidate(port);
}

static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)port;
    ck_assert_ptr_null(info);
    __atomic_add_fetch(&invalidations, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(the_peer_ends_during_the_wait, "S-MSG-29 S-MSG-35 S-MSG-36",
        "A request whose receiver becomes invalid ends with BecameInvalidError, and the remote's "
        "callback is called once") {
    static Worker worker = {.service = {.action = invalidate_port}};
    RLMessagePortRef remote = worker_start(&worker, port_name("ends"));
    RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL),
                     kRLMessagePortBecameInvalidError);
    wait_until_count(&invalidations, 1);
    ck_assert(!RLMessagePortIsValid(remote));
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL),
                     kRLMessagePortIsInvalid);
    RLRelease(remote);
    ck_assert_int_eq(count_of(&invalidations), 1);
    thread_join(worker.thread.thread);
}

static void invalidate_remote(Probe *self) { RLMessagePortInvalidate(self->data); }

RL_TEST(the_remote_is_invalidated_during_the_wait, "S-MSG-29",
        "Invalidating the remote port in a callback ends the wait for its reply") {
    static Probe timer = {.name = "t", .action = invalidate_remote};
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("mine"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("mine"));
    timer.data = remote;
    add_timer(&timer, date_in(0.01), 0, "m");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL),
                     kRLMessagePortBecameInvalidError);
    expect_trace("t");
    RLRelease(remote);
    RLRelease(port);
}

static Gate end_is_told = GATE_INITIALIZER, nested_is_over = GATE_INITIALIZER;
static void wait_for_nested_run(RLMessagePortRef remote, void *info) {
    (void)remote, (void)info;
    gate_open(&end_is_told);
    gate_wait(&nested_is_over);
}
static Thread *invalidating;
static void invalidate_elsewhere(void *remote) { RLMessagePortInvalidate(remote); }
static void run_while_the_end_is_told(Probe *self) {
    invalidating = thread_start(invalidate_elsewhere, self->data);
    gate_wait(&end_is_told);
    expect_run("m", 0.2, false, TimedOut);
    gate_open(&nested_is_over);
}

RL_TEST(no_pass_in_vain_while_the_end_is_told, "S-MSG-34",
        "While another thread is in the invalidation callback of a remote port, a run in which a request waits sleeps") {
    static Probe timer = {.action = run_while_the_end_is_told}, passes;
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("slow end"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("slow end"));
    RLMessagePortSetInvalidationCallBack(remote, wait_for_nested_run);
    timer.data = remote;
    add_timer(&timer, date_in(0), 0, "m");
    RLObserverRef observer = add_observer(&passes, kRLBeforeSources, "m");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL), kRLMessagePortBecameInvalidError);
    thread_join(invalidating);
    ck_assert_int_lt(passes.calls, 100);
    RLObserverInvalidate(observer);
    RLRelease(remote);
    RLRelease(port);
}

static Gate watcher_is_busy = GATE_INITIALIZER, watcher_may_go = GATE_INITIALIZER;
static void keep_watcher(RLMessagePortRef remote, void *info) {
    (void)remote, (void)info;
    gate_open(&watcher_is_busy);
    gate_wait(&watcher_may_go);
}
static void drop_last_reference(RLMessagePortRef remote, void *info) {
    (void)info;
    RLRelease(remote);
}

RL_TEST(the_port_ends_while_it_is_asked, "S-MSG-36 S-MSG-38",
        "An invalidation callback that RLMessagePortIsValid calls may release the last reference; the port is not valid") {
    enum { PORTS = 64 };
    RLMessagePortRef ports[PORTS + 1], remotes[PORTS + 1];
    for (int i = 0; i <= PORTS; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s %d", port_name("asked"), i);
        ports[i] = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
        remotes[i] = RLMessagePortCreateRemote(name);
        RLMessagePortSetInvalidationCallBack(remotes[i], i < PORTS ? drop_last_reference : keep_watcher);
    }
    /* The library's thread is in a callback and leaves the other ports to this one. */
    RLRelease(ports[PORTS]);
    gate_wait(&watcher_is_busy);
    for (int i = 0; i < PORTS; i++) {
        RLRelease(ports[i]);
        ck_assert(!RLMessagePortIsValid(remotes[i]));
    }
    gate_open(&watcher_may_go);
    RLRelease(remotes[PORTS]);
}

static void advance_clock(void *clock) { RLClockAdvance(clock, 5); }

/* A move before the wait begins is none of the wait's time, so there are more until it has ended. */
static Gate is_over;
static void advance_until_over(void *clock) {
    while (!gate_is_open(&is_over)) {
        advance_clock(clock);
        sched_yield();
    }
}

RL_TEST(a_wait_without_runs_ends_by_the_clock, "S-CLK-3 S-MSG-28",
        "A wait for a reply in a mode that cannot run ends when another thread has moved the loop's clock to its limit") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("clock"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("clock"));
    Thread *thread = thread_start(advance_until_over, clock);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 4, kRLCommonModes, NULL), kRLMessagePortReceiveTimeout);
    gate_open(&is_over);
    thread_join(thread);
    RLRelease(remote);
    RLRelease(port);
    RLRelease(clock);
}

static void take_five_seconds(Probe *self) {
    if (self->value++ > 0) return;
    advance_clock(self->data);
    RLRunInMode("m", 0, false);
}

RL_TEST(a_wait_ends_by_its_call_s_time, "S-CLK-3 S-MSG-28", "The time that Entry observers of a wait's run take belongs to the time for a reply") {
    RLClockRef clock = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("entry"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("entry"));
    static Probe entry = {.action = take_five_seconds};
    entry.data = clock;
    add_observer(&entry, kRLEntry, "m");
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 1, 4, "m", NULL), kRLMessagePortReceiveTimeout);
    RLRelease(remote);
    RLRelease(port);
    RLRelease(clock);
}

/* Until a port in mode m has taken all that was sent to it. */
static void serve_all(void) {
    for (int idle = 0; idle < 32;) idle = RLRunInMode("m", 0, true) == kRLRunHandledSource ? 0 : idle + 1;
}

RL_TEST(what_was_queued_outlives_its_sender, "S-MSG-24 S-MSG-54",
        "Messages that were queued are served though their sender is gone when an earlier one of its requests is answered") {
    static Service service = {.reply = "late"};
    RLMessagePortRef port = add_service(&service, port_name("heir"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("heir"));
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 0, "n", NULL), kRLMessagePortReceiveTimeout);
    ck_assert_int_eq(send_text(remote, 2, "one"), kRLMessagePortSuccess);
    ck_assert_int_eq(send_text(remote, 3, "another"), kRLMessagePortSuccess);
    RLMessagePortInvalidate(remote);
    serve_all();
    ck_assert_int_eq(service.calls, 3);
    ck_assert_str_eq(service.text, "another");
    RLRelease(remote);
    RLRelease(port);
}

static void count_outcome(RLMessagePortRef remote, int32_t result, RLDataRef data, void *info) {
    (void)remote, (void)data;
    /* A begin that found no room has taken some replies. */
    if (result != kRLMessagePortSuccess) ck_assert_int_eq(result, kRLMessagePortBecameInvalidError);
    ++*(int *)info;
}

RL_TEST(what_was_queued_outlives_untaken_replies, "S-MSG-54",
        "They are served also where so many replies wait for room that the port takes nothing more of the sender") {
    static Service service = {.reply = "reply"};
    RLMessagePortRef port = add_service(&service, port_name("full"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("full"));
    int taken = 0, begun = 0, told = 0;
    for (int before = -1; before != taken;) {
        before = taken;
        while (RLMessagePortBeginRequest(remote, 1, "x", 1, NULL, 0, 0, RLGetCurrent(), "n", count_outcome, &told, NULL) ==
               kRLMessagePortSuccess)
            taken++, begun++;
        serve_all();
    }
    ck_assert_int_lt(service.calls, taken);
    RLMessagePortInvalidate(remote);
    serve_all();
    ck_assert_int_eq(service.calls, taken);
    expect_run("n", 60, false, Finished);
    ck_assert_int_eq(told, begun);
    RLRelease(remote);
    RLRelease(port);
}

static RLMessagePortRef nested_remote;
static void ask_nested(Probe *self) {
    ck_assert_str_eq(ask_text(nested_remote, 2, "inner", self->mode), "inner");
    trace("inner");
}

RL_TEST(nested_requests_get_their_replies, "S-MSG-32 S-MSG-31",
        "Requests made while another waits on the same remote, in the same mode or another, get "
        "their own replies") {
    static Worker worker = {.service = {.echoes = true}};
    static const char *modes[] = {"m", "other"};
    nested_remote = worker_start(&worker, port_name("nested"));
    for (int i = 0; i < 2; i++) {
        static Probe probes[2];
        probes[i] = (Probe){.action = ask_nested, .mode = modes[i]};
        RLSourceRef source = add_source(&probes[i], "m");
        RLSourceSignal(source);
        ck_assert_str_eq(ask_text(nested_remote, 1, "outer", "m"), "outer");
        expect_trace("inner");
        RLSourceInvalidate(source);
        /* A timer's callback does not end the outer run, so the reply that the inner run took must.
         * */
        static Probe timers[2];
        timers[i] = (Probe){.action = ask_nested, .mode = modes[i]};
        add_timer(&timers[i], date_in(-1), 0, "m");
        ck_assert_str_eq(ask_text(nested_remote, 1, "outer", "m"), "outer");
        expect_trace("inner");
    }
    RLRelease(nested_remote);
    worker_stop(&worker);
}

static void run_nested(Probe *self) {
    (void)self;
    /* Long enough for the reply to come, which this run takes from the connection. */
    double start = monotonic_now();
    while (monotonic_now() - start < 0.05) RLRunInMode("m", 0.01, false);
}

RL_TEST(a_plain_nested_run_keeps_no_reply, "S-MSG-32 S-MSG-25",
        "A reply that a run within a callback took ends the wait around it, whatever kind of "
        "callback that is") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("plain"));
    static Probe timer = {.action = run_nested}, observer = {.action = run_nested};
    add_timer(&timer, date_in(-1), 0, "m");
    ck_assert_str_eq(ask_text(remote, 1, "timer", "m"), "timer");
    ck_assert_int_eq(timer.calls, 1);
    add_observer(&observer, kRLBeforeWaiting, "m");
    ck_assert_str_eq(ask_text(remote, 1, "observer", "m"), "observer");
    RLRelease(remote);
    worker_stop(&worker);
}

static Gate start_gate = GATE_INITIALIZER;
static void ask_many(void *argument) {
    RLMessagePortRef remote = argument;
    gate_wait(&start_gate);
    for (int i = 0; i < 200; i++) {
        char text[64];
        snprintf(text, sizeof text, "%p %d", (void *)&text, i);
        ck_assert_str_eq(ask_text(remote, i, text, i % 2 ? "m" : kRLDefaultMode), text);
    }
}

RL_TEST(concurrent_requests_get_their_replies, "S-MSG-32",
        "Four threads that ask over one remote port get their own replies") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("concurrent"));
    Thread *threads[4];
    for (int i = 0; i < 4; i++) threads[i] = thread_start(ask_many, remote);
    gate_open(&start_gate);
    for (int i = 0; i < 4; i++) thread_join(threads[i]);
    ck_assert_int_eq(count_of(&worker.service.calls), 800);
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(the_common_modes_only_wait, "S-MSG-25 S-MODE-19",
        "A request in kRLCommonModes gets its reply, and its timeout, and logs nothing") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("common"));
    log_capture();
    ck_assert_str_eq(ask_text(remote, 1, "x", kRLCommonModes), "x");
    ck_assert_int_eq(log_count(), 0);
    RLRelease(remote);
    worker_stop(&worker);
}

static char *pattern(size_t length) {
    char *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++) bytes[i] = (char)(i * 31 + i / 4096);
    return bytes;
}

/* Asks with so many bytes, and wants the reply but not its data. */
static int32_t ask_long(RLMessagePortRef remote, size_t length) {
    char *bytes = pattern(length);
    int32_t code = RLMessagePortSendRequest(remote, 1, bytes, length, 60, 60, "m", NULL);
    free(bytes);
    return code;
}

RL_TEST(messages_of_all_sizes, "S-MSG-1 S-MSG-15 S-MSG-30",
        "Messages and replies from 0 bytes to 64 MiB arrive whole, and no descriptor is left but "
        "those of the memory that each end keeps") {
    static Worker worker = {.service = {.echoes = true}};
    static const size_t sizes[] = {0, 1, 31, 4096, 32768, 32769, 65536, 1 << 20, (1 << 20) + 1,
                                   64 << 20};
    RLMessagePortRef remote = worker_start(&worker, port_name("sizes"));
    ck_assert_int_eq(ask_long(remote, 40000), kRLMessagePortSuccess);
    int before = count_descriptors();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *bytes = pattern(sizes[i]);
        RLDataRef data = NULL;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, sizes[i], 60, 60, "m", &data),
                         kRLMessagePortSuccess);
        ck_assert_uint_eq(RLDataGetLength(data), sizes[i]);
        ck_assert_int_eq(memcmp(RLDataGetBytePtr(data), bytes, sizes[i]), 0);
        RLRelease(data);
        free(bytes);
    }
    wait_until_waiting(worker.thread.loop);
    ck_assert_int_eq(count_descriptors(), before);
    RLRelease(remote);
    worker_stop(&worker);
}

RL_TEST(long_messages_need_nobody_who_takes_them, "S-MSG-24 S-MSG-27",
        "A message longer than the memory for parts is queued while nobody runs the loop, also by "
        "the thread whose loop is to serve it, and arrives whole; so does one behind it") {
    static Service service = {.echoes = true};
    size_t length = 9 << 20;
    RLMessagePortRef port = add_service(&service, port_name("alone"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("alone"));
    char *bytes = pattern(length);
    RLDataRef data = NULL;
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, length, 60, 60, "m", &data),
                     kRLMessagePortSuccess);
    ck_assert_uint_eq(RLDataGetLength(data), length);
    ck_assert_int_eq(memcmp(RLDataGetBytePtr(data), bytes, length), 0);
    RLRelease(data);
    for (int i = 2; i <= 3; i++) {
        size_t less = length - (size_t)i;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, i, bytes, less, 0, 0, NULL, NULL),
                         kRLMessagePortSuccess);
    }
    for (int i = 2; i <= 3; i++) {
        expect_run("m", 60, true, HandledSource);
        ck_assert_int_eq(service.msgid, i);
        ck_assert_uint_eq(service.length, length - (size_t)i);
        ck_assert_int_eq(memcmp(service.text, bytes, sizeof service.text - 1), 0);
    }
    free(bytes);
    RLRelease(remote);
    RLRelease(port);
}

static int taken[8];
static RLIndex taken_count, offered_count;
static void take_two(Service *self, RLMessagePortRef port) {
    (void)self;
    offered_count = RLMessagePortTakeDescriptors(port, NULL, 0);
    taken_count = RLMessagePortTakeDescriptors(port, taken, 2);
}

RL_TEST(descriptors_travel, "S-MSG-13 S-MSG-15",
        "Descriptors arrive with their message, in order; what the callback takes is its own, the "
        "rest is closed") {
    static Service service = {.action = take_two, .reply = "ok"};
    RLMessagePortRef port = add_service(&service, port_name("travel"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("travel"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "ok");
    ck_assert_int_eq(offered_count, 0);
    /* The first long message makes the memory that the remote port keeps. */
    ck_assert_int_eq(ask_long(remote, 100000), kRLMessagePortSuccess);
    int ends[2], third[2];
    make_pipe(ends);
    make_pipe(third);
    int before = count_descriptors();
    for (int large = 0; large < 2; large++) {
        int sent[3] = {ends[0], ends[1], third[0]};
        size_t length = large ? 100000 : 3;
        char *bytes = pattern(length);
        ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 2, bytes, length, sent, 3,
                1, 60, "m", NULL),
                         kRLMessagePortSuccess);
        free(bytes);
        ck_assert_uint_eq(service.length, length);
        ck_assert_int_eq(offered_count, 3);
        ck_assert_int_eq(taken_count, 2);
        ck_assert_int_eq(count_descriptors(), before + 2);
        ck_assert(fcntl(taken[0], F_GETFD) & FD_CLOEXEC);
        struct stat a, b;
        fstat(ends[0], &a);
        fstat(taken[0], &b);
        ck_assert_uint_eq(a.st_ino, b.st_ino);
        write_byte(taken[1]);
        read_byte(ends[0]);
        close(taken[0]);
        close(taken[1]);
    }
    ck_assert_int_eq(RLMessagePortTakeDescriptors(port, taken, 2), 0);
    int wrong[] = {ends[0], 1000000};
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 2, "x", 1, wrong, 2, 1, 1,
            NULL, NULL),
                     kRLMessagePortTransportError);
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 2, "x", 1, wrong, -1, 1, 1,
            NULL, NULL),
                     kRLMessagePortTransportError);
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 2, "x", 1, wrong, 129, 1, 1,
            NULL, NULL),
                     kRLMessagePortTransportError);
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 2, "x", 1, NULL, 1, 1, 1, NULL,
            NULL),
                     kRLMessagePortTransportError);
    RLRelease(remote);
    RLRelease(port);
    ck_assert_int_le(count_descriptors(), before);
}

static void end_thread(Service *self, RLMessagePortRef port) {
    (void)self, (void)port;
    pthread_exit(NULL);
}
static void *serve_and_end(void *argument) {
    Worker *worker = argument;
    add_service(&worker->service, worker->name, kRLDefaultMode);
    gate_open(&worker->served);
    RLRunInMode(kRLDefaultMode, 1000, false);
    return NULL;
}

RL_TEST(a_callback_ends_its_thread, "S-LOOP-9 S-MSG-22 S-MSG-38",
        "A message callback that ends its thread fails its request, and leaves nothing behind") {
    static Worker worker = {.service = {.action = end_thread}};
    pthread_t thread;
    int before = count_descriptors();
    worker.name = port_name("ending");
    worker.served = (Gate)GATE_INITIALIZER;
    pthread_create(&thread, NULL, serve_and_end, &worker);
    gate_wait(&worker.served);
    RLMessagePortRef remote = RLMessagePortCreateRemote(worker.name);
    ck_assert_ptr_null(ask_text(remote, 1, "x", "m"));
    ck_assert_int_eq(ask_code, kRLMessagePortTransportError);
    pthread_join(thread, NULL);
    ck_assert_int_eq(RLGetRetainCount(worker.service.port), 1);
    RLRelease(worker.service.port);
    ck_assert(!RLMessagePortIsValid(remote));
    RLRelease(remote);
    ck_assert_int_le(count_descriptors(), before + 2);
}

static void end_here(Probe *self) {
    (void)self;
    pthread_exit(NULL);
}
static void *ask_and_end(void *remote) {
    static Probe timer = {.action = end_here};
    add_timer(&timer, date_in(0.01), 0, "m");
    RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL);
    return NULL;
}

RL_TEST(a_thread_ends_while_it_waits, "S-LOOP-9 S-MSG-32 S-MSG-38",
        "A thread that ends in a callback while it waits for a reply leaves the remote port to "
        "others") {
    static Service service = {.echoes = true};
    pthread_t thread;
    RLMessagePortRef port = add_service(&service, port_name("waiting"), "service");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("waiting"));
    pthread_create(&thread, NULL, ask_and_end, remote);
    pthread_join(thread, NULL);
    ck_assert_int_eq(RLGetRetainCount(remote), 1);
    ck_assert_str_eq(ask_text(remote, 2, "mine", "service"), "mine");
    ck_assert_int_eq(service.calls, 2);
    RLRelease(remote);
    RLRelease(port);
}

/* A destructor of the thread runs the mode in which the thread had waited. */
static pthread_key_t at_end;
static RLRunResult run_at_end;
static void run_the_mode_at_end(void *unused) {
    (void)unused;
    /* Where what belonged to the wait was. */
    void *memory[32];
    for (int i = 0; i < 32; i++) memory[i] = memset(malloc(16 + (size_t)i * 8), 0x41, 16 + (size_t)i * 8);
    ck_assert(RLIsModeEmpty("m"));
    run_at_end = RLRunInMode("m", 1e6, false);
    for (int i = 0; i < 32; i++) free(memory[i]);
}
static void take_reply_and_end(Probe *self) {
    if (self->data) ck_assert_int_eq(RLRunInMode("m", 1e6, true), kRLRunHandledSource);
    pthread_exit(NULL);
}
static bool takes_reply;
static void *ask_and_end_in_time(void *remote) {
    static Probe timer = {.action = take_reply_and_end};
    timer.data = takes_reply ? &timer : NULL;
    pthread_setspecific(at_end, &at_end);
    add_timer(&timer, date_in(-1), 0, "m");
    RLMessagePortSendRequest(remote, 1, "x", 1, 1, 60, "m", NULL);
    return NULL;
}

RL_TEST(the_mode_after_a_wait_that_was_left, "S-LOOP-19 S-LOOP-11 S-RUN-2",
        "What a wait for a reply has put into its mode is gone when a callback has ended the thread, whether or not the reply has come") {
    static Worker worker = {.service = {.echoes = true}};
    RLMessagePortRef remote = worker_start(&worker, port_name("left"));
    ck_assert_int_eq(pthread_key_create(&at_end, run_the_mode_at_end), 0);
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        takes_reply = i % 2;
        run_at_end = kRLRunTimedOut;
        ck_assert_int_eq(pthread_create(&thread, NULL, ask_and_end_in_time, remote), 0);
        pthread_join(thread, NULL);
        ck_assert_int_eq(run_at_end, kRLRunFinished);
    }
    pthread_key_delete(at_end);
    RLRelease(remote);
    worker_stop(&worker);
}

static Gate in_callback = GATE_INITIALIZER, invalidated = GATE_INITIALIZER;
static int releases_during, releases_counted;
static void late_release(const void *info) {
    (void)info;
    __atomic_add_fetch(&releases_counted, 1, __ATOMIC_SEQ_CST);
}
static void wait_in_callback(Service *self, RLMessagePortRef port) {
    (void)self, (void)port;
    gate_open(&in_callback);
    gate_wait(&invalidated);
    releases_during = count_of(&releases_counted);
}

static void serve_releasing(LoopThread *self) {
    Worker *worker = self->data;
    RLMessagePortContext context = {.info = &worker->service, .release = late_release};
    worker->service.port = RLMessagePortCreateLocal(worker->name, serve_message, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(worker->service.port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    gate_open(&worker->served);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(no_callback_sees_a_released_info, "S-THR-8 S-MSG-34 S-THR-5",
        "An invalidation from another thread leaves the context to a callback that runs") {
    static Worker worker = {.service = {.action = wait_in_callback}};
    worker.name = port_name("thr8");
    worker.served = (Gate)GATE_INITIALIZER;
    loop_thread_start(&worker.thread, serve_releasing, &worker);
    gate_wait(&worker.served);
    RLMessagePortRef remote = RLMessagePortCreateRemote(worker.name);
    send_text(remote, 1, "x");
    gate_wait(&in_callback);
    RLMessagePortInvalidate(worker.service.port);
    RLRelease(worker.service.port);
    gate_open(&invalidated);
    thread_join(worker.thread.thread);
    ck_assert_int_eq(releases_during, 0);
    ck_assert_int_eq(count_of(&releases_counted), 1);
    RLRelease(remote);
}
