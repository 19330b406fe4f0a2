/* SPDX-License-Identifier: MIT */
/* Calls back in every way there is and looks at the stack from inside: backtrace(3) has to find the call-out's name (S-DBG-2) and, beyond
 * the library, the function where the thread began (S-DBG-1). `unwind_stop` is where a debugger stops to look too. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <runloop/runloop.h>

static RLRunLoopRef loop;
static int failures;

/* Whether the text of a frame names the function. */
static bool names(const char *frame, const char *function) {
    const char *found = strstr(frame, function);
    return found && !strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", found[strlen(function)]);
}

__attribute__((noinline)) void unwind_stop(const char *callOut) {
    __asm__ volatile("" : : "r"(callOut) : "memory");
}

static void look(const char *callOut, const char *beginning) {
    void *frames[64];
    int count = backtrace(frames, 64);
    char **texts = backtrace_symbols(frames, count);
    bool hasName = false, hasBeginning = false;
    for (int index = 0; index < count; index++) {
        hasName |= names(texts[index], callOut);
        hasBeginning |= names(texts[index], beginning);
    }
    if (!hasName || !hasBeginning) {
        failures++;
        printf("in %s: %s%s missing\n", callOut, hasName ? "" : "its name, ", hasBeginning ? "" : beginning);
        for (int index = 0; index < count; index++) printf("    %s\n", texts[index]);
    } else {
        printf("%s\n", callOut);
    }
    free(texts);
    unwind_stop(callOut);
}

static void onSource(void *info) { look("RLCallOutSource", "main"); }
static void onPort(void *info) {
    eventfd_t count;
    eventfd_read(*(int *)info, &count);
    look("RLCallOutPortSource", "main");
}
static int getPort(void *info) {
    static bool seen;
    if (!seen) look("RLCallOutGetPort", "main");
    seen = true;
    return *(int *)info;
}
static void onSchedule(void *info, RLRunLoopRef rl, const char *mode) { look("RLCallOutSchedule", "main"); }
static void onCancel(void *info, RLRunLoopRef rl, const char *mode) { look("RLCallOutCancel", "main"); }
static const void *onRetain(const void *info) { look("RLCallOutRetain", "main"); return info; }
static void onRelease(const void *info) { look("RLCallOutRelease", "main"); }
static char *onDescribe(const void *info) { look("RLCallOutCopyDescription", "main"); return NULL; }
static bool onEqual(const void *first, const void *second) { look("RLCallOutEqual", "main"); return false; }
static uintptr_t onHash(const void *info) { look("RLCallOutHash", "main"); return 1; }
static void onTimer(RLTimerRef timer, void *info) { look("RLCallOutTimer", "main"); }
static void onObserver(RLObserverRef observer, RLActivity activity, void *info) { look("RLCallOutObserver", "main"); }
static void onFunction(void *info) { look("RLCallOutFunction", "main"); }
static void onFunctionRelease(void *info) { look("RLCallOutFunctionRelease", "main"); }
static void onDescriptor(RLFileDescriptorRef file, RLOptionFlags types, void *info) { look("RLCallOutFileDescriptor", "main"); }
static void onSocket(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    look("RLCallOutSocket", "main");
}
static void onEvent(RLSourceRef source, const RLKernelEvent *event, void *info) { look("RLCallOutKernelEvent", "main"); }
static void onMach(RLMachPortRef port, const RLMachMessage *message, void *info) { look("RLCallOutMachPort", "main"); }
static void onInvalid(RLMachPortRef port, void *info) { look("RLCallOutInvalidation", "main"); }
static RLDataRef onMessage(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    look("RLCallOutMessage", "main");
    return NULL;
}
static void onReply(RLMessagePortRef port, int32_t result, RLDataRef data, void *info) { look("RLCallOutReply", "main"); }
static void onLine(const char *line, void *info) { look("RLCallOutLogHandler", "main"); }

__attribute__((noinline)) void bodyOfThread(RLThreadRef thread, void *info) {
    look("RLCallOutThread", "bodyOfThread");
}

static void run(void) {
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) {}
}

static void sources(void) {
    RLSourceContext context = { .retain = onRetain, .release = onRelease, .copyDescription = onDescribe, .equal = onEqual,
        .hash = onHash, .schedule = onSchedule, .cancel = onCancel, .perform = onSource };
    RLSourceRef first = RLSourceCreate(0, &context), second = RLSourceCreate(0, &context);
    free(RLCopyDescription(first));
    RLHash(first);
    RLEqual(first, second);
    RLAddSource(loop, first, kRLDefaultMode);
    RLSourceSignal(first);
    run();
    RLSourceInvalidate(first);
    RLRelease(first);
    RLRelease(second);

    int port = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    RLSourceContext1 portContext = { .version = 1, .info = &port, .getPort = getPort, .perform = onPort };
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&portContext);
    RLAddSource(loop, source, kRLDefaultMode);
    run();
    RLSourceInvalidate(source);
    RLRelease(source);
    close(port);
}

static void descriptors(void) {
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    if (write(ends[1], "x", 1) != 1) abort();
    RLFileDescriptorRef file = RLFileDescriptorCreate(dup(ends[0]), true, onDescriptor, NULL);
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(loop, source, kRLDefaultMode);
    run();
    RLFileDescriptorInvalidate(file);
    RLRelease(source);
    RLRelease(file);

    RLSocketRef connection = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack, onSocket, NULL);
    source = RLSocketCreateRunLoopSource(connection, 0);
    RLAddSource(loop, source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, true);
    RLSocketInvalidate(connection);
    RLRelease(source);
    RLRelease(connection);
    close(ends[1]);

    RLKernelEvent event = { .filter = kRLKernelFilterUser };
    source = RLKernelEventSourceCreate(&event, onEvent, NULL);
    RLAddSource(loop, source, kRLDefaultMode);
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0);
    run();
    RLSourceInvalidate(source);
    RLRelease(source);
}

static void ports(void) {
    RLMachPortRef port = RLMachPortCreate(onMach, NULL, NULL);
    RLMachPortSetInvalidationCallBack(port, onInvalid);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(loop, source, kRLDefaultMode);
    RLMachPortSend(port, 1, NULL, 0, NULL, 0);
    run();
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);

    char name[64];
    snprintf(name, sizeof name, "test.unwind.%d", (int)getpid());
    RLMessagePortRef local = RLMessagePortCreateLocal(name, onMessage, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(loop, source, kRLDefaultMode);
    RLMessagePortBeginRequest(remote, 1, NULL, 0, NULL, 0, 5, loop, kRLDefaultMode, onReply, NULL, NULL);
    for (int round = 0; round < 4; round++) RLRunInMode(kRLDefaultMode, 0.1, true);
    RLMessagePortInvalidate(local);
    RLMessagePortInvalidate(remote);
    RLRelease(source);
    RLRelease(local);
    RLRelease(remote);
}

/* Work for a profiler to find. */
__attribute__((noinline)) void burn(RLTimerRef timer, void *info) {
    for (volatile unsigned count = 0; count < 200000000; count++) {}
}

int main(int argumentCount, char **arguments) {
    loop = RLGetCurrent();
    if (argumentCount > 1) {
        RLTimerRef busy = RLTimerCreate(0, 0, 0, 0, burn, NULL);
        RLAddTimer(loop, busy, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 0, false);
        RLRelease(busy);
        return 0;
    }
    RLTimerRef timer = RLTimerCreate(0, 0, 0, 0, onTimer, NULL);
    RLAddTimer(loop, timer, kRLDefaultMode);
    RLObserverRef observer = RLObserverCreate(kRLEntry, false, 0, onObserver, NULL);
    RLAddObserver(loop, observer, kRLDefaultMode);
    RLPerformFunction(loop, kRLDefaultMode, onFunction, NULL, onFunctionRelease);
    run();
    RLRelease(timer);
    RLRelease(observer);
    sources();
    descriptors();
    ports();
    RLSetLogHandler(onLine, NULL);
    RLRunInMode(kRLCommonModes, 0, false);
    RLThreadRef thread = RLThreadCreate(bodyOfThread, NULL, NULL);
    RLThreadStart(thread);
    RLThreadJoin(thread);
    RLRelease(thread);
    return failures > 0;
}
