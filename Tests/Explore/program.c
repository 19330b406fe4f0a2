/* SPDX-License-Identifier: MIT */
/* Reads a scenario and executes it once under the scheduler. */
#define _GNU_SOURCE
#include "program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct item items[MAX_ITEMS];
int item_count;
struct actor actors[MAX_THREADS];
int actor_count;
uint64_t sequence;
static struct block blocks[48];
static int block_count;
static struct actor *handler_actor;
static struct block *handler_block;
static char modes[8][12];
static int mode_count;

/* ---- reading */

static const char *cursor;

static void skip(void) {
    while (isspace((unsigned char)*cursor)) cursor++;
}

static bool accept(char wanted) {
    skip();
    if (*cursor != wanted) return false;
    cursor++;
    return true;
}

static bool word(char *text, size_t size) {
    skip();
    size_t length = 0;
    while (isalnum((unsigned char)*cursor) || *cursor == '.' || *cursor == '_' || *cursor == '-') {
        if (length + 1 < size) text[length++] = *cursor;
        cursor++;
    }
    text[length] = 0;
    return length > 0;
}

static struct item *item_named(const char *name) {
    for (int i = 0; i < item_count; i++)
        if (strcmp(items[i].name, name) == 0) return &items[i];
    return NULL;
}

static struct actor *actor_named(const char *name) {
    for (int i = 0; i < actor_count; i++)
        if (strcmp(actors[i].name, name) == 0) return &actors[i];
    return NULL;
}

static const char *mode_named(const char *name) {
    if (strcmp(name, "common") == 0) return kRLCommonModes;
    if (strcmp(name, "default") == 0) return kRLDefaultMode;
    for (int i = 0; i < mode_count; i++)
        if (strcmp(modes[i], name) == 0) return modes[i];
    if (mode_count == 8) fail("too many modes");
    strncpy(modes[mode_count], name, sizeof modes[0] - 1);
    return modes[mode_count++];
}

static struct block *read_block(void);

static void read_call(struct block *block) {
    char text[32];
    if (!word(text, sizeof text)) return;
    if (block->count == MAX_CALLS) fail("too many calls: %s", cursor);
    struct call *call = &block->calls[block->count++];
    memset(call, 0, sizeof *call);
    for (int i = 0; operation_tables[i]; i++)
        for (const struct operation *operation = operation_tables[i]; operation->name; operation++)
            if (strcmp(operation->name, text) == 0) call->operation = operation;
    if (!call->operation) fail("no such operation: %s", text);
    int item_index = 0;
    while (word(text, sizeof text)) {
        struct item *item = item_named(text);
        struct actor *actor = actor_named(text);
        if (item && item_index < 2) {
            call->item[item_index++] = item;
        } else if (actor) {
            call->actor = actor;
        } else if (isdigit((unsigned char)text[0]) || text[0] == '-') {
            call->number = atof(text);
            call->has_number = true;
        } else {
            call->mode = mode_named(text);
        }
    }
    if (accept('{')) {
        call->block = read_block();
        if (!accept('}')) fail("a brace is missing: %s", cursor);
    }
}

static struct block *read_block(void) {
    if (block_count == 48) fail("too many blocks");
    struct block *block = &blocks[block_count++];
    block->count = 0;
    do read_call(block);
    while (accept(';'));
    return block;
}

static void read_item_block(struct block **block, bool names_only) {
    if (!accept('{')) return;
    if (!names_only) {
        *block = read_block();
        if (!accept('}')) fail("a brace is missing: %s", cursor);
        return;
    }
    for (int depth = 1; *cursor && depth > 0; cursor++) {
        if (*cursor == '{') depth++;
        if (*cursor == '}') depth--;
    }
}

/* Names first, so that calls may name what comes later. */
static void read_item(bool names_only) {
    static int index;
    char text[32];
    if (names_only && item_count == 0) index = 0;
    if (!names_only && index >= item_count) index = 0;
    word(text, sizeof text);
    struct item *item = names_only ? &items[item_count++] : &items[index++];
    if (names_only) {
        if (item_count > MAX_ITEMS) fail("too many items");
        memset(item, 0, sizeof *item);
        strncpy(item->name, text, sizeof item->name - 1);
        item->kind = (enum kind)-1;
    }
    if (!accept('=')) fail("an item without a kind: %s", cursor);
    word(text, sizeof text);
    for (int i = 0; kind_names[i]; i++)
        if (strcmp(text, kind_names[i]) == 0) item->kind = (enum kind)i;
    if (strcmp(text, "boot") == 0 || strcmp(text, "wall") == 0) {
        item->kind = KIND_TIMER;
        item->clock = *text == 'b' ? kRLTimerClockBoot : kRLTimerClockWall;
    }
    if ((int)item->kind < 0) fail("no such kind: %s", text);
    if (accept(':')) {
        word(text, sizeof text);
        item->number = atof(text);
    }
    if (accept('+')) item->repeats = true;
    if (accept('?')) item->has_description = true;
    static const char marks[] = "!@~<>%"; /* as in enum inner */
    read_item_block(&item->block, names_only);
    for (const char *mark = strchr(marks, *cursor); *cursor && mark; mark = strchr(marks, *cursor)) {
        cursor++;
        read_item_block(&item->inner[mark - marks], names_only);
    }
}

static void read_items(const char *text, bool names_only) {
    cursor = text;
    for (skip(); *cursor; skip()) read_item(names_only);
}

static void read_threads(const char *text, bool names_only) {
    cursor = text;
    int index = 0;
    do {
        char name[12];
        if (!word(name, sizeof name)) fail("a thread without a name: %s", cursor);
        bool is_handler = accept('!');
        struct actor *actor = is_handler ? actor_named(name) : &actors[index];
        if (!is_handler) index++;
        if (names_only && !is_handler) {
            memset(actor, 0, sizeof *actor);
            strcpy(actor->name, name);
            actor_count = index;
            if (actor_count >= MAX_THREADS) fail("too many threads");
        }
        if (!accept(':')) fail("a thread without calls: %s", cursor);
        if (names_only) {
            while (*cursor && *cursor != '|') cursor++;
            continue;
        }
        struct block *parts[3] = {NULL, NULL, NULL};
        int count = 0;
        do parts[count++] = read_block();
        while (count < 3 && accept('/'));
        if (is_handler) {
            handler_actor = actor;
            handler_block = parts[0];
            continue;
        }
        actor->before = count > 1 ? parts[0] : NULL;
        actor->body = count > 1 ? parts[1] : parts[0];
        actor->after = parts[2];
        for (int i = 0; i < actor->body->count; i++)
            if (strcmp(actor->body->calls[i].operation->name, "end") == 0) actor->ends = true;
    } while (accept('|'));
    skip();
    if (*cursor) fail("what is this: %s", cursor);
}

void parse(const struct scenario *scenario) {
    item_count = actor_count = block_count = mode_count = 0;
    handler_block = NULL;
    read_items(scenario->items, true);
    read_threads(scenario->threads, true);
    read_items(scenario->items, false);
    read_threads(scenario->threads, false);
}

/* ---- executing */

struct actor *acting(void) {
    for (int i = 0; i < actor_count; i++)
        if (actors[i].thread == self) return &actors[i];
    return NULL;
}

void perform_block(struct block *block) {
    for (int i = 0; block && i < block->count; i++) {
        struct call *call = &block->calls[i];
        if (run.concurrent) note_step(ACCESS_NOTE, 0, 0, 0, 0, 0, call->operation->name, 0);
        call->operation->perform(call);
    }
}

static void handle_signal(void *unused) {
    (void)unused;
    perform_block(handler_block);
}

static void act(void *argument) {
    struct actor *actor = argument;
    if (actor->before) {
        perform_block(actor->before);
        park();
    }
    perform_block(actor->body);
    if (actor->ends) {
        actor->has_ended = true;
        return;
    }
    park();
    if (!actor->after && !actor->has_loop) return;
    perform_block(actor->after);
    if (actor->loop) {
        for (int i = 0; i < 3; i++) RLRunInMode(kRLDefaultMode, 0, false);
    }
    park();
}

/* Whether an actor's calls need a loop of its own. */
static bool needs_loop(struct block *block) {
    for (int i = 0; block && i < block->count; i++) {
        struct call *call = &block->calls[i];
        if (!call->actor && call->operation->on_loop) return true;
        if (needs_loop(call->block)) return true;
    }
    return false;
}

void execute(const struct scenario *scenario) {
    static const struct scenario *parsed;
    if (parsed != scenario) parse(scenario);
    parsed = scenario;
    run_begin();
    sequence = 0;
    run.handler = handle_signal;
    for (int i = 0; i < item_count; i++) make_item(&items[i]);
    for (int i = 0; i < actor_count; i++) {
        struct actor *actor = &actors[i];
        actor->loop = NULL;
        actor->has_ended = false;
        actor->awaited = NULL;
        actor->has_loop = actor->ends || needs_loop(actor->before) || needs_loop(actor->body) || needs_loop(actor->after);
        actor->thread = thread_add(actor->name, act, actor, !actor->has_loop);
    }
    /* A scenario may name the loop of a thread that comes later. */
    for (int i = 0; i < actor_count; i++)
        if (actors[i].before) run_alone(actors[i].thread);
    if (handler_block) {
        run.handler_thread = handler_actor->thread;
        run.handlers_left = 1;
    }
    run_together();
    run.handlers_left = 0;
    run.now += 1000000000000;
    for (int i = 0; i < actor_count; i++)
        if (!actors[i].ends) run_alone(actors[i].thread);
    for (int i = 0; i < item_count; i++) check_item(&items[i]);
    for (int i = 0; i < item_count; i++) drop_item(&items[i]);
    for (int i = 0; i < actor_count; i++)
        if (actors[i].thread->state == THREAD_PARKED) run_alone(actors[i].thread);
    for (int i = 0; i < actor_count; i++) RLRelease(actors[i].loop);
    for (int i = 0; i < item_count; i++) check_item_at_end(&items[i]);
    check_taken();
    run_join_all();
}
