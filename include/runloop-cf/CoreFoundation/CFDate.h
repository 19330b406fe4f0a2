/* SPDX-License-Identifier: MIT */
/*
 * Dates: seconds since 2001-01-01 00:00 UTC on the wall clock, and CFDateRef, a date as an object.
 */
#ifndef RUNLOOP_CF_DATE_H
#define RUNLOOP_CF_DATE_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

/** A span of time in seconds. */
typedef double CFTimeInterval;
/** A date in seconds since 2001-01-01 00:00 UTC. */
typedef CFTimeInterval CFAbsoluteTime;
typedef const struct __CFDate *CFDateRef;

/** Reads the wall clock. */
CF_EXPORT CFAbsoluteTime CFAbsoluteTimeGetCurrent(void) RLCF_AS(CFAbsoluteTimeGetCurrent, RLAbsoluteTimeGetCurrent);
/** Seconds from 1970-01-01, and from 1904-01-01, to 2001-01-01. */
CF_EXPORT const CFTimeInterval kCFAbsoluteTimeIntervalSince1970 RLCF_CONSTANT_(CFAbsoluteTimeIntervalSince1970);
CF_EXPORT const CFTimeInterval kCFAbsoluteTimeIntervalSince1904 RLCF_CONSTANT_(CFAbsoluteTimeIntervalSince1904);

CF_EXPORT CFTypeID CFDateGetTypeID(void) RLCF_(CFDateGetTypeID);
/** Makes a date object. */
CF_EXPORT CFDateRef CFDateCreate(CFAllocatorRef allocator, CFAbsoluteTime at) RLCF_(CFDateCreate);
/** The date in seconds. */
CF_EXPORT CFAbsoluteTime CFDateGetAbsoluteTime(CFDateRef theDate) RLCF_(CFDateGetAbsoluteTime);
/** The seconds from otherDate to theDate. */
CF_EXPORT CFTimeInterval CFDateGetTimeIntervalSinceDate(CFDateRef theDate, CFDateRef otherDate)
    RLCF_(CFDateGetTimeIntervalSinceDate);
/** Compares two dates; the earlier is the lesser. context: unused. */
CF_EXPORT CFComparisonResult CFDateCompare(CFDateRef theDate, CFDateRef otherDate, void *context) RLCF_(CFDateCompare);

CF_EXTERN_C_END

#endif
