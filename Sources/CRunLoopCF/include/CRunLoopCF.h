/* SPDX-License-Identifier: MIT */
/*
 * What the Swift sources of librunloop-cf see of C: the public headers with CF names replaced by the symbols that they are bound
 * to (RLCFNames.h is generated from these headers), the records that constants are made of, and what only C can do.
 */
#ifndef C_RUNLOOP_CF_H
#define C_RUNLOOP_CF_H

#define RLCF_IMPLEMENTATION 1
#include "RLCFNames.h"

#include <CoreFoundation/CoreFoundation.h>
#include <mach/mach.h>
#include <runloop/runloop.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The first four bytes of every reference tell its type: up to 63 it is an object of librunloop, whose headers begin with the type as
 * well; then come the types of this library; this is a constant string. */
#define RLCF_CONSTANT_KIND ((uint32_t)0xb54643c5)

enum {
    RLCF_STRING = 64,
    RLCF_DATA = 65,
    RLCF_ARRAY = 66,
    RLCF_SET = 67,
    RLCF_DICTIONARY = 68,
    RLCF_NUMBER = 69,
    RLCF_BOOLEAN = 70,
    RLCF_NULL = 71,
    RLCF_ALLOCATOR = 72,
    RLCF_DATE = 73
};

/* Flags of an object. */
enum { RLCF_IMMORTAL = 1, RLCF_MUTABLE = 2 };

/* The first bytes of every object of this library. */
typedef struct RLCFHeader {
    uint32_t type;  /* written at creation and at death */
    uint32_t flags; /* fixed once the object is handed out */
    long references; /* atomic; of no meaning in an immortal object */
    struct RLCFAllocator *allocator; /* what gave the memory, retained */
} RLCFHeader;

typedef struct RLCFAllocator {
    RLCFHeader header;
    int kind; /* one of those below */
    CFAllocatorContext context;
} RLCFAllocator;
enum { RLCF_FROM_MALLOC, RLCF_FROM_NOTHING, RLCF_FROM_CONTEXT };

typedef struct RLCFNumber {
    RLCFHeader header;
    long type; /* SInt8 to Float64 */
    int64_t integer;
    double real; /* of a floating-point type */
} RLCFNumber;

extern RLCFAllocator rlcf_system, rlcf_malloc, rlcf_malloc_zone, rlcf_null_allocator;
extern RLCFHeader rlcf_true, rlcf_false, rlcf_nothing;
/* Addresses of constants, which Swift would take for variables. */
static inline const RLCFAllocator *rlcf_system_address(void) { return &rlcf_system; }
static inline CFBooleanRef rlcf_true_address(void) { return (CFBooleanRef)&rlcf_true; }
static inline CFAllocatorRef rlcf_use_context_address(void) { return kCFAllocatorUseContext; }
static inline CFArrayCallBacks rlcf_array_callbacks(void) { return kCFTypeArrayCallBacks; }

/* The type of what a reference points to; constants need not be aligned. */
static inline uint32_t rlcf_kind(const void *reference) {
    uint32_t kind;
    memcpy(&kind, reference, sizeof kind);
    /* In an object of librunloop's the upper half has marks. */
    return (kind & 0xffff) < RLCF_STRING ? kind & 0xffff : kind;
}

static inline void rlcf_retain(RLCFHeader *header) { __atomic_fetch_add(&header->references, 1, __ATOMIC_RELAXED); }
/* Whether that was the last reference. */
static inline bool rlcf_release(RLCFHeader *header) {
    return __atomic_sub_fetch(&header->references, 1, __ATOMIC_ACQ_REL) == 0;
}
enum { RLCF_ENDING = 1L << 40 };
static inline long rlcf_references(RLCFHeader *header) { return __atomic_load_n(&header->references, __ATOMIC_RELAXED) & (RLCF_ENDING - 1); }
/* The last reference is gone, and what the object holds is given back, by functions of the client's that may retain and release it. */
static inline void rlcf_end(RLCFHeader *header) { __atomic_store_n(&header->references, RLCF_ENDING, __ATOMIC_RELAXED); }

/* Writes "function: message" to standard error and aborts. */
_Noreturn void rlcf_trap(const char *function, const char *message);
/* Writes bytes to standard error. */
void rlcf_write(const void *bytes, size_t length);

/* The calling thread's default allocator; NULL: the system's. */
RLCFAllocator *rlcf_default_allocator(void);
void rlcf_set_default_allocator(RLCFAllocator *allocator);

/* The string made of a constant whose text is not ASCII; made once for each constant, by make. */
void *rlcf_constant(const void *constant, void *(*make)(const void *constant));

/* Upper and lower case of a character are one by this. */
uint32_t rlcf_fold(uint32_t character);
/* The units of Mac Roman's upper half. */
extern const uint16_t rlcf_mac_roman[128];
static inline uint16_t rlcf_mac_roman_unit(uint8_t byte) { return rlcf_mac_roman[byte - 0x80]; }

/* Formats: format.c parses, those of Format.swift append to the string. */
/* Makes a mutable string immutable. */
void rlcf_freeze(void *string);
void rlcf_append_bytes(void *string, const char *bytes, size_t length);
void rlcf_append_object(void *string, const void *object);
void rlcf_append_units(void *string, const uint16_t *units, size_t length);
/* snprintf, with numbers as C writes them. */
int rlcf_print(char *buffer, size_t size, const char *format, ...);
static inline void rlcf_print_double(char *buffer, size_t size, double value, int digits) {
    rlcf_print(buffer, size, "%.*g", digits, value);
}
bool rlcf_parse_double(const char *text, double *value);

/* The functions that take blocks, which are pointers here. */
void CFRunLoopPerformBlock(CFRunLoopRef rl, CFTypeRef mode, void *block);
CFRunLoopObserverRef CFRunLoopObserverCreateWithHandler(CFAllocatorRef allocator, CFOptionFlags activities, Boolean repeats,
                                                        CFIndex order, void *block);
CFRunLoopTimerRef CFRunLoopTimerCreateWithHandler(CFAllocatorRef allocator, CFAbsoluteTime fireDate, CFTimeInterval interval,
                                                  CFOptionFlags flags, CFIndex order, void *block);

/* The block runtime of the program; traps without one. */
void *rlcf_block_copy(const void *block);
void rlcf_block_release(const void *block);
/* Calls a block with no, one or two arguments. */
void rlcf_block_call(void *block);
void rlcf_block_call_timer(void *block, void *timer);
void rlcf_block_call_observer(void *block, void *observer, unsigned long activity);

/* Attaches the main dispatch queue if libdispatch came into the process since the last call. */
void rlcf_attach_main_queue(void);
/* A name that stays for good, with the string that make gives for it. */
typedef struct RLCFInterned {
    struct RLCFInterned *next;
    void *string;
    char text[];
} RLCFInterned;
const RLCFInterned *rlcf_intern(const char *text, void *(*make)(const char *text));

/* Ends a hold of a box; whether it was the last. */
static inline bool rlcf_box_release(long *holds) { return __atomic_sub_fetch(holds, 1, __ATOMIC_ACQ_REL) == 0; }
/* While the lock is held no box is freed that the info of a valid object names. No function of the program is called with it. */
void rlcf_lock_boxes(void);
void rlcf_unlock_boxes(void);

/* Calls a function, and frees the name after that, also if the thread ends in the call. */
void rlcf_call_with_name(void (*function)(const char *name, void *info), char *name, void *info);
/* Calls a function of the program's, and releases the string after that, also if the function ends its thread. */
void rlcf_call_with_mode(void (*function)(void *info, void *loop, const void *mode), void *info, void *loop, const void *mode);

static inline CFStringRef rlcf_default_mode(void) { return kCFRunLoopDefaultMode; }
static inline CFStringRef rlcf_common_modes(void) { return kCFRunLoopCommonModes; }

#endif
