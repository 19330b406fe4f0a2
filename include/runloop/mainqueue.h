/* SPDX-License-Identifier: MIT */
/*
 * The main dispatch queue: blocks and functions that libdispatch queues for the main thread.
 *
 * libdispatch does not drain its main queue by itself: the code that waits on the main thread does.
 * Once attached, the main thread's loop serves the queue in every common mode, as it does on macOS:
 *
 * One drain per pass runs all that is queued; what is queued meanwhile waits for the next pass. A
 * drain counts as a handled source. A queue that is ready before the wait is served at once,
 * without BeforeWaiting and AfterWaiting, but not in the first pass of a run nor in the pass after
 * a drain.
 * Such a mode is never empty: a run of it waits for the queue, and returns after RLStop or at its
 * deadline.
 * While a function of the queue is running, nested runs neither serve the queue nor wait for it.
 * Without libdispatch in the process, and for every other thread's loop, nothing changes.
 * Rules: Docs/semantics.md, section 14.
 */
#ifndef RUNLOOP_MAINQUEUE_H
#define RUNLOOP_MAINQUEUE_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Makes the main thread's loop serve libdispatch's main queue from now on, for good.
 *
 * It finds libdispatch in the process by the symbols that CoreFoundation uses; the library does not
 * link to libdispatch.
 * Returns: true if the queue is attached, now or already; false, with nothing changed, if the
 * process has no libdispatch, if no descriptor is left for its main queue, and in the child of fork
 * if the parent had attached it, or had threads and libdispatch was loaded with RTLD_LOCAL. The
 * caller may try again after false. A thread that is loading a library holds this call up until the
 * constructors of that have returned, as it holds up dlsym(3); so it does RunLoop.main and
 * RunLoop.current of the Swift module where they are used for the first time on the main thread.
 * Errors: libdispatch serves its main queue only on the thread that loaded it: link it to the
 * program, or load it on the main thread; a drain on another thread traps.
 * Threads: any; a main loop that waits takes the queue into account without an extra pass.
 * Sharing: CoreFoundation's main loop in the same process serves the same queue. Whichever of the
 * two runs drains the whole queue; neither takes anything away from the other.
 * Reentrancy: call-outs too; calls no call-out. CF: none; CFRunLoop always does this. Since 0.1.
 */
RL_EXPORT bool RLAttachMainQueue(void);

RL_HEADER_END

#endif
