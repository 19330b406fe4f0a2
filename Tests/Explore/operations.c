/* SPDX-License-Identifier: MIT */
/* What the calls of a scenario's text do, and what has to hold of each item at the end. */
#define _GNU_SOURCE
#include "program.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <poll.h>
#include <unistd.h>

pid_t __real_fork(void);

/* In the order of enum kind. */
const char *const kind_names[] = {"source", "inbox",   "port",   "timer", "observer", "post",  "mach",    "descriptor", "user",     "thread",
                                  "message", "socket", "vnode",  "sync",  "clock",    "counter", "handler", "lockfile", "request", "listener",
                                  "dialer",  NULL};

/* ---- callbacks */

/* The calls that a function of a context makes, the first time. */
static void perform_inner(struct item *item, enum inner inner) {
    if (!item->inner[inner] || item->was_inside[inner] || !run.concurrent) return;
    item->was_inside[inner] = true;
    item->inside[inner] = self;
    perform_block(item->inner[inner]);
    item->inside[inner] = NULL;
}

const void *retain_info(const void *info) {
    struct item *item = (struct item *)(uintptr_t)info;
    item->retains++;
    perform_inner(item, INNER_RETAIN);
    return info;
}

static void release_counted(const void *info) {
    struct item *item = (struct item *)(uintptr_t)info;
    if (!item) fail("NULL is released in place of an info");
    if (++item->releases > item->retains) fail("the info of %s is released too often", item->name);
    if (!item->has_description) return;
    /* As the counts of references that programs have: the last release knows what was done before the others. */
    const uint64_t count = 1 + rlx_modify(&item->counted, sizeof item->counted, RLX_ADD, 1, RLX_ACQUIRING_AND_RELEASING, __FILE__, __LINE__);
    if (count == (uint64_t)item->retains &&
        rlx_load(&item->described, sizeof item->described, RLX_RELAXED, __FILE__, __LINE__) != item->described)
        fail("the info of %s is released by a thread that need not know what copyDescription did with it", item->name);
}

void release_info(const void *info) {
    release_counted(info);
    perform_inner((struct item *)(uintptr_t)info, INNER_RELEASE);
}

void check_alive(struct item *item) {
    if (!item) fail("a callback with NULL in place of its info");
    if (item->releases >= item->retains) fail("a callback of %s after the release of its info", item->name);
}

/* It does something with the info, which the thread that releases it has to know. */
char *describe_info(const void *info) {
    struct item *item = (struct item *)(uintptr_t)info;
    check_alive(item);
    rlx_store(&item->described, sizeof item->described, item->described + 1, RLX_RELAXED, __FILE__, __LINE__);
    check_alive(item);
    perform_inner(item, INNER_DESCRIBE);
    if (!item->ended_inside) check_alive(item);
    return strdup(item->name);
}

/* A callback counts, makes its calls, and ends the run of a thread that waited for it. */
void call_back(struct item *item) {
    item->perform_begun = ++sequence;
    item->performed++;
    if (run.concurrent) note_step(ACCESS_NOTE, 0, 0, 0, (uint64_t)item->performed, 0, "callback", 0);
    if (item->performed == 1) {
        item->calling = self;
        perform_block(item->block);
        item->calling = NULL;
    }
    /* What a callback is given lives as long as the callback. */
    if (item->kind != KIND_POST && item->kind != KIND_REQUEST && item->kind != KIND_THREAD && !item->ended_inside && item->releases >= item->retains)
        fail("the info of %s is released while its callback runs", item->name);
    struct actor *actor = acting();
    if (actor && actor->awaited == item && item->performed >= actor->awaited_count) RLStop(RLGetCurrent());
}

static void perform_source(void *info) {
    check_alive(info);
    call_back(info);
}

static void schedule_source(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)loop;
    (void)mode;
    check_alive(info);
    ((struct item *)info)->scheduled++;
    perform_inner(info, INNER_SCHEDULE);
}

static void cancel_source(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)loop;
    (void)mode;
    check_alive(info);
    ((struct item *)info)->cancelled++;
    perform_inner(info, INNER_CANCEL);
}

/* Sources with such a function have one hash, and none is equal to another. */
static bool is_equal(const void *one, const void *other) {
    check_alive((struct item *)(uintptr_t)one);
    check_alive((struct item *)(uintptr_t)other);
    perform_inner((struct item *)(uintptr_t)one, INNER_EQUAL);
    return one == other;
}
static RLHashCode hash_of(const void *info) {
    check_alive((struct item *)(uintptr_t)info);
    return 7;
}

static void perform_port(void *info) {
    struct item *item = info;
    check_alive(item);
    char bytes[16];
    if (read(item->descriptors[0], bytes, sizeof bytes) < 0) return;
    call_back(item);
}

static RLPort port_of(void *info) { return ((struct item *)info)->descriptors[0]; }

static void fire(RLTimerRef timer, void *info) {
    struct item *item = info;
    check_alive(item);
    /* Half a microsecond on either side, to which the clocks of programs round. */
    if (item->clock != kRLTimerClockMonotonic && !run.set_back && RLAbsoluteTimeGetCurrent() < RLTimerGetNextFireDate(timer) - 2e-6)
        fail("%s fires before its clock shows its date", item->name);
    call_back(info);
}

static void observe(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer;
    (void)activity;
    check_alive(info);
    call_back(info);
}

void perform_post(void *info) {
    struct item *item = info;
    if (item->freed >= item->posted) fail("%s is called after its release", item->name);
    call_back(item);
}

void release_post(void *info) {
    struct item *item = info;
    if (++item->freed > item->posted) fail("%s is released too often", item->name);
}

static void receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    (void)message;
    check_alive(info);
    call_back(info);
}

static void port_is_invalid(RLMachPortRef port, void *info) {
    (void)port;
    struct item *item = info;
    check_alive(item);
    item->invalidations++;
}

static void report_user(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source;
    (void)event;
    check_alive(info);
    call_back(info);
}

static RLDataRef answer(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port;
    (void)msgid;
    check_alive(info);
    call_back(info);
    return data ? RLDataCreate("y", 1) : NULL;
}

static void message_port_is_invalid(RLMessagePortRef port, void *info) {
    (void)port;
    check_alive(info);
    ((struct item *)info)->invalidations++;
}

static void receive_data(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket;
    (void)type;
    (void)address;
    (void)data;
    struct item *item = info;
    check_alive(item);
    char bytes[16];
    if (read(item->descriptors[0], bytes, sizeof bytes) < 0) return;
    call_back(item);
}

/* The outcome of a request, on the thread of its loop; a request that was cancelled has none. */
static void take_outcome(RLMessagePortRef port, int32_t result, RLDataRef data, void *info) {
    struct item *item = info;
    if (port != item->remote) fail("%s is told of another port", item->name);
    if (RLGetCurrent() != item->loop) fail("%s is told on another thread", item->name);
    if (item->dropped != 0) fail("%s is told after it was cancelled or refused", item->name);
    if (++item->freed > 1) fail("%s is told twice", item->name);
    if ((result == kRLMessagePortSuccess) != (data != NULL)) fail("%s is told %d, %s data", item->name, (int)result, data ? "with" : "without");
    /* The end of a loop's thread tells of what is still waiting; the objects are gone by then. */
    if (run.concurrent) call_back(item);
}

static void be_ready(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file;
    (void)types;
    struct item *item = info;
    check_alive(item);
    char bytes[16];
    if (read(item->descriptors[0], bytes, sizeof bytes) < 0) return;
    call_back(item);
}

static void thread_body(RLThreadRef thread, void *info) {
    (void)thread;
    call_back(info);
}

/* ---- items */

static void make_pipe(struct item *item) {
    if (pipe2(item->descriptors, 04000 /* O_NONBLOCK */) != 0) fail("no pipe");
}

/* With a number, a file that the kernel cannot watch. */
static void make_always_ready(struct item *item) {
    for (int i = 0; i < 2; i++)
        if ((item->descriptors[i] = open("/dev/null", O_RDWR)) < 0) fail("no /dev/null");
}

void make_item(struct item *item) {
    char *(*const describes)(const void *) = item->has_description ? describe_info : NULL;
    item->described = item->counted = 0;
    item->budget = item->retains = item->releases = item->performed = item->scheduled = item->cancelled = item->invalidations = 0;
    item->posted = item->dropped = item->freed = 0;
    item->written = 0;
    item->signal_begun = item->perform_begun = 0;
    item->forgiven = item->ended_inside = item->is_leaving = false;
    item->calling = NULL;
    memset(item->inside, 0, sizeof item->inside);
    memset(item->was_inside, 0, sizeof item->was_inside);
    item->object = NULL;
    item->source = NULL;
    item->remote = NULL;
    item->descriptors[0] = item->descriptors[1] = -1;
    switch (item->kind) {
    case KIND_SOURCE: {
        RLSourceContext context = {.info = item, .retain = retain_info, .release = release_info, .schedule = schedule_source,
                                   .cancel = cancel_source, .perform = perform_source};
        if (item->inner[INNER_EQUAL]) {
            context.equal = is_equal;
            context.hash = hash_of;
        }
        item->object = item->source = RLSourceCreate((RLIndex)item->number, &context);
        break;
    }
    case KIND_INBOX: {
        RLMachPortContext context = {0, item, retain_info, release_info, describes};
        RLMachPortRef port = RLMachPortCreate(receive, &context, NULL);
        item->object = port;
        RLMachPortSetInvalidationCallBack(port, port_is_invalid);
        item->source = RLMachPortCreateRunLoopSource(port, 0);
        break;
    }
    case KIND_PORT:
    case KIND_COUNTER: {
        const bool is_counter = item->kind == KIND_COUNTER;
        if (is_counter)
            item->descriptors[0] = eventfd(0, EFD_NONBLOCK);
        else
            make_pipe(item);
        RLSourceContext1 context = {.version = 1, .info = item, .retain = retain_info, .release = release_info,
                                    .getPort = port_of, .perform = is_counter ? perform_source : perform_port};
        item->object = item->source = RLSourceCreate(0, (RLSourceContext *)&context);
        break;
    }
    case KIND_TIMER: {
        item->due = item->number;
        RLTimerContext context = {0, item, retain_info, release_info, describes};
        item->object = RLTimerCreateWithClock(item->clock, RLAbsoluteTimeGetCurrent() + item->number, item->repeats ? 1 : 0, fire, &context);
        break;
    }
    case KIND_OBSERVER: {
        RLObserverContext context = {0, item, retain_info, release_info, describes};
        item->object = RLObserverCreate(item->number ? (RLOptionFlags)item->number : (RLOptionFlags)kRLBeforeSources,
                                        item->repeats, 0, observe, &context);
        break;
    }
    case KIND_DESCRIPTOR: {
        if (item->number != 0)
            make_always_ready(item);
        else
            make_pipe(item);
        RLFileDescriptorContext context = {0, item, (void *(*)(void *))retain_info, (void (*)(void *))release_info,
                                           (char *(*)(void *))describes};
        RLFileDescriptorRef file = RLFileDescriptorCreate(item->descriptors[0], false, be_ready, &context);
        RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
        item->object = file;
        item->source = RLFileDescriptorCreateRunLoopSource(file, 0);
        break;
    }
    case KIND_USER: {
        RLKernelEventContext context = {0, item, retain_info, release_info, NULL};
        RLKernelEvent event = {.filter = kRLKernelFilterUser};
        if (item->number != 0) event = (RLKernelEvent){.filter = kRLKernelFilterSignal, .ident = (uintptr_t)item->number};
        item->object = item->source = RLKernelEventSourceCreate(&event, report_user, &context);
        break;
    }
    case KIND_MESSAGE: {
        static int number;
        snprintf(item->path, sizeof item->path, "explore.%d.%d", (int)getpid(), number++ % 100);
        RLMessagePortContext context = {0, item, retain_info, release_info, describes};
        RLMessagePortRef port = RLMessagePortCreateLocal(item->path, answer, &context, NULL);
        if (!port) fail("no local message port");
        item->object = port;
        RLMessagePortSetInvalidationCallBack(port, message_port_is_invalid);
        /* With a number a queue is to serve it. */
        if (item->number == 0) item->source = RLMessagePortCreateRunLoopSource(port, 0);
        item->remote = RLMessagePortCreateRemote(item->path);
        break;
    }
    case KIND_SOCKET: {
        if (item->number != 0)
            make_always_ready(item);
        else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, item->descriptors) != 0) fail("no sockets");
        /* So little room that a write leaves bytes queued. */
        int room = 1;
        setsockopt(item->descriptors[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        RLSocketContext context = {0, item, retain_info, release_info, describes};
        RLSocketRef socket = RLSocketCreateWithNative(item->descriptors[0], kRLSocketReadCallBack, receive_data, &context);
        item->object = socket;
        item->source = RLSocketCreateRunLoopSource(socket, 0);
        break;
    }
    case KIND_VNODE: {
        snprintf(item->path, sizeof item->path, "%s/file.%d", getenv("XDG_RUNTIME_DIR"), (int)getpid());
        item->descriptors[1] = open(item->path, O_RDWR | O_CREAT, 0600);
        RLKernelEventContext context = {0, item, retain_info, release_info, NULL};
        RLKernelEvent event = {.filter = kRLKernelFilterVnode, .ident = (uintptr_t)item->descriptors[1], .fflags = kRLNoteWrite};
        item->object = item->source = RLKernelEventSourceCreate(&event, report_user, &context);
        break;
    }
    case KIND_THREAD:
        item->posted = 1;
        /* One without a body runs its loop until it is told to end. */
        item->forgiven = item->number != 0;
        item->object = RLThreadCreate(item->forgiven ? NULL : thread_body, item, release_post);
        break;
    case KIND_REQUEST: item->id = 0; return;
    case KIND_POST: return;
    case KIND_SYNC: make_sync(item); return;
    case KIND_HANDLER: make_handler(item); return;
    case KIND_LOCK_FILE: make_lock_file(item); break;
    case KIND_LISTENER: make_listener(item); break;
    case KIND_DIALER: make_dialer(item); break;
    case KIND_CLOCK:
        item->object = RLClockCreateManual();
        item->due = RLClockGetTime((RLClockRef)item->object);
        break;
    default: fail("%s is of no kind", item->name);
    }
    if (!item->object) fail("%s cannot be made", item->name);
}

static bool has_source_beside(struct item *item) { return item->source && item->source != item->object; }

static bool is_in_loop(struct item *item) {
    for (int i = 0; i < actor_count; i++) {
        if (!actors[i].loop || actors[i].has_ended) continue;
        if (item->kind == KIND_TIMER && RLContainsTimer(actors[i].loop, (RLTimerRef)item->object, kRLDefaultMode)) return true;
        if (item->source && RLContainsSource(actors[i].loop, item->source, kRLDefaultMode)) return true;
    }
    return false;
}

void check_item(struct item *item) {
    for (int i = 0; i < actor_count; i++)
        if (actors[i].has_ended && item->kind == KIND_POST) return;
    if (!item->object) {
        if (item->kind == KIND_POST && item->posted != item->performed && !item->forgiven)
            fail("%s was posted %d times and performed %d times", item->name, item->posted, item->performed);
        return;
    }
    if (item->source && RLSourceIsValid(item->source) && is_in_loop(item) && item->signal_begun > item->perform_begun &&
        item->kind != KIND_DESCRIPTOR && !item->forgiven && !(item->budget > 0 && item->performed >= item->budget))
        fail("a signal of %s is lost: it is in a loop, which ran and did not perform it", item->name);
    if (item->kind == KIND_SOURCE && item->budget > 0 && item->performed > item->budget)
        fail("%s performed %d times, and its limit is %d", item->name, item->performed, item->budget);
    if (item->kind == KIND_TIMER && !item->repeats && RLTimerIsValid((RLTimerRef)item->object) && is_in_loop(item) &&
        item->due < 500 && !item->forgiven)
        fail("%s is in a loop, which ran past its time and did not fire it", item->name);
}

static void drop_object(struct item *item) {
    switch (item->kind) {
    case KIND_SOURCE:
    case KIND_PORT:
    case KIND_COUNTER:
    case KIND_VNODE:
    case KIND_USER: RLSourceInvalidate((RLSourceRef)item->object); break;
    case KIND_TIMER: RLTimerInvalidate((RLTimerRef)item->object); break;
    case KIND_OBSERVER: RLObserverInvalidate((RLObserverRef)item->object); break;
    case KIND_INBOX: RLMachPortInvalidate((RLMachPortRef)item->object); break;
    case KIND_MESSAGE: RLMessagePortInvalidate((RLMessagePortRef)item->object); break;
    case KIND_LISTENER:
    case KIND_DIALER:
    case KIND_SOCKET: RLSocketInvalidate((RLSocketRef)item->object); break;
    case KIND_DESCRIPTOR: RLFileDescriptorInvalidate((RLFileDescriptorRef)item->object); break;
    default: break;
    }
    RLRelease(item->object);
    if (item->kind == KIND_VNODE) unlink(item->path);
}

void drop_item(struct item *item) {
    if (has_source_beside(item)) {
        RLSourceInvalidate(item->source);
        RLRelease(item->source);
    }
    if (item->object) drop_object(item);
    /* Also of a port that a thread has released: it is the table's to know, and each run would leave one there. */
    if (item->kind != KIND_REQUEST) RLRelease(item->remote);
    /* What a released socket has is its own. */
    if (item->kind == KIND_SOCKET) item->descriptors[0] = -1;
    for (int i = 0; i < 2; i++)
        if (item->descriptors[i] >= 0) close(item->descriptors[i]);
}

void check_item_at_end(struct item *item) {
    if (item->kind == KIND_MESSAGE) end_cancelled_sources();
    if (item->retains != item->releases)
        fail("the info of %s was retained %d times and released %d times", item->name, item->retains, item->releases);
    if (item->kind == KIND_REQUEST) {
        if (item->posted > 0 && item->freed + item->dropped != 1) fail("%s was neither told nor cancelled", item->name);
        return;
    }
    if (item->scheduled != item->cancelled)
        fail("%s was scheduled %d times and cancelled %d times", item->name, item->scheduled, item->cancelled);
    if (item->kind == KIND_THREAD && item->dropped != 0) fail("%s has %d exit callbacks that were not called", item->name, item->dropped);
    if (item->kind == KIND_LOCK_FILE) {
        check_lock_file(item);
        return;
    }
    if (item->posted != item->freed) fail("%s was posted %d times and released %d times", item->name, item->posted, item->freed);
}

/* ---- operations */

RLMode mode_of(struct call *call) { return call->mode ? call->mode : kRLDefaultMode; }

RLRunLoopRef loop_of(struct call *call) {
    struct actor *actor = call->actor ? call->actor : acting();
    /* Other threads may use it as long as somebody has a reference. */
    if (!actor->loop && actor == acting()) actor->loop = (RLRunLoopRef)(uintptr_t)RLRetain(RLGetCurrent());
    return actor->loop;
}

const void *object_of(struct call *call) { return call->item[0]->object; }

static void do_loop(struct call *call) { loop_of(call); }

static void do_keep(struct call *call) {
    RLSourceContext context = {0};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(loop_of(call), source, mode_of(call));
    RLRelease(source);
}

static void do_add(struct call *call) {
    struct item *item = call->item[0];
    if (item->kind == KIND_TIMER)
        RLAddTimer(loop_of(call), (RLTimerRef)item->object, mode_of(call));
    else if (item->kind == KIND_OBSERVER)
        RLAddObserver(loop_of(call), (RLObserverRef)item->object, mode_of(call));
    else
        RLAddSource(loop_of(call), item->source, mode_of(call));
}

static void do_remove(struct call *call) {
    struct item *item = call->item[0];
    if (item->kind == KIND_TIMER)
        RLRemoveTimer(loop_of(call), (RLTimerRef)item->object, mode_of(call));
    else if (item->kind == KIND_OBSERVER)
        RLRemoveObserver(loop_of(call), (RLObserverRef)item->object, mode_of(call));
    else
        RLRemoveSource(loop_of(call), item->source, mode_of(call));
}

static bool is_member(struct call *call, RLMode mode) {
    struct item *item = call->item[0];
    if (item->kind == KIND_TIMER) return RLContainsTimer(loop_of(call), (RLTimerRef)item->object, mode);
    if (item->kind == KIND_OBSERVER) return RLContainsObserver(loop_of(call), (RLObserverRef)item->object, mode);
    return RLContainsSource(loop_of(call), item->source, mode);
}

/* A common item is in the modes of the common set, and what was added in no other way is in them no more once it is none. */
static void do_agree(struct call *call) {
    bool is_common = is_member(call, kRLCommonModes), is_in_mode = is_member(call, mode_of(call));
    if (is_common != is_in_mode)
        fail("%s is %sa common item and %sin a common mode", call->item[0]->name, is_common ? "" : "not ", is_in_mode ? "" : "not ");
}

/* What was added and not removed is in its mode. */
static void do_member(struct call *call) {
    if (!is_member(call, mode_of(call))) fail("%s is not in the mode that it was added to", call->item[0]->name);
}

static void do_contains(struct call *call) { (void)is_member(call, mode_of(call)); }

/* What makes a source's callback run: a signal, a message, bytes, a trigger. */
static void do_signal(struct call *call) {
    struct item *item = call->item[0];
    item->signal_begun = ++sequence;
    switch (item->kind) {
    case KIND_INBOX:
        if (RLMachPortSend((RLMachPortRef)item->object, 1, "x", 1, NULL, call->has_number ? call->number : 0) != 0)
            item->signal_begun = 0;
        break;
    case KIND_COUNTER: {
        uint64_t one = 1;
        if (write(item->descriptors[0], &one, sizeof one) != sizeof one) fail("write to a counter");
        break;
    }
    case KIND_PORT:
    case KIND_DESCRIPTOR:
        if (write(item->descriptors[1], "x", 1) != 1) fail("write");
        break;
    case KIND_SOCKET:
        if (write(item->descriptors[1], "x", 1) != 1) item->signal_begun = 0; /* the other end may be closed */
        break;
    case KIND_VNODE:
        if (write(item->descriptors[1], "x", 1) != 1) fail("write to a file");
        break;
    case KIND_MESSAGE:
        if (RLMessagePortSendRequest((RLMessagePortRef)item->remote, 1, "x", 1, call->has_number ? call->number : 0, 0, NULL, NULL))
            item->signal_begun = 0;
        break;
    case KIND_USER:
        if (item->number != 0) raise((int)item->number);
        else RLKernelEventSourceTrigger(item->source, kRLNoteTrigger, 0);
        break;
    default: RLSourceSignal(item->source);
    }
}

static void do_invalidate(struct call *call) {
    struct item *item = call->item[0];
    if (item->calling == self || item->inside[INNER_DESCRIBE] == self) item->ended_inside = true;
    switch (item->kind) {
    case KIND_TIMER: RLTimerInvalidate((RLTimerRef)item->object); break;
    case KIND_OBSERVER: RLObserverInvalidate((RLObserverRef)item->object); break;
    case KIND_INBOX: RLMachPortInvalidate((RLMachPortRef)item->object); break;
    case KIND_DESCRIPTOR: RLFileDescriptorInvalidate((RLFileDescriptorRef)item->object); break;
    case KIND_MESSAGE: RLMessagePortInvalidate((RLMessagePortRef)item->object); break;
    case KIND_LISTENER:
    case KIND_DIALER:
    case KIND_SOCKET: RLSocketInvalidate((RLSocketRef)item->object); break;
    default: RLSourceInvalidate(item->source);
    }
}

/* Nothing needs the info. */
static void do_invalidate_at_once(struct call *call) {
    do_invalidate(call);
    if (call->item[0]->releases < call->item[0]->retains) fail("the info of %s is not released yet", call->item[0]->name);
}

static void do_invalidate_source(struct call *call) { RLSourceInvalidate(call->item[0]->source); }

static void do_valid(struct call *call) {
    struct item *item = call->item[0];
    switch (item->kind) {
    case KIND_TIMER: (void)RLTimerIsValid((RLTimerRef)item->object); break;
    case KIND_OBSERVER: (void)RLObserverIsValid((RLObserverRef)item->object); break;
    case KIND_INBOX: (void)RLMachPortIsValid((RLMachPortRef)item->object); break;
    case KIND_MESSAGE: (void)RLMessagePortIsValid((RLMessagePortRef)item->object); break;
    case KIND_LISTENER:
    case KIND_DIALER:
    case KIND_SOCKET: (void)RLSocketIsValid((RLSocketRef)item->object); break;
    case KIND_DESCRIPTOR: (void)RLFileDescriptorIsValid((RLFileDescriptorRef)item->object); break;
    default: (void)RLSourceIsValid(item->source);
    }
}

static void do_signalled(struct call *call) { (void)RLSourceIsSignalled(call->item[0]->source); }

static void do_describe(struct call *call) { free(RLCopyDescription(call->item[0] ? call->item[0]->object : loop_of(call))); }

/* An item or a loop gets a name, and one that is whole is read. */
static void do_name(struct call *call) {
    RLTypeRef object = call->item[0] ? call->item[0]->object : (RLTypeRef)loop_of(call);
    RLSetName(object, "a name");
    char *name = RLCopyName(object);
    if (name && strcmp(name, "a name") != 0) fail("a name is \"%s\"", name);
    free(name);
}

/* What is listed lives as long as the list, and what is measured of it is what was called. */
static void do_items(struct call *call) {
    RLRunLoopRef loop = loop_of(call);
    RLIndex count;
    RLTypeRef *items = RLCopyItems(loop, mode_of(call), kRLItemAll, &count);
    for (RLIndex i = 0; i < count; i++) {
        RLItemStatistics statistics = {.version = 0};
        RLGetItemStatistics(loop, items[i], &statistics);
        for (RLIndex j = 0; j < i; j++)
            if (items[i] == items[j]) fail("an item is listed twice");
    }
    for (RLIndex i = 0; i < count; i++) RLRelease(items[i]);
    free(items);
}

static void do_statistics(struct call *call) {
    RLStatistics statistics = {.version = 0};
    if (!RLGetStatistics(loop_of(call), &statistics)) fail("a loop has no statistics");
    if (statistics.callOutTime < 0 || statistics.asleepTime < 0) fail("a time is negative");
}

static void do_measure(struct call *call) { RLSetAccounting(loop_of(call), true); }
static void do_unmeasure(struct call *call) { RLSetAccounting(loop_of(call), false); }

/* Another reference, for `release`. */
static void do_retain(struct call *call) { RLRetain(object_of(call)); }

/* The creator's reference: nothing else may follow on the item. */
static void do_release(struct call *call) {
    struct item *item = call->item[0];
    const void *object = item->object;
    if (!has_source_beside(item)) item->source = NULL;
    item->object = NULL;
    RLRelease(object);
}

static void do_release_retained(struct call *call) { RLRelease(object_of(call)); }

static void do_date(struct call *call) {
    RLTimerSetNextFireDate((RLTimerRef)object_of(call), RLAbsoluteTimeGetCurrent() + call->number);
    call->item[0]->due = call->number;
}

/* The wall clock is set forward by more than a scenario takes. */
static void do_step(struct call *call) {
    (void)call;
    run.wall += 5000000000000;
}

/* A date for another thread, which the program orders by means of its own. */
static RLAbsoluteTime told_date;
static void do_tell_date(struct call *call) {
    told_date = RLAbsoluteTimeGetCurrent() + call->number;
    fence_clocks();
}
static void do_told_date(struct call *call) {
    fence_clocks();
    RLTimerSetNextFireDate((RLTimerRef)object_of(call), told_date);
}

/* The time of a callback that wakes a waiting loop and then moves the clock, for what it wakes the loop for. */
static void do_tell_now(struct call *call) {
    told_date = RLIsWaiting(loop_of(call)) ? RLAbsoluteTimeGetCurrent() : 0;
}
static void do_not_after(struct call *call) {
    (void)call;
    RLTimeInterval late = told_date == 0 ? 0 : RLAbsoluteTimeGetCurrent() - told_date;
    if (late > 2e-6) fail("the loop is %g s after what woke it", late);
}

/* Fails if the clock went on by more than so many seconds in the scenario. */
static void do_within(struct call *call) {
    if (run.now > run.begun + (int64_t)(call->number * 1e9)) fail("more than %g seconds have passed", call->number);
}

static void do_tolerance(struct call *call) { RLTimerSetTolerance((RLTimerRef)object_of(call), call->number); }
static void do_fire_date(struct call *call) { (void)RLTimerGetNextFireDate((RLTimerRef)object_of(call)); }
static void do_next_fire(struct call *call) { (void)RLGetNextTimerFireDate(loop_of(call), mode_of(call)); }

static void do_enable(struct call *call) {
    if (call->item[0]->kind == KIND_SOCKET) {
        RLSocketEnableCallBacks((RLSocketRef)object_of(call), kRLSocketReadCallBack);
        return;
    }
    if (call->item[0]->kind == KIND_DESCRIPTOR)
        RLFileDescriptorEnableCallBacks((RLFileDescriptorRef)object_of(call), kRLFileDescriptorReadCallBack);
    else
        RLKernelEventSourceSetEnabled(call->item[0]->source, true);
}

static void do_disable(struct call *call) {
    call->item[0]->forgiven = true;
    if (call->item[0]->kind == KIND_SOCKET) {
        RLSocketDisableCallBacks((RLSocketRef)object_of(call), kRLSocketReadCallBack);
        return;
    }
    if (call->item[0]->kind == KIND_DESCRIPTOR)
        RLFileDescriptorDisableCallBacks((RLFileDescriptorRef)object_of(call), kRLFileDescriptorReadCallBack);
    else
        RLKernelEventSourceSetEnabled(call->item[0]->source, false);
}

static void do_limit(struct call *call) { RLMachPortSetQueueLimit((RLMachPortRef)object_of(call), (RLIndex)call->number); }

/* A period that does not end while a schedule runs; without a number the limit is taken away. */
static void do_budget(struct call *call) {
    struct item *item = call->item[0];
    item->budget = item->budget == 0 ? (int)call->number : NO_BUDGET;
    RLSourceSetLimit(item->source, (RLIndex)call->number, 1e8);
}
static void do_pass_limit(struct call *call) { RLSetPassLimit(loop_of(call), mode_of(call), 1); }

/* A request that waits for its answer; on the loop that serves it too (S-MSG-27). */
static void do_ask(struct call *call) {
    RLDataRef data = NULL;
    (void)RLMessagePortSendRequest((RLMessagePortRef)call->item[0]->remote, 1, "x", 1, 5, 5, mode_of(call), &data);
    RLRelease(data);
}

/* A request begins once, and is then told, cancelled or refused. */
static void do_begin(struct call *call) {
    struct item *item = call->item[0];
    if (item->posted++ > 0) return;
    item->remote = call->item[1]->remote;
    item->loop = loop_of(call);
    int32_t result = RLMessagePortBeginRequest((RLMessagePortRef)item->remote, 1, "x", 1, NULL, 0, 5, item->loop, mode_of(call), take_outcome,
                                               item, &item->id);
    if (result == kRLMessagePortSuccess) return;
    item->dropped = 1;
    if (item->freed > 0) fail("%s is refused with %d, and was told", item->name, (int)result);
}
static void do_cancel_begun(struct call *call) {
    struct item *item = call->item[0];
    if (item->id == 0 || !RLMessagePortCancelRequest((RLMessagePortRef)item->remote, item->id)) return;
    if (item->cancelled++ > 0) fail("%s is cancelled twice", item->name);
    if (item->freed > 0) fail("%s is cancelled after it was told", item->name);
    item->dropped = 1;
}

/* The function was called, or the request cancelled. */
static void do_told(struct call *call) {
    struct item *item = call->item[0];
    if (item->posted > 0 && item->freed + item->dropped != 1) fail("%s is over, and its function is not called", item->name);
}

static void do_end_remote(struct call *call) { RLMessagePortInvalidate((RLMessagePortRef)call->item[0]->remote); }

static void do_rename(struct call *call) {
    char name[80];
    call->item[0]->forgiven = true; /* what was on its way goes with the name */
    snprintf(name, sizeof name, "%s.x", call->item[0]->path);
    (void)RLMessagePortSetName((RLMessagePortRef)object_of(call), name);
}

static void do_new_remote(struct call *call) { RLRelease(RLMessagePortCreateRemote(call->item[0]->path)); }

/* A port of the name: the one that somebody has, or a new one; valid, unless another thread ends it, and with the info that retain returned. */
static char given_info, retained_info;
static const void *retain_given(const void *info) {
    (void)info;
    return &retained_info;
}
static void release_retained(const void *info) {
    if (info != &retained_info) fail("an info is released that nobody retained");
}
static void do_new_local(struct call *call) {
    RLMessagePortContext context = {0, &given_info, retain_given, release_retained, NULL};
    RLMessagePortRef port = RLMessagePortCreateLocal(call->item[0]->path, answer, &context, NULL);
    if (!port) fail("the name of %s is neither there nor free", call->item[0]->name);
    if (!RLMessagePortIsValid(port) && !call->has_number) fail("a port that was just made is invalid");
    RLMessagePortGetContext(port, &context);
    if (context.info == &given_info) fail("a port has an info that was not retained yet");
    RLRelease(port);
}

/* Another source for the same file, made and ended. */
static void do_twin(struct call *call) {
    RLKernelEventContext context = {0};
    RLKernelEvent event = {.filter = kRLKernelFilterVnode, .ident = (uintptr_t)call->item[0]->descriptors[1], .fflags = kRLNoteWrite};
    RLSourceRef source = RLKernelEventSourceCreate(&event, report_user, &context);
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* A trace of the process; one is on at most, and the child of fork has a file of its own. */
void forget_line(const char *line, void *info) { (void)line, (void)info; }
static void do_trace(struct call *call) {
    (void)call;
    /* One that comes while another starts or stops is refused with a line. */
    RLSetLogHandler(forget_line, NULL);
    RLTraceStart("/dev/shm/rl-explore.%p", 1);
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/rl-explore.%d", (int)getpid());
    unlink(path);
}
static void do_untrace(struct call *call) {
    (void)call;
    RLTraceStop();
}

static void do_wake(struct call *call) { RLWakeUp(loop_of(call)); }
static void do_stop(struct call *call) { RLStop(loop_of(call)); }
static void do_waiting(struct call *call) { (void)RLIsWaiting(loop_of(call)); }
static void do_common(struct call *call) { RLAddCommonMode(loop_of(call), mode_of(call)); }
static void do_modes(struct call *call) { free(RLCopyAllModes(loop_of(call), NULL)); }
static void do_mode(struct call *call) { free(RLCopyCurrentMode(loop_of(call))); }
static void do_empty(struct call *call) { (void)RLIsModeEmpty(mode_of(call)); }
static void do_spin(struct call *call) { RLSetSpinLimit(loop_of(call), call->number); }

/* The loop does not become empty, or else it would come back at once. */
static const double for_ever = 1e10;

static void do_once(struct call *call) {
    loop_of(call);
    RLRunInMode(mode_of(call), 0, false);
}

static void do_run(struct call *call) {
    loop_of(call);
    RLRunInMode(mode_of(call), call->has_number ? call->number : for_ever, false);
}

/* Runs until the callback was called so many times; a loss is a sleep without an end. */
static void do_until(struct call *call) {
    struct actor *actor = acting();
    loop_of(call);
    actor->awaited = call->item[0];
    actor->awaited_count = call->has_number ? (int)call->number : 1;
    while (call->item[0]->performed < actor->awaited_count)
        if (RLRunInMode(mode_of(call), for_ever, false) == kRLRunFinished) break;
    actor->awaited = NULL;
}

/* The loop under a host that polls its descriptor, until the callback was called. */
static RLForeignRunRef create_foreign_run(struct call *call) {
    RLForeignRunRef foreign = RLForeignRunCreate(mode_of(call));
    /* The program may close a number before the call returns. */
    if (!foreign && (errno == EBADF || errno == EINVAL)) foreign = RLForeignRunCreate(mode_of(call));
    if (!foreign) fail("no foreign run: %s", strerror(errno));
    return foreign;
}

static void do_foreign(struct call *call) {
    struct item *item = call->item[0];
    loop_of(call);
    RLForeignRunRef foreign = create_foreign_run(call);
    struct pollfd request = {RLForeignRunGetDescriptor(foreign), POLLIN, 0};
    for (int turn = 0; item->performed < (call->has_number ? (int)call->number : 1); turn++) {
        double seconds = RLForeignRunPrepare(foreign);
        if (poll(&request, 1, seconds > 1e6 ? -1 : (int)(seconds * 1000) + 1) < 0) continue;
        RLForeignRunDispatch(foreign);
        if (turn > 100) fail("a host's loop turns in vain");
    }
    RLForeignRunInvalidate(foreign);
    RLRelease(foreign);
}

/* A host until its mode is empty, with an item until that was called. By the number it does not prepare (1), and runs mode m itself before
 * its first waits (2). */
static void do_host(struct call *call) {
    struct item *item = call->item[0];
    int kind = call->has_number ? (int)call->number : 0;
    RLRunLoopRef loop = loop_of(call);
    RLForeignRunRef foreign = create_foreign_run(call);
    struct pollfd request = {RLForeignRunGetDescriptor(foreign), POLLIN, 0};
    for (int turn = 0; !item || item->performed == 0; turn++) {
        if (kind & 2 && turn < 4) RLRunInMode("m", 0, false);
        double seconds = kind & 1 ? for_ever : RLForeignRunPrepare(foreign);
        char *mode = RLCopyCurrentMode(loop);
        free(mode);
        if (item && item->performed > 0) break;
        if (!item && (turn > 0 || !(kind & 1)) && !mode && RLIsModeEmpty(mode_of(call))) break;
        if (poll(&request, 1, seconds > 1e6 ? -1 : (int)(seconds * 1000) + 1) < 0) continue;
        RLForeignRunDispatch(foreign);
        if (turn > 100) fail("a host's loop turns in vain");
    }
    RLForeignRunInvalidate(foreign);
    RLRelease(foreign);
}

/* ---- functions for a loop */

static void do_post(struct call *call) {
    call->item[0]->posted++;
    RLPerformFunction(loop_of(call), mode_of(call), perform_post, call->item[0], release_post);
}

/* So many at once. */
static void do_fill(struct call *call) {
    for (int i = 0; i < (int)call->number; i++) do_post(call);
}

static void do_post_in(struct call *call) {
    RLMode list[2] = {kRLDefaultMode, mode_of(call)};
    call->item[0]->posted++;
    RLPerformFunctionInModes(loop_of(call), list, 2, perform_post, call->item[0], release_post);
}

static void do_on_loop(struct call *call) {
    struct item *item = call->item[0];
    item->posted++;
    bool done = RLPerformOnLoop(loop_of(call), mode_of(call), perform_post, item, release_post, call->number != 0);
    if (!done) item->forgiven = true;
    else if (call->number != 0 && item->performed == 0) fail("%s is not performed and was waited for", item->name);
}

static void do_after(struct call *call) {
    call->item[0]->posted++;
    RLPerformAfterDelay(mode_of(call), call->number, call->item[0], perform_post, call->item[0], release_post);
}

static void do_cancel_after(struct call *call) {
    call->item[0]->forgiven = true;
    RLCancelPerformAfterDelay(call->item[0], perform_post, call->item[0], NULL);
}

static bool equal_posts(const void *first, const void *second) {
    const struct item *item = first;
    if (item->freed >= item->posted) fail("%s is compared after its release", item->name);
    return first == second;
}
static void do_cancel_equal(struct call *call) {
    call->item[0]->forgiven = true;
    RLCancelPerformAfterDelay(call->item[0], perform_post, call->item[0], equal_posts);
}

/* The timers of the loop's mode, delayed requests among them. */
static void do_end_timers(struct call *call) {
    RLIndex count;
    RLTypeRef *timers = RLCopyItems(loop_of(call), mode_of(call), kRLItemTimers, &count);
    for (RLIndex i = 0; i < count; i++) {
        RLTimerInvalidate((RLTimerRef)timers[i]);
        RLRelease(timers[i]);
    }
    free(timers);
}

static void do_order(struct call *call) {
    RLMode list[1] = {mode_of(call)};
    call->item[0]->posted++;
    RLPerformInOrder(loop_of(call), list, 1, (RLIndex)call->number, call->item[0], perform_post, call->item[0], release_post);
}

static void do_cancel_order(struct call *call) {
    call->item[0]->forgiven = true;
    RLCancelPerformInOrder(loop_of(call), call->item[0], perform_post, call->item[0]);
}

/* ---- threads and processes */

static void do_end(struct call *call) { (void)call; }

/* In a callback of a thread that makes `end` too. */
static void do_exit(struct call *call) {
    (void)call;
    struct actor *actor = acting();
    if (!actor || !actor->ends || run.child) return;
    actor->has_ended = true;
    pthread_exit(NULL);
}

static void do_start(struct call *call) { (void)RLThreadStart((RLThreadRef)object_of(call)); }
static void do_join(struct call *call) { (void)RLThreadJoin((RLThreadRef)object_of(call)); }
static void do_cancel(struct call *call) { RLThreadCancel((RLThreadRef)object_of(call)); }
static void do_end_thread(struct call *call) { (void)RLThreadEnd((RLThreadRef)object_of(call)); }
static void do_stop_thread(struct call *call) { RLThreadStop((RLThreadRef)object_of(call), !call->has_number || call->number != 0); }
static void do_detach(struct call *call) { (void)RLThreadDetach((RLThreadRef)object_of(call)); }
static void do_priority(struct call *call) { (void)RLThreadChangePriority((RLThreadRef)object_of(call), 1); }

static void call_at_exit(RLThreadRef thread, void *info) {
    struct item *item = info;
    item->is_leaving = true;
    if (thread != item->object && item->object) fail("an exit callback of another thread");
    if (RLThreadIsFinished(thread)) fail("an exit callback after the end");
    __atomic_fetch_sub(&item->dropped, 1, __ATOMIC_SEQ_CST);
}
/* Each that is taken is called. */
static void do_exit_call(struct call *call) {
    if (RLThreadAddExitCallBack((RLThreadRef)object_of(call), call_at_exit, call->item[0]))
        __atomic_fetch_add(&call->item[0]->dropped, 1, __ATOMIC_SEQ_CST);
}

/* A source of the thread's end, that is performed or ended before. */
static void do_watch_end(struct call *call) {
    RLKernelEventContext context = {0};
    RLKernelEvent event = {.filter = kRLKernelFilterThread, .ident = (uintptr_t)object_of(call), .fflags = kRLNoteExit};
    RLSourceRef source = RLKernelEventSourceCreate(&event, NULL, &context);
    RLAddSource(loop_of(call), source, kRLDefaultMode);
    if (!call->has_number) RLRunInMode(kRLDefaultMode, for_ever, false);
    else RLSourceInvalidate(source);
    if (RLSourceIsValid(source)) fail("a thread has ended, and its source was not performed");
    RLRelease(source);
}

static void do_list(struct call *call) {
    (void)call;
    RLThreadRef *list = RLThreadCopyAll(NULL);
    for (int i = 0; list[i]; i++) RLRelease(list[i]);
    free(list);
}

static void do_thread_loop(struct call *call) { (void)RLThreadGetRunLoop((RLThreadRef)object_of(call)); }

pid_t __wrap_fork(void);

/* What the child finds is its exit code. */
static void expect_child(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) fail("waitpid");
    if (status != 0 && shared->failed) {
        char text[512];
        strncpy(text, shared->message, sizeof text - 1);
        text[sizeof text - 1] = 0;
        fail("in the child: %s", text);
    }
    if (status != 0) fail("the child ended with status 0x%x", status);
}

/* The child makes its calls and one run. */
static void do_fork(struct call *call) {
    pid_t child = __wrap_fork();
    if (child < 0) fail("fork");
    if (child != 0) return expect_child(child);
    perform_block(call->block);
    loop_of(call);
    for (int i = 0; i < 2; i++) RLRunInMode(kRLDefaultMode, 0, false);
    _exit(0);
}

/* A source of the thread's end, which the child of a fork gets too. A thread that was not started does not end in the child. */
static void do_watch_fork(struct call *call) {
    RLThreadRef thread = (RLThreadRef)object_of(call);
    if (!RLThreadIsExecuting(thread) && !RLThreadIsFinished(thread)) return;
    RLKernelEventContext context = {0};
    RLKernelEvent event = {.filter = kRLKernelFilterThread, .ident = (uintptr_t)thread, .fflags = kRLNoteExit};
    RLSourceRef source = RLKernelEventSourceCreate(&event, NULL, &context);
    RLAddSource(loop_of(call), source, kRLDefaultMode);
    pid_t child = __wrap_fork();
    if (child < 0) fail("fork");
    if (RLSourceIsValid(source)) RLRunInMode(kRLDefaultMode, for_ever, false);
    if (RLSourceIsValid(source)) fail("a thread has ended, and its source was not performed");
    if (child == 0) _exit(0);
    RLRelease(source);
    expect_child(child);
}

/* In a child: what was posted or signalled in the parent stays there. */
static void do_forgive(struct call *call) { call->item[0]->forgiven = true; }

/* operations_watch.c */
void do_pass_time(struct call *call);
void do_try_lock(struct call *call);
void do_unlock_file(struct call *call);
void do_break_file(struct call *call);
void do_lock_date(struct call *call);
static void do_slow(struct call *call) { set_slow(loop_of(call), call->item[0], call->number); }
static void do_wait_lock(struct call *call) { wait_for_lock(loop_of(call), call->item[0]); }

enum { WRITTEN = 12000 };

/* More than the kernel takes at once; or it is refused, because the socket is closed. */
static void do_send(struct call *call) {
    static const char bytes[WRITTEN];
    if (RLSocketWrite((RLSocketRef)object_of(call), bytes, sizeof bytes, 1 << 30) >= 0) call->item[0]->written += WRITTEN;
}

/* Reads all that was written so far, and waits for it; or until the end. */
static void do_take(struct call *call) {
    struct item *item = call->item[0];
    char bytes[4096];
    while (item->written > 0) {
        struct pollfd request = {item->descriptors[1], POLLIN, 0};
        poll(&request, 1, -1);
        ssize_t count = read(item->descriptors[1], bytes, sizeof bytes);
        if (count <= 0) return;
        item->written -= (int)count;
    }
}

static void do_close(struct call *call) {
    /* Closing tells nothing any more, but for the end of the writing half. */
    if (!call->has_number || call->number != 1) call->item[0]->forgiven = true;
    RLSocketClose((RLSocketRef)object_of(call), (RLSocketCloseType)(call->has_number ? call->number : 0));
}

static void do_persist(struct call *call) {
    RLFileDescriptorEnablePersistentCallBacks((RLFileDescriptorRef)object_of(call), kRLFileDescriptorReadCallBack);
}

static void do_set_clock(struct call *call) {
    if (!RLSetClock(loop_of(call), (RLClockRef)object_of(call))) fail("a loop without timers takes no clock");
}

static void do_advance(struct call *call) { RLClockAdvance((RLClockRef)object_of(call), call->number); }
/* To so many seconds after the clock's first date. */
static void do_set_wall(struct call *call) {
    if (call->number < 0) run.set_back = true;
    RLClockSetWallTime((RLClockRef)object_of(call), call->item[0]->due + call->number);
}
/* Fails if the clock shows a later time than so many seconds after its first date, or one before that. */
static void do_shows(struct call *call) {
    double shown = RLClockGetTime((RLClockRef)object_of(call)) - call->item[0]->due;
    if (shown > call->number + 1e-3) fail("the clock shows more than %g", call->number);
    if (shown < -1e-3) fail("the clock shows %g", shown);
}
/* Of what loops do at the present time of a clock: it is done. */
static void do_done(struct call *call) {
    if (call->item[0]->performed == 0) fail("%s is not done yet", call->item[0]->name);
}
/* Of a one-shot in the own loop: a pass fires it if the clock shows its date. */
static void do_due(struct call *call) {
    RLTimerRef timer = (RLTimerRef)object_of(call);
    if (!RLTimerIsValid(timer) || RLClockGetTime((RLClockRef)call->item[1]->object) < RLTimerGetNextFireDate(timer)) return;
    RLRunInMode(kRLDefaultMode, 0, false);
    if (RLTimerIsValid(timer)) fail("%s does not fire, and its clock shows its date", call->item[0]->name);
}
static void do_suspend(struct call *call) { RLClockSuspend((RLClockRef)object_of(call), call->number); }
static void do_delay(struct call *call) { RLTimerSetNextFireDelay((RLTimerRef)object_of(call), call->number); }
/* With a loop: that waits for an instant, if it waits before and after. */
static void do_advance_to_next(struct call *call) {
    const bool waits = call->actor && RLIsWaiting(loop_of(call));
    if (!RLClockAdvanceToNext((RLClockRef)object_of(call)) && waits && RLIsWaiting(loop_of(call))) fail("no loop waits for an instant");
}
static void do_automatic(struct call *call) { RLClockSetAutomatic((RLClockRef)object_of(call), true); }

static const struct operation operations[] = {
    {"setclock", "RLSetClock", do_set_clock, true},
    {"advance", "RLClockAdvance", do_advance, false},
    {"tonext", "RLClockAdvanceToNext RLIsWaiting", do_advance_to_next, false},
    {"automatic", "RLClockSetAutomatic", do_automatic, false},
    {"setwall", "RLClockSetWallTime", do_set_wall, false},
    {"shows", "RLClockGetTime", do_shows, false},
    {"suspend", "RLClockSuspend", do_suspend, false},
    {"due", "RLRunInMode RLClockGetTime", do_due, true},
    {"done", "", do_done, false},
    {"delay", "RLTimerSetNextFireDelay", do_delay, false},
    {"loop", "RLGetCurrent", do_loop, true},
    {"keep", "RLAddSource", do_keep, true},
    {"add", "RLAddSource RLAddTimer RLAddObserver", do_add, true},
    {"remove", "RLRemoveSource RLRemoveTimer RLRemoveObserver", do_remove, true},
    {"contains", "RLContainsSource RLContainsTimer RLContainsObserver", do_contains, true},
    {"agree", "RLContainsSource RLContainsTimer RLContainsObserver", do_agree, true},
    {"member", "RLContainsSource RLContainsTimer RLContainsObserver", do_member, true},
    {"signal", "RLSourceSignal RLMachPortSend RLKernelEventSourceTrigger RLMessagePortSendRequest", do_signal, false},
    {"invalidate", "RLSourceInvalidate RLTimerInvalidate RLObserverInvalidate RLMachPortInvalidate RLFileDescriptorInvalidate RLMessagePortInvalidate RLSocketInvalidate",
     do_invalidate, false},
    {"endatonce", "RLTimerInvalidate RLObserverInvalidate RLMachPortInvalidate RLFileDescriptorInvalidate", do_invalidate_at_once, false},
    {"endsource", "RLSourceInvalidate", do_invalidate_source, false},
    {"valid", "RLSourceIsValid RLTimerIsValid RLObserverIsValid RLMachPortIsValid RLFileDescriptorIsValid RLMessagePortIsValid RLSocketIsValid",
     do_valid, false},
    {"signalled", "RLSourceIsSignalled", do_signalled, false},
    {"describe", "RLCopyDescription", do_describe, false},
    {"name", "RLSetName RLCopyName", do_name, true},
    {"items", "RLCopyItems RLGetItemStatistics", do_items, true},
    {"statistics", "RLGetStatistics", do_statistics, true},
    {"measure", "RLSetAccounting", do_measure, true},
    {"unmeasure", "RLSetAccounting", do_unmeasure, true},
    {"retain", "RLRetain", do_retain, false},
    {"release", "RLRelease", do_release, false},
    {"drop", "RLRelease", do_release_retained, false},
    {"date", "RLTimerSetNextFireDate", do_date, false},
    {"step", "", do_step, false},
    {"within", "", do_within, false},
    {"tellnow", "RLIsWaiting", do_tell_now, true},
    {"notafter", "", do_not_after, false},
    {"telldate", "RLAbsoluteTimeGetCurrent", do_tell_date, false},
    {"tolddate", "RLTimerSetNextFireDate", do_told_date, false},
    {"tolerance", "RLTimerSetTolerance", do_tolerance, false},
    {"firedate", "RLTimerGetNextFireDate", do_fire_date, false},
    {"nextfire", "RLGetNextTimerFireDate", do_next_fire, true},
    {"enable", "RLFileDescriptorEnableCallBacks RLKernelEventSourceSetEnabled RLSocketEnableCallBacks", do_enable, false},
    {"disable", "RLFileDescriptorDisableCallBacks RLKernelEventSourceSetEnabled RLSocketDisableCallBacks", do_disable, false},
    {"persist", "RLFileDescriptorEnablePersistentCallBacks", do_persist, false},
    {"send", "RLSocketWrite", do_send, false},
    {"take", "", do_take, false},
    {"close", "RLSocketClose", do_close, false},
    {"ask", "RLMessagePortSendRequest", do_ask, true},
    {"begin", "RLMessagePortBeginRequest", do_begin, true},
    {"cancelbegun", "RLMessagePortCancelRequest", do_cancel_begun, false},
    {"told", "", do_told, false},
    {"endremote", "RLMessagePortInvalidate", do_end_remote, false},
    {"rename", "RLMessagePortSetName", do_rename, false},
    {"newremote", "RLMessagePortCreateRemote", do_new_remote, false},
    {"newlocal", "RLMessagePortCreateLocal RLMessagePortGetContext", do_new_local, false},
    {"twin", "RLKernelEventSourceCreate", do_twin, false},
    {"foreign", "RLForeignRunCreate RLForeignRunGetDescriptor RLForeignRunPrepare RLForeignRunDispatch RLForeignRunInvalidate", do_foreign, true},
    {"host", "RLForeignRunCreate RLForeignRunGetDescriptor RLForeignRunPrepare RLForeignRunDispatch RLForeignRunInvalidate RLRunInMode", do_host, true},
    {"limit", "RLMachPortSetQueueLimit", do_limit, false},
    {"budget", "RLSourceSetLimit", do_budget, false},
    {"passlimit", "RLSetPassLimit", do_pass_limit, true},
    {"trace", "RLTraceStart RLSetLogHandler", do_trace, false},
    {"untrace", "RLTraceStop", do_untrace, false},
    {"wake", "RLWakeUp", do_wake, true},
    {"stop", "RLStop", do_stop, true},
    {"waiting", "RLIsWaiting", do_waiting, true},
    {"common", "RLAddCommonMode", do_common, true},
    {"modes", "RLCopyAllModes", do_modes, true},
    {"mode", "RLCopyCurrentMode", do_mode, true},
    {"empty", "RLIsModeEmpty", do_empty, true},
    {"spin", "RLSetSpinLimit", do_spin, true},
    {"once", "RLRunInMode", do_once, true},
    {"run", "RLRunInMode", do_run, true},
    {"until", "RLRunInMode RLStop", do_until, true},
    {"post", "RLPerformFunction", do_post, true},
    {"fill", "RLPerformFunction", do_fill, true},
    {"postin", "RLPerformFunctionInModes", do_post_in, true},
    {"onloop", "RLPerformOnLoop", do_on_loop, true},
    {"after", "RLPerformAfterDelay", do_after, true},
    {"cancelequal", "RLCancelPerformAfterDelay", do_cancel_equal, true},
    {"endtimers", "RLCopyItems RLTimerInvalidate", do_end_timers, true},
    {"cancelafter", "RLCancelPerformAfterDelay", do_cancel_after, true},
    {"order", "RLPerformInOrder", do_order, true},
    {"cancelorder", "RLCancelPerformInOrder", do_cancel_order, true},
    {"end", "pthread_exit", do_end, false},
    {"exit", "pthread_exit", do_exit, false},
    {"start", "RLThreadStart", do_start, false},
    {"join", "RLThreadJoin", do_join, false},
    {"cancel", "RLThreadCancel", do_cancel, false},
    {"endthread", "RLThreadEnd", do_end_thread, false},
    {"stopthread", "RLThreadStop", do_stop_thread, false},
    {"detach", "RLThreadDetach", do_detach, false},
    {"priority", "RLThreadChangePriority", do_priority, false},
    {"exitcall", "RLThreadAddExitCallBack", do_exit_call, false},
    {"watchend", "RLKernelEventSourceCreate", do_watch_end, true},
    {"watchfork", "RLKernelEventSourceCreate fork", do_watch_fork, true},
    {"list", "RLThreadCopyAll", do_list, false},
    {"threadloop", "RLThreadGetRunLoop", do_thread_loop, false},
    {"fork", "fork", do_fork, true},
    {"forgive", "", do_forgive, false},
    {"slow", "RLSetSlowCalloutHandler", do_slow, true},
    {"pass", "", do_pass_time, false},
    {"trylock", "RLDistributedLockTryLock", do_try_lock, false},
    {"unlock", "RLDistributedLockUnlock", do_unlock_file, false},
    {"break", "RLDistributedLockBreakLock", do_break_file, false},
    {"lockdate", "RLDistributedLockGetLockDate", do_lock_date, false},
    {"waitlock", "RLKernelEventSourceCreate RLDistributedLockTryLock", do_wait_lock, true},
    {NULL, NULL, NULL, false},
};

const struct operation *const operation_tables[] = {operations, socket_operations, queue_operations, sync_operations, look_operations, lose_operations, NULL};
