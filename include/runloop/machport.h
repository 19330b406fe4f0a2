/*
 * RLMachPortRef: a queue of messages between the threads of a process, with a Mach port's contract.
 *
 * Any thread that has the port sends to it with RLMachPortSend; the loops that have its source
 * receive, one message per pass, in the order of sending. A message is a number, bytes and, if the
 * sender wants an answer, a port of his: the queue keeps that alive, and the receiver may send to it
 * and keep it (RLRetain).
 * The queue holds 5 messages unless RLMachPortSetQueueLimit says otherwise. A sender that finds it
 * full waits until there is room, its time is over, or the port dies. So a loop that sends to itself
 * without a limit of time may wait for ever.
 * A port dies by RLMachPortInvalidate or with its last reference. What was queued is dropped then,
 * and waiting senders return. A queued message holds a reference to its reply port, and a source one
 * to its port: two ports that lie in each other's queues live until one is invalidated.
 * Sending to a loop that is awake costs no system call. A descriptor exists once somebody asked for
 * it with RLMachPortGetPort; it can be read while messages are queued.
 * The child of fork has its parent's ports with what was queued, as copies of its own.
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
 * The info of a port and the functions that care for it; copied. Functions may be NULL.
 *
 * retain and release: once when the port is made and when it dies; with retain also around each
 *     message callback: retain(info), the callback with what that returned, release of it.
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
    /** The first of length bytes, aligned for any type; not to be read if length is 0. */
    const void *RL_NULLABLE bytes;
    size_t length;
    /** Where an answer goes, borrowed; NULL: nowhere. It may be invalid by now. */
    RLMachPortRef RL_NULLABLE replyPort;
} RLMachMessage;

/** Gets one message, on the loop's thread; info is the context's. CF: CFMachPortCallBack. */
typedef void (*RLMachPortCallBack)(RLMachPortRef RL_NONNULL port, const RLMachMessage *RL_NONNULL msg,
                                   void *RL_NULLABLE info);

/**
 * Tells that a port died, on the thread that invalidated or last released it; info is the context's,
 * not released yet. CF: CFMachPortInvalidationCallBack. Since 0.1.
 */
typedef void (*RLMachPortInvalidationCallBack)(RLMachPortRef RL_NONNULL port, void *RL_NULLABLE info);

/**
 * Gives the type id of Mach-like ports, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLMachPortGetTypeID(void);

/**
 * Makes a port that receives and can be sent to.
 *
 * callout: gets the messages; NULL: they are taken and dropped. context: NULL: info is NULL.
 * shouldFreeInfo: set to false, because the port took the context; may be NULL.
 * Returns: the port; never NULL.
 * Threads: any. Ownership: the caller's to release; the last release lets the port die.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFMachPortCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLMachPortRef RL_NONNULL RLMachPortCreate(RLMachPortCallBack RL_NULLABLE callout,
                                                    RLMachPortContext *RL_NULLABLE context,
                                                    bool *RL_NULLABLE shouldFreeInfo) RL_WARN_UNUSED_RESULT;

/**
 * Finds the port whose descriptor RLMachPortGetPort gave in this process.
 *
 * port: the descriptor. callout, context: ignored, since such a port has its own.
 * shouldFreeInfo: set to true, because nobody took the context; may be NULL.
 * Returns: the port; NULL for any other number, and if the port is invalid.
 * Threads: any. Ownership: the caller's to release.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortCreateWithPort, which makes an object for any Mach port. Since 0.1.
 */
RL_EXPORT RLMachPortRef RL_NULLABLE RLMachPortCreateWithPort(RLPort port, RLMachPortCallBack RL_NULLABLE callout,
                                                             RLMachPortContext *RL_NULLABLE context,
                                                             bool *RL_NULLABLE shouldFreeInfo) RL_WARN_UNUSED_RESULT;

/**
 * Gives a descriptor that can be read as long as messages are queued, for a loop of another kind.
 *
 * It is made by the first call and stays the same and open until the port object is freed, also
 * when the port is invalid. To receive, run a loop that has the port's source; do not read from
 * the descriptor. Until the first call a port has none, and sending is cheaper.
 * Returns: the descriptor; -1 for NULL and if there is none to be had.
 * Threads: any. Ownership: the library closes it.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortGetPort. Since 0.1.
 */
RL_EXPORT RLPort RLMachPortGetPort(RLMachPortRef RL_NULLABLE port);

/**
 * Copies a port's context into the caller's struct.
 *
 * port, context: NULL does nothing. info is NULL once the port is invalid; the functions stay.
 * Threads: any. Ownership: info is borrowed.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortGetContext. Since 0.1.
 */
RL_EXPORT void RLMachPortGetContext(RLMachPortRef RL_NULLABLE port, RLMachPortContext *RL_NULLABLE context);

/**
 * Lets a port die, in this order: invalid, waiting senders return, the invalidation callback is
 * called, the source is invalidated, queued messages are dropped, the context is released.
 *
 * port: NULL and an invalid port do nothing.
 * Threads: any. A message callback that runs on another thread is not waited for; if it uses the
 * info without a retain of its own, the context is released after it, on its thread.
 * Reentrancy: call-outs too, the message callback included; calls the invalidation callback and
 * release, and may free reply ports that were queued.
 * CF: CFMachPortInvalidate. Since 0.1.
 */
RL_EXPORT void RLMachPortInvalidate(RLMachPortRef RL_NULLABLE port);

/**
 * Tells whether a port can still be sent to.
 *
 * Returns: true until it dies; false for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortIsValid. Since 0.1.
 */
RL_EXPORT bool RLMachPortIsValid(RLMachPortRef RL_NULLABLE port);

/**
 * Gives the function that is told when the port dies.
 *
 * Returns: what was set, also when it was called already; NULL if nothing was, and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortGetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT RLMachPortInvalidationCallBack RL_NULLABLE
RLMachPortGetInvalidationCallBack(RLMachPortRef RL_NULLABLE port);

/**
 * Sets the function that is told when the port dies, in place of the one before; NULL for none.
 *
 * On an invalid port that has none, a function is called before the call returns, with info NULL;
 * any other change of an invalid port is ignored, with a log line.
 * Threads: any. Reentrancy: call-outs too; may call callout.
 * CF: CFMachPortSetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT void RLMachPortSetInvalidationCallBack(RLMachPortRef RL_NULLABLE port,
                                                 RLMachPortInvalidationCallBack RL_NULLABLE callout);

/**
 * Gives the source by which loops receive the port's messages.
 *
 * order: what RLSourceGetOrder tells of it; ports are served in the order of becoming ready.
 * Returns: the same source while it lives and is valid, then a new one; NULL for NULL and an
 * invalid port.
 * Threads: any. Ownership: the caller's to release; it holds the port, and loops hold it. The port
 * does not hold it: messages wait for the next one.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFMachPortCreateRunLoopSource without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLMachPortCreateRunLoopSource(RLMachPortRef RL_NULLABLE port, RLIndex order)
    RL_WARN_UNUSED_RESULT;

/**
 * Sets how many messages the queue holds before senders wait; 5 at first.
 *
 * port: NULL does nothing. limit: less than 1 counts as 1. What is queued already stays; waiting
 *     senders notice a change.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none; mach_port_set_attributes on macOS. Since 0.1.
 */
RL_EXPORT void RLMachPortSetQueueLimit(RLMachPortRef RL_NULLABLE port, RLIndex limit);

/**
 * Queues a message and sees to it that a loop that has the port's source receives it.
 *
 * bytes: length bytes, copied; NULL: none. replyPort: retained while queued; may be NULL.
 * timeout: seconds to wait while the queue is full, in whole milliseconds: below 0.001 only one
 *     try is made, 864000 (ten days) or more means for ever.
 * Returns: kRLMessagePortSuccess once it is queued; kRLMessagePortSendTimeout if the queue stayed
 * full; kRLMessagePortIsInvalid for NULL and a port that is invalid or dies meanwhile;
 * kRLMessagePortTransportError if there is no memory for it.
 * Threads: any. Ownership: nothing changes hands. A reference that another thread drops while this
 * one waits lets the port die, and this call return.
 * Reentrancy: call-outs too; may free replyPort if another thread drops it and sending fails.
 * CF: none; mach_msg on macOS. Since 0.1.
 */
RL_EXPORT int32_t RLMachPortSend(RLMachPortRef RL_NULLABLE port, int32_t msgid, const void *RL_NULLABLE bytes,
                                 size_t length, RLMachPortRef RL_NULLABLE replyPort, RLTimeInterval timeout);

RL_HEADER_END

#endif
