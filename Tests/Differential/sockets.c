/* SPDX-License-Identifier: MIT */
/* Scenarios of section 15. CoreFoundation's helper thread makes the number of its passes a matter of
 * luck, so these say what is called, not in which pass. */
#include "scenario.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

extern void *_Block_copy(const void *block);

typedef struct Named {
    const char *name;
    Act act;
} Named;

static int reports; /* loop's thread only: since the last settle */

static void report(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    Named *named = info;
    (void)s;
    reports++;
    long length = address ? (long)RLDataGetLength(address) : -1;
    switch (type) {
    case kRLSocketReadCallBack: say("%s:read/%ld", named->name, length); break;
    case kRLSocketAcceptCallBack: say("%s:accept/%ld", named->name, length); break;
    case kRLSocketDataCallBack: say("%s:data=%zu/%ld", named->name, RLDataGetLength((RLDataRef)data), length); break;
    case kRLSocketConnectCallBack: say("%s:connect=%d/%ld", named->name, data ? *(const int32_t *)data : 0, length); break;
    case kRLSocketWriteCallBack: say("%s:write/%ld", named->name, length); break;
    default: say("?");
    }
    if (named->act) named->act();
}

static const void *retained(const void *info) {
    say("+");
    return info;
}
static void released(const void *info) {
    (void)info;
    say("-");
}

static RLSocketRef native(const char *name, int fd, RLOptionFlags types, Act act) {
    Named *named = malloc(sizeof *named);
    *named = (Named){name, act ? (Act)_Block_copy((const void *)act) : NULL};
    RLSocketContext context = {.info = named};
    return RLSocketCreateWithNative(fd, types, report, &context);
}
static RLSocketRef tcp(const char *name, RLOptionFlags types) {
    return native(name, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), types, NULL);
}
static void add(RLSocketRef s) { RLAddSource(loop, RLSocketCreateRunLoopSource(s, 0), D); }

static void pair(int type, int ends[2]) {
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) abort();
}
static struct sockaddr_in at(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}
static int port_of(int fd) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) abort();
    return ntohs(address.sin_port);
}
static int bound(void) {
    struct sockaddr_in address = at(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) abort();
    return fd;
}
static int listening(void) {
    int fd = bound();
    if (listen(fd, 8) != 0) abort();
    return fd;
}
static void put(int fd, const char *text) {
    if (send(fd, text, strlen(text), 0) < 0) abort();
}
/* Runs until so many callbacks have come, of which CoreFoundation's helper thread may tell late, or, if one is missing, for long;
 * and then for a moment, in which no other one may come. */
static void settle(int count) {
    RLAbsoluteTime end = in(20);
    while (reports < count && in(0) < end)
        if (RLRunInMode(D, 0.1, true) == kRLRunFinished) take(0.01);
    RLRunInMode(D, 0.15, false);
    reports = 0;
}
#ifdef SCENARIOS_OVER_CF
#define CF_OR_RL(cf, rl) (cf)
#else
#define CF_OR_RL(cf, rl) (rl)
#endif

SCENARIO(socket_flags, "S-SOCK-4 S-SOCK-5", "The flags at first, and after they were replaced.") {
    for (RLOptionFlags types = 0; types < 16; types += 5) {
        RLSocketRef s = tcp("s", types);
        say("%lu", RLSocketGetSocketFlags(s));
        RLSocketSetSocketFlags(s, 8 | 64);
        RLSocketInvalidate(s);
        say("%lu", RLSocketGetSocketFlags(s));
    }
}

SCENARIO(socket_is_one_per_descriptor, "S-SOCK-2 S-SOCK-15 S-SOCK-16", "One object, one source.") {
    int ends[2];
    pair(SOCK_STREAM, ends);
    RLSocketRef s = native("s", ends[0], 1, NULL);
    yes("same", native("other", ends[0], 8, NULL) == s);
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 2), again = RLSocketCreateRunLoopSource(s, 3);
    yes("same", source == again);
    say("%ld", RLSourceGetOrder(again));
    RLSourceInvalidate(source);
    yes("valid", RLSocketIsValid(s));
    yes("new", RLSocketCreateRunLoopSource(s, 4) != source);
}

SCENARIO(socket_invalid, "S-SOCK-3 S-SOCK-9 S-SOCK-10 S-SOCK-11", "What an invalid socket answers.") {
    RLSocketRef none = native("none", -1, 1, NULL);
    yes("valid", RLSocketIsValid(none));
    RLSocketRef s = tcp("s", 1);
    int fd = RLSocketGetNative(s);
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
    RLSocketInvalidate(s);
    yes("valid", RLSocketIsValid(s));
    yes("source", RLSourceIsValid(source));
    say("%d", RLSocketGetNative(s));
    yes("another", RLSocketCreateRunLoopSource(s, 0) != NULL);
    yes("peer", RLSocketCopyPeerAddress(s) != NULL);
    yes("closed", close(fd) != 0);
}

SCENARIO(socket_read, "S-SOCK-18 S-SOCK-23 S-SOCK-24", "Read, then the end, which is readable.") {
    static int ends[2];
    pair(SOCK_STREAM, ends);
    __block RLSocketRef s = native("s", ends[0], 1, ^{
        char text[8];
        say("got=%zd", recv(ends[0], text, sizeof text, MSG_DONTWAIT));
    });
    put(ends[1], "abc");
    settle(0);
    say("added");
    add(s);
    settle(1);
    RLSocketSetSocketFlags(s, 0);
    close(ends[1]);
    settle(0);
    yes("valid", RLSocketIsValid(s));
}

SCENARIO(socket_data, "S-SOCK-25 S-SOCK-26", "Data, and the end of the stream, which invalidates.") {
    int ends[2];
    pair(SOCK_STREAM, ends);
    RLSocketRef s = native("s", ends[0], 3, NULL);
    add(s);
    put(ends[1], "hello");
    settle(1);
    put(ends[1], "you");
    settle(1);
    close(ends[1]);
    settle(1);
    yes("valid", RLSocketIsValid(s));
}

SCENARIO(socket_datagrams, "S-SOCK-27", "Datagrams, an empty one too.") {
    int ends[2];
    pair(SOCK_DGRAM, ends);
    RLSocketRef s = native("s", ends[0], 3, NULL);
    add(s);
    put(ends[1], "abc");
    settle(1);
    if (send(ends[1], "", 0, 0) != 0) abort();
    settle(1);
    yes("valid", RLSocketIsValid(s));
}

SCENARIO(socket_accept, "S-SOCK-28 S-SOCK-38 S-SOCK-39", "An address once, and connections.") {
    struct sockaddr_in address = at(0);
    RLSocketRef s = tcp("s", 2);
    say("%ld", (long)RLSocketSetAddress(s, &address, sizeof address));
    say("%ld", (long)RLSocketSetAddress(s, &address, sizeof address));
    say("%ld", (long)RLSocketSetAddress(s, NULL, 0));
    add(s);
    for (int i = 0; i < 2; i++) {
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address = at(port_of(RLSocketGetNative(s)));
        if (connect(client, (struct sockaddr *)&address, sizeof address) != 0) abort();
        settle(1);
    }
}

SCENARIO(socket_write_once, "S-SOCK-19 S-SOCK-29", "Write comes once for each time it is enabled.") {
    int ends[2];
    pair(SOCK_STREAM, ends);
    RLSocketRef s = native("s", ends[0], 8, NULL);
    add(s);
    settle(1);
    say("again");
    RLSocketEnableCallBacks(s, 8);
    settle(1);
}

SCENARIO(socket_one_by_one, "S-SOCK-33 S-SOCK-36", "Without the flag each callback has to be enabled.") {
    int ends[2];
    pair(SOCK_STREAM, ends);
    RLSocketRef s = native("s", ends[0], 3, NULL);
    RLSocketSetSocketFlags(s, 0);
    add(s);
    put(ends[1], "a");
    settle(1);
    put(ends[1], "bc");
    settle(0);
    say("enabled");
    RLSocketEnableCallBacks(s, 3);
    settle(1);
}

/* With how many callbacks in the end. */
static void connecting(RLOptionFlags types, int port, RLOptionFlags flags, int count) {
    struct sockaddr_in address = at(port);
    RLSocketRef s = tcp("s", types);
    RLSocketSetSocketFlags(s, flags);
    say("%ld", (long)RLSocketConnectToAddress(s, &address, sizeof address, -1));
    take(0.02);
    add(s);
    settle(count);
    yes("valid", RLSocketIsValid(s));
    RLSocketInvalidate(s);
}

SCENARIO(socket_connects, "S-SOCK-22 S-SOCK-30 S-SOCK-43", "A connect in the background: Connect, then Write.") {
    int listener = listening();
    connecting(4 | 8, port_of(listener), 128, 2);
    connecting(4 | 8 | 1, port_of(listener), 128, 2);
    connecting(4 | 3, port_of(listener), 128, 1);
    connecting(8, port_of(listener), 128, 1);
}

SCENARIO(socket_fails_to_connect, "S-SOCK-32", "A connect that is refused, with the types there are.") {
    int port = port_of(bound());
    connecting(4 | 8, port, 128, 1);
    connecting(4 | 8 | 1, port, 128, 2);
    connecting(4 | 8 | 3, port, 128, 2);
    connecting(4 | 3, port, 128, 2);
    connecting(4, port, 128, 1);
}

DIFFERS(socket_fails_without_connect, "S-SOCK-32 S-SOCK-37",
        "Without the Connect type a refused connection is readable and writable. CoreFoundation takes the "
        "error away and calls Read alone.",
        "0 s:read/-1 valid=yes", "0 s:read/-1 s:write/-1 valid=yes") {
    connecting(8 | 1, port_of(bound()), 128, CF_OR_RL(1, 2));
}

SCENARIO(socket_connects_at_once, "S-SOCK-31 S-SOCK-41 S-SOCK-42",
         "A connect that is waited for, and its one Connect callback; one that is refused.") {
    struct sockaddr_in address = at(port_of(listening())), nobody = at(port_of(bound()));
    for (int timeout = 0; timeout < 2; timeout++) {
        RLSocketRef s = tcp("s", 4 | 8);
        say("%ld", (long)RLSocketConnectToAddress(s, &nobody, sizeof nobody, timeout));
        RLSocketInvalidate(s);
        s = tcp("s", 4 | 8);
        say("%ld", (long)RLSocketConnectToAddress(s, &address, sizeof address, timeout));
        add(s);
        settle(2);
        RLSocketInvalidate(s);
    }
}

DIFFERS(socket_connect_before_it_began, "S-SOCK-30",
        "Connect is not reported before a connect was begun. CoreFoundation on Linux reports it at once.",
        "s:connect=0/-1 waited", "waited s:connect=0/-1") {
    struct sockaddr_in address = at(port_of(listening()));
    RLSocketRef s = tcp("s", 4);
    add(s);
    settle(CF_OR_RL(1, 0));
    say("waited");
    RLSocketConnectToAddress(s, &address, sizeof address, -1);
    settle(CF_OR_RL(0, 1));
}

SCENARIO(socket_addresses, "S-SOCK-48", "Addresses are asked for once, peers when there is one.") {
    struct sockaddr_in address = at(0);
    RLSocketRef s = tcp("s", 2);
    RLDataRef before = RLSocketCopyAddress(s);
    yes("peer", RLSocketCopyPeerAddress(s) != NULL);
    RLSocketSetAddress(s, &address, sizeof address);
    RLDataRef after = RLSocketCopyAddress(s);
    say("%zu", RLDataGetLength(before));
    yes("same", RLEqual(before, after));
}

DIFFERS(socket_sends, "S-SOCK-45 S-SOCK-46",
        "Bytes and datagrams are sent. CoreFoundation calls an empty datagram an error.",
        "0 0 -1", "0 0 0") {
    int stream[2], packets[2];
    pair(SOCK_STREAM, stream);
    pair(SOCK_DGRAM, packets);
    RLSocketRef s = native("s", stream[0], 0, NULL), p = native("p", packets[0], 0, NULL);
    say("%ld", (long)RLSocketSendData(s, NULL, 0, "abc", 3, 1));
    say("%ld", (long)RLSocketSendData(p, NULL, 0, "abc", 3, 1));
    say("%ld", (long)RLSocketSendData(p, NULL, 0, "", 0, 1));
}

SCENARIO(socket_brackets, "S-SOCK-14", "retain and release around each perform.") {
    int ends[2];
    pair(SOCK_STREAM, ends);
    Named named = {"s", NULL};
    RLSocketContext context = {.info = &named, .retain = retained, .release = released};
    RLSocketRef s = RLSocketCreateWithNative(ends[0], 3, report, &context);
    add(s);
    put(ends[1], "a");
    settle(1);
    RLSocketInvalidate(s);
}

SCENARIO(socket_on_a_pipe, "S-SOCK-50", "A pipe can be read; it has no addresses and stays valid.") {
    static int ends[2];
    make_pipe(ends);
    RLSocketRef s = native("s", ends[0], 1, NULL);
    RLSocketSetSocketFlags(s, 0);
    add(s);
    post(ends[1]);
    settle(1);
    yes("peer", RLSocketCopyPeerAddress(s) != NULL);
    say("%ld", (long)RLSocketSendData(s, NULL, 0, "x", 1, 1));
    yes("valid", RLSocketIsValid(s));
}
