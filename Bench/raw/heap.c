/* SPDX-License-Identifier: MIT */
/* A 4-ary heap of dates with pointers to the timers, each of which knows its place. */
#include "raw.h"

#include <stdlib.h>

static struct entry {
    uint64_t due;
    struct timed *timer;
} *heap;
static size_t count, capacity;

static void put(size_t place, struct entry entry) {
    heap[place] = entry;
    entry.timer->in.place = place;
}

static void sift_up(size_t place, struct entry entry) {
    while (place > 0) {
        size_t parent = (place - 1) / 4;
        if (heap[parent].due <= entry.due) break;
        put(place, heap[parent]);
        place = parent;
    }
    put(place, entry);
}

static void sift_down(size_t place, struct entry entry) {
    for (;;) {
        size_t child = place * 4 + 1, least = child;
        if (child >= count) break;
        size_t end = child + 4 < count ? child + 4 : count;
        while (++child < end)
            if (heap[child].due < heap[least].due) least = child;
        if (heap[least].due >= entry.due) break;
        put(place, heap[least]);
        place = least;
    }
    put(place, entry);
}

static void sift(size_t place, struct entry entry) {
    if (place > 0 && heap[(place - 1) / 4].due > entry.due)
        sift_up(place, entry);
    else
        sift_down(place, entry);
}

void heap_add(struct timed *t) {
    if (count == capacity) {
        capacity = capacity ? capacity * 2 : 16;
        heap = realloc(heap, capacity * sizeof *heap);
        bench_require(heap != NULL, "no memory");
    }
    sift_up(count++, (struct entry){t->due, t});
}

void heap_remove(struct timed *t) {
    size_t place = t->in.place;
    struct entry last = heap[--count];
    if (place < count) sift(place, last);
}

void heap_move(struct timed *t, uint64_t due) {
    t->due = due;
    sift(t->in.place, (struct entry){due, t});
}

struct timed *heap_first(void) { return count ? heap[0].timer : NULL; }
