/* SPDX-License-Identifier: MIT */
/*
 * CFMachPortRef: a queue of messages between the threads of a process.
 *
 * The manual is <runloop/machport.h>. A port's number is made of its descriptor; messages are sent to it by mach_msg and mach_msg_send
 * (<mach/mach.h>). The callback's msg is a mach_msg_header_t of size bytes, valid during the call: its local port received it, its
 * remote port, if that is not MACH_PORT_NULL, takes the answer. What
 * RLMachPortSend sends is delivered if it begins with such a header. The allocator of a Create call is not used.
 */
#ifndef RUNLOOP_CF_MACHPORT_H
#define RUNLOOP_CF_MACHPORT_H

#include <mach/port.h>

#include "CFRunLoop.h"

CF_EXTERN_C_BEGIN

typedef struct __CFMachPort *CFMachPortRef;

/** The info of a port: RLMachPortContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFStringRef (*copyDescription)(const void *info);
} CFMachPortContext;

typedef void (*CFMachPortCallBack)(CFMachPortRef port, void *msg, CFIndex size, void *info);
typedef void (*CFMachPortInvalidationCallBack)(CFMachPortRef port, void *info);

CF_EXPORT CFTypeID CFMachPortGetTypeID(void) RLCF_AS(CFMachPortGetTypeID, RLMachPortGetTypeID);
CF_EXPORT CFMachPortRef CFMachPortCreate(CFAllocatorRef allocator, CFMachPortCallBack callout, CFMachPortContext *context,
                                         Boolean *shouldFreeInfo) RLCF_(CFMachPortCreate);
/** Finds the object of a port of this process; NULL for any other number. */
CF_EXPORT CFMachPortRef CFMachPortCreateWithPort(CFAllocatorRef allocator, mach_port_t portNum, CFMachPortCallBack callout,
                                                 CFMachPortContext *context, Boolean *shouldFreeInfo)
    RLCF_(CFMachPortCreateWithPort);
CF_EXPORT mach_port_t CFMachPortGetPort(CFMachPortRef port) RLCF_(CFMachPortGetPort);
CF_EXPORT void CFMachPortGetContext(CFMachPortRef port, CFMachPortContext *context) RLCF_(CFMachPortGetContext);
CF_EXPORT void CFMachPortInvalidate(CFMachPortRef port) RLCF_AS(CFMachPortInvalidate, RLMachPortInvalidate);
CF_EXPORT Boolean CFMachPortIsValid(CFMachPortRef port) RLCF_AS(CFMachPortIsValid, RLMachPortIsValid);
CF_EXPORT CFMachPortInvalidationCallBack CFMachPortGetInvalidationCallBack(CFMachPortRef port)
    RLCF_(CFMachPortGetInvalidationCallBack);
CF_EXPORT void CFMachPortSetInvalidationCallBack(CFMachPortRef port, CFMachPortInvalidationCallBack callout)
    RLCF_(CFMachPortSetInvalidationCallBack);
CF_EXPORT CFRunLoopSourceRef CFMachPortCreateRunLoopSource(CFAllocatorRef allocator, CFMachPortRef port, CFIndex order)
    RLCF_(CFMachPortCreateRunLoopSource);

CF_EXTERN_C_END

#endif
