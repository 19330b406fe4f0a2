/* SPDX-License-Identifier: MIT */
/* The model's items: who is in which mode, who is valid, and who still refers to whom. */
#include <string.h>

#include "model.h"

static bool is_source(const struct model_item *item) {
    return item->definition->kind == ITEM_V0 || item->definition->kind == ITEM_V1;
}

bool model_in_any_mode(const struct model_item *item, int loop) {
    for (int mode = 0; mode < MODE_COMMON; mode++)
        if (item->in[loop][mode]) return true;
    return false;
}

/* S-MODE-26: a common item belongs to its loop even when it is in no mode any more. */
static bool belongs_to(const struct model_item *item, int loop) {
    return item->common[loop] || model_in_any_mode(item, loop);
}

static void release_context(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (!item->has_context) return;
    item->has_context = false;
    model_note(model, ENTRY_CONTEXT_RELEASE, index, 0, 0);
}

void model_end_use_of_info(struct model *model, int index) {
    if (!model->item[index].release_waits) return;
    model->item[index].release_waits = false;
    release_context(model, index);
}

void model_create(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    const struct item_definition *definition = &model->program->item[index];
    memset(item, 0, sizeof *item);
    item->definition = definition;
    item->created = item->alive = item->valid = item->has_context = true;
    /* S-SRC-1, S-TMR-1, S-OBS-15: retain is called once at creation. */
    if (definition->has_retain) model_note(model, ENTRY_CONTEXT_RETAIN, index, 0, 0);
    if (definition->kind == ITEM_TIMER) {
        /* S-TMR-2: an interval below 0 becomes 0. */
        item->interval = definition->interval > 0 ? definition->interval * DATE_STEP * UNIT_NANOSECONDS : 0;
        model_set_date(model, index, &definition->date);
    }
}

/* S-SRC-14, S-TMR-48, S-OBS-15: the last reference releases the context once. */
static void die(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    item->alive = false;
    item->valid = false;
    release_context(model, index);
}

void model_drop_if_unreferenced(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (!item->alive || model->gate.held[index]) return;
    /* S-REF-4: not inside its own callback. */
    if (model->gate.active[index] > 0 || item->firing > 0) return;
    for (int loop = 0; loop < LOOPS; loop++)
        if (belongs_to(item, loop)) return; /* S-REF-2, S-MODE-22 */
    if (item->pins > 0) {
        /* A batch has to keep a source or an observer that it may still call (S-SRC-33, S-OBS-5);
           whether it keeps one that it will not call is not said. */
        if (!is_source(item) && item->definition->kind != ITEM_TIMER) return;
        if (is_source(item) && item->valid && item->signalled && item->turns > 0) return;
        if (model_choose(model, 2) == 0) return;
    }
    die(model, index);
}

void model_release(struct model *model, int index) {
    model->gate.held[index] = false;
    model_drop_if_unreferenced(model, index);
}

void model_pin(struct model *model, int index) { model->item[index].pins++; }

/* After the turn of one member of a batch, or with turn == count at the end of the batch: lets go
   of the members. S-REF-4 lets the library free a member after its own turn or when the batch has
   ended. */
void model_unpin_batch(struct model *model, const int *batch, int count, int turn) {
    if (turn < count - 1) {
        struct model_item *item = &model->item[batch[turn]];
        bool last = item->alive && item->pins == 1 && item->has_context && !model->gate.held[batch[turn]];
        for (int loop = 0; loop < LOOPS; loop++)
            if (belongs_to(item, loop)) last = false;
        if (!last || model->gate.active[batch[turn]] > 0) return;
        if (model_choose(model, 2) == 1) return;
        item->pins--;
        model_drop_if_unreferenced(model, batch[turn]);
        item->pins++;
        return;
    }
    if (turn != count) return;
    for (int i = 0; i < count; i++) {
        model->item[batch[i]].pins--;
        model_drop_if_unreferenced(model, batch[i]);
    }
}

/* S-SRC-18..22: which entry a schedule or cancel makes, and what it does. */
static void edge(struct model *model, enum entry_kind kind, int index, int loop, int mode) {
    struct model_item *item = &model->item[index];
    /* S-SRC-18, 19: a member inside schedule, no member inside cancel. S-SRC-20: the real mode
       name. */
    int64_t answers = (kind == ENTRY_SCHEDULE ? 1 : 0) | (item->valid ? 2 : 0);
    model_note(model, kind, index, loop * 16 + mode, answers);
    if (model->gate.closing) return;
    if (item->definition->edge & EDGE_SIGNAL) model_signal(model, index);
    if (item->definition->edge & EDGE_WAKE) model_wake(model, loop);
    if (item->definition->edge & EDGE_STOP) model_stop(model, loop);
}

static void put_in_mode(struct model *model, int index, int loop, int mode, long when) {
    struct model_item *item = &model->item[index];
    model->loop[loop].exists[mode] = true; /* S-MODE-2 */
    if (item->in[loop][mode]) return;      /* S-MODE-21, S-OBS-11 */
    item->in[loop][mode] = true;
    item->put[loop][mode] = when;
    for (int other = 0; other < MAX_ITEMS; other++)
        model->went_first[loop][mode][index][other] = model->went_first[loop][mode][other][index] = 0;
    if (item->definition->kind != ITEM_V0) return; /* S-SRC-24 */
    edge(model, ENTRY_SCHEDULE, index, loop, mode);
    /* S-WAKE-15: from another thread the addition of a v0 source wakes the loop. */
    if (model->gate.thread != loop) model_wake(model, loop);
}

static void take_from_mode(struct model *model, int index, int loop, int mode) {
    struct model_item *item = &model->item[index];
    if (!item->in[loop][mode]) return;
    item->in[loop][mode] = false;
    model_forget_overtaken(model, index); /* Added again it goes to the end of the line. */
    if (item->definition->kind == ITEM_V0) edge(model, ENTRY_CANCEL, index, loop, mode);
}

void model_add(struct model *model, int index, int loop, int mode) {
    struct model_item *item = &model->item[index];
    struct model_loop *target = &model->loop[loop];
    if (!item->valid) return; /* S-SRC-13, S-TMR-18, S-OBS-17 */
    /* S-TMR-13, S-OBS-10: a timer or observer joins no second loop. */
    if (!is_source(item) && belongs_to(item, 1 - loop)) return;
    if (mode != MODE_COMMON) {
        put_in_mode(model, index, loop, mode, ++model->serial);
        return;
    }
    /* S-MODE-14, also S-MODE-18: added to each mode now in the common set, and so back where it was
       removed. */
    if (!item->common[loop]) item->common_since[loop] = ++model->serial;
    item->common[loop] = true;
    for (int each = 0; each < MODE_COMMON; each++)
        if (target->is_common[each]) put_in_mode(model, index, loop, each, ++model->serial);
}

void model_remove(struct model *model, int index, int loop, int mode) {
    struct model_item *item = &model->item[index];
    if (mode != MODE_COMMON) {
        take_from_mode(model, index, loop, mode); /* S-MODE-18: it stays a common item. */
    } else if (item->common[loop]) {
        item->common[loop] = false;
        for (int each = 0; each < MODE_COMMON; each++) /* S-MODE-16 */
            if (model->loop[loop].is_common[each]) take_from_mode(model, index, loop, each);
    } /* S-MODE-17: else nothing. */
    model_drop_if_unreferenced(model, index); /* S-TMR-19 */
}

void model_invalidate(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (!item->valid) return; /* S-SRC-12, S-TMR-42, S-OBS-16 */
    item->valid = false;
    item->signalled = false; /* S-SRC-9 */
    for (int loop = 0; loop < LOOPS; loop++) {
        item->common[loop] = false;
        /* S-SRC-10: one cancel for each membership. */
        for (int mode = 0; mode < MODE_COMMON; mode++) take_from_mode(model, index, loop, mode);
    }
    /* S-TMR-42, S-OBS-16: inside the call. S-SRC-11: not for a source. */
    if (!is_source(item)) {
        /* S-THR-8: not under a callback that has the info; a timer with a retain has its own
           reference (S-TMR-44). */
        bool in_use = item->firing > 0 && item->firing_thread != model->gate.thread;
        if (item->definition->kind == ITEM_TIMER && item->definition->has_retain) in_use = false;
        if (in_use)
            item->release_waits = true;
        else
            release_context(model, index);
    }
    model_drop_if_unreferenced(model, index);
}

void model_signal(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (!item->valid) return;    /* S-SRC-28 */
    if (item->signalled) return; /* S-SRC-25 */
    item->signalled = true;      /* S-SRC-26: no wake-up; S-SRC-27: member or not */
    item->first_signal = ++model->serial;
}

void model_add_common_mode(struct model *model, int loop, int mode) {
    struct model_loop *target = &model->loop[loop];
    if (mode == MODE_COMMON) return;    /* S-MODE-20 */
    if (target->is_common[mode]) return; /* S-MODE-11, 13 */
    target->is_common[mode] = true;
    /* S-MODE-12; S-MODE-4: the mode is created only if there are common items. They go in together.
       */
    long when = ++model->serial;
    for (long since = 0;;) {
        int next = -1;
        for (int i = 0; i < MAX_ITEMS; i++) {
            const struct model_item *item = &model->item[i];
            if (!item->created || !item->common[loop] || item->common_since[loop] <= since) continue;
            if (next < 0 || item->common_since[loop] < model->item[next].common_since[loop]) next = i;
        }
        if (next < 0) break;
        since = model->item[next].common_since[loop];
        put_in_mode(model, next, loop, mode, when);
    }
}

bool model_put_before(struct model *model, int loop, int mode, int a, int b) {
    long left = model->item[a].put[loop][mode], right = model->item[b].put[loop][mode];
    signed char *first = &model->went_first[loop][mode][a][b];
    if (left != right) return left < right;
    /* The order in which one call puts several items in a mode is not said, but it stays. */
    if (*first == 0) {
        bool by_age = model->item[a].common_since[loop] < model->item[b].common_since[loop];
        *first = (model_choose(model, 2) == 0) == by_age ? 1 : -1;
        model->went_first[loop][mode][b][a] = (signed char)-*first;
    }
    return *first > 0;
}

bool model_contains(const struct model *model, int index, int loop, int mode) {
    const struct model_item *item = &model->item[index];
    if (mode == MODE_COMMON) return item->common[loop]; /* S-MODE-15 */
    return item->in[loop][mode];
}

static void release_queue(struct model *model, int loop) {
    for (int i = 0; i < model->loop[loop].queued; i++)
        if (model->loop[loop].queue[i].has_release)
            model_note(model, ENTRY_FUNCTION_RELEASE, model->loop[loop].queue[i].id, 0, 0);
    model->loop[loop].queued = 0;
}

void model_end_thread(struct model *model, int loop) {
    model->gate.thread = loop;
    for (int i = 0; i < MAX_ITEMS; i++) {
        struct model_item *item = &model->item[i];
        if (!item->alive || !is_source(item)) continue;
        item->common[loop] = false;
        /* S-LOOP-7: cancel once for each mode. S-LOOP-8: it stays valid if somebody keeps it. */
        for (int mode = 0; mode < MODE_COMMON; mode++) take_from_mode(model, i, loop, mode);
        model_drop_if_unreferenced(model, i);
    }
    /* S-LOOP-10 speaks of the end of the loop; whether somebody who retains it keeps the queue too
       is not said. */
    if (model->loop[loop].queued > 0 && model_choose(model, 2) == 1) release_queue(model, loop);
}

void model_free_loop(struct model *model, int loop) {
    for (int i = 0; i < MAX_ITEMS; i++) {
        struct model_item *item = &model->item[i];
        if (!item->alive) continue;
        item->common[loop] = false;
        /* S-LOOP-9: no callback. */
        for (int mode = 0; mode < MODE_COMMON; mode++) take_from_mode(model, i, loop, mode);
        model_drop_if_unreferenced(model, i);
    }
    release_queue(model, loop); /* S-LOOP-10: without being run */
}
