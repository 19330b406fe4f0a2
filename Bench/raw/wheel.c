/* SPDX-License-Identifier: MIT */
/*
 * A hierarchical wheel: eight levels of 64 lists, the lowest a millisecond each. A timer stands at
 * the level of the highest digit in which its date differs from now. Only adding and removing are
 * needed here.
 */
#include "raw.h"

static struct timed *lists[8][64];

void wheel_add(struct timed *t) {
    uint64_t tick = t->due / 1000000;
    int level = (63 - __builtin_clzll(tick | 1)) / 6;
    struct timed **list = &lists[level][tick >> level * 6 & 63];
    t->in.links.next = *list;
    t->in.links.previous = list;
    if (*list) (*list)->in.links.previous = &t->in.links.next;
    *list = t;
}

void wheel_remove(struct timed *t) {
    *t->in.links.previous = t->in.links.next;
    if (t->in.links.next) t->in.links.next->in.links.previous = t->in.links.previous;
}
