/* SPDX-License-Identifier: MIT */
/*
 * CFFileDescriptorRef: callbacks when a descriptor can be read or written.
 *
 * The manual is <runloop/filedescriptor.h>, call by call. The allocator of a Create call is not used.
 */
#ifndef RUNLOOP_CF_FILEDESCRIPTOR_H
#define RUNLOOP_CF_FILEDESCRIPTOR_H

#include "CFRunLoop.h"

CF_EXTERN_C_BEGIN

typedef int CFFileDescriptorNativeDescriptor;
typedef struct __CFFileDescriptor *CFFileDescriptorRef;

/** What is reported; a report disables it. */
CF_ENUM(CFOptionFlags) {
    kCFFileDescriptorReadCallBack = 1UL << 0,
    kCFFileDescriptorWriteCallBack = 1UL << 1
};

typedef void (*CFFileDescriptorCallBack)(CFFileDescriptorRef f, CFOptionFlags callBackTypes, void *info);

/** The info of an object: RLFileDescriptorContext. version: 0. */
typedef struct {
    CFIndex version;
    void *info;
    void *(*retain)(void *info);
    void (*release)(void *info);
    CFStringRef (*copyDescription)(void *info);
} CFFileDescriptorContext;

CF_EXPORT CFTypeID CFFileDescriptorGetTypeID(void) RLCF_AS(CFFileDescriptorGetTypeID, RLFileDescriptorGetTypeID);
CF_EXPORT CFFileDescriptorRef CFFileDescriptorCreate(CFAllocatorRef allocator, CFFileDescriptorNativeDescriptor fd,
                                                     Boolean closeOnInvalidate, CFFileDescriptorCallBack callout,
                                                     const CFFileDescriptorContext *context) RLCF_(CFFileDescriptorCreate);
CF_EXPORT CFFileDescriptorNativeDescriptor CFFileDescriptorGetNativeDescriptor(CFFileDescriptorRef f)
    RLCF_AS(CFFileDescriptorGetNativeDescriptor, RLFileDescriptorGetNativeDescriptor);
CF_EXPORT void CFFileDescriptorGetContext(CFFileDescriptorRef f, CFFileDescriptorContext *context)
    RLCF_(CFFileDescriptorGetContext);
CF_EXPORT void CFFileDescriptorEnableCallBacks(CFFileDescriptorRef f, CFOptionFlags callBackTypes)
    RLCF_AS(CFFileDescriptorEnableCallBacks, RLFileDescriptorEnableCallBacks);
CF_EXPORT void CFFileDescriptorDisableCallBacks(CFFileDescriptorRef f, CFOptionFlags callBackTypes)
    RLCF_AS(CFFileDescriptorDisableCallBacks, RLFileDescriptorDisableCallBacks);
CF_EXPORT void CFFileDescriptorInvalidate(CFFileDescriptorRef f) RLCF_AS(CFFileDescriptorInvalidate, RLFileDescriptorInvalidate);
CF_EXPORT Boolean CFFileDescriptorIsValid(CFFileDescriptorRef f) RLCF_AS(CFFileDescriptorIsValid, RLFileDescriptorIsValid);
CF_EXPORT CFRunLoopSourceRef CFFileDescriptorCreateRunLoopSource(CFAllocatorRef allocator, CFFileDescriptorRef f, CFIndex order)
    RLCF_(CFFileDescriptorCreateRunLoopSource);

CF_EXTERN_C_END

#endif
