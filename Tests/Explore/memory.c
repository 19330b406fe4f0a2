/* SPDX-License-Identifier: MIT */
/* The memory that the threads share: which locations they meet at, and what a load of a weak order may see.
 *
 * Each location has the last values that were written to it. A value that was stored in a releasing order carries what its thread
 * knew. A load may see any value but those of which the thread knows that a newer one was there before: because it wrote, saw or
 * was told of the newer one. Acquiring loads learn what the value carries. Updates see the newest value. A sequentially
 * consistent load sees none older than the newest sequentially consistent store. membarrier(2) tells every thread everything; a
 * call of the kernel is a fence. Real memory always has the newest value. */
#include "explore.h"

#include <string.h>

enum { PLACES = 4096, KEYS = 1 << 14, VALUES = 6 };

/* What was learned of a location over all executions: which roles read and write it. A location is known again by what touched
 * it first: thread, line and turn. */
struct key {
    uint64_t name;
    uint16_t readers, writers;
};

struct value {
    uint64_t bits;
    uint8_t thread; /* 0xff: everybody knows it */
    uint32_t clock;
    struct clocks carried;
};

struct place {
    uint32_t number, history_generation;
    struct key *key;
    /* values[(first + i) % VALUES] for i < count; the last is the newest. Positions count from the first ever. */
    uint32_t count, newest;
    struct value values[VALUES];
    uint32_t seen[MAX_THREADS];
    uint32_t newest_consistent;
};

/* The locations of this execution one after the other, so that few pages are touched, and where in a table by address each is. */
static struct place places[PLACES / 2];
static struct slot {
    uint32_t generation, index;
    uintptr_t address;
} slots[PLACES];
static struct key keys[KEYS];
static uint32_t generation, history_generation, place_count;
bool weak_memory = true;

/* How often a thread touched something new at a line, in this execution. */
static struct turn {
    uint64_t name;
    uint32_t generation, count;
} turns[PLACES];

void memory_begin(void) {
    generation++;
    history_generation++;
    place_count = 0;
}

void memory_forget_history(void) { history_generation++; }

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t hash = (a ^ b) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static struct key *key_named(uint64_t name) {
    for (uint32_t i = (uint32_t)(name >> 40) % KEYS, tries = 0; tries < KEYS; i = (i + 1) % KEYS, tries++) {
        if (keys[i].name == name) return &keys[i];
        if (keys[i].name == 0) {
            keys[i].name = name;
            return &keys[i];
        }
    }
    fail("too many locations");
}

struct place *place_of(uintptr_t address, const char *file, uint32_t line) {
    uint32_t i = (uint32_t)(mix(address, 7) >> 40) % PLACES;
    while (slots[i].generation == generation && slots[i].address != address) i = (i + 1) % PLACES;
    if (slots[i].generation == generation) return &places[slots[i].index];
    if (place_count == PLACES / 2) fail("too many locations in one execution");
    uint64_t name;
    if (address < 4096) {
        name = mix(address, 3);
    } else {
        uint64_t who = self->in_handler ? ROLE_HANDLER : self->number;
        uint64_t where = mix((uintptr_t)file, mix(line, who + 1));
        uint32_t t = (uint32_t)(where >> 40) % PLACES;
        while (turns[t].generation == generation && turns[t].name != where) t = (t + 1) % PLACES;
        if (turns[t].generation != generation) turns[t] = (struct turn){where, generation, 0};
        name = mix(where, ++turns[t].count * 2 + 1) | 1;
    }
    slots[i] = (struct slot){generation, place_count, address};
    struct place *place = &places[place_count];
    place->number = ++place_count;
    place->history_generation = 0;
    place->key = key_named(name ? name : 1);
    return place;
}

uint32_t place_number(struct place *place) { return place->number; }

void place_touch(struct place *place, unsigned role, bool writes) {
    if (writes)
        place->key->writers |= (uint16_t)(1u << role);
    else
        place->key->readers |= (uint16_t)(1u << role);
}

unsigned place_conflicts(struct place *place, bool writes) {
    return place->key->writers | (writes ? place->key->readers : 0u);
}

/* ---- values */

static struct value *value_at(struct place *place, uint32_t position) { return &place->values[position % VALUES]; }

static void start_history(struct place *place, uint64_t bits) {
    place->history_generation = history_generation;
    place->count = 1;
    place->newest++;
    memset(place->seen, 0, sizeof place->seen);
    place->newest_consistent = 0;
    *value_at(place, place->newest) = (struct value){.bits = bits, .thread = 0xff};
}

/* A value that the history does not know was written by an ordinary store, as at the making of an object: it begins anew. */
static void keep_up(struct place *place, uint64_t real) {
    if (place->history_generation != history_generation || value_at(place, place->newest)->bits != real)
        start_history(place, real);
}

static bool acquires(int order) {
    return order == RLX_ACQUIRING || order == RLX_ACQUIRING_AND_RELEASING || order == RLX_SEQUENTIALLY_CONSISTENT;
}

static bool releases(int order) {
    return order == RLX_RELEASING || order == RLX_ACQUIRING_AND_RELEASING || order == RLX_SEQUENTIALLY_CONSISTENT;
}

static void learn(const struct clocks *told) {
    for (int i = 0; i < MAX_THREADS; i++)
        if (told->of[i] > self->clocks.of[i]) self->clocks.of[i] = told->of[i];
}

static bool knows(const struct value *value) {
    return value->thread == 0xff || self->clocks.of[value->thread] >= value->clock;
}

/* The position of what a load sees. */
static uint32_t choose_value(struct place *place, int order, uint32_t line) {
    uint32_t newest = place->newest, oldest = newest;
    uint32_t floor = place->seen[self->number];
    if (order == RLX_SEQUENTIALLY_CONSISTENT && place->newest_consistent > floor) floor = place->newest_consistent;
    while (!knows(value_at(place, oldest)) && oldest > floor && newest - oldest + 1 < place->count) oldest--;
    int count = (int)(newest - oldest) + 1;
    if (count == 1) return newest;
    struct option options[VALUES];
    for (int i = 0; i < count; i++) options[i] = (struct option){(uint16_t)(CHOICE_STALE + i), (uint16_t)(i > 0)};
    uint16_t check = (uint16_t)(self->number * 4099u + 777u + line * 31u);
    return newest - (uint32_t)(decide(check ? check : 1, options, count) - CHOICE_STALE);
}

static void append(struct place *place, uint64_t bits, int order, const struct clocks *continued) {
    struct thread *me = self;
    me->clocks.of[me->number]++;
    struct value *value = value_at(place, ++place->newest);
    if (place->count < VALUES) place->count++;
    struct value made = {.bits = bits, .thread = me->number, .clock = me->clocks.of[me->number]};
    if (releases(order)) made.carried = me->clocks;
    if (continued) {
        for (int i = 0; i < MAX_THREADS; i++)
            if (continued->of[i] > made.carried.of[i]) made.carried.of[i] = continued->of[i];
    }
    *value = made;
    place->seen[me->number] = place->newest;
    if (order == RLX_SEQUENTIALLY_CONSISTENT) place->newest_consistent = place->newest;
}

static bool is_tracked(void) { return self && run.concurrent && !run.child; }

uint64_t rlx_load(const void *address, uint32_t size, int32_t order, const char *file, uint32_t line) {
    point(ACCESS_LOAD, (uintptr_t)address, false, file, line);
    uint64_t value = read_word(address, size);
    if (!is_tracked()) return value;
    struct place *place = place_of((uintptr_t)address, file, line);
    keep_up(place, value);
    uint32_t position = place->newest;
    if (weak_memory && !self->in_handler) position = choose_value(place, order, line);
    const struct value *seen = value_at(place, position);
    place->seen[self->number] = position;
    if (acquires(order)) learn(&seen->carried);
    note_step(ACCESS_LOAD, order, (uintptr_t)address, 0, seen->bits, (int)(place->newest - position), file, line);
    return seen->bits;
}

void rlx_store(void *address, uint32_t size, uint64_t value, int32_t order, const char *file, uint32_t line) {
    point(ACCESS_STORE, (uintptr_t)address, true, file, line);
    if (is_tracked()) {
        struct place *place = place_of((uintptr_t)address, file, line);
        uint64_t old = read_word(address, size);
        keep_up(place, old);
        append(place, value, order, NULL);
        note_step(ACCESS_STORE, order, (uintptr_t)address, old, value, 0, file, line);
    }
    write_word(address, size, value);
}

/* The newest value, seen by an update that is about to write another. */
static struct clocks see_newest(struct place *place, uint64_t real, int order) {
    keep_up(place, real);
    struct value *seen = value_at(place, place->newest);
    place->seen[self->number] = place->newest;
    if (acquires(order)) learn(&seen->carried);
    return seen->carried;
}

static uint64_t cut(uint64_t value, uint32_t size) { return size == 8 ? value : value & ((1ull << size * 8) - 1); }

uint64_t rlx_modify(void *address, uint32_t size, int32_t operation, uint64_t operand, int32_t order, const char *file,
                    uint32_t line) {
    point(ACCESS_MODIFY, (uintptr_t)address, true, file, line);
    uint64_t old = read_word(address, size), value = 0;
    switch (operation) {
    case RLX_EXCHANGE: value = operand; break;
    case RLX_ADD: value = old + operand; break;
    case RLX_SUBTRACT: value = old - operand; break;
    case RLX_AND: value = old & operand; break;
    case RLX_OR: value = old | operand; break;
    case RLX_XOR: value = old ^ operand; break;
    }
    value = cut(value, size);
    if (is_tracked()) {
        struct place *place = place_of((uintptr_t)address, file, line);
        struct clocks carried = see_newest(place, old, order);
        append(place, value, order, &carried);
        note_step(ACCESS_MODIFY, order, (uintptr_t)address, old, value, 0, file, line);
    }
    write_word(address, size, value);
    return old;
}

uint64_t rlx_compare_exchange(void *address, uint32_t size, uint64_t expected, uint64_t desired, int32_t order,
                              int32_t failure_order, const char *file, uint32_t line) {
    point(ACCESS_COMPARE, (uintptr_t)address, true, file, line);
    uint64_t old = read_word(address, size);
    bool equal = old == expected;
    if (is_tracked()) {
        struct place *place = place_of((uintptr_t)address, file, line);
        struct clocks carried = see_newest(place, old, equal ? order : failure_order);
        if (equal) append(place, desired, order, &carried);
        note_step(ACCESS_COMPARE, order, (uintptr_t)address, old, equal ? desired : old, 0, file, line);
    }
    if (equal) write_word(address, size, desired);
    return old;
}
