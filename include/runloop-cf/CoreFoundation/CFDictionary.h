/* SPDX-License-Identifier: MIT */
/*
 * CFDictionaryRef: values by keys, immutable or mutable, in no order.
 *
 * Callbacks: copied; NULL keeps plain pointers, which are compared; the kCFType… ones are for CF objects, and
 * kCFCopyStringDictionaryKeyCallBacks for strings, which are copied. Every function may be NULL. Capacities limit nothing.
 */
#ifndef RUNLOOP_CF_DICTIONARY_H
#define RUNLOOP_CF_DICTIONARY_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

typedef const void *(*CFDictionaryRetainCallBack)(CFAllocatorRef allocator, const void *value);
typedef void (*CFDictionaryReleaseCallBack)(CFAllocatorRef allocator, const void *value);
typedef CFStringRef (*CFDictionaryCopyDescriptionCallBack)(const void *value);
typedef Boolean (*CFDictionaryEqualCallBack)(const void *value1, const void *value2);
typedef CFHashCode (*CFDictionaryHashCallBack)(const void *value);
/** What a dictionary does with its keys. version: 0. */
typedef struct {
    CFIndex version;
    CFDictionaryRetainCallBack retain;
    CFDictionaryReleaseCallBack release;
    CFDictionaryCopyDescriptionCallBack copyDescription;
    CFDictionaryEqualCallBack equal;
    CFDictionaryHashCallBack hash;
} CFDictionaryKeyCallBacks;
/** What a dictionary does with its values. version: 0. */
typedef struct {
    CFIndex version;
    CFDictionaryRetainCallBack retain;
    CFDictionaryReleaseCallBack release;
    CFDictionaryCopyDescriptionCallBack copyDescription;
    CFDictionaryEqualCallBack equal;
} CFDictionaryValueCallBacks;
/** For keys that are CF objects. */
CF_EXPORT const CFDictionaryKeyCallBacks kCFTypeDictionaryKeyCallBacks RLCF_CONSTANT_(CFTypeDictionaryKeyCallBacks);
/** For keys that are strings, of which the dictionary keeps immutable copies. */
CF_EXPORT const CFDictionaryKeyCallBacks kCFCopyStringDictionaryKeyCallBacks
    RLCF_CONSTANT_(CFCopyStringDictionaryKeyCallBacks);
/** For values that are CF objects. */
CF_EXPORT const CFDictionaryValueCallBacks kCFTypeDictionaryValueCallBacks RLCF_CONSTANT_(CFTypeDictionaryValueCallBacks);

typedef void (*CFDictionaryApplierFunction)(const void *key, const void *value, void *context);
typedef const struct __CFDictionary *CFDictionaryRef;
typedef struct __CFDictionary *CFMutableDictionaryRef;

CF_EXPORT CFTypeID CFDictionaryGetTypeID(void) RLCF_(CFDictionaryGetTypeID);
/** Makes an immutable dictionary; of equal keys the first counts. */
CF_EXPORT CFDictionaryRef CFDictionaryCreate(CFAllocatorRef allocator, const void **keys, const void **values,
                                             CFIndex numValues, const CFDictionaryKeyCallBacks *keyCallBacks,
                                             const CFDictionaryValueCallBacks *valueCallBacks) RLCF_(CFDictionaryCreate);
/** Makes an immutable dictionary of the same content and callbacks. */
CF_EXPORT CFDictionaryRef CFDictionaryCreateCopy(CFAllocatorRef allocator, CFDictionaryRef theDict) RLCF_(CFDictionaryCreateCopy);
/** Makes an empty dictionary that grows. */
CF_EXPORT CFMutableDictionaryRef CFDictionaryCreateMutable(CFAllocatorRef allocator, CFIndex capacity,
                                                           const CFDictionaryKeyCallBacks *keyCallBacks,
                                                           const CFDictionaryValueCallBacks *valueCallBacks)
    RLCF_(CFDictionaryCreateMutable);
/** Makes a dictionary of the same content and callbacks that grows. */
CF_EXPORT CFMutableDictionaryRef CFDictionaryCreateMutableCopy(CFAllocatorRef allocator, CFIndex capacity,
                                                               CFDictionaryRef theDict) RLCF_(CFDictionaryCreateMutableCopy);
/** The number of keys. */
CF_EXPORT CFIndex CFDictionaryGetCount(CFDictionaryRef theDict) RLCF_(CFDictionaryGetCount);
/** 1 if the key is there, else 0. */
CF_EXPORT CFIndex CFDictionaryGetCountOfKey(CFDictionaryRef theDict, const void *key) RLCF_(CFDictionaryGetCountOfKey);
/** How often a value is there. */
CF_EXPORT CFIndex CFDictionaryGetCountOfValue(CFDictionaryRef theDict, const void *value) RLCF_(CFDictionaryGetCountOfValue);
/** Whether a key is there. */
CF_EXPORT Boolean CFDictionaryContainsKey(CFDictionaryRef theDict, const void *key) RLCF_(CFDictionaryContainsKey);
/** Whether a value is there. */
CF_EXPORT Boolean CFDictionaryContainsValue(CFDictionaryRef theDict, const void *value) RLCF_(CFDictionaryContainsValue);
/** The value of a key, borrowed; NULL if there is none. */
CF_EXPORT const void *CFDictionaryGetValue(CFDictionaryRef theDict, const void *key) RLCF_(CFDictionaryGetValue);
/** Whether a key is there; value gets its value and may be NULL. */
CF_EXPORT Boolean CFDictionaryGetValueIfPresent(CFDictionaryRef theDict, const void *key, const void **value)
    RLCF_(CFDictionaryGetValueIfPresent);
/** Copies all keys and values, borrowed, in one order; either may be NULL. */
CF_EXPORT void CFDictionaryGetKeysAndValues(CFDictionaryRef theDict, const void **keys, const void **values)
    RLCF_(CFDictionaryGetKeysAndValues);
/** Calls a function for each key; it must not change the dictionary. */
CF_EXPORT void CFDictionaryApplyFunction(CFDictionaryRef theDict, CFDictionaryApplierFunction applier, void *context)
    RLCF_(CFDictionaryApplyFunction);
/** Adds a key with its value, unless it is there. */
CF_EXPORT void CFDictionaryAddValue(CFMutableDictionaryRef theDict, const void *key, const void *value)
    RLCF_(CFDictionaryAddValue);
/** Adds a key, or replaces the one that is there, and its value. */
CF_EXPORT void CFDictionarySetValue(CFMutableDictionaryRef theDict, const void *key, const void *value)
    RLCF_(CFDictionarySetValue);
/** Replaces a key that is there, and its value. */
CF_EXPORT void CFDictionaryReplaceValue(CFMutableDictionaryRef theDict, const void *key, const void *value)
    RLCF_(CFDictionaryReplaceValue);
/** Removes a key that is there. */
CF_EXPORT void CFDictionaryRemoveValue(CFMutableDictionaryRef theDict, const void *key) RLCF_(CFDictionaryRemoveValue);
/** Removes all keys. */
CF_EXPORT void CFDictionaryRemoveAllValues(CFMutableDictionaryRef theDict) RLCF_(CFDictionaryRemoveAllValues);

CF_EXTERN_C_END

#endif
