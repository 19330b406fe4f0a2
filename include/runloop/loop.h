/* SPDX-License-Identifier: MIT */
/*
 * RLRunLoopRef: the loop of a thread, its modes, and running it.
 *
 * Every thread has one loop. A loop has modes, named sets of sources, timers and observers. A run
 * serves one mode, in passes; the events of other modes are kept until their mode runs:
 *
 *   Entry
 *   +-> BeforeTimers, BeforeSources; queued functions; signalled sources, functions again
 *   |   BeforeWaiting; the wait for port, timer, wake-up, stop or deadline; AfterWaiting
 *   |   one event: all due timers or one ready port; queued functions
 *   +-- as long as there is no result
 *   Exit
 *
 * A pass that performed a signalled source, or whose run was given 0 seconds or less, only polls
 * and never waits; BeforeWaiting and AfterWaiting are then left out.
 * Result: decided at the end of a pass, the first that holds: a source was handled and the caller
 * asked for that, the deadline passed, a stop was requested, nothing is left in the mode.
 * kRLCommonModes is not a mode: it stands for the loop's set of common modes, present and future.
 * RLSourceSignal marks a source and wakes no loop. RLWakeUp ends the wait; the run goes on with a
 * pass. RLStop ends the innermost run, and its wait first.
 * Any call-out may run the loop again (a nested run), in the same mode or another.
 * Rules: Docs/semantics.md, sections 1 to 6, 11 and 43.
 */
#ifndef RUNLOOP_LOOP_H
#define RUNLOOP_LOOP_H

#include "base.h"

RL_HEADER_BEGIN

/** The mode of a program that needs only one, and of RLRun: "kCFRunLoopDefaultMode". */
RL_EXPORT const char *const RL_NONNULL kRLDefaultMode;
/**
 * The pseudo-mode, "kCFRunLoopCommonModes". An item added under it is a common item: it joins every
 * mode of the common set (kRLDefaultMode and those passed to RLAddCommonMode) and each that is added
 * later. Removing it under this name removes it from them all. The pseudo-mode cannot be run.
 */
RL_EXPORT const char *const RL_NONNULL kRLCommonModes;

/** Why a run returned. CF: CFRunLoopRunResult. */
RL_ENUM(int32_t, RLRunResult) {
    /** Only from RLForeignRunDispatch: the run is not over. */
    kRLRunGoesOn = 0,
    /** The mode has no source, timer or queued function left, or never existed. */
    kRLRunFinished = 1,
    /** RLStop was called. */
    kRLRunStopped = 2,
    /** The deadline passed. A run of 0 seconds times out after one pass. */
    kRLRunTimedOut = 3,
    /** A source performed, and the caller asked the run to return after that. */
    kRLRunHandledSource = 4
};

/** The stages of a run that an observer can see. CF: CFRunLoopActivity. */
RL_OPTIONS(RLOptionFlags, RLActivity) {
    /** The run starts; once, before everything else. */
    kRLEntry = 1UL << 0,
    /** A pass starts; in every pass, whether or not there are timers. */
    kRLBeforeTimers = 1UL << 1,
    /** Right after kRLBeforeTimers; in every pass, whether or not there are sources. */
    kRLBeforeSources = 1UL << 2,
    /** The loop is about to wait; it will not sleep if an event is ready. Not in a pass that polls. */
    kRLBeforeWaiting = 1UL << 5,
    /** The wait is over and its event is not served yet; always after kRLBeforeWaiting. */
    kRLAfterWaiting = 1UL << 6,
    /** The run ends; once, after everything else, whatever the result. */
    kRLExit = 1UL << 7,
    /** All of these and any that later versions add. */
    kRLAllActivities = 0x0FFFFFFFUL
};

/**
 * Returns the type id of loops, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLGetTypeID(void);

/**
 * Returns the calling thread's loop; the first call on a thread makes it.
 *
 * Returns: the same reference for the whole life of the thread; never NULL.
 * Errors: traps if the process has a second copy of the library that runs loops of its own.
 * Threads: any. Ownership: borrowed; another thread that keeps it must RLRetain it before this
 * thread ends. At thread exit the loop calls cancel of its version 0 sources, on this thread. The
 * loop is freed then or, if it is retained, with its last release, which calls the release of
 * queued functions. Items stay valid and may join another loop: sources at once, timers and
 * observers when the loop is freed.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopGetCurrent. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NONNULL RLGetCurrent(void);

/**
 * Returns the calling thread's loop if it has one, and makes none.
 *
 * Returns: what RLGetCurrent returns; NULL on a thread that has no loop yet, or no longer. The main
 * thread has one as soon as any thread has asked for it.
 * Threads: any. Ownership: borrowed, as from RLGetCurrent.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NULLABLE RLGetCurrentIfMade(void);

/**
 * Returns the loop of the main thread: the process's first thread, whichever thread loaded the
 * library.
 *
 * Returns: the loop, even before the main thread has used it; never NULL. In the child of fork it
 * is the loop of the thread that forked.
 * Errors: traps if the process has a second copy of the library that runs loops of its own.
 * Threads: any. Ownership: borrowed.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopGetMain. Since 0.1.
 */
RL_EXPORT RLRunLoopRef RL_NONNULL RLGetMain(void);

/**
 * Returns the name of the mode that a loop is running; with nested runs, that of the innermost.
 *
 * rl: any loop, or NULL.
 * Returns: the name, which the caller frees with free; NULL if the loop is not running or rl is
 * NULL.
 * Set from before the Entry observers until after the Exit observers.
 * Threads: any; from another thread the answer may be out of date when it arrives.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopCopyCurrentMode, which returns a CFStringRef. Since 0.1.
 */
RL_EXPORT char *RL_NULLABLE RLCopyCurrentMode(RLRunLoopRef RL_NULLABLE rl) RL_WARN_UNUSED_RESULT;

/**
 * Lists the names of a loop's modes, each once, in no promised order.
 *
 * A mode is made when an item or a queued function first names it, and is never removed. The
 * pseudo-mode is not listed.
 * rl: any loop, or NULL. count: receives the number of names, 0 for a NULL loop; may be NULL.
 * Returns: an array that ends with NULL, names and all in one block; NULL for a NULL loop.
 * Threads: any. Ownership: the caller calls free once, on the array.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopCopyAllModes, which returns a CFArrayRef. Since 0.1.
 */
RL_EXPORT char *RL_NULLABLE *RL_NULLABLE RLCopyAllModes(RLRunLoopRef RL_NULLABLE rl, RLIndex *RL_NULLABLE count)
    RL_WARN_UNUSED_RESULT;

/**
 * Adds a mode to the loop's set of common modes, for good, and every common item to that mode.
 *
 * rl, mode: the call does nothing for NULL, for kRLCommonModes itself and for a name that is already
 *     common. It does not restore a common item that was removed from this one mode.
 * Threads: any; on another thread than the loop's it wakes the loop if a version 0 source joins, or
 *     if a function or a request waited for this. On the loop's own thread it is no wake-up: what BeforeWaiting makes common waits for the
 *     next pass, except requests (RLPerformOnLoop), before which the loop does not sleep.
 * Reentrancy: call-outs too; calls schedule of each version 0 source that joins, on this thread,
 * and may call equal and hash of sources.
 * CF: CFRunLoopAddCommonMode, which accepts the pseudo-mode and crashes later. Since 0.1.
 */
RL_EXPORT void RLAddCommonMode(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);

/**
 * Returns the date of a mode's timer that is due first.
 *
 * rl, mode: NULL, a mode that does not exist and the pseudo-mode have no timers.
 * Returns: the date, which may be past, and may be that of a timer whose callback runs now; 0 if
 * the mode has no timer.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopGetNextTimerFireDate. Since 0.1.
 */
RL_EXPORT RLAbsoluteTime RLGetNextTimerFireDate(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);

/**
 * Runs the calling thread's loop in kRLDefaultMode until it is stopped or nothing is left in it.
 *
 * Returns: after RLStop, or as soon as the mode has no source, timer or queued function, which may
 * be at once.
 * Threads: acts on the calling thread's loop. Ownership: nothing changes hands.
 * Reentrancy: call-outs too (a nested run); calls out to everything in the mode.
 * CF: CFRunLoopRun. Since 0.1.
 */
RL_EXPORT void RLRun(void);

/**
 * Runs the calling thread's loop in one mode for a time, or until a source was handled.
 *
 * mode: a name; NULL, kRLCommonModes and a mode with no source, timer or queued function return
 *     kRLRunFinished at once, with no observer called. Observers alone do not keep a run going.
 * seconds: 0 or less: one pass that does not wait, so kRLRunTimedOut or kRLRunHandledSource. Up to
 *     504911232 (16 years): the run ends that long after Entry, by the monotonic clock, at the end
 *     of a pass. More, infinity or NaN: no deadline.
 * returnAfterSourceHandled: true ends the run after the pass in which a source performed; then only
 *     the first of several signalled sources performs. Timers and functions do not count.
 * Returns: RLRunResult. Threads: acts on the calling thread's loop.
 * Reentrancy: call-outs too; each run has its own deadline, stop and result; calls out to all.
 * CF: CFRunLoopRunInMode; an outer run keeps its deadline and its wake-ups. Since 0.1.
 */
RL_EXPORT RLRunResult RLRunInMode(RLMode RL_NULLABLE mode, RLTimeInterval seconds, bool returnAfterSourceHandled);

/**
 * Tells whether RLRunInMode of a mode would return kRLRunFinished at once, with nothing done.
 *
 * mode: a name; NULL, kRLCommonModes and a mode that does not exist count as empty.
 * Returns: true if the mode has no source, no timer and no queued function; observers do not count.
 * Threads: asks the calling thread's loop. Reentrancy: call-outs too; calls no call-out.
 * CF: _CFRunLoopFinished, which is exported but not in a public header. Since 0.1.
 */
RL_EXPORT bool RLIsModeEmpty(RLMode RL_NULLABLE mode);

/**
 * Tells whether a loop waits: after its BeforeWaiting observers and before its AfterWaiting ones.
 *
 * rl: any loop; NULL gives false.
 * Returns: true while it waits; a pass that only polls may show true for an instant.
 * Threads: any; from another thread the answer may be out of date when it arrives.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopIsWaiting. Since 0.1.
 */
RL_EXPORT bool RLIsWaiting(RLRunLoopRef RL_NULLABLE rl);

/*
 * For RunLoopKit, on the thread of the loop: what the run that has so many runs inside of it knows about the wait of its pass. 1: it is to come,
 * 2: the same, and so is no observer that posts notifications, 3: it is to come and ends at once, 4: it is over, 5: so is the run; 16 more while the
 * host of a foreign run has the thread. 0: there is no such run. A change other than 0 is stored first. The name lives as long as the loop. An observer
 * posts notifications if its activities are BeforeTimers, BeforeWaiting, Exit and bit 63, and its order is the last but one; it makes the change to 2 or 5
 * when it has done so.
 */
RL_EXPORT uint8_t RLRunGetWait_(RLRunLoopRef RL_NONNULL rl, RLIndex outer, uint8_t change, const char *RL_NONNULL *RL_NONNULL mode);

/**
 * Ends a loop's wait, so that another pass serves signalled sources and queued functions.
 *
 * rl: any loop; NULL does nothing. A loop that is not running ignores the call. A loop that runs
 *     but has not reached the wait of its pass does not sleep in that wait; this holds for outer
 *     runs as well. Several calls before the wait ends count as one. The call does not end a run
 *     and does not count as a handled source.
 * Threads: any, and async-signal-safe. Ownership: the caller must hold a reference, or be sure that
 * the loop's thread lives.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopWakeUp, which is not async-signal-safe. Since 0.1.
 */
RL_EXPORT void RLWakeUp(RLRunLoopRef RL_NULLABLE rl);

/**
 * Makes the innermost run of a loop return kRLRunStopped after its pass, and ends its wait.
 *
 * rl: any loop; NULL does nothing. A loop that is not running ignores the call, and so does a run
 *     in its Exit observers. The run completes its pass without sleeping and calls its Exit
 *     observers. A stop in an Entry observer ends the run before its first pass.
 * Errors: a run that returns kRLRunHandledSource or kRLRunTimedOut instead drops the stop.
 * Threads: any, and async-signal-safe. Ownership: as for RLWakeUp.
 * Reentrancy: call-outs too; outer runs go on; calls no call-out.
 * CF: CFRunLoopStop, which is not async-signal-safe. Since 0.1.
 */
RL_EXPORT void RLStop(RLRunLoopRef RL_NULLABLE rl);

/**
 * Makes a loop spin for a moment before it sleeps: wake-ups arrive sooner and cost processor time.
 *
 * rl: any loop; NULL does nothing.
 * seconds: initially 0; NaN and negative values count as 0, more than 0.001 as 0.001. The loop never
 *     spins past its next timer or deadline. It notices events of descriptors when the spin ends.
 * Threads: any; holds from the next wait on. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLSetSpinLimit(RLRunLoopRef RL_NULLABLE rl, RLTimeInterval seconds);

/**
 * Limits what each step of a pass in a mode calls, so that timers and ports have their turns.
 *
 * A pass performs at most count signalled sources and count requests, and at each of its three
 * points at most count queued functions. The rest has its turn in the next pass, in its order, and
 * the loop does not sleep before that pass. A run in a callback goes on with what that callback's step has
 * left: functions that all run the loop in the mode are called inside each other, one in count of them.
 * rl: any loop. mode: it is made if it does not exist; kRLCommonModes stands for the modes that are
 *     common now. NULL for one of them does nothing.
 * count: 0 and less: any number, which is the initial state.
 * Threads: any; holds from the next step on. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSetPassLimit(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode, RLIndex count);

/**
 * Returns the limit of a mode; 0: the mode has none, or does not exist.
 *
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLGetPassLimit(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
