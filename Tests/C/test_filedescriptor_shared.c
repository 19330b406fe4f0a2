/* SPDX-License-Identifier: MIT */
/* Objects that share a descriptor number, and numbers that are given another file under their objects: the smallest programs for
 * which Tests/Descriptors found the library to differ from its model. */
#define _GNU_SOURCE
#include "support_descriptor.h"
#include "support_socket.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack, write_type = kRLFileDescriptorWriteCallBack;
static Descriptor d = {.name = "d"}, e = {.name = "e"};
static Socket s = {.name = "s"};
static Probe p = {.name = "p"};
static int ends[2];

static void poll_once(void) { expect_run(kRLDefaultMode, 0, false, TimedOut); }

static void reopen(int number, int fd) {
    ck_assert_int_eq(dup2(fd, number), number);
    close(fd);
}

RL_TEST(a_port_that_is_left_alone, "S-SRC-47 S-SRC-50",
        "A port whose number can be written, of which a descriptor object was told until it became invalid, performs when it can be read") {
    make_pair(ends);
    add_descriptor(&d, ends[0], read_type | write_type);
    add_port(&p, ends[0], kRLDefaultMode);
    RLFileDescriptorInvalidate(d.file);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("");
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    expect_trace("p");
    RLRelease(d.file);
}

RL_TEST(what_an_earlier_run_found_of_two_types, "S-SOCK-55",
        "A socket that an earlier run found readable, and a later one writable, is told of what it is ready for then") {
    int number = make_eventfd();
    socket_make(&s, number, kRLSocketReadCallBack | kRLSocketWriteCallBack);
    socket_add(&s);
    add_port(&p, number, kRLDefaultMode);
    eventfd_signal(number);
    /* The poll of this run finds the socket readable, and then reads the counter for the port. */
    poll_once();
    expect_trace("s:read s:write p");
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    expect_trace("s:write");
    RLRelease(s.socket);
}

static void disable_write(Socket *self, RLSocketCallBackType type) {
    if (type == kRLSocketReadCallBack) RLSocketDisableCallBacks(self->socket, kRLSocketWriteCallBack);
}
static void enable_write(Socket *self, RLSocketCallBackType type) {
    if (type == kRLSocketReadCallBack) RLSocketEnableCallBacks(self->socket, kRLSocketWriteCallBack);
}
static void renew_write(Socket *self, RLSocketCallBackType type) {
    disable_write(self, type);
    enable_write(self, type);
}

static void make_ready_socket(void (*action)(Socket *, RLSocketCallBackType)) {
    make_sockets(SOCK_STREAM, ends);
    s.action = action;
    socket_make(&s, ends[0], kRLSocketReadCallBack | kRLSocketWriteCallBack);
    RLSocketSetSocketFlags(s.socket, kRLSocketCloseOnInvalidate);
    socket_add(&s);
    write_byte(ends[1]);
}

RL_TEST(write_disabled_by_read, "S-SOCK-55 S-SOCK-22", "A Read callback that disables Write keeps the Write callback of the same perform away") {
    make_ready_socket(disable_write);
    poll_once();
    poll_once();
    expect_trace("s:read");
    RLSocketEnableCallBacks(s.socket, kRLSocketWriteCallBack);
    poll_once();
    expect_trace("s:write");
    RLRelease(s.socket);
}

RL_TEST(write_enabled_by_read, "S-SOCK-29 S-SOCK-33", "A Read callback that enables Write, of which the same perform tells, gets one Write callback") {
    make_ready_socket(enable_write);
    for (int i = 0; i < 3; i++) poll_once();
    expect_trace("s:read s:write");
    RLRelease(s.socket);
}

RL_TEST(write_disabled_and_enabled_by_read, "S-SOCK-29 S-SOCK-33",
        "A Read callback that disables Write and enables it again gets one Write callback") {
    make_ready_socket(renew_write);
    for (int i = 0; i < 3; i++) poll_once();
    expect_trace("s:read s:write");
    RLRelease(s.socket);
}

RL_TEST(a_counter_whose_number_is_a_stream_by_now, "S-SRC-46 S-SRC-50 S-FD-15",
        "Nothing is read for a port from another file that has its number, and what it holds makes no pass") {
    int number = make_eventfd();
    add_port(&p, number, kRLDefaultMode);
    make_pair(ends);
    reopen(number, ends[0]);
    ck_assert_int_eq(write(ends[1], "not a counter", 13), 13);
    add_descriptor(&d, number, 0);
    observe(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("E BT BS BW AW X");
    char bytes[16];
    ck_assert_int_eq(recv(number, bytes, sizeof bytes, MSG_DONTWAIT), 13);
    ck_assert_int_eq(memcmp(bytes, "not a counter", 13), 0);
    RLRelease(d.file);
}

RL_TEST(a_port_on_the_number_of_what_was_always_ready, "S-SRC-41 S-FD-17",
        "A port is told of its file though the number named /dev/null, and has an object of that time") {
    int number = open("/dev/null", O_RDWR | O_CLOEXEC);
    add_descriptor(&d, number, read_type);
    RLFileDescriptorDisableCallBacks(d.file, read_type);
    reopen(number, make_eventfd());
    add_port(&p, number, kRLDefaultMode);
    eventfd_signal(number);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    expect_trace("p");
    RLRelease(d.file);
}

RL_TEST(an_object_on_the_number_of_what_was_always_ready, "S-FD-9 S-FD-17",
        "A descriptor object is told of its file though the number named /dev/null, and has an object of that time") {
    int number = open("/dev/null", O_RDWR | O_CLOEXEC);
    add_descriptor(&d, number, 0);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    RLFileDescriptorDisableCallBacks(d.file, read_type);
    reopen(number, make_eventfd());
    add_descriptor(&e, number, 0);
    RLFileDescriptorEnableCallBacks(e.file, read_type);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut);
    expect_trace("");
    eventfd_signal(number);
    expect_run(kRLDefaultMode, 20, true, HandledSource);
    expect_trace("e:r");
    RLRelease(d.file);
    RLRelease(e.file);
}
