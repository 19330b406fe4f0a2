/* SPDX-License-Identifier: MIT */
/* The accesses of the explored core themselves, which the address sanitizer checks: the explorer's own inner parts are compiled
 * without it (CMakeLists.txt). */
#include "explore.h"

uint64_t read_word(const void *address, uint32_t size) {
    switch (size) {
    case 1: return __atomic_load_n((const uint8_t *)address, __ATOMIC_SEQ_CST);
    case 2: return __atomic_load_n((const uint16_t *)address, __ATOMIC_SEQ_CST);
    case 4: return __atomic_load_n((const uint32_t *)address, __ATOMIC_SEQ_CST);
    default: return __atomic_load_n((const uint64_t *)address, __ATOMIC_SEQ_CST);
    }
}

void write_word(void *address, uint32_t size, uint64_t value) {
    switch (size) {
    case 1: __atomic_store_n((uint8_t *)address, (uint8_t)value, __ATOMIC_SEQ_CST); break;
    case 2: __atomic_store_n((uint16_t *)address, (uint16_t)value, __ATOMIC_SEQ_CST); break;
    case 4: __atomic_store_n((uint32_t *)address, (uint32_t)value, __ATOMIC_SEQ_CST); break;
    default: __atomic_store_n((uint64_t *)address, value, __ATOMIC_SEQ_CST); break;
    }
}
