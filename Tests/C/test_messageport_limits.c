/* SPDX-License-Identifier: MIT */
/*
 * Message ports at the limits: of file sizes, of memory, of lengths; calls that are interrupted or made on a cancelled thread;
 * a directory for names that changes.
 */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "system_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 100000 };
static char long_bytes[LONG];

static void limit_file_size(rlim_t size) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = size;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
}

static bool is_pending(int number) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, number);
}

static void send_without_file_size(void *name) {
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    limit_file_size(0);
    if (RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 1, 1, NULL, NULL) != kRLMessagePortTransportError) _exit(1);
    if (RLMessagePortCreateLocal(port_name("no-size"), NULL, NULL, NULL)) _exit(2);
    /* Enough for a message of its own, too little for kept memory. */
    limit_file_size(LONG);
    if (RLMessagePortSendRequest(remote, 2, long_bytes, LONG, 1, 1, NULL, NULL) != kRLMessagePortSuccess) _exit(3);
    /* A signal that the program keeps pending stays so. */
    limit_file_size(0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 1, 1, NULL, NULL) != kRLMessagePortTransportError) _exit(4);
    if (is_pending(SIGXFSZ)) _exit(5);
    raise(SIGXFSZ);
    if (RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 1, 1, NULL, NULL) != kRLMessagePortTransportError) _exit(6);
    _exit(is_pending(SIGXFSZ) ? 0 : 7);
}

RL_TEST(the_limit_of_file_sizes_ends_no_sender, "S-MSG-43 S-MSG-22",
        "A sender whose files may not grow gets an error code and lives, and keeps the SIGXFSZ that is its own") {
    static Service service;
    static char name[160];
    strcpy(name, port_name("fsize"));
    RLMessagePortRef port = add_service(&service, name, "m");
    ChildResult child = run_child(send_without_file_size, name);
    ck_assert_int_eq(child.status, 0);
    expect_run("m", 60, true, HandledSource);
    ck_assert_int_eq(service.msgid, 2);
    ck_assert_uint_eq(service.length, LONG);
    RLRelease(port);
}

static void limit_own_file_size(Service *self, RLMessagePortRef port) {
    (void)self, (void)port;
    limit_file_size(0);
}

RL_TEST(the_limit_of_file_sizes_ends_no_receiver, "S-MSG-43",
        "A receiver whose files may not grow takes long messages in parts and lives") {
    Server server = server_start(port_name("receiver"), "ok", limit_own_file_size);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("receiver"));
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 60, 60, "m", NULL), kRLMessagePortSuccess);
    }
    RLRelease(remote);
    server_kill(&server);
}

/* Memory that the kernel does not have. */

static int rooms, rooms_until_failure;
static bool refuse_room(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_fallocate || ++rooms <= rooms_until_failure) return false;
    errno = ENOSPC;
    *result = -1;
    return true;
}

RL_TEST(memory_is_taken_before_it_is_written_to, "S-MSG-43",
        "Kept memory that the kernel has no pages for is not written to: a message goes another way, whichever place is the first") {
    static Service service = {.echoes = true};
    RLMessagePortRef port = add_service(&service, port_name("pages"), "m");
    size_t length = 5 << 20;
    char *bytes = calloc(1, length);
    for (int allowed = 0; allowed < 24; allowed += allowed < 4 ? 1 : 5) {
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("pages"));
        rooms = 0;
        rooms_until_failure = allowed;
        hook_system_calls(refuse_room);
        memset(bytes, allowed + 1, length);
        RLDataRef data = NULL;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, bytes, length, 60, 60, "m", &data), kRLMessagePortSuccess);
        ck_assert_uint_eq(RLDataGetLength(data), length);
        ck_assert_int_eq(memcmp(RLDataGetBytePtr(data), bytes, length), 0);
        ck_assert_int_gt(rooms, 0);
        RLRelease(data);
        RLRelease(remote);
        RLRunInMode("m", 0, true);
    }
    hook_system_calls(NULL);
    free(bytes);
    RLRelease(port);
}

/* What the kernel refuses in the middle of a reply. */
static int passes_allowed;
static bool refuse_passing(long number, const long argument[6], long *result) {
    if (number != SYS_sendmsg || ((const struct msghdr *)(uintptr_t)argument[1])->msg_controllen == 0 || passes_allowed-- > 0) return false;
    errno = ETOOMANYREFS;
    *result = -1;
    return true;
}

/* More than the memory that a connection keeps holds: the rest is passed in memory of its own, since nobody takes parts meanwhile. */
enum { KEPT_PARTS = 8, LONG_REPLY = 5 << 20 };
static RLDataRef reply_in_parts(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data;
    return RLDataCreate(info, LONG_REPLY);
}

RL_TEST(a_reply_that_cannot_go_on_fails, "S-MSG-42 S-MSG-22",
        "A reply of which some parts, or all but the rest, are sent when the kernel passes no more descriptors is a transport error; the port "
        "stays valid, and the next reply is whole") {
    char *bytes = calloc(1, LONG_REPLY);
    RLMessagePortContext context = {.info = bytes};
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("refused"), reply_in_parts, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("refused"));
    for (int allowed = 0; allowed <= KEPT_PARTS; allowed++) {
        passes_allowed = allowed;
        hook_system_calls(refuse_passing);
        int32_t code = RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL);
        hook_system_calls(NULL);
        ck_assert_int_eq(code, kRLMessagePortTransportError);
        RLDataRef data = NULL;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", &data), kRLMessagePortSuccess);
        ck_assert_uint_eq(RLDataGetLength(data), LONG_REPLY);
        RLRelease(data);
    }
    RLRelease(remote);
    RLRelease(source);
    RLRelease(port);
    free(bytes);
}

static int closes;
static bool count_closes(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_close) __atomic_add_fetch(&closes, 1, __ATOMIC_SEQ_CST);
    return false;
}

RL_TEST(a_full_queue_is_closed_at_its_price, "S-MSG-42",
        "A connection that is ended with a hundred datagrams in its queue, each with a descriptor, costs some calls for each, not hundreds") {
    if (is_left_out_by_emulator("qemu takes in descriptors for which the program has made no room")) return;
    use_own_directory();
    static Service service = {.reply = "yes"};
    RLMessagePortRef port = add_service(&service, "flooded", "m");
    RLRunInMode("m", 0, true);
    int before = count_descriptors(), raw = greet_raw("flooded");
    send_raw(raw, header_of(99, 0, 0), "");
    for (int i = 0; i < 100; i++) send_memory(raw, header_of(2, 0, 5), STDIN_FILENO);
    hook_system_calls(count_closes);
    while (!is_closed(raw)) RLRunInMode("m", 0.01, true);
    hook_system_calls(NULL);
    ck_assert_int_lt(closes, 100 * 40);
    close(raw);
    ck_assert_int_eq(count_descriptors(), before);
    RLRelease(port);
    remove_own_directory();
}

/* Interrupted calls: the one that is due is answered with EINTR in place of the kernel. */

static int calls, interrupted_call;
static bool interrupts(void) { return interrupted_call > 0 && ++calls == interrupted_call; }
static bool interrupt_call(long number, const long argument[6], long *result) {
    (void)argument;
    switch (number) {
    case SYS_read: case SYS_write: case SYS_pread64: case SYS_pwrite64: case SYS_openat: case SYS_connect: case SYS_accept4:
    case SYS_sendmsg: case SYS_recvmsg: case SYS_ppoll: case SYS_epoll_pwait: case SYS_epoll_pwait2: case SYS_clock_nanosleep:
        break;
    default: return false;
    }
    if (!interrupts()) return false;
    errno = EINTR;
    *result = -1;
    return true;
}
int flock(int file, int operation) {
    if (interrupts()) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_flock, file, operation);
}
int ftruncate(int file, off_t length) {
    if (interrupts()) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_ftruncate, file, length);
}
int ftruncate64(int file, off_t length) { return ftruncate(file, length); }

RL_TEST(no_interrupted_call_fails_a_request, "S-MSG-44",
        "Whichever call to the kernel a signal interrupts, ports are made and requests get their replies") {
    int served = 0;
    for (int at = 1;; at++) {
        Service service = {.echoes = true};
        calls = 0;
        interrupted_call = at;
        hook_system_calls(interrupt_call);
        RLMessagePortRef port = add_service(&service, port_name("interrupted"), "m");
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("interrupted"));
        ck_assert_msg(remote != NULL, "with call %d interrupted", at);
        RLDataRef data = NULL;
        ck_assert_str_eq(ask_text(remote, 1, "short", "m"), "short");
        int32_t code = RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 60, 60, "m", &data);
        ck_assert_msg(code == kRLMessagePortSuccess, "with call %d interrupted: %d", at, code);
        ck_assert_uint_eq(RLDataGetLength(data), LONG);
        ck_assert(RLMessagePortSetName(port, port_name("interrupted.2")));
        hook_system_calls(NULL);
        interrupted_call = 0;
        RLRelease(data);
        RLRelease(remote);
        RLRelease(port);
        served++;
        if (calls < at) break;
    }
    ck_assert_int_gt(served, 20);
}

/* What a request costs */

static int receives;
/* Without those of what a look has found, which have room for a byte. */
static bool count_receives(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_recvmsg && ((const struct msghdr *)argument[1])->msg_iov->iov_len > 1) receives++;
    return false;
}

RL_TEST(a_reply_is_received_once, "S-MSG-20 S-MSG-28",
        "A request asks its connection once for the reply, so that none is spent on finding no other") {
    Server server = server_start(port_name("once"), NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("once"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "x");
    for (int i = 0; i < 3; i++) {
        receives = 0;
        hook_system_calls(count_receives);
        ck_assert_str_eq(ask_text(remote, 1, "y", "m"), "y");
        hook_system_calls(NULL);
        ck_assert_int_eq(receives, 1);
    }
    RLRelease(remote);
    server_kill(&server);
}

/* The thread that watches for the end of peers */

static int watchers_waits;
static bool count_waits(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if ((number == SYS_epoll_pwait || number == SYS_epoll_pwait2) && gettid() != getpid())
        __atomic_add_fetch(&watchers_waits, 1, __ATOMIC_SEQ_CST);
    return false;
}

/* What wakes a thread that waits in a set. */
static bool refuses_change;
int epoll_ctl(int set, int operation, int number, struct epoll_event *event) {
    if (operation == EPOLL_CTL_MOD && __atomic_exchange_n(&refuses_change, false, __ATOMIC_SEQ_CST)) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, number, event);
}

static void ignore_end(RLMessagePortRef port, void *info) { (void)port, (void)info; }

RL_TEST(a_watcher_ends_though_it_cannot_be_woken, "S-MSG-36",
        "The thread that watches for the end of peers ends with the last port, also if its wake-up is refused once") {
    Service service = {.echoes = true};
    RLMessagePortRef port = add_service(&service, port_name("watcher"), "m");
    RLRunInMode("m", 0, true);
    int descriptors = count_descriptors();
    for (int i = 0; i < 3; i++) {
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("watcher"));
        __atomic_store_n(&watchers_waits, 0, __ATOMIC_SEQ_CST);
        hook_system_calls(count_waits);
        RLMessagePortSetInvalidationCallBack(remote, ignore_end);
        wait_until_count(&watchers_waits, 1);
        hook_system_calls(NULL);
        __atomic_store_n(&refuses_change, true, __ATOMIC_SEQ_CST);
        RLMessagePortInvalidate(remote);
        ck_assert(!__atomic_load_n(&refuses_change, __ATOMIC_SEQ_CST));
        RLRelease(remote);
        while (count_descriptors() > descriptors) {
            RLRunInMode("m", 0, true);
            take_time(0.001);
        }
    }
    RLRelease(port);
}

/* Names */

static void own_elsewhere(void *name) {
    /* In the second directory. */
    if (!RLMessagePortCreateLocal(name, NULL, NULL, NULL)) _exit(1);
    write_byte(STDOUT_FILENO);
    for (;;) pause();
}

static pid_t start_owner(const char *name) {
    int ready[2];
    make_pipe(ready);
    pid_t owner = fork();
    if (owner == 0) {
        dup2(ready[1], STDOUT_FILENO);
        own_elsewhere((void *)name);
    }
    read_byte(ready[0]);
    close(ready[0]), close(ready[1]);
    return owner;
}
static void end_owner(pid_t owner) {
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
}
static bool exists(const char *name, const char *ending) {
    char path[160];
    path_of(name, ending, path, sizeof path);
    return access(path, F_OK) == 0;
}

RL_TEST(a_name_is_given_back_where_it_was_taken, "S-MSG-45 S-MSG-34",
        "When XDG_RUNTIME_DIR changes while a name is owned, the end of the owner removes its own files and no others") {
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("moved", NULL, NULL, NULL);
    RLMessagePortRef renamed = RLMessagePortCreateLocal("renamed", NULL, NULL, NULL);
    char first[64];
    strcpy(first, directory);
    strcat(directory, "b");
    mkdir(directory, 0700);
    setenv("XDG_RUNTIME_DIR", directory, 1);
    pid_t owner = start_owner("moved");
    ck_assert(RLMessagePortSetName(renamed, "renamed again"));
    RLRelease(port);
    RLRelease(renamed);
    ck_assert(exists("moved", ".lock") && exists("moved", ".port"));
    ck_assert_ptr_null(RLMessagePortCreateLocal("moved", NULL, NULL, NULL));
    RLMessagePortRef remote = RLMessagePortCreateRemote("moved");
    ck_assert_ptr_nonnull(remote);
    RLRelease(remote);
    end_owner(owner);
    port = RLMessagePortCreateLocal("moved", NULL, NULL, NULL);
    RLRelease(port);
    remove_own_directory();
    strcpy(directory, first);
    remove_own_directory();
}

static unsigned permissions(const char *path) {
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    return status.st_mode & 0777;
}

RL_TEST(no_mask_locks_others_out, "S-MSG-47",
        "What a process with a mask for all files makes for a name has the permissions of any other: the next process can use it") {
    static const mode_t masks[] = {0777, 0177, 0};
    for (int i = 0; i < 3; i++) {
        use_own_directory();
        mode_t old = umask(masks[i]);
        RLMessagePortRef port = RLMessagePortCreateLocal("masked", NULL, NULL, NULL);
        umask(old);
        ck_assert_ptr_nonnull(port);
        char path[160];
        snprintf(path, sizeof path, "%s/runloop", directory);
        ck_assert_uint_eq(permissions(path), 0700);
        path_of("masked", ".lock", path, sizeof path);
        ck_assert_uint_eq(permissions(path), 0600);
        path_of("masked", ".port", path, sizeof path);
        ck_assert_uint_eq(permissions(path), 0600);
        RLRelease(port);
        remove_own_directory();
    }
}

RL_TEST(files_of_another_owner_stay, "S-MSG-45",
        "When the directory was emptied while a name was owned and another process has the name since, its files stay") {
    use_own_directory();
    RLMessagePortRef port = RLMessagePortCreateLocal("emptied", NULL, NULL, NULL);
    char path[160];
    path_of("emptied", ".port", path, sizeof path);
    unlink(path);
    path_of("emptied", ".lock", path, sizeof path);
    unlink(path);
    pid_t owner = start_owner("emptied");
    RLRelease(port);
    ck_assert(exists("emptied", ".lock") && exists("emptied", ".port"));
    RLMessagePortRef remote = RLMessagePortCreateRemote("emptied");
    ck_assert_ptr_nonnull(remote);
    RLRelease(remote);
    end_owner(owner);
    port = RLMessagePortCreateLocal("emptied", NULL, NULL, NULL);
    RLRelease(port);
    remove_own_directory();
}

/* Lengths */

RL_TEST(lengths_beyond_all_memory, "S-MSG-22 S-ARG-1",
        "A length of 2^63 and more is an error, whatever function it is given to") {
    static const size_t lengths[] = {SIZE_MAX, (size_t)1 << 63, ((size_t)1 << 63) + 16, ((size_t)1 << 63) - 1, (size_t)1 << 62};
    static Service service;
    RLMessagePortRef port = service_port(&service, port_name("lengths"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("lengths"));
    RLMachPortRef mach = RLMachPortCreate(NULL, NULL, NULL);
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    RLSocketRef socket = RLSocketCreateWithNative(ends[0], 0, NULL, NULL);
    struct sockaddr address = {.sa_family = AF_UNIX, .sa_data = "/nowhere"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i];
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", length, 0, 0, NULL, NULL), kRLMessagePortTransportError);
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, NULL, length, 0, 0, "m", NULL), kRLMessagePortTransportError);
        ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 1, "x", length, ends, 1, 0, 0, NULL, NULL),
                         kRLMessagePortTransportError);
        ck_assert_int_eq(RLMachPortSend(mach, 1, "x", length, NULL, 0), kRLMessagePortTransportError);
        ck_assert_ptr_null(RLDataCreate("x", length));
        ck_assert_int_eq(RLSocketSetAddress(socket, &address, length), kRLSocketError);
        ck_assert_int_eq(RLSocketConnectToAddress(socket, &address, length, 0), kRLSocketError);
        ck_assert_int_eq(RLSocketSendData(socket, &address, length, "x", 1, 0), kRLSocketError);
        ck_assert_int_eq(RLSocketSendData(socket, NULL, 0, "x", length, 0), kRLSocketError);
    }
    RLRelease(socket);
    close(ends[1]);
    RLRelease(mach);
    RLRelease(remote);
    RLRelease(port);
}

/* pthread_cancel */

static void *use_ports(void *name) {
    static Service service = {.echoes = true};
    pthread_cancel(pthread_self());
    RLMessagePortContext context = service_context(&service, false);
    RLMessagePortRef port = RLMessagePortCreateLocal(name, NULL, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    intptr_t code = RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL);
    if (!code) code = RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 60, 60, "m", NULL);
    /* Until the queue is full, which waits. */
    while (!code) code = RLMessagePortSendRequest(remote, 1, "x", 1, 0.01, 0, NULL, NULL);
    RLMessagePortIsValid(remote);
    RLRunInMode("m", 0, true);
    RLMessagePortInvalidate(port);
    RLRunInMode("m", 0, true);
    RLRelease(source);
    RLRelease(remote);
    RLRelease(port);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return (void *)(code - kRLMessagePortSendTimeout + 1);
}

RL_TEST(a_cancelled_thread_uses_ports, "S-LOOP-20", "No call of a message port is a cancellation point") {
    pthread_t thread;
    void *result = NULL;
    char name[160];
    strcpy(name, port_name("cancelled"));
    ck_assert_int_eq(pthread_create(&thread, NULL, use_ports, name), 0);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, (void *)1);
}

static Gate cancelled_callback;
static RLDataRef be_cancelled(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data, (void)info;
    thread_cancel_now();
    return NULL;
}
static RLMessagePortRef cancelled_port;
static void *serve_cancelled(void *name) {
    cancelled_port = RLMessagePortCreateLocal(name, be_cancelled, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(cancelled_port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRelease(source);
    gate_open(&cancelled_callback);
    RLRunInMode("m", 1000, true);
    return NULL;
}

RL_TEST(a_thread_is_cancelled_in_a_message_callback, "S-LOOP-20 S-LOOP-19",
        "A request whose callback's thread is cancelled ends with an error, and the port can be invalidated") {
    cancelled_callback = (Gate)GATE_INITIALIZER;
    pthread_t thread;
    void *result = NULL;
    char name[160];
    strcpy(name, port_name("callback"));
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_cancelled, name), 0);
    gate_wait(&cancelled_callback);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "x", 1, 60, 60, "m", NULL), kRLMessagePortTransportError);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, PTHREAD_CANCELED);
    RLMessagePortInvalidate(cancelled_port);
    RLRelease(cancelled_port);
    RLRelease(remote);
}
