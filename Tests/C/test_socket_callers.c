/* SPDX-License-Identifier: MIT */
/* Sockets that several threads use at once, while one of them may invalidate them. */
#define _GNU_SOURCE
#include "support_socket.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static Socket s;

/* Holds a thread up before its first call of the given number, until it is let go. */
static struct {
    long number;
    int descriptor, comes, is_let_go;
} stop;
static __thread bool is_stopped;

static bool stop_before(long number, const long argument[6], long *result) {
    (void)result;
    if (!is_stopped || number != stop.number || (stop.descriptor >= 0 && argument[0] != stop.descriptor)) return false;
    is_stopped = false;
    __atomic_store_n(&stop.comes, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&stop.is_let_go, 1);
    return false;
}

static void let_go(void) { __atomic_store_n(&stop.is_let_go, 1, __ATOMIC_SEQ_CST); }

static void stop_at(long number, int descriptor) {
    stop.number = number;
    stop.descriptor = descriptor;
    hook_system_calls(stop_before);
}

static bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

static void fill(int descriptor) {
    char bytes[4096] = {0};
    while (send(descriptor, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    while (send(descriptor, bytes, 1, MSG_DONTWAIT) > 0) {}
}

/* The number */

/* Two loops */

static struct {
    RLSocketRef socket;
    RLSourceRef source;
    pthread_t second;
    sem_t may_run, is_claimed, first_is_over;
    int calls, retains;
} beside;

static const void *retain_in_second(const void *info) {
    /* Its report is claimed, and its callback not made. */
    if (beside.calls == 1 && pthread_equal(pthread_self(), beside.second) && beside.retains++ == 0) {
        sem_post(&beside.is_claimed);
        sem_wait(&beside.first_is_over);
    }
    return info;
}

static void release_nothing(const void *info) { (void)info; }

static void enable_once(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)address, (void)data, (void)info;
    if (++beside.calls > 1) return;
    RLSocketEnableCallBacks(socket, type);
    sem_post(&beside.may_run);
    sem_wait(&beside.is_claimed);
}

static void *run_beside(void *info) {
    RLAddSource(RLGetCurrent(), beside.source, kRLDefaultMode);
    sem_post(&beside.first_is_over);
    sem_wait(&beside.may_run);
    RLRunInMode(kRLDefaultMode, 60, true);
    return info;
}

RL_TEST(a_report_that_ends_beside_another_loops, "S-SOCK-20 S-SOCK-29 S-SOCK-36",
        "A Write callback that enables Write again, and ends when another loop has taken the next one on, takes nothing "
        "from it: that one is made") {
    RLSocketContext context = {0, &beside, retain_in_second, release_nothing, NULL};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    sem_init(&beside.may_run, 0, 0);
    sem_init(&beside.is_claimed, 0, 0);
    sem_init(&beside.first_is_over, 0, 0);
    beside.socket = RLSocketCreateWithNative(ends[0], kRLSocketWriteCallBack, enable_once, &context);
    beside.source = RLSocketCreateRunLoopSource(beside.socket, 0);
    RLAddSource(RLGetCurrent(), beside.source, kRLDefaultMode);
    ck_assert_int_eq(pthread_create(&beside.second, NULL, run_beside, NULL), 0);
    sem_wait(&beside.first_is_over);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    sem_post(&beside.first_is_over);
    pthread_join(beside.second, NULL);
    ck_assert_int_eq(beside.calls, 2);
    RLSocketInvalidate(beside.socket);
    RLRelease(beside.source);
    RLRelease(beside.socket);
}

static void run_stopped(LoopThread *self) {
    (void)self;
    socket_add(&s);
    is_stopped = true;
    RLRunInMode(kRLDefaultMode, 60, true);
}

RL_TEST(invalidate_meets_a_receive, "S-SOCK-70 S-SOCK-10 S-THR-1",
        "A number whose socket another thread invalidates while the loop is about to receive is closed after that, so that no "
        "other file gets it before") {
    static LoopThread other;
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    stop_at(SYS_recvmsg, ends[0]);
    write_byte(ends[1]);
    loop_thread_start(&other, run_stopped, NULL);
    wait_until_count(&stop.comes, 1);
    RLSocketInvalidate(s.socket);
    ck_assert(is_open(ends[0]));
    ck_assert_int_eq(RLSocketGetNative(s.socket), -1);
    let_go();
    thread_join(other.thread);
    ck_assert(!is_open(ends[0]));
    RLRelease(s.socket);
}

static void invalidate(void *unused) {
    (void)unused;
    RLSocketInvalidate(s.socket);
    ck_assert_int_eq(count_of(&stop.is_let_go), 1);
}

static bool let_go_at_a_sleep(long number, const long argument[6], long *result) {
    if (number == SYS_clock_nanosleep) let_go();
    return stop_before(number, argument, result);
}

RL_TEST(invalidate_gives_a_number_back, "S-SOCK-70 S-SOCK-10",
        "A number that stays open is the client's when Invalidate returns: no loop is about to receive with it any more") {
    static LoopThread other;
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    RLSocketSetSocketFlags(s.socket, 0);
    stop_at(SYS_recvmsg, ends[0]);
    write_byte(ends[1]);
    loop_thread_start(&other, run_stopped, NULL);
    wait_until_count(&stop.comes, 1);
    hook_system_calls(let_go_at_a_sleep);
    thread_join(thread_start(invalidate, NULL));
    thread_join(other.thread);
    ck_assert(is_open(ends[0]));
    RLRelease(s.socket);
    close(ends[0]);
}

/* Two threads that are held up in the C library: one that is about to use the number, one that is about to give it away. */
static struct {
    int descriptor, looks, ends;
} meeting;
static __thread bool will_use, gives_away;

int fstat(int descriptor, struct stat *about) {
    if (will_use && descriptor == meeting.descriptor) {
        will_use = false;
        __atomic_store_n(&meeting.looks, 1, __ATOMIC_SEQ_CST);
        int result = (int)syscall(SYS_fstat, descriptor, about);
        wait_until_count(&meeting.ends, 1);
        return result;
    }
    return (int)syscall(SYS_fstat, descriptor, about);
}

static int user_is_done;
int setsockopt(int descriptor, int level, int option, const void *value, socklen_t size) {
    if (gives_away && descriptor == meeting.descriptor && option == SO_LINGER) {
        gives_away = false;
        __atomic_store_n(&meeting.ends, 1, __ATOMIC_SEQ_CST);
        wait_until_count(&user_is_done, 1);
    }
    return (int)syscall(SYS_setsockopt, descriptor, level, option, value, size);
}

static void copy_address(void *unused) {
    (void)unused;
    will_use = true;
    RLDataRef address = RLSocketCopyAddress(s.socket);
    ck_assert_ptr_null(address);
    __atomic_store_n(&user_is_done, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_late_user_keeps_no_number, "S-SOCK-70",
        "A call that comes to use the number between its end and its closing gets none, and does not keep it open") {
    static char much[1 << 22];
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], 0);
    ck_assert_int_gt(RLSocketWrite(s.socket, much, sizeof much, SIZE_MAX), 0);
    meeting.descriptor = ends[0];
    Thread *thread = thread_start(copy_address, NULL);
    wait_until_count(&meeting.looks, 1);
    gives_away = true;
    RLSocketInvalidate(s.socket);
    ck_assert(!gives_away);
    thread_join(thread);
    ck_assert(!is_open(ends[0]));
    RLRelease(s.socket);
}

typedef struct Call {
    RLTimeInterval timeout;
    struct sockaddr_in address;
    size_t length;
    RLSocketError result;
} Call;

static void send_stopped(void *info) {
    Call *call = info;
    char *bytes = calloc(1, call->length);
    is_stopped = true;
    call->result = RLSocketSendData(s.socket, NULL, 0, bytes, call->length, call->timeout);
    free(bytes);
}

RL_TEST(invalidate_meets_a_send, "S-SOCK-70 S-SOCK-10 S-THR-1",
        "A number whose socket is invalidated while another thread is about to send is closed after that") {
    Call call = {.length = 1, .timeout = 0};
    int ends[2];
    make_sockets(SOCK_DGRAM, ends);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    stop_at(SYS_sendto, ends[0]);
    Thread *sender = thread_start(send_stopped, &call);
    wait_until_count(&stop.comes, 1);
    RLSocketInvalidate(s.socket);
    ck_assert(is_open(ends[0]));
    let_go();
    thread_join(sender);
    ck_assert(!is_open(ends[0]));
    RLRelease(s.socket);
}

static void connect_stopped(void *info) {
    Call *call = info;
    is_stopped = true;
    call->result = RLSocketConnectToAddress(s.socket, &call->address, sizeof call->address, call->timeout);
}

RL_TEST(a_refused_connect_is_an_error_for_both, "S-SOCK-41 S-SOCK-43 S-THR-1",
        "A thread that waits for a connect, and a loop that reports it: that the loop takes the error makes it no success for the thread") {
    Call call = {.address = loopback(refused_port()), .timeout = 60};
    s.name = "s";
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    stop_at(SYS_ppoll, -1);
    Thread *thread = thread_start(connect_stopped, &call);
    wait_until_count(&stop.comes, 1);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s:connect=111");
    let_go();
    thread_join(thread);
    ck_assert_int_eq(call.result, kRLSocketError);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

/* A listener whose queue is full: further connects wait. */
static int make_full(int family, struct sockaddr_storage *address, socklen_t *length) {
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *length = sizeof *address;
    if (family == AF_INET) *(struct sockaddr_in *)address = loopback(0);
    if (family == AF_UNIX) *(struct sockaddr_un *)address = unix_address(), *length = sizeof(struct sockaddr_un);
    if (family == AF_INET) *length = sizeof(struct sockaddr_in);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)address, *length), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)address, length), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    for (int i = 0; i < 3; i++) {
        int client = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(client, (struct sockaddr *)address, *length);
    }
    return listener;
}

typedef struct Connect {
    RLTimeInterval timeout;
    struct sockaddr_storage address;
    socklen_t length;
    RLSocketError result;
} Connect;

static void connect_anywhere(void *info) {
    Connect *call = info;
    is_stopped = true;
    call->result = RLSocketConnectToAddress(s.socket, &call->address, call->length, call->timeout);
}

static void just_invalidate(void *unused) {
    (void)unused;
    RLSocketInvalidate(s.socket);
}

RL_TEST(a_connect_that_is_about_to_wait, "S-SOCK-70 S-SOCK-42",
        "A connect without a time, of TCP or of a Unix socket, whose socket is invalidated while the kernel is being asked: an Error") {
    static const int families[] = {AF_INET, AF_UNIX};
    for (int i = 0; i < 2; i++) {
        Connect call = {0};
        int listener = make_full(families[i], &call.address, &call.length);
        socket_create(&s, families[i], SOCK_STREAM, kRLSocketNoCallBack);
        stop.comes = stop.is_let_go = 0;
        stop_at(SYS_connect, -1);
        Thread *thread = thread_start(connect_anywhere, &call);
        wait_until_count(&stop.comes, 1);
        Thread *other = thread_start(just_invalidate, NULL);
        while (RLSocketIsValid(s.socket)) sched_yield();
        let_go();
        thread_join(other);
        thread_join(thread);
        ck_assert_int_eq(call.result, kRLSocketError);
        RLRelease(s.socket);
        close(listener);
    }
}

RL_TEST(a_connect_waits_for_a_place, "S-SOCK-41 S-SOCK-42",
        "A connect of a Unix socket waits for a place in the listener's queue: with too little time it is Timeout, else Success") {
    static const RLTimeInterval timeouts[] = {0, 60};
    for (int i = 0; i < 2; i++) {
        Connect call = {.timeout = timeouts[i]};
        int listener = make_full(AF_UNIX, &call.address, &call.length);
        socket_create(&s, AF_UNIX, SOCK_STREAM, kRLSocketNoCallBack);
        ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &call.address, call.length, 0.001), kRLSocketTimeout);
        stop.comes = stop.is_let_go = 0;
        stop_at(SYS_connect, -1);
        Thread *thread = thread_start(connect_anywhere, &call);
        wait_until_count(&stop.comes, 1);
        let_go();
        for (int taken = 0; taken < 2; taken++) close(accept(listener, NULL, NULL));
        thread_join(thread);
        ck_assert_int_eq(call.result, kRLSocketSuccess);
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
        close(listener);
    }
}

RL_TEST(the_mode_while_a_connect_waits, "S-SOCK-44 S-THR-1",
        "While a thread waits for a connect with a time, the descriptor is in blocking mode for other callers") {
    Connect call = {.timeout = 60};
    int listener = make_full(AF_INET, &call.address, &call.length);
    socket_create(&s, AF_INET, SOCK_STREAM, kRLSocketNoCallBack);
    stop_at(SYS_ppoll, -1);
    Thread *thread = thread_start(connect_anywhere, &call);
    wait_until_count(&stop.comes, 1);
    ck_assert_int_eq(fcntl(RLSocketGetNative(s.socket), F_GETFL) & O_NONBLOCK, 0);
    RLSocketInvalidate(s.socket);
    let_go();
    thread_join(thread);
    ck_assert_int_eq(call.result, kRLSocketError);
    RLRelease(s.socket);
    close(listener);
}

RL_TEST(a_limit_of_a_million_years, "S-SOCK-45", "SendData without a timeout with a limit of the descriptor's that is longer than any date") {
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    struct timeval limit = {9000000000000000, 0};
    ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    ck_assert_int_eq(RLSocketSendData(s.socket, NULL, 0, "x", 1, 0), kRLSocketSuccess);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

RL_TEST(a_write_meets_a_send_that_waits, "S-SOCK-56 S-SOCK-61",
        "While a thread waits in SendData for room, with a timeout or without, another writes: the bytes of the write stay together") {
    static const RLTimeInterval timeouts[] = {0, 60};
    static char much[1 << 20], bytes[4096];
    memset(much, 'w', sizeof much);
    for (int i = 0; i < 2; i++) {
        Call call = {.length = 1 << 20, .timeout = timeouts[i]};
        int ends[2];
        make_sockets(SOCK_STREAM, ends);
        socket_make(&s, ends[0], kRLSocketNoCallBack);
        socket_add(&s);
        fill(ends[0]);
        stop.comes = stop.is_let_go = 0;
        stop_at(SYS_ppoll, -1);
        Thread *sender = thread_start(send_stopped, &call);
        wait_until_count(&stop.comes, 1);
        ck_assert_int_eq(RLSocketWrite(s.socket, much, sizeof much, SIZE_MAX), sizeof much);
        let_go();
        for (size_t written = 0; written < sizeof much;) {
            RLRunInMode(kRLDefaultMode, 0, false);
            ssize_t count = recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
            for (ssize_t place = 0; place < count; place++) {
                if (bytes[place] == 'w') written++;
                /* What the thread sent comes before or after. */
                ck_assert(bytes[place] == 'w' || written == 0 || written == sizeof much);
            }
        }
        RLSocketInvalidate(s.socket);
        thread_join(sender);
        RLRelease(s.socket);
        close(ends[1]);
    }
}

RL_TEST(nothing_comes_between_the_parts_of_a_send, "S-SOCK-61",
        "A SendData that has sent a part when another thread writes, to the queue or into room for it, or sends, ends: it sends nothing after that") {
    static char bytes[4096];
    enum { QUEUED, WRITTEN, SENT, WAYS };
    for (int way = 0; way < WAYS; way++) {
        Call call = {.length = 1 << 20, .timeout = 60};
        int ends[2];
        make_sockets(SOCK_STREAM, ends);
        socket_make(&s, ends[0], kRLSocketNoCallBack);
        socket_add(&s);
        stop.comes = stop.is_let_go = 0;
        stop_at(SYS_ppoll, -1);
        Thread *sender = thread_start(send_stopped, &call);
        wait_until_count(&stop.comes, 1);
        if (way != QUEUED) while (recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
        RLIndex result = way == SENT ? RLSocketSend(s.socket, NULL, 0, "w", 1) : RLSocketWrite(s.socket, "w", 1, SIZE_MAX);
        ck_assert_int_eq(result, way != WRITTEN);
        for (bool found = false; !found;) {
            RLRunInMode(kRLDefaultMode, 0, false);
            ssize_t count = recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT);
            found = count > 0 && bytes[count - 1] == 'w';
        }
        let_go();
        thread_join(sender);
        ck_assert_int_eq(call.result, kRLSocketSuccess);
        ck_assert_int_eq(recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT), -1);
        RLSocketInvalidate(s.socket);
        RLRelease(s.socket);
        close(ends[1]);
    }
}

RL_TEST(invalidate_ends_a_wait, "S-SOCK-70 S-SOCK-41 S-SOCK-45",
        "A connect and a send that wait while the socket is invalidated are an Error at once, and then the number is closed") {
    /* A listener whose queue is full: further connects wait. */
    Call call = {.timeout = 1e9, .length = 1};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    call.address = loopback(0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&call.address, sizeof call.address), 0);
    ck_assert_int_eq(listen(listener, 0), 0);
    socklen_t size = sizeof call.address;
    getsockname(listener, (struct sockaddr *)&call.address, &size);
    for (int i = 0; i < 4; i++) {
        int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(client, (struct sockaddr *)&call.address, size);
    }
    int number = socket(AF_INET, SOCK_STREAM, 0);
    socket_make(&s, number, kRLSocketNoCallBack);
    stop_at(SYS_ppoll, -1);
    let_go();
    Thread *caller = thread_start(connect_stopped, &call);
    wait_until_count(&stop.comes, 1);
    RLSocketInvalidate(s.socket);
    thread_join(caller);
    ck_assert_int_eq(call.result, kRLSocketError);
    ck_assert(!is_open(number));
    RLRelease(s.socket);

    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    fill(ends[0]);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    stop.comes = 0;
    caller = thread_start(send_stopped, &call);
    wait_until_count(&stop.comes, 1);
    RLSocketInvalidate(s.socket);
    thread_join(caller);
    ck_assert_int_eq(call.result, kRLSocketError);
    ck_assert(!is_open(ends[0]));
    RLRelease(s.socket);
}

/* Limits of time */

static long send_limit(int descriptor) {
    struct timeval limit;
    socklen_t size = sizeof limit;
    ck_assert_int_eq(getsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, &size), 0);
    return limit.tv_sec;
}

static void set_send_limit(int descriptor, long seconds) {
    struct timeval limit = {seconds, 0};
    ck_assert_int_eq(setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
}

RL_TEST(a_timeout_is_the_callers_own, "S-SOCK-45 S-THR-1",
        "A send with a timeout neither uses nor changes the limit of the descriptor, which other threads have too") {
    Call call = {.length = 1, .timeout = 60};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    set_send_limit(ends[0], 7);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    stop_at(SYS_sendto, ends[0]);
    Thread *sender = thread_start(send_stopped, &call);
    wait_until_count(&stop.comes, 1);
    ck_assert_int_eq(send_limit(ends[0]), 7);
    set_send_limit(ends[0], 9);
    let_go();
    thread_join(sender);
    ck_assert_int_eq(call.result, kRLSocketSuccess);
    ck_assert_int_eq(send_limit(ends[0]), 9);
    fill(ends[0]);
    call.timeout = 0.01;
    send_stopped(&call);
    ck_assert_int_eq(call.result, kRLSocketError);
    ck_assert_int_eq(send_limit(ends[0]), 9);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

RL_TEST(a_timed_send_sends_all, "S-SOCK-45",
        "Within its timeout a send gives a blocking stream all its bytes; of a descriptor that does not block it takes what there is "
        "room for") {
    Call call = {.length = 1 << 22, .timeout = 1e6};
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    socket_make(&s, ends[0], kRLSocketNoCallBack);
    Thread *sender = thread_start(send_stopped, &call);
    static char bytes[1 << 16];
    for (size_t left = call.length; left > 0;) {
        ssize_t got = recv(ends[1], bytes, sizeof bytes, 0);
        ck_assert_int_gt(got, 0);
        left -= (size_t)got;
    }
    thread_join(sender);
    ck_assert_int_eq(call.result, kRLSocketSuccess);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    send_stopped(&call);
    ck_assert_int_eq(call.result, kRLSocketSuccess);
    fill(ends[0]);
    send_stopped(&call);
    ck_assert_int_eq(call.result, kRLSocketError);
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
}

/* Accepting */

static struct Acceptor {
    LoopThread thread;
    Socket socket;
    int comes, goes;
} acceptors[2];
static __thread struct Acceptor *acceptor;

static bool stop_before_accept(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (!acceptor || number != SYS_accept4) return false;
    __atomic_store_n(&acceptor->comes, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&acceptor->goes, 1);
    return false;
}

static void accept_once(LoopThread *self) {
    struct Acceptor *own = acceptor = self->data;
    RLSourceRef source = RLSocketCreateRunLoopSource(own->socket.socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRunInMode(kRLDefaultMode, 1e9, false);
}

RL_TEST(two_loops_accept, "S-SOCK-71 S-SOCK-28 S-SOCK-55",
        "Of two loops that accept at one listening socket by two numbers, one takes a connection and the other goes on") {
    int number = make_listener();
    for (int i = 0; i < 2; i++) {
        acceptors[i].socket.name = "a";
        socket_make(&acceptors[i].socket, i ? dup(number) : number, kRLSocketAcceptCallBack);
    }
    hook_system_calls(stop_before_accept);
    int client = connect_to(port_of(number));
    for (int i = 0; i < 2; i++) loop_thread_start(&acceptors[i].thread, accept_once, &acceptors[i]);
    for (int i = 0; i < 2; i++) wait_until_count(&acceptors[i].comes, 1);
    for (int i = 0; i < 2; i++) {
        __atomic_store_n(&acceptors[i].goes, 1, __ATOMIC_SEQ_CST);
        RLPerformFunction(acceptors[i].thread.loop, kRLDefaultMode, call_stop, acceptors[i].thread.loop, NULL);
        RLWakeUp(acceptors[i].thread.loop);
        thread_join(acceptors[i].thread.thread);
    }
    hook_system_calls(NULL);
    expect_trace("a:accept");
    /* The open file stays in non-blocking mode, for whatever else accepts with it. */
    ck_assert(fcntl(number, F_GETFL) & O_NONBLOCK);
    for (int i = 0; i < 2; i++) {
        RLSocketInvalidate(acceptors[i].socket.socket);
        RLRelease(acceptors[i].socket.socket);
    }
    close(client);
}

/* Contexts */

static struct {
    RLSocketRef socket;
    int references, is_in_callback, is_in_retain, is_ended, references_in_retain;
} shared;
static __thread bool is_second;

static const void *retain_shared(const void *info) {
    if (is_second) {
        __atomic_store_n(&shared.is_in_retain, 1, __ATOMIC_SEQ_CST);
        wait_until_count(&shared.is_ended, 1);
        shared.references_in_retain = count_of(&shared.references);
    }
    __atomic_add_fetch(&shared.references, 1, __ATOMIC_SEQ_CST);
    return info;
}
static void release_shared(const void *info) {
    (void)info;
    __atomic_sub_fetch(&shared.references, 1, __ATOMIC_SEQ_CST);
}

static void end_it(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)type, (void)address, (void)data, (void)info;
    if (is_second) return;
    __atomic_store_n(&shared.is_in_callback, 1, __ATOMIC_SEQ_CST);
    wait_until_count(&shared.is_in_retain, 1);
    RLSocketInvalidate(socket);
    __atomic_store_n(&shared.is_ended, 1, __ATOMIC_SEQ_CST);
}

static void run_second(LoopThread *self) {
    is_second = true;
    RLAddSource(RLGetCurrent(), self->data, kRLDefaultMode);
    wait_until_count(&shared.is_in_callback, 1);
    RLSocketEnableCallBacks(shared.socket, kRLSocketWriteCallBack);
    RLRunInMode(kRLDefaultMode, 60, true);
}

RL_TEST(a_bracket_meets_an_invalidate_in_another, "S-THR-8 S-SOCK-14",
        "Invalidate in the callback of one loop, whose bracket has a reference of its own, leaves the context to the loop whose bracket "
        "is in its retain") {
    static LoopThread second;
    int ends[2];
    make_sockets(SOCK_STREAM, ends);
    RLSocketContext context = {.info = &shared, .retain = retain_shared, .release = release_shared};
    shared.socket = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack | kRLSocketWriteCallBack, end_it, &context);
    RLSourceRef source = RLSocketCreateRunLoopSource(shared.socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSocketDisableCallBacks(shared.socket, kRLSocketWriteCallBack);
    write_byte(ends[1]);
    loop_thread_start(&second, run_second, source);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(second.thread);
    /* The first bracket's is given back, or not yet; the context's own was there. */
    ck_assert_int_ge(shared.references_in_retain, 1);
    ck_assert_int_eq(shared.references, 0);
    RLRelease(source);
    RLRelease(shared.socket);
}

/* Two threads at the end of a stream */

static struct {
    RLSocketRef socket;
    int peer;
    size_t written, received;
    bool is_reset;
} ending;
static void ignore_data(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
}
static void write_until_the_end(void *unused) {
    (void)unused;
    char bytes[3000];
    memset(bytes, 1, sizeof bytes);
    while (true) {
        if (RLSocketWrite(ending.socket, bytes, sizeof bytes, 20000) >= 0) {
            ending.written += sizeof bytes;
        } else {
            if (errno != EAGAIN) return;
            sched_yield();
        }
    }
}
static void end_and_read(void *unused) {
    (void)unused;
    char bytes[8192];
    ssize_t count;
    shutdown(ending.peer, SHUT_WR);
    while ((count = recv(ending.peer, bytes, sizeof bytes, 0)) > 0) ending.received += (size_t)count;
    ending.is_reset = count < 0;
}

RL_TEST(a_write_meets_the_end_of_the_stream, "S-SOCK-65 S-SOCK-61",
        "What another thread writes while a Data socket finds the end of its stream arrives, or is refused; the connection is not reset") {
    for (int round = 0; round < 60; round++) {
        int ends[2], size = 8192;
        make_connection(ends);
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        ending.peer = ends[1];
        ending.written = ending.received = 0;
        ending.socket = RLSocketCreateWithNative(ends[0], kRLSocketDataCallBack | kRLSocketWriteCallBack, ignore_data, NULL);
        RLSourceRef source = RLSocketCreateRunLoopSource(ending.socket, 0);
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        Thread *writer = thread_start(write_until_the_end, NULL);
        Thread *reader = thread_start(end_and_read, NULL);
        while (RLSocketIsValid(ending.socket)) RLRunInMode(kRLDefaultMode, 0.001, false);
        thread_join(writer);
        thread_join(reader);
        ck_assert(!ending.is_reset);
        ck_assert_uint_eq(ending.received, ending.written);
        RLRelease(source);
        RLRelease(ending.socket);
        close(ends[1]);
    }
}
