/* SPDX-License-Identifier: MIT */
/*
 * Threads that end inside the callback of a descriptor, a socket, a Mach port or a kernel event: what
 * the library held for the call is given back, so that the object can be used and ended elsewhere.
 * What stays behind otherwise is found by the leak sanitizer too.
 */
#include "support_descriptor.h"
#include "support_socket.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void run_to_the_end(void *(*body)(void *), void *argument) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, body, argument), 0);
    pthread_join(thread, NULL);
}

/* Descriptors */

static Descriptor file = {.name = "f"};
static int pair[2];

static void end_in_descriptor(Descriptor *self) {
    if (self->data) RLFileDescriptorInvalidate(self->file);
    pthread_exit(NULL);
}
static void *use_descriptor(void *unused) {
    (void)unused;
    add_descriptor(&file, pair[0], kRLFileDescriptorReadCallBack);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}
static void *use_descriptor_nested(void *unused) {
    (void)unused;
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}
static void start_descriptor(void *data) {
    file = (Descriptor){.name = "f", .action = end_in_descriptor, .data = data};
    make_pair(pair);
    write_byte(pair[1]);
    run_to_the_end(use_descriptor, NULL);
    expect_trace("f:r");
}

RL_TEST(ends_in_a_descriptor, "S-LOOP-19 S-FD-11",
        "A descriptor whose callback ended its thread is valid, reports in another loop, and releases "
        "its context inside Invalidate") {
    start_descriptor(NULL);
    ck_assert(RLFileDescriptorIsValid(file.file));
    ck_assert_int_eq(RLGetRetainCount(file.file), 1);
    file.action = NULL;
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file.file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLFileDescriptorEnableCallBacks(file.file, kRLFileDescriptorReadCallBack);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("f:r");
    RLRelease(source);
    ck_assert_int_eq(file.releases, 0);
    RLFileDescriptorInvalidate(file.file);
    ck_assert_int_eq(file.releases, 1);
    RLRelease(file.file);
    ck_assert_int_eq(file.releases, 1);
}

RL_TEST(ends_in_an_invalid_descriptor, "S-LOOP-19 S-FD-11",
        "A descriptor that was invalidated in the callback that ended its thread released its context "
        "once") {
    start_descriptor(&file);
    ck_assert(!RLFileDescriptorIsValid(file.file));
    ck_assert_int_eq(file.releases, 1);
    RLRelease(file.file);
    ck_assert_int_eq(file.releases, 1);
}

static Gate inside = GATE_INITIALIZER, invalidated = GATE_INITIALIZER;
static void wait_and_end(Descriptor *self) {
    (void)self;
    gate_open(&inside);
    gate_wait(&invalidated);
    ck_assert_int_eq(count_of(&file.releases), 0);
    pthread_exit(NULL);
}

RL_TEST(an_invalidation_elsewhere_waits_for_the_end, "S-LOOP-19 S-THR-8",
        "If another thread invalidates a descriptor during the callback that ends its thread, the "
        "context is released when that thread is gone") {
    pthread_t thread;
    file.action = wait_and_end;
    make_pair(pair);
    write_byte(pair[1]);
    ck_assert_int_eq(pthread_create(&thread, NULL, use_descriptor, NULL), 0);
    gate_wait(&inside);
    RLFileDescriptorInvalidate(file.file);
    gate_open(&invalidated);
    pthread_join(thread, NULL);
    ck_assert_int_eq(file.releases, 1);
    ck_assert_int_eq(RLGetRetainCount(file.file), 1);
    RLRelease(file.file);
}

static Descriptor outer = {.name = "o"};
static void run_inside(Descriptor *self) {
    (void)self;
    use_descriptor(NULL);
}
static void *use_two_descriptors(void *other) {
    add_descriptor(&outer, *(int *)other, kRLFileDescriptorReadCallBack);
    return use_descriptor_nested(NULL);
}

RL_TEST(ends_in_a_nested_run, "S-LOOP-19 S-NEST-1",
        "A callback that ends its thread in a nested run ends the callbacks outside of it as well") {
    int other[2];
    make_pair(other);
    make_pair(pair);
    write_byte(other[1]);
    write_byte(pair[1]);
    outer.action = run_inside;
    file.action = end_in_descriptor;
    run_to_the_end(use_two_descriptors, &other[0]);
    expect_trace("o:r f:r");
    RLFileDescriptorInvalidate(file.file);
    RLFileDescriptorInvalidate(outer.file);
    ck_assert_int_eq(file.releases, 1);
    ck_assert_int_eq(outer.releases, 1);
    RLRelease(file.file);
    RLRelease(outer.file);
}

/* Sockets */

static Socket stream = {.name = "s"};
static RLOptionFlags types;

static void end_in_socket(Socket *self, RLSocketCallBackType type) {
    (void)self, (void)type;
    pthread_exit(NULL);
}
static void *use_socket(void *fd) {
    socket_make(&stream, *(int *)fd, types);
    socket_add(&stream);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}
static void start_socket(int fd, RLOptionFlags wanted, bool brackets) {
    stream = (Socket){.name = "s", .brackets = brackets, .action = end_in_socket};
    types = wanted;
    run_to_the_end(use_socket, &fd);
    stream.action = NULL;
}
static void end_socket(void) {
    RLSocketInvalidate(stream.socket);
    ck_assert_int_eq(stream.releases, stream.retains);
    ck_assert_int_eq(RLGetRetainCount(stream.socket), 1);
    RLRelease(stream.socket);
}

RL_TEST(ends_in_a_socket, "S-LOOP-19 S-SOCK-14 S-SOCK-34",
        "A socket whose Read callback ended its thread has its bracket closed, reports in another "
        "loop, and releases its context when it is invalidated") {
    make_pair(pair);
    write_byte(pair[1]);
    start_socket(pair[0], kRLSocketReadCallBack, true);
    expect_trace("+s +s s:read -s");
    ck_assert(RLSocketIsValid(stream.socket));
    socket_add(&stream);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("+s s:read -s");
    end_socket();
}

static void plain(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data,
                  void *info) {
    (void)s, (void)type, (void)address, (void)data, (void)info;
    pthread_exit(NULL);
}
static void count_plain_release(const void *info) { ++*(int *)(uintptr_t)info; }
static void *use_socket_without_retain(void *releases) {
    RLSocketContext context = {0, releases, NULL, count_plain_release, NULL};
    stream.socket = RLSocketCreateWithNative(pair[0], kRLSocketReadCallBack, plain, &context);
    socket_add(&stream);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}

RL_TEST(ends_in_a_socket_without_retain, "S-LOOP-19 S-THR-8",
        "A socket whose context has no retain releases it inside the Invalidate that comes after the "
        "callback ended its thread") {
    static int releases;
    make_pair(pair);
    write_byte(pair[1]);
    run_to_the_end(use_socket_without_retain, &releases);
    ck_assert_int_eq(releases, 0);
    RLSocketInvalidate(stream.socket);
    ck_assert_int_eq(releases, 1);
    RLRelease(stream.socket);
}

RL_TEST(ends_in_a_data_callback, "S-LOOP-19 S-SOCK-25",
        "A Data callback that ends its thread leaves neither the data nor the address behind, and the "
        "next data are reported") {
    make_pair(pair);
    write_byte(pair[1]);
    start_socket(pair[0], kRLSocketDataCallBack, false);
    expect_trace("s:data=1");
    ck_assert(RLSocketIsValid(stream.socket));
    socket_add(&stream);
    write_byte(pair[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("s:data=1");
    end_socket();
}

RL_TEST(ends_at_the_end_of_a_stream, "S-LOOP-19 S-SOCK-26",
        "A socket that was told the end of its stream by a callback that ended its thread is invalid") {
    make_pair(pair);
    close(pair[1]);
    start_socket(pair[0], kRLSocketDataCallBack, true);
    expect_trace("+s +s s:data=0 -s -s");
    ck_assert(!RLSocketIsValid(stream.socket));
    end_socket();
}

RL_TEST(ends_in_an_accept_callback, "S-LOOP-19 S-SOCK-28",
        "An Accept callback that ends its thread leaves the listener to the next loop") {
    int listener = make_listener();
    int clients[2] = {connect_to(port_of(listener)), -1};
    start_socket(listener, kRLSocketAcceptCallBack, true);
    close(stream.accepted);
    expect_trace("+s +s s:accept -s");
    socket_add(&stream);
    clients[1] = connect_to(port_of(listener));
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("+s s:accept -s");
    close(stream.accepted);
    end_socket();
    for (int i = 0; i < 2; i++) close(clients[i]);
}

/* Mach ports */

static int port_retains, port_releases, port_calls;
static const void *retain_port(const void *info) {
    port_retains++;
    return info;
}
static void release_port(const void *info) {
    (void)info;
    port_releases++;
}
static void receive_and_end(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)message, (void)info;
    if (port_calls++ == 0) pthread_exit(NULL);
}

static void add_mach_source(RLMachPortRef port) {
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
}
static void *use_mach_port(void *port) {
    add_mach_source(port);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}

static void check_mach_port(bool retains, size_t length) {
    static char bytes[4096];
    RLMachPortContext context = {0, &port_calls, retains ? retain_port : NULL, release_port, NULL};
    port_calls = port_retains = port_releases = 0;
    RLMachPortRef port = RLMachPortCreate(receive_and_end, &context, NULL);
    RLMachPortRef reply = RLMachPortCreate(receive_and_end, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(RLMachPortSend(port, i, bytes, length, reply, 0), kRLMessagePortSuccess);
    }
    run_to_the_end(use_mach_port, port);
    ck_assert_int_eq(port_calls, 1);
    ck_assert_int_eq(RLGetRetainCount(port), 1);
    ck_assert_int_eq(RLGetRetainCount(reply), 2);
    add_mach_source(port);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    ck_assert_int_eq(port_calls, 2);
    ck_assert_int_eq(RLGetRetainCount(reply), 1);
    ck_assert_int_eq(port_releases, retains ? port_retains - 1 : 0);
    RLMachPortInvalidate(port);
    ck_assert_int_eq(port_releases, retains ? port_retains : 1);
    RLRelease(port);
    RLRelease(reply);
}

RL_TEST(ends_in_a_mach_port, "S-LOOP-19 S-PORT-7 S-PORT-8",
        "A Mach port whose callback ended its thread has its bracket closed, its message and reply "
        "port given back, and serves the next message in another loop") {
    check_mach_port(true, 8);
    check_mach_port(true, 4096);
    check_mach_port(false, 8);
    check_mach_port(false, 4096);
}

/* Kernel events */

static RLSourceRef event_source;
static int event_releases;
static void end_in_event(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    pthread_exit(NULL);
}
static void release_event(const void *info) {
    (void)info;
    event_releases++;
}
static void *use_event(void *event) {
    RLKernelEventContext context = {.info = event, .release = release_event};
    event_source = RLKernelEventSourceCreate(event, end_in_event, &context);
    RLAddSource(RLGetCurrent(), event_source, kRLDefaultMode);
    RLKernelEventSourceTrigger(event_source, kRLNoteTrigger, 0);
    RLRunInMode(kRLDefaultMode, 1e6, false);
    return NULL;
}

RL_TEST(ends_in_a_kernel_event, "S-LOOP-19 S-KEV-8 S-KEV-10",
        "A one-shot kernel event whose callback ended its thread is invalid after it, one that is not "
        "is valid, and both release their context when they die") {
    RLKernelEvent events[4] = {
        {1, kRLKernelFilterTimer, kRLKernelEventOneShot, kRLNoteNanoseconds, 1, NULL},
        {2, kRLKernelFilterUser, kRLKernelEventOneShot, 0, 0, NULL},
        {3, kRLKernelFilterTimer, 0, kRLNoteNanoseconds, 1, NULL},
        {4, kRLKernelFilterUser, 0, 0, 0, NULL},
    };
    for (int i = 0; i < 4; i++) {
        event_releases = 0;
        run_to_the_end(use_event, &events[i]);
        ck_assert_int_eq(RLSourceIsValid(event_source), i >= 2);
        ck_assert_int_eq(RLGetRetainCount(event_source), 1);
        ck_assert_int_eq(event_releases, 0);
        RLRelease(event_source);
        ck_assert_int_eq(event_releases, 1);
    }
}

/* Threads with a loop */

static int thread_releases;
static void end_in_body(RLThreadRef thread, void *info) {
    (void)thread, (void)info;
    pthread_exit(NULL);
}
static void release_thread_info(void *info) {
    (void)info;
    thread_releases++;
}
static void end_in_request(void *info) {
    (void)info;
    pthread_exit(NULL);
}

RL_TEST(ends_in_a_thread_object, "S-LOOP-19 S-THREAD-3 S-THREAD-6",
        "A thread whose body, or whose function, ends it is finished, has released its info once, and "
        "leaves its object to whoever has it") {
    for (int has_body = 0; has_body < 2; has_body++) {
        thread_releases = 0;
        RLThreadRef thread = RLThreadCreate(has_body ? end_in_body : NULL, NULL, release_thread_info);
        ck_assert(RLThreadStart(thread));
        if (!has_body) RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, end_in_request, NULL, NULL, false);
        ck_assert(RLThreadJoin(thread));
        ck_assert(RLThreadIsFinished(thread));
        ck_assert(!RLThreadIsExecuting(thread));
        ck_assert_int_eq(thread_releases, 1);
        ck_assert_int_eq(RLGetRetainCount(thread), 1);
        RLRelease(thread);
        ck_assert_int_eq(thread_releases, 1);
    }
}

static pthread_key_t at_end;
static RLRunResult run_at_end;
static void run_at_the_end(void *unused) {
    (void)unused;
    run_at_end = RLRunInMode(kRLDefaultMode, 1e6, false);
}
static void end_with_a_value(void *unused) {
    (void)unused;
    pthread_setspecific(at_end, &at_end);
    pthread_exit(NULL);
}

RL_TEST(the_default_mode_of_an_ended_thread_object, "S-LOOP-19 S-RUN-2 S-THREAD-2",
        "The default mode of a thread without a function is empty when a callback has ended it: a run in a destructor returns at once") {
    ck_assert_int_eq(pthread_key_create(&at_end, run_at_the_end), 0);
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    ck_assert(RLThreadStart(thread));
    RLPerformFunction(RLThreadGetRunLoop(thread), kRLDefaultMode, end_with_a_value, NULL, NULL);
    RLWakeUp(RLThreadGetRunLoop(thread));
    ck_assert(RLThreadJoin(thread));
    ck_assert_int_eq(run_at_end, kRLRunFinished);
    pthread_key_delete(at_end);
    RLRelease(thread);
}
