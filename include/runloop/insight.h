/*
 * Seeing into a loop: names, lists of items, and what it does and waits for, in words.
 *
 * A loop that does not end, or that does not do what it should, is best asked itself. RLDump writes
 * what it does, everything in it, and for each mode the sentence what keeps it from being finished:
 *
 *   <RLRunLoop 0x55d0c8a1b2c0>{name = "main", thread = 4711 "server", current mode = ...
 *       mode "kCFRunLoopDefaultMode" (common):
 *           <RLSource 0x55d0c8a1d0b0>{name = "commands", version = 1, ..., descriptor = 5 (pipe:[32])
 *           <RLTimer 0x55d0c8a1d2f0>{..., next fire date = ... (in 0.400000 s), ...
 *           kept from being finished by 1 source, 1 timer
 *   }
 *
 * Of a loop whose thread is stuck, another thread can do that. A program that is to tell it at any
 * time has a kernel event source for SIGUSR1 in the loop of a thread of its own, and calls
 * RLDump(NULL, STDERR_FILENO) in its callback (Examples/C/why_not_finished.c). RLDump must not be
 * called by a signal handler itself.
 * Callbacks are shown by their names where the dynamic linker knows these (-rdynamic makes a
 * program's own known), else as a file and a distance, which `addr2line -f -e FILE DISTANCE` names.
 * Rules: Docs/semantics.md, section 35.
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
 * obj: any object: a loop, an item, a port, a thread; NULL does nothing. Objects without a name pay
 *     nothing for those that have one.
 * name: UTF-8, copied; descriptions make it printable and cut it after 200 bytes. NULL: none.
 * Threads: any. Ownership: the name goes with the object.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLSetName(RLTypeRef RL_NULLABLE obj, const char *RL_NULLABLE name);

/**
 * Gives the name of an object.
 *
 * Returns: what RLSetName set; of a thread without that, what RLThreadSetName set; NULL if there is
 * none, and for NULL.
 * Threads: any. Ownership: the caller frees the name with free.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
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
 * Threads: any; by the time that it arrives other threads may have changed the mode.
 * Ownership: the caller calls RLRelease on each item, and free on the array.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLTypeRef RL_NULLABLE *RL_NULLABLE RLCopyItems(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode,
                                                         RLItemKinds kinds, RLIndex *RL_NULLABLE count)
    RL_WARN_UNUSED_RESULT;

/**
 * Writes what RLCopyDescription says of a loop to a descriptor, with a newline behind it.
 *
 * It tells the loop's thread, whether it runs and waits and how, the callbacks of timers and
 * sources that are on the stack, and of each mode the items, the functions that wait to be
 * performed, and what keeps the mode from being finished. Of many items some are shown and the
 * rest are counted, so that neither the text nor the time for which the loop is held up grows with
 * them. The wording is not promised.
 * rl: any loop; NULL: all loops of the process whose threads live.
 * fd: where to write. One that is not blocking is waited for, up to a second for each part.
 * Returns: true if all was written; no signal is raised if it was not.
 * Threads: any, but no signal handler. Another thread than the loop's does not see which functions
 * RLPerformFunction has queued, nor call any copyDescription.
 * Reentrancy: call-outs too; calls copyDescription of the items' contexts, of the calling thread's
 * own loop alone.
 * CF: none; CFShow of a loop. Since 0.1.
 */
RL_EXPORT bool RLDump(RLRunLoopRef RL_NULLABLE rl, int fd);

RL_HEADER_END

#endif
