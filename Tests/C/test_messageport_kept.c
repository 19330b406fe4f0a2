/* SPDX-License-Identifier: MIT */
/*
 * The registration of a remote port's connection in the reply mode, which stays when a request has returned: it saves system calls, and
 * nothing else shows it.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_descriptor.h"
#include "support_socket.h"
#include "system_calls.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* True on the thread that looks on. */
static _Thread_local bool looks_on;
static int changes, waits, connection;

/* What this thread asks the kernel. */
static bool look_on(long number, const long argument[6], long *result) {
    (void)result;
    if (!looks_on) return false;
    if (number == SYS_epoll_pwait || number == SYS_epoll_pwait2) waits++;
    if (number == SYS_sendmsg) connection = (int)argument[0];
    return false;
}
int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    if (looks_on) changes++;
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}
static void begin_looking_on(void) {
    looks_on = true;
    changes = waits = 0;
    hook_system_calls(look_on);
}

RL_TEST(requests_in_a_row, "S-MSG-25 S-MSG-31",
        "After its first request a thread that asks in the same mode changes the kernel's set no more, and the mode is empty after each; another "
        "remote port's requests between get their replies too") {
    static Worker worker = {.service = {.echoes = true}}, other_worker = {.service = {.reply = "other"}};
    RLMessagePortRef remote = worker_start(&worker, port_name("row"));
    RLMessagePortRef other = worker_start(&other_worker, port_name("other row"));
    ck_assert_str_eq(ask_text(remote, 1, "first", "m"), "first");
    begin_looking_on();
    for (int i = 0; i < 10; i++) {
        ck_assert_str_eq(ask_text(remote, 1, "again", "m"), "again");
        expect_run("m", 1, false, Finished);
    }
    ck_assert_int_eq(changes, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(ask_text(other, 1, "x", "m"), "other");
        ck_assert_str_eq(ask_text(remote, 1, "again", "m"), "again");
        ck_assert_str_eq(ask_text(remote, 1, "elsewhere", "n"), "elsewhere");
    }
    hook_system_calls(NULL);
    RLRelease(remote);
    RLRelease(other);
    worker_stop(&worker);
    worker_stop(&other_worker);
}

/* A reply to a request that has given up is there: nothing waits for it. */
static Service service = {.echoes = true};
static RLMessagePortRef port, remote;
static void leave_a_late_reply(RLMode mode) {
    port = add_service(&service, port_name("late"), "service");
    remote = RLMessagePortCreateRemote(port_name("late"));
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "late", 4, 1, 0, mode, NULL), kRLMessagePortReceiveTimeout);
    expect_run("service", 60, true, HandledSource);
}

RL_TEST(a_late_reply_ends_no_wait, "S-MSG-28 S-MSG-31 S-PASS-16",
        "A reply that comes when its request has returned ends no run of the mode, and no run turns in vain; the next request gets its own") {
    static Probe idle = {.name = "p"};
    int ends[2];
    make_pipe(ends);
    add_port(&idle, ends[0], "m");
    leave_a_late_reply("m");
    begin_looking_on();
    expect_run("m", 0.02, true, TimedOut);
    hook_system_calls(NULL);
    ck_assert_int_le(waits, 10);
    RLAddSource(RLGetCurrent(), service.source, "m");
    ck_assert_str_eq(ask_text(remote, 2, "second", "m"), "second");
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(a_late_reply_wakes_no_host, "S-MSG-31 S-FRN-3",
        "The descriptor of a foreign run is not readable for a reply for which no request waits any more") {
    static Probe idle = {.name = "p"};
    int ends[2];
    make_pipe(ends);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    /* The host has watched the mode's set before. */
    RLSourceRef source = add_port(&idle, ends[0], kRLDefaultMode);
    ck_assert(isinf(RLForeignRunPrepare(run)));
    RLSourceInvalidate(source);
    leave_a_late_reply(kRLDefaultMode);
    while (isfinite(RLForeignRunPrepare(run))) ck_assert_int_eq(RLForeignRunDispatch(run), kRLRunGoesOn);
    struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
    ck_assert_int_eq(poll(&entry, 1, 0), 0);
    RLForeignRunInvalidate(run);
    RLRelease(run);
    RLRelease(remote);
    RLRelease(port);
}

static void read_one(Probe *self) { read_byte(self->fd); }

RL_TEST(the_number_of_an_ended_connection, "S-MSG-34 S-SRC-50",
        "After the end of a remote port its number may be a port of the mode, or another connection, though other code has the file of the first "
        "one still") {
    static Worker worker = {.service = {.echoes = true}};
    static Probe reused = {.name = "p", .action = read_one};
    RLMessagePortRef first = worker_start(&worker, port_name("number"));
    begin_looking_on();
    ck_assert_str_eq(ask_text(first, 1, "first", "m"), "first");
    int number = connection, held = dup(number), ends[2];
    RLMessagePortInvalidate(first);
    RLRelease(first);
    make_pipe(ends);
    ck_assert_int_eq(dup2(ends[0], number), number);
    RLSourceRef source = add_port(&reused, number, "m");
    waits = 0;
    expect_run("m", 0.02, true, TimedOut);
    ck_assert_int_le(waits, 10);
    write_byte(ends[1]);
    expect_run("m", 60, true, HandledSource);
    expect_trace("p");
    RLSourceInvalidate(source);
    close(number);
    RLMessagePortRef second = RLMessagePortCreateRemote(port_name("number"));
    ck_assert_str_eq(ask_text(second, 1, "second", "m"), "second");
    ck_assert_int_eq(connection, number);
    ck_assert_str_eq(ask_text(second, 1, "again", "m"), "again");
    /* The same without a member of the mode between them. */
    RLMessagePortInvalidate(second);
    RLRelease(second);
    RLMessagePortRef third = RLMessagePortCreateRemote(port_name("number"));
    ck_assert_str_eq(ask_text(third, 1, "third", "m"), "third");
    ck_assert_int_eq(connection, number);
    hook_system_calls(NULL);
    close(held);
    RLRelease(third);
    worker_stop(&worker);
}

static int writes;
static void note_write(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    writes++;
}

RL_TEST(the_number_of_the_notifier, "S-MSG-34 S-KEV-11",
        "After the end of a remote port its number may be that of the library's own descriptor for files; the end of what was kept leaves that in its set") {
    static Worker worker = {.service = {.echoes = true}}, other_worker = {.service = {.echoes = true}};
    RLMessagePortRef first = worker_start(&worker, port_name("notifier"));
    RLMessagePortRef second = worker_start(&other_worker, port_name("other notifier"));
    ck_assert_str_eq(ask_text(second, 1, "elsewhere", "n"), "elsewhere");
    ck_assert_str_eq(ask_text(first, 1, "first", "m"), "first");
    RLMessagePortInvalidate(first);
    RLRelease(first);
    char path[] = "/tmp/runloop-kept-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    RLKernelEvent event = {.ident = (uintptr_t)file, .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note_write, NULL);
    RLAddSource(RLGetCurrent(), source, "m");
    write_byte(file);
    expect_run("m", 60, true, HandledSource);
    ck_assert_str_eq(ask_text(second, 1, "second", "m"), "second");
    write_byte(file);
    expect_run("m", 20, true, HandledSource);
    ck_assert_int_eq(writes, 2);
    RLSourceInvalidate(source);
    RLRelease(source);
    close(file);
    unlink(path);
    RLRelease(second);
    worker_stop(&worker);
    worker_stop(&other_worker);
}

RL_TEST(another_object_on_the_number, "S-MSG-31 S-SRC-44",
        "Another object comes to the number between two requests and leaves it before, after or between others: each request gets its reply") {
    static Worker worker = {.service = {.echoes = true}};
    static Descriptor object = {.name = "d"};
    RLMessagePortRef first = worker_start(&worker, port_name("object"));
    begin_looking_on();
    ck_assert_str_eq(ask_text(first, 1, "first", "m"), "first");
    hook_system_calls(NULL);
    descriptor_make(&object, connection, false);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(object.file, 0);
    for (int i = 0; i < 3; i++) {
        RLAddSource(RLGetCurrent(), source, "m");
        if (i != 1) ck_assert_str_eq(ask_text(first, 1, "beside", "m"), "beside");
        RLRemoveSource(RLGetCurrent(), source, "m");
        ck_assert_str_eq(ask_text(first, 1, "alone", "m"), "alone");
        expect_run("m", 1, false, Finished);
    }
    /* It stays when what was kept ends with the port. */
    RLAddSource(RLGetCurrent(), source, "m");
    RLMessagePortInvalidate(first);
    expect_run("m", 0.02, false, TimedOut);
    RLFileDescriptorInvalidate(object.file);
    expect_run("m", 1, false, Finished);
    expect_trace("");
    RLRelease(source);
    RLRelease(object.file);
    RLRelease(first);
    worker_stop(&worker);
}

RL_TEST(a_number_that_the_program_closed, "S-MSG-34 S-SRC-50",
        "The program puts a pipe in the place of the connection: a port that was there before what was kept ends, or comes after, is served, and other "
        "remote ports get their replies") {
    static Worker worker = {.service = {.echoes = true}}, other_worker = {.service = {.echoes = true}};
    static Probe reused = {.name = "p", .action = read_one};
    RLMessagePortRef other = worker_start(&other_worker, port_name("other closed"));
    for (int i = 0; i < 2; i++) {
        RLMessagePortRef first = worker_start(&worker, port_name("closed"));
        begin_looking_on();
        ck_assert_str_eq(ask_text(first, 1, "first", "m"), "first");
        hook_system_calls(NULL);
        int number = connection, own = dup(number), ends[2];
        make_pipe(ends);
        ck_assert_int_eq(dup2(ends[0], number), number);
        RLSourceRef source = i == 0 ? add_port(&reused, number, "m") : NULL;
        ck_assert_str_eq(ask_text(other, 1, "other", "m"), "other");
        if (i == 1) source = add_port(&reused, number, "m");
        write_byte(ends[1]);
        expect_run("m", 60, true, HandledSource);
        expect_trace("p");
        RLSourceInvalidate(source);
        /* The library has its own file back, and closes it. */
        ck_assert_int_eq(dup2(own, number), number);
        close(own);
        RLMessagePortInvalidate(first);
        RLRelease(first);
        ck_assert_str_eq(ask_text(other, 1, "again", "m"), "again");
        worker_stop(&worker);
    }
    RLRelease(other);
    worker_stop(&other_worker);
}

static void ask_and_end(void *unused) {
    (void)unused;
    ck_assert_str_eq(ask_text(remote, 1, "thread", "m"), "thread");
    ck_assert_str_eq(ask_text(remote, 1, "again", "m"), "again");
}

RL_TEST(the_thread_ends_between_requests, "S-MSG-31 S-LOOP-16",
        "Threads that asked end, and nothing is left of what their modes kept: other threads ask by the same remote port, which ends while it is kept") {
    static Worker worker = {.service = {.echoes = true}};
    remote = worker_start(&worker, port_name("thread"));
    ask_and_end(NULL);
    int before = count_descriptors();
    for (int i = 0; i < 5; i++) {
        thread_join(thread_start(ask_and_end, NULL));
        ask_and_end(NULL);
    }
    ck_assert_int_eq(count_descriptors(), before);
    RLMessagePortInvalidate(remote);
    expect_run("m", 1, false, Finished);
    RLRelease(remote);
    worker_stop(&worker);
}

static void ask_in_child(void *name) {
    ck_assert(!RLMessagePortIsValid(remote));
    expect_run("m", 1, false, Finished);
    RLMessagePortRef own = RLMessagePortCreateRemote(name);
    for (int i = 0; i < 3; i++) ck_assert_str_eq(ask_text(own, 1, "child", "m"), "child");
    RLRelease(own);
}

RL_TEST(fork_between_requests, "S-FORK-1 S-MSG-31 S-MSG-52",
        "The child asks by a remote port of its own in the same mode, and the parent goes on with its own") {
    static Worker worker = {.service = {.echoes = true}};
    /* That of this process. */
    char name[64];
    snprintf(name, sizeof name, "%s", port_name("fork"));
    remote = worker_start(&worker, name);
    ck_assert_str_eq(ask_text(remote, 1, "parent", "m"), "parent");
    ChildResult child = run_child(ask_in_child, name);
    ck_assert_msg(child.status == 0, "%s", child.output);
    begin_looking_on();
    ck_assert_str_eq(ask_text(remote, 1, "again", "m"), "again");
    ck_assert_int_eq(changes, 0);
    hook_system_calls(NULL);
    RLRelease(remote);
    worker_stop(&worker);
}
