/* SPDX-License-Identifier: MIT */
/* Objects of a wrong type: the call stops the program with a message that names the call. */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* One object of every type, made anew in the child. */
static RLRunLoopRef loop;
static RLSourceRef source;
static RLObserverRef observer;
static RLTimerRef timer;
static RLDataRef data;

typedef struct Misuse {
    const char *name;
    void (*call)(void);
} Misuse;

static volatile long sink;
#define GET(expression) sink = (long)(expression)

#define MISUSE(function, ...) \
    static void misuse_##function(void) { __VA_ARGS__; }

static RLMode const mode = "mode";
static void do_nothing(void *info) { (void)info; }
static RLSourceContext source_context;
static RLObserverContext observer_context;
static RLTimerContext timer_context;
static RLMode modes[] = {"mode"};

#define AS_LOOP(object) ((RLRunLoopRef)(void *)(object))
#define AS_SOURCE(object) ((RLSourceRef)(void *)(object))
#define AS_OBSERVER(object) ((RLObserverRef)(void *)(object))
#define AS_TIMER(object) ((RLTimerRef)(void *)(object))
#define AS_DATA(object) ((RLDataRef)(const void *)(object))

/* Loop */
MISUSE(RLCopyCurrentMode, GET(RLCopyCurrentMode(AS_LOOP(timer))))
MISUSE(RLCopyAllModes, GET(RLCopyAllModes(AS_LOOP(source), NULL)))
MISUSE(RLAddCommonMode, RLAddCommonMode(AS_LOOP(observer), mode))
MISUSE(RLGetNextTimerFireDate, GET(RLGetNextTimerFireDate(AS_LOOP(timer), mode)))
MISUSE(RLIsWaiting, GET(RLIsWaiting(AS_LOOP(data))))
MISUSE(RLWakeUp, RLWakeUp(AS_LOOP(source)))
MISUSE(RLStop, RLStop(AS_LOOP(timer)))
MISUSE(RLSetSpinLimit, RLSetSpinLimit(AS_LOOP(timer), 0))
MISUSE(RLPerformFunction, RLPerformFunction(AS_LOOP(source), mode, do_nothing, NULL, NULL))
MISUSE(RLPerformFunctionInModes,
       RLPerformFunctionInModes(AS_LOOP(source), modes, 1, do_nothing, NULL, NULL))
/* Source */
MISUSE(RLSourceGetOrder, GET(RLSourceGetOrder(AS_SOURCE(timer))))
MISUSE(RLSourceInvalidate, RLSourceInvalidate(AS_SOURCE(observer)))
MISUSE(RLSourceIsValid, GET(RLSourceIsValid(AS_SOURCE(loop))))
MISUSE(RLSourceGetContext, RLSourceGetContext(AS_SOURCE(timer), &source_context))
MISUSE(RLSourceSignal, RLSourceSignal(AS_SOURCE(timer)))
MISUSE(RLSourceIsSignalled, GET(RLSourceIsSignalled(AS_SOURCE(data))))
MISUSE(RLContainsSource, GET(RLContainsSource(loop, AS_SOURCE(timer), mode)))
MISUSE(RLAddSource, RLAddSource(loop, AS_SOURCE(observer), mode))
MISUSE(RLRemoveSource, RLRemoveSource(loop, AS_SOURCE(timer), mode))
/* Observer */
MISUSE(RLObserverGetActivities, GET(RLObserverGetActivities(AS_OBSERVER(source))))
MISUSE(RLObserverDoesRepeat, GET(RLObserverDoesRepeat(AS_OBSERVER(timer))))
MISUSE(RLObserverGetOrder, GET(RLObserverGetOrder(AS_OBSERVER(source))))
MISUSE(RLObserverInvalidate, RLObserverInvalidate(AS_OBSERVER(timer)))
MISUSE(RLObserverIsValid, GET(RLObserverIsValid(AS_OBSERVER(loop))))
MISUSE(RLObserverGetContext, RLObserverGetContext(AS_OBSERVER(timer), &observer_context))
MISUSE(RLContainsObserver, GET(RLContainsObserver(loop, AS_OBSERVER(timer), mode)))
MISUSE(RLAddObserver, RLAddObserver(loop, AS_OBSERVER(source), mode))
MISUSE(RLRemoveObserver, RLRemoveObserver(loop, AS_OBSERVER(data), mode))
/* Timer */
MISUSE(RLTimerGetNextFireDate, GET(RLTimerGetNextFireDate(AS_TIMER(source))))
MISUSE(RLTimerSetNextFireDate, RLTimerSetNextFireDate(AS_TIMER(observer), 0))
MISUSE(RLTimerGetInterval, GET(RLTimerGetInterval(AS_TIMER(source))))
MISUSE(RLTimerDoesRepeat, GET(RLTimerDoesRepeat(AS_TIMER(loop))))
MISUSE(RLTimerGetOrder, GET(RLTimerGetOrder(AS_TIMER(source))))
MISUSE(RLTimerInvalidate, RLTimerInvalidate(AS_TIMER(observer)))
MISUSE(RLTimerIsValid, GET(RLTimerIsValid(AS_TIMER(data))))
MISUSE(RLTimerGetContext, RLTimerGetContext(AS_TIMER(source), &timer_context))
MISUSE(RLTimerGetTolerance, GET(RLTimerGetTolerance(AS_TIMER(source))))
MISUSE(RLTimerSetTolerance, RLTimerSetTolerance(AS_TIMER(source), 1))
MISUSE(RLContainsTimer, GET(RLContainsTimer(loop, AS_TIMER(source), mode)))
MISUSE(RLAddTimer, RLAddTimer(loop, AS_TIMER(source), mode))
MISUSE(RLRemoveTimer, RLRemoveTimer(loop, AS_TIMER(observer), mode))
/* Data */
MISUSE(RLDataGetBytePtr, GET(RLDataGetBytePtr(AS_DATA(timer))))
MISUSE(RLDataGetLength, GET(RLDataGetLength(AS_DATA(source))))

/* Descriptors and sockets */
#define AS_FILE(object) ((RLFileDescriptorRef)(void *)(object))
#define AS_SOCKET(object) ((RLSocketRef)(void *)(object))
static RLFileDescriptorContext file_context;
static RLSocketContext socket_context;
static char address[16];
MISUSE(RLFileDescriptorGetNativeDescriptor, GET(RLFileDescriptorGetNativeDescriptor(AS_FILE(timer))))
MISUSE(RLFileDescriptorGetContext, RLFileDescriptorGetContext(AS_FILE(timer), &file_context))
MISUSE(RLFileDescriptorEnableCallBacks, RLFileDescriptorEnableCallBacks(AS_FILE(source), 1))
MISUSE(RLFileDescriptorEnablePersistentCallBacks, RLFileDescriptorEnablePersistentCallBacks(AS_FILE(source), 1))
MISUSE(RLFileDescriptorDisableCallBacks, RLFileDescriptorDisableCallBacks(AS_FILE(source), 1))
MISUSE(RLFileDescriptorInvalidate, RLFileDescriptorInvalidate(AS_FILE(timer)))
MISUSE(RLFileDescriptorIsValid, GET(RLFileDescriptorIsValid(AS_FILE(timer))))
MISUSE(RLFileDescriptorCreateRunLoopSource,
       GET(RLFileDescriptorCreateRunLoopSource(AS_FILE(source), 0)))
MISUSE(RLSocketSetAddress, GET(RLSocketSetAddress(AS_SOCKET(timer), address, 16)))
MISUSE(RLSocketConnectToAddress, GET(RLSocketConnectToAddress(AS_SOCKET(timer), address, 16, 1)))
MISUSE(RLSocketInvalidate, RLSocketInvalidate(AS_SOCKET(source)))
MISUSE(RLSocketIsValid, GET(RLSocketIsValid(AS_SOCKET(timer))))
MISUSE(RLSocketCopyAddress, GET(RLSocketCopyAddress(AS_SOCKET(timer))))
MISUSE(RLSocketCopyPeerAddress, GET(RLSocketCopyPeerAddress(AS_SOCKET(timer))))
MISUSE(RLSocketGetContext, RLSocketGetContext(AS_SOCKET(source), &socket_context))
MISUSE(RLSocketGetNative, GET(RLSocketGetNative(AS_SOCKET(timer))))
MISUSE(RLSocketCreateRunLoopSource, GET(RLSocketCreateRunLoopSource(AS_SOCKET(source), 0)))
MISUSE(RLSocketGetSocketFlags, GET(RLSocketGetSocketFlags(AS_SOCKET(timer))))
MISUSE(RLSocketSetSocketFlags, RLSocketSetSocketFlags(AS_SOCKET(timer), 1))
MISUSE(RLSocketDisableCallBacks, RLSocketDisableCallBacks(AS_SOCKET(timer), 1))
MISUSE(RLSocketEnableCallBacks, RLSocketEnableCallBacks(AS_SOCKET(timer), 1))
MISUSE(RLSocketSendData, GET(RLSocketSendData(AS_SOCKET(timer), NULL, 0, "x", 1, 1)))
MISUSE(RLSocketSend, GET(RLSocketSend(AS_SOCKET(timer), NULL, 0, "x", 1)))
MISUSE(RLSocketWrite, GET(RLSocketWrite(AS_SOCKET(source), "x", 1, 1)))
MISUSE(RLSocketClose, GET(RLSocketClose(AS_SOCKET(timer), kRLSocketCloseOrderly)))
MISUSE(RLSocketListen, GET(RLSocketListen(AS_SOCKET(timer), address, 16, 0, 0)))
MISUSE(RLSocketSetOptions, GET(RLSocketSetOptions(AS_SOCKET(timer), 1, true)))
MISUSE(RLSocketSendDescriptors, GET(RLSocketSendDescriptors(AS_SOCKET(timer), "x", 1, NULL, 0)))
MISUSE(RLSocketReceive, GET(RLSocketReceive(AS_SOCKET(timer), NULL, 0, NULL)))

/* The loop of Add, Contains and Remove: the name is that of the function with the wrong loop. */
static void wrong_loop_RLAddSource(void) { RLAddSource(AS_LOOP(timer), source, mode); }
static void wrong_loop_RLAddTimer(void) { RLAddTimer(AS_LOOP(source), timer, mode); }
static void wrong_loop_RLAddObserver(void) { RLAddObserver(AS_LOOP(source), observer, mode); }
static void wrong_loop_RLRemoveSource(void) { RLRemoveSource(AS_LOOP(timer), source, mode); }
static void wrong_loop_RLRemoveTimer(void) { RLRemoveTimer(AS_LOOP(source), timer, mode); }
static void wrong_loop_RLRemoveObserver(void) { RLRemoveObserver(AS_LOOP(source), observer, mode); }
static void wrong_loop_RLContainsSource(void) {
    GET(RLContainsSource(AS_LOOP(data), source, mode));
}
static void wrong_loop_RLContainsTimer(void) { GET(RLContainsTimer(AS_LOOP(source), timer, mode)); }
static void wrong_loop_RLContainsObserver(void) {
    GET(RLContainsObserver(AS_LOOP(source), observer, mode));
}

static void stop_by(void *argument) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    loop = RLGetCurrent();
    source_context.perform = do_nothing;
    source = RLSourceCreate(0, &source_context);
    observer = RLObserverCreate(kRLAllActivities, true, 0, NULL, NULL);
    timer = RLTimerCreate(0, 0, 0, 0, NULL, NULL);
    data = RLDataCreate("data", 4);
    ((Misuse *)argument)->call();
}

static void check(Misuse *misuses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ChildResult result = run_child(stop_by, &misuses[i]);
        ck_assert_msg(WIFSIGNALED(result.status), "%s ended with status %#x", misuses[i].name,
                      result.status);
        ck_assert_msg(strstr(result.output, misuses[i].name) != NULL, "%s wrote only: %s",
                      misuses[i].name, result.output);
    }
}

#define M(function) {#function, misuse_##function}
#define W(function) {#function, wrong_loop_##function}
#define CHECK_ALL(misuses) check(misuses, sizeof misuses / sizeof misuses[0])

RL_TEST(loop_calls_stop_at_other_types, "S-ARG-3",
        "A loop function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLCopyCurrentMode), M(RLCopyAllModes), M(RLAddCommonMode),
                    M(RLGetNextTimerFireDate), M(RLIsWaiting), M(RLWakeUp), M(RLStop),
                    M(RLSetSpinLimit), M(RLPerformFunction), M(RLPerformFunctionInModes)};
    CHECK_ALL(all);
}
RL_TEST(source_calls_stop_at_other_types, "S-ARG-3",
        "A source function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLSourceGetOrder), M(RLSourceInvalidate), M(RLSourceIsValid),
                    M(RLSourceGetContext), M(RLSourceSignal), M(RLSourceIsSignalled),
                    M(RLContainsSource), M(RLAddSource), M(RLRemoveSource)};
    CHECK_ALL(all);
}
RL_TEST(observer_calls_stop_at_other_types, "S-ARG-3",
        "An observer function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLObserverGetActivities), M(RLObserverDoesRepeat), M(RLObserverGetOrder),
                    M(RLObserverInvalidate), M(RLObserverIsValid), M(RLObserverGetContext),
                    M(RLContainsObserver), M(RLAddObserver), M(RLRemoveObserver)};
    CHECK_ALL(all);
}
RL_TEST(timer_calls_stop_at_other_types, "S-ARG-3",
        "A timer function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLTimerGetNextFireDate), M(RLTimerSetNextFireDate), M(RLTimerGetInterval),
                    M(RLTimerDoesRepeat), M(RLTimerGetOrder), M(RLTimerInvalidate),
                    M(RLTimerIsValid), M(RLTimerGetContext), M(RLTimerGetTolerance),
                    M(RLTimerSetTolerance), M(RLContainsTimer), M(RLAddTimer), M(RLRemoveTimer)};
    CHECK_ALL(all);
}
RL_TEST(descriptor_calls_stop_at_other_types, "S-ARG-3",
        "A descriptor function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLFileDescriptorGetNativeDescriptor), M(RLFileDescriptorGetContext),
                    M(RLFileDescriptorEnableCallBacks),     M(RLFileDescriptorDisableCallBacks),
                    M(RLFileDescriptorInvalidate),          M(RLFileDescriptorIsValid),
                    M(RLFileDescriptorCreateRunLoopSource), M(RLFileDescriptorEnablePersistentCallBacks)};
    CHECK_ALL(all);
}
RL_TEST(socket_calls_stop_at_other_types, "S-ARG-3",
        "A socket function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLSocketSetAddress),       M(RLSocketConnectToAddress),
                    M(RLSocketInvalidate),       M(RLSocketIsValid),
                    M(RLSocketCopyAddress),      M(RLSocketCopyPeerAddress),
                    M(RLSocketGetContext),       M(RLSocketGetNative),
                    M(RLSocketCreateRunLoopSource), M(RLSocketGetSocketFlags),
                    M(RLSocketSetSocketFlags),   M(RLSocketDisableCallBacks),
                    M(RLSocketEnableCallBacks),  M(RLSocketSendData),
                    M(RLSocketSend),             M(RLSocketWrite),
                    M(RLSocketClose),            M(RLSocketListen),
                    M(RLSocketSetOptions),       M(RLSocketSendDescriptors),
                    M(RLSocketReceive)};
    CHECK_ALL(all);
}
RL_TEST(data_calls_stop_at_other_types, "S-ARG-3",
        "A data function that gets another object traps with a message that names it") {
    Misuse all[] = {M(RLDataGetBytePtr), M(RLDataGetLength)};
    CHECK_ALL(all);
}
RL_TEST(membership_calls_stop_at_a_wrong_loop, "S-ARG-3",
        "Add, Remove and Contains trap when their loop is another object") {
    Misuse all[] = {W(RLAddSource), W(RLAddTimer), W(RLAddObserver), W(RLRemoveSource),
                    W(RLRemoveTimer), W(RLRemoveObserver), W(RLContainsSource),
                    W(RLContainsTimer), W(RLContainsObserver)};
    CHECK_ALL(all);
}

static int not_an_object[64];
static void retain_garbage(void) { RLRetain(not_an_object); }
static void release_garbage(void) { RLRelease(not_an_object); }

RL_TEST(base_calls_stop_at_what_is_no_object, "S-ARG-3",
        "Memory that is no object at all is refused with a message by Retain and Release") {
    Misuse all[] = {{"RLRetain", retain_garbage}, {"RLRelease", release_garbage}};
    CHECK_ALL(all);
}
