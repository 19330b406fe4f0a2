/* SPDX-License-Identifier: MIT */
/*
 * CFArrayRef: values in an order, immutable or mutable.
 *
 * callBacks: copied; NULL keeps plain pointers and compares them; kCFTypeArrayCallBacks is for CF objects. Every function may be
 * NULL. A range or an index outside the array traps. numValues and capacity: not negative; capacity limits nothing.
 */
#ifndef RUNLOOP_CF_ARRAY_H
#define RUNLOOP_CF_ARRAY_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

typedef const void *(*CFArrayRetainCallBack)(CFAllocatorRef allocator, const void *value);
typedef void (*CFArrayReleaseCallBack)(CFAllocatorRef allocator, const void *value);
typedef CFStringRef (*CFArrayCopyDescriptionCallBack)(const void *value);
typedef Boolean (*CFArrayEqualCallBack)(const void *value1, const void *value2);
/** What an array does with its values. version: 0. */
typedef struct {
    CFIndex version;
    CFArrayRetainCallBack retain;
    CFArrayReleaseCallBack release;
    CFArrayCopyDescriptionCallBack copyDescription;
    CFArrayEqualCallBack equal;
} CFArrayCallBacks;
/** For arrays of CF objects. */
CF_EXPORT const CFArrayCallBacks kCFTypeArrayCallBacks RLCF_CONSTANT_(CFTypeArrayCallBacks);

typedef void (*CFArrayApplierFunction)(const void *value, void *context);
typedef const struct __CFArray *CFArrayRef;
typedef struct __CFArray *CFMutableArrayRef;

CF_EXPORT CFTypeID CFArrayGetTypeID(void) RLCF_(CFArrayGetTypeID);
/** Makes an immutable array of numValues values, which are retained; values may be NULL for none. */
CF_EXPORT CFArrayRef CFArrayCreate(CFAllocatorRef allocator, const void **values, CFIndex numValues,
                                   const CFArrayCallBacks *callBacks) RLCF_(CFArrayCreate);
/** Makes an immutable array of the same values and callbacks. */
CF_EXPORT CFArrayRef CFArrayCreateCopy(CFAllocatorRef allocator, CFArrayRef theArray) RLCF_(CFArrayCreateCopy);
/** Makes an empty array that grows. */
CF_EXPORT CFMutableArrayRef CFArrayCreateMutable(CFAllocatorRef allocator, CFIndex capacity, const CFArrayCallBacks *callBacks)
    RLCF_(CFArrayCreateMutable);
/** Makes an array of the same values and callbacks that grows. */
CF_EXPORT CFMutableArrayRef CFArrayCreateMutableCopy(CFAllocatorRef allocator, CFIndex capacity, CFArrayRef theArray)
    RLCF_(CFArrayCreateMutableCopy);
/** The number of values. */
CF_EXPORT CFIndex CFArrayGetCount(CFArrayRef theArray) RLCF_(CFArrayGetCount);
/** How often a value is in a range. */
CF_EXPORT CFIndex CFArrayGetCountOfValue(CFArrayRef theArray, CFRange range, const void *value) RLCF_(CFArrayGetCountOfValue);
/** Whether a value is in a range. */
CF_EXPORT Boolean CFArrayContainsValue(CFArrayRef theArray, CFRange range, const void *value) RLCF_(CFArrayContainsValue);
/** The value at an index, borrowed. */
CF_EXPORT const void *CFArrayGetValueAtIndex(CFArrayRef theArray, CFIndex idx) RLCF_(CFArrayGetValueAtIndex);
/** Copies the values of a range, borrowed. */
CF_EXPORT void CFArrayGetValues(CFArrayRef theArray, CFRange range, const void **values) RLCF_(CFArrayGetValues);
/** Calls a function for each value of a range. */
CF_EXPORT void CFArrayApplyFunction(CFArrayRef theArray, CFRange range, CFArrayApplierFunction applier, void *context)
    RLCF_(CFArrayApplyFunction);
/** The first index of a value in a range; kCFNotFound. */
CF_EXPORT CFIndex CFArrayGetFirstIndexOfValue(CFArrayRef theArray, CFRange range, const void *value)
    RLCF_(CFArrayGetFirstIndexOfValue);
/** The last index of a value in a range; kCFNotFound. */
CF_EXPORT CFIndex CFArrayGetLastIndexOfValue(CFArrayRef theArray, CFRange range, const void *value)
    RLCF_(CFArrayGetLastIndexOfValue);
/** Searches a sorted range: the index of an equal value, else of the first greater one, else the end of the range. */
CF_EXPORT CFIndex CFArrayBSearchValues(CFArrayRef theArray, CFRange range, const void *value, CFComparatorFunction comparator,
                                       void *context) RLCF_(CFArrayBSearchValues);
/** Adds a value at the end. */
CF_EXPORT void CFArrayAppendValue(CFMutableArrayRef theArray, const void *value) RLCF_(CFArrayAppendValue);
/** Adds a value before the one at idx, or at the end. */
CF_EXPORT void CFArrayInsertValueAtIndex(CFMutableArrayRef theArray, CFIndex idx, const void *value)
    RLCF_(CFArrayInsertValueAtIndex);
/** Replaces the value at idx; idx may be the count, which adds. */
CF_EXPORT void CFArraySetValueAtIndex(CFMutableArrayRef theArray, CFIndex idx, const void *value) RLCF_(CFArraySetValueAtIndex);
/** Removes the value at idx. */
CF_EXPORT void CFArrayRemoveValueAtIndex(CFMutableArrayRef theArray, CFIndex idx) RLCF_(CFArrayRemoveValueAtIndex);
/** Removes all values. */
CF_EXPORT void CFArrayRemoveAllValues(CFMutableArrayRef theArray) RLCF_(CFArrayRemoveAllValues);
/** Puts newCount values in the place of a range. */
CF_EXPORT void CFArrayReplaceValues(CFMutableArrayRef theArray, CFRange range, const void **newValues, CFIndex newCount)
    RLCF_(CFArrayReplaceValues);
/** Exchanges two values. */
CF_EXPORT void CFArrayExchangeValuesAtIndices(CFMutableArrayRef theArray, CFIndex idx1, CFIndex idx2)
    RLCF_(CFArrayExchangeValuesAtIndices);
/** Sorts a range; equal values keep their order. */
CF_EXPORT void CFArraySortValues(CFMutableArrayRef theArray, CFRange range, CFComparatorFunction comparator, void *context)
    RLCF_(CFArraySortValues);
/** Adds a range of another array at the end. */
CF_EXPORT void CFArrayAppendArray(CFMutableArrayRef theArray, CFArrayRef otherArray, CFRange otherRange)
    RLCF_(CFArrayAppendArray);

CF_EXTERN_C_END

#endif
