/* SPDX-License-Identifier: MIT */
#include "generator.h"

#include <string.h>

#include "random.h"

struct generator {
    struct random random;
    const struct generator_options *options;
    struct program *program;
};

static int any_mode(struct generator *generator, bool with_common) {
    static const int weights[MODES] = {14, 4, 2, 1, 5};
    return random_weighted(&generator->random, weights, with_common ? MODES : MODES - 1);
}

/* Most runs are of a mode that has something in it. */
static int any_mode_to_run(struct generator *generator) {
    static const int weights[MODES] = {40, 8, 3, 1, 1};
    return random_weighted(&generator->random, weights, MODES);
}

static int any_loop(struct generator *generator) {
    return generator->program->has_second_loop && random_percent(&generator->random, 40) ? 1 : 0;
}

/* An item for which the operation makes sense, or -1. */
static int any_item(struct generator *generator, bool (*fits)(const struct item_definition *)) {
    int candidates[MAX_ITEMS], count = 0;
    for (int i = 0; i < generator->program->items; i++)
        if (!fits || fits(&generator->program->item[i])) candidates[count++] = i;
    return count ? candidates[random_below(&generator->random, count)] : -1;
}

static bool is_source(const struct item_definition *item) { return item->kind == ITEM_V0 || item->kind == ITEM_V1; }

static bool is_v0(const struct item_definition *item) { return item->kind == ITEM_V0; }

static bool is_v1(const struct item_definition *item) { return item->kind == ITEM_V1; }

static bool is_timer(const struct item_definition *item) { return item->kind == ITEM_TIMER; }

static int any_script(struct generator *generator, int percent) {
    if (generator->program->scripts == 0 || !random_percent(&generator->random, percent)) return -1;
    return random_below(&generator->random, generator->program->scripts);
}

static struct date any_date(struct generator *generator) {
    struct date date = {DATE_FUTURE, random_between(&generator->random, 1, 6)};
    int pick = random_below(&generator->random, 100);
    if (pick < 35) {
        date.kind = DATE_PAST;
        date.value = random_between(&generator->random, 1, 40);
    } else if (pick < 38) {
        date.kind = DATE_MINUS_INFINITY;
    } else if (pick < 40) {
        date.kind = DATE_PLUS_INFINITY;
    } else if (pick < 42 && !generator->options->tame) {
        date.kind = DATE_NAN;
    } else if (pick < 50) {
        date.value = random_between(&generator->random, 7, 60);
    }
    return date;
}

static void make_item(struct generator *generator, int index) {
    static const int kinds[] = {30, 20, 28, 30};
    static const int ports[] = {5, 2, 4, 1};
    static const unsigned masks[] = {0x0FFFFFFF, 1, 2, 4, 32, 64, 128, 1 | 128, 2 | 4, 32 | 64, 0, 1u << 3};
    static const int mask_weights[] = {12, 3, 3, 3, 4, 4, 3, 2, 2, 3, 1, 1};
    struct random *random = &generator->random;
    struct item_definition *item = &generator->program->item[index];
    memset(item, 0, sizeof *item);
    item->kind = (enum item_kind)random_weighted(random, kinds, 4);
    item->order = random_between(random, -2, 2);
    item->script = any_script(generator, 65);
    item->has_callback = item->kind == ITEM_V1 || random_percent(random, 94);
    /* Whether a timer without a callback gets the bracket of S-TMR-44 is not said. */
    item->has_retain = item->has_callback && random_percent(random, 80);
    switch (item->kind) {
    case ITEM_V0:
        if (random_percent(random, 8)) item->edge = 1 << random_below(random, 3);
        break;
    case ITEM_V1:
        item->port = (enum port_kind)random_weighted(random, ports, 4);
        /* CoreFoundation swallows bytes of a pipe (S-SRC-47) and spins on a bad port. */
        if (generator->options->tame) item->port = PORT_EVENTFD;
        break;
    case ITEM_TIMER:
        if (random_percent(random, 45))
            item->interval = random_between(random, 1, 5);
        else
            item->interval = random_percent(random, 90) ? 0 : -1;
        item->date = any_date(generator);
        break;
    case ITEM_OBSERVER:
        item->repeats = random_percent(random, 75);
        item->activities = masks[random_weighted(random, mask_weights, 12)];
        /* Equal orders that enter a mode together have no promised order in CoreFoundation. */
        if (generator->options->tame) item->order = index;
        break;
    }
}

static void make_timeout(struct generator *generator, struct op *op) {
    struct random *random = &generator->random;
    int pick = random_below(random, 100);
    op->timeout = TIMEOUT_UNITS;
    if (pick < 25)
        op->value = 0;
    else if (pick < 28)
        op->value = -1;
    else if (pick < 30)
        op->timeout = TIMEOUT_MINUS_INFINITY;
    else if (generator->options->no_time)
        op->value = 0;
    else if (pick < 35)
        op->value = 1;
    else if (pick < 75)
        op->value = random_between(random, 1, 8) * DATE_STEP;
    else if (pick < 92)
        op->value = random_between(random, 40, 300);
    else
        op->timeout = (enum timeout_kind)random_between(random, TIMEOUT_PLUS_INFINITY, TIMEOUT_HUGE);
}

static int any_modes(struct generator *generator) {
    int pick = random_below(&generator->random, 10);
    if (pick < 6) return 1 << any_mode(generator, true);
    /* S-BLK-18 is about a call that CoreFoundation does not have. */
    if (pick == 6 && !generator->options->tame) return 0;
    return random_between(&generator->random, 1, (1 << MODES) - 1);
}

static void make_op(struct generator *generator, struct op *op, bool in_script) {
    static const int weights[OP_KINDS] = {
        [OP_CREATE] = 2,      [OP_RELEASE] = 5,        [OP_ADD] = 16,         [OP_REMOVE] = 7,
        [OP_INVALIDATE] = 4,  [OP_SIGNAL] = 22,        [OP_WRITE] = 18,       [OP_DRAIN] = 2,
        [OP_SET_DATE] = 9,    [OP_WAKE] = 8,           [OP_STOP] = 6,         [OP_FUNCTION] = 12,
        [OP_COMMON_MODE] = 4, [OP_RUN] = 34,           [OP_RUN_FOREVER] = 2,  [OP_ADVANCE] = 5,
        [OP_OTHER_THREAD] = 8, [OP_OUTSIDE] = 10,       [OP_CONTAINS] = 5,     [OP_IS_VALID] = 3,
        [OP_IS_SIGNALLED] = 3, [OP_FIRE_DATE] = 4,     [OP_NEXT_FIRE_DATE] = 3, [OP_CURRENT_MODE] = 2,
        [OP_ALL_MODES] = 2,   [OP_IS_WAITING] = 1,  [OP_TOLERANCE] = 2,       [OP_CONTEXT] = 2,
        [OP_END_OTHER] = 4};
    struct random *random = &generator->random;
    const struct generator_options *options = generator->options;
    memset(op, 0, sizeof *op);
    op->script = -1;
    if (options->coarse && random_percent(random, 15)) op->flags = DATE_COARSE;
    for (;;) {
        op->kind = (enum op_kind)random_weighted(random, weights, OP_KINDS);
        op->loop = any_loop(generator);
        op->mode = any_mode(generator, op->kind != OP_COMMON_MODE || !options->tame);
        switch (op->kind) {
        case OP_SIGNAL:
            op->item = any_item(generator, random_percent(random, 90) ? is_v0 : is_source);
            break;
        case OP_IS_SIGNALLED:
            op->item = any_item(generator, is_source);
            break;
        case OP_WRITE:
            op->item = any_item(generator, is_v1);
            op->value = random_percent(random, 70) ? 1 : random_between(random, 1, 3);
            break;
        case OP_DRAIN:
            op->item = any_item(generator, is_v1);
            break;
        case OP_SET_DATE:
        case OP_FIRE_DATE:
            op->item = any_item(generator, is_timer);
            op->date = any_date(generator);
            if (options->no_time && op->kind == OP_FIRE_DATE) continue;
            break;
        case OP_TOLERANCE:
            op->item = any_item(generator, is_timer);
            op->value = random_between(random, -8, 60);
            if (options->tame) continue; /* S-TMR-52 */
            break;
        case OP_NEXT_FIRE_DATE:
            if (options->no_time) continue;
            break;
        case OP_ADVANCE:
            op->value = random_percent(random, 60) ? 1 : random_between(random, 2, 30);
            if (options->no_time) continue;
            break;
        case OP_FUNCTION:
            op->value = any_modes(generator);
            if (random_percent(random, 60)) op->flags |= FUNCTION_RELEASE;
            if (random_percent(random, 20)) op->flags |= FUNCTION_LIST;
            op->script = any_script(generator, 60);
            break;
        case OP_RUN:
            if (in_script && random_percent(random, 30)) continue;
            op->mode = any_mode_to_run(generator);
            op->returns_handled = random_percent(random, 40);
            make_timeout(generator, op);
            break;
        case OP_RUN_FOREVER:
            if (options->no_time || (in_script && random_percent(random, 60))) continue;
            break;
        case OP_OTHER_THREAD:
            if (!generator->program->has_second_loop || generator->program->scripts == 0) continue;
            op->script = any_script(generator, 100);
            break;
        case OP_END_OTHER:
            if (!generator->program->has_second_loop) continue;
            break;
        case OP_OUTSIDE: {
            static const enum op_kind kinds[] = {OP_SIGNAL, OP_WRITE, OP_WRITE, OP_WAKE, OP_WAKE, OP_STOP};
            if (options->no_time) continue;
            op->outside = kinds[random_below(random, 6)];
            op->value = random_between(random, 1, 60);
            op->item = op->outside == OP_SIGNAL ? any_item(generator, is_source)
                       : op->outside == OP_WRITE ? any_item(generator, is_v1)
                                                 : 0;
            break;
        }
        case OP_ALL_MODES:
            if (options->tame) continue; /* S-MODE-7 */
            break;
        case OP_WAKE:
            if (options->tame && in_script) continue; /* S-WAKE-9 */
            break;
        default:
            op->item = any_item(generator, NULL);
            break;
        }
        if (op->item >= 0) return;
    }
}

static void append(struct program *program, struct op op) {
    if (program->count < MAX_OPS) program->op[program->count++] = op;
}

/* Creates an item, and adds it somewhere. */
static void set_up(struct generator *generator, int index) {
    struct program *program = generator->program;
    append(program, (struct op){.kind = OP_CREATE, .item = index, .script = -1});
    int times = random_percent(&generator->random, 85) ? 1 : random_below(&generator->random, 3);
    for (int i = 0; i < times; i++)
        append(program, (struct op){.kind = OP_ADD,
                                    .item = index,
                                    .loop = any_loop(generator),
                                    .mode = any_mode(generator, true),
                                    .script = -1});
}

void generate(struct program *program, uint64_t seed, const struct generator_options *options) {
    struct generator generator = {.options = options, .program = program};
    struct random *random = &generator.random;
    random_start(random, seed);
    memset(program, 0, sizeof *program);
    program->seed = seed;
    program->has_second_loop = !options->no_other_thread && random_percent(random, 12);
    program->items = random_between(random, 2, random_percent(random, 50) ? 5 : MAX_ITEMS);
    program->scripts = random_between(random, 1, MAX_SCRIPTS);
    for (int i = 0; i < program->items; i++) make_item(&generator, i);
    for (int i = 0; i < program->scripts; i++) {
        struct script *script = &program->script[i];
        int wanted = random_between(random, 1, MAX_SCRIPT_OPS);
        while (script->count < wanted) make_op(&generator, &script->ops[script->count++], true);
    }
    for (int i = 0; i < program->items; i++)
        if (random_percent(random, 90)) set_up(&generator, i);
    int length = random_between(random, options->length / 2 + 1, options->length);
    for (int i = 0; i < length; i++) {
        struct op op;
        make_op(&generator, &op, false);
        append(program, op);
    }
}
