/* SPDX-License-Identifier: MIT */
/*
 * CFSetRef: values without an order and without equals, immutable or mutable.
 *
 * callBacks: copied; NULL keeps plain pointers, which are compared; kCFTypeSetCallBacks is for CF objects,
 * kCFCopyStringSetCallBacks for strings, which are copied. Every function may be NULL. Capacities limit nothing.
 */
#ifndef RUNLOOP_CF_SET_H
#define RUNLOOP_CF_SET_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

typedef const void *(*CFSetRetainCallBack)(CFAllocatorRef allocator, const void *value);
typedef void (*CFSetReleaseCallBack)(CFAllocatorRef allocator, const void *value);
typedef CFStringRef (*CFSetCopyDescriptionCallBack)(const void *value);
typedef Boolean (*CFSetEqualCallBack)(const void *value1, const void *value2);
typedef CFHashCode (*CFSetHashCallBack)(const void *value);
/** What a set does with its values. version: 0. */
typedef struct {
    CFIndex version;
    CFSetRetainCallBack retain;
    CFSetReleaseCallBack release;
    CFSetCopyDescriptionCallBack copyDescription;
    CFSetEqualCallBack equal;
    CFSetHashCallBack hash;
} CFSetCallBacks;
/** For sets of CF objects. */
CF_EXPORT const CFSetCallBacks kCFTypeSetCallBacks RLCF_CONSTANT_(CFTypeSetCallBacks);
/** For sets of strings, of which the set keeps immutable copies. */
CF_EXPORT const CFSetCallBacks kCFCopyStringSetCallBacks RLCF_CONSTANT_(CFCopyStringSetCallBacks);

typedef void (*CFSetApplierFunction)(const void *value, void *context);
typedef const struct __CFSet *CFSetRef;
typedef struct __CFSet *CFMutableSetRef;

CF_EXPORT CFTypeID CFSetGetTypeID(void) RLCF_(CFSetGetTypeID);
/** Makes an immutable set; of equal values the first is kept. */
CF_EXPORT CFSetRef CFSetCreate(CFAllocatorRef allocator, const void **values, CFIndex numValues, const CFSetCallBacks *callBacks)
    RLCF_(CFSetCreate);
/** Makes an immutable set of the same content and callbacks. */
CF_EXPORT CFSetRef CFSetCreateCopy(CFAllocatorRef allocator, CFSetRef theSet) RLCF_(CFSetCreateCopy);
/** Makes an empty set that grows. */
CF_EXPORT CFMutableSetRef CFSetCreateMutable(CFAllocatorRef allocator, CFIndex capacity, const CFSetCallBacks *callBacks)
    RLCF_(CFSetCreateMutable);
/** Makes a set of the same content and callbacks that grows. */
CF_EXPORT CFMutableSetRef CFSetCreateMutableCopy(CFAllocatorRef allocator, CFIndex capacity, CFSetRef theSet)
    RLCF_(CFSetCreateMutableCopy);
/** The number of values. */
CF_EXPORT CFIndex CFSetGetCount(CFSetRef theSet) RLCF_(CFSetGetCount);
/** 1 if the value is there, else 0. */
CF_EXPORT CFIndex CFSetGetCountOfValue(CFSetRef theSet, const void *value) RLCF_(CFSetGetCountOfValue);
/** Whether a value is there. */
CF_EXPORT Boolean CFSetContainsValue(CFSetRef theSet, const void *value) RLCF_(CFSetContainsValue);
/** The value in the set that equals value, borrowed; NULL if there is none. */
CF_EXPORT const void *CFSetGetValue(CFSetRef theSet, const void *value) RLCF_(CFSetGetValue);
/** Whether an equal value is there; value gets it and may be NULL. */
CF_EXPORT Boolean CFSetGetValueIfPresent(CFSetRef theSet, const void *candidate, const void **value)
    RLCF_(CFSetGetValueIfPresent);
/** Copies all values, borrowed. */
CF_EXPORT void CFSetGetValues(CFSetRef theSet, const void **values) RLCF_(CFSetGetValues);
/** Calls a function for each value; it must not change the set. */
CF_EXPORT void CFSetApplyFunction(CFSetRef theSet, CFSetApplierFunction applier, void *context) RLCF_(CFSetApplyFunction);
/** Adds a value unless an equal one is there. */
CF_EXPORT void CFSetAddValue(CFMutableSetRef theSet, const void *value) RLCF_(CFSetAddValue);
/** Replaces the equal value that is there. */
CF_EXPORT void CFSetReplaceValue(CFMutableSetRef theSet, const void *value) RLCF_(CFSetReplaceValue);
/** Adds a value, or replaces the equal one that is there. */
CF_EXPORT void CFSetSetValue(CFMutableSetRef theSet, const void *value) RLCF_(CFSetSetValue);
/** Removes the equal value that is there. */
CF_EXPORT void CFSetRemoveValue(CFMutableSetRef theSet, const void *value) RLCF_(CFSetRemoveValue);
/** Removes all values. */
CF_EXPORT void CFSetRemoveAllValues(CFMutableSetRef theSet) RLCF_(CFSetRemoveAllValues);

CF_EXTERN_C_END

#endif
