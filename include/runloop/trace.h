/* SPDX-License-Identifier: MIT */
/*
 * A trace: a file in which the process records what its loops do, to be looked at as a picture.
 *
 *   RUNLOOP_TRACE=/tmp/server.trace ./server      records from the first loop on; or call RLTraceStart
 *   runloop-trace /tmp/server.trace               writes /tmp/server.trace.json
 *
 * Perfetto (https://ui.perfetto.dev) shows what runloop-trace writes: a track for each loop with its
 * runs, passes, sleeps and callbacks, and arrows from what was posted, signalled or sent to what was
 * called for it. A trace is always readable, also while it is written and after a process was killed.
 *
 * Recorded are numbers and addresses, some 15 nanoseconds each, in rings: of a long time the last
 * 32,768 records of each loop stay. While no trace is on, there is a load more before a branch that
 * is there anyway. The functions' names come from the files of the program when it is converted.
 *
 * Tracers of the system may watch the same places by USDT probes (tools/runloop.bt).
 * Rules: Docs/semantics.md, section 45; the format: Docs/trace-format.md.
 */
#ifndef RUNLOOP_TRACE_H
#define RUNLOOP_TRACE_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Starts recording what all loops of the process do.
 *
 * path: the file to make; "%p" in it stands for the process's number. NULL starts nothing. A former
 *     trace and an empty file are replaced, no other file. One that a living process records in is
 *     left alone, and this one's name is the path, a point and the process's number.
 * loops: how many loops get a ring of one megabyte each, until others end; 0 or less: 16, and no
 *     more than 1024. The file takes that and 2.5 megabytes at once.
 * Returns: true; false if a trace is on or is being started or stopped, or the file cannot be made,
 * for want of room too. The log then has a line why. What can fail fails here: a trace that is on
 * needs nothing more of the file system. Who truncates the file while it is recorded in, with
 * truncate(2), ends the process by SIGBUS.
 * The environment: RUNLOOP_TRACE=path calls this when the first loop of the process is made, with
 * the loops of RUNLOOP_TRACE_LOOPS; not in programs with set-user-ID or the like.
 * Threads: any, but no signal handler. fork: the child is not traced, and may start a trace itself.
 * Reentrancy: call-outs too; calls no call-out but the log handler.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLTraceStart(const char *RL_NULLABLE path, RLIndex loops);

/**
 * Stops the trace; does nothing if none is on. The file is complete then.
 *
 * Threads: any, but no signal handler. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLTraceStop(void);

/** Tells whether a trace is on. Threads: any. CF: none. Since 0.2. */
RL_EXPORT bool RLIsTracing(void);

RL_HEADER_END

#endif
