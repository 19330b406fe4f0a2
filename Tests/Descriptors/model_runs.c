/* SPDX-License-Identifier: MIT */
/* Which calls the rules allow and ask for: the part of the model that looks at calls and runs. */
#include "model.h"

#include <runloop/runloop.h>

#include "contexts.h"
#include "handles.h"
#include "outcome.h"

/* While the second loop sleeps, operations and its callbacks meet at any moment: a call that is under way may come after what forbids it. */
static bool is_unsure(const struct object *object, const struct frame *frame) {
    if (!model_sleeps) return false;
    if (object->touched > model_sleeps) return true;
    /* The library takes connections, data and counts for others that have the file. */
    for (int i = 0; i < object_count; i++)
        if (file_of(objects[i].what->number) == file_of(object->what->number) &&
            object_is_in_loop(&objects[i], frame->sleeps ? 0 : 1))
            return true;
    return false;
}

static void check_call(int index, int types, struct frame *frame) {
    struct object *object = &objects[index];
    const struct file *file = file_of(object->what->number);
    /* Also when the other thread takes part: what this thread has disabled it is not called for. */
    if (object->is_valid && types & object->off[frame->loop]) return disagree("object %d is called for types %d after a Disable", index, types);
    if (is_unsure(object, frame)) return;
    if (object->is_closing) return disagree("object %d is called though it is being closed (S-SOCK-63)", index);
    if (!object->is_valid) return disagree("object %d is called after its end", index);
    /* S-SRC-33: one that is taken out of the mode before its turn in a pass has it. */
    bool has_turn = object_is_socket(object) && object->removed[frame->loop][frame->mode] > frame->start;
    if (!has_turn && (!object->has_source || !object->in_mode[frame->loop][frame->mode]))
        return disagree("object %d is called in a mode that it is not in", index);
    if (types & ~object->enabled || types == 0)
        return disagree("object %d is called for types %d of which it has %d enabled", index, types, object->enabled);
    if (object_is_socket(object)) {
        if (types == WRITE && object->is_queued && handle_queued(index) > 0)
            disagree("object %d is called for room while bytes are queued (S-SOCK-59)", index);
        /* A TCP peer acknowledges when it likes. */
        int seen = frame->seen[index] | file_ready(object->what->number);
        /* The failure of a connect is known by the queue that it has lost. */
        if (types == CONNECT && handle_queued(index) < 0) seen |= CONNECT;
        if (!object->is_stale && types & ~seen)
            disagree("object %d is called for types %d, was ready for %d in this run (S-SOCK-55)", index, types, seen);
        if (types & WRITE && object->has_failed) disagree("object %d is called for room after its connect has failed (S-SOCK-32)", index);
        return;
    }
    if (object->is_stale) {
        /* Of a port whose file is open under another number the kernel goes on to report events, and the number is not looked at. */
        if (!file && !(object->what->kind == PORT && object->is_haunted))
            disagree("object %d is called though its number is closed", index);
        return;
    }
    if (object->what->kind == PORT && file->kind == COUNTER) {
        /* S-SRC-46: it was read before the call. */
        if (file->count == 0) disagree("object %d is called though its counter is 0", index);
        if (file_ready(object->what->number) & READ) disagree("object %d is called without a read of its counter", index);
    } else if (types & ~file_ready(object->what->number)) {
        disagree("object %d is called for types %d, is ready for %d", index, types, file_ready(object->what->number));
    }
    if (object->what->kind == PORT && !object_is_last_port(object, frame->loop, frame->mode))
        disagree("object %d is called though another port was added later (S-SRC-44)", index);
}

void model_called(int index, int generation, int types, struct frame *frame) {
    struct object *object = &objects[index];
    frame->calls++;
    if (context_is_released(index, generation)) disagree("object %d is called after its context was released", index);
    if (object_is_socket(object)) frame->v0_calls++;
    else frame->v1_calls++;
    if (generation != object->generation) {
        /* The run may have begun the call before the end. */
        if (!frame->sleeps) disagree("object %d is called after its end", index);
        return;
    }
    check_call(index, types, frame);
    model_reports(object, types, frame->loop);
}

int model_content(int loop, int mode) {
    int count = 0;
    for (int i = 0; i < object_count; i++) {
        if (!objects[i].in_mode[loop][mode]) continue;
        if (objects[i].is_stale || objects[i].is_closing) return -1;
        count++;
    }
    return count;
}

/* What a run has to look after: how it found the objects. */
static int due_before[8][MAX_OBJECTS];

void model_run_begins(struct frame *frame) {
    frame->start = ++instant;
    for (int i = 0; i < object_count; i++) {
        frame->seen[i] = file_ready(objects[i].what->number);
        if (!frame->sleeps) due_before[frame->depth][i] = object_due(&objects[i], frame->loop, frame->mode);
    }
}

/* Something was due from before the run to its end, and it was not called. */
static bool was_passed_over(const struct frame *frame, int index) {
    const struct object *object = &objects[index];
    return due_before[frame->depth][index] & object_due(object, frame->loop, frame->mode) && !object->is_stale &&
           object->called < frame->start && object->touched < frame->start && !is_unsure(object, frame);
}

static int ports_in(const struct frame *frame) {
    int count = 0;
    for (int i = 0; i < object_count; i++)
        if (!object_is_socket(&objects[i]) && objects[i].in_mode[frame->loop][frame->mode]) count++;
    return count;
}

bool model_is_settled(const struct frame *frame) {
    for (int i = 0; i < object_count; i++)
        if ((objects[i].is_stale || objects[i].is_closing) && objects[i].in_mode[frame->loop][frame->mode]) return false;
    return true;
}

/* S-SRC-46, 50: a count is read for a port that is called, and for no other. */
static void check_counters(void) {
    for (int i = 0; i < NUMBERS && !model_sleeps; i++) {
        const struct file *file = file_of(i);
        if (file && file->kind == COUNTER && file->count > 0 && !(file_ready(i) & READ))
            disagree("number %d: its count was read for nobody", i);
    }
}

void model_run_ended(struct frame *frame, int content, int result) {
    check_counters();
    bool settled = model_is_settled(frame);
    int sends = 0;
    for (int i = 0; i < object_count; i++) {
        if (objects[i].is_queued || objects[i].has_ended_writing) sends++;
        if (!was_passed_over(frame, i) || objects[i].is_put_off[frame->loop]) continue;
        if (object_is_socket(&objects[i])) {
            /* S-SOCK-53, S-RUN-13. */
            if (!frame->handled || frame->v0_calls == 0) disagree("object %d was ready before the run and is not called (S-SOCK-53)", i);
        } else if (frame->v1_calls == 0 && (frame->polls || frame->handled) && (frame->polls || frame->v0_calls == 0)) {
            disagree("object %d was ready before the run, and no port is served", i);
        } else if (++objects[i].waited > 3 * ports_in(frame)) {
            disagree("object %d is ready and others have turn after turn (S-PASS-14)", i);
        }
    }
    if (frame->polls && frame->v1_calls > 1 && settled) disagree("a poll serves %d ports (S-RUN-27)", frame->v1_calls);
    /* A socket whose number was closed may cost sixteen passes (S-SOCK-13), and one that another loop is faster to report any number. */
    if (!model_sleeps && frame->passes > 2 * frame->calls + 2 * frame->acts + 2 + 4 * sends + (settled ? 0 : 16 * object_count))
        disagree("%d passes for %d calls", frame->passes, frame->calls);
    if (content == 0 && (result != kRLRunFinished || frame->calls > 0))
        disagree("a run of an empty mode has result %d", result);
    if (content == 0 || (content < 0 && frame->passes == 0)) return;
    if (frame->polls && frame->passes != 1) disagree("a poll makes %d passes", frame->passes);
    if (frame->handled && frame->calls > 0 && result != kRLRunHandledSource)
        disagree("%d calls, and the result is %d", frame->calls, result);
    if (frame->calls == 0 && result == kRLRunHandledSource && settled)
        disagree("no call, and the result is that a source was handled");
    if (!frame->handled && result == kRLRunHandledSource)
        disagree("the run is to go on, and returns that a source was handled");
    if (frame->polls && result != kRLRunTimedOut && result != kRLRunHandledSource) disagree("a poll has result %d", result);
}
