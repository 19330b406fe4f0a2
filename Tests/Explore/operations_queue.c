/* SPDX-License-Identifier: MIT */
/* Message ports that a dispatch queue serves, and descriptors that go with messages. The queue is a thread of the scenario that says
 * `serve`; what the library calls of libdispatch is here, in place of what it finds by name. As there, no handler of a source begins after
 * its cancellation, and the cancel handler is the last, on the queue too. */
#define _GNU_SOURCE
#include "program.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST_SOURCES = 16 };

struct dispatch_source {
    int descriptor;
    void *context;
    void (*handle)(void *), (*end)(void *);
    uint32_t word; /* where threads meet; what follows is read and written between two such meetings */
    int references;
    bool started, cancelled, ended;
};

static struct dispatch_source *sources[MOST_SOURCES];
static int source_count;
static int doorbell = -1;

static void meet(struct dispatch_source *source) {
    rlx_modify(&source->word, sizeof source->word, RLX_ADD, 1, RLX_ACQUIRING_AND_RELEASING, __FILE__, __LINE__);
}

static void ring(void) {
    const uint64_t one = 1;
    if (doorbell >= 0 && write(doorbell, &one, sizeof one) != sizeof one) fail("the queue's bell");
}

static void *create(void *type, uintptr_t handle, uintptr_t mask, void *queue) {
    (void)type;
    (void)mask;
    (void)queue;
    if (source_count == MOST_SOURCES) fail("too many sources of a dispatch queue");
    struct dispatch_source *source = calloc(1, sizeof *source);
    source->descriptor = (int)handle;
    source->references = 1;
    return sources[source_count++] = source;
}

static void set_context(void *source, void *context) { ((struct dispatch_source *)source)->context = context; }
static void set_event_handler(void *source, void (*work)(void *)) { ((struct dispatch_source *)source)->handle = work; }
static void set_cancel_handler(void *source, void (*work)(void *)) { ((struct dispatch_source *)source)->end = work; }

static void start(void *argument) {
    struct dispatch_source *source = argument;
    meet(source);
    if (source->started) fail("a source of a dispatch queue is started twice");
    source->started = true;
    ring();
}

static void retain(void *argument) {
    struct dispatch_source *source = argument;
    meet(source);
    source->references++;
}

static void release(void *argument) {
    struct dispatch_source *source = argument;
    meet(source);
    if (--source->references < 0) fail("a source of a dispatch queue is released too often");
    if (source->references == 0 && !source->cancelled) fail("a source of a dispatch queue is released before it was cancelled");
    if (source->references == 0 && !source->started) fail("a source of a dispatch queue is released before it was started");
}

static void cancel(void *argument) {
    struct dispatch_source *source = argument;
    meet(source);
    source->cancelled = true;
    ring();
}

static uint64_t time_after(uint64_t when, int64_t nanoseconds) { return when + (uint64_t)nanoseconds; }
static void *global_queue(intptr_t priority, uintptr_t flags) {
    (void)priority;
    (void)flags;
    return &doorbell;
}
static void perform_after(uint64_t when, void *queue, void *context, void (*work)(void *)) {
    (void)when;
    (void)queue;
    (void)context;
    (void)work;
    fail("a listener without descriptors");
}

/* As struct rl_dispatch of the core's C part. */
bool __wrap_rl_load_dispatch(void **functions);
bool __wrap_rl_load_dispatch(void **functions) {
    void *const all[] = {&doorbell,  (void *)create,  (void *)set_context, (void *)set_event_handler, (void *)set_cancel_handler, (void *)start,
                         (void *)retain, (void *)release, (void *)cancel, (void *)time_after, (void *)global_queue, (void *)perform_after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) functions[i] = all[i];
    return true;
}

static bool end_if_cancelled(struct dispatch_source *source) {
    meet(source);
    if (!source->cancelled || !source->started || source->ended) return false;
    source->ended = true;
    source->end(source->context);
    return true;
}

/* Serves as the queue does until the item was called so many times. */
static void do_serve(struct call *call) {
    struct item *item = call->item[0];
    const int wanted = call->has_number ? (int)call->number : 1;
    if (doorbell < 0 && (doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) < 0) fail("no eventfd");
    for (int turn = 0; item->performed < wanted; turn++) {
        struct pollfd list[MOST_SOURCES + 1] = {{doorbell, POLLIN, 0}};
        struct dispatch_source *of[MOST_SOURCES + 1] = {NULL};
        nfds_t count = 1;
        for (int i = 0; i < source_count; i++) {
            if (end_if_cancelled(sources[i]) || !sources[i]->started || sources[i]->cancelled) continue;
            of[count] = sources[i];
            list[count++] = (struct pollfd){sources[i]->descriptor, POLLIN, 0};
        }
        /* Nothing comes for a port that was ended. */
        if (count == 1 && !RLMessagePortIsValid((RLMessagePortRef)item->object)) return;
        if (poll(list, count, -1) < 0) continue;
        uint64_t rings;
        if (list[0].revents && read(doorbell, &rings, sizeof rings) < 0) continue;
        for (nfds_t i = 1; i < count; i++) {
            if (!list[i].revents) continue;
            meet(of[i]);
            if (!of[i]->cancelled) of[i]->handle(of[i]->context);
        }
        /* Between the two halves of another thread's call the descriptor of a source that is out of use may be ready. */
        if (turn > 1) rlx_pause();
        if (turn > 1000) fail("a queue turns in vain");
    }
}

/* After the last call for a port: what the queue has not ended is ended. */
void end_cancelled_sources(void) {
    for (int i = 0; i < source_count; i++) {
        end_if_cancelled(sources[i]);
        if (!sources[i]->ended) fail("a source of a dispatch queue is left over");
        if (sources[i]->references != 0) fail("a source of a dispatch queue has %d references left", sources[i]->references);
        free(sources[i]);
    }
    source_count = 0;
    if (doorbell >= 0) close(doorbell);
    doorbell = -1;
}

/* A queue, or none with a 0. */
static void do_queue(struct call *call) {
    static int any;
    /* A port that is invalid by then is refused with a line. */
    RLSetLogHandler(forget_line, NULL);
    RLMessagePortSetDispatchQueue((RLMessagePortRef)object_of(call), call->has_number ? NULL : &any);
}

/* ---- descriptors */

/* A message with a descriptor; with a number, its reply is waited for. */
static void do_ask_with(struct call *call) {
    const int descriptor = STDERR_FILENO;
    RLDataRef data = NULL;
    const bool waits = call->has_number;
    (void)RLMessagePortSendRequestWithDescriptors((RLMessagePortRef)call->item[0]->remote, 1, "x", 1, &descriptor, 1, waits ? 5 : 0, 5,
                                                  waits ? mode_of(call) : NULL, waits ? &data : NULL);
    RLRelease(data);
}

/* In the callback that was given them; elsewhere there are none. */
static void do_take_descriptors(struct call *call) {
    struct item *item = call->item[0];
    int found[4];
    RLIndex count = RLMessagePortTakeDescriptors((RLMessagePortRef)item->object, found, 4);
    if (count != 0 && item->calling != self) fail("descriptors outside of the callback of %s", item->name);
    for (RLIndex i = 0; i < count; i++)
        if (close(found[i]) != 0) fail("%s gives a descriptor that is not open", item->name);
}

const struct operation queue_operations[] = {
    {"queue", "RLMessagePortSetDispatchQueue", do_queue, false},
    {"serve", "", do_serve, false},
    {"askwith", "RLMessagePortSendRequestWithDescriptors", do_ask_with, false},
    {"takedescriptors", "RLMessagePortTakeDescriptors", do_take_descriptors, false},
    {NULL, NULL, NULL, false},
};
