/* SPDX-License-Identifier: MIT */
/* Calls that read what other threads change, and those of threads and posts that no other file has. */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- items */

/* The context that an item was made with, while it has one. */
static void do_context(struct call *call) {
    struct item *item = call->item[0];
    void *found = NULL;
    switch (item->kind) {
    case KIND_MESSAGE: {
        RLMessagePortContext context = {0};
        RLMessagePortGetContext((RLMessagePortRef)item->object, &context);
        found = context.info;
        break;
    }
    case KIND_INBOX: {
        RLMachPortContext context = {0};
        RLMachPortGetContext((RLMachPortRef)item->object, &context);
        found = context.info;
        break;
    }
    case KIND_TIMER: {
        RLTimerContext context = {0};
        RLTimerGetContext((RLTimerRef)item->object, &context);
        found = context.info;
        break;
    }
    case KIND_OBSERVER: {
        RLObserverContext context = {0};
        RLObserverGetContext((RLObserverRef)item->object, &context);
        found = context.info;
        break;
    }
    case KIND_DESCRIPTOR: {
        RLFileDescriptorContext context = {0};
        RLFileDescriptorGetContext((RLFileDescriptorRef)item->object, &context);
        found = context.info;
        break;
    }
    case KIND_SOCKET: {
        RLSocketContext context = {0};
        RLSocketGetContext((RLSocketRef)item->object, &context);
        found = context.info;
        break;
    }
    default: {
        RLSourceContext context = {0};
        RLSourceGetContext(item->source, &context);
        found = context.info;
        break;
    }
    }
    /* The sources of the library's own objects have the library's context. */
    if (found && found != item && item->kind != KIND_USER) fail("%s has another item's info", item->name);
}

/* The source of an object: the one that it has, or a new one if that was ended. A message port that a queue serves has none. */
static void do_other_source(struct call *call) {
    const void *object = object_of(call);
    switch (call->item[0]->kind) {
    case KIND_MESSAGE: RLRelease(RLMessagePortCreateRunLoopSource((RLMessagePortRef)object, 0)); break;
    case KIND_INBOX: RLRelease(RLMachPortCreateRunLoopSource((RLMachPortRef)object, 0)); break;
    case KIND_DESCRIPTOR: RLRelease(RLFileDescriptorCreateRunLoopSource((RLFileDescriptorRef)object, 0)); break;
    default: RLRelease(RLSocketCreateRunLoopSource((RLSocketRef)object, 0));
    }
}

/* One that is set when the port is invalid already is called without an info. */
static void count_end(struct item *item) {
    if (!item) return;
    check_alive(item);
    item->invalidations++;
}
static void inbox_is_invalid(RLMachPortRef port, void *info) {
    (void)port;
    count_end(info);
}
static void port_is_invalid(RLMessagePortRef port, void *info) {
    (void)port;
    count_end(info);
}
/* What is called at the end is taken away, read, and set again. */
static void do_set_invalidation(struct call *call) {
    struct item *item = call->item[0];
    RLSetLogHandler(forget_line, NULL);
    if (item->kind == KIND_INBOX) {
        RLMachPortRef port = (RLMachPortRef)item->object;
        RLMachPortSetInvalidationCallBack(port, NULL);
        (void)RLMachPortGetInvalidationCallBack(port);
        RLMachPortSetInvalidationCallBack(port, inbox_is_invalid);
    } else {
        RLMessagePortRef port = (RLMessagePortRef)item->object;
        RLMessagePortSetInvalidationCallBack(port, NULL);
        (void)RLMessagePortGetInvalidationCallBack(port);
        RLMessagePortSetInvalidationCallBack(port, port_is_invalid);
    }
}

static void do_event(struct call *call) {
    RLKernelEvent event = {0};
    (void)RLKernelEventSourceGetEvent(call->item[0]->source, &event);
}

/* A port of the process by its number: none, or this one. */
static void do_same_port(struct call *call) {
    RLMachPortRef port = (RLMachPortRef)object_of(call);
    RLPort number = RLMachPortGetPort(port);
    RLMachPortRef found = RLMachPortCreateWithPort(number, NULL, NULL, NULL);
    if (found && number >= 0 && found != port) fail("another port has the number of %s", call->item[0]->name);
    RLRelease(found);
}

static void do_number_of_file(struct call *call) { (void)RLFileDescriptorGetNativeDescriptor((RLFileDescriptorRef)object_of(call)); }
/* It lives as long as the port. */
static void do_port_name(struct call *call) {
    const char *name = RLMessagePortGetName((RLMessagePortRef)object_of(call));
    if (name && strncmp(name, "explore.", 8) != 0) fail("a port is named \"%s\"", name);
}
/* It may be valid after it has fired. */
static void do_reusable(struct call *call) {
    call->item[0]->forgiven = true;
    RLTimerSetReusable((RLTimerRef)object_of(call), !call->has_number);
}
static void do_get_tolerance(struct call *call) { (void)RLTimerGetTolerance((RLTimerRef)object_of(call)); }

/* The limit of a source: what it was, or what it becomes. */
static void do_get_budget(struct call *call) {
    RLTimeInterval seconds = 0;
    RLIndex count = RLSourceGetLimit(call->item[0]->source, &seconds);
    if (count != 0 && seconds != 1e8) fail("%s has a limit without its period", call->item[0]->name);
}

/* ---- loops */

static void do_get_pass_limit(struct call *call) { (void)RLGetPassLimit(loop_of(call), mode_of(call)); }
static void do_get_slow(struct call *call) { (void)RLGetSlowCalloutTime(loop_of(call)); }
static void do_get_clock(struct call *call) { (void)RLGetClock(loop_of(call)); }

static void do_dump(struct call *call) {
    int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!RLDump(loop_of(call), file)) fail("a loop is not written down");
    close(file);
}

static void do_histogram(struct call *call) {
    RLHistogramBucket buckets[8];
    (void)RLGetHistogram(loop_of(call), kRLHistogramCallOuts, buckets, 8);
    (void)RLGetQuantile(loop_of(call), kRLHistogramCallOuts, 0.5);
    (void)RLIsAccounting(loop_of(call));
}

/* Until a stop. */
static void do_run_all(struct call *call) {
    loop_of(call);
    RLRun();
}

static void do_traced(struct call *call) {
    (void)call;
    (void)RLIsTracing();
}

/* ---- posts */

static void do_on_loop_in(struct call *call) {
    struct item *item = call->item[0];
    RLMode list[2] = {kRLDefaultMode, mode_of(call)};
    item->posted++;
    if (!RLPerformOnLoopInModes(loop_of(call), list, 2, perform_post, item, release_post, call->number != 0)) item->forgiven = true;
    else if (call->number != 0 && item->performed == 0) fail("%s is not performed and was waited for", item->name);
}

static void do_after_in(struct call *call) {
    RLMode list[2] = {kRLDefaultMode, mode_of(call)};
    call->item[0]->posted++;
    RLPerformAfterDelayInModes(list, 2, call->number, call->item[0], perform_post, call->item[0], release_post);
}

static void do_background(struct call *call) {
    call->item[0]->posted++;
    if (!RLPerformInBackground(perform_post, call->item[0], release_post)) call->item[0]->forgiven = true;
}

/* ---- threads */

static void detached_body(RLThreadRef thread, void *info) {
    (void)thread;
    perform_post(info);
}
static void do_detach_new(struct call *call) {
    call->item[0]->posted++;
    if (!RLThreadDetachNew(detached_body, call->item[0], release_post)) call->item[0]->forgiven = true;
}

static RLThreadRef thread_of(struct call *call) { return (RLThreadRef)object_of(call); }

/* Queues a function and stops the thread: in time, unless the thread's exit callbacks have begun. */
static void do_queue_stop(struct call *call) {
    struct item *post = call->item[1];
    post->posted++;
    RLPerformFunction(RLThreadGetRunLoop(thread_of(call)), kRLDefaultMode, perform_post, post, release_post);
    RLThreadStop(thread_of(call), true);
    if (call->item[0]->is_leaving) post->forgiven = true;
}

/* What can be set until the start. */
static void do_prepare(struct call *call) {
    RLThreadSetName(thread_of(call), "a name");
    RLThreadSetStackSize(thread_of(call), 512 * 1024);
    RLThreadSetPriority(thread_of(call), 0);
    (void)RLThreadGetStackSize(thread_of(call));
    (void)RLThreadGetPriority(thread_of(call));
}

/* After the start: a name that nobody changes any more. */
static void do_thread_name(struct call *call) {
    const char *name = RLThreadIsExecuting(thread_of(call)) ? RLThreadGetName(thread_of(call)) : NULL;
    if (name && strcmp(name, "a name") != 0) fail("a thread is named \"%s\"", name);
}

/* A state only goes forward. */
static void do_state(struct call *call) {
    const bool was_finished = RLThreadIsFinished(thread_of(call));
    const bool executes = RLThreadIsExecuting(thread_of(call));
    if (was_finished && executes) fail("%s executes after its end", call->item[0]->name);
    const bool was_cancelled = RLThreadIsCancelled(thread_of(call));
    if (was_cancelled && !RLThreadIsCancelled(thread_of(call))) fail("%s is not cancelled any more", call->item[0]->name);
}

static char any_result;
/* In the thread's body, and after its end. */
static void do_set_result(struct call *call) {
    if (RLThreadGetCurrent() != thread_of(call)) fail("not in the body of %s", call->item[0]->name);
    RLThreadSetResult(thread_of(call), &any_result);
}
static void do_result(struct call *call) {
    const bool was_finished = RLThreadIsFinished(thread_of(call));
    const void *result = RLThreadGetResult(thread_of(call));
    if (result && result != &any_result) fail("%s has another thread's result", call->item[0]->name);
    if (was_finished && !result) fail("%s has ended without its result", call->item[0]->name);
}

const struct operation look_operations[] = {
    {"context", "RLMessagePortGetContext RLMachPortGetContext RLTimerGetContext RLObserverGetContext RLFileDescriptorGetContext RLSocketGetContext RLSourceGetContext",
     do_context, false},
    {"othersource", "RLSocketCreateRunLoopSource RLMessagePortCreateRunLoopSource RLMachPortCreateRunLoopSource RLFileDescriptorCreateRunLoopSource",
     do_other_source, false},
    {"setinvalidation",
     "RLMachPortSetInvalidationCallBack RLMachPortGetInvalidationCallBack RLMessagePortSetInvalidationCallBack RLMessagePortGetInvalidationCallBack",
     do_set_invalidation, false},
    {"background", "RLPerformInBackground", do_background, false},
    {"detachnew", "RLThreadDetachNew", do_detach_new, false},
    {"event", "RLKernelEventSourceGetEvent", do_event, false},
    {"sameport", "RLMachPortGetPort RLMachPortCreateWithPort", do_same_port, false},
    {"filenumber", "RLFileDescriptorGetNativeDescriptor", do_number_of_file, false},
    {"portname", "RLMessagePortGetName", do_port_name, false},
    {"reusable", "RLTimerSetReusable", do_reusable, false},
    {"gettolerance", "RLTimerGetTolerance", do_get_tolerance, false},
    {"getbudget", "RLSourceGetLimit", do_get_budget, false},
    {"getpasslimit", "RLGetPassLimit", do_get_pass_limit, true},
    {"getslow", "RLGetSlowCalloutTime", do_get_slow, true},
    {"getclock", "RLGetClock", do_get_clock, true},
    {"dump", "RLDump", do_dump, true},
    {"histogram", "RLGetHistogram RLGetQuantile RLIsAccounting", do_histogram, true},
    {"runall", "RLRun", do_run_all, true},
    {"traced", "RLIsTracing", do_traced, false},
    {"onloopin", "RLPerformOnLoopInModes", do_on_loop_in, true},
    {"afterin", "RLPerformAfterDelayInModes", do_after_in, true},
    {"queuestop", "RLThreadStop RLThreadGetRunLoop RLPerformFunction", do_queue_stop, false},
    {"prepare", "RLThreadSetName RLThreadSetStackSize RLThreadSetPriority RLThreadGetStackSize RLThreadGetPriority", do_prepare, false},
    {"threadname", "RLThreadGetName", do_thread_name, false},
    {"state", "RLThreadIsFinished RLThreadIsExecuting RLThreadIsCancelled", do_state, false},
    {"setresult", "RLThreadGetCurrent RLThreadSetResult", do_set_result, false},
    {"result", "RLThreadGetResult RLThreadIsFinished", do_result, false},
    {NULL, NULL, NULL, false},
};
