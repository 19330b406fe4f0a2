/*
 * RLThreadRef: a thread that lives in its run loop.
 *
 * RLThreadStart returns when the new thread's loop is there, so that sources can be added to it and
 * RLPerformOnLoop can be called at once. A thread without a function of its own runs the default mode
 * of its loop until it is ended; its loop stays when there is nothing in it.
 * RLThreadCancel only asks: it sets a flag and wakes the loop. RLThreadEnd ends in good order: what
 * was queued for the loop before is still performed, the run is stopped, and the call returns when
 * the thread and its loop are gone. A thread with a function of its own looks at
 * RLThreadIsCancelled between its runs and returns.
 * The thread object is reference counted and holds the loop; the thread itself holds the object while
 * it executes. The child of fork has no thread but the one that forked: all others count as finished.
 * Rules: Docs/semantics.md, section 28.
 */
#ifndef RUNLOOP_THREAD_H
#define RUNLOOP_THREAD_H

#include "base.h"

RL_HEADER_BEGIN

/** A thread with a loop. */
typedef struct RLThread *RLThreadRef;

/** What a thread does; when it returns the thread ends. */
typedef void (*RLThreadCallBack)(RLThreadRef RL_NONNULL thread, void *RL_NULLABLE info);

/**
 * Gives the type id of threads, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeID RLThreadGetTypeID(void);

/**
 * Makes a thread that is not started yet.
 *
 * body: what the thread does; NULL: it runs the default mode of its loop until it is cancelled or
 *     ended. info: handed to body and release; may be NULL.
 * release: called once: on the thread, after body, also one that ends by pthread_exit, or when an
 *     object that was never started dies; NULL: none.
 * Returns: the thread; never NULL.
 * Threads: any. Ownership: the caller's to release, also while the thread executes.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's initWithTarget:selector:object: in Cocoa. Since 0.1.
 */
RL_EXPORT RLThreadRef RL_NONNULL RLThreadCreate(RLThreadCallBack RL_NULLABLE body, void *RL_NULLABLE info,
                                                void (*RL_NULLABLE release)(void *RL_NULLABLE info))
    RL_WARN_UNUSED_RESULT;

/**
 * Gives a thread its name, its stack and its priority; for a thread that is not started yet.
 *
 * name: UTF-8, copied; the kernel shows the first 15 bytes of it. NULL: none.
 * stackSize: bytes, rounded up to what the system needs; 0: the system's own.
 * priority: a nice value, -20 (first) to 19 (last), 0 is usual; what the system refuses is left as
 *     it is.
 * thread: NULL, and one that was started already: all three do nothing.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's name, stackSize and threadPriority in Cocoa. Since 0.1.
 */
RL_EXPORT void RLThreadSetName(RLThreadRef RL_NULLABLE thread, const char *RL_NULLABLE name);
RL_EXPORT void RLThreadSetStackSize(RLThreadRef RL_NULLABLE thread, size_t stackSize);
RL_EXPORT void RLThreadSetPriority(RLThreadRef RL_NULLABLE thread, int priority);

/**
 * Gives the name that was set.
 *
 * Returns: the name, good as long as the caller holds the thread and nobody sets another before the
 * start; NULL for none and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT const char *RL_NULLABLE RLThreadGetName(RLThreadRef RL_NULLABLE thread);

/**
 * Starts a thread, once, and returns when its loop is there.
 *
 * Returns: true; false for NULL, a thread that was started already, and if the system has no thread to
 * give: then it may be tried again.
 * Threads: any. Ownership: the thread holds the object while it executes.
 * Reentrancy: call-outs too; calls nothing out on this thread.
 * CF: none; NSThread's start in Cocoa, which does not wait. Since 0.1.
 */
RL_EXPORT bool RLThreadStart(RLThreadRef RL_NULLABLE thread);

/**
 * Gives the loop of a thread that was started.
 *
 * Returns: the loop, also when the thread has ended; NULL before the start, and for NULL.
 * Threads: any. Ownership: borrowed; the thread object holds it.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NULLABLE RLThreadGetRunLoop(RLThreadRef RL_NULLABLE thread);

/**
 * Gives the object of the calling thread.
 *
 * Returns: the object, borrowed; NULL on a thread that RLThreadStart did not make.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's currentThread in Cocoa. Since 0.1.
 */
RL_EXPORT RLThreadRef RL_NULLABLE RLThreadGetCurrent(void);

/**
 * Tells whether the caller is the process's initial thread, in the child of fork the thread that forked.
 *
 * Returns: true on that thread. Its loop is RLGetMain.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's isMainThread in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLThreadIsMain(void);

/**
 * Asks a thread to end: sets its flag for good and wakes its loop.
 *
 * A thread without a body ends by it after the pass under way; what is queued later may be dropped. One
 * with a body has to look at RLThreadIsCancelled.
 * thread: NULL does nothing. One that is not started is cancelled from its start.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's cancel in Cocoa, which wakes nobody. Since 0.1.
 */
RL_EXPORT void RLThreadCancel(RLThreadRef RL_NULLABLE thread);

/**
 * Tells whether RLThreadCancel or RLThreadEnd was called; whether the thread has its loop and has not
 * ended; whether it has ended.
 *
 * Returns: false for NULL. From another thread the answer may be old by the time it is read.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; NSThread's isCancelled, isExecuting and isFinished in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLThreadIsCancelled(RLThreadRef RL_NULLABLE thread);
RL_EXPORT bool RLThreadIsExecuting(RLThreadRef RL_NULLABLE thread);
RL_EXPORT bool RLThreadIsFinished(RLThreadRef RL_NULLABLE thread);

/**
 * Waits until a thread and its loop are gone. It does not ask the thread to end.
 *
 * Returns: true; false for NULL, a thread that was not started, and the calling thread itself.
 * Threads: any, and several at once. Ownership: the thread's system resources are given back by it, or
 * with the object.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLThreadJoin(RLThreadRef RL_NULLABLE thread);

/**
 * Ends a thread in good order: performs what was queued for its loop, stops it, and waits for its end.
 *
 * Functions of RLPerformFunction for the default or the common modes and requests of RLPerformOnLoop
 * that were queued before this call are performed first, by a run in a common mode or, if the body
 * makes none, after it returned; what comes later is dropped, and released. The thread is cancelled
 * by that, and its runs are stopped; its body has to return then.
 * Returns: as RLThreadJoin; on the thread itself false, after it was cancelled and its run stopped.
 * Threads: any. Reentrancy: call-outs too; calls nothing out on this thread.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLThreadEnd(RLThreadRef RL_NULLABLE thread);

RL_HEADER_END

#endif
