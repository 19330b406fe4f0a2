/* SPDX-License-Identifier: MIT */
/* The constants of the CoreFoundation interface, as plain data, and the objects behind them. */
#include "CRunLoopCF.h"

#define HEADER(number, allocator) {number, RLCF_IMMORTAL, 1, allocator}
#define ALLOCATOR(kind) {HEADER(RLCF_ALLOCATOR, &rlcf_system), kind, {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}}

RLCFAllocator rlcf_system = ALLOCATOR(RLCF_FROM_MALLOC);
RLCFAllocator rlcf_malloc = ALLOCATOR(RLCF_FROM_MALLOC);
RLCFAllocator rlcf_malloc_zone = ALLOCATOR(RLCF_FROM_MALLOC);
RLCFAllocator rlcf_null_allocator = ALLOCATOR(RLCF_FROM_NOTHING);
/* Its address alone counts. */
static RLCFAllocator useContext = ALLOCATOR(RLCF_FROM_NOTHING);

const CFAllocatorRef kCFAllocatorDefault = NULL;
const CFAllocatorRef kCFAllocatorSystemDefault = (CFAllocatorRef)&rlcf_system;
const CFAllocatorRef kCFAllocatorMalloc = (CFAllocatorRef)&rlcf_malloc;
const CFAllocatorRef kCFAllocatorMallocZone = (CFAllocatorRef)&rlcf_malloc_zone;
const CFAllocatorRef kCFAllocatorNull = (CFAllocatorRef)&rlcf_null_allocator;
const CFAllocatorRef kCFAllocatorUseContext = (CFAllocatorRef)&useContext;

RLCFHeader rlcf_true = HEADER(RLCF_BOOLEAN, &rlcf_system);
RLCFHeader rlcf_false = HEADER(RLCF_BOOLEAN, &rlcf_system);
RLCFHeader rlcf_nothing = HEADER(RLCF_NULL, &rlcf_system);
const CFBooleanRef kCFBooleanTrue = (CFBooleanRef)&rlcf_true;
const CFBooleanRef kCFBooleanFalse = (CFBooleanRef)&rlcf_false;
const CFNullRef kCFNull = (CFNullRef)&rlcf_nothing;

#define REAL(value) {HEADER(RLCF_NUMBER, &rlcf_system), kCFNumberFloat64Type, 0, value}
static RLCFNumber positiveInfinity = REAL(INFINITY), negativeInfinity = REAL(-INFINITY), notANumber = REAL(NAN);
const CFNumberRef kCFNumberPositiveInfinity = (CFNumberRef)&positiveInfinity;
const CFNumberRef kCFNumberNegativeInfinity = (CFNumberRef)&negativeInfinity;
const CFNumberRef kCFNumberNaN = (CFNumberRef)&notANumber;

const CFTimeInterval kCFAbsoluteTimeIntervalSince1970 = 978307200.0;
const CFTimeInterval kCFAbsoluteTimeIntervalSince1904 = 3061152000.0;

const CFRunLoopMode kCFRunLoopDefaultMode = CFSTR("kCFRunLoopDefaultMode");
const CFRunLoopMode kCFRunLoopCommonModes = CFSTR("kCFRunLoopCommonModes");
const CFStringRef kCFSocketCommandKey = CFSTR("Command");
const CFStringRef kCFSocketNameKey = CFSTR("Name");
const CFStringRef kCFSocketValueKey = CFSTR("Value");
const CFStringRef kCFSocketResultKey = CFSTR("Result");
const CFStringRef kCFSocketErrorKey = CFSTR("Error");
const CFStringRef kCFSocketRegisterCommand = CFSTR("Register");
const CFStringRef kCFSocketRetrieveCommand = CFSTR("Retrieve");

/* Retain and release of collections. */
static const void *retainValue(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    return CFRetain(value);
}

static void releaseValue(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    CFRelease(value);
}

static const void *copyString(CFAllocatorRef allocator, const void *value) {
    return CFStringCreateCopy(allocator, (CFStringRef)value);
}

const CFArrayCallBacks kCFTypeArrayCallBacks = {0, retainValue, releaseValue, CFCopyDescription, CFEqual};
const CFSetCallBacks kCFTypeSetCallBacks = {0, retainValue, releaseValue, CFCopyDescription, CFEqual, CFHash};
const CFSetCallBacks kCFCopyStringSetCallBacks = {0, copyString, releaseValue, CFCopyDescription, CFEqual, CFHash};
const CFDictionaryKeyCallBacks kCFTypeDictionaryKeyCallBacks = {0, retainValue, releaseValue, CFCopyDescription, CFEqual, CFHash};
const CFDictionaryKeyCallBacks kCFCopyStringDictionaryKeyCallBacks = {0, copyString, releaseValue, CFCopyDescription, CFEqual,
                                                                      CFHash};
const CFDictionaryValueCallBacks kCFTypeDictionaryValueCallBacks = {0, retainValue, releaseValue, CFCopyDescription, CFEqual};
