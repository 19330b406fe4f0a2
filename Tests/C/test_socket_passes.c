/* SPDX-License-Identifier: MIT */
/* Section 15.2: sockets are version 0 sources. The traces are compared with CoreFoundation's in
 * Tests/Differential/socket_passes.c; here is what those cannot show. */
#include "support.h"
#include "support_socket.h"

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
    enum { COUNT = 200 };
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
