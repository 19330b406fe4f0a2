/* SPDX-License-Identifier: MIT */
/*
 * pthread_cancel: no call of the library is a cancellation point. Each case makes its calls on a thread whose cancellation was
 * asked for before, so that the first cancellation point on the way would end it.
 */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <pthread.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* What a case has, made before its thread is cancelled. */
static int ends[2];
static int passed;

/* Whether the thread can be cancelled; what the test itself calls, its checks for instance, may well be cancellation points. */
static void set_cancellable(bool cancellable) {
    pthread_setcancelstate(cancellable ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, NULL);
}
#define CANCELLABLE(...)        \
    do {                        \
        set_cancellable(true);  \
        __VA_ARGS__;            \
        set_cancellable(false); \
    } while (0)

/* Runs the calls on a thread of their own with a cancellation pending. */
static void *call(void *calls) {
    set_cancellable(false);
    pthread_cancel(pthread_self());
    ((void (*)(void))calls)();
    passed = 1;
    CANCELLABLE(pthread_testcancel());
    return NULL;
}
static void expect(RLRunResult expected, RLTimeInterval seconds) {
    RLRunResult result;
    CANCELLABLE(result = RLRunInMode(kRLDefaultMode, seconds, true));
    ck_assert_str_eq(result_name(result), result_name(expected));
}
static void on_cancelled_thread(void (*calls)(void)) {
    pthread_t thread;
    void *result = NULL;
    passed = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, call, (void *)calls), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_int_eq(passed, 1);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
}

static long result;
static Probe port = {.name = "p"}, timer = {.name = "t"};

static void sleep_with_a_port(void) {
    add_port(&port, ends[0], kRLDefaultMode);
    expect(kRLRunTimedOut, 0.001);
    expect(kRLRunTimedOut, 0);
    add_timer(&timer, date_in(0.001), 0, kRLDefaultMode);
    expect(kRLRunTimedOut, 0.02);
}
static void sleep_until_woken(void) {
    add_port(&port, ends[0], kRLDefaultMode);
    Thread *stopper = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    expect(kRLRunStopped, INFINITY);
    thread_join(stopper);
}
static void sleep_without_a_port(void) {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect(kRLRunTimedOut, 0.001);
}
static void take_a_count(void) {
    add_port(&port, ends[0], kRLDefaultMode);
    expect(kRLRunHandledSource, 60);
}

RL_TEST(waits_are_no_cancellation_points, "S-LOOP-20",
        "A cancelled thread runs its loop on: over a futex, over epoll, with and without an end, and through the count of a port") {
    on_cancelled_thread(sleep_without_a_port);
    make_pipe(ends);
    on_cancelled_thread(sleep_with_a_port);
    on_cancelled_thread(sleep_until_woken);
    trace_take();
    ends[0] = make_eventfd();
    eventfd_signal(ends[0]);
    on_cancelled_thread(take_a_count);
    ends[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec soon = {{0, 0}, {0, 1}};
    ck_assert_int_eq(timerfd_settime(ends[0], 0, &soon, NULL), 0);
    on_cancelled_thread(take_a_count);
    expect_trace("p p");
}

static void note_file(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file, (void)types, (void)info;
    trace("f");
}
static void note_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)address, (void)data, (void)info;
    trace("s%d", (int)type);
}
static void add_and_release(RLSourceRef source) {
    CANCELLABLE(RLAddSource(RLGetCurrent(), source, kRLDefaultMode));
    CANCELLABLE(RLRelease(source));
}
static void use_descriptor(void) {
    RLFileDescriptorRef file;
    CANCELLABLE(file = RLFileDescriptorCreate(ends[0], true, note_file, NULL));
    CANCELLABLE(RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack));
    add_and_release(RLFileDescriptorCreateRunLoopSource(file, 0));
    expect(kRLRunHandledSource, 60);
    CANCELLABLE(RLFileDescriptorInvalidate(file));
    CANCELLABLE(RLRelease(file));
}
static void end_socket(RLSocketRef socket) {
    CANCELLABLE(RLSocketInvalidate(socket));
    CANCELLABLE(RLRelease(socket));
}
static void use_stream(void) {
    RLSocketRef stream;
    CANCELLABLE(stream = RLSocketCreateWithNative(ends[0], kRLSocketDataCallBack, note_socket, NULL));
    add_and_release(RLSocketCreateRunLoopSource(stream, 0));
    CANCELLABLE(result = RLSocketSendData(stream, NULL, 0, "hello", 5, 1));
    ck_assert_int_eq(result, kRLSocketSuccess);
    expect(kRLRunHandledSource, 60);
    end_socket(stream);
}
static void use_listener(void) {
    RLSocketRef listener, client;
    CANCELLABLE(listener = RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketAcceptCallBack, note_socket, NULL));
    struct sockaddr_in address = loopback(0);
    CANCELLABLE(result = RLSocketSetAddress(listener, &address, sizeof address));
    ck_assert_int_eq(result, kRLSocketSuccess);
    add_and_release(RLSocketCreateRunLoopSource(listener, 0));
    address = loopback(port_of(RLSocketGetNative(listener)));
    CANCELLABLE(client = RLSocketCreate(PF_INET, SOCK_STREAM, 0, 0, note_socket, NULL));
    CANCELLABLE(result = RLSocketConnectToAddress(client, &address, sizeof address, 10));
    ck_assert_int_eq(result, kRLSocketSuccess);
    expect(kRLRunHandledSource, 60);
    end_socket(listener);
    end_socket(client);
}

static void use_server(void) {
    static char much[1 << 20];
    char byte;
    RLIndex count;
    RLSocketRef stream, listener;
    CANCELLABLE(stream = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack, note_socket, NULL));
    add_and_release(RLSocketCreateRunLoopSource(stream, 0));
    CANCELLABLE(result = RLSocketSetOptions(stream, kRLSocketKeepAlive, true));
    CANCELLABLE(count = RLSocketReceive(stream, &byte, 1, &(RLSocketAncillary){0}));
    ck_assert_int_eq(count, 1);
    CANCELLABLE(count = RLSocketSendDescriptors(stream, "x", 1, ends, 1));
    ck_assert_int_eq(count, 1);
    CANCELLABLE(count = RLSocketSend(stream, NULL, 0, "x", 1));
    ck_assert_int_eq(count, 1);
    CANCELLABLE(count = RLSocketWrite(stream, much, sizeof much, 1 << 20));
    ck_assert_int_gt(count, 0);
    CANCELLABLE(result = RLSocketClose(stream, kRLSocketCloseOrderly));
    close(ends[1]);
    expect(kRLRunFinished, 60);
    CANCELLABLE(RLRelease(stream));
    struct sockaddr_in address = loopback(0);
    CANCELLABLE(listener = RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketAcceptCallBack, note_socket, NULL));
    CANCELLABLE(result = RLSocketListen(listener, &address, sizeof address, kRLSocketReuseAddress, 1));
    ck_assert_int_eq(result, kRLSocketSuccess);
    CANCELLABLE(result = RLSocketClose(listener, kRLSocketCloseAbort));
    CANCELLABLE(RLRelease(listener));
}

RL_TEST(descriptors_and_sockets, "S-LOOP-20",
        "A cancelled thread reports, closes, connects, accepts, sends and receives") {
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    on_cancelled_thread(use_descriptor);
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    on_cancelled_thread(use_stream);
    on_cancelled_thread(use_listener);
    make_sockets(SOCK_STREAM, ends);
    write_byte(ends[1]);
    on_cancelled_thread(use_server);
    expect_trace("f s3 s2");
}

static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    trace("k");
}
static void use_event(RLKernelFilter filter, uintptr_t ident, uint32_t flags, uint32_t fflags, int64_t data) {
    RLKernelEvent event = {ident, filter, flags, fflags, data, NULL};
    RLKernelEventContext context = {.info = NULL};
    RLSourceRef source;
    CANCELLABLE(source = RLKernelEventSourceCreate(&event, note, &context));
    ck_assert_ptr_nonnull(source);
    CANCELLABLE(RLAddSource(RLGetCurrent(), source, kRLDefaultMode));
    if (filter == kRLKernelFilterSignal) raise((int)ident);
    if (filter == kRLKernelFilterVnode) ck_assert_int_eq(fchmod((int)ident, 0600), 0);
    expect(kRLRunHandledSource, 60);
    CANCELLABLE(RLSourceInvalidate(source));
    CANCELLABLE(RLRelease(source));
}
static void use_events(void) {
    use_event(kRLKernelFilterTimer, 1, 0, kRLNoteNanoseconds, 1);
    use_event(kRLKernelFilterSignal, SIGUSR1, 0, 0, 0);
    use_event(kRLKernelFilterVnode, (uintptr_t)ends[0], 0, kRLNoteAttrib, 0);
}

RL_TEST(kernel_events, "S-LOOP-20", "A cancelled thread makes kernel events, reports them and ends them") {
    char name[] = "/tmp/rl-cancellation-XXXXXX";
    signal(SIGUSR1, SIG_IGN);
    ends[0] = mkstemp(name);
    ck_assert_int_ge(ends[0], 0);
    unlink(name);
    on_cancelled_thread(use_events);
    expect_trace("k k k");
}

static void receive(RLMachPortRef mach, const RLMachMessage *message, void *info) {
    (void)mach, (void)info;
    trace("m%d", message->msgid);
}
static void use_mach_port(void) {
    RLMachPortContext context = {0, NULL, NULL, NULL, NULL};
    RLMachPortRef mach;
    CANCELLABLE(mach = RLMachPortCreate(receive, &context, NULL));
    RLSourceRef source;
    CANCELLABLE(source = RLMachPortCreateRunLoopSource(mach, 0));
    CANCELLABLE(RLAddSource(RLGetCurrent(), source, kRLDefaultMode));
    CANCELLABLE(result = RLMachPortGetPort(mach));
    ck_assert_int_ge(result, 0);
    CANCELLABLE(RLMachPortSetQueueLimit(mach, 1));
    CANCELLABLE(result = RLMachPortSend(mach, 1, "a", 1, NULL, 0));
    ck_assert_int_eq(result, 0);
    CANCELLABLE(result = RLMachPortSend(mach, 2, "a", 1, NULL, 0.001));
    ck_assert_int_ne(result, 0);
    expect(kRLRunHandledSource, 60);
    CANCELLABLE(RLMachPortInvalidate(mach));
    CANCELLABLE(RLRelease(source));
    CANCELLABLE(RLRelease(mach));
}
static void count_up(void *counter) { ++*(int *)counter; }
static void use_thread(void) {
    int counter = 0;
    RLThreadRef thread;
    CANCELLABLE(thread = RLThreadCreate(NULL, NULL, NULL));
    CANCELLABLE(result = RLThreadStart(thread));
    ck_assert(result);
    CANCELLABLE(result = RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLCommonModes, count_up, &counter, NULL, true));
    ck_assert(result);
    ck_assert_int_eq(counter, 1);
    CANCELLABLE(result = RLThreadEnd(thread));
    ck_assert(result);
    CANCELLABLE(result = RLThreadJoin(thread));
    ck_assert(result);
    CANCELLABLE(RLRelease(thread));
}
static void use_foreign_run(void) {
    add_port(&port, ends[0], kRLDefaultMode);
    RLForeignRunRef run;
    CANCELLABLE(run = RLForeignRunCreate(kRLDefaultMode));
    CANCELLABLE(RLForeignRunPrepare(run));
    CANCELLABLE(RLForeignRunDispatch(run));
    CANCELLABLE(RLForeignRunInvalidate(run));
    CANCELLABLE(RLRelease(run));
}
/* Each gives a line on standard error. */
static void use_log(void) {
    CANCELLABLE((void)RLRunInMode(kRLCommonModes, 1, true));
}

RL_TEST(ports_threads_and_lines, "S-LOOP-20",
        "A cancelled thread sends to a Mach-like port that is full, starts, asks, ends and joins a thread, prepares and dispatches a "
        "foreign run, and writes a line") {
    on_cancelled_thread(use_mach_port);
    expect_trace("m1");
    on_cancelled_thread(use_thread);
    make_pipe(ends);
    write_byte(ends[1]);
    on_cancelled_thread(use_foreign_run);
    trace_take();
    on_cancelled_thread(use_log);
}

/* In a callback the program's own cancellation points act. */

static int cancelled_in;
static void cancel_here(Probe *self) {
    (void)self;
    cancelled_in++;
    thread_cancel_now();
}
static Probe ending = {.name = "e", .action = cancel_here};
static void *run_to_the_callback(void *kind) {
    switch (*(int *)kind) {
    case 0:
        probe_source(&ending, 0);
        RLAddSource(RLGetCurrent(), ending.source, kRLDefaultMode);
        RLSourceSignal(ending.source);
        break;
    case 1:
        probe_timer(&ending, date_in(-1), 10);
        RLAddTimer(RLGetCurrent(), ending.timer, kRLDefaultMode);
        break;
    case 2:
        probe_observer(&ending, kRLBeforeTimers, true, 0);
        RLAddObserver(RLGetCurrent(), ending.observer, kRLDefaultMode);
        break;
    default: probe_perform(&ending, RLGetCurrent(), kRLDefaultMode);
    }
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, INFINITY, false);
    return NULL;
}

RL_TEST(cancelled_in_a_callback, "S-LOOP-20 S-LOOP-19",
        "A thread that is cancelled in a callback ends as by pthread_exit: its items are free for another loop") {
    for (int kind = 0; kind < 4; kind++) {
        pthread_t thread;
        void *result;
        ck_assert_int_eq(pthread_create(&thread, NULL, run_to_the_callback, &kind), 0);
        ck_assert_int_eq(pthread_join(thread, &result), 0);
        ck_assert_ptr_eq(result, PTHREAD_CANCELED);
        ck_assert_int_eq(cancelled_in, kind + 1);
    }
    expect_trace("e e e e");
    ending.action = NULL;
    RLAddSource(RLGetCurrent(), ending.source, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), ending.timer, kRLDefaultMode);
    RLAddObserver(RLGetCurrent(), ending.observer, kRLDefaultMode);
    ck_assert(RLContainsSource(RLGetCurrent(), ending.source, kRLDefaultMode));
    ck_assert(RLContainsTimer(RLGetCurrent(), ending.timer, kRLDefaultMode));
    ck_assert(RLContainsObserver(RLGetCurrent(), ending.observer, kRLDefaultMode));
    RLRelease(ending.source);
    RLRelease(ending.timer);
    RLRelease(ending.observer);
}

static void body(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    thread_cancel_now();
}
static void release_body(void *info) {
    (void)info;
    trace("released");
}

RL_TEST(a_library_thread_is_cancelled, "S-LOOP-20 S-THREAD-3",
        "A thread of RLThreadStart that is cancelled in its body counts as finished, and its info is released once") {
    RLThreadRef thread = RLThreadCreate(body, NULL, release_body);
    ck_assert(RLThreadStart(thread));
    ck_assert(RLThreadJoin(thread));
    ck_assert(RLThreadIsFinished(thread));
    expect_trace("released");
    RLRelease(thread);
}
