/* SPDX-License-Identifier: MIT */
/* The model's run: E1 to E3 and the pass P1 to P15, in the order of section 4 of the specification.
   */
#include <string.h>

#include "model.h"
#include <runloop/loop.h>

/* S-BLK-4: whether a posted function may run in this mode, with the common set of this moment. */
static bool is_eligible(const struct model_loop *loop, const struct model_function *function, int mode) {
    return (function->modes & 1 << mode) || ((function->modes & 1 << MODE_COMMON) && loop->is_common[mode]);
}

/* S-RUN-2, S-RUN-3, S-BLK-10, S-OBS-12. */
static bool is_empty(const struct model *model, int loop, int mode) {
    if (!model->loop[loop].exists[mode]) return true; /* S-RUN-4 */
    for (int i = 0; i < MAX_ITEMS; i++)
        if (model->item[i].alive && model->item[i].in[loop][mode] &&
            model->item[i].definition->kind != ITEM_OBSERVER)
            return false;
    for (int i = 0; i < model->loop[loop].queued; i++)
        if (is_eligible(&model->loop[loop], &model->loop[loop].queue[i], mode)) return false;
    return true;
}

void model_post(struct model *model, int loop, int modes, int script, int flags) {
    struct model_loop *target = &model->loop[loop];
    struct model_function function = {model->functions++, modes, script, (flags & FUNCTION_RELEASE) != 0};
    /* S-BLK-13, S-BLK-18: it can never run, and is released before the call returns. */
    if (modes == 0 || (loop == 1 && model->gate.other_ended)) {
        if (function.has_release) model_note(model, ENTRY_FUNCTION_RELEASE, function.id, 0, 0);
        return;
    }
    for (int mode = 0; mode < MODE_COMMON; mode++)
        if (modes & 1 << mode) target->exists[mode] = true; /* S-BLK-12, S-MODE-7 */
    /* S-BLK-1, S-BLK-2. */
    if (target->queued < MAX_QUEUE) target->queue[target->queued++] = function;
}

static void run_functions(struct model *model, int loop, int mode) {
    struct model_loop *target = &model->loop[loop];
    /* S-BLK-6: the queue as it is now. S-BLK-15: a nested run does not see what is in the round. */
    struct model_function round[MAX_QUEUE], kept[MAX_QUEUE];
    int count = target->queued, keeping = 0;
    memcpy(round, target->queue, (size_t)count * sizeof round[0]);
    target->queued = 0;
    for (int i = 0; i < count; i++) {
        if (!is_eligible(target, &round[i], mode)) {
            kept[keeping++] = round[i]; /* S-BLK-3 */
            continue;
        }
        model_note(model, ENTRY_FUNCTION, round[i].id, 0, 0); /* S-BLK-5 */
        model_run_script(model, round[i].script);
        /* S-BLK-17 */
        if (round[i].has_release) model_note(model, ENTRY_FUNCTION_RELEASE, round[i].id, 0, 0);
    }
    if (keeping + target->queued > MAX_QUEUE) keeping = MAX_QUEUE - target->queued;
    memmove(&target->queue[keeping], &target->queue[0], (size_t)target->queued * sizeof kept[0]);
    memcpy(&target->queue[0], kept, (size_t)keeping * sizeof kept[0]);
    target->queued += keeping;
}

static void call_observer(struct model *model, int index, int activity) {
    struct model_item *item = &model->item[index];
    item->firing++;
    item->firing_thread = model->gate.thread;
    if (item->definition->has_callback) { /* S-OBS-14 */
        model_note(model, ENTRY_OBSERVE, index, activity, 0);
        model->gate.active[index]++;
        model_run_script(model, item->definition->script);
        model->gate.active[index]--;
    }
    model_end_use_of_info(model, index); /* S-THR-8 */
    if (!item->definition->repeats) model_invalidate(model, index); /* S-OBS-7 */
    item->firing--;
}

static void notify(struct model *model, int loop, int mode, unsigned activity) {
    int batch[MAX_ITEMS], count = 0;
    /* S-OBS-3: collected first; S-OBS-8: without those on the stack; S-OBS-13: the mask. */
    for (int i = 0; i < MAX_ITEMS; i++) {
        const struct model_item *item = &model->item[i];
        if (!item->alive || !item->valid || item->definition->kind != ITEM_OBSERVER) continue;
        if (!item->in[loop][mode] || item->firing > 0 || !(item->definition->activities & activity)) continue;
        int at = count++;
        /* S-OBS-2: by order, then in order of addition to the mode. */
        while (at > 0) {
            const struct model_item *before = &model->item[batch[at - 1]];
            if (before->definition->order < item->definition->order) break;
            if (before->definition->order == item->definition->order &&
                model_put_before(model, loop, mode, batch[at - 1], i))
                break;
            batch[at] = batch[at - 1];
            at--;
        }
        batch[at] = i;
    }
    for (int i = 0; i < count; i++) model_pin(model, batch[i]);
    for (int i = 0; i < count; i++) {
        /* S-OBS-4, S-OBS-5, S-OBS-6. */
        if (model->item[batch[i]].valid) call_observer(model, batch[i], (int)activity);
        model_unpin_batch(model, batch, count, i);
    }
    model_unpin_batch(model, batch, count, count);
}

static void perform(struct model *model, int index) {
    struct model_item *item = &model->item[index];
    if (!item->definition->has_callback) return; /* S-SRC-36 */
    model_note(model, ENTRY_PERFORM, index, 0, 0);
    if (item->definition->kind == ITEM_V1 && item->definition->port == PORT_PIPE) model_consume(model, index);
    model->gate.active[index]++;
    model_run_script(model, item->definition->script);
    model->gate.active[index]--;
}

/* P5. Returns whether any member performed (S-PASS-15). */
static bool perform_signalled(struct model *model, int loop, const struct model_run *run) {
    int batch[MAX_ITEMS], count = 0, turns;
    bool handled = false;
    for (int i = 0; i < MAX_ITEMS; i++) {
        const struct model_item *item = &model->item[i];
        if (!item->alive || !item->valid || item->definition->kind != ITEM_V0) continue;
        if (!item->in[loop][run->mode] || !item->signalled) continue;
        int at = count++;
        /* S-SRC-31: by order, then by the time of the first signal. */
        while (at > 0) {
            const struct model_item *before = &model->item[batch[at - 1]];
            if (before->definition->order < item->definition->order) break;
            if (before->definition->order == item->definition->order && before->first_signal < item->first_signal)
                break;
            batch[at] = batch[at - 1];
            at--;
        }
        batch[at] = i;
    }
    turns = run->returns_handled && count > 1 ? 1 : count; /* S-RUN-13 */
    for (int i = 0; i < count; i++) {
        model_pin(model, batch[i]);
        if (i < turns) model->item[batch[i]].turns++;
    }
    for (int i = 0; i < turns; i++) {
        struct model_item *item = &model->item[batch[i]];
        item->turns--;
        /* S-SRC-33: removed or not; S-SRC-34: not an invalid one; S-SRC-35: not without its flag.
           */
        if (item->alive && item->valid && item->signalled) {
            item->signalled = false; /* S-SRC-29 */
            handled = true;
            perform(model, batch[i]);
        }
        model_unpin_batch(model, batch, count, i);
    }
    model_unpin_batch(model, batch, count, count);
    return handled;
}

/* P13 for a port. */
static bool serve_port(struct model *model, int index, int loop, const struct model_run *run) {
    struct model_item *item = &model->item[index];
    /* Since it ended the wait an AfterWaiting observer may have removed, invalidated or drained it
       (S-THR-6). */
    if (!model_port_ready(model, index, loop, run->mode)) return false;
    /* Removed and added again by such an observer: the event may have gone with the old membership.
       */
    if (item->put[loop][run->mode] != run->event_put && model_choose(model, 2) == 0) return false;
    item->signalled = false; /* S-SRC-45 */
    if (item->definition->port != PORT_PIPE) model_consume(model, index); /* S-SRC-46 */
    perform(model, index);
    model_drop_if_unreferenced(model, index);
    return true;
}

/* P1 to P15. Returns 0 if another pass follows. */
static int pass(struct model *model, int loop, struct model_run *run) {
    bool handled, poll;
    int event;
    run->before_wait = true; /* P1 */
    model->loop[loop].wake_noted = false;
    notify(model, loop, run->mode, kRLBeforeTimers);  /* P2, S-PASS-2 */
    notify(model, loop, run->mode, kRLBeforeSources); /* P3 */
    run_functions(model, loop, run->mode);            /* P4, S-BLK-7, 8 */
    handled = perform_signalled(model, loop, run);    /* P5 */
    if (handled) run_functions(model, loop, run->mode); /* P6 */
    poll = handled || run->poll;                         /* P7, S-PASS-7 */
    if (!poll) notify(model, loop, run->mode, kRLBeforeWaiting); /* P9, S-PASS-3..6 */
    event = model_wait(model, loop, run, poll);                  /* P10 */
    run->before_wait = false;                                    /* P11, S-WAKE-4 */
    model->loop[loop].wake_noted = false;
    if (!poll) notify(model, loop, run->mode, kRLAfterWaiting); /* P12 */
    if (event == EVENT_TIMERS) /* P13, S-PASS-8 */
        model_serve_timers(model, loop, run->mode);
    else if (event >= 0 && serve_port(model, event, loop, run))
        handled = true; /* S-RUN-12 */
    run_functions(model, loop, run->mode); /* P14 */
    /* P15, S-RUN-9: the first match wins. */
    if (run->returns_handled && handled) return kRLRunHandledSource;
    if (run->poll || model->now >= run->deadline) return kRLRunTimedOut; /* S-RUN-11, 17, 22 */
    if (run->stopped) return kRLRunStopped;
    if (is_empty(model, loop, run->mode)) return kRLRunFinished; /* S-RUN-5, 16 */
    return 0;
}

int model_run(struct model *model, int loop, int mode, const struct op *op) {
    struct model_loop *target = &model->loop[loop];
    struct model_run run = {.outer = target->innermost, .mode = mode, .before_wait = true};
    int result = 0;
    /* S-MODE-19, S-RUN-4 */
    if (mode == MODE_COMMON || is_empty(model, loop, mode)) return kRLRunFinished;
    run.returns_handled = op->kind == OP_RUN && op->returns_handled;
    /* S-RUN-17 */
    run.poll = op->kind == OP_RUN && (op->timeout == TIMEOUT_MINUS_INFINITY ||
                                      (op->timeout == TIMEOUT_UNITS && op->value <= 0));
    if (run.outer) {
        /* S-WAKE-9: whether a nested run makes an extra pass for an earlier wake-up is not
           promised. */
        bool pending = target->wake_noted;
        for (struct model_run *each = run.outer; each; each = each->outer) pending = pending || each->woken;
        if (pending) run.woken = model_choose(model, 2) == 1;
    } /* S-WAKE-6: an outermost run has none. */
    target->wake_noted = false;
    target->innermost = &run; /* E1, S-MODE-9 */
    model->gate.depth++;
    notify(model, loop, mode, kRLEntry); /* S-PASS-1 */
    if (run.stopped) {
        result = kRLRunStopped; /* E2, S-STOP-4 */
    } else {
        /* S-RUN-18: counted from here; S-RUN-19: no deadline. */
        run.deadline = op->kind == OP_RUN && op->timeout == TIMEOUT_UNITS
                           ? model->now + op->value * UNIT_NANOSECONDS
                           : TIME_NEVER;
        while (result == 0 && !model->trace->overflow) result = pass(model, loop, &run);
    }
    notify(model, loop, mode, kRLExit); /* E3, S-STOP-7, S-STOP-12 */
    model->gate.depth--;
    target->innermost = run.outer;
    return result;
}
