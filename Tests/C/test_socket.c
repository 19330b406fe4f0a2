/* SPDX-License-Identifier: MIT */
/* Socket objects: creation, flags, their one source, and their end. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int option_of(int fd, int option) {
    int value;
    socklen_t size = sizeof value;
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, option, &value, &size), 0);
    return value;
}

RL_TEST(socket_of_a_kind, "S-SOCK-6 S-LOOP-18",
        "Family, type and protocol that are not positive stand for TCP or UDP over IPv4; "
        "other families are as given; a socket that cannot be had is NULL; descriptors are "
        "close-on-exec") {
    RLSocketRef tcp = RLSocketCreate(0, 0, 0, 0, NULL, NULL);
    RLSocketRef udp = RLSocketCreate(PF_INET, SOCK_DGRAM, -1, 0, NULL, NULL);
    RLSocketRef six = RLSocketCreate(PF_INET6, SOCK_STREAM, 0, 0, NULL, NULL);
    RLSocketRef local = RLSocketCreate(PF_UNIX, SOCK_SEQPACKET, 0, 0, NULL, NULL);
    ck_assert_int_eq(option_of(RLSocketGetNative(tcp), SO_DOMAIN), AF_INET);
    ck_assert_int_eq(option_of(RLSocketGetNative(tcp), SO_PROTOCOL), IPPROTO_TCP);
    ck_assert_int_eq(option_of(RLSocketGetNative(udp), SO_PROTOCOL), IPPROTO_UDP);
    ck_assert_int_eq(option_of(RLSocketGetNative(local), SO_TYPE), SOCK_SEQPACKET);
    if (six) ck_assert_int_eq(option_of(RLSocketGetNative(six), SO_DOMAIN), AF_INET6);
    ck_assert_int_eq(fcntl(RLSocketGetNative(tcp), F_GETFD), FD_CLOEXEC);
    ck_assert_ptr_null(RLSocketCreate(9999, 0, 0, 0, NULL, NULL));
    RLSocketRef all[] = {tcp, udp, six, local};
    for (int i = 0; i < 4; i++) {
        RLSocketInvalidate(all[i]);
        RLRelease(all[i]);
    }
}

static void end(Socket *self) {
    RLSocketInvalidate(self->socket);
    RLRelease(self->socket);
}

RL_TEST(types_and_flags_at_first, "S-SOCK-1 S-SOCK-4 S-SOCK-5",
        "Bits that name no type are dropped; the flags are those that enable the reading "
        "type again and CloseOnInvalidate; they can be replaced, also on an invalid socket") {
    static const RLOptionFlags types[] = {0, 1, 2, 3, 4 | 8, 1 | 4 | 8, 3 | 0xff0};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        static Socket s;
        s = (Socket){.name = "s"};
        socket_create(&s, PF_INET, SOCK_STREAM, types[i]);
        ck_assert_uint_eq(RLSocketGetSocketFlags(s.socket), (types[i] & 3) | 128);
        RLSocketSetSocketFlags(s.socket, 64 | 8 | 128);
        ck_assert_uint_eq(RLSocketGetSocketFlags(s.socket), 64 | 8 | 128);
        RLSocketInvalidate(s.socket);
        RLSocketSetSocketFlags(s.socket, 1);
        ck_assert_uint_eq(RLSocketGetSocketFlags(s.socket), 1);
        RLRelease(s.socket);
    }
}

RL_TEST(one_object_for_one_descriptor, "S-SOCK-2",
        "Making a socket of a descriptor that has one gives that one, retained, and ignores the "
        "rest") {
    static Socket s = {.name = "s"}, other = {.name = "other"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    RLIndex count = RLGetRetainCount(s.socket);
    RLSocketContext context = socket_context(&other);
    RLSocketRef again =
        RLSocketCreateWithNative(ends[0], kRLSocketWriteCallBack, report_socket, &context);
    ck_assert_ptr_eq(again, s.socket);
    ck_assert_int_eq(RLGetRetainCount(again), count + 1);
    ck_assert_int_eq(other.retains, other.releases);
    RLSocketContext got = {.version = 0};
    RLSocketGetContext(again, &got);
    ck_assert_ptr_eq(got.info, &s);
    RLRelease(again);
    end(&s);
}

RL_TEST(a_number_with_another_file, "S-SOCK-2 S-SOCK-13",
        "If the number names another file by now the old object becomes invalid, nothing is "
        "closed, and a new one is made, which reports") {
    static Socket old = {.name = "old"}, new = {.name = "new"};
    int ends[2], others[2];
    make_sockets(SOCK_STREAM, ends);
    make_sockets(SOCK_STREAM, others);
    socket_make(&old, ends[0], kRLSocketDataCallBack);
    socket_add(&old);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(dup3(others[0], ends[0], O_CLOEXEC), ends[0]);
    socket_make(&new, ends[0], kRLSocketDataCallBack);
    ck_assert_ptr_ne(old.socket, new.socket);
    ck_assert(!RLSocketIsValid(old.socket));
    ck_assert_int_eq(old.releases, 1);
    ck_assert_int_ne(fcntl(ends[0], F_GETFD), -1);
    socket_add(&new);
    write_byte(others[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("new:data=1");
    RLRelease(old.socket);
    end(&new);
}

RL_TEST(anonymous_files_are_registered_anew, "S-SOCK-2",
        "Where device and inode cannot tell, the object is the same, and reports for the "
        "file that the number names now") {
    static Socket s = {.name = "s"};
    int fd = eventfd(0, EFD_CLOEXEC);
    socket_make(&s, fd, kRLSocketReadCallBack);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    close(fd);
    ck_assert_int_eq(eventfd(0, EFD_CLOEXEC), fd);
    RLSocketRef again = RLSocketCreateWithNative(fd, 0, NULL, NULL);
    ck_assert_ptr_eq(again, s.socket);
    eventfd_signal(fd);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:read");
    RLRelease(again);
    end(&s);
}

RL_TEST(bad_descriptors, "S-SOCK-3 S-SOCK-2 S-SOCK-13",
        "-1 gives an invalid object; another bad number is not noticed at creation but by "
        "the next call, and a later creation makes a new object") {
    static Socket none = {.name = "none"}, bad = {.name = "bad"}, good = {.name = "good"};
    socket_make(&none, -1, kRLSocketReadCallBack);
    ck_assert(!RLSocketIsValid(none.socket));
    ck_assert_int_eq(RLSocketGetNative(none.socket), -1);
    ck_assert_ptr_null(RLSocketCreateRunLoopSource(none.socket, 0));
    RLRelease(none.socket);
    socket_make(&bad, 700, kRLSocketReadCallBack);
    RLSocketContext context = {.version = 0};
    RLSocketGetContext(bad.socket, &context);
    ck_assert_ptr_eq(context.info, &bad);
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    ck_assert_int_eq(dup3(ends[0], 700, O_CLOEXEC), 700);
    socket_make(&good, 700, kRLSocketReadCallBack);
    ck_assert_ptr_ne(good.socket, bad.socket);
    ck_assert(!RLSocketIsValid(bad.socket));
    ck_assert(RLSocketIsValid(good.socket));
    RLRelease(bad.socket);
    end(&good);
}

RL_TEST(numbers_beyond_all_descriptors, "S-SOCK-3 S-THR-9",
        "A number that no descriptor has, however large, gives an invalid object and takes no memory for those below it") {
    static const int numbers[] = {INT_MAX, INT_MAX - 1, 1 << 28, 1 << 20};
    for (int i = 0; i < 4; i++) {
        static Socket none = {.name = "none"};
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        int releases = none.releases;
        socket_make(&none, numbers[i], kRLSocketReadCallBack);
        ck_assert(!RLSocketIsValid(none.socket));
        ck_assert_int_eq(RLSocketGetNative(none.socket), -1);
        ck_assert_ptr_null(RLSocketCreateRunLoopSource(none.socket, 0));
        ck_assert_int_eq(none.releases, releases + 1);
        size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        ck_assert_uint_le(after, before + 10000);
        RLRelease(none.socket);
    }
}

RL_TEST(a_socket_lives_until_it_is_invalidated, "S-SOCK-8",
        "Releasing the last reference neither invalidates nor closes; the object can be had "
        "again") {
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    RLSocketRef socket = socket_make(&s, ends[0], kRLSocketReadCallBack);
    RLRelease(socket);
    ck_assert_int_eq(s.releases, 0);
    ck_assert_int_ne(fcntl(ends[0], F_GETFD), -1);
    RLSocketRef again = RLSocketCreateWithNative(ends[0], 0, NULL, NULL);
    ck_assert_ptr_eq(again, socket);
    end(&s);
    ck_assert_int_eq(s.releases, 1);
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
}

static void invalidate(void *socket) { RLSocketInvalidate(socket); }

RL_TEST(invalidate_ends_everything, "S-SOCK-9 S-SOCK-11 S-RUN-7",
        "Invalidate from another thread wakes the loop, which has nothing left; the source is "
        "invalid, the context released, and every question answered in vain") {
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), invalidate, s.socket);
    expect_run(kRLDefaultMode, 60, false, Finished);
    thread_join(thread);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert(!RLSourceIsValid(source));
    ck_assert_int_eq(s.retains, 1);
    ck_assert_int_eq(s.releases, 1);
    ck_assert_int_eq(RLSocketGetNative(s.socket), -1);
    ck_assert_ptr_null(RLSocketCreateRunLoopSource(s.socket, 0));
    ck_assert_ptr_null(RLSocketCopyPeerAddress(s.socket));
    ck_assert_ptr_null(RLSocketCopyAddress(s.socket));
    RLSocketContext context = {.info = &context};
    RLSocketGetContext(s.socket, &context);
    ck_assert_ptr_null(context.info);
    ck_assert(context.release != NULL);
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(s.releases, 1);
    RLRelease(source);
    RLRelease(s.socket);
}

RL_TEST(closing_is_by_the_flag, "S-SOCK-10",
        "Invalidate closes the descriptor exactly if CloseOnInvalidate is set, and takes it "
        "out of the kernel's set first") {
    static Socket keeps = {.name = "keeps"}, closes = {.name = "closes"}, next = {.name = "next"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&keeps, ends[0], kRLSocketReadCallBack);
    RLSocketSetSocketFlags(keeps.socket, kRLSocketAutomaticallyReenableReadCallBack);
    socket_add(&keeps);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    end(&keeps);
    ck_assert_int_ne(fcntl(ends[0], F_GETFD), -1);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
    socket_make(&next, ends[0], kRLSocketReadCallBack);
    socket_add(&next);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("next:read");
    end(&next);
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
    socket_make(&closes, ends[1], kRLSocketReadCallBack);
    end(&closes);
    ck_assert_int_eq(fcntl(ends[1], F_GETFD), -1);
}

RL_TEST(null_sockets, "S-SOCK-12 S-ARG-1", "NULL is asked in vain, told in vain, and an error") {
    struct sockaddr_in address = loopback(1);
    ck_assert_int_eq(RLSocketGetNative(NULL), -1);
    ck_assert(!RLSocketIsValid(NULL));
    ck_assert_ptr_null(RLSocketCreateRunLoopSource(NULL, 0));
    ck_assert_ptr_null(RLSocketCopyAddress(NULL));
    ck_assert_ptr_null(RLSocketCopyPeerAddress(NULL));
    ck_assert_uint_eq(RLSocketGetSocketFlags(NULL), 0);
    RLSocketSetSocketFlags(NULL, 1);
    RLSocketEnableCallBacks(NULL, 15);
    RLSocketDisableCallBacks(NULL, 15);
    RLSocketInvalidate(NULL);
    RLSocketContext context = {.version = 5};
    RLSocketGetContext(NULL, &context);
    ck_assert_int_eq(context.version, 5);
    ck_assert_int_eq(RLSocketSetAddress(NULL, &address, sizeof address), kRLSocketError);
    ck_assert_int_eq(RLSocketConnectToAddress(NULL, &address, sizeof address, 1), kRLSocketError);
    ck_assert_int_eq(RLSocketSendData(NULL, NULL, 0, "x", 1, 1), kRLSocketError);
    ck_assert_ptr_null(RLSocketCreateWithSocketSignature(NULL, 0, NULL, NULL));
    ck_assert_ptr_null(RLSocketCreateConnectedToSocketSignature(NULL, 0, NULL, NULL, 1));
    ck_assert_uint_ne(RLSocketGetTypeID(), RLFileDescriptorGetTypeID());
}

RL_TEST(closed_behind_its_back, "S-SOCK-13",
        "Its own event notices, after 16 callbacks at most, and there is no spin") {
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    int duplicate = dup(ends[0]);
    close(ends[0]);
    write_byte(ends[1]);
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    expect_run(kRLDefaultMode, 0.2, false, TimedOut);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    long used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    ck_assert_int_lt(used, 100);
    ck_assert_int_le(s.calls, 16);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert_int_eq(s.releases, s.retains);
    expect_run(kRLDefaultMode, 1, true, Finished);
    RLRelease(s.socket);
    close(duplicate);
}

RL_TEST(one_source, "S-SOCK-15 S-SOCK-16",
        "The same source each time, with the order of the first call, even if nobody held "
        "it; a new one after it was invalidated, which does not invalidate the socket") {
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    RLSourceRef first = RLSocketCreateRunLoopSource(s.socket, 3);
    RLRelease(first);
    RLSourceRef again = RLSocketCreateRunLoopSource(s.socket, 4);
    ck_assert_ptr_eq(first, again);
    ck_assert_int_eq(RLSourceGetOrder(again), 3);
    RLSourceInvalidate(again);
    ck_assert(RLSocketIsValid(s.socket));
    RLSourceRef second = RLSocketCreateRunLoopSource(s.socket, 5);
    ck_assert_ptr_ne(again, second);
    ck_assert_int_eq(RLSourceGetOrder(second), 5);
    RLRelease(again);
    write_byte(ends[1]);
    RLAddSource(RLGetCurrent(), second, kRLDefaultMode);
    RLRelease(second);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:read");
    end(&s);
}

static void invalidate_and_look(Socket *self, RLSocketCallBackType type) {
    (void)type;
    int releases = self->releases;
    RLSocketInvalidate(self->socket);
    ck_assert_int_eq(self->releases, releases + 1);
}

RL_TEST(the_bracket, "S-SOCK-14 S-SOCK-9 S-THR-5",
        "retain comes at creation and before each perform, release after it and at invalidation, "
        "also when the callback invalidates") {
    static Socket s = {.name = "s", .brackets = true};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    expect_trace("+s");
    socket_add(&s);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("+s s:data=1 -s");
    s.action = invalidate_and_look;
    write_byte(ends[1]);
    RLRelease(s.socket);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("+s s:data=1 -s -s");
}

RL_TEST(without_a_context, "S-SOCK-14", "A NULL context gives the callback a NULL info") {
    RLSocketRef socket = RLSocketCreate(0, 0, 0, 0, NULL, NULL);
    RLSocketContext context = {.info = &context};
    RLSocketGetContext(socket, &context);
    ck_assert_ptr_null(context.info);
    RLSocketInvalidate(socket);
    RLRelease(socket);
}

RL_TEST(no_descriptor_for_a_socket, "S-SOCK-6 S-SOCK-7 S-ARG-10",
        "With no descriptor to be had creation gives NULL and retains nothing") {
    static Socket s = {.name = "s"};
    struct rlimit old, limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct sockaddr_in address = loopback(0);
    RLDataRef bytes = RLDataCreate(&address, sizeof address);
    RLSocketSignature signature = {0, 0, 0, bytes};
    RLSocketContext context = socket_context(&s);
    limit = (struct rlimit){0, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    RLSocketRef one = RLSocketCreate(0, 0, 0, 1, report_socket, &context);
    RLSocketRef two = RLSocketCreateWithSocketSignature(&signature, 1, report_socket, &context);
    RLSocketRef three =
        RLSocketCreateConnectedToSocketSignature(&signature, 1, report_socket, &context, 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_ptr_null(one);
    ck_assert_ptr_null(two);
    ck_assert_ptr_null(three);
    ck_assert_int_eq(s.retains, 0);
    RLRelease(bytes);
}

RL_TEST(the_name_registry_is_empty, "S-SOCK-49",
        "Every call of the name registry is an error that leaves nothing; the port number can be "
        "set and read") {
    RLSocketSignature signature = {.protocolFamily = 1};
    RLDataRef value = (RLDataRef)(size_t)1, address = (RLDataRef)(size_t)1;
    ck_assert_int_eq(RLSocketRegisterValue(NULL, 0, "name", "x", 1), kRLSocketError);
    ck_assert_int_eq(RLSocketCopyRegisteredValue(NULL, 0, "name", &value, &address),
                     kRLSocketError);
    ck_assert_ptr_null(value);
    ck_assert_ptr_null(address);
    ck_assert_int_eq(RLSocketRegisterSocketSignature(NULL, 0, "name", &signature), kRLSocketError);
    ck_assert_int_eq(RLSocketCopyRegisteredSocketSignature(NULL, 0, NULL, &signature, NULL),
                     kRLSocketError);
    ck_assert_int_eq(RLSocketUnregister(NULL, 0, NULL), kRLSocketError);
    ck_assert_uint_eq(RLSocketGetDefaultNameRegistryPortNumber(), 2454);
    RLSocketSetDefaultNameRegistryPortNumber(5);
    ck_assert_uint_eq(RLSocketGetDefaultNameRegistryPortNumber(), 5);
    ck_assert_str_eq(kRLSocketCommandKey, "Command");
    ck_assert_str_eq(kRLSocketRetrieveCommand, "Retrieve");
}
