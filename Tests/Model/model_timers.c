/* SPDX-License-Identifier: MIT */
/* The model's timers: dates, instants, which is first, and the batch that fires. */
#include "model.h"

static const int64_t limit_interval = INT64_C(504911232) * 1000000000;

/* S-TMR-9: the fire instant is fixed when the date is given. */
static void compute(const struct model *model, const struct date *date, struct model_date *reported, int64_t *instant,
                    bool *past) {
    const int64_t step = DATE_STEP * UNIT_NANOSECONDS;
    reported->kind = date->kind;
    reported->time = 0;
    *past = false;
    switch (date->kind) {
    case DATE_FUTURE:
        /* On the grid of dates, so that different operations name equal dates. */
        reported->time = (model->now / step + date->value) * step;
        *instant = reported->time;
        break;
    case DATE_PAST:
        reported->time = model->now - date->value * UNIT_NANOSECONDS;
        *instant = model->now; /* S-TMR-7, S-TMR-31 */
        *past = true;
        break;
    case DATE_MINUS_INFINITY:
        *instant = model->now; /* S-TMR-7 */
        *past = true;
        break;
    case DATE_PLUS_INFINITY:
        *instant = model->now + limit_interval; /* S-TMR-6, S-TMR-9 */
        break;
    case DATE_NAN:
        *instant = TIME_NEVER; /* S-TMR-8 */
        break;
    }
}

void model_set_date(struct model *model, int index, const struct date *date) {
    struct model_item *item = &model->item[index];
    struct model_date reported;
    int64_t instant = TIME_NEVER;
    bool past;
    if (!item->valid) return; /* S-TMR-37 */
    compute(model, date, &reported, &instant, &past);
    item->date = reported; /* S-TMR-36 */
    item->armed = ++model->serial;
    if (instant > model->now) item->moved = model->serial;
    if (item->firing > 0) {
        /* S-TMR-38: it replaces the re-arming if it is later than the instant being served. A past
           date is "now", which on a clock that stands still may be that very instant: then either
           is right. */
        item->set_inside = instant > item->served || (instant == item->served && model_choose(model, 2) == 0);
    }
    item->instant = instant;
    item->past_serial = past ? ++model->serial : 0;
    item->was_past = false;
    /* S-WAKE-14: from another thread it wakes the timer's loop. */
    for (int loop = 0; loop < LOOPS; loop++)
        if (model->gate.thread != loop && (item->common[loop] || model_in_any_mode(item, loop)))
            model_wake(model, loop);
}

int64_t model_date_answer(const struct model_date *date) {
    switch (date->kind) {
    case DATE_NAN:
        return ANSWER_DATE_NAN; /* S-TMR-8 */
    case DATE_MINUS_INFINITY:
        return ANSWER_DATE_MINUS_INFINITY; /* S-TMR-7: as given */
    case DATE_PLUS_INFINITY:
        return ANSWER_DATE_LIMIT; /* S-TMR-6 */
    default:
        return date->time / UNIT_NANOSECONDS;
    }
}

/* S-TMR-21, 22: whether a fires before b, two timers of one mode. */
bool model_earlier(struct model *model, int loop, int mode, int a, int b) {
    const struct model_item *left = &model->item[a], *right = &model->item[b];
    if (left->instant != right->instant) return left->instant < right->instant;
    /* S-TMR-22: among past dates the order of creation or setting. */
    if (left->past_serial && right->past_serial) return left->past_serial < right->past_serial;
    bool put_first = model_put_before(model, loop, mode, a, b);
    /* A past date against an ordinary one of the same nanosecond: a real clock never shows that. */
    bool open = left->past_serial || right->past_serial || left->was_past || right->was_past;
    /* "Put in the mode" can be read as the addition or as the last arming. */
    if (put_first != (left->armed < right->armed)) open = true;
    if (open) return model_choose(model, 2) == 0 ? put_first : !put_first;
    return put_first; /* S-TMR-21 */
}

bool model_timer_due(const struct model *model, int index) {
    const struct model_item *item = &model->item[index];
    /* S-TMR-20, S-TMR-27 */
    return item->definition->kind == ITEM_TIMER && item->valid && item->firing == 0 && item->instant <= model->now;
}

/* The instant that a wait in the mode has to end at for its timers. */
int64_t model_next_instant(const struct model *model, int loop, int mode) {
    int64_t next = TIME_NEVER;
    for (int i = 0; i < MAX_ITEMS; i++) {
        const struct model_item *item = &model->item[i];
        if (!item->alive || item->definition->kind != ITEM_TIMER || !item->in[loop][mode]) continue;
        if (item->firing > 0) continue; /* S-NEST-4, S-TMR-27 */
        if (item->instant < next) next = item->instant;
    }
    return next;
}

/* S-TMR-55: the date of the timer with the earliest instant, also a past one, also of one that
   fires. */
int64_t model_next_fire_date(struct model *model, int loop, int mode) {
    int first = -1;
    if (mode == MODE_COMMON) return ANSWER_DATE_ZERO;
    for (int i = 0; i < MAX_ITEMS; i++) {
        const struct model_item *item = &model->item[i];
        if (!item->alive || item->definition->kind != ITEM_TIMER || !item->in[loop][mode]) continue;
        if (first < 0 || model_earlier(model, loop, mode, i, first)) first = i;
    }
    if (first < 0) return ANSWER_DATE_ZERO;
    /* S-TMR-8: whether a timer without an instant counts here is not said. */
    if (model->item[first].instant == TIME_NEVER && model_choose(model, 2) == 1) return ANSWER_DATE_ZERO;
    return model_date_answer(&model->item[first].date);
}

/* S-TMR-51, S-TMR-52. */
int64_t model_tolerance(const struct model_item *item, int units) {
    int64_t tolerance = units > 0 ? units * UNIT_NANOSECONDS : 0;
    if (item->interval > 0 && tolerance > item->interval / 2) tolerance = item->interval / 2;
    return tolerance;
}

static void fire(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    const struct item_definition *definition = item->definition;
    item->firing++;
    item->set_inside = false;
    item->served = item->instant;
    item->firing_thread = model->gate.thread;
    /* S-TMR-44: the bracket. */
    if (definition->has_retain) model_note(model, ENTRY_CONTEXT_RETAIN, index, 0, 0);
    item->moved = ++model->serial;
    if (definition->has_callback) { /* S-TMR-12 */
        model_note(model, ENTRY_FIRE, index, 0, 0);
        model->gate.active[index]++;
        model_run_script(model, definition->script);
        model->gate.active[index]--;
    }
    item->armed = ++model->serial;
    if (item->valid && item->interval == 0) {
        /* S-TMR-28, S-TMR-40; its release comes before the bracket's. */
        model_invalidate(model, index);
    } else if (item->valid && !item->set_inside) {
        /* S-TMR-29, 30, 35: the first instant of the grid later than now. */
        int64_t passed = (model->now - item->served) / item->interval + 1;
        item->instant = item->served + passed * item->interval;
        item->date.kind = DATE_FUTURE;
        item->date.time = item->instant;
        item->was_past = item->was_past || item->past_serial;
        item->past_serial = 0;
    }
    if (definition->has_retain) model_note(model, ENTRY_CONTEXT_RELEASE, index, 0, 0);
    model_end_use_of_info(model, index); /* S-THR-8 */
    item->firing--;
}

/* S-PASS-9: all due timers, in one pass. */
void model_serve_timers(struct model *model, int loop, int mode) {
    int batch[MAX_ITEMS], count = 0;
    int64_t batch_now = model->now;
    long begun = model->serial;
    for (int i = 0; i < MAX_ITEMS; i++) {
        const struct model_item *item = &model->item[i];
        /* S-TMR-23 */
        if (!item->alive || !item->in[loop][mode] || !model_timer_due(model, i)) continue;
        int at = count++;
        while (at > 0 && model_earlier(model, loop, mode, i, batch[at - 1])) {
            batch[at] = batch[at - 1];
            at--;
        }
        batch[at] = i;
    }
    for (int i = 0; i < count; i++) model_pin(model, batch[i]);
    for (int i = 0; i < count; i++) {
        struct model_item *item = &model->item[batch[i]];
        /* S-TMR-23..26: tested again before its turn. */
        bool turn = item->alive && item->valid && item->firing == 0 && model_in_any_mode(item, loop);
        if (turn && item->instant > model->now) turn = false; /* S-TMR-24 */
        /* Postponed, and then overtaken by the clock, within the batch: either is right. One that was made due anew
           keeps its turn (S-TMR-23). */
        if (turn && item->instant > batch_now && item->moved > begun) turn = model_choose(model, 2) == 0;
        /* S-TMR-25 for a timer in two batches, of nested runs: either may be the one in which it
           has its turn. */
        if (turn && !item->in[loop][mode] && item->pins > 1) turn = model_choose(model, 2) == 0;
        if (turn) fire(model, batch[i]);
        model_unpin_batch(model, batch, count, i);
    }
    model_unpin_batch(model, batch, count, count);
}
