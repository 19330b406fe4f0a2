/* SPDX-License-Identifier: MIT */
/*
 * An allocator whose pointers have marks in their upper bits, as with memory tagging: here a mark without hardware, so that memory
 * with it cannot be used, and the library must not try where it has no room for it.
 */
#define _GNU_SOURCE
#include "support.h"

#include <stdint.h>
#include <stdlib.h>

extern void __libc_free(void *memory);
extern void *__libc_memalign(size_t alignment, size_t size);

static int marked, unmarked;
static const uintptr_t mark = (uintptr_t)1 << 56;

void *aligned_alloc(size_t alignment, size_t size) {
    void *memory = __libc_memalign(alignment, size);
    if (alignment != 4096) return memory;
    __atomic_add_fetch(&marked, 1, __ATOMIC_SEQ_CST);
    return (void *)((uintptr_t)memory | mark);
}
void free(void *memory) {
    if ((uintptr_t)memory & mark) __atomic_add_fetch(&unmarked, 1, __ATOMIC_SEQ_CST);
    __libc_free((void *)((uintptr_t)memory & ~mark));
}

static int performed;
static void count(void *info) {
    (void)info;
    performed++;
}
static void post_and_run(void *unused) {
    (void)unused;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 100000; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (int i = 0; i < 1000; i++) RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count, NULL, NULL);
}

RL_TEST(pointers_with_marks, "S-BLK-3 S-LOOP-10",
        "Functions are queued and performed in order where the allocator marks its pointers, and the memory is given back") {
    thread_join(thread_start(post_and_run, NULL));
    ck_assert_int_eq(performed, 100000);
    ck_assert_int_gt(marked, 100000 / 128);
    ck_assert_int_eq(marked, unmarked);
}
