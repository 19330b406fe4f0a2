/* SPDX-License-Identifier: MIT */
/*
 * CFNumberRef and CFBooleanRef: numbers and truth values as objects. They never change.
 */
#ifndef RUNLOOP_CF_NUMBER_H
#define RUNLOOP_CF_NUMBER_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

typedef const struct __CFBoolean *CFBooleanRef;
typedef const struct __CFNumber *CFNumberRef;

/** The two truth values; constants. */
CF_EXPORT const CFBooleanRef kCFBooleanTrue RLCF_CONSTANT_(CFBooleanTrue);
CF_EXPORT const CFBooleanRef kCFBooleanFalse RLCF_CONSTANT_(CFBooleanFalse);
CF_EXPORT CFTypeID CFBooleanGetTypeID(void) RLCF_(CFBooleanGetTypeID);
/** Whether it is kCFBooleanTrue. */
CF_EXPORT Boolean CFBooleanGetValue(CFBooleanRef boolean) RLCF_(CFBooleanGetValue);

/** What a number is made of or read as: types of fixed size, then those of C. */
typedef CF_ENUM(CFIndex, CFNumberType) {
    kCFNumberSInt8Type = 1,
    kCFNumberSInt16Type = 2,
    kCFNumberSInt32Type = 3,
    kCFNumberSInt64Type = 4,
    kCFNumberFloat32Type = 5,
    kCFNumberFloat64Type = 6,
    kCFNumberCharType = 7,
    kCFNumberShortType = 8,
    kCFNumberIntType = 9,
    kCFNumberLongType = 10,
    kCFNumberLongLongType = 11,
    kCFNumberFloatType = 12,
    kCFNumberDoubleType = 13,
    kCFNumberCFIndexType = 14,
    kCFNumberNSIntegerType = 15,
    kCFNumberCGFloatType = 16,
    kCFNumberMaxType = 16
};
/** Numbers that are not integers; constants. */
CF_EXPORT const CFNumberRef kCFNumberPositiveInfinity RLCF_CONSTANT_(CFNumberPositiveInfinity);
CF_EXPORT const CFNumberRef kCFNumberNegativeInfinity RLCF_CONSTANT_(CFNumberNegativeInfinity);
CF_EXPORT const CFNumberRef kCFNumberNaN RLCF_CONSTANT_(CFNumberNaN);

CF_EXPORT CFTypeID CFNumberGetTypeID(void) RLCF_(CFNumberGetTypeID);
/** Makes a number of what valuePtr points to. Another type than those above traps. */
CF_EXPORT CFNumberRef CFNumberCreate(CFAllocatorRef allocator, CFNumberType theType, const void *valuePtr) RLCF_(CFNumberCreate);
/** The type of fixed size that the number is kept in. */
CF_EXPORT CFNumberType CFNumberGetType(CFNumberRef number) RLCF_(CFNumberGetType);
/** The size of that type. */
CF_EXPORT CFIndex CFNumberGetByteSize(CFNumberRef number) RLCF_(CFNumberGetByteSize);
/** Whether it is kept as a floating-point number. */
CF_EXPORT Boolean CFNumberIsFloatType(CFNumberRef number) RLCF_(CFNumberIsFloatType);
/** Converts the number to a type; false if that changed its value. valuePtr still gets the result. */
CF_EXPORT Boolean CFNumberGetValue(CFNumberRef number, CFNumberType theType, void *valuePtr) RLCF_(CFNumberGetValue);
/** Compares two numbers by value, whatever their types; NaN comes after negative numbers and before the others. context: unused. */
CF_EXPORT CFComparisonResult CFNumberCompare(CFNumberRef number, CFNumberRef otherNumber, void *context) RLCF_(CFNumberCompare);

CF_EXTERN_C_END

#endif
