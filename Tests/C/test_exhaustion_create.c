/* SPDX-License-Identifier: MIT */
/*
 * Every creation call while the kernel has no room (S-ARG-10): each call with which the library asks it
 * for something is refused in turn, with each errno that stands for that. What is made is made whole,
 * what is not leaves nothing behind. Then objects whose place in an epoll set was refused
 * (fs.epoll.max_user_watches) and that are served once there is one.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_descriptor.h"
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The replaced calls. Number `refused_call` is refused, and all after it if `refuses_all`. */

static int refused_call, refused_error, calls_made, refusals;
static bool refuses_all;

static bool refuses(void) {
    if (__atomic_load_n(&refused_call, __ATOMIC_SEQ_CST) == 0) return false;
    int call = __atomic_add_fetch(&calls_made, 1, __ATOMIC_SEQ_CST);
    if (call != refused_call && !(refuses_all && call > refused_call)) return false;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = refused_error;
    return true;
}

static void refuse(int call, int error, bool all) {
    calls_made = 0;
    refusals = 0;
    refused_error = error;
    refuses_all = all;
    __atomic_store_n(&refused_call, call, __ATOMIC_SEQ_CST);
}
static void allow(void) { __atomic_store_n(&refused_call, 0, __ATOMIC_SEQ_CST); }

int epoll_create1(int flags) {
    return refuses() ? -1 : (int)syscall(SYS_epoll_create1, flags);
}
int eventfd(unsigned int value, int flags) {
    return refuses() ? -1 : (int)syscall(SYS_eventfd2, value, flags);
}
int timerfd_create(clockid_t clock, int flags) {
    return refuses() ? -1 : (int)syscall(SYS_timerfd_create, clock, flags);
}
int inotify_init1(int flags) { return refuses() ? -1 : (int)syscall(SYS_inotify_init1, flags); }
int inotify_add_watch(int fd, const char *path, uint32_t mask) {
    return refuses() ? -1 : (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}
int socket(int family, int type, int protocol) {
    return refuses() ? -1 : (int)syscall(SYS_socket, family, type, protocol);
}

/* Places in the epoll sets of the process, if they are counted: ADD takes one and DEL gives it back. */
static int places = -1, places_refused;

/* What is there already the kernel finds before it looks for room: the library asks so whether a set is its own. */
static bool is_there(int epoll, int fd) {
    struct epoll_event nothing = {0};
    if (syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &nothing) != 0) return errno == EEXIST;
    syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fd, NULL);
    return false;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    if (operation == EPOLL_CTL_ADD && !is_there(epoll, fd)) {
        if (refuses()) return -1;
        if (__atomic_load_n(&places, __ATOMIC_SEQ_CST) == 0) {
            __atomic_add_fetch(&places_refused, 1, __ATOMIC_SEQ_CST);
            errno = ENOSPC;
            return -1;
        }
    }
    int result = (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
    if (result == 0 && __atomic_load_n(&places, __ATOMIC_SEQ_CST) >= 0) {
        if (operation == EPOLL_CTL_ADD) __atomic_add_fetch(&places, -1, __ATOMIC_SEQ_CST);
        if (operation == EPOLL_CTL_DEL) __atomic_add_fetch(&places, 1, __ATOMIC_SEQ_CST);
    }
    return result;
}
static void leave_places(int count) { __atomic_store_n(&places, count, __ATOMIC_SEQ_CST); }

/* Creations: each makes an object, ends it, and says whether there was one. */

static int retains, releases;
static const void *count_retain(const void *info) {
    retains++;
    return info;
}
static void count_release(const void *info) {
    (void)info;
    releases++;
}

static void no_socket_callback(RLSocketRef s, RLSocketCallBackType type, RLDataRef address,
                               const void *data, void *info) {
    (void)s, (void)type, (void)address, (void)data, (void)info;
}
static bool end_socket(RLSocketRef made) {
    RLSocketInvalidate(made);
    RLRelease(made);
    return made != NULL;
}
static bool create_socket(void) {
    RLSocketContext context = {0, &retains, count_retain, count_release, NULL};
    return end_socket(RLSocketCreate(PF_INET, SOCK_STREAM, IPPROTO_TCP, kRLSocketReadCallBack,
                                     no_socket_callback, &context));
}
static bool create_listener(void) {
    RLSocketContext context = {0, &retains, count_retain, count_release, NULL};
    struct sockaddr_in address = loopback(0);
    RLDataRef bytes = RLDataCreate(&address, sizeof address);
    RLSocketSignature signature = {PF_INET, SOCK_STREAM, IPPROTO_TCP, bytes};
    bool made = end_socket(RLSocketCreateWithSocketSignature(&signature, kRLSocketAcceptCallBack,
                                                             no_socket_callback, &context));
    RLRelease(bytes);
    return made;
}

static bool create_mach_port(void) {
    RLMachPortRef port = RLMachPortCreate(NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    RLPort number = RLMachPortGetPort(port);
    ck_assert_int_ge(number, -1);
    RLMachPortInvalidate(port);
    RLRelease(port);
    return number >= 0;
}

static bool create_local_port(void) {
    RLMessagePortContext context = {0, &retains, count_retain, count_release, NULL};
    bool should_free = false;
    RLMessagePortRef port =
        RLMessagePortCreateLocal(port_name("made"), serve_message, &context, &should_free);
    ck_assert(should_free == (port == NULL));
    RLMessagePortInvalidate(port);
    RLRelease(port);
    return port != NULL;
}
static bool create_nameless_port(void) {
    RLMessagePortRef port = RLMessagePortCreateLocal(NULL, serve_message, NULL, NULL);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    return port != NULL;
}
static RLMessagePortRef target;
static bool create_remote_port(void) {
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("target"));
    RLMessagePortInvalidate(remote);
    RLRelease(remote);
    return remote != NULL;
}
static bool rename_port(void) {
    static bool is_other;
    const char *names[2] = {"target", "renamed"};
    if (!RLMessagePortSetName(target, port_name(names[!is_other]))) {
        /* It still has its name, and is found by it. */
        ck_assert_str_eq(RLMessagePortGetName(target), port_name(names[is_other]));
        allow();
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name(names[is_other]));
        ck_assert_ptr_nonnull(remote);
        RLRelease(remote);
        return false;
    }
    is_other = !is_other;
    return true;
}

static void no_event(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
}
static bool create_event(RLKernelEvent event) {
    RLKernelEventContext context = {
        .info = &retains, .retain = count_retain, .release = count_release};
    errno = 0;
    RLSourceRef source = RLKernelEventSourceCreate(&event, no_event, &context);
    if (source == NULL) ck_assert_int_eq(errno, refused_error);
    RLRelease(source);
    return source != NULL;
}
static bool create_timer_event(void) {
    return create_event((RLKernelEvent){1, kRLKernelFilterTimer, 0, 0, 1000000, NULL});
}
static bool create_file_event(void) {
    return create_event((RLKernelEvent){0, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, NULL});
}
static bool create_path_event(void) {
    return create_event((RLKernelEvent){0, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, "/dev/null"});
}
static bool create_process_event(void) {
    return create_event((RLKernelEvent){(uintptr_t)getpid(), kRLKernelFilterProcess, 0, kRLNoteExit, 0, NULL});
}
static bool create_signal_event(void) {
    return create_event((RLKernelEvent){SIGUSR1, kRLKernelFilterSignal, 0, 0, 0, NULL});
}
static bool create_user_event(void) {
    return create_event((RLKernelEvent){1, kRLKernelFilterUser, 0, 0, 0, NULL});
}

static bool create_foreign_run(void) {
    errno = 0;
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    if (run == NULL) ck_assert_int_eq(errno, refused_error);
    if (run != NULL) ck_assert_int_ge(RLForeignRunGetDescriptor(run), 0);
    /* The end asks the kernel too, which is no part of the creation. */
    allow();
    RLForeignRunInvalidate(run);
    RLRelease(run);
    return run != NULL;
}

static Descriptor file;
static bool create_descriptor(void) {
    int ends[2];
    make_pair(ends);
    file = (Descriptor){.name = NULL};
    descriptor_make(&file, ends[0], false);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file.file, 0);
    ck_assert_ptr_nonnull(source);
    RLRelease(source);
    RLFileDescriptorInvalidate(file.file);
    RLRelease(file.file);
    ck_assert_int_eq(file.retains, file.releases);
    close(ends[0]);
    close(ends[1]);
    return true;
}

static const struct Creation {
    const char *name;
    bool (*create)(void);
    int fewest; /* calls that must have been refused in turn */
    bool retains_first; /* S-MSG-41 */
} creations[] = {
    {"RLFileDescriptorCreate", create_descriptor, 0},
    {"RLSocketCreate", create_socket, 1},
    {"RLSocketCreateWithSocketSignature", create_listener, 1},
    {"RLMachPortGetPort", create_mach_port, 1},
    {"RLMessagePortCreateLocal", create_local_port, 3, true},
    {"RLMessagePortCreateLocal without a name", create_nameless_port, 1},
    {"RLMessagePortCreateRemote", create_remote_port, 1},
    {"RLMessagePortSetName", rename_port, 2},
    {"a timer's kernel event", create_timer_event, 1},
    {"a file's kernel event", create_file_event, 2},
    {"a path's kernel event", create_path_event, 3},
    {"a process's kernel event", create_process_event, 0},
    {"a signal's kernel event", create_signal_event, 0},
    {"a user's kernel event", create_user_event, 0},
    {"RLForeignRunCreate", create_foreign_run, 4},
};
enum { CREATIONS = sizeof creations / sizeof creations[0] };

static void check_creation(const struct Creation *creation, int error, bool all) {
    int refused = 0;
    for (int call = 1; ; call++) {
        retains = releases = 0;
        int before = count_descriptors();
        refuse(call, error, all);
        bool is_made = creation->create();
        allow();
        ck_assert_msg(count_descriptors() == before, "%s leaves a descriptor, call %d, errno %d",
                      creation->name, call, error);
        ck_assert_int_eq(retains, releases);
        if (!is_made) ck_assert_int_eq(retains, creation->retains_first);
        if (refusals == 0) {
            ck_assert_msg(is_made, "%s fails by itself", creation->name);
            break;
        }
        ck_assert_msg(!is_made, "%s, call %d, errno %d", creation->name, call, error);
        refused++;
    }
    ck_assert_msg(refused >= creation->fewest, "%s makes %d calls", creation->name, refused);
}

RL_TEST(every_call_is_refused_in_turn, "S-ARG-10 S-FRN-12 S-KEV-9 S-MSG-6 S-MSG-41 S-SOCK-7",
        "Whichever call a creation makes of the kernel is refused, with EMFILE, ENFILE, ENOSPC or "
        "ENOMEM: there is no object, none of its descriptors and no "
        "retain that is left, for kinds other than message ports none at all, and the next one is made") {
    const int errors[] = {EMFILE, ENFILE, ENOSPC, ENOMEM};
    log_capture();
    target = RLMessagePortCreateLocal(port_name("target"), serve_message, NULL, NULL);
    ck_assert_ptr_nonnull(target);
    RLGetCurrent();
    for (int i = 0; i < CREATIONS; i++) {
        for (int error = 0; error < 4; error++) {
            for (int all = 0; all < 2; all++) check_creation(&creations[i], errors[error], all);
        }
    }
    RLRelease(target);
}

/* No room in the epoll sets */

static int ends[2];
static Probe port = {.name = "p"}, timer = {.name = "t"};
static void read_one(Probe *self) { read_byte(self->fd); }
static void make_room(Probe *self) {
    (void)self;
    leave_places(-1);
}

static void expect_unserved(void) {
    RLRunLoopRef loop = RLGetCurrent();
    RLObserverRef observer = observe(loop, kRLDefaultMode);
    __atomic_store_n(&places_refused, 0, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 0.35, true, TimedOut);
    /* Trying again is no pass, says nothing more, and is no spin. */
    expect_trace("E BT BS BW AW X");
    ck_assert_int_ge(count_of(&places_refused), 1);
    ck_assert_int_lt(count_of(&places_refused), 100);
    ck_assert_int_eq(log_count(), 1);
    RLObserverInvalidate(observer);
}

RL_TEST(a_port_waits_for_a_place, "S-ARG-10",
        "A port source for which the epoll set has no room is added with one log line, and served in "
        "the same wait once there is room") {
    /* The first time there is no set, the second time there is one without the port. */
    for (int time = 0; time < 2; time++) {
        make_pair(ends);
        write_byte(ends[1]);
        leave_places(0);
        if (time == 0) log_capture();
        port.action = read_one;
        add_port(&port, ends[0], kRLDefaultMode);
        expect_unserved();
        add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
        timer.action = make_room;
        expect_run(kRLDefaultMode, 1e6, true, HandledSource);
        expect_trace("t p");
        RLSourceInvalidate(port.source);
        expect_run(kRLDefaultMode, 0, true, Finished);
        close(ends[0]);
        close(ends[1]);
    }
}

RL_TEST(a_descriptor_waits_for_a_place, "S-ARG-10 S-FD-6",
        "A file descriptor object whose descriptor has no place in the epoll set reports once there is "
        "one") {
    static Descriptor d = {.name = "d", .reads = true};
    make_pair(ends);
    write_byte(ends[1]);
    leave_places(1);
    log_capture();
    add_descriptor(&d, ends[0], kRLFileDescriptorReadCallBack);
    expect_unserved();
    add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
    timer.action = make_room;
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("t d:r");
}

RL_TEST(no_place_for_another_file, "S-ARG-10 S-SRC-51",
        "A number was used again, and its new file's object, for which there is no place at first, is the only one that hears of it when there is") {
    static Descriptor old = {.name = "old"}, new = {.name = "new"};
    int others[2];
    make_pair(ends);
    make_pair(others);
    int kept = dup(ends[0]);
    add_descriptor(&old, ends[0], kRLFileDescriptorReadCallBack);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(dup2(others[0], ends[0]), ends[0]);
    log_capture();
    leave_places(0);
    add_descriptor(&new, ends[0], kRLFileDescriptorReadCallBack);
    leave_places(-1);
    write_byte(others[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    RLRunInMode(kRLDefaultMode, 0.02, true);
    expect_trace("new:r");
    close(kept);
}

RL_TEST(a_socket_waits_for_a_place, "S-ARG-10 S-SOCK-19",
        "A socket whose descriptor has no place in the epoll set reports once there is one") {
    static Socket s = {.name = "s"};
    make_pair(ends);
    write_byte(ends[1]);
    leave_places(1);
    log_capture();
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    expect_unserved();
    add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
    timer.action = make_room;
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("t s:data=1");
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

static int fires;
static void count_event(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    fires++;
}

RL_TEST(a_kernel_event_waits_for_a_place, "S-ARG-10 S-KEV-1",
        "A kernel event whose descriptor has no place in the epoll set is reported once there is one") {
    RLKernelEvent event = {1, kRLKernelFilterTimer, 0, kRLNoteNanoseconds, 1000000, NULL};
    /* What the source itself needs, it has. */
    RLSourceRef source = RLKernelEventSourceCreate(&event, count_event, NULL);
    leave_places(1);
    log_capture();
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_unserved();
    ck_assert_int_eq(fires, 0);
    leave_places(-1);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    ck_assert_int_eq(fires, 1);
    RLSourceInvalidate(source);
    RLRelease(source);
}

RL_TEST(a_message_port_waits_for_a_place, "S-ARG-10 S-MSG-13",
        "A message port whose source has no place in the epoll set serves what was sent meanwhile once "
        "there is one") {
    static Service service = {.word = "m"};
    RLMessagePortRef local = service_port(&service, port_name("waits"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("waits"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    leave_places(1);
    log_capture();
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    expect_unserved();
    leave_places(-1);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    ck_assert_int_eq(service.calls, 1);
    RLRelease(remote);
    RLMessagePortInvalidate(local);
    RLRelease(local);
}

RL_TEST(a_connection_takes_the_listeners_place, "S-ARG-10 S-MSG-13",
        "What a new connection of a message port brought is served though its epoll set has no room, "
        "and the next connection once there is room again") {
    static Service service = {.word = "m"};
    RLMessagePortRef local = add_service(&service, port_name("full"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("full"));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    log_capture();
    /* The mode's own set and the port's source in it. */
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_int_eq(service.calls, 1);
    RLRelease(remote);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    leave_places(0);
    remote = RLMessagePortCreateRemote(port_name("full"));
    ck_assert_int_eq(send_text(remote, 2, "y"), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    ck_assert_int_eq(service.calls, 2);
    ck_assert_int_eq(service.msgid, 2);
    /* The listener is tried for again and again. */
    __atomic_store_n(&places_refused, 0, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 0.35, true, TimedOut);
    ck_assert_int_ge(count_of(&places_refused), 1);
    ck_assert_int_lt(count_of(&places_refused), 100);
    ck_assert_int_eq(log_count(), 1);
    leave_places(-1);
    expect_run(kRLDefaultMode, 0.2, true, TimedOut);
    RLRelease(remote);
    remote = RLMessagePortCreateRemote(port_name("full"));
    ck_assert_int_eq(send_text(remote, 3, "z"), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    ck_assert_int_eq(service.calls, 3);
    RLRelease(remote);
    RLMessagePortInvalidate(local);
    RLRelease(local);
}

RL_TEST(a_foreign_run_waits_for_a_place, "S-FRN-4 S-ARG-10",
        "A foreign run in whose set there is no room for its mode's asks to be called again soon, "
        "serves the port then, and tells of it once there is room") {
    make_pair(ends);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    ck_assert_ptr_nonnull(run);
    leave_places(2);
    log_capture();
    port.action = read_one;
    add_port(&port, ends[0], kRLDefaultMode);
    write_byte(ends[1]);
    double seconds = RLForeignRunPrepare(run);
    ck_assert_double_gt(seconds, 0);
    ck_assert(!isinf(seconds));
    ck_assert_int_eq(RLForeignRunDispatch(run), kRLRunGoesOn);
    expect_trace("p");
    leave_places(-1);
    write_byte(ends[1]);
    while (port.calls == 1) {
        struct pollfd entry = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        RLForeignRunPrepare(run);
        ck_assert_int_eq(poll(&entry, 1, -1), 1);
        RLForeignRunDispatch(run);
    }
    expect_trace("p");
    RLForeignRunInvalidate(run);
    RLRelease(run);
}
