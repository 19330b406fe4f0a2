/* SPDX-License-Identifier: MIT */
/*
 * The base of the CoreFoundation interface: types, macros, ranges, references and allocators.
 *
 * These headers declare the names of Apple's CoreFoundation, so that a program written for it compiles
 * unchanged. The names exist for the compiler alone: each is bound to a symbol of librunloop-cf (CFRetain
 * to RLCFRetain) or of librunloop (CFRunLoopStop to RLStop), so that a process may also contain another CoreFoundation.
 * What is declared works; what is not there does not compile. Docs/porting.md has a table.
 *
 * References. What Create and Copy functions return is the caller's to release with CFRelease; what Get functions
 * return is borrowed. Loops, items and ports are librunloop's own objects: RL and CF calls may be mixed on them.
 * NULL, an object of another type and an index outside the object are mistakes of the program: they trap, which is a line on
 * standard error with the name of the call, and abort. Calls on loops, items, sockets and ports ignore NULL.
 * Threads. Immutable objects: any. A mutable string, data or collection: one thread at a time. Loops, items and
 * ports: any. CFRunLoopSourceSignal, CFRunLoopWakeUp and CFRunLoopStop are async-signal-safe.
 * No lock is held in any function of the program that the library calls; every call is allowed there.
 * Rules: Docs/semantics.md, section 29.
 */
#ifndef RUNLOOP_CF_BASE_H
#define RUNLOOP_CF_BASE_H

#include <TargetConditionals.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define CF_EXTERN_C_BEGIN extern "C" {
#define CF_EXTERN_C_END }
#else
#define CF_EXTERN_C_BEGIN
#define CF_EXTERN_C_END
#endif
#define CF_EXPORT extern
#define CF_INLINE static __inline__ __attribute__((unused))
#define CF_RETURNS_RETAINED
#define CF_RETURNS_NOT_RETAINED
#define CF_IMPLICIT_BRIDGING_ENABLED
#define CF_IMPLICIT_BRIDGING_DISABLED
#define CF_NOESCAPE

/* Enumerations: the name is an integer type, the constants have it where the compiler can say so. */
#if defined(__cplusplus)
#define RLCF_ENUM_PLAIN(type) enum : type
#elif defined(__clang__)
#define RLCF_ENUM_PLAIN(type) __extension__ enum : type
#else
#define RLCF_ENUM_PLAIN(type) enum
#endif
#define RLCF_ENUM_NAMED(type, name) type name; RLCF_ENUM_PLAIN(type)
#define RLCF_ENUM_PICK(first, second, chosen, ...) chosen
/* CF_ENUM(type, name), after typedef, or CF_ENUM(type). */
#define CF_ENUM(...) RLCF_ENUM_PICK(__VA_ARGS__, RLCF_ENUM_NAMED, RLCF_ENUM_PLAIN, )(__VA_ARGS__)
#define CF_OPTIONS(type, name) CF_ENUM(type, name)

/* RLCF_(name) binds a name to librunloop-cf's symbol, RLCF_AS(name, symbol) to one of librunloop. */
#ifdef RLCF_IMPLEMENTATION
#define RLCF_(name)
#define RLCF_CONSTANT_(name)
#define RLCF_AS(name, symbol)
#elif defined(__USER_LABEL_PREFIX__) && !defined(__ELF__)
#error "These headers are for ELF systems."
#else
#define RLCF_(name) __asm__("RL" #name)
#define RLCF_CONSTANT_(name) __asm__("kRL" #name)
#define RLCF_AS(name, symbol) __asm__(#symbol)
#endif

/* A word of the Mac's <sys/cdefs.h>. A program that includes <asm/stat.h>, where it is a member's name, undefines it before. */
#ifndef __unused
#define __unused __attribute__((unused))
#endif

#ifndef TRUE
#define TRUE 1
#endif
#ifndef FALSE
#define FALSE 0
#endif

CF_EXTERN_C_BEGIN

/* The integer types of the Mac. */
typedef unsigned char Boolean;
typedef unsigned char UInt8;
typedef signed char SInt8;
typedef unsigned short UInt16;
typedef signed short SInt16;
typedef unsigned int UInt32;
typedef signed int SInt32;
typedef uint64_t UInt64;
typedef int64_t SInt64;
typedef SInt32 OSStatus;
typedef SInt16 OSErr;
typedef float Float32;
typedef double Float64;
typedef UInt16 UniChar;
typedef unsigned long UniCharCount;
typedef UInt32 UTF32Char;
typedef UInt16 UTF16Char;
typedef UInt8 UTF8Char;
typedef UInt32 FourCharCode;
typedef FourCharCode OSType;

/** The id of a type, constant for the life of the process. */
typedef unsigned long CFTypeID;
/** A set of bits. */
typedef unsigned long CFOptionFlags;
/** A hash value. */
typedef unsigned long CFHashCode;
/** A count or an index. */
typedef signed long CFIndex;
/** A reference of any type. */
typedef const void *CFTypeRef;
/** A reference to a string, data, number, boolean, date, array or dictionary. */
typedef CFTypeRef CFPropertyListRef;
typedef const struct __CFString *CFStringRef;
typedef struct __CFString *CFMutableStringRef;
typedef const struct __CFAllocator *CFAllocatorRef;
typedef const struct __CFNull *CFNullRef;

/** What comparisons return. */
typedef CF_ENUM(CFIndex, CFComparisonResult) {
    kCFCompareLessThan = -1L,
    kCFCompareEqualTo = 0,
    kCFCompareGreaterThan = 1
};
/** Compares two values for a sort or a search. */
typedef CFComparisonResult (*CFComparatorFunction)(const void *val1, const void *val2, void *context);

/** No index. */
static const CFIndex kCFNotFound __attribute__((unused)) = -1;

/** Where a part begins and how long it is. */
typedef struct CFRange {
    CFIndex location;
    CFIndex length;
} CFRange;

/** Makes a range. */
CF_INLINE CFRange CFRangeMake(CFIndex location, CFIndex length) {
    CFRange range;
    range.location = location;
    range.length = length;
    return range;
}

/* MARK: References of any type */

/** Tells the type of an object. */
CF_EXPORT CFTypeID CFGetTypeID(CFTypeRef cf) RLCF_(CFGetTypeID);
/** Names a type, "CFString" for instance; the caller releases the string. NULL for no type. */
CF_EXPORT CFStringRef CFCopyTypeIDDescription(CFTypeID type_id) RLCF_(CFCopyTypeIDDescription);
/** Adds a reference and returns the object. */
CF_EXPORT CFTypeRef CFRetain(CFTypeRef cf) RLCF_(CFRetain);
/** Releases a reference; releasing the last one frees the object, which may call release functions of the program. */
CF_EXPORT void CFRelease(CFTypeRef cf) RLCF_(CFRelease);
/** Counts the references, for debugging; constants have LONG_MAX. */
CF_EXPORT CFIndex CFGetRetainCount(CFTypeRef cf) RLCF_(CFGetRetainCount);
/** Tells whether two objects are equal; objects of different types are not. */
CF_EXPORT Boolean CFEqual(CFTypeRef cf1, CFTypeRef cf2) RLCF_(CFEqual);
/** A hash; equal objects have equal ones. */
CF_EXPORT CFHashCode CFHash(CFTypeRef cf) RLCF_(CFHash);
/** Describes an object for people; the wording is not promised. The caller releases the string. */
CF_EXPORT CFStringRef CFCopyDescription(CFTypeRef cf) RLCF_(CFCopyDescription);
/** The allocator of an object; that of loops, items, sockets, ports and constants is the system's. */
CF_EXPORT CFAllocatorRef CFGetAllocator(CFTypeRef cf) RLCF_(CFGetAllocator);
/** Writes a line with the object's text, or its description, to standard error; NULL is "(null)". */
CF_EXPORT void CFShow(CFTypeRef obj) RLCF_(CFShow);
/** Returns the object: there is no garbage collector. */
CF_INLINE CFTypeRef CFMakeCollectable(CFTypeRef cf) { return cf; }

/** The object that stands for nothing where NULL is not allowed. */
CF_EXPORT const CFNullRef kCFNull RLCF_CONSTANT_(CFNull);
CF_EXPORT CFTypeID CFNullGetTypeID(void) RLCF_(CFNullGetTypeID);

/* MARK: Allocators */

/** NULL: the calling thread's default. */
CF_EXPORT const CFAllocatorRef kCFAllocatorDefault RLCF_CONSTANT_(CFAllocatorDefault);
/** malloc and free. */
CF_EXPORT const CFAllocatorRef kCFAllocatorSystemDefault RLCF_CONSTANT_(CFAllocatorSystemDefault);
CF_EXPORT const CFAllocatorRef kCFAllocatorMalloc RLCF_CONSTANT_(CFAllocatorMalloc);
CF_EXPORT const CFAllocatorRef kCFAllocatorMallocZone RLCF_CONSTANT_(CFAllocatorMallocZone);
/** Provides no memory and frees none: for bytes that stay the program's. */
CF_EXPORT const CFAllocatorRef kCFAllocatorNull RLCF_CONSTANT_(CFAllocatorNull);
/** To CFAllocatorCreate: the new allocator makes its own memory. */
CF_EXPORT const CFAllocatorRef kCFAllocatorUseContext RLCF_CONSTANT_(CFAllocatorUseContext);

typedef const void *(*CFAllocatorRetainCallBack)(const void *info);
typedef void (*CFAllocatorReleaseCallBack)(const void *info);
typedef CFStringRef (*CFAllocatorCopyDescriptionCallBack)(const void *info);
typedef void *(*CFAllocatorAllocateCallBack)(CFIndex allocSize, CFOptionFlags hint, void *info);
typedef void *(*CFAllocatorReallocateCallBack)(void *ptr, CFIndex newsize, CFOptionFlags hint, void *info);
typedef void (*CFAllocatorDeallocateCallBack)(void *ptr, void *info);
typedef CFIndex (*CFAllocatorPreferredSizeCallBack)(CFIndex size, CFOptionFlags hint, void *info);

/** What an allocator does; copied by CFAllocatorCreate. Memory must be aligned as malloc's. Functions may be NULL. */
typedef struct {
    CFIndex version;
    void *info;
    CFAllocatorRetainCallBack retain;
    CFAllocatorReleaseCallBack release;
    CFAllocatorCopyDescriptionCallBack copyDescription;
    CFAllocatorAllocateCallBack allocate;
    CFAllocatorReallocateCallBack reallocate;
    CFAllocatorDeallocateCallBack deallocate;
    CFAllocatorPreferredSizeCallBack preferredSize;
} CFAllocatorContext;

CF_EXPORT CFTypeID CFAllocatorGetTypeID(void) RLCF_(CFAllocatorGetTypeID);
/** Sets what NULL means on the calling thread; it is retained. NULL changes nothing. */
CF_EXPORT void CFAllocatorSetDefault(CFAllocatorRef allocator) RLCF_(CFAllocatorSetDefault);
/** What NULL means on the calling thread, borrowed. */
CF_EXPORT CFAllocatorRef CFAllocatorGetDefault(void) RLCF_(CFAllocatorGetDefault);
/** Makes an allocator of functions; allocator provides the memory for the object. It lives as long as what it made. */
CF_EXPORT CFAllocatorRef CFAllocatorCreate(CFAllocatorRef allocator, CFAllocatorContext *context) RLCF_(CFAllocatorCreate);
/** Memory of size bytes; NULL if there is none or size is not above 0. hint: 0. */
CF_EXPORT void *CFAllocatorAllocate(CFAllocatorRef allocator, CFIndex size, CFOptionFlags hint) RLCF_(CFAllocatorAllocate);
/** Grows or shrinks memory; ptr NULL allocates, newsize 0 frees. NULL if the allocator cannot. */
CF_EXPORT void *CFAllocatorReallocate(CFAllocatorRef allocator, void *ptr, CFIndex newsize, CFOptionFlags hint)
    RLCF_(CFAllocatorReallocate);
/** Frees memory through the allocator that it came from; NULL does nothing. */
CF_EXPORT void CFAllocatorDeallocate(CFAllocatorRef allocator, void *ptr) RLCF_(CFAllocatorDeallocate);
/** How much memory would be made for a request of size bytes. */
CF_EXPORT CFIndex CFAllocatorGetPreferredSizeForSize(CFAllocatorRef allocator, CFIndex size, CFOptionFlags hint)
    RLCF_(CFAllocatorGetPreferredSizeForSize);
/** Copies the context; its version must be 0 before the call. */
CF_EXPORT void CFAllocatorGetContext(CFAllocatorRef allocator, CFAllocatorContext *context) RLCF_(CFAllocatorGetContext);

CF_EXTERN_C_END

#endif
