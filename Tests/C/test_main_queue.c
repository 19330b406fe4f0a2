/* SPDX-License-Identifier: MIT */
/*
 * The main dispatch queue (section 14). Every case loads libdispatch itself, from the path it was compiled with, since
 * Check's processes are forked and libdispatch wants to be loaded by the main thread of its process. What CoreFoundation
 * does in the same place is compared by Tests/Differential/main_queue.c. The probes are static, because what is left in a
 * loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support.h"
#include "support_socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int epoll_refusal; /* an errno that refuses new epoll sets */

int epoll_create1(int flags) {
    errno = __atomic_load_n(&epoll_refusal, __ATOMIC_SEQ_CST);
    return errno ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

static void *main_queue;
static void (*async)(void *queue, void *context, void (*work)(void *context));
static int (*get_handle)(void);

static void load_dispatch(int scope) {
    void *library = dlopen(RL_LIBDISPATCH, RTLD_NOW | scope);
    ck_assert_msg(library != NULL, "%s", dlerror());
    main_queue = dlsym(library, "_dispatch_main_q");
    *(void **)&async = dlsym(library, "dispatch_async_f");
    *(void **)&get_handle = dlsym(library, "_dispatch_get_main_queue_handle_4CF");
    ck_assert(main_queue && async && get_handle);
}

static void attach(void) {
    load_dispatch(RTLD_GLOBAL);
    ck_assert(RLAttachMainQueue());
}

static void say(void *word) { trace("%s", (const char *)word); }
static void queue(const char *word) { async(main_queue, (void *)word, say); }
static void stop_main(void *word) {
    say(word);
    RLStop(RLGetMain());
}

static bool is_queued(void) {
    struct pollfd request = {get_handle(), POLLIN, 0};
    return poll(&request, 1, 0) > 0;
}

RL_MAIN_TEST(without_libdispatch_nothing_changes, "S-GCD-3 S-RUN-4",
             "In a process without libdispatch attaching says false, and the empty default mode is Finished") {
    /* The core as full Swift brings libdispatch with its runtime. */
    if (!dlsym(RTLD_DEFAULT, "dispatch_async_f")) ck_assert(!RLAttachMainQueue());
    expect_run(kRLDefaultMode, 100, false, Finished);
}

RL_MAIN_TEST(nothing_happens_unasked, "S-GCD-3 S-RUN-4",
             "Before it is attached the main loop leaves the queue alone; afterwards it serves what waited") {
    load_dispatch(RTLD_GLOBAL);
    queue("a");
    expect_run(kRLDefaultMode, 100, false, Finished);
    keep_alive(RLGetMain(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("");
    ck_assert(RLAttachMainQueue());
    ck_assert(RLAttachMainQueue());
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("a");
}

RL_MAIN_TEST(a_hidden_libdispatch_is_found, "S-GCD-1",
             "A libdispatch that was loaded out of the global scope is found as well") {
    load_dispatch(RTLD_LOCAL);
    ck_assert(RLAttachMainQueue());
    queue("a");
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("a");
}

static void attach_and_queue(void *unused) {
    (void)unused;
    wait_until_waiting(RLGetMain());
    ck_assert(RLAttachMainQueue());
    async(main_queue, "a", stop_main);
}

RL_MAIN_TEST(attached_while_it_waits, "S-GCD-1",
             "A main loop that waits when another thread attaches the queue serves it, with no pass for that alone") {
    load_dispatch(RTLD_GLOBAL);
    keep_alive(RLGetMain(), kRLDefaultMode);
    observe(RLGetMain(), kRLDefaultMode);
    Thread *thread = thread_start(attach_and_queue, NULL);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    expect_trace("E BT BS BW AW a X");
    thread_join(thread);
}

static void queue_from_thread(void *unused) {
    (void)unused;
    wait_until_waiting(RLGetMain());
    queue("a");
    async(main_queue, "b", stop_main);
}

RL_MAIN_TEST(queueing_ends_the_wait, "S-GCD-1 S-GCD-4",
             "What another thread queues ends the wait, and runs on the main thread in the order of queueing") {
    attach();
    Thread *thread = thread_start(queue_from_thread, NULL);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    expect_trace("a b");
    thread_join(thread);
}

static int drains;
static void queue_again(void *limit) {
    if (++drains == *(int *)limit) return RLStop(RLGetMain());
    async(main_queue, limit, queue_again);
}

RL_MAIN_TEST(an_endless_queue_starves_nobody, "S-GCD-4 S-GCD-6 S-PASS-10 S-PASS-14",
             "A queue that is never empty leaves its turns to timers, ports, sources and functions") {
    static Probe timer = {.name = NULL}, port = {.name = NULL}, source = {.name = NULL, .action = NULL};
    static int limit = 2000;
    attach();
    add_timer(&timer, date_in(0), 1e-6, kRLDefaultMode);
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_port(&port, ends[0], kRLDefaultMode);
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    async(main_queue, &limit, queue_again);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    ck_assert_int_eq(drains, limit);
    /* Of three that are always ready each has about as many turns as the others. */
    ck_assert_int_gt(timer.calls, limit / 10);
    ck_assert_int_gt(port.calls, limit / 10);
    ck_assert_int_eq(source.calls, 1);
}

static void run_nested(void *unused) {
    (void)unused;
    trace("outer");
    queue("inner");
    expect_run(kRLDefaultMode, 100, false, Finished);
    static Probe port = {.name = "port", .action = NULL};
    int fd = make_eventfd();
    eventfd_signal(fd);
    add_port(&port, fd, kRLDefaultMode);
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    trace("end");
}

RL_MAIN_TEST(not_under_a_block_of_its_own, "S-GCD-8",
             "A run nested in a block of the queue serves ports and no block, and the outer run goes on with the queue") {
    attach();
    async(main_queue, NULL, run_nested);
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("outer port end");
    ck_assert(is_queued());
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("inner");
}

static void lose_oneself(Probe *self) { RLSourceInvalidate(self->source); }
static void run_until_empty(void *source) {
    RLSourceSignal(((Probe *)source)->source);
    expect_run(kRLDefaultMode, 30, false, Finished);
    trace("end");
}

RL_MAIN_TEST(empty_under_a_block, "S-GCD-8 S-RUN-9",
             "A run nested in a block of the queue ends when the last source of its mode, which has just performed, is gone") {
    static Probe source = {.name = "s", .action = lose_oneself};
    attach();
    add_source(&source, kRLDefaultMode);
    async(main_queue, &source, run_until_empty);
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("s end");
}

static void run_in_child(void *unused) {
    (void)unused;
    ck_assert(!RLAttachMainQueue());
    ck_assert(is_queued());
    expect_run(kRLDefaultMode, 100, false, Finished);
    keep_alive(RLGetMain(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    ck_assert(is_queued());
}

RL_MAIN_TEST(a_child_leaves_it_to_the_parent, "S-GCD-10 S-FORK-1 S-FORK-2",
             "In a forked child the queue is not attached and cannot be, and nothing of the parent's queue is lost") {
    attach();
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    queue("a");
    ChildResult result = run_child(run_in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with status %#x and wrote: %s", result.status, result.output);
    expect_run(kRLDefaultMode, 100, true, HandledSource);
    expect_trace("a");
}

RL_MAIN_TEST(served_without_an_epoll_set, "S-GCD-1 S-ARG-10",
             "While the process can have no epoll set the queue is served all the same") {
    log_capture();
    attach();
    __atomic_store_n(&epoll_refusal, EMFILE, __ATOMIC_SEQ_CST);
    Thread *thread = thread_start(queue_from_thread, NULL);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    thread_join(thread);
    queue("c");
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("a b c");
    ck_assert_int_eq(log_count(), 1);
    __atomic_store_n(&epoll_refusal, 0, __ATOMIC_SEQ_CST);
    thread = thread_start(queue_from_thread, NULL);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    thread_join(thread);
    expect_trace("a b");
}

static void drain_elsewhere(RLObserverRef observer, RLActivity activity, void *drain) {
    (void)observer;
    (void)activity;
    uint64_t count;
    ck_assert_int_eq(read(get_handle(), &count, sizeof count), sizeof count);
    void (*call)(void *);
    *(void **)&call = drain;
    call(NULL);
}

RL_MAIN_TEST(another_loop_may_serve_it, "S-GCD-5",
             "If another loop of the main thread served the queue since the event, nothing was handled and nothing spins") {
    attach();
    RLObserverContext context = {.info = dlsym(RTLD_DEFAULT, "_dispatch_main_queue_callback_4CF")};
    RLObserverRef observer = RLObserverCreate(kRLAfterWaiting, false, 0, drain_elsewhere, &context);
    RLAddObserver(RLGetMain(), observer, kRLDefaultMode);
    observe(RLGetMain(), kRLDefaultMode);
    queue("a");
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("E BT BS BW a AW BT BS BW AW X");
    RLRelease(observer);
}

/* dispatch_main ends the main thread and keeps it: of its destructors only those of the first round run. */

static Probe of_main = {.name = "m"};
static Gate is_waited_for = GATE_INITIALIZER;
static void never(void *info) { (void)info; }
static void outlive_main(void *unused) {
    static Probe late = {0};
    (void)unused;
    gate_open(&is_waited_for);
    /* Asked for before or after the end, it is refused or dropped. */
    ck_assert(!RLPerformOnLoop(RLGetMain(), kRLDefaultMode, never, NULL, NULL, true));
    wait_until_count(&of_main.cancels, 1);
    probe_perform(&late, RLGetMain(), kRLDefaultMode);
    ck_assert_int_eq(late.releases, 1);
    _Exit(42);
}
static void become_dispatch_main(void *uses_loop) {
    void (*dispatch_main)(void);
    *(void **)&dispatch_main = dlsym(RTLD_DEFAULT, "dispatch_main");
    ck_assert(dispatch_main != NULL);
    if (uses_loop) ck_assert_ptr_eq(RLGetCurrent(), RLGetMain());
    RLAddSource(RLGetMain(), probe_source(&of_main, 0), kRLDefaultMode);
    thread_start(outlive_main, NULL);
    gate_wait(&is_waited_for);
    dispatch_main();
}

RL_MAIN_TEST(dispatch_main_ends_the_main_loop, "S-LOOP-13 S-PERF-11",
             "When dispatch_main has taken the main thread, sources of the main loop are cancelled and nobody waits for it any more") {
    load_dispatch(RTLD_GLOBAL);
    for (int uses_loop = 0; uses_loop < 2; uses_loop++) {
        ChildResult result = run_child(become_dispatch_main, uses_loop ? &of_main : NULL);
        ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 42, "status %#x, and it said: %s", result.status,
                      result.output);
    }
}

static void drain(Socket *self, RLSocketCallBackType type) {
    char bytes[16];
    (void)type;
    while (recv(RLSocketGetNative(self->socket), bytes, sizeof bytes, MSG_DONTWAIT) > 0);
}

static int passes;
static void count_pass(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)activity, (void)info;
    passes++;
}

RL_MAIN_TEST(sockets_behind_the_queue_and_a_late_reply, "S-SOCK-53 S-GCD-1",
             "Sockets that are ready before a run, behind the queue and a reply that nobody waits for, which are no members of the mode, perform in its "
             "first pass, each once, also where all together are just more than one call of the kernel tells or two do") {
    static const int counts[] = {126, 127, 128, 130, 254, 255, 256, 300};
    static Socket sockets[300];
    static Service service = {.echoes = true};
    static int ends[300][2];
    attach();
    RLMessagePortRef port = add_service(&service, port_name("late"), "service");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("late"));
    RLAddObserver(RLGetCurrent(), RLObserverCreate(kRLBeforeTimers, true, 0, count_pass, NULL), kRLDefaultMode);
    int made = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (; made < counts[i]; made++) {
            sockets[made].action = drain;
            sockets[made].name = "s";
            make_sockets(SOCK_STREAM, ends[made]);
            socket_make(&sockets[made], ends[made][0], kRLSocketReadCallBack);
            socket_add(&sockets[made]);
        }
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, "late", 4, 1, 0, kRLDefaultMode, NULL), kRLMessagePortReceiveTimeout);
        expect_run("service", 60, true, HandledSource);
        queue("q");
        for (int place = 0; place < made; place++) {
            sockets[place].calls = 0;
            write_byte(ends[place][1]);
        }
        passes = 0;
        RLRunInMode(kRLDefaultMode, 0, false);
        ck_assert_int_eq(passes, 1);
        for (int place = 0; place < made; place++)
            ck_assert_msg(sockets[place].calls == 1, "of %d sockets the one at %d was called %d times", made, place, sockets[place].calls);
        /* Whatever is left is told now, and nothing is found again. */
        expect_run(kRLDefaultMode, 0.02, false, TimedOut);
        ck_assert_int_le(passes, 4);
        for (int place = 0; place < made; place++) ck_assert_int_eq(sockets[place].calls, 1);
    }
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}
