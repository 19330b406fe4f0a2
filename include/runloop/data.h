/* SPDX-License-Identifier: MIT */
/*
 * RLDataRef: an immutable, reference-counted sequence of bytes.
 *
 * Where CoreFoundation returns or keeps a CFDataRef, the library has an RLDataRef; where CF only
 * reads one, the library takes a pointer and a length.
 * The bytes are copied when the object is made and never change, so any number of threads may read
 * them without a lock. Their address does not change until the last reference is released.
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
 * Returns the type id of data, to compare with RLGetTypeIDOf.
 *
 * Returns: a number other than 0, the same for the life of the process.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFDataGetTypeID. Since 0.1.
 */
RL_EXPORT RLTypeID RLDataGetTypeID(void);

/**
 * Copies bytes into a new object.
 *
 * bytes: the first byte; NULL gives empty data, whatever the length. length: the number of bytes.
 * Returns: the data; NULL if there is not enough memory.
 * Threads: any. Ownership: the caller's to release; bytes may be freed after the call.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFDataCreate without the allocator. Since 0.1.
 */
RL_EXPORT RLDataRef RL_NULLABLE RLDataCreate(const void *RL_NULLABLE bytes, size_t length) RL_WARN_UNUSED_RESULT;

/**
 * Returns the address of the first byte.
 *
 * Returns: a pointer to RLDataGetLength bytes, which must not be read if the length is 0; NULL for
 * NULL.
 * Threads: any. Ownership: borrowed; valid for as long as the caller holds the data.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: CFDataGetBytePtr, which returns const UInt8 *. Since 0.1.
 */
RL_EXPORT const void *RL_NULLABLE RLDataGetBytePtr(RLDataRef RL_NULLABLE d);

/**
 * Returns the number of bytes.
 *
 * Returns: the length; 0 for NULL.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: CFDataGetLength. Since 0.1.
 */
RL_EXPORT size_t RLDataGetLength(RLDataRef RL_NULLABLE d);

RL_HEADER_END

#endif
