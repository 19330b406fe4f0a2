/*
 * RLObserverRef: callbacks at the stages of a run.
 *
 * An observer names the activities it wants to see as bits (loop.h has the picture) and is called
 * for each of them, one bit per call, on the loop's thread.
 * Order: at each activity the observers of the running mode are called by ascending order, those of
 * equal order as they were added. They are collected first: one that is added meanwhile waits for
 * the next activity, one that is removed is still called, one that is invalidated is not.
 * While its callback runs an observer is not called again, for any activity, in any nested run.
 * Observers do not keep a mode alive: a mode with nothing else in it does not run.
 * An observer is in one loop at a time, in any number of its modes. A one-shot (repeats false) is
 * called once in all and invalidated right after.
 * Lifetime: RLObserverCreate calls the context's retain; RLAddObserver makes the loop hold the
 * observer; RLObserverInvalidate, the call of a one-shot or the last release ends it and calls the
 * context's release.
 * Rules: Docs/semantics.md, section 10.
 */
#ifndef RUNLOOP_OBSERVER_H
#define RUNLOOP_OBSERVER_H

#include "loop.h"

RL_HEADER_BEGIN

/**
 * The data of an observer; copied by RLObserverCreate. Every function may be NULL.
 *
 * version: 0. info: handed to the callback, after retain, if there is one, has exchanged it.
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
 * Gives the type id of observers, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLObserverGetTypeID(void);

/**
 * Makes an observer that is valid and in no loop; add it with RLAddObserver.
 *
 * activities: bits of RLActivity; 0 and bits that name no activity are never seen.
 * repeats: false: called once in all, for the first activity that matches. order: the lower first.
 * callout: NULL: nothing is called, but a one-shot becomes invalid all the same.
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
 * Gives the activities that an observer was made for.
 *
 * Returns: the bits as given, also of an invalid observer; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverGetActivities. Since 0.1.
 */
RL_EXPORT RLOptionFlags RLObserverGetActivities(RLObserverRef RL_NULLABLE o);

/**
 * Tells whether an observer is called more than once.
 *
 * Returns: repeats as given, also of an invalid observer; false for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverDoesRepeat. Since 0.1.
 */
RL_EXPORT bool RLObserverDoesRepeat(RLObserverRef RL_NULLABLE o);

/**
 * Gives the order that an observer was made with.
 *
 * Returns: the order, also of an invalid observer; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverGetOrder. Since 0.1.
 */
RL_EXPORT RLIndex RLObserverGetOrder(RLObserverRef RL_NULLABLE o);

/**
 * Ends an observer for good: it leaves every mode and no new call of it begins.
 *
 * o: any observer; NULL and an observer that is invalid already do nothing.
 * Threads: any. A callback that runs on another thread is not waited for.
 * Ownership: the loop drops its reference; the context is released inside the call, or by the
 * loop's thread after the callback, if that runs or is about to.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFRunLoopObserverInvalidate, which may release a context in use. Since 0.1.
 */
RL_EXPORT void RLObserverInvalidate(RLObserverRef RL_NULLABLE o);

/**
 * Tells whether an observer can still be called.
 *
 * Returns: true until RLObserverInvalidate or until a one-shot's callback has returned; then false,
 * and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverIsValid. Since 0.1.
 */
RL_EXPORT bool RLObserverIsValid(RLObserverRef RL_NULLABLE o);

/**
 * Copies an observer's context into the caller's struct.
 *
 * o: any observer; of an invalid one info is NULL and the functions are as before. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopObserverGetContext. Since 0.1.
 */
RL_EXPORT void RLObserverGetContext(RLObserverRef RL_NULLABLE o, RLObserverContext *RL_NULLABLE context);

/**
 * Tells whether a mode holds an observer.
 *
 * rl, o, mode: NULL, or a mode that does not exist, gives false; no mode is made by asking.
 * Returns: true for a member; with kRLCommonModes, true exactly for common items.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopContainsObserver. Since 0.1.
 */
RL_EXPORT bool RLContainsObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

/**
 * Puts an observer into a mode of a loop, or under kRLCommonModes into all common modes.
 *
 * rl, o, mode: NULL, an invalid observer, one that is in the mode already and one that belongs to
 *     another loop: the call does nothing. The mode is made if it does not exist.
 * Threads: any; it does not wake the loop.
 * Ownership: the loop retains o until it is removed or invalid.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopAddObserver. Since 0.1.
 */
RL_EXPORT void RLAddObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

/**
 * Takes an observer out of a mode; it stays valid, and free for any loop when it is in no mode.
 *
 * rl, o, mode: NULL, or an observer that is not in the mode: nothing happens. kRLCommonModes takes
 *     a common item out of every common mode, and does nothing to other observers. A common item
 *     stays one, and stays with its loop, until it is removed under that name.
 * Threads: any. The activity that is being told right now may still call it.
 * Ownership: the loop drops its reference with the last mode, which may free o and so call release.
 * Reentrancy: call-outs too, its own callback included; may call release.
 * CF: CFRunLoopRemoveObserver. Since 0.1.
 */
RL_EXPORT void RLRemoveObserver(RLRunLoopRef RL_NULLABLE rl, RLObserverRef RL_NULLABLE o, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
