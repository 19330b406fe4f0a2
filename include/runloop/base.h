/*
 * Types, macros and calls that every other header of RunLoop builds on, and the words they use.
 *
 * References. All objects are reference counted. What a function with Create or Copy in its name
 * returns is the caller's to release: objects with RLRelease, a char * or char ** with free. What a
 * Get function returns is borrowed. The library retains what it needs: an item may be released as
 * soon as it was added. Contexts are copied, their info retained.
 * NULL. A NULL object is allowed everywhere: actions do nothing, getters return 0, false or NULL,
 * and -1 for a descriptor; calls that return a code return the one for an error.
 * A reference of the wrong type is a mistake in the program: it traps, which is a line on standard
 * error and abort. So does running out of memory.
 * Names. Modes are UTF-8 strings compared by content; the library copies them.
 * Time. Dates are seconds since 2001-01-01 00:00 UTC on the wall clock, intervals are seconds.
 * Threads. "Any" is the rule. RLSourceSignal, RLWakeUp and RLStop are async-signal-safe; they need
 * at most 4 KiB of stack, and in a program that is bound lazily (no -z now) as much again at their
 * first call, for the dynamic linker. RLKernelEventSourceTrigger is async-signal-safe as well, and
 * no other function is.
 * Call-outs are the program's functions that the library calls: perform, timer, observer and queued
 * functions on the loop's thread, the others of contexts on the thread whose call causes them. No
 * lock of the library is held in any of them, so every call is allowed there, which "Reentrancy:
 * call-outs too" repeats; what follows says which of them the call itself may call.
 * pthread_cancel: no function of the library is a cancellation point, also not one that waits: what
 * is asked for acts at the first cancellation point in the program's own code, a call-out for
 * instance, and ends the thread there as pthread_exit does. To end a thread that waits in its loop,
 * cancel it and call RLStop. A thread whose cancellation type is asynchronous must not call the
 * library.
 * fork: the child may go on using the loop of the thread that forked; the parent never notices. Other
 * threads' loops are empty there and take nothing in, and what was in them may be used elsewhere. Not
 * in a signal handler, which may have interrupted the library; the child of _Fork or vfork may only
 * exec.
 * Rules: Docs/semantics.md, sections 0, 12 and 13.
 */
#ifndef RUNLOOP_BASE_H
#define RUNLOOP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* C linkage, for C++. */
#ifdef __cplusplus
#define RL_EXTERN_BEGIN extern "C" {
#define RL_EXTERN_END }
#else
#define RL_EXTERN_BEGIN
#define RL_EXTERN_END
#endif

/* The library hides every symbol that is not declared with this. */
#define RL_EXPORT extern __attribute__((visibility("default")))
/* The result is the caller's to release or free, so it must not be dropped. */
#define RL_WARN_UNUSED_RESULT __attribute__((warn_unused_result))

/* Enumerations have a fixed type and are open: later versions add values. RL_OPTIONS: bits. */
#if defined(__clang__) && defined(__cplusplus)
#define RL_ENUM(type, name) enum __attribute__((enum_extensibility(open))) name : type
#define RL_OPTIONS(type, name) enum __attribute__((flag_enum, enum_extensibility(open))) name : type
#elif defined(__clang__)
#define RL_ENUM(type, name) \
    __extension__ enum __attribute__((enum_extensibility(open))) name : type; \
    typedef enum name name; \
    __extension__ enum __attribute__((enum_extensibility(open))) name : type
#define RL_OPTIONS(type, name) \
    __extension__ enum __attribute__((flag_enum, enum_extensibility(open))) name : type; \
    typedef enum name name; \
    __extension__ enum __attribute__((flag_enum, enum_extensibility(open))) name : type
#elif defined(__cplusplus)
#define RL_ENUM(type, name) enum name : type
#define RL_OPTIONS(type, name) enum name : type
#else
#define RL_ENUM(type, name) typedef type name; enum
#define RL_OPTIONS(type, name) typedef type name; enum
#endif

/* RL_HEADER_BEGIN and RL_HEADER_END go around the declarations of a header, for C and for C++. */
/* Which pointers may be NULL, for Swift and for clang's analyser; gcc knows no such mark. */
#if defined(__clang__)
#define RL_NULLABLE _Nullable
#define RL_NONNULL _Nonnull
#define RL_HEADER_BEGIN \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wnullability-extension\"") RL_EXTERN_BEGIN
#define RL_HEADER_END RL_EXTERN_END _Pragma("clang diagnostic pop")
#else
#define RL_NULLABLE
#define RL_NONNULL
#define RL_HEADER_BEGIN RL_EXTERN_BEGIN
#define RL_HEADER_END RL_EXTERN_END
#endif

/* The version of these headers; RLGetVersion tells that of the library. */
#define RL_VERSION_MAJOR 0
#define RL_VERSION_MINOR 1
#define RL_VERSION_PATCH 0

RL_HEADER_BEGIN

/** A reference of any type of the library. CF: CFTypeRef. */
typedef const void *RLTypeRef;
/** Names a type of the library; constant for the life of the process. CF: CFTypeID. */
typedef unsigned long RLTypeID;
/** Counts, and the order of items. CF: CFIndex. */
typedef long RLIndex;
/** A set of bits. CF: CFOptionFlags. */
typedef unsigned long RLOptionFlags;
/** A hash value. CF: CFHashCode. */
typedef unsigned long RLHashCode;
/** A span of time in seconds. CF: CFTimeInterval. */
typedef double RLTimeInterval;
/** A date: seconds since 2001-01-01 00:00 UTC. CF: CFAbsoluteTime. */
typedef double RLAbsoluteTime;
/** A file descriptor; a port source is ready when it can be read. CF: mach_port_t on macOS. */
typedef int RLPort;
/** The name of a mode: UTF-8, NUL terminated. CF: CFRunLoopMode, a CFStringRef. */
typedef const char *RLMode;

/** The loop of a thread: loop.h. CF: CFRunLoopRef. */
typedef struct RLRunLoop *RLRunLoopRef;
/** A source, signalled by hand or by its port: source.h. CF: CFRunLoopSourceRef. */
typedef struct RLSource *RLSourceRef;
/** Calls a function at stages of a run: observer.h. CF: CFRunLoopObserverRef. */
typedef struct RLObserver *RLObserverRef;
/** A run whose waits another loop makes: foreign.h. CF: none. */
typedef struct RLForeignRun *RLForeignRunRef;
/** Calls a function at a date, once or repeatedly: timer.h. CF: CFRunLoopTimerRef. */
typedef struct RLTimer *RLTimerRef;

/**
 * Seconds from 1970-01-01 to 2001-01-01 UTC, 978307200.0: date + this is Unix time.
 * CF: kCFAbsoluteTimeIntervalSince1970. Since 0.1.
 */
RL_EXPORT const RLTimeInterval kRLAbsoluteTimeIntervalSince1970;

/**
 * Gives the version of the library that is loaded, as "major.minor.patch".
 *
 * Returns: a constant string, "0.1.0" for this version; never NULL, never to be freed.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT const char *RL_NONNULL RLGetVersion(void);

/**
 * Reads the wall clock.
 *
 * Returns: seconds since 2001-01-01 00:00 UTC. It jumps when the system's clock is set; deadlines
 * of runs and timers that are already set do not.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFAbsoluteTimeGetCurrent. Since 0.1.
 */
RL_EXPORT RLAbsoluteTime RLAbsoluteTimeGetCurrent(void);

/**
 * Adds a reference to an object.
 *
 * obj: any object of the library; NULL is returned as it is.
 * Returns: obj.
 * Threads: any. Ownership: each call needs one RLRelease. A retained loop outlives its thread as
 * memory only: nothing in it runs any more.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFRetain, which crashes on NULL. Since 0.1.
 */
RL_EXPORT RLTypeRef RL_NULLABLE RLRetain(RLTypeRef RL_NULLABLE obj);

/**
 * Gives back a reference; the last one frees the object.
 *
 * obj: an object the caller owns a reference to; NULL does nothing.
 * Errors: releasing more often than retained is a mistake in the program; for a loop it traps.
 * Threads: any. Ownership: the last release of an item calls its context's release, on this thread,
 * before the call returns; an item whose own callback is running is freed after that returned.
 * Reentrancy: call-outs too; may call release.
 * CF: CFRelease, which crashes on NULL. Since 0.1.
 */
RL_EXPORT void RLRelease(RLTypeRef RL_NULLABLE obj);

/**
 * Tells the number of references to an object, for debugging only.
 *
 * Returns: a count that each RLRetain raises by one and each RLRelease lowers by one; how many of
 * them the library holds is not promised. 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFGetRetainCount. Since 0.1.
 */
RL_EXPORT RLIndex RLGetRetainCount(RLTypeRef RL_NULLABLE obj);

/**
 * Tells whether two references mean equal objects.
 *
 * a, b: objects, also of different types; two NULLs are equal, NULL and an object are not.
 * Returns: true for the same object; for two data if their bytes are the same; for two sources if
 * source.h ("Equal sources") says so; false otherwise.
 * Threads: any. Reentrancy: call-outs too; calls a source's equal.
 * CF: CFEqual, which crashes on NULL. Since 0.1.
 */
RL_EXPORT bool RLEqual(RLTypeRef RL_NULLABLE a, RLTypeRef RL_NULLABLE b);

/**
 * Gives a hash of an object; equal objects have equal hashes.
 *
 * Returns: for a source what its context's hash says, or its info pointer without one; for other
 * types a number that does not change while the object lives; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls a source's hash.
 * CF: CFHash, which crashes on NULL. Since 0.1.
 */
RL_EXPORT RLHashCode RLHash(RLTypeRef RL_NULLABLE obj);

/**
 * Tells the type of an object.
 *
 * Returns: what the type's own function gives: RLGetTypeID for a loop, RLSourceGetTypeID for a
 * source, and so on; 0 for NULL, which is the id of no type.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFGetTypeID; the name is longer because RLGetTypeID is CFRunLoopGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLGetTypeIDOf(RLTypeRef RL_NULLABLE obj);

/**
 * Describes an object in words for logs and debuggers; the wording is not promised.
 *
 * Returns: a UTF-8 string, the caller's to free with free; NULL for NULL.
 * Threads: any. Ownership: what the context's copyDescription returns the library frees.
 * Reentrancy: call-outs too; calls the object's copyDescription, unless the object is a timer or
 * observer that was invalidated and so has no info any more.
 * CF: CFCopyDescription, which returns a CFStringRef. Since 0.1.
 */
RL_EXPORT char *RL_NULLABLE RLCopyDescription(RLTypeRef RL_NULLABLE obj) RL_WARN_UNUSED_RESULT;

/**
 * Sends the library's few log lines to a function instead of standard error, process-wide.
 *
 * handler: called with one line, without a newline; good during the call only. Names from outside
 *     are made printable in it. NULL goes back to standard error, one write per line.
 * info: handed to handler as it is; NULL is allowed. The library does not retain or free it.
 * Threads: any; handler runs on whichever thread has something to say, never inside RLSourceSignal,
 * RLWakeUp or RLStop. Reentrancy: call-outs too; the call itself calls nothing out.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLSetLogHandler(void (*RL_NULLABLE handler)(const char *RL_NONNULL line, void *RL_NULLABLE info),
                               void *RL_NULLABLE info);

RL_HEADER_END

#endif
