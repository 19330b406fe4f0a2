/* SPDX-License-Identifier: MIT */
/*
 * CFMessagePortRef: requests and replies between processes of a user on one machine, or within one.
 *
 * The manual is <runloop/messageport.h>, call by call. The allocator of a Create call is not used.
 */
#ifndef RUNLOOP_CF_MESSAGEPORT_H
#define RUNLOOP_CF_MESSAGEPORT_H

#include "CFData.h"
#include "CFRunLoop.h"
#include "CFString.h"

CF_EXTERN_C_BEGIN

typedef struct __CFMessagePort *CFMessagePortRef;
/* A queue of libdispatch. */
struct dispatch_queue_s;

/** What CFMessagePortSendRequest returns. */
CF_ENUM(SInt32) {
    kCFMessagePortSuccess = 0,
    kCFMessagePortSendTimeout = -1,
    kCFMessagePortReceiveTimeout = -2,
    kCFMessagePortIsInvalid = -3,
    kCFMessagePortTransportError = -4,
    kCFMessagePortBecameInvalidError = -5
};

/** The info of a local port: RLMessagePortContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
} CFMessagePortContext;

/** Serves a message; the data it returns is the reply, which the library releases. NULL replies with empty data. */
typedef CFDataRef (*CFMessagePortCallBack)(CFMessagePortRef local, SInt32 msgid, CFDataRef data, void *info);
typedef void (*CFMessagePortInvalidationCallBack)(CFMessagePortRef ms, void *info);

CF_EXPORT CFTypeID CFMessagePortGetTypeID(void) RLCF_AS(CFMessagePortGetTypeID, RLMessagePortGetTypeID);
CF_EXPORT CFMessagePortRef CFMessagePortCreateLocal(CFAllocatorRef allocator, CFStringRef name, CFMessagePortCallBack callout,
                                                    CFMessagePortContext *context, Boolean *shouldFreeInfo)
    RLCF_(CFMessagePortCreateLocal);
CF_EXPORT CFMessagePortRef CFMessagePortCreateRemote(CFAllocatorRef allocator, CFStringRef name) RLCF_(CFMessagePortCreateRemote);
CF_EXPORT Boolean CFMessagePortIsRemote(CFMessagePortRef ms) RLCF_AS(CFMessagePortIsRemote, RLMessagePortIsRemote);
/** The name, borrowed; it is never freed. */
CF_EXPORT CFStringRef CFMessagePortGetName(CFMessagePortRef ms) RLCF_(CFMessagePortGetName);
CF_EXPORT Boolean CFMessagePortSetName(CFMessagePortRef ms, CFStringRef newName) RLCF_(CFMessagePortSetName);
CF_EXPORT void CFMessagePortGetContext(CFMessagePortRef ms, CFMessagePortContext *context) RLCF_(CFMessagePortGetContext);
CF_EXPORT void CFMessagePortInvalidate(CFMessagePortRef ms) RLCF_(CFMessagePortInvalidate);
CF_EXPORT Boolean CFMessagePortIsValid(CFMessagePortRef ms) RLCF_AS(CFMessagePortIsValid, RLMessagePortIsValid);
CF_EXPORT CFMessagePortInvalidationCallBack CFMessagePortGetInvalidationCallBack(CFMessagePortRef ms)
    RLCF_(CFMessagePortGetInvalidationCallBack);
CF_EXPORT void CFMessagePortSetInvalidationCallBack(CFMessagePortRef ms, CFMessagePortInvalidationCallBack callout)
    RLCF_(CFMessagePortSetInvalidationCallBack);
/** Sends, and with a replyMode waits for the reply, which the caller releases. */
CF_EXPORT SInt32 CFMessagePortSendRequest(CFMessagePortRef remote, SInt32 msgid, CFDataRef data, CFTimeInterval sendTimeout,
                                          CFTimeInterval rcvTimeout, CFStringRef replyMode, CFDataRef *returnData)
    RLCF_(CFMessagePortSendRequest);
/** From then on the port lives until CFMessagePortInvalidate, even if all references to it and to the source are released. */
CF_EXPORT CFRunLoopSourceRef CFMessagePortCreateRunLoopSource(CFAllocatorRef allocator, CFMessagePortRef local, CFIndex order)
    RLCF_(CFMessagePortCreateRunLoopSource);
CF_EXPORT void CFMessagePortSetDispatchQueue(CFMessagePortRef ms, struct dispatch_queue_s *queue)
    RLCF_AS(CFMessagePortSetDispatchQueue, RLMessagePortSetDispatchQueue);

CF_EXTERN_C_END

#endif
