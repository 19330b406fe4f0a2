/* Types, macros and calls that every other header of RunLoop builds on. */
#ifndef RUNLOOP_BASE_H
#define RUNLOOP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define RL_EXTERN_BEGIN extern "C" {
#define RL_EXTERN_END }
#else
#define RL_EXTERN_BEGIN
#define RL_EXTERN_END
#endif

/* The library hides every symbol that is not declared with this. */
#define RL_EXPORT extern __attribute__((visibility("default")))
#define RL_WARN_UNUSED_RESULT __attribute__((warn_unused_result))

/* Enumerations have a fixed type and are open: later versions add values. */
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

#define RL_VERSION_MAJOR 0
#define RL_VERSION_MINOR 1
#define RL_VERSION_PATCH 0

RL_HEADER_BEGIN

typedef const void *RLTypeRef;
typedef unsigned long RLTypeID;
typedef long RLIndex;
typedef unsigned long RLOptionFlags;
typedef unsigned long RLHashCode;
typedef double RLTimeInterval;
typedef double RLAbsoluteTime;
typedef int RLPort;
typedef const char *RLMode;

typedef struct RLRunLoop *RLRunLoopRef;
typedef struct RLSource *RLSourceRef;
typedef struct RLObserver *RLObserverRef;
typedef struct RLTimer *RLTimerRef;

RL_EXPORT const RLTimeInterval kRLAbsoluteTimeIntervalSince1970;

RL_EXPORT const char *RL_NONNULL RLGetVersion(void);

RL_EXPORT RLAbsoluteTime RLAbsoluteTimeGetCurrent(void);

RL_EXPORT RLTypeRef RL_NULLABLE RLRetain(RLTypeRef RL_NULLABLE obj);

RL_EXPORT void RLRelease(RLTypeRef RL_NULLABLE obj);

RL_EXPORT RLIndex RLGetRetainCount(RLTypeRef RL_NULLABLE obj);

RL_EXPORT bool RLEqual(RLTypeRef RL_NULLABLE a, RLTypeRef RL_NULLABLE b);

RL_EXPORT RLHashCode RLHash(RLTypeRef RL_NULLABLE obj);

RL_EXPORT RLTypeID RLGetTypeIDOf(RLTypeRef RL_NULLABLE obj);

RL_EXPORT char *RL_NULLABLE RLCopyDescription(RLTypeRef RL_NULLABLE obj) RL_WARN_UNUSED_RESULT;

RL_EXPORT void RLSetLogHandler(void (*RL_NULLABLE handler)(const char *RL_NONNULL line, void *RL_NULLABLE info),
                               void *RL_NULLABLE info);

RL_HEADER_END

#endif
