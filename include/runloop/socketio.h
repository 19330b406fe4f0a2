/* SPDX-License-Identifier: MIT */
/*
 * Sockets for servers: sending without waiting, a queue for what the peer does not take yet, closing
 * without loss, options, and descriptors over Unix sockets.
 *
 * RLSocketWrite gives the kernel what it takes at once and queues the rest; the loop that has the
 * socket's source sends it as the peer makes room. A server in one thread looks like this:
 *
 *     static void echo(RLSocketRef s, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
 *         if (type == kRLSocketWriteCallBack)           // all is sent, or lost if data is not NULL
 *             RLSocketEnableCallBacks(s, kRLSocketDataCallBack);
 *         else if (RLSocketWrite(s, RLDataGetBytePtr(data), RLDataGetLength(data), 65536) > 0)
 *             RLSocketDisableCallBacks(s, kRLSocketDataCallBack);   // read no more until it is sent
 *     }
 *
 * with kRLSocketDataCallBack | kRLSocketWriteCallBack as the types of each connection. A peer that
 * does not read costs what is queued for it and keeps no other waiting. The program decides how long
 * that may last, with a timer and RLSocketClose(s, kRLSocketCloseAbort).
 * When a connection is over, in whatever way, the context's release is called.
 * At the end of a process what is still queued is lost: first close the connections with
 * kRLSocketCloseOrderly, and run the loop until the last release.
 * None of these calls checks whether the number of the descriptor still names the socket's file:
 * invalidate a socket before other code closes its descriptor.
 * None is in CoreFoundation. Rules: Docs/semantics.md, section 15.5.
 */
#ifndef RUNLOOP_SOCKETIO_H
#define RUNLOOP_SOCKETIO_H

#include "socket.h"

RL_HEADER_BEGIN

/** How RLSocketClose closes. Since 0.2. */
RL_ENUM(RLIndex, RLSocketCloseType) {
    kRLSocketCloseOrderly = 0, /**< send what is queued, wait for the peer's end, invalidate */
    kRLSocketCloseWriting = 1, /**< send what is queued, then the end of the stream; go on reading */
    kRLSocketCloseAbort = 2    /**< drop what is queued, reset the connection, invalidate */
};

/** Options of a descriptor, for RLSocketListen and RLSocketSetOptions; see socket(7), tcp(7), ipv6(7), unix(7). Since 0.2. */
RL_OPTIONS(RLOptionFlags, RLSocketOption) {
    kRLSocketReuseAddress = 1,    /**< listen even if connections of a former socket linger at the address */
    kRLSocketReusePort = 2,       /**< several sockets of the same user listen at one address and share what comes */
    kRLSocketNoDelay = 4,         /**< TCP: send small segments at once */
    kRLSocketKeepAlive = 8,       /**< find out that a silent peer is gone */
    kRLSocketOnlyIPv6 = 16,       /**< an IPv6 socket takes no IPv4 connections */
    kRLSocketPassCredentials = 32 /**< Unix: RLSocketReceive returns each sender's credentials */
};

/**
 * What came with the bytes of RLSocketReceive.
 *
 * descriptors, room: set by the caller: where to store descriptors, and how many at most; NULL and 0
 *     if none are expected.
 * count: how many were stored there. They are close-on-exec and the caller's to close.
 * lostDescriptors: there was no room for all, or the process may have no more; then count is 0,
 *     and those that were received are closed.
 * hasCredentials: the next three are those of the sender, as the kernel saw them when it sent; that
 *     needs kRLSocketPassCredentials.
 * Since 0.2.
 */
typedef struct RLSocketAncillary {
    int *RL_NULLABLE descriptors;
    size_t room;
    size_t count;
    bool lostDescriptors;
    bool hasCredentials;
    int32_t process;
    uint32_t user;
    uint32_t group;
} RLSocketAncillary;

/**
 * Sends what the kernel takes at once, with one send(2), and returns how much that was.
 *
 * s: NULL or invalid: EBADF. address: of addressLength bytes; NULL: to the peer.
 * bytes: NULL counts as length 0. length: 2^63 and more: EINVAL.
 * Returns: the number of bytes that were taken, for a datagram all or none; or -1 with errno, and
 *     nothing was taken. EAGAIN: the kernel has no room, or bytes of RLSocketWrite are queued.
 *     EPIPE: RLSocketClose or the peer ended the stream. Others: send(2), and as for RLSocketWrite.
 * Threads: any; the call never blocks, in whatever mode the descriptor is, and never raises SIGPIPE.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLSocketSend(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE address, size_t addressLength,
                               const void *RL_NULLABLE bytes, size_t length);

/**
 * Sends all bytes of a stream: what the kernel takes at once, the rest from a queue, by the loop.
 *
 * s: NULL or invalid: EBADF. bytes: copied if they are queued; NULL counts as length 0.
 * length: 0 only asks for the result. 2^63 and more: EINVAL.
 * highWater: if more bytes than this are already queued, none is taken: EAGAIN. So a peer costs at
 *     most highWater and the bytes of one call.
 * Returns: how many bytes are queued after the call, 0 if the kernel has all; or -1 with errno, and
 *     none was taken. EPIPE: RLSocketClose or the peer ended the stream. Once a queue was lost, every
 *     later call fails with the errno of that loss. Others: send(2).
 *     A datagram or a record, whose boundary a queue would lose, is taken whole or not at all: EAGAIN.
 * While bytes are queued, no Write callback comes, and the type is enabled, if the socket has it:
 *     the next callback reports that the queue is empty. Its data is NULL, or points to an int32_t,
 *     the errno with which the queue was lost.
 * Threads: any; never blocks. The bytes of one call stay together. If the caller is not the loop's
 *     thread, the Write callback may come before the caller has looked at the result.
 * Ownership: no allocation if the kernel takes all. Bytes are sent only while the socket's source is
 *     in a loop and one of its modes runs.
 * Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLSocketWrite(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE bytes, size_t length, size_t highWater);

/**
 * Closes a connection, or its sending half, when all that was written is sent; or resets it.
 *
 * s: NULL or invalid: an error. how: kRLSocketCloseOrderly: no further callback begins. What is
 *     queued is sent, then the end of the stream; what still comes is dropped until the peer's end,
 *     because closing a descriptor with unread bytes would lose what was sent; then the socket is
 *     invalidated. SO_LINGER is switched off: no close waits or resets. The socket waits for a peer
 *     that never ends: abort it after some time. A socket in no loop is invalidated at once. So is
 *     one that leaves its last mode, and one without a peer, unless bytes are queued for a connect
 *     that is under way.
 *     kRLSocketCloseWriting: for a socket that is being connected the loop sends the end when that is
 *     done. A socket that reports Data is closed orderly when the peer ends too.
 *     kRLSocketCloseAbort: at once; a TCP peer gets an error instead of the end of the stream.
 * Returns: kRLSocketSuccess; kRLSocketError for an invalid socket and an unknown how.
 * Threads: any; never blocks, but close(2) of a Unix socket closes descriptors that a peer sent and
 *     nobody received, and waits as their close does. Ownership: closed as by RLSocketInvalidate. Without
 *     kRLSocketCloseOnInvalidate the program's close completes it.
 * Reentrancy: call-outs too, its own callback included; calls release. CF: none. Since 0.2.
 */
RL_EXPORT RLSocketError RLSocketClose(RLSocketRef RL_NULLABLE s, RLSocketCloseType how);

/**
 * Gives a socket its address and listens there, with options and a backlog.
 *
 * s: NULL or invalid: an error. address: as for RLSocketSetAddress.
 * options: bits of RLSocketOption. Of ReuseAddress, ReusePort and OnlyIPv6 those that are not given
 *     are switched off: an IPv6 socket accepts IPv4 connections too.
 * backlog: how many connections may wait to be accepted; 0 or less: 256. The kernel has its own
 *     limit, /proc/sys/net/core/somaxconn.
 * Returns: kRLSocketSuccess, or kRLSocketError with errno if an option, bind(2) or listen(2) fails.
 *     Datagram sockets, which do not listen, only get the address.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none; RLSocketSetAddress is the
 *     same with kRLSocketReuseAddress, 256, and the system's setting for IPv6. Since 0.2.
 */
RL_EXPORT RLSocketError RLSocketListen(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE address, size_t length,
                                       RLOptionFlags options, int32_t backlog);

/**
 * Switches options of a socket's descriptor on or off.
 *
 * s: NULL or invalid: an error. options: bits of RLSocketOption; unknown ones are ignored. Those
 *     about the address have to be set before there is one. on: on or off.
 * A connection inherits kRLSocketNoDelay and kRLSocketKeepAlive of the socket that accepted it.
 * Returns: kRLSocketSuccess, or kRLSocketError with errno if the kernel refused one, such as
 *     kRLSocketNoDelay for a Unix socket; the others are still set.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLSocketError RLSocketSetOptions(RLSocketRef RL_NULLABLE s, RLOptionFlags options, bool on);

/**
 * Sends bytes and descriptors over a Unix socket, as one message.
 *
 * s: NULL or invalid: EBADF. bytes, length: as for RLSocketSend; a stream without a byte: EINVAL.
 * descriptors: count numbers, 1 to 253; else: EINVAL. They stay the caller's, who may close them.
 * Returns: the number of bytes that were taken, with which all the descriptors went; or -1 with
 *     errno, and nothing was taken: as for RLSocketSend, ETOOMANYREFS if the user has too many
 *     descriptors in flight, and EOPNOTSUPP if the socket is not a Unix one.
 * Threads: any; never blocks. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLSocketSendDescriptors(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE bytes, size_t length,
                                          const int *RL_NULLABLE descriptors, size_t count);

/**
 * Reads what is there, with the descriptors and credentials that came with it; for Read callbacks.
 *
 * s: NULL or invalid: EBADF. bytes: room for capacity bytes; NULL counts as capacity 0.
 * ancillary: descriptors and room are read, the rest is filled in, whatever the result; NULL: the
 *     descriptors that come are closed.
 * Returns: the number of bytes; 0 at the end of a stream, and for an empty datagram; or -1 with
 *     errno, EAGAIN if nothing is there. The rest of a datagram that is longer is lost.
 * Threads: any; never blocks. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLIndex RLSocketReceive(RLSocketRef RL_NULLABLE s, void *RL_NULLABLE bytes, size_t capacity,
                                  RLSocketAncillary *RL_NULLABLE ancillary);

RL_HEADER_END

#endif
