/* SPDX-License-Identifier: MIT */
/*
 * Message ports between processes: names, ends, kills, fork, peers that misbehave, descriptors that
 * run out.
 */
#define _GNU_SOURCE
#include "messageport_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

RL_TEST(another_process_is_asked, "S-MSG-1 S-MSG-3 S-MSG-6 S-MSG-20 S-MSG-30 S-MSG-41",
        "A request to a port of another process gets its reply, and its name cannot be registered "
        "here: the context of the attempt is not kept") {
    Server server = server_start(port_name("other"), NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("other"));
    ck_assert_ptr_nonnull(remote);
    ck_assert_str_eq(ask_text(remote, 1, "over there", "m"), "over there");
    bool freed = false;
    Service service = {0};
    RLMessagePortContext context = service_context(&service, true);
    ck_assert_ptr_null(RLMessagePortCreateLocal(port_name("other"), NULL, &context, &freed));
    ck_assert(freed);
    ck_assert_int_eq(service.releases, service.retains);
    RLRelease(remote);
    server_kill(&server);
}

static char *filled(size_t length) {
    char *bytes = malloc(length);
    for (size_t i = 0; i < length; i++) bytes[i] = (char)(i * 7 + i / 4096);
    return bytes;
}

RL_TEST(large_messages_between_processes, "S-MSG-1 S-MSG-22",
        "16 MiB go to another process and come back whole") {
    size_t length = 16 << 20;
    char *bytes = filled(length);
    Server server = server_start(port_name("large"), NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("large"));
    RLDataRef data = NULL;
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, length, 60, 60, "m", &data),
                     kRLMessagePortSuccess);
    ck_assert_uint_eq(RLDataGetLength(data), length);
    ck_assert_int_eq(memcmp(RLDataGetBytePtr(data), bytes, length), 0);
    RLRelease(data);
    RLRelease(remote);
    free(bytes);
    server_kill(&server);
}

RL_TEST(a_dead_owners_name_is_free, "S-MSG-39 S-MSG-36 S-MSG-20",
        "A name whose owner was killed has no remotes and can be registered again") {
    int before = count_descriptors();
    Server server = server_start(port_name("dead"), "old", NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("dead"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "old");
    server_kill(&server);
    ck_assert(!RLMessagePortIsValid(remote));
    ck_assert_ptr_null(RLMessagePortCreateRemote(port_name("dead")));
    RLRelease(remote);
    static Service service = {.reply = "new"};
    RLMessagePortRef port = add_service(&service, port_name("dead"), "m");
    remote = RLMessagePortCreateRemote(port_name("dead"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "new");
    RLRelease(remote);
    RLRelease(port);
    /* What stays is the loop's own. */
    ck_assert_int_le(count_descriptors(), before + 2);
}

static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)info;
    ck_assert(!RLMessagePortIsValid(port));
    __atomic_add_fetch(&invalidations, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_dead_owners_remotes_learn_of_it, "S-MSG-36 S-MSG-35",
        "A remote port whose owner is killed calls its invalidation callback by itself, without a "
        "run") {
    Server server = server_start(port_name("learn"), "x", NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("learn"));
    RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
    ck_assert(RLMessagePortIsValid(remote));
    server_kill(&server);
    wait_until_count(&invalidations, 1);
    RLRelease(remote);
    ck_assert_int_eq(count_of(&invalidations), 1);
}

static void end_well(void *value) {
    (void)value;
    _exit(0);
}
static void fork_and_return(RLMessagePortRef port, void *info) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        /* When the thread ends, after all that it does of its own. */
        static pthread_key_t key;
        /* No assertion: another thread may have had the lock of Check's records at the fork. */
        if (pthread_key_create(&key, end_well) != 0 || pthread_setspecific(key, &key) != 0) _exit(1);
        return;
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    note_invalidation(port, info);
}

RL_TEST(the_watching_thread_forks, "S-FORK-4 S-MSG-36",
        "A child that the library's thread makes in an invalidation callback returns from it and ends well, and the parent's thread "
        "watches on") {
    Server servers[2];
    RLMessagePortRef remotes[2];
    for (int i = 0; i < 2; i++) {
        const char *name = port_name(i ? "second" : "first");
        servers[i] = server_start(name, "x", NULL);
        remotes[i] = RLMessagePortCreateRemote(name);
        RLMessagePortSetInvalidationCallBack(remotes[i], fork_and_return);
    }
    for (int i = 0; i < 2; i++) {
        server_kill(&servers[i]);
        wait_until_count(&invalidations, i + 1);
    }
    for (int i = 0; i < 2; i++) RLRelease(remotes[i]);
}

static void note_and_end_thread(RLMessagePortRef port, void *info) {
    note_invalidation(port, info);
    pthread_exit(NULL);
}

RL_TEST(the_watching_thread_is_ended, "S-LOOP-19 S-MSG-36",
        "If invalidation callbacks end the thread that watches for the end of peers, the other ports are watched on, and nothing stays open") {
    Server servers[3];
    RLMessagePortRef remotes[3];
    const char *words[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) servers[i] = server_start(port_name(words[i]), "x", NULL);
    int before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        remotes[i] = RLMessagePortCreateRemote(port_name(words[i]));
        RLMessagePortSetInvalidationCallBack(remotes[i], note_and_end_thread);
    }
    for (int i = 0; i < 3; i++) {
        server_kill(&servers[i]);
        wait_until_count(&invalidations, i + 1);
    }
    while (count_descriptors() > before) take_time(0.001);
    for (int i = 0; i < 3; i++) {
        /* A thread that has ended gives its port back last. */
        while (RLGetRetainCount(remotes[i]) > 1) take_time(0.001);
        RLRelease(remotes[i]);
    }
}

static int lowest_descriptor;
static int limit_descriptors(int more) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)more;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return 0;
}

RL_TEST(a_remote_is_watched_without_descriptors, "S-MSG-46 S-MSG-36",
        "A remote port whose owner is killed calls its invalidation callback by itself though there was no descriptor to watch "
        "it by") {
    for (int left = 0; left < 3; left++) {
        invalidations = 0;
        Server server = server_start(port_name("unwatched"), "x", NULL);
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("unwatched"));
        struct rlimit old;
        getrlimit(RLIMIT_NOFILE, &old);
        lowest_descriptor = dup(0);
        close(lowest_descriptor);
        limit_descriptors(lowest_descriptor + left);
        RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
        setrlimit(RLIMIT_NOFILE, &old);
        server_kill(&server);
        wait_until_count(&invalidations, 1);
        RLRelease(remote);
        ck_assert_int_eq(count_of(&invalidations), 1);
    }
}

static void kill_self(Service *self, RLMessagePortRef port) {
    (void)self, (void)port;
    raise(SIGKILL);
}

RL_TEST(a_death_ends_the_wait, "S-MSG-29",
        "A request whose receiver is killed while it is served ends with BecameInvalidError") {
    Server server = server_start(port_name("suicide"), "x", kill_self);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("suicide"));
    ck_assert_ptr_null(ask_text(remote, 1, "x", "m"));
    ck_assert_int_eq(ask_code, kRLMessagePortBecameInvalidError);
    ck_assert_ptr_null(ask_text(remote, 1, "x", "m"));
    ck_assert_int_eq(ask_code, kRLMessagePortIsInvalid);
    RLRelease(remote);
    server_kill(&server);
}

static void ask_and_exit(void *name) {
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    if (!remote || send_text(remote, 3, "farewell") != kRLMessagePortSuccess) _exit(1);
    _exit(0);
}

RL_TEST(a_dead_senders_message_arrives, "S-MSG-24 S-MSG-13",
        "A message is served though its sender has ended since") {
    static Service service = {.word = "m"};
    static char name[160];
    strcpy(name, port_name("farewell"));
    RLMessagePortRef port = add_service(&service, name, "m");
    ChildResult child = run_child(ask_and_exit, name);
    ck_assert_int_eq(child.status, 0);
    expect_run("m", 60, true, HandledSource);
    expect_trace("m3");
    ck_assert_str_eq(service.text, "farewell");
    RLRelease(port);
}

/* fork */

static RLMessagePortRef inherited_local, inherited_remote;
static void use_inherited_ports(void *name) {
    if (RLMessagePortIsValid(inherited_local) || RLMessagePortIsValid(inherited_remote)) _exit(1);
    if (send_text(inherited_remote, 1, "x") != kRLMessagePortIsInvalid) _exit(2);
    if (RLMessagePortCreateLocal(name, NULL, NULL, NULL)) _exit(3);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    if (!remote || send_text(remote, 9, "from the child") != kRLMessagePortSuccess) _exit(4);
    RLRelease(inherited_local);
    RLRelease(inherited_remote);
    _exit(0);
}

RL_TEST(a_child_does_not_have_its_parents_ports, "S-FORK-1 S-FORK-2 S-MSG-3",
        "In the child of fork the parent's ports are invalid, the name is the parent's, and the "
        "parent's ports go on") {
    static Service service = {.word = "m"};
    static char name[160];
    strcpy(name, port_name("fork"));
    inherited_local = add_service(&service, name, "m");
    inherited_remote = RLMessagePortCreateRemote(name);
    RLMessagePortSetInvalidationCallBack(inherited_remote, note_invalidation);
    ChildResult child = run_child(use_inherited_ports, name);
    ck_assert_int_eq(child.status, 0);
    ck_assert(RLMessagePortIsValid(inherited_remote));
    expect_run("m", 60, true, HandledSource);
    expect_trace("m9");
    ck_assert_int_eq(send_text(inherited_remote, 2, "x"), kRLMessagePortSuccess);
    expect_run("m", 60, true, HandledSource);
    expect_trace("m2");
    ck_assert_int_eq(count_of(&invalidations), 0);
    RLRelease(inherited_remote);
    RLRelease(inherited_local);
}

RL_TEST(a_child_does_not_keep_the_parents_name, "S-MSG-39 S-FORK-1",
        "A name is free once its owner is killed, though the owner's child lives, and remotes "
        "learn of the end") {
    int ready[2];
    make_pipe(ready);
    static char name[160];
    strcpy(name, port_name("orphan"));
    pid_t owner = fork();
    if (owner == 0) {
        RLMessagePortRef port = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
        RLMessagePortRef remote = RLMessagePortCreateRemote(name);
        if (!port || !remote) _exit(1);
        /* The child's fork handlers have run when it is heard of. */
        if (fork() == 0) {
            pid_t self = getpid();
            if (write(ready[1], &self, sizeof self) != sizeof self) _exit(1);
        }
        for (;;) pause();
    }
    pid_t child;
    ck_assert_int_eq(read(ready[0], &child, sizeof child), sizeof child);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    ck_assert(RLMessagePortIsValid(remote));
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    ck_assert(!RLMessagePortIsValid(remote));
    RLMessagePortRef port = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    kill(child, SIGKILL);
    RLRelease(port);
    RLRelease(remote);
}

static pid_t forked = -1;
static void fork_here(Probe *self) {
    (void)self;
    forked = fork();
}
static void answer_late(Service *self, RLMessagePortRef port) {
    (void)self, (void)port;
    take_time(0.1);
}

RL_TEST(a_child_made_while_a_reply_is_waited_for, "S-FORK-1 S-MSG-29",
        "In a child that is made in a callback during a request the request ends with "
        "BecameInvalidError, and the parent gets its reply") {
    static Probe timer = {.action = fork_here};
    Server server = server_start(port_name("during"), "late", answer_late);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("during"));
    add_timer(&timer, date_in(0.01), 0, "m");
    const char *reply = ask_text(remote, 1, "x", "m");
    if (forked == 0) _exit(reply == NULL && ask_code == kRLMessagePortBecameInvalidError ? 0 : 1);
    ck_assert_str_eq(reply, "late");
    int status;
    ck_assert_int_eq(waitpid(forked, &status, 0), forked);
    ck_assert_int_eq(status, 0);
    RLRelease(remote);
    server_kill(&server);
}

static void fork_while_serving(Service *self, RLMessagePortRef port) {
    forked = fork();
    if (forked != 0) return;
    int descriptor;
    RLIndex count = RLMessagePortTakeDescriptors(port, &descriptor, 1);
    _exit(!RLMessagePortIsValid(port) && count == 1 && self->length == 1 ? 0 : 1);
}

RL_TEST(a_child_made_while_a_message_is_served, "S-FORK-1 S-MSG-13",
        "A child that is made in a message callback keeps the message, and the parent replies") {
    static Service service = {.action = fork_while_serving, .reply = "parent"};
    RLMessagePortRef port = add_service(&service, port_name("serving"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("serving"));
    int descriptor = 0, status;
    RLDataRef data = NULL;
    ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 1, "x", 1, &descriptor, 1, 1,
                                                             60, "m", &data),
                     kRLMessagePortSuccess);
    ck_assert_uint_eq(RLDataGetLength(data), 6);
    ck_assert_int_eq(waitpid(forked, &status, 0), forked);
    ck_assert_int_eq(status, 0);
    RLRelease(data);
    RLRelease(remote);
    RLRelease(port);
}

/* Peers that are not this library. */

static void expect_nothing_served(Service *service) {
    int calls = service->calls;
    expect_run("m", 0, true, TimedOut);
    ck_assert_int_eq(service->calls, calls);
}

RL_TEST(the_documented_format_is_served, "S-MSG-13 S-MSG-16",
        "A peer that writes what Docs/wire-format.md says is served and gets its reply") {
    static Service service = {.reply = "yes", .word = "m"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "raw", "m");
    int fd = greet_raw("raw");
    Header request = header_of(2, 77, 3);
    request.number = -5;
    send_raw(fd, request, "abc");
    expect_run("m", 60, true, HandledSource);
    expect_trace("m-5");
    ck_assert_str_eq(service.text, "abc");
    struct {
        Header header;
        char text[8];
    } reply = {0};
    ck_assert_int_eq(recv(fd, &reply, sizeof reply, MSG_DONTWAIT), sizeof(Header) + 3);
    ck_assert_mem_eq(reply.header.magic, "RLMP", 4);
    ck_assert_int_eq(reply.header.kind, 3);
    ck_assert_uint_eq(reply.header.id, 77);
    ck_assert_int_eq(reply.header.number, 0);
    ck_assert_str_eq(reply.text, "yes");
    close(fd);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(garbage_is_dropped, "S-MSG-18 S-ARG-9",
        "A malformed message is dropped with a log line and its connection closed; the port and "
        "its other peers go on") {
    static Service service = {.reply = "fine"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "garbage", "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote("garbage");
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "fine");
    int before = count_descriptors();
    Header bad[12];
    for (int i = 0; i < 12; i++) bad[i] = header_of(2, 1, 3);
    bad[0].magic[0] = 'X';
    bad[1].version = 1;
    bad[2].kind = 9;
    bad[3].kind = 3;
    bad[4].flags = 0x82;
    bad[5].id = 0;
    bad[6].length = 4;
    bad[7].length = UINT64_MAX;
    bad[8].descriptors = 1;
    bad[9].descriptors = 0xffffffff;
    bad[10].reserved = 1;
    bad[11].flags = 3; /* in memory that did not come */
    log_capture();
    for (int i = 0; i < 12; i++) {
        int fd = greet_raw("garbage");
        send_raw(fd, bad[i], "abc");
        expect_nothing_served(&service);
        ck_assert_int_eq(log_count(), i + 1);
        ck_assert(is_closed(fd));
        close(fd);
    }
    int fd = connect_raw("garbage"); /* no greeting */
    send_raw(fd, header_of(2, 1, 3), "abc");
    int wrong = connect_raw("garbage");
    send_raw(wrong, header_of(1, 0, 5), "wrong");
    int shorter = connect_raw("garbage");
    ck_assert_int_eq(send(shorter, "RLMP", 4, 0), 4);
    int twice = greet_raw("garbage");
    send_raw(twice, header_of(1, 0, 7), "garbage");
    expect_nothing_served(&service);
    ck_assert_int_eq(log_count(), 12 + 4);
    ck_assert(is_closed(fd) && is_closed(wrong) && is_closed(shorter) && is_closed(twice));
    close(fd), close(wrong), close(shorter), close(twice);
    ck_assert_int_eq(count_descriptors(), before);
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "fine");
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(memory_that_can_change_is_refused, "S-MSG-18",
        "Memory that is not sealed, or not of the length told, is refused, and no descriptor is "
        "left") {
    static Service service;
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "memory", "m");
    expect_run("m", 0, true, TimedOut);
    log_capture();
    int before = count_descriptors();
    for (int kind = 0; kind < 4; kind++) {
        int memory = memfd_create("test", MFD_ALLOW_SEALING), ends[2];
        ck_assert_int_eq(ftruncate(memory, 8192), 0);
        if (kind != 0) fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK);
        Header header = header_of(2, 1, kind == 1 ? 1 << 20 : 8192);
        header.flags = 3;
        make_pipe(ends);
        int fd = greet_raw("memory");
        send_memory(fd, header, kind == 2 ? ends[0] : memory);
        if (kind == 3) {
            expect_run("m", 60, true, HandledSource);
            ck_assert_uint_eq(service.length, 8192);
        } else {
            expect_nothing_served(&service);
            ck_assert_int_eq(log_count(), kind + 1);
        }
        close(memory), close(fd), close(ends[0]), close(ends[1]);
        expect_run("m", 0, true, TimedOut);
        ck_assert_int_eq(count_descriptors(), before);
    }
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(parts_make_a_message, "S-MSG-13 S-MSG-14 S-MSG-18",
        "A message that comes in parts as Docs/wire-format.md says is served once it is whole, its "
        "places are given back, and one that was begun and given up is forgotten") {
    static Service service;
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "parts", "m");
    expect_run("m", 0, true, TimedOut);
    int before = count_descriptors();
    int fd = greet_raw("parts"), memory = kept_memory(4096 + 8 * 512 * 1024, 7, "abc");
    int rest = memfd_create("rest", MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(rest, "de", 2), 2);
    begin_parts(fd, 100);
    send_memory(fd, part_of(8, 7, 3), memory);
    begin_parts(fd, 5);
    send_memory(fd, part_of(8, 7, 3), memory);
    expect_nothing_served(&service);
    send_raw(fd, header_of(2, 0, 2), "hi"); /* a message of another thread */
    expect_run("m", 60, true, HandledSource);
    ck_assert_str_eq(service.text, "hi");
    send_memory(fd, part_of(1, 0, 2), rest);
    expect_run("m", 60, true, HandledSource);
    ck_assert_str_eq(service.text, "abcde");
    ck_assert_uint_eq(service.length, 5);
    uint32_t taken = 1;
    ck_assert_int_eq(pread(memory, &taken, sizeof taken, 64 * 7), sizeof taken);
    ck_assert_uint_eq(taken, 0);
    begin_parts(fd, 1000000000); /* the end of the connection is the end of it */
    close(fd), close(memory), close(rest);
    expect_run("m", 0, true, TimedOut);
    ck_assert_int_eq(count_descriptors(), before);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(wrong_parts_are_refused, "S-MSG-18 S-ARG-9",
        "Parts of nothing, of more than is left, of no such place, in memory that is too short or "
        "in no memory are refused with a log line, and no descriptor is left") {
    static Service service;
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "wrong", "m");
    expect_run("m", 0, true, TimedOut);
    log_capture();
    int before = count_descriptors();
    for (int kind = 0; kind < 6; kind++) {
        int fd = greet_raw("wrong"), ends[2];
        int memory = kept_memory(kind == 4 ? 4096 : 4096 + 8 * 512 * 1024, 0, "abc");
        make_pipe(ends);
        if (kind > 0) begin_parts(fd, 3);
        Header part = part_of(kind == 5 ? 9 : 8, kind == 2 ? 8 : 0, kind == 1 ? 4 : 3);
        send_memory(fd, part, kind == 3 ? ends[0] : memory);
        expect_nothing_served(&service);
        ck_assert_int_eq(log_count(), kind + 1);
        ck_assert(is_closed(fd));
        close(fd), close(memory), close(ends[0]), close(ends[1]);
        ck_assert_int_eq(count_descriptors(), before);
    }
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(who_does_not_read_costs_little, "S-MSG-18 S-MSG-13",
        "A peer that asks without end and reads no reply gets no more service than fits, and "
        "others are served") {
    static Service service = {.echoes = true};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "deaf", "m");
    int fd = greet_raw("deaf"), sent = 0;
    char bytes[sizeof(Header) + 1000] = {0};
    Header header = header_of(2, 1, 1000);
    memcpy(bytes, &header, sizeof header);
    for (int quiet = 0; quiet < 3;) {
        while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) sent++;
        int calls = service.calls;
        while (RLRunInMode("m", 0, true) == kRLRunHandledSource) continue;
        quiet = service.calls == calls ? quiet + 1 : 0;
        ck_assert_int_lt(sent, 100000);
    }
    int calls = service.calls;
    ck_assert_int_lt(calls, sent);
    RLMessagePortRef remote = RLMessagePortCreateRemote("deaf");
    ck_assert_str_eq(ask_text(remote, 1, "others", "m"), "others");
    ck_assert_int_eq(service.calls, calls + 1);
    /* As soon as it reads, it goes on; all that was sent is served in the end. */
    int replies = 0;
    char reply[2000];
    while (replies < sent) {
        while (recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0) replies++;
        RLRunInMode("m", 0, true);
    }
    ck_assert_int_eq(service.calls, sent + 1);
    close(fd);
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

static bool as_nobody(const char *name) {
    int result[2];
    make_pipe(result);
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        int fd = connect_raw(name);
        write_byte(result[1]);
        char byte;
        _exit(recv(fd, &byte, 1, 0) <= 0 ? 0 : 1);
    }
    read_byte(result[0]);
    expect_run("m", 0, true, TimedOut);
    int status;
    waitpid(child, &status, 0);
    return status == 0;
}

RL_TEST(other_users_are_refused, "S-MSG-1",
        "A peer of another user is closed with a log line and costs nothing (needs root to try)") {
    static Service service;
    if (geteuid() != 0) return;
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "mine alone", "m");
    expect_run("m", 0, true, TimedOut);
    char path[160];
    snprintf(path, sizeof path, "%s/runloop", directory);
    chmod(directory, 0711), chmod(path, 0711);
    path_of("mine alone", ".port", path, sizeof path);
    chmod(path, 0777);
    int before = count_descriptors();
    log_capture();
    ck_assert(as_nobody("mine alone"));
    ck_assert_int_eq(log_count(), 1);
    ck_assert_ptr_nonnull(strstr(log_text(), "user 65534"));
    ck_assert_int_le(count_descriptors(), before + 2);
    ck_assert_int_eq(service.calls, 0);
    snprintf(path, sizeof path, "%s/runloop", directory);
    chmod(path, 0700);
    RLRelease(port);
    remove_own_directory();
}

RL_TEST(a_name_with_the_same_digest_is_not_meant, "S-MSG-5",
        "A lock file of another name does not answer for this one") {
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("asked", NULL, NULL, NULL);
    char path[160];
    path_of("asked", ".lock", path, sizeof path);
    int file = open(path, O_WRONLY | O_TRUNC);
    ck_assert_int_eq(write(file, "other", 5), 5);
    close(file);
    ck_assert_ptr_null(RLMessagePortCreateRemote("asked"));
    RLRelease(port);
    remove_own_directory();
}

/* Exhaustion */

RL_TEST(every_creation_without_descriptors, "S-ARG-10 S-MSG-6 S-MSG-3",
        "With 0, 1, 2 and more descriptors left, a port or remote port is made whole or not at "
        "all, and none is left behind") {
    RLMessagePortRef other = RLMessagePortCreateLocal(port_name("target"), NULL, NULL, NULL);
    log_capture();
    int made = 0, before = count_descriptors();
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    /* The lowest number that is free is the limit with no descriptor left. */
    int lowest = dup(0);
    close(lowest);
    for (int left = 0; left < 6; left++) {
        bool freed = false;
        limit_descriptors(lowest + left);
        RLMessagePortRef port = RLMessagePortCreateLocal(port_name("few"), NULL, NULL, &freed);
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("target"));
        setrlimit(RLIMIT_NOFILE, &old);
        ck_assert(freed == (port == NULL));
        if (port) made++;
        if (remote) {
            made++;
            ck_assert(RLMessagePortIsValid(remote));
        }
        RLRelease(remote);
        RLRelease(port);
        ck_assert_int_eq(count_descriptors(), before);
    }
    ck_assert_int_ge(made, 2);
    ck_assert_int_lt(made, 12);
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("few"), NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    RLRelease(port);
    RLRelease(other);
}

static void leave_none(Probe *self) {
    (void)self;
    limit_descriptors(lowest_descriptor);
}

RL_TEST(a_large_message_without_a_descriptor, "S-MSG-22 S-ARG-10",
        "A large message that finds no descriptor here is a transport error, and the port goes "
        "on") {
    static Service service = {.reply = "ok"};
    RLMessagePortRef port = add_service(&service, port_name("large"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("large"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "ok");
    char *bytes = filled(100000);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    int lowest = dup(0);
    close(lowest);
    limit_descriptors(lowest);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, 100000, 1, 60, "m", NULL),
                     kRLMessagePortTransportError);
    ck_assert_int_eq(service.calls, 1);
    /* One for the sender and none for the receiver: the request ends with an error, and does not
     * hang. */
    static Probe observer = {.action = leave_none};
    lowest_descriptor = lowest;
    limit_descriptors(lowest + 1);
    RLObserverRef leaving = add_observer(&observer, kRLBeforeTimers, "m");
    log_capture();
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, 100000, 1, 60, "m", NULL),
                     kRLMessagePortTransportError);
    ck_assert_int_eq(log_count(), 1);
    RLObserverInvalidate(leaving);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, 100000, 1, 60, "m", NULL),
                     kRLMessagePortSuccess);
    ck_assert_int_eq(service.calls, 2);
    free(bytes);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(no_room_for_files, "S-MSG-6 S-MSG-22 S-ARG-10",
        "Without room for a file a name is not registered and a large message is an error; both "
        "work once there is room") {
    static Service service = {.reply = "ok"};
    RLMessagePortRef port = add_service(&service, port_name("room"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("room"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "ok");
    char *bytes = filled(100000);
    struct rlimit old, none;
    getrlimit(RLIMIT_FSIZE, &old);
    none = old;
    none.rlim_cur = 0;
    signal(SIGXFSZ, SIG_IGN);
    int before = count_descriptors();
    setrlimit(RLIMIT_FSIZE, &none);
    RLMessagePortRef other = RLMessagePortCreateLocal(port_name("no room"), NULL, NULL, NULL);
    bool renamed = RLMessagePortSetName(port, port_name("no room"));
    int32_t code = RLMessagePortSendRequest(remote, 1, bytes, 100000, 1, 60, "m", NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    ck_assert_ptr_null(other);
    ck_assert(!renamed);
    ck_assert_int_eq(code, kRLMessagePortTransportError);
    ck_assert_int_eq(count_descriptors(), before);
    ck_assert_str_eq(RLMessagePortGetName(port), port_name("room"));
    other = RLMessagePortCreateLocal(port_name("no room"), NULL, NULL, NULL);
    ck_assert_ptr_nonnull(other);
    code = RLMessagePortSendRequest(remote, 1, bytes, 100000, 1, 60, "m", NULL);
    ck_assert_int_eq(code, kRLMessagePortSuccess);
    free(bytes);
    RLRelease(other);
    RLRelease(remote);
    RLRelease(port);
}

static struct rlimit old_limit;
static void restore_limit(Probe *self) {
    (void)self;
    setrlimit(RLIMIT_NOFILE, &old_limit);
}

RL_TEST(a_connection_is_taken_in_another_mode, "S-ARG-10",
        "A connection that found no descriptor in one mode is taken in another mode of the port's source, though the first never runs again") {
    static Service service;
    RLMessagePortRef port = add_service(&service, port_name("modes"), "m");
    RLAddSource(RLGetCurrent(), service.source, "n");
    expect_run("m", 0, true, TimedOut);
    expect_run("n", 0, true, TimedOut);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("modes"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    getrlimit(RLIMIT_NOFILE, &old_limit);
    int lowest = dup(0);
    close(lowest);
    log_capture();
    limit_descriptors(lowest);
    while (log_count() == 0) RLRunInMode("m", 0.01, true);
    setrlimit(RLIMIT_NOFILE, &old_limit);
    while (service.calls == 0) RLRunInMode("n", 60, true);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(a_connection_waits_for_a_descriptor, "S-ARG-10",
        "A connection that finds no descriptor waits for one without spinning, and is served "
        "then") {
    static Service service = {.reply = "late"};
    static Probe timer = {.action = restore_limit}, passes = {.name = NULL};
    RLMessagePortRef port = add_service(&service, port_name("waits"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("waits"));
    expect_run("m", 0, true, TimedOut);
    RLRelease(remote);
    expect_run("m", 0, true, TimedOut);
    remote = RLMessagePortCreateRemote(port_name("waits"));
    add_timer(&timer, date_in(0.3), 0, "m");
    add_observer(&passes, kRLBeforeWaiting, "m");
    getrlimit(RLIMIT_NOFILE, &old_limit);
    int lowest = dup(0);
    close(lowest);
    log_capture();
    limit_descriptors(lowest);
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "late");
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq(timer.calls, 1);
    ck_assert_int_lt(passes.calls, 50);
    RLRelease(remote);
    RLRelease(port);
}

/* Asks the kernel without a descriptor more. */
static int count_threads(int status) {
    char text[4096];
    ssize_t size = pread(status, text, sizeof text - 1, 0);
    ck_assert_int_gt(size, 0);
    text[size] = 0;
    return atoi(strstr(text, "Threads:") + strlen("Threads:"));
}

RL_TEST(one_thread_waits_for_a_descriptor, "S-ARG-10",
        "While a connection waits for a descriptor a port that serves others has one thread for it, not one for each message") {
    static Service service = {.reply = "yes"};
    RLMessagePortRef port = add_service(&service, port_name("crowded"), "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("crowded"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "yes");
    const char *name = port_name("crowded");
    int ready[2], status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    make_pipe(ready);
    pid_t other = fork();
    if (other == 0) {
        RLMessagePortRef waiting = RLMessagePortCreateRemote(name);
        write_byte(ready[1]);
        while (waiting) pause();
        _exit(1);
    }
    read_byte(ready[0]);
    int before = count_threads(status), most = 0;
    getrlimit(RLIMIT_NOFILE, &old_limit);
    int lowest = dup(0);
    close(lowest);
    log_capture();
    limit_descriptors(lowest);
    for (int i = 0; i < 500; i++) {
        ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "yes");
        int count = count_threads(status);
        most = count > most ? count : most;
    }
    setrlimit(RLIMIT_NOFILE, &old_limit);
    ck_assert_int_eq(log_count(), 1);
    /* One that waits, and one that is about to end. */
    ck_assert_int_le(most, before + 2);
    kill(other, SIGKILL);
    ck_assert_int_eq(waitpid(other, NULL, 0), other);
    close(status), close(ready[0]), close(ready[1]);
    RLRelease(remote);
    RLRelease(port);
}

/* The number that the kernel shows for all users without one in the process's user namespace. */
enum { NOBODY = 65534 };
static void use_names(bool is_possible) {
    RLMessagePortRef port = RLMessagePortCreateLocal("of nobody", NULL, NULL, NULL);
    if ((port != NULL) != is_possible) _exit(1);
    RLMessagePortRef remote = RLMessagePortCreateRemote("of nobody");
    if ((remote != NULL) != is_possible) _exit(2);
    _exit(port && !RLMessagePortIsValid(port) ? 3 : 0);
}
static void use_names_without_number(void *unused) {
    (void)unused;
    if (syscall(SYS_unshare, CLONE_NEWUSER) != 0 || geteuid() != NOBODY) _exit(77);
    use_names(false);
}
static void use_names_as_nobody(void *directory) {
    if (chown(directory, NOBODY, NOBODY) != 0 || setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0) _exit(77);
    use_names(true);
}

RL_TEST(a_user_without_a_number, "S-MSG-55", "A process whose user has no number in its user namespace has no names; that of the user with the same number has") {
    char directory[] = "/tmp/rl-nobody.XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    setenv("XDG_RUNTIME_DIR", directory, 1);
    for (int has_number = 0; has_number < 2; has_number++) {
        ChildResult result = run_child(has_number ? use_names_as_nobody : use_names_without_number, directory);
        ck_assert_msg(result.status == 0 || (WIFEXITED(result.status) && WEXITSTATUS(result.status) == 77), "status %#x, and it said: %s",
                      result.status, result.output);
    }
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    ck_assert_int_eq(system(command), 0);
}
