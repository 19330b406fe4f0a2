/* SPDX-License-Identifier: MIT */
/* Scenarios of section 15.2: in which pass, and in which order, sockets are told. CoreFoundation's helper
 * thread has to see what is ready before the loop runs, so these give it the time for that. */
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>

/* A socket in the default mode whose callback says the name, takes what is there, and does the act. */
typedef struct Peer {
    const char *name;
    int ends[2];
    RLSocketRef socket;
    Act act;
} Peer;

static void told(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    Peer *p = info;
    char text[8];
    (void)s, (void)type, (void)address, (void)data;
    say("%s", p->name);
    while (recv(p->ends[0], text, sizeof text, MSG_DONTWAIT) > 0);
    if (p->act) p->act();
}

extern void *_Block_copy(const void *block);

static Peer *peer(const char *name, RLIndex order, Act act) {
    Peer *p = calloc(1, sizeof *p);
    p->name = name;
    p->act = act ? (Act)_Block_copy((const void *)act) : NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->ends) != 0) abort();
    RLSocketContext context = {.info = p};
    p->socket = RLSocketCreateWithNative(p->ends[0], kRLSocketReadCallBack, told, &context);
    RLAddSource(loop, RLSocketCreateRunLoopSource(p->socket, order), D);
    return p;
}

/* Makes it ready, and has CoreFoundation's helper thread see that before anything else becomes ready. */
static void ready(Peer *p) {
    if (send(p->ends[1], "x", 1, 0) != 1) abort();
    take(0.06);
}

static sem_t held, done;

static void hold(int number) {
    int error = errno;
    (void)number;
    sem_post(&held);
    while (sem_wait(&done) != 0);
    errno = error;
}

/* Does the act in the wait that comes next, on another thread, while a signal handler holds the loop's thread: the wait finds
 * all of it at once, in the order in which it came. */
static void while_held(Act act) {
    __block pthread_t waits = pthread_self();
    __block Act held_act = (Act)_Block_copy((const void *)act);
    struct sigaction action = {.sa_handler = hold};
    sem_init(&held, 0, 0);
    sem_init(&done, 0, 0);
    sigaction(SIGUSR1, &action, NULL);
    when_waiting(^{
        pthread_kill(waits, SIGUSR1);
        while (sem_wait(&held) != 0);
        held_act();
        sem_post(&done);
    });
}

static RLSourceRef signalled(const char *name, RLIndex order) {
    RLSourceRef s = source_with(name, PLAIN, order, NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    return s;
}

BOTH(socket_pass_by_order, "S-SOCK-52 S-SOCK-53", "Ready sockets perform among the signalled sources, by order, in the first pass.",
     "E BT BS b v c a w BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 5, NULL), *c = peer("c", 3, NULL), *b = peer("b", -1, NULL);
    ready(a);
    ready(c);
    ready(b);
    signalled("w", 9);
    signalled("v", 2);
    run(D, 0.1, false);
}

BOTH(socket_pass_longest_ready_first, "S-SOCK-53", "Of one order, the socket that has been ready longest performs first.",
     "E BT BS d c b a BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, NULL), *b = peer("b", 0, NULL), *c = peer("c", 0, NULL), *d = peer("d", 0, NULL);
    ready(d);
    ready(c);
    ready(b);
    ready(a);
    run(D, 0.1, false);
}

BOTH(socket_pass_in_the_wait, "S-SOCK-54", "A socket that becomes ready in the wait ends it as a wake-up does, and performs in the next pass.",
     "E BT BS BW AW BT BS a BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, NULL);
    when_waiting(^{ ready(a); });
    run(D, 0.3, false);
}

BOTH(socket_pass_in_the_wait_h, "S-SOCK-54 S-SOCK-17", "The same, with returnAfterSourceHandled.",
     "E BT BS BW AW BT BS a X =HandledSource") {
    observe("", D);
    Peer *a = peer("a", 0, NULL);
    when_waiting(^{ ready(a); });
    run(D, 2, true);
}

BOTH(socket_pass_only_the_first, "S-SOCK-53 S-SOCK-17", "With returnAfterSourceHandled only the first performs, and the next in the next run.",
     "E BT BS a X =HandledSource E BT BS b X =HandledSource") {
    observe("", D);
    Peer *a = peer("a", 0, NULL), *b = peer("b", 0, NULL);
    ready(a);
    ready(b);
    run(D, 1, true);
    run(D, 1, true);
}

BOTH(socket_pass_before_timers, "S-SOCK-53 S-PASS-12", "All that are ready perform before a timer that is due.",
     "E BT BS a b timer BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, NULL), *b = peer("b", 0, NULL);
    ready(a);
    ready(b);
    RLAddTimer(loop, timer("timer", -1, 0, NULL), D);
    run(D, 0.1, false);
}

BOTH(socket_pass_and_a_port, "S-SOCK-54 S-PASS-8", "A socket and a version 1 source that become ready while the loop is busy.",
     "E BT BS s a v1 BT BS BW AW X =TimedOut") {
    observe("", D);
    __block Peer *a = peer("a", 5, NULL);
    __block int fd = event(0);
    RLAddSource(loop, port("v1", fd, NULL), D);
    RLSourceRef s = source("s", ^{
        post(fd);
        ready(a);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    ready(a);
    run(D, 0.3, false);
}

BOTH(socket_pass_before_a_port, "S-SOCK-54 S-PASS-8", "A socket and then a version 1 source become ready in the wait: the next pass performs both.",
     "E BT BS BW AW BT BS a v1 BT BS BW AW X =TimedOut") {
    observe("", D);
    __block Peer *a = peer("a", 5, NULL);
    __block int fd = event(0);
    RLAddSource(loop, port("v1", fd, NULL), D);
    while_held(^{
        ready(a);
        post(fd);
    });
    run(D, 0.3, false);
}

BOTH(socket_pass_behind_a_port, "S-SOCK-54 S-PASS-8", "A version 1 source and then a socket: the source ends the wait, and the next pass performs the socket.",
     "E BT BS BW AW v1 BT BS a BT BS BW AW X =TimedOut") {
    observe("", D);
    __block Peer *a = peer("a", 5, NULL);
    __block int fd = event(0);
    RLAddSource(loop, port("v1", fd, NULL), D);
    while_held(^{
        post(fd);
        ready(a);
    });
    run(D, 0.3, false);
}

BOTH(socket_pass_poll, "S-SOCK-53 S-RUN-17", "With no time all that are ready perform.", "E BT BS a b X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, NULL), *b = peer("b", 0, NULL);
    ready(a);
    ready(b);
    run(D, 0, false);
}

BOTH(socket_pass_made_ready, "S-SOCK-54 S-PASS-7", "A socket that another's callback makes ready performs in the next pass.",
     "E BT BS a BT BS b BT BS BW AW X =TimedOut") {
    observe("", D);
    __block Peer *b = peer("b", 0, NULL);
    Peer *a = peer("a", 0, ^{ ready(b); });
    ready(a);
    run(D, 0.1, false);
}

BOTH(socket_pass_timer_of_a_callback, "S-SOCK-53", "A timer that a callback makes due waits for the sockets that were ready before.",
     "E BT BS a b timer BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, ^{ RLAddTimer(loop, timer("timer", -1, 0, NULL), D); }), *b = peer("b", 0, NULL);
    ready(a);
    ready(b);
    run(D, 0.1, false);
}

DIFFERS(socket_pass_invalidates, "S-SOCK-53 S-SRC-34 S-PASS-15",
        "A ready socket that is invalidated before its turn is not told. CoreFoundation forgets by it that another performed.",
        "E BT BS a BW AW BT BS BW AW X =TimedOut", "E BT BS a BT BS BW AW X =TimedOut") {
    observe("", D);
    keep(D);
    __block Peer *b = peer("b", 1, NULL);
    Peer *a = peer("a", 0, ^{ RLSocketInvalidate(b->socket); });
    ready(a);
    ready(b);
    run(D, 0.1, false);
}

DIFFERS(socket_pass_disables, "S-SOCK-36", "A ready socket that is disabled before its turn is not told; CoreFoundation tells it.",
        "E BT BS a b BT BS BW AW X =TimedOut", "E BT BS a BT BS BW AW X =TimedOut") {
    observe("", D);
    __block Peer *b = peer("b", 1, NULL);
    Peer *a = peer("a", 0, ^{ RLSocketDisableCallBacks(b->socket, kRLSocketReadCallBack); });
    ready(a);
    ready(b);
    run(D, 0.1, false);
}

BOTH(socket_pass_signalled_by_hand, "S-SOCK-55", "RLSourceSignal on a socket's source, with nothing ready.",
     "signalled=yes E BT BS BT BS BW AW X =TimedOut") {
    observe("", D);
    Peer *a = peer("a", 0, NULL);
    RLSourceRef s = RLSocketCreateRunLoopSource(a->socket, 0);
    RLSourceSignal(s);
    yes("signalled", RLSourceIsSignalled(s));
    run(D, 0.1, false);
}

BOTH(socket_pass_context, "S-SOCK-52", "The source is a version 0 one.", "version=0 order=7") {
    Peer *a = peer("a", 7, NULL);
    RLSourceRef s = RLSocketCreateRunLoopSource(a->socket, 0);
    RLSourceContext context = {0};
    RLSourceGetContext(s, &context);
    say("version=%ld", (long)context.version);
    say("order=%ld", (long)RLSourceGetOrder(s));
}
