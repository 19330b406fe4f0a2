/*
 * RLFileDescriptorRef: callbacks when a descriptor can be read or written.
 *
 * An object is made for an open descriptor; its source, from RLFileDescriptorCreateRunLoopSource,
 * goes into a loop. Reading and writing have a callback type each, and both start switched off.
 * One report for one RLFileDescriptorEnableCallBacks: a type switches itself off before it is
 * reported and has to be enabled again, in the callback or later; if the condition still holds it
 * is reported again. What was ready before it was enabled is reported too.
 * Readiness is that of select(2): end of file, hang-up and errors count as readable, so reading is
 * not enabled again after them, and errors as writable. Any descriptor will do: pipes, sockets, terminals, eventfds, timerfds, signalfds,
 * inotify, pidfds and epoll sets; regular files and /dev/null are always ready. The library never
 * reads from a descriptor and never writes to it.
 * Several objects may watch one descriptor; each has its own types and reports, one in a pass.
 * Invalidate an object before its descriptor is closed. One that was closed all the same, or whose
 * number names another file by then, is not reported any more.
 * Lifetime: RLFileDescriptorCreate calls the context's retain; a source holds its object; the
 * object is ended, and the context's release called, by RLFileDescriptorInvalidate or by the last
 * release.
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
 * f: the object, alive during the call. callBackTypes: the bits that are ready and were enabled;
 * they are off now. info: that of its context.
 * It may enable types, invalidate f, change any loop and run the loop.
 * CF: CFFileDescriptorCallBack. Since 0.1.
 */
typedef void (*RLFileDescriptorCallBack)(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes,
                                         void *RL_NULLABLE info);

/**
 * The data of a descriptor object; copied by RLFileDescriptorCreate. Every function may be NULL.
 *
 * version: 0. info: handed to the callback, after retain, if there is one, has exchanged it.
 * retain: once, when the object is made; no call brackets a callback. release: once, in
 *     RLFileDescriptorInvalidate or at the last release of the object, on the thread that does so.
 *     If a callback runs on another thread then, it is released there, after that.
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
 * Gives the type id of descriptor objects, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLFileDescriptorGetTypeID(void);

/**
 * Makes a valid object with both callback types off.
 *
 * fd: an open descriptor; negative: NULL is returned. Whether it is open is not checked.
 * closeOnInvalidate: the object closes fd when it is invalidated or freed.
 * callout: NULL: NULL is returned. context: copied; NULL: info is NULL.
 * Returns: the object, or NULL; then nothing is retained and fd stays open. It needs no descriptor.
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
 * Gives the descriptor that an object was made for.
 *
 * Returns: the number; -1 for an invalid object and for NULL.
 * Threads: any. Ownership: borrowed; the object may close it.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorGetNativeDescriptor. Since 0.1.
 */
RL_EXPORT RLFileDescriptorNativeDescriptor RLFileDescriptorGetNativeDescriptor(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Copies an object's context into the caller's struct.
 *
 * f: any object; of an invalid one info is NULL and the functions are as before. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed; nothing is retained for the caller.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorGetContext. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorGetContext(RLFileDescriptorRef RL_NULLABLE f,
                                          RLFileDescriptorContext *RL_NULLABLE context);

/**
 * Enables callback types, each for one report; what is ready already is reported in the next pass.
 *
 * f: NULL and an invalid object do nothing. It is remembered if the source is in no loop yet.
 * callBackTypes: bits of RLFileDescriptorCallBackType; others are ignored. Those that are enabled
 *     already stay so.
 * Threads: any; a loop that waits sees it without RLWakeUp.
 * Reentrancy: call-outs too, its own callback included; calls nothing out.
 * CF: CFFileDescriptorEnableCallBacks. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorEnableCallBacks(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes);

/**
 * Switches callback types off at once, also for a readiness that was seen but not yet reported.
 *
 * f: NULL and an invalid object do nothing. callBackTypes: bits, as for enabling.
 * Threads: any. A callback that runs on another thread is not waited for.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorDisableCallBacks. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorDisableCallBacks(RLFileDescriptorRef RL_NULLABLE f, RLOptionFlags callBackTypes);

/**
 * Ends an object for good: no new callback begins, and the descriptor is watched no more.
 *
 * f: NULL and an object that is invalid already do nothing. In this order: invalid, out of every
 *     kernel event set, descriptor closed if it was made so, source invalidated, context released.
 * Threads: any. A callback that runs on another thread is not waited for.
 * Ownership: the caller keeps its reference to f.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFFileDescriptorInvalidate. Since 0.1.
 */
RL_EXPORT void RLFileDescriptorInvalidate(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Tells whether an object can still report.
 *
 * Returns: true until RLFileDescriptorInvalidate; then false, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorIsValid. Since 0.1.
 */
RL_EXPORT bool RLFileDescriptorIsValid(RLFileDescriptorRef RL_NULLABLE f);

/**
 * Gives the object's source, to be added to any number of modes and loops with RLAddSource.
 *
 * order: that of the source at the first call; later ones get the same source, as long as that is
 *     alive and valid. A report counts as a handled source.
 * Returns: the source; NULL for an invalid object and for NULL.
 * Threads: any. Ownership: the caller's to release; the source holds f, f does not hold the source.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFFileDescriptorCreateRunLoopSource without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLFileDescriptorCreateRunLoopSource(RLFileDescriptorRef RL_NULLABLE f, RLIndex order)
    RL_WARN_UNUSED_RESULT;

RL_HEADER_END

#endif
