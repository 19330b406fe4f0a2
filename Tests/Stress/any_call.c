/* SPDX-License-Identifier: MIT */
/* Any call beside any other: threads that call the library at random, on items, ports, clocks and
   loops that all of them share, from callbacks too, while threads with loops come and go. Nothing
   hangs, no callback sees a released context, and every context is released: S-THR-1, S-THR-2,
   S-THR-5, S-REF-3, S-LOOP-12. */
#define _GNU_SOURCE
#include "stress.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum kind { SOURCE, EVENTFD, TIMER, OBSERVER, FILES, SOCKET, LOCAL, REMOTE, MACH, EVENT, CLOCK, kind_count };
enum { slot_count = 6, loop_count = 3, caller_count = 3, deepest = 3 };

/* What the context of an object points at. It stays in memory to the end of the test, so that a
   callback that comes too late is seen. */
struct subject {
    struct subject *next;
    enum kind kind;
    int fds[2]; /* its descriptor and the other end's, or -1 */
    atomic_int references;
    atomic_long scheduled;
};

/* An object that every thread may take; the slot holds one reference to each. */
struct slot {
    pthread_mutex_t lock;
    RLTypeRef object; /* both guarded by lock */
    RLSourceRef source;
    struct subject *subject; /* its descriptors stay open while the slot holds it */
};

struct host {
    pthread_mutex_t lock;
    RLRunLoopRef loop; /* guarded by lock; retained */
    pthread_t thread;
    uint64_t seed;
    atomic_bool ended;
};

static _Thread_local struct {
    uint64_t state;
    int depth;
    bool hosts; /* the thread has a loop of the test's */
} self;

static _Atomic(struct subject *) subjects;
static struct slot slots[kind_count][slot_count];
static struct host hosts[loop_count];
static atomic_bool is_over;
static atomic_long functions_held; /* made, and not released */
static atomic_ulong calls[kind_count];
static char trace_path[64];
static unsigned long rounds;

static void act(void);

static unsigned any(unsigned below) { return stress_random(&self.state) % below; }

static void report(void) {
    for (unsigned i = 0; i < loop_count; i++) fprintf(stderr, "loop %u: ended %d\n", i, atomic_load(&hosts[i].ended));
}

static struct subject *alive(const void *info) {
    struct subject *subject = (struct subject *)info;
    MUST_BE(atomic_load(&subject->references), >, 0);
    return subject;
}

static const void *subject_retain(const void *info) {
    atomic_fetch_add(&((struct subject *)info)->references, 1);
    return info;
}

static void subject_release(const void *info) {
    struct subject *subject = alive(info);
    if (atomic_fetch_sub(&subject->references, 1) != 1) return;
    /* Sockets and descriptor objects close their own. */
    if (subject->kind == EVENTFD) close(subject->fds[0]);
    if (subject->fds[1] >= 0) close(subject->fds[1]);
}

static void *subject_keep(void *info) { return (void *)subject_retain(info); }
static void subject_drop(void *info) { subject_release(info); }

static char *subject_describe(const void *info) {
    char *text = NULL;
    MUST(asprintf(&text, "a subject of kind %d", (int)alive(info)->kind) > 0);
    return text;
}

static char *subject_tell(void *info) { return subject_describe(info); }

/* What every callback does: now and then a call of its own. */
static void called(const void *info) {
    struct subject *subject = alive(info);
    atomic_fetch_add_explicit(&calls[subject->kind], 1, memory_order_relaxed);
    if (self.depth < deepest && any(4) == 0) act();
    /* Observers and descriptor objects that their own callback invalidates release their contexts at once (S-OBS-16, S-FD-11). */
    if (subject->kind != OBSERVER && subject->kind != FILES) alive(info);
}

static void on_schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    atomic_fetch_add(&alive(info)->scheduled, 1);
    if (self.depth < deepest && any(16) == 0) act();
}

static void on_cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    MUST(loop != NULL && mode != NULL);
    if (self.depth < deepest && any(16) == 0) act();
    atomic_fetch_sub(&alive(info)->scheduled, 1);
}

static RLPort port_of(void *info) { return alive(info)->fds[0]; }
static void on_perform(void *info) { called(info); }
static void on_timer(RLTimerRef timer, void *info) { (void)timer, called(info); }
static void on_event(RLSourceRef source, const RLKernelEvent *event, void *info) { (void)source, (void)event, called(info); }
static void on_mach(RLMachPortRef port, const RLMachMessage *message, void *info) { (void)port, (void)message, called(info); }
/* A function that is set when the port is over is called without the info, which has been released. */
static void on_mach_end(RLMachPortRef port, void *info) { (void)port, (void)(info ? alive(info) : NULL); }
static void on_local_end(RLMessagePortRef port, void *info) { (void)port, (void)(info ? alive(info) : NULL); }
static void on_remote_end(RLMessagePortRef port, void *info) { (void)port, (void)info; }

static void on_observe(RLObserverRef observer, RLActivity activity, void *info) {
    MUST(activity != 0 && (activity & (activity - 1)) == 0);
    (void)observer, called(info);
}

static void on_files(RLFileDescriptorRef files, RLOptionFlags types, void *info) {
    char bytes[64];
    if (types & kRLFileDescriptorReadCallBack) {
        ssize_t got = read(alive(info)->fds[0], bytes, sizeof bytes);
        (void)got;
    }
    called(info);
    if (any(2)) RLFileDescriptorEnableCallBacks(files, types);
}

static void on_socket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    char bytes[64];
    (void)address, (void)data;
    if (type == kRLSocketReadCallBack) (void)RLSocketReceive(socket, bytes, sizeof bytes, NULL);
    called(info);
}

static RLDataRef on_message(RLMessagePortRef port, int32_t number, RLDataRef data, void *info) {
    (void)port, (void)data;
    called(info);
    return number % 2 ? RLDataCreate("answer", 6) : NULL;
}

static void on_reply(RLMessagePortRef port, int32_t result, RLDataRef data, void *info) {
    (void)port, (void)result, (void)data;
    called(info);
    subject_release(info);
}

static struct subject *make_subject(enum kind kind) {
    struct subject *subject = calloc(1, sizeof *subject);
    MUST(subject != NULL);
    *subject = (struct subject){.kind = kind, .fds = {-1, -1}};
    if (kind == EVENTFD) subject->fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (kind == FILES || kind == SOCKET) MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, subject->fds) == 0);
    subject->next = atomic_load(&subjects);
    while (!atomic_compare_exchange_weak(&subjects, &subject->next, subject)) continue;
    return subject;
}

static const char *any_name(void) {
    static _Thread_local char name[48];
    snprintf(name, sizeof name, "any-call.%d.%u", (int)getpid(), any(4));
    return name;
}

static RLAbsoluteTime soon(void) { return RLAbsoluteTimeGetCurrent() + any(2048) * 1e-6; }

/* Makes an object and, for a port, its source. */
static RLTypeRef make(enum kind kind, RLSourceRef *source, struct subject **subject) {
    struct subject *info = kind == REMOTE || kind == CLOCK ? NULL : make_subject(kind);
    if (info != NULL) subject_retain(info);
    *subject = info;
    const RLIndex order = (RLIndex)any(3);
    RLTypeRef made = NULL;
    *source = NULL;
    /* All contexts but three have this form. */
    RLTimerContext context = {.info = info, .retain = subject_retain, .release = subject_release, .copyDescription = subject_describe};
    switch (kind) {
    case SOURCE: {
        RLSourceContext plain = {.info = info, .retain = subject_retain, .release = subject_release, .copyDescription = subject_describe,
                                 .schedule = on_schedule, .cancel = on_cancel, .perform = on_perform};
        made = RLSourceCreate(order, &plain);
        break;
    }
    case EVENTFD: {
        RLSourceContext1 port = {.version = 1, .info = info, .retain = subject_retain, .release = subject_release, .copyDescription = subject_describe,
                                 .getPort = port_of, .perform = on_perform};
        made = RLSourceCreate(order, (RLSourceContext *)&port);
        break;
    }
    case TIMER:
        if (any(2)) made = RLTimerCreate(soon(), any(2) ? 0.0005 : 0, 0, order, on_timer, &context);
        else made = RLTimerCreateWithClock((RLTimerClock)any(3), soon(), any(2) ? 0.0005 : 0, on_timer, &context);
        break;
    case OBSERVER:
        made = RLObserverCreate(any(2) ? kRLAllActivities : kRLBeforeWaiting, any(2), order, on_observe, (RLObserverContext *)&context);
        break;
    case FILES: {
        RLFileDescriptorContext files = {.info = info, .retain = subject_keep, .release = subject_drop, .copyDescription = subject_tell};
        made = RLFileDescriptorCreate(info->fds[0], true, on_files, &files);
        *source = RLFileDescriptorCreateRunLoopSource((RLFileDescriptorRef)made, order);
        break;
    }
    case SOCKET:
        made = RLSocketCreateWithNative(info->fds[0], any(2) ? kRLSocketReadCallBack | kRLSocketWriteCallBack : kRLSocketDataCallBack, on_socket,
                                        (RLSocketContext *)&context);
        *source = RLSocketCreateRunLoopSource((RLSocketRef)made, order);
        break;
    case LOCAL:
        made = RLMessagePortCreateLocal(any_name(), on_message, (RLMessagePortContext *)&context, NULL);
        *source = RLMessagePortCreateRunLoopSource((RLMessagePortRef)made, order);
        RLMessagePortSetInvalidationCallBack((RLMessagePortRef)made, on_local_end);
        break;
    case REMOTE:
        made = RLMessagePortCreateRemote(any_name());
        RLMessagePortSetInvalidationCallBack((RLMessagePortRef)made, on_remote_end);
        break;
    case MACH:
        made = RLMachPortCreate(on_mach, (RLMachPortContext *)&context, NULL);
        *source = RLMachPortCreateRunLoopSource((RLMachPortRef)made, order);
        RLMachPortSetInvalidationCallBack((RLMachPortRef)made, on_mach_end);
        break;
    case EVENT: {
        RLKernelEvent event = {.ident = any(4), .filter = kRLKernelFilterUser};
        if (any(4) == 0) event = (RLKernelEvent){.ident = 1, .filter = kRLKernelFilterTimer, .fflags = kRLNoteMicroseconds, .data = 500};
        if (any(4) == 0) event = (RLKernelEvent){.filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite | kRLNoteAttrib, .path = "/tmp"};
        if (any(4) == 0) event = (RLKernelEvent){.ident = SIGUSR2, .filter = kRLKernelFilterSignal};
        made = RLKernelEventSourceCreate(&event, on_event, (RLKernelEventContext *)&context);
        break;
    }
    default: made = RLClockCreateManual();
    }
    if (made != NULL && (kind == SOURCE || kind == EVENTFD || kind == EVENT)) *source = (RLSourceRef)RLRetain(made);
    return made;
}

struct borrowed {
    RLTypeRef object;
    RLSourceRef source;
    struct subject *subject;
};

static struct borrowed borrow(enum kind kind) {
    struct slot *slot = &slots[kind][any(slot_count)];
    pthread_mutex_lock(&slot->lock);
    struct borrowed all = {RLRetain(slot->object), (RLSourceRef)RLRetain(slot->source), slot->subject};
    if (all.subject != NULL) subject_retain(all.subject);
    pthread_mutex_unlock(&slot->lock);
    return all;
}

static void give_back(struct borrowed all) {
    RLRelease(all.source);
    RLRelease(all.object);
    if (all.subject != NULL) subject_release(all.subject);
}

static RLRunLoopRef borrow_loop(void) {
    struct host *host = &hosts[any(loop_count)];
    pthread_mutex_lock(&host->lock);
    RLRunLoopRef loop = host->loop ? (RLRunLoopRef)RLRetain(host->loop) : NULL;
    pthread_mutex_unlock(&host->lock);
    return loop;
}

static RLMode any_mode(void) {
    const RLMode modes[4] = {kRLDefaultMode, kRLCommonModes, "other", "third"};
    return modes[any(4)];
}

static void invalidate(enum kind kind, RLTypeRef object) {
    switch (kind) {
    case SOURCE: case EVENTFD: case EVENT: RLSourceInvalidate((RLSourceRef)object); break;
    case TIMER: RLTimerInvalidate((RLTimerRef)object); break;
    case OBSERVER: RLObserverInvalidate((RLObserverRef)object); break;
    case FILES: RLFileDescriptorInvalidate((RLFileDescriptorRef)object); break;
    case SOCKET: any(2) ? RLSocketInvalidate((RLSocketRef)object) : (void)RLSocketClose((RLSocketRef)object, (RLSocketCloseType)any(3)); break;
    case LOCAL: case REMOTE: RLMessagePortInvalidate((RLMessagePortRef)object); break;
    case MACH: RLMachPortInvalidate((RLMachPortRef)object); break;
    default: break;
    }
}

/* Another object takes a slot; the old one goes on while somebody holds it, or is invalidated. */
static void replace(enum kind kind) {
    struct borrowed new;
    new.object = make(kind, &new.source, &new.subject);
    struct slot *slot = &slots[kind][any(slot_count)];
    pthread_mutex_lock(&slot->lock);
    struct borrowed old = {slot->object, slot->source, slot->subject};
    slot->object = new.object, slot->source = new.source, slot->subject = new.subject;
    pthread_mutex_unlock(&slot->lock);
    /* A socket lives until it is invalidated (S-SOCK-8), and a source that was added to the loop of an ended thread (S-LOOP-12). */
    if (old.object != NULL && (any(8) != 0 || (kind != TIMER && kind != OBSERVER))) invalidate(kind, old.object);
    if (kind == SOCKET) RLSocketInvalidate((RLSocketRef)old.object);
    give_back(old);
}

static void add_or_remove(enum kind kind, RLTypeRef object, RLSourceRef source) {
    RLRunLoopRef loop = borrow_loop();
    RLMode mode = any_mode();
    bool add = any(3) != 0;
    if (kind == TIMER) (add ? RLAddTimer : RLRemoveTimer)(loop, (RLTimerRef)object, mode);
    else if (kind == OBSERVER) (add ? RLAddObserver : RLRemoveObserver)(loop, (RLObserverRef)object, mode);
    else if (source != NULL) (add ? RLAddSource : RLRemoveSource)(loop, source, mode);
    RLRelease(loop);
}

static void poke(int fd) {
    static const uint64_t one = 1;
    ssize_t written = fd >= 0 ? write(fd, &one, sizeof one) : 0;
    (void)written;
}

/* The object's own calls. */
static void use(enum kind kind, RLTypeRef object, RLSourceRef source, struct subject *subject) {
    RLTimerRef timer = (RLTimerRef)object;
    RLSocketRef socket = (RLSocketRef)object;
    RLFileDescriptorRef files = (RLFileDescriptorRef)object;
    RLMessagePortRef port = (RLMessagePortRef)object;
    RLClockRef clock = (RLClockRef)object;
    RLRunLoopRef loop = NULL;
    unsigned step = any(6);
    switch (kind) {
    case SOURCE:
        if (step == 0) RLSourceSetLimit(source, (RLIndex)any(4), 0.001);
        else if (step == 1) (void)RLSourceIsSignalled(source), (void)RLSourceGetLimit(source, NULL);
        else RLSourceSignal(source);
        break;
    case EVENTFD:
        if (step == 0) RLSourceSetLimit(source, (RLIndex)any(4), 0.001);
        else poke(subject->fds[0]);
        break;
    case TIMER:
        if (step == 0) RLTimerSetTolerance(timer, any(100) * 1e-6);
        else if (step == 1) RLTimerSetReusable(timer, any(2));
        else if (step == 2) (void)RLTimerGetNextFireDate(timer), (void)RLTimerGetInterval(timer), (void)RLTimerIsValid(timer);
        else if (step == 3) RLTimerSetNextFireDelay(timer, any(1000) * 1e-6);
        else RLTimerSetNextFireDate(timer, soon());
        break;
    case OBSERVER: (void)RLObserverIsValid((RLObserverRef)object), (void)RLObserverGetActivities((RLObserverRef)object); break;
    case FILES:
        if (step == 0) RLFileDescriptorDisableCallBacks(files, 1 + any(3));
        else if (step == 1) RLFileDescriptorEnablePersistentCallBacks(files, kRLFileDescriptorReadCallBack);
        else if (step == 2) poke(subject->fds[1]);
        else RLFileDescriptorEnableCallBacks(files, 1 + any(3));
        break;
    case SOCKET:
        if (step == 0) RLSocketDisableCallBacks(socket, any(16));
        else if (step == 1) RLSocketEnableCallBacks(socket, any(16));
        else if (step == 2) (void)RLSocketSend(socket, NULL, 0, "bytes", 5);
        else if (step == 3) (void)RLSocketSendData(socket, NULL, 0, "bytes", 5, 0);
        else if (step == 4) any(4) ? poke(subject->fds[1]) : RLSocketSetSocketFlags(socket, kRLSocketCloseOnInvalidate | any(16));
        else (void)RLSocketWrite(socket, "bytes", 5, 1 + any(4096));
        break;
    case LOCAL:
        if (step == 0) (void)RLMessagePortSetName(port, any_name());
        else if (step == 1) RLMessagePortSetInvalidationCallBack(port, on_local_end);
        else (void)RLMessagePortIsValid(port);
        break;
    case REMOTE:
        if (step < 3) {
            struct subject *info = make_subject(REMOTE);
            uint32_t request = 0;
            loop = borrow_loop();
            subject_retain(info);
            if (RLMessagePortBeginRequest(port, (int32_t)any(4), "question", 8, NULL, 0, 0.01, loop, any_mode(), on_reply, info, &request) != 0)
                subject_release(info);
            else if (any(3) == 0 && RLMessagePortCancelRequest(port, request))
                subject_release(info);
        } else if (step < 5) {
            (void)RLMessagePortSendRequest(port, (int32_t)any(4), "word", 4, 0, 0, NULL, NULL);
        } else {
            RLDataRef data = NULL;
            (void)RLMessagePortSendRequest(port, 1, "word", 4, 0.0005, 0.0005, self.hosts && any(2) ? kRLDefaultMode : NULL, &data);
            RLRelease(data);
        }
        break;
    case MACH:
        if (step == 0) RLMachPortSetQueueLimit((RLMachPortRef)object, 1 + (RLIndex)any(8));
        else {
            struct borrowed reply = step == 1 ? borrow(MACH) : (struct borrowed){0};
            (void)RLMachPortSend((RLMachPortRef)object, 1, "mach", 4, (RLMachPortRef)reply.object, 0);
            give_back(reply);
        }
        break;
    case EVENT:
        if (step == 0) RLKernelEventSourceSetEnabled(source, any(2));
        else if (step == 1) kill(getpid(), SIGUSR2);
        else RLKernelEventSourceTrigger(source, kRLNoteTrigger, 1);
        break;
    default:
        loop = borrow_loop();
        if (step == 0) (void)RLSetClock(loop, clock);
        else if (step <= 2) (void)RLSetClock(loop, NULL);
        else if (step == 3) RLClockSetWallTime(clock, RLAbsoluteTimeGetCurrent());
        else if (step == 4) RLClockSuspend(clock, 0.001);
        else (void)RLClockAdvanceToNext(clock);
    }
    RLRelease(loop);
}

static void on_function(void *info) {
    (void)info;
    if (self.depth < deepest && any(4) == 0) act();
}

static void function_release(void *info) { (void)info, atomic_fetch_sub(&functions_held, 1); }

static void *function_info(void) {
    atomic_fetch_add(&functions_held, 1);
    return &functions_held;
}

static void on_slow(const RLSlowCallout *callout, void *info) { (void)callout, (void)info; }

/* Calls about a loop. */
static void use_loop(void) {
    RLRunLoopRef loop = borrow_loop();
    RLMode modes[2] = {any_mode(), any_mode()};
    RLStatistics statistics = {.version = 1};
    RLHistogramBucket buckets[8];
    RLIndex count = 0;
    switch (any(20)) {
    case 0: RLStop(loop); break;
    case 1: RLWakeUp(loop); break;
    case 2: RLPerformFunction(loop, modes[0], on_function, function_info(), function_release); break;
    case 3: RLPerformFunctionInModes(loop, modes, 2, on_function, function_info(), function_release); break;
    case 4: RLPerformInOrder(loop, modes, 2, (RLIndex)any(3), loop, on_function, function_info(), function_release); break;
    case 5: RLCancelPerformInOrder(loop, loop, on_function, &functions_held); break;
    case 6: RLPerformOnLoop(loop, modes[0], on_function, function_info(), function_release, false); break;
    case 7:
        if (self.hosts) RLPerformAfterDelay(modes[0], any(1000) * 1e-6, loop, on_function, function_info(), function_release);
        break;
    case 8: if (self.hosts) RLCancelPerformAfterDelay(loop, on_function, &functions_held, NULL); break;
    case 9: RLSetAccounting(loop, any(2)); break;
    case 10: (void)RLGetStatistics(loop, &statistics), (void)RLGetHistogram(loop, (RLHistogram)any(3), buckets, 8); break;
    case 11: RLSetSlowCalloutHandler(loop, any(2) ? 0.0002 : 0, on_slow, function_info(), function_release); break;
    case 12: RLSetPassLimit(loop, modes[0], (RLIndex)any(3)); break;
    case 13: RLAddCommonMode(loop, any(2) ? "third" : "other"); break;
    case 14: RLSetSpinLimit(loop, any(3) * 1e-5); break;
    case 15: {
        RLTypeRef *items = RLCopyItems(loop, modes[0], kRLItemAll, &count);
        for (RLIndex i = 0; i < count; i++) RLRelease(items[i]);
        free(items);
        break;
    }
    case 16: free(RLCopyAllModes(loop, &count)), free(RLCopyCurrentMode(loop)); break;
    case 17: (void)RLGetNextTimerFireDate(loop, modes[0]), (void)RLIsWaiting(loop), (void)RLGetPassLimit(loop, modes[0]); break;
    case 18: free(RLCopyDescription(loop)); break;
    default:
        if (any(8) == 0) any(2) ? (void)RLTraceStart(trace_path, 0) : RLTraceStop();
        else if (self.hosts && self.depth < deepest) (void)RLRunInMode(modes[0], any(2) * 1e-4, any(2));
    }
    RLRelease(loop);
}

static void act(void) {
    enum kind kind = any(kind_count);
    unsigned step = any(12);
    self.depth++;
    if (step < 3) {
        use_loop();
    } else if (step == 3) {
        replace(kind);
    } else {
        struct borrowed all = borrow(kind);
        RLTypeRef object = all.object;
        RLSourceRef source = all.source;
        RLItemStatistics statistics = {.version = 1};
        if (step < 6) add_or_remove(kind, object, source);
        else if (step < 10) use(kind, object, source, all.subject);
        else if (any(6) == 0) invalidate(kind, object);
        else if (any(3) == 0) free(RLCopyDescription(any(2) ? object : source));
        else if (any(2)) RLSetName(object, any(2) ? "a name" : NULL), free(RLCopyName(object));
        else (void)RLGetItemStatistics(NULL, source ? source : object, &statistics), (void)RLGetRetainCount(object);
        give_back(all);
    }
    self.depth--;
}

/* A loop's thread: runs of any length in any mode, for a while; then it ends as it is. */
static void *host_body(void *info) {
    struct host *host = info;
    self.state = host->seed, self.hosts = true, self.depth = 0;
    pthread_mutex_lock(&host->lock);
    RLRelease(host->loop);
    host->loop = (RLRunLoopRef)RLRetain(RLGetCurrent());
    pthread_mutex_unlock(&host->lock);
    for (unsigned turns = 200 + any(200); turns > 0 && !atomic_load(&is_over); turns--) {
        RLMode mode = any(4) ? kRLDefaultMode : any(2) ? "other" : "third";
        (void)RLRunInMode(mode, any(8) ? any(3) * 1e-4 : STRESS_FOREVER, any(2));
        stress_progress();
    }
    host->seed = self.state;
    atomic_store(&host->ended, true);
    return NULL;
}

static void *caller_body(void *info) {
    self.state = (uintptr_t)info;
    for (unsigned long round = 0; round < rounds; round++) {
        act();
        if (any(16) != 0) continue;
        /* The loops keep up: a common mode runs again and again, or its thread ends. */
        RLRunLoopRef loop = borrow_loop();
        (void)RLPerformOnLoop(loop, kRLCommonModes, on_function, function_info(), function_release, true);
        RLRelease(loop);
        stress_progress();
    }
    return NULL;
}

/* Time passes for the loops with clocks of their own; threads that have ended are followed by new ones. */
static void *keeper_body(void *unused) {
    (void)unused;
    self.state = 77;
    while (!atomic_load(&is_over)) {
        struct borrowed clock = borrow(CLOCK);
        RLClockAdvance((RLClockRef)clock.object, 0.001);
        give_back(clock);
        for (unsigned i = 0; i < loop_count; i++) {
            if (!atomic_load(&hosts[i].ended)) continue;
            stress_thread_join(hosts[i].thread);
            atomic_store(&hosts[i].ended, false);
            stress_thread_start(&hosts[i].thread, host_body, &hosts[i]);
        }
        if (any(64) == 0) {
            RLRunLoopRef loop = borrow_loop();
            RLStop(loop);
            RLRelease(loop);
        }
        usleep(200);
    }
    return NULL;
}

START_TEST(any_call_beside_any_other) {
    pthread_t callers[caller_count], keeper;
    unsigned long made = 0, all_calls = 0;
    rounds = stress_count(60000);
    snprintf(trace_path, sizeof trace_path, "/tmp/any-call.%d.trace", (int)getpid());
    signal(SIGUSR2, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    self.state = 5;
    for (enum kind kind = 0; kind < kind_count; kind++)
        for (unsigned i = 0; i < slot_count; i++) {
            pthread_mutex_init(&slots[kind][i].lock, NULL);
            slots[kind][i].object = make(kind, &slots[kind][i].source, &slots[kind][i].subject);
        }
    for (unsigned i = 0; i < loop_count; i++) {
        pthread_mutex_init(&hosts[i].lock, NULL);
        hosts[i].seed = 100 + i;
        stress_thread_start(&hosts[i].thread, host_body, &hosts[i]);
    }
    stress_watchdog_start(report);
    stress_thread_start(&keeper, keeper_body, NULL);
    for (uintptr_t i = 0; i < caller_count; i++) stress_thread_start(&callers[i], caller_body, (void *)(1000 + i));
    for (unsigned i = 0; i < caller_count; i++) stress_thread_join(callers[i]);
    atomic_store(&is_over, true);
    stress_thread_join(keeper);
    for (unsigned i = 0; i < loop_count; i++) {
        while (!atomic_load(&hosts[i].ended)) {
            pthread_mutex_lock(&hosts[i].lock);
            RLRunLoopRef loop = hosts[i].loop ? (RLRunLoopRef)RLRetain(hosts[i].loop) : NULL;
            pthread_mutex_unlock(&hosts[i].lock);
            RLSetClock(loop, NULL);
            RLStop(loop);
            RLRelease(loop);
            usleep(200);
        }
        stress_thread_join(hosts[i].thread);
    }
    for (unsigned i = 0; i < loop_count; i++) {
        RLRunLoopRef loop = hosts[i].loop;
        hosts[i].loop = NULL; /* callbacks of what is invalidated below look for loops */
        RLRelease(loop);
    }
    stress_watchdog_stop();
    RLTraceStop();
    unlink(trace_path);
    for (enum kind kind = 0; kind < kind_count; kind++)
        for (unsigned i = 0; i < slot_count; i++) {
            if (slots[kind][i].object != NULL) invalidate(kind, slots[kind][i].object);
            if (kind == SOCKET) RLSocketInvalidate((RLSocketRef)slots[kind][i].object);
            give_back((struct borrowed){slots[kind][i].object, slots[kind][i].source, slots[kind][i].subject});
        }
    for (struct subject *subject = atomic_load(&subjects); subject != NULL; made++) {
        struct subject *next = subject->next;
        MUST_BE(atomic_load(&subject->references), ==, 0);
        MUST_BE(atomic_load(&subject->scheduled), ==, 0);
        free(subject);
        subject = next;
    }
    ck_assert_uint_gt(made, 0);
    ck_assert_int_eq(atomic_load(&functions_held), 0);
    for (enum kind kind = 0; kind < kind_count; kind++) all_calls += atomic_load(&calls[kind]);
    ck_assert_uint_gt(all_calls, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("any_call");
    TCase *tests = tcase_create("calls_at_random");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 800);
    tcase_add_test(tests, any_call_beside_any_other);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
