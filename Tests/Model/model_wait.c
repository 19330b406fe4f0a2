/* SPDX-License-Identifier: MIT */
/* The model's wait: what is ready, what ends the wait, and which one event the pass then serves. */
#include <string.h>

#include "model.h"

bool model_port_ready(const struct model *model, int index, int loop, int mode) {
    const struct model_item *item = &model->item[index];
    return item->alive && item->valid && item->definition->kind == ITEM_V1 && item->in[loop][mode] &&
           item->definition->port != PORT_BAD /* S-SRC-43 */ && item->pending > 0; /* S-SRC-41 */
}

void model_write(struct model *model, int index, int count) {
    struct model_item *item = &model->item[index];
    if (item->definition->port == PORT_BAD) return;
    if (item->pending == 0) item->ready_since = ++model->serial;
    item->pending += count;
}

void model_forget_overtaken(struct model *model, int b) {
    for (int loop = 0; loop < LOOPS; loop++)
        for (int mode = 0; mode < MODES; mode++)
            for (int a = 0; a < MAX_ITEMS; a++) model->overtook[loop][mode][a][b] = false;
}

void model_drain(struct model *model, int index) {
    model->item[index].pending = 0;
    model_forget_overtaken(model, index);
}

/* What the loop takes from a port before the perform, and perform from a pipe. */
void model_consume(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (item->definition->port == PORT_EVENTFD)
        item->pending = 0; /* S-SRC-46: n writes give one perform. */
    else if (item->pending > 0)
        /* S-SRC-46: a semaphore by units; S-SRC-47: perform reads one byte of a pipe. */
        item->pending--;
    item->ready_since = ++model->serial; /* S-PASS-14: it goes to the end of the line. */
}

static bool is_ready(const struct model *model, int index, int loop, int mode) {
    const struct model_item *item = &model->item[index];
    if (!item->alive) return false;
    if (model_port_ready(model, index, loop, mode)) return true;
    return item->in[loop][mode] && model_timer_due(model, index);
}

/* An item, timer or port, ended a wait: those ready beside it come before it is the one again. */
static void had_its_turn(struct model *model, int index, int loop, int mode) {
    const struct model_item *item = &model->item[index];
    model_forget_overtaken(model, index);
    for (int other = 0; other < MAX_ITEMS; other++) {
        if (other == index || !is_ready(model, other, loop, mode)) continue;
        /* Timers fire together, so one does not overtake another. */
        if (item->definition->kind == ITEM_TIMER && model->item[other].definition->kind == ITEM_TIMER) continue;
        model->overtook[loop][mode][index][other] = true;
    }
}

/* S-PASS-10, S-PASS-13, S-PASS-14: nobody is served twice while somebody else waits for the first
   time. */
static bool must_let_pass(const struct model *model, int index, int loop, int mode) {
    for (int other = 0; other < MAX_ITEMS; other++)
        if (model->overtook[loop][mode][index][other] && is_ready(model, other, loop, mode)) return true;
    return false;
}

/* A wait that really waits: the time moves to what comes first. */
static void block(struct model *model, int loop, struct model_run *run) {
    int64_t deadline = model_next_instant(model, loop, run->mode);
    if (run->deadline < deadline) deadline = run->deadline; /* S-RUN-21 */
    struct outside_event event;
    switch (outside_wait(&model->outside, &model->now, deadline, &event)) {
    case OUTSIDE_DEADLINE:
        break;
    case OUTSIDE_RESCUE:
        model_note(model, ENTRY_RESCUE, -1, 0, 0);
        model_stop(model, loop); /* S-STOP-8 */
        break;
    case OUTSIDE_EVENT:
        model_note(model, ENTRY_OUTSIDE, event.item, event.kind, 0);
        if (event.kind == OP_WAKE) model_wake(model, event.loop); /* S-WAKE-1, S-WAKE-12 */
        if (event.kind == OP_STOP) model_stop(model, event.loop);
        if (event.kind == OP_WRITE) model_write(model, event.item, 1);
        if (event.kind == OP_SIGNAL && model->gate.held[event.item]) model_signal(model, event.item);
        break;
    }
}

int model_wait(struct model *model, int loop, struct model_run *run, bool poll) {
    for (;;) {
        int options[MAX_ITEMS + 2], count = 0;
        bool timers_due = false, timers_may = true;
        for (int i = 0; i < MAX_ITEMS; i++)
            if (!is_ready(model, i, loop, run->mode)) {
                if (model->item[i].created && model->item[i].in[loop][run->mode]) model_forget_overtaken(model, i);
            } else if (model->item[i].definition->kind == ITEM_TIMER) {
                timers_due = true;
                if (must_let_pass(model, i, loop, run->mode)) timers_may = false;
            }
        /* Ports in the order in which they became ready. */
        for (int i = 0; i < MAX_ITEMS; i++) {
            if (!model_port_ready(model, i, loop, run->mode) || must_let_pass(model, i, loop, run->mode)) continue;
            int at = count++;
            while (at > 0 && model->item[options[at - 1]].ready_since > model->item[i].ready_since) {
                options[at] = options[at - 1];
                at--;
            }
            options[at] = i;
        }
        if (timers_due && timers_may) {
            memmove(&options[1], &options[0], (size_t)count * sizeof options[0]);
            options[0] = EVENT_TIMERS;
            count++;
        }
        bool late = !poll && model->now >= run->deadline;
        bool woken = run->woken;
        if (count == 0 && !poll && !woken && !run->stopped && !late) {
            /* S-PASS-16: nothing else ends a wait. */
            block(model, loop, run);
            continue;
        }
        /* S-PASS-10: a pending wake-up may cost a pass of its own; so may the wake-up that is part
           of a stop, and the one that is the end of the run. */
        if (count == 0 || woken || run->stopped || late) options[count++] = EVENT_NOTHING;
        int event = options[model_choose(model, count)];
        /* S-WAKE-2: the wake-up is spent, or else it costs the next pass its wait (S-PASS-10). */
        if (woken) run->woken = event != EVENT_NOTHING && model_choose(model, 2) == 1;
        if (event != EVENT_NOTHING && event != EVENT_TIMERS) {
            had_its_turn(model, event, loop, run->mode);
            run->event_put = model->item[event].put[loop][run->mode];
            /* Timers and ports take turns; which port has the turn is the ports' own matter. */
            for (int i = 0; i < MAX_ITEMS; i++)
                if (model->item[i].definition->kind == ITEM_TIMER)
                    memset(model->overtook[loop][run->mode][i], 0, sizeof model->overtook[0][0][i]);
        }
        for (int i = 0; i < MAX_ITEMS && event == EVENT_TIMERS; i++)
            if (model->item[i].alive && model->item[i].in[loop][run->mode] && model_timer_due(model, i))
                had_its_turn(model, i, loop, run->mode);
        return event;
    }
}
