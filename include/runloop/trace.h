/* SPDX-License-Identifier: MIT */
/*
 * A trace: a file in which the process records what its loops do, to be viewed as a picture.
 *
 *   RUNLOOP_TRACE=/tmp/server.trace ./server      records from the first loop on; or call RLTraceStart
 *   runloop-trace /tmp/server.trace               writes /tmp/server.trace.json
 *
 * Perfetto (https://ui.perfetto.dev) shows what runloop-trace writes: a track for each loop with its
 * runs, passes, sleeps and callbacks, and arrows from what was posted, signalled or sent to what was
 * called for it. A trace is always readable, even while it is written and after a process was killed.
 *
 * A record consists of numbers and addresses and takes some 15 nanoseconds. Records lie in rings: in
 * a long run the last 32,768 records of each loop stay. While no trace is on, the only cost is one
 * more load before a branch that exists anyway. The converter takes the functions' names from the
 * program's files.
 *
 * The system's tracers may watch the same places by USDT probes (tools/runloop.bt).
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
 *     trace and an empty file are replaced, no other file. A trace that a living process records in
 *     is left alone; the new one's name is then the path, a dot and the process's number, and if a
 *     living process of the same number, in another pid namespace, has that, a dot and a number from
 *     2 to 99. Until the file is complete its name is the path with .NUMBER-STAMP.new behind it,
 *     where NUMBER is the process's; a process that is killed meanwhile leaves such a file. The
 *     process has a descriptor of the file while it records, for a lock that tells that it lives.
 * loops: how many loops get a ring of one megabyte each, until others end; 0 or less: 16, and no
 *     more than 1024. The file takes that and 2.5 megabytes at once.
 * Returns: true; false if a trace is on or is being started or stopped, or the file cannot be made,
 * for instance for lack of space. A log line then says why. Only the start can fail: a trace that
 * is on needs nothing more of the file system. The file is mapped while it is recorded in: if
 * another process truncates it, the next record that falls behind the new end raises SIGBUS, which
 * ends this process; writing to the file spoils the trace and nothing else. After the stop neither
 * has an effect on this process.
 * The environment: RUNLOOP_TRACE=path calls this when the first loop of the process is made, with
 * the loops of RUNLOOP_TRACE_LOOPS; not in programs with set-user-ID or the like.
 * Threads: any, but no signal handler. fork: the child is not traced, and may start a trace itself.
 *     That waits for ever if another thread of the parent was in dlopen, dlclose or
 *     dl_iterate_phdr at the fork, as these do in the child.
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

/**
 * Tells whether a trace is on that this process started; a trace for runloop-top(1), which RLTraceStart
 * ends and RLTraceStop leaves alone, does not count.
 *
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT bool RLIsTracing(void);

RL_HEADER_END

#endif
