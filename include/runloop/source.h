/* SPDX-License-Identifier: MIT */
/*
 * RLSourceRef: an item that a loop performs when it is signalled or when its descriptor is
 * readable.
 *
 * The program signals a version 0 source, from any thread: RLSourceSignal sets the source's flag
 * and wakes no loop; RLWakeUp ends a loop's wait. Several signals before the perform count
 * once. A pass performs the signalled sources of its mode by ascending order; of equal orders, the
 * one that has been signalled longest performs first.
 * A version 1 source is signalled by its port, a file descriptor that has become readable. A pass
 * serves one port; ports are served in the order in which they became ready, and the source's order
 * does not matter.
 *
 * A source can be in many modes of many loops. It performs once per signal, in the loop that
 * reaches it first. Signals and data wait until then; removing a source does not clear its signal.
 * Lifetime: RLSourceCreate calls the context's retain. RLAddSource makes the loop retain the
 * source, so its creator may release it afterwards; RLRemoveSource and RLSourceInvalidate make the
 * loop release it. The context's release runs when the source is freed, not when it becomes
 * invalid.
 *
 * Equal sources: the same object; or two sources with the same validity, order, version, and hash,
 * equal and perform functions for which equal returns true or, without equal, whose info pointers
 * are the same. Adding a source to a mode that has an equal one does nothing; Contains and Remove
 * find the equal one.
 * Rules: Docs/semantics.md, sections 8 and 43.
 */
#ifndef RUNLOOP_SOURCE_H
#define RUNLOOP_SOURCE_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * What a version 0 source does; copied by RLSourceCreate. Every function may be NULL.
 *
 * retain and release: called once each, when the source is made and when it is freed, on the thread
 *     that does so. The result of retain becomes info; without retain, info is kept as it is.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * equal, hash: see "Equal sources"; called by Add, Remove and Contains, any number of times. Equal
 *     infos must have equal hashes. If they are NULL, the info pointers are compared and hashed.
 * schedule: once for each mode the source joins, after it is a member, with the real name of the
 *     mode, on the thread that calls RLAddSource or RLAddCommonMode.
 * cancel: once for each mode the source leaves, after it has left, on the thread that calls
 *     RLRemoveSource or RLSourceInvalidate, or on the loop's thread as it ends.
 * perform: on the loop's thread, once per signal; the flag is cleared before the call. If it is
 *     NULL, the source only counts as handled. CF: CFRunLoopSourceContext. Since 0.1.
 */
typedef struct RLSourceContext {
    /** 0. */
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
    bool (*RL_NULLABLE equal)(const void *RL_NULLABLE info1, const void *RL_NULLABLE info2);
    RLHashCode (*RL_NULLABLE hash)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE schedule)(void *RL_NULLABLE info, RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);
    void (*RL_NULLABLE cancel)(void *RL_NULLABLE info, RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode);
    void (*RL_NULLABLE perform)(void *RL_NULLABLE info);
} RLSourceContext;

/**
 * What a version 1 source does; pass it to RLSourceCreate with a cast. Functions may be NULL.
 *
 * info, retain, release, copyDescription, equal, hash: as in RLSourceContext.
 * getPort: called by RLAddSource and RLRemoveSource; must always return the same descriptor. The
 *     program owns the descriptor and closes it after removing or invalidating the source. A source
 *     whose descriptor is -1, closed, or of a kind that cannot be waited for (a regular file) is a
 *     member but never performs. Of two sources with the same descriptor in one mode, the one that
 *     was added last performs.
 * perform: on the loop's thread, once per event. The library has then read the 8-byte counter of an
 *     eventfd or timerfd. It reads nothing from other descriptors, and calls perform again in later
 *     passes for as long as the descriptor is readable.
 * CF: CFRunLoopSourceContext1, which on macOS also hands over a Mach message. Since 0.1.
 */
typedef struct RLSourceContext1 {
    /** 1. */
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
    bool (*RL_NULLABLE equal)(const void *RL_NULLABLE info1, const void *RL_NULLABLE info2);
    RLHashCode (*RL_NULLABLE hash)(const void *RL_NULLABLE info);
    RLPort (*RL_NULLABLE getPort)(void *RL_NULLABLE info);
    void (*RL_NULLABLE perform)(void *RL_NULLABLE info);
} RLSourceContext1;

/**
 * Returns the type id of sources, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLSourceGetTypeID(void);

/**
 * Makes a source that is valid, not signalled and in no mode.
 *
 * order: version 0 sources of one pass perform by ascending order. It cannot be changed later.
 * context: an RLSourceContext, or an RLSourceContext1 cast to it, as its version says; copied.
 * Returns: the source; NULL if context is NULL or its version is neither 0 nor 1.
 * Threads: any. Ownership: the caller's to release; retain is called once, here, and release when
 * the source is freed.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFRunLoopSourceCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLSourceCreate(RLIndex order, RLSourceContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Returns the order of a source.
 *
 * Returns: the order, also of an invalid source; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceGetOrder. Since 0.1.
 */
RL_EXPORT RLIndex RLSourceGetOrder(RLSourceRef RL_NULLABLE s);

/**
 * Invalidates a source for good: clears its signal and removes it from every mode of every loop.
 *
 * s: any source; NULL and a source that is invalid already do nothing.
 * Threads: any. The call does not wait for a perform that runs on another thread.
 * Ownership: loops drop their references. The context is released when the source is freed; info
 * stays valid until then.
 * Reentrancy: call-outs too, its own perform included; calls cancel once for each mode of each
 * loop that a version 0 source was in, on this thread.
 * CF: CFRunLoopSourceInvalidate, which may hold its locks in cancel. Since 0.1.
 */
RL_EXPORT void RLSourceInvalidate(RLSourceRef RL_NULLABLE s);

/**
 * Tells whether a source can still perform.
 *
 * Returns: true until RLSourceInvalidate; false after it, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceIsValid. Since 0.1.
 */
RL_EXPORT bool RLSourceIsValid(RLSourceRef RL_NULLABLE s);

/**
 * Copies a source's context into the caller's struct.
 *
 * s: any source, also an invalid one; NULL does nothing.
 * context: set its version before the call: 1 means that it points to an RLSourceContext1, anything
 *     else to an RLSourceContext, which is large enough for both. It receives the source's version;
 *     if the source's context does not fit, nothing else is written. NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceGetContext. Since 0.1.
 */
RL_EXPORT void RLSourceGetContext(RLSourceRef RL_NULLABLE s, RLSourceContext *RL_NULLABLE context);

/**
 * Signals a version 0 source, so that the next pass of a mode it is in performs it.
 *
 * s: any source; NULL and invalid sources do nothing. A signal given before the source is added, or
 *     inside its own perform, is kept. Several signals before the perform count once.
 * The call wakes no loop: call RLWakeUp after it. The pair is never lost, whatever the loop is
 * doing.
 * For a version 1 source the call only sets the flag; only its port makes it perform.
 * Threads: any, and async-signal-safe. Ownership: the caller must hold a reference to s, or be sure
 * that a loop does.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceSignal, which is not async-signal-safe. Since 0.1.
 */
RL_EXPORT void RLSourceSignal(RLSourceRef RL_NULLABLE s);

/**
 * Limits how often a source performs, so that one whose client is noisy leaves time for the others.
 *
 * It performs at most count times in a period, which begins with its first perform after the end of
 * the period before. Then it waits for the end of the period: a signal is kept, and so is what
 * arrives at a descriptor or a port. A line is logged when a limit is first reached. For a socket
 * sending queued bytes and an orderly close (socketio.h) count, and wait, too; for a message port a
 * peer that connects or leaves.
 * s: a source of either version, also that of a socket, a port, a descriptor or a kernel event.
 * count: 0 and less, and seconds of 0, less and NaN: no limit, which is the initial state.
 * seconds: by the clock of the loop that performs the source; more than 504911232 counts as that.
 * Threads: any; the limit replaces the former one at once, and a new period begins.
 * Ownership: the limit ends with the source. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSourceSetLimit(RLSourceRef RL_NULLABLE s, RLIndex count, RLTimeInterval seconds);

/**
 * Returns the limit of a source.
 *
 * seconds: receives the period, 0 if there is none; may be NULL.
 * Returns: how often at most it performs in a period; 0: there is no limit.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLSourceGetLimit(RLSourceRef RL_NULLABLE s, RLTimeInterval *RL_NULLABLE seconds);

/**
 * Tells whether a source was signalled and has not performed since.
 *
 * Returns: the flag, which is cleared just before perform; false for NULL and invalid sources.
 * Threads: any; from another thread the answer may be out of date when it arrives.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRunLoopSourceIsSignalled, exported there but not in a header. Since 0.1.
 */
RL_EXPORT bool RLSourceIsSignalled(RLSourceRef RL_NULLABLE s);

/**
 * Tells whether a mode holds a source, or one equal to it.
 *
 * rl, s, mode: NULL, or a mode that does not exist, gives false; the call makes no mode.
 * Returns: true for a member; with kRLCommonModes, true exactly for common items.
 * Threads: any. Reentrancy: call-outs too; may call equal and hash of sources.
 * CF: CFRunLoopContainsSource. Since 0.1.
 */
RL_EXPORT bool RLContainsSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

/**
 * Adds a source to a mode of a loop or, with kRLCommonModes, to all common modes.
 *
 * rl, s, mode: the call does nothing for NULL, for an invalid source, and if the mode holds the
 *     source or an equal one already. The mode is made if it does not exist.
 * Errors: if no file descriptor is free, a port source is added with one log line, and served as
 *     soon as a descriptor is free.
 * Threads: any; on another thread than the loop's, adding a version 0 source wakes the loop, and a
 * port that is ready is served without RLWakeUp.
 * Ownership: the loop retains s until it is removed or invalidated, or the loop's thread ends.
 * Reentrancy: call-outs too; calls schedule or getPort, and may call equal and hash.
 * CF: CFRunLoopAddSource, which does not wake the loop. Since 0.1.
 */
RL_EXPORT void RLAddSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

/**
 * Removes a source, or the member equal to it, from a mode; it stays valid and keeps its signal.
 *
 * rl, s, mode: the call does nothing for NULL and for a source that is not in the mode. With
 *     kRLCommonModes it removes a common item from every common mode, and does nothing to others.
 * Threads: any; it does not wake the loop. A source that the running pass has already chosen still
 * performs; RLSourceInvalidate prevents that.
 * Ownership: the loop drops its reference with the last mode, which may free s and so call release.
 * Reentrancy: call-outs too; calls cancel (or getPort), and may call equal, hash and release.
 * CF: CFRunLoopRemoveSource. Since 0.1.
 */
RL_EXPORT void RLRemoveSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
