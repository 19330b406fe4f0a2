/* SPDX-License-Identifier: MIT */
/* What the explored core calls: every atomic access, and every pause of a spinning thread. Each call first asks the scheduler
 * which thread goes next, and then makes the access itself. */
#ifndef EXPLORE_HOOKS_H
#define EXPLORE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

/* As Swift names them. */
enum { RLX_RELAXED, RLX_ACQUIRING, RLX_RELEASING, RLX_ACQUIRING_AND_RELEASING, RLX_SEQUENTIALLY_CONSISTENT };

enum { RLX_EXCHANGE, RLX_ADD, RLX_SUBTRACT, RLX_AND, RLX_OR, RLX_XOR };

/* A value has size bytes, 1 to 8, in the lowest bytes of a word. The site is the place in the source. */
uint64_t rlx_load(const void *address, uint32_t size, int32_t order, const char *file, uint32_t line);
void rlx_store(void *address, uint32_t size, uint64_t value, int32_t order, const char *file, uint32_t line);
/* The value before. */
uint64_t rlx_modify(void *address, uint32_t size, int32_t operation, uint64_t operand, int32_t order, const char *file,
                    uint32_t line);
/* The value before; the exchange was made if that is expected. */
uint64_t rlx_compare_exchange(void *address, uint32_t size, uint64_t expected, uint64_t desired, int32_t order,
                              int32_t failure_order, const char *file, uint32_t line);
void rlx_pause(void);
/* Whether a fault that a patch of plants/ puts back is to be there in this run. */
bool rlx_planted(const char *name);

#endif
