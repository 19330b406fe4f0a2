/*
 * RLForeignRunRef: a run of a loop whose waits another loop makes, such as GLib's or libuv's.
 *
 * A thread can wait in one place only. Where that is a loop of another kind, a foreign run is cut
 * in two at each wait, and the host, the other loop, makes the wait:
 *
 *   RLForeignRunPrepare    the steps of a pass before its wait: observers, functions, signalled
 *                          sources; before the first pass, Entry
 *   (the host waits)       for RLForeignRunGetDescriptor's descriptor to become readable, at most as
 *                          long as Prepare said; the loop counts as waiting
 *   RLForeignRunDispatch   the steps after the wait: AfterWaiting, one event, functions, the result
 *
 * Passes, their order and observers are those of RLRunInMode with no deadline (loop.h).
 * The descriptor tells the truth: it is readable when a dispatch has something to do, be that a
 * ready port, a due timer, a wake-up, a stop, or a prepare that has not been made. It is an epoll
 * descriptor, which any poll, select, epoll or io_uring takes; it counts for two levels of nested
 * sets. A host that cannot tell when it is about to wait need not call Prepare: dispatch whenever
 * the descriptor is readable, which makes the steps before a wait as well. One that can should, as
 * it then sleeps at once when all is served. A dispatch with nothing to do does nothing.
 * When the run is over (Finished, Stopped), the next Prepare begins another one, with Entry, as
 * soon as there is something in the mode; until then the descriptor tells of what is added.
 * Nested runs: code that the host calls during the wait may call RLRunInMode, and so may callbacks
 * of the run. If a callback of the loop runs the host, the descriptor and Prepare tell of the mode
 * as ever, and a Dispatch in there is RLRunInMode for 0 seconds if there is something to do.
 * A loop has one foreign run at a time.
 * The other way round, a run loop that drives a foreign loop needs no calls of its own: the other
 * loop's descriptor is a port (source.h); Examples/Foreign has GLib and libuv both ways.
 * fork: in the child the run goes on with the same descriptor number, which is no longer shared
 * with the parent; a host's own epoll set has to be made anew as that host says.
 * Rules: Docs/semantics.md, section 26.
 */
#ifndef RUNLOOP_FOREIGN_H
#define RUNLOOP_FOREIGN_H

#include "base.h"
#include "loop.h"

RL_HEADER_BEGIN

/**
 * Gives the type id of foreign runs, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeID RLForeignRunGetTypeID(void);

/**
 * Makes a foreign run of a mode of the calling thread's loop; no observer is called yet.
 *
 * mode: a name, copied; the mode need not exist. NULL and kRLCommonModes are no modes to run.
 * Returns: the run; NULL for such a mode, if no descriptors are to be had (errno says why), or if
 *     the loop has a foreign run that is valid (EBUSY).
 * Threads: belongs to the calling thread. Ownership: the caller's to release, after
 * RLForeignRunInvalidate; without that it lives until its thread ends. It retains the loop.
 * Reentrancy: call-outs too; calls nothing out. CF: none. Since 0.1.
 */
RL_EXPORT RLForeignRunRef RL_NULLABLE RLForeignRunCreate(RLMode RL_NULLABLE mode) RL_WARN_UNUSED_RESULT;

/**
 * Gives the descriptor that is readable when RLForeignRunDispatch has something to do.
 *
 * Returns: the same number until the run is invalidated; -1 for NULL or an invalid run.
 * Threads: any. Ownership: borrowed: wait for it, and neither read nor close it. A host forgets it
 * before RLForeignRunInvalidate closes it.
 * Reentrancy: call-outs too; calls nothing out. CF: none. Since 0.1.
 */
RL_EXPORT int RLForeignRunGetDescriptor(RLForeignRunRef RL_NULLABLE run);

/**
 * Makes the steps of a pass before its wait; if they are made, only looks at the time again.
 *
 * Returns: the seconds after which a dispatch has something to do by time alone: 0 at once,
 *     infinity never. The descriptor becomes readable by then too, so that a host may ignore the
 *     number, or round it up. Infinity also for NULL, an invalid run, and on another thread.
 * Errors: where descriptors ran out, a short time after which to call again.
 * Threads: the one that made the run; elsewhere nothing happens, with one log line per process.
 * Reentrancy: call-outs too; calls out to observers, functions and signalled sources.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTimeInterval RLForeignRunPrepare(RLForeignRunRef RL_NULLABLE run);

/**
 * Makes the rest of the pass if its wait is over, the steps before the wait first if need be.
 *
 * Returns: kRLRunGoesOn; kRLRunStopped or kRLRunFinished after the Exit observers of a run that
 *     ended thus; kRLRunGoesOn where nothing was done, for NULL and for an invalid run.
 * Threads: the one that made the run; elsewhere nothing happens, with one log line per process.
 * Reentrancy: call-outs too, then as RLRunInMode for 0 seconds; calls out to all in the mode.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunResult RLForeignRunDispatch(RLForeignRunRef RL_NULLABLE run);

/**
 * Ends a foreign run for good: calls its Exit observers if it is under way, closes its descriptor.
 *
 * run: NULL and an invalid run: nothing happens. In a callback of the run itself, or of a run nested
 *     in it, the rest of the pass is made first and the end comes when those callbacks have returned.
 * Threads: the one that made the run; elsewhere nothing happens, with one log line per process.
 * Reentrancy: call-outs too; calls Exit observers.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLForeignRunInvalidate(RLForeignRunRef RL_NULLABLE run);

/**
 * Tells whether a foreign run can be used.
 *
 * Returns: false once it was invalidated or its thread ended, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLForeignRunIsValid(RLForeignRunRef RL_NULLABLE run);

RL_HEADER_END

#endif
