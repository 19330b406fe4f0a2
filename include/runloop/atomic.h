/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations with the meaning of Apple's OSAtomic functions, for programs that are ported.
 *
 *     static volatile int32_t users;
 *     if (RLAtomicIncrement32Barrier(&users) == 1) open_up();
 *
 * Each operation is a single step as seen by all other threads. A plain one orders nothing else;
 * one with Barrier in its name is a full barrier: all threads see what the caller did before it
 * before they see what the caller does after it. All functions are inline; none locks or calls the
 * library.
 * Values are aligned to their size, as variables are. No pointer is NULL.
 * Threads: any; all are async-signal-safe. Reentrancy: call-outs too; none calls a call-out.
 *
 * New code. <stdatomic.h> (C11), <atomic> (C++) and Synchronization (Swift) offer the same with
 * types that cannot be accessed non-atomically by mistake, and with exactly the order needed:
 *
 *     RLAtomicAdd32(n, &x)            atomic_fetch_add_explicit(&x, n, memory_order_relaxed) + n
 *     RLAtomicAdd32Barrier(n, &x)     atomic_fetch_add(&x, n) + n
 *     RLAtomicCompareAndSwap32(o, n, &x)  atomic_compare_exchange_strong_explicit(&x, &o, n,
 *                                         memory_order_relaxed, memory_order_relaxed)
 *     RLAtomicTestAndSet(b, &x)       atomic_fetch_or of the bit, by the library's order of bits
 *     RLMemoryBarrier()               atomic_thread_fence(memory_order_seq_cst); to publish data,
 *                                     memory_order_release and memory_order_acquire are enough
 *     a count of references           add relaxed, subtract acq_rel
 *     OSSpinLock                      RLLock (lock.h)
 *
 * CF: none; libkern/OSAtomic.h of Apple's systems. Rules: Docs/semantics.md, section 32.
 */
#ifndef RUNLOOP_ATOMIC_H
#define RUNLOOP_ATOMIC_H

#include "base.h"

RL_HEADER_BEGIN

/**
 * Add to a value.
 *
 * amount: the amount to add; overflow wraps around.
 * Returns: the new value.
 * CF: none; OSAtomicAdd32, OSAtomicAdd32Barrier, OSAtomicAdd64 and OSAtomicAdd64Barrier. Since 0.2.
 */
static inline int32_t RLAtomicAdd32(int32_t amount, volatile int32_t *RL_NONNULL value) {
    return __atomic_add_fetch(value, amount, __ATOMIC_RELAXED);
}
static inline int32_t RLAtomicAdd32Barrier(int32_t amount, volatile int32_t *RL_NONNULL value) {
    return __atomic_add_fetch(value, amount, __ATOMIC_SEQ_CST);
}
static inline int64_t RLAtomicAdd64(int64_t amount, volatile int64_t *RL_NONNULL value) {
    return __atomic_add_fetch(value, amount, __ATOMIC_RELAXED);
}
static inline int64_t RLAtomicAdd64Barrier(int64_t amount, volatile int64_t *RL_NONNULL value) {
    return __atomic_add_fetch(value, amount, __ATOMIC_SEQ_CST);
}

/**
 * Add 1 to a value; subtract 1 from it.
 *
 * Returns: the new value.
 * CF: none; OSAtomicIncrement32, OSAtomicDecrement32 and their like. Since 0.2.
 */
static inline int32_t RLAtomicIncrement32(volatile int32_t *RL_NONNULL value) {
    return RLAtomicAdd32(1, value);
}
static inline int32_t RLAtomicIncrement32Barrier(volatile int32_t *RL_NONNULL value) {
    return RLAtomicAdd32Barrier(1, value);
}
static inline int64_t RLAtomicIncrement64(volatile int64_t *RL_NONNULL value) {
    return RLAtomicAdd64(1, value);
}
static inline int64_t RLAtomicIncrement64Barrier(volatile int64_t *RL_NONNULL value) {
    return RLAtomicAdd64Barrier(1, value);
}
static inline int32_t RLAtomicDecrement32(volatile int32_t *RL_NONNULL value) {
    return RLAtomicAdd32(-1, value);
}
static inline int32_t RLAtomicDecrement32Barrier(volatile int32_t *RL_NONNULL value) {
    return RLAtomicAdd32Barrier(-1, value);
}
static inline int64_t RLAtomicDecrement64(volatile int64_t *RL_NONNULL value) {
    return RLAtomicAdd64(-1, value);
}
static inline int64_t RLAtomicDecrement64Barrier(volatile int64_t *RL_NONNULL value) {
    return RLAtomicAdd64Barrier(-1, value);
}

/**
 * Combine a value with a mask, bit by bit.
 *
 * Returns: the new value; the functions with Orig in their names return the old one.
 * CF: none; OSAtomicOr32, OSAtomicAnd32, OSAtomicXor32 and their like, which return the same bits as
 * an int32_t. Since 0.2.
 */
static inline uint32_t RLAtomicOr32(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_or_fetch(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicOr32Barrier(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_or_fetch(value, mask, __ATOMIC_SEQ_CST);
}
static inline uint32_t RLAtomicOr32Orig(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_or(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicOr32OrigBarrier(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_or(value, mask, __ATOMIC_SEQ_CST);
}
static inline uint32_t RLAtomicAnd32(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_and_fetch(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicAnd32Barrier(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_and_fetch(value, mask, __ATOMIC_SEQ_CST);
}
static inline uint32_t RLAtomicAnd32Orig(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_and(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicAnd32OrigBarrier(uint32_t mask,
                                                volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_and(value, mask, __ATOMIC_SEQ_CST);
}
static inline uint32_t RLAtomicXor32(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_xor_fetch(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicXor32Barrier(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_xor_fetch(value, mask, __ATOMIC_SEQ_CST);
}
static inline uint32_t RLAtomicXor32Orig(uint32_t mask, volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_xor(value, mask, __ATOMIC_RELAXED);
}
static inline uint32_t RLAtomicXor32OrigBarrier(uint32_t mask,
                                                volatile uint32_t *RL_NONNULL value) {
    return __atomic_fetch_xor(value, mask, __ATOMIC_SEQ_CST);
}

/**
 * Replace a value if it is the expected one.
 *
 * old_value: the expected value; new_value: the value that replaces it.
 * Returns: whether it was replaced.
 * CF: none; OSAtomicCompareAndSwap32, 64, Int, Long, Ptr and their Barrier forms. Since 0.2.
 */
static inline bool RLAtomicCompareAndSwap32(int32_t old_value, int32_t new_value,
                                            volatile int32_t *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool RLAtomicCompareAndSwap32Barrier(int32_t old_value, int32_t new_value,
                                                   volatile int32_t *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline bool RLAtomicCompareAndSwap64(int64_t old_value, int64_t new_value,
                                            volatile int64_t *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool RLAtomicCompareAndSwap64Barrier(int64_t old_value, int64_t new_value,
                                                   volatile int64_t *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline bool RLAtomicCompareAndSwapInt(int old_value, int new_value,
                                             volatile int *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool RLAtomicCompareAndSwapIntBarrier(int old_value, int new_value,
                                                    volatile int *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline bool RLAtomicCompareAndSwapLong(long old_value, long new_value,
                                              volatile long *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool RLAtomicCompareAndSwapLongBarrier(long old_value, long new_value,
                                                     volatile long *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
static inline bool RLAtomicCompareAndSwapPtr(void *RL_NULLABLE old_value, void *RL_NULLABLE new_value,
                                             void *RL_NULLABLE volatile *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool RLAtomicCompareAndSwapPtrBarrier(void *RL_NULLABLE old_value, void *RL_NULLABLE new_value,
                                                    void *RL_NULLABLE volatile *RL_NONNULL value) {
    return __atomic_compare_exchange_n(value, &old_value, new_value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/**
 * Set a bit; clear it.
 *
 * bit: its number, in the order of Apple's systems: bit n is 0x80 >> (n & 7) of byte n >> 3.
 * address: the byte with the bits 0 to 7.
 * Returns: whether the bit was set before.
 * CF: none; OSAtomicTestAndSet, OSAtomicTestAndClear and their Barrier forms. Since 0.2.
 */
static inline bool RLAtomicTestAndSet(uint32_t bit, volatile void *RL_NONNULL address) {
    volatile uint8_t *byte = (volatile uint8_t *)address + (bit >> 3);
    uint8_t mask = (uint8_t)(0x80u >> (bit & 7));
    return (__atomic_fetch_or(byte, (uint8_t)mask, __ATOMIC_RELAXED) & mask) != 0;
}
static inline bool RLAtomicTestAndSetBarrier(uint32_t bit, volatile void *RL_NONNULL address) {
    volatile uint8_t *byte = (volatile uint8_t *)address + (bit >> 3);
    uint8_t mask = (uint8_t)(0x80u >> (bit & 7));
    return (__atomic_fetch_or(byte, (uint8_t)mask, __ATOMIC_SEQ_CST) & mask) != 0;
}
static inline bool RLAtomicTestAndClear(uint32_t bit, volatile void *RL_NONNULL address) {
    volatile uint8_t *byte = (volatile uint8_t *)address + (bit >> 3);
    uint8_t mask = (uint8_t)(0x80u >> (bit & 7));
    return (__atomic_fetch_and(byte, (uint8_t)~mask, __ATOMIC_RELAXED) & mask) != 0;
}
static inline bool RLAtomicTestAndClearBarrier(uint32_t bit, volatile void *RL_NONNULL address) {
    volatile uint8_t *byte = (volatile uint8_t *)address + (bit >> 3);
    uint8_t mask = (uint8_t)(0x80u >> (bit & 7));
    return (__atomic_fetch_and(byte, (uint8_t)~mask, __ATOMIC_SEQ_CST) & mask) != 0;
}

/**
 * Makes all threads see what the caller did before the call before they see what it does after it.
 *
 * CF: none; OSMemoryBarrier. Since 0.2.
 */
static inline void RLMemoryBarrier(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

RL_HEADER_END

#endif
