/* SPDX-License-Identifier: MIT */
/* Section 15.2: sockets are version 0 sources. The traces are compared with CoreFoundation's in
 * Tests/Differential/socket_passes.c; here is what those cannot show. */
#include "support.h"
#include "support_descriptor.h"
#include "support_socket.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void drain(Socket *self, RLSocketCallBackType type) {
    char bytes[16];
    (void)type;
    while (recv(RLSocketGetNative(self->socket), bytes, sizeof bytes, MSG_DONTWAIT) > 0);
}

static int passes;
static void count_pass(RLObserverRef o, RLActivity activity, void *info) {
    (void)o, (void)activity, (void)info;
    passes++;
}

RL_TEST(all_that_are_ready_perform_in_one_pass, "S-SOCK-53",
        "However many sockets are ready, more than one call of the kernel tells, they perform in one pass") {
    enum { COUNT = 300 };
    static Socket sockets[COUNT];
    int ends[COUNT][2];
    for (int i = 0; i < COUNT; i++) {
        sockets[i].name = "s";
        sockets[i].action = drain;
        make_sockets(SOCK_STREAM, ends[i]);
        socket_make(&sockets[i], ends[i][0], kRLSocketReadCallBack);
        socket_add(&sockets[i]);
    }
    RLAddObserver(RLGetCurrent(), RLObserverCreate(kRLBeforeTimers, true, 0, count_pass, NULL), kRLDefaultMode);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < COUNT; i++) write_byte(ends[i][1]);
        passes = 0;
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_eq(passes, 1);
        for (int i = 0; i < COUNT; i++) ck_assert_int_eq(sockets[i].calls, round);
    }
    expect_run(kRLDefaultMode, 0.001, true, TimedOut);
}

RL_TEST(ports_have_their_turns_beside_a_busy_socket, "S-PASS-13 S-PASS-14 S-SOCK-52",
        "A socket that is always ready, and three ports that are: each port is served every third time") {
    static Socket s = {.name = "s"};
    int ends[2], pipes[3][2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    socket_add(&s);
    write_byte(ends[1]);
    static Probe ports[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    for (int i = 0; i < 3; i++) {
        make_pipe(pipes[i]);
        write_byte(pipes[i][1]);
        add_port(&ports[i], pipes[i][0], kRLDefaultMode);
    }
    for (int i = 0; i < 30; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_ge(ports[i].calls, 9);
        ck_assert_int_le(ports[i].calls, 11);
    }
    ck_assert_int_ge(s.calls, 29);
}

RL_TEST(a_connection_is_accepted_once, "S-SOCK-55 S-SOCK-28",
        "Two sockets that listen to the same queue are both ready for one connection; one accepts it, and the other "
        "tells nothing") {
    static Socket s = {.name = "s"}, t = {.name = "t"};
    int listener = make_listener();
    int again = dup(listener);
    socket_make(&s, listener, kRLSocketAcceptCallBack);
    /* The same file under another number is an object of its own. */
    socket_make(&t, again, kRLSocketAcceptCallBack);
    socket_add(&s);
    socket_add(&t);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    int client = connect_to(port_of(listener));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(s.calls + t.calls, 1);
    close(client);
}

RL_TEST(what_an_earlier_run_found_is_looked_at_again, "S-SOCK-55 S-SOCK-53",
        "A socket that was ready in a run that ended before its turn, and is not any more, is not told, and the next "
        "that is ready performs instead") {
    static Socket s = {.name = "s", .action = drain}, t = {.name = "t"}, u = {.name = "u", .action = drain};
    Socket *all[] = {&s, &t, &u};
    int ends[3][2];
    for (int i = 0; i < 3; i++) {
        make_sockets(SOCK_STREAM, ends[i]);
        socket_make(all[i], ends[i][0], kRLSocketReadCallBack);
        socket_add(all[i]);
        write_byte(ends[i][1]);
    }
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:read");
    read_byte(ends[1][0]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("u:read");
    expect_run(kRLDefaultMode, 0.001, true, TimedOut);
    expect_trace("");
}

/* The first run of another thread's loop. */
static void run_once_elsewhere(void *socket) {
    RLSourceRef source = RLSocketCreateRunLoopSource(((Socket *)socket)->socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
}

RL_TEST(what_another_loop_found_is_looked_at_again, "S-SOCK-55",
        "What the run of one loop found and left is looked at again by the run of another, whatever the numbers of the two runs") {
    static Socket s = {.name = "s"};
    static Probe before = {.name = "before"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketReadCallBack);
    socket_add(&s);
    probe_source(&before, -1);
    RLAddSource(RLGetCurrent(), before.source, kRLDefaultMode);
    RLSourceSignal(before.source);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("before");
    read_byte(ends[0]);
    thread_join(thread_start(run_once_elsewhere, &s));
    expect_trace("");
    /* The same where the source has left this loop first. */
    RLSourceSignal(before.source);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    expect_trace("before");
    read_byte(ends[0]);
    RLRunLoopRef own = RLGetCurrent();
    RLRetain(s.source);
    RLRemoveSource(own, s.source, kRLDefaultMode);
    RLRelease(s.source);
    thread_join(thread_start(run_once_elsewhere, &s));
    expect_trace("");
}

RL_TEST(removed_before_its_turn, "S-SOCK-55 S-SOCK-35",
        "A ready socket whose source another callback takes out of its last mode is not told, and tells again when it "
        "is back") {
    static Socket s = {.name = "s"}, t = {.name = "t", .action = drain};
    int one[2], other[2];
    make_sockets(SOCK_STREAM, one);
    make_sockets(SOCK_STREAM, other);
    socket_make(&s, one[0], kRLSocketReadCallBack);
    socket_make(&t, other[0], kRLSocketReadCallBack);
    socket_add(&s);
    socket_add(&t);
    write_byte(one[1]);
    write_byte(other[1]);
    RLSourceRef source = RLSocketCreateRunLoopSource(t.socket, 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:read");
    read_byte(one[0]);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.001, true, TimedOut);
    expect_trace("");
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("t:read");
}

static void run_until_stopped(LoopThread *self) {
    keep_alive(self->loop, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 60, false);
}

RL_TEST(in_two_loops_each_event_is_told_once, "S-SOCK-20 S-SOCK-52",
        "A socket in the loops of two threads, both of which wait: every byte is told once, in one of them") {
    enum { COUNT = 2000 };
    static Socket s = {.name = "s"};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    RLSourceRef source = RLSocketCreateRunLoopSource(s.socket, 0);
    LoopThread loops[2];
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&loops[i], run_until_stopped, NULL);
        wait_until_waiting(loops[i].loop);
        RLAddSource(loops[i].loop, source, kRLDefaultMode);
    }
    for (int i = 1; i <= COUNT; i++) {
        write_byte(ends[1]);
        wait_until_count(&s.calls, i);
    }
    ck_assert(stays_waiting(loops[0].loop, 0.02) && stays_waiting(loops[1].loop, 0.02));
    ck_assert_int_eq(s.calls, COUNT);
    for (int i = 0; i < 2; i++) {
        RLStop(loops[i].loop);
        thread_join(loops[i].thread);
    }
}

/* A socket that is never ready, whose mode therefore fetches events in batches. */
static void add_idle_socket(Socket *idle) {
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(idle, ends[0], kRLSocketReadCallBack);
    socket_add(idle);
}

static void add_busy_port(Probe *port) {
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_port(port, ends[0], kRLDefaultMode);
}

RL_TEST(turns_go_on_from_run_to_run, "S-PASS-13 S-PASS-14 S-SOCK-53",
        "Two ports that are always ready, beside a socket: however often the loop is run, for one source or for no time, each is "
        "served every second time") {
    static Socket idle = {.name = "idle"};
    static Probe ports[2] = {{.name = "a"}, {.name = "b"}};
    add_idle_socket(&idle);
    for (int i = 0; i < 2; i++) add_busy_port(&ports[i]);
    for (int i = 0; i < 10; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(ports[i].calls, 5);
    for (int i = 0; i < 10; i++) expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(ports[i].calls, 10);
}

RL_TEST(more_ports_than_one_call_tells, "S-PASS-13 S-PASS-14",
        "Of more ports that are always ready than one call of the kernel tells, beside a socket, none is served a fourth time before "
        "each was served once") {
    enum { COUNT = 256 };
    static Socket idle = {.name = "idle"};
    static Probe ports[COUNT];
    add_idle_socket(&idle);
    for (int i = 0; i < COUNT; i++) {
        ports[i].name = "p";
        add_busy_port(&ports[i]);
    }
    for (int served = 0; served < COUNT;) {
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        served = 0;
        for (int i = 0; i < COUNT; i++) {
            ck_assert_int_lt(ports[i].calls, 4);
            if (ports[i].calls > 0) served++;
        }
    }
}

static Descriptor *add_file(Descriptor *file, int fd) {
    add_descriptor(file, fd, 0);
    RLFileDescriptorEnablePersistentCallBacks(file->file, kRLFileDescriptorReadCallBack);
    return file;
}

RL_TEST(files_have_their_turns_beside_a_socket, "S-FD-17 S-PASS-13 S-PASS-14",
        "Two files and a pipe that are always ready, beside a socket: each has its turn, from run to run") {
    static Socket idle = {.name = "idle"};
    static Descriptor one = {.name = "one"}, two = {.name = "two"}, other = {.name = "pipe"};
    int ends[2];
    add_idle_socket(&idle);
    add_file(&one, open("/etc/passwd", O_RDONLY | O_CLOEXEC));
    add_file(&two, open("/etc/group", O_RDONLY | O_CLOEXEC));
    for (int i = 0; i < 10; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(one.calls, 5);
    ck_assert_int_eq(two.calls, 5);
    make_pipe(ends);
    write_byte(ends[1]);
    add_file(&other, ends[0]);
    for (int i = 0; i < 20; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_ge(one.calls, 9);
    ck_assert_int_ge(two.calls, 9);
    ck_assert_int_ge(other.calls, 9);
}

RL_TEST(sockets_of_files_perform_together, "S-SOCK-53 S-SOCK-50",
        "Two sockets of regular files, and a descriptor object of another between them: both sockets perform in each pass") {
    static Socket one = {.name = "one"}, two = {.name = "two"};
    static Descriptor file = {.name = "file"};
    socket_make(&one, open("/etc/passwd", O_RDONLY | O_CLOEXEC), kRLSocketReadCallBack);
    socket_add(&one);
    add_file(&file, open("/etc/group", O_RDONLY | O_CLOEXEC));
    socket_make(&two, open("/etc/hosts", O_RDONLY | O_CLOEXEC), kRLSocketReadCallBack);
    socket_add(&two);
    for (int i = 1; i <= 4; i++) {
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_eq(one.calls, i);
        ck_assert_int_eq(two.calls, i);
    }
    ck_assert_int_ge(file.calls, 3);
}

RL_TEST(busy_sockets_do_not_hide_a_closed_number, "S-SOCK-13",
        "Of several sockets that are all ready in each pass, one whose number was closed while its file is open elsewhere is called "
        "16 more times at most, whichever it is") {
    enum { COUNT = 4 };
    static Socket sockets[COUNT];
    int ends[COUNT][2], duplicates[COUNT];
    for (int i = 0; i < COUNT; i++) {
        sockets[i].name = "s";
        make_sockets(SOCK_STREAM, ends[i]);
        duplicates[i] = dup(ends[i][0]);
        socket_make(&sockets[i], ends[i][0], kRLSocketReadCallBack);
        socket_add(&sockets[i]);
        write_byte(ends[i][1]);
    }
    for (int i = 0; i < COUNT; i++) {
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        int calls = sockets[i].calls;
        close(ends[i][0]);
        for (int run = 0; run < 100; run++) expect_run(kRLDefaultMode, 0, false, TimedOut);
        ck_assert_int_le(sockets[i].calls - calls, 16);
    }
    for (int i = 0; i < COUNT; i++) close(duplicates[i]);
}

RL_TEST(sockets_behind_many_ports, "S-SOCK-53",
        "Two sockets that were ready before a run, behind more ready ports than one call of the kernel tells: both perform in its first pass") {
    enum { COUNT = 300 };
    static Probe ports[COUNT];
    static Socket sockets[2] = {{.name = "s"}, {.name = "s"}};
    int ends[2];
    for (int i = 0; i < COUNT; i++) {
        ports[i].name = "p";
        add_busy_port(&ports[i]);
    }
    for (int i = 0; i < 2; i++) {
        make_sockets(SOCK_STREAM, ends);
        socket_make(&sockets[i], ends[0], kRLSocketReadCallBack);
        socket_add(&sockets[i]);
        write_byte(ends[1]);
    }
    for (int run = 1; run <= 3; run++) {
        expect_run(kRLDefaultMode, 0, false, TimedOut);
        for (int i = 0; i < 2; i++) ck_assert_int_eq(sockets[i].calls, run);
    }
}

/* What is always ready, and how often it was called. */
static int of_ports[2];
static int to_feed = -1;

static void feed(Probe *self) {
    (void)self;
    of_ports[0]++;
    if (to_feed >= 0) write_byte(to_feed);
}

static void stop_after_many(Socket *self, RLSocketCallBackType type) {
    if (to_feed >= 0) drain(self, type);
    if (self->calls == 300) RLStop(RLGetCurrent());
}

static void count_other(Probe *self) {
    (void)self;
    of_ports[1]++;
}

static void feed_of_file(Descriptor *file) {
    (void)file;
    feed(NULL);
}

RL_TEST(a_busy_socket_keeps_no_port_waiting, "S-PASS-13 S-PASS-14 S-SOCK-54",
        "A socket that is always ready in a run that goes on: a port is served beside it, a file, and a port with a file or a timer") {
    for (int kind = 0; kind < 4; kind++) {
        static Socket sockets[4];
        static Probe ports[4], timers[4];
        static Descriptor files[4];
        int ends[2];
        sockets[kind].action = stop_after_many;
        make_sockets(SOCK_STREAM, ends);
        socket_make(&sockets[kind], ends[0], kRLSocketReadCallBack);
        socket_add(&sockets[kind]);
        write_byte(ends[1]);
        if (kind != 1) add_busy_port(&ports[kind]);
        if (kind == 1 || kind == 2) add_file(&files[kind], open("/etc/passwd", O_RDONLY | O_CLOEXEC));
        if (kind == 3) add_timer(&timers[kind], 0, 1e-9, kRLDefaultMode);
        expect_run(kRLDefaultMode, 60, false, Stopped);
        if (kind != 1) ck_assert_int_ge(ports[kind].calls, 50);
        if (kind == 1 || kind == 2) ck_assert_int_ge(files[kind].calls, 50);
        if (kind != 1) RLSourceInvalidate(ports[kind].source);
        if (kind == 1 || kind == 2) RLFileDescriptorInvalidate(files[kind].file);
        if (kind == 3) {
            ck_assert_int_ge(timers[kind].calls, 50);
            RLTimerInvalidate(timers[kind].timer);
        }
        RLSocketInvalidate(sockets[kind].socket);
    }
}

RL_TEST(a_socket_that_a_port_feeds, "S-PASS-13 S-PASS-14 S-SOCK-54",
        "A port, or a file, whose callback makes a socket ready: another port beside them has its turns all the same") {
    for (int kind = 0; kind < 2; kind++) {
        static Socket sockets[2];
        static Probe feeders[2], others[2];
        static Descriptor files[2];
        int ends[2];
        of_ports[0] = of_ports[1] = 0;
        sockets[kind].action = stop_after_many;
        make_sockets(SOCK_STREAM, ends);
        socket_make(&sockets[kind], ends[0], kRLSocketReadCallBack);
        socket_add(&sockets[kind]);
        to_feed = ends[1];
        if (kind == 0) {
            feeders[kind].action = feed;
            add_busy_port(&feeders[kind]);
        } else {
            files[kind].action = feed_of_file;
            add_file(&files[kind], open("/etc/passwd", O_RDONLY | O_CLOEXEC));
        }
        others[kind].action = count_other;
        add_busy_port(&others[kind]);
        expect_run(kRLDefaultMode, 60, false, Stopped);
        ck_assert_int_ge(of_ports[1], of_ports[0] - 2);
        if (kind == 0) RLSourceInvalidate(feeders[kind].source);
        if (kind == 1) RLFileDescriptorInvalidate(files[kind].file);
        RLSourceInvalidate(others[kind].source);
        RLSocketInvalidate(sockets[kind].socket);
    }
}

static int late_port, late_ends[2];
static bool begins_round, takes_all;
static void make_ready_in_wait(RLObserverRef o, RLActivity activity, void *info) {
    (void)o, (void)info;
    trace(activity == kRLBeforeWaiting ? "sleep" : "awake");
    if (activity != kRLBeforeWaiting || !begins_round) return;
    begins_round = false;
    write_byte(late_ends[1]);
    ck_assert_int_eq(eventfd_write(late_port, 1), 0);
}
static void take_all(Socket *self, RLSocketCallBackType type) {
    eventfd_t value;
    drain(self, type);
    if (takes_all) ck_assert_int_eq(eventfd_read(late_port, &value), 0);
}

RL_TEST(a_port_that_was_passed_over_for_nothing, "S-SOCK-54 S-PASS-13",
        "A wait passes over a port that became ready after a socket, whose callback takes what the port had: a later wait does so again") {
    static Socket s = {.name = "s", .action = take_all};
    static Probe v1 = {.name = "v1"};
    late_port = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    make_sockets(SOCK_STREAM, late_ends);
    socket_make(&s, late_ends[0], kRLSocketReadCallBack);
    socket_add(&s);
    add_port(&v1, late_port, kRLDefaultMode);
    RLAddObserver(RLGetCurrent(), RLObserverCreate(kRLBeforeWaiting | kRLAfterWaiting, true, 0, make_ready_in_wait, NULL), kRLDefaultMode);
    for (int round = 0; round < 4; round++) {
        begins_round = true;
        takes_all = round == 1;
        expect_run(kRLDefaultMode, 0.2, false, TimedOut);
        expect_trace(takes_all ? "sleep awake s:read sleep awake" : "sleep awake s:read v1 sleep awake");
    }
}

static Socket shared;
static int shared_ends[2], handled, is_over;

static void drain_shared(Socket *self, RLSocketCallBackType type) {
    char bytes[16];
    (void)self, (void)type;
    while (recv(shared_ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0);
}

static void count_handled(LoopThread *self) {
    (void)self;
    while (!count_of(&is_over))
        if (RLRunInMode(kRLDefaultMode, 0.01, true) == kRLRunHandledSource) __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(in_two_loops_what_the_other_reported_does_not_count, "S-SOCK-55 S-SOCK-20",
        "A socket in the loops of two threads that both find it ready: as many runs end by a handled source as there are callbacks") {
    make_sockets(SOCK_STREAM, shared_ends);
    shared.name = "s";
    shared.action = drain_shared;
    socket_make(&shared, shared_ends[0], kRLSocketReadCallBack);
    RLSourceRef source = RLSocketCreateRunLoopSource(shared.socket, 0);
    LoopThread loops[2];
    for (int i = 0; i < 2; i++) {
        loop_thread_start(&loops[i], count_handled, NULL);
        RLAddSource(loops[i].loop, source, kRLDefaultMode);
    }
    for (int i = 0; i < 20000; i++) {
        write_byte(shared_ends[1]);
        sched_yield();
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) thread_join(loops[i].thread);
    ck_assert_int_eq(handled, shared.calls);
}
