/* SPDX-License-Identifier: MIT */
/*
 * CFDataRef: bytes, immutable or mutable.
 *
 * Immutable data from the default allocator are librunloop's RLDataRef: what sockets and ports hand out is kept by
 * CFRetain, without a copy. Lengths are not negative; a range outside the data traps. Capacities limit nothing.
 */
#ifndef RUNLOOP_CF_DATA_H
#define RUNLOOP_CF_DATA_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

typedef const struct __CFData *CFDataRef;
typedef struct __CFData *CFMutableDataRef;

CF_EXPORT CFTypeID CFDataGetTypeID(void) RLCF_(CFDataGetTypeID);
/** Copies bytes. */
CF_EXPORT CFDataRef CFDataCreate(CFAllocatorRef allocator, const UInt8 *bytes, CFIndex length) RLCF_(CFDataCreate);
/** Uses bytes without copying them; bytesDeallocator frees them with the data, kCFAllocatorNull never. NULL: the default. */
CF_EXPORT CFDataRef CFDataCreateWithBytesNoCopy(CFAllocatorRef allocator, const UInt8 *bytes, CFIndex length,
                                                CFAllocatorRef bytesDeallocator) RLCF_(CFDataCreateWithBytesNoCopy);
/** Makes immutable data of equal bytes. */
CF_EXPORT CFDataRef CFDataCreateCopy(CFAllocatorRef allocator, CFDataRef theData) RLCF_(CFDataCreateCopy);
/** Makes empty data that grow. */
CF_EXPORT CFMutableDataRef CFDataCreateMutable(CFAllocatorRef allocator, CFIndex capacity) RLCF_(CFDataCreateMutable);
/** Makes data of equal bytes that grow. */
CF_EXPORT CFMutableDataRef CFDataCreateMutableCopy(CFAllocatorRef allocator, CFIndex capacity, CFDataRef theData)
    RLCF_(CFDataCreateMutableCopy);
/** The number of bytes. */
CF_EXPORT CFIndex CFDataGetLength(CFDataRef theData) RLCF_(CFDataGetLength);
/** The first byte, borrowed; of mutable data valid until they change. */
CF_EXPORT const UInt8 *CFDataGetBytePtr(CFDataRef theData) RLCF_(CFDataGetBytePtr);
/** The first byte, to be written; valid until the length changes. */
CF_EXPORT UInt8 *CFDataGetMutableBytePtr(CFMutableDataRef theData) RLCF_(CFDataGetMutableBytePtr);
/** Copies a range. */
CF_EXPORT void CFDataGetBytes(CFDataRef theData, CFRange range, UInt8 *buffer) RLCF_(CFDataGetBytes);
/** Truncates the data, or lengthens them with zeros. */
CF_EXPORT void CFDataSetLength(CFMutableDataRef theData, CFIndex length) RLCF_(CFDataSetLength);
/** Lengthens the data with zeros. */
CF_EXPORT void CFDataIncreaseLength(CFMutableDataRef theData, CFIndex extraLength) RLCF_(CFDataIncreaseLength);
/** Adds bytes at the end. */
CF_EXPORT void CFDataAppendBytes(CFMutableDataRef theData, const UInt8 *bytes, CFIndex length) RLCF_(CFDataAppendBytes);
/** Puts newLength bytes in the place of a range. */
CF_EXPORT void CFDataReplaceBytes(CFMutableDataRef theData, CFRange range, const UInt8 *newBytes, CFIndex newLength)
    RLCF_(CFDataReplaceBytes);
/** Removes a range. */
CF_EXPORT void CFDataDeleteBytes(CFMutableDataRef theData, CFRange range) RLCF_(CFDataDeleteBytes);

/** How CFDataFind searches: from the end; only at the beginning, or end, of the range. */
typedef CF_OPTIONS(CFOptionFlags, CFDataSearchFlags) {
    kCFDataSearchBackwards = 1UL << 0,
    kCFDataSearchAnchored = 1UL << 1
};
/** Where bytes are in a range; {kCFNotFound, 0} if nowhere, and for empty bytes. */
CF_EXPORT CFRange CFDataFind(CFDataRef theData, CFDataRef dataToFind, CFRange searchRange, CFDataSearchFlags compareOptions)
    RLCF_(CFDataFind);

CF_EXTERN_C_END

#endif
