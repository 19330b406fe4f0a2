/* SPDX-License-Identifier: MIT */
/*
 * Functions queued for a loop: CFRunLoopPerformBlock for compilers without blocks (blocks.h has the
 * block forms).
 *
 * A queued function runs once, on the loop's thread, in a run of a mode it was queued for; with
 * kRLCommonModes, of any mode that is common at that time. Functions that can run do so in the
 * order in which they were queued; the others keep their places.
 * A pass empties the queue at three points: before its signalled sources, after them if there were
 * any, and at its end. A function that a queued function queues waits for the next of these points.
 * Queueing wakes no loop: call RLWakeUp after it if the loop may be waiting. The pair is never
 * lost.
 * A queued function keeps its mode from being empty, but does not count as a handled source. A
 * function that runs at the first point does not keep the pass from waiting.
 * release runs exactly once for every call: after the function has run, when its loop is freed, or
 * at once if the function can never run.
 * The second half of this header is the perform family: on a loop, after a delay, in order.
 * Rules: Docs/semantics.md, section 7.
 */
#ifndef RUNLOOP_PERFORM_H
#define RUNLOOP_PERFORM_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Queues a function for a mode of a loop and returns; the call itself never runs the function.
 *
 * rl, mode, perform: if one is NULL, or the loop's thread has ended, the function never runs. The
 *     mode is made if it does not exist; kRLCommonModes stands for all common modes.
 * info: passed to both functions as it is; NULL is allowed.
 * release: called once: right after perform on the loop's thread, when the loop is freed, or before
 *     this call returns if the function can never run. It may be NULL.
 * Threads: any; call RLWakeUp after it for a loop that may wait. Ownership: info is the library's
 * until release. Reentrancy: call-outs too; may call release.
 * CF: CFRunLoopPerformBlock with a string for mode. Since 0.1.
 */
RL_EXPORT void RLPerformFunction(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode,
                                 void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                                 void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Queues a function for several modes of a loop; it runs once, in whichever of them runs first.
 *
 * modes: count names, read during the call; NULL entries are skipped. NULL or count <= 0: no mode,
 *     so the function never runs. kRLCommonModes may be among them.
 * rl, perform, info, release: as for RLPerformFunction.
 * Threads: any; call RLWakeUp after it for a loop that may wait. Ownership: info is the library's
 * until release. Reentrancy: call-outs too; may call release.
 * CF: CFRunLoopPerformBlock with an array for mode. Since 0.1.
 */
RL_EXPORT void RLPerformFunctionInModes(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                        RLIndex count, void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                        void *RL_NULLABLE info,
                                        void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/*
 * The perform family: the calls of Cocoa's performSelector.
 *
 * A request is a function with its info. RLPerformOnLoop queues a request for another thread's loop
 * and wakes it; RLPerformAfterDelay sets a one-shot timer on the calling thread's loop;
 * RLPerformInOrder queues a request for the start of a pass. The last two take a target, which may
 * be any address, and can be cancelled by it.
 * A pending request keeps its modes from being empty; a performed request is removed. release runs
 * exactly once for every call: after the function, when the request is cancelled, when the loop's
 * thread ends (for RLPerformAfterDelay: when the loop is freed), or at once if the function can
 * never run. The child of fork drops requests for which another thread waits, without calling their
 * functions, since they use what belongs to the waiting thread.
 * Rules: Docs/semantics.md, section 21.
 */

/**
 * Asks a loop to perform a function and wakes it; with waitUntilDone, returns after the function.
 *
 * A pass performs all requests that its mode permits in the order in which they were queued, before
 * its signalled sources; they count as a handled source. A request made by a request is performed in
 * the next pass.
 * rl: any loop. On the calling thread's own loop, waitUntilDone performs the function inline,
 *     whatever mode runs; without it the function is queued like any other.
 * mode: NULL: the function never runs. kRLCommonModes stands for all modes that are common then.
 * waitUntilDone: block until the function and release have run, or the loop's thread has ended. The
 *     caller's own loop does not run meanwhile. A thread that never runs its loop in a permitted
 *     mode never performs the function.
 * Returns: true if the function is queued or, with waitUntilDone, has run; false if it never runs:
 * rl, mode or perform is NULL, the loop's thread has ended, or it ends while this call waits.
 * Threads: any. It cannot be cancelled. Ownership: info is the library's until release.
 * Reentrancy: call-outs too; may call perform and release.
 * CF: none; performSelector:onThread:withObject:waitUntilDone:modes: in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLPerformOnLoop(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode,
                               void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                               void (*RL_NULLABLE release)(void *RL_NULLABLE info), bool waitUntilDone);

/**
 * Asks a loop as RLPerformOnLoop does, for several modes: it runs in whichever of them runs first.
 *
 * modes: count names, read during the call; NULL entries are skipped. NULL or count <= 0: no mode,
 *     so the function never runs, not even with waitUntilDone.
 * Returns, threads, ownership, reentrancy: as for RLPerformOnLoop.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLPerformOnLoopInModes(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                      RLIndex count, void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                      void *RL_NULLABLE info, void (*RL_NULLABLE release)(void *RL_NULLABLE info),
                                      bool waitUntilDone);

/**
 * Performs a function on a new thread, which ends after it; no loop is run there.
 *
 * Returns: true; false, after release has run, if perform is NULL or no thread can be made.
 * Threads: any. Ownership: info is the library's until release, which runs on the new thread.
 * Reentrancy: call-outs too; may call release.
 * CF: none; performSelectorInBackground:withObject: in Cocoa. Since 0.1.
 */
RL_EXPORT bool RLPerformInBackground(void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                                     void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Sets a timer on the calling thread's loop that performs a function once.
 *
 * mode: of that loop; kRLDefaultMode is usual. NULL: the function never runs.
 * delay: seconds, measured on the monotonic clock; negative values and NaN count as 0. With 0 the
 *     function still runs when timers fire next, not inline. Requests with the same delay are
 *     performed in the order in which they were made.
 * target: for RLCancelPerformAfterDelay; any address, not used otherwise, may be NULL.
 * The request is a timer, so it does not count as a handled source.
 * Threads: acts on the calling thread's loop. Ownership: info is the library's until release.
 * Reentrancy: call-outs too; may call release.
 * CF: none; performSelector:withObject:afterDelay: in Cocoa. Since 0.1.
 */
RL_EXPORT void RLPerformAfterDelay(RLMode RL_NULLABLE mode, RLTimeInterval delay, const void *RL_NULLABLE target,
                                   void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                                   void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Like RLPerformAfterDelay for several modes; the function runs once, in the mode that runs first.
 *
 * modes, count: as for RLPerformOnLoopInModes. The rest as for RLPerformAfterDelay.
 * Threads: acts on the calling thread's loop. Reentrancy: call-outs too; may call release.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLPerformAfterDelayInModes(const RLMode RL_NULLABLE *RL_NULLABLE modes, RLIndex count,
                                          RLTimeInterval delay, const void *RL_NULLABLE target,
                                          void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                          void *RL_NULLABLE info,
                                          void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Cancels delayed requests of the calling thread's loop, in all modes.
 *
 * target: the target of the requests; NULL matches requests that were made with NULL.
 * perform: NULL: all requests for the target. Otherwise those of this function whose info is the
 *     same or, if equal is given, for which equal(their info, info) is true.
 * The call does not affect a request that is being performed, or requests of other threads' loops.
 * Threads: acts on the calling thread's loop. Ownership: release runs for each, before the return.
 * Reentrancy: call-outs too, the request itself included; calls equal and release.
 * CF: none; cancelPreviousPerformRequestsWithTarget: in Cocoa. Since 0.1.
 */
RL_EXPORT void RLCancelPerformAfterDelay(const void *RL_NULLABLE target,
                                         void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                         void *RL_NULLABLE info,
                                         bool (*RL_NULLABLE equal)(const void *RL_NULLABLE info1,
                                                                   const void *RL_NULLABLE info2));

/**
 * Asks a loop to perform a function at the start of its next pass in one of the modes.
 *
 * Requests of one pass are performed by ascending order, those of equal order in the order in which
 * they were made.
 * They do not count as a handled source. The call wakes the loop. A request that is made by another
 * one is performed in the next pass.
 * rl, perform: NULL: the function never runs. modes, count: as for RLPerformOnLoopInModes.
 * target: for RLCancelPerformInOrder; any address, not used otherwise, may be NULL.
 * Threads: any; it returns before the function runs. Ownership: info is the library's until
 * release.
 * Reentrancy: call-outs too; may call release.
 * CF: none; performSelector:target:argument:order:modes: in Cocoa. Since 0.1.
 */
RL_EXPORT void RLPerformInOrder(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                RLIndex count, RLIndex order, const void *RL_NULLABLE target,
                                void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                                void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Cancels ordered requests of a loop, in all modes.
 *
 * target: the target of the requests. perform: NULL: all requests for the target; otherwise those
 *     of this function with this info.
 * Threads: any. Ownership: release runs for each, before the return.
 * Reentrancy: call-outs too; calls release.
 * CF: none; cancelPerformSelectorsWithTarget: in Cocoa. Since 0.1.
 */
RL_EXPORT void RLCancelPerformInOrder(RLRunLoopRef RL_NULLABLE rl, const void *RL_NULLABLE target,
                                      void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                      void *RL_NULLABLE info);

RL_HEADER_END

#endif
