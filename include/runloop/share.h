/* SPDX-License-Identifier: MIT */
/*
 * Showing the loops of a process to other processes: runloop-top(1) and runloop-dump(1).
 *
 * A process that calls RLSetShared(true), or is started with RUNLOOP_SHARE=1 in its environment, has
 * a thread that gives processes of the same user what RLDump and RLGetStatistics give:
 *
 *   $ RUNLOOP_SHARE=1 ./server &
 *   $ runloop-top
 *   $ runloop-dump $!
 *
 * The thread answers even while the program's own threads are stuck. It sleeps while no process
 * asks. Any process of the user can read the answers, which include names, addresses and symbols,
 * even a process that may not debug this one. Such a process can also have this one record a trace
 * (trace.h) in memory for as long as the connection lasts, about 20 megabytes at most.
 * Rules, and what a program of one's own would send and receive: Docs/semantics.md, section 46.
 */
#ifndef RUNLOOP_SHARE_H
#define RUNLOOP_SHARE_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Begins or ends showing the process's loops to other processes of the same user.
 *
 * The child of fork shows its loops if its parent did, once one of them waits.
 * on: beginning or ending twice does nothing. An answer that is being made at the end is the last.
 * Returns: true; false if sharing could not begin, for lack of a descriptor, a thread, or a directory
 *     that only this user can enter. The reason is logged.
 * Threads: any. Reentrancy: call-outs too; calls no call-out but the log handler.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLSetShared(bool on);
/** Tells whether other processes can see the process's loops. Threads: any. CF: none. Since 0.2. */
RL_EXPORT bool RLIsShared(void);

RL_HEADER_END

#endif
