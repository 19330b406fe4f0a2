/* SPDX-License-Identifier: MIT */
/*
 * Types, macros and calls that every other header of RunLoop builds on, and the words they use.
 *
 * References. All objects are reference counted. What a function with Create or Copy in its name
 * returns is the caller's to release: objects with RLRelease, a char * or char ** with free. What a
 * Get function returns is borrowed. The library retains what it needs: an item may be released as
 * soon as it has been added. Contexts are copied, their info retained.
 * NULL. A NULL object is allowed everywhere: actions do nothing, getters return 0, false or NULL,
 * and -1 for a descriptor; calls that return a code return the one for an error.
 * A reference of the wrong type is a programming error and traps: the call writes a line to
 * standard error and aborts. Running out of memory traps too.
 * Names. Modes are UTF-8 strings compared by content; the library copies them.
 * Time. Dates are seconds since 2001-01-01 00:00 UTC on the wall clock, intervals are seconds.
 * Threads. Most functions may be called on any thread ("Threads: any"). RLSourceSignal, RLWakeUp,
 * RLStop, RLKernelEventSourceTrigger, RLSemaphoreSignal and the functions of atomic.h are
 * async-signal-safe, and no other function is. The first three need at most 4 KiB of stack; in a
 * program with lazy binding (no -z now) the first call of each needs as much again for the dynamic
 * linker.
 * Call-outs are functions of the program that the library calls. Perform, timer, observer and
 * queued functions run on the loop's thread; the other functions of a context run on the thread
 * whose call causes them. The library holds no lock while a call-out runs, so a call-out may call
 * every function. "Reentrancy: call-outs too" repeats that, and then names the call-outs that the
 * function itself may call.
 * pthread_cancel: no function of the library is a cancellation point, not even one that waits. A
 * cancellation takes effect at the next cancellation point in the program's own code, such as a
 * call-out, and ends the thread there as pthread_exit does. To end a thread that waits in its loop,
 * cancel it and call RLStop. While the loop of a thread that ends is torn down no cancellation
 * takes effect. If a thread ends in a function of a context other than cancel, the call that it
 * interrupts stays unfinished and its memory is not freed. A thread whose cancellation type is
 * asynchronous must not call the library.
 * Exceptions: a C++ exception must not leave a call-out. One that would leave it ends the process
 * by std::terminate, with the stack as it was at the throw.
 * Backtraces show what kind of call-out runs: the frame below it is called RLCallOutTimer,
 * RLCallOutSource and so on. Programs must not call these functions.
 * fork: in the child, the loop of the thread that forked goes on working; the parent is not
 * affected. The loops of all other threads are empty in the child and accept no items; items that
 * were in them may be added to other loops. Do not fork in a signal handler, which may have
 * interrupted the library. The child of _Fork or vfork, or one in another time namespace, may only exec.
 * Rules: Docs/semantics.md, sections 0, 12, 13 and 34.
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
/* The caller must release or free the result, so it must not be discarded. */
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

/* A conversion in a macro that programs use: the program's file may warn of casts. */
#if defined(__cplusplus)
#define RL_CAST_(type, value) static_cast<type>(value)
#else
#define RL_CAST_(type, value) ((type)(value))
#endif

/* RL_HEADER_BEGIN and RL_HEADER_END go around the declarations of a header, for C and for C++. */
/* Which pointers may be NULL, for Swift and for clang's analyser; gcc has no such attribute. */
#if defined(__clang__)
#define RL_NULLABLE _Nullable
#define RL_NONNULL _Nonnull
#define RL_HEADER_BEGIN \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wnullability-extension\"") \
    _Pragma("clang diagnostic ignored \"-Wold-style-cast\"") RL_EXTERN_BEGIN
#define RL_HEADER_END RL_EXTERN_END _Pragma("clang diagnostic pop")
#else
#define RL_NULLABLE
#define RL_NONNULL
#if defined(__cplusplus)
#define RL_HEADER_BEGIN \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"") RL_EXTERN_BEGIN
#define RL_HEADER_END RL_EXTERN_END _Pragma("GCC diagnostic pop")
#else
#define RL_HEADER_BEGIN RL_EXTERN_BEGIN
#define RL_HEADER_END RL_EXTERN_END
#endif
#endif

/* The version of these headers; RLGetVersion gives that of the library. */
#define RL_VERSION_MAJOR 0
#define RL_VERSION_MINOR 2
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
/** A source, signalled by the program or by its port: source.h. CF: CFRunLoopSourceRef. */
typedef struct RLSource *RLSourceRef;
/** Calls a function at stages of a run: observer.h. CF: CFRunLoopObserverRef. */
typedef struct RLObserver *RLObserverRef;
/** A run that waits in another event loop: foreign.h. CF: none. */
typedef struct RLForeignRun *RLForeignRunRef;
/** A clock that the program moves (clock.h). */
typedef struct RLClock *RLClockRef;
/** Calls a function at a date, once or repeatedly: timer.h. CF: CFRunLoopTimerRef. */
typedef struct RLTimer *RLTimerRef;

/**
 * Seconds from 1970-01-01 to 2001-01-01 UTC, 978307200.0: date + this is Unix time.
 * CF: kCFAbsoluteTimeIntervalSince1970. Since 0.1.
 */
RL_EXPORT const RLTimeInterval kRLAbsoluteTimeIntervalSince1970;

/**
 * Returns the version of the library that is loaded, as "major.minor.patch".
 *
 * Returns: a constant string, such as "0.2.0"; never NULL, never to be freed.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT const char *RL_NONNULL RLGetVersion(void);

/**
 * Reads the wall clock.
 *
 * Returns: seconds since 2001-01-01 00:00 UTC. It jumps when the system's clock is set; deadlines
 * of runs and timers that are already set do not.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
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
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFRetain, which crashes on NULL. Since 0.1.
 */
RL_EXPORT RLTypeRef RL_NULLABLE RLRetain(RLTypeRef RL_NULLABLE obj);

/**
 * Drops a reference; dropping the last one frees the object.
 *
 * obj: an object the caller owns a reference to; NULL does nothing.
 * Errors: releasing more often than retained is a mistake in the program; for a loop it traps.
 * Threads: any. Ownership: the last release of an item calls its context's release, on this thread,
 * before the call returns; an item whose own callback is running is freed after the callback.
 * Reentrancy: call-outs too; may call release.
 * CF: CFRelease, which crashes on NULL. Since 0.1.
 */
RL_EXPORT void RLRelease(RLTypeRef RL_NULLABLE obj);

/**
 * Returns the number of references to an object, for debugging only.
 *
 * Returns: a count that each RLRetain raises by one and each RLRelease lowers by one; it includes
 * an unspecified number of references that the library holds. 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFGetRetainCount. Since 0.1.
 */
RL_EXPORT RLIndex RLGetRetainCount(RLTypeRef RL_NULLABLE obj);

/**
 * Tells whether two objects are equal.
 *
 * a, b: objects of the same or of different types; two NULLs are equal, NULL and an object are not.
 * Returns: true for the same object, for two data objects with the same bytes, and for two sources
 * that are equal by source.h ("Equal sources"); false otherwise.
 * Threads: any. Reentrancy: call-outs too; calls a source's equal.
 * CF: CFEqual, which crashes on NULL. Since 0.1.
 */
RL_EXPORT bool RLEqual(RLTypeRef RL_NULLABLE a, RLTypeRef RL_NULLABLE b);

/**
 * Returns a hash of an object; equal objects have equal hashes.
 *
 * Returns: for a source, the result of its context's hash function or, without one, its info
 * pointer; for other types, a number that does not change while the object lives; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls a source's hash.
 * CF: CFHash, which crashes on NULL. Since 0.1.
 */
RL_EXPORT RLHashCode RLHash(RLTypeRef RL_NULLABLE obj);

/**
 * Tells the type of an object.
 *
 * Returns: what the type's own function returns: RLGetTypeID for a loop, RLSourceGetTypeID for a
 * source, and so on; 0 for NULL, which is the id of no type.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFGetTypeID; the name is longer because RLGetTypeID is CFRunLoopGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLGetTypeIDOf(RLTypeRef RL_NULLABLE obj);

/**
 * Describes an object in words for logs and debuggers; the wording is not promised.
 *
 * Returns: a UTF-8 string, which the caller frees with free; NULL for NULL.
 * Threads: any. Ownership: the library frees the string that the context's copyDescription returns.
 * Reentrancy: call-outs too; calls the object's copyDescription, unless the object is an invalid
 * timer or observer, which no longer has an info.
 * CF: CFCopyDescription, which returns a CFStringRef. Since 0.1.
 */
RL_EXPORT char *RL_NULLABLE RLCopyDescription(RLTypeRef RL_NULLABLE obj) RL_WARN_UNUSED_RESULT;

/**
 * Sends the library's few log lines to a function instead of standard error, process-wide.
 *
 * handler: called with one line, without a newline, which is valid during the call only. Names that
 *     come from outside the process are made printable in it. NULL restores the default: standard
 *     error, one write per line. There only a line on a wrong call waits for a reader; others are left
 *     out if a terminal, pipe or socket does not take them at once.
 * info: passed to handler as it is; NULL is allowed. The library does not retain or free it. A thread
 *     that logs during this call may still call the former handler after the call has returned: what
 *     that handler uses has to live as long as other threads call the library.
 * Threads: any; handler runs on the thread that logs, never inside RLSourceSignal, RLWakeUp or
 * RLStop. Reentrancy: call-outs too; the call itself calls no call-out.
 * CF: none. Since 0.1.
 */
RL_EXPORT void RLSetLogHandler(void (*RL_NULLABLE handler)(const char *RL_NONNULL line, void *RL_NULLABLE info),
                               void *RL_NULLABLE info);

RL_HEADER_END

#endif
