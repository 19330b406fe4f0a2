/*
 * Functions queued for a loop: CFRunLoopPerformBlock for compilers without blocks (blocks.h has the
 * block forms).
 *
 * A queued function runs once, on the loop's thread, in a run of a mode it was queued for; with
 * kRLCommonModes, of any mode that is common at that time. Functions that can run do so in the
 * order in which they were queued; the others keep their places.
 * A pass empties the queue at three points: before its signalled sources, after them if there were
 * any, and at its end. What a queued function queues waits for the next of these points.
 * Queueing wakes nobody: call RLWakeUp after it if the loop may be waiting. The pair is never lost.
 * A queued function keeps its mode from being empty, but does not count as a handled source. One
 * that runs at the first point does not keep the pass from waiting.
 * release runs exactly once for every call, whatever becomes of the function: after it ran, or when
 * its loop is freed, or at once if it can never run.
 * Rules: Docs/semantics.md, section 7.
 */
#ifndef RUNLOOP_PERFORM_H
#define RUNLOOP_PERFORM_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Queues a function for a mode of a loop and returns; it never runs the function by itself.
 *
 * rl, mode, perform: if one is NULL, or the loop's thread has ended, the function never runs. The
 *     mode is made if it does not exist; kRLCommonModes stands for all common modes.
 * info: handed to both functions as it is; NULL is allowed.
 * release: NULL: none. Called once: right after perform on the loop's thread, when the loop is
 *     freed, or before this call returns if the function can never run.
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

RL_HEADER_END

#endif
