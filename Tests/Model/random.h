/* SPDX-License-Identifier: MIT */
/* A small seeded generator of random numbers, the same on every machine. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* Starts the series that belongs to a seed; neighbouring seeds give unrelated series. */
void random_start(struct random *random, uint64_t seed);

uint64_t random_next(struct random *random);

/* Returns a number in 0 ..< limit; limit must not be 0. */
int random_below(struct random *random, int limit);

/* Returns a number in low ... high. */
int random_between(struct random *random, int low, int high);

/* Returns true in about percent of 100 calls. */
bool random_percent(struct random *random, int percent);

/* Returns an index into weights, each as often as its weight says. */
int random_weighted(struct random *random, const int *weights, int count);

#endif
