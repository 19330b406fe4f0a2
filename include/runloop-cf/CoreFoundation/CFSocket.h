/* SPDX-License-Identifier: MIT */
/*
 * CFSocketRef: a socket that calls back from a run loop.
 *
 * The manual is <runloop/socket.h>, call by call. Addresses are data of a struct sockaddr. The allocator of a Create call is
 * not used. The calls of the name registry are there; no system has its server any more, and they return kCFSocketError.
 */
#ifndef RUNLOOP_CF_SOCKET_H
#define RUNLOOP_CF_SOCKET_H

#include "CFData.h"
#include "CFRunLoop.h"

CF_EXTERN_C_BEGIN

typedef struct __CFSocket *CFSocketRef;
typedef int CFSocketNativeHandle;

typedef CF_ENUM(CFIndex, CFSocketError) {
    kCFSocketSuccess = 0,
    kCFSocketError = -1L,
    kCFSocketTimeout = -2L
};

/** A kind of socket and an address: RLSocketSignature. */
typedef struct {
    SInt32 protocolFamily;
    SInt32 socketType;
    SInt32 protocol;
    CFDataRef address;
} CFSocketSignature;

/** One of the first four, with Connect and Write or without: RLSocketCallBackType. */
typedef CF_OPTIONS(CFOptionFlags, CFSocketCallBackType) {
    kCFSocketNoCallBack = 0,
    kCFSocketReadCallBack = 1,
    kCFSocketAcceptCallBack = 2,
    kCFSocketDataCallBack = 3,
    kCFSocketConnectCallBack = 4,
    kCFSocketWriteCallBack = 8
};

/** Flags of a socket: RLSocketFlag. */
CF_ENUM(CFOptionFlags) {
    kCFSocketAutomaticallyReenableReadCallBack = 1,
    kCFSocketAutomaticallyReenableAcceptCallBack = 2,
    kCFSocketAutomaticallyReenableDataCallBack = 3,
    kCFSocketAutomaticallyReenableWriteCallBack = 8,
    kCFSocketLeaveErrors = 64,
    kCFSocketCloseOnInvalidate = 128
};

/** data: a CFDataRef for Data, a CFSocketNativeHandle * for Accept, NULL or an SInt32 * (errno) for Connect. */
typedef void (*CFSocketCallBack)(CFSocketRef s, CFSocketCallBackType type, CFDataRef address, const void *data, void *info);

/** The info of a socket: RLSocketContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
} CFSocketContext;

CF_EXPORT CFTypeID CFSocketGetTypeID(void) RLCF_AS(CFSocketGetTypeID, RLSocketGetTypeID);
CF_EXPORT CFSocketRef CFSocketCreate(CFAllocatorRef allocator, SInt32 protocolFamily, SInt32 socketType, SInt32 protocol,
                                     CFOptionFlags callBackTypes, CFSocketCallBack callout, const CFSocketContext *context)
    RLCF_(CFSocketCreate);
CF_EXPORT CFSocketRef CFSocketCreateWithNative(CFAllocatorRef allocator, CFSocketNativeHandle sock, CFOptionFlags callBackTypes,
                                               CFSocketCallBack callout, const CFSocketContext *context)
    RLCF_(CFSocketCreateWithNative);
CF_EXPORT CFSocketRef CFSocketCreateWithSocketSignature(CFAllocatorRef allocator, const CFSocketSignature *signature,
                                                        CFOptionFlags callBackTypes, CFSocketCallBack callout,
                                                        const CFSocketContext *context)
    RLCF_(CFSocketCreateWithSocketSignature);
CF_EXPORT CFSocketRef CFSocketCreateConnectedToSocketSignature(CFAllocatorRef allocator, const CFSocketSignature *signature,
                                                               CFOptionFlags callBackTypes, CFSocketCallBack callout,
                                                               const CFSocketContext *context, CFTimeInterval timeout)
    RLCF_(CFSocketCreateConnectedToSocketSignature);
CF_EXPORT CFSocketError CFSocketSetAddress(CFSocketRef s, CFDataRef address) RLCF_(CFSocketSetAddress);
CF_EXPORT CFSocketError CFSocketConnectToAddress(CFSocketRef s, CFDataRef address, CFTimeInterval timeout)
    RLCF_(CFSocketConnectToAddress);
CF_EXPORT void CFSocketInvalidate(CFSocketRef s) RLCF_AS(CFSocketInvalidate, RLSocketInvalidate);
CF_EXPORT Boolean CFSocketIsValid(CFSocketRef s) RLCF_AS(CFSocketIsValid, RLSocketIsValid);
CF_EXPORT CFDataRef CFSocketCopyAddress(CFSocketRef s) RLCF_AS(CFSocketCopyAddress, RLSocketCopyAddress);
CF_EXPORT CFDataRef CFSocketCopyPeerAddress(CFSocketRef s) RLCF_AS(CFSocketCopyPeerAddress, RLSocketCopyPeerAddress);
CF_EXPORT void CFSocketGetContext(CFSocketRef s, CFSocketContext *context) RLCF_(CFSocketGetContext);
CF_EXPORT CFSocketNativeHandle CFSocketGetNative(CFSocketRef s) RLCF_AS(CFSocketGetNative, RLSocketGetNative);
CF_EXPORT CFRunLoopSourceRef CFSocketCreateRunLoopSource(CFAllocatorRef allocator, CFSocketRef s, CFIndex order)
    RLCF_(CFSocketCreateRunLoopSource);
CF_EXPORT CFOptionFlags CFSocketGetSocketFlags(CFSocketRef s) RLCF_AS(CFSocketGetSocketFlags, RLSocketGetSocketFlags);
CF_EXPORT void CFSocketSetSocketFlags(CFSocketRef s, CFOptionFlags flags) RLCF_AS(CFSocketSetSocketFlags, RLSocketSetSocketFlags);
CF_EXPORT void CFSocketDisableCallBacks(CFSocketRef s, CFOptionFlags callBackTypes)
    RLCF_AS(CFSocketDisableCallBacks, RLSocketDisableCallBacks);
CF_EXPORT void CFSocketEnableCallBacks(CFSocketRef s, CFOptionFlags callBackTypes)
    RLCF_AS(CFSocketEnableCallBacks, RLSocketEnableCallBacks);
CF_EXPORT CFSocketError CFSocketSendData(CFSocketRef s, CFDataRef address, CFDataRef data, CFTimeInterval timeout)
    RLCF_(CFSocketSendData);

/* MARK: The name registry */

CF_EXPORT CFSocketError CFSocketRegisterValue(const CFSocketSignature *nameServerSignature, CFTimeInterval timeout,
                                              CFStringRef name, CFPropertyListRef value) RLCF_(CFSocketRegisterValue);
CF_EXPORT CFSocketError CFSocketCopyRegisteredValue(const CFSocketSignature *nameServerSignature, CFTimeInterval timeout,
                                                    CFStringRef name, CFPropertyListRef *value, CFDataRef *nameServerAddress)
    RLCF_(CFSocketCopyRegisteredValue);
CF_EXPORT CFSocketError CFSocketRegisterSocketSignature(const CFSocketSignature *nameServerSignature, CFTimeInterval timeout,
                                                        CFStringRef name, const CFSocketSignature *signature)
    RLCF_(CFSocketRegisterSocketSignature);
CF_EXPORT CFSocketError CFSocketCopyRegisteredSocketSignature(const CFSocketSignature *nameServerSignature,
                                                              CFTimeInterval timeout, CFStringRef name,
                                                              CFSocketSignature *signature, CFDataRef *nameServerAddress)
    RLCF_(CFSocketCopyRegisteredSocketSignature);
CF_EXPORT CFSocketError CFSocketUnregister(const CFSocketSignature *nameServerSignature, CFTimeInterval timeout, CFStringRef name)
    RLCF_(CFSocketUnregister);
CF_EXPORT void CFSocketSetDefaultNameRegistryPortNumber(UInt16 port)
    RLCF_AS(CFSocketSetDefaultNameRegistryPortNumber, RLSocketSetDefaultNameRegistryPortNumber);
CF_EXPORT UInt16 CFSocketGetDefaultNameRegistryPortNumber(void)
    RLCF_AS(CFSocketGetDefaultNameRegistryPortNumber, RLSocketGetDefaultNameRegistryPortNumber);
CF_EXPORT const CFStringRef kCFSocketCommandKey RLCF_CONSTANT_(CFSocketCommandKey);
CF_EXPORT const CFStringRef kCFSocketNameKey RLCF_CONSTANT_(CFSocketNameKey);
CF_EXPORT const CFStringRef kCFSocketValueKey RLCF_CONSTANT_(CFSocketValueKey);
CF_EXPORT const CFStringRef kCFSocketResultKey RLCF_CONSTANT_(CFSocketResultKey);
CF_EXPORT const CFStringRef kCFSocketErrorKey RLCF_CONSTANT_(CFSocketErrorKey);
CF_EXPORT const CFStringRef kCFSocketRegisterCommand RLCF_CONSTANT_(CFSocketRegisterCommand);
CF_EXPORT const CFStringRef kCFSocketRetrieveCommand RLCF_CONSTANT_(CFSocketRetrieveCommand);

CF_EXTERN_C_END

#endif
