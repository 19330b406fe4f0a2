/* SPDX-License-Identifier: MIT */
/*
 * RLForeignRunRef: a run that waits in another event loop, such as GLib's or libuv's.
 *
 * A thread can wait in one place only. If that place is an event loop of another kind, the host, a
 * foreign run splits each pass in two, and the host waits in between:
 *
 *   RLForeignRunPrepare    the steps of a pass before its wait: observers, functions, signalled
 *                          sources; before the first pass, Entry
 *   (the host waits)       for RLForeignRunGetDescriptor's descriptor to become readable, at most
 *                          as long as Prepare said; the loop counts as waiting
 *   RLForeignRunDispatch   the steps after the wait: AfterWaiting, one event, functions, the result
 *
 * Passes, their order and observers are those of RLRunInMode with no deadline (loop.h).
 * The descriptor is readable exactly when a dispatch has something to do: a ready port, a due
 * timer, a wake-up, a stop, or a prepare that has not been made. It is an epoll descriptor, which
 * can be waited for with poll, select, epoll or io_uring; it counts as two levels of nested epoll
 * sets. A host that does not know when it is about to wait need not call Prepare: it dispatches
 * whenever the descriptor is readable, and Dispatch then makes the steps before the wait as well. A
 * host that does know should call Prepare, because it then sleeps as soon as everything is served.
 * A dispatch with nothing to do does nothing.
 * When a run has ended (Finished, Stopped), the next Prepare begins another one, with Entry, as
 * soon as the mode has an item; until then the descriptor becomes readable when an item is added.
 * Nested runs: code that the host calls during the wait may call RLRunInMode, and so may callbacks
 * of the run. If a callback of the loop runs the host, the descriptor and Prepare work as usual,
 * and a Dispatch there is RLRunInMode for 0 seconds if there is something to do.
 * A loop has one foreign run at a time.
 * A run loop that drives a loop of another kind needs no calls of this header: the other loop's
 * descriptor is a port (source.h). Examples/Foreign has GLib and libuv in both directions.
 * fork: in the child the run goes on with the same descriptor number, which is no longer shared
 * with the parent; the host's own epoll set has to be made anew in the way its manual says.
 * Rules: Docs/semantics.md, section 26.
 */
#ifndef RUNLOOP_FOREIGN_H
#define RUNLOOP_FOREIGN_H

#include "base.h"
#include "loop.h"

RL_HEADER_BEGIN

/**
 * Returns the type id of foreign runs, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeID RLForeignRunGetTypeID(void);

/**
 * Makes a foreign run of a mode of the calling thread's loop; no observer is called yet.
 *
 * mode: a name, copied; the mode need not exist. NULL and kRLCommonModes cannot be run.
 * Returns: the run; NULL for such a mode, if no descriptor is free (errno says why), or if the loop
 *     has a valid foreign run already (EBUSY).
 * Threads: belongs to the calling thread. Ownership: the caller's to release, after
 * RLForeignRunInvalidate; without that it lives until its thread ends. It retains the loop.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.1.
 */
RL_EXPORT RLForeignRunRef RL_NULLABLE RLForeignRunCreate(RLMode RL_NULLABLE mode) RL_WARN_UNUSED_RESULT;

/**
 * Returns the descriptor that is readable when RLForeignRunDispatch has something to do.
 *
 * Returns: the same number until the run is invalidated; -1 for NULL or an invalid run. Only where
 *     the client closed it, or gave it to another file, the next Dispatch, or Prepare that begins
 *     a wait, makes a descriptor with another number, writes a line to the log, and leaves that
 *     file alone.
 * Threads: any. Ownership: borrowed: wait for it, and neither read nor close it. The host must stop
 * waiting for it before RLForeignRunInvalidate, which closes it.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.1.
 */
RL_EXPORT int RLForeignRunGetDescriptor(RLForeignRunRef RL_NULLABLE run);

/**
 * Makes the steps of a pass before its wait; if they are made already, only computes the time
 * again.
 *
 * Returns: the seconds until a dispatch has something to do because time has passed: 0 for now,
 *     infinity for never. The descriptor becomes readable by then too, so a host may ignore the
 *     number or round it up. Infinity also for NULL, an invalid run, and on another thread.
 * Errors: if no descriptor is free, a short time after which to call again.
 * Threads: the one that made the run; on another thread nothing happens, with one log line per
 * process.
 * Reentrancy: call-outs too; calls out to observers, functions, signalled sources and
 * the log handler, and releases contexts as any wait does.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTimeInterval RLForeignRunPrepare(RLForeignRunRef RL_NULLABLE run);

/**
 * Makes the rest of the pass if its wait is over; makes the steps before the wait first if needed.
 *
 * Returns: kRLRunGoesOn, also if nothing was done, for NULL, and for an invalid run; kRLRunStopped
 *     or kRLRunFinished after the Exit observers of a run that has ended.
 * Threads: the one that made the run; on another thread nothing happens, with one log line per
 * process.
 * Reentrancy: call-outs too, then as RLRunInMode for 0 seconds; calls out to everything in the mode.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunResult RLForeignRunDispatch(RLForeignRunRef RL_NULLABLE run);

/**
 * Ends a foreign run for good: calls its Exit observers if it has begun, and closes its descriptor.
 *
 * run: NULL and an invalid run: nothing happens. In a callback of the run itself, or of a run
 *     nested in it, the run ends after its pass, when those callbacks have returned.
 * Threads: the one that made the run; on another thread nothing happens, with one log line per
 * process.
 * Reentrancy: call-outs too; calls Exit observers.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLForeignRunInvalidate(RLForeignRunRef RL_NULLABLE run);

/**
 * Tells whether a foreign run can be used.
 *
 * Returns: false once it was invalidated or its thread ended, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLForeignRunIsValid(RLForeignRunRef RL_NULLABLE run);

RL_HEADER_END

#endif
