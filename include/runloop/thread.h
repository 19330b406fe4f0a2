/*
 * RLThreadRef: a thread that runs its loop.
 *
 * RLThreadStart returns when the new thread has its loop, so that the caller can add sources to it
 * and call RLPerformOnLoop at once. A thread without a function of its own runs the default mode of
 * its loop until it is cancelled or ended; it goes on when the mode is empty.
 * RLThreadCancel only asks: it sets a flag and wakes the loop. RLThreadEnd ends a thread in order:
 * the loop performs what was queued before, its run stops, and the call returns when the thread and
 * its loop have ended. A thread with a function of its own must check RLThreadIsCancelled between
 * its runs and return.
 * The thread object is reference counted and retains the loop; the thread retains the object while
 * it executes. The child of fork has only the thread that forked: all others count as finished.
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
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeID RLThreadGetTypeID(void);

/**
 * Makes a thread that is not started yet.
 *
 * body: what the thread does; NULL: it runs the default mode of its loop until it is cancelled or
 *     ended. info: handed to body and release; may be NULL.
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
 * priority: a nice value, -20 (highest) to 19 (lowest); the default is 0. A value that the system
 *     refuses has no effect.
 * thread: for NULL, and for a thread that was started already, all three do nothing.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's name, stackSize and threadPriority in Cocoa. Since 0.1.
 */
RL_EXPORT void RLThreadSetName(RLThreadRef RL_NULLABLE thread, const char *RL_NULLABLE name);
RL_EXPORT void RLThreadSetStackSize(RLThreadRef RL_NULLABLE thread, size_t stackSize);
RL_EXPORT void RLThreadSetPriority(RLThreadRef RL_NULLABLE thread, int priority);

/**
 * Gives the name of a thread.
 *
 * Returns: the name, valid as long as the caller holds the thread and until another name is set
 * before the start; NULL if the thread has no name, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT const char *RL_NULLABLE RLThreadGetName(RLThreadRef RL_NULLABLE thread);

/**
 * Starts a thread, once, and returns when it has its loop.
 *
 * Returns: true; false for NULL, for a thread that was started already, and if the system cannot
 * make a thread, in which case the caller may try again.
 * Threads: any. Ownership: the thread retains the object while it executes.
 * Reentrancy: call-outs too; calls no call-out on this thread.
 * CF: none; NSThread's start in Cocoa, which does not wait. Since 0.1.
 */
RL_EXPORT bool RLThreadStart(RLThreadRef RL_NULLABLE thread);

/**
 * Gives the loop of a thread that was started.
 *
 * Returns: the loop, even after the thread has ended; NULL before the start, and for NULL.
 * Threads: any. Ownership: borrowed; the thread object retains it.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NULLABLE RLThreadGetRunLoop(RLThreadRef RL_NULLABLE thread);

/**
 * Gives the object of the calling thread.
 *
 * Returns: the object, borrowed; NULL on a thread that RLThreadStart did not make.
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
 * Asks a thread to end: sets its flag for good and wakes its loop.
 *
 * A thread without a body then ends after its present pass; what is queued later may be dropped. A
 * thread with a body must check RLThreadIsCancelled.
 * thread: NULL does nothing. A thread that is not started is cancelled from its start.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; NSThread's cancel in Cocoa, which wakes nobody. Since 0.1.
 */
RL_EXPORT void RLThreadCancel(RLThreadRef RL_NULLABLE thread);

/**
 * Tell whether RLThreadCancel or RLThreadEnd was called; whether the thread has its loop and has
 * not ended; whether it has ended.
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
 * Ends a thread in order: its loop performs what was queued, its runs stop, and the call waits for
 * it.
 *
 * Functions of RLPerformFunction for the default or the common modes, and requests of
 * RLPerformOnLoop, that were queued before this call are performed first: by a run in a common mode
 * or, if the body makes none, after the body has returned. What is queued later is dropped, and
 * released. Then the thread is cancelled and its runs are stopped; its body has to return.
 * Returns: as RLThreadJoin; on the thread itself false, after cancelling it and stopping its run.
 * Threads: any. Reentrancy: call-outs too; calls no call-out on this thread.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLThreadEnd(RLThreadRef RL_NULLABLE thread);

RL_HEADER_END

#endif
