/* SPDX-License-Identifier: MIT */
/*
 * Inspecting a loop: names, lists of items, what it does and waits for, in words and in numbers.
 *
 * When a loop does not end, or does not do what it should, ask the loop itself. RLDump writes what
 * it does, everything in it, and for each mode a sentence that says what keeps it from being
 * finished:
 *
 *   <RLRunLoop 0x55d0c8a1b2c0>{name = "main", thread = 4711 "server", current mode = ...
 *       mode "kCFRunLoopDefaultMode" (common):
 *           <RLSource 0x55d0c8a1d0b0>{name = "commands", version = 1, ..., descriptor = 5 (pipe:[32])
 *           <RLTimer 0x55d0c8a1d2f0>{..., next fire date = ... (in 0.400000 s), ...
 *           kept from being finished by 1 source, 1 timer
 *   }
 *
 * For a loop whose thread is stuck, another thread can do that. A program that should be able to do
 * so at any time has a kernel event source for SIGUSR1 in the loop of a separate thread, and calls
 * RLDump(NULL, STDERR_FILENO) in its callback (Examples/C/why_not_finished.c). RLDump must not be
 * called by a signal handler itself.
 * Callbacks are shown by their names where the dynamic linker knows these (-rdynamic makes those of
 * the program known), else as a file and an offset, which `addr2line -f -e FILE OFFSET` resolves.
 * Rules: Docs/semantics.md, sections 36 and 37.
 */
#ifndef RUNLOOP_INSIGHT_H
#define RUNLOOP_INSIGHT_H

#include "base.h"

RL_HEADER_BEGIN

/** Kinds of items, for RLCopyItems. CF: none. */
RL_OPTIONS(RLOptionFlags, RLItemKinds) {
    /** Sources of both versions, also those of sockets, descriptors, ports and kernel events. */
    kRLItemSources = 1UL << 0,
    kRLItemTimers = 1UL << 1,
    kRLItemObservers = 1UL << 2,
    /** All of these and any that later versions add. */
    kRLItemAll = 0x0FFFFFFFUL
};

/**
 * Gives an object a name, for people who debug; it replaces the one that the object had.
 *
 * obj: any object: a loop, an item, a port, a thread; NULL does nothing. Objects without a name have
 *     no cost from those that have one.
 * name: UTF-8, copied; descriptions make it printable and cut it after 200 bytes. NULL: none.
 * Threads: any. Ownership: the name is freed with the object.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSetName(RLTypeRef RL_NULLABLE obj, const char *RL_NULLABLE name);

/**
 * Returns the name of an object.
 *
 * Returns: what RLSetName set; for a thread without that, what RLThreadSetName set; NULL if there is
 * none, and for NULL.
 * Threads: any. Ownership: the caller frees the name with free.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT char *RL_NULLABLE RLCopyName(RLTypeRef RL_NULLABLE obj) RL_WARN_UNUSED_RESULT;

/**
 * Lists the items of a mode, each once, in no promised order within a kind.
 *
 * rl: any loop, or NULL. mode: a name; kRLCommonModes gives the common items. NULL and a mode that
 *     does not exist have none, and none is made.
 * kinds: which items; sources come first, then timers, then observers.
 * count: receives their number, 0 for a NULL loop; may be NULL.
 * Returns: an array that ends with NULL; NULL for a NULL loop. RLGetTypeIDOf tells what each is.
 * Threads: any; other threads may have changed the mode by the time that the call returns.
 * Ownership: the caller calls RLRelease on each item, and free on the array.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTypeRef RL_NULLABLE *RL_NULLABLE RLCopyItems(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode,
                                                         RLItemKinds kinds, RLIndex *RL_NULLABLE count)
    RL_WARN_UNUSED_RESULT;

/**
 * Writes what RLCopyDescription says of a loop to a descriptor, followed by a newline.
 *
 * The text shows the loop's thread, whether it runs and waits and how, the callbacks of timers and
 * sources that are on the stack, and for each mode the items, the functions that wait to be
 * performed, and what keeps the mode from being finished. Of many items some are shown and the
 * rest are counted, so that neither the text nor the time for which the loop is blocked grows with
 * them. The wording is not promised.
 * rl: any loop; NULL: all loops of the process whose threads live.
 * fd: where to write. The call waits up to a second each time that a non-blocking one has no room.
 * Returns: true if all was written; no signal is raised if it was not.
 * Threads: any, but no signal handler. Another thread than the loop's does not see which functions
 * RLPerformFunction has queued, nor call any copyDescription.
 * Reentrancy: call-outs too; calls copyDescription of the items' contexts, of the calling thread's
 * own loop alone, and release of an item whose last other reference is released meanwhile.
 * CF: none; CFShow of a loop. Since 0.2.
 */
RL_EXPORT bool RLDump(RLRunLoopRef RL_NULLABLE rl, int fd);

/**
 * What a loop has done since it was made, and what its call-outs took while they were measured.
 * Times are in seconds. CF: none.
 */
typedef struct RLStatistics {
    /** 0; set it before the call. Later versions have more fields. */
    RLIndex version;
    /** Runs, their passes, the passes that waited, and how often the thread slept in the kernel. */
    uint64_t runs, passes, waits, sleeps;
    /** Wake-ups that the loop took, several at once counted once. */
    uint64_t wakeUps;
    /** System calls by which other threads ended a sleep. */
    uint64_t rouses;
    /** Performed sources that were signalled, and reports of port sources, sockets and events. */
    uint64_t sources, ports;
    /** Fired timers, and dates of repeating timers that were left out because the loop was late. */
    uint64_t timers, skippedDates;
    /** Performed functions of RLPerformFunction, and of the perform family. */
    uint64_t functions, requests;
    /** Observers that were called, and drains of the main dispatch queue. */
    uint64_t observers, mainQueue;

    /** How long RLSetAccounting was on when it was last on; the next fields refer to that time. */
    RLTimeInterval accountedTime;
    /** Call-outs, what they took in all, and the longest. One that ran the loop has that run's, too. */
    uint64_t callOuts;
    RLTimeInterval callOutTime, longestCallOut;
    /** How long the loop slept in its waits, the present one too; for a foreign run how long the host could wait. */
    RLTimeInterval asleepTime;
} RLStatistics;

/** What the call-outs of one item took in one loop, in seconds. CF: none. */
typedef struct RLItemStatistics {
    /** 0; set it before the call. */
    RLIndex version;
    uint64_t calls;
    RLTimeInterval total, longest, last;
} RLItemStatistics;

/** What RLSetAccounting counts by size. CF: none. */
RL_ENUM(int32_t, RLHistogram) {
    /** How long call-outs took. */
    kRLHistogramCallOuts = 0,
    /** How much later than their dates timers were called. */
    kRLHistogramLateness = 1,
    /** How long signalled sources waited to perform, from the first signal on. */
    kRLHistogramSignals = 2
};

/** How many times were longer than the limit of the bucket before, and not longer than this. CF: none. */
typedef struct RLHistogramBucket {
    RLTimeInterval limit;
    uint64_t count;
} RLHistogramBucket;

/**
 * Reads what a loop has counted and measured.
 *
 * Counting is always on, at no measurable cost; the last five fields refer to the time while
 * RLSetAccounting was on, and stay when it is turned off.
 * statistics: receives the numbers; its version is 0. They are not all of the same instant.
 * Returns: true; false for NULL and for another version, and nothing is written.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLGetStatistics(RLRunLoopRef RL_NULLABLE rl, RLStatistics *RL_NULLABLE statistics);

/**
 * Begins or ends measuring a loop's call-outs: two readings of the clock for each, and 15 kilobytes.
 *
 * The loop measures callbacks of sources, timers and observers, performed functions and the main
 * queue. Callbacks of sockets, ports and events count for their sources. Each begin clears what was
 * measured before; an end keeps it.
 * rl: any loop; NULL does nothing. Measuring is initially off.
 * Threads: any; a call-out that is under way is measured if it began after this.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSetAccounting(RLRunLoopRef RL_NULLABLE rl, bool on);
/** Tells whether a loop's call-outs are measured. Threads: any. CF: none. Since 0.2. */
RL_EXPORT bool RLIsAccounting(RLRunLoopRef RL_NULLABLE rl);

/**
 * Reads what the call-outs of an item took in a loop.
 *
 * item: a source, timer or observer. statistics: receives the numbers; its version is 0.
 * Returns: true; false if the loop has not called it while it was measuring, for NULL and for
 * another version, and nothing is written.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLGetItemStatistics(RLRunLoopRef RL_NULLABLE rl, RLTypeRef RL_NULLABLE item,
                                   RLItemStatistics *RL_NULLABLE statistics);

/**
 * Reads a histogram of a loop, for other tools: those of its buckets that are not empty.
 *
 * Limits are not more than a sixteenth apart. buckets: receives as many as there is room for, in the
 * order of their limits; may be NULL. capacity: the room. There are 608 buckets at most.
 * Returns: how many there are; 0 for NULL and for an unknown histogram.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLGetHistogram(RLRunLoopRef RL_NULLABLE rl, RLHistogram histogram,
                                 RLHistogramBucket *RL_NULLABLE buckets, RLIndex capacity);

/**
 * Returns the quantile of the measured times for a fraction: 0.5 for the median, 0.99, 1.
 *
 * fraction: between 0 and 1; values beyond count as these.
 * Returns: seconds, at most a sixteenth too long; 0 if nothing was measured.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTimeInterval RLGetQuantile(RLRunLoopRef RL_NULLABLE rl, RLHistogram histogram, double fraction);

RL_HEADER_END

#endif
