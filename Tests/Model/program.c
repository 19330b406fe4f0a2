/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <string.h>

void gate_open(struct gate *gate) {
    memset(gate, 0, sizeof *gate);
    gate->fuel = MAX_FUEL;
}

bool gate_can_use(const struct gate *gate, int item) {
    return gate->created[item] && (gate->held[item] || gate->active[item] > 0);
}

bool gate_allows(const struct gate *gate, const struct program *program, const struct op *op) {
    if (op->loop == 1 && !program->has_second_loop) return false;
    if (op->loop == 1 && gate->other_ended) {
        /* A source keeps the loop it is added to alive (S-SRC-15): this one would never be freed.
           Whether an ignored request makes a mode is not said. */
        bool is_source = program->item[op->item].kind == ITEM_V0 || program->item[op->item].kind == ITEM_V1;
        if (op->kind == OP_ALL_MODES || (op->kind == OP_ADD && is_source)) return false;
    }
    switch (op->kind) {
    case OP_CREATE:
        return !gate->created[op->item];
    case OP_RELEASE:
        return gate->held[op->item];
    case OP_ADD:
    case OP_REMOVE:
    case OP_INVALIDATE:
    case OP_SIGNAL:
    case OP_SET_DATE:
    case OP_CONTAINS:
    case OP_IS_VALID:
    case OP_IS_SIGNALLED:
    case OP_FIRE_DATE:
    case OP_TOLERANCE:
    case OP_CONTEXT:
        return gate_can_use(gate, op->item);
    case OP_WRITE:
    case OP_DRAIN:
        return gate->created[op->item];
    case OP_RUN:
    case OP_RUN_FOREVER:
        return gate->depth < MAX_DEPTH;
    case OP_OTHER_THREAD:
    case OP_END_OTHER:
        return program->has_second_loop && gate->thread == 0 && !gate->other_ended;
    default:
        return true;
    }
}

int program_advance(const struct program *program, const struct op *op) {
    if (op->kind == OP_ADVANCE) return op->value;
    if (op->flags & DATE_COARSE) return 0;
    if (op->kind == OP_CREATE && program->item[op->item].kind == ITEM_TIMER)
        return program->item[op->item].date.kind != DATE_FUTURE;
    return op->kind == OP_SET_DATE && op->date.kind != DATE_FUTURE;
}

const char *mode_label(int mode) {
    static const char *const labels[MODES] = {"default", "red", "blue", "green", "COMMON"};
    return mode >= 0 && mode < MODES ? labels[mode] : "none";
}

static void print_date(const struct date *date, FILE *out) {
    switch (date->kind) {
    case DATE_FUTURE:
        fprintf(out, "now+%d", date->value * DATE_STEP);
        break;
    case DATE_PAST:
        fprintf(out, "now-%d", date->value);
        break;
    case DATE_MINUS_INFINITY:
        fprintf(out, "-infinity");
        break;
    case DATE_PLUS_INFINITY:
        fprintf(out, "+infinity");
        break;
    case DATE_NAN:
        fprintf(out, "NaN");
        break;
    }
}

static void print_modes(int mask, FILE *out) {
    fprintf(out, "[");
    const char *separator = "";
    for (int mode = 0; mode < MODES; mode++) {
        if (!(mask & 1 << mode)) continue;
        fprintf(out, "%s%s", separator, mode_label(mode));
        separator = " ";
    }
    fprintf(out, "]");
}

static void print_timeout(const struct op *op, FILE *out) {
    static const char *const special[] = {"", "-infinity", "+infinity", "NaN", "1e12"};
    if (op->timeout == TIMEOUT_UNITS)
        fprintf(out, "t=%d", op->value);
    else
        fprintf(out, "t=%s", special[op->timeout]);
}

static const char *const op_names[OP_KINDS] = {
    "create", "release", "add", "remove", "invalidate", "signal", "write", "drain", "set-date", "wake", "stop",
    "function", "common-mode", "run", "run-forever", "advance", "other-thread", "outside", "contains?", "valid?",
    "signalled?", "fire-date?", "next-fire-date?", "current-mode?", "all-modes?", "waiting?",
    "tolerance?", "context?", "end-other-thread"};

static void print_op(const struct op *op, FILE *out) {
    fprintf(out, "%s", op_names[op->kind]);
    switch (op->kind) {
    case OP_CREATE:
    case OP_RELEASE:
    case OP_INVALIDATE:
    case OP_SIGNAL:
    case OP_DRAIN:
    case OP_IS_VALID:
    case OP_IS_SIGNALLED:
    case OP_FIRE_DATE:
    case OP_CONTEXT:
        fprintf(out, " i%d", op->item);
        break;
    case OP_ADD:
    case OP_REMOVE:
    case OP_CONTAINS:
        fprintf(out, " i%d L%d %s", op->item, op->loop, mode_label(op->mode));
        break;
    case OP_TOLERANCE:
        fprintf(out, " i%d %d", op->item, op->value);
        break;
    case OP_WRITE:
        fprintf(out, " i%d x%d", op->item, op->value);
        break;
    case OP_SET_DATE:
        fprintf(out, " i%d ", op->item);
        print_date(&op->date, out);
        break;
    case OP_FUNCTION:
        fprintf(out, " L%d ", op->loop);
        print_modes(op->value, out);
        if (op->flags & FUNCTION_LIST) fprintf(out, " list");
        if (op->flags & FUNCTION_RELEASE) fprintf(out, " release");
        if (op->script >= 0) fprintf(out, " s%d", op->script);
        break;
    case OP_COMMON_MODE:
    case OP_NEXT_FIRE_DATE:
        fprintf(out, " L%d %s", op->loop, mode_label(op->mode));
        break;
    case OP_RUN:
        fprintf(out, " %s ", mode_label(op->mode));
        print_timeout(op, out);
        if (op->returns_handled) fprintf(out, " h");
        break;
    case OP_ADVANCE:
        fprintf(out, " %d", op->value);
        break;
    case OP_OTHER_THREAD:
        fprintf(out, " s%d", op->script);
        break;
    case OP_OUTSIDE:
        fprintf(out, " at now+%d: %s", op->value, op_names[op->outside]);
        if (op->outside == OP_SIGNAL || op->outside == OP_WRITE)
            fprintf(out, " i%d", op->item);
        else
            fprintf(out, " L%d", op->loop);
        break;
    default:
        fprintf(out, " L%d", op->loop);
        break;
    }
}

static void print_item(const struct program *program, int index, FILE *out) {
    static const char *const ports[] = {"eventfd", "semaphore", "pipe", "bad port"};
    const struct item_definition *item = &program->item[index];
    fprintf(out, "  i%d: ", index);
    switch (item->kind) {
    case ITEM_V0:
        fprintf(out, "v0 source, order %d", item->order);
        if (item->edge & EDGE_SIGNAL) fprintf(out, ", signals itself in schedule/cancel");
        if (item->edge & EDGE_WAKE) fprintf(out, ", wakes in schedule/cancel");
        if (item->edge & EDGE_STOP) fprintf(out, ", stops in schedule/cancel");
        break;
    case ITEM_V1:
        fprintf(out, "v1 source on %s", ports[item->port]);
        break;
    case ITEM_TIMER:
        fprintf(out, "timer at ");
        print_date(&item->date, out);
        fprintf(out, ", interval %d", item->interval * DATE_STEP);
        break;
    case ITEM_OBSERVER:
        fprintf(out, "observer of 0x%x, order %d, %s", item->activities, item->order,
                item->repeats ? "repeating" : "one-shot");
        break;
    }
    if (!item->has_callback) fprintf(out, ", NULL callback");
    if (!item->has_retain) fprintf(out, ", NULL retain");
    if (item->script >= 0) fprintf(out, ", does s%d", item->script);
    fprintf(out, "\n");
}

void program_print(const struct program *program, FILE *out) {
    bool used[MAX_ITEMS] = {false};
    for (int i = 0; i < program->count; i++)
        if (program->op[i].kind == OP_CREATE) used[program->op[i].item] = true;
    for (int s = 0; s < program->scripts; s++)
        for (int i = 0; i < program->script[s].count; i++)
            if (program->script[s].ops[i].kind == OP_CREATE) used[program->script[s].ops[i].item] = true;
    fprintf(out, "items (L0: the loop, L1: the second thread's; times in units of 1/512 s)\n");
    for (int i = 0; i < program->items; i++)
        if (used[i]) print_item(program, i, out);
    for (int s = 0; s < program->scripts; s++) {
        if (program->script[s].count == 0) continue;
        fprintf(out, "  s%d:", s);
        for (int i = 0; i < program->script[s].count; i++) {
            fprintf(out, i == 0 ? " " : "; ");
            print_op(&program->script[s].ops[i], out);
        }
        fprintf(out, "\n");
    }
    fprintf(out, "operations\n");
    for (int i = 0; i < program->count; i++) {
        fprintf(out, "  ");
        print_op(&program->op[i], out);
        fprintf(out, "\n");
    }
}

int program_size(const struct program *program) {
    int size = program->count;
    for (int s = 0; s < program->scripts; s++) size += program->script[s].count;
    return size;
}
