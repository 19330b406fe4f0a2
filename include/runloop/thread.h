/* SPDX-License-Identifier: MIT */
/*
 * RLThreadRef: a thread that runs its loop.
 *
 * RLThreadGetRunLoop waits until a new thread has its loop, so that the caller of RLThreadStart can
 * add sources to it and call RLPerformOnLoop at once. A thread without a function of its own runs
 * the default mode of its loop until it is cancelled or ended; it goes on when the mode is empty.
 * RLThreadCancel only asks: it sets a flag and wakes the loop. RLThreadEnd ends a thread in order:
 * the loop performs what was queued before, its run stops, and the call returns when the thread and
 * its loop have ended. A thread with a function of its own must check RLThreadIsCancelled between
 * its runs and return.
 * The thread object is reference counted and retains the loop; the thread retains the object while
 * it executes. The child of fork has only the thread that forked: all others count as finished.
 * A body must not be left by an exception of C++: that ends the process, as with std::thread.
 * Rules: Docs/semantics.md, section 28.
 */
#ifndef RUNLOOP_THREAD_H
#define RUNLOOP_THREAD_H

#include "base.h"

#include <pthread.h>

RL_HEADER_BEGIN

/** A thread with a loop. */
typedef struct RLThread *RLThreadRef;

/** What a thread does; when it returns the thread ends. */
typedef void (*RLThreadCallBack)(RLThreadRef RL_NONNULL thread, void *RL_NULLABLE info);

/**
 * Returns the type id of threads, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeID RLThreadGetTypeID(void);

/**
 * Makes a thread that is not started yet.
 *
 * body: what the thread does; NULL: it runs the default mode of its loop until it is cancelled or
 *     ended. info: passed to body and release; may be NULL.
 * release: called once: on the thread, after body returned or called pthread_exit, or when an
 *     object that was never started is freed; may be NULL.
 * Returns: the thread; never NULL.
 * Threads: any. Ownership: the caller's to release, also while the thread executes.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's initWithTarget:selector:object: in Cocoa. Since 0.1.
 */
RL_EXPORT RLThreadRef RL_NONNULL RLThreadCreate(RLThreadCallBack RL_NULLABLE body, void *RL_NULLABLE info,
                                                void (*RL_NULLABLE release)(void *RL_NULLABLE info))
    RL_WARN_UNUSED_RESULT;

/**
 * Set the name, the stack size and the priority of a thread that is not started yet.
 *
 * name: UTF-8, copied; the kernel shows its first 15 bytes. NULL: none.
 * stackSize: bytes, rounded up to what the system needs; 0: the system's default.
 * priority: a nice value, -20 (highest) to 19 (lowest). 0, the default: that of the thread that
 *     starts it, as for a value that the system refuses.
 * thread: for NULL, and for a thread that was started already, all three do nothing.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's name, stackSize and threadPriority in Cocoa. Since 0.1.
 */
RL_EXPORT void RLThreadSetName(RLThreadRef RL_NULLABLE thread, const char *RL_NULLABLE name);
RL_EXPORT void RLThreadSetStackSize(RLThreadRef RL_NULLABLE thread, size_t stackSize);
RL_EXPORT void RLThreadSetPriority(RLThreadRef RL_NULLABLE thread, int priority);

/**
 * Returns the name of a thread.
 *
 * Returns: the name, valid as long as the caller holds a reference to the thread and until another
 * name is set before the start; NULL if the thread has no name, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT const char *RL_NULLABLE RLThreadGetName(RLThreadRef RL_NULLABLE thread);

/**
 * Starts a thread, once, and does not wait for it.
 *
 * Returns: true; false for NULL, for a thread that was already started, and if the system cannot
 * make a thread, in which case the caller may try again.
 * Threads: any. Ownership: the thread retains the object while it executes.
 * Reentrancy: call-outs too; calls no call-out on this thread.
 * CF: none; NSThread's start in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLThreadStart(RLThreadRef RL_NULLABLE thread);

/**
 * Returns the loop of a thread that was started; waits for it while the thread starts.
 *
 * Returns: the loop, even after the thread has ended; NULL before the start, and for NULL.
 * Threads: any. Ownership: borrowed; the thread object retains it.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NULLABLE RLThreadGetRunLoop(RLThreadRef RL_NULLABLE thread);

/**
 * Returns the object of the calling thread.
 *
 * Returns: the object, borrowed; NULL on a thread that RLThreadStart did not make, and on one that has
 * finished, as in destructors of its values.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's currentThread in Cocoa. Since 0.1.
 */
RL_EXPORT RLThreadRef RL_NULLABLE RLThreadGetCurrent(void);

/**
 * Tells whether the calling thread is the process's first thread or, in the child of fork, the
 * thread that forked.
 *
 * Returns: true on that thread. Its loop is RLGetMain.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's isMainThread in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLThreadIsMain(void);

/**
 * Asks a thread to end: sets its flag permanently and wakes its loop.
 *
 * A thread without a body then ends after its current pass; what is queued later may be dropped. A
 * thread with a body must check RLThreadIsCancelled.
 * thread: NULL does nothing. A thread that is not started is cancelled from its start.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's cancel in Cocoa, which wakes no loop. Since 0.1.
 */
RL_EXPORT void RLThreadCancel(RLThreadRef RL_NULLABLE thread);

/**
 * Tell whether RLThreadCancel or RLThreadEnd was called; whether the thread was started and has not
 * ended; whether it has ended.
 *
 * Returns: false for NULL. From another thread the answer may be out of date when it arrives.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's isCancelled, isExecuting and isFinished in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLThreadIsCancelled(RLThreadRef RL_NULLABLE thread);
RL_EXPORT bool RLThreadIsExecuting(RLThreadRef RL_NULLABLE thread);
RL_EXPORT bool RLThreadIsFinished(RLThreadRef RL_NULLABLE thread);

/**
 * Waits until a thread and its loop have ended. It does not ask the thread to end.
 *
 * Returns: true; false for NULL, a thread that was not started, and the calling thread itself.
 * Threads: any, and several at once. Ownership: the thread's system resources are freed by this
 * call, or with the object.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLThreadJoin(RLThreadRef RL_NULLABLE thread);

/**
 * Asks a thread to end, stops the runs of its loop, and does not wait for it.
 *
 * The thread is cancelled and its runs are stopped, also nested ones, in whatever mode; its body has
 * to return. Runs that begin later end after one pass without sleeping; where 1000 of them in a row
 * perform nothing, each begins a millisecond late. A wait that runs the loop, as for a condition, is
 * stopped once by each call, and sleeps on.
 * performsQueued: true: what was queued is performed, as by RLThreadEnd; false: the thread ends
 *     without that, also if RLThreadEnd or such a call came before.
 * thread: NULL does nothing. A thread that is not started is cancelled from its start, and all its
 *     runs end after a pass.
 * Threads: any. Reentrancy: call-outs too; calls no call-out on this thread.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLThreadStop(RLThreadRef RL_NULLABLE thread, bool performsQueued);

/**
 * Ends a thread in order: its loop performs what was queued, its runs stop, and the call waits for
 * it.
 *
 * The thread is cancelled and its runs are stopped as by RLThreadStop; its body has to return.
 * Functions of RLPerformFunction for the default or the common modes, and requests of
 * RLPerformOnLoop and RLPerformInOrder for them, that were queued before the first such call are
 * performed: by these runs or, what they leave, by a last run in the default mode, after the body.
 * A limit of RLSetPassLimit puts off none of them. What is queued later is dropped; so is all that is
 * left if the call comes when the exit callbacks have begun or, without any, the body has returned. A
 * request that is dropped is released when the thread ends, a function when the loop is freed, which
 * the thread's object retains.
 * Returns: as RLThreadJoin; on the thread itself false, after cancelling it and stopping its run.
 * Threads: any. Reentrancy: call-outs too; calls no call-out on this thread.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLThreadEnd(RLThreadRef RL_NULLABLE thread);

/**
 * Starts a thread that will not be joined; its object is freed when it ends.
 *
 * body, info, release: as for RLThreadCreate.
 * Returns: true; false if the system cannot make a thread; release was called then.
 * Threads: any. Reentrancy: call-outs too; calls no call-out on this thread but release.
 * CF: none; NSThread's detachNewThreadSelector: in Cocoa. Since 0.2.
 */
RL_EXPORT bool RLThreadDetachNew(RLThreadCallBack RL_NULLABLE body, void *RL_NULLABLE info,
                                 void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Makes the system free what a thread uses when it ends, even while its object is still retained.
 *
 * The thread can no longer be joined. A thread whose object is not retained needs no such call.
 * thread: not started, executing, or ended. NULL does nothing.
 * Returns: true; false for NULL, and if the thread was joined or detached before.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_detach in POSIX. Since 0.2.
 */
RL_EXPORT bool RLThreadDetach(RLThreadRef RL_NULLABLE thread);

/**
 * Set the result of a thread, and get it.
 *
 * result: any pointer, which the library only stores. Only the thread itself may set it.
 * Returns: what the thread set; NULL if it set nothing, while it executes, and for NULL.
 * Threads: any. Ownership: the program's. Reentrancy: call-outs too; calls no call-out.
 * CF: none; pthread_join in POSIX. Since 0.2.
 */
RL_EXPORT void RLThreadSetResult(RLThreadRef RL_NULLABLE thread, void *RL_NULLABLE result);
RL_EXPORT void *RL_NULLABLE RLThreadGetResult(RLThreadRef RL_NULLABLE thread);

/**
 * Ends the calling thread, with a result.
 *
 * The functions on the thread's stack are left as by pthread_exit: cleanup handlers run, the library
 * releases what it holds for callbacks, and no function returns. It is better to return from the body.
 * Not in a destructor of a thread's value: POSIX leaves the end of a thread there undefined.
 * Threads: any. Reentrancy: call-outs too; calls release and exit callbacks, and does not return.
 * CF: none; NSThread's exit in Cocoa. Since 0.2.
 */
static inline __attribute__((noreturn)) void RLThreadExit(void *RL_NULLABLE result) {
    RLThreadSetResult(RLThreadGetCurrent(), result);
    pthread_exit(result);
}

/**
 * Returns the size of a thread's stack.
 *
 * Returns: bytes: what RLThreadSetStackSize set, rounded up, or the system's default; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's stackSize in Cocoa. Since 0.2.
 */
RL_EXPORT size_t RLThreadGetStackSize(RLThreadRef RL_NULLABLE thread);

/**
 * Change the nice value of a thread at any time; get it.
 *
 * thread: NULL: the calling thread, whatever made it. A thread that is not started gets the value at
 *     its start.
 * priority: -20 (highest) to 19 (lowest); other values are cut. A lower value than the present one
 *     needs a privilege, see setpriority(2).
 * Returns: 0; EACCES or EPERM: the system refuses; ESRCH: the thread has ended. Get: before the start
 *     and after the end what was set for the start.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's threadPriority in Cocoa, which is 0 to 1. Since 0.2.
 */
RL_EXPORT int RLThreadChangePriority(RLThreadRef RL_NULLABLE thread, int priority);
RL_EXPORT int RLThreadGetPriority(RLThreadRef RL_NULLABLE thread);

/** What a thread's work is for. CF: none; NSQualityOfService in Foundation. */
RL_ENUM(int32_t, RLQualityOfService){
    kRLQualityOfServiceUserInteractive = 0x21, /**< work whose effect the user sees at once */
    kRLQualityOfServiceUserInitiated = 0x19,   /**< work that the user asked for and waits for */
    kRLQualityOfServiceUtility = 0x11,         /**< work that the user asked for and does not wait for */
    kRLQualityOfServiceBackground = 0x09,      /**< work that the user does not see */
    kRLQualityOfServiceDefault = -1            /**< everything else */
};

/**
 * Returns the nice value for a quality of service, for RLThreadSetPriority.
 *
 * Returns: -5, -2, 5, 10 and 0, in the order above; 0 for other values. Without a privilege the
 * system refuses the negative ones, which then have no effect.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's qualityOfService in Foundation. Since 0.2.
 */
static inline int RLQualityOfServicePriority(RLQualityOfService quality) {
    switch ((int32_t)quality) {
    case kRLQualityOfServiceUserInteractive: return -5;
    case kRLQualityOfServiceUserInitiated: return -2;
    case kRLQualityOfServiceUtility: return 5;
    case kRLQualityOfServiceBackground: return 10;
    default: return 0;
    }
}

/**
 * Set and get a value that each thread has for itself.
 *
 * key: an address that no other part of the program uses, such as that of a static variable.
 * value: NULL removes the value. destructor: called with the value when it is replaced or removed,
 *     or when the thread ends; may be NULL.
 * Returns: the calling thread's value; NULL if it has none for the key.
 * Threads: any, the main one too, whose values are destroyed if it ends by pthread_exit.
 * Reentrancy: call-outs too; setting calls the destructor of the value that was there.
 * CF: none; NSThread's threadDictionary in Cocoa. Since 0.2.
 */
RL_EXPORT void RLThreadSetValue(const void *RL_NULLABLE key, void *RL_NULLABLE value,
                                void (*RL_NULLABLE destructor)(void *RL_NULLABLE value));
RL_EXPORT void *RL_NULLABLE RLThreadGetValue(const void *RL_NULLABLE key);

/**
 * Put the calling thread to sleep, for some seconds, or until a date.
 *
 * seconds, date: as for RLLockLockForSeconds and RLLockLockBeforeDate; without a limit for ever.
 * Threads: any; a thread with a loop serves nothing meanwhile: better run the loop for that time.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's sleepForTimeInterval: and sleepUntilDate: in Cocoa. Since 0.2.
 */
RL_EXPORT void RLThreadSleepForSeconds(RLTimeInterval seconds);
RL_EXPORT void RLThreadSleepUntilDate(RLAbsoluteTime date);

/**
 * Lists the threads of RLThreadStart that execute.
 *
 * count: receives their number; may be NULL.
 * Returns: an array that ends with NULL, never NULL itself.
 * Threads: any. Ownership: the caller releases each thread, and calls free once, on the array.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLThreadRef RL_NULLABLE *RL_NONNULL RLThreadCopyAll(RLIndex *RL_NULLABLE count) RL_WARN_UNUSED_RESULT;

/**
 * Adds a function that a thread calls when it ends.
 *
 * The last one added is called first, on the thread, after its body and before its release; its
 * loop still exists but no longer runs by itself. callback: NULL is refused. info: passed to it.
 * Returns: true; false for NULL, and for a thread that has already passed this point in its end.
 * Threads: any. Ownership: info is the program's; an object that is freed before the thread was
 * started calls nothing.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThreadWillExitNotification in Cocoa. Since 0.2.
 */
RL_EXPORT bool RLThreadAddExitCallBack(RLThreadRef RL_NULLABLE thread, RLThreadCallBack RL_NULLABLE callback,
                                       void *RL_NULLABLE info);

/**
 * Tell whether RLThreadStart was ever called; set a function that the first call will call.
 *
 * callback: called with info on the thread that calls RLThreadStart, before the new thread exists;
 *     NULL: none. A function set after that call is never called. A call of RLThreadStart in another thread
 *     meanwhile does not wait for it.
 * Returns: true from the first start on.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's isMultiThreaded and NSWillBecomeMultiThreadedNotification. Since 0.2.
 */
RL_EXPORT bool RLThreadIsMultiThreaded(void);
RL_EXPORT void RLThreadSetMultiThreadedCallBack(void (*RL_NULLABLE callback)(void *RL_NULLABLE info), void *RL_NULLABLE info);

RL_HEADER_END

#endif
