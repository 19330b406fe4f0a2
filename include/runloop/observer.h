/* SPDX-License-Identifier: MIT */
/*
 * RLObserverRef: callbacks at the stages of a run.
 *
 * An observer is made for a set of activities (loop.h shows them in a picture) and is called for
 * each of them, one bit per call, on the loop's thread.
 * Order: at each activity, the observers of the running mode are called by ascending order, those
 * of equal order in the order in which they were added. The loop collects them before it calls the
 * first: an observer that is added meanwhile waits for the next activity, one that is removed is
 * still called, one that is invalidated is not.
 * An observer is not called again while its callback runs, for any activity, in any nested run.
 * Observers do not keep a mode alive: a mode with nothing else in it does not run.
 * An observer is in one loop at a time, in any number of its modes. A one-shot (repeats false) is
 * called once in all and invalidated right after.
 * Lifetime: RLObserverCreate calls the context's retain. RLAddObserver makes the loop retain the
 * observer. RLObserverInvalidate, the call of a one-shot, or the last release invalidates it and
 * calls the context's release.
 * Rules: Docs/semantics.md, section 10.
 */
#ifndef RUNLOOP_OBSERVER_H
#define RUNLOOP_OBSERVER_H

#include "loop.h"

RL_HEADER_BEGIN

/**
 * The data of an observer; copied by RLObserverCreate. Every function may be NULL.
 *
 * version: 0. info: passed to the callback; if there is a retain, its result takes info's place.
 * retain: once, when the observer is made. release: once, in RLObserverInvalidate, after the call
 *     of a one-shot or at the last release of the observer, on the thread that does so. If another
 *     thread invalidates it during its callback, the loop's thread releases it, after that.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * CF: CFRunLoopObserverContext. Since 0.1.
 */
typedef struct RLObserverContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLObserverContext;

/**
 * What an observer calls, on the loop's thread, with no lock held.
 *
 * o: the observer, alive during the call. activity: exactly one bit. info: that of its context.
 * It may add, remove and invalidate items, stop, wake, queue functions and run the loop.
 * CF: CFRunLoopObserverCallBack. Since 0.1.
 */
typedef void (*RLObserverCallBack)(RLObserverRef RL_NULLABLE o, RLActivity activity, void *RL_NULLABLE info);

/**
 * Returns the type id of observers, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLObserverGetTypeID(void);

/**
 * Makes an observer that is valid and in no loop; add it with RLAddObserver.
 *
 * activities: bits of RLActivity; 0 and unknown bits match no activity.
 * repeats: false: called once in all, for the first activity that matches. order: lower comes
 *     first.
 * callout: NULL: nothing is called, but a one-shot still becomes invalid.
 * context: copied; NULL: info is NULL.
 * Returns: the observer.
 * Threads: any. Ownership: the caller's to release; when release runs: RLObserverContext.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFRunLoopObserverCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLObserverRef RL_NULLABLE RLObserverCreate(RLOptionFlags activities, bool repeats, RLIndex order,
                                                     RLObserverCallBack RL_NULLABLE callout,
                                                     RLObserverContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

/**
 * Returns the activities that an observer was made for.
 *
 * Returns: the bits as given, even for an invalid observer; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverGetActivities. Since 0.1.
 */
RL_EXPORT RLOptionFlags RLObserverGetActivities(RLObserverRef RL_NULLABLE o);

/**
 * Tells whether an observer is called more than once.
 *
 * Returns: repeats as given, even for an invalid observer; false for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverDoesRepeat. Since 0.1.
 */
RL_EXPORT bool RLObserverDoesRepeat(RLObserverRef RL_NULLABLE o);

/**
 * Returns the order of an observer.
 *
 * Returns: the order, also of an invalid observer; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverGetOrder. Since 0.1.
 */
RL_EXPORT RLIndex RLObserverGetOrder(RLObserverRef RL_NULLABLE o);

/**
 * Invalidates an observer for good: it leaves every mode and no new call of it begins.
 *
 * o: any observer; NULL and an observer that is invalid already do nothing.
 * Threads: any. The call does not wait for a callback that runs on another thread.
 * Ownership: the loop drops its reference; the context is released inside the call or, if the
 * callback runs or is about to, by the loop's thread after the callback.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFRunLoopObserverInvalidate, which may release a context in use. Since 0.1.
 */
RL_EXPORT void RLObserverInvalidate(RLObserverRef RL_NULLABLE o);

/**
 * Tells whether an observer can still be called.
 *
 * Returns: true until RLObserverInvalidate or until a one-shot's callback has returned; then false,
 * and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverIsValid. Since 0.1.
 */
RL_EXPORT bool RLObserverIsValid(RLObserverRef RL_NULLABLE o);

/**
 * Copies an observer's context into the caller's struct.
 *
 * o: any observer; for an invalid one, info is NULL and the functions are unchanged. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopObserverGetContext. Since 0.1.
 */
RL_EXPORT void RLObserverGetContext(RLObserverRef RL_NULLABLE o, RLObserverContext *RL_NULLABLE context);

/**
 * Tells whether a mode holds an observer.
 *
 * rl, o, mode: NULL, or a mode that does not exist, gives false; the call makes no mode.
 * Returns: true for a member; with kRLCommonModes, true exactly for common items.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopContainsObserver. Since 0.1.
 */
RL_EXPORT bool RLContainsObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

/**
 * Adds an observer to a mode of a loop or, with kRLCommonModes, to all common modes.
 *
 * rl, o, mode: the call does nothing for NULL, for an invalid observer, and for one that is in the
 *     mode already or belongs to another loop. The mode is made if it does not exist.
 * Threads: any; it does not wake the loop.
 * Ownership: the loop retains o until it is removed or invalid.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopAddObserver. Since 0.1.
 */
RL_EXPORT void RLAddObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

/**
 * Removes an observer from a mode; it stays valid, and once it is in no mode any loop may take it.
 *
 * rl, o, mode: the call does nothing for NULL and for an observer that is not in the mode. With
 *     kRLCommonModes it removes a common item from every common mode, and does nothing to other
 *     observers. A common item stays one, and stays with its loop, until it is removed under that
 *     name.
 * Threads: any. If the loop is calling observers right now, it may still call this one.
 * Ownership: the loop drops its reference with the last mode, which may free o and so call release.
 * Reentrancy: call-outs too, its own callback included; may call release.
 * CF: CFRunLoopRemoveObserver. Since 0.1.
 */
RL_EXPORT void RLRemoveObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
