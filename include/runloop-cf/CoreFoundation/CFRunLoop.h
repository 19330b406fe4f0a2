/* SPDX-License-Identifier: MIT */
/*
 * CFRunLoopRef: the loop of a thread, and its sources, timers and observers.
 *
 * The manual of the loop is that of librunloop: <runloop/loop.h>, source.h, timer.h and observer.h explain each call under its
 * RL name (CFRunLoopRunInMode is RLRunInMode, CFRunLoopSourceSignal is RLSourceSignal), and what a NULL means. Modes are
 * strings, compared by content. The allocator of a Create call is not used.
 * A context is copied; info is retained by its functions. copyDescription returns a string that the library releases.
 * Blocks need a compiler that has them, and the block runtime in the program (-lBlocksRuntime).
 */
#ifndef RUNLOOP_CF_RUNLOOP_H
#define RUNLOOP_CF_RUNLOOP_H

#include "CFArray.h"
#include "CFBase.h"
#include "CFDate.h"
#include "CFString.h"

CF_EXTERN_C_BEGIN

/** The name of a mode. */
typedef CFStringRef CFRunLoopMode;
typedef struct __CFRunLoop *CFRunLoopRef;
typedef struct __CFRunLoopSource *CFRunLoopSourceRef;
typedef struct __CFRunLoopObserver *CFRunLoopObserverRef;
typedef struct __CFRunLoopTimer *CFRunLoopTimerRef;

/** Why a run returned: RLRunResult. */
typedef CF_ENUM(SInt32, CFRunLoopRunResult) {
    kCFRunLoopRunFinished = 1,
    kCFRunLoopRunStopped = 2,
    kCFRunLoopRunTimedOut = 3,
    kCFRunLoopRunHandledSource = 4
};

/** The stages of a run: RLActivity. */
typedef CF_OPTIONS(CFOptionFlags, CFRunLoopActivity) {
    kCFRunLoopEntry = 1UL << 0,
    kCFRunLoopBeforeTimers = 1UL << 1,
    kCFRunLoopBeforeSources = 1UL << 2,
    kCFRunLoopBeforeWaiting = 1UL << 5,
    kCFRunLoopAfterWaiting = 1UL << 6,
    kCFRunLoopExit = 1UL << 7,
    kCFRunLoopAllActivities = 0x0FFFFFFFU
};

/** The default mode, and the name that stands for all common modes. */
CF_EXPORT const CFRunLoopMode kCFRunLoopDefaultMode RLCF_CONSTANT_(CFRunLoopDefaultMode);
CF_EXPORT const CFRunLoopMode kCFRunLoopCommonModes RLCF_CONSTANT_(CFRunLoopCommonModes);

/* MARK: Loops */

CF_EXPORT CFTypeID CFRunLoopGetTypeID(void) RLCF_AS(CFRunLoopGetTypeID, RLGetTypeID);
/** The calling thread's loop, and the main thread's, borrowed. */
CF_EXPORT CFRunLoopRef CFRunLoopGetCurrent(void) RLCF_AS(CFRunLoopGetCurrent, RLGetCurrent);
CF_EXPORT CFRunLoopRef CFRunLoopGetMain(void) RLCF_AS(CFRunLoopGetMain, RLGetMain);
/** The mode that runs; the caller releases it. NULL if none does. */
CF_EXPORT CFRunLoopMode CFRunLoopCopyCurrentMode(CFRunLoopRef rl) RLCF_(CFRunLoopCopyCurrentMode);
/** The names of the loop's modes; the caller releases the array. */
CF_EXPORT CFArrayRef CFRunLoopCopyAllModes(CFRunLoopRef rl) RLCF_(CFRunLoopCopyAllModes);
CF_EXPORT void CFRunLoopAddCommonMode(CFRunLoopRef rl, CFRunLoopMode mode) RLCF_(CFRunLoopAddCommonMode);
CF_EXPORT CFAbsoluteTime CFRunLoopGetNextTimerFireDate(CFRunLoopRef rl, CFRunLoopMode mode)
    RLCF_(CFRunLoopGetNextTimerFireDate);
/** Runs the default mode until it is empty or the loop is stopped. The main loop also serves libdispatch's main queue. */
CF_EXPORT void CFRunLoopRun(void) RLCF_(CFRunLoopRun);
/** Runs a mode for some seconds. */
CF_EXPORT CFRunLoopRunResult CFRunLoopRunInMode(CFRunLoopMode mode, CFTimeInterval seconds, Boolean returnAfterSourceHandled)
    RLCF_(CFRunLoopRunInMode);
CF_EXPORT Boolean CFRunLoopIsWaiting(CFRunLoopRef rl) RLCF_AS(CFRunLoopIsWaiting, RLIsWaiting);
CF_EXPORT void CFRunLoopWakeUp(CFRunLoopRef rl) RLCF_AS(CFRunLoopWakeUp, RLWakeUp);
CF_EXPORT void CFRunLoopStop(CFRunLoopRef rl) RLCF_AS(CFRunLoopStop, RLStop);
#if defined(__BLOCKS__) && !defined(RLCF_IMPLEMENTATION)
/** Queues a block for a mode, or an array or a set of modes; it does not wake the loop. */
CF_EXPORT void CFRunLoopPerformBlock(CFRunLoopRef rl, CFTypeRef mode, void (^block)(void)) RLCF_(CFRunLoopPerformBlock);
#endif

CF_EXPORT Boolean CFRunLoopContainsSource(CFRunLoopRef rl, CFRunLoopSourceRef source, CFRunLoopMode mode)
    RLCF_(CFRunLoopContainsSource);
CF_EXPORT void CFRunLoopAddSource(CFRunLoopRef rl, CFRunLoopSourceRef source, CFRunLoopMode mode) RLCF_(CFRunLoopAddSource);
CF_EXPORT void CFRunLoopRemoveSource(CFRunLoopRef rl, CFRunLoopSourceRef source, CFRunLoopMode mode)
    RLCF_(CFRunLoopRemoveSource);
CF_EXPORT Boolean CFRunLoopContainsObserver(CFRunLoopRef rl, CFRunLoopObserverRef observer, CFRunLoopMode mode)
    RLCF_(CFRunLoopContainsObserver);
CF_EXPORT void CFRunLoopAddObserver(CFRunLoopRef rl, CFRunLoopObserverRef observer, CFRunLoopMode mode)
    RLCF_(CFRunLoopAddObserver);
CF_EXPORT void CFRunLoopRemoveObserver(CFRunLoopRef rl, CFRunLoopObserverRef observer, CFRunLoopMode mode)
    RLCF_(CFRunLoopRemoveObserver);
CF_EXPORT Boolean CFRunLoopContainsTimer(CFRunLoopRef rl, CFRunLoopTimerRef timer, CFRunLoopMode mode)
    RLCF_(CFRunLoopContainsTimer);
CF_EXPORT void CFRunLoopAddTimer(CFRunLoopRef rl, CFRunLoopTimerRef timer, CFRunLoopMode mode) RLCF_(CFRunLoopAddTimer);
CF_EXPORT void CFRunLoopRemoveTimer(CFRunLoopRef rl, CFRunLoopTimerRef timer, CFRunLoopMode mode) RLCF_(CFRunLoopRemoveTimer);

/* MARK: Sources */

/** What a source that the program signals does: RLSourceContext. version: 0. mode: valid during the call. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
    Boolean (*equal)(const void *info1, const void *info2);
    CFHashCode (*hash)(const void *info);
    void (*schedule)(void *info, CFRunLoopRef rl, CFRunLoopMode mode);
    void (*cancel)(void *info, CFRunLoopRef rl, CFRunLoopMode mode);
    void (*perform)(void *info);
} CFRunLoopSourceContext;

/** A port of a source: a readable descriptor. */
typedef int __CFPort;

/** What a source with a port does: RLSourceContext1. version: 1. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
    Boolean (*equal)(const void *info1, const void *info2);
    CFHashCode (*hash)(const void *info);
    __CFPort (*getPort)(void *info);
    void (*perform)(void *info);
} CFRunLoopSourceContext1;

CF_EXPORT CFTypeID CFRunLoopSourceGetTypeID(void) RLCF_AS(CFRunLoopSourceGetTypeID, RLSourceGetTypeID);
/** Makes a source; context is of either version. NULL if it is NULL or of another version. */
CF_EXPORT CFRunLoopSourceRef CFRunLoopSourceCreate(CFAllocatorRef allocator, CFIndex order, CFRunLoopSourceContext *context)
    RLCF_(CFRunLoopSourceCreate);
CF_EXPORT CFIndex CFRunLoopSourceGetOrder(CFRunLoopSourceRef source) RLCF_AS(CFRunLoopSourceGetOrder, RLSourceGetOrder);
CF_EXPORT void CFRunLoopSourceInvalidate(CFRunLoopSourceRef source) RLCF_AS(CFRunLoopSourceInvalidate, RLSourceInvalidate);
CF_EXPORT Boolean CFRunLoopSourceIsValid(CFRunLoopSourceRef source) RLCF_AS(CFRunLoopSourceIsValid, RLSourceIsValid);
CF_EXPORT void CFRunLoopSourceGetContext(CFRunLoopSourceRef source, CFRunLoopSourceContext *context)
    RLCF_(CFRunLoopSourceGetContext);
CF_EXPORT void CFRunLoopSourceSignal(CFRunLoopSourceRef source) RLCF_AS(CFRunLoopSourceSignal, RLSourceSignal);

/* MARK: Observers */

/** The info of an observer: RLObserverContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
} CFRunLoopObserverContext;
typedef void (*CFRunLoopObserverCallBack)(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info);

CF_EXPORT CFTypeID CFRunLoopObserverGetTypeID(void) RLCF_AS(CFRunLoopObserverGetTypeID, RLObserverGetTypeID);
CF_EXPORT CFRunLoopObserverRef CFRunLoopObserverCreate(CFAllocatorRef allocator, CFOptionFlags activities, Boolean repeats,
                                                       CFIndex order, CFRunLoopObserverCallBack callout,
                                                       CFRunLoopObserverContext *context) RLCF_(CFRunLoopObserverCreate);
#if defined(__BLOCKS__) && !defined(RLCF_IMPLEMENTATION)
CF_EXPORT CFRunLoopObserverRef CFRunLoopObserverCreateWithHandler(CFAllocatorRef allocator, CFOptionFlags activities,
                                                                  Boolean repeats, CFIndex order,
                                                                  void (^block)(CFRunLoopObserverRef observer,
                                                                                CFRunLoopActivity activity))
    RLCF_(CFRunLoopObserverCreateWithHandler);
#endif
CF_EXPORT CFOptionFlags CFRunLoopObserverGetActivities(CFRunLoopObserverRef observer)
    RLCF_AS(CFRunLoopObserverGetActivities, RLObserverGetActivities);
CF_EXPORT Boolean CFRunLoopObserverDoesRepeat(CFRunLoopObserverRef observer)
    RLCF_AS(CFRunLoopObserverDoesRepeat, RLObserverDoesRepeat);
CF_EXPORT CFIndex CFRunLoopObserverGetOrder(CFRunLoopObserverRef observer) RLCF_AS(CFRunLoopObserverGetOrder, RLObserverGetOrder);
CF_EXPORT void CFRunLoopObserverInvalidate(CFRunLoopObserverRef observer)
    RLCF_AS(CFRunLoopObserverInvalidate, RLObserverInvalidate);
CF_EXPORT Boolean CFRunLoopObserverIsValid(CFRunLoopObserverRef observer) RLCF_AS(CFRunLoopObserverIsValid, RLObserverIsValid);
CF_EXPORT void CFRunLoopObserverGetContext(CFRunLoopObserverRef observer, CFRunLoopObserverContext *context)
    RLCF_(CFRunLoopObserverGetContext);

/* MARK: Timers */

/** The info of a timer: RLTimerContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
} CFRunLoopTimerContext;
typedef void (*CFRunLoopTimerCallBack)(CFRunLoopTimerRef timer, void *info);

CF_EXPORT CFTypeID CFRunLoopTimerGetTypeID(void) RLCF_AS(CFRunLoopTimerGetTypeID, RLTimerGetTypeID);
CF_EXPORT CFRunLoopTimerRef CFRunLoopTimerCreate(CFAllocatorRef allocator, CFAbsoluteTime fireDate, CFTimeInterval interval,
                                                 CFOptionFlags flags, CFIndex order, CFRunLoopTimerCallBack callout,
                                                 CFRunLoopTimerContext *context) RLCF_(CFRunLoopTimerCreate);
#if defined(__BLOCKS__) && !defined(RLCF_IMPLEMENTATION)
CF_EXPORT CFRunLoopTimerRef CFRunLoopTimerCreateWithHandler(CFAllocatorRef allocator, CFAbsoluteTime fireDate,
                                                            CFTimeInterval interval, CFOptionFlags flags, CFIndex order,
                                                            void (^block)(CFRunLoopTimerRef timer))
    RLCF_(CFRunLoopTimerCreateWithHandler);
#endif
CF_EXPORT CFAbsoluteTime CFRunLoopTimerGetNextFireDate(CFRunLoopTimerRef timer)
    RLCF_AS(CFRunLoopTimerGetNextFireDate, RLTimerGetNextFireDate);
CF_EXPORT void CFRunLoopTimerSetNextFireDate(CFRunLoopTimerRef timer, CFAbsoluteTime fireDate)
    RLCF_AS(CFRunLoopTimerSetNextFireDate, RLTimerSetNextFireDate);
CF_EXPORT CFTimeInterval CFRunLoopTimerGetInterval(CFRunLoopTimerRef timer)
    RLCF_AS(CFRunLoopTimerGetInterval, RLTimerGetInterval);
CF_EXPORT Boolean CFRunLoopTimerDoesRepeat(CFRunLoopTimerRef timer) RLCF_AS(CFRunLoopTimerDoesRepeat, RLTimerDoesRepeat);
CF_EXPORT CFIndex CFRunLoopTimerGetOrder(CFRunLoopTimerRef timer) RLCF_AS(CFRunLoopTimerGetOrder, RLTimerGetOrder);
CF_EXPORT void CFRunLoopTimerInvalidate(CFRunLoopTimerRef timer) RLCF_AS(CFRunLoopTimerInvalidate, RLTimerInvalidate);
CF_EXPORT Boolean CFRunLoopTimerIsValid(CFRunLoopTimerRef timer) RLCF_AS(CFRunLoopTimerIsValid, RLTimerIsValid);
CF_EXPORT void CFRunLoopTimerGetContext(CFRunLoopTimerRef timer, CFRunLoopTimerContext *context)
    RLCF_(CFRunLoopTimerGetContext);
CF_EXPORT CFTimeInterval CFRunLoopTimerGetTolerance(CFRunLoopTimerRef timer)
    RLCF_AS(CFRunLoopTimerGetTolerance, RLTimerGetTolerance);
CF_EXPORT void CFRunLoopTimerSetTolerance(CFRunLoopTimerRef timer, CFTimeInterval tolerance)
    RLCF_AS(CFRunLoopTimerSetTolerance, RLTimerSetTolerance);

CF_EXTERN_C_END

#endif
