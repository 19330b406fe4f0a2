/* SPDX-License-Identifier: MIT */
/* Makes a random sequence from a seed. */
#ifndef MODEL_GENERATOR_H
#define MODEL_GENERATOR_H

#include "program.h"

struct generator_options {
    int length;           /* operations in the list, not counting those that set the items up */
    bool no_time;         /* nothing that waits or looks at the clock */
    bool no_other_thread; /* one loop, one thread */
    bool coarse;          /* past dates that the clock cannot tell apart, too */
    bool tame;            /* nothing that CoreFoundation is known to do otherwise */
};

void generate(struct program *program, uint64_t seed, const struct generator_options *options);

#endif
