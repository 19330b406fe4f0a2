/* SPDX-License-Identifier: MIT */
/* Descriptors with a second reader, and objects whose sources several threads use at once. */
#define _GNU_SOURCE
#include "support_descriptor.h"
#include "support_socket.h"
#include "system_calls.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;
static Descriptor d = {.name = "d", .reads = true};
static Socket s = {.name = "s"};
static int ends[2];

/* ---- a reader that comes between the kernel's answer and the look at the descriptor */

static int taken;

static bool take_before_the_look(long number, const long argument[6], long *result) {
    (void)result;
    const struct pollfd *asked = (const struct pollfd *)argument[0];
    if (number != SYS_ppoll || taken || asked == NULL || asked->fd != ends[0]) return false;
    char byte;
    taken = read(ends[0], &byte, 1) == 1;
    return false;
}

RL_TEST(another_reader_is_faster, "S-FD-7 S-FD-19 S-SOCK-53",
        "A descriptor whose byte another reader took is told of the next one, though the first poll of that run is one for sockets") {
    int sockets[2];
    make_sockets(SOCK_STREAM, sockets);
    socket_make(&s, sockets[0], kRLSocketReadCallBack);
    socket_add(&s);
    make_pipe(ends);
    descriptor_make(&d, ends[0], false);
    RLFileDescriptorEnablePersistentCallBacks(d.file, read_type);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(d.file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    write_byte(ends[1]);
    hook_system_calls(take_before_the_look);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    hook_system_calls(NULL);
    ck_assert_int_eq(taken, 1);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    expect_trace("d:r");
    RLRelease(source);
    RLRelease(d.file);
    RLRelease(s.socket);
}

/* ---- a source and its successor */

/* The first change of a registration by the thread that asks for it is held up after the kernel has made it. */
static __thread bool is_held;
static int is_ready, is_at_hold, may_go_on, is_enabled, may_end, descriptor_of_interest;

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    int result = (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
    if (!is_held || fd != descriptor_of_interest) return result;
    is_held = false;
    __atomic_store_n(&is_at_hold, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&may_go_on, 1);
    return result;
}

static RLSourceRef former;
static bool is_socket;

static void enable(void) {
    if (is_socket) RLSocketEnableCallBacks(s.socket, kRLSocketReadCallBack);
    else RLFileDescriptorEnableCallBacks(d.file, read_type);
}
static void disable(void) {
    if (is_socket) RLSocketDisableCallBacks(s.socket, kRLSocketReadCallBack);
    else RLFileDescriptorDisableCallBacks(d.file, read_type);
}
static RLSourceRef copy_source(void) {
    return is_socket ? RLSocketCreateRunLoopSource(s.socket, 0) : RLFileDescriptorCreateRunLoopSource(d.file, 0);
}

static void enable_and_hold(void *unused) {
    (void)unused;
    is_held = true;
    enable();
    __atomic_store_n(&is_enabled, 1, __ATOMIC_SEQ_CST);
}
static void invalidate(void *unused) {
    (void)unused;
    RLSourceInvalidate(former);
}
static void enable_again(void *unused) {
    (void)unused;
    enable();
}

static void run_with_source(LoopThread *self) {
    (void)self;
    static Probe other = {.name = "other"};
    add_source(&other, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), former, kRLDefaultMode);
    /* An event that is of no interest leaves the kernel with less to report, so that Enable has to tell it. */
    disable();
    write_byte(ends[1]);
    RLRunInMode(kRLDefaultMode, 0.05, false);
    read_byte(ends[0]);
    /* It looks at nothing meanwhile. */
    __atomic_store_n(&is_ready, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&may_end, 1);
    RLSourceInvalidate(other.source);
}

static void check_two_sources(void) {
    static Probe other = {.name = "other"};
    add_source(&other, kRLDefaultMode);
    former = copy_source();
    LoopThread first;
    loop_thread_start(&first, run_with_source, NULL);
    wait_until_count(&is_ready, 1);
    Thread *enabler = thread_start(enable_and_hold, NULL);
    wait_until_count(&is_at_hold, 1);
    /* It waits for the lock of the first loop, which the enabler has. */
    Thread *invalidator = thread_start(invalidate, NULL);
    while (RLSourceIsValid(former)) sched_yield();
    RLSourceRef successor = copy_source();
    ck_assert_ptr_ne(successor, former);
    RLAddSource(RLGetCurrent(), successor, kRLDefaultMode);
    disable();
    write_byte(ends[1]);
    /* Here too the event leaves it with less. */
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    __atomic_store_n(&may_go_on, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&is_enabled, 1);
    Thread *again = when_waiting(RLGetCurrent(), enable_again, NULL);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    thread_join(again);
    thread_join(enabler);
    thread_join(invalidator);
    __atomic_store_n(&may_end, 1, __ATOMIC_SEQ_CST);
    thread_join(first.thread);
    RLRelease(successor);
    RLRelease(former);
    RLSourceInvalidate(other.source);
}

RL_TEST(a_descriptor_between_two_sources, "S-FD-6 S-FD-7",
        "What is enabled by a thread while the object's source is being invalidated, and its successor is in another loop already, is reported") {
    make_pipe(ends);
    descriptor_of_interest = ends[0];
    descriptor_make(&d, ends[0], false);
    enable();
    check_two_sources();
    expect_trace("d:r");
    RLRelease(d.file);
}

RL_TEST(a_socket_between_two_sources, "S-SOCK-34 S-SOCK-36",
        "What is enabled by a thread while the socket's source is being invalidated, and its successor is in another loop already, is reported") {
    is_socket = true;
    make_sockets(SOCK_STREAM, ends);
    descriptor_of_interest = ends[0];
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    check_two_sources();
    expect_trace("s:read");
    RLRelease(s.socket);
}
