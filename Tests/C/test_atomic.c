/* SPDX-License-Identifier: MIT */
/* Section 32: atomic operations. */
#include "support.h"

#include <limits.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20000 };

RL_TEST(values, "S-ATOM-1", "Each operation returns the new value, with Orig the old one; sums wrap around") {
    int32_t small = 5;
    int64_t large = 5;
    ck_assert_int_eq(RLAtomicAdd32(3, &small), 8);
    ck_assert_int_eq(RLAtomicAdd32Barrier(-10, &small), -2);
    ck_assert_int_eq(RLAtomicIncrement32(&small), -1);
    ck_assert_int_eq(RLAtomicIncrement32Barrier(&small), 0);
    ck_assert_int_eq(RLAtomicDecrement32(&small), -1);
    ck_assert_int_eq(RLAtomicDecrement32Barrier(&small), -2);
    small = INT32_MAX;
    ck_assert_int_eq(RLAtomicIncrement32(&small), INT32_MIN);
    ck_assert_int_eq(RLAtomicAdd64(INT64_C(1) << 40, &large), (INT64_C(1) << 40) + 5);
    ck_assert_int_eq(RLAtomicAdd64Barrier(-(INT64_C(1) << 40), &large), 5);
    ck_assert_int_eq(RLAtomicIncrement64(&large), 6);
    ck_assert_int_eq(RLAtomicIncrement64Barrier(&large), 7);
    ck_assert_int_eq(RLAtomicDecrement64(&large), 6);
    ck_assert_int_eq(RLAtomicDecrement64Barrier(&large), 5);
    uint32_t bits = 0xf0f0;
    ck_assert_uint_eq(RLAtomicOr32(0x0f, &bits), 0xf0ff);
    ck_assert_uint_eq(RLAtomicOr32Barrier(0x10000, &bits), 0x1f0ff);
    ck_assert_uint_eq(RLAtomicOr32Orig(0x20000, &bits), 0x1f0ff);
    ck_assert_uint_eq(RLAtomicOr32OrigBarrier(0, &bits), 0x3f0ff);
    ck_assert_uint_eq(RLAtomicAnd32(0xffff, &bits), 0xf0ff);
    ck_assert_uint_eq(RLAtomicAnd32Barrier(0xff, &bits), 0xff);
    ck_assert_uint_eq(RLAtomicAnd32Orig(0x0f, &bits), 0xff);
    ck_assert_uint_eq(RLAtomicAnd32OrigBarrier(0x0e, &bits), 0x0f);
    ck_assert_uint_eq(RLAtomicXor32(0xff, &bits), 0xf1);
    ck_assert_uint_eq(RLAtomicXor32Barrier(0xff, &bits), 0x0e);
    ck_assert_uint_eq(RLAtomicXor32Orig(0xff, &bits), 0x0e);
    ck_assert_uint_eq(RLAtomicXor32OrigBarrier(0xff, &bits), 0xf1);
    ck_assert_uint_eq(bits, 0x0e);
}

#define CHECK_SWAP(suffix, type, first, second)                                \
    do {                                                                       \
        type value = first;                                                    \
        ck_assert(!RLAtomicCompareAndSwap##suffix(second, first, &value));     \
        ck_assert(value == first);                                             \
        ck_assert(RLAtomicCompareAndSwap##suffix(first, second, &value));      \
        ck_assert(value == second);                                            \
        ck_assert(!RLAtomicCompareAndSwap##suffix##Barrier(first, second, &value)); \
        ck_assert(RLAtomicCompareAndSwap##suffix##Barrier(second, first, &value));  \
        ck_assert(value == first);                                             \
    } while (0)

RL_TEST(compare_and_swap, "S-ATOM-2", "A value is replaced exactly if it is the expected one") {
    CHECK_SWAP(32, int32_t, INT32_MIN, 7);
    CHECK_SWAP(64, int64_t, INT64_MIN, 7);
    CHECK_SWAP(Int, int, -1, 7);
    CHECK_SWAP(Long, long, LONG_MIN, 7);
    static int one, two;
    CHECK_SWAP(Ptr, void *, (void *)&one, (void *)&two);
}

RL_TEST(bits, "S-ATOM-3", "Bits are counted from the highest one of the first byte on, and tell what they were") {
    const uint32_t numbers[] = {0, 7, 15};
    const uint8_t expected[][4] = {{0x80, 0, 0, 0}, {0x01, 0, 0, 0}, {0, 0x01, 0, 0}};
    for (int i = 0; i < 3; i++) {
        int32_t value = 0;
        ck_assert(!RLAtomicTestAndSet(numbers[i], &value));
        ck_assert_int_eq(memcmp(&value, expected[i], 4), 0);
        ck_assert(RLAtomicTestAndSetBarrier(numbers[i], &value));
        ck_assert(RLAtomicTestAndClear(numbers[i], &value));
        ck_assert(!RLAtomicTestAndClearBarrier(numbers[i], &value));
        ck_assert_int_eq(value, 0);
    }
    uint8_t bytes[3] = {0xff, 0xff, 0xff};
    ck_assert(RLAtomicTestAndClear(9, bytes));
    ck_assert_uint_eq(bytes[0], 0xff);
    ck_assert_uint_eq(bytes[1], 0xbf);
    ck_assert_uint_eq(bytes[2], 0xff);
}

static int32_t counter, swapped;
static uint32_t parity;
static uint8_t flag;
static long guarded;

static void count(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        RLAtomicIncrement32(&counter);
        RLAtomicXor32(1, &parity);
        int32_t old;
        do old = RLAtomicAdd32(0, &swapped);
        while (!RLAtomicCompareAndSwap32(old, old + 1, &swapped));
        while (RLAtomicTestAndSetBarrier(3, &flag)) sched_yield();
        guarded++;
        RLAtomicTestAndClearBarrier(3, &flag);
    }
}

RL_TEST(one_step, "S-ATOM-1 S-ATOM-2 S-ATOM-4", "Operations of several threads on one value all take effect, and a barrier guards plain memory") {
    Thread *threads[THREADS];
    for (int i = 0; i < THREADS; i++) threads[i] = thread_start(count, NULL);
    for (int i = 0; i < THREADS; i++) thread_join(threads[i]);
    ck_assert_int_eq(counter, THREADS * ROUNDS);
    ck_assert_int_eq(swapped, THREADS * ROUNDS);
    ck_assert_uint_eq(parity, 0);
    ck_assert_int_eq(guarded, THREADS * ROUNDS);
}

/* Each thread writes its own word and reads the other's: with a barrier in between one of them sees the other's. */
static int words[2], seen[2];
static RLBarrier barrier = RL_BARRIER_INIT(2);

static void write_and_read(void *number) {
    int me = *(int *)number;
    for (int i = 1; i <= ROUNDS; i++) {
        RLBarrierWait(&barrier);
        __atomic_store_n(&words[me], i, __ATOMIC_RELAXED);
        RLMemoryBarrier();
        seen[me] = __atomic_load_n(&words[1 - me], __ATOMIC_RELAXED) == i;
        RLBarrierWait(&barrier);
        ck_assert(seen[0] || seen[1]);
    }
}

RL_TEST(memory_barrier, "S-ATOM-4", "Of two threads that write and then read, with a barrier in between, one sees what the other wrote") {
    int numbers[] = {0, 1};
    Thread *other = thread_start(write_and_read, &numbers[1]);
    write_and_read(&numbers[0]);
    thread_join(other);
}
