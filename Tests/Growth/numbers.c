/* SPDX-License-Identifier: MIT */
/* Many sources whose descriptor number is the same: each phase of their lives is counted by itself, so that none hides another. */
#include "growth.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* Fewer than of others: each addition asks the kernel. */
#define OF_ONE 4

typedef enum { ADD, ENABLE, EVENT, REMOVE, INVALIDATE } Phase;
/* Makes an object on a number, sets *source to its source and returns what the case is to release beside that. */
typedef RLTypeRef (*Maker)(int number, RLSourceRef *source);

static RLSourceRef sources[KEPT];

static void begin_if(bool counts) {
    if (counts) counted();
}

static void end_if(bool counts) {
    if (counts) counted_end();
}

static void read_byte(int number) {
    char byte;
    require(read(number, &byte, 1) == 1, "a byte");
    calls++;
}

static void enable(RLTypeRef object) { RLFileDescriptorEnableCallBacks((RLFileDescriptorRef)object, kRLFileDescriptorReadCallBack); }

/* `byte`: what is written there is the event; -1: there is none. The phase `enables` is for descriptor objects. */
static void lives(long n, Phase phase, int number, int byte, Maker make, bool enables) {
    for (long i = 0; i < n; i++) kept[i] = make(number, &sources[i]);
    begin_if(phase == ADD);
    for (long i = 0; i < n; i++) RLAddSource(own, sources[i], kRLDefaultMode);
    end_if(phase == ADD);
    begin_if(phase == ENABLE);
    for (long i = 0; enables && i < n; i++) enable(kept[i]);
    end_if(phase == ENABLE);
    if (byte >= 0) {
        require(write(byte, "x", 1) == 1, "a byte");
        begin_if(phase == EVENT);
        while (calls == 0) RLRunInMode(kRLDefaultMode, 10, true);
        end_if(phase == EVENT);
    }
    begin_if(phase == REMOVE);
    for (long i = 0; phase == REMOVE && i < n; i++) RLRemoveSource(own, sources[i * 7 % n], kRLDefaultMode);
    end_if(phase == REMOVE);
    begin_if(phase == INVALIDATE);
    for (long i = 0; i < n; i++) RLSourceInvalidate(sources[i]);
    end_if(phase == INVALIDATE);
    for (long i = 0; i < n; i++) RLRelease(sources[i]);
    release_kept(n);
}

static void on_pair(long n, Phase phase, Maker make, bool enables) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
    lives(n, phase, ends[0], ends[1], make, enables);
    close(ends[0]);
    close(ends[1]);
}

/* --- Version 1 sources. Each has its number in its info, which nothing else has. */

typedef struct Port {
    int number;
} Port;

static Port ports[KEPT];

static RLPort port_of(void *info) { return ((Port *)info)->number; }

static void perform_port(void *info) { read_byte(((Port *)info)->number); }

static RLTypeRef make_port(int number, RLSourceRef *source) {
    static long next;
    Port *port = &ports[next++ % KEPT];
    port->number = number;
    RLSourceContext1 context = {.version = 1, .info = port, .getPort = port_of, .perform = perform_port};
    *source = RLSourceCreate(0, (RLSourceContext *)&context);
    return RLRetain(*source);
}

EACH_OF_FEW(number_ports_added, OF_ONE) { on_pair(n, ADD, make_port, false); }
EACH_OF_FEW(number_ports_event, OF_ONE) { on_pair(n, EVENT, make_port, false); }
EACH_OF_FEW(number_ports_removed, OF_ONE) { on_pair(n, REMOVE, make_port, false); }
EACH_OF_FEW(number_ports_invalidated, OF_ONE) { on_pair(n, INVALIDATE, make_port, false); }

/* --- Descriptor objects, of no interest when they are added, or of interest. */

static void descriptor_ready(RLFileDescriptorRef descriptor, RLOptionFlags types, void *info) {
    (void)types;
    (void)info;
    read_byte(RLFileDescriptorGetNativeDescriptor(descriptor));
}

static RLTypeRef make_descriptor(int number, RLSourceRef *source) {
    RLFileDescriptorRef descriptor = RLFileDescriptorCreate(number, false, descriptor_ready, NULL);
    *source = RLFileDescriptorCreateRunLoopSource(descriptor, 0);
    return descriptor;
}

static RLTypeRef make_enabled(int number, RLSourceRef *source) {
    RLTypeRef made = make_descriptor(number, source);
    enable(made);
    return made;
}

EACH_OF_FEW(number_descriptors_added, OF_ONE) { on_pair(n, ADD, make_descriptor, true); }
EACH_OF_FEW(number_descriptors_added_enabled, OF_ONE) { on_pair(n, ADD, make_enabled, false); }
EACH_OF_FEW(number_descriptors_enabled, OF_ONE) { on_pair(n, ENABLE, make_descriptor, true); }
EACH_OF_FEW(number_descriptors_event, OF_ONE) { on_pair(n, EVENT, make_enabled, false); }
EACH_OF_FEW(number_descriptors_removed, OF_ONE) { on_pair(n, REMOVE, make_enabled, false); }
EACH_OF_FEW(number_descriptors_invalidated, OF_ONE) { on_pair(n, INVALIDATE, make_enabled, false); }

/* Each has the next turn: an event looks at all that are of the number. */
EACH_OF_FEW(number_descriptors_served, 4 * OF_ONE) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
    for (long i = 0; i < n; i++) {
        kept[i] = make_enabled(ends[0], &sources[i]);
        RLAddSource(own, sources[i], kRLDefaultMode);
    }
    /* At once: bytes that are sent one by one would take more room than the sockets have. */
    static const char bytes[KEPT];
    require(n <= KEPT, "room");
    require(write(ends[1], bytes, (size_t)n) == n, "bytes");
    counted();
    while (calls < n) RLRunInMode(kRLDefaultMode, 10, true);
    counted_end();
    for (long i = 0; i < n; i++) {
        RLSourceInvalidate(sources[i]);
        RLRelease(sources[i]);
    }
    release_kept(n);
    close(ends[0]);
    close(ends[1]);
}

/* The same on a file that is always ready, which the kernel does not watch. */
static void on_file(long n, Phase phase, Maker make, bool enables) {
    int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
    require(number >= 0, "a file");
    lives(n, phase, number, -1, make, enables);
    close(number);
}

EACH_OF_FEW(number_ready_ports_added, OF_ONE) { on_file(n, ADD, make_port, false); }
EACH_OF_FEW(number_ready_descriptors_added, OF_ONE) { on_file(n, ADD, make_enabled, false); }
EACH_OF_FEW(number_ready_descriptors_enabled, OF_ONE) { on_file(n, ENABLE, make_descriptor, true); }
EACH_OF_FEW(number_ready_descriptors_invalidated, OF_ONE) { on_file(n, INVALIDATE, make_enabled, false); }

/* --- Sockets: a number has one, so many are one after the other, and asking for one finds that. */

static void socket_ready(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)type;
    (void)address;
    (void)data;
    (void)info;
    read_byte(RLSocketGetNative(s));
}

static RLSocketRef socket_of(int number) {
    RLSocketRef s = RLSocketCreateWithNative(number, kRLSocketReadCallBack, socket_ready, NULL);
    RLSocketSetSocketFlags(s, kRLSocketAutomaticallyReenableReadCallBack);
    return s;
}

EACH_OF_FEW(number_sockets_asked_for, OF_ONE) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
    counted();
    for (long i = 0; i < n; i++) {
        RLSocketRef s = socket_of(ends[0]);
        kept[i] = s;
        RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
        RLAddSource(own, source, kRLDefaultMode);
        RLRelease(source);
    }
    require(write(ends[1], "x", 1) == 1, "a byte");
    while (calls == 0) RLRunInMode(kRLDefaultMode, 10, true);
    RLSocketInvalidate((RLSocketRef)kept[0]);
    counted_end();
    release_kept(n);
    close(ends[0]);
    close(ends[1]);
}

EACH_OF_FEW(number_sockets_in_turn, OF_ONE) {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a pair of sockets");
    counted();
    for (long i = 0; i < n; i++) {
        RLSocketRef s = socket_of(ends[0]);
        kept[i] = s;
        RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
        RLAddSource(own, source, kRLDefaultMode);
        RLRelease(source);
        require(write(ends[1], "x", 1) == 1, "a byte");
        while (calls <= i) RLRunInMode(kRLDefaultMode, 10, true);
        RLSocketInvalidate(s);
    }
    counted_end();
    release_kept(n);
    close(ends[1]);
}

/* --- Kernel events of one open file: one write is told to each. */

static void event(RLSourceRef source, const RLKernelEvent *report, void *info) {
    (void)source;
    (void)report;
    (void)info;
    calls++;
}

static RLTypeRef make_event(int number, RLSourceRef *source) {
    RLKernelEvent what = {.ident = (uintptr_t)number, .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite};
    *source = RLKernelEventSourceCreate(&what, event, NULL);
    require(*source != NULL, "a source");
    return RLRetain(*source);
}

static void on_own_file(long n, Phase phase) {
    char path[] = "/tmp/growth-XXXXXX";
    int number = mkstemp(path);
    require(number >= 0, "a file");
    lives(n, phase, number, phase == EVENT ? number : -1, make_event, false);
    close(number);
    unlink(path);
}

EACH_OF_FEW(number_events_made, OF_ONE) {
    char path[] = "/tmp/growth-XXXXXX";
    int number = mkstemp(path);
    require(number >= 0, "a file");
    counted();
    for (long i = 0; i < n; i++) kept[i] = make_event(number, &sources[i]);
    counted_end();
    for (long i = 0; i < n; i++) RLRelease(sources[i]);
    release_kept(n);
    close(number);
    unlink(path);
}
EACH_OF_FEW(number_events_added, OF_ONE) { on_own_file(n, ADD); }
EACH_OF_FEW(number_events_event, OF_ONE) { on_own_file(n, EVENT); }
EACH_OF_FEW(number_events_removed, OF_ONE) { on_own_file(n, REMOVE); }
EACH_OF_FEW(number_events_invalidated, OF_ONE) { on_own_file(n, INVALIDATE); }
EACH_OF_FEW(number_events_told, OF_ONE) {
    char path[] = "/tmp/growth-XXXXXX";
    int number = mkstemp(path);
    require(number >= 0, "a file");
    for (long i = 0; i < n; i++) {
        kept[i] = make_event(number, &sources[i]);
        RLAddSource(own, sources[i], kRLDefaultMode);
    }
    require(write(number, "x", 1) == 1, "a byte");
    counted();
    while (calls < n) RLRunInMode(kRLDefaultMode, 10, true);
    counted_end();
    for (long i = 0; i < n; i++) {
        RLSourceInvalidate(sources[i]);
        RLRelease(sources[i]);
    }
    release_kept(n);
    close(number);
    unlink(path);
}
