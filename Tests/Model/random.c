/* SPDX-License-Identifier: MIT */
#include "random.h"

void random_start(struct random *random, uint64_t seed) {
    /* Mixed first: the states of neighbouring seeds must not lie on one series, a step apart. */
    random->state = seed ^ 0x632BE59BD9B4E019u;
    random->state = random_next(random) * 0xD1342543DE82EF95u;
}

/* Weyl sequence with two rounds of mixing: short, and good enough to pick operations. */
uint64_t random_next(struct random *random) {
    uint64_t x = random->state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

int random_below(struct random *random, int limit) { return (int)(random_next(random) % (uint64_t)limit); }

int random_between(struct random *random, int low, int high) { return low + random_below(random, high - low + 1); }

bool random_percent(struct random *random, int percent) { return random_below(random, 100) < percent; }

int random_weighted(struct random *random, const int *weights, int count) {
    int total = 0;
    for (int i = 0; i < count; i++) total += weights[i];
    int pick = random_below(random, total);
    for (int i = 0; i < count; i++) {
        if (pick < weights[i]) return i;
        pick -= weights[i];
    }
    return count - 1;
}
