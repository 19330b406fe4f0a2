/* SPDX-License-Identifier: MIT */
#include "contexts.h"

#include <stdint.h>
#include <string.h>

#include "outcome.h"
#include "program.h"

/* By bits, one for each generation. A program has fewer operations than there are bits. */
static uint64_t made[MAX_OBJECTS], released[MAX_OBJECTS];
static bool came_twice[MAX_OBJECTS];

void contexts_start(void) {
    memset(made, 0, sizeof made);
    memset(released, 0, sizeof released);
    memset(came_twice, 0, sizeof came_twice);
}

static uint64_t bit(int generation) { return 1ull << (generation & 63); }

void *context_make(int index, int generation) {
    made[index] |= bit(generation);
    return (void *)(uintptr_t)(index | generation << 8);
}
void context_unmake(int index, int generation) { made[index] &= ~bit(generation); }
int context_index(const void *info) { return (int)((uintptr_t)info & 0xff); }
int context_generation(const void *info) { return (int)((uintptr_t)info >> 8); }

void context_release(const void *info) {
    int index = context_index(info);
    uint64_t own = bit(context_generation(info));
    if (__atomic_fetch_or(&released[index], own, __ATOMIC_ACQ_REL) & own) __atomic_store_n(&came_twice[index], true, __ATOMIC_RELEASE);
}

bool context_is_released(int index, int generation) { return __atomic_load_n(&released[index], __ATOMIC_ACQUIRE) & bit(generation); }

void contexts_check(void) {
    for (int i = 0; i < MAX_OBJECTS; i++) {
        if (came_twice[i]) disagree("object %d: its context is released twice", i);
        if (made[i] != released[i]) disagree("object %d: its context is not released", i);
    }
}
