/* SPDX-License-Identifier: MIT */
/* An item whose owner is the info of its context: the release that ends the owner calls the item, whose last reference is being dropped. */
#include "messageport_support.h"
#include "support_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum kind { TIMER, ONE_SHOT, OBSERVER, SOURCE, PORT_SOURCE, KERNEL_EVENT, LOOP_ITEMS, FILE_DESCRIPTOR = LOOP_ITEMS, MACH_PORT, MESSAGE_PORT, THREAD, KINDS };

static enum kind kind;
static void *item;
static RLRunLoopRef loop;
static int ended, held, calls;
static bool removes, ends_thread;

static bool is_source(void) { return kind == SOURCE || kind == PORT_SOURCE || kind == KERNEL_EVENT; }

static bool is_valid(void) {
    if (kind == TIMER || kind == ONE_SHOT) return RLTimerIsValid(item);
    if (kind == OBSERVER) return RLObserverIsValid(item);
    if (is_source()) return RLSourceIsValid(item);
    if (kind == FILE_DESCRIPTOR) return RLFileDescriptorIsValid(item);
    if (kind == MACH_PORT) return RLMachPortIsValid(item);
    if (kind == MESSAGE_PORT) return RLMessagePortIsValid(item);
    return RLThreadIsExecuting(item);
}

static void invalidate(void) {
    if (kind == TIMER || kind == ONE_SHOT) RLTimerInvalidate(item);
    if (kind == OBSERVER) RLObserverInvalidate(item);
    if (is_source()) RLSourceInvalidate(item);
    if (kind == FILE_DESCRIPTOR) RLFileDescriptorInvalidate(item);
    if (kind == MACH_PORT) RLMachPortInvalidate(item);
    if (kind == MESSAGE_PORT) RLMessagePortInvalidate(item);
    if (kind == THREAD) RLThreadCancel(item);
}

static void take_out(void) {
    if (kind == TIMER || kind == ONE_SHOT) RLRemoveTimer(loop, item, kRLDefaultMode);
    if (kind == OBSERVER) RLRemoveObserver(loop, item, kRLDefaultMode);
    if (is_source()) RLRemoveSource(loop, item, kRLDefaultMode);
}

static void on_end(RLSourceRef source, const RLKernelEvent *event, void *info) { (void)source, (void)event, (void)info; }

static void put_in(void) {
    if (kind == TIMER || kind == ONE_SHOT) RLAddTimer(loop, item, kRLDefaultMode);
    if (kind == OBSERVER) RLAddObserver(loop, item, kRLDefaultMode);
    if (is_source()) RLAddSource(loop, item, kRLDefaultMode);
    if (kind == THREAD) {
        RLKernelEventContext context = {.version = 0};
        RLKernelEvent event = {.filter = kRLKernelFilterThread, .ident = (uintptr_t)item};
        ck_assert(!RLThreadStart(item));
        ck_assert_ptr_null(RLKernelEventSourceCreate(&event, on_end, &context));
    }
}

static bool is_in(void) {
    if (kind == TIMER || kind == ONE_SHOT) return RLContainsTimer(loop, item, kRLDefaultMode);
    if (kind == OBSERVER) return RLContainsObserver(loop, item, kRLDefaultMode);
    return is_source() && RLContainsSource(loop, item, kRLDefaultMode);
}

static const void *retain_owner(const void *info) {
    held++;
    return info;
}

/* The last time it is the owner's destructor. */
static void release_owner(const void *info) {
    (void)info;
    if (--held > 0) return;
    ended++;
    ck_assert(!is_valid());
    char *text = RLCopyDescription(item);
    ck_assert_ptr_nonnull(text);
    free(text);
    ck_assert_int_le(RLGetRetainCount(item), 2);
    RLRelease(RLRetain(item));
    RLSetName(item, "ending");
    take_out();
    put_in();
    ck_assert(!is_in());
    invalidate();
    ck_assert(!is_valid());
    RLRelease(RLRetain(item));
}
static void *retain_variable(void *info) { return (void *)retain_owner(info); }
static void release_variable(void *info) { release_owner(info); }

static void called(void) {
    calls++;
    if (removes) take_out();
    if (ends_thread) pthread_exit(NULL);
}
static void on_timer(RLTimerRef timer, void *info) { (void)timer, (void)info, called(); }
static void on_activity(RLObserverRef observer, RLActivity activity, void *info) { (void)observer, (void)activity, (void)info, called(); }
static void on_event(RLSourceRef source, const RLKernelEvent *event, void *info) { (void)source, (void)event, (void)info, called(); }
static void on_descriptor(RLFileDescriptorRef file, RLOptionFlags types, void *info) { (void)file, (void)types, (void)info; }
static void perform(void *info) { (void)info, called(); }
static int port_of(void *info) { return *(int *)info; }
static void body(RLThreadRef thread, void *info) { (void)thread, (void)info; }

static int owner;

/* A loop calls it at once, again and again unless it is one that fires once. */
static void make_item(void) {
    held = ended = calls = 0;
    RLTimerContext timer = {.info = &owner, .retain = retain_owner, .release = release_owner};
    RLObserverContext observer = {.info = &owner, .retain = retain_owner, .release = release_owner};
    RLSourceContext source = {.info = &owner, .retain = retain_owner, .release = release_owner, .perform = perform};
    RLSourceContext1 port_source = {.version = 1, .info = &owner, .retain = retain_owner, .release = release_owner, .getPort = port_of, .perform = perform};
    RLKernelEventContext event_context = {.info = &owner, .retain = retain_owner, .release = release_owner};
    RLKernelEvent event = {.filter = kRLKernelFilterTimer, .fflags = kRLNoteNanoseconds, .data = 1};
    RLFileDescriptorContext file = {.info = &owner, .retain = retain_variable, .release = release_variable};
    RLMachPortContext mach_port = {.info = &owner, .retain = retain_owner, .release = release_owner};
    RLMessagePortContext message_port = {.info = &owner, .retain = retain_owner, .release = release_owner};
    switch (kind) {
    case TIMER: item = RLTimerCreate(0, 1000, 0, 0, on_timer, &timer); break;
    case ONE_SHOT: item = RLTimerCreate(0, 0, 0, 0, on_timer, &timer); break;
    case OBSERVER: item = RLObserverCreate(kRLBeforeSources, true, 0, on_activity, &observer); break;
    case SOURCE:
        item = RLSourceCreate(0, &source);
        RLSourceSignal(item);
        break;
    case PORT_SOURCE:
        owner = make_eventfd();
        eventfd_signal(owner);
        item = RLSourceCreate(0, (RLSourceContext *)&port_source);
        break;
    case KERNEL_EVENT: item = RLKernelEventSourceCreate(&event, on_event, &event_context); break;
    case FILE_DESCRIPTOR: item = RLFileDescriptorCreate(make_eventfd(), true, on_descriptor, &file); break;
    case MACH_PORT: item = RLMachPortCreate(NULL, &mach_port, NULL); break;
    case MESSAGE_PORT: item = RLMessagePortCreateLocal(port_name("ending"), NULL, &message_port, NULL); break;
    case THREAD:
        held = 1; /* A thread's info has no retain. */
        item = RLThreadCreate(body, &owner, release_variable);
        break;
    case KINDS: break;
    }
    ck_assert_ptr_nonnull(item);
    ck_assert_int_eq(held, 1);
}

RL_TEST(the_release_of_a_created_item_may_use_it, "S-REF-6",
        "The release that the last Release of an item calls asks, describes, names, retains, adds, removes and invalidates the item; it dies once, for every kind") {
    loop = RLGetCurrent();
    for (kind = 0; kind < KINDS; kind++) {
        make_item();
        RLRelease(item);
        ck_assert_msg(ended == 1 && held == 0, "kind %d ended %d times", kind, ended);
    }
}

RL_TEST(the_release_of_a_removed_item_may_use_it, "S-REF-6 S-REF-2",
        "The same where the loop has the last reference and Remove drops it") {
    loop = RLGetCurrent();
    for (kind = 0; kind < LOOP_ITEMS; kind++) {
        make_item();
        put_in();
        RLRelease(item);
        ck_assert_int_eq(ended, 0);
        take_out();
        ck_assert_msg(ended == 1 && held == 0, "kind %d ended %d times", kind, ended);
    }
}

RL_TEST(the_release_of_an_item_removed_in_its_callback_may_use_it, "S-REF-6 S-REF-4",
        "The same where the item's own callback removes it: the release comes after the callback") {
    loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    removes = true;
    for (kind = 0; kind < LOOP_ITEMS; kind++) {
        make_item();
        put_in();
        RLRelease(item);
        while (calls == 0) RLRunInMode(kRLDefaultMode, 0.01, true);
        RLRunInMode(kRLDefaultMode, 0, false);
        ck_assert_msg(ended == 1 && held == 0 && calls == 1, "kind %d ended %d times", kind, ended);
    }
}

static void run_once(void *argument) {
    (void)argument;
    loop = RLGetCurrent();
    keep_alive(loop, kRLDefaultMode);
    make_item();
    put_in();
    RLRelease(item);
    while (calls == 0) RLRunInMode(kRLDefaultMode, 0.01, true);
}

RL_TEST(the_release_of_an_item_of_an_ending_thread_may_use_it, "S-REF-6 S-LOOP-9 S-LOOP-19",
        "The same where the item's thread ends, after its callback or from inside it") {
    for (int inside = 0; inside < 2; inside++) {
        ends_thread = inside;
        for (kind = 0; kind < LOOP_ITEMS; kind++) {
            thread_join(thread_start(run_once, NULL));
            ck_assert_msg(ended == 1 && held == 0, "kind %d ended %d times", kind, ended);
        }
    }
}

static RLTimerRef kept;
static void keep_timer(const void *info) {
    (void)info;
    RLRelease(RLRetain(kept));
}

RL_TEST(an_invalidation_that_ends_a_timer_may_use_it, "S-REF-6 S-TMR-42",
        "A timer that only its loop keeps is invalidated: the release retains and releases it, and it ends once") {
    RLTimerContext context = {.release = keep_timer};
    loop = RLGetCurrent();
    kept = RLTimerCreate(FAR_FUTURE, 0, 0, 0, on_timer, &context);
    RLAddTimer(loop, kept, kRLDefaultMode);
    RLRelease(kept);
    RLTimerInvalidate(kept);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static RLMessagePortRef kept_port;
static int releases_of_port;
static void keep_port(const void *info) {
    (void)info;
    releases_of_port++;
    RLRetain(kept_port);
}
static RLDataRef no_reply(RLMessagePortRef port, int32_t id, RLDataRef data, void *info) {
    (void)port, (void)id, (void)data, (void)info;
    return NULL;
}
static void release_port(void *info) {
    (void)info;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(RLGetRetainCount(kept_port), 1);
        if (i == 0) RLRelease(kept_port);
        ck_assert_int_eq(releases_of_port, 1);
    }
    ck_assert(!RLMessagePortIsValid(kept_port));
    RLRelease(kept_port);
}

RL_TEST(a_port_that_the_release_of_its_context_keeps, "S-REF-6 S-MSG-53",
        "A message port lives on with a reference that its context's release has taken, in a child of fork too") {
    char name[64];
    snprintf(name, sizeof name, "rl.test.kept.%d", getpid());
    RLMessagePortContext context = {.release = keep_port};
    kept_port = RLMessagePortCreateLocal(name, no_reply, &context, NULL);
    ck_assert_int_eq(run_child(release_port, NULL).status, 0);
    ck_assert_int_eq(releases_of_port, 0);
    release_port(NULL);
}
