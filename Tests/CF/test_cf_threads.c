/* SPDX-License-Identifier: MIT */
/*
 * Two threads in calls of librunloop-cf on one object. The functions of librunloop that it calls are replaced here by ones that let
 * the other thread in behind them.
 */
#define _GNU_SOURCE
#include "../C/support.h"

#include <CoreFoundation/CoreFoundation.h>
#include <dlfcn.h>
#include <pthread.h>
#include <runloop/runloop.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int word, released, finished;
static pid_t other;
static void (*inBetween)(void);
static const void *object;

static void let_in(void) {
    void (*function)(void) = inBetween;
    inBetween = NULL;
    if (function) function();
}

#define CONTEXT_BY(name, Object, Context)                                                                      \
    void name(Object object, Context *context) {                                                               \
        ((void (*)(Object, Context *))dlsym(RTLD_NEXT, #name))(object, context);                               \
        let_in();                                                                                              \
    }
CONTEXT_BY(RLTimerGetContext, RLTimerRef, RLTimerContext)
CONTEXT_BY(RLObserverGetContext, RLObserverRef, RLObserverContext)
CONTEXT_BY(RLSocketGetContext, RLSocketRef, RLSocketContext)
CONTEXT_BY(RLFileDescriptorGetContext, RLFileDescriptorRef, RLFileDescriptorContext)
CONTEXT_BY(RLMachPortGetContext, RLMachPortRef, RLMachPortContext)
CONTEXT_BY(RLMessagePortGetContext, RLMessagePortRef, RLMessagePortContext)

void RLMachPortSetInvalidationCallBack(RLMachPortRef port, RLMachPortInvalidationCallBack callout) {
    ((void (*)(RLMachPortRef, RLMachPortInvalidationCallBack))dlsym(RTLD_NEXT, "RLMachPortSetInvalidationCallBack"))(port, callout);
    if (!callout) let_in();
}

void RLMessagePortSetInvalidationCallBack(RLMessagePortRef port, RLMessagePortInvalidationCallBack callout) {
    ((void (*)(RLMessagePortRef, RLMessagePortInvalidationCallBack))dlsym(RTLD_NEXT, "RLMessagePortSetInvalidationCallBack"))(port, callout);
    if (!callout) let_in();
}

static void count_release(const void *info) {
    (void)info;
    __atomic_store_n(&released, 1, __ATOMIC_SEQ_CST);
}
static void count_file_release(void *info) { count_release(info); }
static CFStringRef described(const void *info) { return (void)info, CFSTR("words"); }
static CFStringRef file_described(void *info) { return (void)info, CFSTR("words"); }

static void *invalidate(void *function) {
    __atomic_store_n(&other, gettid(), __ATOMIC_SEQ_CST);
    ((void (*)(const void *))function)(object);
    __atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static bool is_asleep(pid_t thread) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    fclose(file);
    return state == 'S';
}

static pthread_t invalidator;
static void (*invalidation)(const void *);

/* Another thread invalidates the object now: to the end, or until it waits for this one. */
static void invalidate_elsewhere(void) {
    released = finished = 0;
    pthread_create(&invalidator, NULL, invalidate, (void *)invalidation);
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        if (__atomic_load_n(&released, __ATOMIC_SEQ_CST) && is_asleep(__atomic_load_n(&other, __ATOMIC_SEQ_CST))) break;
        sched_yield();
    }
}

/* What GetContext has found is the context as it was, or that of an invalid object. */
#define EXPECT_CONTEXT(name, made, ...)                                                                                  \
    do {                                                                                                                 \
        name##Context given = __VA_ARGS__, back;                                                                         \
        memset(&back, 0, sizeof back);                                                                                   \
        object = made;                                                                                                   \
        ck_assert_ptr_nonnull(object);                                                                                   \
        invalidation = (void (*)(const void *))(void (*)(void))name##Invalidate;                                         \
        inBetween = invalidate_elsewhere;                                                                                \
        name##GetContext((name##Ref)(uintptr_t)object, &back);                                                           \
        pthread_join(invalidator, NULL);                                                                                 \
        ck_assert_msg(back.info == &word && back.release == given.release && back.copyDescription == given.copyDescription, \
                      #name "GetContext read a context that was gone");                                                 \
        CFRelease(object);                                                                                               \
    } while (0)

static void no_fire(CFRunLoopTimerRef timer, void *info) { (void)timer, (void)info; }
static void no_stage(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info) { (void)observer, (void)activity, (void)info; }
static void no_event(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address, const void *data, void *info) {
    (void)socket, (void)type, (void)address, (void)data, (void)info;
}
static void no_report(CFFileDescriptorRef file, CFOptionFlags types, void *info) { (void)file, (void)types, (void)info; }
static CFDataRef no_reply(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) { return (void)port, (void)id, (void)data, (void)info, NULL; }

RL_TEST(contexts_are_read_while_another_thread_invalidates, "S-CF-18",
        "GetContext of an object that another thread invalidates at that moment reads no context that is gone") {
    EXPECT_CONTEXT(CFRunLoopTimer, CFRunLoopTimerCreate(NULL, 1e12, 0, 0, 0, no_fire, &given), {0, &word, NULL, count_release, described});
    EXPECT_CONTEXT(CFRunLoopObserver, CFRunLoopObserverCreate(NULL, kCFRunLoopEntry, true, 0, no_stage, &given),
                   {0, &word, NULL, count_release, described});
    EXPECT_CONTEXT(CFSocket, CFSocketCreate(NULL, PF_INET, SOCK_DGRAM, 0, kCFSocketReadCallBack, no_event, &given),
                   {0, &word, NULL, count_release, described});
    EXPECT_CONTEXT(CFFileDescriptor, CFFileDescriptorCreate(NULL, 0, false, no_report, &given),
                   {0, &word, NULL, count_file_release, file_described});
    EXPECT_CONTEXT(CFMachPort, CFMachPortCreate(NULL, NULL, &given, NULL), {0, &word, NULL, count_release, described});
    EXPECT_CONTEXT(CFMessagePort, CFMessagePortCreateLocal(NULL, NULL, no_reply, &given, NULL), {0, &word, NULL, count_release, described});
}

static CFMessagePortRef renamed;

static void *rename_port(void *info) {
    ck_assert(CFMessagePortSetName(renamed, CFSTR("cf.test.threads.later")));
    return info;
}

static void rename_elsewhere(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, rename_port, NULL);
    pthread_join(thread, NULL);
}

const char *RLMessagePortGetName(RLMessagePortRef port) {
    const char *name = ((const char *(*)(RLMessagePortRef))dlsym(RTLD_NEXT, "RLMessagePortGetName"))(port);
    let_in();
    return name;
}

RL_TEST(names_are_read_while_another_thread_renames, "S-CF-20 S-MSG-5",
        "The name of a port that another thread renames at that moment is the former one or the later one") {
    renamed = CFMessagePortCreateLocal(NULL, CFSTR("cf.test.threads.former"), NULL, NULL, NULL);
    ck_assert_ptr_nonnull(renamed);
    inBetween = rename_elsewhere;
    CFStringRef name = CFMessagePortGetName(renamed);
    ck_assert(CFEqual(name, CFSTR("cf.test.threads.former")) || CFEqual(name, CFSTR("cf.test.threads.later")));
    ck_assert(CFEqual(CFMessagePortGetName(renamed), CFSTR("cf.test.threads.later")));
    CFRelease(renamed);
}

static int gone;
static void port_gone(CFMachPortRef port, void *info) { (void)port, (void)info, gone++; }
static void message_port_gone(CFMessagePortRef port, void *info) { (void)port, (void)info, gone++; }
static void set_port_callback(void) { CFMachPortSetInvalidationCallBack((CFMachPortRef)(uintptr_t)object, port_gone); }
static void set_message_port_callback(void) { CFMessagePortSetInvalidationCallBack((CFMessagePortRef)(uintptr_t)object, message_port_gone); }

RL_TEST(invalidation_callbacks_are_taken_away_and_set, "S-PORT-10 S-MSG-34",
        "Of two threads, one that takes a port's invalidation callback away and one that sets it, the later wins: what is set is called") {
    CFMachPortRef port = CFMachPortCreate(NULL, NULL, NULL, NULL);
    object = port;
    set_port_callback();
    inBetween = set_port_callback;
    CFMachPortSetInvalidationCallBack(port, NULL);
    /* Nothing was called in between: then it is the later of the two. */
    let_in();
    ck_assert(CFMachPortGetInvalidationCallBack(port) == port_gone);
    CFMachPortInvalidate(port);
    ck_assert_int_eq(gone, 1);
    ck_assert(CFMachPortGetInvalidationCallBack(port) == port_gone);
    CFRelease(port);

    CFMessagePortRef local = CFMessagePortCreateLocal(NULL, CFSTR("cf.test.threads"), no_reply, NULL, NULL);
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, CFSTR("cf.test.threads"));
    object = remote;
    set_message_port_callback();
    inBetween = set_message_port_callback;
    CFMessagePortSetInvalidationCallBack(remote, NULL);
    let_in();
    CFMessagePortInvalidate(remote);
    ck_assert_int_eq(gone, 2);
    CFRelease(remote);
    /* One that was taken away is not called, and one that is set on an invalid port is, at once. */
    CFMessagePortSetInvalidationCallBack(local, message_port_gone);
    CFMessagePortSetInvalidationCallBack(local, NULL);
    ck_assert(CFMessagePortGetInvalidationCallBack(local) == NULL);
    CFMessagePortInvalidate(local);
    ck_assert_int_eq(gone, 2);
    CFMessagePortSetInvalidationCallBack(local, message_port_gone);
    ck_assert_int_eq(gone, 3);
    CFRelease(local);
}
