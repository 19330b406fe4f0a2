/* SPDX-License-Identifier: MIT */
/*
 * Peers of the same user that mean harm: what they make a port pay is bounded by what they pay
 * themselves, or by a number (Docs/wire-format.md).
 */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* Memory of a length that nobody has paid for. */
static int hollow_memory(size_t length) {
    int memory = memfd_create("hollow", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(memory, (off_t)length), 0);
    fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
    return memory;
}
static long paid(int memory) {
    struct stat status;
    fstat(memory, &status);
    return (long)(status.st_blocks / 2 / 1024);
}

/* Until the port has taken all that was sent to it; a pass takes so much and no more, and tells of messages alone. */
static void serve_all(void) {
    for (int idle = 0; idle < 32;) idle = RLRunInMode("m", 0, true) == kRLRunHandledSource ? 0 : idle + 1;
}

static RLDataRef sum_bytes(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid;
    unsigned sum = 0;
    for (size_t at = 0; at < RLDataGetLength(data); at += 4096) sum += ((const unsigned char *)RLDataGetBytePtr(data))[at];
    ++*(int *)info;
    return RLDataCreate(&sum, sizeof sum);
}

static int summed;
static RLMessagePortRef add_summing_port(const char *name) {
    RLMessagePortContext context = {.info = &summed};
    RLMessagePortRef port = RLMessagePortCreateLocal(name, sum_bytes, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRelease(source);
    return port;
}

RL_TEST(hollow_memory_costs_nothing, "S-MSG-42 S-MSG-18",
        "A message in sealed memory for which its sender has no pages is refused, and no page is made for it; so is a part") {
    use_own_directory();
    RLMessagePortRef port = add_summing_port("hollow");
    log_capture();
    int memory = hollow_memory(512 * MIB);
    int fd = greet_raw("hollow");
    Header header = header_of(2, 1, 512 * MIB);
    header.flags = 3;
    send_memory(fd, header, memory);
    serve_all();
    ck_assert_int_eq(summed, 0);
    ck_assert_int_eq(paid(memory), 0);
    ck_assert(is_closed(fd));
    close(fd);
    fd = greet_raw("hollow");
    begin_parts(fd, 1024 * MIB);
    send_memory(fd, part_of(1, 0, 512 * MIB), memory);
    long before = own_memory();
    serve_all();
    ck_assert_int_eq(paid(memory), 0);
    ck_assert_int_lt(own_memory(), before + 16);
    ck_assert(is_closed(fd));
    ck_assert_int_eq(log_count(), 2);
    close(fd);
    close(memory);
    RLRelease(port);
    remove_own_directory();
}

/* The addresses that this process has, in MiB. */
static long own_addresses(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    return pages / 256;
}

/* Where the kernel says how many pages a file has in a range. */
static bool tells_pages(void) {
    int memory = hollow_memory(1);
    uint64_t range[2] = {0}, pages[5];
    bool tells = syscall(451, memory, range, pages, 0) == 0;
    close(memory);
    return tells;
}

RL_TEST(pages_behind_the_end_do_not_count, "S-MSG-42 S-MSG-18",
        "Hollow memory is refused also where its file has as many pages behind its end; a file that could still get some there is refused, too") {
    enum { LENGTH = 8 * 1024 * 1024 };
    if (!tells_pages()) return;
    use_own_directory();
    RLMessagePortRef port = add_summing_port("behind");
    serve_all();
    log_capture();
    summed = 0;
    for (int can_grow = 0; can_grow < 2; can_grow++) {
        int memory = memfd_create("behind", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        ck_assert_int_eq(ftruncate(memory, LENGTH), 0);
        ck_assert_int_eq(fallocate(memory, FALLOC_FL_KEEP_SIZE, can_grow ? 0 : LENGTH, LENGTH), 0);
        ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | (can_grow ? 0 : F_SEAL_GROW)), 0);
        int fd = greet_raw("behind");
        Header header = header_of(2, 1, LENGTH);
        header.flags = 3;
        send_memory(fd, header, memory);
        serve_all();
        ck_assert_int_eq(summed, 0);
        ck_assert(is_closed(fd));
        ck_assert_int_eq(log_count(), can_grow + 1);
        close(fd), close(memory);
    }
    RLRelease(port);
    remove_own_directory();
}

static int looks_behind;
static bool count_looks_behind(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == 451) looks_behind++;
    return false;
}

RL_TEST(many_pages_behind_the_end_are_refused, "S-MSG-42 S-MSG-18",
        "A file that is whole and has more behind its end than a huge page is refused without a look at how much that is, which takes its time") {
    enum { LENGTH = 40000 };
    const off_t page = sysconf(_SC_PAGESIZE), huge = page * page / 8;
    static const char bytes[LENGTH];
    use_own_directory();
    RLMessagePortRef port = add_summing_port("more");
    serve_all();
    log_capture();
    summed = 0;
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        int memory = memfd_create("more", MFD_ALLOW_SEALING | MFD_CLOEXEC), fd = greet_raw("more");
        ck_assert_int_eq(write(memory, bytes, LENGTH), LENGTH);
        ck_assert_int_eq(fallocate(memory, FALLOC_FL_KEEP_SIZE, LENGTH, is_refused ? 2 * huge : huge / 2), 0);
        ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        Header header = header_of(2, 1, LENGTH);
        header.flags = 3;
        looks_behind = 0;
        hook_system_calls(count_looks_behind);
        send_memory(fd, header, memory);
        serve_all();
        hook_system_calls(NULL);
        ck_assert_int_eq(looks_behind, !is_refused);
        ck_assert_int_eq(summed, 1);
        ck_assert(is_closed(fd) == is_refused);
        close(fd), close(memory);
    }
    ck_assert_int_eq(log_count(), 1);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(begun_messages_take_few_addresses, "S-MSG-42 S-MSG-43",
        "The length that a message in parts announces takes no addresses: they grow with what arrives, and the message is whole in the end") {
    enum { PEERS = 16 };
    use_own_directory();
    RLMessagePortRef port = add_summing_port("addresses");
    int memory = kept_memory(4096 + 8 * 512 * 1024, 0, "x"), fds[PEERS];
    serve_all();
    long before = own_addresses();
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("addresses");
        begin_parts(fds[i], 0x60000000);
        send_memory(fds[i], part_of(8, 0, place_size), memory);
        serve_all();
    }
    ck_assert_int_lt(own_addresses(), before + 16 * PEERS);
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    RLMessagePortRef remote = RLMessagePortCreateRemote("addresses");
    char *bytes = malloc(40 * MIB + 5);
    unsigned sum = 0;
    for (size_t at = 0; at < 40 * MIB + 5; at++) bytes[at] = (char)(at / 4096 * 7);
    for (size_t at = 0; at < 40 * MIB + 5; at += 4096) sum += (unsigned char)bytes[at];
    RLDataRef reply = NULL;
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, 40 * MIB + 5, 60, 60, "m", &reply), kRLMessagePortSuccess);
    ck_assert_mem_eq(RLDataGetBytePtr(reply), &sum, sizeof sum);
    free(bytes);
    RLRelease(reply);
    RLRelease(remote);
    RLRelease(port);
    close(memory);
    remove_own_directory();
}

/* A peer whose greeting is not of this protocol. */
static void greet_with_garbage(const char *name) {
    int fd = connect_raw(name);
    ck_assert_int_eq(send(fd, "garbage", 7, MSG_NOSIGNAL), 7);
    serve_all();
    ck_assert(is_closed(fd));
    close(fd);
}
RL_TEST(refusals_are_logged_a_few_times, "S-MSG-18 S-MSG-42",
        "However many messages a port refuses, a few lines a second tell of them, and a later line says how many were not logged") {
    use_own_directory();
    RLMessagePortRef port = add_summing_port("garbage");
    log_capture();
    double end = RLAbsoluteTimeGetCurrent();
    int refused = 0;
    for (; refused < 300; refused++) greet_with_garbage("garbage");
    end = RLAbsoluteTimeGetCurrent() - end;
    ck_assert_int_le(log_count(), 16 * ((int)end + 2));
    while (!strstr(log_text(), "and more that were not logged: ")) {
        greet_with_garbage("garbage");
        take_time(0.001);
    }
    RLRelease(port);
    remove_own_directory();
}

/* Makes a pipe that takes nothing the standard error; returns what was. */
static int fill_standard_error(int ends[2]) {
    int standard_error = dup(STDERR_FILENO);
    make_pipe(ends);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    for (char byte = 'x'; write(ends[1], &byte, 1) == 1;) continue;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    return standard_error;
}

RL_TEST(refusals_do_not_wait_for_standard_error, "S-MSG-18 S-MSG-42",
        "A port whose process has a full pipe for standard error refuses messages without waiting for room there") {
    use_own_directory();
    RLMessagePortRef port = add_summing_port("pipe");
    int ends[2], standard_error = fill_standard_error(ends);
    greet_with_garbage("pipe");
    dup2(standard_error, STDERR_FILENO);
    log_capture();
    greet_with_garbage("pipe");
    ck_assert_ptr_nonnull(strstr(log_text(), "not logged: 1"));
    close(ends[0]);
    close(ends[1]);
    close(standard_error);
    RLRelease(port);
    remove_own_directory();
}

/* Pages of files in memory that this process has mapped, in MiB. */
static long mapped_memory(void) {
    char line[128];
    long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "RssShmem:", 9) == 0) kilobytes = atol(line + 9);
    fclose(file);
    return kilobytes / 1024;
}
static RLDataRef note_mapped_memory(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data;
    *(long *)info = mapped_memory();
    return NULL;
}
RL_TEST(nothing_is_read_before_the_callback, "S-MSG-42",
        "A message in sealed memory, whose datagram may come again and again, takes time for what the callback reads of it and no more") {
    use_own_directory();
    long mapped = -1;
    RLMessagePortContext context = {.info = &mapped};
    RLMessagePortRef port = RLMessagePortCreateLocal("unmapped", note_mapped_memory, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    char *bytes = calloc(32, MIB);
    int memory = memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    ck_assert_int_eq(write(memory, bytes, 32 * MIB), 32 * MIB);
    ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
    free(bytes);
    int fd = greet_raw("unmapped");
    Header header = header_of(2, 0, 32 * MIB);
    header.flags = 1;
    long before = mapped_memory();
    send_memory(fd, header, memory);
    serve_all();
    ck_assert_int_ge(mapped, 0);
    ck_assert_int_lt(mapped, before + 4);
    close(memory);
    close(fd);
    RLRelease(source);
    RLRelease(port);
    remove_own_directory();
}

static bool send_part_if_room(int fd, int memory) {
    Header header = part_of(8, 0, place_size);
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&header, sizeof header};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(item), &memory, sizeof memory);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

RL_TEST(begun_messages_hold_so_much_and_no_more, "S-MSG-42",
        "However many peers begin messages in parts and however often they send the same place, a port takes 256 MiB for them; "
        "those who stop give it up to the one who goes on") {
    enum { PEERS = 8 };
    use_own_directory();
    RLMessagePortRef port = add_summing_port("begun");
    int memory = kept_memory(4096 + 8 * 512 * 1024, 0, "x"), fds[PEERS];
    serve_all();
    log_capture();
    long before = own_memory();
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("begun");
        begin_parts(fds[i], 0x60000000);
        for (int part = 0; part < 128; part++) {
            while (!send_part_if_room(fds[i], memory)) serve_all();
        }
        serve_all();
        ck_assert_int_lt(own_memory(), before + 256 + 32);
    }
    /* What the header of a begun message says costs nothing. */
    int more[40];
    long now = own_memory();
    for (int i = 0; i < 40; i++) {
        more[i] = greet_raw("begun");
        begin_parts(more[i], 0x60000000);
    }
    serve_all();
    ck_assert_int_lt(own_memory(), now + 16);
    for (int i = 0; i < 40; i++) close(more[i]);
    /* A peer that behaves is served as soon as the others have been still for a while. */
    RLMessagePortRef remote = RLMessagePortCreateRemote("begun");
    char *bytes = calloc(1, 32 * MIB);
    bytes[0] = 9;
    int32_t code;
    do {
        code = RLMessagePortSendRequest(remote, 1, bytes, 32 * MIB, 60, 60, "m", NULL);
    } while (code == kRLMessagePortTransportError);
    ck_assert_int_eq(code, kRLMessagePortSuccess);
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    serve_all();
    ck_assert_int_lt(own_memory(), before + 64);
    free(bytes);
    close(memory);
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

static void begin_with_descriptors(int fd, int descriptor, int count) {
    Header header = header_of(2, 5, 1000);
    header.flags = 2 | 4;
    header.descriptors = (uint32_t)count;
    char control[CMSG_SPACE(128 * sizeof(int))] = {0};
    struct iovec part = {&header, sizeof header};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) memcpy(CMSG_DATA(item) + (size_t)i * sizeof(int), &descriptor, sizeof descriptor);
    ck_assert_int_gt(sendmsg(fd, &message, MSG_NOSIGNAL), 0);
}

RL_TEST(begun_messages_hold_so_many_descriptors, "S-MSG-42",
        "Messages that were begun with descriptors hold 256 of them in a port; one that finds no room fails, and its peer "
        "goes on") {
    enum { PEERS = 9 };
    static const uint32_t bytes = 0;
    use_own_directory();
    RLMessagePortRef port = add_summing_port("held");
    serve_all();
    log_capture();
    int before = count_descriptors(), fds[PEERS];
    int memory = kept_memory(4096 + 8 * 512 * 1024, 0, "x");
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("held");
        begin_with_descriptors(fds[i], memory, 101);
    }
    serve_all();
    ck_assert_int_le(count_descriptors(), before + 1 + 2 * PEERS + 256);
    /* The last one is answered with a failure when it is whole. */
    send_memory(fds[PEERS - 1], part_of(8, 0, 1000), memory);
    serve_all();
    Header reply;
    int none;
    ck_assert_int_eq(receive_raw(fds[PEERS - 1], &reply, &none), sizeof reply);
    ck_assert_int_eq(reply.kind, 3);
    ck_assert_int_eq(reply.number, 1);
    send_raw(fds[PEERS - 1], header_of(2, 6, 0), "");
    serve_all();
    ck_assert_int_eq(receive_raw(fds[PEERS - 1], &reply, &none), sizeof reply + sizeof bytes);
    ck_assert_int_eq(reply.number, 0);
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    close(memory);
    serve_all();
    ck_assert_int_eq(count_descriptors(), before);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(what_comes_with_lost_data_is_closed, "S-MSG-42 S-ARG-10",
        "The descriptors of a message whose data found no descriptor are closed when it is answered with a failure") {
    use_own_directory();
    RLMessagePortRef port = add_summing_port("lost");
    int fd = greet_raw("lost"), memory = kept_memory(4096 + 8 * 512 * 1024, 0, "x"), none;
    serve_all();
    log_capture();
    int before = count_descriptors();
    begin_with_descriptors(fd, memory, 100);
    serve_all();
    ck_assert_int_eq(count_descriptors(), before + 100);
    struct rlimit old, limit;
    getrlimit(RLIMIT_NOFILE, &old);
    limit = old;
    int lowest = dup(0);
    close(lowest);
    limit.rlim_cur = (rlim_t)lowest;
    setrlimit(RLIMIT_NOFILE, &limit);
    send_memory(fd, part_of(8, 0, 1000), memory);
    serve_all();
    setrlimit(RLIMIT_NOFILE, &old);
    Header reply;
    ck_assert_int_eq(receive_raw(fd, &reply, &none), sizeof reply);
    ck_assert_int_eq(reply.number, 1);
    ck_assert_int_eq(count_descriptors(), before);
    close(fd), close(memory);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(connections_leave_descriptors_over, "S-MSG-42 S-ARG-9 S-ARG-10",
        "A crowd of connections gets half of the descriptors that the process may have; who was there before is served; the line about it does "
        "not wait for standard error") {
    static Service service = {.reply = "yes"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "crowd", "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote("crowd");
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "yes");
    int before = count_descriptors(), ready[2];
    make_pipe(ready);
    pid_t crowd = fork();
    if (crowd == 0) {
        for (int i = 0; i < 250; i++) connect_raw("crowd");
        write_byte(ready[1]);
        for (;;) pause();
    }
    read_byte(ready[0]);
    close(ready[0]), close(ready[1]);
    struct rlimit old, limit;
    getrlimit(RLIMIT_NOFILE, &old);
    limit = old;
    limit.rlim_cur = 300;
    setrlimit(RLIMIT_NOFILE, &limit);
    int ends[2], standard_error = fill_standard_error(ends);
    serve_all();
    dup2(standard_error, STDERR_FILENO);
    close(ends[0]), close(ends[1]), close(standard_error);
    ck_assert_int_eq(count_descriptors(), before + 149);
    log_capture();
    for (int i = 0; i < 3; i++) {
        int refused = connect_raw("crowd");
        serve_all();
        close(refused);
    }
    ck_assert_int_eq(log_count(), 1);
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "yes");
    kill(crowd, SIGKILL);
    ck_assert_int_eq(waitpid(crowd, NULL, 0), crowd);
    serve_all();
    ck_assert_int_eq(count_descriptors(), before);
    setrlimit(RLIMIT_NOFILE, &old);
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

/* Slow peers: how many parts came by places is counted, for the clock of a busy machine proves nothing. */

typedef struct SlowPeer {
    int fd;
    double pause;
    int parts, rests;
    uint64_t length, got;
} SlowPeer;
/* Takes one message in parts and gives each place back after a pause. */
static void take_slowly(void *argument) {
    SlowPeer *self = argument;
    do {
        Header header;
        int memory;
        if (receive_raw(self->fd, &header, &memory) <= 0) return;
        if (header.kind != 4) {
            self->length = header.length;
            continue;
        }
        self->got += header.length;
        if (header.flags == 8) {
            self->parts++;
            take_time(self->pause);
            give_back_raw(memory, header.number);
        } else {
            self->rests++;
        }
        close(memory);
    } while (self->got < self->length);
}

static RLDataRef reply_long(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)data, (void)info;
    size_t length = (size_t)msgid * MIB;
    char *bytes = calloc(1, length);
    RLDataRef reply = RLDataCreate(bytes, length);
    free(bytes);
    return reply;
}

RL_TEST(a_slow_taker_holds_no_server, "S-MSG-42",
        "A peer that gives places back slowly gets the rest of a long reply at once, in memory of its own") {
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("slow", reply_long, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    SlowPeer peer = {.fd = greet_raw("slow"), .pause = 0.012};
    Header request = header_of(2, 1, 0);
    request.number = 64;
    send_raw(peer.fd, request, "");
    Thread *thread = thread_start(take_slowly, &peer);
    expect_run("m", 60, true, HandledSource);
    thread_join(thread);
    ck_assert_uint_eq(peer.got, 64 * MIB);
    ck_assert_int_eq(peer.rests, 1);
    ck_assert_int_lt(peer.parts, 40);
    /* What is longer lies in memory that the receiver need not copy. */
    request.number = 65;
    send_raw(peer.fd, request, "");
    expect_run("m", 60, true, HandledSource);
    Header reply;
    int memory;
    ck_assert_int_eq(receive_raw(peer.fd, &reply, &memory), sizeof reply);
    ck_assert_int_eq(reply.flags, 1);
    ck_assert_uint_eq(reply.length, 65 * MIB);
    close(memory);
    close(peer.fd);
    RLRelease(source);
    RLRelease(port);
    remove_own_directory();
}

static void accept_and_take(void *argument) {
    SlowPeer *self = argument;
    int listener = self->fd;
    self->fd = accept(listener, NULL, NULL);
    Header hello;
    int none;
    receive_raw(self->fd, &hello, &none);
    take_slowly(self);
}

RL_TEST(the_send_timeout_is_for_all_waits, "S-MSG-23 S-MSG-42",
        "With no send timeout a long request waits for no place, however soon the peer would give it back") {
    static const double timeouts[] = {0, 0.02};
    for (int i = 0; i < 2; i++) {
        use_own_directory();
        SlowPeer peer = {.fd = listen_raw("peer"), .pause = 0.004};
        int listener = peer.fd;
        Thread *thread = thread_start(accept_and_take, &peer);
        RLMessagePortRef remote = RLMessagePortCreateRemote("peer");
        ck_assert_ptr_nonnull(remote);
        char *bytes = calloc(1, 32 * MIB);
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, 32 * MIB, timeouts[i], 0, NULL, NULL), kRLMessagePortSuccess);
        free(bytes);
        thread_join(thread);
        ck_assert_uint_eq(peer.got, 32 * MIB);
        ck_assert_int_eq(peer.rests, 1);
        ck_assert_int_lt(peer.parts, i == 0 ? 30 : 50);
        RLRelease(remote);
        close(peer.fd);
        unlisten_raw(listener, "peer");
        remove_own_directory();
    }
}

static void reply_hollow(void *argument) {
    SlowPeer *self = argument;
    int listener = self->fd, none, memory = hollow_memory(512 * MIB);
    self->fd = accept(listener, NULL, NULL);
    Header header;
    receive_raw(self->fd, &header, &none);
    receive_raw(self->fd, &header, &none);
    Header reply = header_of(3, header.id, 512 * MIB);
    reply.flags = 1;
    send_memory(self->fd, reply, memory);
    self->parts = (int)paid(memory);
    close(memory);
}

RL_TEST(no_socket_that_was_sent_holds_its_closer, "S-MSG-42",
        "A socket that is to wait for its peer in close(2) does not wait there if it came with a message and nobody took it, nor "
        "with what is refused") {
    static Service service = {.reply = "yes"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "lingers", "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote("lingers");
    int fd = lingering_socket(600);
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 1, "x", 1, &fd, 1, 60, 0, NULL, NULL), kRLMessagePortSuccess);
    close(fd);
    /* Where the closer waits, the time of the case is over. */
    ck_assert_str_eq(ask_text(remote, 2, "y", "m"), "yes");
    ck_assert_int_eq(service.calls, 2);
    static const uint8_t kinds[] = {2, 3, 4};
    for (int i = 0; i < 3; i++) {
        int raw = greet_raw("lingers");
        Header header = header_of(kinds[i], 0, 5);
        header.flags = kinds[i] == 4 ? 8 : 1;
        fd = lingering_socket(600);
        send_memory(raw, header, fd);
        close(fd);
        while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
        close(raw);
    }
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(no_socket_in_the_queue_of_a_connection_holds_its_closer, "S-MSG-42",
        "A socket that is to wait for its peer in close(2) does not wait there if it lies in a connection that is ended, taken or not") {
    use_own_directory();
    static Service service = {.reply = "yes"};
    RLMessagePortRef port = add_service(&service, "queued", "m");
    /* Behind what ends the connection; an empty datagram between the two is not the end of the queue. */
    int raw = greet_raw("queued"), fd = lingering_socket(600);
    send_raw(raw, header_of(99, 0, 0), "");
    ck_assert_int_eq(send(raw, "", 0, 0), 0);
    send_memory(raw, header_of(2, 0, 5), fd);
    close(fd);
    while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
    close(raw);
    RLMessagePortRef remote = RLMessagePortCreateRemote("queued");
    ck_assert_str_eq(ask_text(remote, 2, "y", "m"), "yes");
    RLRelease(remote);
    /* In a connection that nobody accepts any more. */
    raw = connect_raw("queued"), fd = lingering_socket(600);
    send_memory(raw, header_of(2, 0, 5), fd);
    close(fd);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    ck_assert(is_closed(raw));
    close(raw);
    remove_own_directory();
}

RL_TEST(no_socket_within_a_socket_holds_its_closer, "S-MSG-42",
        "Nor where it is queued in a local socket that came with a message or lies in the queue of a connection, however deep") {
    use_own_directory();
    static Service service = {.reply = "yes"};
    RLMessagePortRef port = add_service(&service, "nested", "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote("nested");
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        int fd = lingering_socket(600);
        for (int depth = 0; depth < 2; depth++) {
            int pair[2];
            ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
            send_memory(pair[0], header_of(2, 0, 0), fd);
            close(fd);
            close(pair[0]);
            fd = pair[1];
        }
        int raw = greet_raw("nested");
        if (is_refused) send_raw(raw, header_of(99, 0, 0), "");
        Header header = header_of(2, 0, 0);
        header.descriptors = 1;
        send_memory(raw, header, fd);
        close(fd);
        /* Where the closer waits, the time of the case is over. */
        while (is_refused ? !is_closed(raw) : service.calls == 0) RLRunInMode("m", 0.01, true);
        ck_assert_str_eq(ask_text(remote, 2, "y", "m"), "yes");
        close(raw);
    }
    /* The sockets of a peer that uses them on are as they were. */
    int pair[2];
    char byte = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(write(pair[0], "z", 1), 1);
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 1, "x", 1, &pair[1], 1, 60, 60, "m", NULL), kRLMessagePortSuccess);
    ck_assert_int_eq(read(pair[1], &byte, 1), 1);
    ck_assert_int_eq(byte, 'z');
    close(pair[0]), close(pair[1]);
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(those_who_asked_once_hold_so_much, "S-MSG-42",
        "However many peers get a long reply, a port keeps memory for the replies of 64 connections; what others get is in memory of its own") {
    enum { PEERS = 70, KEPT = 64 };
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("asked", reply_long, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRunInMode("m", 0, true);
    int before = count_descriptors(), fds[PEERS];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PEERS; i++) {
            fds[i] = greet_raw("asked");
            Header request = header_of(2, 1, 0), reply;
            request.number = 1;
            send_raw(fds[i], request, "");
            expect_run("m", 60, true, HandledSource);
            for (uint64_t got = 0; got < MIB;) {
                int memory;
                ck_assert_int_eq(receive_raw(fds[i], &reply, &memory), sizeof reply);
                if (i >= KEPT) ck_assert_int_eq(reply.flags, 1);
                if (memory >= 0) got += reply.length;
                close(memory);
            }
        }
        ck_assert_int_eq(count_descriptors(), before + 2 * PEERS + KEPT);
        for (int i = 0; i < PEERS; i++) close(fds[i]);
        serve_all();
        ck_assert_int_eq(count_descriptors(), before);
    }
    RLRelease(source);
    RLRelease(port);
    remove_own_directory();
}

static bool refuses_ioctl;
int ioctl(int fd, unsigned long request, ...) {
    if (refuses_ioctl) {
        errno = EPERM;
        return -1;
    }
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

enum { HUGE_LENGTH = 200 << 20 };
static RLDataRef reply_huge(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data;
    return (RLDataRef)RLRetain(*(RLDataRef *)info);
}
RL_TEST(replies_that_are_taken_hold_nothing, "S-MSG-42 S-ARG-11",
        "Replies that the peer has taken leave room for further ones, however long all of them are together, also where ioctl(2) is refused") {
    use_own_directory();
    void *bytes = calloc(1, HUGE_LENGTH);
    RLDataRef huge = RLDataCreate(bytes, HUGE_LENGTH);
    free(bytes);
    RLMessagePortContext context = {.info = &huge};
    RLMessagePortRef port = RLMessagePortCreateLocal("huge", reply_huge, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    int raw = greet_raw("huge");
    refuses_ioctl = true;
    /* Together longer than the longest message. */
    for (int i = 0; i < 9; i++) {
        send_raw(raw, header_of(2, 1, 0), "");
        expect_run("m", 60, true, HandledSource);
        for (uint64_t got = 0; got < HUGE_LENGTH;) {
            Header reply;
            int memory;
            ck_assert_int_eq(receive_raw(raw, &reply, &memory), sizeof reply);
            ck_assert_msg(reply.number == 0 || reply.kind == 4, "reply %d after %llu bytes: kind %d, number %d", i, (unsigned long long)got,
                          (int)reply.kind, (int)reply.number);
            if (memory >= 0) got += reply.length;
            close(memory);
        }
    }
    close(raw);
    RLRelease(source);
    RLRelease(port);
    RLRelease(huge);
    remove_own_directory();
}

RL_TEST(a_hostile_server_is_left, "S-MSG-42 S-MSG-29 S-MSG-18",
        "A reply in memory that does not hold it ends the connection, and the request with an error") {
    use_own_directory();
    SlowPeer peer = {.fd = listen_raw("peer")};
    int listener = peer.fd;
    log_capture();
    Thread *thread = thread_start(reply_hollow, &peer);
    RLMessagePortRef remote = RLMessagePortCreateRemote("peer");
    long before = own_memory();
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL), kRLMessagePortBecameInvalidError);
    ck_assert_int_lt(own_memory(), before + 16);
    thread_join(thread);
    ck_assert_int_eq(log_count(), 1);
    RLRelease(remote);
    close(peer.fd);
    unlisten_raw(listener, "peer");
    remove_own_directory();
}
