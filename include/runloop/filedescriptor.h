/* SPDX-License-Identifier: MIT */
/*
 * RLFileDescriptorRef: callbacks when a descriptor can be read or written.
 *
 * An object is made for an open descriptor; its source, from RLFileDescriptorCreateRunLoopSource,
 * is added to a loop. There is one callback type for reading and one for writing; both start
 * disabled.
 * Each RLFileDescriptorEnableCallBacks gives one report: a type is disabled before it is reported
 * and has to be enabled again, in the callback or later; if the condition still holds, it is
 * reported again. Readiness from before a type was enabled is reported too.
 * RLFileDescriptorEnablePersistentCallBacks enables types until they are disabled.
 * Readiness is that of select(2). End of file, hang-up and errors count as readable, so do not
 * enable reading again after them; errors also count as writable. Any descriptor can be used:
 * pipes, sockets, terminals, eventfds, timerfds, signalfds, inotify, pidfds and epoll sets; regular
 * files and /dev/null are always ready. The library never reads from a descriptor or writes to it.
 * Several objects may watch one descriptor; each has its own types and reports, one in a pass.
 * Invalidate an object before you close its descriptor. A descriptor that was closed before that,
 * or whose number means another file by then, is no longer reported; of another file the library
 * learns from the kernel, which does not watch regular files and the like, nor for a child of fork
 * before that runs its loop (S-SRC-51).
 * Lifetime: RLFileDescriptorCreate calls the context's retain. A source retains its object.
 * RLFileDescriptorInvalidate or the last release ends the object and calls the context's release.
 * Rules: Docs/semantics.md, section 16.
 */
#ifndef RUNLOOP_FILEDESCRIPTOR_H
#define RUNLOOP_FILEDESCRIPTOR_H

#include "source.h"

RL_HEADER_BEGIN

/** A descriptor object. CF: CFFileDescriptorRef. */
typedef struct RLFileDescriptor *RLFileDescriptorRef;

/** The number of a descriptor. CF: CFFileDescriptorNativeDescriptor. */
typedef int RLFileDescriptorNativeDescriptor;

/** What a descriptor object reports; one call may carry both. */
RL_OPTIONS(RLOptionFlags, RLFileDescriptorCallBackType) {
    kRLFileDescriptorReadCallBack = 1UL << 0, /**< a read would not block */
    kRLFileDescriptorWriteCallBack = 1UL << 1 /**< a write would not block */
};

/**
 * What an object calls, on the loop's thread, with no lock held.
 *
 * f: the object, which stays alive during the call. callBackTypes: the bits that are ready and were
 * enabled; they are disabled now, except persistent ones. info: that of its context.
 * It may enable types, invalidate f, change any loop and run the loop.
 * CF: CFFileDescriptorCallBack. Since 0.1.
 */
typedef void (*RLFileDescriptorCallBack)(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes,
                                         void *RL_NULLABLE info);

/**
 * The data of a descriptor object; copied by RLFileDescriptorCreate. Every function may be NULL.
 *
 * version: 0. info: passed to the callback; if there is a retain, its result takes info's place.
 * retain: once, when the object is made; it is not called around callbacks. release: once, in
 *     RLFileDescriptorInvalidate or at the last release of the object, on the thread that does so.
 *     If a callback is running on another thread, that thread calls release after the callback.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * CF: CFFileDescriptorContext, whose pointers are not const either. Since 0.1.
 */
typedef struct RLFileDescriptorContext {
    RLIndex version;
    void *RL_NULLABLE info;
    void *RL_NULLABLE (*RL_NULLABLE retain)(void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(void *RL_NULLABLE info);
} RLFileDescriptorContext;

/**
 * Returns the type id of descriptor objects, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLFileDescriptorGetTypeID(void);

/**
 * Makes a valid object with both callback types disabled.
 *
 * fd: an open descriptor; negative: NULL is returned. Whether it is open is not checked.
 * closeOnInvalidate: the object closes fd when it is invalidated or freed.
 * callout: NULL: NULL is returned. context: copied; NULL: info is NULL.
 * Returns: the object, or NULL; then nothing is retained and fd stays open. No descriptor is
 * opened.
 * Threads: any. Ownership: the caller's to release; when release runs: RLFileDescriptorContext.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFFileDescriptorCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLFileDescriptorRef RL_NULLABLE RLFileDescriptorCreate(RLFileDescriptorNativeDescriptor fd,
                                                                 bool closeOnInvalidate,
                                                                 RLFileDescriptorCallBack RL_NULLABLE callout,
                                                                 const RLFileDescriptorContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Returns the descriptor that an object was made for.
 *
 * Returns: the number; -1 for an invalid object and for NULL.
 * Threads: any. Ownership: borrowed; the object may close it.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorGetNativeDescriptor. Since 0.1.
 */
RL_EXPORT RLFileDescriptorNativeDescriptor RLFileDescriptorGetNativeDescriptor(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Copies an object's context into the caller's struct.
 *
 * f: any object; for an invalid one, info is NULL and the functions are unchanged. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorGetContext. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorGetContext(RLFileDescriptorRef RL_NULLABLE f,
                                          RLFileDescriptorContext *RL_NULLABLE context);

/**
 * Enables callback types, each for one report; existing readiness is reported in the next pass.
 *
 * f: NULL and an invalid object do nothing. The source need not be in a loop yet.
 * callBackTypes: bits of RLFileDescriptorCallBackType; others are ignored. Enabling a type that is
 *     enabled already has no effect.
 * Threads: any; a waiting loop takes it into account without RLWakeUp.
 * Reentrancy: call-outs too, its own callback included; calls no call-out.
 * CF: CFFileDescriptorEnableCallBacks. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorEnableCallBacks(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes);

/**
 * Enables callback types until they are disabled: each pass in which the descriptor is ready
 * reports it.
 *
 * f, callBackTypes: as for RLFileDescriptorEnableCallBacks, which leaves such a type as it is.
 * The types stay enabled during the callback: a nested run too reports what is still ready. If
 *     several loops have the source each of them may report, even at the same time.
 * Threads: any; a waiting loop takes it into account without RLWakeUp.
 * Reentrancy: call-outs too, its own callback included; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLFileDescriptorEnablePersistentCallBacks(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes);

/**
 * Disables callback types at once; readiness that was detected and not yet reported is not
 * reported.
 *
 * f: NULL and an invalid object do nothing. callBackTypes: bits, as for enabling.
 * Threads: any. The call does not wait for a callback that runs on another thread.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorDisableCallBacks. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorDisableCallBacks(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes);

/**
 * Invalidates an object for good: no new callback begins, and the descriptor is no longer watched.
 *
 * f: NULL and an object that is invalid already do nothing. The steps are, in this order: the
 *     object becomes invalid and leaves every kernel event set; the descriptor is closed if the
 *     object was made with closeOnInvalidate; the source is invalidated; the context is released.
 * Threads: any. The call does not wait for a callback that runs on another thread.
 * Ownership: the caller keeps its reference to f.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFFileDescriptorInvalidate. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorInvalidate(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Tells whether an object can still report.
 *
 * Returns: true until RLFileDescriptorInvalidate; then false, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorIsValid. Since 0.1.
 */
RL_EXPORT bool RLFileDescriptorIsValid(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Returns the object's source, to be added to any number of modes and loops with RLAddSource.
 *
 * order: the order of the source, used at the first call; later calls return the same source, as
 *     long as that is alive and valid. A report counts as a handled source.
 * Returns: the source; NULL for an invalid object and for NULL.
 * Threads: any. Ownership: the caller's to release; the source retains f, f does not retain the
 * source.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFFileDescriptorCreateRunLoopSource without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLFileDescriptorCreateRunLoopSource(RLFileDescriptorRef RL_NULLABLE f, RLIndex order)
    RL_WARN_UNUSED_RESULT;

RL_HEADER_END

#endif
