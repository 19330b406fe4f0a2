/* SPDX-License-Identifier: MIT */
/*
 * RLMessagePortRef: a named port that receives requests from threads and processes and replies to
 * them.
 *
 * A local port receives, with a callback; a remote port sends to the local port of a name. Both may
 * be in one process, even on one thread. Names belong to a user: processes of other users neither
 * see nor reach them. The kernel tells the library the user of each peer; a refused peer is logged.
 * Add the source of the local port to a mode of a loop; each pass of that mode serves one message.
 * RLMessagePortSendRequest without a reply mode returns when the message is queued; with one it
 * runs the calling thread's loop in that mode until the reply arrives.
 *
 * A message has a number, 0 to 0x60000000 bytes and, unlike CoreFoundation's, up to 128
 * descriptors.
 * A reply has only bytes.
 * Up to 32 KiB are copied through a socket. Longer messages are copied through 4 MiB of memory,
 * which each end of a connection makes for its first long message and keeps (a local port for 64
 * connections), or are passed in sealed memory that the receiver maps.
 * About 200 messages of a sender, or about 200 KiB, are queued; then the sender waits, at most for
 * sendTimeout.
 * Messages that arrive in parts may use 256 MiB and 256 descriptors per port, and connections with
 * the replies that wait on them half of the descriptors that the process may have; then one whose
 * client has taken no reply for 2 s is closed. Beyond that a message or a connection fails, and
 * the port goes on.
 *
 * RLMessagePortInvalidate or the last release invalidates a port. A remote port also becomes
 * invalid when the local port does, when it gives up the name, and when its process ends (if a
 * foreign server has sent its end of the connection through a connection: at the next request that
 * waits for a reply). A name is
 * free again as soon as its owner has ended, even if it was killed. In the child of fork, the
 * parent's ports are invalid, without a callback; the parent's own go on. What a context has is
 * released there by RLMessagePortInvalidate, or with the last reference. The memory of a message that
 * another thread was sending at the fork stays in use until the child ends or executes a program.
 * Rules: Docs/semantics.md, section 18; what travels: Docs/wire-format.md.
 */
#ifndef RUNLOOP_MESSAGEPORT_H
#define RUNLOOP_MESSAGEPORT_H

#include "base.h"
#include "data.h"
#include "portcodes.h"

RL_HEADER_BEGIN

/** A local or a remote message port. CF: CFMessagePortRef. */
typedef struct RLMessagePort *RLMessagePortRef;

/**
 * The info of a local port and the functions that manage it; copied. Functions may be NULL.
 *
 * retain and release: called once each, when the port is made and when it is invalidated; the
 *     release comes after the last function that gets info has returned, on that function's thread;
 *     a copyDescription that itself invalidates the port has it released inside that call.
 *     If there is a retain, both are also called around each message callback, which then gets
 *     retain's result.
 * copyDescription: on RLCopyDescription only; a malloc'ed string, which the library frees.
 * CF: CFMessagePortContext. Since 0.1.
 */
typedef struct RLMessagePortContext {
    /** 0. */
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLMessagePortContext;

/**
 * Serves one message, on the thread of the loop or queue. data is valid during the call, and empty
 * if none was sent. The result is the reply, a reference that the library releases; NULL replies
 * with empty data.
 * CF: CFMessagePortCallBack. Since 0.1.
 */
typedef RLDataRef RL_NULLABLE (*RLMessagePortCallBack)(RLMessagePortRef RL_NONNULL local, int32_t msgid,
                                                       RLDataRef RL_NONNULL data, void *RL_NULLABLE info);

/**
 * Called when a port becomes invalid; info is the context's, NULL for a remote port. It runs on the
 * thread that invalidated the port or noticed the end of its peer: a thread that uses the port, or
 * the library's own thread, which has no loop. CF: CFMessagePortInvalidationCallBack. Since 0.1.
 */
typedef void (*RLMessagePortInvalidationCallBack)(RLMessagePortRef RL_NONNULL ms, void *RL_NULLABLE info);

/**
 * Gets the outcome of a request that RLMessagePortBeginRequest began, once, on the thread of its loop.
 *
 * result: kRLMessagePortSuccess; kRLMessagePortTransportError: the receiver could not reply;
 *     kRLMessagePortBecameInvalidError: the port became invalid; kRLMessagePortReceiveTimeout: the
 *     loop's thread ends. data: with success the reply's, valid during the callback; otherwise NULL.
 *     info: as it was given. It may do anything with the port and the loop. CF: none. Since 0.1.
 */
typedef void (*RLMessagePortReplyCallBack)(RLMessagePortRef RL_NONNULL remote, int32_t result,
                                           RLDataRef RL_NULLABLE data, void *RL_NULLABLE info);

/**
 * Returns the type id of message ports, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLMessagePortGetTypeID(void);

/**
 * Makes a local port and registers its name for this user on this machine.
 *
 * name: any bytes; a longer name is cut to at most 128 bytes, at the start of a UTF-8 character.
 *     NULL: no name yet.
 * callout: serves the messages; NULL replies to each with empty data. context: copied; may be NULL.
 * shouldFreeInfo: set to false if a new port keeps the context, to true otherwise; may be NULL.
 * Returns: the port; if this process has a local port of that name, that one, with callout and
 * context ignored.
 * Errors: NULL if another process has the name, and, with a log line, if there is no descriptor, no
 * space or no safe directory for it ($XDG_RUNTIME_DIR, or /tmp/runloop-UID).
 * Threads: any. Ownership: the caller's to release; the last release invalidates the port.
 * Reentrancy: call-outs too; calls retain, and release for what was retained if no new port is made.
 * CF: CFMessagePortCreateLocal. Since 0.1.
 */
RL_EXPORT RLMessagePortRef RL_NULLABLE RLMessagePortCreateLocal(const char *RL_NULLABLE name,
                                                                RLMessagePortCallBack RL_NULLABLE callout,
                                                                RLMessagePortContext *RL_NULLABLE context,
                                                                bool *RL_NULLABLE shouldFreeInfo) RL_WARN_UNUSED_RESULT;

/**
 * Makes a port that sends to the local port of a name, in this process or another of this user.
 *
 * name: as RLMessagePortCreateLocal cuts it.
 * Returns: the port; the same one, with one more reference, while this process has a valid remote
 * port of that name. NULL if name is NULL, if no local port has the name, if no descriptor is free,
 * or if the port's process has left as many connections waiting as the system lets it
 * (net.core.somaxconn).
 * Threads: any. Ownership: the caller's to release; the last release invalidates the port.
 * Reentrancy: call-outs too; calls the invalidation callback of an older remote port of that name
 * whose peer has ended. CF: CFMessagePortCreateRemote. Since 0.1.
 */
RL_EXPORT RLMessagePortRef RL_NULLABLE RLMessagePortCreateRemote(const char *RL_NULLABLE name) RL_WARN_UNUSED_RESULT;

/**
 * Tells whether a port is a remote one.
 *
 * Returns: true for a remote port, even an invalid one; false for a local port and NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortIsRemote. Since 0.1.
 */
RL_EXPORT bool RLMessagePortIsRemote(RLMessagePortRef RL_NULLABLE ms);

/**
 * Returns a port's name.
 *
 * Returns: the name as it was cut; NULL for a local port without a name, and for NULL.
 * Threads: any. Ownership: borrowed; valid, and the same, while the port lives.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortGetName, a CFStringRef. Since 0.1.
 */
RL_EXPORT const char *RL_NULLABLE RLMessagePortGetName(RLMessagePortRef RL_NULLABLE ms);

/**
 * Gives a local port a name, or another name; the old name becomes free.
 *
 * newName: cut as by RLMessagePortCreateLocal.
 * Returns: true if the port has the name now; false for a remote or invalid port, NULL, a name that
 * a local port of this process has, including this one, or that is registered elsewhere.
 * With a new name, remote ports connected under the old one become invalid and what they had sent
 * is lost. Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortSetName. Since 0.1.
 */
RL_EXPORT bool RLMessagePortSetName(RLMessagePortRef RL_NULLABLE ms, const char *RL_NULLABLE newName);

/**
 * Copies a port's context into the caller's struct.
 *
 * context: receives what RLMessagePortCreateLocal took, info as retain returned it; all zero for a
 *     remote port, info NULL for an invalid one. NULL does nothing.
 * Threads: any. Ownership: info is borrowed. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortGetContext. Since 0.1.
 */
RL_EXPORT void RLMessagePortGetContext(RLMessagePortRef RL_NULLABLE ms, RLMessagePortContext *RL_NULLABLE context);

/**
 * Invalidates a port for good; NULL and an invalid port: nothing.
 *
 * The steps are, in this order: the port becomes invalid; its name becomes free and its connections
 * are closed, which tells the peers; the invalidation callback runs; the context is released; the
 * source is invalidated. Requests that wait for a reply on a remote port end with
 * kRLMessagePortBecameInvalidError.
 * Threads: any. The call does not wait for a message callback that is running, on another thread or
 * around this call; if the context has no retain, it is released after that callback. Reentrancy:
 * call-outs too, including the port's own; calls the invalidation callback and release.
 * CF: CFMessagePortInvalidate. Since 0.1.
 */
RL_EXPORT void RLMessagePortInvalidate(RLMessagePortRef RL_NULLABLE ms);

/**
 * Tells whether a port can be used; for a remote port it checks that the peer is there.
 *
 * Returns: false for NULL, for an invalid port, and for a remote port whose local port has ended,
 * which the call invalidates. Threads: any. Reentrancy: call-outs too; may call the invalidation
 * callback.
 * CF: CFMessagePortIsValid. Since 0.1.
 */
RL_EXPORT bool RLMessagePortIsValid(RLMessagePortRef RL_NULLABLE ms);

/**
 * Returns the function set with RLMessagePortSetInvalidationCallBack.
 *
 * Returns: the function; NULL without one and for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortGetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT RLMessagePortInvalidationCallBack RL_NULLABLE
RLMessagePortGetInvalidationCallBack(RLMessagePortRef RL_NULLABLE ms);

/**
 * Sets the function that is called when a port becomes invalid.
 *
 * callout: NULL removes it. On an invalid port it is called at once, with info NULL, and not kept.
 *     On a remote port it is also called, on a thread of the library, if the local port ends while
 *     no thread here uses the remote one, for one port after the other; if no such thread can be
 *     made, which is logged once, it is called when the port is used next. That thread has all
 *     signals blocked, and so has a process or thread that the function starts there, unless it
 *     changes the mask before (pthread_sigmask).
 * Threads: any. Reentrancy: call-outs too; may call callout.
 * CF: CFMessagePortSetInvalidationCallBack. Since 0.1.
 */
RL_EXPORT void RLMessagePortSetInvalidationCallBack(RLMessagePortRef RL_NULLABLE ms,
                                                    RLMessagePortInvalidationCallBack RL_NULLABLE callout);

/**
 * Sends a message and, with a reply mode, waits for its reply.
 *
 * remote: a remote port. msgid: any number. bytes, length: the data; NULL bytes send none.
 * sendTimeout: seconds to wait while the queue is full, in whole milliseconds; less than one: do
 *     not wait; ten days or more: for ever.
 * rcvTimeout: seconds to wait for the reply; 0 and less: one poll.
 * replyMode: NULL: the call returns when the message is queued. Otherwise the calling thread's loop
 *     runs in this mode, serving its other items, until the reply, the timeout or the end of the
 *     peer; the mode may be empty. A stop does not end the wait; kRLCommonModes serves nothing.
 * returnData: receives the reply's data, the caller's to release; unchanged without a replyMode and
 *     without success. NULL drops the data.
 * Returns: kRLMessagePortSuccess or an error code of portcodes.h.
 * Threads: any; requests of several threads, and nested ones, get their own replies.
 * Reentrancy: call-outs too; with replyMode it runs the loop, and with it whatever that calls. It
 * may call the invalidation callback. CF: CFMessagePortSendRequest. Since 0.1.
 */
RL_EXPORT int32_t RLMessagePortSendRequest(RLMessagePortRef RL_NULLABLE remote, int32_t msgid,
                                           const void *RL_NULLABLE bytes, size_t length, RLTimeInterval sendTimeout,
                                           RLTimeInterval rcvTimeout, RLMode RL_NULLABLE replyMode,
                                           RLDataRef RL_NULLABLE *RL_NULLABLE returnData);

/**
 * Does what RLMessagePortSendRequest does, and sends descriptors with the message.
 *
 * descriptors, count: open descriptors, 0 to 128 of them; the receiver gets duplicates.
 * The rest: as for RLMessagePortSendRequest.
 * Returns: as RLMessagePortSendRequest; kRLMessagePortTransportError also for a bad descriptor, a
 * count out of range, and a receiver that has no room for the descriptors, if it was to reply.
 * Threads, Reentrancy: as RLMessagePortSendRequest. Ownership: the descriptors stay the caller's.
 * CF: none. Since 0.1.
 */
RL_EXPORT int32_t RLMessagePortSendRequestWithDescriptors(RLMessagePortRef RL_NULLABLE remote, int32_t msgid,
                                                          const void *RL_NULLABLE bytes, size_t length,
                                                          const int *RL_NULLABLE descriptors, RLIndex count,
                                                          RLTimeInterval sendTimeout, RLTimeInterval rcvTimeout,
                                                          RLMode RL_NULLABLE replyMode,
                                                          RLDataRef RL_NULLABLE *RL_NULLABLE returnData);

/**
 * Sends a message and returns when it is queued; a loop receives its reply and calls a function.
 *
 * remote, msgid, bytes, length, descriptors, count, sendTimeout: as for
 *     RLMessagePortSendRequestWithDescriptors.
 * loop, mode: the loop's thread calls callout, when it runs the mode or, for kRLCommonModes, one of
 *     the common modes. While requests wait the mode has sources of the library's and is not empty.
 *     Replies of many requests may come in any order, each to its own function.
 * callout, info: callout gets the outcome once, unless the request is cancelled.
 * request: receives a number for RLMessagePortCancelRequest, before callout can be called; may be NULL.
 * Returns: kRLMessagePortSuccess; otherwise what went wrong, and callout is never called:
 * kRLMessagePortReceiveTimeout if the loop's thread has ended, kRLMessagePortTransportError also for a
 * NULL loop, mode or callout.
 * There is no time limit for the reply: cancel the request.
 * Threads: any. Ownership: the port and the loop are retained until the request is over; info stays
 * the caller's. Reentrancy: call-outs too; may call the invalidation callback. CF: none. Since 0.1.
 */
RL_EXPORT int32_t RLMessagePortBeginRequest(RLMessagePortRef RL_NULLABLE remote, int32_t msgid,
                                            const void *RL_NULLABLE bytes, size_t length,
                                            const int *RL_NULLABLE descriptors, RLIndex count,
                                            RLTimeInterval sendTimeout, RLRunLoopRef RL_NULLABLE loop,
                                            RLMode RL_NULLABLE mode, RLMessagePortReplyCallBack RL_NULLABLE callout,
                                            void *RL_NULLABLE info, uint32_t *RL_NULLABLE request);

/**
 * Ends a request that RLMessagePortBeginRequest began: its callback is not called, its reply is dropped.
 *
 * remote: the port it was sent to. request: its number; it is not used again while the request waits.
 * Returns: true if the callback will not be called; false if it was called, is being called, or the
 * request was cancelled, and for NULL and unknown numbers. What was sent is not taken back.
 * Threads: any. Reentrancy: call-outs too; calls no call-out unless the call frees the port.
 * CF: none. Since 0.1.
 */
RL_EXPORT bool RLMessagePortCancelRequest(RLMessagePortRef RL_NULLABLE remote, uint32_t request);

/**
 * Takes the descriptors of the message that is being served, in the order in which they were sent.
 *
 * local: the port that the callback got. descriptors: receives at most capacity of them; with NULL
 *     none is taken.
 * Returns: the number taken or, if descriptors is NULL, the number left; 0 outside of a message
 * callback of this port on this thread, and for NULL.
 * Threads: the one that runs the callback. Ownership: the caller closes what it takes; it is
 * close-on-exec. What is not taken is closed after the callback.
 * Reentrancy: message callbacks; calls no call-out. CF: none. Since 0.1.
 */
RL_EXPORT RLIndex RLMessagePortTakeDescriptors(RLMessagePortRef RL_NULLABLE local, int *RL_NULLABLE descriptors,
                                               RLIndex capacity);

/**
 * Returns the source that serves a local port's messages; add it to the modes that are to serve it.
 *
 * order: has no effect on the order of service. A port without a name receives nothing.
 * Returns: the same source, with one more reference, while that is valid.
 * Errors: NULL for a remote or invalid port, for one that a dispatch queue serves, and for NULL.
 * Threads: any. Ownership: the caller's to release; the source does not retain the port.
 * Reentrancy: call-outs too; calls no call-out. CF: CFMessagePortCreateRunLoopSource. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLMessagePortCreateRunLoopSource(RLMessagePortRef RL_NULLABLE local,
                                                                   RLIndex order) RL_WARN_UNUSED_RESULT;

/**
 * Makes a dispatch queue serve a local port's messages instead of a run loop.
 *
 * local: NULL does nothing. A remote or invalid port and a port that has a source are refused, with
 *     a log line, and so is every port in a process without libdispatch, which is found by symbol
 *     name.
 * queue: a dispatch_queue_t, which the library retains; even a concurrent queue serves the port's
 *     messages one after the other. A queue replaces the one before. NULL detaches the queue:
 *     messages wait for a source or for another queue.
 * Threads: any. The call does not wait for a message callback that runs or is about to run.
 * Ownership: the queue stays the caller's. Reentrancy: call-outs too; calls no call-out.
 * CF: CFMessagePortSetDispatchQueue. Since 0.1.
 */
RL_EXPORT void RLMessagePortSetDispatchQueue(RLMessagePortRef RL_NULLABLE local, void *RL_NULLABLE queue);

/* For librunloop-cf. The port has a reference to itself until it is invalid, or in the child of fork
   until the first RLMessagePortInvalidate. */
RL_EXPORT void RLMessagePortKeep_(RLMessagePortRef RL_NULLABLE local);
/* The info of a context whose release is this function begins with a pointer, which is what
   invalidation callbacks get. */
RL_EXPORT void RLSetReleaseOfBoxes_(void (*RL_NULLABLE release)(const void *RL_NULLABLE info));

RL_HEADER_END

#endif
