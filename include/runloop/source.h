/*
 * RLSourceRef: what a loop performs when something has happened.
 *
 * A version 0 source is signalled by the program, from any thread: RLSourceSignal sets its flag and
 * wakes nobody; RLWakeUp makes a waiting loop look. Signals before the perform count once. A pass
 * performs the signalled sources of its mode by ascending order, then the longest signalled first.
 * A version 1 source is signalled by its port, a file descriptor that can be read. One port is
 * served per pass, in the order in which they became ready; order does not matter.
 *
 * A source can be in many modes and many loops, and performs once per signal in whichever comes to
 * it first. Signals and data wait until then; removal does not clear a signal.
 * Lifetime: RLSourceCreate calls the context's retain; RLAddSource makes the loop hold the source,
 * so the creator may release it then; RLRemoveSource and RLSourceInvalidate let it go. The
 * context's release runs when the source itself dies, not when it becomes invalid.
 *
 * Equal sources: the same object, or the same validity, order, version and hash, equal and perform
 * functions, and either equal says so or, without one, the info pointers are the same. Adding a
 * source to a mode that has an equal one does nothing; Contains and Remove find the equal one.
 * Rules: Docs/semantics.md, section 8.
 */
#ifndef RUNLOOP_SOURCE_H
#define RUNLOOP_SOURCE_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * What a version 0 source does; copied by RLSourceCreate. Every function may be NULL.
 *
 * retain and release: called once each, when the source is made and when it dies, on the thread
 *     that does so; what retain returns becomes info. Without retain, info is taken as it is.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * equal, hash: see "Equal sources"; at any Add, Remove or Contains, any number of times. Equal
 *     infos must have equal hashes. NULL compares, and hashes, the info pointers.
 * schedule: once for each mode the source joins, after it is a member, with the real name of the
 *     mode, on the thread that calls RLAddSource or RLAddCommonMode.
 * cancel: once for each mode it leaves, after it is a member no more, on the thread that calls
 *     RLRemoveSource or RLSourceInvalidate, or that ends with its loop.
 * perform: on the loop's thread, once per signal; the flag is cleared before it. NULL only counts
 *     as handled. CF: CFRunLoopSourceContext. Since 0.1.
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
 * getPort: called by RLAddSource and RLRemoveSource; always gives the same descriptor, which stays
 *     the program's: close it after the source was removed or invalidated. -1, a closed descriptor
 *     and one that cannot be waited for (a regular file) never perform but count as a member. Of
 *     two sources with the same descriptor in one mode the one that was added last performs.
 * perform: on the loop's thread, once per event. The 8-byte counter of an eventfd or timerfd has
 *     been read by then; from any other descriptor nothing was read, and perform is called in
 *     later passes for as long as it can be read.
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
 * Gives the type id of sources, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLSourceGetTypeID(void);

/**
 * Makes a source that is valid, not signalled and in no mode.
 *
 * order: version 0 sources of one pass perform by ascending order; fixed for good.
 * context: an RLSourceContext, or an RLSourceContext1 cast to it, as its version says; copied.
 * Returns: the source; NULL if context is NULL or its version is neither 0 nor 1.
 * Threads: any. Ownership: the caller's to release; retain is called once, here, and release when
 * the source dies.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFRunLoopSourceCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLSourceCreate(RLIndex order, RLSourceContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Gives the order that a source was made with.
 *
 * Returns: the order, also of an invalid source; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceGetOrder. Since 0.1.
 */
RL_EXPORT RLIndex RLSourceGetOrder(RLSourceRef RL_NULLABLE s);

/**
 * Ends a source for good: clears its signal and removes it from every mode of every loop.
 *
 * s: any source; NULL and a source that is invalid already do nothing.
 * Threads: any. A perform that runs on another thread is not waited for.
 * Ownership: loops drop their references. The context is released when the source dies, so info
 * stays good until then.
 * Reentrancy: call-outs too, its own perform included; calls cancel once for each mode of each
 * loop that a version 0 source was in, on this thread.
 * CF: CFRunLoopSourceInvalidate, which may hold its locks in cancel. Since 0.1.
 */
RL_EXPORT void RLSourceInvalidate(RLSourceRef RL_NULLABLE s);

/**
 * Tells whether a source can still perform.
 *
 * Returns: true until RLSourceInvalidate; false after it, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceIsValid. Since 0.1.
 */
RL_EXPORT bool RLSourceIsValid(RLSourceRef RL_NULLABLE s);

/**
 * Copies a source's context into the caller's struct.
 *
 * s: any source, also an invalid one; NULL does nothing.
 * context: its version must be set before the call: 1 says that it points to an RLSourceContext1,
 *     anything else to an RLSourceContext, which holds either. It receives the source's version;
 *     if the context does not fit, only that is written. NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceGetContext. Since 0.1.
 */
RL_EXPORT void RLSourceGetContext(RLSourceRef RL_NULLABLE s, RLSourceContext *RL_NULLABLE context);

/**
 * Marks a version 0 source, so that the next pass of a mode it is in performs it.
 *
 * s: any source; NULL and invalid sources do nothing. A signal given before the source is added, or
 *     inside its own perform, is kept. Signals before the perform count once.
 * It wakes no loop: call RLWakeUp after it. The pair is never lost, whatever the loop is doing.
 * A version 1 source only gets its flag set; its port alone makes it perform.
 * Threads: any, and async-signal-safe. Ownership: the caller must hold a reference to s, or be sure
 * that a loop does.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceSignal, which is not async-signal-safe. Since 0.1.
 */
RL_EXPORT void RLSourceSignal(RLSourceRef RL_NULLABLE s);

/**
 * Tells whether a source is marked and has not performed since.
 *
 * Returns: the flag, which is cleared just before perform; false for NULL and invalid sources.
 * Threads: any; from another thread the answer may be old by the time it is read.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRunLoopSourceIsSignalled, exported there but in no header. Since 0.1.
 */
RL_EXPORT bool RLSourceIsSignalled(RLSourceRef RL_NULLABLE s);

/**
 * Tells whether a mode holds a source, or one equal to it.
 *
 * rl, s, mode: NULL, or a mode that does not exist, gives false; no mode is made by asking.
 * Returns: true for a member; with kRLCommonModes, true exactly for common items.
 * Threads: any. Reentrancy: call-outs too; may call equal and hash of sources.
 * CF: CFRunLoopContainsSource. Since 0.1.
 */
RL_EXPORT bool RLContainsSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

/**
 * Puts a source into a mode of a loop, or under kRLCommonModes into all common modes.
 *
 * rl, s, mode: NULL, an invalid source and one that is in the mode already (or an equal one): the
 *     call does nothing. The mode is made if it does not exist.
 * Errors: without free descriptors a port source is added too, with one log line, and served as
 *     soon as there is one.
 * Threads: any; on another thread than the loop's, adding a version 0 source wakes the loop, and a
 * port that is ready is served without RLWakeUp.
 * Ownership: the loop retains s until it is removed or invalidated, or the loop's thread ends.
 * Reentrancy: call-outs too; calls schedule or getPort, and may call equal and hash.
 * CF: CFRunLoopAddSource, which wakes nobody. Since 0.1.
 */
RL_EXPORT void RLAddSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

/**
 * Takes a source, or the member equal to it, out of a mode; it stays valid and keeps its signal.
 *
 * rl, s, mode: NULL, or a source that is not in the mode: nothing happens. kRLCommonModes takes a
 *     common item out of every common mode, and does nothing to other sources.
 * Threads: any; it does not wake the loop. A source that the running pass has already picked to
 * perform still does so; RLSourceInvalidate prevents that.
 * Ownership: the loop drops its reference with the last mode, which may free s and so call release.
 * Reentrancy: call-outs too; calls cancel (or getPort), and may call equal, hash and release.
 * CF: CFRunLoopRemoveSource. Since 0.1.
 */
RL_EXPORT void RLRemoveSource(RLRunLoopRef RL_NULLABLE rl, RLSourceRef RL_NULLABLE s, RLMode RL_NULLABLE mode);

RL_HEADER_END

#endif
