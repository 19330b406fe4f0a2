/* SPDX-License-Identifier: MIT */
/* The model's interpreter: each operation of a sequence, done on the model's loops. */
#include "model.h"

#include <string.h>

#include <runloop/loop.h>

void model_note(struct model *model, enum entry_kind kind, int item, int a, int64_t b) {
    bool on_any_thread = model->gate.closing && kind != ENTRY_CANCEL;
    struct entry entry = {
        (int16_t)kind, (int16_t)(on_any_thread ? 0 : model->gate.thread), item, a, b, model->now};
    trace_add(model->trace, entry);
}

int model_choose(struct model *model, int options) {
    return choices_ask(model->choices, options, model->trace->count);
}

void model_wake(struct model *model, int loop) {
    struct model_loop *target = &model->loop[loop];
    if (!target->innermost) return; /* S-WAKE-5 */
    target->wake_noted = true;
    /* S-WAKE-3, S-WAKE-4, S-WAKE-9: it counts for each run that has not yet waited in its pass. */
    for (struct model_run *run = target->innermost; run; run = run->outer)
        if (run->before_wait) run->woken = true;
}

void model_stop(struct model *model, int loop) {
    /* S-STOP-1, S-STOP-2, S-STOP-10. */
    if (model->loop[loop].innermost) model->loop[loop].innermost->stopped = true;
}

static void answer(struct model *model, const struct op *op, int64_t value) {
    bool about_item = op->kind == OP_CONTAINS || op->kind == OP_IS_VALID || op->kind == OP_IS_SIGNALLED ||
                      op->kind == OP_FIRE_DATE || op->kind == OP_TOLERANCE || op->kind == OP_CONTEXT;
    model_note(model, ENTRY_ANSWER, about_item ? op->item : -1, op->kind, value);
}

static void ask(struct model *model, const struct op *op) {
    const struct model_item *item = &model->item[op->item];
    const struct model_loop *loop = &model->loop[op->loop];
    int64_t modes = 0;
    switch (op->kind) {
    case OP_CONTAINS:
        answer(model, op, model_contains(model, op->item, op->loop, op->mode));
        break;
    case OP_IS_VALID:
        answer(model, op, item->valid);
        break;
    case OP_IS_SIGNALLED:
        answer(model, op, item->signalled); /* S-SRC-38 */
        break;
    case OP_FIRE_DATE:
        /* S-TMR-43: 0 for an invalid timer; S-TMR-34: the date being served inside the callback. */
        answer(model, op, item->valid ? model_date_answer(&item->date) : ANSWER_DATE_ZERO);
        break;
    case OP_NEXT_FIRE_DATE:
        answer(model, op, model_next_fire_date(model, op->loop, op->mode));
        break;
    case OP_CURRENT_MODE:
        answer(model, op, loop->innermost ? loop->innermost->mode : -1); /* S-MODE-8 */
        break;
    case OP_ALL_MODES:
        for (int mode = 0; mode < MODE_COMMON; mode++)
            if (loop->exists[mode]) modes |= INT64_C(1) << mode; /* S-MODE-5, 6, 7 */
        answer(model, op, modes);
        break;
    case OP_TOLERANCE:
        if (item->valid) answer(model, op, model_tolerance(item, op->value));
        break;
    case OP_CONTEXT:
        /* S-SRC-11: a source keeps it; S-TMR-43, S-OBS-16: an invalid timer or observer shows no
           info. */
        answer(model, op, item->valid || item->definition->kind == ITEM_V0 || item->definition->kind == ITEM_V1);
        break;
    default:
        answer(model, op, 0); /* S-WAKE-10: no callback runs while a loop of these tests waits. */
        break;
    }
}

static void do_op(struct model *model, const struct op *op) {
    struct gate *gate = &model->gate;
    struct outside_event event;
    int result;
    if (!gate_allows(gate, model->program, op)) return;
    model->now += program_advance(model->program, op) * UNIT_NANOSECONDS;
    switch (op->kind) {
    case OP_CREATE:
        model_create(model, op->item);
        gate->created[op->item] = gate->held[op->item] = true;
        break;
    case OP_RELEASE:
        model_release(model, op->item);
        break;
    case OP_ADD:
    case OP_REMOVE:
    case OP_INVALIDATE:
    case OP_COMMON_MODE:
        model_note(model, ENTRY_GROUP, -1, 0, 0);
        if (op->kind == OP_ADD) model_add(model, op->item, op->loop, op->mode);
        if (op->kind == OP_REMOVE) model_remove(model, op->item, op->loop, op->mode);
        if (op->kind == OP_INVALIDATE) model_invalidate(model, op->item);
        if (op->kind == OP_COMMON_MODE) model_add_common_mode(model, op->loop, op->mode);
        model_note(model, ENTRY_GROUP_END, -1, 0, 0);
        break;
    case OP_SIGNAL:
        model_signal(model, op->item);
        break;
    case OP_WRITE:
        model_write(model, op->item, op->value);
        break;
    case OP_DRAIN:
        model_drain(model, op->item);
        break;
    case OP_SET_DATE:
        model_set_date(model, op->item, &op->date);
        break;
    case OP_WAKE:
        model_wake(model, op->loop);
        break;
    case OP_STOP:
        model_stop(model, op->loop);
        break;
    case OP_FUNCTION:
        model_post(model, op->loop, op->value, op->script, op->flags);
        break;
    case OP_RUN:
    case OP_RUN_FOREVER:
        model_note(model, ENTRY_RUN, -1, op->kind == OP_RUN ? op->mode : -1, 0);
        /* S-RUN-8: a run of the default mode without a deadline gives Finished or Stopped at once.
           */
        result = model_run(model, gate->thread, op->kind == OP_RUN ? op->mode : MODE_DEFAULT, op);
        model_note(model, ENTRY_RESULT, -1, op->kind == OP_RUN ? result : 0, 0);
        break;
    case OP_ADVANCE:
        break;
    case OP_OTHER_THREAD:
        gate->thread = 1;
        model_run_script(model, op->script);
        gate->thread = 0;
        break;
    case OP_END_OTHER:
        model_note(model, ENTRY_GROUP, -1, 0, 0);
        gate->thread = 1;
        model_end_thread(model, 1);
        gate->thread = 0;
        gate->other_ended = true;
        model_note(model, ENTRY_GROUP_END, -1, 0, 0);
        break;
    case OP_OUTSIDE:
        event.time = model->now + op->value * UNIT_NANOSECONDS;
        event.kind = op->outside;
        event.item = op->outside == OP_SIGNAL || op->outside == OP_WRITE ? op->item : -1;
        event.loop = op->loop;
        if (event.item >= 0 && !gate->created[event.item]) break;
        outside_arm(&model->outside, event);
        break;
    default:
        ask(model, op);
        break;
    }
}

void model_run_script(struct model *model, int script) {
    if (script < 0) return;
    for (int i = 0; i < model->program->script[script].count; i++) {
        if (model->gate.fuel == 0) return;
        model->gate.fuel--;
        do_op(model, &model->program->script[script].ops[i]);
    }
}

void model_predict(const struct program *program, struct choices *choices, struct trace *trace) {
    struct model model;
    memset(&model, 0, sizeof model);
    model.program = program;
    model.choices = choices;
    model.trace = trace;
    for (int i = 0; i < MAX_ITEMS; i++) model.item[i].definition = &program->item[i];
    for (int loop = 0; loop < LOOPS; loop++) {
        model.loop[loop].exists[MODE_DEFAULT] = true; /* S-LOOP-5, S-MODE-11 */
        model.loop[loop].is_common[MODE_DEFAULT] = true;
    }
    choices->count = 0;
    trace_clear(trace);
    gate_open(&model.gate);
    for (int i = 0; i < program->count; i++) do_op(&model, &program->op[i]);
    /* The end of the threads, then of the handles that the client still has. */
    model.gate.closing = true;
    model_note(&model, ENTRY_GROUP, -1, 0, 0);
    if (program->has_second_loop && !model.gate.other_ended) model_end_thread(&model, 1);
    if (program->has_second_loop) model_free_loop(&model, 1);
    model_end_thread(&model, 0);
    model_free_loop(&model, 0);
    model_note(&model, ENTRY_GROUP_END, -1, 0, 0);
    for (int i = 0; i < program->items; i++) {
        if (!model.gate.held[i]) continue;
        /* S-LOOP-8, S-LOOP-9: they stay valid. */
        model_note(&model, ENTRY_ANSWER, i, OP_IS_VALID, model.item[i].valid);
        model_release(&model, i);
    }
}
