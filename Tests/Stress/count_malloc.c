/* SPDX-License-Identifier: MIT */
#include "count_malloc.h"

atomic_long malloc_live_blocks, malloc_live_bytes;
_Thread_local volatile int malloc_forbidden;
atomic_ulong malloc_forbidden_calls;

#ifdef COUNT_MALLOC

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* The C library's own functions, under the names it keeps for this. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static void check_mark(void) {
    if (malloc_forbidden) atomic_fetch_add(&malloc_forbidden_calls, 1);
}

static void *made(void *block) {
    if (block != NULL) {
        atomic_fetch_add_explicit(&malloc_live_blocks, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&malloc_live_bytes, (long)malloc_usable_size(block), memory_order_relaxed);
    }
    return block;
}

static void gone(void *block) {
    if (block != NULL) {
        atomic_fetch_sub_explicit(&malloc_live_blocks, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&malloc_live_bytes, (long)malloc_usable_size(block), memory_order_relaxed);
    }
}

void *malloc(size_t size) {
    check_mark();
    return made(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
    check_mark();
    return made(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size) {
    check_mark();
    long before = block == NULL ? 0 : (long)malloc_usable_size(block);
    void *result = __libc_realloc(block, size);
    bool freed = block != NULL && (result != NULL || size == 0);
    if (freed) {
        atomic_fetch_sub_explicit(&malloc_live_blocks, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&malloc_live_bytes, before, memory_order_relaxed);
    }
    return made(result);
}

void *memalign(size_t alignment, size_t size) {
    check_mark();
    return made(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
    void *block = memalign(alignment, size);
    if (block == NULL) return ENOMEM;
    *result = block;
    return 0;
}

void free(void *block) {
    check_mark();
    gone(block);
    __libc_free(block);
}

#endif
