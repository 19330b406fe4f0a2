/*
 * RLDataRef: an immutable, reference-counted run of bytes.
 *
 * Where CoreFoundation hands out or keeps a CFDataRef, the library has an RLDataRef; where CF only
 * reads one, it takes a pointer and a length.
 * The bytes are copied when the object is made and never change, so that any number of threads may
 * read them without a lock. They stay where they are until the last reference is released.
 * RLRetain and RLRelease keep and drop a reference; RLEqual compares the bytes.
 * An empty RLDataRef is an object like any other. NULL counts as data of length 0 when read.
 * Rules: Docs/semantics.md, section 13 (References).
 */
#ifndef RUNLOOP_DATA_H
#define RUNLOOP_DATA_H

#include "base.h"

RL_HEADER_BEGIN

/** Bytes that never change. CF: CFDataRef. */
typedef const struct RLData *RLDataRef;

/**
 * Gives the type id of data, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFDataGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLDataGetTypeID(void);

/**
 * Copies bytes into a new object.
 *
 * bytes: the first byte; NULL gives empty data, whatever length says. length: their number.
 * Returns: the data; NULL if there is no memory for so many bytes.
 * Threads: any. Ownership: the caller's to release; bytes may be freed after the call.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFDataCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLDataRef RL_NULLABLE RLDataCreate(const void *RL_NULLABLE bytes, size_t length) RL_WARN_UNUSED_RESULT;

/**
 * Gives the address of the first byte.
 *
 * Returns: a pointer to RLDataGetLength bytes; NULL for NULL, and not to be read for length 0.
 * Threads: any. Ownership: borrowed; good for as long as the caller holds the data.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: CFDataGetBytePtr, which returns const UInt8 *. Since 0.1.
 */
RL_EXPORT const void *RL_NULLABLE RLDataGetBytePtr(RLDataRef RL_NULLABLE d);

/**
 * Gives the number of bytes.
 *
 * Returns: the length; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls nothing out.
 * CF: CFDataGetLength. Since 0.1.
 */
RL_EXPORT size_t RLDataGetLength(RLDataRef RL_NULLABLE d);

RL_HEADER_END

#endif
