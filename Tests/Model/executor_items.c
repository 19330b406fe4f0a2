/* SPDX-License-Identifier: MIT */
/* The executor's items: their callbacks, and the library's calls for each kind of item. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "executor_state.h"

static const char *const mode_names[MODES] = {NULL, "red", "blue", "green", NULL};

const char *executor_mode_name(int mode) {
    if (mode == MODE_DEFAULT) return kRLDefaultMode;
    if (mode == MODE_COMMON) return kRLCommonModes;
    return mode_names[mode];
}

int executor_mode_number(const char *name) {
    for (int mode = 0; mode < MODES; mode++)
        if (name && strcmp(name, executor_mode_name(mode)) == 0) return mode;
    return -1;
}

static int loop_number(RLRunLoopRef loop) { return loop == executor.loop[0] ? 0 : 1; }

static void call_script(int index) {
    executor.gate.active[index]++;
    executor_run_script(executor.program->item[index].script);
    executor.gate.active[index]--;
}

/* Callbacks. */

static const void *on_retain(const void *info) {
    const struct executor_item *item = info;
    executor_note(ENTRY_CONTEXT_RETAIN, item->index, 0, 0);
    return info;
}

static void on_release(const void *info) {
    const struct executor_item *item = info;
    executor_note(ENTRY_CONTEXT_RELEASE, item->index, 0, 0);
}

static void on_perform(void *info) {
    struct executor_item *item = info;
    executor_note(ENTRY_PERFORM, item->index, 0, 0);
    if (executor.program->item[item->index].kind == ITEM_V1 && executor.program->item[item->index].port == PORT_PIPE) {
        char byte;
        ssize_t got = read(item->read_end, &byte, 1);
        (void)got;
    }
    call_script(item->index);
}

static RLPort on_get_port(void *info) { return ((struct executor_item *)info)->read_end; }

static void on_edge(enum entry_kind kind, struct executor_item *item, RLRunLoopRef loop, RLMode mode) {
    RLSourceRef source = (RLSourceRef)item->object;
    bool member = !executor.gate.closing && RLContainsSource(loop, source, mode);
    int edge = executor.program->item[item->index].edge;
    executor_note(kind, item->index, loop_number(loop) * 16 + executor_mode_number(mode),
                  member | RLSourceIsValid(source) << 1);
    if (executor.gate.closing) return;
    if (edge & EDGE_SIGNAL) RLSourceSignal(source);
    if (edge & EDGE_WAKE) RLWakeUp(loop);
    if (edge & EDGE_STOP) RLStop(loop);
}

static void on_schedule(void *info, RLRunLoopRef loop, RLMode mode) { on_edge(ENTRY_SCHEDULE, info, loop, mode); }

static void on_cancel(void *info, RLRunLoopRef loop, RLMode mode) { on_edge(ENTRY_CANCEL, info, loop, mode); }

static void on_fire(RLTimerRef timer, void *info) {
    const struct executor_item *item = info;
    (void)timer;
    executor_note(ENTRY_FIRE, item->index, 0, 0);
    call_script(item->index);
}

static void on_observe(RLObserverRef observer, RLActivity activity, void *info) {
    const struct executor_item *item = info;
    (void)observer;
    executor_note(ENTRY_OBSERVE, item->index, (int)activity, 0);
    call_script(item->index);
}

/* Dates. */

double executor_date(const struct date *date) {
    const int64_t step = DATE_STEP * UNIT_NANOSECONDS;
    if (date->kind == DATE_MINUS_INFINITY) return -INFINITY;
    if (date->kind == DATE_PLUS_INFINITY) return INFINITY;
    if (date->kind == DATE_NAN) return NAN;
    /* As programs do that compute dates; the library learns by it that this clock jumped (S-TMR-9). */
    RLAbsoluteTime now = RLAbsoluteTimeGetCurrent();
    if (executor.options.real_clock)
        return now + (date->kind == DATE_FUTURE ? 1000.0 * date->value : -date->value);
    int64_t units = date->kind == DATE_FUTURE ? (clock_now() / step + date->value) * DATE_STEP
                                              : clock_now() / UNIT_NANOSECONDS - date->value;
    return CLOCK_WALL_START + (double)units / UNITS_PER_SECOND;
}

int64_t executor_date_answer(double date) {
    if (isnan(date)) return ANSWER_DATE_NAN;
    if (date == -INFINITY) return ANSWER_DATE_MINUS_INFINITY;
    if (date == 4039289856.0) return ANSWER_DATE_LIMIT;
    if (date == 0) return ANSWER_DATE_ZERO;
    double units = (date - CLOCK_WALL_START) * UNITS_PER_SECOND;
    /* A date after a re-arming need not be exact to the last bit, only to two microseconds. */
    return fabs(units - round(units)) > 0.001 ? ANSWER_DATE_INEXACT : llround(units);
}

/* Calls. */

static void open_port(struct executor_item *item, enum port_kind kind) {
    int ends[2];
    if (kind == PORT_PIPE) {
        if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) abort();
        item->read_end = ends[0];
        item->write_end = ends[1];
    } else if (kind != PORT_BAD) {
        item->read_end = item->write_end =
            eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | (kind == PORT_SEMAPHORE ? EFD_SEMAPHORE : 0));
        if (item->read_end < 0) abort();
    }
}

void executor_create(int index) {
    const struct item_definition *definition = &executor.program->item[index];
    struct executor_item *item = &executor.item[index];
    const void *(*retain)(const void *) = definition->has_retain ? on_retain : NULL;
    switch (definition->kind) {
    case ITEM_V0: {
        RLSourceContext context = {.version = 0,
                                   .info = item,
                                   .retain = retain,
                                   .release = on_release,
                                   .schedule = on_schedule,
                                   .cancel = on_cancel,
                                   .perform = definition->has_callback ? on_perform : NULL};
        item->object = RLSourceCreate(definition->order, &context);
        break;
    }
    case ITEM_V1: {
        RLSourceContext1 context = {.version = 1,
                                    .info = item,
                                    .retain = retain,
                                    .release = on_release,
                                    .getPort = on_get_port,
                                    .perform = on_perform};
        open_port(item, definition->port);
        item->object = RLSourceCreate(definition->order, (RLSourceContext *)&context);
        break;
    }
    case ITEM_TIMER: {
        RLTimerContext context = {.version = 0, .info = item, .retain = retain, .release = on_release};
        double step = executor.options.real_clock ? 1000 : DATE_STEP / UNITS_PER_SECOND;
        item->object = RLTimerCreate(executor_date(&definition->date), definition->interval * step, 0,
                                     definition->order, definition->has_callback ? on_fire : NULL, &context);
        break;
    }
    case ITEM_OBSERVER: {
        RLObserverContext context = {.version = 0, .info = item, .retain = retain, .release = on_release};
        item->object = RLObserverCreate(definition->activities, definition->repeats, definition->order,
                                        definition->has_callback ? on_observe : NULL, &context);
        break;
    }
    }
}

void executor_change_membership(const struct op *op) {
    RLRunLoopRef loop = executor.loop[op->loop];
    void *object = (void *)executor.item[op->item].object;
    bool adds = op->kind == OP_ADD;
    switch (executor.program->item[op->item].kind) {
    case ITEM_V0:
    case ITEM_V1:
        WITH_NAME(op->mode, name, (adds ? RLAddSource : RLRemoveSource)(loop, object, name));
        break;
    case ITEM_TIMER:
        WITH_NAME(op->mode, name, (adds ? RLAddTimer : RLRemoveTimer)(loop, object, name));
        break;
    case ITEM_OBSERVER:
        WITH_NAME(op->mode, name, (adds ? RLAddObserver : RLRemoveObserver)(loop, object, name));
        break;
    }
}

void executor_invalidate(int index) {
    void *object = (void *)executor.item[index].object;
    switch (executor.program->item[index].kind) {
    case ITEM_V0:
    case ITEM_V1:
        RLSourceInvalidate(object);
        break;
    case ITEM_TIMER:
        RLTimerInvalidate(object);
        break;
    case ITEM_OBSERVER:
        RLObserverInvalidate(object);
        break;
    }
}

bool executor_is_valid(int index) {
    void *object = (void *)executor.item[index].object;
    switch (executor.program->item[index].kind) {
    case ITEM_TIMER:
        return RLTimerIsValid(object);
    case ITEM_OBSERVER:
        return RLObserverIsValid(object);
    default:
        return RLSourceIsValid(object);
    }
}

bool executor_has_info(int index) {
    void *object = (void *)executor.item[index].object;
    switch (executor.program->item[index].kind) {
    case ITEM_TIMER: {
        RLTimerContext context = {.version = 0};
        RLTimerGetContext(object, &context);
        return context.info;
    }
    case ITEM_OBSERVER: {
        RLObserverContext context = {.version = 0};
        RLObserverGetContext(object, &context);
        return context.info;
    }
    case ITEM_V1: {
        RLSourceContext1 context = {.version = 1};
        RLSourceGetContext(object, (RLSourceContext *)&context);
        return context.info;
    }
    default: {
        RLSourceContext context = {.version = 0};
        RLSourceGetContext(object, &context);
        return context.info;
    }
    }
}

bool executor_contains(const struct op *op) {
    RLRunLoopRef loop = executor.loop[op->loop];
    void *object = (void *)executor.item[op->item].object;
    bool answer = false;
    switch (executor.program->item[op->item].kind) {
    case ITEM_TIMER:
        WITH_NAME(op->mode, name, answer = RLContainsTimer(loop, object, name));
        break;
    case ITEM_OBSERVER:
        WITH_NAME(op->mode, name, answer = RLContainsObserver(loop, object, name));
        break;
    default:
        WITH_NAME(op->mode, name, answer = RLContainsSource(loop, object, name));
        break;
    }
    return answer;
}

void executor_write_port(int index, int count) {
    const struct executor_item *item = &executor.item[index];
    if (item->write_end < 0) return;
    for (int i = 0; i < count; i++) {
        uint64_t one = 1;
        size_t size = executor.program->item[index].port == PORT_PIPE ? 1 : sizeof one;
        if (write(item->write_end, &one, size) != (ssize_t)size) abort();
    }
}

void executor_drain_port(int index) {
    const struct executor_item *item = &executor.item[index];
    char bytes[64];
    if (item->read_end < 0) return;
    while (read(item->read_end, bytes, sizeof bytes) > 0) continue;
}
