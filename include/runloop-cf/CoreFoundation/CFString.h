/* SPDX-License-Identifier: MIT */
/*
 * CFStringRef: text, immutable or mutable, a sequence of UTF-16 units.
 *
 * CFSTR("text") is a constant string, in UTF-8, which may also initialise a static variable and need not be released.
 * Indexes and ranges count units; outside the string they trap. Conversions that are impossible return NULL, false or 0.
 * Locales, normal forms, transforms and the comparisons that need them are not part of this interface.
 */
#ifndef RUNLOOP_CF_STRING_H
#define RUNLOOP_CF_STRING_H

#include <stdarg.h>

#include "CFArray.h"
#include "CFBase.h"
#include "CFData.h"
#include "CFDictionary.h"

CF_EXTERN_C_BEGIN

/* The first bytes of a constant string; its text follows. */
#define RLCF_CONSTANT_STRING "\305CF\265"
/** A constant string of a string literal. */
#ifndef __CONSTANT_CFSTRINGS__
#define __CONSTANT_CFSTRINGS__ 1
#endif
#define CFSTR(cStr) ((CFStringRef)(const void *)(RLCF_CONSTANT_STRING cStr ""))

/**
 * How text is made of bytes. An external representation in UTF-16 or UTF-32 without a named order is written with a byte order mark, and
 * read as big-endian if it has none; other text is in the processor's order. Bytes that ASCII has not are read as ISO Latin 1.
 */
typedef UInt32 CFStringEncoding;
#define kCFStringEncodingInvalidId (0xffffffffU)
typedef CF_ENUM(CFStringEncoding, CFStringBuiltInEncodings) {
    kCFStringEncodingMacRoman = 0,
    kCFStringEncodingISOLatin1 = 0x0201,
    kCFStringEncodingASCII = 0x0600,
    kCFStringEncodingUnicode = 0x0100,
    kCFStringEncodingUTF8 = 0x08000100,
    kCFStringEncodingUTF16 = 0x0100,
    kCFStringEncodingUTF16BE = 0x10000100,
    kCFStringEncodingUTF16LE = 0x14000100,
    kCFStringEncodingUTF32 = 0x0c000100,
    kCFStringEncodingUTF32BE = 0x18000100,
    kCFStringEncodingUTF32LE = 0x1c000100
};

CF_EXPORT CFTypeID CFStringGetTypeID(void) RLCF_(CFStringGetTypeID);

/* MARK: Making strings */

/** Makes a string of text that ends with a NUL. NULL if the text is invalid in the encoding. */
CF_EXPORT CFStringRef CFStringCreateWithCString(CFAllocatorRef alloc, const char *cStr, CFStringEncoding encoding)
    RLCF_(CFStringCreateWithCString);
/** The same of text that the string takes over: contentsDeallocator frees it, at any time until the string dies. */
CF_EXPORT CFStringRef CFStringCreateWithCStringNoCopy(CFAllocatorRef alloc, const char *cStr, CFStringEncoding encoding,
                                                      CFAllocatorRef contentsDeallocator)
    RLCF_(CFStringCreateWithCStringNoCopy);
/** Makes a string of numBytes bytes. isExternalRepresentation: a byte order mark at the beginning is not text. */
CF_EXPORT CFStringRef CFStringCreateWithBytes(CFAllocatorRef alloc, const UInt8 *bytes, CFIndex numBytes,
                                              CFStringEncoding encoding, Boolean isExternalRepresentation)
    RLCF_(CFStringCreateWithBytes);
/** The same of bytes that the string takes over. */
CF_EXPORT CFStringRef CFStringCreateWithBytesNoCopy(CFAllocatorRef alloc, const UInt8 *bytes, CFIndex numBytes,
                                                    CFStringEncoding encoding, Boolean isExternalRepresentation,
                                                    CFAllocatorRef contentsDeallocator) RLCF_(CFStringCreateWithBytesNoCopy);
/** Makes a string of UTF-16 units, whatever they are. */
CF_EXPORT CFStringRef CFStringCreateWithCharacters(CFAllocatorRef alloc, const UniChar *chars, CFIndex numChars)
    RLCF_(CFStringCreateWithCharacters);
/** The same of units that the string takes over. */
CF_EXPORT CFStringRef CFStringCreateWithCharactersNoCopy(CFAllocatorRef alloc, const UniChar *chars, CFIndex numChars,
                                                         CFAllocatorRef contentsDeallocator)
    RLCF_(CFStringCreateWithCharactersNoCopy);
/** Makes a string of a part of another. */
CF_EXPORT CFStringRef CFStringCreateWithSubstring(CFAllocatorRef alloc, CFStringRef str, CFRange range)
    RLCF_(CFStringCreateWithSubstring);
/** Makes an immutable string of equal text. */
CF_EXPORT CFStringRef CFStringCreateCopy(CFAllocatorRef alloc, CFStringRef theString) RLCF_(CFStringCreateCopy);
/** Makes a string as printf does, with %@ for objects. formatOptions: NULL. */
CF_EXPORT CFStringRef CFStringCreateWithFormat(CFAllocatorRef alloc, CFDictionaryRef formatOptions, CFStringRef format, ...)
    RLCF_(CFStringCreateWithFormat);
/** The same with a list of arguments. */
CF_EXPORT CFStringRef CFStringCreateWithFormatAndArguments(CFAllocatorRef alloc, CFDictionaryRef formatOptions,
                                                           CFStringRef format, va_list arguments)
    RLCF_(CFStringCreateWithFormatAndArguments);
/** Makes a string of the bytes of data, with a byte order mark or without. */
CF_EXPORT CFStringRef CFStringCreateFromExternalRepresentation(CFAllocatorRef alloc, CFDataRef data, CFStringEncoding encoding)
    RLCF_(CFStringCreateFromExternalRepresentation);
/** Makes an empty string that grows. maxLength: a hint. */
CF_EXPORT CFMutableStringRef CFStringCreateMutable(CFAllocatorRef alloc, CFIndex maxLength) RLCF_(CFStringCreateMutable);
/** Makes a string of equal text that grows. */
CF_EXPORT CFMutableStringRef CFStringCreateMutableCopy(CFAllocatorRef alloc, CFIndex maxLength, CFStringRef theString)
    RLCF_(CFStringCreateMutableCopy);
/** Joins an array of strings with a separator between them. */
CF_EXPORT CFStringRef CFStringCreateByCombiningStrings(CFAllocatorRef alloc, CFArrayRef theArray, CFStringRef separatorString)
    RLCF_(CFStringCreateByCombiningStrings);
/** Makes an array of what is between the separators. */
CF_EXPORT CFArrayRef CFStringCreateArrayBySeparatingStrings(CFAllocatorRef alloc, CFStringRef theString,
                                                            CFStringRef separatorString)
    RLCF_(CFStringCreateArrayBySeparatingStrings);

/* MARK: Reading strings */

/** The number of units. */
CF_EXPORT CFIndex CFStringGetLength(CFStringRef theString) RLCF_(CFStringGetLength);
/** The unit at an index. */
CF_EXPORT UniChar CFStringGetCharacterAtIndex(CFStringRef theString, CFIndex idx) RLCF_(CFStringGetCharacterAtIndex);
/** Copies the units of a range. */
CF_EXPORT void CFStringGetCharacters(CFStringRef theString, CFRange range, UniChar *buffer) RLCF_(CFStringGetCharacters);
/** Converts the whole string, with a NUL; false, and an empty buffer, if it does not fit or cannot be converted. */
CF_EXPORT Boolean CFStringGetCString(CFStringRef theString, char *buffer, CFIndex bufferSize, CFStringEncoding encoding)
    RLCF_(CFStringGetCString);
/** The text itself, borrowed, if it is ASCII and the encoding continues ASCII by bytes; else NULL. */
CF_EXPORT const char *CFStringGetCStringPtr(CFStringRef theString, CFStringEncoding encoding) RLCF_(CFStringGetCStringPtr);
/** The units themselves, borrowed, if the string keeps units; else NULL. */
CF_EXPORT const UniChar *CFStringGetCharactersPtr(CFStringRef theString) RLCF_(CFStringGetCharactersPtr);
/**
 * Converts as much of a range as fits into buffer (NULL: only counts) and returns how many units that were. lossByte: for
 * characters that the encoding does not have; 0: conversion ends there. isExternalRepresentation: with a byte order mark.
 */
CF_EXPORT CFIndex CFStringGetBytes(CFStringRef theString, CFRange range, CFStringEncoding encoding, UInt8 lossByte,
                                   Boolean isExternalRepresentation, UInt8 *buffer, CFIndex maxBufLen, CFIndex *usedBufLen)
    RLCF_(CFStringGetBytes);
/** Converts the whole string to data, with a byte order mark where the encoding names no order. */
CF_EXPORT CFDataRef CFStringCreateExternalRepresentation(CFAllocatorRef alloc, CFStringRef theString, CFStringEncoding encoding,
                                                         UInt8 lossByte) RLCF_(CFStringCreateExternalRepresentation);
/** Room that any text of so many units needs in an encoding, without a NUL; kCFNotFound if that is no number. */
CF_EXPORT CFIndex CFStringGetMaximumSizeForEncoding(CFIndex length, CFStringEncoding encoding)
    RLCF_(CFStringGetMaximumSizeForEncoding);
/** The encoding of C strings: UTF-8. */
CF_EXPORT CFStringEncoding CFStringGetSystemEncoding(void) RLCF_(CFStringGetSystemEncoding);
/** Whether an encoding is one of those above. */
CF_EXPORT Boolean CFStringIsEncodingAvailable(CFStringEncoding encoding) RLCF_(CFStringIsEncodingAvailable);
/** The integer at the beginning, after blanks; 0 if there is none, the nearest limit if it is too large. */
CF_EXPORT SInt32 CFStringGetIntValue(CFStringRef str) RLCF_(CFStringGetIntValue);
/** The number at the beginning, after blanks; 0 if there is none. */
CF_EXPORT double CFStringGetDoubleValue(CFStringRef str) RLCF_(CFStringGetDoubleValue);
/** Path names are UTF-8: converts the whole string, with a NUL. */
CF_EXPORT Boolean CFStringGetFileSystemRepresentation(CFStringRef string, char *buffer, CFIndex maxBufLen)
    RLCF_(CFStringGetFileSystemRepresentation);
/** The room that takes, with the NUL. */
CF_EXPORT CFIndex CFStringGetMaximumSizeOfFileSystemRepresentation(CFStringRef string)
    RLCF_(CFStringGetMaximumSizeOfFileSystemRepresentation);
/** Makes a string of a path name. */
CF_EXPORT CFStringRef CFStringCreateWithFileSystemRepresentation(CFAllocatorRef alloc, const char *buffer)
    RLCF_(CFStringCreateWithFileSystemRepresentation);

/* MARK: Comparing and finding */

/** Comparison: regardless of case. Searches: also from the end, and only at the beginning or end of the range. */
typedef CF_OPTIONS(CFOptionFlags, CFStringCompareFlags) {
    kCFCompareCaseInsensitive = 1,
    kCFCompareBackwards = 4,
    kCFCompareAnchored = 8
};

/** Compares two strings by units. */
CF_EXPORT CFComparisonResult CFStringCompare(CFStringRef theString1, CFStringRef theString2, CFStringCompareFlags compareOptions)
    RLCF_(CFStringCompare);
/** Compares a range of the first string with the second. */
CF_EXPORT CFComparisonResult CFStringCompareWithOptions(CFStringRef theString1, CFStringRef theString2, CFRange rangeToCompare,
                                                        CFStringCompareFlags compareOptions)
    RLCF_(CFStringCompareWithOptions);
/** Whether a string begins, or ends, with another. */
CF_EXPORT Boolean CFStringHasPrefix(CFStringRef theString, CFStringRef prefix) RLCF_(CFStringHasPrefix);
CF_EXPORT Boolean CFStringHasSuffix(CFStringRef theString, CFStringRef suffix) RLCF_(CFStringHasSuffix);
/** Where a string is in another; {kCFNotFound, 0} if nowhere, and for the empty string. */
CF_EXPORT CFRange CFStringFind(CFStringRef theString, CFStringRef stringToFind, CFStringCompareFlags compareOptions)
    RLCF_(CFStringFind);
/** Finds a string in a range of another; result gets the place and may be NULL. */
CF_EXPORT Boolean CFStringFindWithOptions(CFStringRef theString, CFStringRef stringToFind, CFRange rangeToSearch,
                                          CFStringCompareFlags searchOptions, CFRange *result)
    RLCF_(CFStringFindWithOptions);

/* MARK: Changing strings */

/** Adds text at the end. */
CF_EXPORT void CFStringAppend(CFMutableStringRef theString, CFStringRef appendedString) RLCF_(CFStringAppend);
CF_EXPORT void CFStringAppendCharacters(CFMutableStringRef theString, const UniChar *chars, CFIndex numChars)
    RLCF_(CFStringAppendCharacters);
/** Adds text that ends with a NUL; invalid text adds nothing. */
CF_EXPORT void CFStringAppendCString(CFMutableStringRef theString, const char *cStr, CFStringEncoding encoding)
    RLCF_(CFStringAppendCString);
/** Adds text as CFStringCreateWithFormat makes it. */
CF_EXPORT void CFStringAppendFormat(CFMutableStringRef theString, CFDictionaryRef formatOptions, CFStringRef format, ...)
    RLCF_(CFStringAppendFormat);
CF_EXPORT void CFStringAppendFormatAndArguments(CFMutableStringRef theString, CFDictionaryRef formatOptions, CFStringRef format,
                                                va_list arguments) RLCF_(CFStringAppendFormatAndArguments);
/** Puts text before the unit at idx, or at the end. */
CF_EXPORT void CFStringInsert(CFMutableStringRef str, CFIndex idx, CFStringRef insertedStr) RLCF_(CFStringInsert);
/** Removes a range. */
CF_EXPORT void CFStringDelete(CFMutableStringRef theString, CFRange range) RLCF_(CFStringDelete);
/** Puts text in the place of a range, or of everything. */
CF_EXPORT void CFStringReplace(CFMutableStringRef theString, CFRange range, CFStringRef replacement) RLCF_(CFStringReplace);
CF_EXPORT void CFStringReplaceAll(CFMutableStringRef theString, CFStringRef replacement) RLCF_(CFStringReplaceAll);
/** Replaces a string everywhere in a range and returns how often. */
CF_EXPORT CFIndex CFStringFindAndReplace(CFMutableStringRef theString, CFStringRef stringToFind, CFStringRef replacementString,
                                         CFRange rangeToSearch, CFStringCompareFlags compareOptions)
    RLCF_(CFStringFindAndReplace);
/** Removes a string at both ends, as often as it is there. */
CF_EXPORT void CFStringTrim(CFMutableStringRef theString, CFStringRef trimString) RLCF_(CFStringTrim);
/** Removes blanks, tabs and ends of lines at both ends. */
CF_EXPORT void CFStringTrimWhitespace(CFMutableStringRef theString) RLCF_(CFStringTrimWhitespace);

CF_EXTERN_C_END

#endif
