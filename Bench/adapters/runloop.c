/* SPDX-License-Identifier: MIT */
/* librunloop; and CoreFoundation, when it is linked with Tests/Differential/cf_shim.c instead. */
#include "../adapter.h"
#include "../bench.h"

#include <runloop/runloop.h>

#ifdef OVER_COREFOUNDATION
#include <CoreFoundation/CoreFoundation.h>
const bool timers_are_slow = true;
#else
const bool timers_are_slow = false;
#endif

struct loop {
    RLRunLoopRef rl;
};

static _Thread_local loop own;
static RLAbsoluteTime base;
static function fire_function;

loop *loop_open(bool threads) {
    (void)threads;
    own.rl = RLGetCurrent();
    return &own;
}

void loop_run(loop *l) {
    (void)l;
    RLRun();
}

void loop_stop(loop *l) { RLStop(l->rl); }

void loop_rebase(loop *l) {
    (void)l;
    base = RLAbsoluteTimeGetCurrent();
}

void loop_spin(loop *l, double seconds) {
#ifdef OVER_COREFOUNDATION
    bench_absent();
#endif
    RLSetSpinLimit(l->rl, seconds);
}

#ifndef OVER_COREFOUNDATION
static RLPort port_of(void *info) { return (RLPort)(intptr_t)info; }

static void never(void *info) {
    (void)info;
    bench_require(false, "an idle descriptor performed");
}

static void never_report(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file;
    (void)types;
    never(info);
}
#endif

void loop_watch(loop *l, int descriptor, bool object) {
#ifdef OVER_COREFOUNDATION
    /* Its version 1 sources are the eventfds and timerfds that it made itself. */
    (void)l;
    (void)descriptor;
    (void)object;
    bench_absent();
#else
    RLSourceContext1 context = {.version = 1, .info = (void *)(intptr_t)descriptor,
                                .getPort = port_of, .perform = never};
    RLSourceRef source;
    if (object) {
        RLFileDescriptorRef file = RLFileDescriptorCreate(descriptor, false, never_report, NULL);
        RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
        source = RLFileDescriptorCreateRunLoopSource(file, 0);
    } else {
        source = RLSourceCreate(0, (RLSourceContext *)&context);
    }
    RLAddSource(l->rl, source, kRLDefaultMode);
#endif
}

struct receiver {
    int descriptor;
    function call;
    void *info;
};

#ifdef OVER_COREFOUNDATION
/* Its file descriptors are not there on Linux, and its version 1 sources are no client's. */
static void receive(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address,
                    const void *data, void *info) {
    (void)socket;
    (void)type;
    (void)address;
    (void)data;
    struct receiver *r = info;
    r->call(r->info);
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    if (kind) bench_absent();
    struct receiver *r = bench_allocate(sizeof *r);
    *r = (struct receiver){descriptor, call, info};
    CFSocketContext context = {.info = r};
    CFSocketRef s = CFSocketCreateWithNative(NULL, descriptor, kCFSocketReadCallBack, receive,
                                             &context);
    bench_require(s != NULL, "no socket");
    CFRunLoopSourceRef source = CFSocketCreateRunLoopSource(NULL, s, 0);
    CFRunLoopAddSource((CFRunLoopRef)l->rl, source, kCFRunLoopDefaultMode);
    return false;
}
#else
static RLPort port_of_receiver(void *info) { return ((struct receiver *)info)->descriptor; }

static void receive_by_source(void *info) {
    struct receiver *r = info;
    r->call(r->info);
}

static void receive(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    struct receiver *r = info;
    r->call(r->info);
    RLFileDescriptorEnableCallBacks(file, types);
}

static void receive_by_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket;
    (void)type;
    (void)address;
    (void)data;
    struct receiver *r = info;
    r->call(r->info);
}

bool loop_receive(loop *l, int descriptor, function call, void *info, int kind) {
    struct receiver *r = bench_allocate(sizeof *r);
    *r = (struct receiver){descriptor, call, info};
    RLSourceRef s;
    if (kind == 2) {
        RLSocketContext context = {.info = r};
        RLSocketRef socket = RLSocketCreateWithNative(descriptor, kRLSocketReadCallBack, receive_by_socket, &context);
        s = RLSocketCreateRunLoopSource(socket, 0);
    } else if (kind == 1) {
        RLSourceContext1 context = {.version = 1, .info = r, .getPort = port_of_receiver,
                                    .perform = receive_by_source};
        s = RLSourceCreate(0, (RLSourceContext *)&context);
    } else {
        RLFileDescriptorContext context = {.info = r};
        RLFileDescriptorRef file = RLFileDescriptorCreate(descriptor, false, receive, &context);
        RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
        s = RLFileDescriptorCreateRunLoopSource(file, 0);
    }
    RLAddSource(l->rl, s, kRLDefaultMode);
    return kind == 1;
}
#endif

static function observe_function;

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    observe_function(info);
}

void loop_observe(loop *l, function call, void *info) {
    RLObserverContext context = {.info = info};
    observe_function = call;
    RLAddObserver(l->rl, RLObserverCreate(kRLBeforeSources, true, 0, observe, &context),
                  kRLDefaultMode);
}

void loop_post(loop *l, function call, void *info) {
    RLPerformFunction(l->rl, kRLDefaultMode, call, info, NULL);
    RLWakeUp(l->rl);
}

source *source_add(loop *l, function perform, void *info) {
    RLSourceContext context = {.info = info, .perform = perform};
    RLSourceRef s = RLSourceCreate(0, &context);
    RLAddSource(l->rl, s, kRLDefaultMode);
    return (source *)s;
}

void source_signal(source *s) { RLSourceSignal((RLSourceRef)s); }

void source_wake(loop *l, source *s) {
    RLSourceSignal((RLSourceRef)s);
    RLWakeUp(l->rl);
}

source *again_add(loop *l, function perform, void *info) { return source_add(l, perform, info); }
void again_signal(source *s) { source_signal(s); }

static void fire(RLTimerRef t, void *info) {
    (void)t;
    fire_function(info);
}

timer *timer_add(loop *l, double delay, double interval, double tolerance, function call,
                 void *info) {
    RLTimerContext context = {.info = info};
    fire_function = call;
    RLTimerRef t = RLTimerCreate(base + delay, interval, 0, 0, fire, info ? &context : NULL);
    if (tolerance > 0) RLTimerSetTolerance(t, tolerance);
    RLAddTimer(l->rl, t, kRLDefaultMode);
    return (timer *)t;
}

void timer_remove_set_add(timer *t, double delay) {
    RLRemoveTimer(own.rl, (RLTimerRef)t, kRLDefaultMode);
    RLTimerSetNextFireDate((RLTimerRef)t, base + delay);
    RLAddTimer(own.rl, (RLTimerRef)t, kRLDefaultMode);
}

void timer_move(timer *t, double delay) { RLTimerSetNextFireDate((RLTimerRef)t, base + delay); }
void timer_move_from_outside(timer *t, double delay) { timer_move(t, delay); }

void timer_end(timer *t) {
    RLTimerInvalidate((RLTimerRef)t);
    RLRelease((RLTimerRef)t);
}
