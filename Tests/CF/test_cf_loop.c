/* SPDX-License-Identifier: MIT */
/*
 * Loops, descriptors and ports in CoreFoundation's names: what the toolchain's CoreFoundation has not on Linux, and what concerns
 * both libraries.
 */
#define _GNU_SOURCE
#include "../C/support.h"

#include <CoreFoundation/CoreFoundation.h>
#include <dlfcn.h>
#include <link.h>
#include <mach/mach.h>
#include <malloc.h>
#include <pthread.h>
#include <runloop/runloop.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODE CFSTR("m")

static const void *traced_retain(const void *info) {
    trace("retain:%s", (const char *)info);
    return info;
}
static void traced_release(const void *info) { trace("release:%s", (const char *)info); }
static CFStringRef described(const void *info) { return CFStringCreateWithFormat(NULL, NULL, CFSTR("words of %s"), (const char *)info); }

static void expect_words(CFTypeRef object, CFStringRef words) {
    CFStringRef description = CFCopyDescription(object);
    ck_assert(CFStringFind(description, words, 0).location != kCFNotFound);
    CFRelease(description);
}

/* Descriptors */

static void *file_retain(void *info) {
    trace("retain:%s", (const char *)info);
    return info;
}
static void file_release(void *info) { trace("release:%s", (const char *)info); }
static CFStringRef file_described(void *info) { return described(info); }

static void file_called(CFFileDescriptorRef file, CFOptionFlags types, void *info) {
    ck_assert(CFFileDescriptorIsValid(file));
    trace("%s:%lu", (const char *)info, types);
    char byte;
    if (types & kCFFileDescriptorReadCallBack) ck_assert_int_eq(read(CFFileDescriptorGetNativeDescriptor(file), &byte, 1), 1);
}

static void use_descriptor(CFStringRef (*copyDescription)(void *info)) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    CFFileDescriptorContext context = {0, "f", file_retain, file_release, copyDescription};
    CFFileDescriptorRef file = CFFileDescriptorCreate(kCFAllocatorDefault, ends[0], true, file_called, &context);
    CFRunLoopSourceRef source = CFFileDescriptorCreateRunLoopSource(kCFAllocatorDefault, file, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    CFRelease(source);
    CFFileDescriptorEnableCallBacks(file, kCFFileDescriptorReadCallBack);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(CFRunLoopRunInMode(MODE, 10, true), kCFRunLoopRunHandledSource);
    if (copyDescription) expect_words(file, CFSTR("words of f"));
    CFFileDescriptorContext back = {0, NULL, NULL, NULL, NULL};
    CFFileDescriptorGetContext(file, &back);
    ck_assert(back.info == context.info && back.retain == file_retain && back.release == file_release && back.copyDescription == copyDescription);
    CFFileDescriptorInvalidate(file);
    ck_assert(!CFFileDescriptorIsValid(file));
    CFFileDescriptorGetContext(file, &back);
    ck_assert_ptr_null(back.info);
    CFRelease(file);
    close(ends[1]);
    expect_trace("retain:f f:1 release:f");
}

RL_TEST(descriptors_call_back, "S-CF-16 S-CF-18", "A descriptor object reports with the client's info, whether or not the context describes itself") {
    use_descriptor(NULL);
    use_descriptor(file_described);
}

/* Message ports */

static CFStringRef port_name(const char *word) {
    return CFStringCreateWithFormat(NULL, NULL, CFSTR("test.cf.%s.%d"), word, (int)getpid());
}

static CFDataRef serve(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    (void)port;
    trace("%s:%d:%.*s", (const char *)info, (int)id, (int)CFDataGetLength(data), (const char *)CFDataGetBytePtr(data));
    if (id == 1) return NULL;
    /* Immutable and mutable data are replies. */
    if (id == 2) return CFDataCreate(NULL, (const UInt8 *)"reply", 5);
    CFMutableDataRef reply = CFDataCreateMutableCopy(NULL, 0, data);
    CFDataAppendBytes(reply, (const UInt8 *)"!", 1);
    return reply;
}

static void invalidated(CFMessagePortRef port, void *info) {
    ck_assert(!CFMessagePortIsValid(port));
    trace("gone:%s", info ? (const char *)info : "NULL");
}

static void ask(CFMessagePortRef remote, SInt32 id, const char *text, const char *expected) {
    CFDataRef data = CFDataCreate(NULL, (const UInt8 *)text, (CFIndex)strlen(text)), reply = NULL;
    ck_assert_int_eq(CFMessagePortSendRequest(remote, id, data, 10, 10, expected ? MODE : NULL, expected ? &reply : NULL), kCFMessagePortSuccess);
    if (expected) {
        ck_assert_int_eq(CFDataGetLength(reply), (CFIndex)strlen(expected));
        ck_assert(memcmp(CFDataGetBytePtr(reply), expected, strlen(expected)) == 0);
        CFRelease(reply);
    }
    CFRelease(data);
}

RL_TEST(message_ports_exchange_data, "S-CF-20 S-CF-16", "Requests and replies are CFData, of whichever kind, and the context is held as the Mac holds it") {
    CFStringRef name = port_name("exchange");
    CFMessagePortContext context = {0, "p", traced_retain, traced_release, described};
    Boolean freed = true;
    CFMessagePortRef local = CFMessagePortCreateLocal(NULL, name, serve, &context, &freed);
    ck_assert(local && !freed);
    ck_assert(CFMessagePortCreateLocal(NULL, name, NULL, &context, &freed) == local && freed);
    CFRelease(local);
    ck_assert(CFEqual(CFMessagePortGetName(local), name) && CFMessagePortGetName(local) == CFMessagePortGetName(local));
    expect_words(local, CFSTR("words of p"));
    CFMessagePortContext back = {0, NULL, NULL, NULL, NULL};
    CFMessagePortGetContext(local, &back);
    ck_assert(back.info == context.info && back.retain == traced_retain && back.copyDescription == described);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, local, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, name);
    ck_assert(remote && CFMessagePortIsRemote(remote) && !CFMessagePortIsRemote(local));
    CFMessagePortSetInvalidationCallBack(local, invalidated);
    ck_assert(CFMessagePortGetInvalidationCallBack(local) == invalidated);
    CFMessagePortSetInvalidationCallBack(remote, invalidated);
    expect_trace("retain:p");
    ask(remote, 1, "a", "");
    ask(remote, 2, "b", "reply");
    ask(remote, 3, "c", "c!");
    ask(remote, 4, "d", NULL);
    ck_assert_int_eq(CFRunLoopRunInMode(MODE, 10, true), kCFRunLoopRunHandledSource);
    expect_trace("retain:p p:1:a release:p retain:p p:2:b release:p retain:p p:3:c release:p retain:p p:4:d release:p");
    CFStringRef other = port_name("other");
    ck_assert(CFMessagePortSetName(local, other) && CFEqual(CFMessagePortGetName(local), other));
    ck_assert(!CFMessagePortIsValid(remote));
    CFMessagePortInvalidate(local);
    expect_trace("gone:NULL gone:p release:p");
    CFMessagePortSetInvalidationCallBack(local, invalidated);
    expect_trace("gone:NULL");
    /* The one that it was told by (S-MSG-37). */
    ck_assert(CFMessagePortGetInvalidationCallBack(local) == invalidated);
    ck_assert_ptr_null(CFMessagePortCreateRemote(NULL, CFSTR("nobody has this name")));
    CFRelease(source), CFRelease(remote), CFRelease(local), CFRelease(name), CFRelease(other);
}

static CFDataRef rename_mode(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    (void)port, (void)id;
    CFStringReplaceAll((CFMutableStringRef)info, CFSTR("a name for which the string needs other memory than it had before this callback"));
    return (CFDataRef)CFRetain(data);
}

RL_TEST(reply_modes_are_names, "S-CF-15", "A callback may change the string that names the mode of a request, which leaves nothing in that mode") {
    CFStringRef name = port_name("mode");
    CFMutableStringRef mode = CFStringCreateMutableCopy(NULL, 0, MODE);
    CFMessagePortContext context = {0, mode, NULL, NULL, NULL};
    CFMessagePortRef local = CFMessagePortCreateLocal(NULL, name, rename_mode, &context, NULL), remote = CFMessagePortCreateRemote(NULL, name);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, local, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, mode);
    CFDataRef reply = NULL;
    ck_assert_int_eq(CFMessagePortSendRequest(remote, 1, NULL, 10, 10, mode, &reply), kCFMessagePortSuccess);
    CFRunLoopSourceInvalidate(source);
    ck_assert_int_eq(CFRunLoopRunInMode(MODE, 0, false), kCFRunLoopRunFinished);
    CFMessagePortInvalidate(local);
    CFRelease(reply), CFRelease(source), CFRelease(remote), CFRelease(local), CFRelease(mode), CFRelease(name);
}

RL_TEST(message_ports_without_a_retain_release_once, "S-CF-16", "A context without retain is released once, after the last callback") {
    CFStringRef name = port_name("plain");
    CFMessagePortContext context = {0, "q", NULL, traced_release, NULL};
    CFMessagePortRef local = CFMessagePortCreateLocal(NULL, name, serve, &context, NULL);
    CFMessagePortRef again = CFMessagePortCreateLocal(NULL, name, serve, &context, NULL);
    ck_assert(again == local);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, local, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, name);
    ask(remote, 2, "b", "reply");
    expect_trace("q:2:b");
    CFMessagePortInvalidate(local);
    expect_trace("release:q");
    CFRelease(source), CFRelease(remote), CFRelease(local), CFRelease(again), CFRelease(name);
}

static void stop_loop(CFMessagePortRef port, void *info) {
    (void)port, (void)info;
    CFRunLoopStop(CFRunLoopGetMain());
}

static CFDataRef stopAtMessage(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    (void)port, (void)data;
    *(int *)info += id;
    CFRunLoopStop(CFRunLoopGetCurrent());
    return NULL;
}
static int releasedInfos;
static void releaseInfo(const void *info) { (void)info, releasedInfos++; }
static int invalidations;
static void countInvalidation(CFMessagePortRef port, void *info) { (void)port, (void)info, invalidations++; }

RL_TEST(message_ports_live_with_their_sources, "S-CF-24 S-MSG-34 S-MSG-38",
        "A port whose source is in a loop serves when port and source are released, until it is invalidated") {
    for (int withCallBack = 0; withCallBack < 2; withCallBack++) {
        int sum = 0;
        releasedInfos = invalidations = 0;
        CFMessagePortContext context = {0, &sum, NULL, releaseInfo, NULL};
        CFMessagePortRef local = CFMessagePortCreateLocal(NULL, CFSTR("cf.test.kept"), stopAtMessage, &context, NULL);
        if (withCallBack) CFMessagePortSetInvalidationCallBack(local, countInvalidation);
        /* The same source each time; the port is kept once. */
        for (int i = 0; i < 2; i++) {
            CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, local, 0);
            CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
            CFRelease(source);
        }
        CFMessagePortSetInvalidationCallBack(local, withCallBack ? countInvalidation : NULL);
        CFRelease(local);
        CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, CFSTR("cf.test.kept"));
        ck_assert(remote != NULL);
        ck_assert_int_eq(CFMessagePortSendRequest(remote, 7, NULL, 1, 0, NULL, NULL), kCFMessagePortSuccess);
        ck_assert_int_eq(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, false), kCFRunLoopRunStopped);
        ck_assert_int_eq(sum, 7);
        ck_assert_int_eq(releasedInfos, 0);
        /* Whoever makes the name again gets the port; its own reference is the last when the port is invalid. */
        CFMessagePortRef again = CFMessagePortCreateLocal(NULL, CFSTR("cf.test.kept"), stopAtMessage, NULL, NULL);
        ck_assert(CFMessagePortIsValid(again));
        ck_assert_int_eq(CFGetRetainCount(again), 2);
        CFMessagePortInvalidate(again);
        ck_assert_int_eq(CFGetRetainCount(again), 1);
        ck_assert_int_eq(releasedInfos, 1);
        ck_assert_int_eq(invalidations, withCallBack);
        ck_assert_int_eq(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false), kCFRunLoopRunFinished);
        CFRelease(again), CFRelease(remote);
    }
}

RL_TEST(message_ports_reach_other_processes, "S-CF-20", "A server in one process answers a client in another, and learns of its end") {
    CFStringRef name = port_name("process");
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        CFMessagePortContext context = {0, "server", NULL, NULL, NULL};
        CFMessagePortRef local = CFMessagePortCreateLocal(NULL, name, serve, &context, NULL);
        CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, local, 0);
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
        if (write(ready[1], "r", 1) != 1) _exit(1);
        for (int served = 0; served < 2; served++) CFRunLoopRunInMode(MODE, 60, true);
        CFMessagePortInvalidate(local);
        _exit(0);
    }
    char byte;
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, name);
    ck_assert_ptr_nonnull(remote);
    CFMessagePortSetInvalidationCallBack(remote, stop_loop);
    ask(remote, 2, "over", "reply");
    ask(remote, 3, "there", "there!");
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(!CFMessagePortIsValid(remote));
    CFRelease(remote), CFRelease(name);
    close(ready[0]), close(ready[1]);
}

RL_TEST(new_ports_of_a_child_have_no_callback_of_the_parent, "S-MSG-53 S-FORK-1",
        "In the child of fork a port that gets the address of a port of the parent has not its invalidation callback") {
    enum { PORTS = 20 };
    CFMessagePortRef ports[PORTS];
    for (int index = 0; index < PORTS; index++) {
        ports[index] = CFMessagePortCreateLocal(NULL, NULL, serve, NULL, NULL);
        CFMessagePortSetInvalidationCallBack(ports[index], invalidated);
    }
    pid_t child = fork();
    if (child == 0) {
        for (int index = 0; index < PORTS; index++) CFRelease(ports[index]);
        CFMessagePortContext context = {0, "called", NULL, NULL, NULL};
        for (int index = 0; index < PORTS; index++) {
            CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NULL, serve, &context, NULL);
            ck_assert_ptr_null((void *)CFMessagePortGetInvalidationCallBack(port));
            /* With a source the library has a callback of its own, which looks for the program's. */
            CFRelease(CFMessagePortCreateRunLoopSource(NULL, port, 0));
            CFMessagePortInvalidate(port);
        }
        _exit(trace_count("gone:called") == 0 ? 0 : 1);
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (int index = 0; index < PORTS; index++) CFMessagePortInvalidate(ports[index]), CFRelease(ports[index]);
}

static void keep_no_more(void *port) {
    CFMessagePortInvalidate(port);
    ck_assert_int_eq(CFGetRetainCount(port), 1);
}
RL_TEST(a_child_gives_ports_up, "S-CF-24 S-MSG-53", "In the child of fork, too, the reference of a port with a source is given up when the port is invalidated") {
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NULL, serve, NULL, NULL);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRelease(source);
    ChildResult result = run_child(keep_no_more, (void *)port);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    CFMessagePortInvalidate(port);
    CFRelease(port);
}

static void release_the_context(void *port) {
    CFMessagePortInvalidate(port);
    ck_assert_int_eq(releasedInfos, 1);
}
RL_TEST(a_child_releases_contexts, "S-MSG-53 S-CF-16", "In the child of fork the first invalidation of a port releases its context") {
    for (int withSource = 0; withSource < 2; withSource++) {
        CFMessagePortContext context = {0, &withSource, NULL, releaseInfo, NULL};
        releasedInfos = 0;
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NULL, serve, &context, NULL);
        if (withSource) CFRelease(CFMessagePortCreateRunLoopSource(NULL, port, 0));
        ChildResult result = run_child(release_the_context, (void *)port);
        ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
        CFMessagePortInvalidate(port);
        CFRelease(port);
    }
}

static int toldOfEnd;
static void *infoOfEnd;
static void noteEnd(RLMessagePortRef unused, void *info) { (void)unused, toldOfEnd++, infoOfEnd = info; }
static void noteEndOfMach(RLMachPortRef unused, void *info) { (void)unused, toldOfEnd++, infoOfEnd = info; }
static RLDataRef serveNothing(RLMessagePortRef port, int32_t id, RLDataRef data, void *info) { return (void)port, (void)id, (void)data, (void)info, NULL; }

RL_TEST(ports_of_either_name_tell_of_their_end, "S-CF-1 S-PORT-8 S-MSG-34",
        "A port that was made by a name of librunloop calls the invalidation callback that was set by one of CoreFoundation's with its own info, and keeps the one "
        "that it had when it gets a source") {
    int info = 0x1111;
    RLMachPortContext machContext = {0, &info, NULL, NULL, NULL};
    RLMachPortRef mach = RLMachPortCreate(NULL, &machContext, NULL);
    CFMachPortSetInvalidationCallBack((CFMachPortRef)mach, (CFMachPortInvalidationCallBack)noteEndOfMach);
    RLMachPortInvalidate(mach);
    RLRelease(mach);
    ck_assert_int_eq(toldOfEnd, 1);
    ck_assert_ptr_eq(infoOfEnd, &info);
    for (int withSource = 0; withSource < 2; withSource++) {
        toldOfEnd = 0, infoOfEnd = NULL;
        RLMessagePortContext context = {0, &info, NULL, NULL, NULL};
        RLMessagePortRef port = RLMessagePortCreateLocal(NULL, serveNothing, &context, NULL);
        if (withSource) {
            RLMessagePortSetInvalidationCallBack(port, noteEnd);
            CFRelease(CFMessagePortCreateRunLoopSource(NULL, (CFMessagePortRef)port, 0));
        } else {
            CFMessagePortSetInvalidationCallBack((CFMessagePortRef)port, (CFMessagePortInvalidationCallBack)noteEnd);
        }
        RLMessagePortInvalidate(port);
        ck_assert_int_eq(toldOfEnd, 1);
        ck_assert_ptr_eq(infoOfEnd, &info);
        ck_assert_int_eq(CFGetRetainCount(port), 1);
        RLRelease(port);
    }
}

RL_TEST(a_callback_by_the_other_name_keeps_no_port, "S-CF-24 S-CF-1",
        "The reference of a port with a source is given up at the port's end, whichever name has set its invalidation callback since, or taken it away") {
    for (int how = 0; how < 3; how++) {
        toldOfEnd = 0;
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, NULL, serve, NULL, NULL);
        CFMessagePortSetInvalidationCallBack(port, (CFMessagePortInvalidationCallBack)noteEnd);
        CFRelease(CFMessagePortCreateRunLoopSource(NULL, port, 0));
        if (how > 0) RLMessagePortSetInvalidationCallBack((RLMessagePortRef)port, how == 1 ? noteEnd : NULL);
        CFMessagePortInvalidate(port);
        ck_assert_int_eq(toldOfEnd, how < 2);
        ck_assert_int_eq(CFGetRetainCount(port), 1);
        CFRelease(port);
    }
}

static CFMessagePortRef contested;
static pthread_barrier_t both;
static void *invalidate_too(void *rounds) {
    for (int round = 0; round < *(int *)rounds; round++) {
        pthread_barrier_wait(&both);
        CFMessagePortInvalidate(contested);
        pthread_barrier_wait(&both);
    }
    return NULL;
}
static void *make_source_too(void *rounds) {
    for (int round = 0; round < *(int *)rounds; round++) {
        pthread_barrier_wait(&both);
        CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, contested, 0);
        pthread_barrier_wait(&both);
        CFRelease(source);
    }
    return NULL;
}

RL_TEST(a_port_tells_of_its_end_once, "S-CF-1 S-MSG-34",
        "The invalidation callback of a port is called once if two threads invalidate the port, or make its source, by the two names") {
    int rounds = 400;
    for (int makesSources = 0; makesSources < 2; makesSources++) {
        pthread_t thread;
        pthread_barrier_init(&both, NULL, 2);
        pthread_create(&thread, NULL, makesSources ? make_source_too : invalidate_too, &rounds);
        for (int round = 0; round < rounds; round++) {
            char name[64];
            snprintf(name, sizeof name, "cf.test.once.%d", (int)getpid());
            toldOfEnd = 0;
            contested = (CFMessagePortRef)RLMessagePortCreateLocal(name, serveNothing, NULL, NULL);
            RLMessagePortSetInvalidationCallBack((RLMessagePortRef)contested, noteEnd);
            CFRunLoopSourceRef source = makesSources ? NULL : CFMessagePortCreateRunLoopSource(NULL, contested, 0);
            pthread_barrier_wait(&both);
            if (makesSources) source = CFMessagePortCreateRunLoopSource(NULL, contested, 0);
            else RLMessagePortInvalidate((RLMessagePortRef)contested);
            pthread_barrier_wait(&both);
            if (makesSources) CFMessagePortInvalidate(contested);
            ck_assert_int_eq(toldOfEnd, 1);
            CFRelease(source);
            CFRelease(contested);
        }
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&both);
    }
}

static CFStringRef sharedName;
static void *create_too(void *rounds) {
    for (int round = 0; round < *(int *)rounds; round++) {
        pthread_barrier_wait(&both);
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, sharedName, serve, NULL, NULL);
        pthread_barrier_wait(&both);
        CFRelease(port);
    }
    return NULL;
}

RL_TEST(a_port_that_another_makes_too_keeps_its_callback, "S-MSG-2 S-MSG-37",
        "Of two threads that make a port of one name one may set an invalidation callback before the other call returns") {
    int rounds = 400;
    pthread_t thread;
    sharedName = port_name("shared");
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, create_too, &rounds);
    for (int round = 0; round < rounds; round++) {
        toldOfEnd = 0;
        pthread_barrier_wait(&both);
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, sharedName, serve, NULL, NULL);
        CFMessagePortSetInvalidationCallBack(port, (CFMessagePortInvalidationCallBack)noteEnd);
        pthread_barrier_wait(&both);
        ck_assert_ptr_nonnull((void *)CFMessagePortGetInvalidationCallBack(port));
        CFMessagePortInvalidate(port);
        ck_assert_int_eq(toldOfEnd, 1);
        CFRelease(port);
    }
    pthread_join(thread, NULL);
    CFRelease(sharedName);
}

/* Mach ports */

typedef struct Message {
    mach_msg_header_t header;
    char text[16];
} Message;

static mach_port_t last_reply;

static void received(CFMachPortRef port, void *bytes, CFIndex size, void *info) {
    Message *message = bytes;
    ck_assert_int_eq(size, sizeof *message);
    ck_assert_uint_eq(message->header.msgh_size, sizeof *message);
    ck_assert_uint_eq(message->header.msgh_local_port, CFMachPortGetPort(port));
    last_reply = message->header.msgh_remote_port;
    trace("%s:%d:%s", (const char *)info, message->header.msgh_id, message->text);
}

static void port_gone(CFMachPortRef port, void *info) {
    ck_assert(!CFMachPortIsValid(port));
    trace("gone:%s", info ? (const char *)info : "NULL");
}

static mach_msg_return_t send_message(mach_port_t to, mach_port_t reply, int id, const char *text) {
    Message message;
    memset(&message, 0, sizeof message);
    message.header.msgh_bits = MACH_MSGH_BITS(MACH_MSG_TYPE_COPY_SEND, 0);
    message.header.msgh_remote_port = to;
    message.header.msgh_local_port = reply;
    message.header.msgh_id = id;
    snprintf(message.text, sizeof message.text, "%s", text);
    return mach_msg(&message.header, MACH_SEND_MSG | MACH_SEND_TIMEOUT, sizeof message, 0, MACH_PORT_NULL, 0, MACH_PORT_NULL);
}

RL_TEST(mach_ports_get_messages, "S-CF-21", "A message that mach_msg sends is what the callback gets, with the port to answer") {
    CFMachPortContext context = {0, "m", traced_retain, traced_release, described};
    Boolean freed = true;
    CFMachPortRef port = CFMachPortCreate(NULL, received, &context, &freed);
    ck_assert(port && !freed && CFMachPortIsValid(port) && MACH_PORT_VALID(CFMachPortGetPort(port)));
    CFMachPortRef other = CFMachPortCreateWithPort(NULL, CFMachPortGetPort(port), NULL, NULL, &freed);
    ck_assert(other == port && freed);
    CFRelease(other);
    CFMachPortRef answers = CFMachPortCreate(NULL, received, NULL, NULL);
    CFMachPortSetInvalidationCallBack(port, port_gone);
    ck_assert(CFMachPortGetInvalidationCallBack(port) == port_gone);
    CFRunLoopSourceRef source = CFMachPortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    expect_trace("retain:m");
    ck_assert_int_eq(send_message(CFMachPortGetPort(port), CFMachPortGetPort(answers), 7, "hello"), MACH_MSG_SUCCESS);
    ck_assert_int_eq(CFRunLoopRunInMode(MODE, 10, true), kCFRunLoopRunHandledSource);
    ck_assert_uint_eq(last_reply, CFMachPortGetPort(answers));
    ck_assert_int_eq(send_message(CFMachPortGetPort(port), MACH_PORT_NULL, 8, "no answer"), MACH_MSG_SUCCESS);
    ck_assert_int_eq(CFRunLoopRunInMode(MODE, 10, true), kCFRunLoopRunHandledSource);
    ck_assert_uint_eq(last_reply, MACH_PORT_NULL);
    expect_trace("retain:m m:7:hello release:m retain:m m:8:no answer release:m");
    expect_words(port, CFSTR("words of m"));
    for (int queued = 0; queued < 5; queued++) ck_assert_int_eq(send_message(CFMachPortGetPort(port), 0, 1, ""), MACH_MSG_SUCCESS);
    ck_assert_int_eq(send_message(CFMachPortGetPort(port), 0, 1, ""), MACH_SEND_TIMED_OUT);
    mach_port_t number = CFMachPortGetPort(port);
    ck_assert_int_eq(send_message(number, 12345, 1, ""), MACH_SEND_INVALID_REPLY);
    CFMachPortInvalidate(port);
    expect_trace("gone:m release:m");
    ck_assert_int_eq(send_message(number, 0, 1, ""), MACH_SEND_INVALID_DEST);
    ck_assert_int_eq(send_message(MACH_PORT_NULL, 0, 1, ""), MACH_SEND_INVALID_DEST);
    ck_assert_int_eq(send_message(0x7fffff03, 0, 1, ""), MACH_SEND_INVALID_DEST);
    mach_msg_header_t small = {0, 4, number, 0, 0, 0};
    ck_assert_int_eq(mach_msg_send(&small), MACH_SEND_MSG_TOO_SMALL);
    CFRelease(source), CFRelease(answers), CFRelease(port);
}

/* Contexts */

static void no_fire(CFRunLoopTimerRef timer, void *info) { (void)timer, (void)info; }

RL_TEST(contexts_of_invalid_items_are_empty, "S-CF-18", "GetContext of an invalid item gives no info, and a described one's functions are gone") {
    CFRunLoopTimerContext context = {0, "t", NULL, traced_release, described}, back;
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, 1e9, 0, 0, 0, no_fire, &context);
    CFRunLoopTimerGetContext(timer, &back);
    ck_assert(back.info == context.info && back.release == traced_release && back.retain == NULL && back.copyDescription == described);
    CFRunLoopTimerInvalidate(timer);
    expect_trace("release:t");
    CFRunLoopTimerGetContext(timer, &back);
    ck_assert(back.info == NULL && back.release == NULL && back.copyDescription == NULL);
    CFRelease(timer);
    expect_trace("");
}

RL_TEST(null_is_ignored_by_items, "S-ARG-1", "Calls on loops, items and ports do nothing with NULL") {
    CFRunLoopStop(NULL), CFRunLoopWakeUp(NULL), CFRunLoopSourceSignal(NULL), CFRunLoopTimerInvalidate(NULL), CFSocketInvalidate(NULL);
    CFRunLoopAddSource(NULL, NULL, NULL), CFRunLoopAddTimer(CFRunLoopGetCurrent(), NULL, MODE), CFRunLoopAddCommonMode(CFRunLoopGetCurrent(), NULL);
    ck_assert(CFRunLoopCopyAllModes(NULL) == NULL && CFRunLoopCopyCurrentMode(NULL) == NULL && CFRunLoopSourceCreate(NULL, 0, NULL) == NULL);
    ck_assert(CFRunLoopRunInMode(NULL, 1, false) == kCFRunLoopRunFinished && CFMessagePortGetName(NULL) == NULL);
    ck_assert(CFMessagePortCreateRemote(NULL, NULL) == NULL && CFSocketCreateWithSocketSignature(NULL, NULL, 0, NULL, NULL) == NULL);
    ck_assert_int_eq(CFMessagePortSendRequest(NULL, 0, NULL, 0, 0, NULL, NULL), kCFMessagePortIsInvalid);
    ck_assert_int_eq(CFSocketSendData(NULL, NULL, NULL, 0), kCFSocketError);
}

RL_TEST(sockets_that_cannot_be_made_leave_no_context, "S-CF-16", "The context of a socket that is not made, or was there, is released as often as it was retained") {
    CFSocketContext context = {0, "s", traced_retain, traced_release, described};
    ck_assert_ptr_null(CFSocketCreate(NULL, 12345, 6789, 1, 0, NULL, &context));
    expect_trace("");
    context.retain = NULL;
    ck_assert_ptr_null(CFSocketCreate(NULL, 12345, 6789, 1, 0, NULL, &context));
    expect_trace("");
    CFSocketRef socket = CFSocketCreate(NULL, PF_INET, SOCK_DGRAM, 0, 0, NULL, &context);
    ck_assert(CFSocketCreateWithNative(NULL, CFSocketGetNative(socket), 0, NULL, &context) == socket);
    expect_trace("");
    CFSocketInvalidate(socket);
    expect_trace("release:s");
    CFRelease(socket), CFRelease(socket);
}

static CFMachPortRef shared_port;
static pthread_barrier_t all;
enum { PORTS = 40, SETTERS = 4, SETS = 20000 };

static void *set_callback(void *unused) {
    for (int ports = 0; ports < PORTS; ports++) {
        pthread_barrier_wait(&all);
        for (int times = 0; times < SETS; times++) CFMachPortSetInvalidationCallBack(shared_port, port_gone);
        pthread_barrier_wait(&all);
    }
    return unused;
}

RL_TEST(invalidation_callbacks_are_one_for_a_port, "S-PORT-10",
        "Of threads that set a port's invalidation callback one wins, and none is left for a later port at the same address") {
    pthread_t threads[SETTERS];
    pthread_barrier_init(&all, NULL, SETTERS + 1);
    for (int setter = 0; setter < SETTERS; setter++) pthread_create(&threads[setter], NULL, set_callback, NULL);
    int left = 0;
    for (int ports = 0; ports < PORTS; ports++) {
        shared_port = CFMachPortCreate(NULL, NULL, NULL, NULL);
        left += CFMachPortGetInvalidationCallBack(shared_port) != NULL;
        pthread_barrier_wait(&all);
        pthread_barrier_wait(&all);
        CFMachPortInvalidate(shared_port);
        left += CFMachPortGetInvalidationCallBack(shared_port) != port_gone;
        CFRelease(shared_port);
    }
    for (int setter = 0; setter < SETTERS; setter++) pthread_join(threads[setter], NULL);
    ck_assert_int_eq(left, 0);
}

/* Threads that end, and forks */

static void endThread(void *info, CFRunLoopRef loop, CFStringRef mode) { (void)info, (void)loop, (void)mode, pthread_exit(NULL); }
static void *removeAndEnd(void *unused) {
    CFRunLoopSourceContext context = {.cancel = endThread};
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, &context);
    CFMutableStringRef mode = CFStringCreateMutable(NULL, 0);
    CFStringAppend(mode, CFSTR("a mode whose name is longer than a word or two"));
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, mode);
    CFStringRef name = CFStringCreateCopy(NULL, mode);
    CFRelease(mode), CFRelease(source);
    *(CFStringRef *)unused = name;
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, name);
    return NULL;
}

RL_TEST(a_cancel_that_ends_its_thread_keeps_nothing, "S-LOOP-19 S-CF-16", "The string of the mode is released after a cancel that ends its thread") {
    size_t before = 0;
    for (int threads = 0; threads < 2000; threads++) {
        if (threads == 1000) before = mallinfo2().uordblks;
        CFStringRef name = NULL;
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, removeAndEnd, &name), 0);
        pthread_join(thread, NULL);
        CFRelease(name);
    }
    ck_assert_uint_lt(mallinfo2().uordblks, before + 32 * 1000);
}

static void *leaveSources(void *info) {
    CFRunLoopSourceRef *sources = info;
    CFRunLoopSourceContext context = {.cancel = endThread};
    for (int index = 0; index < 2; index++) {
        sources[index] = CFRunLoopSourceCreate(NULL, 0, &context);
        CFRunLoopAddSource(CFRunLoopGetCurrent(), sources[index], CFSTR("one"));
        CFRunLoopAddSource(CFRunLoopGetCurrent(), sources[index], CFSTR("two"));
    }
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), sources[0], CFSTR("one"));
    return NULL;
}

RL_TEST(cancels_may_end_a_thread_again_and_again, "S-LOOP-7 S-LOOP-19", "Each cancel at the end of a thread may end it once more") {
    CFRunLoopSourceRef sources[2];
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, leaveSources, sources), 0);
    pthread_join(thread, NULL);
    for (int index = 0; index < 2; index++) {
        ck_assert_int_eq(CFGetRetainCount(sources[index]), 1);
        CFRelease(sources[index]);
    }
}

RL_TEST(contexts_that_are_ignored_leave_nothing, "S-SOCK-2 S-CF-16", "Creating again for a live descriptor, with a context that is ignored, takes no memory") {
    CFSocketContext given = {0, NULL, NULL, NULL, described};
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    for (int hasInfo = 0; hasInfo < 2; hasInfo++) {
        CFSocketContext first = {0, hasInfo ? ends : NULL, NULL, NULL, NULL};
        CFSocketRef socket = CFSocketCreateWithNative(NULL, ends[hasInfo], 0, NULL, hasInfo ? &first : NULL);
        size_t before = mallinfo2().uordblks;
        for (int index = 0; index < 1000; index++) {
            ck_assert_ptr_eq(CFSocketCreateWithNative(NULL, ends[hasInfo], 0, NULL, &given), socket);
            CFRelease(socket);
        }
        ck_assert_uint_lt(mallinfo2().uordblks, before + 32 * 1000);
        CFSocketInvalidate(socket);
        CFRelease(socket);
    }
}

static CFStringRef wideMode;
static void endInTimer(CFRunLoopTimerRef timer, void *info) { (void)timer, (void)info, pthread_exit(NULL); }
static void *endInRun(void *unused) {
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, 0, 0, 0, 0, endInTimer, NULL);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, wideMode);
    CFRelease(timer);
    CFRunLoopRunInMode(wideMode, 60, false);
    return unused;
}
static void endInInvalidation(CFMessagePortRef port, void *info) { (void)port, (void)info, pthread_exit(NULL); }
static void *endInInvalidate(void *port) {
    CFMessagePortInvalidate(port);
    return NULL;
}

RL_TEST(runs_and_invalidations_that_end_threads_keep_nothing, "S-LOOP-19 S-CF-24", "A run, or the invalidation of a port, that ends its thread keeps no name of a mode and no port") {
    wideMode = CFStringCreateWithCString(NULL, "ein Modus für alle", kCFStringEncodingUTF8);
    size_t before = 0;
    for (int threads = 0; threads < 2000; threads++) {
        if (threads == 1000) before = mallinfo2().uordblks;
        CFMessagePortRef port = threads % 2 ? CFMessagePortCreateLocal(NULL, NULL, serve, NULL, NULL) : NULL;
        if (port) {
            CFRelease(CFMessagePortCreateRunLoopSource(NULL, port, 0));
            CFMessagePortSetInvalidationCallBack(port, endInInvalidation);
        }
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, port ? endInInvalidate : endInRun, (void *)port), 0);
        pthread_join(thread, NULL);
        if (!port) continue;
        ck_assert_int_eq(CFGetRetainCount(port), 1);
        CFRelease(port);
    }
    ck_assert_uint_lt(mallinfo2().uordblks, before + 32 * 1000);
    CFRelease(wideMode);
}

static pthread_barrier_t isLooking, mayReturn;
static int lookLong(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)info, (void)size, (void)unused;
    pthread_barrier_wait(&isLooking);
    pthread_barrier_wait(&mayReturn);
    return 1;
}
static void *lookThroughFiles(void *unused) {
    dl_iterate_phdr(lookLong, NULL);
    return unused;
}
static void runOnce(void *unused) {
    (void)unused;
    alarm(30);
    CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false);
}

RL_TEST(a_child_runs_though_another_thread_was_loading, "S-FORK-1 S-FORK-4 S-CF-19",
        "A run in the child of a fork that comes while another thread looks through the loaded files, as dlopen does, does not wait for that") {
    for (int hasLoop = 0; hasLoop < 2; hasLoop++) {
        if (hasLoop) CFRunLoopGetCurrent();
        pthread_barrier_init(&isLooking, NULL, 2);
        pthread_barrier_init(&mayReturn, NULL, 2);
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, lookThroughFiles, NULL), 0);
        pthread_barrier_wait(&isLooking);
        ChildResult result = run_child(runOnce, NULL);
        pthread_barrier_wait(&mayReturn);
        pthread_join(thread, NULL);
        ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    }
}

static pthread_barrier_t isLoading;
static bool isAnswered;
static CFRunLoopSourceRef question;
static void answer(void *unused) {
    (void)unused;
    isAnswered = true;
    pthread_barrier_wait(&mayReturn);
}
static void askMain(void) {
    pthread_barrier_wait(&isLoading);
    CFRunLoopSourceSignal(question);
    CFRunLoopWakeUp(CFRunLoopGetMain());
    pthread_barrier_wait(&mayReturn);
}
static void *loadPlugin(void *unused) {
    void *library = dlopen(RL_PLUGIN, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    return unused;
}

RL_MAIN_TEST(the_main_loop_runs_while_a_thread_loads, "S-CF-19",
             "A library's constructor, in another thread, asks the main loop and waits for the answer: the loop's runs do not wait for the library") {
    char address[20];
    snprintf(address, sizeof address, "%lx", (unsigned long)(uintptr_t)askMain);
    setenv("RL_PLUGIN_CALLS", address, true);
    pthread_barrier_init(&isLoading, NULL, 2);
    pthread_barrier_init(&mayReturn, NULL, 2);
    CFRunLoopSourceContext context = {.perform = answer};
    question = CFRunLoopSourceCreate(NULL, 0, &context);
    CFRunLoopAddSource(CFRunLoopGetMain(), question, kCFRunLoopDefaultMode);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, loadPlugin, NULL), 0);
    pthread_barrier_wait(&isLoading);
    while (!isAnswered) CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true);
    pthread_join(thread, NULL);
    unsetenv("RL_PLUGIN_CALLS");
}

/* The main queue */

#ifdef RL_LIBDISPATCH
static void stop_main(void *word) {
    trace("%s", (const char *)word);
    CFRunLoopStop(CFRunLoopGetMain());
}

RL_MAIN_TEST(the_main_queue_is_served_without_being_asked, "S-CF-19 S-GCD-1", "A libdispatch that comes into the process later is served by the next run of the main loop") {
    ck_assert_int_eq(CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false), dlsym(RTLD_DEFAULT, "dispatch_async_f") ? kCFRunLoopRunTimedOut : kCFRunLoopRunFinished);
    void *library = dlopen(RL_LIBDISPATCH, RTLD_NOW | RTLD_GLOBAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void (*async)(void *queue, void *context, void (*work)(void *context));
    *(void **)&async = dlsym(library, "dispatch_async_f");
    async(dlsym(library, "_dispatch_main_q"), "queued", stop_main);
    CFRunLoopRun();
    expect_trace("queued");
}
#endif
