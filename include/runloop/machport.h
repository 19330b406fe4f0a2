/* SPDX-License-Identifier: MIT */
/*
 * RLMachPortRef: a message queue between the threads of a process, which behaves like a Mach port.
 *
 * Any thread that has the port sends to it with RLMachPortSend; the loops that have its source
 * receive, one message per pass, in the order of sending. A message is a number, bytes and, if the
 * sender wants an answer, a reply port: the queue keeps that port alive, and the receiver may send
 * to it and keep it (RLRetain).
 * The queue holds 5 messages unless RLMachPortSetQueueLimit sets another limit. A sender waits
 * while the queue is full, until there is room, its timeout passes, or the port becomes invalid. So
 * a loop that sends to its own port without a timeout may wait for ever.
 * RLMachPortInvalidate or the last release invalidates a port. Queued messages are dropped then,
 * and waiting senders return. A source holds a reference to its port, and a queued message one to
 * its reply port, unless such messages are queued at that port too: so ports that are reply ports
 * in each other's queues do not keep each other alive.
 * Sending to a loop that is awake costs no system call. A port has a descriptor only after a call
 * of RLMachPortGetPort; it is readable while messages are queued.
 * The child of fork has its own copies of its parent's ports and of what was queued.
 * Rules: Docs/semantics.md, section 17.
 */
#ifndef RUNLOOP_MACHPORT_H
#define RUNLOOP_MACHPORT_H

#include "base.h"
#include "portcodes.h"

RL_HEADER_BEGIN

/** A queue of messages and the function that gets them. CF: CFMachPortRef. */
typedef struct RLMachPort *RLMachPortRef;

/**
 * The info of a port and the functions that manage it; copied. Functions may be NULL.
 *
 * retain and release: called once each, when the port is made and when it becomes invalid. If there
 *     is a retain, both are also called around each message callback, which then gets retain's
 *     result.
 * copyDescription: on RLCopyDescription only; a malloc'ed string, which the library frees.
 * CF: CFMachPortContext. Since 0.1.
 */
typedef struct RLMachPortContext {
    /** 0. */
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLMachPortContext;

/** A message as its receiver sees it, during the callback only. CF: the mach_msg_header_t. */
typedef struct RLMachMessage {
    /** The number that the sender gave. */
    int32_t msgid;
    /** The first of length bytes, aligned for any type; must not be read if length is 0. */
    const void *RL_NULLABLE bytes;
    size_t length;
    /**
     * The port for an answer, borrowed; NULL: none, or a port that died while it had messages with
     * reply ports in its own queue. It may be invalid by now.
     */
    RLMachPortRef RL_NULLABLE replyPort;
} RLMachMessage;

/** Gets one message, on the loop's thread; info is the context's. CF: CFMachPortCallBack. */
typedef void (*RLMachPortCallBack)(RLMachPortRef RL_NONNULL port, const RLMachMessage *RL_NONNULL msg,
                                   void *RL_NULLABLE info);

/**
 * Called when a port becomes invalid, on the thread that invalidated or last released it. info is
 * the context's, which is not released yet. CF: CFMachPortInvalidationCallBack. Since 0.1.
 */
typedef void (*RLMachPortInvalidationCallBack)(RLMachPortRef RL_NONNULL port, void *RL_NULLABLE info);

/**
 * Returns the type id of Mach-like ports, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLMachPortGetTypeID(void);

/**
 * Makes a port that receives the messages that are sent to it.
 *
 * callout: gets the messages; NULL: they are received and dropped. context: NULL: info is NULL.
 * shouldFreeInfo: set to false, because the port keeps the context; may be NULL.
 * Returns: the port; never NULL.
 * Threads: any. Ownership: the caller's to release; the last release invalidates the port.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFMachPortCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLMachPortRef RL_NONNULL RLMachPortCreate(RLMachPortCallBack RL_NULLABLE callout,
                                                    RLMachPortContext *RL_NULLABLE context,
                                                    bool *RL_NULLABLE shouldFreeInfo) RL_WARN_UNUSED_RESULT;

/**
 * Finds the port of this process with a given descriptor from RLMachPortGetPort.
 *
 * port: the descriptor. callout, context: ignored, since such a port has its own.
 * shouldFreeInfo: set to true, because the context is not kept; may be NULL.
 * Returns: the port; NULL for any other number, and if the port is invalid.
 * Threads: any. Ownership: the caller's to release.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortCreateWithPort, which makes an object for any Mach port. Since 0.1.
 */
RL_EXPORT RLMachPortRef RL_NULLABLE RLMachPortCreateWithPort(RLPort port, RLMachPortCallBack RL_NULLABLE callout,
                                                             RLMachPortContext *RL_NULLABLE context,
                                                             bool *RL_NULLABLE shouldFreeInfo) RL_WARN_UNUSED_RESULT;

/**
 * Returns a descriptor that is readable as long as messages are queued, for a loop of another kind.
 *
 * The first call makes it; it stays open, with the same number, until the port object is freed,
 * even after the port has become invalid. To receive, run a loop that has the port's source; do not
 * read from the descriptor. Until the first call a port has none, and sending is cheaper.
 * Returns: the descriptor; -1 for NULL and if no descriptor is free.
 * Threads: any. Ownership: the library closes it.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortGetPort. Since 0.1.
 */
RL_EXPORT RLPort RLMachPortGetPort(RLMachPortRef RL_NULLABLE port);

/**
 * Copies a port's context into the caller's struct.
 *
 * port, context: NULL does nothing. info is NULL once the port is invalid; the functions stay.
 * Threads: any. Ownership: info is borrowed.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortGetContext. Since 0.1.
 */
RL_EXPORT void RLMachPortGetContext(RLMachPortRef RL_NULLABLE port, RLMachPortContext *RL_NULLABLE context);

/**
 * Invalidates a port, in these steps: it becomes invalid, waiting senders return, the invalidation
 * callback is called, the source is invalidated, queued messages are dropped, the context is
 * released.
 *
 * port: NULL and an invalid port do nothing.
 * Threads: any. The call does not wait for a message callback that runs on another thread. If the
 * context has no retain, that thread releases it after the callback.
 * Reentrancy: call-outs too, the message callback included; calls the invalidation callback and
 * release, and may free reply ports that were queued.
 * CF: CFMachPortInvalidate. Since 0.1.
 */
RL_EXPORT void RLMachPortInvalidate(RLMachPortRef RL_NULLABLE port);

/**
 * Tells whether a port is valid, so that messages can be sent to it.
 *
 * Returns: true until it becomes invalid; false for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortIsValid. Since 0.1.
 */
RL_EXPORT bool RLMachPortIsValid(RLMachPortRef RL_NULLABLE port);

/**
 * Returns the function that is called when the port becomes invalid.
 *
 * Returns: the function, even if it was called already; NULL if none was set, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortGetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT RLMachPortInvalidationCallBack RL_NULLABLE
RLMachPortGetInvalidationCallBack(RLMachPortRef RL_NULLABLE port);

/**
 * Sets the function that is called when the port becomes invalid; NULL for none.
 *
 * If the port is invalid and has no function, callout is called before the call returns, with info
 * NULL; any other change of an invalid port is ignored, with a log line.
 * Threads: any. Reentrancy: call-outs too; may call callout.
 * CF: CFMachPortSetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT void RLMachPortSetInvalidationCallBack(RLMachPortRef RL_NULLABLE port,
                                                 RLMachPortInvalidationCallBack RL_NULLABLE callout);

/**
 * Returns the source by which loops receive the port's messages.
 *
 * order: only for RLSourceGetOrder; ports are served in the order in which they became ready.
 * Returns: the same source while that is alive and valid, then a new one; NULL for NULL and an
 * invalid port.
 * Threads: any. Ownership: the caller's to release. The source retains the port, and loops retain
 * the source; the port does not. Without a source, messages wait until there is one again.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFMachPortCreateRunLoopSource without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLMachPortCreateRunLoopSource(RLMachPortRef RL_NULLABLE port, RLIndex order)
    RL_WARN_UNUSED_RESULT;

/**
 * Sets how many messages the queue holds before senders wait; initially 5.
 *
 * port: NULL does nothing. limit: less than 1 counts as 1. Messages that are queued already stay;
 *     the new limit applies to waiting senders at once.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none; mach_port_set_attributes on macOS. Since 0.1.
 */
RL_EXPORT void RLMachPortSetQueueLimit(RLMachPortRef RL_NULLABLE port, RLIndex limit);

/**
 * Queues a message; a loop that has the port's source receives it without RLWakeUp.
 *
 * bytes: length bytes, copied; NULL: none. replyPort: kept alive while the
 *     message is queued, if it has no messages with reply ports in its own queue; may be NULL.
 * timeout: seconds to wait while the queue is full, in whole milliseconds: below 0.001 only one
 *     try is made, 864000 (ten days) or more means for ever.
 * Returns: kRLMessagePortSuccess once it is queued; kRLMessagePortSendTimeout if the queue stayed
 * full; kRLMessagePortIsInvalid for NULL and a port that is or becomes invalid;
 * kRLMessagePortTransportError if there is not enough memory.
 * Threads: any. Ownership: the caller keeps its references. If another thread drops the last one
 * while this call waits, the port becomes invalid, and the call returns.
 * Reentrancy: call-outs too; may free replyPort if another thread drops it and sending fails.
 * CF: none; mach_msg on macOS. Since 0.1.
 */
RL_EXPORT int32_t RLMachPortSend(RLMachPortRef RL_NULLABLE port, int32_t msgid, const void *RL_NULLABLE bytes,
                                 size_t length, RLMachPortRef RL_NULLABLE replyPort, RLTimeInterval timeout);

RL_HEADER_END

#endif
