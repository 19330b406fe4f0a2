/* SPDX-License-Identifier: MIT */
/*
 * RLSocketRef: listening, connecting, receiving and sending, with callbacks from a run loop.
 *
 * A socket object has one descriptor and up to three callback types, chosen when it is made: one of
 * Read (there is something to read), Accept (the library has accepted a connection) and Data (the
 * library has read data); Connect (a connect has ended); and Write (there is room to write). Its
 * source, from RLSocketCreateRunLoopSource, is added to a loop; when it first joins a mode, all
 * types are enabled. The loop watches the descriptor itself: there is no helper thread and no
 * polling.
 * A type is disabled while its callback runs. Afterwards it is enabled again if the flags say so:
 * by default for Read, Accept and Data, not for Write. Other types wait for
 * RLSocketEnableCallBacks.
 * The Connect callback is called once in the life of a socket. In one pass the order is Connect;
 * Read, Accept or Data; Write.
 * The source has version 0, like CFSocket's: readiness signals it, and all ready sockets perform in
 * one pass, among the signalled sources of the mode, by order and then the longest ready first. So
 * another callback of the same pass may already have read or written what a callback reports: use
 * calls that do not block. Accept and Data are only called with a connection or data.
 * Read and Write work for any descriptor, not only for sockets. Readiness is that of select(2): end
 * of file, hang-up and errors count as readable, errors also as writable.
 * A process has one object for a descriptor: making another returns the existing one.
 * Lifetime: a socket lives until RLSocketInvalidate, whatever is released; Data at the end of a
 * stream invalidates it too. Invalidate a socket before other code closes its descriptor.
 * RLSocketSetAddress makes the address of a stream socket reusable: a server can be started again
 * while connections of the former one linger.
 * Urgent bytes of a Unix stream are read in their place: the object sets SO_OOBINLINE on it.
 * For servers there are calls that never wait, queues and options: socketio.h.
 * Rules: Docs/semantics.md, section 15.
 */
#ifndef RUNLOOP_SOCKET_H
#define RUNLOOP_SOCKET_H

#include "data.h"
#include "source.h"

RL_HEADER_BEGIN

/** A socket object. CF: CFSocketRef. */
typedef struct RLSocket *RLSocketRef;

/** A descriptor. CF: CFSocketNativeHandle. */
typedef int RLSocketNativeHandle;

/** How a socket call ended. CF: CFSocketError. */
RL_ENUM(RLIndex, RLSocketError) {
    kRLSocketSuccess = 0,  /**< done or, for a connect in the background, begun */
    kRLSocketError = -1,   /**< failed, or the socket is NULL or invalid; errno may say more */
    kRLSocketTimeout = -2  /**< a connect took longer than its timeout */
};

/** Callback types; one of the first four, with Connect and Write or without. CF: CFSocketCallBackType. */
RL_OPTIONS(RLOptionFlags, RLSocketCallBackType) {
    kRLSocketNoCallBack = 0,      /**< no report of reading */
    kRLSocketReadCallBack = 1,    /**< there is data to read, or the end of the stream */
    kRLSocketAcceptCallBack = 2,  /**< a connection was accepted; the descriptor that listens
                                       is made non-blocking for that */
    kRLSocketDataCallBack = 3,    /**< a chunk or a datagram was read */
    kRLSocketConnectCallBack = 4, /**< a connect ended */
    kRLSocketWriteCallBack = 8    /**< there is room to write */
};

/** Flags for RLSocketSetSocketFlags. */
RL_OPTIONS(RLOptionFlags, RLSocketFlag) {
    kRLSocketAutomaticallyReenableReadCallBack = 1,   /**< Read is on again after its callback */
    kRLSocketAutomaticallyReenableAcceptCallBack = 2, /**< Accept is on again after its callback */
    kRLSocketAutomaticallyReenableDataCallBack = 3,   /**< Data is on again after its callback */
    kRLSocketAutomaticallyReenableWriteCallBack = 8,  /**< Write is on again after its callback */
    kRLSocketLeaveErrors = 64,                        /**< the library does not read SO_ERROR */
    kRLSocketCloseOnInvalidate = 128                  /**< Invalidate closes the descriptor */
};

/** A kind of socket and an address. address: a struct sockaddr; the caller's. CF: CFSocketSignature. */
typedef struct RLSocketSignature {
    int32_t protocolFamily; /**< PF_INET if not positive */
    int32_t socketType;     /**< for PF_INET: SOCK_STREAM if not positive */
    int32_t protocol;       /**< for PF_INET: TCP or UDP by the type if not positive */
    RLDataRef RL_NULLABLE address;
} RLSocketSignature;

/**
 * What a socket calls, on the loop's thread, with no lock held.
 *
 * s: the socket, which stays alive during the call. type: exactly one.
 * address: for Accept, the peer's; for Data, the peer's or the sender's, of length 0 if there is
 *     none; else NULL.
 * data: for Data, an RLDataRef, of length 0 for an empty datagram or record, and at the end of a
 *     stream, after which the socket invalidates itself; for Accept, a pointer to an int, the new
 *     descriptor, which belongs to the program and is close-on-exec; for Connect, NULL for success,
 *     else a pointer to an int32_t, the errno; for Write the same if the queue of RLSocketWrite was
 *     lost; else NULL. address and data are valid during the call; RLRetain keeps an RLDataRef.
 * info: that of the context. The callback may do anything with the socket and the loop.
 * CF: CFSocketCallBack. Since 0.1.
 */
typedef void (*RLSocketCallBack)(RLSocketRef RL_NULLABLE s, RLSocketCallBackType type, RLDataRef RL_NULLABLE address,
                                 const void *RL_NULLABLE data, void *RL_NULLABLE info);

/**
 * The data of a socket; copied at creation. Every function may be NULL.
 *
 * version: 0. info: passed to the callback; if there is a retain, its result takes info's place.
 * retain: once, when the socket is made, and once before the callbacks of each pass. release: once
 *     for each of these: at invalidation, and after the callbacks. Without a retain, if a callback
 *     runs on another thread at invalidation, that thread calls release after it.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * CF: CFSocketContext, whose release after the callbacks gets the stored info. Since 0.1.
 */
typedef struct RLSocketContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLSocketContext;

/**
 * Returns the type id of sockets, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLSocketGetTypeID(void);

/**
 * Makes a socket and the descriptor for it, close-on-exec and in blocking mode.
 *
 * protocolFamily, socketType, protocol: as for socket(2); see RLSocketSignature for what is filled
 *     in. callBackTypes: bits of RLSocketCallBackType; others are dropped.
 * callout: may be NULL: nothing is called. context: copied; NULL: info is NULL.
 * Returns: the socket; NULL if socket(2) failed, for instance for lack of a descriptor.
 * Threads: any. Ownership: the caller's to release; it lives until RLSocketInvalidate, which closes
 *     the descriptor unless kRLSocketCloseOnInvalidate was removed.
 * Reentrancy: call-outs too; calls retain.
 * CF: CFSocketCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLSocketRef RL_NULLABLE RLSocketCreate(int32_t protocolFamily, int32_t socketType, int32_t protocol,
                                                 RLOptionFlags callBackTypes, RLSocketCallBack RL_NULLABLE callout,
                                                 const RLSocketContext *RL_NULLABLE context) RL_WARN_UNUSED_RESULT;

/**
 * Makes a socket for a descriptor, or returns the existing one.
 *
 * sock: any descriptor; -1, or 2^20 and more that is not open, gives an invalid socket; whether other
 *     numbers are open is not checked.
 * callBackTypes, callout, context: as for RLSocketCreate; ignored if sock already has a socket. If
 *     that one was made for another file with the same number, it becomes invalid, nothing is
 *     closed, and a new one is made.
 * Returns: the socket. Threads: any.
 * Ownership: the caller's to release; RLSocketInvalidate closes the descriptor unless
 *     kRLSocketCloseOnInvalidate is removed.
 * Reentrancy: call-outs too; calls retain, and release of a socket that becomes invalid.
 * CF: CFSocketCreateWithNative, which returns the old one for ever. Since 0.1.
 */
RL_EXPORT RLSocketRef RL_NULLABLE RLSocketCreateWithNative(RLSocketNativeHandle sock, RLOptionFlags callBackTypes,
                                                           RLSocketCallBack RL_NULLABLE callout,
                                                           const RLSocketContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Makes a socket that has an address and, if it can, listens there.
 *
 * signature: kind and address; NULL: NULL is returned. The rest: as for RLSocketCreate.
 * Returns: the socket; NULL if it cannot be made or RLSocketSetAddress fails; then nothing is left.
 * Threads: any. Ownership: as for RLSocketCreate; signature and its address stay the caller's.
 * Reentrancy: call-outs too; calls retain, and release on failure.
 * CF: CFSocketCreateWithSocketSignature. Since 0.1.
 */
RL_EXPORT RLSocketRef RL_NULLABLE RLSocketCreateWithSocketSignature(const RLSocketSignature *RL_NULLABLE signature,
                                                                    RLOptionFlags callBackTypes,
                                                                    RLSocketCallBack RL_NULLABLE callout,
                                                                    const RLSocketContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Makes a socket and connects it.
 *
 * signature: kind and address of the peer; NULL: NULL is returned.
 * timeout: seconds, as for RLSocketConnectToAddress. The rest: as for RLSocketCreate.
 * Returns: the socket; NULL if it cannot be made or the connect fails; then nothing is left.
 * Threads: any; the call may block. Ownership: as for RLSocketCreateWithSocketSignature.
 * Reentrancy: call-outs too; calls retain, and release on failure.
 * CF: CFSocketCreateConnectedToSocketSignature. Since 0.1.
 */
RL_EXPORT RLSocketRef RL_NULLABLE RLSocketCreateConnectedToSocketSignature(
    const RLSocketSignature *RL_NULLABLE signature, RLOptionFlags callBackTypes, RLSocketCallBack RL_NULLABLE callout,
    const RLSocketContext *RL_NULLABLE context, RLTimeInterval timeout) RL_WARN_UNUSED_RESULT;

/**
 * Gives a socket its address and listens there with a backlog of 256, if sockets of its kind
 * listen. The address of a stream socket becomes reusable (SO_REUSEADDR); see RLSocketListen.
 *
 * s: NULL or invalid: an error. address: a struct sockaddr of length bytes; NULL or 0: an error.
 *     That of AF_UNIX may be a whole struct sockaddr_un: what follows the path is left out.
 * Returns: kRLSocketSuccess, or kRLSocketError if bind(2) or listen(2) fails, as on a socket that
 * has an address.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketSetAddress, which does not make it reusable. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketSetAddress(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE address, size_t length);

/**
 * Connects a socket, at once or in the background.
 *
 * s: NULL or invalid: an error. address: a struct sockaddr of length bytes; NULL or 0: an error.
 * timeout: seconds. Positive: at most that long. 0: as long as connect(2) takes; only begun if the
 *     client made the descriptor non-blocking. Negative: only begun; Connect reports the outcome.
 * Returns: kRLSocketSuccess, kRLSocketError, kRLSocketTimeout. The descriptor's mode is as before.
 * Threads: any; the call may block. Reentrancy: call-outs too; may call release (RLSocketIsValid, and
 *     after RLSocketClose if it fails).
 * CF: CFSocketConnectToAddress, which leaves it non-blocking on Linux. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketConnectToAddress(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE address,
                                                 size_t length, RLTimeInterval timeout);

/**
 * Invalidates a socket for good: no new callback begins, and its loops are woken.
 *
 * s: NULL and an invalid socket do nothing. Threads: any; the call does not wait for callbacks.
 * Ownership: the descriptor is closed if kRLSocketCloseOnInvalidate is set, by the last thread that is
 *     in a call with it, and a connect or a send that waits is ended; the connection is reset if bytes
 *     of RLSocketWrite are queued, which are lost: RLSocketClose sends them. Otherwise the descriptor
 *     belongs to the caller when the call returns, if no such call waits. The source becomes invalid;
 *     the context is released. The caller keeps its reference.
 * Reentrancy: call-outs too, its own callback included; calls release.
 * CF: CFSocketInvalidate. Since 0.1.
 */
RL_EXPORT void RLSocketInvalidate(RLSocketRef RL_NULLABLE s);

/**
 * Tells whether a socket is valid; it checks the descriptor.
 *
 * Returns: true until RLSocketInvalidate; false after it, for NULL, and if other code has closed
 *     the descriptor or its number means another file, in which case the call invalidates the
 *     socket.
 * Threads: any. Reentrancy: call-outs too; may call release.
 * CF: CFSocketIsValid. Since 0.1.
 */
RL_EXPORT bool RLSocketIsValid(RLSocketRef RL_NULLABLE s);

/**
 * Returns the address of a socket.
 *
 * Returns: a struct sockaddr, as it was at the first of these calls; NULL for NULL, for an invalid
 *     socket and for a descriptor that has no address.
 * Threads: any. Ownership: the caller's to release. Reentrancy: call-outs too; may call release.
 * CF: CFSocketCopyAddress. Since 0.1.
 */
RL_EXPORT RLDataRef RL_NULLABLE RLSocketCopyAddress(RLSocketRef RL_NULLABLE s) RL_WARN_UNUSED_RESULT;

/**
 * Returns the address of the peer of a socket.
 *
 * Returns: a struct sockaddr as it was when there first was one; NULL for NULL, for an invalid
 *     socket and for one that is not connected.
 * Threads: any. Ownership: the caller's to release. Reentrancy: call-outs too; may call release.
 * CF: CFSocketCopyPeerAddress. Since 0.1.
 */
RL_EXPORT RLDataRef RL_NULLABLE RLSocketCopyPeerAddress(RLSocketRef RL_NULLABLE s) RL_WARN_UNUSED_RESULT;

/**
 * Copies a socket's context into the caller's struct.
 *
 * s: any socket; for an invalid one, info is NULL and the functions are unchanged. NULL: nothing.
 * context: set its version to 0 before the call; NULL does nothing.
 * Threads: any. Ownership: info is borrowed. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketGetContext. Since 0.1.
 */
RL_EXPORT void RLSocketGetContext(RLSocketRef RL_NULLABLE s, RLSocketContext *RL_NULLABLE context);

/**
 * Returns the descriptor of a socket.
 *
 * Returns: the number; -1 for NULL and for an invalid socket.
 * Threads: any. Ownership: borrowed. Reentrancy: call-outs too; may call release (RLSocketIsValid).
 * CF: CFSocketGetNative. Since 0.1.
 */
RL_EXPORT RLSocketNativeHandle RLSocketGetNative(RLSocketRef RL_NULLABLE s);

/**
 * Returns the socket's source, to be added to any number of modes and loops with RLAddSource.
 *
 * order: that of the source at the first call; later calls return the same source, unless that was
 *     invalidated, which leaves the socket valid. Its perform counts as a handled source.
 * Returns: the source; NULL for NULL and for an invalid socket.
 * Threads: any. Ownership: the caller's to release. Reentrancy: call-outs too; may call release.
 * CF: CFSocketCreateRunLoopSource without the allocator. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLSocketCreateRunLoopSource(RLSocketRef RL_NULLABLE s, RLIndex order)
    RL_WARN_UNUSED_RESULT;

/**
 * Returns the flags of a socket.
 *
 * Returns: bits of RLSocketFlag, also of an invalid socket; 0 for NULL. Initially those that re-enable
 *     Read, Accept or Data, whichever the socket has, and kRLSocketCloseOnInvalidate.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketGetSocketFlags. Since 0.1.
 */
RL_EXPORT RLOptionFlags RLSocketGetSocketFlags(RLSocketRef RL_NULLABLE s);

/**
 * Replaces all flags of a socket; they take effect at the end of the next callback.
 *
 * s: NULL does nothing. flags: bits of RLSocketFlag.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketSetSocketFlags. Since 0.1.
 */
RL_EXPORT void RLSocketSetSocketFlags(RLSocketRef RL_NULLABLE s, RLOptionFlags flags);

/**
 * Disables callback types; data that arrives meanwhile is not lost.
 *
 * s: NULL, an invalid socket, and one whose source is in no loop: nothing. callBackTypes: types
 *     that the socket does not have are ignored. A type whose callback runs now stays disabled
 *     after it.
 * Threads: any. The call does not wait for a callback that runs on another thread.
 * Reentrancy: call-outs too; may call release (RLSocketIsValid).
 * CF: CFSocketDisableCallBacks. Since 0.1.
 */
RL_EXPORT void RLSocketDisableCallBacks(RLSocketRef RL_NULLABLE s, RLOptionFlags callBackTypes);

/**
 * Enables callback types; existing readiness is reported in the next pass.
 *
 * s: NULL, an invalid socket, and one whose source is in no loop: nothing. callBackTypes: types
 *     that the socket does not have are ignored; Connect still comes only once. After a connect(2)
 *     of the program's own on a Unix socket that is in a loop already, this call makes the loop see it.
 * Threads: any; a waiting loop takes it into account without RLWakeUp.
 * Reentrancy: call-outs too; may call release (RLSocketIsValid).
 * CF: CFSocketEnableCallBacks. Since 0.1.
 */
RL_EXPORT void RLSocketEnableCallBacks(RLSocketRef RL_NULLABLE s, RLOptionFlags callBackTypes);

/**
 * Sends bytes as send(2) does, or sendto(2) if there is an address; never raises SIGPIPE.
 *
 * s: NULL or invalid: an error. address: of addressLength bytes; NULL: to the peer.
 * bytes: NULL counts as length 0. timeout: seconds for which this call may wait for room; 0 or less:
 *     no limit but the descriptor's own (SO_SNDTIMEO). A non-blocking descriptor does not wait.
 * Returns: kRLSocketSuccess if at least one byte, or an empty datagram, was sent. A stream may take
 *     only part of the bytes, if there is a timeout, the descriptor is non-blocking, or an error, an
 *     Invalidate, or an RLSocketWrite or RLSocketSend of another thread ends the call, so that those
 *     bytes do not come between its own; the call does not report how many: use RLSocketWrite or
 *     RLSocketSend. Otherwise kRLSocketError, also after the timeout, and while bytes of
 *     RLSocketWrite are queued.
 * Threads: any; the call may block; the bytes of several that wait at the same time may alternate. Reentrancy: call-outs too; may call release (RLSocketIsValid).
 * CF: CFSocketSendData, to which an empty datagram is an error. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketSendData(RLSocketRef RL_NULLABLE s, const void *RL_NULLABLE address,
                                         size_t addressLength, const void *RL_NULLABLE bytes, size_t length,
                                         RLTimeInterval timeout);

/* The name registry. Its server no longer exists; the functions are here for programs that call them. */

/** Words of the name registry's messages. CF: kCFSocketCommandKey and so on. */
RL_EXPORT const char *const RL_NONNULL kRLSocketCommandKey;      /**< "Command" */
RL_EXPORT const char *const RL_NONNULL kRLSocketNameKey;         /**< "Name" */
RL_EXPORT const char *const RL_NONNULL kRLSocketValueKey;        /**< "Value" */
RL_EXPORT const char *const RL_NONNULL kRLSocketResultKey;       /**< "Result" */
RL_EXPORT const char *const RL_NONNULL kRLSocketErrorKey;        /**< "Error" */
RL_EXPORT const char *const RL_NONNULL kRLSocketRegisterCommand; /**< "Register" */
RL_EXPORT const char *const RL_NONNULL kRLSocketRetrieveCommand; /**< "Retrieve" */

/**
 * Would register bytes under a name.
 *
 * nameServer, timeout, name, bytes, length: anything. Returns: kRLSocketError.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketRegisterValue, with a property list. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketRegisterValue(const RLSocketSignature *RL_NULLABLE nameServer, RLTimeInterval timeout,
                                              const char *RL_NULLABLE name, const void *RL_NULLABLE bytes, size_t length);

/**
 * Would look up the bytes of a name.
 *
 * value, nameServerAddress: set to NULL; may be NULL. The rest: anything. Returns: kRLSocketError.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketCopyRegisteredValue. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketCopyRegisteredValue(const RLSocketSignature *RL_NULLABLE nameServer,
                                                    RLTimeInterval timeout, const char *RL_NULLABLE name,
                                                    RLDataRef RL_NULLABLE *RL_NULLABLE value,
                                                    RLDataRef RL_NULLABLE *RL_NULLABLE nameServerAddress);

/**
 * Would register a signature under a name.
 *
 * nameServer, timeout, name, signature: anything. Returns: kRLSocketError.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketRegisterSocketSignature. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketRegisterSocketSignature(const RLSocketSignature *RL_NULLABLE nameServer,
                                                        RLTimeInterval timeout, const char *RL_NULLABLE name,
                                                        const RLSocketSignature *RL_NULLABLE signature);

/**
 * Would look up the signature of a name.
 *
 * signature: zeroed; nameServerAddress: set to NULL; both may be NULL. Returns: kRLSocketError.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketCopyRegisteredSocketSignature. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketCopyRegisteredSocketSignature(const RLSocketSignature *RL_NULLABLE nameServer,
                                                              RLTimeInterval timeout, const char *RL_NULLABLE name,
                                                              RLSocketSignature *RL_NULLABLE signature,
                                                              RLDataRef RL_NULLABLE *RL_NULLABLE nameServerAddress);

/**
 * Would remove a name.
 *
 * nameServer, timeout, name: anything. Returns: kRLSocketError.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketUnregister. Since 0.1.
 */
RL_EXPORT RLSocketError RLSocketUnregister(const RLSocketSignature *RL_NULLABLE nameServer, RLTimeInterval timeout,
                                           const char *RL_NULLABLE name);

/**
 * Sets the port number that name registry calls would use.
 *
 * port: any; kept for RLSocketGetDefaultNameRegistryPortNumber.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketSetDefaultNameRegistryPortNumber. Since 0.1.
 */
RL_EXPORT void RLSocketSetDefaultNameRegistryPortNumber(uint16_t port);

/**
 * Returns the port number that name registry calls would use.
 *
 * Returns: what was last set; initially 2454.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFSocketGetDefaultNameRegistryPortNumber. Since 0.1.
 */
RL_EXPORT uint16_t RLSocketGetDefaultNameRegistryPortNumber(void);

RL_HEADER_END

#endif
